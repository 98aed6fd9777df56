//! What 4.0.90 does in the same situations; values were taken from it unless they follow from the test itself.

use super::*;
use crate::action::{Action, HashAlg, SetGroup, UserspaceCookie};
use crate::flow::{Flow, VLAN_CFI};
use crate::openflow::action::{OfAction, Resubmit, SetField};
use crate::openflow::bridge::port::PortSpec;
use crate::openflow::bridge::{FailMode, FlowChange, Peer, RuleError, VlanConfig};
use crate::openflow::field::{Field, FieldValue, Subfield};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand};
use crate::openflow::group::{Bucket, GroupMod, GroupModCommand, GroupProps, GroupType};
use crate::openflow::rule_match::Match;
use crate::openflow::text::parse_flow_mod_line;
use crate::openflow::xlate::SLOW_ACTION;
use crate::packet::Packet;
use crate::pipeline::{Install, Upcall, UpcallKind, UpcallReply, UpcallRequest};
use crate::stats::DropReason;
use crate::trace::RemoveWhy;

mod learn;
mod revalidate;

/// One bridge with ports 1 to 4, and nothing else to go by than its rules.
struct World {
    ofproto: Ofproto,
    bridge: BridgeId,
    now: Time,
}

const MAC_1: [u8; 6] = [0x50, 0x54, 0, 0, 0, 1];
const MAC_2: [u8; 6] = [0x50, 0x54, 0, 0, 0, 2];

fn spec(name: &str, number: u16, odp: u32) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        of_port: Some(OfPort(number)),
        odp_port: Some(PortNo(odp)),
        ..PortSpec::default()
    }
}

fn world() -> World {
    world_with(1)
}

/// With so many VLAN tags in keys.
fn world_with(vlan_limit: u8) -> World {
    let mut ofproto = Ofproto::new();
    ofproto.set_vlan_limit(vlan_limit);
    let bridge = ofproto.add_bridge("br0", FailMode::Secure, Time::ZERO).unwrap();
    ofproto.add_port(bridge, &spec("br0", OfPort::LOCAL.0, 100)).unwrap();
    for n in 1..=4 {
        ofproto.add_port(bridge, &spec(&format!("p{n}"), n, u32::from(n))).unwrap();
    }
    World { ofproto, bridge, now: Time::from_millis(1000) }
}

fn flow_mod(table: u8, priority: u16, rule_match: Match, actions: Vec<OfAction>) -> FlowMod {
    let table = Some(TableId(table));
    FlowMod { table, priority, rule_match, actions, ..FlowMod::new(FlowModCommand::Add) }
}

fn matching(fields: &[(Field, u128)]) -> Match {
    let mut m = Match::catch_all();
    fields.iter().for_each(|(field, value)| m.set_exact(*field, &FieldValue::new(*value)));
    m
}

fn out(port: u16) -> OfAction {
    OfAction::Output { port: OfPort(port), max_len: 0 }
}

fn set_field(field: Field, value: u128) -> OfAction {
    let mask = FieldValue::ones(field.n_bits());
    OfAction::SetField(Box::new(SetField { field, value: FieldValue::new(value), mask, load: false }))
}

fn resubmit(table: u8) -> OfAction {
    OfAction::Resubmit(Resubmit {
        in_port: OfPort::IN_PORT,
        table: Some(TableId(table)),
        with_ct_orig: false,
    })
}

fn sends(port: u32) -> Action {
    Action::Output(PortNo(port))
}

impl World {
    fn rule(&mut self, table: u8, priority: u16, fields: &[(Field, u128)], actions: Vec<OfAction>) {
        let change = flow_mod(table, priority, matching(fields), actions);
        self.ofproto.flow_mod(self.bridge, &change, self.now).unwrap();
    }

    /// A rule as text.
    fn line(&mut self, line: &str) {
        let bridge = self.ofproto.bridge(self.bridge).unwrap();
        let parsed = parse_flow_mod_line(line, bridge).unwrap();
        self.ofproto.flow_mod(self.bridge, &parsed.flow_mod, self.now).unwrap();
    }

