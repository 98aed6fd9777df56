//! Going back in time: keyframes, and running again from the nearest.
//!
//! A [`History`] owns the world that is looked at. It moves forward one event at a time and keeps a copy of the world (a
//! keyframe) now and then; to go back, it takes the nearest copy before the wanted event and lets the world run again. As
//! the world is deterministic, what happens again is what happened. Traces are not kept: they are made again.
//!
//! Keyframes are bounded in number and memory. When there would be too many, every second one is given up and the distance
//! between them doubles; so the distance grows with the length of the run, and the first one, at event 0, stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::trace::Off;
use datapath::types::Time;

use crate::record::{Observer, Recorder, Unobserved, Watch};
use crate::world::{EventKind, Happened, World, WorldError};

/// How many keyframes there can be.
const MAX_KEYFRAMES: usize = 64;
/// How many bytes they can take together, about.
const MAX_BYTES: usize = 512 << 20;
/// Events between two keyframes, to begin with.
const FIRST_SPACING: u64 = 256;

/// A world that can go back.
#[derive(Debug)]
pub struct History {
    world: World,
    keyframes: BTreeMap<u64, Keyframe>,
    spacing: u64,
    limits: Limits,
    recorder: Recorder,
    last: Option<Happened>,
    /// Commands that were typed, each with how many events came before it. They belong to the run: whenever the world comes
    /// to this place again, they run again.
    typed: BTreeMap<u64, Arc<str>>,
    /// The last event known, and whether it is the end.
    known: u64,
    ended: bool,
}

#[derive(Debug)]
struct Keyframe {
    world: World,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    keyframes: usize,
    bytes: usize,
}

impl History {
    /// Begins at event 0 of `world`.
    pub fn new(world: World) -> Self {
        Self::with_limits(world, MAX_KEYFRAMES, MAX_BYTES, FIRST_SPACING)
    }

    /// As [`Self::new`], with bounds of its own: at least two keyframes, and a keyframe each `spacing` events to begin with.
    pub fn with_limits(world: World, keyframes: usize, bytes: usize, spacing: u64) -> Self {
        let mut history = Self {
            world,
            keyframes: BTreeMap::new(),
            spacing: spacing.max(1),
            limits: Limits { keyframes: keyframes.max(2), bytes },
            recorder: Recorder::default(),
            last: None,
            typed: BTreeMap::new(),
            known: 0,
            ended: false,
        };
        history.keep();
        history
    }

    /// The world as it is after event number [`Self::position`].
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Events that have happened at this point.
    pub fn position(&self) -> u64 {
        self.world.events()
    }

    /// Events known so far: where the furthest look has been.
    pub fn len_known(&self) -> u64 {
        self.known
    }

    /// Whether the run is known to its end.
    pub fn is_complete(&self) -> bool {
        self.ended
    }

    /// Whether this is the end of the run.
    pub fn at_end(&self) -> bool {
        self.ended && self.position() == self.known
    }

    /// Whether anything is left to happen behind this point.
    pub fn has_next(&self) -> bool {
        let typed = self.typed.contains_key(&self.position());
        self.world.error().is_none() && (typed || self.world.next_time().is_some())
    }

    /// When the next event happens; none at the end.
    pub fn next_time(&self) -> Option<Time> {
        if self.typed.contains_key(&self.position()) {
            Some(self.world.now())
        } else {
            self.world.next_time()
        }
    }

    /// The last event that happened, if there was one.
    pub fn last(&self) -> Option<&Happened> {
        self.last.as_ref()
    }

    /// All that happened in the last event.
    pub fn trace(&self) -> &Recorder {
        &self.recorder
    }

    /// How many keyframes there are, and about how many bytes they take.
    pub fn keyframes(&self) -> (usize, usize) {
        (self.keyframes.len(), self.bytes())
    }

    fn bytes(&self) -> usize {
        self.keyframes.values().map(|keyframe| keyframe.bytes).sum()
    }

