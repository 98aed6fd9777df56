//! Decapsulation: outer headers are checked, understood, and taken off.

use super::TunnelKind;
use crate::action::{GTPU_SEQ, gre_len};
use crate::flow::proto::{
    ETH_ERSPAN1, ETH_ERSPAN2, ETH_TEB, ETH_TYPE_MIN, GRE_CSUM, GRE_KEY, GRE_SEQ, IP_IPIP, IP_IPV6, IP_UDP,
};
use crate::flow::{TNL_F_CSUM, TNL_F_DONT_FRAGMENT, TNL_F_KEY, TNL_F_OAM, TNL_F_UDPIF, Tunnel};
use crate::offload::{Offloads, checksum};
use crate::packet::{PT_ETH, PT_IPV4, PT_IPV6, PT_NSH, Packet, packet_type};
use crate::stats::DropReason;
use zerocopy::FromZeros;

const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// VXLAN, GENEVE and GTP-U without what may follow.
const HEADER: usize = 8;
/// "VNI is valid", the only flag of RFC 7348.
const VXLAN_FLAGS: u32 = 0x0800_0000;
/// "Next protocol": the header is one of the generic protocol extension (draft-ietf-nvo3-vxlan-gpe, 3.1).
const GPE_NEXT_PROTOCOL: u32 = 0x0400_0000;
/// Version, next protocol bit and OAM of it, and the next protocol itself.
const GPE_USED: u32 = 0x3500_00ff;
const GPE_OAM: u32 = 0x0100_0000;
/// A user packet of GTP-U; all other messages are about the tunnel.
const GTPU_PACKET: u8 = 255;
/// Routing type of a segment routing header.
const ROUTING_SEGMENTS: u8 = 4;

/// What stands behind the outer headers.
struct Inner {
    /// Where it begins, from the front of the frame.
    at: usize,
    /// Of which packet type it is.
    packet_type: u32,
}

/// Takes the outer headers off a packet that the flow tables sent to a tunnel of this kind, and keeps what they say in its
/// metadata. What the packet owed to its inner headers, it owes to its headers from then on; of others nothing is known.
///
/// # Errors
/// The headers are not those of such a tunnel, or damaged; the packet is to be dropped.
pub(crate) fn pop(packet: &mut Packet, kind: TunnelKind) -> Result<(), DropReason> {
    let mut tunnel = Tunnel::new_zeroed();
    let inner = read(packet, kind, &mut tunnel).ok_or(DropReason::TunnelDecap)?;
    packet.md.set_tunnel(Some(&tunnel));
    packet.md.ct_state = 0;
    packet.md.recirc_id = 0;
    packet.rss_hash = None;
    packet.packet_type = inner.packet_type;
    // A message about the tunnel keeps its headers.
    if inner.at == 0 {
        return Ok(());
    }
    let ours = packet.offloads.intersects(Offloads::TUNNEL);
    packet.offloads = if ours {
        Offloads::from_bits_truncate(packet.offloads.bits() >> 16)
    } else {
        packet.tso_segsz = 0;
        Offloads::empty()
    };
    packet.set_len(packet.len() - usize::from(packet.l2_pad_size));
    packet.pull_front(inner.at);
    packet.reset_offsets();
    if inner.packet_type != PT_ETH {
        packet.l3_ofs = 0;
    }
    Ok(())
}

fn read(packet: &mut Packet, kind: TunnelKind, tunnel: &mut Tunnel) -> Option<Inner> {
    network(packet, tunnel)?;
    match kind {
        TunnelKind::Vxlan => vxlan(packet, tunnel),
        TunnelKind::Geneve => geneve(packet, tunnel),
        TunnelKind::Gtpu => gtpu(packet, tunnel),
        TunnelKind::Gre | TunnelKind::Ip6Gre => gre(packet, tunnel),
        TunnelKind::Erspan | TunnelKind::Ip6Erspan => erspan(packet, tunnel),
        TunnelKind::Srv6 => srv6(packet),
    }
}

/// Reads the network header; its checksum must be right, and it must have no options.
fn network(packet: &mut Packet, tunnel: &mut Tunnel) -> Option<()> {
    if packet.is_fragment() {
        return None;
    }
    let l3 = packet.l3()?;
    let &[first, tos, high, low, ..] = l3 else { return None };
    match first >> 4 {
        4 => {
            let header: &[u8; IPV4] = l3.first_chunk()?;
            let total = usize::from(u16::from_be_bytes([high, low]));
            if first & 0x0f != 5 || total > l3.len() || !ip_checksum_right(packet.offloads, header) {
                return None;
            }
            tunnel.ip_src = (*header[12..].first_chunk()?).into();
            tunnel.ip_dst = (*header[16..].first_chunk()?).into();
            (tunnel.ip_tos, tunnel.ip_ttl) = (tos, header[8]);
            if header[6] & 0x40 != 0 {
                tunnel.flags |= TNL_F_DONT_FRAGMENT;
            }
        }
        6 => {
            let header: &[u8; IPV6] = l3.first_chunk()?;
            tunnel.ipv6_src = *header[8..].first_chunk()?;
            tunnel.ipv6_dst = *header[24..].first_chunk()?;
            (tunnel.ip_tos, tunnel.ip_ttl) = (first << 4 | tos >> 4, header[7]);
        }
        _ => return None,
    }
    Some(())
}

