//! Rules that packets make and keep alive (`learn`), and their end.
//!
//! Counterpart: `ofproto_flow_mod_learn()` and the learned cookies of OVS `ofproto/ofproto.c`.

use std::sync::Arc;

use super::Ofproto;
use crate::openflow::bridge::{BridgeId, FlowChange};
use crate::openflow::flow_mod::FlowMod;
use crate::openflow::xlate::Cached;
use crate::types::Time;

impl Ofproto {
    /// Does what `learn` actions asked for in a translation with side effects.
    pub(super) fn learn_all(&mut self, cache: &[Cached], now: Time) {
        for cached in cache {
            if let Cached::Learn { bridge, change, limit } = cached {
                self.learn(*bridge, change, *limit, now, now);
            }
        }
    }

    /// A packet asked at `used` for the rule: makes it, puts it in place of another, or keeps it alive.
    pub(super) fn learn(&mut self, id: BridgeId, change: &FlowMod, limit: u32, used: Time, now: Time) {
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        match bridge.rule_like(change) {
            Some(rule) if change.describes(rule) => {
                if rule.modified < used {
                    let rule = rule.id;
                    Arc::make_mut(bridge).refresh_rule(rule, used);
                }
                return;
            }
            // Something newer stands in its place.
            Some(rule) if rule.modified > used => return,
            _ => {}
        }
        if limit != 0 && bridge.n_learned(change) >= limit as usize {
            return;
        }
        // A table that is full, or a group that is gone: there is no one to tell.
        let Ok(done) = self.flow_mod(id, change, now) else { return };
        if let Some(bridge) = self.bridges.get_mut(&id) {
            let bridge = Arc::make_mut(bridge);
            done.added.into_iter().for_each(|rule| bridge.refresh_rule(rule, used));
        }
    }

    /// Deletes what rules that are gone had learned, if they ask for that and no other rule learns the same.
    pub(super) fn forget_learned(&mut self, id: BridgeId, done: &mut FlowChange) {
        let mut at = 0;
        while let Some((gone, _)) = done.removed.get(at) {
            let gone = gone.clone();
            at += 1;
            let Some(bridge) = self.bridges.get_mut(&id) else { return };
            for (table, cookie) in gone.learned_to_delete() {
                let found = bridge.abandoned(table, cookie);
                if !found.is_empty() {
                    let bridge = Arc::make_mut(bridge);
                    done.removed.extend(bridge.remove_rules(&found, &mut self.rule_stats).removed);
                }
            }
        }
    }
}
