//! `ovs-ofctl`: rules, groups and ports of a bridge.

use std::cmp::Ordering;

use super::super::Switch;
use super::ofctl_packet::compose_packet;
use super::ofctl_parse::{parse_flow, parse_flows};
use super::{CommandError, FileReader, bad_text, refused};
use crate::openflow::Match;
use crate::openflow::bridge::{BridgeId, FragmentHandling, PortFlags, Rule, RuleFilter};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::{Ofctl, OfctlOptions, Verb};
use crate::openflow::field::Field;
use crate::openflow::flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
use crate::openflow::group::{GroupMod, GroupModCommand};
use crate::openflow::protocol::{OfVersion, Protocols};
use crate::openflow::text::OfpError;
use crate::openflow::text::check::check;
use crate::openflow::text::{
    Names, NoNames, RuleStats, RuleText, TextError, field_by_name, group_to_text, parse_flow_mod,
    parse_group_mod, parse_port,
};
use crate::openflow::wire::{received, received_match};
use crate::types::{OfPort, Span, Time};

impl Switch {
    pub(super) fn ofctl(
        &mut self,
        call: &Ofctl,
        files: &mut FileReader<'_>,
        now: Time,
    ) -> Result<String, CommandError> {
        match &call.verb {
            Verb::FlowMod { bridge, command, text } => {
                self.flow_mod_text(&bridge.text, *command, text.as_ref(), &call.options, now)?;
            }
            Verb::GroupMod { bridge, command, text } => {
                self.group_mod_text(&bridge.text, *command, text.as_ref(), &call.options, now)?;
            }
            Verb::DumpFlows(bridge, text) => {
                self.credit(now);
                return self.rules_text(&bridge.text, text.as_ref(), call, now);
            }
            Verb::DumpGroups(bridge, group) => return self.groups_text(&bridge.text, group.as_ref(), call),
            Verb::ModPort { bridge, port, change } => {
                self.mod_port(&bridge.text, &port.text, &change.text)?;
            }
            Verb::Meter(bridge, verb) => return self.meter_command(&bridge.text, verb, &call.options, now),
            Verb::Tlv(bridge, verb) => return self.tlv_command(&bridge.text, verb, &call.options),
            Verb::GetFrags(bridge) => {
                let id = self.bridge_id(&bridge.text).map_err(refused)?;
                let handling = self.ofproto().bridge(id).map(|bridge| bridge.fragments).unwrap_or_default();
                return Ok(format!("{}\n", handling.word()));
            }
            Verb::SetFrags(bridge, word) => {
                let id = self.bridge_id(&bridge.text).map_err(refused)?;
                let handling = match word.text.as_str() {
                    "normal" => FragmentHandling::Normal,
                    "drop" => FragmentHandling::Drop,
                    "nx-match" => FragmentHandling::NxMatch,
                    other => {
                        return Err(refused(format!("ovs-ofctl: {other}: use normal, drop or nx-match")));
                    }
                };
                self.ofproto_mut().set_fragments(id, handling).map_err(refused)?;
            }
            Verb::FlowFile { bridge, file, command } => {
                self.flow_file(&bridge.text, file, *command, &call.options, files, now)?;
            }
            Verb::GroupFile { bridge, file } => {
                self.group_file(&bridge.text, file, &call.options, files, now)?;
            }
            Verb::DumpAggregate(bridge, text) => {
                self.credit(now);
                return self.aggregate_text(&bridge.text, text.as_ref(), call);
            }
            Verb::DumpPorts(bridge, port) => {
                self.credit(now);
                return self.ports_text(&bridge.text, port.as_ref(), &call.options);
            }
            Verb::DumpPortsDesc(bridge, port) => {
                return self.ports_desc_text(&bridge.text, port.as_ref(), &call.options);
            }
            Verb::DumpDesc(bridge) => return self.desc_text(&bridge.text, &call.options),
            Verb::Show(bridge) => return self.show_text(&bridge.text, &call.options),
            Verb::ReplaceFlows { bridge, file } => {
                self.replace_flows(&bridge.text, file, &call.options, files, now)?;
            }
            Verb::DiffFlows(left, right) => return self.diff_flows([left, right], &call.options, files),
            Verb::Table(bridge, verb) => return self.table_command(&bridge.text, verb, call, now),
            Verb::PacketOut(bridge, words) => {
                self.packet_out_text(&bridge.text, words, &call.options, now)?;
            }
            Verb::ComposePacket(flow, payload) => {
                return compose_packet(flow, payload.as_ref(), &call.options);
            }
            Verb::ParseFlow(flow) => return parse_flow(flow, &call.options),
            Verb::ParseFlows(file) => return parse_flows(file, &call.options, files),
        }
        Ok(String::new())
    }

