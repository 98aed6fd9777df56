//! The headers that `tnl_push` carries, from text to bytes.
//!
//! What the text does not say is as encapsulation makes it: lengths are zero, checksums of IPv4 are right.

use crate::action::vport;
use crate::flow::proto::{GRE_CSUM, GRE_KEY, GRE_SEQ};
use crate::flow::text::TextError;
use crate::flow::text::parse::Parser;
use crate::flow::text::parse_tunnel;
use crate::flow::text::scan::Cursor;

/// Segments that an SRv6 header can hold (OVS `SRV6_MAX_SEGS`).
const SRV6_MAX_SEGMENTS: usize = 6;

/// Reads `header(...)`: the tunnel type and the bytes.
pub(super) fn parse(p: &mut Parser<'_>) -> Result<(u32, Box<[u8]>), TextError> {
    let start = p.cur;
    p.cur.expect("header(size=")?;
    let size: u32 = p.cur.int()?;
    p.cur.expect(",type=")?;
    let tnl_type: u32 = p.cur.int()?;
    let mut bytes = Vec::new();
    let v6 = ethernet(&mut p.cur, &mut bytes)?;
    let network = if v6 { ipv6 } else { ipv4 };
    network(&mut p.cur, &mut bytes)?;
    let inner = p.cur;
    let found = if p.cur.eat("udp(") {
        udp(p, &mut bytes)?
    } else if p.cur.eat("gre((") {
        gre(&mut p.cur, &mut bytes)?;
        if v6 { vport::IP6GRE } else { vport::GRE }
    } else if p.cur.eat("erspan(") {
        erspan(&mut p.cur, &mut bytes)?;
        if v6 { vport::IP6ERSPAN } else { vport::ERSPAN }
    } else if v6 && p.cur.eat("srv6(") {
        srv6(&mut p.cur, &mut bytes)?;
        vport::SRV6
    } else {
        return Err(inner.expected("a tunnel header such as `udp(..),vxlan(..)` or `gre(..)`"));
    };
    p.cur.expect(")")?;
    if found != tnl_type {
        let message = format!("the tunnel type of this header is {found}, not {tnl_type}");
        return Err(Cursor::error_at(start.at(), message));
    }
    if size as usize != bytes.len() {
        let message = format!("the size of this header is {}, not {size}", bytes.len());
        return Err(Cursor::error_at(start.at(), message));
    }
    Ok((tnl_type, bytes.into()))
}

