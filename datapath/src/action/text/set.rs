//! `set(...)`: one key attribute, with a mask where not all of it is set.

use std::fmt::{self, Write};

use crate::action::{SetField, SetGroup};
use crate::flow::text::attr::{Attr, Kind};
use crate::flow::text::{format as flow_format, from_flow};

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
        let mut mask = from_flow::one(kind, &field.key, &field.mask, true);
        if let Attr::CtState(bits @ 0xff) = &mut mask {
            // All of the 8 bits that a key has are all of the 32 that text has.
            *bits |= u32::MAX;
        }
        flow_format::one(out, &key, Some(&mask), None, false)?;
    } else {
        flow_format::one(out, &key, None, None, true)?;
    }
    out.write_char(')')
}
