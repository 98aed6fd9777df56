//! The exact match cache: recently seen keys, complete, and the flow that each belongs to.
//!
//! Two places for each hash, as in OVS. The places hold hash and entry number only, the keys lie dense beside them: a miss
//! touches one line, few flows need little memory, and a clone of an unused cache costs nothing.
//! Entries name a flow and its generation; whoever looks one up must check that the flow still lives.
//! Counterpart: `struct emc_cache` of OVS `lib/dpif-netdev-dfc.h`.

use super::prefetch::{prefetch, prefetch_at};
use super::store::FlowRef;
use crate::flow::Map;

/// Places.
pub const EMC_ENTRIES: usize = 1 << EMC_SHIFT;
const EMC_SHIFT: u32 = 13;
/// Places in which a key may be, given its hash.
const SEGMENTS: usize = 2;
/// Keys with more words than this are not cached: no ordinary packet without tunnel options has as many.
pub const EMC_MAX_WORDS: usize = 21;

/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    entry: u32,
}

/// Three cache lines, of which a plain key takes one or two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry {
    map: Map,
    flow: FlowRef,
    words: [u64; EMC_MAX_WORDS],
}

const _: () = assert!(size_of::<Entry>() == 192);

/// The cache. Memory is taken at the first insertion.
#[derive(Clone, Debug, Default)]
pub struct Emc {
    places: Vec<Place>,
    entries: Vec<Entry>,
}

#[inline(always)]
fn place_of(hash: u32, segment: usize) -> usize {
    (hash >> (EMC_SHIFT * segment as u32)) as usize & (EMC_ENTRIES - 1)
}

