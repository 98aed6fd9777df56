//! From a scenario to the world at time 0.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::types::Time;
use sha2::{Digest as _, Sha256};

use super::checks::Checks;
use super::motion::PortTable;
use super::{Event, Link, SwitchState, Target, World, WorldError};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::host::Host;
use crate::link::Direction;
use crate::node::switch::SwitchNode;
use crate::queue::EventQueue;
use crate::scenario::{LinkConfig, PortKind, Scenario, SwitchConfig};

pub(super) fn world(
    scenario: Arc<Scenario>,
    files: Arc<dyn Files + Send + Sync>,
    seed: Option<u64>,
    bless: bool,
    live: bool,
) -> Result<World, WorldError> {
    let seed = seed.unwrap_or(scenario.seed);
    let checks = Checks::new(&scenario, &*files, bless)
        .map_err(|list| WorldError::Scenario(Box::new(Diagnostics::new(Arc::clone(&scenario.file), list))))?;
    let hosts: Vec<Host> = scenario.hosts.iter().map(|config| Host::new(config, seed)).collect();
    let mut world = World {
        seed,
        live,
        files,
        now: Time::ZERO,
        stop_at: scenario.stop_at,
        last_step_at: scenario.steps.iter().map(|step| step.at).max().unwrap_or(Time::ZERO),
        queue: EventQueue::default(),
        alive: 0,
        sending: 0,
        busy_at: Time::ZERO,
        events: 0,
        events_at_once: 0,
        host_links: vec![None; hosts.len()],
        host_timers: vec![None; hosts.len()],
        hosts,
        links: scenario.links.iter().map(|config| link(config, seed)).collect(),
        switches: Vec::new(),
        shared: None,
        replays: Vec::new(),
        checks,
        current_step: None,
        departures: Sha256::new(),
        frames_received: 0,
        warnings: Vec::new(),
        typed: Vec::new(),
        error: None,
        tx: Vec::new(),
        scenario: Arc::clone(&scenario),
    };
    world.connect_hosts();
    let mut wrong = Vec::new();
    for (index, config) in scenario.switches.iter().enumerate() {
        world.switches.push(empty_switch(seed, &config.name));
        set_up(&mut world, index, config, &mut wrong)?;
    }
    if !wrong.is_empty() {
        return Err(WorldError::Scenario(Box::new(Diagnostics::new(Arc::clone(&scenario.file), wrong))));
    }
    for switch in 0..world.switches.len() {
        world.refresh_ports(switch);
    }
    for step in scenario.run_order() {
        world.schedule(scenario.steps[step].at, Event::Step(step));
    }
    Ok(world)
}

/// The switches of a scenario for real ports and real time, by section, set up as at time 0.
pub(super) fn live_switches(
    scenario: Arc<Scenario>,
    files: Arc<dyn Files + Send + Sync>,
    seed: Option<u64>,
) -> Result<Vec<SwitchNode>, WorldError> {
    let simulated = |span: &std::ops::Range<usize>, what: &str| {
        let message = format!("{what} in virtual time only, and `recirc live` has none");
        Diagnostic::new(span.clone(), message).help("put real ports in its place: tap, packet")
    };
    let mut wrong: Vec<Diagnostic> = Vec::new();
    wrong.extend(scenario.hosts.iter().map(|host| simulated(&host.span, "a host is")));
    wrong.extend(scenario.links.iter().map(|link| simulated(&link.span, "a link is")));
    wrong.extend(scenario.steps.iter().map(|step| simulated(&step.span, "a step happens")));
    if scenario.switches.is_empty() {
        wrong.push(Diagnostic::new(0..0, "there is no switch: `recirc live` runs those of [switch.NAME]"));
    }
    if !wrong.is_empty() {
        return Err(WorldError::Scenario(Box::new(Diagnostics::new(Arc::clone(&scenario.file), wrong))));
    }
    let world = world(scenario, files, seed, false, true)?;
    Ok(world.switches.into_iter().map(|switch| switch.node).collect())
}

fn link(config: &LinkConfig, seed: u64) -> Link {
    let [a, b] = &config.ends;
    let directions = [
        Direction::new(config.forward, seed, &format!("{a} {b}")),
        Direction::new(config.backward, seed, &format!("{b} {a}")),
    ];
    Link { ends: config.ends.clone(), directions, targets: [None, None] }
}

