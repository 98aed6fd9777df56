//! Writing the members of an attribute: `name=value/mask`, comma separated, leaving out what is wildcarded.
//!
//! Counterpart: the `format_*` helpers of OVS `lib/odp-util.c`.

use std::fmt::{self, Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::types::MacAddr;

/// A number as C prints it with `%#x`: zero has no prefix.
#[derive(Clone, Copy)]
pub(crate) struct Hex<T>(pub T);

impl<T: fmt::LowerHex + Default + PartialEq> Display for Hex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == T::default() { f.write_str("0") } else { write!(f, "{:#x}", self.0) }
    }
}

/// Bytes as one big number: `0x` and hexadecimal digits without leading zeros, or `0` (OVS `ds_put_hex`).
#[derive(Clone, Copy)]
pub(crate) struct HexBytes<'a>(pub &'a [u8]);

impl Display for HexBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.iter().position(|&byte| byte != 0) else { return f.write_str("0") };
        write!(f, "{:#x}", self.0[first])?;
        self.0[first + 1..].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An IPv6 address as `inet_ntop` prints it: unlike Rust it writes IPv4-compatible addresses as `::1.2.3.4`.
#[derive(Clone, Copy)]
pub(crate) struct Ip6(pub [u8; 16]);

impl Display for Ip6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., a, b, c, d] = self.0;
        if self.0[..12] == [0; 12] && (a, b) != (0, 0) {
            write!(f, "::{a}.{b}.{c}.{d}")
        } else {
            Ipv6Addr::from(self.0).fmt(f)
        }
    }
}

/// A value that can be wildcarded or exact.
pub(crate) trait Bits: Copy + PartialEq {
    /// No bit.
    const NONE: Self;
    /// Every bit.
    const ALL: Self;
}

macro_rules! bits {
    ($($type:ty: $none:expr, $all:expr;)*) => { $(impl Bits for $type { const NONE: Self = $none; const ALL: Self = $all; })* };
}
bits! {
    u8: 0, u8::MAX;
    u16: 0, u16::MAX;
    u32: 0, u32::MAX;
    u64: 0, u64::MAX;
    u128: 0, u128::MAX;
    [u8; 16]: [0; 16], [0xff; 16];
    MacAddr: MacAddr::ZERO, MacAddr::BROADCAST;
}

/// Writes members, with a comma before each but the first.
pub(crate) struct Members<'a> {
    out: &'a mut dyn Write,
    first: bool,
    verbose: bool,
}

impl<'a> Members<'a> {
    /// Nothing written yet; `verbose` writes wildcarded members too.
    pub fn new(out: &'a mut dyn Write, verbose: bool) -> Self {
        Self { out, first: true, verbose }
    }

    /// Starts another member.
    pub fn next(&mut self) -> Result<&mut (dyn Write + 'a), fmt::Error> {
        if !self.first {
            self.out.write_char(',')?;
        }
        self.first = false;
        Ok(self.out)
    }

    /// Whether wildcarded members are written.
    pub fn verbose(&self) -> bool {
        self.verbose
    }

    /// `name=key`, or `name=key/mask` where some bits are wildcarded; nothing where all are.
    fn member<T: Bits, K: Display, M: Display>(
        &mut self,
        name: &str,
        key: T,
        mask: Option<T>,
        show: impl Fn(T) -> K,
        show_mask: impl Fn(T) -> M,
    ) -> fmt::Result {
        if !self.verbose && mask == Some(T::NONE) {
            return Ok(());
        }
        let out = self.next()?;
        write!(out, "{name}={}", show(key))?;
        match mask {
            Some(mask) if mask != T::ALL => write!(out, "/{}", show_mask(mask)),
            _ => Ok(()),
        }
    }

    /// A number, decimal, with a hexadecimal mask.
    pub fn dec<T>(&mut self, name: &str, key: T, mask: Option<T>) -> fmt::Result
    where
        T: Bits + Display + fmt::LowerHex + Default,
    {
        self.member(name, key, mask, |key| key, Hex)
    }

    /// A number, hexadecimal.
    pub fn hex<T>(&mut self, name: &str, key: T, mask: Option<T>) -> fmt::Result
    where
        T: Bits + fmt::LowerHex + Default,
    {
        self.member(name, key, mask, Hex, Hex)
    }

