//! The simulated world around the datapath: virtual time, links, hosts, scenario files, captures, history.
//!
//! ```text
//! scenario  -> world -> report            one run:     runner::load, runner::run, Report::{text, write_json, write_csv}
//!              world -> history           back and forth: History::{step_event, step_packet, back_event, seek}
//! quantity, diagnostic, files, capture    what all of them use
//! ```
//!
//! # Running a file
//!
//! ```
//! use std::sync::Arc;
//! use sim::files::{Files, MemoryFiles};
//! use sim::runner::{RunOptions, load, run_to_end};
//!
//! let files = MemoryFiles::default(); // or DiskFiles
//! files.insert("hello.toml", *br#"
//! name = "hello"
//! [host.h1]
//! ip = "10.0.0.1/24"
//! [host.h2]
//! ip = "10.0.0.2/24"
//! [[link]]
//! ends = ["h1", "h2"]
//! delay = "1ms"
//! [[step]]
//! ping = { from = "h1", to = "10.0.0.2", count = 3 }
//! [[step]]
//! at = "5s"
//! expect = { at = "h1", ping.received = 3 }
//! "#);
//! let files: Arc<dyn Files + Send + Sync> = Arc::new(files);
//! let scenario = load("hello.toml".as_ref(), &*files).unwrap();
//! let report = run_to_end(scenario, &files, &RunOptions::default()).unwrap();
//! assert_eq!(report.verdict.exit_code(), 0, "{}", report.text());
//! ```
//!
//! [`runner::run`] also takes a progress function, a flag that stops the run (Ctrl-C ends it with what it has), and a
//! [`record::Watch`] that sees every event. Errors are [`diagnostic::Diagnostics`], which render themselves with file, line
//! and caret; nothing in this crate prints.
//!
//! # Walking through it
//!
//! ```
//! # use std::sync::Arc;
//! # use sim::files::MemoryFiles;
//! # use sim::scenario::Scenario;
//! use sim::history::History;
//! use sim::world::World;
//!
//! # let text = "[host.h1]\nip='10.0.0.1/24'\n[host.h2]\nip='10.0.0.2/24'\n[[link]]\nends=['h1','h2']\n[[step]]\nping={from='h1',to='10.0.0.2'}\n";
//! # let scenario = Arc::new(Scenario::parse("x.toml", text).unwrap());
//! let world = World::new(scenario, Arc::new(MemoryFiles::default()), None, false).unwrap();
//! let mut history = History::new(world);
//! while history.step_event().unwrap().is_some() {}
//! let end = history.position();
//! history.back_event().unwrap();
//! assert_eq!(history.position(), end - 1);
//! for happening in history.trace().entries() { /* what happened in the event that came last */ }
//! history.seek(1).unwrap();
//! ```
//!
//! The world at the current point is [`history::History::world`]: hosts, links, switches with their counters and flows,
//! expectations so far. What a frame met in the last event is [`history::History::trace`], with its bytes wherever they may
//! have changed. Reports of past texts come from a [`record::Observer`].
//!
//! # Rules
//!
//! Nothing here reads a clock, draws unseeded randomness, prints, or knows a terminal; files come through
//! [`files::Files`]. Same scenario, same seed, same captures: same bytes, on every machine.

pub mod capture;
pub mod describe;
pub mod diagnostic;
pub mod files;
pub mod history;
pub mod host;
pub mod link;
pub mod node;
pub mod quantity;
pub mod queue;
pub mod random;
pub mod record;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod shell;
pub mod wire;
pub mod world;

#[cfg(test)]
mod tests;
