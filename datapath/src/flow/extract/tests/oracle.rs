//! Extraction once more, slow and obvious: one field after the other, by its position in the frame.

use crate::flow::{ExtractConfig, Flow, NW_FRAG_ANY, NW_FRAG_LATER};
use crate::offload::Offloads;
use crate::packet::{NO_OFFSET, Packet};

/// What should come out for a packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected {
    pub flow: Flow,
    pub l2_pad_size: u16,
    pub l2_5_ofs: u16,
    pub l3_ofs: u16,
    pub l4_ofs: u16,
    pub proto: Offloads,
}

struct Frame<'a>(&'a [u8]);

impl Frame<'_> {
    fn has(&self, at: usize, len: usize) -> bool {
        at + len <= self.0.len()
    }

    fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from(self.u8(at)) << 8 | u16::from(self.u8(at + 1))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().unwrap()
    }
}

pub fn expected(packet: &Packet, config: ExtractConfig) -> Expected {
    let mut e = Expected {
        flow: Flow::default(),
        l2_pad_size: 0,
        l2_5_ofs: NO_OFFSET,
        l3_ofs: NO_OFFSET,
        l4_ofs: NO_OFFSET,
        proto: Offloads::empty(),
    };
    metadata(packet, &mut e.flow);
    let mut f = Frame(packet.data());
    let mut at = 0;
    let dl_type;
    if packet.packet_type == 0 {
        if !f.has(0, 14) {
            return e;
        }
        e.flow.dl_dst.0 = f.array(0);
        e.flow.dl_src.0 = f.array(6);
        at = 12;
        for i in 0..if config.vlan_limit == 1 { 1 } else { 2 } {
            if (f.u16(at) == 0x8100 || f.u16(at) == 0x88a8) && f.has(at, 6) {
                e.flow.vlans[i].tpid.set(f.u16(at));
                e.flow.vlans[i].tci.set(f.u16(at + 2) | 0x1000);
                at += 4;
            } else {
                break;
            }
        }
        let type_or_length = f.u16(at);
        at += 2;
        if type_or_length >= 0x600 {
            dl_type = type_or_length;
        } else if f.has(at, 8) && f.array(at) == [0xaa, 0xaa, 3, 0, 0, 0] {
            let snap = f.u16(at + 6);
            at += 8;
            dl_type = if snap >= 0x600 { snap } else { 0x5ff };
        } else {
            dl_type = 0x5ff;
        }
    } else {
        dl_type = (packet.packet_type & 0xffff) as u16;
    }
    e.flow.dl_type.set(dl_type);
    if dl_type == 0x8847 || dl_type == 0x8848 {
        e.l2_5_ofs = at as u16;
        let mut n = 0;
        while f.has(at, 4) {
            let entry = f.u32(at);
            if n < 3 {
                e.flow.mpls_lse[n].set(entry);
            }
            n += 1;
            at += 4;
            if entry & 0x100 != 0 {
                break;
            }
        }
    }
    e.l3_ofs = at as u16;
    match dl_type {
        0x0800 => ipv4(packet, &mut f, at, &mut e),
        0x86dd => ipv6(packet, &mut f, at, &mut e),
        0x0806 | 0x8035 => arp(&f, at, &mut e.flow),
        0x894f => nsh(&f, at, &mut e.flow),
        _ => {}
    }
    e
}

fn metadata(packet: &Packet, flow: &mut Flow) {
    let md = &packet.md;
    flow.recirc_id = md.recirc_id;
    flow.dp_hash = md.dp_hash;
    flow.skb_priority = md.skb_priority;
    flow.pkt_mark = md.pkt_mark;
    flow.in_port = md.in_port.0;
    flow.packet_type.set(packet.packet_type);
    if let Some(tunnel) = md.tunnel() {
        flow.tunnel = *tunnel;
        if tunnel.opt_map == 0 {
            flow.tunnel.opts[usize::from(tunnel.opts_len)..].fill(0);
        }
    }
    if let Some(ct) = md.ct() {
        flow.ct_state = md.ct_state;
        flow.ct_zone = ct.zone;
        flow.ct_mark = ct.mark;
        flow.ct_label.set(ct.label);
    }
}

