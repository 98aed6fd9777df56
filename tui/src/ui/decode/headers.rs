//! One header after another: each says how long it is, what its fields are, and what comes next.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use etherparse::{
    ArpPacketSlice, Ethernet2HeaderSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, SingleVlanHeaderSlice,
    TcpHeaderSlice, UdpHeaderSlice,
};

use super::Field;

/// What comes next.
#[derive(Clone, Copy)]
pub enum Next {
    /// An Ethernet header.
    Ethernet,
    /// What this Ethernet type says.
    Type(u16),
    /// What this IP protocol says.
    Ip(u8),
    /// What these UDP ports say.
    Udp(u16, u16),
    /// Nothing that is understood.
    Data,
}

/// One decoded header; ranges count from its first byte.
pub struct Header {
    /// Name of the protocol.
    pub name: &'static str,
    /// Its length in bytes.
    pub len: usize,
    /// Its fields.
    pub fields: Vec<Field>,
    /// What comes next.
    pub next: Next,
    /// Bytes that follow it, where it says so.
    pub payload: Option<usize>,
}

/// Decodes the header that `next` says `data` begins with; none if it is cut, wrong, or not known.
pub fn decode(next: Next, data: &[u8]) -> Option<Header> {
    match next {
        Next::Ethernet => ethernet(data),
        Next::Type(kind) => by_type(kind, data),
        Next::Ip(protocol) => by_protocol(protocol, data),
        Next::Udp(src, dst) => by_udp_port(src, dst, data),
        Next::Data => None,
    }
}

fn header(name: &'static str, len: usize, next: Next, fields: Vec<Field>) -> Option<Header> {
    Some(Header { name, len, fields, next, payload: None })
}

fn field(name: &'static str, range: Range<usize>, value: impl ToString) -> Field {
    Field { name, value: value.to_string(), range }
}

