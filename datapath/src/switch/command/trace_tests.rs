//! Traces as they are asked for, word for word as Open vSwitch 4.0.90 answers.

use super::tests::{ok, refusal, run, switch};
use super::*;

/// What a trace tells from the line that starts with `start` on.
fn tail<'a>(text: &'a str, start: &str) -> &'a str {
    let at = text.find(start).unwrap_or_else(|| panic!("no {start:?} in {text}"));
    &text[at..]
}

#[test]
fn a_trace_goes_on_behind_the_connection_tracker() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 ip,in_port=1,actions=ct(zone=5,table=1)");
    ok(&mut switch, "ovs-ofctl add-flow br0 table=1,ip,ct_zone=5,ct_state=+est,actions=2");
    ok(&mut switch, "ovs-ofctl add-flow br0 table=1,ip,ct_zone=5,ct_state=+new,actions=drop");
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=1,udp");
    let line = "=".repeat(79);
    let wanted = format!(
        "Datapath actions: ct(zone=5),recirc(0x1)\n\n{line}\n\
         recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)\n{line}\n\n\
         Flow: recirc_id=0x1,ct_state=new|trk,ct_zone=5,eth,udp,in_port=1,vlan_tci=0x0000,\
         dl_src=00:00:00:00:00:00,dl_dst=00:00:00:00:00:00,nw_src=0.0.0.0,nw_dst=0.0.0.0,nw_tos=0,nw_ecn=0,\
         nw_ttl=0,nw_frag=no,tp_src=0,tp_dst=0\n\nbridge(\"br0\")\n-------------\n    thaw\n        \
         Resuming from table 1\n 1. ct_state=+new,ct_zone=5,ip, priority 32768\n    drop\n\n\
         Final flow: unchanged\nMegaflow: recirc_id=0x1,ct_state=+new-est,ct_zone=5,eth,ip,in_port=1,nw_frag=no\n\
         Datapath actions: drop"
    );
    assert_eq!(tail(&text, "Datapath actions"), wanted);
    // Ids are not given out twice, not even those of traces.
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=1,udp --ct-next trk,est --names");
    let told = tail(&text, "recirc(0x2) -");
    assert!(told.starts_with("recirc(0x2) - resume conntrack with ct_state=est|trk\n"), "{told}");
    assert!(told.ends_with("in_port=p1,nw_frag=no\nDatapath actions: p2"), "{told}");
    assert!(switch.ofproto().recircs().len() <= 2, "nothing refers to them any more");
    switch.run(Time::from_millis(300), &mut crate::trace::Off);
    assert!(switch.ofproto().recircs().is_empty());
}

#[test]
fn a_trace_assumes_the_first_address_of_a_translation() {
    let mut switch = switch();
    let rule = "ip,actions=ct(commit,zone=5,nat(src=1.2.3.4-1.2.3.9:100-200),table=1)";
    run(&mut switch, &["ovs-ofctl", "add-flow", "br0", rule]).unwrap();
    let rule = "ipv6,actions=ct(commit,nat(dst=[fe80::1]:80),table=1)";
    run(&mut switch, &["ovs-ofctl", "add-flow", "br0", rule]).unwrap();
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=2,udp,udp_src=7");
    let wanted = "Replacing src/dst IP/ports to simulate NAT:
 Initial flow: nw_src=0.0.0.0,tp_src=7,nw_dst=0.0.0.0,tp_dst=0
 Modified flow: nw_src=1.2.3.4,tp_src=100,nw_dst=0.0.0.0,tp_dst=0
==";
    assert!(tail(&text, "Replacing").starts_with(wanted), "{text}");
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=2,udp6,udp_src=7");
    let wanted = " Modified flow: ipv6_src=[::],tp_src=7,ipv6_dst=[fe80::1],tp_dst=80\n";
    assert!(tail(&text, " Modified").starts_with(wanted), "{text}");
}

