//! What columns of the database mean for ports, devices, bridges and the switch.

use super::super::device::{DeviceKind, RxChecksum};
use super::super::ports::PortSpec;
use super::super::{Switch, SwitchConfig};
use super::{CommandError, refused};
use crate::offload::Capabilities;
use crate::openflow::bridge::{BridgeId, FailMode, PriorityTags, VlanMode};
use crate::openflow::command::datum::{Atom, Datum};
use crate::openflow::command::vsctl::Setting;
use crate::openflow::mac_learning::{DEFAULT_IDLE_SECS, DEFAULT_MAX_ENTRIES};
use crate::openflow::mcast_snooping::{PortSnooping, SnoopingConfig};
use crate::openflow::ofproto::Changes;
use crate::pipeline::Config;
use crate::tunnel::TunnelKind;
use crate::types::{MacAddr, OfPort, Span, Time};

fn numbers(value: &Datum) -> Vec<u16> {
    value
        .atoms()
        .filter_map(|atom| if let Atom::Int(n) = atom { u16::try_from(*n).ok() } else { None })
        .collect()
}

/// Applies a column of `Port`.
pub(super) fn set_port(spec: &mut PortSpec, setting: &Setting) -> Result<(), CommandError> {
    let value = &setting.value;
    match setting.column.name {
        "tag" => spec.vlan.tag = numbers(value).first().copied(),
        "trunks" => spec.vlan.trunks = numbers(value),
        "cvlans" => spec.vlan.cvlans = numbers(value),
        "protected" => spec.protected = value.as_bool().unwrap_or(false),
        "vlan_mode" => spec.vlan.mode = value.as_str().and_then(VlanMode::from_name),
        "other_config" => {
            if let Some(tags) = value.get("priority-tags") {
                spec.vlan.priority_tags = match tags {
                    "always" | "true" => PriorityTags::Always,
                    "if-nonzero" => PriorityTags::IfNonzero,
                    _ => PriorityTags::Never,
                };
            } else if !setting.by_key {
                spec.vlan.priority_tags = PriorityTags::Never;
            }
            let flag = |key: &str, old: bool| match value.get(key) {
                Some(text) => text.eq_ignore_ascii_case("true"),
                None => old && setting.by_key,
            };
            spec.snooping = PortSnooping {
                flood: flag("mcast-snooping-flood", spec.snooping.flood),
                flood_reports: flag("mcast-snooping-flood-reports", spec.snooping.flood_reports),
            };
            if let Some(ethertype) = value.get("qinq-ethtype") {
                spec.vlan.qinq_8021q = ethertype == "802.1q";
            } else if !setting.by_key {
                spec.vlan.qinq_8021q = false;
            }
        }
        "name" | "interfaces" => {
            return Err(refused(format!("{} of a port cannot be changed", setting.column.name)));
        }
        _ => {}
    }
    Ok(())
}

/// Applies a column of `Interface`; `tso`: whether packets may be segmented (`userspace-tso-enable`).
pub(super) fn set_interface(spec: &mut PortSpec, setting: &Setting, tso: bool) -> Result<(), CommandError> {
    let value = &setting.value;
    match setting.column.name {
        "type" => {
            spec.device.kind = match value.as_str().unwrap_or("") {
                "" | "system" | "dummy" => DeviceKind::Dummy,
                "dummy-pmd" => DeviceKind::DummyPmd,
                "internal" | "dummy-internal" => DeviceKind::Internal,
                "patch" => DeviceKind::Patch,
                other => match TunnelKind::from_name(other) {
                    Some(kind) => DeviceKind::Tunnel(kind),
                    None => {
                        return Err(refused(format!(
                            "interface type {other} is not supported here: use dummy, dummy-pmd, internal, patch, \
                             vxlan, geneve, gre, erspan, gtpu or srv6"
                        )));
                    }
                },
            }
        }
        "ofport_request" => spec.of_port = numbers(value).first().copied().map(OfPort),
        "mtu_request" => spec.device.mtu = numbers(value).first().copied().unwrap_or(1500),
        "mac" => {
            if let Some(mac) = value.as_str() {
                spec.device.mac = mac.parse().map_err(refused)?;
            }
        }
        "options" => {
            if let Datum::Map(map) = value {
                if !setting.by_key {
                    spec.options.clear();
                }
                for (key, value) in map {
                    if let (Atom::Str(key), Atom::Str(value)) = (key, value) {
                        spec.options.insert(key.clone(), value.clone());
                    }
                }
            }
            if !matches!(spec.device.kind, DeviceKind::Tunnel(_)) {
                apply_options(spec, tso)?;
            }
        }
        "name" => return Err(refused("the name of an interface cannot be changed")),
        _ => {}
    }
    Ok(())
}

