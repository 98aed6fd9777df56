//! Connections: handshakes, odd packets, translated addresses, errors about them, time that passes.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::{Chance, Draft, MAC, bridge};

const CLIENT_MAC: &str = "02:00:00:00:00:01";
const SERVER_MAC: &str = "02:00:00:00:00:02";
const TRANSLATED: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
const TRANSLATED_PORT: u16 = 5000;
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 8, 8, 8);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);
const SERVER_PORT: u16 = 8080;
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

/// Timeouts of a zone.
const POLICIES: [&str; 4] = [
    "tcp_syn_sent=1 udp_first=1 icmp_first=1",
    "tcp_established=20 tcp_syn_recv=2 udp_multiple=100 icmp_reply=100",
    "udp_single=5 tcp_fin_wait=3 tcp_time_wait=1 tcp_close=1",
    "tcp_close_wait=1 tcp_last_ack=1 tcp_unack=1",
];

/// What is translated in the first packet of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nat {
    Nothing,
    Source,
    /// To one address and one port: only one connection can be.
    SourceAndPort,
    Destination,
    DestinationAndPort,
}

impl Nat {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Nothing,
        Self::Source,
        Self::SourceAndPort,
        Self::Destination,
        Self::DestinationAndPort,
    ];

    fn text(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Source => format!(",nat(src={TRANSLATED})"),
            Self::SourceAndPort => format!(",nat(src={TRANSLATED}:{TRANSLATED_PORT})"),
            Self::Destination => format!(",nat(dst={SERVER})"),
            Self::DestinationAndPort => format!(",nat(dst={SERVER}:{SERVER_PORT})"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Icmp,
}

/// Addresses and ports of one direction.
#[derive(Clone, Copy)]
struct Way {
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
}

/// A connection: what its client sends and what its server answers.
struct Connection {
    kind: Kind,
    /// As the client sends it, and as the server gets it.
    sent: Way,
    arrives: Way,
    /// Packets of the usual exchange that were sent.
    done: usize,
    /// Next sequence numbers of client and server.
    seq: [u32; 2],
}

/// Writes a scenario about connections.
pub fn write(chance: &mut Chance, draft: &mut Draft) {
    let nat = Nat::ALL[chance.below(Nat::ALL.len())];
    draft.commands(&set_up(chance, nat));
    let alone = nat == Nat::SourceAndPort;
    let count = if alone { 1 } else { chance.within(1, 4) };
    let mut connections: Vec<Connection> = (0..count).map(|index| connection(chance, nat, index)).collect();
    for _ in 0..chance.within(8, 36) {
        let index = chance.below(connections.len());
        let connection = &mut connections[index];
        match chance.below(14) {
            // A connection that is gone here leaves its port to the next one; over there when it is swept.
            0 | 1 if !alone => draft.wait([900, 12_000, 40_000, 130_000][chance.below(4)]),
            2 => error(chance, draft, connection),
            3 if connection.kind == Kind::Tcp && !alone => odd(chance, draft, connection),
            4 if chance.one_in(4) => draft.commands(&["ovs-appctl dpctl/flush-conntrack".to_owned()]),
            _ => usual(chance, draft, connection),
        }
    }
}

fn set_up(chance: &mut Chance, nat: Nat) -> Vec<String> {
    let number = [0, 1, 65535][chance.below(3)];
    let zone = if number == 0 { String::new() } else { format!(",zone={number}") };
    let undo = if nat == Nat::Nothing { "" } else { ",nat" };
    let exec = [
        "",
        ",exec(set_field:0x7->ct_mark)",
        ",exec(load:0x3->NXM_NX_CT_LABEL[0..31])",
        ",exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[])",
    ];
    let exec = chance.pick(&exec);
    let mut rules = vec![
        "table=0,priority=5,arp,actions=NORMAL".to_owned(),
        format!("table=0,priority=4,ip,actions=load:0x5->NXM_NX_REG0[],ct(table=1{zone}{undo})"),
        format!(
            "table=1,priority=30,ct_state=+trk+new,in_port=1,ip,actions=ct(commit{zone}{}{exec}),output:2",
            nat.text()
        ),
        "table=1,priority=29,ct_state=+trk+est,in_port=1,ip,actions=output:2".to_owned(),
        "table=1,priority=28,ct_state=+trk+est,in_port=2,ip,actions=output:1".to_owned(),
    ];
    if chance.one_in(2) {
        rules.push("table=1,priority=35,ct_state=+trk+inv,ip,actions=output:3".to_owned());
    }
    if chance.one_in(2) {
        rules.push("table=1,priority=27,ct_state=+trk+rel,in_port=2,ip,actions=output:1".to_owned());
        rules.push("table=1,priority=26,ct_state=+trk+rel,in_port=1,ip,actions=output:2".to_owned());
    }
    if chance.one_in(3) {
        rules.push("table=1,priority=40,ct_state=+trk+est,ct_mark=0x7,ip,in_port=2,actions=ct_clear,output:1,output:4".to_owned());
    }
    if chance.one_in(3) {
        rules.push(
            "table=1,priority=41,ct_state=+trk+est+rpl,ip,ct_nw_src=10.0.0.1,actions=output:1,output:3"
                .to_owned(),
        );
    }
    if chance.one_in(4) {
        // Through a second zone, too.
        rules.push(format!("table=1,priority=50,ct_state=+trk+new,tcp,in_port=1,actions=ct(commit{zone}{}),ct(table=2,zone=9)", nat.text()));
        rules.push("table=2,priority=1,tcp,ct_state=+trk+new,actions=ct(commit,zone=9),output:2".to_owned());
        rules.push("table=2,priority=2,tcp,ct_state=+trk-new,actions=output:2".to_owned());
    }
    let mut lines = bridge("br0", MAC, &[1, 2, 3, 4], |_| String::new());
    if chance.one_in(3) {
        let policy = chance.pick(&POLICIES);
        lines.push(
            "ovs-vsctl -- --id=@m create Datapath datapath_version=0 -- set Open_vSwitch . datapaths:dummy=@m".to_owned(),
        );
        lines.push(format!("ovs-vsctl add-zone-tp dummy zone={number} {policy}"));
    }
    lines.extend(rules.iter().map(|rule| format!("ovs-ofctl add-flow br0 '{rule}'")));
    lines
}

fn connection(chance: &mut Chance, nat: Nat, index: usize) -> Connection {
    // Older versions do not translate identifiers of ICMP as if they were ports.
    let with_port = matches!(nat, Nat::SourceAndPort | Nat::DestinationAndPort);
    let kind = [Kind::Tcp, Kind::Tcp, Kind::Udp, Kind::Icmp][chance.below(if with_port { 3 } else { 4 })];
    let index = index as u8;
    let from = (Ipv4Addr::new(10, 0, 0, 1 + index), 1000 + u16::from(index));
    let to = match nat {
        Nat::Destination | Nat::DestinationAndPort => (VIRTUAL, 80),
        Nat::Nothing | Nat::Source | Nat::SourceAndPort => (SERVER, 80),
    };
    let sent = Way { from, to };
    let arrives = match nat {
        Nat::Nothing => sent,
        Nat::Source => Way { from: (TRANSLATED, from.1), to },
        Nat::SourceAndPort => Way { from: (TRANSLATED, TRANSLATED_PORT), to },
        Nat::Destination => Way { from, to: (SERVER, to.1) },
        Nat::DestinationAndPort => Way { from, to: (SERVER, SERVER_PORT) },
    };
    Connection { kind, sent, arrives, done: 0, seq: [1000, 5000] }
}

impl Connection {
    /// A packet from the client, or an answer to what the server got.
    fn frame(&self, answer: bool, l4: &str) -> String {
        let (macs, from, to) = if answer {
            ([SERVER_MAC, CLIENT_MAC], self.arrives.to.0, self.arrives.from.0)
        } else {
            ([CLIENT_MAC, SERVER_MAC], self.sent.from.0, self.sent.to.0)
        };
        format!("eth {} > {} / ipv4 {from} > {to} / {l4}", macs[0], macs[1])
    }

    fn ports(&self, answer: bool) -> [u16; 2] {
        if answer { [self.arrives.to.1, self.arrives.from.1] } else { [self.sent.from.1, self.sent.to.1] }
    }

    /// Comes back from another port: what becomes of one that is used again differs between versions.
    fn restart(&mut self) {
        if self.arrives.from.1 == self.sent.from.1 {
            self.sent.from.1 += 100;
            self.arrives.from.1 += 100;
            self.done = 0;
        }
    }

    fn tcp(&mut self, answer: bool, flags: &str, bytes: u32) -> String {
        let (me, peer) = (usize::from(answer), usize::from(!answer));
        let ports = self.ports(answer);
        let ack = if flags.contains("ack") { self.seq[peer] } else { 0 };
        let text = format!(
            "tcp {} > {} flags {flags} seq {} ack {ack} / {bytes} bytes",
            ports[0], ports[1], self.seq[me]
        );
        self.seq[me] =
            self.seq[me].wrapping_add(bytes + u32::from(flags.contains("syn") || flags.contains("fin")));
        self.frame(answer, &text)
    }
}

fn port_of(answer: bool) -> &'static str {
    if answer { "br0:p2" } else { "br0:p1" }
}

