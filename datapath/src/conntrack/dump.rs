//! Connections as text, and choosing among them.
//!
//! Counterpart: OVS `lib/ct-dpif.c`.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Conntrack;
use super::conn::{Conn, Proto};
use super::key::{ConnKey, Endpoint};
use super::tcp::{Peer, TcpState};
use crate::flow::proto::{IP_ICMP, IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP};
use crate::types::Time;

/// The name of a protocol that OVS prints.
fn proto_name(proto: u8) -> Option<&'static str> {
    match proto {
        IP_ICMP => Some("icmp"),
        IP_ICMPV6 => Some("icmpv6"),
        IP_TCP => Some("tcp"),
        IP_UDP => Some("udp"),
        IP_SCTP => Some("sctp"),
        136 => Some("udplite"),
        33 => Some("dccp"),
        2 => Some("igmp"),
        _ => None,
    }
}

struct ProtoName(u8);

impl fmt::Display for ProtoName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match proto_name(self.0) {
            Some(name) => out.write_str(name),
            None => write!(out, "{}", self.0),
        }
    }
}

impl ConnKey {
    /// An end's address.
    pub fn address(&self, end: &Endpoint) -> IpAddr {
        if self.ipv6 {
            Ipv6Addr::from(end.addr).into()
        } else {
            let [a, b, c, d, ..] = end.addr;
            Ipv4Addr::new(a, b, c, d).into()
        }
    }

    fn has_icmp(&self) -> bool {
        matches!(self.proto, IP_ICMP | IP_ICMPV6)
    }
}

impl fmt::Display for ConnKey {
    /// `src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "src={},dst={}", self.address(&self.src), self.address(&self.dst))?;
        if self.has_icmp() {
            let src = &self.src;
            write!(out, ",id={},type={},code={}", src.port, src.icmp_type, src.icmp_code)
        } else {
            write!(out, ",sport={},dport={}", self.src.port, self.dst.port)
        }
    }
}

/// The TCP state that stands for both ends, as OVS prints it so that it is that of the kernel.
fn common_state(peers: &[Peer; 2]) -> TcpState {
    match peers[0].state.max(peers[1].state) {
        TcpState::FinWait2 => TcpState::TimeWait,
        TcpState::SynRecv => TcpState::Established,
        state => state,
    }
}

fn peer_flags(peer: &Peer) -> String {
    let (scale, liberal) = (peer.has_scale, peer.scale_unknown);
    let mut names = Vec::new();
    if scale {
        names.push("WINDOW_SCALE");
    }
    if liberal {
        names.push("BE_LIBERAL");
    }
    names.join("|")
}

impl Conn {
    /// One line, as `dpctl/dump-conntrack` prints it; with `verbose` as with `-m`, with `timeout` as with `-s`.
    pub fn text(&self, verbose: bool, statistics: bool, now: Time) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out, verbose, statistics, now);
        out
    }

    fn write(&self, out: &mut String, verbose: bool, statistics: bool, now: Time) -> fmt::Result {
        let key = &self.keys[0];
        write!(out, "{},orig=({}),reply=({})", ProtoName(key.proto), key, self.keys[1])?;
        if verbose {
            out.push_str(",id=0");
        }
        if key.zone != 0 {
            write!(out, ",zone={}", key.zone)?;
        }
        if verbose {
            out.push_str(",status=0");
        }
        if statistics {
            write!(out, ",timeout={}", self.expires.saturating_sub(now.0) / 1_000_000_000)?;
        }
        if self.mark != 0 {
            write!(out, ",mark={}", self.mark)?;
        }
        if self.label != 0 {
            write!(out, ",labels={:#x}", self.label)?;
        }
        if let Proto::Tcp(peers) = &self.proto {
            if verbose {
                let [a, b] = peers;
                write!(out, ",protoinfo=(state_orig={},state_reply={}", a.state.name(), b.state.name())?;
                if a.scale != 0 || b.scale != 0 {
                    write!(out, ",wscale_orig={},wscale_reply={}", a.scale, b.scale)?;
                }
                for (name, peer) in [("orig", a), ("reply", b)] {
                    let flags = peer_flags(peer);
                    let flags = if flags.is_empty() { "0" } else { &flags };
                    write!(out, ",flags_{name}={flags}")?;
                }
                out.push(')');
            } else {
                write!(out, ",protoinfo=(state={})", common_state(peers).name())?;
            }
        }
        if let Some(helper) = self.helper {
            write!(out, ",helper={}", helper.name())?;
        }
        if let Some(parent) = self.parent.as_deref().filter(|_| verbose) {
            write!(out, ",parent=({parent})")?;
        }
        Ok(())
    }

    /// What `ct-stats-show` and `ct-bkts` call its state.
    fn stats_state(&self) -> Option<TcpState> {
        match &self.proto {
            Proto::Tcp(peers) => Some(common_state(peers)),
            Proto::Icmp { .. } | Proto::Other(_) => None,
        }
    }
}

