//! When each packet of a replay departs, and replaying a capture so.
//!
//! [`Pacer`] owns the arithmetic: it is exact. A departure is computed from the whole distance to the first packet,
//! rounded down once to a nanosecond, never by adding up rounded waits; so it does not drift, whatever the speed,
//! the rate and the number of loops. Nothing here waits or knows the present time.

use std::fmt;
use std::io::{self, Read, Seek};
use std::num::NonZeroU64;
use std::str::FromStr;

use super::error::CaptureError;
use super::frame::{FrameCounts, FrameInfo, FrameOptions, Framer};
use super::note::Notes;
use super::reader::{CaptureReader, Checkpoint, Interface, RecordMeta};
use super::time::SECOND_NS;

/// A positive fraction, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    num: NonZeroU64,
    den: NonZeroU64,
}

impl Ratio {
    /// One.
    pub const ONE: Ratio = Ratio { num: NonZeroU64::MIN, den: NonZeroU64::MIN };

    /// `num / den`.
    pub fn new(num: NonZeroU64, den: NonZeroU64) -> Self {
        Ratio { num, den }
    }

    /// From a decimal number such as `2`, `0.25` or `1.5`; `None` unless it is positive and fits.
    fn from_decimal(text: &str) -> Option<Ratio> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole_ok, fraction_ok) =
            (!whole.is_empty() && digits(whole), text == whole || !fraction.is_empty());
        if !(whole_ok && fraction_ok && digits(fraction)) {
            return None;
        }
        let den = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let fraction = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let num = whole.parse::<u64>().ok()?.checked_mul(den)?.checked_add(fraction)?;
        Some(Ratio { num: NonZeroU64::new(num)?, den: NonZeroU64::new(den)? })
    }

    /// `value / self`, rounded down; `None` if it does not fit.
    fn divide(self, value: u128) -> Option<u64> {
        let scaled = value.checked_mul(u128::from(self.den.get()))?;
        u64::try_from(scaled / u128::from(self.num.get())).ok()
    }
}

/// How fast to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// At this many times the speed of the capture. `1x`, `2.5x`.
    Speed(Ratio),
    /// At this many packets a second, evenly. `1000pps`.
    Rate(Ratio),
    /// All at once: the link they go to takes them one after another. `topspeed`.
    TopSpeed,
}

/// Text that is no [`Pacing`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a replay speed: use a multiple such as 1x or 2.5x, a rate such as 1000pps, or topspeed"
)]
pub struct PacingError(String);

impl FromStr for Pacing {
    type Err = PacingError;

    fn from_str(text: &str) -> Result<Self, PacingError> {
        let pacing = if text == "topspeed" {
            Some(Pacing::TopSpeed)
        } else if let Some(number) = text.strip_suffix("pps") {
            Ratio::from_decimal(number).map(Pacing::Rate)
        } else {
            text.strip_suffix('x').and_then(Ratio::from_decimal).map(Pacing::Speed)
        };
        pacing.ok_or_else(|| PacingError(text.to_owned()))
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |ratio: &Ratio| ratio.num.get() as f64 / ratio.den.get() as f64;
        match self {
            Pacing::Speed(ratio) => write!(f, "{}x", number(ratio)),
            Pacing::Rate(ratio) => write!(f, "{}pps", number(ratio)),
            Pacing::TopSpeed => f.write_str("topspeed"),
        }
    }
}

/// What lies between the last packet of a pass through a file and the first of the next, in the time of the capture.
/// It matters only where the capture's own times do ([`Pacing::Speed`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoopGap {
    /// The mean distance of the packets of the pass that ended, rounded down to a nanosecond: the average rate goes
    /// on over the seam, with neither a burst nor a pause.
    #[default]
    Mean,
    /// This many nanoseconds.
    Fixed(u64),
}

/// Computes departures.
///
/// ```
/// use sim::capture::{LoopGap, Pacer, Pacing};
/// let mut pacer = Pacer::new("2x".parse::<Pacing>().unwrap(), LoopGap::Mean, None, 5_000);
/// assert_eq!([100, 300, 200, 1100].map(|time| pacer.depart(time)), [5_000, 5_100, 5_100, 5_500]);
/// ```
#[derive(Debug, Clone)]
pub struct Pacer {
    pacing: Pacing,
    gap: LoopGap,
    max_gap_ns: Option<u64>,
    start_ns: u64,
    /// Packets so far, over all passes.
    sent: u64,
    /// Time of the capture from the first packet to the last one, with what went back or was cut not counted.
    position_ns: u128,
    /// Where in that this pass began, how many packets it has had, and its latest time.
    pass_start_ns: u128,
    pass_sent: u64,
    pass_latest_ns: u64,
    pass_went_back: u64,
}

