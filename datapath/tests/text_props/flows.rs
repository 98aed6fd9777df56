//! Flows such as extraction and translation make them, with any mask that text can say.

use datapath::flow::{
    Flow, NW_FRAG_ANY, NW_FRAG_LATER, TNL_F_KEY, TNL_F_MASK, TNL_F_UDPIF, Tunnel, VLAN_CFI,
};
use datapath::types::MacAddr;

use super::chance::Chance;

/// A key and a mask.
pub fn flow(c: &mut Chance<'_>) -> (Flow, Flow) {
    let (mut key, mut mask) = (Flow::default(), Flow::default());
    metadata(c, &mut key, &mut mask);
    if c.maybe() {
        tunnel(c, &mut key.tunnel, &mut mask.tunnel);
    }
    mask.dl_type.set(u16::MAX);
    // No mask for a tag means that there is none.
    mask.vlans[0].tpid.set(u16::MAX);
    mask.vlans[0].tci.set(u16::MAX);
    let dl_type =
        [0x0800, 0x86dd, 0x0806, 0x8035, 0x8847, 0x8848, 0x894f, 0x88b5, 0x05ff][c.below(9) as usize];
    key.dl_type.set(dl_type);
    if dl_type != 0x05ff && c.below(8) == 0 {
        key.packet_type.set(1 << 16 | u32::from(dl_type));
        mask.packet_type.set(u32::MAX);
    } else {
        mask.packet_type.set(c.u32());
        (key.dl_src, mask.dl_src) = (MacAddr(c.bytes()), MacAddr(c.mask()));
        (key.dl_dst, mask.dl_dst) = (MacAddr(c.bytes()), MacAddr(c.mask()));
        tags(c, &mut key, &mut mask);
    }
    match key.dl_type.get() {
        0x0800 | 0x86dd => ip(c, &mut key, &mut mask),
        0x0806 | 0x8035 => {
            addresses(c, &mut key, &mut mask);
            (key.nw_proto, mask.nw_proto) = (c.u8(), c.u8());
            (key.arp_sha, mask.arp_sha) = (MacAddr(c.bytes()), MacAddr(c.mask()));
            (key.arp_tha, mask.arp_tha) = (MacAddr(c.bytes()), MacAddr(c.mask()));
        }
        0x8847 | 0x8848 => mpls(c, &mut key, &mut mask),
        0x894f => nsh(c, &mut key, &mut mask),
        _ => {}
    }
    (key, mask)
}

fn metadata(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    (key.recirc_id, mask.recirc_id) = (c.u32(), u32::MAX);
    (key.dp_hash, mask.dp_hash) = (c.u32(), c.u32());
    (key.skb_priority, mask.skb_priority) = (c.u32(), c.u32());
    (key.in_port, mask.in_port) = (c.u32() >> 1, u32::MAX);
    (key.pkt_mark, mask.pkt_mark) = (c.u32(), c.u32());
    (key.ct_state, mask.ct_state) = (c.u8(), c.u8());
    (key.ct_zone, mask.ct_zone) = (c.u16(), c.u16());
    (key.ct_mark, mask.ct_mark) = (c.u32(), c.u32());
    key.ct_label.set(c.u128());
    mask.ct_label.set(c.u128());
}

