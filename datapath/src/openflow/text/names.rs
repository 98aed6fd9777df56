//! Names of ports and tables, both ways.
//!
//! Counterpart: OVS `struct ofputil_port_map`, `ofputil_port_from_string`, `ofputil_format_port`, `lib/namemap.c`.

use super::scan::c_int;
use crate::types::{OfPort, TableId};

/// Where names come from: a bridge, or nothing. Each kind of name has none unless it is overridden.
pub trait Names {
    /// The port of this name.
    fn port(&self, _name: &str) -> Option<OfPort> {
        None
    }
    /// The name of this port, where ports are to be shown by name.
    fn port_name(&self, _port: OfPort) -> Option<&str> {
        None
    }
    /// The table of this name.
    fn table(&self, _name: &str) -> Option<TableId> {
        None
    }
    /// The name of this table, where tables are to be shown by name.
    fn table_name(&self, _table: TableId) -> Option<&str> {
        None
    }
}

/// No names: numbers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {}

/// Reserved ports and their names; where a port has two, the first is printed.
const RESERVED: [(OfPort, &str); 10] = [
    (OfPort::IN_PORT, "IN_PORT"),
    (OfPort::TABLE, "TABLE"),
    (OfPort::NORMAL, "NORMAL"),
    (OfPort::FLOOD, "FLOOD"),
    (OfPort::ALL, "ALL"),
    (OfPort::CONTROLLER, "CONTROLLER"),
    (OfPort::LOCAL, "LOCAL"),
    (OfPort::NONE, "ANY"),
    (OfPort::UNSET, "UNSET"),
    (OfPort::NONE, "NONE"),
];

/// Reads a port: a decimal number, a reserved name, or a name that `names` knows, which may be quoted as in JSON.
pub fn parse_port(text: &str, names: &dyn Names) -> Option<OfPort> {
    if text.starts_with('-') {
        return None;
    }
    if let Some(n) = decimal(text) {
        return match n {
            0..=0xffff => Some(OfPort(n as u16)),
            0xffff_ff00.. => Some(OfPort(n as u16)),
            _ => None,
        };
    }
    let reserved = RESERVED.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    reserved.map(|&(port, _)| port).or_else(|| names.port(&unquote(text)?))
}

/// Reads a table: a decimal number up to 255 (all), or a name.
pub(super) fn parse_table(text: &str, names: &dyn Names) -> Option<TableId> {
    if text.starts_with('-') {
        return None;
    }
    match decimal(text) {
        Some(n) => u8::try_from(n).ok().map(TableId),
        None => names.table(&unquote(text)?),
    }
}

/// All of `text` as a decimal number of up to 32 bits.
fn decimal(text: &str) -> Option<u32> {
    let n = c_int(text, 10)?;
    (n.rest.is_empty() && !n.negative && !n.overflow).then(|| u32::try_from(n.value).ok())?
}

/// Writes a port: its reserved name, its name, or its number.
pub fn format_port(out: &mut String, port: OfPort, names: &dyn Names) {
    if let Some((_, name)) = RESERVED.iter().find(|(p, _)| *p == port) {
        out.push_str(name);
    } else if let Some(name) = names.port_name(port) {
        put_name(out, name);
    } else {
        out.push_str(&port.0.to_string());
    }
}

/// Writes a table: its name or its number.
pub(super) fn format_table(out: &mut String, table: TableId, names: &dyn Names) {
    match names.table_name(table) {
        Some(name) => put_name(out, name),
        None => out.push_str(&table.0.to_string()),
    }
}

/// Writes a name, quoted as in JSON unless it is a letter followed by letters and digits.
fn put_name(out: &mut String, name: &str) {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if plain {
        out.push_str(name);
        return;
    }
    out.push('"');
    for c in name.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Removes quotes and escapes as of JSON, if `text` starts with a quote.
fn unquote(text: &str) -> Option<String> {
    let Some(inner) = text.strip_prefix('"') else {
        return Some(text.to_owned());
    };
    let inner = inner.strip_suffix('"')?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            c @ ('"' | '\\' | '/') => out.push(c),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let hex: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 4)?;
                out.push(char::from_u32(code)?);
            }
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Names for One {
        fn port(&self, name: &str) -> Option<OfPort> {
            (name == "br-int \"x\"").then_some(OfPort(7))
        }
        fn port_name(&self, port: OfPort) -> Option<&str> {
            (port == OfPort(7)).then_some("br-int \"x\"")
        }
        fn table(&self, name: &str) -> Option<TableId> {
            (name == "acl").then_some(TableId(3))
        }
        fn table_name(&self, table: TableId) -> Option<&str> {
            (table == TableId(3)).then_some("acl")
        }
    }

    #[test]
    fn ports_go_both_ways() {
        for (text, port) in
            [("0", 0), ("65279", 65279), ("in_port", 0xfff8), ("LOCAL", 0xfffe), ("4294967294", 0xfffe)]
        {
            assert_eq!(parse_port(text, &NoNames), Some(OfPort(port)), "{text}");
        }
        for text in ["-1", "65536", "4294967039", "x", "", "0x1", "1 ", "99999999999999999999"] {
            assert_eq!(parse_port(text, &NoNames), None, "{text}");
        }
        let mut out = String::new();
        format_port(&mut out, OfPort(7), &One);
        assert_eq!(out, r#""br-int \"x\"""#);
        assert_eq!(parse_port(&out, &One), Some(OfPort(7)));
        assert_eq!(parse_table("acl", &One), Some(TableId(3)));
        assert_eq!(parse_table("256", &One), None);
    }
}
