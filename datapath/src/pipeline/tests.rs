//! The pipeline as a whole: what leaves, what is counted, in which order, by which tier.

use super::*;
use crate::action::{Action, Actions, HashAlg, SetField, SetGroup, Userspace, UserspaceCookie};
use crate::cache::FlowError;
use crate::flow::Flow;
use crate::offload::{Capabilities, Offloads};
use crate::packet::{BATCH, Batch, Packet};
use crate::stats::DropReason;
use crate::trace::{Event, FlowId, Off, OffloadWhy, PacketId, Recorder, RemoveWhy, Tier};
use crate::types::{PortNo, RecircId, Span, Time};

/// A UDP frame of 60 bytes; `n` is the last byte of the source address, and the identification.
fn udp(n: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, n, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, n, 0, 0, 64, 17, 0, 0, 10, 0, 0, n, 10, 0, 0, 2]);
    frame.extend([0x03, 0xe8, 0x07, 0xd0, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn arp(n: u8) -> Vec<u8> {
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, n, 8, 6];
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, n, 10, 0, 0, n, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    frame
}

fn batch(frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    for frame in frames {
        batch.push(Box::new(Packet::from_frame(frame))).unwrap();
    }
    batch
}

/// A key and mask over the Ethernet type and the last byte of the source address, if given; simple if not.
fn match_on(in_port: u32, dl_type: u16, src: Option<u8>) -> (Flow, Flow) {
    let mut key = Flow { in_port, ..Flow::default() };
    key.dl_type.set(dl_type);
    let mut mask = Flow { in_port: u32::MAX, nw_frag: 3, ..Flow::default() };
    mask.packet_type.set(u32::MAX);
    mask.dl_type.set(0xffff);
    if let Some(src) = src {
        key.dl_src.0[5] = src;
        mask.dl_src.0[5] = 0xff;
    }
    (key, mask)
}

fn put(dp: &mut Datapath, (key, mask): (Flow, Flow), actions: impl Into<Actions>) -> FlowId {
    let put = FlowPut {
        key: &key,
        mask: &mask,
        actions: actions.into(),
        ufid: None,
        create: true,
        modify: false,
        zero_stats: false,
    };
    dp.flow_put(put, Time::ZERO).unwrap().0
}

fn datapath(emc_insert_inv_prob: u32, smc: bool) -> Datapath {
    let mut dp = Datapath::new(1, Config { emc_insert_inv_prob, smc, ..Config::default() });
    for port in 1..=4 {
        dp.add_port(PortNo(port), PortConfig::default()).unwrap();
    }
    dp
}

fn output(port: u32) -> Action {
    Action::Output(PortNo(port))
}

/// Sends frames in by port 1 and returns what leaves.
fn send(dp: &mut Datapath, frames: &[Vec<u8>], upcall: &mut impl Upcall) -> Vec<(u32, Vec<u8>)> {
    send_traced(dp, frames, upcall, &mut Off)
}

fn send_traced(
    dp: &mut Datapath,
    frames: &[Vec<u8>],
    upcall: &mut impl Upcall,
    trace: &mut impl crate::trace::Trace,
) -> Vec<(u32, Vec<u8>)> {
    dp.process(PortNo(1), &mut batch(frames), Time::from_millis(5), upcall, trace);
    assert!(dp.counters().balanced(), "{:?}", dp.counters());
    let mut out = Vec::new();
    dp.drain_tx(trace, |port, packets| {
        out.extend(packets.iter().map(|packet| (port.0, packet.data().to_vec())));
    });
    assert!(dp.counters().balanced(), "{:?}", dp.counters());
    assert_eq!(dp.counters().queued, 0);
    let counters = dp.counters();
    let passes = counters.received + counters.recirculated - counters.drops.get(DropReason::TooShort);
    assert_eq!(counters.passes.passes(), passes, "each pass is decided once");
    out
}

fn ports(out: &[(u32, Vec<u8>)]) -> Vec<u32> {
    out.iter().map(|(port, _)| *port).collect()
}

/// Answers each miss by a function of the key; remembers what it was asked, and what was told about its tickets.
struct Answer<F>(F, Vec<Flow>, Vec<(u64, Option<FlowId>)>);

impl<F: FnMut(&UpcallRequest<'_>) -> Result<UpcallReply, DropReason>> Upcall for Answer<F> {
    fn upcall(&mut self, request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
        self.1.push(*request.key);
        (self.0)(request)
    }

    fn settled(&mut self, ticket: u64, flow: Option<FlowId>, _now: Time) {
        self.2.push((ticket, flow));
    }
}

fn answer<F: FnMut(&UpcallRequest<'_>) -> Result<UpcallReply, DropReason>>(f: F) -> Answer<F> {
    Answer(f, Vec::new(), Vec::new())
}

/// Sends to port 2 and installs a flow over the source MAC's last byte.
fn install_by_source(request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
    let (_, mut mask) = match_on(1, 0x0800, Some(0));
    mask.recirc_id = u32::MAX;
    assert!(matches!(request.kind, UpcallKind::Miss));
    Ok(UpcallReply {
        inject: Vec::new(),
        execute: [output(2)].into(),
        install: Some(Install { mask, actions: [output(2)].into(), ticket: 7 }),
    })
}

#[test]
fn every_tier_gives_the_same_frames() {
    for (emc, smc) in [(0, false), (1, false), (0, true), (1, true), (100, true)] {
        let mut dp = datapath(emc, smc);
        for n in 0..50u8 {
            put(&mut dp, match_on(1, 0x0800, Some(n)), [output(2 + u32::from(n % 3))]);
        }
        for round in 0..3 {
            for first in 0..10u8 {
                let frames: Vec<_> = (0..BATCH as u8).map(|i| udp(first + i)).collect();
                let mut out = send(&mut dp, &frames, &mut NoUpcall);
                out.sort();
                let mut expected: Vec<_> =
                    (0..BATCH as u8).map(|i| (2 + u32::from((first + i) % 3), udp(first + i))).collect();
                expected.sort();
                assert_eq!(out, expected);
            }
            let passes = dp.counters().passes;
            if round > 0 && emc == 1 {
                assert!(passes.emc > 300, "{passes:?}");
            } else if round > 0 && smc {
                assert!(passes.smc > 200, "{passes:?}");
            }
            if emc == 0 {
                assert_eq!(passes.emc, 0);
            }
            if !smc {
                assert_eq!(passes.smc, 0);
            }
        }
        for flow in dp.flows().iter().take(10) {
            assert!(flow.stats.packets > 0);
            assert_eq!(flow.stats.bytes, flow.stats.packets * 60);
            assert_eq!(flow.stats.used, Some(Time::from_millis(5)));
        }
        assert_eq!(dp.flows().iter().map(|flow| flow.stats.packets).sum::<u64>(), 960);
    }
}

#[test]
fn simple_match_decides_while_all_flows_are_simple() {
    let mut dp = datapath(1, false);
    put(&mut dp, match_on(1, 0x0800, None), [output(2)]);
    let arp_flow = put(&mut dp, match_on(1, 0x0806, None), [output(3)]);
    let out = send(&mut dp, &[udp(1), arp(1), udp(2)], &mut NoUpcall);
    assert_eq!(out, [(2, udp(1)), (2, udp(2)), (3, arp(1))]);
    assert_eq!(dp.counters().passes.simple, 3);

    let other = put(&mut dp, match_on(1, 0x0800, Some(9)), [output(4)]);
    assert_eq!(ports(&send(&mut dp, &[udp(1)], &mut NoUpcall)), [2]);
    assert_eq!(dp.counters().passes.simple, 3, "one flow that is not simple");
    assert_eq!(dp.counters().passes.megaflow, 1);
    dp.flow_del(other, RemoveWhy::Command, &mut Off).unwrap();
    assert_eq!(ports(&send(&mut dp, &[udp(9)], &mut NoUpcall)), [2]);
    assert_eq!(dp.counters().passes.simple, 4, "and it is gone");

    dp.flow_del(arp_flow, RemoveWhy::Command, &mut Off).unwrap();
    assert!(send(&mut dp, &[arp(1)], &mut NoUpcall).is_empty());
    assert_eq!(dp.counters().passes.lost, 1);
    dp.configure_port(PortNo(1), PortConfig { simple_match: false, ..PortConfig::default() }).unwrap();
    send(&mut dp, &[udp(1)], &mut NoUpcall);
    assert_eq!(dp.counters().passes.simple, 4, "not on this port");
}

#[test]
fn a_miss_is_executed_and_then_installed() {
    let mut dp = datapath(0, false);
    let mut trace = Recorder::default();
    let mut upcall = answer(install_by_source);
    let out = send_traced(&mut dp, &[udp(1)], &mut upcall, &mut trace);
    assert_eq!(out, [(2, udp(1))]);
    assert_eq!(upcall.1.len(), 1);
    assert_eq!((upcall.1[0].in_port, upcall.1[0].nw_src.get()), (1, 0x0a00_0001));
    let flow = dp.flows().iter().next().unwrap();
    assert_eq!(flow.stats.packets, 0, "the packet that missed is not the flow's");
    assert_eq!(flow.masked_key().dl_src.0, [0, 0, 0, 0, 0, 1]);
    let p = PacketId(0);
    let events: Vec<_> =
        trace.events.iter().filter(|event| !matches!(event, Event::OffloadChange { .. })).collect();
    assert!(
        matches!(
            events[..],
            [
                Event::Rx { .. },
                Event::Lookup { tier: Tier::Megaflow, hit: None, .. },
                Event::Upcall { packet },
                Event::Action { flow: None, index: 0, .. },
                Event::Install { .. },
                Event::Tx { port: PortNo(2), .. },
            ] if *packet == p
        ),
        "{events:?}"
    );
}

#[test]
fn later_packets_of_the_batch_find_what_an_earlier_one_installed() {
    let mut dp = datapath(1, false);
    let mut upcall = answer(install_by_source);
    let out = send(&mut dp, &[udp(1), udp(2), udp(1), udp(1), udp(2)], &mut upcall);
    assert_eq!(out.len(), 5);
    assert_eq!(upcall.1.len(), 2, "one for each source");
    assert_eq!(dp.counters().passes.upcall, 2);
    assert_eq!(dp.counters().passes.megaflow, 3);
    let packets: Vec<u64> = dp.flows().iter().map(|flow| flow.stats.packets).collect();
    assert_eq!(packets, [2, 1]);
    // Each flow's packets keep their order.
    let of_1: Vec<_> = out.iter().filter(|(_, frame)| frame[11] == 1).collect();
    assert_eq!(of_1.len(), 3);
}

#[test]
fn failed_upcalls_drop_and_are_counted() {
    let mut dp = datapath(100, false);
    let out = send(&mut dp, &[udp(1), udp(2)], &mut answer(|_| Err(DropReason::UpcallError)));
    assert!(out.is_empty());
    assert_eq!(dp.counters().passes.lost, 2);
    assert_eq!(dp.counters().drops.get(DropReason::UpcallError), 2);
    assert!(dp.flows().is_empty());
}

#[test]
fn flow_limit_executes_but_does_not_install() {
    let mut dp = datapath(0, false);
    dp.configure(Config { flow_limit: 1, ..*dp.config() });
    let mut upcall = answer(install_by_source);
    assert_eq!(send(&mut dp, &[udp(1), udp(2), udp(2)], &mut upcall).len(), 3);
    assert_eq!(dp.flows().len(), 1);
    assert_eq!(dp.counters().flow_limit_hits, 2);
    let flow = dp.flows().iter().next().unwrap().id;
    assert_eq!(upcall.2, [(7, Some(flow)), (7, None), (7, None)]);
    assert_eq!(dp.counters().passes.upcall, 3);
}

#[test]
fn what_cannot_be_executed_is_refused_not_skipped() {
    let mut dp = datapath(0, false);
    let (key, mask) = match_on(1, 0x0800, None);
    let put = FlowPut {
        key: &key,
        mask: &mask,
        actions: [Action::LbOutput(1), output(2)].into(),
        ufid: None,
        create: true,
        modify: false,
        zero_stats: false,
    };
    let error = dp.flow_put(put, Time::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "the datapath cannot execute the action lb_output");
    let out = send(
        &mut dp,
        &[udp(1)],
        &mut answer(|_| {
            Ok(UpcallReply { execute: [Action::LbOutput(1)].into(), install: None, inject: Vec::new() })
        }),
    );
    assert!(out.is_empty());
    assert_eq!(dp.counters().drops.get(DropReason::UpcallError), 1);
    assert_eq!(dp.take_refused().unwrap().to_string(), "the datapath cannot execute the action lb_output");
    assert_eq!(dp.take_refused(), None);
}

#[test]
fn put_creates_modifies_and_refuses() {
    let mut dp = datapath(1, false);
    let (key, mask) = match_on(1, 0x0800, Some(1));
    let mut put = |port: u32, create, modify, zero_stats| {
        let actions = [output(port)].into();
        let put = FlowPut { key: &key, mask: &mask, actions, ufid: None, create, modify, zero_stats };
        let result = dp.flow_put(put, Time::ZERO).map(|(_, stats)| stats.packets);
        (result, ports(&send(&mut dp, &[udp(1)], &mut NoUpcall)))
    };
    assert_eq!(put(2, false, true, false), (Err(FlowError::NotFound), vec![]));
    assert_eq!(put(2, true, false, false), (Ok(0), vec![2]));
    assert_eq!(put(3, true, false, false), (Err(FlowError::Exists), vec![2]));
    assert_eq!(put(3, false, true, false), (Ok(2), vec![3]), "also from the EMC");
    assert_eq!(put(4, true, true, true), (Ok(3), vec![4]));
    let flow = dp.flows().iter().next().unwrap();
    assert_eq!(flow.stats.packets, 1, "counted from zero again");
    assert!(dp.counters().passes.emc >= 2);
}

#[test]
fn a_deleted_flow_is_not_hit_from_a_cache() {
    let mut dp = datapath(1, true);
    let flow = put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2)]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [output(2)]);
    send(&mut dp, &[udp(1)], &mut NoUpcall);
    assert_eq!(dp.emc_len(), 1);
    dp.flow_del(flow, RemoveWhy::Command, &mut Off).unwrap();
    assert_eq!(dp.emc_len(), 0);
    // The same number, another flow.
    assert_eq!(put(&mut dp, match_on(1, 0x0800, Some(3)), [output(4)]), flow);
    assert!(send(&mut dp, &[udp(1)], &mut NoUpcall).is_empty());
    assert_eq!(dp.counters().passes.lost, 1);
    assert_eq!(dp.flow_del(FlowId(99), RemoveWhy::Command, &mut Off), Err(FlowError::NotFound));
    dp.flow_flush(&mut Off);
    assert!(dp.flows().is_empty());
}

