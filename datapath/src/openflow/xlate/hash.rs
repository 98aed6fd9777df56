//! Hashes that choose a group's bucket at translation, and the order in which ports flood.
//!
//! They are those of OVS, so that the same packets take the same way. Counterpart: OVS `lib/jhash.c` (Bob Jenkins's
//! lookup3, public domain), `lib/hash.h`, and `flow_hash_symmetric_l4()` of `lib/flow.c`.

use zerocopy::{IntoBytes, network_endian::U32};

use crate::flow::{Flow, hash as murmur};
use crate::openflow::headers::{VLAN_VID_MASK, ethertype, ip_proto, is_ip_any, or_be16};
use crate::types::OfPort;

pub(super) use crate::flow::hash::int;

/// Hashes two words that are one number (`hash_uint64`).
pub(super) const fn uint64(value: u64) -> u32 {
    murmur::finish(murmur::add64(0, value), 8)
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

/// A hash over L2 to L4 that is the same in both directions. Ports of UDP are not in it: they need not be symmetric.
pub(super) fn symmetric_l4(flow: &Flow, basis: u32) -> u32 {
    // As the structure that OVS hashes lies in memory: address, Ethernet type, VLANs, port, MAC addresses, protocol, one
    // byte of padding.
    let mut fields = [0u8; 30];
    let ethertype = flow.dl_type.get();
    match ethertype {
        ethertype::IPV4 => {
            let both = flow.nw_src.get() ^ flow.nw_dst.get();
            fields[..4].copy_from_slice(U32::new(both).as_bytes());
        }
        ethertype::IPV6 => {
            let both = flow.ipv6_src.iter().zip(&flow.ipv6_dst).map(|(a, b)| a ^ b);
            fields[..16].iter_mut().zip(both).for_each(|(field, byte)| *field = byte);
        }
        _ => {}
    }
    let vlans = flow.vlans.iter().fold(0, |all, vlan| all ^ vlan.tci.get() & VLAN_VID_MASK);
    fields[16..18].copy_from_slice(&ethertype.to_be_bytes());
    fields[18..20].copy_from_slice(&vlans.to_be_bytes());
    if matches!(ethertype, ethertype::IPV4 | ethertype::IPV6) {
        fields[28] = flow.nw_proto;
        if matches!(flow.nw_proto, ip_proto::TCP | ip_proto::SCTP) {
            let both = flow.tp_src.get() ^ flow.tp_dst.get();
            fields[20..22].copy_from_slice(&both.to_be_bytes());
        }
    }
    let macs = flow.dl_src.0.iter().zip(&flow.dl_dst.0).map(|(a, b)| a ^ b);
    fields[22..28].iter_mut().zip(macs).for_each(|(field, byte)| *field = byte);
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
    match flow.dl_type.get() {
        ethertype::IPV4 => {
            wc.nw_src.set(u32::MAX);
            wc.nw_dst.set(u32::MAX);
        }
        ethertype::IPV6 => {
            wc.ipv6_src = [0xff; 16];
            wc.ipv6_dst = [0xff; 16];
        }
        _ => {}
    }
    if is_ip_any(flow) {
        wc.nw_proto = u8::MAX;
        if flow.nw_proto != ip_proto::UDP {
            let bits = if flow.nw_proto == ip_proto::ICMP { 0xff } else { u16::MAX };
            wc.tp_src.set(bits);
            wc.tp_dst.set(bits);
        }
    }
    for vlan in &mut wc.vlans {
        or_be16(&mut vlan.tci, VLAN_VID_MASK | crate::flow::VLAN_CFI);
    }
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
