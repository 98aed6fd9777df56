//! The report for people.

use std::fmt::Write as _;

use datapath::types::Span;

use super::{HostReport, LinkReport, Report, SwitchReport, Verdict};
use crate::link::LinkDrop;
use crate::quantity::show_time;
use crate::scenario::HostCounter;

/// Changes and ends of flows shown of each switch.
const MAX_PAST: usize = 10;
/// Flows shown of each switch.
const MAX_FLOWS: usize = 40;

impl Report {
    /// The report as text without escape codes, lines of any length, ending with a newline.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut out);
        out
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        let end = show_time(Span(self.end.0));
        writeln!(out, "{}: {}", self.file, self.scenario)?;
        writeln!(out, "  seed {}, {} events, ended at {end}", self.seed, self.events)?;
        for step in self.steps.iter().filter(|step| !step.text.is_empty()) {
            writeln!(out, "\n  at {}, {}:", show_time(Span(step.at.0)), step.kind)?;
            for line in step.text.lines() {
                writeln!(out, "    {}", printable(line))?;
            }
        }
        for switch in &self.switches {
            write_switch(out, switch)?;
        }
        for host in &self.hosts {
            write_host(out, host)?;
        }
        for link in &self.links {
            write_link(out, link)?;
        }
        if !self.warnings.is_empty() {
            writeln!(out)?;
        }
        for warning in &self.warnings {
            writeln!(out, "  warning: {}", printable(warning))?;
        }
        self.write_expectations(out)?;
        if let Some(error) = &self.error {
            writeln!(out, "\n{error}")?;
        }
        writeln!(out, "\n  result: {}", self.verdict.name())
    }

    fn write_expectations(&self, out: &mut String) -> std::fmt::Result {
        if self.expectations.is_empty() {
            return Ok(());
        }
        let held = self.expectations.iter().filter(|outcome| outcome.pass).count();
        writeln!(out, "\n  expectations: {held} of {} hold", self.expectations.len())?;
        for outcome in self.expectations.iter().filter(|outcome| !outcome.pass) {
            let step = &self.steps[outcome.step];
            let at = show_time(Span(step.at.0));
            writeln!(
                out,
                "    step {} ({} at {at}): {}",
                outcome.step,
                step.kind,
                printable(&outcome.detail)
            )?;
        }
        match self.verdict {
            Verdict::GoldenDiffers => {
                writeln!(out, "    if the new frames are right: recirc golden bless {}", self.file)
            }
            Verdict::Pass
            | Verdict::Bug
            | Verdict::BadScenario
            | Verdict::ExpectationFailed
            | Verdict::Interrupted => Ok(()),
        }
    }
}

/// Without control characters: what a file says must not reach a terminal as an escape code.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

impl SwitchReport {
    /// The switch as it stands in a report for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write_switch(&mut out, self);
        out
    }
}

fn write_switch(out: &mut String, switch: &SwitchReport) -> std::fmt::Result {
    let c = &switch.counters;
    writeln!(
        out,
        "\n  switch {}: {} received, {} made, {} sent, {} dropped, {} queued",
        switch.name,
        c.received,
        c.made,
        c.sent,
        c.dropped(),
        c.queued
    )?;
    let width = switch.ports.iter().map(|port| port.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "    {:width$} {:>6} {:>12} {:>14} {:>12} {:>14}",
        "port", "number", "rx packets", "rx bytes", "tx packets", "tx bytes"
    )?;
    for port in &switch.ports {
        let n = &port.counters;
        let number = if port.of_port == 0xfffe { "LOCAL".to_owned() } else { port.of_port.to_string() };
        writeln!(
            out,
            "    {:width$} {number:>6} {:>12} {:>14} {:>12} {:>14}",
            port.name, n.rx_packets, n.rx_bytes, n.tx_packets, n.tx_bytes
        )?;
    }
    let lookups = SwitchReport::lookups(&c.passes).map(|(tier, count)| format!("{tier} {count}")).join(", ");
    writeln!(out, "    passes: {} ({lookups})", c.passes.passes())?;
    let drops: Vec<_> = switch.drops().map(|(reason, count)| format!("{} {count}", reason.name())).collect();
    if !drops.is_empty() {
        writeln!(out, "    drops: {}", drops.join(", "))?;
    }
    if !switch.flows.is_empty() {
        writeln!(out, "    flows: {}", switch.flows.len())?;
    }
    for flow in switch.flows.iter().take(MAX_FLOWS) {
        writeln!(
            out,
            "      {}, packets:{}, bytes:{}, actions:{}",
            flow.key, flow.packets, flow.bytes, flow.actions
        )?;
    }
    if switch.flows.len() > MAX_FLOWS {
        writeln!(out, "      and {} more; --format json has all", switch.flows.len() - MAX_FLOWS)?;
    }
    write_past(out, switch)?;
    write_connections(out, &switch.tracked)
}