    /// Lets the next event happen, recorded. None at the end. Only events that have not happened before are told to
    /// `observer`, so that it hears each one once, however often the world goes back.
    ///
    /// # Errors
    /// As [`World::step`]: once, where the run stops.
    pub fn step_event_observed(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<Option<Happened>, WorldError> {
        if !self.has_next() {
            self.ended = true;
            return Ok(None);
        }
        self.recorder.clear();
        let fresh = self.position() == self.known;
        let observer: &mut dyn Observer = if fresh { observer } else { &mut Unobserved };
        let happened = advance(&mut self.world, &self.typed, &mut self.recorder, observer);
        self.after_step(happened)
    }

    /// Runs a command of Open vSwitch here, as the next event, and gives what it printed. It stays part of the run; what was
    /// known to come behind this point is forgotten, because it may come otherwise now.
    ///
    /// # Errors
    /// If it is not understood; nothing changed then.
    pub fn type_command(&mut self, line: &str) -> Result<String, WorldError> {
        let position = self.position();
        let mut world = self.world.clone();
        let mut recorder = Recorder::default();
        let text = world.type_command(line, &mut recorder, &mut Unobserved)?;
        self.keyframes.retain(|at, _| *at <= position);
        self.typed.retain(|at, _| *at < position);
        self.typed.insert(position, line.into());
        (self.world, self.recorder) = (world, recorder);
        self.last = Some(Happened { time: self.world.now(), kind: EventKind::Typed, frames_received: 0 });
        self.known = self.position();
        self.ended = false;
        self.keep();
        Ok(text)
    }

    /// Lets up to `events` events happen, recording the last only. Gives how many happened.
    ///
    /// # Errors
    /// As [`World::step`]: once, where the run stops.
    pub fn skip(&mut self, events: u64) -> Result<u64, WorldError> {
        let from = self.position();
        for _ in 1..events {
            if !self.has_next() {
                break;
            }
            let happened = advance(&mut self.world, &self.typed, &mut Off, &mut Unobserved);
            self.after_step(happened)?;
        }
        if events > 0 {
            self.step_event()?;
        }
        Ok(self.position() - from)
    }

    /// [`Self::step_event_observed`] without an observer.
    ///
    /// # Errors
    /// As [`World::step`]: once, where the run stops.
    pub fn step_event(&mut self) -> Result<Option<Happened>, WorldError> {
        self.step_event_observed(&mut Unobserved)
    }

    fn after_step(
        &mut self,
        happened: Result<Option<Happened>, WorldError>,
    ) -> Result<Option<Happened>, WorldError> {
        match &happened {
            Ok(Some(happened)) => self.last = Some(*happened),
            Ok(None) => {
                self.ended = true;
                return happened;
            }
            Err(_) => self.ended = true,
        }
        self.known = self.known.max(self.position());
        if happened.is_ok() {
            self.keep();
        }
        happened
    }

    /// Lets events happen until one in which a switch receives a packet. None if the end comes first.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn step_packet(&mut self) -> Result<Option<Happened>, WorldError> {
        while let Some(happened) = self.step_event()? {
            if happened.frames_received > 0 {
                return Ok(Some(happened));
            }
        }
        Ok(None)
    }