    fn try_rule(&mut self, actions: Vec<OfAction>) -> Result<FlowChange, ConfigError> {
        let change = flow_mod(0, 1, Match::catch_all(), actions);
        self.ofproto.flow_mod(self.bridge, &change, self.now)
    }

    fn group(&mut self, kind: GroupType, buckets: Vec<Bucket>) {
        let change = GroupMod {
            command: GroupModCommand::Add,
            group_id: 1,
            kind,
            buckets,
            props: GroupProps::default(),
        };
        self.ofproto.group_mod(self.bridge, &change, self.now).unwrap();
    }

    fn miss_with(&mut self, port: u32, frame: &[u8], change: impl FnOnce(&mut Flow)) -> UpcallReply {
        let mut packet = Packet::from_frame(frame);
        let mut key = Flow::of_packet(&mut packet);
        key.in_port = port;
        change(&mut key);
        let request = UpcallRequest { now: self.now, kind: UpcallKind::Miss, packet: &packet, key: &key };
        self.ofproto.upcall(&request).unwrap()
    }

    fn miss(&mut self, port: u32, frame: &[u8]) -> UpcallReply {
        self.miss_with(port, frame, |_| {})
    }

    fn actions(&mut self, port: u32, frame: &[u8]) -> Vec<Action> {
        self.miss(port, frame).execute.into_vec()
    }
}

fn mask(reply: &UpcallReply) -> &Flow {
    &reply.install.as_ref().unwrap().mask
}

fn frame(src: [u8; 6], dst: [u8; 6], rest: &[u8]) -> Vec<u8> {
    [&dst[..], &src[..], rest].concat()
}

/// UDP from 10.1.1.1 to 10.2.2.2, ports 1 and 2, TTL 64.
fn udp(src: [u8; 6], dst: [u8; 6]) -> Vec<u8> {
    udp_ttl(src, dst, 64)
}

fn udp_ttl(src: [u8; 6], dst: [u8; 6], ttl: u8) -> Vec<u8> {
    let mut rest = vec![0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 1, 1, 1, 10, 2, 2, 2];
    rest.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    frame(src, dst, &rest)
}

fn tagged(tci: u16, inner: &[u8]) -> Vec<u8> {
    let [a, b] = tci.to_be_bytes();
    [&inner[..12], &[0x81, 0x00, a, b], &inner[12..]].concat()
}

#[test]
fn outputs_in_order_and_what_was_looked_at() {
    let mut w = world();
    w.rule(0, 10, &[(Field::InPort, 1), (Field::EthType, 0x800)], vec![out(2), out(1), out(3)]);
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert_eq!(*reply.execute, [sends(2), sends(3)], "not back to where it came from");
    let mut wanted = Flow { in_port: u32::MAX, recirc_id: u32::MAX, nw_frag: 3, ..Flow::default() };
    wanted.packet_type.set(u32::MAX);
    wanted.dl_type.set(u16::MAX);
    wanted.vlans[0].tci.set(0x1fff);
    assert_eq!(*mask(&reply), wanted, "no tag, and any fragment");
    assert_eq!(w.actions(2, &udp(MAC_1, MAC_2)), [Action::Drop(0)]);
}

#[test]
fn normal_learns_and_floods() {
    let mut w = world();
    w.rule(0, 0, &[], vec![out(OfPort::NORMAL.0)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(100), sends(2), sends(3), sends(4)]);
    let reply = w.miss(2, &udp(MAC_2, MAC_1));
    assert_eq!(*reply.execute, [sends(1)]);
    assert_eq!(mask(&reply).dl_src.0, [0xff; 6]);
    assert_eq!(mask(&reply).dl_dst.0, [0xff; 6]);
    assert_eq!(w.actions(3, &udp(MAC_2, MAC_2)), [Action::Drop(0)], "its own port, now");
    assert_eq!(w.actions(3, &udp(MAC_1, [1, 0x80, 0xc2, 0, 0, 0])), [Action::Drop(0)], "reserved");
    w.ofproto.set_forward_bpdu(w.bridge, true).unwrap();
    assert_eq!(w.actions(3, &udp(MAC_1, [1, 0x80, 0xc2, 0, 0, 0])).len(), 4);
}

