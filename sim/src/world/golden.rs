//! Golden captures: all frames seen at a place so far, compared with a file, or recorded anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datapath::types::Time;

use crate::capture::{CaptureError, CaptureReader};
use crate::files::Files;
use crate::wire::hex;

/// Most bytes of frames that a golden capture may hold: it is kept in memory.
const MAX_BYTES: usize = 256 << 20;

/// A golden capture recorded anew.
#[derive(Clone, Debug)]
pub struct Blessed {
    /// The file to be written.
    pub path: PathBuf,
    /// The frames with their times.
    pub frames: Vec<(Time, Arc<[u8]>)>,
}

/// A time in nanoseconds, and the frame.
type Timed = (u64, Arc<[u8]>);

/// What is compared as frames come.
#[derive(Clone, Debug)]
pub(super) struct Golden {
    path: PathBuf,
    /// Times in nanoseconds, and frames.
    expected: Arc<[Timed]>,
    times: bool,
    seen: usize,
    difference: Option<String>,
    /// Frames seen, if they are to replace the file.
    recorded: Option<Vec<(Time, Arc<[u8]>)>>,
    done: bool,
}

impl Golden {
    /// Reads the capture at `path`; when it is to be recorded anew, it need not exist.
    pub fn new(path: &Path, times: bool, files: &dyn Files, bless: bool) -> Result<Self, String> {
        let expected = match bless {
            true => Vec::new(),
            false => read(path, files).map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        };
        Ok(Self {
            path: path.to_owned(),
            expected: expected.into(),
            times,
            seen: 0,
            difference: None,
            recorded: bless.then(Vec::new),
            done: false,
        })
    }

    /// Takes the next frame seen at the place.
    pub fn frame(&mut self, now: Time, frame: &[u8]) {
        if self.done {
            return;
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push((now, frame.into()));
        }
        let index = self.seen;
        self.seen += 1;
        if self.difference.is_some() {
            return;
        }
        let Some((time, expected)) = self.expected.get(index) else { return };
        if **expected != *frame {
            self.difference = Some(format!("frame {}: {}", index + 1, difference(expected, frame)));
        } else if self.times && *time != now.0 {
            let message =
                format!("frame {}: the same bytes, but at {} ns instead of {time} ns", index + 1, now.0);
            self.difference = Some(message);
        }
    }

    /// Judges what was seen; frames that come later do not count.
    pub fn finish(&mut self) -> Result<(), String> {
        self.done = true;
        if self.recorded.is_some() {
            return Ok(());
        }
        if let Some(difference) = &self.difference {
            return Err(difference.clone());
        }
        match (self.expected.len(), self.seen) {
            (wanted, seen) if wanted == seen => Ok(()),
            (wanted, seen) if seen < wanted => {
                let next = hex(&self.expected[seen].1);
                Err(format!("{wanted} frames wanted, {seen} came; the first that is missing: {next}"))
            }
            (wanted, seen) => Err(format!("{wanted} frames wanted, {seen} came")),
        }
    }

    pub fn blessed(&self) -> Option<Blessed> {
        let frames = self.recorded.as_ref().filter(|_| self.done)?.clone();
        Some(Blessed { path: self.path.clone(), frames })
    }
}

fn read(path: &Path, files: &dyn Files) -> Result<Vec<Timed>, CaptureError> {
    let mut reader = CaptureReader::open(files.open(path).map_err(CaptureError::Open)?)?;
    let (mut frames, mut data, mut total) = (Vec::new(), Vec::new(), 0);
    while let Some(record) = reader.next_record(&mut data)? {
        total += data.len();
        if total > MAX_BYTES {
            return Err(CaptureError::Open(std::io::Error::other(
                "more than 256 MiB is too much for a golden capture",
            )));
        }
        frames.push((record.time_ns, Arc::from(data.as_slice())));
    }
    Ok(frames)
}

