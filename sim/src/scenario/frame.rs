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
//! FLAG   = "fin" | "syn" | "rst" | "psh" | "ack" | "urg" | "ece" | "cwr"          default syn
//! ```
//!
//! `offset` is in bytes and a multiple of 8; a fragment that is not the first has no transport header: give it `proto` and
//! a payload. MAC and payload of a frame shorter than 60 bytes are not padded.
//!
//! In `send.frame` one number or IPv4 address may be a range, which stands for one frame for each of its values:
//! `udp 1000..1999 > 53`, `ipv4 10.0.0.1..10.0.0.200 > 10.0.1.1`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::str::FromStr;

use datapath::types::MacAddr;
use thiserror::Error;

use crate::diagnostic::suggest;
use crate::wire::{checksum, pseudo_header};

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
    FrameError::new(span, message)
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
        count if count.starts_with(|c: char| c.is_ascii_digit()) => bytes(words, count)?,
        other => {
            let mut error = words.error(format!("{other:?} is no layer"));
            error.help = Some(match suggest(other, NAMES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("layers: {}, `16 bytes`, `hex 00ff`", NAMES.join(", ")),
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

fn build(layers: &[(Layer, Range<usize>)]) -> Result<Vec<u8>, FrameError> {
    let mut payload: Vec<u8> = Vec::new();
    for (index, (layer, span)) in layers.iter().enumerate().rev() {
        let after = layers.get(index + 1).map(|(layer, _)| layer);
        let before = &layers[..index];
        let mut header =
            header(layer, before, after, &payload).map_err(|message| error(span.clone(), message))?;
        header.append(&mut payload);
        payload = header;
    }
    Ok(payload)
}

/// The EtherType that announces `layer`.
fn ether_type(layer: &Layer) -> Option<u16> {
    match layer {
        Layer::Vlan { tpid, .. } => Some(*tpid),
        Layer::Mpls { .. } => Some(0x8847),
        Layer::Arp { .. } => Some(0x0806),
        Layer::Ipv4(_) => Some(0x0800),
        Layer::Ipv6 { .. } => Some(0x86dd),
        Layer::Eth { .. } => Some(0x6558),
        Layer::Udp { .. }
        | Layer::Tcp { .. }
        | Layer::Sctp { .. }
        | Layer::Icmp { .. }
        | Layer::Vxlan { .. }
        | Layer::Gre { .. }
        | Layer::Bytes(_) => None,
    }
}

/// The IP protocol number that announces `layer`.
fn protocol(layer: &Layer) -> Option<u8> {
    match layer {
        Layer::Udp { .. } => Some(17),
        Layer::Tcp { .. } => Some(6),
        Layer::Sctp { .. } => Some(132),
        Layer::Icmp { v6, .. } => Some(if *v6 { 58 } else { 1 }),
        Layer::Gre { .. } => Some(47),
        Layer::Ipv4(_) => Some(4),
        Layer::Ipv6 { .. } => Some(41),
        Layer::Eth { .. }
        | Layer::Vlan { .. }
        | Layer::Mpls { .. }
        | Layer::Arp { .. }
        | Layer::Vxlan { .. }
        | Layer::Bytes(_) => None,
    }
}

fn header(
    layer: &Layer,
    before: &[(Layer, Range<usize>)],
    after: Option<&Layer>,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(64);
    match layer {
        Layer::Eth { src, dst, ether_type: own } => {
            out.extend(dst.0);
            out.extend(src.0);
            // A frame with nothing behind the addresses that says a type is 802.3 with that length: 0.
            out.extend(own.or_else(|| after.and_then(ether_type)).unwrap_or(0x88b5).to_be_bytes());
        }
        Layer::Vlan { tci, tpid: _ } => {
            out.extend(tci.to_be_bytes());
            out.extend(after.and_then(ether_type).unwrap_or(0x88b5).to_be_bytes());
        }
        Layer::Mpls { label, tc, ttl } => {
            let bottom = u32::from(!matches!(after, Some(Layer::Mpls { .. })));
            out.extend((label << 12 | u32::from(*tc) << 9 | bottom << 8 | u32::from(*ttl)).to_be_bytes());
        }
        Layer::Arp { op, spa, sha, tpa, tha } => {
            let eth_src = before.iter().rev().find_map(|(layer, _)| match layer {
                Layer::Eth { src, .. } => Some(*src),
                _ => None,
            });
            out.extend([0, 1, 8, 0, 6, 4]);
            out.extend(op.to_be_bytes());
            out.extend(sha.or(eth_src).unwrap_or_default().0);
            out.extend(spa.octets());
            out.extend(tha.unwrap_or_default().0);
            out.extend(tpa.octets());
        }
        Layer::Ipv4(ip) => ipv4_header(&mut out, ip, after, payload)?,
        Layer::Ipv6 { src, dst, hop_limit, class, label, proto } => {
            let len = u16::try_from(payload.len()).map_err(|_| "the packet is longer than 65535 bytes")?;
            out.extend((6 << 28 | u32::from(*class) << 20 | label).to_be_bytes());
            out.extend(len.to_be_bytes());
            out.extend([proto.or_else(|| after.and_then(protocol)).unwrap_or(59), *hop_limit]);
            out.extend(src.octets());
            out.extend(dst.octets());
        }
        Layer::Udp { .. } | Layer::Tcp { .. } | Layer::Sctp { .. } | Layer::Icmp { .. } => {
            transport_header(&mut out, layer, before, payload)?;
        }
        Layer::Vxlan { vni } => {
            out.extend([8, 0, 0, 0]);
            out.extend((vni << 8).to_be_bytes());
        }
        Layer::Gre { key } => {
            out.extend(if key.is_some() { [0x20, 0] } else { [0, 0] });
            out.extend(after.and_then(ether_type).unwrap_or(0x88b5).to_be_bytes());
            out.extend(key.iter().flat_map(|key| key.to_be_bytes()));
        }
        Layer::Bytes(bytes) => out.extend(bytes),
    }
    Ok(out)
}

fn ipv4_header(
    out: &mut Vec<u8>,
    ip: &Ipv4,
    after: Option<&Layer>,
    payload: &[u8],
) -> Result<(), &'static str> {
    let len = u16::try_from(payload.len() + 20).map_err(|_| "the packet is longer than 65535 bytes")?;
    let fragment = u16::from(ip.df) << 14 | u16::from(ip.more) << 13 | (ip.offset / 8);
    out.extend([0x45, ip.tos]);
    out.extend(len.to_be_bytes());
    out.extend(ip.id.to_be_bytes());
    out.extend(fragment.to_be_bytes());
    // 253 is "for experimentation" (RFC 3692).
    out.extend([ip.ttl, ip.proto.or_else(|| after.and_then(protocol)).unwrap_or(253), 0, 0]);
    out.extend(ip.src.octets());
    out.extend(ip.dst.octets());
    let sum = checksum(&[out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

fn transport_header(
    out: &mut Vec<u8>,
    layer: &Layer,
    before: &[(Layer, Range<usize>)],
    payload: &[u8],
) -> Result<(), &'static str> {
    let (checksum_at, with_checksum) = match layer {
        Layer::Udp { src, dst, checksum } => {
            let len =
                u16::try_from(payload.len() + 8).map_err(|_| "the datagram is longer than 65535 bytes")?;
            for word in [*src, *dst, len, 0] {
                out.extend(word.to_be_bytes());
            }
            (6, *checksum)
        }
        Layer::Tcp { src, dst, flags, seq, ack, window } => {
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
            out.extend(seq.to_be_bytes());
            out.extend(ack.to_be_bytes());
            out.extend([0x50, *flags]);
            out.extend(window.to_be_bytes());
            out.extend([0; 4]);
            (16, true)
        }
        Layer::Icmp { kind, code, id, seq, v6: _ } => {
            out.extend([*kind, *code, 0, 0]);
            out.extend(id.to_be_bytes());
            out.extend(seq.to_be_bytes());
            (2, true)
        }
        Layer::Sctp { src, dst } => {
            out.extend(src.to_be_bytes());
            out.extend(dst.to_be_bytes());
            out.extend([0; 8]);
            // RFC 9260, appendix A: the CRC32c is sent with its least significant byte first.
            let crc = crate::wire::crc32c(&[out, payload]);
            out[8..12].copy_from_slice(&crc.to_le_bytes());
            return Ok(());
        }
        Layer::Eth { .. }
        | Layer::Vlan { .. }
        | Layer::Mpls { .. }
        | Layer::Arp { .. }
        | Layer::Ipv4(_)
        | Layer::Ipv6 { .. }
        | Layer::Vxlan { .. }
        | Layer::Gre { .. }
        | Layer::Bytes(_) => return Ok(()),
    };
    if with_checksum {
        let len = (out.len() + payload.len()) as u32;
        let pseudo = match (layer, before.last().map(|(layer, _)| layer)) {
            (Layer::Icmp { v6: false, .. }, _) => Vec::new(),
            (_, Some(Layer::Ipv4(ip))) => {
                pseudo_header(IpAddr::V4(ip.src), IpAddr::V4(ip.dst), protocol(layer).unwrap_or(0), len)
            }
            (_, Some(Layer::Ipv6 { src, dst, .. })) => {
                pseudo_header(IpAddr::V6(*src), IpAddr::V6(*dst), protocol(layer).unwrap_or(0), len)
            }
            _ => Vec::new(),
        };
        let mut sum = checksum(&[&pseudo, out, payload]);
        if sum == 0 && matches!(layer, Layer::Udp { .. }) {
            sum = 0xffff; // RFC 768: 0 means that there is none
        }
        out[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

/// The words of one layer, with their places.
struct Words<'a> {
    words: Vec<(&'a str, Range<usize>)>,
    next: usize,
    span: Range<usize>,
}

/// Options that stood behind a layer.
struct Options {
    numbers: Vec<Option<u64>>,
    flags: Vec<bool>,
}

impl Options {
    fn get(&self, index: usize) -> Option<u64> {
        self.numbers.get(index).copied().flatten()
    }

    fn or(&self, index: usize, default: u64) -> u64 {
        self.get(index).unwrap_or(default)
    }

    fn flag(&self, index: usize) -> bool {
        self.flags.get(index).copied().unwrap_or(false)
    }
}

impl<'a> Words<'a> {
    fn new(text: &'a str, range: Range<usize>) -> Self {
        let part = &text[range.clone()];
        let mut words = Vec::new();
        let mut start = None;
        for (offset, c) in part.char_indices().chain([(part.len(), ' ')]) {
            match (c.is_whitespace(), start) {
                (false, None) => start = Some(offset),
                (true, Some(from)) => {
                    words.push((&part[from..offset], range.start + from..range.start + offset));
                    start = None;
                }
                (true, None) | (false, Some(_)) => {}
            }
        }
        let span = match (words.first(), words.last()) {
            (Some(first), Some(last)) => first.1.start..last.1.end,
            _ => range,
        };
        Self { words, next: 0, span }
    }

    fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    fn maybe(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next)?.0;
        self.next += 1;
        Some(word)
    }

    fn next(&mut self, want: &str) -> Result<&'a str, FrameError> {
        let at = self.span.end;
        self.maybe().ok_or_else(|| error(at..at, format!("{want} is missing here")))
    }

    /// An error about the word taken last.
    fn error(&self, message: String) -> FrameError {
        let word = self.next.checked_sub(1).and_then(|index| self.words.get(index));
        error(word.map_or(self.span(), |(_, span)| span.clone()), message)
    }

    fn unknown(&self, word: &str, known: &[&str]) -> FrameError {
        let mut error = self.error(format!("{word:?} is unknown here"));
        error.help = Some(match suggest(word, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                "nothing more can follow in this layer; a `/` begins the next one".to_owned()
            }
            None => format!("known: {}", known.join(", ")),
        });
        error
    }

    fn parsed<T: FromStr>(&mut self, want: &str) -> Result<T, FrameError> {
        let word = self.next(want)?;
        word.parse().map_err(|_| self.error(format!("{word:?} is not {want}")))
    }

    /// The next word, if it is a `T`.
    fn parsed_if<T: FromStr>(&mut self) -> Option<T> {
        let value = self.words.get(self.next)?.0.parse().ok()?;
        self.next += 1;
        Some(value)
    }

    fn arrow(&mut self) -> Result<(), FrameError> {
        match self.next("`>`")? {
            ">" => Ok(()),
            other => Err(self.error(format!("`>` is missing before {other:?}"))),
        }
    }

    fn to<T: FromStr>(&mut self, want: &str) -> Result<T, FrameError> {
        self.arrow()?;
        self.parsed(want)
    }

    fn number(&mut self, want: &str, most: u64) -> Result<u64, FrameError> {
        let word = self.next(want)?;
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        match parsed {
            Ok(value) if value <= most => Ok(value),
            Ok(_) => Err(self.error(format!("{word} is out of range: at most {most}"))),
            Err(_) => Err(self.error(format!("{word:?} is not {want}"))),
        }
    }

    fn options(&mut self, numbers: &[(&str, u64)], flags: &[&str]) -> Result<Options, FrameError> {
        let mut options = Options { numbers: vec![None; numbers.len()], flags: vec![false; flags.len()] };
        while let Some(word) = self.maybe() {
            if let Some(index) = numbers.iter().position(|(name, _)| *name == word) {
                options.numbers[index] = Some(self.number("a number", numbers[index].1)?);
            } else if let Some(index) = flags.iter().position(|name| *name == word) {
                options.flags[index] = true;
            } else {
                let known: Vec<&str> =
                    numbers.iter().map(|(name, _)| *name).chain(flags.iter().copied()).collect();
                return Err(self.unknown(word, &known));
            }
        }
        Ok(options)
    }

    fn end(&mut self) -> Result<(), FrameError> {
        match self.maybe() {
            None => Ok(()),
            Some(word) => Err(self.unknown(word, &[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    const ETH: &str = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02";

    #[test]
    fn agrees_with_etherparse() {
        let payload: Vec<u8> = (0..16).collect();
        let base = || PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let id = etherparse::VlanId::try_new(10).unwrap();
        let mut udp = Vec::new();
        base()
            .single_vlan(id)
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 63)
            .udp(1000, 53)
            .write(&mut udp, &payload)
            .unwrap();
        // etherparse sets "don't fragment".
        let text = format!("{ETH} / vlan 10 / ipv4 10.0.0.1 > 10.0.0.2 ttl 63 df / udp 1000 > 53 / 16 bytes");
        assert_eq!(parse(&text), Ok(udp));

        let (a, b) = ("fd00::1".parse::<Ipv6Addr>().unwrap(), "fd00::2".parse::<Ipv6Addr>().unwrap());
        let mut tcp = Vec::new();
        let builder = base().ipv6(a.octets(), b.octets(), 64).tcp(1, 80, 7, 500).ack(9);
        builder.write(&mut tcp, &payload).unwrap();
        let text = format!(
            "{ETH} / ipv6 fd00::1 > fd00::2 / tcp 1 > 80 flags ack seq 7 ack 9 window 500 / 16 bytes"
        );
        assert_eq!(parse(&text), Ok(tcp));

        let mut icmp = Vec::new();
        base().ipv6(a.octets(), b.octets(), 64).icmpv6_echo_request(3, 4).write(&mut icmp, &payload).unwrap();
        let text = format!("{ETH} / ipv6 fd00::1 > fd00::2 / icmpv6 echo-request id 3 seq 4 / 16 bytes");
        assert_eq!(parse(&text), Ok(icmp));
    }

    #[test]
    fn tunnels_and_oddities() {
        let outer = format!(
            "{ETH} / ipv4 1.1.1.1 > 1.1.1.2 / udp 5 > 4789 no-csum / vxlan 42 / {ETH} / arp request 10.0.0.1 > 10.0.0.2"
        );
        let frame = parse(&outer).unwrap();
        assert_eq!(frame.len(), 14 + 20 + 8 + 8 + 14 + 28);
        assert_eq!(&frame[40..42], &[0, 0], "no UDP checksum");
        assert_eq!(&frame[46..50], &[0, 0, 42, 0]);
        let fragment = format!("{ETH} / ipv4 1.1.1.1 > 1.1.1.2 offset 8 more proto 17 / hex 00ff");
        assert_eq!(&parse(&fragment).unwrap()[20..22], &[0x20, 1]);
    }

    #[test]
    fn errors_point_at_the_word() {
        let text = format!("{ETH} / ipv4 10.0.0.1 > 10.0.0.2 tll 64");
        let error = parse(&text).unwrap_err();
        assert_eq!((&text[error.span.clone()], error.help()), ("tll", Some("did you mean `ttl`?")));
        let text = "ipv4 10.0.0.1 > 10.0.0.2";
        assert_eq!(parse(text).unwrap_err().to_string(), "a frame begins with `eth`");
        for text in [
            "",
            "/",
            "eth",
            &format!("{ETH} /"),
            &format!("{ETH} / tcp 1 > 2"),
            &format!("{ETH} / 70000 bytes"),
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(eth|vlan|ipv4|udp|tcp|icmp|mpls|arp|hex|/|>|[0-9a-f:.]{1,9}|[a-zé]{1,4}| ){0,24}") {
            let _ = parse(&text);
        }
    }
}
