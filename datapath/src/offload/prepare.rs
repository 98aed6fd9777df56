//! Completing in software what a packet owes and its port cannot do.
//!
//! Counterpart: `dp_packet_ol_send_prepare()` of OVS `lib/dp-packet.c` and the `_complete_csum` functions of
//! `lib/packets.c`. A checksum known bad, or of unknown state, is never touched.

use super::{Capabilities, Offloads, checksum};
use crate::flow::proto::{IP_TCP, IP_UDP};
use crate::packet::{NO_OFFSET, Packet, ipv6_path};

/// What [`prepare_for`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Prepared {
    /// Nothing was owed, or the port does it.
    Ready,
    /// Something was completed.
    Completed,
    /// The packet was marked as owing an L4 checksum, but has none that could be completed: no TCP, UDP or SCTP, or only a
    /// fragment of it. It leaves as it is. Worth a counter; OVS aborts.
    NothingToComplete,
    /// It is to be segmented, and the port does not do that. Nothing was done: cut it ([`Plan`](super::Plan)), and prepare
    /// each segment; or, where there is nothing to cut, take the mark away and prepare it as it is.
    ToSegment,
}

/// Which of the headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Outer,
    Inner,
}

impl Layer {
    /// `flags`, named for the outer header, as they stand for this one.
    pub(super) fn flags(self, flags: Offloads) -> Offloads {
        match self {
            Self::Outer => flags,
            Self::Inner => Offloads::from_bits_truncate(flags.bits() << 16),
        }
    }

    /// Offsets of L3 and L4.
    pub(super) fn offsets(self, packet: &Packet) -> (u16, u16) {
        match self {
            Self::Outer => (packet.l3_ofs, packet.l4_ofs),
            Self::Inner => (packet.inner_l3_ofs, packet.inner_l4_ofs),
        }
    }
}

/// Makes `packet` ready for a port with `port`'s capabilities: completes the checksums that it owes and the port cannot compute.
/// To be called on output, and only there.
pub fn prepare_for(packet: &mut Packet, port: Capabilities) -> Prepared {
    let owed = packet.offloads;
    let any_partial = partial(owed, Layer::Outer, Offloads::IP_PARTIAL)
        || partial(owed, Layer::Outer, Offloads::L4_PARTIAL)
        || partial(owed, Layer::Inner, Offloads::IP_PARTIAL)
        || partial(owed, Layer::Inner, Offloads::L4_PARTIAL);
    if packet.tso_segsz == 0 && !any_partial {
        return Prepared::Ready;
    }
    prepare_owing(packet, port)
}

/// Completes what `packet` still owes, but for what `left` names: as a device does that announces more than it leaves to the
/// wire (OVS `netdev_dummy_send()`). Returns false if there was an L4 checksum owed that cannot be completed.
#[cold]
pub fn finish(packet: &mut Packet, left: Capabilities) -> bool {
    complete(packet, left)
}

fn partial(offloads: Offloads, layer: Layer, flags: Offloads) -> bool {
    offloads.contains(layer.flags(flags))
}

#[cold]
fn prepare_owing(packet: &mut Packet, port: Capabilities) -> Prepared {
    if packet.tso_segsz != 0 && !port.contains(segmentation(packet.offloads)) {
        return Prepared::ToSegment;
    }
    let before = packet.offloads;
    let complete = complete(packet, port);
    match (complete, packet.offloads == before) {
        (false, _) => Prepared::NothingToComplete,
        (true, true) => Prepared::Ready,
        (true, false) => Prepared::Completed,
    }
}

