use proptest::prelude::*;

use super::*;
use crate::flow::{Flow, Nsh};
use crate::offload::{Capabilities, Prepared, prepare_for};
use crate::types::{MacAddr, PortNo};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// A packet as it is after extraction.
fn extracted(frame: &[u8]) -> Packet {
    let mut packet = Packet::from_frame(frame);
    let _ = Flow::of_packet(&mut packet);
    packet
}

/// 192.0.2.1 to 192.0.2.2, TCP 20 to 80, "abcd"; its sum is right (46b0).
const TCP: &str = "505400000002 505400000001 0800 4500002c000100004006f6c7c0000201c0000202
    0014 0050 00000000 00000000 5002 2000 46b0 0000 61626364";

/// Slow and obvious: are the checksums right, of the IPv4 header, and of TCP, UDP, SCTP, ICMPv6 or ICMP behind it?
fn sums_right(frame: &[u8]) -> (bool, bool) {
    fn sum(parts: &[&[u8]]) -> u16 {
        let bytes: Vec<u8> = parts.concat();
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
    let ip = &frame[14..];
    let (ip_right, proto, addresses, l4) = if ip[0] >> 4 == 4 {
        let header = usize::from(ip[0] & 15) * 4;
        let total = usize::from(ip[2]) << 8 | usize::from(ip[3]);
        (sum(&[&ip[..header]]) == 0xffff, ip[9], &ip[12..20], &ip[header..total])
    } else {
        (true, ip[6], &ip[8..40], &ip[40..])
    };
    let pseudo = [0, proto, (l4.len() >> 8) as u8, l4.len() as u8];
    let l4_right = match proto {
        6 | 58 => sum(&[addresses, &pseudo, l4]) == 0xffff,
        17 => l4[6..8] == [0, 0] || sum(&[addresses, &pseudo, l4]) == 0xffff,
        1 => sum(&[l4]) == 0xffff,
        132 => {
            let mut zeroed = l4.to_vec();
            zeroed[8..12].fill(0);
            crc32c::crc32c(&zeroed).to_le_bytes() == l4[8..12]
        }
        other => panic!("protocol {other}"),
    };
    (ip_right, l4_right)
}

/// An Ethernet frame with the protocol over IPv4 or IPv6 and right checksums.
fn frame(proto: u8, ipv6: bool, payload: &[u8]) -> Vec<u8> {
    let header = match proto {
        6 => 20,
        132 => 12,
        _ => 8,
    };
    let mut l4 = vec![0; header];
    l4[..4].copy_from_slice(&[0x12, 0x34, 0x00, 0x50]);
    if proto == 6 {
        l4[12] = 0x50;
    }
    if proto == 17 {
        l4[4..8].copy_from_slice(&[0, (8 + payload.len()) as u8, 1, 1]);
    }
    l4.extend(payload);
    let mut frame = hex("505400000002 505400000001");
    if ipv6 {
        frame.extend(hex("86dd 60012345 0000"));
        frame.extend([proto, 64]);
        frame.extend([0x20; 16]);
        frame.extend([0x30; 16]);
        frame[19] = l4.len() as u8;
    } else {
        frame.extend(hex("0800 45000000 00010000 4000 0000 c0000201 c0000202"));
        frame[17] = 20 + l4.len() as u8;
        frame[23] = proto;
    }
    frame.extend(l4);
    let mut packet = extracted(&frame);
    packet.offloads |= Offloads::L4_PARTIAL;
    if !ipv6 {
        packet.offloads |= Offloads::IP_PARTIAL;
    }
    let _ = prepare_for(&mut packet, Capabilities::empty());
    let mut frame = packet.data().to_vec();
    if matches!(proto, 1 | 58) {
        // Not a device's business: find the two bytes by trying.
        let at = if ipv6 { 56 } else { 36 };
        let found = (0..=u16::MAX).find(|&guess| {
            frame[at..at + 2].copy_from_slice(&guess.to_be_bytes());
            sums_right(&frame).1
        });
        assert!(found.is_some());
    }
    assert_eq!(sums_right(&frame), (true, true), "{proto} {ipv6}");
    frame
}

const STATES: [Offloads; 4] = [Offloads::empty(), Offloads::L4_GOOD, Offloads::L4_BAD, Offloads::L4_PARTIAL];

#[test]
fn rewriting_keeps_checksums_in_every_state() {
    for (proto, ipv6) in [6, 17, 132, 1, 58].into_iter().flat_map(|proto| [(proto, false), (proto, true)]) {
        if (proto, ipv6) == (58, false) || (proto, ipv6) == (1, true) {
            continue;
        }
        let right = frame(proto, ipv6, b"payload");
        let at = match proto {
            6 => 16,
            17 => 6,
            132 => 8,
            _ => 2,
        } + if ipv6 { 54 } else { 34 };
        for (state, wrong) in STATES.into_iter().flat_map(|state| [(state, false), (state, true)]) {
            let mut start = right.clone();
            if wrong {
                start[at] ^= 0x40;
            }
            let mut packet = extracted(&start);
            packet.offloads |= state;
            if !ipv6 && state == Offloads::L4_GOOD {
                packet.offloads |= Offloads::IP_GOOD;
            }
            if ipv6 {
                assert!(packet.set_ipv6(Ipv6Field::Src([0x55; 16])));
                assert!(packet.set_ipv6(Ipv6Field::Dst([0xff; 16])));
                assert!(packet.set_ipv6(Ipv6Field::TrafficClass(0xb9)));
                assert!(packet.set_ipv6(Ipv6Field::HopLimit(63)));
                assert!(packet.set_ipv6(Ipv6Field::Label(0x6_789a)));
                assert_eq!(packet.data()[14..18], hex("6b96789a"));
            } else {
                assert!(packet.set_ipv4(Ipv4Field::Src([198, 51, 100, 7])));
                assert!(packet.set_ipv4(Ipv4Field::Dst([255, 255, 255, 255])));
                assert!(packet.set_ipv4(Ipv4Field::Tos(0xff)));
                assert!(packet.set_ipv4(Ipv4Field::Ttl(1)));
            }
            assert!(match proto {
                6 => packet.set_tcp_ports(1, 65535),
                17 => packet.set_udp_ports(1, 65535),
                132 => packet.set_sctp_ports(1, 65535),
                _ => packet.set_icmp(3, 4),
            });
            let prepared = prepare_for(&mut packet, Capabilities::empty());
            let transport = matches!(proto, 6 | 17 | 132);
            if state == Offloads::L4_PARTIAL && !transport {
                assert_eq!(prepared, Prepared::NothingToComplete);
            }
            let repaired = transport && (state == Offloads::L4_GOOD || state == Offloads::L4_PARTIAL);
            assert_eq!(
                sums_right(packet.data()),
                (true, !wrong || repaired),
                "{proto} ipv6 {ipv6} {state:?} wrong {wrong}"
            );
            if state == Offloads::L4_BAD {
                assert!(packet.offloads.contains(Offloads::L4_BAD), "bad stays bad");
            }
        }
    }
}

#[test]
fn rewrites_of_ovs() {
    // The case a-csum-status-and-rewrite-matrix: `mod_nw_dst:198.51.100.7`, as Open vSwitch 4.0.90 sends it.
    let wrong = hex(&TCP.replace("46b0", "1111"));
    let sent =
        |sum: &str| hex(&TCP.replace("f6c7c0000201c0000202", "8e8fc0000201c6336407").replace("46b0", sum));
    let rewrite = |frame: &[u8], state: Offloads| {
        let mut packet = extracted(frame);
        packet.offloads |= state;
        assert!(packet.set_ipv4(Ipv4Field::Dst([198, 51, 100, 7])));
        let _ = prepare_for(&mut packet, Capabilities::empty());
        packet.data().to_vec()
    };
    for state in [Offloads::empty(), Offloads::L4_BAD] {
        assert_eq!(rewrite(&wrong, state), sent("a8d8"));
        assert_eq!(rewrite(&hex(TCP), state), sent("de77"));
    }
    for state in [Offloads::L4_GOOD, Offloads::L4_PARTIAL] {
        assert_eq!(rewrite(&wrong, state), sent("de77"));
        assert_eq!(rewrite(&hex(TCP), state), sent("de77"));
    }
}

#[test]
fn ipv4_options_count_in_the_header_checksum() {
    // The case a-ipv4-csum-with-options.
    let frame = hex(
        "505400000002 505400000001 0800 46000024 00010000 4011 0000 c0000201 c0000202 94040000 0035 0035 000c 0000 61626364",
    );
    let mut packet = extracted(&frame);
    packet.offloads |= Offloads::IP_GOOD;
    assert!(packet.set_ipv4(Ipv4Field::Dst([198, 51, 100, 7])));
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert!(sums_right(packet.data()).0);
    assert!(packet.offloads.contains(Offloads::IP_GOOD) && !packet.offloads.contains(Offloads::IP_BAD));
}

#[test]
fn fragments_lose_no_payload_and_no_checksum() {
    let mut first = hex(TCP);
    first[20] = 0x20;
    first[38..42].copy_from_slice(&[1, 2, 3, 4]);
    let mut later = first.clone();
    later[20..22].copy_from_slice(&[0x00, 0x10]);
    for frame in [&first, &later] {
        for state in STATES {
            let mut packet = extracted(frame);
            packet.offloads |= state;
            assert!(packet.set_ipv4(Ipv4Field::Dst([192, 0, 2, 3])));
            assert_eq!(packet.set_tcp_ports(1, 2), frame == &first);
            let prepared = prepare_for(&mut packet, Capabilities::empty());
            assert_eq!(prepared == Prepared::NothingToComplete, state == Offloads::L4_PARTIAL);
            if frame == &later {
                assert_eq!(packet.data()[34..], later[34..]);
            } else if state != Offloads::L4_PARTIAL {
                let old = [&frame[32..34], &frame[34..38]].concat();
                let expected = crate::offload::checksum::update([0x46, 0xb0], &old, &[2, 3, 0, 1, 0, 2]);
                assert_eq!(packet.data()[50..52], expected);
            }
        }
    }
}

#[test]
fn ipv6_routing_header_and_atomic_fragment() {
    // Type 0, one segment left: the pseudo-header has the last address, so the header's destination is free to change.
    let path = |ext: &str, frame: Vec<u8>| {
        let ext = hex(ext);
        let mut out = frame[..54].to_vec();
        out[19] += ext.len() as u8;
        out[20] = if ext[2] == 0 && ext.len() == 24 { 43 } else { 44 };
        out.extend(&ext);
        out.extend(&frame[54..]);
        out
    };
    let tcp = frame(6, true, b"payload");
    let last = "30303030303030303030303030303030";
    let routed = path(&format!("06020001 00000000 {last}"), tcp.clone());
    let mut packet = extracted(&routed);
    assert_eq!(packet.l4_ofs, 78);
    assert!(packet.set_ipv6(Ipv6Field::Src([7; 16])) && packet.set_ipv6(Ipv6Field::Dst([8; 16])));
    let updated = [packet.data()[78 + 16], packet.data()[78 + 17]];
    packet.offloads |= Offloads::L4_PARTIAL;
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert_eq!([packet.data()[78 + 16], packet.data()[78 + 17]], updated);

    let atomic = path("0600 0000 00000001", tcp);
    let mut packet = extracted(&atomic);
    assert!(packet.set_ipv6(Ipv6Field::Src([7; 16])) && packet.set_ipv6(Ipv6Field::Dst([8; 16])));
    let updated = [packet.data()[62 + 16], packet.data()[62 + 17]];
    packet.offloads |= Offloads::L4_PARTIAL;
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert_eq!([packet.data()[62 + 16], packet.data()[62 + 17]], updated);
}

#[test]
fn capable_ports_get_partial_packets() {
    let mut packet = extracted(&hex(&TCP.replace("46b0", "1111")));
    packet.offloads |= Offloads::L4_PARTIAL | Offloads::IP_PARTIAL;
    let port = Capabilities::TCP_CSUM | Capabilities::IP_CSUM;
    assert_eq!(prepare_for(&mut packet, port), Prepared::Ready);
    assert_eq!(packet.data(), hex(&TCP.replace("46b0", "1111")));
    assert!(packet.offloads.contains(Offloads::L4_PARTIAL));
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert_eq!(packet.data(), hex(TCP));
    packet.tso_segsz = 1448;
    assert_eq!(prepare_for(&mut packet, port), Prepared::ToSegment);
    assert_eq!(prepare_for(&mut packet, Capabilities::TSO | Capabilities::TCP_CSUM), Prepared::Ready);
}

#[test]
fn udp_zero_stays_and_computed_zero_is_ffff() {
    let mut none = frame(17, false, b"abcd");
    none[40..42].fill(0);
    let mut packet = extracted(&none);
    packet.offloads |= Offloads::L4_PARTIAL;
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert_eq!(packet.data()[40..42], [0, 0]);
    assert!(packet.set_udp_ports(9, 9));
    assert_eq!(packet.data()[40..42], [0, 0]);
    // A payload that makes the sum come out as 0.
    let mut frame = frame(17, false, &[0, 0]);
    let sum = [frame[40], frame[41]];
    frame[42..44].copy_from_slice(&sum);
    let mut packet = extracted(&frame);
    packet.offloads |= Offloads::L4_PARTIAL;
    let _ = prepare_for(&mut packet, Capabilities::empty());
    assert_eq!(packet.data()[40..42], [0xff, 0xff]);
}

#[test]
fn no_ip_checksum_flag_on_ipv6() {
    // The case a-ipv6-partial-has-no-ip-csum.
    let frame = frame(6, true, b"");
    let mut packet = Packet::from_frame(&frame);
    packet.offloads = Offloads::L4_PARTIAL | Offloads::IP_PARTIAL;
    let _ = Flow::of_packet(&mut packet);
    assert_eq!(packet.offloads, Offloads::L4_PARTIAL | Offloads::L4_TCP);
    assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::Completed);
    assert_eq!(packet.data(), frame);
}

