//! Sets of flags in text: `+trk-new`, `syn|ack`, `0x12/0x3f`.
//!
//! Counterpart: OVS `parse_flags`, `format_flags`, `format_flags_masked` of `lib/flow.c`.

use std::fmt::Write;

use super::error::{ErrorKind, Fault};
use super::scan::c_int;

/// Names of flags, each with its bit.
pub(super) type FlagNames = [(u32, &'static str)];

/// Connection state.
pub(super) const CT_STATE: &FlagNames = &[
    (1, "new"),
    (1 << 1, "est"),
    (1 << 2, "rel"),
    (1 << 3, "rpl"),
    (1 << 4, "inv"),
    (1 << 5, "trk"),
    (1 << 6, "snat"),
    (1 << 7, "dnat"),
];

/// Tunnel flags; only the first can be matched by rules.
pub(super) const TUN_FLAGS: &FlagNames = &[(1, "oam"), (1 << 1, "df"), (1 << 2, "csum"), (1 << 3, "key")];

/// TCP flags.
pub(super) const TCP_FLAGS: &FlagNames = &[
    (0x001, "fin"),
    (0x002, "syn"),
    (0x004, "rst"),
    (0x008, "psh"),
    (0x010, "ack"),
    (0x020, "urg"),
    (0x040, "ece"),
    (0x080, "cwr"),
    (0x100, "ns"),
    (0x200, "[200]"),
    (0x400, "[400]"),
    (0x800, "[800]"),
];

/// Reads flags into value and mask; only bits of `allowed` may be named. Without signs or a mask all bits are
/// significant.
pub(super) fn parse<'a>(
    text: &'a str,
    names: &FlagNames,
    allowed: u32,
    what: &'static str,
) -> Result<(u32, u32), Fault<'a>> {
    if let Some((value, mask)) = numeric_masked(text) {
        let known = value & !allowed == 0 && mask & !allowed == 0;
        return known.then_some((value, mask)).ok_or_else(|| unknown(text, what));
    }
    if text.starts_with(['+', '-']) {
        return parse_signed(text, names, allowed, what);
    }
    let mut flags = 0;
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(n) = c_int(rest, 0) {
            let bits = if n.negative { n.value.wrapping_neg() } else { n.value };
            if n.overflow || bits & !u64::from(allowed) != 0 {
                return Err(unknown(rest, what));
            }
            flags |= bits as u32;
            rest = n.rest.strip_prefix('|').unwrap_or(n.rest);
            continue;
        }
        let (word, tail) = rest.split_once('|').unwrap_or((rest, ""));
        flags |= bit_of(word, names, allowed).ok_or_else(|| unknown(word, what))?;
        rest = tail;
    }
    Ok((flags, u32::MAX))
}

/// `value/mask` at the start of `text`, both numbers.
fn numeric_masked(text: &str) -> Option<(u32, u32)> {
    let value = c_int(text, 0)?;
    let mask = c_int(value.rest.strip_prefix('/')?, 0)?;
    let word = |n: u64| u32::try_from(n).ok();
    (mask.rest.is_empty() && !value.negative && !mask.negative)
        .then(|| word(value.value).zip(word(mask.value)))?
}

fn parse_signed<'a>(
    text: &'a str,
    names: &FlagNames,
    allowed: u32,
    what: &'static str,
) -> Result<(u32, u32), Fault<'a>> {
    let (mut flags, mut mask) = (0, 0);
    let mut rest = text;
    while !rest.is_empty() {
        let set = rest.starts_with('+');
        if !set && !rest.starts_with('-') {
            return Err(Fault::new(rest, ErrorKind::FlagSign { text: rest.to_owned(), field: what }));
        }
        let after = &rest[1..];
        let (word, tail) = after.split_at(after.find(['+', '-']).unwrap_or(after.len()));
        let bit = bit_of(word, names, allowed).ok_or_else(|| unknown(word, what))?;
        if mask & bit != 0 {
            return Err(Fault::new(word, ErrorKind::FlagTwice { text: word.to_owned(), field: what }));
        }
        mask |= bit;
        if set {
            flags |= bit;
        }
        rest = tail;
    }
    Ok((flags, mask))
}

/// Reads connection state as `--ct-next` takes it, and checks that a packet can have it.
///
/// # Errors
/// In OVS's words (`parse_ct_state()` and `validate_ct_state()` of `lib/flow.c`).
pub(crate) fn parse_conntrack_state(text: &str) -> Result<u8, String> {
    const NEW: u32 = 1;
    const EST: u32 = 1 << 1;
    const RPL: u32 = 1 << 3;
    const INV: u32 = 1 << 4;
    const TRK: u32 = 1 << 5;
    let mut state = 0;
    for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
        let unknown = || format!("{word}: unknown connection tracking state flag");
        state |= bit_of(word, CT_STATE, 0xff).ok_or_else(unknown)?;
    }
    let problem = if state != 0 && state & TRK == 0 {
        "If \"trk\" is unset, no other flags are set"
    } else if state & INV != 0 && state & !(TRK | INV) != 0 {
        "when \"inv\" is set, only \"trk\" may also be set"
    } else if state & NEW != 0 && state & EST != 0 {
        "\"new\" and \"est\" are mutually exclusive"
    } else if state & NEW != 0 && state & RPL != 0 {
        "\"new\" and \"rpy\" are mutually exclusive"
    } else {
        return Ok(state as u8);
    };
    Err(format!("{}: invalid connection state: {problem}", conntrack_state_text(state as u8)))
}

/// Writes connection state as `a|b`.
pub(crate) fn conntrack_state_text(state: u8) -> String {
    let mut out = String::new();
    format(&mut out, CT_STATE, u32::from(state));
    out
}

fn bit_of(word: &str, names: &FlagNames, allowed: u32) -> Option<u32> {
    names.iter().find(|&&(bit, name)| name == word && bit & allowed != 0).map(|&(bit, _)| bit)
}

fn unknown<'a>(at: &'a str, what: &'static str) -> Fault<'a> {
    Fault::new(at, ErrorKind::UnknownFlag { text: at.to_owned(), field: what })
}

/// Writes all flags that are set, as `a|b`; bits without a name as one number.
pub(super) fn format(out: &mut String, names: &FlagNames, flags: u32) {
    let mut words: Vec<String> =
        names.iter().filter(|(bit, _)| flags & bit != 0).map(|&(_, name)| name.to_owned()).collect();
    let unnamed = names.iter().fold(flags, |left, (bit, _)| left & !bit);
    if unnamed != 0 || flags == 0 {
        words.push(if flags == 0 { "0".to_owned() } else { format!("{unnamed:#x}") });
    }
    out.push_str(&words.join("|"));
}

/// Writes flags under a mask: `a|b` if that is `all`, else `+a-b`.
pub(super) fn format_masked(out: &mut String, names: &FlagNames, flags: u32, mask: u32, all: u32) {
    if mask == all {
        return format(out, names, flags);
    }
    if mask == 0 {
        out.push_str("0/0");
        return;
    }
    for shift in (0..32).filter(|shift| mask >> shift & 1 == 1) {
        let bit = 1 << shift;
        let name = names.iter().find(|(b, _)| *b == bit).map_or("[Unknown]", |&(_, name)| name);
        let sign = if flags & bit != 0 { '+' } else { '-' };
        // Writing to a string cannot fail.
        let _ = write!(out, "{sign}{name}");
    }
}
