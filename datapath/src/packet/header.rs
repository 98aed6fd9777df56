//! Pushing and popping headers.
//!
//! Each keeps the layer offsets right, and what a packet owes payable: a checksum that nobody could find any more once the
//! header stands in front of it is completed first. Counterpart: the `push_` and `pop_` functions of OVS `lib/packets.c`.

use thiserror::Error;

use super::{NO_OFFSET, Packet};
use crate::flow::proto::{ETH_IPV4, ETH_IPV6, ETH_MPLS, ETH_NSH, ETH_TEB, is_mpls, is_vlan};
use crate::flow::{Nsh, VLAN_CFI};
use crate::offload::{self, Offloads};
use crate::types::MacAddr;

/// Packet type of an Ethernet frame.
pub const PT_ETH: u32 = 0;
/// Packet type of an IPv4 datagram without L2.
pub const PT_IPV4: u32 = packet_type(ETH_IPV4);
/// Packet type of an IPv6 datagram without L2.
pub const PT_IPV6: u32 = packet_type(ETH_IPV6);
/// Packet type of an MPLS packet without L2.
pub const PT_MPLS: u32 = packet_type(ETH_MPLS);
/// Packet type of an NSH packet without L2.
pub const PT_NSH: u32 = packet_type(ETH_NSH);

/// Packet type of an L3 packet with this Ethernet type (`OFPHTN_ETHERTYPE`).
pub const fn packet_type(ethertype: u16) -> u32 {
    1 << 16 | ethertype as u32
}

const ETH_HEADER: usize = 14;
const VLAN_HEADER: usize = 4;
const MACS: usize = 12;
const LSE: usize = 4;
const BOTTOM_OF_STACK: u8 = 1;
/// The longest NSH has 63 words, of which two are no metadata (OVS `NSH_CTX_HDRS_MAX_LEN`).
const NSH_MD2_MAX: usize = 244;
const NP_IPV4: u8 = 1;
const NP_IPV6: u8 = 2;
const NP_ETHERNET: u8 = 3;
const NP_NSH: u8 = 4;

/// Why a header could not be pushed or popped. The packet is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Not an Ethernet frame, or too short for one.
    #[error("the packet is not an Ethernet frame")]
    NotEthernet,
    /// Already an Ethernet frame.
    #[error("the packet has an Ethernet header already")]
    Ethernet,
    /// Where the network header is, is not known.
    #[error("the packet has no network header")]
    NoNetwork,
    /// NSH cannot carry this packet type.
    #[error("NSH cannot carry packets of type {0:#x}")]
    NshPayload(u32),
    /// What follows the NSH is of unknown kind, or cut off.
    #[error("the network service header is malformed or carries an unknown protocol")]
    NshMalformed,
    /// Only metadata types 1 and 2 can be written, the latter with whole words and no more than fit.
    #[error("this network service header of metadata type {0} cannot be written")]
    NshMdType(u8),
}

impl Packet {
    /// The Ethernet header, if extraction found one.
    pub fn eth(&self) -> Option<&[u8; ETH_HEADER]> {
        if self.packet_type != PT_ETH || self.l3_ofs == NO_OFFSET {
            return None;
        }
        self.data().first_chunk()
    }

    /// The same, to change.
    pub fn eth_mut(&mut self) -> Option<&mut [u8; ETH_HEADER]> {
        if self.packet_type != PT_ETH || self.l3_ofs == NO_OFFSET {
            return None;
        }
        self.data_mut().first_chunk_mut()
    }

    /// Moves the offsets behind the MPLS stack by `by` bytes.
    fn shift_l3(&mut self, by: isize) {
        for offset in [&mut self.l3_ofs, &mut self.l4_ofs, &mut self.inner_l3_ofs, &mut self.inner_l4_ofs] {
            shift(offset, by);
        }
    }

    /// Makes room for `n` bytes in front and moves all offsets (`dp_packet_resize_l2`).
    pub fn push_l2(&mut self, n: usize) -> &mut [u8] {
        self.shift_l3(n as isize);
        shift(&mut self.l2_5_ofs, n as isize);
        self.push_front(n)
    }

    /// Cuts `n` bytes in front and moves all offsets.
    pub fn pull_l2(&mut self, n: usize) {
        self.shift_l3(-(n as isize));
        shift(&mut self.l2_5_ofs, -(n as isize));
        self.pull_front(n);
    }