#[test]
fn groups_keep_arrival_order_in_each_flow() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2)]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [output(2)]);
    let frame = |n: u8, id: u8| {
        let mut frame = udp(n);
        frame[50] = id;
        frame
    };
    let out =
        send(&mut dp, &[frame(1, 0), frame(2, 1), frame(1, 2), frame(2, 3), frame(1, 4)], &mut NoUpcall);
    let order: Vec<u8> = out.iter().map(|(_, frame)| frame[50]).collect();
    assert_eq!(order, [0, 2, 4, 1, 3]);
}

#[test]
fn recirculation_is_depth_first_and_bounded() {
    let mut dp = datapath(1, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [Action::Recirc(RecircId(1)), output(3)]);
    let again = |id: u32| {
        let (key, mut mask) = match_on(1, 0x0800, None);
        mask.recirc_id = u32::MAX;
        (Flow { recirc_id: id, ..key }, mask)
    };
    put(&mut dp, again(1), [output(3), output(2)]);
    let out = send(&mut dp, &[udp(1)], &mut NoUpcall);
    assert_eq!(ports(&out), [3, 3, 2], "what recirculates comes first");
    assert_eq!(dp.counters().recirculated, 1);
    assert_eq!(dp.counters().copies, 2);

    put(&mut dp, match_on(1, 0x0800, Some(2)), [Action::Recirc(RecircId(7))]);
    put(&mut dp, again(7), [Action::Recirc(RecircId(7))]);
    assert!(send(&mut dp, &[udp(2)], &mut NoUpcall).is_empty());
    assert_eq!(dp.counters().drops.get(DropReason::RecircDepth), 1);
    assert_eq!(dp.counters().recirculated, 1 + u64::from(MAX_RECIRC_DEPTH));
}

