//! The filter line: an OVS match, and words for what a match cannot say.
//!
//! `tcp,tp_dst=80,drop` lets through drops of TCP packets to port 80. The match applies to what a packet was when it was
//! received, and to what packets a flow can be hit by; `drop`, `recirc>0` and `offload~partial` to single events, and as
//! far as they make sense to flows.

use datapath::offload::Offloads;
use datapath::trace::Event;
use sim::describe;

use super::marks::Entry;
use super::model::{FlowRow, KeyFilter};

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    Equal,
    More,
}

impl Comparison {
    fn holds(self, value: u32, limit: u32) -> bool {
        match self {
            Self::Less => value < limit,
            Self::Equal => value == limit,
            Self::More => value > limit,
        }
    }
}

/// One word that is not part of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// `drop`: only drops.
    Drop,
    /// `recirc>0`: only at such a depth of recirculation.
    Recirc(Comparison, u32),
    /// `offload~partial`: only where the flags' text has this in it.
    Offload(String),
}

/// What is let through: all of its parts must agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    text: String,
    words: Vec<Word>,
    key: Option<Box<KeyFilter>>,
}

impl Filter {
    /// Reads a filter; `parse_match` reads the part that is an OVS match.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn parse(
        text: &str,
        parse_match: impl FnOnce(&str) -> Result<KeyFilter, String>,
    ) -> Result<Self, String> {
        let mut words = Vec::new();
        let mut matches = Vec::new();
        for part in split(text) {
            match word(part)? {
                Some(word) => words.push(word),
                None => matches.push(part),
            }
        }
        let key = if matches.is_empty() { None } else { Some(Box::new(parse_match(&matches.join(","))?)) };
        Ok(Self { text: text.trim().to_owned(), words, key })
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The part that is a match.
    pub fn key(&self) -> Option<&KeyFilter> {
        self.key.as_deref()
    }

    /// Whether an event is let through.
    pub fn passes_entry(&self, entry: &Entry) -> bool {
        entry.packet_passes && self.words.iter().all(|word| word.passes_entry(entry))
    }

    /// Whether a flow is let through, as far as its numbers tell; the match is left to the engine. Flows have no offload
    /// flags, so a word about those says nothing about them.
    pub fn passes_flow(&self, flow: &FlowRow) -> bool {
        self.words.iter().all(|word| match word {
            Word::Drop => flow.drops,
            // A flow behind a recirculation is at depth 1 at least; how deep exactly only its packets know.
            Word::Recirc(comparison, limit) => comparison.holds(u32::from(flow.recirc_id != 0), *limit),
            Word::Offload(_) => true,
        })
    }
}

impl Word {
    fn passes_entry(&self, entry: &Entry) -> bool {
        match self {
            Self::Drop => matches!(entry.record.event(), Some(Event::Drop { .. })),
            Self::Recirc(comparison, limit) => {
                entry.record.packet().is_some() && comparison.holds(u32::from(entry.depth), *limit)
            }
            Self::Offload(part) => {
                let before = match entry.record.event() {
                    Some(Event::OffloadChange { before, .. }) => *before,
                    _ => Offloads::empty(),
                };
                entry.record.offloads().is_some_and(|after| {
                    describe::offloads(after).contains(part) || describe::offloads(before).contains(part)
                })
            }
        }
    }
}

fn word(part: &str) -> Result<Option<Word>, String> {
    if part == "drop" {
        return Ok(Some(Word::Drop));
    }
    if let Some(rest) = part.strip_prefix("offload") {
        return match rest.strip_prefix('~') {
            Some(part) if !part.is_empty() => Ok(Some(Word::Offload(part.to_owned()))),
            _ => Err("use offload~WORD, such as offload~partial".to_owned()),
        };
    }
    if let Some(rest) = part.strip_prefix("recirc").filter(|rest| !rest.starts_with('_')) {
        let (comparison, limit) = if let Some(limit) = rest.strip_prefix('>') {
            (Comparison::More, limit)
        } else if let Some(limit) = rest.strip_prefix('<') {
            (Comparison::Less, limit)
        } else if let Some(limit) = rest.strip_prefix('=') {
            (Comparison::Equal, limit)
        } else {
            return Err("use recirc>N, recirc=N or recirc<N, such as recirc>0".to_owned());
        };
        let limit = limit.trim().parse().map_err(|_| format!("recirc: {limit:?} is not a number"))?;
        return Ok(Some(Word::Recirc(comparison, limit)));
    }
    Ok(None)
}

