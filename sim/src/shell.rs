//! Command lines, read as a POSIX shell reads them: white space, quotes, backslashes, comments; in a script also
//! continuation lines, `;`, `&&`, `<` and here-documents. Nothing is expanded, and nothing is run here.

use std::ops::Range;

/// A word of a command line, and the bytes of the text that it was made from.
pub type ShellWord = (String, Range<usize>);

/// What cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellError {
    /// What is wrong.
    pub message: String,
    /// Bytes of the text.
    pub span: Range<usize>,
}

/// What a command of a script reads as its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A here-document: these bytes of the script.
    Here(Range<usize>),
    /// A file (`<`).
    File(ShellWord),
}

/// A command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCommand {
    /// Its words; at least one.
    pub words: Vec<ShellWord>,
    /// The bytes that it was made from, without a here-document.
    pub span: Range<usize>,
    /// Its standard input, if it was given one.
    pub input: Option<Input>,
}

/// Splits a command line into words. `;`, `|`, `$` and their like mean nothing here.
///
/// # Errors
/// A quote that is never closed.
pub fn split_words(line: &str) -> Result<Vec<ShellWord>, ShellError> {
    let mut scanner = Scanner { text: line, at: 0, script: false };
    let mut words = Vec::new();
    while let Some(c) = scanner.peek() {
        match c {
            c if c.is_whitespace() => scanner.at += c.len_utf8(),
            '#' => break,
            _ => words.push(scanner.word()?),
        }
    }
    Ok(words)
}

/// Reads a script: its commands, in order.
///
/// # Errors
/// The first thing that only a shell could do (a pipe, a variable), or that no shell could read.
pub fn script(text: &str) -> Result<Vec<ShellCommand>, ShellError> {
    let mut reader = Script {
        scanner: Scanner { text, at: 0, script: true },
        words: Vec::new(),
        input: None,
        here: None,
        commands: Vec::new(),
    };
    reader.read()?;
    Ok(reader.commands)
}

/// A here-document that was announced and has not come yet.
struct Announced {
    delimiter: ShellWord,
    tabs: bool,
    /// Command that it belongs to.
    command: usize,
}

struct Script<'a> {
    scanner: Scanner<'a>,
    words: Vec<ShellWord>,
    input: Option<Input>,
    here: Option<Announced>,
    commands: Vec<ShellCommand>,
}