#[test]
fn normal_tags_and_untags() {
    let mut w = world();
    w.rule(0, 0, &[], vec![out(OfPort::NORMAL.0)]);
    let access = VlanConfig { tag: Some(10), ..VlanConfig::default() };
    for port in [1, 2] {
        w.ofproto.set_port_vlans(w.bridge, OfPort(port), &access, false).unwrap();
    }
    w.ofproto
        .set_port_vlans(w.bridge, OfPort(3), &VlanConfig { tag: Some(20), ..access.clone() }, false)
        .unwrap();
    let push = Action::PushVlan { tpid: 0x8100, tci: VLAN_CFI | 10 };
    // The bridge's own port and port 4 are trunks.
    let flooded = w.actions(1, &udp(MAC_1, MAC_2));
    assert_eq!(
        flooded,
        [
            push,
            sends(100),
            Action::PopVlan,
            sends(2),
            Action::PushVlan { tpid: 0x8100, tci: VLAN_CFI | 10 },
            sends(4)
        ]
    );
    let reply = w.miss(4, &tagged(10, &udp(MAC_2, MAC_1)));
    assert_eq!(*reply.execute, [Action::PopVlan, sends(1)]);
    assert_eq!(mask(&reply).vlans[0].tci.get(), 0xffff, "what is popped is matched");
    assert_eq!(w.actions(1, &tagged(10, &udp(MAC_1, MAC_2))), [Action::Drop(0)], "access ports take no tags");
}

#[test]
fn tables_and_registers() {
    let mut w = world();
    w.rule(0, 10, &[(Field::InPort, 1)], vec![set_field(Field::Reg(0), 1), resubmit(1), resubmit(2)]);
    w.rule(1, 5, &[(Field::EthType, 0x800)], vec![set_field(Field::Reg(0), 2)]);
    w.rule(2, 5, &[(Field::Reg(0), 2)], vec![OfAction::GotoTable(TableId(3))]);
    w.rule(3, 5, &[], vec![out(4), OfAction::Exit, out(3)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(4)]);
    let bridge = w.ofproto.bridge(w.bridge).unwrap();
    let everything = Match::catch_all();
    for rule in bridge.find_rules(&config::all_rules(&everything)) {
        assert_eq!(w.ofproto.rule_stats(rule.id).packets, 1, "table {}", rule.table.0);
        assert_eq!(w.ofproto.rule_stats(rule.id).bytes, 42);
    }
    assert_eq!(w.ofproto.table_stats(w.bridge, TableId(3)), TableStats { matched: 1, missed: 0 });
}

#[test]
fn loops_end() {
    let mut w = world();
    w.rule(0, 1, &[], vec![resubmit(0)]);
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert_eq!(*reply.execute, [Action::Drop(2)], "XLATE_RECURSION_TOO_DEEP");
    // 4096 levels, each a table further than the last, 64 times over.
    let mut w = world();
    for table in 0..=252 {
        w.rule(table, 1, &[], vec![resubmit(table + 1), resubmit(table + 1)]);
    }
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [Action::Drop(3)], "XLATE_TOO_MANY_RESUBMITS");
}

#[test]
fn writes_headers_with_masks() {
    let mut w = world();
    w.rule(
        0,
        1,
        &[(Field::EthType, 0x800)],
        vec![
            set_field(Field::IpDst, 0x0a00_0001),
            out(2),
            set_field(Field::EthSrc, 0x0200_0000_0001),
            out(3),
        ],
    );
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    let [Action::SetMasked(ip), two, Action::SetMasked(eth), three] = &*reply.execute else {
        panic!("{:?}", reply.execute)
    };
    assert_eq!((two, three), (&sends(2), &sends(3)));
    assert_eq!(
        (ip.group, ip.key.nw_dst.get(), ip.mask.nw_dst.get()),
        (SetGroup::Ipv4, 0x0a00_0001, u32::MAX)
    );
    assert_eq!(ip.mask.nw_src.get(), 0);
    assert_eq!((eth.group, eth.mask.dl_dst.0), (SetGroup::Ethernet, [0; 6]));
    assert_eq!(mask(&reply).nw_dst.get(), u32::MAX);
    assert_eq!(mask(&reply).nw_proto, u8::MAX);
    // Written with what it is already: looked at, but nothing to do.
    let mut w = world();
    w.rule(0, 1, &[(Field::EthType, 0x800)], vec![set_field(Field::IpDst, 0x0a02_0202), out(2)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(2)]);
}

