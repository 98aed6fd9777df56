//! The mask that a translation starts from, and what becomes of it at the end.
//!
//! Counterpart: `xlate_wc_init()` and `xlate_wc_finish()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER, Tunnel, VLAN_CFI};
use crate::openflow::headers::{ethertype, is_icmpv4, is_icmpv6, is_ip_any, or_be16, packet_type};
use crate::openflow::tunnel::received_mask;
use crate::types::MacAddr;
use zerocopy::FromZeros;

/// What every megaflow matches.
pub(super) fn initial(flow: &Flow) -> Flow {
    let mut wc = Flow { in_port: u32::MAX, recirc_id: u32::MAX, ..Flow::default() };
    wc.packet_type.set(u32::MAX);
    wc.dl_type.set(u16::MAX);
    if is_ip_any(flow) {
        wc.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    }
    received_mask(flow, &mut wc);
    wc
}

/// Takes out of the mask what a datapath cannot match, and what the packet, `original`, does not have.
pub(super) fn finish(wc: &mut Flow, flow: &Flow, original: &Flow) {
    clear_non_packet_fields(wc);
    if original.packet_type.get() != packet_type::ETHERNET {
        wc.dl_dst = MacAddr::ZERO;
        wc.dl_src = MacAddr::ZERO;
    }
    // Type and code of ICMP are bytes in the datapath.
    if is_icmpv4(flow, None) || is_icmpv6(flow, None) {
        wc.tp_src.set(wc.tp_src.get() & 0xff);
        wc.tp_dst.set(wc.tp_dst.get() & 0xff);
    }
    for vlan in &mut wc.vlans {
        if vlan.tci.get() != 0 {
            or_be16(&mut vlan.tci, VLAN_CFI);
        }
    }
    // Rules may match ports without matching fragments, but later fragments have no ports.
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        wc.tp_src.set(0);
        wc.tp_dst.set(0);
    }
    // What actions pushed, and then looked at, is not in the packet.
    if !ethertype::is_mpls(original.dl_type.get()) {
        wc.mpls_lse.iter_mut().for_each(|lse| lse.set(0));
    }
    for (mask, vlan) in wc.vlans.iter_mut().zip(&original.vlans) {
        if !ethertype::is_vlan(vlan.tpid.get()) {
            mask.zero();
        }
    }
    if !original.tunnel.is_set() {
        wc.tunnel = Tunnel::new_zeroed();
    }
}

/// Wildcards what is not in packets: a datapath does not know it.
pub(crate) fn clear_non_packet_fields(wc: &mut Flow) {
    wc.metadata.set(0);
    wc.regs = [0; 32];
    wc.actset_output = 0;
    wc.conj_id = 0;
}

/// What the datapath makes of a mask that says nothing about VLANs: that there is no tag. Datapath flows as text cannot
/// say that tags do not matter, so that a mask that did would not survive a round trip (OVS `lib/dpif-netdev.c`).
pub(crate) fn require_no_vlan(wc: &mut Flow) {
    if wc.vlans[0].tci.get() == 0 {
        wc.vlans[0].tci.set(0x0fff | VLAN_CFI);
    }
}
