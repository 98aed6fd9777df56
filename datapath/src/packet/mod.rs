//! Packets: frame bytes with headroom, layer offsets, offload flags, metadata; batches of them; and the pool they come from.
//!
//! Counterpart: OVS `lib/dp-packet.h`. Owns the memory of frames; never looks inside them (that is [`crate::flow`]).

mod batch;
mod metadata;
mod pool;

pub use batch::{BATCH, Batch};
pub use metadata::{CtMetadata, Metadata};
pub use pool::Pool;

use crate::offload::Offloads;

/// Bytes kept free in front of a frame, for encapsulation (OVS `DP_NETDEV_HEADROOM`, and IPv6 + GENEVE with options).
pub const HEADROOM: usize = 256;
/// "No such header" in a layer offset.
pub const NO_OFFSET: u16 = u16::MAX;

/// A packet: one frame (or L3 packet), where its headers are, what it owes and what is known about it.
#[derive(Clone, Debug)]
pub struct Packet {
    buf: Vec<u8>,
    start: u32,
    len: u32,
    /// Checksum states and offload requests.
    pub offloads: Offloads,
    /// TCP payload bytes a segment, when segmentation is pending; else 0.
    pub tso_segsz: u16,
    /// Bytes of padding behind the L3 datagram.
    pub l2_pad_size: u16,
    /// Offset of the MPLS label stack, or [`NO_OFFSET`].
    pub l2_5_ofs: u16,
    /// Offset of the network header, or [`NO_OFFSET`].
    pub l3_ofs: u16,
    /// Offset of the transport header, or [`NO_OFFSET`].
    pub l4_ofs: u16,
    /// Offset of the inner network header of a packet we encapsulated, or [`NO_OFFSET`].
    pub inner_l3_ofs: u16,
    /// Offset of the inner transport header of a packet we encapsulated, or [`NO_OFFSET`].
    pub inner_l4_ofs: u16,
    /// Bytes that the next output cuts from the end (`trunc` action).
    pub cutlen: u32,
    /// OpenFlow packet type, host byte order: namespace << 16 | type; 0 is Ethernet.
    pub packet_type: u32,
    /// Hash of the 5-tuple as the receiving device computed it, if it did.
    pub rss_hash: Option<u32>,
    /// What travels with the packet: ports, marks, connection, tunnel.
    pub md: Metadata,
}

impl Packet {
    /// A packet holding `frame`, with headroom in front.
    pub fn from_frame(frame: &[u8]) -> Self {
        let mut packet = Self::empty(frame.len());
        packet.set_frame(frame);
        packet
    }

    /// A packet without bytes, with room for `capacity` behind the headroom.
    pub fn empty(capacity: usize) -> Self {
        Self {
            buf: vec![0; HEADROOM + capacity],
            start: HEADROOM as u32,
            len: 0,
            offloads: Offloads::empty(),
            tso_segsz: 0,
            l2_pad_size: 0,
            l2_5_ofs: NO_OFFSET,
            l3_ofs: NO_OFFSET,
            l4_ofs: NO_OFFSET,
            inner_l3_ofs: NO_OFFSET,
            inner_l4_ofs: NO_OFFSET,
            cutlen: 0,
            packet_type: 0,
            rss_hash: None,
            md: Metadata::default(),
        }
    }

    /// Replaces the bytes by `frame` and forgets everything known about the former one; metadata is left to
    /// [`Metadata::init`]. Allocates only if `frame` is longer than any before.
    pub fn set_frame(&mut self, frame: &[u8]) {
        if self.buf.len() < HEADROOM + frame.len() {
            self.buf.resize(HEADROOM + frame.len(), 0);
        }
        self.start = HEADROOM as u32;
        self.len = frame.len() as u32;
        self.buf[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        self.offloads = Offloads::empty();
        self.tso_segsz = 0;
        self.cutlen = 0;
        self.packet_type = 0;
        self.rss_hash = None;
        self.reset_offsets();
    }

    /// Forgets where the headers are.
    pub fn reset_offsets(&mut self) {
        self.l2_pad_size = 0;
        self.l2_5_ofs = NO_OFFSET;
        self.l3_ofs = NO_OFFSET;
        self.l4_ofs = NO_OFFSET;
        self.inner_l3_ofs = NO_OFFSET;
        self.inner_l4_ofs = NO_OFFSET;
    }

    /// Length of the frame in bytes, padding included.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The frame.
    pub fn data(&self) -> &[u8] {
        &self.buf[self.start as usize..(self.start + self.len) as usize]
    }

    /// The frame, to change.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.buf[self.start as usize..(self.start + self.len) as usize]
    }

    /// Bytes free in front of the frame.
    pub fn headroom(&self) -> usize {
        self.start as usize
    }

    /// Makes the frame `n` bytes longer at the front and returns the new bytes, whose content is undefined. Layer offsets
    /// are not moved. Allocates only when the headroom does not suffice.
    pub fn push_front(&mut self, n: usize) -> &mut [u8] {
        if n > self.start as usize {
            let extra = n - self.start as usize + HEADROOM;
            self.buf.splice(0..0, std::iter::repeat_n(0, extra));
            self.start += extra as u32;
        }
        self.start -= n as u32;
        self.len += n as u32;
        let start = self.start as usize;
        &mut self.buf[start..start + n]
    }

    /// Cuts `n` bytes (at most all) from the front. Layer offsets are not moved.
    pub fn pull_front(&mut self, n: usize) {
        let n = (n as u32).min(self.len);
        self.start += n;
        self.len -= n;
    }

    /// Makes the frame `len` bytes long: cuts at the end, or appends zeros.
    pub fn set_len(&mut self, len: usize) {
        let end = self.start as usize + len;
        if self.buf.len() < end {
            self.buf.resize(end, 0);
        }
        if len > self.len as usize {
            self.buf[(self.start + self.len) as usize..end].fill(0);
        }
        self.len = len as u32;
    }
}
