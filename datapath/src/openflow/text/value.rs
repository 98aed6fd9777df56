//! Values and masks of fields in text.
//!
//! Counterpart: OVS `mf_parse`, `mf_format`, `mf_parse_subfield`, `mf_format_subfield`.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::error::{ErrorKind, Fault};
use super::flags;
use super::names::{Names, format_port, parse_port};
use super::scan::c_int;
use crate::openflow::field::{Field, FieldValue, Format, Subfield, port_from_11, port_to_11};
use crate::types::{MacAddr, OfPort};

/// A value and which of its bits count.
pub(super) type Masked = (FieldValue, FieldValue);

/// All bits of a value of `field` in a message, which may be more than the field has.
pub(super) fn exact_mask(field: Field) -> FieldValue {
    FieldValue::ones(field.info().n_bytes * 8)
}

/// Reads a value with an optional mask; `*` is any value, as is what is written for it, `ANY`.
pub(super) fn parse<'a>(field: Field, text: &'a str, names: &dyn Names) -> Result<Masked, Fault<'a>> {
    if matches!(text, "*" | "ANY") {
        return Ok((FieldValue::ZERO, FieldValue::ZERO));
    }
    let exact = exact_mask(field);
    let number = |n: u32| FieldValue::new(u128::from(n));
    let flags = |names, allowed, what| {
        flags::parse(text, names, allowed, what).map(|(v, m)| (number(v), number(m) & exact))
    };
    let (value, mask) = match field.info().format {
        Format::Decimal | Format::Hex => parse_integer(field, text)?,
        Format::CtState => flags(flags::CT_STATE, 0xff, "ct_state")?,
        Format::TunFlags => flags(flags::TUN_FLAGS, 1, "tunnel")?,
        Format::TcpFlags => flags(flags::TCP_FLAGS, 0xfff, "TCP")?,
        Format::Mac => parse_mac_masked(text)?,
        Format::Ipv4 => parse_ipv4_masked(text)?,
        Format::Ipv6 => parse_ipv6_masked(text)?,
        Format::Frag => parse_frag(text)?,
        Format::PacketType => (number(parse_packet_type(text)?), exact),
        Format::Port | Format::Port11 => {
            let unknown = || ErrorKind::FieldPort { text: text.to_owned(), field: field.to_string() };
            let port = parse_port(text, names).ok_or_else(|| Fault::new(text, unknown()))?;
            let wide = field.info().format == Format::Port11;
            (number(if wide { port_to_11(port) } else { u32::from(port.0) }), exact)
        }
    };
    if !field.info().maskable && !mask.is_zero() && mask != exact {
        let kind = ErrorKind::InvalidMask { text: text.to_owned(), field: field.to_string() };
        return Err(Fault::new(text, kind));
    }
    Ok((value, mask))
}

/// Reads a value that has no mask.
pub(super) fn parse_exact<'a>(
    field: Field,
    text: &'a str,
    names: &dyn Names,
) -> Result<FieldValue, Fault<'a>> {
    let (value, mask) = parse(field, text, names)?;
    if mask == exact_mask(field) {
        Ok(value)
    } else {
        Err(Fault::new(text, ErrorKind::WildcardsNotAllowed(text.to_owned())))
    }
}

/// Whether a value is one that the field can have (OVS `mf_is_value_valid`).
pub(super) fn is_valid(field: Field, value: &FieldValue) -> bool {
    let n = value.low();
    match field {
        Field::InPortOxm | Field::ActsetOutput => port_from_11(n as u32).is_some(),
        Field::NwTos => n & 3 == 0,
        Field::ArpOp => n <= 0xff,
        Field::VlanVid => n <= 0x1fff,
        Field::CtState => n <= 0xff,
        Field::NshTtl => n <= 63,
        Field::NshMdtype => n == 1 || n == 2,
        // What OVS does not check, and cuts off when it writes the field.
        Field::TunErspanIdx | Field::TunErspanVer | Field::TunErspanDir | Field::TunErspanHwid => true,
        _ => value.bit_len() <= field.n_bits(),
    }
}

/// How reading an integer failed.
enum IntegerError {
    Syntax,
    TooLarge,
}

