//! Every field that OpenFlow rules match on, set, move, or hash: names, width, and where it lives in a [`Flow`](crate::flow::Flow).
//!
//! Owns the table of facts ([`FieldInfo`], in `field/table.rs`) and reading and writing of fields in keys and masks.
//! Text of values is in `text`. Counterpart: OVS `include/openvswitch/meta-flow.h`, `lib/meta-flow.c`, ovs-fields(7).

mod access;
mod table;

use std::fmt;

pub use super::value::FieldValue;
pub use access::{port_from_11, port_to_11};
pub(crate) use table::{Place, VlanPart};

/// A match field, by its OVS name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// `dp_hash`.
    DpHash,
    /// `recirc_id`.
    RecircId,
    /// `packet_type`.
    PacketType,
    /// `conj_id`.
    ConjId,
    /// `tun_id`.
    TunId,
    /// `tun_src`.
    TunSrc,
    /// `tun_dst`.
    TunDst,
    /// `tun_ipv6_src`.
    TunIpv6Src,
    /// `tun_ipv6_dst`.
    TunIpv6Dst,
    /// `tun_flags`.
    TunFlags,
    /// `tun_ttl`.
    TunTtl,
    /// `tun_tos`.
    TunTos,
    /// `tun_gbp_id`.
    TunGbpId,
    /// `tun_gbp_flags`.
    TunGbpFlags,
    /// `tun_erspan_idx`.
    TunErspanIdx,
    /// `tun_erspan_ver`.
    TunErspanVer,
    /// `tun_erspan_dir`.
    TunErspanDir,
    /// `tun_erspan_hwid`.
    TunErspanHwid,
    /// `tun_gtpu_flags`.
    TunGtpuFlags,
    /// `tun_gtpu_msgtype`.
    TunGtpuMsgtype,
    /// Tunnel option mapped to this number.
    TunMetadata(u8),
    /// `metadata`.
    Metadata,
    /// `in_port`.
    InPort,
    /// `in_port_oxm`.
    InPortOxm,
    /// `actset_output`.
    ActsetOutput,
    /// `skb_priority`.
    SkbPriority,
    /// `pkt_mark`.
    PktMark,
    /// `ct_state`.
    CtState,
    /// `ct_zone`.
    CtZone,
    /// `ct_mark`.
    CtMark,
    /// `ct_label`.
    CtLabel,
    /// `ct_nw_proto`.
    CtNwProto,
    /// `ct_nw_src`.
    CtNwSrc,
    /// `ct_nw_dst`.
    CtNwDst,
    /// `ct_ipv6_src`.
    CtIpv6Src,
    /// `ct_ipv6_dst`.
    CtIpv6Dst,
    /// `ct_tp_src`.
    CtTpSrc,
    /// `ct_tp_dst`.
    CtTpDst,
    /// Register.
    Reg(u8),
    /// 64-bit register, `reg2N` the high half.
    XReg(u8),
    /// 128-bit register, `reg4N` the highest quarter.
    XxReg(u8),
    /// `eth_src`.
    EthSrc,
    /// `eth_dst`.
    EthDst,
    /// `eth_type`.
    EthType,
    /// `vlan_tci`.
    VlanTci,
    /// `dl_vlan`.
    DlVlan,
    /// `vlan_vid`.
    VlanVid,
    /// `dl_vlan_pcp`.
    DlVlanPcp,
    /// `vlan_pcp`.
    VlanPcp,
    /// `mpls_label`.
    MplsLabel,
    /// `mpls_tc`.
    MplsTc,
    /// `mpls_bos`.
    MplsBos,
    /// `mpls_ttl`.
    MplsTtl,
    /// `ip_src`.
    IpSrc,
    /// `ip_dst`.
    IpDst,
    /// `ipv6_src`.
    Ipv6Src,
    /// `ipv6_dst`.
    Ipv6Dst,
    /// `ipv6_label`.
    Ipv6Label,
    /// `nw_proto`.
    NwProto,
    /// `nw_tos`.
    NwTos,
    /// `ip_dscp`.
    IpDscp,
    /// `nw_ecn`.
    NwEcn,
    /// `nw_ttl`.
    NwTtl,
    /// `ip_frag`.
    IpFrag,
    /// `arp_op`.
    ArpOp,
    /// `arp_spa`.
    ArpSpa,
    /// `arp_tpa`.
    ArpTpa,
    /// `arp_sha`.
    ArpSha,
    /// `arp_tha`.
    ArpTha,
    /// `tcp_src`.
    TcpSrc,
    /// `tcp_dst`.
    TcpDst,
    /// `tcp_flags`.
    TcpFlags,
    /// `udp_src`.
    UdpSrc,
    /// `udp_dst`.
    UdpDst,
    /// `sctp_src`.
    SctpSrc,
    /// `sctp_dst`.
    SctpDst,
    /// `icmp_type`.
    IcmpType,
    /// `icmp_code`.
    IcmpCode,
    /// `icmpv6_type`.
    Icmpv6Type,
    /// `icmpv6_code`.
    Icmpv6Code,
    /// `nd_target`.
    NdTarget,
    /// `nd_sll`.
    NdSll,
    /// `nd_tll`.
    NdTll,
    /// `nd_reserved`.
    NdReserved,
    /// `nd_options_type`.
    NdOptionsType,
    /// `nsh_flags`.
    NshFlags,
    /// `nsh_mdtype`.
    NshMdtype,
    /// `nsh_np`.
    NshNp,
    /// `nsh_spi`.
    NshSpi,
    /// `nsh_si`.
    NshSi,
    /// NSH context header, from 1.
    NshC(u8),
    /// `nsh_ttl`.
    NshTtl,
}

