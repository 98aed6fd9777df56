//! What becomes of datapath flows when they are looked at again.

use super::*;
use crate::openflow::bridge::VlanMode;
use crate::trace::RemoveWhy;

impl World {
    /// Installs the flow of a packet, and looks at it again after `change`.
    fn again(&mut self, frame: &[u8], two_tags: bool, change: impl FnOnce(&mut Self)) -> Verdict {
        let mut packet = Packet::from_frame(frame);
        let extract = crate::flow::ExtractConfig { vlan_limit: if two_tags { 2 } else { 1 } };
        let mut key = Flow::of_packet_with(&mut packet, extract);
        key.in_port = 1;
        let request = UpcallRequest { now: self.now, kind: UpcallKind::Miss, packet: &packet, key: &key };
        let Install { mask, actions, ticket } = self.ofproto.upcall(&request).unwrap().install.unwrap();
        let flow = FlowId(7);
        self.ofproto.settled(ticket, Some(flow), self.now);
        change(self);
        self.ofproto.revalidate(flow, &key, &mask, &actions, self.now).verdict
    }
}

#[test]
fn that_a_flow_matches_the_tag_unasked_is_nothing_to_rely_on() {
    let mut w = world();
    w.line("priority=1,actions=output:2");
    assert_eq!(w.again(&tagged(30, &udp(MAC_1, MAC_2)), false, |_| {}), Verdict::Keep);
    let looks_at_tags = |w: &mut World| w.line("priority=9,vlan_vid=0x1000/0x1000,arp,actions=drop");
    assert_eq!(
        w.again(&tagged(30, &udp(MAC_1, MAC_2)), false, looks_at_tags),
        Verdict::Delete(RemoveWhy::Wide)
    );
    // Made anew, it says what the rule asks for.
    assert_eq!(w.again(&tagged(30, &udp(MAC_1, MAC_2)), false, |_| {}), Verdict::Keep);
}

#[test]
fn a_frame_that_ends_in_its_tag_has_no_lasting_flow_where_tags_are_looked_at() {
    let cut = &tagged(10, &udp(MAC_1, MAC_2))[..17];
    let mut w = world();
    w.line("actions=output:2");
    assert_eq!(w.again(cut, false, |_| {}), Verdict::Keep);
    let mut w = world();
    w.line("actions=NORMAL");
    assert_eq!(w.again(cut, false, |_| {}), Verdict::Delete(RemoveWhy::Wide));
}

#[test]
fn a_second_tag_is_forgotten_unless_flows_had_two_from_the_start() {
    let twice = tagged(20, &tagged(20, &udp(MAC_1, MAC_2)));
    let access = |w: &mut World| {
        let vlan = VlanConfig { tag: Some(20), ..VlanConfig::default() };
        w.ofproto.set_port_vlans(w.bridge, OfPort(3), &vlan, false).unwrap();
        let vlan = VlanConfig { mode: Some(VlanMode::Dot1qTunnel), ..vlan };
        w.ofproto.set_port_vlans(w.bridge, OfPort(2), &vlan, false).unwrap();
    };
    let sends_to = |verdict: Verdict, port| match verdict {
        Verdict::Keep => false,
        Verdict::Modify(actions) => actions.contains(&sends(port)),
        Verdict::Delete(_) => panic!("deleted"),
    };
    // An access port gets no frame that has another tag.
    let mut w = world();
    access(&mut w);
    w.line("actions=NORMAL");
    w.ofproto.set_vlan_limit(2);
    assert!(
        sends_to(w.again(&twice, true, |_| {}), 3),
        "the limit was raised after the first bridge was made"
    );
    let mut w = world_with(2);
    access(&mut w);
    w.line("actions=NORMAL");
    assert_eq!(w.again(&twice, true, |_| {}), Verdict::Keep);
}
