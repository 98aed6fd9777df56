//! Every capture of `../shared/pcaps` is read to its end, in the numbers and with the times that Wireshark's
//! `capinfos` and `tshark` find where they are installed, or is refused with a reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::capture::{
    CaptureError, CaptureReader, CaptureWriter, FrameOptions, Framer, Note, Replay, ReplayOptions, Truncated,
};

/// The folder with the captures, or `None` where there is none. In CI that is a failure.
fn folder() -> Option<PathBuf> {
    let shared = std::env::var_os("RECIRC_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let folder = shared.join("pcaps");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "{} does not exist", folder.display());
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("SKIPPED: {} does not exist\n", folder.display()).as_bytes(),
    );
    None
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for sub in ["tcpdump", "ndpi"] {
        for entry in std::fs::read_dir(folder.join(sub)).unwrap() {
            files.push(entry.unwrap().path());
        }
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng"));
    files.sort();
    assert!(files.len() > 170, "{} files", files.len());
    files
}

/// Link types that no frame can be made of, and the files that have them.
const REFUSED: [(&str, &str); 2] = [
    ("icmp-cksum-oobr-4.pcapng", "link type 9 (PPP) of interface 0 is not supported"),
    ("vsock-1.pcapng", "link type 271 (VSOCK) of interface 0 is not supported"),
];

/// Times of all records, or the error.
fn times(path: &Path) -> Result<(Vec<u64>, bool), CaptureError> {
    let mut reader = CaptureReader::open(File::open(path).unwrap())?;
    let (mut times, mut data) = (Vec::new(), Vec::new());
    while let Some(meta) = reader.next_record(&mut data)? {
        times.push(meta.time_ns);
    }
    assert!(reader.notes().cut().is_none(), "{}", path.display());
    Ok((times, reader.notes().get(Note::TimeFraction).count == 0))
}

#[test]
fn every_capture_is_read_or_refused_with_a_reason() {
    let Some(folder) = folder() else { return };
    let mut records = 0;
    for path in captures(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let refused = REFUSED.iter().find(|(file, _)| *file == name).map(|(_, why)| *why);
        match (times(&path), refused) {
            (Ok((times, _)), None) => records += times.len(),
            (Err(error), Some(why)) => assert!(error.to_string().starts_with(why), "{error}"),
            (Ok(_), Some(why)) => panic!("{name} is read, but should be refused: {why}"),
            (Err(error), None) => panic!("{name}: {error}"),
        }
    }
    assert!(records > 2600, "{records} records");
}

#[test]
fn every_capture_is_replayed_and_written() {
    let Some(folder) = folder() else { return };
    for path in captures(&folder) {
        let mut written = CaptureWriter::new(Vec::new()).unwrap();
        let frame = FrameOptions { truncated: Truncated::Pad, ..Default::default() };
        // One of them spans 62 years, which a classic pcap holds only once.
        let max_gap_ns = Some(3_600_000_000_000);
        let options = ReplayOptions { frame, max_gap_ns, loops: 2.try_into().unwrap(), ..Default::default() };
        let Ok(mut replay) = Replay::new(|| File::open(&path), options) else { continue };
        let (mut data, mut last_ns) = (Vec::new(), 0);
        while let Ok(Some(packet)) = replay.next_frame(&mut data) {
            assert!(packet.depart_ns >= last_ns, "{}", path.display());
            last_ns = packet.depart_ns;
            written.write(packet.depart_ns, packet.frame.original_len, &data).unwrap();
        }
        let counts = replay.frame_counts();
        assert_eq!(replay.records(), counts.frames + counts.total_skipped(), "{}", path.display());
        assert_eq!(written.records(), counts.frames);
        let file = written.finish().unwrap();
        let mut copy = CaptureReader::open(&file[..]).unwrap();
        let mut framer = Framer::default();
        while let Some(meta) = copy.next_record(&mut data).unwrap() {
            framer.frame(&meta, &mut data).unwrap();
        }
        assert_eq!(framer.counts().frames, counts.frames, "{}", path.display());
    }
}

/// What `tshark` prints of each frame's time, in nanoseconds.
fn tshark_times(path: &Path) -> Option<Vec<u64>> {
    let fields = ["-T", "fields", "-e", "frame.time_epoch"];
    let output = Command::new("tshark").arg("-n").arg("-r").arg(path).args(fields).output().ok()?;
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.replace('.', "").parse().unwrap_or(0)).collect())
}

/// The number of records that `capinfos` finds in each file.
fn capinfos_counts(files: &[PathBuf]) -> BTreeMap<String, usize> {
    let output = Command::new("capinfos").args(["-T", "-r", "-M", "-c"]).args(files).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (name, count) = line.split_once('\t')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn wireshark_finds_the_same_records_and_times() {
    let Some(folder) = folder() else { return };
    if Command::new("tshark").arg("-v").output().is_err() {
        let text = "SKIPPED: tshark is not installed; times are not compared\n";
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        return;
    }
    let counts = capinfos_counts(&captures(&folder));
    let mut compared = 0;
    // One process for each file takes most of a second: compare the formats and link types, not every protocol.
    let chosen = |name: &str| name.ends_with("ng") || name.contains("time") || name.contains("nano");
    for path in captures(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Ok((ours, fractions_ok)) = times(&path) else { continue };
        assert_eq!(counts.get(path.to_str().unwrap()), Some(&ours.len()), "{name}");
        if !(chosen(name) || ["isup.pcap", "quic_retry.pcap", "babel.pcap"].contains(&name)) {
            continue;
        }
        let theirs = tshark_times(&path).unwrap();
        assert_eq!(ours.len(), theirs.len(), "{name}");
        // Wireshark prints impossible fractions of a second as they are.
        if fractions_ok {
            assert_eq!(ours, theirs, "{name}");
        }
        compared += 1;
    }
    assert!(compared > 15, "{compared} files compared");
}
