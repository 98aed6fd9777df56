//! Text of what happens to packets: the one renderer that the terminal user interface, reports and failing tests share.
//!
//! Events hold ids; names come from a [`Names`]. Text is made when it is looked at, never before.

use std::borrow::Cow;

use datapath::offload::Offloads;
use datapath::stats::DropReason;
use datapath::trace::{ConnSeen, Event, FlowId, OffloadWhy, Tier};
use datapath::types::{PortNo, Span};

use crate::link::Fate;
use crate::node::switch::{PortInfo, SwitchNode};
use crate::quantity::show_time;
use crate::record::{Happening, WorldEvent};
use crate::scenario::StepAction;
use crate::world::World;

/// One line about anything that happened in a world, without where and when.
pub fn happening(what: &Happening, world: &World) -> String {
    match what {
        Happening::Datapath { switch, event: what } => match world.switches().nth(*switch) {
            Some(node) => event(what, &NodeNames { node, ports: node.ports() }),
            None => format!("{what:?}"),
        },
        Happening::World(event) => world_event(event, world),
    }
}

/// Where something happened: the name of the datapath's first bridge; none outside datapaths.
pub fn place(what: &Happening, world: &World) -> Option<String> {
    match what {
        Happening::Datapath { switch, .. } => {
            let mut bridges = world.bridges().into_iter().filter(|(_, index)| index == switch);
            Some(bridges.next().map_or_else(|| format!("datapath {switch}"), |(name, _)| name))
        }
        Happening::World(_) => None,
    }
}

fn world_event(event: &WorldEvent, world: &World) -> String {
    let host = |host: usize| world.hosts().get(host).map_or("a host", |host| host.name());
    match *event {
        WorldEvent::Step { step } => match world.scenario().steps.get(step) {
            Some(config) => format!("step {step}: {}{}", config.action.kind(), step_detail(&config.action)),
            None => format!("step {step}"),
        },
        WorldEvent::Typed { command } => match world.typed().get(command) {
            Some(line) => format!("typed: {line}"),
            None => "a command was typed".to_owned(),
        },
        WorldEvent::HostSent { host: index } => format!("{} sends a frame", host(index)),
        WorldEvent::HostReceived { host: index } => format!("{} receives a frame", host(index)),
        WorldEvent::Link { link, direction, fate } => {
            let ends = world.links().get(link).map(|link| &link.ends);
            let way = ends.map_or_else(
                || "a link".to_owned(),
                |ends| {
                    let (from, to) = if direction == 0 { (&ends[0], &ends[1]) } else { (&ends[1], &ends[0]) };
                    format!("link {from} -> {to}")
                },
            );
            match fate {
                Fate::Arrives { at, twice } => {
                    let copy = if twice { ", twice" } else { "" };
                    format!("{way}: arrives at {}{copy}", show_time(Span(at.0)))
                }
                Fate::Dropped(reason) => format!("{way}: lost, {}", reason.name()),
            }
        }
    }
}

/// What a step is about, in a few words.
fn step_detail(action: &StepAction) -> String {
    match action {
        StepAction::Send(send) => format!(" at {}", send.place),
        StepAction::Replay(replay) => format!(" {}", replay.pcap.display()),
        StepAction::Ovs(block) => {
            block.lines.first().map_or_else(String::new, |line| match block.lines.len() {
                1 => format!(" {}", line.text),
                more => format!(" {} and {} more", line.text, more - 1),
            })
        }
        StepAction::Ping(ping) => format!(" from {} to {}", ping.from, ping.to),
        StepAction::Udp(udp) => format!(" from {} to {}, port {}", udp.from, udp.to, udp.port),
        StepAction::Tcp(tcp) => format!(" from {} to {}, port {}", tcp.from, tcp.to, tcp.port),
        StepAction::Link(_) => String::new(),
        StepAction::Expect(expect) => format!(" at {}", expect.at),
        StepAction::ExpectFlow(expect) => format!(" in {}", expect.switch),
        StepAction::ExpectCounters(expect) => format!(" of {}", expect.switch),
        StepAction::ExpectGolden(expect) => format!(" at {}", expect.at),
    }
}

/// Names of one datapath.
struct NodeNames<'a> {
    node: &'a SwitchNode,
    ports: Vec<PortInfo>,
}

