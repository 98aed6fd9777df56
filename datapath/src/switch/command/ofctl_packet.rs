//! `ovs-ofctl packet-out` and `compose-packet`.
//!
//! Counterpart: OVS `lib/ofp-packet.c` and `utilities/ovs-ofctl.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::ofctl::{ofctl_error, version_for};
use super::{CommandError, bad_text, refused};
use crate::flow::{ExtractConfig, Flow, Payload, compose};
use crate::openflow::command::ofctl::OfctlOptions;
use crate::openflow::command::{Word, hex};
use crate::openflow::ofproto::{Credit, flow_text};
use crate::openflow::text::check::check;
use crate::openflow::text::{
    NoNames, OfpError, PacketOut, parse_actions, parse_exact_flow, parse_packet_out, parse_port,
};
use crate::openflow::tunnel::TunTable;
use crate::openflow::wire::received;
use crate::openflow::{Match, protocol::Protocols};

use crate::trace::Off;
use crate::types::{OfPort, PortNo, TableId, Time};

/// Shortest frame that a message may carry.
const MIN_FRAME: usize = 14;

impl Switch {
    /// `packet-out`: carries out actions on packets that come from a controller.
    pub(super) fn packet_out_text(
        &mut self,
        bridge: &str,
        words: &[Word],
        options: &OfctlOptions,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let (mut out, frames) = match words {
            [only] => {
                let out = parse_packet_out(&only.text, names).map_err(|error| bad_text(only, error))?;
                let frame = out.packet.clone();
                (out, vec![frame])
            }
            // How it was written before there were fields.
            [port, actions, packets @ ..] => {
                let unknown = || refused(format!("ovs-ofctl: {bridge}: unknown port `{}'", port.text));
                let in_port = parse_port(&port.text, names).ok_or_else(unknown)?;
                let actions =
                    parse_actions(&actions.text, names).map_err(|error| bad_text(actions, error))?;
                let frames: Result<Vec<Vec<u8>>, CommandError> = packets
                    .iter()
                    .map(|word| hex(&word.text).map_err(|problem| refused(format!("ovs-ofctl: {problem}"))))
                    .collect();
                let metadata = Match::catch_all();
                let out =
                    PacketOut { in_port, metadata, actions, packet: Vec::new(), protocols: Protocols::ANY };
                (out, frames?)
            }
            [] => (PacketOut::default(), Vec::new()),
        };
        if frames.iter().any(|frame| frame.len() < MIN_FRAME) {
            return Err(refused("ovs-ofctl: Packet data too short for Ethernet"));
        }
        let version = version_for(options, out.protocols)?;
        out.actions = received(version, &out.actions, &Match::catch_all()).map_err(ofctl_error)?;
        self.credit(now);
        for frame in frames {
            self.send_packet_out(id, &out, &frame, now)?;
        }
        Ok(())
    }

    fn send_packet_out(
        &mut self,
        id: crate::openflow::bridge::BridgeId,
        out: &PacketOut,
        frame: &[u8],
        now: Time,
    ) -> Result<(), CommandError> {
        let port = self.ofproto().bridge(id).and_then(|bridge| bridge.port(out.in_port));
        let odp_port = port.and_then(|port| port.odp_port).unwrap_or(PortNo::NONE);
        let mut packet = self.allocate();
        packet.set_frame(frame);
        packet.md.init(odp_port);
        let config = ExtractConfig { vlan_limit: self.datapath().config().vlan_limit };
        let seen = Flow::of_packet_with(&mut packet, config);
        let key = with_fields(&seen, &out.metadata);
        let of_packet = Match { flow: key, mask: Flow::all_ones(), tun_metadata: Vec::new() };
        let usable = check(&out.actions, &of_packet, Some(TableId(0)));
        if usable.is_err() {
            return Err(refused(format!("ovs-ofctl: {}", OfpError::MatchInconsistent)));
        }
        let credit =
            Credit { packets: 1, bytes: frame.len() as u64, used: now, tcp_flags: key.tcp_flags.get() };
        let actions = self
            .ofproto_mut()
            .packet_out(id, out.in_port, &key, &out.actions, &credit, now)
            .map_err(super::ofctl::ofctl_error)?;
        self.execute(packet, &actions, now, &mut Off).map_err(super::ofctl::ofctl_error)
    }
}

/// A packet's key with the fields that come beside the packet.
fn with_fields(seen: &Flow, fields: &Match) -> Flow {
    let told = &fields.flow;
    Flow { metadata: told.metadata, regs: told.regs, tunnel: told.tunnel, ..*seen }
}

/// `compose-packet`: a frame that has these fields, as bytes; then what the frame has otherwise, if there is such.
pub(super) fn compose_packet(
    flow: &Word,
    payload: Option<&Word>,
    options: &OfctlOptions,
) -> Result<String, CommandError> {
    let wanted = parse_exact_flow(&flow.text, &NoNames, &TunTable::default())
        .map_err(|error| bad_text(flow, error))?;
    let bytes = payload.map(|word| hex(&word.text)).transpose().map_err(|_| {
        let text = payload.map_or("", |word| word.text.as_str());
        refused(format!("ovs-ofctl: {text}: trailing garbage in packet data"))
    })?;
    let payload = bytes.as_deref().map_or(Payload::DEFAULT, Payload::Bytes);
    let mut packet = compose(&wanted, payload, options.bad_csum);
    let mut out = if options.bare { bare(packet.data()) } else { dump(packet.data()) };
    let found = Flow { in_port: u32::from(OfPort::NONE.0), ..Flow::of_packet(&mut packet) };
    if found != wanted {
        let _ = write!(
            out,
            "specified and extracted flows differ:\nspecified: {}\nextracted: {}",
            flow_text(&wanted, &NoNames),
            flow_text(&found, &NoNames)
        );
    }
    Ok(out)
}

fn bare(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sixteen bytes a line, each line with its place.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (n, line) in bytes.chunks(16).enumerate() {
        let _ = write!(out, "{:08x} ", n * 16);
        for (at, byte) in line.iter().enumerate() {
            let _ = write!(out, "{}{byte:02x}", if at == 8 { '-' } else { ' ' });
        }
        out.push('\n');
    }
    out
}