/// Reads an integer of up to `n_bytes` at the start of `text`: decimal, octal or hexadecimal, the latter of any length.
/// Returns what follows (OVS `parse_int_string`).
fn integer(text: &str, n_bytes: u32) -> Result<(FieldValue, &str), IntegerError> {
    let value = if let Some(mut hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let mut value = FieldValue::ZERO;
        loop {
            hex = hex.trim_start_matches([' ', '\t', '\r', '\n']);
            let Some(digit) = hex.chars().next().and_then(|c| c.to_digit(16)) else {
                break (value, hex);
            };
            if value.bit_len() + 4 > n_bytes * 8 && !value.is_zero() {
                return Err(IntegerError::TooLarge);
            }
            value = value.shl(4) | FieldValue::new(u128::from(digit));
            hex = &hex[1..];
        }
    } else {
        let n = c_int(text, 0).ok_or(IntegerError::Syntax)?;
        let n_value = if n.negative { n.value.wrapping_neg() } else { n.value };
        if n.overflow {
            return Err(IntegerError::TooLarge);
        }
        (FieldValue::new(u128::from(n_value)), n.rest)
    };
    if value.0.bit_len() > n_bytes * 8 { Err(IntegerError::TooLarge) } else { Ok(value) }
}

/// All of `text` as an integer of up to `n_bytes`.
pub(super) fn whole_integer(text: &str, n_bytes: u32) -> Option<FieldValue> {
    integer(text, n_bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// The integer at the start of `text`, and what follows.
pub(super) fn leading_integer(text: &str, n_bytes: u32) -> Option<(FieldValue, &str)> {
    integer(text, n_bytes).ok()
}

fn parse_integer(field: Field, text: &str) -> Result<Masked, Fault<'_>> {
    let n_bytes = field.info().n_bytes;
    let fault = |at, part, error| {
        let (text, field) = (text.to_owned(), field.to_string());
        let kind = match error {
            IntegerError::Syntax => ErrorKind::IntegerSyntax { text, field, part },
            IntegerError::TooLarge => ErrorKind::IntegerTooLarge { text, field, n_bytes, part },
        };
        Fault::new(at, kind)
    };
    let (value, rest) = integer(text, n_bytes).map_err(|e| fault(text, "value", e))?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Ok((value, exact_mask(field))),
        None => Err(fault(text, "value", IntegerError::Syntax)),
        Some(mask_text) => match integer(mask_text, n_bytes) {
            Ok((mask, "")) => Ok((value, mask)),
            Ok(_) => Err(fault(mask_text, "mask", IntegerError::Syntax)),
            Err(e) => Err(fault(mask_text, "mask", e)),
        },
    }
}

/// Reads an Ethernet address: six hexadecimal bytes, each of one digit or two.
pub(super) fn parse_mac(text: &str) -> Option<MacAddr> {
    text.parse().ok()
}

fn mac_value(mac: MacAddr) -> FieldValue {
    FieldValue::from_be_bytes(&mac.0)
}

fn parse_mac_masked(text: &str) -> Result<Masked, Fault<'_>> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
    let bad = |at| Fault::new(at, ErrorKind::Ethernet(text.to_owned()));
    let value = mac_value(parse_mac(value).ok_or_else(|| bad(text))?);
    let mask = match mask {
        Some(mask) => mac_value(parse_mac(mask).ok_or_else(|| bad(mask))?),
        None => FieldValue::ones(48),
    };
    Ok((value, mask))
}

/// Reads a dotted quad of decimal numbers, each up to 255.
pub(super) fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0; 4];
    let mut parts = text.split('.');
    for byte in &mut bytes {
        let part = parts.next()?;
        let plain = !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit());
        *byte = plain.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(bytes))
}

/// Reads the length of a prefix.
fn prefix_length(text: &str) -> Option<i64> {
    let n = c_int(text, 10).filter(|n| n.rest.is_empty())?;
    let value = i64::try_from(n.value).unwrap_or(i64::MAX);
    Some(if n.negative { -value } else { value })
}

/// The upper `length` of `n_bits` bits.
fn prefix_mask(length: u32, n_bits: u32) -> FieldValue {
    FieldValue::ones(length).shl(n_bits - length)
}

fn parse_ipv4_masked(text: &str) -> Result<Masked, Fault<'_>> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
    let bad = |at| Fault::new(at, ErrorKind::Ipv4(text.to_owned()));
    let number = |ip: Ipv4Addr| FieldValue::new(u128::from(u32::from(ip)));
    let value = number(parse_ipv4(value).ok_or_else(|| bad(text))?);
    let Some(mask_text) = mask else {
        return Ok((value, FieldValue::ones(32)));
    };
    if let Some(mask) = parse_ipv4(mask_text) {
        return Ok((value, number(mask)));
    }
    match prefix_length(mask_text) {
        Some(length @ 0..=32) => Ok((value, prefix_mask(length as u32, 32))),
        Some(_) => Err(Fault::new(mask_text, bad_prefix(text, "IPv4", 32))),
        None => Err(bad(mask_text)),
    }
}

