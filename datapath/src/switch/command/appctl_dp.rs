//! `dpctl/*`, `dpif/*`, `dpif-netdev/*`: datapath flows by hand, dumps, counters.

use super::super::{DumpOptions, Switch};
use super::{CommandError, bad_flow_text, refused};
use crate::action::text::parse_actions;
use crate::cache::{FlowView, Ufid};
use crate::flow::text::{FlowSyntax, ParsedFlow};
use crate::openflow::command::Word;
use crate::openflow::command::appctl::{Appctl, Verb};
use crate::pipeline::FlowPut;
use crate::trace::{FlowId, Off};
use crate::types::{PortNo, Time};

impl Switch {
    pub(super) fn appctl_datapath(&mut self, call: &Appctl, now: Time) -> Result<String, CommandError> {
        match &call.verb {
            Verb::DumpFlows { bridge, verbose, names, filter, kinds } => {
                if let Some(filter) = filter {
                    return Err(refused(format!("dump-flows: filter={} is not supported here", filter.text)));
                }
                // Nothing is offloaded here, so the flows are those of the datapath or none.
                let here = |kind: &String| matches!(kind.as_str(), "ovs" | "all" | "non-offloaded");
                if !kinds.is_empty() && !kinds.iter().any(here) {
                    return Ok(String::new());
                }
                let bridge = match bridge {
                    Some(name) => Some(self.bridge_id(&name.text).map_err(refused)?),
                    None => None,
                };
                let options = DumpOptions { verbose: *verbose, names: *names, masked: false };
                let of_bridge = |flow: &FlowView<'_>| {
                    bridge.is_none_or(|id| {
                        self.port(PortNo(flow.key().in_port)).is_some_and(|port| port.bridge == id)
                    })
                };
                let flows = self.datapath().flows().iter().filter(of_bridge);
                Ok(flows.map(|flow| self.flow_text(&flow, options, now) + "\n").collect())
            }
            Verb::PutFlow { flow, actions, create, modify, clear, .. } => {
                let parsed = self.datapath_flow(flow)?;
                let actions = parse_actions(&actions.text, Some(self))
                    .map_err(|error| bad_flow_text(actions, error))?;
                let put = FlowPut {
                    key: &parsed.key,
                    mask: &parsed.mask,
                    actions,
                    ufid: parsed.ufid.map(Ufid),
                    create: *create,
                    modify: *modify,
                    zero_stats: *clear,
                };
                self.datapath_mut()
                    .flow_put(put, now)
                    .map_err(|error| refused(format!("updating flow table: {error}")))?;
                Ok(String::new())
            }
            Verb::DelFlow { flow, .. } => {
                let id = self.find_datapath_flow(flow)?;
                self.remove_flow(id, now, &mut Off);
                Ok(String::new())
            }
            Verb::GetFlow(flow) => {
                let id = self.find_datapath_flow(flow)?;
                let text = self
                    .datapath()
                    .flows()
                    .get(id)
                    .map(|flow| self.flow_text(&flow, DumpOptions::default(), now) + "\n");
                Ok(text.unwrap_or_default())
            }
            Verb::DelFlows => {
                self.flush_flows(now);
                Ok(String::new())
            }
            Verb::DumpDps => Ok("ovs-dummy\n".to_owned()),
            Verb::PmdStatsShow => Ok(self.pass_counters_text()),
            _ => Err(refused(format!("ovs-appctl: {} is not supported here", call.name.text))),
        }
    }

    fn datapath_flow(&self, word: &Word) -> Result<ParsedFlow, CommandError> {
        FlowSyntax::new(Some(self)).flow(&word.text).map_err(|error| bad_flow_text(word, error))
    }

    fn find_datapath_flow(&self, word: &Word) -> Result<FlowId, CommandError> {
        let parsed = self.datapath_flow(word)?;
        let flows = self.datapath().flows();
        let id = match parsed.ufid {
            Some(ufid) => flows.find_ufid(Ufid(ufid)),
            None => flows
                .iter()
                .find(|flow| {
                    flow.mask() == parsed.mask
                        && flow.key().masked(&parsed.mask) == parsed.key.masked(&parsed.mask)
                })
                .map(|flow| flow.id),
        };
        id.ok_or_else(|| refused("deleting flow: No such file or directory"))
    }

    /// Counts of lookups, in the words of `dpif-netdev/pmd-perf-show`, without its clock.
    fn pass_counters_text(&self) -> String {
        let counters = self.datapath().counters();
        let passes = counters.passes;
        let all = passes.passes();
        let share = |n: u64| if all == 0 { 0.0 } else { 100.0 * n as f64 / all as f64 };
        let per = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
        let row =
            |name: &str, n: u64, more: &str| format!("  - {name:<20} {n:>12}  ({:5.1} %{more})\n", share(n));
        let subtables = format!(", {:.2} subtbl lookups/hit", per(counters.masked_lookups, passes.megaflow));
        let mut text = String::from("\nmain thread:\n\n");
        text.push_str(&format!("  Rx packets:          {:>12}\n", counters.received));
        text.push_str(&format!(
            "  Datapath passes:     {all:>12}  ({:.2} passes/pkt)\n",
            per(all, counters.received)
        ));
        text.push_str(&row("Simple Match hits:", passes.simple, ""));
        text.push_str(&row("EMC hits:", passes.emc, ""));
        text.push_str(&row("SMC hits:", passes.smc, ""));
        text.push_str(&row("Megaflow hits:", passes.megaflow, &subtables));
        text.push_str(&row("Upcalls:", passes.upcall, ""));
        text.push_str(&row("Lost upcalls:", passes.lost, ""));
        text.push_str(&format!("  Tx packets:          {:>12}\n", counters.sent));
        text
    }
}
