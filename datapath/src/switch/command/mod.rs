//! Carrying out the commands of Open vSwitch on a switch.
//!
//! Reading them is [`crate::openflow::command`]'s. A command is carried out whole or not at all; what this switch does not
//! have is an error that names it.

mod appctl;
mod appctl_dp;
mod appctl_fdb;
mod appctl_mdb;
mod appctl_show;
mod conntrack;
mod mirror;
mod ofctl;
mod ofctl_compare;
mod ofctl_file;
mod ofctl_meter;
mod ofctl_packet;
mod ofctl_parse;
mod ofctl_port;
mod ofctl_table;
#[cfg(test)]
mod ofctl_tests;
mod ofctl_tlv;
mod settings;
#[cfg(test)]
mod tests;
mod trace;
#[cfg(test)]
mod trace_tests;
mod tunnel;
mod vsctl;
mod vsctl_change;
mod zones;

use thiserror::Error;

use super::Switch;
use crate::flow;
use crate::openflow::command::{Command, ParseError, ParseErrorKind, Word, parse};
use crate::openflow::text;
use crate::types::Time;

/// Why a command did nothing.
#[derive(Debug, Error)]
pub enum CommandError {
    /// It is not understood, or asks for what is not supported.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A line of a file that it reads is not understood.
    #[error("{file}:{line}: {message}")]
    File {
        /// Word of the command that names the file.
        arg: usize,
        /// The file, as the command names it.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Byte of the line at which the refused part starts.
        offset: usize,
        /// What is wrong.
        message: String,
    },
    /// It is understood and cannot be carried out.
    #[error("{0}")]
    Refused(String),
}

/// What gives a command the text of a file that it names; `-` is its standard input. An error is the reason in words.
pub type FileReader<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// A refusal of a rule, group or match, at its word of the command.
fn bad_text(word: &Word, error: text::TextError) -> CommandError {
    bad_text_of("ovs-ofctl", word, error)
}

/// The same in a command of another program.
fn bad_text_of(program: &str, word: &Word, error: text::TextError) -> CommandError {
    let (offset, kind) = (error.offset, ParseErrorKind::Text(Box::new(error)));
    ParseError { offset, ..word.refuse(program, kind) }.into()
}

/// A refusal of a datapath flow or of datapath actions, at its word of the command.
fn bad_flow_text(word: &Word, error: flow::text::TextError) -> CommandError {
    let (offset, kind) = (error.offset, ParseErrorKind::FlowText(Box::new(error)));
    ParseError { offset, ..word.refuse("ovs-appctl", kind) }.into()
}

/// A refusal with any error's text.
fn refused(error: impl std::fmt::Display) -> CommandError {
    CommandError::Refused(error.to_string())
}

impl Switch {
    /// Carries out a command, given as its words: of `ovs-vsctl`, `ovs-ofctl`, `ovs-appctl` or `ovs-dpctl`. Returns what it
    /// prints. What it makes the datapath send waits for [`Switch::drain_tx`].
    ///
    /// # Errors
    /// [`CommandError`]; nothing is changed then.
    pub fn command(&mut self, now: Time, argv: &[&str]) -> Result<String, CommandError> {
        self.command_with(now, argv, &mut |_| Err("files are not read here".to_owned()))
    }

    /// The same for a command that may name files, which `files` reads: the switch opens none.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub fn command_with(
        &mut self,
        now: Time,
        argv: &[&str],
        files: &mut FileReader<'_>,
    ) -> Result<String, CommandError> {
        let text = match parse(argv)? {
            Command::Vsctl(call) => {
                // All of a chain, or nothing.
                let mut next = self.clone();
                let text = next.vsctl(&call, now)?;
                if !call.dry_run {
                    *self = next;
                }
                text
            }
            Command::Ofctl(call) => self.ofctl(&call, files, now)?,
            Command::Appctl(call) => self.appctl(&call, now)?,
        };
        // Datapath flows follow in time, even if no packet comes.
        self.note_changes(now);
        Ok(text)
    }
}