#[test]
fn a_recirculated_packet_joins_no_group_that_still_waits() {
    // Flow A recirculates to flow B's key, while packets of B wait in the same batch: B's groups stay apart.
    let mut dp = datapath(0, false);
    let (key, mut mask) = match_on(1, 0x0800, Some(1));
    mask.recirc_id = u32::MAX;
    put(&mut dp, (key, mask), [Action::Recirc(RecircId(1))]);
    let (key, _) = match_on(1, 0x0800, None);
    let mut wide = mask;
    wide.dl_src.0 = [0; 6];
    put(&mut dp, (Flow { recirc_id: 1, ..key }, wide), [output(2)]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [Action::Recirc(RecircId(1))]);
    let out = send(&mut dp, &[udp(1), udp(2), udp(1)], &mut NoUpcall);
    let order: Vec<u8> = out.iter().map(|(_, frame)| frame[11]).collect();
    assert_eq!(order, [1, 1, 2]);
    let b = dp.flows().iter().nth(1).unwrap();
    assert_eq!(b.stats.packets, 3);
}

#[test]
fn drops_have_reasons() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), []);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [output(77)]);
    put(&mut dp, match_on(1, 0x0800, Some(3)), [Action::Drop(7)]);
    put(&mut dp, match_on(1, 0x0800, Some(4)), [output(2)]);
    put(&mut dp, match_on(1, 0x0800, Some(5)), [output(3)]);
    put(&mut dp, match_on(1, 0x0800, Some(6)), [Action::Drop(0)]);
    dp.configure_port(PortNo(2), PortConfig { up: false, ..PortConfig::default() }).unwrap();
    dp.configure_port(PortNo(3), PortConfig { mtu: 45, ..PortConfig::default() }).unwrap();
    let mut frames: Vec<_> = (1..=6).map(udp).collect();
    frames.push(vec![0; 13]);
    assert!(send(&mut dp, &frames, &mut NoUpcall).is_empty());
    let drops: Vec<_> = dp.counters().drops.iter().filter(|&(_, n)| n > 0).collect();
    assert_eq!(
        drops,
        [
            (DropReason::ActionDrop, 2),
            (DropReason::NoPort, 1),
            (DropReason::PortDown, 1),
            (DropReason::TooBig, 1),
            (DropReason::TooShort, 1),
            (DropReason::Explicit, 1),
        ]
    );
    assert_eq!(dp.port(PortNo(3)).unwrap().stats().tx_dropped, 1);
    assert_eq!(dp.port(PortNo(1)).unwrap().stats().rx_packets, 7);
    assert_eq!(dp.port(PortNo(1)).unwrap().stats().rx_bytes, 6 * 60 + 13);
}

