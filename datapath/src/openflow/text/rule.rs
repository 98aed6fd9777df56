//! Rules, and changes to them, in text.
//!
//! Counterpart: OVS `parse_ofp_str__` and `ofputil_flow_stats_format` of `lib/ofp-flow.c`.

use std::fmt::Write;

use super::actions::{ActionReader, Outer, unknown_port, unknown_table};
use super::check::check;
use super::error::{ErrorKind, Fault, OfpError, TextError};
use super::format;
use super::matches;
use super::names::{Names, format_table, parse_port, parse_table};
use super::normalize::{check_prerequisites, leave_out_inexpressible, normalize};
use super::scan::{KeyValue, KeyValues, c_int, trim_space, u16_of, u64_of};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
use crate::openflow::headers::{dl_type, ethertype};
use crate::openflow::protocol::Protocols;
use crate::openflow::rule_match::Match;
use crate::types::TableId;

/// A change as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedFlowMod {
    /// The change.
    pub flow_mod: FlowMod,
    /// Ways to express it in OpenFlow messages; never empty.
    pub protocols: Protocols,
    /// The match as it was written, if parts of it mean nothing for the packets that the rest lets through (a TCP port
    /// or flag without TCP). Those parts are not in [`Self::flow_mod`].
    pub normalized_from: Option<Box<Match>>,
}

/// Which attributes a command takes.
#[derive(Clone, Copy)]
struct Takes {
    actions: bool,
    timeouts: bool,
    priority: bool,
    importance: bool,
    out_port: bool,
    /// A cookie to set.
    cookie: bool,
}

impl Takes {
    fn of(command: FlowModCommand) -> Self {
        let (add, delete) = (command == FlowModCommand::Add, command == FlowModCommand::Delete);
        let delete = delete || command == FlowModCommand::DeleteStrict;
        Self {
            actions: !delete,
            timeouts: !delete,
            priority: command != FlowModCommand::Delete,
            importance: add,
            out_port: delete,
            cookie: !delete,
        }
    }
}

/// Reads a change to a flow table as `ovs-ofctl add-flow`, `mod-flows` or `del-flows` take it.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_flow_mod(
    line: &str,
    command: FlowModCommand,
    names: &dyn Names,
) -> Result<ParsedFlowMod, TextError> {
    parse(line, command, names).map_err(|fault| fault.within(line))
}

/// Reads a line of a file of changes: the command may stand in front of it; if not, it adds.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_flow_mod_line(line: &str, names: &dyn Names) -> Result<ParsedFlowMod, TextError> {
    let text = trim_space(line);
    let end = text.find([',', ' ', '\t', '\r', '\n']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    // OVS takes any beginning of a word: `del` is enough. The order decides about those that begin alike.
    let commands = [
        ("add", FlowModCommand::Add),
        ("delete", FlowModCommand::Delete),
        ("delete_strict", FlowModCommand::DeleteStrict),
        ("modify", FlowModCommand::Modify),
        ("modify_strict", FlowModCommand::ModifyStrict),
    ];
    let found = commands.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word));
    match found {
        Some(&(_, command)) => parse(rest, command, names),
        None => parse(text, FlowModCommand::Add, names),
    }
    .map_err(|fault| fault.within(line))
}

/// The part of a line in front of a comment; nothing of a line that has nothing else.
pub fn without_comment(line: &str) -> &str {
    let text = line.split_once('#').map_or(line, |(text, _)| text);
    if text.trim_matches([' ', '\t', '\n', '\r']).is_empty() { "" } else { text }
}

/// Reads a match alone.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_match(line: &str, names: &dyn Names) -> Result<Match, TextError> {
    let mut out = Match::catch_all();
    let mut protocols = Protocols::ANY;
    let read = || {
        for word in KeyValues::new(line) {
            if !matches::parse_word(word, &mut out, names, &mut protocols)? {
                return Err(unknown(word.key));
            }
        }
        Ok(())
    };
    let mut read = read;
    read().map_err(|fault: Fault<'_>| fault.within(line))?;
    normalize(&mut out);
    Ok(out)
}

