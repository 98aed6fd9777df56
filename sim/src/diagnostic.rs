//! Errors that point into a file: line, column, caret, help. Renders text; printing it is the caller's business.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use unicode_width::UnicodeWidthStr;

/// A text file as the user named it, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The name to print, as the user gave it.
    pub name: String,
    /// The content.
    pub text: String,
    /// Number of the first line: 1, but for a part of something longer.
    pub first_line: usize,
}

/// A place in a file: where line and column count from 1 and columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl SourceFile {
    /// A file called `name` that holds `text`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), first_line: 1 }
    }

    /// Line number `line` of a file called `name`, of which only this line is at hand.
    pub fn line(name: impl Into<String>, line: usize, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), first_line: line }
    }

    /// Line and column of the byte at `offset`; one behind the end for an offset beyond it.
    pub fn position(&self, offset: usize) -> Position {
        let offset = floor_boundary(&self.text, offset);
        let before = &self.text[..offset];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.matches('\n').count() + self.first_line,
            column: before[start..].chars().count() + 1,
        }
    }

    /// The bytes of the line that holds `offset`, without its end.
    pub fn line_at(&self, offset: usize) -> Range<usize> {
        let offset = floor_boundary(&self.text, offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = self.text[offset..].find('\n').map_or(self.text.len(), |newline| offset + newline);
        let end = if self.text[start..end].ends_with('\r') { end - 1 } else { end };
        start..end.max(start)
    }
}

fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// One error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, naming the word that is.
    pub message: String,
    /// The bytes of the file that it is about.
    pub span: Range<usize>,
    /// A few words beside the caret; may be empty.
    pub label: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error about the bytes `span`.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, label: String::new(), help: None }
    }

    /// Adds words beside the caret.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Writes the error the way rustc does, without colours or any other control character.
    pub fn render(&self, file: &SourceFile, out: &mut String) {
        let at = file.position(self.span.start);
        let gutter = at.line.to_string().len();
        let line = file.line_at(self.span.start);
        let start = floor_boundary(&file.text, self.span.start).clamp(line.start, line.end);
        let end = floor_boundary(&file.text, self.span.end).clamp(start, line.end);
        let part = |range: Range<usize>| visible(&file.text[range]);
        let (text, indent, carets) =
            window(&part(line.start..start), &part(start..end), &part(end..line.end));
        // Writing to a String cannot fail.
        let _ = writeln!(out, "error: {}", visible(&self.message));
        let name = visible(&file.name);
        let _ = writeln!(out, "{:gutter$}--> {name}:{}:{}", "", at.line, at.column);
        let _ = writeln!(out, "{:gutter$} |", "");
        let _ = writeln!(out, "{:gutter$} | {text}", at.line);
        let mark = format!("{:indent$}{:^<carets$} {}", "", "", visible(&self.label));
        let _ = writeln!(out, "{:gutter$} | {}", "", mark.trim_end());
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{:gutter$} |", "");
            let _ = writeln!(out, "{:gutter$} = help: {}", "", visible(help));
        }
    }
}

/// Columns of a source line that are shown at most; a longer one (a frame in hexadecimal) is cut around the caret.
const SHOWN: usize = 100;

/// The shown part of a line that consists of `before`, `marked` and `after`; the columns in front of the caret; and how
/// many columns it marks.
fn window(before: &str, marked: &str, after: &str) -> (String, usize, usize) {
    let (indent, carets) = (before.width(), marked.width().max(1));
    if indent + marked.width() + after.width() <= SHOWN {
        return (format!("{before}{marked}{after}"), indent, carets);
    }
    let line: Vec<char> = before.chars().chain(marked.chars()).chain(after.chars()).collect();
    let at = before.chars().count();
    let first = if at > SHOWN / 2 { at - SHOWN / 3 } else { 0 };
    let last = (first + SHOWN).min(line.len());
    let columns = |part: &[char]| part.iter().collect::<String>().width();
    let (left, right) = (if first > 0 { "..." } else { "" }, if last < line.len() { "..." } else { "" });
    let shown: String = line[first..last].iter().collect();
    let end = (at + marked.chars().count()).min(last);
    (format!("{left}{shown}{right}"), left.len() + columns(&line[first..at]), columns(&line[at..end]).max(1))
}

/// `text` with tabs as four spaces and other control characters replaced, so that carets stand right and a file cannot
/// send escape codes to a terminal.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// All errors of one file, in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// The file.
    pub file: Arc<SourceFile>,
    /// The errors; at least one.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// The errors of `file`, sorted by place.
    pub fn new(file: Arc<SourceFile>, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|diagnostic| diagnostic.span.start);
        Self { file, list }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (index, diagnostic) in self.list.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            diagnostic.render(&self.file, &mut text);
        }
        f.write_str(text.trim_end())
    }
}

impl std::error::Error for Diagnostics {}

/// The one of `known` that `word` is most likely a slip of, if it is close enough to any.
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many insertions, deletions, substitutions and swaps of neighbours turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 3 {
        return usize::MAX;
    }
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitute = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitute.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_like_rustc() {
        let file = SourceFile::new("a.toml", "name = \"x\"\n\tdealy = \"10us\"\n");
        let mut out = String::new();
        Diagnostic::new(12..17, "unknown field `dealy`")
            .label("here")
            .help("use `delay`")
            .render(&file, &mut out);
        let want = "error: unknown field `dealy`\n --> a.toml:2:2\n  |\n2 |     dealy = \"10us\"\n  |     ^^^^^ here\n  |\n  = help: use `delay`\n";
        assert_eq!(out, want);
    }

    #[test]
    fn carets_stand_under_wide_characters() {
        let file = SourceFile::new("a", "日本 = x");
        let mut out = String::new();
        Diagnostic::new(9..10, "m").render(&file, &mut out);
        assert!(out.ends_with("1 | 日本 = x\n  |        ^\n"), "{out}");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}ZZ{}", "a".repeat(900), "b".repeat(900));
        for (span, marked) in [(900..902, 2), (0..1802, 100), (1801..1802, 1), (1802..1802, 1)] {
            let file = SourceFile::new("a", text.as_str());
            let mut out = String::new();
            Diagnostic::new(span.clone(), "m").render(&file, &mut out);
            let lines: Vec<&str> = out.lines().collect();
            assert!(lines.iter().all(|line| line.len() < 120), "{out}");
            assert_eq!(lines[4].matches('^').count(), marked, "{out}");
            if span.start == 900 {
                assert_eq!(lines[3].find("ZZ"), lines[4].find("^^"));
            }
        }
    }

    #[test]
    fn odd_spans_and_bytes_do_not_panic() {
        let file = SourceFile::new("a", "é\u{1b}[31m\r\nb");
        for start in 0..12 {
            for end in 0..12 {
                let mut out = String::new();
                Diagnostic::new(start..end, "m").render(&file, &mut out);
                assert!(!out.contains('\u{1b}') && !out.contains('\r'));
            }
        }
        assert_eq!(file.position(99), Position { line: 2, column: 2 });
        assert_eq!(SourceFile::line("a", 7, "xy").position(1), Position { line: 7, column: 2 });
    }

    #[test]
    fn suggestions() {
        assert_eq!(suggest("dealy", ["delay", "rate"]), Some("delay"));
        assert_eq!(suggest("Loss", ["loss", "rate"]), Some("loss"));
        assert_eq!(suggest("quux", ["delay", "rate"]), None);
        assert_eq!(suggest("", ["a"]), Some("a"));
    }
}
