//! Helpers: what FTP and TFTP say about further connections, and writing the translated address where FTP says its own.
//!
//! Owns the expected connections. Reads control packets only. Counterpart: the `ftp` and `tftp` parts of OVS
//! `lib/conntrack.c`; as in the kernel, and not there, a repeated command is numbered as the first time, and TFTP's answers
//! find a client whose port was translated.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::conn::{Conn, Helper, Translation};
use super::key::{ConnKey, Network, network};
use super::table::ConnId;
use super::{CS_INVALID, CS_NAT, CS_REPLY, CS_TRACKED, Conntrack, Tracking};
use crate::flow::proto::{IP_TCP, IP_UDP};
use crate::offload::{Offloads, checksum};
use crate::packet::{Packet, ipv6_path, tcp_header_len};

const FTP_PORT: u16 = 21;
const TFTP_PORT: u16 = 69;
/// Bytes of a control message that are looked at.
const MESSAGE: usize = 128;
/// Expected connections at most.
const MAX_EXPECTED: usize = 65_536;

/// A connection that a helper expects.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// The control connection, in its first direction.
    pub(super) parent: ConnKey,
    pub(super) mark: u32,
    pub(super) label: u128,
    kind: Translation,
    /// What is to take the place of the translated address.
    addr: [u8; 16],
    /// The same for the port, if that changes too.
    port: Option<u16>,
}

impl Expected {
    /// Translates, by what answers look like.
    pub(super) fn translate(&self, reply: &mut ConnKey) -> Translation {
        let end = match self.kind {
            Translation::Src => &mut reply.dst,
            Translation::Dst => &mut reply.src,
        };
        end.addr = self.addr;
        end.port = self.port.unwrap_or(end.port);
        self.kind
    }
}

/// All expected connections, by key with source port 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Expectations(BTreeMap<ConnKey, Expected>);

impl Expectations {
    pub(super) fn find(&self, key: &ConnKey) -> Option<&Expected> {
        if self.0.is_empty() {
            return None;
        }
        let mut key = *key;
        key.src.port = 0;
        self.0.get(&key)
    }

    /// Forgets what a control connection expected.
    pub(super) fn forget(&mut self, parent: &ConnKey) {
        self.0.retain(|_, expected| expected.parent != *parent);
    }

    /// Expects a connection to `port`, of whom a control packet told, or as it will arrive, `arrives`.
    fn expect(&mut self, conn: &Conn, reply: bool, port: u16, arrives: u16) {
        let [first, answer] = &conn.keys;
        let is_dst = conn.nat == Some(Translation::Dst);
        let (src, dst, kind, addr) = match (reply, is_dst) {
            (true, true) => (first.src, first.dst, Translation::Dst, answer.src.addr),
            (true, false) => (first.src, first.dst, Translation::Src, answer.dst.addr),
            (false, true) => (answer.src, answer.dst, Translation::Src, first.dst.addr),
            (false, false) => (answer.src, answer.dst, Translation::Dst, first.src.addr),
        };
        let mut key =
            ConnKey { zone: first.zone, proto: first.proto, ipv6: first.ipv6, ..ConnKey::default() };
        (key.src.addr, key.dst.addr, key.dst.port) = (src.addr, dst.addr, arrives);
        if self.0.len() >= MAX_EXPECTED {
            return;
        }
        let (mark, label) = (conn.mark, conn.label);
        let port = (port != arrives).then_some(port);
        self.0.entry(key).or_insert(Expected { parent: *first, mark, label, kind, addr, port });
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ConnKey, &Expected)> {
        self.0.iter()
    }
}

