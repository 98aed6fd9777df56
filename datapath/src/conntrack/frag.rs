//! Fragments: held until all of a datagram are here, put together for tracking, and then sent on as they came.
//!
//! Owns the fragments that wait, within limits. Counterpart: OVS `lib/ipf.c`; a datagram may have the full 65,535 bytes here
//! (there the Ethernet header counts).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::CS_INVALID;
use super::key::{Network, ipv4_header_valid, network};
use crate::action::exec::Packets;
use crate::offload;
use crate::packet::{Ipv4Field, Ipv6Field, Packet, ipv6_path};
use crate::types::{Span, Time};

/// Fragments wait this long for the rest.
const TIMEOUT: Span = Span::from_secs(15);
/// How much longer until those go that no packet came after.
const PURGE: Span = Span::from_secs(10);
/// How often these are looked for.
const CLEAN: Span = Span::from_secs(60);
/// Largest datagram.
const MAX_DATAGRAM: usize = 65_535;
/// Longest IPv4 header.
const MAX_IPV4_HEADER: usize = 60;

/// Counts of fragments (`ipf-get-status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragCounters {
    /// Taken in.
    pub accepted: u64,
    /// Sent on, as part of a whole datagram.
    pub sent: u64,
    /// Dropped: the rest did not come in time.
    pub expired: u64,
    /// Not taken in: smaller than allowed.
    pub too_small: u64,
    /// Not taken in: overlaps another.
    pub overlap: u64,
    /// Dropped: the rest did not come, and no other packet either.
    pub purged: u64,
}

/// Settings for one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragConfig {
    /// Fragments are put together.
    pub enabled: bool,
    /// Fragments but the last one are this long at least, bytes from the network header on.
    pub min_size: u32,
}

/// Which datagram a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    ipv6: bool,
    zone: u16,
    proto: u8,
    id: u32,
    recirc_id: u32,
    src: [u8; 16],
    dst: [u8; 16],
}

#[derive(Clone, Debug)]
struct Fragment {
    packet: Box<Packet>,
    start: usize,
    /// One behind the last byte.
    end: usize,
}

/// The fragments of a datagram, in the order of their place.
#[derive(Clone, Debug)]
struct List {
    fragments: Vec<Fragment>,
    expires: Time,
    last_seen: bool,
    /// They cannot be put together.
    failed: bool,
}

/// A datagram put together from its fragments.
pub(crate) struct Reassembled {
    /// The datagram, to be tracked.
    pub(crate) packet: Box<Packet>,
    fragments: Vec<Fragment>,
    ipv6: bool,
}

/// What became of a packet.
pub(crate) enum Gathered {
    /// It is no fragment, or cannot be taken in: it goes on by itself.
    Alone(Box<Packet>),
    /// It waits.
    Held,
    /// With it, a datagram is complete.
    Complete(Reassembled),
}

/// All fragments that wait.
#[derive(Clone, Debug)]
pub struct Fragments {
    lists: BTreeMap<Key, List>,
    /// Settings, of IPv4 and of IPv6.
    pub config: [FragConfig; 2],
    /// Fragments at most.
    pub max: u32,
    held: u32,
    counters: [FragCounters; 2],
    next_clean: Time,
    /// None of those that wait is over before this.
    first_over: Time,
}

impl Default for Fragments {
    /// As in OVS.
    fn default() -> Self {
        Self {
            lists: BTreeMap::new(),
            config: [1200, 1280].map(|min_size| FragConfig { enabled: true, min_size }),
            max: 1000,
            held: 0,
            counters: [FragCounters::default(); 2],
            next_clean: Time::ZERO + CLEAN,
            first_over: Time::ZERO,
        }
    }
}

/// What a fragment's headers say.
struct Place {
    key: Key,
    start: usize,
    end: usize,
    more: bool,
}

impl Fragments {
    /// Fragments that wait.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Counts, of IPv4 and of IPv6.
    pub fn counters(&self) -> &[FragCounters; 2] {
        &self.counters
    }

