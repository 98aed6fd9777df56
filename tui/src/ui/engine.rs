//! The simulated world as an [`Engine`].

use std::borrow::Cow;
use std::rc::Rc;

use datapath::action::Action;
use datapath::action::text::format_actions;
use datapath::cache::FlowView;
use datapath::flow::Flow;
use datapath::flow::text::{PortNames, format_flow};
use datapath::openflow::text::{Names, parse_match};
use datapath::packet::Packet;
use datapath::pipeline::Datapath;
use datapath::stats::DropReason;
use datapath::trace::{Event, FlowId};
use datapath::types::{OfPort, PortNo, Time};
use sim::describe;
use sim::history::History;
use sim::node::switch::{PortInfo, SwitchNode};
use sim::record::Happening;
use sim::world::World;

use super::mask;
use super::model::{
    Engine, FlowRow, FlowText, KeyFilter, PastFlow, Port, Record, Snapshot, Subtable, Switch, SwitchIndex,
    What,
};

/// A scenario's world with its history.
pub struct WorldEngine {
    history: History,
    title: String,
}

impl WorldEngine {
    /// At the start of `world`.
    pub fn new(world: World) -> Self {
        let title = world.scenario().name.clone();
        Self { history: History::new(world), title }
    }

    fn node(&self, switch: SwitchIndex) -> Option<&SwitchNode> {
        self.history.world().switches().nth(switch.0)
    }

    fn datapath(&self, switch: SwitchIndex) -> Option<&Datapath> {
        self.node(switch).map(SwitchNode::datapath)
    }

    fn flow(&self, switch: SwitchIndex, flow: FlowId) -> Option<FlowView<'_>> {
        self.datapath(switch)?.flows().get(flow)
    }
}

impl Engine for WorldEngine {
    fn title(&self) -> &str {
        &self.title
    }

    fn now(&self) -> Time {
        self.history.world().now()
    }

    fn step(&self) -> u64 {
        self.history.position()
    }

    fn frontier(&self) -> u64 {
        self.history.len_known()
    }

    fn at_end(&self) -> bool {
        !self.history.has_next()
    }

    fn next_time(&self) -> Option<Time> {
        self.history.next_time()
    }

    fn forward(&mut self, records: &mut Vec<Record>) {
        // An error ends the world, and is shown where its events would be.
        let failure = match self.history.step_event() {
            Ok(None) => return,
            Ok(Some(_)) => None,
            Err(error) => Some(error.to_string()),
        };
        let time = self.now();
        let trace = self.history.trace();
        for (index, happening) in trace.entries().iter().enumerate() {
            let what = match happening {
                Happening::Datapath { switch, event } => {
                    What::Switch { switch: SwitchIndex(*switch), event: *event }
                }
                Happening::World(event) => What::World { event: *event },
            };
            records.push(Record { time, what, bytes: trace.frame_at(index).map(Rc::from) });
        }
        if let Some(text) = failure {
            records.push(Record { time, what: What::Note { text: text.into() }, bytes: None });
        } else if records.is_empty() {
            records.push(Record { time, what: What::Note { text: "housekeeping".into() }, bytes: None });
        }
    }

    fn skip(&mut self, steps: u64) {
        // Where an error ends the world, `at_end` says so, and the last step shows it.
        let _ = self.history.skip(steps);
    }

    fn go_to(&mut self, step: u64) {
        let _ = self.history.seek(step);
    }

    fn snapshot(&self) -> Snapshot {
        let world = self.history.world();
        let switches = world.switches().map(switch).collect();
        Snapshot { now: world.now(), switches }
    }

    fn flow_text(&self, switch: SwitchIndex, flow: FlowId) -> Option<FlowText> {
        let ports = Ports(self.node(switch)?.ports());
        let flow = self.flow(switch, flow)?;
        let (key, mask) = (flow.key(), flow.mask());
        Some(FlowText {
            key: format_flow(&key, Some(&mask), Some(&ports), false).to_string(),
            actions: format_actions(flow.actions, Some(&ports)).to_string(),
        })
    }

    fn past_flows(&self, switch: SwitchIndex, count: usize) -> Vec<PastFlow> {
        let Some(node) = self.node(switch) else { return Vec::new() };
        let past = node.last_past_flows(count).into_iter().rev().map(|past| PastFlow {
            at: past.at,
            fate: past.fate,
            flow: format!(
                "{}, packets:{}, bytes:{}, actions:{}",
                past.flow.key, past.flow.packets, past.flow.bytes, past.flow.actions
            ),
            after: past.after,
        });
        past.collect()
    }

    fn flow_passes(&self, switch: SwitchIndex, flow: FlowId, filter: &KeyFilter) -> bool {
        let Some(flow) = self.flow(switch, flow) else { return false };
        // Where the flow does not look, a packet of the filter's can pass it.
        let mut both = flow.mask();
        both = both.masked(&filter.mask);
        flow.key().matches(&both, &filter.key)
    }