fn tunnel(c: &mut Chance<'_>, key: &mut Tunnel, mask: &mut Tunnel) {
    // What is zero is not printed, and so is its mask.
    if c.maybe() {
        key.ipv6_dst = c.bytes();
        key.ipv6_dst[0] = 0x20;
        mask.ipv6_dst = c.mask();
        key.ipv6_src = c.bytes();
        key.ipv6_src[0] = 0x20;
        mask.ipv6_src = c.mask();
    } else {
        key.ip_dst.set(c.u32() | 1);
        mask.ip_dst.set(c.u32());
        key.ip_src.set(c.u32() | 1);
        mask.ip_src.set(c.u32());
    }
    (key.ip_ttl, mask.ip_ttl) = (c.u8(), c.u8());
    (key.ip_tos, mask.ip_tos) = (c.u8() | 1, c.u8());
    key.tp_dst.set(c.u16() | 1);
    mask.tp_dst.set(c.u16());
    let flags = TNL_F_MASK & !TNL_F_KEY;
    (key.flags, mask.flags) = (c.u16() & flags, c.u16() & flags);
    if c.maybe() {
        key.tun_id.set(c.word());
        mask.tun_id.set(c.word());
        key.flags |= TNL_F_KEY;
        mask.flags |= TNL_F_KEY;
    }
    match c.below(5) {
        0 => {
            key.gbp_id.set(c.u16() | 1);
            mask.gbp_id.set(c.u16());
            (key.gbp_flags, mask.gbp_flags) = (c.u8(), c.u8());
        }
        1 => {
            (key.erspan_ver, mask.erspan_ver) = (1, 0xff);
            (key.erspan_idx, mask.erspan_idx) = (c.u32(), c.u32());
        }
        2 => {
            (key.erspan_ver, mask.erspan_ver) = (2, 0xff);
            (key.erspan_dir, mask.erspan_dir) = (c.u8() & 1, [0, 0xff][c.below(2) as usize]);
            (key.erspan_hwid, mask.erspan_hwid) = (c.u8() & 0x3f, [0, 0xff][c.below(2) as usize]);
        }
        3 => {
            (key.gtpu_flags, key.gtpu_msgtype) = (c.u8() | 1, c.u8() | 1);
            if c.maybe() {
                (mask.gtpu_flags, mask.gtpu_msgtype) = (c.u8() | 1, c.u8() | 1);
            }
        }
        _ => geneve(c, key, mask),
    }
}

fn geneve(c: &mut Chance<'_>, key: &mut Tunnel, mask: &mut Tunnel) {
    key.flags |= TNL_F_UDPIF;
    mask.flags |= TNL_F_UDPIF;
    mask.opts_len = u8::MAX;
    let mut at = 0;
    for _ in 0..c.below(4) {
        let words = c.below(16) as usize;
        let end = at + 4 + words * 4;
        key.opts[at..at + 3].copy_from_slice(&c.bytes::<3>());
        mask.opts[at..at + 3].copy_from_slice(&c.mask::<3>());
        (key.opts[at + 3], mask.opts[at + 3]) = (words as u8, 0x1f);
        let wildcard = c.maybe();
        for byte in at + 4..end {
            (key.opts[byte], mask.opts[byte]) = (c.u8(), if wildcard { 0 } else { c.u8() });
        }
        at = end;
    }
    key.opts_len = at as u8;
}

fn tags(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    let tpid = |c: &mut Chance<'_>| [0x8100, 0x88a8][c.below(2) as usize];
    let depth = c.below(4) as usize % 3;
    for i in 0..depth {
        key.vlans[i].tpid.set(tpid(c));
        key.vlans[i].tci.set(c.u16() | VLAN_CFI);
        mask.vlans[i].tpid.set(u16::MAX);
        mask.vlans[i].tci.set(c.u16() | VLAN_CFI);
    }
    if depth == 0 && c.below(10) == 0 {
        // A frame that ends in its tag.
        key.dl_type.set(tpid(c));
        mask.vlans[0].tci.set(c.u16() | VLAN_CFI);
    }
}

fn addresses(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    key.nw_src.set(c.u32());
    mask.nw_src.set(c.u32());
    key.nw_dst.set(c.u32());
    mask.nw_dst.set(c.u32());
}