fn ipv4(packet: &Packet, f: &mut Frame<'_>, at: usize, e: &mut Expected) {
    if !f.has(at, 20) {
        return;
    }
    let header_len = usize::from(f.u8(at) & 15) * 4;
    let total = usize::from(f.u16(at + 2));
    if header_len < 20 || total < header_len || !f.has(at, total) || f.0.len() - at - total > 65535 {
        return;
    }
    e.l2_pad_size = (f.0.len() - at - total) as u16;
    f.0 = &f.0[..at + total];
    let flow = &mut e.flow;
    flow.nw_tos = f.u8(at + 1);
    flow.nw_ttl = f.u8(at + 8);
    flow.nw_proto = f.u8(at + 9);
    flow.nw_src.set(f.u32(at + 12));
    flow.nw_dst.set(f.u32(at + 16));
    if f.u16(at + 6) & 0x2000 != 0 {
        flow.nw_frag = NW_FRAG_ANY;
    }
    if f.u16(at + 6) & 0x1fff != 0 {
        flow.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    }
    if let Some(ct) = packet.md.ct()
        && !ct.orig_ipv6
        && ct.orig_proto != 0
    {
        flow.ct_nw_proto = ct.orig_proto;
        flow.ct_nw_src.as_mut_array().copy_from_slice(&ct.orig_src[..4]);
        flow.ct_nw_dst.as_mut_array().copy_from_slice(&ct.orig_dst[..4]);
    }
    l4(packet, f, at + header_len, e);
}

/// The four bytes of a big-endian word, to write.
trait AsMutArray {
    fn as_mut_array(&mut self) -> &mut [u8];
}

impl AsMutArray for zerocopy::network_endian::U32 {
    fn as_mut_array(&mut self) -> &mut [u8] {
        zerocopy::IntoBytes::as_mut_bytes(self)
    }
}

fn ipv6(packet: &Packet, f: &mut Frame<'_>, at: usize, e: &mut Expected) {
    if !f.has(at, 40) {
        return;
    }
    let total = 40 + usize::from(f.u16(at + 4));
    if !f.has(at, total) || f.0.len() - at - total > 65535 {
        return;
    }
    e.l2_pad_size = (f.0.len() - at - total) as u16;
    f.0 = &f.0[..at + total];
    e.flow.ipv6_src = f.array(at + 8);
    e.flow.ipv6_dst = f.array(at + 24);
    if let Some(ct) = packet.md.ct()
        && ct.orig_ipv6
        && ct.orig_proto != 0
    {
        e.flow.ct_nw_proto = ct.orig_proto;
        e.flow.ct_ipv6_src = ct.orig_src;
        e.flow.ct_ipv6_dst = ct.orig_dst;
    }
    let (mut next, mut here, mut frag) = (f.u8(at + 6), at + 40, 0);
    loop {
        match next {
            0 | 43 | 60 | 51 => {
                if !f.has(here, 8) {
                    return;
                }
                let units = usize::from(f.u8(here + 1));
                let len = if next == 51 { (units + 2) * 4 } else { (units + 1) * 8 };
                if !f.has(here, len) {
                    return;
                }
                next = f.u8(here);
                here += len;
            }
            44 => {
                if !f.has(here, 8) {
                    return;
                }
                next = f.u8(here);
                let offset = f.u16(here + 2);
                here += 8;
                if offset != 0 {
                    frag = NW_FRAG_ANY;
                }
                if offset & 0xfff8 != 0 {
                    frag = NW_FRAG_ANY | NW_FRAG_LATER;
                    next = 44;
                    break;
                }
            }
            _ => break,
        }
    }
    let first = f.u32(at);
    e.flow.ipv6_label.set(first & 0xf_ffff);
    e.flow.nw_tos = (first >> 20) as u8;
    e.flow.nw_ttl = f.u8(at + 7);
    e.flow.nw_frag = frag;
    e.flow.nw_proto = next;
    l4(packet, f, here, e);
}

