//! Splitting rules into words, without losing where they were.
//!
//! All words are slices of the text they came from, so that an error can name its place. Counterpart: OVS
//! `ofputil_parse_key_value`, `ovs_scan`, and C's `strtoull` with base 0.

use super::error::{ErrorKind, Fault};

/// What separates words.
const SPACE: [char; 4] = [' ', '\t', '\r', '\n'];

/// A key, and its value or an empty string just behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyValue<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

/// Iterates over `key`, `key=value`, `key:value` and `key(value)`, separated by commas or white space.
#[derive(Clone, Debug)]
pub(super) struct KeyValues<'a> {
    rest: &'a str,
}

impl<'a> KeyValues<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for KeyValues<'a> {
    type Item = KeyValue<'a>;

    fn next(&mut self) -> Option<KeyValue<'a>> {
        let text = self.rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        if text.is_empty() {
            self.rest = text;
            return None;
        }
        let key_end = text.find([':', '=', '(', ',', ' ', '\t', '\r', '\n']).unwrap_or(text.len());
        let (key, tail) = text.split_at(key_end);
        let delimiter = tail.chars().next();
        let after = tail.get(1..).unwrap_or("");
        let ends: &[u8] = match delimiter {
            Some(':' | '=') => b", \t\r\n",
            Some('(') => b")",
            Some(_) | None => {
                self.rest = after;
                return Some(KeyValue { key, value: &tail[..0] });
            }
        };
        let mut end = value_end(after, ends);
        // `(x)->y` is one value, `x)->y`.
        if delimiter == Some('(') && after[end..].starts_with(")->") {
            end += value_end(&after[end..], b", \t\r\n");
        }
        self.rest = after.get(end + 1..).unwrap_or("");
        Some(KeyValue { key, value: &after[..end] })
    }
}

