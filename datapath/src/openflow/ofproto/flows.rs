//! Misses, and the datapath flows that come of them: crediting, revalidation, expiry.

use super::{Changes, FlowInfo, Ofproto};
use crate::action::{Action, Actions, Userspace, UserspaceCookie};
use crate::flow::{Flow, VLAN_CFI};
use crate::openflow::action::OfAction;
use crate::openflow::bridge::rule::{Rule, RuleError, check_actions};
use crate::openflow::bridge::{BridgeId, RuleStats};
use crate::openflow::headers::{dl_type, ethertype, ip_proto, is_ip_proto};
use crate::openflow::xlate::{
    Cached, XlateIn, XlateOut, clear_non_packet_fields, require_no_vlan, translate,
};
use crate::packet::Packet;
use crate::pipeline::{Install, Upcall, UpcallKind, UpcallReply, UpcallRequest};
use crate::stats::DropReason;
use crate::trace::{FlowId, RemoveWhy};
use crate::types::{OfPort, PortNo, RecircId, TableId, Time};
use std::sync::Arc;

/// Messages to controllers that are kept until someone asks.
const MAX_PACKET_INS: usize = 1024;
/// TCP flags that end a connection: FIN and RST.
const TCP_END: u16 = 0x0001 | 0x0004;

/// A packet that went to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Bridge.
    pub bridge: BridgeId,
    /// Port that it came in by.
    pub in_port: OfPort,
    /// Table of the rule.
    pub table: TableId,
    /// Cookie of the rule.
    pub cookie: u64,
    /// Why (OpenFlow `ofp_packet_in_reason`).
    pub reason: u16,
    /// Controller.
    pub controller: u16,
    /// Passed along.
    pub userdata: Vec<u8>,
    /// Length of the packet.
    pub total_len: usize,
    /// Its first bytes, as many as the action asked for.
    pub data: Vec<u8>,
    /// When.
    pub at: Time,
}

/// Whether a datapath flow is still right.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is.
    Keep,
    /// With these actions.
    Modify(Actions),
    /// It is not: packets that it matches may need different actions, or nothing is known about them.
    Delete(RemoveWhy),
}

/// What looking at a datapath flow again came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Revalidation {
    /// Whether it is still right.
    pub verdict: Verdict,
    /// Whether one of the rules that it came from is no more.
    pub rule_gone: bool,
    /// What the rules look at now, if it is deleted because of that.
    pub wanted: Option<Box<Flow>>,
}

impl From<Verdict> for Revalidation {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, rule_gone: false, wanted: None }
    }
}

/// Packets that a datapath flow matched since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// When the last one came.
    pub used: Time,
    /// TCP flags of all.
    pub tcp_flags: u16,
}

impl Ofproto {
    /// The bridge and port that a packet with this key is at.
    pub(super) fn locate(&self, key: &Flow) -> Option<(BridgeId, OfPort)> {
        if key.recirc_id != 0 {
            let state = self.recircs.get(RecircId(key.recirc_id))?;
            let real = !matches!(state.in_port, OfPort::NONE | OfPort::CONTROLLER);
            let at = state.received_on.filter(|_| real).unwrap_or((state.bridge, state.in_port));
            let bridge = self.bridges.get(&at.0)?;
            if !real || bridge.port(at.1).is_some() {
                return Some(at);
            }
        }
        match key.tunnel.is_set() {
            true => self.tunnels.receive(key),
            false => self.by_port.get(&PortNo(key.in_port)).copied(),
        }
    }

    /// Translates a key; a packet with it, if there is one, is learned from.
    fn translate_key(
        &mut self,
        at: (BridgeId, OfPort),
        key: &Flow,
        packet: Option<&Packet>,
        now: Time,
    ) -> XlateOut {
        let (bridges, tunnels, effects) = self.effects(packet.is_some(), false);
        let input = XlateIn {
            bridges,
            tunnels,
            bridge: at.0,
            key,
            packet,
            in_port: at.1,
            now,
            actions: None,
            packet_out: false,
            dont_send: false,
        };
        let mut out = translate(&input, effects, None);
        if !out.requests.is_empty() {
            self.send_requests(std::mem::take(&mut out.requests), now);
        }
        out
    }

