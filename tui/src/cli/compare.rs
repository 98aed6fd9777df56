//! `recirc compare`: scenarios through the installed Open vSwitch, and where it differs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use datapath::types::Span;
use sim::files::MemoryFiles;
use sim::quantity::show_time;
use sim::scenario::Scenario;

use super::args::CompareArgs;
use super::load::{self, SharedFiles};
use crate::compare::{self, Difference, OvsError, Place, Prefix, Recording, Version};
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;

/// How often Open vSwitch is tried before a difference is one.
const ATTEMPTS: usize = 3;

/// Runs the command.
pub fn run(args: &CompareArgs, out: &mut Output) -> Result<Exit, Failure> {
    let prefix = Prefix(args.ovs.clone());
    let version = prefix.version().map_err(failed)?;
    let files = load::disk();
    let scenarios = load::all(&args.files, &files, false)?;
    out.line(&format!("Open vSwitch {version}"))?;
    let mut exit = Exit::Pass;
    for scenario in &scenarios {
        exit = exit.and(one(scenario, &files, (&prefix, version), args.all, out)?);
        if interrupt::requested() {
            return Ok(exit.and(Exit::Interrupted));
        }
    }
    for seed in (args.seed..).take(usize::try_from(args.random.unwrap_or(0)).unwrap_or(usize::MAX)) {
        exit = exit.and(random(seed, args, (&prefix, version), out)?);
        if interrupt::requested() {
            return Ok(exit.and(Exit::Interrupted));
        }
    }
    Ok(exit)
}

/// Makes a scenario by chance, compares it, and keeps it if it shows a difference.
fn random(seed: u64, args: &CompareArgs, ovs: (&Prefix, Version), out: &mut Output) -> Result<Exit, Failure> {
    let text = compare::random::scenario(seed, ovs.1 >= compare::OFFLOADS_SINCE);
    let path = PathBuf::from(format!("random-{seed}.toml"));
    let memory = MemoryFiles::default();
    memory.insert(&path, text.as_bytes());
    let files: SharedFiles = Arc::new(memory);
    let exit = load::one(&path, &files).and_then(|scenario| one(&scenario, &files, ovs, args.all, out));
    if let (Some(folder), true) = (&args.keep, !matches!(exit, Ok(Exit::Pass | Exit::Interrupted))) {
        let path = folder.join(path);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, &text));
        written.map_err(|error| Failure::Write { what: path.display().to_string(), error })?;
        out.line(&format!("    kept as {}", path.display()))?;
    }
    exit
}

fn one(
    scenario: &Arc<Scenario>,
    files: &SharedFiles,
    (prefix, version): (&Prefix, Version),
    all: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let name = &scenario.file.name;
    if let Some(why) = compare::incomparable(scenario) {
        out.line(&format!("{name}: not compared: {why}"))?;
        return Ok(Exit::Pass);
    }
    let recordings = compare::record(scenario, files).map_err(load::world_failure)?;
    let mut exit = Exit::Pass;
    for recording in recordings.iter().filter(|recording| !recording.inputs.is_empty()) {
        let total = recording.inputs.len() as u64;
        let (bar, mut done) = (Progress::new(&format!("{name} {}", recording.name), Some(total)), 0);
        let mut tell = || {
            done += 1;
            bar.set(done);
        };
        // What Open vSwitch has done by the time it is asked for its flows is not always the same; ours is.
        let new = |found: &[Difference]| found.iter().any(|one| compare::known(one, version).is_none());
        let mut found = compare::compare(recording, prefix, &mut tell);
        for _ in 1..ATTEMPTS {
            match &found {
                Ok(found) if new(found) => {}
                Err(OvsError::Daemon { .. }) => {}
                Ok(_) | Err(_) => break,
            }
            found = compare::compare(recording, prefix, &mut || {});
        }
        drop(bar);
        let found = match found {
            // The scenario did that to it: the next ones get another.
            Err(error @ OvsError::Daemon { .. }) => {
                out.line(&format!("{name}: {}: NOT COMPARED: {error}", recording.name))?;
                exit = exit.and(Exit::Expectation);
                continue;
            }
            found => found.map_err(failed)?,
        };
        exit = exit.and(tell_of(&found, recording, name, version, all, out)?);
    }
    Ok(exit)
}

/// Prints the first difference that is not known, or all; and what was compared.
fn tell_of(
    found: &[Difference],
    recording: &Recording,
    name: &str,
    version: Version,
    all: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let place = format!("{name}: {}", recording.name);
    let (known, new): (Vec<_>, Vec<_>) =
        found.iter().partition(|difference| compare::known(difference, version).is_some());
    for difference in &known {
        if let Some(why) = compare::known(difference, version) {
            out.line(&format!("{place}: known: {}: {why}", difference.what))?;
        }
    }
    if new.is_empty() {
        let (inputs, flows) = (recording.inputs.len(), recording.flows.len());
        out.line(&format!("{place}: the same ({inputs} inputs, {flows} flows)"))?;
        return Ok(Exit::Pass);
    }
    let shown = if all { new.len() } else { 1 };
    for difference in &new[..shown] {
        let at = match &difference.place {
            Place::Input { index, time, what } => {
                format!("input {index} at {}, {what}", show_time(Span(time.0)))
            }
            Place::Flows => "datapath flows".to_owned(),
        };
        out.line(&format!("{place}: DIFFERENT: {at}: {}", difference.what))?;
        for line in difference.detail.lines() {
            out.line(&format!("    {line}"))?;
        }
    }
    if new.len() > shown {
        out.line(&format!("    and {} more; --all shows them", new.len() - shown))?;
    }
    Ok(Exit::Expectation)
}

fn failed(error: OvsError) -> Failure {
    let complaint = Complaint::new(error.to_string());
    match error {
        OvsError::NotInstalled(_) => complaint
            .help("install the package openvswitch-switch, or say where it is with --ovs PREFIX")
            .into(),
        OvsError::System { .. }
        | OvsError::Daemon { .. }
        | OvsError::Refused { .. }
        | OvsError::Answer(_) => complaint.into(),
    }
}
