//! `ovs-ofctl`: what a bridge tells of its tables, of what groups can do, and of queues.
//!
//! Counterpart: OVS `lib/ofp-table.c`, `lib/ofp-group.c`, `lib/ofp-queue.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::ofctl::{dump_version, read, reply_header};
use super::ofctl_port::{header, wanted_port};
use super::{CommandError, refused};
use crate::openflow::Match;
use crate::openflow::bridge::{Bridge, Group, N_TABLES, RuleFilter};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::{Ofctl, OfctlOptions, TableVerb};
use crate::openflow::group::GroupModCommand;
use crate::openflow::ofproto::TableStats;
use crate::openflow::protocol::OfVersion;
use crate::openflow::text::{NoNames, format_port, parse_group_mod, seconds};
use crate::types::{OfPort, TableId, Time};

/// Rules of a table at most, where nothing limits them.
const MAX_ENTRIES: usize = 1_000_000;
/// Actions by OpenFlow version.
const ACTIONS_10: &str = "output enqueue set_vlan_vid set_vlan_pcp strip_vlan mod_dl_src mod_dl_dst mod_nw_src \
                          mod_nw_dst mod_nw_tos mod_tp_src mod_tp_dst";
const ACTIONS_11: &str = "output group set_vlan_vid set_vlan_pcp strip_vlan push_vlan mod_dl_src mod_dl_dst \
                          mod_nw_src mod_nw_dst mod_nw_tos mod_nw_ecn mod_nw_ttl mod_tp_src mod_tp_dst dec_ttl \
                          set_mpls_label set_mpls_tc set_mpls_ttl dec_mpls_ttl push_mpls pop_mpls set_queue";
const ACTIONS_12: &str = "output group set_field strip_vlan push_vlan mod_nw_ttl dec_ttl set_mpls_ttl dec_mpls_ttl \
                          push_mpls pop_mpls set_queue";
/// Fields that rules may match, in OpenFlow 1.0 to 1.2.
const MATCH_10: &str = "in_port eth_{src,dst,type} vlan_{vid,pcp} ip_{src,dst} nw_{proto,tos} tcp_{src,dst}";
const MATCH_11: &str = "metadata in_port eth_{src,dst,type} vlan_{vid,pcp} mpls_{label,tc} ip_{src,dst} \
                        nw_{proto,tos} tcp_{src,dst}";
const MATCH_12: &str = "metadata in_port_oxm eth_{src,dst,type} vlan_{vid,pcp} mpls_{label,tc} ip_{src,dst} \
                        ipv6_{src,dst,label} nw_proto ip_dscp nw_ecn arp_{op,spa,tpa,sha,tha} tcp_{src,dst} \
                        udp_{src,dst} sctp_{src,dst} icmp_{type,code} icmpv6_{type,code} nd_{target,sll,tll}";
/// Fields that actions may set, in OpenFlow 1.2.
const SET_12: &str = "metadata in_port_oxm eth_{src,dst} vlan_{vid,pcp} mpls_{label,tc} ip_{src,dst} \
                      ipv6_{src,dst,label} ip_dscp nw_ecn arp_{op,spa,tpa,sha,tha} tcp_{src,dst} udp_{src,dst} \
                      sctp_{src,dst} icmp_{type,code} icmpv6_{type,code} nd_{target,sll,tll}";
/// The same with table features, which OpenFlow 1.3 has.
const SET_13: &str = "tun_{id,src,dst,ipv6_{src,dst},flags,gbp_{id,flags},erspan_{idx,ver,dir,hwid},\
                      metadata0...metadata63} metadata in_{port,port_oxm} pkt_mark ct_{mark,label} reg0...reg31 \
                      xreg0...xreg15 xxreg0...xxreg7 eth_{src,dst} vlan_{tci,vid,pcp} mpls_{label,tc,ttl} \
                      ip_{src,dst} ipv6_{src,dst,label} nw_tos ip_dscp nw_{ecn,ttl} arp_{op,spa,tpa,sha,tha} \
                      tcp_{src,dst} udp_{src,dst} sctp_{src,dst} icmp_{type,code} icmpv6_{type,code} \
                      nd_{target,sll,tll,reserved,options_type} nsh_{flags,spi,si,c1...c4,ttl}";
