//! Values of database columns, and their text.
//!
//! Counterpart: OVS `lib/ovsdb-data.c`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::error::ParseErrorKind;
use super::schema::{AtomType, Column, Shape};

/// A single value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// Whole number.
    Int(i64),
    /// Truth value.
    Bool(bool),
    /// Text.
    Str(String),
    /// A record, by the number of its row.
    Row(u64),
    /// A record that a command of the same chain makes: `@name`.
    Named(String),
}

/// All values of a column in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Any number of values; of a column that has one value, exactly that.
    Set(BTreeSet<Atom>),
    /// Values under names or numbers.
    Map(BTreeMap<Atom, Atom>),
}

impl Datum {
    /// The default of a column: 0, false, the empty text, or nothing.
    pub fn default_of(column: &Column) -> Self {
        match column.shape {
            Shape::Map | Shape::IntMap => Self::Map(BTreeMap::new()),
            Shape::Optional | Shape::Set => Self::Set(BTreeSet::new()),
            Shape::One => Self::one(match column.atom {
                AtomType::Int(..) => Atom::Int(0),
                AtomType::Bool => Atom::Bool(false),
                AtomType::Str | AtomType::Enum(_) | AtomType::Ref(_) => Atom::Str(String::new()),
            }),
        }
    }

    /// One value.
    pub fn one(atom: Atom) -> Self {
        Self::Set(BTreeSet::from([atom]))
    }

    /// The values of a set; none of a map.
    pub fn atoms(&self) -> impl Iterator<Item = &Atom> {
        match self {
            Self::Set(set) => Some(set.iter()),
            Self::Map(_) => None,
        }
        .into_iter()
        .flatten()
    }

    /// The only value, as text.
    pub fn as_str(&self) -> Option<&str> {
        match self.atoms().next()? {
            Atom::Str(text) => Some(text),
            Atom::Int(_) | Atom::Bool(_) | Atom::Row(_) | Atom::Named(_) => None,
        }
    }

    /// The only value, as a number.
    pub fn as_int(&self) -> Option<i64> {
        match self.atoms().next()? {
            Atom::Int(n) => Some(*n),
            Atom::Str(_) | Atom::Bool(_) | Atom::Row(_) | Atom::Named(_) => None,
        }
    }

    /// The only value, as a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self.atoms().next()? {
            Atom::Bool(b) => Some(*b),
            Atom::Str(_) | Atom::Int(_) | Atom::Row(_) | Atom::Named(_) => None,
        }
    }

    /// The text under a name of a map.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self {
            Self::Map(map) => match map.get(&Atom::Str(key.to_owned()))? {
                Atom::Str(text) => Some(text),
                Atom::Int(_) | Atom::Bool(_) | Atom::Row(_) | Atom::Named(_) => None,
            },
            Self::Set(_) => None,
        }
    }

    /// Writes the values as ovs-vsctl does; `row` tells how records are written.
    pub fn to_text(&self, column: &Column, row: &dyn Fn(u64) -> String) -> String {
        let atom = |atom: &Atom| match atom {
            Atom::Row(id) => row(*id),
            Atom::Int(_) | Atom::Bool(_) | Atom::Str(_) | Atom::Named(_) => atom.to_string(),
        };
        match self {
            Self::Map(map) => {
                let pairs: Vec<String> =
                    map.iter().map(|(k, v)| format!("{}={}", atom(k), atom(v))).collect();
                format!("{{{}}}", pairs.join(", "))
            }
            Self::Set(set) => {
                let words: Vec<String> = set.iter().map(atom).collect();
                let single = matches!(column.shape, Shape::One | Shape::Optional);
                if single && words.len() == 1 { words.concat() } else { format!("[{}]", words.join(", ")) }
            }
        }
    }
}

/// As ovs-vsctl writes it: text in quotes unless it is a plain word.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Bool(b) => b.fmt(f),
            Self::Row(id) => id.fmt(f),
            Self::Named(name) => write!(f, "@{name}"),
            Self::Str(text) if is_plain(text) => f.write_str(text),
            Self::Str(text) => quoted(f, text),
        }
    }
}

