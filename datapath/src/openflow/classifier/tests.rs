use proptest::prelude::*;

use super::*;
use crate::openflow::headers::ethertype;

fn ip_flow(nw_dst: u32, tp_dst: u16) -> Flow {
    let mut flow = Flow { in_port: 1, nw_proto: 6, ..Flow::default() };
    flow.dl_type.set(ethertype::IPV4);
    flow.nw_dst.set(nw_dst);
    flow.tp_dst.set(tp_dst);
    flow
}

fn mask(in_port: bool, nw_dst: u32, tp_dst: u16) -> Flow {
    let mut mask = Flow { in_port: if in_port { u32::MAX } else { 0 }, ..Flow::default() };
    mask.dl_type.set(u16::MAX);
    mask.nw_dst.set(nw_dst);
    mask.tp_dst.set(tp_dst);
    mask
}

/// The rules of a table, looked at one by one.
fn linear(rules: &[(Flow, Flow, u16)], flow: &Flow) -> Option<u16> {
    let matching = rules.iter().filter(|(value, mask, _)| value.matches(mask, flow));
    matching.map(|&(_, _, priority)| priority).max()
}

#[test]
fn stages_end_a_lookup_early() {
    let mut cls = Classifier::new();
    cls.insert(RuleId(1), &ip_flow(0x0a00_0000, 80), &mask(true, 0xff00_0000, 0xffff), 10, &[]);
    let mut wc = Flow::default();
    let other_port = Flow { in_port: 2, ..ip_flow(0x0a00_0001, 80) };
    assert_eq!(cls.lookup(&other_port, Some(&mut wc), None), None);
    assert_eq!(wc, Flow { in_port: u32::MAX, ..Flow::default() }, "only the port was looked at");

    let mut wc = Flow::default();
    assert_eq!(cls.lookup(&ip_flow(0x0a00_0001, 80), Some(&mut wc), None), Some(RuleId(1)));
    assert_eq!(wc, mask(true, 0xff00_0000, 0xffff));

    // The ports differ in their highest bit; the port mask becomes that of the trie.
    let mut wc = Flow::default();
    assert_eq!(cls.lookup(&ip_flow(0x0a00_0001, 0x8000), Some(&mut wc), None), None);
    assert_eq!(wc.tp_dst.get(), 0x8000);
}

/// Case c-final-stage-with-port-trie: a word of the last stage holds other fields than the ports; they stay in the
/// mask when the port trie narrows it.
#[test]
fn port_trie_leaves_its_neighbours_alone() {
    let mut cls = Classifier::new();
    let mut value = ip_flow(0, 80);
    value.ct_tp_dst.set(2000);
    let mut m = mask(false, 0, 0xffff);
    m.ct_tp_dst.set(u16::MAX);
    cls.insert(RuleId(1), &value, &m, 10, &[]);
    let mut wc = Flow::default();
    let mut packet = ip_flow(0, 0x8050);
    packet.ct_tp_dst.set(2000);
    assert_eq!(cls.lookup(&packet, Some(&mut wc), None), None);
    assert_eq!(wc.ct_tp_dst.get(), u16::MAX);
    assert_eq!(wc.tp_dst.get(), 0x8000);
}

/// Case c-ipv6-prefix-tracking: IPv6 addresses are indexed by default.
#[test]
fn ipv6_prefixes_are_tracked() {
    let mut cls = Classifier::new();
    let rule = |len: u32| {
        let mut m = Flow::default();
        m.dl_type.set(u16::MAX);
        m.ipv6_src = (u128::MAX << (128 - len)).to_be_bytes();
        m
    };
    let key = |addr: u128| {
        let mut flow = Flow { nw_proto: 17, ..Flow::default() };
        flow.dl_type.set(ethertype::IPV6);
        flow.ipv6_src = addr.to_be_bytes();
        flow
    };
    let prefix = 0x2001_0db8_0001_0000_0000_0000_0000_0000;
    cls.insert(RuleId(1), &key(prefix), &rule(48), 10, &[]);
    cls.insert(RuleId(2), &key(prefix), &rule(128), 20, &[]);
    let mut wc = Flow::default();
    assert_eq!(cls.lookup(&key(0x2001_0db8_0001 << 80 | 5), Some(&mut wc), None), Some(RuleId(1)));
    let wanted = u128::MAX << (128 - 126);
    assert_eq!(u128::from_be_bytes(wc.ipv6_src), wanted, "5 differs from 0 at bit 126");
    let mut wc = Flow::default();
    assert_eq!(cls.lookup(&key(0x3001 << 112), Some(&mut wc), None), None);
    assert_eq!(u128::from_be_bytes(wc.ipv6_src), 0xf << 124, "the first four bits tell");
}

