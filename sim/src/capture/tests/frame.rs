use super::super::*;
use datapath::types::MacAddr;

const IPV4: &[u8] = &[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];

fn meta(link: LinkType, len: usize) -> RecordMeta {
    RecordMeta {
        number: 1,
        offset: 24,
        time_ns: 0,
        interface: 0,
        link,
        captured_len: len as u32,
        original_len: len as u32,
        fcs_len: 0,
        direction: Direction::Unknown,
        notes: NoteSet::EMPTY,
    }
}

fn with(options: FrameOptions, link: LinkType, data: &[u8]) -> Result<(Vec<u8>, FrameInfo), SkipReason> {
    let mut bytes = data.to_vec();
    let info = Framer::new(options).frame(&meta(link, data.len()), &mut bytes)?;
    Ok((bytes, info))
}

fn frame(link: LinkType, data: &[u8]) -> Result<(Vec<u8>, FrameInfo), SkipReason> {
    with(FrameOptions::default(), link, data)
}

fn sll(packet_type: u16, hardware: u16, address_len: u16, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    for word in [packet_type, hardware, address_len] {
        data.extend(word.to_be_bytes());
    }
    data.extend([0x50, 0x54, 0, 0, 0, 1, 0, 0]);
    data.extend(protocol.to_be_bytes());
    data.extend(payload);
    data
}

fn sll2(packet_type: u8, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let mut data = protocol.to_be_bytes().to_vec();
    data.extend([0, 0, 0, 0, 0, 2, 0, 1, packet_type, 6, 0x50, 0x54, 0, 0, 0, 1, 0, 0]);
    data.extend(payload);
    data
}

fn header(dst: [u8; 6], src: [u8; 6], ethertype: u16) -> Vec<u8> {
    [&dst[..], &src, &ethertype.to_be_bytes()].concat()
}

const SRC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DST: [u8; 6] = [2, 0, 0, 0, 0, 2];
const COOKED: [u8; 6] = [0x50, 0x54, 0, 0, 0, 1];

#[test]
fn ethernet_stays_as_it_is() {
    for len in [0, 13, 60] {
        let data = vec![7; len];
        let (bytes, info) = frame(LinkType::Ethernet, &data).unwrap();
        assert_eq!((bytes, info.header_made, info.packet_type), (data, false, 0));
    }
}

#[test]
fn cooked_captures_get_an_ethernet_header() {
    let expected = [header(DST, COOKED, 0x800), IPV4.to_vec()].concat();
    let (bytes, info) = frame(LinkType::LinuxSll, &sll(0, 1, 6, 0x800, IPV4)).unwrap();
    assert_eq!(bytes, expected);
    assert_eq!((info.original_len, info.header_made, info.direction), (34, true, Direction::Inbound));
    let (bytes, info) = frame(LinkType::LinuxSll2, &sll2(0, 0x800, IPV4)).unwrap();
    assert_eq!(bytes, expected);
    assert_eq!((info.original_len, info.if_index), (34, Some(2)));
    // A device without a 6-byte address.
    let (bytes, _) = frame(LinkType::LinuxSll, &sll(0, 65534, 0, 0x800, IPV4)).unwrap();
    assert_eq!(bytes, [header(DST, SRC, 0x800), IPV4.to_vec()].concat());
}

#[test]
fn a_cooked_vlan_tag_stays_a_tag() {
    let tagged = [&[0x60, 0x2a, 8, 0], IPV4].concat();
    for (link, data) in
        [(LinkType::LinuxSll, sll(0, 1, 6, 0x8100, &tagged)), (LinkType::LinuxSll2, sll2(0, 0x8100, &tagged))]
    {
        let (bytes, info) = frame(link, &data).unwrap();
        assert_eq!(bytes, [header(DST, COOKED, 0x8100), tagged.clone()].concat());
        assert_eq!(info.vlan, Some(VlanTag { tpid: 0x8100, tci: 0x602a }));
    }
}

