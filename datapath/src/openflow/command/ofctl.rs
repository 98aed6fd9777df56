//! The language of ovs-ofctl.
//!
//! Rules, groups and ports stay text here: what they mean depends on the names in a bridge. Counterpart: OVS
//! `utilities/ovs-ofctl.c`.

use super::args::{Args, Word};
use super::error::{ParseError, ParseErrorKind};
use crate::openflow::flow_mod::FlowModCommand;
use crate::openflow::group::{BucketPlace, GroupModCommand};
use crate::openflow::protocol::{OfVersion, Protocols};

/// A call of ovs-ofctl.
#[derive(Clone, Debug)]
pub struct Ofctl {
    /// Options.
    pub options: OfctlOptions,
    /// Name of the command.
    pub name: Word,
    /// What to do.
    pub verb: Verb,
}

/// Options of ovs-ofctl.
#[derive(Clone, Debug, Default)]
pub struct OfctlOptions {
    /// OpenFlow versions that may be spoken (`-O`); empty: any, but 1.0 is preferred.
    pub versions: Vec<OfVersion>,
    /// Match and priority must be the same (`--strict`).
    pub strict: bool,
    /// All changes, or none (`--bundle`).
    pub bundle: bool,
    /// Ports by name (`--names`), or not even accepted by name (`--no-names`).
    pub names: Option<bool>,
    /// Rules without counters (`--no-stats`).
    pub no_stats: bool,
    /// Ways to write flows that may be used (`-F`), where only some of a version are.
    pub protocols: Option<Protocols>,
    /// Rules that are there already are added again (`--readd`).
    pub readd: bool,
    /// Bytes without places (`--bare`).
    pub bare: bool,
    /// Checksums of composed packets are wrong (`--bad-csum`).
    pub bad_csum: bool,
    /// Sort rules by these fields (`--sort`, `--rsort`), with whether the order is reversed.
    pub sort: Vec<(String, bool)>,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Change rules, as one text says (`add-flow`, `mod-flows`, `del-flows`).
    FlowMod {
        /// Bridge.
        bridge: Word,
        /// What to do.
        command: FlowModCommand,
        /// Rule or match; none: everything.
        text: Option<Word>,
    },
    /// Change rules, as a file says (`add-flows`).
    FlowFile {
        /// Bridge.
        bridge: Word,
        /// File.
        file: Word,
        /// What to do; `None`: lines may say.
        command: Option<FlowModCommand>,
    },
    /// Make the rules those of a file.
    ReplaceFlows {
        /// Bridge.
        bridge: Word,
        /// File.
        file: Word,
    },
    /// Print rules.
    DumpFlows(Word, Option<Word>),
    /// Print sums over rules.
    DumpAggregate(Word, Option<Word>),
    /// Change groups.
    GroupMod {
        /// Bridge.
        bridge: Word,
        /// What to do.
        command: GroupModCommand,
        /// Group; none: all.
        text: Option<Word>,
    },
    /// Add groups of a file.
    GroupFile {
        /// Bridge.
        bridge: Word,
        /// File.
        file: Word,
    },
    /// Print groups.
    DumpGroups(Word, Option<Word>),
    /// Print how two sets of rules differ: of bridges, or of files.
    DiffFlows(Word, Word),
    /// Print what tables, groups or queues do or can do.
    Table(Word, TableVerb),
    /// Carry out actions on packets: bridge, then a text, or port, actions and packets.
    PacketOut(Word, Vec<Word>),
    /// Print a frame that has these fields; with a payload.
    ComposePacket(Word, Option<Word>),
    /// Print the message that would add a rule.
    ParseFlow(Word),
    /// Print the messages that the lines of a file stand for.
    ParseFlows(Word),
    /// Change meters, or print them.
    Meter(Word, MeterVerb),
    /// Print counters of ports.
    DumpPorts(Word, Option<Word>),
    /// Print ports.
    DumpPortsDesc(Word, Option<Word>),
    /// Print what the switch is.
    DumpDesc(Word),
    /// Print features and ports.
    Show(Word),
    /// Change the configuration of a port.
    ModPort {
        /// Bridge.
        bridge: Word,
        /// Port.
        port: Word,
        /// What to change.
        change: Word,
    },
    /// What to do about the options that `tun_metadata` fields stand for.
    Tlv(Word, TlvVerb),
    /// Print how fragments are treated.
    GetFrags(Word),
    /// Change how fragments are treated.
    SetFrags(Word, Word),
}

