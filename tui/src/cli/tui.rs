//! `recirc tui`: a scenario in the terminal user interface.

use std::sync::Arc;

use sim::scenario::Scenario;

use super::args::TuiArgs;
use super::load::{self, SharedFiles};
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::ui::{self, WorldEngine};

/// Runs the command.
pub fn run(args: &TuiArgs) -> Result<Exit, Failure> {
    let files = load::disk();
    let scenario = load::one(&args.file, &files)?;
    if !output::is_interactive() {
        let message = "the terminal user interface needs a terminal on standard input and output";
        let help = format!("recirc run {} prints a report", args.file.display());
        return Err(Complaint::new(message).help(help).into());
    }
    show(&scenario, &files, args.seed)
}

/// Shows a scenario until the user leaves.
pub fn show(scenario: &Arc<Scenario>, files: &SharedFiles, seed: Option<u64>) -> Result<Exit, Failure> {
    let world = load::world(scenario, files, seed)?;
    ui::terminal::run(Box::new(WorldEngine::new(world)))
        .map_err(|error| Failure::Write { what: "the terminal".to_owned(), error })?;
    Ok(Exit::Pass)
}
