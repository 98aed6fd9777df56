//! Timeout policies of the zones of connection tracking: which zone has which.
//!
//! Policies are shared: zones whose timeouts are the same have the same one, and so the same actions. What no zone has any
//! more stays in the datapath for a while, for the flows that still name it. Counterpart: `struct ct_timeout_policy` of OVS
//! `ofproto/ofproto-dpif.c`.

use std::collections::BTreeMap;

use super::command::zone::Timeouts;
use crate::flow::proto::{IP_ICMP, IP_ICMPV6, IP_TCP, IP_UDP};
use crate::types::{Span, Time};

/// How often policies go that no zone has (`TIMEOUT_POLICY_CLEANUP_INTERVAL`).
const CLEANUP: Span = Span::from_secs(20);

/// Policies by zone.
#[derive(Clone, Debug, Default)]
pub struct ZonePolicies {
    zones: BTreeMap<u16, u32>,
    policies: BTreeMap<u32, Timeouts>,
    /// No zone has these any more.
    unused: Vec<u32>,
    next_cleanup: Time,
}

impl ZonePolicies {
    /// The policy of a zone for packets of a protocol, by number; only some protocols have any.
    pub fn of(&self, zone: u16, proto: u8) -> Option<u32> {
        let has = matches!(proto, IP_TCP | IP_UDP | IP_ICMP | IP_ICMPV6);
        self.zones.get(&zone).copied().filter(|_| has)
    }

    /// A zone's timeouts.
    pub fn timeouts(&self, zone: u16) -> Option<&Timeouts> {
        self.policies.get(self.zones.get(&zone)?)
    }

    /// Gives a zone a policy. Returns it, by number, if the datapath does not have it yet.
    pub fn set(&mut self, zone: u16, timeouts: Timeouts) -> Option<u32> {
        let same =
            |(id, has): (&u32, &Timeouts)| (*has == timeouts && !self.unused.contains(id)).then_some(*id);
        let found = self.policies.iter().find_map(same);
        let id = found.or_else(|| (1..).find(|id| !self.policies.contains_key(id)))?;
        if found.is_none() {
            self.policies.insert(id, timeouts);
        }
        if let Some(before) = self.zones.insert(zone, id) {
            self.retire(before);
        }
        found.is_none().then_some(id)
    }

    /// Takes a zone's policy away.
    pub fn delete(&mut self, zone: u16) {
        if let Some(id) = self.zones.remove(&zone) {
            self.retire(id);
        }
    }

    /// Notes that a zone lost a policy.
    fn retire(&mut self, id: u32) {
        if !self.zones.values().any(|has| *has == id) {
            self.unused.push(id);
        }
    }

    /// The policies, by number, that the datapath is to forget now.
    pub fn run(&mut self, now: Time) -> Vec<u32> {
        if self.unused.is_empty() || now < self.next_cleanup {
            return Vec::new();
        }
        self.next_cleanup = now + CLEANUP;
        let gone = std::mem::take(&mut self.unused);
        gone.iter().for_each(|id| drop(self.policies.remove(id)));
        gone
    }

    /// When [`Self::run`] has something to do.
    pub fn next_wakeup(&self) -> Option<Time> {
        (!self.unused.is_empty()).then_some(self.next_cleanup)
    }

    /// Zones that have a policy, with it.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Timeouts)> {
        self.zones.iter().filter_map(|(&zone, id)| Some((zone, self.policies.get(id)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_shared_and_their_numbers_used_again() {
        let udp = |seconds| Timeouts::from([("udp_single", seconds)]);
        let mut zones = ZonePolicies::default();
        assert_eq!(zones.set(5, udp(3)), Some(1));
        assert_eq!(zones.set(6, udp(3)), None, "the same policy");
        assert_eq!((zones.of(5, IP_UDP), zones.of(6, IP_TCP), zones.of(6, 132)), (Some(1), Some(1), None));
        assert_eq!(zones.set(6, udp(4)), Some(2));
        zones.delete(5);
        assert_eq!(zones.set(7, udp(3)), Some(3), "number 1 is still known to flows");
        assert_eq!(zones.run(Time::ZERO), [1]);
        assert_eq!(zones.set(8, udp(9)), Some(1));
        zones.delete(8);
        assert_eq!(zones.run(Time::from_millis(19_999)), []);
        assert_eq!(zones.run(Time::from_millis(20_000)), [1]);
    }
}
