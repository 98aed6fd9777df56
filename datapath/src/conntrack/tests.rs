//! Connections against a plain list of them; each kind of packet by name.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::key::ConnKey;
use super::table::Table;
use super::*;
use crate::action::Nat;
use crate::flow::Flow;
use crate::offload::checksum;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 1, 2, 3];
const OUTSIDE: [u8; 4] = [10, 99, 0, 1];
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = SYN | ACK;
const FIN_ACK: u8 = 0x11;

fn ip(proto: u8, src: [u8; 4], dst: [u8; 4], mut l4: Vec<u8>, sum_at: Option<usize>) -> Vec<u8> {
    if let Some(at) = sum_at {
        l4[at..at + 2].fill(0);
        let sum = if proto == 1 {
            checksum::internet(&l4)
        } else {
            let addresses = [src, dst].concat().try_into().unwrap();
            checksum::pseudo_ipv4(&addresses, proto, l4.len() as u16).bytes(&l4).finish()
        };
        l4[at..at + 2].copy_from_slice(&sum);
    }
    let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0];
    header.extend(src.into_iter().chain(dst));
    header[2..4].copy_from_slice(&((20 + l4.len()) as u16).to_be_bytes());
    let sum = checksum::internet(&header);
    header[10..12].copy_from_slice(&sum);
    header.extend(l4);
    header
}

fn packet(l3: &[u8]) -> Packet {
    let mut frame = vec![0x50, 0x54, 0, 0, 0, 2, 0x50, 0x54, 0, 0, 0, 1, 8, 0];
    frame.extend(l3);
    let mut packet = Packet::from_frame(&frame);
    Flow::of_packet(&mut packet);
    packet
}