/// The control protocol that a packet is of, by its ports, or by the helper that it was sent to.
pub(super) fn control(packet: &Packet, helper: Option<Helper>) -> Option<Helper> {
    let &[a, b, c, d] = packet.l4()?.first_chunk::<4>()?;
    let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let known_port = matches!(src, FTP_PORT) || matches!(dst, FTP_PORT | TFTP_PORT);
    if helper.is_none() && !known_port {
        return None;
    }
    let proto = match network(packet)? {
        Network::Ipv4 => *packet.l3()?.get(9)?,
        Network::Ipv6 => ipv6_path(packet.l3()?)?.proto,
    };
    match (proto, helper) {
        (IP_TCP, Some(Helper::Ftp)) => Some(Helper::Ftp),
        (IP_UDP, Some(Helper::Tftp)) => Some(Helper::Tftp),
        (IP_UDP, _) if dst == TFTP_PORT => Some(Helper::Tftp),
        (IP_TCP, _) if src == FTP_PORT || dst == FTP_PORT => Some(Helper::Ftp),
        _ => None,
    }
}

/// How much longer a payload became for the receiver, from a place in the sender's stream on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skew {
    /// In the direction of answers.
    reply: bool,
    /// The last packet whose length changed, by its sequence number as sent.
    at: u32,
    /// Up to there.
    before: i32,
    /// Behind.
    after: i32,
}

impl Skew {
    fn of(&self, seq: u32) -> i32 {
        if (seq.wrapping_sub(self.at) as i32) > 0 { self.after } else { self.before }
    }

    fn apply(&self, packet: &mut Packet, reply: bool) {
        if reply == self.reply {
            let Some(seq) = word(packet, 4) else { return };
            set_word(packet, 4, seq.wrapping_add_signed(self.of(seq)));
        } else {
            let Some(ack) = word(packet, 8) else { return };
            let skew = self.of(ack.wrapping_sub(self.before as u32));
            set_word(packet, 8, ack.wrapping_sub(skew as u32));
        }
    }
}

