//! The short readable form of a frame, as `send.frame` takes it.
//!
//! ```text
//! eth 02:00:00:00:00:01 > 02:00:00:00:00:02 / vlan 10 / ipv4 10.0.0.1 > 10.0.0.2 ttl 64 / udp 1000 > 53 / 16 bytes
//! ```
//!
//! A frame is a list of layers, from the outside in, with ` / ` between them. Lengths, checksums and the field that
//! announces the next layer are filled in. Numbers are decimal, or hexadecimal with `0x`. Options stand in any order.
//!
//! ```text
//! frame  = eth { "/" layer }
//! eth    = "eth" MAC ">" MAC [ "type" N ]          "type" is needed only if no layer says it
//! layer  = "vlan" ID [ "pcp" N ] [ "dei" N ] [ "tpid" N ]                 default 0x8100
//!        | "mpls" LABEL [ "tc" N ] [ "ttl" N ]                            default 64; the last one is the bottom
//!        | "arp" ( "request" | "reply" ) IPV4 [ MAC ] ">" IPV4 [ MAC ]    sender's MAC: default that of eth
//!        | "ipv4" IPV4 ">" IPV4 [ "ttl" N ] [ "tos" N ] [ "id" N ] [ "df" ] [ "more" ] [ "offset" N ] [ "proto" N ]
//!        | "ipv6" IPV6 ">" IPV6 [ "ttl" N ] [ "tos" N ] [ "label" N ] [ "proto" N ]
//!        | "udp" PORT ">" PORT [ "no-csum" ]
//!        | "tcp" PORT ">" PORT [ "flags" FLAG { "," FLAG } ] [ "seq" N ] [ "ack" N ] [ "window" N ]
//!        | "sctp" PORT ">" PORT
//!        | "icmp" ( "echo-request" | "echo-reply" | "type" N "code" N ) [ "id" N ] [ "seq" N ]      after ipv4
//!        | "icmpv6" ( the same )                                                                    after ipv6
//!        | "vxlan" VNI                                            after udp, with a frame behind it
//!        | "gre" [ "key" N ]                                      after ipv4 or ipv6
//!        | N "bytes"                                              0x00, 0x01, ... as payload
//!        | "hex" DIGITS
//!        | "line" WORD { WORD }                                   the words with one space between them, CR and LF
//! FLAG   = "fin" | "syn" | "rst" | "psh" | "ack" | "urg" | "ece" | "cwr"          default syn
//! ```
//!
//! `offset` is in bytes and a multiple of 8; a fragment that is not the first has no transport header: give it `proto` and
//! a payload. MAC and payload of a frame shorter than 60 bytes are not padded.
//!
//! In `send.frame` one number or IPv4 address may be a range, which stands for one frame for each of its values:
//! `udp 1000..1999 > 53`, `ipv4 10.0.0.1..10.0.0.200 > 10.0.1.1`.

mod build;
#[cfg(test)]
mod tests;
mod words;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use datapath::types::MacAddr;
use thiserror::Error;

use crate::diagnostic::suggest;
use build::build;
use words::Words;

/// Why a text is no frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct FrameError {
    /// The bytes of the text that are wrong.
    pub span: Range<usize>,
    message: String,
    help: Option<String>,
}

impl FrameError {
    /// What is wrong at `span`.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    /// The same, with what to write instead.
    pub(super) fn with_help(self, help: &str) -> Self {
        Self { help: Some(help.to_owned()), ..self }
    }

    /// What to write instead.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

/// Longest frame, in bytes.
const MAX: usize = super::steps::MAX_FRAME;

/// Makes the frame that `text` describes.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn parse(text: &str) -> Result<Vec<u8>, FrameError> {
    let mut layers = Vec::new();
    let mut offset = 0;
    for part in text.split('/') {
        let mut words = Words::new(text, offset..offset + part.len());
        layers.push((layer(&mut words)?, words.span()));
        words.end()?;
        offset += part.len() + 1;
    }
    check_order(&layers)?;
    let frame = build(&layers)?;
    if frame.len() > MAX {
        return Err(error(0..text.len(), format!("{} bytes are too many: at most {MAX}", frame.len())));
    }
    Ok(frame)
}

