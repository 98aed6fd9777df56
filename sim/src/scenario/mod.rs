//! Scenario files: what they say, as types, and how they are read.
//!
//! A scenario is a TOML file: hosts, switches, links and steps. [`Scenario::parse`] reads one completely and reports all
//! of its errors at once, each with line, column, caret and help; nothing is guessed and no field is skipped. Reading a
//! file never runs anything: rules, groups and meters are read, OVS commands and filters are checked when the world is built.
//!
//! ```toml
//! name    = "what this shows"
//! seed    = 7                     # default 1; every random draw follows from it
//! stop-at = "50ms"                # default: when nothing is under way any more, at most 10 s after the
//!                                 # last step, replay or host has sent what it had to
//!
//! [host.h1]
//! mac     = "02:00:00:00:00:01"   # default: 02:00:00:00:00:NN, counted in file order
//! ip      = "10.0.0.1/24"         # or a list; IPv4 and IPv6
//! gateway = "10.0.0.254"          # or a list, one for each family
//! mtu     = 1500
//! listen  = [80]                  # TCP ports that accept connections; all others refuse
//! echo    = [7]                   # UDP ports that send datagrams back; all others only count them
//!
//! [switch.s1]                     # one datapath with one bridge called s1
//! mac          = "02:00:00:00:00:fe"
//! port.1       = { tag = 10 }     # a numeric name is also the OpenFlow port number
//! port.up      = { number = 9, trunks = [10, 20], mtu = 9000 }
//! port.nic     = { offload = ["ip-csum", "l4-csum", "tso"], rx-l4-csum = "partial", rx-tso = 1448 }
//! flows        = """..."""        # ovs-ofctl rules, one a line; without this field the switch is NORMAL
//! groups       = """..."""        # ovs-ofctl groups, one a line
//! meters       = """..."""        # ovs-ofctl meters, one a line
//! other-config = { emc-insert-inv-prob = 1, smc-enable = true }
//! ovs          = """..."""        # commands to set it up, after all else
//!
//! [[link]]                        # see `crate::link` for exactly what each quantity does
//! ends         = ["h1", "s1:1"]
//! delay        = "10us"
//! jitter       = "1us"
//! loss         = "0.1%"
//! duplicate    = "0.01%"
//! reorder      = "1%"
//! reorder-gap  = "1ms"
//! rate         = "1Gbit"
//! queue        = "100 packets"    # or a size: "64KiB"
//! mtu          = 1500
//! down         = false
//! forward      = { loss = "5%" }  # first end to second end only
//! backward     = { delay = "1ms" }
//!
//! [[step]]                        # a step does one thing
//! at        = "1ms"               # default: the time of the step before; equal times run in file order
//! send.on   = "s1:1"              # as if it arrived at this port; or send.from = "h1"
//! send.hex  = "..."               # or frame (see `crate::scenario::frame`), flow, pcap; hex, frame, flow may be lists
//! ```
//!
//! The other things that a step can do: `replay`, `ovs`, `ping`, `udp`, `tcp`, `link`, `expect`, `expect-flow`,
//! `expect-counters`, `expect-golden`; see [`StepAction`].

pub mod frame;
mod frame_range;
mod parse;
mod reader;
mod references;
mod steps;
mod switches;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use datapath::offload::Capabilities;
use datapath::openflow::bridge::VlanMode;
use datapath::stats::DropReason;
use datapath::switch::RxChecksum;
use datapath::types::{MacAddr, Span, Time, VlanId};

use crate::capture::Pacing;
use crate::diagnostic::{Diagnostics, SourceFile};
use crate::link::{LinkModel, LinkPatch};

/// A scenario, checked as far as its file alone allows.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file it was read from, for errors that turn up later.
    pub file: Arc<SourceFile>,
    /// Folder that relative paths start from.
    pub folder: PathBuf,
    /// File name without folder and extension: names the output folder.
    pub stem: String,
    /// What it shows.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// When the world ends; none means when nothing is under way any more.
    pub stop_at: Option<Time>,
    /// Hosts, in file order.
    pub hosts: Vec<HostConfig>,
    /// Switches, in file order.
    pub switches: Vec<SwitchConfig>,
    /// Links, in file order.
    pub links: Vec<LinkConfig>,
    /// Steps, in file order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Reads a scenario from `text`. `path` is the name for errors, and where relative paths start from.
    ///
    /// # Errors
    /// All errors of the file.
    pub fn parse(path: &str, text: &str) -> Result<Self, Diagnostics> {
        parse::scenario(path, text)
    }

    /// Steps in the order in which they run: by time, then by place in the file.
    pub fn run_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        order.sort_by_key(|&index| self.steps[index].at);
        order
    }
}

