//! A datapath with its bridges, as the world sees it: the only place in `sim` that knows how a switch is driven.

use datapath::action::text::format_actions;
use datapath::offload::Capabilities;
use datapath::openflow::bridge::{FailMode, PriorityTags, VlanConfig};
use datapath::packet::{Batch, Packet};
use datapath::pipeline::Datapath;
use datapath::stats::{DropReason, PassCounters};
use datapath::switch::{
    BridgeSpec, CommandError, Device, DeviceKind, DumpOptions, FateCounts, FileReader, FlowEvent, FlowFate,
    PortSpec, Switch,
};
use datapath::trace::{Event, FlowId, RemoveWhy, Trace};
use datapath::types::{MacAddr, OfPort, PortNo, Time};

use crate::random::Stream;
use crate::scenario::{PortConfig, SwitchConfig};

/// Why a command did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFailure {
    /// What the tool would print.
    pub message: String,
    /// Whether the command was understood. If not, the scenario is wrong.
    pub understood: bool,
    /// The word that was not understood (the program is 0), and the byte in it.
    pub word: Option<(usize, usize)>,
    /// If that word names a file: the line of the file, from 1, and the byte in it.
    pub line: Option<(usize, usize)>,
}

/// A port, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Datapath port number.
    pub no: PortNo,
    /// Name.
    pub name: String,
    /// Bridge.
    pub bridge: String,
    /// OpenFlow port number.
    pub of_port: u16,
    /// What it counted.
    pub counters: PortCounters,
}

/// What became of a datapath flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastFlow {
    /// When.
    pub at: Time,
    /// When it was installed.
    pub installed: Time,
    /// Why it was removed; none if it got other actions.
    pub removed: Option<RemoveWhy>,
    /// What had changed that made it be looked at.
    pub causes: Vec<&'static str>,
    /// Whether one of the rules that it came from is no more.
    pub rule_gone: bool,
    /// All of this in words.
    pub fate: String,
    /// What it was.
    pub flow: FlowInfo,
    /// What is in its place: `actions:...`, or the key by the mask that rules ask for now.
    pub after: Option<String>,
}

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

/// What a datapath counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Passes, by what decided them.
    pub passes: PassCounters,
    /// Packets dropped, by [`DropReason::ALL`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Packets received.
    pub received: u64,
    /// Packets made here: copies, segments, answers.
    pub made: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets kept for later.
    pub queued: u64,
}

impl SwitchCounters {
    /// All packets dropped.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// What was counted since `earlier`. `queued` is not a count but a state, and stays as it is.
    pub fn since(&self, earlier: &Self) -> Self {
        let passes = PassCounters {
            simple: self.passes.simple - earlier.passes.simple,
            emc: self.passes.emc - earlier.passes.emc,
            smc: self.passes.smc - earlier.passes.smc,
            megaflow: self.passes.megaflow - earlier.passes.megaflow,
            upcall: self.passes.upcall - earlier.passes.upcall,
            lost: self.passes.lost - earlier.passes.lost,
        };
        let mut drops = self.drops;
        for (own, earlier) in drops.iter_mut().zip(earlier.drops) {
            *own -= earlier;
        }
        Self {
            passes,
            drops,
            received: self.received - earlier.received,
            made: self.made - earlier.made,
            sent: self.sent - earlier.sent,
            queued: self.queued,
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        let (a, b) = (&self.passes, &other.passes);
        let passes = PassCounters {
            simple: a.simple + b.simple,
            emc: a.emc + b.emc,
            smc: a.smc + b.smc,
            megaflow: a.megaflow + b.megaflow,
            upcall: a.upcall + b.upcall,
            lost: a.lost + b.lost,
        };
        let mut drops = self.drops;
        for (own, other) in drops.iter_mut().zip(other.drops) {
            *own += other;
        }
        Self {
            passes,
            drops,
            received: self.received + other.received,
            made: self.made + other.made,
            sent: self.sent + other.sent,
            queued: self.queued + other.queued,
        }
    }
}

/// A datapath flow, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Port that it matches on.
    pub in_port: Option<PortNo>,
    /// The key, as `dpctl/dump-flows --names` prints it.
    pub key: String,
    /// The same with values under their masks: what does not depend on which packet came first.
    pub masked_key: String,
    /// The actions, likewise.
    pub actions: String,
    /// Packets that it matched.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// When it last matched one.
    pub used: Option<Time>,
    /// The whole line, as `dpctl/dump-flows -m --names` prints it.
    pub line: String,
}

