//! Which port of a bridge each Ethernet address was last seen on, per VLAN.
//!
//! Owns the table: ageing, size limit with fairness among ports, static entries. Never looks at packets. Time has whole
//! seconds here, as in OVS. Counterpart: OVS `lib/mac-learning.c`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::bridge::BundleId;
use crate::types::{MacAddr, Span, Time};

/// Seconds after which an entry that is not seen again goes, unless configured (OVS `MAC_ENTRY_DEFAULT_IDLE_TIME`).
pub const DEFAULT_IDLE_SECS: u64 = 300;
/// Entries in a table, unless configured (OVS `MAC_DEFAULT_MAX`).
pub const DEFAULT_MAX_ENTRIES: usize = 8192;
/// How long gratuitous ARP on a bond does not move an entry that was learned elsewhere (OVS `MAC_GRAT_ARP_LOCK_TIME`).
const GRATUITOUS_ARP_LOCK: Span = Span::from_secs(5);

/// A learned or static address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// Address.
    pub mac: MacAddr,
    /// VLAN.
    pub vlan: u16,
    /// Where it is.
    pub port: BundleId,
    /// Seconds since it was last seen; `None` for a static entry.
    pub age_secs: Option<u64>,
}

#[derive(Clone, Debug)]
struct Slot {
    port: BundleId,
    /// Second at which the entry goes; `None`: never (static).
    expires: Option<u64>,
    locked_until: Time,
    /// When the address was last heard on this port.
    heard: Time,
    /// Position among all entries: higher is more recent.
    seq: u64,
}

/// Counts of what happened to a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacCounters {
    /// Entries made by learning.
    pub learned: u64,
    /// Entries that aged out.
    pub expired: u64,
    /// Entries that made place for others.
    pub evicted: u64,
    /// Entries that changed ports.
    pub moved: u64,
}

impl std::ops::AddAssign for MacCounters {
    fn add_assign(&mut self, other: Self) {
        self.learned += other.learned;
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.moved += other.moved;
    }
}

/// What learning an address did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing but keeping the entry alive, or not even that.
    Same,
    /// A new entry, or one with another port: forwarding changes.
    Changed,
}

/// A packet's source, as far as learning is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacSource {
    /// Source address.
    pub mac: MacAddr,
    /// VLAN inside the bridge.
    pub vlan: u16,
    /// Port (bundle) it came in by.
    pub port: BundleId,
    /// Whether that port is a bond.
    pub is_bond: bool,
    /// Whether the packet is gratuitous ARP.
    pub is_gratuitous_arp: bool,
}

/// The learning table of a bridge.
#[derive(Clone, Debug)]
pub struct MacTable {
    entries: BTreeMap<(u16, MacAddr), Slot>,
    /// Entries from the least to the most recently seen.
    lru: BTreeMap<u64, (u16, MacAddr)>,
    by_port: BTreeMap<BundleId, BTreeSet<u64>>,
    next_seq: u64,
    idle_secs: u64,
    max_entries: usize,
    flood_vlans: BTreeSet<u16>,
    counters: MacCounters,
    /// What they were when they were last cleared.
    cleared: MacCounters,
    /// Whether forwarding may have changed since [`Self::take_changed`].
    changed: bool,
}

impl Default for MacTable {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            lru: BTreeMap::new(),
            by_port: BTreeMap::new(),
            next_seq: 0,
            idle_secs: DEFAULT_IDLE_SECS,
            max_entries: DEFAULT_MAX_ENTRIES,
            flood_vlans: BTreeSet::new(),
            counters: MacCounters::default(),
            cleared: MacCounters::default(),
            changed: false,
        }
    }
}

const fn secs(now: Time) -> u64 {
    now.0 / 1_000_000_000
}

impl MacTable {
    /// Changes after how many seconds entries age out: 15 to 3600, others are brought into that range.
    pub fn set_idle_time(&mut self, secs: u64) {
        let secs = secs.clamp(15, 3600);
        // OVS moves what static entries have in place of a time, too, so that they become learned ones.
        for slot in self.entries.values_mut() {
            slot.expires = slot.expires.map(|expires| (expires + secs).saturating_sub(self.idle_secs));
        }
        self.idle_secs = secs;
    }

    /// Changes how many entries there may be: 10 to a million, others are brought into that range.
    pub fn set_max_entries(&mut self, max: usize) {
        self.max_entries = max.clamp(10, 1_000_000);
    }

    /// How many entries there may be.
    pub fn max_entries(&self) -> usize {
        self.max_entries
    }

