//! Meters: token buckets that drop what comes faster than a rate.
//!
//! Owns the buckets of a datapath and their counters. Time is virtual and counts in milliseconds here, as in OVS. Counterpart:
//! `dp_netdev_run_meter()` and `dpif_netdev_meter_set()` of OVS `lib/dpif-netdev.c`.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::action::exec::Packets;
use crate::packet::Packet;
use crate::types::Time;

/// Bands that a meter can have (OVS `MAX_BANDS`).
pub const MAX_BANDS: usize = 8;
/// Meters that a datapath can have (OVS `MAX_METERS`).
pub const MAX_METERS: u32 = 1 << 18;
/// What a packet takes from a bucket of packets; kilobits a second fill a bucket of bits, so that both fill in milliseconds.
const PACKET: u64 = 1000;

/// What a band does with a packet that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// Drops it.
    Drop,
    /// Raises its drop precedence. No userspace datapath does that.
    DscpRemark {
        /// By how much.
        prec_level: u8,
    },
}

/// A rate, and what happens above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What happens.
    pub kind: BandKind,
    /// Packets or kilobits a second; not 0.
    pub rate: u32,
    /// Packets or kilobits that may come at once; 0: as many as in a second.
    pub burst_size: u32,
}

/// What a meter is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Counts packets a second (`pktps`), not kilobits (`kbps`).
    pub packets: bool,
    /// Bands say how much may come at once (`burst`).
    pub burst: bool,
    /// Counters were asked for (`stats`); there always are some.
    pub stats: bool,
    /// Bands.
    pub bands: Vec<Band>,
}

/// Why a meter cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MeterError {
    /// Too many bands.
    #[error("OFPMMFC_OUT_OF_BANDS: a meter has at most {MAX_BANDS} bands")]
    OutOfBands,
    /// A band that does anything but drop.
    #[error("OFPMMFC_BAD_BAND: the userspace datapath has drop bands only")]
    BadBand,
    /// No more meters.
    #[error("OFPMMFC_OUT_OF_METERS: there are {MAX_METERS} meters already")]
    OutOfMeters,
}

/// What went through a band or a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCount {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl MeterCount {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
    }
}

#[derive(Clone, Debug)]
struct Bucket {
    rate: u64,
    size: u64,
    level: u64,
    dropped: MeterCount,
}

impl Bucket {
    /// Takes `volume` if there is as much.
    fn take(&mut self, volume: u64) -> bool {
        let left = self.level.checked_sub(volume);
        self.level = left.unwrap_or(self.level);
        left.is_some()
    }
}

/// One meter of a datapath.
#[derive(Clone, Debug)]
pub struct Meter {
    packets: bool,
    filled: Time,
    count: MeterCount,
    buckets: Vec<Bucket>,
}

impl Meter {
    /// A meter whose buckets are full.
    ///
    /// # Errors
    /// [`MeterError`] if the datapath cannot do what it asks for.
    pub fn new(config: &MeterConfig, now: Time) -> Result<Self, MeterError> {
        if config.bands.len() > MAX_BANDS {
            return Err(MeterError::OutOfBands);
        }
        if config.bands.iter().any(|band| band.kind != BandKind::Drop) {
            return Err(MeterError::BadBand);
        }
        let bucket = |band: &Band| {
            let burst = if band.burst_size == 0 { band.rate } else { band.burst_size };
            let size = u64::from(burst) * 1000;
            Bucket { rate: u64::from(band.rate), size, level: size, dropped: MeterCount::default() }
        };
        let buckets = config.bands.iter().map(bucket).collect();
        Ok(Self { packets: config.packets, filled: now, count: MeterCount::default(), buckets })
    }

    /// All that came to it.
    pub fn count(&self) -> MeterCount {
        self.count
    }

    /// What each band dropped.
    pub fn dropped(&self) -> impl Iterator<Item = MeterCount> {
        self.buckets.iter().map(|bucket| bucket.dropped)
    }

    fn volume(&self, packet: &Packet) -> u64 {
        if self.packets { PACKET } else { packet.len() as u64 * 8 }
    }

    fn fill(&mut self, now: Time) {
        let ms = |time: Time| time.0 / 1_000_000;
        let passed = ms(now).saturating_sub(ms(self.filled));
        if passed > 0 {
            self.filled = now;
            for bucket in &mut self.buckets {
                bucket.level =
                    bucket.level.saturating_add(bucket.rate.saturating_mul(passed)).min(bucket.size);
            }
        }
    }

    /// Takes packets that came at once; gives those that exceed a band to `exceeding`. As in OVS, a band that has enough for
    /// all of them lets all pass; else each packet is looked at by itself, and counts for the fastest band that it exceeds.
    fn run(&mut self, packets: &mut Packets, now: Time, mut exceeding: impl FnMut(Box<Packet>)) {
        self.fill(now);
        let mut volume = 0;
        for packet in packets.iter() {
            self.count.add(packet);
            volume += self.volume(packet);
        }
        let mut short = 0_u8;
        for (index, bucket) in self.buckets.iter_mut().enumerate() {
            short |= u8::from(!bucket.take(volume)) << index;
        }
        if short == 0 {
            return;
        }
        let mut kept = 0;
        for at in 0..packets.len() {
            let volume = self.volume(&packets[at]);
            let mut fired: Option<(u64, usize)> = None;
            for (index, bucket) in self.buckets.iter_mut().enumerate() {
                if short & 1 << index != 0 && !bucket.take(volume) {
                    // The first of the fastest.
                    let faster = fired.is_none_or(|(rate, _)| bucket.rate > rate);
                    fired = if faster { Some((bucket.rate, index)) } else { fired };
                }
            }
            match fired {
                Some((_, index)) => self.buckets[index].dropped.add(&packets[at]),
                None => {
                    packets.swap(kept, at);
                    kept += 1;
                }
            }
        }
        packets.drain(kept..).for_each(&mut exceeding);
    }
}

