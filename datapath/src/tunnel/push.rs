//! Encapsulation with headers made beforehand: what each packet adds to them.

use crate::action::{Encap, GTPU_SEQ, TnlLayout, TnlPush, gre_len};
use crate::flow::proto::{ETH_ERSPAN2, GRE_CSUM, GRE_SEQ};
use crate::flow::{Flow, hash};
use crate::offload::{self, Offloads, checksum};
use crate::packet::{NO_OFFSET, Packet};
use crate::stats::DropReason;
use crate::types::Time;

const ETHERNET: usize = 14;
const IPV6: usize = 40;
const FLOW_LABEL: u32 = 0xf_ffff;

/// What encapsulation needs besides packet and headers.
pub(crate) struct Push<'a> {
    /// Where the headers are.
    pub layout: TnlLayout,
    /// Least and largest UDP source port; the latter is never used (`tnl/egress_port_range`).
    pub ports: (u16, u16),
    /// The next sequence number of the tunnel's port.
    pub sequence: &'a mut u32,
    /// Now, for time stamps.
    pub now: Time,
}

/// Whether a packet that is to be segmented must be segmented before it is encapsulated: where the headers number packets, or
/// no offload knows such a tunnel, or it is encapsulated already (OVS drops the former two).
pub(crate) fn needs_segments(packet: &Packet, action: &TnlPush, layout: TnlLayout) -> bool {
    packet.tso_segsz != 0
        && (packet.offloads.intersects(Offloads::TUNNEL)
            || match layout.encap {
                Encap::Vxlan | Encap::Geneve => false,
                Encap::Gre => gre_flags(action, layout) & GRE_SEQ != 0,
                Encap::Gtpu | Encap::Erspan | Encap::Srv6 => true,
            })
}

fn gre_flags(action: &TnlPush, layout: TnlLayout) -> u16 {
    action
        .header
        .get(usize::from(layout.l4)..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |&flags| u16::from_be_bytes(flags))
}

/// Puts the headers of `action` in front of `packet`. What the packet owed it owes to its inner headers from then on; the
/// outer ones are owed too. Metadata starts anew.
///
/// # Errors
/// The reason to drop the packet: it is longer than an IP datagram can be.
pub(crate) fn push(packet: &mut Packet, action: &TnlPush, with: &mut Push<'_>) -> Result<(), DropReason> {
    let layout = with.layout;
    // Padding is payload of the outer packet, and not what an inner checksum covers.
    if packet.l2_pad_size != 0 && packet.tso_segsz != 0 {
        packet.set_len(packet.len() - usize::from(packet.l2_pad_size));
        packet.l2_pad_size = 0;
    }
    let sum_of_all = layout.encap == Encap::Gre && gre_flags(action, layout) & GRE_CSUM != 0;
    let offloaded = matches!(layout.encap, Encap::Vxlan | Encap::Geneve | Encap::Gre);
    let settle = !offloaded
        || packet.l2_pad_size != 0
        || packet.offloads.intersects(Offloads::TUNNEL)
        || sum_of_all && packet.tso_segsz == 0;
    if settle {
        offload::settle(packet);
        packet.offloads.remove(Offloads::TUNNEL);
    }
    let hash = match layout.encap {
        Encap::Vxlan | Encap::Geneve | Encap::Gtpu | Encap::Srv6 => Some(packet_hash(packet)),
        Encap::Gre | Encap::Erspan => None,
    };
    let label = if layout.encap == Encap::Srv6 { flow_label(packet, action, hash) } else { None };
    let before = (packet.l3_ofs, packet.l4_ofs, packet.len());
    let len = action.header.len();
    push_network(packet, action, layout, label)?;
    match layout.encap {
        Encap::Vxlan | Encap::Geneve => finish_udp(packet, with, hash),
        Encap::Gtpu => {
            finish_udp(packet, with, hash);
            finish_gtpu(packet, with, before.2);
        }
        Encap::Gre => finish_gre(packet, with),
        Encap::Erspan => finish_erspan(packet, with),
        Encap::Srv6 => {}
    }
    let tunnel = match layout.encap {
        Encap::Vxlan => Offloads::TUNNEL_VXLAN,
        Encap::Geneve => Offloads::TUNNEL_GENEVE,
        Encap::Gre => Offloads::TUNNEL_GRE,
        // Their inner headers owe nothing any more.
        Encap::Gtpu | Encap::Erspan | Encap::Srv6 => Offloads::empty(),
    };
    if !tunnel.is_empty() {
        packet.offloads |= tunnel;
        packet.inner_l3_ofs = moved(before.0, len);
        packet.inner_l4_ofs = moved(before.1, len);
    }
    packet.md.init(action.out_port);
    Ok(())
}

/// Where an offset is behind `by` more bytes.
fn moved(offset: u16, by: usize) -> u16 {
    if offset == NO_OFFSET {
        return NO_OFFSET;
    }
    u16::try_from(usize::from(offset) + by).unwrap_or(NO_OFFSET)
}

/// The hash that tells flows apart in the underlay.
fn packet_hash(packet: &mut Packet) -> u32 {
    if let Some(hash) = packet.rss_hash {
        return hash;
    }
    let hash = hash::five_tuple(&Flow::of_packet(packet), 0);
    packet.rss_hash = Some(hash);
    hash
}

