//! `ovs-vsctl` on mirrors: records that commands of a chain name, and what they come to on bridges.
//!
//! As in Open vSwitch, a mirror that no bridge has is gone at the end of the chain.

use std::collections::BTreeMap;

use super::super::Switch;
use super::{CommandError, refused};
use crate::openflow::bridge::{BridgeId, Mirror, MirrorOutput};
use crate::openflow::command::Word;
use crate::openflow::command::datum::{Atom, Datum};
use crate::openflow::command::schema::Table;
use crate::openflow::command::vsctl::{Setting, Verb, Vsctl, VsctlCommand};
use crate::openflow::text::parse_match;

/// The chain with the names of records in place of `@name`.
///
/// # Errors
/// That nothing in the chain is called so.
pub(super) fn resolve(call: &Vsctl) -> Result<Vec<VsctlCommand>, CommandError> {
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for command in &call.commands {
        let Some(id) = &command.id else { continue };
        let name = match &command.verb {
            Verb::Get(record, _) => record.name.text.clone(),
            Verb::Create(Table::Mirror, settings) => created_name(settings, id),
            Verb::Create(Table::Datapath, _) => continue,
            _ => return Err(refused(format!("ovs-vsctl: --id is not supported with {}", command.name.text))),
        };
        names.insert(id, name);
    }
    let mut commands = call.commands.clone();
    for command in &mut commands {
        match &mut command.verb {
            Verb::Create(Table::Mirror, settings)
            | Verb::Set(_, settings)
            | Verb::AddPort { settings, .. } => {
                for setting in settings {
                    resolve_datum(&mut setting.value, &names)?;
                }
            }
            Verb::Add(_, _, words) | Verb::Remove(_, _, words) => {
                for word in words {
                    if let Some(id) = word.text.strip_prefix('@') {
                        word.text = named(id, &names)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(commands)
}

fn created_name(settings: &[Setting], id: &str) -> String {
    let name = settings.iter().find(|setting| setting.column.name == "name");
    name.and_then(|setting| setting.value.as_str()).map_or_else(|| format!("@{id}"), str::to_owned)
}

fn named(id: &str, names: &BTreeMap<&str, String>) -> Result<String, CommandError> {
    let known = names.get(id).cloned();
    known.ok_or_else(|| {
        refused(format!("ovs-vsctl: row id \"@{id}\" is referenced but never created with --id"))
    })
}

fn resolve_datum(datum: &mut Datum, names: &BTreeMap<&str, String>) -> Result<(), CommandError> {
    let Datum::Set(set) = datum else { return Ok(()) };
    let resolved: Result<_, _> = std::mem::take(set)
        .into_iter()
        .map(|atom| match atom {
            // `datapaths:netdev=@dp` names what is there in any case.
            Atom::Named(id) => named(&id, names).map(Atom::Str),
            other => Ok(other),
        })
        .collect();
    *set = resolved?;
    Ok(())
}

fn words(value: &Datum) -> Vec<String> {
    value
        .atoms()
        .filter_map(|atom| match atom {
            Atom::Str(text) => Some(text.clone()),
            Atom::Int(_) | Atom::Bool(_) | Atom::Row(_) | Atom::Named(_) => None,
        })
        .collect()
}

fn vlans(value: &Datum) -> Vec<u16> {
    value
        .atoms()
        .filter_map(|atom| if let Atom::Int(n) = atom { u16::try_from(*n).ok() } else { None })
        .collect()
}

/// Applies columns to a mirror.
fn apply(mirror: &mut Mirror, settings: &[Setting]) -> Result<(), CommandError> {
    // A port counts more than a VLAN, as in OVS.
    let mut output_vlan = match mirror.output {
        Some(MirrorOutput::Vlan(vlan)) => Some(vlan),
        Some(MirrorOutput::Port(_)) | None => None,
    };
    let mut output_port = match &mirror.output {
        Some(MirrorOutput::Port(port)) => Some(port.clone()),
        Some(MirrorOutput::Vlan(_)) | None => None,
    };
    for Setting { column, value, .. } in settings {
        match column.name {
            "name" => mirror.name = value.as_str().unwrap_or_default().to_owned(),
            "select_all" => mirror.select_all = value.as_bool().unwrap_or(false),
            "select_src_port" => mirror.sources = words(value),
            "select_dst_port" => mirror.destinations = words(value),
            "select_vlan" => mirror.vlans = vlans(value),
            "output_port" => output_port = words(value).pop(),
            "output_vlan" => output_vlan = vlans(value).pop(),
            "snaplen" => mirror.snaplen = value.as_int().and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
            "filter" => mirror.filter = filter(value.as_str().unwrap_or_default())?,
            _ => {}
        }
    }
    mirror.output = output_port.map(MirrorOutput::Port).or(output_vlan.map(MirrorOutput::Vlan));
    Ok(())
}

fn filter(text: &str) -> Result<Option<Box<crate::openflow::rule_match::Match>>, CommandError> {
    if text.is_empty() {
        return Ok(None);
    }
    let filter = parse_match(text, &crate::openflow::text::NoNames)
        .map_err(|error| refused(format!("ovs-vsctl: filter {text}: {error}")))?;
    if filter.mask.in_port != 0 {
        return Err(refused(format!(
            "ovs-vsctl: filter {text}: select ports with select_src_port, not with in_port"
        )));
    }
    Ok(Some(Box::new(filter)))
}

impl Switch {
    /// `create Mirror`: kept until a bridge takes it.
    pub(super) fn create_mirror(
        &mut self,
        settings: &[Setting],
        id: Option<&str>,
    ) -> Result<(), CommandError> {
        let name = created_name(settings, id.unwrap_or_default());
        let mut mirror = Mirror::new(&name);
        apply(&mut mirror, settings)?;
        self.new_mirrors.push(mirror);
        Ok(())
    }

    /// `set Mirror`.
    pub(super) fn set_mirror(&mut self, name: &str, settings: &[Setting]) -> Result<(), CommandError> {
        if let Some(mirror) = self.new_mirrors.iter_mut().find(|mirror| mirror.name == name) {
            return apply(mirror, settings);
        }
        let (bridge, mut mirrors) = self.bridge_of_mirror(name)?;
        if let Some(mirror) = mirrors.iter_mut().find(|mirror| mirror.name == name) {
            apply(mirror, settings)?;
        }
        self.ofproto_mut().set_mirrors(bridge, mirrors).map_err(refused)
    }

    /// The mirrors that a bridge is to have, in this order.
    pub(super) fn set_bridge_mirrors(
        &mut self,
        bridge: BridgeId,
        names: &[String],
    ) -> Result<(), CommandError> {
        let had = self.ofproto().bridge(bridge).map(|bridge| bridge.mirrors().to_vec()).unwrap_or_default();
        let mirrors: Result<Vec<Mirror>, CommandError> = names
            .iter()
            .map(|name| {
                let found = self.new_mirrors.iter().chain(&had).find(|mirror| mirror.name == *name);
                found.cloned().ok_or_else(|| no_mirror(name))
            })
            .collect();
        self.ofproto_mut().set_mirrors(bridge, mirrors?).map_err(refused)
    }

    /// `destroy Mirror`.
    pub(super) fn destroy_mirrors(
        &mut self,
        records: &[Word],
        all: bool,
        if_exists: bool,
    ) -> Result<(), CommandError> {
        for record in records {
            if let Err(error) = self.bridge_of_mirror(&record.text)
                && !if_exists
            {
                return Err(error);
            }
        }
        let bridges: Vec<BridgeId> = self.ofproto().bridges().map(|bridge| bridge.id).collect();
        for id in bridges {
            let Some(bridge) = self.ofproto().bridge(id) else { continue };
            let mut mirrors = bridge.mirrors().to_vec();
            mirrors.retain(|mirror| !all && !records.iter().any(|record| record.text == mirror.name));
            if mirrors.len() != bridge.mirrors().len() {
                self.ofproto_mut().set_mirrors(id, mirrors).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// `get Mirror NAME COLUMN`.
    pub(super) fn mirror_column(&mut self, name: &str, column: &str) -> Result<String, CommandError> {
        let (bridge, mirrors) = self.bridge_of_mirror(name)?;
        let mirror = mirrors.iter().find(|mirror| mirror.name == name).ok_or_else(|| no_mirror(name))?;
        Ok(match column {
            "name" => mirror.name.clone(),
            "select_all" => mirror.select_all.to_string(),
            "statistics" => {
                let (packets, bytes) = self.ofproto().mirror_stats(bridge, name);
                format!("{{tx_bytes={bytes}, tx_packets={packets}}}")
            }
            other => {
                return Err(refused(format!("ovs-vsctl: get of {other} of Mirror is not supported here")));
            }
        })
    }

    fn bridge_of_mirror(&self, name: &str) -> Result<(BridgeId, Vec<Mirror>), CommandError> {
        let has = |mirrors: &[Mirror]| mirrors.iter().any(|mirror| mirror.name == name);
        let bridge = self.ofproto().bridges().find(|bridge| has(bridge.mirrors()));
        bridge.map(|bridge| (bridge.id, bridge.mirrors().to_vec())).ok_or_else(|| no_mirror(name))
    }

    /// A mirror's output must be a port of its bridge.
    pub(super) fn check_mirrors(&self) -> Result<(), CommandError> {
        for bridge in self.ofproto().bridges() {
            for mirror in bridge.mirrors() {
                match &mirror.output {
                    Some(MirrorOutput::Port(port)) if bridge.port_named(port).is_none() => {
                        return Err(refused(format!(
                            "ovs-vsctl: bridge {}: mirror {} outputs to port {port}, which is not on the bridge",
                            bridge.name, mirror.name
                        )));
                    }
                    Some(_) => {}
                    None => {
                        return Err(refused(format!(
                            "ovs-vsctl: bridge {}: mirror {} does not specify output: set output_port or output_vlan",
                            bridge.name, mirror.name
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

fn no_mirror(name: &str) -> CommandError {
    refused(format!("ovs-vsctl: no row \"{name}\" in table Mirror"))
}
