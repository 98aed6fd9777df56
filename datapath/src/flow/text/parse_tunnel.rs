//! `tunnel(...)`, and GENEVE options, from text.

use super::geneve;
use super::parse::Parser;
use super::put::TUNNEL_FLAGS;
use super::scan::{Cursor, Masked, TextError};
use super::tunnel::TunnelAttr;
use crate::flow::{TNL_F_CSUM, TNL_F_DONT_FRAGMENT, TNL_F_KEY, TNL_F_MASK, TNL_F_OAM};

/// Reads what follows `tunnel(`, with the closing parenthesis.
pub(super) fn inside(p: &mut Parser<'_>) -> Result<Masked<Vec<TunnelAttr>>, TextError> {
    let (mut key, mut mask) = (Vec::new(), Vec::new());
    let mut seen: Vec<&str> = Vec::new();
    while !p.cur.eat(")") {
        let start = p.cur;
        let name = p.cur.name();
        if seen.contains(&name) {
            return Err(Cursor::error_at(start.at(), format!("`{name}` is there twice")));
        }
        seen.push(name);
        let opened = matches!(name, "erspan" | "vxlan" | "geneve" | "gtpu" | "flags");
        if !p.cur.eat(if opened { "(" } else { "=" }) {
            return Err(start.expected("a member of `tunnel`, or `)`"));
        }
        let mut put = |(attr, attr_mask)| {
            key.push(attr);
            mask.push(attr_mask);
        };
        match name {
            "tun_id" => put(both(p.int()?, TunnelAttr::Id)),
            "src" => put(both(p.ipv4()?, TunnelAttr::Ipv4Src)),
            "dst" => put(both(p.ipv4()?, TunnelAttr::Ipv4Dst)),
            "ipv6_src" => put(both(p.ipv6()?, TunnelAttr::Ipv6Src)),
            "ipv6_dst" => put(both(p.ipv6()?, TunnelAttr::Ipv6Dst)),
            "tos" => put(both(p.int()?, TunnelAttr::Tos)),
            "ttl" => put(both(p.int()?, TunnelAttr::Ttl)),
            "tp_src" => put(both(p.int()?, TunnelAttr::TpSrc)),
            "tp_dst" => put(both(p.int()?, TunnelAttr::TpDst)),
            "erspan" => put(erspan(p)?),
            "gtpu" => put(gtpu(p)?),
            "vxlan" => {
                let (gbp, gbp_mask) = vxlan(p)?;
                key.extend(gbp);
                mask.extend(gbp_mask);
            }
            "geneve" => put(both(options(p)?, TunnelAttr::Geneve)),
            "flags" => {
                let (flags, flags_mask) = p.cur.flags(TUNNEL_FLAGS, TNL_F_MASK.into(), p.masks)?;
                p.cur.expect(")")?;
                // A list without it does not speak of the key flag, which `tun_id` stands for.
                let silent = flags_mask == u32::MAX && flags as u16 & TNL_F_KEY == 0;
                let flags_mask = flags_mask as u16 & if silent { !TNL_F_KEY } else { TNL_F_MASK };
                key.extend(flag_attrs(flags as u16));
                mask.extend(flag_attrs(flags_mask));
            }
            _ => return Err(start.expected("a member of `tunnel`")),
        }
        if !p.cur.eat(",") && !p.cur.sees(")") {
            return Err(p.cur.expected("`,` or `)`"));
        }
    }
    Ok((key, mask))
}

fn both<T>((key, mask): Masked<T>, make: impl Fn(T) -> TunnelAttr) -> Masked<TunnelAttr> {
    (make(key), make(mask))
}

fn flag_attrs(flags: u16) -> impl Iterator<Item = TunnelAttr> {
    let attrs = [
        (TNL_F_DONT_FRAGMENT, TunnelAttr::DontFragment),
        (TNL_F_CSUM, TunnelAttr::Csum),
        (TNL_F_OAM, TunnelAttr::Oam),
        (TNL_F_KEY, TunnelAttr::Key),
    ];
    attrs.into_iter().filter(move |(bit, _)| flags & bit != 0).map(|(_, attr)| attr)
}

