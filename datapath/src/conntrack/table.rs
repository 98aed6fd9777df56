//! Connections by key: a hash index over slots, both in chunks that clones share until one of them writes.
//!
//! A clone costs one reference count for each chunk; the first write to a chunk afterwards copies that chunk. Nothing is
//! allocated where no connection is made. Counterpart: the `cmap`s of OVS `lib/conntrack.c`.

use std::sync::Arc;

use super::conn::Conn;
use super::key::ConnKey;

/// Slots in a chunk, and heads in one: what a write after a clone copies.
const CHUNK: usize = 64;
const HEADS: usize = 1024;
/// No node.
const NONE: u32 = u32::MAX;

/// Names a connection for as long as it is there; never another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

/// A place for a connection, and its links in the index: a node for each direction.
#[derive(Clone, Debug)]
struct Slot {
    generation: u32,
    conn: Option<Conn>,
    hashes: [u32; 2],
    next: [u32; 2],
}

/// All connections.
#[derive(Clone, Debug)]
pub(super) struct Table {
    slots: Vec<Arc<Vec<Slot>>>,
    heads: Vec<Arc<Vec<u32>>>,
    free: Vec<u32>,
    n_slots: u32,
    len: usize,
    basis: u32,
}

impl Table {
    pub(super) fn new(basis: u32) -> Self {
        Self {
            slots: Vec::new(),
            heads: vec![Arc::new(vec![NONE; HEADS])],
            free: Vec::new(),
            n_slots: 0,
            len: 0,
            basis,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What keys are hashed with.
    pub(super) fn basis(&self) -> u32 {
        self.basis
    }

    /// How many slots there are, used or not.
    pub(super) fn n_slots(&self) -> u32 {
        self.n_slots
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize / CHUNK)?.get(index as usize % CHUNK)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        Arc::make_mut(self.slots.get_mut(index as usize / CHUNK)?).get_mut(index as usize % CHUNK)
    }

    fn head(&self, hash: u32) -> (usize, usize) {
        let bucket = hash as usize & (self.heads.len() * HEADS - 1);
        (bucket / HEADS, bucket % HEADS)
    }

    /// The connection in a slot.
    pub(super) fn in_slot(&self, index: u32) -> Option<(ConnId, &Conn)> {
        let slot = self.slot(index)?;
        Some((ConnId { slot: index, generation: slot.generation }, slot.conn.as_ref()?))
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.slot(id.slot).filter(|slot| slot.generation == id.generation)?.conn.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.slot_mut(id.slot).filter(|slot| slot.generation == id.generation)?.conn.as_mut()
    }

    /// The connection, alive at `now`, that `key` is a direction of; whether it is that of answers.
    ///
    /// As in OVS, a connection that is not translated is found by one node, whichever direction is asked for.
    pub(super) fn find(&self, key: &ConnKey, now: u64) -> Option<(ConnId, bool)> {
        self.find_or_over(key, now).ok()
    }

    /// The same; if there is none, whether there is one whose time is over.
    pub(super) fn find_or_over(&self, key: &ConnKey, now: u64) -> Result<(ConnId, bool), bool> {
        let hash = key.hash(self.basis);
        let (chunk, at) = self.head(hash);
        let mut over = false;
        let mut node = self.heads.get(chunk).and_then(|chunk| chunk.get(at)).copied().unwrap_or(NONE);
        while node != NONE {
            let index = node / 2;
            let dir = node as usize % 2;
            let Some(slot) = self.slot(index) else { break };
            node = slot.next[dir];
            if slot.hashes[dir] != hash {
                continue;
            }
            let Some(conn) = &slot.conn else { continue };
            if now >= conn.expires {
                over |= conn.keys.contains(key);
                continue;
            }
            let id = ConnId { slot: index, generation: slot.generation };
            if conn.keys[0] == *key {
                return Ok((id, false));
            }
            if conn.keys[1] == *key {
                return Ok((id, true));
            }
        }
        Err(over)
    }

    /// Adds a connection.
    pub(super) fn insert(&mut self, conn: Conn) -> ConnId {
        if self.len * 2 >= self.heads.len() * HEADS {
            self.grow();
        }
        let index = self.free.pop().unwrap_or_else(|| {
            let index = self.n_slots;
            if (index as usize).is_multiple_of(CHUNK) {
                self.slots.push(Arc::new(Vec::with_capacity(CHUNK)));
            }
            if let Some(chunk) = self.slots.last_mut() {
                let slot = Slot { generation: 0, conn: None, hashes: [0; 2], next: [NONE; 2] };
                Arc::make_mut(chunk).push(slot);
            }
            self.n_slots += 1;
            index
        });
        let hashes = conn.keys.map(|key| key.hash(self.basis));
        let both = conn.translated;
        let mut id = ConnId { slot: index, generation: 0 };
        if let Some(slot) = self.slot_mut(index) {
            slot.conn = Some(conn);
            slot.hashes = hashes;
            id.generation = slot.generation;
        }
        self.link(index, 0, hashes[0]);
        if both {
            self.link(index, 1, hashes[1]);
        }
        self.len += 1;
        id
    }

    fn link(&mut self, index: u32, dir: u32, hash: u32) {
        let (chunk, at) = self.head(hash);
        let head = self.heads.get_mut(chunk).and_then(|chunk| Arc::make_mut(chunk).get_mut(at));
        let Some(head) = head else { return };
        let old = std::mem::replace(head, index * 2 + dir);
        if let Some(slot) = self.slot_mut(index) {
            slot.next[dir as usize] = old;
        }
    }

    fn unlink(&mut self, index: u32, dir: usize, hash: u32, next: u32) {
        let target = index * 2 + dir as u32;
        let (chunk, at) = self.head(hash);
        let head = self.heads.get_mut(chunk).and_then(|chunk| Arc::make_mut(chunk).get_mut(at));
        let Some(head) = head else { return };
        if *head == target {
            *head = next;
            return;
        }
        let mut node = *head;
        while node != NONE {
            let Some(slot) = self.slot(node / 2) else { return };
            let after = slot.next[node as usize % 2];
            if after == target {
                if let Some(slot) = self.slot_mut(node / 2) {
                    slot.next[node as usize % 2] = next;
                }
                return;
            }
            node = after;
        }
    }

    /// Removes a connection and returns it.
    pub(super) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let slot = self.slot_mut(id.slot).filter(|slot| slot.generation == id.generation)?;
        let conn = slot.conn.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        let (hashes, next) = (slot.hashes, slot.next);
        self.unlink(id.slot, 0, hashes[0], next[0]);
        if conn.translated {
            // The other node may have been in front of this one.
            let next = self.slot(id.slot).map_or(NONE, |slot| slot.next[1]);
            self.unlink(id.slot, 1, hashes[1], next);
        }
        self.free.push(id.slot);
        self.len -= 1;
        Some(conn)
    }

    /// Doubles the index.
    fn grow(&mut self) {
        let chunks = self.heads.len() * 2;
        self.heads = (0..chunks).map(|_| Arc::new(vec![NONE; HEADS])).collect();
        for index in 0..self.n_slots {
            let Some(slot) = self.slot(index) else { return };
            let Some(conn) = &slot.conn else { continue };
            let (hashes, both) = (slot.hashes, conn.translated);
            self.link(index, 0, hashes[0]);
            if both {
                self.link(index, 1, hashes[1]);
            }
        }
    }

    /// All connections, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnId, &Conn)> {
        (0..self.n_slots).filter_map(|index| self.in_slot(index))
    }
}
