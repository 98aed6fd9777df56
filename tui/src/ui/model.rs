//! What the user interface knows of the world: where it is, what it looks like there, and what happened on the way.
//!
//! Plain data and one trait. The views see [`Snapshot`] and [`Record`]s only, so they can be shown a made-up world in
//! tests, and a frozen one while the engine runs on.

use std::rc::Rc;

use datapath::flow::Flow;
use datapath::offload::Offloads;
use datapath::stats::{DropReason, PassCounters};
use datapath::trace::{Event, FlowId, PacketId};
use datapath::types::Time;
use sim::record::WorldEvent;

/// Index of a switch within the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchIndex(pub usize);

/// A place in history: record `record` of step `step`. Steps are the world's events in order, from 1; step 0 is the
/// start, where nothing has happened and there is no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// Step.
    pub step: u64,
    /// Record within the step, from 0.
    pub record: usize,
}

/// What happened in one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Something in the world outside the switches: a host, a link, a step of the scenario.
    World {
        /// What.
        event: WorldEvent,
    },
    /// Something that there is no event for.
    Note {
        /// One line.
        text: Rc<str>,
    },
    /// Something in a switch.
    Switch {
        /// Which.
        switch: SwitchIndex,
        /// What.
        event: Event,
    },
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: Time,
    /// What.
    pub what: What,
    /// The frame's bytes after it, where they may have changed.
    pub bytes: Option<Rc<[u8]>>,
}

impl Record {
    /// The switch it happened in, if in any.
    pub const fn switch(&self) -> Option<SwitchIndex> {
        match &self.what {
            What::World { .. } | What::Note { .. } => None,
            What::Switch { switch, .. } => Some(*switch),
        }
    }

    /// The event in a switch, if it is one.
    pub const fn event(&self) -> Option<&Event> {
        match &self.what {
            What::World { .. } | What::Note { .. } => None,
            What::Switch { event, .. } => Some(event),
        }
    }

    /// The packet it is about, if about one.
    pub fn packet(&self) -> Option<PacketId> {
        self.event().and_then(Event::packet)
    }

    /// The flow it is about, if about one.
    pub fn flow(&self) -> Option<FlowId> {
        self.event().and_then(Event::flow)
    }

    /// The offload flags after it, if it tells them.
    pub fn offloads(&self) -> Option<Offloads> {
        self.event().and_then(Event::offloads)
    }
}

/// One port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Bridge that it is on.
    pub bridge: String,
    /// Datapath port number.
    pub number: u32,
    /// OpenFlow port number.
    pub of_port: u16,
    /// Whether its link is up.
    pub up: bool,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// Numbers of one datapath flow. Its text is made only for the rows that are shown ([`Engine::flow_text`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRow {
    /// Identity.
    pub id: FlowId,
    /// Recirculation id that it matches.
    pub recirc_id: u32,
    /// Whether its actions are empty or say drop.
    pub drops: bool,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When it was hit last.
    pub used: Option<Time>,
}

/// Text of one datapath flow, in the syntax of `dpctl/dump-flows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowText {
    /// Key and mask.
    pub key: String,
    /// Actions.
    pub actions: String,
}

/// What became of a datapath flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastFlow {
    /// When.
    pub at: Time,
    /// What and why, in words.
    pub fate: String,
    /// What it was, in a line.
    pub flow: String,
    /// What is in its place.
    pub after: Option<String>,
}

/// One subtable of the datapath classifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtable {
    /// Its mask, in words.
    pub mask: String,
    /// Flows in it.
    pub flows: usize,
    /// Lookups that ended in it.
    pub hits: u64,
}

/// One switch at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Switch {
    /// Name.
    pub name: String,
    /// Ports, by number.
    pub ports: Vec<Port>,
    /// Passes, by what decided them.
    pub lookups: PassCounters,
    /// Packets dropped, by reason; reasons that never happened are left out.
    pub drops: Vec<(DropReason, u64)>,
    /// Datapath flows, in order of installation.
    pub flows: Vec<FlowRow>,
    /// Subtables of the classifier.
    pub subtables: Vec<Subtable>,
    /// Flows that were removed so far, and times that one was given other actions.
    pub past: (u64, u64),
}

/// The world at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Virtual time.
    pub now: Time,
    /// Switches.
    pub switches: Vec<Switch>,
}

/// What one flow or packet must look like: values and the bits of them that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFilter {
    /// Values, with a datapath port number in `in_port`.
    pub key: Flow,
    /// Bits that count.
    pub mask: Flow,
}

/// The world, as something to move through.
pub trait Engine {
    /// What is run: a name for people.
    fn title(&self) -> &str;

    /// Virtual time.
    fn now(&self) -> Time;

    /// Steps taken so far on the way to where the world is now.
    fn step(&self) -> u64;

    /// The furthest step that was ever reached in this history.
    fn frontier(&self) -> u64;

    /// Whether nothing is left to happen behind the step where the world is now.
    fn at_end(&self) -> bool;

    /// When the next step happens, if there is one.
    fn next_time(&self) -> Option<Time>;

    /// Takes one step, and appends what happened in it to `records`, at least one record. Does nothing at the end.
    fn forward(&mut self, records: &mut Vec<Record>);

    /// Takes up to `steps` steps without telling what happens.
    fn skip(&mut self, steps: u64);

    /// Goes to where `step` steps were taken: 0 is the start. Not beyond [`Self::frontier`].
    fn go_to(&mut self, step: u64);

    /// What the world looks like.
    fn snapshot(&self) -> Snapshot;

    /// Text of a flow, if it is still there.
    fn flow_text(&self, switch: SwitchIndex, flow: FlowId) -> Option<FlowText>;

    /// The last changes and ends of flows, at most `count`, newest first.
    fn past_flows(&self, switch: SwitchIndex, count: usize) -> Vec<PastFlow>;

    /// Whether packets that `filter` lets through can hit a flow; none if the flow is gone.
    fn flow_passes(&self, switch: SwitchIndex, flow: FlowId, filter: &KeyFilter) -> bool;

    /// Whether a packet received with these bytes is one that `filter` lets through.
    fn packet_passes(&self, record: &Record, filter: &KeyFilter) -> bool;

    /// Reads an OVS match for a switch.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    fn parse_match(&self, switch: SwitchIndex, text: &str) -> Result<KeyFilter, String>;

    /// One line about a record, without its time.
    fn describe(&self, record: &Record) -> String;

    /// Runs a command of Open vSwitch (`ovs-ofctl add-flow ...`) at the present moment, as a step of its own that stays
    /// part of history. What lay behind this moment is forgotten.
    ///
    /// # Errors
    /// What is wrong with it.
    fn command(&mut self, line: &str) -> Result<String, String>;
}