fn ip_checksum_right(offloads: Offloads, header: &[u8]) -> bool {
    match offloads.intersection(Offloads::IP_PARTIAL) {
        Offloads::IP_BAD => false,
        Offloads::IP_GOOD | Offloads::IP_PARTIAL => true,
        _ => checksum::internet(header) == [0, 0],
    }
}

/// Reads a UDP header and returns what follows it, and where that begins.
fn udp<'a>(packet: &'a Packet, tunnel: &mut Tunnel) -> Option<(&'a [u8], usize)> {
    let l4 = packet.l4()?;
    let (udp, rest) = l4.split_first_chunk::<UDP>()?;
    if udp[6..] != [0, 0] {
        let right = match packet.offloads.intersection(Offloads::L4_PARTIAL) {
            Offloads::L4_BAD => false,
            Offloads::L4_GOOD | Offloads::L4_PARTIAL => true,
            _ => udp_checksum_right(l4, tunnel),
        };
        if !right {
            return None;
        }
        tunnel.flags |= TNL_F_CSUM;
    }
    tunnel.tp_src = [udp[0], udp[1]].into();
    tunnel.tp_dst = [udp[2], udp[3]].into();
    Some((rest, usize::from(packet.l4_ofs) + UDP))
}

fn udp_checksum_right(l4: &[u8], tunnel: &Tunnel) -> bool {
    let pseudo = if tunnel.ip_dst.get() != 0 {
        let ([a, b, c, d], [e, f, g, h]) = (tunnel.ip_src.to_bytes(), tunnel.ip_dst.to_bytes());
        checksum::pseudo_ipv4(&[a, b, c, d, e, f, g, h], IP_UDP, l4.len() as u16)
    } else {
        let mut addresses = [0; 32];
        addresses[..16].copy_from_slice(&tunnel.ipv6_src);
        addresses[16..].copy_from_slice(&tunnel.ipv6_dst);
        checksum::pseudo_ipv6(&addresses, IP_UDP, l4.len() as u32)
    };
    pseudo.bytes(l4).finish() == [0, 0]
}

fn vxlan(packet: &Packet, tunnel: &mut Tunnel) -> Option<Inner> {
    let (rest, at) = udp(packet, tunnel)?;
    let &[f0, f1, f2, next, v0, v1, v2, reserved] = rest.first_chunk::<HEADER>()?;
    let mut flags = u32::from_be_bytes([f0, f1, f2, next]);
    let mut packet_type = PT_ETH;
    if flags & GPE_NEXT_PROTOCOL != 0 {
        if flags & GPE_OAM != 0 {
            return None;
        }
        flags &= !GPE_USED;
        packet_type = match next {
            1 => PT_IPV4,
            2 => PT_IPV6,
            3 => PT_ETH,
            4 => PT_NSH,
            _ => return None,
        };
    }
    if flags != VXLAN_FLAGS || reserved != 0 {
        return None;
    }
    tunnel.tun_id.set(u64::from(u32::from_be_bytes([0, v0, v1, v2])));
    tunnel.flags |= TNL_F_KEY;
    Some(Inner { at: at + HEADER, packet_type })
}

fn geneve(packet: &Packet, tunnel: &mut Tunnel) -> Option<Inner> {
    let (rest, at) = udp(packet, tunnel)?;
    let (&[first, second, p0, p1, v0, v1, v2, _], rest) = rest.split_first_chunk::<HEADER>()?;
    let options_len = usize::from(first & 0x3f) * 4;
    let options = rest.get(..options_len)?;
    if first >> 6 != 0 || u16::from_be_bytes([p0, p1]) != ETH_TEB {
        return None;
    }
    if second & 0x80 != 0 {
        tunnel.flags |= TNL_F_OAM;
    }
    tunnel.tun_id.set(u64::from(u32::from_be_bytes([0, v0, v1, v2])));
    tunnel.opts[..options_len].copy_from_slice(options);
    tunnel.opts_len = options_len as u8;
    tunnel.flags |= TNL_F_KEY | TNL_F_UDPIF;
    Some(Inner { at: at + HEADER + options_len, packet_type: PT_ETH })
}

