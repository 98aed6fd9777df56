//! Expectations: what is counted while frames pass, and the judgement when the step comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::types::{PortNo, Time};

use super::filter::Filter;
use super::golden::{Blessed, Golden, difference};
use super::{World, WorldError};
use crate::diagnostic::Diagnostic;
use crate::files::Files;
use crate::node::switch::{FlowInfo, SwitchCounters};
use crate::scenario::{
    Expect, ExpectCounters, ExpectFlow, HostCounter, Place, Scenario, StepAction, SwitchCounter,
};
use crate::wire::hex;

/// What an expectation came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The step.
    pub step: usize,
    /// Whether it held.
    pub pass: bool,
    /// What was wrong; empty if nothing was.
    pub detail: String,
    /// Whether it is about a golden capture.
    pub golden: bool,
}

/// All expectations of a scenario.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    trackers: BTreeMap<usize, Tracker>,
    by_host: BTreeMap<usize, Vec<usize>>,
    by_port: BTreeMap<(usize, PortNo), Vec<usize>>,
    outcomes: Vec<Outcome>,
}

/// What one step counts.
#[derive(Clone, Debug)]
struct Tracker {
    place: Place,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Frames(FrameTracker),
    Golden(Golden),
}

#[derive(Clone, Debug)]
struct FrameTracker {
    /// Steps of the same place with an earlier time: counting begins after the last of them.
    after: Option<usize>,
    active: bool,
    contains: Vec<Arc<[u8]>>,
    filter: Option<Filter>,
    count: u64,
    wanted: Option<Vec<Arc<[u8]>>>,
    difference: Option<String>,
}

impl Checks {
    /// Prepares all expectations, and reads the golden captures.
    pub fn new(scenario: &Scenario, files: &dyn Files, bless: bool) -> Result<Self, Vec<Diagnostic>> {
        let mut checks = Self::default();
        let mut errors = Vec::new();
        let order = scenario.run_order();
        for (position, &step) in order.iter().enumerate() {
            let tracker = match &scenario.steps[step].action {
                StepAction::Expect(expect) => {
                    let earlier = order[..position].iter().rev().copied().find(|&other| {
                        let other = &scenario.steps[other];
                        let same = matches!(&other.action, StepAction::Expect(e) if e.at == expect.at);
                        same && other.at < scenario.steps[step].at
                    });
                    frame_tracker(expect, earlier).map(|tracker| (expect.at.clone(), Kind::Frames(tracker)))
                }
                StepAction::ExpectGolden(expect) => {
                    let golden = Golden::new(&expect.pcap, expect.times, files, bless);
                    golden.map(|golden| (expect.at.clone(), Kind::Golden(golden))).map_err(|message| {
                        let error = Diagnostic::new(expect.span.clone(), message);
                        error.help("make it with `recirc golden bless`")
                    })
                }
                StepAction::Replay(replay) => {
                    // Parsed again when the replay begins; a wrong one is to be known before anything runs.
                    errors.extend(replay.filter.as_ref().and_then(|line| Filter::of_line(line).err()));
                    continue;
                }
                StepAction::Send(_)
                | StepAction::Ovs(_)
                | StepAction::Ping(_)
                | StepAction::Udp(_)
                | StepAction::Tcp(_)
                | StepAction::Link(_)
                | StepAction::ExpectFlow(_)
                | StepAction::ExpectCounters(_) => continue,
            };
            match tracker {
                Ok((place, kind)) => {
                    let host = scenario
                        .hosts
                        .iter()
                        .position(|host| place.port.is_none() && host.name == place.node);
                    if let Some(host) = host {
                        checks.by_host.entry(host).or_default().push(step);
                    }
                    checks.trackers.insert(step, Tracker { place, kind });
                }
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(checks) } else { Err(errors) }
    }

    /// Looks up the ports of a datapath anew.
    pub fn connect_ports<'a>(
        &mut self,
        switch: usize,
        ports: impl Iterator<Item = (PortNo, &'a str, &'a str)>,
    ) {
        self.by_port.retain(|(of, _), _| *of != switch);
        for (no, bridge, name) in ports {
            let here = |tracker: &Tracker| {
                tracker.place.node == bridge && tracker.place.port.as_deref() == Some(name)
            };
            let steps: Vec<usize> =
                self.trackers.iter().filter(|(_, tracker)| here(tracker)).map(|(step, _)| *step).collect();
            if !steps.is_empty() {
                self.by_port.insert((switch, no), steps);
            }
        }
    }

