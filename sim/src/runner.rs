//! Running a scenario from its file to its report.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datapath::trace::Off;
use datapath::types::Time;

use crate::capture::{CaptureError, CaptureWriter};
use crate::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use crate::files::Files;
use crate::record::{Departure, Observer, Watch};
use crate::report::{Collector, Report};
use crate::scenario::Scenario;
use crate::world::{Blessed, World, WorldError};

/// Events between two calls of the progress function.
const PROGRESS_EVERY: u64 = 4096;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is wrong.
    #[error("{0}")]
    Scenario(Box<Diagnostics>),
    /// The world could not be made.
    #[error("{0}")]
    World(WorldError),
    /// Something could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// When it is likely to end.
    pub end: Time,
    /// Events so far.
    pub events: u64,
    /// Bytes of captures read so far.
    pub replayed_bytes: u64,
}

/// What a run is to do beside running.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Overrules the scenario's seed.
    pub seed: Option<u64>,
    /// Keeps the frames that leave, for `steps[].out` of the JSON report.
    pub frames: bool,
    /// Writes captures, flows and the report below this folder.
    pub out: Option<PathBuf>,
    /// Records golden captures anew instead of comparing them.
    pub bless: bool,
}

/// Reads a scenario file.
///
/// # Errors
/// All errors of the file, or that it cannot be read.
pub fn load(path: &Path, files: &dyn Files) -> Result<Arc<Scenario>, Box<Diagnostics>> {
    let name = path.display().to_string();
    let whole = |text: &str, message: String| {
        let file = Arc::new(SourceFile::new(name.clone(), text));
        Box::new(Diagnostics::new(file, vec![Diagnostic::new(0..0, message)]))
    };
    let mut bytes = Vec::new();
    let read = files.open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(whole("", format!("cannot read {name}: {error}")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Scenario::parse(&name, &text).map(Arc::new).map_err(Box::new),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let file = Arc::new(SourceFile::new(name, text));
            Err(Box::new(Diagnostics::new(file, vec![Diagnostic::new(at..at + 1, "not UTF-8 text")])))
        }
    }
}

/// Runs `scenario` to its end, or until `stop` becomes true, and reports what it came to. `progress` is called now and
/// then; `watch` sees every event ([`Off`] for none).
///
/// A run that fails on the way (a command that is not understood, an expectation that does not hold, packets unaccounted
/// for) still has a report; see [`Report::verdict`].
///
/// # Errors
/// If the world cannot be made, or output cannot be written.
pub fn run<W: Watch>(
    scenario: Arc<Scenario>,
    files: &Arc<dyn Files + Send + Sync>,
    options: &RunOptions,
    watch: &mut W,
    progress: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Report, RunError> {
    let steps = scenario.steps.len();
    let mut world = World::new(Arc::clone(&scenario), Arc::clone(files), options.seed, options.bless)
        .map_err(RunError::World)?;
    let folder = options.out.as_ref().map(|out| out.join(&scenario.stem));
    let mut observer = RunObserver {
        collector: Collector::new(steps, Arc::clone(files), options.frames || options.out.is_some()),
        captures: folder.as_ref().map(|folder| Captures::new(Arc::clone(files), folder.clone())),
    };
    let mut interrupted = false;
    // What stopped the world is in the report.
    while let Ok(Some(_)) = world.step(watch, &mut observer) {
        watch.stepped(&world);
        if world.events() % PROGRESS_EVERY == 0 {
            progress(Progress {
                now: world.now(),
                end: world.end_hint(),
                events: world.events(),
                replayed_bytes: world.replay_offset(),
            });
        }
        if stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
    }
    // Likewise.
    let _ = world.finish();
    // Nothing half done: golden captures change only after a whole run.
    if world.error().is_none() && !interrupted {
        for blessed in world.blessed() {
            write_blessed(files, &blessed)?;
        }
    }
    if let Some(captures) = observer.captures {
        captures.finish()?;
    }
    let scratch = |source| RunError::Write { path: PathBuf::from("a scratch file"), source };
    let report = observer.collector.report(&world, interrupted).map_err(scratch)?;
    if let Some(folder) = folder {
        write_out(files, &folder, &report)?;
    }
    Ok(report)
}

/// [`run`] without watching, progress or stopping.
///
/// # Errors
/// As [`run`].
pub fn run_to_end(
    scenario: Arc<Scenario>,
    files: &Arc<dyn Files + Send + Sync>,
    options: &RunOptions,
) -> Result<Report, RunError> {
    run(scenario, files, options, &mut Off, &mut |_| {}, &AtomicBool::new(false))
}

fn write_blessed(files: &Arc<dyn Files + Send + Sync>, blessed: &Blessed) -> Result<(), RunError> {
    let failed = |source| RunError::Write { path: blessed.path.clone(), source };
    let file = files.create(&blessed.path).map_err(failed)?;
    let written = CaptureWriter::new(file).and_then(|mut writer| {
        for (time, frame) in &blessed.frames {
            writer.write(time.0, frame.len() as u32, frame)?;
        }
        writer.finish().map(drop)
    });
    written.map_err(|error| failed(io::Error::other(error)))
}

fn write_out(files: &Arc<dyn Files + Send + Sync>, folder: &Path, report: &Report) -> Result<(), RunError> {
    for switch in &report.switches {
        let path = folder.join(format!("{}.flows.txt", file_name(&switch.name)));
        write_file(files, &path, |out| {
            for flow in &switch.flows {
                writeln!(out, "{}", flow.line)?;
            }
            Ok(())
        })?;
    }
    write_file(files, &folder.join("report.json"), |out| report.write_json(out))
}

fn write_file(
    files: &Arc<dyn Files + Send + Sync>,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<Box<dyn Write + Send>>) -> io::Result<()>,
) -> Result<(), RunError> {
    let written = files.create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    });
    written.map_err(|source| RunError::Write { path: path.to_owned(), source })
}

