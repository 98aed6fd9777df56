//! One attribute into a flow or a mask: the other way of [`super::from_flow::one`].
//!
//! Counterpart: the `put_*_key` functions of OVS `lib/odp-util.c`.

use super::attr::{Attr, IPV6_LABEL};
use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER};

/// Writes one attribute's fields. [`Attr::Tunnel`] and [`Attr::Encap`] are not for here.
pub(crate) fn put(attr: &Attr, is_mask: bool, flow: &mut Flow) {
    match attr {
        Attr::RecircId(id) => flow.recirc_id = *id,
        Attr::DpHash(hash) => flow.dp_hash = *hash,
        Attr::Priority(priority) => flow.skb_priority = *priority,
        Attr::InPort(port) => flow.in_port = *port,
        Attr::Mark(mark) => flow.pkt_mark = *mark,
        Attr::CtState(state) => flow.ct_state = *state as u8,
        Attr::CtZone(zone) => flow.ct_zone = *zone,
        Attr::CtMark(mark) => flow.ct_mark = *mark,
        Attr::CtLabel(label) => flow.ct_label.set(*label),
        Attr::CtTuple4(ct) => {
            flow.ct_nw_src.set(ct.src);
            flow.ct_nw_dst.set(ct.dst);
            flow.ct_nw_proto = ct.proto;
            flow.ct_tp_src.set(ct.tp_src);
            flow.ct_tp_dst.set(ct.tp_dst);
        }
        Attr::CtTuple6(ct) => {
            flow.ct_ipv6_src = ct.src;
            flow.ct_ipv6_dst = ct.dst;
            flow.ct_nw_proto = ct.proto;
            flow.ct_tp_src.set(ct.tp_src);
            flow.ct_tp_dst.set(ct.tp_dst);
        }
        Attr::Tunnel(_) | Attr::Encap(_) => {}
        Attr::PacketType(packet_type) => flow.packet_type.set(*packet_type),
        Attr::Ethernet { src, dst } => (flow.dl_src, flow.dl_dst) = (*src, *dst),
        Attr::EthType(dl_type) => flow.dl_type.set(*dl_type),
        Attr::Vlan(tci) => flow.vlans[0].tci.set(*tci),
        Attr::Mpls(mpls) => {
            for (to, from) in flow.mpls_lse.iter_mut().zip(mpls.entries()) {
                to.set(*from);
            }
        }
        Attr::Ipv4(ip) => {
            flow.nw_src.set(ip.src);
            flow.nw_dst.set(ip.dst);
            (flow.nw_proto, flow.nw_tos, flow.nw_ttl) = (ip.proto, ip.tos, ip.ttl);
            flow.nw_frag = frag(ip.frag, is_mask);
        }
        Attr::Ipv6(ip) => {
            flow.ipv6_src = ip.src;
            flow.ipv6_dst = ip.dst;
            flow.ipv6_label.set(ip.label & IPV6_LABEL);
            (flow.nw_proto, flow.nw_tos, flow.nw_ttl) = (ip.proto, ip.tclass, ip.hlimit);
            flow.nw_frag = frag(ip.frag, is_mask);
        }
        Attr::Arp(arp) => {
            flow.nw_src.set(arp.sip);
            flow.nw_dst.set(arp.tip);
            flow.nw_proto = arp.op as u8;
            (flow.arp_sha, flow.arp_tha) = (arp.sha, arp.tha);
        }
        Attr::Nsh(nsh) => flow.nsh = *nsh,
        Attr::Tcp(ports) | Attr::Udp(ports) | Attr::Sctp(ports) => {
            flow.tp_src.set(ports.src);
            flow.tp_dst.set(ports.dst);
        }
        Attr::TcpFlags(flags) => flow.tcp_flags.set(*flags),
        Attr::Icmp(icmp) | Attr::Icmpv6(icmp) => {
            flow.tp_src.set(icmp.kind.into());
            flow.tp_dst.set(icmp.code.into());
        }
        Attr::Nd(nd) => {
            flow.nd_target = nd.target;
            (flow.arp_sha, flow.arp_tha) = (nd.sll, nd.tll);
        }
        Attr::NdExt { reserved, options_type } => {
            flow.igmp_group_ip4.set(*reserved);
            flow.tcp_flags.set((*options_type).into());
        }
    }
}

/// The enumeration that text has as fragment bits; in a mask, all or nothing.
fn frag(frag: u8, is_mask: bool) -> u8 {
    match (is_mask, frag) {
        (_, 0) => 0,
        (true, _) => NW_FRAG_ANY | NW_FRAG_LATER,
        (false, 1) => NW_FRAG_ANY,
        (false, _) => NW_FRAG_ANY | NW_FRAG_LATER,
    }
}