impl Names for NodeNames<'_> {
    fn port(&self, port: PortNo) -> Cow<'_, str> {
        let found = self.ports.iter().find(|one| one.no == port);
        found.map_or_else(|| port.to_string().into(), |port| port.name.as_str().into())
    }

    fn flow(&self, flow: FlowId) -> Option<(String, String)> {
        self.node.flow_text(flow)
    }

    fn fate(&self, flow: FlowId) -> Option<(String, String)> {
        self.node.fate_of(flow)
    }

    fn action(&self, flow: FlowId, index: u16) -> Option<String> {
        self.node.action_text(flow, index)
    }
}

/// Names of what events mention by id.
pub trait Names {
    /// A port; its number if it has no name any more.
    fn port(&self, port: PortNo) -> Cow<'_, str>;

    /// Key and actions of a flow, if it is still there.
    fn flow(&self, flow: FlowId) -> Option<(String, String)>;

    /// What happened last to a flow, and its key, if that is known.
    fn fate(&self, flow: FlowId) -> Option<(String, String)>;

    /// Action number `index` of a flow, if it is still there.
    fn action(&self, flow: FlowId, index: u16) -> Option<String>;
}

/// One line about an event of a datapath, without the packet and the time.
pub fn event(event: &Event, names: &dyn Names) -> String {
    match *event {
        Event::Rx { port, len, offloads, .. } => {
            format!("received on {}, {len} bytes{}", names.port(port), behind(offloads))
        }
        Event::Lookup { tier, hit: Some(flow), subtables, .. } => {
            let probed =
                if tier == Tier::Megaflow { format!(", {}", count(subtables)) } else { String::new() };
            format!("{} hit: flow {}{probed}", self::tier(tier), flow.0)
        }
        Event::Lookup { tier, hit: None, subtables, .. } => {
            let probed =
                if tier == Tier::Megaflow { format!(", {}", count(subtables)) } else { String::new() };
            format!("{} miss{probed}", self::tier(tier))
        }
        Event::Upcall { .. } => "upcall to the slow path".to_owned(),
        Event::Install { flow, .. } => match names.flow(flow) {
            Some((key, actions)) => format!("flow {} installed: {key} actions:{actions}", flow.0),
            None => format!("flow {} installed", flow.0),
        },
        Event::Modify { flow } => match names.flow(flow) {
            Some((key, actions)) => format!("flow {} changed: {key} actions:{actions}", flow.0),
            None => format!("flow {} changed", flow.0),
        },
        Event::Remove { flow, why } => match names.fate(flow) {
            Some((fate, key)) => format!("flow {} {fate}: {key}", flow.0),
            None => format!("flow {} removed, {}: {}", flow.0, why.name(), why.meaning()),
        },
        Event::Conntrack { zone, state, seen, .. } => {
            let zone = if zone == 0 { String::new() } else { format!(" in zone {zone}") };
            format!("tracked{zone}: {}, {}", ct_state(state), self::seen(seen))
        }
        Event::Expire { connections: 1 } => "1 connection removed, its time is over".to_owned(),
        Event::Expire { connections } => format!("{connections} connections removed, their time is over"),
        Event::Action { flow, word, index, depth, .. } => {
            let text = flow.filter(|_| depth == 0).and_then(|flow| names.action(flow, index));
            let nested = if depth > 0 { format!(" at depth {depth}") } else { String::new() };
            text.map_or_else(|| format!("action: {word}{nested}"), |text| format!("action: {text}"))
        }
        Event::OffloadChange { before, after, why, .. } => {
            format!("offload {}: {} -> {}", self::why(why), offloads(before), offloads(after))
        }
        Event::Copy { copy, .. } => format!("copied as #{}", copy.0),
        Event::Recirc { id, depth, .. } => format!("recirculated with id {:#x}, depth {depth}", id.0),
        Event::Drop { reason, .. } => format!("dropped: {}, {}", reason.name(), drop(reason)),
        Event::Tx { port, len, offloads, .. } => {
            format!("sent on {}, {len} bytes{}", names.port(port), behind(offloads))
        }
    }
}

fn count(subtables: u16) -> String {
    if subtables == 1 { "1 subtable".to_owned() } else { format!("{subtables} subtables") }
}

fn behind(flags: Offloads) -> String {
    if flags.is_empty() { String::new() } else { format!(", {}", offloads(flags)) }
}

/// The name of a cache tier, as people of the field write it.
pub const fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Simple => "simple match",
        Tier::Emc => "EMC",
        Tier::Smc => "SMC",
        Tier::Megaflow => "dpcls",
    }
}