#[test]
fn one_tag_may_come_on_top_of_the_mtu() {
    let mut dp = datapath(0, false);
    dp.configure_port(PortNo(2), PortConfig { mtu: 46, ..PortConfig::default() }).unwrap();
    let mut long = udp(1);
    long.push(0);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2)]);
    assert_eq!(send(&mut dp, &[udp(1), long], &mut NoUpcall).len(), 1);
    let mut tagged = udp(1);
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    let mut double = tagged.clone();
    double[12] = 0x88;
    double[13] = 0xa8;
    let (key, mut mask) = match_on(1, 0, None);
    mask.dl_type.set(0);
    mask.vlans[0].tci.set(0x1000);
    let mut key = key;
    key.vlans[0].tci.set(0x1000);
    put(&mut dp, (key, mask), [output(2)]);
    let out = send(&mut dp, &[tagged.clone(), double], &mut NoUpcall);
    assert_eq!(out, [(2, tagged.clone())]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [Action::PushVlan { tpid: 0x8100, tci: 0x1005 }, output(2)]);
    tagged[11] = 2;
    tagged[23] = 2;
    tagged[33] = 2;
    let pushed = send(&mut dp, &[udp(2)], &mut NoUpcall);
    assert_eq!((pushed[0].1.len(), &pushed[0].1[..18]), (64, &tagged[..18]));
}

