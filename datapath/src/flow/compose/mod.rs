//! From a flow key to a frame that has it: what a test sends when it names a flow instead of bytes.
//!
//! Byte for byte the frames of OVS (`flow_compose()` and `packet_expand()` of `lib/flow.c`, as `netdev-dummy/receive` and
//! `ovs-ofctl compose-packet` call them), oddities included. The frame is always an Ethernet one; fields that no header
//! carries (metadata, a third VLAN tag) are lost.

use thiserror::Error;

use super::key::{Flow, NW_FRAG_LATER, VLAN_CFI};
use super::proto::*;
use crate::offload::checksum;
use crate::packet::Packet;

/// Payload behind transport headers that can carry any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// As many bytes 00, 01, 02 and so on.
    Pattern(usize),
    /// These bytes.
    Bytes(&'a [u8]),
}

impl Payload<'_> {
    /// What OVS's tools send if they are not told otherwise.
    pub const DEFAULT: Self = Self::Pattern(64);
    /// None.
    pub const EMPTY: Self = Self::Bytes(&[]);

    fn len(self) -> usize {
        match self {
            Self::Pattern(len) => len,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn append(self, frame: &mut Vec<u8>) {
        match self {
            Self::Pattern(len) => frame.extend((0..len).map(|i| i as u8)),
            Self::Bytes(bytes) => frame.extend(bytes),
        }
    }
}

/// Why a flow cannot be sent at a given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ComposeError {
    /// Below the shortest Ethernet frame without its checksum.
    #[error("too small packet len: {len} is below {MIN_LEN}", MIN_LEN = MIN_LEN)]
    TooSmall {
        /// The length asked for.
        len: usize,
    },
    /// The headers of the flow need more.
    #[error("the headers of this flow take {needed} bytes, which is more than {len}")]
    HeadersLonger {
        /// The length asked for.
        len: usize,
        /// What the headers take.
        needed: usize,
    },
    /// Longer than a frame can be.
    #[error("a frame of {len} bytes is longer than {MAX_LEN}", MAX_LEN = MAX_LEN)]
    TooLong {
        /// The length asked for.
        len: usize,
    },
}

/// Shortest length that can be asked for (`ETH_TOTAL_MIN`).
const MIN_LEN: usize = 60;
/// Longest length that can be asked for.
const MAX_LEN: usize = 65535;

/// A frame and where its headers begin.
struct Frame {
    bytes: Vec<u8>,
    l3: usize,
    l4: Option<usize>,
}

/// Builds the frame with `payload`, whose length is the caller's business (one that the headers cannot tell is told modulo 65536); `bad_checksum` spoils the IPv4 header checksum by one bit.
pub fn compose(flow: &Flow, payload: Payload<'_>, bad_checksum: bool) -> Packet {
    into_packet(&frame(flow, payload, bad_checksum))
}

/// Builds the frame without payload, filled up with zeros to `len` bytes, lengths and checksums corrected
/// (`netdev-dummy/receive --len`).
///
/// # Errors
/// The length is out of range, or the headers do not fit.
pub fn compose_len(flow: &Flow, len: usize) -> Result<Packet, ComposeError> {
    if len < MIN_LEN {
        return Err(ComposeError::TooSmall { len });
    }
    if len > MAX_LEN {
        return Err(ComposeError::TooLong { len });
    }
    let mut frame = frame(flow, Payload::EMPTY, false);
    let needed = frame.bytes.len();
    if needed > len {
        return Err(ComposeError::HeadersLonger { len, needed });
    }
    if needed < len {
        expand(&mut frame, flow, len);
    }
    Ok(into_packet(&frame))
}

fn into_packet(frame: &Frame) -> Packet {
    let mut packet = Packet::from_frame(&frame.bytes);
    let _ = Flow::of_packet(&mut packet);
    packet.rss_hash = None;
    packet
}

