//! Values drawn from words that proptest made, so that it can shrink them.

use proptest::prelude::*;

/// Words that are often nothing, everything or small.
pub fn words() -> impl Strategy<Value = Vec<u64>> {
    let word = prop_oneof![
        2 => Just(0),
        2 => Just(u64::MAX),
        2 => 0..16u64,
        4 => any::<u64>(),
    ];
    proptest::collection::vec(word, 200)
}

/// Draws from words, again from the first when they run out.
pub struct Chance<'a> {
    words: &'a [u64],
    next: usize,
}

impl<'a> Chance<'a> {
    pub fn new(words: &'a [u64]) -> Self {
        Self { words, next: 0 }
    }

    pub fn word(&mut self) -> u64 {
        self.next += 1;
        // Not the same sequence again, or a list could go on for ever.
        self.words[(self.next - 1) % self.words.len()].rotate_left((self.next / self.words.len()) as u32)
    }

    pub fn bits(&mut self, bits: u32) -> u64 {
        self.word() >> (64 - bits)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    pub fn maybe(&mut self) -> bool {
        self.word() % 3 == 1
    }

    pub fn u8(&mut self) -> u8 {
        self.word() as u8
    }

    pub fn u16(&mut self) -> u16 {
        self.word() as u16
    }

    pub fn u32(&mut self) -> u32 {
        self.word() as u32
    }

    pub fn u128(&mut self) -> u128 {
        u128::from(self.word()) << 64 | u128::from(self.word())
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.u8())
    }

    /// Bytes that are mostly all nothing or all ones.
    pub fn mask<const N: usize>(&mut self) -> [u8; N] {
        match self.below(4) {
            0 => [0; N],
            1 => [0xff; N],
            _ => self.bytes(),
        }
    }
}
