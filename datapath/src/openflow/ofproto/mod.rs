//! All bridges on one datapath: the slow path as a whole.
//!
//! Owns the bridges and what changes while they forward: learned addresses, statistics, recirculation ids, and for each
//! datapath flow what its packets are to be credited to. Decides about misses ([`crate::pipeline::Upcall`]), and whether
//! datapath flows are still right. Never touches the datapath itself.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif.c` and `ofproto/ofproto-dpif-upcall.c`.

mod changes;
mod config;
mod flow_text;
mod flows;
mod learn;
mod learning;
mod requests;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use changes::Changes;
pub use config::ConfigError;
pub use flow_text::flow_text;
pub use flows::{Credit, PacketIn, Revalidation, Verdict};
pub(crate) use learning::Learning;
pub use trace::{TraceInput, Traced};

use super::bridge::table::RuleStatsMap;
use super::bridge::{Bridge, BridgeId, RuleStats};
use super::classifier::RuleId;
use super::mac_learning::MacTable;
use super::mcast_snooping::SnoopingTable;
use super::recirc::RecircPool;
use super::tunnel::Tunnels;
use super::tunnel::neighbor::Neighbors;
use super::xlate::{Bridges, Cached, Effects};
use super::zones::ZonePolicies;
use crate::pipeline::Injection;
use crate::trace::FlowId;
use crate::types::{OfPort, PortNo, RecircId, TableId, Time};

/// Searches of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Packets that met a rule.
    pub matched: u64,
    /// Packets that did not.
    pub missed: u64,
}

/// Packets that a group saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets and bytes of single buckets, by their numbers.
    pub buckets: BTreeMap<u32, (u64, u64)>,
}

/// What is known about a datapath flow besides its key, mask and actions.
#[derive(Clone, Debug, Default)]
struct FlowInfo {
    cache: Arc<[Cached]>,
    recircs: Vec<RecircId>,
    /// The translation asked for no bit of the packet's tag; that the datapath flow matches its id all the same (see
    /// [`require_no_vlan`](crate::openflow::xlate::require_no_vlan)) is not something that a rule can rely on.
    tag_is_open: bool,
}

/// The slow path.
#[derive(Clone, Debug, Default)]
pub struct Ofproto {
    bridges: Bridges,
    by_port: BTreeMap<PortNo, (BridgeId, OfPort)>,
    last_bridge: BridgeId,
    last_rule: RuleId,
    learning: Learning,
    recircs: RecircPool,
    rule_stats: RuleStatsMap,
    table_stats: BTreeMap<(BridgeId, TableId), TableStats>,
    group_stats: BTreeMap<(BridgeId, u32), GroupStats>,
    patch_stats: BTreeMap<(BridgeId, OfPort), PatchStats>,
    /// Packets and bytes of each mirror.
    mirror_stats: BTreeMap<(BridgeId, String), (u64, u64)>,
    flows: BTreeMap<FlowId, FlowInfo>,
    /// What belongs to flows that upcalls asked for, by their tickets, until they are installed.
    pending: BTreeMap<u64, FlowInfo>,
    last_ticket: u64,
    tunnels: Arc<Tunnels>,
    zones: Arc<ZonePolicies>,
    neighbors: Neighbors,
    /// Packets that translation made, until the datapath takes them.
    outbox: Vec<Injection>,
    packet_ins: VecDeque<PacketIn>,
    n_packet_ins: u64,
    /// Why datapath flows may be wrong by now.
    changes: Changes,
    /// Whether extraction looks at two tags (`other_config:vlan-limit`), not at one.
    two_tags: bool,
    /// Whether [`Self::two_tags`] was so when the first bridge was made. OVS asks the datapath then how many tags a flow may
    /// have, and never again: it keeps no more of them for revalidation.
    keeps_two_tags: bool,
}

/// Packets through a patch port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

impl Ofproto {
    /// No bridges.
    pub fn new() -> Self {
        Self::default()
    }

    /// All bridges.
    pub fn bridges(&self) -> impl Iterator<Item = &Bridge> {
        self.bridges.values().map(|bridge| &**bridge)
    }

    /// A bridge.
    pub fn bridge(&self, id: BridgeId) -> Option<&Bridge> {
        self.bridges.get(&id).map(|bridge| &**bridge)
    }

    /// The bridge with a name.
    pub fn bridge_named(&self, name: &str) -> Option<&Bridge> {
        self.bridges().find(|bridge| bridge.name == name)
    }

    /// The bridge and OpenFlow number of a datapath port.
    pub fn port_of_datapath(&self, port: PortNo) -> Option<(BridgeId, OfPort)> {
        self.by_port.get(&port).copied()
    }

    /// The learning table of a bridge.
    pub fn mac_table(&self, bridge: BridgeId) -> Option<&MacTable> {
        self.learning.tables.get(&bridge)
    }

    /// The learning table of a bridge, to change. Call [`Self::set_changed`] if that changes forwarding.
    pub fn mac_table_mut(&mut self, bridge: BridgeId) -> Option<&mut MacTable> {
        self.learning.tables.get_mut(&bridge)
    }

    /// The multicast groups of a bridge, if it snoops.
    pub fn snooping(&self, bridge: BridgeId) -> Option<&SnoopingTable> {
        self.learning.snooping(bridge)
    }

