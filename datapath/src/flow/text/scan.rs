//! Reading text: a cursor that knows where it is, so that each error names the word and its place.
//!
//! Numbers are written as in C: decimal, hexadecimal with `0x`, octal with `0`. Counterpart: `ovs_scan` of OVS
//! `lib/util.c`. Unlike that, a number that does not fit is refused, where OVS keeps its low bits.

use std::net::{Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use super::put::{Bits, FlagNames};
use crate::types::MacAddr;

/// What separates attributes, and actions.
const DELIMITERS: [char; 5] = [',', ' ', '\t', '\r', '\n'];

/// Why text is not a flow or a list of actions, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at byte {offset}: {message}")]
pub struct TextError {
    /// Offset in bytes, from the start of the text, of the word that is wrong.
    pub offset: usize,
    /// What is wrong with it.
    pub message: String,
}

/// A value and its mask.
pub(crate) type Masked<T> = (T, T);

/// A place in text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Offset from the start in bytes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is still to be read.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Whether all is read.
    pub fn is_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Whether `what` comes next.
    pub fn sees(&self, what: &str) -> bool {
        self.rest().starts_with(what)
    }

    /// Reads `what` if it comes next.
    pub fn eat(&mut self, what: &str) -> bool {
        let seen = self.sees(what);
        if seen {
            self.at += what.len();
        }
        seen
    }

    /// Skips commas and white space.
    pub fn skip_delimiters(&mut self) {
        self.take_while(|c| DELIMITERS.contains(&c));
    }

    /// Skips white space.
    pub fn skip_spaces(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    /// Reads as long as `accept` says so.
    pub fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads a name: letters, digits, `_`.
    pub fn name(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Reads up to the end of a port's name: a delimiter or a closing parenthesis.
    pub fn port_name(&mut self) -> &'a str {
        self.take_while(|c| c != ')' && !DELIMITERS.contains(&c))
    }

    /// An error about the word at `offset`.
    pub fn error_at(offset: usize, message: impl Into<String>) -> TextError {
        TextError { offset, message: message.into() }
    }

    /// An error that the next word is not what it should be.
    pub fn expected(&self, what: &str) -> TextError {
        let mut ahead = *self;
        let found = ahead.take_while(|c| !DELIMITERS.contains(&c) && !matches!(c, '(' | ')' | '/'));
        let found = match (found, ahead.rest().chars().next()) {
            ("", None) => "the end".to_owned(),
            ("", Some(c)) => format!("`{c}`"),
            // A word may be as long as a whole file.
            (word, _) => format!("`{}`", word.chars().take(60).collect::<String>()),
        };
        Self::error_at(self.at, format!("expected {what}, found {found}"))
    }

    /// Reads `what`, or fails.
    pub fn expect(&mut self, what: &str) -> Result<(), TextError> {
        if self.eat(what) { Ok(()) } else { Err(self.expected(&format!("`{what}`"))) }
    }

    /// Reads a number of no more than `bits` bits, or fails. A negative one is its two's complement.
    pub fn number(&mut self, bits: u32) -> Result<u64, TextError> {
        self.skip_spaces();
        let mut ahead = *self;
        let start = ahead.at;
        let negative = ahead.eat("-");
        if !negative {
            ahead.eat("+");
        }
        let radix = if ahead.eat("0x") || ahead.eat("0X") {
            16
        } else if ahead.sees("0") {
            8
        } else {
            10
        };
        let digits = ahead.take_while(|c| c.is_digit(radix));
        if digits.is_empty() {
            return Err(self.expected("a number"));
        }
        let max = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        let limit = if negative { max / 2 + 1 } else { max };
        let value = u64::from_str_radix(digits, radix).ok().filter(|value| *value <= limit);
        let Some(value) = value else {
            let word: String = self.text[start..ahead.at].chars().take(60).collect();
            return Err(Self::error_at(start, format!("`{word}` is out of range: at most {max:#x}")));
        };
        *self = ahead;
        Ok(if negative { value.wrapping_neg() & max } else { value })
    }

    /// Reads a number as wide as its type.
    pub fn int<T: Int>(&mut self) -> Result<T, TextError> {
        self.number(T::BITS).map(T::low_bits)
    }

    /// Reads six bytes in hexadecimal with colons.
    pub fn mac(&mut self) -> Result<MacAddr, TextError> {
        self.skip_spaces();
        let mut ahead = *self;
        let word = ahead.take_while(|c| c.is_ascii_hexdigit() || c == ':');
        let mac = word.parse().map_err(|_| self.expected("an Ethernet address"))?;
        *self = ahead;
        Ok(mac)
    }

    /// Reads an IPv4 address, host byte order.
    pub fn ipv4(&mut self) -> Result<u32, TextError> {
        self.skip_spaces();
        let mut ahead = *self;
        let word = ahead.take_while(|c| c.is_ascii_digit() || c == '.');
        let ip: Ipv4Addr = word.parse().map_err(|_| self.expected("an IPv4 address"))?;
        *self = ahead;
        Ok(ip.into())
    }

    /// Reads an IPv6 address.
    pub fn ipv6(&mut self) -> Result<[u8; 16], TextError> {
        let mut ahead = *self;
        let word = ahead.take_while(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
        let ip: Ipv6Addr = word.parse().map_err(|_| self.expected("an IPv6 address"))?;
        *self = ahead;
        Ok(ip.octets())
    }

    /// Reads a number as `out.len()` bytes, most significant first. More than 64 bits must be hexadecimal.
    pub fn big(&mut self, out: &mut [u8]) -> Result<(), TextError> {
        let start = *self;
        out.fill(0);
        if !self.eat("0x") && !self.eat("0X") {
            let value = self.number(64)?;
            let bytes = value.to_be_bytes();
            let (head, tail) = bytes.split_at(8usize.saturating_sub(out.len()));
            if head.iter().any(|&byte| byte != 0) {
                return Err(too_wide(start.at, out.len()));
            }
            let from = out.len() - tail.len();
            out[from..].copy_from_slice(tail);
            return Ok(());
        }
        // White space may stand between the digits.
        let digits = self.take_while(|c| c.is_ascii_hexdigit() || c.is_ascii_whitespace());
        let digits =
            digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).skip_while(|&byte| byte == b'0');
        let digits: Vec<u8> = digits.map(hex_digit).collect();
        if digits.len() > out.len() * 2 {
            return Err(too_wide(start.at, out.len()));
        }
        for (byte, pair) in out.iter_mut().rev().zip(digits.rchunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(())
    }

    /// Reads bytes, two hexadecimal digits each; white space and full stops between them do not count.
    pub fn hex_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            self.take_while(|c| c.is_ascii_whitespace() || c == '.');
            let Some(&[high, low]) = self.rest().as_bytes().first_chunk::<2>() else { return bytes };
            if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() {
                return bytes;
            }
            bytes.push(hex_digit(high) << 4 | hex_digit(low));
            self.at += 2;
        }
    }

    /// Reads `value`, and `/value` for the mask if `masks` allows one; without one the mask is exact.
    pub fn masked<T: Bits>(
        &mut self,
        masks: bool,
        read: impl Fn(&mut Self) -> Result<T, TextError>,
    ) -> Result<Masked<T>, TextError> {
        let value = read(self)?;
        if !self.sees("/") {
            return Ok((value, T::ALL));
        }
        if !masks {
            return Err(Self::error_at(self.at, "no mask is allowed here"));
        }
        self.eat("/");
        Ok((value, read(self)?))
    }

    /// Reads flags up to a closing parenthesis, which stays: `a|b`, numbers among them, which set all flags; or
    /// `+a-b` or `value/mask`, if `masks` allows it. `allowed` are the flags there are.
    pub fn flags(&mut self, names: FlagNames, allowed: u32, masks: bool) -> Result<Masked<u32>, TextError> {
        let start = *self;
        if let Ok(value) = self.number(32)
            && self.sees("/")
        {
            if !masks {
                return Err(Self::error_at(self.at, "no mask is allowed here"));
            }
            self.eat("/");
            let mask = self.number(32)?;
            let flags = (value as u32, mask as u32);
            return if (flags.0 | flags.1) & !allowed == 0 {
                Ok(flags)
            } else {
                Err(Self::error_at(start.at, format!("no such flags: only {allowed:#x} are")))
            };
        }
        *self = start;
        if self.sees("+") || self.sees("-") {
            if !masks {
                return Err(Self::error_at(self.at, "no mask is allowed here"));
            }
            return self.signed_flags(names, allowed);
        }
        let mut flags = 0;
        while !self.sees(")") {
            let word = *self;
            let value = if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
                self.number(32)? as u32
            } else {
                self.flag(names)?
            };
            if value & !allowed != 0 {
                return Err(word.expected("a flag"));
            }
            flags |= value;
            if !self.eat("|") && !self.sees(")") {
                return Err(self.expected("`|` or `)`"));
            }
        }
        Ok((flags, u32::MAX))
    }

    fn signed_flags(&mut self, names: FlagNames, allowed: u32) -> Result<Masked<u32>, TextError> {
        let (mut flags, mut mask) = (0, 0);
        while !self.sees(")") {
            let set = self.eat("+");
            if !set && !self.eat("-") {
                return Err(self.expected("`+` or `-`"));
            }
            let word = *self;
            let bit = self.flag(names)?;
            if bit & !allowed != 0 {
                return Err(word.expected("a flag"));
            }
            if mask & bit != 0 {
                return Err(Self::error_at(word.at, "this flag is there already"));
            }
            mask |= bit;
            flags |= if set { bit } else { 0 };
        }
        Ok((flags, mask))
    }

    fn flag(&mut self, names: FlagNames) -> Result<u32, TextError> {
        let mut ahead = *self;
        let word = ahead.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '[' | ']'));
        let bit = names.iter().position(|name| *name == word && !word.is_empty());
        let Some(bit) = bit else {
            return Err(self.expected(&format!("one of the flags {}", names.join(", "))));
        };
        *self = ahead;
        Ok(1 << bit)
    }
}

fn too_wide(at: usize, len: usize) -> TextError {
    Cursor::error_at(at, format!("the number has more than {} bits", 8 * len))
}

fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        _ => 0,
    }
}

/// An unsigned number in text.
pub(crate) trait Int: Bits {
    /// Its width.
    const BITS: u32;
    /// The low bits of `value`, which has no more than [`Self::BITS`].
    fn low_bits(value: u64) -> Self;
}

macro_rules! ints {
    ($($type:ty),*) => { $(impl Int for $type {
        const BITS: u32 = <$type>::BITS;
        fn low_bits(value: u64) -> Self { value as Self }
    })* };
}
ints!(u8, u16, u32, u64);