fn write_connections(out: &mut String, tracked: &[String]) -> std::fmt::Result {
    if !tracked.is_empty() {
        writeln!(out, "    connections: {}", tracked.len())?;
    }
    for line in tracked.iter().take(MAX_FLOWS) {
        writeln!(out, "      {line}")?;
    }
    if tracked.len() > MAX_FLOWS {
        writeln!(out, "      and {} more; --format json has all", tracked.len() - MAX_FLOWS)?;
    }
    Ok(())
}

/// What became of flows that are not there any more, or have other actions.
fn write_past(out: &mut String, switch: &SwitchReport) -> std::fmt::Result {
    let past = &switch.past_flows;
    if past.is_empty() {
        return Ok(());
    }
    let changed = past.iter().filter(|past| past.removed.is_none()).count();
    writeln!(out, "    flows that were removed: {}, changed: {changed}", past.len() - changed)?;
    let skipped = past.len().saturating_sub(MAX_PAST);
    if skipped > 0 {
        writeln!(out, "      {skipped} earlier ones; --format json has up to 1024")?;
    }
    for past in &past[skipped..] {
        writeln!(out, "      at {} {}", show_time(Span(past.at.0)), past.fate)?;
        let flow = &past.flow;
        writeln!(
            out,
            "        {}, packets:{}, bytes:{}, actions:{}",
            flow.key, flow.packets, flow.bytes, flow.actions
        )?;
        if let Some(after) = &past.after {
            writeln!(out, "        now: {after}")?;
        }
    }
    Ok(())
}

fn write_host(out: &mut String, host: &HostReport) -> std::fmt::Result {
    write!(out, "\n  host {}: {} frames received, {} sent", host.name, host.rx_frames, host.tx_frames)?;
    for (count, what) in
        [(host.ignored, "not for it"), (host.bad, "damaged"), (host.unreachable, "unreachable")]
    {
        if count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    writeln!(out)?;
    let count = |counter: HostCounter| host.counters[counter as usize];
    if count(HostCounter::PingSent) > 0 {
        let rtt = host.rtt;
        write!(
            out,
            "    ping: {} sent, {} answered",
            count(HostCounter::PingSent),
            count(HostCounter::PingReceived)
        )?;
        if rtt.count > 0 {
            let show = |ns| show_time(Span(ns));
            write!(
                out,
                ", round trip min/mean/max {}/{}/{}",
                show(rtt.min_ns),
                show(rtt.mean_ns()),
                show(rtt.max_ns)
            )?;
        }
        writeln!(out)?;
    }
    if count(HostCounter::UdpSent) + count(HostCounter::UdpReceived) > 0 {
        let (sent, received) = (count(HostCounter::UdpSent), count(HostCounter::UdpReceived));
        writeln!(
            out,
            "    udp: {sent} sent, {received} received ({} bytes), {} echoed",
            host.udp_bytes,
            count(HostCounter::UdpEchoed)
        )?;
    }
    for c in &host.connections {
        let hash = crate::wire::hex(&c.sha256[..4]);
        writeln!(
            out,
            "    tcp {} - {}: {}, {} bytes acknowledged, {} delivered (sha256 {hash}..), {} segments sent again",
            c.local, c.remote, c.state, c.acknowledged, c.delivered, c.retransmitted
        )?;
    }
    Ok(())
}

fn write_link(out: &mut String, link: &LinkReport) -> std::fmt::Result {
    let [a, b] = &link.ends;
    writeln!(out)?;
    for (from, to, c) in [(a, b, link.directions[0]), (b, a, link.directions[1])] {
        write!(out, "  link {from} > {to}: {} sent, {} delivered", c.sent, c.delivered)?;
        for (reason, count) in LinkDrop::ALL.into_iter().zip(c.dropped).filter(|(_, count)| *count > 0) {
            write!(out, ", {count} {}", reason.name())?;
        }
        for (count, what) in
            [(c.duplicated, "duplicated"), (c.reordered, "held back"), (c.under_way(), "under way")]
        {
            if count > 0 {
                write!(out, ", {count} {what}")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
