//! What a run came to: for programs (`report.json`, CSV), for people (text).
//!
//! A [`Report`] is made by a [`Collector`], which observes the run, and the world at its end. Frames that left are kept in
//! memory up to a bound and in a scratch file beyond it, so that a long run needs constant memory; [`Report::write_json`]
//! streams them.

mod csv;
mod json;
mod spool;
mod text;

use std::io;
use std::sync::Arc;

use datapath::stats::{DropReason, PassCounters};
use datapath::types::Time;

use crate::files::Files;
use crate::host::RttSummary;
use crate::link::LinkCounters;
use crate::node::switch::{FlowInfo, PastFlow, PortInfo, SwitchCounters, SwitchNode};
use crate::record::{Departure, Observer};
use crate::scenario::HostCounter;
use crate::world::{Outcome, World, WorldError};
use spool::Spool;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All expectations held.
    Pass,
    /// Packets are not accounted for: a bug in this program.
    Bug,
    /// The scenario, or a file that it names, is wrong.
    BadScenario,
    /// An expectation did not hold.
    ExpectationFailed,
    /// A golden capture differs, and nothing else failed.
    GoldenDiffers,
    /// Stopped before its end; what was checked until then held.
    Interrupted,
}

impl Verdict {
    /// The word in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Bug => "bug",
            Self::BadScenario => "error",
            Self::ExpectationFailed => "fail",
            Self::GoldenDiffers => "golden-differs",
            Self::Interrupted => "interrupted",
        }
    }

    /// The exit code of the program.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass | Self::Interrupted => 0,
            Self::Bug => 1,
            Self::BadScenario => 2,
            Self::ExpectationFailed => 3,
            Self::GoldenDiffers => 4,
        }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// What the scenario shows.
    pub scenario: String,
    /// Its file, as it was named.
    pub file: String,
    /// File name without folder and extension.
    pub stem: String,
    /// The seed.
    pub seed: u64,
    /// When it ended.
    pub end: Time,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it stopped before its end, if it did.
    pub error: Option<WorldError>,
    /// Expectations, in the order in which they came.
    pub expectations: Vec<Outcome>,
    /// Steps, in file order.
    pub steps: Vec<StepReport>,
    /// Bridges.
    pub switches: Vec<SwitchReport>,
    /// Hosts, in file order.
    pub hosts: Vec<HostReport>,
    /// Links, in file order.
    pub links: Vec<LinkReport>,
    /// SHA-256 of all that left, with times, and of the flows.
    pub digest: [u8; 32],
    /// What was odd, one line each.
    pub warnings: Vec<String>,
    /// Events that happened.
    pub events: u64,
    spool: Spool,
}

/// A step.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// When.
    pub at: Time,
    /// What: the word in the file.
    pub kind: &'static str,
    /// Frames that left switches' outer ports from this step until the next.
    pub frames_out: u64,
    /// What its commands printed.
    pub text: String,
}

/// A bridge.
#[derive(Clone, Debug)]
pub struct SwitchReport {
    /// Name.
    pub name: String,
    /// Ports, by their datapath numbers.
    pub ports: Vec<PortInfo>,
    /// What its ports brought about.
    pub counters: SwitchCounters,
    /// Datapath flows.
    pub flows: Vec<FlowInfo>,
    /// Connections that its datapath tracks at the end, a line each.
    pub tracked: Vec<String>,
    /// What became of others, oldest first, as far as it is kept.
    pub past_flows: Vec<PastFlow>,
}

impl SwitchReport {
    /// Passes of each tier, with the words of reports. What was lost counts as an upcall.
    pub fn lookups(passes: &PassCounters) -> [(&'static str, u64); 5] {
        [
            ("simple", passes.simple),
            ("emc", passes.emc),
            ("smc", passes.smc),
            ("megaflow", passes.megaflow),
            ("upcall", passes.upcall + passes.lost),
        ]
    }

    /// Reasons for which packets were dropped, with their numbers; those that never occurred are left out.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let all = DropReason::ALL.into_iter().zip(self.counters.drops);
        all.filter(|(_, count)| *count > 0)
    }
}

/// A host.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// Name.
    pub name: String,
    /// Frames received.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames that were not for it.
    pub ignored: u64,
    /// Packets with a wrong checksum or length.
    pub bad: u64,
    /// Packets without a next hop.
    pub unreachable: u64,
    /// Its counters, by [`HostCounter::ALL`].
    pub counters: [u64; HostCounter::ALL.len()],
    /// Payload bytes of datagrams received.
    pub udp_bytes: u64,
    /// Round-trip times.
    pub rtt: RttSummary,
    /// TCP connections.
    pub connections: Vec<ConnectionReport>,
}

/// A TCP connection.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    /// Own address and port.
    pub local: String,
    /// The other side's.
    pub remote: String,
    /// Where it stands.
    pub state: &'static str,
    /// Bytes acknowledged by the other side.
    pub acknowledged: u64,
    /// Bytes received in order.
    pub delivered: u64,
    /// SHA-256 of these.
    pub sha256: [u8; 32],
    /// Segments sent again.
    pub retransmitted: u64,
}