impl Script<'_> {
    fn read(&mut self) -> Result<(), ShellError> {
        while let Some(c) = self.scanner.peek() {
            let at = self.scanner.at;
            let rest = &self.scanner.text[at..];
            match c {
                '\n' => {
                    self.scanner.at += 1;
                    self.end_of_command(at)?;
                    self.here_document()?;
                }
                c if c.is_whitespace() => self.scanner.at += c.len_utf8(),
                '\\' if continues(rest) => self.scanner.at += 1 + rest.find('\n').unwrap_or(0),
                '#' => self.scanner.at += rest.find('\n').unwrap_or(rest.len()),
                // The prompt of whoever pasted it.
                '$' if self.words.is_empty() && rest[1..].starts_with([' ', '\t']) => self.scanner.at += 1,
                ';' => {
                    self.scanner.at += 1;
                    self.end_of_command(at)?;
                }
                '&' if rest.starts_with("&&") => {
                    self.scanner.at += 2;
                    self.end_of_command(at)?;
                }
                '<' => self.redirection()?,
                '|' | '&' | '>' => {
                    return Err(error(at..at + 1, format!("`{c}` needs a shell: give each command alone")));
                }
                _ => {
                    let word = self.scanner.word()?;
                    self.words.push(word);
                }
            }
        }
        self.end_of_command(self.scanner.at)?;
        self.here_document()
    }

    fn redirection(&mut self) -> Result<(), ShellError> {
        let at = self.scanner.at;
        let rest = &self.scanner.text[at..];
        let twice = self.input.is_some() || self.here.is_some();
        if rest.starts_with("<<<") || twice {
            return Err(error(at..at + 1, "only one here-document or file as standard input is understood"));
        }
        let here = rest.starts_with("<<");
        let tabs = rest.starts_with("<<-");
        self.scanner.at += if tabs {
            3
        } else if here {
            2
        } else {
            1
        };
        while self.scanner.peek().is_some_and(|c| c == ' ' || c == '\t') {
            self.scanner.at += 1;
        }
        if self.scanner.peek().is_none_or(|c| c.is_whitespace() || "|&;<>".contains(c)) {
            return Err(error(at..self.scanner.at, "`<` wants a file, `<<` a word that ends the text"));
        }
        let word = self.scanner.word()?;
        if here {
            self.here = Some(Announced { delimiter: word, tabs, command: self.commands.len() });
        } else {
            self.input = Some(Input::File(word));
        }
        Ok(())
    }

    /// The command that stands in front of byte `end`.
    fn end_of_command(&mut self, end: usize) -> Result<(), ShellError> {
        let words = std::mem::take(&mut self.words);
        let input = self.input.take();
        match (words.first(), &self.here) {
            (Some((_, first)), _) => {
                let start = first.start;
                let end = start + self.scanner.text[start..end].trim_end().len();
                self.commands.push(ShellCommand { words, span: start..end, input });
                Ok(())
            }
            (None, Some(here)) if here.command == self.commands.len() => {
                Err(error(here.delimiter.1.clone(), "there is no command to read this text"))
            }
            (None, _) => match input {
                Some(Input::File((_, span)) | Input::Here(span)) => {
                    Err(error(span, "there is no command to read this file"))
                }
                None => Ok(()),
            },
        }
    }

    /// Takes the text of a here-document that the line just read announced.
    fn here_document(&mut self) -> Result<(), ShellError> {
        let Some(Announced { delimiter, tabs, command }) = self.here.take() else { return Ok(()) };
        let start = self.scanner.at;
        let mut at = start;
        for line in self.scanner.text[start..].split_inclusive('\n') {
            let bare = line.trim_end_matches(['\n', '\r']);
            let bare = if tabs { bare.trim_start_matches('\t') } else { bare };
            let end = at + line.len();
            if bare == delimiter.0 {
                self.scanner.at = end;
                if let Some(command) = self.commands.get_mut(command) {
                    command.input = Some(Input::Here(start..at));
                }
                return Ok(());
            }
            at = end;
        }
        Err(error(delimiter.1, format!("no line `{}` ends this text", delimiter.0)))
    }
}

fn error(span: Range<usize>, message: impl Into<String>) -> ShellError {
    ShellError { message: message.into(), span }
}