/// Reads the Ethernet header; says whether IPv6 follows.
fn ethernet(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<bool, TextError> {
    cur.expect(",eth(dst=")?;
    out.extend(cur.mac()?.0);
    cur.expect(",src=")?;
    out.extend(cur.mac()?.0);
    cur.expect(",dl_type=")?;
    let start = *cur;
    let dl_type: u16 = cur.int()?;
    cur.expect("),")?;
    if !matches!(dl_type, 0x0800 | 0x86dd) {
        return Err(start.expected("the type of IPv4, 0x0800, or IPv6, 0x86dd"));
    }
    out.extend(dl_type.to_be_bytes());
    Ok(dl_type == 0x86dd)
}

fn ipv4(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let mut header = [0; 20];
    header[0] = 0x45;
    cur.expect("ipv4(src=")?;
    header[12..16].copy_from_slice(&cur.ipv4()?.to_be_bytes());
    cur.expect(",dst=")?;
    header[16..20].copy_from_slice(&cur.ipv4()?.to_be_bytes());
    cur.expect(",proto=")?;
    header[9] = cur.int()?;
    cur.expect(",tos=")?;
    header[1] = cur.int()?;
    cur.expect(",ttl=")?;
    header[8] = cur.int()?;
    cur.expect(",frag=")?;
    header[6..8].copy_from_slice(&cur.int::<u16>()?.to_be_bytes());
    cur.expect("),")?;
    // RFC 791: the one's complement of the one's complement sum, the field itself being zero.
    let sum = header.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    out.extend(header);
    Ok(())
}

fn ipv6(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    cur.expect("ipv6(src=")?;
    let src = cur.ipv6()?;
    cur.expect(",dst=")?;
    let dst = cur.ipv6()?;
    cur.expect(",label=")?;
    let label = cur.number(20)? as u32;
    cur.expect(",proto=")?;
    let proto: u8 = cur.int()?;
    cur.expect(",tclass=")?;
    let tclass: u8 = cur.int()?;
    cur.expect(",hlimit=")?;
    let hlimit: u8 = cur.int()?;
    cur.expect("),")?;
    out.extend((6 << 28 | u32::from(tclass) << 20 | label).to_be_bytes());
    out.extend([0, 0, proto, hlimit]);
    out.extend(src);
    out.extend(dst);
    Ok(())
}

/// Reads the UDP header and what it carries; says which tunnel that is.
fn udp(p: &mut Parser<'_>, out: &mut Vec<u8>) -> Result<u32, TextError> {
    p.cur.expect("src=")?;
    out.extend(p.cur.int::<u16>()?.to_be_bytes());
    p.cur.expect(",dst=")?;
    out.extend(p.cur.int::<u16>()?.to_be_bytes());
    p.cur.expect(",csum=")?;
    out.extend([0, 0]);
    out.extend(p.cur.int::<u16>()?.to_be_bytes());
    p.cur.expect("),")?;
    let start = p.cur;
    let tnl_type = match p.cur.name() {
        "vxlan" => vport::VXLAN,
        "geneve" => vport::GENEVE,
        "gtpu" => vport::GTPU,
        _ => return Err(start.expected("`vxlan(..)`, `geneve(..)` or `gtpu(..)`")),
    };
    p.cur.expect("(")?;
    if tnl_type == vport::GENEVE {
        geneve(p, out)?;
    } else if tnl_type == vport::VXLAN {
        p.cur.expect("flags=")?;
        out.extend(p.cur.int::<u32>()?.to_be_bytes());
        p.cur.expect(",vni=")?;
        out.extend((p.cur.number(24)? as u32).wrapping_shl(8).to_be_bytes());
        p.cur.expect(")")?;
    } else {
        p.cur.expect("flags=")?;
        out.push(p.cur.int()?);
        p.cur.expect(",msgtype=")?;
        out.push(p.cur.int()?);
        out.extend([0, 0]);
        p.cur.expect(",teid=")?;
        out.extend(p.cur.int::<u32>()?.to_be_bytes());
        p.cur.expect(")")?;
    }
    Ok(tnl_type)
}

fn geneve(p: &mut Parser<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    let oam = if p.cur.eat("oam,") { 0x80 } else { 0 };
    let critical = if p.cur.eat("crit,") { 0x40 } else { 0 };
    p.cur.expect("vni=")?;
    let vni = p.cur.number(24)? as u32;
    let mut options = Vec::new();
    if p.cur.eat(",options(") {
        let with_masks = std::mem::replace(&mut p.masks, false);
        let read = parse_tunnel::options(p);
        p.masks = with_masks;
        options = read?.0;
    }
    p.cur.expect(")")?;
    // Options are a multiple of 4 bytes and no more than 252.
    out.extend([(options.len() / 4) as u8, oam | critical, 0x65, 0x58]);
    out.extend((vni << 8).to_be_bytes());
    out.extend(options);
    Ok(())
}

fn gre(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    cur.expect("flags=")?;
    let flags: u16 = cur.int()?;
    cur.expect(",proto=")?;
    out.extend(flags.to_be_bytes());
    out.extend(cur.int::<u16>()?.to_be_bytes());
    cur.expect(")")?;
    if flags & GRE_CSUM != 0 {
        cur.expect(",csum=")?;
        out.extend(cur.int::<u16>()?.to_be_bytes());
        out.extend([0, 0]);
    }
    for (bit, name) in [(GRE_KEY, ",key="), (GRE_SEQ, ",seq=")] {
        if flags & bit != 0 {
            cur.expect(name)?;
            out.extend(cur.int::<u32>()?.to_be_bytes());
        }
    }
    cur.expect(")")
}

fn erspan(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    cur.expect("ver=")?;
    let start = *cur;
    let version: u8 = cur.int()?;
    let protocol: u16 = match version {
        1 => 0x88be,
        2 => 0x22eb,
        _ => return Err(start.expected("version 1 or 2")),
    };
    cur.expect(",sid=")?;
    let session = cur.number(10)? as u16;
    out.extend(GRE_SEQ.to_be_bytes());
    out.extend(protocol.to_be_bytes());
    out.extend([0; 4]);
    out.extend([version << 4, 0]);
    out.extend(session.to_be_bytes());
    if version == 1 {
        cur.expect(",idx=")?;
        out.extend(cur.int::<u32>()?.to_be_bytes());
    } else {
        cur.expect(",dir=")?;
        let dir = cur.number(1)? as u16;
        cur.expect(",hwid=")?;
        let hwid = cur.number(6)? as u16;
        out.extend([0; 6]);
        out.extend((hwid << 4 | dir << 3).to_be_bytes());
    }
    cur.expect(")")
}

fn srv6(cur: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), TextError> {
    cur.expect("segments_left=")?;
    let start = *cur;
    let left: u8 = cur.int()?;
    cur.expect(",segs(")?;
    let mut segments = Vec::new();
    while !cur.eat(")") {
        segments.push(cur.ipv6()?);
        if !cur.eat(",") && !cur.sees(")") {
            return Err(cur.expected("`,` or `)`"));
        }
    }
    if segments.len() != usize::from(left) + 1 || segments.len() > SRV6_MAX_SEGMENTS {
        let message = format!("`segs` has one segment more than are left, at most {SRV6_MAX_SEGMENTS}");
        return Err(Cursor::error_at(start.at(), message));
    }
    // RFC 8754: next header, length, type 4, segments left, last entry, flags, tag.
    out.extend([0, 2 * (left + 1), 4, left, left, 0, 0, 0]);
    segments.into_iter().rev().for_each(|segment| out.extend(segment));
    cur.expect(")")
}