impl Pacer {
    /// The first packet departs at `start_ns`. Distances between packets above `max_gap_ns` are cut to it (in the
    /// capture's time); `None` leaves them: in virtual time a pause costs nothing.
    pub fn new(pacing: Pacing, gap: LoopGap, max_gap_ns: Option<u64>, start_ns: u64) -> Self {
        Pacer {
            pacing,
            gap,
            max_gap_ns,
            start_ns,
            sent: 0,
            position_ns: 0,
            pass_start_ns: 0,
            pass_sent: 0,
            pass_latest_ns: 0,
            pass_went_back: 0,
        }
    }

    /// When the next packet, captured at `time_ns`, departs. Never before the one before it: a packet whose time is
    /// before an earlier one's departs together with that. Beyond the 584 years of 64 bits it stays at their end.
    pub fn depart(&mut self, time_ns: u64) -> u64 {
        if self.pass_sent == 0 {
            self.pass_latest_ns = time_ns;
        }
        match time_ns.checked_sub(self.pass_latest_ns) {
            Some(step) => {
                let step = self.max_gap_ns.map_or(step, |max| step.min(max));
                self.position_ns = self.position_ns.saturating_add(u128::from(step));
                self.pass_latest_ns = time_ns;
            }
            None => self.pass_went_back += 1,
        }
        let after_start = match self.pacing {
            Pacing::Speed(ratio) => ratio.divide(self.position_ns),
            Pacing::Rate(ratio) => ratio.divide(u128::from(self.sent) * u128::from(SECOND_NS)),
            Pacing::TopSpeed => Some(0),
        };
        self.sent = self.sent.saturating_add(1);
        self.pass_sent += 1;
        after_start.and_then(|ns| self.start_ns.checked_add(ns)).unwrap_or(u64::MAX)
    }

    /// The file begins again, or another one: its times are counted anew from one [`LoopGap`] after the last packet.
    pub fn next_pass(&mut self) {
        let gap_ns = match self.gap {
            _ if self.pass_sent == 0 => 0,
            LoopGap::Fixed(ns) => u128::from(ns),
            LoopGap::Mean => {
                let steps = u128::from(self.pass_sent - 1);
                (self.position_ns - self.pass_start_ns).checked_div(steps).unwrap_or(0)
            }
        };
        self.position_ns = self.position_ns.saturating_add(gap_ns);
        (self.pass_start_ns, self.pass_sent, self.pass_went_back) = (self.position_ns, 0, 0);
    }

    /// Packets of this pass whose time was before that of an earlier one.
    pub fn went_back(&self) -> u64 {
        self.pass_went_back
    }

    /// Packets so far, over all passes.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

/// How to replay a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayOptions {
    /// How fast.
    pub pacing: Pacing,
    /// How many times.
    pub loops: NonZeroU64,
    /// What comes between the loops.
    pub gap: LoopGap,
    /// Cut pauses of the capture to this many nanoseconds.
    pub max_gap_ns: Option<u64>,
    /// When the first packet departs, in nanoseconds of virtual time.
    pub start_ns: u64,
    /// How to make frames.
    pub frame: FrameOptions,
}

impl Default for ReplayOptions {
    /// Once, as it was, from time 0.
    fn default() -> Self {
        ReplayOptions {
            pacing: Pacing::Speed(Ratio::ONE),
            loops: NonZeroU64::MIN,
            gap: LoopGap::default(),
            max_gap_ns: None,
            start_ns: 0,
            frame: FrameOptions::default(),
        }
    }
}

/// One packet of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// When it departs, in nanoseconds of virtual time.
    pub depart_ns: u64,
    /// Which pass through the file, from 0.
    pub pass: u64,
    /// The record it was.
    pub record: RecordMeta,
    /// The frame it is.
    pub frame: FrameInfo,
}