    /// The datagrams that wait, one a line (`ipf-get-status -m`).
    pub fn text(&self) -> String {
        let mut out = String::from("\n        Fragment Lists:\n\n");
        for (key, list) in &self.lists {
            let (kind, [src, dst]) = match key.ipv6 {
                true => (0x86dd, [key.src, key.dst].map(|addr| IpAddr::from(Ipv6Addr::from(addr)))),
                false => (0x800, [key.src, key.dst].map(|[a, b, c, d, ..]| Ipv4Addr::new(a, b, c, d).into())),
            };
            let Key { recirc_id, id, zone, proto, .. } = key;
            let first = list.fragments.first().is_some_and(|fragment| fragment.start == 0);
            let state = match (list.failed, first, list.last_seen) {
                (true, _, _) => "reassemble fail",
                (_, true, true) => "first/last frag",
                (_, true, false) => "first frag",
                (_, false, true) => "last frag",
                (_, false, false) => "other frag",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "(src={src},dst={dst},recirc_id={recirc_id},ip_id={id},dl_type={kind:#x},zone={zone},nw_proto={proto},\
                 num_fragments={},state={state})",
                list.fragments.len()
            );
        }
        out
    }

    /// Takes a packet in, if it is a fragment.
    pub(crate) fn gather(&mut self, mut packet: Box<Packet>, zone: u16, now: Time) -> Gathered {
        let Some(place) = self.place(&mut packet, zone) else { return Gathered::Alone(packet) };
        let version = usize::from(place.key.ipv6);
        if !self.config[version].enabled || self.held >= self.max {
            return Gathered::Alone(packet);
        }
        let limit = self.list_limit(version);
        if self.lists.is_empty() {
            self.first_over = now + TIMEOUT;
        }
        let list = self.lists.entry(place.key).or_insert_with(|| List {
            fragments: Vec::new(),
            expires: now + TIMEOUT,
            last_seen: false,
            failed: false,
        });
        if list.failed || list.fragments.len() >= limit {
            return Gathered::Alone(packet);
        }
        let overlaps = |other: &Fragment| place.start < other.end && other.start < place.end;
        if list.fragments.iter().any(overlaps) || place.end > MAX_DATAGRAM {
            self.counters[version].overlap += 1;
            packet.md.ct_state = CS_INVALID;
            if list.fragments.is_empty() {
                self.lists.remove(&place.key);
            }
            return Gathered::Alone(packet);
        }
        let at = list.fragments.partition_point(|other| other.start < place.start);
        list.fragments.insert(at, Fragment { packet, start: place.start, end: place.end });
        list.last_seen |= !place.more;
        self.held += 1;
        self.counters[version].accepted += 1;
        let whole = list.last_seen
            && list.fragments.first().is_some_and(|first| first.start == 0)
            && list.fragments.windows(2).all(|pair| pair[0].end == pair[1].start);
        if !whole {
            return Gathered::Held;
        }
        let Some(datagram) = reassemble(&list.fragments, place.key.ipv6) else {
            list.failed = true;
            return Gathered::Held;
        };
        let fragments = std::mem::take(&mut list.fragments);
        self.lists.remove(&place.key);
        self.held -= fragments.len() as u32;
        self.counters[version].sent += fragments.len() as u64;
        Gathered::Complete(Reassembled { packet: datagram, fragments, ipv6: place.key.ipv6 })
    }

    /// Most fragments of a datagram.
    fn list_limit(&self, version: usize) -> usize {
        if version == 1 {
            return MAX_DATAGRAM;
        }
        let min = (self.config[0].min_size as usize).saturating_sub(MAX_IPV4_HEADER).max(1);
        (MAX_DATAGRAM - MAX_IPV4_HEADER).div_ceil(min)
    }

    /// Reads a fragment's headers; `None` if it is no fragment, or one that is marked as invalid.
    fn place(&mut self, packet: &mut Packet, zone: u16) -> Option<Place> {
        let place = match network(packet)? {
            Network::Ipv4 => self.place_v4(packet, zone),
            Network::Ipv6 => self.place_v6(packet, zone),
        };
        match place {
            Ok(place) => place,
            Err(Invalid) => {
                packet.md.ct_state = CS_INVALID;
                None
            }
        }
    }

