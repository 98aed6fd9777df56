//! Complaints about input: what is wrong, where, and what would be right. `sim` renders those that point into a file.

use anstyle::{AnsiColor, Style};
use sim::diagnostic::Diagnostics;

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// One complaint, or all that there are about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// About nothing that could be pointed at.
    Plain {
        /// What is wrong, in one line.
        message: String,
        /// What would be right.
        help: Option<String>,
    },
    /// About places in a file.
    InFile(Diagnostics),
}

impl Complaint {
    /// A complaint without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Plain { message: message.into(), help: None }
    }

    /// The same with advice; one about a file has its own.
    #[must_use]
    pub fn help(self, advice: impl Into<String>) -> Self {
        match self {
            Self::Plain { message, .. } => Self::Plain { message, help: Some(advice.into()) },
            Self::InFile(_) => self,
        }
    }

    /// The complaint as text with styles, which the stream removes where they do not suit it. Ends with a line end.
    pub fn render(&self) -> String {
        let plain = match self {
            Self::Plain { message, help } => {
                let help =
                    help.as_ref().map_or_else(String::new, |help| format!("\n  = help: {}", clean(help)));
                format!("error: {}{help}", clean(message))
            }
            Self::InFile(diagnostics) => diagnostics.to_string(),
        };
        let lines = plain.lines().map(|line| match line.strip_prefix("error:") {
            Some(rest) => format!("{ERROR}error:{ERROR:#}{rest}\n"),
            None => format!("{line}\n"),
        });
        lines.collect()
    }
}

impl From<Diagnostics> for Complaint {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::InFile(diagnostics)
    }
}

/// What a terminal must not act on is shown as a replacement character; a tab is one blank.
fn clean_char(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// `text` without anything that a terminal would act on, in one line.
pub fn clean(text: &str) -> String {
    text.chars().map(clean_char).collect()
}

/// The lines of `text`, each without anything that a terminal would act on.
pub fn clean_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('\n').map(|line| clean(line.trim_end_matches('\r')))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sim::diagnostic::{Diagnostic, SourceFile};

    use super::*;

    fn plain(complaint: &Complaint) -> String {
        anstream::adapter::strip_str(&complaint.render()).to_string()
    }

    #[test]
    fn plain_complaints() {
        assert_eq!(plain(&Complaint::new("no").help("yes")), "error: no\n  = help: yes\n");
        let text = plain(&Complaint::new("bad \x1b[31m name\n"));
        assert!(!text.contains('\x1b') && text.lines().count() == 1, "{text:?}");
    }

    #[test]
    fn complaints_about_a_file_point_into_it() {
        let file = Arc::new(SourceFile::new("a.toml", "x = 1\ny = 2\n"));
        let list =
            vec![Diagnostic::new(6..7, "unknown field `y`"), Diagnostic::new(0..1, "unknown field `x`")];
        let complaint = Complaint::from(Diagnostics::new(file, list));
        let text = plain(&complaint);
        assert!(text.contains(" --> a.toml:1:1\n") && text.contains(" --> a.toml:2:1\n"), "{text}");
        assert!(complaint.render().starts_with("\x1b["), "coloured for a stream that can show it");
    }
}
