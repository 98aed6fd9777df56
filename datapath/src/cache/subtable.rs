//! One mask's table in the classifier, and the lookup of a batch in it, specialised by the number of words in the mask.
//!
//! Counterpart: `dpcls_subtable_lookup_generic` and its specialisations in OVS `lib/dpif-netdev-dpcls.c`. There the place
//! of each word is counted out for each packet; here once for each shape of key in the batch.

use super::key::{KeyBatch, bits, position};
use super::prefetch::{prefetch, prefetch_at};
use super::table::{Table, tag};
use crate::flow::{Map, Miniflow};
use crate::packet::BATCH;

/// Packets of a batch that have no flow yet, by index, in no particular order.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    index: [u8; BATCH],
    n: usize,
}

impl Default for Pending {
    fn default() -> Self {
        Self { index: [0; BATCH], n: 0 }
    }
}

impl Pending {
    /// Adds packet `i`, below [`BATCH`].
    #[inline(always)]
    pub fn push(&mut self, i: usize) {
        self.push_if(i, true);
    }

    /// Adds packet `i` if `condition`, without a branch on it. More than [`BATCH`] are never added.
    #[inline(always)]
    pub fn push_if(&mut self, i: usize, condition: bool) {
        if let Some(place) = self.index.get_mut(self.n) {
            *place = i as u8;
            self.n += usize::from(condition);
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Their indexes.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.index[..self.n].iter().map(|&i| usize::from(i) & (BATCH - 1))
    }
}

/// What a lookup found, by index in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Flow number.
    pub flows: [u32; BATCH],
    /// Subtables looked at until then.
    pub probed: [u16; BATCH],
}

impl Default for Found {
    fn default() -> Self {
        Self { flows: [super::store::NO_FLOW; BATCH], probed: [0; BATCH] }
    }
}

/// All flows of one classifier that have the same mask.
#[derive(Clone, Debug)]
pub struct Subtable {
    map: Map,
    mask: Box<[u64]>,
    table: Table,
    /// Where the mask's words lie in keys of the shape that was looked up last.
    last: Places<WIDEST>,
    /// Hits since the subtables were last ranked.
    pub(super) recent_hits: u64,
    /// Hits ever.
    pub(super) hits: u64,
}

/// Words in the widest mask that has a lookup of its own.
const WIDEST: usize = 10;

/// Where the words of a mask lie in keys of one shape.
#[derive(Clone, Copy, Debug)]
struct Places<const N: usize> {
    map: Map,
    at: [u8; N],
}

impl Subtable {
    /// An empty subtable for the mask with these words.
    pub fn new(map: Map, mask: &[u64]) -> Self {
        let last = Places { map: [0; 2], at: [0; WIDEST] };
        Self { map, mask: mask.into(), table: Table::new(mask.len()), last, recent_hits: 0, hits: 0 }
    }

    /// Whether this is the subtable of that mask.
    pub fn is_for(&self, map: Map, mask: &[u64]) -> bool {
        self.map == map && *self.mask == *mask
    }

    /// Words of the mask in each unit of the map (`miniflow_bits` in OVS's flow dumps).
    pub fn bits(&self) -> [u32; 2] {
        self.map.map(u64::count_ones)
    }

    /// The mask in full, without the ingress port.
    pub fn mask(&self) -> crate::flow::Flow {
        super::key::expand(self.map, &self.mask)
    }

    /// Hits ever.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Flows.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it has no flow.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Adds a flow under its masked words; returns whether they were not there yet.
    pub fn insert(&mut self, words: &[u64], flow: u32) -> bool {
        self.table.insert(words, flow)
    }

    /// Removes a flow.
    pub fn remove(&mut self, words: &[u64]) -> Option<u32> {
        self.table.remove(words)
    }

    /// Prepares for a batch whose first shape of key is `map`.
    #[inline(always)]
    pub(super) fn expect(&mut self, map: &Map) {
        if self.last.map != *map {
            self.last = self.places(map);
        }
    }

    /// Looks up all of `pending`, and takes out those that it finds. `rank` is how many subtables were looked at before.
    #[inline]
    pub fn lookup(&self, batch: &KeyBatch, pending: &mut Pending, rank: u16, found: &mut Found) {
        match self.mask.len() {
            1 => lookup::<1>(self, batch, pending, rank, found),
            2 => lookup::<2>(self, batch, pending, rank, found),
            3 => lookup::<3>(self, batch, pending, rank, found),
            4 => lookup::<4>(self, batch, pending, rank, found),
            5 => lookup::<5>(self, batch, pending, rank, found),
            6 => lookup::<6>(self, batch, pending, rank, found),
            7 => lookup::<7>(self, batch, pending, rank, found),
            8 => lookup::<8>(self, batch, pending, rank, found),
            9 => lookup::<9>(self, batch, pending, rank, found),
            10 => lookup::<10>(self, batch, pending, rank, found),
            _ => find_all(self, batch, pending, rank, found),
        }
    }

