//! Work for benchmarks: a datapath with two ports and synthetic traffic between them, both ways, one case for each tier.
//!
//! Owns the set-up and the loop; whoever runs it has the clock. Generation of the traffic and what a null port does (take
//! a packet, write 64 bytes of frame, give it back) are part of every loop, and all of the case `generate`.

use crate::action::exec::Packets;
use crate::action::{Action, Actions, Ct};
use crate::cache::SplitMix64;
use crate::flow::Flow;
use crate::offload::checksum;
use crate::openflow::bridge::{FailMode, VlanConfig};
use crate::packet::{BATCH, Batch, Packet};
use crate::pipeline::{Config, Datapath, FlowPut, NoUpcall, PortConfig};
use crate::switch::{BridgeSpec, Device, DeviceKind, PortSpec, Switch};
use crate::trace::Off;
use crate::types::{MacAddr, OfPort, PortNo, RecircId, Time};

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name, as given on a command line.
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    tier: Tier,
    /// 5-tuples on each port.
    flows: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// No datapath at all.
    Generate,
    Simple,
    /// One megaflow a port, every key in the EMC.
    Emc,
    /// One megaflow a port, found by signature.
    Smc,
    /// One megaflow a port, no cache.
    Dpcls,
    /// One megaflow a 5-tuple, no cache.
    Exact,
    /// One megaflow for each of so many masks, hit equally often, no cache.
    Subtables(u32),
    /// Two megaflows a port: one that tracks and commits, and one behind it; no cache.
    Conntrack,
    /// A whole switch with one bridge that learns addresses: NORMAL's megaflows, all caches as by default.
    Normal,
}

const fn case(name: &'static str, about: &'static str, tier: Tier, flows: u32) -> Case {
    Case { name, about, tier, flows }
}

/// All of them.
pub const CASES: &[Case] = &[
    case("generate", "traffic alone, without a datapath", Tier::Generate, 100),
    case("simple", "simple match", Tier::Simple, 1),
    case("simple-100", "simple match, 100 flows a port", Tier::Simple, 100),
    case("emc", "EMC, 1 flow a port", Tier::Emc, 1),
    case("emc-100", "EMC, 100 flows a port", Tier::Emc, 100),
    case("emc-4k", "EMC, 4000 flows a port", Tier::Emc, 4000),
    case("smc-100", "SMC, 100 flows a port", Tier::Smc, 100),
    case("smc-10k", "SMC, 10000 flows a port", Tier::Smc, 10_000),
    case("dpcls", "classifier, 1 megaflow a port, 1 flow", Tier::Dpcls, 1),
    case("dpcls-100", "classifier, 1 megaflow a port, 100 flows", Tier::Dpcls, 100),
    case("dpcls-10k", "classifier, 1 megaflow a port, 10000 flows", Tier::Dpcls, 10_000),
    case("exact-100", "classifier, 100 megaflows a port", Tier::Exact, 100),
    case("exact-10k", "classifier, 10000 megaflows a port", Tier::Exact, 10_000),
    case("subtables-2", "classifier, 2 subtables, hit equally often", Tier::Subtables(2), 1000),
    case("subtables-8", "classifier, 8 subtables, hit equally often", Tier::Subtables(8), 1000),
    case("subtables-32", "classifier, 32 subtables, hit equally often", Tier::Subtables(32), 1000),
    case("ct", "connection tracking, 1 known connection a port", Tier::Conntrack, 1),
    case("ct-10k", "connection tracking, 10000 known connections a port", Tier::Conntrack, 10_000),
    case("normal", "a switch that learns addresses (NORMAL), 1 pair of hosts", Tier::Normal, 1),
    case("normal-100", "a switch that learns addresses (NORMAL), 100 pairs of hosts", Tier::Normal, 100),
];