impl Emc {
    /// Asks for the lines that a lookup of `hash` starts with.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        for segment in 0..SEGMENTS {
            prefetch_at(&self.places, place_of(hash, segment));
        }
    }

    /// The flow of a key, which may be dead by now. `words` are the present words of a key with that `map`.
    #[inline(always)]
    pub fn lookup(&self, hash: u32, map: Map, words: &[u64]) -> Option<FlowRef> {
        let places = self.places.first_chunk::<EMC_ENTRIES>()?;
        for segment in 0..SEGMENTS {
            let place = &places[place_of(hash, segment)];
            if place.hash == hash
                && let Some(entry) = self.entries.get(place.entry as usize)
                && entry.is_for(map, words)
            {
                return Some(entry.flow);
            }
        }
        None
    }

    /// Asks for the entry in the first place of `hash`, if it is there.
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u32) {
        if let Some(place) = self.places.get(place_of(hash, 0))
            && place.hash == hash
            && let Some(entry) = self.entries.get(place.entry as usize)
        {
            prefetch(entry);
            prefetch(&entry.words[6]);
        }
    }

    /// Puts a key in, or changes its flow. Of the two places, one that is empty or whose flow is dead is taken, else the
    /// one with the smaller hash.
    pub fn insert(
        &mut self,
        hash: u32,
        map: Map,
        words: &[u64],
        flow: FlowRef,
        alive: impl Fn(FlowRef) -> bool,
    ) {
        if words.len() > EMC_MAX_WORDS {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![Place { hash: 0, entry: NONE }; EMC_ENTRIES];
        }
        let mut victim: Option<(usize, bool, u32)> = None;
        for segment in 0..SEGMENTS {
            let at = place_of(hash, segment);
            let place = self.places[at];
            let entry = self.entries.get_mut(place.entry as usize);
            let living = match entry {
                Some(entry) if place.hash == hash && entry.is_for(map, words) => {
                    entry.flow = flow;
                    return;
                }
                Some(entry) => alive(entry.flow),
                None => false,
            };
            let better = match victim {
                None => true,
                Some((_, victim_living, victim_hash)) => (living, place.hash) < (victim_living, victim_hash),
            };
            if better {
                victim = Some((at, living, place.hash));
            }
        }
        let Some((at, ..)) = victim else {
            return;
        };
        let mut entry = Entry { map, flow, words: [0; EMC_MAX_WORDS] };
        entry.words[..words.len()].copy_from_slice(words);
        let place = &mut self.places[at];
        place.hash = hash;
        match self.entries.get_mut(place.entry as usize) {
            Some(old) => *old = entry,
            None => {
                place.entry = self.entries.len() as u32;
                self.entries.push(entry);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.places = Vec::new();
        self.entries = Vec::new();
    }

    /// Entries in use whose flow is alive.
    pub fn len(&self, alive: impl Fn(FlowRef) -> bool) -> usize {
        self.entries.iter().filter(|entry| alive(entry.flow)).count()
    }
}

impl Entry {
    #[inline(always)]
    fn is_for(&self, map: Map, words: &[u64]) -> bool {
        // Equal maps have equally many words; the bound is for the compiler.
        self.map == map
            && words.len() <= EMC_MAX_WORDS
            && self.words.iter().zip(words).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(id: u32) -> FlowRef {
        FlowRef { id, generation: 0 }
    }

    #[test]
    fn finds_exactly_what_was_put_in() {
        let mut emc = Emc::default();
        assert_eq!(emc.lookup(7, [0, 3], &[1, 2]), None, "empty");
        emc.insert(7, [0, 3], &[1, 2], flow(5), |_| true);
        assert_eq!(emc.lookup(7, [0, 3], &[1, 2]), Some(flow(5)));
        assert_eq!(emc.lookup(7, [0, 3], &[1, 3]), None, "other words");
        assert_eq!(emc.lookup(7, [0, 5], &[1, 2]), None, "other map");
        assert_eq!(emc.lookup(8, [0, 3], &[1, 2]), None, "other hash");
        emc.insert(7, [0, 3], &[1, 2], flow(6), |_| true);
        assert_eq!(emc.lookup(7, [0, 3], &[1, 2]), Some(flow(6)), "changed in place");
        assert_eq!(emc.len(|_| true), 1);
    }

    #[test]
    fn two_places_then_the_smaller_hash_goes() {
        let mut emc = Emc::default();
        // All with first place 1 and second place 1.
        let hash = |top: u32| (top << 26) | (1 << 13) | 1;
        emc.insert(hash(1), [0, 1], &[1], flow(1), |_| true);
        emc.insert(hash(2), [0, 1], &[2], flow(2), |_| true);
        assert_eq!(emc.lookup(hash(1), [0, 1], &[1]), None, "both places are the same one");
        assert_eq!(emc.lookup(hash(2), [0, 1], &[2]), Some(flow(2)));

        let hash = |first: u32, second: u32| (second << 13) | first;
        let mut emc = Emc::default();
        emc.insert(hash(1, 2), [0, 1], &[1], flow(1), |_| true);
        emc.insert(hash(2, 1), [0, 1], &[2], flow(2), |_| true);
        emc.insert(hash(1, 2), [0, 1], &[3], flow(3), |_| true);
        assert_eq!(emc.lookup(hash(2, 1), [0, 1], &[2]), None, "the smaller hash of the two went");
        assert_eq!(emc.lookup(hash(1, 2), [0, 1], &[1]), Some(flow(1)));
        assert_eq!(emc.lookup(hash(1, 2), [0, 1], &[3]), Some(flow(3)));
        emc.insert(hash(1, 2), [0, 1], &[4], flow(4), |held| held != flow(3));
        assert_eq!(emc.lookup(hash(1, 2), [0, 1], &[3]), None, "a dead one goes first");
        assert_eq!(emc.lookup(hash(1, 2), [0, 1], &[1]), Some(flow(1)));
    }

    #[test]
    fn long_keys_are_not_cached() {
        let mut emc = Emc::default();
        let words = [1; EMC_MAX_WORDS + 1];
        let map = [0, (1 << (EMC_MAX_WORDS + 1)) - 1];
        emc.insert(7, map, &words, flow(1), |_| true);
        assert_eq!(emc.lookup(7, map, &words), None);
        emc.insert(7, [0, (1 << EMC_MAX_WORDS) - 1], &words[1..], flow(1), |_| true);
        assert_eq!(emc.lookup(7, [0, (1 << EMC_MAX_WORDS) - 1], &words[1..]), Some(flow(1)));
    }
}
