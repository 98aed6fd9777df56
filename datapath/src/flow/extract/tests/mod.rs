mod oracle;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use zerocopy::FromZeros;

use super::*;
use crate::flow::{FLOW_WORDS, Tunnel};
use crate::packet::CtMetadata;
use crate::types::PortNo;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn eth(dl_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = hex("505400000002 505400000001");
    frame.extend(dl_type.to_be_bytes());
    frame.extend(payload);
    frame
}

fn flow(frame: &[u8]) -> Flow {
    Flow::of_packet(&mut Packet::from_frame(frame))
}

fn udp() -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([198, 51, 100, 1], [192, 0, 2, 2], 64)
        .udp(53, 53);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"").unwrap();
    frame
}

/// Extracts with both paths where the fast one applies, holds all to the oracle, and returns the key.
fn check(packet: &Packet, config: ExtractConfig) -> Flow {
    let want = oracle::expected(packet, config);
    let mut ours = packet.clone();
    let got = Flow::of_packet_with(&mut ours, config);
    assert_eq!(got, want.flow);
    assert_eq!(ours.l2_pad_size, want.l2_pad_size);
    assert_eq!((ours.l2_5_ofs, ours.l3_ofs, ours.l4_ofs), (want.l2_5_ofs, want.l3_ofs, want.l4_ofs));
    assert_eq!(ours.offloads.intersection(Offloads::L4_PROTO), want.proto);

    let (mut plain, mut full) = (packet.clone(), packet.clone());
    let (mut plain_key, mut full_key) = (Miniflow::default(), Miniflow::default());
    headers::extract(&mut full, &mut full_key, config);
    if plain::extract(&mut plain, &mut plain_key) {
        assert_eq!(plain_key.map, full_key.map);
        assert_eq!(plain_key.words(), full_key.words());
        assert_eq!(plain.rss_hash, full.rss_hash);
    }

    let mut simple = packet.clone();
    if let Some(key) = extract_simple(&mut simple, config) {
        assert_eq!(key.dl_type, want.flow.dl_type.get());
        assert_eq!(key.vlan_tci, want.flow.vlans[0].tci.get());
        assert_eq!(key.nw_frag, want.flow.nw_frag);
        assert_eq!(
            (simple.l2_5_ofs, simple.l3_ofs, simple.l4_ofs, simple.l2_pad_size, simple.offloads),
            (ours.l2_5_ofs, ours.l3_ofs, ours.l4_ofs, ours.l2_pad_size, ours.offloads)
        );
    } else {
        assert!(packet.packet_type != 0 || packet.len() < 14);
    }
    got
}

#[test]
fn plain_udp_takes_six_words() {
    let mut packet = Packet::from_frame(&udp());
    packet.md.in_port = PortNo(7);
    let mut mini = Miniflow::default();
    assert!(plain::extract(&mut packet, &mut mini));
    assert_eq!(mini.len(), 6);
    let flow = check(&packet, ExtractConfig::default());
    assert_eq!(flow.in_port, 7);
    assert_eq!(flow.nw_dst.get(), 0xc000_0202);
    assert_eq!((flow.tp_src.get(), flow.tp_dst.get()), (53, 53));
    assert_eq!((packet.l3_ofs, packet.l4_ofs, packet.l2_pad_size), (14, 34, 0));
    assert_eq!(packet.offloads, Offloads::L4_UDP);
}

#[test]
fn padding_up_to_65535_bytes_is_padding() {
    for pad in [0, 18, 300, 65535] {
        let mut frame = udp();
        frame.resize(frame.len() + pad, 0);
        let mut packet = Packet::from_frame(&frame);
        let flow = Flow::of_packet(&mut packet);
        assert_eq!((flow.nw_dst.get(), flow.tp_dst.get()), (0xc000_0202, 53), "{pad} bytes");
        assert_eq!(usize::from(packet.l2_pad_size), pad);
    }
    let mut frame = udp();
    frame.resize(frame.len() + 65536, 0);
    assert_eq!(flow(&frame).nw_dst.get(), 0, "more than a padding length can say");
}