/// Where the value at the start of `text` ends: at one of `ends` outside parentheses.
fn value_end(text: &str, ends: &[u8]) -> usize {
    let mut level = 0_usize;
    for (i, &byte) in text.as_bytes().iter().enumerate() {
        if level == 0 && ends.contains(&byte) {
            return i;
        }
        match byte {
            b'(' => level += 1,
            b')' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

/// The start of `text` as C reads an integer: white space, sign, digits. `None` without digits; overflow is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CInt<'a> {
    /// Magnitude, saturated.
    pub value: u64,
    /// Whether a minus sign stood before it.
    pub negative: bool,
    /// Whether it has more than 64 bits.
    pub overflow: bool,
    /// What follows.
    pub rest: &'a str,
}

/// Reads an integer as `strtoull(text, &rest, base)`; base 0 understands `0x` and leading-zero octal.
pub(super) fn c_int(text: &str, base: u32) -> Option<CInt<'_>> {
    let trimmed = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let negative = trimmed.starts_with('-');
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let hex = hex.filter(|h| h.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (base, digits) = match (base, hex) {
        (0 | 16, Some(hex)) => (16, hex),
        (0, None) if digits.starts_with('0') => (8, digits),
        (0, None) => (10, digits),
        (base, _) => (base, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let value = u64::from_str_radix(&digits[..end], base);
    Some(CInt {
        value: value.clone().unwrap_or(u64::MAX),
        negative,
        overflow: value.is_err(),
        rest: &digits[end..],
    })
}

/// All of `text` as an unsigned number in base 0, up to `max` (OVS `str_to_u8`, `str_to_u16`).
pub(super) fn number<'a>(text: &'a str, what: &'static str, max: u64) -> Result<u64, Fault<'a>> {
    match c_int(text, 0) {
        Some(n) if n.rest.is_empty() && !n.overflow && n.value <= max && (!n.negative || n.value == 0) => {
            Ok(n.value)
        }
        Some(_) | None => Err(Fault::new(text, ErrorKind::Invalid { what, text: text.to_owned() })),
    }
}

pub(super) fn u8_of<'a>(text: &'a str, what: &'static str) -> Result<u8, Fault<'a>> {
    number(text, what, 0xff).map(|n| n as u8)
}

pub(super) fn u16_of<'a>(text: &'a str, what: &'static str) -> Result<u16, Fault<'a>> {
    number(text, what, 0xffff).map(|n| n as u16)
}

/// All of `text` as a 32-bit number (OVS `str_to_u32`).
pub(super) fn u32_of(text: &str) -> Result<u32, Fault<'_>> {
    let n = u64_of(text)?;
    u32::try_from(n).map_err(|_| Fault::new(text, ErrorKind::NumericFormat(text.to_owned())))
}

/// All of `text` as a 64-bit number (OVS `str_to_u64`); a minus sign wraps, as C's.
pub(super) fn u64_of(text: &str) -> Result<u64, Fault<'_>> {
    if text.is_empty() {
        return Err(Fault::new(text, ErrorKind::MissingNumber));
    }
    match c_int(text, 0) {
        Some(n) if n.rest.is_empty() && !n.overflow => {
            Ok(if n.negative { n.value.wrapping_neg() } else { n.value })
        }
        Some(_) | None => Err(Fault::new(text, ErrorKind::NumericFormat(text.to_owned()))),
    }
}

/// The words of `text` between any of `delimiters`, without empty ones (C `strtok_r`).
pub(super) fn tokens<'a>(text: &'a str, delimiters: &'static [char]) -> impl Iterator<Item = &'a str> {
    text.split(delimiters).filter(|word| !word.is_empty())
}

/// Removes white space at the start.
pub(super) fn trim_space(text: &str) -> &str {
    text.trim_start_matches(SPACE)
}

/// Bytes written in hexadecimal, with optional white space or dots between them (OVS `ofpbuf_put_hex`).
///
/// Returns what follows the last byte with them.
pub(super) fn hex_bytes(text: &str) -> (Vec<u8>, &str) {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c == '.' || c == ' ' || ('\t'..='\r').contains(&c));
        let digits = rest.as_bytes();
        let hex = |b: Option<&u8>| b.and_then(|&b| char::from(b).to_digit(16));
        match (hex(digits.first()), hex(digits.get(1))) {
            (Some(high), Some(low)) => out.push((high << 4 | low) as u8),
            _ => return (out, rest),
        }
        rest = &rest[2..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(&str, &str)> {
        KeyValues::new(text).map(|kv| (kv.key, kv.value)).collect()
    }

    #[test]
    fn splits_keys_and_values() {
        assert_eq!(pairs("a=1, b:2 c(3),d"), [("a", "1"), ("b", "2"), ("c", "3"), ("d", "")]);
        assert_eq!(pairs("f(a(b,c),d)->x[],g"), [("f", "a(b,c),d)->x[]"), ("g", "")]);
        assert_eq!(pairs("load:f(1,2)->y z"), [("load", "f(1,2)->y"), ("z", "")]);
        assert_eq!(pairs(" ,\t"), []);
        assert_eq!(pairs("x(unclosed"), [("x", "unclosed")]);
        assert_eq!(pairs("=,é=ü"), [("", ""), ("é", "ü")]);
    }

    #[test]
    fn reads_integers_as_c_does() {
        let value = |t| c_int(t, 0).map(|n| (n.value, n.negative, n.rest));
        assert_eq!(value("0x1fz"), Some((31, false, "z")));
        assert_eq!(value("010"), Some((8, false, "")));
        assert_eq!(value("08"), Some((0, false, "8")));
        assert_eq!(value(" -5"), Some((5, true, "")));
        assert_eq!(value("0xz"), Some((0, false, "xz")));
        assert_eq!(value("x"), None);
        assert!(c_int("99999999999999999999", 0).is_some_and(|n| n.overflow));
    }

    #[test]
    fn reads_hex_bytes() {
        assert_eq!(hex_bytes("01.02 0f"), (vec![1, 2, 15], ""));
        assert_eq!(hex_bytes("0102x"), (vec![1, 2], "x"));
        assert_eq!(hex_bytes("é"), (vec![], "é"));
    }
}