fn word(packet: &Packet, at: usize) -> Option<u32> {
    packet.l4()?.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn set_word(packet: &mut Packet, at: usize, value: u32) {
    let Some(bytes) = packet.l4_mut().and_then(|l4| l4.get_mut(at..at + 4)) else { return };
    bytes.copy_from_slice(&value.to_be_bytes());
    packet.offloads |= Offloads::L4_PARTIAL;
}

impl Conntrack {
    /// Brings the state forward; sequence numbers are what the sender of a control connection's payload means.
    pub(super) fn update_with_helper(&mut self, packet: &mut Packet, t: &Tracking<'_>, id: ConnId) -> bool {
        // Once for each packet: not where an earlier action translated it.
        let asked = t.ct.nat.is_some() && t.control == Some(Helper::Ftp) && packet.md.ct_state & CS_NAT == 0;
        let skew =
            self.table.get(id).filter(|_| asked && !t.related).and_then(|conn| conn.skew.as_deref().copied());
        let Some(skew) = skew else { return self.update(packet, t, id) };
        let against = t.reply != skew.reply;
        if against {
            skew.apply(packet, t.reply);
        }
        let create = self.update(packet, t, id);
        if !against && !create {
            skew.apply(packet, t.reply);
        }
        create
    }

    /// Reads a control packet.
    pub(super) fn run_helper(&mut self, packet: &mut Packet, t: &Tracking<'_>, id: ConnId) {
        let reply = packet.md.ct_state & CS_REPLY != 0;
        let Some(conn) = self.table.get(id) else { return };
        match t.control {
            Some(Helper::Tftp) => {
                let (first, answer) = (conn.keys[0].src.port, conn.keys[1].dst.port);
                self.expectations.expect(conn, reply, first, answer);
            }
            Some(Helper::Ftp) => {
                let Some(message) = Message::of(packet, t.key.ipv6) else { return };
                let Some(told) = message.told(conn) else {
                    packet.md.ct_state |= CS_TRACKED | CS_INVALID;
                    return;
                };
                self.expectations.expect(conn, reply, told.port, told.port);
                if t.ct.nat.is_some()
                    && let Some((at, len, text)) = told.rewrite
                {
                    self.rewrite(packet, id, t.reply, at, len, &text);
                }
            }
            None => {}
        }
    }

    /// Writes `text` in place of `len` bytes of the payload, and remembers by how much that moved the rest.
    fn rewrite(&mut self, packet: &mut Packet, id: ConnId, reply: bool, at: usize, len: usize, text: &str) {
        let Some(header) = packet.l4().and_then(tcp_header_len) else { return };
        let at = usize::from(packet.l4_ofs) + header + at;
        let delta = text.len() as i32 - len as i32;
        let Some(seq) = word(packet, 4) else { return };
        if !resize_ip(packet, delta) {
            return;
        }
        let old_len = packet.len();
        if delta > 0 {
            packet.set_len(old_len + delta as usize);
        }
        let data = packet.data_mut();
        data.copy_within(at + len..old_len, at + text.len());
        data[at..at + text.len()].copy_from_slice(text.as_bytes());
        if delta < 0 {
            packet.set_len(old_len - delta.unsigned_abs() as usize);
        }
        packet.offloads |= Offloads::L4_PARTIAL;
        let Some(conn) = self.table.get_mut(id).filter(|_| delta != 0) else { return };
        let old = conn.skew.as_deref().filter(|skew| skew.reply == reply).copied();
        let before = old.map_or(0, |skew| skew.after);
        // The packet may have been moved already by what came before.
        let at = seq.wrapping_sub(before as u32);
        match old {
            // The same command again.
            Some(old) if seq.wrapping_sub(old.before as u32) == old.at => {}
            _ => conn.skew = Some(Box::new(Skew { reply, at, before, after: before + delta })),
        }
    }
}

/// Makes the network header say that the datagram is `delta` bytes longer; false if it cannot be.
fn resize_ip(packet: &mut Packet, delta: i32) -> bool {
    let is_ipv6 = network(packet) == Some(Network::Ipv6);
    let field = if is_ipv6 { 4..6 } else { 2..4 };
    let partial = packet.offloads.contains(Offloads::IP_GOOD);
    let Some(l3) = packet.l3_mut() else { return false };
    let Some(&[high, low]) = l3.get(field.clone()).and_then(<[u8]>::first_chunk) else { return false };
    let len = i32::from(u16::from_be_bytes([high, low])) + delta;
    let Ok(len) = u16::try_from(len) else { return false };
    l3[field].copy_from_slice(&len.to_be_bytes());
    if !is_ipv6 {
        if partial {
            packet.offloads |= Offloads::IP_PARTIAL;
        } else if let Some(sum) = l3.get_mut(10..12).and_then(|sum| sum.first_chunk_mut::<2>()) {
            *sum = checksum::update(*sum, &[high, low], &len.to_be_bytes());
        }
    }
    true
}

/// A line of FTP that tells of a data connection.
struct Message {
    line: Vec<u8>,
    kind: Kind,
    ipv6: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Port,
    Eprt,
    Passive,
    ExtendedPassive,
}

/// What it tells.
struct Told {
    port: u16,
    /// Where in the payload an address is to be written, how long what is there is, and the new text.
    rewrite: Option<(usize, usize, String)>,
}

impl Message {
    fn of(packet: &Packet, ipv6: bool) -> Option<Self> {
        let l4 = packet.l4()?;
        let payload = l4.get(tcp_header_len(l4)?..)?;
        let line = &payload[..payload.len().min(MESSAGE)];
        let begins =
            |word: &[u8]| line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let kind = if begins(b"EPRT") {
            Kind::Eprt
        } else if begins(b"229") {
            Kind::ExtendedPassive
        } else if ipv6 {
            return None;
        } else if begins(b"PORT") {
            Kind::Port
        } else if begins(b"227") {
            Kind::Passive
        } else {
            return None;
        };
        Some(Self { line: line.to_vec(), kind, ipv6 })
    }

    /// Reads it; `None` if it is malformed, or tells an address that is not the sender's.
    fn told(&self, conn: &Conn) -> Option<Told> {
        let from = self.line.iter().position(|&byte| byte == b' ')?;
        let digit = from + self.line[from..].iter().position(u8::is_ascii_digit)?;
        match self.kind {
            Kind::Port | Kind::Passive => self.classic(digit, conn),
            Kind::Eprt => self.eprt(digit, conn),
            Kind::ExtendedPassive => {
                // `229 Entering Extended Passive Mode (|||port|)`.
                let open = self.line.iter().position(|&byte| byte == b'(')?;
                let digit = open + self.line[open..].iter().position(u8::is_ascii_digit)?;
                Some(Told { port: self.number(digit, u16::MAX)?.0, rewrite: None })
            }
        }
    }

    /// A number at `at`, and where it ends.
    fn number(&self, at: usize, max: u16) -> Option<(u16, usize)> {
        let digits = self.line[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.line[at..at + digits]).ok()?;
        let number = text.parse().ok().filter(|&number| number <= max)?;
        Some((number, at + digits))
    }

    /// `h1,h2,h3,h4,p1,p2` (RFC 959, 4.1.2).
    fn classic(&self, start: usize, conn: &Conn) -> Option<Told> {
        let (mut numbers, mut at, mut addr_end) = ([0u8; 6], start, start);
        for (i, slot) in numbers.iter_mut().enumerate() {
            if i > 0 {
                at += usize::from(self.line.get(at) == Some(&b','));
            }
            let (number, end) = self.number(at, 255)?;
            *slot = number as u8;
            at = end;
            if i == 3 {
                addr_end = end;
            }
        }
        let [a, b, c, d, high, low] = numbers;
        let mut addr = [0; 16];
        addr[..4].copy_from_slice(&[a, b, c, d]);
        let new = self.replacement(addr, conn)?;
        let text = Ipv4Addr::new(new[0], new[1], new[2], new[3]).to_string().replace('.', ",");
        let port = u16::from_be_bytes([high, low]);
        Some(Told { port, rewrite: Some((start, addr_end - start, text)) })
    }

    /// `EPRT |1|132.235.1.2|6275|` (RFC 2428, 2).
    fn eprt(&self, family: usize, conn: &Conn) -> Option<Told> {
        let delimiter = *self.line.get(family + 1)?;
        let wanted = if self.ipv6 { b'2' } else { b'1' };
        if self.line[family] != wanted || delimiter.is_ascii_digit() {
            return None;
        }
        let start = family + 2;
        let len = self.line.get(start..)?.iter().position(|&byte| byte == delimiter)?;
        let text = std::str::from_utf8(&self.line[start..start + len]).ok()?;
        let mut addr = [0; 16];
        if self.ipv6 {
            addr = text.parse::<Ipv6Addr>().ok()?.octets();
        } else {
            addr[..4].copy_from_slice(&text.parse::<Ipv4Addr>().ok()?.octets());
        }
        let new = self.replacement(addr, conn)?;
        let (port, _) = self.number(start + len + 1, u16::MAX)?;
        let text = if self.ipv6 {
            Ipv6Addr::from(new).to_string()
        } else {
            Ipv4Addr::new(new[0], new[1], new[2], new[3]).to_string()
        };
        Some(Told { port, rewrite: Some((start, len, text)) })
    }

    /// The address as the other end knows it; `None` if `addr` is not the sender's: who asks for a connection to a third
    /// party is up to no good.
    fn replacement(&self, addr: [u8; 16], conn: &Conn) -> Option<[u8; 16]> {
        let [first, answer] = &conn.keys;
        let (own, new) = match self.kind {
            Kind::Port | Kind::Eprt => (first.src.addr, answer.dst.addr),
            Kind::Passive | Kind::ExtendedPassive => (answer.src.addr, first.dst.addr),
        };
        (addr == own || addr == new).then_some(new)
    }
}
