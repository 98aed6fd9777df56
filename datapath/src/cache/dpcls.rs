//! The datapath classifier: all flows of one ingress port, in one subtable for each mask, most used first.
//!
//! Flows do not have priorities here; where masks overlap, the first subtable that has a match decides, as in OVS.
//! Counterpart: `dpcls_*` of OVS `lib/dpif-netdev.c`, `lib/dpif-netdev-dpcls.h`.

use super::key::{KeyBatch, MaskedKey};
use super::subtable::{Found, Pending, Subtable};

/// The classifier of one ingress port.
///
/// Keys are looked up without their ingress port: all of a classifier's flows and packets have the same.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    subtables: Vec<Subtable>,
    len: usize,
}

impl Classifier {
    /// Flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no flow.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The subtables in the order in which they are looked at.
    pub fn subtables(&self) -> &[Subtable] {
        &self.subtables
    }

    /// Adds a flow; returns whether no flow had the same key and mask yet. A new mask goes last.
    pub fn insert(&mut self, key: &MaskedKey, flow: u32) -> bool {
        let (map, mask) = (key.map(), key.mask_words());
        let at = match self.subtables.iter().position(|subtable| subtable.is_for(map, mask)) {
            Some(at) => at,
            None => {
                self.subtables.push(Subtable::new(map, mask));
                self.subtables.len() - 1
            }
        };
        let added = self.subtables[at].insert(key.key_words(), flow);
        self.len += usize::from(added);
        added
    }

    /// Removes a flow; a subtable left empty goes too.
    pub fn remove(&mut self, key: &MaskedKey) -> Option<u32> {
        let (map, mask) = (key.map(), key.mask_words());
        let at = self.subtables.iter().position(|subtable| subtable.is_for(map, mask))?;
        let flow = self.subtables[at].remove(key.key_words())?;
        self.len -= 1;
        if self.subtables[at].is_empty() {
            self.subtables.remove(at);
        }
        Some(flow)
    }

    /// Looks up all of `pending`; what is found is taken out of it. Returns how many subtables were looked at for the
    /// packets that were found (`PMD_STAT_MASKED_LOOKUP`).
    #[inline]
    pub fn lookup(&mut self, batch: &KeyBatch, pending: &mut Pending, found: &mut Found) -> u64 {
        let mut lookups = 0;
        for (rank, subtable) in self.subtables.iter_mut().enumerate() {
            if pending.is_empty() {
                break;
            }
            let before = pending.len();
            if let Some(shape) = batch.shapes().first() {
                subtable.expect(&shape.map);
            }
            subtable.lookup(batch, pending, rank as u16, found);
            let hits = (before - pending.len()) as u64;
            subtable.recent_hits += hits;
            subtable.hits += hits;
            lookups += hits * (rank as u64 + 1);
        }
        lookups
    }

    /// Looks up like [`Self::lookup`], and counts nothing.
    pub fn peek(&self, batch: &KeyBatch, pending: &mut Pending, found: &mut Found) {
        for (rank, subtable) in self.subtables.iter().enumerate() {
            subtable.lookup(batch, pending, rank as u16, found);
        }
    }

    /// Ranks the subtables by their hits since the last time (`dpcls_sort_subtable_vector`).
    pub fn rank(&mut self) {
        self.subtables.sort_by_key(|subtable| std::cmp::Reverse(subtable.recent_hits));
        for subtable in &mut self.subtables {
            subtable.recent_hits = 0;
        }
    }
}
