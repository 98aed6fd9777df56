//! `learn`: making a rule from a packet.
//!
//! The rule itself is added by whoever asked for the translation. Counterpart: `xlate_learn_action()` of OVS
//! `ofproto/ofproto-dpif-xlate.c`, and `lib/learn.c`.

use std::fmt::Write;
use std::sync::Arc;

use super::Cached;
use super::ctx::Ctx;
use super::trace::NodeKind;
use crate::flow::Flow;
use crate::openflow::action::{Learn, LearnDst, LearnSpec, LearnSrc, OfAction, OfActions, SetField};
use crate::openflow::field::{Field, FieldValue, Prereq};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
use crate::openflow::rule_match::Match;
use crate::openflow::text::{NoNames, match_to_text};
use crate::openflow::tunnel::TunTable;
use crate::types::OfPort;

/// A cookie that leaves that of a rule which is there already.
const COOKIE_KEPT: u64 = u64::MAX;

impl Ctx<'_, '_> {
    /// `learn`.
    pub(super) fn learn_rule(&mut self, learn: &Learn) {
        for spec in &learn.specs {
            if let LearnSrc::Field(src) = &spec.src {
                self.bridge.tun_table.mark(src, &mut self.wc);
            }
        }
        if self.effects.only_looks {
            self.say(NodeKind::Warn, "suppressing side effects, so learn action ignored");
            return;
        }
        let change = Arc::new(learned_rule(learn, &self.flow, &self.bridge.tun_table));
        self.report(NodeKind::Detail, |_| story(&change));
        let is_new = !self.bridge.rule_like(&change).is_some_and(|rule| change.describes(rule));
        let mut success = true;
        if is_new && learn.limit != 0 {
            if self.effects.may_learn {
                success = self.n_learned(&change) < learn.limit as usize;
            } else {
                // The rule is gone and no packet brings it back: what was learned then cannot be relied on.
                self.avoid_caching = true;
            }
        }
        if let Some(dst) = &learn.result_dst {
            self.load_number(dst, success.into());
        }
        if success {
            self.cache.push(Cached::Learn { bridge: self.bridge.id, change, limit: learn.limit });
        } else {
            self.say(NodeKind::Detail, "Limit exceeded, learn failed");
        }
    }

    /// Rules in its table with its cookie, those that this packet makes included.
    fn n_learned(&self, change: &FlowMod) -> usize {
        let alike = |cached: &&Cached| match cached {
            Cached::Learn { bridge, change: other, .. } => {
                *bridge == self.bridge.id
                    && other.table == change.table
                    && other.new_cookie == change.new_cookie
                    && self.bridge.rule_like(other).is_none()
            }
            _ => false,
        };
        self.bridge.n_learned(change) + self.cache.iter().filter(alike).count()
    }
}

/// The change that adds the rule which a packet with this key asks for.
fn learned_rule(learn: &Learn, flow: &Flow, options: &TunTable) -> FlowMod {
    let mut rule_match = Match::catch_all();
    let mut actions = OfActions::new();
    if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 {
        actions.push(OfAction::FinTimeout { idle: learn.fin_idle_timeout, hard: learn.fin_hard_timeout });
    }
    for spec in &learn.specs {
        let value = match &spec.src {
            LearnSrc::Field(src) => options.read(src, flow),
            LearnSrc::Immediate(value) => *value,
        };
        apply(spec, value, &mut rule_match, &mut actions);
    }
    FlowMod {
        table: Some(learn.table),
        priority: learn.priority,
        rule_match,
        new_cookie: (learn.cookie != COOKIE_KEPT).then_some(learn.cookie),
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        flags: FlowModFlags { send_flow_rem: learn.send_flow_rem, ..FlowModFlags::default() },
        actions,
        ..FlowMod::new(FlowModCommand::ModifyStrict)
    }
}

fn apply(spec: &LearnSpec, value: FieldValue, rule_match: &mut Match, actions: &mut OfActions) {
    match &spec.dst {
        LearnDst::Match(dst) => {
            let (old, mask) = rule_match.get(dst.field);
            let value = old.deposit(dst.ofs, dst.n_bits, &value);
            let mask = mask | dst.bits();
            if mask == FieldValue::ones(dst.field.n_bits()) {
                rule_match.set_exact(dst.field, &value);
            } else {
                rule_match.set(dst.field, &value, &mask);
            }
            if dst.field.info().prereq != Prereq::None && rule_match.mask.packet_type.get() == 0 {
                rule_match.set_exact(Field::PacketType, &FieldValue::ZERO);
            }
        }
        LearnDst::Load(dst) => actions.push(OfAction::SetField(Box::new(SetField {
            field: dst.field,
            value: value.shl(dst.ofs),
            mask: dst.bits(),
            load: true,
        }))),
        LearnDst::Output => {
            let Ok(port) = u16::try_from(value.low()).map(OfPort) else { return };
            let reserved = matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
            if port < OfPort::MAX || reserved {
                actions.push(OfAction::Output { port, max_len: 0 });
            }
        }
    }
}

/// The rule, as a trace tells it.
fn story(change: &FlowMod) -> String {
    let mut text = format!("table={} ", change.table.unwrap_or_default().0);
    text.push_str(&match_to_text(&change.rule_match, None, &NoNames));
    let trimmed = text.trim_end().len();
    text.truncate(trimmed);
    // Writing to a string cannot fail.
    let _ = write!(text, " priority={}", change.priority);
    let cookie = change.new_cookie.unwrap_or(COOKIE_KEPT);
    if cookie != 0 {
        let _ = write!(text, " cookie={cookie:#x}");
    }
    for (name, seconds) in [("idle", change.idle_timeout), ("hard", change.hard_timeout)] {
        if seconds != 0 {
            let _ = write!(text, " {name}={seconds}");
        }
    }
    if change.flags.send_flow_rem {
        text.push_str(" send_flow_rem");
    }
    text.push_str(" actions=");
    text.push_str(&super::text::actions(&change.actions));
    text
}