    fn packet_passes(&self, record: &Record, filter: &KeyFilter) -> bool {
        let (Some(Event::Rx { port, .. }), Some(bytes)) = (record.event(), &record.bytes) else {
            return false;
        };
        let mut packet = Packet::from_frame(bytes);
        packet.md.init(*port);
        filter.key.matches(&filter.mask, &Flow::of_packet(&mut packet))
    }

    fn parse_match(&self, switch: SwitchIndex, text: &str) -> Result<KeyFilter, String> {
        let ports = Ports(self.node(switch).map(SwitchNode::ports).unwrap_or_default());
        let parsed = parse_match(text, &ports).map_err(|error| error.to_string())?;
        let mut filter = KeyFilter { key: parsed.flow, mask: parsed.mask };
        if filter.mask.in_port != 0 {
            let number = parsed.flow.in_port;
            let port = ports.0.iter().find(|port| u32::from(port.of_port) == number);
            filter.key.in_port = port.ok_or_else(|| format!("no port {number} on this switch"))?.no.0;
        }
        Ok(filter)
    }

    fn describe(&self, record: &Record) -> String {
        let happening = match &record.what {
            What::Note { text } => return text.to_string(),
            What::World { event } => Happening::World(*event),
            What::Switch { switch, event } => Happening::Datapath { switch: switch.0, event: *event },
        };
        describe::happening(&happening, self.history.world())
    }

    fn command(&mut self, line: &str) -> Result<String, String> {
        self.history.type_command(line).map_err(|error| match error {
            sim::world::WorldError::Scenario(diagnostics) => {
                diagnostics.list.first().map_or_else(String::new, |first| first.message.clone())
            }
            sim::world::WorldError::Unaccounted(what) => what,
        })
    }
}

/// What a datapath is like now.
fn switch(node: &SwitchNode) -> Switch {
    let infos = node.ports();
    let mut bridges: Vec<&str> = infos.iter().map(|port| port.bridge.as_str()).collect();
    bridges.dedup();
    let name = if bridges.is_empty() { "(no bridge)".to_owned() } else { bridges.join("+") };
    let counters = node.counters();
    let all = DropReason::ALL.into_iter().zip(counters.drops);
    let datapath = node.datapath();
    let flows = datapath.flows().iter().map(|flow| row(&flow)).collect();
    let ports = infos.iter().map(|info| port(info, datapath)).collect();
    Switch {
        name,
        ports,
        lookups: counters.passes,
        drops: all.filter(|(_, count)| *count > 0).collect(),
        flows,
        subtables: subtables(datapath),
        past: (node.fates().all_removed(), node.fates().changed),
    }
}

fn port(info: &PortInfo, datapath: &Datapath) -> Port {
    let config = datapath.port(info.no).map(|port| *port.config());
    Port {
        name: info.name.clone(),
        bridge: info.bridge.clone(),
        number: info.no.0,
        of_port: info.of_port,
        up: config.is_none_or(|config| config.up),
        rx_packets: info.counters.rx_packets,
        rx_bytes: info.counters.rx_bytes,
        tx_packets: info.counters.tx_packets,
        tx_bytes: info.counters.tx_bytes,
    }
}

fn row(flow: &FlowView<'_>) -> FlowRow {
    FlowRow {
        id: flow.id,
        recirc_id: flow.key().recirc_id,
        drops: flow.actions.is_empty() || matches!(flow.actions, [Action::Drop(_)]),
        packets: flow.stats.packets,
        bytes: flow.stats.bytes,
        used: flow.stats.used,
    }
}

/// Subtables of all ingress ports' classifiers, in the order in which each looks at them.
fn subtables(datapath: &Datapath) -> Vec<Subtable> {
    let ports = datapath.ports().map(|(no, _)| no);
    ports
        .filter_map(|no| Some((no, datapath.flows().classifier(no.0)?)))
        .flat_map(|(no, classifier)| {
            classifier.subtables().iter().map(move |subtable| Subtable {
                mask: format!("in_port {no}: {}", mask::fields(&subtable.mask())),
                flows: subtable.len(),
                hits: subtable.hits(),
            })
        })
        .collect()
}

/// Names of a switch's ports.
struct Ports(Vec<PortInfo>);

impl PortNames for Ports {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        self.0.iter().find(|one| one.no == port).map(|one| Cow::Borrowed(one.name.as_str()))
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        self.0.iter().find(|one| one.name == name).map(|one| one.no)
    }
}

impl Names for Ports {
    fn port(&self, name: &str) -> Option<OfPort> {
        self.0.iter().find(|one| one.name == name).map(|one| OfPort(one.of_port))
    }
}

#[cfg(test)]
mod tests;
