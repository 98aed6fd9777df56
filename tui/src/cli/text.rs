//! `recirc text`: lines of OVS text in, canonical lines out, and what is wrong with the others.

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::ops::Range;
use std::sync::Arc;

use datapath::action::text::{canonical_flow, format_actions, parse_actions};
use datapath::flow::text::{AnyNames, PortNames, TextError};
use datapath::openflow::text::{
    Names, ParsedFlowMod, RuleText, format_port, match_to_text, parse_flow_mod, parse_flow_mod_line,
    parse_match, without_comment,
};
use datapath::openflow::{FlowMod, FlowModCommand};
use datapath::types::{OfPort, PortNo};
use sim::diagnostic::{Diagnostic, Diagnostics, SourceFile};

use super::args::{Language, PortNumber, TextArgs};
use crate::diagnostic::{Complaint, clean};
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::{self, Output};

/// What is wrong with a line.
struct Wrong {
    message: String,
    at: Range<usize>,
}

/// Runs the command.
pub fn run(args: &TextArgs, out: &mut Output) -> Result<Exit, Failure> {
    let ports = Ports { list: &args.ports };
    let translate = |line: &str| match args.language {
        Language::Rule => rule(line, &ports),
        Language::Match => rule_match(line, &ports),
        Language::Flow => flow(line, &ports, args.more),
        Language::Actions => actions(line, &ports),
    };
    let mut lines = Lines { translate: &translate, out, exit: Exit::Pass };
    if args.lines.is_empty() {
        lines.standard_input()?;
    } else {
        for (index, line) in args.lines.iter().enumerate() {
            // An argument may hold several lines; each counts as its own.
            for part in line.split('\n') {
                lines.one("argument", index + 1, part)?;
            }
        }
    }
    Ok(lines.exit)
}

/// Goes through lines one by one.
struct Lines<'a> {
    translate: &'a dyn Fn(&str) -> Result<String, Wrong>,
    out: &'a mut Output,
    exit: Exit,
}

impl Lines<'_> {
    fn standard_input(&mut self) -> Result<(), Failure> {
        let mut input = io::stdin().lock();
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            let read = input.read_until(b'\n', &mut bytes);
            let read =
                read.map_err(|error| Failure::input(format!("cannot read standard input: {error}")))?;
            if read == 0 || interrupt::requested() || self.out.is_closed() {
                return Ok(());
            }
            number += 1;
            match std::str::from_utf8(&bytes) {
                Ok(line) => self.one("standard input", number, line.trim_end_matches(['\n', '\r']))?,
                Err(error) => {
                    let text = String::from_utf8_lossy(&bytes);
                    let at = error.valid_up_to();
                    self.wrong(
                        "standard input",
                        number,
                        text.trim_end(),
                        Wrong { message: "not UTF-8 text".to_owned(), at: at..at + 1 },
                    )?;
                }
            }
        }
    }

    fn one(&mut self, source: &str, number: usize, line: &str) -> Result<(), Failure> {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            return Ok(());
        }
        match (self.translate)(line) {
            Ok(text) => self.out.line(&text),
            Err(wrong) => self.wrong(source, number, line, wrong),
        }
    }

    fn wrong(&mut self, source: &str, number: usize, line: &str, wrong: Wrong) -> Result<(), Failure> {
        // What was printed before comes first on a terminal too.
        self.out.show()?;
        let file = Arc::new(SourceFile::line(source, number, line));
        let list = vec![Diagnostic::new(wrong.at, wrong.message)];
        output::complain(&[Complaint::from(Diagnostics::new(file, list))]);
        self.exit = Exit::BadInput;
        Ok(())
    }
}

fn rule(line: &str, ports: &Ports<'_>) -> Result<String, Wrong> {
    let parsed = parse_flow_mod_line(line, ports).map_err(|error| of_wrong(&error))?;
    tell_normalized(&parsed, ports);
    Ok(change_text(&parsed.flow_mod, ports))
}

