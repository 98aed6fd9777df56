//! A made-up world for tests: a list of steps with what happens in them, and counters that follow from that.

use std::cell::Cell;
use std::rc::Rc;

use datapath::flow::Flow;
use datapath::offload::Offloads;
use datapath::stats::{DropReason, PassCounters};
use datapath::trace::{Event, FlowId, OffloadWhy, PacketId, Tier};
use datapath::types::{PortNo, RecircId, Time};
use etherparse::PacketBuilder;
use sim::describe;
use sim::record::WorldEvent;

use super::model::{
    Engine, FlowRow, FlowText, KeyFilter, PastFlow, Port, Record, Snapshot, Subtable, Switch, SwitchIndex,
    What,
};

/// From this step on there are flows that were changed or removed.
pub const PAST_FROM: u64 = 20;

/// Number of steps until the made-up world of the screen tests ends.
pub const STEPS: u64 = 24;

/// The made-up world: one step each millisecond. Odd steps are a host's, even ones packets through a switch: a miss, then
/// hits; each fourth packet is dropped, each third gets a VLAN tag and is recirculated.
pub struct FakeEngine {
    step: u64,
    frontier: u64,
    end: u64,
    /// Commands, and the step that each is.
    commands: Vec<(u64, String)>,
    /// Steps that were taken in all, seen or skipped.
    pub taken: Rc<Cell<u64>>,
}

impl FakeEngine {
    /// A world of `end` steps.
    pub fn new(end: u64) -> Self {
        Self { step: 0, frontier: 0, end, commands: Vec::new(), taken: Rc::default() }
    }

    fn take(&mut self) {
        self.step += 1;
        self.frontier = self.frontier.max(self.step);
        self.taken.set(self.taken.get() + 1);
    }

    fn records(&self, step: u64) -> Vec<Record> {
        let time = Time::from_millis(step);
        let world = |event| vec![Record { time, what: What::World { event }, bytes: None }];
        if let Some(command) = self.commands.iter().position(|(at, _)| *at == step) {
            return world(WorldEvent::Typed { command });
        }
        if step % 2 == 1 {
            return world(WorldEvent::HostSent { host: 0 });
        }
        let record = |(event, bytes): (Event, Option<Vec<u8>>)| {
            let what = What::Switch { switch: SwitchIndex(0), event };
            Record { time, what, bytes: bytes.map(Rc::from) }
        };
        packet(step / 2).into_iter().map(record).collect()
    }
}

/// What happens to packet number `n`.
fn packet(n: u64) -> Vec<(Event, Option<Vec<u8>>)> {
    let packet = PacketId(n);
    let flow = FlowId(u32::from(n.is_multiple_of(3)));
    let mut frame = frame(n);
    let rx = Offloads::IP_GOOD | Offloads::L4_PARTIAL | Offloads::L4_UDP;
    let received = Event::Rx { packet, port: PortNo(1), len: frame.len() as u32, offloads: rx };
    let mut events = vec![(received, Some(frame.clone()))];
    if n == 1 || n == 3 {
        events.push((Event::Lookup { packet, tier: Tier::Megaflow, hit: None, subtables: 1 }, None));
        events.push((Event::Upcall { packet }, None));
        events.push((Event::Install { packet, flow }, None));
    } else {
        events.push((Event::Lookup { packet, tier: Tier::Emc, hit: Some(flow), subtables: 0 }, None));
    }
    if n.is_multiple_of(4) {
        events.push((Event::Drop { packet, reason: DropReason::ActionDrop }, None));
        return events;
    }
    if n.is_multiple_of(3) {
        events
            .push((Event::Action { packet, flow: Some(flow), word: "push_vlan", index: 0, depth: 0 }, None));
        frame.splice(12..12, [0x81, 0, 0, 10]);
        events.push((Event::Recirc { packet, id: RecircId(1), depth: 1 }, Some(frame.clone())));
        events.push((Event::Lookup { packet, tier: Tier::Simple, hit: Some(FlowId(2)), subtables: 0 }, None));
    }
    let after = Offloads::IP_GOOD | Offloads::L4_GOOD | Offloads::L4_UDP;
    events.push((Event::OffloadChange { packet, before: rx, after, why: OffloadWhy::Prepared }, None));
    let sent = Event::Tx { packet, port: PortNo(2), len: frame.len() as u32, offloads: after };
    events.push((sent, Some(frame)));
    events
}