/// Completes what the packet owes and is not in `port`; returns false if there was an L4 checksum owed that cannot be.
fn complete(packet: &mut Packet, port: Capabilities) -> bool {
    let before = packet.offloads;
    let inner_owes = partial(before, Layer::Inner, Offloads::IP_PARTIAL)
        || partial(before, Layer::Inner, Offloads::L4_PARTIAL);
    let outer_owes = partial(before, Layer::Outer, Offloads::IP_PARTIAL)
        || partial(before, Layer::Outer, Offloads::L4_PARTIAL);
    if !inner_owes && outer_owes && packet.tso_segsz == 0 {
        // To the port, it is a plain packet.
        packet.offloads.remove(Offloads::TUNNEL);
    }
    if !packet.offloads.intersects(Offloads::TUNNEL) {
        return complete_layer(packet, Layer::Outer, port);
    }
    // The outer UDP checksum covers the inner ones: what is computed here needs them final, or at least known. A port that
    // does the outer one does it after the inner ones.
    let outer_here =
        partial(before, Layer::Outer, Offloads::L4_PARTIAL) && !port.contains(Capabilities::OUTER_UDP_CSUM);
    let inner = match outer_here {
        false => port,
        true if complete_outer_udp(packet).is_some() => port - Capabilities::SCTP_CSUM,
        true => Capabilities::empty(),
    };
    let complete = complete_layer(packet, Layer::Inner, inner);
    complete & complete_layer(packet, Layer::Outer, outer_as_plain(port))
}

/// Computes the checksum of an outer UDP header without looking at the inner payload: an inner L4 checksum that is good, or
/// will be, says what that and the inner L4 header come to: the complement of their pseudo header. (Local checksum offload;
/// OVS `packet_udp_tunnel_csum()`.)
fn complete_outer_udp(packet: &mut Packet) -> Option<()> {
    let known = |flag| packet.offloads.contains(Layer::Inner.flags(flag));
    let (proto, at) = if known(Offloads::L4_TCP) {
        (IP_TCP, 16)
    } else if known(Offloads::L4_UDP) {
        (IP_UDP, 6)
    } else {
        return None;
    };
    let (inner_l3, inner_l4) = (packet.inner_l3_ofs, packet.inner_l4_ofs);
    let l4 = packet.layer(inner_l4)?;
    let has_checksum = proto == IP_TCP || l4.get(at..at + 2)? != [0, 0];
    if !known(Offloads::L4_GOOD) || !has_checksum || l4.len() < if proto == IP_TCP { 20 } else { 8 } {
        return None;
    }
    let inner = pseudo_header(packet, inner_l3, proto, l4.len())?.finish();
    // The IPv4 header comes to nothing once its own checksum is right.
    let header_counts = packet.is_ipv6_at(inner_l3) || !known(Offloads::IP_GOOD);
    let outer_len = packet.layer(packet.l4_ofs)?.len();
    let pseudo = pseudo_header(packet, packet.l3_ofs, IP_UDP, outer_len)?;
    let (udp, end) = (usize::from(packet.l4_ofs), if header_counts { inner_l4 } else { inner_l3 });
    let headers = packet.data_mut().get_mut(udp..usize::from(end))?;
    headers.get_mut(6..8)?.fill(0);
    let sum = checksum::udp(pseudo.bytes(headers).bytes(&inner).finish());
    headers.get_mut(6..8)?.copy_from_slice(&sum);
    packet.offloads.remove(Offloads::L4_BAD);
    Some(())
}

/// Capabilities for outer headers, under the names of those for plain ones.
fn outer_as_plain(port: Capabilities) -> Capabilities {
    let mut outer = Capabilities::empty();
    outer.set(Capabilities::IP_CSUM, port.contains(Capabilities::OUTER_IP_CSUM));
    outer.set(Capabilities::UDP_CSUM, port.contains(Capabilities::OUTER_UDP_CSUM));
    outer
}