    /// Pushes a VLAN tag in front of all others; the CFI bit of `tci` means "present" and is not written.
    ///
    /// # Errors
    /// Not an Ethernet frame.
    pub fn push_vlan(&mut self, tpid: u16, tci: u16) -> Result<(), HeaderError> {
        if self.packet_type != PT_ETH || self.len() < ETH_HEADER {
            return Err(HeaderError::NotEthernet);
        }
        self.push_l2(VLAN_HEADER);
        let data = self.data_mut();
        data.copy_within(VLAN_HEADER..VLAN_HEADER + MACS, 0);
        data[MACS..MACS + 2].copy_from_slice(&tpid.to_be_bytes());
        data[MACS + 2..MACS + 4].copy_from_slice(&(tci & !VLAN_CFI).to_be_bytes());
        Ok(())
    }

    /// Pops the outermost VLAN tag; without one, does nothing.
    pub fn pop_vlan(&mut self) {
        let tagged = self.len() >= ETH_HEADER + VLAN_HEADER
            && self.eth().is_some_and(|eth| is_vlan(u16::from_be_bytes([eth[12], eth[13]])));
        if tagged {
            self.data_mut().copy_within(0..MACS, VLAN_HEADER);
            self.pull_l2(VLAN_HEADER);
        }
    }

    /// Pushes an Ethernet header onto an L3 packet; its type comes from the packet type.
    ///
    /// # Errors
    /// It is an Ethernet frame.
    pub fn push_eth(&mut self, dst: MacAddr, src: MacAddr) -> Result<(), HeaderError> {
        if self.packet_type == PT_ETH {
            return Err(HeaderError::Ethernet);
        }
        let ethertype = self.packet_type as u16;
        let header = self.push_l2(ETH_HEADER);
        header[..6].copy_from_slice(&dst.0);
        header[6..12].copy_from_slice(&src.0);
        header[12..].copy_from_slice(&ethertype.to_be_bytes());
        self.packet_type = PT_ETH;
        Ok(())
    }

    /// Pops the Ethernet header with all VLAN tags; the packet type becomes that of what follows.
    ///
    /// # Errors
    /// Not an Ethernet frame, or it is not known where its header ends.
    pub fn pop_eth(&mut self) -> Result<(), HeaderError> {
        if self.packet_type != PT_ETH {
            return Err(HeaderError::NotEthernet);
        }
        let end = if self.l2_5_ofs != NO_OFFSET { self.l2_5_ofs } else { self.l3_ofs };
        let header = self.data().get(..usize::from(end)).ok_or(HeaderError::NoNetwork)?;
        let &ethertype = header.last_chunk().ok_or(HeaderError::NoNetwork)?;
        self.pull_l2(usize::from(end));
        self.packet_type = packet_type(u16::from_be_bytes(ethertype));
        Ok(())
    }

    /// Writes the type behind the last VLAN tag, or the only one (`set_ethertype`).
    fn set_ethertype(&mut self, ethertype: u16) {
        let end = if self.l2_5_ofs != NO_OFFSET { self.l2_5_ofs } else { self.l3_ofs };
        let Some(eth) = self.eth() else { return };
        let tagged = is_vlan(u16::from_be_bytes([eth[12], eth[13]]));
        let at = if tagged { usize::from(end).saturating_sub(2).max(MACS) } else { MACS };
        if let Some(field) = self.data_mut().get_mut(at..at + 2) {
            field.copy_from_slice(&ethertype.to_be_bytes());
        }
    }

    /// Pushes an MPLS label stack entry on top of the stack, and sets the Ethernet type to `ethertype`. If that is not one of
    /// MPLS, does nothing.
    ///
    /// # Errors
    /// Where the network header is, is not known.
    pub fn push_mpls(&mut self, ethertype: u16, lse: u32) -> Result<(), HeaderError> {
        if !is_mpls(ethertype) {
            return Ok(());
        }
        if usize::from(self.l3_ofs) > self.len() {
            return Err(HeaderError::NoNetwork);
        }
        if self.l2_5_ofs == NO_OFFSET {
            self.l2_5_ofs = self.l3_ofs;
        }
        self.set_ethertype(ethertype);
        let l2 = usize::from(self.l2_5_ofs);
        self.push_front(LSE);
        self.shift_l3(LSE as isize);
        let data = self.data_mut();
        data.copy_within(LSE..LSE + l2, 0);
        data[l2..l2 + LSE].copy_from_slice(&lse.to_be_bytes());
        Ok(())
    }

    /// Puts an MPLS label stack entry in front of all there is, an Ethernet header included. If `ethertype` is not one of MPLS,
    /// does nothing.
    pub fn add_mpls(&mut self, ethertype: u16, lse: u32) {
        if !is_mpls(ethertype) {
            return;
        }
        self.push_l2(LSE).copy_from_slice(&lse.to_be_bytes());
        self.l2_5_ofs = 0;
        self.packet_type = packet_type(ethertype);
    }

