//! Translations that wait: what is needed to go on with a packet once the datapath looks it up again.
//!
//! Owns the recirculation ids and what each stands for. Equal states share an id. An id is given out once; it lives for a
//! while after the last flow that uses it is gone, because packets may still be on their way.
//! Counterpart: OVS `ofproto/ofproto-dpif-rid.c`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::OfAction;
use super::bridge::BridgeId;
use super::field::FieldValue;
use crate::flow::{Flow, Tunnel};
use crate::types::{OfPort, RecircId, Span, TableId, Time};

/// How long an id outlives the last flow that used it.
const LINGER: Span = Span::from_millis(250);
/// Ids stay below this, as in OVS, for the sake of offloading to tc.
const MAX_ID: u32 = (1 << 28) - 1;

/// An action to carry out on going on, or where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum FrozenAction {
    /// The actions that follow are from a rule with this cookie in this table.
    Unroll {
        /// Table.
        table: TableId,
        /// Cookie.
        cookie: u64,
    },
    /// An action.
    Action(OfAction),
}

/// A value on the stack of `push` and `pop`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StackItem {
    /// Value.
    pub value: FieldValue,
    /// Bytes that it takes.
    pub n_bytes: u8,
}

/// The state of a translation.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenState {
    /// Table to search where there are no actions.
    pub table: TableId,
    /// Bridge.
    pub bridge: BridgeId,
    /// Tunnel metadata.
    pub tunnel: Tunnel,
    /// OpenFlow metadata.
    pub metadata: u64,
    /// Registers.
    pub regs: [u32; 32],
    /// OpenFlow port it came in by.
    pub in_port: OfPort,
    /// Stack, the last pushed last.
    pub stack: Vec<StackItem>,
    /// Whether connection state is valid.
    pub conntracked: bool,
    /// Whether MPLS headers were popped that hid others.
    pub was_mpls: bool,
    /// The port the packet was received on, unless it was made here.
    pub received_on: Option<(BridgeId, OfPort)>,
    /// Mirrors of the bridge that have a copy of the packet as it is, by place.
    pub mirrored: u32,
    /// Actions.
    pub actions: Vec<FrozenAction>,
    /// Action set.
    pub action_set: Vec<OfAction>,
    /// What a controller is told along with the packet.
    pub userdata: Vec<u8>,
}

impl FrozenState {
    /// Remembers the parts of a key that are not in the packet.
    pub fn save_metadata(&mut self, flow: &Flow) {
        self.tunnel = flow.tunnel;
        self.metadata = flow.metadata.get();
        self.regs = flow.regs;
        self.in_port = OfPort(flow.in_port as u16);
    }

    /// Puts them back.
    pub fn restore_metadata(&self, flow: &mut Flow) {
        flow.tunnel = self.tunnel;
        flow.metadata.set(self.metadata);
        flow.regs = self.regs;
        flow.in_port = u32::from(self.in_port.0);
    }

    /// Something that equal states have in common, to find them by.
    fn summary(&self) -> Summary {
        let regs = self.regs.iter().fold(self.metadata, |sum, &reg| {
            sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(reg)
        });
        (self.bridge.0, self.table.0, regs, self.in_port.0, self.actions.len())
    }
}

/// What equal states have in common: bridge, table, registers, port, number of actions.
type Summary = (u32, u8, u64, u16, usize);

#[derive(Clone, Debug)]
struct Node {
    state: Arc<FrozenState>,
    /// Flows that use the id.
    refs: u32,
    /// When the last of them went.
    unused_since: Option<Time>,
}

/// All recirculation ids in use.
#[derive(Clone, Debug, Default)]
pub struct RecircPool {
    nodes: BTreeMap<RecircId, Node>,
    by_state: BTreeMap<Summary, Vec<RecircId>>,
    last: u32,
}