    /// A frame arrived at a host.
    pub fn at_host(&mut self, host: usize, now: Time, frame: &[u8]) {
        for step in self.by_host.get(&host).into_iter().flatten() {
            if let Some(tracker) = self.trackers.get_mut(step) {
                tracker.frame(now, frame);
            }
        }
    }

    /// A frame left a switch's port.
    pub fn at_port(&mut self, switch: usize, port: PortNo, now: Time, frame: &[u8]) {
        for step in self.by_port.get(&(switch, port)).into_iter().flatten() {
            if let Some(tracker) = self.trackers.get_mut(step) {
                tracker.frame(now, frame);
            }
        }
    }

    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    pub fn blessed(&self) -> Vec<Blessed> {
        let golden = |tracker: &Tracker| match &tracker.kind {
            Kind::Golden(golden) => golden.blessed(),
            Kind::Frames(_) => None,
        };
        self.trackers.values().filter_map(golden).collect()
    }
}

impl Tracker {
    fn frame(&mut self, now: Time, frame: &[u8]) {
        match &mut self.kind {
            Kind::Frames(tracker) => tracker.frame(frame),
            Kind::Golden(golden) => golden.frame(now, frame),
        }
    }
}

fn frame_tracker(expect: &Expect, after: Option<usize>) -> Result<FrameTracker, Diagnostic> {
    let filter = match &expect.filter {
        None => None,
        Some(line) => Some(Filter::of_line(line)?),
    };
    Ok(FrameTracker {
        after,
        active: after.is_none(),
        contains: expect.contains.clone(),
        filter,
        count: 0,
        wanted: expect.hex.clone(),
        difference: None,
    })
}

impl FrameTracker {
    fn frame(&mut self, frame: &[u8]) {
        let holds =
            |part: &Arc<[u8]>| part.is_empty() || frame.windows(part.len()).any(|window| *window == **part);
        if !self.active
            || !self.contains.iter().all(holds)
            || self.filter.as_ref().is_some_and(|filter| !filter.matches(frame))
        {
            return;
        }
        let index = self.count as usize;
        self.count += 1;
        if let (Some(wanted), None) = (&self.wanted, &self.difference) {
            self.difference = match wanted.get(index) {
                Some(wanted) if **wanted == *frame => None,
                Some(wanted) => Some(format!("frame {}: {}", index + 1, difference(wanted, frame))),
                None => Some(format!("{} frames wanted, and one more came: {}", wanted.len(), hex(frame))),
            };
        }
    }

    fn judge(&self, expect: &Expect) -> Vec<String> {
        let mut wrong = Vec::new();
        let count = self.count;
        match (expect.frames_min, expect.frames_max) {
            (Some(min), Some(max)) if min == max && count != min => {
                wrong.push(format!("{min} frame(s) wanted, {count} came"));
            }
            (min, max) => {
                wrong.extend(
                    min.filter(|min| count < *min)
                        .map(|min| format!("at least {min} frame(s) wanted, {count} came")),
                );
                wrong.extend(
                    max.filter(|max| count > *max)
                        .map(|max| format!("at most {max} frame(s) wanted, {count} came")),
                );
            }
        }
        wrong.extend(self.difference.clone());
        if let (Some(wanted), None) = (&self.wanted, &self.difference)
            && (count as usize) < wanted.len()
        {
            let missing = hex(&wanted[count as usize]);
            wrong.push(format!(
                "{} frames wanted, {count} came; the first that is missing: {missing}",
                wanted.len()
            ));
        }
        wrong
    }
}

