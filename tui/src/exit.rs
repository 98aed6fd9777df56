//! How the program ends.

use std::process::ExitCode;

use crate::diagnostic::Complaint;

/// The outcome of a command, as its exit code tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: all is well.
    Pass,
    /// 1: our bug.
    Bug,
    /// 2: a file, an option or an argument is wrong.
    BadInput,
    /// 3: an expectation of a scenario failed.
    Expectation,
    /// 4: a golden capture differs.
    Golden,
    /// 130: ended early by Ctrl-C or a termination signal, as shells report it; the report so far was written.
    Interrupted,
}

impl Exit {
    /// The number given to the shell.
    pub const fn code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Bug => 1,
            Self::BadInput => 2,
            Self::Expectation => 3,
            Self::Golden => 4,
            Self::Interrupted => 130,
        }
    }

    /// The graver of two outcomes: a bug, then bad input, then an interruption, then a failed expectation, then a
    /// golden capture.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self.gravity() >= other.gravity() { self } else { other }
    }

    const fn gravity(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Golden => 1,
            Self::Expectation => 2,
            Self::Interrupted => 3,
            Self::BadInput => 4,
            Self::Bug => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Input is wrong: everything that is wrong with it.
    #[error("bad input")]
    Input(Vec<Complaint>),
    /// Writing to standard output or to a file failed.
    #[error("cannot write {what}: {error}")]
    Write {
        /// What was written to.
        what: String,
        /// The system's reason.
        #[source]
        error: std::io::Error,
    },
    /// Something that cannot happen did.
    #[error("internal error: {0}")]
    Bug(String),
}

impl Failure {
    /// One complaint without a place.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(vec![Complaint::new(message)])
    }

    /// The exit code's meaning.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Input(_) | Self::Write { .. } => Exit::BadInput,
            Self::Bug(_) => Exit::Bug,
        }
    }
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Self::Input(vec![complaint])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graver_outcome_wins() {
        assert_eq!(Exit::Pass.and(Exit::Golden), Exit::Golden);
        assert_eq!(Exit::Golden.and(Exit::Expectation), Exit::Expectation);
        assert_eq!(Exit::Expectation.and(Exit::Interrupted), Exit::Interrupted);
        assert_eq!(Exit::BadInput.and(Exit::Expectation), Exit::BadInput);
        assert_eq!(Exit::Bug.and(Exit::BadInput), Exit::Bug);
    }

    #[test]
    fn codes_are_those_documented() {
        let codes = [Exit::Pass, Exit::Bug, Exit::BadInput, Exit::Expectation, Exit::Golden].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 3, 4]);
    }
}
