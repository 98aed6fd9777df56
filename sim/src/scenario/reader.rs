//! Walks parsed TOML and collects every error on the way, instead of stopping at the first as a deserializer does.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostic, suggest};
use crate::quantity::QuantityError;

/// The text being read and the errors found so far.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub text: &'a str,
    errors: RefCell<Vec<Diagnostic>>,
}

impl<'a> Context<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, errors: RefCell::new(Vec::new()) }
    }

    pub fn error(&self, diagnostic: Diagnostic) {
        self.errors.borrow_mut().push(diagnostic);
    }

    pub fn into_errors(self) -> Vec<Diagnostic> {
        self.errors.into_inner()
    }
}

/// A value with the key it stands under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub cx: &'a Context<'a>,
    pub key: &'a str,
    key_span: (usize, usize),
    span: (usize, usize),
    value: &'a DeValue<'a>,
}

impl<'a> Value<'a> {
    pub fn span(&self) -> Range<usize> {
        self.span.0..self.span.1
    }

    pub fn key_span(&self) -> Range<usize> {
        self.key_span.0..self.key_span.1
    }

    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.span(), message)
    }

    fn wrong_type(&self, want: &str) {
        let message = format!("`{}` must be {want}, not {}", self.key, article(self.value.type_str()));
        self.cx.error(self.error(message).label(format!("expected {want}")));
    }

    pub fn string(&self) -> Option<&'a str> {
        match self.value.as_str() {
            Some(text) => Some(text),
            None => {
                self.wrong_type("a string");
                None
            }
        }
    }

    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => {
                self.wrong_type("true or false");
                None
            }
        }
    }

    pub fn integer(&self, low: u64, high: u64) -> Option<u64> {
        let DeValue::Integer(integer) = self.value else {
            self.wrong_type("a whole number");
            return None;
        };
        let digits = integer.as_str().replace('_', "");
        match u64::from_str_radix(digits.trim_start_matches('+'), integer.radix()) {
            Ok(value) if (low..=high).contains(&value) => Some(value),
            _ => {
                let message = format!("`{}` is out of range", self.key);
                self.cx.error(self.error(message).label(format!("use {low} to {high}")));
                None
            }
        }
    }

    /// A string that `parse` accepts; its error is reported here.
    pub fn quantity<T>(&self, parse: impl Fn(&str) -> Result<T, QuantityError>, want: &str) -> Option<T> {
        let Some(text) = self.value.as_str() else {
            let shown = &self.cx.text[self.span()];
            let message =
                format!("`{}` must be {want} in quotes, not {}", self.key, article(self.value.type_str()));
            let help = match parse(shown) {
                Err(error) => error.help(),
                Ok(_) => format!("write {shown:?}"),
            };
            self.cx.error(self.error(message).label("a quantity needs its unit").help(help));
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.cx.error(self.error(format!("`{}`: {error}", self.key)).help(error.help()));
                None
            }
        }
    }

    /// A string that parses as `T`.
    pub fn parsed<T: FromStr>(&self, help: &str) -> Option<T>
    where
        T::Err: Display,
    {
        let text = self.string()?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.cx.error(self.error(format!("`{}`: {error}", self.key)).help(help));
                None
            }
        }
    }

    /// One of a closed list of words.
    pub fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let text = self.string()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let list = words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>().join(", ");
        let mut error = self.error(format!("`{}` cannot be {text:?}", self.key)).label("unknown word");
        error = match suggest(text, words.iter().map(|(word, _)| *word)) {
            Some(near) => error.help(format!("did you mean {near:?}? one of {list}")),
            None => error.help(format!("one of {list}")),
        };
        self.cx.error(error);
        None
    }

    /// The elements of an array.
    pub fn array(&self) -> Option<Vec<Value<'a>>> {
        let DeValue::Array(array) = self.value else {
            self.wrong_type("an array");
            return None;
        };
        Some(array.iter().map(|item| self.item(item)).collect())
    }

    /// The elements of an array, or a single value as one element.
    pub fn one_or_more(&self) -> Vec<Value<'a>> {
        match self.value {
            DeValue::Array(array) => array.iter().map(|item| self.item(item)).collect(),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Table(_) => vec![*self],
        }
    }

    fn item(&self, item: &'a Spanned<DeValue<'a>>) -> Value<'a> {
        let span = item.span();
        Value { span: (span.start, span.end), value: item.get_ref(), ..*self }
    }

    /// The fields of a table; `what` names it in errors.
    pub fn table(&self, what: impl Into<String>) -> Option<Fields<'a>> {
        match self.value {
            DeValue::Table(table) => Some(Fields::new(self.cx, table, self.key_span(), what)),
            _ => {
                self.wrong_type("a table");
                None
            }
        }
    }

    /// The text of a string; no error if it is none.
    pub fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// Whether this is the string `word`.
    pub fn scalar_is(&self, word: &str) -> bool {
        self.value.as_str() == Some(word)
    }

    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// The text of a scalar as it would be typed: a string without quotes, else the number or word itself.
    pub fn scalar(&self) -> Option<String> {
        match self.value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                Some(self.cx.text[self.span()].to_owned())
            }
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                self.wrong_type("a string, a number, or true or false");
                None
            }
        }
    }

    /// Where the bytes `part` of this string's value are in the file, if it is written without escapes; else all of it.
    pub fn part_span(&self, part: Range<usize>) -> Range<usize> {
        let span = self.span();
        let (Some(value), Some(raw)) = (self.value.as_str(), self.cx.text.get(span.clone())) else {
            return span;
        };
        match raw.find(value) {
            Some(start) if !value.is_empty() => {
                span.start + start + part.start..span.start + start + part.end
            }
            _ => span,
        }
    }
}