/// Fields matched under any mask, and those matched as a whole only.
const MASKABLE_13: &str = "dp_hash tun_{id,src,dst,ipv6_{src,dst},flags,gbp_{id,flags},erspan_{idx,ver,dir,hwid},\
                           gtpu_{flags,msgtype},metadata0...metadata63} metadata pkt_mark ct_{state,mark,label,\
                           nw_{src,dst},ipv6_{src,dst},tp_{src,dst}} reg0...reg31 xreg0...xreg15 xxreg0...xxreg7 \
                           eth_{src,dst} vlan_{tci,vid} ip_{src,dst} ipv6_{src,dst,label} ip_frag \
                           arp_{spa,tpa,sha,tha} tcp_{src,dst,flags} udp_{src,dst} sctp_{src,dst} \
                           nd_{target,sll,tll} nsh_{flags,c1...c4}";
const EXACT_13: &str = "recirc_id packet_type conj_id in_{port,port_oxm} actset_output ct_{zone,nw_proto} eth_type \
                        vlan_pcp mpls_{label,tc,bos,ttl} nw_{proto,tos} ip_dscp nw_{ecn,ttl} arp_op icmp_{type,code} \
                        icmpv6_{type,code} nd_{reserved,options_type} nsh_{mdtype,np,spi,si,ttl}";
const METADATA: &str = "    metadata: match=0xffffffffffffffff write=0xffffffffffffffff\n";

/// What is told of a table besides what its version can do.
#[derive(PartialEq)]
struct TableFacts {
    name: Option<String>,
    max_entries: usize,
    /// Whether there is a later table to go to.
    has_next: bool,
}

impl TableFacts {
    fn of(bridge: &Bridge, table: TableId) -> Self {
        let config = bridge.table(table).map(|table| &table.config);
        Self {
            name: config.and_then(|config| config.name.clone()),
            max_entries: config.and_then(|config| config.max_rules).unwrap_or(MAX_ENTRIES),
            has_next: table.0 + 1 < N_TABLES,
        }
    }
}

fn tables() -> impl Iterator<Item = TableId> {
    (0..N_TABLES).map(TableId)
}

/// Tables that are as the one before are told together.
#[derive(Default)]
struct Dittos(Option<(u8, u8)>);

impl Dittos {
    fn add(&mut self, table: TableId) {
        self.0 = Some((self.0.map_or(table.0, |(first, _)| first), table.0));
    }

    fn finish(&mut self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self.0.take() {
            None => Ok(()),
            Some((first, last)) if first == last => writeln!(out, "\n  table {first}: ditto"),
            Some((first, last)) => writeln!(out, "\n  tables {first}...{last}: ditto"),
        };
    }
}

impl Switch {
    pub(super) fn table_command(
        &mut self,
        bridge: &str,
        verb: &TableVerb,
        call: &Ofctl,
        now: Time,
    ) -> Result<String, CommandError> {
        let version = dump_version(&call.options);
        match verb {
            TableVerb::Stats => {
                self.credit(now);
                self.tables_text(bridge, version)
            }
            TableVerb::Features => self.table_features_text(bridge, version),
            TableVerb::Desc => self.table_desc_text(bridge, version),
            TableVerb::GroupFeatures => {
                self.named_bridge(bridge)?;
                Ok(group_features_text(version))
            }
            TableVerb::GroupStats(group) => {
                self.credit(now);
                self.group_stats_text(bridge, group.as_ref(), version, now)
            }
            TableVerb::QueueStats(port, queue) => {
                self.queue_stats_text(bridge, port.as_ref(), queue.as_ref(), &call.options)
            }
            TableVerb::QueueConfig(port) => self.queue_config_text(bridge, port.as_ref(), &call.options),
        }
    }