/// A `ct_state`, as rules write it: `+new+trk`.
pub fn ct_state(state: u8) -> String {
    let names = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
    let set = names.iter().enumerate().filter(|(bit, _)| state & 1 << bit != 0);
    set.map(|(_, name)| format!("+{name}")).collect()
}

/// What connection tracking found, in a few words.
pub const fn seen(seen: ConnSeen) -> &'static str {
    match seen {
        ConnSeen::None => "no connection",
        ConnSeen::Expired => "its connection is over",
        ConnSeen::Found => "connection found",
        ConnSeen::Begun => "connection begun",
        ConnSeen::Renewed => "connection begun, an earlier one is over",
    }
}

/// Why offload flags changed, in a word.
pub const fn why(why: OffloadWhy) -> &'static str {
    match why {
        OffloadWhy::Received => "as received",
        OffloadWhy::Extracted => "known by extraction",
        OffloadWhy::Rewritten => "by a rewrite",
        OffloadWhy::Encapsulated => "by encapsulation",
        OffloadWhy::Decapsulated => "by decapsulation",
        OffloadWhy::Verified => "verified",
        OffloadWhy::Prepared => "finished in software for the port",
        OffloadWhy::Segmented => "by segmentation",
    }
}

/// What a reason for dropping means.
pub const fn drop(reason: DropReason) -> &'static str {
    match reason {
        DropReason::ActionDrop => "the flow has no actions",
        DropReason::UpcallLost => "the slow path had no room",
        DropReason::UpcallError => "the slow path could not decide",
        DropReason::RecircDepth => "recirculated too often",
        DropReason::ActionDepth => "actions nested too deep",
        DropReason::NoPort => "no such port",
        DropReason::PortDown => "the port is down",
        DropReason::TooBig => "longer than the port's MTU",
        DropReason::TooShort => "shorter than an Ethernet header",
        DropReason::Meter => "over a meter's rate",
        DropReason::TunnelDecap => "bad tunnel header",
        DropReason::TunnelEncap => "cannot be encapsulated",
        DropReason::Explicit => "a drop action says so",
        DropReason::BadAction => "an action for a header that it does not have",
        DropReason::Conntrack => "refused by connection tracking",
        DropReason::Consumed => "taken by the slow path, nothing else was to be done",
        DropReason::NotSampled => "not sampled, nothing else was to be done",
        DropReason::PacketType => "not an Ethernet frame",
    }
}

