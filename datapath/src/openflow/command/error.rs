//! Why a command was not understood.

use thiserror::Error;

use crate::openflow::text;

/// A command that is not understood, or asks for what is not supported: nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{program}: {kind}")]
pub struct ParseError {
    /// Program as it was called.
    pub program: String,
    /// Which word of the command is refused, the program being word 0; one behind the last if a word is missing.
    pub arg: usize,
    /// Byte in that word at which the refused part starts.
    pub offset: usize,
    /// What is wrong.
    #[source]
    pub kind: ParseErrorKind,
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// Not one of the programs.
    #[error("unknown program: use ovs-vsctl, ovs-ofctl, ovs-appctl or ovs-dpctl")]
    UnknownProgram,
    /// Not a command of the program.
    #[error("unknown command '{0}'")]
    UnknownCommand(String),
    /// No command at all.
    #[error("missing command name")]
    NoCommand,
    /// Not an option of the program or command.
    #[error("unrecognized option '{0}'")]
    UnknownOption(String),
    /// An option without its argument.
    #[error("option '{0}' requires an argument")]
    OptionArgument(String),
    /// An option that takes none.
    #[error("option '{0}' doesn't allow an argument")]
    NoOptionArgument(String),
    /// Too few words.
    #[error("'{command}' command requires {what}")]
    Missing {
        /// Command.
        command: String,
        /// What is missing.
        what: &'static str,
    },
    /// A word too much.
    #[error("'{command}' command takes no argument '{word}'")]
    Extra {
        /// Command.
        command: String,
        /// Word.
        word: String,
    },
    /// Open vSwitch has it, this switch does not.
    #[error("{0} is not supported here")]
    Unsupported(String),
    /// Not what it was to be.
    #[error("\"{word}\" is not {what}")]
    Invalid {
        /// Word.
        word: String,
        /// What it was to be.
        what: &'static str,
    },
    /// Not one of several words.
    #[error("\"{word}\" is not one of the allowed values ({allowed})")]
    NotOneOf {
        /// Word.
        word: String,
        /// Those allowed.
        allowed: String,
    },
    /// A number out of its range.
    #[error("constraint violation: {value} is not in the valid range {low} to {high} (inclusive)")]
    Range {
        /// Number.
        value: i64,
        /// Least.
        low: i64,
        /// Largest.
        high: i64,
    },
    /// Not a table of the database.
    #[error("unknown table \"{0}\"")]
    UnknownTable(String),
    /// Not a column of the table.
    #[error("{table} does not contain a column whose name matches \"{column}\"")]
    UnknownColumn {
        /// Table.
        table: &'static str,
        /// Column.
        column: String,
    },
    /// Not a key that this switch knows.
    #[error("{table} column {column} has no key \"{key}\" that is known here")]
    UnknownKey {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
        /// Key.
        key: String,
    },
    /// A column that the switch itself fills in.
    #[error("cannot modify read-only column {column} in table {table}")]
    ReadOnly {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
    },
    /// A key where there are none, or none where there must be one.
    #[error("{0}")]
    Usage(String),
    /// Not an OpenFlow version.
    #[error("Unknown OpenFlow version: \"{0}\"")]
    UnknownVersion(String),
    /// A rule, match or group that is not understood.
    #[error(transparent)]
    Text(#[from] Box<text::TextError>),
    /// A datapath flow or action that is not understood.
    #[error(transparent)]
    FlowText(#[from] Box<crate::flow::text::TextError>),
}
