//! Parsing and making the headers that hosts speak.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::types::MacAddr;

use super::protocol;
use crate::wire::{checksum, pseudo_header};

pub(super) const ETHERTYPE_ARP: u16 = 0x0806;
pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// IPv6 fragment header (RFC 8200 section 4.5).
const NEXT_FRAGMENT: u8 = 44;

pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) struct EthernetFrame<'a> {
    pub dst: MacAddr,
    pub src: MacAddr,
    pub ether_type: u16,
    pub payload: &'a [u8],
}

impl<'a> EthernetFrame<'a> {
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let (header, payload) = frame.split_at_checked(14)?;
        let mac = |at: usize| {
            let mut mac = MacAddr::ZERO;
            mac.0.copy_from_slice(&header[at..at + 6]);
            mac
        };
        Some(Self { dst: mac(0), src: mac(6), ether_type: be16(header, 12), payload })
    }
}

/// Where a fragment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub id: u32,
    pub offset: usize,
    pub more: bool,
}

/// An IP packet without its header (and without IPv6 extension headers).
pub(super) struct IpPacket<'a> {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub proto: u8,
    pub hop_limit: u8,
    pub fragment: Option<Fragment>,
    pub payload: &'a [u8],
}

impl<'a> IpPacket<'a> {
    /// None if a length or the header checksum is wrong.
    pub fn parse(bytes: &'a [u8], trusted: bool) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => Self::parse_v4(bytes, trusted),
            6 => Self::parse_v6(bytes),
            _ => None,
        }
    }

    fn parse_v4(bytes: &'a [u8], trusted: bool) -> Option<Self> {
        let header_len = usize::from(bytes[0] & 15) * 4;
        if header_len < 20 || bytes.len() < header_len {
            return None;
        }
        let total = usize::from(be16(bytes, 2));
        if total < header_len || total > bytes.len() || (!trusted && checksum(&[&bytes[..header_len]]) != 0) {
            return None;
        }
        let word = be16(bytes, 6);
        let (offset, more) = (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0);
        let fragment =
            (offset != 0 || more).then(|| Fragment { id: u32::from(be16(bytes, 4)), offset, more });
        let address = |at: usize| IpAddr::V4(Ipv4Addr::from(be32(bytes, at)));
        Some(Self {
            src: address(12),
            dst: address(16),
            proto: bytes[9],
            hop_limit: bytes[8],
            fragment,
            payload: &bytes[header_len..total],
        })
    }

    fn parse_v6(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < 40 {
            return None;
        }
        let mut payload = bytes.get(40..40 + usize::from(be16(bytes, 4)))?;
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (mut proto, mut fragment) = (bytes[6], None);
        loop {
            match proto {
                // Hop-by-hop, routing, destination options (RFC 8200 section 4.2).
                0 | 43 | 60 => {
                    let len = usize::from(*payload.get(1)?) * 8 + 8;
                    proto = payload[0];
                    payload = payload.get(len..)?;
                }
                NEXT_FRAGMENT if payload.len() >= 8 && fragment.is_none() => {
                    let word = be16(payload, 2);
                    let (offset, more) = (usize::from(word & 0xfff8), word & 1 != 0);
                    fragment = Some(Fragment { id: be32(payload, 4), offset, more });
                    proto = payload[0];
                    payload = &payload[8..];
                    break;
                }
                _ => break,
            }
        }
        Some(Self { src: address(8), dst: address(24), proto, hop_limit: bytes[7], fragment, payload })
    }
}

pub(super) fn is_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}

