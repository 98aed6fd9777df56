//! Connection tracking under load: what floods it stays within its limits and harms no established connection, and a
//! connection costs so much memory and no more.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use datapath::action::{Action, Actions, Ct};
use datapath::flow::Flow;
use datapath::offload::checksum;
use datapath::packet::Batch;
use datapath::pipeline::{Config, Datapath, FlowPut, NoUpcall, PortConfig};
use datapath::trace::Off;
use datapath::types::{PortNo, RecircId, Time};

/// The system's allocator; knows how many bytes each thread has.
struct Weighing;

thread_local! {
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn weigh(bytes: isize) {
    // A thread that is ending has nothing left to count with.
    let _ended = BYTES.try_with(|all| all.set(all.get() + bytes));
}

// SAFETY: every call goes to the system's allocator as it came; the counter is a plain thread-local integer.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        weigh(layout.size() as isize);
        // SAFETY: the caller holds to the contract of `alloc`, which is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        weigh(-(layout.size() as isize));
        // SAFETY: `ptr` came from `alloc` above, hence from the system's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

const CLIENTS: PortNo = PortNo(1);
const SERVERS: PortNo = PortNo(2);
/// What belongs to no established connection leaves here.
const OTHERS: PortNo = PortNo(3);
const TRACKED: u8 = 0x20;
const ESTABLISHED: u8 = 0x02;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn put(datapath: &mut Datapath, key: &Flow, mask: &Flow, actions: Actions) {
    let put = FlowPut { key, mask, actions, ufid: None, create: true, modify: false, zero_stats: false };
    datapath.flow_put(put, Time::ZERO).unwrap();
}

/// A datapath that tracks in zone 1, commits what clients begin, and sends what is established to the other side.
fn firewall() -> Datapath {
    let mut datapath = Datapath::new(1, Config { emc_insert_inv_prob: 0, ..Config::default() });
    for port in 1..=3 {
        datapath.add_port(PortNo(port), PortConfig::default()).unwrap();
    }
    let mask = |ct_state| {
        let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ct_state, ..Flow::default() };
        mask.dl_type.set(u16::MAX);
        mask
    };
    for (from, to) in [(CLIENTS, SERVERS), (SERVERS, CLIENTS)] {
        let mut key = Flow { in_port: from.0, ..Flow::default() };
        key.dl_type.set(0x0800);
        let ct = Ct { commit: from == CLIENTS, zone: 1, ..Ct::default() };
        put(&mut datapath, &key, &mask(0), [Action::Ct(Box::new(ct)), Action::Recirc(RecircId(1))].into());
        key.recirc_id = 1;
        for (state, port) in [(ESTABLISHED, to), (0, OTHERS)] {
            let key = Flow { ct_state: TRACKED | state, ..key };
            put(&mut datapath, &key, &mask(TRACKED | ESTABLISHED), [Action::Output(port)].into());
        }
    }
    datapath
}

type End = (u32, u16);

fn ipv4(proto: u8, id: u16, fragment: u16, (src, dst): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend(id.to_be_bytes().into_iter().chain(fragment.to_be_bytes()));
    frame.extend([64, proto, 0, 0]);
    frame.extend(src.to_be_bytes().into_iter().chain(dst.to_be_bytes()));
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum);
    frame.extend(payload);
    frame
}

fn tcp(src: End, dst: End, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let mut l4: Vec<u8> = src.1.to_be_bytes().into_iter().chain(dst.1.to_be_bytes()).collect();
    l4.extend(seq.to_be_bytes().into_iter().chain(ack.to_be_bytes()));
    l4.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    let mut addresses = [0; 8];
    addresses[..4].copy_from_slice(&src.0.to_be_bytes());
    addresses[4..].copy_from_slice(&dst.0.to_be_bytes());
    let sum = checksum::pseudo_ipv4(&addresses, 6, 20).bytes(&l4).finish();
    l4[16..18].copy_from_slice(&sum);
    ipv4(6, 1, 0, (src.0, dst.0), &l4)
}

/// Sends a frame; returns by which ports something left.
fn send(datapath: &mut Datapath, port: PortNo, frame: &[u8], now: Time) -> Vec<PortNo> {
    let mut batch = Batch::new();
    let mut packet = datapath.allocate();
    packet.set_frame(frame);
    batch.push(packet).unwrap();
    datapath.process(port, &mut batch, now, &mut NoUpcall, &mut Off);
    let mut out = Vec::new();
    datapath.drain_tx(&mut Off, |port, packets| out.extend(packets.iter().map(|_| port)));
    out
}

const SERVER: End = (0x0a01_0203, 80);

fn client(n: u32) -> End {
    (0x0a00_0000 + n, 40_000)
}

/// A connection of client `n`, by its handshake.
fn establish(datapath: &mut Datapath, n: u32, now: Time) {
    send(datapath, CLIENTS, &tcp(client(n), SERVER, SYN, 100, 0), now);
    send(datapath, SERVERS, &tcp(SERVER, client(n), SYN | ACK, 500, 101), now);
    send(datapath, CLIENTS, &tcp(client(n), SERVER, ACK, 101, 501), now);
}

/// Whether both ends of client `n`'s connection still reach each other.
fn works(datapath: &mut Datapath, n: u32, now: Time) -> bool {
    send(datapath, CLIENTS, &tcp(client(n), SERVER, ACK, 101, 501), now) == [SERVERS]
        && send(datapath, SERVERS, &tcp(SERVER, client(n), ACK, 501, 101), now) == [CLIENTS]
}