    /// Runs on to the end, or until `stop` says so.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn run_until(
        &mut self,
        mut stop: impl FnMut(&World, &Happened, &Recorder) -> bool,
    ) -> Result<Option<Happened>, WorldError> {
        while let Some(happened) = self.step_event()? {
            if stop(&self.world, &happened, &self.recorder) {
                return Ok(Some(happened));
            }
        }
        Ok(None)
    }

    /// Goes back one event. False at the beginning.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn back_event(&mut self) -> Result<bool, WorldError> {
        match self.position() {
            0 => Ok(false),
            position => self.seek(position - 1).map(|_| true),
        }
    }

    /// Goes back to the event before this one in which a switch received a packet, or to the beginning. False at the
    /// beginning.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn back_packet(&mut self) -> Result<bool, WorldError> {
        let from = self.position();
        if from == 0 {
            return Ok(false);
        }
        // From keyframe to keyframe backwards: the last event with a packet before `from`.
        let mut end = from;
        while end > 0 {
            let start = self.restore(end - 1);
            let mut found = None;
            while self.position() < end - 1 {
                let happened = advance(&mut self.world, &self.typed, &mut Off, &mut Unobserved)?;
                if happened.is_some_and(|happened| happened.frames_received > 0) {
                    found = Some(self.position());
                }
            }
            if let Some(found) = found {
                return self.seek(found).map(|_| true);
            }
            // The keyframe itself may stand right behind such an event.
            end = match start {
                0 => 0,
                start => {
                    self.seek(start)?;
                    if self.last.is_some_and(|happened| happened.frames_received > 0) {
                        return Ok(true);
                    }
                    start
                }
            };
        }
        self.seek(0).map(|_| true)
    }

    /// Goes to where exactly `event` events have happened, or to the end if there are not so many. Gives the position.
    ///
    /// # Errors
    /// As [`World::step`].
    pub fn seek(&mut self, event: u64) -> Result<u64, WorldError> {
        if event == self.position() && (event == 0 || self.last.is_some()) {
            return Ok(event);
        }
        if event == 0 {
            self.restore(0);
            self.recorder.clear();
            self.last = None;
            return Ok(0);
        }
        // The event itself is recorded, those before it are not.
        let nearest = self.keyframes.range(..event).next_back().map_or(0, |(at, _)| *at);
        if event <= self.position() || nearest > self.position() {
            self.restore(event - 1);
        }
        while self.position() + 1 < event {
            let happened = advance(&mut self.world, &self.typed, &mut Off, &mut Unobserved);
            if self.after_step(happened)?.is_none() {
                return self.record_last();
            }
        }
        match self.step_event()? {
            Some(_) => Ok(self.position()),
            None => self.record_last(),
        }
    }

    /// Runs the event that came last once more, to record it: the end came before the one that was asked for.
    fn record_last(&mut self) -> Result<u64, WorldError> {
        let position = self.position();
        if position > 0 {
            self.restore(position - 1);
            return self.seek(position);
        }
        Ok(position)
    }

    /// Puts back the last keyframe at or before `event`. Gives where that is.
    fn restore(&mut self, event: u64) -> u64 {
        let Some((at, keyframe)) = self.keyframes.range(..=event).next_back() else { return self.position() };
        self.world = keyframe.world.clone();
        self.last = None;
        *at
    }

    /// Keeps a copy of the world, if one is due here.
    fn keep(&mut self) {
        let position = self.position();
        if !position.is_multiple_of(self.spacing) || self.keyframes.contains_key(&position) {
            return;
        }
        let bytes = self.world.memory_bytes();
        self.keyframes.insert(position, Keyframe { world: self.world.clone(), bytes });
        while self.keyframes.len() > 2
            && (self.keyframes.len() > self.limits.keyframes || self.bytes() > self.limits.bytes)
        {
            self.spacing = self.spacing.saturating_mul(2);
            let spacing = self.spacing;
            self.keyframes.retain(|at, _| at.is_multiple_of(spacing));
        }
    }
}

/// Lets the next event happen: a command that was typed here, or else what the world has next.
fn advance<W: Watch>(
    world: &mut World,
    typed: &BTreeMap<u64, Arc<str>>,
    watch: &mut W,
    observer: &mut dyn Observer,
) -> Result<Option<Happened>, WorldError> {
    let Some(line) = typed.get(&world.events()) else { return world.step(watch, observer) };
    world.type_command(line, watch, observer)?;
    Ok(Some(Happened { time: world.now(), kind: EventKind::Typed, frames_received: 0 }))
}
