//! Keeping datapath flows right: crediting what they counted, translating their keys anew after a change, expiry.
//!
//! OVS revalidates in threads, at the latest 500 ms after a change. Here it happens before the next batch is received, so
//! that a change and the packet behind it are never confused, as long as that is affordable: a revalidation costs as many
//! translations as there are flows, each received packet earns a few, and what exceeds that waits, at the latest until
//! [`SwitchConfig::max_revalidator`] is over. All of this is counted, not timed, so a run is reproducible. What datapath
//! flows counted is credited in the same way, since a hit can move a learned address, which changes flows; a busy switch
//! affords that every few thousand packets.

use super::life::{FlowEvent, FlowFate};
use super::{Switch, SwitchConfig};
use crate::cache::{FlowRecord, FlowStats};
use crate::openflow::ofproto::{Changes, Credit, Revalidation, Verdict};
use crate::trace::{FlowId, RemoveWhy, Trace};
use crate::types::{Span, Time};

/// How long flows may be idle while there are more than the limit allows (`revalidate()` of `ofproto/ofproto-dpif-upcall.c`).
const CROWDED_IDLE: Span = Span::from_millis(100);
/// Translations that each received packet earns.
const EARNED_BY_PACKET: u64 = 16;
/// Packets that earn the crediting of one flow.
const PACKETS_FOR_CREDIT: u64 = 32;
/// Translations that may be saved up, and that there are at the start; likewise for crediting.
const MOST_SAVED: u64 = 100_000;

/// What is to be revalidated, when, and what was credited so far.
#[derive(Clone, Debug)]
pub(super) struct Revalidator {
    /// Since when datapath flows may be wrong.
    changed_at: Option<Time>,
    /// What changed since flows were looked at.
    changes: Changes,
    /// Translations that may be spent at once.
    saved: u64,
    /// Packets whose worth of crediting has not been spent.
    saved_packets: u64,
    /// What each flow, by its id, had counted when it was last credited.
    credited: Vec<FlowStats>,
}

impl Default for Revalidator {
    fn default() -> Self {
        Self {
            changed_at: None,
            changes: Changes::empty(),
            saved: MOST_SAVED,
            saved_packets: MOST_SAVED * PACKETS_FOR_CREDIT,
            credited: Vec::new(),
        }
    }
}

impl Revalidator {
    pub(super) fn received(&mut self, packets: usize) {
        self.saved = (self.saved + EARNED_BY_PACKET * packets as u64).min(MOST_SAVED);
        self.saved_packets = (self.saved_packets + packets as u64).min(MOST_SAVED * PACKETS_FOR_CREDIT);
    }

    /// What a flow had counted when it was last credited.
    fn credited(&mut self, id: FlowId) -> &mut FlowStats {
        let index = id.0 as usize;
        if self.credited.len() <= index {
            self.credited.resize_with(index + 1, FlowStats::default);
        }
        &mut self.credited[index]
    }

    pub(super) fn note_changes(&mut self, changes: Changes, now: Time) {
        if !changes.is_empty() {
            self.changes |= changes;
            self.changed_at.get_or_insert(now);
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.changed_at.is_some()
    }

    /// When a revalidation that was put off is due.
    pub(super) fn due(&self, config: &SwitchConfig) -> Option<Time> {
        self.changed_at.map(|at| at + config.max_revalidator)
    }
}

impl Switch {
    /// Credits what flows counted, if that is affordable; else it waits for housekeeping.
    pub(super) fn credit_if_affordable(&mut self, now: Time) {
        let cost = self.dp.flows().len() as u64 * PACKETS_FOR_CREDIT;
        if cost <= self.revalidator.saved_packets {
            self.revalidator.saved_packets -= cost;
            self.credit(now);
        }
    }

    /// Remembers since when datapath flows may be wrong, if something changed.
    pub(super) fn note_changes(&mut self, now: Time) {
        self.revalidator.note_changes(self.of.take_changes(now), now);
    }

    /// Revalidates if something changed and it is affordable or due.
    pub(super) fn revalidate_if_needed<T: Trace>(&mut self, now: Time, trace: &mut T) {
        self.note_changes(now);
        let cost = self.dp.flows().len() as u64;
        let due = self.revalidator.due(&self.config).is_some_and(|due| due <= now);
        if self.revalidator.is_pending() && (due || cost <= self.revalidator.saved) {
            self.revalidate(now, trace);
        }
    }