impl Case {
    /// The case of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|case| case.name == name)
    }

    /// Sets it up and sends enough traffic through for the caches to be full.
    pub fn build(&self) -> Bench {
        let config = Config {
            emc_insert_inv_prob: u32::from(self.tier == Tier::Emc),
            smc: self.tier == Tier::Smc,
            ..Config::default()
        };
        let mut datapath = Datapath::new(1, config);
        for port in [1, 2] {
            // Two different numbers below 32 bits: neither can fail.
            let _added = datapath.add_port(PortNo(port), PortConfig::default());
            for (key, mask) in self.flows(port) {
                let actions = self.actions(&key, port);
                let (key, mask) = (&key, &mask);
                let put = FlowPut {
                    key,
                    mask,
                    actions,
                    ufid: None,
                    create: true,
                    modify: false,
                    zero_stats: false,
                };
                let _flow = datapath.flow_put(put, Time::ZERO);
            }
        }
        let generators = [0, 1].map(|port| Generator::new(port, self.flows, self.tier));
        let engine = match self.tier {
            Tier::Generate => Engine::Bare(datapath),
            Tier::Normal => Engine::Switch(Box::new(learning_switch()), Vec::with_capacity(BATCH)),
            Tier::Simple
            | Tier::Emc
            | Tier::Smc
            | Tier::Dpcls
            | Tier::Exact
            | Tier::Subtables(_)
            | Tier::Conntrack => Engine::Datapath(datapath),
        };
        let mut bench = Bench { engine, generators, batch: Batch::new(), now: Time::ZERO };
        bench.run(u64::from(self.flows).clamp(100, 10_000));
        bench
    }

    /// Actions of a megaflow.
    fn actions(&self, key: &Flow, in_port: u32) -> Actions {
        if self.tier == Tier::Conntrack && key.recirc_id == 0 {
            let ct = Ct { commit: true, zone: 1, ..Ct::default() };
            return [Action::Ct(Box::new(ct)), Action::Recirc(RecircId(1))].into();
        }
        [Action::Output(PortNo(3 - in_port))].into()
    }

    /// Keys and masks of one ingress port's megaflows.
    fn flows(&self, in_port: u32) -> Vec<(Flow, Flow)> {
        let mut key = Flow { in_port, ..Flow::default() };
        key.dl_type.set(0x0800);
        let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, nw_frag: 3, ..Flow::default() };
        mask.packet_type.set(u32::MAX);
        mask.dl_type.set(u16::MAX);
        mask.vlans[0].tci.set(0x1fff);
        if self.tier != Tier::Simple {
            key.nw_proto = 17;
            mask.nw_proto = 0xff;
        }
        match self.tier {
            Tier::Generate | Tier::Normal => Vec::new(),
            Tier::Simple | Tier::Emc | Tier::Smc | Tier::Dpcls => vec![(key, mask)],
            Tier::Conntrack => vec![(key, mask), (Flow { recirc_id: 1, ..key }, mask)],
            Tier::Exact => (0..self.flows)
                .map(|id| {
                    let (src, dst, tp_src) = Generator::tuple(in_port - 1, id);
                    key.nw_src.set(src);
                    key.nw_dst.set(dst);
                    key.tp_src.set(tp_src);
                    key.tp_dst.set(5000);
                    mask.nw_src.set(u32::MAX);
                    mask.nw_dst.set(u32::MAX);
                    mask.tp_src.set(u16::MAX);
                    mask.tp_dst.set(u16::MAX);
                    (key, mask)
                })
                .collect(),
            Tier::Subtables(n) => (0..n)
                .map(|i| {
                    // Low bits of the source port choose the flow, a prefix and the TTL make its mask another one.
                    key.tp_src.set(i as u16);
                    mask.tp_src.set(n as u16 - 1);
                    key.nw_dst.set(Generator::tuple(in_port - 1, 0).1);
                    mask.nw_dst.set(u32::MAX << (24 - i % 16));
                    key.nw_ttl = 64;
                    mask.nw_ttl = if i < 16 { 0 } else { 0xff };
                    (key, mask)
                })
                .collect(),
        }
    }
}

/// A switch with one bridge and two ports, which has nothing to go by but the addresses that it learns.
fn learning_switch() -> Switch {
    let mut switch = Switch::new(1);
    let mac = |last| MacAddr([2, 0, 0, 0, 1, last]);
    let (fail_mode, vlan) = (FailMode::Standalone, VlanConfig::default());
    let spec = BridgeSpec { name: "br0".to_owned(), fail_mode, mac: mac(0), vlan: vlan.clone() };
    // Names and numbers that nothing else has: this cannot fail.
    if let Ok(bridge) = switch.add_bridge(&spec, Time::ZERO) {
        for n in [1, 2] {
            let device = Device::new(&format!("p{n}"), DeviceKind::Dummy, mac(n));
            let (of_port, vlan) = (Some(OfPort(u16::from(n))), vlan.clone());
            let spec = PortSpec { of_port, vlan, ..PortSpec::new(device) };
            let _added = switch.add_port(bridge, &spec);
        }
    }
    switch
}

/// What packets go through.
#[derive(Debug)]
enum Engine {
    /// Nothing: they are given back.
    Bare(Datapath),
    /// A datapath with flows.
    Datapath(Datapath),
    /// A switch; and a place for the packets that it sent, to be given back.
    Switch(Box<Switch>, Packets),
}

/// A case, ready to run.
#[derive(Debug)]
pub struct Bench {
    engine: Engine,
    generators: [Generator; 2],
    batch: Batch,
    now: Time,
}

