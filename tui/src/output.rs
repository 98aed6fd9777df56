//! Standard output and standard error, as every command uses them.
//!
//! Escape codes go to a terminal only, and not with `NO_COLOR` (the stream decides). A reader that went away ends the
//! output quietly: what is still to be computed for the exit code is computed, and the rest is not written.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::diagnostic::Complaint;
use crate::exit::Failure;

/// Standard output, buffered.
pub struct Output {
    stream: BufWriter<anstream::Stdout>,
    closed: bool,
}

impl Output {
    /// Standard output of this process.
    pub fn stdout() -> Self {
        Self { stream: BufWriter::with_capacity(64 << 10, anstream::stdout()), closed: false }
    }

    /// Whether the reader went away, so that only the exit code is still of interest.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes `text`.
    ///
    /// # Errors
    /// [`Failure::Write`], except where the reader went away.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.write_all(text.as_bytes()).map_err(failed)
    }

    /// Writes `text` and a line end.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.text(text)?;
        self.text("\n")
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn show(&mut self) -> Result<(), Failure> {
        self.flush().map_err(failed)
    }

    fn quietly(
        &mut self,
        write: impl FnOnce(&mut BufWriter<anstream::Stdout>) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.stream) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            result => result,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.quietly(|stream| stream.write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.quietly(BufWriter::flush)
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::Write { what: "standard output".into(), error }
}

/// Writes to standard error. If that is gone, there is nobody left to tell.
pub fn to_stderr(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Writes all complaints to standard error, in order, with a blank line between two.
pub fn complain(complaints: &[Complaint]) {
    let text: Vec<String> = complaints.iter().map(Complaint::render).collect();
    to_stderr(&text.join("\n"));
}

/// Whether a person can use the terminal user interface here.
pub fn is_interactive() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Whether a person watches standard error, so that a progress bar is of use.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
