//! `recirc live`: the switches of a file on real ports.
//!
//! One thread polls all ports: what came is processed in batches and sent at once; where nothing comes it sleeps until
//! something does, or until the switch has something to do.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datapath::offload::Capabilities;
use datapath::packet::{Batch, Packet};
use datapath::port::{PacketSocket, Poll, Port, PortError, Tap, in_namespace};
use datapath::trace::Off;
use datapath::types::{PortNo, Span, Time};
use serde_json::{Map, Value, json};
use sim::diagnostic::{Diagnostic, Diagnostics};
use sim::node::switch::SwitchNode;
use sim::quantity::show_time;
use sim::report::SwitchReport;
use sim::scenario::{PortKind, Scenario};
use sim::world::World;

use super::args::{LiveArgs, LiveFormat};
use super::load;
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Output};

/// How long it sleeps at most: as often it looks whether it is to end.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Batches that a port may deliver before the others have their turn.
const BATCHES: usize = 8;
/// What a real port can be left to do; the rest is done here.
const REAL: Capabilities = Capabilities::TCP_CSUM.union(Capabilities::UDP_CSUM).union(Capabilities::TSO);

/// A port of a switch and the device behind it.
struct LivePort {
    /// Which switch, and its number there.
    switch: usize,
    no: PortNo,
    /// `SWITCH:PORT`.
    name: String,
    device: Box<dyn Port>,
    /// What waits to be sent.
    #[expect(
        clippy::vec_box,
        reason = "boxes are what the switch hands out; nothing is to be moved but the pointer"
    )]
    queue: Vec<Box<Packet>>,
    /// It failed, and is not polled any more.
    gone: bool,
}

/// Runs the command.
pub fn run(args: &LiveArgs, out: &mut Output) -> Result<Exit, Failure> {
    let files = load::disk();
    let scenario = load::unchecked(&args.file, &files)?;
    let mut nodes = World::live_switches(Arc::clone(&scenario), Arc::clone(&files), args.seed)
        .map_err(load::world_failure)?;
    let ports = open(&scenario, &mut nodes)?;
    let poll = Poll::new(ports.iter().map(|port| port.device.fd()));
    let mut live = Live { ports, poll, nodes, batch: Batch::new(), left: Vec::new() };
    let start = Instant::now();
    for port in &live.ports {
        output::to_stderr(&format!("{}: open, MTU {}\n", port.name, port.device.mtu()));
    }
    let limit = args.time.map(|time| Duration::from_nanos(time.0.0));
    while !interrupt::requested() && limit.is_none_or(|limit| start.elapsed() < limit) {
        live.turn(start, limit)?;
    }
    let now = since(start);
    live.report(&scenario, now, args.format, out)?;
    Ok(Exit::Pass)
}