/// A name without anything that means something in a path.
fn file_name(name: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    let name: String = name.chars().map(|c| if safe(c) { c } else { '_' }).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

#[derive(Debug)]
struct RunObserver {
    collector: Collector,
    captures: Option<Captures>,
}

impl Observer for RunObserver {
    fn departed(&mut self, departure: &Departure<'_>) {
        self.collector.departed(departure);
        if let Some(captures) = &mut self.captures {
            captures.departed(departure);
        }
    }

    fn printed(&mut self, step: usize, text: &str) {
        self.collector.printed(step, text);
    }
}

type Writer = CaptureWriter<Box<dyn Write + Send>>;

/// `<switch>.<port>.tx.pcap` for every port that sent something.
struct Captures {
    files: Arc<dyn Files + Send + Sync>,
    folder: PathBuf,
    writers: BTreeMap<(String, String), Writer>,
    error: Option<RunError>,
}

impl std::fmt::Debug for Captures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Captures").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Captures {
    fn new(files: Arc<dyn Files + Send + Sync>, folder: PathBuf) -> Self {
        Self { files, folder, writers: BTreeMap::new(), error: None }
    }

    fn path(&self, bridge: &str, port: &str) -> PathBuf {
        self.folder.join(format!("{}.{}.tx.pcap", file_name(bridge), file_name(port)))
    }

    fn departed(&mut self, departure: &Departure<'_>) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = self.write(departure) {
            let path = self.path(departure.bridge, departure.port);
            self.error = Some(RunError::Write { path, source: io::Error::other(error) });
        }
    }

    fn write(&mut self, departure: &Departure<'_>) -> Result<(), CaptureError> {
        let here = |(bridge, port): &(String, String)| bridge == departure.bridge && port == departure.port;
        let key = self.writers.keys().find(|key| here(key)).cloned();
        let key = match key {
            Some(key) => key,
            None => {
                let file = self
                    .files
                    .create(&self.path(departure.bridge, departure.port))
                    .map_err(CaptureError::Open)?;
                let key = (departure.bridge.to_owned(), departure.port.to_owned());
                self.writers.insert(key.clone(), CaptureWriter::new(file)?);
                key
            }
        };
        match self.writers.get_mut(&key) {
            Some(writer) => writer.write(departure.time.0, departure.frame.len() as u32, departure.frame),
            None => Ok(()),
        }
    }

    fn finish(mut self) -> Result<(), RunError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        for ((bridge, port), writer) in std::mem::take(&mut self.writers) {
            let path = self.path(&bridge, &port);
            writer.finish().map_err(|error| RunError::Write { path, source: io::Error::other(error) })?;
        }
        Ok(())
    }
}
