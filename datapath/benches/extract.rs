//! Extraction of flow keys: time a packet, for kinds of packets, over a batch of 32 that stays in the cache.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use datapath::flow::{
    ExtractConfig, Flow, Miniflow, Payload, Tunnel, compose, extract, extract_simple, proto,
};
use datapath::packet::{BATCH, CtMetadata, Packet};
use datapath::types::PortNo;
use zerocopy::FromZeros;

fn ipv4(proto: u8) -> Flow {
    let mut flow = Flow { nw_proto: proto, nw_ttl: 64, ..Flow::default() };
    flow.dl_type.set(proto::ETH_IPV4);
    flow.nw_src.set(0x0a00_0001);
    flow.nw_dst.set(0x0a00_0002);
    flow.tp_src.set(1000);
    flow.tp_dst.set(2000);
    flow
}

fn tag(flow: &mut Flow, index: usize, tpid: u16) {
    flow.vlans[index].tpid.set(tpid);
    flow.vlans[index].tci.set(0x1005);
}

/// Frames of one kind from different sources, with the hash that a device would have computed, or not.
fn batch(mut flow: Flow, hashed: bool) -> Vec<Packet> {
    (0..BATCH as u32)
        .map(|i| {
            flow.nw_src.set(0x0a00_0001 + i);
            flow.ipv6_src[15] = i as u8;
            let mut packet = compose(&flow, Payload::Pattern(18), false);
            packet.md.init(PortNo(1));
            packet.rss_hash = hashed.then_some(i);
            packet
        })
        .collect()
}

fn run(c: &mut Criterion, name: &str, mut packets: Vec<Packet>) {
    let mut group = c.benchmark_group("extract");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut minis = vec![Miniflow::default(); BATCH];
    let hashed = packets[0].rss_hash;
    group.bench_function(name, |b| {
        b.iter(|| {
            for (packet, mini) in packets.iter_mut().zip(&mut minis) {
                packet.rss_hash = hashed;
                extract(black_box(packet), mini, ExtractConfig { vlan_limit: 2 });
            }
            black_box(&mut minis);
        });
    });
    group.finish();
}

fn benches(c: &mut Criterion) {
    run(c, "udp, hashed by the device", batch(ipv4(proto::IP_UDP), true));
    run(c, "udp", batch(ipv4(proto::IP_UDP), false));
    run(c, "tcp, hashed by the device", batch(ipv4(proto::IP_TCP), true));
    run(c, "icmp", batch(ipv4(proto::IP_ICMP), true));

    let mut vlan = ipv4(proto::IP_UDP);
    tag(&mut vlan, 0, proto::ETH_VLAN);
    run(c, "vlan udp, hashed", batch(vlan, true));
    tag(&mut vlan, 1, proto::ETH_SVLAN);
    run(c, "qinq udp, hashed", batch(vlan, true));

    let mut ipv6 = ipv4(proto::IP_TCP);
    ipv6.dl_type.set(proto::ETH_IPV6);
    ipv6.ipv6_dst[15] = 9;
    run(c, "ipv6 tcp, hashed", batch(ipv6, true));

    let mut tunnel = Tunnel::new_zeroed();
    tunnel.ip_src.set(0xc000_0201);
    tunnel.ip_dst.set(0xc000_0202);
    tunnel.tun_id.set(42);
    let mut packets = batch(ipv4(proto::IP_UDP), true);
    packets.iter_mut().for_each(|packet| packet.md.set_tunnel(Some(&tunnel)));
    run(c, "udp from a vxlan tunnel, hashed", packets);

    let mut packets = batch(ipv4(proto::IP_UDP), true);
    for packet in &mut packets {
        let ct = CtMetadata { zone: 1, orig_proto: proto::IP_UDP, ..CtMetadata::default() };
        packet.md.set_ct(0x21, ct);
        packet.md.recirc_id = 1;
    }
    run(c, "udp behind conntrack, hashed", packets);

    let mut arp = ipv4(1);
    arp.dl_type.set(proto::ETH_ARP);
    run(c, "arp", batch(arp, false));

    let mut group = c.benchmark_group("simple");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut packets = batch(ipv4(proto::IP_UDP), true);
    group.bench_function("udp", |b| {
        b.iter(|| {
            for packet in &mut packets {
                black_box(extract_simple(black_box(packet), ExtractConfig::default()));
            }
        });
    });
    group.finish();
}

criterion_group!(extraction, benches);
criterion_main!(extraction);
