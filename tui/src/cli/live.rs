//! `recirc live`: the switches of a file on real ports.
//!
//! One thread polls all ports: what came is processed in batches and sent at once; where nothing comes it sleeps until
//! something does, or until the switch has something to do.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datapath::offload::Capabilities;
use datapath::packet::{Batch, Packet};
use datapath::port::{PacketSocket, Port, PortError, PortErrors, Tap, in_namespace};
use datapath::stats::DropReason;
use datapath::trace::Off;
use datapath::types::{PortNo, Time};
use serde_json::{Map, Value, json};
use sim::diagnostic::{Diagnostic, Diagnostics};
use sim::node::switch::SwitchNode;
use sim::quantity::show_time;
use sim::scenario::{PortKind, Scenario};
use sim::world::World;

use super::args::{Format, LiveArgs};
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
    let nodes = World::live_switches(Arc::clone(&scenario), Arc::clone(&files), args.seed)
        .map_err(load::world_failure)?;
    let mut live = Live { ports: Vec::new(), nodes, batch: Batch::new(), left: Vec::new() };
    live.open(&scenario)?;
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

struct Live {
    ports: Vec<LivePort>,
    nodes: Vec<SwitchNode>,
    /// Used again for each reception.
    batch: Batch,
    /// What left the switch in this turn.
    left: Vec<(PortNo, Box<Packet>)>,
}