/// A datapath with its bridges.
#[derive(Clone, Debug)]
pub struct SwitchNode {
    switch: Switch,
    seed: u64,
}

impl SwitchNode {
    /// An empty one; all chance in it comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { switch: Switch::new(seed), seed }
    }

    /// The switch itself, to look at: rules, learned addresses, caches.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Makes the bridge that `config` declares, without its ports, rules and commands.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn add_bridge(&mut self, now: Time, config: &SwitchConfig) -> Result<(), String> {
        // Who writes rules wants these and no others; who writes none wants a switch that switches.
        let fail_mode = if config.flows.is_some() { FailMode::Secure } else { FailMode::Standalone };
        let spec = BridgeSpec {
            name: config.name.clone(),
            fail_mode,
            mac: config.mac.unwrap_or_else(|| self.made_up_mac(&config.name)),
            vlan: VlanConfig::default(),
        };
        self.switch.add_bridge(&spec, now).map(drop).map_err(|error| error.to_string())
    }

    /// A locally administered address that follows from the seed and a name.
    fn made_up_mac(&self, name: &str) -> MacAddr {
        let [a, b, c, d, ..] = Stream::new(self.seed, &format!("mac {name}")).draw().to_be_bytes();
        MacAddr([2, 0xff, a, b, c, d])
    }

    /// Adds a port to a bridge.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn add_port(&mut self, bridge: &str, config: &PortConfig) -> Result<(), String> {
        let bridge = self.switch.bridge_id(bridge).map_err(|error| error.to_string())?;
        let mut device = Device::new(&config.name, DeviceKind::Dummy, self.made_up_mac(&config.name));
        device.mtu = config.mtu.map_or(device.mtu, |mtu| u16::try_from(mtu).unwrap_or(u16::MAX));
        device.capabilities = config.offload;
        device.rx_ip = config.rx_ip_csum;
        device.rx_l4 = config.rx_l4_csum;
        device.rx_tso_segsz = config.rx_tso;
        let spec = PortSpec {
            of_port: config.number.map(OfPort),
            vlan: vlan_config(config),
            ..PortSpec::new(device)
        };
        let (given, _) = self.switch.add_port(bridge, &spec).map_err(|error| error.to_string())?;
        match config.number {
            Some(number) if given != OfPort(number) => Err(format!(
                "port `{}` got number {} instead of {number}, which is taken",
                config.name, given.0
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Runs a command that names no files.
    ///
    /// # Errors
    /// If it is not understood, or fails.
    pub fn command(&mut self, now: Time, argv: &[&str]) -> Result<String, CommandFailure> {
        self.switch.command(now, argv).map_err(failure)
    }

    /// Runs a command; `files` reads those that it names.
    ///
    /// # Errors
    /// If it is not understood, or fails.
    pub fn command_with(
        &mut self,
        now: Time,
        argv: &[&str],
        files: &mut FileReader<'_>,
    ) -> Result<String, CommandFailure> {
        self.switch.command_with(now, argv, files).map_err(failure)
    }

    /// The ports in the datapath, in order of their numbers there.
    pub fn ports(&self) -> Vec<PortInfo> {
        let info = |port: &datapath::switch::SwitchPort| {
            let bridge = self.switch.ofproto().bridge(port.bridge)?;
            let stats = self.switch.port_stats(port);
            Some(PortInfo {
                no: port.no?,
                name: port.device.name.clone(),
                bridge: bridge.name.clone(),
                of_port: port.of_port.0,
                counters: PortCounters {
                    rx_packets: stats.rx_packets,
                    rx_bytes: stats.rx_bytes,
                    tx_packets: stats.tx_packets,
                    tx_bytes: stats.tx_bytes,
                },
            })
        };
        self.switch.ports().filter_map(info).collect()
    }

    /// Tells a port that its link went up or down.
    pub fn set_link_state(&mut self, port: PortNo, up: bool) {
        let found = self.switch.port(port).filter(|port| port.device.carrier != up);
        if let Some(name) = found.map(|port| port.device.name.clone()) {
            // The port was just found.
            let _ = self.switch.configure_device(&name, |device| device.carrier = up);
        }
    }

    /// Tells what the device behind a port is like.
    pub fn set_device(&mut self, name: &str, capabilities: Capabilities, mtu: u16) {
        // A port that is not there has no device to tell of.
        let _ = self.switch.configure_device(name, |device| {
            device.capabilities = capabilities;
            device.mtu = mtu;
        });
    }

    /// Lets packets arrive at a port.
    pub fn receive(&mut self, port: PortNo, batch: &mut Batch, now: Time, trace: &mut impl Trace) {
        self.switch.receive(port, batch, now, trace);
    }

    /// Does what is due: expiry, revalidation.
    pub fn run(&mut self, now: Time, trace: &mut impl Trace) {
        self.switch.run(now, trace);
    }

    /// When [`Self::run`] next has something to do.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.switch.next_wakeup()
    }

    /// Moves what left, in order, to `into`.
    pub fn drain_tx(&mut self, trace: &mut impl Trace, into: &mut Vec<(PortNo, Box<Packet>)>) {
        self.switch.drain_tx(trace, |port, packet| into.push((port, packet)));
    }

    /// A packet to fill with a frame.
    pub fn allocate(&mut self) -> Box<Packet> {
        self.switch.allocate()
    }

    /// Takes a packet back that is not needed any more.
    pub fn recycle(&mut self, packet: Box<Packet>) {
        self.switch.recycle(packet);
    }

    /// What it counted.
    pub fn counters(&self) -> SwitchCounters {
        let counters = self.switch.datapath().counters();
        let mut drops = [0; DropReason::ALL.len()];
        for (reason, count) in counters.drops.iter() {
            drops[reason as usize] = count;
        }
        SwitchCounters {
            passes: counters.passes,
            drops,
            received: counters.received,
            made: counters.injected + counters.copies,
            sent: counters.sent,
            // Fragments that wait for the rest are in the switch as well.
            queued: counters.queued + counters.held,
        }
    }

    /// The datapath flows, in the order in which they were installed.
    pub fn flows(&self, now: Time) -> Vec<FlowInfo> {
        let flows = self.switch.datapath().flows();
        flows.iter().map(|flow| self.flow_info(&flow, now)).collect()
    }

    fn flow_info(&self, flow: &datapath::cache::FlowView<'_>, now: Time) -> FlowInfo {
        let names = |verbose| DumpOptions { verbose, names: true, masked: false };
        let short = self.switch.flow_text(flow, names(false), now);
        let masked = self.switch.flow_text(flow, DumpOptions { masked: true, ..names(false) }, now);
        let masked = masked.split_once(", packets:").map_or("", |(key, _)| key);
        // A key holds no ", packets:", and actions come last.
        let (key, rest) = short.split_once(", packets:").unwrap_or((&short, ""));
        let actions = rest.split_once("actions:").map_or("", |(_, actions)| actions);
        FlowInfo {
            in_port: Some(PortNo(flow.key().in_port)),
            key: key.to_owned(),
            masked_key: masked.to_owned(),
            actions: actions.to_owned(),
            packets: flow.stats.packets,
            bytes: flow.stats.bytes,
            used: flow.stats.used,
            line: self.switch.flow_text(flow, names(true), now),
        }
    }

    /// The connections that are not over, a line each, as `dpctl/dump-conntrack -s` prints them.
    pub fn connections(&self, now: Time) -> Vec<String> {
        let conns = self.switch.datapath().conntrack().conns(now);
        conns.into_iter().map(|conn| conn.text(false, true, now)).collect()
    }

    /// How many flows were changed, and removed for which reason.
    pub fn fates(&self) -> FateCounts {
        *self.switch.flow_life().counts()
    }

    /// What became of datapath flows, oldest first, as far as it is kept.
    pub fn past_flows(&self) -> Vec<PastFlow> {
        self.switch.flow_life().events().map(|event| self.past_flow(event)).collect()
    }

    /// The last of these.
    pub fn last_past_flows(&self, count: usize) -> Vec<PastFlow> {
        let events = self.switch.flow_life().events();
        let skipped = events.len().saturating_sub(count);
        events.skip(skipped).map(|event| self.past_flow(event)).collect()
    }

    fn past_flow(&self, event: &FlowEvent) -> PastFlow {
        let flow = self.flow_info(&event.flow.view(), event.at);
        let removed = match event.fate {
            FlowFate::Changed(_) => None,
            FlowFate::Removed { why, .. } => Some(why),
        };
        PastFlow {
            at: event.at,
            installed: event.flow.installed,
            removed,
            causes: event.changes.names().collect(),
            rule_gone: event.rule_gone,
            fate: self.switch.fate_text(event),
            after: self.switch.after_text(event),
            flow,
        }
    }

    /// What happened last to the flow with this number: its fate and its key.
    pub fn fate_of(&self, flow: FlowId) -> Option<(String, String)> {
        let event = self.switch.flow_life().last_of(flow)?;
        Some((self.switch.fate_text(event), self.flow_info(&event.flow.view(), event.at).key))
    }

    /// Tells of the changes and ends of flows that came after the first `before`.
    pub fn tell_flow_life(&self, before: u64, trace: &mut impl Trace) {
        let life = self.switch.flow_life();
        let events = life.events();
        let new = usize::try_from(life.total() - before).unwrap_or(usize::MAX).min(events.len());
        for event in events.skip(life.events().len() - new) {
            let flow = event.flow.id;
            trace.event(|| match event.fate {
                FlowFate::Changed(_) => Event::Modify { flow },
                FlowFate::Removed { why, .. } => Event::Remove { flow, why },
            });
        }
    }

    /// The datapath.
    pub fn datapath(&self) -> &Datapath {
        self.switch.datapath()
    }

    /// Key and actions of a flow, as `dpctl/dump-flows --names` prints them; none if it is gone.
    pub fn flow_text(&self, flow: FlowId) -> Option<(String, String)> {
        let info = self.flow_info(&self.switch.datapath().flows().get(flow)?, Time::ZERO);
        Some((info.key, info.actions))
    }

    /// Action number `index` of a flow; none if it is gone.
    pub fn action_text(&self, flow: FlowId, index: u16) -> Option<String> {
        let flow = self.switch.datapath().flows().get(flow)?;
        let action = flow.actions.get(usize::from(index))?;
        Some(format_actions(std::slice::from_ref(action), Some(&self.switch)).to_string())
    }

    /// About how many bytes a copy of it takes.
    pub fn memory_bytes(&self) -> usize {
        let datapath = self.switch.datapath();
        BASE_BYTES + datapath.flows().len() * FLOW_BYTES
    }
}

fn failure(error: CommandError) -> CommandFailure {
    let (word, line) = match &error {
        CommandError::Parse(error) => (Some((error.arg, error.offset)), None),
        CommandError::File { arg, line, offset, .. } => (Some((*arg, 0)), Some((*line, *offset))),
        CommandError::Refused(_) => (None, None),
    };
    CommandFailure { message: error.to_string(), understood: false, word, line }
}

/// About what an empty datapath takes: caches with their buckets.
const BASE_BYTES: usize = 2 << 20;
/// About what a datapath flow takes in the datapath and the slow path.
const FLOW_BYTES: usize = 4096;

fn vlan_config(config: &PortConfig) -> VlanConfig {
    VlanConfig {
        mode: config.vlan_mode,
        tag: config.tag.map(|tag| tag.get()),
        trunks: config.trunks.iter().map(|vlan| vlan.get()).collect(),
        cvlans: config.cvlans.iter().map(|vlan| vlan.get()).collect(),
        priority_tags: PriorityTags::default(),
        qinq_8021q: false,
    }
}
