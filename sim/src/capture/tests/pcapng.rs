use super::super::*;
use super::{BOTH, E, read_all, read_clean, refusal};

#[test]
fn each_interface_has_its_own_resolution_and_offset() {
    for e in BOTH {
        let file = [
            e.section(),
            e.interface(1, 0, &[]),
            e.interface(1, u32::MAX, &e.option(9, &[9])),
            e.interface(1, 65535, &[e.option(9, &[0x94]), e.option(2, b"eth2"), e.option(0, &[])].concat()),
            e.interface(1, 0, &e.option(14, &e.u64(100))),
            e.enhanced(0, 1_500_000, b"abcd", &[]),
            e.enhanced(1, 1_500_000_000, b"abcde", &[]),
            e.enhanced(2, 0x18_0000, b"", &[]),
            e.enhanced(3, 1_500_000, &[9; 70_000], &[]),
        ]
        .concat();
        let (records, error, reader) = read_all(&file);
        assert!(error.is_none());
        let got: Vec<_> = records.iter().map(|(m, d)| (m.interface, m.time_ns, d.len())).collect();
        assert_eq!(
            got,
            [
                (0, 1_500_000_000, 4),
                (1, 1_500_000_000, 5),
                (2, 1_500_000_000, 0),
                (3, 101_500_000_000, 70_000)
            ]
        );
        assert_eq!(reader.interfaces()[2].name.as_deref(), Some("eth2"));
        assert_eq!(reader.interfaces()[3].offset_s, 100);
        // The empty packet is the only oddity: a snapshot length of 0 is no limit.
        assert_eq!(reader.notes().lines().count(), 1);
        assert_eq!(reader.notes().get(Note::ZeroLength).first_record, 3);
    }
}

#[test]
fn sections_in_both_orders_and_unknown_blocks() {
    for (first, second) in [(E::L, E::B), (E::B, E::L)] {
        let file = [
            first.section(),
            first.interface(1, 65535, &first.option(2, b"a")),
            first.enhanced(0, 7, b"1", &[]),
            first.block(0x0000_1234, b"unknown block body"),
            first.block(5, &[0; 12]),
            first.block(4, &[0; 4]),
            second.section(),
            second.interface(113, 65535, &second.option(2, b"b")),
            second.interface(276, 65535, &second.option(2, b"c")),
            second.enhanced(1, 9, b"2", &[]),
        ]
        .concat();
        let (records, error, reader) = read_all(&file);
        assert!(error.is_none(), "{error:?}");
        let got: Vec<_> = records.iter().map(|(m, _)| (m.number, m.interface, m.link, m.time_ns)).collect();
        assert_eq!(got, [(1, 0, LinkType::Ethernet, 7000), (2, 2, LinkType::LinuxSll2, 9000)]);
        let c = &reader.interfaces()[2];
        assert_eq!((c.section, c.id, c.name.as_deref()), (1, 1, Some("c")));
        assert_eq!(reader.notes().get(Note::UnknownBlock).count, 1);
        assert_eq!(
            reader.notes().lines().collect::<Vec<_>>(),
            ["1 block of unknown type (first at byte 92): skipped"]
        );
    }
}

#[test]
fn simple_and_obsolete_packets() {
    for e in BOTH {
        let obsolete = [
            e.u16(0),
            e.u16(3),
            e.u32(0),
            e.u32(2_000_000),
            e.u32(3),
            e.u32(3),
            b"abc\0".to_vec(),
            e.option(2, &e.u32(1)),
        ];
        let file = [
            e.section(),
            e.interface(1, 6, &[]),
            e.block(3, &[e.u32(3), b"xyz".to_vec()].concat()),
            e.block(2, &obsolete.concat()),
            e.block(3, &[e.u32(5), b"12345".to_vec()].concat()),
            e.block(3, &[e.u32(60), b"123456".to_vec()].concat()),
        ]
        .concat();
        let (records, error, reader) = read_all(&file);
        assert!(error.is_none(), "{error:?}");
        let got: Vec<_> = records.iter().map(|(m, d)| (m.time_ns, &d[..], m.original_len)).collect();
        assert_eq!(
            got,
            [
                (0, &b"xyz"[..], 3),
                (2_000_000_000, b"abc", 3),
                (2_000_000_000, b"12345", 5),
                (2_000_000_000, b"123456", 60)
            ]
        );
        assert_eq!(records[1].0.direction, Direction::Inbound);
        assert_eq!(reader.notes().get(Note::NoTime).count, 3);
        assert_eq!(reader.notes().get(Note::Truncated).count, 1);
    }
    // With no snapshot length the block itself says how much there is.
    let file = [
        E::L.section(),
        E::L.interface(1, 0, &[]),
        E::L.block(3, &[E::L.u32(0xffff_ffff), b"12345678".to_vec()].concat()),
    ];
    assert_eq!(read_all(&file.concat()).0[0].1, b"12345678");
}

