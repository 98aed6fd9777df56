//! Finds the rule of highest priority that matches a packet, and says which bits of the packet that answer rests on.
//!
//! Rules with the same mask share a subtable. Subtables are tried by falling priority until none can hold a better
//! rule. Each is looked at in stages (metadata, L2, L3, L4); a stage that fails ends the search in that subtable, and
//! what lies behind stays wildcarded. Tries of address prefixes and of ports narrow this further. The bits are those
//! that OVS would report, because they become the mask of a megaflow.
//!
//! Never looks at actions; rules are known by [`RuleId`]. Counterpart: OVS `lib/classifier.c`.

mod subtable;
#[cfg(test)]
mod tests;
mod trie;

use std::collections::BTreeMap;
use std::sync::Arc;

use subtable::{Entry, Head, Subtable, TrieResults, Tries};
use trie::Trie;

pub use trie::PrefixField;

use crate::flow::Flow;

/// Most prefix fields that a table indexes (OVS `CLS_MAX_TRIES`).
pub const MAX_TRIES: usize = 4;

/// Identity of a rule; never used twice in a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u64);

/// One `conjunction(id, k/n)`: the rule fulfils clause `clause` of the `n_clauses` that conjunction `id` needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conjunction {
    /// Which conjunction.
    pub id: u32,
    /// Which clause, from 0.
    pub clause: u8,
    /// How many clauses there are, 2 to 64.
    pub n_clauses: u8,
}

/// The rules of one table.
#[derive(Clone, Debug)]
pub struct Classifier {
    subtables: BTreeMap<u32, Subtable>,
    /// Masks are found by value.
    by_mask: BTreeMap<Box<[u64]>, u32>,
    /// Subtables in the order in which they are tried; ties stay in the order in which they arose.
    order: Vec<(u16, u32)>,
    next_subtable: u32,
    fields: Vec<PrefixField>,
    tries: Vec<Trie>,
}

impl Default for Classifier {
    fn default() -> Self {
        Self::new()
    }
}

/// A rule that matched but is only a part of conjunctions: which of the rules with its masked value it is.
#[derive(Clone, Copy)]
struct Soft<'a> {
    head: &'a Head,
    index: usize,
}

impl<'a> Soft<'a> {
    fn entry(self) -> &'a Entry {
        &self.head.entries[self.index]
    }
}

impl Classifier {
    /// No rules; the default prefix fields.
    pub fn new() -> Self {
        Self {
            subtables: BTreeMap::new(),
            by_mask: BTreeMap::new(),
            order: Vec::new(),
            next_subtable: 0,
            fields: PrefixField::DEFAULT.to_vec(),
            tries: vec![Trie::default(); PrefixField::DEFAULT.len()],
        }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.subtables.values().map(Subtable::len).sum()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.subtables.is_empty()
    }

    /// Changes which fields are indexed by prefix; duplicates and what exceeds [`MAX_TRIES`] are left out. Returns
    /// whether that changed anything.
    pub fn set_prefix_fields(&mut self, fields: &[PrefixField]) -> bool {
        let mut wanted = Vec::new();
        for &field in fields {
            if !wanted.contains(&field) && wanted.len() < MAX_TRIES {
                wanted.push(field);
            }
        }
        if wanted == self.fields {
            return false;
        }
        self.tries = vec![Trie::default(); wanted.len()];
        for (trie, &field) in self.tries.iter_mut().zip(&wanted) {
            for subtable in self.subtables.values() {
                subtable.fill_trie(field, trie);
            }
        }
        for subtable in self.subtables.values_mut() {
            subtable.set_prefix_fields(&wanted);
        }
        self.fields = wanted;
        true
    }

    fn subtable(&self, mask: &Flow) -> Option<&Subtable> {
        self.subtables.get(self.by_mask.get(mask.words().as_slice())?)
    }

    /// Inserts a rule that matches packets which equal `flow` in the bits of `mask`. Returns the rule that it
    /// replaces, if one has the same match and priority.
    pub fn insert(
        &mut self,
        id: RuleId,
        flow: &Flow,
        mask: &Flow,
        priority: u16,
        conjunctions: &[Conjunction],
    ) -> Option<RuleId> {
        let conjunctions: Arc<[Conjunction]> = conjunctions.into();
        let (number, is_new) = match self.by_mask.get(mask.words().as_slice()) {
            Some(&number) => (number, false),
            None => {
                let number = self.next_subtable;
                self.next_subtable += 1;
                self.by_mask.insert(mask.words().as_slice().into(), number);
                self.subtables.insert(number, Subtable::new(mask, &self.fields));
                (number, true)
            }
        };
        let subtable = self.subtables.get_mut(&number)?;
        let old = subtable.insert(id, flow, priority, conjunctions, (&self.fields, &mut self.tries));
        let priority = subtable.max_priority;
        if is_new {
            self.order.push((priority, number));
        }
        self.reorder(number, priority);
        old
    }

