//! What came to each datapath of a scenario, and what left it.

use std::sync::Arc;

use datapath::trace::Off;
use datapath::types::{MacAddr, OfPort, Time};
use sim::record::{Arrival, Commanded, Departure, Observer};
use sim::scenario::{LinkConfig, PortConfig, PortKind, Scenario, StepAction, SwitchConfig};
use sim::world::{World, WorldError};

use crate::cli::load::SharedFiles;

/// A frame and the port that it came to or left by.
pub type Frame = (String, Vec<u8>);

/// One thing that happened to a datapath from outside.
#[derive(Clone, Debug)]
pub struct Input {
    /// When.
    pub time: Time,
    /// What.
    pub what: What,
    /// The frames that left because of it, in order.
    pub out: Vec<Frame>,
}

/// What happened to a datapath.
#[derive(Clone, Debug)]
pub enum What {
    /// Frames came, in one batch.
    Frames(Vec<Frame>),
    /// A command ran.
    Command {
        /// Its words.
        argv: Vec<String>,
        /// What it printed.
        text: String,
    },
}

/// All that one datapath went through.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Its name: that of its first bridge.
    pub name: String,
    /// The section of the scenario that it was made from; none for one that `ovs` steps made.
    pub config: Option<SwitchConfig>,
    /// Address of its bridge's own port, if it has a section.
    pub mac: MacAddr,
    /// In order.
    pub inputs: Vec<Input>,
    /// When it ended.
    pub end: Time,
    /// Keys and actions of its datapath flows at the end, as text with port names.
    pub flows: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Recorder {
    switches: Vec<Recording>,
}

impl Recorder {
    fn of(&mut self, switch: usize) -> &mut Recording {
        if self.switches.len() <= switch {
            self.switches.resize_with(switch + 1, Recording::default);
        }
        &mut self.switches[switch]
    }
}

impl Observer for Recorder {
    fn arrived(&mut self, arrival: &Arrival<'_>) {
        let frame = (arrival.port.to_owned(), arrival.frame.to_vec());
        let inputs = &mut self.of(arrival.switch).inputs;
        match inputs.last_mut() {
            Some(Input { what: What::Frames(frames), .. }) if arrival.index > 0 => frames.push(frame),
            Some(_) | None => {
                let what = What::Frames(vec![frame]);
                inputs.push(Input { time: arrival.time, what, out: Vec::new() });
            }
        }
    }

    fn commanded(&mut self, command: &Commanded<'_>) {
        let argv = command.argv.iter().map(|&word| word.to_owned()).collect();
        let what = What::Command { argv, text: command.text.to_owned() };
        self.of(command.switch).inputs.push(Input { time: command.time, what, out: Vec::new() });
    }

    fn departed(&mut self, departure: &Departure<'_>) {
        let frame = (departure.port.to_owned(), departure.frame.to_vec());
        if let Some(input) = self.of(departure.switch).inputs.last_mut() {
            input.out.push(frame);
        }
    }

    fn printed(&mut self, _step: usize, _text: &str) {}
}

/// Runs a scenario to its end, and returns what each of its datapaths went through.
///
/// # Errors
/// What is wrong with the scenario.
pub fn record(scenario: &Arc<Scenario>, files: &SharedFiles) -> Result<Vec<Recording>, WorldError> {
    let mut world = World::new(Arc::clone(scenario), Arc::clone(files), None, false)?;
    let mut recorder = Recorder::default();
    while world.step(&mut Off, &mut recorder)?.is_some() {}
    world.finish()?;
    // As over there: what was still to be looked at again is.
    let inputs: Vec<usize> = recorder.switches.iter().map(|recording| recording.inputs.len()).collect();
    world.type_command("ovs-appctl revalidator/wait", &mut Off, &mut recorder)?;
    recorder.switches.iter_mut().zip(inputs).for_each(|(recording, len)| recording.inputs.truncate(len));
    let names = world.bridges();
    for (index, node) in world.switches().enumerate() {
        let recording = recorder.of(index);
        recording.name =
            names.iter().find(|(_, of)| *of == index).map(|(name, _)| name.clone()).unwrap_or_default();
        recording.config = scenario.switches.get(index).cloned();
        let local = node.switch().ports().find(|port| port.of_port == OfPort::LOCAL);
        recording.mac = local.map(|port| port.device.mac).unwrap_or_default();
        recording.end = world.now();
        let flows = node.flows(world.now());
        recording.flows = flows.into_iter().map(|flow| (flow.key, flow.actions)).collect();
    }
    Ok(recorder.switches)
}

/// Why a scenario cannot be compared with Open vSwitch's dummy ports, if it cannot.
pub fn incomparable(scenario: &Scenario) -> Option<String> {
    let port = |switch: &SwitchConfig, port: &PortConfig, what: &str| {
        format!("port {}:{} {what}", switch.name, port.name)
    };
    for switch in &scenario.switches {
        for config in &switch.ports {
            if !matches!(config.kind, PortKind::Simulated) {
                return Some(port(switch, config, "is not a simulated port"));
            }
            if !config.offload.is_empty() || config.rx_tso != 0 || has_rx_offload(config) {
                return Some(port(switch, config, "has offloads"));
            }
        }
    }
    let down = |link: &LinkConfig| link.forward.down || link.backward.down;
    let changes = |action: &StepAction| match action {
        StepAction::Link(link) => {
            link.both.down.is_some() || link.forward.down.is_some() || link.backward.down.is_some()
        }
        StepAction::Send(_)
        | StepAction::Replay(_)
        | StepAction::Ovs(_)
        | StepAction::Ping(_)
        | StepAction::Udp(_)
        | StepAction::Tcp(_)
        | StepAction::Expect(_)
        | StepAction::ExpectFlow(_)
        | StepAction::ExpectCounters(_)
        | StepAction::ExpectGolden(_) => false,
    };
    if scenario.links.iter().any(down) || scenario.steps.iter().any(|step| changes(&step.action)) {
        return Some("a link goes down, which a dummy port has not".to_owned());
    }
    None
}

fn has_rx_offload(config: &PortConfig) -> bool {
    use datapath::switch::RxChecksum;
    [config.rx_ip_csum, config.rx_l4_csum].iter().any(|state| !matches!(state, RxChecksum::Unknown))
}
