//! Echo requests and datagrams.

use std::net::IpAddr;

use datapath::types::{MacAddr, Span, Time};

use super::packet::{self, IpPacket, be16};
use super::{Host, protocol};
use crate::scenario::{HostCounter, Ping, Udp};

/// Round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSummary {
    /// How many.
    pub count: u64,
    /// Sum of all, in nanoseconds.
    pub sum_ns: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl RttSummary {
    /// The mean, in nanoseconds, rounded down; 0 if there is none.
    pub fn mean_ns(self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }

    pub(super) fn with(self, other: Self) -> Self {
        match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => self,
            _ => Self {
                count: self.count + other.count,
                sum_ns: self.sum_ns + other.sum_ns,
                min_ns: self.min_ns.min(other.min_ns),
                max_ns: self.max_ns.max(other.max_ns),
            },
        }
    }

    fn add(&mut self, span: Span) {
        *self = self.with(Self { count: 1, sum_ns: span.0, min_ns: span.0, max_ns: span.0 });
    }
}

/// A `ping` step under way.
#[derive(Clone, Debug)]
pub(super) struct PingRun {
    ping: Ping,
    id: u16,
    next: u32,
    next_at: Time,
    /// When the requests that are not answered yet were sent, by sequence number.
    open: std::collections::BTreeMap<u16, Time>,
    rtt: RttSummary,
}

impl PingRun {
    pub fn next_at(&self) -> Option<Time> {
        (self.next < self.ping.count).then_some(self.next_at)
    }

    pub fn rtt(&self) -> RttSummary {
        self.rtt
    }
}

/// A `udp` step under way.
#[derive(Clone, Debug)]
pub(super) struct UdpRun {
    udp: Udp,
    next: u32,
    next_at: Time,
}

impl UdpRun {
    pub fn next_at(&self) -> Option<Time> {
        (self.next < self.udp.count).then_some(self.next_at)
    }
}

/// Byte `index` of any payload that a host makes up. The period is prime, so that misplaced segments are noticed.
pub(super) fn payload_byte(index: u64) -> u8 {
    (index % 251) as u8
}

fn payload(len: u32) -> impl Iterator<Item = u8> {
    (0..u64::from(len)).map(payload_byte)
}

impl Host {
    /// Begins to send echo requests.
    pub fn ping(&mut self, now: Time, ping: &Ping) {
        let id = self.pings.len() as u16 + 1;
        let open = std::collections::BTreeMap::new();
        self.pings.push(PingRun {
            ping: ping.clone(),
            id,
            next: 0,
            next_at: now,
            open,
            rtt: RttSummary::default(),
        });
        self.run_traffic(now);
    }

    /// Begins to send datagrams.
    pub fn udp(&mut self, now: Time, udp: &Udp) {
        self.udp_runs.push(UdpRun { udp: udp.clone(), next: 0, next_at: now });
        self.run_traffic(now);
    }

    pub(super) fn run_traffic(&mut self, now: Time) {
        for index in 0..self.pings.len() {
            while self.pings[index].next_at().is_some_and(|at| at <= now) {
                self.send_ping(now, index);
            }
        }
        for index in 0..self.udp_runs.len() {
            while self.udp_runs[index].next_at().is_some_and(|at| at <= now) {
                self.send_datagram(now, index);
            }
        }
    }

    fn send_ping(&mut self, now: Time, index: usize) {
        let run = &mut self.pings[index];
        let (to, id, sequence) = (run.ping.to, run.id, run.next as u16);
        let mut message = vec![if to.is_ipv4() { 8 } else { 128 }, 0, 0, 0];
        message.extend(id.to_be_bytes());
        message.extend(sequence.to_be_bytes());
        message.extend(payload(run.ping.size));
        run.open.insert(sequence, now);
        run.next += 1;
        run.next_at += run.ping.interval;
        let Some(src) = self.source_for(to) else { return };
        let proto = if to.is_ipv4() { protocol::ICMP } else { protocol::ICMPV6 };
        packet::fill_checksum(src, to, proto, &mut message, 2);
        self.count(HostCounter::PingSent);
        self.send_ip(now, src, to, proto, &message);
    }

    fn send_datagram(&mut self, now: Time, index: usize) {
        let run = &mut self.udp_runs[index];
        run.next += 1;
        run.next_at += run.udp.interval;
        let (to, size, from_port, port) = (run.udp.to, run.udp.size, run.udp.from_port, run.udp.port);
        let Some(src) = self.source_for(to) else { return };
        let body: Vec<u8> = payload(size).collect();
        self.count(HostCounter::UdpSent);
        self.send_udp(now, src, from_port, to, port, &body);
    }

