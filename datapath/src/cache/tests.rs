//! All tiers agree with the linear matcher, whatever is installed, changed and removed in between.

use proptest::prelude::*;

use super::*;
use crate::action::{Action, Actions};
use crate::flow::{Flow, Miniflow};
use crate::packet::BATCH;
use crate::trace::FlowId;
use crate::types::{PortNo, Span, Time};

fn output(port: u32) -> Actions {
    [Action::Output(PortNo(port))].into()
}

/// Few values in few fields, in both map units and of several widths, so that flows overlap and packets meet them.
fn key(bits: u64) -> Flow {
    let two = |shift: u32| (bits >> shift & 3) as u8;
    let mut flow = Flow { in_port: 1 + u32::from(two(0) == 3), ..Flow::default() };
    flow.dl_type.set([0x0800, 0x0800, 0x86dd, 0x0806][usize::from(two(2))]);
    flow.nw_src.set(0x0a00_0000 | u32::from(two(4)) << 8 | u32::from(two(6)));
    flow.nw_proto = [0, 6, 17, 17][usize::from(two(8))];
    flow.tp_dst.set(u16::from(two(10)));
    flow.dl_src.0[5] = two(12);
    flow.tunnel.ip_dst.set(u32::from(two(14) == 3) * 0xc000_0201);
    flow.tunnel.tun_id.set(u64::from(two(16)) * u64::from(two(14) == 3));
    flow.recirc_id = u32::from(two(18) == 3);
    flow.pkt_mark = u32::from(two(20) == 3) * 7;
    flow.ipv6_src[15] = two(22) * u8::from(two(2) == 2);
    flow.vlans[0].tci.set(if two(24) == 3 { 0x1000 | u16::from(two(26)) } else { 0 });
    flow
}

fn mask(bits: u64) -> Flow {
    let on = |bit: u32| bits >> bit & 1 != 0;
    let all = |bit: u32| if on(bit) { u32::MAX } else { 0 };
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    mask.packet_type.set(u32::MAX);
    mask.dl_type.set(u16::MAX);
    mask.nw_src.set([0, 0xffff_ff00, 0xffff_ffff, 0xff][(bits & 3) as usize]);
    mask.nw_proto = all(2) as u8;
    mask.tp_dst.set(all(3) as u16);
    mask.dl_src.0 = [all(4) as u8; 6];
    mask.tunnel.ip_dst.set(all(5));
    mask.tunnel.tun_id.set(if on(6) { u64::MAX } else { 0 });
    mask.pkt_mark = all(7);
    mask.ipv6_src = [all(8) as u8; 16];
    mask.ipv6_dst = [all(9) as u8; 16];
    mask.nw_dst.set(all(10));
    mask.dl_dst.0 = [all(11) as u8; 6];
    mask.dp_hash = all(12);
    mask.vlans[0].tci.set(0x1fff);
    mask
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Remove(usize),
    Modify(usize),
    Rank,
    Look(Vec<u64>),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (any::<u64>(), any::<u64>()).prop_map(|(key, mask)| Op::Insert(key, mask)),
        2 => any::<usize>().prop_map(Op::Remove),
        1 => any::<usize>().prop_map(Op::Modify),
        1 => Just(Op::Rank),
        4 => prop::collection::vec(any::<u64>(), 1..=BATCH).prop_map(Op::Look),
    ]
}

