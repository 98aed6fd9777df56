//! Frames that left, in order, in bounded memory.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use crate::files::{Files, Scratch};

/// Bytes kept in memory before they go to a scratch file.
const BUFFER: usize = 8 << 20;
/// Bytes of a record's header: step and place (4 each), length (4), little-endian.
const HEADER: usize = 12;

/// Frames, each with its step and the place it left by. Steps run in an order of their own; each step's frames are
/// contiguous, so that the place of a step's first frame is enough to find them all.
pub(super) struct Spool {
    files: Arc<dyn Files + Send + Sync>,
    keep: bool,
    buffer: Vec<u8>,
    /// Bytes written to the scratch file.
    spilled: u64,
    scratch: Option<Mutex<Box<dyn Scratch>>>,
    places: Vec<String>,
    place_ids: BTreeMap<(String, String), u32>,
    /// Where each step's frames begin and how many there are.
    steps: BTreeMap<usize, (u64, u64)>,
    error: Option<io::Error>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.spilled + self.buffer.len() as u64;
        f.debug_struct("Spool").field("bytes", &bytes).field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl Spool {
    pub fn new(files: Arc<dyn Files + Send + Sync>, keep: bool) -> Self {
        Self {
            files,
            keep,
            buffer: Vec::new(),
            spilled: 0,
            scratch: None,
            places: Vec::new(),
            place_ids: BTreeMap::new(),
            steps: BTreeMap::new(),
            error: None,
        }
    }

    pub fn put(&mut self, step: usize, bridge: &str, port: &str, frame: &[u8]) {
        if !self.keep || self.error.is_some() {
            return;
        }
        let place = self.place_id(bridge, port);
        let at = self.spilled + self.buffer.len() as u64;
        self.steps.entry(step).or_insert((at, 0)).1 += 1;
        for word in [step as u32, place, frame.len() as u32] {
            self.buffer.extend(word.to_le_bytes());
        }
        self.buffer.extend(frame);
        if self.buffer.len() >= BUFFER
            && let Err(error) = self.spill()
        {
            self.error = Some(error);
        }
    }

    fn place_id(&mut self, bridge: &str, port: &str) -> u32 {
        if let Some(last) = self.place_ids.iter().find(|((b, p), _)| b == bridge && p == port) {
            return *last.1;
        }
        let id = self.places.len() as u32;
        self.places.push(format!("{bridge}:{port}"));
        self.place_ids.insert((bridge.to_owned(), port.to_owned()), id);
        id
    }

    fn spill(&mut self) -> io::Result<()> {
        let scratch = match self.scratch.take() {
            Some(scratch) => scratch,
            None => Mutex::new(self.files.scratch()?),
        };
        let scratch = self.scratch.insert(scratch);
        scratch.get_mut().unwrap_or_else(PoisonError::into_inner).write_all(&self.buffer)?;
        self.spilled += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends writing.
    pub fn finish(mut self) -> io::Result<Self> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Calls `each` with place and frame for everything that left in `step`, in order.
    pub fn for_each(
        &self,
        step: usize,
        mut each: impl FnMut(&str, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(&(mut at, count)) = self.steps.get(&step) else { return Ok(()) };
        let mut reader = SpoolReader { spool: self, window: Vec::new(), window_at: 0 };
        let mut left = count;
        while left > 0 {
            let header: [u8; HEADER] = match reader.bytes(at, HEADER)?.try_into() {
                Ok(header) => header,
                Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            let word =
                |i: usize| u32::from_le_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
            let (of, place, len) = (word(0), word(4), word(8) as usize);
            let frame = reader.bytes(at + HEADER as u64, len)?;
            // Frames of other steps lie between only if steps were not contiguous; they are passed over.
            if of as usize == step {
                each(self.places.get(place as usize).map_or("", String::as_str), frame)?;
                left -= 1;
            }
            at += (HEADER + len) as u64;
        }
        Ok(())
    }
}

/// Reads back, with a window over the scratch file.
struct SpoolReader<'a> {
    spool: &'a Spool,
    window: Vec<u8>,
    window_at: u64,
}

impl SpoolReader<'_> {
    fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let spool = self.spool;
        if at >= spool.spilled {
            let start = (at - spool.spilled) as usize;
            return spool.buffer.get(start..start + len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        }
        let inside = at >= self.window_at && at + len as u64 <= self.window_at + self.window.len() as u64;
        if !inside {
            // Records never straddle the end of what was spilled: it is written record by record.
            let want = (1usize << 18).max(len).min((spool.spilled - at) as usize);
            self.window.resize(want, 0);
            self.window_at = at;
            let Some(scratch) = &spool.scratch else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
            scratch.seek(SeekFrom::Start(at))?;
            scratch.read_exact(&mut self.window)?;
        }
        let start = (at - self.window_at) as usize;
        self.window.get(start..start + len).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn gives_back_what_was_put(records in prop::collection::vec((0usize..4, 0u8..3, 0usize..3), 0..40), big in any::<bool>()) {
            let mut spool = Spool::new(Arc::new(MemoryFiles::default()), true);
            let sizes = if big { [5_000_000, 60, 1] } else { [1500, 60, 0] };
            let mut model: BTreeMap<usize, Vec<(String, usize)>> = BTreeMap::new();
            for (step, port, size) in records {
                spool.put(step, "s1", &port.to_string(), &vec![port; sizes[size]]);
                model.entry(step).or_default().push((format!("s1:{port}"), sizes[size]));
            }
            let spool = spool.finish().unwrap();
            for step in 0..4 {
                let mut got = Vec::new();
                spool.for_each(step, |place, frame| {
                    got.push((place.to_owned(), frame.len()));
                    Ok(())
                }).unwrap();
                prop_assert_eq!(got, model.remove(&step).unwrap_or_default());
            }
        }
    }
}
