//! Stopping a translation where the datapath must first find out more, and going on with it.
//!
//! A translation that freezes leaves its list of actions; each list that it is nested in adds what it has left to do.
//! What then remains is given a recirculation id. Counterpart: "Freezing Translation" in OVS
//! `ofproto/ofproto-dpif-xlate.c`.

use std::sync::Arc;

use super::XlateError;
use super::ctx::{ActionList, Ctx, Step};
use super::set::is_tunnel_field;
use super::trace::NodeKind;
use crate::action::{Action, HashAlg};
use crate::openflow::action::{OfAction, Resubmit, SetField};
use crate::openflow::field::{Field, FieldValue};
use crate::openflow::recirc::{FrozenAction, FrozenState};
use crate::types::{OfPort, RecircId, TableId};

impl Ctx<'_, '_> {
    /// Stops here.
    pub(super) fn trigger_freeze(&mut self) {
        self.exit = true;
        self.freezing.on = true;
    }

    /// Stops here until the datapath has computed a hash.
    pub(super) fn trigger_hash(&mut self, alg: HashAlg) {
        self.trigger_freeze();
        self.freezing.hash = Some(alg);
    }

    /// Emits the recirculation of a translation that stops.
    pub(super) fn finish_freezing(&mut self) {
        self.commit();
        self.freeze_at(TableId(0));
    }

    /// Emits the recirculation of a packet that goes on in `table`, or with the actions that are left; its id, if there is
    /// one for it.
    pub(super) fn freeze_at(&mut self, table: TableId) -> Option<RecircId> {
        let mut state = self.frozen_state(table);
        state.received_on = self.received_on;
        let freezing = std::mem::take(&mut self.freezing);
        state.actions = freezing.actions;
        state.action_set = self.action_set.clone();
        let id = self.acquire_id(state)?;
        if let Some(alg) = freezing.hash {
            self.actions.push(Action::Hash(alg));
        }
        self.actions.push(Action::Recirc(id));
        Some(id)
    }

    /// Takes up what was left of a translation; `None` if nothing is known about it, or if it is `given` actions, which
    /// would be in place of its own.
    pub(super) fn thaw(&mut self, recirc_id: u32, given: bool) -> Option<Arc<FrozenState>> {
        let Some(state) = self.effects.recircs.get(RecircId(recirc_id)).cloned() else {
            self.report(NodeKind::Error, |_| format!("Recirculation context not found for ID {recirc_id:x}"));
            self.error = Some(XlateError::NoRecirculationContext);
            return None;
        };
        let place = self.place();
        self.say(NodeKind::Thaw, "thaw");
        self.descend();
        if given {
            self.say(NodeKind::Error, "Recirculation conflict (actions)!");
            self.error = Some(XlateError::RecirculationConflict);
            self.go_back(place);
            return None;
        }
        let Some(bridge) = self.bridges.get(&state.bridge) else {
            self.say(NodeKind::Error, "Frozen bridge no longer exists.");
            self.error = Some(XlateError::BridgeNotFound);
            self.go_back(place);
            return None;
        };
        self.bridge = bridge;
        self.table = state.table;
        self.report(NodeKind::Thaw, |ctx| format!("Resuming from table {}", ctx.table.0));
        self.conntracked = state.conntracked;
        self.mirrored = state.mirrored;
        if !state.conntracked {
            self.clear_conntrack();
        }
        state.restore_metadata(&mut self.flow);
        self.stack = state.stack.clone();
        self.stack_bytes = self.stack.iter().map(|item| usize::from(item.n_bytes) + 1).sum();
        if !state.action_set.is_empty() {
            self.report(NodeKind::Thaw, |_| {
                format!("Restoring action set: {}", super::text::actions(&state.action_set))
            });
            self.flow.actset_output = u32::from(OfPort::UNSET.0);
            self.write_actions(&state.action_set);
        }
        if !state.actions.is_empty() {
            self.report(NodeKind::Thaw, |_| {
                format!("Restoring actions: {}", super::text::frozen_actions(&state.actions))
            });
        }
        self.go_back(place);
        Some(state)
    }

    /// Keeps actions for when the translation goes on.
    pub(super) fn freeze_actions(&mut self, list: ActionList<'_>) {
        for i in 0..list.len() {
            let action = match list.get(i) {
                Some(Step::Action(action)) => action,
                Some(Step::Unroll { table, cookie }) => {
                    self.freezing.actions.push(FrozenAction::Unroll { table, cookie });
                    continue;
                }
                None => return,
            };
            let kept = match action {
                OfAction::Note(_) | OfAction::Conjunction { .. } => continue,
                // Instructions become the actions that they amount to.
                OfAction::GotoTable(table) => OfAction::Resubmit(Resubmit {
                    in_port: OfPort::IN_PORT,
                    table: Some(*table),
                    with_ct_orig: false,
                }),
                OfAction::WriteMetadata { value, mask } => OfAction::SetField(Box::new(SetField {
                    field: Field::Metadata,
                    value: FieldValue::new(u128::from(value & mask)),
                    mask: FieldValue::new(u128::from(*mask)),
                    load: false,
                })),
                _ => {
                    if depends_on_rule(action) {
                        self.put_unroll();
                    }
                    action.clone()
                }
            };
            self.freezing.actions.push(FrozenAction::Action(kept));
        }
    }

    /// Remembers which rule the next actions are from: messages to controllers tell it.
    fn put_unroll(&mut self) {
        let from = (self.table, self.rule_cookie);
        if self.freezing.unroll != Some(from) {
            self.freezing.unroll = Some(from);
            self.freezing.actions.push(FrozenAction::Unroll { table: from.0, cookie: from.1 });
        }
    }

    /// Behind labels that were popped there are headers that nothing is known about yet. Stops before an action that
    /// needs them.
    pub(super) fn recirculate_behind_mpls(&mut self, step: Step<'_>) {
        if self.exit || !self.was_mpls {
            return;
        }
        let needs = match step {
            Step::Unroll { .. } => true,
            Step::Action(action) => match action {
                OfAction::Output { .. }
                | OfAction::OutputTrunc { .. }
                | OfAction::Enqueue { .. }
                | OfAction::OutputReg { .. }
                | OfAction::SetVlanVid { .. }
                | OfAction::SetVlanPcp { .. }
                | OfAction::SetEthSrc(_)
                | OfAction::SetEthDst(_)
                | OfAction::SetTunnel { .. }
                | OfAction::SetQueue(_)
                | OfAction::Group(_) => false,
                OfAction::SetField(set) => is_l3_or_higher(set.field),
                _ => true,
            },
        };
        if needs {
            self.trigger_freeze();
        }
    }
}

/// Whether an action may tell a controller about the rule, or searches the table that the rule is in.
fn depends_on_rule(action: &OfAction) -> bool {
    match action {
        OfAction::OutputReg { .. }
        | OfAction::OutputTrunc { .. }
        | OfAction::Group(_)
        | OfAction::Output { .. }
        | OfAction::Controller(_)
        | OfAction::DecMplsTtl
        | OfAction::DecNshTtl
        | OfAction::DecTtl { .. } => true,
        OfAction::Resubmit(resubmit) => resubmit.table.is_none(),
        _ => false,
    }
}

/// Whether a field is in a network header or behind (OVS `mf_is_l3_or_higher()`): all from the label stack on.
fn is_l3_or_higher(field: Field) -> bool {
    field >= Field::MplsLabel && !is_tunnel_field(field)
}
