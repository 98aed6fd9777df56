//! What a packet still owes when it goes into a tunnel is paid when it leaves; frames are those of Open vSwitch 4.0.90.

use super::tunnels::{bytes, pass, run};
use super::*;

/// A frame: its beginning, and as many bytes of zero.
fn frame(begin: &str, zeros: usize) -> Vec<u8> {
    let mut frame = bytes(begin);
    frame.extend(std::iter::repeat_n(0, zeros));
    frame
}

fn sent(switch: &mut Switch, packet: &[u8]) -> Vec<Vec<u8>> {
    let sent = pass(switch, "p5", packet, Time::ZERO);
    assert!(sent.iter().all(|(port, _)| port == "p1"));
    sent.into_iter().map(|(_, frame)| frame).collect()
}

/// Case a-recirc-after-encap-keeps-inner-offloads: the outer packet is hashed and looked up again, the inner one is still to be
/// cut.
#[test]
fn a_hash_behind_a_tunnel_does_not_forget_that_the_packet_is_to_be_cut() {
    let mut switch = Switch::new(1);
    run(
        &mut switch,
        "ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true\n\
         ovs-vsctl add-br br0 -- set bridge br0 other_config:hwaddr=aa:55:aa:55:00:00\n\
         ovs-vsctl add-port br0 p1 -- set Interface p1 type=dummy ofport_request=1\n\
         ovs-vsctl add-br br-int\n\
         ovs-vsctl add-port br-int t2 -- set Interface t2 type=geneve ofport_request=2 options:remote_ip=192.0.2.92 \
         options:key=123 options:csum=true\n\
         ovs-vsctl add-port br-int p5 -- set Interface p5 type=dummy ofport_request=5 \
         options:ol_l4_rx_csum_set_partial=true options:ol_tso_segsz=500\n\
         ovs-appctl netdev-dummy/ip4addr br0 192.0.2.88/24\n\
         ovs-appctl tnl/neigh/set br0 192.0.2.92 f8:bc:12:44:34:b6\n\
         ovs-appctl tnl/egress_port_range 57363 57363\n\
         ovs-ofctl add-group br0 group_id=1234,type=select,selection_method=dp_hash,bucket=bucket_id=1,weight=1,output:1\n\
         ovs-ofctl add-flow br0 in_port=LOCAL,actions=group:1234\n\
         ovs-ofctl add-flow br-int in_port=5,actions=output:2",
    );
    let packet = "505400000002505400000001080045000410000100004006f2e3c0000201c0000202d47814510000000000000000501020001f1f";
    let first = "f8bc124434b6aa55aa55000008004500024e000040004011b3eac0000258c000025ce01317c1023a7bfe0000655800007b00\
                 50540000000250540000000108004500021c000100004006f4d7c0000201c0000202d47814510000000000000000501020002113";
    let second = "f8bc124434b6aa55aa55000008004500024e000140004011b3e9c0000258c000025ce01317c1023a7bfe0000655800007b00\
                  50540000000250540000000108004500021c000200004006f4d6c0000201c0000202d4781451000001f400000000501020001f1f";
    assert_eq!(sent(&mut switch, &frame(packet, 1002)), [frame(first, 502), frame(second, 502)]);
    let packet = "50540000000250540000000186dd6000000003fc064020010db800000000000000000000000120010db8000000000000000000000002\
                  d478145100000000000000005010200047ae";
    let first = "f8bc124434b6aa55aa550000080045000262000040004011b3d6c0000258c000025ce01317c1024e10ac0000655800007b00\
                 50540000000250540000000186dd600000000208064020010db800000000000000000000000120010db8000000000000000000000002\
                 d478145100000000000000005010200049a2";
    let second = "f8bc124434b6aa55aa550000080045000262000140004011b3d5c0000258c000025ce01317c1024e10ac0000655800007b00\
                  50540000000250540000000186dd600000000208064020010db800000000000000000000000120010db8000000000000000000000002\
                  d4781451000001f4000000005010200047ae";
    assert_eq!(sent(&mut switch, &frame(packet, 1002)), [frame(first, 502), frame(second, 502)]);
}

