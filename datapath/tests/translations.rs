//! Translations of random tables and packets, as Open vSwitch 4.0.90 has them: masks bit for bit, actions in order.

#![allow(clippy::unwrap_used, reason = "tests")]

use datapath::flow::{ExtractConfig, Flow};
use datapath::openflow::ofproto::TraceInput;
use datapath::packet::{Batch, Packet};
use datapath::switch::Switch;
use datapath::trace::Off;
use datapath::types::{PortNo, Time};

const RECORDED: &str = include_str!("data/translations.txt");
const NOW: Time = Time::from_millis(10_000);

/// Replaces the number behind each of these words, up to what is no digit of it, by R: ids are allocated differently.
fn without_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, word)) =
        ["recirc(", "recirc_id="].iter().filter_map(|word| Some((rest.find(word)?, word))).min()
    {
        let (before, after) = rest.split_at(at + word.len());
        let end = after.find([',', ')', ' ']).unwrap_or(after.len());
        out.push_str(before);
        out.push_str(if &after[..end] == "0" { "0" } else { "R" });
        rest = &after[end..];
    }
    out + rest
}

/// The parts of a list of actions.
fn parts(actions: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in actions.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match parts.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts
}

/// The parts of a list of actions, sorted.
fn sorted(actions: &str) -> Vec<String> {
    let mut parts = parts(actions);
    parts.sort();
    parts
}

/// The parts of a list of actions, outputs side by side sorted: all of them send the same packet, and the order of a flood
/// depends on a hash there.
fn with_sorted_outputs(actions: &str) -> Vec<String> {
    let mut parts = parts(actions);
    let is_output = |part: &String| part.starts_with('p') && !part.contains(['(', '_']) || part == "br0";
    parts.chunk_by_mut(|a, b| is_output(a) && is_output(b)).for_each(<[String]>::sort);
    parts
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn port(switch: &Switch, name: &str) -> PortNo {
    switch.port_named(name).and_then(|port| port.no).unwrap()
}

/// What a trace says of the packet: all of it, and megaflow and actions of each pass.
fn told(switch: &mut Switch, name: &str, frame: &[u8]) -> (String, Vec<(String, String)>) {
    switch.settle(NOW, &mut Off);
    let mut packet = Packet::from_frame(frame);
    let vlan_limit = switch.datapath().config().vlan_limit;
    let mut key = Flow::of_packet_with(&mut packet, ExtractConfig { vlan_limit });
    key.in_port = port(switch, name).0;
    let input = TraceInput { names: true, ..TraceInput::of(&key) };
    let text = without_ids(&switch.ofproto_mut().trace(&input, NOW).unwrap().text);
    let of = |start: &'static str| {
        text.lines().filter_map(move |line| line.strip_prefix(start)).map(|s| s.trim().to_owned())
    };
    let passes = of("Megaflow: ").zip(of("Datapath actions: ")).collect();
    (text, passes)
}

fn send(switch: &mut Switch, name: &str, frame: &[u8]) {
    let mut batch = Batch::new();
    let mut packet = switch.allocate();
    packet.set_frame(frame);
    batch.push(packet).unwrap();
    switch.receive(port(switch, name), &mut batch, NOW, &mut Off);
    let mut sent = Vec::new();
    switch.drain_tx(&mut Off, |_, packet| sent.push(packet));
    sent.into_iter().for_each(|packet| switch.recycle(packet));
}

/// Runs one command line of the file; a rule or a group is its last word.
fn run(switch: &mut Switch, program: &str, line: &str) {
    let n = if program == "ovs-ofctl" { 5 } else { usize::MAX };
    let mut argv = vec![program];
    argv.extend(line.splitn(n, ' '));
    if let Err(error) = switch.command(NOW, &argv) {
        panic!("{line}: {error}");
    }
}

#[test]
fn recorded() {
    let mut switch = Switch::new(1);
    let (mut trace, mut told_now) = (String::new(), Vec::new().into_iter());
    let (mut scenario, mut packet, mut megaflow) = ("", "", String::new());
    let mut sent: Option<(String, Vec<u8>)> = None;
    let mut compared = 0;
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "scenario" => {
                (scenario, sent) = (rest, None);
                switch = Switch::new(1);
            }
            "vsctl" => run(&mut switch, "ovs-vsctl", rest),
            "ofctl" => run(&mut switch, "ovs-ofctl", rest),
            "packet" => {
                if let Some((name, frame)) = sent.take() {
                    send(&mut switch, &name, &frame);
                }
                let (name, hex) = rest.split_once(' ').unwrap();
                let frame = bytes(hex);
                let (text, passes) = told(&mut switch, name, &frame);
                (trace, told_now) = (text, passes.into_iter());
                (packet, sent) = (rest, Some((name.to_owned(), frame)));
            }
            "megaflow" => megaflow = rest.to_owned(),
            "failed" => assert!(trace.contains(rest), "scenario {scenario}, packet {packet}: {trace}"),
            "actions" | "unordered" | "any" => {
                let (our_megaflow, ours) = told_now.next().unwrap_or_default();
                assert_eq!(our_megaflow, megaflow, "scenario {scenario}, packet {packet}");
                match word {
                    "actions" => {
                        let (ours, theirs) = (with_sorted_outputs(&ours), with_sorted_outputs(rest));
                        assert_eq!(ours, theirs, "scenario {scenario}, packet {packet}");
                    }
                    "unordered" => {
                        assert_eq!(sorted(&ours), sorted(rest), "scenario {scenario}, packet {packet}");
                    }
                    _ => {}
                }
                compared += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(compared > 200, "{compared}");
}