#[test]
fn cooked_destinations_follow_the_packet_type() {
    let to = |packet_type, protocol, payload: &[u8]| {
        let (bytes, _) = frame(LinkType::LinuxSll, &sll(packet_type, 1, 6, protocol, payload)).unwrap();
        bytes[..6].to_vec()
    };
    assert_eq!(to(1, 0x806, &[0; 28]), [0xff; 6]);
    let mut group = IPV4.to_vec();
    group[16..].copy_from_slice(&[239, 129, 2, 3]);
    assert_eq!(to(2, 0x800, &group), [1, 0, 0x5e, 1, 2, 3]);
    assert_eq!(to(2, 0x8100, &[&[0, 5, 8, 0], &group[..]].concat()), [1, 0, 0x5e, 1, 2, 3]);
    let mut v6 = vec![0x60; 40];
    v6[24] = 0xff;
    v6[36..].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(to(2, 0x86dd, &v6), [0x33, 0x33, 1, 2, 3, 4]);
    assert_eq!(to(2, 0x800, &group[..10]), DST);
    assert_eq!(to(2, 0x8100, &[0, 5]), DST);
    assert_eq!(to(3, 0x800, IPV4), DST);
}

#[test]
fn cooked_llc_and_what_is_no_ethernet() {
    // LLC of a spanning tree BPDU: a length goes where the type would be.
    let (bytes, _) = frame(LinkType::LinuxSll, &sll(2, 1, 6, 4, &[0x42, 0x42, 3, 0, 0])).unwrap();
    assert_eq!(bytes, [header(DST, COOKED, 5), vec![0x42, 0x42, 3, 0, 0]].concat());
    let reason = |hardware, protocol, len| {
        frame(LinkType::LinuxSll, &sll(0, hardware, 6, protocol, &vec![0; len])).unwrap_err()
    };
    assert_eq!(reason(280, 0x000c, 16), SkipReason::Protocol(0x000c));
    assert_eq!(reason(824, 0, 16), SkipReason::Hardware(824));
    assert_eq!(reason(803, 0x800, 16), SkipReason::Hardware(803));
    assert_eq!(reason(1, 4, 1501), SkipReason::Protocol(4));
    assert_eq!(frame(LinkType::LinuxSll, &[0; 15]).unwrap_err(), SkipReason::Short { have: 15, want: 16 });
    assert_eq!(frame(LinkType::LinuxSll2, &[0; 19]).unwrap_err(), SkipReason::Short { have: 19, want: 20 });
}

#[test]
fn loopback_families_in_any_byte_order() {
    for family in [10u32, 24, 28, 30] {
        for bytes in [family.to_le_bytes(), family.to_be_bytes()] {
            let (made, _) = frame(LinkType::Null, &[&bytes[..], &[0x60; 40]].concat()).unwrap();
            assert_eq!(made, [header(DST, SRC, 0x86dd), vec![0x60; 40]].concat());
        }
    }
    let ipv4 = |link, family: [u8; 4]| frame(link, &[&family[..], IPV4].concat());
    let expected = [header(DST, SRC, 0x800), IPV4.to_vec()].concat();
    assert_eq!(ipv4(LinkType::Null, [2, 0, 0, 0]).unwrap().0, expected);
    assert_eq!(ipv4(LinkType::Loop, [0, 0, 0, 2]).unwrap().0, expected);
    assert_eq!(ipv4(LinkType::Loop, [2, 0, 0, 0]).unwrap_err(), SkipReason::Family(0x0200_0000));
    assert_eq!(ipv4(LinkType::Null, [23, 0, 0, 0]).unwrap_err(), SkipReason::Family(23));
    assert_eq!(frame(LinkType::Null, &[2]).unwrap_err(), SkipReason::Short { have: 1, want: 4 });
}

#[test]
fn raw_ip_as_frame_or_as_layer_3() {
    let layer_3 = FrameOptions { bare_ip: BareIp::Layer3, ..Default::default() };
    for number in [RawNumber::N101, RawNumber::N12, RawNumber::N14] {
        let (bytes, info) = frame(LinkType::Raw(number), IPV4).unwrap();
        assert_eq!(bytes, [header(DST, SRC, 0x800), IPV4.to_vec()].concat());
        assert_eq!((info.packet_type, info.original_len), (0, 34));
        let (bytes, info) = with(layer_3, LinkType::Raw(number), IPV4).unwrap();
        assert_eq!((bytes, info.packet_type, info.original_len), (IPV4.to_vec(), 0x1_0800, 20));
    }
    let (bytes, info) = with(layer_3, LinkType::Null, &[&[2, 0, 0, 0], IPV4].concat()).unwrap();
    assert_eq!((bytes, info.packet_type, info.original_len), (IPV4.to_vec(), 0x1_0800, 20));
    assert_eq!(with(layer_3, LinkType::Ipv6, &[]).unwrap().1.packet_type, 0x1_86dd);
    assert_eq!(frame(LinkType::Raw(RawNumber::N101), &[0x50]).unwrap_err(), SkipReason::IpVersion(5));
    assert_eq!(
        frame(LinkType::Raw(RawNumber::N101), &[]).unwrap_err(),
        SkipReason::Short { have: 0, want: 1 }
    );
}