/// An address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address itself, host bits included.
    pub address: IpAddr,
    /// Bits of the network part.
    pub prefix: u8,
}

impl Cidr {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (u32::from(own) ^ u32::from(other)) & mask == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (u128::from(own) ^ u128::from(other)) & mask == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// `[host.X]`.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Its addresses.
    pub addresses: Vec<Cidr>,
    /// Where it sends what is for no network of its own; at most one for each family.
    pub gateways: Vec<IpAddr>,
    /// Longest L3 packet it sends, in bytes.
    pub mtu: u32,
    /// TCP ports that accept connections.
    pub listen: Vec<u16>,
    /// UDP ports that send datagrams back.
    pub echo: Vec<u16>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// `[switch.X]`.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Its name, which is also its bridge's.
    pub name: String,
    /// The bridge's hardware address.
    pub mac: Option<MacAddr>,
    /// Ports, in file order.
    pub ports: Vec<PortConfig>,
    /// OpenFlow rules; none means that all is NORMAL.
    pub flows: Option<Block>,
    /// OpenFlow groups.
    pub groups: Option<Block>,
    /// OpenFlow meters.
    pub meters: Option<Block>,
    /// `other_config` of the Open_vSwitch table.
    pub other_config: Vec<Setting>,
    /// Commands that set it up, after all else.
    pub ovs: Option<Block>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A key and its value, both as OVS takes them.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A `port.X` of a switch.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Its name.
    pub name: String,
    /// Its OpenFlow port number, if it is asked for.
    pub number: Option<u16>,
    /// VLAN of an access port, or the native VLAN.
    pub tag: Option<VlanId>,
    /// VLANs of a trunk; empty means all.
    pub trunks: Vec<VlanId>,
    /// How it treats VLANs, if not as `tag` and `trunks` imply.
    pub vlan_mode: Option<VlanMode>,
    /// Customer VLANs of a dot1q-tunnel port; empty means all.
    pub cvlans: Vec<VlanId>,
    /// Longest L3 packet it sends, in bytes.
    pub mtu: Option<u32>,
    /// What it can finish on transmit.
    pub offload: Capabilities,
    /// What it says about IPv4 header checksums of what it receives.
    pub rx_ip_csum: RxChecksum,
    /// What it says about L4 checksums of what it receives.
    pub rx_l4_csum: RxChecksum,
    /// Segment size that it marks TCP packets with that it receives; 0 for none.
    pub rx_tso: u16,
    /// What it is.
    pub kind: PortKind,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// What a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Simulated: a link's end, or nothing but a place to send and receive.
    Simulated,
    /// A tunnel.
    Tunnel {
        /// `vxlan`, `geneve` or `gre`.
        protocol: TunnelProtocol,
        /// Own address.
        local: Option<IpAddr>,
        /// The other end.
        remote: Option<IpAddr>,
        /// Network identifier or key.
        vni: Option<u32>,
    },
    /// A tap device, in live mode.
    Tap {
        /// Its name.
        name: String,
        /// The network namespace that it is made in, as `ip netns` names it.
        netns: Option<String>,
    },
    /// A packet socket on this interface, in live mode.
    Packet {
        /// The interface.
        name: String,
        /// The network namespace that it is in.
        netns: Option<String>,
    },
    /// A DPDK device, in live mode.
    Dpdk(String),
}

impl PortKind {
    /// Whether it is a device of this machine, which `recirc live` opens.
    pub const fn is_real(&self) -> bool {
        matches!(self, Self::Tap { .. } | Self::Packet { .. } | Self::Dpdk(_))
    }

    /// Whether it may be in a network namespace.
    const fn has_namespace(&self) -> bool {
        matches!(self, Self::Tap { .. } | Self::Packet { .. })
    }
}