/// A datapath of its own stream of chance, so that one more switch does not change what another one does.
pub(super) fn empty_switch(seed: u64, name: &str) -> SwitchState {
    let seed = crate::random::Stream::new(seed, &format!("switch {name}")).draw();
    SwitchState {
        node: SwitchNode::new(seed),
        ports: PortTable::default(),
        wake_at: None,
        upcalls: 0,
        by_bridge: BTreeMap::new(),
    }
}

/// Makes a switch as its section says. What is `wrong` with its parts is collected, so that it is told all at once; a
/// command of its `ovs` block fails at once, since those behind it build on it.
fn set_up(
    world: &mut World,
    index: usize,
    config: &SwitchConfig,
    wrong: &mut Vec<Diagnostic>,
) -> Result<(), WorldError> {
    let now = world.now;
    for setting in &config.other_config {
        let value = format!("other_config:{}={}", setting.key, setting.value);
        let argv = ["ovs-vsctl", "set", "Open_vSwitch", ".", value.as_str()];
        wrong.extend(world.set_up_command(index, &argv, &setting.span).err());
    }
    if let Err(message) = world.switches[index].node.add_bridge(now, config) {
        wrong.push(Diagnostic::new(config.span.clone(), message));
        return Ok(());
    }
    for port in &config.ports {
        match &port.kind {
            PortKind::Simulated => {}
            PortKind::Tunnel { .. } => {
                let message = format!("port `{}`: tunnel ports are not supported yet", port.name);
                wrong.push(Diagnostic::new(port.span.clone(), message));
                continue;
            }
            real if real.is_real() && world.live => {}
            PortKind::Tap { .. } | PortKind::Packet { .. } | PortKind::Dpdk(_) => {
                let message = format!("port `{}` is a real port, which virtual time cannot drive", port.name);
                let diagnostic = Diagnostic::new(port.span.clone(), message);
                wrong.push(diagnostic.help("run the file with `recirc live`"));
                continue;
            }
        }
        if let Err(message) = world.switches[index].node.add_port(&config.name, port) {
            wrong.push(Diagnostic::new(port.span.clone(), message));
        }
    }
    let lines = |block: &Option<crate::scenario::Block>| {
        block.iter().flat_map(|b| b.lines.clone()).collect::<Vec<_>>()
    };
    for line in lines(&config.meters) {
        let argv = ["ovs-ofctl", "-O", "OpenFlow13", "add-meter", &config.name, &line.text];
        wrong.extend(world.set_up_command(index, &argv, &line.span).err());
    }
    for line in lines(&config.groups) {
        let argv = ["ovs-ofctl", "add-group", &config.name, &line.text];
        wrong.extend(world.set_up_command(index, &argv, &line.span).err());
    }
    for line in lines(&config.flows) {
        let argv = ["ovs-ofctl", "add-flow", &config.name, &line.text];
        wrong.extend(world.set_up_command(index, &argv, &line.span).err());
    }
    if !wrong.is_empty() {
        return Ok(());
    }
    for line in lines(&config.ovs) {
        world.run_line(Some(index), &line)?;
    }
    Ok(())
}

impl World {
    fn connect_hosts(&mut self) {
        for (index, link) in self.links.iter_mut().enumerate() {
            for (end, place) in link.ends.iter().enumerate() {
                let host =
                    self.hosts.iter().position(|host| place.port.is_none() && host.name() == place.node);
                if let Some(host) = host {
                    link.targets[end] = Some(Target::Host(host));
                    self.host_links[host] = Some((index, end));
                }
            }
        }
    }

    fn set_up_command(
        &mut self,
        switch: usize,
        argv: &[&str],
        span: &std::ops::Range<usize>,
    ) -> Result<(), Diagnostic> {
        match self.switches[switch].node.command(self.now, argv) {
            Ok(_) => Ok(()),
            Err(failure) => {
                // The line is the last word.
                let from = match failure.word {
                    Some((arg, offset)) if arg + 1 == argv.len() => (span.start + offset).min(span.end),
                    Some(_) | None => span.start,
                };
                Err(Diagnostic::new(from..span.end, failure.message))
            }
        }
    }
}