impl World {
    pub(super) fn check_expect(&mut self, step: usize, expect: &Expect) {
        let mut wrong = Vec::new();
        for want in &expect.host {
            let host = self.hosts.iter().find(|host| host.name() == expect.at.node);
            let got = host.map_or(0, |host| host.counter(want.counter));
            if got != want.want {
                wrong.push(format!("{} {} wanted, {got} came", counter_name(want.counter), want.want));
            }
        }
        if let Some(Tracker { kind: Kind::Frames(tracker), .. }) = self.checks.trackers.get(&step) {
            wrong.extend(tracker.judge(expect));
        }
        // What was counted is not needed any more; the expectations that follow this one begin to count.
        self.checks.trackers.remove(&step);
        for tracker in self.checks.trackers.values_mut() {
            if let Kind::Frames(tracker) = &mut tracker.kind
                && tracker.after == Some(step)
            {
                tracker.active = true;
            }
        }
        self.checks.outcomes.push(outcome(step, wrong, false));
    }

    pub(super) fn check_golden(&mut self, step: usize) {
        let result = match self.checks.trackers.get_mut(&step) {
            Some(Tracker { kind: Kind::Golden(golden), .. }) => golden.finish(),
            Some(Tracker { kind: Kind::Frames(_), .. }) | None => Ok(()),
        };
        self.checks.outcomes.push(outcome(step, result.err().into_iter().collect(), true));
    }

    /// That there is such a bridge now.
    fn bridge_is_there(&self, name: &str, span: &std::ops::Range<usize>) -> Result<(), WorldError> {
        if self.bridges().iter().any(|(bridge, _)| bridge == name) {
            return Ok(());
        }
        let message = format!("there is no bridge {name:?} at this time");
        Err(self.scenario_error(Diagnostic::new(span.clone(), message)))
    }

    pub(super) fn check_counters(&mut self, step: usize, expect: &ExpectCounters) -> Result<(), WorldError> {
        self.bridge_is_there(&expect.switch, &expect.span)?;
        let counters = self.counters_of(&expect.switch);
        let wrong = expect.wants.iter().filter_map(|(counter, want)| {
            let got = count_of(&counters, *counter);
            (got != *want).then(|| format!("{counter}: {want} wanted, {got} there"))
        });
        let wrong = wrong.collect();
        self.checks.outcomes.push(outcome(step, wrong, false));
        Ok(())
    }

    pub(super) fn check_flow(&mut self, step: usize, expect: &ExpectFlow) -> Result<(), WorldError> {
        self.bridge_is_there(&expect.switch, &expect.span)?;
        let flows = self.flows_of(&expect.switch);
        self.checks.outcomes.push(outcome(step, judge_flows(expect, &flows), false));
        Ok(())
    }
}

fn outcome(step: usize, wrong: Vec<String>, golden: bool) -> Outcome {
    Outcome { step, pass: wrong.is_empty(), detail: wrong.join("; "), golden }
}

fn counter_name(counter: HostCounter) -> String {
    let found = HostCounter::ALL.into_iter().find(|(of, _, _)| *of == counter);
    found.map_or_else(String::new, |(_, group, name)| format!("{group} {name}:"))
}

fn count_of(counters: &SwitchCounters, counter: SwitchCounter) -> u64 {
    match counter {
        SwitchCounter::Received => counters.received,
        SwitchCounter::Made => counters.made,
        SwitchCounter::Sent => counters.sent,
        SwitchCounter::Dropped => counters.dropped(),
        SwitchCounter::Queued => counters.queued,
        SwitchCounter::Simple => counters.passes.simple,
        SwitchCounter::Emc => counters.passes.emc,
        SwitchCounter::Smc => counters.passes.smc,
        SwitchCounter::Megaflow => counters.passes.megaflow,
        SwitchCounter::Upcall => counters.passes.upcall,
        SwitchCounter::Lost => counters.passes.lost,
        SwitchCounter::Drop(reason) => counters.drops[reason as usize],
    }
}

