//! A flow, or a mask, to attributes.
//!
//! Counterpart: `odp_flow_key_from_flow`, `odp_flow_key_from_mask` of OVS `lib/odp-util.c`.

use super::attr::{Arp, Attr, CtTuple, Icmp, Ipv4, Ipv6, Kind, MPLS_MAX, Mpls, Nd, Ports};
use super::tunnel;
use crate::flow::proto::{
    ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_NSH, ETH_RARP, ETH_TYPE_MIN, IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP,
    IP_UDP, is_mpls, is_vlan,
};
use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER};
use crate::types::PortNo;

const MPLS_BOS: u32 = 0x100;

/// What a list of attributes is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parms {
    /// Most tags that extraction looks at.
    pub vlan_limit: usize,
    /// Whether `nd_ext` is among the attributes; the userspace datapath of OVS does without.
    pub nd_ext: bool,
}

/// The attributes of `key`, to be printed with `mask` if there is one.
pub(crate) fn key(parms: Parms, key: &Flow, mask: Option<&Flow>) -> Vec<Attr> {
    let tcp_flags = [Some(key), mask].into_iter().flatten().any(|flow| flow.tcp_flags.get() != 0);
    Export { parms, flow: key, data: key, is_mask: false, tcp_flags }.all()
}

/// The attributes of `mask`, which belongs to `key`.
pub(crate) fn mask(parms: Parms, key: &Flow, mask: &Flow) -> Vec<Attr> {
    Export { parms, flow: key, data: mask, is_mask: true, tcp_flags: mask.tcp_flags.get() != 0 }.all()
}

/// A flow, or the mask `data` that goes with it, on its way to attributes.
struct Export<'a> {
    parms: Parms,
    flow: &'a Flow,
    data: &'a Flow,
    is_mask: bool,
    /// Whether TCP flags are an attribute.
    tcp_flags: bool,
}