#[test]
fn ttl_runs_out() {
    let mut w = world();
    w.rule(0, 1, &[], vec![OfAction::DecTtl { ids: vec![0], plain: true }, out(2)]);
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert!(
        matches!(&reply.execute[..], [Action::SetMasked(set), Action::Output(PortNo(2))] if set.key.nw_ttl == 63)
    );
    assert_eq!(mask(&reply).nw_ttl, u8::MAX);
    let packet = Packet::from_frame(&udp_ttl(MAC_1, MAC_2, 1));
    let reply = w.miss(1, packet.data());
    let [Action::Userspace(told)] = &reply.execute[..] else { panic!("{:?}", reply.execute) };
    assert!(matches!(told.cookie, UserspaceCookie::Controller { reason: 2, max_len: u16::MAX, .. }));
    let key = Flow { in_port: 1, ..Flow::default() };
    let request = UpcallRequest { now: w.now, kind: UpcallKind::Action(told), packet: &packet, key: &key };
    assert_eq!(w.ofproto.upcall(&request), Ok(UpcallReply::default()));
    let told = w.ofproto.take_packet_ins();
    assert_eq!((told.len(), told[0].reason, told[0].in_port), (1, 2, OfPort(1)));
    assert_eq!(told[0].data, packet.data());
}

fn bucket(id: u32, port: u16) -> Bucket {
    Bucket { id, weight: 1, watch_port: OfPort::NONE, watch_group: None, actions: vec![out(port)] }
}

#[test]
fn select_groups_hash_and_come_back() {
    let mut w = world();
    w.group(GroupType::Select, vec![bucket(0, 2), bucket(1, 3)]);
    w.rule(0, 1, &[], vec![set_field(Field::Reg(3), 7), OfAction::Group(1), out(4)]);
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    let [Action::Hash(HashAlg::SymL4(0)), Action::Recirc(id)] = reply.execute[..] else {
        panic!("{:?}", reply.execute)
    };
    for (hash, port) in [(16, 2), (17, 3)] {
        let reply = w.miss_with(1, &udp(MAC_1, MAC_2), |key| {
            key.recirc_id = id.0;
            key.dp_hash = hash;
        });
        assert_eq!(*reply.execute, [sends(port), sends(4)], "what followed the group follows still");
        assert_eq!(mask(&reply).dp_hash, 15);
    }
    // Nothing refers to the id any more once its flow is gone.
    let ticket = reply.install.unwrap().ticket;
    w.ofproto.settled(ticket, Some(FlowId(5)), w.now);
    w.ofproto.flow_removed(FlowId(5), w.now);
    w.ofproto.run(Time::from_millis(9000));
    assert!(w.ofproto.recircs().is_empty());
    let packet = Packet::from_frame(&udp(MAC_1, MAC_2));
    let key = Flow { recirc_id: id.0, in_port: 1, ..Flow::default() };
    let request = UpcallRequest { now: w.now, kind: UpcallKind::Miss, packet: &packet, key: &key };
    assert_eq!(w.ofproto.upcall(&request), Err(DropReason::UpcallError));
}

