//! `ovs-appctl mdb/*`: the multicast groups that bridges heard of.
//!
//! Counterpart: `ofproto_unixctl_mcast_snooping_*` of OVS `ofproto/ofproto-dpif.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::appctl_fdb::port_text;
use super::{CommandError, refused};
use crate::openflow::bridge::{Bridge, BundleId};
use crate::openflow::command::Word;
use crate::types::Time;

impl Switch {
    /// `mdb/show`: groups, then routers.
    pub(super) fn mdb_show(&mut self, bridge: &Word, now: Time) -> Result<String, CommandError> {
        let id = self.bridges_of(Some(bridge))?.first().copied().ok_or_else(|| refused("no such bridge"))?;
        let found = self.ofproto().bridge(id).zip(self.ofproto().snooping(id));
        let (bridge, table) = found.ok_or_else(|| refused("multicast snooping is disabled"))?;
        let mut text = " port  VLAN  protocol  GROUP                Age\n".to_owned();
        // Writing to a string cannot fail.
        for entry in table.entries(now) {
            let (port, protocol) = (port_of(bridge, entry.port), entry.protocol.name());
            // IPv4 groups are shown as such.
            let group = entry.group.to_canonical();
            let _ = writeln!(
                text,
                "{port:>5}  {:>4}  {protocol:<8}  {group}         {:>3}",
                entry.vlan, entry.age_secs
            );
        }
        for entry in table.router_entries(now) {
            let port = port_of(bridge, entry.port);
            let _ = writeln!(
                text,
                "{port:>5}  {:>4}  {:<8}  querier             {:>3}",
                entry.vlan, "UNKNOWN", entry.age_secs
            );
        }
        Ok(text)
    }

    /// `mdb/flush`: of all bridges, those that snoop.
    pub(super) fn mdb_flush(&mut self, bridge: Option<&Word>) -> Result<String, CommandError> {
        for id in self.bridges_of(bridge)? {
            match self.ofproto_mut().snooping_mut(id) {
                Some(table) => table.flush(),
                None if bridge.is_some() => return Err(refused("multicast snooping is disabled")),
                None => {}
            }
        }
        Ok("table successfully flushed\n".to_owned())
    }
}

fn port_of(bridge: &Bridge, port: BundleId) -> String {
    let port = bridge.bundle(port).and_then(|bundle| bundle.ports.first());
    port.map_or_else(|| "?".to_owned(), |port| port_text(*port))
}
