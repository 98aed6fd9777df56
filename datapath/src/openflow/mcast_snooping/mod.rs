//! Which ports of a bridge want which multicast groups, and behind which there are multicast routers, per VLAN.
//!
//! Owns the table: ageing, size limit, ports that get everything. What hosts and routers say is read in [`message`]; what
//! becomes of packets is decided in [`crate::openflow::xlate`]. Time has whole seconds here, as in OVS. Counterpart: OVS
//! `lib/mcast-snooping.c` (RFC 4541).

mod lru;
pub mod message;
#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

use self::lru::Lru;
use super::bridge::BundleId;
use crate::types::Time;

/// Seconds after which a port that does not ask for a group again leaves it, unless configured (OVS
/// `MCAST_ENTRY_DEFAULT_IDLE_TIME`).
pub const DEFAULT_AGING_SECS: u64 = 300;
/// Groups in a table, unless configured (OVS `MCAST_DEFAULT_MAX_ENTRIES`).
pub const DEFAULT_MAX_GROUPS: usize = 2048;
/// Seconds after which a router that does not ask is forgotten (OVS `MCAST_MROUTER_PORT_IDLE_TIME`).
const ROUTER_AGING_SECS: u64 = 180;

/// Settings of a bridge's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnoopingConfig {
    /// Seconds after which a port leaves a group (`mcast-snooping-aging-time`): 15 to 3600, others are brought into that
    /// range.
    pub aging_secs: u64,
    /// Most groups (`mcast-snooping-table-size`): 10 to a million, others are brought into that range.
    pub max_groups: usize,
    /// Packets to groups that nobody asked for are flooded; else (`mcast-snooping-disable-flood-unregistered`) they go to
    /// routers only.
    pub flood_unregistered: bool,
}

impl Default for SnoopingConfig {
    fn default() -> Self {
        Self { aging_secs: DEFAULT_AGING_SECS, max_groups: DEFAULT_MAX_GROUPS, flood_unregistered: true }
    }
}

/// What a port gets whatever was heard there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSnooping {
    /// All multicast packets (`other_config:mcast-snooping-flood`).
    pub flood: bool,
    /// All reports of members (`other_config:mcast-snooping-flood-reports`).
    pub flood_reports: bool,
}

/// The protocol by which a group was asked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// IGMP, RFC 1112.
    IgmpV1,
    /// IGMP, RFC 2236.
    IgmpV2,
    /// IGMP, RFC 3376.
    IgmpV3,
    /// MLD, RFC 2710.
    MldV1,
    /// MLD, RFC 3810.
    MldV2,
}

impl GroupProtocol {
    /// Its name in `mdb/show`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IgmpV1 => "IGMPv1",
            Self::IgmpV2 => "IGMPv2",
            Self::IgmpV3 => "IGMPv3",
            Self::MldV1 => "MLDv1",
            Self::MldV2 => "MLDv2",
        }
    }
}

/// A port that wants a group.
#[derive(Clone, Copy, Debug)]
struct Member {
    port: BundleId,
    /// Second at which it leaves.
    expires: u64,
}

#[derive(Clone, Debug)]
struct Group {
    protocol: GroupProtocol,
    /// From the one that asked longest ago to the one that asked last. None of them left: the group stays, and with it that
    /// its packets are not flooded, until it is the oldest of the table.
    members: Vec<Member>,
}

/// A port in a group, as `mdb/show` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Port.
    pub port: BundleId,
    /// VLAN.
    pub vlan: u16,
    /// Protocol.
    pub protocol: GroupProtocol,
    /// Group; IPv4 groups are mapped.
    pub group: Ipv6Addr,
    /// Seconds since the port asked for it.
    pub age_secs: u64,
}

/// A port with a router behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterEntry {
    /// Port.
    pub port: BundleId,
    /// VLAN.
    pub vlan: u16,
    /// Seconds since the router asked.
    pub age_secs: u64,
}

/// Counts of what happened to tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnoopingCounters {
    /// Groups and routers that are new (OVS `mcast_snooping_learned`).
    pub learned: u64,
    /// Ports that left a group, groups and routers that aged out (OVS `mcast_snooping_expired`).
    pub expired: u64,
}

impl std::ops::AddAssign for SnoopingCounters {
    fn add_assign(&mut self, other: Self) {
        self.learned += other.learned;
        self.expired += other.expired;
    }
}