impl Export<'_> {
    fn one(&self, kind: Kind) -> Attr {
        one(kind, self.flow, self.data, self.is_mask)
    }

    fn all(&self) -> Vec<Attr> {
        let flow = self.flow;
        let mut attrs = Vec::with_capacity(20);
        let mut put = |kind| attrs.push(self.one(kind));
        put(Kind::RecircId);
        put(Kind::DpHash);
        put(Kind::Priority);
        let tunnel = &flow.tunnel;
        if self.is_mask || tunnel.is_set() || tunnel.ip_src.get() != 0 || tunnel.ipv6_src != [0; 16] {
            put(Kind::Tunnel);
        }
        if self.is_mask || flow.in_port != PortNo::NONE.0 {
            put(Kind::InPort);
        }
        [Kind::Mark, Kind::CtState, Kind::CtZone, Kind::CtMark, Kind::CtLabel].into_iter().for_each(&mut put);
        match flow.dl_type.get() {
            ETH_IPV4 if flow.ct_nw_proto != 0 => put(Kind::CtTuple4),
            ETH_IPV6 if flow.ct_nw_proto != 0 => put(Kind::CtTuple6),
            _ => {}
        }
        put(Kind::PacketType);
        if flow.packet_type.get() == 0 {
            put(Kind::Ethernet);
            attrs.extend(self.tags(0));
        } else {
            attrs.extend(self.behind_tags());
        }
        attrs
    }

    /// The tag at `depth` with all that it encapsulates, or what follows if there is none.
    fn tags(&self, depth: usize) -> Vec<Attr> {
        let flow = self.flow;
        let (Some(tag), Some(data)) = (flow.vlans.get(depth), self.data.vlans.get(depth)) else {
            return self.behind_tags();
        };
        // A tag that the packet ends in has its protocol id in dl_type.
        let cut_off = tag.tci.get() == 0 && is_vlan(flow.dl_type.get());
        if depth >= self.parms.vlan_limit || (tag.tci.get() == 0 && !cut_off) {
            return self.behind_tags();
        }
        let tpid = match (self.is_mask, cut_off) {
            (true, _) => u16::MAX,
            (false, true) => flow.dl_type.get(),
            (false, false) => tag.tpid.get(),
        };
        let inner = if cut_off { Vec::new() } else { self.tags(depth + 1) };
        vec![Attr::EthType(tpid), Attr::Vlan(data.tci.get()), Attr::Encap(inner)]
    }

    fn behind_tags(&self) -> Vec<Attr> {
        let flow = self.flow;
        let dl_type = flow.dl_type.get();
        if dl_type < ETH_TYPE_MIN {
            // A frame without Ethernet type: no attribute in the key, an exact one in the mask.
            return if self.is_mask { vec![Attr::EthType(u16::MAX)] } else { Vec::new() };
        }
        let mut attrs = vec![Attr::EthType(self.data.dl_type.get())];
        let mut put = |kind| attrs.push(self.one(kind));
        match dl_type {
            ETH_IPV4 => put(Kind::Ipv4),
            ETH_IPV6 => put(Kind::Ipv6),
            ETH_ARP | ETH_RARP => put(Kind::Arp),
            ETH_NSH => put(Kind::Nsh),
            _ if is_mpls(dl_type) => put(Kind::Mpls),
            _ => {}
        }
        // Behind the tags of a packet that starts with them instead of an Ethernet header OVS sees no transport header.
        let packet_type = flow.packet_type.get();
        if packet_type != 0 && packet_type != 1 << 16 | u32::from(dl_type) {
            return attrs;
        }
        let v6 = dl_type == ETH_IPV6;
        if (dl_type != ETH_IPV4 && !v6) || flow.nw_frag & NW_FRAG_LATER != 0 {
            return attrs;
        }
        match flow.nw_proto {
            IP_TCP => {
                put(Kind::Tcp);
                if self.tcp_flags {
                    put(Kind::TcpFlags);
                }
            }
            IP_UDP => put(Kind::Udp),
            IP_SCTP => put(Kind::Sctp),
            IP_ICMP if !v6 => put(Kind::Icmp),
            IP_ICMPV6 if v6 => {
                put(Kind::Icmpv6);
                // The ICMP type has 8 bits in a field of 16: 0xff is exact.
                if is_nd(flow) && (!self.is_mask || self.data.tp_src.get() == 0xff) {
                    put(Kind::Nd);
                    let data = self.data;
                    let extended = data.igmp_group_ip4.get() != 0 || data.tcp_flags.get() != 0;
                    if self.parms.nd_ext && extended {
                        put(Kind::NdExt);
                    }
                }
            }
            _ => {}
        }
        attrs
    }
}

/// Whether this is a neighbour solicitation or advertisement.
pub(crate) fn is_nd(flow: &Flow) -> bool {
    flow.dl_type.get() == ETH_IPV6
        && flow.nw_proto == IP_ICMPV6
        && flow.tp_dst.get() == 0
        && matches!(flow.tp_src.get(), 135 | 136)
}

/// Label stack entries of `flow`, at least one.
fn mpls_labels(flow: &Flow) -> usize {
    let stack = &flow.mpls_lse[..MPLS_MAX];
    let bottom = stack.iter().position(|lse| lse.get() & MPLS_BOS != 0);
    // OVS makes an attribute of no entries from an all-zero stack, which it cannot read back.
    bottom.map_or_else(|| stack.iter().filter(|lse| lse.get() != 0).count().max(1), |at| at + 1)
}

