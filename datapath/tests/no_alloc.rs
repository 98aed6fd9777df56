//! Forwarding allocates nothing: once caches, queues and pool have grown to what the traffic needs, not one allocation or
//! release happens, whichever tier decides and whatever the actions do.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use datapath::action::{Action, Ct, HashAlg, Nat, NatKind, SetField, SetGroup};
use datapath::bench::CASES;
use datapath::flow::Flow;
use datapath::offload::checksum;
use datapath::packet::{BATCH, Batch};
use datapath::pipeline::{Config, Datapath, FlowPut, NoUpcall, PortConfig};
use datapath::trace::Off;
use datapath::types::{MacAddr, PortNo, RecircId, Time};

/// The system's allocator; counts each thread's calls, since tests run beside each other.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has nothing left to count with, and nothing to count.
    let _ended = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it came; the counter is a plain thread-local integer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller holds to the contract of `alloc`, which is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count();
        // SAFETY: `ptr` came from `alloc` above, hence from the system's.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn calls() -> u64 {
    CALLS.with(Cell::get)
}

#[test]
fn the_counter_counts() {
    let before = calls();
    drop(std::hint::black_box(Box::new(7)));
    assert_eq!(calls() - before, 2);
}

#[test]
fn no_tier_allocates() {
    for case in CASES {
        let mut bench = case.build();
        bench.run(2000);
        let before = calls();
        let packets = bench.run(1000);
        assert_eq!(calls() - before, 0, "{} over {packets} packets", case.name);
    }
}

fn set(group: SetGroup, change: impl Fn(&mut Flow)) -> Action {
    let (mut key, mut mask) = (Flow::default(), Flow::default());
    change(&mut key);
    change(&mut mask);
    for word in mask.words_mut() {
        // All bits of each field that is written; the values are never zero.
        let bytes = word.to_ne_bytes().map(|byte| if byte == 0 { 0 } else { 0xff });
        *word = u64::from_ne_bytes(bytes);
    }
    Action::SetMasked(Box::new(SetField { group, key, mask }))
}

/// Flows of port 1, each for one IPv4 source address and each with other actions.
fn actions() -> Vec<Vec<Action>> {
    let output = Action::Output(PortNo(2));
    let recirc = Action::Recirc(RecircId(1));
    let sets = [
        set(SetGroup::Ethernet, |flow| flow.dl_dst = MacAddr([2, 2, 2, 2, 2, 2])),
        set(SetGroup::Ipv4, |flow| flow.nw_ttl = 63),
        set(SetGroup::Ipv4, |flow| flow.nw_dst.set(0x0a01_0101)),
        set(SetGroup::Udp, |flow| flow.tp_dst.set(0x1234)),
        set(SetGroup::Mark, |flow| flow.pkt_mark = 0x0101_0101),
    ];
    let push_vlan = Action::PushVlan { tpid: 0x8100, tci: 0x1005 };
    let check = |len| {
        let (greater, not_greater) = ([output.clone()].into(), [output.clone(), output.clone()].into());
        Action::CheckPktLen { len, greater, not_greater }
    };
    vec![
        vec![output.clone()],
        vec![output.clone(), Action::Output(PortNo(3)), Action::Output(PortNo(4))],
        sets.into_iter().chain([output.clone()]).collect(),
        vec![push_vlan.clone(), output.clone(), Action::PopVlan, output.clone()],
        vec![recirc.clone()],
        vec![push_vlan, recirc.clone(), output.clone()],
        vec![Action::Clone([Action::PopVlan, recirc.clone()].into()), output.clone()],
        vec![Action::Hash(HashAlg::L4(0)), recirc],
        vec![Action::Hash(HashAlg::SymL4(0)), Action::Clone([output.clone()].into())],
        vec![Action::Sample { probability: u32::MAX / 2, actions: [output.clone()].into() }, output.clone()],
        vec![Action::Sample { probability: u32::MAX / 2, actions: [output.clone()].into() }],
        vec![Action::Trunc(20), output.clone(), output.clone()],
        vec![check(60), check(10)],
        vec![Action::PushMpls { ethertype: 0x8847, lse: 0x40 }, output.clone()],
        vec![Action::PopEth, Action::PushEth { dst: MacAddr::ZERO, src: MacAddr::ZERO }, output.clone()],
        vec![],
        vec![Action::Drop(3)],
        vec![Action::Output(PortNo(99))],
        vec![Action::CtClear, output],
    ]
}

