//! Arguments of `encap` and `decap`.
//!
//! Counterpart: OVS `parse_ENCAP`, `parse_DECAP`, `lib/ofp-ed-props.c`.

use super::actions::problem;
use super::arguments::md_type;
use super::error::{ErrorKind, Fault};
use super::scan::{KeyValue, KeyValues, hex_bytes, u8_of, u16_of};
use crate::openflow::action::{Encap, EncapProp, OfAction};
use crate::openflow::headers::packet_type;

/// Names of headers that can be pushed.
pub(super) const HEADERS: [(&str, u32); 4] = [
    ("ethernet", packet_type::ETHERNET),
    ("nsh", packet_type::NSH),
    ("mpls", packet_type::MPLS),
    ("mpls_mc", packet_type::MPLS_MULTICAST),
];

/// Packet type namespaces that exist (OpenFlow 1.5, 7.2.3.11).
const N_NAMESPACES: u16 = 5;
/// Packet type that stands for "as the next header says" (OVS `PT_USE_NEXT_PROTO`).
const USE_NEXT_PROTO: u32 = 0xfffe;
/// Longest value of an NSH type-length-value, in bytes.
const TLV_MAX: usize = 125;

pub(super) fn encap(text: &str) -> Result<OfAction, Fault<'_>> {
    let Some(KeyValue { key, value }) = KeyValues::new(text).next() else {
        return Err(problem(text, "Missing encap hdr"));
    };
    let found = HEADERS.iter().find(|(name, _)| *name == key);
    let &(_, packet_type) = found.ok_or_else(|| problem(key, "Encap hdr not supported"))?;
    let props: Result<Vec<EncapProp>, _> =
        KeyValues::new(value).map(|word| encap_prop(packet_type, word)).collect();
    Ok(OfAction::Encap(Box::new(Encap { packet_type, props: props? })))
}

fn encap_prop(packet_type: u32, word: KeyValue<'_>) -> Result<EncapProp, Fault<'_>> {
    let KeyValue { key, value } = word;
    if packet_type != packet_type::NSH || !matches!(key, "md_type" | "tlv") {
        return Err(problem(key, "Invalid property"));
    }
    if value.is_empty() {
        return Err(Fault::new(key, ErrorKind::Usage("Value missing for encap property")));
    }
    if key == "md_type" { md_type(value).map(EncapProp::NshMdType) } else { tlv(value) }
}

/// Reads `0xclass,type,0xvalue`.
fn tlv(text: &str) -> Result<EncapProp, Fault<'_>> {
    let bad = || problem(text, "Invalid NSH TLV header");
    let mut parts = text.split(',');
    let (Some(class), Some(kind), Some(data), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(bad());
    };
    let (Some(_), Some(digits)) = (class.strip_prefix("0x"), data.strip_prefix("0x")) else {
        return Err(bad());
    };
    let (data, rest) = hex_bytes(digits);
    if !rest.is_empty() || data.is_empty() || data.len() > TLV_MAX {
        return Err(bad());
    }
    Ok(EncapProp::NshTlv { class: u16_of(class, "class")?, kind: u8_of(kind, "type")?, data })
}

pub(super) fn decap(text: &str) -> Result<OfAction, Fault<'_>> {
    let Some(KeyValue { key, value }) = KeyValues::new(text).next() else {
        return Ok(OfAction::Decap(None));
    };
    if key != "packet_type" {
        return Err(problem(key, "Invalid decap argument"));
    }
    let mut words = KeyValues::new(value);
    let mut attribute = |name: &'static str, usage: &'static str| match words.next() {
        Some(word) if word.key == name => u16_of(word.value, name),
        Some(_) | None => Err(Fault::new(value, ErrorKind::Usage(usage))),
    };
    let ns = attribute("ns", "Missing packet_type attribute ns")?;
    if ns >= N_NAMESPACES {
        return Err(problem(value, "Unsupported ns value"));
    }
    let kind = attribute("type", "Missing packet_type attribute type")?;
    let packet_type = u32::from(ns) << 16 | u32::from(kind);
    Ok(OfAction::Decap((packet_type != USE_NEXT_PROTO).then_some(packet_type)))
}