/// The frame of packet number `n`.
fn frame(n: u64) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(1000 + n as u16, 53);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"recirc").unwrap();
    frame
}

/// Counts one record into the shown switch.
fn count(switch: &mut Switch, record: &Record) {
    match record.event() {
        Some(Event::Rx { len, .. }) => {
            switch.ports[1].rx_packets += 1;
            switch.ports[1].rx_bytes += u64::from(*len);
        }
        Some(Event::Tx { len, .. }) => {
            switch.ports[2].tx_packets += 1;
            switch.ports[2].tx_bytes += u64::from(*len);
        }
        Some(Event::Upcall { .. }) => switch.lookups.upcall += 1,
        Some(Event::Drop { reason, .. }) => match switch.drops.first_mut() {
            Some((_, count)) => *count += 1,
            None => switch.drops.push((*reason, 1)),
        },
        Some(Event::Lookup { tier, hit: Some(id), .. }) => {
            match tier {
                Tier::Simple => switch.lookups.simple += 1,
                Tier::Emc => switch.lookups.emc += 1,
                Tier::Smc => switch.lookups.smc += 1,
                Tier::Megaflow => switch.lookups.megaflow += 1,
            }
            if let Some(flow) = switch.flows.iter_mut().find(|flow| flow.id == *id) {
                flow.packets += 1;
                flow.bytes += 48;
                flow.used = Some(record.time);
            }
        }
        Some(Event::Install { flow, .. }) => {
            let row = FlowRow { id: *flow, recirc_id: 0, drops: false, packets: 0, bytes: 0, used: None };
            switch.flows.push(row);
            if flow.0 == 1 {
                switch.flows.push(FlowRow { id: FlowId(2), recirc_id: 1, ..row });
            }
        }
        _ => {}
    }
}

impl Engine for FakeEngine {
    fn title(&self) -> &str {
        "a made-up world"
    }

    fn now(&self) -> Time {
        Time::from_millis(self.step)
    }

    fn step(&self) -> u64 {
        self.step
    }

    fn frontier(&self) -> u64 {
        self.frontier
    }

    fn at_end(&self) -> bool {
        self.step >= self.end
    }

    fn next_time(&self) -> Option<Time> {
        (!self.at_end()).then(|| Time::from_millis(self.step + 1))
    }

    fn forward(&mut self, records: &mut Vec<Record>) {
        if !self.at_end() {
            self.take();
            records.extend(self.records(self.step));
        }
    }

    fn skip(&mut self, steps: u64) {
        for _ in 0..steps.min(self.end - self.step) {
            self.take();
        }
    }

    fn go_to(&mut self, step: u64) {
        assert!(step <= self.frontier, "nobody has been at step {step}");
        self.step = step;
    }

    fn snapshot(&self) -> Snapshot {
        let port = |name: &str, number, of_port| Port {
            name: name.into(),
            bridge: "br0".into(),
            number,
            of_port,
            up: true,
            ..Port::default()
        };
        let ports = vec![port("br0", 0, 0xfffe), port("p1", 1, 1), port("p2", 2, 2)];
        let mut switch =
            Switch { name: "s1".into(), ports, lookups: PassCounters::default(), ..Switch::default() };
        for record in (1..=self.step).flat_map(|step| self.records(step)) {
            count(&mut switch, &record);
        }
        if !switch.flows.is_empty() {
            switch.subtables = vec![Subtable {
                mask: "recirc_id,in_port,eth,eth_type".into(),
                flows: switch.flows.len(),
                hits: 7,
            }];
        }
        if self.step >= PAST_FROM {
            switch.past = (1, 1);
        }
        let other = Switch { name: "s2".into(), ..Switch::default() };
        Snapshot { now: self.now(), switches: vec![switch, other] }
    }

