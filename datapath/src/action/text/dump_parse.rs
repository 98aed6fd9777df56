//! Lines of `dpctl/dump-flows`, read back.

use std::fmt::{self, Write};

use super::dump::{FlowStats, TCP_LETTERS};
use super::format_actions;
use super::parse::ActionParser;
use crate::action::Actions;
use crate::flow::text::parse::Parser;
use crate::flow::text::scan::Cursor;
use crate::flow::text::{Attrs, ParsedFlow, PortNames, TextError};

/// A flow as a line of a dump has it.
#[derive(Clone, Debug, PartialEq)]
pub struct DumpLine {
    /// Its id, key and mask. Values of what is not printed are zero, with a mask of zero.
    pub flow: ParsedFlow,
    /// What it counted.
    pub stats: FlowStats,
    /// Its actions.
    pub actions: Actions,
}

/// Reads a line of a dump, with or without `-m`. `vlan_limit` is how many tags extraction looks at.
///
/// # Errors
/// The first word that is not understood, an attribute that contradicts another, or that there are no actions.
pub fn parse_dump(
    text: &str,
    names: Option<&dyn PortNames>,
    vlan_limit: usize,
) -> Result<DumpLine, TextError> {
    let (parser, attrs, tail) = Tail::line(text, names)?;
    if attrs.key.is_empty() {
        return Err(Cursor::new(text).expected("a key attribute such as `in_port(1)`"));
    }
    let Some(actions) = tail.actions else { return Err(parser.cur.expected("`actions:`")) };
    let stats = tail.stats.unwrap_or_default();
    Ok(DumpLine { flow: attrs.dumped(vlan_limit, &parser.places)?, stats, actions })
}

/// Reads a flow, or a line of a dump, and prints what it says in the form of OVS (`verbose`: with what is wildcarded).
///
/// Attributes are printed as they are given: whether they make a flow is not asked (see
/// [`crate::flow::text::parse_flow`] for that). [`crate::flow::text::AnyNames`] keeps names of ports that are not known.
///
/// # Errors
/// The first word that is not understood, and where it is.
pub fn canonical_flow(text: &str, names: Option<&dyn PortNames>, verbose: bool) -> Result<String, TextError> {
    let (parser, attrs, tail) = Tail::line(text, names)?;
    if attrs.key.is_empty() && attrs.ufid.is_none() {
        return Err(parser.cur.expected("a key attribute such as `in_port(1)`"));
    }
    let mut out = String::new();
    let written = attrs.format(&mut out, names, verbose).and_then(|()| tail.format(&mut out, names));
    // Writing to a string does not fail.
    written.map(|()| out).map_err(|error| Cursor::error_at(0, error.to_string()))
}

/// What follows a flow's key in a dump.
#[derive(Debug, Default)]
struct Tail {
    stats: Option<FlowStats>,
    offloaded: Option<String>,
    dp: Option<String>,
    actions: Option<Actions>,
    extra: Option<String>,
}

/// Words that end the key of a flow.
const WORDS: [&str; 7] = ["packets:", "bytes:", "used:", "flags:", "offloaded:", "dp:", "actions:"];
/// Ends the actions.
const EXTRA: &str = "dp-extra-info:";

impl Tail {
    /// Reads a flow with or without what follows it.
    fn line<'a>(
        text: &'a str,
        names: Option<&'a dyn PortNames>,
    ) -> Result<(Parser<'a>, Attrs, Self), TextError> {
        let mut parser = Parser::new(text, names, true);
        let attrs = Attrs::read(&mut parser, &WORDS)?;
        let mut parser = ActionParser::new(parser);
        let tail = Self::parse(&mut parser)?;
        Ok((parser.attrs, attrs, tail))
    }

    fn parse(parser: &mut ActionParser<'_>) -> Result<Self, TextError> {
        let mut tail = Self::default();
        loop {
            let cur = parser.cur();
            cur.skip_delimiters();
            if cur.is_end() {
                return Ok(tail);
            }
            let start = *cur;
            let name = cur.take_while(|c| c.is_ascii_lowercase() || c == '-');
            if !cur.eat(":") {
                return Err(start.expected("`packets:`, `bytes:`, `used:` or `actions:`"));
            }
            match name {
                "packets" => tail.stats.get_or_insert_default().packets = cur.number(64)?,
                "bytes" => tail.stats.get_or_insert_default().bytes = cur.number(64)?,
                "used" => tail.stats.get_or_insert_default().used_ms = used(cur)?,
                "flags" => tail.stats.get_or_insert_default().tcp_flags = tcp_flags(cur)?,
                "offloaded" => tail.offloaded = Some(word(cur)?),
                "dp" => tail.dp = Some(word(cur)?),
                "actions" => tail.actions = Some(parser.all(&[EXTRA])?),
                "dp-extra-info" => tail.extra = Some(cur.take_while(|_| true).trim_end().to_owned()),
                _ => return Err(start.expected("`packets:`, `bytes:`, `used:` or `actions:`")),
            }
        }
    }

    fn format(&self, out: &mut dyn Write, names: Option<&dyn PortNames>) -> fmt::Result {
        if let Some(stats) = &self.stats {
            write!(out, ", {stats}")?;
        }
        for (name, value) in [("offloaded", &self.offloaded), ("dp", &self.dp)] {
            if let Some(value) = value {
                write!(out, ", {name}:{value}")?;
            }
        }
        if let Some(actions) = &self.actions {
            write!(out, ", actions:{}", format_actions(actions, names))?;
        }
        match &self.extra {
            Some(extra) => write!(out, ", {EXTRA}{extra}"),
            None => Ok(()),
        }
    }
}

fn word(cur: &mut Cursor<'_>) -> Result<String, TextError> {
    match cur.port_name() {
        "" => Err(cur.expected("a word")),
        word => Ok(word.to_owned()),
    }
}

/// `never`, or seconds with up to three digits behind the point; in milliseconds.
fn used(cur: &mut Cursor<'_>) -> Result<Option<u64>, TextError> {
    if cur.eat("never") {
        return Ok(None);
    }
    let start = *cur;
    let word = cur.take_while(|c| c.is_ascii_digit() || c == '.');
    let (seconds, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let milliseconds = match (seconds.parse::<u64>(), fraction.parse::<u64>(), fraction.len()) {
        (Ok(seconds), Ok(fraction), digits @ 1..=3) => {
            seconds.checked_mul(1000).and_then(|ms| ms.checked_add(fraction * [0, 100, 10, 1][digits]))
        }
        _ => None,
    };
    match milliseconds {
        Some(ms) if cur.eat("s") => Ok(Some(ms)),
        _ => Err(start.expected("`never`, or seconds such as `1.250s`")),
    }
}

fn tcp_flags(cur: &mut Cursor<'_>) -> Result<u16, TextError> {
    let start = *cur;
    let mut flags = 0;
    if cur.eat("none") {
        return Ok(flags);
    }
    loop {
        match TCP_LETTERS.into_iter().find(|(_, letter)| cur.eat(letter)) {
            Some((bit, _)) => flags |= bit,
            None if flags == 0 => return Err(start.expected("TCP flags such as `S.`")),
            None => return Ok(flags),
        }
    }
}
