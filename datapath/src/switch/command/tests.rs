//! Commands as they are typed, and what they do to the switch.

use super::*;

fn run(switch: &mut Switch, words: &[&str]) -> Result<String, CommandError> {
    switch.command(Time::ZERO, words)
}

fn ok(switch: &mut Switch, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    run(switch, &words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refusal(switch: &mut Switch, words: &[&str]) -> CommandError {
    run(switch, words).expect_err("this is wrong")
}

fn switch() -> Switch {
    let mut switch = Switch::new(1);
    ok(&mut switch, "ovs-vsctl add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure");
    for n in 1..=3 {
        let port = format!("ovs-vsctl add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}");
        ok(&mut switch, &port);
    }
    switch
}

#[test]
fn a_chain_is_carried_out_whole_or_not_at_all() {
    let mut switch = switch();
    let chain = "ovs-vsctl add-port br0 p4 -- set Interface p4 type=vxlan";
    let words: Vec<&str> = chain.split_whitespace().collect();
    assert!(refusal(&mut switch, &words).to_string().contains("vxlan"));
    assert!(switch.port_named("p4").is_none());
    assert_eq!(ok(&mut switch, "ovs-vsctl list-ports br0"), "p1\np2\np3\n");
    assert_eq!(ok(&mut switch, "ovs-vsctl get Interface p2 ofport"), "2\n");
}

#[test]
fn a_wrong_rule_or_flow_points_at_its_word() {
    let mut switch = switch();
    let place = |error: CommandError| match error {
        CommandError::Parse(error) => (error.arg, error.offset),
        CommandError::Refused(text) => panic!("{text}"),
    };
    let rule = "in_port=1,actions=frob";
    assert_eq!(place(refusal(&mut switch, &["ovs-ofctl", "add-flow", "br0", rule])), (3, 18));
    let flow = ["ovs-appctl", "dpctl/add-flow", "in_port(p1),eth(),eth_type(0x806),frob()", "p2"];
    assert_eq!(place(refusal(&mut switch, &flow)), (2, 34));
    assert!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0").is_empty());
}

#[test]
fn a_trace_takes_openflow_and_datapath_syntax() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=1,ip,nw_dst=10.0.0.2,actions=output:2");
    let flow = "in_port(p1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
                ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)";
    let text = run(&mut switch, &["ovs-appctl", "ofproto/trace", "br0", flow]).unwrap();
    assert!(text.contains("nw_src=10.0.0.1,nw_dst=10.0.0.2"), "{text}");
    assert!(text.ends_with("Datapath actions: 2"), "{text}");
    let text = ok(&mut switch, "ovs-appctl ofproto/trace br0 in_port=1,ip,nw_dst=10.0.0.3");
    assert!(text.ends_with("Datapath actions: drop"), "{text}");
    assert_eq!(switch.datapath().flows().len(), 0, "a trace changes nothing");
}

#[test]
fn a_column_set_whole_forgets_its_other_keys() {
    let mut switch = switch();
    ok(&mut switch, "ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2 other_config:max-idle=5000");
    assert_eq!((switch.datapath().config().vlan_limit, switch.config().max_idle.0), (2, 5_000_000_000));
    ok(&mut switch, "ovs-vsctl set Open_vSwitch . other_config:max-idle=6000");
    assert_eq!(switch.datapath().config().vlan_limit, 2);
    ok(&mut switch, "ovs-vsctl clear Open_vSwitch . other_config");
    assert_eq!((switch.datapath().config().vlan_limit, switch.config().max_idle.0), (1, 10_000_000_000));
    ok(&mut switch, "ovs-vsctl set Port p1 tag=10 vlan_mode=native-tagged");
    ok(&mut switch, "ovs-vsctl clear Port p1 vlan_mode");
    let port = switch.port_named("p1").unwrap();
    assert_eq!((port.vlan.tag, port.vlan.mode), (Some(10), None));
}

