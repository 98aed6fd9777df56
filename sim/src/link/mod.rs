//! Links: what happens to a frame between two ends, exactly.
//!
//! A link has two directions that share nothing. A frame that a node sends into a direction meets, in this order:
//!
//! 1. **down**: if the link is down at this moment, the frame is dropped (`link-down`). Frames already on their way arrive.
//! 2. **mtu**: if the frame without its Ethernet header and VLAN tags is longer than `mtu` bytes, it is dropped (`mtu`). A
//!    frame that is still to be segmented counts as its largest segment.
//! 3. **rate and queue**: without `rate`, the frame leaves at once. With it, the frames leave one after the other; each
//!    takes `frame bytes * 8 / rate` (rounded up to a nanosecond; no preamble, gap or check sequence is counted) from the
//!    time at which it reaches the head of the queue. If the frames that wait (the one being sent does not wait) would
//!    become more than `queue` allows, the frame that just came is dropped (`queue-full`): drop-tail. Default: 1000 packets.
//!    A change of the rate holds for frames that come after it.
//! 4. **loss**: once it has left, each frame is lost with probability `loss`, independently of all others (`loss`). It did
//!    occupy the line.
//! 5. **delay and jitter**: it arrives `delay + j` after it left, where `j` is drawn evenly from the whole nanoseconds in
//!    `[-jitter, +jitter]`, and `delay + j` is at least 0. Jitter alone never reorders: a frame arrives no earlier than the
//!    frames that left before it, except those that rule 6 held back.
//! 6. **reorder**: with probability `reorder` the frame is held back for `reorder-gap` (default 1 ms) beyond that, and later
//!    frames do not wait for it.
//! 7. **duplicate**: with probability `duplicate` a second copy arrives right behind the first, at the same time. Copies are
//!    not lost, delayed or duplicated on their own.
//!
//! Probabilities are exact to 10^-9 and each kind of chance draws from a stream of its own, named after the ends and the
//! direction: a change of one quantity does not change what another one draws, nor does another link. A stream is drawn
//! from only while its quantity is not 0.
//!
//! Counterparts: `tc-netem(8)`, from which the rules 5 and 6 differ on purpose (there jitter reorders, and reordering sends
//! early), and `tc-pfifo(8)`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use datapath::types::{Span, Time};

use crate::quantity::Probability;
use crate::random::Stream;

/// How much may wait in a link's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Frames.
    Packets(u64),
    /// Bytes of frames.
    Bytes(u64),
}

/// One direction of a link, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Time that a frame travels.
    pub delay: Span,
    /// Largest deviation from it.
    pub jitter: Span,
    /// Chance that a frame is lost.
    pub loss: Probability,
    /// Chance that a frame arrives twice.
    pub duplicate: Probability,
    /// Chance that a frame is held back.
    pub reorder: Probability,
    /// How long it is held back then.
    pub reorder_gap: Span,
    /// Bits a second; none is no limit.
    pub rate: Option<u64>,
    /// How much may wait while there is a rate.
    pub queue: QueueLimit,
    /// Longest L3 packet in bytes; none is no limit.
    pub mtu: Option<u32>,
    /// Whether it carries nothing.
    pub down: bool,
}

impl Default for LinkModel {
    /// A perfect line: no delay, no limit.
    fn default() -> Self {
        Self {
            delay: Span::ZERO,
            jitter: Span::ZERO,
            loss: Probability::NEVER,
            duplicate: Probability::NEVER,
            reorder: Probability::NEVER,
            reorder_gap: Span::from_millis(1),
            rate: None,
            queue: QueueLimit::Packets(1000),
            mtu: None,
            down: false,
        }
    }
}

/// Some quantities of a link to be changed; none leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkPatch {
    /// See [`LinkModel::delay`].
    pub delay: Option<Span>,
    /// See [`LinkModel::jitter`].
    pub jitter: Option<Span>,
    /// See [`LinkModel::loss`].
    pub loss: Option<Probability>,
    /// See [`LinkModel::duplicate`].
    pub duplicate: Option<Probability>,
    /// See [`LinkModel::reorder`].
    pub reorder: Option<Probability>,
    /// See [`LinkModel::reorder_gap`].
    pub reorder_gap: Option<Span>,
    /// See [`LinkModel::rate`].
    pub rate: Option<Option<u64>>,
    /// See [`LinkModel::queue`].
    pub queue: Option<QueueLimit>,
    /// See [`LinkModel::mtu`].
    pub mtu: Option<Option<u32>>,
    /// See [`LinkModel::down`].
    pub down: Option<bool>,
}

impl LinkPatch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl LinkModel {
    /// This model with the quantities of `patch` in place of its own.
    pub fn patched(self, patch: &LinkPatch) -> Self {
        Self {
            delay: patch.delay.unwrap_or(self.delay),
            jitter: patch.jitter.unwrap_or(self.jitter),
            loss: patch.loss.unwrap_or(self.loss),
            duplicate: patch.duplicate.unwrap_or(self.duplicate),
            reorder: patch.reorder.unwrap_or(self.reorder),
            reorder_gap: patch.reorder_gap.unwrap_or(self.reorder_gap),
            rate: patch.rate.unwrap_or(self.rate),
            queue: patch.queue.unwrap_or(self.queue),
            mtu: patch.mtu.unwrap_or(self.mtu),
            down: patch.down.unwrap_or(self.down),
        }
    }
}

/// Why a link did not deliver a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkDrop {
    /// The link was down.
    Down,
    /// The frame was longer than the MTU.
    Mtu,
    /// The queue was full.
    QueueFull,
    /// Chance.
    Loss,
}

