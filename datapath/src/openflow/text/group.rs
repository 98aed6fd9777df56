//! Groups, and changes to them, in text.
//!
//! Counterpart: OVS `parse_ofp_group_mod_str__`, `parse_bucket_str`, `ofputil_group_format` of `lib/ofp-group.c`.

use std::fmt::Write;

use super::actions::{ActionReader, Outer, not_valid};
use super::error::{ErrorKind, Fault, TextError};
use super::format;
use super::names::{Names, format_port, parse_port};
use super::scan::{KeyValue, KeyValues, trim_space, u16_of, u32_of, u64_of};
use super::value;
use crate::openflow::action::OfActions;
use crate::openflow::field::{Field, FieldValue};
use crate::openflow::group::{
    BUCKET_MAX, Bucket, BucketPlace, GROUP_ALL, GROUP_MAX, GroupMod, GroupModCommand, GroupProps, GroupType,
};
use crate::types::OfPort;

/// Longest name of a selection method, in bytes.
const METHOD_MAX: usize = 15;

/// Names of group types; the first of several is written.
const TYPES: [(GroupType, &str); 5] = [
    (GroupType::All, "all"),
    (GroupType::Select, "select"),
    (GroupType::Indirect, "indirect"),
    (GroupType::FastFailover, "ff"),
    (GroupType::FastFailover, "fast_failover"),
];

/// Reads a change to a group as `ovs-ofctl add-group` and its relatives take it. The place in an
/// [`GroupModCommand::InsertBucket`] or [`GroupModCommand::RemoveBucket`] comes from the text.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_group_mod(
    line: &str,
    command: GroupModCommand,
    names: &dyn Names,
) -> Result<GroupMod, TextError> {
    parse(line, command, names).map_err(|fault| fault.within(line))
}

/// Reads a line of a file of changes: the command may stand in front of it; if not, it adds.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_group_mod_line(line: &str, names: &dyn Names) -> Result<GroupMod, TextError> {
    let text = trim_space(line);
    let end = text.find([',', ' ', '\t', '\r', '\n']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let commands = [
        ("add", GroupModCommand::Add),
        ("delete", GroupModCommand::Delete),
        ("modify", GroupModCommand::Modify),
        ("add_or_mod", GroupModCommand::AddOrModify),
        ("insert_bucket", GroupModCommand::InsertBucket(BucketPlace::Last)),
        ("remove_bucket", GroupModCommand::RemoveBucket(BucketPlace::All)),
    ];
    let found = commands.iter().find(|(name, _)| !word.is_empty() && name.starts_with(word));
    match found {
        Some(&(_, command)) => parse(rest, command, names),
        None => parse(text, GroupModCommand::Add, names),
    }
    .map_err(|fault| fault.within(line))
}

fn group_error<'a>(at: &'a str, problem: &'static str) -> Fault<'a> {
    Fault::new(at, ErrorKind::Group(problem))
}

/// What stands in front of the buckets.
#[derive(Default)]
struct Head {
    id: Option<u32>,
    kind: Option<GroupType>,
    place: Option<BucketPlace>,
    props: GroupProps,
}

fn parse<'a>(line: &'a str, command: GroupModCommand, names: &dyn Names) -> Result<GroupMod, Fault<'a>> {
    let insert = matches!(command, GroupModCommand::InsertBucket(_));
    let remove = matches!(command, GroupModCommand::RemoveBucket(_));
    let delete = command == GroupModCommand::Delete;
    let empty = |id| GroupMod {
        command,
        group_id: id,
        kind: GroupType::All,
        buckets: Vec::new(),
        props: GroupProps::default(),
    };
    if delete && line.is_empty() {
        return Ok(empty(GROUP_ALL));
    }
    let (head_text, buckets_text) = line.split_at(line.find("bucket=").unwrap_or(line.len()));
    if !buckets_text.is_empty() && (delete || remove) {
        return Err(group_error(buckets_text, "bucket is not needed"));
    }
    let mut head = Head::default();
    for word in KeyValues::new(head_text) {
        head.word(word, command, names)?;
    }
    let end = &line[line.len()..];
    let mut out = empty(head.id.ok_or_else(|| group_error(end, "must specify a group_id"))?);
    match head.kind {
        Some(kind) => out.kind = kind,
        None if insert || remove || delete => {}
        None => return Err(group_error(end, "must specify a type")),
    }
    out.props = head.props;
    if out.props.selection_method != "hash" && !out.props.fields.is_empty() {
        return Err(group_error(line, "fields may only be specified with \"selection_method=hash\""));
    }
    if out.props.selection_method.is_empty() && out.props.selection_method_param != 0 {
        return Err(group_error(line, "selection_method_param is only allowed with \"selection_method\""));
    }
    out.command = match command {
        GroupModCommand::InsertBucket(_) => GroupModCommand::InsertBucket(
            head.place.ok_or_else(|| group_error(end, "must specify a command bucket id"))?,
        ),
        GroupModCommand::RemoveBucket(_) => {
            GroupModCommand::RemoveBucket(head.place.unwrap_or(BucketPlace::All))
        }
        GroupModCommand::Add
        | GroupModCommand::Modify
        | GroupModCommand::AddOrModify
        | GroupModCommand::Delete => command,
    };
    out.buckets = parse_buckets(buckets_text, &out, names)?;
    if out.kind == GroupType::Indirect && out.buckets.len() > 1 {
        return Err(group_error(buckets_text, "Indirect groups can have at most one bucket."));
    }
    Ok(out)
}

