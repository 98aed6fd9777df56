//! Tunnels by the commands that make them; frames are those of real Open vSwitch 4.0.90 on the same input.

use super::*;

/// Two bridges, an underlay with a port `p30` and an inner one with a port `p21`; the UDP source port is fixed.
fn tunnel_switch(interfaces: &str) -> Switch {
    let mut switch = Switch::new(1);
    let mut script = String::from(
        "ovs-vsctl add-br br0\novs-vsctl add-port br0 p30 -- set Interface p30 type=dummy ofport_request=1\n\
         ovs-vsctl add-br int-br -- set-fail-mode int-br secure\n\
         ovs-vsctl add-port int-br p21 -- set Interface p21 type=dummy ofport_request=1\n",
    );
    script.push_str(interfaces);
    script.push_str(
        "ovs-appctl netdev-dummy/ip4addr br0 1.1.2.88/24\novs-appctl netdev-dummy/ip6addr br0 2001:cafe::88/64\n\
         ovs-appctl tnl/neigh/set br0 1.1.2.92 f8:bc:12:44:34:b6\n\
         ovs-appctl tnl/neigh/set br0 2001:cafe::92 f8:bc:12:44:34:b6\n\
         ovs-appctl tnl/egress_port_range 57363 57363\n",
    );
    run(&mut switch, &script);
    switch
}

pub(super) fn run(switch: &mut Switch, script: &str) -> String {
    let mut out = String::new();
    for line in script.lines() {
        let argv: Vec<&str> = line.split(' ').collect();
        out.push_str(&switch.command(Time::ZERO, &argv).unwrap_or_else(|error| panic!("{line}: {error}")));
    }
    out
}

pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().map(|b| (b as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Sends a frame, and tells what left by which ports.
pub(super) fn pass(switch: &mut Switch, port: &str, frame: &[u8], now: Time) -> Vec<(String, Vec<u8>)> {
    let port = switch.port_named(port).unwrap().no.unwrap();
    let mut packet = switch.allocate();
    packet.set_frame(frame);
    let mut batch = Batch::new();
    batch.push(packet).unwrap();
    switch.receive(port, &mut batch, now, &mut Off);
    let mut sent = Vec::new();
    switch.drain_tx(&mut Off, |port, packet| sent.push((port, packet.data().to_vec())));
    assert!(switch.datapath().counters().balanced());
    let name = |no| switch.port(no).unwrap().device.name.clone();
    sent.into_iter().map(|(no, frame)| (name(no), frame)).collect()
}

const INNER: &str = "505400000002505400000001080045000068000000004006658f0b0000010a00000103e80050000000000000000050000000\
                     b2670000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b\
                     2c2d2e2f303132333435363738393a3b3c3d3e3f";

#[test]
fn vxlan_there_and_back() {
    let mut switch = tunnel_switch(
        "ovs-vsctl add-port int-br v1 -- set Interface v1 type=vxlan options:remote_ip=1.1.2.92 options:key=123 \
         options:csum=true ofport_request=11\n\
         ovs-ofctl add-flow int-br in_port=1,actions=output:11\novs-ofctl add-flow int-br in_port=11,actions=output:1\n",
    );
    let outer = "f8bc124434b6aa55aa55000008004500009a000040004011339e010102580101025ce01312b50086ef130800000000007b00";
    let expected = [("p30".to_owned(), bytes(&format!("{outer}{INNER}")))];
    for _ in 0..3 {
        assert_eq!(pass(&mut switch, "p21", &bytes(INNER), Time::ZERO), expected, "by upcall and by cache");
    }
    let received = "aa55aa550000f8bc124434b608004500004e00004000401133ea0101025c01010258e01312b5003a00000800000000007b00";
    let inner = "ffffffffffff04bf1bd82d2d080600010800060400018abf7e2f0584c0a80111000000000000c0a87b01";
    let expected = [("p21".to_owned(), bytes(inner))];
    for _ in 0..3 {
        let frame = bytes(&format!("{received}{inner}"));
        assert_eq!(pass(&mut switch, "p30", &frame, Time::ZERO), expected);
    }
    let bad_checksum = received.replace("33ea", "33eb");
    assert!(pass(&mut switch, "p30", &bytes(&format!("{bad_checksum}{inner}")), Time::ZERO).is_empty());
    let flows = run(&mut switch, "ovs-appctl dpctl/dump-flows --names");
    assert!(
        flows.contains("tunnel(tun_id=0x7b,src=1.1.2.92,dst=1.1.2.88,flags(-df-csum+key))")
            || flows.contains("flags(+key)"),
        "{flows}"
    );
    assert!(flows.contains("actions:tnl_pop(vxlan_sys_4789)"), "{flows}");
}

/// A neighbour that is not known is asked for once a second, and its answer is what the next packet goes by.
#[test]
fn an_unknown_neighbour_is_asked_for() {
    let mut switch = tunnel_switch(
        "ovs-vsctl add-port int-br v1 -- set Interface v1 type=vxlan options:remote_ip=1.1.2.93 options:key=1 ofport_request=11\n\
         ovs-ofctl add-flow int-br in_port=1,actions=output:11\n",
    );
    let request = bytes(
        "ffffffffffffaa55aa550000080600010800060400 01aa55aa550000010102580000000000000101025d"
            .replace(' ', "")
            .as_str(),
    );
    let first = pass(&mut switch, "p21", &bytes(INNER), Time::ZERO);
    assert_eq!(first, [("p30".to_owned(), request.clone())]);
    assert!(pass(&mut switch, "p21", &bytes(INNER), Time::from_millis(500)).is_empty(), "it waits");
    switch.run(Time::from_millis(1500), &mut Off);
    let mut again = pass(&mut switch, "p21", &bytes(INNER), Time::from_millis(1500));
    again.retain(|(_, frame)| *frame == request);
    assert!(again.len() <= 1);
    let reply = bytes(
        "aa55aa55000002000000000908060001080006040002020000000009 0101025daa55aa55000001010258"
            .replace(' ', "")
            .as_str(),
    );
    let now = Time::from_millis(1600);
    assert!(!pass(&mut switch, "p30", &reply, now).iter().any(|(port, _)| port == "p21"));
    let sent = pass(&mut switch, "p21", &bytes(INNER), now);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1[..6], [2, 0, 0, 0, 0, 9], "the answer was seen");
}

#[test]
fn ports_come_and_go() {
    let mut switch = tunnel_switch(
        "ovs-vsctl add-port int-br v1 -- set Interface v1 type=vxlan options:remote_ip=1.1.2.92 options:key=1\n\
         ovs-vsctl add-port int-br v2 -- set Interface v2 type=vxlan options:remote_ip=1.1.2.92 options:key=2\n",
    );
    let ports = |switch: &mut Switch| run(switch, "ovs-appctl tnl/ports/show");
    assert_eq!(ports(&mut switch), "Listening ports:\nvxlan_sys_4789 (4789) ref_cnt=2\n");
    let same = "add-port int-br v3 -- set Interface v3 type=vxlan options:remote_ip=1.1.2.92 options:key=2";
    let argv: Vec<&str> = std::iter::once("ovs-vsctl").chain(same.split(' ')).collect();
    let error = switch.command(Time::ZERO, &argv).unwrap_err().to_string();
    assert!(error.contains("same config as port 'v2'"), "{error}");
    run(&mut switch, "ovs-vsctl set Interface v2 options:dst_port=4790");
    assert_eq!(
        ports(&mut switch),
        "Listening ports:\nvxlan_sys_4789 (4789) ref_cnt=1\nvxlan_sys_4790 (4790) ref_cnt=1\n"
    );
    run(&mut switch, "ovs-vsctl del-port v1\novs-vsctl del-port v2");
    assert_eq!(ports(&mut switch), "Listening ports:\n");
    assert!(switch.datapath().port(PortNo(4789)).is_none());
}

/// As scenario "tunnel-encap-decap" sends it, and the way back by the option.
#[test]
fn geneve_with_an_option() {
    let mut switch = tunnel_switch(
        "ovs-vsctl add-port int-br gn1 -- set Interface gn1 type=geneve options:remote_ip=flow options:key=flow ofport_request=13\n\
         ovs-ofctl add-tlv-map int-br {class=0xffff,type=0x1,len=4}->tun_metadata0\n\
         ovs-ofctl add-flow int-br in_port=1,actions=set_field:1.1.2.92->tun_dst,set_field:0x77->tun_id,set_field:0xa->tun_metadata0,output:13\n\
         ovs-ofctl add-flow int-br in_port=13,tun_metadata0=0xa,actions=output:1\n",
    );
    let outer = "f8bc124434b6aa55aa5500000800450000a20000400040113396010102580101025ce01317c1008e00000200655800007700ffff01010000000a";
    let sent = pass(&mut switch, "p21", &bytes(INNER), Time::ZERO);
    assert_eq!(sent, [("p30".to_owned(), bytes(&format!("{outer}{INNER}")))]);
    // Back: the addresses the other way round, which the checksum does not mind.
    let back = outer
        .replace("f8bc124434b6aa55aa550000", "aa55aa550000f8bc124434b6")
        .replace("010102580101025c", "0101025c01010258");
    for (option, expected) in [("0000000a", 1), ("0000000b", 0), ("0000000a", 1)] {
        let frame = bytes(&format!("{}{INNER}", back.replace("0000000a", option)));
        let sent = pass(&mut switch, "p30", &frame, Time::ZERO);
        assert_eq!(
            sent.iter().filter(|(port, frame)| port == "p21" && *frame == bytes(INNER)).count(),
            expected
        );
    }
    let argv = ["ovs-ofctl", "del-tlv-map", "int-br"];
    let error = switch.command(Time::ZERO, &argv).unwrap_err().to_string();
    assert!(error.contains("NXTTMFC_INVALID_TLV_DEL"), "{error}");
    run(&mut switch, "ovs-ofctl del-flows int-br\novs-ofctl del-tlv-map int-br");
    let argv = ["ovs-ofctl", "add-flow", "int-br", "tun_metadata0=1,actions=drop"];
    let error = switch.command(Time::ZERO, &argv).unwrap_err().to_string();
    assert!(error.contains("NXFMFC_INVALID_TLV_FIELD"), "{error}");
}
