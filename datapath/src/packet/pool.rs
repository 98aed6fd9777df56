//! Where packets come from and go back to, so that forwarding allocates nothing.

use super::Packet;

/// A stack of unused packets.
#[derive(Clone, Debug)]
#[expect(
    clippy::vec_box,
    reason = "boxes are what is handed out and taken back; nothing is to be moved but the pointer"
)]
pub struct Pool {
    free: Vec<Box<Packet>>,
    capacity: usize,
}

impl Pool {
    /// A pool of `count` packets, each with room for `capacity` bytes.
    pub fn new(count: usize, capacity: usize) -> Self {
        let free = (0..count).map(|_| Box::new(Packet::empty(capacity))).collect();
        Self { free, capacity }
    }

    /// A packet with undefined content; allocates only if the pool is empty.
    pub fn take(&mut self) -> Box<Packet> {
        self.free.pop().unwrap_or_else(|| Box::new(Packet::empty(self.capacity)))
    }

    /// Gives a packet back.
    pub fn put(&mut self, packet: Box<Packet>) {
        self.free.push(packet);
    }

    /// A packet with the bytes, offsets, offloads and metadata of `packet`.
    pub fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let mut copy = self.take();
        copy.as_mut().clone_from(packet);
        copy
    }
}