impl Bench {
    /// Receives, processes and sends `batches` full batches, from one port and the other in turn. Returns how many packets
    /// that were.
    pub fn run(&mut self, batches: u64) -> u64 {
        for turn in 0..batches {
            let port = (turn & 1) as u32;
            let generator = &mut self.generators[port as usize & 1];
            let (batch, in_port) = (&mut self.batch, PortNo(1 + port));
            // A full batch in so many nanoseconds: about what a fast port delivers.
            self.now.0 += 1000;
            match &mut self.engine {
                Engine::Bare(datapath) => {
                    generator.fill(|| datapath.allocate(), batch);
                    batch.drain().for_each(|packet| datapath.recycle(packet));
                }
                Engine::Datapath(datapath) => {
                    generator.fill(|| datapath.allocate(), batch);
                    datapath.process(in_port, batch, self.now, &mut NoUpcall, &mut Off);
                    datapath.drain_tx(&mut Off, |_, _| {});
                }
                Engine::Switch(switch, sent) => {
                    generator.fill(|| switch.allocate(), batch);
                    switch.receive(in_port, batch, self.now, &mut Off);
                    switch.drain_tx(&mut Off, |_, packet| sent.push(packet));
                    sent.drain(..).for_each(|packet| switch.recycle(packet));
                }
            }
        }
        batches * BATCH as u64
    }

    /// The datapath, to look at its counters.
    pub fn datapath(&self) -> &Datapath {
        match &self.engine {
            Engine::Bare(datapath) | Engine::Datapath(datapath) => datapath,
            Engine::Switch(switch, _) => switch.datapath(),
        }
    }
}

/// 64-byte UDP frames of many 5-tuples, in random order.
#[derive(Debug)]
struct Generator {
    port: u32,
    flows: u32,
    /// Whether each flow is a pair of hosts of its own, which talks both ways.
    pairs: bool,
    /// Whether IPv4 headers have their checksum, which connection tracking looks at.
    checksum: bool,
    template: [u8; 64],
    random: SplitMix64,
}

impl Generator {
    fn new(port: u32, flows: u32, tier: Tier) -> Self {
        let (pairs, checksum) = (tier == Tier::Normal, tier == Tier::Conntrack);
        let mut template = [0; 64];
        template[..14].copy_from_slice(&[2, 0, 0, 0, 0, port as u8 ^ 1, 2, 0, 0, 0, 0, port as u8, 8, 0]);
        template[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
        template[36..40].copy_from_slice(&[0x13, 0x88, 0, 30]);
        Self {
            port,
            flows,
            pairs,
            checksum,
            template,
            random: SplitMix64::named(u64::from(port), "generator"),
        }
    }

    /// Source and destination address, source port.
    fn tuple(port: u32, id: u32) -> (u32, u32, u16) {
        (0x0a00_0000 | (id & 0xffff), 0x0b00_0000 | (port << 20) | (id >> 16), 1000 + (id & 0xfff) as u16)
    }

    fn fill(&mut self, mut allocate: impl FnMut() -> Box<Packet>, batch: &mut Batch) {
        for _ in 0..BATCH {
            let id = (u64::from(self.random.next_u32()) * u64::from(self.flows)) >> 32;
            let (src, dst, tp_src) = Self::tuple(self.port, id as u32);
            let mut packet = allocate();
            packet.set_frame(&self.template);
            if let Some(frame) = packet.data_mut().first_chunk_mut::<64>() {
                frame[26..30].copy_from_slice(&src.to_be_bytes());
                frame[30..34].copy_from_slice(&dst.to_be_bytes());
                frame[34..36].copy_from_slice(&tp_src.to_be_bytes());
                if self.checksum {
                    let sum = checksum::internet(&frame[14..34]);
                    frame[24..26].copy_from_slice(&sum);
                }
                if self.pairs {
                    frame[4] = id as u8;
                    frame[10] = id as u8;
                }
            }
            // The batch is empty, and takes as many as are made here.
            let _full = batch.push(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_measures_what_it_says() {
        for case in CASES {
            let mut bench = case.build();
            let before = *bench.datapath().counters();
            assert_eq!(bench.run(200), 6400);
            let after = *bench.datapath().counters();
            assert!(after.balanced());
            let passes =
                |tier: fn(&crate::stats::PassCounters) -> u64| tier(&after.passes) - tier(&before.passes);
            let expected = if case.tier == Tier::Generate { 0 } else { 6400 };
            assert_eq!(after.sent - before.sent, expected, "{}", case.name);
            let by_tier = match case.tier {
                Tier::Generate => 0,
                Tier::Normal => passes(|passes| passes.emc + passes.megaflow),
                Tier::Simple => passes(|passes| passes.simple),
                Tier::Emc => passes(|passes| passes.emc),
                Tier::Smc => passes(|passes| passes.smc),
                Tier::Dpcls | Tier::Exact | Tier::Subtables(_) => passes(|passes| passes.megaflow),
                // Twice each packet.
                Tier::Conntrack => passes(|passes| passes.megaflow) / 2,
            };
            // Keys fight for places in the caches; 8000 of them for 8192 often.
            let share = if case.flows == 4000 { 7 } else { 9 };
            assert!(by_tier * 10 >= expected * share, "{}: {by_tier} of {expected}", case.name);
            if let Tier::Subtables(n) = case.tier {
                let lookups = (after.masked_lookups - before.masked_lookups) as f64 / 6400.0;
                let uniform = f64::from(n + 1) / 2.0;
                assert!((lookups / uniform - 1.0).abs() < 0.1, "{}: {lookups} probes a packet", case.name);
            }
        }
    }
}
