//! The exact match cache: recently seen keys, complete, and the flow that each belongs to.
//!
//! Two places for each hash, as in OVS. The places hold hash and entry number only, the keys lie dense beside them: a miss
//! touches one line, few flows need little memory, and a clone of an unused cache costs nothing.
//! Entries name a flow and its generation; whoever looks one up must check that the flow still lives.
//! Counterpart: `struct emc_cache` of OVS `lib/dpif-netdev-dfc.h`.

use super::key::PAD;
use super::store::FlowRef;
use crate::flow::{Map, Miniflow};

/// Places.
pub const EMC_ENTRIES: usize = 1 << EMC_SHIFT;
const EMC_SHIFT: u32 = 13;
/// Places in which a key may be, given its hash.
const SEGMENTS: usize = 2;
/// Keys with more words than this are not cached: no ordinary packet without tunnel options has as many.
pub const EMC_MAX_WORDS: usize = 3 * PAD;

/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    entry: u32,
}

/// Four cache lines, of which a plain key takes two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry {
    map: Map,
    flow: FlowRef,
    words: [u64; EMC_MAX_WORDS],
}

const _: () = assert!(size_of::<Entry>() == 256);

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
    /// The flow of a key, which may be dead by now. The key has `len` words, and zeros behind them.
    #[inline(always)]
    pub fn lookup(&self, hash: u32, key: &Miniflow, len: usize) -> Option<FlowRef> {
        let places = self.places.first_chunk::<EMC_ENTRIES>()?;
        for segment in 0..SEGMENTS {
            let place = &places[place_of(hash, segment)];
            if place.hash == hash
                && let Some(entry) = self.entries.get(place.entry as usize)
                && entry.is_for(key, len)
            {
                return Some(entry.flow);
            }
        }
        None
    }

    /// Puts a key in, or changes its flow. Of the two places, one that is empty or whose flow is dead is taken, else the
    /// one with the smaller hash.
    pub fn insert(
        &mut self,
        hash: u32,
        key: &Miniflow,
        len: usize,
        flow: FlowRef,
        alive: impl Fn(FlowRef) -> bool,
    ) {
        let Some(words) = key.values.get(..len).filter(|_| len <= EMC_MAX_WORDS) else {
            return;
        };
        if self.places.is_empty() {
            self.places = vec![Place { hash: 0, entry: NONE }; EMC_ENTRIES];
        }
        let mut victim: Option<(usize, bool, u32)> = None;
        for segment in 0..SEGMENTS {
            let at = place_of(hash, segment);
            let place = self.places[at];
            let entry = self.entries.get_mut(place.entry as usize);
            let living = match entry {
                Some(entry) if place.hash == hash && entry.is_for(key, len) => {
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
        let mut entry = Entry { map: key.map, flow, words: [0; EMC_MAX_WORDS] };
        entry.words[..len].copy_from_slice(words);
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
    /// Whether this is the entry of a key with `len` words. Compared in pieces: what lies behind the last word is zero.
    #[inline(always)]
    fn is_for(&self, key: &Miniflow, len: usize) -> bool {
        if self.map != key.map {
            return false;
        }
        let (ours, theirs) = (self.words.as_chunks::<PAD>().0, key.values.as_chunks::<PAD>().0);
        if !same(&ours[0], &theirs[0]) {
            return false;
        }
        len <= PAD
            || ours[1..].iter().zip(&theirs[1..len.div_ceil(PAD).min(theirs.len())]).all(|(a, b)| same(a, b))
    }
}

#[inline(always)]
fn same(a: &[u64; PAD], b: &[u64; PAD]) -> bool {
    let mut different = 0;
    for j in 0..PAD {
        different |= a[j] ^ b[j];
    }
    different == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(map: Map, words: &[u64]) -> Miniflow {
        let mut key = Miniflow { map, ..Miniflow::default() };
        key.values[..words.len()].copy_from_slice(words);
        key
    }

    fn find(emc: &Emc, hash: u32, map: Map, words: &[u64]) -> Option<FlowRef> {
        emc.lookup(hash, &key(map, words), words.len())
    }

    fn put(emc: &mut Emc, hash: u32, map: Map, words: &[u64], id: u32) {
        emc.insert(hash, &key(map, words), words.len(), flow(id), |_| true);
    }

    fn flow(id: u32) -> FlowRef {
        FlowRef { id, generation: 0 }
    }

    #[test]
    fn finds_exactly_what_was_put_in() {
        let mut emc = Emc::default();
        assert_eq!(find(&emc, 7, [0, 3], &[1, 2]), None, "empty");
        put(&mut emc, 7, [0, 3], &[1, 2], 5);
        assert_eq!(find(&emc, 7, [0, 3], &[1, 2]), Some(flow(5)));
        assert_eq!(find(&emc, 7, [0, 3], &[1, 3]), None, "other words");
        assert_eq!(find(&emc, 7, [0, 5], &[1, 2]), None, "other map");
        assert_eq!(find(&emc, 8, [0, 3], &[1, 2]), None, "other hash");
        put(&mut emc, 7, [0, 3], &[1, 2], 6);
        assert_eq!(find(&emc, 7, [0, 3], &[1, 2]), Some(flow(6)), "changed in place");
        assert_eq!(emc.len(|_| true), 1);
    }

    #[test]
    fn two_places_then_the_smaller_hash_goes() {
        let mut emc = Emc::default();
        // All with first place 1 and second place 1.
        let hash = |top: u32| (top << 26) | (1 << 13) | 1;
        put(&mut emc, hash(1), [0, 1], &[1], 1);
        put(&mut emc, hash(2), [0, 1], &[2], 2);
        assert_eq!(find(&emc, hash(1), [0, 1], &[1]), None, "both places are the same one");
        assert_eq!(find(&emc, hash(2), [0, 1], &[2]), Some(flow(2)));

        let hash = |first: u32, second: u32| (second << 13) | first;
        let mut emc = Emc::default();
        put(&mut emc, hash(1, 2), [0, 1], &[1], 1);
        put(&mut emc, hash(2, 1), [0, 1], &[2], 2);
        put(&mut emc, hash(1, 2), [0, 1], &[3], 3);
        assert_eq!(find(&emc, hash(2, 1), [0, 1], &[2]), None, "the smaller hash of the two went");
        assert_eq!(find(&emc, hash(1, 2), [0, 1], &[1]), Some(flow(1)));
        assert_eq!(find(&emc, hash(1, 2), [0, 1], &[3]), Some(flow(3)));
        emc.insert(hash(1, 2), &key([0, 1], &[4]), 1, flow(4), |held| held != flow(3));
        assert_eq!(find(&emc, hash(1, 2), [0, 1], &[3]), None, "a dead one goes first");
        assert_eq!(find(&emc, hash(1, 2), [0, 1], &[1]), Some(flow(1)));
    }

    #[test]
    fn long_keys_are_not_cached() {
        let mut emc = Emc::default();
        let words = [1; EMC_MAX_WORDS + 1];
        let map = [0, (1 << (EMC_MAX_WORDS + 1)) - 1];
        put(&mut emc, 7, map, &words, 1);
        assert_eq!(find(&emc, 7, map, &words), None);
        put(&mut emc, 7, [0, (1 << EMC_MAX_WORDS) - 1], &words[1..], 1);
        assert_eq!(find(&emc, 7, [0, (1 << EMC_MAX_WORDS) - 1], &words[1..]), Some(flow(1)));
    }
}
