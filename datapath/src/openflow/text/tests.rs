use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::normalize::{check_prerequisites, leave_out_inexpressible};
use super::*;
use crate::openflow::action::*;
use crate::openflow::field::{Field, FieldValue, Format, Prereq, Subfield};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
use crate::openflow::group::{Bucket, GroupModCommand, GroupProps, GroupType};
use crate::openflow::protocol::OfVersion;
use crate::openflow::rule_match::Match;
use crate::openflow::wire::received;
use crate::types::{ConnZone, MacAddr, OfPort, TableId};

fn rule(line: &str) -> Result<String, TextError> {
    let parsed = parse_flow_mod(line, FlowModCommand::Add, &NoNames)?;
    Ok(RuleText::of(&parsed.flow_mod).to_text(None, &NoNames))
}

fn value_of(field: Field) -> impl Strategy<Value = FieldValue> {
    any::<u128>().prop_map(move |n| {
        let all = FieldValue::ones(if field == Field::VlanVid { 13 } else { field.n_bits() });
        FieldValue::new(n) & all
    })
}

/// A value that rules may have for the field, and a mask.
fn masked(field: Field) -> impl Strategy<Value = (Field, FieldValue, FieldValue)> {
    let exact = FieldValue::ones(if field == Field::VlanVid { 13 } else { field.n_bits() });
    let width = field.n_bits().min(128);
    let mask = if field.info().maskable {
        prop_oneof![
            Just(exact),
            value_of(field),
            // Prefixes, not so wide that tunnel options would not fit together.
            (0..=width).prop_map(move |n| FieldValue::ones(n).shl(width - n) & exact),
        ]
        .boxed()
    } else {
        Just(exact).boxed()
    };
    (value_of(field), mask).prop_map(move |(value, mask)| match field.info().format {
        Format::Port | Format::Port11 => (field, FieldValue::new(value.low() & 0x7fff), exact),
        Format::CtState => (field, FieldValue::new(value.low() & 0xff), FieldValue::new(mask.low() & 0xff)),
        // What is no fragment is no later fragment, and a later fragment is a fragment: one word for both.
        Format::Frag => match (value.low() & mask.low(), mask.low()) {
            (0, 1) => (field, FieldValue::ZERO, exact),
            (2, _) => (field, FieldValue::new(3), exact),
            _ => (field, value, mask),
        },
        _ => (field, value, mask),
    })
}

/// What a packet is, with the prerequisites that it meets beside [`Prereq::None`].
fn kinds() -> Vec<(&'static str, Vec<Prereq>)> {
    let ip = |v, l4| vec![Prereq::Ethernet, Prereq::IpAny, v, l4];
    vec![
        ("", vec![Prereq::Ethernet]),
        ("ip", vec![Prereq::Ethernet, Prereq::IpAny, Prereq::Ipv4]),
        ("ipv6", vec![Prereq::Ethernet, Prereq::IpAny, Prereq::Ipv6]),
        ("tcp", ip(Prereq::Ipv4, Prereq::Tcp)),
        ("udp", ip(Prereq::Ipv4, Prereq::Udp)),
        ("sctp", ip(Prereq::Ipv4, Prereq::Sctp)),
        ("icmp", ip(Prereq::Ipv4, Prereq::Icmpv4)),
        ("tcp6", ip(Prereq::Ipv6, Prereq::Tcp)),
        ("udp6", ip(Prereq::Ipv6, Prereq::Udp)),
        ("icmp6", ip(Prereq::Ipv6, Prereq::Icmpv6)),
        (
            "icmp6,icmp_type=135,icmp_code=0",
            vec![Prereq::Ethernet, Prereq::Ipv6, Prereq::Nd, Prereq::NdSolicit],
        ),
        (
            "icmp6,icmp_type=136,icmp_code=0",
            vec![Prereq::Ethernet, Prereq::Ipv6, Prereq::Nd, Prereq::NdAdvert],
        ),
        ("arp", vec![Prereq::Ethernet, Prereq::Arp]),
        ("rarp", vec![Prereq::Ethernet, Prereq::Arp]),
        ("mpls", vec![Prereq::Ethernet, Prereq::Mpls]),
        ("mplsm", vec![Prereq::Ethernet, Prereq::Mpls]),
        ("dl_type=0x894f", vec![Prereq::Ethernet, Prereq::Nsh]),
        ("ct_state=+est+trk,ip", vec![Prereq::CtValid, Prereq::Ipv4]),
        ("dl_type=0x88cc", vec![Prereq::Ethernet]),
        ("packet_type=(1,0x800)", vec![Prereq::Ipv4, Prereq::IpAny]),
    ]
}

