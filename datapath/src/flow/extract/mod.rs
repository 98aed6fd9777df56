//! From a packet to its flow key: what stands in the headers and the metadata, as a [`Miniflow`] or a [`Flow`].
//!
//! Owns: the meaning of every header the switch knows, and where it stops at malformed input. Sets the packet's layer
//! offsets, its padding, its L4 protocol flags, and the RSS hash where the receiving device gave none. Changes no
//! byte of the frame, but for checksums still to be completed in headers that a new one in front has put out of sight. Counterpart: `miniflow_extract()` and `parse_tcp_flags()` of OVS `lib/flow.c`.
//!
//! Which words a key holds depends on the kind of packet, not on the values in it, so that two packets of one connection
//! have the same map and are compared as they are. Present, even if zero: ports of a datapath, Ethernet, addresses,
//! the word with fragment and protocol, TCP flags, L4 ports. Absent where zero: marks, recirculation with connection state,
//! connection mark and label, packet type. This is OVS's way but for two words (packet type and connection mark share a
//! word there, which is always present); no mask and no comparison can tell the difference, since absent means zero.

mod headers;
mod plain;
mod push;
mod simple;
#[cfg(test)]
mod tests;

pub use simple::{SimpleKey, extract_simple};

use super::{Flow, Miniflow};
use crate::offload::{self, Offloads};
use crate::packet::{NO_OFFSET, Packet};

/// What extraction is told besides the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtractConfig {
    /// How many VLAN tags go into the key, 1 or 2; 0, and more than 2, mean 2 (OVS `other_config:vlan-limit`).
    /// A tag behind these stays in the frame and shows as `dl_type`.
    pub vlan_limit: u8,
}

impl ExtractConfig {
    /// All that a key has room for: what tools that print captures use.
    pub const MAX: Self = Self { vlan_limit: 2 };

    /// Tags that go into the key.
    const fn vlans(self) -> usize {
        if self.vlan_limit == 1 { 1 } else { 2 }
    }
}

impl Default for ExtractConfig {
    /// One tag, as ovs-vswitchd without `vlan-limit`.
    fn default() -> Self {
        Self { vlan_limit: 1 }
    }
}

/// Extracts the key of `packet` into `mini`.
///
/// Malformed headers are no error: the key holds what came before them. Inner offsets of a packet that we encapsulated
/// survive.
#[inline]
pub fn extract(packet: &mut Packet, mini: &mut Miniflow, config: ExtractConfig) {
    if !plain::extract(packet, mini) {
        headers::extract(packet, mini, config);
    }
}

impl Flow {
    /// The key of `packet` in full, with up to two VLAN tags. Sets offsets and flags of the packet as [`extract`] does.
    pub fn of_packet(packet: &mut Packet) -> Self {
        Self::of_packet_with(packet, ExtractConfig::MAX)
    }

    /// The key of `packet` in full.
    pub fn of_packet_with(packet: &mut Packet, config: ExtractConfig) -> Self {
        let mut mini = Miniflow::default();
        extract(packet, &mut mini, config);
        let mut flow = Self::default();
        mini.expand(&mut flow);
        flow
    }
}

/// Offset of each layer and length of the padding, in one word: it lives in a register. As a field each, they are
/// written apart and read together, for which the processor waits longer than for the rest of extraction.
#[derive(Clone, Copy)]
struct Offsets(u64);

impl Offsets {
    const PADDING: u32 = 0;
    const L2_5: u32 = 16;
    const L3: u32 = 32;
    const L4: u32 = 48;

    /// No padding, no layer.
    const NONE: Self = Self::new(0, NO_OFFSET, NO_OFFSET, NO_OFFSET);

    const fn new(padding: u16, l2_5: u16, l3: u16, l4: u16) -> Self {
        Self(padding as u64 | (l2_5 as u64) << Self::L2_5 | (l3 as u64) << Self::L3 | (l4 as u64) << Self::L4)
    }

    /// Sets one of the four.
    #[inline(always)]
    fn set(&mut self, which: u32, value: u16) {
        self.0 = self.0 & !(0xffff << which) | u64::from(value) << which;
    }

    const fn get(self, which: u32) -> u16 {
        (self.0 >> which) as u16
    }
}

/// What extraction finds out about a packet besides its key.
#[derive(Clone, Copy)]
struct Layers {
    offsets: Offsets,
    /// One of the `L4_*` protocol flags, or none.
    proto: Offloads,
    /// Whether the network header is IPv4: the only one with a checksum of its own.
    ipv4: bool,
    /// 5-tuple hash, for TCP and UDP.
    hash: Option<u32>,
}

impl Default for Layers {
    fn default() -> Self {
        Self { offsets: Offsets::NONE, proto: Offloads::empty(), ipv4: false, hash: None }
    }
}

impl Layers {
    #[inline(always)]
    fn store(self, packet: &mut Packet) {
        // What is to be completed in a header that is out of sight from now on, must be completed now.
        let ip_lost = !self.ipv4 && packet.offloads.intersects(Offloads::IP_PARTIAL);
        let l4_lost = self.proto.is_empty() && packet.offloads.contains(Offloads::L4_PARTIAL);
        if ip_lost || l4_lost {
            settle(packet, self.ipv4);
        }
        if !packet.offloads.intersects(Offloads::TUNNEL) {
            packet.inner_l3_ofs = NO_OFFSET;
            packet.inner_l4_ofs = NO_OFFSET;
        }
        packet.l2_pad_size = self.offsets.get(Offsets::PADDING);
        packet.l2_5_ofs = self.offsets.get(Offsets::L2_5);
        packet.l3_ofs = self.offsets.get(Offsets::L3);
        packet.l4_ofs = self.offsets.get(Offsets::L4);
        packet.offloads = packet.offloads.difference(Offloads::L4_PROTO).union(self.proto);
        packet.rss_hash = packet.rss_hash.or(self.hash);
    }
}

/// Completes, by the offsets of the pass before, checksums that this one does not find; of a packet just received, there are
/// none. What is no IPv4 has no header checksum to speak of.
#[cold]
fn settle(packet: &mut Packet, ipv4: bool) {
    offload::settle(packet);
    if !ipv4 {
        packet.offloads.remove(Offloads::IP_PARTIAL);
    }
}

/// A layer offset; a header that lies further in than an offset can say is not one that anybody will find.
fn offset(position: usize) -> u16 {
    u16::try_from(position).unwrap_or(NO_OFFSET)
}
