//! Exact keys in OpenFlow syntax: each field has one value, those not named are 0.
//!
//! Counterpart: OVS `parse_ofp_exact_flow()` of `lib/ofp-flow.c`.

use super::error::{ErrorKind, Fault, TextError};
use super::names::Names;
use super::scan::KeyValues;
use super::{matches, value};
use crate::flow::Flow;
use crate::openflow::field::FieldValue;
use crate::openflow::tunnel::TunTable;
use crate::types::OfPort;

/// Reads a key, an OpenFlow port in it: [`OfPort::NONE`] if none is named.
///
/// # Errors
/// What is wrong with the first word that is: not a field, set twice, with a mask, or without the protocol it belongs to.
pub fn parse_exact_flow(line: &str, names: &dyn Names, options: &TunTable) -> Result<Flow, TextError> {
    let mut flow = Flow::default();
    for word in KeyValues::new(line) {
        let bad = |problem: String| {
            Fault::new(word.key, ErrorKind::ExactFlow { flow: line.to_owned(), problem }).within(line)
        };
        if let Some((dl_type, proto)) = matches::shorthand(word.key) {
            if flow.dl_type.get() != 0 {
                return Err(bad("Ethernet type set multiple times".to_owned()));
            }
            flow.dl_type.set(dl_type);
            if proto != 0 {
                if flow.nw_proto != 0 {
                    return Err(bad("network protocol set multiple times".to_owned()));
                }
                flow.nw_proto = proto;
            }
            continue;
        }
        let Some(field) = value::field_by_name(word.key) else {
            return Err(bad(format!("unknown field {}", word.key)));
        };
        if !field.prereqs_met(&flow, None) {
            return Err(bad(format!("prerequisites not met for setting {}", word.key)));
        }
        if !options.field(field, &flow).is_zero() {
            return Err(bad(format!("field {} set multiple times", word.key)));
        }
        let value = value::parse_exact(field, word.value, names)
            .map_err(|fault| bad(format!("bad value for {} ({})", word.key, fault.kind)))?;
        options.set_field(field, &mut flow, &value, &FieldValue::ones(field.n_bits()));
    }
    if flow.in_port == 0 {
        flow.in_port = u32::from(OfPort::NONE.0);
    }
    Ok(flow)
}
