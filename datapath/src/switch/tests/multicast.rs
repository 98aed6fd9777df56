//! Multicast snooping by the commands that configure it; packets are those of Open vSwitch's own tests and of recorded cases.

use super::tunnels::{bytes, pass, run};
use super::*;

/// A bridge that snoops, with ports `p1` to `p3`.
fn snooping_switch(settings: &str) -> Switch {
    let mut switch = Switch::new(1);
    let set = format!("ovs-vsctl set bridge br0 mcast_snooping_enable=true {settings}");
    run(&mut switch, &format!("ovs-vsctl add-br br0\n{}", set.trim_end()));
    for n in 1..=3 {
        let add = format!("ovs-vsctl add-port br0 p{n} -- set Interface p{n} type=dummy ofport_request={n}");
        run(&mut switch, &add);
    }
    switch
}

fn at(secs: u64) -> Time {
    Time::from_millis(1000 * secs)
}

/// Sends a packet; tells the names of the ports by which it left.
fn leaves(switch: &mut Switch, port: &str, frame: &str, now: Time) -> Vec<String> {
    let mut names: Vec<_> =
        pass(switch, port, &bytes(frame), now).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

fn command(switch: &mut Switch, line: &str, now: Time) -> Result<String, String> {
    let argv: Vec<&str> = line.split(' ').collect();
    switch.command(now, &argv).map_err(|error| error.to_string())
}

const MLD_REPORT: [&str; 2] = [
    "33330000001650540000000186dd6000000000240001fe800000000000000000000000000001ff0200000000000000000000000000163a000502000001008f006f650000000104000000ff0e0000000000000000000000000099",
    "33330000001650540000000286dd6000000000240001fe800000000000000000000000000002ff0200000000000000000000000000163a000502000001008f006f640000000104000000ff0e0000000000000000000000000099",
];
const MLD_QUERY: &str = "33330000000150540000000386dd6000000000240001fe800000000000000000000000000003ff0200000000000000000000000000013a0005020000010082007c3903e800000000000000000000000000000000000000000000";
/// IGMPv2: 239.1.1.1, from the host on `p1`.
const JOIN: &str =
    "01005e01010150540000000108004600002000010000010272d3c0000201ef010101940400001600f9fcef010101";
const LEAVE: &str =
    "01005e00000250540000000108004600002000010000010281d3c0000201e0000002940400001700f8fcef010101";
/// UDP to 239.1.1.1, from the host on `p2`.
const DATA: &str =
    "01005e01010150540000000208004500002000010000041104c9c0000201ef01010103e807d0000c7d5361626364";

/// Case e-mld-report-only-to-routers.
#[test]
fn a_report_goes_to_routers_and_not_to_other_members() {
    let mut switch = snooping_switch("");
    assert!(leaves(&mut switch, "p1", MLD_REPORT[0], at(0)).is_empty(), "there is no router yet");
    assert_eq!(leaves(&mut switch, "p3", MLD_QUERY, at(1)), ["br0", "p1", "p2"]);
    assert_eq!(leaves(&mut switch, "p2", MLD_REPORT[1], at(2)), ["p3"]);
    let expected = " port  VLAN  protocol  GROUP                Age
    1     0  MLDv2     ff0e::99           2
    2     0  MLDv2     ff0e::99           0
    3     0  UNKNOWN   querier               1
";
    assert_eq!(command(&mut switch, "ovs-appctl mdb/show br0", at(2)).unwrap(), expected);
}

/// Case c-igmp-slow-path-flow-too-wide: flows of messages catch no data, and each message counts.
#[test]
fn data_goes_to_members_and_flows_follow_the_groups() {
    let mut switch = snooping_switch("");
    assert_eq!(leaves(&mut switch, "p2", DATA, at(0)), ["br0", "p1", "p3"], "nobody asked for it yet");
    assert!(leaves(&mut switch, "p1", JOIN, at(1)).is_empty());
    for secs in 2..4 {
        assert_eq!(leaves(&mut switch, "p2", DATA, at(secs)), ["p1"]);
    }
    let flows = command(&mut switch, "ovs-appctl dpctl/dump-flows", at(4)).unwrap();
    let igmp =
        "ipv4(proto=2,frag=no), packets:0, bytes:0, used:never, actions:userspace(pid=0,slow_path(action))";
    assert!(flows.contains(igmp), "{flows}");
    assert!(flows.contains("ipv4(dst=239.1.1.1,proto=17,frag=no)"), "{flows}");
    leaves(&mut switch, "p1", JOIN, at(200));
    assert_eq!(leaves(&mut switch, "p2", DATA, at(400)), ["p1"], "it asked again, through the slow path");
    assert_eq!(leaves(&mut switch, "p1", LEAVE, at(401)), Vec::<String>::new());
    assert_eq!(leaves(&mut switch, "p2", DATA, at(402)), ["br0", "p1", "p3"]);
}

#[test]
fn groups_age_out_in_virtual_time() {
    let mut switch = snooping_switch("other_config:mcast-snooping-aging-time=60");
    leaves(&mut switch, "p1", JOIN, at(0));
    leaves(&mut switch, "p2", DATA, at(58));
    assert_eq!(switch.ofproto().next_wakeup(), Some(at(60)));
    switch.run(at(60), &mut Off);
    let flows = command(&mut switch, "ovs-appctl dpctl/dump-flows", at(60)).unwrap();
    assert!(flows.contains("actions:100,1,3"), "flows are right without another packet: {flows}");
    // The port, and the group with it.
    for (counter, count) in [("mcast_snooping_learned", "1\n"), ("mcast_snooping_expired", "2\n")] {
        for last in ["ovs-vsctl set bridge br0 mcast_snooping_enable=true", "ovs-vsctl del-br br0"] {
            let read = format!("ovs-appctl coverage/read-counter {counter}");
            assert_eq!(command(&mut switch.clone(), &read, at(60)).unwrap(), count);
            let mut later = switch.clone();
            run(&mut later, last);
            assert_eq!(command(&mut later, &read, at(60)).unwrap(), count, "after {last}");
        }
    }
    let unknown = command(&mut switch, "ovs-appctl coverage/read-counter netdev_sent", at(60)).unwrap_err();
    assert!(unknown.contains("netdev_sent"), "{unknown}");
}

/// Case e-mcast-flood-port-recreated: another number makes another port of it, with the same settings.
#[test]
fn a_flood_port_stays_one_when_it_is_made_anew() {
    let mut switch = snooping_switch("other_config:mcast-snooping-disable-flood-unregistered=true");
    run(&mut switch, "ovs-vsctl set Port p2 other_config:mcast-snooping-flood=true");
    let trace = "ovs-appctl ofproto/trace br0 in_port=1,udp,dl_src=50:54:00:00:00:01,dl_dst=01:00:5e:01:01:01,\
                 nw_src=192.0.2.1,nw_dst=239.1.1.1,nw_ttl=4,udp_dst=2000";
    let first = command(&mut switch, trace, at(0)).unwrap();
    let story = "    NORMAL\n     -> forwarding to mcast flood port\n\nFinal flow: unchanged\n";
    assert!(first.contains(story) && first.ends_with("Datapath actions: 2"), "{first}");
    run(&mut switch, "ovs-vsctl set Interface p2 ofport_request=7");
    assert_eq!(switch.port_named("p2").map(|port| port.of_port), Some(OfPort(7)));
    let second = command(&mut switch, trace, at(1)).unwrap();
    assert_eq!(second, first);
    run(&mut switch, "ovs-vsctl set Port p2 other_config:mcast-snooping-flood=false");
    assert!(command(&mut switch, trace, at(2)).unwrap().ends_with("Datapath actions: drop"));
}

#[test]
fn ports_that_get_reports_and_ports_whose_vlan_changes() {
    let mut switch = snooping_switch("");
    run(&mut switch, "ovs-vsctl set Port p3 other_config:mcast-snooping-flood-reports=true");
    assert_eq!(leaves(&mut switch, "p1", JOIN, at(0)), ["p3"]);
    run(&mut switch, "ovs-vsctl set Port p1 tag=5");
    let empty = " port  VLAN  protocol  GROUP                Age\n";
    assert_eq!(command(&mut switch, "ovs-appctl mdb/show br0", at(1)).unwrap(), empty);
    run(&mut switch, "ovs-vsctl set Port p3 tag=5");
    assert_eq!(leaves(&mut switch, "p1", JOIN, at(2)), ["p3"], "what was configured stays");
    assert_ne!(command(&mut switch, "ovs-appctl mdb/show br0", at(3)).unwrap(), empty);
    let flushed = command(&mut switch, "ovs-appctl mdb/flush", at(3)).unwrap();
    assert_eq!(flushed, "table successfully flushed\n");
    assert_eq!(command(&mut switch, "ovs-appctl mdb/show br0", at(3)).unwrap(), empty);
}

#[test]
fn without_snooping_there_is_nothing_to_show() {
    let mut switch = snooping_switch("");
    leaves(&mut switch, "p1", JOIN, at(0));
    run(&mut switch, "ovs-vsctl set bridge br0 mcast_snooping_enable=false");
    for line in ["ovs-appctl mdb/show br0", "ovs-appctl mdb/flush br0"] {
        let error = command(&mut switch, line, at(1)).unwrap_err();
        assert!(error.contains("multicast snooping is disabled"), "{error}");
    }
    assert!(command(&mut switch, "ovs-appctl mdb/show br1", at(1)).unwrap_err().contains("no such bridge"));
    let wrong = "ovs-vsctl set bridge br0 other_config:mcast-snooping-table-size=many";
    assert!(command(&mut switch, wrong, at(1)).unwrap_err().contains("mcast-snooping-table-size=many"));
    assert_eq!(leaves(&mut switch, "p2", DATA, at(1)), ["br0", "p1", "p3"]);
}

/// As Open vSwitch's own test of it tells: a trace of a packet learns from it, a trace of its key does not.
#[test]
fn a_trace_of_a_packet_learns_and_tells_so() {
    let mut switch = snooping_switch("");
    let packet = "01005E010101000C29A027A108004500001C000100004002CBAEAC10221EE001010112140CE9E0010101";
    let trace = format!("ovs-appctl ofproto/trace in_port(1) {packet}");
    let text = command(&mut switch, &trace, at(0)).unwrap();
    let story = "    NORMAL\n     -> learned that 00:0c:29:a0:27:a1 is on port p1 in VLAN 0\n     \
                 -> multicast snooping learned that 224.1.1.1 is on port p1 in VLAN 0\n\nFinal flow: unchanged\n\
                 Megaflow: recirc_id=0,eth,ip,in_port=1,dl_src=00:0c:29:a0:27:a1,dl_dst=01:00:5e:01:01:01,nw_proto=2,\
                 nw_frag=no\nDatapath actions: drop\nThis flow is handled by the userspace slow path because it:\n  \
                 - Uses action(s) not supported by datapath.";
    assert!(text.contains(story), "{text}");
    assert!(!command(&mut switch, &trace, at(1)).unwrap().contains("learned"), "it is known");
    let key = "ovs-appctl ofproto/trace in_port(1),eth(src=00:0c:29:a0:27:a2,dst=01:00:5e:01:01:01),eth_type(0x0800),\
               ipv4(src=10.0.0.1,dst=224.1.1.1,proto=2,tos=0,ttl=64,frag=no)";
    assert!(command(&mut switch, key, at(1)).unwrap().contains("-> multicast traffic, flooding"));
}
