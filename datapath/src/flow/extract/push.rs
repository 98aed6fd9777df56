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
    // Not `from_ne_bytes` of all eight, which compiles to shifting bytes.
    let (first, second) = (u32::from_ne_bytes(first) as u64, u32::from_ne_bytes(second) as u64);
    if cfg!(target_endian = "little") { first | (second << 32) } else { (first << 32) | second }
}

/// Appends words in map order. Both halves of the map, and the length, are plain values, to live in registers.
pub(super) struct Push<'a> {
    low: u64,
    high: u64,
    len: usize,
    values: &'a mut [u64; FLOW_WORDS],
}

impl<'a> Push<'a> {
    #[inline(always)]
    pub(super) fn new(values: &'a mut [u64; FLOW_WORDS]) -> Self {
        Self { low: 0, high: 0, len: 0, values }
    }

    #[inline(always)]
    pub(super) const fn map(&self) -> Map {
        [self.low, self.high]
    }

    /// Names the words of which `bits` says which behind `index`.
    #[inline(always)]
    fn name(&mut self, index: usize, bits: u64) {
        debug_assert!(self.high >> (index.max(64) - 64) == 0 && (index >= 64 || self.low >> index == 0));
        if index < 64 {
            self.low |= bits << index;
        } else {
            self.high |= bits << (index - 64);
        }
    }

    #[inline(always)]
    fn value(&mut self, value: u64) {
        self.values[self.len] = value;
        self.len += 1;
    }

    /// Appends word number `index` of the key; it must lie behind all words so far.
    #[inline(always)]
    pub(super) fn word(&mut self, index: usize, value: u64) {
        self.name(index, 1);
        self.value(value);
    }

    /// Appends bytes from word number `index` on, all in the same half of the map and fewer than 64 words; a last part of
    /// less than eight bytes is filled up with zeros.
    #[inline(always)]
    pub(super) fn bytes(&mut self, index: usize, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<8>();
        let count = bytes.len().div_ceil(8);
        self.name(index, (1 << count) - 1);
        for &word in whole {
            self.value(u64::from_ne_bytes(word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.value(u64::from_ne_bytes(word));
        }
    }

    /// Adds bits to word number `index`, which was appended before.
    #[inline(always)]
    pub(super) fn amend(&mut self, index: usize, bits: u64) {
        let below = |map: u64, bit: usize| (map & ((1 << bit) - 1)).count_ones() as usize;
        let position = if index < 64 {
            below(self.low, index)
        } else {
            self.low.count_ones() as usize + below(self.high, index - 64)
        };
        debug_assert!(position < self.len);
        self.values[position] |= bits;
    }
}
