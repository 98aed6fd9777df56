//! Steps of the scenario, as they happen.

use super::replay::{ReplayRequest, pacing_of};
use super::{Event, Target, World, WorldError};
use crate::diagnostic::Diagnostic;
use crate::record::{Commanded, Observer, Watch};
use crate::scenario::{Block, Line, LinkStep, LinkWhich, Send, SendWhat, StepAction};
use crate::shell::{ShellWord, split_words};

/// Commands that say nothing about one bridge go to all datapaths; these make something new, on the shared one.
const MAKES: [&str; 2] = ["add-br", "--may-exist"];

impl World {
    pub(super) fn run_step<W: Watch>(
        &mut self,
        index: usize,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<(), WorldError> {
        let scenario = std::sync::Arc::clone(&self.scenario);
        let step = &scenario.steps[index];
        match &step.action {
            StepAction::Send(send) => self.start_send(index, send, watch, observer)?,
            StepAction::Replay(replay) => self.start_replay(ReplayRequest {
                step: index,
                path: replay.pcap.clone(),
                on: replay.on.clone(),
                map: replay.map.clone(),
                filter: replay.filter.clone(),
                pacing: replay.speed,
                times: replay.times,
            })?,
            StepAction::Ovs(block) => self.run_block(index, block, watch, observer)?,
            StepAction::Ping(ping) => self.with_host(&ping.from, watch, |host, now| host.ping(now, ping)),
            StepAction::Udp(udp) => self.with_host(&udp.from, watch, |host, now| host.udp(now, udp)),
            StepAction::Tcp(tcp) => self.with_host(&tcp.from, watch, |host, now| host.tcp(now, tcp)),
            StepAction::Link(link) => self.change_links(link),
            StepAction::Expect(expect) => self.check_expect(index, expect),
            StepAction::ExpectFlow(expect) => self.check_flow(index, expect)?,
            StepAction::ExpectCounters(expect) => self.check_counters(index, expect)?,
            StepAction::ExpectGolden(_) => self.check_golden(index),
        }
        Ok(())
    }

    fn with_host<W: Watch>(
        &mut self,
        name: &str,
        watch: &mut W,
        act: impl FnOnce(&mut crate::host::Host, datapath::types::Time),
    ) {
        if let Some(index) = self.hosts.iter().position(|host| host.name() == name) {
            act(&mut self.hosts[index], self.now);
            self.flush_host(index, watch);
        }
    }

    fn start_send<W: Watch>(
        &mut self,
        step: usize,
        send: &Send,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<(), WorldError> {
        match &send.what {
            SendWhat::Frames(_) | SendWhat::Flows { .. } => self.send_next(step, 0, watch, observer),
            SendWhat::Pcap(path) => self.start_replay(ReplayRequest {
                step,
                path: path.clone(),
                on: Some(send.place.clone()),
                map: Vec::new(),
                filter: None,
                pacing: pacing_of(send.gap),
                times: send.count,
            }),
        }
    }

    /// Sends frame number `sent` of a `send` step, and schedules the next; without a gap, sends all at once.
    pub(super) fn send_next<W: Watch>(
        &mut self,
        step: usize,
        sent: u64,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<(), WorldError> {
        let scenario = std::sync::Arc::clone(&self.scenario);
        let StepAction::Send(send) = &scenario.steps[step].action else { return Ok(()) };
        let Some(target) = self.target_of(&send.place) else {
            return Err(self.step_error(step, format!("there is no {} at this time", send.place)));
        };
        let each = match &send.what {
            SendWhat::Frames(frames) => frames.len() as u64,
            SendWhat::Flows { flows, len: _ } => flows.len() as u64,
            SendWhat::Pcap(_) => 0,
        };
        let total = each * u64::from(send.count);
        if sent >= total {
            return Ok(());
        }
        let index = (sent % each) as usize;
        match &send.what {
            SendWhat::Frames(frames) => match target {
                Target::Host(host) => self.send_raw(host, &frames[index], watch),
                Target::Port { switch, port } => {
                    let mut packet = self.switches[switch].node.allocate();
                    packet.set_frame(&frames[index]);
                    self.deliver(switch, port, std::iter::once(packet), watch, observer);
                }
            },
            SendWhat::Flows { flows, len } => {
                let Target::Port { switch, .. } = target else { return Ok(()) };
                let port = send.place.port.as_deref().unwrap_or_default();
                let len = len.map(|len| len.to_string());
                let mut argv = vec!["ovs-appctl", "netdev-dummy/receive", port, flows[index].as_str()];
                argv.extend(len.iter().flat_map(|len| ["--len", len.as_str()]));
                self.command_on(switch, &argv, watch, observer)
                    .map_err(|failure| self.step_error(step, failure.message))?;
            }
            SendWhat::Pcap(_) => {}
        }
        // Also without a gap as an event of its own: what follows from this frame at once comes before the next.
        if sent + 1 < total {
            self.schedule(self.now + send.gap, Event::SendNext { step, sent: sent + 1 });
        }
        Ok(())
    }

    fn change_links(&mut self, step: &LinkStep) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let (forward, backward) = match &step.which {
                LinkWhich::Ends(ends) if *ends == link.ends => (0, 1),
                LinkWhich::Ends([a, b]) if link.ends == [b.clone(), a.clone()] => (1, 0),
                LinkWhich::Node(node) if link.ends.iter().any(|end| end.node == *node) => (0, 1),
                LinkWhich::Ends(_) | LinkWhich::Node(_) => continue,
            };
            for (direction, patch) in [(forward, &step.forward), (backward, &step.backward)] {
                let model = &mut link.directions[direction].model;
                *model = model.patched(&step.both).patched(patch);
            }
            self.announce_link_state(index);
        }
    }

    fn run_block<W: Watch>(
        &mut self,
        step: usize,
        block: &Block,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<(), WorldError> {
        for line in &block.lines {
            let text = self.run_command(None, line, watch, observer)?;
            if !text.is_empty() {
                observer.printed(step, &text);
            }
        }
        Ok(())
    }

    /// Runs a command that was typed.
    pub(super) fn run_typed<W: Watch>(
        &mut self,
        text: &str,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<String, WorldError> {
        self.run_command(None, &Line { text: text.to_owned(), span: 0..0 }, watch, observer)
    }

    /// Runs a command while the world is set up.
    pub(super) fn run_line(&mut self, switch: Option<usize>, line: &Line) -> Result<String, WorldError> {
        self.run_command(switch, line, &mut datapath::trace::Off, &mut crate::record::Unobserved)
    }

    fn run_command<W: Watch>(
        &mut self,
        switch: Option<usize>,
        line: &Line,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<String, WorldError> {
        let words =
            split_words(&line.text).map_err(|error| self.line_error(line, &[], None, error.message))?;
        let argv: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        if argv.is_empty() {
            return Ok(String::new());
        }
        let targets = match switch {
            Some(switch) => vec![switch],
            None => self.datapaths_of(&argv),
        };
        let mut out = String::new();
        for &target in &targets {
            match self.command_on(target, &argv, watch, observer) {
                Ok(text) if targets.len() > 1 && !text.is_empty() => {
                    let name =
                        self.scenario.switches.get(target).map_or("ovs", |config| config.name.as_str());
                    out.push_str(&format!("# {name}\n{text}"));
                }
                Ok(text) => out.push_str(&text),
                // As on a terminal: what a command complains about is printed, and the next one runs.
                Err(failure) if failure.understood => {
                    out.push_str(&failure.message);
                    if !failure.message.ends_with('\n') {
                        out.push('\n');
                    }
                }
                Err(failure) => return Err(self.line_error(line, &words, failure.word, failure.message)),
            }
        }
        Ok(out)
    }

    /// An error about a line, or about the word of it from a byte on.
    fn line_error(
        &self,
        line: &Line,
        words: &[ShellWord],
        at: Option<(usize, usize)>,
        message: String,
    ) -> WorldError {
        let text = self.scenario.file.text.get(line.span.clone());
        let mut span = line.span.clone();
        if let (Some((arg, offset)), true) = (at, text == Some(line.text.as_str())) {
            let start = line.span.start;
            span = match words.get(arg) {
                // A word in quotes begins one byte later; escapes inside would move it further, which nobody writes.
                Some((word, range)) => {
                    let first = range.start + usize::from(range.len() > word.len());
                    let from = (first + offset).min(range.end.saturating_sub(1));
                    start + from..start + (first + word.len()).clamp(from, range.end)
                }
                None => line.span.end..line.span.end,
            };
        }
        self.scenario_error(Diagnostic::new(span, message))
    }

    /// Runs a command on one datapath, and moves on what it made the datapath send.
    fn command_on<W: Watch>(
        &mut self,
        switch: usize,
        argv: &[&str],
        watch: &mut W,
        observer: &mut dyn Observer,
    ) -> Result<String, crate::node::switch::CommandFailure> {
        watch.enter(switch);
        let node = &mut self.switches[switch].node;
        let before = node.switch().flow_life().total();
        let result = node.command(self.now, argv);
        node.tell_flow_life(before, watch);
        let text = result.as_ref().map_or_else(|failure| failure.message.as_str(), String::as_str);
        observer.commanded(&Commanded { time: self.now, switch, argv, text });
        self.refresh_ports(switch);
        self.drain(switch, watch, observer);
        self.ask_for_wakeup(switch, true);
        result
    }

    /// Which datapaths a command is for: that of the first bridge or port that it names; the shared one if it makes a bridge
    /// or there is no other; else all.
    fn datapaths_of(&mut self, argv: &[&str]) -> Vec<usize> {
        let names_of = |word: &str| {
            self.switches.iter().position(|state| {
                state.node.ports().iter().any(|port| port.bridge == word || port.name == word)
            })
        };
        // A port called "1" is no reason to take every "1" for it.
        let words = argv.iter().skip(1).filter(|word| !word.bytes().all(|b| b.is_ascii_digit()));
        if let Some(switch) = words.filter_map(|word| names_of(word)).next() {
            return vec![switch];
        }
        let makes = argv.iter().any(|word| MAKES.contains(word));
        if makes || self.switches.is_empty() {
            return vec![self.shared_datapath()];
        }
        (0..self.switches.len()).collect()
    }

    fn shared_datapath(&mut self) -> usize {
        match self.shared {
            Some(shared) => shared,
            None => {
                self.switches.push(super::build::empty_switch(self.seed, "ovs"));
                let shared = self.switches.len() - 1;
                self.shared = Some(shared);
                shared
            }
        }
    }
}
