//! Random scenarios: rules, groups, connections and frames drawn from a seed, always the same from the same.
//!
//! What is drawn comes from small sets, so that frames meet rules and one flow another. A scenario is an ordinary file of
//! commands and frames, to be kept where it shows a difference.

mod conntrack;
mod frames;
mod rules;
mod tunnels;

use std::fmt::Write as _;

use datapath::switch::Switch;
use datapath::types::Time;
use sim::random::Stream;
use sim::scenario::frame;
use sim::shell::split_words;

/// Milliseconds between one thing and the next: Open vSwitch's clock has no finer time.
const GAP_MS: u64 = 5;
/// Address of the bridge br0.
const MAC: &str = "aa:55:aa:55:00:00";

/// The scenario of this seed: one in three about connections, the others about rules. Where Open vSwitch is `new`, rules have
/// mirrors beside them (older ones forget to copy a changed packet again), and one in three is about the offloads that its dummy
/// ports have then, through tunnels.
pub fn scenario(seed: u64, new: bool) -> String {
    let mut chance = Chance(Stream::new(seed, "compare"));
    let mut draft = Draft::new(seed);
    match seed % 3 {
        1 if new => tunnels::write(&mut chance, &mut draft),
        2 => conntrack::write(&mut chance, &mut draft),
        _ => rules::write(&mut chance, &mut draft, new),
    }
    draft.text
}

/// What is drawn.
struct Chance(Stream);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).unwrap_or(0)
    }

    /// From `low` to `high`, both included.
    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Whether one of `n` equal chances comes.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// A scenario being written.
struct Draft {
    text: String,
    now_ms: u64,
    /// Takes the commands, to see which of those that were drawn can be taken.
    trial: Switch,
}

impl Draft {
    fn new(seed: u64) -> Self {
        let text = format!("name = \"random scenario {seed}\"\nseed = {seed}\n");
        Self { text, now_ms: 0, trial: Switch::new(seed) }
    }

    fn step(&mut self) {
        let _ = write!(self.text, "\n[[step]]\nat = \"{}ms\"\n", self.now_ms);
        self.now_ms += GAP_MS;
    }

    /// A step of those commands that can be taken.
    fn commands(&mut self, lines: &[String]) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| self.is_taken(line)).collect();
        if lines.is_empty() {
            return;
        }
        self.step();
        let _ = write!(self.text, "ovs = '''\n{}\n'''\n", lines.join("\n"));
    }

    fn is_taken(&mut self, line: &str) -> bool {
        let words = split_words(line).unwrap_or_default();
        let argv: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        self.trial.command(Time::ZERO, &argv).is_ok()
    }

    fn frame(&mut self, port: &str, frame: &str) {
        self.step();
        let _ = write!(self.text, "send.on = \"{port}\"\nsend.frame = \"{frame}\"\n");
    }

    /// A frame of which one byte, counted round and round, is wrong.
    fn broken_frame(&mut self, port: &str, frame: &str, at: usize) {
        let mut bytes = frame::parse(frame).unwrap_or_default();
        let len = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at % len) {
            *byte ^= 0x55;
        }
        self.step();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = write!(self.text, "send.on = \"{port}\"\nsend.hex = \"{hex}\"\n");
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
    }
}

/// A bridge with dummy ports p`N`, each with what `columns` says.
fn bridge(name: &str, mac: &str, ports: &[usize], mut columns: impl FnMut(usize) -> String) -> Vec<String> {
    let mut lines = vec![format!(
        "ovs-vsctl add-br {name} -- set bridge {name} datapath_type=dummy fail_mode=secure other-config:hwaddr={mac}"
    )];
    lines.extend(ports.iter().map(|&port| {
        format!(
            "ovs-vsctl add-port {name} p{port}{} -- set interface p{port} type=dummy ofport_request={port}",
            columns(port)
        )
    }));
    lines
}

#[cfg(test)]
mod tests {
    use sim::scenario::Scenario;

    #[test]
    fn a_seed_makes_one_scenario_that_can_be_read() {
        for (seed, offloads) in (0..60).map(|seed| (seed, seed % 2 == 1)) {
            let text = super::scenario(seed, offloads);
            assert_eq!(text, super::scenario(seed, offloads));
            assert_ne!(text, super::scenario(seed + 1, offloads));
            if let Err(errors) = Scenario::parse("random.toml", &text) {
                panic!("seed {seed}: {errors:?}\n{text}");
            }
        }
    }
}