/// What to print about tables, groups or queues.
#[derive(Clone, Debug)]
pub enum TableVerb {
    /// Rules and searches of tables.
    Stats,
    /// What tables can do.
    Features,
    /// How tables are configured.
    Desc,
    /// Packets of groups, or of one.
    GroupStats(Option<Word>),
    /// What groups can do.
    GroupFeatures,
    /// Packets of queues: of a port, of one of its queues.
    QueueStats(Option<Word>, Option<Word>),
    /// Queues of ports, or of one.
    QueueConfig(Option<Word>),
}

/// What to do about GENEVE options.
#[derive(Clone, Debug)]
pub enum TlvVerb {
    /// Add mappings.
    Add(Word),
    /// Remove some mappings, or all.
    Delete(Option<Word>),
    /// Print them.
    Dump,
}

/// What to do about meters.
#[derive(Clone, Debug)]
pub enum MeterVerb {
    /// Make one.
    Add(Word),
    /// Change one.
    Modify(Word),
    /// Remove one, or all.
    Delete(Option<Word>),
    /// Print what one, or all, are to do.
    Dump(Option<Word>),
    /// Print counters of one, or all.
    Stats(Option<Word>),
    /// Print what meters can do.
    Features,
}

/// Options that change nothing here.
const IGNORED: [&str; 12] = [
    "--verbose",
    "-v",
    "-m",
    "--more",
    "--timestamp",
    "--no-syslog",
    "--color",
    "--stats",
    "--read-only",
    "-t",
    "--timeout",
    "--no-wait",
];
/// Options with an argument.
const WITH_ARGUMENT: [&str; 7] = ["-O", "--protocols", "-F", "--flow-format", "-t", "--timeout", "-P"];

/// Reads a call of ovs-ofctl.
///
/// # Errors
/// Names the first word that is not understood.
pub fn parse(argv: &[&str]) -> Result<Ofctl, ParseError> {
    let mut args = Args::new(argv);
    let mut options = OfctlOptions::default();
    let mut words = Vec::new();
    // Options may stand anywhere.
    loop {
        while let Some(option) = args.next_option(&WITH_ARGUMENT)? {
            let value = option.value.as_deref().unwrap_or("");
            match option.name.as_str() {
                "-O" | "--protocols" => options.versions = versions(&args, &option.word(), value)?,
                "--strict" => options.strict = true,
                "--bundle" => options.bundle = true,
                "--names" => options.names = Some(true),
                "--no-names" => options.names = Some(false),
                "--no-stats" => options.no_stats = true,
                "--readd" => options.readd = true,
                "--bare" => options.bare = true,
                "--bad-csum" => options.bad_csum = true,
                "--sort" => options.sort.push((value.to_owned(), false)),
                "--rsort" => options.sort.push((value.to_owned(), true)),
                "-F" | "--flow-format" => flow_format(&args, &option.word(), value, &mut options)?,
                name if IGNORED.contains(&name) => {}
                name => {
                    let kind = ParseErrorKind::UnknownOption(name.to_owned());
                    return Err(args.refuse(&option.word(), kind));
                }
            }
        }
        if args.peek() == Some("--") {
            args.next();
            words.extend(args.rest());
        }
        match args.next_word() {
            Some(word) => words.push(word),
            None => break,
        }
    }
    let mut words = words.into_iter();
    let Some(name) = words.next() else {
        return Err(args.error_at(args.place(), ParseErrorKind::NoCommand));
    };
    let mut operands = Operands { args: &args, name: &name, words };
    let verb = verb(&mut operands, &options)?;
    operands.finish()?;
    Ok(Ofctl { options, name, verb })
}

