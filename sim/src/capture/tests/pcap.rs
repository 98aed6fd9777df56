use super::super::*;
use super::{BOTH, E, read_all, read_clean, refusal};

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;

#[test]
fn nanoseconds_and_microseconds_in_both_orders() {
    for order in BOTH {
        let record = order.record(0x60c2_4237, 0x0715_38a9, (4, 4), b"abcd");
        let file = [order.pcap(NANO, 4, 65535, 1), record].concat();
        let records = read_clean(&file);
        assert_eq!(records[0].0.time_ns, 0x60c2_4237 * 1_000_000_000 + 118_831_273);
        assert_eq!((records[0].0.number, records[0].0.offset), (1, 24));
        assert_eq!(records[0].1, b"abcd");

        let record = order.record(1, 500_000, (4, 9), b"abcd");
        let file = [order.pcap(MICRO, 4, 65535, 1), record].concat();
        let (records, _, reader) = read_all(&file);
        assert_eq!(records[0].0.time_ns, 1_500_000_000);
        assert_eq!(records[0].0.original_len, 9);
        assert!(records[0].0.notes.contains(Note::Truncated));
        assert_eq!(reader.format(), Format::Pcap { nanoseconds: false, big_endian: order == E::B });
    }
}

#[test]
fn the_magic_bytes_of_a_nanosecond_file() {
    assert_eq!(&E::L.pcap(NANO, 4, 0, 1)[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    let mut written = Vec::new();
    CaptureWriter::new(&mut written).unwrap();
    assert_eq!(written, E::L.pcap(NANO, 4, 262_144, 1));
}

#[test]
fn a_nanosecond_file_copies_to_the_same_bytes() {
    for order in BOTH {
        let records = [
            order.record(7, 999_999_999, (3, 3), b"abc"),
            order.record(6, 0, (2, 1500), b"xy"),
            order.record(u32::MAX, 1, (0, 0), b""),
        ];
        let file = [order.pcap(NANO, 4, 0x1234, 113), records.concat()].concat();
        let (records, _, reader) = read_all(&file);
        let link = records[0].0.link;
        let options =
            WriterOptions { link, snaplen: reader.interfaces()[0].snaplen, big_endian: order == E::B };
        let mut writer = CaptureWriter::with_options(Vec::new(), options).unwrap();
        for (meta, data) in &records {
            writer.write(meta.time_ns, meta.original_len, data).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), file);
    }
}

#[test]
fn lengths_that_lie() {
    let long = vec![7; 92442];
    let records = [
        E::L.record(1, 0, (801, 785), &[1; 801]),
        E::L.record(2, 0, (92442, 92442), &long),
        E::L.record(3, 0, (96, 565), &[3; 96]),
        E::L.record(4, 0, (0, 60), &[]),
        E::L.record(5, 0, (60, 60), &[4; 31]),
    ];
    let file = [E::L.pcap(MICRO, 4, 65535, 1), records.concat()].concat();
    let (records, error, reader) = read_all(&file);
    assert!(error.is_none());
    let lengths: Vec<_> = records.iter().map(|(m, d)| (d.len(), m.original_len)).collect();
    assert_eq!(lengths, [(785, 785), (92442, 92442), (96, 565), (0, 60)]);
    let notes = reader.notes();
    assert_eq!(notes.get(Note::CapturedOverOriginal), Tally { count: 1, first_record: 1, first_offset: 24 });
    assert_eq!(notes.get(Note::OverSnaplen), Tally { count: 1, first_record: 2, first_offset: 841 });
    assert_eq!(notes.get(Note::Truncated).count, 1);
    assert_eq!(notes.get(Note::ZeroLength).count, 1);
    let cut = notes.cut().expect("cut");
    assert_eq!((cut.records, cut.want, cut.have), (4, 76, 47));
    assert_eq!(notes.lines().count(), 5);
}

#[test]
fn a_length_beyond_reason_is_damage() {
    for len in [262_145, 0x7fff_ffff, u32::MAX] {
        let records = [E::B.record(1, 0, (1, 1), b"a"), E::B.record(1, 0, (len, len), &[0; 40])];
        let file = [E::B.pcap(NANO, 4, 65535, 1), records.concat()].concat();
        let (records, error, _) = read_all(&file);
        assert_eq!(records.len(), 1);
        let error = error.expect("an error").to_string();
        assert!(error.starts_with(&format!("record 2 at byte 41 claims {len} captured bytes")), "{error}");
    }
    // The longest that is possible is read.
    let file =
        [E::L.pcap(NANO, 4, 0, 1), E::L.record(1, 0, (MAX_PACKET, MAX_PACKET), &[5; 262_144])].concat();
    assert_eq!(read_clean(&file)[0].1.len(), 262_144);
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_records() {
    let records = [E::L.record(1, 0, (5, 5), b"abcde"), E::L.record(2, 0, (3, 3), b"xyz")];
    let file = [E::L.pcap(NANO, 4, 65535, 1), records.concat()].concat();
    for len in 0..file.len() {
        match CaptureReader::open(&file[..len]) {
            Err(CaptureError::NotACapture { .. }) => assert!(len < 4),
            Err(CaptureError::HeaderCut { have, .. }) => assert_eq!((have, len < 24), (len as u64, true)),
            Err(other) => panic!("{other}"),
            Ok(_) => {
                let (records, error, reader) = read_all(&file[..len]);
                assert!(error.is_none());
                assert_eq!(records.len(), usize::from(len >= 45));
                assert_eq!(reader.notes().cut().is_none(), len == 24 || len == 45);
            }
        }
    }
}

#[test]
fn times_that_are_odd() {
    let records = [
        E::L.record(0, 0, (0, 0), &[]),
        E::L.record(65536, 28_000, (1, 1), b"a"),
        E::L.record(0, 49_000, (1, 1), b"b"),
        E::L.record(5, 1_000_000_000, (1, 1), b"c"),
        E::L.record(5, u32::MAX, (1, 1), b"d"),
    ];
    let file = [E::L.pcap(NANO, 4, 65535, 1), records.concat()].concat();
    let (records, error, reader) = read_all(&file);
    assert!(error.is_none());
    let times: Vec<_> = records.iter().map(|(meta, _)| meta.time_ns).collect();
    assert_eq!(times, [0, 65_536_000_028_000, 49_000, 6_000_000_000, 9_294_967_295]);
    let notes = reader.notes();
    assert_eq!(notes.get(Note::TimeWentBack), Tally { count: 3, first_record: 3, first_offset: 57 });
    assert_eq!(notes.get(Note::TimeFraction).count, 2);
    let micro = [E::L.pcap(MICRO, 4, 65535, 1), E::L.record(1, u32::MAX, (0, 0), &[])].concat();
    assert_eq!(read_all(&micro).0[0].0.time_ns, 1_000_000_000 + 4_294_967_295_000);
}

#[test]
fn old_versions_have_their_lengths_the_other_way() {
    let file = [E::B.pcap(MICRO, 2, 96, 1), E::B.record(1, 0, (60, 2), b"ab")].concat();
    assert_eq!(read_all(&file).0[0].0.original_len, 60);
    for lengths in [(60, 2), (2, 60)] {
        let file = [E::L.pcap(MICRO, 3, 96, 1), E::L.record(1, 0, lengths, b"ab")].concat();
        let (records, _, _) = read_all(&file);
        assert_eq!((records[0].0.captured_len, records[0].0.original_len), (2, 60));
    }
    assert_eq!(
        refusal(&E::L.pcap(MICRO, 5, 96, 1)),
        "pcap version 2.5 at byte 4 is not supported; supported: 2.0 to 2.4"
    );
}

#[test]
fn refusals_say_what_and_what_instead() {
    assert_eq!(
        refusal(&E::L.pcap(MICRO, 4, 65535, 105)),
        format!(
            "link type 105 (IEEE802_11) of interface 0 is not supported; supported: {SUPPORTED_LINK_TYPES}"
        )
    );
    assert_eq!(
        refusal(b"\x1f\x8b\x08\x08"),
        "not a pcap or pcapng file: it is compressed with gzip; unpack it first (gunzip)"
    );
    assert_eq!(refusal(b""), "not a pcap or pcapng file: it is empty");
    assert_eq!(
        refusal(&E::L.pcap(MICRO, 4, 65535, 1)[..10]),
        "the file ends inside its pcap header: 10 of 24 bytes"
    );
    assert!(refusal(&0xa1b2_cd34u32.to_le_bytes()).contains("modified pcap"));
}

#[test]
fn a_frame_check_sequence_is_announced_in_the_link_type() {
    let file = [E::L.pcap(NANO, 4, 65535, 0x2400_0001), E::L.record(1, 0, (8, 8), b"abcdFCS4")].concat();
    let (meta, _) = read_clean(&file)[0];
    assert_eq!((meta.link, meta.fcs_len), (LinkType::Ethernet, 4));
}

#[test]
fn what_cannot_be_written_is_refused_before_a_byte_is_written() {
    let mut writer =
        CaptureWriter::with_options(Vec::new(), WriterOptions { snaplen: 10, ..Default::default() }).unwrap();
    writer.write(u64::from(u32::MAX) * 1_000_000_000 + 999_999_999, 0, b"abc").unwrap();
    let late = writer.write(4_294_967_296_000_000_000, 3, b"abc").unwrap_err();
    assert!(late.to_string().contains("record 2") && late.to_string().contains("2106"), "{late}");
    let long = writer.write(0, 11, &[0; 11]).unwrap_err();
    assert_eq!(
        long.to_string(),
        "cannot write record 2: its 11 bytes are more than the file's snapshot length of 10"
    );
    let file = writer.finish().unwrap();
    let records = read_clean(&file);
    assert_eq!((records.len(), records[0].0.original_len), (1, 3));
}

#[test]
fn errors_of_the_input_are_reported_with_the_place() {
    /// Hands out one byte at a time, is interrupted before each, and fails in the end.
    struct Fails(usize, bool);
    impl std::io::Read for Fails {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let file = [E::L.pcap(NANO, 4, 65535, 1), E::L.record(1, 0, (4, 4), b"abcd")].concat();
            let &byte = file.get(self.0).ok_or_else(|| std::io::Error::other("the disk is gone"))?;
            self.0 += 1;
            out[0] = byte;
            Ok(1)
        }
    }
    let mut reader = CaptureReader::open(Fails(0, false)).unwrap();
    let mut data = Vec::new();
    assert!(reader.next_record(&mut data).unwrap().is_some());
    assert_eq!(data, b"abcd");
    let error = reader.next_record(&mut data).unwrap_err();
    assert_eq!(error.to_string(), "cannot read at byte 44 (after 1 records): the disk is gone");
}