impl Live {
    /// Opens all ports; everything that is wrong with any of them is told at once, and then none is open.
    fn open(&mut self, scenario: &Arc<Scenario>) -> Result<(), Failure> {
        let mut wrong = Vec::new();
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
                        self.nodes[switch].set_device(&port.name, device.capabilities(), mtu);
                        let info = self.nodes[switch].ports().into_iter().find(|info| info.name == port.name);
                        let no = info.map_or(PortNo(u32::MAX), |info| info.no);
                        self.ports.push(LivePort {
                            switch,
                            no,
                            name,
                            device,
                            queue: Vec::new(),
                            gone: false,
                        });
                    }
                    Err(error) => {
                        wrong.push(Diagnostic::new(port.span.clone(), format!("port {name}: {error}")));
                    }
                }
            }
        }
        if self.ports.is_empty() && wrong.is_empty() {
            let at = scenario.switches.first().map_or(0..0, |switch| switch.span.clone());
            let help = "give a port a device: port.1 = { tap = \"t0\" } or { packet = \"veth0\" }";
            wrong.push(Diagnostic::new(at, "no port is a real one").help(help));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        self.ports.clear();
        Err(Complaint::from(Diagnostics::new(Arc::clone(&scenario.file), wrong)).into())
    }

    /// Waits until something comes or is due, and deals with it.
    fn turn(&mut self, start: Instant, limit: Option<Duration>) -> Result<(), Failure> {
        let now = since(start);
        let wakeup = self.nodes.iter().filter_map(SwitchNode::next_wakeup).min();
        let due = wakeup.map_or(LONGEST_SLEEP, |time| Duration::from_nanos(time.0.saturating_sub(now.0)));
        let left = limit.map_or(LONGEST_SLEEP, |limit| limit.saturating_sub(start.elapsed()));
        let ready = self.poll(due.min(left).min(LONGEST_SLEEP))?;
        let now = since(start);
        for node in &mut self.nodes {
            if node.next_wakeup().is_some_and(|time| time <= now) {
                node.run(now, &mut Off);
            }
        }
        for index in ready {
            self.receive(index, now);
        }
        // What was made without a packet, such as a question for a neighbour.
        for switch in 0..self.nodes.len() {
            self.send(switch);
        }
        Ok(())
    }

    /// The ports at which something came, after waiting for that.
    fn poll(&self, patience: Duration) -> Result<Vec<usize>, Failure> {
        let open: Vec<usize> = (0..self.ports.len()).filter(|&index| !self.ports[index].gone).collect();
        let fds: Vec<RawFd> = open.iter().map(|&index| self.ports[index].device.fd()).collect();
        let ready = datapath::port::wait(&fds, patience)
            .map_err(|error| Failure::from(Complaint::new(format!("cannot wait for packets: {error}"))))?;
        Ok(open.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(index, _)| index).collect())
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
    fn fail(&mut self, index: usize, error: &std::io::Error) {
        let port = &mut self.ports[index];
        port.gone = true;
        output::to_stderr(&format!(
            "{}: the interface is down or gone ({error}); the other ports go on\n",
            port.name
        ));
        self.nodes[port.switch].set_link_state(port.no, false);
    }

    fn report(
        &mut self,
        scenario: &Scenario,
        now: Time,
        format: Format,
        out: &mut Output,
    ) -> Result<(), Failure> {
        match format {
            Format::Json => out.line(&self.json(scenario, now).to_string()),
            Format::Text | Format::Csv => self.text(scenario, now, out),
        }
    }

    fn text(&self, scenario: &Scenario, now: Time, out: &mut Output) -> Result<(), Failure> {
        out.line(&format!(
            "{}: {}, {}",
            scenario.file.name,
            scenario.name,
            show_time(datapath::types::Span(now.0 / 1_000_000 * 1_000_000))
        ))?;
        for (index, config) in scenario.switches.iter().enumerate() {
            let node = &self.nodes[index];
            out.line(&format!("switch {}", config.name))?;
            for info in node.ports() {
                let counters = info.counters;
                out.line(&format!(
                    "    port {}: received {} ({} bytes), sent {} ({} bytes)",
                    info.name, counters.rx_packets, counters.rx_bytes, counters.tx_packets, counters.tx_bytes
                ))?;
                for (name, count) in
                    self.errors(index, info.no).counts().into_iter().filter(|(_, count)| *count > 0)
                {
                    out.line(&format!("        {name}: {count}"))?;
                }
            }
            let counters = node.counters();
            let passes = counters.passes;
            out.line(&format!(
                "    passes: simple {}, emc {}, smc {}, megaflow {}, upcall {}",
                passes.simple, passes.emc, passes.smc, passes.megaflow, passes.upcall
            ))?;
            for (reason, count) in DropReason::ALL.iter().zip(counters.drops).filter(|(_, count)| *count > 0)
            {
                out.line(&format!("    dropped, {}: {count}", reason.name()))?;
            }
            for flow in node.flows(now) {
                let (key, packets, bytes, actions) = (&flow.key, flow.packets, flow.bytes, &flow.actions);
                out.line(&format!("    {key}, packets:{packets}, bytes:{bytes}, actions:{actions}"))?;
            }
        }
        Ok(())
    }

    fn json(&self, scenario: &Scenario, now: Time) -> Value {
        let mut switches = Map::new();
        for (index, config) in scenario.switches.iter().enumerate() {
            let node = &self.nodes[index];
            let mut ports = Map::new();
            for info in node.ports() {
                let counters = info.counters;
                let errors: Map<String, Value> = self
                    .errors(index, info.no)
                    .counts()
                    .into_iter()
                    .map(|(name, count)| (name.to_owned(), count.into()))
                    .collect();
                ports.insert(
                    info.name,
                    json!({
                        "number": info.of_port, "rx_packets": counters.rx_packets, "rx_bytes": counters.rx_bytes,
                        "tx_packets": counters.tx_packets, "tx_bytes": counters.tx_bytes, "errors": errors,
                    }),
                );
            }
            let counters = node.counters();
            let passes = counters.passes;
            let drops: Map<String, Value> = DropReason::ALL
                .iter()
                .zip(counters.drops)
                .filter(|(_, count)| *count > 0)
                .map(|(reason, count)| (reason.name().to_owned(), count.into()))
                .collect();
            let flows: Vec<Value> = node
                .flows(now)
                .into_iter()
                .map(|flow| json!({"key": flow.key, "actions": flow.actions, "packets": flow.packets, "bytes": flow.bytes}))
                .collect();
            let lookups = json!({
                "simple": passes.simple, "emc": passes.emc, "smc": passes.smc, "megaflow": passes.megaflow,
                "upcall": passes.upcall,
            });
            switches.insert(
                config.name.clone(),
                json!({"ports": ports, "lookups": lookups, "drops": drops, "flows": flows}),
            );
        }
        json!({"scenario": scenario.name, "file": scenario.file.name, "end_ns": now.0, "switches": switches})
    }

    fn errors(&self, switch: usize, no: PortNo) -> PortErrors {
        let port = self.ports.iter().find(|port| port.switch == switch && port.no == no);
        port.map(|port| port.device.errors()).unwrap_or_default()
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
