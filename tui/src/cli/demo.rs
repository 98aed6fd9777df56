//! `recirc` without a command: the demo scenario, which is part of the program, so that it runs from any folder.

use std::path::Path;
use std::sync::Arc;

use sim::files::MemoryFiles;

use super::args::{Format, ReportArgs};
use super::load::{self, SharedFiles};
use super::run::scenarios_to_reports;
use super::tui;
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};

/// The scenario.
const DEMO: &str = include_str!("../../../topologies/demo.toml");
/// Its name in reports.
const NAME: &str = "topologies/demo.toml";

/// Runs the command.
pub fn run(out: &mut Output) -> Result<Exit, Failure> {
    let memory = MemoryFiles::default();
    memory.insert(NAME, DEMO.as_bytes());
    let files: SharedFiles = Arc::new(memory);
    let scenario = load::one(Path::new(NAME), &files)?;
    if output::is_interactive() {
        return tui::show(&scenario, &files, None);
    }
    let args = ReportArgs { out: None, format: Format::Text, trace: false };
    scenarios_to_reports(&[scenario], &files, None, &args, out)
}
