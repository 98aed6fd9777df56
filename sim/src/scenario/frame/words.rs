//! The words of a layer: numbers, addresses, options.

use std::ops::Range;
use std::str::FromStr;

use super::{FrameError, error};
use crate::diagnostic::suggest;

/// The words of one layer, with their places.
pub(super) struct Words<'a> {
    words: Vec<(&'a str, Range<usize>)>,
    next: usize,
    span: Range<usize>,
}

/// Options that stood behind a layer.
pub(super) struct Options {
    numbers: Vec<Option<u64>>,
    flags: Vec<bool>,
}

impl Options {
    pub fn get(&self, index: usize) -> Option<u64> {
        self.numbers.get(index).copied().flatten()
    }

    pub fn or(&self, index: usize, default: u64) -> u64 {
        self.get(index).unwrap_or(default)
    }

    pub fn flag(&self, index: usize) -> bool {
        self.flags.get(index).copied().unwrap_or(false)
    }
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str, range: Range<usize>) -> Self {
        let part = &text[range.clone()];
        let mut words = Vec::new();
        let mut start = None;
        for (offset, c) in part.char_indices().chain([(part.len(), ' ')]) {
            match (c.is_whitespace(), start) {
                (false, None) => start = Some(offset),
                (true, Some(from)) => {
                    words.push((&part[from..offset], range.start + from..range.start + offset));
                    start = None;
                }
                (true, None) | (false, Some(_)) => {}
            }
        }
        let span = match (words.first(), words.last()) {
            (Some(first), Some(last)) => first.1.start..last.1.end,
            _ => range,
        };
        Self { words, next: 0, span }
    }

    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub fn maybe(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?.0;
        self.next += 1;
        Some(word)
    }

    pub fn next(&mut self, want: &str) -> Result<&'a str, FrameError> {
        let at = self.span.end;
        self.maybe().ok_or_else(|| error(at..at, format!("{want} is missing here")))
    }

    /// An error about the word taken last.
    pub fn error(&self, message: String) -> FrameError {
        let word = self.next.checked_sub(1).and_then(|index| self.words.get(index));
        error(word.map_or(self.span(), |(_, span)| span.clone()), message)
    }

    pub fn unknown(&self, word: &str, known: &[&str]) -> FrameError {
        let mut error = self.error(format!("{word:?} is unknown here"));
        error.help = Some(match suggest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                "nothing more can follow in this layer; a `/` begins the next one".to_owned()
            }
            None => format!("known: {}", known.join(", ")),
        });
        error
    }

    pub fn parsed<T: FromStr>(&mut self, want: &str) -> Result<T, FrameError> {
        let word = self.next(want)?;
        word.parse().map_err(|_| self.error(format!("{word:?} is not {want}")))
    }

    /// The next word, if it is a `T`.
    pub fn parsed_if<T: FromStr>(&mut self) -> Option<T> {
        let value = self.words.get(self.next)?.0.parse().ok()?;
        self.next += 1;
        Some(value)
    }

    pub fn arrow(&mut self) -> Result<(), FrameError> {
        match self.next("`>`")? {
            ">" => Ok(()),
            other => Err(self.error(format!("`>` is missing before {other:?}"))),
        }
    }

    pub fn to<T: FromStr>(&mut self, want: &str) -> Result<T, FrameError> {
        self.arrow()?;
        self.parsed(want)
    }

    pub fn number(&mut self, want: &str, most: u64) -> Result<u64, FrameError> {
        let word = self.next(want)?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match parsed {
            Ok(value) if value <= most => Ok(value),
            Ok(_) => Err(self.error(format!("{word} is out of range: at most {most}"))),
            Err(_) => Err(self.error(format!("{word:?} is not {want}"))),
        }
    }

    pub fn options(&mut self, numbers: &[(&str, u64)], flags: &[&str]) -> Result<Options, FrameError> {
        let mut options = Options { numbers: vec![None; numbers.len()], flags: vec![false; flags.len()] };
        while let Some(word) = self.maybe() {
            if let Some(index) = numbers.iter().position(|(name, _)| *name == word) {
                options.numbers[index] = Some(self.number("a number", numbers[index].1)?);
            } else if let Some(index) = flags.iter().position(|name| *name == word) {
                options.flags[index] = true;
            } else {
                let known: Vec<&str> =
                    numbers.iter().map(|(name, _)| *name).chain(flags.iter().copied()).collect();
                return Err(self.unknown(word, &known));
            }
        }
        Ok(options)
    }

    pub fn end(&mut self) -> Result<(), FrameError> {
        match self.maybe() {
            None => Ok(()),
            Some(word) => Err(self.unknown(word, &[])),
        }
    }
}