#[test]
fn truncated_packets_as_asked() {
    let made = |truncated, link, data: &[u8], original_len| {
        let mut bytes = data.to_vec();
        let meta = RecordMeta { original_len, ..meta(link, data.len()) };
        let mut framer = Framer::new(FrameOptions { truncated, ..Default::default() });
        framer.frame(&meta, &mut bytes).map(|info| (bytes.len(), info.original_len, info.padded))
    };
    assert_eq!(made(Truncated::AsIs, LinkType::Ethernet, &[1; 96], 565), Ok((96, 565, false)));
    assert_eq!(made(Truncated::Pad, LinkType::Ethernet, &[1; 96], 565), Ok((565, 565, true)));
    assert_eq!(made(Truncated::Skip, LinkType::Ethernet, &[1; 96], 565), Err(SkipReason::Truncated));
    assert_eq!(made(Truncated::Skip, LinkType::Ethernet, &[1; 96], 96), Ok((96, 96, false)));
    assert_eq!(
        made(Truncated::Pad, LinkType::Ethernet, &[1; 96], u32::MAX),
        Err(SkipReason::TooLongToPad(u32::MAX))
    );
    let cooked = sll(0, 1, 6, 0x800, IPV4);
    assert_eq!(made(Truncated::Pad, LinkType::LinuxSll, &cooked, 116), Ok((114, 114, true)));
    // A length at the end of its range must not wrap.
    let raw = made(Truncated::AsIs, LinkType::Ipv4, IPV4, u32::MAX);
    assert_eq!(raw, Ok((34, u32::MAX, false)));
}

#[test]
fn frame_check_sequences_are_removed() {
    let mut framer = Framer::default();
    let mut removed = |captured: usize, original_len| {
        let mut bytes = vec![1; captured];
        let meta = RecordMeta { original_len, fcs_len: 4, ..meta(LinkType::Ethernet, captured) };
        let info = framer.frame(&meta, &mut bytes).unwrap();
        (bytes.len(), info.original_len)
    };
    assert_eq!(removed(64, 64), (60, 60));
    assert_eq!(removed(62, 64), (60, 60));
    assert_eq!(removed(60, 64), (60, 60));
    assert_eq!(removed(40, 64), (40, 60));
    assert_eq!(removed(2, 2), (0, 0));
    assert_eq!(framer.counts().fcs_removed, 3);
}

#[test]
fn what_is_done_is_counted() {
    let options =
        FrameOptions { skip_outgoing: true, src: MacAddr([2, 0, 0, 0, 0, 9]), ..Default::default() };
    let mut framer = Framer::new(options);
    for (number, packet_type) in [(1, 0), (2, 4), (3, 4), (4, 1)] {
        let mut data = sll(packet_type, 1, 6, 0x800, IPV4);
        let meta = RecordMeta { number, ..meta(LinkType::LinuxSll, data.len()) };
        assert_eq!(framer.frame(&meta, &mut data).is_err(), packet_type == 4);
    }
    let sent = RecordMeta { number: 5, direction: Direction::Outbound, ..meta(LinkType::Ethernet, 60) };
    assert_eq!(framer.frame(&sent, &mut vec![0; 60]), Err(SkipReason::Outgoing));
    let counts = framer.counts();
    assert_eq!((counts.frames, counts.headers_made, counts.total_skipped()), (2, 2, 3));
    assert_eq!(
        counts.lines().collect::<Vec<_>>(),
        [
            "2 packets given an Ethernet header that the capture does not have",
            "3 records not sent (first: record 2): sent by the capturing machine, which are left out as asked",
        ]
    );
}