fn l4(packet: &Packet, f: &Frame<'_>, at: usize, e: &mut Expected) {
    e.l4_ofs = at as u16;
    let flow = &mut e.flow;
    let nd = |f: &Frame<'_>| f.has(at, 2) && matches!(f.u8(at), 135 | 136) && f.u8(at + 1) == 0;
    let mut ct_ports = match flow.ct_nw_proto {
        0 => None,
        _ => packet.md.ct().map(|ct| (ct.orig_tp_src, ct.orig_tp_dst)),
    };
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        let has_ports = matches!(flow.ct_nw_proto, 6 | 17 | 132 | 1) || flow.ct_nw_proto == 58 && !nd(f);
        if !has_ports {
            ct_ports = None;
        }
    } else {
        match flow.nw_proto {
            6 if f.has(at, 20) => {
                let header_len = usize::from(f.u8(at + 12) >> 4) * 4;
                if header_len < 20 || !f.has(at, header_len) {
                    return;
                }
                flow.tcp_flags.set(f.u16(at + 12) & 0xfff);
                flow.tp_src.set(f.u16(at));
                flow.tp_dst.set(f.u16(at + 2));
                e.proto = Offloads::L4_TCP;
            }
            17 if f.has(at, 8) => {
                flow.tp_src.set(f.u16(at));
                flow.tp_dst.set(f.u16(at + 2));
                e.proto = Offloads::L4_UDP;
            }
            132 if f.has(at, 12) => {
                flow.tp_src.set(f.u16(at));
                flow.tp_dst.set(f.u16(at + 2));
                e.proto = Offloads::L4_SCTP;
            }
            1 if f.has(at, 8) => {
                flow.tp_src.set(f.u8(at).into());
                flow.tp_dst.set(f.u8(at + 1).into());
            }
            2 if f.has(at, 8) => {
                flow.tp_src.set(f.u8(at).into());
                flow.tp_dst.set(f.u8(at + 1).into());
                flow.igmp_group_ip4.set(f.u32(at + 4));
                ct_ports = None;
            }
            58 if f.has(at, 8) => {
                flow.tp_src.set(f.u8(at).into());
                flow.tp_dst.set(f.u8(at + 1).into());
                if nd(f) {
                    ct_ports = None;
                    flow.igmp_group_ip4.set(f.u32(at + 4));
                    nd_options(f, at + 8, flow);
                }
            }
            _ => return,
        }
    }
    if let Some((src, dst)) = ct_ports {
        flow.ct_tp_src.set(src);
        flow.ct_tp_dst.set(dst);
    }
}

fn nd_options(f: &Frame<'_>, at: usize, flow: &mut Flow) {
    if !f.has(at, 16) {
        return;
    }
    flow.nd_target = f.array(at);
    let mut at = at + 16;
    while f.has(at, 8) && f.u8(at + 1) != 0 && f.has(at, usize::from(f.u8(at + 1)) * 8) {
        let (kind, len) = (f.u8(at), f.u8(at + 1));
        if (kind == 1 || kind == 2) && len == 1 {
            let slot = if kind == 1 { &mut flow.arp_sha } else { &mut flow.arp_tha };
            if slot.0 != [0; 6] {
                flow.nd_target = [0; 16];
                flow.arp_sha.0 = [0; 6];
                flow.arp_tha.0 = [0; 6];
                return;
            }
            slot.0 = f.array(at + 2);
            if flow.tcp_flags.get() == 0 {
                flow.tcp_flags.set(kind.into());
            }
        }
        at += usize::from(len) * 8;
    }
}

fn arp(f: &Frame<'_>, at: usize, flow: &mut Flow) {
    if !f.has(at, 28) || f.array(at) != [0, 1, 8, 0, 6, 4] {
        return;
    }
    if f.u16(at + 6) < 256 {
        flow.nw_proto = f.u8(at + 7);
    }
    flow.arp_sha.0 = f.array(at + 8);
    flow.nw_src.set(f.u32(at + 14));
    flow.arp_tha.0 = f.array(at + 18);
    flow.nw_dst.set(f.u32(at + 24));
}

fn nsh(f: &Frame<'_>, at: usize, flow: &mut Flow) {
    if !f.has(at, 8) {
        return;
    }
    let base = f.u16(at);
    let len = usize::from(base & 63) * 4;
    let kind = f.u8(at + 2);
    if base & 0xc000 != 0 || !f.has(at, len) || kind == 1 && len != 24 || kind == 2 && len < 8 {
        return;
    }
    flow.nsh.flags = (base >> 12 & 3) as u8;
    flow.nsh.ttl = (base >> 6 & 63) as u8;
    flow.nsh.mdtype = kind;
    flow.nsh.np = f.u8(at + 3);
    flow.nsh.path_hdr.set(f.u32(at + 4));
    if kind == 1 {
        for i in 0..4 {
            flow.nsh.context[i].set(f.u32(at + 8 + 4 * i));
        }
    }
}
