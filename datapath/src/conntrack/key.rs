//! What identifies a connection, and finding it in a packet.
//!
//! Owns: which packets can belong to a connection at all; checksums are verified here, once, and the answer is kept in the
//! packet. Counterpart: `conn_key_extract()` of OVS `lib/conntrack.c`.

use crate::flow::hash;
use crate::flow::proto::{IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP};
use crate::offload::{Offloads, checksum};
use crate::packet::{Packet, ipv6_path, tcp_header_len};

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address; IPv4 in the first four bytes, the rest zero.
    pub addr: [u8; 16],
    /// Port, host byte order; the identifier of ICMP echo and the like.
    pub port: u16,
    /// ICMP type as sent by this end; else 0.
    pub icmp_type: u8,
    /// ICMP code; else 0.
    pub icmp_code: u8,
}

/// A connection in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnKey {
    /// Zone.
    pub zone: u16,
    /// IP protocol.
    pub proto: u8,
    /// Over IPv6.
    pub ipv6: bool,
    /// Who sends.
    pub src: Endpoint,
    /// Who receives.
    pub dst: Endpoint,
}

impl ConnKey {
    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { src: self.dst, dst: self.src, ..self }
    }

    /// A hash that is the same for both directions.
    pub fn hash(&self, basis: u32) -> u32 {
        let ends = hash_endpoint(basis, &self.src) ^ hash_endpoint(basis, &self.dst);
        let rest = u32::from(self.zone) | u32::from(self.proto) << 16 | u32::from(self.ipv6) << 24;
        hash::finish(hash::add(ends, rest), 44)
    }
}

/// Adds an address to a hash, as OVS does.
pub(super) fn hash_addr(hash: u32, addr: &[u8; 16]) -> u32 {
    addr.as_chunks::<4>().0.iter().fold(hash, |hash, &word| hash::add(hash, u32::from_le_bytes(word)))
}

/// Adds an address with its port to a hash, as OVS does.
pub(super) fn hash_endpoint(hash: u32, end: &Endpoint) -> u32 {
    let [high, low] = end.port.to_be_bytes();
    hash::add(hash_addr(hash, &end.addr), u32::from_le_bytes([high, low, end.icmp_type, end.icmp_code]))
}

/// What [`extract`] found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The connection that the packet belongs to, in its direction.
    pub key: ConnKey,
    /// The packet is an ICMP error about a packet of that connection, which went the other way.
    pub related: bool,
}

/// Network protocol of a packet with Ethernet header, by its Ethernet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Ipv4,
    Ipv6,
}

/// The network protocol that conntrack goes by.
pub(super) fn network(packet: &Packet) -> Option<Network> {
    packet.eth()?;
    let at = usize::from(packet.l3_ofs).checked_sub(2)?;
    match *packet.data().get(at..)?.first_chunk::<2>()? {
        [0x08, 0x00] => Some(Network::Ipv4),
        [0x86, 0xdd] => Some(Network::Ipv6),
        _ => None,
    }
}

/// The connection that a packet belongs to, in `zone`; `None` if the packet is none of a connection or not a valid one.
pub(super) fn extract(packet: &mut Packet, zone: u16) -> Option<Found> {
    let network = network(packet)?;
    packet.l4()?;
    let mut key = ConnKey { zone, ipv6: network == Network::Ipv6, ..ConnKey::default() };
    match network {
        Network::Ipv4 => {
            if !ipv4_header_valid(packet) {
                return None;
            }
            ipv4(packet.l3()?, &mut key)?;
        }
        Network::Ipv6 => {
            ipv6(packet.l3()?, &mut key)?;
        }
    }
    if !l4_valid(packet, &key)? {
        return None;
    }
    let related = l4(packet.l4()?, &mut key, true)?;
    Some(Found { key, related })
}

/// Finds out whether the IPv4 header checksum is right, if that is not known.
pub(super) fn ipv4_header_valid(packet: &mut Packet) -> bool {
    match packet.offloads & Offloads::IP_PARTIAL {
        state if state == Offloads::IP_BAD => return false,
        state if !state.is_empty() => return true,
        _ => {}
    }
    let header = |l3: &[u8]| {
        let len = usize::from(l3.first()? & 0x0f) * 4;
        l3.get(..len).filter(|header| header.len() >= 20).map(checksum::internet)
    };
    let Some(sum) = packet.l3().and_then(header) else { return false };
    let good = sum == [0, 0];
    packet.offloads |= if good { Offloads::IP_GOOD } else { Offloads::IP_BAD };
    good
}