    /// The flow of key `i`, by the slow and complete way.
    #[cold]
    fn find(&self, batch: &KeyBatch, i: usize) -> Option<u32> {
        let shape = batch.shapes().get(batch.shape_of(i))?;
        let mut words = [0; crate::flow::FLOW_WORDS];
        let words = words.get_mut(..self.mask.len())?;
        for ((at, mask), word) in bits(self.map).zip(&self.mask).zip(&mut *words) {
            let position = position(&shape.map, at / 64, (at % 64) as u32);
            *word = batch.keys[i].values.get(position).map_or(0, |value| value & mask);
        }
        self.table.find(words)
    }

    /// Where each word of the mask lies in keys of a shape.
    #[inline(never)]
    fn places<const N: usize>(&self, map: &Map) -> Places<N> {
        let mut places = Places { map: *map, at: [0; N] };
        for (place, at) in places.at.iter_mut().zip(bits(self.map)) {
            *place = position(map, at / 64, (at % 64) as u32) as u8;
        }
        places
    }
}

/// The masked words of a key.
#[inline(always)]
fn gather<const N: usize>(key: &Miniflow, at: &[u8; N], mask: &[u64; N]) -> [u64; N] {
    let mut words = [0; N];
    for j in 0..N {
        words[j] = key.values[usize::from(at[j])] & mask[j];
    }
    words
}

#[inline]
fn lookup<const N: usize>(
    subtable: &Subtable,
    batch: &KeyBatch,
    pending: &mut Pending,
    rank: u16,
    found: &mut Found,
) {
    let Some(mask) = subtable.mask.first_chunk::<N>() else {
        return;
    };
    // Keys of a batch mostly have the same shape: then nothing depends on the packet but its words.
    match (batch.shapes(), subtable.last.at.first_chunk::<N>()) {
        ([shape], Some(at)) if shape.map == subtable.last.map => {
            let at = *at;
            look_up(subtable, batch, pending, rank, found, |key, _| gather(key, &at, mask));
        }
        (shapes, _) => {
            let mut places = [[0; N]; BATCH];
            for (at, shape) in places.iter_mut().zip(shapes) {
                *at = subtable.places(&shape.map).at;
            }
            look_up(subtable, batch, pending, rank, found, |key, i| {
                gather(key, &places[batch.shape_of(i) & (BATCH - 1)], mask)
            });
        }
    }
}

/// Three passes, so that what one packet waits for overlaps with the next one's work: hash and ask for the bucket; find
/// the tag and ask for the row; compare the row.
#[inline(always)]
fn look_up<const N: usize>(
    subtable: &Subtable,
    batch: &KeyBatch,
    pending: &mut Pending,
    rank: u16,
    found: &mut Found,
    gather: impl Fn(&Miniflow, usize) -> [u64; N],
) {
    let table = &subtable.table;
    let before = *pending;
    let mut tags = [0u32; BATCH];
    for (tag_of, i) in tags.iter_mut().zip(before.iter()) {
        *tag_of = tag(&gather(&batch.keys[i], i));
        prefetch_at(table.buckets(), table.home(*tag_of));
    }

    let mut candidates = Pending::default();
    let mut rows = [0u32; BATCH];
    let mut spilled = false;
    pending.n = 0;
    for (tag, i) in tags.into_iter().zip(before.iter()) {
        let bucket = &table.buckets()[table.home(tag)];
        let matches = bucket.matches(tag);
        let row = bucket.row(matches.trailing_zeros());
        rows[candidates.n & (BATCH - 1)] = row;
        candidates.push_if(i, matches != 0);
        pending.push_if(i, matches == 0);
        spilled |= matches == 0 && bucket.is_full();
        if let Some(row) = table.row_start(row) {
            prefetch(row);
        }
    }

    if spilled {
        find_all(subtable, batch, pending, rank, found);
    }

    for (row, i) in rows.into_iter().zip(candidates.iter()) {
        let words = gather(&batch.keys[i], i);
        let (flow, row) = table.row(row);
        let flow = if row.first_chunk::<N>().is_some_and(|row| equal(row, &words)) {
            Some(flow)
        } else {
            // Another key has the same hash, and was in front of this one.
            subtable.find(batch, i)
        };
        match flow {
            Some(flow) => {
                found.flows[i] = flow;
                found.probed[i] = rank + 1;
            }
            None => pending.push(i),
        }
    }
}

#[inline(always)]
fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    let mut different = 0;
    for j in 0..N {
        different |= a[j] ^ b[j];
    }
    different == 0
}

/// The slow and complete way for all of `pending`: masks of unusual size, full buckets.
#[cold]
fn find_all(subtable: &Subtable, batch: &KeyBatch, pending: &mut Pending, rank: u16, found: &mut Found) {
    let before = *pending;
    pending.n = 0;
    for i in before.iter() {
        match subtable.find(batch, i) {
            Some(flow) => {
                found.flows[i] = flow;
                found.probed[i] = rank + 1;
            }
            None => pending.push(i),
        }
    }
}
