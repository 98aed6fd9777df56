//! What ends the reading or writing of a capture.
//!
//! What does not end it is a [`super::Note`].

use std::io;

use super::link;

/// Why a capture cannot be read (further) or written. Offsets count bytes from the beginning of the file; records
/// count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The input cannot be opened.
    #[error("cannot open the capture: {0}")]
    Open(io::Error),
    /// The input failed.
    #[error("cannot read at byte {offset} (after {records} records): {source}")]
    Read {
        /// Where.
        offset: u64,
        /// Records read before.
        records: u64,
        /// What the input said.
        source: io::Error,
    },
    /// Not a capture file at all.
    #[error("not a pcap or pcapng file: {looks_like}")]
    NotACapture {
        /// What it looks like, and what to do about it.
        looks_like: String,
    },
    /// The file ends inside its own header.
    #[error("the file ends inside its {part}: {have} of {want} bytes")]
    HeaderCut {
        /// Which header.
        part: &'static str,
        /// Its length in bytes.
        want: u64,
        /// How much of it is there.
        have: u64,
    },
    /// A version of the format that is not understood.
    #[error("{format} version {major}.{minor} at byte {offset} is not supported; supported: {supported}")]
    Version {
        /// pcap or pcapng.
        format: &'static str,
        /// Where.
        offset: u64,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
        /// What would be.
        supported: &'static str,
    },
    /// A link type that no frame can be made of.
    #[error(
        "link type {number} ({name}) of interface {interface} is not supported; supported: {supported}",
        name = link::name_of(*number),
        supported = link::SUPPORTED
    )]
    LinkType {
        /// LINKTYPE_ number.
        number: u32,
        /// Index of the interface, counted over the whole file.
        interface: u32,
    },
    /// A captured length that no packet can have: the reader has lost its place, or never had one.
    #[error(
        "record {record} at byte {offset} claims {len} captured bytes; the limit is {limit}: \
         the file is damaged here, or not a capture"
    )]
    TooLong {
        /// Where the record begins.
        offset: u64,
        /// Which record.
        record: u64,
        /// What it claims.
        len: u32,
        /// What is possible at most.
        limit: u32,
    },
    /// A pcapng block whose length cannot be.
    #[error("block of type {block_type:#010x} at byte {offset} (after {records} records): {what}")]
    Block {
        /// Where the block begins.
        offset: u64,
        /// Records read before.
        records: u64,
        /// Block type.
        block_type: u32,
        /// What is wrong with it.
        what: BlockFault,
    },
    /// A packet of an interface that the section has not described.
    #[error(
        "record {record} at byte {offset} is of interface {id}, but the section has described {described}"
    )]
    NoSuchInterface {
        /// Where the record begins.
        offset: u64,
        /// Which record.
        record: u64,
        /// The interface's number within its section.
        id: u32,
        /// How many the section has described before.
        described: u32,
    },
    /// More interfaces than any real file has.
    #[error("the file describes more than {limit} interfaces (byte {offset})")]
    TooManyInterfaces {
        /// Where the first one too many begins.
        offset: u64,
        /// The limit.
        limit: u32,
    },
    /// The output failed.
    #[error("cannot write the capture: {0}")]
    Write(io::Error),
    /// A packet that the output format cannot hold.
    #[error("cannot write record {record}: {what}")]
    Unwritable {
        /// Which record.
        record: u64,
        /// Why not.
        what: WriteFault,
    },
}

/// What is wrong with a pcapng block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// Block lengths are multiples of 4, at least 12.
    #[error("total length {0} is not a multiple of 4 of at least 12")]
    Length(u32),
    /// Too short for the fixed fields of its type.
    #[error("total length {have} is too short for this type of block, which takes {want}")]
    TooShort {
        /// Total length of the block.
        have: u32,
        /// Least length of the type.
        want: u32,
    },
    /// The packet does not fit into the block that holds it.
    #[error("{captured} captured bytes do not fit into a block of {block}")]
    Packet {
        /// Claimed captured length.
        captured: u32,
        /// Total length of the block.
        block: u32,
    },
    /// The length at the end differs from that at the beginning.
    #[error("total length is {head} at its beginning and {tail} at its end")]
    Trailer {
        /// Length in the header.
        head: u32,
        /// Length in the trailer.
        tail: u32,
    },
    /// A section header without its byte-order magic.
    #[error("byte-order magic is {0:#010x}, not 0x1a2b3c4d in either byte order")]
    Magic(u32),
    /// A simple packet block before any interface.
    #[error("a simple packet, but the section has described no interface")]
    NoInterface,
}

/// Why classic pcap cannot hold a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// Seconds are 32 bits in a classic pcap.
    #[error("its time, {0} ns, is after the year 2106, where classic pcap ends")]
    Time(u64),
    /// Longer than the snapshot length in the file header.
    #[error("its {len} bytes are more than the file's snapshot length of {snaplen}")]
    TooLong {
        /// Captured length.
        len: u64,
        /// Snapshot length of the file.
        snaplen: u32,
    },
}
