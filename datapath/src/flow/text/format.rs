//! Attributes to text.
//!
//! Counterpart: `odp_flow_format`, `format_odp_key_attr__` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};

use super::attr::{Attr, CtTuple, IPV6_LABEL, Kind};
use super::put::{self, CT_STATE_FLAGS, Hex, HexBytes, Members, TCP_FLAGS};
use super::{PortNames, tunnel};
use crate::flow::{Nsh, VLAN_CFI};
use crate::types::PortNo;

/// Writes a port's name, or its number where it has none.
pub(crate) fn port(out: &mut dyn Write, no: PortNo, names: Option<&dyn PortNames>) -> fmt::Result {
    match names.and_then(|names| names.name(no)) {
        Some(name) => out.write_str(&name),
        None => write!(out, "{no}"),
    }
}

/// Writes a list of attributes. `mask` is none where there is no mask at all, as for a packet's key; an attribute that
/// a mask lacks is wildcarded. `verbose` writes wildcarded attributes and members too.
pub(crate) fn list(
    out: &mut dyn Write,
    key: &[Attr],
    mask: Option<&[Attr]>,
    names: Option<&dyn PortNames>,
    verbose: bool,
) -> fmt::Result {
    if key.is_empty() {
        return out.write_str("<empty>");
    }
    let find = |kind| mask.and_then(|mask| mask.iter().find(|attr| attr.kind() == kind));
    let masked = mask.is_some_and(|mask| !mask.is_empty());
    let mut first = true;
    let mut packet_type_shown = false;
    for attr in key {
        let attr_mask = find(attr.kind()).filter(|_| masked);
        let wildcard = masked && attr_mask.is_none_or(Attr::is_wildcard);
        let nested = matches!(attr.kind(), Kind::Tunnel | Kind::Encap | Kind::Nsh);
        // A datapath without packet_type tells Ethernet by `eth()`, which must then be seen even if all of it is
        // wildcarded.
        let bare_eth = attr.kind() == Kind::Ethernet && !packet_type_shown;
        if attr.kind() == Kind::PacketType {
            packet_type_shown = verbose || !wildcard;
        }
        if !verbose && wildcard && !nested && !bare_eth {
            continue;
        }
        if !first {
            out.write_char(',')?;
        }
        if !verbose && wildcard && !nested {
            // As in OVS there is no comma behind an `eth()` in first place; readers need none.
            out.write_str("eth()")?;
            continue;
        }
        first = false;
        if let (None, true) = (attr_mask, masked) {
            one(out, attr, Some(&wildcard_of(attr)), names, verbose)?;
        } else {
            one(out, attr, attr_mask, names, verbose)?;
        }
    }
    if !key.iter().any(|attr| attr.kind() == Kind::EthType)
        && let Some(Attr::EthType(mask)) = find(Kind::EthType)
    {
        // A frame without Ethernet type has none in its key either; only the mask says that this is matched.
        write!(out, ",eth_type(0/0x{mask:04x})")?;
    }
    Ok(())
}

/// The mask that wildcards all of an attribute.
fn wildcard_of(attr: &Attr) -> Attr {
    match attr {
        Attr::RecircId(_) => Attr::RecircId(0),
        Attr::DpHash(_) => Attr::DpHash(0),
        Attr::Priority(_) => Attr::Priority(0),
        Attr::Tunnel(_) => Attr::Tunnel(Vec::new()),
        Attr::InPort(_) => Attr::InPort(0),
        Attr::Mark(_) => Attr::Mark(0),
        Attr::CtState(_) => Attr::CtState(0),
        Attr::CtZone(_) => Attr::CtZone(0),
        Attr::CtMark(_) => Attr::CtMark(0),
        Attr::CtLabel(_) => Attr::CtLabel(0),
        Attr::CtTuple4(_) => Attr::CtTuple4(CtTuple { src: 0, dst: 0, proto: 0, tp_src: 0, tp_dst: 0 }),
        Attr::CtTuple6(_) => {
            Attr::CtTuple6(CtTuple { src: [0; 16], dst: [0; 16], proto: 0, tp_src: 0, tp_dst: 0 })
        }
        Attr::PacketType(_) => Attr::PacketType(0),
        Attr::Ethernet { .. } => Attr::Ethernet { src: Default::default(), dst: Default::default() },
        Attr::EthType(_) => Attr::EthType(0),
        Attr::Vlan(_) => Attr::Vlan(0),
        Attr::Encap(inner) => Attr::Encap(inner.iter().map(wildcard_of).collect()),
        Attr::Mpls(mpls) => Attr::Mpls(super::attr::Mpls { lse: [0; 3], len: mpls.len }),
        Attr::Ipv4(_) => Attr::Ipv4(Default::default()),
        Attr::Ipv6(_) => Attr::Ipv6(Default::default()),
        Attr::Arp(_) => Attr::Arp(Default::default()),
        Attr::Nsh(_) => Attr::Nsh(Nsh::default()),
        Attr::Tcp(_) => Attr::Tcp(Default::default()),
        Attr::TcpFlags(_) => Attr::TcpFlags(0),
        Attr::Udp(_) => Attr::Udp(Default::default()),
        Attr::Sctp(_) => Attr::Sctp(Default::default()),
        Attr::Icmp(_) => Attr::Icmp(Default::default()),
        Attr::Icmpv6(_) => Attr::Icmpv6(Default::default()),
        Attr::Nd(_) => Attr::Nd(Default::default()),
        Attr::NdExt { .. } => Attr::NdExt { reserved: 0, options_type: 0 },
    }
}

