//! A longest-prefix-match tree over one field of the rules of a table.
//!
//! It answers two questions at once: which prefix lengths can match a value at all, and how many leading bits of the
//! value it takes to know that. Owns the tree; never looks at rules. Counterpart: the trie of OVS `lib/classifier.c`.

use crate::flow::Flow;
use crate::openflow::headers::{dl_type, ethertype};

/// Longest run of bits that one node holds. Longer prefixes are chains of nodes.
const NODE_BITS: u32 = 32;

/// Which of the lengths 1 to 128 have rules that may match; bit 127 stands for length 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths(u128);

impl Lengths {
    /// All lengths: nothing can be skipped.
    pub(super) const ALL: Self = Self(u128::MAX);

    /// Whether rules with a prefix of `len` (1 to 128) bits may match.
    pub(super) const fn has(self, len: u32) -> bool {
        self.0 >> (128 - len) & 1 != 0
    }

    const fn add(&mut self, len: u32) {
        self.0 |= 1 << (128 - len);
    }
}

/// A value of up to 128 bits, left-aligned: its first bit on the wire is bit 127.
pub(super) type Bits = u128;

/// Left-aligns a 32-bit value.
pub(super) const fn bits_of_u32(value: u32) -> Bits {
    (value as u128) << 96
}

#[derive(Clone, Debug)]
struct Node {
    /// The first `n_bits` bits from the top; the rest zero.
    prefix: u32,
    n_bits: u32,
    /// Rules whose prefix ends here.
    n_rules: u32,
    edges: [Option<Box<Node>>; 2],
}

impl Node {
    /// A chain of nodes for the `plen` bits of `value` from `ofs` on, with `n_rules` at its end.
    fn branch(value: Bits, ofs: u32, plen: u32, n_rules: u32) -> Box<Self> {
        let prefix = slice(value, ofs, plen.min(NODE_BITS));
        if plen <= NODE_BITS {
            return Box::new(Self { prefix, n_bits: plen, n_rules, edges: [None, None] });
        }
        let sub = Self::branch(value, ofs + NODE_BITS, plen - NODE_BITS, n_rules);
        let mut node = Self { prefix, n_bits: NODE_BITS, n_rules: 0, edges: [None, None] };
        let bit = (sub.prefix >> 31) as usize;
        node.edges[bit] = Some(sub);
        Box::new(node)
    }

    fn is_leaf(&self) -> bool {
        self.edges.iter().all(Option::is_none)
    }
}

/// `len` (up to 32) bits of `value` from bit `ofs` (0 is the first) on, at the top of the word, the rest zero.
fn slice(value: Bits, ofs: u32, len: u32) -> u32 {
    if len == 0 || ofs >= 128 {
        return 0;
    }
    let word = ((value << ofs) >> 96) as u32;
    word & (u32::MAX << (32 - len))
}

/// Bit `ofs` (0 is the first) of `value`.
const fn bit(value: Bits, ofs: u32) -> usize {
    if ofs >= 128 { 0 } else { (value >> (127 - ofs) & 1) as usize }
}

/// How many of the first `len` bits of `prefix` equal those of `value` from `ofs` on.
fn equal_bits(prefix: u32, len: u32, value: Bits, ofs: u32) -> u32 {
    (prefix ^ slice(value, ofs, 32)).leading_zeros().min(len)
}

/// A prefix tree; counts how many distinct rules (with different masked values) end at each prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Trie {
    root: Option<Box<Node>>,
}

impl Trie {
    /// Adds the first `len` bits of `value`; `len` must not be 0.
    pub(super) fn insert(&mut self, value: Bits, len: u32) {
        let mut edge = &mut self.root;
        let mut ofs = 0;
        loop {
            let Some((n_bits, equal)) = edge
                .as_deref()
                .map(|node| (node.n_bits, equal_bits(node.prefix, node.n_bits.min(len - ofs), value, ofs)))
            else {
                *edge = Some(Node::branch(value, ofs, len - ofs, 1));
                return;
            };
            if equal < n_bits {
                return split(edge, value, ofs, equal, len);
            }
            ofs += equal;
            let Some(node) = edge else { return };
            if ofs == len {
                node.n_rules += 1;
                return;
            }
            edge = &mut node.edges[bit(value, ofs)];
        }
    }

