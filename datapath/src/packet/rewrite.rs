//! Writing header fields, and what that does to checksums.
//!
//! The rule (design: the ledger of debts): a checksum known good, or still to be completed, is marked as to be completed; one
//! that is unknown or known bad is updated incrementally, so that it leaves as right or as wrong as it came. Counterpart:
//! the `packet_set_` functions of OVS `lib/packets.c`. Three things OVS gets wrong are done right here:
//! - it takes the payload of a later IPv4 fragment for a TCP or UDP header and changes two bytes of it;
//! - it computes the checksum of a fragmented datagram over one fragment when that was known good: in a fragment, the
//!   checksum is only ever updated incrementally;
//! - with an IPv6 routing header whose segments are left, or an atomic fragment, it leaves the L4 checksum as it was when the source address
//!   changes.

use super::{NO_OFFSET, Packet};
use crate::flow::proto::{
    IP_AH, IP_DSTOPTS, IP_FRAGMENT, IP_HOPOPTS, IP_ICMPV6, IP_ROUTING, IP_TCP, IP_UDP, ND_ADVERT, ND_SOLICIT,
};
use crate::offload::{Offloads, checksum};
use crate::types::MacAddr;

/// A field of an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Field {
    /// Source address.
    Src([u8; 4]),
    /// Destination address.
    Dst([u8; 4]),
    /// Type of service: DSCP and ECN.
    Tos(u8),
    /// Time to live.
    Ttl(u8),
}

/// A field of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6Field {
    /// Source address.
    Src([u8; 16]),
    /// Destination address.
    Dst([u8; 16]),
    /// Traffic class: DSCP and ECN.
    TrafficClass(u8),
    /// Flow label, 20 bits.
    Label(u32),
    /// Hop limit.
    HopLimit(u8),
}

/// What stands between the fixed IPv6 header and the transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ipv6Path {
    /// Transport protocol; 44 for a later fragment.
    pub proto: u8,
    /// It has a fragment header that makes it part of something larger.
    pub fragment: bool,
    /// It is a fragment with an offset.
    pub later: bool,
    /// Where the fragment header is, from the network header on.
    pub fragment_at: Option<usize>,
    /// Bytes of the fixed header and the extensions that were followed.
    pub len: usize,
    /// A routing header has segments left: the destination is not the one of the pseudo-header.
    pub routed: bool,
    /// The destination of the pseudo-header then, where the kind of routing header is known (RFC 8200, 8.1; RFC 8754, 4.3.1.1).
    pub final_destination: Option<[u8; 16]>,
}

/// Routing types: source route (RFC 2460, deprecated), home address (RFC 6275), segment list in reverse order (RFC 8754).
const ROUTING_SOURCE: u8 = 0;
const ROUTING_MOBILE: u8 = 2;
const ROUTING_SEGMENTS: u8 = 4;

/// Follows the extension headers of `l3`, an IPv6 packet. `None` if they are cut off.
pub(crate) fn ipv6_path(l3: &[u8]) -> Option<Ipv6Path> {
    let (header, mut rest) = l3.split_first_chunk::<40>()?;
    let mut path = Ipv6Path { proto: header[6], len: 40, ..Ipv6Path::default() };
    loop {
        let len = |units: u8| match path.proto {
            IP_AH => (usize::from(units) + 2) * 4,
            IP_FRAGMENT => 8,
            _ => (usize::from(units) + 1) * 8,
        };
        if !matches!(path.proto, IP_HOPOPTS | IP_ROUTING | IP_DSTOPTS | IP_AH | IP_FRAGMENT) {
            return Some(path);
        }
        let &[next, units, high_or_kind, low_or_segments, ..] = rest.first_chunk::<8>()?;
        let len = len(units);
        match path.proto {
            IP_FRAGMENT => {
                let offset = u16::from_be_bytes([high_or_kind, low_or_segments]);
                path.fragment_at = Some(path.len);
                path.fragment |= offset & 0xfff9 != 0;
                path.later |= offset & 0xfff8 != 0;
                if path.later {
                    return Some(path);
                }
            }
            IP_ROUTING if low_or_segments > 0 => {
                path.routed = true;
                let addresses = rest.get(8..len)?.as_chunks::<16>().0;
                path.final_destination = match high_or_kind {
                    ROUTING_SOURCE | ROUTING_MOBILE => addresses.last().copied(),
                    ROUTING_SEGMENTS => addresses.first().copied(),
                    _ => None,
                };
            }
            _ => {}
        }
        path.proto = next;
        path.len += len;
        rest = rest.get(len..)?;
    }
}

