//! What kind of packet a key describes, and which bits of a mask that knowledge rests on.
//!
//! The functions that take a mask set in it what they looked at, unless that is always part of a megaflow (the Ethernet
//! type, the packet type). Counterpart: the inline predicates of OVS `lib/flow.h`.

use crate::flow::Flow;
use crate::types::MacAddr;

/// Ethernet types (IEEE registry).
pub(crate) mod ethertype {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const RARP: u16 = 0x8035;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const QINQ: u16 = 0x88a8;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const NSH: u16 = 0x894f;
    /// What a key holds where a frame has no type (OVS `FLOW_DL_TYPE_NONE`).
    pub(crate) const NONE: u16 = 0x05ff;

    /// Whether the type announces a VLAN tag.
    pub(crate) const fn is_vlan(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | QINQ)
    }

    /// Whether the type announces an MPLS label stack.
    pub(crate) const fn is_mpls(ethertype: u16) -> bool {
        matches!(ethertype, MPLS | MPLS_MULTICAST)
    }
}

/// IP protocols (IANA registry).
pub(crate) mod ip_proto {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const IGMP: u8 = 2;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const SCTP: u8 = 132;
}

/// Packet types (OpenFlow 1.5, 7.2.3.11): namespace in the high half, type in the low half.
pub(crate) mod packet_type {
    /// An Ethernet frame.
    pub(crate) const ETHERNET: u32 = 0;
    /// The namespace whose types are Ethernet types.
    pub(crate) const NS_ETHERTYPE: u32 = 1;
    /// IPv4 without Ethernet header.
    pub(crate) const IPV4: u32 = 0x1_0800;
    /// IPv6 without Ethernet header.
    pub(crate) const IPV6: u32 = 0x1_86dd;
    /// A network service header.
    pub(crate) const NSH: u32 = 0x1_894f;
    /// MPLS without Ethernet header.
    pub(crate) const MPLS: u32 = 0x1_8847;
    /// Multicast MPLS without Ethernet header.
    pub(crate) const MPLS_MULTICAST: u32 = 0x1_8848;
}

/// The DSCP bits of a ToS byte.
pub(crate) const IP_DSCP_MASK: u8 = 0xfc;
/// The ECN bits of a ToS byte.
pub(crate) const IP_ECN_MASK: u8 = 0x03;
/// The id bits of a VLAN TCI.
pub(crate) const VLAN_VID_MASK: u16 = 0x0fff;
/// The priority bits of a VLAN TCI.
pub(crate) const VLAN_PCP_MASK: u16 = 0xe000;
/// Position of the priority in a VLAN TCI.
pub(crate) const VLAN_PCP_SHIFT: u32 = 13;

/// The Ethernet type of what the packet carries, whether or not it has an Ethernet header.
pub(crate) fn dl_type(flow: &Flow) -> u16 {
    match flow.packet_type.get() {
        packet_type::ETHERNET => flow.dl_type.get(),
        other if other >> 16 == packet_type::NS_ETHERTYPE => other as u16,
        _ => ethertype::NONE,
    }
}

/// IPv4 or IPv6.
pub(crate) fn is_ip_any(flow: &Flow) -> bool {
    matches!(dl_type(flow), ethertype::IPV4 | ethertype::IPV6)
}

/// IPv4 or IPv6 with this protocol.
pub(crate) fn is_ip_proto(flow: &Flow, proto: u8, wc: Option<&mut Flow>) -> bool {
    if !is_ip_any(flow) {
        return false;
    }
    if let Some(wc) = wc {
        wc.nw_proto = u8::MAX;
    }
    flow.nw_proto == proto
}

fn is_proto_of(flow: &Flow, ethertype: u16, proto: u8, wc: Option<&mut Flow>) -> bool {
    dl_type(flow) == ethertype && is_ip_proto(flow, proto, wc)
}

/// ICMP over IPv4.
pub(crate) fn is_icmpv4(flow: &Flow, wc: Option<&mut Flow>) -> bool {
    is_proto_of(flow, ethertype::IPV4, ip_proto::ICMP, wc)
}

/// ICMP over IPv6.
pub(crate) fn is_icmpv6(flow: &Flow, wc: Option<&mut Flow>) -> bool {
    is_proto_of(flow, ethertype::IPV6, ip_proto::ICMPV6, wc)
}

/// An 802.1D bridge protocol data unit.
pub(crate) fn is_stp(flow: &Flow) -> bool {
    flow.dl_type.get() == ethertype::NONE && flow.dl_dst == MacAddr([0x01, 0x80, 0xc2, 0, 0, 0])
}

/// Sets bits of a 16-bit field in network order.
pub(crate) fn or_be16(field: &mut zerocopy::network_endian::U16, bits: u16) {
    field.set(field.get() | bits);
}

/// Sets bits of a 32-bit field in network order.
pub(crate) fn or_be32(field: &mut zerocopy::network_endian::U32, bits: u32) {
    field.set(field.get() | bits);
}
