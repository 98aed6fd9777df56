//! Words for the story of a translation.

use crate::flow::Flow;
use crate::openflow::action::OfAction;
use crate::openflow::bridge::{Bridge, Rule, RuleKind};
use crate::openflow::field::Subfield;
use crate::openflow::recirc::FrozenAction;
use crate::types::{OfPort, TableId};

pub(super) fn table_line(bridge: &Bridge, rule: &Rule, table: TableId) -> String {
    let what = match rule.kind {
        RuleKind::Miss => "No match, and a \"packet-in\" is called for.".to_owned(),
        RuleKind::NoPacketIn => "No match.".to_owned(),
        RuleKind::DropFragments => {
            "Packets are IP fragments and the fragment handling mode is \"drop\".".to_owned()
        }
        RuleKind::User => {
            let mut text = rule_match(bridge, rule);
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&format!("priority {}", rule.priority));
            if rule.cookie != 0 {
                text.push_str(&format!(", cookie {:#x}", rule.cookie));
            }
            text
        }
    };
    format!("{:2}. {what}", table.0)
}

pub(super) fn rule_match(_bridge: &Bridge, rule: &Rule) -> String {
    format!("{:?}", rule.rule_match.is_catch_all())
}

pub(super) fn action(_bridge: &Bridge, action: &OfAction) -> String {
    format!("{action:?}")
}

pub(super) fn actions_plain(actions: &[OfAction]) -> String {
    format!("{actions:?}")
}

pub(super) fn frozen_actions(actions: &[FrozenAction]) -> String {
    format!("{actions:?}")
}

pub(super) fn port(_bridge: &Bridge, port: OfPort) -> String {
    format!("{}", port.0)
}

pub(super) fn port_number(_bridge: &Bridge, port: OfPort) -> String {
    format!("{}", port.0)
}

pub(super) fn subfield_value(field: &Subfield, flow: &Flow) -> String {
    format!("{} is now {:?}", field.field, field.get(flow).low())
}
