//! One packet's way: the events of a packet and of the copies made of it, in one switch, from its reception on.

use std::collections::VecDeque;
use std::rc::Rc;

use datapath::offload::Offloads;
use datapath::trace::{Event, PacketId};

use super::marks::Entry;
use super::model::Cursor;

/// One packet's way.
pub struct Journey<'a> {
    /// The packet as it was received, before any copy was made of it; none of a frame outside switches.
    pub packet: Option<PacketId>,
    /// Its events, and those of its copies.
    pub entries: Vec<&'a Entry>,
}

/// What is known of a packet at one event of its way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Its bytes.
    pub bytes: Option<Rc<[u8]>>,
    /// Its offload flags.
    pub offloads: Option<Offloads>,
}

impl<'a> Journey<'a> {
    /// The way of the packet that the event at `at` is about; none if it is about none. Outside switches, a frame has no way
    /// but the one event.
    pub fn of(trail: &'a VecDeque<Entry>, at: Cursor) -> Option<Self> {
        let start = trail.partition_point(|entry| entry.at.step < at.step);
        let end = trail.partition_point(|entry| entry.at.step <= at.step);
        let current = trail.get(trail.binary_search_by_key(&at, |entry| entry.at).ok()?)?;
        let (Some(switch), Some(packet)) = (current.record.switch(), current.record.packet()) else {
            let entries = current.record.bytes.as_ref().map(|_| vec![current])?;
            return Some(Self { packet: None, entries });
        };
        let here: Vec<&Entry> =
            trail.range(start..end).filter(|entry| entry.record.switch() == Some(switch)).collect();
        let root = root(&here, packet);
        let mut family = vec![root];
        let mut entries = Vec::new();
        for entry in here {
            let Some(id) = entry.record.packet().filter(|id| family.contains(id)) else { continue };
            // Ids are not used twice within a step, but a packet may be received again in a later one of the same batch.
            if let Some(Event::Copy { copy, .. }) = entry.record.event() {
                family.push(*copy);
            }
            debug_assert!(family.contains(&id));
            entries.push(entry);
        }
        Some(Self { packet: Some(root), entries })
    }

    /// Index of the event at `at`, or of the last one before.
    pub fn index_of(&self, at: Cursor) -> usize {
        self.entries.partition_point(|entry| entry.at <= at).saturating_sub(1)
    }

    /// What was known of the packet of event number `index` after it, and before it.
    pub fn states(&self, index: usize) -> (State, State) {
        let Some(entry) = self.entries.get(index) else { return (State::default(), State::default()) };
        let before =
            entry.record.packet().map_or_else(State::default, |packet| self.state_before(packet, index));
        let mut after = before.clone();
        if let Some(bytes) = &entry.record.bytes {
            after.bytes = Some(Rc::clone(bytes));
        }
        if let Some(offloads) = entry.record.offloads() {
            after.offloads = Some(offloads);
        }
        (before, after)
    }

    /// What was known of `packet` before event number `index`: from its own events, or those of what it is a copy of.
    fn state_before(&self, packet: PacketId, index: usize) -> State {
        let mut state = State::default();
        let mut packet = packet;
        for entry in self.entries[..index].iter().rev() {
            if let Some(Event::Copy { packet: original, copy }) = entry.record.event()
                && *copy == packet
            {
                packet = *original;
            }
            if entry.record.packet() != Some(packet) {
                continue;
            }
            if state.bytes.is_none() {
                state.bytes.clone_from(&entry.record.bytes);
            }
            if state.offloads.is_none() {
                state.offloads = entry.record.offloads();
            }
            if state.bytes.is_some() && state.offloads.is_some() {
                break;
            }
        }
        state
    }
}

/// The packet that `packet` is a copy of, or a copy of a copy.
fn root(here: &[&Entry], packet: PacketId) -> PacketId {
    let mut packet = packet;
    for entry in here.iter().rev() {
        if let Some(Event::Copy { packet: original, copy }) = entry.record.event()
            && *copy == packet
        {
            packet = *original;
        }
    }
    packet
}

#[cfg(test)]
mod tests {
    use datapath::types::{PortNo, Time};

    use super::super::model::{Record, SwitchIndex, What};
    use super::*;

    fn entry(record: usize, event: Event, bytes: Option<&[u8]>) -> Entry {
        let what = What::Switch { switch: SwitchIndex(0), event };
        Entry {
            at: Cursor { step: 1, record },
            record: Record { time: Time::ZERO, what, bytes: bytes.map(Rc::from) },
            depth: 0,
            packet_passes: true,
        }
    }

    fn rx(packet: u64, offloads: Offloads) -> Event {
        Event::Rx { packet: PacketId(packet), port: PortNo(1), len: 2, offloads }
    }

    fn way() -> VecDeque<Entry> {
        let action = |packet| Event::Action {
            packet: PacketId(packet),
            flow: None,
            word: "output",
            index: 0,
            depth: 0,
        };
        VecDeque::from([
            entry(0, rx(1, Offloads::IP_GOOD), Some(&[1, 1])),
            entry(1, rx(2, Offloads::empty()), Some(&[2, 2])),
            entry(2, Event::Copy { packet: PacketId(1), copy: PacketId(3) }, None),
            entry(3, action(3), Some(&[3, 3])),
            entry(4, action(1), Some(&[4, 4])),
            entry(5, action(2), None),
        ])
    }

    #[test]
    fn copies_belong_to_the_packet() {
        let trail = way();
        for record in [0, 2, 3, 4] {
            let journey = Journey::of(&trail, Cursor { step: 1, record }).unwrap();
            let records: Vec<usize> = journey.entries.iter().map(|entry| entry.at.record).collect();
            assert_eq!((journey.packet, records), (Some(PacketId(1)), vec![0, 2, 3, 4]), "from {record}");
        }
        let other = Journey::of(&trail, Cursor { step: 1, record: 5 }).unwrap();
        assert_eq!(other.entries.len(), 2);
        assert!(Journey::of(&trail, Cursor { step: 2, record: 0 }).is_none());
    }

    #[test]
    fn a_copy_starts_as_its_original_was() {
        let trail = way();
        let journey = Journey::of(&trail, Cursor { step: 1, record: 0 }).unwrap();
        let (before, after) = journey.states(2);
        assert_eq!(before.bytes.as_deref(), Some([1, 1].as_slice()));
        assert_eq!(before.offloads, Some(Offloads::IP_GOOD));
        assert_eq!(after.bytes.as_deref(), Some([3, 3].as_slice()));
        let (before, after) = journey.states(3);
        assert_eq!(
            before.bytes.as_deref(),
            Some([1, 1].as_slice()),
            "what was done to the copy is the copy's"
        );
        assert_eq!(after.bytes.as_deref(), Some([4, 4].as_slice()));
        assert_eq!(journey.states(99), (State::default(), State::default()));
    }
}
