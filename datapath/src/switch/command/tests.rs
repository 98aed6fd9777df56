//! Commands as they are typed, and what they do to the switch.

use super::*;

pub(super) fn run(switch: &mut Switch, words: &[&str]) -> Result<String, CommandError> {
    switch.command(Time::ZERO, words)
}

pub(super) fn ok(switch: &mut Switch, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    run(switch, &words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

pub(super) fn refusal(switch: &mut Switch, words: &[&str]) -> CommandError {
    run(switch, words).expect_err("this is wrong")
}

pub(super) fn switch() -> Switch {
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
fn bits_beside_a_mask_are_refused_wherever_the_mask_is_sent() {
    let mut switch = switch();
    let set = "set_field:02:00:00:00:00:07/00:00:00:00:00:ff->eth_src";
    let group = format!("group_id=1,type=all,bucket=actions={set},output:1");
    let (rule, packet) =
        (format!("actions={set}"), format!("in_port=1,packet=ffffffffffff020000000001880b,actions={set}"));
    for (command, argument) in [("add-group", &group), ("add-flow", &rule), ("packet-out", &packet)] {
        let error = refusal(&mut switch, &["ovs-ofctl", "-O", "OpenFlow15", command, "br0", argument]);
        assert_eq!(error.to_string(), "ovs-ofctl: OFPBMC_BAD_WILDCARDS", "{command}");
        assert!(
            run(&mut switch, &["ovs-ofctl", "-O", "OpenFlow13", command, "br0", argument]).is_ok(),
            "{command}"
        );
    }
}

#[test]
fn a_rule_is_refused_that_means_nothing_in_the_words_of_its_version() {
    let mut switch = switch();
    // In OpenFlow 1.0 the TTL is set by a load, which needs IP; behind an MPLS label there is none.
    let rule = "ip,actions=push_mpls:0x8847,mod_nw_ttl:7";
    let error = refusal(&mut switch, &["ovs-ofctl", "add-flow", "br0", rule]);
    assert_eq!(error.to_string(), "ovs-ofctl: OFPBAC_MATCH_INCONSISTENT");
    assert!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0").is_empty());
}

#[test]
fn a_wrong_rule_or_flow_points_at_its_word() {
    let mut switch = switch();
    let place = |error: CommandError| match error {
        CommandError::Parse(error) => (error.arg, error.offset),
        other => panic!("{other}"),
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
        (&["ovs-ofctl", "snoop", "br0"], "snoop"),
        (&["ovs-ofctl", "dump-ports", "br0", "p9"], "p9"),
        (&["ovs-ofctl", "add-flow", "br9", "actions=drop"], "br9"),
        (&["ovs-appctl", "upcall/show"], "upcall/show"),
        (&["ovs-appctl", "frob"], "frob"),
    ] {
        let text = refusal(&mut switch, words).to_string();
        assert!(text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn mirrors_come_and_go_with_their_bridge() {
    let mut switch = switch();
    let mirrors = |switch: &Switch| -> Vec<String> {
        let bridge = switch.ofproto().bridge_named("br0").unwrap();
        bridge.mirrors().iter().map(|mirror| mirror.name.clone()).collect()
    };
    // A name may be used before the command that gives it.
    ok(
        &mut switch,
        "ovs-vsctl -- set Bridge br0 mirrors=@m -- --id=@m create Mirror name=m1 select_all=true output-port=@o -- --id=@o get Port p3",
    );
    assert_eq!(mirrors(&switch), ["m1"]);
    assert_eq!(ok(&mut switch, "ovs-vsctl get Mirror m1 statistics"), "{tx_bytes=0, tx_packets=0}\n");
    ok(
        &mut switch,
        "ovs-vsctl -- --id=@n create Mirror name=m2 output-vlan=7 select-src-port=p1 -- add Bridge br0 mirrors @n",
    );
    assert_eq!(mirrors(&switch), ["m1", "m2"]);
    for (line, part) in [
        ("ovs-vsctl set Bridge br0 mirrors=@x", "referenced but never created"),
        ("ovs-vsctl set Mirror m3 select_all=true", "no row \"m3\" in table Mirror"),
        ("ovs-vsctl set Mirror m1 output-port=p9", "port p9, which is not on the bridge"),
        ("ovs-vsctl set Mirror m1 filter=\"in_port=1\"", "select_src_port"),
        ("ovs-vsctl -- --id=@m create Mirror name=m -- set Bridge br0 mirrors=@m", "does not specify output"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let text = refusal(&mut switch, &words).to_string();
        assert!(text.contains(part), "{line}: {text}");
    }
    ok(&mut switch, "ovs-vsctl remove Bridge br0 mirrors m1");
    assert_eq!(mirrors(&switch), ["m2"]);
    ok(&mut switch, "ovs-vsctl clear Bridge br0 mirrors");
    assert!(mirrors(&switch).is_empty());
    // What no bridge has is gone.
    ok(&mut switch, "ovs-vsctl create Mirror name=m5 output-vlan=7");
    assert!(
        refusal(&mut switch, &["ovs-vsctl", "set", "Bridge", "br0", "mirrors=m5"]).to_string().contains("m5")
    );
}

#[test]
fn a_dummy_device_completes_what_it_announces_unless_that_is_disabled() {
    use crate::offload::Capabilities;
    let mut switch = switch();
    let set = |switch: &mut Switch, options: &str| {
        ok(switch, &format!("ovs-vsctl clear Interface p1 options -- set Interface p1 {options}"));
        let device = &switch.port_named("p1").unwrap().device;
        (device.capabilities, device.leaves)
    };
    let ip = Capabilities::IP_CSUM;
    let l4 = Capabilities::TCP_CSUM | Capabilities::UDP_CSUM;
    assert_eq!(set(&mut switch, "options:ol_ip_tx_csum=true"), (ip, Some(Capabilities::empty())));
    let disabled = "options:ol_ip_tx_csum=true options:ol_ip_tx_csum_disabled=true";
    assert_eq!(set(&mut switch, disabled), (ip, Some(ip)));
    assert_eq!(set(&mut switch, "options:ol_l4_tx_csum=true"), (l4, Some(Capabilities::empty())));
    ok(&mut switch, "ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true");
    // With a segment size it takes TCP checksums, and leaves them unless told that it computes them.
    let tso = Capabilities::TSO | Capabilities::TCP_CSUM;
    assert_eq!(set(&mut switch, "options:ol_tso_segsz=500"), (tso, Some(Capabilities::TCP_CSUM)));
}

#[test]
fn values_are_added_to_columns_and_removed() {
    let mut switch = switch();
    ok(&mut switch, "ovs-vsctl set Interface p1 options:ol_l4_rx_csum_set_bad=true options:ol_tso_segsz=400");
    let segment = |switch: &Switch| switch.port_named("p1").unwrap().device.rx_tso_segsz;
    assert_eq!(segment(&switch), 0, "nothing is segmented before that is allowed");
    ok(&mut switch, "ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true");
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

/// A switch of which Open vSwitch 4.0.90, set up alike, said what the tests below expect.
fn busy_switch() -> Switch {
    let mut switch = switch();
    for rule in ["in_port=1,actions=2", "table=1,priority=7,ip,actions=drop"] {
        ok(&mut switch, &format!("ovs-ofctl add-flow br0 {rule}"));
    }
    let frame = "50540000000a50540000000908004500001c00000000401166cf0a0000010a000002000100020008ea5f";
    ok(&mut switch, &format!("ovs-appctl netdev-dummy/receive p1 {frame}"));
    switch
}

#[test]
fn sums_and_ports_as_ovs_ofctl_prints_them() {
    let mut switch = busy_switch();
    for (line, printed) in [
        ("dump-aggregate br0", "NXST_AGGREGATE reply (xid=0x4): packet_count=1 byte_count=42 flow_count=2\n"),
        (
            "dump-aggregate br0 table=1",
            "NXST_AGGREGATE reply (xid=0x8): packet_count=0 byte_count=0 flow_count=1\n",
        ),
        (
            "-O OpenFlow13 dump-aggregate br0 in_port=p1",
            "OFPST_AGGREGATE reply (OF1.3) (xid=0x6): packet_count=1 byte_count=42 flow_count=1\n",
        ),
        (
            "dump-ports br0 p1",
            "OFPST_PORT reply (xid=0x4): 1 ports\n  port  1: rx pkts=1, bytes=42, drop=?, errs=?, frame=?, over=?, \
             crc=?\n           tx pkts=0, bytes=0, drop=?, errs=?, coll=?\n",
        ),
    ] {
        assert_eq!(ok(&mut switch, &format!("ovs-ofctl {line}")), printed, "{line}");
    }
    ok(&mut switch, "ovs-ofctl mod-port br0 p2 down");
    let mac = switch.port_named("p2").unwrap().device.mac;
    for (version, name, live) in [("OpenFlow15", " (OF1.5)", "LIVE"), ("OpenFlow10", "", "0")] {
        let text = ok(&mut switch, &format!("ovs-ofctl -O {version} dump-ports-desc br0"));
        assert!(
            text.starts_with(&format!("OFPST_PORT_DESC reply{name} (xid=0x2):\n 1(p1): addr:")),
            "{text}"
        );
        let p2 = format!(
            " 2(p2): addr:{mac}\n     config:     PORT_DOWN\n     state:      LINK_DOWN\n     speed: 0 Mbps now, 0 \
             Mbps max\n"
        );
        assert!(text.contains(&p2), "{text}");
        assert!(text.contains(&format!("     config:     0\n     state:      {live}\n")), "{text}");
    }
    let text = ok(&mut switch, "ovs-ofctl -O OpenFlow15 show br0");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("OFPT_FEATURES_REPLY (OF1.5) (xid=0x2): dpid:0000"), "{text}");
    assert_eq!(
        lines[1..4],
        [
            "n_tables:254, n_buffers:0",
            "capabilities: FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS QUEUE_STATS BUNDLES",
            "OFPST_PORT_DESC reply (OF1.5) (xid=0x3):",
        ]
    );
    let last = "OFPT_GET_CONFIG_REPLY (OF1.5) (xid=0x5): frags=normal miss_send_len=0";
    assert_eq!(lines.last(), Some(&last));
}

#[test]
fn the_datapath_and_its_rules_as_ovs_appctl_prints_them() {
    let mut switch = busy_switch();
    let text = ok(&mut switch, "ovs-appctl dpif/show");
    let head =
        "dummy@ovs-dummy: hit:0 missed:1\n  br0:\n    br0 65534/100: (dummy-internal)\n    p1 1/1: (dummy)\n";
    assert!(text.starts_with(head), "{text}");
    let text = ok(&mut switch, "ovs-appctl dpctl/show");
    let head = "dummy@ovs-dummy:\n  lookups: hit:0 missed:1 lost:0\n  flows: 1\n  port 0: ovs-dummy (dummy-internal)\n  \
                port 1: p1 (dummy)\n";
    assert!(text.starts_with(head) && text.ends_with("  port 100: br0 (dummy-internal)\n"), "{text}");
    let text = ok(&mut switch, "ovs-appctl dpctl/show -s");
    let port = "  port 1: p1 (dummy)\n    RX packets:1 errors:? dropped:? overruns:? frame:?\n    TX packets:0 errors:? \
                dropped:? aborted:? carrier:?\n    collisions:?\n    RX bytes:42  TX bytes:0\n    UPCALL packets:? \
                errors:?\n";
    assert!(text.contains(port), "{text}");
    assert_eq!(ok(&mut switch, "ovs-appctl upcall/set-flow-limit 1000"), "set flow_limit to 1000\n");
    assert_eq!(switch.datapath().config().flow_limit, 1000);
    let text = ok(&mut switch, "ovs-appctl bridge/dump-flows br0");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "duration=0s, n_packets=1, n_bytes=42, in_port=1,actions=output:2");
    assert_eq!(lines[1], "table_id=1, duration=0s, n_packets=0, n_bytes=0, priority=7,ip,actions=drop");
    let error = refusal(&mut switch, &["ovs-appctl", "bridge/dump-flows", "brx"]);
    assert_eq!(error.to_string(), "Unknown bridge");
}

#[test]
fn sorted_rules_have_no_header() {
    let mut switch = switch();
    for rule in [
        "priority=5,ip,nw_src=10.0.0.2,actions=1",
        "priority=9,arp,actions=2",
        "ip,nw_src=10.0.0.1,actions=3",
    ] {
        ok(&mut switch, &format!("ovs-ofctl add-flow br0 {rule}"));
    }
    let text = ok(&mut switch, "ovs-ofctl --no-stats --rsort=nw_src dump-flows br0");
    let sources: Vec<Option<usize>> =
        ["10.0.0.2", "10.0.0.1", "arp"].iter().map(|word| text.find(word)).collect();
    assert!(sources.is_sorted() && sources[0].is_some(), "{text}");
    let text = ok(&mut switch, "ovs-ofctl --sort dump-flows br0");
    assert!(
        text.starts_with(" cookie=0x0, duration=0s, table=0, n_packets=0, n_bytes=0, priority=5,ip"),
        "{text}"
    );
    let error = refusal(&mut switch, &["ovs-ofctl", "--sort=frob", "dump-flows", "br0"]);
    assert!(error.to_string().contains("frob"));
}

#[test]
fn a_file_of_rules_is_carried_out_whole_or_not_at_all() {
    let mut switch = switch();
    let add = |switch: &mut Switch, text: &str| {
        switch.command_with(Time::ZERO, &["ovs-ofctl", "add-flows", "br0", "f"], &mut |name| {
            assert_eq!(name, "f");
            Ok(text.to_owned())
        })
    };
    let bad = "in_port=1,actions=2\n\n# no\n in_port=2,actions=frob # no\n";
    let Err(CommandError::File { arg: 3, file, line: 4, offset, .. }) = add(&mut switch, bad) else {
        panic!("the last line is wrong")
    };
    assert_eq!((file.as_str(), offset), ("f", 19));
    // Understood, but refused by the bridge: there is no such group.
    let refused = add(&mut switch, "in_port=1,actions=2\nin_port=2,actions=group:7\n");
    assert!(matches!(refused, Err(CommandError::File { line: 2, .. })), "{refused:?}");
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), "");
    add(&mut switch, "in_port=1,actions=2\ndelete in_port=1\n add in_port=2,actions=3 # yes\n").unwrap();
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), " in_port=2 actions=output:3\n");
    assert!(refusal(&mut switch, &["ovs-ofctl", "add-flows", "br0", "f"]).to_string().contains("f: files"));
}

#[test]
fn meters_are_made_changed_counted_and_go_with_their_rules() {
    let mut switch = switch();
    let of13 = "ovs-ofctl -O OpenFlow13";
    ok(
        &mut switch,
        &format!("{of13} add-meter br0 meter=1,pktps,burst,stats,bands=type=drop,rate=1,burst_size=2"),
    );
    ok(&mut switch, &format!("{of13} add-meter br0 meter=7,kbps,bands=type=drop,rate=10"));
    ok(&mut switch, "ovs-ofctl add-flow -O OpenFlow13 br0 in_port=1,actions=meter:7,output:2");
    for (words, part) in [
        ("add-meter br0 meter=1,kbps,bands=type=drop,rate=1", "OFPMMFC_METER_EXISTS"),
        ("mod-meter br0 meter=2,kbps,bands=type=drop,rate=1", "OFPMMFC_UNKNOWN_METER"),
        ("add-meter br0 meter=2,kbps,bands=type=dscp_remark,rate=1,prec_level=1", "OFPMMFC_BAD_BAND"),
        ("dump-meter br0 meter=2", "OFPMMFC_UNKNOWN_METER"),
        ("add-flow br0 actions=meter:2,output:1", "OFPMMFC_INVALID_METER"),
        ("add-meter br0 meter=2,frob,bands=", "field frob missing value"),
        ("-O OpenFlow10 dump-meters br0", "-O"),
        ("frob-meter br0", "unknown command 'frob-meter'"),
    ] {
        let line = format!("ovs-ofctl -O OpenFlow13 {words}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let error = refusal(&mut switch, &words).to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
    let dumped = ok(&mut switch, &format!("{of13} dump-meters br0"));
    let meters = "OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\nmeter=1 pktps burst stats bands=\ntype=drop rate=1 \
                  burst_size=2\n\nmeter=7 kbps bands=\ntype=drop rate=10\n";
    assert_eq!(dumped, meters);
    ok(&mut switch, &format!("{of13} mod-meter br0 meter=1,kbps,bands=type=drop,rate=9"));
    assert!(
        ok(&mut switch, &format!("{of13} dump-meter br0 meter=1"))
            .ends_with("meter=1 kbps bands=\ntype=drop rate=9\n")
    );
    let stats = ok(&mut switch, &format!("{of13} meter-stats br0 meter=7"));
    let counted = "meter:7 flow_count:1 packet_in_count:0 byte_in_count:0 duration:0s bands:\n0: packet_count:0 byte_count:0\n";
    assert_eq!(stats, format!("OFPST_METER reply (OF1.3) (xid=0x2):\n{counted}"));
    ok(&mut switch, &format!("{of13} del-meter br0 meter=7"));
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), "", "the rule went with its meter");
    ok(&mut switch, &format!("{of13} del-meters br0"));
    assert_eq!(
        ok(&mut switch, &format!("{of13} dump-meters br0")),
        "OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\n"
    );
}