fn bad_prefix(text: &str, family: &'static str, max: u32) -> ErrorKind {
    ErrorKind::PrefixLength { text: text.to_owned(), family, max }
}

fn parse_ipv6_masked(text: &str) -> Result<Masked, Fault<'_>> {
    let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
    let bad = |at| Fault::new(at, ErrorKind::Ipv6(text.to_owned()));
    let number = |ip: Ipv6Addr| FieldValue::new(u128::from(ip));
    let value = number(value.parse().map_err(|_| bad(text))?);
    let Some(mask_text) = mask else {
        return Ok((value, FieldValue::ones(128)));
    };
    if let Ok(mask) = mask_text.parse() {
        return Ok((value, number(mask)));
    }
    match prefix_length(mask_text) {
        Some(length @ 0..=128) => Ok((value, prefix_mask(length as u32, 128))),
        Some(_) => Err(Fault::new(mask_text, bad_prefix(text, "IPv6", 128))),
        None => Err(Fault::new(mask_text, ErrorKind::Ipv6Mask(text.to_owned()))),
    }
}

/// Names of fragment types, with mask and value; the first that fits is printed.
const FRAGMENTS: [(&str, u32, u32); 7] = [
    ("no", 3, 0),
    ("first", 3, 1),
    ("later", 3, 3),
    ("no", 1, 0),
    ("yes", 1, 1),
    ("not_later", 2, 0),
    ("later", 2, 2),
];

fn parse_frag(text: &str) -> Result<Masked, Fault<'_>> {
    let found = FRAGMENTS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text));
    let &(_, mask, value) = found.ok_or_else(|| Fault::new(text, ErrorKind::Fragment(text.to_owned())))?;
    // The bits that are not in use count as significant, so that a full mask is seen as exact.
    let mask = mask | 0xfc;
    Ok((FieldValue::new(u128::from(value)), FieldValue::new(u128::from(mask))))
}

/// The name of a kind of fragments.
pub(super) fn frag_name(value: u8, mask: u8) -> &'static str {
    let wanted = (u32::from(mask & 3), u32::from(value & mask & 3));
    FRAGMENTS.iter().find(|&&(_, m, v)| (m, v) == wanted).map_or("<error>", |(name, ..)| name)
}

/// Reads `(namespace,type)`.
fn parse_packet_type(text: &str) -> Result<u32, Fault<'_>> {
    let bad = |at, part| Fault::new(at, ErrorKind::PacketType { text: text.to_owned(), part });
    let inner = text.strip_prefix('(').ok_or_else(|| bad(text, "missing '('"))?;
    let (ns, rest) = integer(inner, 2).map_err(|_| bad(inner, "ns"))?;
    let rest = rest.strip_prefix(',').ok_or_else(|| bad(rest, "missing ','"))?;
    let (kind, rest) = integer(rest, 2).map_err(|_| bad(rest, "ns_type"))?;
    if rest == ")" { Ok((ns.low() as u32) << 16 | kind.low() as u32) } else { Err(bad(rest, "missing ')'")) }
}

/// Writes a packet type: `eth`, or its namespace and type.
pub(super) fn format_packet_type(out: &mut String, value: u32, mask: u32) {
    if value == 0 && mask == u32::MAX {
        out.push_str("eth");
        return;
    }
    out.push_str("packet_type=(");
    put_u16_masked(out, (value >> 16) as u16, (mask >> 16) as u16);
    out.push(',');
    put_u16_masked(out, value as u16, mask as u16);
    out.push(')');
}

fn put_u16_masked(out: &mut String, value: u16, mask: u16) {
    // Writing to a string cannot fail, here and below.
    let _ = match (value, mask) {
        (_, 0) => write!(out, "*"),
        (0..=9, _) => write!(out, "{value}"),
        _ => write!(out, "{value:#x}"),
    };
    if mask != 0 && mask != u16::MAX {
        let _ = write!(out, "/{mask:#x}");
    }
}

/// Writes a number in hexadecimal, zero as `0`.
pub(in crate::openflow) fn put_hex(out: &mut String, value: &FieldValue) {
    if value.is_zero() {
        out.push('0');
    } else {
        let _ = write!(out, "{value:#x}");
    }
}