fn frame(flow: &Flow, payload: Payload<'_>, bad_checksum: bool) -> Frame {
    let dl_type = flow.dl_type.get();
    let mut bytes = Vec::with_capacity(128 + payload.len());
    bytes.extend(flow.dl_dst.0);
    bytes.extend(flow.dl_src.0);
    if dl_type == ETH_TYPE_NONE {
        // 802.3: the length, which OVS counts with the header. VLAN tags do not get into it.
        bytes.extend(14u16.to_be_bytes());
        return Frame { bytes, l3: 14, l4: None };
    }
    for vlan in flow.vlans.iter().filter(|vlan| vlan.tci.get() & VLAN_CFI != 0) {
        bytes.extend(vlan.tpid.to_bytes());
        bytes.extend((vlan.tci.get() & !VLAN_CFI).to_be_bytes());
    }
    bytes.extend(flow.dl_type.to_bytes());
    let mut frame = Frame { l3: bytes.len(), bytes, l4: None };
    match dl_type {
        ETH_IPV4 => ipv4(&mut frame, flow, payload, bad_checksum),
        ETH_IPV6 => ipv6(&mut frame, flow, payload),
        ETH_ARP | ETH_RARP => arp(&mut frame.bytes, flow),
        ETH_NSH => nsh(&mut frame.bytes, flow),
        ETH_MPLS | ETH_MPLS_UPSTREAM => mpls(&mut frame.bytes, flow),
        _ => {}
    }
    frame
}

fn ipv4(frame: &mut Frame, flow: &Flow, payload: Payload<'_>, bad_checksum: bool) {
    let frag: u16 = match flow.nw_frag {
        0 => 0,
        // More fragments, and some offset.
        frag if frag & NW_FRAG_LATER != 0 => 0x2000 | 100,
        _ => 0x2000,
    };
    let out = &mut frame.bytes;
    out.extend([0x45, flow.nw_tos, 0, 0, 0, 0]);
    out.extend(frag.to_be_bytes());
    out.extend([flow.nw_ttl, flow.nw_proto, 0, 0]);
    out.extend(flow.nw_src.to_bytes());
    out.extend(flow.nw_dst.to_bytes());
    frame.l4 = Some(out.len());
    l4(out, flow, payload);
    finish_ip(frame, flow);
    if bad_checksum {
        frame.bytes[frame.l3 + 10] ^= 1;
    }
}

fn ipv6(frame: &mut Frame, flow: &Flow, payload: Payload<'_>) {
    let first = 6 << 28 | u32::from(flow.nw_tos) << 20 | flow.ipv6_label.get();
    let out = &mut frame.bytes;
    out.extend(first.to_be_bytes());
    out.extend([0, 0, flow.nw_proto, flow.nw_ttl]);
    out.extend(flow.ipv6_src);
    out.extend(flow.ipv6_dst);
    frame.l4 = Some(out.len());
    l4(out, flow, payload);
    finish_ip(frame, flow);
}

fn arp(out: &mut Vec<u8>, flow: &Flow) {
    out.extend([0, 1, 0x08, 0x00, 6, 4, 0, flow.nw_proto]);
    if matches!(flow.nw_proto, 1 | 2) {
        out.extend(flow.arp_sha.0);
        out.extend(flow.nw_src.to_bytes());
        out.extend(flow.arp_tha.0);
        out.extend(flow.nw_dst.to_bytes());
    } else {
        out.extend([0; 20]);
    }
}

fn nsh(out: &mut Vec<u8>, flow: &Flow) {
    let nsh = &flow.nsh;
    let words: u16 = if nsh.mdtype == 1 { 6 } else { 2 };
    let base = u16::from(nsh.flags & 3) << 12 | u16::from(nsh.ttl & 0x3f) << 6 | words;
    out.extend(base.to_be_bytes());
    out.extend([nsh.mdtype, nsh.np]);
    out.extend(nsh.path_hdr.to_bytes());
    for word in nsh.context {
        // Room for four words is there in any case.
        out.extend(if nsh.mdtype == 1 { word.to_bytes() } else { [0; 4] });
    }
}

fn mpls(out: &mut Vec<u8>, flow: &Flow) {
    for lse in &flow.mpls_lse[..3] {
        out.extend(lse.to_bytes());
        if lse.get() & 0x100 != 0 {
            break;
        }
    }
}

