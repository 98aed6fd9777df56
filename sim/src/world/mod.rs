//! The world: hosts, links and datapaths in virtual time.
//!
//! A [`World`] is made from a [`Scenario`] and moves by [`World::step`], one event at a time, until nothing is left to do.
//! Same scenario, same seed: same events, same frames, same state. It never looks at a clock, and the only files it reads
//! are those that steps name, through the [`Files`] it was given.
//!
//! Events of the same time happen in the order in which they were scheduled; steps of the scenario come after everything
//! else of that time, one by one, each with all that follows from it at once. So a step sees the outcome of the one before
//! it even where no link has a delay.
//!
//! Everything is `Clone`: see [`crate::history`] for going back.

mod build;
mod checks;
mod filter;
mod golden;
mod motion;
mod replay;
mod step;

use std::sync::Arc;

use datapath::packet::Packet;
use datapath::trace::Off;
use datapath::types::{PortNo, Span, Time};
use sha2::{Digest as _, Sha256};

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::host::Host;
use crate::link::Direction;
use crate::node::switch::{FlowInfo, PastFlow, PortInfo, SwitchCounters, SwitchNode};
use crate::queue::{Class, EventQueue};
use crate::record::{Observer, Unobserved, Watch};
use crate::scenario::{Place, Scenario};
use checks::Checks;
use motion::PortTable;
use replay::ReplayState;

pub use checks::Outcome;
pub use golden::Blessed;

/// Events at one instant after which it is taken for certain that they never end.
const MAX_EVENTS_AT_ONCE: u64 = 1_000_000;
/// How long a world without `stop-at` goes on after the last that a step, a replay or a host had to do, at most.
const AFTER_LAST_SENDING: Span = Span::from_secs(10);

/// Why a world stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The scenario, or a file that it names, is wrong.
    #[error("{0}")]
    Scenario(Box<Diagnostics>),
    /// Packets are not accounted for: a bug in this program.
    #[error("packets are not accounted for: {0}")]
    Unaccounted(String),
}

/// Hashes what is written.
struct HashText(Sha256);

impl std::fmt::Write for HashText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// Both ends.
    pub ends: [Place; 2],
    /// From the first end to the second, and back.
    pub directions: [Direction; 2],
    targets: [Option<Target>; 2],
}

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Host(usize),
    Port { switch: usize, port: PortNo },
}

/// What is scheduled.
#[derive(Clone, Debug)]
enum Event {
    Step(usize),
    Arrive { link: usize, direction: usize, packet: Box<Packet> },
    HostTimer(usize),
    SwitchWake(usize),
    Replay(usize),
    SendNext { step: usize, sent: u64 },
}

impl Event {
    /// Whether it brings something new into the world, rather than moving what is there.
    fn sends(&self) -> bool {
        match self {
            Self::Step(_) | Self::Replay(_) | Self::SendNext { .. } => true,
            Self::Arrive { .. } | Self::HostTimer(_) | Self::SwitchWake(_) => false,
        }
    }
}

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A step ran.
    Step(usize),
    /// A frame came to the end of a link.
    Arrival {
        /// Which link.
        link: usize,
        /// 0 from its first end to the second, 1 back.
        direction: usize,
    },
    /// A host's timer ran out.
    HostTimer(usize),
    /// A datapath did its housekeeping.
    Housekeeping(usize),
    /// A replay or a `send` step sent its next frames; the number of the step.
    Sending(usize),
    /// A command was typed: [`World::type_command`].
    Typed,
}

/// An event that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub time: Time,
    /// What.
    pub kind: EventKind,
    /// Frames that switches received in it.
    pub frames_received: u64,
}

/// The whole state.
#[derive(Clone, Debug)]
pub struct World {
    scenario: Arc<Scenario>,
    seed: u64,
    /// Whether its ports are real ones.
    live: bool,
    files: Arc<dyn Files + Send + Sync>,
    now: Time,
    stop_at: Option<Time>,
    last_step_at: Time,
    queue: EventQueue<Event>,
    /// Scheduled events other than housekeeping.
    alive: usize,
    /// Those of them that send something new: steps, and what they go on sending.
    sending: usize,
    /// When something new was last being sent, or was about to be.
    busy_at: Time,
    events: u64,
    events_at_once: u64,
    hosts: Vec<Host>,
    host_links: Vec<Option<(usize, usize)>>,
    host_timers: Vec<Option<Time>>,
    links: Vec<Link>,
    switches: Vec<SwitchState>,
    /// The datapath on which `ovs` steps make bridges.
    shared: Option<usize>,
    replays: Vec<ReplayState>,
    checks: Checks,
    current_step: Option<usize>,
    departures: Sha256,
    frames_received: u64,
    warnings: Vec<String>,
    /// Commands typed, in order.
    typed: Vec<Arc<str>>,
    error: Option<WorldError>,
    /// Room for what left; empty between events.
    tx: Vec<(PortNo, Box<Packet>)>,
}

