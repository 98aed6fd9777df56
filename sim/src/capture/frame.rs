//! From a record of any link type to what a switch port receives: an Ethernet frame, or a bare IP packet.
//!
//! | link type | becomes |
//! |---|---|
//! | Ethernet | itself, less a frame check sequence if the file says there is one |
//! | Linux cooked 1 and 2 | an Ethernet frame: source is the cooked header's address if that has 6 bytes, else [`FrameOptions::src`]; type is its protocol, so a VLAN tag kept there (0x8100) stays a tag; destination as below |
//! | raw IP, NULL, LOOP | an Ethernet frame between [`FrameOptions::src`] and [`FrameOptions::dst`], or a layer 3 packet ([`BareIp`]) |
//!
//! Cooked headers have no destination. It is ff:ff:ff:ff:ff:ff for packets that were sent to the link's broadcast
//! address, the address of the IP group (RFC 1112 section 6.4, RFC 2464 section 7) for those sent to a multicast
//! address, and [`FrameOptions::dst`] for all others. Open vSwitch's `lib/pcap-file.c` leaves it zero, which no
//! switch can learn or forward by.
//!
//! Nothing is dropped silently: what cannot be a frame is counted by [`Framer::counts`] with its reason.

use std::fmt;

use datapath::types::MacAddr;

use super::link::LinkType;
use super::reader::{Direction, MAX_PACKET, RecordMeta};

const ETHERNET_HEADER: usize = 14;
const SLL_HEADER: usize = 16;
const SLL2_HEADER: usize = 20;
/// Address family word of NULL and LOOP.
const FAMILY: usize = 4;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
/// Below this an Ethernet type is a length (IEEE 802.3 clause 3.2.6).
const ETH_TYPE_MIN: u16 = 0x0600;
/// Longest payload of a frame with a length instead of a type.
const MAX_8023_LEN: u32 = 1500;

/// What to do with packets of which not all bytes were captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncated {
    /// Send what there is. Its IP length is then over its real one: a switch sees it as malformed.
    #[default]
    AsIs,
    /// Fill up with zeros to the original length. Checksums that cover the missing bytes will be wrong:
    /// [`FrameInfo::padded`] says so.
    Pad,
    /// Leave it out.
    Skip,
}

/// What to make of IP packets that were captured without a link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BareIp {
    /// Put an Ethernet header before them.
    #[default]
    Ethernet,
    /// Leave them as they are, with `packet_type` (1, 0x800) or (1, 0x86dd).
    Layer3,
}

/// Choices in making frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOptions {
    /// Source address where the capture has none. Default 02:00:00:00:00:01.
    pub src: MacAddr,
    /// Destination address where the capture has none. Default 02:00:00:00:00:02.
    pub dst: MacAddr,
    /// What to do with truncated packets.
    pub truncated: Truncated,
    /// What to make of bare IP packets.
    pub bare_ip: BareIp,
    /// Leave out packets that the capturing machine sent (cooked packet type 4, or the flag in pcapng): a capture on
    /// the `any` device has forwarded packets twice.
    pub skip_outgoing: bool,
}

impl Default for FrameOptions {
    fn default() -> Self {
        FrameOptions {
            src: MacAddr([2, 0, 0, 0, 0, 1]),
            dst: MacAddr([2, 0, 0, 0, 0, 2]),
            truncated: Truncated::default(),
            bare_ip: BareIp::default(),
            skip_outgoing: false,
        }
    }
}

/// A VLAN tag: its TPID and TCI in host byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanTag {
    /// Tag protocol identifier: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// Priority (3 bits), drop eligibility (1), VLAN id (12).
    pub tci: u16,
}

/// What was made of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameInfo {
    /// OpenFlow packet type: 0 for Ethernet, `1 << 16 | ethertype` for a layer 3 packet.
    pub packet_type: u32,
    /// Bytes of the whole frame, more than there are if it was truncated.
    pub original_len: u32,
    /// The Ethernet header was not in the capture.
    pub header_made: bool,
    /// Zeros stand for what was not captured: no checksum over the payload can be right.
    pub padded: bool,
    /// Which way the packet went, as far as the link layer or the record say.
    pub direction: Direction,
    /// Index of the interface on the capturing machine (cooked version 2).
    pub if_index: Option<u32>,
    /// The outer VLAN tag that a cooked header announced. It is in the frame as well.
    pub vlan: Option<VlanTag>,
}

