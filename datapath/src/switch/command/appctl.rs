//! `ovs-appctl` and `ovs-dpctl`: packets, traces, learned addresses; flows and counters are in `appctl_dp`.

use super::super::Switch;
use super::{CommandError, bad_flow_text, bad_text, refused};
use crate::flow::text::parse_key;
use crate::flow::{Flow, Payload, compose, compose_len};
use crate::openflow::command::Word;
use crate::openflow::command::appctl::{Appctl, Verb};
use crate::openflow::ofproto::TraceOptions;
use crate::openflow::text::parse_match;
use crate::packet::{Batch, Packet};
use crate::trace::Off;
use crate::types::{OfPort, PortNo, Time};

impl Switch {
    pub(super) fn appctl(&mut self, call: &Appctl, now: Time) -> Result<String, CommandError> {
        match &call.verb {
            Verb::Nothing(text) => Ok((*text).to_owned()),
            Verb::Receive { port, packets } => self.dummy_receive(port, packets, now),
            Verb::SetAdminState { port, state } => self.set_admin_state(port.as_ref(), &state.text),
            Verb::Trace { bridge, flow, packet, generate, names } => {
                let bridge = bridge.as_ref().map(|bridge| bridge.text.as_str());
                let packet = packet.as_ref().map(|packet| packet.text.as_str());
                let options = TraceOptions { names: *names, side_effects: *generate };
                self.trace_text(bridge, flow, packet, options, now)
            }
            Verb::FdbShow(bridge) => self.fdb_show(bridge.as_ref(), now),
            Verb::FdbFlush(bridge) => self.fdb_flush(bridge.as_ref()),
            Verb::FdbStatsShow(bridge) => self.fdb_stats_show(bridge.as_ref(), now),
            Verb::FdbStatsClear(bridge) => self.fdb_stats_clear(bridge.as_ref()),
            Verb::FdbAdd { bridge, port, vlan, mac } => self.fdb_add((bridge, port), (vlan, mac), now),
            Verb::FdbDel { bridge, vlan, mac } => self.fdb_del(bridge, vlan, mac),
            Verb::RevalidatorWait => {
                self.settle(now, &mut Off);
                Ok(String::new())
            }
            Verb::RevalidatorPurge => {
                self.flush_flows(now);
                Ok(String::new())
            }
            Verb::WhyDeleted { last } => self.why_deleted(last.as_ref()),
            Verb::OfprotoList => {
                Ok(self.ofproto().bridges().map(|bridge| format!("{}\n", bridge.name)).collect())
            }
            Verb::Conntrack { command, words } => self.conntrack_command(command, words, now),
            Verb::Tunnel { command, words } => self.tunnel_command(command, words, now),
            Verb::DumpFlows { .. }
            | Verb::PutFlow { .. }
            | Verb::DelFlow { .. }
            | Verb::GetFlow(_)
            | Verb::DelFlows
            | Verb::PmdStatsShow
            | Verb::DumpDps => self.appctl_datapath(call, now),
            Verb::DpifShow => Ok(self.dpif_show()),
            Verb::BridgeDumpFlows(bridge) => self.bridge_rules(bridge, now),
            Verb::DpShow { statistics } => Ok(self.datapath_show(*statistics)),
            Verb::SetFlowLimit(limit) => self.set_flow_limit(limit, now),
            Verb::PmdStatsClear | Verb::UpcallShow | Verb::CoverageRead(_) | Verb::Version => {
                Err(refused(format!("ovs-appctl: {} is not supported here", call.name.text)))
            }
        }
    }

    /// The last changes and ends of datapath flows, newest first.
    fn why_deleted(&self, last: Option<&Word>) -> Result<String, CommandError> {
        let count = match last {
            Some(word) => word.text.parse().map_err(|_| refused(format!("{} is not a number", word.text)))?,
            None => usize::MAX,
        };
        let mut text = String::new();
        for event in self.flow_life().events().rev().take(count) {
            let at = event.at.0;
            text += &format!("{}.{:03}s ", at / 1_000_000_000, at / 1_000_000 % 1000);
            text += &format!("{}\n  {}\n", self.fate_text(event), self.past_flow_text(event));
            if let Some(after) = self.after_text(event) {
                text += &format!("  now: {after}\n");
            }
        }
        Ok(text)
    }

