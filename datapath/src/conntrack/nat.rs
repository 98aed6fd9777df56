//! Address translation: choosing addresses and ports, and writing them into packets, also into those that ICMP errors quote.
//!
//! Counterpart: `nat_get_unique_tuple()`, `nat_packet()` of OVS `lib/conntrack.c`.

use super::conn::{Conn, Translation};
use super::key::{ConnKey, Endpoint, hash_addr, hash_endpoint, quoted_header_len};
use super::table::Table;
use super::{CS_DST_NAT, CS_SRC_NAT};
use crate::action::{Nat, NatKind};
use crate::cache::SplitMix64;
use crate::flow::hash;
use crate::flow::proto::{IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP};
use crate::offload::checksum;
use crate::packet::{Ipv4Field, Ipv6Field, Packet};

/// Ports that are tried one after the other, before another place in the range is drawn.
const MAX_ATTEMPTS: u32 = 128;

/// What an action asks for, as the choice needs it.
struct Request {
    kind: Translation,
    min: [u8; 16],
    max: [u8; 16],
    ports: Option<(u16, u16)>,
}

fn octets(addr: std::net::IpAddr) -> [u8; 16] {
    match addr {
        std::net::IpAddr::V4(addr) => {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&addr.octets());
            out
        }
        std::net::IpAddr::V6(addr) => addr.octets(),
    }
}

impl Request {
    fn new(nat: &Nat) -> Option<Self> {
        let kind = match nat.kind {
            NatKind::Existing => return None,
            NatKind::Src => Translation::Src,
            NatKind::Dst => Translation::Dst,
        };
        let (min, max) = nat.addr.map_or(([0; 16], [0; 16]), |(min, max)| (octets(min), octets(max)));
        Some(Self { kind, min, max, ports: nat.port.filter(|&(min, _)| min != 0) })
    }

    /// The hash that chooses, bit for bit that of OVS (`nat_range_hash`).
    fn hash(&self, key: &ConnKey, basis: u32) -> u32 {
        let hash = if basis == 0 {
            hash_addr(0, &key.src.addr)
        } else {
            hash_endpoint(hash_endpoint(basis, &key.src), &key.dst)
        };
        let (min, max) = self.ports.unwrap_or((0, 0));
        let ethertype = if key.ipv6 { 0x86dd_u16 } else { 0x0800 };
        let hash = hash_addr(hash_addr(hash, &self.min), &self.max);
        let hash = hash::add(hash, u32::from(max) << 16 | u32::from(min));
        let hash = hash::add(hash, u32::from(ethertype.swap_bytes()));
        hash::finish(hash::add(hash::add(hash, u32::from(key.proto)), u32::from(key.zone)), 0)
    }

    /// An address of the range.
    fn address(&self, key: &ConnKey, hash: u32) -> [u8; 16] {
        if self.min == [0; 16] {
            return match self.kind {
                Translation::Src => key.src.addr,
                Translation::Dst => key.dst.addr,
            };
        }
        let mut addr = self.min;
        if key.ipv6 {
            let (min, max) = (u128::from_be_bytes(self.min), u128::from_be_bytes(self.max));
            // As in OVS no more than 2^32 - 1 addresses are used.
            let range = max.saturating_sub(min).min(0xffff_fffe) + 1;
            addr = min.wrapping_add(u128::from(hash) % range).to_be_bytes();
        } else {
            let word = |addr: &[u8; 16]| u32::from_be_bytes([addr[0], addr[1], addr[2], addr[3]]);
            let (min, max) = (word(&self.min), word(&self.max));
            let range = u64::from(max.saturating_sub(min)) + 1;
            let chosen = min.wrapping_add((u64::from(hash) % range) as u32);
            addr[..4].copy_from_slice(&chosen.to_be_bytes());
        }
        addr
    }

    /// First source port to try, and the range.
    fn source_ports(&self, key: &ConnKey, offset: u32) -> (u16, u16, u16) {
        match (self.kind, self.ports) {
            (Translation::Src, Some(ports)) => in_range(ports, offset),
            _ => match key.src.port {
                port @ ..512 => (port, 1, 511),
                port @ 512..1024 => (port, 600, 1023),
                port => (port, 1024, u16::MAX),
            },
        }
    }
}

fn in_range((min, max): (u16, u16), offset: u32) -> (u16, u16, u16) {
    let range = u32::from(max.saturating_sub(min)) + 1;
    (min + (offset % range) as u16, min, max.max(min))
}

