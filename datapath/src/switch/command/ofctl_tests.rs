//! `ovs-ofctl` beyond rules one by one; texts are those of Open vSwitch 4.0.90.

use super::tests::{ok, refusal, switch};
use super::*;
use crate::openflow::classifier::RuleId;
use crate::trace::Off;

/// Runs a command that reads a file, `-`.
fn with_file(switch: &mut Switch, words: &[&str], file: &str) -> Result<String, CommandError> {
    switch.command_with(Time::ZERO, words, &mut |_| Ok(file.to_owned()))
}

fn sent(switch: &mut Switch) -> Vec<(u32, usize)> {
    let mut out = Vec::new();
    switch.drain_tx(&mut Off, |port, packet| out.push((port.0, packet.len())));
    out
}

fn rule_of_table_1(switch: &Switch) -> RuleId {
    let bridge = switch.ofproto().bridge_named("br0").unwrap();
    let in_table_1 = |id: &RuleId| bridge.rule(*id).is_some_and(|rule| rule.table.0 == 1);
    (0..100).map(RuleId).find(in_table_1).unwrap()
}

const FRAME: &str = "50540000000a5054000000091234";

#[test]
fn replaced_flows_are_those_of_the_file() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 ip,actions=1");
    ok(&mut switch, "ovs-ofctl add-flow br0 table=1,priority=5,udp,actions=2");
    ok(&mut switch, "ovs-ofctl add-flow br0 arp,actions=drop");
    let file =
        "# a comment\nip,actions=2\ntable=1,priority=5,udp,actions=2\nipv6,actions=1\nipv6,actions=drop\n";
    let diff = with_file(&mut switch, &["ovs-ofctl", "diff-flows", "br0", "-"], file).unwrap();
    assert_eq!(diff, "-ip actions=output:1\n+ip actions=output:2\n-arp actions=drop\n+ipv6 actions=drop\n");
    let unchanged = rule_of_table_1(&switch);
    with_file(&mut switch, &["ovs-ofctl", "replace-flows", "br0", "-"], file).unwrap();
    let rules = " ip actions=output:2\n ipv6 actions=drop\n table=1, priority=5,udp actions=output:2\n";
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), rules);
    assert_eq!(with_file(&mut switch, &["ovs-ofctl", "diff-flows", "br0", "-"], file).unwrap(), "");
    // What did not differ was left alone, with all it counted.
    assert_eq!(rule_of_table_1(&switch), unchanged);
    with_file(&mut switch, &["ovs-ofctl", "--readd", "replace-flows", "br0", "-"], file).unwrap();
    assert_ne!(rule_of_table_1(&switch), unchanged);
    // All or nothing.
    let error = with_file(&mut switch, &["ovs-ofctl", "replace-flows", "br0", "-"], "arp,actions=1\nfrob\n");
    assert_eq!(error.unwrap_err().to_string(), "-:2: must specify an action");
    assert_eq!(ok(&mut switch, "ovs-ofctl --no-stats dump-flows br0"), rules);
}

#[test]
fn tables_tell_what_they_saw_and_can_do() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=1,actions=resubmit(,1)");
    ok(&mut switch, &format!("ovs-appctl netdev-dummy/receive p1 {FRAME}"));
    let stats = "OFPST_TABLE reply (OF1.3) (xid=0x2):\n  table 0:\n    active=1, lookup=1, matched=1\n\n  \
                 table 1:\n    active=0, lookup=1, matched=0\n\n  table 2:\n    active=0, lookup=0, matched=0\n\n  \
                 tables 3...253: ditto\n";
    assert_eq!(ok(&mut switch, "ovs-ofctl -O OpenFlow13 dump-tables br0"), stats);
    let old = ok(&mut switch, "ovs-ofctl dump-tables br0");
    assert!(
        old.starts_with(
            "OFPST_TABLE reply (xid=0x2):\n  table 0:\n    active=1, lookup=1, matched=1\n    max_entries=1000000\n    \
             matching:\n      exact match or wildcard: in_port eth_{src,dst,type} vlan_{vid,pcp} ip_{src,dst} \
             nw_{proto,tos} tcp_{src,dst}\n\n  table 1:\n    active=0, lookup=1, matched=0\n    (same features)\n"
        ),
        "{old}"
    );
    let features = ok(&mut switch, "ovs-ofctl -O OpenFlow13 dump-table-features br0");
    assert!(features.contains("\n\n  tables 1...252: ditto\n\n  table 253:\n"), "{features}");
    assert!(features.ends_with(
        "      instructions: meter apply_actions clear_actions write_actions write_metadata\n      (same actions)\n    \
         (same matching)\n\n"
    ));
    let words = ["ovs-ofctl", "dump-table-features", "br0"];
    let error = "ovs-ofctl: dump-table-features needs OpenFlow 1.3 or later ('-O OpenFlow13')";
    assert_eq!(refusal(&mut switch, &words).to_string(), error);
    let desc = ok(&mut switch, "ovs-ofctl -O OpenFlow14 dump-table-desc br0");
    assert_eq!(
        desc.matches("\n   eviction=off eviction_flags=OTHER|IMPORTANCE|LIFETIME\n   vacancy=off\n").count(),
        254
    );
}

