//! Running a `set` action: the masked values of a field group are written into a packet.
//!
//! Counterpart: `odp_execute_set_action()` and its masked twin in OVS `lib/odp-execute.c`; here, one function serves both,
//! since an unmasked set has a mask of all ones.

use super::{SetField, SetGroup};
use crate::flow::{Flow, Nsh};
use crate::packet::{Ipv4Field, Ipv6Field, Packet};
use crate::types::MacAddr;

impl SetField {
    /// Writes the fields into `packet`, whose layer offsets must be right. Returns false if the packet has no such header,
    /// or the group is none that can be set: then nothing is written, and the actions go on, as in OVS.
    #[must_use = "false means that nothing was written"]
    pub fn apply(&self, packet: &mut Packet) -> bool {
        let (key, mask) = (&self.key, &self.mask);
        let md = &mut packet.md;
        match self.group {
            SetGroup::Priority => {
                md.skb_priority = bits(md.skb_priority, key.skb_priority, mask.skb_priority);
            }
            SetGroup::Mark => md.pkt_mark = bits(md.pkt_mark, key.pkt_mark, mask.pkt_mark),
            SetGroup::DpHash => md.dp_hash = bits(md.dp_hash, key.dp_hash, mask.dp_hash),
            SetGroup::RecircId => md.recirc_id = bits(md.recirc_id, key.recirc_id, mask.recirc_id),
            SetGroup::Tunnel => md.set_tunnel(Some(&key.tunnel)),
            SetGroup::Ethernet => return ethernet(packet, key, mask),
            SetGroup::Ipv4 => return ipv4(packet, key, mask),
            SetGroup::Ipv6 => return ipv6(packet, key, mask),
            SetGroup::Tcp => return ports(packet, key, mask, Packet::set_tcp_ports),
            SetGroup::Udp => return ports(packet, key, mask, Packet::set_udp_ports),
            SetGroup::Sctp => return ports(packet, key, mask, Packet::set_sctp_ports),
            SetGroup::Icmp | SetGroup::Icmpv6 => return icmp(packet, key, mask),
            SetGroup::Arp => return arp(packet, key, mask),
            SetGroup::Nd => return nd(packet, key, mask),
            SetGroup::NdExt => return nd_ext(packet, key, mask),
            SetGroup::Mpls => packet.set_mpls(key.mpls_lse[0].get(), mask.mpls_lse[0].get()),
            SetGroup::Nsh => return nsh(packet, &key.nsh, &mask.nsh),
            SetGroup::InPort
            | SetGroup::PacketType
            | SetGroup::EthType
            | SetGroup::Vlan
            | SetGroup::TcpFlags
            | SetGroup::CtState
            | SetGroup::CtZone
            | SetGroup::CtMark
            | SetGroup::CtLabel
            | SetGroup::CtTuple4
            | SetGroup::CtTuple6 => return false,
        }
        true
    }
}

/// `old` with the bits of `mask` taken from `new`.
fn bits(old: u32, new: u32, mask: u32) -> u32 {
    old & !mask | new & mask
}

/// The same for 16 and 8 bits, and for byte strings.
fn bits16(old: u16, new: u16, mask: u16) -> u16 {
    old & !mask | new & mask
}

fn bits8(old: u8, new: u8, mask: u8) -> u8 {
    old & !mask | new & mask
}

fn bytes<const N: usize>(old: [u8; N], new: [u8; N], mask: [u8; N]) -> [u8; N] {
    std::array::from_fn(|i| bits8(old[i], new[i], mask[i]))
}

fn ethernet(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some(&[d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..]) = packet.eth() else {
        return false;
    };
    let dst = bytes([d0, d1, d2, d3, d4, d5], key.dl_dst.0, mask.dl_dst.0);
    let src = bytes([s0, s1, s2, s3, s4, s5], key.dl_src.0, mask.dl_src.0);
    packet.set_eth(MacAddr(dst), MacAddr(src))
}

