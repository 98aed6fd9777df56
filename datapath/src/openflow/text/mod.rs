//! OpenFlow text, both ways: rules, matches, actions and groups as ovs-ofctl writes and reads them.
//!
//! Owns the syntax only. What is read comes back as the types of [`crate::openflow`]; what is wrong names the word and
//! its place ([`TextError`]). What is written can be read again to the same. Never touches tables or ports: names come from
//! a [`Names`]. Counterpart: OVS `lib/ofp-parse.c`, `lib/ofp-flow.c`, `lib/ofp-actions.c`, `lib/ofp-group.c`, and the text
//! parts of `lib/meta-flow.c`, `lib/match.c`, `lib/learn.c`, `lib/bundle.c`, `lib/multipath.c`.

mod actions;
mod arguments;
pub(crate) mod check;
mod ct;
mod encap;
mod error;
mod exact;
mod flags;
mod format;
mod group;
mod learn;
mod matches;
mod meter;
mod names;
mod normalize;
mod packet_out;
mod rule;
mod scan;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use ct::{ALG_FTP, ALG_TFTP};
pub use error::{ErrorKind, OfpError, TextError};
pub use exact::parse_exact_flow;
pub(crate) use flags::{conntrack_state_text, parse_conntrack_state};
pub use group::{group_to_text, parse_group_mod, parse_group_mod_line};
pub use meter::{meter_to_text, parse_meter, parse_meter_id};
pub use names::{Names, NoNames, format_port, parse_port};
pub use normalize::normalize;
pub use packet_out::{PacketOut, parse_packet_out};
pub(in crate::openflow) use value::{format as format_value, put_hex, put_subfield};

pub(crate) use rule::seconds;
pub use rule::{
    ParsedFlowMod, RuleStats, RuleText, actions_to_text, match_to_text, parse_actions, parse_flow_mod,
    parse_flow_mod_line, parse_match, without_comment,
};
pub use value::field_by_name;
pub(crate) use value::has_short_header as field_has_short_header;