    /// Removes the rule with this match and priority.
    pub fn remove(&mut self, flow: &Flow, mask: &Flow, priority: u16) -> Option<RuleId> {
        let number = *self.by_mask.get(mask.words().as_slice())?;
        let subtable = self.subtables.get_mut(&number)?;
        let id = subtable.remove(flow, priority, (&self.fields, &mut self.tries))?;
        if subtable.is_empty() {
            self.subtables.remove(&number);
            self.by_mask.remove(mask.words().as_slice());
            // As OVS does: the last takes the place of the one that goes, then all are sorted.
            if let Some(at) = self.order.iter().position(|&(_, n)| n == number) {
                self.order.swap_remove(at);
                self.order.sort_by_key(|&(priority, _)| std::cmp::Reverse(priority));
            }
        } else {
            let priority = subtable.max_priority;
            self.reorder(number, priority);
        }
        Some(id)
    }

    fn reorder(&mut self, number: u32, priority: u16) {
        if let Some(slot) = self.order.iter_mut().find(|(_, n)| *n == number) {
            slot.0 = priority;
        }
        // Stable: what is equal keeps its place.
        self.order.sort_by_key(|&(priority, _)| std::cmp::Reverse(priority));
    }

    /// The rule with exactly this match and priority.
    pub fn find_exactly(&self, flow: &Flow, mask: &Flow, priority: u16) -> Option<RuleId> {
        let head = self.subtable(mask)?.head_of(flow)?;
        head.entries.iter().find(|entry| entry.priority == priority).map(|entry| entry.id)
    }

    /// Whether a packet could match both this rule and another of the same priority.
    pub fn overlaps(&self, flow: &Flow, mask: &Flow, priority: u16) -> bool {
        self.order.iter().take_while(|&&(max, _)| max >= priority).any(|(_, number)| {
            let Some(subtable) = self.subtables.get(number) else { return false };
            let mut both = *mask;
            for (word, other) in both.words_mut().iter_mut().zip(subtable.mask.words()) {
                *word &= other;
            }
            subtable.rules().any(|(entry, value)| entry.priority == priority && value.matches(&both, flow))
        })
    }

    /// All rules that are as specific as `flow` under `mask`, or more so, in the order in which OVS lists them:
    /// subtable by subtable, and in each as they came.
    pub fn loose_matches(&self, flow: &Flow, mask: &Flow) -> Vec<RuleId> {
        let subtables = self.order.iter().filter_map(|(_, number)| self.subtables.get(number));
        let comparable = subtables
            .filter(|s| mask.words().iter().zip(s.mask.words()).all(|(wanted, has)| wanted & !has == 0));
        comparable
            .flat_map(Subtable::rules)
            .filter(|(_, value)| value.matches(mask, flow))
            .map(|(entry, _)| entry.id)
            .collect()
    }

    /// The rule that `flow` gets, if any. Adds to `wc` the bits of `flow` that this depends on. Where the rule was
    /// reached through a conjunction, adds to `conjunctive` the rules that fulfilled its clauses.
    pub fn lookup(
        &self,
        flow: &Flow,
        wc: Option<&mut Flow>,
        conjunctive: Option<&mut Vec<RuleId>>,
    ) -> Option<RuleId> {
        self.lookup_inner(flow, wc, conjunctive, true).map(|entry| entry.id)
    }

    /// Adds to `wc` what a lookup of `flow` depends on because of a rule that is there, but does not count yet: one that was
    /// made during the translation which looks (OVS keeps it invisible until the next version of the tables).
    pub fn look_past(flow: &Flow, rule_flow: &Flow, rule_mask: &Flow, wc: &mut Flow) {
        let mut alone = Subtable::new(rule_mask, &[]);
        alone.insert(RuleId(0), rule_flow, 0, Arc::new([]), (&[], &mut []));
        let tries = Tries { fields: &[], tries: &[] };
        alone.lookup_wc(flow, &tries, &mut TrieResults::default(), wc);
    }