#[test]
fn lying_ipv4_lengths_leave_no_l3() {
    // Total length 200 in a frame of 42, a header of 16 bytes, total length 12.
    for (at, value) in [(17, 200), (14, 0x44), (17, 12)] {
        let mut frame = udp();
        frame[at] = value;
        let flow = flow(&frame);
        assert_eq!(flow.dl_type.get(), 0x0800);
        assert_eq!((flow.nw_src.get(), flow.nw_proto, flow.nw_ttl, flow.tp_dst.get()), (0, 0, 0, 0));
    }
    let mut frame = udp();
    frame[14] = 0x46;
    let flow = flow(&frame);
    assert_eq!((flow.nw_dst.get(), flow.tp_dst.get()), (0xc000_0202, 0), "options leave no room for UDP");
    let flow = self::flow(&eth(0x0800, b""));
    assert_eq!((flow.dl_type.get(), flow.nw_dst.get()), (0x0800, 0));
    let mut version_6 = udp();
    version_6[14] = 0x65;
    assert_eq!(self::flow(&version_6).tp_dst.get(), 53, "the version is not looked at");
}

#[test]
fn tcp_data_offset_must_fit() {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(20, 80, 0, 8192)
        .syn();
    let mut frame = Vec::new();
    builder.write(&mut frame, b"").unwrap();
    for offset in [4, 5, 6, 15] {
        frame[46] = offset << 4;
        let flow = check(&Packet::from_frame(&frame), ExtractConfig::MAX);
        let expected = if offset == 5 { (20, 80, 2) } else { (0, 0, 0) };
        assert_eq!((flow.tp_src.get(), flow.tp_dst.get(), flow.tcp_flags.get()), expected, "{offset}");
        assert_eq!(flow.nw_proto, 6);
    }
}

#[test]
fn mpls_keeps_three_labels() {
    let deep = eth(0x8847, &hex("00001040 00002040 00003040 00004140 4500"));
    let mut packet = Packet::from_frame(&deep);
    let flow = Flow::of_packet(&mut packet);
    assert_eq!(flow.mpls_lse.map(zerocopy::network_endian::U32::get), [0x1040, 0x2040, 0x3040, 0]);
    assert_eq!((packet.l2_5_ofs, packet.l3_ofs, packet.l4_ofs), (14, 30, NO_OFFSET));
    let flow = self::flow(&hex("505400000002505400000001884700001040"));
    assert_eq!(flow.mpls_lse.map(zerocopy::network_endian::U32::get), [0x1040, 0, 0, 0]);
}

#[test]
fn llc_and_snap() {
    let bpdu = hex(
        "0180c2000000 505400000001 0026 424203 000000000080000c29aabbcc00000000800000aabbccddee8001000014000200",
    );
    assert_eq!(flow(&bpdu).dl_type.get(), 0x05ff);
    assert_eq!(flow(&eth(0x05dc, b"")).dl_type.get(), 0x05ff);
    assert_eq!(flow(&eth(0x0600, b"")).dl_type.get(), 0x0600);
    let mut snap = hex("505400000002 505400000001 0024 aaaa03 000000 0800");
    snap.extend(&udp()[14..]);
    let key = flow(&snap);
    assert_eq!((key.dl_type.get(), key.tp_dst.get()), (0x0800, 53));
    snap[20] = 0x01;
    assert_eq!(flow(&snap).dl_type.get(), 0x05ff);
}

#[test]
fn malformed_nsh_shows_no_field() {
    for rest in ["0fc2", "0fc6 0103 00001234 ff", "0ffe 0103 00001234ff 0000"] {
        let flow = flow(&eth(0x894f, &hex(rest)));
        assert_eq!(flow.dl_type.get(), 0x894f);
        assert_eq!(flow.nsh, crate::flow::Nsh::default());
    }
    let nsh = flow(&eth(0x894f, &hex("0fc6 0103 00001234 00000001 00000002 00000003 00000004"))).nsh;
    assert_eq!((nsh.ttl, nsh.np, nsh.path_hdr.get(), nsh.context[3].get()), (63, 3, 0x1234, 4));
}