    fn release(&mut self, info: FlowInfo, now: Time) {
        info.recircs.into_iter().for_each(|id| self.recircs.release(id, now));
    }

    fn miss(&mut self, request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
        let at = self.locate(request.key).ok_or(DropReason::UpcallError)?;
        let out = self.translate_key(at, request.key, Some(request.packet), request.now);
        let credit = Credit {
            packets: 1,
            bytes: request.packet.len() as u64,
            used: request.now,
            tcp_flags: request.key.tcp_flags.get(),
        };
        self.learn_all(&out.cache, request.now);
        self.credit_all(&out.cache, &credit, true, request.now);
        let mask = datapath_mask(&out.mask);
        let actions = installed_actions(&out);
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let cut = self.ends_in_tag(request.key);
        let tag_is_open = (cut || is_tagged(request.key)) && out.mask.vlans[0].tci.get() == 0;
        let info = FlowInfo { cache: out.cache.into(), recircs: out.recircs, tag_is_open };
        self.pending.insert(ticket, info);
        // The flow goes with the next revalidation: what OVS keeps of it says less than its mask (see `revalidate`).
        if cut || needs_absent_tuple(request.key, &mask) {
            self.changes |= Changes::AGAIN;
        }
        let install = Some(Install { mask, actions, ticket });
        Ok(UpcallReply { execute: out.actions.into(), install, inject: self.take_injections() })
    }

    /// A packet of a flow whose packets all go through here.
    fn slow_path(&mut self, request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
        let at = self.locate(request.key).ok_or(DropReason::UpcallError)?;
        let out = self.translate_key(at, request.key, Some(request.packet), request.now);
        self.learn_all(&out.cache, request.now);
        out.recircs.iter().for_each(|&id| self.recircs.release(id, request.now));
        Ok(UpcallReply { execute: out.actions.into(), install: None, inject: self.take_injections() })
    }

    fn packet_in(&mut self, request: &UpcallRequest<'_>, cookie: &UserspaceCookie) {
        let &UserspaceCookie::Controller {
            reason,
            dont_send,
            recirc_id,
            rule_cookie,
            controller_id,
            max_len,
            ..
        } = cookie
        else {
            return;
        };
        let Some(state) = self.recircs.get(RecircId(recirc_id)).filter(|_| !dont_send) else { return };
        let data = request.packet.data();
        let message = PacketIn {
            bridge: state.bridge,
            in_port: state.in_port,
            table: state.table,
            cookie: rule_cookie,
            reason,
            controller: controller_id,
            userdata: state.userdata.clone(),
            total_len: data.len(),
            data: data[..data.len().min(usize::from(max_len))].to_vec(),
            at: request.now,
        };
        self.n_packet_ins += 1;
        if self.packet_ins.len() == MAX_PACKET_INS {
            self.packet_ins.pop_front();
        }
        self.packet_ins.push_back(message);
    }

    /// A packet that a controller sends: the datapath actions to carry out on it. `key` is the packet's, whatever its
    /// `in_port`.
    ///
    /// # Errors
    /// [`RuleError`] if an action is refused.
    pub fn packet_out(
        &mut self,
        bridge: BridgeId,
        in_port: OfPort,
        key: &Flow,
        actions: &[OfAction],
        credit: &Credit,
        now: Time,
    ) -> Result<Actions, RuleError> {
        match self.bridge(bridge) {
            Some(bridge) => bridge.check_actions(actions)?,
            None => check_actions(actions)?,
        }
        let (bridges, tunnels, effects) = self.effects(true, false);
        let input = XlateIn {
            bridges,
            tunnels,
            bridge,
            key,
            packet: None,
            in_port,
            now,
            actions: Some(actions),
            packet_out: true,
            dont_send: false,
        };
        let mut out = translate(&input, effects, None);
        self.send_requests(std::mem::take(&mut out.requests), now);
        self.learn_all(&out.cache, now);
        self.credit_all(&out.cache, credit, true, now);
        out.recircs.iter().for_each(|&id| self.recircs.release(id, now));
        Ok(out.actions.into())
    }

