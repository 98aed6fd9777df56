//! `ovs-vsctl`: bridges, ports and their settings.
//!
//! A port is made at the end of its chain, when all that the chain says of it is known, as in Open vSwitch.

use super::super::Switch;
use super::super::device::{Device, DeviceKind};
use super::super::ports::{BridgeSpec, PortSpec};
use super::settings::{set_interface, set_port};
use super::vsctl_change::Change;
use super::{CommandError, refused};
use crate::openflow::bridge::{FailMode, Peer, VlanConfig};
use crate::openflow::command::datum::Datum;
use crate::openflow::command::schema::Table;
use crate::openflow::command::vsctl::{ColumnKey, Record, Setting, Verb, Vsctl, VsctlCommand};
use crate::types::{MacAddr, OfPort, Time};

/// A port that the chain adds.
pub(super) struct NewPort {
    bridge: String,
    pub(super) spec: PortSpec,
}

impl Switch {
    pub(super) fn vsctl(&mut self, call: &Vsctl, now: Time) -> Result<String, CommandError> {
        if call.oneline {
            return Err(refused("ovs-vsctl: --oneline is not supported here"));
        }
        // A port whose settings change forgets what was heard on it so far.
        self.credit(now);
        let mut text = String::new();
        let mut new_ports = Vec::new();
        let commands = super::mirror::resolve(call)?;
        // What is made may be named before.
        for command in &commands {
            if let Verb::Create(Table::Mirror, settings) = &command.verb {
                self.create_mirror(settings, command.id.as_deref())?;
            }
        }
        for command in &commands {
            if !matches!(
                command.verb,
                Verb::AddPort { .. }
                    | Verb::Set(..)
                    | Verb::Add(..)
                    | Verb::Remove(..)
                    | Verb::AddBr(_)
                    | Verb::Nothing
            ) {
                self.make_ports(&mut new_ports)?;
            }
            let printed = self.vsctl_command(command, &mut new_ports, now)?;
            text.push_str(&printed);
        }
        self.make_ports(&mut new_ports)?;
        self.join_patches()?;
        // What no bridge took is gone.
        self.new_mirrors.clear();
        let touches_mirrors = |command: &VsctlCommand| match &command.verb {
            Verb::Create(table, _) => *table == Table::Mirror,
            Verb::Set(record, _) | Verb::Add(record, ..) => {
                matches!(record.table, Table::Mirror | Table::Bridge)
            }
            _ => false,
        };
        if call.commands.iter().any(touches_mirrors) {
            self.check_mirrors()?;
        }
        Ok(text)
    }

