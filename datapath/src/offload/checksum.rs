//! Checksum arithmetic: the Internet checksum (RFC 1071), its incremental update (RFC 1624), pseudo-headers, CRC32c.
//!
//! Owns the sums only; where checksums stand and when they may be touched is decided by the callers. A checksum is two
//! bytes as they stand in the frame. Counterpart: OVS `lib/csum.c`, `packet_csum_*` of `lib/packets.c`, `lib/crc32c.c`.

/// A running one's complement sum. What is added must begin at an even offset of the summed data; only the last part may
/// have an odd length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Sum(u64);

impl Sum {
    /// Nothing added yet.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes; an odd last one counts as if a zero byte followed.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Sums of native words, folded and swapped at the end: one's complement addition does not mind (RFC 1071, 2 B).
        // 32-bit words in a 64-bit sum cannot overflow below 2^32 of them.
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = words.iter().fold(self.0, |sum, &word| sum + u64::from(u32::from_ne_bytes(word)));
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_ne_bytes(last));
        Self(fold_32(sum))
    }

    /// Adds a 16-bit number.
    pub const fn number(self, number: u16) -> Self {
        Self(self.0 + u16::from_ne_bytes(number.to_be_bytes()) as u64)
    }

    /// Adds the one's complement of what `bytes` would add, which takes them out of a sum (RFC 1624).
    fn complement(self, bytes: &[u8]) -> Self {
        bytes.chunks(2).fold(self, |sum, pair| {
            let word = u16::from_ne_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            Self(sum.0 + u64::from(!word))
        })
    }

    /// The checksum: the complement of the sum.
    pub const fn finish(self) -> [u8; 2] {
        let mut sum = fold_32(self.0);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        (!(sum as u16)).to_ne_bytes()
    }
}

/// Folds into 33 bits.
const fn fold_32(sum: u64) -> u64 {
    (sum & 0xffff_ffff) + (sum >> 32)
}

/// The Internet checksum of `bytes`.
pub fn internet(bytes: &[u8]) -> [u8; 2] {
    Sum::new().bytes(bytes).finish()
}

/// The checksum after a field at an even offset changed from `old` to `new`, of the same length: as right or as wrong as it was
/// before (RFC 1624, equation 3).
#[must_use]
pub fn update(checksum: [u8; 2], old: &[u8], new: &[u8]) -> [u8; 2] {
    debug_assert_eq!(old.len(), new.len());
    Sum::new().complement(&checksum).complement(old).bytes(new).finish()
}

/// Sum of the pseudo-header over IPv4 (RFC 9293, 3.1): addresses, protocol and length of the transport header with its data.
pub fn pseudo_ipv4(addresses: &[u8; 8], proto: u8, len: u16) -> Sum {
    Sum::new().bytes(addresses).number(u16::from(proto)).number(len)
}

/// Sum of the pseudo-header over IPv6 (RFC 8200, 8.1).
pub fn pseudo_ipv6(addresses: &[u8; 32], proto: u8, len: u32) -> Sum {
    Sum::new().bytes(addresses).number(u16::from(proto)).number((len >> 16) as u16).number(len as u16)
}

/// A computed UDP checksum as it is sent: 0 stands for "none", so 0xffff stands for 0 (RFC 768).
#[must_use]
pub const fn udp(checksum: [u8; 2]) -> [u8; 2] {
    match checksum {
        [0, 0] => [0xff, 0xff],
        other => other,
    }
}

/// The checksum of an SCTP packet, as it stands in it, computed as if the field were 0 (RFC 9260, appendix A).
/// `None` if there is no whole common header.
pub fn sctp(packet: &[u8]) -> Option<[u8; 4]> {
    let (before, rest) = packet.split_at_checked(8)?;
    let (_field, after) = rest.split_at_checked(4)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(before), &[0; 4]);
    Some(crc32c::crc32c_append(crc, after).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, word by word, with the carry added each time.
    fn slow(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0u16;
        for pair in bytes.chunks(2) {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            let (added, carry) = sum.overflowing_add(word);
            sum = added + u16::from(carry);
        }
        (!sum).to_be_bytes()
    }

    /// CRC32c bit by bit.
    fn slow_crc32c(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for &byte in bytes {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn known_values() {
        // The example of RFC 1071, section 3: sum ddf2.
        assert_eq!(internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), [0x22, 0x0d]);
        assert_eq!(internet(&[]), [0xff, 0xff]);
        assert_eq!(internet(&[0xff; 40]), [0, 0]);
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(slow_crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(udp([0, 0]), [0xff, 0xff]);
        assert_eq!(sctp(&[0; 11]), None);
        // The wrong zero that equation 2 of RFC 1624 gives for this change (its section 4) is not given.
        assert_eq!(update([0xdd, 0x2f], &[0x55, 0x55], &[0x32, 0x85]), [0x00, 0x00]);
    }

    proptest! {
        #[test]
        fn sums_like_the_slow_one(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
            prop_assert_eq!(internet(&bytes), slow(&bytes));
            let (a, b) = bytes.split_at((at & !1).min(bytes.len() & !1));
            prop_assert_eq!(Sum::new().bytes(a).bytes(b).finish(), slow(&bytes));
        }

        #[test]
        fn numbers_are_bytes(numbers in prop::collection::vec(any::<u16>(), 0..40)) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            prop_assert_eq!(numbers.iter().fold(Sum::new(), |sum, &n| sum.number(n)).finish(), slow(&bytes));
        }

        #[test]
        fn updates_like_a_new_sum(
            mut bytes in prop::collection::vec(any::<u8>(), 40..80),
            at in 0usize..20,
            new in any::<[u8; 16]>(),
            len in 1usize..9,
        ) {
            bytes[0] |= 1; // a sum of 0 has two forms
            let (at, len) = (at * 2, len * 2);
            prop_assume!(at + len <= bytes.len());
            let before = internet(&bytes);
            let old = bytes[at..at + len].to_vec();
            bytes[at..at + len].copy_from_slice(&new[..len]);
            prop_assume!(bytes.iter().any(|&byte| byte != 0));
            prop_assert_eq!(update(before, &old, &new[..len]), slow(&bytes));
            // Wrong by some amount before, wrong by the same afterwards.
            let wrong = [before[0] ^ 0x40, before[1]];
            prop_assert_ne!(update(wrong, &old, &new[..len]), slow(&bytes));
        }

        #[test]
        fn sctp_is_crc32c_with_a_zero_field(mut bytes in prop::collection::vec(any::<u8>(), 12..100)) {
            let fast = sctp(&bytes).unwrap();
            bytes[8..12].fill(0);
            prop_assert_eq!(fast, slow_crc32c(&bytes).to_le_bytes());
        }
    }
}
