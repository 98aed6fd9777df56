//! Whether names that a scenario uses are names that it has, and whether its rules, groups and meters can be read.
//!
//! Bridges and ports that `ovs` steps make are not known before they run: a name that occurs as a word in any of their
//! commands is taken for one, and is looked up when it is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use datapath::openflow::text::{TextError, parse_flow_mod, parse_group_mod, parse_meter};
use datapath::openflow::{FlowModCommand, GroupModCommand};
use datapath::types::OfPort;

use super::reader::Context;
use super::{Block, LinkWhich, Place, Scenario, StepAction};
use crate::diagnostic::{Diagnostic, suggest};
use crate::quantity::show_time;

/// Reports names that cannot be meant, ends used twice and hosts without link.
pub(super) fn check(cx: &Context<'_>, scenario: &Scenario) {
    let names = Names::new(scenario);
    let checker = Checker { cx, scenario, names };
    checker.duplicates();
    checker.links();
    checker.steps();
    checker.tables();
}

struct Names<'a> {
    /// Words of `ovs` steps.
    words: BTreeSet<&'a str>,
    hosts: BTreeSet<&'a str>,
    /// Bridges that the file declares, with their ports.
    switches: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Names<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut words = BTreeSet::new();
        let blocks = scenario.steps.iter().filter_map(|step| match &step.action {
            StepAction::Ovs(block) => Some(block),
            StepAction::Send(_)
            | StepAction::Replay(_)
            | StepAction::Ping(_)
            | StepAction::Udp(_)
            | StepAction::Tcp(_)
            | StepAction::Link(_)
            | StepAction::Expect(_)
            | StepAction::ExpectFlow(_)
            | StepAction::ExpectCounters(_)
            | StepAction::ExpectGolden(_) => None,
        });
        for block in blocks.chain(scenario.switches.iter().filter_map(|switch| switch.ovs.as_ref())) {
            for line in &block.lines {
                words.extend(
                    line.text.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | ',' | '=')),
                );
            }
        }
        let hosts = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
        let ports =
            |switch: &'a super::SwitchConfig| switch.ports.iter().map(|port| port.name.as_str()).collect();
        let switches = scenario.switches.iter().map(|switch| (switch.name.as_str(), ports(switch))).collect();
        Self { words, hosts, switches }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().copied().chain(self.switches.keys().copied())
    }
}

/// A switch's ports, as rules may name them. Which number a port will get does not matter to whether a rule can be read.
struct PortNames<'a>(&'a BTreeSet<&'a str>, &'a str);

impl datapath::openflow::text::Names for PortNames<'_> {
    fn port(&self, name: &str) -> Option<OfPort> {
        (name == self.1 || self.0.contains(name)).then_some(OfPort(1))
    }
}

struct Checker<'a> {
    cx: &'a Context<'a>,
    scenario: &'a Scenario,
    names: Names<'a>,
}