/// A tunnel protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelProtocol {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
    /// RFC 2784, 2890.
    Gre,
}

/// Some lines of OVS text, each with its place.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Lines that are neither empty nor comments; a backslash at the end joins a line with the next.
    pub lines: Vec<Line>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A line of a [`Block`].
#[derive(Clone, Debug)]
pub struct Line {
    /// Without surrounding white space.
    pub text: String,
    /// Its place in the file.
    pub span: Range<usize>,
}

impl Line {
    /// Its words, split as a shell does.
    ///
    /// # Errors
    /// A quote that is never closed.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let words = crate::shell::split_words(&self.text).map_err(|error| error.message)?;
        Ok(words.into_iter().map(|(word, _)| word).collect())
    }
}

/// One end of a link, or a place to send on or look at: a host (`h1`) or a switch's port (`s1:1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Host or bridge.
    pub node: String,
    /// The bridge's port; none for a host.
    pub port: Option<String>,
}

impl Place {
    /// Splits `h1` or `s1:1`.
    pub fn new(text: &str) -> Self {
        match text.split_once(':') {
            Some((node, port)) => Self { node: node.to_owned(), port: Some(port.to_owned()) },
            None => Self { node: text.to_owned(), port: None },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            Some(port) => write!(f, "{}:{port}", self.node),
            None => f.write_str(&self.node),
        }
    }
}

/// `[[link]]`.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Both ends.
    pub ends: [Place; 2],
    /// From the first end to the second.
    pub forward: LinkModel,
    /// From the second end to the first.
    pub backward: LinkModel,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// `[[step]]`.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Time,
    /// What.
    pub action: StepAction,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepAction {
    /// `send`: frames, back to back or with a gap.
    Send(Send),
    /// `replay`: a capture with its own timing or another.
    Replay(Replay),
    /// `ovs`: commands as they would be typed.
    Ovs(Block),
    /// `ping`: ICMP or ICMPv6 echo requests from a host.
    Ping(Ping),
    /// `udp`: datagrams from a host.
    Udp(Udp),
    /// `tcp`: a connection from a host, and bytes over it.
    Tcp(Tcp),
    /// `link`: changes a link, or all links of a node.
    Link(Box<LinkStep>),
    /// `expect`: frames seen at a place, or what a host's traffic came to.
    Expect(Expect),
    /// `expect-flow`: datapath flows.
    ExpectFlow(ExpectFlow),
    /// `expect-counters`: what a switch counted.
    ExpectCounters(ExpectCounters),
    /// `expect-golden`: all frames seen at a place so far are those of a capture.
    ExpectGolden(ExpectGolden),
}

impl StepAction {
    /// The word in the file.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Send(_) => "send",
            Self::Replay(_) => "replay",
            Self::Ovs(_) => "ovs",
            Self::Ping(_) => "ping",
            Self::Udp(_) => "udp",
            Self::Tcp(_) => "tcp",
            Self::Link(_) => "link",
            Self::Expect(_) => "expect",
            Self::ExpectFlow(_) => "expect-flow",
            Self::ExpectCounters(_) => "expect-counters",
            Self::ExpectGolden(_) => "expect-golden",
        }
    }
}

