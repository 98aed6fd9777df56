//! `ovs-appctl dpif/show` and `bridge/dump-flows`.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif.c`, `ofproto/ofproto.c`.

use std::fmt::Write as _;

use super::super::{DeviceKind, Switch};
use super::{CommandError, refused};
use crate::openflow::Match;
use crate::openflow::bridge::{Bridge, RuleFilter};
use crate::openflow::command::{ParseErrorKind, Word};
use crate::openflow::text::{NoNames, actions_to_text, match_to_text};
use crate::pipeline::{Config, PortStats};
use crate::types::{OfPort, Time};

impl Switch {
    /// `dpif/show`: the datapath, its bridges and their ports.
    pub(super) fn dpif_show(&self) -> String {
        let mut bridges: Vec<&Bridge> = self.ofproto().bridges().collect();
        if bridges.is_empty() {
            return String::new();
        }
        bridges.sort_by(|a, b| a.name.cmp(&b.name));
        let passes = &self.datapath().counters().passes;
        let hits = passes.simple + passes.emc + passes.smc + passes.megaflow;
        let mut out = format!("dummy@ovs-dummy: hit:{hits} missed:{}\n", passes.upcall);
        for bridge in bridges {
            let _ = writeln!(out, "  {}:", bridge.name);
            let mut ports: Vec<_> = bridge.ports().collect();
            ports.sort_by(|a, b| a.name.cmp(&b.name));
            for port in ports {
                let odp = port.odp_port.map_or("none".to_owned(), |no| no.0.to_string());
                let Some(own) = self.port_named(&port.name) else { continue };
                let kind = type_of(own.device.kind);
                let peer = port.peer.as_ref();
                let peer = peer
                    .and_then(|peer| self.ofproto().bridge(peer.bridge)?.port(peer.port))
                    .map(|p| &p.name);
                let mut options = peer.map_or(String::new(), |name| format!(": peer={name}"));
                if let Some(config) = self.ofproto().tunnels().config(bridge.id, port.of_port) {
                    let all = config.options().into_iter();
                    let all: Vec<String> = all.map(|(key, value)| format!("{key}={value}")).collect();
                    options = format!(": {}", all.join(", "));
                }
                let _ = writeln!(out, "    {} {}/{odp}: ({kind}{options})", port.name, port.of_port.0);
            }
        }
        out
    }

    /// `dpctl/show`: the datapath's ports, with what they counted if asked to.
    pub(super) fn datapath_show(&self, statistics: bool) -> String {
        let counters = self.datapath().counters();
        let passes = &counters.passes;
        let hits = passes.simple + passes.emc + passes.smc + passes.megaflow;
        let mut out = format!(
            "dummy@ovs-dummy:\n  lookups: hit:{hits} missed:{} lost:{}\n  flows: {}\n",
            passes.upcall,
            passes.lost,
            self.datapath().flows().len()
        );
        // The datapath's own port; nothing passes it here.
        let own = (0, "ovs-dummy", DeviceKind::Internal, PortStats::default());
        let ports = self.ports().filter_map(|port| {
            Some((port.no?.0, port.device.name.as_str(), port.device.kind, self.port_stats(port)))
        });
        let mut ports: Vec<_> = std::iter::once(own).chain(ports).collect();
        ports.extend(self.ofproto().tunnels().listeners().map(|(no, name, kind)| {
            let stats = self.datapath().port(no).map(|port| *port.stats()).unwrap_or_default();
            (no.0, name, DeviceKind::Tunnel(kind), stats)
        }));
        ports.sort_by_key(|port| port.0);
        for (no, name, kind, stats) in ports {
            let options = if matches!(kind, DeviceKind::Tunnel(_)) { ": packet_type=ptap" } else { "" };
            let _ = writeln!(out, "  port {no}: {name} ({}{options})", type_of(kind));
            if statistics {
                let _ = writeln!(
                    out,
                    "    RX packets:{} errors:? dropped:? overruns:? frame:?\n    \
                     TX packets:{} errors:? dropped:? aborted:? carrier:?\n    collisions:?\n    \
                     RX bytes:{}{}  TX bytes:{}{}\n    UPCALL packets:? errors:?",
                    stats.rx_packets,
                    stats.tx_packets,
                    stats.rx_bytes,
                    human(stats.rx_bytes),
                    stats.tx_bytes,
                    human(stats.tx_bytes)
                );
            }
        }
        out
    }

    pub(super) fn set_flow_limit(&mut self, limit: &Word, now: Time) -> Result<String, CommandError> {
        let wrong = || {
            let what = "a number of flows";
            let kind = ParseErrorKind::Invalid { word: limit.text.clone(), what };
            CommandError::from(limit.refuse("ovs-appctl", kind))
        };
        let flows: u32 = limit.text.parse().map_err(|_| wrong())?;
        let flow_limit = usize::try_from(flows).unwrap_or(usize::MAX);
        self.configure_datapath(Config { flow_limit, ..*self.datapath().config() }, now);
        Ok(format!("set flow_limit to {flows}\n"))
    }

    /// `bridge/dump-flows`: all rules, those that are hidden from OpenFlow too.
    pub(super) fn bridge_rules(&mut self, bridge: &Word, now: Time) -> Result<String, CommandError> {
        self.credit(now);
        let id = self.bridge_id(&bridge.text).map_err(|_| refused("Unknown bridge"))?;
        let Some(bridge) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let everything = Match::catch_all();
        let filter = RuleFilter {
            table: None,
            rule_match: &everything,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        let mut out = String::new();
        for rule in bridge.find_rules(&filter) {
            if rule.table.0 != 0 {
                let _ = write!(out, "table_id={}, ", rule.table.0);
            }
            let stats = self.ofproto().rule_stats(rule.id);
            let _ = writeln!(
                out,
                "duration={}s, n_packets={}, n_bytes={}, {},actions={}",
                now.since(rule.created).0 / 1_000_000_000,
                stats.packets,
                stats.bytes,
                match_to_text(&rule.rule_match, Some(rule.priority), &NoNames),
                actions_to_text(&rule.actions, &NoNames)
            );
        }
        Ok(out)
    }
}

/// The type of a device, as the datapath says it.
const fn type_of(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Dummy => "dummy",
        DeviceKind::DummyPmd => "dummy-pmd",
        DeviceKind::Internal => "dummy-internal",
        DeviceKind::Patch => "patch",
        DeviceKind::Tunnel(kind) => kind.name(),
    }
}

/// How many bytes, for people; nothing of less than 1 KiB.
fn human(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes >> shift != 0);
    unit.map_or_else(String::new, |(shift, name)| {
        format!(" ({:.1} {name})", bytes as f64 / (1_u64 << shift) as f64)
    })
}