fn mac(bytes: [u8; 6]) -> String {
    datapath::types::MacAddr(bytes).to_string()
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

fn hex16(value: u16) -> String {
    format!("{value:#06x}")
}

fn ethernet(data: &[u8]) -> Option<Header> {
    let slice = Ethernet2HeaderSlice::from_slice(data).ok()?;
    let kind = slice.ether_type().0;
    let mut fields =
        vec![field("dst", 0..6, mac(slice.destination())), field("src", 6..12, mac(slice.source()))];
    if kind >= 0x600 {
        fields.push(field("type", 12..14, hex16(kind)));
        return header("Ethernet", 14, Next::Type(kind), fields);
    }
    // IEEE 802.3: a length, then LLC, then perhaps SNAP with an Ethernet type.
    fields.push(field("length", 12..14, kind));
    if data.get(14..20) == Some(&[0xaa, 0xaa, 3, 0, 0, 0])
        && let Some(kind) = be16(data, 20)
    {
        fields.push(field("snap-type", 20..22, hex16(kind)));
        return header("802.3 SNAP", 22, Next::Type(kind), fields);
    }
    header("802.3", 14, Next::Data, fields)
}

fn by_type(kind: u16, data: &[u8]) -> Option<Header> {
    match kind {
        0x8100 | 0x88a8 => vlan(kind, data),
        0x0800 => ipv4(data),
        0x86dd => ipv6(data),
        0x0806 | 0x8035 => arp(kind, data),
        0x8847 | 0x8848 => mpls(data),
        0x6558 => ethernet(data),
        0x894f => nsh(data),
        _ => None,
    }
}

fn vlan(kind: u16, data: &[u8]) -> Option<Header> {
    let slice = SingleVlanHeaderSlice::from_slice(data).ok()?;
    let kind_inside = slice.ether_type().0;
    let fields = vec![
        field("pcp", 0..1, slice.priority_code_point().value()),
        field("dei", 0..1, u8::from(slice.drop_eligible_indicator())),
        field("id", 0..2, slice.vlan_identifier().value()),
        field("type", 2..4, hex16(kind_inside)),
    ];
    header(if kind == 0x88a8 { "802.1ad" } else { "802.1Q" }, 4, Next::Type(kind_inside), fields)
}

fn arp(kind: u16, data: &[u8]) -> Option<Header> {
    let slice = ArpPacketSlice::from_slice(data).ok()?;
    let len = slice.slice().len();
    let mut fields = vec![field("op", 6..8, slice.operation().0)];
    if len == 28 && data[4..6] == [6, 4] {
        let address = |at: usize| Ipv4Addr::new(data[at], data[at + 1], data[at + 2], data[at + 3]);
        let hardware =
            |at: usize| mac([data[at], data[at + 1], data[at + 2], data[at + 3], data[at + 4], data[at + 5]]);
        fields.push(field("sha", 8..14, hardware(8)));
        fields.push(field("spa", 14..18, address(14)));
        fields.push(field("tha", 18..24, hardware(18)));
        fields.push(field("tpa", 24..28, address(24)));
    }
    header(if kind == 0x8035 { "RARP" } else { "ARP" }, len, Next::Data, fields)
}

fn mpls(data: &[u8]) -> Option<Header> {
    let entry = be32(data, 0)?;
    let bottom = entry & 0x100 != 0;
    let fields = vec![
        field("label", 0..3, entry >> 12),
        field("tc", 2..3, entry >> 9 & 7),
        field("bos", 2..3, u8::from(bottom)),
        field("ttl", 3..4, entry & 0xff),
    ];
    // What is inside does not say so itself; its first nibble tells as well as anything (RFC 4928, section 2).
    let next = match (bottom, data.get(4).map(|first| first >> 4)) {
        (false, _) => Next::Type(0x8847),
        (true, Some(4)) => Next::Type(0x0800),
        (true, Some(6)) => Next::Type(0x86dd),
        (true, _) => Next::Data,
    };
    header("MPLS", 4, next, fields)
}

fn ipv4(data: &[u8]) -> Option<Header> {
    let slice = Ipv4HeaderSlice::from_slice(data).ok()?;
    let len = slice.slice().len();
    let offset = slice.fragments_offset().value();
    let mut flags = String::new();
    if slice.dont_fragment() {
        flags.push_str("DF");
    }
    if slice.more_fragments() {
        flags.push_str("MF");
    }
    let mut fields = vec![
        field("src", 12..16, slice.source_addr()),
        field("dst", 16..20, slice.destination_addr()),
        field("proto", 9..10, slice.protocol().0),
        field("ttl", 8..9, slice.ttl()),
        field("tos", 1..2, format!("{:#04x}", data[1])),
        field("length", 2..4, slice.total_len()),
        field("id", 4..6, slice.identification()),
        field("flags", 6..7, if flags.is_empty() { "-" } else { &flags }),
        field("csum", 10..12, hex16(slice.header_checksum())),
    ];
    if offset != 0 {
        fields.insert(8, field("offset", 6..8, u32::from(offset) * 8));
    }
    if len > 20 {
        fields.push(field("options", 20..len, format!("{} bytes", len - 20)));
    }
    let next = if offset == 0 { Next::Ip(slice.protocol().0) } else { Next::Data };
    let payload = usize::from(slice.total_len()).checked_sub(len);
    Some(Header { name: "IPv4", len, fields, next, payload })
}

fn ipv6(data: &[u8]) -> Option<Header> {
    let slice = Ipv6HeaderSlice::from_slice(data).ok()?;
    let fields = vec![
        field("src", 8..24, slice.source_addr()),
        field("dst", 24..40, slice.destination_addr()),
        field("next", 6..7, slice.next_header().0),
        field("hlim", 7..8, slice.hop_limit()),
        field("tclass", 0..2, format!("{:#04x}", slice.traffic_class())),
        field("label", 1..4, format!("{:#07x}", slice.flow_label().value())),
        field("length", 4..6, slice.payload_length()),
    ];
    let payload = Some(usize::from(slice.payload_length())).filter(|len| *len > 0);
    Some(Header { name: "IPv6", len: 40, fields, next: Next::Ip(slice.next_header().0), payload })
}

fn by_protocol(protocol: u8, data: &[u8]) -> Option<Header> {
    match protocol {
        0 | 43 | 60 => extension(protocol, data),
        44 => fragment(data),
        1 => icmp("ICMP", data),
        58 => icmp("ICMPv6", data),
        2 => igmp(data),
        4 => ipv4(data),
        41 => ipv6(data),
        6 => tcp(data),
        17 => udp(data),
        47 => gre(data),
        132 => sctp(data),
        137 => mpls(data),
        _ => None,
    }
}

fn extension(protocol: u8, data: &[u8]) -> Option<Header> {
    let (next, units) = (*data.first()?, *data.get(1)?);
    let len = (usize::from(units) + 1) * 8;
    let name = match protocol {
        0 => "Hop-by-hop",
        43 => "Routing",
        _ => "Destination",
    };
    header(name, len, Next::Ip(next), vec![field("next", 0..1, next), field("length", 1..2, len)])
}

fn fragment(data: &[u8]) -> Option<Header> {
    let word = be16(data, 2)?;
    let (offset, more) = (word & !7, word & 1);
    let fields = vec![
        field("next", 0..1, data[0]),
        field("offset", 2..4, offset),
        field("more", 3..4, more),
        field("id", 4..8, be32(data, 4)?),
    ];
    header("Fragment", 8, if offset == 0 { Next::Ip(data[0]) } else { Next::Data }, fields)
}

fn icmp(name: &'static str, data: &[u8]) -> Option<Header> {
    let (kind, code, sum) = (*data.first()?, *data.get(1)?, be16(data, 2)?);
    let mut fields =
        vec![field("type", 0..1, kind), field("code", 1..2, code), field("csum", 2..4, hex16(sum))];
    let rest = be32(data, 4)?;
    let mut len = 8;
    match (name, kind) {
        ("ICMP", 0 | 8) | ("ICMPv6", 128 | 129) => {
            fields.push(field("id", 4..6, rest >> 16));
            fields.push(field("seq", 6..8, rest & 0xffff));
        }
        ("ICMPv6", 135 | 136) => {
            let target: [u8; 16] = data.get(8..24)?.try_into().ok()?;
            fields.push(field("target", 8..24, Ipv6Addr::from(target)));
            len = 24;
        }
        _ => fields.push(field("rest", 4..8, format!("{rest:#010x}"))),
    }
    header(name, len, Next::Data, fields)
}

fn igmp(data: &[u8]) -> Option<Header> {
    let group = Ipv4Addr::from(be32(data, 4)?);
    let fields = vec![
        field("type", 0..1, format!("{:#04x}", data[0])),
        field("csum", 2..4, hex16(be16(data, 2)?)),
        field("group", 4..8, group),
    ];
    header("IGMP", 8, Next::Data, fields)
}

fn tcp(data: &[u8]) -> Option<Header> {
    let slice = TcpHeaderSlice::from_slice(data).ok()?;
    let len = slice.slice().len();
    let names = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let set: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| data[13] & (1 << bit) != 0)
        .map(|(_, name)| *name)
        .collect();
    let mut fields = vec![
        field("src", 0..2, slice.source_port()),
        field("dst", 2..4, slice.destination_port()),
        field("flags", 12..14, if set.is_empty() { "-".to_owned() } else { set.join("|") }),
        field("seq", 4..8, slice.sequence_number()),
        field("ack", 8..12, slice.acknowledgment_number()),
        field("window", 14..16, slice.window_size()),
        field("csum", 16..18, hex16(slice.checksum())),
    ];
    if len > 20 {
        fields.push(field("options", 20..len, format!("{} bytes", len - 20)));
    }
    header("TCP", len, Next::Data, fields)
}