/// Reads a list of actions alone, without instructions.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_actions(line: &str, names: &dyn Names) -> Result<crate::openflow::OfActions, TextError> {
    ActionReader::new(names).list(line, Outer::List).map_err(|fault| fault.within(line))
}

fn unknown(key: &str) -> Fault<'_> {
    Fault::new(key, ErrorKind::UnknownKeyword(key.to_owned()))
}

fn parse<'a>(line: &'a str, command: FlowModCommand, names: &dyn Names) -> Result<ParsedFlowMod, Fault<'a>> {
    let takes = Takes::of(command);
    let (attributes, actions) = if takes.actions { split_actions(line)? } else { (line, "") };
    let mut reader = RuleReader { out: empty(command), takes, names, protocols: Protocols::ANY };
    for word in KeyValues::new(attributes) {
        reader.word(word)?;
    }
    let RuleReader { mut out, mut protocols, .. } = reader;
    let mask = &out.rule_match.mask;
    let l4 = mask.nw_proto != 0 || mask.nw_tos != 0 || mask.tp_src.get() != 0 || mask.tp_dst.get() != 0;
    if dl_type(&out.rule_match.flow) == ethertype::IPV6 && l4 {
        protocols &= Protocols::NXM_OXM_ANY;
    }
    let mut list = ActionReader::new(names);
    if takes.actions {
        out.actions = list.list(actions, Outer::Rule)?;
        let bad = |error| Fault::new(actions, ErrorKind::BadActions(error));
        protocols &= list.protocols & check(&out.actions, &out.rule_match, out.table).map_err(bad)?;
        if protocols.is_empty() {
            return Err(bad(OfpError::MatchInconsistent));
        }
    }
    let before = out.rule_match.clone();
    normalize(&mut out.rule_match);
    leave_out_inexpressible(&mut out.rule_match);
    check_prerequisites(&out.rule_match).map_err(|kind| Fault::new(attributes, kind))?;
    let normalized_from = (before.mask != out.rule_match.mask).then(|| Box::new(before));
    Ok(ParsedFlowMod { flow_mod: out, protocols, normalized_from })
}

fn empty(command: FlowModCommand) -> FlowMod {
    FlowMod { new_cookie: (command == FlowModCommand::Add).then_some(0), ..FlowMod::new(command) }
}

/// Splits a rule at `actions=`: the first "action" in it, wherever, begins that, as in OVS.
fn split_actions(line: &str) -> Result<(&str, &str), Fault<'_>> {
    let missing = || Fault::new(&line[line.len()..], ErrorKind::NoActions);
    let at = line.find("action").ok_or_else(missing)?;
    let (attributes, rest) = line.split_at(at);
    let (_, actions) = rest.split_once('=').ok_or_else(missing)?;
    Ok((attributes, actions))
}

/// Attributes, and actions if there are any (OVS `ofp_extract_actions()`).
pub(super) fn split_at_actions(line: &str) -> (&str, Option<&str>) {
    match line.find("action") {
        Some(at) => (&line[..at], line[at..].split_once('=').map(|(_, actions)| actions)),
        None => (line, None),
    }
}

/// Attributes and match of a rule being read.
struct RuleReader<'n> {
    out: FlowMod,
    takes: Takes,
    names: &'n dyn Names,
    protocols: Protocols,
}

