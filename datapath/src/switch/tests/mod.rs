//! The switch as a whole: a learning bridge from first flood to learned, revalidated flows.

mod encap;
mod life;
mod multicast;
mod normal;
mod tunnel_offloads;
mod tunnels;

use super::*;
use crate::action::Action;
use crate::openflow::bridge::{FailMode, VlanConfig};
use crate::types::MacAddr;

fn learning_switch() -> (Switch, [PortNo; 3]) {
    let mut switch = Switch::new(1);
    let spec = BridgeSpec {
        name: "br0".to_owned(),
        fail_mode: FailMode::Standalone,
        mac: MacAddr([2, 0, 0, 0, 0, 0xfe]),
        vlan: VlanConfig::default(),
    };
    let bridge = switch.add_bridge(&spec, Time::ZERO).unwrap();
    let ports = [1u8, 2, 3].map(|n| {
        let device = Device::new(&format!("p{n}"), DeviceKind::Dummy, MacAddr([2, 0, 0, 0, 1, n]));
        let spec = PortSpec { of_port: Some(OfPort(u16::from(n))), ..PortSpec::new(device) };
        switch.add_port(bridge, &spec).unwrap().1.unwrap()
    });
    (switch, ports)
}

fn frame(src: u8, dst: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5];
    frame.extend([0; 46]);
    frame
}

fn send(switch: &mut Switch, port: PortNo, frame: &[u8], now: Time) -> Vec<PortNo> {
    let mut packet = switch.allocate();
    packet.set_frame(frame);
    let mut batch = Batch::new();
    batch.push(packet).unwrap();
    switch.receive(port, &mut batch, now, &mut Off);
    let mut out = Vec::new();
    let mut done = Vec::new();
    switch.drain_tx(&mut Off, |port, packet| {
        out.push(port);
        done.push(packet);
    });
    done.into_iter().for_each(|packet| switch.recycle(packet));
    out.sort();
    out
}

use crate::types::OfPort;

#[test]
fn floods_learns_and_follows() {
    let (mut switch, [p1, p2, p3]) = learning_switch();
    let local = PortNo(100);
    assert_eq!(send(&mut switch, p1, &frame(1, 2), Time::ZERO), [p2, p3, local], "unknown: flooded");
    assert_eq!(send(&mut switch, p2, &frame(2, 1), Time::ZERO), [p1], "learned from the first");
    assert_eq!(
        send(&mut switch, p1, &frame(1, 2), Time::ZERO),
        [p2],
        "the first one's flow followed the learned address"
    );
    assert_eq!(switch.datapath().flows().len(), 2);
    assert_eq!(switch.datapath().counters().passes.upcall, 2);
    assert!(switch.datapath().counters().balanced());
}

#[test]
fn a_flow_stays_that_is_idle_for_no_more_than_allowed() {
    let (mut switch, [p1, ..]) = learning_switch();
    send(&mut switch, p1, &frame(1, 2), Time::ZERO);
    // As in OVS with its clock stopped and warped.
    for (ms, flows) in [(10_000, 1), (10_001, 0)] {
        switch.run(Time::from_millis(ms), &mut Off);
        assert_eq!(switch.datapath().flows().len(), flows, "after {ms} ms");
    }
}

#[test]
fn the_last_change_too_is_followed_once_settled() {
    let (mut switch, [p1, p2, p3]) = learning_switch();
    let now = Time::ZERO;
    send(&mut switch, p2, &frame(2, 1), now);
    send(&mut switch, p1, &frame(1, 2), now);
    // The address moves; nothing comes after that.
    send(&mut switch, p3, &frame(2, 2), now);
    let outputs = |switch: &Switch| {
        let flows = switch.datapath().flows();
        let found = flows.iter().filter(|flow| flow.key().in_port == p1.0).map(|flow| flow.actions.to_vec());
        found.collect::<Vec<_>>()
    };
    assert_eq!(outputs(&switch), [[Action::Output(p2)]]);
    switch.settle(now, &mut Off);
    assert_eq!(outputs(&switch), [[Action::Output(p3)]]);
}

#[test]
fn a_command_reaches_flows_in_time_without_packets() {
    let (mut switch, [p1, ..]) = learning_switch();
    send(&mut switch, p1, &frame(1, 2), Time::ZERO);
    let at = Time::from_millis(1000);
    switch.settle(at, &mut Off);
    switch.command(at, &["ovs-ofctl", "add-flow", "br0", "dl_type=0x88b5,actions=drop"]).unwrap();
    let due = switch.next_wakeup().unwrap();
    assert_eq!(due, at + SwitchConfig::default().max_revalidator);
    switch.run(due, &mut Off);
    assert_eq!(switch.datapath().flows().iter().next().unwrap().actions, [Action::Drop(0)]);
}

