//! NORMAL and its learning table by the commands that configure them.

use super::tunnels::{bytes, pass, run};
use super::*;

fn bridges() -> Switch {
    let mut switch = Switch::new(1);
    run(
        &mut switch,
        "ovs-vsctl add-br br0\n\
         ovs-vsctl add-port br0 p1 -- set Interface p1 type=dummy ofport_request=1\n\
         ovs-vsctl add-port br0 p2 -- set Interface p2 type=dummy ofport_request=2\n\
         ovs-vsctl add-br br1",
    );
    switch
}

/// A frame from the host behind `p1`.
fn to(dst: &str) -> Vec<u8> {
    bytes(&format!("{dst}50540000000108004500001c0001000009119dce0a0000010a00000203e807d000080000"))
}

#[test]
fn protocols_between_neighbours_are_not_forwarded_unless_wanted() {
    let mut switch = bridges();
    // IEEE 802.1D, Extreme and Cisco; the others are like them, but not among them.
    let reserved =
        ["0180c2000000", "0180c200000f", "00e02b000006", "01000ccccccc", "01000cccccc7", "01000ccdcdcd"];
    let others = ["0180c2000010", "00e02b000001", "01000cccccce", "01000cccccc8"];
    for dst in reserved {
        assert!(pass(&mut switch, "p1", &to(dst), Time::ZERO).is_empty(), "{dst}");
    }
    for dst in others {
        assert_eq!(pass(&mut switch, "p1", &to(dst), Time::ZERO).len(), 2, "{dst}");
    }
    run(&mut switch, "ovs-vsctl set bridge br0 other_config:forward-bpdu=true");
    for dst in reserved {
        assert_eq!(pass(&mut switch, "p1", &to(dst), Time::ZERO).len(), 2, "{dst}");
    }
}

#[test]
fn addresses_of_several_bridges_are_shown_with_their_names() {
    let mut switch = bridges();
    pass(&mut switch, "p1", &to("505400000009"), Time::ZERO);
    let expected = " Bridge  Port  VLAN  MAC                Age
 br1
 br0        1     0  50:54:00:00:00:01    0
";
    let text = run(&mut switch, "ovs-appctl fdb/show br1 br0");
    assert_eq!(text, expected);
    let one = run(&mut switch, "ovs-appctl fdb/show br0");
    assert_eq!(one, " Port  VLAN  MAC                Age\n    1     0  50:54:00:00:00:01    0\n");
    let unknown = switch.command(Time::ZERO, &["ovs-appctl", "fdb/show", "br0", "br9"]).unwrap_err();
    assert!(unknown.to_string().contains("no such bridge br9"), "{unknown}");
}

#[test]
fn zero_stands_for_a_default_and_a_wrong_number_changes_nothing() {
    let mut switch = bridges();
    let id = switch.bridge_id("br0").unwrap();
    let max = |switch: &Switch| switch.ofproto().mac_table(id).unwrap().max_entries();
    run(&mut switch, "ovs-vsctl set bridge br0 other_config:mac-table-size=20");
    assert_eq!(max(&switch), 20);
    let line = "ovs-vsctl set bridge br0 other_config:mac-table-size=30 other_config:mac-aging-time=long";
    let argv: Vec<&str> = line.split(' ').collect();
    assert!(switch.command(Time::ZERO, &argv).is_err());
    run(&mut switch, "ovs-vsctl set bridge br0 other_config:mac-table-size=0");
    assert_eq!(max(&switch), 8192);
}

#[test]
fn what_was_heard_before_a_flush_is_forgotten() {
    let mut switch = bridges();
    for _ in 0..3 {
        pass(&mut switch, "p1", &to("505400000009"), Time::ZERO);
    }
    run(&mut switch, "ovs-appctl fdb/flush br0");
    assert_eq!(run(&mut switch, "ovs-appctl fdb/show br0"), " Port  VLAN  MAC                Age\n");
    pass(&mut switch, "p1", &to("505400000009"), Time::ZERO);
    assert!(run(&mut switch, "ovs-appctl fdb/show br0").contains("50:54:00:00:00:01"));
    run(&mut switch, "ovs-vsctl set bridge br0 flood_vlans=5");
    assert_eq!(run(&mut switch, "ovs-appctl fdb/show br0"), " Port  VLAN  MAC                Age\n");
}