/// A link.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// Both ends.
    pub ends: [String; 2],
    /// From the first end to the second, and back.
    pub directions: [LinkCounters; 2],
}

/// Observes a run.
#[derive(Debug)]
pub struct Collector {
    spool: Spool,
    counts: Vec<u64>,
    texts: Vec<String>,
}

impl Collector {
    /// For a scenario with this many steps. With `frames`, keeps the frames that leave; else only counts them.
    pub fn new(steps: usize, files: Arc<dyn Files + Send + Sync>, frames: bool) -> Self {
        Self { spool: Spool::new(files, frames), counts: vec![0; steps], texts: vec![String::new(); steps] }
    }

    /// The report, once the world has ended or stopped.
    ///
    /// # Errors
    /// If frames could not be kept.
    pub fn report(self, world: &World, interrupted: bool) -> io::Result<Report> {
        let scenario = world.scenario();
        let steps =
            scenario.steps.iter().zip(self.counts).zip(self.texts).map(|((step, frames_out), text)| {
                StepReport { at: step.at, kind: step.action.kind(), frames_out, text }
            });
        let error = world.error().cloned();
        let expectations = world.outcomes().to_vec();
        Ok(Report {
            scenario: scenario.name.clone(),
            file: scenario.file.name.clone(),
            stem: scenario.stem.clone(),
            seed: world.seed(),
            end: world.now(),
            verdict: verdict(error.as_ref(), &expectations, interrupted),
            error,
            expectations,
            steps: steps.collect(),
            switches: switches(world),
            hosts: world.hosts().iter().map(host).collect(),
            links: world.links().iter().map(link).collect(),
            digest: world.digest(),
            warnings: world.warnings().to_vec(),
            events: world.events(),
            spool: self.spool.finish()?,
        })
    }
}

impl Observer for Collector {
    fn departed(&mut self, departure: &Departure<'_>) {
        // What a switch sends before the first step (there is none to blame) belongs to that step.
        let step = departure.step.unwrap_or(0);
        if departure.to_switch || step >= self.counts.len() {
            return;
        }
        self.counts[step] += 1;
        self.spool.put(step, departure.bridge, departure.port, departure.frame);
    }

    fn printed(&mut self, step: usize, text: &str) {
        if let Some(own) = self.texts.get_mut(step) {
            own.push_str(text);
        }
    }
}

fn verdict(error: Option<&WorldError>, outcomes: &[Outcome], interrupted: bool) -> Verdict {
    match error {
        Some(WorldError::Unaccounted(_)) => return Verdict::Bug,
        Some(WorldError::Scenario(_)) => return Verdict::BadScenario,
        None => {}
    }
    if outcomes.iter().any(|outcome| !outcome.pass && !outcome.golden) {
        Verdict::ExpectationFailed
    } else if outcomes.iter().any(|outcome| !outcome.pass) {
        Verdict::GoldenDiffers
    } else if interrupted {
        Verdict::Interrupted
    } else {
        Verdict::Pass
    }
}

impl SwitchReport {
    /// That of a datapath by itself, whatever its bridges.
    pub fn of(name: &str, node: &SwitchNode, now: Time) -> Self {
        Self {
            name: name.to_owned(),
            ports: node.ports(),
            counters: node.counters(),
            flows: node.flows(now),
            tracked: node.connections(now),
            past_flows: node.past_flows(),
        }
    }
}

fn switches(world: &World) -> Vec<SwitchReport> {
    let one = |(name, _): (String, usize)| SwitchReport {
        ports: world.ports_of(&name),
        counters: world.counters_of(&name),
        flows: world.flows_of(&name),
        tracked: world.connections_of(&name),
        past_flows: world.past_flows_of(&name),
        name,
    };
    world.bridges().into_iter().map(one).collect()
}

fn host(host: &crate::host::Host) -> HostReport {
    let (rx_frames, tx_frames) = host.frames();
    let connection = |c: &crate::host::tcp::Connection| ConnectionReport {
        local: std::net::SocketAddr::from(c.local()).to_string(),
        remote: std::net::SocketAddr::from(c.remote()).to_string(),
        state: c.state().name(),
        acknowledged: c.acknowledged(),
        delivered: c.delivered(),
        sha256: c.delivered_sha256(),
        retransmitted: c.retransmitted(),
    };
    HostReport {
        name: host.name().to_owned(),
        rx_frames,
        tx_frames,
        ignored: host.ignored(),
        bad: host.bad(),
        unreachable: host.unreachable(),
        counters: HostCounter::ALL.map(|(counter, _, _)| host.counter(counter)),
        udp_bytes: host.udp_bytes(),
        rtt: host.rtt(),
        connections: host.connections().iter().map(connection).collect(),
    }
}

fn link(link: &crate::world::Link) -> LinkReport {
    LinkReport {
        ends: link.ends.each_ref().map(ToString::to_string),
        directions: link.directions.each_ref().map(|direction| direction.counters),
    }
}
