//! `ovs-ofctl parse-flow` and `parse-flows`: rules as the messages that would carry them, with no bridge at all.
//!
//! Counterpart: `ofctl_parse_flows__()` of OVS `utilities/ovs-ofctl.c`, `ofputil_flow_mod_format()` of `lib/ofp-flow.c`.

use std::fmt::Write as _;

use super::ofctl::ofctl_error;
use super::ofctl_file::{bad_line, lines, read_file};
use super::{CommandError, FileReader, bad_text, refused};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::OfctlOptions;
use crate::openflow::flow_mod::{FlowMod, FlowModCommand};
use crate::openflow::protocol::{OfVersion, Protocols};
use crate::openflow::text::{
    NoNames, ParsedFlowMod, actions_to_text, format_port, match_to_text, parse_flow_mod,
};
use crate::openflow::wire::{received, received_match};
use crate::types::OfPort;

/// Names of sets of protocols, and of single ones.
const SETS: [(Protocols, &str); 4] = [
    (Protocols::ANY, "any"),
    (Protocols::OF10_STD.union(Protocols::OF10_STD_TID), "OpenFlow10"),
    (Protocols::OF10_NXM_ANY, "NXM"),
    (Protocols::OF12_UP, "OXM"),
];
const SINGLE: [(Protocols, &str, OfVersion); 9] = [
    (Protocols::OF10_STD, "OpenFlow10-table_id", OfVersion::Of10),
    (Protocols::OF10_STD_TID, "OpenFlow10+table_id", OfVersion::Of10),
    (Protocols::OF10_NXM, "NXM-table_id", OfVersion::Of10),
    (Protocols::OF10_NXM_TID, "NXM+table_id", OfVersion::Of10),
    (Protocols::OF11, "OpenFlow11", OfVersion::Of11),
    (Protocols::OF12, "OXM-OpenFlow12", OfVersion::Of12),
    (Protocols::OF13, "OXM-OpenFlow13", OfVersion::Of13),
    (Protocols::OF14, "OXM-OpenFlow14", OfVersion::Of14),
    (Protocols::OF15, "OXM-OpenFlow15", OfVersion::Of15),
];

/// `parse-flow`.
pub(super) fn parse_flow(word: &Word, options: &OfctlOptions) -> Result<String, CommandError> {
    let command = if options.strict { FlowModCommand::ModifyStrict } else { FlowModCommand::Add };
    let parsed = parse_flow_mod(&word.text, command, &NoNames).map_err(|error| bad_text(word, error))?;
    messages(&[parsed], options)
}

/// `parse-flows`: those of a file.
pub(super) fn parse_flows(
    file: &Word,
    options: &OfctlOptions,
    files: &mut FileReader<'_>,
) -> Result<String, CommandError> {
    let text = read_file(file, files)?;
    let parsed = lines(&text).map(|(number, line)| {
        parse_flow_mod(line, FlowModCommand::Add, &NoNames).map_err(|error| bad_line(file, number, &error))
    });
    messages(&parsed.collect::<Result<Vec<_>, _>>()?, options)
}

fn messages(parsed: &[ParsedFlowMod], options: &OfctlOptions) -> Result<String, CommandError> {
    let usable = parsed.iter().fold(Protocols::ANY, |usable, one| usable & one.protocols);
    let allowed = match options.protocols {
        Some(protocols) => protocols,
        // OpenFlow 1.0 is what ovs-ofctl speaks unless told otherwise.
        None if options.versions.is_empty() => Protocols::OF10_ANY,
        None => options.versions.iter().fold(Protocols::empty(), |all, version| all | version.protocols()),
    };
    let chosen = SINGLE.iter().find(|(protocol, ..)| (usable & allowed).contains(*protocol));
    let Some(&(protocol, name, version)) = chosen else {
        return Err(refused("ovs-ofctl: no usable protocol"));
    };
    let mut out = format!("usable protocols: {}\nchosen protocol: {name}\n", names(usable));
    for (n, one) in parsed.iter().enumerate() {
        let kind = if Protocols::OF10_NXM_ANY.contains(protocol) { "NXT_FLOW_MOD" } else { "OFPT_FLOW_MOD" };
        let note = version.note();
        // Writing to a string cannot fail.
        let _ =
            writeln!(out, "{kind}{note} (xid={:#x}): {}", n + 1, message(&one.flow_mod, protocol, version)?);
    }
    Ok(out)
}

