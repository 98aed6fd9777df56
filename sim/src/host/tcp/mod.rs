//! TCP (RFC 9293): one stream from client to server, acknowledged, retransmitted, closed in good order.
//!
//! The client connects, sends as many bytes as asked for and closes; the server takes everything, and closes once the
//! client has. The window is fixed at 65535 bytes; there is no congestion control, window scaling, SACK, delayed
//! acknowledgement or urgent data. Lost segments are sent again after three duplicate acknowledgements (RFC 5681 section
//! 3.2, without its windows) or when the timer of RFC 6298 runs out; the eighth time in a row ends the connection.
//!
//! Positions in a stream are 64-bit offsets: the SYN is 0, data byte `i` is `1 + i`, the FIN follows the last byte. Only
//! headers have 32-bit sequence numbers; one is taken for the offset that is nearest to what is expected.

mod connection;
mod segment;

use std::net::IpAddr;

use datapath::types::{Span, Time};

use super::packet::{self, IpPacket};
use super::traffic::payload_byte;
use super::{Host, protocol};
use crate::scenario::{HostCounter, Tcp};
use segment::Segment;

pub use connection::{Connection, State};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Receive window, in bytes.
const WINDOW: u64 = 65_535;
/// First retransmission timeout (RFC 6298 section 2.1).
const FIRST_RTO: Span = Span::from_secs(1);
/// Shortest (Linux; RFC 6298 would have a second).
const MIN_RTO: Span = Span::from_millis(200);
/// Longest (RFC 6298 section 2.5).
const MAX_RTO: Span = Span::from_secs(60);
/// Timeouts in a row until the connection is given up.
const MAX_RETRIES: u32 = 8;
/// Pieces of data that can wait for what is missing before them.
const MAX_EARLY: usize = 1024;
/// Segment size when the other side names none (RFC 9293 section 3.7.1).
const DEFAULT_MSS: [u16; 2] = [536, 1220];

impl Host {
    /// Connects, to send bytes.
    pub fn tcp(&mut self, now: Time, tcp: &Tcp) {
        let Some(src) = self.source_for(tcp.to) else { return };
        let port = tcp.from_port.unwrap_or_else(|| self.free_port());
        let iss = self.random.draw() as u32;
        let mut connection = Connection::new((src, port), (tcp.to, tcp.port), State::SynSent, iss, tcp.bytes);
        connection.nxt = 1;
        connection.max_sent = 1;
        connection.timed = Some((0, now));
        connection.arm(now);
        self.connections.push(connection);
        self.send_segment(now, self.connections.len() - 1, 0, SYN, 0);
    }

