//! Whole files: right ones, and all errors of wrong ones.

use proptest::prelude::*;

use super::*;
use crate::link::QueueLimit;
use crate::quantity::Probability;

fn parse(text: &str) -> Scenario {
    match Scenario::parse("dir/test.toml", text) {
        Ok(scenario) => scenario,
        Err(errors) => panic!("{errors}"),
    }
}

const GOOD: &str = r#"
name    = "a TSO segment through VXLAN to a port without offloads"
seed    = 7
stop-at = "50ms"

[host.h1]
mac = "02:00:00:00:00:01"
ip  = ["10.0.0.1/24", "fd00::1/64"]
gateway = "10.0.0.254"

[host.h2]
ip = "10.0.0.2/24"

[switch.s1]
port.1  = { offload = ["tcp-csum", "tso"] }
port.vx = { tunnel = "vxlan", local = "192.0.2.1", remote = "192.0.2.2", vni = 42 }
port.2  = { tag = 10, number = 7 }
other-config = { emc-insert-inv-prob = 1, smc-enable = true }
flows = '''
table=0 priority=10 in_port=1,tcp actions=ct(zone=1,table=1)
# a comment
table=1 ip,ct_state=+trk \
  actions=ct(commit,zone=1),output:vx
'''

[[link]]
ends  = ["h1", "s1:1"]
delay = "10us"
loss  = "0.1%"
backward = { loss = "5%", queue = "64KiB" }

[[step]]
at = "1ms"
ovs = '''
ovs-ofctl add-flow s1 'table=1,priority=5,actions=drop'
ovs-vsctl add-br br0 -- add-port br0 p9
'''

[[step]]
replay.on   = "h1"
replay.pcap = "../golden-pcaps/http-get.pcap"
replay.speed = "0.5x"

[[step]]
send.on = "br0:p9"
send.frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / 4 bytes"

[[step]]
at = "2ms"
link.ends = ["s1:1", "h1"]
link.down = true
link.forward.loss = "1%"

[[step]]
expect.at = "h1"
expect.frames = 3
expect.ping.received = 3

[[step]]
expect-golden.at   = "s1:1"
expect-golden.pcap = "../golden-pcaps/vxlan-tso.h2.pcap"
"#;

#[test]
fn a_good_file() {
    let text = GOOD.replace("port.2  = { tag = 10, number = 7 }", "port.up = { tag = 10, number = 7 }");
    let scenario = parse(&text);
    assert_eq!(
        (scenario.seed, scenario.stop_at, scenario.stem.as_str()),
        (7, Some(Time::from_millis(50)), "test")
    );
    assert_eq!(scenario.hosts[1].mac.to_string(), "02:00:00:00:00:02");
    let switch = &scenario.switches[0];
    let names: Vec<_> = switch.ports.iter().map(|port| (port.name.as_str(), port.number)).collect();
    assert_eq!(names, [("1", Some(1)), ("vx", None), ("up", Some(7))]);
    let flows = switch.flows.as_ref().unwrap();
    assert_eq!(flows.lines.len(), 2);
    assert!(flows.lines[1].text.starts_with("table=1 ip,ct_state=+trk  actions=ct"), "{:?}", flows.lines[1]);
    assert!(text[flows.lines[1].span.clone()].starts_with("table=1 ip,ct_state=+trk"));
    let link = &scenario.links[0];
    assert_eq!(
        (link.forward.loss, link.backward.loss),
        (Probability::from_parts(1_000_000), Probability::from_parts(50_000_000))
    );
    assert_eq!(
        (link.forward.queue, link.backward.queue),
        (QueueLimit::Packets(1000), QueueLimit::Bytes(65_536))
    );
    let at: Vec<_> = scenario.steps.iter().map(|step| (step.at.as_millis(), step.action.kind())).collect();
    assert_eq!(
        at,
        [(1, "ovs"), (1, "replay"), (1, "send"), (2, "link"), (2, "expect"), (2, "expect-golden")]
    );
    let StepAction::Replay(replay) = &scenario.steps[1].action else { panic!() };
    assert_eq!(replay.pcap, std::path::Path::new("dir/../golden-pcaps/http-get.pcap"));
    assert_eq!(replay.speed, "0.5x".parse().unwrap());
}

#[test]
fn all_errors_at_once() {
    let text = r#"sede = 7
stop-at = 50

[host.h1]
mac = "02:00:00:00:00"
ip  = ["10.0.0.1/33", "fd00::1"]

[switch.s1]
port.1 = { offload = ["ts0"], vlan-mode = "access" }
port.x = { number = 1 }
groups = "group_id=1,type=al,bucket=output:1"
flows = """
in_port=y actions=drop
ip,nw_dst=1.2.3.4/99 actions=drop
in_port=x actions=frob
"""

[[link]]
ends  = ["h1", "s1:2"]
delay = "100"
loss  = "0.1"
rate  = "100"
jitter = 10

[[step]]
at = "1ms"
send.on = "s1:1"
send.hex = "0g"

[[step]]
sned.on = "h1"

[[step]]
ping = { from = "h3", to = "10.0.0.2" }
udp = { from = "h1", to = "10.0.0.2", port = 0 }

[[step]]
send = { from = "h1", frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / ipv5" }
"#;
    let errors = Scenario::parse("topologies/bad.toml", text).unwrap_err().to_string();
    insta::assert_snapshot!(errors);
}

#[test]
fn syntax_errors_are_all_reported() {
    let errors = Scenario::parse("bad.toml", "name = \nseed = = 3\n[host.h1\n").unwrap_err();
    assert!(errors.list.len() >= 3, "{errors}");
}

#[test]
fn equal_times_keep_file_order() {
    let text = "[[step]]\nat='2ms'\novs='a'\n[[step]]\nat='1ms'\novs='b'\n[[step]]\novs='c'\n[[step]]\nat='2ms'\novs='d'\n";
    assert_eq!(parse(text).run_order(), [1, 2, 0, 3]);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = Scenario::parse("x.toml", &text);
    }

    /// Damages a good file in one place: the answer is a scenario or errors that all lie within the file.
    #[test]
    fn no_damage_panics(at in 0..GOOD.len(), with in "\\PC{0,3}") {
        prop_assume!(GOOD.is_char_boundary(at) && GOOD.is_char_boundary(at + 1));
        let text = format!("{}{with}{}", &GOOD[..at], &GOOD[at + 1..]);
        if let Err(errors) = Scenario::parse("x.toml", &text) {
            prop_assert!(!errors.list.is_empty());
            for error in &errors.list {
                prop_assert!(error.span.start <= text.len());
            }
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
