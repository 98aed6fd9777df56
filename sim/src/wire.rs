//! Bytes on the wire: checksums and the few headers that hosts and scenarios make themselves.

use std::net::IpAddr;

/// The Internet checksum (RFC 1071) of `parts` put together; only the last part may have an odd length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let mut words = part.chunks_exact(2);
        for word in &mut words {
            sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            sum += u64::from(*last) << 8;
        }
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The pseudo-header of IPv4 (RFC 9293 section 3.1) or IPv6 (RFC 8200 section 8.1) for a transport packet of `len` bytes.
/// Addresses of different families give an empty one.
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, len: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            out.extend(src.octets());
            out.extend(dst.octets());
            out.extend([0, protocol]);
            out.extend((len as u16).to_be_bytes());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            out.extend(src.octets());
            out.extend(dst.octets());
            out.extend(len.to_be_bytes());
            out.extend([0, 0, 0, protocol]);
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
    }
    out
}

/// CRC32c (RFC 9260, appendix A) of `parts` put together.
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for byte in parts.iter().flat_map(|part| part.iter()) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

/// Bytes of a frame's Ethernet header and VLAN tags (802.1Q and 802.1ad); at most the whole frame.
pub fn l2_header_len(frame: &[u8]) -> usize {
    let mut at = 12;
    while let Some([high, low]) = frame.get(at..at + 2) {
        match u16::from_be_bytes([*high, *low]) {
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => break,
        }
    }
    (at + 2).min(frame.len())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums() {
        // RFC 1071 section 3 has the sum ddf2 for these bytes.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(checksum(&[&[0xff]]), !0xff00);
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xe306_9283);
    }

    #[test]
    fn headers_of_two_tags() {
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0, 0x45]);
        assert_eq!(l2_header_len(&frame), 22);
        assert_eq!(l2_header_len(&frame[..13]), 13);
        assert_eq!(hex(&[0, 0xab]), "00ab");
    }
}
