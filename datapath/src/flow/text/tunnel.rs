//! `tunnel(...)`: outer headers with GENEVE, VXLAN, ERSPAN and GTP-U metadata.
//!
//! Counterpart: `OVS_TUNNEL_KEY_ATTR_*`, `format_odp_tun_attr`, `tun_key_to_attr`, `odp_tun_key_from_attr__` of OVS
//! `lib/odp-util.c`.

use std::fmt::{self, Write};
use std::mem::discriminant;

use super::geneve;
use super::put::{self, Bits, Members, TUNNEL_FLAGS};
use crate::flow::{TNL_F_CSUM, TNL_F_DONT_FRAGMENT, TNL_F_KEY, TNL_F_MASK, TNL_F_OAM, TNL_F_UDPIF, Tunnel};

/// One part of a `tunnel(...)`; flags are there or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TunnelAttr {
    Id(u64),
    Ipv4Src(u32),
    Ipv4Dst(u32),
    Ipv6Src([u8; 16]),
    Ipv6Dst([u8; 16]),
    Tos(u8),
    Ttl(u8),
    DontFragment,
    Csum,
    TpSrc(u16),
    TpDst(u16),
    Oam,
    Vxlan {
        id: u16,
        flags: u8,
    },
    Geneve(Vec<u8>),
    Erspan {
        ver: u8,
        idx: u32,
        dir: u8,
        hwid: u8,
    },
    Gtpu {
        flags: u8,
        msgtype: u8,
    },
    /// `flags(key)`: says what [`Self::Id`] says already, except in a dump, which leaves out an id that is wildcarded.
    /// OVS forgets it always.
    Key,
}

impl TunnelAttr {
    /// The same part, as a mask that wildcards all of it.
    fn wildcard(&self) -> Self {
        match self {
            Self::Id(_) => Self::Id(0),
            Self::Ipv4Src(_) => Self::Ipv4Src(0),
            Self::Ipv4Dst(_) => Self::Ipv4Dst(0),
            Self::Ipv6Src(_) => Self::Ipv6Src([0; 16]),
            Self::Ipv6Dst(_) => Self::Ipv6Dst([0; 16]),
            Self::Tos(_) => Self::Tos(0),
            Self::Ttl(_) => Self::Ttl(0),
            Self::DontFragment => Self::DontFragment,
            Self::Csum => Self::Csum,
            Self::TpSrc(_) => Self::TpSrc(0),
            Self::TpDst(_) => Self::TpDst(0),
            Self::Oam => Self::Oam,
            Self::Vxlan { .. } => Self::Vxlan { id: 0, flags: 0 },
            Self::Geneve(options) => Self::Geneve(vec![0; options.len()]),
            Self::Erspan { .. } => Self::Erspan { ver: 0, idx: 0, dir: 0, hwid: 0 },
            Self::Gtpu { .. } => Self::Gtpu { flags: 0, msgtype: 0 },
            Self::Key => Self::Key,
        }
    }

    /// The flag that this part stands for.
    fn flag(&self) -> u16 {
        match self {
            Self::DontFragment => TNL_F_DONT_FRAGMENT,
            Self::Csum => TNL_F_CSUM,
            Self::Oam => TNL_F_OAM,
            Self::Id(_) => TNL_F_KEY,
            Self::Ipv4Src(_)
            | Self::Ipv4Dst(_)
            | Self::Ipv6Src(_)
            | Self::Ipv6Dst(_)
            | Self::Tos(_)
            | Self::Ttl(_)
            | Self::TpSrc(_)
            | Self::TpDst(_)
            | Self::Vxlan { .. }
            | Self::Geneve(_)
            | Self::Erspan { .. }
            | Self::Gtpu { .. }
            | Self::Key => 0,
        }
    }
}

/// Writes what stands inside the parentheses. `mask` is none where the key is printed without one.
pub(crate) fn format(
    out: &mut dyn Write,
    key: &[TunnelAttr],
    mask: Option<&[TunnelAttr]>,
    verbose: bool,
) -> fmt::Result {
    let mut members = Members::new(out, verbose);
    let mut flags = 0;
    // A flag may be matched although it is not set, so those that are matched come from the mask's own list; the key
    // flag has no part of its own and is matched where there is an id.
    let mut flags_mask = mask.map(|mask| {
        mask.iter().fold(0, |flags, attr| match attr {
            TunnelAttr::Id(_) => flags,
            TunnelAttr::Key => flags | TNL_F_KEY,
            attr => flags | attr.flag(),
        })
    });
    for attr in key {
        flags |= attr.flag();
        if let (TunnelAttr::Id(_), Some(flags_mask)) = (attr, &mut flags_mask) {
            *flags_mask |= TNL_F_KEY;
        }
        if *attr == TunnelAttr::Key {
            flags |= TNL_F_KEY;
        }
        let attr_mask = mask.map(|mask| {
            mask.iter()
                .find(|m| discriminant(*m) == discriminant(attr))
                .cloned()
                .unwrap_or_else(|| attr.wildcard())
        });
        format_part(&mut members, attr, attr_mask.as_ref())?;
    }
    if !verbose && flags_mask == Some(0) {
        return Ok(());
    }
    let out = members.next()?;
    out.write_str("flags(")?;
    match flags_mask {
        Some(mask) => {
            put::flags_masked(
                out,
                TUNNEL_FLAGS,
                flags.into(),
                (mask & TNL_F_MASK).into(),
                TNL_F_MASK.into(),
            )?;
        }
        None => put::flags(out, TUNNEL_FLAGS, flags.into(), '|')?,
    }
    out.write_char(')')
}

