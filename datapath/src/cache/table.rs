//! The hash table of one subtable: buckets of eight tags in a cache line, and dense rows of masked words.
//!
//! A miss, which is what most probes are, reads one line. Linear probing over buckets, at most three entries a bucket
//! on average, so that a full bucket is rare. Entries of a bucket are contiguous: a bucket is full if its last place is.

use super::hash;

/// Entries in a bucket.
pub const WAYS: usize = 8;
/// Average entries a bucket above which the table grows.
const MAX_LOAD: usize = 3;
/// No flow, in a free row.
const FREE: u64 = u64::MAX;

/// One cache line of a table.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Bucket {
    tags: [u32; WAYS],
    rows: [u32; WAYS],
}

impl Bucket {
    /// Which places hold `tag`, as bits.
    #[inline(always)]
    pub fn matches(&self, tag: u32) -> u32 {
        let mut bits = 0;
        for (place, &held) in self.tags.iter().enumerate() {
            bits |= u32::from(held == tag) << place;
        }
        bits
    }

    /// The row at `place`, below [`WAYS`].
    #[inline(always)]
    pub fn row(&self, place: u32) -> u32 {
        self.rows[place as usize & (WAYS - 1)]
    }

    /// Whether entries of this bucket may have gone on to the next one.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.tags[WAYS - 1] != 0
    }

    fn push(&mut self, tag: u32, row: u32) -> bool {
        match self.tags.iter().position(|&held| held == 0) {
            Some(place) => {
                self.tags[place] = tag;
                self.rows[place] = row;
                true
            }
            None => false,
        }
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        self.tags.into_iter().zip(self.rows).take_while(|&(tag, _)| tag != 0)
    }
}

/// Maps masked words, a fixed number of them, to flow numbers.
#[derive(Clone, Debug)]
pub struct Table {
    buckets: Vec<Bucket>,
    /// Row `r` is the flow, then the words, at `r * (width + 1)`.
    rows: Vec<u64>,
    free: Vec<u32>,
    width: usize,
    len: usize,
}

/// The tag of masked words: their hash, which is never 0, as that means an empty place.
#[inline(always)]
pub fn tag(words: &[u64]) -> u32 {
    hash::words(words).max(1)
}

