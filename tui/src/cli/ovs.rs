//! `recirc run --ovs`: a plain file of commands, as pasted from a bug report, on one empty switch.
//!
//! Virtual time stands still but for `sleep` and `ovs-appctl time/warp`. After what a command printed come the frames that
//! it made leave, one a line.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datapath::trace::Off;
use datapath::types::{Span, Time};
use sim::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use sim::node::switch::{CommandFailure, SwitchNode};
use sim::shell::{self, Input, ShellCommand, ShellWord};

use crate::diagnostic::{Complaint, clean_lines};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;

/// Housekeeping comes at most this often.
const MIN_WAKE: Span = Span::from_millis(1);
/// The longest that a file may sleep at once, in seconds: a day.
const MAX_SLEEP: f64 = 86_400.0;

/// Runs the command.
pub fn run(path: &Path, seed: u64, out: &mut Output) -> Result<Exit, Failure> {
    let (name, text) = read(path)?;
    let source = Arc::new(SourceFile::new(name, text));
    let commands = shell::script(&source.text)
        .map_err(|error| complaint(&source, Diagnostic::new(error.span, error.message)))?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut runner = Runner { source, folder, node: SwitchNode::new(seed), now: Time::ZERO };
    for command in &commands {
        if interrupt::requested() {
            return Ok(Exit::Interrupted);
        }
        runner.echo(command, out)?;
        // What was printed before comes first, whatever becomes of this one.
        out.show()?;
        let text = runner.command(command)?;
        runner.print(&text, out)?;
    }
    Ok(Exit::Pass)
}

fn read(path: &Path) -> Result<(String, String), Failure> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        ("standard input".to_owned(), io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes))
    } else {
        (path.display().to_string(), fs::read(path))
    };
    let bytes = bytes.map_err(|error| Failure::input(format!("cannot read {name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        Failure::input(format!("{name}: not UTF-8 text at byte {}", error.utf8_error().valid_up_to()))
    })?;
    Ok((name, text))
}

fn complaint(source: &Arc<SourceFile>, diagnostic: Diagnostic) -> Failure {
    Complaint::from(Diagnostics::new(Arc::clone(source), vec![diagnostic])).into()
}

struct Runner {
    source: Arc<SourceFile>,
    /// Files that commands name are looked for here.
    folder: PathBuf,
    node: SwitchNode,
    now: Time,
}

impl Runner {
    fn echo(&self, command: &ShellCommand, out: &mut Output) -> Result<(), Failure> {
        let text = self.source.text.get(command.span.clone()).unwrap_or_default();
        for (index, line) in clean_lines(text).enumerate() {
            out.line(&format!("{} {line}", if index == 0 { "$" } else { ">" }))?;
        }
        Ok(())
    }

    fn print(&mut self, text: &str, out: &mut Output) -> Result<(), Failure> {
        for line in clean_lines(text.strip_suffix('\n').unwrap_or(text)) {
            if !text.is_empty() {
                out.line(&line)?;
            }
        }
        let mut sent = Vec::new();
        self.node.drain_tx(&mut Off, &mut sent);
        let ports = self.node.ports();
        for (no, packet) in sent {
            let name = ports.iter().find(|port| port.no == no).map_or("?", |port| port.name.as_str());
            let hex: String = packet.data().iter().map(|byte| format!("{byte:02x}")).collect();
            out.line(&format!("# leaves {name}: {hex}"))?;
            self.node.recycle(packet);
        }
        Ok(())
    }

    fn command(&mut self, command: &ShellCommand) -> Result<String, Failure> {
        let words = match command.words.as_slice() {
            [(sudo, _), rest @ ..] if sudo == "sudo" => rest,
            words => words,
        };
        let argv: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        match argv.as_slice() {
            ["sleep", ..] => {
                let seconds = words.get(1).filter(|_| words.len() == 2);
                let length = seconds.and_then(|(word, _)| word.parse::<f64>().ok());
                let length = length.filter(|length| (0.0..=MAX_SLEEP).contains(length));
                let wrong = "sleep wants seconds, up to a day";
                let length = length.ok_or_else(|| self.error(command.span.clone(), wrong))?;
                self.sleep(Span((length * 1e9) as u64));
                Ok(String::new())
            }
            ["ovs-appctl", "time/warp", time] | ["ovs-appctl", "time/warp", time, _] => {
                let wrong = "time/warp wants milliseconds, up to a day";
                let ms = time.parse::<u32>().ok().filter(|&ms| f64::from(ms) <= MAX_SLEEP * 1e3);
                let ms = ms.ok_or_else(|| self.error(words[2].1.clone(), wrong))?;
                self.sleep(Span::from_millis(ms.into()));
                Ok("warped\n".to_owned())
            }
            _ => self.switch_command(command, words, &argv),
        }
    }

    fn switch_command(
        &mut self,
        command: &ShellCommand,
        words: &[ShellWord],
        argv: &[&str],
    ) -> Result<String, Failure> {
        let (source, folder) = (Arc::clone(&self.source), self.folder.clone());
        let mut files = |name: &str| match (name, &command.input) {
            ("-", Some(Input::Here(span))) => Ok(source.text[span.clone()].to_owned()),
            ("-", Some(Input::File((name, _)))) => read_beside(&folder, name),
            ("-", None) => Err("there is no standard input: give it with << or <".to_owned()),
            (name, _) => read_beside(&folder, name),
        };
        let result = self.node.command_with(self.now, argv, &mut files);
        if self.node.next_wakeup().is_some_and(|due| due <= self.now) {
            self.node.run(self.now, &mut Off);
        }
        match result {
            Ok(text) => Ok(text),
            // As on a terminal: it is printed, and the next command runs.
            Err(failure) if failure.understood => Ok(failure.message),
            Err(failure) => {
                let span = self.place(command, words, &failure);
                Err(self.error(span, failure.message))
            }
        }
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> Failure {
        complaint(&self.source, Diagnostic::new(span, message))
    }

    /// The bytes that a failure is about: of a here-document's line, of a word, or of the command.
    fn place(&self, command: &ShellCommand, words: &[ShellWord], failure: &CommandFailure) -> Range<usize> {
        if let (Some((line, offset)), Some(Input::Here(here))) = (failure.line, &command.input) {
            let body = &self.source.text[here.clone()];
            let before: usize = body.split_inclusive('\n').take(line - 1).map(str::len).sum();
            let line = self.source.line_at(here.start + before);
            let start = (line.start + offset).min(line.end);
            return start..line.end.max(start);
        }
        let Some((arg, offset)) = failure.word else { return command.span.clone() };
        match words.get(arg) {
            // A word in quotes begins one byte later; what is escaped inside would move it further.
            Some((word, span)) => {
                let first = span.start + usize::from(span.len() > word.len());
                let from = (first + offset).min(span.end.saturating_sub(1));
                from..(first + word.len()).clamp(from, span.end)
            }
            None => command.span.end..command.span.end,
        }
    }

    /// Lets time pass, with the housekeeping that is due.
    fn sleep(&mut self, length: Span) {
        let end = self.now + length;
        while let Some(due) = self.node.next_wakeup() {
            let at = due.max(self.now + MIN_WAKE);
            if at > end {
                break;
            }
            self.now = at;
            self.node.run(at, &mut Off);
        }
        self.now = end;
    }
}

fn read_beside(folder: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
}