/// What a port must be able to do to segment a packet. It writes network headers and TCP checksums anew; the checksum of an
/// outer UDP header, if there is one, covers each segment by itself.
fn segmentation(offloads: Offloads) -> Capabilities {
    let mut needed = Capabilities::TSO | Capabilities::TCP_CSUM;
    if offloads.intersects(Offloads::TUNNEL) && partial(offloads, Layer::Outer, Offloads::L4_PARTIAL) {
        needed |= Capabilities::OUTER_UDP_CSUM;
    }
    needed
        | match offloads.intersection(Offloads::TUNNEL) {
            Offloads::TUNNEL_VXLAN => Capabilities::VXLAN_TSO,
            Offloads::TUNNEL_GENEVE => Capabilities::GENEVE_TSO,
            Offloads::TUNNEL_GRE => Capabilities::GRE_TSO,
            _ => Capabilities::empty(),
        }
}

/// Completes what the inner headers owe.
pub(super) fn complete_inner(packet: &mut Packet) {
    complete_layer(packet, Layer::Inner, Capabilities::empty());
}

/// Completes whatever checksum the packet owes and can be found, as before something reads its bytes: truncation,
/// fragmentation, a controller, headers that hide others.
pub fn settle(packet: &mut Packet) {
    if packet.offloads.intersects(Offloads::TUNNEL) {
        complete_inner(packet);
    }
    complete_layer(packet, Layer::Outer, Capabilities::empty());
}

/// Completes what `layer` owes and is not in `port`; returns false if there was an L4 checksum owed that cannot be.
pub(super) fn complete_layer(packet: &mut Packet, layer: Layer, port: Capabilities) -> bool {
    let l4 = complete_l4(packet, layer, port);
    // Without a checksum of its own (IPv6), a network header owes none.
    if partial(packet.offloads, layer, Offloads::IP_PARTIAL) && !port.contains(Capabilities::IP_CSUM) {
        complete_ipv4(packet, layer);
    }
    l4
}

fn complete_ipv4(packet: &mut Packet, layer: Layer) {
    let (l3_ofs, _) = layer.offsets(packet);
    if packet.is_ipv6_at(l3_ofs) {
        packet.offloads.remove(layer.flags(Offloads::IP_PARTIAL));
        return;
    }
    let Some(l3) = packet.layer_mut(l3_ofs) else {
        return;
    };
    let header_len = usize::from(l3.first().copied().unwrap_or(0) & 0x0f) * 4;
    let Some(header) = l3.get_mut(..header_len).filter(|header| header.len() >= 20) else {
        return;
    };
    header[10..12].fill(0);
    let sum = checksum::internet(header);
    header[10..12].copy_from_slice(&sum);
    packet.offloads.remove(layer.flags(Offloads::IP_BAD));
}

fn complete_l4(packet: &mut Packet, layer: Layer, port: Capabilities) -> bool {
    if !partial(packet.offloads, layer, Offloads::L4_PARTIAL) {
        return true;
    }
    let proto = |flag| partial(packet.offloads, layer, flag);
    let (able, complete): (_, fn(&mut Packet, Layer) -> Option<()>) = if proto(Offloads::L4_TCP) {
        (Capabilities::TCP_CSUM, |packet, layer| complete_tcp_udp(packet, layer, IP_TCP, 16, 20))
    } else if proto(Offloads::L4_UDP) {
        (Capabilities::UDP_CSUM, |packet, layer| complete_tcp_udp(packet, layer, IP_UDP, 6, 8))
    } else if proto(Offloads::L4_SCTP) {
        (Capabilities::SCTP_CSUM, complete_sctp)
    } else {
        return false;
    };
    if port.contains(able) {
        return true;
    }
    // OVS computes a sum over the fragment, which is right for nobody.
    if layer == Layer::Outer && packet.is_fragment() || complete(packet, layer).is_none() {
        return false;
    }
    packet.offloads.remove(layer.flags(Offloads::L4_BAD));
    true
}