fn ends(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Vec<u8> {
    [src.1.to_be_bytes(), dst.1.to_be_bytes()].concat()
}

type End = ([u8; 4], u16);

fn tcp(src: End, dst: End, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Packet {
    let mut l4 = ends(src, dst);
    l4.extend(seq.to_be_bytes().into_iter().chain(ack.to_be_bytes()));
    l4.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    l4.extend(payload);
    packet(&ip(6, src.0, dst.0, l4, Some(16)))
}

fn udp(src: End, dst: End) -> Packet {
    let mut l4 = ends(src, dst);
    l4.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    packet(&ip(17, src.0, dst.0, l4, Some(6)))
}

/// An error about a packet, quoting `n` bytes of it.
fn unreachable(src: [u8; 4], about: &Packet, n: usize) -> Packet {
    let quoted = about.l3().unwrap();
    let dst = quoted[12..16].try_into().unwrap();
    let mut l4 = vec![3, 1, 0, 0, 0, 0, 0, 0];
    l4.extend(&quoted[..n.min(quoted.len())]);
    packet(&ip(1, src, dst, l4, Some(2)))
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn look() -> Ct {
    Ct { zone: 5, nat: Some(Nat::default()), ..Ct::default() }
}

fn commit() -> Ct {
    Ct { zone: 5, commit: true, ..Ct::default() }
}

fn snat(ports: Option<(u16, u16)>) -> Ct {
    let addr = std::net::IpAddr::from(OUTSIDE);
    let nat = Nat { kind: NatKind::Src, addr: Some((addr, addr)), port: ports, ..Nat::default() };
    Ct { nat: Some(nat), ..commit() }
}

/// The state that a packet gets.
fn state(ct: &mut Conntrack, packet: &mut Packet, action: &Ct, now: Time) -> u8 {
    ct.track(packet, action, now).unwrap();
    packet.md.ct_state & !CS_TRACKED
}

#[track_caller]
fn assert_valid(packet: &mut Packet) {
    crate::offload::settle(packet);
    let bytes = packet.data().to_vec();
    let mut again = Packet::from_frame(&bytes);
    Flow::of_packet(&mut again);
    let l3 = again.l3().unwrap();
    assert_eq!(checksum::internet(&l3[..20]), [0, 0], "IPv4 header");
    assert!(extract(&mut again, 0).is_some(), "transport");
}

const C: End = (CLIENT, 1000);
const S: End = (SERVER, 80);

/// A connection whose handshake is done.
fn established() -> Conntrack {
    let mut ct = Conntrack::new(7);
    assert_eq!(state(&mut ct, &mut tcp(C, S, SYN, 100, 0, b""), &commit(), at(0)), CS_NEW);
    assert_eq!(
        state(&mut ct, &mut tcp(S, C, SYN_ACK, 500, 101, b""), &look(), at(1)),
        CS_ESTABLISHED | CS_REPLY
    );
    assert_eq!(state(&mut ct, &mut tcp(C, S, ACK, 101, 501, b""), &look(), at(2)), CS_ESTABLISHED);
    ct
}

#[test]
fn a_tcp_connection_from_first_to_last_packet() {
    let mut ct = established();
    assert_eq!(state(&mut ct, &mut tcp(C, S, ACK, 101, 501, b"hello"), &look(), at(3)), CS_ESTABLISHED);
    let text = ct.conns(at(3))[0].text(false, false, at(3));
    assert_eq!(
        text,
        "tcp,orig=(src=10.0.0.1,dst=10.1.2.3,sport=1000,dport=80),reply=(src=10.1.2.3,dst=10.0.0.1,sport=80,\
         dport=1000),zone=5,protoinfo=(state=ESTABLISHED)"
    );
    state(&mut ct, &mut tcp(C, S, FIN_ACK, 106, 501, b""), &look(), at(4));
    state(&mut ct, &mut tcp(S, C, FIN_ACK, 501, 107, b""), &look(), at(5));
    state(&mut ct, &mut tcp(C, S, ACK, 107, 502, b""), &look(), at(6));
    assert!(ct.conns(at(6))[0].text(false, false, at(6)).ends_with("(state=TIME_WAIT)"));
    // Over after 30 seconds; removed when it is time to look.
    assert!(ct.conns(at(30_006)).is_empty());
    assert_eq!(ct.len(), 1);
    ct.run(at(40_000));
    assert_eq!(ct.len(), 0);
}

#[test]
fn packets_outside_the_window_are_invalid_unless_liberal() {
    let far = || tcp(C, S, ACK, 9_999_999, 501, b"out of window");
    let mut ct = established();
    assert_eq!(state(&mut ct, &mut far(), &look(), at(3)), CS_INVALID);
    ct.check_sequence = false;
    assert_eq!(state(&mut ct, &mut far(), &look(), at(3)), CS_ESTABLISHED);
}

#[test]
fn a_reset_must_be_exact() {
    let mut ct = established();
    assert_eq!(state(&mut ct, &mut tcp(C, S, RST, 150, 0, b""), &look(), at(3)), CS_INVALID);
    assert_eq!(state(&mut ct, &mut tcp(C, S, RST, 101, 0, b""), &look(), at(3)), CS_ESTABLISHED);
    // Reused at once: a new connection, once it is committed.
    let mut again = tcp(C, S, SYN, 7000, 0, b"");
    assert_eq!(state(&mut ct, &mut again, &commit(), at(4)), CS_NEW);
    assert_eq!(ct.conns(at(4)).len(), 1);
}

#[test]
fn what_no_connection_begins_with() {
    let mut ct = Conntrack::new(1);
    for flags in [SYN_ACK, SYN | RST, SYN | 1, 0, 1, 8] {
        let mut packet = tcp(C, S, flags, 1, 1, b"");
        assert_eq!(state(&mut ct, &mut packet, &commit(), at(0)), CS_INVALID, "flags {flags:#x}");
    }
    // Seen late: picked up.
    assert_eq!(state(&mut ct, &mut tcp(C, S, ACK, 1, 1, b""), &commit(), at(0)), CS_NEW);
    let mut bad = udp(C, S);
    bad.l4_mut().unwrap()[9] ^= 1;
    assert_eq!(state(&mut ct, &mut bad, &commit(), at(0)), CS_INVALID, "bad checksum");
    let mut trusted = udp(C, S);
    trusted.l4_mut().unwrap()[9] ^= 1;
    trusted.offloads |= crate::offload::Offloads::L4_PARTIAL;
    assert_eq!(state(&mut ct, &mut trusted, &commit(), at(0)), CS_NEW, "to be completed");
}

#[test]
fn udp_is_established_by_an_answer() {
    let mut ct = Conntrack::new(1);
    assert_eq!(state(&mut ct, &mut udp(C, S), &commit(), at(0)), CS_NEW);
    assert_eq!(state(&mut ct, &mut udp(C, S), &look(), at(1)), CS_NEW);
    assert_eq!(state(&mut ct, &mut udp(S, C), &look(), at(2)), CS_ESTABLISHED | CS_REPLY);
    assert_eq!(state(&mut ct, &mut udp(C, S), &look(), at(3)), CS_ESTABLISHED);
    assert_eq!(state(&mut ct, &mut udp(C, S), &look(), at(30_003)), CS_NEW, "over");
}

#[test]
fn translated_and_back_with_right_checksums() {
    let mut ct = Conntrack::new(1);
    let mut syn = tcp(C, S, SYN, 100, 0, b"");
    assert_eq!(state(&mut ct, &mut syn, &snat(Some((5000, 5000))), at(0)), CS_NEW | CS_SRC_NAT);
    assert_eq!(&syn.l3().unwrap()[12..16], OUTSIDE);
    assert_eq!(&syn.l4().unwrap()[..2], 5000u16.to_be_bytes());
    assert_valid(&mut syn);
    let mut answer = tcp(S, (OUTSIDE, 5000), SYN_ACK, 500, 101, b"");
    assert_eq!(state(&mut ct, &mut answer, &look(), at(1)), CS_ESTABLISHED | CS_REPLY | CS_DST_NAT);
    assert_eq!(&answer.l3().unwrap()[16..20], CLIENT);
    assert_eq!(&answer.l4().unwrap()[2..4], 1000u16.to_be_bytes());
    assert_valid(&mut answer);
    for quoted in [28, 40] {
        let mut error = unreachable([10, 1, 0, 254], &syn, quoted);
        assert_eq!(state(&mut ct, &mut error, &look(), at(2)), CS_RELATED | CS_REPLY | CS_DST_NAT);
        let l4 = error.l4().unwrap();
        assert_eq!(&l4[8 + 12..8 + 16], CLIENT, "the quoted source");
        assert_eq!(&l4[28..30], 1000u16.to_be_bytes());
        assert_eq!(checksum::internet(&l4[8..28]), [0, 0], "quoted header");
        if quoted == 40 {
            assert_eq!(&l4[28..], tcp(C, S, SYN, 100, 0, b"").l4().unwrap(), "as it was sent");
        }
        assert_valid(&mut error);
    }
}

#[test]
fn without_a_free_port_a_packet_is_dropped() {
    let mut ct = Conntrack::new(1);
    let action = snat(Some((5000, 5001)));
    for port in 1..=2 {
        assert!(ct.track(&mut udp((CLIENT, port), S), &action, at(0)).is_ok());
    }
    let mut third = udp((CLIENT, 3), S);
    assert_eq!(ct.track(&mut third, &action, at(0)), Err(DropReason::Conntrack));
    assert_eq!(ct.len(), 2);
    let mut other = udp((CLIENT, 3), (SERVER, 81));
    assert!(ct.track(&mut other, &action, at(0)).is_ok(), "another destination has ports of its own");
}

#[test]
fn limits_hold_and_what_is_over_makes_place() {
    let mut ct = Conntrack::new(1);
    ct.set_max_conns(100);
    for port in 1..=1000 {
        let mut packet = udp((CLIENT, port), S);
        assert_eq!(state(&mut ct, &mut packet, &commit(), at(0)), CS_NEW);
    }
    assert_eq!(ct.len(), 100);
    // The first of them still work.
    assert_eq!(state(&mut ct, &mut udp(S, (CLIENT, 1)), &look(), at(1)), CS_ESTABLISHED | CS_REPLY);
    assert_eq!(state(&mut ct, &mut udp((CLIENT, 2000), S), &commit(), at(61_000)), CS_NEW);
    assert_eq!(ct.conns(at(61_000)).len(), 1, "others were over");
    ct.limits.set(9, 2);
    for port in 1..=5 {
        state(&mut ct, &mut udp((CLIENT, port), S), &Ct { zone: 9, ..commit() }, at(61_000));
    }
    assert_eq!(ct.limits.get(9), (2, 2));
    ct.flush(at(61_000), |conn| conn.keys[0].zone == 9);
    assert_eq!(ct.limits.get(9), (2, 0));
}

#[test]
fn marks_and_labels_by_bit() {
    let mut ct = Conntrack::new(1);
    let set = |mark, label| Ct { mark: Some(mark), label: Some(label), ..commit() };
    state(&mut ct, &mut udp(C, S), &set((0x0f, 0xff), (1, 1)), at(0));
    let mut packet = udp(C, S);
    state(&mut ct, &mut packet, &set((0xf0, 0xf0), (1 << 127, 1 << 127)), at(1));
    let md = packet.md.ct().unwrap();
    assert_eq!((md.mark, md.label), (0xff, 1 | 1 << 127));
}

#[test]
fn ftp_active_through_translation() {
    let mut ct = Conntrack::new(1);
    let ftp = Ct { helper: Some("ftp".to_owned()), ..snat(None) };
    let control = (SERVER, 21);
    state(&mut ct, &mut tcp(C, control, SYN, 100, 0, b""), &ftp, at(0));
    state(&mut ct, &mut tcp(control, (OUTSIDE, 1000), SYN_ACK, 500, 101, b""), &look(), at(1));
    let command = b"PORT 10,0,0,1,16,1\r\n";
    let mut port = tcp(C, control, ACK, 101, 501, command);
    state(&mut ct, &mut port, &look(), at(2));
    let payload = &port.l4().unwrap()[20..];
    assert_eq!(payload, b"PORT 10,99,0,1,16,1\r\n");
    assert_valid(&mut port);
    // One byte longer from here on.
    let mut next = tcp(C, control, ACK, 101 + command.len() as u32, 501, b"QUIT\r\n");
    state(&mut ct, &mut next, &look(), at(3));
    assert_eq!(next.l4().unwrap()[4..8], (101 + command.len() as u32 + 1).to_be_bytes());
    assert_valid(&mut next);
    // The same command once more is numbered as before.
    let mut again = tcp(C, control, ACK, 101, 501, command);
    state(&mut ct, &mut again, &look(), at(4));
    assert_eq!(again.l4().unwrap()[4..8], 101u32.to_be_bytes());
    let mut data = tcp((SERVER, 20), (OUTSIDE, 4097), SYN, 1, 0, b"");
    assert_eq!(state(&mut ct, &mut data, &ftp, at(5)), CS_NEW | CS_RELATED | CS_DST_NAT);
    assert_eq!(&data.l3().unwrap()[16..20], CLIENT);
    // To a third party: refused.
    let mut bounce = tcp(C, control, ACK, 121, 501, b"PORT 10,7,7,7,16,1\r\n");
    assert_ne!(state(&mut ct, &mut bounce, &look(), at(6)) & CS_INVALID, 0);
}

#[test]
fn garbage_is_invalid_and_nothing_else() {
    let mut ct = Conntrack::new(1);
    let whole = tcp(C, S, SYN, 1, 0, b"payload").data().to_vec();
    for n in 14..whole.len() {
        let mut cut = Packet::from_frame(&whole[..n]);
        Flow::of_packet(&mut cut);
        assert_eq!(state(&mut ct, &mut cut, &commit(), at(0)), CS_INVALID, "{n} bytes");
    }
    assert!(ct.is_empty());
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut ct = established();
    let before = ct.clone();
    state(&mut ct, &mut udp(C, S), &commit(), at(3));
    ct.flush(at(3), |conn| conn.keys[0].proto == 6);
    assert_eq!((ct.len(), before.len()), (1, 1));
    assert_eq!(before.conns(at(3))[0].keys[0].proto, 6);
}

proptest! {
    /// The table finds what a plain list of connections finds.
    #[test]
    fn finds_what_a_list_finds(steps in prop::collection::vec((0u8..4, 0u8..12, 0u8..12, any::<bool>()), 1..400)) {
        let mut table = Table::new(3);
        let mut list: BTreeMap<ConnId, [ConnKey; 2]> = BTreeMap::new();
        let key = |a: u8, b: u8| {
            let mut key = ConnKey { proto: 17, ..ConnKey::default() };
            (key.src.addr[0], key.dst.addr[0], key.src.port, key.dst.port) = (a, b, 7, 7);
            key
        };
        let find = |list: &BTreeMap<ConnId, [ConnKey; 2]>, key: &ConnKey| {
            list.iter().find_map(|(&id, keys)| {
                keys.iter().position(|found| found == key).map(|dir| (id, dir == 1))
            })
        };
        for (what, a, b, translate) in steps {
            let first = key(a, b);
            let mut reply = first.reversed();
            if translate {
                reply.dst.addr[1] = 9;
            }
            match what {
                0 | 1 if find(&list, &first).is_none() && find(&list, &reply).is_none() && a != b => {
                    let conn = Conn {
                        keys: [first, reply],
                        parent: None,
                        translated: translate,
                        nat: None,
                        helper: None,
                        mark: 0,
                        label: 0,
                        proto: Proto::Icmp { replied: false },
                        expires: 10,
                        counted: None,
                        policy: 0,
                        skew: None,
                    };
                    list.insert(table.insert(conn), [first, reply]);
                }
                2 => {
                    if let Some((id, _)) = find(&list, &first) {
                        list.remove(&id);
                        prop_assert!(table.remove(id).is_some());
                        prop_assert!(table.get(id).is_none());
                    }
                }
                _ => {}
            }
            prop_assert_eq!(table.len(), list.len());
            for wanted in [first, reply, first.reversed()] {
                prop_assert_eq!(table.find(&wanted, 9), find(&list, &wanted));
                prop_assert_eq!(table.find(&wanted, 10), None);
            }
        }
    }

    /// No sequence of packets breaks anything: limits hold, and what is valid stays well-formed.
    #[test]
    fn any_packets(bytes in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..90), 1..40)) {
        let mut ct = Conntrack::new(1);
        for (i, mut bytes) in bytes.into_iter().enumerate() {
            bytes[12..14].copy_from_slice(if i % 2 == 0 { &[8, 0] } else { &[0x86, 0xdd] });
            let mut packet = Packet::from_frame(&bytes);
            Flow::of_packet(&mut packet);
            let _any = ct.track(&mut packet, &snat(None), at(i as u64));
        }
    }
}

#[test]
fn what_was_seen_of_the_connection_is_told() {
    let mut ct = Conntrack::new(7);
    let mut seen = |action: &Ct, ms| ct.track(&mut udp(C, S), action, at(ms)).unwrap();
    assert_eq!(seen(&look(), 0), ConnSeen::None);
    assert_eq!(seen(&commit(), 0), ConnSeen::Begun);
    assert_eq!(seen(&look(), 1000), ConnSeen::Found);
    assert_eq!(seen(&look(), 70_000), ConnSeen::Expired);
    assert_eq!(seen(&commit(), 70_000), ConnSeen::Renewed);
    assert_eq!(ct.run(at(70_000)), 1, "the one that was over is swept");
    // Answers begin it anew if the direction is forced.
    let force = Ct { force: true, ..commit() };
    assert_eq!(ct.track(&mut udp(S, C), &force, at(70_001)).unwrap(), ConnSeen::Renewed);
}
