//! A batch: up to 32 packets that are processed together.

use arrayvec::ArrayVec;

use super::Packet;

/// Packets in a full batch (OVS `NETDEV_MAX_BURST`).
pub const BATCH: usize = 32;

/// Up to [`BATCH`] packets in arrival order. Packets are boxed, so that moving one moves a pointer; the batch itself needs
/// no allocation.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    packets: ArrayVec<Box<Packet>, BATCH>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no more fits.
    pub fn is_full(&self) -> bool {
        self.packets.is_full()
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
        self.packets.try_push(packet).map_err(|full| full.element())
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
