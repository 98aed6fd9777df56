//! Simple match: while all flows of a port look at nothing but what every frame has (Ethernet type, VLAN id, fragment
//! kind), a packet's flow is found from these three, without extracting a key.
//!
//! Counterpart: `dp_netdev_simple_match_*` of OVS `lib/dpif-netdev.c`. There the port is part of the mark; here each port
//! has its table.

use super::hash;
use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER, SimpleKey, VLAN_CFI};

/// VLAN id and "tag present": what simple match looks at in a tag.
const TCI_MASK: u16 = VLAN_CFI | 0x0fff;
const FRAG_MASK: u8 = NW_FRAG_ANY | NW_FRAG_LATER;
const NO_MARK: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    mark: u64,
    flow: u32,
}

/// The simple flows of one port.
#[derive(Clone, Debug, Default)]
pub struct SimpleTable {
    /// A power of two of entries, at most half of them in use; none without flows.
    entries: Vec<Entry>,
    len: usize,
}

/// What identifies the packets of a simple flow on its port.
#[inline(always)]
pub fn mark(key: &SimpleKey) -> u64 {
    u64::from(key.dl_type) << 32
        | u64::from(key.nw_frag & FRAG_MASK) << 16
        | u64::from(key.vlan_tci & TCI_MASK)
}

/// The mark of a flow if it is simple: first pass, Ethernet, and the mask has all of the bits of a mark and no others
/// (`dp_netdev_flow_is_simple_match`). Only where the Ethernet type is not IP may fragments be left out.
pub fn mark_of(key: &Flow, mask: &Flow) -> Option<u64> {
    let mut most = Flow { recirc_id: u32::MAX, in_port: u32::MAX, nw_frag: FRAG_MASK, ..Flow::default() };
    most.packet_type.set(u32::MAX);
    most.dl_type.set(u16::MAX);
    most.vlans[0].tci.set(TCI_MASK);

    let dl_type = key.dl_type.get();
    let extra = mask.words().iter().zip(most.words()).any(|(mask, most)| mask & !most != 0);
    let ip = matches!(dl_type, 0x0800 | 0x86dd);
    let complete = mask.dl_type.get() == u16::MAX
        && mask.vlans[0].tci.get() == TCI_MASK
        && (mask.nw_frag == FRAG_MASK || !ip);
    if extra || !complete || key.recirc_id != 0 || key.packet_type.get() != 0 {
        return None;
    }
    let nw_frag = key.nw_frag & mask.nw_frag;
    Some(mark(&SimpleKey { dl_type, vlan_tci: key.vlans[0].tci.get(), nw_frag, tcp_flags: 0 }))
}

impl SimpleTable {
    /// Flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no flow.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The flow of the packets with `mark`.
    #[inline(always)]
    pub fn lookup(&self, mark: u64) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        let mut at = hash::word(mark) as usize;
        loop {
            let entry = &self.entries[at & (self.entries.len() - 1)];
            if entry.mark == mark {
                return Some(entry.flow);
            }
            if entry.mark == NO_MARK {
                return None;
            }
            at += 1;
        }
    }

    /// Adds a flow, unless its mark is taken; returns whether it was not.
    pub fn insert(&mut self, mark: u64, flow: u32) -> bool {
        if self.lookup(mark).is_some() {
            return false;
        }
        if (self.len + 1) * 2 > self.entries.len() {
            let size = (self.entries.len() * 2).max(8);
            let empty = Entry { mark: NO_MARK, flow: 0 };
            for entry in std::mem::replace(&mut self.entries, vec![empty; size]) {
                if entry.mark != NO_MARK {
                    self.place(entry);
                }
            }
        }
        self.place(Entry { mark, flow });
        self.len += 1;
        true
    }

    /// Removes what stands for `mark` if it is `flow`; returns whether it did.
    pub fn remove(&mut self, mark: u64, flow: u32) -> bool {
        if self.lookup(mark) != Some(flow) {
            return false;
        }
        let entries: Vec<Entry> =
            self.entries.iter().copied().filter(|entry| entry.mark != NO_MARK).collect();
        self.entries.fill(Entry { mark: NO_MARK, flow: 0 });
        for entry in entries {
            if entry.mark != mark {
                self.place(entry);
            }
        }
        self.len -= 1;
        true
    }

    fn place(&mut self, entry: Entry) {
        let mut at = hash::word(entry.mark) as usize;
        // At least half of the entries are free.
        while self.entries[at & (self.entries.len() - 1)].mark != NO_MARK {
            at += 1;
        }
        let size = self.entries.len();
        self.entries[at & (size - 1)] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(dl_type: u16) -> (Flow, Flow) {
        let mut key = Flow { in_port: 1, ..Flow::default() };
        key.dl_type.set(dl_type);
        let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, nw_frag: FRAG_MASK, ..Flow::default() };
        mask.packet_type.set(u32::MAX);
        mask.dl_type.set(u16::MAX);
        mask.vlans[0].tci.set(TCI_MASK);
        (key, mask)
    }

    #[test]
    fn only_minimal_masks_are_simple() {
        let (key, mask) = flow(0x0800);
        assert!(mark_of(&key, &mask).is_some());
        let more = |change: fn(&mut Flow)| {
            let mut mask = mask;
            change(&mut mask);
            mark_of(&key, &mask)
        };
        assert_eq!(more(|mask| mask.nw_proto = 0xff), None);
        assert_eq!(more(|mask| mask.nw_tos = 1), None);
        assert_eq!(more(|mask| mask.vlans[0].tci.set(0xffff)), None, "with the priority");
        assert_eq!(more(|mask| mask.vlans[0].tci.set(0)), None);
        assert_eq!(more(|mask| mask.nw_frag = 0), None, "any fragment of IP");
        assert_eq!(more(|mask| mask.dl_type.set(0xff00)), None);
        assert_eq!(mark_of(&Flow { recirc_id: 1, ..key }, &mask), None);

        let (key, mut mask) = flow(0x0806);
        assert!(mark_of(&key, &mask).is_some());
        mask.nw_frag = 0;
        assert!(mark_of(&key, &mask).is_some(), "no fragments in ARP");
    }

    #[test]
    fn mark_of_a_packet_ignores_the_priority() {
        let key = SimpleKey { dl_type: 0x0800, vlan_tci: 0x1005, nw_frag: 0, tcp_flags: 2 };
        assert_eq!(mark(&key), mark(&SimpleKey { vlan_tci: 0xf005, tcp_flags: 0, ..key }));
        assert_ne!(mark(&key), mark(&SimpleKey { vlan_tci: 0x0005, ..key }));
        assert_ne!(mark(&key), mark(&SimpleKey { nw_frag: 1, ..key }));
    }

    #[test]
    fn many_marks_come_and_go() {
        let mut table = SimpleTable::default();
        assert_eq!(table.lookup(0), None);
        for mark in 0..1000 {
            assert!(table.insert(mark, mark as u32));
        }
        assert!(!table.insert(500, 1), "taken");
        assert!(!table.remove(500, 1), "somebody else's");
        for mark in (0..1000).step_by(2) {
            assert!(table.remove(mark, mark as u32));
        }
        for mark in 0..1000 {
            assert_eq!(table.lookup(mark), (mark % 2 == 1).then_some(mark as u32));
        }
        assert_eq!(table.len(), 500);
    }
}
