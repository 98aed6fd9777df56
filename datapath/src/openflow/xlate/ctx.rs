//! The state of a translation under way.
//!
//! Counterpart: `struct xlate_ctx` of OVS `ofproto/ofproto-dpif-xlate.c`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::commit::{Commit, SLOW_ACTION};
use super::encap::Pending;
use super::trace::{NodeKind, XlateTrace};
use super::{Cached, XlateError};
use crate::action::{Action, HashAlg};
use crate::flow::Flow;
use crate::openflow::action::{OfAction, OfNat};
use crate::openflow::bridge::mirror::MirrorSet;
use crate::openflow::bridge::{Bridge, BridgeId, Bundle, Rule};
use crate::openflow::classifier::RuleId;
use crate::openflow::ofproto::Learning;
use crate::openflow::recirc::{FrozenAction, FrozenState, RecircPool, StackItem};
use crate::openflow::tunnel::Tunnels;
use crate::openflow::tunnel::neighbor::Neighbors;
use crate::openflow::tunnel::request::NeighborRequest;
use crate::openflow::zones::ZonePolicies;
use crate::packet::Packet;
use crate::types::{OfPort, RecircId, TableId, Time};

/// Nested resubmits to the same or an earlier table, groups and patch ports (OVS `MAX_DEPTH`).
const MAX_DEPTH: u32 = 64;
/// Resubmits and the like in one translation (OVS `MAX_RESUBMITS`).
const MAX_RESUBMITS: u32 = MAX_DEPTH * MAX_DEPTH;
/// Bytes that datapath actions may take in a Netlink message; OVS goes by that even where there is none.
const MAX_ACTION_BYTES: usize = u16::MAX as usize;
/// Bytes that the stack may take.
const MAX_STACK_BYTES: usize = 65536;

/// All bridges of a datapath.
pub(crate) type Bridges = BTreeMap<BridgeId, Arc<Bridge>>;

/// What translations may change, or only read where they must leave no trace.
pub(crate) struct Effects<'a> {
    /// Learned addresses.
    pub(crate) learning: &'a mut Learning,
    /// Recirculation ids.
    pub(crate) recircs: &'a mut RecircPool,
    /// Neighbours of the underlay.
    pub(crate) neighbors: &'a mut Neighbors,
    /// Timeout policies of the zones of connection tracking.
    pub(crate) zones: &'a ZonePolicies,
    /// Learn from the packet.
    pub(crate) may_learn: bool,
    /// Nothing is to be asked for, or kept alive: a trace of a key.
    pub(crate) only_looks: bool,
}

/// A list of actions: those of a rule or group, or those that were left over when a translation froze.
#[derive(Clone, Copy)]
pub(super) enum ActionList<'a> {
    Plain(&'a [OfAction]),
    Frozen(&'a [FrozenAction]),
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Action(&'a OfAction),
    Unroll { table: TableId, cookie: u64 },
}

impl<'a> ActionList<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Plain(actions) => actions.len(),
            Self::Frozen(actions) => actions.len(),
        }
    }

    pub(super) fn get(self, i: usize) -> Option<Step<'a>> {
        match self {
            Self::Plain(actions) => actions.get(i).map(Step::Action),
            Self::Frozen(actions) => actions.get(i).map(|action| match action {
                FrozenAction::Action(action) => Step::Action(action),
                &FrozenAction::Unroll { table, cookie } => Step::Unroll { table, cookie },
            }),
        }
    }

    pub(super) fn from(self, i: usize) -> Self {
        match self {
            Self::Plain(actions) => Self::Plain(&actions[i.min(actions.len())..]),
            Self::Frozen(actions) => Self::Frozen(&actions[i.min(actions.len())..]),
        }
    }
}

/// What is left to do when the translation goes on later.
#[derive(Default)]
pub(super) struct Freezing {
    /// Whether it is to.
    pub(super) on: bool,
    /// Hash to compute before the packet is looked up again.
    pub(super) hash: Option<HashAlg>,
    /// Actions left.
    pub(super) actions: Vec<FrozenAction>,
    /// Where the last of them come from.
    pub(super) unroll: Option<(TableId, u64)>,
}