    /// Credits packets that a datapath flow matched to the rules and groups that it came from, and keeps addresses alive.
    pub fn credit(&mut self, flow: FlowId, credit: &Credit, now: Time) {
        if credit.packets == 0 {
            return;
        }
        let Some(cache) = self.flows.get(&flow).map(|info| info.cache.clone()) else { return };
        self.credit_all(&cache, credit, false, now);
    }

    pub(super) fn credit_all(&mut self, cache: &[Cached], credit: &Credit, learned: bool, now: Time) {
        let mut credit = *credit;
        for cached in cache {
            match *cached {
                Cached::TunnelHeader { size, added } => {
                    let bytes = credit.packets * u64::from(size);
                    credit.bytes = match added {
                        true => credit.bytes.saturating_add(bytes),
                        false => credit.bytes.saturating_sub(bytes),
                    };
                }
                Cached::Neighbor { ref bridge, address } => {
                    if !learned {
                        self.neighbors.refresh(bridge, address, credit.used);
                    }
                }
                Cached::TunnelPort { port, sent } => {
                    let stats = self.patch_stats.entry(port).or_default();
                    let (packets, bytes) = match sent {
                        true => (&mut stats.tx_packets, &mut stats.tx_bytes),
                        false => (&mut stats.rx_packets, &mut stats.rx_bytes),
                    };
                    *packets += credit.packets;
                    *bytes += credit.bytes;
                }
                Cached::Rule { rule, .. } => {
                    if let Some(stats) = self.rule_stats.get_mut(&rule) {
                        stats.packets += credit.packets;
                        stats.bytes += credit.bytes;
                        stats.used = stats.used.max(credit.used);
                    }
                }
                Cached::Table { bridge, table, matched } => {
                    let stats = self.table_stats.entry((bridge, table)).or_default();
                    let count = if matched { &mut stats.matched } else { &mut stats.missed };
                    *count += credit.packets;
                }
                Cached::Group { bridge, group, bucket } => {
                    let stats = self.group_stats.entry((bridge, group)).or_default();
                    stats.packets += credit.packets;
                    stats.bytes += credit.bytes;
                    // A packet that no bucket was chosen for went to all of them.
                    let found = self.bridges.get(&bridge).and_then(|bridge| bridge.groups().get(group));
                    let all = found.filter(|_| bucket.is_none()).into_iter().flat_map(|group| &group.buckets);
                    for bucket in bucket.into_iter().chain(all.map(|bucket| bucket.id)) {
                        let (packets, bytes) = stats.buckets.entry(bucket).or_default();
                        *packets += credit.packets;
                        *bytes += credit.bytes;
                    }
                }
                Cached::Mac { bridge, ref source } => {
                    if !learned {
                        self.learning.confirm(bridge, source, credit.used, now);
                    }
                }
                Cached::Learn { bridge, ref change, limit } => {
                    if !learned {
                        self.learn(bridge, &change.clone(), limit, credit.used, now);
                    }
                }
                Cached::FinTimeout { bridge, rule, idle, hard } => {
                    if credit.tcp_flags & TCP_END != 0 {
                        self.shorten(bridge, rule, idle, hard);
                    }
                }
                Cached::Mirror { bridge, ref name } => {
                    let (packets, bytes) = self.mirror_stats.entry((bridge, name.clone())).or_default();
                    *packets += credit.packets;
                    *bytes += credit.bytes;
                }
                Cached::Patch { from, to } => {
                    let stats = self.patch_stats.entry(from).or_default();
                    stats.tx_packets += credit.packets;
                    stats.tx_bytes += credit.bytes;
                    let stats = self.patch_stats.entry(to).or_default();
                    stats.rx_packets += credit.packets;
                    stats.rx_bytes += credit.bytes;
                }
            }
        }
    }

    fn shorten(&mut self, bridge: BridgeId, rule: crate::openflow::classifier::RuleId, idle: u16, hard: u16) {
        if let Some(bridge) = self.bridges.get_mut(&bridge) {
            Arc::make_mut(bridge).shorten_timeouts(rule, idle, hard);
        }
    }

