//! Filling a miniflow, and where each field's word is.

use std::mem::offset_of;

use crate::flow::key::{FLOW_WORDS, Flow};
use crate::flow::miniflow::Map;

macro_rules! word_of {
    ($($name:ident = $field:ident;)*) => {
        $(pub(super) const $name: usize = offset_of!(Flow, $field) / 8;)*
    };
}

word_of! {
    TUNNEL = tunnel;
    PRIORITY = skb_priority;
    CT_LABEL = ct_label;
    CT_MARK = ct_mark;
    DP_HASH = dp_hash;
    RECIRC = recirc_id;
    PACKET_TYPE = packet_type;
    MACS = dl_dst;
    VLANS = vlans;
    MPLS = mpls_lse;
    NW_SRC = nw_src;
    CT_NW_SRC = ct_nw_src;
    IPV6_SRC = ipv6_src;
    CT_IPV6_SRC = ct_ipv6_src;
    NW_PROTO = nw_proto;
    ND_TARGET = nd_target;
    ARP_MACS = arp_sha;
    TCP_FLAGS = tcp_flags;
    NSH = nsh;
    PORTS = tp_src;
    IGMP = igmp_group_ip4;
}

// The words put together by hand below and in the callers.
const _: () = {
    assert!(offset_of!(Flow, dl_src) == offset_of!(Flow, dl_dst) + 6);
    assert!(offset_of!(Flow, dl_type) == offset_of!(Flow, dl_dst) + 12);
    assert!(offset_of!(Flow, arp_tha) == offset_of!(Flow, arp_sha) + 6);
    assert!(offset_of!(Flow, tcp_flags) == offset_of!(Flow, arp_sha) + 12);
    assert!(offset_of!(Flow, nw_frag) % 8 == 4 && offset_of!(Flow, nw_proto) % 8 == 7);
    assert!(offset_of!(Flow, ct_tp_dst) == offset_of!(Flow, tp_src) + 6);
    assert!(offset_of!(Flow, ct_nw_proto) % 8 == 5 && offset_of!(Flow, ct_zone) % 8 == 6);
};

/// The word that holds two 32-bit fields, in memory order.
#[inline(always)]
pub(super) const fn pair(first: [u8; 4], second: [u8; 4]) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first, second);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// Appends words in map order.
pub(super) struct Push<'a> {
    pub(super) map: Map,
    len: usize,
    values: &'a mut [u64; FLOW_WORDS],
}

impl<'a> Push<'a> {
    pub(super) fn new(values: &'a mut [u64; FLOW_WORDS]) -> Self {
        Self { map: [0; 2], len: 0, values }
    }

    /// Appends word number `index` of the key; it must lie behind all words so far.
    #[inline(always)]
    pub(super) fn word(&mut self, index: usize, value: u64) {
        debug_assert!(self.map[1] >> (index.max(64) - 64) == 0 && (index >= 64 || self.map[1] == 0));
        self.map[index / 64] |= 1 << (index % 64);
        self.values[self.len] = value;
        self.len += 1;
    }

    /// Appends bytes from word number `index` on; a last part of less than eight bytes is filled up with zeros.
    #[inline(always)]
    pub(super) fn bytes(&mut self, index: usize, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<8>();
        for (i, &word) in whole.iter().enumerate() {
            self.word(index + i, u64::from_ne_bytes(word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(index + whole.len(), u64::from_ne_bytes(word));
        }
    }

    /// Adds bits to a word already appended, which has `index`, if it has.
    pub(super) fn amend(&mut self, index: usize, bits: u64) {
        let (unit, bit) = (index / 64, 1u64 << (index % 64));
        debug_assert!(self.map[unit] & bit != 0);
        let before =
            (self.map[unit] & (bit - 1)).count_ones() + if unit == 0 { 0 } else { self.map[0].count_ones() };
        self.values[before as usize] |= bits;
    }
}
