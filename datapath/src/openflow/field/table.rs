//! The table of fields.

use std::mem::offset_of;

use super::{Field, FieldInfo, Format, Prereq};
use crate::flow::{Flow, Nsh, Tunnel};

/// Where a field lives in a [`Flow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An integer of `size` bytes at byte `at`, in network byte order, shifted up by `shift` bits.
    Net { at: usize, size: usize, shift: u32 },
    /// The same in host byte order.
    Host { at: usize, size: usize, shift: u32 },
    /// `count` registers, most significant first.
    Regs { count: u8 },
    /// A port number that is 16 bits inside and 32 in the field.
    Port11 { at: usize },
    /// A part of the outermost VLAN tag.
    Vlan(VlanPart),
    /// The upper six bits of the ToS byte, in place.
    Dscp,
    /// One of the four NSH context headers.
    NshContext,
    /// A tunnel option; where it is depends on the switch's option map.
    TunMetadata,
}

/// A part of a VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VlanPart {
    /// All 16 bits.
    Tci,
    /// The id; setting it also sets CFI.
    Id,
    /// Id and CFI.
    IdCfi,
    /// Priority; setting it also sets CFI.
    Pcp,
}

const TUN: usize = offset_of!(Flow, tunnel);
const NSH: usize = offset_of!(Flow, nsh);
const LSE: usize = offset_of!(Flow, mpls_lse);

const RW: bool = true;
const RO: bool = false;

const fn net(at: usize, size: usize) -> Place {
    Place::Net { at, size, shift: 0 }
}

const fn host(at: usize, size: usize) -> Place {
    Place::Host { at, size, shift: 0 }
}

const fn bits(at: usize, size: usize, shift: u32) -> Place {
    Place::Net { at, size, shift }
}

macro_rules! row {
    ($name:literal, $alias:expr, $nxm:expr, $bits:literal, $bytes:literal, $mask:literal, $format:ident, $prereq:ident,
     $writable:ident, $place:expr) => {
        &const {
            FieldInfo {
                name: $name,
                alias: $alias,
                nxm: &$nxm,
                n_bits: $bits,
                n_bytes: $bytes,
                maskable: $mask,
                format: Format::$format,
                prereq: Prereq::$prereq,
                writable: $writable,
                place: $place,
            }
        }
    };
}