impl Head {
    fn word<'a>(
        &mut self,
        word: KeyValue<'a>,
        command: GroupModCommand,
        names: &dyn Names,
    ) -> Result<(), Fault<'a>> {
        let KeyValue { key, value } = word;
        let insert = matches!(command, GroupModCommand::InsertBucket(_));
        let remove = matches!(command, GroupModCommand::RemoveBucket(_));
        let typed = !insert && !remove && command != GroupModCommand::Delete;
        match key {
            "command_bucket_id" if !insert && !remove => {
                return Err(group_error(key, "command bucket id is not needed"));
            }
            "command_bucket_id" => {
                let place = bucket_place(value)?;
                if insert && place == BucketPlace::All {
                    return Err(group_error(value, "command_bucket_id=all is not permitted"));
                }
                self.place = Some(place);
            }
            "group_id" if value == "all" => self.id = Some(GROUP_ALL),
            "group_id" => {
                let id = u32_of(value)?;
                if id != GROUP_ALL && id > GROUP_MAX {
                    return Err(Fault::new(value, ErrorKind::InvalidId { what: "group id", value: id }));
                }
                self.id = Some(id);
            }
            "type" if !typed => return Err(group_error(key, "type is not needed")),
            "type" => {
                let found = TYPES.iter().find(|(_, name)| *name == value);
                let kind = found.map(|&(kind, _)| kind);
                self.kind =
                    Some(kind.ok_or_else(|| Fault::new(value, ErrorKind::GroupType(value.to_owned())))?);
            }
            "selection_method" if !typed => return Err(group_error(key, "selection method is not needed")),
            "selection_method" => {
                if value.len() > METHOD_MAX {
                    return Err(group_error(value, "selection method is longer than 15 bytes long"));
                }
                self.props.selection_method = value.to_owned();
            }
            "selection_method_param" if !typed => {
                return Err(group_error(key, "selection method param is not needed"));
            }
            "selection_method_param" => self.props.selection_method_param = u64_of(value)?,
            "fields" if !typed => return Err(group_error(key, "fields are not needed")),
            "fields" => hash_fields(value, &mut self.props.fields, names)?,
            _ => return Err(Fault::new(key, ErrorKind::UnknownKeyword(key.to_owned()))),
        }
        Ok(())
    }
}

fn bucket_place(text: &str) -> Result<BucketPlace, Fault<'_>> {
    match text {
        "all" => Ok(BucketPlace::All),
        "first" => Ok(BucketPlace::First),
        "last" => Ok(BucketPlace::Last),
        _ => {
            let id = u32_of(text)?;
            let kind = ErrorKind::InvalidId { what: "command bucket id", value: id };
            if id <= BUCKET_MAX { Ok(BucketPlace::Id(id)) } else { Err(Fault::new(text, kind)) }
        }
    }
}

/// Reads the fields that a select group hashes; a value is a mask.
fn hash_fields<'a>(
    text: &'a str,
    fields: &mut Vec<(Field, FieldValue)>,
    names: &dyn Names,
) -> Result<(), Fault<'a>> {
    for KeyValue { key, value } in KeyValues::new(text) {
        let field = value::field_by_name(key).ok_or_else(|| {
            let (text, field) = (key.to_owned(), key.to_owned());
            Fault::new(key, ErrorKind::UnknownField { text, field })
        })?;
        if fields.iter().any(|(f, _)| *f == field) {
            return Err(group_error(key, "duplicate field"));
        }
        let exact = value::exact_mask(field);
        let mask = if value.is_empty() { exact } else { value::parse_exact(field, value, names)? };
        if mask.is_zero() && !matches!(field, Field::TunMetadata(_)) {
            return Err(group_error(value, "values are wildcards here and must not be all-zeros"));
        }
        if !field.info().maskable && mask != exact {
            let kind = ErrorKind::InvalidMask { text: value.to_owned(), field: key.to_owned() };
            return Err(Fault::new(value, kind));
        }
        let at = fields.partition_point(|(f, _)| *f < field);
        fields.insert(at, (field, mask));
    }
    Ok(())
}

