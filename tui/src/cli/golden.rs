//! `recirc golden`: golden captures compared, or recorded anew.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datapath::trace::Off;
use sim::report::Verdict;
use sim::runner::{self, RunOptions};
use sim::scenario::{Scenario, StepAction};

use super::args::GoldenAction;
use super::load::{self, SharedFiles};
use super::run::exit_of;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;

/// Runs the command.
pub fn run(action: &GoldenAction, out: &mut Output) -> Result<Exit, Failure> {
    let files = load::disk();
    let (paths, bless) = match action {
        GoldenAction::Check { files } => (files, false),
        GoldenAction::Bless { files } => (files, true),
    };
    let scenarios = load::all(paths, &files, bless)?;
    let mut exit = Exit::Pass;
    for scenario in &scenarios {
        exit = exit.and(one(scenario, &files, bless, out)?);
        if interrupt::requested() {
            return Ok(exit.and(Exit::Interrupted));
        }
    }
    Ok(exit)
}

fn one(
    scenario: &Arc<Scenario>,
    files: &SharedFiles,
    bless: bool,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let stop: &AtomicBool = interrupt::flag();
    let options = RunOptions { bless, ..RunOptions::default() };
    let report = runner::run(Arc::clone(scenario), files, &options, &mut Off, &mut |_| {}, stop)
        .map_err(load::run_failure)?;
    match report.verdict {
        Verdict::Bug | Verdict::BadScenario => {
            let error = report.error.map(load::world_failure);
            return Err(error.unwrap_or_else(|| Failure::Bug("a failure without an error".to_owned())));
        }
        Verdict::Interrupted => return Ok(exit_of(report.verdict)),
        Verdict::Pass | Verdict::ExpectationFailed | Verdict::GoldenDiffers => {}
    }
    let name = &scenario.file.name;
    let mut exit = Exit::Pass;
    let mut any = false;
    for (index, step) in scenario.steps.iter().enumerate() {
        let StepAction::ExpectGolden(golden) = &step.action else { continue };
        any = true;
        let pcap = golden.pcap.display();
        if bless {
            out.line(&format!("{name}: {} written to {pcap}", golden.at))?;
            continue;
        }
        let outcome = report.expectations.iter().find(|outcome| outcome.step == index);
        match outcome.filter(|outcome| !outcome.pass) {
            Some(outcome) => {
                out.line(&format!("{name}: {} differs from {pcap}: {}", golden.at, outcome.detail))?;
                exit = Exit::Golden;
            }
            None => out.line(&format!("{name}: {} is as in {pcap}", golden.at))?,
        }
    }
    if !any {
        out.line(&format!("{name}: no golden capture"))?;
    }
    Ok(exit)
}
