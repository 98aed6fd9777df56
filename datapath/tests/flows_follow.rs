//! After any changes and packets, each datapath flow is what translating a packet of it afresh gives: the packet that made it, and
//! any other that it matches.

#![allow(clippy::unwrap_used, reason = "tests")]

use datapath::flow::{ExtractConfig, Flow};
use datapath::openflow::ofproto::TraceInput;
use datapath::packet::{Batch, Packet};
use datapath::switch::{DumpOptions, Switch};
use datapath::trace::Off;
use datapath::types::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const PORTS: usize = 4;

/// Rules, of which some are there at a time.
const RULES: [&str; 22] = [
    "table=0,priority=0,actions=NORMAL",
    "table=0,priority=10,in_port=1,actions=resubmit(,1)",
    "table=0,priority=10,in_port=2,ip,actions=ct(table=1,zone=3)",
    "table=0,priority=20,ip,nw_dst=10.0.1.0/24,actions=group:1",
    "table=0,priority=20,arp,actions=FLOOD",
    "table=0,priority=30,ip,nw_dst=10.0.1.2,actions=meter:1,2",
    "table=0,priority=30,tcp,tp_dst=80,actions=set_field:10.9.9.9->ip_dst,dec_ttl,resubmit(,1)",
    "table=0,priority=40,udp,tp_dst=53,actions=mod_vlan_vid:5,output:3",
    "table=0,priority=40,dl_vlan=10,actions=strip_vlan,resubmit(,2)",
    "table=0,priority=50,dl_src=02:00:00:00:00:03,actions=drop",
    "table=0,priority=15,nw_src=10.0.0.0/255.255.255.254,ip,actions=load:1->NXM_NX_REG0[],resubmit(,2)",
    "table=1,priority=0,actions=2,3",
    "table=1,priority=10,ct_state=+trk+new,ip,actions=ct(commit,zone=3),1",
    "table=1,priority=10,ct_state=+trk+est,ip,actions=1",
    "table=1,priority=20,ip,nw_src=10.0.2.0/24,actions=drop",
    "table=1,priority=20,udp,actions=group:2",
    "table=1,priority=5,tcp,tp_src=1024/0xfc00,actions=4",
    "table=2,priority=0,actions=NORMAL",
    "table=2,priority=10,reg0=1,actions=output:4,resubmit(,1)",
    "table=2,priority=20,ip,nw_tos=32,actions=mod_nw_tos:0,3",
    "table=0,priority=60,ip,nw_frag=later,actions=4",
    "table=2,priority=30,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=FLOOD",
];
const GROUPS: [&str; 4] = [
    "group_id=1,type=select,selection_method=dp_hash,bucket=output:2,bucket=output:3",
    "group_id=1,type=all,bucket=output:2,bucket=set_field:02:00:00:00:00:09->eth_dst,output:3",
    "group_id=2,type=indirect,bucket=output:4",
    "group_id=2,type=fast_failover,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2",
];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Packet(Sent),
    AddRule(usize),
    DelRule(usize),
    SetGroup(usize),
    DelGroup(u8),
    Meter(bool),
    /// A port is put into another VLAN, or into none.
    Tag(usize, u16),
    /// A port goes up or down.
    Link(usize, bool),
    /// A port goes and comes.
    Port(usize),
    Forget,
    Wait(u16),
}