    fn send_udp(&mut self, now: Time, src: IpAddr, src_port: u16, dst: IpAddr, dst_port: u16, body: &[u8]) {
        let Ok(len) = u16::try_from(8 + body.len()) else { return };
        let mut datagram = Vec::with_capacity(usize::from(len));
        for word in [src_port, dst_port, len, 0] {
            datagram.extend(word.to_be_bytes());
        }
        datagram.extend(body);
        packet::fill_checksum(src, dst, protocol::UDP, &mut datagram, 6);
        self.send_ip(now, src, dst, protocol::UDP, &datagram);
    }

    /// The own address that answers a packet to `dst`.
    fn answer_from(&self, ip: &IpPacket<'_>) -> Option<IpAddr> {
        if packet::is_multicast(ip.dst) { self.source_for(ip.src) } else { Some(ip.dst) }
    }

    pub(super) fn receive_icmp(&mut self, now: Time, ip: &IpPacket<'_>, message: &[u8]) {
        match message {
            [8, 0, ..] if message.len() >= 8 => self.answer_echo(now, ip, message, 0, protocol::ICMP),
            [0, 0, ..] if message.len() >= 8 => self.take_reply(now, ip.src, message),
            _ => self.ignored += 1,
        }
    }

    pub(super) fn receive_icmpv6(&mut self, now: Time, from: MacAddr, ip: &IpPacket<'_>, message: &[u8]) {
        match message {
            [128, 0, ..] if message.len() >= 8 => self.answer_echo(now, ip, message, 129, protocol::ICMPV6),
            [129, 0, ..] if message.len() >= 8 => self.take_reply(now, ip.src, message),
            [135 | 136, 0, ..] => self.receive_discovery(from, ip, message),
            _ => self.ignored += 1,
        }
    }

    fn answer_echo(&mut self, now: Time, ip: &IpPacket<'_>, message: &[u8], kind: u8, proto: u8) {
        let Some(own) = self.answer_from(ip) else { return };
        let mut reply = message.to_vec();
        reply[0] = kind;
        packet::fill_checksum(own, ip.src, proto, &mut reply, 2);
        self.send_ip(now, own, ip.src, proto, &reply);
    }

    fn take_reply(&mut self, now: Time, from: IpAddr, message: &[u8]) {
        let (id, sequence) = (be16(message, 4), be16(message, 6));
        let intact = |run: &PingRun| message[8..].iter().copied().eq(payload(run.ping.size));
        let Some(run) = self.pings.iter_mut().find(|run| run.id == id) else {
            self.ignored += 1;
            return;
        };
        // A group answers from its members' addresses.
        let expected = run.ping.to == from || packet::is_multicast(run.ping.to);
        match run.open.get(&sequence).copied().filter(|_| expected && intact(run)) {
            Some(sent_at) => {
                run.open.remove(&sequence);
                run.rtt.add(now.since(sent_at));
                self.count(HostCounter::PingReceived);
            }
            // A duplicate, or damaged on the way.
            None => self.ignored += 1,
        }
    }

    pub(super) fn receive_udp(&mut self, now: Time, ip: &IpPacket<'_>, datagram: &[u8]) {
        if datagram.len() < 8 {
            self.bad += 1;
            return;
        }
        let (src_port, dst_port, len) =
            (be16(datagram, 0), be16(datagram, 2), usize::from(be16(datagram, 4)));
        let Some(body) = datagram.get(8..len.max(8)).filter(|_| len >= 8) else {
            self.bad += 1;
            return;
        };
        self.count(HostCounter::UdpReceived);
        self.udp_bytes += body.len() as u64;
        let answers = |run: &UdpRun| {
            (run.udp.from_port, run.udp.port) == (dst_port, src_port)
                && (run.udp.to == ip.src || packet::is_multicast(run.udp.to))
        };
        if self.udp_runs.iter().any(answers) {
            self.count(HostCounter::UdpEchoed);
        }
        // Two echo services must not talk to each other for ever.
        if self.echo.contains(&dst_port)
            && !self.echo.contains(&src_port)
            && let Some(own) = self.answer_from(ip)
        {
            self.send_udp(now, own, dst_port, ip.src, src_port, body);
        }
    }
}