#[test]
fn partial_on_what_has_no_checksum_leaves_as_it_is() {
    // The case a-send-crash-on-partial-nontransport.
    let icmp = frame(1, false, b"abcd");
    let arp =
        hex("505400000002 505400000001 0806 0001080006040001 020000000001c0000201 000000000000c0000202");
    for bytes in [&icmp, &arp, &arp[..13].to_vec()] {
        let mut packet = Packet::from_frame(bytes);
        packet.offloads = Offloads::L4_PARTIAL;
        let _ = Flow::of_packet(&mut packet);
        assert_eq!(prepare_for(&mut packet, Capabilities::empty()), Prepared::NothingToComplete);
        assert_eq!(packet.data(), *bytes);
    }
}

#[test]
fn debts_are_paid_before_they_are_hidden() {
    let wrong = hex(&TCP.replace("46b0", "1111"));
    let partial = || {
        let mut packet = extracted(&wrong);
        packet.offloads |= Offloads::L4_PARTIAL;
        packet
    };
    let mut nsh = partial();
    let header = Nsh { ttl: 63, mdtype: 1, ..Nsh::default() };
    nsh.push_nsh(&header, &[]).unwrap();
    assert_eq!(nsh.data()[24..], hex(TCP));
    // Looked at again with an MPLS label in front, nobody finds TCP any more.
    let mut mpls = partial();
    mpls.push_mpls(0x8847, 0x0000_2140).unwrap();
    let _ = Flow::of_packet(&mut mpls);
    assert_eq!(mpls.data()[18..], hex(TCP)[14..]);
    // Pushed and popped without being looked at.
    let mut popped = partial();
    popped.push_mpls(0x8847, 0x0000_2140).unwrap();
    popped.pop_mpls(0x0800);
    assert_eq!(popped.data(), hex(TCP));
}