pub(super) struct Ctx<'a, 'e> {
    pub(super) bridges: &'a Bridges,
    pub(super) tunnels: &'a Tunnels,
    /// The address by which a tunnel received the packet; unspecified if none did.
    pub(super) received_by: Ipv6Addr,
    /// Neighbours to ask for.
    pub(super) requests: Vec<NeighborRequest>,
    /// Whether the output under way is of a part of the packet.
    pub(super) truncating: bool,
    /// Mirrors that have a copy of the packet as it is.
    pub(super) mirrored: MirrorSet,
    /// Bytes of the packet that the mirror under way copies; 0 for all, or if none is.
    pub(super) snaplen: u16,
    /// In how many tunnels the packet is that is looked at.
    pub(super) outside: u32,
    pub(super) effects: Effects<'e>,
    /// The packet as it came, if there is one.
    pub(super) packet: Option<&'a Packet>,
    pub(super) trace: Option<&'e mut XlateTrace>,
    pub(super) now: Time,
    /// Bridge that the packet is in.
    pub(super) bridge: &'a Bridge,
    /// The packet as it should be.
    pub(super) flow: Flow,
    /// The packet as it is after the actions so far.
    pub(super) base: Flow,
    /// Mask of the megaflow.
    pub(super) wc: Flow,
    pub(super) actions: Vec<Action>,
    pub(super) stack: Vec<StackItem>,
    pub(super) stack_bytes: usize,
    /// Rule being translated.
    pub(super) rule: Option<&'a Rule>,
    pub(super) rule_cookie: u64,
    pub(super) table: TableId,
    /// Parts of the conjunction that led to the rule found last; only for the story.
    pub(super) conjunctive: Vec<RuleId>,
    pub(super) depth: u32,
    pub(super) resubmits: u32,
    pub(super) in_action_set: bool,
    pub(super) in_packet_out: bool,
    /// Whether a controller message is only to be shown, not sent.
    pub(super) dont_send: bool,
    pub(super) orig_skb_priority: u32,
    pub(super) exit: bool,
    pub(super) freezing: Freezing,
    /// The action that froze is not to be carried out again.
    pub(super) freeze_after: bool,
    pub(super) was_mpls: bool,
    /// A header whose action is yet to be emitted.
    pub(super) pending: Pending,
    pub(super) conntracked: bool,
    /// Whether this goes on with a translation that stopped.
    pub(super) resumed: bool,
    /// The `nat` among the actions of the `ct` under way.
    pub(super) nat: Option<OfNat>,
    pub(super) received_on: Option<(BridgeId, OfPort)>,
    pub(super) action_set: Vec<OfAction>,
    pub(super) action_set_has_group: bool,
    pub(super) slow: u32,
    pub(super) recircs: Vec<RecircId>,
    pub(super) cache: Vec<Cached>,
    /// Whether this must not stay a datapath flow.
    pub(super) avoid_caching: bool,
    pub(super) error: Option<XlateError>,
}

/// What a copy of the packet must leave as it was.
pub(super) struct Retained {
    flow: Flow,
    stack: Vec<StackItem>,
    stack_bytes: usize,
    action_set: Vec<OfAction>,
}