#[test]
fn copies_are_made_for_all_but_the_last() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2), output(3), output(4)]);
    let mut trace = Recorder::default();
    let out = send_traced(&mut dp, &[udp(1)], &mut NoUpcall, &mut trace);
    assert_eq!(ports(&out), [2, 3, 4]);
    assert_eq!(dp.counters().copies, 2);
    let copies: Vec<_> = trace
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Copy { packet, copy } => Some((packet.0, copy.0)),
            _ => None,
        })
        .collect();
    assert_eq!(copies, [(0, 1), (0, 2)]);
    let sent: Vec<_> = trace
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Tx { packet, port, .. } => Some((packet.0, port.0)),
            _ => None,
        })
        .collect();
    assert_eq!(sent, [(1, 2), (2, 3), (0, 4)]);
}

#[test]
fn trunc_cuts_the_next_output_only() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [Action::Trunc(20), output(2), output(3)]);
    let out = send(&mut dp, &[udp(1)], &mut NoUpcall);
    assert_eq!(out, [(2, udp(1)[..20].to_vec()), (3, udp(1))]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [Action::Trunc(2), output(2)]);
    let out = send(&mut dp, &[udp(2)], &mut NoUpcall);
    assert_eq!(out[0].1.len(), 14, "an Ethernet header stays");
    put(&mut dp, match_on(1, 0x0800, Some(3)), [Action::Trunc(100), output(2)]);
    assert_eq!(send(&mut dp, &[udp(3)], &mut NoUpcall), [(2, udp(3))]);
}

