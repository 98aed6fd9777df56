//! Carrying out a list of actions.
//!
//! Counterpart: `do_xlate_actions()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use super::ctx::{ActionList, Ctx, Step};
use super::trace::NodeKind;
use super::{Cached, XlateError, mpls, vlan};
use crate::flow::{NW_FRAG_LATER, VLAN_CFI};
use crate::openflow::action::{OfAction, OfActions};
use crate::openflow::headers::{
    IP_DSCP_MASK, IP_ECN_MASK, VLAN_PCP_MASK, VLAN_PCP_SHIFT, VLAN_VID_MASK, ethertype, is_ip_any, or_be16,
};
use crate::types::OfPort;

/// What follows an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next one.
    Go,
    /// Nothing in this list.
    Stop,
    /// The next one; if the translation has been frozen by now, the action itself is not to be repeated.
    Skip,
    /// Nothing: what follows has been carried out.
    Done,
}

impl<'a> Ctx<'a, '_> {
    /// Carries out `list`. `last`: nothing follows it. `in_bucket`: it is that of a group's bucket.
    pub(super) fn do_actions(&mut self, list: ActionList<'_>, last: bool, in_bucket: bool) {
        if list.len() == 0 {
            self.say(NodeKind::Action, "drop");
            return;
        }
        let mut done = false;
        let mut i = 0;
        while let Some(step) = list.get(i) {
            let last = last && i + 1 == list.len() && self.action_set.is_empty();
            if self.error.is_some() {
                break;
            }
            self.recirculate_behind_mpls(step);
            if self.exit || done {
                if self.freezing.on {
                    self.freeze_actions(list.from(i));
                }
                break;
            }
            let next = match step {
                Step::Unroll { table, cookie } => {
                    self.report(NodeKind::Action, |_| super::text::unroll(table, cookie));
                    self.table = table;
                    self.rule_cookie = cookie;
                    self.report(NodeKind::Thaw, |_| super::text::restored(table, cookie));
                    Next::Go
                }
                Step::Action(action) => {
                    self.forget_copies_before(action);
                    self.report(NodeKind::Action, |ctx| super::text::action(action, &ctx.names()));
                    self.do_action(action, list.from(i + 1), last, in_bucket)
                }
            };
            match next {
                Next::Stop => return,
                Next::Skip => {
                    i += 1;
                    continue;
                }
                Next::Done => done = true,
                Next::Go => {}
            }
            if self.error.is_none() && self.exit && self.freezing.on && self.freezing.actions.is_empty() {
                // An action that freezes and is not to be repeated has said so.
                let from = if std::mem::take(&mut self.freeze_after) { i + 1 } else { i };
                self.freeze_actions(list.from(from));
                break;
            }
            i += 1;
        }
    }

    fn do_action(&mut self, action: &OfAction, rest: ActionList<'_>, last: bool, in_bucket: bool) -> Next {
        match action {
            OfAction::Output { port, max_len } => self.output(*port, *max_len, true, last, in_bucket),
            OfAction::OutputReg { src, max_len } => self.output_reg(src, *max_len, last, in_bucket),
            OfAction::OutputTrunc { port, max_len } => self.output_trunc(*port, *max_len, last, in_bucket),
            OfAction::Controller(controller) => self.controller(controller),
            OfAction::Enqueue { port, queue } => self.enqueue(*port, *queue, last),
            OfAction::Group(group) => {
                if !self.group(*group, last) {
                    return Next::Stop;
                }
            }
            OfAction::SetVlanVid { .. }
            | OfAction::SetVlanPcp { .. }
            | OfAction::StripVlan { .. }
            | OfAction::PushVlan(_) => self.vlan_action(action),
            OfAction::SetEthSrc(_)
            | OfAction::SetEthDst(_)
            | OfAction::SetIpv4Src(_)
            | OfAction::SetIpv4Dst(_)
            | OfAction::SetIpDscp(_)
            | OfAction::SetIpEcn(_)
            | OfAction::SetIpTtl(_)
            | OfAction::SetL4Src(_)
            | OfAction::SetL4Dst(_) => self.header_action(action),
            OfAction::PushMpls(_)
            | OfAction::PopMpls(_)
            | OfAction::SetMplsLabel(_)
            | OfAction::SetMplsTc(_)
            | OfAction::SetMplsTtl(_) => self.mpls_action(action),
            OfAction::SetField(set) => self.set_field(set),
            OfAction::Move { src, dst } => self.move_bits(src, dst),
            OfAction::Push(field) => self.push(field),
            OfAction::Pop(field) => self.pop(field),
            OfAction::DecTtl { ids, .. } => {
                self.wc.nw_ttl = u8::MAX;
                self.wc.nw_proto = u8::MAX;
                if self.dec_ttl(ids) {
                    return Next::Stop;
                }
            }
            OfAction::DecMplsTtl => {
                if self.dec_mpls_ttl() {
                    return Next::Stop;
                }
            }
            OfAction::Multipath(multipath) => self.multipath(multipath),
            OfAction::Bundle(bundle) => self.bundle(bundle, last, in_bucket),
            OfAction::SetQueue(_) | OfAction::PopQueue => self.queue_action(action),
            OfAction::Resubmit(resubmit) => {
                self.resubmit(resubmit, last);
                return Next::Skip;
            }
            OfAction::GotoTable(table) => {
                self.goto_table(*table, last);
                return Next::Skip;
            }
            OfAction::FinTimeout { idle, hard } => self.fin_timeout(*idle, *hard),
            OfAction::Conjunction { .. } => {
                self.say(NodeKind::Error, "executing no-op conjunction action");
            }
            OfAction::Learn(learn) => self.learn_rule(learn),
            OfAction::Exit => self.exit = true,
            OfAction::Clone(nested) => self.do_actions_on_copy(ActionList::Plain(nested), last),
            OfAction::CheckPktLarger { len, dst } => {
                self.check_pkt_larger(*len, dst, rest);
                return Next::Done;
            }
            OfAction::DebugRecirc => {
                self.trigger_freeze();
                self.freeze_after = true;
            }
            OfAction::DebugSlow => self.needs_slow_path(),
            OfAction::ClearActions => {
                self.report_action_set("was");
                self.action_set.clear();
                self.flow.actset_output = u32::from(OfPort::UNSET.0);
                self.action_set_has_group = false;
            }
            OfAction::WriteActions(nested) => {
                self.write_actions(nested);
                self.report_action_set("is");
            }
            OfAction::WriteMetadata { value, mask } => {
                let metadata = self.flow.metadata.get();
                self.flow.metadata.set(metadata & !mask | value & mask);
            }
            OfAction::DeleteField(field) => self.delete_field(*field),
            OfAction::SetTunnel { id, .. } => self.flow.tunnel.tun_id.set(*id),
            OfAction::Note(_) => {}
            OfAction::Ct(ct) => self.conntrack(ct, last),
            OfAction::CtClear => self.ct_clear(),
            // Carried out by the `ct` that it is in.
            OfAction::Nat(nat) => self.nat = Some(nat.clone()),
            OfAction::Meter(meter) => self.meter(*meter),
            OfAction::Encap(encap) => self.encap(encap),
            OfAction::Decap(packet_type) => self.decap(*packet_type),
            OfAction::DecNshTtl => {
                if self.dec_nsh_ttl() {
                    return Next::Stop;
                }
            }
            // Refused when rules are added.
            OfAction::Sample(_) => {
                self.say(NodeKind::Error, "action is not supported");
            }
        }
        Next::Go
    }

    fn vlan_action(&mut self, action: &OfAction) {
        match *action {
            OfAction::SetVlanVid { vid, push_if_needed } => {
                self.set_tci(VLAN_VID_MASK, vid, push_if_needed);
            }
            OfAction::SetVlanPcp { pcp, push_if_needed } => {
                self.set_tci(VLAN_PCP_MASK, u16::from(pcp) << VLAN_PCP_SHIFT, push_if_needed);
            }
            OfAction::PushVlan(tpid) => {
                vlan::push(&mut self.flow, &mut self.wc);
                self.flow.vlans[0].tpid.set(tpid);
                self.flow.vlans[0].tci.set(VLAN_CFI);
            }
            _ => vlan::pop(&mut self.flow, &mut self.wc),
        }
    }

    fn set_tci(&mut self, mask: u16, bits: u16, push_if_needed: bool) {
        or_be16(&mut self.wc.vlans[0].tci, mask | VLAN_CFI);
        let tag = &mut self.flow.vlans[0];
        if tag.tci.get() & VLAN_CFI == 0 && !push_if_needed {
            return;
        }
        if tag.tpid.get() == 0 {
            tag.tpid.set(ethertype::VLAN);
        }
        tag.tci.set(tag.tci.get() & !mask | bits & mask | VLAN_CFI);
    }

    fn header_action(&mut self, action: &OfAction) {
        let (flow, wc) = (&mut self.flow, &mut self.wc);
        let is_ipv4 = flow.dl_type.get() == ethertype::IPV4;
        let is_ip = is_ip_any(flow);
        let has_ports = is_ip && flow.nw_frag & NW_FRAG_LATER == 0;
        match *action {
            OfAction::SetEthSrc(mac) => {
                wc.dl_src.0 = [0xff; 6];
                flow.dl_src = mac;
                return;
            }
            OfAction::SetEthDst(mac) => {
                wc.dl_dst.0 = [0xff; 6];
                flow.dl_dst = mac;
                return;
            }
            OfAction::SetIpv4Src(addr) if is_ipv4 => {
                wc.nw_src.set(u32::MAX);
                flow.nw_src.set(addr.to_bits());
            }
            OfAction::SetIpv4Dst(addr) if is_ipv4 => {
                wc.nw_dst.set(u32::MAX);
                flow.nw_dst.set(addr.to_bits());
            }
            OfAction::SetIpDscp(dscp) if is_ip => {
                wc.nw_tos |= IP_DSCP_MASK;
                flow.nw_tos = flow.nw_tos & !IP_DSCP_MASK | dscp & IP_DSCP_MASK;
            }
            OfAction::SetIpEcn(ecn) if is_ip => {
                wc.nw_tos |= IP_ECN_MASK;
                flow.nw_tos = flow.nw_tos & !IP_ECN_MASK | ecn & IP_ECN_MASK;
            }
            OfAction::SetIpTtl(ttl) if is_ip => {
                wc.nw_ttl = u8::MAX;
                flow.nw_ttl = ttl;
            }
            OfAction::SetL4Src(port) if has_ports => {
                wc.tp_src.set(u16::MAX);
                flow.tp_src.set(port);
            }
            OfAction::SetL4Dst(port) if has_ports => {
                wc.tp_dst.set(u16::MAX);
                flow.tp_dst.set(port);
            }
            _ => return,
        }
        wc.nw_proto = u8::MAX;
    }

    fn mpls_action(&mut self, action: &OfAction) {
        let is_mpls = ethertype::is_mpls(self.flow.dl_type.get());
        let (mask, bits) = match *action {
            OfAction::PushMpls(ethertype) => return self.push_mpls(ethertype),
            OfAction::PopMpls(ethertype) => return self.pop_mpls(ethertype),
            OfAction::SetMplsLabel(label) => (mpls::LABEL_MASK, label << 12),
            OfAction::SetMplsTc(tc) => (mpls::TC_MASK, u32::from(tc) << 9),
            OfAction::SetMplsTtl(ttl) => (mpls::TTL_MASK, u32::from(ttl)),
            _ => return,
        };
        if is_mpls {
            let mark = self.wc.mpls_lse[0].get() | mask;
            self.wc.mpls_lse[0].set(mark);
            mpls::set_bits(&mut self.flow, mask, bits);
        }
    }

    fn push_mpls(&mut self, ethertype: u16) {
        let n = mpls::count(&self.flow, Some(&mut self.wc));
        if n == 0 {
            // What is behind cannot be written any more.
            self.commit();
        } else if n >= mpls::MAX_LABELS {
            self.report(NodeKind::Error, |_| {
                format!(
                    "dropping packet on which an MPLS push action can't be performed as it would have more MPLS \
                     LSEs than the {} supported.",
                    mpls::MAX_LABELS
                )
            });
            self.error = Some(XlateError::TooManyMplsLabels);
            return;
        }
        mpls::push(&mut self.flow, n, ethertype, Some(&mut self.wc), true);
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        let n = mpls::count(&self.flow, Some(&mut self.wc));
        if mpls::pop(&mut self.flow, n, ethertype, Some(&mut self.wc)) {
            self.was_mpls |= !ethertype::is_mpls(ethertype);
        } else if n >= mpls::MAX_LABELS {
            self.report(NodeKind::Error, |_| {
                format!(
                    "dropping packet on which an MPLS pop action can't be performed as it has more MPLS LSEs \
                     than the {} supported.",
                    mpls::MAX_LABELS
                )
            });
            self.error = Some(XlateError::TooManyMplsLabels);
            self.actions.clear();
        }
    }

    fn queue_action(&mut self, action: &OfAction) {
        self.wc.skb_priority = u32::MAX;
        match *action {
            // The number of a queue is its priority in this datapath.
            OfAction::SetQueue(queue) => self.flow.skb_priority = queue,
            _ if self.flow.skb_priority != self.orig_skb_priority => {
                self.flow.skb_priority = self.orig_skb_priority;
                self.report(NodeKind::Detail, |ctx| format!("queue = {:#x}", ctx.flow.skb_priority));
            }
            _ => {}
        }
    }

    fn fin_timeout(&mut self, idle: u16, hard: u16) {
        self.wc.nw_proto = u8::MAX;
        if let Some(rule) = self.rule {
            self.cache.push(Cached::FinTimeout { bridge: self.bridge.id, rule: rule.id, idle, hard });
        }
    }

    /// Adds to the action set.
    pub(super) fn write_actions(&mut self, actions: &[OfAction]) {
        if !self.action_set_has_group {
            for action in actions {
                match action {
                    OfAction::Output { port, .. } => self.flow.actset_output = u32::from(port.0),
                    OfAction::Group(_) => {
                        self.flow.actset_output = u32::from(OfPort::UNSET.0);
                        self.action_set_has_group = true;
                        break;
                    }
                    _ => {}
                }
            }
        }
        self.action_set.extend_from_slice(actions);
    }

    /// Carries out the action set, and empties it.
    pub(super) fn run_action_set(&mut self) {
        let list = ordered_set(&std::mem::take(&mut self.action_set));
        if list.is_empty() {
            return;
        }
        self.in_action_set = true;
        let place = self.place();
        self.say(NodeKind::Table, "--. Executing action set:");
        self.descend();
        self.do_actions(ActionList::Plain(&list), true, false);
        self.go_back(place);
        self.in_action_set = false;
    }

    fn report_action_set(&mut self, verb: &str) {
        self.report(NodeKind::Detail, |ctx| {
            let list = ordered_set(&ctx.action_set);
            if list.is_empty() {
                format!("action set {verb} empty")
            } else {
                format!("action set {verb}: {}", super::text::actions(&list))
            }
        });
    }
}

