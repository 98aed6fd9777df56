//! `ovs-vsctl add` and `remove`: some of the values of a column.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Switch;
use super::super::ports::PortSpec;
use super::vsctl::NewPort;
use super::{CommandError, refused};
use crate::openflow::bridge::VlanConfig;
use crate::openflow::command::Word;
use crate::openflow::command::datum::{Atom, Datum};
use crate::openflow::command::schema::{Column, Table};
use crate::openflow::command::vsctl::{Record, Setting};
use crate::types::Time;

/// What to do with the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Remove,
}

impl Switch {
    /// Carries out `add` or `remove`.
    pub(super) fn vsctl_change(
        &mut self,
        change: Change,
        (record, column, values): (&Record, &'static Column, &[Word]),
        new_ports: &mut [NewPort],
        now: Time,
    ) -> Result<(), CommandError> {
        let name = &record.name.text;
        let planned =
            new_ports.iter().find(|port| port.spec.device.name == *name).map(|port| port.spec.clone());
        let spec = match record.table {
            Table::Port | Table::Interface => {
                planned.or_else(|| self.port_named(name).map(|port| port.spec()))
            }
            Table::OpenVSwitch | Table::Bridge | Table::FlowTable | Table::Datapath | Table::Mirror => None,
        };
        let held = match (record.table, column.name) {
            (Table::Bridge, "mirrors") => {
                let bridge = self.ofproto().bridge_named(name);
                let names = bridge
                    .iter()
                    .flat_map(|bridge| bridge.mirrors())
                    .map(|mirror| Atom::Str(mirror.name.clone()));
                Some(Datum::Set(names.collect()))
            }
            _ => spec.as_ref().and_then(|spec| held(spec, record.table, column)),
        };
        let Some(mut datum) = held else {
            let (verb, table) = (if change == Change::Add { "add" } else { "remove" }, record.table.name());
            return Err(refused(format!(
                "ovs-vsctl: {verb} of {} of {table} is not supported here",
                column.name
            )));
        };
        for value in values.iter().flat_map(|word| word.text.split(',')) {
            change_value(&mut datum, change, value)?;
        }
        let setting = Setting { arg: record.name.arg, column, value: datum, by_key: false };
        self.vsctl_set(record, &[setting], new_ports, now)
    }
}

/// What a column of a port or an interface holds; none for columns that are not kept.
fn held(spec: &PortSpec, table: Table, column: &Column) -> Option<Datum> {
    let VlanConfig { mode, tag, trunks, cvlans, .. } = &spec.vlan;
    let numbers = |numbers: &[u16]| Datum::Set(numbers.iter().map(|n| Atom::Int(i64::from(*n))).collect());
    match (table, column.name) {
        (Table::Port, "tag") => Some(numbers(tag.as_slice())),
        (Table::Port, "trunks") => Some(numbers(trunks)),
        (Table::Port, "cvlans") => Some(numbers(cvlans)),
        (Table::Port, "vlan_mode") => {
            let mode = mode.map(|mode| Atom::Str(mode.name().to_owned()));
            Some(Datum::Set(mode.into_iter().collect()))
        }
        (Table::Interface, "options") => {
            let text = |text: &String| Atom::Str(text.clone());
            Some(Datum::Map(spec.options.iter().map(|(key, value)| (text(key), text(value))).collect()))
        }
        _ => None,
    }
}

/// Adds a value or takes it away. What is not there is taken away without a word, as in OVS.
fn change_value(datum: &mut Datum, change: Change, value: &str) -> Result<(), CommandError> {
    match datum {
        Datum::Set(set) => change_set(set, change, value),
        Datum::Map(map) => change_map(map, change, value),
    }
}

fn change_set(set: &mut BTreeSet<Atom>, change: Change, value: &str) -> Result<(), CommandError> {
    let atom = value.parse().map_or_else(|_| Atom::Str(value.to_owned()), Atom::Int);
    if let Atom::Int(n) = atom
        && !(0..=4095).contains(&n)
    {
        return Err(refused(format!(
            "ovs-vsctl: constraint violation: {n} is not in the valid range 0 to 4095"
        )));
    }
    match change {
        Change::Add => set.insert(atom),
        Change::Remove => set.remove(&atom),
    };
    Ok(())
}

fn change_map(map: &mut BTreeMap<Atom, Atom>, change: Change, value: &str) -> Result<(), CommandError> {
    let (key, value) = value.split_once('=').map_or((value, None), |(key, value)| (key, Some(value)));
    let key = Atom::Str(key.to_owned());
    match (change, value) {
        (Change::Add, None) => {
            return Err(refused("ovs-vsctl: a value to add to a map is written key=value".to_owned()));
        }
        // What is there already stays.
        (Change::Add, Some(value)) => drop(map.entry(key).or_insert_with(|| Atom::Str(value.to_owned()))),
        (Change::Remove, None) => drop(map.remove(&key)),
        (Change::Remove, Some(value)) => {
            if map.get(&key) == Some(&Atom::Str(value.to_owned())) {
                map.remove(&key);
            }
        }
    }
    Ok(())
}
