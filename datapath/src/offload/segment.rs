//! Segmentation of TCP in software, for a port that cannot do it: plain, or within a UDP or GRE tunnel.
//!
//! Owns where a packet is cut and what the headers of each segment say; where segments come from, and in which order they
//! leave, is the pipeline's. Counterpart: OVS `lib/dp-packet-gso.c`. Other than there, CWR is on the first segment only
//! (RFC 3168, section 6.1.2: it answers one ECE, once), and a checksum that is known to be bad stays bad.

use super::prepare::{Layer, complete_inner, complete_layer};
use super::{Capabilities, Offloads, checksum};
use crate::packet::{NO_OFFSET, Packet, tcp_header_len};

const TCP_CWR: u8 = 0x80;
const TCP_PSH: u8 = 0x08;
const TCP_FIN: u8 = 0x01;
/// Flag of a GRE header that has a checksum (RFC 2784, 2.1).
const GRE_CSUM: u8 = 0x80;

/// How a packet is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes in front of the TCP payload, which each segment gets.
    header: usize,
    /// Bytes of TCP payload.
    payload: usize,
    /// Bytes of it in each segment but the last.
    size: usize,
}

impl Plan {
    /// The plan for a packet that is marked with a segment size. None if there is nothing to cut: no TCP, a fragment, or all
    /// fits into one segment.
    pub fn of(packet: &Packet) -> Option<Self> {
        let layer = tcp_layer(packet);
        let size = usize::from(packet.tso_segsz);
        let (_, l4_ofs) = layer.offsets(packet);
        if size == 0 || !packet.offloads.contains(layer.flags(Offloads::L4_TCP)) || packet.is_fragment() {
            return None;
        }
        let l4 = packet.layer(l4_ofs)?;
        let tcp = tcp_header_len(l4)?;
        let plan = Self { header: usize::from(l4_ofs) + tcp, payload: l4.len() - tcp, size };
        (plan.payload > size).then_some(plan)
    }

    /// How many segments it makes: at least 2.
    pub fn segments(&self) -> usize {
        self.payload.div_ceil(self.size)
    }

    /// Writes segment number `index`, counted from 0, of `whole` into `segment`.
    pub fn write(&self, whole: &Packet, index: usize, segment: &mut Packet) {
        let from = index * self.size;
        let to = (from + self.size).min(self.payload);
        segment.copy_part(whole, self.header, self.header + from..self.header + to);
        self.finish(index, segment);
    }

    /// Makes `whole` its own first segment. The others are to be written before.
    pub fn cut_first(&self, whole: &mut Packet) {
        whole.set_len(self.header + self.size);
        whole.l2_pad_size = 0;
        self.finish(0, whole);
    }

    /// Makes the headers right, and marks the checksums as to be completed.
    fn finish(&self, index: usize, segment: &mut Packet) {
        segment.tso_segsz = 0;
        let before = segment.offloads;
        let tunnel = before.intersection(Offloads::TUNNEL);
        set_l3(segment, Layer::Outer, index);
        if !tunnel.is_empty() {
            set_l3(segment, Layer::Inner, index);
        }
        if tunnel.intersects(Offloads::TUNNEL_VXLAN | Offloads::TUNNEL_GENEVE) {
            let l4_ofs = segment.l4_ofs;
            if let Some(udp) = segment.layer_mut(l4_ofs) {
                let len = (udp.len() as u16).to_be_bytes();
                if let Some(field) = udp.get_mut(4..6) {
                    field.copy_from_slice(&len);
                }
            }
        }
        let layer = tcp_layer(segment);
        self.set_tcp(segment, layer, index);
        let l4 = layer.flags(Offloads::L4_PARTIAL);
        let known_bad = before.intersection(l4) == layer.flags(Offloads::L4_BAD);
        segment.offloads |= l4;
        if known_bad {
            spoil(segment, layer);
        }
        if tunnel.contains(Offloads::TUNNEL_GRE) {
            complete_gre(segment);
        }
    }

    fn set_tcp(&self, segment: &mut Packet, layer: Layer, index: usize) {
        let last = index + 1 == self.segments();
        let (_, l4_ofs) = layer.offsets(segment);
        let Some(tcp) = segment.layer_mut(l4_ofs).and_then(|l4| l4.first_chunk_mut::<14>()) else { return };
        let [.., a, b, c, d, _, _, _, _, _, flags] = tcp;
        let sequence = u32::from_be_bytes([*a, *b, *c, *d]).wrapping_add((index * self.size) as u32);
        [*a, *b, *c, *d] = sequence.to_be_bytes();
        if !last {
            *flags &= !(TCP_PSH | TCP_FIN);
        }
        if index > 0 {
            *flags &= !TCP_CWR;
        }
    }
}

/// Where the TCP header is that is to be segmented.
fn tcp_layer(packet: &Packet) -> Layer {
    if packet.offloads.intersects(Offloads::TUNNEL) { Layer::Inner } else { Layer::Outer }
}

/// Sets the lengths of a network header to what the segment has, and counts its id up.
fn set_l3(segment: &mut Packet, layer: Layer, index: usize) {
    let (l3_ofs, _) = layer.offsets(segment);
    let is_ipv6 = segment.is_ipv6_at(l3_ofs);
    let Some(l3) = segment.layer_mut(l3_ofs) else { return };
    let len = l3.len();
    if is_ipv6 {
        // What follows the fixed header (RFC 8200, section 3).
        if let Some(field) = l3.get_mut(4..6) {
            field.copy_from_slice(&(len.saturating_sub(40) as u16).to_be_bytes());
        }
        return;
    }
    let Some(header) = l3.first_chunk_mut::<12>() else { return };
    let old = *header;
    let id = u16::from_be_bytes([old[4], old[5]]).wrapping_add(index as u16);
    header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    let state = segment.offloads.intersection(layer.flags(Offloads::IP_PARTIAL));
    if state == layer.flags(Offloads::IP_BAD) {
        // As bad as it was.
        let Some(header) = segment.layer_mut(l3_ofs).and_then(|l3| l3.first_chunk_mut::<12>()) else {
            return;
        };
        let sum = checksum::update([old[10], old[11]], &old[2..6], &header[2..6]);
        header[10..12].copy_from_slice(&sum);
    } else {
        segment.offloads |= layer.flags(Offloads::IP_PARTIAL);
    }
}

/// Gives a TCP header a checksum that is wrong for certain.
fn spoil(segment: &mut Packet, layer: Layer) {
    complete_layer(segment, layer, Capabilities::IP_CSUM);
    let (_, l4_ofs) = layer.offsets(segment);
    if let Some(field) = segment.layer_mut(l4_ofs).and_then(|l4| l4.get_mut(16..18)) {
        field.iter_mut().for_each(|byte| *byte = !*byte);
    }
    segment.offloads.remove(layer.flags(Offloads::L4_PARTIAL));
    segment.offloads |= layer.flags(Offloads::L4_BAD);
}

/// The checksum of GRE covers all behind it, which has to be final first; OVS computes it over checksums that are not.
fn complete_gre(segment: &mut Packet) {
    let l4_ofs = segment.l4_ofs;
    if l4_ofs == NO_OFFSET || segment.layer(l4_ofs).is_none_or(|gre| gre.len() < 8 || gre[0] & GRE_CSUM == 0)
    {
        return;
    }
    complete_inner(segment);
    if let Some(gre) = segment.layer_mut(l4_ofs) {
        gre[4..6].fill(0);
        let sum = checksum::internet(gre);
        gre[4..6].copy_from_slice(&sum);
    }
}
