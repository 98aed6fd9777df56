//! `report.json`: one object on one line, for programs; its fields are stable.

use std::io::{self, Write};

use serde::Serialize;

use super::{HostReport, LinkReport, Report, SwitchReport};
use crate::link::{LinkCounters, LinkDrop};
use crate::scenario::HostCounter;
use crate::wire::hex;

#[derive(Serialize)]
struct Expectation {
    step: usize,
    pass: bool,
    detail: String,
}

#[derive(Serialize)]
struct Port {
    number: u32,
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
}

#[derive(Serialize)]
struct Flow<'a> {
    key: &'a str,
    actions: &'a str,
    packets: u64,
    bytes: u64,
    used_ns: Option<u64>,
}

#[derive(Serialize)]
struct Past<'a> {
    at_ns: u64,
    fate: &'static str,
    why: Option<&'static str>,
    changes: &'a [&'static str],
    rule_gone: bool,
    key: &'a str,
    actions: &'a str,
    after: Option<&'a str>,
    packets: u64,
    bytes: u64,
    used_ns: Option<u64>,
    installed_ns: u64,
}

/// A map that keeps its order.
struct Ordered<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[derive(Serialize)]
struct Switch<'a> {
    ports: Ordered<&'a str, Port>,
    passes: u64,
    lookups: Ordered<&'static str, u64>,
    drops: Ordered<&'static str, u64>,
    received: u64,
    made: u64,
    sent: u64,
    queued: u64,
    flows: Vec<Flow<'a>>,
    past_flows: Vec<Past<'a>>,
    connections: &'a [String],
}

#[derive(Serialize)]
struct Connection<'a> {
    local: &'a str,
    remote: &'a str,
    state: &'static str,
    acknowledged: u64,
    delivered: u64,
    sha256: String,
    retransmitted: u64,
}

#[derive(Serialize)]
struct Host<'a> {
    rx_frames: u64,
    tx_frames: u64,
    ignored: u64,
    bad: u64,
    unreachable: u64,
    ping: Ordered<&'static str, u64>,
    udp: Ordered<&'static str, u64>,
    tcp: Ordered<&'static str, u64>,
    connections: Vec<Connection<'a>>,
}

#[derive(Serialize)]
struct Direction {
    sent: u64,
    sent_bytes: u64,
    duplicated: u64,
    reordered: u64,
    delivered: u64,
    under_way: u64,
    drops: Ordered<&'static str, u64>,
}

#[derive(Serialize)]
struct Link<'a> {
    ends: &'a [String; 2],
    forward: Direction,
    backward: Direction,
}

impl Report {
    /// Writes the report as one JSON object on one line.
    ///
    /// # Errors
    /// If it cannot be written, or frames cannot be read back.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{{\"scenario\": {}", text(&self.scenario)?)?;
        write!(out, ", \"file\": {}, \"seed\": {}", text(&self.file)?, self.seed)?;
        write!(out, ", \"end_ns\": {}, \"result\": \"{}\"", self.end.0, self.verdict.name())?;
        if let Some(error) = &self.error {
            write!(out, ", \"error\": {}", text(&error.to_string())?)?;
        }
        let expectation = |o: &'_ crate::world::Outcome| Expectation {
            step: o.step,
            pass: o.pass,
            detail: o.detail.clone(),
        };
        let expectations: Vec<_> = self.expectations.iter().map(expectation).collect();
        write!(out, ", \"expectations\": {}", value(&expectations)?)?;
        out.write_all(b", \"steps\": [")?;
        for index in 0..self.steps.len() {
            self.write_step(index, out)?;
        }
        let switches = Ordered(self.switches.iter().map(|s| (s.name.as_str(), switch(s))).collect());
        let hosts = Ordered(self.hosts.iter().map(|h| (h.name.as_str(), host(h))).collect());
        let links: Vec<_> = self.links.iter().map(link).collect();
        write!(out, "], \"switches\": {}", value(&switches)?)?;
        write!(out, ", \"hosts\": {}, \"links\": {}", value(&hosts)?, value(&links)?)?;
        write!(out, ", \"warnings\": {}, \"events\": {}", value(&self.warnings)?, self.events)?;
        writeln!(out, ", \"digest\": \"{}\"}}", hex(&self.digest))
    }

    fn write_step(&self, index: usize, out: &mut impl Write) -> io::Result<()> {
        let step = &self.steps[index];
        let comma = if index > 0 { ", " } else { "" };
        write!(
            out,
            "{comma}{{\"step\": {index}, \"at_ns\": {}, \"kind\": \"{}\", \"out\": [",
            step.at.0, step.kind
        )?;
        let mut first = true;
        self.spool.for_each(index, |place, frame| {
            let comma = if std::mem::take(&mut first) { "" } else { ", " };
            write!(out, "{comma}[{}, \"{}\"]", text(place)?, hex(frame))
        })?;
        write!(out, "], \"text\": {}}}", text(&step.text)?)
    }
}