/// The value of a mask that is known to be of the same kind as its key.
macro_rules! of {
    ($mask:expr, $pattern:pat => $value:expr) => {
        match $mask {
            Some($pattern) => Some($value),
            _ => None,
        }
    };
}

/// Writes one attribute with its name and parentheses.
pub(crate) fn one(
    out: &mut dyn Write,
    key: &Attr,
    mask: Option<&Attr>,
    names: Option<&dyn PortNames>,
    verbose: bool,
) -> fmt::Result {
    write!(out, "{}(", key.kind().name())?;
    match key {
        Attr::RecircId(_)
        | Attr::DpHash(_)
        | Attr::Priority(_)
        | Attr::InPort(_)
        | Attr::Mark(_)
        | Attr::CtState(_)
        | Attr::CtZone(_)
        | Attr::CtMark(_)
        | Attr::CtLabel(_)
        | Attr::CtTuple4(_)
        | Attr::CtTuple6(_)
        | Attr::PacketType(_)
        | Attr::Tunnel(_) => metadata(out, key, mask, names, verbose)?,
        Attr::Ethernet { .. } | Attr::EthType(_) | Attr::Vlan(_) | Attr::Encap(_) | Attr::Mpls(_) => {
            link(out, key, mask, verbose)?;
        }
        Attr::Ipv4(_)
        | Attr::Ipv6(_)
        | Attr::Arp(_)
        | Attr::Nsh(_)
        | Attr::Tcp(_)
        | Attr::TcpFlags(_)
        | Attr::Udp(_)
        | Attr::Sctp(_)
        | Attr::Icmp(_)
        | Attr::Icmpv6(_)
        | Attr::Nd(_)
        | Attr::NdExt { .. } => network(out, key, mask, verbose)?,
    }
    out.write_char(')')
}

/// `key`, or `key/mask` where the mask is not exact.
fn hex_masked<T>(out: &mut dyn Write, key: T, mask: Option<T>) -> fmt::Result
where
    T: put::Bits + fmt::LowerHex + Default,
{
    write!(out, "{}", Hex(key))?;
    match mask {
        Some(mask) if mask != T::ALL => write!(out, "/{}", Hex(mask)),
        _ => Ok(()),
    }
}