/// Whether text stands for itself (OVS `string_needs_quotes`).
fn is_plain(text: &str) -> bool {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    word && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        && !matches!(text, "true" | "false")
        && !is_uuid(text)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Reads all values of a column: `a`, `[a,b]`, `a,b`, `k=v,k=v`, `{k=v}`, `[]`.
pub(super) fn parse(column: &Column, text: &str) -> Result<Datum, ParseErrorKind> {
    let map = matches!(column.shape, Shape::Map | Shape::IntMap);
    let (open, close) = if map { ('{', '}') } else { ('[', ']') };
    let trimmed = text.trim();
    let inner = match trimmed.strip_prefix(open) {
        Some(rest) => rest.strip_suffix(close).ok_or_else(|| ParseErrorKind::Invalid {
            word: text.to_owned(),
            what: if map { "a map: \"}\" is missing" } else { "a set: \"]\" is missing" },
        })?,
        None => trimmed,
    };
    if !map && column.shape == Shape::One && inner.is_empty() {
        return Ok(Datum::one(atom(column, "")?));
    }
    let mut words = Words { rest: inner };
    if map {
        let mut out = BTreeMap::new();
        while let Some(key) = words.next()? {
            let missing =
                || ParseErrorKind::Invalid { word: text.to_owned(), what: "a list of key=value pairs" };
            if !words.eat('=') {
                return Err(missing());
            }
            let value = words.next()?.ok_or_else(missing)?;
            out.insert(map_key(column, &key)?, atom(column, &value)?);
            words.separator();
        }
        return Ok(Datum::Map(out));
    }
    let mut out = BTreeSet::new();
    while let Some(word) = words.next()? {
        // `10-20` stands for all numbers in between.
        match (column.atom, word.split_once('-')) {
            (AtomType::Int(..), Some((low, high))) if !low.is_empty() && column.shape == Shape::Set => {
                out.extend(range(column, low, high)?);
            }
            _ => {
                out.insert(atom(column, &word)?);
            }
        }
        words.separator();
    }
    let most = if column.shape == Shape::Set { usize::MAX } else { 1 };
    if out.len() > most || column.shape == Shape::One && out.is_empty() {
        return Err(ParseErrorKind::Invalid { word: text.to_owned(), what: "one value" });
    }
    Ok(Datum::Set(out))
}

fn range(column: &Column, low: &str, high: &str) -> Result<Vec<Atom>, ParseErrorKind> {
    match (atom(column, low)?, atom(column, high)?) {
        (Atom::Int(low), Atom::Int(high)) if low <= high && high - low <= 65_536 => {
            Ok((low..=high).map(Atom::Int).collect())
        }
        _ => Err(ParseErrorKind::Invalid { word: format!("{low}-{high}"), what: "a valid integer or range" }),
    }
}

/// Reads the name under which a value is in a map.
pub(super) fn map_key(column: &Column, text: &str) -> Result<Atom, ParseErrorKind> {
    if column.shape == Shape::IntMap {
        return int(text, 0, 254);
    }
    Ok(Atom::Str(unquoted(text)?))
}

/// Reads one value. The whole of `text` belongs to it.
pub(super) fn atom(column: &Column, text: &str) -> Result<Atom, ParseErrorKind> {
    match column.atom {
        AtomType::Int(low, high) => int(text, low, high),
        AtomType::Bool => match text {
            "true" | "yes" | "on" | "1" => Ok(Atom::Bool(true)),
            "false" | "no" | "off" | "0" => Ok(Atom::Bool(false)),
            _ => Err(ParseErrorKind::Invalid {
                word: text.to_owned(),
                what: "a valid boolean (use \"true\" or \"false\")",
            }),
        },
        AtomType::Str => Ok(Atom::Str(unquoted(text)?)),
        AtomType::Enum(words) => {
            let word = unquoted(text)?;
            if words.contains(&word.as_str()) {
                return Ok(Atom::Str(word));
            }
            let allowed = words.iter().filter(|w| !w.is_empty()).copied().collect::<Vec<_>>().join(", ");
            Err(ParseErrorKind::NotOneOf { word, allowed })
        }
        AtomType::Ref(_) => match text.strip_prefix('@') {
            Some(name) => Ok(Atom::Named(name.to_owned())),
            // Names and UUIDs of records are looked up when the command runs.
            None => Ok(Atom::Str(unquoted(text)?)),
        },
    }
}

fn int(text: &str, low: i64, high: i64) -> Result<Atom, ParseErrorKind> {
    let value = text.parse::<i64>();
    let value = value
        .map_err(|_| ParseErrorKind::Invalid { word: text.to_owned(), what: "a valid integer or range" })?;
    if (low..=high).contains(&value) {
        Ok(Atom::Int(value))
    } else {
        Err(ParseErrorKind::Range { value, low, high })
    }
}

/// Removes the quotes of JSON from a word that has them.
fn unquoted(text: &str) -> Result<String, ParseErrorKind> {
    let Some(inner) = text.strip_prefix('"') else {
        return Ok(text.to_owned());
    };
    let bad = || ParseErrorKind::Invalid { word: text.to_owned(), what: "a quoted string that ends" };
    let inner = inner.strip_suffix('"').ok_or_else(bad)?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next().ok_or_else(bad)? {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                c => out.push(c),
            },
            '"' => return Err(bad()),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Words of a set or map, with their quotes.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    /// The next word, up to a comma, a space or an equals sign.
    fn next(&mut self) -> Result<Option<String>, ParseErrorKind> {
        self.separator();
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut in_quotes = false;
        let mut escaped = false;
        let end = self.rest.char_indices().find(|&(_, c)| {
            let ends = !in_quotes && matches!(c, ',' | ' ' | '=' | '[' | ']' | '{' | '}');
            match c {
                _ if escaped => escaped = false,
                '\\' if in_quotes => escaped = true,
                '"' => in_quotes = !in_quotes,
                _ => {}
            }
            ends
        });
        let end = end.map_or(self.rest.len(), |(i, _)| i);
        if end == 0 {
            let what = "a list of values: unexpected punctuation";
            return Err(ParseErrorKind::Invalid { word: self.rest.to_owned(), what });
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(Some(word.to_owned()))
    }

    fn eat(&mut self, c: char) -> bool {
        self.rest.strip_prefix(c).map(|rest| self.rest = rest).is_some()
    }

    fn separator(&mut self) {
        self.rest = self.rest.trim_start_matches([',', ' ']);
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::Table;
    use super::*;

    fn text(table: Table, column: &str, value: &str) -> Result<String, ParseErrorKind> {
        let column = table.column(column).expect("a column");
        parse(column, value).map(|datum| datum.to_text(column, &|id| format!("row{id}")))
    }

    #[test]
    fn values_are_written_as_ovs_vsctl_does() {
        for (table, column, value, expected) in [
            (Table::Port, "tag", "10", "10"),
            (Table::Port, "tag", "[]", "[]"),
            (Table::Port, "trunks", "20,10 30", "[10, 20, 30]"),
            (Table::Port, "trunks", "[1-3,7]", "[1, 2, 3, 7]"),
            (Table::Port, "vlan_mode", "dot1q-tunnel", "dot1q-tunnel"),
            (
                Table::Bridge,
                "other_config",
                "datapath-id=1234,hwaddr=\"aa:55:aa:55:00:00\"",
                "{datapath-id=\"1234\", hwaddr=\"aa:55:aa:55:00:00\"}",
            ),
            (Table::Bridge, "other_config", "{}", "{}"),
            (Table::Interface, "type", "dummy", "dummy"),
            (Table::Interface, "type", "\"\"", "\"\""),
            (Table::Bridge, "protocols", "OpenFlow13,OpenFlow10", "[OpenFlow10, OpenFlow13]"),
        ] {
            assert_eq!(text(table, column, value).as_deref(), Ok(expected), "{column}={value}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for (table, column, value) in [
            (Table::Port, "tag", "4096"),
            (Table::Port, "tag", "x"),
            (Table::Port, "tag", "1,2"),
            (Table::Port, "vlan_mode", "foo"),
            (Table::Port, "trunks", "[1"),
            (Table::Port, "trunks", "5-3"),
            (Table::Port, "protected", "maybe"),
            (Table::Bridge, "other_config", "a"),
            (Table::Bridge, "other_config", "a=\"b"),
        ] {
            assert!(text(table, column, value).is_err(), "{column}={value}");
        }
    }
}