impl Checker<'_> {
    /// Rules, groups and meters of the file are read here already, so that what is wrong with them is told with all the rest.
    fn tables(&self) {
        for switch in &self.scenario.switches {
            let Some(ports) = self.names.switches.get(switch.name.as_str()) else { continue };
            let names = PortNames(ports, &switch.name);
            self.block(&switch.meters, |line| parse_meter(line).err());
            self.block(&switch.groups, |line| parse_group_mod(line, GroupModCommand::Add, &names).err());
            self.block(&switch.flows, |line| parse_flow_mod(line, FlowModCommand::Add, &names).err());
        }
    }

    fn block(&self, block: &Option<Block>, wrong: impl Fn(&str) -> Option<TextError>) {
        for line in block.iter().flat_map(|block| &block.lines) {
            if let Some(error) = wrong(&line.text) {
                let start = (line.span.start + error.offset).min(line.span.end);
                let end = (start + error.word.len()).min(line.span.end);
                self.cx.error(Diagnostic::new(start..end, error.to_string()));
            }
        }
    }

    fn duplicates(&self) {
        for host in &self.scenario.hosts {
            if self.names.switches.contains_key(host.name.as_str()) {
                let message = format!("`{}` is both a host and a switch", host.name);
                self.cx.error(Diagnostic::new(host.span.clone(), message));
            }
        }
    }

    /// Reports `place` if nothing can have that name.
    fn place(&self, place: &Place, span: Range<usize>) {
        let Some(port) = &place.port else {
            self.host(&place.node, span);
            return;
        };
        if let Some(ports) = self.names.switches.get(place.node.as_str()) {
            let port = port.as_str();
            if port == place.node || ports.contains(port) || self.names.words.contains(port) {
                return;
            }
            let message = format!("switch `{}` has no port `{port}`", place.node);
            let error = Diagnostic::new(self.word(&span, port), message);
            self.cx.error(match suggest(port, ports.iter().copied()) {
                Some(near) => error.help(format!("did you mean `{}:{near}`?", place.node)),
                None => error.help(format!("declare it: port.{port} = {{}} in [switch.{}]", place.node)),
            });
            return;
        }
        if !self.names.words.contains(place.node.as_str()) {
            self.unknown("switch", &place.node, span, self.names.switches.keys().copied().collect());
        } else if !self.names.words.contains(port.as_str()) {
            let message = format!("no step makes a port `{port}` on `{}`", place.node);
            self.cx.error(Diagnostic::new(self.word(&span, port), message));
        }
    }

    fn host(&self, name: &str, span: Range<usize>) {
        if self.names.hosts.contains(name) {
            return;
        }
        if self.names.switches.contains_key(name) {
            let message = format!("`{name}` is a switch: name one of its ports");
            let error = Diagnostic::new(self.word(&span, name), message);
            self.cx.error(error.help(format!("such as \"{name}:1\"")));
            return;
        }
        self.unknown("host", name, span, self.names.hosts.iter().copied().collect());
    }

    fn bridge(&self, name: &str, span: Range<usize>) {
        if !self.names.switches.contains_key(name) && !self.names.words.contains(name) {
            self.unknown("switch", name, span, self.names.switches.keys().copied().collect());
        }
    }

    fn unknown(&self, what: &str, name: &str, span: Range<usize>, known: Vec<&str>) {
        let error = Diagnostic::new(self.word(&span, name), format!("there is no {what} `{name}`"));
        self.cx.error(match suggest(name, known.iter().copied()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None if known.is_empty() => error.help(format!("declare it: [{what}.{name}]")),
            None => error.help(format!("known: {}", known.join(", "))),
        });
    }

    /// Where `word` stands in the table that begins at `span`, else `span`.
    fn word(&self, span: &Range<usize>, word: &str) -> Range<usize> {
        let rest = self.cx.text.get(span.start..).unwrap_or_default();
        let table = &rest[..rest.find("\n[").unwrap_or(rest.len())];
        // In quotes, as part of a place, or as it is: the first way that occurs.
        let quoted = [format!("\"{word}\""), format!("\"{word}:"), format!(":{word}\""), format!("'{word}'")];
        let found = quoted.iter().find_map(|text| {
            let skip = usize::from(text.starts_with(['"', '\'', ':']));
            table.find(text.as_str()).map(|offset| offset + skip)
        });
        match found.or_else(|| table.find(word)) {
            Some(offset) if !word.is_empty() => span.start + offset..span.start + offset + word.len(),
            Some(_) | None => span.clone(),
        }
    }

    fn links(&self) {
        let mut used: BTreeSet<&Place> = BTreeSet::new();
        for link in &self.scenario.links {
            for end in &link.ends {
                self.place(end, link.span.clone());
                if !used.insert(end) {
                    let message = format!("{end} is the end of two links");
                    self.cx.error(Diagnostic::new(self.word(&link.span, &end.to_string()), message));
                }
            }
        }
    }

    fn has_link(&self, host: &str) -> bool {
        self.scenario
            .links
            .iter()
            .flat_map(|link| &link.ends)
            .any(|end| end.port.is_none() && end.node == host)
    }

    /// A host that is to send something has to be connected and to have an address of that family.
    fn sender(&self, name: &str, to: std::net::IpAddr, span: Range<usize>) {
        self.host(name, span.clone());
        let Some(host) = self.scenario.hosts.iter().find(|host| host.name == name) else { return };
        if !host.addresses.iter().any(|own| own.address.is_ipv4() == to.is_ipv4()) {
            let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
            let message = format!("host `{name}` has no {family} address to send from");
            self.cx
                .error(Diagnostic::new(span, message).help(format!("give [host.{name}] one: ip = \"...\"")));
        } else if !self.has_link(name) {
            let message = format!("host `{name}` has no link");
            self.cx.error(
                Diagnostic::new(span, message).help(format!("add a [[link]] with ends = [\"{name}\", ...]")),
            );
        }
    }

    fn steps(&self) {
        for step in &self.scenario.steps {
            let span = step.span.clone();
            if let Some(stop) = self.scenario.stop_at.filter(|stop| step.at > *stop) {
                let show = |time: datapath::types::Time| show_time(datapath::types::Span(time.0));
                let message = format!("this step at {} is after the end at {}", show(step.at), show(stop));
                self.cx
                    .error(Diagnostic::new(span.clone(), message).help("move it, or set a later `stop-at`"));
            }
            match &step.action {
                StepAction::Send(send) => {
                    self.place(&send.place, send.span.clone());
                    self.linked_host(&send.place, send.span.clone());
                }
                StepAction::Replay(replay) => {
                    for place in replay.on.iter().chain(replay.map.iter().map(|(_, place)| place)) {
                        self.place(place, replay.span.clone());
                        self.linked_host(place, replay.span.clone());
                    }
                }
                StepAction::Ovs(_) => {}
                StepAction::Ping(ping) => self.sender(&ping.from, ping.to, span),
                StepAction::Udp(udp) => self.sender(&udp.from, udp.to, span),
                StepAction::Tcp(tcp) => self.sender(&tcp.from, tcp.to, span),
                StepAction::Link(link) => self.link_step(&link.which, link.span.clone()),
                StepAction::Expect(expect) => self.place(&expect.at, expect.span.clone()),
                StepAction::ExpectFlow(expect) => self.bridge(&expect.switch, expect.span.clone()),
                StepAction::ExpectCounters(expect) => self.bridge(&expect.switch, expect.span.clone()),
                StepAction::ExpectGolden(expect) => self.place(&expect.at, expect.span.clone()),
            }
        }
    }

    fn linked_host(&self, place: &Place, span: Range<usize>) {
        if place.port.is_none()
            && self.names.hosts.contains(place.node.as_str())
            && !self.has_link(&place.node)
        {
            let message = format!("host `{}` has no link", place.node);
            self.cx.error(Diagnostic::new(span, message));
        }
    }

    fn link_step(&self, which: &LinkWhich, span: Range<usize>) {
        match which {
            LinkWhich::Ends(ends) => {
                let [a, b] = ends;
                let joins =
                    |link: &super::LinkConfig| link.ends == *ends || link.ends == [b.clone(), a.clone()];
                if !self.scenario.links.iter().any(joins) {
                    let message = format!("there is no link between {a} and {b}");
                    let known =
                        self.scenario.links.iter().map(|link| format!("{} - {}", link.ends[0], link.ends[1]));
                    let known: Vec<_> = known.collect();
                    self.cx
                        .error(Diagnostic::new(span, message).help(format!("links: {}", known.join(", "))));
                }
            }
            LinkWhich::Node(node) => {
                let at_node = |end: &Place| end.node == *node;
                if !self.scenario.links.iter().flat_map(|link| &link.ends).any(at_node) {
                    self.unknown("node with links", node, span, self.names.all().collect());
                }
            }
        }
    }
}