// ---- headers

#[test]
fn vlan_there_and_back() {
    let mut packet = extracted(&hex(TCP));
    packet.push_vlan(0x8100, 0x7005).unwrap();
    assert_eq!(packet.data()[..18], hex("505400000002 505400000001 8100 6005 0800"));
    assert_eq!((packet.l3_ofs, packet.l4_ofs, packet.l2_5_ofs), (18, 38, NO_OFFSET));
    packet.push_vlan(0x88a8, 0x1064).unwrap();
    assert_eq!(packet.data()[12..20], hex("88a8 0064 8100 6005"));
    let mut again = packet.clone();
    let _ = Flow::of_packet(&mut again);
    assert_eq!((again.l3_ofs, again.l4_ofs), (packet.l3_ofs, packet.l4_ofs));
    for _ in 0..3 {
        packet.pop_vlan();
    }
    assert_eq!(packet.data(), hex(TCP));
    assert_eq!((packet.l3_ofs, packet.l4_ofs), (14, 34));
    let mut short = Packet::from_frame(&[0; 13]);
    assert_eq!(short.push_vlan(0x8100, 0), Err(HeaderError::NotEthernet));
    short.pop_vlan();
    assert_eq!(short.len(), 13);
}

#[test]
fn mpls_of_ovs() {
    // The case d-mpls-in-group-bucket-then-ttl: push, then pop, then a lower TTL.
    let frame = frame(17, false, b"abcd");
    let mut packet = extracted(&frame);
    packet.push_mpls(0x8847, 0x0000_0140).unwrap();
    assert_eq!(packet.data()[12..18], hex("8847 00000140"));
    assert_eq!((packet.l2_5_ofs, packet.l3_ofs, packet.l4_ofs), (14, 18, 38));
    packet.push_mpls(0x8848, 0x0001_003f).unwrap();
    assert_eq!(packet.data()[12..22], hex("8848 0001003f 00000140"));
    packet.set_mpls(0x0005_00ff, 0xffff_f000);
    assert_eq!(packet.data()[14..18], hex("0005003f"));
    packet.pop_mpls(0x8847);
    assert_eq!((packet.l2_5_ofs, packet.l3_ofs), (14, 18));
    packet.pop_mpls(0x0800);
    assert_eq!(packet.data(), frame);
    assert_eq!((packet.l2_5_ofs, packet.l3_ofs, packet.l4_ofs), (NO_OFFSET, 14, 34));
    packet.pop_mpls(0x0800);
    assert_eq!(packet.data(), frame);
    packet.push_vlan(0x8100, 5).unwrap();
    packet.push_mpls(0x8847, 0x0000_0140).unwrap();
    assert_eq!(packet.data()[12..22], hex("8100 0005 8847 00000140"));
    packet.push_mpls(0x0800, 1).unwrap();
    assert_eq!(packet.len(), frame.len() + 8, "not an MPLS type: nothing happens");
}