    fn free_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = if port == u16::MAX { 49_152 } else { port + 1 };
        port
    }

    /// Sends `len` bytes from `offset` on, with `flags`.
    fn send_segment(&mut self, now: Time, index: usize, offset: u64, flags: u8, len: usize) {
        let connection = &self.connections[index];
        let (local, remote) = (connection.local, connection.remote);
        let mut bytes = Vec::with_capacity(24 + len);
        bytes.extend(local.1.to_be_bytes());
        bytes.extend(remote.1.to_be_bytes());
        bytes.extend(connection.seq(offset).to_be_bytes());
        let ack = if flags & ACK != 0 { connection.irs.wrapping_add(connection.expected as u32) } else { 0 };
        bytes.extend(ack.to_be_bytes());
        let syn = flags & SYN != 0;
        bytes.extend([if syn { 0x60 } else { 0x50 }, flags]);
        bytes.extend((WINDOW as u16).to_be_bytes());
        bytes.extend([0; 4]);
        if syn {
            bytes.extend([2, 4]);
            bytes.extend((self.own_mss(local.0) as u16).to_be_bytes());
        }
        bytes.extend((0..len as u64).map(|i| payload_byte(offset.saturating_sub(1) + i)));
        packet::fill_checksum(local.0, remote.0, protocol::TCP, &mut bytes, 16);
        self.send_ip(now, local.0, remote.0, protocol::TCP, &bytes);
    }

    fn own_mss(&self, address: IpAddr) -> usize {
        self.mtu.saturating_sub(packet::ip_header_len(address) + 20).clamp(1, 65_535)
    }

    fn send_ack(&mut self, now: Time, index: usize) {
        let offset = self.connections[index].nxt;
        self.send_segment(now, index, offset, ACK, 0);
    }

    /// Sends what begins at `offset`: SYN, data or FIN, as much as fits into a segment. Gives the offset behind it.
    fn send_from(&mut self, now: Time, index: usize, offset: u64) -> u64 {
        let connection = &mut self.connections[index];
        let data_end = connection.len + 1;
        let len = data_end.saturating_sub(offset.max(1)).min(connection.mss as u64);
        let (flags, next) = if offset == 0 {
            let flags = if connection.state == State::SynSent { SYN } else { SYN | ACK };
            (flags, 1)
        } else if len == 0 {
            (FIN | ACK, data_end + 1)
        } else if offset + len == data_end {
            (PSH | ACK, data_end)
        } else {
            (ACK, offset + len)
        };
        let again = offset < connection.max_sent;
        if again {
            connection.retransmitted += 1;
            // Karn: what is sent twice cannot be timed.
            connection.timed = None;
        } else if connection.timed.is_none() {
            connection.timed = Some((offset, now));
        }
        connection.nxt = connection.nxt.max(next);
        connection.max_sent = connection.max_sent.max(next);
        self.add(HostCounter::TcpRetransmitted, u64::from(again));
        let len = if offset == 0 { 0 } else { len as usize };
        self.send_segment(now, index, offset, flags, len);
        next
    }

    /// Sends all that the windows allow.
    fn pump(&mut self, now: Time, index: usize) {
        loop {
            let connection = &self.connections[index];
            if !matches!(connection.state, State::Established | State::FinWait | State::LastAck) {
                return;
            }
            // A closed window is probed with one segment, which the timer repeats.
            let limit = connection.una + connection.peer_window.clamp(1, WINDOW);
            let nxt = connection.nxt;
            if nxt >= connection.sendable_end() || (nxt >= limit && nxt > connection.una) {
                break;
            }
            let next = self.send_from(now, index, nxt);
            let connection = &mut self.connections[index];
            if next == connection.end() && connection.state == State::Established {
                connection.state = State::FinWait;
            }
        }
        let connection = &mut self.connections[index];
        if connection.timer.is_none() {
            connection.arm(now);
        }
    }

    pub(super) fn receive_tcp(&mut self, now: Time, ip: &IpPacket<'_>, bytes: &[u8]) {
        let Some(segment) = Segment::parse(bytes) else {
            self.bad += 1;
            return;
        };
        if packet::is_multicast(ip.dst) {
            self.ignored += 1;
            return;
        }
        let (local, remote) = ((ip.dst, segment.dst_port), (ip.src, segment.src_port));
        let same = |c: &Connection| c.local == local && c.remote == remote;
        let index = self.connections.iter().rposition(same);
        match index.filter(|&index| !self.connections[index].is_replaced_by(&segment)) {
            Some(index) => self.receive_segment(now, index, &segment),
            None if segment.flags & (SYN | ACK | RST) == SYN && self.listen.contains(&segment.dst_port) => {
                self.accept(now, local, remote, &segment);
            }
            None => self.refuse(now, local, remote, &segment),
        }
    }

    fn accept(&mut self, now: Time, local: (IpAddr, u16), remote: (IpAddr, u16), segment: &Segment<'_>) {
        let iss = self.random.draw() as u32;
        let mut connection = Connection::new(local, remote, State::SynReceived, iss, 0);
        connection.irs = segment.seq;
        connection.expected = 1;
        connection.peer_window = u64::from(segment.window);
        connection.mss = self.agreed_mss(local.0, segment.mss);
        self.connections.push(connection);
        let index = self.connections.len() - 1;
        self.send_from(now, index, 0);
        self.connections[index].arm(now);
    }

    fn agreed_mss(&self, address: IpAddr, offered: Option<u16>) -> usize {
        let offered = offered.unwrap_or(DEFAULT_MSS[usize::from(address.is_ipv6())]);
        usize::from(offered.max(1)).min(self.own_mss(address))
    }

    /// Answers a segment for which there is no connection (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, now: Time, local: (IpAddr, u16), remote: (IpAddr, u16), segment: &Segment<'_>) {
        if segment.has(RST) {
            return;
        }
        let (seq, ack, flags) = match segment.has(ACK) {
            true => (segment.ack, 0, RST),
            false => (0, segment.seq.wrapping_add(segment.len()), RST | ACK),
        };
        let mut bytes = Vec::with_capacity(20);
        bytes.extend(local.1.to_be_bytes());
        bytes.extend(remote.1.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        packet::fill_checksum(local.0, remote.0, protocol::TCP, &mut bytes, 16);
        self.send_ip(now, local.0, remote.0, protocol::TCP, &bytes);
    }

    fn receive_segment(&mut self, now: Time, index: usize, segment: &Segment<'_>) {
        match self.connections[index].state {
            State::SynSent => self.receive_in_syn_sent(now, index, segment),
            State::SynReceived | State::Established | State::FinWait | State::LastAck => {
                self.receive_synchronized(now, index, segment);
            }
            // The last acknowledgement was lost: the other side's FIN comes again (TIME-WAIT).
            State::Closed if !segment.has(RST) && segment.len() > 0 => self.send_ack(now, index),
            State::Closed => {}
            State::Refused | State::Reset | State::TimedOut => {
                let connection = &self.connections[index];
                let (local, remote) = (connection.local, connection.remote);
                self.refuse(now, local, remote, segment);
            }
        }
    }

    fn receive_in_syn_sent(&mut self, now: Time, index: usize, segment: &Segment<'_>) {
        let connection = &mut self.connections[index];
        let acceptable = segment.has(ACK) && segment.ack == connection.iss.wrapping_add(1);
        if segment.has(RST) {
            if acceptable {
                connection.finish(State::Refused);
                self.count(HostCounter::TcpRefused);
            }
            return;
        }
        if !acceptable || !segment.has(SYN) {
            let (local, remote) = (connection.local, connection.remote);
            self.refuse(now, local, remote, segment);
            return;
        }
        connection.irs = segment.seq;
        connection.expected = 1;
        connection.peer_window = u64::from(segment.window);
        connection.state = State::Established;
        connection.acknowledge(now, 1);
        let address = connection.local.0;
        let mss = self.agreed_mss(address, segment.mss);
        self.connections[index].mss = mss;
        self.count(HostCounter::TcpEstablished);
        self.send_ack(now, index);
        self.pump(now, index);
    }

    fn receive_synchronized(&mut self, now: Time, index: usize, segment: &Segment<'_>) {
        let connection = &mut self.connections[index];
        let Some(offset) = connection.offset_of(segment.seq, connection.irs, connection.expected) else {
            return;
        };
        if segment.has(RST) {
            if offset == connection.expected {
                connection.finish(State::Reset);
            }
            return;
        }
        if segment.has(SYN) {
            // Ours was lost, or a duplicate of the other side's: say again where we are.
            match connection.state {
                State::SynReceived => {
                    self.send_from(now, index, 0);
                }
                _ => self.send_ack(now, index),
            }
            return;
        }
        if segment.has(ACK) {
            self.receive_ack(now, index, segment);
        }
        if segment.len() > 0 && !self.connections[index].state.is_over() {
            self.receive_data(now, index, offset, segment);
        }
        self.pump(now, index);
    }

    fn receive_ack(&mut self, now: Time, index: usize, segment: &Segment<'_>) {
        let connection = &mut self.connections[index];
        let Some(ack) = connection.offset_of(segment.ack, connection.iss, connection.una) else { return };
        if ack > connection.max_sent {
            return;
        }
        connection.peer_window = u64::from(segment.window);
        if ack > connection.una {
            let established = connection.state == State::SynReceived;
            let bytes = connection.acknowledge(now, ack);
            let recovering = connection.recover.is_some();
            if established {
                connection.state = State::Established;
                self.count(HostCounter::TcpEstablished);
            }
            self.add(HostCounter::TcpSent, bytes);
            // A partial acknowledgement names the next hole (RFC 6582).
            if recovering {
                self.send_from(now, index, ack);
            }
            self.check_closed(index);
        } else if ack == connection.una && segment.len() == 0 && connection.una < connection.nxt {
            connection.duplicate_acks += 1;
            if connection.duplicate_acks == 3 && connection.recover.is_none() {
                connection.recover = Some(connection.nxt);
                self.send_from(now, index, ack);
            }
        }
    }

    fn receive_data(&mut self, now: Time, index: usize, offset: u64, segment: &Segment<'_>) {
        let connection = &mut self.connections[index];
        let delivered = connection.take_data(offset, segment.data);
        if segment.has(FIN) {
            connection.fin_at = Some(offset + segment.data.len() as u64);
        }
        if connection.fin_at == Some(connection.expected) {
            connection.expected += 1;
            match connection.state {
                State::SynReceived | State::Established => connection.state = State::LastAck,
                State::FinWait => {
                    if connection.una == connection.end() {
                        connection.finish(State::Closed);
                        self.count(HostCounter::TcpClosed);
                    } else {
                        connection.state = State::LastAck;
                    }
                }
                State::SynSent
                | State::LastAck
                | State::Closed
                | State::Refused
                | State::Reset
                | State::TimedOut => {}
            }
        }
        self.add(HostCounter::TcpDelivered, delivered);
        self.send_ack(now, index);
    }

    fn check_closed(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.state == State::LastAck && connection.una == connection.end() {
            connection.finish(State::Closed);
            self.count(HostCounter::TcpClosed);
        }
    }

    pub(super) fn run_tcp(&mut self, now: Time) {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.timer.is_none_or(|at| at > now) {
                continue;
            }
            if connection.retries >= MAX_RETRIES {
                connection.finish(State::TimedOut);
                continue;
            }
            connection.retries += 1;
            connection.rto = Span(connection.rto.0.saturating_mul(2)).min(MAX_RTO);
            connection.recover = Some(connection.nxt);
            connection.duplicate_acks = 0;
            let una = connection.una;
            self.send_from(now, index, una);
            self.connections[index].arm(now);
        }
    }
}