/// Length of the TCP header that `l4` begins with, if it is a whole one.
pub(crate) fn tcp_header_len(l4: &[u8]) -> Option<usize> {
    let header: &[u8; 20] = l4.first_chunk()?;
    let len = usize::from(header[12] >> 4) * 4;
    (20..=l4.len()).contains(&len).then_some(len)
}

/// Where the checksum stands in a transport header, and how long that is at least.
const fn checksum_at(proto: u8) -> Option<(usize, usize)> {
    match proto {
        IP_TCP => Some((16, 20)),
        IP_UDP => Some((6, 8)),
        IP_ICMPV6 => Some((2, 4)),
        _ => None,
    }
}

impl Packet {
    /// Whether the header at the L3 offset is an IPv6 one. A packet of type IPv4 whose version field says 6 is not, as far
    /// as can be told: nobody looks at the version on the way in.
    pub(crate) fn is_ipv6(&self) -> bool {
        let long = self.l4_ofs == NO_OFFSET || usize::from(self.l4_ofs) >= usize::from(self.l3_ofs) + 40;
        long && self.l3().is_some_and(|l3| l3.first().is_some_and(|first| first >> 4 == 6))
    }

    /// Whether this is part of a fragmented datagram, and whether it is one without its transport header.
    fn fragment(&self) -> (bool, bool) {
        match self.l3() {
            Some(l3) if self.is_ipv6() => {
                let path = ipv6_path(l3).unwrap_or_default();
                (path.fragment, path.later)
            }
            Some([_, _, _, _, _, _, high, low, ..]) => ipv4_fragment([*high, *low]),
            _ => (false, false),
        }
    }