#[test]
fn groups_count_what_all_of_their_buckets_saw() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-group br0 group_id=1,type=all,bucket=output:2,bucket=output:3");
    ok(&mut switch, "ovs-ofctl add-group br0 group_id=2,type=select,bucket=output:2");
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=1,actions=group:1");
    ok(&mut switch, &format!("ovs-appctl netdev-dummy/receive p1 {FRAME}"));
    let stats = ok(&mut switch, "ovs-ofctl dump-group-stats br0");
    let first = " group_id=1,duration=0s,ref_count=1,packet_count=1,byte_count=14,\
                 bucket0:packet_count=1,byte_count=14,bucket1:packet_count=1,byte_count=14\n";
    let second = " group_id=2,duration=0s,ref_count=0,packet_count=0,byte_count=0,\
                  bucket0:packet_count=0,byte_count=0\n";
    assert_eq!(stats, format!("NXST_GROUP reply (xid=0x6):\n{first}{second}"));
    let stats = ok(&mut switch, "ovs-ofctl -O OpenFlow15 dump-group-stats br0 group_id=1");
    assert_eq!(stats, format!("OFPST_GROUP reply (OF1.5) (xid=0x6):\n{first}"));
    let features = ok(&mut switch, "ovs-ofctl -O OpenFlow13 dump-group-features br0");
    assert!(features.starts_with(
        "OFPST_GROUP_FEATURES reply (OF1.3) (xid=0x2):\n Group table:\n    Types:  0xf\n    Capabilities:  0x7\n    all \
         group:\n       max_groups=0xffffff00\n       actions: output group set_field "
    ));
}

#[test]
fn each_port_has_one_queue() {
    let mut switch = switch();
    let stats =
        "OFPST_QUEUE reply (xid=0x2): 1 queues\n  port 2 queue 0: bytes=?, pkts=?, errors=?, duration=?\n";
    assert_eq!(ok(&mut switch, "ovs-ofctl queue-stats br0 p2"), stats);
    assert_eq!(ok(&mut switch, "ovs-ofctl queue-stats br0").lines().count(), 5);
    let error = refusal(&mut switch, &["ovs-ofctl", "queue-stats", "br0", "2", "7"]).to_string();
    assert!(error.starts_with("ovs-ofctl: OFPQOFC_BAD_QUEUE"), "{error}");
    let error = refusal(&mut switch, &["ovs-ofctl", "queue-stats", "br0", "9"]).to_string();
    assert!(error.starts_with("ovs-ofctl: OFPQOFC_BAD_PORT"), "{error}");
    let config = "OFPT_QUEUE_GET_CONFIG_REPLY (OF1.3) (xid=0x2): port=1\nqueue 0:\n";
    assert_eq!(ok(&mut switch, "ovs-ofctl -O OpenFlow13 queue-get-config br0 1"), config);
    let config = ok(&mut switch, "ovs-ofctl -O OpenFlow14 queue-get-config br0");
    assert!(
        config.starts_with("OFPST_QUEUE_DESC reply (OF1.4) (xid=0x2): port=1\nqueue 0:\nport=2\n"),
        "{config}"
    );
}