impl Conntrack {
    /// The expected connections, one a line (`dump-conntrack-exp`).
    pub fn expectations_text(&self, zone: Option<u16>) -> String {
        let mut out = String::new();
        for (key, expected) in self.expectations.iter() {
            if zone.is_some_and(|zone| zone != key.zone) {
                continue;
            }
            let _ = write!(out, "{},orig=({key})", ProtoName(key.proto));
            if key.zone != 0 {
                let _ = write!(out, ",zone={}", key.zone);
            }
            if expected.mark != 0 {
                let _ = write!(out, ",mark={}", expected.mark);
            }
            if expected.label != 0 {
                let _ = write!(out, ",labels={:#x}", expected.label);
            }
            let _ = writeln!(out, ",parent=({})", expected.parent);
        }
        out
    }
}

/// Counts by protocol, and with `verbose` by state, as `dpctl/ct-stats-show` prints them.
pub fn stats_text(conns: &[&Conn], verbose: bool) -> String {
    let mut protos: BTreeMap<u8, usize> = BTreeMap::new();
    let mut states: BTreeMap<TcpState, usize> = BTreeMap::new();
    for conn in conns {
        *protos.entry(conn.keys[0].proto).or_default() += 1;
        if let Some(state) = conn.stats_state() {
            *states.entry(state).or_default() += 1;
        }
    }
    let mut out = format!("Connections Stats:\n    Total: {}\n", conns.len());
    if let Some(n) = protos.remove(&IP_TCP) {
        let _ = writeln!(out, "  TCP: {n}");
    }
    if verbose && !states.is_empty() {
        out.push_str("    Conn per TCP states:\n");
        for (state, n) in &states {
            let _ = writeln!(out, "      [{}]={n}", state.name());
        }
    }
    let mut row = |name: &str, n: Option<usize>| {
        if let Some(n) = n {
            let _ = writeln!(out, "  {name}: {n}");
        }
    };
    // As in OVS there is no row for ICMPv6.
    protos.remove(&IP_ICMPV6);
    for (name, proto) in
        [("UDP", IP_UDP), ("UDPLITE", 136), ("SCTP", IP_SCTP), ("ICMP", IP_ICMP), ("DCCP", 33), ("IGMP", 2)]
    {
        row(name, protos.remove(&proto));
    }
    let other: usize = protos.values().sum();
    row("Other", (other > 0).then_some(other));
    out
}

/// Some fields of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TupleFilter {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Protocol.
    pub proto: Option<u8>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// ICMP identifier.
    pub icmp_id: Option<u16>,
    /// ICMP type.
    pub icmp_type: Option<u8>,
    /// ICMP code.
    pub icmp_code: Option<u8>,
}

impl TupleFilter {
    /// Whether a direction is such.
    pub fn matches(&self, key: &ConnKey) -> bool {
        fn is<T: PartialEq>(wanted: Option<T>, found: T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        let icmp = key.has_icmp();
        is(self.src, key.address(&key.src))
            && is(self.dst, key.address(&key.dst))
            && is(self.proto, key.proto)
            && (icmp || is(self.src_port, key.src.port) && is(self.dst_port, key.dst.port))
            && (!icmp
                || is(self.icmp_id, key.src.port)
                    && is(self.icmp_type, key.src.icmp_type)
                    && is(self.icmp_code, key.src.icmp_code))
    }
}

/// Which connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnFilter {
    /// Zone.
    pub zone: Option<u16>,
    /// Mark and mask.
    pub mark: Option<(u32, u32)>,
    /// Label and mask.
    pub label: Option<(u128, u128)>,
    /// First direction.
    pub original: TupleFilter,
    /// Other direction.
    pub reply: TupleFilter,
}

impl ConnFilter {
    /// Whether a connection is such.
    pub fn matches(&self, conn: &Conn) -> bool {
        self.zone.is_none_or(|zone| zone == conn.keys[0].zone)
            && self.mark.is_none_or(|(mark, mask)| conn.mark & mask == mark & mask)
            && self.label.is_none_or(|(label, mask)| conn.label & mask == label & mask)
            && self.original.matches(&conn.keys[0])
            && self.reply.matches(&conn.keys[1])
    }
}
