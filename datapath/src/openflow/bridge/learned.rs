//! Rules that were learned, as the tables of a bridge see them.

use std::sync::Arc;

use super::Bridge;
use super::rule::Rule;
use super::table::RuleFilter;
use crate::openflow::action::{Learn, OfAction};
use crate::openflow::classifier::RuleId;
use crate::openflow::flow_mod::FlowMod;
use crate::openflow::rule_match::Match;
use crate::types::{OfPort, TableId, Time};

impl FlowMod {
    /// Whether carrying it out would leave `rule` as it is, but for the time.
    pub(in crate::openflow) fn describes(&self, rule: &Rule) -> bool {
        self.idle_timeout == rule.idle_timeout
            && self.hard_timeout == rule.hard_timeout
            && self.importance == rule.importance
            && self.flags == rule.flags
            && self.new_cookie.is_none_or(|cookie| cookie == rule.cookie)
            && self.actions == rule.actions
    }
}

/// Calls `found` for each `learn`, nested ones included.
fn each_learn<'a>(actions: &'a [OfAction], found: &mut impl FnMut(&'a Learn)) {
    for action in actions {
        match action {
            OfAction::Learn(learn) => found(learn),
            OfAction::Clone(nested) => each_learn(nested, found),
            _ => {}
        }
    }
}

impl Rule {
    /// Tables and cookies of what goes with this rule.
    pub(in crate::openflow) fn learned_to_delete(&self) -> Vec<(TableId, u64)> {
        let mut out = Vec::new();
        each_learn(&self.actions, &mut |learn| {
            if learn.delete_learned {
                out.push((learn.table, learn.cookie));
            }
        });
        out
    }
}

impl Bridge {
    /// The rule that a change would replace: the same table, match and priority.
    pub(in crate::openflow) fn rule_like(&self, change: &FlowMod) -> Option<&Arc<Rule>> {
        let table = self.table(change.table.unwrap_or_default())?;
        let (flow, mask) = self.tun_table.resolve(&change.rule_match)?;
        self.rule(table.classifier.find_exactly(&flow, &mask, change.priority)?)
    }

    /// How many rules in the change's table have its cookie.
    pub(in crate::openflow) fn n_learned(&self, change: &FlowMod) -> usize {
        self.with_cookie(change.table.unwrap_or_default(), change.new_cookie.unwrap_or(u64::MAX)).len()
    }

    /// Rules of a table with a cookie, if no rule is left that learns such rules and asks for their end with it.
    pub(in crate::openflow) fn abandoned(&self, table: TableId, cookie: u64) -> Vec<Arc<Rule>> {
        let all = Match::catch_all();
        let learns = |rule: &Arc<Rule>| rule.learned_to_delete().contains(&(table, cookie));
        let everything = RuleFilter {
            table: None,
            rule_match: &all,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        if self.find_rules(&everything).iter().any(learns) {
            return Vec::new();
        }
        self.with_cookie(table, cookie)
    }

    fn with_cookie(&self, table: TableId, cookie: u64) -> Vec<Arc<Rule>> {
        let all = Match::catch_all();
        self.find_rules(&RuleFilter {
            table: Some(table),
            rule_match: &all,
            cookie: (cookie, u64::MAX),
            out_port: OfPort::NONE,
            out_group: None,
        })
    }

    /// Notes that a rule was made, or asked for again, at this time.
    pub(in crate::openflow) fn refresh_rule(&mut self, id: RuleId, at: Time) {
        if let Some(rule) = self.rules.get_mut(&id) {
            Arc::make_mut(rule).modified = at;
        }
    }
}
