//! `set(...)`: one key attribute, with a mask where not all of it is set.

use std::fmt::{self, Write};

use crate::action::{Action, SetField, SetGroup};
use crate::flow::Flow;
use crate::flow::text::attr::{Attr, Kind};
use crate::flow::text::parse::Parser;
use crate::flow::text::scan::Cursor;
use crate::flow::text::{TextError, format as flow_format, from_flow, into_flow, tunnel};

/// The attribute that a group is.
fn kind(group: SetGroup) -> Kind {
    match group {
        SetGroup::Priority => Kind::Priority,
        SetGroup::Mark => Kind::Mark,
        SetGroup::Tunnel => Kind::Tunnel,
        SetGroup::Ethernet => Kind::Ethernet,
        SetGroup::Ipv4 => Kind::Ipv4,
        SetGroup::Ipv6 => Kind::Ipv6,
        SetGroup::Tcp => Kind::Tcp,
        SetGroup::Udp => Kind::Udp,
        SetGroup::Sctp => Kind::Sctp,
        SetGroup::Icmp => Kind::Icmp,
        SetGroup::Icmpv6 => Kind::Icmpv6,
        SetGroup::Arp => Kind::Arp,
        SetGroup::Nd => Kind::Nd,
        SetGroup::NdExt => Kind::NdExt,
        SetGroup::Mpls => Kind::Mpls,
        SetGroup::Nsh => Kind::Nsh,
        SetGroup::RecircId => Kind::RecircId,
        SetGroup::DpHash => Kind::DpHash,
        SetGroup::InPort => Kind::InPort,
        SetGroup::PacketType => Kind::PacketType,
        SetGroup::EthType => Kind::EthType,
        SetGroup::Vlan => Kind::Vlan,
        SetGroup::TcpFlags => Kind::TcpFlags,
        SetGroup::CtState => Kind::CtState,
        SetGroup::CtZone => Kind::CtZone,
        SetGroup::CtMark => Kind::CtMark,
        SetGroup::CtLabel => Kind::CtLabel,
        SetGroup::CtTuple4 => Kind::CtTuple4,
        SetGroup::CtTuple6 => Kind::CtTuple6,
    }
}

/// Writes the action. The mask of a tunnel does not count: it is set as a whole.
pub(super) fn format(out: &mut dyn Write, field: &SetField, masked: bool) -> fmt::Result {
    let kind = kind(field.group);
    let key = from_flow::one(kind, &field.key, &field.key, false);
    out.write_str("set(")?;
    if masked && kind != Kind::Tunnel {
        let mask = from_flow::one(kind, &field.key, &field.mask, true);
        flow_format::one(out, &key, Some(&mask), None, false)?;
    } else {
        flow_format::one(out, &key, None, None, true)?;
    }
    out.write_char(')')
}

/// The group that an attribute is; none for `encap`.
fn group(kind: Kind) -> Option<SetGroup> {
    Some(match kind {
        Kind::Priority => SetGroup::Priority,
        Kind::Mark => SetGroup::Mark,
        Kind::Tunnel => SetGroup::Tunnel,
        Kind::Ethernet => SetGroup::Ethernet,
        Kind::Ipv4 => SetGroup::Ipv4,
        Kind::Ipv6 => SetGroup::Ipv6,
        Kind::Tcp => SetGroup::Tcp,
        Kind::Udp => SetGroup::Udp,
        Kind::Sctp => SetGroup::Sctp,
        Kind::Icmp => SetGroup::Icmp,
        Kind::Icmpv6 => SetGroup::Icmpv6,
        Kind::Arp => SetGroup::Arp,
        Kind::Nd => SetGroup::Nd,
        Kind::NdExt => SetGroup::NdExt,
        Kind::Mpls => SetGroup::Mpls,
        Kind::Nsh => SetGroup::Nsh,
        Kind::RecircId => SetGroup::RecircId,
        Kind::DpHash => SetGroup::DpHash,
        Kind::InPort => SetGroup::InPort,
        Kind::PacketType => SetGroup::PacketType,
        Kind::EthType => SetGroup::EthType,
        Kind::Vlan => SetGroup::Vlan,
        Kind::TcpFlags => SetGroup::TcpFlags,
        Kind::CtState => SetGroup::CtState,
        Kind::CtZone => SetGroup::CtZone,
        Kind::CtMark => SetGroup::CtMark,
        Kind::CtLabel => SetGroup::CtLabel,
        Kind::CtTuple4 => SetGroup::CtTuple4,
        Kind::CtTuple6 => SetGroup::CtTuple6,
        Kind::Encap => return None,
    })
}

/// Reads what follows `set(`, with the closing parenthesis.
pub(super) fn parse(p: &mut Parser<'_>) -> Result<Action, TextError> {
    let start = p.cur;
    let (mut keys, mut masks) = (Vec::new(), Vec::new());
    // A tunnel is set as a whole; OVS takes masks there and then does not do what they say.
    let with_masks = std::mem::replace(&mut p.masks, !start.sees("tunnel("));
    let read = p.attr(&mut keys, &mut masks);
    p.masks = with_masks;
    read?;
    p.cur.expect(")")?;
    let (Some(key_attr), Some(mask_attr)) = (keys.pop(), masks.pop()) else {
        return Err(start.expected("a key attribute"));
    };
    let error = |message: &str| Err(Cursor::error_at(start.at(), message));
    let Some(group) = group(key_attr.kind()) else { return error("`encap` cannot be set") };
    let (mut key, mut mask) = (Flow::default(), Flow::default());
    let exact = match (&key_attr, &mask_attr) {
        (Attr::Tunnel(parts), _) => {
            if !tunnel::to_flow(parts, false, false, &mut key.tunnel) {
                return error("a tunnel needs `ttl=`");
            }
            mask.tunnel = Flow::all_ones().tunnel;
            true
        }
        (Attr::Arp(arp), _) if arp.op > 0xff => return error("an ARP opcode above 255 cannot be set"),
        (Attr::Mpls(mpls), _) if mpls.entries().len() > 1 => {
            return error("only the top label stack entry can be set");
        }
        (_, Attr::Nsh(nsh)) => *nsh == Flow::all_ones().nsh,
        (_, mask) => mask.is_exact(),
    };
    into_flow::put(&key_attr, false, &mut key);
    into_flow::put(&mask_attr, true, &mut mask);
    let field = Box::new(SetField { group, key, mask });
    Ok(if exact { Action::Set(field) } else { Action::SetMasked(field) })
}