fn l4(out: &mut Vec<u8>, flow: &Flow, payload: Payload<'_>) {
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        return;
    }
    let ports = [flow.tp_src.to_bytes(), flow.tp_dst.to_bytes()].concat();
    let [kind, code] = [flow.tp_src.get() as u8, flow.tp_dst.get() as u8];
    match flow.nw_proto {
        IP_TCP => {
            out.extend(ports);
            out.extend([0; 8]);
            out.extend((5 << 12 | flow.tcp_flags.get() & 0x0fff).to_be_bytes());
            out.extend([0; 6]);
            // None with SYN, FIN or RST.
            if flow.tcp_flags.get() & 0x007 == 0 {
                payload.append(out);
            }
        }
        IP_UDP => {
            out.extend(ports);
            out.extend(((8 + payload.len()) as u16).to_be_bytes());
            out.extend([0; 2]);
            payload.append(out);
        }
        IP_SCTP => {
            out.extend(ports);
            out.extend([0; 8]);
        }
        IP_ICMP => {
            out.extend([kind, code, 0, 0, 0, 0, 0, 0]);
            if matches!((kind, code), (0 | 8, 0)) {
                payload.append(out);
            }
        }
        IP_IGMP => {
            out.extend([kind, code, 0, 0]);
            out.extend(flow.igmp_group_ip4.to_bytes());
        }
        IP_ICMPV6 => icmpv6(out, flow, payload),
        _ => {}
    }
}

fn icmpv6(out: &mut Vec<u8>, flow: &Flow, payload: Payload<'_>) {
    let [kind, code] = [flow.tp_src.get() as u8, flow.tp_dst.get() as u8];
    out.extend([kind, code, 0, 0]);
    out.extend(flow.igmp_group_ip4.to_bytes());
    match (kind, code) {
        (ND_SOLICIT | ND_ADVERT, 0) => {
            out.extend(flow.nd_target);
            for (option, mac) in [(1, flow.arp_sha), (2, flow.arp_tha)] {
                if mac.0 != [0; 6] {
                    out.extend([option, 1]);
                    out.extend(mac.0);
                }
            }
        }
        (128 | 129, 0) => payload.append(out),
        _ => {}
    }
}

/// Writes lengths and checksums of what is there.
fn finish_ip(frame: &mut Frame, flow: &Flow) {
    let Some(l4_at) = frame.l4 else { return };
    let (headers, l4) = frame.bytes.split_at_mut(l4_at);
    let ip = &mut headers[frame.l3..];
    let l4_len = l4.len() as u16;
    let pseudo = if flow.dl_type.get() == ETH_IPV4 {
        ip[2..4].copy_from_slice(&((20 + l4.len()) as u16).to_be_bytes());
        ip[10..12].fill(0);
        let sum = checksum::internet(ip);
        ip[10..12].copy_from_slice(&sum);
        checksum::Sum::new().bytes(&ip[12..20])
    } else {
        ip[4..6].copy_from_slice(&l4_len.to_be_bytes());
        checksum::Sum::new().bytes(&ip[8..40])
    };
    let pseudo = pseudo.number(u16::from(flow.nw_proto)).number(l4_len);
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        return;
    }
    let (at, start) = match flow.nw_proto {
        IP_TCP => (16, pseudo),
        IP_UDP => (6, pseudo),
        IP_ICMPV6 => (2, pseudo),
        IP_ICMP | IP_IGMP => (2, checksum::Sum::new()),
        // SCTP leaves without.
        _ => return,
    };
    l4[at..at + 2].fill(0);
    let sum = start.bytes(l4).finish();
    let sum = if flow.nw_proto == IP_UDP { checksum::udp(sum) } else { sum };
    l4[at..at + 2].copy_from_slice(&sum);
}

