//! What became of datapath flows, and why.

use super::*;
use crate::trace::{Event, Recorder};

/// A bridge with rules and one flow for frames from 1 to 2.
fn with_flow(rules: &[&str]) -> (Switch, PortNo) {
    let (mut switch, [p1, ..]) = learning_switch();
    switch.command(Time::ZERO, &["ovs-ofctl", "del-flows", "br0"]).unwrap();
    rules.iter().for_each(|rule| add(&mut switch, rule));
    switch.settle(Time::ZERO, &mut Off);
    send(&mut switch, p1, &frame(1, 2), Time::ZERO);
    assert_eq!(switch.datapath().flows().len(), 1);
    (switch, p1)
}

fn add(switch: &mut Switch, rule: &str) {
    switch.command(Time::ZERO, &["ovs-ofctl", "add-flow", "br0", rule]).unwrap();
}

/// The last fate, and the trace of settling.
fn fate(switch: &mut Switch, now: Time) -> (String, Vec<Event>) {
    let mut trace = Recorder::default();
    switch.settle(now, &mut trace);
    let event = switch.flow_life().events().next_back().unwrap();
    (switch.fate_text(event), trace.events)
}

#[test]
fn other_actions_change_a_flow() {
    let (mut switch, _) = with_flow(&["in_port=1,actions=2"]);
    add(&mut switch, "in_port=1,actions=3");
    let (text, events) = fate(&mut switch, Time::ZERO);
    assert_eq!(text, "changed; rules changed; a rule of it is gone");
    assert_eq!(events, [Event::Modify { flow: FlowId(0) }]);
    let event = switch.flow_life().events().next_back().unwrap();
    assert!(switch.past_flow_text(event).ends_with("actions:p2"));
    assert_eq!(switch.after_text(event).as_deref(), Some("actions:p3"));
}

#[test]
fn a_rule_that_looks_at_more_removes_what_is_too_wide() {
    let (mut switch, _) = with_flow(&["in_port=1,actions=2"]);
    add(&mut switch, "in_port=1,dl_src=02:00:00:00:00:09,priority=65535,actions=3");
    let (text, events) = fate(&mut switch, Time::ZERO);
    assert_eq!(text, "removed, too-wide: the rules look at more than it matches; rules changed");
    assert_eq!(events, [Event::Remove { flow: FlowId(0), why: RemoveWhy::Wide }]);
    let event = switch.flow_life().events().next_back().unwrap();
    assert!(!switch.past_flow_text(event).contains("eth(src="));
    assert!(switch.after_text(event).unwrap().contains("eth(src=02:00:00:00:00:01)"));
}

#[test]
fn idle_and_purged_flows_are_told_apart() {
    let (mut switch, p1) = with_flow(&["in_port=1,actions=2"]);
    let (text, _) = fate(&mut switch, Time::from_millis(10_001));
    assert_eq!(text, "removed, idle: no packet used it");
    send(&mut switch, p1, &frame(1, 2), Time::from_millis(10_002));
    switch.command(Time::from_millis(10_003), &["ovs-appctl", "revalidator/purge"]).unwrap();
    let life = switch.flow_life();
    assert_eq!((life.counts().removed(RemoveWhy::Idle), life.counts().removed(RemoveWhy::Purged)), (1, 1));
    let text = switch.command(Time::ZERO, &["ovs-appctl", "recirc/why-deleted", "1"]).unwrap();
    assert!(text.starts_with("10.003s removed, purged: all flows were removed\n  "), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
    let error = switch.command(Time::ZERO, &["ovs-appctl", "recirc/why-deleted", "all"]).unwrap_err();
    assert_eq!(error.to_string(), "all is not a number");
}

#[test]
fn a_port_that_goes_takes_its_flows_along() {
    let (mut switch, _) = with_flow(&["in_port=1,actions=2"]);
    switch.command(Time::ZERO, &["ovs-vsctl", "del-port", "p1"]).unwrap();
    let (text, _) = fate(&mut switch, Time::ZERO);
    assert_eq!(text, "removed, no-port: its port or recirculation is gone; ports, underlay changed");
}

#[test]
fn crowded_flows_go_sooner_and_far_too_many_at_once() {
    let (mut switch, [p1, ..]) = learning_switch();
    switch
        .command(
            Time::ZERO,
            &["ovs-ofctl", "add-flow", "br0", "in_port=1,dl_src=2:0:0:0:0:0/2:0:0:0:0:ff,actions=2"],
        )
        .unwrap();
    for src in 1..=5 {
        send(&mut switch, p1, &frame(src, 99), Time::ZERO);
    }
    let limit = |switch: &mut Switch, limit, ms| {
        let config = Config { flow_limit: limit, ..*switch.datapath().config() };
        switch.configure_datapath(config, Time::ZERO);
        switch.run(Time::from_millis(ms), &mut Off);
        switch.datapath().flows().len()
    };
    let n = switch.datapath().flows().len();
    assert_eq!(n, 5);
    assert_eq!(limit(&mut switch, 5, 101), n, "as many as there may be");
    assert_eq!(limit(&mut switch, 4, 101), 0, "idle for more than 100 ms");
    for src in 1..=5 {
        send(&mut switch, p1, &frame(src, 99), Time::from_millis(101));
    }
    assert_eq!(limit(&mut switch, 1, 101), 0, "more than twice as many");
    assert_eq!(switch.flow_life().counts().removed(RemoveWhy::Limit), 4);
}

#[test]
fn only_so_many_are_kept_and_all_are_counted() {
    let (mut switch, p1) = with_flow(&["in_port=1,actions=2"]);
    for ms in 1..=1100 {
        switch.flush_flows(Time::from_millis(ms));
        send(&mut switch, p1, &frame(1, 2), Time::from_millis(ms));
    }
    let life = switch.flow_life();
    assert_eq!((life.events().len(), life.total()), (1024, 1100));
    assert_eq!(life.events().next().unwrap().at, Time::from_millis(77));
}
