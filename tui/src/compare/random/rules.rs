//! Rule sets: tables, groups, and changes to them between the frames.

use datapath::openflow::flow_mod::FlowModCommand;
use datapath::openflow::protocol::Protocols;
use datapath::openflow::text::{NoNames, parse_flow_mod};

use super::{Chance, Draft, MAC, bridge, frames};

const PORTS: usize = 4;
const TABLES: usize = 4;

/// A field and the values that rules ask of it.
type Asked = (&'static str, &'static [&'static str]);

const ANY: [Asked; 9] = [
    ("in_port", &["1", "2", "3"]),
    (
        "dl_src",
        &["02:00:00:00:00:01", "02:00:00:00:00:00/ff:ff:ff:ff:ff:00", "00:00:00:00:00:01/00:00:00:00:00:01"],
    ),
    ("dl_dst", &["02:00:00:00:00:02", "01:00:00:00:00:00/01:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]),
    ("dl_vlan", &["10", "20", "0xffff"]),
    ("vlan_tci", &["0x1000/0x1000", "0x0000", "0x100a/0x1fff"]),
    ("dl_vlan_pcp", &["0", "3"]),
    ("reg0", &["1", "0x2/0x2", "0"]),
    ("reg1", &["0xa", "0/0xf0"]),
    ("metadata", &["1", "0x2/0x2"]),
];
const ARP: [Asked; 4] = [
    ("arp_op", &["1", "2"]),
    ("arp_spa", &["10.0.0.1", "10.0.0.0/24"]),
    ("arp_tpa", &["10.0.0.2", "10.0.1.0/24"]),
    ("arp_sha", &["02:00:00:00:00:01"]),
];
const IP: [Asked; 6] = [
    ("nw_src", &["10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "0.0.0.1/0.0.0.1"]),
    ("nw_dst", &["10.0.0.2", "10.0.0.0/30", "224.0.0.0/4", "192.168.0.0/16"]),
    ("nw_tos", &["32", "184"]),
    ("nw_ecn", &["0", "1"]),
    ("nw_ttl", &["1", "64"]),
    ("nw_frag", &["no", "first", "later", "not_later"]),
];
const IPV6: [Asked; 4] = [
    ("ipv6_src", &["2001:db8::1", "2001:db8::/32", "2001:db8:1::/48"]),
    ("ipv6_dst", &["2001:db8::2", "fe80::/10", "::1/::1"]),
    ("ipv6_label", &["5", "0/0xff"]),
    ("nw_ttl", &["1", "64"]),
];
const L4: [Asked; 2] = [
    ("tp_src", &["80", "1000", "1000/0xfffe", "0x8000/0x8000"]),
    ("tp_dst", &["53", "80", "40000", "0/0xff00"]),
];
const TCP: [Asked; 1] = [("tcp_flags", &["+syn", "+syn-ack", "ack/ack", "0x12"])];
const ICMP: [Asked; 2] = [("icmp_type", &["0", "8", "128"]), ("icmp_code", &["0"])];
const MPLS: [Asked; 4] = [
    ("mpls_label", &["16", "17"]),
    ("mpls_tc", &["0", "1"]),
    ("mpls_bos", &["0", "1"]),
    ("mpls_ttl", &["1", "64"]),
];

/// What packets a rule is for, and what else may be asked of them.
const KINDS: [(&str, &[&[Asked]]); 14] = [
    ("", &[]),
    ("arp", &[&ARP]),
    ("ip", &[&IP]),
    ("tcp", &[&IP, &L4, &TCP]),
    ("udp", &[&IP, &L4]),
    ("sctp", &[&IP, &L4]),
    ("icmp", &[&IP, &ICMP]),
    ("ipv6", &[&IPV6]),
    ("tcp6", &[&IPV6, &L4, &TCP]),
    ("udp6", &[&IPV6, &L4]),
    ("icmp6", &[&IPV6, &ICMP]),
    ("mpls", &[&MPLS]),
    ("dl_type=0x88b5", &[]),
    ("dl_type=0x05ff", &[]),
];

/// Actions for packets of any kind. `#port`, `#table` (a later one) and `#group` are filled in.
const ANY_ACTIONS: [&str; 33] = [
    "output:#port",
    "output:#port",
    "output:#port",
    "IN_PORT",
    "NORMAL",
    "FLOOD",
    "ALL",
    "resubmit(,#table)",
    "resubmit(,#table)",
    "resubmit(#port,#table)",
    "group:#group",
    "mod_dl_src:02:00:00:00:00:09",
    "mod_dl_dst:02:00:00:00:00:0a",
    "set_field:02:00:00:00:00:07/00:00:00:00:00:ff->eth_src",
    "mod_vlan_vid:20",
    "mod_vlan_pcp:5",
    "strip_vlan",
    "push_vlan:0x8100",
    "push_vlan:0x88a8",
    "load:0x1->NXM_NX_REG0[]",
    "load:0x2->NXM_NX_REG0[0..3]",
    "set_field:0xa->reg1",
    "set_field:0x2/0x2->metadata",
    "move:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15]",
    "move:NXM_OF_ETH_SRC[0..15]->NXM_OF_ETH_DST[0..15]",
    "move:NXM_OF_VLAN_TCI[0..11]->NXM_NX_REG0[0..11]",
    "push:NXM_NX_REG0[]",
    "pop:NXM_NX_REG1[]",
    "clone(mod_vlan_vid:30,output:#port)",
    "clone(load:0x3->NXM_NX_REG0[],resubmit(,#table))",
    "output:NXM_NX_REG1[0..15]",
    "note:01.02.03",
    "push_mpls:0x8847",
];
const IP_ACTIONS: [&str; 6] = [
    "mod_nw_src:10.9.9.9",
    "mod_nw_dst:10.8.8.8",
    "mod_nw_tos:64",
    "mod_nw_ttl:7",
    "dec_ttl",
    "move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[]",
];
const IPV6_ACTIONS: [&str; 4] = [
    "set_field:2001:db8::99->ipv6_src",
    "set_field:::77/::ff->ipv6_dst",
    "set_field:0x7->ipv6_label",
    "dec_ttl",
];
const L4_ACTIONS: [&str; 3] = ["mod_tp_src:7", "mod_tp_dst:8", "set_field:9->#l4_dst"];
const MPLS_ACTIONS: [&str; 5] =
    ["pop_mpls:0x0800", "pop_mpls:0x8847", "dec_mpls_ttl", "set_mpls_label:99", "set_mpls_ttl:3"];
const ARP_ACTIONS: [&str; 3] =
    ["set_field:2->arp_op", "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]", "set_field:10.7.7.7->arp_spa"];
const WHOLE: [&str; 6] = [
    "drop",
    "NORMAL",
    "learn(table=3,priority=7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),FLOOD",
    "check_pkt_larger(60)->NXM_NX_REG0[0],resubmit(,#table)",
    "multipath(eth_src,50,modulo_n,1,0,NXM_NX_REG0[0..1]),resubmit(,#table)",
    "bundle(eth_src,0,active_backup,ofport,members:2,3)",
];

/// Writes a scenario about rules.
pub fn write(chance: &mut Chance, draft: &mut Draft, mirrors: bool) {
    let mut lines = Vec::new();
    match chance.below(6) {
        0 => lines.push("ovs-vsctl set Open_vSwitch . other_config:vlan-limit=2".to_owned()),
        1 => lines.push("ovs-vsctl set Open_vSwitch . other_config:vlan-limit=0".to_owned()),
        _ => {}
    }
    let with_vlans = chance.one_in(3);
    lines.extend(bridge("br0", MAC, &[1, 2, 3, 4], |_| {
        if with_vlans { port_columns(chance) } else { String::new() }
    }));
    let groups = chance.below(3);
    for id in 1..=groups {
        lines.push(format!("ovs-ofctl -O OpenFlow15 add-group br0 group_id={id},{}", group(chance)));
    }
    for _ in 0..chance.within(3, 24) {
        lines.extend(rule(chance, groups));
    }
    if mirrors && chance.one_in(5) {
        lines.push(mirror(chance));
    }
    draft.commands(&lines);
    let mut met: Vec<(String, String)> = Vec::new();
    for _ in 0..chance.within(8, 30) {
        if chance.one_in(9) {
            draft.commands(&[change(chance, groups)]);
        }
        // What was met before meets the flow that it left, too.
        let (port, frame) = if met.is_empty() || chance.one_in(2) {
            (format!("br0:p{}", chance.within(1, PORTS)), frames::frame(chance))
        } else {
            met[chance.below(met.len())].clone()
        };
        draft.frame(&port, &frame);
        met.push((port, frame));
    }
}

/// A mirror to p4, or into a VLAN.
fn mirror(chance: &mut Chance) -> String {
    let select = [
        "select_all=true",
        "select-src-port=@p1",
        "select-dst-port=@p2",
        "select-src-port=@p1,@p2 select-dst-port=@p1",
        "select_all=true select_vlan=10",
        "select_all=true select_vlan=0,20",
        "select_all=true snaplen=40",
    ];
    let output = ["output-port=@p4", "output-port=@p4", "output-vlan=20"];
    format!(
        "ovs-vsctl -- --id=@p1 get Port p1 -- --id=@p2 get Port p2 -- --id=@p4 get Port p4 \
         -- --id=@m create Mirror name=m {} {} -- set Bridge br0 mirrors=@m",
        chance.pick(&select),
        chance.pick(&output)
    )
}

fn port_columns(chance: &mut Chance) -> String {
    let columns = [
        "",
        " tag=10",
        " tag=20",
        " trunks=10,20",
        " trunks=20",
        " tag=10 vlan_mode=native-tagged",
        " tag=10 vlan_mode=native-untagged",
        " tag=20 trunks=10 vlan_mode=native-untagged",
        " tag=10 vlan_mode=dot1q-tunnel",
    ];
    chance.pick(&columns).to_owned()
}

fn group(chance: &mut Chance) -> String {
    let bucket = |chance: &mut Chance| {
        let port = chance.within(1, PORTS);
        match chance.below(4) {
            0 => format!("bucket=actions=mod_vlan_vid:30,output:{port}"),
            1 => format!("bucket=actions=set_field:02:00:00:00:00:0c->eth_dst,output:{port}"),
            2 => format!("bucket=actions=load:1->NXM_NX_REG0[],resubmit(,3),output:{port}"),
            _ => format!("bucket=actions=output:{port}"),
        }
    };
    match chance.below(3) {
        0 => format!("type=indirect,{}", bucket(chance)),
        1 => {
            let port = chance.within(1, PORTS);
            format!(
                "type=ff,bucket=watch_port:{port},actions=output:{port},bucket=watch_port:2,actions=output:2"
            )
        }
        _ => {
            let buckets: Vec<String> = (0..chance.within(1, 3)).map(|_| bucket(chance)).collect();
            format!("type=all,{}", buckets.join(","))
        }
    }
}

/// A match: what kind of packets it is for, and its text.
fn matching(chance: &mut Chance) -> (&'static str, String) {
    let (kind, lists) = KINDS[chance.below(KINDS.len())];
    let mut asked: Vec<Asked> = lists.iter().flat_map(|list| list.iter().copied()).collect();
    asked.extend(ANY);
    let mut words = if kind.is_empty() { Vec::new() } else { vec![kind.to_owned()] };
    for _ in 0..chance.below(4) {
        let (field, values) = asked[chance.below(asked.len())];
        if !words.iter().any(|word| word.starts_with(&format!("{field}="))) {
            words.push(format!("{field}={}", chance.pick(values)));
        }
    }
    (kind, words.join(","))
}

fn actions(chance: &mut Chance, kind: &str, table: usize, groups: usize) -> String {
    if chance.one_in(6) {
        let action = chance.pick(&WHOLE);
        return fill(chance, action, kind, table, groups);
    }
    let mut list = Vec::new();
    for _ in 0..chance.within(1, 4) {
        let of_kind: &[&str] = match kind {
            "ip" => &IP_ACTIONS,
            "tcp" | "udp" | "sctp" if chance.one_in(2) => &L4_ACTIONS,
            "tcp" | "udp" | "sctp" | "icmp" => &IP_ACTIONS,
            "tcp6" | "udp6" if chance.one_in(2) => &L4_ACTIONS,
            "ipv6" | "tcp6" | "udp6" | "icmp6" => &IPV6_ACTIONS,
            "mpls" => &MPLS_ACTIONS,
            "arp" => &ARP_ACTIONS,
            _ => &ANY_ACTIONS,
        };
        let from = if chance.one_in(3) { of_kind } else { &ANY_ACTIONS };
        let action = chance.pick(from);
        list.push(fill(chance, action, kind, table, groups));
    }
    if table + 1 < TABLES && chance.one_in(5) {
        list.push(format!("goto_table:{}", chance.within(table + 1, TABLES - 1)));
    }
    if chance.one_in(12) {
        list.insert(0, "write_actions(mod_vlan_vid:30,output:4)".to_owned());
        list.sort_by_key(|action| (action.starts_with("write_actions"), action.starts_with("goto_table")));
    }
    list.join(",")
}

/// Puts ports, tables, groups and protocols into an action.
fn fill(chance: &mut Chance, action: &str, kind: &str, table: usize, groups: usize) -> String {
    let last = table + 1 >= TABLES;
    if action.contains("#table") && last || action.contains("#group") && groups == 0 {
        return format!("output:{}", chance.within(1, PORTS));
    }
    let later = if last { table } else { chance.within(table + 1, TABLES - 1) };
    action
        .replace("#port", &chance.within(1, PORTS).to_string())
        .replace("#table", &later.to_string())
        .replace("#group", &chance.within(1, groups.max(1)).to_string())
        .replace("#l4", kind.trim_end_matches('6'))
}

/// The command that adds a rule, if ovs-ofctl would send what was drawn.
fn rule(chance: &mut Chance, groups: usize) -> Option<String> {
    let table = [0, 0, 1, 2, 3][chance.below(5)];
    let (kind, fields) = matching(chance);
    let actions = actions(chance, kind, table, groups);
    let comma = if fields.is_empty() { "" } else { "," };
    // No two rules of one priority: which of them a packet meets is left open.
    let priority = chance.below(60_000) + 1;
    let text = format!("table={table},priority={priority}{comma}{fields},actions={actions}");
    let parsed = parse_flow_mod(&text, FlowModCommand::Add, &NoNames).ok()?;
    let version = match parsed.protocols {
        old if old.contains(Protocols::OF10_NXM_TID) => "",
        new if new.contains(Protocols::OF15) => "-O OpenFlow15 ",
        _ => return None,
    };
    Some(format!("ovs-ofctl {version}add-flow br0 '{text}'"))
}

fn change(chance: &mut Chance, groups: usize) -> String {
    let table = chance.below(TABLES);
    match chance.below(6) {
        0 => format!("ovs-ofctl del-flows br0 table={table}"),
        1 => {
            let (_, fields) = matching(chance);
            format!("ovs-ofctl del-flows br0 '{fields}'")
        }
        2 => format!("ovs-ofctl mod-flows br0 table={table},actions=output:{}", chance.within(1, PORTS)),
        3 => "ovs-appctl fdb/flush br0".to_owned(),
        _ => rule(chance, groups)
            .unwrap_or_else(|| "ovs-ofctl add-flow br0 'table=0,priority=1,actions=NORMAL'".to_owned()),
    }
}
