//! `in_port=1,packet=...,actions=...`: a packet that a controller sends.
//!
//! Counterpart: OVS `parse_ofp_packet_out_str()` of `lib/ofp-packet.c`.

use super::actions::{ActionReader, Outer};
use super::error::{ErrorKind, Fault, TextError};
use super::matches;
use super::names::{Names, parse_port};
use super::rule::split_at_actions;
use super::scan::{KeyValues, hex_bytes};
use super::value::field_by_name;
use crate::openflow::action::OfActions;
use crate::openflow::field::Field;
use crate::openflow::protocol::Protocols;
use crate::openflow::rule_match::Match;
use crate::types::OfPort;

/// A packet that a controller sends.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketOut {
    /// Port that it counts as received by.
    pub in_port: OfPort,
    /// Fields that are not in the packet.
    pub metadata: Match,
    /// What to do with it.
    pub actions: OfActions,
    /// The frame.
    pub packet: Vec<u8>,
    /// Ways in which that can be said.
    pub protocols: Protocols,
}

impl Default for PacketOut {
    fn default() -> Self {
        Self {
            in_port: OfPort::CONTROLLER,
            metadata: Match::catch_all(),
            actions: OfActions::new(),
            packet: Vec::new(),
            protocols: Protocols::ANY,
        }
    }
}

/// Reads it.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_packet_out(line: &str, names: &dyn Names) -> Result<PacketOut, TextError> {
    parse(line, names).map_err(|fault| fault.within(line))
}

fn parse<'a>(line: &'a str, names: &dyn Names) -> Result<PacketOut, Fault<'a>> {
    let (attributes, actions) = split_at_actions(line);
    let mut out = PacketOut::default();
    for word in KeyValues::new(attributes) {
        if word.value.is_empty() {
            return Err(Fault::new(word.key, ErrorKind::MissingValue(word.key.to_owned())));
        }
        match word.key {
            "in_port" => out.in_port = in_port(word.value, names)?,
            "packet" => {
                let (bytes, rest) = hex_bytes(word.value);
                if !rest.is_empty() {
                    return Err(problem(word.value, "packet: Trailing garbage in packet data"));
                }
                out.packet = bytes;
            }
            key => {
                let known = matches::parse_word(word, &mut out.metadata, names, &mut out.protocols)?;
                match field_by_name(key).filter(|_| known) {
                    Some(field) if is_pipeline_field(field) => {}
                    Some(_) => return Err(problem(key, "is not a valid pipeline field for PACKET_OUT")),
                    None => return Err(Fault::new(key, ErrorKind::UnknownKeyword(key.to_owned()))),
                }
            }
        }
    }
    if out.packet.is_empty() {
        return Err(Fault::new(&line[line.len()..], ErrorKind::Usage("must specify packet")));
    }
    if let Some(actions) = actions {
        out.actions = ActionReader::new(names).list(actions, Outer::List)?;
    }
    Ok(out)
}

fn problem<'a>(at: &'a str, problem: &'static str) -> Fault<'a> {
    Fault::new(at, ErrorKind::Problem { text: at.to_owned(), problem })
}

fn in_port<'a>(text: &'a str, names: &dyn Names) -> Result<OfPort, Fault<'a>> {
    let port = parse_port(text, names).ok_or_else(|| problem(text, "is not a valid OpenFlow port"))?;
    if port > OfPort::MAX && ![OfPort::LOCAL, OfPort::NONE, OfPort::CONTROLLER].contains(&port) {
        return Err(problem(text, "is not a valid OpenFlow port for PACKET_OUT"));
    }
    Ok(port)
}

/// Whether a field goes with the packet through the tables without being in it (OVS `mf_is_pipeline_field()`).
fn is_pipeline_field(field: Field) -> bool {
    match field {
        Field::TunTtl | Field::TunTos => false,
        Field::PacketType => true,
        other => {
            (Field::TunId..=Field::InPortOxm).contains(&other)
                || (Field::Reg(0)..Field::EthSrc).contains(&other)
        }
    }
}