/// A datapath and what the world keeps beside it.
#[derive(Clone, Debug)]
struct SwitchState {
    node: SwitchNode,
    ports: PortTable,
    wake_at: Option<Time>,
    /// Upcalls when its wake-up time was last asked for.
    upcalls: u64,
    /// What each bridge's ports brought about, by bridge name.
    by_bridge: std::collections::BTreeMap<Arc<str>, SwitchCounters>,
}

impl World {
    /// Makes the world of `scenario`. `seed` overrules the scenario's. With `bless`, golden captures are not compared but
    /// recorded anew: see [`Self::blessed`].
    ///
    /// # Errors
    /// If a file that steps name cannot be read, or a datapath refuses what the scenario sets up.
    pub fn new(
        scenario: Arc<Scenario>,
        files: Arc<dyn Files + Send + Sync>,
        seed: Option<u64>,
        bless: bool,
    ) -> Result<Self, WorldError> {
        build::world(scenario, files, seed, bless, false)
    }

    /// The switches of a scenario for real ports and real time, by section of the file, set up as at time 0. Their real ports
    /// are there, and it is on the caller to receive and send for them.
    ///
    /// # Errors
    /// As [`Self::new`], and if the scenario has hosts, links or steps, which virtual time alone has.
    pub fn live_switches(
        scenario: Arc<Scenario>,
        files: Arc<dyn Files + Send + Sync>,
        seed: Option<u64>,
    ) -> Result<Vec<SwitchNode>, WorldError> {
        build::live_switches(scenario, files, seed)
    }

    /// Lets the next event happen. None at the end.
    ///
    /// # Errors
    /// Once, when the world has to stop; after that it is at its end.
    pub fn step<W: Watch>(
        &mut self,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<Option<Happened>, WorldError> {
        if self.error.is_some() {
            return Ok(None);
        }
        let Some(next) = self.next_time() else { return Ok(None) };
        self.events_at_once = if next == self.now { self.events_at_once + 1 } else { 0 };
        if self.events_at_once > MAX_EVENTS_AT_ONCE {
            return Err(self.fail(self.endless()));
        }
        let Some((time, event)) = self.queue.pop() else { return Ok(None) };
        self.now = time;
        if self.stop_at.is_none() && (event.sends() || self.is_busy()) {
            self.busy_at = time;
        }
        self.events += 1;
        let before = self.frames_received;
        if event.sends() {
            // What comes from outside comes to an end.
            self.events_at_once = 0;
        }
        let kind = self.dispatch(event, watch, observer).map_err(|error| self.fail(error))?;
        Ok(Some(Happened { time, kind, frames_received: self.frames_received - before }))
    }

    /// [`Self::step`] without anyone watching.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_unwatched(&mut self) -> Result<Option<Happened>, WorldError> {
        self.step(&mut Off, &mut Unobserved)
    }

