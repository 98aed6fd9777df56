//! Link types: what the first byte of a captured packet belongs to.
//!
//! Owns the list of what [`super::frame`] can turn into a frame, and the names of all others for error messages.
//! Numbers are the LINKTYPE_ values of the tcpdump group's registry (<https://www.tcpdump.org/linktypes.html>).

use std::fmt;

use pcap_file::DataLink;

/// A link type that this module can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkType {
    /// LINKTYPE_NULL (0): a 4-byte address family in the byte order of the capturing machine, then the packet.
    Null,
    /// LINKTYPE_ETHERNET (1).
    Ethernet,
    /// LINKTYPE_RAW (101), and DLT_RAW as some systems wrote it into files (12 and 14): IPv4 or IPv6, told apart
    /// by the version nibble. The number in the file is kept so that a copy of the file is the same.
    Raw(RawNumber),
    /// LINKTYPE_LOOP (108): as [`LinkType::Null`] with the family in network byte order.
    Loop,
    /// LINKTYPE_LINUX_SLL (113): Linux "cooked" capture, 16-byte header.
    LinuxSll,
    /// LINKTYPE_IPV4 (228): IPv4 without a header before it.
    Ipv4,
    /// LINKTYPE_IPV6 (229): IPv6 without a header before it.
    Ipv6,
    /// LINKTYPE_LINUX_SLL2 (276): Linux "cooked" capture, 20-byte header with the interface index.
    LinuxSll2,
}

/// Which of its three numbers a raw-IP link type had in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RawNumber {
    /// 101, the registered one.
    N101,
    /// 12, DLT_RAW of most systems.
    N12,
    /// 14, DLT_RAW of OpenBSD.
    N14,
}

/// All supported link types, in numeric order: the text of refusals.
pub const SUPPORTED: &str = "0 (NULL), 1 (ETHERNET), 12, 14 and 101 (RAW), 108 (LOOP), 113 (LINUX_SLL), 228 (IPV4), \
                             229 (IPV6), 276 (LINUX_SLL2)";

impl LinkType {
    /// The link type with this LINKTYPE_ number, or `None` if it is not supported.
    pub fn from_number(number: u32) -> Option<LinkType> {
        Some(match number {
            0 => LinkType::Null,
            1 => LinkType::Ethernet,
            12 => LinkType::Raw(RawNumber::N12),
            14 => LinkType::Raw(RawNumber::N14),
            101 => LinkType::Raw(RawNumber::N101),
            108 => LinkType::Loop,
            113 => LinkType::LinuxSll,
            228 => LinkType::Ipv4,
            229 => LinkType::Ipv6,
            276 => LinkType::LinuxSll2,
            _ => return None,
        })
    }

    /// The LINKTYPE_ number as it stands in files.
    pub fn number(self) -> u32 {
        match self {
            LinkType::Null => 0,
            LinkType::Ethernet => 1,
            LinkType::Raw(RawNumber::N12) => 12,
            LinkType::Raw(RawNumber::N14) => 14,
            LinkType::Raw(RawNumber::N101) => 101,
            LinkType::Loop => 108,
            LinkType::LinuxSll => 113,
            LinkType::Ipv4 => 228,
            LinkType::Ipv6 => 229,
            LinkType::LinuxSll2 => 276,
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name_of(self.number()))
    }
}

/// The registry's name of a link type, without its LINKTYPE_ prefix; `unknown` if it has none.
pub fn name_of(number: u32) -> String {
    // 12 and 14 are DLT_RAW of some systems; as LINKTYPE_ numbers they are not assigned.
    if number == 12 || number == 14 {
        return "RAW".to_owned();
    }
    match DataLink::from(number) {
        DataLink::Unknown(_) => "unknown".to_owned(),
        known => format!("{known:?}"),
    }
}

/// The link type word of a classic pcap header: the number and, in its upper bits, the length of the frame check
/// sequence at the end of every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkWord {
    pub number: u32,
    /// Octets of frame check sequence at the end of each packet (as it was on the wire).
    pub fcs_len: u8,
}

/// Splits the link type word of a classic pcap header (draft-ietf-opsawg-pcap section 4).
pub(super) fn split_link_word(word: u32) -> LinkWord {
    const FCS_PRESENT: u32 = 0x0400_0000;
    // The length is in 16-bit units, in the top four bits.
    let fcs_len = if word & FCS_PRESENT != 0 { ((word >> 28) * 2) as u8 } else { 0 };
    LinkWord { number: word & 0x03ff_ffff, fcs_len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        let mut supported = Vec::new();
        for number in 0..1000 {
            if let Some(link) = LinkType::from_number(number) {
                assert_eq!(link.number(), number);
                supported.push(number);
            }
        }
        assert_eq!(supported, [0, 1, 12, 14, 101, 108, 113, 228, 229, 276]);
    }

    #[test]
    fn names_come_from_the_registry() {
        assert_eq!(name_of(105), "IEEE802_11");
        assert_eq!(name_of(271), "VSOCK");
        assert_eq!(name_of(9), "PPP");
        assert_eq!(name_of(9999), "unknown");
        assert_eq!(LinkType::LinuxSll2.to_string(), "LINUX_SLL2");
    }

    #[test]
    fn fcs_length_is_in_16_bit_units() {
        assert_eq!(split_link_word(0x2400_0001), LinkWord { number: 1, fcs_len: 4 });
        assert_eq!(split_link_word(1), LinkWord { number: 1, fcs_len: 0 });
        // Without the "present" bit the length means nothing.
        assert_eq!(split_link_word(0x2000_0001), LinkWord { number: 1, fcs_len: 0 });
    }
}