    /// A tunnel key. Unlike other hexadecimal numbers, zero has the prefix (OVS `format_be64`).
    pub fn tun_id(&mut self, name: &str, key: u64, mask: Option<u64>) -> fmt::Result {
        self.member(name, key, mask, |key| format!("{key:#x}"), Hex)
    }

    /// A number, hexadecimal, whose zero has the prefix too, without mask.
    pub fn hex_prefixed(&mut self, name: &str, key: u32) -> fmt::Result {
        write!(self.next()?, "{name}={key:#x}")
    }

    /// A byte of a network service header: hexadecimal where it is masked (OVS `format_uint8_masked`).
    pub fn nsh_u8(&mut self, name: &str, key: u8, mask: u8) -> fmt::Result {
        match mask {
            0 => Ok(()),
            u8::MAX => write!(self.next()?, "{name}={key}"),
            mask => write!(self.next()?, "{name}=0x{key:02x}/0x{mask:02x}"),
        }
    }

    /// A word of a network service header (OVS `format_be32_masked`).
    pub fn nsh_u32(&mut self, name: &str, key: u32, mask: u32) -> fmt::Result {
        match mask {
            0 => Ok(()),
            u32::MAX => write!(self.next()?, "{name}=0x{key:x}"),
            mask => write!(self.next()?, "{name}=0x{key:x}/0x{mask:08x}"),
        }
    }

    /// An IPv4 address, host byte order.
    pub fn ipv4(&mut self, name: &str, key: u32, mask: Option<u32>) -> fmt::Result {
        self.member(name, key, mask, Ipv4Addr::from, Ipv4Addr::from)
    }

    /// An IPv6 address.
    pub fn ipv6(&mut self, name: &str, key: [u8; 16], mask: Option<[u8; 16]>) -> fmt::Result {
        self.member(name, key, mask, Ip6, Ip6)
    }

    /// An Ethernet address.
    pub fn mac(&mut self, name: &str, key: MacAddr, mask: Option<MacAddr>) -> fmt::Result {
        self.member(name, key, mask, |key| key, |mask| mask)
    }
}

/// Names of flag bits, lowest bit first; an empty name is an unnamed bit.
pub(crate) type FlagNames = &'static [&'static str];

/// `OVS_CS_F_*` and `CS_*`.
pub(crate) const CT_STATE_FLAGS: FlagNames = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
/// Public bits of tunnel flags.
pub(crate) const TUNNEL_FLAGS: FlagNames = &["oam", "df", "csum", "key"];
/// The 12 bits of TCP flags.
pub(crate) const TCP_FLAGS: FlagNames =
    &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// The flags that are set, or `0` (OVS `format_flags`).
pub(crate) fn flags(out: &mut dyn Write, names: FlagNames, flags: u32, separator: char) -> fmt::Result {
    let mut rest = flags;
    let mut first = true;
    for (bit, name) in names.iter().enumerate() {
        if rest & 1 << bit != 0 && !name.is_empty() {
            rest &= !(1 << bit);
            if !first {
                out.write_char(separator)?;
            }
            first = false;
            out.write_str(name)?;
        }
    }
    if rest != 0 {
        if !first {
            out.write_char(separator)?;
        }
        write!(out, "{rest:#x}")
    } else if first {
        out.write_char('0')
    } else {
        Ok(())
    }
}

/// `+set-unset` for the bits of `mask`, or as [`flags`] if that is all of `all` (OVS `format_flags_masked`).
pub(crate) fn flags_masked(
    out: &mut dyn Write,
    names: FlagNames,
    key: u32,
    mask: u32,
    all: u32,
) -> fmt::Result {
    if mask == all {
        return flags(out, names, key, '|');
    }
    if mask == 0 {
        return out.write_str("0/0");
    }
    for bit in (0..32).filter(|bit| mask & 1 << bit != 0) {
        out.write_char(if key & 1 << bit != 0 { '+' } else { '-' })?;
        out.write_str(names.get(bit as usize).copied().unwrap_or("[Unknown]"))?;
    }
    Ok(())
}
