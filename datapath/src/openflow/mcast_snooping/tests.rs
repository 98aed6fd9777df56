use super::message::{Heard, Origin};
use super::*;
use crate::flow::Flow;
use crate::packet::Packet;
use std::net::Ipv4Addr;

const P1: BundleId = BundleId(1);
const P2: BundleId = BundleId(2);

fn group(last: u8) -> Ipv6Addr {
    Ipv4Addr::new(239, 1, 1, last).to_ipv6_mapped()
}

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

fn members(table: &SnoopingTable, group: Ipv6Addr, vlan: u16) -> Option<Vec<u32>> {
    table.members(group, vlan).map(|members| members.map(|port| port.0).collect())
}

fn join(table: &mut SnoopingTable, last: u8, port: BundleId, secs: u64) -> bool {
    table.join(group(last), 0, port, GroupProtocol::IgmpV2, at(secs))
}

/// Frames of Open vSwitch's own tests and of the recorded cases.
fn hear(table: &mut SnoopingTable, hex: &str, port: BundleId) -> Heard {
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let mut packet = Packet::from_frame(&bytes);
    let flow = Flow::of_packet(&mut packet);
    let from = Origin { port, vlan: 0 };
    match flow.dl_type.get() {
        0x0800 => table.hear_igmp(&packet, &flow, from, at(0)),
        _ => table.hear_mld(&packet, &flow, from, at(0)),
    }
}

const V1_REPORT: &str =
    "01005E010101000C29A027A108004500001C000100004002CBAEAC10221EE001010112140CE9E0010101";
const V2_REPORT: &str =
    "01005e010102505400000103080046c00020000040000102f8110a000103e001010294040000160008fce0010102";
const V3_REPORT: &str = "01005e000016505400000003080046c00028000040000102f9f60a000003e0000016940400002200e3e10000000104000000e9360ce6";
const QUERY: &str = "01005E010101000C29A027D108004500001C000100004002CBCBAC102201E00101011114EEEB00000000";
const MLD_V1: &str = "3333ff0e4c67000c290e4c6786dd600000000020000100000000000000000000000000000000ff0200000000000000000001ff0e4c673a000502000001008300e7b800000000ff0200000000000000000001ff0e4c67";
const MLD_V2: &str = "333300000016d0509956ddf986dd60000000001c3a01fe80000000000000712065589886fa88ff0200000000000000000000000000168f00134d0000000104000000ff0200000000000000000001ff52f3e1";

#[test]
fn ports_join_ask_again_and_age_out() {
    let mut table = SnoopingTable::default();
    assert!(join(&mut table, 1, P1, 0), "the group is new");
    assert!(!join(&mut table, 1, P2, 10));
    assert!(table.run(at(10)));
    assert!(!join(&mut table, 1, P1, 20));
    assert!(!table.run(at(20)), "nothing is new about that");
    assert_eq!(members(&table, group(1), 0), Some(vec![2, 1]), "who asked last is last");
    assert_eq!(members(&table, group(1), 7), None, "another VLAN is another table");
    assert_eq!(table.entries(at(50)).map(|entry| entry.age_secs).collect::<Vec<_>>(), [40, 30]);
    assert_eq!(table.next_wakeup(), Some(at(310)));
    assert!(table.run(at(310)));
    assert_eq!(members(&table, group(1), 0), Some(vec![1]));
    assert!(table.run(at(320)));
    assert_eq!(members(&table, group(1), 0), None);
    assert_eq!(table.counters(), SnoopingCounters { learned: 1, expired: 3 });
    assert_eq!(table.next_wakeup(), None);
}

#[test]
fn a_group_that_nobody_wants_any_more_goes_when_it_is_the_oldest() {
    let mut table = SnoopingTable::default();
    join(&mut table, 1, P1, 0);
    join(&mut table, 2, P1, 1);
    assert!(table.leave(group(2), 0, P1) && !table.leave(group(2), 0, P1));
    table.run(at(2));
    assert_eq!(members(&table, group(2), 0), Some(vec![]), "its packets are not flooded yet");
    assert!(table.leave(group(1), 0, P1));
    assert!(table.run(at(3)));
    assert_eq!(table.n_groups(), 0);
}

#[test]
fn a_full_table_drops_the_group_that_was_asked_for_longest_ago() {
    let mut table = SnoopingTable::default();
    table.configure(&SnoopingConfig { max_groups: 1, ..SnoopingConfig::default() });
    assert_eq!(table.config().max_groups, 10);
    for last in 0..20 {
        join(&mut table, last, P1, u64::from(last));
        join(&mut table, 0, P1, u64::from(last));
    }
    assert_eq!(table.n_groups(), 10);
    assert!(members(&table, group(0), 0).is_some() && members(&table, group(10), 0).is_none());
    table.configure(&SnoopingConfig { max_groups: 20, ..SnoopingConfig::default() });
    for last in 20..40 {
        join(&mut table, last, P1, 20);
    }
    table.configure(&SnoopingConfig { max_groups: 10, ..SnoopingConfig::default() });
    table.run(at(20));
    assert_eq!(table.n_groups(), 10);
}

