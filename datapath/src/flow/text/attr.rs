//! Key attributes: the groups of fields that datapath flow text is made of.
//!
//! A flow's text is a list of attributes, and so is its mask. Both lists exist on their own because text may name
//! attributes in any order, or such that do not make a flow together; `fit` turns them into a flow or says why not.
//! Counterpart: the `OVS_KEY_ATTR_*` Netlink attributes of OVS `include/linux/openvswitch.h`.

use super::put::Bits;
use super::tunnel::TunnelAttr;
use crate::flow::Nsh;
use crate::types::MacAddr;

/// Which attribute (OVS `enum ovs_key_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    RecircId,
    DpHash,
    Priority,
    Tunnel,
    InPort,
    Mark,
    CtState,
    CtZone,
    CtMark,
    CtLabel,
    CtTuple4,
    CtTuple6,
    PacketType,
    Ethernet,
    EthType,
    Vlan,
    Encap,
    Mpls,
    Ipv4,
    Ipv6,
    Arp,
    Nsh,
    Tcp,
    TcpFlags,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Nd,
    NdExt,
}

impl Kind {
    /// All kinds, in the order in which a flow's text has them.
    pub const ALL: [Self; 30] = [
        Self::RecircId,
        Self::DpHash,
        Self::Priority,
        Self::Tunnel,
        Self::InPort,
        Self::Mark,
        Self::CtState,
        Self::CtZone,
        Self::CtMark,
        Self::CtLabel,
        Self::CtTuple4,
        Self::CtTuple6,
        Self::PacketType,
        Self::Ethernet,
        Self::EthType,
        Self::Vlan,
        Self::Encap,
        Self::Mpls,
        Self::Ipv4,
        Self::Ipv6,
        Self::Arp,
        Self::Nsh,
        Self::Tcp,
        Self::TcpFlags,
        Self::Udp,
        Self::Sctp,
        Self::Icmp,
        Self::Icmpv6,
        Self::Nd,
        Self::NdExt,
    ];

    /// The word in front of the parenthesis.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RecircId => "recirc_id",
            Self::DpHash => "dp_hash",
            Self::Priority => "skb_priority",
            Self::Tunnel => "tunnel",
            Self::InPort => "in_port",
            Self::Mark => "skb_mark",
            Self::CtState => "ct_state",
            Self::CtZone => "ct_zone",
            Self::CtMark => "ct_mark",
            Self::CtLabel => "ct_label",
            Self::CtTuple4 => "ct_tuple4",
            Self::CtTuple6 => "ct_tuple6",
            Self::PacketType => "packet_type",
            Self::Ethernet => "eth",
            Self::EthType => "eth_type",
            Self::Vlan => "vlan",
            Self::Encap => "encap",
            Self::Mpls => "mpls",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Arp => "arp",
            Self::Nsh => "nsh",
            Self::Tcp => "tcp",
            Self::TcpFlags => "tcp_flags",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Nd => "nd",
            Self::NdExt => "nd_ext",
        }
    }
}

/// A connection's original tuple; `T` is an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CtTuple<T> {
    pub src: T,
    pub dst: T,
    pub proto: u8,
    pub tp_src: u16,
    pub tp_dst: u16,
}

/// `ipv4(...)`, addresses in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    pub src: u32,
    pub dst: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    /// 0 none, 1 first, 2 later; in a mask 0 or 0xff (OVS `enum ovs_frag_type`).
    pub frag: u8,
}

/// `ipv6(...)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ipv6 {
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub label: u32,
    pub proto: u8,
    pub tclass: u8,
    pub hlimit: u8,
    /// As in [`Ipv4::frag`].
    pub frag: u8,
}

/// Flow label bits of an IPv6 header's first word.
pub(crate) const IPV6_LABEL: u32 = 0xf_ffff;

/// `tcp(...)`, `udp(...)`, `sctp(...)`; or, with other types, any source and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports<T = u16> {
    pub src: T,
    pub dst: T,
}

/// `icmp(...)`, `icmpv6(...)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Icmp {
    pub kind: u8,
    pub code: u8,
}

/// `arp(...)`, addresses in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arp {
    pub sip: u32,
    pub tip: u32,
    pub op: u16,
    pub sha: MacAddr,
    pub tha: MacAddr,
}

/// `nd(...)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nd {
    pub target: [u8; 16],
    pub sll: MacAddr,
    pub tll: MacAddr,
}

/// Label stack entries, top first: at least one, at most [`MPLS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mpls {
    pub lse: [u32; MPLS_MAX],
    pub len: usize,
}

/// Label stack entries in a key (OVS `FLOW_MAX_MPLS_LABELS`).
pub(crate) const MPLS_MAX: usize = 3;

impl Mpls {
    /// The entries.
    pub fn entries(&self) -> &[u32] {
        &self.lse[..self.len.min(MPLS_MAX)]
    }
}

/// One attribute of a key or of a mask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Attr {
    RecircId(u32),
    DpHash(u32),
    Priority(u32),
    Tunnel(Vec<TunnelAttr>),
    InPort(u32),
    Mark(u32),
    CtState(u32),
    CtZone(u16),
    CtMark(u32),
    CtLabel(u128),
    CtTuple4(CtTuple<u32>),
    CtTuple6(CtTuple<[u8; 16]>),
    PacketType(u32),
    Ethernet { src: MacAddr, dst: MacAddr },
    EthType(u16),
    Vlan(u16),
    Encap(Vec<Attr>),
    Mpls(Mpls),
    Ipv4(Ipv4),
    Ipv6(Ipv6),
    Arp(Arp),
    Nsh(Nsh),
    Tcp(Ports),
    TcpFlags(u16),
    Udp(Ports),
    Sctp(Ports),
    Icmp(Icmp),
    Icmpv6(Icmp),
    Nd(Nd),
    NdExt { reserved: u32, options_type: u8 },
}