/// All of a replay's state but the open file.
#[derive(Debug, Clone)]
struct State {
    options: ReplayOptions,
    framer: Framer,
    pacer: Pacer,
    pass: u64,
    /// Packets sent before this pass.
    sent_before: u64,
    /// Records read in the passes before this one.
    records_before: u64,
    /// What was odd about the file, once it has been read to its end. Each further pass would say the same again.
    notes: Option<Notes>,
    done: bool,
}

/// Where a replay stands, to go on from there later ([`Replay::resume`]).
#[derive(Debug, Clone)]
pub struct ReplayCheckpoint {
    state: State,
    reader: Checkpoint,
}

/// A capture as a sequence of frames and departures.
#[derive(Debug)]
pub struct Replay<R, F> {
    open: F,
    reader: CaptureReader<R>,
    state: State,
}

impl<R: Read, F: FnMut() -> io::Result<R>> Replay<R, F> {
    /// Opens the file. `open` is called again for each further loop.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn new(mut open: F, options: ReplayOptions) -> Result<Self, CaptureError> {
        let reader = CaptureReader::open(open().map_err(CaptureError::Open)?)?;
        let state = State {
            options,
            framer: Framer::new(options.frame),
            pacer: Pacer::new(options.pacing, options.gap, options.max_gap_ns, options.start_ns),
            pass: 0,
            sent_before: 0,
            records_before: 0,
            notes: None,
            done: false,
        };
        Ok(Replay { open, reader, state })
    }

    /// The next packet: its frame replaces what `data` holds. `None` when all loops are done. Records that cannot be
    /// frames are counted ([`Replay::frame_counts`]) and take no time.
    ///
    /// # Errors
    /// As [`CaptureReader::next_record`].
    pub fn next_frame(&mut self, data: &mut Vec<u8>) -> Result<Option<Replayed>, CaptureError> {
        let state = &mut self.state;
        while !state.done {
            let Some(record) = self.reader.next_record(data).inspect_err(|_| state.done = true)? else {
                state.notes.get_or_insert_with(|| self.reader.notes().clone());
                // A pass without a packet would only repeat itself.
                let idle = state.pacer.sent() == state.sent_before;
                if idle || state.pass + 1 >= state.options.loops.get() {
                    state.done = true;
                    break;
                }
                let input = (self.open)().map_err(CaptureError::Open).inspect_err(|_| state.done = true)?;
                state.records_before += self.reader.records();
                self.reader = CaptureReader::open(input).inspect_err(|_| state.done = true)?;
                state.pass += 1;
                state.sent_before = state.pacer.sent();
                state.pacer.next_pass();
                continue;
            };
            if let Ok(frame) = state.framer.frame(&record, data) {
                let depart_ns = state.pacer.depart(record.time_ns);
                return Ok(Some(Replayed { depart_ns, pass: state.pass, record, frame }));
            }
        }
        data.clear();
        Ok(None)
    }

    /// The interfaces described so far, to map them to ports.
    pub fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// What was odd about the file so far; each thing counts once, not once for each loop.
    pub fn notes(&self) -> &Notes {
        self.state.notes.as_ref().unwrap_or_else(|| self.reader.notes())
    }

    /// What was made of the records, over all loops.
    pub fn frame_counts(&self) -> &FrameCounts {
        self.state.framer.counts()
    }

    /// Records read, over all loops.
    pub fn records(&self) -> u64 {
        self.state.records_before + self.reader.records()
    }

    /// The reader of the current pass: its format, its offset for a progress bar, the comment of the last record.
    pub fn reader(&self) -> &CaptureReader<R> {
        &self.reader
    }

    /// Where this replay stands.
    pub fn checkpoint(&self) -> ReplayCheckpoint {
        ReplayCheckpoint { state: self.state.clone(), reader: self.reader.checkpoint() }
    }
}

impl<R: Read + Seek, F: FnMut() -> io::Result<R>> Replay<R, F> {
    /// A replay of the same file that goes on where [`Replay::checkpoint`] was taken.
    ///
    /// # Errors
    /// [`CaptureError::Open`]; [`CaptureError::Read`] if it does not seek.
    pub fn resume(mut open: F, checkpoint: &ReplayCheckpoint) -> Result<Self, CaptureError> {
        let reader = CaptureReader::resume(open().map_err(CaptureError::Open)?, &checkpoint.reader)?;
        Ok(Replay { open, reader, state: checkpoint.state.clone() })
    }
}
