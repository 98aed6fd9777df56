//! Hashes that choose a group's bucket, a link or a port at translation, and the order in which ports flood.
//!
//! They are those of OVS, so that the same packets take the same way. Counterpart: OVS `lib/jhash.c` (Bob Jenkins's
//! lookup3, public domain), `lib/hash.h`, and `flow_hash_fields()` of `lib/flow.c`.

use zerocopy::{IntoBytes, network_endian::U32};

use crate::flow::{Flow, NW_FRAG_ANY, hash as murmur};
use crate::openflow::action::HashFields;
use crate::openflow::headers::{VLAN_VID_MASK, ethertype, ip_proto, is_ip_any, or_be16, packet_type};
use crate::types::OfPort;

pub(super) use crate::flow::hash::int;

/// Hashes two words that are one number (`hash_uint64`).
pub(super) const fn uint64(value: u64) -> u32 {
    murmur::finish(murmur::add64(0, value), 8)
}

/// Adds a bit to a hash (`hash_boolean`).
pub(super) const fn boolean(bit: bool, basis: u32) -> u32 {
    (if bit { 0xc2b7_3583 } else { 0xe90f_1258 }) ^ basis.rotate_left(1)
}

/// Hashes bytes (`hash_bytes`).
pub(super) fn bytes(bytes: &[u8], basis: u32) -> u32 {
    let hash = bytes.chunks(4).fold(basis, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        murmur::add(hash, u32::from_le_bytes(word))
    });
    murmur::finish(hash, bytes.len() as u32)
}

/// Hashes bytes with lookup3 (`jhash_bytes`).
fn lookup3(bytes: &[u8], basis: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(basis);
    let [mut a, mut b, mut c] = [start; 3];
    let chunks = bytes.chunks_exact(12);
    let rest = chunks.remainder();
    let mut take = |chunk: &[u8]| {
        let mut block = [0; 12];
        block[..chunk.len()].copy_from_slice(chunk);
        let word = |i: usize| u32::from_le_bytes([block[i], block[i + 1], block[i + 2], block[i + 3]]);
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(4));
        c = c.wrapping_add(word(8));
        if chunk.len() == 12 {
            [a, b, c] = mix([a, b, c]);
        } else {
            [a, b, c] = last([a, b, c]);
        }
    };
    chunks.for_each(&mut take);
    if !rest.is_empty() {
        take(rest);
    }
    c
}

fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: &mut u32, z: u32, by: u32| {
        *x = x.wrapping_sub(*y) ^ y.rotate_left(by);
        *y = y.wrapping_add(z);
    };
    step(&mut a, &mut c, b, 4);
    step(&mut b, &mut a, c, 6);
    step(&mut c, &mut b, a, 8);
    step(&mut a, &mut c, b, 16);
    step(&mut b, &mut a, c, 19);
    step(&mut c, &mut b, a, 4);
    [a, b, c]
}