/// Matches, shown by their text.
fn arb_match() -> impl Strategy<Value = Match> {
    select(kinds())
        .prop_flat_map(|(text, prereqs)| {
            let fits = |f: &Field| {
                let prereq = f.info().prereq;
                // Set by the kind of packet, or written as another field.
                let fixed =
                    matches!(f, Field::EthType | Field::PacketType | Field::NwProto | Field::InPortOxm);
                let expressible = !f.info().nxm.is_empty() || matches!(f, Field::DlVlan | Field::DlVlanPcp);
                !fixed && expressible && (prereq == Prereq::None || prereqs.contains(&prereq))
            };
            let fields: Vec<Field> = Field::all().filter(fits).collect();
            subsequence(fields, 0..=6).prop_flat_map(move |fields| {
                fields.into_iter().map(masked).collect::<Vec<_>>().prop_map(move |values| {
                    let mut out = parse_match(text, &NoNames).expect("a kind of packet");
                    for (field, value, mask) in values {
                        if mask.is_zero() && !matches!(field, Field::TunMetadata(_)) {
                            continue;
                        }
                        if mask == FieldValue::ones(field.n_bits()) && !matches!(field, Field::TunMetadata(_))
                        {
                            out.set_exact(field, &value);
                        } else {
                            out.set(field, &value, &mask);
                        }
                        let prereq = field.info().prereq;
                        if prereq != Prereq::None && out.mask.packet_type.get() == 0 {
                            out.set_exact(Field::PacketType, &FieldValue::ZERO);
                        }
                    }
                    normalize(&mut out);
                    leave_out_inexpressible(&mut out);
                    out
                })
            })
        })
        .prop_filter("fields have what they need", |out| check_prerequisites(out).is_ok())
}

fn writable_sub(n_bits: u32) -> impl Strategy<Value = Subfield> {
    let fits =
        |f: &Field| f.info().writable && f.n_bits() >= n_bits && !matches!(f, Field::CtMark | Field::CtLabel);
    select(Field::all().filter(fits).collect::<Vec<_>>()).prop_flat_map(move |field| {
        (0..=field.n_bits() - n_bits).prop_map(move |ofs| Subfield { field, ofs, n_bits })
    })
}

fn arb_port() -> impl Strategy<Value = OfPort> {
    prop_oneof![
        (0..0xff00_u16).prop_map(OfPort),
        select(vec![
            OfPort::IN_PORT,
            OfPort::NORMAL,
            OfPort::FLOOD,
            OfPort::ALL,
            OfPort::LOCAL,
            OfPort::TABLE
        ]),
    ]
}

fn arb_set_field(fields: Vec<Field>) -> impl Strategy<Value = OfAction> {
    select(fields).prop_flat_map(masked).prop_map(|(field, value, mask)| {
        let n_bytes = FieldValue::ones(field.info().n_bytes * 8);
        let whole = FieldValue::ones(field.n_bits());
        let mask = if !field.info().maskable || mask == whole || mask.is_zero() { n_bytes } else { mask };
        let value = match field {
            Field::NwTos => FieldValue::new(value.low() & 0xfc),
            Field::ArpOp => FieldValue::new(value.low() & 0xff),
            Field::NshTtl => FieldValue::new(value.low() & 63),
            _ => value,
        };
        OfAction::SetField(Box::new(SetField { field, value: value & mask, mask, load: false }))
    })
}

fn arb_load() -> impl Strategy<Value = OfAction> {
    (1..=64_u32, any::<u64>()).prop_flat_map(|(n, v)| {
        writable_sub(n).prop_map(move |dst| {
            let value = (FieldValue::new(v.into()) & FieldValue::ones(n)).shl(dst.ofs);
            OfAction::SetField(Box::new(SetField { field: dst.field, value, mask: dst.bits(), load: true }))
        })
    })
}

