//! Packets: frame bytes with headroom, layer offsets, offload flags, metadata; batches of them; and the pool they come from.
//!
//! Counterpart: OVS `lib/dp-packet.h`, and of `lib/packets.c` what changes a frame: pushing and popping headers, writing
//! fields with their checksums. Owns the memory of frames; never finds out what is in them (that is [`crate::flow`]): where
//! a header is, it takes from the layer offsets.

mod batch;
mod header;
mod metadata;
mod pool;
mod rewrite;
#[cfg(test)]
mod tests;

pub use batch::{BATCH, Batch};
pub use header::{HeaderError, PT_ETH, PT_IPV4, PT_IPV6, PT_MPLS, PT_NSH, packet_type};
pub use metadata::{ConnLink, CtMetadata, Metadata};
pub use pool::Pool;
pub use rewrite::{Ipv4Field, Ipv6Field};
pub(crate) use rewrite::{ipv6_path, tcp_header_len};

use crate::offload::Offloads;

/// Bytes kept free in front of a frame, for encapsulation (OVS `DP_NETDEV_HEADROOM`, and IPv6 + GENEVE with options).
pub const HEADROOM: usize = 256;
/// "No such header" in a layer offset.
pub const NO_OFFSET: u16 = u16::MAX;

/// A packet: one frame (or L3 packet), where its headers are, what it owes and what is known about it.
///
/// Receiving, extraction and output touch the first cache line only; the second, which opens the metadata, is read once
/// and written on reception; connection and tunnel lie behind it, and are touched only by packets that have them.
#[derive(Debug)]
#[repr(C, align(64))]
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
    /// OpenFlow packet type, host byte order: namespace << 16 | type; 0 is Ethernet.
    pub packet_type: u32,
    /// Hash of the 5-tuple as the receiving device computed it, if it did; else as the first extraction did.
    pub rss_hash: Option<u32>,
    /// What travels with the packet: ports, marks, connection, tunnel.
    pub md: Metadata,
    /// Bytes that the next output cuts from the end (`trunc` action).
    pub cutlen: u32,
}

const _: () = {
    assert!(
        std::mem::offset_of!(Packet, rss_hash) + size_of::<Option<u32>>() <= 64,
        "the first line has all that is hot"
    );
    assert!(std::mem::offset_of!(Packet, md) == 64);
};

impl Clone for Packet {
    /// Copies the frame with all that is known about it, and no more of the buffer than that.
    fn clone(&self) -> Self {
        let mut copy = Self::empty(self.len());
        copy.clone_from(self);
        copy
    }

    /// The same into a packet that is there already; allocates only if its buffer is too small.
    fn clone_from(&mut self, source: &Self) {
        self.set_frame(source.data());
        self.copy_state(source);
    }
}

impl Packet {
    /// Takes `header` bytes from the front of `source` and what is at `payload` in it, with all that is known about it.
    pub(crate) fn copy_part(&mut self, source: &Self, header: usize, payload: std::ops::Range<usize>) {
        let (front, part) = (source.data().get(..header), source.data().get(payload));
        let (front, part) = (front.unwrap_or_default(), part.unwrap_or_default());
        self.set_frame(front);
        self.set_len(front.len() + part.len());
        self.data_mut()[front.len()..].copy_from_slice(part);
        self.copy_state(source);
        self.l2_pad_size = 0;
    }

    /// Takes over all that is known about `source` besides its bytes.
    fn copy_state(&mut self, source: &Self) {
        self.offloads = source.offloads;
        self.tso_segsz = source.tso_segsz;
        self.l2_pad_size = source.l2_pad_size;
        self.l2_5_ofs = source.l2_5_ofs;
        self.l3_ofs = source.l3_ofs;
        self.l4_ofs = source.l4_ofs;
        self.inner_l3_ofs = source.inner_l3_ofs;
        self.inner_l4_ofs = source.inner_l4_ofs;
        self.packet_type = source.packet_type;
        self.rss_hash = source.rss_hash;
        self.md.clone_from(&source.md);
        self.cutlen = source.cutlen;
    }

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
            packet_type: 0,
            rss_hash: None,
            md: Metadata::default(),
            cutlen: 0,
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