fn conj(id: u32, clause: u8, n_clauses: u8) -> Conjunction {
    Conjunction { id, clause, n_clauses }
}

/// The rules of scenario "multi-table-wildcards", table 3.
#[test]
fn conjunctions() {
    let mut cls = Classifier::new();
    let id_rule = Flow { conj_id: 7, ..ip_flow(0, 0) };
    let id_mask = Flow { conj_id: u32::MAX, ..mask(false, 0, 0) };
    cls.insert(RuleId(1), &id_rule, &id_mask, 32768, &[]);
    for (id, addr) in [(2, 1), (3, 2)] {
        cls.insert(RuleId(id), &ip_flow(addr, 0), &mask(false, u32::MAX, 0), 50, &[conj(7, 0, 2)]);
    }
    for (id, port) in [(4, 1000), (5, 2000)] {
        cls.insert(RuleId(id), &ip_flow(0, port), &mask(false, 0, 0xffff), 50, &[conj(7, 1, 2)]);
    }
    let mut parts = Vec::new();
    assert_eq!(cls.lookup(&ip_flow(1, 2000), None, Some(&mut parts)), Some(RuleId(1)));
    parts.sort();
    assert_eq!(parts, [RuleId(2), RuleId(5)]);
    assert_eq!(cls.lookup(&ip_flow(3, 2000), None, None), None);
    assert_eq!(cls.lookup(&ip_flow(1, 3000), None, None), None);

    // A rule with the same match and lower priority applies where the conjunction fails.
    cls.insert(RuleId(6), &ip_flow(1, 0), &mask(false, u32::MAX, 0), 40, &[]);
    assert_eq!(cls.lookup(&ip_flow(1, 3000), None, None), Some(RuleId(6)));
    assert_eq!(cls.lookup(&ip_flow(1, 1000), None, None), Some(RuleId(1)));
}

#[test]
fn replace_find_overlap_and_loose() {
    let mut cls = Classifier::new();
    let (flow, m) = (ip_flow(0x0a00_0000, 0), mask(false, 0xff00_0000, 0));
    assert_eq!(cls.insert(RuleId(1), &flow, &m, 5, &[]), None);
    assert_eq!(cls.insert(RuleId(2), &flow, &m, 5, &[]), Some(RuleId(1)));
    assert_eq!(cls.len(), 1);
    assert_eq!(cls.find_exactly(&flow, &m, 5), Some(RuleId(2)));
    assert_eq!(cls.find_exactly(&flow, &m, 6), None);
    assert!(cls.overlaps(&ip_flow(0, 80), &mask(false, 0, 0xffff), 5));
    assert!(!cls.overlaps(&ip_flow(0, 80), &mask(false, 0, 0xffff), 6));
    assert!(!cls.overlaps(&ip_flow(0x0b00_0000, 0), &m, 5));
    cls.insert(RuleId(3), &ip_flow(0x0a01_0000, 0), &mask(true, 0xffff_0000, 0), 9, &[]);
    assert_eq!(cls.loose_matches(&flow, &m), [RuleId(3), RuleId(2)]);
    assert_eq!(cls.remove(&flow, &m, 5), Some(RuleId(2)));
    assert_eq!(cls.remove(&flow, &m, 5), None);
    assert_eq!(cls.loose_matches(&Flow::default(), &Flow::default()), [RuleId(3)]);
}