fn arb_nat() -> impl Strategy<Value = OfNat> {
    let v4 = (1..u32::MAX - 300, 0..300_u32).prop_map(|(a, n)| {
        let ip = |a: u32| std::net::IpAddr::from(std::net::Ipv4Addr::from(a));
        (ip(a), (n > 0).then(|| ip(a + n)))
    });
    let v6 = (1..u128::MAX - 300, 0..300_u128).prop_map(|(a, n)| {
        let ip = |a: u128| std::net::IpAddr::from(std::net::Ipv6Addr::from(a));
        (ip(a), (n > 0).then(|| ip(a + n)))
    });
    let port = (1..60000_u16, 0..5000_u16).prop_map(|(p, n)| (p, (n > 0).then_some(p + n)));
    let addr = proptest::option::of(prop_oneof![v4, v6]);
    (select(vec![OfNatKind::Src, OfNatKind::Dst]), addr, proptest::option::of(port), any::<[bool; 2]>())
        .prop_map(|(kind, addr, port, [persistent, hash])| OfNat {
            kind,
            port: port.filter(|_| addr.is_some()),
            addr,
            persistent,
            hash,
            random: !hash && persistent,
        })
}

fn arb_learn() -> impl Strategy<Value = OfAction> {
    let names_old = |f: &Field| f.info().writable && value::has_short_header(*f) && f.n_bits() <= 128;
    let old: Vec<Field> = Field::all().filter(names_old).collect();
    let sub = move |n: u32| {
        let fields: Vec<Field> = old.iter().copied().filter(|f| f.n_bits() >= n).collect();
        select(fields).prop_flat_map(move |f| {
            (0..=f.n_bits() - n).prop_map(move |ofs| Subfield { field: f, ofs, n_bits: n })
        })
    };
    let spec = (1..=16_u32).prop_flat_map(move |n| {
        let immediate = any::<u16>()
            .prop_map(move |v| LearnSrc::Immediate(FieldValue::new(v.into()) & FieldValue::ones(n)));
        let src = prop_oneof![sub(n).prop_map(LearnSrc::Field), immediate];
        (src, sub(n), 0..3).prop_map(move |(src, dst, way)| {
            let dst = match (way, &src) {
                (0, _) => LearnDst::Match(dst),
                (1, LearnSrc::Field(_)) => LearnDst::Output,
                _ => LearnDst::Load(dst),
            };
            // A whole field is written as its value, which not every number is.
            let src = match (&dst, src) {
                (LearnDst::Match(d), LearnSrc::Immediate(_)) if d.is_whole() => LearnSrc::Field(*d),
                (_, src) => src,
            };
            LearnSpec { n_bits: n, src, dst }
        })
    });
    (
        any::<[u16; 5]>(),
        0..255_u8,
        any::<u64>(),
        any::<[bool; 2]>(),
        any::<u32>(),
        prop::collection::vec(spec, 0..4),
    )
        .prop_map(|([a, b, c, d, priority], table, cookie, [x, y], limit, specs)| {
            OfAction::Learn(Box::new(Learn {
                idle_timeout: a,
                hard_timeout: b,
                fin_idle_timeout: c,
                fin_hard_timeout: d,
                priority,
                table: TableId(table),
                cookie,
                send_flow_rem: x,
                delete_learned: y,
                limit,
                result_dst: x.then_some(Subfield { field: Field::Reg(3), ofs: 4, n_bits: 1 }),
                specs,
            }))
        })
}

