//! Segments are whole frames of their own, and together they are what was cut. Read back with etherparse, which knows nothing
//! of how they were made.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::{Capabilities, Offloads, Plan, Prepared, prepare_for};
use crate::flow::Flow;
use crate::packet::Packet;

#[derive(Clone, Copy, Debug)]
struct Tcp {
    ipv6: bool,
    sequence: u32,
    id: u16,
    /// FIN, PSH, CWR, ECE.
    flags: [bool; 4],
    /// Bytes of options, in words.
    options: u8,
}

const PLAIN: Tcp = Tcp { ipv6: false, sequence: 7, id: 9, flags: [true; 4], options: 0 };

fn frame(tcp: Tcp, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let network = if tcp.ipv6 {
        ethernet.ipv6([1; 16], [2; 16], 64)
    } else {
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let [fin, psh, cwr, ece] = tcp.flags;
    let mut builder = network.tcp(1000, 80, tcp.sequence, 5000).ack(99);
    if fin {
        builder = builder.fin();
    }
    if psh {
        builder = builder.psh();
    }
    let nops = vec![1; usize::from(tcp.options) * 4];
    let builder = builder.options_raw(&nops).unwrap();
    let mut out = Vec::new();
    builder.write(&mut out, payload).unwrap();
    let l4 = if tcp.ipv6 { 54 } else { 34 };
    out[l4 + 13] |= u8::from(cwr) << 7 | u8::from(ece) << 6;
    if !tcp.ipv6 {
        out[18..20].copy_from_slice(&tcp.id.to_be_bytes());
    }
    out
}

fn marked(frame: &[u8], size: u16, offloads: Offloads) -> Packet {
    let mut packet = Packet::from_frame(frame);
    Flow::of_packet(&mut packet);
    packet.tso_segsz = size;
    packet.offloads |= offloads;
    packet
}

/// Cuts a packet as the pipeline does, and completes what each segment owes.
fn cut(mut whole: Packet) -> Vec<Packet> {
    assert_eq!(prepare_for(&mut whole, Capabilities::IP_CSUM), Prepared::ToSegment);
    let plan = Plan::of(&whole).expect("something to cut");
    let rest = (1..plan.segments()).map(|index| {
        let mut segment = Packet::empty(0);
        plan.write(&whole, index, &mut segment);
        segment
    });
    let rest: Vec<Packet> = rest.collect();
    plan.cut_first(&mut whole);
    let mut all = vec![whole];
    all.extend(rest);
    for segment in &mut all {
        assert_ne!(prepare_for(segment, Capabilities::empty()), Prepared::ToSegment);
    }
    all
}

struct Read {
    id: Option<u16>,
    sequence: u32,
    /// FIN, PSH, CWR, ECE.
    flags: [bool; 4],
    payload: Vec<u8>,
}

/// Reads a frame of TCP, and checks that all of its checksums and lengths are right.
fn read(frame: &[u8]) -> Read {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { panic!("no TCP") };
    let (id, sum) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum, "IPv4 header checksum");
            assert_eq!(usize::from(header.total_len), frame.len() - 14);
            (Some(header.identification), tcp.calc_checksum_ipv4(header.source, header.destination).unwrap())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length), frame.len() - 54);
            (None, tcp.calc_checksum_ipv6(header.source, header.destination).unwrap())
        }
        NetSlice::Arp(_) => panic!("ARP"),
    };
    assert_eq!(sum, tcp.checksum(), "TCP checksum");
    let flags = [tcp.fin(), tcp.psh(), tcp.cwr(), tcp.ece()];
    Read { id, sequence: tcp.sequence_number(), flags, payload: tcp.payload().to_vec() }
}

fn check(segments: &[Read], tcp: Tcp, size: usize, payload: &[u8]) {
    let count = segments.len();
    assert_eq!(count, payload.len().div_ceil(size));
    let [fin, psh, cwr, ece] = tcp.flags;
    for (i, segment) in segments.iter().enumerate() {
        let last = i + 1 == count;
        assert_eq!(segment.sequence, tcp.sequence.wrapping_add((i * size) as u32));
        assert_eq!(segment.id.is_none(), tcp.ipv6);
        assert!(segment.id.is_none_or(|id| id == tcp.id.wrapping_add(i as u16)));
        assert_eq!(segment.flags, [fin && last, psh && last, cwr && i == 0, ece]);
        assert_eq!(segment.payload.len(), if last { payload.len() - i * size } else { size });
    }
    assert_eq!(segments.iter().flat_map(|segment| segment.payload.clone()).collect::<Vec<_>>(), payload);
}

proptest! {
    #[test]
    fn segments_are_valid_and_whole(
        ipv6: bool, sequence: u32, id: u16, flags: [bool; 4], options in 0u8..=10,
        size in 1u16..1500, extra in 1usize..3000, partial: bool,
    ) {
        let tcp = Tcp { ipv6, sequence, id, flags, options };
        let payload: Vec<u8> = (0..usize::from(size) + extra).map(|i| (i * 7 / 3) as u8).collect();
        let mut frame = frame(tcp, &payload);
        let owed = if partial { Offloads::L4_PARTIAL | Offloads::IP_PARTIAL } else { Offloads::empty() };
        if partial {
            let l4 = if ipv6 { 54 } else { 34 };
            frame[l4 + 16..l4 + 18].copy_from_slice(&[0xde, 0xad]);
        }
        let segments = cut(marked(&frame, size, owed));
        let segments: Vec<Read> = segments.iter().map(|segment| read(segment.data())).collect();
        check(&segments, tcp, usize::from(size), &payload);
    }

    #[test]
    fn nothing_panics_and_what_cannot_be_cut_is_not(
        bytes in prop::collection::vec(any::<u8>(), 0..200), size: u16, flags: u32,
        offsets: [u16; 4],
    ) {
        let mut packet = Packet::from_frame(&bytes);
        packet.tso_segsz = size;
        packet.offloads = Offloads::from_bits_truncate(flags);
        [packet.l3_ofs, packet.l4_ofs, packet.inner_l3_ofs, packet.inner_l4_ofs] = offsets.map(|at| at % 256);
        if let Some(plan) = Plan::of(&packet) {
            prop_assert!(plan.segments() > 1);
            let mut segment = Packet::empty(0);
            for index in 1..plan.segments() {
                plan.write(&packet, index, &mut segment);
                prop_assert_eq!(segment.tso_segsz, 0);
            }
            plan.cut_first(&mut packet);
            prop_assert!(Plan::of(&packet).is_none());
        }
    }
}