/// A packet.
#[derive(Clone, Debug)]
struct Sent {
    port: usize,
    macs: (u8, u8),
    vlan: Option<u16>,
    kind: u8,
    addresses: (u8, u8),
    ports: (u16, u16),
    tos: u8,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let dst = if self.macs.1 == 0 { [0xff; 6] } else { [2, 0, 0, 0, 0, self.macs.1] };
        let mut frame = dst.to_vec();
        frame.extend([2, 0, 0, 0, 0, self.macs.0]);
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0, (vlan >> 8) as u8, vlan as u8]);
        }
        let address = |n: u8| [10, 0, n / 4, n % 4];
        if self.kind == 0 {
            frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, self.macs.0]);
            frame
                .extend(address(self.addresses.0).into_iter().chain([0; 6]).chain(address(self.addresses.1)));
            return frame;
        }
        let (proto, more) = [(6, 0), (17, 0), (1, 0), (17, 0x2000), (17, 0x0005)][usize::from(self.kind) - 1];
        let mut ip = vec![0x45, self.tos, 0, 40, 0, 1, (more >> 8) as u8, more as u8, 64, proto, 0, 0];
        ip.extend(address(self.addresses.0).into_iter().chain(address(self.addresses.1)));
        let sum = datapath::offload::checksum::internet(&ip);
        ip[10..12].copy_from_slice(&sum);
        let mut l4: Vec<u8> =
            self.ports.0.to_be_bytes().into_iter().chain(self.ports.1.to_be_bytes()).collect();
        match self.kind {
            1 => l4.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]),
            3 => l4.splice(.., [8, 0, 0, 0, 0, 1, 0, 1]).for_each(drop),
            _ => l4.extend([0, 20, 0, 0]),
        }
        l4.resize(20, 0);
        frame.extend([8, 0]);
        frame.extend(ip.into_iter().chain(l4));
        frame
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let vlan = prop_oneof![3 => Just(None), 1 => Just(Some(10)), 1 => Just(Some(5))];
    let ports =
        (prop_oneof![Just(1000_u16), Just(1030), Just(5000)], prop_oneof![Just(53_u16), Just(80), Just(443)]);
    let tos = prop_oneof![3 => Just(0_u8), 1 => Just(32)];
    let macs = (1_u8..5, 0_u8..5);
    (1..=PORTS, macs, vlan, 0_u8..6, (0_u8..12, 0_u8..12), ports, tos).prop_map(
        |(port, macs, vlan, kind, addresses, ports, tos)| Sent {
            port,
            macs,
            vlan,
            kind,
            addresses,
            ports,
            tos,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => sent().prop_map(Step::Packet),
        6 => (0..RULES.len()).prop_map(Step::AddRule),
        3 => (0..RULES.len()).prop_map(Step::DelRule),
        2 => (0..GROUPS.len()).prop_map(Step::SetGroup),
        1 => (1_u8..3).prop_map(Step::DelGroup),
        1 => any::<bool>().prop_map(Step::Meter),
        1 => (1..=PORTS, prop_oneof![Just(0_u16), Just(5), Just(10)]).prop_map(|(port, tag)| Step::Tag(port, tag)),
        1 => (1..=PORTS, any::<bool>()).prop_map(|(port, up)| Step::Link(port, up)),
        1 => (1..=PORTS).prop_map(Step::Port),
        1 => Just(Step::Forget),
        1 => (1_u16..12_000).prop_map(Step::Wait),
    ]
}

struct World {
    switch: Switch,
    now: Time,
}

impl World {
    fn new() -> Self {
        let mut world = Self { switch: Switch::new(1), now: Time::ZERO };
        world.ok("ovs-vsctl add-br br0 -- set-fail-mode br0 secure");
        (1..=PORTS).for_each(|port| world.add_port(port));
        for group in [GROUPS[0], GROUPS[2]] {
            world.ok(&format!("ovs-ofctl -O OpenFlow15 add-group br0 {group}"));
        }
        for rule in [0, 1, 3, 11, 17] {
            world.ok(&format!("ovs-ofctl -O OpenFlow15 add-flow br0 {}", RULES[rule]));
        }
        world
    }

    /// Runs a command; some are refused, such as a rule for a group that is not there.
    fn run(&mut self, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        self.switch.command(self.now, &words).map_err(|error| error.to_string())
    }