/// `send.{on|from, hex|frame|flow|pcap, count, gap, len}`.
#[derive(Clone, Debug)]
pub struct Send {
    /// A switch's port, as if the frame had arrived there (`on`), or a host that sends it (`from`).
    pub place: Place,
    /// What.
    pub what: SendWhat,
    /// How often all of it is sent.
    pub count: u32,
    /// Time between one frame and the next.
    pub gap: Span,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// What a `send` step sends.
#[derive(Clone, Debug)]
pub enum SendWhat {
    /// Frames, from `hex` or `frame`.
    Frames(Vec<Arc<[u8]>>),
    /// OVS datapath-flow text, of which the switch makes packets as `netdev-dummy/receive` does; `len` is the frame
    /// length in bytes that is wanted.
    Flows {
        /// The flows.
        flows: Vec<String>,
        /// `send.len`.
        len: Option<u32>,
    },
    /// All frames of a capture, in order, at once.
    Pcap(PathBuf),
}

/// `replay.{on, pcap, filter, speed, loop, map}`.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Where frames of interfaces that `map` does not name go; none if `map` names all that matter.
    pub on: Option<Place>,
    /// The capture.
    pub pcap: PathBuf,
    /// Only frames that this OpenFlow match matches; they keep their times. So the two directions of a capture can go to
    /// two places.
    pub filter: Option<Line>,
    /// How fast.
    pub speed: Pacing,
    /// How often.
    pub times: u32,
    /// Capture interface (name, or number from 0) to place.
    pub map: Vec<(String, Place)>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// `ping.{from, to, count, interval, size}`.
#[derive(Clone, Debug)]
pub struct Ping {
    /// The host.
    pub from: String,
    /// The address.
    pub to: IpAddr,
    /// Requests.
    pub count: u32,
    /// Time between requests.
    pub interval: Span,
    /// Payload bytes of each.
    pub size: u32,
}

/// `udp.{from, to, port, from-port, count, interval, size}`.
#[derive(Clone, Debug)]
pub struct Udp {
    /// The host.
    pub from: String,
    /// The address.
    pub to: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Source port.
    pub from_port: u16,
    /// Datagrams.
    pub count: u32,
    /// Time between datagrams.
    pub interval: Span,
    /// Payload bytes of each.
    pub size: u32,
}

/// `tcp.{from, to, port, from-port, bytes}`.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// The host.
    pub from: String,
    /// The address.
    pub to: IpAddr,
    /// Destination port.
    pub port: u16,
    /// Source port; none lets the host choose.
    pub from_port: Option<u16>,
    /// Bytes to deliver.
    pub bytes: u64,
}

/// `link.{ends|at, ...}`.
#[derive(Clone, Debug)]
pub struct LinkStep {
    /// Which.
    pub which: LinkWhich,
    /// Both directions; then each alone. Forward is from the first of `ends` to the second, as the step names them.
    pub both: LinkPatch,
    /// From the first end to the second.
    pub forward: LinkPatch,
    /// From the second end to the first.
    pub backward: LinkPatch,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// Which links a step changes.
#[derive(Clone, Debug)]
pub enum LinkWhich {
    /// The one between these ends.
    Ends([Place; 2]),
    /// All at this host or switch.
    Node(String),
}

/// `expect.{at, frames, frames-min, frames-max, hex, contains, filter, ping, udp, tcp}`.
///
/// Frames are those that arrived at a host, or that left a switch's port, after the last `expect` of the same place that
/// has an earlier time, and up to now.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Where.
    pub at: Place,
    /// Fewest frames.
    pub frames_min: Option<u64>,
    /// Most frames.
    pub frames_max: Option<u64>,
    /// The frames themselves, in order.
    pub hex: Option<Vec<Arc<[u8]>>>,
    /// Only frames that hold all of these bytes somewhere count.
    pub contains: Vec<Arc<[u8]>>,
    /// Only frames that this OpenFlow match matches count.
    pub filter: Option<Line>,
    /// What a host's traffic came to; see [`HostExpect`].
    pub host: Vec<HostExpect>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// A number that a host's traffic has to come to, summed over all steps of that kind so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostExpect {
    /// Which number: `ping.sent`, `ping.received`, `udp.sent`, `udp.received`, `udp.echoed`, `tcp.sent`, `tcp.delivered`,
    /// `tcp.established`, `tcp.closed`, `tcp.refused`, `tcp.retransmitted`.
    pub counter: HostCounter,
    /// What it has to be.
    pub want: u64,
}

/// What a host counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostCounter {
    /// Echo requests sent.
    PingSent,
    /// Echo replies received that answer a request.
    PingReceived,
    /// Datagrams sent by `udp` steps.
    UdpSent,
    /// Datagrams received.
    UdpReceived,
    /// Datagrams received that answer one of an own `udp` step.
    UdpEchoed,
    /// Bytes acknowledged of `tcp` steps.
    TcpSent,
    /// Bytes received in order.
    TcpDelivered,
    /// Connections established, own and accepted.
    TcpEstablished,
    /// Connections that ended in good order on both sides.
    TcpClosed,
    /// Own connections that were refused.
    TcpRefused,
    /// Segments sent again.
    TcpRetransmitted,
}