#[test]
fn buckets_work_on_copies() {
    let mut w = world();
    let change = |id, port, mac| Bucket {
        actions: vec![set_field(Field::EthDst, mac), out(port)],
        ..bucket(id, port)
    };
    w.group(GroupType::All, vec![change(0, 2, 0x0200_0000_0002), change(1, 3, 0x0200_0000_0003)]);
    w.rule(0, 1, &[], vec![OfAction::Group(1), out(4)]);
    let actions = w.actions(1, &udp(MAC_1, MAC_2));
    let set = |action: &Action| match action {
        Action::SetMasked(set) => set.key.dl_dst.0[5],
        _ => 0,
    };
    let shape: Vec<_> = actions.iter().map(|a| (set(a), matches!(a, Action::Output(_)))).collect();
    assert_eq!(shape, [(2, false), (0, true), (3, false), (0, true), (2, false), (0, true)]);
    assert_eq!(w.ofproto.group_stats(w.bridge, 1).packets, 1);
}

#[test]
fn fast_failover_follows_links() {
    let mut w = world();
    let watch = |id, port| Bucket { watch_port: OfPort(port), ..bucket(id, port) };
    w.group(GroupType::FastFailover, vec![watch(0, 2), watch(1, 3)]);
    w.rule(0, 1, &[], vec![OfAction::Group(1)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(2)]);
    w.ofproto.set_link(w.bridge, OfPort(2), false).unwrap();
    assert!(!w.ofproto.take_changes(w.now).is_empty());
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(3)]);
    w.ofproto.set_link(w.bridge, OfPort(3), false).unwrap();
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [Action::Drop(0)]);
}

#[test]
fn action_sets_run_last_and_in_order() {
    let mut w = world();
    let write = OfAction::WriteActions(vec![out(2), set_field(Field::EthDst, 0x0200_0000_0009), out(3)]);
    w.rule(0, 1, &[], vec![write, out(4), OfAction::GotoTable(TableId(1))]);
    w.rule(
        1,
        1,
        &[(Field::ActsetOutput, 3)],
        vec![out(1), OfAction::WriteActions(vec![OfAction::PushVlan(0x8100)])],
    );
    let actions = w.actions(1, &udp(MAC_1, MAC_2));
    assert!(
        matches!(
            actions[..],
            [
                Action::Output(PortNo(4)),
                Action::SetMasked(_),
                Action::PushVlan { tpid: 0x8100, tci: VLAN_CFI },
                Action::Output(PortNo(3)),
            ]
        ),
        "{actions:?}"
    );
}

#[test]
fn mpls_pop_recirculates_before_what_is_behind() {
    let mut w = world();
    w.rule(0, 1, &[], vec![OfAction::PopMpls(0x800), out(2), set_field(Field::NwTtl, 9), out(3)]);
    let ip = udp(MAC_1, MAC_2);
    let labelled = [&ip[..12], &[0x88, 0x47, 0, 0, 0x51, 64], &ip[14..]].concat();
    let reply = w.miss(1, &labelled);
    let [Action::PopMpls(0x800), Action::Output(PortNo(2)), Action::Recirc(id)] = reply.execute[..] else {
        panic!("{:?}", reply.execute)
    };
    let reply = w.miss_with(1, &ip, |key| key.recirc_id = id.0);
    assert!(
        matches!(&reply.execute[..], [Action::SetMasked(set), Action::Output(PortNo(3))] if set.key.nw_ttl == 9)
    );
}

