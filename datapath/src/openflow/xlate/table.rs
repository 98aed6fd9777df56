//! Searching tables: which rule a packet gets, and carrying out that rule's actions.

use super::Cached;
use super::ctx::{ActionList, Ctx};
use super::trace::{NodeKind, TracePlace};
use crate::flow::{Flow, NW_FRAG_ANY};
use crate::openflow::action::Resubmit;
use crate::openflow::bridge::{FragmentHandling, Rule, RuleKind, TableMiss, table::N_TABLES};
use crate::openflow::classifier::{Classifier, RuleId};
use crate::openflow::headers::{ethertype, is_ip_any};
use crate::types::{OfPort, TableId};

/// Stack that must be left before tables nest deeper, and how much more is taken where it is not.
const STACK_RESERVE: usize = 128 * 1024;
const STACK_STEP: usize = 2 * 1024 * 1024;

/// How a table is searched.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Port to search with.
    pub(super) in_port: OfPort,
    pub(super) table: TableId,
    /// A miss may be told to a controller.
    pub(super) may_packet_in: bool,
    /// What the table's configuration says about misses counts.
    pub(super) honor_miss: bool,
    /// Search with the connection's original addresses and ports.
    pub(super) with_ct_orig: bool,
    /// Nothing follows.
    pub(super) last: bool,
    /// On a copy of the packet.
    pub(super) on_copy: bool,
}

