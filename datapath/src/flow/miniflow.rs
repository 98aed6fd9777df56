//! The compressed flow key: a bit map of the words that are not zero, and those words.
//!
//! Counterpart: OVS `struct miniflow` in `lib/flow.h`.

use super::key::{FLOW_WORDS, Flow};

/// Which words of a [`Flow`] are present: word `i` is bit `i % 64` of `self[i / 64]`.
pub type Map = [u64; 2];

/// The words of a [`Flow`] that a map names, in order; all others are zero.
///
/// A word that the map names may be zero too, so equality of two keys is decided on maps and words as they are only
/// where both come from the same extraction.
#[derive(Clone, Copy, Debug)]
pub struct Miniflow {
    /// Which words are present.
    pub map: Map,
    /// As many words as the map has bits; what lies behind is undefined and never read.
    pub values: [u64; FLOW_WORDS],
}

impl Default for Miniflow {
    fn default() -> Self {
        Self { map: [0; 2], values: [0; FLOW_WORDS] }
    }
}

impl Miniflow {
    /// How many words are present.
    pub fn len(&self) -> usize {
        (self.map[0].count_ones() + self.map[1].count_ones()) as usize
    }

    /// Whether the key has no word, as the default has.
    pub fn is_empty(&self) -> bool {
        self.map == [0; 2]
    }

    /// The present words.
    pub fn words(&self) -> &[u64] {
        &self.values[..self.len().min(FLOW_WORDS)]
    }

    /// Compresses `flow`: its words that are not zero.
    pub fn from_flow(flow: &Flow) -> Self {
        let mut mini = Self::default();
        let mut n = 0;
        for (i, &word) in flow.words().iter().enumerate() {
            if word != 0 {
                mini.map[i / 64] |= 1 << (i % 64);
                mini.values[n] = word;
                n += 1;
            }
        }
        mini
    }

    /// Writes the full key into `flow`.
    pub fn expand(&self, flow: &mut Flow) {
        let words = flow.words_mut();
        words.fill(0);
        let mut n = 0;
        for (unit, &map) in self.map.iter().enumerate() {
            let mut left = map;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                words[unit * 64 + bit] = self.values[n];
                n += 1;
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compresses_and_expands() {
        let mut flow = Flow { in_port: 3, ..Flow::default() };
        flow.tp_dst.set(80);
        flow.tunnel.ip_dst.set(0x0a00_0001);
        let mini = Miniflow::from_flow(&flow);
        assert_eq!(mini.len(), 3);
        let mut back = Flow::all_ones();
        mini.expand(&mut back);
        assert_eq!(back, flow);
    }
}