#[test]
fn ethernet_there_and_back() {
    let mut packet = extracted(&hex(TCP));
    packet.push_vlan(0x8100, 5).unwrap();
    assert_eq!(packet.push_eth(MacAddr::ZERO, MacAddr::ZERO), Err(HeaderError::Ethernet));
    packet.pop_eth().unwrap();
    assert_eq!((packet.packet_type, packet.l3_ofs, packet.l4_ofs), (PT_IPV4, 0, 20));
    assert_eq!(packet.data(), &hex(TCP)[14..]);
    assert_eq!(packet.pop_eth(), Err(HeaderError::NotEthernet));
    packet.push_eth(MacAddr([0x50, 0x54, 0, 0, 0, 2]), MacAddr([0x50, 0x54, 0, 0, 0, 1])).unwrap();
    assert_eq!(packet.data(), hex(TCP));
    assert_eq!((packet.packet_type, packet.l3_ofs), (PT_ETH, 14));
}

#[test]
fn nsh_there_and_back() {
    let mut packet = extracted(&hex(TCP));
    let mut nsh = Nsh { flags: 1, ttl: 63, mdtype: 1, ..Nsh::default() };
    nsh.path_hdr.set(0x1234_56ff);
    nsh.context[3].set(0xdead_beef);
    packet.push_nsh(&nsh, &[]).unwrap();
    assert_eq!(packet.data()[..24], hex("1fc6 01 03 123456ff 000000000000000000000000 deadbeef"));
    assert_eq!((packet.packet_type, packet.l3_ofs, packet.l4_ofs), (PT_NSH, 0, NO_OFFSET));
    let flow = Flow::of_packet(&mut packet);
    assert_eq!(flow.nsh, Nsh { np: 3, ..nsh });
    packet.push_nsh(&Nsh { mdtype: 2, ..nsh }, &hex("0102030400000001")).unwrap();
    assert_eq!(packet.data()[..16], hex("1fc4 02 04 123456ff 01020304 00000001"));
    assert_eq!(packet.push_nsh(&Nsh { mdtype: 2, ..nsh }, &[0; 248]), Err(HeaderError::NshMdType(2)));
    assert_eq!(packet.push_nsh(&Nsh { mdtype: 3, ..nsh }, &[]), Err(HeaderError::NshMdType(3)));
    packet.pop_nsh().unwrap();
    let _ = Flow::of_packet(&mut packet);
    packet.pop_nsh().unwrap();
    assert_eq!((packet.packet_type, packet.data()), (PT_ETH, hex(TCP).as_slice()));
    packet.packet_type = PT_NSH;
    let _ = Flow::of_packet(&mut packet);
    assert_eq!(packet.pop_nsh(), Err(HeaderError::NshMalformed));
}