/// The MAC of a multicast or broadcast address (RFC 1112 section 6.4, RFC 2464 section 7).
pub(super) fn multicast_mac(address: IpAddr) -> Option<MacAddr> {
    match address {
        IpAddr::V4(address) if address.is_broadcast() => Some(MacAddr::BROADCAST),
        IpAddr::V4(address) if address.is_multicast() => {
            let [_, b, c, d] = address.octets();
            Some(MacAddr([1, 0, 0x5e, b & 0x7f, c, d]))
        }
        IpAddr::V6(address) if address.is_multicast() => {
            let octets = address.octets();
            Some(MacAddr([0x33, 0x33, octets[12], octets[13], octets[14], octets[15]]))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

pub(super) fn ethertype_of(address: IpAddr) -> u16 {
    if address.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 }
}

/// Bytes of the IP header that a host makes.
pub(super) fn ip_header_len(address: IpAddr) -> usize {
    if address.is_ipv4() { 20 } else { 40 }
}

/// The packet, or its fragments. Addresses of different families give nothing.
pub(super) fn ip_packets(
    src: IpAddr,
    dst: IpAddr,
    proto: u8,
    id: u32,
    payload: &[u8],
    mtu: usize,
) -> Vec<Vec<u8>> {
    let header_len = ip_header_len(src);
    if payload.len() + header_len <= mtu {
        return ip_packet(src, dst, proto, id, None, payload).into_iter().collect();
    }
    let room = mtu.saturating_sub(header_len + if src.is_ipv4() { 0 } else { 8 }) / 8 * 8;
    let count = payload.len().div_ceil(room.max(8));
    let parts = payload.chunks(room.max(8)).enumerate();
    parts
        .filter_map(|(index, part)| {
            let fragment = Fragment { id, offset: index * room.max(8), more: index + 1 < count };
            ip_packet(src, dst, proto, id, Some(fragment), part)
        })
        .collect()
}

fn ip_packet(
    src: IpAddr,
    dst: IpAddr,
    proto: u8,
    id: u32,
    fragment: Option<Fragment>,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(48 + payload.len());
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let word = fragment.map_or(0, |f| (f.offset / 8) as u16 | u16::from(f.more) << 13);
            out.extend([0x45, 0]);
            out.extend(u16::try_from(20 + payload.len()).ok()?.to_be_bytes());
            out.extend((id as u16).to_be_bytes());
            out.extend(word.to_be_bytes());
            out.extend([64, proto, 0, 0]);
            out.extend(src.octets());
            out.extend(dst.octets());
            let sum = checksum(&[&out]);
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let extra = if fragment.is_some() { 8 } else { 0 };
            out.extend([0x60, 0, 0, 0]);
            out.extend(u16::try_from(extra + payload.len()).ok()?.to_be_bytes());
            // Neighbour discovery has to be sent with hop limit 255 (RFC 4861 section 7.1).
            let discovery = proto == protocol::ICMPV6 && matches!(payload.first(), Some(133..=137));
            out.extend([
                if fragment.is_some() { NEXT_FRAGMENT } else { proto },
                if discovery { 255 } else { 64 },
            ]);
            out.extend(src.octets());
            out.extend(dst.octets());
            if let Some(fragment) = fragment {
                out.extend([proto, 0]);
                out.extend((fragment.offset as u16 & 0xfff8 | u16::from(fragment.more)).to_be_bytes());
                out.extend(id.to_be_bytes());
            }
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    }
    out.extend(payload);
    Some(out)
}

/// Fills in the transport checksum at `at`, over the pseudo-header if the protocol has one.
pub(super) fn fill_checksum(src: IpAddr, dst: IpAddr, proto: u8, bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let mut sum = transport_sum(src, dst, proto, bytes);
    if sum == 0 && proto == protocol::UDP {
        sum = 0xffff; // RFC 768: 0 means that there is none
    }
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn transport_sum(src: IpAddr, dst: IpAddr, proto: u8, bytes: &[u8]) -> u16 {
    if proto == protocol::ICMP {
        return checksum(&[bytes]);
    }
    checksum(&[&pseudo_header(src, dst, proto, bytes.len() as u32), bytes])
}

pub(super) fn transport_checksum_is_right(src: IpAddr, dst: IpAddr, proto: u8, bytes: &[u8]) -> bool {
    match proto {
        protocol::UDP if src.is_ipv4() && bytes.len() >= 8 && be16(bytes, 6) == 0 => true,
        protocol::UDP | protocol::TCP | protocol::ICMP | protocol::ICMPV6 => {
            transport_sum(src, dst, proto, bytes) == 0
        }
        _ => true,
    }
}
