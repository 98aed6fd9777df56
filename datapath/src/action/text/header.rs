//! The headers that `tnl_push` carries: `header(size=50,type=4,eth(..),ipv4(..),udp(..),vxlan(..))`.
//!
//! Counterpart: `format_odp_tnl_push_header`, `ovs_parse_tnl_push` of OVS `lib/odp-util.c`. OVS reads its own text of
//! ERSPAN and GTP-U headers wrongly or not at all; here all kinds are read back to the same bytes.

use std::fmt::{self, Write};
use std::net::Ipv4Addr;

use crate::action::vport;
use crate::flow::proto::{GRE_CSUM, GRE_KEY, GRE_SEQ};
use crate::flow::text::geneve;
use crate::flow::text::put::{Hex, Ip6};
use crate::types::MacAddr;

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}

fn be16(bytes: &[u8]) -> u16 {
    bytes.iter().take(2).fold(0, |word, &byte| word << 8 | u16::from(byte))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// Writes the header's description; where the bytes end early, a note, as OVS does.
pub(super) fn format(out: &mut dyn Write, tnl_type: u32, header: &[u8]) -> fmt::Result {
    let mut bytes = Reader(header);
    let size = header.len();
    let Some(eth) = bytes.take::<14>() else {
        return write!(out, "header(size={size},type={tnl_type}, eth(truncated header))");
    };
    let (dst, src, dl_type) = (mac(&eth[..6]), mac(&eth[6..12]), be16(&eth[12..]));
    write!(out, "header(size={size},type={tnl_type},eth(dst={dst},src={src},dl_type=0x{dl_type:04x}),")?;
    if dl_type == 0x0800 {
        let Some(ip) = bytes.take::<20>() else { return out.write_str("ipv4(truncated header))") };
        let (src, dst) = (Ipv4Addr::from(be32(&ip[12..])), Ipv4Addr::from(be32(&ip[16..])));
        let (proto, tos, ttl, frag) = (ip[9], Hex(ip[1]), ip[8], be16(&ip[6..]));
        write!(out, "ipv4(src={src},dst={dst},proto={proto},tos={tos},ttl={ttl},frag=0x{frag:x}),")?;
    } else {
        let Some(ip) = bytes.take::<40>() else { return out.write_str("ipv6(truncated header))") };
        let flow = be32(&ip);
        let addr = |at: usize| Ip6(ip[at..at + 16].try_into().unwrap_or_default());
        let (label, proto, tclass) = (flow & 0xf_ffff, ip[6], flow >> 20 & 0xff);
        write!(out, "ipv6(src={},dst={},label={label},proto={proto}", addr(8), addr(24))?;
        write!(out, ",tclass=0x{tclass:x},hlimit={}),", ip[7])?;
    }
    match tnl_type {
        vport::VXLAN | vport::GENEVE | vport::GTPU => format_udp(out, tnl_type, bytes),
        vport::SRV6 => format_srv6(out, bytes),
        vport::GRE | vport::IP6GRE => format_gre(out, bytes),
        vport::ERSPAN | vport::IP6ERSPAN => format_erspan(out, bytes),
        _ => out.write_char(')'),
    }
}

fn mac(bytes: &[u8]) -> MacAddr {
    MacAddr(bytes.try_into().unwrap_or_default())
}

fn format_udp(out: &mut dyn Write, tnl_type: u32, mut bytes: Reader<'_>) -> fmt::Result {
    let Some(udp) = bytes.take::<8>() else { return out.write_str("udp(truncated header))") };
    write!(out, "udp(src={},dst={},csum=0x{:x}),", be16(&udp), be16(&udp[2..]), be16(&udp[6..]))?;
    let name = match tnl_type {
        vport::VXLAN => "vxlan",
        vport::GENEVE => "geneve",
        _ => "gtpu",
    };
    let Some(header) = bytes.take::<8>() else { return write!(out, "{name}(truncated header))") };
    let vni = be32(&header[4..]) >> 8;
    match tnl_type {
        vport::VXLAN => write!(out, "vxlan(flags=0x{:x},vni=0x{vni:x}))", be32(&header)),
        vport::GENEVE => {
            out.write_str("geneve(")?;
            for (bit, word) in [(0x80, "oam,"), (0x40, "crit,")] {
                if header[1] & bit != 0 {
                    out.write_str(word)?;
                }
            }
            write!(out, "vni=0x{vni:x}")?;
            let len = usize::from(header[0] & 0x3f) * 4;
            if len > 0 {
                let Some(options) = bytes.0.get(..len) else {
                    return out.write_str(",options(invalid length)))");
                };
                out.write_str(",options(")?;
                geneve::format(out, options, None, false)?;
                out.write_char(')')?;
            }
            out.write_str("))")
        }
        _ => {
            let (flags, msgtype, teid) = (header[0], header[1], be32(&header[4..]));
            write!(out, "gtpu(flags=0x{flags:x},msgtype={msgtype},teid=0x{teid:x}))")
        }
    }
}

/// A routing header of type 4 (RFC 8754 section 2): segments are listed last first.
fn format_srv6(out: &mut dyn Write, mut bytes: Reader<'_>) -> fmt::Result {
    let Some(header) = bytes.take::<8>() else { return out.write_str("srv6(truncated header))") };
    write!(out, "srv6(segments_left={},segs(", header[3])?;
    let count = usize::from(header[4]) + 1;
    let Some(segments) = bytes.0.get(..16 * count) else { return out.write_str("truncated segs)))") };
    for (i, segment) in segments.chunks_exact(16).rev().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(out, "{comma}{}", Ip6(segment.try_into().unwrap_or_default()))?;
    }
    out.write_str(")))")
}