    /// The bridge of a name, whose ports may be named in text.
    pub(super) fn named_bridge(&self, name: &str) -> Result<(BridgeId, &dyn Names), CommandError> {
        let bridge = self.ofproto().bridge_named(name);
        bridge
            .map(|bridge| (bridge.id, bridge as &dyn Names))
            .ok_or_else(|| refused(format!("ovs-ofctl: {name} is not a bridge or a socket")))
    }

    fn flow_mod_text(
        &mut self,
        bridge: &str,
        command: FlowModCommand,
        text: Option<&Word>,
        options: &OfctlOptions,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let parsed = read(text, |text| parse_flow_mod(text, command, names))?;
        let version = version_for(options, parsed.protocols)?;
        self.credit(now);
        self.send_flow_mod(id, parsed.flow_mod, version, now)
    }

    /// Carries out a change as it arrives in a message of `version`.
    pub(super) fn send_flow_mod(
        &mut self,
        id: BridgeId,
        mut change: FlowMod,
        version: OfVersion,
        now: Time,
    ) -> Result<(), CommandError> {
        change.actions = received(version, &change.actions, &change.rule_match).map_err(ofctl_error)?;
        change.rule_match = received_match(version, &change.rule_match);
        // In the words of that version an action may need what the rule does not establish.
        let usable = check(&change.actions, &change.rule_match, change.table);
        if !usable.is_ok_and(|usable| usable.intersects(version.protocols())) {
            return Err(refused(format!("ovs-ofctl: {}", OfpError::MatchInconsistent)));
        }
        self.ofproto_mut().flow_mod(id, &change, now).map(drop).map_err(ofctl_error)
    }

    fn group_mod_text(
        &mut self,
        bridge: &str,
        command: GroupModCommand,
        text: Option<&Word>,
        options: &OfctlOptions,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let change = read(text, |text| parse_group_mod(text, command, names))?;
        self.credit(now);
        self.send_group_mod(id, change, options, now)
    }

    /// Carries out a change of a group as it arrives in a message.
    pub(super) fn send_group_mod(
        &mut self,
        id: BridgeId,
        mut change: GroupMod,
        options: &OfctlOptions,
        now: Time,
    ) -> Result<(), CommandError> {
        // OpenFlow 1.0 has no groups.
        let version =
            options.versions.iter().copied().rfind(|&v| v != OfVersion::Of10).unwrap_or(OfVersion::Of15);
        for bucket in &mut change.buckets {
            bucket.actions = received(version, &bucket.actions, &Match::catch_all()).map_err(ofctl_error)?;
        }
        self.ofproto_mut().group_mod(id, &change, now).map(drop).map_err(ofctl_error)
    }