    /// The same, to change.
    pub fn snooping_mut(&mut self, bridge: BridgeId) -> Option<&mut SnoopingTable> {
        self.learning.snooping_mut(bridge)
    }

    /// A counter of OVS's `coverage`: what happened to learning tables, those that are gone among them. `None` if it is none of
    /// these.
    pub fn coverage(&self, name: &str) -> Option<u64> {
        let (macs, groups) = self.learning.totals();
        match name {
            "mac_learning_learned" => Some(macs.learned),
            "mac_learning_expired" => Some(macs.expired),
            "mac_learning_evicted" => Some(macs.evicted),
            "mac_learning_moved" => Some(macs.moved),
            "mcast_snooping_learned" => Some(groups.learned),
            "mcast_snooping_expired" => Some(groups.expired),
            _ => None,
        }
    }

    /// What a rule saw so far.
    pub fn rule_stats(&self, rule: RuleId) -> RuleStats {
        self.rule_stats.get(&rule).copied().unwrap_or_default()
    }

    /// Searches of a table so far.
    pub fn table_stats(&self, bridge: BridgeId, table: TableId) -> TableStats {
        self.table_stats.get(&(bridge, table)).copied().unwrap_or_default()
    }

    /// What a group saw so far.
    pub fn group_stats(&self, bridge: BridgeId, group: u32) -> GroupStats {
        self.group_stats.get(&(bridge, group)).cloned().unwrap_or_default()
    }

    /// Packets and bytes that a mirror copied.
    pub fn mirror_stats(&self, bridge: BridgeId, name: &str) -> (u64, u64) {
        self.mirror_stats.get(&(bridge, name.to_owned())).copied().unwrap_or_default()
    }

    /// What went through a patch port so far.
    pub fn patch_stats(&self, bridge: BridgeId, port: OfPort) -> PatchStats {
        self.patch_stats.get(&(bridge, port)).copied().unwrap_or_default()
    }

    /// Recirculation ids in use.
    pub fn recircs(&self) -> &RecircPool {
        &self.recircs
    }

    /// Tells how many VLAN tags extraction looks at (`other_config:vlan-limit`).
    pub fn set_vlan_limit(&mut self, limit: u8) {
        self.two_tags = limit > 1;
    }

    /// Notes that datapath flows may be wrong by now.
    pub fn set_changed(&mut self, changes: Changes) {
        self.changes |= changes;
    }

    /// Why datapath flows may be wrong since the last call: what changed.
    pub fn take_changes(&mut self, now: Time) -> Changes {
        let Learning { tables, snooping, .. } = &mut self.learning;
        let learned = tables.values_mut().fold(false, |any, table| any | table.take_changed());
        // A group that nobody wants any more goes at once, as OVS's main loop runs after each packet.
        let snooped = snooping.values_mut().fold(false, |any, table| any | table.run(now));
        let mut changes = std::mem::take(&mut self.changes);
        changes.set(Changes::ADDRESSES, learned || changes.contains(Changes::ADDRESSES));
        changes.set(Changes::MULTICAST, snooped || changes.contains(Changes::MULTICAST));
        if self.neighbors.take_changed() {
            changes |= Changes::UNDERLAY;
        }
        changes
    }

    /// Messages to controllers since the last call; the oldest are lost if there are too many.
    pub fn take_packet_ins(&mut self) -> Vec<PacketIn> {
        self.packet_ins.drain(..).collect()
    }

    /// How many messages to controllers there ever were.
    pub fn n_packet_ins(&self) -> u64 {
        self.n_packet_ins
    }

    /// Tunnel ports, addresses and routes of the underlay.
    pub fn tunnels(&self) -> &Tunnels {
        &self.tunnels
    }

    /// The same, to change.
    pub fn tunnels_mut(&mut self) -> &mut Tunnels {
        self.changes |= Changes::UNDERLAY;
        Arc::make_mut(&mut self.tunnels)
    }

    /// Timeout policies of the zones of connection tracking.
    pub fn zones(&self) -> &ZonePolicies {
        &self.zones
    }

    /// The same, to change.
    pub fn zones_mut(&mut self) -> &mut ZonePolicies {
        self.changes |= Changes::POLICIES;
        Arc::make_mut(&mut self.zones)
    }

    /// The policies, by number, that the datapath is to forget now.
    pub fn clean_zone_policies(&mut self, now: Time) -> Vec<u32> {
        match self.zones.next_wakeup() {
            Some(at) if at <= now => Arc::make_mut(&mut self.zones).run(now),
            Some(_) | None => Vec::new(),
        }
    }

    /// Neighbours of the underlay.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// The same, to change.
    pub fn neighbors_mut(&mut self) -> &mut Neighbors {
        &mut self.neighbors
    }

    fn effects(&mut self, may_learn: bool, only_looks: bool) -> (&Bridges, &Tunnels, Effects<'_>) {
        let effects = Effects {
            learning: &mut self.learning,
            recircs: &mut self.recircs,
            neighbors: &mut self.neighbors,
            zones: &self.zones,
            may_learn,
            only_looks,
        };
        (&self.bridges, &self.tunnels, effects)
    }
}
