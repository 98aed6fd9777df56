//! Extraction of any packet, header by header.

use zerocopy::IntoBytes;

use super::push::{
    ARP_MACS, CT_IPV6_SRC, CT_LABEL, CT_MARK, CT_NW_SRC, DP_HASH, IGMP, IPV6_SRC, MACS, MPLS, ND_TARGET, NSH,
    NW_PROTO, NW_SRC, PACKET_TYPE, PORTS, PRIORITY, Push, RECIRC, TCP_FLAGS, TUNNEL, VLANS, pair,
};
use super::{ExtractConfig, Layers, Miniflow, Offsets, offset};
use crate::flow::hash;
use crate::flow::key::{NW_FRAG_ANY, NW_FRAG_LATER, Nsh, Tunnel, VLAN_CFI};
use crate::flow::proto::*;
use crate::offload::Offloads;
use crate::packet::{CtMetadata, Packet};

/// The unread rest of a packet and how far in it begins.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) const fn new(frame: &'a [u8]) -> Self {
        Self { rest: frame, position: 0 }
    }

    #[inline(always)]
    pub(super) fn offset(&self) -> u16 {
        offset(self.position)
    }

    /// The next `N` bytes, if there are as many.
    #[inline(always)]
    fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.rest.first_chunk()
    }

    /// Reads `N` bytes.
    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        self.position += N;
        Some(taken)
    }

    /// Reads over `len` bytes.
    #[inline(always)]
    fn skip(&mut self, len: usize) -> Option<()> {
        self.rest = self.rest.get(len..)?;
        self.position += len;
        Some(())
    }

    /// How many bytes are left.
    #[inline(always)]
    pub(super) const fn len(&self) -> usize {
        self.rest.len()
    }

    /// The 12 flag bits of the TCP header here, if its data offset makes sense.
    #[inline(always)]
    pub(super) fn tcp_flags(&self) -> Option<u16> {
        let tcp: &[u8; 20] = self.peek()?;
        let header_len = usize::from(tcp[12] >> 4) * 4;
        let sane = (20..=self.len()).contains(&header_len);
        sane.then_some(u16::from_be_bytes([tcp[12] & 0x0f, tcp[13]]))
    }

    /// Leaves out what lies behind the next `len` bytes and returns its length, if an offset can hold that.
    #[inline(always)]
    fn cut_padding(&mut self, len: usize) -> Option<u16> {
        let (rest, padding) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        u16::try_from(padding.len()).ok()
    }
}

/// What connection tracking adds to the key further down.
struct Ct<'a> {
    md: &'a CtMetadata,
    /// Ports of the original direction, once known to belong to this packet's address family.
    ports: [u8; 4],
    /// Protocol, likewise; 0 until then.
    proto: u8,
}

#[inline(never)]
pub(super) fn extract(packet: &mut Packet, mini: &mut Miniflow, config: ExtractConfig) {
    let mut push = Push::new(&mut mini.values);
    metadata(packet, &mut push);
    // All that follows is in the second half. Both written at the end would be written as one vector, put together in memory,
    // which costs as much as the rest.
    mini.map[0] = push.map()[0];
    let mut walk = Walk {
        push,
        layers: Layers::default(),
        cursor: Cursor::new(packet.data()),
        ct: packet.md.ct().map(|md| Ct { md, ports: [0; 4], proto: 0 }),
        hashed: packet.rss_hash.is_some(),
    };
    // How far it came does not matter to anybody.
    let _stopped_early = walk.frame(packet.packet_type, config).is_none();
    mini.map[1] = walk.push.map()[1];
    let layers = walk.layers;
    layers.store(packet);
}