fn gtpu(packet: &Packet, tunnel: &mut Tunnel) -> Option<Inner> {
    let (rest, at) = udp(packet, tunnel)?;
    let (&[flags, kind, _, _, t0, t1, t2, t3], rest) = rest.split_first_chunk::<HEADER>()?;
    tunnel.gtpu_flags = flags;
    tunnel.gtpu_msgtype = kind;
    tunnel.tun_id.set(u64::from(u32::from_be_bytes([t0, t1, t2, t3])));
    if kind != GTPU_PACKET {
        return Some(Inner { at: 0, packet_type: PT_ETH });
    }
    let more = if flags & GTPU_SEQ != 0 { 4 } else { 0 };
    let packet_type = match rest.get(more)? >> 4 {
        4 => PT_IPV4,
        6 => PT_IPV6,
        _ => return None,
    };
    Some(Inner { at: at + HEADER + more, packet_type })
}

fn gre(packet: &Packet, tunnel: &mut Tunnel) -> Option<Inner> {
    let l4 = packet.l4()?;
    let &[f0, f1, p0, p1] = l4.first_chunk()?;
    let flags = u16::from_be_bytes([f0, f1]);
    if flags & !(GRE_CSUM | GRE_KEY | GRE_SEQ) != 0 {
        return None;
    }
    let len = gre_len(flags);
    let mut options = l4.get(4..len)?.as_chunks::<4>().0.iter();
    if flags & GRE_CSUM != 0 {
        // One that we made ourselves was made when all behind it was final.
        if checksum::internet(l4) != [0, 0] && packet.tso_segsz == 0 {
            return None;
        }
        tunnel.flags |= TNL_F_CSUM;
        options.next();
    }
    if flags & GRE_KEY != 0 {
        tunnel.tun_id.set(u64::from(u32::from_be_bytes(*options.next()?)));
        tunnel.flags |= TNL_F_KEY;
    }
    let packet_type = match u16::from_be_bytes([p0, p1]) {
        ETH_TEB => PT_ETH,
        ethertype if ethertype >= ETH_TYPE_MIN => packet_type(ethertype),
        _ => return None,
    };
    Some(Inner { at: usize::from(packet.l4_ofs) + len, packet_type })
}

fn erspan(packet: &Packet, tunnel: &mut Tunnel) -> Option<Inner> {
    let l4 = packet.l4()?;
    let &[f0, f1, p0, p1] = l4.first_chunk()?;
    let known = matches!(u16::from_be_bytes([p0, p1]), ETH_ERSPAN1 | ETH_ERSPAN2);
    let flags = u16::from_be_bytes([f0, f1]);
    if !known || flags & !GRE_SEQ != 0 {
        return None;
    }
    // The header of ERSPAN begins behind a sequence number, whether or not the flag is there, as in OVS.
    let header = l4.get(8..)?;
    let &[version, _, s0, s1, ..] = header else { return None };
    tunnel.tun_id.set(u64::from(u16::from_be_bytes([s0, s1]) & 0x3ff));
    tunnel.erspan_ver = version >> 4;
    tunnel.flags |= TNL_F_KEY;
    let len = match tunnel.erspan_ver {
        1 => {
            tunnel.erspan_idx = u32::from_be_bytes(*header.get(4..)?.first_chunk()?);
            8
        }
        2 => {
            let &[m0, m1] = header.get(10..)?.first_chunk()?;
            tunnel.erspan_hwid = (m0 & 3) << 4 | m1 >> 4;
            tunnel.erspan_dir = m1 >> 3 & 1;
            12
        }
        _ => return None,
    };
    Some(Inner { at: usize::from(packet.l4_ofs) + 8 + len, packet_type: PT_ETH })
}

/// A routing header that is at its last segment, and an IP packet behind it.
fn srv6(packet: &Packet) -> Option<Inner> {
    let l3 = packet.l3()?;
    let (header, mut rest) = l3.split_first_chunk::<IPV6>()?;
    let mut proto = header[6];
    let mut at = usize::from(packet.l3_ofs) + IPV6;
    let mut segments = false;
    loop {
        match proto {
            // Hop-by-hop options, destination options.
            0 | 60 => {}
            43 => {
                let &[_, _, kind, left, ..] = rest else { return None };
                if kind != ROUTING_SEGMENTS || left != 0 {
                    return None;
                }
                segments = true;
            }
            IP_IPIP | IP_IPV6 if segments => {
                let packet_type = if proto == IP_IPIP { PT_IPV4 } else { PT_IPV6 };
                return Some(Inner { at, packet_type });
            }
            _ => return None,
        }
        let &[next, units, ..] = rest else { return None };
        let len = (usize::from(units) + 1) * 8;
        rest = rest.get(len..)?;
        at += len;
        proto = next;
    }
}