#[test]
fn writing_arp_needs_the_slow_path() {
    let mut w = world();
    w.rule(0, 1, &[(Field::EthType, 0x806)], vec![set_field(Field::ArpSpa, 0x0a00_0009), out(2)]);
    let mut rest = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    rest.extend(MAC_1);
    rest.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let arp = frame(MAC_1, [0xff; 6], &rest);
    let reply = w.miss(1, &arp);
    assert!(
        matches!(&reply.execute[..], [Action::SetMasked(set), Action::Output(_)] if set.group == SetGroup::Arp)
    );
    let Install { actions, .. } = reply.install.unwrap();
    let [Action::Userspace(userspace)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(userspace.cookie, UserspaceCookie::SlowPath { reason: SLOW_ACTION });
    let packet = Packet::from_frame(&arp);
    let mut of = Packet::from_frame(&arp);
    let key = Flow { in_port: 1, ..Flow::of_packet(&mut of) };
    let request =
        UpcallRequest { now: w.now, kind: UpcallKind::Action(userspace), packet: &packet, key: &key };
    let reply = w.ofproto.upcall(&request).unwrap();
    assert_eq!((reply.execute.len(), reply.install), (2, None));
}

#[test]
fn patch_ports_lead_into_another_bridge() {
    let mut w = world();
    let other = w.ofproto.add_bridge("br1", FailMode::Standalone, w.now).unwrap();
    w.ofproto.add_port(other, &spec("q1", 1, 11)).unwrap();
    let patch =
        |name: &str| PortSpec { name: name.to_owned(), of_port: Some(OfPort(9)), ..PortSpec::default() };
    w.ofproto.add_port(w.bridge, &patch("patch0")).unwrap();
    w.ofproto.add_port(other, &patch("patch1")).unwrap();
    w.ofproto.set_peer(w.bridge, OfPort(9), Some(Peer { bridge: other, port: OfPort(9) })).unwrap();
    w.ofproto.set_peer(other, OfPort(9), Some(Peer { bridge: w.bridge, port: OfPort(9) })).unwrap();
    w.rule(0, 1, &[], vec![set_field(Field::Metadata, 5), out(9), out(2)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(11), sends(2)]);
    assert_eq!(w.ofproto.mac_table(other).unwrap().len(), 1);
    assert_eq!(w.ofproto.patch_stats(w.bridge, OfPort(9)).tx_packets, 1);
    assert_eq!(w.ofproto.patch_stats(other, OfPort(9)).rx_bytes, 42);
}

#[test]
fn flows_are_revalidated_and_credited() {
    let mut w = world();
    w.rule(0, 0, &[], vec![out(OfPort::NORMAL.0)]);
    w.ofproto.take_changes(w.now);
    w.miss(1, &udp(MAC_1, MAC_2));
    assert!(!w.ofproto.take_changes(w.now).is_empty(), "an address is new");
    let reply = w.miss(2, &udp(MAC_2, MAC_1));
    let Install { mask, actions, ticket } = reply.install.unwrap();
    w.ofproto.settled(ticket, Some(FlowId(1)), w.now);
    let mut key = Flow::of_packet(&mut Packet::from_frame(&udp(MAC_2, MAC_1)));
    key.in_port = 2;
    let key = key.masked(&mask);
    let verdict = |w: &mut World| w.ofproto.revalidate(FlowId(1), &key, &mask, &actions, w.now);
    assert_eq!(verdict(&mut w).verdict, Verdict::Keep);
    let everything = Match::catch_all();
    let rule = w.ofproto.bridge(w.bridge).unwrap().find_rules(&config::all_rules(&everything))[0].id;
    let credit = Credit { packets: 10, bytes: 420, used: Time::from_millis(290_000), tcp_flags: 0 };
    w.ofproto.credit(FlowId(1), &credit, Time::from_millis(290_000));
    assert_eq!(w.ofproto.rule_stats(rule).packets, 12);
    let table = w.ofproto.mac_table(w.bridge).unwrap();
    let ages: Vec<_> = table.entries(Time::from_millis(290_000)).map(|entry| entry.age_secs).collect();
    assert_eq!(ages, [Some(289), Some(0)], "packets of the flow keep their source alive");
    // The address moves: other actions, same mask.
    w.miss(3, &udp(MAC_1, MAC_2));
    assert_eq!(verdict(&mut w).verdict, Verdict::Modify(Box::new([sends(3)])));
    // A rule that looks at more: the flow is too wide.
    w.rule(0, 9, &[(Field::EthType, 0x800), (Field::IpDst, 0x0a01_0101)], vec![out(4)]);
    assert_eq!(verdict(&mut w).verdict, Verdict::Delete(RemoveWhy::Wide));
}

#[test]
fn rules_expire() {
    let mut w = world();
    let hard = FlowMod { hard_timeout: 5, ..flow_mod(0, 1, Match::catch_all(), vec![out(2)]) };
    let idle = FlowMod { idle_timeout: 5, ..flow_mod(1, 1, Match::catch_all(), vec![out(2)]) };
    w.ofproto.flow_mod(w.bridge, &hard, w.now).unwrap();
    w.ofproto.flow_mod(w.bridge, &idle, w.now).unwrap();
    assert_eq!(w.ofproto.next_wakeup(), Some(Time::from_millis(6001)));
    assert!(w.ofproto.run(Time::from_millis(6000)).is_empty());
    w.ofproto.take_changes(w.now);
    assert_eq!(w.ofproto.run(Time::from_millis(6001)).len(), 2);
    assert!(!w.ofproto.take_changes(w.now).is_empty());
}

#[test]
fn what_is_not_there_is_refused() {
    let mut w = world();
    let refused = |w: &mut World, action| match w.try_rule(vec![OfAction::Clone(vec![action])]) {
        Err(ConfigError::Rule(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut w, OfAction::Meter(1)), RuleError::NoMeter(1));
    assert_eq!(refused(&mut w, OfAction::Group(7)), RuleError::NoGroup(7));
    assert_eq!(w.ofproto.bridge(w.bridge).unwrap().n_rules(), 0);
    w.group(GroupType::All, vec![]);
    w.rule(0, 1, &[], vec![OfAction::Group(1)]);
    let delete = GroupMod {
        command: GroupModCommand::Delete,
        group_id: 1,
        kind: GroupType::All,
        buckets: Vec::new(),
        props: GroupProps::default(),
    };
    let gone = w.ofproto.group_mod(w.bridge, &delete, w.now).unwrap();
    assert_eq!(gone.removed.len(), 1, "rules go with their groups");
}

#[test]
fn moves_pushes_and_pops() {
    let mut w = world();
    let reg = Subfield { field: Field::Reg(1), ofs: 8, n_bits: 16 };
    let port = Subfield::whole(Field::UdpDst);
    w.rule(
        0,
        1,
        &[],
        vec![
            OfAction::Move { src: port, dst: reg },
            OfAction::Push(reg),
            OfAction::Pop(Subfield::whole(Field::Reg(2))),
            OfAction::OutputReg { src: Subfield::whole(Field::Reg(2)), max_len: 0 },
            OfAction::Pop(reg),
        ],
    );
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert_eq!(*reply.execute, [sends(2)]);
    assert_eq!(mask(&reply).tp_dst.get(), u16::MAX);
    assert_eq!(mask(&reply).regs, [0; 32], "registers are not in packets");
}

#[test]
fn check_pkt_larger_branches() {
    let mut w = world();
    let dst = Subfield { field: Field::Reg(0), ofs: 0, n_bits: 1 };
    w.rule(0, 1, &[], vec![OfAction::CheckPktLarger { len: 1500, dst }, resubmit(1)]);
    w.rule(1, 1, &[(Field::Reg(0), 1)], vec![out(2)]);
    w.rule(1, 1, &[(Field::Reg(0), 0)], vec![out(3)]);
    let actions = w.actions(1, &udp(MAC_1, MAC_2));
    let wanted =
        Action::CheckPktLen { len: 1500, greater: [sends(2)].into(), not_greater: [sends(3)].into() };
    assert_eq!(actions, [wanted]);
}

#[test]
fn clones_only_where_nothing_can_be_undone() {
    let mut w = world();
    let nested = vec![set_field(Field::EthDst, 0x0200_0000_0002), out(2)];
    w.rule(0, 1, &[], vec![OfAction::Clone(nested), out(3)]);
    let actions = w.actions(1, &udp(MAC_1, MAC_2));
    assert!(
        matches!(
            actions[..],
            [Action::SetMasked(_), Action::Output(_), Action::SetMasked(_), Action::Output(_)]
        ),
        "{actions:?}"
    );
    let mut w = world();
    let cut = OfAction::OutputTrunc { port: OfPort(2), max_len: 20 };
    w.rule(0, 1, &[], vec![OfAction::Clone(vec![cut]), out(3)]);
    let actions = w.actions(1, &udp(MAC_1, MAC_2));
    assert_eq!(actions, [Action::Clone([Action::Trunc(20), sends(2)].into()), sends(3)]);
}
