//! The hash of the classifier's tables: a fold of 64 x 64 to 128-bit multiplications, the same on every machine.
//!
//! Owns: nothing. It is used inside one process and never printed, so that it need not equal OVS's; the RSS hash, which
//! decides on places in EMC and SMC, does (see [`crate::flow::hash`]). The construction is wyhash's, by Wang Yi, public
//! domain.

/// Odd constants with about half of their bits set, one a position, so that equal words in different places differ.
const KEYS: [u64; 8] = [
    0x2d35_8dcc_aa6c_78a5,
    0x8bb8_4b93_962e_acc9,
    0x4b33_a62e_d433_d4a3,
    0x4d5a_2da5_1de1_aa47,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
];

/// Both halves of the product, folded.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes `words` to 32 bits. The pairs are independent of each other, so that their multiplications overlap.
#[inline(always)]
pub fn words(words: &[u64]) -> u32 {
    let mut hash = KEYS[7];
    let mut pairs = words.chunks_exact(2);
    let mut at = 0;
    for pair in &mut pairs {
        // Rotating the first factor by the position tells pairs apart that share their constants, nine words on.
        hash ^= fold((pair[0] ^ KEYS[at & 7]).rotate_left((at >> 3) as u32), pair[1] ^ KEYS[(at + 1) & 7]);
        at += 2;
    }
    if let [last] = pairs.remainder() {
        hash ^= fold((last ^ KEYS[at & 7]).rotate_left((at >> 3) as u32), KEYS[(at + 1) & 7]);
    }
    let hash = fold(hash, KEYS[6]);
    (hash ^ (hash >> 32)) as u32
}

/// Hashes one word to 32 bits.
#[inline(always)]
pub fn word(word: u64) -> u32 {
    words(&[word])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn same_on_every_machine() {
        // Recorded once; nothing but this code may change them.
        assert_eq!(
            [words(&[1]), words(&[1, 2]), words(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])],
            [1_155_621_113, 3_299_908_773, 1_407_853_995]
        );
    }

    #[test]
    fn position_and_every_bit_count() {
        let mut seen = BTreeSet::new();
        for len in 1..30 {
            for at in 0..len {
                for bit in 0..64 {
                    let mut input = vec![0u64; len];
                    input[at] = 1 << bit;
                    seen.insert((len, words(&input)));
                }
            }
        }
        let inputs: usize = (1..30).map(|len| len * 64).sum();
        // A perfect hash of 32 bits would have about 0.1 collisions within these 29 groups.
        assert!(seen.len() + 3 >= inputs, "{} of {inputs}", seen.len());
    }

    #[test]
    fn low_bits_spread() {
        // Counters in one field, as with addresses counted up, must not pile up in few buckets.
        let mut buckets = [0u32; 256];
        for i in 0..2048u64 {
            buckets[words(&[i << 32, 7, 9]) as usize & 255] += 1;
        }
        assert!(buckets.iter().all(|&n| n < 32), "{buckets:?}");
    }
}