/// Looks a batch up in every tier and holds each answer against the linear matcher.
fn look(
    store: &mut FlowStore,
    emc: &mut Emc,
    smc: &mut Smc,
    random: &mut SplitMix64,
    linear: &Linear,
    packets: &[Flow],
) -> Result<(), TestCaseError> {
    let mut batch = KeyBatch::default();
    let mut found = Found::default();
    let mut pending = Pending::default();
    for (i, packet) in packets.iter().enumerate() {
        batch.keys[i] = Miniflow::from_flow(packet);
        // Few different hashes, so that places are fought over.
        batch.hashes[i] = (packet.nw_src.get() & 0xff) << 13 | packet.nw_src.get() >> 8 & 1;
        batch.note(i);
        pending.push(i);
    }
    let in_port = packets[0].in_port;
    if let Some(port) = store.ports.get_mut(in_port) {
        port.classifier.lookup(&batch, &mut pending, &mut found);
    }
    let missed: Vec<usize> = pending.iter().collect();
    for (i, packet) in packets.iter().enumerate() {
        let right: Vec<FlowId> = linear.matches(packet).collect();
        let dpcls = (!missed.contains(&i)).then_some(FlowId(found.flows[i]));
        match dpcls {
            None => prop_assert!(right.is_empty(), "missed {:?}", right),
            Some(flow) => {
                prop_assert!(right.contains(&flow), "{:?} not among {:?}", flow, right);
                prop_assert!(
                    usize::from(found.probed[i]) <= store.classifier(in_port).unwrap().subtables().len()
                );
            }
        }
        prop_assert_eq!(store.find_key(packet).is_some(), dpcls.is_some());

        // What the caches say is right if they say anything.
        let (hash, key, len) = (batch.hashes[i], &batch.keys[i], batch.len(i));
        if let Some(flow) = emc.lookup(hash, key, len).filter(|&flow| store.is_alive(flow)) {
            prop_assert!(right.contains(&FlowId(flow.id)));
        }
        if let Some(flow) = smc.lookup(hash).filter(|&flow| store.matches(flow, in_port, &batch.keys[i])) {
            prop_assert!(right.contains(&FlowId(flow)));
        }
        if let Some(flow) = dpcls {
            let reference = store.reference(flow.0);
            emc.insert(hash, key, len, reference, |flow| store.is_alive(flow));
            smc.insert(hash, flow.0, random);
            let cached = emc.lookup(hash, key, len);
            prop_assert_eq!(cached, Some(reference), "just inserted");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tiers_agree_with_the_linear_matcher(ops in prop::collection::vec(op(), 1..60)) {
        let mut store = FlowStore::default();
        let (mut emc, mut smc) = (Emc::default(), Smc::enabled());
        let mut random = SplitMix64::named(1, "smc");
        let mut linear = Linear::default();
        let mut alive: Vec<(FlowId, Flow, Flow, u32)> = Vec::new();
        for (n, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(k, m) => {
                    let (key, mask) = (key(k), mask(m));
                    let known = alive.iter().any(|(_, k, m, _)| *m == mask && *k == key.masked(&mask));
                    match store.insert(&key, &mask, output(n as u32), None, Time(n as u64)) {
                        Ok(id) => {
                            prop_assert!(!known);
                            linear.insert(id, &key, &mask);
                            alive.push((id, key.masked(&mask), mask, n as u32));
                        }
                        Err(error) => {
                            prop_assert_eq!(error, FlowError::Exists);
                            prop_assert!(known);
                        }
                    }
                }
                Op::Remove(at) if !alive.is_empty() => {
                    let (id, ..) = alive.remove(at % alive.len());
                    prop_assert!(store.remove(id).is_some());
                    prop_assert!(store.remove(id).is_none());
                    prop_assert!(linear.remove(id));
                }
                Op::Modify(at) if !alive.is_empty() => {
                    let at = at % alive.len();
                    alive[at].3 = n as u32;
                    prop_assert_eq!(store.set_actions(alive[at].0, output(n as u32)), Ok(()));
                }
                Op::Remove(_) | Op::Modify(_) => {}
                Op::Rank => store.ports.values_mut().for_each(|port| port.classifier.rank()),
                Op::Look(packets) => {
                    for port in 1..=2 {
                        let packets: Vec<Flow> =
                            packets.iter().map(|&bits| Flow { in_port: port, ..key(bits) }).collect();
                        look(&mut store, &mut emc, &mut smc, &mut random, &linear, &packets)?;
                    }
                }
            }
            let listed: Vec<_> = store.iter().map(|flow| (flow.id, flow.masked_key(), flow.mask(), flow.actions.to_vec())).collect();
            let expected: Vec<_> = alive
                .iter()
                .map(|(id, key, mask, port)| (*id, *key, *mask, output(*port).to_vec()))
                .collect();
            prop_assert_eq!(listed, expected, "in order of insertion");
            prop_assert_eq!(store.len(), alive.len());
        }
    }

    #[test]
    fn every_width_of_mask_is_looked_up(widths in prop::collection::vec(0usize..20, 1..4), packets in prop::collection::vec(any::<u8>(), 32)) {
        // Masks of n words: one bit in each of the words 64 on, which covers each specialised lookup and the general one.
        let word = |i: usize| 67 + i;
        let mut store = FlowStore::default();
        let mut linear = Linear::default();
        let flow_of = |bits: u8, width: usize| {
            let mut flow = Flow { in_port: 1, ..Flow::default() };
            for i in 0..width {
                flow.words_mut()[word(i)] = u64::from(bits >> (i % 8) & 1);
            }
            flow
        };
        for width in widths {
            for bits in 0..4 {
                let mut mask = flow_of(0xff, width);
                mask.in_port = u32::MAX;
                mask.recirc_id = u32::MAX;
                mask.vlans[0].tci.set(0x1fff);
                let key = flow_of(bits, width);
                if let Ok(id) = store.insert(&key, &mask, output(1), None, Time::ZERO) {
                    linear.insert(id, &key, &mask);
                }
            }
        }
        let packets: Vec<Flow> = packets.iter().map(|&bits| flow_of(bits & 7, usize::from(bits >> 3) % 20)).collect();
        let (mut emc, mut smc) = (Emc::default(), Smc::default());
        look(&mut store, &mut emc, &mut smc, &mut SplitMix64::named(1, ""), &linear, &packets)?;
    }
}

#[test]
fn many_flows_in_one_subtable() {
    let mut store = FlowStore::default();
    let mut mask = mask(2);
    mask.nw_src.set(u32::MAX);
    let flow = |n: u32| {
        let mut key = Flow { in_port: 1, ..Flow::default() };
        key.nw_src.set(n);
        key
    };
    for n in 0..5000 {
        store.insert(&flow(n), &mask, output(n), None, Time::ZERO).unwrap();
    }
    for n in (0..5000).step_by(3) {
        let id = store.find_key(&flow(n)).unwrap();
        assert_eq!(store.get(id).unwrap().key().nw_src.get(), n);
        store.remove(id);
    }
    for n in 0..5000 {
        let found = store.find_key(&flow(n)).map(|id| store.get(id).unwrap().actions.to_vec());
        assert_eq!(found, (n % 3 != 0).then(|| output(n).to_vec()));
    }
    assert_eq!(store.classifier(1).unwrap().subtables().len(), 1);
}

#[test]
fn ufid_covers_the_mask() {
    let mut store = FlowStore::default();
    let mut key = Flow { in_port: 1, nw_tos: 0, ..Flow::default() };
    key.dl_type.set(0x0800);
    let wide = mask(0);
    let narrow = Flow { nw_tos: 0xff, ..wide };
    let a = store.insert(&key, &wide, output(3), None, Time::ZERO).unwrap();
    let b = store.insert(&key, &narrow, output(3), None, Time::ZERO).unwrap();
    assert_ne!(store.get(a).unwrap().ufid, store.get(b).unwrap().ufid);
    assert_eq!(store.find_ufid(store.get(a).unwrap().ufid), Some(a));
    let other = Flow { nw_tos: 4, ..key };
    assert_eq!(store.insert(&other, &wide, output(4), None, Time::ZERO), Err(FlowError::Exists));
}

#[test]
fn masks_are_completed() {
    let incomplete = Flow { in_port: u32::MAX, regs: [1; 32], conj_id: 1, ..Flow::default() };
    let mask = complete_mask(&incomplete).unwrap();
    assert_eq!(mask.vlans[0].tci.get(), 0x1fff, "no match on a tag means that there is none");
    assert_eq!(mask.recirc_id, u32::MAX);
    assert_eq!((mask.regs, mask.conj_id), ([0; 32], 0), "no packet has registers");
    assert_eq!(complete_mask(&Flow { in_port: 0xff, ..incomplete }), Err(FlowError::InPort));
}

#[test]
fn flows_expire_when_idle() {
    let mut store = FlowStore::default();
    let idle = Span::from_secs(10);
    assert_eq!(store.next_idle(idle), None);
    for n in 0..3 {
        let key = Flow { in_port: n, ..Flow::default() };
        store.insert(&key, &mask(0), output(1), None, Time::from_millis(u64::from(n))).unwrap();
    }
    assert_eq!(store.next_idle(idle), Some(Time::from_millis(10_000)));
    store.hot[1].used = Time::from_millis(5_000).0;
    let mut gone = Vec::new();
    store.expire(Time::from_millis(9_999), idle, |flow| gone.push(flow.id));
    assert!(gone.is_empty());
    store.expire(Time::from_millis(10_002), idle, |flow| gone.push(flow.id));
    assert_eq!(gone, [FlowId(0), FlowId(2)]);
    assert_eq!(store.next_idle(idle), Some(Time::from_millis(15_000)), "when it was last used");
    assert_eq!(store.len(), 1);
}

#[test]
fn numbers_are_used_again_with_another_generation() {
    let mut store = FlowStore::default();
    let key = Flow { in_port: 1, ..Flow::default() };
    let first = store.insert(&key, &mask(0), output(1), None, Time::ZERO).unwrap();
    let reference = store.reference(first.0);
    assert!(store.is_alive(reference));
    store.remove(first);
    assert!(!store.is_alive(reference));
    let second = store.insert(&key, &mask(0), output(2), None, Time::ZERO).unwrap();
    assert_eq!(first, second);
    assert!(!store.is_alive(reference), "an old cache entry must not lead to the new flow");
}

#[test]
fn ufid_prints_as_a_uuid() {
    assert_eq!(
        Ufid(0x0123_4567_89ab_cdef_0011_2233_4455_6677).to_string(),
        "01234567-89ab-cdef-0011-223344556677"
    );
}
