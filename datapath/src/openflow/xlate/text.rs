//! Words for the story of a translation.

use std::fmt::Write;

use super::ctx::Ctx;
use crate::flow::Flow;
use crate::openflow::action::OfAction;
use crate::openflow::bridge::{Bridge, Rule, RuleKind};
use crate::openflow::field::{FieldValue, Subfield};
use crate::openflow::recirc::FrozenAction;
use crate::openflow::text::{
    Names, NoNames, actions_to_text, format_port, format_value, match_to_text, put_hex, put_subfield,
};
use crate::openflow::tunnel::TunTable;
use crate::types::{OfPort, TableId};

/// The names of a bridge's ports, where ports are to be told by name.
#[derive(Clone, Copy)]
pub(crate) struct PortsOf<'a>(pub(crate) Option<&'a Bridge>);

impl Names for PortsOf<'_> {
    fn port(&self, name: &str) -> Option<OfPort> {
        self.0.and_then(|bridge| bridge.port_named(name)).map(|port| port.of_port)
    }

    fn port_name(&self, port: OfPort) -> Option<&str> {
        self.0.and_then(|bridge| bridge.port(port)).map(|port| port.name.as_str())
    }
}

impl<'a> Ctx<'a, '_> {
    /// Names to tell this story with.
    pub(super) fn names(&self) -> PortsOf<'a> {
        PortsOf(self.trace.as_deref().is_some_and(|trace| trace.names).then_some(self.bridge))
    }
}

/// The line for a rule.
pub(super) fn table_line(rule: &Rule, table: TableId, names: &dyn Names) -> String {
    let what = match rule.kind {
        RuleKind::Miss => "No match, and a \"packet-in\" is called for.".to_owned(),
        RuleKind::NoPacketIn => "No match.".to_owned(),
        RuleKind::DropFragments => {
            "Packets are IP fragments and the fragment handling mode is \"drop\".".to_owned()
        }
        RuleKind::User => {
            let mut text = match_to_text(&rule.rule_match, None, names);
            if !text.is_empty() {
                text.push_str(", ");
            }
            // Writing to a string cannot fail.
            let _ = write!(text, "priority {}", rule.priority);
            if rule.cookie != 0 {
                let _ = write!(text, ", cookie {:#x}", rule.cookie);
            }
            text
        }
    };
    format!("{:2}. {what}", table.0)
}

/// A rule that is a part of a conjunction.
pub(super) fn rule_match(rule: &Rule, names: &dyn Names) -> String {
    match_to_text(&rule.rule_match, Some(rule.priority), names)
}

/// One action.
pub(super) fn action(action: &OfAction, names: &dyn Names) -> String {
    actions_to_text(std::slice::from_ref(action), names)
}

/// A list of actions, with numbers of ports.
pub(super) fn actions(actions: &[OfAction]) -> String {
    actions_to_text(actions, &NoNames)
}

/// What is left of a list of actions.
pub(super) fn frozen_actions(actions: &[FrozenAction]) -> String {
    let text = |frozen: &FrozenAction| match frozen {
        FrozenAction::Action(action) => actions_to_text(std::slice::from_ref(action), &NoNames),
        &FrozenAction::Unroll { table, cookie } => unroll(table, cookie),
    };
    actions.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The action that brings back which rule others are from.
pub(super) fn unroll(table: TableId, cookie: u64) -> String {
    format!("unroll_xlate(table={}, cookie={cookie})", table.0)
}

/// What that did. OVS prints the cookie in network byte order here.
pub(super) fn restored(table: TableId, cookie: u64) -> String {
    let mut text = format!("restored state: table={}, cookie=", table.0);
    put_hex(&mut text, &FieldValue::new(u128::from(cookie.swap_bytes())));
    text
}

/// A port, by number or reserved name.
pub(super) fn port(port: OfPort) -> String {
    let mut text = String::new();
    format_port(&mut text, port, &NoNames);
    text
}

/// What an action wrote into a field.
pub(super) fn subfield_value(sub: &Subfield, flow: &Flow, options: &TunTable) -> String {
    let mut text = String::new();
    put_subfield(&mut text, sub);
    text.push_str(" is now ");
    if sub.is_whole() {
        let ones = FieldValue::ones(sub.field.n_bits());
        format_value(&mut text, sub.field, &options.field(sub.field, flow), &ones, &NoNames);
    } else {
        put_hex(&mut text, &options.read(sub, flow));
    }
    text
}
