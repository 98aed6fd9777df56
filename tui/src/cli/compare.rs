//! `recirc compare`: scenarios through the installed Open vSwitch, and where it differs.

use std::sync::Arc;

use datapath::types::Span;
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
    Ok(exit)
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
        let found = compare::compare(recording, prefix, &mut tell).map_err(failed)?;
        drop(bar);
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
