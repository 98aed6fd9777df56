//! Times of records as nanoseconds since 1970.

/// Nanoseconds in a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// What one tick of a pcapng timestamp is (option `if_tsresol`, draft-ietf-opsawg-pcapng section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeResolution {
    /// 10 to the power of minus this, seconds.
    Decimal(u8),
    /// 2 to the power of minus this, seconds.
    Binary(u8),
}

impl TimeResolution {
    /// Of a file that does not say: microseconds.
    pub const DEFAULT: TimeResolution = TimeResolution::Decimal(6);

    /// From the byte of `if_tsresol`.
    pub fn from_byte(byte: u8) -> Self {
        if byte & 0x80 == 0 { TimeResolution::Decimal(byte) } else { TimeResolution::Binary(byte & 0x7f) }
    }

    /// The nanoseconds in this many ticks, rounded down. Resolutions finer than a nanosecond lose their excess.
    pub fn to_ns(self, ticks: u64) -> u128 {
        let ticks = u128::from(ticks);
        match self {
            TimeResolution::Decimal(digits @ 0..=9) => ticks * 10u128.pow(9 - u32::from(digits)),
            // 64 bits of ticks are less than a nanosecond from 10^-29 s on: the quotient is 0, as it is if the
            // divisor no longer fits.
            TimeResolution::Decimal(digits) => {
                10u128.checked_pow(u32::from(digits) - 9).map_or(0, |divisor| ticks / divisor)
            }
            // At most 94 bits, so nothing is lost before the shift.
            TimeResolution::Binary(bits) => (ticks * u128::from(SECOND_NS)) >> bits.min(127),
        }
    }
}

/// `ns` moved by whole seconds (option `if_tsoffset`), and whether it had to be clamped to what 64 bits hold.
pub(super) fn shift(ns: u128, offset_s: i64) -> (u64, bool) {
    // ns is at most 2^64 * 10^9 and the offset at most 2^63 * 10^9: both fit into 127 bits.
    let moved = ns as i128 + i128::from(offset_s) * i128::from(SECOND_NS);
    match u64::try_from(moved) {
        Ok(ns) => (ns, false),
        Err(_) => (if moved < 0 { 0 } else { u64::MAX }, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions() {
        let cases = [
            (0x06, 1_500_000, 1_500_000_000),
            (0x09, 1_500_000_000, 1_500_000_000),
            (0x94, 0x18_0000, 1_500_000_000),
            (0x00, 3, 3_000_000_000),
            (0x80, 3, 3_000_000_000),
            (0x0c, 1_999, 1),
            (0x7f, u64::MAX, 0),
            (0x26, u64::MAX, 0),
            (0x2f, u64::MAX, 0),
            (0xff, u64::MAX, 0),
            (0xa0, 1 << 31, 500_000_000),
        ];
        for (byte, ticks, ns) in cases {
            assert_eq!(TimeResolution::from_byte(byte).to_ns(ticks), ns, "resolution {byte:#04x}");
        }
        assert_eq!(TimeResolution::Decimal(0).to_ns(u64::MAX), u128::from(u64::MAX) * 1_000_000_000);
    }

    #[test]
    fn shifting_never_overflows() {
        assert_eq!(shift(5, 100), (100_000_000_005, false));
        assert_eq!(shift(5, -1), (0, true));
        assert_eq!(shift(2_000_000_000, -1), (1_000_000_000, false));
        assert_eq!(shift(u128::from(u64::MAX), 0), (u64::MAX, false));
        assert_eq!(shift(u128::from(u64::MAX) + 1, 0), (u64::MAX, true));
        let most = TimeResolution::Decimal(0).to_ns(u64::MAX);
        assert_eq!(shift(most, i64::MAX), (u64::MAX, true));
        assert_eq!(shift(0, i64::MIN), (0, true));
        assert_eq!(shift(most, i64::MIN), (u64::MAX, true));
    }
}
