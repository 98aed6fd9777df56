//! The languages of ovs-appctl and ovs-dpctl.
//!
//! `ovs-dpctl X` is the same as `ovs-appctl dpctl/X`. Flows and actions stay text here: ports in them have names that only
//! the switch knows. Counterpart: OVS `utilities/ovs-appctl.c`, `lib/dpctl.c`, and the commands that the parts of
//! ovs-vswitchd register with `unixctl_command_register()`.

use super::args::{Args, Word};
use super::error::{ParseError, ParseErrorKind};
use super::trace::{self, TraceCall};

/// A call of ovs-appctl or ovs-dpctl.
#[derive(Clone, Debug)]
pub struct Appctl {
    /// Name of the command.
    pub name: Word,
    /// What to do.
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Nothing: the command is about logs, or about a clock that is not there.
    Nothing(&'static str),
    /// Receive packets on a dummy port.
    Receive {
        /// Port.
        port: Word,
        /// Packets, in hexadecimal or as datapath flows, each with its length if given.
        packets: Vec<(Word, Option<Word>)>,
    },
    /// Bring dummy ports up or down.
    SetAdminState {
        /// Port; none: all.
        port: Option<Word>,
        /// `up` or `down`.
        state: Word,
    },
    /// Tell what a packet would meet.
    Trace(Box<TraceCall>),
    /// Print learned addresses of bridges; none: of all.
    FdbShow(Vec<Word>),
    /// Forget learned addresses.
    FdbFlush(Option<Word>),
    /// Print counts of the learning table.
    FdbStatsShow(Option<Word>),
    /// Start these counts again.
    FdbStatsClear(Option<Word>),
    /// Make a static entry.
    FdbAdd {
        /// Bridge.
        bridge: Word,
        /// Port.
        port: Word,
        /// VLAN.
        vlan: Word,
        /// Address.
        mac: Word,
    },
    /// Delete a static entry.
    FdbDel {
        /// Bridge.
        bridge: Word,
        /// VLAN.
        vlan: Word,
        /// Address.
        mac: Word,
    },
    /// Print the multicast groups of a bridge, and its routers.
    MdbShow(Word),
    /// Forget multicast groups of a bridge; none: of all.
    MdbFlush(Option<Word>),
    /// Print datapaths, bridges and ports.
    DpifShow,
    /// Print the rules of a bridge as they are kept.
    BridgeDumpFlows(Word),
    /// Print names of bridges.
    OfprotoList,
    /// Print datapath flows; of the ports of a bridge if one is named (`dpif/dump-flows`).
    DumpFlows {
        /// Bridge, and that it is `dpif/dump-flows`.
        bridge: Option<Word>,
        /// `-m`.
        verbose: bool,
        /// `--names`.
        names: bool,
        /// Only flows that match this (`filter=`).
        filter: Option<Word>,
        /// Only flows of such a type (`type=`).
        kinds: Vec<String>,
    },
    /// Add or change a datapath flow.
    PutFlow {
        /// Flow.
        flow: Word,
        /// Actions.
        actions: Word,
        /// It may be new.
        create: bool,
        /// It may exist.
        modify: bool,
        /// Start counters again (`--clear`).
        clear: bool,
        /// Print what it counted before (`--statistics`).
        statistics: bool,
    },
    /// Delete a datapath flow.
    DelFlow {
        /// Flow, or `ufid:`.
        flow: Word,
        /// Print what it counted (`--statistics`).
        statistics: bool,
    },
    /// Print one datapath flow.
    GetFlow(Word),
    /// Delete all datapath flows.
    DelFlows,
    /// Print a datapath and its ports; with counters.
    DpShow {
        /// `-s`.
        statistics: bool,
    },
    /// Print names of datapaths.
    DumpDps,
    /// Print counts of lookups (`dpif-netdev/pmd-stats-show`, `pmd-perf-show`).
    PmdStatsShow,
    /// Start these counts again.
    PmdStatsClear,
    /// About connections and fragments: `dpctl/dump-conntrack`, `dpctl/ct-get-limits`, `dpctl/ipf-get-status`, ...
    Conntrack {
        /// Name behind `dpctl/`.
        command: String,
        /// Words behind it, but for the datapath.
        words: Vec<Word>,
    },
    /// About tunnels and their underlay: `ovs/route/show`, `tnl/neigh/set`, `netdev-dummy/ip4addr`, ...
    Tunnel {
        /// Whole name.
        command: String,
        /// Words behind it.
        words: Vec<Word>,
    },
    /// Tell which datapath flows were changed or removed, and why. Open vSwitch has no such command.
    WhyDeleted {
        /// Most lines.
        last: Option<Word>,
    },
    /// Bring statistics and datapath flows up to date.
    RevalidatorWait,
    /// Remove all datapath flows.
    RevalidatorPurge,
    /// Print counts of upcalls.
    UpcallShow,
    /// Change the most datapath flows there may be.
    SetFlowLimit(Word),
    /// Print a counter of events.
    CoverageRead(Word),
    /// Print the version.
    Version,
}

/// Reads a call of ovs-appctl.
///
/// # Errors
/// Names the first word that is not understood.
pub fn parse_appctl(argv: &[&str]) -> Result<Appctl, ParseError> {
    let mut args = Args::new(argv);
    while let Some(option) = args.next_option(&["-t", "--target", "-T", "--timeout"])? {
        match option.name.as_str() {
            "-t" | "--target" if option.value.as_deref() == Some("ovs-vswitchd") => {}
            "-t" | "--target" => {
                let what = format!("target {}", option.value.as_deref().unwrap_or(""));
                return Err(args.refuse(&option.word(), ParseErrorKind::Unsupported(what)));
            }
            "-T" | "--timeout" | "--pretty" => {}
            name => {
                let kind = ParseErrorKind::UnknownOption(name.to_owned());
                return Err(args.refuse(&option.word(), kind));
            }
        }
    }
    let Some(name) = args.next_word() else {
        return Err(args.error_at(args.place(), ParseErrorKind::NoCommand));
    };
    command(&mut args, name)
}

/// Reads a call of ovs-dpctl.
///
/// # Errors
/// Names the first word that is not understood.
pub fn parse_dpctl(argv: &[&str]) -> Result<Appctl, ParseError> {
    let mut args = Args::new(argv);
    let mut options = Vec::new();
    while let Some(option) = args.next_option(&["-t", "--timeout"])? {
        options.push(option);
    }
    let Some(mut name) = args.next_word() else {
        return Err(args.error_at(args.place(), ParseErrorKind::NoCommand));
    };
    name.text.insert_str(0, "dpctl/");
    args.set_command(&name.text);
    let options =
        options.into_iter().filter(|o| !matches!(o.name.as_str(), "-t" | "--timeout" | "-v" | "--verbose"));
    let words = options.map(|option| option.word());
    let mut words: Vec<Word> = words.chain(args.rest()).collect();
    let mut result = dpctl(&args, &name, &mut words);
    if let Err(ParseError {
        kind: ParseErrorKind::UnknownCommand(word) | ParseErrorKind::Unsupported(word),
        ..
    }) = &mut result
    {
        *word = word.replacen("dpctl/", "", 1);
    }
    result.map(|verb| Appctl { name, verb })
}

fn command(args: &mut Args<'_>, name: Word) -> Result<Appctl, ParseError> {
    args.set_command(&name.text);
    let verb = match name.text.as_str() {
        "netdev-dummy/receive" => receive(args)?,
        "netdev-dummy/set-admin-state" => {
            let first = args.need("up or down")?;
            match args.next_word() {
                Some(state) => Verb::SetAdminState { port: Some(first), state },
                None => Verb::SetAdminState { port: None, state: first },
            }
        }
        "ofproto/trace" => Verb::Trace(Box::new(trace::parse(args, false)?)),
        "ofproto/trace-packet-out" => Verb::Trace(Box::new(trace::parse(args, true)?)),
        "ofproto/list" => Verb::OfprotoList,
        "bridge/dump-flows" => {
            let words = args.rest();
            // `--offload-stats` adds nothing where nothing is offloaded.
            let bridge = words.into_iter().find(|word| !word.text.starts_with("--"));
            Verb::BridgeDumpFlows(bridge.ok_or_else(|| missing(args, "a bridge"))?)
        }
        "fdb/show" => Verb::FdbShow(args.rest()),
        "fdb/flush" => Verb::FdbFlush(args.next_word()),
        "fdb/stats-show" => Verb::FdbStatsShow(args.next_word()),
        "fdb/stats-clear" => Verb::FdbStatsClear(args.next_word()),
        "fdb/add" => {
            let what = "a bridge, a port, a VLAN and an address";
            let (bridge, port) = (args.need(what)?, args.need(what)?);
            Verb::FdbAdd { bridge, port, vlan: args.need(what)?, mac: args.need(what)? }
        }
        "fdb/del" => {
            let what = "a bridge, a VLAN and an address";
            Verb::FdbDel { bridge: args.need(what)?, vlan: args.need(what)?, mac: args.need(what)? }
        }
        "mdb/show" => Verb::MdbShow(args.need("a bridge")?),
        "mdb/flush" => Verb::MdbFlush(args.next_word()),
        "dpif/show" => Verb::DpifShow,
        "dpif/dump-flows" => dump_flows(args, true)?,
        "dpif-netdev/pmd-stats-show" | "dpif-netdev/pmd-perf-show" => {
            args.rest();
            Verb::PmdStatsShow
        }
        "dpif-netdev/pmd-stats-clear" => {
            args.rest();
            Verb::PmdStatsClear
        }
        "revalidator/wait" => Verb::RevalidatorWait,
        "revalidator/purge" => Verb::RevalidatorPurge,
        "recirc/why-deleted" => Verb::WhyDeleted { last: args.next_word() },
        "upcall/show" => Verb::UpcallShow,
        "upcall/set-flow-limit" => Verb::SetFlowLimit(args.need("a number")?),
        "coverage/read-counter" => Verb::CoverageRead(args.need("a counter")?),
        "version" => Verb::Version,
        word if word.starts_with("vlog/") || LOGS.contains(&word) => {
            args.rest();
            Verb::Nothing("")
        }
        word if TUNNEL.contains(&word) => Verb::Tunnel { command: word.to_owned(), words: args.rest() },
        word if word.starts_with("dpctl/") => {
            let mut words = args.rest();
            let verb = dpctl(args, &name, &mut words)?;
            return Ok(Appctl { name, verb });
        }
        word if UNSUPPORTED.iter().any(|begin| word.starts_with(begin)) => {
            return Err(args.refuse(&name, ParseErrorKind::Unsupported(word.to_owned())));
        }
        word => return Err(args.refuse(&name, ParseErrorKind::UnknownCommand(word.to_owned()))),
    };
    args.finish()?;
    Ok(Appctl { name, verb })
}

/// Commands whose effect is on logs and threads only.
const LOGS: [&str; 4] = ["time/stop", "upcall/enable-ufid", "revalidator/resume", "coverage/show"];

/// Commands on tunnels and their underlay.
const TUNNEL: [&str; 19] = [
    "netdev-dummy/ip4addr",
    "netdev-dummy/ip6addr",
    "ovs/route/add",
    "ovs/route/del",
    "ovs/route/show",
    "ovs/route/lookup",
    "tnl/ports/show",
    "tnl/egress_port_range",
    "tnl/neigh/show",
    "tnl/neigh/set",
    "tnl/neigh/flush",
    "tnl/neigh/aging",
    "tnl/neigh/retrans_time",
    "tnl/arp/show",
    "tnl/arp/set",
    "tnl/arp/flush",
    "tnl/arp/aging",
    "ofproto/list-tunnels",
    "tnl/arp/retrans_time",
];

/// How commands of Open vSwitch begin that this switch does not have.
const UNSUPPORTED: [&str; 31] = [
    "time/",
    "bond/",
    "bfd/",
    "bridge/",
    "cfm/",
    "coverage/",
    "dpif/",
    "dpif-netdev/",
    "dpif-netlink/",
    "exit",
    "fdb/",
    "lacp/",
    "lldp/",
    "autoattach/",
    "mdb/",
    "memory/",
    "netdev-dummy/",
    "ofproto/",
    "ofctl/",
    "ovs/route/",
    "ovs/nd/",
    "tnl/",
    "qos/",
    "rstp/",
    "stp/",
    "revalidator/",
    "upcall/",
    "odp-execute/",
    "ofproto-dpif/",
    "list-commands",
    "cluster/",
];

fn missing(args: &Args<'_>, what: &'static str) -> ParseError {
    args.missing(what)
}

fn receive(args: &mut Args<'_>) -> Result<Verb, ParseError> {
    let port = args.need("a port and a packet")?;
    if args.peek() == Some("--qid") {
        args.next();
        let queue = args.need("a queue behind --qid")?;
        if queue.text != "0" {
            let kind = ParseErrorKind::Unsupported(format!("receive queue {}", queue.text));
            return Err(args.refuse(&queue, kind));
        }
    }
    let mut packets = vec![(args.need("a port and a packet")?, None)];
    while let Some(word) = args.next_word() {
        if word.text == "--len" {
            let len = args.need("a number behind --len")?;
            if let Some((_, last)) = packets.last_mut() {
                *last = Some(len);
            }
        } else {
            packets.push((word, None));
        }
    }
    Ok(Verb::Receive { port, packets })
}

fn dump_flows(args: &mut Args<'_>, of_bridge: bool) -> Result<Verb, ParseError> {
    let words = args.rest();
    dump_flows_of(args, &words, of_bridge)
}

fn dump_flows_of(args: &Args<'_>, words: &[Word], of_bridge: bool) -> Result<Verb, ParseError> {
    let (mut verbose, mut names, mut bridge, mut filter) = (false, None, None, None);
    let mut kinds = Vec::new();
    for word in words {
        match word.text.as_str() {
            "-m" | "--more" => verbose = true,
            "--names" => names = Some(true),
            "--no-names" => names = Some(false),
            text if text.starts_with("filter=") && !of_bridge => {
                let text = text.trim_start_matches("filter=").to_owned();
                filter = Some(Word { arg: word.arg, text });
            }
            text if text.starts_with("type=") && !of_bridge => {
                kinds.extend(text.trim_start_matches("type=").split(',').map(str::to_owned));
            }
            text if text.starts_with("pmd=") && !of_bridge => {}
            text if text.starts_with('-') => {
                return Err(args.refuse(word, ParseErrorKind::UnknownOption(text.to_owned())));
            }
            _ if of_bridge && bridge.is_none() => bridge = Some(word.clone()),
            text if !of_bridge && is_datapath(text) => {}
            text => {
                let kind = ParseErrorKind::Extra { command: "dump-flows".to_owned(), word: text.to_owned() };
                return Err(args.refuse(word, kind));
            }
        }
    }
    if of_bridge && bridge.is_none() {
        return Err(missing(args, "a bridge"));
    }
    // The bridge's dump tells ports by name with -m.
    let names = names.unwrap_or(of_bridge && verbose);
    Ok(Verb::DumpFlows { bridge, verbose, names, filter, kinds })
}

/// Whether a word names the datapath: there is one only.
fn is_datapath(text: &str) -> bool {
    let (kind, name) = text.split_once('@').unwrap_or(("", text));
    matches!(kind, "" | "dummy" | "netdev" | "system")
        && matches!(name, "ovs-dummy" | "ovs-netdev" | "ovs-system")
}

fn dpctl(args: &Args<'_>, name: &Word, words: &mut Vec<Word>) -> Result<Verb, ParseError> {
    let command = name.text.trim_start_matches("dpctl/");
    if CONNTRACK.contains(&command) {
        let words = words.drain(..).filter(|word| !is_datapath(&word.text)).collect();
        return Ok(Verb::Conntrack { command: command.to_owned(), words });
    }
    let mut take = |option: &str| {
        let before = words.len();
        words.retain(|word| word.text != option);
        words.len() < before
    };
    let (may_create, clear) = (take("--may-create"), take("--clear"));
    let statistics = take("-s") | take("--statistics");
    if command != "dump-flows" {
        words.retain(|word| !is_datapath(&word.text));
        if let Some(option) = words.iter().find(|word| word.text.starts_with('-')) {
            return Err(args.refuse(option, ParseErrorKind::UnknownOption(option.text.clone())));
        }
    }
    let mut operands = words.drain(..).peekable();
    let mut need = |what| operands.next().ok_or_else(|| missing(args, what));
    let flow_and_actions = "a flow and actions";
    let verb = match command {
        "dump-flows" => {
            let words: Vec<Word> = operands.collect();
            return dump_flows_of(args, &words, false);
        }
        "add-flow" => Verb::PutFlow {
            flow: need(flow_and_actions)?,
            actions: need(flow_and_actions)?,
            create: true,
            modify: false,
            clear,
            statistics,
        },
        "mod-flow" => Verb::PutFlow {
            flow: need(flow_and_actions)?,
            actions: need(flow_and_actions)?,
            create: may_create,
            modify: true,
            clear,
            statistics,
        },
        "del-flow" => Verb::DelFlow { flow: need("a flow")?, statistics },
        "get-flow" => Verb::GetFlow(need("a UFID")?),
        "del-flows" => Verb::DelFlows,
        "show" => Verb::DpShow { statistics },
        "dump-dps" => Verb::DumpDps,
        word if DPCTL_UNSUPPORTED.contains(&word) => {
            return Err(args.refuse(name, ParseErrorKind::Unsupported(name.text.clone())));
        }
        _ => return Err(args.refuse(name, ParseErrorKind::UnknownCommand(name.text.clone()))),
    };
    match operands.next() {
        None => Ok(verb),
        Some(word) => {
            let kind = ParseErrorKind::Extra { command: command.to_owned(), word: word.text.clone() };
            Err(args.refuse(&word, kind))
        }
    }
}

/// Commands on connections and fragments.
const CONNTRACK: [&str; 21] = [
    "dump-conntrack",
    "dump-conntrack-exp",
    "flush-conntrack",
    "ct-stats-show",
    "ct-bkts",
    "ct-set-maxconns",
    "ct-get-maxconns",
    "ct-get-nconns",
    "ct-enable-tcp-seq-chk",
    "ct-disable-tcp-seq-chk",
    "ct-get-tcp-seq-chk",
    "ct-set-limits",
    "ct-del-limits",
    "ct-get-limits",
    "ct-get-sweep-interval",
    "ct-set-sweep-interval",
    "ipf-set-enabled",
    "ipf-set-disabled",
    "ipf-set-min-frag",
    "ipf-set-max-nfrags",
    "ipf-get-status",
];

/// Commands on datapaths that this switch does not have: bridges make and change ports.
const DPCTL_UNSUPPORTED: [&str; 10] = [
    "add-dp",
    "del-dp",
    "add-if",
    "del-if",
    "set-if",
    "offload-stats-show",
    "cache-get-size",
    "cache-set-size",
    "ct-bkts",
    "help",
];
