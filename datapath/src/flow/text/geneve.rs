//! GENEVE options: `{class=0xffff,type=0x80,len=4,0xa/0xf}`.
//!
//! Bytes are those on the wire (RFC 8926 section 3.5). A mask has the layout of the options that it belongs to: its
//! header says what of the header is matched. Counterpart: `format_geneve_opts`, `scan_geneve` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};

use super::put::{HexBytes, Members};

/// Most bytes of options that a tunnel header can hold.
pub(crate) const MAX_LEN: usize = 252;
/// Bytes of an option's header.
pub(crate) const HEADER_LEN: usize = 4;

/// Writes options as they are, each in braces; options that are cut off end in a note, as in OVS.
pub(crate) fn format(out: &mut dyn Write, options: &[u8], mask: Option<&[u8]>, verbose: bool) -> fmt::Result {
    if let Some(mask) = mask
        && mask.len() != options.len()
    {
        return write!(out, "value len {} different from mask len {}", options.len(), mask.len());
    }
    let mut rest = options;
    let mut rest_mask = mask;
    while !rest.is_empty() {
        let Some((header, body)) = rest.split_first_chunk::<HEADER_LEN>() else {
            return write!(out, "opt len {} less than minimum {HEADER_LEN}", rest.len());
        };
        let len = usize::from(header[3] & 0x1f) * 4;
        if len > body.len() {
            return write!(out, "opt len {} greater than remaining {}", len + HEADER_LEN, rest.len());
        }
        let (body, tail) = body.split_at(len);
        let mask = rest_mask.map(|mask| mask.split_at(HEADER_LEN + len));
        format_option(out, *header, body, mask.map(|(mask, _)| mask), verbose)?;
        rest = tail;
        rest_mask = mask.map(|(_, tail)| tail);
    }
    Ok(())
}

fn format_option(
    out: &mut dyn Write,
    header: [u8; HEADER_LEN],
    body: &[u8],
    mask: Option<&[u8]>,
    verbose: bool,
) -> fmt::Result {
    let class = |header: &[u8]| u16::from_be_bytes([header[0], header[1]]);
    // The five bits of the length as a whole byte, exact where all of them are.
    let len_mask = |header: &[u8]| if header[3] & 0x1f == 0x1f { u8::MAX } else { header[3] & 0x1f };
    out.write_char('{')?;
    let mut members = Members::new(out, verbose);
    members.hex("class", class(&header), mask.map(class))?;
    members.hex("type", header[2], mask.map(|mask| mask[2]))?;
    members.dec("len", body.len() as u8, mask.map(len_mask))?;
    let body_mask = mask.map(|mask| &mask[HEADER_LEN..]);
    let wildcard = body_mask.is_some_and(|mask| mask.iter().all(|&byte| byte == 0));
    if !body.is_empty() && (verbose || !wildcard) {
        write!(members.next()?, "{}", HexBytes(body))?;
        if let Some(mask) = body_mask.filter(|mask| mask.iter().any(|&byte| byte != 0xff)) {
            write!(out, "/{}", HexBytes(mask))?;
        }
    }
    out.write_char('}')
}
