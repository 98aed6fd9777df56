//! The rules of a table that share one mask.
//!
//! Owns the hash of the rules' masked values, the per-stage indices that end a lookup early, and the trie of transport
//! ports. Counterpart: `struct cls_subtable` of OVS `lib/classifier-private.h`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::trie::{Bits, Lengths, PrefixField, Trie, bits_of_u32};
use super::{Conjunction, MAX_TRIES, RuleId};
use crate::flow::{Flow, SEGMENT_ENDS};

/// One rule as the classifier sees it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: RuleId,
    pub(super) priority: u16,
    /// Not empty if the rule is a part of conjunctive matches and never matches by itself.
    pub(super) conjunctions: Arc<[Conjunction]>,
    /// Position among the subtable's rules in the order they came.
    seq: u64,
}

/// The rules with one masked value, by falling priority.
#[derive(Clone, Debug)]
pub(super) struct Head {
    values: Box<[u64]>,
    pub(super) entries: Vec<Entry>,
}

/// A part of the mask that is looked at in one go.
#[derive(Clone, Debug)]
struct Stage {
    segment: usize,
    /// Into [`Subtable::words`].
    words: Range<usize>,
}

/// State of the prefix tries during one lookup: each is consulted at most once, and only if a subtable needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrieResults([Option<(u32, Lengths)>; MAX_TRIES]);

/// What a lookup needs besides the subtable.
pub(super) struct Tries<'a> {
    pub(super) fields: &'a [PrefixField],
    pub(super) tries: &'a [Trie],
}

#[derive(Clone, Debug)]
pub(super) struct Subtable {
    pub(super) mask: Flow,
    /// Words of the mask that are not zero: index and bits.
    words: Box<[(u8, u64)]>,
    /// All but the last have an index in `seen`.
    stages: Vec<Stage>,
    /// How many masked values share a hash up to and including a stage.
    seen: Vec<BTreeMap<u64, u32>>,
    /// Length of the mask's prefix in each prefix field; 0 if it has none.
    plens: [u32; MAX_TRIES],
    /// The mask on source and destination port, one above the other, and the length of the prefix that covers it.
    ports_mask: u32,
    ports_len: u32,
    ports: Trie,
    heads: BTreeMap<u64, Vec<Head>>,
    n_heads: usize,
    /// Rules in the order they came: where they hang.
    order: BTreeMap<u64, (u64, RuleId)>,
    next_seq: u64,
    pub(super) max_priority: u16,
    max_count: usize,
}

/// Folds a word into a hash. The seed is fixed: runs must not differ.
const fn mix(hash: u64, word: u64) -> u64 {
    let x = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ (x >> 32)
}

fn ports_of(flow: &Flow) -> u32 {
    u32::from(flow.tp_src.get()) << 16 | u32::from(flow.tp_dst.get())
}

impl Subtable {
    pub(super) fn new(mask: &Flow, fields: &[PrefixField]) -> Self {
        let mut words = Vec::new();
        let mut stages = Vec::new();
        let mut start = 0;
        for (segment, &end) in SEGMENT_ENDS.iter().enumerate() {
            let first = words.len();
            let with_bits =
                (start..end).filter(|&i| mask.words()[i] != 0).map(|i| (i as u8, mask.words()[i]));
            words.extend(with_bits);
            if words.len() > first {
                stages.push(Stage { segment, words: first..words.len() });
            }
            start = end;
        }
        if stages.is_empty() {
            stages.push(Stage { segment: SEGMENT_ENDS.len() - 1, words: 0..0 });
        }
        let ports_mask = ports_of(mask);
        let mut subtable = Self {
            mask: *mask,
            words: words.into_boxed_slice(),
            seen: vec![BTreeMap::new(); stages.len() - 1],
            stages,
            plens: [0; MAX_TRIES],
            ports_mask,
            ports_len: 32 - ports_mask.trailing_zeros(),
            ports: Trie::default(),
            heads: BTreeMap::new(),
            n_heads: 0,
            order: BTreeMap::new(),
            next_seq: 0,
            max_priority: 0,
            max_count: 0,
        };
        subtable.set_prefix_fields(fields);
        subtable
    }

    pub(super) fn set_prefix_fields(&mut self, fields: &[PrefixField]) {
        self.plens = [0; MAX_TRIES];
        for (plen, field) in self.plens.iter_mut().zip(fields) {
            *plen = field.prefix_len(&self.mask);
        }
    }

    /// Adds this subtable's values to a new trie on `field`.
    pub(super) fn fill_trie(&self, field: PrefixField, trie: &mut Trie) {
        let len = field.prefix_len(&self.mask);
        if len > 0 {
            for head in self.heads.values().flatten() {
                trie.insert(field.get(&self.value_of(head)), len);
            }
        }
    }