#[test]
fn clone_and_check_pkt_len_and_sample() {
    let mut dp = datapath(0, false);
    let mark = |value: u32| {
        let key = Flow { pkt_mark: value, ..Flow::default() };
        let mask = Flow { pkt_mark: u32::MAX, ..Flow::default() };
        Action::Set(Box::new(SetField { group: SetGroup::Mark, key, mask }))
    };
    let check =
        |len| Action::CheckPktLen { len, greater: [output(3)].into(), not_greater: [output(4)].into() };
    put(
        &mut dp,
        match_on(1, 0x0800, Some(1)),
        [
            Action::Clone([mark(7), Action::Recirc(RecircId(1))].into()),
            check(59),
            check(60),
            Action::Clone([output(2)].into()),
        ],
    );
    let (key, mut mask) = match_on(1, 0x0800, None);
    mask.recirc_id = u32::MAX;
    mask.pkt_mark = u32::MAX;
    put(&mut dp, (Flow { recirc_id: 1, pkt_mark: 7, ..key }, mask), [output(2)]);
    let out = send(&mut dp, &[udp(1)], &mut NoUpcall);
    assert_eq!(ports(&out), [2, 2, 3, 4], "ports in the order in which they were first sent to");

    let sample = |probability| Action::Sample { probability, actions: [output(3)].into() };
    put(&mut dp, match_on(1, 0x0800, Some(2)), [sample(u32::MAX), output(2), sample(0)]);
    let out = send(&mut dp, &[udp(2)], &mut NoUpcall);
    assert_eq!(ports(&out), [3, 2]);
    assert_eq!(dp.counters().drops.get(DropReason::NotSampled), 1, "the original, of which copies were sent");
    put(&mut dp, match_on(1, 0x0800, Some(3)), [sample(u32::MAX / 4), output(2)]);
    let sampled: usize = (0..64)
        .map(|_| send(&mut dp, &vec![udp(3); BATCH], &mut NoUpcall))
        .map(|out| ports(&out).iter().filter(|&&port| port == 3).count())
        .sum();
    assert!((350..700).contains(&sampled), "about a quarter of 2048: {sampled}");
}

