//! Going through the words of a command.

use super::error::{ParseError, ParseErrorKind};

/// A word of a command, and which one it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its place, the program being 0.
    pub arg: usize,
    /// The word.
    pub text: String,
}

impl Word {
    /// An error about this word, of a command of `program`.
    pub fn refuse(&self, program: &str, kind: ParseErrorKind) -> ParseError {
        ParseError { program: program.to_owned(), arg: self.arg, offset: 0, kind }
    }
}

/// The words of a command that are left.
#[derive(Clone, Debug)]
pub(super) struct Args<'a> {
    program: &'a str,
    argv: &'a [&'a str],
    at: usize,
    end: usize,
    /// Command being read, for messages.
    command: String,
}

impl<'a> Args<'a> {
    /// All words behind the program.
    pub fn new(argv: &'a [&'a str]) -> Self {
        Self {
            program: argv.first().copied().unwrap_or(""),
            argv,
            at: 1,
            end: argv.len(),
            command: String::new(),
        }
    }

    /// The words in front of the next `--`; `self` goes on behind it.
    pub fn until_dashes(&mut self) -> Self {
        let end = (self.at..self.end).find(|&i| self.argv[i] == "--").unwrap_or(self.end);
        let part = Self { end, ..self.clone() };
        self.at = (end + 1).min(self.end);
        part
    }

    /// Tells which command the rest belongs to.
    pub fn set_command(&mut self, command: &str) {
        command.clone_into(&mut self.command);
    }

    /// The program.
    pub fn program(&self) -> &'a str {
        self.program
    }

    /// Whether no word is left.
    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<&'a str> {
        self.argv[..self.end].get(self.at).copied()
    }

    /// The place of the next word.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Takes the next word.
    pub fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word, with its place.
    pub fn next_word(&mut self) -> Option<Word> {
        let arg = self.at;
        self.next().map(|text| Word { arg, text: text.to_owned() })
    }

    /// Takes all words that are left.
    pub fn rest(&mut self) -> Vec<Word> {
        std::iter::from_fn(|| self.next_word()).collect()
    }

    /// Takes a word that must be there.
    ///
    /// # Errors
    /// Names what is missing.
    pub fn need(&mut self, what: &'static str) -> Result<Word, ParseError> {
        let missing = self.missing(what);
        self.next_word().ok_or(missing)
    }

    /// Refuses words that are left.
    ///
    /// # Errors
    /// Names the first one.
    pub fn finish(&mut self) -> Result<(), ParseError> {
        match self.next_word() {
            None => Ok(()),
            Some(word) => {
                let kind = ParseErrorKind::Extra { command: self.command.clone(), word: word.text.clone() };
                Err(self.refuse(&word, kind))
            }
        }
    }

    /// An error about a word that is missing.
    pub fn missing(&self, what: &'static str) -> ParseError {
        self.error_at(self.at, ParseErrorKind::Missing { command: self.command.clone(), what })
    }

    /// An error about a word.
    pub fn refuse(&self, word: &Word, kind: ParseErrorKind) -> ParseError {
        word.refuse(self.program, kind)
    }

    /// An error about the word at a place.
    pub fn error_at(&self, arg: usize, kind: ParseErrorKind) -> ParseError {
        ParseError { program: self.program.to_owned(), arg, offset: 0, kind }
    }

    /// Takes the next option of the program: a word that starts with a dash. `with_argument` tells the options that take an
    /// argument, which follows as the next word, or behind `=` (long), or at once (short).
    ///
    /// # Errors
    /// An argument is missing.
    pub fn next_option(&mut self, with_argument: &[&str]) -> Result<Option<Opt>, ParseError> {
        let Some(word) = self.peek().filter(|w| w.starts_with('-') && *w != "-" && *w != "--") else {
            return Ok(None);
        };
        let arg = self.at;
        self.at += 1;
        let (name, inline) = if word.starts_with("--") {
            word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
        } else {
            let end = word.char_indices().nth(2).map_or(word.len(), |(i, _)| i);
            (&word[..end], Some(&word[end..]).filter(|rest| !rest.is_empty()))
        };
        let mut value = inline.map(str::to_owned);
        if with_argument.contains(&name) && value.is_none() {
            let missing = ParseErrorKind::OptionArgument(name.to_owned());
            value = Some(self.next().ok_or_else(|| self.error_at(arg, missing))?.to_owned());
        }
        Ok(Some(Opt { arg, name: name.to_owned(), value }))
    }
}

/// An option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opt {
    /// Its place.
    pub arg: usize,
    /// Its name, with its dashes.
    pub name: String,
    /// Its argument.
    pub value: Option<String>,
}

impl Opt {
    /// The option as a word.
    pub fn word(&self) -> Word {
        Word { arg: self.arg, text: self.name.clone() }
    }
}