    fn value_of(&self, head: &Head) -> Flow {
        let mut flow = Flow::default();
        for (&(word, _), &value) in self.words.iter().zip(&head.values) {
            flow.words_mut()[usize::from(word)] = value;
        }
        flow
    }

    /// Hashes of the masked words up to each stage.
    fn hashes(&self, flow: &Flow) -> Vec<u64> {
        let mut hash = 0;
        let stages = self.stages.iter();
        stages
            .map(|stage| {
                hash = self.hash_stage(stage, flow, hash);
                hash
            })
            .collect()
    }

    fn hash_stage(&self, stage: &Stage, flow: &Flow, hash: u64) -> u64 {
        let words = &self.words[stage.words.clone()];
        words.iter().fold(hash, |hash, &(i, mask)| mix(hash, flow.words()[usize::from(i)] & mask))
    }

    fn head_matches(&self, head: &Head, flow: &Flow) -> bool {
        let mut pairs = self.words.iter().zip(&head.values);
        pairs.all(|(&(i, mask), value)| flow.words()[usize::from(i)] & mask == *value)
    }

    fn find(&self, hash: u64, flow: &Flow) -> Option<&Head> {
        self.heads.get(&hash)?.iter().find(|head| self.head_matches(head, flow))
    }

    /// The rules with exactly this masked value.
    pub(super) fn head_of(&self, flow: &Flow) -> Option<&Head> {
        self.find(*self.hashes(flow).last()?, flow)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n_heads == 0
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Inserts a rule; returns the rule it replaces, if there is one with the same value and priority.
    pub(super) fn insert(
        &mut self,
        id: RuleId,
        flow: &Flow,
        priority: u16,
        conjunctions: Arc<[Conjunction]>,
        (fields, tries): (&[PrefixField], &mut [Trie]),
    ) -> Option<RuleId> {
        let hashes = self.hashes(flow);
        let hash = hashes.last().copied().unwrap_or(0);
        let seq = self.next_seq;
        self.next_seq += 1;
        self.order.insert(seq, (hash, id));
        let entry = Entry { id, priority, conjunctions, seq };
        let words = &self.words;
        let same = |head: &Head| {
            let mut pairs = words.iter().zip(&head.values);
            pairs.all(|(&(i, mask), value)| flow.words()[usize::from(i)] & mask == *value)
        };
        let bucket = self.heads.entry(hash).or_default();
        if let Some(head) = bucket.iter_mut().find(|head| same(head)) {
            let at = head.entries.partition_point(|e| e.priority > priority);
            if let Some(old) = head.entries.get_mut(at).filter(|old| old.priority == priority) {
                let old = std::mem::replace(old, entry);
                self.order.remove(&old.seq);
                return Some(old.id);
            }
            head.entries.insert(at, entry);
        } else {
            let values = words.iter().map(|&(i, mask)| flow.words()[usize::from(i)] & mask).collect();
            bucket.push(Head { values, entries: vec![entry] });
            self.n_heads += 1;
            self.index(&hashes, flow, fields, tries);
        }
        self.raise_priority(priority);
        None
    }

    fn index(&mut self, hashes: &[u64], flow: &Flow, fields: &[PrefixField], tries: &mut [Trie]) {
        for (seen, hash) in self.seen.iter_mut().zip(hashes) {
            *seen.entry(*hash).or_insert(0) += 1;
        }
        for ((field, trie), &len) in fields.iter().zip(tries).zip(&self.plens) {
            if len > 0 {
                trie.insert(field.get(flow), len);
            }
        }
        if self.ports_len > 0 {
            self.ports.insert(bits_of_u32(ports_of(flow) & self.ports_mask), self.ports_len);
        }
    }

    fn unindex(&mut self, hashes: &[u64], flow: &Flow, fields: &[PrefixField], tries: &mut [Trie]) {
        for (seen, hash) in self.seen.iter_mut().zip(hashes) {
            if let Some(count) = seen.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    seen.remove(hash);
                }
            }
        }
        for ((field, trie), &len) in fields.iter().zip(tries).zip(&self.plens) {
            if len > 0 {
                trie.remove(field.get(flow), len);
            }
        }
        if self.ports_len > 0 {
            self.ports.remove(bits_of_u32(ports_of(flow) & self.ports_mask), self.ports_len);
        }
    }

    fn raise_priority(&mut self, priority: u16) {
        if self.len() == 1 || priority > self.max_priority {
            self.max_priority = priority;
            self.max_count = 1;
        } else if priority == self.max_priority {
            self.max_count += 1;
        }
    }

    /// Removes the rule with this value and priority.
    pub(super) fn remove(
        &mut self,
        flow: &Flow,
        priority: u16,
        (fields, tries): (&[PrefixField], &mut [Trie]),
    ) -> Option<RuleId> {
        let hashes = self.hashes(flow);
        let hash = *hashes.last()?;
        let bucket = self.heads.get(&hash)?;
        let head_at = bucket.iter().position(|head| self.head_matches(head, flow))?;
        let bucket = self.heads.get_mut(&hash)?;
        let head = &mut bucket[head_at];
        let at = head.entries.iter().position(|e| e.priority == priority)?;
        let gone = head.entries.remove(at);
        self.order.remove(&gone.seq);
        if head.entries.is_empty() {
            bucket.remove(head_at);
            if bucket.is_empty() {
                self.heads.remove(&hash);
            }
            self.n_heads -= 1;
            self.unindex(&hashes, flow, fields, tries);
        }
        if priority == self.max_priority {
            self.max_count -= 1;
            if self.max_count == 0 {
                self.find_max_priority();
            }
        }
        Some(gone.id)
    }

    fn find_max_priority(&mut self) {
        let entries = || self.heads.values().flatten().filter_map(|head| head.entries.first());
        let max = entries().map(|e| e.priority).max().unwrap_or(0);
        self.max_count =
            self.heads.values().flatten().flat_map(|h| &h.entries).filter(|e| e.priority == max).count();
        self.max_priority = max;
    }

    /// Rules in the order they came, with their masked value.
    pub(super) fn rules(&self) -> impl Iterator<Item = (&Entry, Flow)> {
        self.order.values().filter_map(|(hash, id)| {
            let heads = self.heads.get(hash)?;
            heads.iter().find_map(|head| {
                let entry = head.entries.iter().find(|e| e.id == *id)?;
                Some((entry, self.value_of(head)))
            })
        })
    }

    /// The rules that match `flow`, without a word about why.
    pub(super) fn lookup(&self, flow: &Flow) -> Option<&Head> {
        let hash = self.stages.iter().fold(0, |hash, stage| self.hash_stage(stage, flow, hash));
        self.find(hash, flow)
    }

    /// The rules that match `flow`. Adds to `wc` the bits that the answer rests on: all of the mask for a match, else
    /// the stages up to the one that failed, or a prefix that rules out a match.
    pub(super) fn lookup_wc(
        &self,
        flow: &Flow,
        tries: &Tries<'_>,
        results: &mut TrieResults,
        wc: &mut Flow,
    ) -> Option<&Head> {
        let mut hash = 0;
        let (last, indexed) = self.stages.split_last()?;
        for (stage, seen) in indexed.iter().zip(&self.seen) {
            if self.excluded(stage, flow, tries, results, wc) {
                self.fold_before(stage, wc);
                return None;
            }
            hash = self.hash_stage(stage, flow, hash);
            if !seen.contains_key(&hash) {
                self.fold_words(0..stage.words.end, wc);
                return None;
            }
        }
        if self.excluded(last, flow, tries, results, wc) {
            self.fold_before(last, wc);
            return None;
        }
        hash = self.hash_stage(last, flow, hash);
        let found = self.find(hash, flow);
        if found.is_none() && self.ports_len > 0 {
            // Ports are part of what failed: only as many of their bits as it takes to tell that they are not here.
            let (bits, _) = self.ports.lookup(bits_of_u32(ports_of(flow) & self.ports_mask), 32);
            let prefix = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
            let ports = self.ports_mask & prefix | ports_of(wc);
            self.fold_words(0..self.words.len(), wc);
            wc.tp_src.set((ports >> 16) as u16);
            wc.tp_dst.set(ports as u16);
            return None;
        }
        self.fold_words(0..self.words.len(), wc);
        found
    }

    fn fold_before(&self, stage: &Stage, wc: &mut Flow) {
        self.fold_words(0..stage.words.start, wc);
    }

    fn fold_words(&self, range: Range<usize>, wc: &mut Flow) {
        for &(i, mask) in &self.words[range] {
            wc.words_mut()[usize::from(i)] |= mask;
        }
    }

    /// Whether a trie shows that no rule here can match, for the price of fewer bits than looking at the stage costs,
    /// or of none that are not in `wc` anyway. The trie is shared by all subtables, so what it needs may have nothing
    /// to do with this one; then it is not used.
    fn excluded(
        &self,
        stage: &Stage,
        flow: &Flow,
        tries: &Tries<'_>,
        results: &mut TrieResults,
        wc: &mut Flow,
    ) -> bool {
        for (i, (field, trie)) in tries.fields.iter().zip(tries.tries).enumerate() {
            let plen = self.plens[i];
            if plen == 0 || field.segment() != stage.segment {
                continue;
            }
            let (bits, lengths) = *results.0[i].get_or_insert_with(|| {
                if field.applies_to(flow) {
                    trie.lookup(field.get(flow), field.bits())
                } else {
                    (0, Lengths::ALL)
                }
            });
            if lengths.has(plen) {
                continue;
            }
            let prefix: Bits = if bits == 0 { 0 } else { Bits::MAX << (128 - bits) };
            if bits <= plen {
                field.or_into(wc, prefix);
                return true;
            }
            if field.get(wc) & prefix == prefix {
                return true;
            }
        }
        false
    }
}