fn erspan(p: &mut Parser<'_>) -> Result<Masked<TunnelAttr>, TextError> {
    let start = p.cur.at();
    // A version that is wildcarded is not printed, nor is anything else then of version 2.
    let mut ver: Masked<u8> = (if p.cur.sees(")") { 2 } else { 0 }, 0);
    let mut idx = Masked::<u32>::default();
    let (mut dir, mut hwid) = (Masked::<u8>::default(), Masked::<u8>::default());
    p.members("erspan", |p, name| {
        match (name, ver.0) {
            ("ver", _) => ver = p.int()?,
            ("idx", 0 | 1) => {
                ver.0 = 1;
                idx = p.int()?;
            }
            ("dir", 2) => {
                dir = narrow(p, 1)?;
                dir.1 = if dir.1 & 1 != 0 { u8::MAX } else { 0 };
            }
            ("hwid", 2) => {
                hwid = narrow(p, 6)?;
                // Two bits that are not shown, and two that are not there.
                hwid.1 |= if hwid.1 == 0 { 0 } else { 0xf0 };
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !matches!(ver.0, 1 | 2) {
        return Err(Cursor::error_at(start, "ERSPAN has version 1 or 2: `erspan(ver=1,idx=..)`"));
    }
    let erspan = |ver, idx, dir, hwid| TunnelAttr::Erspan { ver, idx, dir, hwid };
    Ok((erspan(ver.0, idx.0, dir.0, hwid.0), erspan(ver.1, idx.1, dir.1, hwid.1)))
}

/// A number of fewer than 8 bits, with a mask.
fn narrow(p: &mut Parser<'_>, bits: u32) -> Result<Masked<u8>, TextError> {
    p.cur.masked(p.masks, |cur| cur.number(bits).map(|value| value as u8))
}

fn gtpu(p: &mut Parser<'_>) -> Result<Masked<TunnelAttr>, TextError> {
    let (mut flags, mut msgtype) = (Masked::<u8>::default(), Masked::<u8>::default());
    p.members("gtpu", |p, name| {
        match name {
            "flags" => flags = p.int()?,
            "msgtype" => msgtype = p.int()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let gtpu = |flags, msgtype| TunnelAttr::Gtpu { flags, msgtype };
    Ok((gtpu(flags.0, msgtype.0), gtpu(flags.1, msgtype.1)))
}

/// A group policy of zero is none; but one without members is one that is wildcarded.
fn vxlan(p: &mut Parser<'_>) -> Result<Masked<Option<TunnelAttr>>, TextError> {
    p.cur.expect("gbp(")?;
    let wildcard = p.cur.sees(")");
    let (mut id, mut flags) = (Masked::<u16>::default(), Masked::<u8>::default());
    p.members("gbp", |p, name| {
        match name {
            "id" => id = p.int()?,
            "flags" => flags = p.int()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    p.cur.expect(")")?;
    let gbp = |id, flags| (wildcard || id != 0 || flags != 0).then_some(TunnelAttr::Vxlan { id, flags });
    Ok((gbp(id.0, flags.0), gbp(id.1, flags.1)))
}

/// Reads options up to and with the closing parenthesis: wire bytes, and a mask of the same length.
pub(crate) fn options(p: &mut Parser<'_>) -> Result<Masked<Vec<u8>>, TextError> {
    let (mut key, mut mask) = (Vec::new(), Vec::new());
    while !p.cur.eat(")") {
        let start = p.cur;
        p.cur.expect("{")?;
        option(p, &mut key, &mut mask)?;
        if key.len() > geneve::MAX_LEN {
            let message = format!("GENEVE options have no more than {} bytes", geneve::MAX_LEN);
            return Err(Cursor::error_at(start.at(), message));
        }
    }
    Ok((key, mask))
}

fn option(p: &mut Parser<'_>, key: &mut Vec<u8>, mask: &mut Vec<u8>) -> Result<(), TextError> {
    let (mut class, mut kind) = (Masked::<u16>::default(), Masked::<u8>::default());
    let mut len = Masked::<u8>::default();
    if p.cur.eat("class=") {
        class = p.int()?;
        p.cur.eat(",");
    }
    if p.cur.eat("type=") {
        kind = p.int()?;
        p.cur.eat(",");
    }
    let start = p.cur.at();
    let mut comma = false;
    if p.cur.eat("len=") {
        len = p.int()?;
        comma = p.cur.eat(",");
    }
    if len.0 > 124 || len.0 % 4 != 0 {
        return Err(Cursor::error_at(start, "the length of an option is a multiple of 4, at most 124"));
    }
    let mut data = vec![0; len.0.into()];
    // A body that is wildcarded is not printed (OVS reads that back as an exact match of zero).
    let mut data_mask = vec![0; len.0.into()];
    if comma {
        p.cur.big(&mut data)?;
        data_mask.fill(0xff);
        if p.cur.sees("/") {
            if !p.masks {
                return Err(Cursor::error_at(p.cur.at(), "no mask is allowed here"));
            }
            p.cur.eat("/");
            p.cur.big(&mut data_mask)?;
        }
    }
    p.cur.expect("}")?;
    key.extend(class.0.to_be_bytes());
    key.extend([kind.0, len.0 / 4]);
    key.extend(data);
    mask.extend(class.1.to_be_bytes());
    mask.extend([kind.1, len.1 & 0x1f]);
    mask.extend(data_mask);
    Ok(())
}
