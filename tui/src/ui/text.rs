//! Short texts that several views share.

use datapath::types::Time;

/// Virtual time in seconds, to the nanosecond.
pub fn time(time: Time) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}

/// A number with a unit prefix where it would be long: `1.2M`.
pub fn short(value: f64) -> String {
    let (value, prefix) = match value {
        v if v >= 999.5e9 => (v / 1e12, "T"),
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 9_999.5 => (v / 1e3, "k"),
        v => return format!("{}", v.round()),
    };
    match value {
        v if v < 9.995 => format!("{v:.2}{prefix}"),
        v if v < 99.95 => format!("{v:.1}{prefix}"),
        v => format!("{v:.0}{prefix}"),
    }
}

/// A count, exactly while it is short.
pub fn count(value: u64) -> String {
    if value < 1_000_000 { value.to_string() } else { short(value as f64) }
}

/// A span of nanoseconds in the unit that suits it.
pub fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        _ => format!("{:.1}s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(9999.0), "9999");
        assert_eq!(short(10_000.0), "10.0k");
        assert_eq!(short(999_499.0), "999k");
        assert_eq!(short(999_500.0), "1.00M");
        assert_eq!(short(1_234_567.0), "1.23M");
        assert_eq!(short(12e9), "12.0G");
        assert_eq!(count(999_999), "999999");
        assert_eq!(count(1_000_000), "1.00M");
        assert_eq!(span(999), "999ns");
        assert_eq!(span(1_500), "1.5us");
        assert_eq!(span(2_000_000_000), "2.0s");
        assert_eq!(time(Time(1_000_000_007)), "1.000000007");
    }
}