#[test]
fn odd_arp() {
    let arp =
        |start: &str| eth(0x0806, &hex(&format!("{start} 0200000000c1 c0000201 000000000000 c0000202")));
    let request = flow(&arp("0001 0800 06 04 0001"));
    assert_eq!((request.nw_proto, request.nw_dst.get()), (1, 0xc000_0202));
    let opcode_300 = flow(&arp("0001 0800 06 04 012c"));
    assert_eq!((opcode_300.nw_proto, opcode_300.nw_src.get()), (0, 0xc000_0201));
    let token_ring = flow(&arp("0006 0800 06 04 0001"));
    assert_eq!((token_ring.nw_src.get(), token_ring.arp_sha.0), (0, [0; 6]));
}

#[test]
fn vlan_limit_hides_inner_tags() {
    let frame = hex("505400000002 505400000001 88a8 0064 8100 60c8 8100 0005 0800");
    for (limit, tags, dl_type) in [(0, 2, 0x8100), (1, 1, 0x8100), (2, 2, 0x8100)] {
        let config = ExtractConfig { vlan_limit: limit };
        let flow = check(&Packet::from_frame(&frame), config);
        assert_eq!(flow.vlans[0].tci.get(), 0x1064);
        assert_eq!(flow.vlans[1].tci.get(), if tags == 2 { 0x70c8 } else { 0 });
        assert_eq!(flow.dl_type.get(), dl_type);
    }
}

#[test]
fn later_fragment_keeps_the_connections_ports() {
    let mut frame = udp();
    frame[20] = 0x00;
    frame[21] = 0xb9;
    let mut packet = Packet::from_frame(&frame);
    let ct = CtMetadata {
        orig_proto: 17,
        orig_src: [10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        orig_tp_src: 1000,
        orig_tp_dst: 2000,
        ..CtMetadata::default()
    };
    packet.md.set_ct(0x21, ct);
    let flow = check(&packet, ExtractConfig::MAX);
    assert_eq!((flow.tp_dst.get(), flow.ct_tp_src.get(), flow.ct_tp_dst.get()), (0, 1000, 2000));
    assert_eq!((flow.ct_nw_proto, flow.ct_nw_src.get()), (17, 0x0a00_0001));
}

#[test]
fn stale_metadata_does_not_show() {
    let mut packet = Packet::from_frame(&udp());
    let ct = CtMetadata { mark: 5, label: 1 << 100, zone: 9, ..CtMetadata::default() };
    packet.md.set_ct(0x21, ct);
    let mut tunnel = Tunnel::new_zeroed();
    tunnel.ip_dst.set(0x0a00_0001);
    tunnel.opts_len = 12;
    tunnel.opts = [0xee; 256];
    packet.md.set_tunnel(Some(&tunnel));
    let flow = check(&packet, ExtractConfig::MAX);
    assert_eq!((flow.ct_mark, flow.ct_zone, flow.ct_label.get()), (5, 9, 1 << 100));
    assert_eq!(flow.tunnel.opts[..13], [[0xee; 12].as_slice(), &[0]].concat());
    packet.md.init(PortNo(1));
    let flow = check(&packet, ExtractConfig::MAX);
    assert_eq!((flow.ct_mark, flow.tunnel), (0, Tunnel::new_zeroed()));
}

#[test]
fn inner_offsets_survive_encapsulation_only() {
    let mut packet = Packet::from_frame(&udp());
    packet.inner_l3_ofs = 50;
    packet.inner_l4_ofs = 70;
    packet.offloads = Offloads::TUNNEL_VXLAN;
    let _ = Flow::of_packet(&mut packet);
    assert_eq!((packet.inner_l3_ofs, packet.inner_l4_ofs), (50, 70));
    packet.offloads = Offloads::empty();
    let _ = Flow::of_packet(&mut packet);
    assert_eq!((packet.inner_l3_ofs, packet.inner_l4_ofs), (NO_OFFSET, NO_OFFSET));
}

#[test]
fn etherparse_agrees() {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .double_vlan(100.try_into().unwrap(), 200.try_into().unwrap())
        .ipv6([1; 16], [2; 16], 47)
        .tcp(1234, 443, 9, 100)
        .fin();
    let mut frame = Vec::new();
    builder.write(&mut frame, b"payload").unwrap();
    let flow = check(&Packet::from_frame(&frame), ExtractConfig::MAX);
    assert_eq!(flow.vlans[0].tci.get(), 0x1064);
    assert_eq!(flow.vlans[1].tci.get(), 0x10c8);
    assert_eq!((flow.ipv6_src, flow.ipv6_dst, flow.nw_ttl), ([1; 16], [2; 16], 47));
    assert_eq!((flow.tp_src.get(), flow.tp_dst.get(), flow.tcp_flags.get()), (1234, 443, 1));
}

// ---- properties

/// Pieces that make frames whose headers go together most of the time.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let l4 = (0u8..4, prop::collection::vec(any::<u8>(), 0..48)).prop_map(|(tcp, mut bytes)| {
        if tcp > 0 && bytes.len() > 12 {
            bytes[12] = (5 + (bytes[12] & 1)) << 4 | bytes[12] & 0xf;
        }
        bytes
    });
    let nd = (0u8..4, 0usize..5, any::<[u8; 40]>()).prop_map(|(kind, options, bytes)| {
        let mut out = vec![134 + kind, bytes[0] & 1, 0, 0, 1, 2, 3, 4];
        out.extend(&bytes[..16]);
        for i in 0..options {
            out.extend([bytes[i] & 3, bytes[i + 5] & 3, 0, 0, bytes[i + 10], 0, 0, 1]);
        }
        out
    });
    let l4 = prop_oneof![3 => l4, 1 => nd];
    let protos = prop::sample::select(vec![6u8, 17, 132, 1, 2, 58, 44, 0, 43, 60, 51, 99]);
    let ext = prop::collection::vec((protos.clone(), 0u8..3, 0u8..6), 0..4);
    let l3 = (0u8..8, protos, ext, l4, any::<[u8; 16]>(), 0usize..60)
        .prop_map(|(kind, proto, ext, l4, random, pad)| l3(kind, proto, &ext, &l4, random, pad));
    (l3, 0usize..4, any::<[u8; 18]>(), 0u8..8, any::<[u8; 4]>(), 0usize..200).prop_map(
        |((dl_type, l3), tags, random, shape, mutate, cut)| {
            let mut frame = random[..12].to_vec();
            for i in 0..tags {
                frame.extend(if random[i] & 1 == 0 { [0x81, 0x00] } else { [0x88, 0xa8] });
                frame.extend(&random[12 + 2 * i..14 + 2 * i]);
            }
            if shape == 0 {
                frame.extend([0, 40, 0xaa, 0xaa, 3, 0, 0, random[0] & 1]);
            }
            frame.extend(dl_type.to_be_bytes());
            frame.extend(l3);
            if shape == 1 {
                let at = usize::from(mutate[0]) % frame.len();
                frame[at] = mutate[1];
                let at = usize::from(mutate[2]) % frame.len();
                frame[at] = mutate[3];
            }
            if shape == 2 {
                frame.truncate(cut);
            }
            frame
        },
    )
}

