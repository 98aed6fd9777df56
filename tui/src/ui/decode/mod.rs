//! A frame as layers with named fields, for display. Headers that are cut or wrong end the decoding; what is left is data.
//!
//! For eyes only: the switch has its own extraction, and nothing here is ever decided on.

mod compare;
mod headers;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use compare::{Change, compare};
use headers::Next;

/// Headers looked at in one frame at most.
const LAYERS: usize = 24;

/// One header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Name of the protocol.
    pub name: &'static str,
    /// Its bytes.
    pub range: Range<usize>,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

/// One field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: &'static str,
    /// Value, for people.
    pub value: String,
    /// Its bytes within the frame; neighbouring fields of one byte share it.
    pub range: Range<usize>,
}

/// The layers of an Ethernet frame. The last is `Data` if bytes are left.
pub fn layers(frame: &[u8]) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut at = 0;
    let mut end = frame.len();
    let mut next = Next::Ethernet;
    while at < end && layers.len() < LAYERS {
        let rest = &frame[at..end];
        let decoded = headers::decode(next, rest);
        let Some(header) = decoded.filter(|header| header.len > 0 && header.len <= rest.len()) else { break };
        if let Some(payload) = header.payload {
            // An IP header says where its datagram ends; what is behind it is padding.
            end = end.min(at + header.len + payload);
        }
        let mut fields = header.fields;
        for field in &mut fields {
            field.range = field.range.start + at..field.range.end + at;
        }
        layers.push(Layer { name: header.name, range: at..at + header.len, fields });
        at += header.len;
        next = header.next;
    }
    for (name, range) in [("Data", at..end.max(at)), ("Padding", end.max(at)..frame.len())] {
        if !range.is_empty() {
            let length = Field { name: "length", value: range.len().to_string(), range: range.clone() };
            layers.push(Layer { name, range, fields: vec![length] });
        }
    }
    layers
}
