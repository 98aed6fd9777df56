//! Keys as the caches hold them: those of a batch of packets, and the masked keys of flows.

use crate::flow::{FLOW_WORDS, Flow, Map, Miniflow, hash};
use crate::packet::BATCH;

/// Zero words behind each key of a batch.
pub const PAD: usize = 8;

/// The keys of one batch, and which of them share a shape (a map): whatever depends on the shape alone, such as where a
/// word lies, is then computed once for all of them.
#[derive(Clone, Debug)]
pub struct KeyBatch {
    /// The keys, in arrival order.
    pub keys: [Miniflow; BATCH],
    /// Hash of each, for EMC and SMC.
    pub hashes: [u32; BATCH],
    shape_of: [u8; BATCH],
    lens: [u8; BATCH],
    shapes: [Shape; BATCH],
    n_shapes: usize,
}

/// A map that keys of a batch have, and the number of its words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape {
    /// Which words are present.
    pub map: Map,
    /// How many these are.
    pub len: usize,
    /// Where the word with the TCP flags lies.
    tcp_flags: usize,
}

const TCP_FLAGS: usize = std::mem::offset_of!(Flow, tcp_flags);
const _: () = assert!(TCP_FLAGS % 8 == 4 && TCP_FLAGS / 8 >= 64);

impl Default for KeyBatch {
    fn default() -> Self {
        Self {
            keys: [Miniflow::default(); BATCH],
            hashes: [0; BATCH],
            shape_of: [0; BATCH],
            lens: [0; BATCH],
            shapes: [Shape::default(); BATCH],
            n_shapes: 0,
        }
    }
}

impl KeyBatch {
    /// Forgets all keys.
    #[inline]
    pub fn clear(&mut self) {
        self.n_shapes = 0;
    }

    /// Takes note of `keys[i]`, just written, and makes [`PAD`] words behind its last one zero: absent words are read there,
    /// and keys compared in pieces of that size.
    #[inline(always)]
    pub fn note(&mut self, i: usize) {
        let map = self.keys[i].map;
        let shape = if self.n_shapes > 0 && self.shapes[0].map == map { 0 } else { self.find_shape(map) };
        let key = &mut self.keys[i];
        let len = self.shapes[shape].len;
        self.shape_of[i] = shape as u8;
        self.lens[i] = len as u8;
        match key.values.get_mut(len..len + PAD) {
            Some(behind) => behind.fill(0),
            None => key.values[len.min(FLOW_WORDS)..].fill(0),
        }
    }

    #[inline(never)]
    fn find_shape(&mut self, map: Map) -> usize {
        let known = &self.shapes[..self.n_shapes];
        if let Some(shape) = known.iter().position(|shape| shape.map == map) {
            return shape;
        }
        // There are never more shapes than keys; a batch that was not cleared would only lose speed, not be wrong.
        let shape = self.n_shapes.min(BATCH - 1);
        let len = (map[0].count_ones() + map[1].count_ones()) as usize;
        let tcp_flags = position(&map, 1, TCP_FLAGS as u32 / 8 - 64);
        self.shapes[shape] = Shape { map, len, tcp_flags };
        self.n_shapes = shape + 1;
        shape
    }

    /// The shapes of the keys noted since [`Self::clear`].
    #[inline(always)]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes[..self.n_shapes]
    }

    /// Which of [`Self::shapes`] key `i` has.
    #[inline(always)]
    pub fn shape_of(&self, i: usize) -> usize {
        usize::from(self.shape_of[i])
    }

    /// The TCP flags word of key `i`, which holds other things for other protocols; 0 if absent.
    #[inline(always)]
    pub fn tcp_flags(&self, i: usize) -> u16 {
        let word = self.word(i, self.shapes[self.shape_of(i)].tcp_flags);
        u16::from_be_bytes([word[4], word[5]])
    }

    /// The 5-tuple hash of key `i`, bit for bit [`crate::flow::hash::five_tuple`]: for packets without an RSS hash.
    #[cold]
    pub fn five_tuple(&self, i: usize) -> u32 {
        let mut flow = Flow::default();
        self.keys[i].expand(&mut flow);
        hash::five_tuple(&flow, 0)
    }

    #[inline(always)]
    fn word(&self, i: usize, position: usize) -> [u8; 8] {
        self.keys[i].values.get(position).map_or([0; 8], |word| word.to_ne_bytes())
    }

    /// The present words of key `i`.
    #[inline(always)]
    pub fn words(&self, i: usize) -> &[u64] {
        &self.keys[i].values[..self.len(i)]
    }

    /// How many words key `i` has.
    #[inline(always)]
    pub fn len(&self, i: usize) -> usize {
        usize::from(self.lens[i])
    }
}

/// Where word `bit` of map word `unit` lies among the words that `map` names; behind all of them if it is absent.
#[inline(always)]
pub fn position(map: &Map, unit: usize, bit: u32) -> usize {
    let before = map[unit] & ((1 << bit) - 1);
    let units_before = if unit == 0 { 0 } else { map[0].count_ones() };
    if map[unit] >> bit & 1 == 0 {
        (map[0].count_ones() + map[1].count_ones()) as usize
    } else {
        (units_before + before.count_ones()) as usize
    }
}

