//! Datapath action text, both ways: `push_vlan(vid=10,pcp=5),p2`.
//!
//! Owns the syntax of action lists as `ovs-appctl dpctl/dump-flows` prints and `dpctl/add-flow` reads them, and the line
//! of a dumped flow. It never runs actions. Counterpart: `format_odp_actions`, `odp_actions_from_string` of OVS
//! `lib/odp-util.c`.

mod ct;
mod dump;
mod format;
mod header;
mod set;
mod userspace;

use std::fmt;

use super::Action;
use crate::flow::text::PortNames;

pub use dump::{DumpText, FlowStats};

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

impl fmt::Display for ActionsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format::list(f, self.actions, self.names)
    }
}

#[cfg(test)]
mod tests;