fn article(type_name: &str) -> String {
    let an = type_name.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {type_name}", if an { "an" } else { "a" })
}

/// The fields of one table: taken one by one; what is left in the end is unknown.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    cx: &'a Context<'a>,
    what: String,
    span: Range<usize>,
    entries: Vec<Value<'a>>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn new(
        cx: &'a Context<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        what: impl Into<String>,
    ) -> Self {
        let mut entries: Vec<Value<'a>> = table
            .iter()
            .map(|(key, value)| {
                let (k, v) = (key.span(), value.span());
                let (key_span, span) = ((k.start, k.end), (v.start, v.end));
                Value { cx, key: key.get_ref(), key_span, span, value: value.get_ref() }
            })
            .collect();
        // The parser sorts by name; people number and read by place.
        entries.sort_by_key(|entry| entry.key_span.0);
        Self { cx, what: what.into(), span, entries, known: Vec::new() }
    }

    /// Where the table is, for errors about what it lacks.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub fn cx(&self) -> &'a Context<'a> {
        self.cx
    }

    /// The value of field `name`, if it is there.
    pub fn take(&mut self, name: &'static str) -> Option<Value<'a>> {
        self.known.push(name);
        let index = self.entries.iter().position(|entry| entry.key == name)?;
        Some(self.entries.remove(index))
    }

    /// The value of field `name`; that it is missing is an error.
    pub fn require(&mut self, name: &'static str, help: &str) -> Option<Value<'a>> {
        let value = self.take(name);
        if value.is_none() {
            let message = format!("{} lacks `{name}`", self.what);
            self.cx.error(Diagnostic::new(self.span(), message).help(help));
        }
        value
    }

    /// All fields that are left, whatever their names.
    pub fn rest(&mut self) -> Vec<Value<'a>> {
        std::mem::take(&mut self.entries)
    }

    /// Reports what was not taken.
    pub fn finish(self) {
        for entry in &self.entries {
            let message = format!("unknown field `{}`", entry.key);
            let error =
                Diagnostic::new(entry.key_span(), message).label(format!("not a field of {}", self.what));
            self.cx.error(match suggest(entry.key, self.known.iter().copied()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("known fields: {}", self.known.join(", "))),
            });
        }
    }
}
