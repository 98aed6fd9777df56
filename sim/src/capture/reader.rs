//! The reader: tells the formats apart and hands out one record at a time.

use std::fmt;
use std::io::{Read, Seek};
use std::sync::Arc;

use super::error::CaptureError;
use super::link::LinkType;
use super::note::{FileCut, Note, NoteSet, Notes};
use super::pcap::{self, PcapState};
use super::pcapng::{self, NgState};
use super::sniff;
use super::source::{Source, Stop};
use super::time::TimeResolution;

/// Most bytes that one record may hold: what tcpdump and Wireshark allow. Longer claims are damage.
pub const MAX_PACKET: u32 = 262_144;

/// Most interfaces that one file may describe.
pub const MAX_INTERFACES: u32 = 4096;

/// A capturing interface as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Counted from 0 over the whole file: what [`RecordMeta::interface`] refers to.
    pub index: u32,
    /// The pcapng section that describes it, from 0.
    pub section: u32,
    /// Its number within that section.
    pub id: u32,
    /// Option `if_name`. Classic pcap has no names.
    pub name: Option<String>,
    /// Option `if_description`.
    pub description: Option<String>,
    /// LINKTYPE_ number; it may be one that is not supported as long as no packet uses it.
    pub link_number: u32,
    /// Snapshot length in bytes; 0 means no limit.
    pub snaplen: u32,
    /// What one tick of its timestamps is.
    pub resolution: TimeResolution,
    /// Option `if_tsoffset`: seconds added to each timestamp.
    pub offset_s: i64,
    /// Octets of frame check sequence at the end of each packet, unless the packet says otherwise.
    pub fcs_len: u8,
}

/// Which way a packet went through the interface it was captured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The file does not say.
    #[default]
    Unknown,
    /// Received by the capturing machine.
    Inbound,
    /// Sent by the capturing machine.
    Outbound,
}

/// Everything about a record but its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMeta {
    /// Which record of the file, from 1 (as Wireshark numbers them).
    pub number: u64,
    /// Byte in the file at which the record or block begins.
    pub offset: u64,
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time_ns: u64,
    /// Index into [`CaptureReader::interfaces`].
    pub interface: u32,
    /// What the first byte belongs to.
    pub link: LinkType,
    /// Bytes handed out.
    pub captured_len: u32,
    /// Bytes the packet had, headers of the link type included; never less than `captured_len`.
    pub original_len: u32,
    /// Octets of frame check sequence that the last of the `original_len` bytes are.
    pub fcs_len: u8,
    /// Which way it went.
    pub direction: Direction,
    /// What is odd about it.
    pub notes: NoteSet,
}

/// A file format, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap.
    Pcap {
        /// Fractions of seconds are nanoseconds, not microseconds.
        nanoseconds: bool,
        /// Numbers are big-endian.
        big_endian: bool,
    },
    /// pcapng. Byte order is a matter of each section.
    PcapNg,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::Pcap { nanoseconds, big_endian } => {
                let unit = if *nanoseconds { "nanoseconds" } else { "microseconds" };
                let order = if *big_endian { "big-endian" } else { "little-endian" };
                write!(f, "pcap, {unit}, {order}")
            }
            Format::PcapNg => f.write_str("pcapng"),
        }
    }
}

/// What both formats share while being read.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub interfaces: Arc<Vec<Interface>>,
    pub notes: Notes,
    /// Records handed out.
    pub records: u64,
    /// The latest time handed out.
    pub latest_ns: u64,
    /// The time handed out last.
    pub last_ns: u64,
    /// The comments of the record just read.
    pub comment: String,
    /// Where the record or block being read begins, and how many bytes it takes as far as is known.
    pub start: u64,
    pub want: u64,
}

impl Common {
    /// Notes something about a block that is not a record.
    pub fn note_block(&mut self, note: Note) {
        self.notes.add(note, self.records, self.start);
    }

    /// Judges the lengths of a record. Returns how many of the `captured` bytes are the packet.
    pub fn judge_lengths(
        &self,
        set: &mut NoteSet,
        captured: u32,
        original: u32,
        snaplen: u32,
    ) -> Result<u32, CaptureError> {
        if captured > MAX_PACKET {
            let (offset, record) = (self.start, self.records + 1);
            return Err(CaptureError::TooLong { offset, record, len: captured, limit: MAX_PACKET });
        }
        if captured > original {
            set.insert(Note::CapturedOverOriginal);
        }
        if snaplen != 0 && captured > snaplen {
            set.insert(Note::OverSnaplen);
        }
        if captured == 0 || original == 0 {
            set.insert(Note::ZeroLength);
        } else if captured < original {
            set.insert(Note::Truncated);
        }
        Ok(captured.min(original))
    }

    /// The link type of interface `index`, or the refusal of it.
    pub fn link_of(&self, index: u32) -> Result<LinkType, CaptureError> {
        let number = self.interfaces.get(index as usize).map_or(u32::MAX, |interface| interface.link_number);
        LinkType::from_number(number).ok_or(CaptureError::LinkType { number, interface: index })
    }

    /// Counts the whole record and its notes, and compares its time with those before.
    pub fn finish(&mut self, mut meta: RecordMeta) -> RecordMeta {
        if meta.time_ns < self.latest_ns && self.records > 0 {
            meta.notes.insert(Note::TimeWentBack);
        }
        for note in meta.notes.iter() {
            self.notes.add(note, meta.number, meta.offset);
        }
        self.latest_ns = self.latest_ns.max(meta.time_ns);
        self.last_ns = meta.time_ns;
        self.records += 1;
        meta
    }
}

