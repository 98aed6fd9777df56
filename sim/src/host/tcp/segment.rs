//! Headers of segments.

use super::{FIN, SYN};
use crate::host::packet::{be16, be32};

/// A segment's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub mss: Option<u16>,
    pub data: &'a [u8],
}

impl<'a> Segment<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < 20 {
            return None;
        }
        let header_len = usize::from(bytes[12] >> 4) * 4;
        let options = bytes.get(20..header_len)?;
        Some(Self {
            src_port: be16(bytes, 0),
            dst_port: be16(bytes, 2),
            seq: be32(bytes, 4),
            ack: be32(bytes, 8),
            flags: bytes[13],
            window: be16(bytes, 14),
            mss: mss_option(options),
            data: &bytes[header_len..],
        })
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sequence numbers that it takes.
    pub fn len(&self) -> u32 {
        self.data.len() as u32 + u32::from(self.has(SYN)) + u32::from(self.has(FIN))
    }
}

fn mss_option(mut options: &[u8]) -> Option<u16> {
    while let [kind, rest @ ..] = options {
        match kind {
            0 => return None,
            1 => options = rest,
            _ => {
                let len = usize::from(*rest.first()?);
                if len < 2 || len > options.len() {
                    return None;
                }
                if *kind == 2 && len == 4 {
                    return Some(be16(options, 2));
                }
                options = &options[len..];
            }
        }
    }
    None
}