impl RecircPool {
    /// The state that `id` stands for.
    pub fn get(&self, id: RecircId) -> Option<&Arc<FrozenState>> {
        self.nodes.get(&id).map(|node| &node.state)
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The id for `state`, with one more reference to it; `None` if none is free.
    pub fn acquire(&mut self, state: FrozenState) -> Option<RecircId> {
        let id = self.find(&state).or_else(|| self.insert(state))?;
        self.reference(id);
        Some(id)
    }

    fn find(&self, state: &FrozenState) -> Option<RecircId> {
        let known = self.by_state.get(&state.summary()).into_iter().flatten();
        known.copied().find(|id| self.nodes.get(id).is_some_and(|node| *node.state == *state))
    }

    fn insert(&mut self, state: FrozenState) -> Option<RecircId> {
        let id = self.next_id()?;
        self.by_state.entry(state.summary()).or_default().push(id);
        self.nodes.insert(id, Node { state: Arc::new(state), refs: 0, unused_since: None });
        Some(id)
    }

    fn next_id(&mut self) -> Option<RecircId> {
        if self.nodes.len() >= MAX_ID as usize {
            return None;
        }
        loop {
            self.last = if self.last >= MAX_ID { 1 } else { self.last + 1 };
            if !self.nodes.contains_key(&RecircId(self.last)) {
                return Some(RecircId(self.last));
            }
        }
    }

    /// Takes one more reference, if the id still exists.
    pub fn reference(&mut self, id: RecircId) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.refs += 1;
            node.unused_since = None;
        }
    }

    /// Gives a reference back.
    pub fn release(&mut self, id: RecircId, now: Time) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.refs = node.refs.saturating_sub(1);
            if node.refs == 0 {
                node.unused_since = Some(now);
                let summary = node.state.summary();
                self.unlist(id, summary);
            }
        }
    }

    /// Forgets ids that nothing has used for a while.
    pub fn run(&mut self, now: Time) {
        let over = |node: &Node| node.unused_since.is_some_and(|since| now.since(since) > LINGER);
        let gone: Vec<RecircId> =
            self.nodes.iter().filter(|(_, node)| over(node)).map(|(&id, _)| id).collect();
        gone.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: RecircId) {
        if let Some(node) = self.nodes.remove(&id) {
            self.unlist(id, node.state.summary());
        }
    }

    /// Keeps an id from being found by its state: an id that lingers is not given to anyone else.
    fn unlist(&mut self, id: RecircId, summary: Summary) {
        if let Some(ids) = self.by_state.get_mut(&summary) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_state.remove(&summary);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(metadata: u64) -> FrozenState {
        FrozenState {
            table: TableId(0),
            bridge: BridgeId(1),
            tunnel: Flow::default().tunnel,
            metadata,
            regs: [0; 32],
            in_port: OfPort(1),
            stack: Vec::new(),
            conntracked: false,
            was_mpls: false,
            received_on: None,
            mirrored: 0,
            actions: vec![FrozenAction::Unroll { table: TableId(0), cookie: 0 }],
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }

    #[test]
    fn equal_states_share_an_id() {
        let mut pool = RecircPool::default();
        let id = pool.acquire(state(1)).unwrap();
        assert_eq!(pool.acquire(state(1)), Some(id));
        assert_eq!(pool.acquire(state(2)), Some(RecircId(2)));
        let now = Time::from_millis(1000);
        pool.release(id, now);
        pool.run(Time::from_millis(9000));
        assert!(pool.get(id).is_some(), "one reference is left");
        pool.release(id, now);
        pool.run(Time::from_millis(1200));
        assert!(pool.get(id).is_some(), "it lingers");
        pool.run(Time::from_millis(1251));
        assert!(pool.get(id).is_none());
        assert_eq!(pool.acquire(state(1)), Some(RecircId(3)), "ids are not used again");
    }

    /// As in OVS: what waits for its end is not taken up again (`recirc_id_node_unref()`).
    #[test]
    fn a_state_whose_id_lingers_gets_another() {
        let mut pool = RecircPool::default();
        let id = pool.acquire(state(1)).unwrap();
        pool.release(id, Time::ZERO);
        assert_eq!(pool.acquire(state(1)), Some(RecircId(id.0 + 1)));
        assert!(pool.get(id).is_some(), "packets may still be on their way");
        pool.run(Time::from_millis(251));
        assert_eq!(pool.len(), 1);
    }
}