#[test]
fn dumps_keep_to_what_was_asked_for() {
    let mut switch = switch();
    for id in [1, 2] {
        ok(&mut switch, &format!("ovs-ofctl add-group br0 group_id={id},type=all,bucket=output:{id}"));
    }
    let all = ok(&mut switch, "ovs-ofctl dump-groups br0");
    assert_eq!(all.lines().count(), 3, "{all}");
    let one = ok(&mut switch, "ovs-ofctl dump-groups br0 2");
    let group =
        "NXST_GROUP_DESC reply (xid=0x2):\n group_id=2,type=all,bucket=bucket_id:0,actions=output:2\n";
    assert_eq!(one, group);
    let one = ok(&mut switch, "ovs-ofctl -O OpenFlow11 dump-groups br0 2");
    assert_eq!(
        one,
        "OFPST_GROUP_DESC reply (OF1.1) (xid=0x2):\n group_id=2,type=all,bucket=actions=output:2\n"
    );
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=1,actions=2");
    let rule =
        "cookie=0x0, duration=0s, table=0, n_packets=0, n_bytes=0, idle_age=0, in_port=1 actions=output:2\n";
    assert_eq!(ok(&mut switch, "ovs-ofctl dump-flows br0"), format!("NXST_FLOW reply (xid=0x4):\n {rule}"));
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), " in_port=1 actions=output:2\n");
    ok(&mut switch, "ovs-appctl dpctl/add-flow in_port(p1),eth(),eth_type(0x806),arp() p2");
    let dump = ok(&mut switch, "ovs-appctl dpctl/dump-flows --names");
    let flow =
        "recirc_id(0),in_port(p1),eth(),eth_type(0x0806), packets:0, bytes:0, used:never, actions:p2\n";
    assert_eq!(dump, flow);
    assert_eq!(ok(&mut switch, "ovs-appctl dpctl/dump-flows --names type=ovs"), dump);
    assert_eq!(ok(&mut switch, "ovs-appctl dpctl/dump-flows type=offloaded"), "");
    ok(&mut switch, "ovs-appctl dpctl/del-flow in_port(p1),eth(),eth_type(0x806),arp()");
    assert_eq!(ok(&mut switch, "ovs-appctl dpctl/dump-flows"), "");
}

#[test]
fn the_version_decides_what_a_match_on_vlan_tci_means() {
    // OpenFlow 1.1 and later have no match on the whole tag control information: the priority is left out.
    for (version, mask) in [("OpenFlow10", 0xffff), ("OpenFlow15", 0x1fff)] {
        let mut switch = switch();
        ok(&mut switch, &format!("ovs-ofctl -O {version} add-flow br0 vlan_tci=0,actions=drop"));
        let bridge = switch.ofproto().bridge_named("br0").unwrap();
        let everything = crate::openflow::Match::catch_all();
        let rules = bridge.find_rules(&crate::openflow::bridge::RuleFilter {
            table: None,
            rule_match: &everything,
            cookie: (0, 0),
            out_port: crate::types::OfPort::NONE,
            out_group: None,
        });
        assert_eq!(rules[0].rule_match.mask.vlans[0].tci.get(), mask, "{version}");
    }
}

#[test]
fn a_port_taken_down_takes_its_device_along() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl mod-port br0 p2 down");
    assert!(!switch.port_named("p2").unwrap().device.admin_up);
    ok(&mut switch, "ovs-ofctl mod-port br0 p2 up");
    assert!(switch.port_named("p2").unwrap().device.admin_up);
}