#[test]
fn half_open_connections_fill_the_table_and_push_no_established_one_out() {
    let mut datapath = firewall();
    datapath.conntrack_mut().set_max_conns(1000);
    (0..100).for_each(|n| establish(&mut datapath, n, Time::ZERO));
    for n in 0..20_000 {
        let now = Time::from_millis(u64::from(n) / 10);
        send(&mut datapath, CLIENTS, &tcp(client(1000 + n), SERVER, SYN, 100, 0), now);
        assert!(datapath.conntrack().len() <= 1000);
    }
    let now = Time::from_millis(2000);
    assert_eq!(datapath.conntrack().len(), 1000, "full");
    assert!((0..100).all(|n| works(&mut datapath, n, now)));
    // What is over makes place as it is needed, without waiting to be swept.
    let later = Time::from_millis(33_000);
    establish(&mut datapath, 500, later);
    assert!(works(&mut datapath, 500, later), "room again after 30 s");
    assert!((0..100).all(|n| works(&mut datapath, n, later)));
    assert!(datapath.counters().balanced());
}

#[test]
fn a_flooded_zone_leaves_the_others_alone() {
    let mut datapath = firewall();
    datapath.conntrack_mut().limits.set(1, 50);
    let mut key = Flow { in_port: OTHERS.0, ..Flow::default() };
    key.dl_type.set(0x0800);
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    mask.dl_type.set(u16::MAX);
    let other = Ct { commit: true, zone: 2, ..Ct::default() };
    put(&mut datapath, &key, &mask, [Action::Ct(Box::new(other)), Action::Output(SERVERS)].into());
    establish(&mut datapath, 0, Time::ZERO);
    for n in 0..5000 {
        send(&mut datapath, CLIENTS, &tcp(client(1000 + n), SERVER, SYN, 100, 0), Time::ZERO);
    }
    assert_eq!(datapath.conntrack().limits.get(1), (50, 50));
    for n in 0..60 {
        send(&mut datapath, OTHERS, &tcp(client(n), SERVER, SYN, 100, 0), Time::ZERO);
    }
    assert_eq!(datapath.conntrack().len(), 110);
    assert!(works(&mut datapath, 0, Time::ZERO));
}

/// A first fragment of 1208 bytes, or the last one, of 8, of datagram `id`.
fn fragment(n: u32, id: u16, first: bool) -> Vec<u8> {
    let mut payload = vec![0; if first { 1208 } else { 8 }];
    if first {
        // A UDP datagram of both, without checksum.
        payload[..6].copy_from_slice(&[0x9c, 0x40, 0, 53, (1216_u16 >> 8) as u8, 1216_u16 as u8]);
    }
    let offset = if first { 0x2000 } else { 1208 / 8 };
    ipv4(17, id, offset, (client(n).0, SERVER.0), &payload)
}

#[test]
fn fragments_that_wait_have_a_limit_and_harm_nobody() {
    let mut datapath = firewall();
    (0..50).for_each(|n| establish(&mut datapath, n, Time::ZERO));
    let now = Time::from_millis(1000);
    for n in 0..20_000 {
        send(&mut datapath, CLIENTS, &fragment(1000 + n, n as u16, true), now);
        assert!(datapath.conntrack().fragments.held() <= 1000);
    }
    assert_eq!(datapath.conntrack().fragments.held(), 1000);
    assert!((0..50).all(|n| works(&mut datapath, n, now)));
    // There is no place for the fragments of others; each is for itself, and nothing is lost but its datagram.
    assert_eq!(send(&mut datapath, CLIENTS, &fragment(7, 1, true), now), [OTHERS]);
    // When their time is over, one of them goes with each batch that is tracked.
    let later = Time::from_millis(16_001);
    for _ in 0..500 {
        assert!(works(&mut datapath, 0, later));
    }
    assert_eq!(datapath.conntrack().fragments.held(), 0);
    assert_eq!(datapath.conntrack().fragments.counters()[0].expired, 1000);
    assert_eq!(send(&mut datapath, CLIENTS, &fragment(7, 1, true), later), []);
    assert_eq!(send(&mut datapath, CLIENTS, &fragment(7, 1, false), later), [OTHERS, OTHERS], "whole again");
    assert!(datapath.counters().balanced());
}

/// Bytes that the connections of so many clients take, each.
fn bytes_per_connection(n: u32) -> f64 {
    let mut datapath = firewall();
    establish(&mut datapath, 0, Time::ZERO);
    let before = BYTES.with(Cell::get);
    for i in 1..=n {
        send(&mut datapath, CLIENTS, &tcp(client(i), SERVER, SYN, 100, 0), Time::ZERO);
    }
    assert_eq!(datapath.conntrack().len(), n as usize + 1);
    (BYTES.with(Cell::get) - before) as f64 / f64::from(n)
}

#[test]
fn a_connection_takes_so_much_memory() {
    let bytes = bytes_per_connection(1 << 16);
    assert!(bytes < 320.0, "{bytes} bytes for each connection");
}

#[test]
fn each_of_a_million_connections_takes_as_much() {
    let bytes = bytes_per_connection(1_000_000);
    assert!((200.0..250.0).contains(&bytes), "{bytes} bytes for each connection");
}