/// The flow label of a segment routing header, instead of which the ready-made one says how to get it: 0 to copy, 1 for zero,
/// 2 for a hash (OVS `enum netdev_srv6_flowlabel`).
fn flow_label(packet: &Packet, action: &TnlPush, hash: Option<u32>) -> Option<u32> {
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |&word| u32::from_be_bytes(word));
    match word(action.header.get(ETHERNET..)?) & FLOW_LABEL {
        0 => {
            let inner = word(packet.l3().unwrap_or_default());
            Some(if inner >> 28 == 6 { inner & FLOW_LABEL } else { 0 })
        }
        2 => hash.map(|hash| hash & FLOW_LABEL),
        _ => Some(0),
    }
}

/// Pushes all headers, and completes the network header.
fn push_network(
    packet: &mut Packet,
    action: &TnlPush,
    layout: TnlLayout,
    label: Option<u32>,
) -> Result<(), DropReason> {
    let total = packet.len() + action.header.len() - ETHERNET;
    let (len, at) = if layout.ipv6 { (total - IPV6, 4) } else { (total, 2) };
    let len = match u16::try_from(len) {
        Ok(len) => len,
        // Each segment will have its own.
        Err(_) if packet.tso_segsz != 0 => u16::MAX,
        Err(_) => return Err(DropReason::TunnelEncap),
    };
    packet.offloads = Offloads::from_bits_truncate(packet.offloads.bits() << 16);
    packet.push_front(action.header.len()).copy_from_slice(&action.header);
    packet.packet_type = 0;
    packet.reset_offsets();
    packet.l3_ofs = ETHERNET as u16;
    packet.l4_ofs = layout.l4;
    if let Some(l3) = packet.l3_mut() {
        l3[at..at + 2].copy_from_slice(&len.to_be_bytes());
        if let (Some(label), Some(word)) = (label, l3.first_chunk_mut::<4>()) {
            *word = (u32::from_be_bytes(*word) & !FLOW_LABEL | label).to_be_bytes();
        }
    }
    if !layout.ipv6 {
        packet.offloads |= Offloads::IP_PARTIAL;
    }
    Ok(())
}

fn finish_udp(packet: &mut Packet, with: &Push<'_>, hash: Option<u32>) {
    let (low, high) = with.ports;
    let range = u64::from(high.saturating_sub(low));
    let source = low + ((u64::from(hash.unwrap_or(0)) * range) >> 32) as u16;
    let len = packet.len() - usize::from(packet.l4_ofs);
    let Some(udp) = packet.l4_mut().and_then(<[u8]>::first_chunk_mut::<8>) else { return };
    let has_checksum = udp[6..] != [0, 0];
    udp[..2].copy_from_slice(&source.to_be_bytes());
    udp[4..6].copy_from_slice(&u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes());
    packet.offloads |= Offloads::L4_UDP;
    packet.offloads |= if has_checksum { Offloads::L4_PARTIAL } else { Offloads::L4_GOOD };
}

/// The length counts what follows the first eight bytes (3GPP TS 29.281, 5.1).
fn finish_gtpu(packet: &mut Packet, with: &mut Push<'_>, payload: usize) {
    let Some(gtpu) = packet.l4_mut().and_then(|l4| l4.get_mut(8..)) else { return };
    let mut payload = payload;
    if gtpu[0] & GTPU_SEQ != 0 {
        let sequence = (next(with.sequence) as u16).to_be_bytes();
        gtpu[8..10].copy_from_slice(&sequence);
        payload += 4;
    }
    gtpu[2..4].copy_from_slice(&u16::try_from(payload).unwrap_or(u16::MAX).to_be_bytes());
}

fn next(sequence: &mut u32) -> u32 {
    let number = *sequence;
    *sequence = sequence.wrapping_add(1);
    number
}

fn finish_gre(packet: &mut Packet, with: &mut Push<'_>) {
    let whole = packet.tso_segsz == 0;
    let Some(gre) = packet.l4_mut() else { return };
    let flags = u16::from_be_bytes([gre[0], gre[1]]);
    if flags & GRE_SEQ != 0 {
        let end = gre_len(flags);
        gre[end - 4..end].copy_from_slice(&next(with.sequence).to_be_bytes());
    }
    // It covers the sequence number, which OVS writes afterwards. Segments get theirs when they are cut.
    if flags & GRE_CSUM != 0 && whole {
        gre[4..6].fill(0);
        let sum = checksum::internet(gre);
        gre[4..6].copy_from_slice(&sum);
    }
}

/// Sequence number, and in version 2 a time stamp in units of 100 microseconds.
fn finish_erspan(packet: &mut Packet, with: &mut Push<'_>) {
    let Some(gre) = packet.l4_mut() else { return };
    gre[4..8].copy_from_slice(&next(with.sequence).to_be_bytes());
    if u16::from_be_bytes([gre[2], gre[3]]) == ETH_ERSPAN2
        && let Some(stamp) = gre.get_mut(12..16)
    {
        stamp.copy_from_slice(&((with.now.0 / 100_000) as u32).to_be_bytes());
    }
}
