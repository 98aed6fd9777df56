//! A datapath with its bridges, as the world sees it: the only place in `sim` that knows how a switch is driven.

use datapath::packet::{Batch, Packet};
use datapath::stats::{DropReason, PassCounters};
use datapath::trace::Trace;
use datapath::types::{PortNo, Time};

use crate::scenario::{PortConfig, SwitchConfig};

/// Why a command did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandFailure {
    /// What the tool would print.
    pub message: String,
    /// Whether the command was understood. If not, the scenario is wrong.
    pub understood: bool,
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
    ports: Vec<PortInfo>,
    counters: SwitchCounters,
    out: Vec<(PortNo, Box<Packet>)>,
}

impl SwitchNode {
    /// An empty one.
    pub fn new(_seed: u64) -> Self {
        Self { ports: Vec::new(), counters: SwitchCounters::default(), out: Vec::new() }
    }

    /// Makes the bridge that `config` declares, without its ports, rules and commands.
    ///
    /// # Errors
    /// If the datapath refuses.
    pub fn add_bridge(&mut self, _now: Time, config: &SwitchConfig) -> Result<(), String> {
        self.push(&config.name, &config.name, 0xfffe);
        Ok(())
    }

    /// Adds a port to a bridge.
    ///
    /// # Errors
    /// If the datapath refuses.
    pub fn add_port(&mut self, _now: Time, bridge: &str, config: &PortConfig) -> Result<(), String> {
        let number = config.number.unwrap_or(self.ports.len() as u16);
        self.push(bridge, &config.name, number);
        Ok(())
    }

    fn push(&mut self, bridge: &str, name: &str, of_port: u16) {
        let no = PortNo(self.ports.len() as u32);
        let (name, bridge) = (name.to_owned(), bridge.to_owned());
        self.ports.push(PortInfo { no, name, bridge, of_port, counters: PortCounters::default() });
    }

    /// Runs a command.
    ///
    /// # Errors
    /// If it is not understood, or fails.
    pub fn command(&mut self, _now: Time, argv: &[&str]) -> Result<String, CommandFailure> {
        for words in argv.split(|word| *word == "--") {
            match words {
                ["ovs-vsctl", "add-br", name, ..] | ["add-br", name, ..] => self.push(name, name, 0xfffe),
                ["ovs-vsctl", "add-port", bridge, name, ..] | ["add-port", bridge, name, ..] => {
                    self.push(bridge, name, self.ports.len() as u16);
                }
                ["ovs-fail", ..] => {
                    return Err(CommandFailure { message: "unknown command".to_owned(), understood: false });
                }
                _ => {}
            }
        }
        Ok(String::new())
    }

    /// The ports, in order of their numbers.
    pub fn ports(&self) -> Vec<PortInfo> {
        self.ports.clone()
    }

    /// Tells a port that its link went up or down.
    pub fn set_link_state(&mut self, _now: Time, _port: PortNo, _up: bool) {}

    /// Lets packets arrive at a port.
    pub fn receive(&mut self, port: PortNo, batch: &mut Batch, _now: Time, _trace: &mut impl Trace) {
        for packet in batch.drain() {
            self.counters.received += 1;
            self.counters.passes.upcall += 1;
            let others = self.ports.iter().filter(|other| other.no != port && other.of_port != 0xfffe);
            for (index, other) in others.enumerate() {
                self.counters.made += u64::from(index > 0);
                self.counters.sent += 1;
                self.out.push((other.no, packet.clone()));
            }
            if self.ports.len() < 3 {
                self.counters.drops[0] += 1;
            }
        }
    }

    /// Does what is due: expiry, revalidation.
    pub fn run(&mut self, _now: Time) {}

    /// When [`Self::run`] next has something to do.
    pub fn next_wakeup(&self) -> Option<Time> {
        None
    }

    /// Moves what left, in order, to `into`.
    pub fn drain_tx(&mut self, into: &mut Vec<(PortNo, Box<Packet>)>) {
        into.append(&mut self.out);
    }

    /// Takes a packet back that is not needed any more.
    pub fn recycle(&mut self, _packet: Box<Packet>) {}

    /// What it counted.
    pub fn counters(&self) -> SwitchCounters {
        self.counters
    }

    /// The datapath flows.
    pub fn flows(&self, _now: Time) -> Vec<FlowInfo> {
        Vec::new()
    }

    /// About how many bytes a copy of it takes.
    pub fn memory_bytes(&self) -> usize {
        1 << 16
    }
}
