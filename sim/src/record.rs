//! What is told about a running world: departures and texts to an [`Observer`], every single event to a [`Watch`].

use std::ops::Range;

use datapath::trace::{Event, Off, PacketId, Trace};
use datapath::types::Time;

use crate::link::Fate;
use crate::world::World;

/// A frame that left a switch's port.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// When.
    pub time: Time,
    /// The step that ran last; none before the first.
    pub step: Option<usize>,
    /// The datapath.
    pub switch: usize,
    /// The bridge.
    pub bridge: &'a str,
    /// The port.
    pub port: &'a str,
    /// Whether the port is linked to another switch's.
    pub to_switch: bool,
    /// The frame.
    pub frame: &'a [u8],
}

/// A frame that comes to a switch's port.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When.
    pub time: Time,
    /// The datapath.
    pub switch: usize,
    /// The bridge.
    pub bridge: &'a str,
    /// The port.
    pub port: &'a str,
    /// Place in its batch, from 0: what leaves is told after the last frame of the batch.
    pub index: usize,
    /// The frame.
    pub frame: &'a [u8],
}

/// A command that ran on a datapath.
#[derive(Clone, Copy, Debug)]
pub struct Commanded<'a> {
    /// When.
    pub time: Time,
    /// The datapath.
    pub switch: usize,
    /// Its words.
    pub argv: &'a [&'a str],
    /// What it printed, or complained about.
    pub text: &'a str,
}

/// Wants to know what comes out of a world.
pub trait Observer {
    /// A frame left a switch's port.
    fn departed(&mut self, departure: &Departure<'_>);

    /// A frame comes to a switch's port.
    fn arrived(&mut self, _arrival: &Arrival<'_>) {}

    /// A command ran on a datapath; what it made the datapath send is told after it.
    fn commanded(&mut self, _command: &Commanded<'_>) {}

    /// A command of an `ovs` step printed something.
    fn printed(&mut self, step: usize, text: &str);
}

/// Wants to know nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn departed(&mut self, _departure: &Departure<'_>) {}

    fn printed(&mut self, _step: usize, _text: &str) {}
}

/// Something that happened outside the datapaths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldEvent {
    /// A step ran.
    Step {
        /// Its number in the file.
        step: usize,
    },
    /// A command was typed, and ran.
    Typed {
        /// Its number: how many were typed before.
        command: usize,
    },
    /// A host sent a frame.
    HostSent {
        /// Which host.
        host: usize,
    },
    /// A host received a frame.
    HostReceived {
        /// Which host.
        host: usize,
    },
    /// A link took a frame, or dropped it.
    Link {
        /// Which link.
        link: usize,
        /// 0 from its first end to the second, 1 back.
        direction: usize,
        /// What becomes of the frame.
        fate: Fate,
    },
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// In a datapath.
    Datapath {
        /// Which datapath.
        switch: usize,
        /// What.
        event: Event,
    },
    /// Elsewhere.
    World(WorldEvent),
}

/// Watches everything that happens. Free when off, as [`Trace`] is.
pub trait Watch: Trace {
    /// The datapath events that follow are of this datapath.
    fn enter(&mut self, switch: usize);

    /// Tells of an event outside the datapaths, with the frame that it is about (or no byte).
    fn world(&mut self, make: impl FnOnce() -> WorldEvent, frame: &[u8]);

    /// All that belongs to one event of the world was told, and this is what the world is like now.
    fn stepped(&mut self, _world: &World) {}
}

impl Watch for Off {
    #[inline(always)]
    fn enter(&mut self, _switch: usize) {}

    #[inline(always)]
    fn world(&mut self, _make: impl FnOnce() -> WorldEvent, _frame: &[u8]) {}
}

/// Keeps what happened, in order, with the bytes of frames where they may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorder {
    entries: Vec<Happening>,
    /// Of entry number, packet, and bytes; in order.
    shown: Vec<(usize, Option<PacketId>, Range<usize>)>,
    bytes: Vec<u8>,
    switch: usize,
}

impl Recorder {
    /// Forgets everything; memory stays.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.shown.clear();
        self.bytes.clear();
    }

    /// What happened, in order.
    pub fn entries(&self) -> &[Happening] {
        &self.entries
    }

    /// The frame as it was right after entry number `index`, if it was shown then.
    pub fn frame_at(&self, index: usize) -> Option<&[u8]> {
        let at = self.shown.partition_point(|(entry, _, _)| *entry < index);
        let (entry, _, range) = self.shown.get(at)?;
        (*entry == index).then(|| &self.bytes[range.clone()])
    }

    /// The bytes of a packet as they were last shown at or before entry number `index`.
    pub fn frame_before(&self, index: usize, packet: PacketId) -> Option<&[u8]> {
        let end = self.shown.partition_point(|(entry, _, _)| *entry <= index);
        let found = self.shown[..end].iter().rev().find(|(_, of, _)| *of == Some(packet));
        found.map(|(_, _, range)| &self.bytes[range.clone()])
    }

    fn show(&mut self, packet: Option<PacketId>, frame: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame);
        self.shown.push((self.entries.len().saturating_sub(1), packet, start..self.bytes.len()));
    }
}

impl Trace for Recorder {
    const ON: bool = true;

    fn event(&mut self, make: impl FnOnce() -> Event) {
        self.entries.push(Happening::Datapath { switch: self.switch, event: make() });
    }

    fn bytes(&mut self, packet: PacketId, data: &[u8]) {
        self.show(Some(packet), data);
    }
}

impl Watch for Recorder {
    fn enter(&mut self, switch: usize) {
        self.switch = switch;
    }

    fn world(&mut self, make: impl FnOnce() -> WorldEvent, frame: &[u8]) {
        self.entries.push(Happening::World(make()));
        if !frame.is_empty() {
            self.show(None, frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_at_their_events() {
        let mut recorder = Recorder::default();
        recorder.world(|| WorldEvent::HostSent { host: 0 }, b"one");
        recorder.enter(3);
        recorder.event(|| Event::Upcall { packet: PacketId(1) });
        recorder.bytes(PacketId(1), b"two");
        recorder.event(|| Event::Upcall { packet: PacketId(1) });
        assert_eq!(recorder.frame_at(0), Some(&b"one"[..]));
        assert_eq!(recorder.frame_at(1), Some(&b"two"[..]));
        assert_eq!(recorder.frame_at(2), None);
        assert_eq!(recorder.frame_before(2, PacketId(1)), Some(&b"two"[..]));
        assert_eq!(recorder.frame_before(0, PacketId(1)), None);
        assert!(matches!(recorder.entries()[1], Happening::Datapath { switch: 3, .. }));
    }
}
