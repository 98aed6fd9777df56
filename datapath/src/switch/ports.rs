//! Bridges and ports of a switch: adding, removing, finding, reconfiguring them in datapath and slow path together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use thiserror::Error;

use super::Switch;
use super::device::{Device, DeviceKind, choose_port_number};
use crate::flow::text::PortNames;
use crate::openflow::bridge::{self, BridgeId, FailMode, VlanConfig};
use crate::openflow::mcast_snooping::PortSnooping;
use crate::openflow::ofproto::ConfigError;
use crate::pipeline::{PortConfig, PortError, PortStats};
use crate::trace::Off;
use crate::types::{MacAddr, OfPort, PortNo, Time};

/// Why a bridge or port was not added, changed or found.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The name is a bridge's or port's already.
    #[error("there is a port or bridge {0} already: choose another name")]
    NameTaken(String),
    /// No such bridge.
    #[error("there is no bridge {0}")]
    NoBridge(String),
    /// No such port.
    #[error("there is no port {0}")]
    NoPort(String),
    /// The bridge's own port goes with the bridge.
    #[error("{0} is the bridge's own port: delete the bridge instead")]
    LocalPort(String),
    /// No datapath port number is free.
    #[error("no datapath port number is free for {0}")]
    NoNumber(String),
    /// The options of a tunnel port are wrong.
    #[error("{0}")]
    Tunnel(String),
    /// The slow path refused it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The datapath refused it.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A bridge to add.
#[derive(Clone, Debug)]
pub struct BridgeSpec {
    /// Name; its own port gets the same.
    pub name: String,
    /// What it does without rules and controller.
    pub fail_mode: FailMode,
    /// Address of its own port.
    pub mac: MacAddr,
    /// VLANs of its own port.
    pub vlan: VlanConfig,
}

/// A port to add to a bridge.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Device.
    pub device: Device,
    /// OpenFlow number wanted; given if free.
    pub of_port: Option<OfPort>,
    /// VLANs.
    pub vlan: VlanConfig,
    /// `protected`.
    pub protected: bool,
    /// What it gets where the bridge snoops on multicast groups.
    pub snooping: PortSnooping,
    /// `options` of OVS's `Interface`, as given.
    pub options: BTreeMap<String, String>,
}

impl PortSpec {
    /// A port that trunks all VLANs, with any OpenFlow number.
    pub fn new(device: Device) -> Self {
        Self {
            device,
            of_port: None,
            vlan: VlanConfig::default(),
            protected: false,
            snooping: PortSnooping::default(),
            options: BTreeMap::new(),
        }
    }
}

/// A port of the switch.
#[derive(Clone, Debug)]
pub struct SwitchPort {
    /// Number in the datapath; patch ports have none, and those that tunnels share are told by
    /// [`crate::openflow::tunnel::Tunnels`].
    pub no: Option<PortNo>,
    /// Bridge.
    pub bridge: BridgeId,
    /// OpenFlow number.
    pub of_port: OfPort,
    /// Device.
    pub device: Device,
    /// OpenFlow number that was asked for.
    wanted: Option<OfPort>,
    /// VLANs.
    pub vlan: VlanConfig,
    /// `protected`.
    pub protected: bool,
    /// What it gets where the bridge snoops on multicast groups.
    pub snooping: PortSnooping,
    /// `options` of OVS's `Interface`, as given.
    pub options: BTreeMap<String, String>,
}

impl SwitchPort {
    /// A port that is not in the datapath by itself.
    pub(super) fn new(bridge: BridgeId, of_port: OfPort, spec: &PortSpec) -> Self {
        Self {
            no: None,
            bridge,
            of_port,
            device: spec.device.clone(),
            wanted: spec.of_port,
            vlan: spec.vlan.clone(),
            protected: spec.protected,
            snooping: spec.snooping,
            options: spec.options.clone(),
        }
    }

    /// The settings it was made with, or changed to.
    pub fn spec(&self) -> PortSpec {
        PortSpec {
            device: self.device.clone(),
            of_port: self.wanted,
            vlan: self.vlan.clone(),
            protected: self.protected,
            snooping: self.snooping,
            options: self.options.clone(),
        }
    }
}

