//! What bridges learn: addresses, and multicast groups.
//!
//! Owns the tables; what is in them is told in [`crate::openflow::mac_learning`] and [`crate::openflow::mcast_snooping`].

use std::collections::BTreeMap;

use crate::openflow::bridge::{BridgeId, BundleId};
use crate::openflow::mac_learning::{Learned, MacCounters, MacSource, MacTable};
use crate::openflow::mcast_snooping::{SnoopingCounters, SnoopingTable};
use crate::types::{MacAddr, Time};

/// The learning tables of all bridges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learning {
    pub(super) tables: BTreeMap<BridgeId, MacTable>,
    /// Of bridges that snoop.
    pub(super) snooping: BTreeMap<BridgeId, SnoopingTable>,
    /// What happened to tables that are gone.
    gone: (MacCounters, SnoopingCounters),
}

impl Learning {
    pub(crate) fn lookup(&self, bridge: BridgeId, mac: MacAddr, vlan: u16) -> Option<BundleId> {
        self.tables.get(&bridge)?.lookup(mac, vlan)
    }

    pub(crate) fn learn(&mut self, bridge: BridgeId, source: &MacSource, now: Time) -> Learned {
        self.tables.get_mut(&bridge).map_or(Learned::Same, |table| table.learn(source, now))
    }

    pub(crate) fn confirm(&mut self, bridge: BridgeId, source: &MacSource, used: Time, now: Time) {
        if let Some(table) = self.tables.get_mut(&bridge) {
            table.confirm(source, used, now);
        }
    }

    pub(super) fn remove_snooping(&mut self, bridge: BridgeId) {
        if let Some(table) = self.snooping.remove(&bridge) {
            self.gone.1 += table.counters();
        }
    }

    pub(super) fn remove(&mut self, bridge: BridgeId) {
        self.remove_snooping(bridge);
        if let Some(table) = self.tables.remove(&bridge) {
            self.gone.0 += table.totals();
        }
    }

    /// What happened to all tables there ever were.
    pub(super) fn totals(&self) -> (MacCounters, SnoopingCounters) {
        let (mut macs, mut groups) = self.gone;
        self.tables.values().for_each(|table| macs += table.totals());
        self.snooping.values().for_each(|table| groups += table.counters());
        (macs, groups)
    }

    pub(crate) fn snooping(&self, bridge: BridgeId) -> Option<&SnoopingTable> {
        self.snooping.get(&bridge)
    }

    pub(crate) fn snooping_mut(&mut self, bridge: BridgeId) -> Option<&mut SnoopingTable> {
        self.snooping.get_mut(&bridge)
    }
}