    /// Takes out what [`Self::insert`] put in; does nothing if it is not there.
    pub(super) fn remove(&mut self, value: Bits, len: u32) {
        remove_from(&mut self.root, value, 0, len);
    }

    /// Which prefix lengths have rules that match the first `n_bits` of `value`, and how many bits of it say so.
    pub(super) fn lookup(&self, value: Bits, n_bits: u32) -> (u32, Lengths) {
        let mut lengths = Lengths::default();
        let mut matched = 0;
        let mut previous: Option<&Node> = None;
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            let equal = equal_bits(node.prefix, node.n_bits, value, matched);
            matched += equal;
            if equal < node.n_bits {
                // The first bit that differs is part of the proof.
                return (matched + 1, lengths);
            }
            if node.n_rules > 0 {
                lengths.add(matched);
            }
            if matched >= n_bits {
                return (n_bits, lengths);
            }
            previous = Some(node);
            next = node.edges[bit(value, matched)].as_deref();
        }
        // A branch that does not exist was to be followed: one more bit excludes the other branch, if there is one.
        match previous {
            Some(node) if !node.is_leaf() => (matched + 1, lengths),
            _ => (matched, lengths),
        }
    }
}

/// Puts a node of `equal` bits above the node at `edge`, and a new branch for the rest of `value` beside that.
fn split(edge: &mut Option<Box<Node>>, value: Bits, ofs: u32, equal: u32, len: u32) {
    let Some(mut old) = edge.take() else { return };
    let ends_here = ofs + equal == len;
    let mut parent = Node::branch(value, ofs, equal, u32::from(ends_here));
    let old_branch = (old.prefix << equal >> 31) as usize;
    old.prefix <<= equal;
    old.n_bits -= equal;
    parent.edges[old_branch] = Some(old);
    if !ends_here {
        parent.edges[1 - old_branch] = Some(Node::branch(value, ofs + equal, len - ofs - equal, 1));
    }
    *edge = Some(parent);
}

/// Removes a prefix below `edge`; returns whether the node at `edge` vanished without a successor.
fn remove_from(edge: &mut Option<Box<Node>>, value: Bits, ofs: u32, len: u32) -> bool {
    let Some(node) = edge else { return false };
    let equal = equal_bits(node.prefix, node.n_bits.min(len - ofs), value, ofs);
    if equal < node.n_bits {
        return false;
    }
    let ofs = ofs + equal;
    if ofs == len {
        node.n_rules = node.n_rules.saturating_sub(1);
    } else if !remove_from(&mut node.edges[bit(value, ofs)], value, ofs, len) {
        return false;
    }
    prune(edge)
}

/// Drops the node at `edge` if no rule ends there and it is no fork, joining it with its only child where both fit
/// into one node. Returns whether it vanished without a successor, so that its parent may be superfluous too.
fn prune(edge: &mut Option<Box<Node>>) -> bool {
    let Some(node) = edge else { return false };
    if node.n_rules > 0 || node.edges.iter().all(Option::is_some) {
        return false;
    }
    let (prefix, n_bits) = (node.prefix, node.n_bits);
    let child = node.edges[0].take().or_else(|| node.edges[1].take());
    match child {
        None => {
            *edge = None;
            true
        }
        Some(child) if n_bits + child.n_bits > NODE_BITS => {
            let side = (child.prefix >> 31) as usize;
            node.edges[side] = Some(child);
            false
        }
        Some(mut child) => {
            child.prefix = prefix | child.prefix.checked_shr(n_bits).unwrap_or(0);
            child.n_bits += n_bits;
            *edge = Some(child);
            false
        }
    }
}

/// A field that a table may index by prefix: the names that `prefixes` of OVS's `Flow_Table` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrefixField {
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
    /// `ct_nw_src`.
    CtNwSrc,
    /// `ct_nw_dst`.
    CtNwDst,
    /// `ct_ipv6_src`.
    CtIpv6Src,
    /// `ct_ipv6_dst`.
    CtIpv6Dst,
    /// `nw_src`.
    NwSrc,
    /// `nw_dst`.
    NwDst,
    /// `ipv6_src`.
    Ipv6Src,
    /// `ipv6_dst`.
    Ipv6Dst,
}

impl PrefixField {
    /// What tables index unless told otherwise (OVS `default_prefix_fields`).
    pub const DEFAULT: [Self; 4] = [Self::NwDst, Self::NwSrc, Self::Ipv6Dst, Self::Ipv6Src];

