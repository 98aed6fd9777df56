//! Meters: how many packets or bits a second may pass.
//!
//! Owns the buckets of tokens of each band, and the counts. A batch that fits is taken from the buckets as a whole; where it does
//! not fit, packet by packet. Counterpart: `dp_netdev_run_meter()` of OVS `lib/dpif-netdev.c`. Time is that of the packets,
//! milliseconds as there.

use std::collections::BTreeMap;

use crate::packet::Packet;
use crate::types::Time;

/// Bands of a meter at most.
pub const MAX_BANDS: usize = 8;
/// Meters at most (`MAX_METERS`).
pub const MAX_METERS: u32 = 1 << 18;

/// A limit of a meter: what exceeds it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Packets or kilobits a second.
    pub rate: u32,
    /// Packets or kilobits that may come at once; 0: as many as in a second.
    pub burst: u32,
}

/// What a meter is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Counts packets, not bits.
    pub packets: bool,
    /// The bands.
    pub bands: Vec<Band>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCount {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl MeterCount {
    fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

#[derive(Clone, Debug)]
struct BandState {
    rate: u64,
    /// Tokens: thousandths of a packet, or bits.
    bucket: u64,
    most: u64,
    count: MeterCount,
}

/// A meter.
#[derive(Clone, Debug)]
pub struct Meter {
    packets: bool,
    used_ms: u64,
    created: Time,
    bands: Vec<BandState>,
    input: MeterCount,
}

impl Meter {
    /// All that came.
    pub fn input(&self) -> MeterCount {
        self.input
    }

    /// What each band dropped.
    pub fn bands(&self) -> impl Iterator<Item = MeterCount> {
        self.bands.iter().map(|band| band.count)
    }

    /// When it was made.
    pub fn created(&self) -> Time {
        self.created
    }

    fn volume(&self, packet: &Packet) -> u64 {
        if self.packets { 1000 } else { packet.len() as u64 * 8 }
    }

    fn refill(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.used_ms);
        for band in &mut self.bands {
            band.bucket = band.bucket.saturating_add(passed.saturating_mul(band.rate)).min(band.most);
        }
        self.used_ms = now_ms;
    }
}

/// All meters of a datapath.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    meters: BTreeMap<u32, Meter>,
}

/// A meter that a batch exceeds.
pub(crate) struct Exceeded<'a> {
    meter: &'a mut Meter,
    /// The bands that the batch did not fit into.
    bands: u8,
}

impl Exceeded<'_> {
    /// Whether a packet of the batch passes; the band of the highest rate that it exceeds counts it otherwise.
    pub(crate) fn passes(&mut self, packet: &Packet) -> bool {
        let volume = self.meter.volume(packet);
        let mut worst: Option<&mut BandState> = None;
        for (i, band) in self.meter.bands.iter_mut().enumerate() {
            if self.bands >> i & 1 == 0 {
                continue;
            }
            match band.bucket.checked_sub(volume) {
                Some(rest) => band.bucket = rest,
                None if worst.as_ref().is_none_or(|worst| band.rate > worst.rate) => worst = Some(band),
                None => {}
            }
        }
        match worst {
            Some(band) => {
                band.count.add(packet.len() as u64);
                false
            }
            None => true,
        }
    }
}

impl Meters {
    /// Sets a meter, with full buckets; counts begin at 0. Returns false, and does nothing, if there cannot be such a one.
    #[must_use = "the meter may be too much"]
    pub fn set(&mut self, id: u32, config: &MeterConfig, now: Time) -> bool {
        if id >= MAX_METERS || config.bands.len() > MAX_BANDS {
            return false;
        }
        let bands = config.bands.iter().map(|band| {
            let burst = if band.burst == 0 { band.rate } else { band.burst };
            let most = u64::from(burst) * 1000;
            BandState { rate: band.rate.into(), bucket: most, most, count: MeterCount::default() }
        });
        let meter = Meter {
            packets: config.packets,
            used_ms: millis(now),
            created: now,
            bands: bands.collect(),
            input: MeterCount::default(),
        };
        self.meters.insert(id, meter);
        true
    }

    /// Removes a meter and returns its last counts.
    pub fn remove(&mut self, id: u32) -> Option<Meter> {
        self.meters.remove(&id)
    }

    /// A meter.
    pub fn get(&self, id: u32) -> Option<&Meter> {
        self.meters.get(&id)
    }

    /// Takes a batch into account. `None` if all of it passes, as it does where there is no such meter.
    pub(crate) fn apply(&mut self, id: u32, batch: &[Box<Packet>], now: Time) -> Option<Exceeded<'_>> {
        let meter = self.meters.get_mut(&id)?;
        meter.refill(millis(now));
        let mut volume = 0;
        for packet in batch {
            meter.input.add(packet.len() as u64);
            volume += meter.volume(packet);
        }
        let mut exceeded = 0;
        for (i, band) in meter.bands.iter_mut().enumerate() {
            match band.bucket.checked_sub(volume) {
                Some(rest) => band.bucket = rest,
                None => exceeded |= 1 << i,
            }
        }
        (exceeded != 0).then_some(Exceeded { meter, bands: exceeded })
    }
}

fn millis(time: Time) -> u64 {
    time.0 / 1_000_000
}
