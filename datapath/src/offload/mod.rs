//! What a packet still owes (flags), what a port can do about it (capabilities), and doing in software what it cannot.
//!
//! Counterpart: the `offloads` word of OVS `lib/dp-packet.h` and `enum netdev_ol_flags` of `lib/netdev.h`.

pub mod checksum;
mod prepare;
mod segment;
#[cfg(test)]
mod segment_tests;

pub use prepare::{Prepared, begin_l4_checksum, complete_at, finish, prepare_for, settle};
pub use segment::Plan;

use bitflags::bitflags;

bitflags! {
    /// A packet's checksum states and offload requests. Of a pair, good and bad together mean *partial*: the field in
    /// the frame is not valid yet and must be completed before anyone reads it; neither means unknown.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Offloads: u32 {
        /// (Outer) IPv4 header checksum known good.
        const IP_GOOD = 1 << 0;
        /// (Outer) IPv4 header checksum known bad.
        const IP_BAD = 1 << 1;
        /// (Outer) IPv4 header checksum to be filled in.
        const IP_PARTIAL = Self::IP_GOOD.bits() | Self::IP_BAD.bits();
        /// (Outer) L4 checksum known good.
        const L4_GOOD = 1 << 2;
        /// (Outer) L4 checksum known bad.
        const L4_BAD = 1 << 3;
        /// (Outer) L4 checksum to be filled in; the field holds anything.
        const L4_PARTIAL = Self::L4_GOOD.bits() | Self::L4_BAD.bits();
        /// The (outer) L4 protocol is TCP.
        const L4_TCP = 1 << 4;
        /// The (outer) L4 protocol is UDP.
        const L4_UDP = 1 << 5;
        /// The (outer) L4 protocol is SCTP.
        const L4_SCTP = 1 << 6;
        /// Which (outer) L4 protocol, if any.
        const L4_PROTO = Self::L4_TCP.bits() | Self::L4_UDP.bits() | Self::L4_SCTP.bits();
        /// Encapsulated in GENEVE by us.
        const TUNNEL_GENEVE = 1 << 8;
        /// Encapsulated in VXLAN by us.
        const TUNNEL_VXLAN = 1 << 9;
        /// Encapsulated in GRE (or ERSPAN) by us.
        const TUNNEL_GRE = 1 << 10;
        /// Encapsulated at all.
        const TUNNEL = Self::TUNNEL_GENEVE.bits() | Self::TUNNEL_VXLAN.bits() | Self::TUNNEL_GRE.bits();
        /// Inner IPv4 header checksum known good.
        const INNER_IP_GOOD = Self::IP_GOOD.bits() << 16;
        /// Inner IPv4 header checksum known bad.
        const INNER_IP_BAD = Self::IP_BAD.bits() << 16;
        /// Inner IPv4 header checksum to be filled in.
        const INNER_IP_PARTIAL = Self::IP_PARTIAL.bits() << 16;
        /// Inner L4 checksum known good.
        const INNER_L4_GOOD = Self::L4_GOOD.bits() << 16;
        /// Inner L4 checksum known bad.
        const INNER_L4_BAD = Self::L4_BAD.bits() << 16;
        /// Inner L4 checksum to be filled in.
        const INNER_L4_PARTIAL = Self::L4_PARTIAL.bits() << 16;
        /// The inner L4 protocol is TCP.
        const INNER_L4_TCP = Self::L4_TCP.bits() << 16;
        /// The inner L4 protocol is UDP.
        const INNER_L4_UDP = Self::L4_UDP.bits() << 16;
        /// The inner L4 protocol is SCTP.
        const INNER_L4_SCTP = Self::L4_SCTP.bits() << 16;
    }
}

bitflags! {
    /// What a port can finish on transmit.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// IPv4 header checksum.
        const IP_CSUM = 1 << 0;
        /// TCP checksum.
        const TCP_CSUM = 1 << 1;
        /// UDP checksum.
        const UDP_CSUM = 1 << 2;
        /// SCTP CRC32c.
        const SCTP_CSUM = 1 << 3;
        /// TCP segmentation.
        const TSO = 1 << 4;
        /// Outer IPv4 header checksum.
        const OUTER_IP_CSUM = 1 << 5;
        /// Outer UDP checksum.
        const OUTER_UDP_CSUM = 1 << 6;
        /// TCP segmentation inside VXLAN.
        const VXLAN_TSO = 1 << 7;
        /// TCP segmentation inside GENEVE.
        const GENEVE_TSO = 1 << 8;
        /// TCP segmentation inside GRE.
        const GRE_TSO = 1 << 9;
    }
}