fn metadata(
    out: &mut dyn Write,
    key: &Attr,
    mask: Option<&Attr>,
    names: Option<&dyn PortNames>,
    verbose: bool,
) -> fmt::Result {
    // OVS leaves conntrack fields empty where there is no mask and the form is not verbose.
    let shown = verbose || mask.is_some_and(|mask| !mask.is_wildcard());
    match key {
        Attr::RecircId(key) => hex_masked(out, *key, of!(mask, Attr::RecircId(m) => *m)),
        Attr::DpHash(key) => hex_masked(out, *key, of!(mask, Attr::DpHash(m) => *m)),
        Attr::Priority(key) => hex_masked(out, *key, of!(mask, Attr::Priority(m) => *m)),
        Attr::Mark(key) => hex_masked(out, *key, of!(mask, Attr::Mark(m) => *m)),
        Attr::InPort(key) => match of!(mask, Attr::InPort(m) => *m) {
            Some(mask) if mask != u32::MAX => write!(out, "{key}/{}", Hex(mask)),
            _ => port(out, PortNo(*key), names),
        },
        Attr::CtState(key) => match of!(mask, Attr::CtState(m) => *m) {
            mask if verbose => hex_masked(out, *key, mask),
            Some(mask) if mask != u32::MAX => put::flags_masked(out, CT_STATE_FLAGS, *key, mask, u32::MAX),
            _ => put::flags(out, CT_STATE_FLAGS, *key, '|'),
        },
        Attr::CtZone(key) if shown => hex_masked(out, *key, of!(mask, Attr::CtZone(m) => *m)),
        Attr::CtMark(key) if shown => hex_masked(out, *key, of!(mask, Attr::CtMark(m) => *m)),
        Attr::CtLabel(key) if shown => ct_label(out, *key, of!(mask, Attr::CtLabel(m) => *m)),
        Attr::CtTuple4(key) => {
            let mask = of!(mask, Attr::CtTuple4(m) => m);
            let mut members = Members::new(out, verbose);
            members.ipv4("src", key.src, mask.map(|m| m.src))?;
            members.ipv4("dst", key.dst, mask.map(|m| m.dst))?;
            tuple_rest(&mut members, key, mask, ["tp_src", "tp_dst"])
        }
        Attr::CtTuple6(key) => {
            let mask = of!(mask, Attr::CtTuple6(m) => m);
            let mut members = Members::new(out, verbose);
            members.ipv6("src", key.src, mask.map(|m| m.src))?;
            members.ipv6("dst", key.dst, mask.map(|m| m.dst))?;
            // Named as OVS prints them, although it parses the other names only; we parse both.
            tuple_rest(&mut members, key, mask, ["src_port", "dst_port"])
        }
        Attr::PacketType(key) => {
            let mask = of!(mask, Attr::PacketType(m) => *m).unwrap_or(u32::MAX);
            let mut members = Members::new(out, verbose);
            members.dec("ns", (key >> 16) as u16, Some((mask >> 16) as u16))?;
            members.hex("id", *key as u16, Some(mask as u16))
        }
        Attr::Tunnel(key) => tunnel::format(out, key, of!(mask, Attr::Tunnel(m) => m.as_slice()), verbose),
        _ => Ok(()),
    }
}

/// A connection label, with its mask where that is not exact.
pub(crate) fn ct_label(out: &mut dyn Write, key: u128, mask: Option<u128>) -> fmt::Result {
    write!(out, "{}", HexBytes(&key.to_be_bytes()))?;
    match mask {
        Some(mask) if mask != u128::MAX => write!(out, "/{}", HexBytes(&mask.to_be_bytes())),
        _ => Ok(()),
    }
}

fn tuple_rest<T>(
    members: &mut Members<'_>,
    key: &CtTuple<T>,
    mask: Option<&CtTuple<T>>,
    ports: [&str; 2],
) -> fmt::Result {
    members.dec("proto", key.proto, mask.map(|m| m.proto))?;
    members.dec(ports[0], key.tp_src, mask.map(|m| m.tp_src))?;
    members.dec(ports[1], key.tp_dst, mask.map(|m| m.tp_dst))
}

fn link(out: &mut dyn Write, key: &Attr, mask: Option<&Attr>, verbose: bool) -> fmt::Result {
    match key {
        Attr::Ethernet { src, dst } => {
            let mut members = Members::new(out, verbose);
            members.mac("src", *src, of!(mask, Attr::Ethernet { src, .. } => *src))?;
            members.mac("dst", *dst, of!(mask, Attr::Ethernet { dst, .. } => *dst))
        }
        Attr::EthType(key) => match of!(mask, Attr::EthType(m) => *m) {
            // What stands for "no Ethernet type" stays as it is; OVS turns it into the type 0x0000, which it refuses.
            Some(u16::MAX) if *key == 0 => out.write_str("0/0xffff"),
            Some(mask) if mask != u16::MAX => write!(out, "0x{key:04x}/0x{mask:04x}"),
            _ => write!(out, "0x{key:04x}"),
        },
        Attr::Vlan(key) => vlan_tci(out, *key, of!(mask, Attr::Vlan(m) => *m).unwrap_or(u16::MAX), verbose),
        Attr::Encap(key) if key.is_empty() => Ok(()),
        Attr::Encap(key) => {
            let mask = of!(mask, Attr::Encap(m) => m.as_slice()).filter(|mask| !mask.is_empty());
            list(out, key, mask, None, verbose)
        }
        Attr::Mpls(key) => match mask {
            Some(mask @ Attr::Mpls(entries)) if !mask.is_exact() => {
                mpls(out, key.entries(), Some(entries.entries()))
            }
            _ => mpls(out, key.entries(), None),
        },
        _ => Ok(()),
    }
}

