//! A field's value or mask: an unsigned integer wide enough for every field.
//!
//! Counterpart: OVS `union mf_value` and `union mf_subvalue`.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitXor};

/// Words in a [`FieldValue`].
const LIMBS: usize = 16;

/// An unsigned integer of up to 1024 bits: a field's value, a mask, or what an immediate in text is read into.
///
/// `tun_metadata` is the only field wider than 128 bits (up to 992).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FieldValue {
    /// Least significant word first.
    limbs: [u64; LIMBS],
}

impl FieldValue {
    /// Zero.
    pub const ZERO: Self = Self { limbs: [0; LIMBS] };
    /// Bits that it holds.
    pub const BITS: u32 = LIMBS as u32 * 64;

    /// The value of `n`.
    pub const fn new(n: u128) -> Self {
        let mut limbs = [0; LIMBS];
        limbs[0] = n as u64;
        limbs[1] = (n >> 64) as u64;
        Self { limbs }
    }

    /// The lowest `n_bits` bits set.
    pub fn ones(n_bits: u32) -> Self {
        let mut out = Self::ZERO;
        let mut left = n_bits.min(Self::BITS);
        for limb in &mut out.limbs {
            let here = left.min(64);
            *limb = if here == 64 { u64::MAX } else { (1 << here) - 1 };
            left -= here;
        }
        out
    }

    /// Reads big-endian bytes; of more than 128 only the last 128 count.
    pub fn from_be_bytes(bytes: &[u8]) -> Self {
        let mut out = Self::ZERO;
        for (i, &byte) in bytes.iter().rev().take(LIMBS * 8).enumerate() {
            out.limbs[i / 8] |= u64::from(byte) << (i % 8 * 8);
        }
        out
    }

    /// Writes the low bits as big-endian bytes that fill `bytes`.
    pub fn write_be(&self, bytes: &mut [u8]) {
        for (i, byte) in bytes.iter_mut().rev().enumerate() {
            *byte = self.byte(i);
        }
    }

    /// Byte `i`, counted from the least significant; 0 beyond the end.
    pub fn byte(&self, i: usize) -> u8 {
        self.limbs.get(i / 8).map_or(0, |limb| (limb >> (i % 8 * 8)) as u8)
    }

    /// The low 128 bits: the whole value of every field but `tun_metadata`.
    pub const fn low(&self) -> u128 {
        (self.limbs[1] as u128) << 64 | self.limbs[0] as u128
    }

    /// Whether all bits are clear.
    pub fn is_zero(&self) -> bool {
        self.limbs == [0; LIMBS]
    }

    /// How many bits the value needs: 0 for zero.
    pub fn bit_len(&self) -> u32 {
        self.limbs
            .iter()
            .rposition(|&limb| limb != 0)
            .map_or(0, |i| i as u32 * 64 + 64 - self.limbs[i].leading_zeros())
    }

    /// How many bits are set.
    pub fn count_ones(&self) -> u32 {
        self.limbs.iter().map(|limb| limb.count_ones()).sum()
    }

    /// With each of the low `n_bits` bits inverted.
    #[must_use]
    pub fn not(&self, n_bits: u32) -> Self {
        *self ^ Self::ones(n_bits)
    }

    /// Shifted towards the most significant end; bits beyond 1024 are lost.
    #[must_use]
    pub fn shl(&self, n: u32) -> Self {
        let (words, bits) = ((n / 64) as usize, n % 64);
        let mut out = Self::ZERO;
        for i in words..LIMBS {
            let low = i - words;
            out.limbs[i] = self.limbs[low] << bits;
            if bits > 0 && low > 0 {
                out.limbs[i] |= self.limbs[low - 1] >> (64 - bits);
            }
        }
        out
    }

    /// Shifted towards the least significant end.
    #[must_use]
    pub fn shr(&self, n: u32) -> Self {
        let (words, bits) = ((n / 64) as usize, n % 64);
        let mut out = Self::ZERO;
        for i in 0..LIMBS.saturating_sub(words) {
            let high = i + words;
            out.limbs[i] = self.limbs[high] >> bits;
            if bits > 0 && high + 1 < LIMBS {
                out.limbs[i] |= self.limbs[high + 1] << (64 - bits);
            }
        }
        out
    }

    /// Bits `ofs` to `ofs + n_bits - 1`, moved down to bit 0.
    #[must_use]
    pub fn extract(&self, ofs: u32, n_bits: u32) -> Self {
        self.shr(ofs) & Self::ones(n_bits)
    }

    /// With bits `ofs` to `ofs + n_bits - 1` replaced by the low bits of `value`.
    #[must_use]
    pub fn deposit(&self, ofs: u32, n_bits: u32, value: &Self) -> Self {
        let mask = Self::ones(n_bits).shl(ofs);
        (*self ^ (*self & mask)) | (value.shl(ofs) & mask)
    }

    /// With the bits of `mask` taken from `value`.
    #[must_use]
    pub fn merged(&self, value: &Self, mask: &Self) -> Self {
        *self ^ ((*self ^ *value) & *mask)
    }
}

impl From<u128> for FieldValue {
    fn from(n: u128) -> Self {
        Self::new(n)
    }
}

impl BitAnd for FieldValue {
    type Output = Self;
    fn bitand(mut self, other: Self) -> Self {
        self.limbs.iter_mut().zip(other.limbs).for_each(|(a, b)| *a &= b);
        self
    }
}

impl BitOr for FieldValue {
    type Output = Self;
    fn bitor(mut self, other: Self) -> Self {
        self.limbs.iter_mut().zip(other.limbs).for_each(|(a, b)| *a |= b);
        self
    }
}

impl BitXor for FieldValue {
    type Output = Self;
    fn bitxor(mut self, other: Self) -> Self {
        self.limbs.iter_mut().zip(other.limbs).for_each(|(a, b)| *a ^= b);
        self
    }
}

/// Hexadecimal without leading zeros; `#` adds `0x`.
impl fmt::LowerHex for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            f.write_str("0x")?;
        }
        let top = self.bit_len().div_ceil(64).max(1) as usize - 1;
        write!(f, "{:x}", self.limbs[top])?;
        self.limbs[..top].iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

impl fmt::Debug for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_and_slices() {
        let v = FieldValue::new(0x1234_5678_9abc_def0_1122_3344_5566_7788);
        assert_eq!(v.extract(64, 16).low(), 0xdef0);
        assert_eq!(v.shl(500).shr(500), v);
        assert_eq!(v.shl(64).extract(128, 64).low(), 0x1234_5678_9abc_def0);
        assert_eq!(FieldValue::ZERO.deposit(100, 8, &FieldValue::new(0x1ff)).low(), 0xff << 100);
        assert_eq!(FieldValue::ones(1024).count_ones(), 1024);
        assert_eq!(FieldValue::ones(70).bit_len(), 70);
        assert_eq!(FieldValue::ones(70).not(4).low(), ((1 << 70) - 1) & !0xf);
        assert_eq!(FieldValue::ones(4).not(8).low(), 0xf0);
        assert_eq!(format!("{:#x}", v.shl(64)), "0x123456789abcdef011223344556677880000000000000000");
        assert_eq!(format!("{:#x}", FieldValue::ZERO), "0x0");
    }

    #[test]
    fn bytes_go_both_ways() {
        let bytes: Vec<u8> = (1..=124).collect();
        let v = FieldValue::from_be_bytes(&bytes);
        let mut back = vec![0; 124];
        v.write_be(&mut back);
        assert_eq!(back, bytes);
        assert_eq!(v.byte(0), 124);
        assert_eq!(v.byte(500), 0);
    }
}
