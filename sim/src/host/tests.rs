//! Two hosts on a link, in all kinds of weather.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::link::{Direction, Fate, FrameSize, LinkModel};
use crate::quantity::Probability;
use crate::queue::{Class, EventQueue};
use crate::scenario::{Ping, Tcp, Udp};
use datapath::types::Span;

struct Pair {
    hosts: [Host; 2],
    line: [Direction; 2],
    queue: EventQueue<(usize, Vec<u8>)>,
    now: Time,
}

fn config(name: &str, last: u8, mtu: u32) -> HostConfig {
    let cidr = |text: &str| text.parse::<Cidr>().unwrap();
    HostConfig {
        name: name.to_owned(),
        mac: MacAddr([2, 0, 0, 0, 0, last]),
        addresses: vec![cidr(&format!("10.0.0.{last}/24")), cidr(&format!("fd00::{last}/64"))],
        gateways: vec!["10.0.0.254".parse().unwrap()],
        mtu,
        listen: vec![80],
        echo: vec![7],
        span: 0..0,
    }
}

impl Pair {
    fn new(model: LinkModel, seed: u64, mtu: u32) -> Self {
        let host = |name, last| Host::new(&config(name, last, mtu), seed);
        let line = |name| Direction::new(model, seed, name);
        Self {
            hosts: [host("a", 1), host("b", 2)],
            line: [line("a b"), line("b a")],
            queue: EventQueue::default(),
            now: Time::ZERO,
        }
    }

    fn flush(&mut self) {
        for side in 0..2 {
            for frame in self.hosts[side].take_output() {
                let bytes = frame.len() as u64;
                let size = FrameSize { bytes, l3_bytes: bytes - 14 };
                if let Fate::Arrives { at, twice } = self.line[side].send(self.now, size) {
                    for _ in 0..=usize::from(twice) {
                        self.queue.push(at, Class::Motion, (1 - side, frame.clone()));
                    }
                }
            }
        }
    }

    /// Runs until nothing is left to do, or for 1000 seconds.
    fn run(&mut self) {
        self.flush();
        loop {
            let timer = self.hosts.iter().filter_map(Host::next_timer).min();
            let next = [timer, self.queue.next_time()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next < Time::from_millis(1_000_000)) else { return };
            assert!(next >= self.now);
            self.now = next;
            if self.queue.next_time() == Some(next) {
                let (_, (side, frame)) = self.queue.pop().unwrap();
                self.hosts[side].receive(next, &frame, false);
            } else {
                for host in &mut self.hosts {
                    host.run(next);
                }
            }
            self.flush();
        }
    }
}

fn perfect() -> LinkModel {
    LinkModel { delay: Span(10_000), ..LinkModel::default() }
}

fn expected_sha256(bytes: u64) -> [u8; 32] {
    let data: Vec<u8> = (0..bytes).map(traffic::payload_byte).collect();
    Sha256::digest(&data).into()
}

fn tcp(to: &str, port: u16, bytes: u64) -> Tcp {
    Tcp { from: "a".to_owned(), to: to.parse().unwrap(), port, from_port: None, bytes }
}

#[test]
fn ping_resolves_and_measures() {
    for (to, frames) in [("10.0.0.2", 4), ("fd00::2", 4)] {
        let mut pair = Pair::new(perfect(), 1, 1500);
        let ping = Ping {
            from: "a".into(),
            to: to.parse().unwrap(),
            count: 3,
            interval: Span::from_secs(1),
            size: 56,
        };
        pair.hosts[0].ping(Time::ZERO, &ping);
        pair.run();
        let [a, b] = &pair.hosts;
        assert_eq!((a.counter(HostCounter::PingSent), a.counter(HostCounter::PingReceived)), (3, 3), "{to}");
        // The first one waits for the address: two more trips.
        let rtt = RttSummary { count: 3, sum_ns: 80_000, min_ns: 20_000, max_ns: 40_000 };
        assert_eq!((a.rtt(), rtt.mean_ns()), (rtt, 26_666));
        assert_eq!((a.frames(), b.frames()), ((frames, frames), (frames, frames)));
        assert_eq!((b.bad(), b.ignored(), a.bad(), a.ignored()), (0, 0, 0, 0));
    }
}

