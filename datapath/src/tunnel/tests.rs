//! What is pushed can be popped again, and pays its debts on the way; damaged headers are refused.

use proptest::prelude::*;

use super::{Push, TunnelKind, pop, push};
use crate::action::TnlPush;
use crate::action::text::parse_actions;
use crate::action::{Action, vport};
use crate::flow::Flow;
use crate::offload::{Capabilities, Offloads, finish, prepare_for};
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::types::{PortNo, Time};

/// As real Open vSwitch 4.0.90 prints them, with its kinds.
const HEADERS: [(&str, TunnelKind); 9] = [
    (
        "size=50,type=4,eth(E),ipv4(4,proto=17,N),udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0x8000000,vni=0x7b)",
        TunnelKind::Vxlan,
    ),
    (
        "size=70,type=4,eth(F),ipv6(6,proto=17,M),udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0x8000000,vni=0x63)",
        TunnelKind::Vxlan,
    ),
    (
        "size=50,type=5,eth(E),ipv4(4,proto=17,N),udp(src=0,dst=6081,csum=0x0),geneve(vni=0x77)",
        TunnelKind::Geneve,
    ),
    (
        "size=58,type=5,eth(E),ipv4(4,proto=17,N),udp(src=0,dst=6081,csum=0x0),geneve(oam,vni=0x77,options({class=0xffff,type=0x1,len=4,0xa}))",
        TunnelKind::Geneve,
    ),
    ("size=42,type=3,eth(E),ipv4(4,proto=47,N),gre((flags=0x2000,proto=0x6558),key=0x1c8)", TunnelKind::Gre),
    (
        "size=50,type=3,eth(E),ipv4(4,proto=47,N),gre((flags=0xb000,proto=0x6558),csum=0x0,key=0x1c8,seq=0x0)",
        TunnelKind::Gre,
    ),
    (
        "size=62,type=109,eth(F),ipv6(6,proto=47,M),gre((flags=0x2000,proto=0x6558),key=0x1c8)",
        TunnelKind::Gre,
    ),
    ("size=50,type=107,eth(E),ipv4(4,proto=47,N),erspan(ver=1,sid=0x38,idx=0x3)", TunnelKind::Erspan),
    ("size=54,type=107,eth(E),ipv4(4,proto=47,N),erspan(ver=2,sid=0x38,dir=1,hwid=0x4)", TunnelKind::Erspan),
];

fn action(header: &str) -> TnlPush {
    let header = header
        .replace("(E)", "(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=0x0800)")
        .replace("(F)", "(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=0x86dd)")
        .replace("(4,", "(src=1.1.2.88,dst=1.1.2.92,")
        .replace(",N)", ",tos=0,ttl=64,frag=0x4000)")
        .replace("(6,", "(src=2001:cafe::88,dst=2001:cafe::92,label=0,")
        .replace(",M)", ",tclass=0x0,hlimit=64)");
    let text = format!("tnl_push(tnl_port(9),header({header}),out_port(1))");
    match parse_actions(&text, None).unwrap().into_iter().next() {
        Some(Action::TnlPush(push)) => *push,
        other => panic!("{other:?}"),
    }
}

/// A frame with a TCP segment over IPv4 whose checksums are right.
fn tcp_frame(payload: usize) -> Packet {
    let mut frame = vec![0x50, 0x54, 0, 0, 0, 2, 0x50, 0x54, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0];
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 11, 0, 0, 1, 10, 0, 0, 1]);
    frame.extend([0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|i| i as u8));
    let mut packet = Packet::from_frame(&frame);
    packet.offloads |= Offloads::IP_PARTIAL | Offloads::L4_PARTIAL;
    Flow::of_packet(&mut packet);
    let _ = prepare_for(&mut packet, Capabilities::empty());
    Packet::from_frame(packet.data())
}

fn encapsulate(packet: &mut Packet, action: &TnlPush, sequence: &mut u32) -> Result<(), DropReason> {
    Flow::of_packet(packet);
    let layout = action.layout().unwrap();
    let now = Time::from_millis(5);
    push(packet, action, &mut Push { layout, ports: (57363, 57363), sequence, now })
}

#[test]
fn what_is_pushed_is_popped() {
    for (header, kind) in HEADERS {
        let action = action(header);
        let original = tcp_frame(64);
        let mut packet = Packet::from_frame(original.data());
        let mut sequence = 7;
        encapsulate(&mut packet, &action, &mut sequence).unwrap();
        assert_eq!(packet.md.in_port, PortNo(1));
        // Sent: everything that is owed is paid in software.
        Flow::of_packet(&mut packet);
        let _ = prepare_for(&mut packet, Capabilities::empty());
        let mut received = Packet::from_frame(packet.data());
        let outer = Flow::of_packet(&mut received);
        assert_eq!(outer.dl_dst.to_string(), "f8:bc:12:44:34:b6");
        assert_eq!(pop(&mut received, kind), Ok(()), "{header}");
        assert_eq!(received.data(), original.data(), "{header}");
        let tunnel = *received.md.tunnel().unwrap();
        if action.layout().unwrap().ipv6 {
            assert_eq!(tunnel.ipv6_dst[15], 0x92);
        } else {
            assert_eq!(tunnel.ip_dst.get(), 0x0101_025c);
        }
        let numbered = kind == TunnelKind::Erspan || header.contains("seq");
        assert_eq!(sequence, if numbered { 8 } else { 7 }, "{header}");
    }
}

