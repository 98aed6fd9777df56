//! What was odd about a capture without ending it.
//!
//! A reader marks the record ([`super::RecordMeta::notes`]) and counts here, in constant memory, so that a caller can
//! print one line for each kind at the end instead of one for each record.

use std::fmt;

/// One kind of oddity of a record or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Note {
    /// The captured length is over the original length; only the original length is used.
    CapturedOverOriginal,
    /// The captured length is over the snapshot length of the file or interface; all of it is used.
    OverSnaplen,
    /// The packet was cut by the snapshot length when it was captured.
    Truncated,
    /// No byte of the packet was captured.
    ZeroLength,
    /// The time is before that of an earlier record.
    TimeWentBack,
    /// The fraction of the second is a second or more; the surplus is carried into the seconds.
    TimeFraction,
    /// The time does not fit into 64 bits of nanoseconds since 1970; the nearest that does is used.
    TimeClamped,
    /// The record has no time (simple packet block); that of the record before is used.
    NoTime,
    /// The options of a block are malformed; those from the bad one on are ignored.
    BadOptions,
    /// A block of unknown type was skipped.
    UnknownBlock,
}

impl Note {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Note; 10] = [
        Note::CapturedOverOriginal,
        Note::OverSnaplen,
        Note::Truncated,
        Note::ZeroLength,
        Note::TimeWentBack,
        Note::TimeFraction,
        Note::TimeClamped,
        Note::NoTime,
        Note::BadOptions,
        Note::UnknownBlock,
    ];

    /// What is counted, and what was done about it.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Note::CapturedOverOriginal => {
                ("with a captured length over the original length", "the surplus bytes are not used")
            }
            Note::OverSnaplen => ("longer than the file's snapshot length", "all their bytes are used"),
            Note::Truncated => ("cut short when they were captured", "only what was captured is there"),
            Note::ZeroLength => ("without a captured byte", "they are empty packets"),
            Note::TimeWentBack => {
                ("with a time before that of an earlier one", "they keep their place in the file")
            }
            Note::TimeFraction => {
                ("with a fraction of a second that is not one", "the surplus is carried into the seconds")
            }
            Note::TimeClamped => {
                ("with a time before 1970 or after 2554", "the nearest possible time is used")
            }
            Note::NoTime => ("without a time", "they take the time of the one before"),
            Note::BadOptions => ("with malformed options", "the rest of their options is ignored"),
            Note::UnknownBlock => ("of unknown type", "skipped"),
        }
    }

    /// True if what is counted are blocks, not records.
    fn counts_blocks(self) -> bool {
        matches!(self, Note::BadOptions | Note::UnknownBlock)
    }
}

/// A set of [`Note`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoteSet(u16);

impl NoteSet {
    /// The empty set.
    pub const EMPTY: NoteSet = NoteSet(0);

    /// Adds one.
    pub fn insert(&mut self, note: Note) {
        self.0 |= 1 << note as u8;
    }

    /// Whether it is in the set.
    pub fn contains(self, note: Note) -> bool {
        self.0 & (1 << note as u8) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its members, in order.
    pub fn iter(self) -> impl Iterator<Item = Note> {
        Note::ALL.into_iter().filter(move |&note| self.contains(note))
    }
}

/// How often a [`Note`] was made, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The first record it was made of (from 1); for blocks, the number of records before it.
    pub first_record: u64,
    /// Byte in the file at which that record or block begins.
    pub first_offset: u64,
}

/// The file ends inside a record: all records before it were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCut {
    /// Byte in the file at which the cut record or block begins.
    pub offset: u64,
    /// Whole records before it.
    pub records: u64,
    /// How many bytes the record or block takes, as far as is known.
    pub want: u64,
    /// How many are there.
    pub have: u64,
}

impl fmt::Display for FileCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the file ends inside what begins at byte {}: {} of {} bytes are there; the {} whole records before it \
             were read",
            self.offset, self.have, self.want, self.records
        )
    }
}

/// All notes of one reading of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes {
    tallies: [Tally; Note::ALL.len()],
    cut: Option<FileCut>,
}

impl Notes {
    /// The tally of one kind.
    pub fn get(&self, note: Note) -> Tally {
        self.tallies[note as usize]
    }

    /// Whether, and where, the file was cut.
    pub fn cut(&self) -> Option<FileCut> {
        self.cut
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.cut.is_none() && self.tallies.iter().all(|tally| tally.count == 0)
    }

    /// One line of text for each kind that occurred, without line ends.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let tallies = Note::ALL.into_iter().filter_map(|note| {
            let tally = self.get(note);
            (tally.count > 0).then(|| line(note, tally))
        });
        tallies.chain(self.cut.map(|cut| cut.to_string()))
    }

    pub(super) fn add(&mut self, note: Note, record: u64, offset: u64) {
        let tally = &mut self.tallies[note as usize];
        if tally.count == 0 {
            (tally.first_record, tally.first_offset) = (record, offset);
        }
        tally.count = tally.count.saturating_add(1);
    }

    pub(super) fn set_cut(&mut self, cut: FileCut) {
        self.cut = Some(cut);
    }
}

fn line(note: Note, tally: Tally) -> String {
    let (what, done) = note.text();
    let Tally { count, first_record, first_offset } = tally;
    let s = if count == 1 { "" } else { "s" };
    if note.counts_blocks() {
        return format!("{count} block{s} {what} (first at byte {first_offset}): {done}");
    }
    format!("{count} record{s} {what} (first: record {first_record} at byte {first_offset}): {done}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_has_its_own_bit_and_line() {
        for (index, note) in Note::ALL.into_iter().enumerate() {
            assert_eq!(note as usize, index);
            let mut set = NoteSet::EMPTY;
            set.insert(note);
            assert_eq!(set.iter().collect::<Vec<_>>(), [note]);
        }
        let mut notes = Notes::default();
        assert!(notes.is_empty());
        notes.add(Note::TimeWentBack, 7, 1234);
        notes.add(Note::TimeWentBack, 8, 1300);
        notes.set_cut(FileCut { offset: 5000, records: 9, want: 116, have: 20 });
        assert_eq!(
            notes.lines().collect::<Vec<_>>(),
            [
                "2 records with a time before that of an earlier one (first: record 7 at byte 1234): they keep their \
                 place in the file",
                "the file ends inside what begins at byte 5000: 20 of 116 bytes are there; the 9 whole records before \
                 it were read",
            ]
        );
    }
}
