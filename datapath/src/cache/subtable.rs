//! One mask's table in the classifier, and the lookup of a batch in it, specialised by the number of words in the mask.
//!
//! Counterpart: `dpcls_subtable_lookup_generic` and its specialisations in OVS `lib/dpif-netdev-dpcls.c`. There the place
//! of each word is counted out for each packet; here once for each shape of key in the batch.

use super::key::{KeyBatch, position};
use super::prefetch::{prefetch, prefetch_at};
use super::table::{Table, tag};
use crate::flow::Map;
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
    /// Hits since the subtables were last ranked.
    pub(super) recent_hits: u64,
    /// Hits ever.
    pub(super) hits: u64,
}

impl Subtable {
    /// An empty subtable for the mask with these words.
    pub fn new(map: Map, mask: &[u64]) -> Self {
        Self { map, mask: mask.into(), table: Table::new(mask.len()), recent_hits: 0, hits: 0 }
    }

    /// Whether this is the subtable of that mask.
    pub fn is_for(&self, map: Map, mask: &[u64]) -> bool {
        self.map == map && *self.mask == *mask
    }

    /// Words of the mask in each unit of the map (`miniflow_bits` in OVS's flow dumps).
    pub fn bits(&self) -> [u32; 2] {
        self.map.map(u64::count_ones)
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
            _ => lookup_any(self, batch, pending, rank, found),
        }
    }

    /// The flow of key `i`, by the slow and complete way.
    #[cold]
    fn find(&self, batch: &KeyBatch, i: usize) -> Option<u32> {
        let shape = batch.shapes().get(batch.shape_of(i))?;
        let mut words = [0; crate::flow::FLOW_WORDS];
        let words = words.get_mut(..self.mask.len())?;
        for ((at, mask), word) in super::key::bits(self.map).zip(&self.mask).zip(&mut *words) {
            let position = position(&shape.map, at / 64, (at % 64) as u32);
            *word = batch.keys[i].values.get(position).map_or(0, |value| value & mask);
        }
        self.table.find(words)
    }

    /// Where each word of the mask lies in keys of a shape.
    #[inline(always)]
    fn positions(&self, map: &Map, places: &mut [u8]) {
        for (place, at) in places.iter_mut().zip(super::key::bits(self.map)) {
            *place = position(map, at / 64, (at % 64) as u32) as u8;
        }
    }
}

/// The masked words of a key.
#[inline(always)]
fn gather<const N: usize>(values: &[u64], places: &[u8; N], mask: &[u64; N]) -> [u64; N] {
    let mut words = [0; N];
    for j in 0..N {
        words[j] = values[usize::from(places[j])] & mask[j];
    }
    words
}

/// Three passes, so that what one packet waits for overlaps with the next one's work: hash and ask for the bucket; find
/// the tag and ask for the row; compare the row.
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
    let table = &subtable.table;
    let mut places = [[0u8; N]; BATCH];
    for (places, shape) in places.iter_mut().zip(batch.shapes()) {
        subtable.positions(&shape.map, places);
    }

    let mut tags = [0u32; BATCH];
    for (tag_of, i) in tags.iter_mut().zip(pending.iter()) {
        let words = gather(&batch.keys[i].values, &places[batch.shape_of(i) & (BATCH - 1)], mask);
        *tag_of = tag(&words);
        prefetch_at(table.buckets(), table.home(*tag_of));
    }

    let before = *pending;
    let mut candidates = Pending::default();
    let mut rows = [0u32; BATCH];
    let mut spilled = false;
    pending.n = 0;
    for (tag, i) in tags.into_iter().zip(before.iter()) {
        let bucket = &table.buckets()[table.home(tag)];
        let matches = bucket.matches(tag);
        rows[candidates.n & (BATCH - 1)] = bucket.row(matches.trailing_zeros());
        if let Some(row) = table.row_start(rows[candidates.n & (BATCH - 1)]) {
            prefetch(row);
        }
        candidates.push_if(i, matches != 0);
        pending.push_if(i, matches == 0);
        spilled |= matches == 0 && bucket.is_full();
    }

    if spilled {
        find_all(subtable, batch, pending, rank, found);
    }

    for (row, i) in rows.into_iter().zip(candidates.iter()) {
        let words = gather(&batch.keys[i].values, &places[batch.shape_of(i) & (BATCH - 1)], mask);
        let (flow, row) = table.row(row);
        if row.iter().zip(&words).fold(0, |different, (a, b)| different | (a ^ b)) == 0 {
            found.flows[i] = flow;
            found.probed[i] = rank + 1;
        } else if let Some(flow) = subtable.find(batch, i) {
            // Another key has the same hash; it was in front of this one.
            found.flows[i] = flow;
            found.probed[i] = rank + 1;
        } else {
            pending.push(i);
        }
    }
}

/// The same for masks of unusual size.
fn lookup_any(subtable: &Subtable, batch: &KeyBatch, pending: &mut Pending, rank: u16, found: &mut Found) {
    find_all(subtable, batch, pending, rank, found);
}

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
