//! Connection tracking by itself: how fast connections are set up, and how fast packets of known ones are looked up.

use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use datapath::action::{Ct, Nat, NatKind};
use datapath::conntrack::Conntrack;
use datapath::flow::Flow;
use datapath::offload::checksum;
use datapath::packet::Packet;
use datapath::types::{PortNo, Time};

/// Packets of a round.
const ROUND: u32 = 10_000;

/// A UDP datagram from host `n`, as if just received.
fn packet(n: u32) -> Packet {
    let mut frame = [0; 64];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[26..30].copy_from_slice(&(0x0a00_0000 + n).to_be_bytes());
    frame[30..40].copy_from_slice(&[11, 0, 0, 1, 1, 1, 2, 2, 0, 30]);
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum);
    let mut packet = Packet::from_frame(&frame);
    packet.md.init(PortNo(1));
    Flow::of_packet(&mut packet);
    packet
}

fn track_all(tracker: &mut Conntrack, packets: &[Packet], ct: &Ct) {
    let mut packet = Packet::empty(64);
    for one in packets {
        packet.clone_from(one);
        let _seen = tracker.track(&mut packet, ct, Time::ZERO);
    }
}

fn conntrack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("conntrack");
    group.throughput(Throughput::Elements(ROUND.into()));
    group.measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(300)).sample_size(20);
    let packets: Vec<Packet> = (0..ROUND).map(packet).collect();
    let plain = Ct { commit: true, zone: 1, ..Ct::default() };
    let source = std::net::Ipv4Addr::new(192, 0, 2, 1).into();
    let nat = Nat { kind: NatKind::Src, addr: Some((source, source)), ..Nat::default() };
    let translating = Ct { nat: Some(nat), ..plain.clone() };
    group.bench_function("copy", |bencher| {
        let mut copy = Packet::empty(64);
        bencher.iter(|| packets.iter().for_each(|packet| copy.clone_from(std::hint::black_box(packet))));
    });
    for (name, ct) in [("set-up", &plain), ("set-up-nat", &translating)] {
        group.bench_function(name, |bencher| {
            let new = || Conntrack::new(1);
            bencher.iter_batched_ref(new, |tracker| track_all(tracker, &packets, ct), BatchSize::LargeInput);
        });
    }
    for n in [ROUND, 1_000_000] {
        let mut tracker = Conntrack::new(1);
        for i in 0..n {
            let _seen = tracker.track(&mut packet(i), &plain, Time::ZERO);
        }
        group.bench_function(format!("known-of-{n}"), |bencher| {
            bencher.iter(|| track_all(&mut tracker, &packets, &plain));
        });
    }
    group.finish();
}

criterion_group!(benches, conntrack);
criterion_main!(benches);
