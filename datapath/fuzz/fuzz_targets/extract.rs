//! Any bytes as a packet: extraction, then everything that can be done to the headers it found. Nothing may panic, and what
//! extraction says must be true of itself: offsets inside the frame, both ways of extracting alike, a frame composed from the
//! key has the key.
//!
//! The first bytes choose packet type, flags and operations, the rest is the frame.

#![no_main]

use datapath::flow::{ExtractConfig, Flow, Miniflow, Nsh, Payload, compose, extract, extract_simple};
use datapath::offload::{Capabilities, Offloads, Plan, Prepared, prepare_for};
use datapath::packet::{CtMetadata, Ipv4Field, Ipv6Field, NO_OFFSET, Packet};
use datapath::types::MacAddr;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, flags, ops @ ..], frame)) = data.split_first_chunk::<8>() else {
        return;
    };
    let mut packet = Packet::from_frame(frame);
    packet.packet_type = match kind & 7 {
        0 => 0x1_0800,
        1 => 0x1_86dd,
        2 => 0x1_894f,
        3 => 0x1_8847,
        _ => 0,
    };
    packet.offloads = Offloads::from_bits_truncate(u32::from(flags) * 0x0101);
    packet.tso_segsz = u16::from(ops[0] & 0x80);
    if kind & 8 != 0 {
        let ct = CtMetadata { orig_proto: ops[1], orig_ipv6: ops[2] & 1 == 0, ..CtMetadata::default() };
        packet.md.set_ct(ops[3] | 1, ct);
    }
    let config = ExtractConfig { vlan_limit: kind >> 4 };
    check(&mut packet, config);
    for (&op, &arg) in ops.iter().zip(frame) {
        change(&mut packet, op, arg);
        check(&mut packet, config);
    }
});

fn check(packet: &mut Packet, config: ExtractConfig) {
    let mut simple = packet.clone();
    let mut mini = Miniflow::default();
    extract(packet, &mut mini, config);
    let mut flow = Flow::default();
    mini.expand(&mut flow);
    for offset in [packet.l2_5_ofs, packet.l3_ofs, packet.l4_ofs] {
        assert!(offset == NO_OFFSET || usize::from(offset) <= packet.len());
    }
    assert!(usize::from(packet.l2_pad_size) <= packet.len());
    if let Some(key) = extract_simple(&mut simple, config) {
        assert_eq!((key.dl_type, key.nw_frag), (flow.dl_type.get(), flow.nw_frag));
        assert_eq!((simple.l3_ofs, simple.l4_ofs), (packet.l3_ofs, packet.l4_ofs));
    }
    let composed = compose(&flow, Payload::EMPTY, false);
    let _ = Flow::of_packet(&mut composed.clone());
}

fn change(packet: &mut Packet, op: u8, arg: u8) {
    let word = u32::from_be_bytes([arg, op, arg, op]);
    let _done = match op & 31 {
        0 => packet.push_vlan(0x8100, word as u16).is_ok(),
        1 => {
            packet.pop_vlan();
            true
        }
        2 => packet.push_mpls(0x8847, word).is_ok(),
        3 => {
            packet.pop_mpls(if arg & 1 == 0 { 0x0800 } else { 0x86dd });
            true
        }
        4 => packet.push_eth(MacAddr::ZERO, MacAddr::BROADCAST).is_ok(),
        5 => packet.pop_eth().is_ok(),
        6 => packet.push_nsh(&Nsh { mdtype: arg & 3, ..Nsh::default() }, &[0; 8]).is_ok(),
        7 => packet.pop_nsh().is_ok(),
        8 => packet.set_ipv4(Ipv4Field::Src(word.to_be_bytes())),
        9 => packet.set_ipv4(Ipv4Field::Tos(arg)),
        10 => packet.set_ipv6(Ipv6Field::Dst([arg; 16])),
        11 => packet.set_ipv6(Ipv6Field::Label(word)),
        12 => packet.set_tcp_ports(word as u16, 1),
        13 => packet.set_udp_ports(word as u16, 1),
        14 => packet.set_sctp_ports(word as u16, 1),
        15 => packet.set_icmp(arg, op),
        16 => {
            packet.set_len(usize::from(arg));
            true
        }
        17 => {
            packet.set_ecn_ce();
            true
        }
        18 => {
            packet.set_cutlen(u32::from(arg));
            packet.check_len() <= packet.len()
        }
        19 => segments(packet, word),
        _ => prepare_for(packet, Capabilities::from_bits_truncate(word)) != Prepared::ToSegment,
    };
}

/// Cuts the packet as it stands, if it can be cut.
fn segments(packet: &mut Packet, word: u32) -> bool {
    packet.tso_segsz = word as u16;
    packet.offloads |= Offloads::from_bits_truncate(word);
    let Some(plan) = Plan::of(packet) else { return false };
    let mut whole = packet.len();
    for index in 1..plan.segments().min(64) {
        let mut segment = Packet::empty(0);
        plan.write(packet, index, &mut segment);
        whole += segment.len();
    }
    plan.cut_first(packet);
    whole > packet.len()
}
