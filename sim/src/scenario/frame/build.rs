//! From layers to bytes: from the inside out, so that each header knows what it carries.

use std::net::IpAddr;
use std::ops::Range;

use super::{FrameError, Ipv4, Layer, error};
use crate::wire::{checksum, pseudo_header};

pub(super) fn build(layers: &[(Layer, Range<usize>)]) -> Result<Vec<u8>, FrameError> {
    let mut payload: Vec<u8> = Vec::new();
    for (index, (layer, span)) in layers.iter().enumerate().rev() {
        let after = layers.get(index + 1).map(|(layer, _)| layer);
        let before = &layers[..index];
        let mut header =
            header(layer, before, after, &payload).map_err(|message| error(span.clone(), message))?;
        header.append(&mut payload);
        payload = header;
    }
    Ok(payload)
}

/// The EtherType that announces `layer`.
fn ether_type(layer: &Layer) -> Option<u16> {
    match layer {
        Layer::Vlan { tpid, .. } => Some(*tpid),
        Layer::Mpls { .. } => Some(0x8847),
        Layer::Arp { .. } => Some(0x0806),
        Layer::Ipv4(_) => Some(0x0800),
        Layer::Ipv6 { .. } => Some(0x86dd),
        Layer::Eth { .. } => Some(0x6558),
        Layer::Udp { .. }
        | Layer::Tcp { .. }
        | Layer::Sctp { .. }
        | Layer::Icmp { .. }
        | Layer::Vxlan { .. }
        | Layer::Gre { .. }
        | Layer::Bytes(_) => None,
    }
}

/// The IP protocol number that announces `layer`.
fn protocol(layer: &Layer) -> Option<u8> {
    match layer {
        Layer::Udp { .. } => Some(17),
        Layer::Tcp { .. } => Some(6),
        Layer::Sctp { .. } => Some(132),
        Layer::Icmp { v6, .. } => Some(if *v6 { 58 } else { 1 }),
        Layer::Gre { .. } => Some(47),
        Layer::Ipv4(_) => Some(4),
        Layer::Ipv6 { .. } => Some(41),
        Layer::Eth { .. }
        | Layer::Vlan { .. }
        | Layer::Mpls { .. }
        | Layer::Arp { .. }
        | Layer::Vxlan { .. }
        | Layer::Bytes(_) => None,
    }
}

fn header(
    layer: &Layer,
    before: &[(Layer, Range<usize>)],
    after: Option<&Layer>,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(64);
    match layer {
        Layer::Eth { src, dst, ether_type: own } => {
            out.extend(dst.0);
            out.extend(src.0);
            // A frame with nothing behind the addresses that says a type is 802.3 with that length: 0.
            out.extend(own.or_else(|| after.and_then(ether_type)).unwrap_or(0x88b5).to_be_bytes());
        }
        Layer::Vlan { tci, tpid: _ } => {
            out.extend(tci.to_be_bytes());
            out.extend(after.and_then(ether_type).unwrap_or(0x88b5).to_be_bytes());
        }
        Layer::Mpls { label, tc, ttl } => {
            let bottom = u32::from(!matches!(after, Some(Layer::Mpls { .. })));
            out.extend((label << 12 | u32::from(*tc) << 9 | bottom << 8 | u32::from(*ttl)).to_be_bytes());
        }
        Layer::Arp { op, spa, sha, tpa, tha } => {
            let eth_src = before.iter().rev().find_map(|(layer, _)| match layer {
                Layer::Eth { src, .. } => Some(*src),
                _ => None,
            });
            out.extend([0, 1, 8, 0, 6, 4]);
            out.extend(op.to_be_bytes());
            out.extend(sha.or(eth_src).unwrap_or_default().0);
            out.extend(spa.octets());
            out.extend(tha.unwrap_or_default().0);
            out.extend(tpa.octets());
        }
        Layer::Ipv4(ip) => ipv4_header(&mut out, ip, after, payload)?,
        Layer::Ipv6 { src, dst, hop_limit, class, label, proto } => {
            let len = u16::try_from(payload.len()).map_err(|_| "the packet is longer than 65535 bytes")?;
            out.extend((6 << 28 | u32::from(*class) << 20 | label).to_be_bytes());
            out.extend(len.to_be_bytes());
            out.extend([proto.or_else(|| after.and_then(protocol)).unwrap_or(59), *hop_limit]);
            out.extend(src.octets());
            out.extend(dst.octets());
        }
        Layer::Udp { .. } | Layer::Tcp { .. } | Layer::Sctp { .. } | Layer::Icmp { .. } => {
            transport_header(&mut out, layer, before, payload)?;
        }
        Layer::Vxlan { vni } => {
            out.extend([8, 0, 0, 0]);
            out.extend((vni << 8).to_be_bytes());
        }
        Layer::Gre { key } => {
            out.extend(if key.is_some() { [0x20, 0] } else { [0, 0] });
            out.extend(after.and_then(ether_type).unwrap_or(0x88b5).to_be_bytes());
            out.extend(key.iter().flat_map(|key| key.to_be_bytes()));
        }
        Layer::Bytes(bytes) => out.extend(bytes),
    }
    Ok(out)
}

