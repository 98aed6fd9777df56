//! Chance: named streams of a named generator, so that a run can be repeated and one draw does not move another.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest as _, Sha256};

use crate::quantity::Probability;

/// A stream of random numbers: ChaCha8, keyed with the SHA-256 of the seed (8 bytes, big-endian) and the stream's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    generator: ChaCha8Rng,
}

impl Stream {
    /// The stream called `name` of the run with this `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(seed.to_be_bytes());
        hash.update(name.as_bytes());
        Self { generator: ChaCha8Rng::from_seed(hash.finalize().into()) }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number below `bound`, evenly; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound < 2 {
            return 0;
        }
        // Numbers in the incomplete last interval would favour small results: draw again (on average less than once).
        let limit = u64::MAX - (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.draw();
            if drawn <= limit {
                return drawn % bound;
            }
        }
    }

    /// Whether something of this probability happens. Draws only if the answer is open.
    pub fn happens(&mut self, probability: Probability) -> bool {
        match probability.parts() {
            0 => false,
            Probability::WHOLE => true,
            parts => self.below(u64::from(Probability::WHOLE)) < u64::from(parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_are_told_apart_by_seed_and_name() {
        let first = |seed, name| Stream::new(seed, name).draw();
        assert_eq!(first(7, "a"), first(7, "a"));
        assert_ne!(first(7, "a"), first(7, "b"));
        assert_ne!(first(7, "a"), first(8, "a"));
    }

    #[test]
    fn the_generator_is_the_one_named() {
        // Pins the draws: a different generator or key derivation would change every scenario's outcome.
        assert_eq!(Stream::new(1, "pin").draw(), PINNED);
    }

    const PINNED: u64 = 6_788_321_017_014_682_362;

    #[test]
    fn a_thousandth_is_a_thousandth() {
        let mut stream = Stream::new(1, "loss");
        let hits = (0..1_000_000).filter(|_| stream.happens(Probability::from_parts(1_000_000))).count();
        // Binomial with mean 1000 and standard deviation 31.6.
        assert!((900..1100).contains(&hits), "{hits}");
    }

    proptest! {
        #[test]
        fn below_is_below(seed in any::<u64>(), bound in 1u64..) {
            prop_assert!(Stream::new(seed, "x").below(bound) < bound);
        }
    }
}