    /// `dump-aggregate`: sums over the rules that a match selects.
    fn aggregate_text(
        &self,
        bridge: &str,
        text: Option<&Word>,
        call: &Ofctl,
    ) -> Result<String, CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let wanted = read(text, |text| parse_flow_mod(text, FlowModCommand::Delete, names))?.flow_mod;
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let rules = found.find_rules(&filter_of(&wanted));
        let (mut packets, mut bytes) = (0_u64, 0_u64);
        for rule in &rules {
            let stats = self.ofproto().rule_stats(rule.id);
            packets = packets.saturating_add(stats.packets);
            bytes = bytes.saturating_add(stats.bytes);
        }
        let header = rules_header("AGGREGATE", dump_version(&call.options), text.is_some());
        let n = rules.len();
        Ok(format!("{} packet_count={packets} byte_count={bytes} flow_count={n}\n", header.trim_end()))
    }

    fn rules_text(
        &self,
        bridge: &str,
        text: Option<&Word>,
        call: &Ofctl,
        now: Time,
    ) -> Result<String, CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let wanted = read(text, |text| parse_flow_mod(text, FlowModCommand::Delete, names))?.flow_mod;
        let filter = filter_of(&wanted);
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let shown: &dyn Names = if call.options.names == Some(true) { found } else { &NoNames };
        let version = dump_version(&call.options);
        // With any of these, ovs-ofctl reads the reply and prints the rules itself: without header and ages.
        let raw = call.options.sort.is_empty() && call.options.names != Some(true) && !call.options.no_stats;
        let nicira = raw && version == OfVersion::Of10;
        let seconds = |span: Span| span.0 / 1_000_000_000;
        let line = |rule: &Rule| {
            let stats = self.ofproto().rule_stats(rule.id);
            let counters = RuleStats {
                duration_ns: now.since(rule.created).0,
                packets: stats.packets,
                bytes: stats.bytes,
                // OpenFlow tells the first since 1.5 only; Nicira's extension of 1.0 tells both.
                idle_age: (nicira || raw && version == OfVersion::Of15)
                    .then(|| seconds(now.since(stats.used))),
                hard_age: (nicira && rule.modified != rule.created)
                    .then(|| seconds(now.since(rule.modified))),
            };
            let text = RuleText {
                cookie: rule.cookie,
                table: rule.table,
                priority: rule.priority,
                idle_timeout: rule.idle_timeout,
                hard_timeout: rule.hard_timeout,
                importance: if version >= OfVersion::Of14 { rule.importance } else { 0 },
                flags: if version >= OfVersion::Of13 { rule.flags } else { FlowModFlags::default() },
                rule_match: &rule.rule_match,
                actions: &rule.actions,
            };
            format!(" {}\n", text.to_text((!call.options.no_stats).then_some(&counters), shown))
        };
        let mut rules = found.find_rules(&filter);
        for (field, reverse) in call.options.sort.iter().rev() {
            let field = sort_field(field)?;
            rules.sort_by(|a, b| compare(field, a, b, *reverse));
        }
        let mut out = if raw { rules_header("FLOW", version, text.is_some()) } else { String::new() };
        out.extend(rules.iter().map(|rule| line(rule)));
        Ok(out)
    }

    fn groups_text(&self, bridge: &str, group: Option<&Word>, call: &Ofctl) -> Result<String, CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let shown: &dyn Names = if call.options.names == Some(true) { found } else { &NoNames };
        let version = dump_version(&call.options);
        // Buckets have numbers in OpenFlow 1.5, and in Nicira's extension of 1.0.
        let bucket_ids = matches!(version, OfVersion::Of10 | OfVersion::Of15);
        let line = |group: &crate::openflow::bridge::Group| {
            format!(
                " {}\n",
                group_to_text(group.id, group.kind, &group.buckets, &group.props, bucket_ids, shown)
            )
        };
        let wanted = match group {
            Some(word) => {
                let id: u32 = word
                    .text
                    .parse()
                    .map_err(|_| refused(format!("ovs-ofctl: {} is not a group", word.text)))?;
                Some(id)
            }
            None => None,
        };
        let groups = found.groups().iter().filter(|group| wanted.is_none_or(|id| group.id == id));
        let mut text = reply_header("GROUP_DESC", version, 2);
        text.extend(groups.map(|group| line(group)));
        Ok(text)
    }

    fn mod_port(&mut self, bridge: &str, port: &str, change: &str) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let number =
            parse_port(port, names).ok_or_else(|| refused(format!("ovs-ofctl: {bridge}: no port {port}")))?;
        let found = self.ofproto().bridge(id).and_then(|bridge| bridge.port(number));
        let mut flags: PortFlags = found
            .map(|port| port.flags)
            .ok_or_else(|| refused(format!("ovs-ofctl: {bridge}: no port {port}")))?;
        let (on, word) = match change.strip_prefix("no-") {
            Some(rest) => (false, rest),
            None => (true, change),
        };
        match word {
            "up" => flags.down = !on,
            "down" => flags.down = on,
            "receive" => flags.no_receive = !on,
            "receive-stp" => flags.no_receive_stp = !on,
            "flood" => flags.no_flood = !on,
            "forward" => flags.no_forward = !on,
            "packet-in" => flags.no_packet_in = !on,
            _ => {
                return Err(refused(format!(
                    "ovs-ofctl: {change}: use up, down, or [no-]receive, receive-stp, flood, forward, packet-in"
                )));
            }
        }
        debug_assert_ne!(number, OfPort::NONE);
        self.ofproto_mut().set_port_flags(id, number, flags).map_err(refused)?;
        let found = self.ofproto().bridge(id).and_then(|bridge| bridge.port(number));
        if let (Some(name), "up" | "down") = (found.map(|port| port.name.clone()), word) {
            // The device goes down with it, so nothing leaves by the port whatever a rule says: real OVS forwards to such a
            // port and leaves the dropping to the device (case i-drop-has-a-reason).
            self.configure_device(&name, |device| device.admin_up = !flags.down).map_err(refused)?;
        }
        Ok(())
    }
}