/// The meters of a datapath, by their numbers there.
#[derive(Clone, Debug, Default)]
pub struct Meters(BTreeMap<u32, Meter>);

impl Meters {
    /// The smallest number that is free.
    ///
    /// # Errors
    /// [`MeterError::OutOfMeters`].
    pub fn free_id(&self) -> Result<u32, MeterError> {
        (0..MAX_METERS).find(|id| !self.0.contains_key(id)).ok_or(MeterError::OutOfMeters)
    }

    /// Puts a meter in place.
    pub fn set(&mut self, id: u32, meter: Meter) {
        self.0.insert(id, meter);
    }

    /// Removes a meter.
    pub fn remove(&mut self, id: u32) {
        self.0.remove(&id);
    }

    /// A meter.
    pub fn get(&self, id: u32) -> Option<&Meter> {
        self.0.get(&id)
    }

    /// Runs packets through a meter; without it, all pass.
    pub(crate) fn run(
        &mut self,
        id: u32,
        packets: &mut Packets,
        now: Time,
        exceeding: impl FnMut(Box<Packet>),
    ) {
        if let Some(meter) = self.0.get_mut(&id) {
            meter.run(packets, now, exceeding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(packets: bool, bands: &[(u32, u32)]) -> Meter {
        let band = |&(rate, burst_size): &(u32, u32)| Band { kind: BandKind::Drop, rate, burst_size };
        let bands = bands.iter().map(band).collect();
        Meter::new(&MeterConfig { packets, burst: true, stats: true, bands }, Time::ZERO).unwrap()
    }

    /// Sends packets of these lengths at once; returns the lengths of those that pass.
    fn passes(meter: &mut Meter, lengths: &[usize], ms: u64) -> Vec<usize> {
        let mut packets: Packets =
            lengths.iter().map(|&len| Box::new(Packet::from_frame(&vec![0; len]))).collect();
        let mut dropped = 0;
        meter.run(&mut packets, Time::from_millis(ms), |_| dropped += 1);
        assert_eq!(packets.len() + dropped, lengths.len());
        packets.iter().map(|packet| packet.len()).collect()
    }

    #[test]
    fn what_passes_is_the_burst_and_the_rate() {
        // Case d-meter-high-rate: 10 at the start, one more each millisecond.
        let mut meter = meter(true, &[(1000, 10)]);
        let passed: Vec<usize> = (0..30).map(|ms| passes(&mut meter, &[20, 20, 20], ms).len()).collect();
        assert_eq!(passed[..6], [3, 3, 3, 3, 2, 1]);
        assert!(passed[6..].iter().all(|passed| *passed == 1));
        assert_eq!((meter.count().packets, meter.count().bytes), (90, 1800));
        assert_eq!(meter.dropped().next().unwrap().packets, 90 - passed.iter().sum::<usize>() as u64);
    }

    #[test]
    fn bits_count_where_kilobits_are_asked_for() {
        // 2 kbit at the start: four packets of 60 bytes, 480 bits each.
        let mut meter = meter(false, &[(1, 2)]);
        let passed: usize = (0..7).map(|_| passes(&mut meter, &[60], 0).len()).sum();
        assert_eq!(passed, 4);
        assert_eq!(meter.dropped().next(), Some(MeterCount { packets: 3, bytes: 180 }));
        assert_eq!(passes(&mut meter, &[60], 399), [0; 0], "80 bits were left, 399 came");
        assert_eq!(passes(&mut meter, &[60], 400), [60]);
    }

    #[test]
    fn a_small_packet_may_pass_where_a_large_one_does_not_and_order_is_kept() {
        let mut meter = meter(false, &[(1, 1)]);
        assert_eq!(passes(&mut meter, &[100, 40, 200, 10], 0), [100, 10]);
    }

    #[test]
    fn a_packet_counts_for_the_fastest_band_that_it_exceeds() {
        let mut meter = meter(true, &[(10, 1), (20, 1)]);
        assert_eq!(passes(&mut meter, &[20, 20], 0).len(), 1);
        let dropped: Vec<u64> = meter.dropped().map(|count| count.packets).collect();
        assert_eq!(dropped, [0, 1]);
    }

    #[test]
    fn the_largest_rate_does_not_overflow() {
        let mut meter = meter(true, &[(u32::MAX, u32::MAX)]);
        assert_eq!(passes(&mut meter, &[20; 3], u64::MAX / 1_000_000).len(), 3);
    }

    #[test]
    fn what_the_datapath_cannot_do_is_refused() {
        let band = |kind| Band { kind, rate: 1, burst_size: 0 };
        let config = |bands| MeterConfig { packets: true, burst: false, stats: false, bands };
        let made = |bands| Meter::new(&config(bands), Time::ZERO).map(drop);
        assert_eq!(made(vec![band(BandKind::Drop); 8]), Ok(()));
        assert_eq!(made(vec![band(BandKind::Drop); 9]), Err(MeterError::OutOfBands));
        assert_eq!(made(vec![band(BandKind::DscpRemark { prec_level: 1 })]), Err(MeterError::BadBand));
    }
}