#[test]
fn routers_age_and_members_behind_them_are_not_noted() {
    let mut table = SnoopingTable::default();
    assert!(table.add_router(0, P2, at(0)));
    assert!(!join(&mut table, 1, P2, 0));
    assert_eq!(members(&table, group(1), 0), None, "a router gets all groups anyway");
    assert_eq!(table.routers().collect::<Vec<_>>(), [(P2, 0)]);
    assert_eq!(table.next_wakeup(), Some(at(180)));
    table.run(at(100));
    assert!(!table.add_router(0, P2, at(100)), "nothing is new about that");
    assert!(!table.run(at(279)));
    assert!(table.run(at(280)));
    assert_eq!(table.routers().count(), 0);
}

#[test]
fn ports_that_get_everything_are_not_learned_on() {
    let mut table = SnoopingTable::default();
    let flood = PortSnooping { flood: true, flood_reports: false };
    let reports = PortSnooping { flood: false, flood_reports: true };
    table.configure_port(P2, flood);
    assert!(table.run(at(0)));
    assert!(!table.add_router(0, P2, at(0)) && !join(&mut table, 1, P2, 0));
    table.configure_port(P2, flood);
    assert!(!table.run(at(0)), "it was so before");
    table.configure_port(P2, reports);
    assert!(join(&mut table, 1, P2, 0));
    assert!(!table.leave(group(1), 0, P2), "there may be other hosts behind it");
    assert_eq!((table.flood_ports(), table.report_ports()), (&[][..], &[P2][..]));
    table.flush_port(P2);
    assert_eq!((table.n_groups(), table.report_ports().len()), (0, 0));
}

#[test]
fn a_new_age_counts_from_when_a_port_asked() {
    let mut table = SnoopingTable::default();
    join(&mut table, 1, P1, 0);
    table.configure(&SnoopingConfig { aging_secs: 1, ..SnoopingConfig::default() });
    assert_eq!(table.config().aging_secs, 15);
    assert!(table.run(at(14)));
    assert_eq!(table.entries(at(14)).next().map(|entry| entry.age_secs), Some(14));
    assert!(table.run(at(15)));
    assert_eq!(table.n_groups(), 0);
}

#[test]
fn flushing_forgets_what_was_heard_and_not_what_was_configured() {
    let mut table = SnoopingTable::default();
    table.configure_port(P2, PortSnooping { flood: true, flood_reports: true });
    table.add_router(3, P1, at(0));
    table.run(at(0));
    table.flush();
    assert!(table.run(at(0)), "flows to the router are wrong");
    assert_eq!((table.routers().count(), table.flood_ports()), (0, &[P2][..]));
}

#[test]
fn messages_of_all_versions_are_understood() {
    let mut table = SnoopingTable::default();
    assert_eq!(hear(&mut table, V1_REPORT, P1), Heard::Joined(Ipv4Addr::new(224, 1, 1, 1)));
    assert_eq!(hear(&mut table, V1_REPORT, P1), Heard::Nothing, "it is known");
    assert_eq!(hear(&mut table, V2_REPORT, P1), Heard::Joined(Ipv4Addr::new(224, 1, 1, 2)));
    assert_eq!(hear(&mut table, V3_REPORT, P1), Heard::Groups(1));
    assert_eq!(hear(&mut table, MLD_V1, P1), Heard::Groups(1));
    assert_eq!(hear(&mut table, MLD_V2, P1), Heard::Groups(1));
    assert_eq!(hear(&mut table, QUERY, P2), Heard::Router(Some(Ipv4Addr::new(172, 16, 34, 1))));
    let entries = table.entries(at(0)).map(|e| (e.protocol.name(), e.group.to_canonical().to_string()));
    let expected = [
        ("IGMPv1", "224.1.1.1"),
        ("IGMPv2", "224.1.1.2"),
        ("IGMPv3", "233.54.12.230"),
        ("MLDv1", "ff02::1:ff0e:4c67"),
        ("MLDv2", "ff02::1:ff52:f3e1"),
    ];
    assert_eq!(entries.collect::<Vec<_>>(), expected.map(|(name, group)| (name, group.to_owned())));
}

#[test]
fn a_wrong_checksum_is_not_listened_to() {
    let mut table = SnoopingTable::default();
    for (message, right, wrong) in [(V1_REPORT, "12140CE9", "12140CE8"), (MLD_V1, "8300e7b8", "8300e7b0")] {
        assert_eq!(hear(&mut table, &message.replace(right, wrong), P1), Heard::BadChecksum);
    }
    assert_eq!(table.n_groups(), 0);
}

/// Case b-mld-too-short: a report that announces a record and ends.
#[test]
fn a_message_that_ends_before_what_it_announces_is_harmless() {
    let short = "33330000001650540000000186dd6000000000100001fe800000000000000000000000000001ff0200000000000000000000000000163a000502000001008f00732100000001";
    let mut table = SnoopingTable::default();
    assert_eq!(hear(&mut table, short, P1), Heard::Nothing);
    assert_eq!(table.n_groups(), 0);
}