/// Offload flags as words, each checksum with its state, outer first: `ip=good l4=partial tcp`. What is unknown is left
/// out; all unknown is `none`.
pub fn offloads(flags: Offloads) -> String {
    let mut words: Vec<String> = Vec::new();
    for (name, good, bad) in [
        ("ip", Offloads::IP_GOOD, Offloads::IP_BAD),
        ("l4", Offloads::L4_GOOD, Offloads::L4_BAD),
        ("inner-ip", Offloads::INNER_IP_GOOD, Offloads::INNER_IP_BAD),
        ("inner-l4", Offloads::INNER_L4_GOOD, Offloads::INNER_L4_BAD),
    ] {
        match (flags.contains(good), flags.contains(bad)) {
            (false, false) => {}
            (true, false) => words.push(format!("{name}=good")),
            (false, true) => words.push(format!("{name}=bad")),
            (true, true) => words.push(format!("{name}=partial")),
        }
    }
    for (flag, name) in [
        (Offloads::L4_TCP, "tcp"),
        (Offloads::L4_UDP, "udp"),
        (Offloads::L4_SCTP, "sctp"),
        (Offloads::TUNNEL_VXLAN, "vxlan"),
        (Offloads::TUNNEL_GENEVE, "geneve"),
        (Offloads::TUNNEL_GRE, "gre"),
        (Offloads::INNER_L4_TCP, "inner-tcp"),
        (Offloads::INNER_L4_UDP, "inner-udp"),
        (Offloads::INNER_L4_SCTP, "inner-sctp"),
    ] {
        if flags.contains(flag) {
            words.push(name.to_owned());
        }
    }
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use datapath::trace::{PacketId, RemoveWhy};
    use datapath::types::RecircId;

    use super::*;

    struct Two;

    impl Names for Two {
        fn port(&self, port: PortNo) -> Cow<'_, str> {
            if port.0 == 1 { "p1".into() } else { port.to_string().into() }
        }

        fn flow(&self, flow: FlowId) -> Option<(String, String)> {
            (flow.0 == 3).then(|| ("in_port(p1)".into(), "push_vlan(vid=1,pcp=0),2".into()))
        }

        fn fate(&self, flow: FlowId) -> Option<(String, String)> {
            (flow.0 == 3).then(|| ("removed, idle: no packet used it".into(), "in_port(p1)".into()))
        }

        fn action(&self, flow: FlowId, index: u16) -> Option<String> {
            (flow.0 == 3 && index == 0).then(|| "push_vlan(vid=1,pcp=0)".into())
        }
    }

    #[test]
    fn events_are_told_in_one_line() {
        let packet = PacketId(7);
        let good = Offloads::IP_GOOD | Offloads::L4_PARTIAL | Offloads::L4_TCP;
        let none = Offloads::empty();
        let table = [
            (Event::Rx { packet, port: PortNo(1), len: 64, offloads: none }, "received on p1, 64 bytes"),
            (
                Event::Tx { packet, port: PortNo(9), len: 64, offloads: good },
                "sent on 9, 64 bytes, ip=good l4=partial tcp",
            ),
            (
                Event::Lookup { packet, tier: Tier::Megaflow, hit: Some(FlowId(3)), subtables: 1 },
                "dpcls hit: flow 3, 1 subtable",
            ),
            (
                Event::Lookup { packet, tier: Tier::Megaflow, hit: None, subtables: 0 },
                "dpcls miss, 0 subtables",
            ),
            (Event::Lookup { packet, tier: Tier::Emc, hit: None, subtables: 0 }, "EMC miss"),
            (
                Event::Install { packet, flow: FlowId(3) },
                "flow 3 installed: in_port(p1) actions:push_vlan(vid=1,pcp=0),2",
            ),
            (Event::Install { packet, flow: FlowId(4) }, "flow 4 installed"),
            (Event::Modify { flow: FlowId(4) }, "flow 4 changed"),
            (
                Event::Modify { flow: FlowId(3) },
                "flow 3 changed: in_port(p1) actions:push_vlan(vid=1,pcp=0),2",
            ),
            (
                Event::Remove { flow: FlowId(3), why: RemoveWhy::Idle },
                "flow 3 removed, idle: no packet used it: in_port(p1)",
            ),
            (
                Event::Remove { flow: FlowId(4), why: RemoveWhy::Purged },
                "flow 4 removed, purged: all flows were removed",
            ),
            (
                Event::Conntrack { packet, zone: 5, state: 0xa3, seen: ConnSeen::Begun },
                "tracked in zone 5: +new+est+trk+dnat, connection begun",
            ),
            (
                Event::Conntrack { packet, zone: 0, state: 0x30, seen: ConnSeen::Expired },
                "tracked: +inv+trk, its connection is over",
            ),
            (Event::Expire { connections: 1 }, "1 connection removed, its time is over"),
            (Event::Expire { connections: 2 }, "2 connections removed, their time is over"),
            (
                Event::Action { packet, flow: Some(FlowId(3)), word: "push_vlan", index: 0, depth: 0 },
                "action: push_vlan(vid=1,pcp=0)",
            ),
            (
                Event::Action { packet, flow: Some(FlowId(3)), word: "output", index: 1, depth: 0 },
                "action: output",
            ),
            (Event::Action { packet, flow: None, word: "set", index: 0, depth: 2 }, "action: set at depth 2"),
            (
                Event::OffloadChange { packet, before: good, after: none, why: OffloadWhy::Prepared },
                "offload finished in software for the port: ip=good l4=partial tcp -> none",
            ),
            (Event::Recirc { packet, id: RecircId(0x1f), depth: 2 }, "recirculated with id 0x1f, depth 2"),
            (
                Event::Drop { packet, reason: DropReason::TooBig },
                "dropped: too-big, longer than the port's MTU",
            ),
        ];
        for (what, text) in table {
            assert_eq!(event(&what, &Two), text);
        }
    }

    #[test]
    fn offload_words() {
        assert_eq!(offloads(Offloads::empty()), "none");
        assert_eq!(
            offloads(
                Offloads::IP_PARTIAL
                    | Offloads::INNER_L4_BAD
                    | Offloads::TUNNEL_VXLAN
                    | Offloads::INNER_L4_UDP
            ),
            "ip=partial inner-l4=bad vxlan inner-udp"
        );
    }
}
