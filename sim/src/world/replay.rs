//! Captures being replayed, in constant memory.

use std::fmt;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use datapath::packet::{BATCH, Packet};
use datapath::types::{Span, Time};

use super::filter::Filter;
use super::{Event, Target, World, WorldError};
use crate::capture::{LoopGap, Pacing, Replay, ReplayCheckpoint, ReplayOptions, Truncated};
use crate::diagnostic::Diagnostic;
use crate::files::{Files, ReadSeek};
use crate::record::{Observer, Watch};
use crate::scenario::{Line, Place};

type Reader = Box<dyn ReadSeek>;
type OpenFile = Box<dyn FnMut() -> io::Result<Reader> + Send>;

/// A capture being replayed. A copy continues from the same place with a file of its own.
pub(super) struct ReplayState {
    pub step: usize,
    path: PathBuf,
    files: Arc<dyn Files + Send + Sync>,
    on: Option<Place>,
    map: Vec<Mapped>,
    filter: Option<Filter>,
    options: ReplayOptions,
    open: Option<Replay<Reader, OpenFile>>,
    /// Where to go on; only while the file is not open.
    checkpoint: Option<ReplayCheckpoint>,
    /// The frame that comes next: read, but not sent yet.
    next: Option<NextFrame>,
    /// Frames of interfaces that are not mapped to a place.
    unmapped: u64,
}

/// An interface of a capture, and where its frames go.
#[derive(Clone, Debug)]
struct Mapped {
    /// Its name, or its number in decimal.
    interface: String,
    place: Place,
    /// Whether the capture had a frame of it.
    seen: bool,
}

#[derive(Clone, Debug)]
struct NextFrame {
    at: Time,
    place: Place,
    frame: Vec<u8>,
}

impl Clone for ReplayState {
    fn clone(&self) -> Self {
        Self {
            step: self.step,
            path: self.path.clone(),
            files: Arc::clone(&self.files),
            on: self.on.clone(),
            map: self.map.clone(),
            filter: self.filter.clone(),
            options: self.options,
            open: None,
            checkpoint: self.open.as_ref().map(Replay::checkpoint).or_else(|| self.checkpoint.clone()),
            next: self.next.clone(),
            unmapped: self.unmapped,
        }
    }
}

impl fmt::Debug for ReplayState {
    /// Shows the position, whether the file is open or not: both are the same state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkpoint = self.open.as_ref().map(Replay::checkpoint).or_else(|| self.checkpoint.clone());
        f.debug_struct("ReplayState")
            .field("step", &self.step)
            .field("path", &self.path)
            .field("checkpoint", &checkpoint)
            .field("next", &self.next)
            .field("unmapped", &self.unmapped)
            .finish_non_exhaustive()
    }
}

/// What a step wants replayed.
pub(super) struct ReplayRequest {
    pub step: usize,
    pub path: PathBuf,
    pub on: Option<Place>,
    pub map: Vec<(String, Place)>,
    pub filter: Option<Line>,
    pub pacing: Pacing,
    pub times: u32,
}

impl ReplayState {
    fn new(
        request: ReplayRequest,
        filter: Option<Filter>,
        files: Arc<dyn Files + Send + Sync>,
        start: Time,
    ) -> Self {
        let options = ReplayOptions {
            pacing: request.pacing,
            loops: NonZeroU64::new(u64::from(request.times)).unwrap_or(NonZeroU64::MIN),
            gap: LoopGap::default(),
            start_ns: start.0,
            ..ReplayOptions::default()
        };
        debug_assert_eq!(options.frame.truncated, Truncated::AsIs);
        Self {
            step: request.step,
            path: request.path,
            files,
            on: request.on,
            map: request
                .map
                .into_iter()
                .map(|(interface, place)| Mapped { interface, place, seen: false })
                .collect(),
            filter,
            options,
            open: None,
            checkpoint: None,
            next: None,
            unmapped: 0,
        }
    }

    fn opened(&mut self) -> Result<&mut Replay<Reader, OpenFile>, String> {
        let replay = match self.open.take() {
            Some(replay) => replay,
            None => {
                let (files, path) = (Arc::clone(&self.files), self.path.clone());
                let open: OpenFile = Box::new(move || files.open(&path));
                let replay = match self.checkpoint.take() {
                    Some(checkpoint) => Replay::resume(open, &checkpoint),
                    None => Replay::new(open, self.options),
                };
                replay.map_err(|error| format!("cannot replay {}: {error}", self.path.display()))?
            }
        };
        Ok(self.open.insert(replay))
    }