/// Chooses how the new connection `keys[0]` is translated, such that no other one gets its answers: writes `keys[1]`. Says
/// what is translated; `None` if nothing is free.
pub(super) fn choose(
    keys: &mut [ConnKey; 2],
    nat: &Nat,
    table: &Table,
    random: &mut SplitMix64,
    now: u64,
) -> Option<Option<Translation>> {
    let Some(request) = Request::new(nat) else { return Some(None) };
    let [key, reply] = keys;
    let basis = if nat.persistent { 0 } else { table.basis() };
    let chosen = request.hash(key, basis);
    let offset = if nat.random {
        random.next_u32()
    } else if nat.persistent {
        request.hash(key, table.basis())
    } else {
        chosen
    };
    let addr = request.address(key, chosen);
    match request.kind {
        Translation::Src => reply.dst.addr = addr,
        Translation::Dst => reply.src.addr = addr,
    }
    let is_free = |reply: &ConnKey| table.find(reply, now).is_none();
    if !matches!(key.proto, IP_TCP | IP_UDP | IP_SCTP | IP_ICMP) {
        return is_free(reply).then_some(Some(request.kind));
    }
    let sources = request.source_ports(key, offset);
    reply.dst.port = sources.0;
    let found = match (request.kind, request.ports) {
        (Translation::Dst, Some(ports)) => {
            let ports = in_range(ports, offset);
            search(reply, ports, random, is_free, |reply, port| reply.src.port = port)
        }
        _ => false,
    };
    let is_icmp = key.proto == IP_ICMP;
    let set = |reply: &mut ConnKey, port| {
        reply.dst.port = port;
        if is_icmp {
            reply.src.port = port;
        }
    };
    (found || search(reply, sources, random, is_free, set)).then_some(Some(request.kind))
}

/// Tries ports from `first` on, all round the range; if that is long, some here and some there.
fn search(
    reply: &mut ConnKey,
    (first, min, max): (u16, u16, u16),
    random: &mut SplitMix64,
    is_free: impl Fn(&ConnKey) -> bool,
    set: impl Fn(&mut ConnKey, u16),
) -> bool {
    let range = u32::from(max - min) + 1;
    let mut attempts = range.min(MAX_ATTEMPTS);
    let mut at = first;
    loop {
        // A first port outside of the range is tried besides those in it.
        let outside = u32::from(!(min..=max).contains(&at));
        for _ in 0..(range + outside).min(attempts.max(outside)) {
            set(reply, at);
            if is_free(reply) {
                return true;
            }
            at = if at >= max || at < min { min } else { at + 1 };
        }
        if attempts >= range || attempts < 16 {
            break;
        }
        attempts /= 2;
        at = min + (random.next_u32() % range) as u16;
    }
    set(reply, first);
    false
}

/// Translates a packet of a connection.
pub(super) fn apply(packet: &mut Packet, conn: &Conn, reply: bool, related: bool) -> u8 {
    let key = &conn.keys[usize::from(!reply)];
    let Some(nat) = conn.nat else { return 0 };
    let nat = if reply { nat.reversed() } else { nat };
    write_address(packet, key, nat);
    if related {
        translate_quoted(packet, key, nat);
    } else {
        write_ports(packet, key);
    }
    match nat {
        Translation::Src => CS_SRC_NAT,
        Translation::Dst => CS_DST_NAT,
    }
}

/// `key` is that of the packets that come back.
fn write_address(packet: &mut Packet, key: &ConnKey, nat: Translation) {
    let addr = match nat {
        Translation::Src => key.dst.addr,
        Translation::Dst => key.src.addr,
    };
    let [a, b, c, d, ..] = addr;
    let written = match (key.ipv6, nat) {
        (false, Translation::Src) => packet.set_ipv4(Ipv4Field::Src([a, b, c, d])),
        (false, Translation::Dst) => packet.set_ipv4(Ipv4Field::Dst([a, b, c, d])),
        (true, Translation::Src) => packet.set_ipv6(Ipv6Field::Src(addr)),
        (true, Translation::Dst) => packet.set_ipv6(Ipv6Field::Dst(addr)),
    };
    debug_assert!(written, "the header was there when the key was read");
}

fn write_ports(packet: &mut Packet, key: &ConnKey) {
    let (src, dst) = (key.dst.port, key.src.port);
    let _written = match key.proto {
        IP_TCP => packet.set_tcp_ports(src, dst),
        IP_UDP => packet.set_udp_ports(src, dst),
        IP_SCTP => packet.set_sctp_ports(src, dst),
        IP_ICMP if !key.ipv6 => {
            packet.set_icmpv6_bytes(4, &key.src.port.to_be_bytes());
            true
        }
        _ => true,
    };
}