    fn place_v4(&mut self, packet: &mut Packet, zone: u16) -> Result<Option<Place>, Invalid> {
        let l3 = packet.l3().ok_or(Invalid)?;
        let header: [u8; 20] = *l3.first_chunk().ok_or(Invalid)?;
        let flags = u16::from_be_bytes([header[6], header[7]]);
        if flags & 0x3fff == 0 {
            return Ok(None);
        }
        if !self.config[0].enabled {
            return Ok(None);
        }
        let (size, header_len) = (l3.len(), usize::from(header[0] & 0x0f) * 4);
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total != size || header_len < 20 || header_len >= size || !ipv4_header_valid(packet) {
            return Err(Invalid);
        }
        let (start, more) = (usize::from(flags & 0x1fff) * 8, flags & 0x2000 != 0);
        self.check_size(0, size, more)?;
        let mut key = Key {
            ipv6: false,
            zone,
            proto: header[9],
            id: u32::from(u16::from_be_bytes([header[4], header[5]])),
            recirc_id: packet.md.recirc_id,
            src: [0; 16],
            dst: [0; 16],
        };
        key.src[..4].copy_from_slice(&header[12..16]);
        key.dst[..4].copy_from_slice(&header[16..20]);
        Ok(Some(Place { key, start, end: start + size - header_len, more }))
    }

    fn place_v6(&mut self, packet: &mut Packet, zone: u16) -> Result<Option<Place>, Invalid> {
        let l3 = packet.l3().ok_or(Invalid)?;
        let header: &[u8; 40] = l3.first_chunk().ok_or(Invalid)?;
        let Some(path) = ipv6_path(l3).filter(|path| path.fragment) else { return Ok(None) };
        if !self.config[1].enabled {
            return Ok(None);
        }
        let fragment = path.fragment_at.ok_or(Invalid)?;
        let &[_, _, high, low, a, b, c, d] =
            l3.get(fragment..).and_then(<[u8]>::first_chunk).ok_or(Invalid)?;
        if usize::from(u16::from_be_bytes([header[4], header[5]])) + 40 != l3.len() {
            return Err(Invalid);
        }
        let offset = u16::from_be_bytes([high, low]);
        let (start, more) = (usize::from(offset & 0xfff8), offset & 1 != 0);
        let mut key = Key {
            ipv6: true,
            zone,
            proto: 0,
            id: u32::from_be_bytes([a, b, c, d]),
            recirc_id: packet.md.recirc_id,
            src: [0; 16],
            dst: [0; 16],
        };
        key.src.copy_from_slice(&header[8..24]);
        key.dst.copy_from_slice(&header[24..40]);
        let (size, end) = (l3.len(), start + l3.len() - fragment - 8);
        self.check_size(1, size, more)?;
        if end == start {
            return Err(Invalid);
        }
        Ok(Some(Place { key, start, end, more }))
    }

    fn check_size(&mut self, version: usize, size: usize, more: bool) -> Result<(), Invalid> {
        if more && size < self.config[version].min_size as usize {
            self.counters[version].too_small += 1;
            return Err(Invalid);
        }
        Ok(())
    }

    /// Takes out the datagram that has waited too long, if there is one; not more than one at a time, as in OVS.
    pub(crate) fn expire(&mut self, now: Time) -> Packets {
        if self.lists.is_empty() || now <= self.first_over {
            return Vec::new();
        }
        let oldest =
            self.lists.iter().min_by_key(|(_, list)| list.expires).map(|(&key, list)| (key, list.expires));
        let Some((key, expires)) = oldest else { return Vec::new() };
        self.first_over = expires;
        let over = (now > expires).then_some(key);
        self.take_out(over, |counters, n| counters.expired += n)
    }

    /// Takes out what waited so long that no packet has come since, when it is time to look.
    pub(crate) fn run(&mut self, now: Time) -> Packets {
        if now < self.next_clean {
            return Vec::new();
        }
        self.next_clean = now + CLEAN;
        let over = self.lists.iter().filter(|(_, list)| now >= list.expires + PURGE);
        let keys: Vec<Key> = over.map(|(&key, _)| key).collect();
        self.take_out(keys, |counters, n| counters.purged += n)
    }