#[test]
fn options_of_a_packet() {
    for e in BOTH {
        let options = [
            e.option(1, b"first"),
            e.option(2, &e.u32(2 | 4 << 5)),
            e.option(4, &[0; 8]),
            e.option(1, b"sec\xffnd"),
            e.option(0, &[]),
        ];
        let file = [e.section(), e.interface(1, 0, &[]), e.enhanced(0, 0, b"abcdefgh", &options.concat())];
        let file = file.concat();
        let mut reader = CaptureReader::open(&file[..]).unwrap();
        let mut data = Vec::new();
        let meta = reader.next_record(&mut data).unwrap().unwrap();
        assert_eq!((meta.direction, meta.fcs_len), (Direction::Outbound, 4));
        assert_eq!(reader.comment(), Some("first\nsec\u{fffd}nd"));
        assert!(reader.notes().is_empty());
        assert!(reader.next_record(&mut data).unwrap().is_none());
        assert_eq!(reader.comment(), None);
    }
}

#[test]
fn malformed_options_cost_only_themselves() {
    let e = E::L;
    let bad = [
        e.option(1, b"kept"),
        // Longer than the block.
        [e.u16(1), e.u16(400), b"lost".to_vec()].concat(),
    ]
    .concat();
    let wrong_size = e.option(2, &[1]);
    let file = [
        e.section(),
        e.interface(1, 0, &e.option(9, &[9, 9])),
        e.enhanced(0, 1, b"abc", &bad),
        e.enhanced(0, 2, b"def", &wrong_size),
        e.enhanced(0, 3, b"ghi", &[]),
    ]
    .concat();
    let (records, error, reader) = read_all(&file);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(records.iter().map(|(_, d)| &d[..]).collect::<Vec<_>>(), [b"abc", b"def", b"ghi"]);
    assert_eq!(reader.notes().get(Note::BadOptions).count, 3);
}

#[test]
fn blocks_that_lie() {
    let e = E::L;
    let begin = [e.section(), e.interface(1, 0, &[]), e.enhanced(0, 0, b"abcd", &[])].concat();
    let at = begin.len();
    let mut trailer = e.block(6, &[0; 24]);
    trailer.truncate(trailer.len() - 4);
    trailer.extend(e.u32(99));
    let cases = [
        (e.enhanced_lengths(0, 0, (9, 9), b"abcd", &[]), "9 captured bytes do not fit into a block of 36"),
        (e.enhanced_lengths(0, 0, (u32::MAX, 1), b"abcd", &[]), "claims 4294967295 captured bytes"),
        (e.enhanced(7, 0, b"abcd", &[]), "is of interface 7, but the section has described 1"),
        (e.enhanced(u32::MAX, 0, b"abcd", &[]), "is of interface 4294967295"),
        ([e.u32(6), e.u32(33)].concat(), "total length 33 is not a multiple of 4 of at least 12"),
        ([e.u32(6), e.u32(8)].concat(), "total length 8 is not a multiple"),
        (e.block(6, &[0; 16]), "total length 28 is too short for this type of block, which takes 32"),
        (trailer, "total length is 36 at its beginning and 99 at its end"),
        (
            [e.section(), e.block(3, &[0; 8])].concat(),
            "a simple packet, but the section has described no interface",
        ),
        ([e.u32(0x0a0d_0d0a), e.u32(28), e.u32(5)].concat(), "byte-order magic is 0x00000005"),
        (
            [e.interface(105, 0, &[]), e.enhanced(1, 0, b"abcd", &[])].concat(),
            "link type 105 (IEEE802_11) of interface 1 is not supported; supported: 0 (NULL), 1 (ETHERNET)",
        ),
        (vec![0; 12], "total length 0 is not a multiple of 4"),
    ];
    for (bytes, expected) in cases {
        let (records, error, _) = read_all(&[begin.clone(), bytes].concat());
        assert_eq!(records.len(), 1, "{expected}");
        let error = error.expect(expected).to_string();
        assert!(error.contains(expected), "{error} is not: {expected}");
        let located = error.contains(&format!("at byte {at}")) || error.contains("at byte");
        assert!(located || error.contains("link type"), "{error}");
    }
    let unused = [begin, e.interface(105, 0, &[])].concat();
    assert!(read_all(&unused).1.is_none(), "an interface without packets may be of any type");
}