impl RuleReader<'_> {
    fn word<'a>(&mut self, word: KeyValue<'a>) -> Result<(), Fault<'a>> {
        if self.flag(word.key)
            || matches::parse_word(word, &mut self.out.rule_match, self.names, &mut self.protocols)?
        {
            return Ok(());
        }
        let KeyValue { key, value } = word;
        if value.is_empty() {
            return Err(Fault::new(key, ErrorKind::MissingValue(key.to_owned())));
        }
        let takes = self.takes;
        match key {
            "table" => {
                let table = parse_table(value, self.names).ok_or_else(|| unknown_table(value))?;
                // 255 stands for any table.
                self.out.table = Some(table).filter(|t| *t != TableId(255));
                if self.out.table.is_some() {
                    self.protocols &= Protocols::TID;
                }
            }
            "out_port" if takes.out_port => {
                let port = parse_port(value, self.names);
                self.out.out_port = port.ok_or_else(|| unknown_port(value, "not a valid OpenFlow port"))?;
            }
            "out_group" if takes.out_port => {
                self.protocols &= Protocols::OF11_UP;
                self.out.out_group = group_number(value)?;
            }
            "priority" if takes.priority => self.out.priority = u16_of(value, "priority")?,
            "idle_timeout" if takes.timeouts => self.out.idle_timeout = u16_of(value, "idle_timeout")?,
            "hard_timeout" if takes.timeouts => self.out.hard_timeout = u16_of(value, "hard_timeout")?,
            "importance" if takes.importance => self.out.importance = u16_of(value, "importance")?,
            "cookie" => self.cookie(value)?,
            // What dump-flows prints besides, so that its output can be read.
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn flag(&mut self, key: &str) -> bool {
        let flags = &mut self.out.flags;
        match key {
            "no_readonly_table" | "allow_hidden_fields" => {}
            "send_flow_rem" if self.takes.timeouts => flags.send_flow_rem = true,
            "check_overlap" if self.takes.timeouts => flags.check_overlap = true,
            "reset_counts" if self.takes.timeouts => {
                flags.reset_counts = true;
                self.protocols &= Protocols::OF12_UP;
            }
            "no_packet_counts" if self.takes.timeouts => {
                flags.no_packet_counts = true;
                self.protocols &= Protocols::OF13_UP;
            }
            "no_byte_counts" if self.takes.timeouts => {
                flags.no_byte_counts = true;
                self.protocols &= Protocols::OF13_UP;
            }
            _ => return false,
        }
        true
    }

    fn cookie<'a>(&mut self, text: &'a str) -> Result<(), Fault<'a>> {
        match text.split_once('/') {
            Some(_) if self.out.command == FlowModCommand::Add => {
                Err(Fault::new(text, ErrorKind::CookieMaskOnAdd))
            }
            Some((cookie, mask)) => {
                self.out.cookie = u64_of(cookie)?;
                self.out.cookie_mask = u64_of(mask)?;
                if self.out.cookie_mask != 0 {
                    self.protocols &= Protocols::NXM_OF11_UP;
                }
                Ok(())
            }
            None if !self.takes.cookie => {
                Err(Fault::new(text, ErrorKind::CookieWithoutMask(text.to_owned())))
            }
            None => {
                self.out.new_cookie = Some(u64_of(text)?);
                Ok(())
            }
        }
    }
}

/// Reads the number of a group; `any` is none.
fn group_number(text: &str) -> Result<Option<u32>, Fault<'_>> {
    if text.eq_ignore_ascii_case("any") {
        return Ok(None);
    }
    if text.eq_ignore_ascii_case("all") {
        return Ok(Some(crate::openflow::group::GROUP_ALL));
    }
    let n = c_int(text, 10).filter(|n| n.rest.is_empty() && !n.negative && !n.overflow);
    let id = n.and_then(|n| u32::try_from(n.value).ok());
    id.map(Some).ok_or_else(|| Fault::new(text, ErrorKind::UnknownGroup(text.to_owned())))
}

/// A rule as it is written, apart from its counters.
#[derive(Clone, Copy, Debug)]
pub struct RuleText<'a> {
    /// Cookie; 0 is not written.
    pub cookie: u64,
    /// Table; the first is not written.
    pub table: TableId,
    /// Priority; the default is not written.
    pub priority: u16,
    /// Seconds; 0 is not written.
    pub idle_timeout: u16,
    /// Seconds; 0 is not written.
    pub hard_timeout: u16,
    /// Importance; 0 is not written.
    pub importance: u16,
    /// Flags.
    pub flags: FlowModFlags,
    /// Match.
    pub rule_match: &'a Match,
    /// Actions.
    pub actions: &'a [crate::openflow::OfAction],
}

