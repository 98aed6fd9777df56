//! `ct(commit,zone=5,mark=0x1/0xff,nat(src=10.0.0.1-10.0.0.9:1-2,random))`.
//!
//! Counterpart: `format_odp_conntrack_action`, `parse_conntrack_action` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};
use std::net::IpAddr;

use crate::action::{Ct, Nat, NatKind};
use crate::flow::text::TextError;
use crate::flow::text::format::ct_label;
use crate::flow::text::parse::label;
use crate::flow::text::put::{Hex, Ip6, Members};
use crate::flow::text::scan::Cursor;

/// Writes the action; a plain `ct` if nothing is asked for.
pub(super) fn format(out: &mut dyn Write, ct: &Ct) -> fmt::Result {
    out.write_str("ct")?;
    if *ct == Ct::default() {
        return Ok(());
    }
    out.write_char('(')?;
    let mut members = Members::new(out, false);
    if ct.force {
        members.next()?.write_str("force_commit")?;
    } else if ct.commit {
        members.next()?.write_str("commit")?;
    }
    if ct.zone != 0 {
        write!(members.next()?, "zone={}", ct.zone)?;
    }
    if let Some((mark, mask)) = ct.mark {
        write!(members.next()?, "mark={}/{}", Hex(mark), Hex(mask))?;
    }
    if let Some((label, mask)) = ct.label {
        let out = members.next()?;
        out.write_str("label=")?;
        ct_label(out, label, Some(mask))?;
    }
    if let Some(helper) = &ct.helper {
        write!(members.next()?, "helper={helper}")?;
    }
    if let Some(timeout) = &ct.timeout {
        write!(members.next()?, "timeout={timeout}")?;
    }
    if let Some(nat) = &ct.nat {
        format_nat(members.next()?, nat)?;
    }
    out.write_char(')')
}

fn format_nat(out: &mut dyn Write, nat: &Nat) -> fmt::Result {
    out.write_str("nat")?;
    let kind = match nat.kind {
        NatKind::Existing => return Ok(()),
        NatKind::Src => "src",
        NatKind::Dst => "dst",
    };
    write!(out, "({kind}")?;
    if let Some((first, last)) = nat.addr {
        out.write_char('=')?;
        // IPv6 addresses are in brackets only where a port follows.
        let bracket = nat.port.is_some();
        format_addr(out, first, bracket)?;
        if last != first {
            out.write_char('-')?;
            format_addr(out, last, bracket)?;
        }
        if let Some((first, last)) = nat.port {
            write!(out, ":{first}")?;
            if last != first {
                write!(out, "-{last}")?;
            }
        }
    }
    for (on, word) in [(nat.persistent, "persistent"), (nat.hash, "hash"), (nat.random, "random")] {
        if on {
            write!(out, ",{word}")?;
        }
    }
    out.write_char(')')
}

fn format_addr(out: &mut dyn Write, addr: IpAddr, bracket: bool) -> fmt::Result {
    match addr {
        IpAddr::V4(addr) => write!(out, "{addr}"),
        IpAddr::V6(addr) if bracket => write!(out, "[{}]", Ip6(addr.octets())),
        IpAddr::V6(addr) => write!(out, "{}", Ip6(addr.octets())),
    }
}

/// Most bytes of a helper's name (OVS `CTNL_HELPER_NAME_LEN`).
const HELPER_MAX: usize = 15;
/// Most bytes of a timeout policy's name (OVS `CTNL_TIMEOUT_NAME_MAX`).
const TIMEOUT_MAX: usize = 31;