#[test]
fn nobody_there() {
    let mut pair = Pair::new(perfect(), 1, 1500);
    let ping = |to: &str| Ping {
        from: "a".into(),
        to: to.parse().unwrap(),
        count: 2,
        interval: Span::from_secs(9),
        size: 0,
    };
    pair.hosts[0].ping(Time::ZERO, &ping("10.0.0.9"));
    pair.hosts[0].ping(Time::ZERO, &ping("fd01::1"));
    pair.run();
    let a = &pair.hosts[0];
    assert_eq!(
        (a.counter(HostCounter::PingSent), a.counter(HostCounter::PingReceived), a.unreachable()),
        (4, 0, 4)
    );
    assert_eq!(a.frames().1, 6, "three questions for each of two requests");
}

#[test]
fn datagrams_in_fragments_come_back() {
    for to in ["10.0.0.2", "fd00::2"] {
        let mut pair = Pair::new(perfect(), 1, 1500);
        let udp = Udp {
            from: "a".into(),
            to: to.parse().unwrap(),
            port: 7,
            from_port: 4000,
            count: 2,
            interval: Span::from_millis(1),
            size: 5000,
        };
        pair.hosts[0].udp(Time::ZERO, &udp);
        pair.run();
        let [a, b] = &pair.hosts;
        assert_eq!((a.counter(HostCounter::UdpEchoed), b.counter(HostCounter::UdpReceived)), (2, 2), "{to}");
        assert_eq!((a.udp_bytes(), b.udp_bytes(), b.bad()), (10_000, 10_000, 0));
    }
}

#[test]
fn tcp_delivers_and_closes() {
    for to in ["10.0.0.2", "fd00::2"] {
        let mut pair = Pair::new(perfect(), 1, 1500);
        pair.hosts[0].tcp(Time::ZERO, &tcp(to, 80, 1_000_000));
        pair.run();
        let [a, b] = &pair.hosts;
        let (client, server) = (&a.connections()[0], &b.connections()[0]);
        assert_eq!((client.state(), server.state()), (tcp::State::Closed, tcp::State::Closed));
        assert_eq!(
            (client.acknowledged(), server.delivered(), client.retransmitted()),
            (1_000_000, 1_000_000, 0)
        );
        assert_eq!(server.delivered_sha256(), expected_sha256(1_000_000));
        assert!(pair.now < Time::from_millis(100), "no timer was needed: {:?}", pair.now);
    }
}

#[test]
fn tcp_without_bytes_opens_and_closes() {
    let mut pair = Pair::new(perfect(), 1, 1500);
    pair.hosts[0].tcp(Time::ZERO, &tcp("10.0.0.2", 80, 0));
    pair.run();
    assert_eq!(pair.hosts.each_ref().map(|host| host.counter(HostCounter::TcpClosed)), [1, 1]);
    // ARP 2, handshake 3, FIN, ACK of it, FIN, ACK.
    assert_eq!(pair.hosts[0].frames(), (4, 5));
}

#[test]
fn a_closed_port_refuses() {
    let mut pair = Pair::new(perfect(), 1, 1500);
    pair.hosts[0].tcp(Time::ZERO, &tcp("10.0.0.2", 81, 10));
    pair.run();
    assert_eq!(pair.hosts[0].connections()[0].state(), tcp::State::Refused);
    assert!(pair.hosts[1].connections().is_empty());
}