#[test]
fn hash_then_recirculate() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [Action::Hash(HashAlg::L4(0)), Action::Recirc(RecircId(1))]);
    let (key, mut mask) = match_on(1, 0x0800, None);
    mask.recirc_id = u32::MAX;
    mask.dp_hash = 1;
    let mut frame = udp(1);
    let packet = &mut Packet::from_frame(&frame);
    let bit = crate::flow::hash::five_tuple(&Flow::of_packet(packet), 0);
    let bit = crate::flow::hash::int(bit, 0) & 1;
    put(&mut dp, (Flow { recirc_id: 1, dp_hash: bit, ..key }, mask), [output(2)]);
    put(&mut dp, (Flow { recirc_id: 1, dp_hash: 1 - bit, ..key }, mask), [output(3)]);
    assert_eq!(ports(&send(&mut dp, &[frame.clone()], &mut NoUpcall)), [2]);
    let mut seen = std::collections::BTreeSet::new();
    for source_port in 0..32 {
        frame[35] = source_port;
        seen.extend(ports(&send(&mut dp, &[frame.clone()], &mut NoUpcall)));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn userspace_asks_the_slow_path_and_does_what_it_says() {
    let mut dp = datapath(0, false);
    let userspace = |reason| {
        let cookie = UserspaceCookie::SlowPath { reason };
        Action::Userspace(Box::new(Userspace { pid: 0, cookie, actions: false, tunnel_out_port: None }))
    };
    put(&mut dp, match_on(1, 0x0800, Some(1)), [userspace(1)]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [userspace(2), output(3)]);
    put(&mut dp, match_on(1, 0x0800, Some(3)), [userspace(3)]);
    let mut upcall = answer(|request| {
        let UpcallKind::Action(userspace) = request.kind else { panic!("no flow missed") };
        let UserspaceCookie::SlowPath { reason } = userspace.cookie else { panic!() };
        match reason {
            1 => Ok(UpcallReply { execute: [output(2)].into(), install: None, inject: Vec::new() }),
            2 => Ok(UpcallReply::default()),
            // For ever, if nobody stops it.
            _ => Ok(UpcallReply {
                inject: Vec::new(),
                execute: [Action::Userspace(Box::new(userspace.clone()))].into(),
                install: None,
            }),
        }
    });
    let out = send(&mut dp, &[udp(1), udp(2), udp(3)], &mut upcall);
    assert_eq!(out, [(2, udp(1)), (3, udp(2))]);
    assert_eq!(dp.counters().drops.get(DropReason::Consumed), 1);
    assert_eq!(dp.counters().drops.get(DropReason::ActionDepth), 1);
}

#[test]
fn execute_runs_actions_on_a_packet_of_the_slow_path() {
    let mut dp = datapath(0, false);
    let packet = Box::new(Packet::from_frame(&udp(1)));
    let actions = [output(2), output(3)];
    dp.execute(packet, &actions, Time::ZERO, &mut NoUpcall, &mut Off).unwrap();
    assert_eq!(dp.counters().injected, 1);
    assert_eq!(dp.counters().queued, 2);
    let mut out = Vec::new();
    dp.drain_tx(&mut Off, |port, _| out.push(port.0));
    assert_eq!(out, [2, 3]);
    let packet = Box::new(Packet::from_frame(&udp(1)));
    assert!(dp.execute(packet, &[Action::LbOutput(1)], Time::ZERO, &mut NoUpcall, &mut Off).is_err());
    assert!(dp.counters().balanced());
}

#[test]
fn ports_come_and_go() {
    let mut dp = datapath(0, false);
    assert_eq!(dp.add_port(PortNo(1), PortConfig::default()), Err(PortError::Exists(PortNo(1))));
    assert_eq!(dp.add_port(PortNo::NONE, PortConfig::default()), Err(PortError::BadNumber(PortNo::NONE)));
    assert_eq!(dp.add_port(PortNo(1 << 20), PortConfig::default()), Ok(()), "any other number");
    put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2)]);
    put(&mut dp, match_on(1, 0x0800, Some(2)), [output(1 << 20)]);
    assert_eq!(ports(&send(&mut dp, &[udp(2)], &mut NoUpcall)), [1 << 20]);
    dp.process(PortNo(1), &mut batch(&[udp(1)]), Time::ZERO, &mut NoUpcall, &mut Off);
    dp.remove_port(PortNo(2), &mut Off).unwrap();
    assert_eq!(dp.remove_port(PortNo(2), &mut Off), Err(PortError::NotFound(PortNo(2))));
    assert_eq!(dp.counters().drops.get(DropReason::NoPort), 1, "what was queued");
    assert!(dp.counters().balanced());
    let capabilities = Capabilities::TSO;
    let config = PortConfig { capabilities, ..PortConfig::default() };
    dp.configure_port(PortNo(3), config).unwrap();
    assert_eq!(dp.port(PortNo(3)).unwrap().config(), &config);
    assert_eq!(dp.ports().map(|(no, _)| no.0).collect::<Vec<_>>(), [1, 3, 4, 1 << 20]);
}

#[test]
fn what_a_port_cannot_segment_leaves_in_segments() {
    let mut dp = datapath(0, false);
    let (mut key, mask) = match_on(1, 0x0800, Some(1));
    key.nw_proto = 6;
    put(&mut dp, (key, mask), [output(2), output(3)]);
    let tso = Capabilities::TSO | Capabilities::TCP_CSUM | Capabilities::IP_CSUM;
    dp.configure_port(PortNo(3), PortConfig { capabilities: tso, ..PortConfig::default() }).unwrap();
    let mut frame = udp(1);
    frame.truncate(34);
    frame[16..18].copy_from_slice(&1040u16.to_be_bytes());
    frame[23] = 6;
    frame.extend([3, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 0, 0, 0, 0, 0, 0]);
    frame.resize(34 + 20 + 1000, 7);
    let mut batch = batch(&[frame]);
    for packet in batch.packets_mut() {
        packet.tso_segsz = 400;
        packet.offloads |= Offloads::L4_PARTIAL;
    }
    let mut trace = Recorder::default();
    dp.process(PortNo(1), &mut batch, Time::ZERO, &mut NoUpcall, &mut trace);
    let mut sent = Vec::new();
    dp.drain_tx(&mut trace, |port, packets| {
        sent.extend(packets.iter().map(|packet| (port.0, packet.len() - 54, packet.tso_segsz)));
    });
    assert_eq!(sent, [(2, 400, 0), (2, 400, 0), (2, 200, 0), (3, 1000, 400)]);
    let counters = dp.counters();
    assert!(counters.balanced());
    assert_eq!(
        (counters.copies, counters.sent),
        (3, 4),
        "a copy for port 3, and two more segments for port 2"
    );
    let why = |event: &Event| matches!(event, Event::OffloadChange { why: OffloadWhy::Segmented, .. });
    assert_eq!(trace.events.iter().filter(|event| why(event)).count(), 1);
    assert_eq!(dp.port(PortNo(2)).unwrap().stats().tx_dropped, 0);
}

