//! Arguments of `ct`, `nat` among them.
//!
//! Counterpart: OVS `parse_CT`, `parse_NAT`, `str_to_nat_range`.

use std::net::{IpAddr, Ipv6Addr};

use super::actions::{ActionReader, Outer, problem, unknown_table};
use super::error::{ErrorKind, Fault};
use super::names::parse_table;
use super::scan::{KeyValue, KeyValues, u16_of};
use super::value;
use crate::openflow::action::{CtZone, OfAction, OfCt, OfNat, OfNatKind};
use crate::types::{ConnZone, TableId};

/// TCP port of FTP, which stands for its helper.
pub(crate) const ALG_FTP: u16 = 21;
/// UDP port of TFTP, which stands for its helper.
pub(crate) const ALG_TFTP: u16 = 69;
/// "No table" in messages.
const TABLE_NONE: TableId = TableId(255);

pub(super) fn ct<'a>(reader: &mut ActionReader<'_>, text: &'a str) -> Result<OfAction, Fault<'a>> {
    let mut out = OfCt {
        commit: false,
        force: false,
        zone: CtZone::Number(ConnZone(0)),
        recirc_table: None,
        alg: 0,
        exec: Vec::new(),
    };
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "commit" => out.commit = true,
            "force" => out.force = true,
            "table" => {
                let table = parse_table(value, reader.names).ok_or_else(|| unknown_table(value))?;
                if table == TABLE_NONE {
                    return Err(problem(value, "invalid table"));
                }
                out.recirc_table = Some(table);
            }
            "zone" => out.zone = zone(value)?,
            "alg" => out.alg = alg(value)?,
            "nat" => out.exec.push(OfAction::Nat(nat(value)?)),
            "exec" => out.exec.extend(reader.list(value, Outer::Ct)?),
            _ => {
                let kind = ErrorKind::InvalidKey { key: key.to_owned(), action: "ct" };
                return Err(Fault::new(key, kind));
            }
        }
    }
    if out.force && !out.commit {
        return Err(Fault::new(text, ErrorKind::Usage("\"force\" flag requires \"commit\" flag.")));
    }
    Ok(OfAction::Ct(Box::new(out)))
}

fn zone(text: &str) -> Result<CtZone, Fault<'_>> {
    if let Ok(n) = u16_of(text, "zone") {
        return Ok(CtZone::Number(ConnZone(n)));
    }
    let sub = value::parse_subfield(text)?;
    // ovs-ofctl lets others pass, and the switch refuses them.
    if sub.n_bits != 16 {
        return Err(problem(text, "zone field must be 16 bits wide"));
    }
    Ok(CtZone::Field(sub))
}

fn alg(text: &str) -> Result<u16, Fault<'_>> {
    match text {
        "ftp" => Ok(ALG_FTP),
        "tftp" => Ok(ALG_TFTP),
        _ => {
            let (what, text_owned) = ("conntrack helper", text.to_owned());
            Err(Fault::new(text, ErrorKind::Invalid { what, text: text_owned }))
        }
    }
}

pub(super) fn nat(text: &str) -> Result<OfNat, Fault<'_>> {
    let mut out = OfNat::default();
    let (mut src, mut dst) = (false, false);
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "src" | "dst" => {
                src |= key == "src";
                dst |= key == "dst";
                (out.addr, out.port) = nat_range(value)?;
            }
            "persistent" => out.persistent = true,
            "hash" => out.hash = true,
            "random" => out.random = true,
            _ => {
                let kind = ErrorKind::InvalidKey { key: key.to_owned(), action: "nat" };
                return Err(Fault::new(key, kind));
            }
        }
    }
    let usage = |problem| Err(Fault::new(text, ErrorKind::Usage(problem)));
    out.kind = match (src, dst) {
        (true, true) => return usage("May only specify one of \"src\" or \"dst\"."),
        (true, false) => OfNatKind::Src,
        (false, true) => OfNatKind::Dst,
        (false, false) if out.persistent || out.hash || out.random => {
            return usage("Flags allowed only with \"src\" or \"dst\".");
        }
        (false, false) => OfNatKind::Existing,
    };
    if out.hash && out.random {
        return usage("Both \"hash\" and \"random\" are not allowed.");
    }
    Ok(out)
}

/// First and last of a range; the last only if it is named and differs.
type Range<T> = Option<(T, Option<T>)>;

/// Reads `addr[-addr][:port[-port]]`; IPv6 addresses may be in brackets.
fn nat_range(text: &str) -> Result<(Range<IpAddr>, Range<u16>), Fault<'_>> {
    let invalid = |at| problem(at, "invalid nat range");
    let Some((first, mut rest)) = leading_addr(text) else {
        return if text.is_empty() { Ok((None, None)) } else { Err(garbage(text, text)) };
    };
    let mut last = None;
    if let Some(tail) = rest.strip_prefix('-') {
        let (addr, tail) = leading_addr(tail).ok_or_else(|| invalid(tail))?;
        if addr.is_ipv4() != first.is_ipv4() || addr < first {
            return Err(invalid(rest));
        }
        last = Some(addr).filter(|a| *a != first);
        rest = tail;
    }
    let mut ports = None;
    if let Some(tail) = rest.strip_prefix(':') {
        let (low, tail) = leading_port(tail).ok_or_else(|| invalid(tail))?;
        rest = tail;
        let mut high = None;
        if let Some(tail) = rest.strip_prefix('-') {
            let (port, tail) =
                leading_port(tail).filter(|(port, _)| *port >= low).ok_or_else(|| invalid(rest))?;
            high = Some(port).filter(|p| *p != low);
            rest = tail;
        }
        // Port 0 stands for any port.
        ports = (low != 0).then_some((low, high));
    }
    if !rest.is_empty() {
        return Err(garbage(rest, text));
    }
    // The zero address stands for none, and without an address there are no ports.
    Ok(if first.is_unspecified() { (None, None) } else { (Some((first, last)), ports) })
}

fn garbage<'a>(rest: &'a str, text: &str) -> Fault<'a> {
    let at = text.len() - rest.len();
    Fault::new(rest, ErrorKind::NatGarbage { rest: rest.to_owned(), text: text.to_owned(), at })
}

fn leading_port(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Reads an address at the start of `text`.
fn leading_addr(text: &str) -> Option<(IpAddr, &str)> {
    let v4_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    if let Some(ip) = value::parse_ipv4(&text[..v4_end]) {
        return Some((ip.into(), &text[v4_end..]));
    }
    if let Some(inner) = text.strip_prefix('[') {
        let (addr, rest) = inner.split_once(']')?;
        return Some((addr.parse::<Ipv6Addr>().ok()?.into(), rest));
    }
    let end = text.find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.').unwrap_or(text.len());
    Some((text[..end].parse::<Ipv6Addr>().ok()?.into(), &text[end..]))
}
