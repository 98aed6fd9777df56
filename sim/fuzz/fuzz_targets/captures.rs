//! Any bytes as a capture: read, framed, paced, written and read again; resumed in the middle.
//!
//! Run for a minute: `RUSTC_BOOTSTRAP=1 cargo fuzz run captures -- -max_total_time=60 -max_len=4096`.
//! A crash becomes a named test beside the module.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use sim::capture::{
    BareIp, CaptureReader, CaptureWriter, FrameOptions, Framer, MAX_PACKET, Replay, ReplayOptions, Truncated,
};

fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = CaptureReader::open(Cursor::new(file)) else { return };
    let layer_3 = FrameOptions { bare_ip: BareIp::Layer3, truncated: Truncated::Skip, ..Default::default() };
    let padded = FrameOptions { truncated: Truncated::Pad, ..Default::default() };
    let (mut layer_3, mut padded) = (Framer::new(layer_3), Framer::new(padded));
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory takes everything");
    let (mut data, mut resumed_data) = (Vec::new(), Vec::new());
    let mut last_offset = 0;
    loop {
        // Reading on from a checkpoint must be the same as just reading on.
        let checkpoint = reader.checkpoint();
        let next = reader.next_record(&mut data);
        if checkpoint.records() % 8 == 3 {
            let mut resumed = CaptureReader::resume(Cursor::new(file), &checkpoint).expect("it seeks");
            let again = resumed.next_record(&mut resumed_data);
            assert_eq!(format!("{next:?}"), format!("{again:?}"));
            assert_eq!((&data, reader.comment()), (&resumed_data, resumed.comment()));
        }
        let Ok(Some(meta)) = next else { break };
        assert!(meta.offset >= last_offset && meta.captured_len <= meta.original_len);
        assert_eq!(data.len(), meta.captured_len as usize);
        assert!(data.len() <= MAX_PACKET as usize);
        last_offset = meta.offset;
        let mut copy = data.clone();
        let _ = layer_3.frame(&meta, &mut copy);
        if let Ok(info) = padded.frame(&meta, &mut data) {
            assert_eq!(data.len(), info.original_len as usize);
            let _ = writer.write(meta.time_ns, info.original_len, &data);
        }
    }
    for line in reader.notes().lines().chain(padded.counts().lines()) {
        assert!(!line.contains('\n'));
    }
    let written = writer.records();
    let file_again = writer.finish().expect("memory takes everything");
    let mut reader = CaptureReader::open(&file_again[..]).expect("what was written is a capture");
    while reader.next_record(&mut data).expect("without an error").is_some() {}
    assert_eq!(reader.records(), written);

    let options = ReplayOptions { loops: 3.try_into().expect("is not 0"), ..Default::default() };
    let Ok(mut replay) = Replay::new(|| Ok(Cursor::new(file)), options) else { return };
    let mut last_ns = 0;
    while let Ok(Some(packet)) = replay.next_frame(&mut data) {
        assert!(packet.depart_ns >= last_ns);
        last_ns = packet.depart_ns;
    }
    assert_eq!(replay.records(), replay.frame_counts().frames + replay.frame_counts().total_skipped());
});