#[test]
fn a_checksum_known_to_be_bad_stays_bad() {
    let payload = [1; 1000];
    let mut bytes = frame(PLAIN, &payload);
    bytes[24] ^= 0xff;
    let known = Offloads::L4_BAD | Offloads::IP_BAD;
    for segment in cut(marked(&bytes, 400, known)) {
        assert!(segment.offloads.contains(known) && !segment.offloads.contains(Offloads::L4_PARTIAL));
        let sliced = SlicedPacket::from_ethernet(segment.data()).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) = (&sliced.net, &sliced.transport)
        else {
            panic!("no TCP over IPv4")
        };
        let header = ip.header().to_header();
        assert_ne!(header.calc_header_checksum(), header.header_checksum);
        assert_ne!(tcp.calc_checksum_ipv4(header.source, header.destination).unwrap(), tcp.checksum());
    }
}

#[test]
fn what_fits_is_not_cut() {
    let whole = |size| marked(&frame(PLAIN, &[0; 100]), size, Offloads::empty());
    assert_eq!(Plan::of(&whole(100)), None);
    assert_eq!(Plan::of(&whole(99)).map(|plan| plan.segments()), Some(2));
    assert_eq!(Plan::of(&whole(0)), None);
    let mut fragment = frame(PLAIN, &[0; 100]);
    fragment[20] |= 0x20;
    assert_eq!(Plan::of(&marked(&fragment, 10, Offloads::L4_TCP)), None, "a fragment");
}

/// Outer Ethernet, IPv4 and `l4` headers in front of a frame, with offsets and flags as encapsulation leaves them.
fn within(l4: &[u8], proto: u8, inner: Tcp, payload: &[u8], size: u16, flags: Offloads) -> Packet {
    let inner_frame = frame(inner, payload);
    let mut outer = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4, 8, 0];
    let len = (20 + l4.len() + inner_frame.len()) as u16;
    outer.extend([
        0x45,
        0,
        (len >> 8) as u8,
        len as u8,
        0,
        5,
        0,
        0,
        64,
        proto,
        0,
        0,
        192,
        0,
        2,
        1,
        192,
        0,
        2,
        2,
    ]);
    outer.extend(l4);
    let inner_at = outer.len() as u16;
    outer.extend(&inner_frame);
    let mut packet = Packet::from_frame(&outer);
    (packet.l3_ofs, packet.l4_ofs) = (14, 34);
    packet.inner_l3_ofs = inner_at + 14;
    packet.inner_l4_ofs = inner_at + if inner.ipv6 { 54 } else { 34 };
    packet.tso_segsz = size;
    packet.offloads = flags | Offloads::IP_PARTIAL | Offloads::INNER_L4_PARTIAL | Offloads::INNER_L4_TCP;
    packet
}

#[test]
fn tunnels_are_made_anew_around_each_segment() {
    let payload: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
    for ipv6 in [false, true] {
        let inner = Tcp { ipv6, id: 0xffff, sequence: u32::MAX - 5, ..PLAIN };
        let vxlan = [[0xc0, 0, 0x12, 0xb5, 0, 0, 0xff, 0xff], [8, 0, 0, 0, 0, 0, 42, 0]].concat();
        let flags = Offloads::TUNNEL_VXLAN | Offloads::L4_UDP | Offloads::L4_PARTIAL;
        let segments = cut(within(&vxlan, 17, inner, &payload, 1000, flags));
        let mut inside = Vec::new();
        for (i, segment) in segments.iter().enumerate() {
            let sliced = SlicedPacket::from_ethernet(segment.data()).unwrap();
            let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (&sliced.net, &sliced.transport)
            else {
                panic!("no UDP over IPv4")
            };
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum);
            assert_eq!(usize::from(header.total_len), segment.len() - 14);
            assert_eq!(header.identification, 5 + i as u16);
            assert_eq!(usize::from(udp.length()), segment.len() - 34);
            let sum =
                udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, udp.payload());
            assert_eq!(sum.unwrap(), udp.checksum(), "outer UDP checksum");
            inside.push(read(&udp.payload()[8..]));
        }
        check(&inside, inner, 1000, &payload);

        let gre = [0x80, 0, 0x65, 0x58, 0xff, 0xff, 0, 0];
        let segments = cut(within(&gre, 47, inner, &payload, 1000, Offloads::TUNNEL_GRE));
        let mut inside = Vec::new();
        for segment in &segments {
            let gre = &segment.data()[34..];
            assert_eq!(super::checksum::internet(gre), [0, 0], "a sum over all that has its checksum in it");
            inside.push(read(&gre[8..]));
        }
        check(&inside, inner, 1000, &payload);
    }
}