fn l3(kind: u8, proto: u8, ext: &[(u8, u8, u8)], l4: &[u8], random: [u8; 16], pad: usize) -> (u16, Vec<u8>) {
    let [r0, r1, r2, r3, ..] = random;
    let mut out = Vec::new();
    let dl_type = match kind {
        0..=2 => {
            let options = if kind == 0 { r0 & 3 } else { 0 };
            let frag = [0x40, 0x20, 0x20, 0x00][usize::from(r1 & 3)];
            let total = 20 + 4 * usize::from(options) + l4.len();
            out.extend([0x45 + options, r2, 0, total as u8, r3, r3, frag, r1 & 4, 64, proto, 0, 0]);
            out.extend(&random[4..12]);
            out.resize(out.len() + 4 * usize::from(options), 1);
            out.extend(l4);
            0x0800
        }
        3..=5 => {
            let mut payload = Vec::new();
            for (i, &(_, len, frag)) in ext.iter().enumerate() {
                let next = ext.get(i + 1).map_or(proto, |e| e.0);
                payload.extend([next, len, 0, [0, 1, 8, 6, 0, 0][usize::from(frag)], 0, 0, 0, 0]);
                payload.resize(payload.len() + 8 * usize::from(len), 0);
            }
            payload.extend(l4);
            out.extend([0x60 | r0 & 15, r1, r2, r3, 0, payload.len() as u8]);
            out.extend([ext.first().map_or(proto, |e| e.0), 64]);
            out.extend(random);
            out.extend(random);
            out.extend(payload);
            0x86dd
        }
        6 => match r0 & 3 {
            0 => {
                out.extend([0, 1, 8, 0, 6, 4, r1 & 1, r2]);
                out.extend(l4);
                if r3 & 1 == 0 { 0x0806 } else { 0x8035 }
            }
            1 => {
                for (i, &entry) in random.iter().enumerate() {
                    out.extend([entry, 0, u8::from(i == usize::from(r1 & 7)), 64]);
                }
                out.extend(l4);
                0x8847 + u16::from(r2 & 1)
            }
            _ => {
                out.extend([r2 & 0x8f, 0xc0 | if r3 & 1 == 0 { 6 } else { r3 & 15 }, r1 & 3, 3]);
                out.extend(l4);
                0x894f
            }
        },
        _ => u16::from_be_bytes([r0 & 7, r1]),
    };
    out.resize(out.len() + pad, 0);
    (dl_type, out)
}

