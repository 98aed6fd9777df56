//! `recirc replay`: a capture through one switch. Makes a scenario of the command line and runs that.

use std::fs;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use datapath::types::Time;
use sim::capture::CaptureReader;
use sim::diagnostic::SourceFile;
use sim::scenario::{Block, Line, Place, Replay, Scenario, Step, StepAction};

use super::args::ReplayArgs;
use super::load;
use super::run::scenarios_to_reports;
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Name of the switch.
const SWITCH: &str = "br0";

/// Runs the command.
pub fn run(args: &ReplayArgs, out: &mut Output) -> Result<Exit, Failure> {
    let files = load::disk();
    let mut scenario = scenario(args)?;
    // What the switch refuses is told before anything is written, and points into the rules.
    load::world(&Arc::new(scenario.clone()), &files, Some(args.seed))?;
    // Reports are about the capture.
    scenario.file = Arc::new(SourceFile::new(args.capture.display().to_string(), ""));
    scenarios_to_reports(&[Arc::new(scenario)], &files, Some(args.seed), &args.report, out)
}

/// The scenario that the command line stands for.
fn scenario(args: &ReplayArgs) -> Result<Scenario, Failure> {
    check_capture(&args.capture)?;
    let ports = ports(args)?;
    let shown = args.capture.display().to_string();
    let mut scenario = bare(&shown, &ports)?;
    scenario.folder = std::path::PathBuf::new();
    scenario.stem =
        args.capture.file_stem().map_or("replay".into(), |stem| stem.to_string_lossy().into_owned());
    if let Some(path) = &args.rules {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))?;
        let block = rules(&text);
        scenario.file = Arc::new(SourceFile::new(path.display().to_string(), text));
        scenario.switches[0].flows = Some(block);
    } else {
        scenario.file = Arc::new(SourceFile::new(shown, ""));
    }
    let place = |port: &str| Place { node: SWITCH.to_owned(), port: Some(port.to_owned()) };
    let replay = Replay {
        filter: None,
        on: Some(place(&ports[0])),
        pcap: args.capture.clone(),
        speed: args.speed,
        times: args.times,
        map: args.map.iter().map(|map| (map.interface.clone(), place(&map.port))).collect(),
        span: 0..0,
    };
    scenario.steps = vec![Step { at: Time::ZERO, action: StepAction::Replay(replay), span: 0..0 }];
    Ok(scenario)
}

/// A capture that cannot be read at all is told at once, and as what it is.
fn check_capture(path: &Path) -> Result<(), Failure> {
    let failed = |error: String| Failure::input(format!("cannot read {}: {error}", path.display()));
    let file = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut reader = CaptureReader::open(BufReader::new(file)).map_err(|error| failed(error.to_string()))?;
    let mut frame = Vec::new();
    reader.next_record(&mut frame).map_err(|error| failed(error.to_string()))?;
    Ok(())
}

/// Names of the switch's ports: those asked for, those that interfaces are mapped to, and a second one if there is but one.
fn ports(args: &ReplayArgs) -> Result<Vec<String>, Failure> {
    let mut ports: Vec<String> = Vec::new();
    for port in &args.ports {
        if ports.contains(port) {
            return Err(Failure::input(format!("--port {port} is given twice")));
        }
        ports.push(port.clone());
    }
    for map in &args.map {
        if !ports.contains(&map.port) {
            ports.push(map.port.clone());
        }
    }
    if ports.len() == 1 {
        let second = if ports[0] == "p2" { "p1" } else { "p2" };
        ports.push(second.to_owned());
    }
    Ok(ports)
}

/// A scenario with a switch of these ports, and nothing else.
fn bare(shown: &str, ports: &[String]) -> Result<Scenario, Failure> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut toml = format!("name = {}\n[switch.{SWITCH}]\n", quoted(&format!("{shown} through one switch")));
    for port in ports {
        toml.push_str(&format!("port.{} = {{}}\n", quoted(port)));
    }
    // The text is ours: what is wrong with it are the names of ports, and places in it mean nothing to the user.
    Scenario::parse("--port", &toml).map_err(|diagnostics| {
        let complain = |one: &sim::diagnostic::Diagnostic| {
            let complaint = Complaint::new(format!("--port: {}", one.message));
            match &one.help {
                Some(help) => complaint.help(help.clone()),
                None => complaint,
            }
        };
        Failure::Input(diagnostics.list.iter().map(complain).collect())
    })
}

/// The rules of a file, as `ovs-ofctl add-flows` reads it: one a line, with blank lines and comments between.
fn rules(text: &str) -> Block {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let rule = line.split('#').next().unwrap_or_default();
        let trimmed = rule.trim();
        if !trimmed.is_empty() {
            let at = start + (rule.len() - rule.trim_start().len());
            lines.push(Line { text: trimmed.to_owned(), span: at..at + trimmed.len() });
        }
        start += line.len();
    }
    Block { lines, span: 0..text.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_their_places() {
        let text = "# comment\n\n  in_port=1 actions=2 # why\r\nactions=drop";
        let block = rules(text);
        let lines: Vec<&str> = block.lines.iter().map(|line| &text[line.span.clone()]).collect();
        assert_eq!(lines, ["in_port=1 actions=2", "actions=drop"]);
        assert!(block.lines.iter().all(|line| line.text == text[line.span.clone()]));
    }
}
