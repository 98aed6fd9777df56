//! Scenarios from the command line: all read before any is run, so that what is wrong is all told and nothing half done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::files::{DiskFiles, Files};
use sim::runner::{self, RunError};
use sim::scenario::Scenario;
use sim::world::{World, WorldError};

use crate::diagnostic::Complaint;
use crate::exit::Failure;

/// Where files are, as the simulated world asks for them.
pub type SharedFiles = Arc<dyn Files + Send + Sync>;

/// The files of this machine.
pub fn disk() -> SharedFiles {
    Arc::new(DiskFiles)
}

/// Reads all scenarios, and makes each one's world once to see that it can be made; golden captures need not be there if
/// they are to be blessed.
///
/// # Errors
/// Everything that is wrong with any of them.
pub fn all(paths: &[PathBuf], files: &SharedFiles, bless: bool) -> Result<Vec<Arc<Scenario>>, Failure> {
    let mut scenarios = Vec::new();
    let mut complaints = Vec::new();
    for path in paths {
        match checked(path, files, bless) {
            Ok(scenario) => scenarios.push(scenario),
            Err(Failure::Input(list)) => complaints.extend(list),
            Err(failure) => return Err(failure),
        }
    }
    if complaints.is_empty() { Ok(scenarios) } else { Err(Failure::Input(complaints)) }
}

/// Reads one scenario, and makes its world once.
///
/// # Errors
/// Everything that is wrong with it.
pub fn one(path: &Path, files: &SharedFiles) -> Result<Arc<Scenario>, Failure> {
    checked(path, files, false)
}

/// Reads one scenario, and makes no world of it.
///
/// # Errors
/// Everything that is wrong with its text.
pub fn unchecked(path: &Path, files: &SharedFiles) -> Result<Arc<Scenario>, Failure> {
    match runner::load(path, &**files) {
        Ok(scenario) => Ok(scenario),
        // Without a text there is nothing to point into.
        Err(diagnostics) if diagnostics.file.text.is_empty() => {
            let messages = diagnostics.list.iter().map(|one| Complaint::new(one.message.clone()));
            Err(Failure::Input(messages.collect()))
        }
        Err(diagnostics) => Err(Complaint::from(*diagnostics).into()),
    }
}

fn checked(path: &Path, files: &SharedFiles, bless: bool) -> Result<Arc<Scenario>, Failure> {
    let scenario = unchecked(path, files)?;
    World::new(Arc::clone(&scenario), Arc::clone(files), None, bless).map_err(world_failure)?;
    Ok(scenario)
}

/// Makes a scenario's world.
///
/// # Errors
/// What the world refuses.
pub fn world(scenario: &Arc<Scenario>, files: &SharedFiles, seed: Option<u64>) -> Result<World, Failure> {
    World::new(Arc::clone(scenario), Arc::clone(files), seed, false).map_err(world_failure)
}

/// What is wrong with a world, as a failure of the command.
pub fn world_failure(error: WorldError) -> Failure {
    match error {
        WorldError::Scenario(diagnostics) => Complaint::from(*diagnostics).into(),
        WorldError::Unaccounted(what) => Failure::Bug(format!("packets are not accounted for: {what}")),
    }
}

/// Why there is no report, as a failure of the command.
pub fn run_failure(error: RunError) -> Failure {
    match error {
        RunError::Scenario(diagnostics) => Complaint::from(*diagnostics).into(),
        RunError::World(error) => world_failure(error),
        RunError::Write { path, source } => {
            Failure::Write { what: path.display().to_string(), error: source }
        }
    }
}