/// An action set as a list, in the order of OpenFlow 1.5, 5.6: of most actions only the last counts, and nothing is
/// done without one that sends the packet on.
pub(super) fn ordered_set(set: &[OfAction]) -> OfActions {
    /// Place of an action that counts once.
    fn slot(action: &OfAction) -> Option<usize> {
        match action {
            OfAction::StripVlan { .. } => Some(0),
            OfAction::PopMpls(_) => Some(1),
            OfAction::Decap(_) => Some(2),
            OfAction::Encap(_) => Some(3),
            OfAction::PushMpls(_) => Some(4),
            OfAction::PushVlan(_) => Some(5),
            OfAction::DecTtl { .. } => Some(6),
            OfAction::DecMplsTtl => Some(7),
            OfAction::DecNshTtl => Some(8),
            _ => None,
        }
    }
    /// Rank among the actions of which only the highest is done.
    fn rank(action: &OfAction) -> Option<u8> {
        match action {
            OfAction::Ct(_) => Some(0),
            OfAction::CtClear => Some(1),
            OfAction::Resubmit(_) => Some(2),
            OfAction::Output { .. } => Some(3),
            OfAction::Group(_) => Some(4),
            _ => None,
        }
    }
    let mut slots: [Option<&OfAction>; 9] = [None; 9];
    let mut sets = Vec::new();
    let mut end: Option<(u8, &OfAction)> = None;
    for action in set {
        if let Some(slot) = slot(action) {
            slots[slot] = Some(action);
        } else if let Some(rank) = rank(action) {
            if end.is_none_or(|(highest, _)| rank >= highest) {
                end = Some((rank, action));
            }
        } else {
            sets.push(action);
        }
    }
    let Some((_, end)) = end else { return Vec::new() };
    slots.into_iter().flatten().chain(sets).chain([end]).cloned().collect()
}