    fn lookup_inner(
        &self,
        flow: &Flow,
        mut wc: Option<&mut Flow>,
        conjunctive: Option<&mut Vec<RuleId>>,
        allow_conjunctive: bool,
    ) -> Option<&Entry> {
        let (mut hard, mut soft) = self.candidates(flow, wc.as_deref_mut(), allow_conjunctive);
        let priority = |hard: Option<&Entry>| hard.map_or(-1, |entry| i32::from(entry.priority));
        loop {
            let floor = priority(hard);
            let mut i = 0;
            while i < soft.len() {
                if i32::from(soft[i].entry().priority) <= floor {
                    soft.swap_remove(i);
                } else {
                    i += 1;
                }
            }
            let Some(top) = soft.iter().map(|s| s.entry().priority).max() else {
                return hard;
            };
            for id in satisfied(&soft, top) {
                let with_id = Flow { conj_id: id, ..*flow };
                let rule = self.lookup_inner(&with_id, wc.as_deref_mut(), None, false);
                if rule.is_some() {
                    if let Some(list) = conjunctive {
                        let parts = soft.iter().map(|s| s.entry());
                        list.extend(parts.filter(|e| takes_part(e, id, top)).map(|e| e.id));
                    }
                    return rule;
                }
            }
            hard = drop_back(&mut soft, top, hard);
        }
    }

    /// The best rule that matches by itself, and the better ones that are parts of conjunctions.
    fn candidates<'a>(
        &'a self,
        flow: &Flow,
        mut wc: Option<&mut Flow>,
        allow_conjunctive: bool,
    ) -> (Option<&'a Entry>, Vec<Soft<'a>>) {
        let tries = Tries { fields: &self.fields, tries: &self.tries };
        let mut results = TrieResults::default();
        let mut hard: Option<&Entry> = None;
        let mut soft = Vec::new();
        for &(max_priority, number) in &self.order {
            if hard.is_some_and(|hard| max_priority <= hard.priority) {
                break;
            }
            let Some(subtable) = self.subtables.get(&number) else { continue };
            let head = match wc.as_deref_mut() {
                Some(wc) => subtable.lookup_wc(flow, &tries, &mut results, wc),
                None => subtable.lookup(flow),
            };
            let Some((head, entry)) = head.and_then(|head| Some((head, head.entries.first()?))) else {
                continue;
            };
            if hard.is_some_and(|hard| entry.priority <= hard.priority) {
                continue;
            }
            if entry.conjunctions.is_empty() {
                hard = Some(entry);
            } else if allow_conjunctive {
                soft.push(Soft { head, index: 0 });
            }
        }
        (hard, soft)
    }
}

fn takes_part(entry: &Entry, id: u32, priority: u16) -> bool {
    entry.priority == priority && entry.conjunctions.iter().any(|c| c.id == id)
}

/// Ids of the conjunctions all of whose clauses are fulfilled by rules of this priority. A rule completes at most one:
/// its remaining conjunctions are not looked at any more, as in OVS.
fn satisfied(soft: &[Soft<'_>], priority: u16) -> Vec<u32> {
    let at_top = || soft.iter().map(|s| s.entry()).filter(|entry| entry.priority == priority);
    let available = at_top().count();
    let mut clauses: BTreeMap<u32, u64> = BTreeMap::new();
    let mut complete = Vec::new();
    for entry in at_top() {
        for c in entry.conjunctions.iter().filter(|c| usize::from(c.n_clauses) <= available) {
            let missing = u64::MAX.checked_shl(u32::from(c.n_clauses & 63)).unwrap_or(0);
            let seen = clauses.entry(c.id).or_insert(missing);
            *seen |= 1 << (c.clause & 63);
            if *seen == u64::MAX {
                complete.push(c.id);
                break;
            }
        }
    }
    complete
}

/// Replaces the parts with this priority by the next lower rules with the same match.
fn drop_back<'a>(soft: &mut Vec<Soft<'a>>, priority: u16, mut hard: Option<&'a Entry>) -> Option<&'a Entry> {
    let mut i = 0;
    while i < soft.len() {
        if soft[i].entry().priority != priority {
            i += 1;
            continue;
        }
        let next = Soft { index: soft[i].index + 1, ..soft[i] };
        match next.head.entries.get(next.index) {
            Some(entry) if !entry.conjunctions.is_empty() => {
                soft[i] = next;
                i += 1;
            }
            Some(entry) => {
                if hard.is_none_or(|hard| entry.priority > hard.priority) {
                    hard = Some(entry);
                }
                soft.swap_remove(i);
            }
            None => {
                soft.swap_remove(i);
            }
        }
    }
    hard
}