/// Parts between commas and blanks that are outside parentheses, as in an OVS match.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    })
    .filter(|part| !part.is_empty())
    .collect()
}

#[cfg(test)]
mod tests {
    use datapath::flow::Flow;
    use datapath::stats::DropReason;
    use datapath::trace::{FlowId, OffloadWhy, PacketId, RemoveWhy};
    use datapath::types::Time;

    use super::super::model::{Cursor, Record, SwitchIndex, What};
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text, |_| Ok(KeyFilter { key: Flow::default(), mask: Flow::default() })).unwrap()
    }

    fn entry(event: Event, depth: u8, packet_passes: bool) -> Entry {
        let what = What::Switch { switch: SwitchIndex(0), event };
        Entry {
            at: Cursor { step: 1, record: 0 },
            record: Record { time: Time::ZERO, what, bytes: None },
            depth,
            packet_passes,
        }
    }

    fn dropped() -> Event {
        Event::Drop { packet: PacketId(1), reason: DropReason::ActionDrop }
    }

    #[test]
    fn words_are_told_from_the_match() {
        let mut seen = String::new();
        let filter = Filter::parse(" tcp, drop recirc>0,tun_metadata0=1,ct_state=+new ", |text| {
            seen = text.to_owned();
            Ok(KeyFilter { key: Flow::default(), mask: Flow::default() })
        })
        .unwrap();
        assert_eq!(seen, "tcp,tun_metadata0=1,ct_state=+new");
        assert_eq!(filter.words, [Word::Drop, Word::Recirc(Comparison::More, 0)]);
        assert_eq!(filter.text(), "tcp, drop recirc>0,tun_metadata0=1,ct_state=+new");
    }

    #[test]
    fn recirc_id_is_a_field_and_not_the_word() {
        let filter = filter("recirc_id=1");
        assert!(filter.key().is_some() && filter.words.is_empty());
    }

    #[test]
    fn wrong_words_say_what_would_be_right() {
        for bad in ["offload", "offload~", "offload=partial", "recirc", "recirc>", "recirc>x", "recirc~1"] {
            let error = Filter::parse(bad, |_| unreachable!()).unwrap_err();
            assert!(error.contains("recirc") || error.contains("offload~WORD"), "{bad}: {error}");
        }
        assert_eq!(
            Filter::parse("nonsense", |text| Err(format!("{text}: unknown field"))).unwrap_err(),
            "nonsense: unknown field"
        );
    }

    #[test]
    fn drop_recirc_and_packet() {
        assert!(filter("drop").passes_entry(&entry(dropped(), 0, true)));
        assert!(!filter("drop").passes_entry(&entry(dropped(), 0, false)), "another packet's");
        assert!(!filter("drop").passes_entry(&entry(Event::Upcall { packet: PacketId(1) }, 0, true)));
        assert!(filter("recirc>0").passes_entry(&entry(dropped(), 1, true)));
        assert!(!filter("recirc>0").passes_entry(&entry(dropped(), 0, true)));
        assert!(filter("recirc=2").passes_entry(&entry(dropped(), 2, true)));
        assert!(filter("recirc<2").passes_entry(&entry(dropped(), 1, true)));
        assert!(!filter("recirc<2").passes_entry(&entry(
            Event::Remove { flow: FlowId(1), why: RemoveWhy::Idle },
            0,
            true
        )));
    }

    #[test]
    fn offload_looks_at_both_sides_of_a_change() {
        let change = Event::OffloadChange {
            packet: PacketId(1),
            before: Offloads::L4_PARTIAL,
            after: Offloads::L4_GOOD,
            why: OffloadWhy::Prepared,
        };
        assert!(filter("offload~partial").passes_entry(&entry(change, 0, true)));
        assert!(filter("offload~good").passes_entry(&entry(change, 0, true)));
        assert!(!filter("offload~vxlan").passes_entry(&entry(change, 0, true)));
        assert!(!filter("offload~partial").passes_entry(&entry(dropped(), 0, true)));
    }

    #[test]
    fn flows() {
        let flow = FlowRow { id: FlowId(1), recirc_id: 0, drops: true, packets: 0, bytes: 0, used: None };
        assert!(filter("drop").passes_flow(&flow));
        assert!(!filter("drop").passes_flow(&FlowRow { drops: false, ..flow }));
        assert!(!filter("recirc>0").passes_flow(&flow));
        assert!(filter("recirc>0").passes_flow(&FlowRow { recirc_id: 7, ..flow }));
        assert!(filter("offload~partial").passes_flow(&flow));
    }
}