/// The first difference of two frames, by the field it is in.
pub(crate) fn difference(wanted: &[u8], got: &[u8]) -> String {
    let common = wanted.len().min(got.len());
    let first = (0..common).find(|&at| wanted[at] != got[at]).unwrap_or(common);
    let count = (0..common).filter(|&at| wanted[at] != got[at]).count();
    let lengths = match wanted.len() == got.len() {
        true => String::new(),
        false => format!("; {} bytes wanted, {} came", wanted.len(), got.len()),
    };
    let window = |bytes: &[u8]| {
        let from = first.saturating_sub(4).min(bytes.len());
        let to = (first + 8).min(bytes.len());
        format!(
            "{}{}{}",
            if from > 0 { ".." } else { "" },
            hex(&bytes[from..to]),
            if to < bytes.len() { ".." } else { "" }
        )
    };
    if count == 0 {
        return format!("the first {common} bytes are the same{lengths}");
    }
    let field = field_at(wanted, first);
    let (wanted, got) = (window(wanted), window(got));
    format!("{count} byte(s) differ, first at {first} ({field}): wanted {wanted}, got {got}{lengths}")
}

/// A name for byte `offset` of a frame.
pub(crate) fn field_at(frame: &[u8], offset: usize) -> String {
    let word = |at: usize| frame.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    match offset {
        0..6 => return "eth dst".to_owned(),
        6..12 => return "eth src".to_owned(),
        12..14 => return "eth type".to_owned(),
        _ => {}
    }
    let (mut kind, mut at) = (word(12), 14);
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        if offset < at + 4 {
            return if offset < at + 2 { "vlan tci" } else { "vlan type" }.to_owned();
        }
        (kind, at) = (word(at + 2), at + 4);
    }
    let in_header = offset - at;
    match kind {
        0x0806 => format!("arp +{in_header}"),
        0x0800 => {
            let len = frame.get(at).map_or(20, |byte| usize::from(byte & 15) * 4);
            if in_header < len {
                return format!("ipv4 {}", ipv4_field(in_header));
            }
            let proto = frame.get(at + 9).copied().unwrap_or(0);
            transport_field(proto, in_header - len)
        }
        0x86dd if in_header < 40 => format!("ipv6 {}", ipv6_field(in_header)),
        0x86dd => transport_field(frame.get(at + 6).copied().unwrap_or(0), in_header - 40),
        0x8847 | 0x8848 => format!("mpls +{in_header}"),
        kind => format!("payload +{in_header} of type {kind:#06x}"),
    }
}

fn ipv4_field(at: usize) -> &'static str {
    match at {
        0 => "version and header length",
        1 => "tos",
        2..4 => "length",
        4..6 => "id",
        6..8 => "fragment",
        8 => "ttl",
        9 => "proto",
        10..12 => "checksum",
        12..16 => "src",
        16..20 => "dst",
        _ => "options",
    }
}

fn ipv6_field(at: usize) -> &'static str {
    match at {
        0..4 => "class and label",
        4..6 => "length",
        6 => "next header",
        7 => "hop limit",
        8..24 => "src",
        _ => "dst",
    }
}

fn transport_field(proto: u8, at: usize) -> String {
    let name = match (proto, at) {
        (6 | 17 | 132, 0..2) => "src port",
        (6 | 17 | 132, 2..4) => "dst port",
        (6, 4..8) => "seq",
        (6, 8..12) => "ack",
        (6, 12..14) => "flags",
        (6, 14..16) => "window",
        (6, 16..18) | (17, 6..8) | (1 | 58, 2..4) | (132, 8..12) => "checksum",
        (17, 4..6) => "length",
        (1 | 58, 0..2) => "type and code",
        _ => return format!("{} +{at}", protocol_name(proto)),
    };
    format!("{} {name}", protocol_name(proto))
}

fn protocol_name(proto: u8) -> String {
    match proto {
        1 => "icmp".to_owned(),
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        58 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => format!("ip protocol {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::frame;

    #[test]
    fn differences_name_their_field() {
        let text = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / vlan 5 / ipv4 10.0.0.1 > 10.0.0.2 / udp 1 > 2 / 4 bytes";
        let wanted = frame::parse(text).unwrap();
        let at = |offset: usize| {
            let mut got = wanted.clone();
            got[offset] ^= 0xff;
            difference(&wanted, &got)
        };
        assert!(
            at(26).starts_with("1 byte(s) differ, first at 26 (ipv4 ttl): wanted ..00000000401166cb"),
            "{}",
            at(26)
        );
        for (offset, field) in
            [(3, "eth dst"), (15, "vlan tci"), (40, "udp dst port"), (45, "udp checksum"), (47, "udp +9")]
        {
            assert!(at(offset).contains(&format!("({field})")), "{}", at(offset));
        }
        let short = difference(&wanted, &wanted[..20]);
        assert_eq!(short, "the first 20 bytes are the same; 50 bytes wanted, 20 came");
    }
}
