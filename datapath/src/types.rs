//! Checked newtypes used at the API. Inside a flow key the same values are plain words.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An IEEE 802 MAC address, in transmission order.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// `00:00:00:00:00:00`.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether the group bit is set (IEEE 802-2014, 8.2): multicast or broadcast.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether all bits are set.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Whether this is the address of a protocol between neighbouring bridges, which a bridge does not forward: 01:80:c2:00:00:00
    /// to 01:80:c2:00:00:0f (IEEE 802.1D, 7.12.6), and those of Extreme and Cisco that OVS's `eth_addr_is_reserved()` has.
    pub const fn is_reserved(self) -> bool {
        match self.0 {
            [0x01, 0x80, 0xc2, 0, 0, last] => last & 0xf0 == 0,
            // EDP, EAPS.
            [0x00, 0xe0, 0x2b, 0, 0, last] => matches!(last, 0 | 4 | 6),
            // ISL, and STP Uplink Fast.
            [0x01, 0x00, 0x0c, 0, 0, 0] | [0x01, 0x00, 0x0c, 0xcd, 0xcd, 0xcd] => true,
            // CFM; CDP and others; PVST+.
            [0x01, 0x00, 0x0c, 0xcc, 0xcc, last] => matches!(last, 0xc0..=0xc7 | 0xcc | 0xcd),
            _ => false,
        }
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a value is not one of a checked newtype's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TypeError {
    /// Not six colon-separated bytes in hexadecimal.
    #[error("{0:?} is not a MAC address: use six hexadecimal bytes, such as 02:00:00:00:00:01")]
    Mac(String),
    /// Out of range.
    #[error("{what} {value} is out of range: use {low} to {high}")]
    Range {
        /// What the value was to be.
        what: &'static str,
        /// The refused value.
        value: u64,
        /// The smallest value allowed.
        low: u64,
        /// The largest value allowed.
        high: u64,
    },
}

impl FromStr for MacAddr {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        let bad = || TypeError::Mac(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(bad)?;
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(bad());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Self(bytes)) }
    }
}

/// A 12-bit VLAN id (IEEE 802.1Q), 0 to 4095.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// Checks that `id` has no more than 12 bits.
    ///
    /// # Errors
    /// [`TypeError::Range`] above 4095.
    pub const fn new(id: u16) -> Result<Self, TypeError> {
        if id < 4096 {
            Ok(Self(id))
        } else {
            Err(TypeError::Range { what: "VLAN id", value: id as u64, low: 0, high: 4095 })
        }
    }

    /// The id part of a tag control information word (host byte order).
    pub const fn of_tci(tci: u16) -> Self {
        Self(tci & 0xfff)
    }

    /// The id.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A 24-bit virtual network identifier (RFC 7348 section 5, RFC 8926 section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vni(u32);

impl Vni {
    /// Checks that `vni` has no more than 24 bits.
    ///
    /// # Errors
    /// [`TypeError::Range`] above 16777215.
    pub const fn new(vni: u32) -> Result<Self, TypeError> {
        if vni < 1 << 24 {
            Ok(Self(vni))
        } else {
            Err(TypeError::Range { what: "VNI", value: vni as u64, low: 0, high: (1 << 24) - 1 })
        }
    }

    /// The identifier.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A datapath port number (`odp_port_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNo(pub u32);

impl PortNo {
    /// No port (`ODPP_NONE`): the packet was made here.
    pub const NONE: Self = Self(u32::MAX);
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An OpenFlow port number, in the 16-bit space of OpenFlow 1.0 that OVS uses inside (`ofp_port_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfPort(pub u16);

impl OfPort {
    /// First number above those for switch ports (`OFPP_MAX`).
    pub const MAX: Self = Self(0xff00);
    /// Output field not set (`OFPP_UNSET`).
    pub const UNSET: Self = Self(0xfff7);
    /// Out of the port it came in by (`OFPP_IN_PORT`).
    pub const IN_PORT: Self = Self(0xfff8);
    /// Through the flow tables (`OFPP_TABLE`), in packet-out only.
    pub const TABLE: Self = Self(0xfff9);
    /// The learning switch (`OFPP_NORMAL`).
    pub const NORMAL: Self = Self(0xfffa);
    /// All ports but the ingress and those that do not flood (`OFPP_FLOOD`).
    pub const FLOOD: Self = Self(0xfffb);
    /// All ports but the ingress (`OFPP_ALL`).
    pub const ALL: Self = Self(0xfffc);
    /// A controller (`OFPP_CONTROLLER`).
    pub const CONTROLLER: Self = Self(0xfffd);
    /// The bridge's own port (`OFPP_LOCAL`).
    pub const LOCAL: Self = Self(0xfffe);
    /// No port (`OFPP_NONE`, `OFPP_ANY`).
    pub const NONE: Self = Self(0xffff);
}

/// A recirculation id; 0 is the first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecircId(pub u32);

/// A connection tracking zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnZone(pub u16);

/// An OpenFlow table number, 0 to 254; 254 is internal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u8);

/// A point in virtual (or recorded) time: nanoseconds since the start of the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The start of the world.
    pub const ZERO: Self = Self(0);
    /// Later than any other time.
    pub const MAX: Self = Self(u64::MAX);

    /// `ms` milliseconds after the start; saturates.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Whole milliseconds since the start.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The span since `earlier`, or none if that is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// A span of milliseconds; saturates.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of seconds; saturates.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        self.since(earlier)
    }
}