/// Pushes everything that does not come from the frame; the connection's protocol is added later.
#[inline(always)]
fn metadata(packet: &Packet, push: &mut Push<'_>) {
    let md = &packet.md;
    if let Some(tunnel) = md.tunnel() {
        push_tunnel(tunnel, push);
    }
    if md.skb_priority != 0 || md.pkt_mark != 0 {
        push.word(PRIORITY, pair(md.skb_priority.to_ne_bytes(), md.pkt_mark.to_ne_bytes()));
    }
    let ct = md.ct();
    if let Some(ct) = ct {
        if ct.label != 0 {
            push.bytes(CT_LABEL, &ct.label.to_be_bytes());
        }
        if ct.mark != 0 {
            push.word(CT_MARK, pair(ct.mark.to_ne_bytes(), [0; 4]));
        }
    }
    push.word(DP_HASH, pair(md.dp_hash.to_ne_bytes(), md.in_port.0.to_ne_bytes()));
    if md.recirc_id != 0 || md.ct_state != 0 {
        let [zone_0, zone_1] = ct.map_or(0, |ct| ct.zone).to_ne_bytes();
        push.word(RECIRC, pair(md.recirc_id.to_ne_bytes(), [md.ct_state, 0, zone_0, zone_1]));
    }
    if packet.packet_type != 0 {
        push.word(PACKET_TYPE, pair(packet.packet_type.to_be_bytes(), [0; 4]));
    }
}

fn push_tunnel(tunnel: &Tunnel, push: &mut Push<'_>) {
    const FIXED: usize = std::mem::offset_of!(Tunnel, opt_map);
    const OPTS: usize = std::mem::offset_of!(Tunnel, opts);
    let bytes = tunnel.as_bytes();
    push.bytes(TUNNEL, &bytes[..FIXED]);
    if tunnel.opt_map != 0 {
        push.bytes(TUNNEL + FIXED / 8, &bytes[FIXED..]);
    } else {
        push.bytes(TUNNEL + OPTS / 8, &tunnel.opts[..usize::from(tunnel.opts_len)]);
    }
}

/// One walk over the headers. Methods return `None` where the packet ends or stops making sense. All are inlined, so that
/// map and offsets stay in registers.
struct Walk<'a, 'k> {
    push: Push<'k>,
    layers: Layers,
    cursor: Cursor<'a>,
    ct: Option<Ct<'a>>,
    /// The packet has a 5-tuple hash.
    hashed: bool,
}

/// The tags and the type of an Ethernet frame.
pub(super) struct Ethernet<'a> {
    pub(super) macs: &'a [u8; 12],
    /// Tags as they stand in a key; those that are not there are 0.
    pub(super) vlans: [u8; 8],
    pub(super) dl_type: u16,
}

/// Reads an Ethernet header with up to `limit` tags, and LLC with SNAP (`parse_vlan`, `parse_ethertype`).
#[inline(always)]
pub(super) fn ethernet<'a>(cursor: &mut Cursor<'a>, limit: usize) -> Option<Ethernet<'a>> {
    if cursor.rest.len() < 14 {
        return None;
    }
    let macs = cursor.take::<12>()?;
    let mut vlans = [0; 8];
    for tag in vlans.as_chunks_mut::<4>().0.iter_mut().take(limit) {
        // A tag counts if there is a type behind it.
        let Some(&[t0, t1, tci_0, tci_1, _, _]) = cursor.peek() else {
            break;
        };
        if !is_vlan(u16::from_be_bytes([t0, t1])) {
            break;
        }
        *tag = [t0, t1, tci_0 | (VLAN_CFI >> 8) as u8, tci_1];
        cursor.skip(4)?;
    }
    let dl_type = u16::from_be_bytes(*cursor.take()?);
    if dl_type >= ETH_TYPE_MIN {
        return Some(Ethernet { macs, vlans, dl_type });
    }
    // IEEE 802.3 with a length: LLC, behind which SNAP (RFC 1042) may give a type after all.
    let dl_type = match cursor.peek() {
        Some(&[0xaa, 0xaa, 0x03, 0, 0, 0, high, low]) => {
            cursor.skip(8)?;
            u16::from_be_bytes([high, low])
        }
        _ => ETH_TYPE_NONE,
    };
    Some(Ethernet { macs, vlans, dl_type: if dl_type >= ETH_TYPE_MIN { dl_type } else { ETH_TYPE_NONE } })
}