impl Switch {
    /// Adds a bridge with its own (LOCAL) port.
    ///
    /// # Errors
    /// [`SwitchError`]; nothing is changed then.
    pub fn add_bridge(&mut self, spec: &BridgeSpec, now: Time) -> Result<BridgeId, SwitchError> {
        if self.port_named(&spec.name).is_some() {
            return Err(SwitchError::NameTaken(spec.name.clone()));
        }
        let id = self.of.add_bridge(&spec.name, spec.fail_mode, now)?;
        let local = PortSpec {
            of_port: Some(OfPort::LOCAL),
            vlan: spec.vlan.clone(),
            ..PortSpec::new(Device::new(&spec.name, DeviceKind::Internal, spec.mac))
        };
        if let Err(error) = self.add_port(id, &local) {
            self.of.remove_bridge(id)?;
            return Err(error);
        }
        Ok(id)
    }

    /// Removes a bridge and its ports.
    ///
    /// # Errors
    /// [`SwitchError::NoBridge`].
    pub fn remove_bridge(&mut self, name: &str) -> Result<(), SwitchError> {
        let bridge = self.bridge_id(name)?;
        let ports: Vec<PortNo> =
            self.ports.iter().filter(|(_, port)| port.bridge == bridge).map(|(&no, _)| no).collect();
        for no in ports {
            if let Some(port) = self.ports.remove(&no) {
                self.of.tunnels_mut().forget_device(&port.device.name);
            }
            self.dp.remove_port(no, &mut Off)?;
        }
        let tunnels: Vec<OfPort> = self.tunnel_ports_of(bridge).collect();
        for port in tunnels {
            self.forget_tunnel(bridge, port);
        }
        self.of.neighbors_mut().flush(Some(name));
        self.virtual_ports.retain(|_, port| port.bridge != bridge);
        // The bridge was just found.
        let _ = self.remove_meters(bridge, None);
        self.of.remove_bridge(bridge)?;
        Ok(())
    }

    /// The bridge with a name.
    ///
    /// # Errors
    /// [`SwitchError::NoBridge`].
    pub fn bridge_id(&self, name: &str) -> Result<BridgeId, SwitchError> {
        self.of
            .bridge_named(name)
            .map(|bridge| bridge.id)
            .ok_or_else(|| SwitchError::NoBridge(name.to_owned()))
    }

    /// Adds a port to a bridge; returns its OpenFlow number, and that in the datapath unless it is a patch port.
    ///
    /// # Errors
    /// [`SwitchError`]; nothing is changed then.
    pub fn add_port(
        &mut self,
        bridge: BridgeId,
        spec: &PortSpec,
    ) -> Result<(OfPort, Option<PortNo>), SwitchError> {
        let name = &spec.device.name;
        if self.port_named(name).is_some() {
            return Err(SwitchError::NameTaken(name.clone()));
        }
        let no = match spec.device.kind {
            DeviceKind::Patch => None,
            DeviceKind::Tunnel(kind) => return self.add_tunnel(bridge, kind, spec),
            DeviceKind::Dummy | DeviceKind::DummyPmd | DeviceKind::Internal => {
                let free = |number| self.dp.port(PortNo(number)).is_none();
                let number = choose_port_number(name, spec.of_port == Some(OfPort::LOCAL), free)
                    .ok_or_else(|| SwitchError::NoNumber(name.clone()))?;
                Some(PortNo(number))
            }
        };
        let of_port = self.of.add_port(
            bridge,
            &bridge::PortSpec {
                name: name.clone(),
                of_port: spec.of_port,
                odp_port: no,
                tunnel: None,
                mac: spec.device.mac,
                vlan: spec.vlan.clone(),
                protected: spec.protected,
                snooping: spec.snooping,
            },
        )?;
        let port = SwitchPort { no, ..SwitchPort::new(bridge, of_port, spec) };
        match no {
            Some(no) => {
                if let Err(error) = self.dp.add_port(no, datapath_config(&spec.device)) {
                    self.of.remove_port(bridge, of_port)?;
                    return Err(error.into());
                }
                self.ports.insert(no, port);
            }
            None => {
                self.virtual_ports.insert(name.clone(), port);
            }
        }
        self.sync_link(name)?;
        Ok((of_port, no))
    }

    /// Removes a port.
    ///
    /// # Errors
    /// [`SwitchError`] if there is none of this name, or it is a bridge's own.
    pub fn remove_port(&mut self, name: &str) -> Result<(), SwitchError> {
        let port = self.port_named(name).ok_or_else(|| SwitchError::NoPort(name.to_owned()))?;
        let (bridge, of_port, no) = (port.bridge, port.of_port, port.no);
        if of_port == OfPort::LOCAL {
            return Err(SwitchError::LocalPort(name.to_owned()));
        }
        self.of.remove_port(bridge, of_port)?;
        match no {
            Some(no) => {
                self.ports.remove(&no);
                self.of.tunnels_mut().forget_device(name);
                self.dp.remove_port(no, &mut Off)?;
            }
            None => {
                self.virtual_ports.remove(name);
                self.forget_tunnel(bridge, of_port);
            }
        }
        Ok(())
    }

