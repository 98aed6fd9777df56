//! `ovs-appctl fdb/*`: the addresses that bridges learned.
//!
//! Counterpart: `ofproto_unixctl_fdb_*` of OVS `ofproto/ofproto-dpif.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::{CommandError, refused};
use crate::openflow::bridge::BridgeId;
use crate::openflow::command::Word;
use crate::openflow::mac_learning::MacTable;
use crate::openflow::ofproto::Changes;
use crate::types::{MacAddr, OfPort, Time};

impl Switch {
    /// The bridge of that name, or all.
    pub(super) fn bridges_of(&self, bridge: Option<&Word>) -> Result<Vec<BridgeId>, CommandError> {
        match bridge {
            Some(name) => {
                let id = self.bridge_id(&name.text);
                Ok(vec![id.map_err(|_| refused(format!("no such bridge {}", name.text)))?])
            }
            None => Ok(self.ofproto().bridges().map(|bridge| bridge.id).collect()),
        }
    }

    fn mac_table(&mut self, id: BridgeId) -> Result<&mut MacTable, CommandError> {
        self.ofproto_mut().mac_table_mut(id).ok_or_else(|| refused("no such bridge"))
    }

    /// `fdb/show`: one bridge, or several, with their names in front; all if none is named.
    pub(super) fn fdb_show(&mut self, names: &[Word], now: Time) -> Result<String, CommandError> {
        self.credit(now);
        let mut ids = if names.is_empty() { self.bridges_of(None)? } else { Vec::new() };
        for name in names {
            ids.extend(self.bridges_of(Some(name))?);
        }
        let bridges: Vec<_> = ids.into_iter().filter_map(|id| self.ofproto().bridge(id)).collect();
        let longest = bridges.iter().map(|bridge| bridge.name.len()).max().unwrap_or(0);
        let width = (bridges.len() > 1).then(|| longest.max("Bridge".len()) + 1);
        let mut text = String::new();
        // Writing to a string cannot fail.
        if let Some(width) = width {
            let _ = write!(text, " {:<width$}", "Bridge");
        }
        text.push_str(" Port  VLAN  MAC                Age\n");
        for found in bridges {
            let mut name = found.name.as_str();
            for entry in self.ofproto().mac_table(found.id).into_iter().flat_map(|table| table.entries(now)) {
                if let Some(width) = width {
                    let _ = write!(text, " {:<width$}", std::mem::take(&mut name));
                }
                let port = found.bundle(entry.port).and_then(|bundle| bundle.ports.first());
                let port = port.map_or_else(|| "?".to_owned(), |port| port_text(*port));
                let age = entry.age_secs.map_or_else(|| "static".to_owned(), |age| age.to_string());
                let _ = writeln!(text, "{port:>5}  {:>4}  {}  {age:>3}", entry.vlan, entry.mac);
            }
            if width.is_some() && !name.is_empty() {
                let _ = writeln!(text, " {name}");
            }
        }
        Ok(text)
    }

    pub(super) fn fdb_flush(&mut self, bridge: Option<&Word>, now: Time) -> Result<String, CommandError> {
        // What was heard before is forgotten, too.
        self.credit(now);
        for id in self.bridges_of(bridge)? {
            self.mac_table(id)?.flush();
        }
        self.ofproto_mut().set_changed(Changes::ADDRESSES);
        Ok("table successfully flushed\n".to_owned())
    }

    pub(super) fn fdb_stats_show(
        &mut self,
        bridge: Option<&Word>,
        now: Time,
    ) -> Result<String, CommandError> {
        self.credit(now);
        let Some(name) = bridge else { return Err(refused("fdb/stats-show needs a bridge")) };
        let id = self.bridges_of(bridge)?.first().copied().ok_or_else(|| refused("no such bridge"))?;
        let table = self.mac_table(id)?;
        let counters = table.counters();
        Ok(format!(
            "Statistics for bridge \"{}\":\n\
             \x20 Current/maximum MAC entries in the table: {}/{}\n\
             \x20 Current static MAC entries in the table : {}\n\
             \x20 Total number of learned MAC entries     : {}\n\
             \x20 Total number of expired MAC entries     : {}\n\
             \x20 Total number of evicted MAC entries     : {}\n\
             \x20 Total number of port moved MAC entries  : {}\n",
            name.text,
            table.len(),
            table.max_entries(),
            table.n_static(),
            counters.learned,
            counters.expired,
            counters.evicted,
            counters.moved,
        ))
    }

    pub(super) fn fdb_stats_clear(&mut self, bridge: Option<&Word>) -> Result<String, CommandError> {
        for id in self.bridges_of(bridge)? {
            self.mac_table(id)?.clear_counters();
        }
        Ok("statistics successfully cleared\n".to_owned())
    }

    /// `fdb/add`: an entry that neither ages nor moves.
    pub(super) fn fdb_add(
        &mut self,
        (bridge, port): (&Word, &Word),
        (vlan, mac): (&Word, &Word),
        now: Time,
    ) -> Result<String, CommandError> {
        let (id, vlan, mac) = self.place(bridge, vlan, mac)?;
        let found = self.port_named(&port.text).filter(|found| found.bridge == id);
        let of_port = found.map(|found| found.of_port);
        let bundle = self.ofproto().bridge(id).zip(of_port).and_then(|(bridge, port)| bridge.bundle_of(port));
        let bundle = bundle.map(|bundle| bundle.id);
        let Some(bundle) = bundle else {
            return Err(refused(format!("there is no port {} on bridge {}", port.text, bridge.text)));
        };
        let old = self.mac_table(id)?.entries(now).find(|entry| (entry.mac, entry.vlan) == (mac, vlan));
        self.mac_table(id)?.add_static(mac, vlan, bundle);
        let Some(old) = old.filter(|old| old.port != bundle || old.age_secs.is_some()) else {
            return Ok(String::new());
        };
        let port = self.ofproto().bridge(id).and_then(|bridge| bridge.bundle(old.port)?.ports.first());
        let port = port.map_or_else(|| "?".to_owned(), |port| port_text(*port));
        let kind = if old.age_secs.is_some() { "dynamic" } else { "static" };
        Ok(format!("Overriding already existing {kind} entry on {port}\n"))
    }

    pub(super) fn fdb_del(&mut self, bridge: &Word, vlan: &Word, mac: &Word) -> Result<String, CommandError> {
        let (id, vlan, mac) = self.place(bridge, vlan, mac)?;
        match self.mac_table(id)?.remove_static(mac, vlan) {
            true => Ok(String::new()),
            false => Err(refused("could not find static mac entry")),
        }
    }

    fn place(
        &self,
        bridge: &Word,
        vlan: &Word,
        mac: &Word,
    ) -> Result<(BridgeId, u16, MacAddr), CommandError> {
        let id = self.bridge_id(&bridge.text).map_err(|_| refused("no such bridge"))?;
        let mac = mac.text.parse().map_err(|_| refused("bad MAC address"))?;
        let vlan = vlan.text.parse().ok().filter(|vlan| *vlan < 4096);
        Ok((id, vlan.ok_or_else(|| refused("a VLAN is a number from 0 to 4095"))?, mac))
    }
}

pub(super) fn port_text(port: OfPort) -> String {
    if port == OfPort::LOCAL { "LOCAL".to_owned() } else { port.0.to_string() }
}