/// Reads a label stack up to the bottom, or the end of the packet; returns its first three entries.
#[inline(always)]
pub(super) fn mpls<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    let stack = cursor.rest;
    let mut len = 0;
    while let Some(entry) = cursor.take::<4>() {
        len += 4;
        if entry[2] & 1 != 0 {
            break;
        }
    }
    &stack[..len.min(12)]
}

/// The fixed part of an IPv4 header that makes sense.
pub(super) struct Ipv4<'a> {
    pub(super) header: &'a [u8; 20],
    pub(super) padding: u16,
    pub(super) frag: u8,
}

/// Reads an IPv4 header with its options and leaves out the padding (`ipv4_sanity_check`). The version is not looked at.
#[inline(always)]
pub(super) fn ipv4<'a>(cursor: &mut Cursor<'a>) -> Option<Ipv4<'a>> {
    let header: &[u8; 20] = cursor.peek()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < 20 || header_len > total_len {
        return None;
    }
    let padding = cursor.cut_padding(total_len)?;
    cursor.skip(header_len)?;
    let frag_off = u16::from_be_bytes([header[6], header[7]]);
    let frag = if frag_off & 0x3fff == 0 {
        0
    } else if frag_off & 0x1fff == 0 {
        NW_FRAG_ANY
    } else {
        NW_FRAG_ANY | NW_FRAG_LATER
    };
    Some(Ipv4 { header, padding, frag })
}

/// Reads the fixed IPv6 header and leaves out the padding, whose length is the other result (`ipv6_sanity_check`).
#[inline(always)]
pub(super) fn ipv6<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a [u8; 40], u16)> {
    let mut after = *cursor;
    let header: &[u8; 40] = after.take()?;
    let padding = after.cut_padding(usize::from(u16::from_be_bytes([header[4], header[5]])))?;
    *cursor = after;
    Some((header, padding))
}

/// Reads IPv6 extension headers from one of kind `next` on; returns the protocol behind them and the fragment bits
/// (`parse_ipv6_ext_hdrs`). Behind a fragment that is not the first there is none: the protocol stays "fragment".
#[inline(always)]
pub(super) fn ipv6_extensions(cursor: &mut Cursor<'_>, mut next: u8) -> Option<(u8, u8)> {
    let mut frag = 0;
    loop {
        let unit = match next {
            IP_HOPOPTS | IP_DSTOPTS | IP_ROUTING => (8, 1),
            IP_AH => (4, 2),
            IP_FRAGMENT => {
                let &[following, _, high, low, _, _, _, _] = cursor.take::<8>()?;
                next = following;
                let offset = u16::from_be_bytes([high, low]);
                if offset != 0 {
                    frag = NW_FRAG_ANY;
                    if offset & 0xfff8 != 0 {
                        return Some((IP_FRAGMENT, NW_FRAG_ANY | NW_FRAG_LATER));
                    }
                }
                continue;
            }
            _ => return Some((next, frag)),
        };
        let &[following, len, _, _, _, _, _, _] = cursor.peek()?;
        next = following;
        cursor.skip((usize::from(len) + unit.1) * unit.0)?;
    }
}