/// Why a record is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// [`FrameOptions::skip_outgoing`].
    #[error("sent by the capturing machine, which are left out as asked")]
    Outgoing,
    /// [`Truncated::Skip`].
    #[error("cut short when captured, which are left out as asked")]
    Truncated,
    /// [`Truncated::Pad`], but the original length is beyond reason.
    #[error("cut short, with an original length of {0} bytes, too long to fill up to")]
    TooLongToPad(u32),
    /// Not even the link type's own header is there.
    #[error("too short for the header of their link type ({have} of {want} bytes)")]
    Short {
        /// Captured bytes.
        have: u32,
        /// Bytes of the header.
        want: u32,
    },
    /// A cooked capture of a device whose packets have nothing to do with Ethernet.
    #[error("of a device of ARP hardware type {0}, whose packets Ethernet cannot carry")]
    Hardware(u16),
    /// A cooked capture of something without an Ethernet type.
    #[error("of Linux protocol {0:#06x}, which has no Ethernet type")]
    Protocol(u16),
    /// NULL or LOOP with an address family other than IPv4 and IPv6.
    #[error("of address family {0}, which is neither IPv4 nor IPv6")]
    Family(u32),
    /// Raw IP whose version is neither 4 nor 6.
    #[error("of IP version {0}")]
    IpVersion(u8),
}

impl SkipReason {
    const KINDS: usize = 8;

    fn kind(self) -> usize {
        match self {
            SkipReason::Outgoing => 0,
            SkipReason::Truncated => 1,
            SkipReason::TooLongToPad(_) => 2,
            SkipReason::Short { .. } => 3,
            SkipReason::Hardware(_) => 4,
            SkipReason::Protocol(_) => 5,
            SkipReason::Family(_) => 6,
            SkipReason::IpVersion(_) => 7,
        }
    }
}

/// How many records were skipped for one kind of reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first one's reason.
    pub reason: SkipReason,
    /// The first one's number.
    pub first_record: u64,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Skipped { count, reason, first_record } = self;
        let s = if *count == 1 { "" } else { "s" };
        write!(f, "{count} record{s} not sent (first: record {first_record}): {reason}")
    }
}

/// What a [`Framer`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameCounts {
    /// Records that became frames.
    pub frames: u64,
    /// Of these, how many got an Ethernet header.
    pub headers_made: u64,
    /// Of these, how many were filled up with zeros.
    pub padded: u64,
    /// Of these, how many lost a frame check sequence.
    pub fcs_removed: u64,
    skipped: [Option<Skipped>; SkipReason::KINDS],
}

impl FrameCounts {
    /// Skipped records by kind of reason.
    pub fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.skipped.iter().flatten()
    }

    /// How many records were skipped.
    pub fn total_skipped(&self) -> u64 {
        self.skipped().map(|skipped| skipped.count).sum()
    }

    /// One line of text for each thing worth telling, without line ends.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let done = [
            (self.headers_made, "given an Ethernet header that the capture does not have"),
            (self.padded, "filled up with zeros to the original length; checksums over those mean nothing"),
            (self.fcs_removed, "sent without the frame check sequence at the end"),
        ];
        let done = done.into_iter().filter(|&(count, _)| count > 0);
        done.map(|(count, what)| format!("{count} packet{} {what}", if count == 1 { "" } else { "s" }))
            .chain(self.skipped().map(|skipped| skipped.to_string()))
    }
}

/// Makes frames of records and counts what it does.
#[derive(Debug, Clone, Default)]
pub struct Framer {
    options: FrameOptions,
    counts: FrameCounts,
}

impl Framer {
    /// With these choices.
    pub fn new(options: FrameOptions) -> Self {
        Framer { options, counts: FrameCounts::default() }
    }

    /// What was done so far.
    pub fn counts(&self) -> &FrameCounts {
        &self.counts
    }

    /// Turns the bytes of the record that `meta` describes into the frame, in place.
    ///
    /// # Errors
    /// The reason why it cannot or shall not be sent; `data` then holds nothing of use.
    pub fn frame(&mut self, meta: &RecordMeta, data: &mut Vec<u8>) -> Result<FrameInfo, SkipReason> {
        let result = self.make(meta, data);
        match result {
            Ok(info) => {
                self.counts.frames += 1;
                self.counts.headers_made += u64::from(info.header_made);
                self.counts.padded += u64::from(info.padded);
            }
            Err(reason) => {
                let slot = &mut self.counts.skipped[reason.kind()];
                let skipped = slot.get_or_insert(Skipped { count: 0, reason, first_record: meta.number });
                skipped.count += 1;
            }
        }
        result
    }