/// Appends zeros up to `len` (`packet_expand`).
fn expand(frame: &mut Frame, flow: &Flow, len: usize) {
    let extra = len - frame.bytes.len();
    frame.bytes.resize(len, 0);
    if flow.dl_type.get() == ETH_TYPE_NONE {
        frame.bytes[12..14].copy_from_slice(&(len as u16).to_be_bytes());
        return;
    }
    let Some(l4_at) = frame.l4 else { return };
    if flow.nw_proto == IP_UDP && flow.nw_frag & NW_FRAG_LATER == 0 {
        // OVS adds the padding to a length that has it already.
        let udp_len = (len - l4_at + extra) as u16;
        frame.bytes[l4_at + 4..l4_at + 6].copy_from_slice(&udp_len.to_be_bytes());
    }
    finish_ip(frame, flow);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    /// What `ovs-ofctl --bare compose-packet FLOW 0102030405` of Open vSwitch 4.0.90 prints, with the flow as a comment. The
    /// flow is read back from the frame: extraction and composition must agree with OVS both ways.
    const VECTORS: &str = include_str!("vectors.txt");

    #[test]
    fn frames_of_ovs() {
        let mut count = 0;
        for frame in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let frame = hex(frame);
            let flow = Flow::of_packet(&mut Packet::from_frame(&frame));
            let composed = compose(&flow, Payload::Bytes(&[1, 2, 3, 4, 5]), false);
            assert_eq!(composed.data(), frame, "{flow:?}");
            count += 1;
        }
        assert_eq!(count, 25);
    }

    fn udp() -> Flow {
        let mut flow = Flow { nw_proto: IP_UDP, nw_ttl: 64, ..Flow::default() };
        flow.dl_src.0 = [0x50, 0x54, 0, 0, 0, 3];
        flow.dl_dst.0 = [0x50, 0x54, 0, 0, 0, 2];
        flow.dl_type.set(ETH_IPV4);
        flow.nw_src.set(0x0a01_0103);
        flow.nw_dst.set(0x0a02_0202);
        flow.tp_src.set(7);
        flow.tp_dst.set(53);
        flow
    }

    #[test]
    fn lengths_of_the_dummy_port() {
        // `netdev-dummy/receive p3 FLOW --len 200`: the UDP length counts the padding twice.
        let packet = compose_len(&udp(), 200).unwrap();
        let mut expected =
            hex("505400000002 505400000003 0800 450000ba000000004011632c0a0101030a020202 000700350144e6c0");
        expected.resize(200, 0);
        assert_eq!(packet.data(), expected);
        assert_eq!(compose_len(&udp(), 59).unwrap_err(), ComposeError::TooSmall { len: 59 });
        let mut llc = Flow::default();
        llc.dl_type.set(ETH_TYPE_NONE);
        assert_eq!(compose_len(&llc, 100).unwrap().data()[12..14], [0, 100]);
        let mut tcp = Flow { nw_proto: IP_TCP, ..Flow::default() };
        tcp.dl_type.set(ETH_IPV6);
        assert_eq!(compose_len(&tcp, 60).unwrap_err(), ComposeError::HeadersLonger { len: 60, needed: 74 });
        assert_eq!(compose_len(&tcp, 70000).unwrap_err(), ComposeError::TooLong { len: 70000 });
    }

    #[test]
    fn tcp_of_974_bytes() {
        // The case h-dummy-length-option.
        let mut flow = udp();
        flow.nw_proto = IP_TCP;
        flow.nw_src.set(0xc000_0201);
        flow.nw_dst.set(0xc000_0202);
        flow.tp_src.set(54392);
        flow.tp_dst.set(5201);
        flow.tcp_flags.set(0x10);
        let packet = compose_len(&flow, 974).unwrap();
        assert_eq!(packet.data()[14..34], hex("450003c0000000004006f334c0000201c0000202"));
        assert_eq!(packet.data()[34..54], hex("d47814510000000000000000501000003f6f0000"));
    }

    #[test]
    fn pattern_and_bad_checksum() {
        let packet = compose(&udp(), Payload::DEFAULT, true);
        assert_eq!(packet.len(), 14 + 20 + 8 + 64);
        assert_eq!(packet.data()[42..46], [0, 1, 2, 3]);
        let good = compose(&udp(), Payload::DEFAULT, false);
        assert_eq!(packet.data()[24] ^ 1, good.data()[24]);
        assert_eq!(packet.data()[25..], good.data()[25..]);
    }
}