/// Writes an IPv4 address and, if not exact, its mask.
pub(super) fn put_ipv4(out: &mut String, value: u32, mask: u32) {
    let _ = write!(out, "{}", Ipv4Addr::from(value));
    if mask == u32::MAX {
        return;
    }
    let _ = if mask.leading_ones() == mask.count_ones() {
        write!(out, "/{}", mask.count_ones())
    } else {
        write!(out, "/{}", Ipv4Addr::from(mask))
    };
}

/// Writes an IPv6 address and, if not exact, its mask.
pub(super) fn put_ipv6(out: &mut String, value: u128, mask: u128) {
    put_ipv6_addr(out, value);
    if mask == u128::MAX {
        return;
    }
    out.push('/');
    if mask.leading_ones() == mask.count_ones() {
        let _ = write!(out, "{}", mask.count_ones());
    } else {
        put_ipv6_addr(out, mask);
    }
}

/// Writes an IPv6 address as `inet_ntop` of the GNU C library does: unlike std's, it writes IPv4-compatible addresses
/// with a dotted quad too.
pub(super) fn put_ipv6_addr(out: &mut String, value: u128) {
    let ip = Ipv6Addr::from(value);
    let low = value as u32;
    let _ = if value >> 32 == 0 && low > 0xffff {
        write!(out, "::{}", Ipv4Addr::from(low))
    } else {
        write!(out, "{ip}")
    };
}

/// Writes an Ethernet address and, if not exact, its mask.
pub(super) fn put_mac(out: &mut String, value: MacAddr, mask: MacAddr) {
    let _ = write!(out, "{value}");
    if mask != MacAddr::BROADCAST {
        let _ = write!(out, "/{mask}");
    }
}

fn to_mac(value: &FieldValue) -> MacAddr {
    let mut mac = MacAddr::ZERO;
    value.write_be(&mut mac.0);
    mac
}

/// Writes a value and, if not exact, its mask.
pub(in crate::openflow) fn format(
    out: &mut String,
    field: Field,
    value: &FieldValue,
    mask: &FieldValue,
    names: &dyn Names,
) {
    if mask.is_zero() {
        out.push_str("ANY");
        return;
    }
    let exact = *mask == exact_mask(field);
    let (low, low_mask) = (value.low() as u32, mask.low() as u32);
    match field.info().format {
        Format::Port11 if exact => {
            format_port(out, port_from_11(low).unwrap_or(OfPort::NONE), names);
        }
        Format::Port if exact => format_port(out, OfPort(low as u16), names),
        Format::Decimal | Format::Hex | Format::Port | Format::Port11 => {
            if field.info().format == Format::Hex {
                put_hex(out, value);
            } else {
                let _ = write!(out, "{}", value.low());
            }
            if !exact {
                out.push('/');
                put_hex(out, mask);
            }
        }
        // OVS prints all 16 flags that a mask could have as such a list, so that a full mask is never seen.
        Format::CtState => flags::format_masked(out, flags::CT_STATE, low, low_mask, 0xffff),
        Format::TunFlags => flags::format_masked(out, flags::TUN_FLAGS, low, low_mask & 1, 1),
        Format::TcpFlags => flags::format_masked(out, flags::TCP_FLAGS, low, low_mask & 0xfff, 0xfff),
        Format::Mac => put_mac(out, to_mac(value), to_mac(mask)),
        Format::Ipv4 => put_ipv4(out, low, low_mask),
        Format::Ipv6 => put_ipv6(out, value.low(), mask.low()),
        Format::Frag => out.push_str(frag_name(low as u8, low_mask as u8)),
        Format::PacketType => format_packet_type(out, low, low_mask),
    }
}

/// Whether `name` is `base`, with the field's number behind it if it has one.
fn is_name(field: Field, base: &str, name: &str) -> bool {
    match (name.strip_prefix(base), field.index()) {
        (Some(""), None) => true,
        (Some(digits), Some(n)) => {
            !digits.starts_with(['+', '0']) && digits.parse() == Ok(n) || digits == "0" && n == 0
        }
        (Some(_) | None, _) => false,
    }
}

/// The field that is called `name`, by its OVS name or its other name.
pub fn field_by_name(name: &str) -> Option<Field> {
    Field::all().find(|&field| {
        let info = field.info();
        is_name(field, info.name, name) || info.alias.is_some_and(|alias| is_name(field, alias, name))
    })
}

/// The field that is called `name` by its NXM or OXM name.
fn field_by_nxm_name(name: &str) -> Option<Field> {
    Field::all().find(|&field| nxm_names(field).any(|base| is_name(field, base, name)))
}