    /// Room for a frame of up to `capacity` bytes, to be received into; then call [`Self::received`]. Allocates only if there
    /// was less room before.
    pub fn room_mut(&mut self, capacity: usize) -> &mut [u8] {
        if self.buf.len() < HEADROOM + capacity {
            self.buf.resize(HEADROOM + capacity, 0);
        }
        &mut self.buf[HEADROOM..HEADROOM + capacity]
    }

    /// Takes the first `len` bytes of the room as the frame, and forgets everything known about the former one, as
    /// [`Self::set_frame`] does.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn received(&mut self, len: usize) {
        assert!(HEADROOM + len <= self.buf.len(), "more than there is room for");
        self.start = HEADROOM as u32;
        self.len = len as u32;
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

    /// The part that an output sends: all but [`Self::cutlen`] bytes at the end.
    pub fn send_data(&self) -> &[u8] {
        &self.data()[..self.len().saturating_sub(self.cutlen as usize)]
    }

    /// Makes the next output send no more than `max_len` bytes, but an Ethernet header at least (OVS
    /// `dp_packet_set_cutlen`).
    pub fn set_cutlen(&mut self, max_len: u32) {
        self.cutlen = self.len.saturating_sub(max_len.max(14));
    }

    /// Where the L3 datagram ends: the frame without padding.
    fn l3_end(&self) -> usize {
        self.len().saturating_sub(usize::from(self.l2_pad_size))
    }

    pub(crate) fn layer(&self, offset: u16) -> Option<&[u8]> {
        if offset == NO_OFFSET {
            return None;
        }
        self.data().get(usize::from(offset)..self.l3_end())
    }

    pub(crate) fn layer_mut(&mut self, offset: u16) -> Option<&mut [u8]> {
        let end = self.l3_end();
        if offset == NO_OFFSET {
            return None;
        }
        self.data_mut().get_mut(usize::from(offset)..end)
    }

    /// From the network header to the end of the datagram, padding excluded; `None` where extraction found none.
    pub fn l3(&self) -> Option<&[u8]> {
        self.layer(self.l3_ofs)
    }

    /// The same, to change.
    pub fn l3_mut(&mut self) -> Option<&mut [u8]> {
        self.layer_mut(self.l3_ofs)
    }

    /// From the transport header to the end of the datagram, padding excluded. Behind a later fragment's IP header, this
    /// is payload: see [`Self::is_later_fragment`].
    pub fn l4(&self) -> Option<&[u8]> {
        self.layer(self.l4_ofs)
    }

    /// The same, to change.
    pub fn l4_mut(&mut self) -> Option<&mut [u8]> {
        self.layer_mut(self.l4_ofs)
    }

    /// From the inner network header on, of a packet that we encapsulated.
    pub fn inner_l3(&self) -> Option<&[u8]> {
        self.layer(self.inner_l3_ofs)
    }

    /// From the inner transport header on, of a packet that we encapsulated.
    pub fn inner_l4(&self) -> Option<&[u8]> {
        self.layer(self.inner_l4_ofs)
    }

    /// Length that `check_pkt_len` decides on: without padding and what a pending truncation cuts; of a packet that is still
    /// to be segmented, the length of its longest segment.
    pub fn check_len(&self) -> usize {
        let whole = self.send_data().len().saturating_sub(usize::from(self.l2_pad_size));
        if self.tso_segsz == 0 {
            return whole;
        }
        let l4_ofs = if self.offloads.intersects(Offloads::TUNNEL) { self.inner_l4_ofs } else { self.l4_ofs };
        match self.layer(l4_ofs).and_then(rewrite::tcp_header_len) {
            Some(header) => whole.min(usize::from(l4_ofs) + header + usize::from(self.tso_segsz)),
            None => whole,
        }
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
