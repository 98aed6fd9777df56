//! The command line: what can be asked for, and how it is spelled.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use datapath::types::Span;
use sim::capture::Pacing;

/// An interactive network testbed around an OVS-style userspace datapath.
///
/// Without a command: the demo scenario, in the terminal user interface on a terminal, as a text report otherwise.
#[derive(Debug, Parser)]
#[command(name = "recirc", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXIT_CODES: &str = "Exit codes: 0 pass, 1 a bug of recirc, 2 bad file or usage, 3 an expectation failed, \
                          4 a golden capture differs, 130 interrupted.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenarios in virtual time and check their expectations.
    Run(RunArgs),
    /// Send a capture through one switch: NORMAL where no rules are given.
    Replay(ReplayArgs),
    /// Tell what one packet would meet, in the form of ofproto/trace, changing nothing.
    Trace(TraceArgs),
    /// Watch a scenario and walk through it, forwards and backwards.
    Tui(TuiArgs),
    /// Run the switches of a file on real ports: taps and interfaces of this machine.
    Live(LiveArgs),
    /// Compare what scenarios send with golden captures, or rewrite those.
    Golden(GoldenArgs),
    /// Run scenarios through the installed Open vSwitch too, and show the first difference.
    Compare(CompareArgs),
    /// Print OVS text in canonical form, or say what is wrong with it.
    Text(TextArgs),
    /// Measure packets a second and cycles a packet of the datapath on synthetic ports.
    Bench(BenchArgs),
}

/// Form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object a line for each scenario; stable.
    Json,
    /// One row for each counter; stable.
    Csv,
}

/// Where a report goes, and in which form.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Write captures, flows and report.json of each scenario to DIR/STEM/, where STEM is the file name without ending.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Form of the report on standard output.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print every event of every packet as well.
    #[arg(long)]
    pub trace: bool,
}

/// Arguments of `recirc run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario files.
    #[arg(required_unless_present = "ovs", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Instead: run a plain file of ovs-vsctl, ovs-ofctl, ovs-appctl and ovs-dpctl commands, as pasted from a bug report,
    /// and print what each prints; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "out", "format", "trace"])]
    pub ovs: Option<PathBuf>,
    /// Seed of every random stream, instead of the files' own.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Arguments of `recirc replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The capture: pcap or pcapng.
    #[arg(value_name = "PCAP")]
    pub capture: PathBuf,
    /// OpenFlow rules, one a line as ovs-ofctl add-flows reads them.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// A port of the switch; may be given again. The first is where the capture arrives. Another one, p2, is added
    /// where there would be one only.
    #[arg(long = "port", value_name = "NAME", default_value = "p1")]
    pub ports: Vec<String>,
    /// What was captured on interface IFACE (its name, or its index from 0) arrives at PORT; may be given again.
    #[arg(long = "map", value_name = "IFACE=PORT")]
    pub map: Vec<PortMap>,
    /// How fast: as captured (1x), N times that (10x), a packet rate (1000pps), or back to back (topspeed).
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub speed: Pacing,
    /// How often the capture is sent.
    #[arg(long = "loop", value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,
    /// Seed of every random stream.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `IFACE=PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMap {
    /// Interface of the capture, by name or index.
    pub interface: String,
    /// Port of the switch.
    pub port: String,
}

impl FromStr for PortMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((interface, port)) if !interface.is_empty() && !port.is_empty() => {
                Ok(Self { interface: interface.to_owned(), port: port.to_owned() })
            }
            _ => Err("use INTERFACE=PORT, such as eth0=p1 or 0=p1".into()),
        }
    }
}

/// Arguments of `recirc trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Scenario file: the switch is taken as it is once the scenario's steps have run.
    pub file: PathBuf,
    /// The switch (bridge).
    #[arg(long, value_name = "NAME")]
    pub switch: String,
    /// The packet: a flow as ofproto/trace takes it (in_port=p1,tcp,...), or in_port and a frame in hexadecimal.
    #[arg(value_name = "FLOW-OR-HEX", required = true, num_args = 1..)]
    pub packet: Vec<String>,
    /// Connection state with which the packet comes back from the connection tracker, such as trk,est; once for each time.
    #[arg(long, value_name = "FLAGS")]
    pub ct_next: Vec<String>,
    /// Make a packet of the flow, and do to the switch what it would do.
    #[arg(long)]
    pub generate: bool,
    /// Tell ports by name.
    #[arg(long)]
    pub names: bool,
}

