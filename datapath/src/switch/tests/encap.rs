//! Headers in front of packets, and ports that know no Ethernet: frames and datapath flows as those of Open vSwitch 4.0.90, but
//! where a comment says otherwise.

use super::super::*;
use crate::trace::Off;

fn ok(switch: &mut Switch, words: &[&str]) -> String {
    switch.command(Time::ZERO, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Ports p1 to p4.
fn switch() -> Switch {
    let mut switch = Switch::new(1);
    let bridge = "ovs-vsctl add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure";
    ok(&mut switch, &bridge.split(' ').collect::<Vec<_>>());
    for n in 1..=4 {
        let port = format!("ovs-vsctl add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}");
        ok(&mut switch, &port.split(' ').collect::<Vec<_>>());
    }
    switch
}

fn rule(switch: &mut Switch, rule: &str) {
    ok(switch, &["ovs-ofctl", "-O", "OpenFlow15", "add-flow", "br0", rule]);
}

/// What leaves for a frame that comes in, each with the number of its port.
fn send(switch: &mut Switch, port: &str, hex: &str) -> Vec<String> {
    ok(switch, &["ovs-appctl", "netdev-dummy/receive", port, hex]);
    let mut out = Vec::new();
    switch.drain_tx(&mut Off, |port, packet| {
        let bytes: String = packet.send_data().iter().map(|byte| format!("{byte:02x}")).collect();
        out.push(format!("{} {bytes}", port.0));
    });
    out
}

fn flows(switch: &mut Switch) -> String {
    ok(switch, &["ovs-appctl", "dpctl/dump-flows", "--names"])
}

const INNER: &str =
    "000000000002000000000001080045000020000100004011f6c8c0000201c000020200010002000cb70861626364";
const IPV4: &str = "45000020000100004011f6c8c0000201c000020200010002000cb70861626364";

/// Case d-clone-encap.
#[test]
fn a_header_that_is_pushed_in_a_clone_stays_there() {
    let mut switch = switch();
    rule(&mut switch, "in_port=1,ip actions=clone(encap(nsh(md_type=1)),encap(ethernet),output:2),output:3");
    let nsh = "0fc60103000000ff00000000000000000000000000000000";
    let wanted = [format!("2 000000000000000000000000894f{nsh}{INNER}"), format!("3 {INNER}")];
    assert_eq!(send(&mut switch, "p1", INNER), wanted);
    let pushed = "clone(push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x0,si=255,c1=0x0,c2=0x0,c3=0x0,c4=0x0),\
                  push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),p2),p3\n";
    assert!(flows(&mut switch).ends_with(pushed));
    let mut switch = self::switch();
    rule(&mut switch, "in_port=1,ip actions=clone(dec_ttl,output:2),output:3");
    send(&mut switch, "p1", INNER);
    assert!(flows(&mut switch).ends_with("actions:set(ipv4(ttl=63)),p2,set(ipv4(ttl=64)),p3\n"));
}

#[test]
fn nsh_of_both_metadata_types_is_pushed_with_what_was_set() {
    let mut switch = switch();
    rule(
        &mut switch,
        "in_port=1 actions=encap(nsh(md_type=1)),set_field:0x1234->nsh_spi,set_field:0x11223344->nsh_c1,\
         encap(ethernet),set_field:11:22:33:44:55:66->dl_dst,2",
    );
    rule(
        &mut switch,
        "in_port=3 actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678),tlv(0x2000,20,0xfedcba9876543210))),\
         set_field:0x1234->nsh_spi,encap(ethernet),2",
    );
    rule(&mut switch, "in_port=4,ip actions=decap(),encap(nsh),dec_nsh_ttl,encap(ethernet),2");
    let wanted =
        format!("2 112233445566000000000000894f0fc60103001234ff11223344000000000000000000000000{INNER}");
    assert_eq!(send(&mut switch, "p1", INNER), [wanted]);
    let wanted = format!(
        "2 000000000000000000000000894f0fc70203001234ff10000a041234567820001408fedcba9876543210{INNER}"
    );
    assert_eq!(send(&mut switch, "p3", INNER), [wanted]);
    let wanted =
        format!("2 000000000000000000000000894f0f860101000000ff00000000000000000000000000000000{IPV4}");
    assert_eq!(send(&mut switch, "p4", INNER), [wanted]);
}

#[test]
fn a_header_that_is_written_leaves_the_rest_of_it_alone() {
    let mut switch = switch();
    // Open vSwitch writes bytes that it never set into the context headers here.
    rule(&mut switch, "in_port=1 actions=encap(nsh),encap(ethernet),2,set_field:9->nsh_ttl,3");
    let frame = |base: &str| format!("000000000000000000000000894f{base}{}{INNER}", "00".repeat(16));
    let wanted = [format!("2 {}", frame("0fc60103000000ff")), format!("3 {}", frame("02460103000000ff"))];
    assert_eq!(send(&mut switch, "p1", INNER), wanted);
    rule(
        &mut switch,
        "in_port=4,dl_type=0x894f,actions=set_field:0x55->nsh_si,move:nsh_c1->nsh_c2,dec_nsh_ttl,3",
    );
    let nsh = "000000000002000000000001894f0fc601030000050200000010000000200000000300000004";
    let wanted = "3 000000000002000000000001894f0f860103000005550000001000000010000000030000000408004500";
    assert_eq!(send(&mut switch, "p4", &format!("{nsh}08004500")), [wanted]);
    assert!(flows(&mut switch).contains("set(nsh(ttl=62,si=85,c1=0x10,c2=0x10)),p3\n"));
    // A time to live that is over goes to the controller.
    assert_eq!(send(&mut switch, "p4", &nsh.replace("0fc6", "0046")), Vec::<String>::new());
    assert_eq!(switch.ofproto().n_packet_ins(), 1);
}

#[test]
fn what_is_behind_a_header_is_looked_up_again() {
    let mut switch = switch();
    rule(&mut switch, "in_port=1,ip actions=encap(nsh),encap(ethernet),decap(),decap(),3");
    rule(&mut switch, "in_port=3,dl_type=0x894f,nsh_mdtype=1,actions=decap(),decap(),table");
    rule(&mut switch, "in_port=3,ip actions=4");
    assert_eq!(send(&mut switch, "p1", INNER), [format!("3 {INNER}")]);
    let told = flows(&mut switch);
    assert!(
        told.contains("push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),pop_eth,pop_nsh(),recirc(0x1)"),
        "{told}"
    );
    let context = "00000010000000200000000300000004";
    let nsh = format!("000000000002000000000001894f0fc6010300000502{context}{INNER}");
    assert_eq!(send(&mut switch, "p3", &nsh), [format!("4 {INNER}")]);
    // Behind this one there is IPv4, which no rule has a place for.
    let nsh = format!("000000000002000000000001894f0fc6010100000502{context}{IPV4}");
    assert_eq!(send(&mut switch, "p3", &nsh), Vec::<String>::new());
    let wanted = "packet_type(ns=1,id=0x800),eth_type(0x0800),ipv4(frag=no), packets:0";
    assert!(flows(&mut switch).contains(wanted), "{}", flows(&mut switch));
}

#[test]
fn labels_go_in_front_of_a_whole_frame() {
    let mut switch = switch();
    rule(&mut switch, "in_port=1 actions=encap(mpls),set_field:5->mpls_label,encap(ethernet),2");
    rule(&mut switch, "in_port=3,ip actions=decap(),encap(mpls),encap(ethernet),2");
    rule(
        &mut switch,
        "in_port=4 actions=encap(mpls_mc),encap(ethernet),2,decap(),decap(packet_type(ns=0,type=0)),3",
    );
    assert_eq!(send(&mut switch, "p1", INNER), [format!("2 000000000000000000000000884700005140{INNER}")]);
    assert_eq!(send(&mut switch, "p3", INNER), [format!("2 000000000000000000000000884700000140{IPV4}")]);
    let wanted = [format!("2 000000000000000000000000884800000140{INNER}"), format!("3 {INNER}")];
    assert_eq!(send(&mut switch, "p4", INNER), wanted);
    let told = flows(&mut switch);
    assert!(told.contains("actions:add_mpls(label=5,tc=0,ttl=64,bos=1,eth_type=0x8847),push_eth("), "{told}");
    assert!(told.contains("p2,pop_eth,pop_mpls(eth_type=0x6558),recirc("), "{told}");
}

#[test]
fn what_cannot_be_put_in_front_is_an_error() {
    let mut switch = switch();
    rule(&mut switch, "in_port=1 actions=encap(ethernet),3");
    rule(&mut switch, "in_port=2,ip actions=push_vlan:0x8100,decap(),3");
    rule(&mut switch, "in_port=3,ip actions=encap(nsh),1");
    for (flow, told) in [
        (
            "in_port=1,ip",
            "    Dropping packet as encap(ethernet) is not supported for packet type ethernet.\n",
        ),
        ("in_port=2,ip", "    Dropping packet, cannot decap Ethernet if VLAN is present.\n"),
    ] {
        let text = ok(&mut switch, &["ovs-appctl", "ofproto/trace", "br0", flow]);
        assert!(text.contains(told), "{text}");
        assert!(
            text.ends_with("\nTranslation failed (Unsupported packet type), packet is dropped.\n"),
            "{text}"
        );
    }
    let text = ok(&mut switch, &["ovs-appctl", "ofproto/trace", "br0", "in_port=3,ip"]);
    let told = "     >> Trying to send non-Ethernet packet through legacy L2 port. Dropping packet.\n";
    assert!(text.contains(told), "{text}");
}

#[test]
fn flows_whose_mask_says_more_than_their_text_go_when_they_are_revalidated() {
    let mut switch = switch();
    rule(&mut switch, "in_port=1,ip actions=encap(nsh),dec_nsh_ttl,encap(ethernet),4");
    rule(&mut switch, "in_port=2,ip actions=encap(ethernet),4");
    rule(&mut switch, "in_port=3,ip actions=encap(nsh),encap(ethernet),4");
    for port in ["p1", "p2", "p3"] {
        send(&mut switch, port, INNER);
    }
    assert_eq!(flows(&mut switch).lines().count(), 3);
    rule(&mut switch, "in_port=4 actions=drop");
    switch.settle(Time::ZERO, &mut Off);
    let told = flows(&mut switch);
    assert!(told.contains("in_port(p3)") && told.lines().count() == 1, "{told}");
}

/// A bridge with tunnels on an underlay: GRE ports of each kind.
fn tunnels() -> Switch {
    let mut switch = switch();
    for line in [
        "ovs-vsctl add-br under -- set Bridge under datapath_type=dummy other-config:hwaddr=aa:55:aa:55:00:00",
        "ovs-vsctl add-port under u1 -- set Interface u1 type=dummy ofport_request=1",
        "ovs-appctl netdev-dummy/ip4addr under 1.1.2.88/24",
        "ovs-appctl tnl/neigh/set under 1.1.2.92 f8:bc:12:44:34:b6",
        "ovs-vsctl add-port br0 g3 -- set Interface g3 type=gre ofport_request=13 options:remote_ip=1.1.2.92 options:key=3 options:packet_type=legacy_l3",
        "ovs-vsctl add-port br0 g2 -- set Interface g2 type=gre ofport_request=12 options:remote_ip=1.1.2.92 options:key=2",
        "ovs-ofctl add-flow under actions=NORMAL",
    ] {
        ok(&mut switch, &line.split(' ').collect::<Vec<_>>());
    }
    switch
}

#[test]
fn a_port_that_knows_no_ethernet_gets_none_and_gives_none() {
    let mut switch = tunnels();
    rule(&mut switch, "in_port=1,ip actions=13");
    rule(&mut switch, "in_port=13 actions=mod_dl_dst:00:00:00:00:00:05,1");
    let outer = "f8bc124434b6aa55aa55000008004500003c00004000402f33de010102580101025c2000080000000003";
    let sent = send(&mut switch, "p1", INNER);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].ends_with(&format!(" {outer}{IPV4}")), "{sent:?}");
    let told = flows(&mut switch);
    assert!(told.contains("actions:pop_eth,tnl_push(tnl_port(gre_sys),"), "{told}");
    let outer = "aa55aa550000f8bc124434b608004500003c00004000402f33de0101025c010102582000080000000003";
    let sent = send(&mut switch, "u1", &format!("{outer}{IPV4}"));
    assert_eq!(sent, [format!("1 0000000000050000000000000800{IPV4}")]);
}

/// Open vSwitch 4.0.90 aborts on the first rule, and writes the tag of the second into the IP header.
#[test]
fn behind_such_a_port_the_frame_is_whole_again() {
    let mut switch = tunnels();
    rule(&mut switch, "in_port=1,ip actions=13,2");
    rule(&mut switch, "in_port=3,ip actions=push_vlan:0x8100,set_field:4103->vlan_vid,13,2");
    let sent = send(&mut switch, "p1", INNER);
    assert_eq!(sent.len(), 2);
    assert!(sent[0].ends_with(&format!("0000000003{IPV4}")) && sent[1] == format!("2 {INNER}"), "{sent:?}");
    let sent = send(&mut switch, "p3", INNER);
    assert_eq!(sent.len(), 2);
    let tagged = format!("2 {}81000007{}", &INNER[..24], &INNER[24..]);
    assert!(sent[0].ends_with(&format!("0000000003{IPV4}")) && sent[1] == tagged, "{sent:?}");
}