impl Walk<'_, '_> {
    #[inline(always)]
    fn frame(&mut self, packet_type: u32, config: ExtractConfig) -> Option<()> {
        let dl_type = if packet_type == 0 {
            let eth = ethernet(&mut self.cursor, config.vlans())?;
            let [t0, t1] = eth.dl_type.to_be_bytes();
            let (first, second) = eth.macs.split_first_chunk::<8>()?;
            self.push.word(MACS, u64::from_ne_bytes(*first));
            let &[s2, s3, s4, s5] = second else { return None };
            self.push.word(MACS + 1, pair([s2, s3, s4, s5], [t0, t1, 0, 0]));
            if eth.vlans != [0; 8] {
                self.push.word(VLANS, u64::from_ne_bytes(eth.vlans));
            }
            eth.dl_type
        } else {
            let dl_type = packet_type as u16;
            let [t0, t1] = dl_type.to_be_bytes();
            self.push.word(MACS + 1, pair([0; 4], [t0, t1, 0, 0]));
            dl_type
        };

        if is_mpls(dl_type) {
            self.layers.offsets.set(Offsets::L2_5, self.cursor.offset());
            let stack = mpls(&mut self.cursor);
            self.push.bytes(MPLS, stack);
        }
        self.layers.offsets.set(Offsets::L3, self.cursor.offset());
        match dl_type {
            ETH_IPV4 => self.ipv4(),
            ETH_IPV6 => self.ipv6(),
            ETH_ARP | ETH_RARP => self.arp(),
            ETH_NSH => self.nsh(),
            _ => Some(()),
        }
    }

    /// Notes the connection's original tuple if it is of this packet's address family, and pushes its addresses.
    #[inline(always)]
    fn ct_tuple(&mut self, ipv6: bool) {
        let Some(ct) = self.ct.as_mut().filter(|ct| ct.md.orig_ipv6 == ipv6 && ct.md.orig_proto != 0) else {
            return;
        };
        ct.proto = ct.md.orig_proto;
        let ([a, b], [c, d]) = (ct.md.orig_tp_src.to_be_bytes(), ct.md.orig_tp_dst.to_be_bytes());
        ct.ports = [a, b, c, d];
        self.push.amend(RECIRC, pair([0; 4], [0, ct.proto, 0, 0]));
        if ipv6 {
            self.push.bytes(CT_IPV6_SRC, &ct.md.orig_src);
            self.push.bytes(CT_IPV6_SRC + 2, &ct.md.orig_dst);
        } else {
            let ([s0, s1, s2, s3, ..], [d0, d1, d2, d3, ..]) = (ct.md.orig_src, ct.md.orig_dst);
            self.push.word(CT_NW_SRC, pair([s0, s1, s2, s3], [d0, d1, d2, d3]));
        }
    }

    #[inline(always)]
    fn ipv4(&mut self) -> Option<()> {
        let Ipv4 { header, padding, frag } = ipv4(&mut self.cursor)?;
        self.layers.ipv4 = true;
        self.layers.offsets.set(Offsets::PADDING, padding);
        let addresses: &[u8; 8] = header.last_chunk()?;
        self.push.word(NW_SRC, u64::from_ne_bytes(*addresses));
        self.ct_tuple(false);
        let (tos, ttl, proto) = (header[1], header[8], header[9]);
        self.push.word(NW_PROTO, pair([0; 4], [frag, tos, ttl, proto]));
        self.transport(frag, proto, |ports| hash::rss_ipv4(*addresses, proto, ports))
    }

    #[inline(always)]
    fn ipv6(&mut self) -> Option<()> {
        let (header, padding) = ipv6(&mut self.cursor)?;
        self.layers.offsets.set(Offsets::PADDING, padding);
        let addresses: &[u8; 32] = header.last_chunk()?;
        self.push.bytes(IPV6_SRC, addresses);
        self.ct_tuple(true);
        // Version (4 bits, not looked at), traffic class (8), flow label (20).
        let tos = header[0] << 4 | header[1] >> 4;
        let label = [0, header[1] & 0x0f, header[2], header[3]];
        let (next_header, ttl) = (header[6], header[7]);
        let (proto, frag) = ipv6_extensions(&mut self.cursor, next_header)?;
        self.push.word(NW_PROTO, pair(label, [frag, tos, ttl, proto]));
        self.transport(frag, proto, |ports| hash::rss_ipv6(addresses, next_header, ports))
    }