/// Case a-vxlan-carries-non-ip: VXLAN in GENEVE, around ARP, a checksum that was left to a network card, and a super-packet.
#[test]
fn a_tunnel_in_a_tunnel_leaves_every_layer_right() {
    let mut switch = Switch::new(1);
    run(
        &mut switch,
        "ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true\n\
         ovs-vsctl add-br br0 -- set bridge br0 other_config:hwaddr=aa:55:aa:55:00:00\n\
         ovs-vsctl add-port br0 p1 -- set Interface p1 type=dummy ofport_request=1\n\
         ovs-vsctl add-br br1 -- set bridge br1 other_config:hwaddr=aa:55:aa:55:00:01\n\
         ovs-vsctl add-port br1 g2 -- set Interface g2 type=geneve ofport_request=2 options:remote_ip=192.0.2.92 \
         options:key=7 options:csum=true\n\
         ovs-vsctl add-br br-int\n\
         ovs-vsctl add-port br-int v3 -- set Interface v3 type=vxlan ofport_request=3 options:remote_ip=198.51.100.2 \
         options:key=123 options:csum=true\n\
         ovs-vsctl add-port br-int p5 -- set Interface p5 type=dummy ofport_request=5\n\
         ovs-appctl netdev-dummy/ip4addr br0 192.0.2.88/24\n\
         ovs-appctl netdev-dummy/ip4addr br1 198.51.100.1/24\n\
         ovs-appctl tnl/neigh/set br0 192.0.2.92 f8:bc:12:44:34:b6\n\
         ovs-appctl tnl/neigh/set br1 198.51.100.2 f8:bc:12:44:34:b7\n\
         ovs-appctl tnl/egress_port_range 57363 57363\n\
         ovs-ofctl add-flow br0 in_port=LOCAL,actions=output:1\n\
         ovs-ofctl add-flow br1 in_port=LOCAL,actions=output:2\n\
         ovs-ofctl add-flow br-int in_port=5,actions=output:3",
    );
    let arp = "ffffffffffff50540000000108060001080006040001505400000001c0000201000000000000c0000202";
    let outer = "f8bc124434b6aa55aa550000080045000080000040004011b5b8c0000258c000025ce01317c1006cce850000655800000700\
                 f8bc124434b7aa55aa55000108004500004e000040004011e634c6336401c6336402e01312b5003afa8a0800000000007b00";
    assert_eq!(sent(&mut switch, &bytes(arp)), [bytes(&format!("{outer}{arp}"))]);
    run(&mut switch, "ovs-vsctl set Interface p5 options:ol_l4_rx_csum_set_partial=true");
    let packet = "50540000000250540000000108004500002c000100004006f6c7c0000201c0000202001400500000000000000000500220001111\
                  000061626364";
    let outer = "f8bc124434b6aa55aa550000080045000090000040004011b5a8c0000258c000025ce01317c1007cce750000655800000700\
                 f8bc124434b7aa55aa55000108004500005e000040004011e624c6336401c6336402e01312b5004a109d0800000000007b00";
    // As it was sent, but for the checksum of TCP.
    let inner = packet.replace("1111", "46b0");
    assert_eq!(sent(&mut switch, &bytes(packet)), [bytes(&format!("{outer}{inner}"))]);
    run(&mut switch, "ovs-vsctl set Interface p5 options:ol_tso_segsz=500");
    let packet = "5054000000025054000000010800450005a0000100004006f153c0000201c0000202d47814510000000000000000501020001d8f";
    let parts = [
        (
            "f8bc124434b6aa55aa550000080045000280000040004011b3b8c0000258c000025ce01317c1026ccc850000655800000700\
             f8bc124434b7aa55aa55000108004500024e000040004011e434c6336401c6336402e01312b5023a0ead0800000000007b00\
             50540000000250540000000108004500021c000100004006f4d7c0000201c0000202d47814510000000000000000501020002113",
            502,
        ),
        (
            "f8bc124434b6aa55aa550000080045000280000040004011b3b8c0000258c000025ce01317c1026ccc850000655800000700\
             f8bc124434b7aa55aa55000108004500024e000140004011e433c6336401c6336402e01312b5023a0ead0800000000007b00\
             50540000000250540000000108004500021c000200004006f4d6c0000201c0000202d4781451000001f400000000501020001f1f",
            502,
        ),
        (
            "f8bc124434b6aa55aa55000008004500021c000040004011b41cc0000258c000025ce01317c10208cce90000655800000700\
             f8bc124434b7aa55aa5500010800450001ea000240004011e496c6336401c6336402e01312b501d60f110800000000007b00\
             5054000000025054000000010800450001b8000300004006f539c0000201c0000202d4781451000003e800000000501020001d8f",
            402,
        ),
    ];
    let expected: Vec<_> = parts.iter().map(|&(begin, zeros)| frame(begin, zeros)).collect();
    assert_eq!(sent(&mut switch, &frame(packet, 1402)), expected);
}
