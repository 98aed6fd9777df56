//! The header with which the kernel says what a packet owes: `struct virtio_net_hdr` (Linux `include/uapi/linux/virtio_net.h`),
//! native byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::offload::{Offloads, begin_l4_checksum, complete_at};
use crate::packet::{NO_OFFSET, Packet};

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Header {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

/// Bytes of the header.
pub(super) const HEADER: usize = size_of::<Header>();

impl Header {
    /// Marks a packet with what it owes. False: it is to be segmented in a way that is not known.
    pub(super) fn mark(&self, packet: &mut Packet) -> bool {
        let segmented = self.gso_type & !GSO_ECN;
        match segmented {
            GSO_NONE => {}
            GSO_TCPV4 | GSO_TCPV6 => packet.tso_segsz = self.gso_size,
            _ => return false,
        }
        if self.flags & NEEDS_CSUM != 0 {
            if l4_offset(packet.data()) == Some(usize::from(self.csum_start)) {
                packet.offloads |= Offloads::L4_PARTIAL;
            } else {
                // Behind headers that are looked at later only: the debt cannot be kept, so it is paid.
                complete_at(packet, usize::from(self.csum_start), usize::from(self.csum_offset));
                if segmented != GSO_NONE {
                    return false;
                }
            }
        } else if self.flags & DATA_VALID != 0 {
            packet.offloads |= Offloads::L4_GOOD;
        }
        true
    }

    /// What a packet still owes when it leaves for a port that does it, its checksum begun with the pseudo header as the
    /// kernel wants it.
    pub(super) fn of(packet: &mut Packet) -> Self {
        let mut header = Self::default();
        if packet.offloads.contains(Offloads::L4_PARTIAL)
            && let Some((start, offset)) = begin_l4_checksum(packet)
        {
            header.flags = NEEDS_CSUM;
            header.csum_start = start;
            header.csum_offset = offset;
        }
        if packet.tso_segsz != 0 && packet.l4_ofs != NO_OFFSET {
            header.gso_size = packet.tso_segsz;
            let l4 = packet.l4().and_then(crate::packet::tcp_header_len).unwrap_or(0);
            header.hdr_len = packet.l4_ofs.saturating_add(l4 as u16);
            header.gso_type = if packet.is_ipv6_frame() { GSO_TCPV6 } else { GSO_TCPV4 };
        }
        header
    }
}

/// Where the transport header of a plain IP packet begins, behind up to two VLAN tags.
fn l4_offset(frame: &[u8]) -> Option<usize> {
    let kind = |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let mut at = 12;
    for _ in 0..2 {
        if matches!(kind(at)?, 0x8100 | 0x88a8) {
            at += 4;
        }
    }
    let l3 = at + 2;
    match kind(at)? {
        0x0800 => Some(l3 + usize::from(frame.get(l3)? & 15) * 4),
        0x86dd => Some(l3 + 40),
        _ => None,
    }
}