/// A mask without its zero words, and a key's words under it. Compared by value: two flows are the same if these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedKey {
    map: Map,
    /// The mask's words, then as many of the key's.
    words: Box<[u64]>,
}

impl MaskedKey {
    /// The key of a flow under its mask.
    pub fn new(key: &Flow, mask: &Flow) -> Self {
        let mask = Miniflow::from_flow(mask);
        let key_words = key.words();
        let mut words = Vec::with_capacity(2 * mask.len());
        words.extend_from_slice(mask.words());
        words.extend(bits(mask.map).zip(mask.words()).map(|(at, mask)| key_words[at] & mask));
        Self { map: mask.map, words: words.into_boxed_slice() }
    }

    /// Which words the mask has.
    pub fn map(&self) -> Map {
        self.map
    }

    /// The mask's words.
    pub fn mask_words(&self) -> &[u64] {
        &self.words[..self.words.len() / 2]
    }

    /// The key's words under the mask, as many.
    pub fn key_words(&self) -> &[u64] {
        &self.words[self.words.len() / 2..]
    }

    /// The key in full; bits outside the mask are zero.
    pub fn key(&self) -> Flow {
        expand(self.map, self.key_words())
    }

    /// The mask in full.
    pub fn mask(&self) -> Flow {
        expand(self.map, self.mask_words())
    }

    /// Whether `packet` equals the key in all bits of the mask.
    pub fn matches(&self, packet: &Miniflow) -> bool {
        bits(self.map).zip(self.mask_words()).zip(self.key_words()).all(|((at, mask), key)| {
            let position = position(&packet.map, at / 64, (at % 64) as u32);
            let present = packet.map[at / 64] >> (at % 64) & 1 != 0;
            let word = if present { packet.values.get(position).copied().unwrap_or(0) } else { 0 };
            word & mask == *key
        })
    }
}

/// The word indexes that `map` names, ascending.
pub fn bits(map: Map) -> impl Iterator<Item = usize> {
    map.into_iter().enumerate().flat_map(|(unit, mut left)| {
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                unit * 64 + bit
            })
        })
    })
}

pub(super) fn expand(map: Map, words: &[u64]) -> Flow {
    let mut flow = Flow::default();
    let all = flow.words_mut();
    for (at, word) in bits(map).zip(words) {
        if at < FLOW_WORDS {
            all[at] = *word;
        }
    }
    flow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Flow, Flow) {
        let mut key = Flow { in_port: 3, nw_proto: 17, ..Flow::default() };
        key.tunnel.ip_dst.set(0x0a00_0001);
        key.tp_dst.set(53);
        let mut mask = Flow { in_port: u32::MAX, nw_proto: 0xf0, ..Flow::default() };
        mask.tunnel.ip_dst.set(0xffff_ff00);
        mask.nw_src.set(0xffff_0000);
        (key, mask)
    }

    #[test]
    fn masked_key_expands_to_what_it_was_made_of() {
        let (key, mask) = sample();
        let masked = MaskedKey::new(&key, &mask);
        assert_eq!(masked.mask(), mask);
        assert_eq!(masked.key(), key.masked(&mask));
        assert_eq!(masked.mask_words().len(), masked.key_words().len());
    }

    #[test]
    fn matches_as_the_full_key_does() {
        let (key, mask) = sample();
        let masked = MaskedKey::new(&key, &mask);
        let mut other = key;
        other.tp_dst.set(54);
        other.tunnel.ip_dst.set(0x0a00_00ff);
        assert!(masked.matches(&Miniflow::from_flow(&other)));
        other.nw_src.set(0x0100_0000);
        assert!(!masked.matches(&Miniflow::from_flow(&other)), "absent in the key is zero, not anything");
        assert!(!masked.matches(&Miniflow::default()));
    }

    #[test]
    fn position_of_absent_words_is_behind_all() {
        let map = [0b1010, 0b110];
        assert_eq!(position(&map, 0, 1), 0);
        assert_eq!(position(&map, 0, 3), 1);
        assert_eq!(position(&map, 1, 1), 2);
        assert_eq!(position(&map, 1, 2), 3);
        assert_eq!(position(&map, 0, 2), 4);
        assert_eq!(position(&map, 1, 63), 4);
    }

    #[test]
    fn shapes_are_found_again() {
        let (key, mask) = sample();
        let mut batch = KeyBatch::default();
        for (i, flow) in [&key, &mask, &key, &Flow::default()].into_iter().enumerate() {
            batch.keys[i] = Miniflow::from_flow(flow);
            batch.note(i);
        }
        assert_eq!([0, 1, 2, 3].map(|i| batch.shape_of(i)), [0, 1, 0, 2]);
        assert_eq!(batch.words(0), Miniflow::from_flow(&key).words());
        assert!(batch.words(3).is_empty());
        batch.clear();
        assert!(batch.shapes().is_empty());
    }
}