    /// When [`Self::run`] has something to do.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        (!self.lists.is_empty()).then_some(self.next_clean)
    }

    fn take_out(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        count: impl Fn(&mut FragCounters, u64),
    ) -> Packets {
        let mut packets = Vec::new();
        for key in keys {
            let Some(list) = self.lists.remove(&key) else { continue };
            self.held -= list.fragments.len() as u32;
            count(&mut self.counters[usize::from(key.ipv6)], list.fragments.len() as u64);
            packets.extend(list.fragments.into_iter().map(|fragment| fragment.packet));
        }
        packets
    }
}

/// Not a fragment that can be.
struct Invalid;

/// Puts a datagram together, by the headers of its first fragment; `None` if it would be too big.
fn reassemble(fragments: &[Fragment], ipv6: bool) -> Option<Box<Packet>> {
    let first = fragments.first()?;
    let end = fragments.last()?.end;
    let mut packet = Box::new(Packet::clone(&first.packet));
    let l3 = packet.l3()?;
    let rest = end - first.end;
    let (size, padding) = (l3.len(), usize::from(packet.l2_pad_size));
    if size + rest > MAX_DATAGRAM + if ipv6 { 40 } else { 0 } {
        return None;
    }
    let mut at = packet.len() - padding;
    packet.l2_pad_size = 0;
    packet.set_len(at + rest);
    for fragment in &fragments[1..] {
        let l4 = fragment.packet.l4()?;
        let payload = l4.get(..fragment.end - fragment.start)?;
        packet.data_mut().get_mut(at..at + payload.len())?.copy_from_slice(payload);
        at += payload.len();
    }
    if ipv6 {
        let offset = ipv6_path(packet.l3()?)?.fragment_at?;
        let l3 = packet.l3_mut()?;
        let len = u16::try_from(size + rest - 40).ok()?;
        l3[4..6].copy_from_slice(&len.to_be_bytes());
        l3.get_mut(offset + 2..offset + 4)?.fill(0);
    } else {
        let len = u16::try_from(size + rest).ok()?;
        let l3 = packet.l3_mut()?;
        l3[2..4].copy_from_slice(&len.to_be_bytes());
        l3[6] &= 0x40;
        l3[7] = 0;
        // The header's checksum was found right, and is right again.
        let header = usize::from(l3[0] & 0x0f) * 4;
        l3[10..12].fill(0);
        let sum = offload::checksum::internet(l3.get(..header)?);
        l3[10..12].copy_from_slice(&sum);
    }
    Some(packet)
}

impl Reassembled {
    /// Tells the fragments what became of the datagram, and gives them back with it, in order: what was written into
    /// it is written into them.
    pub(crate) fn take_apart(self) -> (Box<Packet>, impl Iterator<Item = Box<Packet>>) {
        let Self { mut packet, mut fragments, ipv6 } = self;
        offload::settle(&mut packet);
        for fragment in &mut fragments {
            copy_addresses(&packet, &mut fragment.packet, ipv6);
            if let Some(ct) = packet.md.ct() {
                fragment.packet.md.set_ct(packet.md.ct_state, *ct);
            }
        }
        // After the addresses, which leave their mark in the checksum as long as that is of another datagram.
        if let (Some(first), Some(l4)) = (fragments.first_mut(), packet.l4())
            && let Some(to) = first.packet.l4_mut()
        {
            let len = to.len().min(l4.len());
            to[..len].copy_from_slice(&l4[..len]);
        }
        (packet, fragments.into_iter().map(|fragment| fragment.packet))
    }
}

fn copy_addresses(from: &Packet, to: &mut Packet, ipv6: bool) {
    let Some(l3) = from.l3() else { return };
    if ipv6 {
        let Some(header) = l3.first_chunk::<40>() else { return };
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        src.copy_from_slice(&header[8..24]);
        dst.copy_from_slice(&header[24..40]);
        let _there = to.set_ipv6(Ipv6Field::Src(src)) && to.set_ipv6(Ipv6Field::Dst(dst));
    } else {
        let Some(&[_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h]) = l3.first_chunk::<20>()
        else {
            return;
        };
        let _there = to.set_ipv4(Ipv4Field::Src([a, b, c, d])) && to.set_ipv4(Ipv4Field::Dst([e, f, g, h]));
    }
}