fn versions(args: &Args<'_>, word: &Word, value: &str) -> Result<Vec<OfVersion>, ParseError> {
    value
        .split([',', ' ', '+'])
        .filter(|name| !name.is_empty())
        .map(|name| {
            let unknown = || args.refuse(word, ParseErrorKind::UnknownVersion(name.to_owned()));
            OfVersion::from_name(name).ok_or_else(unknown)
        })
        .collect()
}

/// `-F nxm` and such: only OpenFlow 1.0 and, by version, the rest.
fn flow_format(
    args: &Args<'_>,
    word: &Word,
    value: &str,
    options: &mut OfctlOptions,
) -> Result<(), ParseError> {
    let version = match value.to_ascii_lowercase().as_str() {
        "any" => return Ok(()),
        name @ ("nxm"
        | "nxm-table_id"
        | "nxm+table_id"
        | "openflow10"
        | "openflow10+table_id"
        | "openflow10-table_id") => {
            options.protocols = Some(match name {
                "nxm" => Protocols::OF10_NXM_ANY,
                "nxm-table_id" => Protocols::OF10_NXM,
                "nxm+table_id" => Protocols::OF10_NXM_TID,
                "openflow10" => Protocols::OF10_STD | Protocols::OF10_STD_TID,
                "openflow10+table_id" => Protocols::OF10_STD_TID,
                _ => Protocols::OF10_STD,
            });
            OfVersion::Of10
        }
        "openflow11" => OfVersion::Of11,
        "oxm-openflow12" => OfVersion::Of12,
        "oxm-openflow13" => OfVersion::Of13,
        "oxm-openflow14" => OfVersion::Of14,
        "oxm-openflow15" => OfVersion::Of15,
        _ => {
            let kind = ParseErrorKind::Invalid { word: value.to_owned(), what: "a valid flow format" };
            return Err(args.refuse(word, kind));
        }
    };
    options.versions = vec![version];
    Ok(())
}

/// Words behind the name of a command.
struct Operands<'a, I> {
    args: &'a Args<'a>,
    name: &'a Word,
    words: I,
}

impl<I: Iterator<Item = Word>> Operands<'_, I> {
    fn need(&mut self, what: &'static str) -> Result<Word, ParseError> {
        self.words.next().ok_or_else(|| {
            let kind = ParseErrorKind::Missing { command: self.name.text.clone(), what };
            self.args.error_at(self.args.place(), kind)
        })
    }

    fn finish(&mut self) -> Result<(), ParseError> {
        self.words.next().map_or(Ok(()), |word| {
            let kind = ParseErrorKind::Extra { command: self.name.text.clone(), word: word.text.clone() };
            Err(self.args.refuse(&word, kind))
        })
    }
}

const BRIDGE: &str = "a bridge";

