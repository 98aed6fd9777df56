//! Frames against those of etherparse, and errors against their places.

use super::*;
use etherparse::PacketBuilder;
use proptest::prelude::*;

const ETH: &str = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02";

#[test]
fn agrees_with_etherparse() {
    let payload: Vec<u8> = (0..16).collect();
    let base = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let id = etherparse::VlanId::try_new(10).unwrap();
    let mut udp = Vec::new();
    base()
        .single_vlan(id)
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 63)
        .udp(1000, 53)
        .write(&mut udp, &payload)
        .unwrap();
    // etherparse sets "don't fragment".
    let text = format!("{ETH} / vlan 10 / ipv4 10.0.0.1 > 10.0.0.2 ttl 63 df / udp 1000 > 53 / 16 bytes");
    assert_eq!(parse(&text), Ok(udp));

    let (a, b) = ("fd00::1".parse::<Ipv6Addr>().unwrap(), "fd00::2".parse::<Ipv6Addr>().unwrap());
    let mut tcp = Vec::new();
    let builder = base().ipv6(a.octets(), b.octets(), 64).tcp(1, 80, 7, 500).ack(9);
    builder.write(&mut tcp, &payload).unwrap();
    let text =
        format!("{ETH} / ipv6 fd00::1 > fd00::2 / tcp 1 > 80 flags ack seq 7 ack 9 window 500 / 16 bytes");
    assert_eq!(parse(&text), Ok(tcp));

    let mut icmp = Vec::new();
    base().ipv6(a.octets(), b.octets(), 64).icmpv6_echo_request(3, 4).write(&mut icmp, &payload).unwrap();
    let text = format!("{ETH} / ipv6 fd00::1 > fd00::2 / icmpv6 echo-request id 3 seq 4 / 16 bytes");
    assert_eq!(parse(&text), Ok(icmp));
}

#[test]
fn tunnels_and_oddities() {
    let outer = format!(
        "{ETH} / ipv4 1.1.1.1 > 1.1.1.2 / udp 5 > 4789 no-csum / vxlan 42 / {ETH} / arp request 10.0.0.1 > 10.0.0.2"
    );
    let frame = parse(&outer).unwrap();
    assert_eq!(frame.len(), 14 + 20 + 8 + 8 + 14 + 28);
    assert_eq!(&frame[40..42], &[0, 0], "no UDP checksum");
    assert_eq!(&frame[46..50], &[0, 0, 42, 0]);
    let fragment = format!("{ETH} / ipv4 1.1.1.1 > 1.1.1.2 offset 8 more proto 17 / hex 00ff");
    assert_eq!(&parse(&fragment).unwrap()[20..22], &[0x20, 1]);
}

#[test]
fn lines_of_text_protocols() {
    let base = format!("{ETH} / ipv4 1.1.1.1 > 1.1.1.2 / tcp 1 > 21 flags psh,ack");
    let frame = parse(&format!("{base} / line PORT  10,0,0,1,4,1")).unwrap();
    assert_eq!(&frame[54..], b"PORT 10,0,0,1,4,1\r\n");
    assert_eq!(parse(&format!("{base} / line")).unwrap_err().to_string(), "a word is missing here");
}

#[test]
fn errors_point_at_the_word() {
    let text = format!("{ETH} / ipv4 10.0.0.1 > 10.0.0.2 tll 64");
    let error = parse(&text).unwrap_err();
    assert_eq!((&text[error.span.clone()], error.help()), ("tll", Some("did you mean `ttl`?")));
    let text = "ipv4 10.0.0.1 > 10.0.0.2";
    assert_eq!(parse(text).unwrap_err().to_string(), "a frame begins with `eth`");
    for text in
        ["", "/", "eth", &format!("{ETH} /"), &format!("{ETH} / tcp 1 > 2"), &format!("{ETH} / 70000 bytes")]
    {
        assert!(parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(eth|vlan|ipv4|udp|tcp|icmp|mpls|arp|hex|/|>|[0-9a-f:.]{1,9}|[a-zé]{1,4}| ){0,24}") {
        let _ = parse(&text);
    }
}