/// The parts of a tag that are set or matched (OVS `format_vlan_tci`).
pub(crate) fn vlan_tci(out: &mut dyn Write, tci: u16, mask: u16, verbose: bool) -> fmt::Result {
    let (vid, vid_mask) = (tci & 0xfff, mask & 0xfff);
    let (pcp, pcp_mask) = (tci >> 13, mask >> 13);
    let mut members = Members::new(out, verbose);
    if verbose || vid != 0 || vid_mask != 0 {
        let out = members.next()?;
        write!(out, "vid={vid}")?;
        if vid_mask != 0xfff {
            write!(out, "/0x{vid_mask:x}")?;
        }
    }
    if verbose || pcp != 0 || pcp_mask != 0 {
        let out = members.next()?;
        write!(out, "pcp={pcp}")?;
        if pcp_mask != 7 {
            write!(out, "/0x{pcp_mask:x}")?;
        }
    }
    if tci & VLAN_CFI == 0 { write!(members.next()?, "cfi=0") } else { Ok(()) }
}

fn mpls(out: &mut dyn Write, key: &[u32], mask: Option<&[u32]>) -> fmt::Result {
    for (i, &lse) in key.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        match mask {
            None => mpls_lse(out, lse)?,
            Some(mask) => {
                let mask = mask.get(i).copied().unwrap_or(0);
                let [label, tc, ttl, bos] = mpls_fields(lse);
                let [label_mask, tc_mask, ttl_mask, bos_mask] = mpls_fields(mask);
                write!(
                    out,
                    "label={label}/0x{label_mask:x},tc={tc}/{tc_mask:x},ttl={ttl}/0x{ttl_mask:x},bos={bos}/{bos_mask:x}"
                )?;
            }
        }
    }
    Ok(())
}

/// Label, traffic class, TTL and bottom of stack (RFC 3032 section 2.1).
pub(crate) fn mpls_fields(lse: u32) -> [u32; 4] {
    [lse >> 12, lse >> 9 & 7, lse & 0xff, lse >> 8 & 1]
}

/// A label stack entry without mask.
pub(crate) fn mpls_lse(out: &mut dyn Write, lse: u32) -> fmt::Result {
    let [label, tc, ttl, bos] = mpls_fields(lse);
    write!(out, "label={label},tc={tc},ttl={ttl},bos={bos}")
}