impl Attr {
    /// Which attribute this is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::RecircId(_) => Kind::RecircId,
            Self::DpHash(_) => Kind::DpHash,
            Self::Priority(_) => Kind::Priority,
            Self::Tunnel(_) => Kind::Tunnel,
            Self::InPort(_) => Kind::InPort,
            Self::Mark(_) => Kind::Mark,
            Self::CtState(_) => Kind::CtState,
            Self::CtZone(_) => Kind::CtZone,
            Self::CtMark(_) => Kind::CtMark,
            Self::CtLabel(_) => Kind::CtLabel,
            Self::CtTuple4(_) => Kind::CtTuple4,
            Self::CtTuple6(_) => Kind::CtTuple6,
            Self::PacketType(_) => Kind::PacketType,
            Self::Ethernet { .. } => Kind::Ethernet,
            Self::EthType(_) => Kind::EthType,
            Self::Vlan(_) => Kind::Vlan,
            Self::Encap(_) => Kind::Encap,
            Self::Mpls(_) => Kind::Mpls,
            Self::Ipv4(_) => Kind::Ipv4,
            Self::Ipv6(_) => Kind::Ipv6,
            Self::Arp(_) => Kind::Arp,
            Self::Nsh(_) => Kind::Nsh,
            Self::Tcp(_) => Kind::Tcp,
            Self::TcpFlags(_) => Kind::TcpFlags,
            Self::Udp(_) => Kind::Udp,
            Self::Sctp(_) => Kind::Sctp,
            Self::Icmp(_) => Kind::Icmp,
            Self::Icmpv6(_) => Kind::Icmpv6,
            Self::Nd(_) => Kind::Nd,
            Self::NdExt { .. } => Kind::NdExt,
        }
    }

    /// Whether, as a mask, this wildcards everything. Nested attributes never count as wildcarded: they are printed
    /// for their structure (OVS `odp_mask_attr_is_wildcard`).
    pub fn is_wildcard(&self) -> bool {
        self.is_constant(false)
    }

    /// Whether, as a mask, this looks at every bit (OVS `odp_mask_attr_is_exact`).
    pub fn is_exact(&self) -> bool {
        self.is_constant(true)
    }

    fn is_constant(&self, ones: bool) -> bool {
        fn all<T: Bits>(value: T, ones: bool) -> bool {
            value == if ones { T::ALL } else { T::NONE }
        }
        fn tuple<T: Bits>(t: &CtTuple<T>, ones: bool) -> bool {
            all(t.src, ones)
                && all(t.dst, ones)
                && all(t.proto, ones)
                && all(t.tp_src, ones)
                && all(t.tp_dst, ones)
        }
        match self {
            Self::RecircId(v)
            | Self::DpHash(v)
            | Self::Priority(v)
            | Self::InPort(v)
            | Self::Mark(v)
            | Self::CtState(v)
            | Self::CtMark(v)
            | Self::PacketType(v) => all(*v, ones),
            Self::CtZone(v) | Self::EthType(v) | Self::Vlan(v) => all(*v, ones),
            Self::TcpFlags(v) => v & 0xfff == if ones { 0xfff } else { 0 },
            Self::CtLabel(v) => all(*v, ones),
            Self::CtTuple4(t) => tuple(t, ones),
            Self::CtTuple6(t) => tuple(t, ones),
            Self::Ethernet { src, dst } => all(*src, ones) && all(*dst, ones),
            Self::Tunnel(_) | Self::Encap(_) | Self::Nsh(_) => false,
            Self::Mpls(m) => m.entries().iter().all(|&lse| all(lse, ones)),
            Self::Ipv4(ip) => {
                all(ip.src, ones)
                    && all(ip.dst, ones)
                    && [ip.proto, ip.tos, ip.ttl, ip.frag].into_iter().all(|v| all(v, ones))
            }
            Self::Ipv6(ip) => {
                all(ip.src, ones)
                    && all(ip.dst, ones)
                    && ip.label & IPV6_LABEL == if ones { IPV6_LABEL } else { 0 }
                    && [ip.proto, ip.tclass, ip.hlimit, ip.frag].into_iter().all(|v| all(v, ones))
            }
            Self::Arp(arp) => {
                all(arp.sip, ones)
                    && all(arp.tip, ones)
                    && all(arp.op, ones)
                    && all(arp.sha, ones)
                    && all(arp.tha, ones)
            }
            Self::Tcp(ports) | Self::Udp(ports) | Self::Sctp(ports) => {
                all(ports.src, ones) && all(ports.dst, ones)
            }
            Self::Icmp(icmp) | Self::Icmpv6(icmp) => all(icmp.kind, ones) && all(icmp.code, ones),
            Self::Nd(nd) => all(nd.target, ones) && all(nd.sll, ones) && all(nd.tll, ones),
            Self::NdExt { reserved, options_type } => all(*reserved, ones) && all(*options_type, ones),
        }
    }
}