#[test]
fn actions_may_be_traced_in_place_of_rules() {
    let mut switch = switch();
    let text = ok(&mut switch, "ovs-appctl ofproto/trace-packet-out br0 in_port=1,udp output:2");
    assert!(
        text.ends_with(
            "bridge(\"br0\")\n-------------\n    output:2\n\nFinal flow: unchanged\n\
                            Megaflow: recirc_id=0,eth,ip,in_port=1,nw_frag=no\nDatapath actions: 2"
        ),
        "{text}"
    );
    // As in OVS, where the actions are taken up again behind the tracker.
    let text = ok(&mut switch, "ovs-appctl ofproto/trace-packet-out br0 in_port=1,udp ct(table=1)");
    let told = tail(&text, "thaw\n");
    assert!(told.starts_with("thaw\n     >>>> Recirculation conflict (actions)! <<<<\n"), "{told}");
    assert!(told.ends_with("Translation failed (Recirculation conflict), packet is dropped.\n"), "{told}");
    let words =
        ["ovs-appctl", "ofproto/trace-packet-out", "-consistent", "br0", "in_port=1", "mod_nw_src:1.2.3.4"];
    assert_eq!(refusal(&mut switch, &words).to_string(), "Bad actions: OFPBAC_MATCH_INCONSISTENT");
}

#[test]
fn a_trace_of_a_packet_has_its_effects() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 ip,actions=controller,NORMAL,ct(commit)");
    ok(
        &mut switch,
        "ovs-appctl ofproto/trace br0 in_port=1,udp,dl_src=02:00:00:00:00:01,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,udp_src=1,udp_dst=2",
    );
    assert_eq!(
        (switch.ofproto().n_packet_ins(), ok(&mut switch, "ovs-appctl dpctl/dump-conntrack").len()),
        (0, 0)
    );
    let flow = "ovs-appctl ofproto/trace br0 in_port=1,udp,dl_src=02:00:00:00:00:01,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,udp_src=1,udp_dst=2 --generate";
    let text = ok(&mut switch, flow);
    assert!(text.contains("learned that 02:00:00:00:00:01 is on port p1"), "{text}");
    assert_eq!(switch.ofproto().n_packet_ins(), 1);
    assert!(ok(&mut switch, "ovs-appctl dpctl/dump-conntrack").contains("src=10.0.0.1"));
    let mut sent = 0;
    switch.drain_tx(&mut crate::trace::Off, |_, _| sent += 1);
    assert_eq!(sent, 0, "nothing is sent");
}

#[test]
fn a_packet_in_hexadecimal_says_all_but_its_port() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=2,dl_type=0x1234,actions=3");
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=2 50540000000a5054000000091234");
    assert!(text.starts_with("Flow: in_port=2,vlan_tci=0x0000,dl_src=50:54:00:00:00:09,dl_dst=50:54:00:00:00:0a,dl_type=0x1234\n"), "{text}");
    assert!(text.ends_with("Datapath actions: 3"), "{text}");
    for (words, message) in [
        ("br0 in_port=2 1234", "ovs-appctl: Packet data too short for Ethernet"),
        ("br0 in_port=2 frob", "ovs-appctl: Trailing garbage in packet data"),
        ("br0 in_port=2 frob 1 2", "ovs-appctl: too many arguments"),
        ("br0 frob", "ovs-appctl: Bad openflow flow syntax: frob: unknown field frob"),
        ("br9 udp", "br9: unknown bridge"),
        ("br0 udp,tcp", "ovs-appctl: Bad openflow flow syntax: udp,tcp: Ethernet type set multiple times"),
        (
            "br0 in_port=p1,udp_src=1",
            "ovs-appctl: Bad openflow flow syntax: in_port=p1,udp_src=1: prerequisites not met for setting udp_src",
        ),
        (
            "br0 udp,udp_src=1/2",
            "ovs-appctl: Bad openflow flow syntax: udp,udp_src=1/2: bad value for udp_src (1/2: wildcards not allowed here)",
        ),
        (
            "br0 udp,udp_src=1,udp_src=2",
            "ovs-appctl: Bad openflow flow syntax: udp,udp_src=1,udp_src=2: field udp_src set multiple times",
        ),
        ("br0 udp --ct-next frob", "ovs-appctl: frob: unknown connection tracking state flag"),
        (
            "br0 udp --ct-next new",
            "ovs-appctl: new: invalid connection state: If \"trk\" is unset, no other flags are set",
        ),
        (
            "br0 udp --ct-next trk,inv,est",
            "ovs-appctl: est|inv|trk: invalid connection state: when \"inv\" is set, only \"trk\" may also be set",
        ),
        ("br0 udp --ct-next", "ovs-appctl: option '--ct-next' requires an argument"),
        ("br0 udp --l7-len 64001", "ovs-appctl: 64001: too much L7 data"),
    ] {
        let argv: Vec<&str> = ["ovs-appctl", "ofproto/trace"].into_iter().chain(words.split(' ')).collect();
        assert_eq!(refusal(&mut switch, &argv).to_string(), message, "{words}");
    }
}
