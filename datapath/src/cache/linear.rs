//! The linear matcher: compares a key with every flow, bit by bit. Slow and obvious: what the caches are tested against.

use crate::flow::Flow;
use crate::trace::FlowId;

/// Flows in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    flows: Vec<(FlowId, Flow, Flow)>,
}

impl Linear {
    /// Adds a flow.
    pub fn insert(&mut self, id: FlowId, key: &Flow, mask: &Flow) {
        self.flows.push((id, key.masked(mask), *mask));
    }

    /// Removes a flow; returns whether it was there.
    pub fn remove(&mut self, id: FlowId) -> bool {
        let before = self.flows.len();
        self.flows.retain(|(held, ..)| *held != id);
        self.flows.len() < before
    }

    /// All flows that match `packet`, oldest first. With overlapping masks any of them is a right answer.
    pub fn matches<'a>(&'a self, packet: &'a Flow) -> impl Iterator<Item = FlowId> + 'a {
        self.flows.iter().filter(|(_, key, mask)| key.matches(mask, packet)).map(|(id, ..)| *id)
    }
}