impl LinkDrop {
    /// All reasons, in order.
    pub const ALL: [Self; 4] = [Self::Down, Self::Mtu, Self::QueueFull, Self::Loss];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "link-down",
            Self::Mtu => "mtu",
            Self::QueueFull => "queue-full",
            Self::Loss => "loss",
        }
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, perhaps twice.
    Arrives {
        /// When.
        at: Time,
        /// Whether a copy arrives right behind it.
        twice: bool,
    },
    /// It does not.
    Dropped(LinkDrop),
}

/// What a direction counted. `sent + duplicated = delivered + dropped + under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that a node sent into it.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Copies made of them.
    pub duplicated: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames and copies that arrived.
    pub delivered: u64,
    /// Frames that did not, by [`LinkDrop::ALL`].
    pub dropped: [u64; LinkDrop::ALL.len()],
}

impl LinkCounters {
    /// All frames dropped.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Frames and copies that have neither arrived nor been dropped.
    pub fn under_way(&self) -> u64 {
        (self.sent + self.duplicated).saturating_sub(self.delivered + self.dropped_in_all())
    }
}

/// One direction of a link: model, queue, streams of chance, counters.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The model in force.
    pub model: LinkModel,
    /// What it counted.
    pub counters: LinkCounters,
    /// When the line is free again.
    free_at: Time,
    /// Frames that wait or are being sent: when each begins to be sent, and its bytes.
    waiting: VecDeque<(Time, u64)>,
    waiting_bytes: u64,
    /// No frame that is not held back arrives before this.
    in_order_at: Time,
    loss: Stream,
    jitter: Stream,
    reorder: Stream,
    duplicate: Stream,
}

/// What a frame weighs on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSize {
    /// Bytes of the frame.
    pub bytes: u64,
    /// Bytes of (the largest segment of) its L3 packet.
    pub l3_bytes: u64,
}

impl Direction {
    /// An empty direction called `name` (both ends, in the order of travel).
    pub fn new(model: LinkModel, seed: u64, name: &str) -> Self {
        let stream = |kind: &str| Stream::new(seed, &format!("link {name} {kind}"));
        Self {
            model,
            counters: LinkCounters::default(),
            free_at: Time::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_order_at: Time::ZERO,
            loss: stream("loss"),
            jitter: stream("jitter"),
            reorder: stream("reorder"),
            duplicate: stream("duplicate"),
        }
    }

    /// Frames that wait for the line at `now`, and their bytes.
    pub fn queued(&mut self, now: Time) -> (u64, u64) {
        while let Some(&(begins, bytes)) = self.waiting.front() {
            if begins > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        (self.waiting.len() as u64, self.waiting_bytes)
    }

    /// Takes a frame at `now` and decides all that will happen to it.
    pub fn send(&mut self, now: Time, size: FrameSize) -> Fate {
        self.counters.sent += 1;
        self.counters.sent_bytes += size.bytes;
        let fate = self.decide(now, size);
        match fate {
            Fate::Dropped(reason) => self.counters.dropped[reason as usize] += 1,
            Fate::Arrives { twice, at: _ } => self.counters.duplicated += u64::from(twice),
        }
        fate
    }

    fn decide(&mut self, now: Time, size: FrameSize) -> Fate {
        if self.model.down {
            return Fate::Dropped(LinkDrop::Down);
        }
        if self.model.mtu.is_some_and(|mtu| size.l3_bytes > u64::from(mtu)) {
            return Fate::Dropped(LinkDrop::Mtu);
        }
        let Some(left_at) = self.transmit(now, size.bytes) else {
            return Fate::Dropped(LinkDrop::QueueFull);
        };
        if self.loss.happens(self.model.loss) {
            return Fate::Dropped(LinkDrop::Loss);
        }
        let mut at = left_at + self.travel_time();
        if self.reorder.happens(self.model.reorder) {
            self.counters.reordered += 1;
            at += self.model.reorder_gap;
        } else {
            at = at.max(self.in_order_at);
            self.in_order_at = at;
        }
        Fate::Arrives { at, twice: self.duplicate.happens(self.model.duplicate) }
    }

    /// When the last bit of a frame of `bytes` will have left, if the queue takes it.
    fn transmit(&mut self, now: Time, bytes: u64) -> Option<Time> {
        let (packets, waiting_bytes) = self.queued(now);
        let begins = self.free_at.max(now);
        let Some(rate) = self.model.rate else {
            // A rate that was lifted leaves a line that is still busy with what it accepted before.
            return Some(begins);
        };
        if begins > now {
            let fits = match self.model.queue {
                QueueLimit::Packets(limit) => packets < limit,
                QueueLimit::Bytes(limit) => waiting_bytes + bytes <= limit,
            };
            if !fits {
                return None;
            }
            self.waiting.push_back((begins, bytes));
            self.waiting_bytes += bytes;
        }
        let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        self.free_at = begins + Span(u64::try_from(ns).unwrap_or(u64::MAX));
        Some(self.free_at)
    }

    fn travel_time(&mut self) -> Span {
        let (delay, jitter) = (self.model.delay.0, self.model.jitter.0);
        if jitter == 0 {
            return Span(delay);
        }
        let range = jitter.saturating_mul(2).saturating_add(1);
        let drawn = self.jitter.below(range);
        Span(delay.saturating_add(drawn).saturating_sub(jitter))
    }

    /// Counts a frame or copy that arrived.
    pub fn delivered(&mut self) {
        self.counters.delivered += 1;
    }
}
