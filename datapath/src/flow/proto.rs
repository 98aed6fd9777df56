//! Protocol numbers as they stand in frames, host byte order.

/// IPv4 (RFC 894).
pub const ETH_IPV4: u16 = 0x0800;
/// ARP (RFC 826).
pub const ETH_ARP: u16 = 0x0806;
/// Reverse ARP (RFC 903).
pub const ETH_RARP: u16 = 0x8035;
/// Customer VLAN tag (IEEE 802.1Q).
pub const ETH_VLAN: u16 = 0x8100;
/// Service VLAN tag (IEEE 802.1ad).
pub const ETH_SVLAN: u16 = 0x88a8;
/// IPv6 (RFC 2464).
pub const ETH_IPV6: u16 = 0x86dd;
/// MPLS, unicast (RFC 5332).
pub const ETH_MPLS: u16 = 0x8847;
/// MPLS, upstream-assigned label (RFC 5332).
pub const ETH_MPLS_UPSTREAM: u16 = 0x8848;
/// Network service header (RFC 8300).
pub const ETH_NSH: u16 = 0x894f;
/// Transparent Ethernet bridging, as in GRE.
pub const ETH_TEB: u16 = 0x6558;
/// The smallest value that is a type and not a length (IEEE 802.3).
pub const ETH_TYPE_MIN: u16 = 0x0600;
/// "No Ethernet type" in a key: 802.3 with LLC (`FLOW_DL_TYPE_NONE`, OpenFlow 1.0 `OFP_DL_TYPE_NOT_ETH_TYPE`).
pub const ETH_TYPE_NONE: u16 = 0x05ff;

/// ICMP.
pub const IP_ICMP: u8 = 1;
/// IGMP.
pub const IP_IGMP: u8 = 2;
/// TCP.
pub const IP_TCP: u8 = 6;
/// UDP.
pub const IP_UDP: u8 = 17;
/// GRE.
pub const IP_GRE: u8 = 47;
/// ICMPv6.
pub const IP_ICMPV6: u8 = 58;
/// SCTP.
pub const IP_SCTP: u8 = 132;
/// IPv4 in IP (RFC 2003).
pub const IP_IPIP: u8 = 4;
/// IPv6 in IP (RFC 2473).
pub const IP_IPV6: u8 = 41;
/// IPv6 hop-by-hop options.
pub const IP_HOPOPTS: u8 = 0;
/// IPv6 routing header.
pub const IP_ROUTING: u8 = 43;
/// IPv6 fragment header.
pub const IP_FRAGMENT: u8 = 44;
/// Authentication header (RFC 4302).
pub const IP_AH: u8 = 51;
/// IPv6 destination options.
pub const IP_DSTOPTS: u8 = 60;

/// Flag of a GRE header: it has a checksum (RFC 2784).
pub const GRE_CSUM: u16 = 0x8000;
/// Flag of a GRE header: it has a key (RFC 2890).
pub const GRE_KEY: u16 = 0x2000;
/// Flag of a GRE header: it has a sequence number (RFC 2890).
pub const GRE_SEQ: u16 = 0x1000;
/// Ethernet type of ERSPAN version 1 (type II) in GRE.
pub const ETH_ERSPAN1: u16 = 0x88be;
/// Ethernet type of ERSPAN version 2 (type III) in GRE.
pub const ETH_ERSPAN2: u16 = 0x22eb;

/// Neighbour solicitation (RFC 4861).
pub const ND_SOLICIT: u8 = 135;
/// Neighbour advertisement (RFC 4861).
pub const ND_ADVERT: u8 = 136;

/// Whether the Ethernet type is that of a VLAN tag.
pub const fn is_vlan(dl_type: u16) -> bool {
    matches!(dl_type, ETH_VLAN | ETH_SVLAN)
}

/// Whether the Ethernet type is that of MPLS.
pub const fn is_mpls(dl_type: u16) -> bool {
    matches!(dl_type, ETH_MPLS | ETH_MPLS_UPSTREAM)
}