#[test]
fn a_dead_line_times_out() {
    let mut pair = Pair::new(perfect(), 1, 1500);
    pair.hosts[0].tcp(Time::ZERO, &tcp("10.0.0.2", 80, 10_000_000));
    for direction in &mut pair.line {
        direction.model.rate = Some(10_000_000);
    }
    let mut half = pair;
    half.flush();
    while half.hosts[1].counter(HostCounter::TcpDelivered) < 100_000 {
        let timer = half.hosts.iter().filter_map(Host::next_timer).min();
        let next = [timer, half.queue.next_time()].into_iter().flatten().min().unwrap();
        half.now = next;
        if half.queue.next_time() == Some(next) {
            let (_, (side, frame)) = half.queue.pop().unwrap();
            half.hosts[side].receive(next, &frame, false);
        } else {
            half.hosts.iter_mut().for_each(|host| host.run(next));
        }
        half.flush();
    }
    half.line.iter_mut().for_each(|direction| direction.model.down = true);
    half.run();
    assert_eq!(half.hosts[0].connections()[0].state(), tcp::State::TimedOut);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the link does, what is delivered is what was sent, all of it, once.
    #[test]
    fn tcp_over_a_bad_line_delivers_exact_bytes(
        seed in any::<u64>(),
        loss in 0u32..80_000_000,
        duplicate in 0u32..100_000_000,
        reorder in 0u32..100_000_000,
        jitter in 0u64..50_000,
        bytes in 0u64..60_000,
        v6 in any::<bool>(),
    ) {
        let model = LinkModel {
            delay: Span(100_000),
            jitter: Span(jitter),
            loss: Probability::from_parts(loss),
            duplicate: Probability::from_parts(duplicate),
            reorder: Probability::from_parts(reorder),
            ..LinkModel::default()
        };
        let mut pair = Pair::new(model, seed, 1500);
        // Resolve first: three lost questions in a row would end the attempt before it began.
        let to = if v6 { "fd00::2" } else { "10.0.0.2" };
        for direction in &mut pair.line { direction.model = perfect(); }
        let ping = Ping { from: "a".into(), to: to.parse().unwrap(), count: 1, interval: Span::from_secs(1), size: 0 };
        pair.hosts[0].ping(Time::ZERO, &ping);
        pair.run();
        for direction in &mut pair.line { direction.model = model; }
        let now = pair.now;
        pair.hosts[0].tcp(now, &tcp(to, 80, bytes));
        pair.run();
        let [a, b] = &pair.hosts;
        let (client, server) = (&a.connections()[0], &b.connections()[0]);
        prop_assert_eq!((client.state(), server.state()), (tcp::State::Closed, tcp::State::Closed));
        prop_assert_eq!((client.acknowledged(), server.delivered()), (bytes, bytes));
        prop_assert_eq!(server.delivered_sha256(), expected_sha256(bytes));
    }

    #[test]
    fn no_frame_panics(start in 0usize..5, damage in prop::collection::vec((0usize..80, any::<u8>()), 0..6), cut in 0usize..90) {
        let mut pair = Pair::new(perfect(), 1, 1500);
        let mut frames = Vec::new();
        pair.hosts[0].tcp(Time::ZERO, &tcp("10.0.0.2", 80, 100));
        frames.extend(pair.hosts[0].take_output());
        let layers = [
            "ipv4 10.0.0.1 > 10.0.0.2 / tcp 5 > 80 flags syn",
            "ipv6 fd00::1 > fd00::2 / icmpv6 type 135 code 0 / 20 bytes",
            "ipv4 10.0.0.1 > 10.0.0.2 more / udp 5 > 7 / 24 bytes",
            "ipv6 fd00::1 > fd00::2 / udp 5 > 7 / 24 bytes",
        ];
        let eth = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02";
        frames.extend(layers.map(|text| crate::scenario::frame::parse(&format!("{eth} / {text}")).unwrap()));
        let mut frame = frames[start].clone();
        for (at, byte) in damage {
            if let Some(b) = frame.get_mut(at) { *b = byte; }
        }
        frame.truncate(cut);
        pair.hosts[1].receive(Time::ZERO, &frame, true);
        pair.hosts[1].receive(Time::ZERO, &frame, false);
    }
}