fn udp(data: &[u8]) -> Option<Header> {
    let slice = UdpHeaderSlice::from_slice(data).ok()?;
    let fields = vec![
        field("src", 0..2, slice.source_port()),
        field("dst", 2..4, slice.destination_port()),
        field("length", 4..6, slice.length()),
        field("csum", 6..8, hex16(slice.checksum())),
    ];
    header("UDP", 8, Next::Udp(slice.source_port(), slice.destination_port()), fields)
}

fn sctp(data: &[u8]) -> Option<Header> {
    let fields = vec![
        field("src", 0..2, be16(data, 0)?),
        field("dst", 2..4, be16(data, 2)?),
        field("tag", 4..8, format!("{:#010x}", be32(data, 4)?)),
        field("csum", 8..12, format!("{:#010x}", be32(data, 8)?)),
    ];
    header("SCTP", 12, Next::Data, fields)
}

fn gre(data: &[u8]) -> Option<Header> {
    let flags = be16(data, 0)?;
    let kind = be16(data, 2)?;
    let mut fields = vec![field("flags", 0..2, hex16(flags)), field("type", 2..4, hex16(kind))];
    let mut len = 4;
    // RFC 2890: checksum and reserved, key, sequence number, each there if its bit is set.
    for (bit, name) in [(0x8000, "csum"), (0x2000, "key"), (0x1000, "seq")] {
        if flags & bit != 0 {
            fields.push(field(name, len..len + 4, format!("{:#x}", be32(data, len)?)));
            len += 4;
        }
    }
    header("GRE", len, Next::Type(kind), fields)
}

fn nsh(data: &[u8]) -> Option<Header> {
    let first = be32(data, 0)?;
    let path = be32(data, 4)?;
    let len = usize::try_from(first >> 16 & 0x3f).ok()? * 4;
    let protocol = data[3];
    let fields = vec![
        field("spi", 4..7, format!("{:#x}", path >> 8)),
        field("si", 7..8, path & 0xff),
        field("ttl", 0..2, first >> 22 & 0x3f),
        field("mdtype", 2..3, data[2] & 0xf),
        field("np", 3..4, protocol),
    ];
    let next = match protocol {
        1 => Next::Type(0x0800),
        2 => Next::Type(0x86dd),
        3 => Next::Ethernet,
        _ => Next::Data,
    };
    header("NSH", len.max(8), next, fields)
}

fn by_udp_port(src: u16, dst: u16, data: &[u8]) -> Option<Header> {
    match (src, dst) {
        (_, 4789) => {
            let vni = be32(data, 4)? >> 8;
            let fields = vec![field("flags", 0..1, format!("{:#04x}", data[0])), field("vni", 4..7, vni)];
            header("VXLAN", 8, Next::Ethernet, fields)
        }
        (_, 6081) => {
            let vni = be32(data, 4)? >> 8;
            let options = usize::from(data[0] & 0x3f) * 4;
            let kind = be16(data, 2)?;
            let mut fields = vec![field("vni", 4..7, vni), field("type", 2..4, hex16(kind))];
            if options > 0 {
                fields.push(field("options", 8..8 + options, format!("{options} bytes")));
            }
            header("GENEVE", 8 + options, Next::Type(kind), fields)
        }
        _ => None,
    }
}