    /// Changes in which VLANs nothing is learned and everything flooded; forgets what was learned if that is new.
    pub fn set_flood_vlans(&mut self, vlans: BTreeSet<u16>) {
        if vlans != self.flood_vlans {
            self.flood_vlans = vlans;
            self.flush();
            self.changed = true;
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries are static.
    pub fn n_static(&self) -> usize {
        self.entries.values().filter(|slot| slot.expires.is_none()).count()
    }

    /// What happened since [`Self::clear_counters`].
    pub fn counters(&self) -> MacCounters {
        let MacCounters { learned, expired, evicted, moved } = self.counters;
        MacCounters {
            learned: learned - self.cleared.learned,
            expired: expired - self.cleared.expired,
            evicted: evicted - self.cleared.evicted,
            moved: moved - self.cleared.moved,
        }
    }

    /// What happened so far.
    pub fn totals(&self) -> MacCounters {
        self.counters
    }

    /// Starts [`Self::counters`] again.
    pub fn clear_counters(&mut self) {
        self.cleared = self.counters;
    }

    /// The port that `mac` was last seen on in `vlan`.
    pub fn lookup(&self, mac: MacAddr, vlan: u16) -> Option<BundleId> {
        if mac.is_multicast() || self.flood_vlans.contains(&vlan) {
            return None;
        }
        self.entries.get(&(vlan, mac)).map(|slot| slot.port)
    }

    /// Whether gratuitous ARP on a bond is ignored for this address at the moment.
    pub fn is_locked(&self, mac: MacAddr, vlan: u16, now: Time) -> bool {
        self.entries.get(&(vlan, mac)).is_some_and(|slot| now < slot.locked_until)
    }

    /// Entries from the least to the most recently seen.
    pub fn entries(&self, now: Time) -> impl Iterator<Item = MacEntry> {
        self.lru.values().filter_map(move |&(vlan, mac)| {
            let slot = self.entries.get(&(vlan, mac))?;
            let age_secs = slot.expires.map(|expires| (self.idle_secs + secs(now)).saturating_sub(expires));
            Some(MacEntry { mac, vlan, port: slot.port, age_secs })
        })
    }

    /// Learns where a packet came from, or keeps the entry alive.
    pub fn learn(&mut self, source: &MacSource, now: Time) -> Learned {
        self.learn_heard(source, now, now)
    }

    fn learn_heard(&mut self, source: &MacSource, heard: Time, now: Time) -> Learned {
        let MacSource { mac, vlan, port, is_bond, is_gratuitous_arp } = *source;
        if mac.is_multicast() || self.flood_vlans.contains(&vlan) {
            return Learned::Same;
        }
        let old = self.entries.get(&(vlan, mac));
        if old.is_some_and(|slot| slot.expires.is_none()) {
            return Learned::Same;
        }
        let locked = old.is_some_and(|slot| now < slot.locked_until);
        let age = old.and_then(|slot| slot.expires).map(|e| (self.idle_secs + secs(now)).saturating_sub(e));
        let old_port = old.map(|slot| slot.port);
        let lock = is_gratuitous_arp && !is_bond;
        let reflected = is_gratuitous_arp && is_bond && locked;
        if age == Some(0) && !lock && (reflected || old_port == Some(port)) {
            self.heard(mac, vlan, heard);
            return Learned::Same;
        }
        if old.is_none() {
            self.make_room();
            self.counters.learned += 1;
        }
        let expires = Some(secs(now) + self.idle_secs);
        if reflected {
            // Kept alive, but not moved.
            self.put(mac, vlan, old_port.unwrap_or(port), expires);
            self.heard(mac, vlan, heard);
            return Learned::Same;
        }
        self.put(mac, vlan, port, expires);
        self.heard(mac, vlan, heard);
        if lock && let Some(slot) = self.entries.get_mut(&(vlan, mac)) {
            slot.locked_until = now + GRATUITOUS_ARP_LOCK;
        }
        if old_port == Some(port) {
            return Learned::Same;
        }
        if old_port.is_some() {
            self.counters.moved += 1;
        }
        self.changed = true;
        Learned::Changed
    }

    /// Learns from packets that a datapath flow forwarded, the last of them at `used`. That this is told later than it
    /// happened must not move an address back that was heard elsewhere since (OVS `xlate_push_stats_entry()` does that).
    pub fn confirm(&mut self, source: &MacSource, used: Time, now: Time) -> Learned {
        let key = (source.vlan, source.mac);
        if self.entries.get(&key).is_some_and(|slot| slot.port != source.port && slot.heard > used) {
            return Learned::Same;
        }
        self.learn_heard(source, used, now)
    }

    fn heard(&mut self, mac: MacAddr, vlan: u16, at: Time) {
        if let Some(slot) = self.entries.get_mut(&(vlan, mac)) {
            slot.heard = slot.heard.max(at);
        }
    }

    /// Adds an entry that neither ages nor moves, or makes one such.
    pub fn add_static(&mut self, mac: MacAddr, vlan: u16, port: BundleId) {
        match self.entries.get(&(vlan, mac)) {
            None => self.make_room(),
            Some(slot) if slot.port != port => self.changed = true,
            Some(_) => {}
        }
        self.changed |= !self.entries.contains_key(&(vlan, mac));
        self.put(mac, vlan, port, None);
    }

    /// Removes a static entry; returns whether it was there.
    pub fn remove_static(&mut self, mac: MacAddr, vlan: u16) -> bool {
        let found = self.entries.get(&(vlan, mac)).is_some_and(|slot| slot.expires.is_none());
        if found {
            self.remove(mac, vlan);
        }
        found
    }

    /// Forgets everything that was learned.
    pub fn flush(&mut self) {
        let learned = |slot: &Slot| slot.expires.is_some();
        let gone: Vec<_> =
            self.entries.iter().filter(|(_, slot)| learned(slot)).map(|(&key, _)| key).collect();
        gone.into_iter().for_each(|(vlan, mac)| self.remove(mac, vlan));
    }

    /// Forgets what points to a port that goes, or whose VLANs change.
    pub fn flush_port(&mut self, port: BundleId) {
        let seqs: Vec<u64> = self.by_port.get(&port).into_iter().flatten().copied().collect();
        for seq in seqs {
            if let Some(&(vlan, mac)) = self.lru.get(&seq) {
                self.remove(mac, vlan);
            }
        }
    }

    /// Removes what is too old or too much; returns whether forwarding changed since the last call.
    pub fn run(&mut self, now: Time) -> bool {
        loop {
            let oldest = self.lru.values().find_map(|&(vlan, mac)| {
                let expires = self.entries.get(&(vlan, mac))?.expires?;
                Some((vlan, mac, expires))
            });
            match oldest {
                Some((vlan, mac, expires))
                    if secs(now) >= expires || self.entries.len() > self.max_entries =>
                {
                    self.counters.expired += 1;
                    self.remove(mac, vlan);
                }
                _ => return self.take_changed(),
            }
        }
    }

    /// Whether forwarding may have changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// When [`Self::run`] has something to do next.
    pub fn next_wakeup(&self) -> Option<Time> {
        let mut slots = self.lru.values().filter_map(|key| self.entries.get(key)?.expires);
        slots.next().map(|expires| Time(expires.saturating_mul(1_000_000_000)))
    }

    fn put(&mut self, mac: MacAddr, vlan: u16, port: BundleId, expires: Option<u64>) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let old = self.unlink(mac, vlan);
        let locked_until = old.as_ref().map_or(Time::ZERO, |old| old.locked_until);
        let heard = old.filter(|old| old.port == port).map_or(Time::ZERO, |old| old.heard);
        self.lru.insert(seq, (vlan, mac));
        self.by_port.entry(port).or_default().insert(seq);
        self.entries.insert((vlan, mac), Slot { port, expires, locked_until, heard, seq });
    }

    fn unlink(&mut self, mac: MacAddr, vlan: u16) -> Option<Slot> {
        let slot = self.entries.remove(&(vlan, mac))?;
        self.lru.remove(&slot.seq);
        if let Some(of_port) = self.by_port.get_mut(&slot.port) {
            of_port.remove(&slot.seq);
            if of_port.is_empty() {
                self.by_port.remove(&slot.port);
            }
        }
        Some(slot)
    }

    fn remove(&mut self, mac: MacAddr, vlan: u16) {
        if self.unlink(mac, vlan).is_some() {
            self.changed = true;
        }
    }

    /// Where the table is full, drops the oldest entry of the port that has most; among equals, of the first.
    fn make_room(&mut self) {
        if self.entries.len() < self.max_entries {
            return;
        }
        let busiest = self.by_port.iter().max_by_key(|(port, seqs)| (seqs.len(), std::cmp::Reverse(**port)));
        let oldest = busiest.and_then(|(_, seqs)| seqs.first());
        if let Some(&(vlan, mac)) = oldest.and_then(|seq| self.lru.get(seq)) {
            self.counters.evicted += 1;
            self.remove(mac, vlan);
        }
    }
}
