//! Quantities with units, as scenario files write them: exact, never guessed. `"10us"`, `"10Gbit"`, `"0.1%"`, `"64KiB"`.

use datapath::types::Span;
use thiserror::Error;

/// Why a text is not a quantity. The message says what is wrong; [`QuantityError::help`] shows right ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// No unit, only a number.
    #[error("{kind} {text:?} has no unit")]
    NoUnit {
        /// What it was to be.
        kind: Kind,
        /// The text.
        text: String,
    },
    /// A unit that is not one of this kind.
    #[error("{unit:?} is not a unit of a {kind}")]
    Unit {
        /// What it was to be.
        kind: Kind,
        /// The unit.
        unit: String,
    },
    /// Not a number in front of the unit.
    #[error("{text:?} is not a {kind}")]
    Number {
        /// What it was to be.
        kind: Kind,
        /// The text.
        text: String,
    },
    /// More digits than can be kept exactly.
    #[error("{kind} {text:?} is finer than {finest}")]
    Precision {
        /// What it was to be.
        kind: Kind,
        /// The text.
        text: String,
        /// The smallest step.
        finest: &'static str,
    },
    /// Too large.
    #[error("{kind} {text:?} is too large: at most {most}")]
    Range {
        /// What it was to be.
        kind: Kind,
        /// The text.
        text: String,
        /// The largest value.
        most: &'static str,
    },
}

/// What a quantity measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A span of time.
    Time,
    /// A bit rate.
    Rate,
    /// A probability.
    Probability,
    /// An amount of bytes.
    Size,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "time",
            Self::Rate => "rate",
            Self::Probability => "probability",
            Self::Size => "size",
        })
    }
}

impl Kind {
    /// Units with how many base units each is; a base unit is what the parsed number counts.
    const fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Time => &[
                ("ns", 1),
                ("us", 1_000),
                ("µs", 1_000),
                ("ms", 1_000_000),
                ("s", 1_000_000_000),
                ("min", 60_000_000_000),
            ],
            Self::Rate => &[
                ("bit", 1),
                ("kbit", 1_000),
                ("Mbit", 1_000_000),
                ("Gbit", 1_000_000_000),
                ("Tbit", 1_000_000_000_000),
            ],
            Self::Probability => &[("%", 10_000_000)],
            Self::Size => &[
                ("B", 1),
                ("kB", 1_000),
                ("KiB", 1 << 10),
                ("MB", 1_000_000),
                ("MiB", 1 << 20),
                ("GB", 1_000_000_000),
                ("GiB", 1 << 30),
            ],
        }
    }

    const fn finest(self) -> &'static str {
        match self {
            Self::Time => "1ns",
            Self::Rate => "1bit",
            Self::Probability => "0.0000001%",
            Self::Size => "1B",
        }
    }

    /// Right ones of this kind.
    pub const fn examples(self) -> &'static str {
        match self {
            Self::Time => "a time needs a unit: \"10ns\", \"10us\", \"1.5ms\", \"2s\" or \"1min\"",
            Self::Rate => "a rate needs a unit: \"500kbit\", \"100Mbit\" or \"10Gbit\" (a second)",
            Self::Probability => "a probability is a percentage: \"0.1%\" or \"50%\"",
            Self::Size => "a size needs a unit: \"1500B\", \"64KiB\" or \"1MB\"",
        }
    }
}

impl QuantityError {
    /// What would be right.
    pub fn help(&self) -> String {
        match self {
            Self::NoUnit { kind: Kind::Time, text } => {
                format!("did you mean \"{text}ms\"? units: ns, us, ms, s, min")
            }
            Self::NoUnit { kind: Kind::Rate, text } => {
                format!("did you mean \"{text}Mbit\"? units: bit, kbit, Mbit, Gbit, Tbit")
            }
            Self::NoUnit { kind: Kind::Probability, text } => format!("did you mean \"{text}%\"?"),
            Self::NoUnit { kind: Kind::Size, text } => {
                format!("did you mean \"{text}B\"? units: B, kB, KiB, MB, MiB")
            }
            Self::Unit { kind, .. }
            | Self::Number { kind, .. }
            | Self::Precision { kind, .. }
            | Self::Range { kind, .. } => kind.examples().to_owned(),
        }
    }
}

/// Parses `text` into base units of `kind` (ns, bits a second, parts per 10^9, bytes), exactly.
fn parse(kind: Kind, text: &str) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let bad = || QuantityError::Number { kind, text: text.to_owned() };
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..digits], trimmed[digits..].trim_start());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.contains('.') {
        return Err(bad());
    }
    if unit.is_empty() {
        return Err(QuantityError::NoUnit { kind, text: text.to_owned() });
    }
    let unit = if kind == Kind::Rate { unit.strip_suffix("/s").unwrap_or(unit) } else { unit };
    let Some((_, scale)) = kind.units().iter().find(|(name, _)| *name == unit) else {
        return Err(QuantityError::Unit { kind, unit: unit.to_owned() });
    };
    let too_large =
        || QuantityError::Range { kind, text: text.to_owned(), most: "18446744073709551615 base units" };
    let whole = whole.parse::<u64>().map_err(|_| too_large())?;
    let fraction = fraction.trim_end_matches('0');
    let too_fine = || QuantityError::Precision { kind, text: text.to_owned(), finest: kind.finest() };
    if fraction.len() > 18 {
        return Err(too_fine());
    }
    let mut part = 0u128;
    if !fraction.is_empty() {
        let divisor = 10u128.pow(fraction.len() as u32);
        let product = fraction.parse::<u128>().map_err(|_| bad())? * u128::from(*scale);
        if product % divisor != 0 {
            return Err(too_fine());
        }
        part = product / divisor;
    }
    u64::try_from(u128::from(whole) * u128::from(*scale) + part).map_err(|_| too_large())
}

