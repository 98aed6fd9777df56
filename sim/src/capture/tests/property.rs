use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::{E, read_all};

/// A record as (time, bytes not captured, bytes captured).
fn records() -> impl Strategy<Value = Vec<(u64, u32, Vec<u8>)>> {
    let time = 0..u64::from(u32::MAX) * 1_000_000_000;
    vec((time, 0u32..2000, vec(any::<u8>(), 0..200)), 0..20)
}

fn order() -> impl Strategy<Value = E> {
    any::<bool>().prop_map(|big| if big { E::B } else { E::L })
}

/// A valid file of either format with a few bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (records(), order(), any::<bool>(), changes, any::<prop::sample::Index>()).prop_map(
        |(records, e, classic, changes, end)| {
            let mut file = if classic {
                e.pcap(0xa1b2_c3d4, 4, 100, 276)
            } else {
                [e.section(), e.interface(113, 100, &e.option(2, b"eth0")), e.interface(0, 0, &[])].concat()
            };
            for (time, more, data) in &records {
                let len = data.len() as u32;
                file.extend(if classic {
                    e.record((time >> 20) as u32, (time & 0xf_ffff) as u32, (len, len + more), data)
                } else {
                    let options = [e.option(1, b"comment"), e.option(2, &e.u32(*more))].concat();
                    e.enhanced_lengths(more % 2, *time, (len, len + more), data, &options)
                });
            }
            for (index, byte) in changes {
                let at = index.index(file.len());
                file[at] = byte;
            }
            // Half of them are cut as well.
            let keep = file.len() / 2 + end.index(file.len()) + 1;
            file.truncate(keep);
            file
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in records(), big_endian in any::<bool>()) {
        let options = WriterOptions { big_endian, ..Default::default() };
        let mut writer = CaptureWriter::with_options(Vec::new(), options).unwrap();
        for (time, more, data) in &records {
            writer.write(*time, data.len() as u32 + more, data).unwrap();
        }
        let file = writer.finish().unwrap();
        let (read, error, reader) = read_all(&file);
        prop_assert!(error.is_none() && reader.notes().cut().is_none());
        let read: Vec<_> = read.into_iter().map(|(m, d)| (m.time_ns, m.original_len - m.captured_len, d)).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn damage_never_panics_and_every_byte_is_accounted_for(file in damaged()) {
        let Ok(mut reader) = CaptureReader::open(&file[..]) else { return Ok(()) };
        let mut framer = Framer::new(FrameOptions { truncated: Truncated::Pad, ..Default::default() });
        let mut pacer = Pacer::new("1x".parse().unwrap(), LoopGap::Mean, None, 0);
        let (mut data, mut records, mut last) = (Vec::new(), 0, 0);
        let error = loop {
            match reader.next_record(&mut data) {
                Ok(Some(meta)) => {
                    records += 1;
                    prop_assert_eq!(meta.number, records);
                    prop_assert!(meta.offset < file.len() as u64);
                    prop_assert_eq!(data.len(), meta.captured_len as usize);
                    prop_assert!(data.capacity() <= 2 * MAX_PACKET as usize + 64);
                    let departed = pacer.depart(meta.time_ns);
                    prop_assert!(departed >= last);
                    last = departed;
                    if let Ok(info) = framer.frame(&meta, &mut data) {
                        prop_assert!(data.len() <= info.original_len as usize);
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            }
        };
        prop_assert_eq!(reader.records(), records);
        prop_assert_eq!(framer.counts().frames + framer.counts().total_skipped(), records);
        // A file without an error is read to its last byte.
        if error.is_none() {
            prop_assert_eq!(reader.offset(), file.len() as u64);
        }
    }

    #[test]
    fn any_bytes_after_a_good_beginning_are_survived(
        tail in vec(any::<u8>(), 0..400), e in order(), classic in any::<bool>()
    ) {
        let begin = if classic { e.pcap(0xa1b2_3c4d, 4, 0, 1) } else { e.section() };
        let file = [begin, tail].concat();
        let (records, error, reader) = read_all(&file);
        prop_assert_eq!(records.len() as u64, reader.records());
        prop_assert!(error.is_some() || reader.offset() == file.len() as u64);
    }

    #[test]
    fn departures_are_exact(times in vec(any::<u32>(), 1..60), num in 1u64..1000, den in 1u64..1000, loops in 1..4) {
        let ratio = Ratio::new(num.try_into().unwrap(), den.try_into().unwrap());
        let mut pacer = Pacer::new(Pacing::Speed(ratio), LoopGap::Mean, None, 0);
        // Slow and obvious: the running maximum in the capture's time, scaled once.
        let mut base = 0u128;
        for _ in 0..loops {
            let (first, mut latest) = (times[0], times[0]);
            for &time in &times {
                latest = latest.max(time);
                let due = (base + u128::from(latest - first)) * u128::from(den) / u128::from(num);
                prop_assert_eq!(u128::from(pacer.depart(u64::from(time))), due);
            }
            let length = u128::from(latest - first);
            base += length + length.checked_div(times.len() as u128 - 1).unwrap_or(0);
            pacer.next_pass();
        }
    }
}
