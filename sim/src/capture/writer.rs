//! Writes classic pcap with nanoseconds.
//!
//! The bytes depend on nothing but what is written. The formatting is that of the pcap-file crate.

use std::borrow::Cow;
use std::io::Write;

use pcap_file::pcap::{PcapHeader, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

use super::error::{CaptureError, WriteFault};
use super::link::LinkType;
use super::reader::MAX_PACKET;
use super::time::SECOND_NS;

/// What the header of a written file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// Link type. Default Ethernet.
    pub link: LinkType,
    /// Snapshot length in bytes. Default [`MAX_PACKET`], as tcpdump writes it.
    pub snaplen: u32,
    /// Byte order of the numbers. Default little-endian, on every machine.
    pub big_endian: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { link: LinkType::Ethernet, snaplen: MAX_PACKET, big_endian: false }
    }
}

/// Writes a capture record by record. It does not buffer: give it a buffered output.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    inner: PcapWriter<W>,
    records: u64,
}

impl<W: Write> CaptureWriter<W> {
    /// A file of Ethernet frames: writes the file header.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn new(output: W) -> Result<Self, CaptureError> {
        Self::with_options(output, WriterOptions::default())
    }

    /// Writes the file header that `options` ask for.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn with_options(output: W, options: WriterOptions) -> Result<Self, CaptureError> {
        let header = PcapHeader {
            version_major: 2,
            version_minor: 4,
            ts_correction: 0,
            ts_accuracy: 0,
            snaplen: options.snaplen,
            datalink: DataLink::from(options.link.number()),
            ts_resolution: TsResolution::NanoSecond,
            endianness: if options.big_endian { Endianness::Big } else { Endianness::Little },
        };
        let inner = PcapWriter::with_header(output, header).map_err(write_error)?;
        Ok(CaptureWriter { inner, records: 0 })
    }

    /// Writes a record: `time_ns` since 1970 (virtual time counts from there), the length that the packet had, and
    /// the bytes of it that are there. An `original_len` below the length of `data` is raised to it.
    ///
    /// # Errors
    /// [`CaptureError::Unwritable`] if the format cannot hold it: then nothing of it was written.
    /// [`CaptureError::Write`].
    pub fn write(&mut self, time_ns: u64, original_len: u32, data: &[u8]) -> Result<(), CaptureError> {
        let record = self.records + 1;
        let unwritable = |what| CaptureError::Unwritable { record, what };
        let snaplen = self.inner.snaplen();
        let ts_sec = u32::try_from(time_ns / SECOND_NS).map_err(|_| unwritable(WriteFault::Time(time_ns)))?;
        let incl_len = u32::try_from(data.len())
            .ok()
            .filter(|&len| snaplen == 0 || len <= snaplen)
            .ok_or_else(|| unwritable(WriteFault::TooLong { len: data.len() as u64, snaplen }))?;
        let packet = RawPcapPacket {
            ts_sec,
            ts_frac: (time_ns % SECOND_NS) as u32,
            incl_len,
            orig_len: original_len.max(incl_len),
            data: Cow::Borrowed(data),
        };
        self.inner.write_raw_packet(&packet).map_err(write_error)?;
        self.records = record;
        Ok(())
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    /// [`CaptureError::Write`].
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut output = self.inner.into_writer();
        output.flush().map_err(CaptureError::Write)?;
        Ok(output)
    }
}

/// Writing raw records fails only where the output does.
fn write_error(error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(error) => CaptureError::Write(error),
        other => CaptureError::Write(std::io::Error::other(other)),
    }
}