fn ipv4(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some(&header) = packet.l3().and_then(<[u8]>::first_chunk::<20>) else {
        return false;
    };
    let [_, tos, _, _, _, _, _, _, ttl, _, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = header;
    let src = bytes([s0, s1, s2, s3], key.nw_src.to_bytes(), mask.nw_src.to_bytes());
    let dst = bytes([d0, d1, d2, d3], key.nw_dst.to_bytes(), mask.nw_dst.to_bytes());
    packet.set_ipv4(Ipv4Field::Src(src))
        && packet.set_ipv4(Ipv4Field::Dst(dst))
        && packet.set_ipv4(Ipv4Field::Tos(bits8(tos, key.nw_tos, mask.nw_tos)))
        && packet.set_ipv4(Ipv4Field::Ttl(bits8(ttl, key.nw_ttl, mask.nw_ttl)))
}

fn ipv6(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some((&first, addresses)) = packet.l3().and_then(<[u8]>::split_first_chunk::<8>) else {
        return false;
    };
    let Some((&s, rest)) = addresses.split_first_chunk::<16>() else {
        return false;
    };
    let Some(&d) = rest.first_chunk::<16>() else {
        return false;
    };
    let [b0, b1, b2, b3, _, _, _, limit] = first;
    let word = u32::from_be_bytes([b0, b1, b2, b3]);
    let class = bits8((word >> 20) as u8, key.nw_tos, mask.nw_tos);
    let label = bits(word, key.ipv6_label.get(), mask.ipv6_label.get());
    packet.set_ipv6(Ipv6Field::Src(bytes(s, key.ipv6_src, mask.ipv6_src)))
        && packet.set_ipv6(Ipv6Field::Dst(bytes(d, key.ipv6_dst, mask.ipv6_dst)))
        && packet.set_ipv6(Ipv6Field::TrafficClass(class))
        && packet.set_ipv6(Ipv6Field::Label(label))
        && packet.set_ipv6(Ipv6Field::HopLimit(bits8(limit, key.nw_ttl, mask.nw_ttl)))
}

fn ports(packet: &mut Packet, key: &Flow, mask: &Flow, set: fn(&mut Packet, u16, u16) -> bool) -> bool {
    let Some(&[s0, s1, d0, d1]) = packet.l4().and_then(<[u8]>::first_chunk) else {
        return false;
    };
    let src = bits16(u16::from_be_bytes([s0, s1]), key.tp_src.get(), mask.tp_src.get());
    let dst = bits16(u16::from_be_bytes([d0, d1]), key.tp_dst.get(), mask.tp_dst.get());
    set(packet, src, dst)
}

fn icmp(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some(&[kind, code]) = packet.l4().and_then(<[u8]>::first_chunk) else {
        return false;
    };
    let kind = bits16(kind.into(), key.tp_src.get(), mask.tp_src.get());
    let code = bits16(code.into(), key.tp_dst.get(), mask.tp_dst.get());
    packet.set_icmp(kind as u8, code as u8)
}

fn arp(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    // The key has the low half of the opcode. An unmasked set writes the whole.
    let unmasked = mask.nw_proto == u8::MAX
        && [mask.nw_src.get(), mask.nw_dst.get()] == [u32::MAX; 2]
        && [mask.arp_sha, mask.arp_tha] == [MacAddr::BROADCAST; 2];
    packet.set_arp(|arp| {
        let [_, _, _, _, _, _, op_high, op_low, fields @ ..] = arp;
        *op_low = bits8(*op_low, key.nw_proto, mask.nw_proto);
        if unmasked {
            *op_high = 0;
        }
        let keys = [&key.arp_sha.0[..], &key.nw_src.to_bytes(), &key.arp_tha.0, &key.nw_dst.to_bytes()]
            .concat_array();
        let masks = [&mask.arp_sha.0[..], &mask.nw_src.to_bytes(), &mask.arp_tha.0, &mask.nw_dst.to_bytes()]
            .concat_array();
        *fields = bytes(*fields, keys, masks);
    })
}

/// Addresses of an ARP packet, in order, without allocating.
trait ConcatArray {
    fn concat_array(&self) -> [u8; 20];
}

impl ConcatArray for [&[u8]; 4] {
    fn concat_array(&self) -> [u8; 20] {
        let mut all = self.iter().flat_map(|part| part.iter().copied());
        std::array::from_fn(|_| all.next().unwrap_or(0))
    }
}

/// Writes target and link-layer address of a neighbour solicitation or advertisement: of the options, the first that is an
/// Ethernet address, source or target, as in OVS.
fn nd(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some(nd) = packet.nd() else { return false };
    let Some(&target) = nd.get(8..).and_then(<[u8]>::first_chunk::<16>) else {
        return false;
    };
    let mut lla = None;
    let mut at = 24;
    while let Some(&[kind, len, m0, m1, m2, m3, m4, m5]) = nd.get(at..).and_then(<[u8]>::first_chunk) {
        let (key, mask) = match kind {
            1 if len == 1 => (key.arp_sha, mask.arp_sha),
            2 if len == 1 => (key.arp_tha, mask.arp_tha),
            _ if len == 0 => break,
            _ => {
                at += usize::from(len) * 8;
                continue;
            }
        };
        lla = Some((at + 2, bytes([m0, m1, m2, m3, m4, m5], key.0, mask.0)));
        break;
    }
    packet.set_icmpv6_bytes(8, &bytes(target, key.nd_target, mask.nd_target));
    if let Some((at, mac)) = lla {
        packet.set_icmpv6_bytes(at, &mac);
    }
    true
}

/// Writes the reserved word and the kind of the first option. The checksum is updated (OVS computes it anew, which would make a bad
/// one good).
fn nd_ext(packet: &mut Packet, key: &Flow, mask: &Flow) -> bool {
    let Some(nd) = packet.nd() else { return false };
    let Some(&reserved) = nd.get(4..).and_then(<[u8]>::first_chunk::<4>) else {
        return false;
    };
    let option = nd.get(24..).and_then(<[u8]>::first_chunk::<2>).copied();
    packet
        .set_icmpv6_bytes(4, &bytes(reserved, key.igmp_group_ip4.to_bytes(), mask.igmp_group_ip4.to_bytes()));
    if let Some([kind, len]) = option {
        let kind = bits16(kind.into(), key.tcp_flags.get(), mask.tcp_flags.get());
        packet.set_icmpv6_bytes(24, &[kind as u8, len]);
    }
    true
}

fn nsh(packet: &mut Packet, key: &Nsh, mask: &Nsh) -> bool {
    let Some(l3) = packet.l3_mut() else { return false };
    let Some((header, context)) = l3.split_first_chunk_mut::<8>() else {
        return false;
    };
    let [b0, b1, mdtype, _, path @ ..] = header;
    let base = u16::from_be_bytes([*b0, *b1]);
    let flags = bits8((base >> 12 & 3) as u8, key.flags, mask.flags) & 3;
    let ttl = bits8((base >> 6 & 0x3f) as u8, key.ttl, mask.ttl) & 0x3f;
    [*b0, *b1] = (base & 0xc03f | u16::from(flags) << 12 | u16::from(ttl) << 6).to_be_bytes();
    *path = bytes(*path, key.path_hdr.to_bytes(), mask.path_hdr.to_bytes());
    if *mdtype & 0x0f == 1 {
        let words = context.as_chunks_mut::<4>().0.iter_mut();
        for (word, (key, mask)) in words.zip(key.context.iter().zip(&mask.context)) {
            *word = bytes(*word, key.to_bytes(), mask.to_bytes());
        }
    }
    true
}
