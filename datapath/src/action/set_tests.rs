use super::*;
use crate::flow::Nsh;
use crate::packet::Packet;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Sets what `change` writes into a key, under the mask that `cover` makes, and gives the flow that results with the frame.
fn set(
    group: SetGroup,
    frame: &[u8],
    change: impl FnOnce(&mut Flow),
    cover: impl FnOnce(&mut Flow),
) -> (Flow, Vec<u8>) {
    let mut packet = Packet::from_frame(frame);
    let _ = Flow::of_packet(&mut packet);
    let mut field = SetField { group, key: Flow::default(), mask: Flow::default() };
    change(&mut field.key);
    cover(&mut field.mask);
    assert!(field.apply(&mut packet));
    let flow = Flow::of_packet(&mut packet);
    (flow, packet.data().to_vec())
}

const UDP: &str =
    "505400000002 505400000001 0800 4500001c000100004011f6cc c0000201c0000202 0035 0035 0008 012a";

#[test]
fn masks_leave_the_rest() {
    let (flow, _) = set(
        SetGroup::Ethernet,
        &hex(UDP),
        |key| {
            key.dl_src = MacAddr([0xff; 6]);
            key.dl_dst = MacAddr([1, 2, 3, 4, 5, 6]);
        },
        |mask| {
            mask.dl_src = MacAddr([0, 0, 0, 0, 0xf0, 0]);
            mask.dl_dst = MacAddr::BROADCAST;
        },
    );
    assert_eq!(flow.dl_dst.0, [1, 2, 3, 4, 5, 6]);
    assert_eq!(flow.dl_src.0, [0x50, 0x54, 0, 0, 0xf0, 1]);

    let (flow, frame) = set(
        SetGroup::Ipv4,
        &hex(UDP),
        |key| {
            key.nw_src.set(0xffff_ffff);
            key.nw_tos = 0xff;
            key.nw_ttl = 9;
        },
        |mask| {
            mask.nw_src.set(0x0000_ff00);
            mask.nw_tos = 0xfc;
            mask.nw_ttl = 0xff;
        },
    );
    assert_eq!((flow.nw_src.get(), flow.nw_dst.get()), (0xc000_ff01, 0xc000_0202));
    assert_eq!((flow.nw_tos, flow.nw_ttl), (0xfc, 9));
    assert_eq!(crate::offload::checksum::internet(&frame[14..34]), [0, 0]);

    let (flow, _) =
        set(SetGroup::Udp, &hex(UDP), |key| key.tp_dst.set(0x1234), |mask| mask.tp_dst.set(0xff00));
    assert_eq!((flow.tp_src.get(), flow.tp_dst.get()), (53, 0x1235));
}

