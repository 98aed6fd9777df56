//! Whole worlds.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::types::Time;
use proptest::prelude::*;

use crate::capture::CaptureWriter;
use crate::files::{Files, MemoryFiles};
use crate::history::History;
use crate::record::{Happening, WorldEvent};
use crate::report::{Report, Verdict};
use crate::runner::{RunError, RunOptions, load, run_to_end};
use crate::scenario::{HostCounter, Scenario};
use crate::world::World;

const LOSSY: &str = r#"
name = "a lossy line"
seed = 5
[host.h1]
ip = ["10.0.0.1/24", "fd00::1/64"]
[host.h2]
ip = ["10.0.0.2/24", "fd00::2/64"]
listen = [80]
[switch.s1]
port.1 = {}
port.2 = {}
[[link]]
ends = ["h1", "s1:1"]
delay = "100us"
jitter = "20us"
rate = "10Mbit"
queue = "20 packets"
[[link]]
ends = ["s1:2", "h2"]
delay = "1ms"
loss = "3%"
duplicate = "1%"
reorder = "2%"
[[step]]
ping = { from = "h1", to = "10.0.0.2", count = 5, interval = "10ms" }
[[step]]
ping = { from = "h2", to = "fd00::1", count = 5, interval = "7ms" }
[[step]]
at = "1s"
tcp = { from = "h1", to = "10.0.0.2", port = 80, bytes = "100KiB" }
[[step]]
at = "9s"
expect.at = "h2"
expect.tcp.delivered = "100KiB"
expect.tcp.closed = 1
"#;

fn files(list: &[(&str, &[u8])]) -> (MemoryFiles, Arc<dyn Files + Send + Sync>) {
    let memory = MemoryFiles::default();
    for (name, bytes) in list {
        memory.insert(*name, *bytes);
    }
    (memory.clone(), Arc::new(memory))
}

fn run_with(text: &str, others: &[(&str, &[u8])], options: &RunOptions) -> (Report, MemoryFiles) {
    let (memory, files) = files(others);
    memory.insert("t/test.toml", text.as_bytes());
    let scenario = load("t/test.toml".as_ref(), &*files).unwrap_or_else(|errors| panic!("{errors}"));
    let report = run_to_end(scenario, &files, options).unwrap_or_else(|error| panic!("{error}"));
    (report, memory)
}

fn run(text: &str) -> Report {
    run_with(text, &[], &RunOptions::default()).0
}