fn since(start: Instant) -> Time {
    Time(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Opens all ports; everything that is wrong with any of them is told at once, and then none is open.
fn open(scenario: &Arc<Scenario>, nodes: &mut [SwitchNode]) -> Result<Vec<LivePort>, Failure> {
    let (mut ports, mut wrong) = (Vec::new(), Vec::new());
    for (switch, config) in scenario.switches.iter().enumerate() {
        for port in config.ports.iter().filter(|port| port.kind.is_real()) {
            let wanted = port.offload & REAL;
            if !(port.offload - REAL).is_empty() {
                output::to_stderr(&format!(
                    "{}:{}: only tcp-csum, udp-csum and tso are left to a real port\n",
                    config.name, port.name
                ));
            }
            let name = format!("{}:{}", config.name, port.name);
            match device(&port.kind, wanted) {
                Ok(device) => {
                    let mtu = port.mtu.and_then(|mtu| u16::try_from(mtu).ok()).unwrap_or(device.mtu());
                    nodes[switch].set_device(&port.name, device.capabilities(), mtu);
                    let info = nodes[switch].ports().into_iter().find(|info| info.name == port.name);
                    let no = info.map_or(PortNo(u32::MAX), |info| info.no);
                    ports.push(LivePort { switch, no, name, device, queue: Vec::new(), gone: false });
                }
                Err(error) => {
                    wrong.push(Diagnostic::new(port.span.clone(), format!("port {name}: {error}")));
                }
            }
        }
    }
    if ports.is_empty() && wrong.is_empty() {
        let at = scenario.switches.first().map_or(0..0, |switch| switch.span.clone());
        let help = "give a port a device: port.1 = { tap = \"t0\" } or { packet = \"veth0\" }";
        wrong.push(Diagnostic::new(at, "no port is a real one").help(help));
    }
    if wrong.is_empty() {
        return Ok(ports);
    }
    Err(Complaint::from(Diagnostics::new(Arc::clone(&scenario.file), wrong)).into())
}

struct Live {
    ports: Vec<LivePort>,
    poll: Poll,
    nodes: Vec<SwitchNode>,
    /// Used again for each reception.
    batch: Batch,
    /// What left the switch in this turn.
    left: Vec<(PortNo, Box<Packet>)>,
}

impl Live {
    /// Waits until something comes or is due, and deals with it.
    fn turn(&mut self, start: Instant, limit: Option<Duration>) -> Result<(), Failure> {
        let now = since(start);
        let wakeup = self.nodes.iter().filter_map(SwitchNode::next_wakeup).min();
        let due = wakeup.map_or(LONGEST_SLEEP, |time| Duration::from_nanos(time.0.saturating_sub(now.0)));
        let left = limit.map_or(LONGEST_SLEEP, |limit| limit.saturating_sub(start.elapsed()));
        self.poll
            .wait(due.min(left).min(LONGEST_SLEEP))
            .map_err(|error| Complaint::new(format!("cannot wait for packets: {error}")))?;
        let now = since(start);
        for node in &mut self.nodes {
            if node.next_wakeup().is_some_and(|time| time <= now) {
                node.run(now, &mut Off);
            }
        }
        for index in 0..self.ports.len() {
            if self.poll.is_ready(index) {
                self.receive(index, now);
            }
        }
        // What was made without a packet, such as a question for a neighbour.
        for switch in 0..self.nodes.len() {
            self.send(switch);
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, now: Time) {
        for _ in 0..BATCHES {
            let Self { ports, nodes, batch, .. } = self;
            let port = &mut ports[index];
            let node = &mut nodes[port.switch];
            let result = port.device.receive(batch, &mut || node.allocate());
            let (count, switch) = (batch.len(), port.switch);
            if count > 0 {
                node.receive(port.no, batch, now, &mut Off);
                self.send(switch);
            }
            if let Err(error) = result {
                self.fail(index, &error);
                return;
            }
            if count < datapath::packet::BATCH {
                return;
            }
        }
    }

    /// Sends what a switch has queued.
    fn send(&mut self, switch: usize) {
        let Self { ports, nodes, left, .. } = self;
        let node = &mut nodes[switch];
        node.drain_tx(&mut Off, left);
        if left.is_empty() {
            return;
        }
        for (no, packet) in left.drain(..) {
            match ports.iter_mut().find(|port| port.switch == switch && port.no == no && !port.gone) {
                Some(port) => port.queue.push(packet),
                // A bridge's own port, or a device that is gone.
                None => node.recycle(packet),
            }
        }
        let mut failed = Vec::new();
        for (index, port) in ports.iter_mut().enumerate().filter(|(_, port)| !port.queue.is_empty()) {
            if let Err(error) = port.device.send(&mut port.queue) {
                failed.push((index, error));
            }
            for packet in port.queue.drain(..) {
                nodes[port.switch].recycle(packet);
            }
        }
        for (index, error) in failed {
            self.fail(index, &error);
        }
    }

    /// A port is down or gone: the others go on.
    fn fail(&mut self, index: usize, error: &io::Error) {
        let port = &mut self.ports[index];
        port.gone = true;
        self.poll.forget(index);
        output::to_stderr(&format!(
            "{}: the interface is down or gone ({error}); the other ports go on\n",
            port.name
        ));
        self.nodes[port.switch].set_link_state(port.no, false);
    }

    fn report(
        &self,
        scenario: &Scenario,
        now: Time,
        format: LiveFormat,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let sections = scenario.switches.iter().zip(&self.nodes);
        let switches: Vec<SwitchReport> =
            sections.map(|(config, node)| SwitchReport::of(&config.name, node, now)).collect();
        match format {
            LiveFormat::Json => out.line(&self.json(scenario, now, &switches)?),
            LiveFormat::Text => self.text(scenario, now, &switches, out),
        }
    }

    fn text(
        &self,
        scenario: &Scenario,
        now: Time,
        switches: &[SwitchReport],
        out: &mut Output,
    ) -> Result<(), Failure> {
        let ran = show_time(Span(now.0 / 1_000_000 * 1_000_000));
        out.line(&format!("{}: {}, {ran}", scenario.file.name, scenario.name))?;
        switches.iter().try_for_each(|switch| out.text(&switch.text()))?;
        for port in &self.ports {
            let errors: Vec<String> = port
                .device
                .errors()
                .counts()
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .map(|(what, count)| format!("{what} {count}"))
                .collect();
            if !errors.is_empty() {
                out.line(&format!("  device of {}: {}", port.name, errors.join(", ")))?;
            }
        }
        Ok(())
    }

    fn json(&self, scenario: &Scenario, now: Time, switches: &[SwitchReport]) -> Result<String, Failure> {
        let one = |switch: &SwitchReport| Ok(format!("{}: {}", json!(switch.name), switch.json()?));
        let switches: Result<Vec<String>, io::Error> = switches.iter().map(one).collect();
        let switches =
            switches.map_err(|error| Failure::Write { what: "the report".to_owned(), error })?.join(", ");
        let counts = |port: &LivePort| -> Map<String, Value> {
            let counts = port.device.errors().counts();
            counts.into_iter().map(|(what, count)| (what.to_owned(), count.into())).collect()
        };
        let devices: Map<String, Value> =
            self.ports.iter().map(|port| (port.name.clone(), counts(port).into())).collect();
        let (name, file, devices) = (json!(scenario.name), json!(scenario.file.name), Value::from(devices));
        let end = now.0;
        Ok(format!(
            "{{\"scenario\": {name}, \"file\": {file}, \"end_ns\": {end}, \"switches\": {{{switches}}}, \"devices\": {devices}}}"
        ))
    }
}

/// Opens the device that a port names.
fn device(kind: &PortKind, wanted: Capabilities) -> Result<Box<dyn Port>, PortError> {
    match kind {
        PortKind::Tap { name, netns } => {
            let tap = in_namespace(netns.as_deref(), || Tap::open(name, wanted))?;
            Ok(Box::new(tap))
        }
        PortKind::Packet { name, netns } => {
            let socket = in_namespace(netns.as_deref(), || PacketSocket::open(name, wanted))?;
            Ok(Box::new(socket))
        }
        PortKind::Dpdk(device) => Err(PortError::NoDpdk(device.clone())),
        PortKind::Simulated | PortKind::Tunnel { .. } => Err(PortError::NoInterface(String::new())),
    }
}