impl<'a> Ctx<'a, '_> {
    /// Adds to the story, if anyone listens.
    pub(super) fn report(&mut self, kind: NodeKind, text: impl FnOnce(&Self) -> String) {
        if self.trace.is_some() {
            let text = text(self);
            if let Some(trace) = self.trace.as_deref_mut() {
                trace.add(kind, text);
            }
        }
    }

    /// The same, with fixed text.
    pub(super) fn say(&mut self, kind: NodeKind, text: &str) {
        self.report(kind, |_| text.to_owned());
    }

    /// The OpenFlow port that the packet is in by.
    pub(super) fn in_port(&self) -> OfPort {
        OfPort(self.flow.in_port as u16)
    }

    /// The bundle that the packet is in by.
    pub(super) fn in_bundle(&self) -> Option<&'a Bundle> {
        self.bridge.bundle_of(self.in_port())
    }

    /// Emits the actions that make the packet what it should be.
    pub(super) fn commit(&mut self) {
        let commit = Commit {
            flow: &self.flow,
            base: &mut self.base,
            wc: &mut self.wc,
            actions: &mut self.actions,
            pending: std::mem::take(&mut self.pending),
        };
        self.slow |= commit.run();
    }

    /// Marks that the datapath cannot do this.
    pub(super) fn needs_slow_path(&mut self) {
        self.slow |= SLOW_ACTION;
    }

    /// Forgets connection state.
    pub(super) fn clear_conntrack(&mut self) {
        self.conntracked = false;
        clear_conntrack(&mut self.flow);
    }

    /// Whether there is room for one more level.
    pub(super) fn may_descend(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            self.report(NodeKind::Error, |_| format!("over max translation depth {MAX_DEPTH}"));
            self.error = Some(XlateError::RecursionTooDeep);
        } else if self.resubmits >= MAX_RESUBMITS {
            self.report(NodeKind::Error, |_| format!("over {MAX_RESUBMITS} resubmit actions"));
            self.error = Some(XlateError::TooManyResubmits);
        } else if encoded_len(&self.actions) > MAX_ACTION_BYTES {
            self.say(NodeKind::Error, "resubmits yielded over 64 kB of actions");
            self.exit = true;
        } else if self.stack_bytes >= MAX_STACK_BYTES {
            self.say(NodeKind::Error, "resubmits yielded over 64 kB of stack");
            self.error = Some(XlateError::StackTooDeep);
        } else {
            return true;
        }
        false
    }

    /// Puts aside what a copy of the packet may change; the copy starts with an empty stack and action set.
    pub(super) fn retain(&mut self) -> Box<Retained> {
        Box::new(Retained {
            flow: self.flow,
            stack: std::mem::take(&mut self.stack),
            stack_bytes: std::mem::take(&mut self.stack_bytes),
            action_set: std::mem::take(&mut self.action_set),
        })
    }

    /// Puts it back.
    pub(super) fn restore(&mut self, retained: Box<Retained>) {
        self.flow = retained.flow;
        self.stack = retained.stack;
        self.stack_bytes = retained.stack_bytes;
        self.action_set = retained.action_set;
    }

    /// Puts back the packet only.
    pub(super) fn restore_flow(&mut self, retained: &Retained) {
        self.flow = retained.flow;
    }

    /// Everything needed to go on later, but for actions and action set.
    pub(super) fn frozen_state(&self, table: TableId) -> FrozenState {
        let mut state = FrozenState {
            table,
            bridge: self.bridge.id,
            tunnel: self.flow.tunnel,
            metadata: 0,
            regs: [0; 32],
            in_port: OfPort::NONE,
            stack: self.stack.clone(),
            conntracked: self.conntracked,
            was_mpls: self.was_mpls,
            received_on: None,
            mirrored: self.mirrored,
            actions: Vec::new(),
            action_set: Vec::new(),
            userdata: Vec::new(),
        };
        state.save_metadata(&self.flow);
        state
    }

    /// The recirculation id for a state.
    pub(super) fn acquire_id(&mut self, state: FrozenState) -> Option<RecircId> {
        let id = self.effects.recircs.acquire(state);
        if id.is_none() {
            self.say(NodeKind::Error, "Failed to allocate recirculation id");
            self.error = Some(XlateError::NoRecirculationContext);
        }
        self.recircs.extend(id);
        id
    }
}

/// Forgets connection state in a key (OVS `flow_clear_conntrack()`).
pub(super) fn clear_conntrack(flow: &mut Flow) {
    flow.ct_state = 0;
    flow.ct_zone = 0;
    flow.ct_mark = 0;
    flow.ct_label.set(0);
    flow.ct_nw_proto = 0;
    flow.ct_tp_src.set(0);
    flow.ct_tp_dst.set(0);
    flow.ct_nw_src.set(0);
    flow.ct_nw_dst.set(0);
    flow.ct_ipv6_src = [0; 16];
    flow.ct_ipv6_dst = [0; 16];
}

/// Bytes that actions take in a Netlink message, as far as that can matter: not counted one by one while they are few.
pub(super) fn encoded_len(actions: &[Action]) -> usize {
    const HEADER: usize = 4;
    // No action but nested ones takes more than this.
    const MOST: usize = 1024;
    let nested = actions.iter().any(|a| matches!(a, Action::Clone(_) | Action::CheckPktLen { .. }));
    if !nested && actions.len() * MOST <= MAX_ACTION_BYTES {
        return 0;
    }
    let len = |action: &Action| match action {
        Action::Output(_) | Action::Trunc(_) | Action::Recirc(_) | Action::Meter(_) | Action::Drop(_) => 4,
        Action::TnlPop(_) | Action::LbOutput(_) | Action::PushVlan { .. } | Action::PopMpls(_) => 4,
        Action::PopVlan | Action::CtClear | Action::PopEth | Action::PopNsh => 0,
        Action::PushMpls { .. } | Action::Hash(_) => 8,
        Action::PushEth { .. } => 12,
        Action::Userspace(_) => 64,
        Action::Set(_) | Action::Ct(_) | Action::PushNsh(_) => 44,
        Action::SetMasked(_) => 84,
        Action::TnlPush(push) => 16 + push.header.len(),
        Action::Clone(nested) => encoded_len(nested),
        Action::AddMpls { .. } | Action::DecTtl(_) | Action::Psample { .. } => 32,
        Action::Sample { actions, .. } => 16 + encoded_len(actions),
        Action::CheckPktLen { greater, not_greater, .. } => {
            16 + encoded_len(greater) + encoded_len(not_greater)
        }
    };
    actions.iter().map(|action| HEADER + len(action)).sum()
}