    /// The field's width in bits.
    pub(super) const fn bits(self) -> u32 {
        match self {
            Self::TunSrc | Self::TunDst | Self::CtNwSrc | Self::CtNwDst | Self::NwSrc | Self::NwDst => 32,
            Self::TunId => 64,
            Self::TunIpv6Src
            | Self::TunIpv6Dst
            | Self::CtIpv6Src
            | Self::CtIpv6Dst
            | Self::Ipv6Src
            | Self::Ipv6Dst => 128,
        }
    }

    /// The segment (0 to 3) that the field is in.
    pub(super) const fn segment(self) -> usize {
        match self {
            Self::TunId | Self::TunSrc | Self::TunDst | Self::TunIpv6Src | Self::TunIpv6Dst => 0,
            Self::CtNwSrc
            | Self::CtNwDst
            | Self::CtIpv6Src
            | Self::CtIpv6Dst
            | Self::NwSrc
            | Self::NwDst
            | Self::Ipv6Src
            | Self::Ipv6Dst => 2,
        }
    }

    /// The field's value in a key or mask.
    pub(super) fn get(self, flow: &Flow) -> Bits {
        match self {
            Self::TunId => u128::from(flow.tunnel.tun_id.get()) << 64,
            Self::TunSrc => bits_of_u32(flow.tunnel.ip_src.get()),
            Self::TunDst => bits_of_u32(flow.tunnel.ip_dst.get()),
            Self::TunIpv6Src => u128::from_be_bytes(flow.tunnel.ipv6_src),
            Self::TunIpv6Dst => u128::from_be_bytes(flow.tunnel.ipv6_dst),
            Self::CtNwSrc => bits_of_u32(flow.ct_nw_src.get()),
            Self::CtNwDst => bits_of_u32(flow.ct_nw_dst.get()),
            Self::CtIpv6Src => u128::from_be_bytes(flow.ct_ipv6_src),
            Self::CtIpv6Dst => u128::from_be_bytes(flow.ct_ipv6_dst),
            Self::NwSrc => bits_of_u32(flow.nw_src.get()),
            Self::NwDst => bits_of_u32(flow.nw_dst.get()),
            Self::Ipv6Src => u128::from_be_bytes(flow.ipv6_src),
            Self::Ipv6Dst => u128::from_be_bytes(flow.ipv6_dst),
        }
    }

    /// Sets bits of the field in a mask, leaving others as they are.
    pub(super) fn or_into(self, mask: &mut Flow, bits: Bits) {
        let value = self.get(mask) | bits;
        let short = (value >> 96) as u32;
        match self {
            Self::TunId => mask.tunnel.tun_id.set((value >> 64) as u64),
            Self::TunSrc => mask.tunnel.ip_src.set(short),
            Self::TunDst => mask.tunnel.ip_dst.set(short),
            Self::TunIpv6Src => mask.tunnel.ipv6_src = value.to_be_bytes(),
            Self::TunIpv6Dst => mask.tunnel.ipv6_dst = value.to_be_bytes(),
            Self::CtNwSrc => mask.ct_nw_src.set(short),
            Self::CtNwDst => mask.ct_nw_dst.set(short),
            Self::CtIpv6Src => mask.ct_ipv6_src = value.to_be_bytes(),
            Self::CtIpv6Dst => mask.ct_ipv6_dst = value.to_be_bytes(),
            Self::NwSrc => mask.nw_src.set(short),
            Self::NwDst => mask.nw_dst.set(short),
            Self::Ipv6Src => mask.ipv6_src = value.to_be_bytes(),
            Self::Ipv6Dst => mask.ipv6_dst = value.to_be_bytes(),
        }
    }

    /// Whether the field means something in this packet. Fields share storage (ARP addresses are in `nw_src`), so
    /// elsewhere the tree must not be consulted.
    pub(super) fn applies_to(self, flow: &Flow) -> bool {
        let carried = dl_type(flow);
        let tracked = flow.ct_nw_proto != 0;
        match self {
            Self::TunId | Self::TunSrc | Self::TunDst | Self::TunIpv6Src | Self::TunIpv6Dst => true,
            Self::NwSrc | Self::NwDst => carried == ethertype::IPV4,
            Self::Ipv6Src | Self::Ipv6Dst => carried == ethertype::IPV6,
            Self::CtNwSrc | Self::CtNwDst => tracked && carried == ethertype::IPV4,
            Self::CtIpv6Src | Self::CtIpv6Dst => tracked && carried == ethertype::IPV6,
        }
    }