/// Arguments of `recirc tui`.
#[derive(Debug, Args)]
pub struct TuiArgs {
    /// Scenario file.
    pub file: PathBuf,
    /// Seed of every random stream, instead of the file's own.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Arguments of `recirc golden`.
#[derive(Debug, Args)]
pub struct GoldenArgs {
    /// What to do with golden captures.
    #[command(subcommand)]
    pub action: GoldenAction,
}

/// What `recirc golden` does.
#[derive(Debug, Subcommand)]
pub enum GoldenAction {
    /// Compare what the scenarios send with their golden captures; exit 4 where they differ.
    Check {
        /// Scenario files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Rewrite the scenarios' golden captures with what they send now.
    Bless {
        /// Scenario files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// Form of the report of `recirc live`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LiveFormat {
    /// For people.
    #[default]
    Text,
    /// One object on one line, its switches as in report.json.
    Json,
}

/// Arguments of `recirc live`.
#[derive(Debug, Args)]
pub struct LiveArgs {
    /// The file: switches with real ports.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long it runs: `10s`. Without this, until Ctrl-C.
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<Duration>,
    /// Seed of every random stream, instead of the file's own.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Form of the report at the end.
    #[arg(long, value_enum, default_value_t)]
    pub format: LiveFormat,
}

/// A duration on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Duration(pub Span);

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        sim::quantity::time(text).map(Self).map_err(|error| error.to_string())
    }
}

/// Arguments of `recirc compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Scenario files.
    #[arg(required_unless_present = "random", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Make N scenarios of rules, connections and frames by chance, and compare them too.
    #[arg(long, value_name = "N")]
    pub random: Option<u64>,
    /// Seed of the first random scenario; the next ones have the next numbers.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "random")]
    pub seed: u64,
    /// Keep each random scenario that shows a difference as a file in DIR.
    #[arg(long, value_name = "DIR", requires = "random")]
    pub keep: Option<PathBuf>,
    /// Where Open vSwitch is installed: the folder with bin, sbin and share/openvswitch.
    #[arg(long, value_name = "PREFIX", default_value = "/usr")]
    pub ovs: PathBuf,
    /// Show all differences, not the first alone.
    #[arg(long)]
    pub all: bool,
}

/// A language of Open vSwitch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// An OpenFlow rule, as ovs-ofctl add-flow takes it.
    Rule,
    /// An OpenFlow match.
    Match,
    /// A datapath flow, as ovs-appctl dpctl/dump-flows prints it.
    Flow,
    /// Datapath actions.
    Actions,
}

/// Arguments of `recirc text`.
#[derive(Debug, Args)]
pub struct TextArgs {
    /// What each line is.
    #[arg(value_enum)]
    pub language: Language,
    /// The lines; standard input if there are none. Blank lines and those that start with # are left out.
    #[arg(value_name = "LINE")]
    pub lines: Vec<String>,
    /// A port's name: understood in the text, and printed instead of the number; may be given again.
    #[arg(long = "port", value_name = "NAME=NUMBER")]
    pub ports: Vec<PortNumber>,
    /// Print flows with what they wildcard, as dump-flows -m does.
    #[arg(short = 'm', long)]
    pub more: bool,
}

/// `NAME=NUMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortNumber {
    /// Name of the port.
    pub name: String,
    /// Its number.
    pub number: u32,
}

impl FromStr for PortNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=').map(|(name, number)| (name, number.parse())) {
            Some((name, Ok(number))) if !name.is_empty() => Ok(Self { name: name.to_owned(), number }),
            _ => Err("use NAME=NUMBER, such as p1=1".into()),
        }
    }
}

/// Arguments of `recirc bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Run the cases whose name contains this; all if not given.
    #[arg(value_name = "CASE")]
    pub case: Option<String>,
    /// List the cases.
    #[arg(long)]
    pub list: bool,
    /// Rounds for each case; the median is printed.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }

    /// How a command is called, with its arguments in short.
    fn synopsis(command: &clap::Command, parent: &str) -> Vec<(String, String)> {
        let name = format!("{parent} {}", command.get_name());
        if command.has_subcommands() {
            return command.get_subcommands().flat_map(|sub| synopsis(sub, &name)).collect();
        }
        let mut words = vec![name];
        let (positional, options): (Vec<_>, Vec<_>) =
            command.get_arguments().filter(|arg| arg.get_id() != "help").partition(|arg| arg.is_positional());
        for arg in positional.into_iter().chain(options) {
            let choices: Vec<String> =
                arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            let takes_value = arg.get_action().takes_values();
            let value = match (choices.is_empty(), arg.get_value_names()) {
                (false, _) if takes_value => choices.join("\\|"),
                (_, Some(names)) if takes_value => names[0].to_string(),
                _ => String::new(),
            };
            let word = match arg.get_long() {
                Some(long) if value.is_empty() => format!("--{long}"),
                Some(long) => format!("--{long} {value}"),
                None => value,
            };
            let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1)
                || matches!(arg.get_action(), clap::ArgAction::Append);
            let word = if many { format!("{word}...") } else { word };
            words.push(if arg.is_required_set() { word } else { format!("[{word}]") });
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        vec![(words.join(" "), about)]
    }

    /// The commands as Markdown, as the README shows them.
    fn markdown() -> String {
        let command = Cli::command();
        let rows = command.get_subcommands().flat_map(|sub| synopsis(sub, "recirc"));
        let demo =
            "| `recirc` | The demo: in the terminal user interface on a terminal, else as a text report |\n";
        let rows = rows.map(|(call, about)| format!("| `{call}` | {about} |\n"));
        let head = format!("| command | does |\n|---|---|\n{demo}");
        std::iter::once(head).chain(rows).collect()
    }

    #[test]
    fn the_readme_shows_the_commands() {
        crate::readme::check("commands", &markdown());
    }

    #[test]
    fn maps() {
        assert_eq!("eth0=p1".parse(), Ok(PortMap { interface: "eth0".into(), port: "p1".into() }));
        for bad in ["", "=", "eth0", "eth0=", "=p1"] {
            assert!(bad.parse::<PortMap>().is_err(), "{bad}");
        }
        assert_eq!("p1=7".parse(), Ok(PortNumber { name: "p1".into(), number: 7 }));
        assert!("p1=x".parse::<PortNumber>().is_err());
    }
}
