//! `ofproto/trace` and `ofproto/trace-packet-out`.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif-trace.c`.

use super::super::Switch;
use super::{CommandError, bad_flow_text, bad_text_of, refused};
use crate::flow::text::parse_key;
use crate::flow::{ExtractConfig, Flow, Payload, compose};
use crate::openflow::action::OfAction;
use crate::openflow::bridge::BridgeId;
use crate::openflow::bridge::rule::check_actions;
use crate::openflow::command::{TraceCall, TracePayload, hex};
use crate::openflow::ofproto::TraceInput;
use crate::openflow::protocol::Protocols;
use crate::openflow::rule_match::Match;
use crate::openflow::text::check::check;
use crate::openflow::text::{NoNames, OfpError, parse_actions, parse_exact_flow};
use crate::packet::Packet;
use crate::trace::Off;
use crate::types::{OfPort, PortNo, TableId, Time};

/// Where a packet is traced.
struct Start {
    /// Its key, with a datapath port in it.
    key: Flow,
    /// Bridge and port, where the flow names them.
    at: Option<(BridgeId, OfPort)>,
    packet: Option<Packet>,
}

impl Switch {
    /// What a trace tells.
    ///
    /// # Errors
    /// If the flow or the actions are not understood, or the packet is at no port.
    pub(super) fn trace_text(&mut self, call: &TraceCall, now: Time) -> Result<String, CommandError> {
        self.settle(now, &mut Off);
        let start = self.trace_start(call)?;
        let actions = self.trace_actions(call, &start)?;
        let input = TraceInput {
            key: &start.key,
            at: start.at,
            names: call.names,
            packet: start.packet.as_ref(),
            actions: actions.as_deref(),
            ct_next: &call.ct_next,
        };
        let traced = self.ofproto_mut().trace(&input, now).map_err(CommandError::Refused)?;
        let mut text = traced.text;
        if let Some(packet) = &start.packet {
            for actions in &traced.execute {
                let mut copy = self.allocate();
                copy.set_frame(packet.data());
                copy.packet_type = packet.packet_type;
                copy.md.init(PortNo(start.key.in_port));
                if let Err(error) = self.execute(copy, actions, now, &mut Off) {
                    text.push_str(&format!("\nAction execution failed ({error})\n."));
                }
            }
        }
        Ok(text)
    }

    /// The packet's key, and the packet if there is one.
    fn trace_start(&self, call: &TraceCall) -> Result<Start, CommandError> {
        let (key, at) = match parse_key(&call.flow.text, Some(self)) {
            Ok(key) => {
                let place = call.place.as_ref().map(|word| word.text.as_str());
                if place.is_some_and(|place| !is_datapath(place) && self.bridge_id(place).is_err()) {
                    return Err(refused("Cannot find the datapath"));
                }
                (key, None)
            }
            Err(error) => match &call.place {
                None => return Err(bad_flow_text(&call.flow, error)),
                Some(place) => self.trace_in_bridge(&place.text, call)?,
            },
        };
        let packet = match &call.packet {
            Some(word) => {
                let mut packet = Packet::from_frame(&hex(&word.text).map_err(refused)?);
                packet.md.init(PortNo(key.in_port));
                let config = ExtractConfig { vlan_limit: self.datapath().config().vlan_limit };
                let seen = Flow::of_packet_with(&mut packet, config);
                return Ok(Start { key: with_metadata(&seen, &key), at, packet: Some(packet) });
            }
            None if call.generate => {
                let payload = match &call.payload {
                    TracePayload::Bytes(bytes) => Payload::Bytes(bytes),
                    TracePayload::Length(length) => Payload::Pattern(*length),
                };
                Some(compose(&key, payload, false))
            }
            None => None,
        };
        Ok(Start { key, at, packet })
    }

    fn trace_in_bridge(
        &self,
        name: &str,
        call: &TraceCall,
    ) -> Result<(Flow, Option<(BridgeId, OfPort)>), CommandError> {
        let Some(bridge) = self.ofproto().bridge_named(name) else {
            return Err(refused(format!("{name}: unknown bridge")));
        };
        let flow = parse_exact_flow(&call.flow.text, bridge, &bridge.tun_table)
            .map_err(|error| bad_text_of("ovs-appctl", &call.flow, error))?;
        let port = OfPort(flow.in_port as u16);
        let odp = bridge.port(port).and_then(|port| port.odp_port).unwrap_or(PortNo::NONE);
        Ok((Flow { in_port: odp.0, ..flow }, Some((bridge.id, port))))
    }

    /// The actions of `ofproto/trace-packet-out`.
    fn trace_actions(&self, call: &TraceCall, start: &Start) -> Result<Option<Vec<OfAction>>, CommandError> {
        let Some(word) = &call.actions else { return Ok(None) };
        let actions =
            parse_actions(&word.text, &NoNames).map_err(|error| bad_text_of("ovs-appctl", word, error))?;
        let of_packet = Match { flow: start.key, mask: Flow::all_ones(), tun_metadata: Vec::new() };
        let usable = check(&actions, &of_packet, Some(TableId(0)))
            .map_err(|error| refused(format!("Bad actions: {error}")))?;
        if call.consistent && usable != Protocols::ANY {
            return Err(refused(format!("Bad actions: {}", OfpError::MatchInconsistent)));
        }
        let at = start.at.or_else(|| self.ofproto().port_of_datapath(PortNo(start.key.in_port)));
        let bridge = at.and_then(|(id, _)| self.ofproto().bridge(id));
        let checked = bridge.map_or_else(|| check_actions(&actions), |bridge| bridge.check_actions(&actions));
        checked.map_err(|error| refused(format!("Bad actions: {error}")))?;
        Ok(Some(actions))
    }
}

/// Whether a word names the datapath rather than a bridge.
fn is_datapath(word: &str) -> bool {
    let word = word.split_once('@').map_or(word, |(_, name)| name);
    matches!(word.strip_prefix("ovs-").unwrap_or(word), "dummy" | "netdev" | "system")
}

/// What is not in the packet is told by the flow beside it (OVS `pkt_metadata_from_flow()`).
fn with_metadata(seen: &Flow, told: &Flow) -> Flow {
    Flow {
        recirc_id: told.recirc_id,
        dp_hash: told.dp_hash,
        skb_priority: told.skb_priority,
        pkt_mark: told.pkt_mark,
        ct_state: told.ct_state,
        ct_zone: told.ct_zone,
        ct_mark: told.ct_mark,
        ct_label: told.ct_label,
        tunnel: told.tunnel,
        in_port: told.in_port,
        ..*seen
    }
}