fn verb<I: Iterator<Item = Word>>(
    ops: &mut Operands<'_, I>,
    options: &OfctlOptions,
) -> Result<Verb, ParseError> {
    Ok(match ops.name.text.as_str() {
        "add-flow" => flow_mod(ops, FlowModCommand::Add, Some("a bridge and a flow"))?,
        "mod-flows" if options.strict => {
            flow_mod(ops, FlowModCommand::ModifyStrict, Some("a bridge and a flow"))?
        }
        "mod-flows" => flow_mod(ops, FlowModCommand::Modify, Some("a bridge and a flow"))?,
        "del-flows" if options.strict => flow_mod(ops, FlowModCommand::DeleteStrict, None)?,
        "del-flows" => flow_mod(ops, FlowModCommand::Delete, None)?,
        "add-flows" => {
            let bridge = ops.need("a bridge and a file")?;
            Verb::FlowFile { bridge, file: ops.need("a bridge and a file")?, command: None }
        }
        "replace-flows" => {
            let bridge = ops.need("a bridge and a file")?;
            Verb::ReplaceFlows { bridge, file: ops.need("a bridge and a file")? }
        }
        "diff-flows" => {
            let left = ops.need("two sources of flows")?;
            Verb::DiffFlows(left, ops.need("two sources of flows")?)
        }
        "dump-tables" => Verb::Table(ops.need(BRIDGE)?, TableVerb::Stats),
        "dump-table-features" => Verb::Table(ops.need(BRIDGE)?, TableVerb::Features),
        "dump-table-desc" => Verb::Table(ops.need(BRIDGE)?, TableVerb::Desc),
        "dump-group-features" => Verb::Table(ops.need(BRIDGE)?, TableVerb::GroupFeatures),
        "dump-group-stats" => Verb::Table(ops.need(BRIDGE)?, TableVerb::GroupStats(ops.words.next())),
        "queue-stats" => {
            let (bridge, port) = (ops.need(BRIDGE)?, ops.words.next());
            Verb::Table(bridge, TableVerb::QueueStats(port, ops.words.next()))
        }
        "queue-get-config" => Verb::Table(ops.need(BRIDGE)?, TableVerb::QueueConfig(ops.words.next())),
        "packet-out" => packet_out(ops)?,
        "compose-packet" => Verb::ComposePacket(ops.need("a flow")?, ops.words.next()),
        "parse-flow" => Verb::ParseFlow(ops.need("a flow")?),
        "parse-flows" => Verb::ParseFlows(ops.need("a file")?),
        "dump-flows" => Verb::DumpFlows(ops.need(BRIDGE)?, ops.words.next()),
        "dump-aggregate" => Verb::DumpAggregate(ops.need(BRIDGE)?, ops.words.next()),
        "dump-ports" => Verb::DumpPorts(ops.need(BRIDGE)?, ops.words.next()),
        "dump-ports-desc" => Verb::DumpPortsDesc(ops.need(BRIDGE)?, ops.words.next()),
        "dump-desc" => Verb::DumpDesc(ops.need(BRIDGE)?),
        "show" => Verb::Show(ops.need(BRIDGE)?),
        "get-frags" => Verb::GetFrags(ops.need(BRIDGE)?),
        "set-frags" => {
            let bridge = ops.need("a bridge and a mode")?;
            Verb::SetFrags(bridge, ops.need("a bridge and a mode")?)
        }
        "mod-port" => {
            let what = "a bridge, a port and an action";
            let (bridge, port) = (ops.need(what)?, ops.need(what)?);
            Verb::ModPort { bridge, port, change: ops.need(what)? }
        }
        "add-tlv-map" => {
            let bridge = ops.need("a bridge and a mapping")?;
            Verb::Tlv(bridge, TlvVerb::Add(ops.need("a bridge and a mapping")?))
        }
        "del-tlv-map" => Verb::Tlv(ops.need(BRIDGE)?, TlvVerb::Delete(ops.words.next())),
        "dump-tlv-map" => Verb::Tlv(ops.need(BRIDGE)?, TlvVerb::Dump),
        name if name.contains("meter") => meter_verb(ops)?,
        _ => group_verb(ops)?,
    })
}

fn packet_out<I: Iterator<Item = Word>>(ops: &mut Operands<'_, I>) -> Result<Verb, ParseError> {
    let bridge = ops.need("a bridge and a packet")?;
    let first = ops.need("a bridge and a packet")?;
    let rest: Vec<Word> = ops.words.by_ref().collect();
    if rest.len() == 1 {
        let kind = ParseErrorKind::Usage("Too many arguments (4)".to_owned());
        return Err(ops.args.refuse(&rest[0], kind));
    }
    Ok(Verb::PacketOut(bridge, std::iter::once(first).chain(rest).collect()))
}