/// What the options of a dummy device say of its offloads: a device that announces one completes the packet itself, unless that is
/// disabled; what it does not announce it would leave (OVS `lib/netdev-dummy.c`).
fn apply_options(spec: &mut PortSpec, tso: bool) -> Result<(), CommandError> {
    let on = |key: &str| spec.options.get(key).is_some_and(|value| value == "true");
    let rx = |layer: &str| {
        if on(&format!("ol_{layer}_rx_csum_set_good")) {
            RxChecksum::Good
        } else if on(&format!("ol_{layer}_rx_csum_set_bad")) {
            RxChecksum::Bad
        } else if on(&format!("ol_{layer}_rx_csum_set_partial")) {
            RxChecksum::Partial
        } else {
            RxChecksum::Unknown
        }
    };
    let segment = match spec.options.get("ol_tso_segsz") {
        Some(text) => {
            text.parse().map_err(|_| refused(format!("ol_tso_segsz={text} is not a number of bytes")))?
        }
        None => 0,
    };
    let segment = if tso { segment } else { 0 };
    let (ip, l4) = (rx("ip"), rx("l4"));
    let (mut announced, mut left) = (Capabilities::empty(), Capabilities::empty());
    for (option, what) in [
        ("ol_ip_tx_csum", Capabilities::IP_CSUM),
        ("ol_l4_tx_csum", Capabilities::TCP_CSUM | Capabilities::UDP_CSUM),
        ("ol_out_ip_tx_csum", Capabilities::OUTER_IP_CSUM),
        ("ol_out_udp_tx_csum", Capabilities::OUTER_UDP_CSUM),
    ] {
        announced.set(what, on(option));
        left.set(what, !on(option) || on(&format!("{option}_disabled")));
    }
    if segment != 0 {
        announced |= Capabilities::TSO | Capabilities::TCP_CSUM;
    }
    let device = &mut spec.device;
    (device.capabilities, device.leaves) = (announced, Some(announced & left));
    (device.rx_ip, device.rx_l4, device.rx_tso_segsz) = (ip, l4, segment);
    Ok(())
}

