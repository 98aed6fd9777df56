//! The life of datapath flows: which were changed or removed, when and why.
//!
//! Keeps the last of them as they were, to be asked for (`ovs-appctl recirc/why-deleted`), and counts all. What happens to
//! packets is not its affair: the trace tells that. Counterpart: the tracepoints of `ofproto/ofproto-dpif-upcall.c` that OVS's
//! `flow_reval_monitor.py` listens to.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{DumpOptions, Switch};
use crate::action::Actions;
use crate::action::text::format_actions;
use crate::cache::FlowRecord;
use crate::flow::Flow;
use crate::flow::text::format_flow;
use crate::openflow::ofproto::Changes;
use crate::trace::{FlowId, RemoveWhy};
use crate::types::Time;

/// Ends and changes that are kept.
const KEPT: usize = 1024;

/// What happened to a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowFate {
    /// It has other actions since; these.
    Changed(Actions),
    /// It is gone.
    Removed {
        /// Why.
        why: RemoveWhy,
        /// What rules look at by now, if that is why.
        wanted: Option<Box<Flow>>,
    },
}

/// One change or end of a flow.
#[derive(Clone, Debug)]
pub struct FlowEvent {
    /// When.
    pub at: Time,
    /// The flow as it was, its counters included.
    pub flow: FlowRecord,
    /// What happened to it.
    pub fate: FlowFate,
    /// What had changed that made the revalidator look.
    pub changes: Changes,
    /// Whether one of the rules that it came from is no more.
    pub rule_gone: bool,
}

impl FlowEvent {
    /// The end of a flow that nothing had to be looked at for.
    pub(super) fn removed(flow: FlowRecord, why: RemoveWhy, at: Time) -> Self {
        let fate = FlowFate::Removed { why, wanted: None };
        Self { at, flow, fate, changes: Changes::empty(), rule_gone: false }
    }
}

/// How many flows met a fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FateCounts {
    /// Given other actions.
    pub changed: u64,
    /// Removed, by reason.
    removed: [u64; RemoveWhy::ALL.len()],
}

impl FateCounts {
    /// Removed, for this reason.
    pub fn removed(&self, why: RemoveWhy) -> u64 {
        self.removed[why as usize]
    }

    /// Removed, for whatever reason.
    pub fn all_removed(&self) -> u64 {
        self.removed.iter().sum()
    }
}

/// The last changes and ends of flows.
#[derive(Clone, Debug, Default)]
pub struct FlowLife {
    last: VecDeque<Arc<FlowEvent>>,
    counts: FateCounts,
}

impl FlowLife {
    pub(super) fn note(&mut self, event: FlowEvent) {
        match &event.fate {
            FlowFate::Changed(_) => self.counts.changed += 1,
            FlowFate::Removed { why, .. } => self.counts.removed[*why as usize] += 1,
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Arc::new(event));
    }

    /// All counts.
    pub fn counts(&self) -> &FateCounts {
        &self.counts
    }

    /// How much ever happened: those that are not kept any more, too.
    pub fn total(&self) -> u64 {
        self.counts.changed + self.counts.all_removed()
    }

    /// What is kept, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &FlowEvent> + ExactSizeIterator {
        self.last.iter().map(|event| &**event)
    }

    /// What happened last to the flow with a number, which another one may have by now.
    pub fn last_of(&self, id: FlowId) -> Option<&FlowEvent> {
        self.events().rev().find(|event| event.flow.id == id)
    }
}

impl Switch {
    /// What became of datapath flows.
    pub fn flow_life(&self) -> &FlowLife {
        &self.life
    }

    /// What happened to a flow and why, in a few words: `changed, rules changed`, `removed, idle`.
    pub fn fate_text(&self, event: &FlowEvent) -> String {
        let mut text = match &event.fate {
            FlowFate::Changed(_) => "changed".to_owned(),
            FlowFate::Removed { why, .. } => format!("removed, {}: {}", why.name(), why.meaning()),
        };
        let causes: Vec<&str> = event.changes.names().collect();
        if !causes.is_empty() {
            text += &format!("; {} changed", causes.join(", "));
        }
        if event.rule_gone {
            text += "; a rule of it is gone";
        }
        text
    }

    /// The flow as it was: its line of `dpctl/dump-flows --names`.
    pub fn past_flow_text(&self, event: &FlowEvent) -> String {
        let options = DumpOptions { names: true, ..DumpOptions::default() };
        self.flow_text(&event.flow.view(), options, event.at)
    }

    /// What is in the place of what was: other actions, or the key by the mask that rules ask for now.
    pub fn after_text(&self, event: &FlowEvent) -> Option<String> {
        match &event.fate {
            FlowFate::Changed(actions) => Some(format!("actions:{}", format_actions(actions, Some(self)))),
            FlowFate::Removed { wanted, .. } => wanted
                .as_ref()
                .map(|mask| format_flow(&event.flow.view().key(), Some(mask), Some(self), false).to_string()),
        }
    }
}