fn parse_buckets<'a>(text: &'a str, group: &GroupMod, names: &dyn Names) -> Result<Vec<Bucket>, Fault<'a>> {
    let mut out: Vec<Bucket> = Vec::new();
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once('=') {
        let (one, next) = tail.split_at(tail.find("bucket=").unwrap_or(tail.len()));
        let (mut bucket, id) = parse_bucket(one, group.kind, names)?;
        let insert = matches!(group.command, GroupModCommand::InsertBucket(_));
        if !insert && group.kind != GroupType::Select && bucket.weight != 0 {
            return Err(group_error(one, "Only select groups can have bucket weights."));
        }
        // Without a number a bucket gets the lowest that is free so far.
        bucket.id = match id {
            Some(id) => id,
            None => (0..).find(|id| out.iter().all(|b| b.id != *id)).unwrap_or(BUCKET_MAX),
        };
        if out.iter().any(|b| b.id == bucket.id) {
            return Err(group_error(one, "Duplicate bucket id"));
        }
        out.push(bucket);
        rest = next;
    }
    Ok(out)
}

/// Reads one bucket, and its number if it names one.
fn parse_bucket<'a>(
    text: &'a str,
    kind: GroupType,
    names: &dyn Names,
) -> Result<(Bucket, Option<u32>), Fault<'a>> {
    let mut out = Bucket {
        id: 0,
        weight: u16::from(kind == GroupType::Select),
        watch_port: OfPort::NONE,
        watch_group: None,
        actions: OfActions::new(),
    };
    let mut id = None;
    let mut words = Vec::new();
    for word in KeyValues::new(text) {
        let KeyValue { key, value } = word;
        match key.to_ascii_lowercase().as_str() {
            "weight" => out.weight = u16_of(value, "weight")?,
            "watch_port" => {
                let port = parse_port(value, names);
                let fits = |p: &OfPort| *p < OfPort::MAX || *p == OfPort::NONE || *p == OfPort::CONTROLLER;
                out.watch_port = port.filter(fits).ok_or_else(|| not_valid(value, "watch_port"))?;
            }
            "watch_group" => {
                let group = u32_of(value)?;
                if group > GROUP_MAX {
                    let kind = ErrorKind::InvalidId { what: "watch_group id", value: group };
                    return Err(Fault::new(value, kind));
                }
                out.watch_group = Some(group);
            }
            "bucket_id" => {
                let n = u32_of(value)?;
                if n > BUCKET_MAX {
                    return Err(Fault::new(value, ErrorKind::InvalidId { what: "bucket_id id", value: n }));
                }
                id = Some(n);
            }
            "action" | "actions" => words.extend(KeyValues::new(value)),
            _ => words.push(word),
        }
    }
    if words.is_empty() && !text.contains("action") {
        return Err(group_error(text, "bucket must specify actions"));
    }
    if kind == GroupType::FastFailover && out.watch_port == OfPort::NONE && out.watch_group.is_none() {
        return Err(group_error(text, "fast failover bucket requires watch_port or watch_group"));
    }
    out.actions = ActionReader::new(names).list_inside(words.into_iter(), text, Outer::List)?;
    Ok((out, id))
}

/// Writes a group as `ovs-ofctl dump-groups` does; without the numbers of buckets for OpenFlow versions that have none.
pub fn group_to_text(
    id: u32,
    kind: GroupType,
    buckets: &[Bucket],
    props: &GroupProps,
    bucket_ids: bool,
    names: &dyn Names,
) -> String {
    let type_name = TYPES.iter().find(|(k, _)| *k == kind).map_or("unknown", |(_, name)| name);
    let mut out = format!("group_id={id},type={type_name}");
    // Writing to a string cannot fail.
    if !props.selection_method.is_empty() {
        let _ = write!(out, ",selection_method={}", props.selection_method);
        if props.selection_method_param != 0 {
            let _ = write!(out, ",selection_method_param={}", props.selection_method_param);
        }
        put_fields(&mut out, &props.fields, names);
    }
    out.push(',');
    for bucket in buckets {
        put_bucket(&mut out, bucket, kind, bucket_ids, names);
        out.push(',');
    }
    out.pop();
    out
}

fn put_fields(out: &mut String, fields: &[(Field, FieldValue)], names: &dyn Names) {
    if fields.is_empty() {
        return;
    }
    out.push_str(if fields.len() == 1 { ",fields=" } else { ",fields(" });
    for (i, (field, mask)) in fields.iter().enumerate() {
        let _ = write!(out, "{}{field}", if i > 0 { "," } else { "" });
        let exact = value::exact_mask(*field);
        if *mask != exact {
            out.push('=');
            value::format(out, *field, mask, &exact, names);
        }
    }
    if fields.len() > 1 {
        out.push(')');
    }
}

fn put_bucket(out: &mut String, bucket: &Bucket, kind: GroupType, with_id: bool, names: &dyn Names) {
    out.push_str("bucket=");
    if with_id {
        let _ = write!(out, "bucket_id:{},", bucket.id);
    }
    if bucket.weight != u16::from(kind == GroupType::Select) {
        let _ = write!(out, "weight:{},", bucket.weight);
    }
    if bucket.watch_port != OfPort::NONE {
        out.push_str("watch_port:");
        format_port(out, bucket.watch_port, names);
        out.push(',');
    }
    if let Some(group) = bucket.watch_group {
        let _ = write!(out, "watch_group:{group},");
    }
    out.push_str("actions=");
    format::actions(out, &bucket.actions, names);
}