    /// Whether a packet with this key ends within a VLAN tag.
    fn ends_in_tag(&self, key: &Flow) -> bool {
        let last = if self.two_tags && is_tagged(key) { 1 } else { 0 };
        ethertype::is_vlan(key.dl_type.get()) && key.vlans[last].tci.get() == 0
    }

    /// Whether the datapath flow with this key, mask and these actions is still right. If it is kept, remembers what its
    /// packets are to be credited to from now on: credit those before.
    pub fn revalidate(
        &mut self,
        flow: FlowId,
        key: &Flow,
        mask: &Flow,
        actions: &[Action],
        now: Time,
    ) -> Revalidation {
        let Some(at) = self.locate(key) else { return Verdict::Delete(RemoveWhy::NoPort).into() };
        let rule_gone = self.lost_a_rule(flow);
        let mut key = *key;
        if self.ends_in_tag(&key) {
            // What OVS reads from its own text of the flow: a tag without id, and nothing in it. A rule that looks at tags
            // then looks at something that the flow does not match, and the flow is deleted.
            key.vlans[usize::from(is_tagged(&key))].tpid = std::mem::take(&mut key.dl_type);
        }
        if !self.keeps_two_tags {
            key.vlans[1] = Default::default();
        }
        if is_ip_proto(&key, ip_proto::IGMP, None) {
            // Text of a datapath flow has no place for what an IGMP message says.
            (key.tp_src, key.tp_dst, key.igmp_group_ip4) = Default::default();
        }
        let out = self.translate_key(at, &key, None, now);
        let tag_is_open = self.flows.get(&flow).is_some_and(|info| info.tag_is_open);
        let wanted = packet_mask(&out.mask);
        let mut mask = *mask;
        // The datapath does not look at the types of tags, but the text of the flow, which OVS goes by here, has them.
        for (tag, mask) in key.vlans.iter().zip(&mut mask.vlans) {
            if tag.tci.get() & VLAN_CFI != 0 {
                mask.tpid.set(u16::MAX);
            }
        }
        if tag_is_open && out.mask.vlans[0].tci.get() != 0 {
            mask.vlans[0].tci.set(0);
        }
        if dl_type(&key) != ethertype::NSH {
            // A flow of OVS says nothing about a header that its packets get only here.
            mask.nsh = Default::default();
        }
        let too_wide = wanted.words().iter().zip(mask.words()).any(|(wanted, has)| wanted & !has != 0);
        let why = [
            (out.avoid_caching, RemoveWhy::Uncacheable),
            (needs_absent_tuple(&key, &wanted), RemoveWhy::BadFit),
            // OVS finishes no mask of a translation that failed, and does not trust it then.
            (too_wide || out.error.is_some(), RemoveWhy::Wide),
        ];
        if let Some(&(_, why)) = why.iter().find(|(is, _)| *is) {
            self.release(FlowInfo { recircs: out.recircs, ..FlowInfo::default() }, now);
            let wanted = (why == RemoveWhy::Wide).then(|| Box::new(wanted));
            return Revalidation { verdict: Verdict::Delete(why), rule_gone, wanted };
        }
        let wanted = installed_actions(&out);
        let info = FlowInfo { cache: out.cache.into(), recircs: out.recircs, tag_is_open };
        if let Some(old) = self.flows.insert(flow, info) {
            self.release(old, now);
        }
        let verdict = if *wanted == *actions { Verdict::Keep } else { Verdict::Modify(wanted) };
        Revalidation { verdict, rule_gone, wanted: None }
    }

    /// Whether a rule that a datapath flow came from is no more.
    fn lost_a_rule(&self, flow: FlowId) -> bool {
        let gone = |cached: &Cached| matches!(cached, Cached::Rule { rule, .. } if !self.rule_stats.contains_key(rule));
        self.flows.get(&flow).is_some_and(|info| info.cache.iter().any(gone))
    }

    /// Forgets a datapath flow that is gone. Credit its packets before.
    pub fn flow_removed(&mut self, flow: FlowId, now: Time) {
        if let Some(info) = self.flows.remove(&flow) {
            self.release(info, now);
        }
    }

