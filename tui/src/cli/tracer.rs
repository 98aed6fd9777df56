//! `--trace`: every event of every packet as a line of text, as it happens.

use sim::describe;
use sim::quantity::show_time;
use sim::record::{Happening, Recorder, Watch, WorldEvent};
use sim::world::World;

use datapath::trace::{Event, PacketId, Trace};
use datapath::types::Span;

use crate::exit::Failure;
use crate::output::{self, Output};

/// Records the events of one step of the world, and writes them out when it is over.
pub struct Tracer<'a> {
    recorder: Recorder,
    out: &'a mut Output,
    /// Whether lines go to standard output, or to standard error because that is for programs.
    to_stdout: bool,
    failure: Option<Failure>,
}

impl<'a> Tracer<'a> {
    /// A tracer that writes to `out`, or to standard error.
    pub fn new(out: &'a mut Output, to_stdout: bool) -> Self {
        Self { recorder: Recorder::default(), out, to_stdout, failure: None }
    }

    /// Whether all could be written.
    ///
    /// # Errors
    /// The first failure.
    pub fn finish(self) -> Result<(), Failure> {
        self.failure.map_or(Ok(()), Err)
    }

    fn write(&mut self, line: &str) {
        if self.failure.is_some() {
            return;
        }
        if self.to_stdout {
            self.failure = self.out.line(line).err();
        } else {
            output::to_stderr(&format!("{line}\n"));
        }
    }
}

impl Trace for Tracer<'_> {
    const ON: bool = true;

    fn event(&mut self, make: impl FnOnce() -> Event) {
        self.recorder.event(make);
    }

    fn bytes(&mut self, packet: PacketId, data: &[u8]) {
        self.recorder.bytes(packet, data);
    }
}

impl Watch for Tracer<'_> {
    fn enter(&mut self, switch: usize) {
        self.recorder.enter(switch);
    }

    fn world(&mut self, make: impl FnOnce() -> WorldEvent, frame: &[u8]) {
        self.recorder.world(make, frame);
    }

    fn stepped(&mut self, world: &World) {
        let time = show_time(Span(world.now().0));
        let line = |entry: &Happening| {
            let place = describe::place(entry, world).unwrap_or_else(|| "-".to_owned());
            let packet = match entry {
                Happening::Datapath { event, .. } => event.packet(),
                Happening::World(_) => None,
            };
            let packet = packet.map_or_else(String::new, |packet| format!(" #{}", packet.0));
            format!("{time} {place}{packet}: {}", describe::happening(entry, world))
        };
        let lines: Vec<String> = self.recorder.entries().iter().map(line).collect();
        for line in lines {
            self.write(&line);
        }
        self.recorder.clear();
    }
}