/// The next packet of what two hosts usually say.
fn usual(chance: &mut Chance, draft: &mut Draft, connection: &mut Connection) {
    let (answer, frame) = match connection.kind {
        Kind::Tcp => {
            const TALK: [(bool, &str, u32); 12] = [
                (false, "syn", 0),
                (true, "syn,ack", 0),
                (false, "ack", 0),
                (false, "psh,ack", 20),
                (true, "ack", 0),
                (true, "psh,ack", 100),
                (false, "ack", 0),
                (false, "fin,ack", 0),
                (true, "ack", 0),
                (true, "fin,ack", 0),
                (false, "ack", 0),
                (false, "rst", 0),
            ];
            let Some(&(answer, flags, bytes)) = TALK.get(connection.done) else {
                return connection.restart();
            };
            (answer, connection.tcp(answer, flags, bytes))
        }
        Kind::Udp => {
            let answer = connection.done > 0 && chance.one_in(2);
            let ports = connection.ports(answer);
            (answer, connection.frame(answer, &format!("udp {} > {} / 12 bytes", ports[0], ports[1])))
        }
        Kind::Icmp => {
            let answer = connection.done > 0 && chance.one_in(2);
            let kind = if answer { "echo-reply" } else { "echo-request" };
            let id = connection.sent.from.1;
            (
                answer,
                connection.frame(answer, &format!("icmp {kind} id {id} seq {} / 16 bytes", connection.done)),
            )
        }
    };
    connection.done += 1;
    draft.frame(port_of(answer), &frame);
}

