//! Captures: reading pcap and pcapng of every common kind, writing nanosecond pcap, and replaying in time.
//!
//! Owns the file formats ([`CaptureReader`], [`CaptureWriter`]), the way from any supported link type to a frame
//! ([`Framer`]) and the pacing of a replay ([`Pacer`], [`Replay`]). Never decides which port a packet goes to, and
//! never judges a packet's contents beyond its link layer. Counterpart in Open vSwitch: `lib/pcap-file.c`.
//!
//! Everything streams in constant memory from any [`std::io::Read`]. The first thing wrong with a file that makes the
//! rest of it unreadable is a [`CaptureError`] with the place; everything less is a [`Note`], marked on the record and
//! counted, so that a caller prints one line for each kind.

mod error;
mod frame;
mod link;
mod note;
mod pcap;
mod pcapng;
mod reader;
mod replay;
mod sniff;
mod source;
mod time;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{BlockFault, CaptureError, WriteFault};
pub use frame::{
    BareIp, FrameCounts, FrameInfo, FrameOptions, Framer, SkipReason, Skipped, Truncated, VlanTag,
};
pub use link::{LinkType, RawNumber, SUPPORTED as SUPPORTED_LINK_TYPES, name_of as link_type_name};
pub use note::{FileCut, Note, NoteSet, Notes, Tally};
pub use reader::{
    CaptureReader, Checkpoint, Direction, Format, Interface, MAX_INTERFACES, MAX_PACKET, RecordMeta,
};
pub use replay::{
    LoopGap, Pacer, Pacing, PacingError, Ratio, Replay, ReplayCheckpoint, ReplayOptions, Replayed,
};
pub use time::TimeResolution;
pub use writer::{CaptureWriter, WriterOptions};