#[test]
fn flows_expire_and_removal_is_traced() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0800, Some(1)), [output(2)]);
    send(&mut dp, &[udp(1)], &mut NoUpcall);
    let mut trace = Recorder::default();
    let mut seen = Vec::new();
    let idle = Span::from_secs(10);
    assert_eq!(dp.flows().next_idle(idle), Some(Time::from_millis(10_000)), "not later than needed");
    dp.flow_expire(Time::from_millis(10_004), idle, &mut trace, |flow| seen.push(flow.stats.packets));
    assert!(seen.is_empty());
    assert_eq!(dp.flows().next_idle(idle), Some(Time::from_millis(10_005)));
    dp.flow_expire(Time::from_millis(10_005), idle, &mut trace, |flow| seen.push(flow.stats.packets));
    assert_eq!(seen, [1]);
    assert_eq!(trace.events, [Event::Remove { flow: FlowId(0), why: RemoveWhy::Idle }]);
}

#[test]
fn subtables_are_ranked_by_use() {
    let mut dp = datapath(0, false);
    put(&mut dp, match_on(1, 0x0806, Some(1)), [output(2)]);
    let (key, mut mask) = match_on(1, 0x0800, Some(1));
    mask.nw_proto = 0xff;
    put(&mut dp, (Flow { nw_proto: 17, ..key }, mask), [output(2)]);
    let mut run = |now| {
        let before = dp.counters().masked_lookups;
        dp.process(PortNo(1), &mut batch(&[udp(1)]), Time::from_millis(now), &mut NoUpcall, &mut Off);
        dp.counters().masked_lookups - before
    };
    assert_eq!(run(0), 2);
    assert_eq!(run(999), 2, "once a second");
    assert_eq!(run(1000), 1);
    assert_eq!(run(5000), 1);
}

#[test]
fn a_clone_goes_on_the_same_way() {
    let mut dp = datapath(3, true);
    let mut upcall = answer(install_by_source);
    for n in 0..20u8 {
        send(&mut dp, &(n..n + 8).map(udp).collect::<Vec<_>>(), &mut upcall);
    }
    let mut clone = dp.clone();
    let mut traces = [Recorder::default(), Recorder::default()];
    let mut outs = [Vec::new(), Vec::new()];
    for ((dp, trace), out) in [&mut dp, &mut clone].into_iter().zip(&mut traces).zip(&mut outs) {
        for n in 0..40u8 {
            out.extend(send_traced(dp, &(n..n + 8).map(udp).collect::<Vec<_>>(), &mut upcall, trace));
        }
    }
    assert_eq!(outs[0], outs[1]);
    assert_eq!(traces[0].events, traces[1].events);
    assert_eq!(dp.counters(), clone.counters());
}

#[test]
fn tcp_flags_are_collected_by_every_tier() {
    let tcp = |flags: u8| {
        let mut frame = udp(1);
        frame[17] = 40;
        frame[23] = 6;
        frame.resize(54, 0);
        frame[46] = 0x50;
        frame[47] = flags;
        frame
    };
    for src in [None, Some(1)] {
        for emc in [0, 1] {
            let mut dp = datapath(emc, false);
            let flow = put(&mut dp, match_on(1, 0x0800, src), [output(2)]);
            for flags in [0x02, 0x10, 0x11] {
                send(&mut dp, &[tcp(flags), udp(1)], &mut NoUpcall);
            }
            assert_eq!(dp.flows().get(flow).unwrap().stats.tcp_flags, 0x13);
        }
    }
}
