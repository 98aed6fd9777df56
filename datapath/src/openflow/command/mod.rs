//! The command languages of Open vSwitch: ovs-vsctl, ovs-ofctl, ovs-appctl, ovs-dpctl.
//!
//! Owns reading commands into types; what is not understood, or not supported, is an error that names the word: nothing is
//! skipped. Never carries anything out: that is [`crate::switch`]'s. Splitting lines into words is the caller's.

pub mod appctl;
mod args;
pub mod datum;
mod error;
pub mod ofctl;
pub mod schema;
#[cfg(test)]
mod tests;
mod trace;
pub mod vsctl;
pub mod zone;

pub use appctl::Appctl;
pub use args::Word;
pub use error::{ParseError, ParseErrorKind};
pub use ofctl::Ofctl;
pub(crate) use trace::hex;
pub use trace::{TraceCall, TracePayload};
pub use vsctl::Vsctl;

/// A command of one of the programs.
#[derive(Clone, Debug)]
pub enum Command {
    /// ovs-vsctl.
    Vsctl(Vsctl),
    /// ovs-ofctl.
    Ofctl(Ofctl),
    /// ovs-appctl or ovs-dpctl.
    Appctl(Appctl),
}

/// Reads a command, given as its words.
///
/// # Errors
/// Names the first word that is not understood.
pub fn parse(argv: &[&str]) -> Result<Command, ParseError> {
    let program = argv.first().copied().unwrap_or("");
    match program.rsplit('/').next().unwrap_or("") {
        "ovs-vsctl" => vsctl::parse(argv).map(Command::Vsctl),
        "ovs-ofctl" => ofctl::parse(argv).map(Command::Ofctl),
        "ovs-appctl" => appctl::parse_appctl(argv).map(Command::Appctl),
        "ovs-dpctl" => appctl::parse_dpctl(argv).map(Command::Appctl),
        _ => Err(ParseError {
            program: program.to_owned(),
            arg: 0,
            offset: 0,
            kind: ParseErrorKind::UnknownProgram,
        }),
    }
}