/// Parses a span of time, such as `"10us"` or `"1.5ms"`.
///
/// # Errors
/// If there is no unit, or the number is no whole count of nanoseconds.
pub fn time(text: &str) -> Result<Span, QuantityError> {
    parse(Kind::Time, text).map(Span)
}

/// Parses a bit rate, such as `"10Gbit"` or `"500kbit/s"`, into bits a second; decimal multiples.
///
/// # Errors
/// If there is no unit, or the rate is 0 (a link that is down says so).
pub fn rate(text: &str) -> Result<u64, QuantityError> {
    match parse(Kind::Rate, text)? {
        0 => Err(QuantityError::Number { kind: Kind::Rate, text: text.to_owned() }),
        rate => Ok(rate),
    }
}

/// Parses an amount of bytes, such as `"1500B"` or `"64KiB"`.
///
/// # Errors
/// If there is no unit.
pub fn size(text: &str) -> Result<u64, QuantityError> {
    parse(Kind::Size, text)
}

/// A probability in exact parts per 10^9, so that `"0.0000001%"` is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Parts in the whole.
    pub const WHOLE: u32 = 1_000_000_000;
    /// Always.
    pub const ALWAYS: Self = Self(Self::WHOLE);

    /// Parts per 10^9; more than the whole is the whole.
    pub const fn from_parts(parts: u32) -> Self {
        Self(if parts > Self::WHOLE { Self::WHOLE } else { parts })
    }

    /// Parts per 10^9.
    pub const fn parts(self) -> u32 {
        self.0
    }
}

/// Parses a percentage, such as `"0.1%"`, exactly.
///
/// # Errors
/// If there is no percent sign, it is over 100 %, or finer than 0.0000001 %.
pub fn probability(text: &str) -> Result<Probability, QuantityError> {
    let parts = parse(Kind::Probability, text)?;
    match u32::try_from(parts) {
        Ok(parts) if parts <= Probability::WHOLE => Ok(Probability(parts)),
        _ => Err(QuantityError::Range { kind: Kind::Probability, text: text.to_owned(), most: "100%" }),
    }
}

/// A span of time as a person writes it: the largest unit that needs no more than three decimals, else nanoseconds.
pub fn show_time(span: Span) -> String {
    let ns = span.0;
    if ns == 0 {
        return "0s".to_owned();
    }
    for (unit, scale) in [("s", 1_000_000_000u64), ("ms", 1_000_000), ("us", 1_000)] {
        if ns >= scale && ns.is_multiple_of(scale / 1_000) {
            let text = format!("{}.{:03}", ns / scale, ns % scale / (scale / 1_000));
            return format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn right_ones() {
        assert_eq!(time("10us"), Ok(Span(10_000)));
        assert_eq!(time("0s"), Ok(Span(0)));
        assert_eq!(time("1.5 ms"), Ok(Span(1_500_000)));
        assert_eq!(time("0.000000001s"), Ok(Span(1)));
        assert_eq!(rate("10Gbit"), Ok(10_000_000_000));
        assert_eq!(rate("2.5Gbit/s"), Ok(2_500_000_000));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(probability("0.1%"), Ok(Probability(1_000_000)));
        assert_eq!(probability("0.0000001%"), Ok(Probability(1)));
        assert_eq!(probability("100%"), Ok(Probability::ALWAYS));
    }

    #[test]
    fn wrong_ones_are_never_guessed() {
        assert_eq!(time("100").unwrap_err().help(), "did you mean \"100ms\"? units: ns, us, ms, s, min");
        assert!(matches!(time("100%"), Err(QuantityError::Unit { .. })));
        assert!(matches!(time("10US"), Err(QuantityError::Unit { .. })));
        assert!(matches!(rate("100"), Err(QuantityError::NoUnit { .. })));
        assert!(matches!(rate("0Mbit"), Err(QuantityError::Number { .. })));
        assert!(matches!(probability("101%"), Err(QuantityError::Range { .. })));
        assert!(matches!(probability("0.00000001%"), Err(QuantityError::Precision { .. })));
        assert!(matches!(time("0.5ns"), Err(QuantityError::Precision { .. })));
        for text in
            ["", "ms", "-1ms", ".5s", "5.s", "1.2.3s", "1e3s", "99999999999999999999s", "600000000000s"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn shown_times_parse_back(ns in any::<u64>()) {
            prop_assert_eq!(time(&show_time(Span(ns))), Ok(Span(ns)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = (time(&text), rate(&text), size(&text), probability(&text));
        }
    }
}