fn text(text: &str) -> io::Result<String> {
    value(&text)
}

fn value(value: &impl Serialize) -> io::Result<String> {
    serde_json::to_string(value).map_err(io::Error::other)
}

impl SwitchReport {
    /// The switch as it stands in `report.json`.
    ///
    /// # Errors
    /// What serialization says.
    pub fn json(&self) -> io::Result<String> {
        value(&switch(self))
    }
}

fn switch(switch: &SwitchReport) -> Switch<'_> {
    let ports = switch.ports.iter().map(|port| {
        let c = &port.counters;
        let (rx_packets, rx_bytes, tx_packets, tx_bytes) =
            (c.rx_packets, c.rx_bytes, c.tx_packets, c.tx_bytes);
        (
            port.name.as_str(),
            Port { number: u32::from(port.of_port), rx_packets, rx_bytes, tx_packets, tx_bytes },
        )
    });
    let flows = switch.flows.iter().map(|flow| Flow {
        key: &flow.key,
        actions: &flow.actions,
        packets: flow.packets,
        bytes: flow.bytes,
        used_ns: flow.used.map(|time| time.0),
    });
    let past = switch.past_flows.iter().map(|past| Past {
        at_ns: past.at.0,
        fate: if past.removed.is_some() { "removed" } else { "changed" },
        why: past.removed.map(datapath::trace::RemoveWhy::name),
        changes: &past.causes,
        rule_gone: past.rule_gone,
        key: &past.flow.key,
        actions: &past.flow.actions,
        after: past.after.as_deref(),
        packets: past.flow.packets,
        bytes: past.flow.bytes,
        used_ns: past.flow.used.map(|time| time.0),
        installed_ns: past.installed.0,
    });
    let counters = &switch.counters;
    Switch {
        ports: Ordered(ports.collect()),
        passes: counters.passes.passes(),
        lookups: Ordered(SwitchReport::lookups(&counters.passes).to_vec()),
        drops: Ordered(switch.drops().map(|(reason, count)| (reason.name(), count)).collect()),
        received: counters.received,
        made: counters.made,
        sent: counters.sent,
        queued: counters.queued,
        flows: flows.collect(),
        past_flows: past.collect(),
        connections: &switch.tracked,
    }
}

fn host(host: &HostReport) -> Host<'_> {
    let group = |name: &str| {
        let all = HostCounter::ALL.into_iter().zip(host.counters);
        all.filter(|((_, of, _), _)| *of == name)
            .map(|((_, _, word), count)| (word, count))
            .collect::<Vec<_>>()
    };
    let (mut ping, mut udp) = (group("ping"), group("udp"));
    let rtt = host.rtt;
    ping.extend([("rtt_min_ns", rtt.min_ns), ("rtt_mean_ns", rtt.mean_ns()), ("rtt_max_ns", rtt.max_ns)]);
    udp.push(("bytes", host.udp_bytes));
    let connections = host.connections.iter().map(|c| Connection {
        local: &c.local,
        remote: &c.remote,
        state: c.state,
        acknowledged: c.acknowledged,
        delivered: c.delivered,
        sha256: hex(&c.sha256),
        retransmitted: c.retransmitted,
    });
    Host {
        rx_frames: host.rx_frames,
        tx_frames: host.tx_frames,
        ignored: host.ignored,
        bad: host.bad,
        unreachable: host.unreachable,
        ping: Ordered(ping),
        udp: Ordered(udp),
        tcp: Ordered(group("tcp")),
        connections: connections.collect(),
    }
}

fn link(link: &LinkReport) -> Link<'_> {
    let [forward, backward] = link.directions.each_ref().map(direction);
    Link { ends: &link.ends, forward, backward }
}

fn direction(counters: &LinkCounters) -> Direction {
    let drops = LinkDrop::ALL.into_iter().zip(counters.dropped).filter(|(_, count)| *count > 0);
    Direction {
        sent: counters.sent,
        sent_bytes: counters.sent_bytes,
        duplicated: counters.duplicated,
        reordered: counters.reordered,
        delivered: counters.delivered,
        under_way: counters.under_way(),
        drops: Ordered(drops.map(|(reason, count)| (reason.name(), count)).collect()),
    }
}