fn error(span: Range<usize>, message: impl Into<String>) -> FrameError {
    FrameError { span, message: message.into(), help: None }
}

#[derive(Clone, Debug)]
enum Layer {
    Eth { src: MacAddr, dst: MacAddr, ether_type: Option<u16> },
    Vlan { tci: u16, tpid: u16 },
    Mpls { label: u32, tc: u8, ttl: u8 },
    Arp { op: u16, spa: Ipv4Addr, sha: Option<MacAddr>, tpa: Ipv4Addr, tha: Option<MacAddr> },
    Ipv4(Ipv4),
    Ipv6 { src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, class: u8, label: u32, proto: Option<u8> },
    Udp { src: u16, dst: u16, checksum: bool },
    Tcp { src: u16, dst: u16, flags: u8, seq: u32, ack: u32, window: u16 },
    Sctp { src: u16, dst: u16 },
    Icmp { v6: bool, kind: u8, code: u8, id: u16, seq: u16 },
    Vxlan { vni: u32 },
    Gre { key: Option<u32> },
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Ipv4 {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    ttl: u8,
    tos: u8,
    id: u16,
    df: bool,
    more: bool,
    offset: u16,
    proto: Option<u8>,
}

const NAMES: [&str; 13] =
    ["eth", "vlan", "mpls", "arp", "ipv4", "ipv6", "udp", "tcp", "sctp", "icmp", "icmpv6", "vxlan", "gre"];

fn layer(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let name = words.next("a layer")?;
    Ok(match name {
        "eth" => eth(words)?,
        "vlan" => vlan(words)?,
        "mpls" => {
            let label = words.number("a label", 0xf_ffff)? as u32;
            let options = words.options(&[("tc", 7), ("ttl", 255)], &[])?;
            Layer::Mpls { label, tc: options.or(0, 0) as u8, ttl: options.or(1, 64) as u8 }
        }
        "arp" => arp(words)?,
        "ipv4" => ipv4(words)?,
        "ipv6" => {
            let (src, dst) = (words.parsed("an IPv6 address")?, words.to("an IPv6 address")?);
            let options =
                words.options(&[("ttl", 255), ("tos", 255), ("label", 0xf_ffff), ("proto", 255)], &[])?;
            Layer::Ipv6 {
                src,
                dst,
                hop_limit: options.or(0, 64) as u8,
                class: options.or(1, 0) as u8,
                label: options.or(2, 0) as u32,
                proto: options.get(3).map(|proto| proto as u8),
            }
        }
        "udp" => {
            let (src, dst) = ports(words)?;
            Layer::Udp { src, dst, checksum: !words.options(&[], &["no-csum"])?.flag(0) }
        }
        "tcp" => tcp(words)?,
        "sctp" => {
            let (src, dst) = ports(words)?;
            Layer::Sctp { src, dst }
        }
        "icmp" | "icmpv6" => icmp(words, name == "icmpv6")?,
        "vxlan" => Layer::Vxlan { vni: words.number("a VNI", 0xff_ffff)? as u32 },
        "gre" => {
            let options = words.options(&[("key", u64::from(u32::MAX))], &[])?;
            Layer::Gre { key: options.get(0).map(|key| key as u32) }
        }
        "hex" => Layer::Bytes(hex(words)?),
        "line" => Layer::Bytes(line(words)?),
        count if count.starts_with(|c: char| c.is_ascii_digit()) => bytes(words, count)?,
        other => {
            let mut error = words.error(format!("{other:?} is no layer"));
            error.help = Some(match suggest(other, NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("layers: {}, `16 bytes`, `hex 00ff`, `line USER me`", NAMES.join(", ")),
            });
            return Err(error);
        }
    })
}

fn eth(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let (src, dst) = (words.parsed("a MAC address")?, words.to("a MAC address")?);
    let options = words.options(&[("type", 0xffff)], &[])?;
    Ok(Layer::Eth { src, dst, ether_type: options.get(0).map(|value| value as u16) })
}

fn vlan(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let id = words.number("a VLAN id", 4095)? as u16;
    let options = words.options(&[("pcp", 7), ("dei", 1), ("tpid", 0xffff)], &[])?;
    let tci = id | (options.or(0, 0) as u16) << 13 | (options.or(1, 0) as u16) << 12;
    Ok(Layer::Vlan { tci, tpid: options.or(2, 0x8100) as u16 })
}

fn arp(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let op = match words.next("request or reply")? {
        "request" => 1,
        "reply" => 2,
        other => return Err(words.error(format!("{other:?} is neither request nor reply"))),
    };
    let spa = words.parsed("an IPv4 address")?;
    let sha = words.parsed_if();
    let tpa = words.to("an IPv4 address")?;
    let tha = words.parsed_if();
    Ok(Layer::Arp { op, spa, sha, tpa, tha })
}

fn ipv4(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let (src, dst) = (words.parsed("an IPv4 address")?, words.to("an IPv4 address")?);
    let numbers = [("ttl", 255), ("tos", 255), ("id", 0xffff), ("offset", 65_528), ("proto", 255)];
    let options = words.options(&numbers, &["df", "more"])?;
    let offset = options.or(3, 0) as u16;
    if !offset.is_multiple_of(8) {
        return Err(error(words.span(), format!("fragment offset {offset} is no multiple of 8")));
    }
    Ok(Layer::Ipv4(Ipv4 {
        src,
        dst,
        ttl: options.or(0, 64) as u8,
        tos: options.or(1, 0) as u8,
        id: options.or(2, 0) as u16,
        df: options.flag(0),
        more: options.flag(1),
        offset,
        proto: options.get(4).map(|proto| proto as u8),
    }))
}

fn ports(words: &mut Words<'_>) -> Result<(u16, u16), FrameError> {
    let src = words.number("a port", 0xffff)? as u16;
    words.arrow()?;
    Ok((src, words.number("a port", 0xffff)? as u16))
}

const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

fn tcp(words: &mut Words<'_>) -> Result<Layer, FrameError> {
    let (src, dst) = ports(words)?;
    let (mut flags, mut seq, mut ack, mut window) = (None, 0, 0, 65_535);
    while let Some(word) = words.maybe() {
        match word {
            "flags" => {
                let mut bits = 0;
                for name in words.next("flags")?.split(',') {
                    let Some(bit) = FLAGS.iter().position(|flag| *flag == name) else {
                        let mut error = words.error(format!("{name:?} is no TCP flag"));
                        error.help = Some(format!("flags: {}", FLAGS.join(", ")));
                        return Err(error);
                    };
                    bits |= 1 << bit;
                }
                flags = Some(bits);
            }
            "seq" => seq = words.number("a number", u64::from(u32::MAX))? as u32,
            "ack" => ack = words.number("a number", u64::from(u32::MAX))? as u32,
            "window" => window = words.number("a number", 0xffff)? as u16,
            other => return Err(words.unknown(other, &["flags", "seq", "ack", "window"])),
        }
    }
    Ok(Layer::Tcp { src, dst, flags: flags.unwrap_or(2), seq, ack, window })
}

fn icmp(words: &mut Words<'_>, v6: bool) -> Result<Layer, FrameError> {
    let (kind, code) = match words.next("echo-request, echo-reply or type")? {
        "echo-request" => (if v6 { 128 } else { 8 }, 0),
        "echo-reply" => (if v6 { 129 } else { 0 }, 0),
        "type" => {
            let kind = words.number("a type", 255)? as u8;
            match words.next("code")? {
                "code" => (kind, words.number("a code", 255)? as u8),
                other => return Err(words.unknown(other, &["code"])),
            }
        }
        other => return Err(words.unknown(other, &["echo-request", "echo-reply", "type"])),
    };
    let options = words.options(&[("id", 0xffff), ("seq", 0xffff)], &[])?;
    Ok(Layer::Icmp { v6, kind, code, id: options.or(0, 0) as u16, seq: options.or(1, 0) as u16 })
}

fn hex(words: &mut Words<'_>) -> Result<Vec<u8>, FrameError> {
    let mut digits = Vec::new();
    while let Some(word) = words.maybe() {
        for c in word.chars() {
            let digit =
                c.to_digit(16).ok_or_else(|| words.error(format!("{c:?} is no hexadecimal digit")))?;
            digits.push(digit as u8);
        }
    }
    if digits.len() % 2 != 0 {
        return Err(error(words.span(), "an odd number of hexadecimal digits"));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A line of a text protocol.
fn line(words: &mut Words<'_>) -> Result<Vec<u8>, FrameError> {
    let mut text = words.next("a word")?.to_owned();
    while let Some(word) = words.maybe() {
        text.push(' ');
        text.push_str(word);
    }
    text.push_str("\r\n");
    Ok(text.into_bytes())
}

fn bytes(words: &mut Words<'_>, count: &str) -> Result<Layer, FrameError> {
    let count = match count.parse::<usize>() {
        Ok(count) if count <= MAX => count,
        _ => return Err(words.error(format!("{count} is no number of bytes up to {MAX}"))),
    };
    match words.next("`bytes`")? {
        "bytes" | "byte" => Ok(Layer::Bytes((0..count).map(|index| index as u8).collect())),
        other => Err(words.unknown(other, &["bytes"])),
    }
}

/// Whether each layer can stand where it does.
fn check_order(layers: &[(Layer, Range<usize>)]) -> Result<(), FrameError> {
    for (index, (layer, span)) in layers.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &layers[index].0);
        let fits = match layer {
            Layer::Eth { .. } => matches!(before, None | Some(Layer::Vxlan { .. } | Layer::Gre { .. })),
            Layer::Vlan { .. } => matches!(before, Some(Layer::Eth { .. } | Layer::Vlan { .. })),
            Layer::Arp { .. } => matches!(before, Some(Layer::Eth { .. } | Layer::Vlan { .. })),
            Layer::Mpls { .. } => {
                matches!(before, Some(Layer::Eth { .. } | Layer::Vlan { .. } | Layer::Mpls { .. }))
            }
            Layer::Ipv4(_) | Layer::Ipv6 { .. } => match before {
                Some(Layer::Eth { .. } | Layer::Vlan { .. } | Layer::Mpls { .. } | Layer::Gre { .. }) => true,
                Some(before) => matches!(before, Layer::Ipv4(_) | Layer::Ipv6 { .. }),
                None => false,
            },
            Layer::Udp { .. } | Layer::Tcp { .. } | Layer::Sctp { .. } | Layer::Gre { .. } => {
                matches!(before, Some(Layer::Ipv4(_) | Layer::Ipv6 { .. }))
            }
            Layer::Icmp { v6: false, .. } => matches!(before, Some(Layer::Ipv4(_))),
            Layer::Icmp { v6: true, .. } => matches!(before, Some(Layer::Ipv6 { .. })),
            Layer::Vxlan { .. } => matches!(before, Some(Layer::Udp { .. })),
            Layer::Bytes(_) => before.is_some() && index + 1 == layers.len(),
        };
        if !fits {
            let message = match before {
                None => "a frame begins with `eth`",
                Some(_) => "this layer cannot follow the one before it",
            };
            return Err(error(span.clone(), message));
        }
    }
    Ok(())
}
