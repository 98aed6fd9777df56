//! A packet's key as text, all its fields told (OVS `flow_format()` of `lib/flow.c`).

use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER};
use crate::openflow::headers::{dl_type, ethertype, ip_proto, is_ip_any, packet_type};
use crate::openflow::rule_match::Match;
use crate::openflow::text::{Names, match_to_text};

/// A packet's key as OpenFlow sees it (OVS `flow_format()`): all fields that the packet has, and metadata that is not 0.
pub fn flow_text(flow: &Flow, names: &dyn Names) -> String {
    let mut mask = fields_of_packet(flow);
    let all_if = |value: u32| if value == 0 { 0 } else { u32::MAX };
    mask.in_port = all_if(flow.in_port);
    mask.skb_priority = all_if(flow.skb_priority);
    mask.pkt_mark = all_if(flow.pkt_mark);
    mask.recirc_id = all_if(flow.recirc_id);
    mask.dp_hash = all_if(flow.dp_hash);
    mask.ct_mark = all_if(flow.ct_mark);
    mask.ct_state = all_if(flow.ct_state.into()) as u8;
    mask.ct_zone = all_if(flow.ct_zone.into()) as u16;
    mask.ct_label.set(if flow.ct_label.get() == 0 { 0 } else { u128::MAX });
    mask.metadata.set(if flow.metadata.get() == 0 { 0 } else { u64::MAX });
    for (mask, &reg) in mask.regs.iter_mut().zip(&flow.regs) {
        *mask = all_if(reg);
    }
    if flow.ct_nw_proto == 0 {
        mask.ct_nw_proto = 0;
        mask.ct_tp_src.set(0);
        mask.ct_tp_dst.set(0);
        mask.ct_nw_src.set(0);
        mask.ct_nw_dst.set(0);
        mask.ct_ipv6_src = [0; 16];
        mask.ct_ipv6_dst = [0; 16];
    }
    // Only metadata type 1 has context headers.
    if flow.nsh.mdtype != 1 {
        mask.nsh.context = Default::default();
    }
    let fields = Match { flow: flow.masked(&mask), mask, tun_metadata: Vec::new() };
    match_to_text(&fields, None, names)
}

/// The fields that a packet with this key has (OVS `flow_wildcards_init_for_packet()`).
fn fields_of_packet(flow: &Flow) -> Flow {
    let ones = Flow::all_ones();
    let mut mask = Flow { packet_type: ones.packet_type, ..Flow::default() };
    if flow.tunnel.is_set() {
        mask.tunnel = ones.tunnel;
        mask.tunnel.pad = [0; 3];
        mask.tunnel.opts = [0; 256];
        mask.tunnel.opts_len = 0;
        mask.tunnel.opt_map = 0;
    } else if flow.tunnel.tun_id.get() != 0 {
        mask.tunnel.tun_id = ones.tunnel.tun_id;
    }
    if flow.packet_type.get() == packet_type::ETHERNET {
        mask.dl_dst = ones.dl_dst;
        mask.dl_src = ones.dl_src;
        mask.dl_type = ones.dl_type;
        // The first tag that is not there is told too.
        for (mask, vlan) in mask.vlans.iter_mut().zip(&flow.vlans) {
            *mask = ones.vlans[0];
            if vlan.tci.get() == 0 {
                break;
            }
        }
    }
    match dl_type(flow) {
        ethertype::ARP | ethertype::RARP => {
            (mask.nw_src, mask.nw_dst, mask.nw_proto) = (ones.nw_src, ones.nw_dst, u8::MAX);
            (mask.arp_sha, mask.arp_tha) = (ones.arp_sha, ones.arp_tha);
        }
        ethertype::IPV4 => {
            (mask.nw_src, mask.nw_dst) = (ones.nw_src, ones.nw_dst);
            (mask.ct_nw_src, mask.ct_nw_dst) = (ones.ct_nw_src, ones.ct_nw_dst);
        }
        ethertype::IPV6 => ipv6_fields(flow, &mut mask),
        // As in OVS, where this field alone is looked at.
        ethertype::NSH if flow.dl_type.get() == ethertype::NSH => mask.nsh = ones.nsh,
        kind if ethertype::is_mpls(kind) => {
            const BOTTOM: u32 = 0x100;
            for (mask, lse) in mask.mpls_lse.iter_mut().zip(&flow.mpls_lse).take(3) {
                mask.set(u32::MAX);
                if lse.get() & BOTTOM != 0 {
                    break;
                }
            }
        }
        _ => {}
    }
    if is_ip_any(flow) || flow.dl_type.get() == ethertype::NSH && dl_type(flow) == ethertype::NSH {
        transport_fields(flow, &mut mask);
    }
    mask
}

fn ipv6_fields(flow: &Flow, mask: &mut Flow) {
    (mask.ipv6_src, mask.ipv6_dst) = ([0xff; 16], [0xff; 16]);
    mask.ipv6_label.set(u32::MAX);
    let is_nd =
        flow.nw_proto == ip_proto::ICMPV6 && flow.tp_dst.get() == 0 && matches!(flow.tp_src.get(), 135 | 136);
    if is_nd {
        (mask.arp_sha.0, mask.arp_tha.0, mask.nd_target) = ([0xff; 6], [0xff; 6], [0xff; 16]);
    } else {
        (mask.ct_ipv6_src, mask.ct_ipv6_dst) = ([0xff; 16], [0xff; 16]);
    }
}

fn transport_fields(flow: &Flow, mask: &mut Flow) {
    mask.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    (mask.nw_tos, mask.nw_ttl, mask.nw_proto, mask.ct_nw_proto) = (u8::MAX, u8::MAX, u8::MAX, u8::MAX);
    mask.ct_tp_src.set(u16::MAX);
    mask.ct_tp_dst.set(u16::MAX);
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        return;
    }
    let has_ports =
        [ip_proto::ICMP, ip_proto::ICMPV6, ip_proto::TCP, ip_proto::UDP, ip_proto::SCTP, ip_proto::IGMP];
    if has_ports.contains(&flow.nw_proto) {
        mask.tp_src.set(u16::MAX);
        mask.tp_dst.set(u16::MAX);
    }
    match flow.nw_proto {
        ip_proto::TCP => mask.tcp_flags.set(u16::MAX),
        ip_proto::IGMP => mask.igmp_group_ip4.set(u32::MAX),
        _ => {}
    }
}
