use super::*;
use crate::types::PortNo;
use std::borrow::Cow;

/// Port 7 is "uplink".
struct Uplink;

impl PortNames for Uplink {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        (port == PortNo(7)).then_some(Cow::Borrowed("uplink"))
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        (name == "uplink").then_some(PortNo(7))
    }
}

/// The error of a flow, as `offset: message`.
fn refused(text: &str) -> String {
    match parse_flow(text, None) {
        Ok(flow) => panic!("{text} is accepted as {flow:?}"),
        Err(TextError { offset, message }) => format!("{offset}: {message}"),
    }
}

#[test]
fn a_flow_is_read_with_its_mask() {
    let text = "in_port(1),eth(),eth_type(0x0800),ipv4(src=10.0.0.0/255.0.0.0,proto=6,frag=no),tcp(dst=80)";
    let flow = parse_flow(text, None).unwrap();
    assert_eq!(flow.key.in_port, 1);
    assert_eq!(flow.mask.in_port, u32::MAX);
    assert_eq!(flow.key.packet_type.get(), 0);
    assert_eq!(flow.mask.nw_src.get(), 0xff00_0000);
    assert_eq!((flow.key.nw_proto, flow.mask.nw_proto), (6, 0xff));
    assert_eq!((flow.key.tp_dst.get(), flow.mask.tp_dst.get()), (80, 0xffff));
    assert_eq!(flow.mask.tp_src.get(), 0);
    // What the text leaves open, but a flow never does.
    assert_eq!(flow.mask.recirc_id, u32::MAX);
    assert_eq!(flow.mask.vlans[0].tci.get(), 0xffff);
}

#[test]
fn ports_have_names() {
    let flow = parse_flow("in_port(uplink),eth(),eth_type(0x88b5)", Some(&Uplink)).unwrap();
    assert_eq!(flow.key.in_port, 7);
    let text = format_flow(&flow.key, Some(&flow.mask), Some(&Uplink), false).to_string();
    assert_eq!(text, "recirc_id(0),in_port(uplink),eth(),eth_type(0x88b5)");
    assert_eq!(refused("eth(),in_port(uplink)"), "14: expected a port's number or name, found `uplink`");
}

#[test]
fn a_key_without_ethernet_header_is_of_a_network_packet() {
    let key = parse_key("in_port(1),eth_type(0x0800),ipv4(dst=1.2.3.4)", None).unwrap();
    assert_eq!(key.packet_type.get(), 0x1_0800);
    assert_eq!(key.dl_type.get(), 0x0800);
}

#[test]
fn a_packets_key_may_lack_parts_but_has_no_masks() {
    let key = parse_key("in_port(1),eth(),eth_type(0x0800)", None).unwrap();
    assert_eq!(key.dl_type.get(), 0x0800);
    let error = parse_key("in_port(1),eth(),eth_type(0x0800),ipv4(dst=1.2.3.4/255.0.0.0)", None);
    assert_eq!(error, Err(TextError { offset: 50, message: "no mask is allowed here".to_owned() }));
}

#[test]
fn errors_name_the_word_and_its_place() {
    for (text, error) in [
        ("in_port(1),foo(2)", "11: expected a key attribute such as `in_port(1)`, found `foo`"),
        ("in_port 1", "7: expected `(`, found ` `"),
        ("in_port(1", "9: expected `)`, found the end"),
        (
            "in_port(1),eth(sc=00:00:00:00:00:01)",
            "15: expected a member of `eth`, found `sc=00:00:00:00:00:01`",
        ),
        ("in_port(1),eth(src=00:00:00:00:00)", "19: expected an Ethernet address, found `00:00:00:00:00`"),
        ("skb_mark(0x1ffffffff)", "9: `0x1ffffffff` is out of range: at most 0xffffffff"),
        ("ipv4(ttl=256)", "9: `256` is out of range: at most 0xff"),
        ("ipv4(frag=maybe)", "10: expected `no`, `first` or `later`, found `maybe`"),
        ("ipv4(ttl=1,ttl=2)", "11: `ttl` is there twice"),
        ("recirc_id(1/2)", "11: expected `)`, found `/`"),
        (
            "ct_state(+new+old)",
            "14: expected one of the flags new, est, rel, rpl, inv, trk, snat, dnat, found `old`",
        ),
        ("ct_state(+trk+trk)", "14: this flag is there already"),
        ("ufid:123 in_port(1)", "5: expected a UUID, found `123`"),
        ("mpls(bos=1,bos=1,bos=1,bos=1)", "23: more than 3 label stack entries"),
        ("", "0: expected a key attribute such as `in_port(1)`, found the end"),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn attributes_that_do_not_fit_are_refused_where_they_are() {
    for (text, error) in [
        ("in_port(1),eth(),eth_type(0x0800),ipv4(frag=no),tcp()", "48: such a packet has no `tcp`"),
        ("in_port(1),eth(),eth_type(0x0800),ipv4(proto=6)", "34: this protocol needs `tcp(...)`"),
        ("in_port(1),eth(),eth_type(0x0806)", "17: this Ethernet type needs `arp(...)`"),
        ("in_port(1),eth(),eth_type(0x8100),vlan(vid=1)", "17: a VLAN tag needs `encap(...)`"),
        ("in_port(1),eth(),in_port(2)", "17: `in_port` is there twice"),
        ("in_port(1),tunnel(dst=1.1.1.1),eth()", "11: a tunnel needs `ttl=`"),
        ("in_port(1),eth(),eth_type(0x100)", "17: 0x0100 is a length, not an Ethernet type"),
        (
            "in_port(1),eth(),eth_type(0x8100),vlan(vid=1),encap(eth_type(0x0806),arp(op=256))",
            "69: ARP opcode 256 is not supported: it is above 255",
        ),
        (
            "in_port(1),eth(),eth_type(0x8847),mpls(bos=1,bos=1)",
            "34: `bos=1` may be set in the last label stack entry only",
        ),
        (
            "in_port(1),eth(),eth_type(0x0800),ipv4(proto=6/0xf,frag=no),tcp(dst=80)",
            "60: `tcp` cannot be matched where the protocol is not matched exactly",
        ),
        (
            "in_port(1),eth(),eth_type(0x0800/0xff00),ipv4(frag=no)",
            "41: `ipv4` cannot be matched where the Ethernet type is masked",
        ),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "encap(".repeat(depth), ")".repeat(depth));
    let nested_error = |depth| parse_flow(&nested(depth), None).unwrap_err().message;
    assert_eq!(nested_error(31), "such a packet has no `encap`");
    assert_eq!(nested_error(32), "nested more than 31 deep");
    assert_eq!(nested_error(100_000), "nested more than 31 deep");
}

#[test]
fn a_flow_of_frames_without_type_is_read_back() {
    let text = "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth(src=00:00:00:00:00:01),eth_type(0/0xffff)";
    let flow = parse_flow(text, None).unwrap();
    assert_eq!(flow.key.dl_type.get(), 0x05ff);
    assert_eq!(format_flow(&flow.key, Some(&flow.mask), None, false).to_string(), text);
}

#[test]
fn any_names_keeps_what_it_does_not_know() {
    let names = AnyNames::default();
    let (a, b) = (names.port("eth0"), names.port("veth-a"));
    assert_ne!(a, b);
    assert_eq!(names.port("eth0"), a);
    assert_eq!(names.name(b.unwrap()).as_deref(), Some("veth-a"));
    assert_eq!(names.name(PortNo(1)), None);
    assert_eq!(names.port("clone(1)"), None);
}