/// Writes into the packet that an error quotes, so that its sender knows it again: the quoted packet has gone the other way.
fn translate_quoted(packet: &mut Packet, key: &ConnKey, nat: Translation) {
    let outer_addresses = packet.l3().map(|l3| address_bytes(l3, key.ipv6)).unwrap_or_default();
    let Some(message) = packet.l4_mut() else { return };
    let Some(quoted) = message.get_mut(8..) else { return };
    let Some(at) = quoted_header_len(quoted, key.ipv6) else { return };
    let (header, l4) = quoted.split_at_mut(at.min(quoted.len()));
    let (field, addr) = match nat {
        // The error's source is translated: it is the quoted packet's destination.
        Translation::Src => (if key.ipv6 { 24 } else { 16 }, key.dst),
        Translation::Dst => (if key.ipv6 { 8 } else { 12 }, key.src),
    };
    let len = if key.ipv6 { 16 } else { 4 };
    let Some(bytes) = header.get_mut(field..field + len) else { return };
    let mut old = [0; 16];
    old[..len].copy_from_slice(bytes);
    bytes.copy_from_slice(&addr.addr[..len]);
    let new = &addr.addr[..len];
    if !key.ipv6
        && let Some(sum) = header.get_mut(10..12).and_then(|sum| sum.first_chunk_mut::<2>())
    {
        *sum = checksum::update(*sum, &old[..len], new);
    }
    quoted_l4(l4, key, &old[..len], new);
    let sum = if key.ipv6 {
        message[2..4].fill(0);
        checksum::pseudo_ipv6(&outer_addresses, IP_ICMPV6, message.len() as u32).bytes(message).finish()
    } else {
        message[2..4].fill(0);
        checksum::internet(message)
    };
    message[2..4].copy_from_slice(&sum);
}

/// Both addresses of an IPv6 header.
fn address_bytes(l3: &[u8], is_ipv6: bool) -> [u8; 32] {
    let mut out = [0; 32];
    if is_ipv6 && let Some(both) = l3.get(8..40) {
        out.copy_from_slice(both);
    }
    out
}

/// Writes ports into the quoted packet, as much of it as there is, and does to its checksum what follows from that and
/// from the address that changed.
fn quoted_l4(l4: &mut [u8], key: &ConnKey, old_addr: &[u8], new_addr: &[u8]) {
    // The quoted packet's source is where the error goes.
    let (src, dst): (Endpoint, Endpoint) = (key.src, key.dst);
    let (sum_at, pseudo) = match key.proto {
        IP_TCP => (16, true),
        IP_UDP => (6, true),
        // A CRC32c cannot be repaired without the whole packet, which is not here.
        IP_SCTP => (usize::MAX, false),
        IP_ICMP if !key.ipv6 => {
            let Some(id) = l4.get_mut(4..6) else { return };
            let old = [id[0], id[1]];
            let new = src.port.to_be_bytes();
            id.copy_from_slice(&new);
            return update_sum(l4, 2, &old, &new, false);
        }
        IP_ICMPV6 if key.ipv6 => return update_sum(l4, 2, old_addr, new_addr, false),
        _ => return,
    };
    let is_udp = key.proto == IP_UDP;
    if is_udp && l4.get(6..8) == Some(&[0, 0]) {
        return write_quoted_ports(l4, src.port, dst.port).map_or((), drop);
    }
    let Some((old, new)) = write_quoted_ports(l4, src.port, dst.port) else { return };
    if pseudo {
        update_sum(l4, sum_at, old_addr, new_addr, is_udp);
        update_sum(l4, sum_at, &old, &new, is_udp);
    }
}

fn write_quoted_ports(l4: &mut [u8], src: u16, dst: u16) -> Option<([u8; 4], [u8; 4])> {
    let ports: &mut [u8; 4] = l4.first_chunk_mut()?;
    let ([a, b], [c, d]) = (src.to_be_bytes(), dst.to_be_bytes());
    let (old, new) = (*ports, [a, b, c, d]);
    *ports = new;
    Some((old, new))
}

fn update_sum(l4: &mut [u8], at: usize, old: &[u8], new: &[u8], is_udp: bool) {
    if let Some(sum) = l4.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
        let updated = checksum::update(*sum, old, new);
        *sum = if is_udp { checksum::udp(updated) } else { updated };
    }
}