fn arb_simple_action() -> BoxedStrategy<OfAction> {
    let mac = any::<[u8; 6]>().prop_map(MacAddr);
    let settable = |f: &Field| {
        f.info().writable
            && !matches!(f, Field::CtMark | Field::CtLabel | Field::TunMetadata(_) | Field::InPortOxm)
    };
    prop_oneof![
        arb_port().prop_map(|port| OfAction::Output { port, max_len: 0 }),
        any::<u16>().prop_map(|max_len| OfAction::Output { port: OfPort::CONTROLLER, max_len }),
        writable_sub(16).prop_map(|src| OfAction::OutputReg { src, max_len: u16::MAX }),
        (0..0xff00_u16, 14..u32::MAX)
            .prop_map(|(p, max_len)| OfAction::OutputTrunc { port: OfPort(p), max_len }),
        (any::<u16>(), 1..=u16::MAX, 0..6_u16, any::<Vec<u8>>(), any::<bool>(), any::<u32>()).prop_map(
            |(max_len, id, reason, userdata, pause, meter_id)| OfAction::Controller(Box::new(Controller {
                max_len,
                id,
                reason,
                userdata,
                pause,
                meter_id
            }))
        ),
        (0..0xff00_u16, any::<u32>()).prop_map(|(p, queue)| OfAction::Enqueue { port: OfPort(p), queue }),
        any::<u32>().prop_map(OfAction::Group),
        arb_set_field(Field::all().filter(settable).collect()),
        arb_load(),
        (0..4096_u16, any::<bool>())
            .prop_map(|(vid, push_if_needed)| OfAction::SetVlanVid { vid, push_if_needed }),
        (0..8_u8, any::<bool>())
            .prop_map(|(pcp, push_if_needed)| OfAction::SetVlanPcp { pcp, push_if_needed }),
        any::<bool>().prop_map(|pop| OfAction::StripVlan { pop }),
        select(vec![0x8100_u16, 0x88a8]).prop_map(OfAction::PushVlan),
        mac.clone().prop_map(OfAction::SetEthSrc),
        mac.prop_map(OfAction::SetEthDst),
        any::<u32>().prop_map(|ip| OfAction::SetIpv4Src(ip.into())),
        any::<u16>().prop_map(OfAction::SetL4Dst),
        (0..64_u8).prop_map(|dscp| OfAction::SetIpDscp(dscp << 2)),
        (1..=128_u32)
            .prop_flat_map(|n| (writable_sub(n), writable_sub(n)))
            .prop_map(|(src, dst)| OfAction::Move { src, dst }),
        writable_sub(7).prop_map(OfAction::Push),
        prop::collection::vec(any::<u16>(), 1..4).prop_map(|ids| OfAction::DecTtl { ids, plain: false }),
        (0..0x10_0000_u32).prop_map(OfAction::SetMplsLabel),
        any::<u16>().prop_map(OfAction::PushMpls),
        (any::<u64>(), any::<bool>())
            .prop_map(|(id, wide)| OfAction::SetTunnel { id, wide: wide || id > u64::from(u32::MAX) }),
        (any::<u16>(), any::<u16>()).prop_map(|(idle, hard)| OfAction::FinTimeout { idle, hard }),
        (arb_port(), proptest::option::of(0..255_u8), any::<bool>())
            .prop_filter("of something", |(p, t, _)| *p != OfPort::IN_PORT || t.is_some())
            .prop_map(|(in_port, table, with_ct_orig)| {
                OfAction::Resubmit(Resubmit { in_port, table: table.map(TableId), with_ct_orig })
            }),
        arb_learn(),
        any::<Vec<u8>>().prop_map(OfAction::Note),
        Just(OfAction::Exit),
        writable_sub(1).prop_map(|dst| OfAction::CheckPktLarger { len: 1500, dst }),
        proptest::option::of(0..0x4_ffff_u32).prop_map(|t| OfAction::Decap(t.filter(|t| *t != 0xfffe))),
        Just(OfAction::CtClear),
    ]
    .boxed()
}