/// One attribute with the values of `data`, which is `flow` itself or the mask that goes with it.
pub(crate) fn one(kind: Kind, flow: &Flow, data: &Flow, is_mask: bool) -> Attr {
    let ports = || Ports { src: data.tp_src.get(), dst: data.tp_dst.get() };
    let icmp = || Icmp { kind: data.tp_src.get() as u8, code: data.tp_dst.get() as u8 };
    match kind {
        Kind::RecircId => Attr::RecircId(data.recirc_id),
        Kind::DpHash => Attr::DpHash(data.dp_hash),
        Kind::Priority => Attr::Priority(data.skb_priority),
        Kind::Tunnel => Attr::Tunnel(tunnel::from_flow(&data.tunnel, &flow.tunnel, is_mask)),
        Kind::InPort => Attr::InPort(data.in_port),
        Kind::Mark => Attr::Mark(data.pkt_mark),
        Kind::CtState => Attr::CtState(data.ct_state.into()),
        Kind::CtZone => Attr::CtZone(data.ct_zone),
        Kind::CtMark => Attr::CtMark(data.ct_mark),
        Kind::CtLabel => Attr::CtLabel(data.ct_label.get()),
        Kind::CtTuple4 => Attr::CtTuple4(tuple(data, data.ct_nw_src.get(), data.ct_nw_dst.get())),
        Kind::CtTuple6 => Attr::CtTuple6(tuple(data, data.ct_ipv6_src, data.ct_ipv6_dst)),
        Kind::PacketType => Attr::PacketType(data.packet_type.get()),
        Kind::Ethernet => Attr::Ethernet { src: data.dl_src, dst: data.dl_dst },
        Kind::EthType => Attr::EthType(data.dl_type.get()),
        Kind::Vlan => Attr::Vlan(data.vlans[0].tci.get()),
        Kind::Encap => Attr::Encap(Vec::new()),
        Kind::Mpls => {
            let mut lse = [0; MPLS_MAX];
            for (to, from) in lse.iter_mut().zip(&data.mpls_lse) {
                *to = from.get();
            }
            Attr::Mpls(Mpls { lse, len: mpls_labels(flow) })
        }
        Kind::Ipv4 => Attr::Ipv4(Ipv4 {
            src: data.nw_src.get(),
            dst: data.nw_dst.get(),
            proto: data.nw_proto,
            tos: data.nw_tos,
            ttl: data.nw_ttl,
            frag: frag(data.nw_frag, is_mask),
        }),
        Kind::Ipv6 => Attr::Ipv6(Ipv6 {
            src: data.ipv6_src,
            dst: data.ipv6_dst,
            label: data.ipv6_label.get(),
            proto: data.nw_proto,
            tclass: data.nw_tos,
            hlimit: data.nw_ttl,
            frag: frag(data.nw_frag, is_mask),
        }),
        Kind::Arp => Attr::Arp(Arp {
            sip: data.nw_src.get(),
            tip: data.nw_dst.get(),
            // The opcode is 16 bits of which a key has 8: in a mask all of those are all of these. OVS takes the
            // opcode 255 of a key for 65535 too.
            op: if is_mask && data.nw_proto == u8::MAX { u16::MAX } else { data.nw_proto.into() },
            sha: data.arp_sha,
            tha: data.arp_tha,
        }),
        Kind::Nsh => Attr::Nsh(data.nsh),
        Kind::Tcp => Attr::Tcp(ports()),
        Kind::TcpFlags => Attr::TcpFlags(data.tcp_flags.get()),
        Kind::Udp => Attr::Udp(ports()),
        Kind::Sctp => Attr::Sctp(ports()),
        Kind::Icmp => Attr::Icmp(icmp()),
        Kind::Icmpv6 => Attr::Icmpv6(icmp()),
        Kind::Nd => Attr::Nd(Nd { target: data.nd_target, sll: data.arp_sha, tll: data.arp_tha }),
        Kind::NdExt => {
            Attr::NdExt { reserved: data.igmp_group_ip4.get(), options_type: data.tcp_flags.get() as u8 }
        }
    }
}

fn tuple<T>(data: &Flow, src: T, dst: T) -> CtTuple<T> {
    let (tp_src, tp_dst) = (data.ct_tp_src.get(), data.ct_tp_dst.get());
    CtTuple { src, dst, proto: data.ct_nw_proto, tp_src, tp_dst }
}

/// Fragment bits as the enumeration that text has; in a mask, all or nothing.
fn frag(bits: u8, is_mask: bool) -> u8 {
    match (is_mask, bits & NW_FRAG_ANY != 0, bits & NW_FRAG_LATER != 0) {
        (true, true, _) => u8::MAX,
        (true, false, _) | (false, false, _) => 0,
        (false, true, false) => 1,
        (false, true, true) => 2,
    }
}