/// The table of a bridge.
#[derive(Clone, Debug, Default)]
pub struct SnoopingTable {
    config: SnoopingConfig,
    groups: Lru<(u16, Ipv6Addr), Group>,
    /// When each router goes, second.
    routers: Lru<(u16, BundleId), u64>,
    /// Ports that get everything, in the order in which they were told so.
    flood: Vec<BundleId>,
    /// Ports that get reports, likewise.
    reports: Vec<BundleId>,
    counters: SnoopingCounters,
    /// Whether forwarding may have changed since [`Self::run`].
    changed: bool,
}

const fn secs(now: Time) -> u64 {
    now.0 / 1_000_000_000
}

fn set(list: &mut Vec<BundleId>, port: BundleId, on: bool) -> bool {
    let there = list.contains(&port);
    match (there, on) {
        (false, true) => list.push(port),
        (true, false) => list.retain(|other| *other != port),
        _ => {}
    }
    there != on
}

impl SnoopingTable {
    /// Settings, as they were brought into their ranges.
    pub fn config(&self) -> &SnoopingConfig {
        &self.config
    }

    /// Changes settings. What is in the table ages by the new time from when it was last asked for.
    pub fn configure(&mut self, config: &SnoopingConfig) {
        let aging_secs = config.aging_secs.clamp(15, 3600);
        for group in self.groups.values_mut() {
            for member in &mut group.members {
                member.expires = (member.expires + aging_secs).saturating_sub(self.config.aging_secs);
            }
        }
        self.changed |= config.flood_unregistered != self.config.flood_unregistered;
        let max_groups = config.max_groups.clamp(10, 1_000_000);
        self.config = SnoopingConfig { aging_secs, max_groups, ..*config };
    }

    /// Changes what a port gets.
    pub fn configure_port(&mut self, port: BundleId, config: PortSnooping) {
        self.changed |= set(&mut self.flood, port, config.flood);
        self.changed |= set(&mut self.reports, port, config.flood_reports);
    }

    /// What happened so far.
    pub fn counters(&self) -> SnoopingCounters {
        self.counters
    }

    /// How many groups there are.
    pub fn n_groups(&self) -> usize {
        self.groups.len()
    }

    /// Ports that want a group, from the one that asked longest ago; `None` if nobody asked for it.
    pub fn members(&self, group: Ipv6Addr, vlan: u16) -> Option<impl Iterator<Item = BundleId>> {
        self.groups.get(&(vlan, group)).map(|group| group.members.iter().map(|member| member.port))
    }

    /// Ports with routers, each with its VLAN, from the one that was heard longest ago.
    pub fn routers(&self) -> impl Iterator<Item = (BundleId, u16)> {
        self.routers.iter().map(|(&(vlan, port), _)| (port, vlan))
    }

    /// Ports that get all multicast packets.
    pub fn flood_ports(&self) -> &[BundleId] {
        &self.flood
    }

    /// Ports that get all reports.
    pub fn report_ports(&self) -> &[BundleId] {
        &self.reports
    }

    /// The ports of all groups, from the group that was asked for longest ago.
    pub fn entries(&self, now: Time) -> impl Iterator<Item = GroupEntry> {
        self.groups.iter().flat_map(move |(&(vlan, group), found)| {
            found.members.iter().map(move |member| GroupEntry {
                port: member.port,
                vlan,
                protocol: found.protocol,
                group,
                age_secs: (self.config.aging_secs + secs(now)).saturating_sub(member.expires),
            })
        })
    }

    /// All routers, from the one that was heard longest ago.
    pub fn router_entries(&self, now: Time) -> impl Iterator<Item = RouterEntry> {
        self.routers.iter().map(move |(&(vlan, port), &expires)| RouterEntry {
            port,
            vlan,
            age_secs: (ROUTER_AGING_SECS + secs(now)).saturating_sub(expires),
        })
    }

    /// A port wants a group; returns whether the group is new. A port that gets the packets anyway is not noted.
    pub fn join(
        &mut self,
        group: Ipv6Addr,
        vlan: u16,
        port: BundleId,
        protocol: GroupProtocol,
        now: Time,
    ) -> bool {
        if self.routers.get(&(vlan, port)).is_some() || self.flood.contains(&port) {
            return false;
        }
        let key = (vlan, group);
        let old = self.groups.remove(&key);
        let is_new = old.is_none();
        if is_new {
            self.make_room();
            self.counters.learned += 1;
            self.changed = true;
        }
        let mut members = old.map(|group| group.members).unwrap_or_default();
        let before = members.len();
        members.retain(|member| member.port != port);
        self.changed |= members.len() == before;
        members.push(Member { port, expires: secs(now) + self.config.aging_secs });
        self.groups.put(key, Group { protocol, members });
        is_new
    }

