//! The kernel's header, both ways. What needs interfaces is tested with the program, in namespaces.

use zerocopy::{FromBytes, IntoBytes};

use super::vnet::Header;
use crate::flow::Flow;
use crate::offload::{Capabilities, Offloads, prepare_for};
use crate::packet::Packet;

/// An IPv4 TCP segment of 8 bytes, its checksum right.
fn segment() -> Packet {
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut frame = Vec::new();
    builder.tcp(1, 2, 3, 4).write(&mut frame, &[7; 8]).unwrap();
    Packet::from_frame(&frame)
}

/// flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
fn header(flags: u8, kind: u8, rest: [u16; 4]) -> Header {
    let mut bytes = vec![flags, kind];
    rest.iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
    Header::read_from_bytes(&bytes).unwrap()
}

#[test]
fn debts_come_in_and_go_out() {
    let right = segment().data().to_vec();
    let mut packet = segment();
    assert!(header(1, 1, [54, 4, 34, 16]).mark(&mut packet));
    assert!(packet.offloads.contains(Offloads::L4_PARTIAL) && packet.tso_segsz == 4);
    Flow::of_packet(&mut packet);
    let able = Capabilities::TCP_CSUM | Capabilities::TSO;
    let _ = prepare_for(&mut packet, able);
    let out = Header::of(&mut packet);
    assert_eq!(out.as_bytes(), header(1, 1, [54, 4, 34, 16]).as_bytes());
    // What the device adds to the pseudo header's sum comes to the right checksum.
    crate::offload::complete_at(&mut packet, 34, 16);
    assert_eq!(packet.data(), right);
}

#[test]
fn a_debt_behind_headers_that_are_not_looked_at_yet_is_paid() {
    let right = segment().data().to_vec();
    let mut packet = segment();
    // Begun as the kernel does, and announced with an offset that is not the outermost transport header's.
    packet.offloads |= Offloads::L4_PARTIAL;
    Flow::of_packet(&mut packet);
    crate::offload::begin_l4_checksum(&mut packet);
    let mut shifted = Packet::from_frame(&[&[0; 4], packet.data()].concat());
    assert!(header(1, 0, [0, 0, 38, 16]).mark(&mut shifted));
    assert!(shifted.offloads.is_empty());
    assert_eq!(&shifted.data()[4..], right);
}

#[test]
fn unknown_segmentation_is_told() {
    assert!(!header(1, 5, [42, 100, 34, 6]).mark(&mut segment()), "UDP");
    let mut packet = segment();
    assert!(header(2, 0, [0; 4]).mark(&mut packet));
    assert!(packet.offloads.contains(Offloads::L4_GOOD));
}
