//! Complaints about input: what is wrong, where, the source line with a caret under the place, and what would be right.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthChar;

/// Columns of a source line that are shown at most; longer lines (a frame in hexadecimal) are cut around the caret.
const SHOWN: usize = 100;

const RED: Style = AnsiColor::Red.on_default().bold();
const BLUE: Style = AnsiColor::Blue.on_default().bold();
const BOLD: Style = Style::new().bold();

/// Where in its source a complaint points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// File name, or a name for what is not a file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// First character complained about, from 1.
    pub column: usize,
    /// Characters complained about; at least one is marked.
    pub width: usize,
    /// The whole source line, without its end.
    pub source: String,
}

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one line.
    pub message: String,
    /// Where, if it is anywhere in particular.
    pub at: Option<Place>,
    /// What would be right.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A complaint without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, help: None }
    }

    /// Adds the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.at = Some(place);
        self
    }

    /// Adds what would be right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The complaint as text with styles; the stream that it is written to removes those that do not suit it.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let message = clean(&self.message);
        let gutter = self.at.as_ref().map_or(0, |place| place.line.to_string().len());
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{RED}error{RED:#}{BOLD}: {message}{BOLD:#}");
        if let Some(place) = &self.at {
            let (shown, before, marked) = place.window();
            let (file, line, column) = (clean(&place.file), place.line, place.column);
            let pad = " ".repeat(gutter);
            let carets = "^".repeat(marked);
            let indent = " ".repeat(before);
            let _ = writeln!(out, "{pad}{BLUE}-->{BLUE:#} {file}:{line}:{column}");
            let _ = writeln!(out, "{pad} {BLUE}|{BLUE:#}");
            let _ = writeln!(out, "{BLUE}{line} |{BLUE:#} {shown}");
            let _ = writeln!(out, "{pad} {BLUE}|{BLUE:#} {indent}{RED}{carets}{RED:#}");
        }
        if let Some(help) = &self.help {
            let pad = " ".repeat(gutter);
            let mut lines = help.lines();
            let _ = writeln!(out, "{pad} {BLUE}={BLUE:#} help: {}", clean(lines.next().unwrap_or_default()));
            for line in lines {
                let _ = writeln!(out, "{pad}         {}", clean(line));
            }
        }
        out
    }
}

impl Place {
    /// The part of the source line that is shown, the columns before the caret, and the columns that it marks.
    fn window(&self) -> (String, usize, usize) {
        let chars: Vec<char> = self.source.chars().map(clean_char).collect();
        let start = self.column.saturating_sub(1).min(chars.len());
        let end = (start + self.width.max(1)).min(chars.len()).max(start);
        let columns = |part: &[char]| part.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
        if columns(&chars) <= SHOWN {
            return (chars.iter().collect(), columns(&chars[..start]), columns(&chars[start..end]).max(1));
        }
        let from = if start > SHOWN / 2 { start - SHOWN / 3 } else { 0 };
        let to = (from + SHOWN).min(chars.len());
        let end = end.min(to);
        let mut shown = String::new();
        let mut before = columns(&chars[from..start]);
        if from > 0 {
            shown.push_str("...");
            before += 3;
        }
        shown.extend(&chars[from..to]);
        if to < chars.len() {
            shown.push_str("...");
        }
        (shown, before, columns(&chars[start..end]).max(1))
    }
}

/// What a terminal must not act on is shown as a replacement character; a tab is one blank, so that carets line up.
fn clean_char(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// `text` without anything that a terminal would act on.
pub fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

/// The lines of `text`, each without anything that a terminal would act on.
pub fn clean_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('\n').map(|line| clean(line.trim_end_matches('\r')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(diagnostic: &Diagnostic) -> String {
        anstream::adapter::strip_str(&diagnostic.render()).to_string()
    }

    fn place(source: &str, column: usize, width: usize) -> Place {
        Place { file: "a.toml".into(), line: 12, column, width, source: source.into() }
    }

    #[test]
    fn points_at_the_word() {
        let text = plain(
            &Diagnostic::new("unknown field `flwos`")
                .at(place("  flwos = 1", 3, 5))
                .help("did you mean `flows`?"),
        );
        assert_eq!(
            text,
            "error: unknown field `flwos`\n  --> a.toml:12:3\n   |\n12 |   flwos = 1\n   |   ^^^^^\n   = help: did you mean `flows`?\n"
        );
    }

    #[test]
    fn a_place_behind_the_end_gets_one_caret() {
        let text = plain(&Diagnostic::new("too short").at(place("ab", 3, 1)));
        assert!(text.contains("12 | ab\n   |   ^\n"), "{text}");
        let text = plain(&Diagnostic::new("too short").at(place("", 9, 9)));
        assert!(text.contains("12 | \n   | ^\n"), "{text}");
    }

    #[test]
    fn wide_characters_and_tabs_keep_the_caret_in_place() {
        let text = plain(&Diagnostic::new("no").at(place("\t日本=x", 5, 1)));
        assert!(text.contains("12 |  日本=x\n   |       ^\n"), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = plain(&Diagnostic::new("bad \x1b[31m name").at(place("\x1b]0;x\x07", 1, 1)));
        assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text:?}");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let source = format!("{}Z{}", "a".repeat(900), "b".repeat(900));
        let text = plain(&Diagnostic::new("no").at(place(&source, 901, 1)));
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[3].find('Z').unwrap();
        assert_eq!(lines[4].find('^'), Some(at));
        assert!(lines[3].len() < 130);
    }
}