    /// Where the table is full, drops the group that was asked for longest ago.
    fn make_room(&mut self) {
        if self.groups.len() >= self.config.max_groups
            && let Some(oldest) = self.groups.oldest()
        {
            self.groups.remove(&oldest);
        }
    }

    /// A port does not want a group any more; returns whether it did. Behind a port that gets reports there may be several
    /// hosts: it leaves when none of them asks any more.
    pub fn leave(&mut self, group: Ipv6Addr, vlan: u16, port: BundleId) -> bool {
        if self.reports.contains(&port) {
            return false;
        }
        let left = self.groups.get_mut(&(vlan, group)).is_some_and(|group| remove_member(group, port));
        self.changed |= left;
        left
    }

    /// A router is behind a port. Returns whether forwarding changed since the table was last looked after, by this or by
    /// something else.
    pub fn add_router(&mut self, vlan: u16, port: BundleId, now: Time) -> bool {
        if self.flood.contains(&port) {
            return false;
        }
        if self.routers.get(&(vlan, port)).is_none() {
            self.counters.learned += 1;
            self.changed = true;
        }
        self.routers.put((vlan, port), secs(now) + ROUTER_AGING_SECS);
        self.changed
    }

    /// Forgets groups and routers.
    pub fn flush(&mut self) {
        // OVS keeps flows to routers that it forgets here until something else changes.
        self.changed |= self.groups.len() + self.routers.len() > 0;
        self.groups.clear();
        self.routers.clear();
    }

    /// Forgets a port that goes, or whose VLANs change.
    pub fn flush_port(&mut self, port: BundleId) {
        let mut changed = false;
        self.groups.retain(|_, group| {
            let left = remove_member(group, port);
            changed |= left;
            !(left && group.members.is_empty())
        });
        self.routers.retain(|&(_, of), _| {
            changed |= of == port;
            of != port
        });
        changed |= set(&mut self.flood, port, false);
        changed |= set(&mut self.reports, port, false);
        self.changed |= changed;
    }

    /// Removes what is too old or too much; returns whether forwarding changed since the last call. As in OVS, only the
    /// group that was asked for longest ago is looked at: what is older than it should be in others waits for that.
    pub fn run(&mut self, now: Time) -> bool {
        while let Some(oldest) = self.groups.oldest() {
            if self.groups.len() > self.config.max_groups {
                self.groups.remove(&oldest);
                self.changed = true;
            } else if !self.prune(oldest, now) {
                break;
            }
        }
        while let Some(oldest) = self.routers.oldest() {
            if self.routers.get(&oldest).is_some_and(|expires| *expires > secs(now)) {
                break;
            }
            self.routers.remove(&oldest);
            self.counters.expired += 1;
            self.changed = true;
        }
        std::mem::take(&mut self.changed)
    }

    /// Removes the ports of a group that are too old, and the group with the last of them; returns whether it did.
    fn prune(&mut self, key: (u16, Ipv6Addr), now: Time) -> bool {
        let Some(group) = self.groups.get_mut(&key) else { return false };
        let n = group.members.iter().take_while(|member| member.expires <= secs(now)).count();
        group.members.drain(..n);
        let is_empty = group.members.is_empty();
        if is_empty {
            self.groups.remove(&key);
        }
        self.counters.expired += n as u64 + u64::from(is_empty);
        self.changed |= n > 0 || is_empty;
        n > 0 || is_empty
    }

    /// When [`Self::run`] has something to do next.
    pub fn next_wakeup(&self) -> Option<Time> {
        let oldest = self.groups.oldest().and_then(|key| self.groups.get(&key));
        let group = oldest.map(|group| group.members.first().map_or(0, |member| member.expires));
        let router = self.routers.iter().next().map(|(_, &expires)| expires);
        group.into_iter().chain(router).min().map(|secs| Time(secs.saturating_mul(1_000_000_000)))
    }
}

fn remove_member(group: &mut Group, port: BundleId) -> bool {
    let before = group.members.len();
    group.members.retain(|member| member.port != port);
    group.members.len() != before
}
