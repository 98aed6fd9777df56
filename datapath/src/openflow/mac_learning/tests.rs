use super::*;

fn mac(last: u8) -> MacAddr {
    MacAddr([0x50, 0x54, 0, 0, 0, last])
}

fn source(last: u8, port: u32) -> MacSource {
    MacSource { mac: mac(last), vlan: 0, port: BundleId(port), is_bond: false, is_gratuitous_arp: false }
}

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1000)
}

#[test]
fn learns_moves_and_ages() {
    let mut table = MacTable::default();
    assert_eq!(table.learn(&source(1, 1), at(0)), Learned::Changed);
    assert_eq!(table.learn(&source(1, 1), at(100)), Learned::Same);
    assert_eq!(table.lookup(mac(1), 0), Some(BundleId(1)));
    assert_eq!(table.lookup(mac(1), 5), None, "another VLAN is another table");
    assert_eq!(table.learn(&source(1, 2), at(200)), Learned::Changed);
    assert_eq!(table.entries(at(230)).next().and_then(|e| e.age_secs), Some(30));
    assert!(table.run(at(499)));
    assert_eq!(table.lookup(mac(1), 0), Some(BundleId(2)));
    assert_eq!(table.next_wakeup(), Some(at(500)));
    assert!(table.run(at(500)), "300 seconds after the last packet");
    assert!(table.is_empty());
    assert_eq!(table.counters(), MacCounters { learned: 1, expired: 1, evicted: 0, moved: 1 });
}

#[test]
fn what_is_told_late_moves_nothing_back() {
    let mut table = MacTable::default();
    table.learn(&source(1, 1), at(0));
    table.learn(&source(1, 2), at(10));
    assert_eq!(table.confirm(&source(1, 1), at(9), at(11)), Learned::Same);
    assert_eq!(table.lookup(mac(1), 0), Some(BundleId(2)));
    assert_eq!(table.confirm(&source(1, 2), at(12), at(20)), Learned::Same);
    assert_eq!(table.confirm(&source(1, 1), at(14), at(20)), Learned::Changed);
    assert_eq!(table.confirm(&source(1, 2), at(13), at(20)), Learned::Same);
    assert_eq!(table.lookup(mac(1), 0), Some(BundleId(1)));
}

/// Case e-static-fdb-does-not-stop-ageing: a static entry at the old end of the list keeps nothing else alive.
#[test]
fn static_entries_stay_and_do_not_stop_ageing() {
    let mut table = MacTable::default();
    table.add_static(mac(9), 0, BundleId(3));
    table.learn(&source(1, 1), at(0));
    assert_eq!(table.learn(&source(9, 1), at(1)), Learned::Same);
    assert_eq!(table.lookup(mac(9), 0), Some(BundleId(3)));
    table.run(at(1000));
    assert_eq!((table.len(), table.n_static()), (1, 1));
    table.set_idle_time(60);
    table.flush();
    assert_eq!((table.len(), table.n_static()), (1, 1));
    assert!(table.remove_static(mac(9), 0));
    assert!(!table.remove_static(mac(9), 0));
}

#[test]
fn a_full_table_is_fair() {
    let mut table = MacTable::default();
    table.set_max_entries(10);
    table.learn(&source(100, 1), at(0));
    for last in 0..9 {
        table.learn(&source(last, 2), at(0));
    }
    table.learn(&source(50, 3), at(0));
    assert_eq!(table.len(), 10);
    assert_eq!(table.lookup(mac(0), 0), None, "port 2 had most, and this was its oldest");
    assert_eq!(table.lookup(mac(100), 0), Some(BundleId(1)));
    assert_eq!(table.counters().evicted, 1);
}

#[test]
fn bonds_do_not_learn_their_own_reflections() {
    let mut table = MacTable::default();
    let arp = MacSource { is_gratuitous_arp: true, ..source(1, 1) };
    let reflected = MacSource { is_bond: true, port: BundleId(2), ..arp };
    table.learn(&arp, at(0));
    assert_eq!(table.learn(&reflected, at(4)), Learned::Same);
    assert_eq!(table.lookup(mac(1), 0), Some(BundleId(1)));
    assert_eq!(table.learn(&reflected, at(6)), Learned::Changed);
}

#[test]
fn limits_are_clamped_and_multicast_is_not_learned() {
    let mut table = MacTable::default();
    table.set_idle_time(1);
    table.set_max_entries(0);
    assert_eq!(table.max_entries(), 10);
    table.learn(&source(1, 1), at(0));
    table.run(at(14));
    assert_eq!(table.len(), 1);
    table.run(at(15));
    assert!(table.is_empty());
    let group = MacSource { mac: MacAddr::BROADCAST, ..source(1, 1) };
    assert_eq!(table.learn(&group, at(0)), Learned::Same);
    table.learn(&MacSource { vlan: 5, ..source(1, 1) }, at(0));
    table.set_flood_vlans(BTreeSet::from([0]));
    assert!(table.is_empty(), "what was learned elsewhere goes, too, as in OVS");
    assert_eq!(table.learn(&source(1, 1), at(0)), Learned::Same);
    table.learn(&MacSource { vlan: 7, ..source(1, 1) }, at(0));
    table.flush_port(BundleId(1));
    assert!(table.is_empty());
}