/// The mask's part of the same kind as the key's; the caller pairs them so.
macro_rules! of {
    ($mask:expr, $pattern:pat => $value:expr) => {
        match $mask {
            Some($pattern) => Some($value),
            _ => None,
        }
    };
}

fn format_part(members: &mut Members<'_>, key: &TunnelAttr, mask: Option<&TunnelAttr>) -> fmt::Result {
    use TunnelAttr as T;
    match key {
        T::Id(key) => members.tun_id("tun_id", *key, of!(mask, T::Id(m) => *m)),
        T::Ipv4Src(key) => members.ipv4("src", *key, of!(mask, T::Ipv4Src(m) => *m)),
        T::Ipv4Dst(key) => members.ipv4("dst", *key, of!(mask, T::Ipv4Dst(m) => *m)),
        T::Ipv6Src(key) => members.ipv6("ipv6_src", *key, of!(mask, T::Ipv6Src(m) => *m)),
        T::Ipv6Dst(key) => members.ipv6("ipv6_dst", *key, of!(mask, T::Ipv6Dst(m) => *m)),
        T::Tos(key) => members.hex("tos", *key, of!(mask, T::Tos(m) => *m)),
        T::Ttl(key) => members.dec("ttl", *key, of!(mask, T::Ttl(m) => *m)),
        T::DontFragment | T::Csum | T::Oam | T::Key => Ok(()),
        T::TpSrc(key) => members.dec("tp_src", *key, of!(mask, T::TpSrc(m) => *m)),
        T::TpDst(key) => members.dec("tp_dst", *key, of!(mask, T::TpDst(m) => *m)),
        T::Vxlan { id, flags } => {
            let verbose = members.verbose();
            let out = members.next()?;
            out.write_str("vxlan(gbp(")?;
            let mut inner = Members::new(out, verbose);
            inner.dec("id", *id, of!(mask, T::Vxlan { id, .. } => *id))?;
            inner.hex("flags", *flags, of!(mask, T::Vxlan { flags, .. } => *flags))?;
            out.write_str("))")
        }
        T::Geneve(options) => {
            let verbose = members.verbose();
            let out = members.next()?;
            out.write_str("geneve(")?;
            geneve::format(out, options, of!(mask, T::Geneve(m) => m.as_slice()), verbose)?;
            out.write_char(')')
        }
        T::Erspan { .. } => format_erspan(members, key, mask),
        T::Gtpu { flags, msgtype } => {
            let verbose = members.verbose();
            let out = members.next()?;
            out.write_str("gtpu(")?;
            let mut inner = Members::new(out, verbose);
            inner.hex("flags", *flags, of!(mask, T::Gtpu { flags, .. } => *flags))?;
            inner.dec("msgtype", *msgtype, of!(mask, T::Gtpu { msgtype, .. } => *msgtype))?;
            out.write_char(')')
        }
    }
}

fn format_erspan(members: &mut Members<'_>, key: &TunnelAttr, mask: Option<&TunnelAttr>) -> fmt::Result {
    let TunnelAttr::Erspan { ver, idx, dir, hwid } = key else { return Ok(()) };
    let verbose = members.verbose();
    let out = members.next()?;
    out.write_str("erspan(")?;
    let mut inner = Members::new(out, verbose);
    inner.dec("ver", *ver, of!(mask, TunnelAttr::Erspan { ver, .. } => *ver))?;
    match ver {
        1 => {
            // The index shows its mask always, even an exact one.
            write!(inner.next()?, "idx={}", put::Hex(*idx))?;
            if let Some(TunnelAttr::Erspan { idx, .. }) = mask {
                write!(out, "/{}", put::Hex(*idx))?;
            }
        }
        2 => {
            // The fields have 1 bit and 6, of which OVS shows 4: their exact masks are shown, as 0x1 and 0xf.
            let dir_mask = of!(mask, TunnelAttr::Erspan { dir, .. } => *dir & 1);
            let bits = if *hwid > 0xf { 0x3f } else { 0xf };
            let hwid_mask = of!(mask, TunnelAttr::Erspan { hwid, .. } => *hwid & bits);
            inner.dec("dir", *dir, dir_mask)?;
            inner.hex("hwid", *hwid, hwid_mask)?;
        }
        _ => {}
    }
    out.write_char(')')
}