    /// Reads the next frame that has a place to go to.
    fn read_next(&mut self) -> Result<(), String> {
        let mut frame = self.next.take().map(|next| next.frame).unwrap_or_default();
        loop {
            let path = self.path.display().to_string();
            let replay = self.opened()?;
            let read =
                replay.next_frame(&mut frame).map_err(|error| format!("cannot replay {path}: {error}"))?;
            let Some(replayed) = read else { return Ok(()) };
            let interface = replayed.record.interface;
            let name =
                replay.interfaces().get(interface as usize).and_then(|interface| interface.name.clone());
            let number = interface.to_string();
            let mapped = self
                .map
                .iter_mut()
                .find(|mapped| Some(&mapped.interface) == name.as_ref() || mapped.interface == number);
            let mapped = mapped.map(|mapped| {
                mapped.seen = true;
                &mapped.place
            });
            if self.filter.as_ref().is_some_and(|filter| !filter.matches(&frame)) {
                continue;
            }
            if let Some(place) = mapped.or(self.on.as_ref()) {
                let place = place.clone();
                self.next = Some(NextFrame { at: Time(replayed.depart_ns), place, frame });
                return Ok(());
            }
            self.unmapped += 1;
        }
    }

    /// What was odd about the capture, one line each.
    fn warnings(&self) -> Vec<String> {
        let name = self.path.display();
        let mut lines = Vec::new();
        if self.open.as_ref().is_some_and(|replay| replay.records() == 0) {
            lines.push(format!("{name}: there is no packet in it"));
        }
        if let Some(replay) = &self.open {
            lines.extend(replay.notes().lines().map(|line| format!("{name}: {line}")));
            lines.extend(replay.frame_counts().lines().map(|line| format!("{name}: {line}")));
        }
        for mapped in self.map.iter().filter(|mapped| !mapped.seen) {
            let Mapped { interface, place, .. } = mapped;
            lines.push(format!("{name}: no frame of interface {interface}, which is mapped to {place}"));
        }
        if self.unmapped > 0 {
            lines.push(format!(
                "{name}: {} frames of interfaces that are mapped to no port were left out",
                self.unmapped
            ));
        }
        lines
    }
}

impl World {
    pub(super) fn start_replay(&mut self, request: ReplayRequest) -> Result<(), WorldError> {
        let step = request.step;
        let filter = request.filter.as_ref().map(Filter::of_line).transpose();
        let filter = filter.map_err(|error| self.scenario_error(error))?;
        let mut state = ReplayState::new(request, filter, Arc::clone(&self.files), self.now);
        state.read_next().map_err(|message| self.step_error(step, message))?;
        self.replays.push(state);
        self.schedule_replay(self.replays.len() - 1);
        Ok(())
    }

    fn schedule_replay(&mut self, index: usize) {
        match &self.replays[index].next {
            Some(next) => {
                let at = next.at;
                self.schedule(at, Event::Replay(index));
            }
            None => {
                let lines = self.replays[index].warnings();
                self.warnings.extend(lines);
            }
        }
    }

    /// Sends the frames of a replay that are due, up to a batch.
    pub(super) fn run_replay<W: Watch>(
        &mut self,
        index: usize,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<(), WorldError> {
        let step = self.replays[index].step;
        let Some(first) = self.replays[index].next.as_ref() else { return Ok(()) };
        let place = first.place.clone();
        let Some(target) = self.target_of(&place) else {
            return Err(self.step_error(step, format!("there is no {place} at this time")));
        };
        let mut packets: Vec<Box<Packet>> = Vec::new();
        loop {
            let state = &self.replays[index];
            let due = state.next.as_ref().filter(|next| next.at <= self.now && next.place == place);
            let Some(next) = due.filter(|_| packets.len() < BATCH) else { break };
            match target {
                Target::Port { switch, .. } => {
                    let mut packet = self.switches[switch].node.allocate();
                    packet.set_frame(&next.frame);
                    packets.push(packet);
                }
                Target::Host(host) => {
                    let frame = next.frame.clone();
                    self.send_raw(host, &frame, watch);
                }
            }
            self.replays[index].read_next().map_err(|message| self.step_error(step, message))?;
        }
        if let Target::Port { switch, port } = target {
            self.deliver(switch, port, packets, watch, observer);
        }
        self.schedule_replay(index);
        Ok(())
    }

    /// How far the replays of files are: bytes read of the current pass, for a progress bar.
    pub fn replay_offset(&self) -> u64 {
        self.replays
            .iter()
            .filter_map(|state| state.open.as_ref())
            .map(|replay| replay.reader().offset())
            .sum()
    }

    pub(super) fn step_error(&self, step: usize, message: String) -> WorldError {
        let span = self.scenario.steps.get(step).map_or(0..0, |step| step.span.clone());
        self.scenario_error(Diagnostic::new(span, message))
    }
}

/// Equal distances of `gap`, or none.
pub(super) fn pacing_of(gap: Span) -> Pacing {
    match NonZeroU64::new(gap.0) {
        None => Pacing::TopSpeed,
        Some(gap) => {
            let second = NonZeroU64::new(1_000_000_000).unwrap_or(NonZeroU64::MIN);
            Pacing::Rate(crate::capture::Ratio::new(second, gap))
        }
    }
}