fn names(mut protocols: Protocols) -> String {
    let mut names = Vec::new();
    while !protocols.is_empty() {
        let set = SETS.iter().find(|(set, _)| protocols.contains(*set)).copied();
        let single =
            || SINGLE.iter().find(|(one, ..)| protocols.contains(*one)).map(|&(one, name, _)| (one, name));
        let Some((part, name)) = set.or_else(single) else { break };
        names.push(name);
        protocols -= part;
    }
    if names.is_empty() { "none".to_owned() } else { names.join(",") }
}

/// A change as the receiver of its message prints it.
fn message(change: &FlowMod, protocol: Protocols, version: OfVersion) -> Result<String, CommandError> {
    let adds = !matches!(change.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    let mut out = match change.command {
        FlowModCommand::Add => "ADD",
        FlowModCommand::Modify => "MOD",
        FlowModCommand::ModifyStrict => "MOD_STRICT",
        FlowModCommand::Delete => "DEL",
        FlowModCommand::DeleteStrict => "DEL_STRICT",
    }
    .to_owned();
    let table = match change.table {
        _ if !Protocols::TID.contains(protocol) => 0,
        Some(table) => table.0,
        // OpenFlow 1.0 leaves the choice to the switch.
        None if adds && version > OfVersion::Of10 => 0,
        None => u8::MAX,
    };
    if table != 0 {
        let _ = write!(out, " table:{table}");
    }
    out.push(' ');
    let rule_match = received_match(version, &change.rule_match);
    let fields = match_to_text(&rule_match, Some(change.priority), &NoNames);
    out.push_str(&fields);
    if !fields.is_empty() {
        out.push(' ');
    }
    if let Some(cookie) = change.new_cookie.filter(|&cookie| cookie != 0 && cookie != u64::MAX) {
        let _ = write!(out, "cookie:{cookie:#x} ");
    }
    if change.cookie_mask != 0 && (version > OfVersion::Of10 || Protocols::OF10_NXM_ANY.contains(protocol)) {
        let _ = write!(out, "cookie:{:#x}/{:#x} ", change.cookie, change.cookie_mask);
    }
    let importance = if version >= OfVersion::Of14 { change.importance } else { 0 };
    let numbers = [("idle", change.idle_timeout), ("hard", change.hard_timeout), ("importance", importance)];
    for (name, number) in numbers.into_iter().filter(|&(_, number)| number != 0) {
        let _ = write!(out, "{name}:{number} ");
    }
    if change.out_port != OfPort::NONE {
        out.push_str("out_port:");
        format_port(&mut out, change.out_port, &NoNames);
        out.push(' ');
    }
    let flags = [
        (change.flags.send_flow_rem, "send_flow_rem "),
        (change.flags.check_overlap, "check_overlap "),
        (change.flags.reset_counts && version >= OfVersion::Of12, "reset_counts "),
        (change.flags.no_packet_counts && version >= OfVersion::Of13, "no_packet_counts "),
        (change.flags.no_byte_counts && version >= OfVersion::Of13, "no_byte_counts "),
    ];
    flags.iter().filter(|(set, _)| *set).for_each(|(_, name)| out.push_str(name));
    out.push_str("actions=");
    let actions = received(version, &change.actions, &change.rule_match).map_err(ofctl_error)?;
    out.push_str(&actions_to_text(&actions, &NoNames));
    Ok(out)
}
