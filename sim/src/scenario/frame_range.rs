//! Frames that differ in one number: `udp 1000..1999 > 53` is a thousand frames, in order of that number.

use std::net::Ipv4Addr;
use std::ops::{Range, RangeInclusive};

use super::frame::{self, FrameError};

/// Most frames that one text stands for.
const MAX_FRAMES: u32 = 65_536;
/// Most bytes in all of them.
const MAX_BYTES: usize = 64 << 20;

/// Makes the frames that `text` describes: one, or one for each value of the range in it.
///
/// # Errors
/// The first thing that is wrong with it.
pub(super) fn parse_all(text: &str) -> Result<Vec<Vec<u8>>, FrameError> {
    let mut ranges = words(text).filter(|word| text[word.clone()].contains(".."));
    let Some(word) = ranges.next() else {
        return Ok(vec![frame::parse(text)?]);
    };
    if let Some(second) = ranges.next() {
        return Err(FrameError::new(second, "a second range: a frame can have one"));
    }
    let values = Values::parse(&text[word.clone()])
        .map_err(|message| FrameError::new(word.clone(), message).with_help("such as 1000..1999"))?;
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for value in values.range.clone() {
        // Blanks up to the length of the range, so that errors point to the same places.
        let width = word.len();
        let value = values.text(value);
        let one = format!("{}{value:<width$}{}", &text[..word.start], &text[word.end..]);
        // What is wrong with a value is wrong with its range.
        let frame = frame::parse(&one).map_err(|mut error| {
            if error.span.start >= word.start && error.span.end <= word.end {
                error.span = word.clone();
            }
            error
        })?;
        if frames.is_empty() && frame.len().saturating_mul(values.range.clone().count()) > MAX_BYTES {
            let message = format!("more than {} MiB of frames", MAX_BYTES >> 20);
            return Err(FrameError::new(word, message));
        }
        frames.push(frame);
    }
    Ok(frames)
}

/// What stands between white space and slashes.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    text.split_inclusive(|c: char| c.is_whitespace() || c == '/').map(move |part| {
        let start = from;
        from += part.len();
        start..start + part.trim_end_matches(|c: char| c.is_whitespace() || c == '/').len()
    })
}

/// The values of a range.
struct Values {
    range: RangeInclusive<u32>,
    addresses: bool,
}

impl Values {
    fn parse(word: &str) -> Result<Self, String> {
        let (first, last) = word.split_once("..").unwrap_or((word, ""));
        let numbers = (number(first), number(last));
        let addresses = (first.parse::<Ipv4Addr>(), last.parse::<Ipv4Addr>());
        let (range, addresses) = match (numbers, addresses) {
            ((Some(first), Some(last)), _) => (first..=last, false),
            (_, (Ok(first), Ok(last))) => (u32::from(first)..=u32::from(last), true),
            _ => return Err(format!("{word:?} is no range of decimal numbers or IPv4 addresses")),
        };
        match range.end().checked_sub(*range.start()) {
            None => Err(format!("{word:?} ends before it begins")),
            Some(steps) if steps >= MAX_FRAMES => Err(format!("{word:?} is more than {MAX_FRAMES} frames")),
            Some(_) => Ok(Self { range, addresses }),
        }
    }

    fn text(&self, value: u32) -> String {
        if self.addresses { Ipv4Addr::from(value).to_string() } else { value.to_string() }
    }
}

/// A decimal number without sign or leading zeros, so that no value is longer than the range it is from.
fn number(text: &str) -> Option<u32> {
    let plain = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH: &str = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02";

    #[test]
    fn a_range_is_one_frame_for_each_value() {
        let text = format!("{ETH} / ipv4 10.0.0.1 > 10.0.0.2 / udp 9..11 > 53 / 4 bytes");
        let frames = parse_all(&text).unwrap();
        let one = |port: u16| frame::parse(&text.replace("9..11", &port.to_string())).unwrap();
        assert_eq!(frames, [one(9), one(10), one(11)]);
        let frames =
            parse_all(&format!("{ETH} / ipv4 10.0.0.255..10.0.1.1 > 10.0.2.1 / udp 1 > 53")).unwrap();
        let sources: Vec<&[u8]> = frames.iter().map(|frame| &frame[26..30]).collect();
        assert_eq!(sources, [[10, 0, 0, 255], [10, 0, 1, 0], [10, 0, 1, 1]]);
        assert_eq!(parse_all(&format!("{ETH} / 3 bytes")).unwrap().len(), 1);
    }

    #[test]
    fn wrong_ranges_point_to_themselves() {
        let wrong = |range: &str| {
            let text = format!("{ETH} /\u{a0}ipv4 10.0.0.1 > 10.0.0.2 / udp {range} > 53");
            let error = parse_all(&text).unwrap_err();
            (text[error.span.clone()].trim_end().to_owned(), error.to_string())
        };
        for range in ["9..8", "1..", "..1", "1..x", "0..65536", "1..2..3", "01..3", "+1..3", "10.0.0.1..5"] {
            assert_eq!(wrong(range).0, range, "{}", wrong(range).1);
        }
        // The first value that does not fit; the error is that of the frame.
        assert_eq!(wrong("65535..65536").0, "65535..65536", "{}", wrong("65535..65536").1);
        let two =
            parse_all(&format!("{ETH} / ipv4 10.0.0.1..10.0.0.2 > 10.0.0.3 / udp 1..2 > 3")).unwrap_err();
        assert!(two.to_string().contains("second range"), "{two}");
        let big = parse_all(&format!("{ETH} / vlan 0..4000 / 60000 bytes")).unwrap_err();
        assert!(big.to_string().contains("MiB"), "{big}");
    }
}