impl Switch {
    /// Applies a column of `Bridge`.
    pub(super) fn set_bridge(
        &mut self,
        id: BridgeId,
        name: &str,
        setting: &Setting,
        now: Time,
    ) -> Result<(), CommandError> {
        let value = &setting.value;
        match setting.column.name {
            "fail_mode" => {
                let mode =
                    if value.as_str() == Some("secure") { FailMode::Secure } else { FailMode::Standalone };
                self.ofproto_mut().set_fail_mode(id, mode, now).map_err(refused)?;
            }
            "mirrors" => {
                let names: Vec<String> = value
                    .atoms()
                    .filter_map(|atom| if let Atom::Str(name) = atom { Some(name.clone()) } else { None })
                    .collect();
                self.set_bridge_mirrors(id, &names)?;
            }
            "flood_vlans" => {
                let vlans = numbers(value).into_iter().collect();
                if let Some(table) = self.ofproto_mut().mac_table_mut(id) {
                    table.set_flood_vlans(vlans);
                }
                self.ofproto_mut().set_changed(Changes::PORTS);
            }
            "mcast_snooping_enable" => {
                let bridge = self.ofproto().bridge(id).ok_or_else(|| refused("no such bridge"))?;
                let config = bridge.snooping;
                let on = value.as_bool().unwrap_or(false);
                self.ofproto_mut().set_snooping(id, on, &config).map_err(refused)?;
            }
            "other_config" => self.set_bridge_other_config(id, name, setting)?,
            "flow_tables" | "ports" | "name" => {
                return Err(refused(format!(
                    "column {} of a bridge cannot be set here",
                    setting.column.name
                )));
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies `other_config` of a bridge. Without a key, the whole column is replaced: what it does not say has its default
    /// again. 0 stands for a default, too.
    fn set_bridge_other_config(
        &mut self,
        id: BridgeId,
        name: &str,
        setting: &Setting,
    ) -> Result<(), CommandError> {
        let value = &setting.value;
        let whole = !setting.by_key;
        let mac = value.get("hwaddr").map(str::parse::<MacAddr>).transpose().map_err(refused)?;
        let number = |key: &str, default: u64| match value.get(key) {
            Some("0") => Ok(Some(default)),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| refused(format!("{key}={text} is not a number")))
            }
            None => Ok(whole.then_some(default)),
        };
        let idle_secs = number("mac-aging-time", DEFAULT_IDLE_SECS)?;
        let max_entries = number("mac-table-size", DEFAULT_MAX_ENTRIES as u64)?;
        let default = SnoopingConfig::default();
        let aging_secs = number("mcast-snooping-aging-time", default.aging_secs)?;
        let max_groups = number("mcast-snooping-table-size", default.max_groups as u64)?;
        let flag = |key: &str| match value.get(key) {
            Some(text) => Some(text.eq_ignore_ascii_case("true")),
            None => whole.then_some(false),
        };
        let bridge = self.ofproto().bridge(id).ok_or_else(|| refused("no such bridge"))?;
        let (snoops, old) = (bridge.snoops, bridge.snooping);
        let snooping = SnoopingConfig {
            aging_secs: aging_secs.unwrap_or(old.aging_secs),
            max_groups: max_groups.map_or(old.max_groups, |max| max as usize),
            flood_unregistered: flag("mcast-snooping-disable-flood-unregistered")
                .map_or(old.flood_unregistered, |off| !off),
        };
        if let Some(mac) = mac {
            self.configure_device(name, |device| device.mac = mac).map_err(refused)?;
        }
        if let Some(on) = flag("forward-bpdu") {
            self.ofproto_mut().set_forward_bpdu(id, on).map_err(refused)?;
        }
        if let Some(table) = self.ofproto_mut().mac_table_mut(id) {
            if let Some(secs) = idle_secs {
                table.set_idle_time(secs);
            }
            if let Some(max) = max_entries {
                table.set_max_entries(max as usize);
            }
        }
        self.ofproto_mut().set_changed(Changes::PORTS);
        self.ofproto_mut().set_snooping(id, snoops, &snooping).map_err(refused)
    }

    /// Applies a column of `Open_vSwitch`.
    pub(super) fn set_switch(&mut self, setting: &Setting, now: Time) -> Result<(), CommandError> {
        match setting.column.name {
            "other_config" => {}
            "bridges" => return Err(refused("column bridges cannot be set here: use add-br and del-br")),
            _ => return Ok(()),
        }
        let value = &setting.value;
        let number = |key: &str| match value.get(key) {
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| refused(format!("{key}={text} is not a number")))
            }
            None => Ok(None),
        };
        // Without a key, the whole column is replaced: what it does not say has its default again.
        let (mut config, mut own) = match setting.by_key {
            true => (*self.datapath().config(), *self.config()),
            false => (Config::default(), SwitchConfig::default()),
        };
        if let Some(limit) = number("vlan-limit")? {
            // 0 is as many as there can be.
            config.vlan_limit = if limit == 0 { 2 } else { limit.min(2) as u8 };
        }
        if let Some(limit) = number("flow-limit")? {
            config.flow_limit = limit as usize;
        }
        if let Some(chance) = number("emc-insert-inv-prob")? {
            config.emc_insert_inv_prob = u32::try_from(chance)
                .map_err(|_| refused(format!("emc-insert-inv-prob={chance} is too large")))?;
        }
        if let Some(on) = value.get("smc-enable") {
            config.smc = on == "true";
        }
        if let Some(ms) = number("max-idle")? {
            own.max_idle = Span::from_millis(ms);
        }
        if let Some(ms) = number("max-revalidator")? {
            own.max_revalidator = Span::from_millis(ms);
        }
        // Open vSwitch reads this once, when it starts; here it is followed.
        if let Some(on) = value.get("userspace-tso-enable") {
            own.userspace_tso = on == "true";
        }
        let tso_changes = own.userspace_tso != self.config().userspace_tso;
        self.configure_datapath(config, now);
        self.configure(own);
        if tso_changes { self.apply_all_options() } else { Ok(()) }
    }

    /// Makes every device what its options say.
    fn apply_all_options(&mut self) -> Result<(), CommandError> {
        let tso = self.config().userspace_tso;
        let mut specs: Vec<PortSpec> =
            self.ports().filter(|port| !port.options.is_empty()).map(|port| port.spec()).collect();
        for spec in specs.iter_mut().filter(|spec| !matches!(spec.device.kind, DeviceKind::Tunnel(_))) {
            apply_options(spec, tso)?;
            let name = spec.device.name.clone();
            self.configure_device(&name, |device| *device = spec.device.clone()).map_err(refused)?;
        }
        Ok(())
    }
}