fn ipv4_header(
    out: &mut Vec<u8>,
    ip: &Ipv4,
    after: Option<&Layer>,
    payload: &[u8],
) -> Result<(), &'static str> {
    let len = u16::try_from(payload.len() + 20).map_err(|_| "the packet is longer than 65535 bytes")?;
    let fragment = u16::from(ip.df) << 14 | u16::from(ip.more) << 13 | (ip.offset / 8);
    out.extend([0x45, ip.tos]);
    out.extend(len.to_be_bytes());
    out.extend(ip.id.to_be_bytes());
    out.extend(fragment.to_be_bytes());
    // 253 is "for experimentation" (RFC 3692).
    out.extend([ip.ttl, ip.proto.or_else(|| after.and_then(protocol)).unwrap_or(253), 0, 0]);
    out.extend(ip.src.octets());
    out.extend(ip.dst.octets());
    let sum = checksum(&[out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

fn transport_header(
    out: &mut Vec<u8>,
    layer: &Layer,
    before: &[(Layer, Range<usize>)],
    payload: &[u8],
) -> Result<(), &'static str> {
    let (checksum_at, with_checksum) = match layer {
        Layer::Udp { src, dst, checksum } => {
            let len =
                u16::try_from(payload.len() + 8).map_err(|_| "the datagram is longer than 65535 bytes")?;
            for word in [*src, *dst, len, 0] {
                out.extend(word.to_be_bytes());
            }
            (6, *checksum)
        }
        Layer::Tcp { src, dst, flags, seq, ack, window } => {
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
            out.extend(seq.to_be_bytes());
            out.extend(ack.to_be_bytes());
            out.extend([0x50, *flags]);
            out.extend(window.to_be_bytes());
            out.extend([0; 4]);
            (16, true)
        }
        Layer::Icmp { kind, code, id, seq, v6: _ } => {
            out.extend([*kind, *code, 0, 0]);
            out.extend(id.to_be_bytes());
            out.extend(seq.to_be_bytes());
            (2, true)
        }
        Layer::Sctp { src, dst } => {
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
            out.extend([0; 8]);
            // RFC 9260, appendix A: the CRC32c is sent with its least significant byte first.
            let crc = crate::wire::crc32c(&[out, payload]);
            out[8..12].copy_from_slice(&crc.to_le_bytes());
            return Ok(());
        }
        Layer::Eth { .. }
        | Layer::Vlan { .. }
        | Layer::Mpls { .. }
        | Layer::Arp { .. }
        | Layer::Ipv4(_)
        | Layer::Ipv6 { .. }
        | Layer::Vxlan { .. }
        | Layer::Gre { .. }
        | Layer::Bytes(_) => return Ok(()),
    };
    if with_checksum {
        let len = (out.len() + payload.len()) as u32;
        let pseudo = match (layer, before.last().map(|(layer, _)| layer)) {
            (Layer::Icmp { v6: false, .. }, _) => Vec::new(),
            (_, Some(Layer::Ipv4(ip))) => {
                pseudo_header(IpAddr::V4(ip.src), IpAddr::V4(ip.dst), protocol(layer).unwrap_or(0), len)
            }
            (_, Some(Layer::Ipv6 { src, dst, .. })) => {
                pseudo_header(IpAddr::V6(*src), IpAddr::V6(*dst), protocol(layer).unwrap_or(0), len)
            }
            _ => Vec::new(),
        };
        let mut sum = checksum(&[&pseudo, out, payload]);
        if sum == 0 && matches!(layer, Layer::Udp { .. }) {
            sum = 0xffff; // RFC 768: 0 means that there is none
        }
        out[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}