/// Debts of the inner headers survive being inner ones, and come back when both happen in one switch.
#[test]
fn debts_move_in_and_out() {
    for (header, kind) in HEADERS.into_iter().filter(|(header, _)| !header.contains("csum=0x0,key")) {
        let action = action(header);
        let original = tcp_frame(64);
        let mut packet = Packet::from_frame(original.data());
        packet.offloads |= Offloads::L4_PARTIAL;
        packet.data_mut()[50..52].fill(0);
        encapsulate(&mut packet, &action, &mut 0).unwrap();
        Flow::of_packet(&mut packet);
        let offloaded = !packet.offloads.intersection(Offloads::TUNNEL).is_empty();
        assert_eq!(packet.offloads.contains(Offloads::INNER_L4_PARTIAL), offloaded, "{header}");
        pop(&mut packet, kind).unwrap();
        assert_eq!(packet.offloads.contains(Offloads::L4_PARTIAL), offloaded, "{header}");
        Flow::of_packet(&mut packet);
        let _ = prepare_for(&mut packet, Capabilities::empty());
        assert_eq!(packet.data(), original.data(), "{header}");
    }
}

/// A port that computes inner checksums only is left those: the outer one is known without them.
#[test]
fn the_outer_checksum_does_not_wait_for_the_inner_one() {
    let able = Capabilities::TCP_CSUM | Capabilities::IP_CSUM;
    for (header, _) in HEADERS.into_iter().filter(|(header, _)| header.contains("csum=0xffff")) {
        let action = action(header);
        for payload in [0, 1, 64, 333] {
            for inner_ip in [Offloads::IP_GOOD, Offloads::IP_PARTIAL, Offloads::empty()] {
                let mut packet = tcp_frame(payload);
                packet.offloads |= Offloads::L4_PARTIAL | inner_ip;
                packet.data_mut()[50..52].fill(0);
                encapsulate(&mut packet, &action, &mut 0).unwrap();
                Flow::of_packet(&mut packet);
                let mut in_software = packet.clone();
                let _ = prepare_for(&mut in_software, Capabilities::empty());
                let _ = prepare_for(&mut packet, able);
                assert!(packet.offloads.contains(Offloads::INNER_L4_PARTIAL), "left to the port");
                assert!(!packet.offloads.contains(Offloads::L4_PARTIAL), "done");
                finish(&mut packet, Capabilities::empty());
                assert_eq!(packet.data(), in_software.data(), "{header}, {payload} bytes");
            }
        }
    }
}

#[test]
fn damaged_headers_are_refused() {
    let action = action(HEADERS[0].0);
    let mut packet = tcp_frame(64);
    encapsulate(&mut packet, &action, &mut 0).unwrap();
    Flow::of_packet(&mut packet);
    let _ = prepare_for(&mut packet, Capabilities::empty());
    let whole = packet.data().to_vec();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = whole.clone();
        change(&mut frame);
        let mut packet = Packet::from_frame(&frame);
        Flow::of_packet(&mut packet);
        pop(&mut packet, TunnelKind::Vxlan)
    };
    assert_eq!(refused(&|_| ()), Ok(()));
    let drop = Err(DropReason::TunnelDecap);
    assert_eq!(refused(&|frame| frame[24] ^= 1), drop, "IP checksum");
    assert_eq!(refused(&|frame| frame[60] ^= 1), drop, "UDP checksum");
    assert_eq!(refused(&|frame| (frame[40], frame[41], frame[42]) = (0, 0, 0x88)), drop, "VXLAN flags");
    assert_eq!(refused(&|frame| frame.truncate(48)), drop, "cut off");
}

#[test]
fn a_datagram_longer_than_ip_allows_is_refused() {
    let action = action(HEADERS[0].0);
    let mut packet = tcp_frame(65_460);
    assert_eq!(encapsulate(&mut packet, &action, &mut 0), Err(DropReason::TunnelEncap));
}

proptest! {
    /// No frame makes decapsulation panic, whatever it claims to be.
    #[test]
    fn any_bytes(mut frame in proptest::collection::vec(any::<u8>(), 14..160), kind in 0..8usize, v6: bool) {
        let (ethertype, version) = if v6 { ([0x86, 0xdd], 0x60) } else { ([0x08, 0x00], 0x45) };
        frame[12..14].copy_from_slice(&ethertype);
        if let Some(first) = frame.get_mut(14) {
            *first = version;
        }
        let kind = TunnelKind::ALL[kind];
        let mut packet = Packet::from_frame(&frame);
        packet.offloads |= Offloads::IP_GOOD | Offloads::L4_GOOD;
        Flow::of_packet(&mut packet);
        let before = packet.data().to_vec();
        if pop(&mut packet, kind).is_ok() {
            prop_assert!(before.ends_with(packet.data()) || before.len() > packet.data().len());
            Flow::of_packet(&mut packet);
        }
    }

    /// Headers that are not whole are told as such, and those that are can be pushed.
    #[test]
    fn any_headers(mut header in proptest::collection::vec(any::<u8>(), 0..120), v6: bool, kind in 0..8usize) {
        let types = [
            vport::GRE, vport::VXLAN, vport::GENEVE, vport::ERSPAN, vport::IP6ERSPAN, vport::IP6GRE, vport::GTPU,
            vport::SRV6,
        ];
        if let Some(field) = header.get_mut(12..14) {
            field.copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        }
        let action = TnlPush { tnl_port: PortNo(9), out_port: PortNo(1), tnl_type: types[kind], header: header.into() };
        if action.layout().is_some() {
            let mut packet = tcp_frame(20);
            let len = packet.len();
            encapsulate(&mut packet, &action, &mut 0).unwrap();
            prop_assert_eq!(packet.len(), len + action.header.len());
            Flow::of_packet(&mut packet);
            let _ = prepare_for(&mut packet, Capabilities::empty());
        }
    }
}