    fn ok(&mut self, line: &str) {
        self.run(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    fn add_port(&mut self, port: usize) {
        self.ok(&format!(
            "ovs-vsctl add-port br0 p{port} -- set Interface p{port} type=dummy ofport_request={port}"
        ));
    }

    fn key(&self, sent: &Sent) -> Option<Flow> {
        let port = self.switch.port_named(&format!("p{}", sent.port))?.no?;
        let mut packet = Packet::from_frame(&sent.frame());
        packet.md.init(port);
        let vlan_limit = self.switch.datapath().config().vlan_limit;
        Some(Flow::of_packet_with(&mut packet, ExtractConfig { vlan_limit }))
    }

    fn send(&mut self, sent: &Sent) {
        let Some(port) = self.switch.port_named(&format!("p{}", sent.port)).and_then(|port| port.no) else {
            return;
        };
        let mut packet = self.switch.allocate();
        packet.set_frame(&sent.frame());
        let mut batch = Batch::new();
        batch.push(packet).unwrap();
        self.switch.receive(port, &mut batch, self.now, &mut Off);
        let mut out = Vec::new();
        self.switch.drain_tx(&mut Off, |_, packet| out.push(packet));
        out.into_iter().for_each(|packet| self.switch.recycle(packet));
    }

    fn take(&mut self, step: &Step) {
        let line = match step {
            Step::Packet(sent) => return self.send(sent),
            Step::Wait(ms) => {
                self.now += Span::from_millis((*ms).into());
                self.switch.run(self.now, &mut Off);
                return;
            }
            Step::Port(port) => {
                self.ok(&format!("ovs-vsctl del-port p{port}"));
                return self.add_port(*port);
            }
            Step::AddRule(rule) => format!("ovs-ofctl -O OpenFlow15 add-flow br0 {}", RULES[*rule]),
            Step::DelRule(rule) => {
                let (matching, _) = RULES[*rule].split_once(",actions=").unwrap();
                format!("ovs-ofctl -O OpenFlow15 --strict del-flows br0 {matching}")
            }
            Step::SetGroup(group) => {
                format!("ovs-ofctl -O OpenFlow15 --may-create mod-group br0 {}", GROUPS[*group])
            }
            Step::DelGroup(group) => format!("ovs-ofctl -O OpenFlow15 del-groups br0 group_id={group}"),
            Step::Meter(true) => {
                "ovs-ofctl -O OpenFlow15 add-meter br0 meter=1,pktps,bands=type=drop,rate=10".to_owned()
            }
            Step::Meter(false) => "ovs-ofctl -O OpenFlow15 del-meter br0 meter=1".to_owned(),
            Step::Tag(port, 0) => format!("ovs-vsctl clear Port p{port} tag"),
            Step::Tag(port, tag) => format!("ovs-vsctl set Port p{port} tag={tag}"),
            Step::Link(port, up) => {
                format!("ovs-appctl netdev-dummy/set-admin-state p{port} {}", if *up { "up" } else { "down" })
            }
            Step::Forget => "ovs-appctl fdb/flush br0".to_owned(),
        };
        let _may_be_refused = self.run(&line);
    }

    /// Actions that translating this key afresh gives, changing nothing; `None` if its recirculation is over.
    fn afresh(&self, key: &Flow) -> Option<String> {
        let input = TraceInput { names: true, ..TraceInput::of(key) };
        match self.switch.clone().ofproto_mut().trace(&input, self.now) {
            Ok(traced) => {
                // Those of the first pass, which is the flow's.
                let mut lines = traced.text.lines();
                let found = lines.find_map(|line| line.strip_prefix("Datapath actions: "));
                found.map(without_ids)
            }
            Err(error) => {
                // Then no packet can come to it.
                let id = format!("recirc({:#x})", key.recirc_id);
                let options = DumpOptions::default();
                let to_it = self.switch.flow_lines(options, self.now).any(|line| line.contains(&id));
                assert!(key.recirc_id != 0 && !to_it, "{error}");
                None
            }
        }
    }

    /// Whether each flow is right for the packet that made it, and for those of `packets` that it matches.
    fn check(&mut self, packets: &[Sent]) -> Result<usize, TestCaseError> {
        self.switch.settle(self.now, &mut Off);
        let options = DumpOptions { names: true, ..DumpOptions::default() };
        let text = |flow: &datapath::cache::FlowView<'_>| {
            let text = self.switch.flow_text(flow, options, self.now);
            let actions = text.split_once("actions:").unwrap().1.to_owned();
            (text, without_ids(&actions))
        };
        let mut checked = 0;
        for flow in self.switch.datapath().flows().iter() {
            let (line, actions) = text(&flow);
            if !actions.starts_with("userspace(")
                && let Some(afresh) = self.afresh(&flow.key())
            {
                prop_assert_eq!(&actions, &afresh, "{}", line);
                checked += 1;
            }
        }
        for sent in packets {
            let Some(key) = self.key(sent) else { continue };
            let Some(flow) =
                self.switch.find_flow(&key).and_then(|id| self.switch.datapath().flows().get(id))
            else {
                continue;
            };
            let (line, actions) = text(&flow);
            if !actions.starts_with("userspace(") {
                prop_assert_eq!(
                    &actions,
                    &self.afresh(&key).unwrap_or_default(),
                    "{:?} meets {}",
                    sent,
                    line
                );
                checked += 1;
            }
        }
        Ok(checked)
    }
}

/// Without numbers of recirculations: a trace takes its own.
fn without_ids(actions: &str) -> String {
    let mut parts = actions.split("recirc(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("recirc(R");
        out.push_str(part.trim_start_matches(|c: char| c != ')'));
    }
    out
}

/// The same each time; more of them with `RECIRC_CASES`.
#[test]
fn each_flow_is_what_translating_afresh_gives() {
    let cases = std::env::var("RECIRC_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let checked = std::cell::Cell::new(0);
    let strategy = (prop::collection::vec(step(), 1..60), prop::collection::vec(sent(), 20));
    let result = runner.run(&strategy, |(steps, others)| {
        let mut world = World::new();
        let mut packets = others;
        for (index, step) in steps.iter().enumerate() {
            world.take(step);
            if let Step::Packet(sent) = step {
                packets.push(sent.clone());
            }
            if index % 8 == 7 {
                checked.set(checked.get() + world.check(&packets)?);
            }
        }
        checked.set(checked.get() + world.check(&packets)?);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(checked.get() > 20 * cases as usize, "only {} flows were looked at", checked.get());
}