fn ip(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    let v6 = key.dl_type.get() == 0x86dd;
    if v6 {
        (key.ipv6_src, mask.ipv6_src) = (c.bytes(), c.mask());
        (key.ipv6_dst, mask.ipv6_dst) = (c.bytes(), c.mask());
        key.ipv6_label.set(c.bits(20) as u32);
        mask.ipv6_label.set(c.bits(20) as u32);
    } else {
        addresses(c, key, mask);
    }
    (key.nw_tos, mask.nw_tos) = (c.u8(), c.u8());
    (key.nw_ttl, mask.nw_ttl) = (c.u8(), c.u8());
    (key.nw_proto, mask.nw_proto) = ([6, 17, 132, 1, 58, 47][c.below(6) as usize], u8::MAX);
    key.nw_frag = [0, NW_FRAG_ANY, NW_FRAG_ANY | NW_FRAG_LATER][c.below(3) as usize];
    mask.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    if c.maybe() {
        original_tuple(c, v6, key, mask);
    }
    if key.nw_frag & NW_FRAG_LATER != 0 {
        return;
    }
    match (key.nw_proto, v6) {
        (6 | 17 | 132, _) => {
            key.tp_src.set(c.u16());
            mask.tp_src.set(c.u16());
            key.tp_dst.set(c.u16());
            mask.tp_dst.set(c.u16());
            if key.nw_proto == 6 {
                key.tcp_flags.set(c.u16() & 0xfff);
                mask.tcp_flags.set(if c.maybe() { u16::MAX } else { c.u16() & 0x7ff });
            }
        }
        (1, false) | (58, true) => {
            key.tp_src.set([c.u8().into(), 135, 136][c.below(3) as usize]);
            mask.tp_src.set([c.u8().into(), 0xff][c.below(2) as usize]);
            key.tp_dst.set(c.bits(1) as u16);
            mask.tp_dst.set(c.u8().into());
            let is_nd = v6 && matches!(key.tp_src.get(), 135 | 136) && key.tp_dst.get() == 0;
            if is_nd && mask.tp_src.get() == 0xff {
                (key.nd_target, mask.nd_target) = (c.bytes(), c.mask());
                (key.arp_sha, mask.arp_sha) = (MacAddr(c.bytes()), MacAddr(c.mask()));
                (key.arp_tha, mask.arp_tha) = (MacAddr(c.bytes()), MacAddr(c.mask()));
            }
        }
        _ => {}
    }
}

fn original_tuple(c: &mut Chance<'_>, v6: bool, key: &mut Flow, mask: &mut Flow) {
    if v6 {
        (key.ct_ipv6_src, mask.ct_ipv6_src) = (c.bytes(), c.mask());
        (key.ct_ipv6_dst, mask.ct_ipv6_dst) = (c.bytes(), c.mask());
    } else {
        key.ct_nw_src.set(c.u32());
        mask.ct_nw_src.set(c.u32());
        key.ct_nw_dst.set(c.u32());
        mask.ct_nw_dst.set(c.u32());
    }
    (key.ct_nw_proto, mask.ct_nw_proto) = (c.u8() | 1, c.u8());
    key.ct_tp_src.set(c.u16());
    mask.ct_tp_src.set(c.u16());
    key.ct_tp_dst.set(c.u16());
    mask.ct_tp_dst.set(c.u16());
}

fn mpls(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    const BOS: u32 = 0x100;
    let labels = 1 + c.below(3) as usize;
    for i in 0..labels {
        let bottom = if i + 1 == labels { BOS } else { 0 };
        // An entry of all zero above the bottom is not counted.
        key.mpls_lse[i].set((c.u32() & !BOS) | 1 | bottom);
        mask.mpls_lse[i].set(c.u32());
    }
}

fn nsh(c: &mut Chance<'_>, key: &mut Flow, mask: &mut Flow) {
    (key.nsh.flags, mask.nsh.flags) = (c.u8(), c.u8());
    (key.nsh.ttl, mask.nsh.ttl) = (c.u8(), c.u8());
    (key.nsh.mdtype, mask.nsh.mdtype) = (c.u8(), c.u8());
    (key.nsh.np, mask.nsh.np) = (c.u8(), c.u8());
    key.nsh.path_hdr.set(c.u32());
    mask.nsh.path_hdr.set(c.u32());
    for i in 0..4 {
        key.nsh.context[i].set(c.u32());
        mask.nsh.context[i].set(c.u32());
    }
}

/// The lines of two flows' debug text that differ.
pub fn difference(ours: &Flow, theirs: &Flow) -> String {
    let (ours, theirs) = (format!("{ours:#?}"), format!("{theirs:#?}"));
    let lines = ours.lines().zip(theirs.lines()).filter(|(a, b)| a != b);
    lines.map(|(a, b)| format!("{} instead of {}\n", a.trim(), b.trim())).collect()
}