fn network(out: &mut dyn Write, key: &Attr, mask: Option<&Attr>, verbose: bool) -> fmt::Result {
    if let Attr::Nsh(key) = key {
        return nsh(out, key, of!(mask, Attr::Nsh(m) => m));
    }
    if let Attr::TcpFlags(key) = key {
        return match of!(mask, Attr::TcpFlags(m) => *m & 0xfff) {
            Some(mask) if mask != 0xfff => {
                put::flags_masked(out, TCP_FLAGS, (*key).into(), mask.into(), 0xfff)
            }
            _ => put::flags(out, TCP_FLAGS, (*key).into(), '|'),
        };
    }
    let mut members = Members::new(out, verbose);
    match key {
        Attr::Ipv4(key) => {
            let mask = of!(mask, Attr::Ipv4(m) => m);
            members.ipv4("src", key.src, mask.map(|m| m.src))?;
            members.ipv4("dst", key.dst, mask.map(|m| m.dst))?;
            members.dec("proto", key.proto, mask.map(|m| m.proto))?;
            members.hex("tos", key.tos, mask.map(|m| m.tos))?;
            members.dec("ttl", key.ttl, mask.map(|m| m.ttl))?;
            frag(&mut members, key.frag, mask.map(|m| m.frag))
        }
        Attr::Ipv6(key) => {
            let mask = of!(mask, Attr::Ipv6(m) => m);
            // All 20 bits are all of the label.
            let label_mask =
                mask.map(|m| if m.label & IPV6_LABEL == IPV6_LABEL { u32::MAX } else { m.label });
            members.ipv6("src", key.src, mask.map(|m| m.src))?;
            members.ipv6("dst", key.dst, mask.map(|m| m.dst))?;
            members.hex("label", key.label, label_mask)?;
            members.dec("proto", key.proto, mask.map(|m| m.proto))?;
            members.hex("tclass", key.tclass, mask.map(|m| m.tclass))?;
            members.dec("hlimit", key.hlimit, mask.map(|m| m.hlimit))?;
            frag(&mut members, key.frag, mask.map(|m| m.frag))
        }
        Attr::Arp(key) => {
            let mask = of!(mask, Attr::Arp(m) => m);
            members.ipv4("sip", key.sip, mask.map(|m| m.sip))?;
            members.ipv4("tip", key.tip, mask.map(|m| m.tip))?;
            members.dec("op", key.op, mask.map(|m| m.op))?;
            members.mac("sha", key.sha, mask.map(|m| m.sha))?;
            members.mac("tha", key.tha, mask.map(|m| m.tha))
        }
        Attr::Tcp(key) | Attr::Udp(key) | Attr::Sctp(key) => {
            let mask = of!(mask, Attr::Tcp(m) | Attr::Udp(m) | Attr::Sctp(m) => m);
            members.dec("src", key.src, mask.map(|m| m.src))?;
            members.dec("dst", key.dst, mask.map(|m| m.dst))
        }
        Attr::Icmp(key) | Attr::Icmpv6(key) => {
            let mask = of!(mask, Attr::Icmp(m) | Attr::Icmpv6(m) => m);
            members.dec("type", key.kind, mask.map(|m| m.kind))?;
            members.dec("code", key.code, mask.map(|m| m.code))
        }
        Attr::Nd(key) => {
            let mask = of!(mask, Attr::Nd(m) => m);
            members.ipv6("target", key.target, mask.map(|m| m.target))?;
            members.mac("sll", key.sll, mask.map(|m| m.sll))?;
            members.mac("tll", key.tll, mask.map(|m| m.tll))
        }
        Attr::NdExt { reserved, options_type } => {
            // OVS never shows this mask.
            members.hex_prefixed("nd_reserved", *reserved)?;
            members.dec(
                "nd_options_type",
                *options_type,
                of!(mask, Attr::NdExt { options_type, .. } => *options_type),
            )
        }
        _ => Ok(()),
    }
}

/// Fragment types by number (OVS `enum ovs_frag_type`).
pub(crate) const FRAG_NAMES: [&str; 3] = ["no", "first", "later"];

/// `frag=no`: an enumeration, so its mask is all or nothing; never shown when wildcarded, even if verbose.
fn frag(members: &mut Members<'_>, key: u8, mask: Option<u8>) -> fmt::Result {
    match mask {
        Some(0) => Ok(()),
        Some(mask) if mask != u8::MAX => {
            write!(members.next()?, "error: partial mask not supported for frag ({})", Hex(mask))
        }
        _ => write!(members.next()?, "frag={}", FRAG_NAMES.get(usize::from(key)).unwrap_or(&"<error>")),
    }
}

/// `flags=.. ttl=.. mdtype=.. np=.. spi=.. si=..` and, for MD type 1, the context headers.
fn nsh(out: &mut dyn Write, key: &Nsh, mask: Option<&Nsh>) -> fmt::Result {
    let (spi, si) = (key.path_hdr.get() >> 8, key.path_hdr.get() as u8);
    let Some(mask) = mask else {
        write!(
            out,
            "flags={},ttl={},mdtype={},np={},spi=0x{spi:x},si={si}",
            key.flags, key.ttl, key.mdtype, key.np
        )?;
        if key.mdtype == super::NSH_MD_TYPE1 {
            for (i, context) in key.context.iter().enumerate() {
                write!(out, ",c{}=0x{:x}", i + 1, context.get())?;
            }
        }
        return Ok(());
    };
    let spi_mask = match mask.path_hdr.get() >> 8 {
        0xff_ffff => u32::MAX,
        partial => partial,
    };
    let mut members = Members::new(out, false);
    members.nsh_u8("flags", key.flags, mask.flags)?;
    members.nsh_u8("ttl", key.ttl, mask.ttl)?;
    members.nsh_u8("mdtype", key.mdtype, mask.mdtype)?;
    members.nsh_u8("np", key.np, mask.np)?;
    members.nsh_u32("spi", spi, spi_mask)?;
    members.nsh_u8("si", si, mask.path_hdr.get() as u8)?;
    for (i, name) in ["c1", "c2", "c3", "c4"].into_iter().enumerate() {
        members.nsh_u32(name, key.context[i].get(), mask.context[i].get())?;
    }
    Ok(())
}