    /// `dump-tables`: rules and searches of each table.
    fn tables_text(&self, bridge: &str, version: OfVersion) -> Result<String, CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let mut out = header("TABLE", version, 2);
        let mut dittos = Dittos::default();
        let mut before: Option<(TableFacts, usize, TableStats)> = None;
        for table in tables() {
            let mut facts = TableFacts::of(found, table);
            // OpenFlow 1.3 asks for features separately, and 1.0 knows no next table.
            if version >= OfVersion::Of13 {
                facts = TableFacts { name: None, max_entries: 0, has_next: true };
            } else if version == OfVersion::Of10 {
                facts.has_next = true;
            }
            let active = found.table(table).map_or(0, |table| table.classifier.len());
            let stats = self.ofproto().table_stats(id, table);
            let (same_features, same_stats) = before.as_ref().map_or((false, false), |before| {
                (before.0 == facts, (before.1, before.2) == (active, stats))
            });
            if same_features && same_stats && facts.name.is_none() {
                dittos.add(table);
                continue;
            }
            dittos.finish(&mut out);
            let name = facts.name.as_ref().map_or_else(String::new, |name| format!(" (\"{name}\")"));
            let _ = writeln!(out, "\n  table {}{name}:", table.0);
            let lookups = stats.matched + stats.missed;
            let _ = writeln!(out, "    active={active}, lookup={lookups}, matched={}", stats.matched);
            if version < OfVersion::Of13 {
                match &before {
                    Some(_) if same_features => out.push_str("    (same features)\n"),
                    before => {
                        old_features(&mut out, version, &facts, before.as_ref().map(|before| &before.0));
                    }
                }
            }
            before = Some((facts, active, stats));
        }
        dittos.finish(&mut out);
        Ok(out)
    }

    /// `dump-table-features`.
    fn table_features_text(&self, bridge: &str, version: OfVersion) -> Result<String, CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        if version < OfVersion::Of13 {
            return Err(refused(
                "ovs-ofctl: dump-table-features needs OpenFlow 1.3 or later ('-O OpenFlow13')",
            ));
        }
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let mut out = String::new();
        let mut dittos = Dittos::default();
        let mut before: Option<TableFacts> = None;
        for table in tables() {
            let facts = TableFacts::of(found, table);
            // Which tables come next says nothing new unless there are none.
            let same = before.as_ref() == Some(&facts);
            if same && facts.name.is_none() {
                dittos.add(table);
                continue;
            }
            dittos.finish(&mut out);
            let name = facts.name.as_ref().map_or_else(String::new, |name| format!(" (\"{name}\")"));
            let _ = writeln!(out, "\n  table {}{name}:{}", table.0, if same { " ditto" } else { "" });
            if !same {
                new_features(&mut out, version, table, &facts, before.as_ref());
            }
            before = Some(facts);
        }
        dittos.finish(&mut out);
        // ovs-ofctl starts with the first table.
        Ok(format!("{}\n", out.trim_start_matches('\n')))
    }

    /// `dump-table-desc`: how tables are configured.
    fn table_desc_text(&self, bridge: &str, version: OfVersion) -> Result<String, CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        if version < OfVersion::Of14 {
            return Err(refused("ovs-ofctl: dump-table-desc needs OpenFlow 1.4 or later ('-O OpenFlow14')"));
        }
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let mut out = header("TABLE_DESC", version, 2);
        for table in tables() {
            let config = found.table(table).map(|table| &table.config);
            let name = config.and_then(|config| config.name.as_ref());
            let name = name.map_or_else(String::new, |name| format!(" (\"{name}\")"));
            let evict = if config.is_some_and(|config| config.evict) { "on" } else { "off" };
            let _ = writeln!(
                out,
                "\n  table {}{name}:\n   eviction={evict} eviction_flags=OTHER|IMPORTANCE|LIFETIME\n   vacancy=off",
                table.0
            );
        }
        Ok(out)
    }

    /// `dump-group-stats`: packets of groups and of their buckets.
    fn group_stats_text(
        &self,
        bridge: &str,
        group: Option<&Word>,
        version: OfVersion,
        now: Time,
    ) -> Result<String, CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let wanted = match group {
            Some(_) => {
                Some(read(group, |text| parse_group_mod(text, GroupModCommand::Delete, names))?.group_id)
            }
            None => None,
        };
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let all_rules = Match::catch_all();
        let everything = RuleFilter {
            table: None,
            rule_match: &all_rules,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        let mut out = reply_header("GROUP", version, 6);
        let all = wanted.is_none_or(|id| id == crate::openflow::group::GROUP_ALL);
        for group in found.groups().iter().filter(|group| all || wanted == Some(group.id)) {
            let stats = self.ofproto().group_stats(id, group.id);
            let _ = write!(out, " group_id={},", group.id);
            // OpenFlow tells this since 1.3.
            if !matches!(version, OfVersion::Of11 | OfVersion::Of12) {
                let _ = write!(out, "duration={}s,", seconds(now.since(group.created).0));
            }
            let refs =
                found.find_rules(&RuleFilter { out_group: Some(group.id), ..everything.clone() }).len();
            let _ = write!(out, "ref_count={refs},packet_count={},byte_count={}", stats.packets, stats.bytes);
            put_buckets(&mut out, group, &stats);
            out.push('\n');
        }
        Ok(out)
    }

    fn queue_ports(
        &self,
        bridge: &str,
        port: Option<&Word>,
    ) -> Result<(Vec<OfPort>, Option<OfPort>), CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        let Some(found) = self.ofproto().bridge(id) else { return Ok((Vec::new(), None)) };
        let wanted = wanted_port(found, port)?;
        let mut ports: Vec<OfPort> = found.ports().map(|port| port.of_port).collect();
        ports.retain(|port| wanted.is_none_or(|wanted| wanted == *port));
        // The bridge's own comes first.
        ports.sort_by_key(|port| *port != OfPort::LOCAL);
        if ports.is_empty() {
            return Err(refused("ovs-ofctl: OFPQOFC_BAD_PORT: there is no such port"));
        }
        Ok((ports, wanted))
    }

    /// `queue-stats`: each port has one queue, whose packets nobody counts.
    fn queue_stats_text(
        &self,
        bridge: &str,
        port: Option<&Word>,
        queue: Option<&Word>,
        options: &OfctlOptions,
    ) -> Result<String, CommandError> {
        let (ports, _) = self.queue_ports(bridge, port)?;
        if queue.is_some_and(|queue| !matches!(queue.text.as_str(), "0" | "all" | "ALL" | "any" | "ANY")) {
            return Err(refused("ovs-ofctl: OFPQOFC_BAD_QUEUE: ports have queue 0 only"));
        }
        let mut out = header("QUEUE", dump_version(options), 2);
        let _ = writeln!(out, " {} queues", ports.len());
        for port in ports {
            out.push_str("  port ");
            format_port(&mut out, port, &NoNames);
            out.push_str(" queue 0: bytes=?, pkts=?, errors=?, duration=?\n");
        }
        Ok(out)
    }

    /// `queue-get-config`.
    fn queue_config_text(
        &self,
        bridge: &str,
        port: Option<&Word>,
        options: &OfctlOptions,
    ) -> Result<String, CommandError> {
        let (mut ports, wanted) = self.queue_ports(bridge, port)?;
        let version = dump_version(options);
        let name = |port: OfPort| {
            let mut name = String::new();
            format_port(&mut name, port, &NoNames);
            name
        };
        let reply = |kind: &str, xid: u32| {
            let line = header(kind, version, xid);
            line.replacen("OFPST_QUEUE_GET_CONFIG_REPLY reply", "OFPT_QUEUE_GET_CONFIG_REPLY", 1)
        };
        let mut out = String::new();
        if version >= OfVersion::Of14 {
            ports.sort_by_key(|port| port.0);
            out.push_str(&reply("QUEUE_DESC", 2));
            for (n, port) in ports.into_iter().enumerate() {
                let _ = writeln!(out, "{}port={}\nqueue 0:", if n == 0 { " " } else { "" }, name(port));
            }
        } else if version == OfVersion::Of10 && wanted.is_none() {
            // OpenFlow 1.0 cannot ask for all: ovs-ofctl asks for one port after the other.
            for (n, port) in ports.into_iter().filter(|port| *port < OfPort::MAX).enumerate() {
                let xid = 4 + n as u32;
                let _ =
                    writeln!(out, "{} port={}\nqueue 0:", reply("QUEUE_GET_CONFIG_REPLY", xid), name(port));
            }
        } else {
            let asked = wanted.map_or_else(|| "ANY".to_owned(), name);
            let _ = writeln!(out, "{} port={asked}", reply("QUEUE_GET_CONFIG_REPLY", 2));
            ports.iter().for_each(|_| out.push_str("queue 0:\n"));
        }
        Ok(out)
    }
}