    /// Removes rules and addresses whose time is over, and what nothing refers to any more. Returns the rules. Credit
    /// the packets of all flows before, or rules in use expire.
    pub fn run(&mut self, now: Time) -> Vec<(BridgeId, Arc<Rule>, RuleStats)> {
        self.recircs.run(now);
        self.neighbors.run(now);
        for table in self.learning.tables.values_mut() {
            if table.run(now) {
                self.changes |= Changes::ADDRESSES;
            }
        }
        for table in self.learning.snooping.values_mut() {
            if table.run(now) {
                self.changes |= Changes::MULTICAST;
            }
        }
        let mut expired = Vec::new();
        for (&id, bridge) in &mut self.bridges {
            let found = bridge.expired_rules(&self.rule_stats, now);
            if !found.is_empty() {
                expired.push((id, Arc::make_mut(bridge).remove_rules(&found, &mut self.rule_stats)));
                self.changes |= Changes::RULES;
            }
        }
        let mut gone = Vec::new();
        for (id, mut done) in expired {
            self.forget_learned(id, &mut done);
            gone.extend(done.removed.into_iter().map(|(rule, stats)| (id, rule, stats)));
        }
        gone
    }

    /// When [`Self::run`] has something to do next, unless packets put that off.
    pub fn next_wakeup(&self) -> Option<Time> {
        let macs = self.learning.tables.values().filter_map(|table| table.next_wakeup());
        let groups = self.learning.snooping.values().filter_map(|table| table.next_wakeup());
        let rules = self.bridges.values().filter_map(|bridge| bridge.next_expiry(&self.rule_stats));
        macs.chain(groups)
            .chain(rules)
            .chain(self.neighbors.next_wakeup())
            .chain(self.zones().next_wakeup())
            .min()
    }
}

/// Whether a mask looks at the original tuple of a packet that has none: one whose connection is not known. The text of such a
/// flow in OVS has no `ct_tuple`, so the mask read back from it is too wide for the rules, and revalidation deletes the flow.
fn needs_absent_tuple(key: &Flow, mask: &Flow) -> bool {
    // Tables look at the tuple's protocol before its addresses and ports.
    key.ct_nw_proto == 0 && mask.ct_nw_proto != 0
}

fn is_tagged(key: &Flow) -> bool {
    key.vlans[0].tci.get() & VLAN_CFI != 0
}

/// What translation looked at of the packet itself.
fn packet_mask(mask: &Flow) -> Flow {
    let mut mask = *mask;
    mask.in_port = u32::MAX;
    clear_non_packet_fields(&mut mask);
    mask
}

/// The mask as the datapath is to have it.
fn datapath_mask(mask: &Flow) -> Flow {
    let mut mask = packet_mask(mask);
    require_no_vlan(&mut mask);
    mask
}

/// What later packets get: the slow path, if each of them must be seen here.
fn installed_actions(out: &XlateOut) -> Actions {
    if out.slow == 0 {
        return out.actions.clone().into();
    }
    let userspace = Userspace {
        pid: 0,
        cookie: UserspaceCookie::SlowPath { reason: out.slow },
        actions: false,
        tunnel_out_port: None,
    };
    Box::new([Action::Userspace(Box::new(userspace))])
}

impl Upcall for Ofproto {
    fn upcall(&mut self, request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
        match request.kind {
            UpcallKind::Miss => self.miss(request),
            UpcallKind::Action(userspace) => match &userspace.cookie {
                UserspaceCookie::SlowPath { .. } => self.slow_path(request),
                cookie @ UserspaceCookie::Controller { .. } => {
                    self.packet_in(request, cookie);
                    Ok(UpcallReply::default())
                }
                UserspaceCookie::None
                | UserspaceCookie::SFlow { .. }
                | UserspaceCookie::FlowSample { .. }
                | UserspaceCookie::Ipfix { .. }
                | UserspaceCookie::Raw(_) => Ok(UpcallReply::default()),
            },
        }
    }

    fn settled(&mut self, ticket: u64, flow: Option<FlowId>, now: Time) {
        let Some(info) = self.pending.remove(&ticket) else { return };
        let old = match flow {
            Some(flow) => self.flows.insert(flow, info),
            None => Some(info),
        };
        if let Some(old) = old {
            self.release(old, now);
        }
    }
}