/// How a value is written in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Decimal.
    Decimal,
    /// Hexadecimal.
    Hex,
    /// Colon-separated bytes.
    Mac,
    /// Dotted quad, masks as prefix length where they are one.
    Ipv4,
    /// RFC 5952, masks as prefix length where they are one.
    Ipv6,
    /// `no`, `yes`, `first`, `later`, `not_later`.
    Frag,
    /// `+oam`.
    TunFlags,
    /// `+syn-ack`.
    TcpFlags,
    /// `+trk-new`.
    CtState,
    /// `(namespace,0xtype)`.
    PacketType,
    /// Port number or name, 16 bits.
    Port,
    /// Port number or name, 32 bits.
    Port11,
}

/// What must be known of a packet before a field of it means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prereq {
    /// Nothing.
    None,
    /// Packet type is Ethernet.
    Ethernet,
    /// ARP or RARP.
    Arp,
    /// A VLAN tag is present.
    VlanVid,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// IPv4 or IPv6.
    IpAny,
    /// MPLS, unicast or multicast.
    Mpls,
    /// Network service header.
    Nsh,
    /// `ct_state` has `trk`, without `inv`.
    CtValid,
    /// TCP, not a later fragment.
    Tcp,
    /// UDP, not a later fragment.
    Udp,
    /// SCTP, not a later fragment.
    Sctp,
    /// ICMP over IPv4.
    Icmpv4,
    /// ICMPv6.
    Icmpv6,
    /// Neighbour solicitation or advertisement.
    Nd,
    /// Neighbour solicitation.
    NdSolicit,
    /// Neighbour advertisement.
    NdAdvert,
}

/// What is known about a field; numbered fields (`reg0` to `reg31`) share one.
#[derive(Debug)]
pub struct FieldInfo {
    /// OVS name; without the number for numbered fields.
    pub name: &'static str,
    /// Another name that is accepted.
    pub alias: Option<&'static str>,
    /// NXM and OXM names, the one that OVS prints first; without the number for numbered fields.
    pub nxm: &'static [&'static str],
    /// Width in bits.
    pub n_bits: u32,
    /// Bytes of a value in OpenFlow messages; text may name any value of that width, checked afterwards.
    pub n_bytes: u32,
    /// Whether single bits may be matched; else the field is matched whole or not at all.
    pub maskable: bool,
    /// How values are written.
    pub format: Format,
    /// What a match on it, or an action on it, must have established first.
    pub prereq: Prereq,
    /// Whether actions may change it.
    pub writable: bool,
    /// Where it lives.
    pub(crate) place: Place,
}

impl Field {
    /// The facts about this field.
    pub fn info(self) -> &'static FieldInfo {
        table::info(self)
    }

    /// Width in bits.
    pub fn n_bits(self) -> u32 {
        self.info().n_bits
    }

    /// The number of a numbered field.
    pub fn index(self) -> Option<u8> {
        match self {
            Self::TunMetadata(n) | Self::Reg(n) | Self::XReg(n) | Self::XxReg(n) | Self::NshC(n) => Some(n),
            _ => None,
        }
    }
}

/// The OVS name, with its number.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)?;
        self.index().map_or(Ok(()), |n| write!(f, "{n}"))
    }
}

/// Some consecutive bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// First bit, 0 being the least significant.
    pub ofs: u32,
    /// Number of bits, at least 1.
    pub n_bits: u32,
}

impl Subfield {
    /// All of `field`.
    pub fn whole(field: Field) -> Self {
        Self { field, ofs: 0, n_bits: field.n_bits() }
    }

    /// Whether this is all of its field.
    pub fn is_whole(&self) -> bool {
        self.ofs == 0 && self.n_bits == self.field.n_bits()
    }
}