    /// The length of the prefix that a mask asks of the field: 0 if it asks nothing, or not for a prefix.
    pub(super) fn prefix_len(self, mask: &Flow) -> u32 {
        let bits = self.get(mask);
        let len = bits.leading_ones();
        if len < 128 && bits << len != 0 { 0 } else { len }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trie_of(prefixes: &[(u32, u32)]) -> Trie {
        let mut trie = Trie::default();
        for &(value, len) in prefixes {
            trie.insert(bits_of_u32(value), len);
        }
        trie
    }

    /// What OVS answers with 10.1.2.0/24 and 10.1.0.0/16 in a table (scenario "multi-table-wildcards").
    #[test]
    fn as_many_bits_as_it_takes() {
        let trie = trie_of(&[(0x0a01_0200, 24), (0x0a01_0000, 16)]);
        let (bits, lengths) = trie.lookup(bits_of_u32(0x0a01_0303), 32);
        assert_eq!(bits, 24, "10.1.3 differs from 10.1.2 in the last of 24 bits");
        assert!(lengths.has(16) && !lengths.has(24));
        let (bits, lengths) = trie.lookup(bits_of_u32(0x0b01_0303), 32);
        assert_eq!(bits, 8, "10 and 11 differ in the last bit of the first byte");
        assert!(!lengths.has(16));
        assert_eq!(trie.lookup(bits_of_u32(0x0a01_0203), 32).0, 24);
    }

    #[test]
    fn empty_and_leaf() {
        assert_eq!(Trie::default().lookup(0, 32), (0, Lengths::default()));
        let trie = trie_of(&[(0xc000_0200, 24)]);
        assert_eq!(trie.lookup(bits_of_u32(0xc000_0201), 32).0, 24, "a leaf needs no bit behind its prefix");
    }

    proptest! {
        /// Against the definition: the lengths are those of the prefixes that cover the value, and any value that
        /// agrees on the reported bits gets the same lengths.
        #[test]
        fn lookup_is_sound(
            prefixes in prop::collection::vec((any::<u32>().prop_map(|v| v & 0xf00f_0003), 1u32..=32), 0..12),
            value in any::<u32>().prop_map(|v| v & 0xf00f_0003),
            noise in any::<u32>(),
        ) {
            let trie = trie_of(&prefixes);
            let (bits, lengths) = trie.lookup(bits_of_u32(value), 32);
            prop_assert!(bits <= 32);
            for len in 1..=32 {
                let mask = u32::MAX << (32 - len);
                let expected = prefixes.iter().any(|&(p, l)| l == len && (p ^ value) & mask == 0);
                prop_assert_eq!(lengths.has(len), expected, "length {}", len);
            }
            let keep = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
            let other = value & keep | noise & !keep;
            prop_assert_eq!(trie.lookup(bits_of_u32(other), 32).1, lengths, "{:#x} and {:#x}", value, other);
        }

        /// Removing what was inserted last gives the same answers as never having inserted it.
        #[test]
        fn remove_undoes_insert(
            kept in prop::collection::vec((any::<u128>().prop_map(|v| v & !(u128::MAX >> 3 << 5)), 1u32..=128), 0..8),
            gone in prop::collection::vec((any::<u128>().prop_map(|v| v & !(u128::MAX >> 3 << 5)), 1u32..=128), 0..8),
            value in any::<u128>().prop_map(|v| v & !(u128::MAX >> 3 << 5)),
        ) {
            let mut trie = Trie::default();
            for &(v, l) in kept.iter().chain(&gone) {
                trie.insert(v, l);
            }
            for &(v, l) in &gone {
                trie.remove(v, l);
            }
            let mut plain = Trie::default();
            for &(v, l) in &kept {
                plain.insert(v, l);
            }
            prop_assert_eq!(trie.lookup(value, 128).1, plain.lookup(value, 128).1);
            for &(v, l) in &kept {
                trie.remove(v, l);
            }
            prop_assert_eq!(trie.lookup(value, 128), (0, Lengths::default()));
        }
    }
}