    fn vsctl_command(
        &mut self,
        command: &VsctlCommand,
        new_ports: &mut Vec<NewPort>,
        now: Time,
    ) -> Result<String, CommandError> {
        let names = |mut names: Vec<String>| {
            names.sort();
            names.into_iter().map(|name| name + "\n").collect::<String>()
        };
        match &command.verb {
            Verb::Nothing => {}
            Verb::AddBr(name) => self.vsctl_add_br(&name.text, command.may_exist, now)?,
            Verb::DelBr(name) => {
                if !(command.if_exists && self.bridge_id(&name.text).is_err()) {
                    self.remove_bridge(&name.text).map_err(refused)?;
                }
            }
            Verb::ListBr => {
                return Ok(names(self.ofproto().bridges().map(|bridge| bridge.name.clone()).collect()));
            }
            Verb::BrExists(name) => {
                self.bridge_id(&name.text).map_err(refused)?;
            }
            Verb::ListPorts(name) | Verb::ListIfaces(name) => {
                let bridge = self.bridge_id(&name.text).map_err(refused)?;
                let ports =
                    self.ports().filter(|port| port.bridge == bridge && port.of_port != OfPort::LOCAL);
                return Ok(names(ports.map(|port| port.device.name.clone()).collect()));
            }
            Verb::PortToBr(name) | Verb::IfaceToBr(name) => return self.bridge_of(&name.text),
            Verb::AddPort { bridge, port, settings } => {
                self.vsctl_add_port(&bridge.text, &port.text, settings, command.may_exist, new_ports)?;
            }
            Verb::DelPort { bridge, port } => {
                self.vsctl_del_port(bridge.as_ref().map(|b| &*b.text), &port.text, command)?;
            }
            Verb::GetFailMode(name) => {
                let id = self.bridge_id(&name.text).map_err(refused)?;
                let secure =
                    self.ofproto().bridge(id).is_some_and(|bridge| bridge.fail_mode == FailMode::Secure);
                return Ok(if secure { "secure\n" } else { "standalone\n" }.to_owned());
            }
            Verb::SetFailMode(name, mode) => {
                let id = self.bridge_id(&name.text).map_err(refused)?;
                let secure = mode.as_ref().is_some_and(|mode| mode.text == "secure");
                let mode = if secure { FailMode::Secure } else { FailMode::Standalone };
                self.ofproto_mut().set_fail_mode(id, mode, now).map_err(refused)?;
            }
            Verb::Set(record, settings) => self.vsctl_set(record, settings, new_ports, now)?,
            Verb::Clear(record, columns) => {
                let cleared = |column: &&'static crate::openflow::command::schema::Column| Setting {
                    arg: record.name.arg,
                    column,
                    value: Datum::default_of(column),
                    by_key: false,
                };
                let settings: Vec<Setting> = columns.iter().map(cleared).collect();
                self.vsctl_set(record, &settings, new_ports, now)?;
            }
            Verb::Get(record, columns) => return self.vsctl_get(record, columns),
            Verb::Add(record, column, values) => {
                self.vsctl_change(Change::Add, (record, column, values), new_ports, now)?;
            }
            Verb::Remove(record, column, values) => {
                self.vsctl_change(Change::Remove, (record, column, values), new_ports, now)?;
            }
            // There are no fake bridges.
            Verb::BrToVlan(name) => {
                self.bridge_id(&name.text).map_err(refused)?;
                return Ok("0\n".to_owned());
            }
            Verb::BrToParent(name) => {
                self.bridge_id(&name.text).map_err(refused)?;
                return Ok(format!("{}\n", name.text));
            }
            Verb::Zone(zone) => return self.zone_command(zone, command, now),
            Verb::Destroy { table: Table::Mirror, records, all } => {
                self.destroy_mirrors(records, *all, command.if_exists)?;
            }
            // They are there; the record is only how they are named.
            Verb::Create(Table::Datapath | Table::Mirror, _) => {}
            Verb::Show
            | Verb::AddBond { .. }
            | Verb::List(..)
            | Verb::Find(..)
            | Verb::Create(..)
            | Verb::Destroy { .. }
            | Verb::WaitUntil(..) => {
                return Err(refused(format!("ovs-vsctl: {} is not supported here", command.name.text)));
            }
        }
        Ok(String::new())
    }

    fn vsctl_add_br(&mut self, name: &str, may_exist: bool, now: Time) -> Result<(), CommandError> {
        if may_exist && self.bridge_id(name).is_ok() {
            return Ok(());
        }
        let spec = BridgeSpec {
            name: name.to_owned(),
            fail_mode: FailMode::Standalone,
            mac: self.next_mac(0),
            vlan: VlanConfig::default(),
        };
        self.add_bridge(&spec, now).map(drop).map_err(refused)
    }

    fn vsctl_add_port(
        &mut self,
        bridge: &str,
        name: &str,
        settings: &[Setting],
        may_exist: bool,
        new_ports: &mut Vec<NewPort>,
    ) -> Result<(), CommandError> {
        self.bridge_id(bridge).map_err(refused)?;
        let exists =
            self.port_named(name).is_some() || new_ports.iter().any(|port| port.spec.device.name == name);
        if exists {
            if may_exist {
                return Ok(());
            }
            return Err(refused(format!(
                "ovs-vsctl: cannot create a port named {name} because a port named {name} already exists on bridge {bridge}"
            )));
        }
        let mac = self.next_mac(new_ports.len());
        let mut spec = PortSpec::new(Device::new(name, DeviceKind::Dummy, mac));
        for setting in settings {
            set_port(&mut spec, setting)?;
        }
        new_ports.push(NewPort { bridge: bridge.to_owned(), spec });
        Ok(())
    }

    fn vsctl_del_port(
        &mut self,
        bridge: Option<&str>,
        name: &str,
        command: &VsctlCommand,
    ) -> Result<(), CommandError> {
        let Some(port) = self.port_named(name) else {
            return if command.if_exists {
                Ok(())
            } else {
                Err(refused(format!("ovs-vsctl: no port named {name}")))
            };
        };
        let of = self.ofproto().bridge(port.bridge).map(|bridge| bridge.name.clone()).unwrap_or_default();
        if bridge.is_some_and(|bridge| bridge != of) {
            return Err(refused(format!(
                "ovs-vsctl: bridge {} does not have a port {name}",
                bridge.unwrap_or("")
            )));
        }
        self.remove_port(name).map_err(refused)
    }

    /// Makes the ports that the chain has asked for so far.
    fn make_ports(&mut self, new_ports: &mut Vec<NewPort>) -> Result<(), CommandError> {
        for NewPort { bridge, spec } in new_ports.drain(..) {
            let id = self.bridge_id(&bridge).map_err(refused)?;
            self.add_port(id, &spec).map_err(refused)?;
        }
        Ok(())
    }

    pub(super) fn vsctl_set(
        &mut self,
        record: &Record,
        settings: &[Setting],
        new_ports: &mut [NewPort],
        now: Time,
    ) -> Result<(), CommandError> {
        let name = &record.name.text;
        for setting in settings {
            match record.table {
                Table::OpenVSwitch => self.set_switch(setting, now)?,
                Table::Bridge => {
                    let id = self.bridge_id(name).map_err(refused)?;
                    self.set_bridge(id, name, setting, now)?;
                }
                Table::Port | Table::Interface => {
                    let tso = self.config().userspace_tso;
                    let apply = |spec: &mut PortSpec, setting: &Setting| match record.table {
                        Table::Port => set_port(spec, setting),
                        _ => set_interface(spec, setting, tso),
                    };
                    match new_ports.iter_mut().find(|port| port.spec.device.name == *name) {
                        Some(port) => apply(&mut port.spec, setting)?,
                        None => self.change_port(name, |spec| apply(spec, setting))?,
                    }
                }
                Table::Mirror => self.set_mirror(name, std::slice::from_ref(setting))?,
                table @ (Table::FlowTable | Table::Datapath) => {
                    let table = table.name();
                    return Err(refused(format!("ovs-vsctl: table {table} is not supported here")));
                }
            }
        }
        Ok(())
    }

    /// Changes a port that is there: its settings are kept, so only what differs is changed.
    fn change_port(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut PortSpec) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let port = self
            .port_named(name)
            .ok_or_else(|| refused(format!("ovs-vsctl: no row \"{name}\" in table Port")))?;
        let (bridge, of_port, before) = (port.bridge, port.of_port, port.spec());
        let mut spec = before.clone();
        change(&mut spec)?;
        if spec.device.kind != before.device.kind {
            return Err(refused(format!("the type of {name} cannot be changed: delete and add it")));
        }
        self.reconfigure_tunnel(name, &spec).map_err(refused)?;
        if spec.of_port.is_some_and(|wanted| wanted != of_port) && of_port != OfPort::LOCAL {
            // As in OVS: rules keep the number they name, whatever port has it then.
            self.remove_port(name).map_err(refused)?;
            return self.add_port(bridge, &spec).map(drop).map_err(refused);
        }
        self.ofproto_mut().set_port_vlans(bridge, of_port, &spec.vlan, spec.protected).map_err(refused)?;
        self.ofproto_mut().set_port_snooping(bridge, of_port, spec.snooping).map_err(refused)?;
        self.configure_device(name, |device| *device = spec.device.clone()).map_err(refused)?;
        self.remember_spec(name, &spec);
        Ok(())
    }

    fn vsctl_get(&mut self, record: &Record, columns: &[ColumnKey]) -> Result<String, CommandError> {
        let mut text = String::new();
        if columns.is_empty() && record.table == Table::Port && self.port_named(&record.name.text).is_none() {
            return Err(refused(format!("ovs-vsctl: no row \"{}\" in table Port", record.name.text)));
        }
        for column in columns {
            let name = column.column.map_or("_uuid", |column| column.name);
            if record.table == Table::Mirror {
                text.push_str(&self.mirror_column(&record.name.text, name)?);
                text.push('\n');
                continue;
            }
            let port = self.port_named(&record.name.text);
            let value = match (record.table, name, port) {
                (Table::Interface, "ofport", Some(port)) => port.of_port.0.to_string(),
                (Table::Interface, "mac_in_use", Some(port)) => format!("\"{}\"", port.device.mac),
                (Table::Interface | Table::Port, "name", Some(port)) => port.device.name.clone(),
                (Table::Interface, "mtu", Some(port)) => port.device.mtu.to_string(),
                (Table::Port | Table::Interface, _, None) => {
                    return Err(refused(format!(
                        "ovs-vsctl: no row \"{}\" in table {}",
                        record.name.text,
                        record.table.name()
                    )));
                }
                (table, name, _) => {
                    return Err(refused(format!(
                        "ovs-vsctl: get of {name} of {} is not supported here",
                        table.name()
                    )));
                }
            };
            text.push_str(&value);
            text.push('\n');
        }
        Ok(text)
    }

    fn bridge_of(&self, name: &str) -> Result<String, CommandError> {
        let port =
            self.port_named(name).ok_or_else(|| refused(format!("ovs-vsctl: no port named {name}")))?;
        Ok(self.ofproto().bridge(port.bridge).map(|bridge| bridge.name.clone() + "\n").unwrap_or_default())
    }

    /// The address of the next dummy device; `more` are planned before it.
    fn next_mac(&self, more: usize) -> MacAddr {
        let n = self.ports().count() + more;
        MacAddr([0xaa, 0x55, 0xaa, 0x55, (n >> 8) as u8, n as u8])
    }

    /// Joins patch ports that name each other, and parts those that do not any more.
    fn join_patches(&mut self) -> Result<(), CommandError> {
        let patches: Vec<_> = self
            .ports()
            .filter(|port| port.device.kind == DeviceKind::Patch)
            .map(|port| {
                (port.device.name.clone(), port.options.get("peer").cloned(), port.bridge, port.of_port)
            })
            .collect();
        for (name, peer, bridge, of_port) in &patches {
            let other = patches
                .iter()
                .find(|other| Some(&other.0) == peer.as_ref() && other.1.as_ref() == Some(name));
            let peer = other.map(|other| Peer { bridge: other.2, port: other.3 });
            let now = self
                .ofproto()
                .bridge(*bridge)
                .and_then(|bridge| bridge.port(*of_port))
                .and_then(|port| port.peer.clone());
            if now != peer {
                self.ofproto_mut().set_peer(*bridge, *of_port, peer).map_err(refused)?;
            }
        }
        Ok(())
    }
}