/// What counters tell of a rule, as `dump-flows` writes it.
#[derive(Clone, Copy, Debug)]
pub struct RuleStats {
    /// Time since the rule was made, in nanoseconds.
    pub duration_ns: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds since the last packet, if told.
    pub idle_age: Option<u64>,
    /// Seconds since the last change, if told.
    pub hard_age: Option<u64>,
}

impl<'a> RuleText<'a> {
    /// The rule that a change would add.
    pub fn of(flow_mod: &'a FlowMod) -> Self {
        Self {
            cookie: flow_mod.new_cookie.unwrap_or(0),
            table: flow_mod.table.unwrap_or(TableId(0)),
            priority: flow_mod.priority,
            idle_timeout: flow_mod.idle_timeout,
            hard_timeout: flow_mod.hard_timeout,
            importance: flow_mod.importance,
            flags: flow_mod.flags,
            rule_match: &flow_mod.rule_match,
            actions: &flow_mod.actions,
        }
    }

    /// The line that `ovs-ofctl dump-flows` writes, without the space in front; without counters as `--no-stats`.
    pub fn to_text(&self, stats: Option<&RuleStats>, names: &dyn Names) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let mut put = |text: std::fmt::Arguments<'_>| {
            let _ = out.write_fmt(text);
        };
        if stats.is_some() || self.cookie != 0 {
            put(format_args!("cookie={:#x}, ", self.cookie));
        }
        if let Some(stats) = stats {
            put(format_args!("duration={}s, ", seconds(stats.duration_ns)));
        }
        if stats.is_some() || self.table.0 != 0 || names.table_name(self.table).is_some() {
            let mut table = String::new();
            format_table(&mut table, self.table, names);
            put(format_args!("table={table}, "));
        }
        if let Some(stats) = stats {
            put(format_args!("n_packets={}, n_bytes={}, ", stats.packets, stats.bytes));
        }
        for (name, value) in [("idle_timeout", self.idle_timeout), ("hard_timeout", self.hard_timeout)] {
            if value != 0 {
                put(format_args!("{name}={value}, "));
            }
        }
        for name in self.flag_names() {
            put(format_args!("{name} "));
        }
        if self.importance != 0 {
            put(format_args!("importance={}, ", self.importance));
        }
        if let Some(age) = stats.and_then(|s| s.idle_age) {
            put(format_args!("idle_age={age}, "));
        }
        if let Some(age) = stats.and_then(|s| s.hard_age.filter(|age| *age != s.duration_ns / 1_000_000_000))
        {
            put(format_args!("hard_age={age}, "));
        }
        let before = out.len();
        matches::format(&mut out, self.rule_match, Some(self.priority), names);
        if out.len() > before {
            out.push(' ');
        }
        out.push_str("actions=");
        format::actions(&mut out, self.actions, names);
        out
    }

    fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let f = self.flags;
        [
            (f.send_flow_rem, "send_flow_rem"),
            (f.check_overlap, "check_overlap"),
            (f.reset_counts, "reset_counts"),
            (f.no_packet_counts, "no_packet_counts"),
            (f.no_byte_counts, "no_byte_counts"),
        ]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
    }
}

/// Seconds with as many digits as there are, as OVS writes durations.
pub(crate) fn seconds(ns: u64) -> String {
    let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest >= 1_000_000 { format!("{whole}.{:03}", rest / 1_000_000) } else { format!("{whole}") }
}

/// Writes a match; nothing for one that every packet meets. With a priority, that stands in front unless it is the default.
pub fn match_to_text(rule_match: &Match, priority: Option<u16>, names: &dyn Names) -> String {
    let mut out = String::new();
    matches::format(&mut out, rule_match, priority, names);
    out
}

/// Writes a list of actions.
pub fn actions_to_text(actions: &[crate::openflow::OfAction], names: &dyn Names) -> String {
    let mut out = String::new();
    format::actions(&mut out, actions, names);
    out
}