/// The rules that a deletion would delete.
fn filter_of(wanted: &FlowMod) -> RuleFilter<'_> {
    RuleFilter {
        table: wanted.table,
        rule_match: &wanted.rule_match,
        cookie: (wanted.cookie, wanted.cookie_mask),
        out_port: wanted.out_port,
        out_group: wanted.out_group,
    }
}

/// The version that a dump is asked in: the first of those allowed.
pub(super) fn dump_version(options: &OfctlOptions) -> OfVersion {
    options.versions.first().copied().unwrap_or(OfVersion::Of10)
}

/// The line that ovs-ofctl writes above a reply. Its transaction id counts messages there; here it is always what it is for
/// the first request of a call, which others may precede.
pub(super) fn reply_header(kind: &str, version: OfVersion, xid: u32) -> String {
    let name = OfVersion::NAMES.iter().find(|(v, _)| *v == version).map_or("", |(_, name)| name);
    match name.strip_prefix("OpenFlow1") {
        Some(minor) if version != OfVersion::Of10 => {
            format!("OFPST_{kind} reply (OF1.{minor}) (xid={xid:#x}):\n")
        }
        _ => format!("NXST_{kind} reply (xid={xid:#x}):\n"),
    }
}

/// The header of a reply about rules: in OpenFlow 1.0 the format is found out first, for a match the names of ports.
fn rules_header(kind: &str, version: OfVersion, has_match: bool) -> String {
    let xid = match (version, has_match) {
        (OfVersion::Of10, false) => 4,
        (OfVersion::Of10, true) => 8,
        (_, false) => 2,
        (_, true) => 6,
    };
    reply_header(kind, version, xid)
}

/// What to sort by: a field, or the priority, which `--sort` alone means.
fn sort_field(name: &str) -> Result<Option<Field>, CommandError> {
    if name.is_empty() || name.eq_ignore_ascii_case("priority") {
        return Ok(None);
    }
    field_by_name(name).map(Some).ok_or_else(|| refused(format!("ovs-ofctl: {name}: unknown field name")))
}

/// Rules without the field come last, whatever the order.
fn compare(field: Option<Field>, a: &Rule, b: &Rule, reverse: bool) -> Ordering {
    let order = match field {
        None => a.priority.cmp(&b.priority),
        Some(field) => {
            let value = |rule: &Rule| {
                let (value, mask) = rule.rule_match.get(field);
                let there = !mask.is_zero() && field.prereqs_met(&rule.rule_match.flow, None);
                let bytes = (0..field.info().n_bytes as usize).rev().map(|i| value.byte(i));
                there.then(|| bytes.collect::<Vec<u8>>())
            };
            match (value(a), value(b)) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Greater,
                (Some(_), None) => return Ordering::Less,
                (Some(a), Some(b)) => a.cmp(&b),
            }
        }
    };
    if reverse { order.reverse() } else { order }
}

/// Reads a word of text; without one, nothing is read: everything is meant.
pub(super) fn read<T>(
    word: Option<&Word>,
    parse: impl FnOnce(&str) -> Result<T, TextError>,
) -> Result<T, CommandError> {
    match word {
        Some(word) => parse(&word.text).map_err(|error| bad_text(word, error)),
        None => parse("").map_err(ofctl_error),
    }
}

pub(super) fn ofctl_error(error: impl std::fmt::Display) -> CommandError {
    refused(format!("ovs-ofctl: {error}"))
}

/// The OpenFlow version that a change to the flow tables is sent in: the first of those asked for (`-O`) that can express it.
/// Without `-O`, OpenFlow 1.0 with Nicira's extensions if that can, else 1.5: ovs-ofctl asks for `-O` then.
pub(super) fn version_for(options: &OfctlOptions, usable: Protocols) -> Result<OfVersion, CommandError> {
    let can = |version: &OfVersion| version.protocols().intersects(usable);
    if options.versions.is_empty() {
        return Ok(if can(&OfVersion::Of10) { OfVersion::Of10 } else { OfVersion::Of15 });
    }
    options.versions.iter().copied().find(can).ok_or_else(|| {
        let asked: Vec<&str> = OfVersion::NAMES
            .iter()
            .filter(|(v, _)| options.versions.contains(v))
            .map(|(_, name)| *name)
            .collect();
        refused(format!(
            "ovs-ofctl: this cannot be said in {}: choose another version with -O",
            asked.join(" or ")
        ))
    })
}
