//! Walking through history: one event, one packet or one flow at a time, forwards and backwards, or running.
//!
//! Owns the engine, where the walk is, and the trail: what happened around there. The trail is a window of bounded
//! size; what lies outside is run again when it is needed. Long ways are walked a slice at a time ([`Walk::tick`]).

use std::collections::VecDeque;
use std::time::Duration;

use datapath::trace::{Event, FlowId};
use datapath::types::Time;

use super::command::Breakpoint;
use super::filter::Filter;
use super::marks::{Entry, Marks, breakpoint_of, mark};
use super::model::{Cursor, Engine, Record, SwitchIndex};

/// Records kept in the trail at most; the far end is forgotten beyond.
const TRAIL: usize = 20_000;
/// Steps that are run again at once to see what was before the trail.
const REFILL: u64 = 256;
/// Steps behind a fast run that are traced, so that the timeline shows something.
const TAIL: u64 = 64;

/// How fast a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Events a second of wall-clock time.
    Events(u32),
    /// Virtual time passes as fast as wall-clock time.
    RealTime,
    /// As fast as possible.
    Top,
}

impl Pace {
    /// All, from slow to fast.
    pub const ALL: [Self; 6] =
        [Self::Events(1), Self::Events(10), Self::Events(100), Self::Events(1000), Self::RealTime, Self::Top];

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Events(n) => format!("{n}/s"),
            Self::RealTime => "1x".to_owned(),
            Self::Top => "max".to_owned(),
        }
    }
}

/// Where a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Reception of another packet.
    Packet,
    /// An event of a flow.
    Flow(SwitchIndex, FlowId),
}

impl Goal {
    fn is_met(self, record: &Record) -> bool {
        match self {
            Self::Packet => matches!(record.event(), Some(Event::Rx { .. })),
            Self::Flow(switch, flow) => record.switch() == Some(switch) && record.flow() == Some(flow),
        }
    }

    /// What is looked for, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Flow(..) => "event of this flow",
        }
    }
}

/// Work that takes more than one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    /// Running, until paused.
    Run {
        /// Wall-clock nanoseconds not yet turned into events.
        credit_ns: u64,
        /// Virtual time that a real-time run has come to.
        target: Time,
    },
    /// To the end of what can happen.
    ToEnd,
    /// Looking for the next record.
    Ahead {
        /// What for.
        goal: Goal,
        /// Where from.
        from: Cursor,
    },
    /// Looking for the former record.
    Behind {
        /// What for.
        goal: Goal,
        /// Where from.
        from: Cursor,
        /// Steps up to here are still to be looked through.
        unseen: u64,
    },
}

/// What came of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was to be done.
    Idle,
    /// The job goes on.
    Going,
    /// The job reached what it was for.
    Done,
    /// A run was stopped.
    Stopped(Breakpoint),
    /// There is nothing left to happen.
    End,
    /// There is no such record; the walk is back where it began.
    NotFound(Goal),
}

/// A walk through the history of a world.
pub struct Walk {
    engine: Box<dyn Engine>,
    trail: VecDeque<Entry>,
    cursor: Cursor,
    job: Option<Job>,
    pace: Pace,
    /// What stops a run.
    pub breakpoints: Vec<Breakpoint>,
    filter: Option<Filter>,
}

impl Walk {
    /// A walk that begins where `engine` is, which must be the start.
    pub fn new(engine: Box<dyn Engine>) -> Self {
        Self {
            engine,
            trail: VecDeque::new(),
            cursor: Cursor::default(),
            job: None,
            pace: Pace::Events(10),
            breakpoints: Vec::new(),
            filter: None,
        }
    }

    /// The world.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// What happened around the cursor, in order.
    pub const fn trail(&self) -> &VecDeque<Entry> {
        &self.trail
    }

    /// Where the walk is.
    pub const fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The work under way.
    pub const fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Whether it runs.
    pub const fn is_running(&self) -> bool {
        matches!(self.job, Some(Job::Run { .. }))
    }

    /// How fast a run is.
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// The entry at the cursor; none at the start.
    pub fn current(&self) -> Option<&Entry> {
        self.position_of(self.cursor).map(|index| &self.trail[index])
    }

    /// Index of a place in the trail.
    pub fn position_of(&self, at: Cursor) -> Option<usize> {
        self.trail.binary_search_by_key(&at, |entry| entry.at).ok()
    }

