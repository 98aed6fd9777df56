//! The fast path of extraction: untagged Ethernet, IPv4 without options or fragments, TCP or UDP, first pass.
//!
//! Whatever it accepts, [`super::headers`] would extract to the same words; the tests hold it to that.

use super::push::{DP_HASH, MACS, NW_PROTO, NW_SRC, PORTS, TCP_FLAGS, pair};
use super::{Layers, Miniflow, Offsets};
use crate::flow::hash;
use crate::flow::proto::{IP_TCP, IP_UDP};
use crate::offload::Offloads;
use crate::packet::{NO_OFFSET, Packet};

const ETH: usize = 14;
const IPV4: usize = 20;
const L4: usize = ETH + IPV4;

const fn bit(word: usize) -> u64 {
    1 << (word - 64)
}

const UDP_MAP: u64 = bit(DP_HASH) | bit(MACS) | bit(MACS + 1) | bit(NW_SRC) | bit(NW_PROTO) | bit(PORTS);
const TCP_MAP: u64 = UDP_MAP | bit(TCP_FLAGS);

/// Keeps the bytes of a word that come first in memory.
const FIRST_6_BYTES: u64 = pair([0xff; 4], [0xff, 0xff, 0, 0]);
const FIRST_4_BYTES: u64 = pair([0xff; 4], [0; 4]);

/// Extracts the key if the packet is of the plain kind; otherwise changes nothing that matters and returns false.
#[inline(always)]
pub(super) fn extract(packet: &mut Packet, mini: &mut Miniflow) -> bool {
    let md = &packet.md;
    let unusual = packet.packet_type
        | md.recirc_id
        | md.skb_priority
        | md.pkt_mark
        | u32::from(md.ct_state)
        | u32::from(md.has_tunnel)
        | packet.offloads.intersection(Offloads::TUNNEL).bits();
    if unusual != 0 {
        return false;
    }

    let frame = packet.data();
    let Some(head) = frame.first_chunk::<{ L4 + 8 }>() else {
        return false;
    };
    let word = |at: usize| u64_at(head, at);
    // Ethernet type, version with header length, and "more fragments" with the offset, which must be 0.
    if [head[12], head[13], head[14]] != [0x08, 0x00, 0x45] || u16_at(head, 20) & 0x3fff != 0 {
        return false;
    }
    let total_len = usize::from(u16_at(head, 16));
    let Some(pad) = (frame.len() - ETH).checked_sub(total_len) else {
        return false;
    };
    let Ok(l2_pad_size) = u16::try_from(pad) else {
        return false;
    };

    let proto = head[23];
    let flags = match proto {
        IP_UDP if total_len >= IPV4 + 8 => Offloads::L4_UDP,
        IP_TCP if total_len >= IPV4 + 20 => {
            let Some(&[high, low]) = frame[L4..].get(12..14) else {
                return false;
            };
            let header_len = usize::from(high >> 4) * 4;
            if header_len < 20 || total_len < IPV4 + header_len {
                return false;
            }
            mini.values[5] = pair([0; 4], [high & 0x0f, low, 0, 0]);
            Offloads::L4_TCP
        }
        _ => return false,
    };

    let values = &mut mini.values;
    values[0] = pair(md.dp_hash.to_ne_bytes(), md.in_port.0.to_ne_bytes());
    values[1] = word(0);
    values[2] = word(8) & FIRST_6_BYTES;
    values[3] = word(ETH + 12);
    values[4] = pair([0; 4], [0, head[15], head[22], proto]);
    let ports = word(L4) & FIRST_4_BYTES;
    if flags == Offloads::L4_UDP {
        values[5] = ports;
        mini.map = [0, UDP_MAP];
    } else {
        values[6] = ports;
        mini.map = [0, TCP_MAP];
    }

    let hash = match packet.rss_hash {
        Some(hash) => hash,
        None => {
            let ports = [head[L4], head[L4 + 1], head[L4 + 2], head[L4 + 3]];
            hash::rss_ipv4(values[3].to_ne_bytes(), proto, ports)
        }
    };
    let layers = Layers {
        offsets: Offsets::new(l2_pad_size, NO_OFFSET, ETH as u16, L4 as u16),
        proto: flags,
        ipv4: true,
        hash: Some(hash),
    };
    layers.store(packet);
    true
}

#[inline(always)]
fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[inline(always)]
fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
