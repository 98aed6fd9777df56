//! `recirc run`, and what all commands that run scenarios share.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datapath::trace::Off;
use sim::report::{Report, Verdict};
use sim::runner::{self, Progress, RunOptions};
use sim::scenario::Scenario;

use super::args::{Format, ReportArgs, RunArgs};
use super::load::{self, SharedFiles};
use super::tracer::Tracer;
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress;

/// Runs the command.
pub fn run(args: &RunArgs, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(file) = &args.ovs {
        return super::ovs::run(file, args.seed.unwrap_or(0), out);
    }
    let files = load::disk();
    let scenarios = load::all(&args.files, &files, false)?;
    scenarios_to_reports(&scenarios, &files, args.seed, &args.report, out)
}

/// Runs scenarios one after the other and prints their reports.
pub fn scenarios_to_reports(
    scenarios: &[Arc<Scenario>],
    files: &SharedFiles,
    seed: Option<u64>,
    args: &ReportArgs,
    out: &mut Output,
) -> Result<Exit, Failure> {
    if let Some(folder) = &args.out {
        distinct_folders(scenarios, folder)?;
    }
    let mut exit = Exit::Pass;
    for (index, scenario) in scenarios.iter().enumerate() {
        let staging = args.out.as_ref().map(|folder| Staging::new(folder, &scenario.stem)).transpose()?;
        let options = RunOptions {
            seed,
            frames: args.format == Format::Json,
            out: staging.as_ref().map(|staging| staging.folder.clone()),
            bless: false,
        };
        let report = one(scenario, files, &options, args, out)?;
        if report.verdict == Verdict::BadScenario {
            // Found on the way, in a step: there is no report of a scenario that is wrong.
            return Err(report.error.map_or_else(
                || Failure::Bug("a bad scenario without an error".to_owned()),
                load::world_failure,
            ));
        }
        if let Some(staging) = staging {
            staging.publish()?;
        }
        print(&report, args.format, index == 0, out)?;
        exit = exit.and(exit_of(report.verdict));
        if interrupt::requested() {
            break;
        }
    }
    Ok(exit)
}

/// Runs one scenario, with a progress bar, and prints its events if asked to.
fn one(
    scenario: &Arc<Scenario>,
    files: &SharedFiles,
    options: &RunOptions,
    args: &ReportArgs,
    out: &mut Output,
) -> Result<Report, Failure> {
    let bar = progress::Progress::new(&scenario.stem, None);
    let mut progress = |now: Progress| bar.set(now.events);
    let stop = interrupt::flag();
    let scenario = Arc::clone(scenario);
    let result = if args.trace {
        let mut tracer = Tracer::new(out, args.format == Format::Text);
        let result = runner::run(scenario, files, options, &mut tracer, &mut progress, stop);
        tracer.finish()?;
        result
    } else {
        runner::run(scenario, files, options, &mut Off, &mut progress, stop)
    };
    result.map_err(load::run_failure)
}

/// Prints a report.
pub fn print(report: &Report, format: Format, first: bool, out: &mut Output) -> Result<(), Failure> {
    let failed = |error| Failure::Write { what: "the report".to_owned(), error };
    match format {
        Format::Text => {
            if !first {
                out.line("")?;
            }
            out.text(&report.text())
        }
        Format::Json => report.write_json(out).map_err(failed),
        Format::Csv => report.write_csv(out, first).map_err(failed),
    }
}

/// The exit code's meaning of a verdict.
pub const fn exit_of(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Bug => Exit::Bug,
        Verdict::BadScenario => Exit::BadInput,
        Verdict::ExpectationFailed => Exit::Expectation,
        Verdict::GoldenDiffers => Exit::Golden,
        Verdict::Interrupted => Exit::Interrupted,
    }
}

/// Two scenarios whose files have the same stem would write into each other's folder.
fn distinct_folders(scenarios: &[Arc<Scenario>], folder: &Path) -> Result<(), Failure> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for scenario in scenarios {
        let (stem, file) = (scenario.stem.as_str(), scenario.file.name.as_str());
        if let Some(other) = seen.insert(stem, file) {
            let path = folder.join(stem);
            let message = format!("{other} and {file} would both write to {}", path.display());
            return Err(Complaint::new(message).help("run them with different --out folders").into());
        }
    }
    Ok(())
}

/// Output is written beside its place and moved there when the run is over, so that a run that fails leaves nothing, and
/// one that succeeds nothing of former runs.
struct Staging {
    folder: PathBuf,
    stem: String,
    target: PathBuf,
}

impl Staging {
    fn new(out: &Path, stem: &str) -> Result<Self, Failure> {
        let folder = out.join(format!(".{stem}.{}.partial", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| failed_at(&folder, error))?;
        Ok(Self { folder, stem: stem.to_owned(), target: out.join(stem) })
    }

    fn publish(self) -> Result<(), Failure> {
        fs::create_dir_all(&self.target).map_err(|error| failed_at(&self.target, error))?;
        for entry in fs::read_dir(&self.target).map_err(|error| failed_at(&self.target, error))? {
            let path = entry.map_err(|error| failed_at(&self.target, error))?.path();
            if is_ours(&path) {
                fs::remove_file(&path).map_err(|error| failed_at(&path, error))?;
            }
        }
        let written = self.folder.join(&self.stem);
        for entry in fs::read_dir(&written).map_err(|error| failed_at(&written, error))? {
            let entry = entry.map_err(|error| failed_at(&written, error))?;
            let path = self.target.join(entry.file_name());
            fs::rename(entry.path(), &path).map_err(|error| failed_at(&path, error))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What cannot be removed is left; the run's outcome is not changed by that.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether a file is one that a run writes.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name == "report.json" || name.ends_with(".tx.pcap") || name.ends_with(".flows.txt")
}

fn failed_at(path: &Path, error: io::Error) -> Failure {
    Failure::Write { what: path.display().to_string(), error }
}