fn json(report: &Report) -> serde_json::Value {
    let mut bytes = Vec::new();
    report.write_json(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn world(text: &str) -> World {
    let scenario = Arc::new(Scenario::parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}")));
    World::new(scenario, Arc::new(MemoryFiles::default()), None, false).unwrap()
}

fn capture(frames: &[(u64, &[u8])]) -> Vec<u8> {
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    for (time_ns, frame) in frames {
        writer.write(*time_ns, frame.len() as u32, frame).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_lossy_line_is_survived() {
    let report = run(LOSSY);
    assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
    assert!(report.links[1].directions[0].dropped[3] > 0, "nothing was lost: {}", report.text());
}

#[test]
fn same_seed_same_bytes_other_seed_other_losses() {
    let options = RunOptions { out: Some("out".into()), ..RunOptions::default() };
    let outputs = |options: &RunOptions| {
        let (report, memory) = run_with(LOSSY, &[], options);
        let names = memory.names();
        (report.digest, names.iter().map(|name| (name.clone(), memory.get(name))).collect::<Vec<_>>())
    };
    let (first, second) = (outputs(&options), outputs(&options));
    assert_eq!(first, second);
    let names: Vec<_> = first.1.iter().map(|(name, _)| name.display().to_string()).collect();
    for name in
        ["out/test/report.json", "out/test/s1.1.tx.pcap", "out/test/s1.2.tx.pcap", "out/test/s1.flows.txt"]
    {
        assert!(names.iter().any(|n| n == name), "{names:?}");
    }
    let other = outputs(&RunOptions { seed: Some(6), ..options });
    assert_ne!(first.0, other.0);
}

#[test]
fn one_more_host_changes_no_other_links_losses() {
    let more = LOSSY.replace("[[step]]\nat = \"1s\"", "[[link]]\nends = [\"h9\", \"h8\"]\nloss = \"50%\"\n[[step]]\nping = { from = \"h9\", to = \"10.9.0.8\" }\n[[step]]\nat = \"1s\"")
        .replace("[switch.s1]", "[host.h9]\nip = \"10.9.0.9/24\"\n[host.h8]\nip = \"10.9.0.8/24\"\n[switch.s1]");
    let (before, after) = (run(LOSSY), run(&more));
    assert_eq!(
        before.links[..2].iter().map(|l| l.directions).collect::<Vec<_>>(),
        after.links[..2].iter().map(|l| l.directions).collect::<Vec<_>>()
    );
    assert_eq!(before.digest, after.digest);
}

#[test]
fn going_back_and_forward_gives_the_same_states() {
    let mut history = History::with_limits(world(LOSSY), 4, usize::MAX, 16);
    let looks = [300u64, 299, 17, 16, 15, 1, 0, 5, 250, 251, 3, 90, 120];
    let mut states = BTreeMap::new();
    loop {
        let at = history.position();
        if looks.contains(&at) {
            states.insert(at, (history.world().state_digest(), history.trace().clone()));
        }
        if history.step_event().unwrap().is_none() {
            break;
        }
    }
    assert_eq!(states.len(), looks.len(), "the run has {} events", history.position());
    assert!(history.keyframes().0 <= 4);
    let same = |history: &History| {
        let at = history.position();
        let (digest, trace) = &states[&at];
        assert_eq!(history.world().state_digest(), *digest, "at {at}");
        assert_eq!(history.trace(), trace, "at {at}");
    };
    for to in looks {
        assert_eq!(history.seek(to).unwrap(), to);
        same(&history);
    }
    history.seek(100).unwrap();
    for back in (90..100).rev() {
        assert!(history.back_event().unwrap());
        assert_eq!(history.position(), back);
    }
    same(&history);
    while history.position() < 120 {
        history.step_event().unwrap();
    }
    same(&history);
}

#[test]
fn packets_are_steps_too() {
    let mut history = History::with_limits(world(LOSSY), 8, usize::MAX, 4);
    let mut stops = Vec::new();
    for _ in 0..40 {
        history.step_packet().unwrap().unwrap();
        stops.push(history.position());
    }
    for stop in stops.iter().rev().skip(1) {
        assert!(history.back_packet().unwrap());
        assert_eq!(history.position(), *stop);
    }
    assert!(history.back_packet().unwrap());
    assert_eq!(history.position(), 0);
    assert!(!history.back_packet().unwrap() && !history.back_event().unwrap());
}

#[test]
fn typed_commands_are_part_of_the_run() {
    const LEARNING: &str = r#"
[host.h1]
ip = "10.0.0.1/24"
[host.h2]
ip = "10.0.0.2/24"
[switch.s1]
port.1 = {}
port.2 = {}
[[link]]
ends = ["h1", "s1:1"]
delay = "10us"
[[link]]
ends = ["h2", "s1:2"]
delay = "10us"
[[step]]
ping = { from = "h1", to = "10.0.0.2", count = 4, interval = "100ms" }
"#;
    let answered = |history: &History| history.world().hosts()[0].counter(HostCounter::PingReceived);
    let mut history = History::with_limits(world(LEARNING), 4, usize::MAX, 8);
    history.run_until(|_, _, _| false).unwrap();
    assert_eq!(answered(&history), 4);
    let end = history.position();

    // From the second echo request on, pings are dropped.
    history.seek(0).unwrap();
    let second = Time::from_millis(100);
    history.run_until(|world, _, _| world.next_time().is_none_or(|next| next >= second)).unwrap();
    let here = history.position();
    assert!(here < end);
    let wrong = history.type_command("ovs-frobnicate").unwrap_err();
    assert!(wrong.to_string().contains("ovs-frobnicate"), "{wrong}");
    assert_eq!((history.position(), history.len_known()), (here, end), "nothing changed");
    history.type_command("ovs-ofctl add-flow s1 priority=9,icmp,actions=drop").unwrap();
    assert_eq!((history.position(), history.len_known()), (here + 1, here + 1), "the future is open again");
    let typed = history.world().state_digest();
    history.run_until(|_, _, _| false).unwrap();
    assert_eq!(answered(&history), 1);

    // It runs again whenever the world comes there again.
    let (end, state) = (history.position(), history.world().state_digest());
    for back in [0, here, here + 1, end] {
        history.seek(back).unwrap();
        history.seek(here + 1).unwrap();
        assert_eq!(history.world().state_digest(), typed);
        assert!(matches!(history.trace().entries()[0], Happening::World(WorldEvent::Typed { command: 0 })));
        history.seek(end).unwrap();
        assert_eq!(history.world().state_digest(), state);
    }

    // A second one before it takes the first one away.
    history.seek(here - 1).unwrap();
    history.type_command("ovs-ofctl add-flow s1 priority=9,icmp,actions=normal").unwrap();
    history.run_until(|_, _, _| false).unwrap();
    assert_eq!(answered(&history), 4);
    assert_eq!(history.world().typed().len(), 1);
}

#[test]
fn skipping_goes_where_stepping_goes() {
    let (mut skipped, mut stepped) = (History::new(world(LOSSY)), History::new(world(LOSSY)));
    assert_eq!(skipped.skip(0).unwrap(), 0);
    assert_eq!(skipped.skip(30).unwrap(), 30);
    for _ in 0..30 {
        stepped.step_event().unwrap();
    }
    assert_eq!(skipped.world().state_digest(), stepped.world().state_digest());
    assert_eq!(skipped.trace(), stepped.trace(), "the last event is recorded");
    skipped.skip(u64::MAX).unwrap();
    assert!(!skipped.has_next());
    assert_eq!(skipped.skip(1).unwrap(), 0);
}

#[test]
fn seeking_beyond_the_end_stops_there() {
    let mut history = History::new(world(LOSSY));
    let end = history.seek(u64::MAX).unwrap();
    assert!(history.at_end() && end > 300 && history.last().is_some());
    assert!(!history.trace().entries().is_empty());
    assert_eq!(history.seek(u64::MAX).unwrap(), end);
    history.back_event().unwrap();
    assert!(!history.at_end() && history.is_complete());
    assert_eq!(history.len_known(), end);
}

#[test]
fn a_replay_can_be_walked_through() {
    let frames: Vec<Vec<u8>> =
        (0..200u32).map(|i| [vec![2; 14], i.to_be_bytes().to_vec()].concat()).collect();
    let list: Vec<(u64, &[u8])> =
        frames.iter().enumerate().map(|(i, f)| (1_000 * i as u64, &f[..])).collect();
    let text = "[switch.s1]\nport.1={}\nport.2={}\n[[step]]\nreplay={on='s1:1',pcap='in.pcap',loop=2}\n";
    let memory = MemoryFiles::default();
    memory.insert("in.pcap", capture(&list));
    let scenario = Arc::new(Scenario::parse("test.toml", text).unwrap());
    let world = World::new(scenario, Arc::new(memory), None, false).unwrap();
    let mut history = History::with_limits(world, 4, usize::MAX, 8);
    let looks = [399u64, 200, 201, 10, 390];
    let mut states = BTreeMap::new();
    while history.step_event().unwrap().is_some() {
        if looks.contains(&history.position()) {
            states.insert(history.position(), history.world().state_digest());
        }
    }
    assert_eq!(history.world().switches().next().unwrap().counters().received, 400);
    // The second pass begins one mean distance after the first ended.
    assert_eq!(history.world().now().0, 399_000);
    for to in looks {
        history.seek(to).unwrap();
        assert_eq!(history.world().state_digest(), states[&to], "{to}");
    }
}

#[test]
fn report_has_what_left_by_step() {
    let text = r#"
[switch.s1]
port.1 = {}
port.2 = {}
[switch.s2]
port.1 = {}
port.2 = {}
[[link]]
ends = ["s1:2", "s2:1"]
[[step]]
at = "1ms"
send = { on = "s1:1", hex = "ffffffffffff 020000000001 0800 00" }
[[step]]
send = { on = "s2:2", hex = ["020000000001 020000000002 0800 01", "020000000001 020000000002 0800 02"] }
[[step]]
ovs = "ovs-vsctl add-br br0 -- add-port br0 p1 -- add-port br0 p2"
[[step]]
send = { on = "br0:p1", frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / 1 bytes" }
[[step]]
expect = { at = "s2:2", frames = 1 }
"#;
    let options = RunOptions { frames: true, ..RunOptions::default() };
    let (report, _) = run_with(text, &[], &options);
    let json = json(&report);
    assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
    let out = |step: usize| {
        json["steps"][step]["out"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| format!("{} {}", o[0].as_str().unwrap(), o[1].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    // A flood also reaches each bridge's own port; what goes over the link to the other switch is not outside.
    let flood = ["s1:s1", "s2:s2", "s2:2"].map(|place| format!("{place} ffffffffffff020000000001080000"));
    assert_eq!(out(0), flood);
    assert_eq!(out(1), ["s1:1 020000000001020000000002080001", "s1:1 020000000001020000000002080002"]);
    assert_eq!(out(2), [""; 0]);
    assert_eq!(out(3), ["br0", "p2"].map(|port| format!("br0:{port} 02000000000202000000000188b500")));
    assert_eq!(json["steps"][1]["at_ns"], 1_000_000);
    assert_eq!(json["switches"]["s1"]["passes"], 3);
    assert_eq!(json["result"], "pass");
}

#[test]
fn expectations_that_do_not_hold_say_why() {
    let text = r#"
[switch.s1]
port.1 = {}
port.2 = {}
[[step]]
send = { on = "s1:1", hex = "ffffffffffff 020000000001 0800 00" }
[[step]]
expect = { at = "s1:2", frames = 2 }
[[step]]
expect = { at = "s1:2", hex = "ffffffffffff 020000000001 0800 01" }
[[step]]
expect = { at = "s1:2", frames = 1, contains = "0001 0800" }
[[step]]
at = "1ms"
expect = { at = "s1:2", frames = 0 }
[[step]]
expect-flow = { switch = "s1", flow = "in_port(7)" }
"#;
    let report = run(text);
    assert_eq!(report.verdict, Verdict::ExpectationFailed);
    let details: Vec<_> = report.expectations.iter().map(|o| (o.pass, o.detail.as_str())).collect();
    assert_eq!(details[0], (false, "2 frame(s) wanted, 1 came"));
    assert_eq!(
        details[1].1,
        "frame 1: 1 byte(s) differ, first at 14 (ipv4 version and header length): wanted ..0001080001, got ..0001080000"
    );
    assert_eq!((details[2].0, details[3].0), (true, true));
    assert!(!details[4].0);
}

#[test]
fn golden_captures_are_compared_and_blessed() {
    let text = r#"
[switch.s1]
port.1 = {}
port.2 = {}
[[step]]
at = "3us"
send = { on = "s1:1", hex = "ffffffffffff 020000000001 0800 00" }
[[step]]
expect-golden = { at = "s1:2", pcap = "../golden/a.pcap", times = true }
"#;
    let missing = run_missing(text);
    assert!(missing.contains("cannot read t/../golden/a.pcap"), "{missing}");
    let (report, memory) = run_with(text, &[], &RunOptions { bless: true, ..RunOptions::default() });
    assert_eq!(report.verdict, Verdict::Pass);
    let golden = memory.get("t/../golden/a.pcap").unwrap();
    let (report, _) = run_with(text, &[("t/../golden/a.pcap", &golden)], &RunOptions::default());
    assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
    let other = text.replace("0800 00", "0806 00");
    let (report, _) = run_with(&other, &[("t/../golden/a.pcap", &golden)], &RunOptions::default());
    assert_eq!(report.verdict, Verdict::GoldenDiffers);
    assert!(report.expectations[0].detail.starts_with("frame 1: 1 byte(s) differ, first at 13 (eth type)"));
    let late = text.replace("3us", "4us");
    let (report, _) = run_with(&late, &[("t/../golden/a.pcap", &golden)], &RunOptions::default());
    assert_eq!(report.expectations[0].detail, "frame 1: the same bytes, but at 4000 ns instead of 3000 ns");
}

fn run_missing(text: &str) -> String {
    let (memory, files) = files(&[]);
    memory.insert("t/test.toml", text.as_bytes());
    let scenario = load("t/test.toml".as_ref(), &*files).unwrap();
    match run_to_end(scenario, &files, &RunOptions::default()) {
        Err(RunError::World(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_steps_point_into_the_file() {
    let text = "[switch.s1]\nport.1 = {}\n[[step]]\novs = '''\novs-vsctl list-br\n  ovs-fail now\n'''\n";
    let report = run(text);
    assert_eq!(report.verdict, Verdict::BadScenario);
    let error = report.error.unwrap().to_string();
    assert!(error.contains("t/test.toml:6:3"), "{error}");
    assert!(error.ends_with("  ^^^^^^^^"), "{error}");
}

#[test]
fn a_loop_without_delay_is_noticed() {
    let text = r#"
[switch.s1]
port.1 = {}
port.2 = {}
port.3 = {}
[[link]]
ends = ["s1:1", "s1:2"]
[[step]]
send = { on = "s1:3", hex = "ffffffffffff 020000000001 0800 00" }
"#;
    let report = run(text);
    assert_eq!(report.verdict, Verdict::BadScenario);
    assert!(report.error.unwrap().to_string().contains("frames circle for ever"));
}

#[test]
fn links_go_down_and_up() {
    let text = r#"
[host.h1]
[host.h2]
[switch.s1]
port.1 = {}
port.2 = {}
[[link]]
ends = ["h1", "s1:1"]
[[link]]
ends = ["s1:2", "h2"]
[[step]]
send = { from = "h1", frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / 46 bytes", count = 30, gap = "100ms" }
[[step]]
at = "1s"
link = { ends = ["h2", "s1:2"], down = true }
[[step]]
at = "2s"
link = { at = "h2", down = false }
[[step]]
at = "3s"
expect = { at = "h2", frames = 20 }
"#;
    let report = run(text);
    assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
}

#[test]
fn without_an_end_all_that_was_to_be_sent_is_sent() {
    let frame = [2u8; 20];
    let hours = capture(&[(0, &frame), (3_600_000_000_000, &frame), (3_600_000_000_500, &frame)]);
    let text = r#"
[host.h1]
ip = "10.0.0.1/24"
[host.h2]
ip = "10.0.0.2/24"
[switch.s1]
port.1 = {}
port.2 = {}
[[link]]
ends = ["h1", "h2"]
[[step]]
replay = { on = "s1:1", pcap = "in.pcap" }
[[step]]
ping = { from = "h1", to = "10.0.0.2", count = 100 }
[[step]]
send = { on = "s1:2", frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02", count = 3, gap = "1min" }
"#;
    let (report, _) = run_with(text, &[("t/in.pcap", &hours)], &RunOptions::default());
    assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
    assert_eq!(report.switches[0].counters.received, 6);
    assert_eq!(report.hosts[0].counters[1], 100);
    assert_eq!(report.end.0, 3_600_000_000_500);
}

#[test]
fn text_and_csv() {
    let report = run(LOSSY);
    let text = report.text();
    assert!(
        text.contains("  result: pass\n") && text.contains("host h2") && !text.contains('\u{1b}'),
        "{text}"
    );
    let mut csv = Vec::new();
    report.write_csv(&mut csv, true).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(
        csv.starts_with("file,kind,name,item,value\nt/test.toml,run,a lossy line,result,pass\n"),
        "{csv}"
    );
    assert!(csv.lines().any(|line| line == "t/test.toml,host,h2,tcp.delivered,102400"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Any way of moving about gives the states of the straight way.
    #[test]
    fn any_walk_gives_the_same_states(moves in prop::collection::vec((0u8..4, 0u64..120), 1..8), keyframes in 2usize..6, spacing in 1u64..20) {
        let mut straight = vec![world(LOSSY)];
        for _ in 0..150 {
            let mut next = straight.last().unwrap().clone();
            next.step_unwatched().unwrap();
            straight.push(next);
        }
        let digest = |at: u64| straight[at as usize].state_digest();
        let mut history = History::with_limits(world(LOSSY), keyframes, usize::MAX, spacing);
        for (what, to) in moves {
            match what {
                0 => { history.step_event().unwrap(); }
                1 => { history.back_event().unwrap(); }
                2 => { history.back_packet().unwrap(); }
                _ => { history.seek(to).unwrap(); }
            }
            prop_assume!(history.position() < 150);
            prop_assert_eq!(history.world().state_digest(), digest(history.position()));
        }
    }
}

#[test]
fn what_became_of_flows_is_in_the_report_and_the_trace() {
    let text = r#"
stop-at = "20s"
[switch.s1]
port.1 = {}
port.2 = {}
flows = "in_port=1,actions=2"
[[step]]
send.on = "s1:1"
send.frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / ipv4 10.0.0.1 > 10.0.0.2 / udp 1 > 2"
[[step]]
at = "1s"
ovs = "ovs-ofctl add-flow s1 in_port=1,actions=drop"
[[step]]
at = "2s"
ovs = "ovs-appctl revalidator/purge"
"#;
    let report = run(text);
    let past = &json(&report)["switches"]["s1"]["past_flows"];
    assert_eq!(past.as_array().map(Vec::len), Some(2));
    assert_eq!(past[0]["at_ns"], 1_500_000_000_u64, "when the revalidator looks at the latest");
    assert_eq!((&past[0]["fate"], &past[0]["why"]), (&"changed".into(), &serde_json::Value::Null));
    assert_eq!((&past[0]["actions"], &past[0]["after"]), (&"2".into(), &"actions:drop".into()));
    assert_eq!((&past[0]["changes"][0], &past[0]["rule_gone"]), (&"rules".into(), &true.into()));
    assert_eq!((&past[1]["fate"], &past[1]["why"]), (&"removed".into(), &"purged".into()));
    let shown = report.text();
    assert!(shown.contains("    flows that were removed: 1, changed: 1\n      at 1.5s changed;"), "{shown}");

    let mut history = History::new(world(text));
    let mut told = Vec::new();
    while let Ok(Some(_)) = history.step_event() {
        for entry in history.trace().entries() {
            told.push(crate::describe::happening(entry, history.world()));
        }
    }
    let flow = |what: &str| told.iter().filter(|line| line.starts_with(what)).count();
    assert_eq!((flow("flow 0 installed"), flow("flow 0 changed"), flow("flow 0 removed, purged")), (1, 1, 1));
}

#[test]
fn connections_are_in_the_report() {
    let report = run(r#"
stop-at = "1s"
[switch.s1]
port.1 = {}
port.2 = {}
flows = "in_port=1,ip,actions=ct(commit,zone=4),2"
[[step]]
send.on = "s1:1"
send.frame = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / ipv4 10.0.0.1 > 10.0.0.2 / udp 1..50 > 2"
"#);
    let found = &json(&report)["switches"]["s1"]["connections"];
    assert_eq!(found.as_array().map(Vec::len), Some(50));
    assert_eq!(
        found[0],
        "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1),\
         zone=4,timeout=59"
    );
    let shown = report.text();
    assert!(shown.contains("    connections: 50\n      udp,orig="), "{shown}");
    assert!(shown.contains("      and 10 more; --format json has all\n"), "{shown}");
}