fn flow_mod<I: Iterator<Item = Word>>(
    ops: &mut Operands<'_, I>,
    command: FlowModCommand,
    needs: Option<&'static str>,
) -> Result<Verb, ParseError> {
    let bridge = ops.need(needs.unwrap_or(BRIDGE))?;
    let text = match needs {
        Some(what) => Some(ops.need(what)?),
        None => ops.words.next(),
    };
    // A file of rules may be named in place of one: `-`.
    match text {
        Some(file) if file.text == "-" => Ok(Verb::FlowFile { bridge, file, command: Some(command) }),
        text => Ok(Verb::FlowMod { bridge, command, text }),
    }
}

fn group_verb<I: Iterator<Item = Word>>(ops: &mut Operands<'_, I>) -> Result<Verb, ParseError> {
    let insert = GroupModCommand::InsertBucket(BucketPlace::Last);
    let remove = GroupModCommand::RemoveBucket(BucketPlace::All);
    let (command, needs_text) = match ops.name.text.as_str() {
        "add-group" => (GroupModCommand::Add, true),
        "mod-group" => (GroupModCommand::Modify, true),
        "insert-buckets" | "insert-bucket" => (insert, true),
        "remove-buckets" | "remove-bucket" => (remove, true),
        "del-groups" | "del-group" => (GroupModCommand::Delete, false),
        "add-groups" => {
            let bridge = ops.need("a bridge and a file")?;
            return Ok(Verb::GroupFile { bridge, file: ops.need("a bridge and a file")? });
        }
        "dump-groups" => return Ok(Verb::DumpGroups(ops.need(BRIDGE)?, ops.words.next())),
        word if UNSUPPORTED.contains(&word) => {
            return Err(ops.args.refuse(ops.name, ParseErrorKind::Unsupported(word.to_owned())));
        }
        word => return Err(ops.args.refuse(ops.name, ParseErrorKind::UnknownCommand(word.to_owned()))),
    };
    let bridge = ops.need(if needs_text { "a bridge and a group" } else { BRIDGE })?;
    let text = if needs_text { Some(ops.need("a bridge and a group")?) } else { ops.words.next() };
    Ok(Verb::GroupMod { bridge, command, text })
}

fn meter_verb<I: Iterator<Item = Word>>(ops: &mut Operands<'_, I>) -> Result<Verb, ParseError> {
    const METER: &str = "a bridge and a meter";
    let name = ops.name.text.as_str();
    if !METER_COMMANDS.contains(&name) {
        return Err(ops.args.refuse(ops.name, ParseErrorKind::UnknownCommand(name.to_owned())));
    }
    let needs_meter = matches!(name, "add-meter" | "mod-meter" | "del-meter" | "dump-meter");
    let bridge = ops.need(if needs_meter { METER } else { BRIDGE })?;
    let verb = match name {
        "add-meter" => MeterVerb::Add(ops.need(METER)?),
        "mod-meter" => MeterVerb::Modify(ops.need(METER)?),
        "del-meter" => MeterVerb::Delete(Some(ops.need(METER)?)),
        "del-meters" => MeterVerb::Delete(ops.words.next()),
        "dump-meter" => MeterVerb::Dump(Some(ops.need(METER)?)),
        "dump-meters" => MeterVerb::Dump(ops.words.next()),
        "meter-stats" => MeterVerb::Stats(ops.words.next()),
        _ => MeterVerb::Features,
    };
    Ok(Verb::Meter(bridge, verb))
}

/// Commands about meters.
const METER_COMMANDS: [&str; 8] = [
    "add-meter",
    "mod-meter",
    "del-meter",
    "del-meters",
    "dump-meter",
    "dump-meters",
    "meter-stats",
    "meter-features",
];

/// Commands of Open vSwitch that this switch does not have.
const UNSUPPORTED: [&str; 19] = [
    "mod-table",
    "monitor",
    "snoop",
    "probe",
    "ping",
    "benchmark",
    "dump-ipfix-bridge",
    "dump-ipfix-flow",
    "ct-flush",
    "ct-flush-zone",
    "bundle",
    "parse-group",
    "parse-packet",
    "ofp-parse",
    "ofp-parse-pcap",
    "ofp-print",
    "encode-hello",
    "test-flows",
    "help",
];