/// What a host that is confused or hostile would send.
fn odd(chance: &mut Chance, draft: &mut Draft, connection: &mut Connection) {
    let answer = chance.one_in(2);
    let kept = connection.seq;
    let flags = chance.pick(&["syn", "syn,ack", "ack", "rst", "fin,ack", "rst,ack", "psh,ack"]);
    if chance.one_in(2) {
        let me = usize::from(answer);
        let far = [1, 500, 100_000, 0x8000_0000][chance.below(4)];
        connection.seq[me] = connection.seq[me].wrapping_add(far);
    }
    let frame = connection.tcp(answer, flags, [0, 10][chance.below(2)]);
    connection.seq = kept;
    draft.frame(port_of(answer), &frame);
}

/// A router on the server's side says that the server cannot be reached.
fn error(chance: &mut Chance, draft: &mut Draft, connection: &Connection) {
    let Way { from, to } = connection.arrives;
    let proto = match connection.kind {
        Kind::Tcp => 6,
        Kind::Udp => 17,
        Kind::Icmp => 1,
    };
    let mut quoted: Vec<u8> = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 63, proto, 0, 0];
    quoted.extend(from.0.octets());
    quoted.extend(to.0.octets());
    let sum = quoted.chunks(2).fold(0_u32, |sum, pair| sum + u32::from(pair[0]) * 256 + u32::from(pair[1]));
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    quoted[10..12].copy_from_slice(&sum.to_be_bytes());
    if connection.kind == Kind::Icmp {
        // An echo request; its checksum is not looked at.
        quoted.extend([8, 0, 0, 0]);
        quoted.extend(connection.sent.from.1.to_be_bytes());
        quoted.extend([0, 0]);
    } else {
        quoted.extend(from.1.to_be_bytes());
        quoted.extend(to.1.to_be_bytes());
        quoted.extend([0, 0, 0, 0]);
    }
    // Behind the ports and sequence number, what a router adds of its own will.
    quoted.extend(std::iter::repeat_n(0, [0, 12, 20][chance.below(3)]));
    let mut hex = String::new();
    for byte in quoted {
        let _ = write!(hex, "{byte:02x}");
    }
    let kind = chance.pick(&["type 3 code 1", "type 3 code 3", "type 11 code 0"]);
    let frame =
        format!("eth {SERVER_MAC} > {CLIENT_MAC} / ipv4 {ROUTER} > {} / icmp {kind} / hex {hex}", from.0);
    draft.frame("br0:p2", &frame);
}
