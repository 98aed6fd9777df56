//! Flow tables of a bridge: adding, changing, deleting and listing rules.
//!
//! Counterpart: the flow table part of OVS `ofproto/ofproto.c`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Bridge;
use super::rule::{Rule, RuleError, RuleKind, check_actions, conjunctions, each_group, each_meter};
use crate::openflow::action::OfAction;
use crate::openflow::classifier::{Classifier, PrefixField, RuleId};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand};
use crate::types::{OfPort, Span, TableId, Time};

/// Tables that rules may be in: 0 to 253; 254 is internal.
pub const N_TABLES: u8 = 254;

/// What happens to a packet that no rule of a table matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableMiss {
    /// It is dropped: no controller of ours asks for it.
    #[default]
    Default,
    /// It goes to a controller.
    Controller,
    /// The next table is tried.
    Continue,
    /// It is dropped.
    Drop,
}

/// Configuration of a table (OVS's `Flow_Table`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// Name.
    pub name: Option<String>,
    /// Most rules.
    pub max_rules: Option<usize>,
    /// Fields indexed by prefix.
    pub prefixes: Vec<PrefixField>,
    /// What happens to a packet that no rule matches.
    pub miss: TableMiss,
    /// A rule that finds the table full takes the place of another (`overflow_policy=evict`).
    pub evict: bool,
}

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            name: None,
            max_rules: None,
            prefixes: PrefixField::DEFAULT.to_vec(),
            miss: TableMiss::default(),
            evict: false,
        }
    }
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its rules.
    pub classifier: Arc<Classifier>,
    /// Its configuration.
    pub config: TableConfig,
}

/// Packets that a rule saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last came; that of its making at first.
    pub used: Time,
}

/// Statistics of all rules.
pub type RuleStatsMap = BTreeMap<RuleId, RuleStats>;

/// What a change of the flow tables did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowChange {
    /// Rules that are new, or stand in place of others.
    pub added: Vec<RuleId>,
    /// Rules that are gone, replaced ones included, with their statistics.
    pub removed: Vec<(Arc<Rule>, RuleStats)>,
}

/// Which rules to list or delete.
#[derive(Clone, Debug)]
pub struct RuleFilter<'a> {
    /// Table; `None` is all.
    pub table: Option<TableId>,
    /// At least this is matched.
    pub rule_match: &'a crate::openflow::rule_match::Match,
    /// Cookie, in the bits of the mask.
    pub cookie: (u64, u64),
    /// Only rules that output here; [`OfPort::NONE`] is any.
    pub out_port: OfPort,
    /// Only rules that use this group.
    pub out_group: Option<u32>,
}

impl<'a> RuleFilter<'a> {
    fn of(change: &'a FlowMod) -> Self {
        Self {
            table: change.table,
            rule_match: &change.rule_match,
            cookie: (change.cookie, change.cookie_mask),
            out_port: change.out_port,
            out_group: change.out_group,
        }
    }

    fn lets_through(&self, rule: &Rule) -> bool {
        let (cookie, mask) = self.cookie;
        let group = |wanted: u32| {
            let mut found = false;
            each_group(&rule.actions, &mut |id| found |= id == wanted);
            found
        };
        (rule.cookie ^ cookie) & mask == 0
            && (self.out_port == OfPort::NONE || outputs_to(&rule.actions, self.out_port))
            && self.out_group.is_none_or(group)
    }
}

fn outputs_to(actions: &[OfAction], wanted: OfPort) -> bool {
    actions.iter().any(|action| match action {
        OfAction::Output { port, .. } | OfAction::Enqueue { port, .. } => *port == wanted,
        OfAction::Controller(_) => wanted == OfPort::CONTROLLER,
        OfAction::Clone(nested) | OfAction::WriteActions(nested) => outputs_to(nested, wanted),
        _ => false,
    })
}

/// What flow changes need from outside of the bridge.
pub struct FlowContext<'a> {
    /// The next rule gets a higher number than this.
    pub last_rule: &'a mut RuleId,
    /// Statistics of all rules.
    pub stats: &'a mut RuleStatsMap,
    /// Now.
    pub now: Time,
}

impl Bridge {
    /// The rule with this identity.
    pub fn rule(&self, id: RuleId) -> Option<&Arc<Rule>> {
        self.rules.get(&id)
    }

    /// How many rules there are.
    pub fn n_rules(&self) -> usize {
        self.rules.len()
    }

    /// A table, if anything was ever put in it or configured for it.
    pub fn table(&self, table: TableId) -> Option<&Table> {
        self.tables.get(&table)
    }