/// Whether a backslash here is a line's last character.
fn continues(rest: &str) -> bool {
    rest.starts_with("\\\n") || rest.starts_with("\\\r\n")
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Whether what a shell would act on ends words, or is refused.
    script: bool,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// The word that starts here.
    fn word(&mut self) -> Result<ShellWord, ShellError> {
        let start = self.at;
        let mut word = String::new();
        while let Some(c) = self.peek() {
            if c.is_whitespace() || self.script && "|&;<>".contains(c) {
                break;
            }
            self.refuse_expansion()?;
            let at = self.at;
            self.at += c.len_utf8();
            match c {
                '\'' => self.single_quoted(at, &mut word)?,
                '"' => self.double_quoted(at, &mut word)?,
                '\\' if continues(&self.text[at..]) => self.skip_line_end(),
                '\\' => word.extend(self.next()),
                c => word.push(c),
            }
        }
        Ok((word, start..self.at))
    }

    fn single_quoted(&mut self, from: usize, word: &mut String) -> Result<(), ShellError> {
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
                None => return Err(error(from..from + 1, "a ' is never closed")),
            }
        }
    }

    fn double_quoted(&mut self, from: usize, word: &mut String) -> Result<(), ShellError> {
        let unclosed = || error(from..from + 1, "a \" is never closed");
        loop {
            self.refuse_expansion()?;
            let at = self.at;
            match self.next().ok_or_else(unclosed)? {
                '"' => return Ok(()),
                '\\' if continues(&self.text[at..]) => self.skip_line_end(),
                '\\' => match self.next().ok_or_else(unclosed)? {
                    c @ ('"' | '\\' | '$' | '`') => word.push(c),
                    c => word.extend(['\\', c]),
                },
                c => word.push(c),
            }
        }
    }

    fn skip_line_end(&mut self) {
        self.at += self.text[self.at..].find('\n').map_or(0, |end| end + 1);
    }

    /// Variables and commands within words are a shell's; a script that has some would mean something else here.
    fn refuse_expansion(&self) -> Result<(), ShellError> {
        let mut chars = self.text[self.at..].chars();
        let first = chars.next();
        let variable = first == Some('$')
            && chars.next().is_some_and(|c| c.is_ascii_alphanumeric() || "_({*@#?!$-".contains(c));
        if self.script && (variable || first == Some('`')) {
            let message = "a variable or command within a word needs a shell: write what it stands for";
            return Err(error(self.at..self.at + 1, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        split_words(line).unwrap().into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn words_of_a_shell() {
        assert_eq!(
            split("ovs-ofctl add-flow br0 'in_port=1, actions=2'  # why"),
            ["ovs-ofctl", "add-flow", "br0", "in_port=1, actions=2"]
        );
        assert_eq!(split(r#"a"b c"'d'\ e "\"\x" '' "#), ["ab cd e", r#""\x"#, ""]);
        assert_eq!(split("a;b $x `y` <z"), ["a;b", "$x", "`y`", "<z"]);
        assert_eq!(split_words(" a 'b c' ").unwrap(), [("a".to_owned(), 1..2), ("b c".to_owned(), 3..8)]);
        assert!(split_words("a 'b").is_err() && split_words("\"").is_err());
    }

    #[test]
    fn a_script_as_it_was_pasted() {
        let text = "#!/bin/sh\n$ ovs-vsctl add-br br0 \\\n   -- set Bridge br0 fail_mode=secure; ovs-vsctl show && a \
                    # why\novs-ofctl add-flows br0 - <<'EOF' # rules\nin_port=1,actions=2\nEOF\nx - < f.txt\n";
        let commands = script(text).unwrap();
        let words: Vec<Vec<&str>> =
            commands.iter().map(|c| c.words.iter().map(|(word, _)| word.as_str()).collect()).collect();
        assert_eq!(
            words,
            [
                vec!["ovs-vsctl", "add-br", "br0", "--", "set", "Bridge", "br0", "fail_mode=secure"],
                vec!["ovs-vsctl", "show"],
                vec!["a"],
                vec!["ovs-ofctl", "add-flows", "br0", "-"],
                vec!["x", "-"],
            ]
        );
        let Some(Input::Here(body)) = commands[3].input.clone() else { panic!("{:?}", commands[3]) };
        assert_eq!(&text[body], "in_port=1,actions=2\n");
        assert!(matches!(&commands[4].input, Some(Input::File((name, _))) if name == "f.txt"));
        assert_eq!(&text[commands[2].span.clone()], "a # why");
    }

    #[test]
    fn what_only_a_shell_could_do_is_refused_where_it_stands() {
        for (text, at) in [
            ("a | b", 2),
            ("a\nb > c", 4),
            ("a & b", 2),
            ("a $x", 2),
            ("a \"$(b)\"", 3),
            ("a `b`", 2),
            ("a <<X\nb\n", 4),
            ("a <", 2),
            ("< f", 2),
            ("<<X\nX\n", 2),
            ("a 'b", 2),
            ("a <f <g", 5),
        ] {
            assert_eq!(script(text).unwrap_err().span.start, at, "{text:?}");
        }
        assert_eq!(script("a '$x' b$ \\$c\n").unwrap()[0].words.len(), 4);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ab '\"\\\\\n\r\t<>|&;$#`é-]{0,40}") {
            let within = |span: &Range<usize>| span.start <= span.end && span.end <= text.len();
            match script(&text) {
                Ok(commands) => for command in commands {
                    assert!(within(&command.span) && !command.words.is_empty());
                },
                Err(error) => assert!(within(&error.span)),
            }
            let _ = split_words(&text);
        }
    }
}
