//! Actions to text.

use std::fmt::{self, Write};

use super::{ct, header, set, userspace};
use crate::action::{Action, HashAlg, PushNsh};
use crate::flow::text::format as flow_format;
use crate::flow::text::put::{Hex, HexBytes};
use crate::flow::text::{NSH_MD_TYPE1, NSH_MD_TYPE2, PortNames};

/// Writes a list of actions.
pub(super) fn list(out: &mut dyn Write, actions: &[Action], names: Option<&dyn PortNames>) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    for (i, action) in actions.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        one(out, action, names)?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, action: &Action, names: Option<&dyn PortNames>) -> fmt::Result {
    match action {
        Action::Output(port) => flow_format::port(out, *port, names),
        Action::Trunc(len) => write!(out, "trunc({len})"),
        Action::Userspace(userspace) => userspace::format(out, userspace, names),
        Action::Set(field) => set::format(out, field, false),
        Action::SetMasked(field) => set::format(out, field, true),
        Action::PushVlan { tpid, tci } => {
            out.write_str("push_vlan(")?;
            if *tpid != 0x8100 {
                write!(out, "tpid=0x{tpid:04x},")?;
            }
            flow_format::vlan_tci(out, *tci, u16::MAX, false)?;
            out.write_char(')')
        }
        Action::PopVlan => out.write_str("pop_vlan"),
        Action::PushMpls { ethertype, lse } => mpls(out, "push_mpls", *ethertype, *lse),
        Action::PopMpls(ethertype) => write!(out, "pop_mpls(eth_type=0x{ethertype:x})"),
        Action::Hash(HashAlg::L4(basis)) => write!(out, "hash(l4({basis}))"),
        Action::Hash(HashAlg::SymL4(basis)) => write!(out, "hash(sym_l4({basis}))"),
        Action::Recirc(id) => write!(out, "recirc({})", Hex(id.0)),
        Action::Clone(actions) => nested(out, "clone(", actions, names),
        Action::Sample { probability, actions } => {
            // Of 2^32 - 1, with one digit behind the point: coarser than what it prints.
            let percent = 100.0 * f64::from(*probability) / f64::from(u32::MAX);
            write!(out, "sample(sample={percent:.1}%,")?;
            nested(out, "actions(", actions, names)?;
            out.write_char(')')
        }
        Action::CheckPktLen { len, greater, not_greater } => {
            write!(out, "check_pkt_len(size={len},")?;
            nested(out, "gt(", greater, names)?;
            nested(out, ",le(", not_greater, names)?;
            out.write_char(')')
        }
        Action::Meter(id) => write!(out, "meter({id})"),
        Action::CtClear => out.write_str("ct_clear"),
        Action::Ct(ct) => ct::format(out, ct),
        Action::PushEth { dst, src } => write!(out, "push_eth(src={src},dst={dst})"),
        Action::PopEth => out.write_str("pop_eth"),
        Action::PushNsh(push) => push_nsh(out, push),
        Action::PopNsh => out.write_str("pop_nsh()"),
        Action::TnlPush(push) => {
            out.write_str("tnl_push(tnl_port(")?;
            flow_format::port(out, push.tnl_port, names)?;
            out.write_str("),")?;
            header::format(out, push.tnl_type, &push.header)?;
            out.write_str(",out_port(")?;
            flow_format::port(out, push.out_port, names)?;
            out.write_str("))")
        }
        Action::TnlPop(port) => {
            out.write_str("tnl_pop(")?;
            flow_format::port(out, *port, names)?;
            out.write_char(')')
        }
        Action::LbOutput(bond) => write!(out, "lb_output({bond})"),
        Action::Drop(_) => out.write_str("drop"),
        Action::AddMpls { ethertype, lse } => mpls(out, "add_mpls", *ethertype, *lse),
        Action::DecTtl(actions) => {
            out.write_str("dec_ttl(")?;
            nested(out, "le_1(", actions, names)?;
            out.write_char(')')
        }
        Action::Psample { group, cookie } => {
            write!(out, "psample(group={group}")?;
            if !cookie.is_empty() {
                write!(out, ",cookie={}", WireBytes(cookie))?;
            }
            out.write_char(')')
        }
    }
}

fn nested(out: &mut dyn Write, open: &str, actions: &[Action], names: Option<&dyn PortNames>) -> fmt::Result {
    out.write_str(open)?;
    list(out, actions, names)?;
    out.write_char(')')
}

fn mpls(out: &mut dyn Write, name: &str, ethertype: u16, lse: u32) -> fmt::Result {
    write!(out, "{name}(")?;
    flow_format::mpls_lse(out, lse)?;
    write!(out, ",eth_type=0x{ethertype:x})")
}

/// Bytes as one number, but with all of them if the first is zero: what OVS prints then means fewer bytes.
struct WireBytes<'a>(&'a [u8]);

impl fmt::Display for WireBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.first() != Some(&0) {
            return HexBytes(self.0).fmt(f);
        }
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn push_nsh(out: &mut dyn Write, push: &PushNsh) -> fmt::Result {
    let PushNsh { header, md2 } = push;
    let (spi, si) = (header.path_hdr.get() >> 8, header.path_hdr.get() as u8);
    write!(
        out,
        "push_nsh(flags={},ttl={},mdtype={},np={},spi=0x{spi:x},si={si}",
        header.flags, header.ttl, header.mdtype, header.np
    )?;
    match header.mdtype {
        NSH_MD_TYPE1 => {
            for (i, context) in header.context.iter().enumerate() {
                write!(out, ",c{}=0x{:x}", i + 1, context.get())?;
            }
        }
        NSH_MD_TYPE2 => write!(out, ",md2={}", WireBytes(md2))?,
        _ => out.write_str(",<error: unknown mdtype>")?,
    }
    out.write_char(')')
}
