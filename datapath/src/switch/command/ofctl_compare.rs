//! `ovs-ofctl replace-flows` and `diff-flows`: rules of a file against those of a bridge.
//!
//! Counterpart: the flow table entries (`struct fte`) of OVS `utilities/ovs-ofctl.c`.

use std::fmt::Write as _;
use std::sync::Arc;

use super::super::Switch;
use super::ofctl::version_for;
use super::ofctl_file::{bad_line, lines, read_file, refused_line};
use super::{CommandError, FileReader};
use crate::openflow::Match;
use crate::openflow::bridge::{BridgeId, Rule, RuleFilter};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::OfctlOptions;
use crate::openflow::flow_mod::{FlowMod, FlowModCommand};
use crate::openflow::text::{Names, NoNames, ParsedFlowMod, actions_to_text, match_to_text, parse_flow_mod};
use crate::types::{OfPort, TableId, Time};

/// A rule, from wherever.
struct Entry {
    table: TableId,
    priority: u16,
    rule_match: Match,
    cookie: u64,
    idle_timeout: u16,
    hard_timeout: u16,
    importance: u16,
    /// As text: what is written alike is the same.
    actions: String,
}

impl Entry {
    fn of_rule(rule: &Rule) -> Self {
        Self {
            table: rule.table,
            priority: rule.priority,
            rule_match: rule.rule_match.clone(),
            cookie: rule.cookie,
            idle_timeout: rule.idle_timeout,
            hard_timeout: rule.hard_timeout,
            importance: rule.importance,
            actions: actions_to_text(&rule.actions, &NoNames),
        }
    }

    fn of_change(change: &FlowMod) -> Self {
        Self {
            table: change.table.unwrap_or_default(),
            priority: change.priority,
            rule_match: change.rule_match.clone(),
            cookie: change.new_cookie.unwrap_or(0),
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            importance: change.importance,
            actions: actions_to_text(&change.actions, &NoNames),
        }
    }

    /// Whether a rule with this match stands in place of one with that.
    fn is_place_of(&self, other: &Self) -> bool {
        (self.table, self.priority) == (other.table, other.priority) && self.rule_match == other.rule_match
    }

    fn is_same(&self, other: &Self) -> bool {
        let what = |entry: &Self| (entry.cookie, entry.idle_timeout, entry.hard_timeout, entry.importance);
        what(self) == what(other) && self.actions == other.actions
    }

    fn text(&self, names: &dyn Names) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        if self.table.0 != 0 {
            let _ = write!(out, "table={} ", self.table.0);
        }
        out.push_str(&match_to_text(&self.rule_match, Some(self.priority), names));
        if self.cookie != 0 {
            let _ = write!(out, " cookie={:#x}", self.cookie);
        }
        let numbers = [
            ("idle_timeout", self.idle_timeout),
            ("hard_timeout", self.hard_timeout),
            ("importance", self.importance),
        ];
        for (name, number) in numbers.into_iter().filter(|&(_, number)| number != 0) {
            let _ = write!(out, " {name}={number}");
        }
        let _ = write!(out, " actions={}", self.actions);
        out
    }
}

impl Switch {
    fn file_rules(
        &self,
        file: &Word,
        names: &dyn Names,
        files: &mut FileReader<'_>,
    ) -> Result<Vec<(usize, ParsedFlowMod)>, CommandError> {
        let text = read_file(file, files)?;
        let parsed = lines(&text).map(|(number, line)| {
            parse_flow_mod(line, FlowModCommand::Add, names)
                .map(|parsed| (number, parsed))
                .map_err(|error| bad_line(file, number, &error))
        });
        parsed.collect()
    }

    fn bridge_entries(&self, id: BridgeId) -> Vec<Entry> {
        let all = Match::catch_all();
        let filter = RuleFilter {
            table: None,
            rule_match: &all,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        let rules: Vec<Arc<Rule>> =
            self.ofproto().bridge(id).map(|bridge| bridge.find_rules(&filter)).unwrap_or_default();
        rules.iter().map(|rule| Entry::of_rule(rule)).collect()
    }

    /// `replace-flows`: what the file does not have goes, what it has otherwise is added anew.
    pub(super) fn replace_flows(
        &mut self,
        bridge: &str,
        file: &Word,
        options: &OfctlOptions,
        files: &mut FileReader<'_>,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let wanted = self.file_rules(file, names, files)?;
        let mut kept: Vec<(usize, ParsedFlowMod, Entry)> = Vec::new();
        for (number, parsed) in wanted {
            let entry = Entry::of_change(&parsed.flow_mod);
            // Of lines for one place, the last counts.
            kept.retain(|(.., before)| !before.is_place_of(&entry));
            kept.push((number, parsed, entry));
        }
        self.credit(now);
        let mut next = self.clone();
        let there = self.bridge_entries(id);
        for gone in there.iter().filter(|old| !kept.iter().any(|(.., new)| new.is_place_of(old))) {
            let delete = deletion(gone);
            next.ofproto_mut().flow_mod(id, &delete, now).map_err(super::ofctl::ofctl_error)?;
        }
        for (number, parsed, entry) in kept {
            let known = there.iter().any(|old| old.is_place_of(&entry) && old.is_same(&entry));
            if known && !options.readd {
                continue;
            }
            let version = version_for(options, parsed.protocols);
            version
                .and_then(|version| next.send_flow_mod(id, parsed.flow_mod, version, now))
                .map_err(|error| refused_line(file, number, &error))?;
        }
        *self = next;
        Ok(())
    }

    /// `diff-flows`: a bridge where there is one of that name, else a file.
    pub(super) fn diff_flows(
        &mut self,
        sources: [&Word; 2],
        options: &OfctlOptions,
        files: &mut FileReader<'_>,
    ) -> Result<String, CommandError> {
        let mut sides = Vec::new();
        for source in sources {
            let entries = match self.ofproto().bridge_named(&source.text) {
                Some(bridge) => self.bridge_entries(bridge.id),
                None => {
                    let rules = self.file_rules(source, &NoNames, files)?;
                    rules.iter().map(|(_, parsed)| Entry::of_change(&parsed.flow_mod)).collect()
                }
            };
            sides.push(last_of_each(entries));
        }
        let named = sources.iter().find_map(|source| self.ofproto().bridge_named(&source.text));
        let names: &dyn Names = match named.filter(|_| options.names == Some(true)) {
            Some(bridge) => bridge,
            None => &NoNames,
        };
        let (left, right) = (&sides[0], &sides[1]);
        let mut out = String::new();
        for a in left {
            let b = right.iter().find(|b| a.is_place_of(b));
            if b.is_some_and(|b| a.is_same(b)) {
                continue;
            }
            let _ = writeln!(out, "-{}", a.text(names));
            if let Some(b) = b {
                let _ = writeln!(out, "+{}", b.text(names));
            }
        }
        for b in right.iter().filter(|b| !left.iter().any(|a| a.is_place_of(b))) {
            let _ = writeln!(out, "+{}", b.text(names));
        }
        Ok(out)
    }
}

/// Of entries for one place, the last counts. In order of tables, and of falling priority within each.
fn last_of_each(entries: Vec<Entry>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        kept.retain(|before| !before.is_place_of(&entry));
        kept.push(entry);
    }
    kept.sort_by_key(|entry| (entry.table, std::cmp::Reverse(entry.priority)));
    kept
}

fn deletion(entry: &Entry) -> FlowMod {
    FlowMod {
        table: Some(entry.table),
        priority: entry.priority,
        rule_match: entry.rule_match.clone(),
        ..FlowMod::new(FlowModCommand::DeleteStrict)
    }
}
