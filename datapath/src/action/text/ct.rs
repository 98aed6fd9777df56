//! `ct(commit,zone=5,mark=0x1/0xff,nat(src=10.0.0.1-10.0.0.9:1-2,random))`.
//!
//! Counterpart: `format_odp_conntrack_action`, `parse_conntrack_action` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};
use std::net::IpAddr;

use crate::action::{Ct, Nat, NatKind};
use crate::flow::text::format::ct_label;
use crate::flow::text::put::{Hex, Ip6, Members};

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