    fn dummy_receive(
        &mut self,
        port: &Word,
        packets: &[(Word, Option<Word>)],
        now: Time,
    ) -> Result<String, CommandError> {
        let unknown = || refused(format!("{}: no such dummy device", port.text));
        let no = self.port_named(&port.text).and_then(|port| port.no).ok_or_else(unknown)?;
        let frames: Result<Vec<Packet>, CommandError> =
            packets.iter().map(|(text, len)| self.packet_of(&text.text, len.as_ref())).collect();
        for frame in frames? {
            let mut packet = self.allocate();
            packet.set_frame(frame.data());
            packet.packet_type = frame.packet_type;
            let mut batch = Batch::new();
            if batch.push(packet).is_ok() {
                self.receive(no, &mut batch, now, &mut Off);
            }
        }
        Ok(String::new())
    }

    /// A packet from hexadecimal digits, or from a datapath flow and perhaps a length.
    fn packet_of(&self, text: &str, len: Option<&Word>) -> Result<Packet, CommandError> {
        if let Some(bytes) = hex(text) {
            return Ok(Packet::from_frame(&bytes));
        }
        let key = parse_key(text, Some(self))
            .map_err(|error| refused(format!("bad packet or flow syntax: {error}")))?;
        match len {
            None => Ok(compose(&key, Payload::DEFAULT, false)),
            Some(word) => {
                let bytes =
                    word.text.parse().map_err(|_| refused(format!("{} is not a length", word.text)))?;
                compose_len(&key, bytes).map_err(refused)
            }
        }
    }

    fn set_admin_state(&mut self, port: Option<&Word>, state: &str) -> Result<String, CommandError> {
        let up = match state {
            "up" => true,
            "down" => false,
            _ => return Err(refused("Invalid Admin State")),
        };
        let names: Vec<String> = match port {
            Some(name) => vec![name.text.clone()],
            None => self.ports().map(|port| port.device.name.clone()).collect(),
        };
        for name in names {
            self.configure_device(&name, |device| device.admin_up = up)
                .map_err(|_| refused("Unknown Dummy Interface"))?;
        }
        Ok("OK".to_owned())
    }

    /// What `ofproto/trace` tells; the packet's key is given in OpenFlow or in datapath syntax, or both by a packet.
    ///
    /// # Errors
    /// If the flow is not understood, or is at no port.
    fn trace_text(
        &mut self,
        bridge: Option<&str>,
        flow: &Word,
        packet: Option<&str>,
        options: TraceOptions,
        now: Time,
    ) -> Result<String, CommandError> {
        self.settle(now, &mut Off);
        // A flow in datapath syntax has parentheses and says its port by number or name in the datapath.
        let (mut key, at) = match bridge {
            Some(name) if !flow.text.contains('(') => {
                let id = self.bridge_id(name).map_err(|_| refused(format!("{name}: no such bridge")))?;
                let bridge =
                    self.ofproto().bridge(id).ok_or_else(|| refused(format!("{name}: no such bridge")))?;
                let parsed = parse_match(&flow.text, bridge).map_err(|error| bad_text(flow, error))?;
                let port = OfPort(parsed.flow.in_port as u16);
                let odp = bridge.port(port).and_then(|port| port.odp_port).unwrap_or(PortNo::NONE);
                (Flow { in_port: odp.0, ..parsed.flow }, Some((id, port)))
            }
            _ => (parse_key(&flow.text, Some(self)).map_err(|error| bad_flow_text(flow, error))?, None),
        };
        if let Some(text) = packet {
            let bytes = hex(text).ok_or_else(|| refused("Trailing garbage in packet data"))?;
            let mut packet = Packet::from_frame(&bytes);
            packet.md.init(PortNo(key.in_port));
            key = Flow::of_packet_with(
                &mut packet,
                crate::flow::ExtractConfig { vlan_limit: self.datapath().config().vlan_limit },
            );
        }
        match at {
            Some((id, port)) => Ok(self.ofproto_mut().trace_at(id, port, &key, options, now)),
            None => self.ofproto_mut().trace(&key, options, now).map_err(CommandError::Refused),
        }
    }
}

/// Bytes from hexadecimal digits, with or without blanks; at least one byte.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    if digits.is_empty() || !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let value = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
    Some(digits.chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect())
}