fn put_buckets(out: &mut String, group: &Group, stats: &crate::openflow::ofproto::GroupStats) {
    for (n, bucket) in group.buckets.iter().enumerate() {
        let (packets, bytes) = stats.buckets.get(&bucket.id).copied().unwrap_or_default();
        let _ = write!(out, ",bucket{n}:packet_count={packets},byte_count={bytes}");
    }
}

/// What a table can do, as far as statistics of OpenFlow 1.0 to 1.2 tell it.
fn old_features(out: &mut String, version: OfVersion, facts: &TableFacts, before: Option<&TableFacts>) {
    let (actions, matching) = match version {
        OfVersion::Of10 => (ACTIONS_10, MATCH_10),
        OfVersion::Of11 => (ACTIONS_11, MATCH_11),
        _ => (ACTIONS_12, MATCH_12),
    };
    if version == OfVersion::Of12 {
        out.push_str(METADATA);
    }
    if version > OfVersion::Of10 {
        out.push_str("    config=controller\n");
    }
    let _ = writeln!(out, "    max_entries={}", facts.max_entries);
    if version > OfVersion::Of10 {
        if before.is_some_and(|before| before.has_next == facts.has_next) {
            out.push_str("    (same instructions)\n");
        } else {
            out.push_str(
                "    instructions (table miss and others):\n      instructions: apply_actions clear_actions \
                          write_actions write_metadata",
            );
            out.push_str(if facts.has_next { " goto_table\n" } else { "\n" });
            if before.is_some() && version == OfVersion::Of12 {
                out.push_str("      (same actions)\n");
            } else {
                out.push_str("      Write-Actions and Apply-Actions features:\n");
                let _ = writeln!(out, "        actions: {actions}");
                if version == OfVersion::Of12 {
                    let _ = writeln!(out, "        supported on Set-Field: {SET_12}");
                }
            }
        }
    }
    if before.is_some() {
        out.push_str("    (same matching)\n");
    } else {
        let _ = writeln!(out, "    matching:\n      exact match or wildcard: {matching}");
    }
}