impl<'a> Ctx<'a, '_> {
    /// The rule that the packet gets from `table` on; sets the table that it is in.
    pub(super) fn find_rule(
        &mut self,
        table: TableId,
        in_port: OfPort,
        may_packet_in: bool,
        honor_miss: bool,
    ) -> &'a Rule {
        let fragment = self.flow.nw_frag & NW_FRAG_ANY != 0;
        let ports = (self.flow.tp_src, self.flow.tp_dst);
        let old_port = self.flow.in_port;
        match self.bridge.fragments {
            FragmentHandling::Normal if fragment => {
                self.flow.tp_src.set(0);
                self.flow.tp_dst.set(0);
            }
            FragmentHandling::Drop if fragment => {
                self.cache.push(Cached::Table { bridge: self.bridge.id, table, matched: true });
                return self.bridge.internal_rule(RuleKind::DropFragments);
            }
            FragmentHandling::Normal | FragmentHandling::Drop | FragmentHandling::NxMatch => {}
        }
        self.flow.in_port = u32::from(in_port.0);
        let found = self.search_tables(table, honor_miss);
        (self.flow.tp_src, self.flow.tp_dst) = ports;
        self.flow.in_port = old_port;
        match found {
            Ok(rule) => rule,
            Err(miss) => self.bridge.internal_rule(self.on_miss(miss, may_packet_in)),
        }
    }

    fn search_tables(&mut self, first: TableId, honor_miss: bool) -> Result<&'a Rule, TableMiss> {
        let mut parts = Vec::new();
        self.table = first;
        for number in first.0..N_TABLES {
            self.table = TableId(number);
            let table = self.bridge.table(self.table);
            let wanted = self.trace.is_some().then_some(&mut parts);
            let id = table.and_then(|t| t.classifier.lookup(&self.flow, Some(&mut self.wc), wanted));
            let rule = id.and_then(|id| self.bridge.rule(id));
            self.look_past_learned(rule.map(|rule| rule.priority));
            let matched = rule.is_some();
            self.cache.push(Cached::Table { bridge: self.bridge.id, table: self.table, matched });
            if let Some(rule) = rule {
                self.conjunctive = parts;
                return Ok(rule);
            }
            let miss = table.map_or(TableMiss::Default, |table| table.config.miss);
            if !honor_miss {
                return Err(TableMiss::Continue);
            }
            if miss != TableMiss::Continue {
                return Err(miss);
            }
        }
        Err(TableMiss::Continue)
    }

    /// Rules that this translation makes do not count in it, but what tells them from others was looked at.
    fn look_past_learned(&mut self, found: Option<u16>) {
        if !self.effects.may_learn {
            return;
        }
        for cached in &self.cache {
            if let Cached::Learn { bridge, change, .. } = cached
                && *bridge == self.bridge.id
                && change.table == Some(self.table)
                && found.is_none_or(|priority| priority < change.priority)
                && self.bridge.rule_like(change).is_none()
            {
                let rule = &change.rule_match;
                Classifier::look_past(&self.flow, &rule.flow, &rule.mask, &mut self.wc);
            }
        }
    }

    fn on_miss(&self, miss: TableMiss, may_packet_in: bool) -> RuleKind {
        let tells = match miss {
            TableMiss::Continue | TableMiss::Controller => true,
            // No controller of OpenFlow 1.0 to 1.2 is connected.
            TableMiss::Default | TableMiss::Drop => false,
        };
        let port = self.bridge.port(self.in_port());
        if tells && may_packet_in && port.is_some_and(|port| !port.flags.no_packet_in) {
            RuleKind::Miss
        } else {
            RuleKind::NoPacketIn
        }
    }

    /// Credits packets of the flow to a rule.
    pub(super) fn note_rule(&mut self, rule: &Rule) {
        if rule.kind == RuleKind::User {
            self.cache.push(Cached::Rule { bridge: self.bridge.id, rule: rule.id });
        }
    }

    /// Searches a table and carries out the actions of the rule that is found.
    pub(super) fn table_action(&mut self, search: Search) {
        if self.was_mpls {
            // What is behind the labels must be known to search.
            self.trigger_freeze();
            return;
        }
        if !self.may_descend() {
            return;
        }
        let old_table = self.table;
        if search.with_ct_orig {
            if self.flow.ct_nw_proto == 0 || !is_ip_any(&self.flow) {
                self.say(NodeKind::Error, "resubmit(ct) with non-tracked or non-IP packet!");
                return;
            }
            self.swap_tuples();
        }
        let rule = self.find_rule(search.table, search.in_port, search.may_packet_in, search.honor_miss);
        if search.with_ct_orig {
            self.swap_tuples();
        }
        self.note_rule(rule);
        let place = self.place();
        self.report_table(rule, search.table);
        stacker::maybe_grow(STACK_RESERVE, STACK_STEP, || {
            self.run_rule(rule, search.table <= old_table, search.last, search.on_copy);
        });
        self.go_back(place);
        self.table = old_table;
    }

    fn run_rule(&mut self, rule: &'a Rule, deepens: bool, last: bool, on_copy: bool) {
        let (old_rule, old_cookie) = (self.rule, self.rule_cookie);
        self.resubmits += 1;
        self.depth += u32::from(deepens);
        self.rule = Some(rule);
        self.rule_cookie = rule.cookie;
        let list = ActionList::Plain(&rule.actions);
        if on_copy {
            self.do_actions_on_copy(list, last);
        } else {
            self.do_actions(list, last, false);
        }
        self.rule_cookie = old_cookie;
        self.rule = old_rule;
        self.depth -= u32::from(deepens);
    }

    /// `resubmit`.
    pub(super) fn resubmit(&mut self, resubmit: &Resubmit, last: bool) {
        let in_port = if resubmit.in_port == OfPort::IN_PORT { self.in_port() } else { resubmit.in_port };
        self.table_action(Search {
            in_port,
            table: resubmit.table.unwrap_or(self.table),
            may_packet_in: false,
            honor_miss: false,
            with_ct_orig: resubmit.with_ct_orig,
            last,
            on_copy: false,
        });
    }

    /// `goto_table`.
    pub(super) fn goto_table(&mut self, table: TableId, last: bool) {
        self.table_action(Search {
            in_port: self.in_port(),
            table,
            may_packet_in: true,
            honor_miss: true,
            with_ct_orig: false,
            last,
            on_copy: false,
        });
    }

    fn swap_tuples(&mut self) {
        let ipv4 = self.flow.dl_type.get() == ethertype::IPV4;
        swap_tuple(&mut self.flow, ipv4);
        swap_tuple(&mut self.wc, ipv4);
    }

    /// Tells of a rule, and goes below it in the story.
    pub(super) fn report_table(&mut self, rule: &Rule, table: TableId) {
        if self.trace.is_none() {
            return;
        }
        self.report(NodeKind::Table, |ctx| super::text::table_line(rule, table, &ctx.names()));
        self.descend();
        let parts: Vec<RuleId> = std::mem::take(&mut self.conjunctive);
        for part in parts.iter().filter_map(|id| self.bridge.rule(*id)) {
            self.report(NodeKind::Detail, |ctx| {
                format!("conj. {}", super::text::rule_match(part, &ctx.names()))
            });
        }
    }

    /// The current place in the story.
    pub(super) fn place(&self) -> Option<TracePlace> {
        self.trace.as_deref().map(super::XlateTrace::place)
    }

    /// Goes below what was told last.
    pub(super) fn descend(&mut self) {
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.descend();
        }
    }

    /// Goes back to a place.
    pub(super) fn go_back(&mut self, place: Option<TracePlace>) {
        if let (Some(trace), Some(place)) = (self.trace.as_deref_mut(), place) {
            trace.go_back(place);
        }
    }
}

/// Exchanges a packet's addresses and ports with the original ones of its connection.
fn swap_tuple(flow: &mut Flow, ipv4: bool) {
    std::mem::swap(&mut flow.nw_proto, &mut flow.ct_nw_proto);
    if ipv4 {
        std::mem::swap(&mut flow.nw_src, &mut flow.ct_nw_src);
        std::mem::swap(&mut flow.nw_dst, &mut flow.ct_nw_dst);
    } else {
        std::mem::swap(&mut flow.ipv6_src, &mut flow.ct_ipv6_src);
        std::mem::swap(&mut flow.ipv6_dst, &mut flow.ct_ipv6_dst);
    }
    std::mem::swap(&mut flow.tp_src, &mut flow.ct_tp_src);
    std::mem::swap(&mut flow.tp_dst, &mut flow.ct_tp_dst);
}
