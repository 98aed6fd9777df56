//! Datapath flows as text, as `ovs-appctl dpctl/dump-flows` prints them.

use super::Switch;
use crate::action::text::{DumpText, FlowStats};
use crate::cache::FlowView;
use crate::types::Time;

/// How datapath flows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// `-m`: everything, wildcarded bits too.
    pub verbose: bool,
    /// `--names`: ports by name.
    pub names: bool,
    /// Values under their masks. OVS shows those of the packet that came first, so bits that do not matter differ by which that was.
    pub masked: bool,
}

impl Switch {
    /// The line of one datapath flow.
    pub fn flow_text(&self, flow: &FlowView<'_>, options: DumpOptions, now: Time) -> String {
        let key = if options.masked { flow.shown_key() } else { flow.key() };
        let mask = flow.mask();
        let mut text = DumpText::new(&key, &mask, flow.actions);
        text.ufid = Some(flow.ufid.0);
        text.stats = FlowStats {
            packets: flow.stats.packets,
            bytes: flow.stats.bytes,
            used_ms: flow.stats.used.map(|used| now.since(used).0 / 1_000_000),
            tcp_flags: flow.stats.tcp_flags,
        };
        text.names = options.names.then_some(self);
        text.verbose = options.verbose;
        text.vlan_limit = usize::from(self.dp.config().vlan_limit);
        text.to_string()
    }

    /// All datapath flows, a line each, in the order in which they were installed.
    pub fn flow_lines(&self, options: DumpOptions, now: Time) -> impl Iterator<Item = String> + '_ {
        self.dp.flows().iter().map(move |flow| self.flow_text(&flow, options, now))
    }
}