/// The facts about `field`.
#[rustfmt::skip] // one row a line
pub(super) fn info(field: Field) -> &'static FieldInfo {
    match field {
        Field::DpHash => row!("dp_hash", None, ["NXM_NX_DP_HASH", "NXOXM_ET_DP_HASH"], 32, 4, true, Hex, None, RO, host(offset_of!(Flow, dp_hash), 4)),
        Field::RecircId => row!("recirc_id", None, ["NXM_NX_RECIRC_ID"], 32, 4, false, Decimal, None, RO, host(offset_of!(Flow, recirc_id), 4)),
        Field::PacketType => row!("packet_type", None, ["OXM_OF_PACKET_TYPE"], 32, 4, false, PacketType, None, RO, net(offset_of!(Flow, packet_type), 4)),
        Field::ConjId => row!("conj_id", None, ["NXM_NX_CONJ_ID"], 32, 4, false, Decimal, None, RO, host(offset_of!(Flow, conj_id), 4)),
        Field::TunId => row!("tun_id", Some("tunnel_id"), ["NXM_NX_TUN_ID", "OXM_OF_TUNNEL_ID"], 64, 8, true, Hex, None, RW, net(TUN + offset_of!(Tunnel, tun_id), 8)),
        Field::TunSrc => row!("tun_src", None, ["NXM_NX_TUN_IPV4_SRC"], 32, 4, true, Ipv4, None, RW, net(TUN + offset_of!(Tunnel, ip_src), 4)),
        Field::TunDst => row!("tun_dst", None, ["NXM_NX_TUN_IPV4_DST"], 32, 4, true, Ipv4, None, RW, net(TUN + offset_of!(Tunnel, ip_dst), 4)),
        Field::TunIpv6Src => row!("tun_ipv6_src", None, ["NXM_NX_TUN_IPV6_SRC"], 128, 16, true, Ipv6, None, RW, net(TUN + offset_of!(Tunnel, ipv6_src), 16)),
        Field::TunIpv6Dst => row!("tun_ipv6_dst", None, ["NXM_NX_TUN_IPV6_DST"], 128, 16, true, Ipv6, None, RW, net(TUN + offset_of!(Tunnel, ipv6_dst), 16)),
        Field::TunFlags => row!("tun_flags", None, ["NXM_NX_TUN_FLAGS"], 1, 2, true, TunFlags, None, RW, host(TUN + offset_of!(Tunnel, flags), 2)),
        Field::TunTtl => row!("tun_ttl", None, [], 8, 1, false, Decimal, None, RO, host(TUN + offset_of!(Tunnel, ip_ttl), 1)),
        Field::TunTos => row!("tun_tos", None, [], 8, 1, false, Decimal, None, RO, host(TUN + offset_of!(Tunnel, ip_tos), 1)),
        Field::TunGbpId => row!("tun_gbp_id", None, ["NXM_NX_TUN_GBP_ID"], 16, 2, true, Decimal, None, RW, net(TUN + offset_of!(Tunnel, gbp_id), 2)),
        Field::TunGbpFlags => row!("tun_gbp_flags", None, ["NXM_NX_TUN_GBP_FLAGS"], 8, 1, true, Hex, None, RW, host(TUN + offset_of!(Tunnel, gbp_flags), 1)),
        Field::TunErspanIdx => row!("tun_erspan_idx", None, ["NXOXM_ET_ERSPAN_IDX"], 20, 4, true, Hex, None, RW, host(TUN + offset_of!(Tunnel, erspan_idx), 4)),
        Field::TunErspanVer => row!("tun_erspan_ver", None, ["NXOXM_ET_ERSPAN_VER"], 4, 1, true, Decimal, None, RW, host(TUN + offset_of!(Tunnel, erspan_ver), 1)),
        Field::TunErspanDir => row!("tun_erspan_dir", None, ["NXOXM_ET_ERSPAN_DIR"], 1, 1, true, Decimal, None, RW, host(TUN + offset_of!(Tunnel, erspan_dir), 1)),
        Field::TunErspanHwid => row!("tun_erspan_hwid", None, ["NXOXM_ET_ERSPAN_HWID"], 6, 1, true, Hex, None, RW, host(TUN + offset_of!(Tunnel, erspan_hwid), 1)),
        Field::TunGtpuFlags => row!("tun_gtpu_flags", Some("gtpu_flags"), ["NXOXM_ET_GTPU_FLAGS"], 8, 1, true, Hex, None, RO, host(TUN + offset_of!(Tunnel, gtpu_flags), 1)),
        Field::TunGtpuMsgtype => row!("tun_gtpu_msgtype", Some("gtpu_msgtype"), ["NXOXM_ET_GTPU_MSGTYPE"], 8, 1, true, Decimal, None, RO, host(TUN + offset_of!(Tunnel, gtpu_msgtype), 1)),
        Field::TunMetadata(_) => row!("tun_metadata", None, ["NXM_NX_TUN_METADATA"], 992, 124, true, Hex, None, RW, Place::TunMetadata),
        Field::Metadata => row!("metadata", None, ["OXM_OF_METADATA"], 64, 8, true, Hex, None, RW, net(offset_of!(Flow, metadata), 8)),
        Field::InPort => row!("in_port", None, ["NXM_OF_IN_PORT"], 16, 2, false, Port, None, RW, host(offset_of!(Flow, in_port), 4)),
        Field::InPortOxm => row!("in_port_oxm", None, ["OXM_OF_IN_PORT"], 32, 4, false, Port11, None, RW, Place::Port11 { at: offset_of!(Flow, in_port) }),
        Field::ActsetOutput => row!("actset_output", None, ["ONFOXM_ET_ACTSET_OUTPUT", "OXM_OF_ACTSET_OUTPUT"], 32, 4, false, Port11, None, RO, Place::Port11 { at: offset_of!(Flow, actset_output) }),
        Field::SkbPriority => row!("skb_priority", None, [], 32, 4, false, Hex, None, RO, host(offset_of!(Flow, skb_priority), 4)),
        Field::PktMark => row!("pkt_mark", None, ["NXM_NX_PKT_MARK"], 32, 4, true, Hex, None, RW, host(offset_of!(Flow, pkt_mark), 4)),
        Field::CtState => row!("ct_state", None, ["NXM_NX_CT_STATE"], 32, 4, true, CtState, None, RO, host(offset_of!(Flow, ct_state), 1)),
        Field::CtZone => row!("ct_zone", None, ["NXM_NX_CT_ZONE"], 16, 2, false, Hex, None, RO, host(offset_of!(Flow, ct_zone), 2)),
        Field::CtMark => row!("ct_mark", None, ["NXM_NX_CT_MARK"], 32, 4, true, Hex, None, RW, host(offset_of!(Flow, ct_mark), 4)),
        Field::CtLabel => row!("ct_label", None, ["NXM_NX_CT_LABEL"], 128, 16, true, Hex, None, RW, net(offset_of!(Flow, ct_label), 16)),
        Field::CtNwProto => row!("ct_nw_proto", None, ["NXM_NX_CT_NW_PROTO"], 8, 1, false, Decimal, CtValid, RO, host(offset_of!(Flow, ct_nw_proto), 1)),
        Field::CtNwSrc => row!("ct_nw_src", None, ["NXM_NX_CT_NW_SRC"], 32, 4, true, Ipv4, CtValid, RO, net(offset_of!(Flow, ct_nw_src), 4)),
        Field::CtNwDst => row!("ct_nw_dst", None, ["NXM_NX_CT_NW_DST"], 32, 4, true, Ipv4, CtValid, RO, net(offset_of!(Flow, ct_nw_dst), 4)),
        Field::CtIpv6Src => row!("ct_ipv6_src", None, ["NXM_NX_CT_IPV6_SRC"], 128, 16, true, Ipv6, CtValid, RO, net(offset_of!(Flow, ct_ipv6_src), 16)),
        Field::CtIpv6Dst => row!("ct_ipv6_dst", None, ["NXM_NX_CT_IPV6_DST"], 128, 16, true, Ipv6, CtValid, RO, net(offset_of!(Flow, ct_ipv6_dst), 16)),
        Field::CtTpSrc => row!("ct_tp_src", None, ["NXM_NX_CT_TP_SRC"], 16, 2, true, Decimal, CtValid, RO, net(offset_of!(Flow, ct_tp_src), 2)),
        Field::CtTpDst => row!("ct_tp_dst", None, ["NXM_NX_CT_TP_DST"], 16, 2, true, Decimal, CtValid, RO, net(offset_of!(Flow, ct_tp_dst), 2)),
        Field::Reg(_) => row!("reg", None, ["NXM_NX_REG", "NXOXM_ET_REG"], 32, 4, true, Hex, None, RW, Place::Regs { count: 1 }),
        Field::XReg(_) => row!("xreg", None, ["OXM_OF_PKT_REG"], 64, 8, true, Hex, None, RW, Place::Regs { count: 2 }),
        Field::XxReg(_) => row!("xxreg", None, ["NXM_NX_XXREG", "NXOXM_ET_XXREG"], 128, 16, true, Hex, None, RW, Place::Regs { count: 4 }),
        Field::EthSrc => row!("eth_src", Some("dl_src"), ["NXM_OF_ETH_SRC", "OXM_OF_ETH_SRC"], 48, 6, true, Mac, Ethernet, RW, net(offset_of!(Flow, dl_src), 6)),
        Field::EthDst => row!("eth_dst", Some("dl_dst"), ["NXM_OF_ETH_DST", "OXM_OF_ETH_DST"], 48, 6, true, Mac, Ethernet, RW, net(offset_of!(Flow, dl_dst), 6)),
        Field::EthType => row!("eth_type", Some("dl_type"), ["NXM_OF_ETH_TYPE", "OXM_OF_ETH_TYPE"], 16, 2, false, Hex, Ethernet, RO, net(offset_of!(Flow, dl_type), 2)),
        Field::VlanTci => row!("vlan_tci", None, ["NXM_OF_VLAN_TCI"], 16, 2, true, Hex, Ethernet, RW, Place::Vlan(VlanPart::Tci)),
        Field::DlVlan => row!("dl_vlan", None, [], 12, 2, false, Decimal, Ethernet, RW, Place::Vlan(VlanPart::Id)),
        Field::VlanVid => row!("vlan_vid", None, ["OXM_OF_VLAN_VID"], 12, 2, true, Decimal, Ethernet, RW, Place::Vlan(VlanPart::IdCfi)),
        Field::DlVlanPcp => row!("dl_vlan_pcp", None, [], 3, 1, false, Decimal, Ethernet, RW, Place::Vlan(VlanPart::Pcp)),
        Field::VlanPcp => row!("vlan_pcp", None, ["OXM_OF_VLAN_PCP"], 3, 1, false, Decimal, VlanVid, RW, Place::Vlan(VlanPart::Pcp)),
        Field::MplsLabel => row!("mpls_label", None, ["OXM_OF_MPLS_LABEL"], 20, 4, false, Decimal, Mpls, RW, bits(LSE, 4, 12)),
        Field::MplsTc => row!("mpls_tc", None, ["OXM_OF_MPLS_TC"], 3, 1, false, Decimal, Mpls, RW, bits(LSE, 4, 9)),
        Field::MplsBos => row!("mpls_bos", None, ["OXM_OF_MPLS_BOS"], 1, 1, false, Decimal, Mpls, RO, bits(LSE, 4, 8)),
        Field::MplsTtl => row!("mpls_ttl", None, ["NXM_NX_MPLS_TTL"], 8, 1, false, Decimal, Mpls, RW, bits(LSE, 4, 0)),
        Field::IpSrc => row!("ip_src", Some("nw_src"), ["NXM_OF_IP_SRC", "OXM_OF_IPV4_SRC"], 32, 4, true, Ipv4, Ipv4, RW, net(offset_of!(Flow, nw_src), 4)),
        Field::IpDst => row!("ip_dst", Some("nw_dst"), ["NXM_OF_IP_DST", "OXM_OF_IPV4_DST"], 32, 4, true, Ipv4, Ipv4, RW, net(offset_of!(Flow, nw_dst), 4)),
        Field::Ipv6Src => row!("ipv6_src", None, ["NXM_NX_IPV6_SRC", "OXM_OF_IPV6_SRC"], 128, 16, true, Ipv6, Ipv6, RW, net(offset_of!(Flow, ipv6_src), 16)),
        Field::Ipv6Dst => row!("ipv6_dst", None, ["NXM_NX_IPV6_DST", "OXM_OF_IPV6_DST"], 128, 16, true, Ipv6, Ipv6, RW, net(offset_of!(Flow, ipv6_dst), 16)),
        Field::Ipv6Label => row!("ipv6_label", None, ["NXM_NX_IPV6_LABEL", "OXM_OF_IPV6_FLABEL"], 20, 4, true, Hex, Ipv6, RW, net(offset_of!(Flow, ipv6_label), 4)),
        Field::NwProto => row!("nw_proto", Some("ip_proto"), ["NXM_OF_IP_PROTO", "OXM_OF_IP_PROTO"], 8, 1, false, Decimal, IpAny, RO, host(offset_of!(Flow, nw_proto), 1)),
        Field::NwTos => row!("nw_tos", None, ["NXM_OF_IP_TOS"], 8, 1, false, Decimal, IpAny, RW, Place::Dscp),
        Field::IpDscp => row!("ip_dscp", None, ["OXM_OF_IP_DSCP"], 6, 1, false, Decimal, IpAny, RW, bits(offset_of!(Flow, nw_tos), 1, 2)),
        Field::NwEcn => row!("nw_ecn", Some("ip_ecn"), ["NXM_NX_IP_ECN", "OXM_OF_IP_ECN"], 2, 1, false, Decimal, IpAny, RW, host(offset_of!(Flow, nw_tos), 1)),
        Field::NwTtl => row!("nw_ttl", None, ["NXM_NX_IP_TTL"], 8, 1, false, Decimal, IpAny, RW, host(offset_of!(Flow, nw_ttl), 1)),
        Field::IpFrag => row!("ip_frag", Some("nw_frag"), ["NXM_NX_IP_FRAG"], 2, 1, true, Frag, IpAny, RO, host(offset_of!(Flow, nw_frag), 1)),
        Field::ArpOp => row!("arp_op", None, ["NXM_OF_ARP_OP", "OXM_OF_ARP_OP"], 16, 2, false, Decimal, Arp, RW, host(offset_of!(Flow, nw_proto), 1)),
        Field::ArpSpa => row!("arp_spa", None, ["NXM_OF_ARP_SPA", "OXM_OF_ARP_SPA"], 32, 4, true, Ipv4, Arp, RW, net(offset_of!(Flow, nw_src), 4)),
        Field::ArpTpa => row!("arp_tpa", None, ["NXM_OF_ARP_TPA", "OXM_OF_ARP_TPA"], 32, 4, true, Ipv4, Arp, RW, net(offset_of!(Flow, nw_dst), 4)),
        Field::ArpSha => row!("arp_sha", None, ["NXM_NX_ARP_SHA", "OXM_OF_ARP_SHA"], 48, 6, true, Mac, Arp, RW, net(offset_of!(Flow, arp_sha), 6)),
        Field::ArpTha => row!("arp_tha", None, ["NXM_NX_ARP_THA", "OXM_OF_ARP_THA"], 48, 6, true, Mac, Arp, RW, net(offset_of!(Flow, arp_tha), 6)),
        Field::TcpSrc => row!("tcp_src", Some("tp_src"), ["NXM_OF_TCP_SRC", "OXM_OF_TCP_SRC"], 16, 2, true, Decimal, Tcp, RW, net(offset_of!(Flow, tp_src), 2)),
        Field::TcpDst => row!("tcp_dst", Some("tp_dst"), ["NXM_OF_TCP_DST", "OXM_OF_TCP_DST"], 16, 2, true, Decimal, Tcp, RW, net(offset_of!(Flow, tp_dst), 2)),
        Field::TcpFlags => row!("tcp_flags", None, ["NXM_NX_TCP_FLAGS", "ONFOXM_ET_TCP_FLAGS", "OXM_OF_TCP_FLAGS"], 12, 2, true, TcpFlags, Tcp, RO, net(offset_of!(Flow, tcp_flags), 2)),
        Field::UdpSrc => row!("udp_src", None, ["NXM_OF_UDP_SRC", "OXM_OF_UDP_SRC"], 16, 2, true, Decimal, Udp, RW, net(offset_of!(Flow, tp_src), 2)),
        Field::UdpDst => row!("udp_dst", None, ["NXM_OF_UDP_DST", "OXM_OF_UDP_DST"], 16, 2, true, Decimal, Udp, RW, net(offset_of!(Flow, tp_dst), 2)),
        Field::SctpSrc => row!("sctp_src", None, ["OXM_OF_SCTP_SRC"], 16, 2, true, Decimal, Sctp, RW, net(offset_of!(Flow, tp_src), 2)),
        Field::SctpDst => row!("sctp_dst", None, ["OXM_OF_SCTP_DST"], 16, 2, true, Decimal, Sctp, RW, net(offset_of!(Flow, tp_dst), 2)),
        Field::IcmpType => row!("icmp_type", None, ["NXM_OF_ICMP_TYPE", "OXM_OF_ICMPV4_TYPE"], 8, 1, false, Decimal, Icmpv4, RW, net(offset_of!(Flow, tp_src), 2)),
        Field::IcmpCode => row!("icmp_code", None, ["NXM_OF_ICMP_CODE", "OXM_OF_ICMPV4_CODE"], 8, 1, false, Decimal, Icmpv4, RW, net(offset_of!(Flow, tp_dst), 2)),
        Field::Icmpv6Type => row!("icmpv6_type", None, ["NXM_NX_ICMPV6_TYPE", "OXM_OF_ICMPV6_TYPE"], 8, 1, false, Decimal, Icmpv6, RW, net(offset_of!(Flow, tp_src), 2)),
        Field::Icmpv6Code => row!("icmpv6_code", None, ["NXM_NX_ICMPV6_CODE", "OXM_OF_ICMPV6_CODE"], 8, 1, false, Decimal, Icmpv6, RW, net(offset_of!(Flow, tp_dst), 2)),
        Field::NdTarget => row!("nd_target", None, ["NXM_NX_ND_TARGET", "OXM_OF_IPV6_ND_TARGET"], 128, 16, true, Ipv6, Nd, RW, net(offset_of!(Flow, nd_target), 16)),
        Field::NdSll => row!("nd_sll", None, ["NXM_NX_ND_SLL", "OXM_OF_IPV6_ND_SLL"], 48, 6, true, Mac, NdSolicit, RW, net(offset_of!(Flow, arp_sha), 6)),
        Field::NdTll => row!("nd_tll", None, ["NXM_NX_ND_TLL", "OXM_OF_IPV6_ND_TLL"], 48, 6, true, Mac, NdAdvert, RW, net(offset_of!(Flow, arp_tha), 6)),
        Field::NdReserved => row!("nd_reserved", None, ["ERICOXM_OF_ICMPV6_ND_RESERVED"], 32, 4, false, Decimal, Nd, RW, net(offset_of!(Flow, igmp_group_ip4), 4)),
        Field::NdOptionsType => row!("nd_options_type", None, ["ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE"], 8, 1, false, Decimal, Nd, RW, net(offset_of!(Flow, tcp_flags), 2)),
        Field::NshFlags => row!("nsh_flags", None, ["NXOXM_NSH_FLAGS"], 8, 1, true, Decimal, Nsh, RW, host(NSH + offset_of!(Nsh, flags), 1)),
        Field::NshMdtype => row!("nsh_mdtype", None, ["NXOXM_NSH_MDTYPE"], 8, 1, false, Decimal, Nsh, RO, host(NSH + offset_of!(Nsh, mdtype), 1)),
        Field::NshNp => row!("nsh_np", None, ["NXOXM_NSH_NP"], 8, 1, false, Decimal, Nsh, RO, host(NSH + offset_of!(Nsh, np), 1)),
        Field::NshSpi => row!("nsh_spi", Some("nsp"), ["NXOXM_NSH_SPI"], 24, 4, false, Hex, Nsh, RW, bits(NSH + offset_of!(Nsh, path_hdr), 4, 8)),
        Field::NshSi => row!("nsh_si", Some("nsi"), ["NXOXM_NSH_SI"], 8, 1, false, Decimal, Nsh, RW, bits(NSH + offset_of!(Nsh, path_hdr), 4, 0)),
        Field::NshC(_) => row!("nsh_c", Some("nshc"), ["NXOXM_NSH_C"], 32, 4, true, Hex, Nsh, RW, Place::NshContext),
        Field::NshTtl => row!("nsh_ttl", None, ["NXOXM_NSH_TTL"], 8, 1, false, Decimal, Nsh, RW, host(NSH + offset_of!(Nsh, ttl), 1)),
    }
}

