//! Which fields a flow with a given key can match on at all.
//!
//! Counterpart: `flow_wc_map` of OVS `lib/flow.c`. What a mask has beyond these fields is lost when a flow is installed.

use std::mem::offset_of;

use super::proto::{ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_NSH, ETH_RARP, IP_IGMP, is_mpls};
use super::{Flow, TNL_F_UDPIF};

/// The mask of all fields that matter for flows with this key, in whole words, as the caches see them.
pub fn relevant_fields(key: &Flow) -> Flow {
    let ones = Flow::all_ones();
    let mut mask = Flow {
        skb_priority: u32::MAX,
        pkt_mark: u32::MAX,
        dp_hash: u32::MAX,
        in_port: u32::MAX,
        recirc_id: u32::MAX,
        ct_state: u8::MAX,
        ct_nw_proto: u8::MAX,
        ct_zone: u16::MAX,
        ct_mark: u32::MAX,
        ct_label: ones.ct_label,
        packet_type: ones.packet_type,
        ..Flow::default()
    };
    if key.tunnel.is_set() {
        mask.tunnel = ones.tunnel;
        (mask.tunnel.opts_len, mask.tunnel.opt_map) = (0, 0);
        let len = if key.tunnel.flags & TNL_F_UDPIF != 0 {
            mask.tunnel.opts_len = u8::MAX;
            usize::from(key.tunnel.opts_len).next_multiple_of(8)
        } else if key.tunnel.opt_map != 0 {
            mask.tunnel.opt_map = u64::MAX;
            mask.tunnel.opts.len()
        } else {
            0
        };
        mask.tunnel.opts[len..].fill(0);
    }
    let mut set = |at: usize, len: usize| mask.words_mut()[at / 8..(at + len).div_ceil(8)].fill(u64::MAX);
    // Addresses, type and tags.
    set(offset_of!(Flow, dl_dst), offset_of!(Flow, mpls_lse) - offset_of!(Flow, dl_dst));
    match key.dl_type.get() {
        dl_type @ (ETH_IPV4 | ETH_IPV6) => {
            set(offset_of!(Flow, ipv6_label), 8);
            set(offset_of!(Flow, tp_src), 8);
            let is_nd = super::text::from_flow::is_nd(key);
            if dl_type == ETH_IPV4 {
                set(offset_of!(Flow, nw_src), 16);
            } else {
                set(offset_of!(Flow, ipv6_src), if is_nd { 32 } else { 64 });
            }
            if is_nd {
                set(offset_of!(Flow, nd_target), 32);
            }
            if is_nd || (dl_type == ETH_IPV4 && key.nw_proto == IP_IGMP) {
                set(offset_of!(Flow, igmp_group_ip4), 8);
            } else {
                set(offset_of!(Flow, tcp_flags), 2);
            }
        }
        ETH_ARP | ETH_RARP => {
            set(offset_of!(Flow, nw_src), 8);
            set(offset_of!(Flow, ipv6_label), 8);
            set(offset_of!(Flow, arp_sha), 12);
        }
        ETH_NSH => set(offset_of!(Flow, nsh), size_of::<super::Nsh>()),
        dl_type if is_mpls(dl_type) => set(offset_of!(Flow, mpls_lse), 16),
        _ => {}
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_udp_flow_does_not_look_at_arp_or_ipv6() {
        let mut key = Flow { nw_proto: 17, ..Flow::default() };
        key.dl_type.set(0x0800);
        let mask = relevant_fields(&key);
        assert_eq!(mask.nw_dst.get(), u32::MAX);
        assert_eq!(mask.tp_dst.get(), u16::MAX);
        assert_eq!(mask.ipv6_src, [0; 16]);
        assert_eq!(mask.mpls_lse[0].get(), 0);
        assert!(!mask.tunnel.is_set());
        key.dl_type.set(0x88b5);
        assert_eq!(relevant_fields(&key).tp_dst.get(), 0);
    }
}