/// Reads addresses and protocol of an IPv4 header; returns its length.
fn ipv4(l3: &[u8], key: &mut ConnKey) -> Option<usize> {
    let header: &[u8; 20] = l3.first_chunk()?;
    let len = usize::from(header[0] & 0x0f) * 4;
    let later = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
    if len < 20 || l3.len() < len || later {
        return None;
    }
    key.src.addr[..4].copy_from_slice(&header[12..16]);
    key.dst.addr[..4].copy_from_slice(&header[16..20]);
    key.proto = header[9];
    Some(len)
}

/// Reads addresses and protocol of an IPv6 header; returns how long it is with its extensions. A fragment has none.
fn ipv6(l3: &[u8], key: &mut ConnKey) -> Option<usize> {
    let header: &[u8; 40] = l3.first_chunk()?;
    let path = ipv6_path(l3)?;
    if path.fragment {
        return None;
    }
    key.src.addr.copy_from_slice(&header[8..24]);
    key.dst.addr.copy_from_slice(&header[24..40]);
    key.proto = path.proto;
    Some(path.len)
}

/// Whether the transport header is whole and its checksum right; remembers the answer.
fn l4_valid(packet: &mut Packet, key: &ConnKey) -> Option<bool> {
    let known = packet.offloads & Offloads::L4_PARTIAL;
    if known == Offloads::L4_BAD {
        return Some(false);
    }
    let l4 = packet.l4()?;
    let (unknown, v4) = (known.is_empty(), !key.ipv6);
    let (good, flag) = match key.proto {
        IP_TCP => {
            tcp_header_len(l4)?;
            (unknown.then(|| pseudo_sum(packet, key, l4)), Offloads::L4_TCP)
        }
        IP_UDP => {
            let header: &[u8; 8] = l4.first_chunk()?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            if !(8..=l4.len()).contains(&len) {
                return Some(false);
            }
            // Over IPv4 the checksum may be left out; over IPv6 a 0 does not verify.
            let none = v4 && header[6..] == [0, 0];
            ((unknown && !none).then(|| pseudo_sum(packet, key, l4)), Offloads::L4_UDP)
        }
        IP_SCTP => {
            if !sctp_chunks_whole(l4) {
                return Some(false);
            }
            let right = || checksum::sctp(l4).is_some_and(|sum| l4.get(8..12) == Some(&sum));
            (unknown.then(right), Offloads::L4_SCTP)
        }
        // Flags speak of the three above only.
        IP_ICMP if v4 => return Some(checksum::internet(l4) == [0, 0]),
        IP_ICMPV6 if !v4 => return Some(pseudo_sum(packet, key, l4)),
        _ => return Some(true),
    };
    match good {
        None => {}
        Some(true) => packet.offloads |= Offloads::L4_GOOD | flag,
        Some(false) => packet.offloads |= Offloads::L4_BAD,
    }
    Some(good != Some(false))
}

fn pseudo_sum(packet: &Packet, key: &ConnKey, l4: &[u8]) -> bool {
    let sum = if key.ipv6 {
        let mut addresses = [0; 32];
        addresses[..16].copy_from_slice(&key.src.addr);
        addresses[16..].copy_from_slice(&key.dst.addr);
        // A routing header with segments left has the destination that the checksum is about (RFC 8200, 8.1).
        if let Some(last) = packet.l3().and_then(ipv6_path).and_then(|path| path.final_destination) {
            addresses[16..].copy_from_slice(&last);
        }
        checksum::pseudo_ipv6(&addresses, key.proto, l4.len() as u32)
    } else {
        let mut addresses = [0; 8];
        addresses[..4].copy_from_slice(&key.src.addr[..4]);
        addresses[4..].copy_from_slice(&key.dst.addr[..4]);
        checksum::pseudo_ipv4(&addresses, key.proto, l4.len() as u16)
    };
    sum.bytes(l4).finish() == [0, 0]
}