#[test]
fn what_is_not_there_is_named() {
    let mut switch = switch();
    for (words, part) in [
        (&["ovs-vsctl", "show"][..], "show"),
        (&["ovs-vsctl", "--oneline", "list-br"], "--oneline"),
        (&["ovs-ofctl", "dump-ports", "br0"], "dump-ports"),
        (&["ovs-ofctl", "--sort=priority", "dump-flows", "br0"], "--sort"),
        (&["ovs-ofctl", "add-flow", "br9", "actions=drop"], "br9"),
        (&["ovs-appctl", "upcall/show"], "upcall/show"),
        (&["ovs-appctl", "frob"], "frob"),
    ] {
        let text = refusal(&mut switch, words).to_string();
        assert!(text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn values_are_added_to_columns_and_removed() {
    let mut switch = switch();
    ok(&mut switch, "ovs-vsctl set Interface p1 options:ol_l4_rx_csum_set_bad=true options:ol_tso_segsz=400");
    let segment = |switch: &Switch| switch.port_named("p1").unwrap().device.rx_tso_segsz;
    assert_eq!(segment(&switch), 400);
    ok(&mut switch, "ovs-vsctl remove Interface p1 options ol_tso_segsz=500 ol_l4_rx_csum_set_bad nothing");
    assert_eq!(segment(&switch), 400, "the value is another one");
    assert_eq!(switch.port_named("p1").unwrap().device.rx_l4, crate::switch::RxChecksum::Unknown);
    ok(&mut switch, "ovs-vsctl remove Interface p1 options ol_tso_segsz");
    assert_eq!(segment(&switch), 0);
    ok(&mut switch, "ovs-vsctl add Interface p1 options ol_tso_segsz=300 -- add Port p1 trunks 10,20 30");
    assert_eq!(segment(&switch), 300);
    ok(&mut switch, "ovs-vsctl remove Port p1 trunks 20 -- set Port p2 tag=5 -- remove Port p2 tag 5");
    let vlan = |name| switch.port_named(name).unwrap().spec().vlan;
    assert_eq!((vlan("p1").trunks, vlan("p2").tag), (vec![10, 30], None));
    let words = ["ovs-vsctl", "remove", "Bridge", "br0", "other_config", "hwaddr"];
    assert!(refusal(&mut switch, &words).to_string().contains("other_config"));
}

#[test]
fn static_addresses_stay() {
    let mut switch = switch();
    ok(&mut switch, "ovs-appctl fdb/add br0 p1 0 50:54:00:00:01:01");
    assert_eq!(
        ok(&mut switch, "ovs-appctl fdb/add br0 p2 0 50:54:00:00:01:01"),
        "Overriding already existing static entry on 1\n"
    );
    assert_eq!(
        ok(&mut switch, "ovs-appctl fdb/show br0"),
        " Port  VLAN  MAC                Age\n    2     0  50:54:00:00:01:01  static\n"
    );
    let stats = ok(&mut switch, "ovs-appctl fdb/stats-show br0");
    assert!(
        stats.starts_with(
            "Statistics for bridge \"br0\":\n  Current/maximum MAC entries in the table: 1/8192\n"
        )
    );
    assert!(stats.contains("  Current static MAC entries in the table : 1\n"), "{stats}");
    assert_eq!(ok(&mut switch, "ovs-appctl fdb/del br0 0 50:54:00:00:01:01"), "");
    let again = ["ovs-appctl", "fdb/del", "br0", "0", "50:54:00:00:01:01"];
    assert_eq!(refusal(&mut switch, &again).to_string(), "could not find static mac entry");
    for (words, part) in [
        (["fdb/add", "br9", "p1", "0", "50:54:00:00:01:01"], "no such bridge"),
        (["fdb/add", "br0", "p9", "0", "50:54:00:00:01:01"], "no port p9"),
        (["fdb/add", "br0", "p1", "4096", "50:54:00:00:01:01"], "VLAN"),
        (["fdb/add", "br0", "p1", "0", "50:54"], "bad MAC address"),
    ] {
        let words: Vec<&str> = ["ovs-appctl"].into_iter().chain(words).collect();
        assert!(refusal(&mut switch, &words).to_string().contains(part), "{words:?}");
    }
}

#[test]
fn addresses_of_several_bridges_are_shown_with_their_names() {
    let mut switch = switch();
    ok(&mut switch, "ovs-vsctl add-br br-int -- set Bridge br-int datapath_type=dummy");
    ok(&mut switch, "ovs-appctl fdb/add br0 p1 0 50:54:00:00:01:01");
    let shown = ok(&mut switch, "ovs-appctl fdb/show");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], " Bridge  Port  VLAN  MAC                Age");
    assert!(
        lines.contains(&" br0        1     0  50:54:00:00:01:01  static") && lines.contains(&" br-int"),
        "{shown}"
    );
}