    /// The next pace up or down.
    pub fn change_pace(&mut self, faster: bool) {
        let now = Pace::ALL.iter().position(|pace| *pace == self.pace).unwrap_or_default();
        let next = if faster { (now + 1).min(Pace::ALL.len() - 1) } else { now.saturating_sub(1) };
        self.pace = Pace::ALL[next];
        if let Some(Job::Run { .. }) = self.job {
            self.start_run();
        }
    }

    /// Changes what the filter lets through.
    pub fn set_filter(&mut self, filter: Option<Filter>) {
        self.filter = filter;
        let mut start = 0;
        while start < self.trail.len() {
            let step = self.trail[start].at.step;
            let mut end = start;
            while end < self.trail.len() && self.trail[end].at.step == step {
                end += 1;
            }
            let mut marks = Marks::default();
            for index in start..end {
                self.trail[index].packet_passes =
                    marks.passes(&*self.engine, self.filter.as_ref(), &self.trail[index].record);
            }
            start = end;
        }
    }

    /// The filter.
    pub const fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// Whether the filter lets an entry through.
    pub fn passes(&self, entry: &Entry) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.passes_entry(entry))
    }

    /// Starts or pauses a run.
    pub fn run_or_pause(&mut self) {
        if self.job.is_some() { self.cancel() } else { self.start_run() }
    }

    fn start_run(&mut self) {
        let target = self.trail.back().map_or(Time::ZERO, |entry| entry.record.time);
        self.job = Some(Job::Run { credit_ns: 0, target });
    }

    /// Stops what is under way: a run where it is, a search where it began.
    pub fn cancel(&mut self) {
        match self.job.take() {
            Some(Job::Ahead { from, .. } | Job::Behind { from, .. }) => self.go(from),
            Some(Job::Run { .. } | Job::ToEnd) | None => {}
        }
    }

    /// One record forwards.
    pub fn forward(&mut self) -> bool {
        self.job = None;
        self.advance()
    }

    /// One record backwards.
    pub fn back(&mut self) -> bool {
        self.job = None;
        if self.cursor.step == 0 {
            return false;
        }
        if self.cursor.record > 0 {
            self.cursor.record -= 1;
            return true;
        }
        let step = self.cursor.step - 1;
        self.see(step);
        let record =
            self.trail.iter().rev().find(|entry| entry.at.step == step).map_or(0, |last| last.at.record);
        self.engine.go_to(step);
        self.cursor = Cursor { step, record };
        true
    }

    /// To the start.
    pub fn go_to_start(&mut self) {
        self.job = None;
        self.go(Cursor::default());
    }

    /// To the furthest step reached so far, or, from there, to the end.
    pub fn go_to_end(&mut self) {
        self.job = None;
        let frontier = self.engine.frontier();
        if self.cursor.step < frontier {
            let step = frontier;
            self.see(step);
            let record = self.trail.back().map_or(0, |last| last.at.record);
            self.go(Cursor { step, record });
        } else {
            self.job = Some(Job::ToEnd);
        }
    }

    /// Looks for the next or the former record that meets `goal`.
    pub fn search(&mut self, goal: Goal, ahead: bool) {
        let from = self.cursor;
        self.job = Some(if ahead {
            Job::Ahead { goal, from }
        } else {
            let unseen = self.trail.front().map_or(0, |first| first.at.step.saturating_sub(1));
            Job::Behind { goal, from, unseen }
        });
    }

    /// Goes to a place that has been seen before.
    pub fn go(&mut self, to: Cursor) {
        self.job = None;
        self.see(to.step);
        self.engine.go_to(to.step);
        self.cursor = if to.step == 0 || self.position_of(to).is_some() {
            to
        } else {
            Cursor { step: to.step, record: 0 }
        };
    }

    /// Makes the trail show more of what was before it. Returns whether there was anything.
    pub fn see_before(&mut self) -> bool {
        let Some(first) = self.trail.front().map(|entry| entry.at.step).filter(|step| *step > 1) else {
            return false;
        };
        self.refill(first - 1);
        self.engine.go_to(self.cursor.step);
        true
    }

    /// Runs a command of Open vSwitch here, as a step of its own.
    ///
    /// # Errors
    /// What is wrong with it; nothing changed then.
    pub fn command(&mut self, line: &str) -> Result<String, String> {
        self.job = None;
        let answer = self.engine.command(line)?;
        let cursor = self.cursor;
        self.trail.retain(|entry| entry.at.step <= cursor.step);
        // The command is the step behind this one: show it.
        let step = self.engine.step();
        self.trail.retain(|entry| entry.at.step < step);
        self.see(step);
        self.engine.go_to(step);
        self.cursor = Cursor { step, record: self.trail.back().map_or(0, |entry| entry.at.record) };
        Ok(answer)
    }

    /// Goes on with what is under way, for at most `budget` steps.
    pub fn tick(&mut self, elapsed: Duration, budget: u64) -> Progress {
        match self.job {
            None => Progress::Idle,
            Some(Job::Run { credit_ns, target }) => self.run(credit_ns, target, elapsed, budget),
            Some(Job::ToEnd) => {
                self.skip_and_trace(budget);
                self.going_unless_end()
            }
            Some(Job::Ahead { goal, from }) => self.look_ahead(goal, from, budget),
            Some(Job::Behind { goal, from, unseen }) => self.look_behind(goal, from, unseen),
        }
    }

    fn run(&mut self, credit_ns: u64, target: Time, elapsed: Duration, budget: u64) -> Progress {
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        match self.pace {
            Pace::Events(rate) => {
                let each_ns = 1_000_000_000 / u64::from(rate.max(1));
                let credit_ns = credit_ns.saturating_add(elapsed_ns);
                let due = (credit_ns / each_ns).min(budget);
                self.job = Some(Job::Run { credit_ns: (credit_ns - due * each_ns).min(each_ns), target });
                for _ in 0..due {
                    if !self.advance() {
                        break;
                    }
                    if let Some(stop) = self.breakpoint_here() {
                        self.job = None;
                        return Progress::Stopped(stop);
                    }
                }
            }
            Pace::RealTime => {
                let target = Time(target.0.saturating_add(elapsed_ns));
                self.job = Some(Job::Run { credit_ns: 0, target });
                let mut steps = 0;
                while steps < budget && self.engine.next_time().is_some_and(|time| time <= target) {
                    steps += 1;
                    if let Some(stop) = self.advance_step() {
                        return Progress::Stopped(stop);
                    }
                }
            }
            Pace::Top if self.breakpoints.is_empty() => self.skip_and_trace(budget),
            Pace::Top => {
                for _ in 0..budget {
                    if self.engine.at_end() {
                        break;
                    }
                    if let Some(stop) = self.advance_step() {
                        return Progress::Stopped(stop);
                    }
                }
            }
        }
        self.going_unless_end()
    }

    fn going_unless_end(&mut self) -> Progress {
        let last = self.trail.back().is_none_or(|last| last.at == self.cursor);
        if self.engine.at_end() && last {
            self.job = None;
            Progress::End
        } else {
            Progress::Going
        }
    }

    /// Takes `budget` steps and traces the last of them.
    fn skip_and_trace(&mut self, budget: u64) {
        let quick = budget.saturating_sub(TAIL);
        if quick > 0 {
            let before = self.engine.step();
            self.engine.skip(quick);
            if self.engine.at_end() && self.engine.step() > before {
                // The end came within the quick part: show what led there.
                self.trail.clear();
                let step = self.engine.step();
                self.refill(step);
                self.engine.go_to(step);
                self.cursor = self.trail.back().map_or(Cursor { step, record: 0 }, |last| last.at);
                return;
            }
            self.trail.clear();
            self.cursor = Cursor { step: self.engine.step(), record: 0 };
        }
        for _ in 0..budget.min(TAIL) {
            if !self.take_step() {
                break;
            }
        }
        if let Some(last) = self.trail.back() {
            self.cursor = last.at;
        } else if self.cursor.step > 0 {
            self.see(self.cursor.step);
            self.engine.go_to(self.cursor.step);
        }
    }

    /// Goes to the end of the next step, or to the record in it that a breakpoint stops at.
    fn advance_step(&mut self) -> Option<Breakpoint> {
        if !self.advance() {
            return None;
        }
        loop {
            if let Some(stop) = self.breakpoint_here() {
                self.job = None;
                return Some(stop);
            }
            let next = Cursor { step: self.cursor.step, record: self.cursor.record + 1 };
            self.position_of(next)?;
            self.cursor = next;
        }
    }

    fn look_ahead(&mut self, goal: Goal, from: Cursor, budget: u64) -> Progress {
        for _ in 0..budget {
            if !self.advance() {
                self.go(from);
                return Progress::NotFound(goal);
            }
            if self.current().is_some_and(|entry| goal.is_met(&entry.record)) {
                self.job = None;
                return Progress::Done;
            }
        }
        Progress::Going
    }

    fn look_behind(&mut self, goal: Goal, from: Cursor, unseen: u64) -> Progress {
        // What the trail shows was not looked at yet if nothing was added to it.
        let found = self.trail.iter().rev().find(|entry| entry.at < from && goal.is_met(&entry.record));
        if let Some(at) = found.map(|entry| entry.at) {
            self.go(at);
            return Progress::Done;
        }
        if unseen == 0 {
            self.go(from);
            return Progress::NotFound(goal);
        }
        self.refill(unseen);
        // Only what was added is of interest from here on, so that a long search stays within bounds.
        let first = self.trail.front().map_or(0, |entry| entry.at.step);
        self.trail.retain(|entry| entry.at.step <= unseen);
        self.job = Some(Job::Behind { goal, from, unseen: first.saturating_sub(1) });
        Progress::Going
    }

    /// The breakpoint that the cursor's record meets, if the filter lets it through.
    fn breakpoint_here(&self) -> Option<Breakpoint> {
        let entry = self.current()?;
        let breakpoint = breakpoint_of(&entry.record)?;
        (self.breakpoints.contains(&breakpoint) && self.passes(entry)).then_some(breakpoint)
    }

    /// One record forwards, over the trail or beyond it.
    fn advance(&mut self) -> bool {
        let next = match self.position_of(self.cursor) {
            Some(index) => self.trail.get(index + 1).map(|entry| entry.at),
            None => {
                self.trail.front().map(|entry| entry.at).filter(|first| first.step == self.cursor.step + 1)
            }
        };
        if let Some(next) = next {
            if next.step != self.cursor.step {
                self.engine.skip(next.step - self.cursor.step);
            }
            self.cursor = next;
            return true;
        }
        if self.trail.back().is_some_and(|last| last.at.step != self.cursor.step) {
            self.trail.clear();
        }
        if !self.take_step() {
            return false;
        }
        self.cursor = Cursor { step: self.engine.step(), record: 0 };
        true
    }

    /// Takes one step of the world and puts what happened at the end of the trail.
    fn take_step(&mut self) -> bool {
        if self.engine.at_end() {
            return false;
        }
        let mut records = Vec::new();
        self.engine.forward(&mut records);
        let entries = mark(&*self.engine, self.filter.as_ref(), self.engine.step(), records);
        self.trail.extend(entries);
        let step = self.engine.step();
        while self.trail.len() > TRAIL && self.trail.front().is_some_and(|entry| entry.at.step < step) {
            self.trail.pop_front();
        }
        true
    }

    /// Makes sure that the trail shows `step` and, unless it did, some of what was before. The world may be elsewhere
    /// afterwards.
    fn see(&mut self, step: u64) {
        let shown = |trail: &VecDeque<Entry>| {
            trail.front().is_some_and(|first| first.at.step <= step)
                && trail.back().is_some_and(|last| last.at.step >= step)
        };
        if step > 0 && !shown(&self.trail) {
            if self.trail.front().is_none_or(|first| first.at.step != step + 1) {
                self.trail.clear();
            }
            self.refill(step);
        }
    }

    /// Runs the steps up to `last` again and puts what happened in front of the trail, which must be empty or begin at the
    /// step behind `last`. The world is at `last` afterwards.
    fn refill(&mut self, last: u64) {
        self.engine.go_to(last.saturating_sub(REFILL));
        let mut added = Vec::new();
        while self.engine.step() < last && !self.engine.at_end() {
            let mut records = Vec::new();
            self.engine.forward(&mut records);
            added.extend(mark(&*self.engine, self.filter.as_ref(), self.engine.step(), records));
        }
        for entry in added.into_iter().rev() {
            self.trail.push_front(entry);
        }
        while self.trail.len() > TRAIL && self.trail.back().is_some_and(|entry| entry.at.step > last) {
            self.trail.pop_back();
        }
    }
}
