//! Link-layer addresses of the underlay, as bridges learn them from ARP and neighbour discovery, and from what tunnels
//! receive.
//!
//! Counterpart: OVS `lib/tnl-neigh-cache.c`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv6Addr;

use super::config::address_text;
use crate::types::{MacAddr, Span, Time};

/// Columns of an address in `tnl/neigh/show` (`INET6_ADDRSTRLEN`).
const ADDRESS_WIDTH: usize = 46;
/// Longest time that an address may be kept unused.
const MAX_AGING: Span = Span::from_secs(3600);

/// Where a neighbour is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is known.
    Found(MacAddr),
    /// It was asked for a moment ago.
    Waiting,
    /// It is not known; whoever was told so is to ask.
    Missing,
}

#[derive(Clone, Copy, Debug)]
struct Neighbor {
    /// None while an answer is awaited.
    mac: Option<MacAddr>,
    expires: Time,
}

/// All neighbours, by bridge and address. IPv4 addresses are mapped ones.
#[derive(Clone, Debug)]
pub struct Neighbors {
    entries: BTreeMap<(String, Ipv6Addr), Neighbor>,
    /// How long an address is kept unused.
    aging: Span,
    /// How long an answer is awaited before it is asked again; 0 asks for each packet.
    retransmit: Span,
    changed: bool,
}

impl Default for Neighbors {
    /// As in OVS: 15 minutes, 1 second.
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            aging: Span::from_secs(900),
            retransmit: Span::from_secs(1),
            changed: false,
        }
    }
}

impl Neighbors {
    /// Looks for a neighbour; one that is found stays longer for it. One that is not is awaited from then on.
    pub fn lookup(&mut self, bridge: &str, address: Ipv6Addr, now: Time) -> Lookup {
        let key = (bridge.to_owned(), address);
        match self.entries.get_mut(&key).filter(|entry| entry.expires > now) {
            Some(entry) => match entry.mac {
                Some(mac) => {
                    entry.expires = now + self.aging;
                    Lookup::Found(mac)
                }
                None => Lookup::Waiting,
            },
            None => {
                if self.retransmit != Span::ZERO {
                    self.entries.insert(key, Neighbor { mac: None, expires: now + self.retransmit });
                }
                Lookup::Missing
            }
        }
    }

    /// The same without leaving a trace.
    pub fn peek(&self, bridge: &str, address: Ipv6Addr, now: Time) -> Lookup {
        match self.entries.get(&(bridge.to_owned(), address)).filter(|entry| entry.expires > now) {
            Some(Neighbor { mac: Some(mac), .. }) => Lookup::Found(*mac),
            Some(Neighbor { mac: None, .. }) => Lookup::Waiting,
            None => Lookup::Missing,
        }
    }

    /// Keeps a known neighbour longer: packets were sent to it.
    pub fn refresh(&mut self, bridge: &str, address: Ipv6Addr, used: Time) {
        let aging = self.aging;
        if let Some(entry) = self.entries.get_mut(&(bridge.to_owned(), address))
            && entry.mac.is_some()
        {
            entry.expires = entry.expires.max(used + aging);
        }
    }

    /// Learns an address.
    pub fn set(&mut self, bridge: &str, address: Ipv6Addr, mac: MacAddr, now: Time) {
        let entry = Neighbor { mac: Some(mac), expires: now + self.aging };
        let old = self.entries.insert((bridge.to_owned(), address), entry);
        self.changed |= old.and_then(|old| old.mac.filter(|_| old.expires > now)) != Some(mac);
    }

    /// Forgets all, or those of a bridge.
    pub fn flush(&mut self, bridge: Option<&str>) {
        let before = self.entries.len();
        self.entries.retain(|(of, _), _| bridge.is_some_and(|bridge| bridge != of));
        self.changed |= self.entries.len() != before;
    }

    /// Forgets those whose time is over.
    pub fn run(&mut self, now: Time) {
        let before = self.entries.len();
        self.entries.retain(|_, entry| entry.expires > now);
        self.changed |= self.entries.len() != before;
    }

    /// When [`Self::run`] has something to do.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.entries.values().map(|entry| entry.expires).min()
    }

    /// Whether an address became known, changed or was forgotten since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// How long an address is kept unused.
    pub fn aging(&self) -> Span {
        self.aging
    }

    /// Changes that; returns false if it is too long, or shorter than answers are awaited.
    #[must_use = "a time that is refused changes nothing"]
    pub fn set_aging(&mut self, aging: Span, now: Time) -> bool {
        if aging == Span::ZERO || aging > MAX_AGING || aging < self.retransmit {
            return false;
        }
        self.aging = aging;
        self.entries.values_mut().for_each(|entry| entry.expires = entry.expires.min(now + aging));
        true
    }

    /// How long an answer is awaited.
    pub fn retransmit(&self) -> Span {
        self.retransmit
    }

    /// Changes that; returns false if it is longer than addresses are kept.
    #[must_use = "a time that is refused changes nothing"]
    pub fn set_retransmit(&mut self, retransmit: Span, now: Time) -> bool {
        if retransmit > self.aging {
            return false;
        }
        self.retransmit = retransmit;
        for entry in self.entries.values_mut().filter(|entry| entry.mac.is_none()) {
            entry.expires = entry.expires.min(now + retransmit);
        }
        true
    }

    /// The table of `tnl/neigh/show`.
    pub fn show(&self, now: Time) -> String {
        let mut text = String::from(
            "IP                                            MAC                 Bridge\n\
             ==========================================================================\n",
        );
        for ((bridge, address), entry) in &self.entries {
            let address = address_text(*address);
            // Writing to a string cannot fail.
            let _ = match entry.mac {
                Some(mac) => write!(text, "{address:<ADDRESS_WIDTH$}{mac}   {bridge}"),
                None => write!(text, "{address:<ADDRESS_WIDTH$}{:20}{bridge} INCOMPLETE", ""),
            };
            text.push_str(if entry.expires <= now { " STALE\n" } else { "\n" });
        }
        text
    }
}