    /// All ports: those in the datapath by number, then patch and tunnel ports by name.
    pub fn ports(&self) -> impl Iterator<Item = &SwitchPort> {
        self.ports.values().chain(self.virtual_ports.values())
    }

    /// The port with a number in the datapath.
    pub fn port(&self, no: PortNo) -> Option<&SwitchPort> {
        self.ports.get(&no)
    }

    /// The port with a name.
    pub fn port_named(&self, name: &str) -> Option<&SwitchPort> {
        self.ports().find(|port| port.device.name == name)
    }

    /// Counters of a port; those of the datapath, or of a patch or tunnel port what was credited to it so far.
    pub fn port_stats(&self, port: &SwitchPort) -> PortStats {
        match port.no {
            Some(no) => self.dp.port(no).map(|port| *port.stats()).unwrap_or_default(),
            None => {
                let stats = self.of.patch_stats(port.bridge, port.of_port);
                PortStats {
                    rx_packets: stats.rx_packets,
                    rx_bytes: stats.rx_bytes,
                    tx_packets: stats.tx_packets,
                    tx_bytes: stats.tx_bytes,
                    tx_dropped: 0,
                }
            }
        }
    }

    /// Changes a port's device; datapath and slow path follow.
    ///
    /// # Errors
    /// [`SwitchError::NoPort`].
    pub fn configure_device(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Device),
    ) -> Result<(), SwitchError> {
        let port = self
            .ports
            .values_mut()
            .chain(self.virtual_ports.values_mut())
            .find(|port| port.device.name == name);
        let port = port.ok_or_else(|| SwitchError::NoPort(name.to_owned()))?;
        change(&mut port.device);
        let (no, config) = (port.no, datapath_config(&port.device));
        if let Some(no) = no {
            self.dp.configure_port(no, config)?;
        }
        self.sync_link(name)
    }

    /// Keeps the settings of a port that were carried out.
    pub(super) fn remember_spec(&mut self, name: &str, spec: &PortSpec) {
        let mut ports = self.ports.values_mut().chain(self.virtual_ports.values_mut());
        if let Some(port) = ports.find(|port| port.device.name == name) {
            port.wanted = spec.of_port;
            port.vlan = spec.vlan.clone();
            port.protected = spec.protected;
            port.snooping = spec.snooping;
            port.options = spec.options.clone();
        }
    }

    fn sync_link(&mut self, name: &str) -> Result<(), SwitchError> {
        let port = self.port_named(name).ok_or_else(|| SwitchError::NoPort(name.to_owned()))?;
        let (bridge, of_port) = (port.bridge, port.of_port);
        let up = port.device.admin_up && port.device.carrier;
        let known = self.of.bridge(bridge).and_then(|bridge| bridge.port(of_port)).map(|port| port.link_up);
        let mac = port.device.mac;
        if known != Some(up) {
            self.of.set_link(bridge, of_port, up)?;
        }
        let known = self.of.bridge(bridge).and_then(|bridge| bridge.port(of_port)).map(|port| port.mac);
        if known != Some(mac) || self.of.tunnels().mac(name) != Some(mac) {
            self.of.set_port_mac(bridge, of_port, mac)?;
        }
        Ok(())
    }
}

/// How the datapath is to treat a device.
fn datapath_config(device: &Device) -> PortConfig {
    PortConfig {
        up: device.admin_up && device.carrier,
        mtu: device.mtu,
        capabilities: device.capabilities,
        leaves: device.leaves,
        // OVS looks at it in poll-mode threads only.
        simple_match: device.kind == DeviceKind::DummyPmd,
        tunnel: None,
    }
}

impl PortNames for Switch {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        if let Some(name) = self.of.tunnels().listener_name(port) {
            return Some(Cow::Borrowed(name));
        }
        self.ports.get(&port).map(|port| Cow::Borrowed(port.device.name.as_str()))
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        let device = || self.ports.iter().find(|(_, port)| port.device.name == name).map(|(&no, _)| no);
        self.of.tunnels().listener_named(name).or_else(device)
    }
}
