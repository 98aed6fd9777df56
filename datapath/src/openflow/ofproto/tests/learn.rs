//! Rules that packets make: `learn`; and links that they choose: `multipath`, `bundle`.

use super::*;

use crate::openflow::bridge::rule::Rule;
use crate::openflow::text::{Names, actions_to_text, match_to_text};

/// A MAC learning switch out of rules, with limits.
const LEARN: &str = "table=1,cookie=7,hard_timeout=10,NXM_OF_VLAN_TCI[0..11],\
                     NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0->NXM_OF_VLAN_TCI[],output:NXM_OF_IN_PORT[]";

impl World {
    /// The rules of table 1.
    fn learned(&self) -> Vec<String> {
        let all = Match::catch_all();
        let filter = crate::openflow::bridge::RuleFilter {
            table: Some(TableId(1)),
            rule_match: &all,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        let bridge = self.ofproto.bridge(self.bridge).unwrap();
        let names: &dyn Names = bridge;
        let text = |rule: &Rule| {
            let rule_match = match_to_text(&rule.rule_match, None, names);
            format!("{rule_match} actions={}", actions_to_text(&rule.actions, names))
        };
        let mut rules: Vec<_> = bridge.find_rules(&filter).iter().map(|rule| text(rule)).collect();
        rules.sort();
        rules
    }
}

#[test]
fn packets_make_rules() {
    let mut w = world();
    w.line(&format!("table=0,actions=learn({LEARN}),resubmit(,1)"));
    w.line("table=1,priority=0,actions=output:4");
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert_eq!(&*reply.execute, [sends(4)], "the rule is not there for the packet that makes it");
    let mask = mask(&reply);
    assert_eq!((mask.dl_src.0, mask.vlans[0].tci.get()), ([0xff; 6], 0x1fff));
    assert_eq!(mask.dl_dst.0, [0xff; 6], "but what tells it from others was looked at");
    assert_eq!(
        w.learned(),
        [
            " actions=output:p4",
            "vlan_tci=0x0000/0x0fff,dl_dst=50:54:00:00:00:01 actions=load:0->NXM_OF_VLAN_TCI[],output:p1"
        ]
    );
    assert_eq!(w.actions(2, &udp(MAC_2, MAC_1)), [sends(1)]);
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(2)]);
    assert_eq!(w.learned().len(), 3);
    // Moves.
    w.miss(3, &udp(MAC_1, MAC_2));
    assert_eq!(w.actions(2, &udp(MAC_2, MAC_1)), [sends(3)]);
    assert_eq!(w.learned().len(), 3);
    // Ages, unless packets come, be it to the datapath flow only.
    w.now = Time::from_millis(9_000);
    let flow = FlowId(3);
    let ticket = w.miss(2, &udp(MAC_2, MAC_1)).install.unwrap().ticket;
    w.ofproto.settled(ticket, Some(flow), w.now);
    w.now = Time::from_millis(12_000);
    assert_eq!(w.ofproto.run(w.now).len(), 1, "that of MAC 1");
    w.now = Time::from_millis(18_000);
    let credit = Credit { packets: 1, bytes: 60, used: w.now, tcp_flags: 0 };
    w.ofproto.credit(flow, &credit, w.now);
    w.now = Time::from_millis(27_000);
    assert!(w.ofproto.run(w.now).is_empty());
    w.now = Time::from_millis(28_001);
    assert_eq!(w.ofproto.run(w.now).len(), 1);
    // And comes back, however late.
    let credit = Credit { used: w.now, ..credit };
    w.ofproto.credit(flow, &credit, w.now);
    assert_eq!(w.learned().len(), 2);
}

#[test]
fn learning_ends_at_its_limit_and_says_so() {
    let mut w = world();
    w.line(&format!("actions=learn({LEARN},limit=1,result_dst=NXM_NX_REG0[5]),output:NXM_NX_REG0[0..15]"));
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [Action::Drop(0)], "there is no port 32");
    let (b, p33) = (w.bridge, spec("p32", 32, 32));
    w.ofproto.add_port(b, &p33).unwrap();
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(32)], "it is there already");
    assert_eq!(w.actions(2, &udp(MAC_2, MAC_1)), [Action::Drop(0)], "the limit");
    assert_eq!(w.learned().len(), 1);
}

#[test]
fn what_was_learned_may_go_with_its_rule() {
    let mut w = world();
    w.line(&format!("in_port=1,actions=learn({LEARN},delete_learned)"));
    w.line(&format!("in_port=2,actions=learn({LEARN},delete_learned)"));
    w.miss(1, &udp(MAC_1, MAC_2));
    w.miss(2, &udp(MAC_2, MAC_1));
    w.line("table=1,actions=drop");
    let delete = |w: &mut World, port: u128| {
        let rule = matching(&[(Field::InPort, port)]);
        let change = FlowMod { command: FlowModCommand::Delete, ..flow_mod(0, 0, rule, Vec::new()) };
        w.ofproto.flow_mod(w.bridge, &change, w.now).unwrap().removed.len()
    };
    assert_eq!(delete(&mut w, 1), 1, "another rule learns the same");
    assert_eq!(delete(&mut w, 2), 3);
    assert_eq!(w.learned(), [" actions=drop"]);
}

#[test]
fn a_trace_learns_nothing() {
    let mut w = world();
    w.line(&format!("actions=learn({LEARN},result_dst=NXM_NX_REG0[0]),output:NXM_NX_REG0[0..15]"));
    let mut packet = Packet::from_frame(&udp(MAC_1, MAC_2));
    let mut key = Flow::of_packet(&mut packet);
    key.in_port = 2;
    let text = w.ofproto.trace(&TraceInput::of(&key), w.now).unwrap().text;
    assert!(text.contains("     >> suppressing side effects, so learn action ignored\n"), "{text}");
    assert!(w.learned().is_empty());
    let input = TraceInput { packet: Some(&packet), ..TraceInput::of(&key) };
    let text = w.ofproto.trace(&input, w.now).unwrap().text;
    let told = "     -> table=1 vlan_tci=0x0000/0x0fff,dl_dst=50:54:00:00:00:01 priority=32768 cookie=0x7 hard=10 \
                actions=load:0->NXM_OF_VLAN_TCI[],output:2\n";
    assert!(text.contains(told), "{text}");
    assert!(text.ends_with("Datapath actions: 1"), "{text}");
    assert_eq!(w.learned().len(), 1);
}

#[test]
fn bundles_go_by_links_and_hashes() {
    let mut w = world();
    w.line("in_port=1,actions=bundle(eth_src,0,active_backup,ofport,members:2,3)");
    w.line("in_port=2,actions=bundle_load(eth_src,0,hrw,ofport,NXM_NX_REG0[0..15],members:3,4),output:NXM_NX_REG0[]");
    let reply = w.miss(1, &udp(MAC_1, MAC_2));
    assert_eq!(&*reply.execute, [sends(2)]);
    assert_eq!(mask(&reply).dl_src.0, [0; 6], "nothing was hashed");
    w.ofproto.set_link(w.bridge, OfPort(2), false).unwrap();
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [sends(3)]);
    w.ofproto.set_link(w.bridge, OfPort(3), false).unwrap();
    assert_eq!(w.actions(1, &udp(MAC_1, MAC_2)), [Action::Drop(0)]);
    let reply = w.miss(2, &udp(MAC_1, MAC_2));
    assert_eq!(&*reply.execute, [sends(4)], "the one that lives");
    assert_eq!(mask(&reply).dl_src.0, [0xff; 6]);
}