    #[inline(always)]
    fn arp(&mut self) -> Option<()> {
        let arp: &[u8; 28] = self.cursor.take()?;
        // Ethernet and IPv4 addresses, or nothing of it counts.
        let rest = arp.strip_prefix(&[0, 1, 0x08, 0x00, 6, 4])?;
        let (&[op_high, op_low], macs_and_addresses) = rest.split_first_chunk()?;
        let (sha, rest) = macs_and_addresses.split_first_chunk::<6>()?;
        let (spa, rest) = rest.split_first_chunk::<4>()?;
        let (tha, tpa) = rest.split_first_chunk::<6>()?;
        self.push.word(NW_SRC, pair(*spa, *tpa.first_chunk()?));
        // Only the low 8 bits are in the key; a larger opcode is none.
        if op_high == 0 {
            self.push.word(NW_PROTO, pair([0; 4], [0, 0, 0, op_low]));
        }
        self.mac_pair(sha, tha, 0);
        Some(())
    }

    /// Pushes two addresses and what stands behind them in the key.
    #[inline(always)]
    fn mac_pair(&mut self, sha: &[u8; 6], tha: &[u8; 6], tcp_flags: u16) {
        let &[s0, s1, s2, s3, s4, s5] = sha;
        let &[t0, t1, t2, t3, t4, t5] = tha;
        let [f0, f1] = tcp_flags.to_be_bytes();
        self.push.word(ARP_MACS, pair([s0, s1, s2, s3], [s4, s5, t0, t1]));
        self.push.word(ARP_MACS + 1, pair([t2, t3, t4, t5], [f0, f1, 0, 0]));
    }

    #[inline(always)]
    fn nsh(&mut self) -> Option<()> {
        let &[b0, b1, mdtype, np, p0, p1, p2, p3] = self.cursor.peek()?;
        let base = u16::from_be_bytes([b0, b1]);
        let len = usize::from(base & 0x3f) * 4;
        let version = base >> 14;
        if len > self.cursor.rest.len() || version != 0 {
            return None;
        }
        let mut nsh = Nsh {
            flags: (base >> 12 & 3) as u8,
            ttl: (base >> 6 & 0x3f) as u8,
            mdtype,
            np,
            path_hdr: u32::from_be_bytes([p0, p1, p2, p3]).into(),
            ..Nsh::default()
        };
        match mdtype {
            1 if len != 24 => return None,
            1 => nsh.context.as_mut_bytes().copy_from_slice(self.cursor.rest.get(8..24)?),
            2 if len < 8 => return None,
            _ => {}
        }
        self.push.bytes(NSH, nsh.as_bytes());
        Some(())
    }

    #[inline(always)]
    fn transport(&mut self, frag: u8, proto: u8, rss: impl Fn([u8; 4]) -> u32) -> Option<()> {
        self.layers.offsets.set(Offsets::L4, self.cursor.offset());
        if frag & NW_FRAG_LATER != 0 {
            self.later_fragment();
            return Some(());
        }
        match proto {
            IP_TCP => {
                let [f0, f1] = self.cursor.tcp_flags()?.to_be_bytes();
                let ports = *self.cursor.peek()?;
                self.push.word(TCP_FLAGS, pair([0; 4], [f0, f1, 0, 0]));
                self.layers.proto = Offloads::L4_TCP;
                self.layers.hash = (!self.hashed).then(|| rss(ports));
                self.ports(ports);
            }
            IP_UDP => {
                let ports = *self.cursor.peek::<8>()?.first_chunk()?;
                self.layers.proto = Offloads::L4_UDP;
                self.layers.hash = (!self.hashed).then(|| rss(ports));
                self.ports(ports);
            }
            IP_SCTP => {
                let ports = *self.cursor.peek::<12>()?.first_chunk()?;
                self.layers.proto = Offloads::L4_SCTP;
                self.ports(ports);
            }
            IP_ICMP => {
                let &[kind, code, ..] = self.cursor.peek::<8>()?;
                self.ports([0, kind, 0, code]);
            }
            IP_IGMP => {
                let &[kind, code, _, _, g0, g1, g2, g3] = self.cursor.peek()?;
                self.push.word(PORTS, pair([0, kind, 0, code], [0; 4]));
                self.push.word(IGMP, pair([g0, g1, g2, g3], [0; 4]));
            }
            IP_ICMPV6 => self.icmpv6()?,
            _ => {}
        }
        Some(())
    }