/// Keys from a small space, so that rules hit and miss in interesting places.
fn any_flow() -> impl Strategy<Value = Flow> {
    let l2 = (0u32..3, 0u32..2, any::<bool>(), prop::sample::select(vec![6u8, 17]));
    let l3 = (prop::sample::select(vec![0u32, 1, 0x0a00_0001, 0x0a01_0001, 0x8a01_0100]), 0u128..4);
    (l2, l3, 0u16..4, prop::sample::select(vec![0u16, 80, 81, 0x8050]), 0u16..2).prop_map(
        |((in_port, reg, v6, proto), (v4, low), tp_src, tp_dst, ct)| {
            let mut flow = Flow { in_port, nw_proto: proto, ..Flow::default() };
            flow.regs[0] = reg;
            flow.dl_type.set(if v6 { ethertype::IPV6 } else { ethertype::IPV4 });
            if v6 {
                flow.ipv6_dst = (u128::from(v4) << 96 | low).to_be_bytes();
            } else {
                flow.nw_dst.set(v4);
                flow.nw_src.set(low as u32);
            }
            flow.tp_src.set(tp_src);
            flow.tp_dst.set(tp_dst);
            flow.ct_tp_src.set(ct);
            flow
        },
    )
}

fn any_mask() -> impl Strategy<Value = Flow> {
    let prefix = || prop::sample::select(vec![0u32, 0, 8, 16, 24, 31, 32]);
    (any::<[bool; 4]>(), (prefix(), prefix(), prefix()), 0usize..4).prop_map(
        |(bits, (dst, src, v6), ports)| {
            let ones = |on: bool| if on { u32::MAX } else { 0 };
            let prefix = |len: u32| u32::MAX.checked_shl(32 - len).unwrap_or(0);
            let mut mask = Flow { in_port: ones(bits[0]), ..Flow::default() };
            mask.regs[0] = ones(bits[1]);
            mask.dl_type.set(u16::MAX);
            mask.nw_dst.set(prefix(dst));
            mask.nw_src.set(prefix(src));
            mask.ipv6_dst = (u128::from(prefix(v6)) << 96).to_be_bytes();
            mask.tp_src.set([0, 0xffff, 0xfffe, 0][ports]);
            mask.tp_dst.set([0, 0, 0xffff, 0xf000][ports]);
            mask.ct_tp_src.set(ones(bits[2]) as u16);
            mask.nw_proto = ones(bits[3]) as u8;
            mask
        },
    )
}

/// Rules with distinct priorities, some of which are removed again.
fn any_table() -> impl Strategy<Value = (Vec<(Flow, Flow, u16)>, Classifier)> {
    prop::collection::vec((any_flow(), any_mask(), 0u16..4), 0..24).prop_map(|parts| {
        let mut cls = Classifier::new();
        let mut rules: Vec<(Flow, Flow, u16)> = Vec::new();
        for (n, (flow, mask, class)) in parts.iter().enumerate() {
            let rule = (flow.masked(mask), *mask, class * 100 + n as u16);
            cls.insert(RuleId(u64::from(rule.2)), &rule.0, mask, rule.2, &[]);
            rules.push(rule);
        }
        for rule in rules.extract_if(.., |rule| rule.2 % 3 == 0) {
            assert_eq!(cls.remove(&rule.0, &rule.1, rule.2), Some(RuleId(u64::from(rule.2))));
        }
        (rules, cls)
    })
}

proptest! {
    #[test]
    fn same_rule_as_one_by_one((rules, cls) in any_table(), flow in any_flow()) {
        let expected = linear(&rules, &flow).map(|p| RuleId(u64::from(p)));
        prop_assert_eq!(cls.lookup(&flow, None, None), expected);
        prop_assert_eq!(cls.lookup(&flow, Some(&mut Flow::default()), None), expected);
        prop_assert_eq!(cls.len(), rules.len());
    }

    /// Any packet that agrees with this one on the reported bits gets the same rule, whatever prefixes are indexed.
    #[test]
    fn mask_is_sound(
        (_, mut cls) in any_table(),
        flow in any_flow(),
        others in prop::collection::vec(any_flow(), 16),
        fields in prop::sample::subsequence(PrefixField::DEFAULT.to_vec(), 0..=4),
    ) {
        cls.set_prefix_fields(&fields);
        let mut wc = Flow::default();
        wc.dl_type.set(u16::MAX);
        let rule = cls.lookup(&flow, Some(&mut wc), None);
        for mut other in others {
            for ((word, keep), mask) in other.words_mut().iter_mut().zip(flow.words()).zip(wc.words()) {
                *word = *word & !mask | keep & mask;
            }
            prop_assert_eq!(cls.lookup(&other, None, None), rule);
        }
    }
}