#[test]
fn a_lying_block_length_neither_allocates_nor_fails() {
    // A block of almost 4 GiB, of a kind that is skipped and of one that is read.
    for body in [vec![], [E::L.u32(0), E::L.u32(0), E::L.u32(0), E::L.u32(4), E::L.u32(4)].concat()] {
        let kind = if body.is_empty() { 0x1234 } else { 6 };
        let lie = [E::L.u32(kind), E::L.u32(0xffff_fffc), body, vec![1; 100]].concat();
        let file = [E::L.section(), E::L.interface(1, 0, &[]), E::L.enhanced(0, 0, b"a", &[]), lie].concat();
        let (records, error, reader) = read_all(&file);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(records.len(), 1);
        assert_eq!(reader.notes().cut().unwrap().want, 0xffff_fffc);
    }
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_records() {
    let e = E::B;
    let options = [e.option(1, b"a comment"), e.option(0, &[])].concat();
    let parts = [e.section(), e.interface(1, 0, &e.option(2, b"x")), e.enhanced(0, 5, b"abcde", &options)];
    let file = parts.concat();
    for len in 0..=file.len() {
        match CaptureReader::open(&file[..len]) {
            Err(CaptureError::NotACapture { .. }) => assert!(len < 4),
            Err(CaptureError::HeaderCut { .. }) => assert!((4..28).contains(&len)),
            Err(other) => panic!("{other}"),
            Ok(_) => {
                let (records, error, reader) = read_all(&file[..len]);
                assert!(error.is_none());
                assert_eq!(records.len(), usize::from(len == file.len()));
                let whole = [28, 28 + parts[1].len(), file.len()].contains(&len);
                assert_eq!(reader.notes().cut().is_none(), whole, "cut at {len}");
            }
        }
    }
}

#[test]
fn versions_and_limits() {
    let section = |major, minor| {
        let e = E::L;
        e.block(0x0a0d_0d0a, &[e.u32(0x1a2b_3c4d), e.u16(major), e.u16(minor), e.u64(0)].concat())
    };
    assert!(CaptureReader::open(&section(1, 2)[..]).is_ok());
    assert_eq!(
        refusal(&section(2, 0)),
        "pcapng version 2.0 at byte 12 is not supported; supported: 1.0 and 1.2"
    );
    let many = E::L.interface(1, 0, &[]).repeat(MAX_INTERFACES as usize + 1);
    let file = [E::L.section(), many].concat();
    let (_, error, reader) = read_all(&file);
    assert!(matches!(error, Some(CaptureError::TooManyInterfaces { limit: MAX_INTERFACES, .. })));
    assert_eq!(reader.interfaces().len(), MAX_INTERFACES as usize);
}

#[test]
fn times_beyond_64_bits_of_nanoseconds() {
    let e = E::L;
    let file = [
        e.section(),
        e.interface(1, 0, &e.option(9, &[0])),
        e.interface(1, 0, &e.option(14, &e.u64((-5i64) as u64))),
        e.enhanced(1, 4_000_000, b"a", &[]),
        e.enhanced(0, u64::MAX, b"a", &[]),
        e.enhanced(0, 18_446_744_073, b"a", &[]),
    ]
    .concat();
    let (records, _, reader) = read_all(&file);
    let times: Vec<_> = records.iter().map(|(meta, _)| meta.time_ns).collect();
    assert_eq!(times, [0, u64::MAX, 18_446_744_073_000_000_000]);
    assert_eq!(reader.notes().get(Note::TimeClamped).count, 2);
}

#[test]
fn a_checkpoint_goes_on_where_it_was_taken() {
    let e = E::L;
    let mut file = [e.section(), e.interface(1, 0, &e.option(2, b"a"))].concat();
    for n in 0..50u8 {
        file.extend(e.enhanced(0, 100 - u64::from(n % 7), &[n; 9], &[]));
        if n == 20 {
            file.extend(
                [E::B.section(), E::B.interface(1, 0, &[]), e.section(), e.interface(113, 0, &[])].concat(),
            );
        }
    }
    let (all, _, whole) = read_all(&file);
    let mut data = Vec::new();
    for stop in [0, 1, 20, 21, 22, 49, 50] {
        let mut reader = CaptureReader::open(std::io::Cursor::new(&file)).unwrap();
        for _ in 0..stop {
            reader.next_record(&mut data).unwrap().unwrap();
        }
        let checkpoint = reader.checkpoint();
        assert_eq!(checkpoint.records(), stop as u64);
        let mut resumed = CaptureReader::resume(std::io::Cursor::new(&file), &checkpoint).unwrap();
        for (meta, bytes) in &all[stop..] {
            assert_eq!(resumed.next_record(&mut data).unwrap().as_ref(), Some(meta));
            assert_eq!(&data, bytes);
        }
        assert!(resumed.next_record(&mut data).unwrap().is_none());
        assert_eq!(resumed.notes(), whole.notes());
        assert_eq!(resumed.interfaces(), whole.interfaces());
    }
    assert!(
        !read_clean(&[e.section(), e.interface(1, 0, &[]), e.enhanced(0, 0, b"a", &[])].concat()).is_empty()
    );
}