/// Whether the chunks of an SCTP packet fill it (RFC 9260, 3.2).
fn sctp_chunks_whole(l4: &[u8]) -> bool {
    let mut at = 12;
    while at < l4.len() {
        let Some(&[_, _, high, low]) = l4.get(at..).and_then(<[u8]>::first_chunk) else { return false };
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len < 4 {
            return false;
        }
        at += len.next_multiple_of(4);
    }
    at == l4.len()
}

/// The ICMP type that answers `kind`, for those that are asked and answered.
pub(super) const fn icmp_answer(kind: u8) -> Option<u8> {
    match kind {
        8 => Some(0),
        0 => Some(8),
        13 => Some(14),
        14 => Some(13),
        15 => Some(16),
        16 => Some(15),
        _ => None,
    }
}

/// The same for ICMPv6.
pub(super) const fn icmpv6_answer(kind: u8) -> Option<u8> {
    match kind {
        128 => Some(129),
        129 => Some(128),
        _ => None,
    }
}

/// Reads ports, or what serves for them; returns whether it is an error about another connection, which `key` is of then.
/// In the packet that an error quotes (`outermost` is not set) 8 bytes are enough, and there is no further error.
fn l4(l4: &[u8], key: &mut ConnKey, outermost: bool) -> Option<bool> {
    match (key.proto, key.ipv6) {
        (IP_TCP | IP_UDP | IP_SCTP, _) => {
            // What an ICMP error quotes: 8 bytes of it at least (RFC 792).
            let &[a, b, c, d, ..] = l4.first_chunk::<8>()?;
            key.src.port = u16::from_be_bytes([a, b]);
            key.dst.port = u16::from_be_bytes([c, d]);
            (key.src.port != 0 && key.dst.port != 0).then_some(false)
        }
        (IP_ICMP, false) => icmp(l4, key, outermost),
        (IP_ICMPV6, true) => icmpv6(l4, key, outermost),
        _ => Some(false),
    }
}

fn icmp(l4: &[u8], key: &mut ConnKey, outermost: bool) -> Option<bool> {
    let &[kind, code, _, _, high, low, _, _] = l4.first_chunk()?;
    match kind {
        0 | 8 | 13..=16 if code == 0 => {
            query(key, kind, icmp_answer(kind)?, [high, low]);
            Some(false)
        }
        3 | 4 | 5 | 11 | 12 if outermost => {
            let quoted = l4.get(8..)?;
            let mut inner = ConnKey { zone: key.zone, ..ConnKey::default() };
            let len = ipv4(quoted, &mut inner)?;
            quoted_connection(key, inner, quoted.get(len..)?)
        }
        _ => None,
    }
}

fn icmpv6(l4: &[u8], key: &mut ConnKey, outermost: bool) -> Option<bool> {
    let &[kind, code, _, _, high, low, _, _] = l4.first_chunk()?;
    match kind {
        128 | 129 if code == 0 => {
            query(key, kind, icmpv6_answer(kind)?, [high, low]);
            Some(false)
        }
        1..=4 if outermost => {
            let quoted = l4.get(8..)?;
            let mut inner = ConnKey { zone: key.zone, ipv6: true, ..ConnKey::default() };
            let len = ipv6(quoted, &mut inner)?;
            quoted_connection(key, inner, quoted.get(len..)?)
        }
        _ => None,
    }
}

fn query(key: &mut ConnKey, kind: u8, answer: u8, id: [u8; 2]) {
    (key.src.port, key.dst.port) = (u16::from_be_bytes(id), u16::from_be_bytes(id));
    (key.src.icmp_type, key.dst.icmp_type) = (kind, answer);
}

/// The connection of a quoted packet, as the error sees it: in the opposite direction. The error must go to whom sent the
/// packet.
fn quoted_connection(key: &mut ConnKey, mut inner: ConnKey, inner_l4: &[u8]) -> Option<bool> {
    if inner.src.addr != key.dst.addr {
        return None;
    }
    l4(inner_l4, &mut inner, false)?;
    *key = inner.reversed();
    Some(true)
}

/// Where the quoted packet's transport header begins, counted from the quoted network header.
pub(super) fn quoted_header_len(quoted: &[u8], is_ipv6: bool) -> Option<usize> {
    let mut key = ConnKey::default();
    if is_ipv6 { ipv6(quoted, &mut key) } else { ipv4(quoted, &mut key) }
}