impl Table {
    /// An empty table for keys of `width` words.
    pub fn new(width: usize) -> Self {
        Self { buckets: vec![Bucket::default(); 1], rows: Vec::new(), free: Vec::new(), width, len: 0 }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bucket where probing for `tag` starts.
    #[inline(always)]
    pub fn home(&self, tag: u32) -> usize {
        tag as usize & (self.buckets.len() - 1)
    }

    /// The buckets; their number is a power of two.
    #[inline(always)]
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The words and the flow of a row.
    #[inline(always)]
    pub fn row(&self, row: u32) -> (u32, &[u64]) {
        let start = row as usize * (self.width + 1);
        let row = &self.rows[start..=start + self.width];
        (row[0] as u32, &row[1..])
    }

    /// Where a row starts in memory, to prefetch.
    #[inline(always)]
    pub fn row_start(&self, row: u32) -> Option<&u64> {
        self.rows.get(row as usize * (self.width + 1))
    }

    /// The flow stored under exactly these words, by the slow and complete way.
    pub fn find(&self, words: &[u64]) -> Option<u32> {
        let tag = tag(words);
        self.find_row(tag, words).map(|(_, row)| self.row(row).0)
    }

    fn find_row(&self, tag: u32, words: &[u64]) -> Option<(usize, u32)> {
        let mut at = self.home(tag);
        loop {
            let bucket = &self.buckets[at];
            let row = bucket.entries().find(|&(held, row)| held == tag && self.row(row).1 == words);
            if let Some((_, row)) = row {
                return Some((at, row));
            }
            if !bucket.is_full() {
                return None;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    /// Adds words that are not there yet; returns whether they were not.
    pub fn insert(&mut self, words: &[u64], flow: u32) -> bool {
        let tag = tag(words);
        if self.find_row(tag, words).is_some() {
            return false;
        }
        if self.len >= self.buckets.len() * MAX_LOAD {
            self.grow();
        }
        let row = match self.free.pop() {
            Some(row) => row,
            None => {
                let row = self.rows.len() / (self.width + 1);
                self.rows.resize(self.rows.len() + self.width + 1, FREE);
                row as u32
            }
        };
        let start = row as usize * (self.width + 1);
        self.rows[start] = u64::from(flow);
        self.rows[start + 1..=start + self.width].copy_from_slice(words);
        self.place(tag, row);
        self.len += 1;
        true
    }

    /// Removes words; returns the flow that they stood for.
    pub fn remove(&mut self, words: &[u64]) -> Option<u32> {
        let tag = tag(words);
        let (at, row) = self.find_row(tag, words)?;
        let flow = self.row(row).0;
        self.rows[row as usize * (self.width + 1)] = FREE;
        self.free.push(row);
        self.len -= 1;

        // Whatever probing went past this bucket may have to come back: take the run of full buckets apart and
        // put it together again. Buckets in front of it stay full, so that nothing else moves.
        let mut run = Vec::new();
        let mut next = at;
        loop {
            let bucket = std::mem::take(&mut self.buckets[next]);
            run.extend(bucket.entries().filter(|&(_, held)| held != row));
            if !bucket.is_full() {
                break;
            }
            next = (next + 1) & (self.buckets.len() - 1);
        }
        for (tag, row) in run {
            self.place(tag, row);
        }
        Some(flow)
    }

    fn place(&mut self, tag: u32, row: u32) {
        let mut at = self.home(tag);
        // There is always a bucket with room, since the average is kept below a bucket's size.
        while !self.buckets[at].push(tag, row) {
            at = (at + 1) & (self.buckets.len() - 1);
        }
    }

    fn grow(&mut self) {
        let entries: Vec<(u32, u32)> = self.buckets.iter().flat_map(Bucket::entries).collect();
        self.buckets = vec![Bucket::default(); self.buckets.len() * 2];
        for (tag, row) in entries {
            self.place(tag, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn full_buckets_spill_and_come_back() {
        // Words whose tags share a home in a table that cannot grow: below the load limit of 16 buckets.
        let mut table = Table::new(1);
        let mut filler = 0u64;
        while table.buckets.len() < 16 {
            assert!(table.insert(&[filler], filler as u32));
            filler += 1;
        }
        for word in 0..filler {
            assert_eq!(table.remove(&[word]), Some(word as u32));
        }
        let same_home: Vec<u64> = (0..10_000).filter(|&word| tag(&[word]) & 15 == 15).take(20).collect();
        for &word in &same_home {
            assert!(table.insert(&[word], word as u32));
        }
        assert!(table.buckets[15].is_full() && table.buckets[0].is_full(), "probing wraps around");
        for (i, &word) in same_home.iter().enumerate() {
            assert_eq!(table.remove(&[word]), Some(word as u32));
            for &other in &same_home[i + 1..] {
                assert_eq!(table.find(&[other]), Some(other as u32));
            }
        }
        assert_eq!(table.len(), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..3), 0..400)) {
            let mut table = Table::new(2);
            let mut map = BTreeMap::new();
            for (n, (insert, a, b)) in ops.into_iter().enumerate() {
                let words = [a << 40, b];
                if insert {
                    prop_assert_eq!(table.insert(&words, n as u32), !map.contains_key(&words));
                    map.entry(words).or_insert(n as u32);
                } else {
                    prop_assert_eq!(table.remove(&words), map.remove(&words));
                }
                prop_assert_eq!(table.len(), map.len());
            }
            for a in 0..60 {
                for b in 0..3 {
                    let words = [a << 40, b];
                    prop_assert_eq!(table.find(&words), map.get(&words).copied());
                }
            }
        }
    }
}