/// Reads what follows `ct`, or `ct(` if it is `open`.
pub(super) fn parse(cur: &mut Cursor<'_>, open: bool) -> Result<Ct, TextError> {
    let mut ct = Ct::default();
    if !open {
        return Ok(ct);
    }
    loop {
        cur.skip_delimiters();
        if cur.eat(")") {
            break;
        }
        let start = *cur;
        match cur.name() {
            "commit" => ct.commit = true,
            "force_commit" => ct.force = true,
            "zone" => {
                cur.expect("=")?;
                ct.zone = cur.int()?;
            }
            "mark" => {
                cur.expect("=")?;
                let mark = hex(cur)?;
                let mask = if cur.eat("/") { hex(cur)? } else { u32::MAX };
                ct.mark = (mask != 0).then_some((mark, mask));
            }
            "label" => {
                cur.expect("=")?;
                ct.label = Some(label(cur, true)?).filter(|(_, mask)| *mask != 0);
            }
            "helper" => ct.helper = Some(word(cur, HELPER_MAX)?),
            "timeout" => ct.timeout = Some(word(cur, TIMEOUT_MAX)?),
            "nat" => ct.nat = Some(parse_nat(cur)?),
            _ => return Err(start.expected("a member of `ct`, or `)`")),
        }
        if ct.commit && ct.force {
            return Err(Cursor::error_at(start.at(), "either `commit` or `force_commit`"));
        }
    }
    ct.commit |= ct.force;
    Ok(ct)
}

/// A mark is hexadecimal even without `0x`.
fn hex(cur: &mut Cursor<'_>) -> Result<u32, TextError> {
    let start = *cur;
    let _ = cur.eat("0x") || cur.eat("0X");
    let digits = cur.take_while(|c| c.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).map_err(|_| start.expected("32 bits in hexadecimal"))
}

fn word(cur: &mut Cursor<'_>, max: usize) -> Result<String, TextError> {
    cur.expect("=")?;
    let start = *cur;
    let word = cur.port_name();
    if word.is_empty() || word.len() > max {
        return Err(start.expected(&format!("a name of 1 to {max} characters")));
    }
    Ok(word.to_owned())
}

fn parse_nat(cur: &mut Cursor<'_>) -> Result<Nat, TextError> {
    let mut nat = Nat::default();
    let open = *cur;
    if !cur.eat("(") {
        return Ok(nat);
    }
    loop {
        cur.skip_delimiters();
        if cur.eat(")") {
            break;
        }
        let start = *cur;
        let kind = match cur.name() {
            "src" => NatKind::Src,
            "dst" => NatKind::Dst,
            word @ ("persistent" | "hash" | "random") => {
                nat.persistent |= word == "persistent";
                nat.hash |= word == "hash";
                nat.random |= word == "random";
                continue;
            }
            _ => return Err(start.expected("a member of `nat`, or `)`")),
        };
        if nat.kind != NatKind::Existing {
            return Err(Cursor::error_at(start.at(), "either `src` or `dst`, once"));
        }
        nat.kind = kind;
        if cur.eat("=") {
            parse_range(cur, &mut nat)?;
        }
    }
    if nat.hash && nat.random {
        return Err(Cursor::error_at(open.at(), "either `hash` or `random`"));
    }
    if nat.kind == NatKind::Existing && (nat.persistent || nat.hash || nat.random) {
        // OVS forgets the others then.
        return Err(Cursor::error_at(open.at(), "`persistent`, `hash` and `random` need `src` or `dst`"));
    }
    Ok(nat)
}

fn parse_range(cur: &mut Cursor<'_>, nat: &mut Nat) -> Result<(), TextError> {
    let start = cur.at();
    let first = addr(cur)?;
    let mut last = if cur.eat("-") { addr(cur)? } else { first };
    // An all-zero end is none.
    if last.is_unspecified() {
        last = first;
    }
    if first.is_ipv4() != last.is_ipv4() || last < first {
        return Err(Cursor::error_at(start, "the range's last address is before its first"));
    }
    nat.addr = Some((first, last));
    let start = cur.at();
    if cur.eat(":") {
        let first: u16 = cur.int()?;
        let last = if cur.eat("-") { cur.int()? } else { first };
        if last < first {
            return Err(Cursor::error_at(start, "the range's last port is before its first"));
        }
        // Port 0 is none.
        nat.port = (first != 0).then_some((first, last));
    }
    Ok(())
}

fn addr(cur: &mut Cursor<'_>) -> Result<IpAddr, TextError> {
    let mut ahead = *cur;
    if ahead.take_while(|c| c.is_ascii_digit() || c == '.').contains('.') {
        return cur.ipv4().map(|ip| IpAddr::V4(ip.into()));
    }
    let bracket = cur.eat("[");
    let start = *cur;
    let ip = cur.ipv6().map_err(|_| start.expected("an IP address"))?;
    if bracket {
        cur.expect("]")?;
    }
    Ok(IpAddr::V6(ip.into()))
}