fn last([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    let step = |x: &mut u32, y: u32, by: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    [a, b, c]
}

/// Hashes the parts of a key that `fields` names (`flow_hash_fields`).
pub(super) fn fields(flow: &Flow, fields: HashFields, basis: u16) -> u32 {
    let basis = u32::from(basis);
    let by_ip = |v4: &U32, v6: &[u8; 16]| match flow.dl_type.get() {
        ethertype::IPV4 => lookup3(v4.as_bytes(), basis),
        ethertype::IPV6 => lookup3(v6, basis),
        _ => basis,
    };
    match fields {
        HashFields::EthSrc => lookup3(&flow.dl_src.0, basis),
        HashFields::SymmetricL4 => symmetric_l4(flow, basis),
        HashFields::SymmetricL3L4 => symmetric_l3l4(flow, basis, false),
        HashFields::SymmetricL3L4Udp => symmetric_l3l4(flow, basis, true),
        HashFields::NwSrc => by_ip(&flow.nw_src, &flow.ipv6_src),
        HashFields::NwDst => by_ip(&flow.nw_dst, &flow.ipv6_dst),
        HashFields::SymmetricL3 => {
            // As the structure that OVS hashes: address, Ethernet type, and two bytes to align it.
            let mut bytes = [0; 20];
            bytes[..16].copy_from_slice(&addresses(flow));
            bytes[16..18].copy_from_slice(flow.dl_type.as_bytes());
            lookup3(&bytes, basis)
        }
    }
}

/// Marks what [`fields`] looks at (`flow_mask_hash_fields`).
pub(super) fn mark_fields(flow: &Flow, wc: &mut Flow, fields: HashFields) {
    match fields {
        HashFields::EthSrc => wc.dl_src.0 = [0xff; 6],
        HashFields::SymmetricL4 => mark_symmetric_l4(flow, wc),
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp if !is_ip_any(flow) => {
            // OVS marks nothing here, although it hashes this; flows then lead others' packets astray.
            wc.dl_src.0 = [0xff; 6];
            wc.dl_dst.0 = [0xff; 6];
            mark_vlan_ids(wc);
        }
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => {
            mark_addresses(flow, wc, true, true);
            wc.nw_proto = u8::MAX;
            if has_hashed_ports(flow, fields == HashFields::SymmetricL3L4Udp) {
                wc.tp_src.set(u16::MAX);
                wc.tp_dst.set(u16::MAX);
            }
        }
        HashFields::NwSrc => mark_addresses(flow, wc, true, false),
        HashFields::NwDst => mark_addresses(flow, wc, false, true),
        HashFields::SymmetricL3 => mark_addresses(flow, wc, true, true),
    }
}

fn mark_addresses(flow: &Flow, wc: &mut Flow, src: bool, dst: bool) {
    match flow.dl_type.get() {
        ethertype::IPV4 => {
            let bits = |marked: bool, mask: u32| if marked { u32::MAX } else { mask };
            wc.nw_src.set(bits(src, wc.nw_src.get()));
            wc.nw_dst.set(bits(dst, wc.nw_dst.get()));
        }
        ethertype::IPV6 => {
            if src {
                wc.ipv6_src = [0xff; 16];
            }
            if dst {
                wc.ipv6_dst = [0xff; 16];
            }
        }
        _ => {}
    }
}

fn mark_vlan_ids(wc: &mut Flow) {
    for vlan in &mut wc.vlans {
        or_be16(&mut vlan.tci, VLAN_VID_MASK | crate::flow::VLAN_CFI);
    }
}

/// Whether [`symmetric_l3l4`] hashes ports of this packet.
fn has_hashed_ports(flow: &Flow, with_udp: bool) -> bool {
    let hashed = matches!(flow.nw_proto, ip_proto::TCP | ip_proto::SCTP);
    (hashed || with_udp && flow.nw_proto == ip_proto::UDP) && flow.nw_frag & NW_FRAG_ANY == 0
}

/// Both IP addresses in one, whichever way the packet goes; IPv4 in front. Zero without IP.
fn addresses(flow: &Flow) -> [u8; 16] {
    let mut out = [0; 16];
    match flow.dl_type.get() {
        ethertype::IPV4 => {
            out[..4].copy_from_slice(U32::new(flow.nw_src.get() ^ flow.nw_dst.get()).as_bytes());
        }
        ethertype::IPV6 => {
            let both = flow.ipv6_src.iter().zip(&flow.ipv6_dst).map(|(a, b)| a ^ b);
            out.iter_mut().zip(both).for_each(|(out, byte)| *out = byte);
        }
        _ => {}
    }
    out
}

/// The VLAN ids of all tags in one.
fn vlan_ids(flow: &Flow) -> u16 {
    flow.vlans.iter().fold(0, |all, vlan| all ^ vlan.tci.get() & VLAN_VID_MASK)
}

/// Both MAC addresses in one.
fn macs(flow: &Flow) -> [u8; 6] {
    let mut out = flow.dl_src.0;
    out.iter_mut().zip(&flow.dl_dst.0).for_each(|(out, byte)| *out ^= byte);
    out
}

/// A hash over L3 and ports that is the same in both directions; over L2 if there is no IP.
fn symmetric_l3l4(flow: &Flow, basis: u32, with_udp: bool) -> u32 {
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let both = addresses(flow);
    let parts = both.as_chunks::<4>().0;
    let hash = match flow.dl_type.get() {
        ethertype::IPV4 => murmur::add(basis, word(&parts[0])),
        ethertype::IPV6 => parts.iter().fold(basis, |hash, part| murmur::add(hash, word(part))),
        _ => return symmetric_l2(flow, basis),
    };
    let hash = murmur::add(hash, u32::from(flow.nw_proto));
    let hash = if has_hashed_ports(flow, with_udp) {
        let both = flow.tp_src.get() ^ flow.tp_dst.get();
        murmur::add(hash, u32::from(u16::from_le_bytes(both.to_be_bytes())))
    } else {
        hash
    };
    murmur::finish(hash, basis)
}

/// A hash over L2 that is the same in both directions.
fn symmetric_l2(flow: &Flow, basis: u32) -> u32 {
    if flow.packet_type.get() != packet_type::ETHERNET {
        return 0;
    }
    // As it lies in memory: Ethernet type, VLANs, MAC addresses, two bytes to align them.
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(flow.dl_type.as_bytes());
    bytes[2..4].copy_from_slice(&vlan_ids(flow).to_be_bytes());
    bytes[4..10].copy_from_slice(&macs(flow));
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    murmur::finish(words.fold(basis, murmur::add), basis)
}

/// A hash over L2 to L4 that is the same in both directions. Ports of UDP are not in it: they need not be symmetric.
pub(super) fn symmetric_l4(flow: &Flow, basis: u32) -> u32 {
    // As the structure that OVS hashes lies in memory: address, Ethernet type, VLANs, port, MAC addresses, protocol, one
    // byte of padding.
    let mut fields = [0u8; 30];
    let ethertype = flow.dl_type.get();
    fields[..16].copy_from_slice(&addresses(flow));
    fields[16..18].copy_from_slice(&ethertype.to_be_bytes());
    fields[18..20].copy_from_slice(&vlan_ids(flow).to_be_bytes());
    if matches!(ethertype, ethertype::IPV4 | ethertype::IPV6) {
        fields[28] = flow.nw_proto;
        if matches!(flow.nw_proto, ip_proto::TCP | ip_proto::SCTP) {
            let both = flow.tp_src.get() ^ flow.tp_dst.get();
            fields[20..22].copy_from_slice(&both.to_be_bytes());
        }
    }
    fields[22..28].copy_from_slice(&macs(flow));
    lookup3(&padded(&fields), basis)
}

/// The structure is as long as its alignment, four bytes, asks.
fn padded(fields: &[u8; 30]) -> [u8; 32] {
    let mut out = [0; 32];
    out[..30].copy_from_slice(fields);
    out
}

/// Marks what [`symmetric_l4`] looks at (`flow_mask_hash_fields`).
pub(super) fn mark_symmetric_l4(flow: &Flow, wc: &mut Flow) {
    wc.dl_src.0 = [0xff; 6];
    wc.dl_dst.0 = [0xff; 6];
    mark_addresses(flow, wc, true, true);
    if is_ip_any(flow) {
        wc.nw_proto = u8::MAX;
        if flow.nw_proto != ip_proto::UDP {
            let bits = if flow.nw_proto == ip_proto::ICMP { 0xff } else { u16::MAX };
            wc.tp_src.set(bits);
            wc.tp_dst.set(bits);
        }
    }
    mark_vlan_ids(wc);
}

/// Sorts ports as OVS's hash map of them does, by which it floods; ports in the same place by number.
pub(super) fn sort_by_place(ports: &mut [OfPort], n_ports: usize) {
    let mut mask = n_ports / 2;
    for shift in [1, 2, 4, 8] {
        mask |= mask >> shift;
    }
    mask |= (mask & 1) << 1;
    ports.sort_by_key(|port| (int(u32::from(port.0), 0) as usize & mask, *port));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Computed with OVS's own functions.
        assert_eq!(int(1, 0), 0xea95_647d);
        assert_eq!(int(5, 7), 0x3b7b_23aa);
        assert_eq!(uint64(0x1234_5678_9abc_def0), 0x4a50_8d59);
        assert_eq!(bytes(b"hello world", 3), 0x8d32_dd0b);
        let table: Vec<u8> = (0..32u8).map(|i| i.wrapping_mul(7)).collect();
        assert_eq!(lookup3(&table, 0), 0xe969_1afe);
        assert_eq!(lookup3(&table[..30], 5), 0xb4c1_a29d);
        // Given in the original lookup3.c, for hashlittle().
        assert_eq!(lookup3(b"", 0), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago", 0), 0x1777_0551);
    }

    /// As 4.0.90 floods in scenario "simple-output": br0, p2, p3 (from p1).
    #[test]
    fn flooding_order() {
        let mut ports = [OfPort(1), OfPort(2), OfPort(3), OfPort::LOCAL];
        sort_by_place(&mut ports, 4);
        let others: Vec<_> = ports.into_iter().filter(|port| *port != OfPort(1)).collect();
        assert_eq!(others, [OfPort::LOCAL, OfPort(2), OfPort(3)]);
    }
}