    fn make(&mut self, meta: &RecordMeta, data: &mut Vec<u8>) -> Result<FrameInfo, SkipReason> {
        let original_len = self.without_fcs(meta, data);
        let mut info = FrameInfo {
            packet_type: 0,
            original_len,
            header_made: false,
            padded: false,
            direction: meta.direction,
            if_index: None,
            vlan: None,
        };
        match meta.link {
            LinkType::Ethernet => {}
            LinkType::LinuxSll => self.uncook(Cooked::version_1(data)?, data, &mut info)?,
            LinkType::LinuxSll2 => self.uncook(Cooked::version_2(data)?, data, &mut info)?,
            LinkType::Raw(_) => self.bare_ip(ip_type_of(data)?, 0, data, &mut info),
            LinkType::Ipv4 => self.bare_ip(ETH_P_IP, 0, data, &mut info),
            LinkType::Ipv6 => self.bare_ip(ETH_P_IPV6, 0, data, &mut info),
            LinkType::Null | LinkType::Loop => {
                let ethertype = family_type(meta.link, data)?;
                self.bare_ip(ethertype, FAMILY, data, &mut info);
            }
        }
        if self.options.skip_outgoing && info.direction == Direction::Outbound {
            return Err(SkipReason::Outgoing);
        }
        self.complete(data, &mut info)?;
        Ok(info)
    }

    /// Removes what was captured of the frame check sequence. Returns the length of the whole frame without it.
    fn without_fcs(&mut self, meta: &RecordMeta, data: &mut Vec<u8>) -> u32 {
        let without = meta.original_len.saturating_sub(u32::from(meta.fcs_len));
        if meta.fcs_len > 0 && data.len() > without as usize {
            data.truncate(without as usize);
            self.counts.fcs_removed += 1;
        }
        without
    }

    fn uncook(&self, cooked: Cooked, data: &mut Vec<u8>, info: &mut FrameInfo) -> Result<(), SkipReason> {
        /// Frame relay access devices, and 802.11 in its three forms: the protocol is not an Ethernet type.
        /// Netlink (824) has no packets at all.
        const NOT_ETHERNET: [u16; 5] = [770, 801, 802, 803, 824];
        if NOT_ETHERNET.contains(&cooked.hardware) {
            return Err(SkipReason::Hardware(cooked.hardware));
        }
        let payload_len = info.original_len.saturating_sub(cooked.header as u32);
        let ethertype = match cooked.protocol {
            // ETH_P_802_3 and ETH_P_802_2: what follows is IPX or an LLC header; a length is in place of the type.
            0x0001 | 0x0004 if payload_len <= MAX_8023_LEN => payload_len as u16,
            protocol if protocol >= ETH_TYPE_MIN => protocol,
            protocol => return Err(SkipReason::Protocol(protocol)),
        };
        info.if_index = cooked.if_index;
        // In the packet types of Linux 4 is PACKET_OUTGOING; the others came in.
        info.direction = match cooked.packet_type {
            0..=3 => Direction::Inbound,
            4 => Direction::Outbound,
            _ => info.direction,
        };
        let payload = data.get(cooked.header..).unwrap_or_default();
        info.vlan = match (cooked.protocol, payload.first_chunk()) {
            (0x8100 | 0x88a8, Some(&tci)) => {
                Some(VlanTag { tpid: cooked.protocol, tci: u16::from_be_bytes(tci) })
            }
            _ => None,
        };
        let dst = match cooked.packet_type {
            1 => MacAddr::BROADCAST,
            2 => group_address(ethertype, payload).unwrap_or(self.options.dst),
            _ => self.options.dst,
        };
        let src = cooked.address.unwrap_or(self.options.src);
        replace_header(data, cooked.header, dst, src, ethertype, info);
        Ok(())
    }

    fn bare_ip(&self, ethertype: u16, header: usize, data: &mut Vec<u8>, info: &mut FrameInfo) {
        match self.options.bare_ip {
            BareIp::Ethernet => {
                replace_header(data, header, self.options.dst, self.options.src, ethertype, info);
            }
            BareIp::Layer3 => {
                data.drain(..header);
                info.original_len = info.original_len.saturating_sub(header as u32);
                info.packet_type = 1 << 16 | u32::from(ethertype);
            }
        }
    }

    /// Applies the choice for truncated packets.
    fn complete(&self, data: &mut Vec<u8>, info: &mut FrameInfo) -> Result<(), SkipReason> {
        if data.len() >= info.original_len as usize {
            return Ok(());
        }
        match self.options.truncated {
            Truncated::AsIs => Ok(()),
            Truncated::Skip => Err(SkipReason::Truncated),
            Truncated::Pad if info.original_len > MAX_PACKET => {
                Err(SkipReason::TooLongToPad(info.original_len))
            }
            Truncated::Pad => {
                data.resize(info.original_len as usize, 0);
                info.padded = true;
                Ok(())
            }
        }
    }
}