fn arb_action() -> impl Strategy<Value = OfAction> {
    arb_simple_action().prop_recursive(2, 12, 3, |inner| {
        let exec = arb_set_field(vec![Field::CtMark, Field::CtLabel]).boxed();
        let zone = prop_oneof![
            any::<u16>().prop_map(|z| CtZone::Number(ConnZone(z))),
            writable_sub(16).prop_map(CtZone::Field)
        ];
        let ct = (any::<[bool; 2]>(), zone, proptest::option::of(0..255_u8), select(vec![0_u16, 21, 69]))
            .prop_flat_map(move |(flags, zone, table, alg)| {
                let nat = proptest::option::of(arb_nat());
                (nat, prop::collection::vec(exec.clone(), 0..3)).prop_map(move |(nat, mut exec)| {
                    if let Some(nat) = nat {
                        exec.insert(0, OfAction::Nat(nat));
                    }
                    OfAction::Ct(Box::new(OfCt {
                        commit: flags[0],
                        force: flags[0] && flags[1],
                        zone,
                        recirc_table: table.map(TableId),
                        alg,
                        exec,
                    }))
                })
            });
        prop_oneof![3 => prop::collection::vec(inner, 0..3).prop_map(OfAction::Clone), 1 => ct]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_match_reads_back_as_it_was(m in arb_match(), priority in any::<u16>()) {
        let text = match_to_text(&m, None, &NoNames);
        let back = parse_match(&text, &NoNames).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert!(back == m, "{text} reads back as {}", match_to_text(&back, None, &NoNames));
        let mut line = match_to_text(&m, Some(priority), &NoNames);
        line.push_str(" actions=drop");
        let back = parse_flow_mod(&line, FlowModCommand::Add, &NoNames).map_err(|e| format!("{line}: {e}"));
        let back = back.map_err(TestCaseError::fail)?;
        prop_assert_eq!(back.flow_mod.priority, priority);
        prop_assert!(back.flow_mod.rule_match == m, "{line}");
        prop_assert!(back.normalized_from.is_none());
    }

    #[test]
    fn actions_read_back_as_they_were(list in prop::collection::vec(arb_action(), 0..5)) {
        let text = actions_to_text(&list, &NoNames);
        let back = parse_actions(&text, &NoNames).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(back, list, "{}", text);
    }

    #[test]
    fn a_rule_reads_back_as_it_was(
        m in arb_match(),
        numbers in any::<[u16; 4]>(),
        cookie in any::<u64>(),
        table in 0..254_u8,
        flags in any::<[bool; 5]>(),
    ) {
        let [priority, idle_timeout, hard_timeout, importance] = numbers;
        // These flags need newer versions, which cannot match parts of VLAN priorities.
        let untagged = m.mask.vlans[0].tci.get() == 0;
        let [reset_counts, no_packet_counts, no_byte_counts] = [2, 3, 4].map(|i| flags[i] && untagged);
        let [send_flow_rem, check_overlap, ..] = flags;
        let flow_mod = FlowMod {
            command: FlowModCommand::Add,
            table: Some(TableId(table)).filter(|t| t.0 > 0),
            priority,
            rule_match: m,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: Some(cookie),
            idle_timeout,
            hard_timeout,
            importance,
            flags: FlowModFlags { send_flow_rem, check_overlap, reset_counts, no_packet_counts, no_byte_counts },
            out_port: OfPort::NONE,
            out_group: None,
            actions: vec![OfAction::Output { port: OfPort(1), max_len: 0 }, OfAction::GotoTable(TableId(254))],
        };
        let text = RuleText::of(&flow_mod).to_text(None, &NoNames);
        let back = parse_flow_mod(&text, FlowModCommand::Add, &NoNames);
        let back = back.map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert!(back.flow_mod == flow_mod, "{text}");
    }

    #[test]
    fn a_group_reads_back_as_it_was(
        kind in select(vec![GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover]),
        weights in prop::collection::vec(any::<u16>(), 1..4),
        ids in prop::collection::btree_set(any::<u16>(), 4),
        hash in any::<bool>(),
        actions in prop::collection::vec(arb_simple_action(), 0..3),
    ) {
        let n = if kind == GroupType::Indirect { 1 } else { weights.len() };
        let buckets: Vec<Bucket> = weights[..n].iter().zip(ids).map(|(&weight, id)| Bucket {
            id: id.into(),
            weight: if kind == GroupType::Select { weight } else { 0 },
            watch_port: if kind == GroupType::FastFailover { OfPort(id % 100) } else { OfPort::NONE },
            watch_group: None,
            actions: actions.clone(),
        }).collect();
        let mut props = GroupProps::default();
        if hash && kind == GroupType::Select {
            props.selection_method = "hash".to_owned();
            props.selection_method_param = 7;
            props.fields = vec![
                (Field::EthSrc, FieldValue::ones(48)),
                (Field::IpDst, FieldValue::new(0xffff_ff00)),
            ];
        }
        let text = group_to_text(5, kind, &buckets, &props, true, &NoNames);
        let back = parse_group_mod(&text, GroupModCommand::Add, &NoNames);
        let back = back.map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!((back.group_id, back.kind, back.buckets, back.props), (5, kind, buckets, props), "{}", text);
    }

    #[test]
    fn nothing_panics(line in "[ -~éß\\t]{0,120}") {
        let _ = parse_flow_mod(&line, FlowModCommand::Add, &NoNames);
        let _ = parse_flow_mod(&line, FlowModCommand::Delete, &NoNames);
        let _ = parse_flow_mod_line(&line, &NoNames);
        let _ = parse_actions(&line, &NoNames);
        let _ = parse_match(&line, &NoNames);
        let _ = parse_group_mod_line(&line, &NoNames);
    }
}

#[test]
fn errors_name_the_word_and_its_place() {
    for (line, offset, word, message) in [
        ("in_port=1,foo=3,actions=1", 10, "foo", "unknown keyword foo"),
        ("actions=1,output:nowhere", 17, "nowhere", "nowhere: output to unknown port"),
        ("priority=70000,actions=1", 9, "70000", "invalid priority \"70000\""),
        ("in_port=1", 9, "", "must specify an action"),
        (
            "ip,nw_src=10.0.0.1/40,actions=1",
            19,
            "40",
            "10.0.0.1/40: IPv4 network prefix bits not between 0 and 32, inclusive",
        ),
        ("actions=clone(set_field:1->eth_type)", 27, "eth_type", "eth_type is read-only"),
        ("actions=ct(commit,exec(output:1))", 8, "ct(commit,exec(output:1))", ""),
    ] {
        let error = rule(line).expect_err(line);
        if !message.is_empty() {
            assert_eq!((error.offset, error.word.as_str()), (offset, word), "{line}");
            assert_eq!(error.to_string(), message, "{line}");
        }
        assert!(line.get(error.offset..).is_some_and(|rest| rest.starts_with(&error.word)), "{line}");
    }
}

#[test]
fn parts_of_a_match_that_mean_nothing_are_taken_away() {
    let parsed =
        parse_flow_mod("tcp_dst=80,in_port=1,actions=drop", FlowModCommand::Add, &NoNames).expect("parses");
    assert_eq!(match_to_text(&parsed.flow_mod.rule_match, None, &NoNames), "in_port=1");
    let before = parsed.normalized_from.expect("normalized");
    assert_eq!(match_to_text(&before, None, &NoNames), "in_port=1,tp_dst=80");
}

#[test]
fn fields_that_no_message_carries_are_taken_away() {
    for (written, kept) in [
        ("in_port=1,nw_frag=later", "in_port=1"),
        ("ip,tcp_flags=+syn", "ip"),
        ("icmp6,icmp_type=135,icmp_code=1,nd_target=::1", "icmp6,icmp_type=135,icmp_code=1"),
        ("ct_state=+trk+est,ip,ct_tp_src=1", "ct_state=+est+trk,ip"),
        ("tcp,tcp_flags=+syn,nw_frag=no", "tcp,nw_frag=no,tcp_flags=+syn"),
    ] {
        let line = format!("{written},actions=drop");
        let parsed = parse_flow_mod(&line, FlowModCommand::Add, &NoNames).expect("parses");
        assert_eq!(match_to_text(&parsed.flow_mod.rule_match, None, &NoNames), kept);
        let all_kept = written.matches(',').count() == kept.matches(',').count();
        assert_eq!(parsed.normalized_from.is_none(), all_kept, "{written}");
    }
}

#[test]
fn fields_without_what_they_need_are_refused() {
    for (line, field) in [
        ("tcp,nw_frag=later,tp_src=1", "tcp_src"),
        ("udp6,nw_frag=later,tp_dst=1", "udp_dst"),
        ("tcp,nw_frag=later,tcp_flags=+syn", "tcp_flags"),
        ("nsh_spi=1", "nsh_spi"),
        ("ip,ct_nw_src=1.2.3.4", "ct_nw_src"),
        ("ct_state=+trk,ip,ct_nw_dst=1.2.3.4", "ct_nw_dst"),
        ("packet_type=(1,0x800),vlan_tci=0x1001", "vlan_tci"),
    ] {
        let error = parse_flow_mod(&format!("{line},actions=drop"), FlowModCommand::Add, &NoNames);
        let expected = ErrorKind::Prerequisite(field.to_owned());
        assert_eq!(error.map(|_| ()).map_err(|error| error.kind), Err(expected), "{line}");
    }
    for good in [
        "tcp,nw_frag=not_later,tp_src=1",
        "ct_state=+trk-inv,ip,ct_nw_src=1.2.3.4",
        "dl_type=0x894f,nsh_si=1",
    ] {
        assert!(
            parse_flow_mod(&format!("{good},actions=drop"), FlowModCommand::Add, &NoNames).is_ok(),
            "{good}"
        );
    }
}

#[test]
fn bits_beside_a_mask_are_forgotten_by_old_versions_and_refused_by_new_ones() {
    let sent = |version, actions: &str| {
        let parsed =
            parse_flow_mod(&format!("actions={actions}"), FlowModCommand::Add, &NoNames).expect("parses");
        let FlowMod { actions, rule_match, .. } = parsed.flow_mod;
        received(version, &actions, &rule_match).map(|actions| actions_to_text(&actions, &NoNames))
    };
    let text = "set_field:02:00:00:00:00:07/00:00:00:00:00:ff->eth_src";
    assert_eq!(rule(&format!("actions={text}")), Ok(format!("actions={text}")));
    // The action of OpenFlow 1.0 has no mask: Open vSwitch's commands send all of the value.
    assert_eq!(sent(OfVersion::Of10, text), Ok("mod_dl_src:02:00:00:00:00:07".to_owned()));
    assert_eq!(sent(OfVersion::Of13, text), Ok("load:0x7->NXM_OF_ETH_SRC[0..7]".to_owned()));
    for nested in [text.to_owned(), format!("clone({text})"), format!("write_actions({text})")] {
        assert_eq!(sent(OfVersion::Of15, &nested), Err(OfpError::BadWildcards), "{nested}");
    }
}

#[test]
fn deletion_takes_other_attributes() {
    let text = "table=2,cookie=0x10/-1,out_port=3,out_group=4,ip";
    let parsed = parse_flow_mod(text, FlowModCommand::Delete, &NoNames).expect("parses");
    let m = parsed.flow_mod;
    assert_eq!((m.cookie, m.cookie_mask, m.out_port, m.out_group), (0x10, u64::MAX, OfPort(3), Some(4)));
    assert_eq!(m.table, Some(TableId(2)));
    for bad in ["actions=1", "priority=5", "cookie=5", "idle_timeout=3"] {
        assert!(parse_flow_mod(bad, FlowModCommand::Delete, &NoNames).is_err(), "{bad}");
    }
    let strict = parse_flow_mod("priority=5", FlowModCommand::DeleteStrict, &NoNames).expect("parses");
    assert_eq!(strict.flow_mod.priority, 5);
}

#[test]
fn lines_of_files_may_begin_with_a_command() {
    let command = |line| parse_flow_mod_line(line, &NoNames).map(|p| p.flow_mod.command);
    assert_eq!(command("add table=1,actions=1"), Ok(FlowModCommand::Add));
    assert_eq!(command("  delete_strict priority=3,ip"), Ok(FlowModCommand::DeleteStrict));
    assert_eq!(command("delete"), Ok(FlowModCommand::Delete));
    assert_eq!(command("modify ip,actions=2"), Ok(FlowModCommand::Modify));
    assert_eq!(command("ip,actions=2"), Ok(FlowModCommand::Add));
    assert_eq!(without_comment(" # nothing"), "");
    assert_eq!(without_comment("ip # x"), "ip ");
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!("actions={}{}", "clone(".repeat(200), ")".repeat(200));
    assert!(matches!(rule(&text).expect_err("too deep").kind, ErrorKind::TooDeep));
}

#[test]
fn names_are_shown_where_asked() {
    struct Ports;
    impl Names for Ports {
        fn port(&self, name: &str) -> Option<OfPort> {
            ["zero", "p1", "eth-2"].iter().position(|n| *n == name).map(|n| OfPort(n as u16))
        }
        fn port_name(&self, port: OfPort) -> Option<&str> {
            ["zero", "p1", "eth-2"].get(usize::from(port.0)).copied()
        }
        fn table(&self, name: &str) -> Option<TableId> {
            (name == "acl").then_some(TableId(0))
        }
        fn table_name(&self, table: TableId) -> Option<&str> {
            (table.0 == 0).then_some("acl")
        }
    }
    let line = "table=acl,in_port=p1,actions=output:eth-2,p1,resubmit(,acl)";
    let parsed = parse_flow_mod(line, FlowModCommand::Add, &Ports).expect("parses");
    let text = RuleText::of(&parsed.flow_mod);
    assert_eq!(
        text.to_text(None, &Ports),
        "table=acl, in_port=p1 actions=output:\"eth-2\",output:p1,resubmit(,acl)"
    );
    assert_eq!(text.to_text(None, &NoNames), "in_port=1 actions=output:2,output:1,resubmit(,0)");
}
