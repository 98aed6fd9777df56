//! A generator of chance that costs less than a hash: for decisions on every packet.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): a Weyl sequence through a mixer.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A stream that is a function of `seed` and of its `name`, so that streams of one seed are independent.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a: any fixed function of the name does.
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut stream = Self(seed ^ name);
        stream.next_u64();
        stream
    }

    /// The next 64 bits.
    #[inline(always)]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next 32 bits.
    #[inline(always)]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The reference implementation's first outputs for the state 1234567.
        let mut stream = SplitMix64(1_234_567);
        assert_eq!(stream.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(stream.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn names_make_streams() {
        let first = |name| SplitMix64::named(7, name).next_u64();
        assert_ne!(first("emc"), first("sample"));
        assert_eq!(first("emc"), first("emc"));
    }
}
