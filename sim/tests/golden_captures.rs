//! The captures of `golden-pcaps/` are what its README says: every file of the table exists and every capture is in
//! the table; packet counts, link types and the state of the checksums are as stated there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use sim::capture::{CaptureReader, Format, Framer};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden-pcaps")
}

/// A row of the table: the cells after the file name.
struct Row {
    packets: usize,
    checksums: String,
}

fn table() -> BTreeMap<String, Row> {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in readme.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let file = cells[0].trim_matches('`').to_owned();
        let row = Row { packets: cells[1].parse().expect(line), checksums: cells[2].to_owned() };
        assert!(rows.insert(file, row).is_none(), "{line} is there twice");
    }
    rows
}

/// What a checksum field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// The checksum.
    Right,
    /// The sum of the pseudo header alone: the sender has left the rest to its network card.
    Partial,
    /// What will be the checksum once the inner, partial one is completed ("local checksum offload" of Linux).
    Awaiting,
    /// Anything else.
    Wrong,
}

/// One's complement sum of 16-bit words, slow and obvious (RFC 1071).
fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            total += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn state(pseudo: &[&[u8]], segment: &[u8], at: usize) -> State {
    let field = u16::from_be_bytes([segment[at], segment[at + 1]]);
    let all: Vec<&[u8]> = pseudo.iter().copied().chain([segment]).collect();
    match () {
        () if sum(&all) == 0xffff => State::Right,
        () if field == sum(pseudo) => State::Partial,
        () => State::Wrong,
    }
}

/// The states of a frame's TCP and UDP checksums, outer first. Nothing of fragments. Those of IPv4 headers, and of
/// ICMP, which no sender leaves to its network card, are always right.
fn states(frame: &[u8]) -> Vec<State> {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (src, dst) = match packet.net {
        Some(NetSlice::Ipv4(ip)) => {
            assert_eq!(sum(&[ip.header().slice()]), 0xffff, "IPv4 header checksum");
            (ip.header().source().to_vec(), ip.header().destination().to_vec())
        }
        Some(NetSlice::Ipv6(ip)) => (ip.header().source().to_vec(), ip.header().destination().to_vec()),
        Some(NetSlice::Arp(_)) | None => return Vec::new(),
    };
    let Some(transport) = packet.transport else { return Vec::new() };
    let (protocol, segment, at) = match &transport {
        TransportSlice::Tcp(tcp) => (6, tcp.slice(), 16),
        TransportSlice::Udp(udp) => (17, udp.slice(), 6),
        TransportSlice::Icmpv4(icmp) => (1, icmp.slice(), 2),
        TransportSlice::Icmpv6(icmp) => (58, icmp.slice(), 2),
    };
    let len = (segment.len() as u32).to_be_bytes();
    let pseudo: &[&[u8]] = if protocol == 1 { &[] } else { &[&src, &dst, &len, &[0, protocol]] };
    let outer = state(pseudo, segment, at);
    if matches!(protocol, 1 | 58) {
        assert_eq!(outer, State::Right, "ICMP checksum");
        return Vec::new();
    }
    match &transport {
        TransportSlice::Udp(udp) if udp.destination_port() == 4789 => {
            let mut completed = segment.to_vec();
            // After the UDP and VXLAN headers.
            let inner = states(&udp.payload()[8..]);
            complete(&mut completed[16..]);
            let awaits = outer == State::Wrong && state(pseudo, &completed, at) == State::Right;
            [&[if awaits { State::Awaiting } else { outer }], &inner[..]].concat()
        }
        _ => vec![outer],
    }
}

/// Completes the partial checksum of a TCP packet.
fn complete(frame: &mut [u8]) {
    let Some(TransportSlice::Tcp(tcp)) = SlicedPacket::from_ethernet(frame).unwrap().transport else {
        return;
    };
    // The field holds the sum of the pseudo header, so the segment's own sum is that of all.
    let (checksum, segment_len) = (!sum(&[tcp.slice()]), tcp.slice().len());
    let at = frame.len() - segment_len + 16;
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The cell that belongs to the states of all packets of a file.
fn checksums(path: &Path) -> String {
    let mut reader = CaptureReader::open(File::open(path).unwrap()).unwrap();
    let mut framer = Framer::default();
    let mut data = Vec::new();
    let mut levels: Vec<BTreeSet<State>> = Vec::new();
    while let Some(meta) = reader.next_record(&mut data).unwrap() {
        framer.frame(&meta, &mut data).unwrap();
        for (level, state) in states(&data).into_iter().enumerate() {
            if levels.len() <= level {
                levels.push(BTreeSet::new());
            }
            levels[level].insert(state);
        }
    }
    let text = |level: &BTreeSet<State>| {
        let names: Vec<_> = level.iter().map(|state| format!("{state:?}").to_lowercase()).collect();
        names.join(" and ")
    };
    match &levels[..] {
        [] => "-".to_owned(),
        [outer] => text(outer),
        [outer, inner] => format!("outer {}, inner {}", text(outer), text(inner)),
        _ => panic!("{levels:?}"),
    }
}

#[test]
fn the_readme_lists_every_capture_and_no_other() {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // SCENARIO.PORT.pcap is what a scenario must produce.
        if matches!(name.split_once('.'), Some((_, "pcap" | "pcapng"))) {
            files.insert(name);
        }
    }
    let listed: BTreeSet<_> = table().into_keys().collect();
    assert!(listed.len() >= 20);
    assert_eq!(listed.difference(&files).collect::<Vec<_>>(), Vec::<&String>::new(), "listed, but not there");
    assert_eq!(files.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new(), "there, but not listed");
}

#[test]
fn every_capture_has_the_packets_that_the_readme_says() {
    for (file, row) in table() {
        let mut reader = CaptureReader::open(File::open(folder().join(&file)).unwrap()).unwrap();
        let (mut data, mut packets) = (Vec::new(), 0);
        while reader.next_record(&mut data).unwrap().is_some() {
            packets += 1;
        }
        assert_eq!(packets, row.packets, "{file}");
        assert!(reader.notes().is_empty(), "{file}: {:?}", reader.notes().lines().collect::<Vec<_>>());
        let nanoseconds =
            matches!(reader.format(), Format::PcapNg | Format::Pcap { nanoseconds: true, big_endian: false });
        assert!(nanoseconds, "{file}");
        assert!(fs::metadata(folder().join(&file)).unwrap().len() < 50_000, "{file} is not small");
    }
}

#[test]
fn every_capture_has_the_checksums_that_the_readme_says() {
    for (file, row) in table() {
        assert_eq!(checksums(&folder().join(&file)), row.checksums, "{file}");
    }
}
