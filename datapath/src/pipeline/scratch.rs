//! Memory that processing needs for a moment and keeps for the next time, so that nothing is allocated for each packet.

use crate::action::exec::Packets;
use crate::cache::{Found, KeyBatch, NO_FLOW, Pending};
use crate::packet::{BATCH, Packet, Pool};

/// Bytes that a pooled packet has room for before it must grow.
const FRAME_ROOM: usize = 2048;

/// Everything that a pass over a batch needs: one of these for each depth of recirculation.
#[derive(Debug)]
pub(super) struct Level {
    /// The packets, in arrival order; taken out one by one as they go their ways.
    pub packets: [Option<Box<Packet>>; BATCH],
    pub n: usize,
    pub keys: KeyBatch,
    pub found: Found,
    pub tcp_flags: [u16; BATCH],
    pub groups: Groups,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            packets: [const { None }; BATCH],
            n: 0,
            keys: KeyBatch::default(),
            found: Found::default(),
            tcp_flags: [0; BATCH],
            groups: Groups::default(),
        }
    }
}

impl Level {
    /// Forgets the last batch, of which no packet is left.
    #[inline]
    pub fn clear(&mut self) {
        self.n = 0;
        self.keys.clear();
        self.groups.n = 0;
    }

    /// Appends a packet; the caller keeps to [`BATCH`].
    #[inline(always)]
    pub fn push(&mut self, packet: Box<Packet>) {
        if let Some(slot) = self.packets.get_mut(self.n) {
            *slot = Some(packet);
            self.found.flows[self.n] = NO_FLOW;
            self.n += 1;
        }
    }

    /// All packets, as waiting for a flow.
    #[inline]
    pub fn all(&self) -> Pending {
        let mut pending = Pending::default();
        for i in 0..self.n {
            pending.push(i);
        }
        pending
    }
}

/// Packets of a batch by flow: a list of packets for each, through their indexes, and sums over it.
#[derive(Debug)]
pub(super) struct Groups {
    pub n: usize,
    pub groups: [Group; BATCH],
    /// The next packet of the same group.
    pub next: [u8; BATCH],
}

/// Packets of one flow, in arrival order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    pub flow: u32,
    pub first: u8,
    pub last: u8,
    pub count: u8,
    pub tcp_flags: u16,
    pub bytes: u32,
}

impl Default for Groups {
    fn default() -> Self {
        Self { n: 0, groups: [Group::default(); BATCH], next: [0; BATCH] }
    }
}

/// What is kept between batches. A clone starts empty: none of it is state.
#[derive(Debug)]
pub(super) struct Scratch {
    levels: Vec<Box<Level>>,
    lists: Vec<Packets>,
    pub pool: Pool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { levels: Vec::new(), lists: Vec::new(), pool: Pool::new(0, FRAME_ROOM) }
    }
}

impl Clone for Scratch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Scratch {
    /// An unused level; give it back.
    #[inline]
    pub fn take_level(&mut self) -> Box<Level> {
        let mut level = self.levels.pop().unwrap_or_default();
        level.clear();
        level
    }

    pub fn give_level(&mut self, level: Box<Level>) {
        self.levels.push(level);
    }

    #[inline]
    pub fn take_list(&mut self) -> Packets {
        self.lists.pop().unwrap_or_else(|| Vec::with_capacity(BATCH))
    }

    /// Takes back an empty list.
    pub fn give_list(&mut self, list: Packets) {
        self.lists.push(list);
    }
}