/// The header of a Linux cooked capture (packet(7), and the LINKTYPE_LINUX_SLL and _SLL2 pages of the registry).
struct Cooked {
    /// Bytes of it.
    header: usize,
    packet_type: u16,
    /// ARPHRD_ type of the device.
    hardware: u16,
    address: Option<MacAddr>,
    protocol: u16,
    if_index: Option<u32>,
}

impl Cooked {
    /// Packet type, hardware type, address length (16 bits each), 8 bytes of address, protocol.
    fn version_1(data: &[u8]) -> Result<Cooked, SkipReason> {
        let bytes = header_of::<SLL_HEADER>(data)?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Ok(Cooked {
            header: SLL_HEADER,
            packet_type: word(0),
            hardware: word(2),
            address: address(word(4), [bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11]]),
            protocol: word(14),
            if_index: None,
        })
    }

    /// Protocol, 16 bits reserved, interface index (32), hardware type, packet type and address length (8 bits
    /// each), 8 bytes of address.
    fn version_2(data: &[u8]) -> Result<Cooked, SkipReason> {
        let bytes = header_of::<SLL2_HEADER>(data)?;
        let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Ok(Cooked {
            header: SLL2_HEADER,
            packet_type: u16::from(bytes[10]),
            hardware: word(8),
            address: address(
                u16::from(bytes[11]),
                [bytes[12], bytes[13], bytes[14], bytes[15], bytes[16], bytes[17]],
            ),
            protocol: word(0),
            if_index: Some(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])),
        })
    }
}

fn address(len: u16, bytes: [u8; 6]) -> Option<MacAddr> {
    (len == 6).then_some(MacAddr(bytes))
}

fn header_of<const N: usize>(data: &[u8]) -> Result<&[u8; N], SkipReason> {
    data.first_chunk().ok_or(SkipReason::Short { have: data.len() as u32, want: N as u32 })
}

fn ip_type_of(data: &[u8]) -> Result<u16, SkipReason> {
    let &[first] = header_of::<1>(data)?;
    match first >> 4 {
        4 => Ok(ETH_P_IP),
        6 => Ok(ETH_P_IPV6),
        version => Err(SkipReason::IpVersion(version)),
    }
}

/// Ethernet type for the address family at the beginning of a NULL or LOOP packet.
fn family_type(link: LinkType, data: &[u8]) -> Result<u16, SkipReason> {
    let &bytes = header_of::<FAMILY>(data)?;
    let family = u32::from_be_bytes(bytes);
    // NULL has the byte order of the capturing machine, which is not always that of the file. Families are small.
    let family = if link == LinkType::Null && family > 0xffff { family.swap_bytes() } else { family };
    match family {
        2 => Ok(ETH_P_IP),
        // AF_INET6 of Linux; NetBSD, OpenBSD and BSD/OS; FreeBSD; macOS. Windows (Npcap) writes NetBSD's.
        10 | 24 | 28 | 30 => Ok(ETH_P_IPV6),
        _ => Err(SkipReason::Family(family)),
    }
}

/// The Ethernet group address that belongs to the IP destination, below at most two VLAN tags.
fn group_address(ethertype: u16, payload: &[u8]) -> Option<MacAddr> {
    let (mut ethertype, mut payload) = (ethertype, payload);
    for _ in 0..2 {
        if !matches!(ethertype, 0x8100 | 0x88a8) {
            break;
        }
        ethertype = u16::from_be_bytes([*payload.get(2)?, *payload.get(3)?]);
        payload = payload.get(4..)?;
    }
    match ethertype {
        ETH_P_IP => match *payload.get(16..20)? {
            [224..=239, b, c, d] => Some(MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])),
            _ => None,
        },
        ETH_P_IPV6 => match *payload.get(24..40)? {
            [0xff, .., a, b, c, d] => Some(MacAddr([0x33, 0x33, a, b, c, d])),
            _ => None,
        },
        _ => None,
    }
}

/// Puts an Ethernet header in place of the first `old` bytes, and says so in `info`.
fn replace_header(
    data: &mut Vec<u8>,
    old: usize,
    dst: MacAddr,
    src: MacAddr,
    ethertype: u16,
    info: &mut FrameInfo,
) {
    let mut header = [0; ETHERNET_HEADER];
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    let old = old.min(data.len());
    data.splice(..old, header);
    info.original_len = (info.original_len.saturating_sub(old as u32)).saturating_add(ETHERNET_HEADER as u32);
    info.header_made = true;
}
