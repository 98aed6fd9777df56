//! The report as CSV: one number a line, so that spreadsheets and scripts need no structure.

use std::io::{self, Write};

use super::{Report, SwitchReport};
use crate::link::LinkDrop;
use crate::scenario::HostCounter;

/// The first line.
const HEADER: &str = "file,kind,name,item,value";

impl Report {
    /// Writes the report as CSV (RFC 4180, with LF): file, kind (run, step, expectation, port, switch, drop, flow, host,
    /// link), name, item, value. `header` begins it with the names of the columns.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_csv(&self, out: &mut impl Write, header: bool) -> io::Result<()> {
        if header {
            writeln!(out, "{HEADER}")?;
        }
        let mut row = |kind: &str, name: &str, item: &str, value: &dyn std::fmt::Display| {
            let value = value.to_string();
            writeln!(
                out,
                "{},{kind},{},{},{}",
                quoted(&self.file),
                quoted(name),
                quoted(item),
                quoted(&value)
            )
        };
        row("run", &self.scenario, "result", &self.verdict.name())?;
        row("run", &self.scenario, "seed", &self.seed)?;
        row("run", &self.scenario, "end_ns", &self.end.0)?;
        row("run", &self.scenario, "digest", &crate::wire::hex(&self.digest))?;
        for outcome in &self.expectations {
            let name = format!("step {}", outcome.step);
            row("expectation", &name, if outcome.pass { "pass" } else { "fail" }, &outcome.detail)?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let name = format!("step {index}");
            row("step", &name, "at_ns", &step.at.0)?;
            row("step", &name, "kind", &step.kind)?;
            row("step", &name, "frames_out", &step.frames_out)?;
        }
        for switch in &self.switches {
            self.switch_rows(switch, &mut row)?;
        }
        for host in &self.hosts {
            row("host", &host.name, "rx_frames", &host.rx_frames)?;
            row("host", &host.name, "tx_frames", &host.tx_frames)?;
            for ((_, group, word), count) in HostCounter::ALL.into_iter().zip(host.counters) {
                row("host", &host.name, &format!("{group}.{word}"), &count)?;
            }
        }
        for link in &self.links {
            let [a, b] = &link.ends;
            for (name, c) in
                [(format!("{a} > {b}"), link.directions[0]), (format!("{b} > {a}"), link.directions[1])]
            {
                row("link", &name, "sent", &c.sent)?;
                row("link", &name, "delivered", &c.delivered)?;
                for (reason, count) in LinkDrop::ALL.into_iter().zip(c.dropped) {
                    row("link", &name, reason.name(), &count)?;
                }
            }
        }
        Ok(())
    }

    fn switch_rows(
        &self,
        switch: &SwitchReport,
        row: &mut impl FnMut(&str, &str, &str, &dyn std::fmt::Display) -> io::Result<()>,
    ) -> io::Result<()> {
        for port in &switch.ports {
            let name = format!("{}:{}", switch.name, port.name);
            let c = &port.counters;
            let items = [
                ("number", u64::from(port.of_port)),
                ("rx_packets", c.rx_packets),
                ("rx_bytes", c.rx_bytes),
                ("tx_packets", c.tx_packets),
                ("tx_bytes", c.tx_bytes),
            ];
            for (item, value) in items {
                row("port", &name, item, &value)?;
            }
        }
        row("switch", &switch.name, "passes", &switch.counters.passes.passes())?;
        for (tier, count) in SwitchReport::lookups(&switch.counters.passes) {
            row("switch", &switch.name, tier, &count)?;
        }
        for (reason, count) in switch.drops() {
            row("drop", &switch.name, reason.name(), &count)?;
        }
        for flow in &switch.flows {
            let line = format!("{}, actions:{}", flow.key, flow.actions);
            row("flow", &switch.name, &line, &flow.packets)?;
        }
        Ok(())
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
