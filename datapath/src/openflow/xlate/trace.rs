//! The story of a translation: a tree of what it did, as `ofproto/trace` tells it.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif-trace.c`.

use std::collections::VecDeque;
use std::fmt::Write;

use crate::flow::Flow;
use crate::openflow::action::OfNat;

/// What a node tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A bridge is entered.
    Bridge,
    /// A rule of a table.
    Table,
    /// A bucket of a group.
    Bucket,
    /// Translation goes on where it was frozen.
    Thaw,
    /// An action.
    Action,
    /// What it did.
    Detail,
    /// Something worth a warning.
    Warn,
    /// Something that went wrong.
    Error,
}

impl NodeKind {
    /// Whether nodes of this kind never have others below.
    const fn is_terminal(self) -> bool {
        match self {
            Self::Action | Self::Detail | Self::Warn | Self::Error | Self::Bucket => true,
            Self::Bridge | Self::Table | Self::Thaw => false,
        }
    }
}

/// A copy of the packet that goes on once its connection is known.
#[derive(Clone, Debug)]
pub struct Fork {
    /// Its key, with an OpenFlow port in it, as it was in front of the connection tracker.
    pub(crate) flow: Flow,
    /// Address translation that was asked for.
    pub(crate) nat: Option<OfNat>,
}

#[derive(Clone, Debug)]
struct Node {
    kind: NodeKind,
    text: String,
    below: Vec<usize>,
}

/// A tree of nodes, built from the top.
#[derive(Clone, Debug, Default)]
pub struct XlateTrace {
    nodes: Vec<Node>,
    top: Vec<usize>,
    /// Node below which the next is put.
    parent: Option<usize>,
    /// Ports are told by name.
    pub(super) names: bool,
    /// Copies that go on, in order.
    pub(crate) forks: VecDeque<Fork>,
}

/// A place in the tree to come back to.
#[derive(Clone, Copy, Debug)]
pub struct TracePlace(Option<usize>);

impl XlateTrace {
    /// Nothing yet. `names`: ports are to be told by name.
    pub fn new(names: bool) -> Self {
        Self { names, ..Self::default() }
    }

    /// Adds a node at the current place.
    pub fn add(&mut self, kind: NodeKind, text: String) {
        let node = self.nodes.len();
        self.nodes.push(Node { kind, text, below: Vec::new() });
        match self.parent {
            Some(parent) => self.nodes[parent].below.push(node),
            None => self.top.push(node),
        }
    }

    /// The current place.
    pub fn place(&self) -> TracePlace {
        TracePlace(self.parent)
    }

    /// Moves below the node that was added last.
    pub fn descend(&mut self) {
        self.parent = self.nodes.len().checked_sub(1);
    }

    /// Moves back.
    pub fn go_back(&mut self, place: TracePlace) {
        self.parent = place.0;
    }

    /// The tree as text. The last node of a level does not indent what is below it, unless it is of a kind that has
    /// nothing below: so a chain of tables stays flat.
    pub fn render(&self, out: &mut String) {
        self.render_level(&self.top, 0, out);
    }

    fn render_level(&self, level: &[usize], depth: usize, out: &mut String) {
        // A stack of our own: chains of tables can be thousands of levels deep.
        let mut stack = vec![(level, 0, depth)];
        while let Some((level, at, depth)) = stack.pop() {
            let Some(&index) = level.get(at) else { continue };
            stack.push((level, at + 1, depth));
            let node = &self.nodes[index];
            let more = usize::from(at + 1 < level.len() || node.kind.is_terminal());
            let indent = (depth + more) * 4;
            if node.kind == NodeKind::Bridge {
                out.push('\n');
            }
            let text = &node.text;
            // Writing to a string cannot fail.
            let _ = match node.kind {
                NodeKind::Detail => writeln!(out, "{:indent$} -> {text}", ""),
                NodeKind::Warn => writeln!(out, "{:indent$} >> {text}", ""),
                NodeKind::Error => writeln!(out, "{:indent$} >>>> {text} <<<<", ""),
                NodeKind::Bridge => {
                    writeln!(out, "{:indent$}{text}\n{:indent$}{:-<width$}", "", "", "", width = text.len())
                }
                NodeKind::Table | NodeKind::Bucket | NodeKind::Thaw | NodeKind::Action => {
                    writeln!(out, "{:indent$}{text}", "")
                }
            };
            stack.push((&node.below, 0, depth + more + more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As 4.0.90 prints scenario "multi-table-wildcards".
    #[test]
    fn last_tables_stay_flat() {
        let mut trace = XlateTrace::new(false);
        trace.add(NodeKind::Bridge, "bridge(\"br0\")".to_owned());
        trace.descend();
        trace.add(NodeKind::Table, " 0. priority 10".to_owned());
        trace.descend();
        let table_0 = trace.place();
        trace.add(NodeKind::Action, "resubmit(,1)".to_owned());
        trace.add(NodeKind::Table, " 1. priority 100".to_owned());
        trace.descend();
        trace.add(NodeKind::Action, "load:0x2->NXM_NX_REG0[]".to_owned());
        trace.go_back(table_0);
        trace.add(NodeKind::Action, "resubmit(,2)".to_owned());
        trace.add(NodeKind::Table, " 2. reg0=0x2, priority 32768".to_owned());
        trace.descend();
        trace.add(NodeKind::Action, "output:p3".to_owned());
        trace.add(NodeKind::Detail, "told".to_owned());
        let mut out = String::new();
        trace.render(&mut out);
        let wanted = "
bridge(\"br0\")
-------------
 0. priority 10
    resubmit(,1)
     1. priority 100
            load:0x2->NXM_NX_REG0[]
    resubmit(,2)
 2. reg0=0x2, priority 32768
    output:p3
     -> told
";
        assert_eq!(out, wanted);
    }
}