/// Computes the checksum `at` of a TCP or UDP header of at least `min_len` bytes. A UDP checksum of 0 is none and stays.
fn complete_tcp_udp(packet: &mut Packet, layer: Layer, proto: u8, at: usize, min_len: usize) -> Option<()> {
    let (l3_ofs, l4_ofs) = layer.offsets(packet);
    let len = packet.layer(l4_ofs)?.len();
    if len < min_len {
        return None;
    }
    let pseudo = pseudo_header(packet, l3_ofs, proto, len)?;
    let l4 = packet.layer_mut(l4_ofs)?;
    let field = &mut l4[at..at + 2];
    if proto == IP_UDP && field == [0, 0] {
        return Some(());
    }
    field.fill(0);
    let sum = pseudo.bytes(l4).finish();
    let sum = if proto == IP_UDP { checksum::udp(sum) } else { sum };
    l4[at..at + 2].copy_from_slice(&sum);
    Some(())
}

/// The sum over the pseudo header of `len` bytes behind the network header at `l3_ofs`.
fn pseudo_header(packet: &Packet, l3_ofs: u16, proto: u8, len: usize) -> Option<checksum::Sum> {
    let l3 = packet.layer(l3_ofs)?;
    if !packet.is_ipv6_at(l3_ofs) {
        let addresses: &[u8; 8] = l3.get(12..20)?.first_chunk()?;
        return Some(checksum::pseudo_ipv4(addresses, proto, len as u16));
    }
    // The protocol is the last one, not the fixed header's (OVS takes that one, which is wrong behind extensions); the destination
    // is the last one too.
    let addresses: &[u8; 32] = l3.get(8..40)?.first_chunk()?;
    let mut addresses = *addresses;
    if let Some(last) = ipv6_path(l3)?.final_destination {
        addresses[16..].copy_from_slice(&last);
    }
    Some(checksum::pseudo_ipv6(&addresses, proto, len as u32))
}

/// Begins the checksum of the outer TCP or UDP header for a device that adds the rest up: the sum of the pseudo header, not
/// complemented. Returns where the sum begins and, from there, where it goes.
pub fn begin_l4_checksum(packet: &mut Packet) -> Option<(u16, u16)> {
    let (proto, at) = if packet.offloads.contains(Offloads::L4_TCP) {
        (IP_TCP, 16)
    } else if packet.offloads.contains(Offloads::L4_UDP) {
        (IP_UDP, 6)
    } else {
        return None;
    };
    let l4_ofs = packet.l4_ofs;
    let len = packet.layer(l4_ofs)?.len();
    let [a, b] = pseudo_header(packet, packet.l3_ofs, proto, len)?.finish();
    packet.layer_mut(l4_ofs)?.get_mut(at..at + 2)?.copy_from_slice(&[!a, !b]);
    Some((l4_ofs, at as u16))
}

/// Completes a checksum that was begun so, wherever it is: what is from `start` on, to be written at `offset` from there.
pub fn complete_at(packet: &mut Packet, start: usize, offset: usize) {
    let Some(bytes) = packet.data_mut().get_mut(start..) else { return };
    let sum = checksum::Sum::new().bytes(bytes).finish();
    // No checksum of UDP is 0, and for TCP that is the same.
    if let Some(field) = bytes.get_mut(offset..offset + 2) {
        field.copy_from_slice(&if sum == [0, 0] { [0xff, 0xff] } else { sum });
    }
}

fn complete_sctp(packet: &mut Packet, layer: Layer) -> Option<()> {
    let (_, l4_ofs) = layer.offsets(packet);
    let l4 = packet.layer_mut(l4_ofs)?;
    let sum = checksum::sctp(l4)?;
    l4[8..12].copy_from_slice(&sum);
    Some(())
}

impl Packet {
    /// Whether the outer network header is one of IPv6.
    pub(crate) fn is_ipv6_frame(&self) -> bool {
        self.is_ipv6_at(self.l3_ofs)
    }

    /// Whether the header at `offset` is an IPv6 one, by its version.
    pub(super) fn is_ipv6_at(&self, offset: u16) -> bool {
        if offset != NO_OFFSET && offset == self.l3_ofs {
            return self.is_ipv6();
        }
        self.layer(offset).is_some_and(|l3| l3.first().is_some_and(|first| first >> 4 == 6))
    }
}