#[test]
fn a_flow_that_is_narrower_than_need_be_stays() {
    let (mut switch, [p1, ..]) = learning_switch();
    let add = ["ovs-ofctl", "add-flow", "br0", "dl_vlan_pcp=3,actions=drop"];
    switch.command(Time::ZERO, &["ovs-ofctl", "del-flows", "br0"]).unwrap();
    switch.command(Time::ZERO, &add).unwrap();
    let mut tagged = frame(1, 2);
    tagged.splice(12..12, [0x81, 0, 0, 20]);
    send(&mut switch, p1, &tagged, Time::ZERO);
    // Without that rule nobody looks at the tag any more.
    switch.command(Time::ZERO, &["ovs-ofctl", "del-flows", "br0"]).unwrap();
    switch.settle(Time::ZERO, &mut Off);
    assert_eq!(switch.datapath().flows().len(), 1);
}

#[test]
fn tags_of_another_type_share_a_flow_that_revalidation_keeps() {
    let (mut switch, [p1, ..]) = learning_switch();
    let rule = |switch: &mut Switch, command, rule: &str| {
        switch.command(Time::ZERO, &["ovs-ofctl", command, "br0", rule]).unwrap();
    };
    rule(&mut switch, "add-flow", "vlan_tci=0x1014,actions=drop");
    for kind in [[0x81, 0], [0x88, 0xa8]] {
        let mut tagged = frame(1, 2);
        tagged.splice(12..12, [kind[0], kind[1], 0, 20]);
        send(&mut switch, p1, &tagged, Time::ZERO);
    }
    assert_eq!(switch.datapath().flows().len(), 1);
    // Rewriting the tag looks at its type, too.
    rule(&mut switch, "mod-flows", "vlan_tci=0x1014,actions=mod_vlan_pcp:5,output:2");
    switch.settle(Time::ZERO, &mut Off);
    assert_eq!(switch.datapath().flows().len(), 1);
}

#[test]
fn idle_flows_go_and_used_ones_keep_addresses() {
    let (mut switch, [p1, p2, _]) = learning_switch();
    send(&mut switch, p1, &frame(1, 2), Time::ZERO);
    send(&mut switch, p2, &frame(2, 1), Time::ZERO);
    let mut now = Time::ZERO;
    for _ in 0..70 {
        now += Span::from_secs(5);
        switch.run(now, &mut Off);
        assert_eq!(send(&mut switch, p1, &frame(1, 2), now), [p2], "at {now:?}");
        send(&mut switch, p2, &frame(2, 1), now);
    }
    now += Span::from_secs(11);
    switch.run(now, &mut Off);
    assert_eq!(switch.datapath().flows().len(), 0, "idle for more than 10 s");
    now += Span::from_secs(301);
    switch.run(now, &mut Off);
    let bridge = switch.bridge_id("br0").unwrap();
    assert!(switch.ofproto().mac_table(bridge).unwrap().is_empty(), "aged out");
}

#[test]
fn a_port_that_is_down_neither_sends_nor_receives() {
    let (mut switch, [p1, p2, p3]) = learning_switch();
    switch.configure_device("p2", |device| device.admin_up = false).unwrap();
    assert_eq!(send(&mut switch, p1, &frame(1, 9), Time::ZERO), [p3, PortNo(100)]);
    assert_eq!(send(&mut switch, p2, &frame(2, 9), Time::ZERO), []);
}

#[test]
fn names_are_unique_and_local_ports_stay() {
    let (mut switch, _) = learning_switch();
    let bridge = switch.bridge_id("br0").unwrap();
    let device = Device::new("p1", DeviceKind::Dummy, MacAddr::ZERO);
    let spec = PortSpec::new(device);
    assert!(matches!(switch.add_port(bridge, &spec), Err(SwitchError::NameTaken(_))));
    assert!(matches!(switch.remove_port("br0"), Err(SwitchError::LocalPort(_))));
    switch.remove_port("p1").unwrap();
    assert!(matches!(switch.remove_port("p1"), Err(SwitchError::NoPort(_))));
    switch.remove_bridge("br0").unwrap();
    assert_eq!(switch.ports().count(), 0);
}