fn datapath(config: Config) -> (Datapath, u8) {
    let mut datapath = Datapath::new(7, config);
    for port in 1..=4 {
        datapath.add_port(PortNo(port), PortConfig::default()).unwrap();
    }
    let mut put = |key: &Flow, mask: &Flow, actions: Vec<Action>| {
        let actions = actions.into();
        let put = FlowPut { key, mask, actions, ufid: None, create: true, modify: false, zero_stats: false };
        datapath.flow_put(put, Time::ZERO).unwrap();
    };
    let mut key = Flow { in_port: 1, ..Flow::default() };
    key.dl_type.set(0x0800);
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    mask.dl_type.set(u16::MAX);
    mask.nw_src.set(u32::MAX);
    let all = actions();
    let n = all.len() as u8;
    for (i, actions) in all.into_iter().enumerate() {
        key.nw_src.set(0x0a00_0000 + i as u32);
        put(&key, &mask, actions);
    }
    // What recirculates, with a tag or without.
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    for tci in [0, 0x1000] {
        let mut key = Flow { in_port: 1, recirc_id: 1, ..Flow::default() };
        key.vlans[0].tci.set(tci);
        mask.vlans[0].tci.set(0x1000);
        put(&key, &mask, vec![Action::Output(PortNo(3))]);
    }
    (datapath, n)
}

/// A UDP datagram in 64 bytes of frame, from 10.0.0.`n`.
fn frame(n: u8) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[26..38].copy_from_slice(&[10, 0, 0, n, 10, 0, 0, 99, 1, 1, 2, 2]);
    frame[39] = 30;
    frame
}

#[test]
fn no_action_allocates() {
    for (emc_insert_inv_prob, smc) in [(0, false), (1, false), (100, true)] {
        let (mut datapath, n) = datapath(Config { emc_insert_inv_prob, smc, ..Config::default() });
        let mut batch = Batch::new();
        let mut run = |batches: u8, per_flow: u8| {
            for turn in 0..batches {
                for i in 0..BATCH as u8 {
                    let mut packet = datapath.allocate();
                    packet.set_frame(&frame((turn.wrapping_mul(7).wrapping_add(i) / per_flow) % n));
                    batch.push(packet).unwrap();
                }
                datapath.process(PortNo(1), &mut batch, Time::from_millis(1), &mut NoUpcall, &mut Off);
                datapath.drain_tx(&mut Off, |_, _| {});
            }
            assert!(datapath.counters().balanced());
            datapath.counters().received
        };
        for per_flow in [1, 4, 32] {
            run(250, per_flow);
        }
        let before = calls();
        for per_flow in [1, 4, 32] {
            run(250, per_flow);
        }
        assert_eq!(calls() - before, 0, "emc 1/{emc_insert_inv_prob}, smc {smc}");
        let drops = datapath.counters().drops;
        assert!(datapath.counters().recirculated > 1000, "{:?}", datapath.counters());
        assert_eq!(drops.iter().filter(|&(_, n)| n > 0).count(), 4, "{drops:?}");
    }
}

/// A datapath that tracks what comes in by port 1, and translates its source if that is asked for.
fn tracking(nat: bool) -> Datapath {
    let mut datapath = Datapath::new(7, Config::default());
    for port in 1..=2 {
        datapath.add_port(PortNo(port), PortConfig::default()).unwrap();
    }
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    mask.dl_type.set(u16::MAX);
    let source = std::net::Ipv4Addr::new(10, 9, 9, 9).into();
    let nat = nat.then(|| Nat { kind: NatKind::Src, addr: Some((source, source)), ..Nat::default() });
    let ct = Ct {
        commit: true,
        force: false,
        zone: 3,
        mark: Some((7, 7)),
        label: None,
        helper: None,
        timeout: None,
        nat,
    };
    for (recirc_id, actions) in [
        (0, vec![Action::Ct(Box::new(ct)), Action::Recirc(RecircId(1))]),
        (1, vec![Action::Output(PortNo(2))]),
    ] {
        let mut key = Flow { in_port: 1, recirc_id, ..Flow::default() };
        key.dl_type.set(0x0800);
        let actions = actions.into();
        let put = FlowPut {
            key: &key,
            mask: &mask,
            actions,
            ufid: None,
            create: true,
            modify: false,
            zero_stats: false,
        };
        datapath.flow_put(put, Time::ZERO).unwrap();
    }
    datapath
}

#[test]
fn packets_of_known_connections_allocate_nothing() {
    for nat in [false, true] {
        let mut datapath = tracking(nat);
        let mut batch = Batch::new();
        let mut run = |batches: u8| {
            for turn in 0..batches {
                for i in 0..BATCH as u8 {
                    let mut packet = datapath.allocate();
                    let mut frame = frame(turn.wrapping_mul(7).wrapping_add(i) % 200);
                    let sum = checksum::internet(&frame[14..34]);
                    frame[24..26].copy_from_slice(&sum);
                    packet.set_frame(&frame);
                    batch.push(packet).unwrap();
                }
                datapath.process(PortNo(1), &mut batch, Time::from_millis(1), &mut NoUpcall, &mut Off);
                datapath.drain_tx(&mut Off, |_, _| {});
            }
            datapath.conntrack().len()
        };
        assert_eq!(run(250), 200);
        let before = calls();
        assert_eq!(run(250), 200);
        assert_eq!(calls() - before, 0, "translated: {nat}");
    }
}