prop_compose! {
    fn packets()(
        frame in frames(),
        md in any::<[u32; 5]>(),
        which in any::<u16>(),
        zone in any::<u16>(),
        label in any::<u128>(),
        addresses in any::<[[u8; 16]; 2]>(),
        ports in any::<[u16; 2]>(),
        proto in prop::sample::select(vec![0u8, 1, 6, 17, 58, 132, 47]),
    ) -> Packet {
        let on = |bit: u32| which >> bit & 1 == 1;
        let mut packet = Packet::from_frame(&frame);
        packet.md.in_port = PortNo(md[0] & 0xff);
        if on(0) {
            packet.md.recirc_id = md[1];
            packet.md.dp_hash = md[2];
        }
        if on(1) && on(2) {
            packet.md.skb_priority = md[3];
            packet.md.pkt_mark = md[4] & 1;
        }
        if on(3) {
            let ct = CtMetadata {
                zone,
                mark: md[1] & 1,
                label: if on(4) { label } else { 0 },
                orig_proto: proto,
                orig_ipv6: on(5),
                orig_src: addresses[0],
                orig_dst: addresses[1],
                orig_tp_src: ports[0],
                orig_tp_dst: ports[1],
                conn: None,
            };
            packet.md.set_ct(md[2] as u8, ct);
        }
        if on(6) && on(7) {
            let mut tunnel = Tunnel::new_zeroed();
            tunnel.ip_dst.set(md[3]);
            tunnel.tun_id.set(u64::from(md[4]));
            tunnel.opts_len = md[1] as u8 & 0xfc;
            tunnel.opts = [md[2] as u8; 256];
            tunnel.gtpu_msgtype = md[2] as u8;
            packet.md.set_tunnel(Some(&tunnel));
        }
        if on(8) && on(9) && on(10) {
            let types = [0x1_0800, 0x1_86dd, 0x1_8847, 0x1_894f];
            packet.packet_type = types[usize::from(which >> 14)];
            packet.pull_front(14);
        }
        packet.offloads = Offloads::from_bits_truncate(md[3] & 0x7f);
        packet
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_the_oracle(packet in packets(), vlan_limit in 0u8..4) {
        check(&packet, ExtractConfig { vlan_limit });
    }

    #[test]
    fn takes_any_bytes(frame in prop::collection::vec(any::<u8>(), 0..200), kind in any::<u32>()) {
        let mut packet = Packet::from_frame(&frame);
        packet.packet_type = kind & 0x1_ffff;
        check(&packet, ExtractConfig::MAX);
    }
}

#[test]
fn the_longest_key_fits() {
    // Every word that a packet can have: no more than the key has.
    let map: u32 = FLOW_WORDS as u32;
    let mut packet = Packet::from_frame(&udp());
    packet.md.set_ct(1, CtMetadata { mark: 1, label: 1, orig_proto: 17, ..CtMetadata::default() });
    let mut tunnel = Tunnel::new_zeroed();
    tunnel.ip_dst.set(1);
    tunnel.opts_len = 255;
    packet.md.set_tunnel(Some(&tunnel));
    let mut mini = Miniflow::default();
    extract(&mut packet, &mut mini, ExtractConfig::MAX);
    assert!(mini.len() < map as usize);
}