#[test]
fn ipv6_traffic_class_of_ovs() {
    // The case d-ipv6-traffic-class-in-fast-variant.
    let frame = hex("505400000002 505400000001 86dd 60012345 0008 11 40
        20010db8000000000000000000000001 20010db8000000000000000000000002 0035 0035 0008 a445");
    let (_, frame) = set(
        SetGroup::Ipv6,
        &frame,
        |key| {
            key.nw_tos = 0xb9;
            key.nw_ttl = 63;
        },
        |mask| {
            mask.nw_tos = 0xff;
            mask.nw_ttl = 0xff;
        },
    );
    assert_eq!(frame[14..22], hex("6b912345 0008 11 3f"));
    assert_eq!(frame[60..62], hex("a445"));
}

#[test]
fn arp_opcode() {
    let arp =
        hex("505400000002 505400000001 0806 0001080006040101 020000000001c0000201 000000000000c0000202");
    let change = |key: &mut Flow| {
        key.nw_proto = 2;
        key.nw_src.set(0x0a00_0001);
        key.arp_tha = MacAddr([9; 6]);
    };
    let all = |mask: &mut Flow| {
        mask.nw_proto = 0xff;
        mask.nw_src.set(u32::MAX);
        mask.nw_dst.set(u32::MAX);
        mask.arp_sha = MacAddr::BROADCAST;
        mask.arp_tha = MacAddr::BROADCAST;
    };
    let (_, frame) = set(SetGroup::Arp, &arp, change, all);
    assert_eq!(frame[20..42], hex("0002 000000000000 0a000001 090909090909 00000000"));
    let (_, frame) = set(SetGroup::Arp, &arp, change, |mask| mask.nw_proto = 0xff);
    assert_eq!(frame[20..42], hex("0102 020000000001 c0000201 000000000000 c0000202"));
}

#[test]
fn neighbour_discovery_keeps_its_checksum() {
    let mut frame = hex("333300000001 505400000001 86dd 60000000 0020 3a ff
        fe800000000000000000000000000001 ff020000000000000000000000000001
        8700 0000 00000000 fe800000000000000000000000000002 0101 505400000001");
    let sum = |frame: &[u8]| {
        crate::offload::checksum::pseudo_ipv6(frame[22..54].try_into().unwrap(), 58, 32)
            .bytes(&frame[54..])
            .finish()
    };
    let right = sum(&frame);
    frame[56..58].copy_from_slice(&right);
    let (flow, frame) = set(
        SetGroup::Nd,
        &frame,
        |key| {
            key.nd_target = [0x22; 16];
            key.arp_sha = MacAddr([7; 6]);
            key.arp_tha = MacAddr([8; 6]);
        },
        |mask| {
            mask.nd_target = [0xff; 16];
            mask.arp_sha = MacAddr::BROADCAST;
            mask.arp_tha = MacAddr::BROADCAST;
        },
    );
    assert_eq!((flow.nd_target, flow.arp_sha.0, flow.arp_tha.0), ([0x22; 16], [7; 6], [0; 6]));
    assert_eq!(sum(&frame), [0, 0]);
    let (flow, frame) = set(
        SetGroup::NdExt,
        &frame,
        |key| {
            key.igmp_group_ip4.set(0xe000_0000);
            key.tcp_flags.set(2);
        },
        |mask| {
            mask.igmp_group_ip4.set(u32::MAX);
            mask.tcp_flags.set(0xff);
        },
    );
    assert_eq!((flow.igmp_group_ip4.get(), flow.tcp_flags.get(), flow.arp_tha.0), (0xe000_0000, 2, [7; 6]));
    assert_eq!(sum(&frame), [0, 0]);
}

#[test]
fn nsh_path_and_ttl() {
    let frame = hex("505400000002 505400000001 894f 0fc6 0103 00001234 00000001 00000002 00000003 00000004");
    let (flow, frame) = set(
        SetGroup::Nsh,
        &frame,
        |key| {
            key.nsh.ttl = 10;
            key.nsh.path_hdr.set(0x0000_00ff);
            key.nsh.context[1].set(0xffff_ffff);
        },
        |mask| {
            mask.nsh = Nsh { ttl: 0x3f, ..Nsh::default() };
            mask.nsh.path_hdr.set(0x0000_00ff);
            mask.nsh.context[1].set(0xf000_0000);
        },
    );
    assert_eq!((flow.nsh.ttl, flow.nsh.path_hdr.get(), flow.nsh.context[1].get()), (10, 0x12ff, 0xf000_0002));
    assert_eq!(frame[14..18], hex("0286 0103"));
}

#[test]
fn metadata_groups() {
    let mut packet = Packet::from_frame(&[0; 14]);
    packet.md.pkt_mark = 0xf0;
    let mut field = SetField { group: SetGroup::Mark, key: Flow::default(), mask: Flow::default() };
    field.key.pkt_mark = 0x0f;
    field.mask.pkt_mark = 0x0f;
    assert!(field.apply(&mut packet));
    assert_eq!(packet.md.pkt_mark, 0xff);
    field.group = SetGroup::Tcp;
    assert!(!field.apply(&mut packet), "nothing to write to");
}