    /// Tables with rules or configuration.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().map(|(&id, table)| (id, table))
    }

    /// Configures a table.
    pub fn set_table_config(&mut self, table: TableId, config: TableConfig) {
        let table = self.tables.entry(table).or_default();
        Arc::make_mut(&mut table.classifier).set_prefix_fields(&config.prefixes);
        table.config = config;
    }

    /// Rules, table by table, in the order in which OVS lists them.
    pub fn find_rules(&self, filter: &RuleFilter<'_>) -> Vec<Arc<Rule>> {
        let tables = self.tables.iter().filter(|(id, _)| filter.table.is_none_or(|table| table == **id));
        let Some((flow, mask)) = self.tun_table.resolve(filter.rule_match) else { return Vec::new() };
        tables
            .flat_map(|(_, table)| table.classifier.loose_matches(&flow, &mask))
            .filter_map(|id| self.rules.get(&id))
            .filter(|rule| filter.lets_through(rule))
            .cloned()
            .collect()
    }

    /// Adds, changes or deletes rules.
    ///
    /// # Errors
    /// [`RuleError`]; nothing is changed then.
    pub fn apply_flow_mod(
        &mut self,
        change: &FlowMod,
        context: &mut FlowContext<'_>,
    ) -> Result<FlowChange, RuleError> {
        if let Some(TableId(table)) = change.table.filter(|table| table.0 >= N_TABLES) {
            return Err(RuleError::NoTable(table));
        }
        match change.command {
            FlowModCommand::Add => self.add_rule(change, context),
            FlowModCommand::Modify => {
                let found = self.find_rules(&RuleFilter {
                    out_port: OfPort::NONE,
                    out_group: None,
                    ..RuleFilter::of(change)
                });
                self.modify_rules(change, &found, context)
            }
            FlowModCommand::ModifyStrict => {
                let found = self.find_strict(
                    &RuleFilter { out_port: OfPort::NONE, out_group: None, ..RuleFilter::of(change) },
                    change.priority,
                );
                self.modify_rules(change, &found, context)
            }
            FlowModCommand::Delete => {
                let found = self.find_rules(&RuleFilter::of(change));
                Ok(self.remove_rules(&found, context.stats))
            }
            FlowModCommand::DeleteStrict => {
                let found = self.find_strict(&RuleFilter::of(change), change.priority);
                Ok(self.remove_rules(&found, context.stats))
            }
        }
    }

    fn find_strict(&self, filter: &RuleFilter<'_>, priority: u16) -> Vec<Arc<Rule>> {
        let tables = self.tables.iter().filter(|(id, _)| filter.table.is_none_or(|table| table == **id));
        let Some((flow, mask)) = self.tun_table.resolve(filter.rule_match) else { return Vec::new() };
        tables
            .filter_map(|(_, table)| table.classifier.find_exactly(&flow, &mask, priority))
            .filter_map(|id| self.rules.get(&id))
            .filter(|rule| filter.lets_through(rule))
            .cloned()
            .collect()
    }

    fn check(&self, change: &FlowMod) -> Result<(), RuleError> {
        self.check_options(change)?;
        self.check_actions(&change.actions)
    }

    /// Checks that actions can be carried out here: that the groups and meters that they name are there.
    ///
    /// # Errors
    /// [`RuleError`] names the first that cannot.
    pub fn check_actions(&self, actions: &[OfAction]) -> Result<(), RuleError> {
        check_actions(actions)?;
        let mut missing = None;
        each_group(actions, &mut |id| {
            if self.groups.get(id).is_none() {
                missing.get_or_insert(id);
            }
        });
        if let Some(id) = missing {
            return Err(RuleError::NoGroup(id));
        }
        each_meter(actions, &mut |id| {
            if !self.meters.contains_key(&id) {
                missing.get_or_insert(id);
            }
        });
        missing.map_or(Ok(()), |id| Err(RuleError::NoMeter(id)))
    }

    fn add_rule(&mut self, change: &FlowMod, context: &mut FlowContext<'_>) -> Result<FlowChange, RuleError> {
        self.check(change)?;
        let table_id = change.table.unwrap_or_default();
        let wanted = &change.rule_match;
        let (flow, mask) = self.tun_table.resolve(wanted).ok_or(RuleError::UnknownOption)?;
        let table = self.tables.entry(table_id).or_default();
        let old = table.classifier.find_exactly(&flow, &mask, change.priority);
        if old.is_none() {
            let overlaps = || table.classifier.overlaps(&flow, &mask, change.priority);
            if change.flags.check_overlap && overlaps() {
                return Err(RuleError::Overlap);
            }
            if table.config.max_rules.is_some_and(|max| table.classifier.len() >= max) {
                return Err(RuleError::TableFull);
            }
        }
        let old = old.and_then(|id| self.rules.get(&id)).cloned();
        let rule = Rule {
            id: RuleId::default(),
            kind: RuleKind::User,
            table: table_id,
            priority: change.priority,
            rule_match: wanted.clone(),
            cookie: change.new_cookie.or(old.as_ref().map(|old| old.cookie)).unwrap_or(0),
            idle_timeout: change.idle_timeout,
            hard_timeout: change.hard_timeout,
            importance: change.importance,
            flags: change.flags,
            created: context.now,
            modified: context.now,
            actions: change.actions.clone(),
        };
        let mut done = FlowChange::default();
        self.put_rule(rule, old.as_ref(), change.flags.reset_counts, context, &mut done);
        Ok(done)
    }

    fn modify_rules(
        &mut self,
        change: &FlowMod,
        found: &[Arc<Rule>],
        context: &mut FlowContext<'_>,
    ) -> Result<FlowChange, RuleError> {
        if found.is_empty() {
            let may_add = change.cookie_mask == 0;
            return if may_add { self.add_rule(change, context) } else { Ok(FlowChange::default()) };
        }
        self.check(change)?;
        let mut done = FlowChange::default();
        for old in found {
            let rule = Rule {
                cookie: change.new_cookie.unwrap_or(old.cookie),
                modified: context.now,
                actions: change.actions.clone(),
                ..Rule::clone(old)
            };
            self.put_rule(rule, Some(old), change.flags.reset_counts, context, &mut done);
        }
        Ok(done)
    }

    fn put_rule(
        &mut self,
        mut rule: Rule,
        old: Option<&Arc<Rule>>,
        reset_counts: bool,
        context: &mut FlowContext<'_>,
        done: &mut FlowChange,
    ) {
        context.last_rule.0 += 1;
        rule.id = *context.last_rule;
        let resolved = self.tun_table.resolve(&rule.rule_match);
        // A rule with options that are not known was refused.
        let (flow, mask) = resolved.unwrap_or((rule.rule_match.flow, rule.rule_match.mask));
        let table = self.tables.entry(rule.table).or_default();
        let classifier = Arc::make_mut(&mut table.classifier);
        classifier.insert(rule.id, &flow, &mask, rule.priority, &conjunctions(&rule.actions));
        let mut stats = RuleStats { used: context.now, ..RuleStats::default() };
        if let Some(old) = old {
            self.rules.remove(&old.id);
            let old_stats = context.stats.remove(&old.id).unwrap_or_default();
            stats = if reset_counts { RuleStats { used: old_stats.used, ..stats } } else { old_stats };
            done.removed.push((old.clone(), old_stats));
        }
        context.stats.insert(rule.id, stats);
        done.added.push(rule.id);
        self.rules.insert(rule.id, Arc::new(rule));
    }

    /// Removes these rules.
    pub(in crate::openflow) fn remove_rules(
        &mut self,
        found: &[Arc<Rule>],
        stats: &mut RuleStatsMap,
    ) -> FlowChange {
        let mut done = FlowChange::default();
        for rule in found {
            let resolved = self.tun_table.resolve(&rule.rule_match);
            if let (Some(table), Some((flow, mask))) = (self.tables.get_mut(&rule.table), resolved) {
                Arc::make_mut(&mut table.classifier).remove(&flow, &mask, rule.priority);
            }
            self.rules.remove(&rule.id);
            done.removed.push((rule.clone(), stats.remove(&rule.id).unwrap_or_default()));
        }
        done
    }

    /// Brings a rule's timeouts down to these, in seconds; 0 leaves one as it is (OVS `reduce_timeout()`).
    pub(in crate::openflow) fn shorten_timeouts(&mut self, id: RuleId, idle: u16, hard: u16) {
        let Some(rule) = self.rules.get_mut(&id) else { return };
        let reduced = |old: u16, new: u16| if new != 0 && (old == 0 || new < old) { new } else { old };
        let (idle, hard) = (reduced(rule.idle_timeout, idle), reduced(rule.hard_timeout, hard));
        if (idle, hard) != (rule.idle_timeout, rule.hard_timeout) {
            let rule = Arc::make_mut(rule);
            (rule.idle_timeout, rule.hard_timeout) = (idle, hard);
        }
    }

    /// When the first rule's time is over, unless packets put that off.
    pub(in crate::openflow) fn next_expiry(&self, stats: &RuleStatsMap) -> Option<Time> {
        let end = |since: Time, secs: u16| {
            (secs != 0).then(|| since + Span::from_millis(u64::from(secs) * 1000 + 1))
        };
        let ends = self.rules.values().filter(|rule| rule.idle_timeout != 0 || rule.hard_timeout != 0);
        ends.flat_map(|rule| {
            let used = stats.get(&rule.id).map_or(rule.modified, |stats| stats.used);
            [end(rule.modified, rule.hard_timeout), end(used, rule.idle_timeout)]
        })
        .flatten()
        .min()
    }

    /// Rules whose time is over.
    pub(in crate::openflow) fn expired_rules(&self, stats: &RuleStatsMap, now: Time) -> Vec<Arc<Rule>> {
        let over = |since: Time, secs: u16| secs != 0 && now.since(since).0 > u64::from(secs) * 1_000_000_000;
        let gone = |rule: &&Arc<Rule>| {
            let used = stats.get(&rule.id).map_or(rule.modified, |stats| stats.used);
            over(rule.modified, rule.hard_timeout) || over(used, rule.idle_timeout)
        };
        self.rules.values().filter(gone).cloned().collect()
    }
}
