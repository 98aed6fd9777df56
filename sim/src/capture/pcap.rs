//! Classic pcap: microseconds or nanoseconds, either byte order (draft-ietf-opsawg-pcap).
//!
//! The file header is parsed by the pcap-file crate. Its record reader is not used: it ends a file at the first
//! record that is longer than the snapshot length, that was cut by it, or whose lengths or fraction of a second are
//! not quite right, all of which occur in captures that people have; and its errors do not say where they are.

use std::io::Read;
use std::sync::Arc;

use pcap_file::pcap::PcapHeader;
use pcap_file::{Endianness, TsResolution};

use super::error::CaptureError;
use super::link::{self, LinkType};
use super::note::{Note, NoteSet};
use super::reader::{Common, Direction, Format, Interface, RecordMeta};
use super::source::{Order, Source, Stop};
use super::time::{SECOND_NS, TimeResolution};

/// Bytes of the file header, and of the header of each record.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// How the records of this file are written.
#[derive(Debug, Clone)]
pub(super) struct PcapState {
    order: Order,
    nanoseconds: bool,
    snaplen: u32,
    link: LinkType,
    fcs_len: u8,
    lengths: Lengths,
}

/// The order of the two lengths in a record header: files of version 2.2 and before have the original length first,
/// those of 2.3 either way (libpcap's sf-pcap.c knows of the programs that wrote them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    OriginalFirst,
    SmallerIsCaptured,
}

impl PcapState {
    pub fn format(&self) -> Format {
        Format::Pcap { nanoseconds: self.nanoseconds, big_endian: self.order == Order::Big }
    }
}

/// Whether a file that begins so is a classic pcap.
pub(super) fn is_pcap(prefix: &[u8]) -> bool {
    matches!(
        prefix.first_chunk(),
        Some(
            [0xa1, 0xb2, 0xc3, 0xd4]
                | [0xd4, 0xc3, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0x3c, 0x4d]
                | [0x4d, 0x3c, 0xb2, 0xa1]
        )
    )
}

/// Reads the file header.
pub(super) fn open<R: Read>(source: &mut Source<R>, common: &mut Common) -> Result<PcapState, CaptureError> {
    let io = |source| CaptureError::Read { offset: 0, records: 0, source };
    let bytes = source.peek(FILE_HEADER).map_err(io)?;
    let cut =
        CaptureError::HeaderCut { part: "pcap header", want: FILE_HEADER as u64, have: bytes.len() as u64 };
    let Ok((_, header)) = PcapHeader::from_slice(bytes) else {
        // With the magic checked before, the only other failure is a short file.
        return Err(cut);
    };
    let (major, minor) = (header.version_major, header.version_minor);
    let lengths = match (major, minor) {
        (2, 0..=2) => Lengths::OriginalFirst,
        (2, 3) => Lengths::SmallerIsCaptured,
        (2, 4) => Lengths::CapturedFirst,
        _ => {
            let supported = "2.0 to 2.4";
            return Err(CaptureError::Version { format: "pcap", offset: 4, major, minor, supported });
        }
    };
    let word = link::split_link_word(u32::from(header.datalink));
    let link = LinkType::from_number(word.number)
        .ok_or(CaptureError::LinkType { number: word.number, interface: 0 })?;
    let nanoseconds = header.ts_resolution == TsResolution::NanoSecond;
    common.interfaces = Arc::new(vec![Interface {
        index: 0,
        section: 0,
        id: 0,
        name: None,
        description: None,
        link_number: word.number,
        snaplen: header.snaplen,
        resolution: TimeResolution::Decimal(if nanoseconds { 9 } else { 6 }),
        offset_s: 0,
        fcs_len: word.fcs_len,
    }]);
    // It was there to be peeked at, so it can be skipped.
    source.skip(FILE_HEADER as u64).map_err(|_| cut)?;
    let order = match header.endianness {
        Endianness::Big => Order::Big,
        Endianness::Little => Order::Little,
    };
    Ok(PcapState { order, nanoseconds, snaplen: header.snaplen, link, fcs_len: word.fcs_len, lengths })
}

/// Reads the next record.
pub(super) fn next<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &PcapState,
    data: &mut Vec<u8>,
) -> Result<Option<RecordMeta>, Stop> {
    (common.start, common.want) = (source.offset(), RECORD_HEADER as u64);
    if source.at_end().map_err(Stop::Io)? {
        return Ok(None);
    }
    let mut header = [0; RECORD_HEADER];
    source.exact(&mut header)?;
    let field = |index: usize| state.order.u32_at(&header, 4 * index);
    let (captured, original) = match state.lengths {
        Lengths::CapturedFirst => (field(2), field(3)),
        Lengths::OriginalFirst => (field(3), field(2)),
        Lengths::SmallerIsCaptured => (field(2).min(field(3)), field(2).max(field(3))),
    };
    let mut notes = NoteSet::EMPTY;
    let used = common.judge_lengths(&mut notes, captured, original, state.snaplen)?;
    common.want += u64::from(captured);
    let unit_ns = if state.nanoseconds { 1 } else { 1000 };
    // At most 2^32 s + 2^32 * 1000 ns: fits.
    let fraction_ns = u64::from(field(1)) * unit_ns;
    if fraction_ns >= SECOND_NS {
        notes.insert(Note::TimeFraction);
    }
    source.append(data, used as usize)?;
    source.skip(u64::from(captured - used))?;
    Ok(Some(RecordMeta {
        number: common.records + 1,
        offset: common.start,
        time_ns: u64::from(field(0)) * SECOND_NS + fraction_ns,
        interface: 0,
        link: state.link,
        captured_len: used,
        original_len: original,
        fcs_len: state.fcs_len,
        direction: Direction::Unknown,
        notes,
    }))
}