/// A change as `ovs-ofctl` reads it from a file; an addition is the rule alone.
fn change_text(change: &FlowMod, ports: &Ports<'_>) -> String {
    let (word, with_actions) = match change.command {
        FlowModCommand::Add => return RuleText::of(change).to_text(None, ports),
        FlowModCommand::Modify => ("modify", true),
        FlowModCommand::ModifyStrict => ("modify_strict", true),
        FlowModCommand::Delete => ("delete", false),
        FlowModCommand::DeleteStrict => ("delete_strict", false),
    };
    let mut parts = Vec::new();
    if change.cookie_mask != 0 {
        parts.push(format!("cookie={:#x}/{:#x}", change.cookie, change.cookie_mask));
    }
    if with_actions {
        parts.push(RuleText::of(change).to_text(None, ports));
        return format!("{word} {}", parts.join(", "));
    }
    if let Some(table) = change.table {
        parts.push(format!("table={}", table.0));
    }
    if change.out_port != OfPort::NONE {
        let mut port = String::new();
        format_port(&mut port, change.out_port, ports);
        parts.push(format!("out_port={port}"));
    }
    if let Some(group) = change.out_group {
        parts.push(format!("out_group={group}"));
    }
    let strict = change.command == FlowModCommand::DeleteStrict;
    let text = match_to_text(&change.rule_match, strict.then_some(change.priority), ports);
    if !text.is_empty() {
        parts.push(text);
    }
    format!("{word} {}", parts.join(",")).trim_end().to_owned()
}

/// Parts of a match that mean nothing are left out, and nothing is left out without a word.
fn tell_normalized(parsed: &ParsedFlowMod, ports: &Ports<'_>) {
    if let Some(original) = &parsed.normalized_from {
        let was = clean(&match_to_text(original, None, ports));
        output::to_stderr(&format!(
            "note: parts of `{was}` mean nothing without the protocol that has them: left out\n"
        ));
    }
}

fn rule_match(line: &str, ports: &Ports<'_>) -> Result<String, Wrong> {
    let line = without_comment(line);
    let parsed = parse_match(line, ports).map_err(|error| of_wrong(&error))?;
    // A change that deletes takes any match, and tells what became of it.
    if let Ok(change) = parse_flow_mod(line, FlowModCommand::Delete, ports) {
        tell_normalized(&change, ports);
    }
    Ok(match_to_text(&parsed, None, ports))
}

fn of_wrong(error: &datapath::openflow::text::TextError) -> Wrong {
    Wrong { message: error.to_string(), at: error.offset..error.offset + error.word.len().max(1) }
}

fn flow(line: &str, ports: &Ports<'_>, more: bool) -> Result<String, Wrong> {
    let any = AnyNames::default();
    let text = line.trim();
    canonical_flow(text, Some(ports.or(&any)), more).map_err(|error| dp_wrong(line, text, error))
}

fn actions(line: &str, ports: &Ports<'_>) -> Result<String, Wrong> {
    let any = AnyNames::default();
    let names = ports.or(&any);
    let text = line.trim();
    let parsed = parse_actions(text, Some(names)).map_err(|error| dp_wrong(line, text, error))?;
    Ok(format_actions(&parsed, Some(names)).to_string())
}

/// Points into `line`, of which `text` is the part without surrounding white space.
fn dp_wrong(line: &str, text: &str, error: TextError) -> Wrong {
    let start = line.len() - line.trim_start().len() + error.offset;
    let rest = text.get(error.offset..).unwrap_or_default();
    let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_-.:/+".contains(c)).unwrap_or(rest.len());
    Wrong { message: error.message, at: start..start + word.max(1) }
}

/// Ports named on the command line.
struct Ports<'a> {
    list: &'a [PortNumber],
}

impl<'a> Ports<'a> {
    /// These names, or any name at all where none are given.
    fn or(&'a self, any: &'a AnyNames) -> &'a dyn PortNames {
        if self.list.is_empty() { any } else { self }
    }
}

impl PortNames for Ports<'_> {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        self.list.iter().find(|one| one.number == port.0).map(|one| Cow::Borrowed(one.name.as_str()))
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        self.list.iter().find(|one| one.name == name).map(|one| PortNo(one.number))
    }
}

impl Names for Ports<'_> {
    fn port(&self, name: &str) -> Option<OfPort> {
        let found = self.list.iter().find(|one| one.name == name)?;
        u16::try_from(found.number).ok().map(OfPort)
    }

    fn port_name(&self, port: OfPort) -> Option<&str> {
        self.list.iter().find(|one| one.number == u32::from(port.0)).map(|one| one.name.as_str())
    }
}