    /// Pushes both ports, and those of the connection's original direction.
    #[inline(always)]
    fn ports(&mut self, ports: [u8; 4]) {
        self.push.word(PORTS, pair(ports, self.ct.as_ref().map_or([0; 4], |ct| ct.ports)));
    }

    /// A later fragment has no ports, but its connection has.
    #[inline(always)]
    fn later_fragment(&mut self) {
        let Some(ct) = &self.ct else { return };
        let has_ports = match ct.proto {
            IP_TCP | IP_UDP | IP_SCTP | IP_ICMP => true,
            // OVS reads type and code where a later fragment has none; kept, since a key must be the same there and here.
            IP_ICMPV6 => !self.cursor.peek().is_some_and(|&[kind, code]| is_nd(kind, code)),
            _ => false,
        };
        if has_ports {
            self.ports([0; 4]);
        }
    }

    #[inline(always)]
    fn icmpv6(&mut self) -> Option<()> {
        let &[kind, code, _, _, r0, r1, r2, r3] = self.cursor.take()?;
        let ports = [0, kind, 0, code];
        if !is_nd(kind, code) {
            self.ports(ports);
            return Some(());
        }
        let nd = neighbour_discovery(&mut self.cursor);
        if let Some(target) = nd.target {
            self.push.bytes(ND_TARGET, target);
        }
        self.mac_pair(&nd.sll, &nd.tll, u16::from(nd.option));
        // A connection's ports do not go with ND, as in OVS.
        self.push.word(PORTS, pair(ports, [0; 4]));
        self.push.word(IGMP, pair([r0, r1, r2, r3], [0; 4]));
        Some(())
    }
}

const fn is_nd(kind: u8, code: u8) -> bool {
    code == 0 && matches!(kind, ND_SOLICIT | ND_ADVERT)
}

/// What stands behind the first eight bytes of a neighbour solicitation or advertisement.
#[derive(Default)]
struct NeighbourDiscovery<'a> {
    target: Option<&'a [u8; 16]>,
    sll: [u8; 6],
    tll: [u8; 6],
    /// Kind of the first link-layer address option.
    option: u8,
}

/// Reads target and options (`parse_icmpv6`). An option given twice spoils target and addresses; one that is cut off or
/// without length ends the reading.
fn neighbour_discovery<'a>(cursor: &mut Cursor<'a>) -> NeighbourDiscovery<'a> {
    const SLL: u8 = 1;
    const TLL: u8 = 2;
    let mut nd = NeighbourDiscovery { target: cursor.take(), ..NeighbourDiscovery::default() };
    if nd.target.is_none() {
        return nd;
    }
    while let Some(&[kind, len, m0, m1, m2, m3, m4, m5]) = cursor.peek() {
        if len == 0 {
            break;
        }
        let slot = match kind {
            SLL if len == 1 => Some(&mut nd.sll),
            TLL if len == 1 => Some(&mut nd.tll),
            _ => None,
        };
        if let Some(slot) = slot {
            if *slot != [0; 6] {
                return NeighbourDiscovery { option: nd.option, ..NeighbourDiscovery::default() };
            }
            *slot = [m0, m1, m2, m3, m4, m5];
            if nd.option == 0 {
                nd.option = kind;
            }
        }
        if cursor.skip(usize::from(len) * 8).is_none() {
            break;
        }
    }
    nd
}