/// Every field that has no number.
const PLAIN: &[Field] = &[
    Field::DpHash,
    Field::RecircId,
    Field::PacketType,
    Field::ConjId,
    Field::TunId,
    Field::TunSrc,
    Field::TunDst,
    Field::TunIpv6Src,
    Field::TunIpv6Dst,
    Field::TunFlags,
    Field::TunTtl,
    Field::TunTos,
    Field::TunGbpId,
    Field::TunGbpFlags,
    Field::TunErspanIdx,
    Field::TunErspanVer,
    Field::TunErspanDir,
    Field::TunErspanHwid,
    Field::TunGtpuFlags,
    Field::TunGtpuMsgtype,
    Field::Metadata,
    Field::InPort,
    Field::InPortOxm,
    Field::ActsetOutput,
    Field::SkbPriority,
    Field::PktMark,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::CtNwProto,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::VlanTci,
    Field::DlVlan,
    Field::VlanVid,
    Field::DlVlanPcp,
    Field::VlanPcp,
    Field::MplsLabel,
    Field::MplsTc,
    Field::MplsBos,
    Field::MplsTtl,
    Field::IpSrc,
    Field::IpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::NwProto,
    Field::NwTos,
    Field::IpDscp,
    Field::NwEcn,
    Field::NwTtl,
    Field::IpFrag,
    Field::ArpOp,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::ArpSha,
    Field::ArpTha,
    Field::TcpSrc,
    Field::TcpDst,
    Field::TcpFlags,
    Field::UdpSrc,
    Field::UdpDst,
    Field::SctpSrc,
    Field::SctpDst,
    Field::IcmpType,
    Field::IcmpCode,
    Field::Icmpv6Type,
    Field::Icmpv6Code,
    Field::NdTarget,
    Field::NdSll,
    Field::NdTll,
    Field::NdReserved,
    Field::NdOptionsType,
    Field::NshFlags,
    Field::NshMdtype,
    Field::NshNp,
    Field::NshSpi,
    Field::NshSi,
    Field::NshTtl,
];

/// Every field, numbered ones included.
pub(super) fn all() -> impl Iterator<Item = Field> {
    PLAIN
        .iter()
        .copied()
        .chain((0..64).map(Field::TunMetadata))
        .chain((0..32).map(Field::Reg))
        .chain((0..16).map(Field::XReg))
        .chain((0..8).map(Field::XxReg))
        .chain((1..=4).map(Field::NshC))
}