fn format_gre(out: &mut dyn Write, mut bytes: Reader<'_>) -> fmt::Result {
    let Some(header) = bytes.take::<4>() else { return out.write_str("gre(truncated header))") };
    let flags = be16(&header);
    write!(out, "gre((flags=0x{flags:x},proto=0x{:x})", be16(&header[2..]))?;
    for (bit, name) in [(GRE_CSUM, "csum"), (GRE_KEY, "key"), (GRE_SEQ, "seq")] {
        if flags & bit == 0 {
            continue;
        }
        let Some(word) = bytes.take::<4>() else { return write!(out, ",{name}=<truncated>))") };
        // The checksum is the first half of its word.
        let value = if bit == GRE_CSUM { be16(&word).into() } else { be32(&word) };
        write!(out, ",{name}=0x{value:x}")?;
    }
    out.write_str("))")
}

/// ERSPAN over GRE with a sequence number (draft-foschiano-erspan-03).
fn format_erspan(out: &mut dyn Write, mut bytes: Reader<'_>) -> fmt::Result {
    let (Some(_gre), Some(header)) = (bytes.take::<8>(), bytes.take::<4>()) else {
        return out.write_str("erspan(truncated header))");
    };
    let (version, session) = (header[0] >> 4, be16(&header[2..]) & 0x3ff);
    match version {
        1 => {
            let Some(index) = bytes.take::<4>() else {
                return out.write_str("erspan(ver=1,truncated header))");
            };
            write!(out, "erspan(ver=1,sid=0x{session:x},idx=0x{:x})", be32(&index))?;
        }
        2 => {
            let Some(meta) = bytes.take::<8>() else {
                return out.write_str("erspan(ver=2, truncated header))");
            };
            // Security group and flags are behind the timestamp: P, FT, hardware id (6 bits), direction, granularity, O.
            let word = be16(&meta[6..]);
            let (dir, hwid) = (word >> 3 & 1, word >> 4 & 0x3f);
            write!(out, "erspan(ver=2,sid=0x{session:x},dir={dir},hwid=0x{hwid:x})")?;
        }
        _ => {}
    }
    out.write_char(')')
}
