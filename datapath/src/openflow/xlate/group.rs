//! Groups, and other actions that work on copies of the packet.

use super::Cached;
use super::ctx::{ActionList, Ctx};
use super::hash;
use super::trace::NodeKind;
use crate::action::Action;
use crate::openflow::bridge::{Group, Selection};
use crate::openflow::field::{Field, FieldValue, Subfield};
use crate::openflow::group::{Bucket, GroupType};
use crate::types::OfPort;

/// How far groups may watch groups (OVS `MAX_LIVENESS_RECURSION`).
const MAX_LIVENESS_DEPTH: u32 = 128;

impl<'a> Ctx<'a, '_> {
    /// `group`. Returns false if there is no such group: then the list of actions ends.
    pub(super) fn group(&mut self, id: u32, last: bool) -> bool {
        if !self.may_descend() {
            return true;
        }
        let Some(group) = self.bridge.groups().get(id) else {
            self.report(NodeKind::Warn, |_| format!("output to nonexistent group {id}"));
            return false;
        };
        let chosen = match group.kind {
            GroupType::All | GroupType::Indirect => {
                let n = group.buckets.len();
                for (i, bucket) in group.buckets.iter().enumerate() {
                    self.bucket(bucket, last && i + 1 == n);
                }
                self.cache.push(Cached::Group { bridge: self.bridge.id, group: id, bucket: None });
                return true;
            }
            GroupType::Select => self.select_bucket(group),
            GroupType::FastFailover => self.first_live(group, 0, true),
        };
        match chosen {
            Some(bucket) => {
                self.report(NodeKind::Detail, |_| format!("using bucket {}", bucket.id));
                self.bucket(bucket, last);
                self.cache.push(Cached::Group { bridge: self.bridge.id, group: id, bucket: Some(bucket.id) });
            }
            None if !self.freezing.on => self.say(NodeKind::Detail, "no live bucket"),
            None => {}
        }
        true
    }

    /// Carries out a bucket's actions on a copy.
    fn bucket(&mut self, bucket: &Bucket, last: bool) {
        let place = self.place();
        self.report(NodeKind::Bucket, |_| format!("bucket {}", bucket.id));
        self.descend();
        let (old_flow, old_was_mpls) = (Box::new(self.flow), self.was_mpls);
        let list = super::actions::ordered_set(&bucket.actions);
        self.depth += 1;
        self.do_actions(ActionList::Plain(&list), last, true);
        self.depth -= 1;
        if self.freezing.on {
            self.finish_freezing();
        }
        self.flow = *old_flow;
        self.was_mpls = old_was_mpls;
        // What ends in a bucket does not end the rule.
        self.exit = false;
        self.forgive_packet_errors();
        self.go_back(place);
    }

    fn select_bucket(&mut self, group: &'a Group) -> Option<&'a Bucket> {
        if self.was_mpls {
            // What is behind the labels must be known to hash it.
            self.trigger_freeze();
            return None;
        }
        match &group.selection {
            Selection::Default => {
                hash::mark_symmetric_l4(&self.flow, &mut self.wc);
                let basis = hash::symmetric_l4(&self.flow, 0);
                self.best_live(group, basis)
            }
            Selection::Fields => {
                let basis = self.hash_fields(group);
                self.best_live(group, basis)
            }
            Selection::DpHash { alg, map } => {
                if self.flow.dp_hash == 0 {
                    // A hash that was computed is never 0.
                    self.trigger_hash(*alg);
                    self.say(NodeKind::Detail, "selection method in use: dp_hash, recirculating");
                    return None;
                }
                let mask = map.len() as u32 - 1;
                self.wc.dp_hash |= mask;
                let first = self.flow.dp_hash;
                let buckets = (0..=mask).filter_map(|i| {
                    let at = map[(first.wrapping_add(i) & mask) as usize];
                    group.buckets.get(at as usize)
                });
                buckets.into_iter().find(|bucket| self.is_live(group, bucket, 0))
            }
        }
    }

    fn hash_fields(&mut self, group: &Group) -> u32 {
        let mut basis = hash::uint64(group.props.selection_method_param);
        for (field, mask) in &group.props.fields {
            if !field.prereqs_met(&self.flow, Some(&mut self.wc)) {
                continue;
            }
            let value = self.bridge.tun_table.field(*field, &self.flow) & *mask;
            let mut bytes = vec![0; field.info().n_bytes as usize];
            value.write_be(&mut bytes);
            basis = hash::bytes(&bytes, basis);
            if let Field::TunMetadata(index) = field {
                // Whether the option is there counts too.
                let there = self.flow.tunnel.opt_map >> index & 1 != 0;
                basis = hash::boolean(there, basis);
            }
            self.bridge.tun_table.mark_field(*field, &mut self.wc, mask);
        }
        basis
    }

    /// The live bucket with the highest score: highest random weight (RFC 2992, 3), weighted.
    fn best_live(&mut self, group: &'a Group, basis: u32) -> Option<&'a Bucket> {
        let mut best: Option<(u32, &Bucket)> = None;
        for bucket in &group.buckets {
            if !self.is_live(group, bucket, 0) {
                self.report_not_live(bucket);
                continue;
            }
            let score = (hash::int(bucket.id, basis) & 0xffff).wrapping_mul(u32::from(bucket.weight));
            if best.is_none_or(|(highest, _)| score >= highest) {
                best = Some((score, bucket));
            }
            self.report(NodeKind::Detail, |_| format!("bucket {}: score {score}", bucket.id));
        }
        best.map(|(_, bucket)| bucket)
    }

    fn first_live(&mut self, group: &'a Group, depth: u32, tell: bool) -> Option<&'a Bucket> {
        for bucket in &group.buckets {
            if self.is_live(group, bucket, depth) {
                return Some(bucket);
            }
            if tell {
                self.report_not_live(bucket);
            }
        }
        None
    }

    fn is_live(&self, group: &Group, bucket: &Bucket, depth: u32) -> bool {
        if depth >= MAX_LIVENESS_DEPTH || group.kind == GroupType::Select && bucket.weight == 0 {
            return false;
        }
        let watched_port = (bucket.watch_port != OfPort::NONE).then_some(bucket.watch_port);
        if watched_port.is_none() && bucket.watch_group.is_none() {
            return true;
        }
        // No controller is connected.
        let port = watched_port.and_then(|port| self.bridge.port(port)).is_some_and(|port| port.is_alive());
        let group_is_live = |id: u32| {
            let Some(watched) = self.bridge.groups().get(id) else { return false };
            watched.buckets.iter().any(|bucket| self.is_live(watched, bucket, depth + 1))
        };
        port || bucket.watch_group.is_some_and(group_is_live)
    }

    fn report_not_live(&mut self, bucket: &Bucket) {
        self.report(NodeKind::Detail, |_| {
            let mut why = Vec::new();
            if bucket.watch_port != OfPort::NONE {
                why.push(format!("port {}", super::text::port(bucket.watch_port)));
            }
            // OVS says "port" here too.
            why.extend(bucket.watch_group.map(|group| format!("port {group}")));
            format!("bucket {}: not live due to {}", bucket.id, why.join(" and "))
        });
    }

    /// `clone`, and what else works on a copy. A copy that the datapath can undo needs no `clone` action: what follows
    /// sets right what it changed.
    pub(super) fn do_actions_on_copy(&mut self, list: ActionList<'_>, last: bool) {
        if !last {
            self.commit();
        }
        let retained = self.retain();
        let old_base = Box::new(self.base);
        let (old_was_mpls, old_conntracked) = (self.was_mpls, self.conntracked);
        let start = self.actions.len();
        self.do_actions(list, true, false);
        if !self.freezing.on {
            self.run_action_set();
        }
        if self.freezing.on {
            self.finish_freezing();
        }
        // Actions may have been thrown away because of an error.
        let start = start.min(self.actions.len());
        if !last && !are_reversible(&self.actions[start..]) {
            let nested = self.actions.split_off(start);
            self.actions.push(Action::Clone(nested.into()));
            self.base = *old_base;
        }
        self.conntracked = old_conntracked;
        self.was_mpls = old_was_mpls;
        self.restore(retained);
    }

    /// `check_pkt_larger`, and all that follows it, once for either answer.
    pub(super) fn check_pkt_larger(&mut self, len: u16, dst: &Subfield, rest: ActionList<'_>) {
        let retained = self.retain();
        self.commit();
        let old_base = Box::new(self.base);
        let (old_was_mpls, old_conntracked) = (self.was_mpls, self.conntracked);
        let outer = std::mem::take(&mut self.actions);
        let greater = self.branch(dst, 1, rest);
        let old_exit = self.exit;
        self.base = *old_base.clone();
        self.restore_flow(&retained);
        (self.was_mpls, self.conntracked) = (old_was_mpls, old_conntracked);
        self.exit = false;
        let not_greater = self.branch(dst, 0, rest);
        self.actions = outer;
        self.actions.push(Action::CheckPktLen { len, greater, not_greater });
        (self.was_mpls, self.conntracked) = (old_was_mpls, old_conntracked);
        self.exit = old_exit;
        self.base = *old_base;
        self.restore(retained);
    }

    fn branch(&mut self, dst: &Subfield, answer: u128, rest: ActionList<'_>) -> Box<[Action]> {
        self.bridge.tun_table.write(dst, &mut self.flow, &FieldValue::new(answer));
        self.do_actions(rest, true, false);
        if !self.freezing.on {
            self.run_action_set();
        }
        if self.freezing.on {
            self.finish_freezing();
        }
        std::mem::take(&mut self.actions).into()
    }
}

/// Whether what these actions do to the packet can be undone by others.
fn are_reversible(actions: &[Action]) -> bool {
    actions.iter().all(|action| match action {
        Action::Output(_)
        | Action::Userspace(_)
        | Action::Set(_)
        | Action::SetMasked(_)
        | Action::PushVlan { .. }
        | Action::PopVlan
        | Action::Sample { .. }
        | Action::Recirc(_)
        | Action::PushMpls { .. }
        | Action::PopMpls(_)
        | Action::Clone(_)
        | Action::Psample { .. }
        | Action::LbOutput(_) => true,
        Action::CheckPktLen { greater, not_greater, .. } => {
            are_reversible(greater) && are_reversible(not_greater)
        }
        Action::Hash(_)
        | Action::Ct(_)
        | Action::CtClear
        | Action::Trunc(_)
        | Action::PushEth { .. }
        | Action::PopEth
        | Action::PushNsh(_)
        | Action::PopNsh
        | Action::Meter(_)
        | Action::AddMpls { .. }
        | Action::DecTtl(_)
        | Action::Drop(_)
        | Action::TnlPush(_)
        | Action::TnlPop(_) => false,
    })
}
