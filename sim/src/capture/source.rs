//! A buffered input that knows where in the file it is.
//!
//! Owns one fixed buffer; never holds more of the file than that. What a length field claims is only ever reserved
//! up to [`super::MAX_PACKET`], and skipped rather than read where it is not wanted.

use std::io::{self, Read, Seek, SeekFrom};

use super::CaptureError;

/// Bytes of the input held at a time.
const BUFFER: usize = 64 * 1024;

/// Why reading stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file ends where there should be more.
    Cut,
    /// The input failed.
    Io(io::Error),
    /// The file is wrong.
    Fault(Box<CaptureError>),
}

impl From<CaptureError> for Stop {
    fn from(error: CaptureError) -> Self {
        Stop::Fault(Box::new(error))
    }
}

/// The input and the buffered piece of it.
#[derive(Debug)]
pub(super) struct Source<R> {
    inner: R,
    buffer: Box<[u8]>,
    /// The unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Where in the file `buffer[start]` is.
    offset: u64,
}

impl<R: Read> Source<R> {
    pub fn new(inner: R) -> Self {
        Source { inner, buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0, offset: 0 }
    }

    /// Bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Up to `want` bytes (at most the buffer) without consuming them; fewer only at the end of the file.
    pub fn peek(&mut self, want: usize) -> io::Result<&[u8]> {
        let want = want.min(BUFFER);
        if self.start + want > BUFFER {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < want {
            if self.read_more()? == 0 {
                break;
            }
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + want)])
    }

    /// Whether the file has ended.
    pub fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.unread()?.is_empty())
    }

    /// Fills `out`, or says why it cannot.
    pub fn exact(&mut self, out: &mut [u8]) -> Result<(), Stop> {
        let mut done = 0;
        while done < out.len() {
            let unread = self.unread().map_err(Stop::Io)?;
            if unread.is_empty() {
                return Err(Stop::Cut);
            }
            let take = unread.len().min(out.len() - done);
            out[done..done + take].copy_from_slice(&unread[..take]);
            self.consume(take);
            done += take;
        }
        Ok(())
    }

    /// Appends `count` bytes to `out`.
    pub fn append(&mut self, out: &mut Vec<u8>, count: usize) -> Result<(), Stop> {
        let mut left = count;
        while left > 0 {
            let unread = self.unread().map_err(Stop::Io)?;
            if unread.is_empty() {
                return Err(Stop::Cut);
            }
            let take = unread.len().min(left);
            out.extend_from_slice(&unread[..take]);
            self.consume(take);
            left -= take;
        }
        Ok(())
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: u64) -> Result<(), Stop> {
        let mut left = count;
        while left > 0 {
            let unread = self.unread().map_err(Stop::Io)?.len();
            if unread == 0 {
                return Err(Stop::Cut);
            }
            let take = (unread as u64).min(left) as usize;
            self.consume(take);
            left -= take as u64;
        }
        Ok(())
    }

    fn unread(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.read_more()?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.offset += count as u64;
    }

    fn read_more(&mut self) -> io::Result<usize> {
        loop {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    // A reader that claims more than it was given room for must not make us index out of bounds.
                    let count = count.min(self.buffer.len() - self.end);
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read + Seek> Source<R> {
    /// The input at `offset` bytes from its beginning.
    pub fn at(mut inner: R, offset: u64) -> io::Result<Self> {
        inner.seek(SeekFrom::Start(offset))?;
        Ok(Source { offset, ..Source::new(inner) })
    }
}

/// Byte order of the numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The 16-bit number at `at` of a buffer of known length.
    pub fn u16_at<const N: usize>(self, bytes: &[u8; N], at: usize) -> u16 {
        self.u16([bytes[at], bytes[at + 1]])
    }

    /// The 32-bit number at `at` of a buffer of known length.
    pub fn u32_at<const N: usize>(self, bytes: &[u8; N], at: usize) -> u32 {
        self.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    }
}