#[test]
fn a_controller_sends_packets() {
    let mut switch = switch();
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=1,reg0=5,actions=3");
    ok(&mut switch, "ovs-ofctl add-flow br0 in_port=CONTROLLER,actions=2");
    ok(
        &mut switch,
        &format!("ovs-ofctl packet-out br0 in_port=1,packet={FRAME},actions=output:2,controller"),
    );
    assert_eq!(sent(&mut switch), [(2, 14)]);
    assert_eq!(switch.ofproto().n_packet_ins(), 1);
    ok(
        &mut switch,
        &format!("ovs-ofctl -O OpenFlow15 packet-out br0 in_port=1,reg0=5,packet={FRAME},actions=TABLE"),
    );
    assert_eq!(sent(&mut switch), [(3, 14)]);
    ok(&mut switch, &format!("ovs-ofctl packet-out br0 packet={FRAME},actions=TABLE"));
    assert_eq!(sent(&mut switch), [(2, 14)]);
    ok(&mut switch, &format!("ovs-ofctl packet-out br0 p1 all {FRAME} {FRAME}00"));
    let mut all = sent(&mut switch);
    all.retain(|(port, _)| *port < 100);
    assert_eq!(all, [(2, 14), (2, 15), (3, 14), (3, 15)]);
    for (text, error) in [
        ("in_port=1,actions=2", "ovs-ofctl: must specify packet"),
        ("in_port=1,packet=zz,actions=2", "ovs-ofctl: zz: packet: Trailing garbage in packet data"),
        ("in_port=IN_PORT,packet=00", "ovs-ofctl: IN_PORT: is not a valid OpenFlow port for PACKET_OUT"),
        ("tcp_src=5,packet=00", "ovs-ofctl: tcp_src: is not a valid pipeline field for PACKET_OUT"),
        ("frob=5,packet=00", "ovs-ofctl: unknown keyword frob"),
        ("in_port,packet=00", "ovs-ofctl: field in_port missing value"),
        ("packet=0011", "ovs-ofctl: Packet data too short for Ethernet"),
        (
            "packet=50540000000a5054000000091234,actions=group:7",
            "ovs-ofctl: OFPBAC_BAD_OUT_GROUP: there is no group 7",
        ),
    ] {
        assert_eq!(refusal(&mut switch, &["ovs-ofctl", "packet-out", "br0", text]).to_string(), error);
    }
    assert_eq!(sent(&mut switch), []);
}

#[test]
fn flows_are_parsed_into_messages() {
    let mut switch = switch();
    let text = ok(&mut switch, "ovs-ofctl parse-flow tcp,tcp_dst=80,actions=output:2");
    let wanted = "usable protocols: any\nchosen protocol: OpenFlow10-table_id\n\
                  OFPT_FLOW_MOD (xid=0x1): ADD tcp,tp_dst=80 actions=output:2\n";
    assert_eq!(text, wanted);
    let file = "tcp,actions=1\ntable=3,idle_timeout=5,cookie=7,actions=load:1->reg0[]\n";
    let text = with_file(&mut switch, &["ovs-ofctl", "-F", "nxm", "parse-flows", "-"], file).unwrap();
    let wanted = "usable protocols: OXM,OpenFlow10+table_id,NXM+table_id,OpenFlow11\nchosen protocol: NXM+table_id\n\
                  NXT_FLOW_MOD (xid=0x1): ADD table:255 tcp actions=output:1\n\
                  NXT_FLOW_MOD (xid=0x2): ADD table:3 cookie:0x7 idle:5 actions=load:0x1->NXM_NX_REG0[]\n";
    assert_eq!(text, wanted);
    let words = ["ovs-ofctl", "parse-flow", "no_packet_counts,actions=drop"];
    assert_eq!(refusal(&mut switch, &words).to_string(), "ovs-ofctl: no usable protocol");
}

#[test]
fn a_composed_packet_is_shown_in_lines_of_sixteen() {
    let mut switch = switch();
    let text = ok(&mut switch, "ovs-ofctl compose-packet udp 0011");
    let wanted = "00000000  00 00 00 00 00 00 00 00-00 00 00 00 08 00 45 00\n\
                  00000010  00 1e 00 00 00 00 00 11-ba d0 00 00 00 00 00 00\n\
                  00000020  00 00 00 00 00 00 00 0a-ff c9 00 11\n";
    assert_eq!(text, wanted);
    let text = ok(&mut switch, "ovs-ofctl compose-packet --bare --bad-csum udp 0011");
    assert!(text.starts_with("00000000000000000000000008004500001e000000000011bbd0"), "{text}");
    let text = ok(&mut switch, "ovs-ofctl compose-packet in_port=1,udp");
    assert!(text.contains("\nspecified and extracted flows differ:\nspecified: udp,in_port=1,"), "{text}");
}