/// The same as OpenFlow 1.3 and later tell it.
fn new_features(
    out: &mut String,
    version: OfVersion,
    table: TableId,
    facts: &TableFacts,
    before: Option<&TableFacts>,
) {
    out.push_str(METADATA);
    if version >= OfVersion::Of14 {
        out.push_str("    eviction: not supported\n    vacancy events: not supported\n");
    }
    let _ = writeln!(out, "    max_entries={}", facts.max_entries);
    if before.is_some_and(|before| before.has_next == facts.has_next) {
        out.push_str("    (same instructions)\n");
    } else {
        out.push_str("    instructions (table miss and others):\n");
        if facts.has_next {
            let _ = writeln!(out, "      next tables: {}-{}", table.0 + 1, N_TABLES - 1);
        }
        // In OpenFlow 1.5 a meter is an action.
        let meter = if version >= OfVersion::Of15 { "" } else { "meter " };
        let goto = if facts.has_next { " goto_table" } else { "" };
        let _ = writeln!(
            out,
            "      instructions: {meter}apply_actions clear_actions write_actions write_metadata{goto}"
        );
        if before.is_some() {
            out.push_str("      (same actions)\n");
        } else {
            let _ = writeln!(
                out,
                "      Write-Actions and Apply-Actions features:\n        actions: {ACTIONS_12}\n        \
                 supported on Set-Field: {SET_13}"
            );
        }
    }
    if before.is_some() {
        out.push_str("    (same matching)\n");
    } else {
        let _ = writeln!(
            out,
            "    matching:\n      arbitrary mask: {MASKABLE_13}\n      exact match or wildcard: {EXACT_13}"
        );
    }
}

/// `dump-group-features`.
fn group_features_text(version: OfVersion) -> String {
    let actions = match version {
        OfVersion::Of10 => ACTIONS_10,
        OfVersion::Of11 => ACTIONS_11,
        _ => ACTIONS_12,
    };
    let mut out = header("GROUP_FEATURES", version, 2);
    // OpenFlow has this since 1.2.
    if version < OfVersion::Of12 {
        out = out.replacen("OFPST_", "NXST_", 1);
    }
    out.push_str("\n Group table:\n    Types:  0xf\n    Capabilities:  0x7\n");
    for kind in ["all", "select", "indirect", "fast failover"] {
        let _ = writeln!(out, "    {kind} group:\n       max_groups=0xffffff00\n       actions: {actions}");
    }
    out
}
