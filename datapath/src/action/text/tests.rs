use super::*;
use crate::flow::Flow;
use crate::flow::text::PortNames;
use crate::types::{MacAddr, PortNo};
use std::borrow::Cow;

/// Ports 1 to 99 are p1 to p99, 100 is br0.
struct Names;

impl PortNames for Names {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        match port.0 {
            1..100 => Some(Cow::Owned(format!("p{port}"))),
            100 => Some(Cow::Borrowed("br0")),
            _ => None,
        }
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        match name {
            "br0" => Some(PortNo(100)),
            _ => name.strip_prefix('p').and_then(|no| no.parse().ok()).map(PortNo),
        }
    }
}

/// A TCP packet from p1 and the mask of a flow that looked at the first byte of its destination address.
fn tcp_flow() -> (Flow, Flow) {
    let mut key = Flow { in_port: 1, nw_proto: 6, nw_ttl: 64, ..Flow::default() };
    key.dl_src = MacAddr([0x50, 0x54, 0, 0, 0, 1]);
    key.dl_dst = MacAddr([0x50, 0x54, 0, 0, 0, 2]);
    key.dl_type.set(0x0800);
    key.nw_src.set(0x0a01_0101);
    key.nw_dst.set(0x0b02_0202);
    key.tp_src.set(1000);
    key.tp_dst.set(80);
    let mut mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, nw_frag: 3, ..Flow::default() };
    mask.packet_type.set(u32::MAX);
    mask.dl_type.set(0xffff);
    mask.vlans[0].tci.set(0x1fff);
    mask.nw_dst.set(0xff00_0000);
    (key, mask)
}

#[test]
fn dump_lines_are_those_of_ovs() {
    let (key, mask) = tcp_flow();
    let mut dump = DumpText::new(&key, &mask, &[]);
    assert_eq!(
        dump.to_string(),
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(dst=11.2.2.2/255.0.0.0,frag=no), \
         packets:0, bytes:0, used:never, actions:drop"
    );
    dump.ufid = Some(0x914c_bc19_e2ad_4637_ac55_dde8_0661_1c9a);
    dump.verbose = true;
    dump.names = Some(&Names);
    assert_eq!(
        dump.to_string(),
        "ufid:914cbc19-e2ad-4637-ac55-dde806611c9a, recirc_id(0),dp_hash(0/0),skb_priority(0/0),in_port(p1),\
         skb_mark(0/0),ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),packet_type(ns=0,id=0),\
         eth(src=50:54:00:00:00:01/00:00:00:00:00:00,dst=50:54:00:00:00:02/00:00:00:00:00:00),eth_type(0x0800),\
         ipv4(src=10.1.1.1/0.0.0.0,dst=11.2.2.2/255.0.0.0,proto=6/0,tos=0/0,ttl=64/0,frag=no),\
         tcp(src=1000/0,dst=80/0), packets:0, bytes:0, used:never, dp:ovs, actions:drop, \
         dp-extra-info:miniflow_bits(2,4)"
    );
}

#[test]
fn statistics_are_those_of_ovs() {
    let stats = FlowStats { packets: 3, bytes: 180, used_ms: Some(5_012), tcp_flags: 0x18 };
    assert_eq!(stats.to_string(), "packets:3, bytes:180, used:5.012s, flags:P.");
}

#[test]
fn tags_and_vlan_actions_are_those_of_ovs() {
    let (mut key, mut mask) = tcp_flow();
    key.vlans[0].tpid.set(0x88a8);
    key.vlans[0].tci.set(0x3014);
    key.vlans[1].tpid.set(0x8100);
    key.vlans[1].tci.set(0x100a);
    mask.vlans[0].tpid.set(0xffff);
    mask.vlans[0].tci.set(0xffff);
    mask.vlans[1] = mask.vlans[0];
    mask.nw_dst.set(0);
    let actions =
        [Action::PopVlan, Action::PushVlan { tpid: 0x88a8, tci: 0xd014 }, Action::Output(PortNo(1))];
    assert_eq!(
        DumpText::new(&key, &mask, &actions).to_string(),
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x88a8),vlan(vid=20,pcp=1),\
         encap(eth_type(0x8100),vlan(vid=10,pcp=0),encap(eth_type(0x0800),ipv4(frag=no))), packets:0, bytes:0, \
         used:never, actions:pop_vlan,push_vlan(tpid=0x88a8,vid=20,pcp=6),1"
    );
}
