//! The hashes of flow keys, bit for bit those of OVS built without SSE 4.2 (its portable build): group buckets, `dp_hash`
//! and cache slots then come out the same, here and there, on every machine.
//!
//! Counterpart: `mhash_*` of OVS `lib/hash.h`, `dp_packet_update_rss_hash_*` of `lib/dp-packet.h`, `flow_hash_5tuple` of
//! `lib/flow.c`. The mixing is MurmurHash3's (x86, 32 bits), by Austin Appleby, public domain.

use super::key::Flow;
use super::proto::{ETH_ARP, ETH_IPV4, ETH_IPV6, IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP};

/// Adds a word to a hash (`hash_add`).
#[inline(always)]
pub const fn add(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// Adds two words to a hash, the low half first (`hash_add64`).
#[inline(always)]
pub const fn add64(hash: u32, words: u64) -> u32 {
    add(add(hash, words as u32), (words >> 32) as u32)
}

/// Spreads what was added over all bits; `last` is the number of bytes added, or a constant (`hash_finish`).
#[inline(always)]
pub const fn finish(hash: u32, last: u32) -> u32 {
    let hash = hash ^ last;
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// Hashes words (`hash_words`).
pub fn words(words: &[u32], basis: u32) -> u32 {
    finish(words.iter().fold(basis, |hash, &word| add(hash, word)), (words.len() * 4) as u32)
}

/// Hashes one word (`hash_int`).
pub const fn int(word: u32, basis: u32) -> u32 {
    finish(add(add(word, 0), basis), 8)
}

/// The 5-tuple hash of a TCP or UDP packet over IPv4, as extraction computes it for a packet without one. `addresses` are
/// the eight bytes of both addresses, `ports` the four of both ports.
#[inline(always)]
pub(super) fn rss_ipv4(addresses: [u8; 8], proto: u8, ports: [u8; 4]) -> u32 {
    let hash = add64(0, u64::from_le_bytes(addresses));
    let hash = add(hash, u32::from(proto));
    finish(add(hash, u32::from_le_bytes(ports)), 42)
}

/// The same over IPv6; `next_header` is the fixed header's, which is not the transport protocol behind extensions.
pub(super) fn rss_ipv6(addresses: &[u8; 32], next_header: u8, ports: [u8; 4]) -> u32 {
    let hash =
        addresses.as_chunks::<8>().0.iter().fold(0, |hash, &part| add64(hash, u64::from_le_bytes(part)));
    let hash = add(hash, u32::from(next_header));
    finish(add(hash, u32::from_le_bytes(ports)), 42)
}

/// Hash of the L4 5-tuple of a key, without ports where the protocol has none (`flow_hash_5tuple`).
pub fn five_tuple(flow: &Flow, basis: u32) -> u32 {
    let le = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
    let addresses = match flow.dl_type.get() {
        ETH_IPV6 => {
            let both = flow.ipv6_src.as_chunks::<4>().0.iter().chain(flow.ipv6_dst.as_chunks::<4>().0);
            both.fold(basis, |hash, &part| add(hash, le(part)))
        }
        ETH_IPV4 | ETH_ARP => add(add(basis, le(flow.nw_src.to_bytes())), le(flow.nw_dst.to_bytes())),
        _ => return finish(basis, 42),
    };
    let hash = add(addresses, u32::from(flow.nw_proto));
    let hash = match flow.nw_proto {
        IP_TCP | IP_UDP | IP_SCTP | IP_ICMP | IP_ICMPV6 => {
            let ([a, b], [c, d]) = (flow.tp_src.to_bytes(), flow.tp_dst.to_bytes());
            add(hash, le([a, b, c, d]))
        }
        _ => hash,
    };
    finish(hash, 42)
}

/// Hash of addresses and ports that is the same in both directions (`flow_hash_symmetric_l3l4`); of the Ethernet header if
/// the packet is neither IPv4 nor IPv6. Ports of UDP count only with `udp_ports`.
pub fn symmetric_l3l4(flow: &Flow, basis: u32, udp_ports: bool) -> u32 {
    let hash = match flow.dl_type.get() {
        ETH_IPV4 => add(
            basis,
            u32::from_le_bytes(flow.nw_src.to_bytes()) ^ u32::from_le_bytes(flow.nw_dst.to_bytes()),
        ),
        ETH_IPV6 => {
            let halves = flow.ipv6_src.as_chunks::<8>().0.iter().zip(flow.ipv6_dst.as_chunks::<8>().0);
            halves.fold(basis, |hash, (&src, &dst)| {
                add64(hash, u64::from_le_bytes(src) ^ u64::from_le_bytes(dst))
            })
        }
        _ => return symmetric_l2(flow, basis),
    };
    let hash = add(hash, u32::from(flow.nw_proto));
    let ports = match flow.nw_proto {
        IP_TCP | IP_SCTP => true,
        IP_UDP => udp_ports,
        _ => false,
    };
    let hash = if ports && flow.nw_frag == 0 {
        let le = |port: [u8; 2]| u32::from(u16::from_le_bytes(port));
        add(hash, le(flow.tp_src.to_bytes()) ^ le(flow.tp_dst.to_bytes()))
    } else {
        hash
    };
    finish(hash, basis)
}

/// Hash of Ethernet addresses, type and VLAN ids that is the same in both directions (`flow_hash_symmetric_l2`).
pub fn symmetric_l2(flow: &Flow, basis: u32) -> u32 {
    if flow.packet_type.get() != 0 {
        // There is no Ethernet header to hash.
        return 0;
    }
    let tci = flow.vlans.iter().fold(0, |tci, vlan| tci ^ (vlan.tci.get() & 0x0fff)).to_be_bytes();
    let dl_type = flow.dl_type.to_bytes();
    let mut mac = [0; 6];
    for (byte, (src, dst)) in mac.iter_mut().zip(flow.dl_src.0.iter().zip(flow.dl_dst.0)) {
        *byte = src ^ dst;
    }
    let [a, b, c, d, e, f] = mac;
    let words = [[dl_type[0], dl_type[1], tci[0], tci[1]], [a, b, c, d], [e, f, 0, 0]];
    finish(words.into_iter().fold(basis, |hash, word| add(hash, u32::from_le_bytes(word))), basis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rss_hash_equals_five_tuple() {
        // Both are the same function of the same fields, in OVS as here; the one from bytes, the other from a key.
        let mut flow = Flow { nw_proto: IP_UDP, ..Flow::default() };
        flow.dl_type.set(ETH_IPV4);
        flow.nw_src.set(0x0a00_0001);
        flow.nw_dst.set(0x0a00_0002);
        flow.tp_src.set(1000);
        flow.tp_dst.set(2000);
        let bytes = [10, 0, 0, 1, 10, 0, 0, 2];
        assert_eq!(five_tuple(&flow, 0), rss_ipv4(bytes, IP_UDP, [0x03, 0xe8, 0x07, 0xd0]));
    }

    #[test]
    fn words_is_murmur3() {
        // MurmurHash3_x86_32 of "test" with seed 0, a well-known value; its length argument is the same.
        assert_eq!(words(&[u32::from_le_bytes(*b"test")], 0), 0xba6b_d213);
        assert_eq!(words(&[], 0), 0);
        // Computed with OVS's own function.
        assert_eq!(int(5, 7), 0x3b7b_23aa);
    }
}
