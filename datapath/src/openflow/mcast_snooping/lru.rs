//! A map whose entries are also in the order in which they were last used.

use std::collections::BTreeMap;

/// A map with an order of use.
#[derive(Clone, Debug)]
pub(super) struct Lru<K, V> {
    entries: BTreeMap<K, (u64, V)>,
    /// Keys from the least to the most recently used.
    order: BTreeMap<u64, K>,
    next_seq: u64,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: BTreeMap::new(), next_seq: 0 }
    }
}

impl<K: Copy + Ord, V> Lru<K, V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// An entry, to change; its place stays.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Puts an entry in, or replaces its value, as the one used last.
    pub(super) fn put(&mut self, key: K, value: V) {
        let seq = self.next_seq;
        self.next_seq += 1;
        if let Some((old, _)) = self.entries.insert(key, (seq, value)) {
            self.order.remove(&old);
        }
        self.order.insert(seq, key);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (seq, value) = self.entries.remove(key)?;
        self.order.remove(&seq);
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    /// The key of the entry that was not used for longest.
    pub(super) fn oldest(&self) -> Option<K> {
        self.order.values().next().copied()
    }

    /// Entries from the least to the most recently used.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.order.values().filter_map(|key| Some((key, self.get(key)?)))
    }

    /// Entries in the order of their keys, to change.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|(_, value)| value)
    }

    /// Keeps entries for which `keep` says so; calls it for each.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let Self { entries, order, .. } = self;
        entries.retain(|key, (seq, value)| {
            let stays = keep(key, value);
            if !stays {
                order.remove(seq);
            }
            stays
        });
    }
}