    /// Translates the key of each datapath flow anew, and changes or removes those that are not right any more.
    pub(super) fn revalidate<T: Trace>(&mut self, now: Time, trace: &mut T) {
        self.credit(now);
        self.revalidator.changed_at = None;
        let changes = std::mem::take(&mut self.revalidator.changes);
        let ids: Vec<FlowId> = self.dp.flows().iter().map(|flow| flow.id).collect();
        self.revalidator.saved = self.revalidator.saved.saturating_sub(ids.len() as u64);
        for id in ids {
            let Some(flow) = self.dp.flows().get(id) else { continue };
            let look = self.of.revalidate(id, &flow.key(), &flow.mask(), flow.actions, now);
            let Revalidation { verdict, rule_gone, wanted } = look;
            if verdict == Verdict::Keep {
                continue;
            }
            let flow = flow.record();
            let fate = match verdict {
                Verdict::Keep => continue,
                Verdict::Modify(actions) => {
                    match self.dp.flow_set_actions(id, actions.clone(), trace) {
                        Ok(()) => FlowFate::Changed(actions),
                        // What the datapath cannot do it must not go on doing wrongly: the next packet will say so.
                        Err(_) => FlowFate::Removed { why: RemoveWhy::Refused, wanted: None },
                    }
                }
                Verdict::Delete(why) => FlowFate::Removed { why, wanted },
            };
            if let FlowFate::Removed { why, .. } = fate {
                // A flow that is gone already needs no removal.
                let _ = self.dp.flow_del(id, why, trace);
                self.forget_flow(id, now);
            }
            self.life.note(FlowEvent { at: now, flow, fate, changes, rule_gone });
        }
        self.inject(now, trace);
    }

    /// Forgets what was kept about a datapath flow that is gone.
    pub(super) fn forget_flow(&mut self, id: FlowId, now: Time) {
        self.of.flow_removed(id, now);
        *self.revalidator.credited(id) = FlowStats::default();
    }

    /// Credits what datapath flows counted since the last time to rules, groups and learned addresses.
    pub fn credit(&mut self, now: Time) {
        for flow in self.dp.flows().iter() {
            let credited = self.revalidator.credited(flow.id);
            let packets = flow.stats.packets.saturating_sub(credited.packets);
            if packets == 0 {
                continue;
            }
            let before = std::mem::replace(credited, flow.stats);
            let credit = Credit {
                packets,
                bytes: flow.stats.bytes.saturating_sub(before.bytes),
                used: flow.stats.used.unwrap_or(now),
                tcp_flags: flow.stats.tcp_flags,
            };
            self.of.credit(flow.id, &credit, now);
        }
    }

    /// Removes datapath flows that were idle for too long. Call after [`Self::credit`].
    pub(super) fn expire_flows<T: Trace>(&mut self, now: Time, trace: &mut T) {
        let (n_flows, limit) = (self.dp.flows().len(), self.dp.config().flow_limit);
        if n_flows > limit.saturating_mul(2) {
            self.remove_all(RemoveWhy::Limit, now, trace);
            return;
        }
        let idle = self.idle_too_long();
        let Self { dp, of, revalidator, life, .. } = self;
        dp.flow_expire(now, idle, trace, |flow| {
            of.flow_removed(flow.id, now);
            *revalidator.credited(flow.id) = FlowStats::default();
            life.note(FlowEvent::removed(flow.record(), RemoveWhy::Idle, now));
        });
    }

    /// For how long a flow was unused when it goes.
    pub(super) fn idle_too_long(&self) -> Span {
        let crowded = self.dp.flows().len() > self.dp.config().flow_limit;
        let idle = if crowded { CROWDED_IDLE } else { self.config.max_idle };
        SwitchConfig { max_idle: idle, ..self.config }.idle_too_long()
    }

    /// Removes all flows.
    pub(super) fn remove_all<T: Trace>(&mut self, why: RemoveWhy, now: Time, trace: &mut T) {
        let flows: Vec<FlowRecord> = self.dp.flows().iter().map(|flow| flow.record()).collect();
        for flow in flows {
            // It was just there.
            let _ = self.dp.flow_del(flow.id, why, trace);
            self.forget_flow(flow.id, now);
            self.life.note(FlowEvent::removed(flow, why, now));
        }
    }
}