    fn flow_text(&self, switch: SwitchIndex, flow: FlowId) -> Option<FlowText> {
        let known = self.snapshot().switches[switch.0].flows.iter().any(|row| row.id == flow);
        let recirc = u32::from(flow.0 == 2);
        known.then(|| FlowText {
            key: format!(
                "recirc_id({recirc}),in_port(1),packet_type(ns=0,id=0),\
                 eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(frag=no)"
            ),
            actions: if flow.0 == 1 { "push_vlan(vid=10,pcp=0),recirc(0x1)".into() } else { "2".into() },
        })
    }

    fn past_flows(&self, switch: SwitchIndex, count: usize) -> Vec<PastFlow> {
        if switch.0 != 0 || self.step < PAST_FROM {
            return Vec::new();
        }
        let past = |ms: u64, fate: &str| PastFlow {
            at: Time::from_millis(ms),
            fate: fate.into(),
            flow: "recirc_id(0),in_port(1),eth_type(0x0806), packets:3, bytes:126, actions:2".into(),
            after: None,
        };
        let mut all = vec![
            past(20, "removed, idle: no packet used it"),
            PastFlow { after: Some("actions:1".into()), ..past(19, "changed; rules changed") },
        ];
        all.truncate(count);
        all
    }

    fn flow_passes(&self, _switch: SwitchIndex, flow: FlowId, filter: &KeyFilter) -> bool {
        // The made-up match says which flow and which packet.
        filter.key.in_port == flow.0
    }

    fn packet_passes(&self, record: &Record, filter: &KeyFilter) -> bool {
        record.packet().is_some_and(|packet| packet.0 == u64::from(filter.key.in_port))
    }

    fn parse_match(&self, _switch: SwitchIndex, text: &str) -> Result<KeyFilter, String> {
        let port = text.strip_prefix("in_port=").and_then(|digits| digits.parse().ok());
        let port = port.ok_or_else(|| format!("{text}: unknown field"))?;
        Ok(KeyFilter { key: Flow { in_port: port, ..Flow::default() }, mask: Flow::default() })
    }

    fn describe(&self, record: &Record) -> String {
        let event = match &record.what {
            What::World { event: WorldEvent::Typed { command } } => {
                return format!("ovs: {}", self.commands[*command].1);
            }
            What::World { .. } => return "h1 sends a frame".to_owned(),
            What::Note { text } => return text.to_string(),
            What::Switch { event, .. } => event,
        };
        match event {
            Event::Rx { port, len, .. } => format!("received on port {port}, {len} bytes"),
            Event::Lookup { tier, hit, .. } => {
                format!("{tier:?} lookup: {}", if hit.is_some() { "hit" } else { "miss" })
            }
            Event::Upcall { .. } => "upcall".into(),
            Event::Install { flow, .. } => format!("flow {} installed", flow.0),
            Event::Modify { flow } => format!("flow {} changed", flow.0),
            Event::Remove { flow, why } => format!("flow {} removed, {}", flow.0, why.name()),
            Event::Conntrack { state, seen, .. } => {
                format!("tracked: {}, {}", describe::ct_state(*state), describe::seen(*seen))
            }
            Event::Expire { connections } => format!("{connections} connections removed"),
            Event::Action { word, .. } => format!("action: {word}"),
            Event::OffloadChange { before, after, .. } => {
                format!("offload: {} to {}", describe::offloads(*before), describe::offloads(*after))
            }
            Event::Copy { copy, .. } => format!("copied as #{}", copy.0),
            Event::Recirc { id, depth, .. } => format!("recirculated with id {}, depth {depth}", id.0),
            Event::Drop { reason, .. } => format!("dropped: {}", reason.name()),
            Event::Tx { port, len, .. } => format!("sent on port {port}, {len} bytes"),
        }
    }

    fn command(&mut self, line: &str) -> Result<String, String> {
        if !line.starts_with("ovs-") {
            return Err(format!("{line}: not a command of Open vSwitch"));
        }
        self.commands.retain(|(step, _)| *step <= self.step);
        self.step += 1;
        self.frontier = self.step;
        self.end += 1;
        self.commands.push((self.step, line.to_owned()));
        Ok(if line.contains("dump") { "one\ntwo\nthree".into() } else { String::new() })
    }
}