#[test]
fn cut_and_checked_lengths() {
    // The case d-check-pkt-len-ignores-padding: 45 bytes of content in a frame of 60.
    let mut frame = frame(17, false, b"abc");
    frame.resize(60, 0);
    let mut packet = extracted(&frame);
    assert_eq!(packet.check_len(), 45);
    packet.set_cutlen(50);
    assert_eq!((packet.send_data().len(), packet.check_len()), (50, 35));
    packet.set_cutlen(5);
    assert_eq!(packet.send_data().len(), 14);
    // The case a-check-pkt-len-with-tso.
    let mut big = extracted(&self::frame(6, false, &[0; 200]));
    big.tso_segsz = 100;
    assert_eq!(big.check_len(), 154);
    big.tso_segsz = 1000;
    assert_eq!(big.check_len(), 254);
}

#[test]
fn copies_take_what_means_something() {
    let mut packet = extracted(&hex(TCP));
    packet.md.recirc_id = 5;
    packet.md.set_ct(1, CtMetadata { mark: 9, ..CtMetadata::default() });
    packet.cutlen = 3;
    packet.push_front(300).fill(1);
    let mut pool = Pool::new(1, 64);
    let copy = pool.copy(&packet);
    assert_eq!(copy.data(), packet.data());
    assert_eq!((copy.md.recirc_id, copy.md.ct().unwrap().mark, copy.cutlen), (5, 9, 3));
    assert_eq!(copy.headroom(), HEADROOM, "a copy has headroom again");
    pool.put(copy);
    let mut reused = pool.take();
    reused.set_frame(&[0; 14]);
    reused.md.init(PortNo(1));
    assert!(reused.md.ct().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is done to whatever frame: no panic, and offsets that stay within it.
    #[test]
    fn survives_anything(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        shape in 0usize..6,
        ops in prop::collection::vec((0u8..20, any::<u32>()), 0..8),
        flags in any::<u32>(),
    ) {
        let start = ["", "505400000002505400000001080045", "50540000000250540000000181000005080045",
            "50540000000250540000000186dd60000000003006", "5054000000025054000000018847", "505400000002505400000001894f0fc6"];
        let mut data = hex(start[shape]);
        data.extend(bytes);
        let mut packet = Packet::from_frame(&data);
        packet.offloads = Offloads::from_bits_truncate(flags);
        let _ = Flow::of_packet(&mut packet);
        for (op, n) in ops {
            let _ignored = match op {
                0 => packet.push_vlan(0x8100, n as u16).is_ok(),
                1 => { packet.pop_vlan(); true }
                2 => packet.push_mpls(0x8847, n).is_ok(),
                3 => { packet.pop_mpls(n as u16); true }
                4 => packet.push_eth(MacAddr::ZERO, MacAddr::BROADCAST).is_ok(),
                5 => packet.pop_eth().is_ok(),
                6 => packet.push_nsh(&Nsh { mdtype: n as u8 & 3, ..Nsh::default() }, &[]).is_ok(),
                7 => packet.pop_nsh().is_ok(),
                8 => packet.set_ipv4(Ipv4Field::Src(n.to_be_bytes())),
                9 => packet.set_ipv4(Ipv4Field::Ttl(n as u8)),
                10 => packet.set_ipv6(Ipv6Field::Dst([n as u8; 16])),
                11 => packet.set_tcp_ports(n as u16, 1),
                12 => packet.set_udp_ports(n as u16, 1),
                13 => packet.set_sctp_ports(n as u16, 1),
                14 => packet.set_icmp(n as u8, 1),
                15 => { packet.set_ecn_ce(); true }
                16 => { packet.set_len(n as usize & 0xff); true }
                17 => { packet.set_icmpv6_bytes(n as usize & 0x3e, &[1, 2, 3, 4]); true }
                18 => { let _ = prepare_for(&mut packet, Capabilities::empty()); true }
                _ => { let _ = Flow::of_packet(&mut packet); true }
            };
            let _ = (packet.l3(), packet.l4(), packet.check_len(), packet.send_data());
        }
    }
}