    /// Pops the top label stack entry and sets the Ethernet type to `ethertype`; without a stack, does nothing. What
    /// the receiving device said of checksums and hash was about the labelled packet, and is forgotten.
    pub fn pop_mpls(&mut self, ethertype: u16) {
        let l2 = usize::from(self.l2_5_ofs);
        let Some(&[_, _, bottom, _]) = self.data().get(l2..).and_then(<[u8]>::first_chunk) else {
            return;
        };
        // OVS forgets what the packet owes too, and sends it unfinished.
        offload::settle(self);
        self.set_ethertype(ethertype);
        if bottom & BOTTOM_OF_STACK != 0 {
            self.l2_5_ofs = NO_OFFSET;
        }
        self.data_mut().copy_within(0..l2, LSE);
        self.pull_front(LSE);
        self.shift_l3(-(LSE as isize));
        self.offloads = Offloads::empty();
        self.rss_hash = None;
        if l2 == 0 {
            self.packet_type = if ethertype == ETH_TEB { PT_ETH } else { packet_type(ethertype) };
        }
    }

    /// Writes the top label stack entry; without a stack, does nothing.
    pub fn set_mpls(&mut self, lse: u32, mask: u32) {
        let l2_5 = usize::from(self.l2_5_ofs);
        if let Some(field) = self.data_mut().get_mut(l2_5..).and_then(<[u8]>::first_chunk_mut) {
            *field = (u32::from_be_bytes(*field) & !mask | lse & mask).to_be_bytes();
        }
    }

    /// Pushes a network service header of metadata type 1, or of type 2 with `md2` as its metadata (a multiple of 4 bytes, at
    /// most 244); its next protocol comes from the packet type.
    ///
    /// # Errors
    /// NSH cannot carry this packet, or the header cannot be written.
    pub fn push_nsh(&mut self, nsh: &Nsh, md2: &[u8]) -> Result<(), HeaderError> {
        let np = match self.packet_type {
            PT_ETH => NP_ETHERNET,
            PT_IPV4 => NP_IPV4,
            PT_IPV6 => NP_IPV6,
            PT_NSH => NP_NSH,
            other => return Err(HeaderError::NshPayload(other)),
        };
        let len = match nsh.mdtype {
            1 => 24,
            2 if md2.len().is_multiple_of(4) && md2.len() <= NSH_MD2_MAX => 8 + md2.len() as u16,
            other => return Err(HeaderError::NshMdType(other)),
        };
        // Behind the header, nobody will find the checksums that are still to be completed.
        offload::settle(self);
        let base = (u16::from(nsh.flags & 3) << 12) | (u16::from(nsh.ttl & 0x3f) << 6) | (len / 4);
        let header = self.push_front(usize::from(len));
        header[..2].copy_from_slice(&base.to_be_bytes());
        header[2] = nsh.mdtype;
        header[3] = np;
        header[4..8].copy_from_slice(&nsh.path_hdr.to_bytes());
        if nsh.mdtype == 2 {
            header[8..].copy_from_slice(md2);
        } else {
            for (field, value) in header[8..].as_chunks_mut::<4>().0.iter_mut().zip(nsh.context) {
                *field = value.to_bytes();
            }
        }
        self.packet_type = PT_NSH;
        self.reset_offsets();
        self.l3_ofs = 0;
        Ok(())
    }

    /// Pops the network service header of an NSH packet; any other is left alone. It must be extracted anew afterwards.
    ///
    /// # Errors
    /// What it carries is unknown: the packet is to be dropped.
    pub fn pop_nsh(&mut self) -> Result<(), HeaderError> {
        if self.packet_type != PT_NSH {
            return Ok(());
        }
        let Some(&[_, base, _, np]) = self.l3().and_then(<[u8]>::first_chunk) else {
            return Err(HeaderError::NshMalformed);
        };
        let next = match np {
            NP_ETHERNET => PT_ETH,
            NP_IPV4 => PT_IPV4,
            NP_IPV6 => PT_IPV6,
            NP_NSH => PT_NSH,
            _ => return Err(HeaderError::NshMalformed),
        };
        let len = usize::from(base & 0x3f) * 4;
        if len > self.len() {
            return Err(HeaderError::NshMalformed);
        }
        self.pull_front(len);
        self.reset_offsets();
        self.packet_type = next;
        Ok(())
    }
}

/// Moves an offset; one that would leave the range is none.
fn shift(offset: &mut u16, by: isize) {
    if *offset != NO_OFFSET {
        *offset =
            isize::try_from(*offset).ok().and_then(|at| u16::try_from(at + by).ok()).unwrap_or(NO_OFFSET);
    }
}
