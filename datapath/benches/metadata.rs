//! What it costs to initialise more of a packet's metadata than the packet needs, extraction included.
//!
//! Packets come from a ring that is larger than the first-level caches, as those of a busy switch do, so that each
//! cache line touched is one fetched. `as needed` is what reception does; `with connection` also clears the conntrack fields,
//! which nobody reads while `ct_state` is 0; `everything` writes the tunnel with its options too.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use datapath::flow::{ExtractConfig, Miniflow, Tunnel, extract};
use datapath::packet::{CtMetadata, HEADROOM, Packet};
use datapath::types::PortNo;
use zerocopy::FromZeros;

/// Packets in the ring: 8192 of less than 2 kB, as many as some DPDK pools have.
const RING: usize = 8192;
/// Received in one go.
const BURST: usize = 1024;

const FRAME: &[u8] = &[
    0x50, 0x54, 0, 0, 0, 2, 0x50, 0x54, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10,
    0, 0, 1, 10, 0, 0, 2, 3, 0xe8, 7, 0xd0, 0, 26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0,
];

fn run(c: &mut Criterion, name: &str, init: impl Fn(&mut Packet)) {
    let mut group = c.benchmark_group("metadata");
    group.throughput(Throughput::Elements(BURST as u64));
    let mut ring: Vec<Packet> = (0..RING).map(|_| Packet::from_frame(FRAME)).collect();
    let mut mini = Miniflow::default();
    let mut next = 0;
    group.bench_function(name, |b| {
        b.iter(|| {
            for _ in 0..BURST {
                let packet = &mut ring[next];
                next = (next + 1) % RING;
                init(packet);
                packet.rss_hash = Some(1);
                extract(packet, &mut mini, ExtractConfig::default());
                black_box(&mut mini);
            }
        });
    });
    group.finish();
}

fn benches(c: &mut Criterion) {
    assert_eq!(HEADROOM, 256, "the figures quoted are for this headroom");
    let blank = Tunnel::new_zeroed();
    run(c, "as needed", |packet| packet.md.init(PortNo(1)));
    run(c, "with connection", |packet| {
        packet.md.set_ct(0, black_box(CtMetadata::default()));
        packet.md.init(PortNo(1));
    });
    let mut set = blank;
    set.ip_dst.set(1);
    run(c, "everything", |packet| {
        packet.md.set_ct(0, black_box(CtMetadata::default()));
        packet.md.set_tunnel(Some(black_box(&set)));
        packet.md.init(PortNo(1));
    });
}

criterion_group!(metadata, benches);
criterion_main!(metadata);