    /// Runs a command of Open vSwitch now, as an event of its own: somebody typed it. Gives what it printed.
    ///
    /// # Errors
    /// If it is not understood. Then the world may be half changed: go on with a copy made before.
    pub fn type_command<W: Watch>(
        &mut self,
        line: &str,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<String, WorldError> {
        let command = self.typed.len();
        self.typed.push(line.into());
        self.events += 1;
        watch.world(|| crate::record::WorldEvent::Typed { command }, &[]);
        self.run_typed(line, watch, observer)
    }

    /// Commands typed so far, in order.
    pub fn typed(&self) -> &[Arc<str>] {
        &self.typed
    }

    fn fail(&mut self, error: WorldError) -> WorldError {
        self.error = Some(error.clone());
        error
    }

    fn endless(&self) -> WorldError {
        let span = match self.current_step.and_then(|step| self.scenario.steps.get(step)) {
            Some(step) => step.span.clone(),
            None => 0..0,
        };
        let message = format!("{MAX_EVENTS_AT_ONCE} events without any time passing: frames circle for ever");
        let help = "give a link of the loop a delay or a rate";
        self.scenario_error(Diagnostic::new(span, message).help(help))
    }

    fn scenario_error(&self, diagnostic: Diagnostic) -> WorldError {
        WorldError::Scenario(Box::new(Diagnostics::new(Arc::clone(&self.scenario.file), vec![diagnostic])))
    }

    /// When the next event happens; none at the end.
    pub fn next_time(&self) -> Option<Time> {
        let next = self.queue.next_time()?;
        let goes_on = match self.stop_at {
            Some(stop) => next <= stop,
            None => self.alive > 0 && (self.is_busy() || next <= self.busy_at + AFTER_LAST_SENDING),
        };
        goes_on.then_some(next)
    }

    /// Whether anything new is still to be sent.
    fn is_busy(&self) -> bool {
        self.sending > 0 || self.hosts.iter().any(Host::is_busy)
    }

    fn schedule(&mut self, time: Time, event: Event) {
        let class = if matches!(event, Event::Step(_)) { Class::Step } else { Class::Motion };
        self.alive += usize::from(!matches!(event, Event::SwitchWake(_)));
        self.sending += usize::from(event.sends());
        self.queue.push(time.max(self.now), class, event);
    }

    fn dispatch<W: Watch>(
        &mut self,
        event: Event,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<EventKind, WorldError> {
        self.alive -= usize::from(!matches!(event, Event::SwitchWake(_)));
        self.sending -= usize::from(event.sends());
        Ok(match event {
            Event::Step(step) => {
                self.current_step = Some(step);
                watch.world(|| crate::record::WorldEvent::Step { step }, &[]);
                self.run_step(step, watch, observer)?;
                EventKind::Step(step)
            }
            Event::Arrive { link, direction, packet } => {
                self.arrive(link, direction, packet, watch, observer);
                EventKind::Arrival { link, direction }
            }
            Event::HostTimer(host) => {
                self.host_timers[host] = None;
                self.hosts[host].run(self.now);
                self.flush_host(host, watch);
                EventKind::HostTimer(host)
            }
            Event::SwitchWake(switch) => {
                self.wake_switch(switch, watch, observer);
                EventKind::Housekeeping(switch)
            }
            Event::Replay(replay) => {
                let step = self.replays[replay].step;
                self.run_replay(replay, watch, observer)?;
                EventKind::Sending(step)
            }
            Event::SendNext { step, sent } => {
                self.send_next(step, sent, watch, observer)?;
                EventKind::Sending(step)
            }
        })
    }

    /// Brings the world to its end: the time is that of the end, and what no step could check is checked.
    ///
    /// # Errors
    /// If a link's end never came to be, or packets are not accounted for.
    pub fn finish(&mut self) -> Result<(), WorldError> {
        if self.error.is_some() {
            return Ok(());
        }
        if let Some(stop) = self.stop_at.filter(|_| self.next_time().is_none()) {
            self.now = self.now.max(stop);
        }
        self.check_links()?;
        self.check_accounts()
    }

    fn check_links(&mut self) -> Result<(), WorldError> {
        let steps_done = self.next_time().is_none();
        for (index, link) in self.links.iter().enumerate() {
            for (end, target) in link.ends.iter().zip(&link.targets) {
                if target.is_none() && steps_done {
                    let span = self.scenario.links[index].span.clone();
                    let error = Diagnostic::new(span, format!("no step made {end}, an end of this link"));
                    let error = self.scenario_error(error);
                    return Err(self.fail(error));
                }
            }
        }
        Ok(())
    }

    /// received + made = sent + dropped + queued, for each datapath; and the same for each direction of each link.
    fn check_accounts(&mut self) -> Result<(), WorldError> {
        for state in &self.switches {
            let c = state.node.counters();
            if c.received + c.made != c.sent + c.dropped() + c.queued {
                let message = format!(
                    "a datapath received {} and made {}, but sent {}, dropped {} and keeps {}",
                    c.received,
                    c.made,
                    c.sent,
                    c.dropped(),
                    c.queued
                );
                return Err(self.fail(WorldError::Unaccounted(message)));
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            for (direction, state) in link.directions.iter().enumerate() {
                let arriving = |event: &Event| matches!(event, Event::Arrive { link, direction: d, .. } if (*link, *d) == (index, direction));
                let under_way = self.queue.iter().filter(|(_, event)| arriving(event)).count() as u64;
                if state.counters.under_way() != under_way {
                    let message = format!(
                        "link {} - {}: {:?}, but {under_way} under way",
                        link.ends[0], link.ends[1], state.counters
                    );
                    return Err(self.fail(WorldError::Unaccounted(message)));
                }
            }
        }
        Ok(())
    }

    /// The scenario.
    pub fn scenario(&self) -> &Arc<Scenario> {
        &self.scenario
    }

    /// The seed in force.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events that have happened.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The step that ran last.
    pub fn current_step(&self) -> Option<usize> {
        self.current_step
    }

    /// The hosts, in file order.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The links, in file order.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The datapaths: those of `[switch.X]` in file order, then the one that `ovs` steps make bridges on.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = &SwitchNode> {
        self.switches.iter().map(|state| &state.node)
    }

    /// Names of all bridges, in the order of their datapaths and then by name, each with its datapath.
    pub fn bridges(&self) -> Vec<(String, usize)> {
        let mut bridges = Vec::new();
        for (index, state) in self.switches.iter().enumerate() {
            let names: std::collections::BTreeSet<String> =
                state.node.ports().into_iter().map(|port| port.bridge).collect();
            bridges.extend(names.into_iter().map(|name| (name, index)));
        }
        bridges
    }

    /// The ports of a bridge.
    pub fn ports_of(&self, bridge: &str) -> Vec<PortInfo> {
        let ports = self.switches.iter().flat_map(|state| state.node.ports());
        ports.filter(|port| port.bridge == bridge).collect()
    }

    /// What a bridge's ports brought about: packets count for the bridge by whose port they came in.
    pub fn counters_of(&self, bridge: &str) -> SwitchCounters {
        let found = self.switches.iter().find_map(|state| state.by_bridge.get(bridge));
        found.copied().unwrap_or_default()
    }

    /// The datapath flows that match on a bridge's ports; those that match on none count for the datapath's first bridge.
    pub fn flows_of(&self, bridge: &str) -> Vec<FlowInfo> {
        self.of_bridge(bridge, |node| node.flows(self.now), |flow| flow.in_port)
    }

    /// What became of the datapath flows of a bridge, oldest first, as far as it is kept. Where the port of a flow is gone, it
    /// counts for the first bridge.
    pub fn past_flows_of(&self, bridge: &str) -> Vec<PastFlow> {
        self.of_bridge(bridge, SwitchNode::past_flows, |past| past.flow.in_port)
    }

    /// The connections that the datapath of a bridge tracks, a line each.
    pub fn connections_of(&self, bridge: &str) -> Vec<String> {
        let mut nodes = self.switches.iter().map(|state| &state.node);
        let found = nodes.find(|node| node.ports().iter().any(|port| port.bridge == bridge));
        found.map_or_else(Vec::new, |node| node.connections(self.now))
    }

    fn of_bridge<T>(
        &self,
        bridge: &str,
        all: impl Fn(&SwitchNode) -> Vec<T>,
        in_port: impl Fn(&T) -> Option<PortNo>,
    ) -> Vec<T> {
        for state in &self.switches {
            let ports = state.node.ports();
            let Some(first) = ports.iter().map(|port| port.bridge.as_str()).min() else { continue };
            if !ports.iter().any(|port| port.bridge == bridge) {
                continue;
            }
            let bridge_of = |one: &T| {
                ports
                    .iter()
                    .find(|port| Some(port.no) == in_port(one))
                    .map_or(first, |port| port.bridge.as_str())
            };
            return all(&state.node).into_iter().filter(|one| bridge_of(one) == bridge).collect();
        }
        Vec::new()
    }

    /// What the expectations that have been due came to.
    pub fn outcomes(&self) -> &[Outcome] {
        self.checks.outcomes()
    }

    /// Golden captures recorded anew, if the world was made to.
    pub fn blessed(&self) -> Vec<Blessed> {
        self.checks.blessed()
    }

    /// What was odd, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Why it stopped before its end.
    pub fn error(&self) -> Option<&WorldError> {
        self.error.as_ref()
    }

    /// SHA-256 of all that left switches, with times, and of the datapath flows.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = self.departures.clone();
        for state in &self.switches {
            for flow in state.node.flows(self.now) {
                hash.update(flow.key.as_bytes());
                hash.update([0]);
                hash.update(flow.actions.as_bytes());
                hash.update([0]);
                hash.update(flow.packets.to_be_bytes());
                hash.update(flow.bytes.to_be_bytes());
            }
        }
        hash.finalize().into()
    }

    /// SHA-256 of the whole state, for tests: slow.
    pub fn state_digest(&self) -> [u8; 32] {
        // A copy has what matters and nothing else: no stale bytes of buffers that will be used again.
        let mut hash = HashText(Sha256::new());
        // Hashing does not fail.
        let _ = std::fmt::write(&mut hash, format_args!("{:?}", self.clone()));
        hash.0.finalize().into()
    }

    /// About how many bytes a copy takes.
    pub fn memory_bytes(&self) -> usize {
        let switches: usize = self.switches.iter().map(|state| state.node.memory_bytes()).sum();
        // Scheduled frames with their metadata; hosts and links are small.
        switches + self.queue.len() * 2048 + (self.hosts.len() + self.links.len() + 1) * 8192
    }
}
