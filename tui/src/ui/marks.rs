//! What is known of a record beside itself: how often its packet was recirculated, whether the filter wants it, and which
//! breakpoint it meets.

use datapath::trace::{Event, OffloadWhy, PacketId};

use super::command::Breakpoint;
use super::filter::Filter;
use super::model::{Cursor, Engine, Record, SwitchIndex};

/// One record, where it is, and what is known of its packet there.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where.
    pub at: Cursor,
    /// What.
    pub record: Record,
    /// How often its packet was recirculated before.
    pub depth: u8,
    /// Whether its packet is one that the filter's match lets through; true without a packet.
    pub packet_passes: bool,
}

/// The breakpoint that a record meets, set or not.
pub const fn breakpoint_of(record: &Record) -> Option<Breakpoint> {
    match record.event() {
        Some(Event::Drop { .. }) => Some(Breakpoint::Drop),
        Some(Event::Recirc { .. }) => Some(Breakpoint::Recirc),
        Some(Event::OffloadChange { why, .. }) => match why {
            OffloadWhy::Received | OffloadWhy::Extracted => None,
            OffloadWhy::Rewritten
            | OffloadWhy::Encapsulated
            | OffloadWhy::Decapsulated
            | OffloadWhy::Verified
            | OffloadWhy::Prepared
            | OffloadWhy::Segmented => Some(Breakpoint::Offload),
        },
        Some(Event::Install { .. }) => Some(Breakpoint::Install),
        Some(
            Event::Rx { .. }
            | Event::Lookup { .. }
            | Event::Upcall { .. }
            | Event::Modify { .. }
            | Event::Remove { .. }
            | Event::Conntrack { .. }
            | Event::Expire { .. }
            | Event::Action { .. }
            | Event::Copy { .. }
            | Event::Tx { .. },
        )
        | None => None,
    }
}

/// Makes entries of the records of one step.
pub fn mark(engine: &dyn Engine, filter: Option<&Filter>, step: u64, records: Vec<Record>) -> Vec<Entry> {
    let mut marks = Marks::default();
    records
        .into_iter()
        .enumerate()
        .map(|(index, record)| {
            let depth = marks.depth(&record);
            let packet_passes = marks.passes(engine, filter, &record);
            Entry { at: Cursor { step, record: index }, record, depth, packet_passes }
        })
        .collect()
}

/// What is known of the packets of one step while its records are gone through.
#[derive(Default)]
pub struct Marks {
    depths: Vec<(SwitchIndex, PacketId, u8)>,
    passing: Vec<(SwitchIndex, PacketId, bool)>,
}

impl Marks {
    /// Recirculation depth at which the record's packet is; a copy is where its original was.
    pub fn depth(&mut self, record: &Record) -> u8 {
        let (Some(switch), Some(packet)) = (record.switch(), record.packet()) else { return 0 };
        let find = |list: &[(SwitchIndex, PacketId, u8)], id: PacketId| {
            list.iter().rev().find(|(at, one, _)| *at == switch && *one == id).map_or(0, |(.., depth)| *depth)
        };
        let depth = find(&self.depths, packet);
        if let Some(Event::Recirc { depth, .. }) = record.event() {
            self.depths.push((switch, packet, *depth));
            return *depth;
        }
        if let Some(Event::Copy { copy, .. }) = record.event() {
            self.depths.push((switch, *copy, depth));
        }
        depth
    }

    /// Whether the record's packet, or the one it is a copy of, was received as the filter's match wants it.
    pub fn passes(&mut self, engine: &dyn Engine, filter: Option<&Filter>, record: &Record) -> bool {
        let Some(wanted) = filter.and_then(Filter::key) else { return true };
        let (Some(switch), Some(packet)) = (record.switch(), record.packet()) else { return false };
        if let Some(Event::Rx { .. }) = record.event() {
            self.passing.push((switch, packet, engine.packet_passes(record, wanted)));
        }
        let known = self.passing.iter().rev().find(|(at, id, _)| *at == switch && *id == packet);
        let passes = known.is_none_or(|(.., passes)| *passes);
        if let Some(Event::Copy { copy, .. }) = record.event() {
            self.passing.push((switch, *copy, passes));
        }
        passes
    }
}