fn judge_flows(expect: &ExpectFlow, flows: &[FlowInfo]) -> Vec<String> {
    let wanted = expect.flow.as_deref().map(key_parts).unwrap_or_default();
    let has_key = |flow: &&FlowInfo| {
        let (parts, masked) = (key_parts(&flow.key), key_parts(&flow.masked_key));
        wanted.iter().all(|part| parts.contains(part) || masked.contains(part))
    };
    let by_key: Vec<&FlowInfo> = flows.iter().filter(has_key).collect();
    let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let has_actions = |flow: &&&FlowInfo| {
        expect.actions.as_deref().is_none_or(|actions| squeeze(actions) == squeeze(&flow.actions))
    };
    let counted: Vec<&&FlowInfo> = by_key.iter().filter(has_actions).collect();
    let mut wrong = Vec::new();
    let n = counted.len() as u64;
    match expect.count {
        Some(count) if count != n => wrong.push(format!("{count} flow(s) wanted, {n} there")),
        Some(_) => {}
        None if n == 0 => wrong.push("no such flow".to_owned()),
        None => {}
    }
    if n == 0 && !by_key.is_empty() && !wrong.is_empty() {
        let actions: Vec<&str> = by_key.iter().map(|flow| flow.actions.as_str()).collect();
        wrong.push(format!("the flows with this key have the actions {}", actions.join(" | ")));
    } else if !wrong.is_empty() {
        let lines: Vec<String> =
            flows.iter().take(8).map(|flow| format!("{}, actions:{}", flow.key, flow.actions)).collect();
        wrong.push(format!("{} flow(s) in all: {}", flows.len(), lines.join(" | ")));
    }
    let packets: u64 = counted.iter().map(|flow| flow.packets).sum();
    wrong.extend(
        expect.packets.filter(|p| *p != packets).map(|p| format!("{p} packet(s) wanted, {packets} there")),
    );
    wrong.extend(
        expect
            .packets_min
            .filter(|p| packets < *p)
            .map(|p| format!("at least {p} packet(s) wanted, {packets} there")),
    );
    wrong
}

/// The parts of a flow's key: what stands between commas outside parentheses, without white space.
fn key_parts(key: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for c in key.chars().filter(|c| !c.is_whitespace()) {
        match c {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ => {
                depth += i32::from(c == '(') - i32::from(c == ')');
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(key: &str, actions: &str, packets: u64) -> FlowInfo {
        let (key, actions, line) = (key.to_owned(), actions.to_owned(), String::new());
        let masked_key = key.clone();
        FlowInfo { in_port: None, key, masked_key, actions, packets, bytes: 0, used: None, line }
    }

    fn expect(flow: &str, actions: Option<&str>) -> ExpectFlow {
        ExpectFlow {
            switch: "s1".into(),
            flow: Some(flow.into()),
            actions: actions.map(str::to_owned),
            packets: None,
            packets_min: None,
            count: None,
            span: 0..0,
        }
    }

    #[test]
    fn flows_are_found_by_parts_of_their_keys() {
        let flows = [
            flow(
                "recirc_id(0),in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800)",
                "2",
                3,
            ),
            flow("recirc_id(0),in_port(2),eth_type(0x0806)", "1,3", 1),
        ];
        assert!(judge_flows(&expect("in_port(1), eth_type(0x0800)", Some("2")), &flows).is_empty());
        assert!(judge_flows(&expect("recirc_id(0)", None), &flows).is_empty());
        let wrong = judge_flows(&expect("in_port(2)", Some("1")), &flows);
        assert_eq!(wrong, ["no such flow", "the flows with this key have the actions 1,3"]);
        let mut packets = expect("recirc_id(0)", None);
        packets.packets = Some(5);
        assert_eq!(judge_flows(&packets, &flows), ["5 packet(s) wanted, 4 there"]);
    }
}