impl HostCounter {
    /// All, with the words of files and reports.
    pub const ALL: [(Self, &'static str, &'static str); 11] = [
        (Self::PingSent, "ping", "sent"),
        (Self::PingReceived, "ping", "received"),
        (Self::UdpSent, "udp", "sent"),
        (Self::UdpReceived, "udp", "received"),
        (Self::UdpEchoed, "udp", "echoed"),
        (Self::TcpSent, "tcp", "sent"),
        (Self::TcpDelivered, "tcp", "delivered"),
        (Self::TcpEstablished, "tcp", "established"),
        (Self::TcpClosed, "tcp", "closed"),
        (Self::TcpRefused, "tcp", "refused"),
        (Self::TcpRetransmitted, "tcp", "retransmitted"),
    ];
}

/// `expect-flow.{switch, flow, actions, packets, packets-min, count}`.
#[derive(Clone, Debug)]
pub struct ExpectFlow {
    /// The bridge.
    pub switch: String,
    /// Parts of a datapath flow's key, as `dpctl/dump-flows` prints them: a flow counts if it has all of them.
    pub flow: Option<String>,
    /// Exactly these datapath actions.
    pub actions: Option<String>,
    /// Exactly this many packets, summed over the flows that count.
    pub packets: Option<u64>,
    /// At least this many packets.
    pub packets_min: Option<u64>,
    /// Exactly this many flows; without this field at least one.
    pub count: Option<u64>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// `expect-counters.{switch, received, made, sent, dropped, queued, passes, drops}`: what a switch counted since the
/// beginning, each exactly. The words are those of the report.
#[derive(Clone, Debug)]
pub struct ExpectCounters {
    /// The bridge. Bridges that share a datapath share its counters.
    pub switch: String,
    /// The numbers.
    pub wants: Vec<(SwitchCounter, u64)>,
    /// Its place in the file.
    pub span: Range<usize>,
}

/// What a switch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchCounter {
    /// Packets received.
    Received,
    /// Packets made: copies, segments, answers.
    Made,
    /// Packets sent.
    Sent,
    /// Packets dropped, for whatever reason.
    Dropped,
    /// Packets kept for later.
    Queued,
    /// Passes decided by the simple match.
    Simple,
    /// Passes decided by the exact match cache.
    Emc,
    /// Passes decided by the signature match cache.
    Smc,
    /// Passes decided by the classifier.
    Megaflow,
    /// Passes decided by an upcall.
    Upcall,
    /// Passes of which the upcall failed.
    Lost,
    /// Packets dropped for this reason.
    Drop(DropReason),
}

impl SwitchCounter {
    /// Numbers of packets, with their words.
    pub const PACKETS: [(&'static str, Self); 5] = [
        ("received", Self::Received),
        ("made", Self::Made),
        ("sent", Self::Sent),
        ("dropped", Self::Dropped),
        ("queued", Self::Queued),
    ];
    /// What decides a pass, with the words of `passes`.
    pub const PASSES: [(&'static str, Self); 6] = [
        ("simple", Self::Simple),
        ("emc", Self::Emc),
        ("smc", Self::Smc),
        ("megaflow", Self::Megaflow),
        ("upcall", Self::Upcall),
        ("lost", Self::Lost),
    ];
}

impl fmt::Display for SwitchCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |(_, counter): &(&str, Self)| counter == self;
        match (self, Self::PASSES.iter().find(|entry| named(entry))) {
            (Self::Drop(reason), _) => write!(f, "drops {}", reason.name()),
            (_, Some((name, _))) => write!(f, "passes {name}"),
            (_, None) => {
                f.write_str(Self::PACKETS.iter().find(|entry| named(entry)).map_or("", |(name, _)| name))
            }
        }
    }
}

/// `expect-golden.{at, pcap, times}`.
#[derive(Clone, Debug)]
pub struct ExpectGolden {
    /// Where.
    pub at: Place,
    /// The capture that has to be the same.
    pub pcap: PathBuf,
    /// Whether times have to be the same too.
    pub times: bool,
    /// Its place in the file.
    pub span: Range<usize>,
}
