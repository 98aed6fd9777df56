//! How many connections a zone may have.
//!
//! Counterpart: `zone_limit_*` of OVS `lib/conntrack.c`.

use std::collections::BTreeMap;

/// A limit, and what counts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimit {
    /// Most connections; `None`: the default limit.
    pub limit: Option<u32>,
    /// Connections made since the limit is there.
    pub count: u32,
    /// Tells this limit from an earlier one of the zone.
    sequence: u32,
}

/// Limits of all zones.
#[derive(Clone, Debug, Default)]
pub struct ZoneLimits {
    /// Limit of the zones that have none of their own; 0 is none.
    default: u32,
    zones: BTreeMap<u16, ZoneLimit>,
    sequence: u32,
}

/// A place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted(Option<u32>);

impl Admitted {
    /// The count that it is part of.
    pub(super) const fn count(self) -> Option<u32> {
        self.0
    }
}

impl ZoneLimits {
    fn create(&mut self, zone: u16, limit: Option<u32>) -> &mut ZoneLimit {
        let sequence = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        self.zones.entry(zone).or_insert(ZoneLimit { limit, count: 0, sequence })
    }

    /// Takes a place in a zone, if it has one.
    pub(super) fn admit(&mut self, zone: u16) -> Option<Admitted> {
        let default = self.default;
        if default != 0 && !self.zones.contains_key(&zone) {
            self.create(zone, None);
        }
        let Some(found) = self.zones.get_mut(&zone) else { return Some(Admitted(None)) };
        let limit = found.limit.or((default != 0).then_some(default));
        if limit.is_some_and(|limit| found.count >= limit) {
            return None;
        }
        found.count += 1;
        Some(Admitted(Some(found.sequence)))
    }

    /// Gives a place back.
    pub(super) fn release(&mut self, zone: u16, count: Option<u32>) {
        if let Some(found) = self.zones.get_mut(&zone)
            && Some(found.sequence) == count
        {
            found.count = found.count.saturating_sub(1);
        }
    }

    /// The default limit; 0 is none.
    pub fn default_limit(&self) -> u32 {
        self.default
    }

    /// Sets the default limit; 0 deletes it, and with it the counts of zones without a limit of their own.
    pub fn set_default(&mut self, limit: u32) {
        self.default = limit;
        if limit == 0 {
            self.zones.retain(|_, zone| zone.limit.is_some());
        }
    }

    /// Sets a zone's limit; its count goes on, or begins at 0.
    pub fn set(&mut self, zone: u16, limit: u32) {
        match self.zones.get_mut(&zone) {
            Some(found) => found.limit = Some(limit),
            None => {
                self.create(zone, Some(limit));
            }
        }
    }

    /// Deletes a zone's limit; the default one counts then, if there is one.
    pub fn delete(&mut self, zone: u16) {
        if self.default == 0 {
            self.zones.remove(&zone);
        } else if let Some(found) = self.zones.get_mut(&zone) {
            found.limit = None;
        }
    }

    /// A zone's limit, its own or the default one, and its count.
    pub fn get(&self, zone: u16) -> (u32, u32) {
        let found = self.zones.get(&zone);
        (found.and_then(|zone| zone.limit).unwrap_or(self.default), found.map_or(0, |zone| zone.count))
    }

    /// The zones that have a limit or a count.
    pub fn zones(&self) -> impl Iterator<Item = (u16, &ZoneLimit)> {
        self.zones.iter().map(|(&zone, limit)| (zone, limit))
    }
}
