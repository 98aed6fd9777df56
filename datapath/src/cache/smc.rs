//! The signature match cache: many more flows than EMC has room for, remembered by 16 bits of their packets' hash.
//!
//! A hit is only a guess: the flow's masked key must be compared. Off unless asked for, as in OVS (`smc-enable`); then
//! 4 MiB. Counterpart: `struct smc_cache` of OVS `lib/dpif-netdev-dfc.h`.

use super::prefetch::prefetch_at;
use super::random::SplitMix64;

/// Signatures.
pub const SMC_ENTRIES: usize = 1 << 20;
const WAYS: usize = 4;
const BUCKETS: usize = SMC_ENTRIES / WAYS;
/// No flow: flows with this number or a larger one are not remembered.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    signatures: [u16; WAYS],
    flows: [u16; WAYS],
}

/// The cache; takes no memory while it is off.
#[derive(Clone, Debug, Default)]
pub struct Smc {
    buckets: Vec<Bucket>,
}

impl Smc {
    /// A cache that is on, and empty.
    pub fn enabled() -> Self {
        Self { buckets: vec![Bucket { signatures: [0; WAYS], flows: [NONE; WAYS] }; BUCKETS] }
    }

    /// Whether it is on.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// Asks for the line that a lookup of `hash` reads.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        prefetch_at(&self.buckets, hash as usize & (BUCKETS - 1));
    }

    /// The number of the flow that packets with this hash belonged to.
    #[inline(always)]
    pub fn lookup(&self, hash: u32) -> Option<u32> {
        let bucket = self.buckets.get(hash as usize & (BUCKETS - 1))?;
        let signature = (hash >> 16) as u16;
        let way = bucket.signatures.iter().position(|&held| held == signature)?;
        let flow = bucket.flows[way];
        (flow != NONE).then_some(u32::from(flow))
    }

    /// Remembers a flow: in the place of the same signature, else an empty one, else one by chance.
    pub fn insert(&mut self, hash: u32, flow: u32, random: &mut SplitMix64) {
        let Some(bucket) = self.buckets.get_mut(hash as usize & (BUCKETS - 1)) else {
            return;
        };
        let Ok(flow) = u16::try_from(flow) else {
            return;
        };
        if flow == NONE {
            return;
        }
        let signature = (hash >> 16) as u16;
        let same = bucket.signatures.iter().position(|&held| held == signature);
        let empty = || bucket.flows.iter().position(|&held| held == NONE);
        let way = same.or_else(empty).unwrap_or_else(|| random.next_u32() as usize % WAYS);
        bucket.signatures[way] = signature;
        bucket.flows[way] = flow;
    }

    /// Forgets everything; stays on or off.
    pub fn clear(&mut self) {
        for bucket in &mut self.buckets {
            bucket.flows = [NONE; WAYS];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_until_enabled() {
        let mut random = SplitMix64::named(1, "smc");
        let mut smc = Smc::default();
        smc.insert(0x1234_0005, 9, &mut random);
        assert!(!smc.is_enabled());
        assert_eq!(smc.lookup(0x1234_0005), None);
    }

    #[test]
    fn four_ways_then_chance() {
        let mut random = SplitMix64::named(1, "smc");
        let mut smc = Smc::enabled();
        for way in 0..4 {
            smc.insert(way << 18 | 5, way, &mut random);
        }
        for way in 0..4 {
            assert_eq!(smc.lookup(way << 18 | 5), Some(way));
        }
        smc.insert(9 << 18 | 5, 9, &mut random);
        assert_eq!(smc.lookup(9 << 18 | 5), Some(9));
        assert_eq!((0..4).filter(|way| smc.lookup(way << 18 | 5).is_some()).count(), 3);
        smc.insert(9 << 18 | 5, 10, &mut random);
        assert_eq!(smc.lookup(9 << 18 | 5), Some(10), "same signature, same place");
        smc.clear();
        assert_eq!(smc.lookup(9 << 18 | 5), None);
        assert!(smc.is_enabled());
    }

    #[test]
    fn large_flow_numbers_are_not_remembered() {
        let mut random = SplitMix64::named(1, "smc");
        let mut smc = Smc::enabled();
        for flow in [0xffff, 0x1_0000, 0x1_0001] {
            smc.insert(5, flow, &mut random);
            assert_eq!(smc.lookup(5), None);
        }
        smc.insert(5, 0xfffe, &mut random);
        assert_eq!(smc.lookup(5), Some(0xfffe));
    }
}
