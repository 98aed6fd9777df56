//! A batch: up to 32 packets that are processed together.

use super::Packet;

/// Packets in a full batch (OVS `NETDEV_MAX_BURST`).
pub const BATCH: usize = 32;

/// Up to [`BATCH`] packets in arrival order. Packets are boxed, so that moving one moves a pointer.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    packets: Vec<Box<Packet>>,
}

impl Batch {
    /// An empty batch with room for [`BATCH`] packets.
    pub fn new() -> Self {
        Self { packets: Vec::with_capacity(BATCH) }
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        self.packets.len() >= BATCH
    }

    /// How many packets it holds.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// Gives the packet back if the batch is full.
    pub fn push(&mut self, packet: Box<Packet>) -> Result<(), Box<Packet>> {
        if self.is_full() {
            return Err(packet);
        }
        self.packets.push(packet);
        Ok(())
    }

    /// Takes all packets out, in order; the room stays.
    pub fn drain(&mut self) -> impl Iterator<Item = Box<Packet>> + '_ {
        self.packets.drain(..)
    }

    /// The packets, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().map(|packet| &**packet)
    }

    /// The packets, in order, to change.
    pub fn packets_mut(&mut self) -> &mut [Box<Packet>] {
        &mut self.packets
    }
}