/// The parts of `data`: a key, or, with `export_mask`, the mask that goes with `key` (OVS `tun_key_to_attr`).
pub(crate) fn from_flow(data: &Tunnel, key: &Tunnel, export_mask: bool) -> Vec<TunnelAttr> {
    use TunnelAttr as T;
    fn set<V: Bits>(attrs: &mut Vec<T>, value: V, make: impl Fn(V) -> T) {
        if value != V::NONE {
            attrs.push(make(value));
        }
    }
    let mut attrs = Vec::new();
    // An id without the flag is valid in a mask.
    if data.tun_id.get() != 0 || data.flags & TNL_F_KEY != 0 {
        attrs.push(T::Id(data.tun_id.get()));
    }
    set(&mut attrs, data.ip_src.get(), T::Ipv4Src);
    set(&mut attrs, data.ip_dst.get(), T::Ipv4Dst);
    set(&mut attrs, data.ipv6_src, T::Ipv6Src);
    set(&mut attrs, data.ipv6_dst, T::Ipv6Dst);
    set(&mut attrs, data.ip_tos, T::Tos);
    attrs.push(T::Ttl(data.ip_ttl));
    let flag = |bit, attr| (data.flags & bit != 0).then_some(attr);
    attrs.extend(flag(TNL_F_DONT_FRAGMENT, T::DontFragment));
    attrs.extend(flag(TNL_F_CSUM, T::Csum));
    set(&mut attrs, data.tp_src.get(), T::TpSrc);
    set(&mut attrs, data.tp_dst.get(), T::TpDst);
    attrs.extend(flag(TNL_F_OAM, T::Oam));
    if data.gbp_flags != 0 || data.gbp_id.get() != 0 {
        attrs.push(T::Vxlan { id: data.gbp_id.get(), flags: data.gbp_flags });
    }
    if key.flags & TNL_F_UDPIF != 0 {
        attrs.push(T::Geneve(data.opts[..usize::from(key.opts_len)].to_vec()));
    }
    // OVS takes an exact mask of the version (0xff) for an unknown version and then prints the flow as if it did not
    // look at ERSPAN; here it is printed as what it matches.
    if export_mask && matches!(key.erspan_ver, 1 | 2) || matches!(data.erspan_ver, 1 | 2) {
        attrs.push(T::Erspan {
            ver: data.erspan_ver,
            idx: data.erspan_idx,
            dir: data.erspan_dir,
            hwid: data.erspan_hwid,
        });
    }
    if data.gtpu_flags != 0 && data.gtpu_msgtype != 0 {
        attrs.push(T::Gtpu { flags: data.gtpu_flags, msgtype: data.gtpu_msgtype });
    }
    attrs
}

/// Writes the parts into `tunnel`; false if they lack the TTL, without which they are no tunnel
/// (OVS `odp_tun_key_from_attr__`). `dumped` are parts of which what is wildcarded was left out.
pub(crate) fn to_flow(attrs: &[TunnelAttr], is_mask: bool, dumped: bool, tunnel: &mut Tunnel) -> bool {
    use TunnelAttr as T;
    let mut ttl = false;
    for attr in attrs {
        tunnel.flags |= attr.flag();
        match attr {
            T::Id(id) => tunnel.tun_id.set(*id),
            T::Ipv4Src(ip) => tunnel.ip_src.set(*ip),
            T::Ipv4Dst(ip) => tunnel.ip_dst.set(*ip),
            T::Ipv6Src(ip) => tunnel.ipv6_src = *ip,
            T::Ipv6Dst(ip) => tunnel.ipv6_dst = *ip,
            T::Tos(tos) => tunnel.ip_tos = *tos,
            T::Ttl(value) => {
                tunnel.ip_ttl = *value;
                ttl = true;
            }
            T::DontFragment | T::Csum | T::Oam => {}
            T::Key => tunnel.flags |= if dumped { TNL_F_KEY } else { 0 },
            T::TpSrc(port) => tunnel.tp_src.set(*port),
            T::TpDst(port) => tunnel.tp_dst.set(*port),
            T::Vxlan { id, flags } => {
                tunnel.gbp_id.set(*id);
                tunnel.gbp_flags = *flags;
            }
            T::Geneve(options) => {
                let len = options.len().min(geneve::MAX_LEN);
                tunnel.opts[..len].copy_from_slice(&options[..len]);
                tunnel.flags |= TNL_F_UDPIF;
                // Exact in a mask, so that options which only start alike do not match.
                tunnel.opts_len = if is_mask { u8::MAX } else { len as u8 };
            }
            T::Erspan { ver, idx, dir, hwid } => {
                tunnel.erspan_ver = *ver;
                tunnel.erspan_idx = *idx;
                tunnel.erspan_dir = *dir;
                tunnel.erspan_hwid = *hwid;
            }
            T::Gtpu { flags, msgtype } => {
                tunnel.gtpu_flags = *flags;
                tunnel.gtpu_msgtype = *msgtype;
            }
        }
    }
    ttl
}