#[derive(Debug, Clone)]
enum FormatState {
    Pcap(PcapState),
    PcapNg(NgState),
}

#[derive(Debug, Clone)]
struct State {
    common: Common,
    format: FormatState,
    done: bool,
}

/// Reads a capture record by record, in constant memory.
///
/// ```
/// # fn main() -> Result<(), sim::capture::CaptureError> {
/// # let mut file = Vec::new();
/// # sim::capture::CaptureWriter::new(&mut file)?.write(1_500_000_000, 60, &[0; 60])?;
/// let mut reader = sim::capture::CaptureReader::open(&file[..])?;
/// let mut data = Vec::new();
/// while let Some(record) = reader.next_record(&mut data)? {
///     assert_eq!((record.time_ns, data.len()), (1_500_000_000, 60));
/// }
/// for line in reader.notes().lines() { /* to be shown once */ }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CaptureReader<R> {
    source: Source<R>,
    state: State,
}

/// Where a reader stands, to go on from there later ([`CaptureReader::resume`]). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    state: State,
    offset: u64,
}

impl Checkpoint {
    /// Records read before it.
    pub fn records(&self) -> u64 {
        self.state.common.records
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header and tells the format by content.
    ///
    /// # Errors
    /// [`CaptureError::NotACapture`], [`CaptureError::HeaderCut`], [`CaptureError::Version`],
    /// [`CaptureError::LinkType`] (classic pcap; for pcapng it comes with the first packet of that link type), or
    /// whatever is wrong with the first block of a pcapng.
    pub fn open(input: R) -> Result<Self, CaptureError> {
        let mut source = Source::new(input);
        let io = |source| CaptureError::Read { offset: 0, records: 0, source };
        // No more than needed: the input may be a pipe that has not more yet.
        let prefix = source.peek(4).map_err(io)?;
        let mut common = Common {
            interfaces: Arc::new(Vec::new()),
            notes: Notes::default(),
            records: 0,
            latest_ns: 0,
            last_ns: 0,
            comment: String::new(),
            start: 0,
            want: 0,
        };
        let format = if pcap::is_pcap(prefix) {
            FormatState::Pcap(pcap::open(&mut source, &mut common)?)
        } else if pcapng::is_pcapng(prefix) {
            FormatState::PcapNg(pcapng::open(&mut source, &mut common)?)
        } else {
            let looks_like = sniff::looks_like(source.peek(sniff::PREFIX).map_err(io)?);
            return Err(CaptureError::NotACapture { looks_like });
        };
        Ok(CaptureReader { source, state: State { common, format, done: false } })
    }

    /// Reads the next record: its bytes replace what `data` holds. `None` at the end of the file, which may come in
    /// the middle of a record ([`Notes::cut`]).
    ///
    /// # Errors
    /// Whatever makes the rest of the file unreadable. After an error the reader is at its end.
    pub fn next_record(&mut self, data: &mut Vec<u8>) -> Result<Option<RecordMeta>, CaptureError> {
        data.clear();
        let State { common, format, done } = &mut self.state;
        common.comment.clear();
        if *done {
            return Ok(None);
        }
        let result = match format {
            FormatState::Pcap(state) => pcap::next(&mut self.source, common, state, data),
            FormatState::PcapNg(state) => pcapng::next(&mut self.source, common, state, data),
        };
        match result {
            Ok(Some(meta)) => Ok(Some(common.finish(meta))),
            Ok(None) => {
                *done = true;
                Ok(None)
            }
            Err(stop) => {
                *done = true;
                data.clear();
                common.comment.clear();
                let (offset, records) = (common.start, common.records);
                match stop {
                    Stop::Cut => {
                        let have = self.source.offset() - offset;
                        common.notes.set_cut(FileCut { offset, records, want: common.want, have });
                        Ok(None)
                    }
                    Stop::Io(source) => {
                        Err(CaptureError::Read { offset: self.source.offset(), records, source })
                    }
                    Stop::Fault(error) => Err(*error),
                }
            }
        }
    }

    /// The format.
    pub fn format(&self) -> Format {
        match &self.state.format {
            FormatState::Pcap(state) => state.format(),
            FormatState::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The interfaces described so far: all of them for classic pcap; for pcapng those that precede the last record.
    pub fn interfaces(&self) -> &[Interface] {
        &self.state.common.interfaces
    }

    /// What was odd so far.
    pub fn notes(&self) -> &Notes {
        &self.state.common.notes
    }

    /// Records read so far.
    pub fn records(&self) -> u64 {
        self.state.common.records
    }

    /// Bytes of the file read so far, for a progress bar.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// The comments of the record just read, one a line; pcapng only. At most 64 KiB are kept.
    pub fn comment(&self) -> Option<&str> {
        let comment = self.state.common.comment.as_str();
        (!comment.is_empty()).then_some(comment)
    }

    /// Where this reader stands.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { state: self.state.clone(), offset: self.source.offset() }
    }
}

impl<R: Read + Seek> CaptureReader<R> {
    /// A reader of the same file that goes on where [`CaptureReader::checkpoint`] was taken.
    ///
    /// # Errors
    /// [`CaptureError::Read`] if the input cannot seek there.
    pub fn resume(input: R, checkpoint: &Checkpoint) -> Result<Self, CaptureError> {
        let Checkpoint { state, offset } = checkpoint.clone();
        let records = state.common.records;
        let source =
            Source::at(input, offset).map_err(|source| CaptureError::Read { offset, records, source })?;
        Ok(CaptureReader { source, state })
    }
}
