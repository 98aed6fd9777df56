//! Datapath action text, both ways: `push_vlan(vid=10,pcp=5),p2`.
//!
//! Owns the syntax of action lists as `ovs-appctl dpctl/dump-flows` prints and `dpctl/add-flow` reads them, and the line
//! of a dumped flow. It never runs actions. Counterpart: `format_odp_actions`, `odp_actions_from_string` of OVS
//! `lib/odp-util.c`.
//!
//! As for flows ([`crate::flow::text`]) text is the same byte for byte, but for what OVS cannot read back:
//! - all actions are read that are printed, `drop` inside others too;
//! - a tunnel is set as a whole, without masks, and needs a TTL; `encap` cannot be set;
//! - `userspace(pid=N)` has no user data, where OVS makes it 48 zero bytes;
//! - bytes of `md2=` and `cookie=` keep a zero in front.

mod ct;
mod dump;
mod dump_parse;
mod format;
mod header;
mod header_parse;
mod parse;
mod set;
mod userspace;

use std::fmt;

use super::{Action, Actions};
use crate::flow::text::parse::Parser;
use crate::flow::text::{PortNames, TextError};

pub use dump::{DumpText, FlowStats};
pub use dump_parse::{DumpLine, canonical_flow, parse_dump};

/// Actions to print: [`format_actions`].
#[derive(Clone, Copy)]
pub struct ActionsText<'a> {
    actions: &'a [Action],
    names: Option<&'a dyn PortNames>,
}

/// The text of an action list; `drop` if it is empty. `names` turns port numbers into names.
pub fn format_actions<'a>(actions: &'a [Action], names: Option<&'a dyn PortNames>) -> ActionsText<'a> {
    ActionsText { actions, names }
}

/// Reads an action list. `names` are names of ports besides their numbers.
///
/// # Errors
/// The first word that is not understood, and where it is.
pub fn parse_actions(text: &str, names: Option<&dyn PortNames>) -> Result<Actions, TextError> {
    parse::ActionParser::new(Parser::new(text, names, true)).all(&[])
}

impl fmt::Display for ActionsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::list(f, self.actions, self.names)
    }
}

#[cfg(test)]
mod tests;