/// The NXM and OXM names of a field without its number, the one that is printed first.
fn nxm_names(field: Field) -> impl Iterator<Item = &'static str> {
    // Registers have old names up to some number, and newer ones from there.
    let names = field.info().nxm;
    let only = match field {
        Field::Reg(n) => Some(usize::from(n >= 16)),
        Field::XxReg(n) => Some(usize::from(n >= 4)),
        _ => None,
    };
    names.iter().enumerate().filter(move |(i, _)| only.is_none_or(|o| o == *i)).map(|(_, name)| *name)
}

/// Whether the field has a number of its own in NXM, and not only an experimenter's (OVS `mf_nxm_header`).
pub(crate) fn has_short_header(field: Field) -> bool {
    let experimenter = ["NXOXM_ET_", "NXOXM_NSH_", "ONFOXM_ET_"];
    nxm_names(field).next().is_some_and(|name| !experimenter.iter().any(|prefix| name.starts_with(prefix)))
}

/// Reads a field by any of its names; NXM names may have `_W` behind them.
pub(super) fn parse_field(name: &str) -> Option<Field> {
    field_by_nxm_name(name).or_else(|| field_by_name(name))
}

/// Reads a field and a range of bits at the start of `text`; returns what follows.
pub(super) fn parse_subfield_prefix(text: &str) -> Result<(Subfield, &str), Fault<'_>> {
    let (name, rest) = text.split_at(text.find(['[', '-']).unwrap_or(text.len()));
    let plain = name.strip_suffix("_W").unwrap_or(name);
    let field = field_by_nxm_name(plain).or_else(|| field_by_name(name)).ok_or_else(|| {
        Fault::new(name, ErrorKind::UnknownField { text: text.to_owned(), field: name.to_owned() })
    })?;
    let whole = Subfield::whole(field);
    let Some(inner) = rest.strip_prefix('[') else {
        return Ok((whole, rest));
    };
    let syntax = || Fault::new(rest, ErrorKind::SubfieldSyntax(text.to_owned()));
    let (range, rest) = inner.split_once(']').ok_or_else(syntax)?;
    if range.is_empty() {
        return Ok((whole, rest));
    }
    let bit = |t: &str| c_int(t, 10).filter(|n| n.rest.is_empty() && !n.negative).map(|n| n.value);
    let (start, end) = match range.split_once("..") {
        Some((start, end)) => (bit(start), bit(end)),
        None => (bit(range), bit(range)),
    };
    let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let (start, end) = start.map(clamp).zip(end.map(clamp)).ok_or_else(syntax)?;
    let n_bits = field.n_bits();
    let text_owned = text.to_owned();
    let kind = if start > end {
        ErrorKind::SubfieldOrder { text: text_owned, start, end }
    } else if start >= n_bits {
        ErrorKind::SubfieldBit { text: text_owned, which: "starting", bit: start, n_bits }
    } else if end >= n_bits {
        ErrorKind::SubfieldBit { text: text_owned, which: "ending", bit: end, n_bits }
    } else {
        return Ok((Subfield { field, ofs: start, n_bits: end - start + 1 }, rest));
    };
    Err(Fault::new(range, kind))
}

/// Reads a field and a range of bits.
pub(super) fn parse_subfield(text: &str) -> Result<Subfield, Fault<'_>> {
    match parse_subfield_prefix(text)? {
        (subfield, "") => Ok(subfield),
        (_, rest) => Err(Fault::new(rest, ErrorKind::AfterSubfield)),
    }
}

/// Writes a field and a range of bits, by its NXM name if it has one.
pub(in crate::openflow) fn put_subfield(out: &mut String, sub: &Subfield) {
    let _ = match (nxm_names(sub.field).next(), sub.field.index()) {
        (Some(name), Some(n)) => write!(out, "{name}{n}"),
        (Some(name), None) => write!(out, "{name}"),
        (None, _) => write!(out, "{}", sub.field),
    };
    let _ = if sub.is_whole() {
        write!(out, "[]")
    } else if sub.n_bits == 1 {
        write!(out, "[{}]", sub.ofs)
    } else {
        write!(out, "[{}..{}]", sub.ofs, sub.ofs + sub.n_bits - 1)
    };
}

/// The error for a number that has more bits than the range it is for.
pub(super) fn does_not_fit(text: &str, sub: &Subfield, number: &FieldValue) -> ErrorKind {
    let mut value = String::new();
    format(&mut value, sub.field, number, &exact_mask(sub.field), &super::names::NoNames);
    ErrorKind::DoesNotFit { text: text.to_owned(), value, n_bits: sub.n_bits }
}