    /// Whether what lies at the L4 offset is not a transport header, but a datagram's later part.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment().1
    }

    /// Whether the packet is a fragment, the first or a later one. Its L4 checksum covers bytes that are not here.
    pub fn is_fragment(&self) -> bool {
        self.fragment().0
    }

    /// Does to the L4 checksum what follows from `old` having become `new` in what it covers.
    fn l4_changed(&mut self, proto: u8, fragment: bool, old: &[u8], new: &[u8]) {
        let Some((at, min_len)) = checksum_at(proto) else {
            return;
        };
        if self.l4().is_none_or(|l4| l4.len() < min_len) {
            return;
        }
        // Device flags speak of TCP, UDP and SCTP only.
        if proto != IP_ICMPV6 {
            if self.offloads.contains(Offloads::L4_PARTIAL) {
                return;
            }
            if self.offloads.contains(Offloads::L4_GOOD) && !fragment {
                self.offloads |= Offloads::L4_PARTIAL;
                return;
            }
        }
        let Some(field) = self.l4_mut().and_then(|l4| l4.get_mut(at..)?.first_chunk_mut::<2>()) else {
            return;
        };
        if proto != IP_UDP {
            *field = checksum::update(*field, old, new);
        } else if *field != [0, 0] {
            *field = checksum::udp(checksum::update(*field, old, new));
        }
    }

    /// Does to the IPv4 header checksum what follows from `old` having become `new` in the header.
    fn ipv4_changed(&mut self, old: &[u8], new: &[u8]) {
        if self.offloads.contains(Offloads::IP_GOOD) {
            self.offloads |= Offloads::IP_PARTIAL;
        } else if let Some(field) = self.l3_mut().and_then(|l3| l3.get_mut(10..)?.first_chunk_mut()) {
            *field = checksum::update(*field, old, new);
        }
    }

    /// Writes a field of the IPv4 header; returns false, and does nothing, if there is none.
    #[must_use = "without the header nothing was written"]
    pub fn set_ipv4(&mut self, field: Ipv4Field) -> bool {
        let Some(header) = self.l3().and_then(<[u8]>::first_chunk::<20>) else {
            return false;
        };
        // The 16-bit word of a byte field goes into the sum.
        let (at, old, new, len): (usize, [u8; 4], [u8; 4], usize) = match field {
            Ipv4Field::Src(new) => (12, [header[12], header[13], header[14], header[15]], new, 4),
            Ipv4Field::Dst(new) => (16, [header[16], header[17], header[18], header[19]], new, 4),
            Ipv4Field::Tos(new) => (0, [header[0], header[1], 0, 0], [header[0], new, 0, 0], 2),
            Ipv4Field::Ttl(new) => (8, [header[8], header[9], 0, 0], [new, header[9], 0, 0], 2),
        };
        if old == new {
            return true;
        }
        if len == 4 {
            let proto = header[9];
            let (fragment, later) = ipv4_fragment([header[6], header[7]]);
            // ICMPv6's checksum is not meant: over IPv4 it has no pseudo-header.
            if !later && proto != IP_ICMPV6 {
                self.l4_changed(proto, fragment, &old, &new);
            }
        }
        self.ipv4_changed(&old[..len], &new[..len]);
        if let Some(l3) = self.l3_mut() {
            l3[at..at + len].copy_from_slice(&new[..len]);
        }
        true
    }

    /// Writes a field of the IPv6 header; returns false, and does nothing, if there is none.
    #[must_use = "without the header nothing was written"]
    pub fn set_ipv6(&mut self, field: Ipv6Field) -> bool {
        let Some(l3) = self.l3() else { return false };
        let Some(&header) = l3.first_chunk::<40>() else {
            return false;
        };
        let (at, new) = match field {
            Ipv6Field::Src(new) => (8, new),
            Ipv6Field::Dst(new) => (24, new),
            Ipv6Field::TrafficClass(class) => {
                return self.set_bytes(0, &[header[0] & 0xf0 | class >> 4, class << 4 | header[1] & 0x0f]);
            }
            Ipv6Field::Label(label) => {
                let [_, high, middle, low] = label.to_be_bytes();
                return self.set_bytes(1, &[header[1] & 0xf0 | high & 0x0f, middle, low]);
            }
            Ipv6Field::HopLimit(limit) => return self.set_bytes(7, &[limit]),
        };
        let old = &header[at..at + 16];
        if old == new {
            return true;
        }
        let path = ipv6_path(l3).unwrap_or_default();
        let pseudo = !(path.routed && matches!(field, Ipv6Field::Dst(_)));
        if pseudo && !path.later {
            self.l4_changed(path.proto, path.fragment, old, &new);
        }
        self.set_bytes(at, &new)
    }

    /// Writes bytes of the network header that no checksum covers.
    fn set_bytes(&mut self, at: usize, bytes: &[u8]) -> bool {
        match self.l3_mut().and_then(|l3| l3.get_mut(at..at + bytes.len())) {
            Some(field) => {
                field.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// The first `N` bytes of the transport header, if there is one.
    fn l4_header<const N: usize>(&self) -> Option<&[u8; N]> {
        let header = self.l4()?.first_chunk()?;
        (!self.is_later_fragment()).then_some(header)
    }

    /// Writes the ports of a TCP header, 16 bits each in host byte order; returns false if there is no whole header.
    #[must_use = "without the header nothing was written"]
    pub fn set_tcp_ports(&mut self, src: u16, dst: u16) -> bool {
        if self.l4().and_then(tcp_header_len).is_none() {
            return false;
        }
        self.set_ports(IP_TCP, src, dst)
    }

    /// Writes the ports of a UDP header; returns false if there is none.
    #[must_use = "without the header nothing was written"]
    pub fn set_udp_ports(&mut self, src: u16, dst: u16) -> bool {
        self.l4_header::<8>().is_some() && self.set_ports(IP_UDP, src, dst)
    }

    fn set_ports(&mut self, proto: u8, src: u16, dst: u16) -> bool {
        let Some(&old) = self.l4_header::<4>() else {
            return false;
        };
        let new = ports(src, dst);
        // Even where nothing changes, as in OVS: a checksum said to be good is computed anew.
        self.l4_changed(proto, self.is_fragment(), &old, &new);
        self.set_l4(0, &new)
    }

    fn set_l4(&mut self, at: usize, bytes: &[u8]) -> bool {
        match self.l4_mut().and_then(|l4| l4.get_mut(at..at + bytes.len())) {
            Some(field) => {
                field.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }

    /// Writes the ports of an SCTP header; returns false if there is none. A CRC32c is linear: what it was wrong by is kept.
    #[must_use = "without the header nothing was written"]
    pub fn set_sctp_ports(&mut self, src: u16, dst: u16) -> bool {
        if self.l4_header::<12>().is_none() {
            return false;
        }
        let new = ports(src, dst);
        if self.offloads.contains(Offloads::L4_PARTIAL) {
            return self.set_l4(0, &new);
        }
        if self.offloads.contains(Offloads::L4_GOOD) && !self.is_fragment() {
            self.offloads |= Offloads::L4_PARTIAL;
            return self.set_l4(0, &new);
        }
        let Some(l4) = self.l4_mut() else { return false };
        let before = checksum::sctp(l4);
        l4[..4].copy_from_slice(&new);
        let (Some(before), Some(after)) = (before, checksum::sctp(l4)) else {
            return false;
        };
        for (field, (before, after)) in l4[8..12].iter_mut().zip(before.into_iter().zip(after)) {
            *field ^= before ^ after;
        }
        true
    }

    /// Writes type and code of an ICMP or ICMPv6 header; returns false if there is no whole one.
    #[must_use = "without the header nothing was written"]
    pub fn set_icmp(&mut self, kind: u8, code: u8) -> bool {
        let Some(&[old_kind, old_code, c0, c1, ..]) = self.l4_header::<8>() else {
            return false;
        };
        let [c0, c1] = if [old_kind, old_code] == [kind, code] {
            [c0, c1]
        } else {
            checksum::update([c0, c1], &[old_kind, old_code], &[kind, code])
        };
        self.set_l4(0, &[kind, code, c0, c1])
    }

    /// Writes the Ethernet addresses; returns false if there is no Ethernet header.
    #[must_use = "without the header nothing was written"]
    pub fn set_eth(&mut self, dst: MacAddr, src: MacAddr) -> bool {
        let Some(eth) = self.eth_mut() else {
            return false;
        };
        eth[..6].copy_from_slice(&dst.0);
        eth[6..12].copy_from_slice(&src.0);
        true
    }

    /// Lets `change` write the 28 bytes of an ARP packet for Ethernet and IPv4; returns false if it has no room for them.
    pub(crate) fn set_arp(&mut self, change: impl FnOnce(&mut [u8; 28])) -> bool {
        let l3 = usize::from(self.l3_ofs);
        match self.data_mut().get_mut(l3..).and_then(<[u8]>::first_chunk_mut) {
            Some(arp) => {
                change(arp);
                true
            }
            None => false,
        }
    }

    /// The neighbour discovery message at L4, of 24 bytes at least.
    pub(crate) fn nd(&self) -> Option<&[u8]> {
        let l4 = self.l4()?;
        let known = matches!(l4, [ND_SOLICIT | ND_ADVERT, ..]);
        (known && l4.len() >= 24 && !self.is_later_fragment()).then_some(l4)
    }

    /// Writes bytes at an even offset of an ICMPv6 message and updates its checksum.
    pub(crate) fn set_icmpv6_bytes(&mut self, at: usize, new: &[u8]) {
        let Some(l4) = self.l4_mut() else { return };
        let Some(field) = l4.get_mut(at..at + new.len()) else {
            return;
        };
        if field == new {
            return;
        }
        let mut old = [0; 16];
        let old = &mut old[..new.len()];
        old.copy_from_slice(field);
        field.copy_from_slice(new);
        let updated = checksum::update([l4[2], l4[3]], old, new);
        l4[2..4].copy_from_slice(&updated);
    }

    /// Marks the packet as having met congestion (RFC 3168): sets both ECN bits of its IP header.
    pub fn set_ecn_ce(&mut self) {
        let Some(&[first, second]) = self.l3().and_then(<[u8]>::first_chunk) else {
            return;
        };
        let _is_ip = if self.is_ipv6() {
            self.set_ipv6(Ipv6Field::TrafficClass(first << 4 | second >> 4 | 3))
        } else {
            self.set_ipv4(Ipv4Field::Tos(second | 3))
        };
    }
}

/// Whether these bytes of an IPv4 header belong to a fragment, and to a later one.
const fn ipv4_fragment(flags_and_offset: [u8; 2]) -> (bool, bool) {
    let offset = u16::from_be_bytes(flags_and_offset);
    (offset & 0x3fff != 0, offset & 0x1fff != 0)
}

fn ports(src: u16, dst: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (src.to_be_bytes(), dst.to_be_bytes());
    [a, b, c, d]
}
