//! Tunnel ports: several of them share one port of the datapath.

use super::Switch;
use super::device::{DeviceKind, choose_port_number};
use super::ports::{PortSpec, SwitchError, SwitchPort};
use crate::openflow::bridge::{self, BridgeId};
use crate::openflow::tunnel::TunnelConfig;
use crate::pipeline::PortConfig;
use crate::trace::Off;
use crate::tunnel::TunnelKind;
use crate::types::{OfPort, PortNo};

impl Switch {
    /// Adds a tunnel port; returns its OpenFlow number, and that of the datapath port which it shares.
    pub(super) fn add_tunnel(
        &mut self,
        bridge: BridgeId,
        kind: TunnelKind,
        spec: &PortSpec,
    ) -> Result<(OfPort, Option<PortNo>), SwitchError> {
        let name = &spec.device.name;
        let config = TunnelConfig::parse(name, kind, &spec.options).map_err(SwitchError::Tunnel)?;
        let no = self.listener(name, &config)?;
        let of_port = self.of.add_port(
            bridge,
            &bridge::PortSpec {
                name: name.clone(),
                of_port: spec.of_port,
                odp_port: Some(no),
                tunnel: Some(config),
                mac: spec.device.mac,
                vlan: spec.vlan.clone(),
                protected: spec.protected,
                snooping: spec.snooping,
            },
        )?;
        self.ensure_listener(no, kind)?;
        self.virtual_ports.insert(name.clone(), SwitchPort::new(bridge, of_port, spec));
        Ok((of_port, Some(no)))
    }

    /// The datapath port for a tunnel with these settings, which may be a new one.
    fn listener(&self, name: &str, config: &TunnelConfig) -> Result<PortNo, SwitchError> {
        let tunnels = self.of.tunnels();
        if let Some(no) = tunnels.listener_for(config) {
            return match tunnels.conflict(config, no) {
                Some(other) if other != name => Err(SwitchError::Tunnel(format!(
                    "{name}: attempting to add tunnel port with same config as port '{other}'"
                ))),
                _ => Ok(no),
            };
        }
        let device = config.kind.device_name(config.dst_port);
        let free = |number| self.dp.port(PortNo(number)).is_none();
        choose_port_number(&device, false, free).map(PortNo).ok_or(SwitchError::NoNumber(device))
    }

    fn ensure_listener(&mut self, no: PortNo, kind: TunnelKind) -> Result<(), SwitchError> {
        if self.dp.port(no).is_none() {
            let config =
                PortConfig { up: false, simple_match: false, tunnel: Some(kind), ..PortConfig::default() };
            self.dp.add_port(no, config)?;
        }
        Ok(())
    }

    /// Changes the options of a tunnel port.
    pub(super) fn reconfigure_tunnel(&mut self, name: &str, spec: &PortSpec) -> Result<(), SwitchError> {
        let DeviceKind::Tunnel(kind) = spec.device.kind else { return Ok(()) };
        let port = self.port_named(name).ok_or_else(|| SwitchError::NoPort(name.to_owned()))?;
        let at = (port.bridge, port.of_port);
        let config = TunnelConfig::parse(name, kind, &spec.options).map_err(SwitchError::Tunnel)?;
        if self.of.tunnels().config(at.0, at.1) == Some(&config) {
            return Ok(());
        }
        let no = self.listener(name, &config)?;
        self.ensure_listener(no, kind)?;
        let gone = self.of.tunnels_mut().remove_port(at);
        self.of.tunnels_mut().add_port(at, name, config, no);
        self.of.set_odp_port(at.0, at.1, no)?;
        if let Some(gone) = gone.filter(|&gone| gone != no) {
            self.dp.remove_port(gone, &mut Off)?;
        }
        Ok(())
    }

    /// Forgets a tunnel port of a bridge, and the datapath port that nobody uses then.
    pub(super) fn forget_tunnel(&mut self, bridge: BridgeId, port: OfPort) {
        if let Some(gone) = self.of.tunnels_mut().remove_port((bridge, port)) {
            // It was there for tunnels only.
            let _ = self.dp.remove_port(gone, &mut Off);
        }
    }

    /// Tunnel ports of a bridge.
    pub(super) fn tunnel_ports_of(&self, bridge: BridgeId) -> impl Iterator<Item = OfPort> {
        let tunnel = |port: &&SwitchPort| matches!(port.device.kind, DeviceKind::Tunnel(_));
        self.virtual_ports
            .values()
            .filter(tunnel)
            .filter(move |port| port.bridge == bridge)
            .map(|port| port.of_port)
    }
}
