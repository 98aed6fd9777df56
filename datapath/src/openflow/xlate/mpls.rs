//! Label stacks in keys.
//!
//! Counterpart: the `flow_*mpls*` functions of OVS `lib/flow.c`.

use zerocopy::{FromZeros, IntoBytes};

use crate::flow::{Flow, SEGMENT_ENDS};
use crate::openflow::headers::{IP_DSCP_MASK, ethertype, is_ip_any, or_be32};

/// Label stack entries that a key holds (OVS `FLOW_MAX_MPLS_LABELS`).
pub(super) const MAX_LABELS: usize = 3;
/// Label bits of an entry.
pub(super) const LABEL_MASK: u32 = 0xffff_f000;
/// Traffic class bits.
pub(super) const TC_MASK: u32 = 0x0000_0e00;
/// Bottom-of-stack bit.
const BOS_MASK: u32 = 0x0000_0100;
/// TTL bits.
pub(super) const TTL_MASK: u32 = 0x0000_00ff;

/// How many entries there are; marks in `wc` what says so.
pub(super) fn count(flow: &Flow, mut wc: Option<&mut Flow>) -> usize {
    if !ethertype::is_mpls(flow.dl_type.get()) {
        return 0;
    }
    let mut n = 0;
    for i in 0..MAX_LABELS {
        if let Some(wc) = wc.as_deref_mut() {
            or_be32(&mut wc.mpls_lse[i], BOS_MASK);
        }
        let lse = flow.mpls_lse[i].get();
        if lse & BOS_MASK != 0 {
            return i + 1;
        }
        n += usize::from(lse != 0);
    }
    n
}

/// How many entries, from the bottom, two stacks share.
pub(super) fn count_common(a: &Flow, a_n: usize, b: &Flow, b_n: usize) -> usize {
    let same = |&i: &usize| a.mpls_lse[a_n - 1 - i] == b.mpls_lse[b_n - 1 - i];
    (0..a_n.min(b_n)).take_while(same).count()
}

/// Pushes an entry on a stack of `n`, less than [`MAX_LABELS`]. The first takes traffic class and TTL from the IP
/// header; what is behind it cannot be seen any more, so `clear` wipes it.
pub(super) fn push(flow: &mut Flow, n: usize, ethertype: u16, wc: Option<&mut Flow>, clear: bool) {
    if n > 0 {
        if let Some(wc) = wc {
            wc.mpls_lse[..n].iter_mut().for_each(|lse| lse.set(u32::MAX));
        }
        flow.mpls_lse.copy_within(0..n, 1);
        let top = flow.mpls_lse[1].get();
        flow.mpls_lse[0].set(top & !BOS_MASK);
    } else {
        // Explicit null, RFC 3032 2.1.
        let label = if flow.dl_type.get() == ethertype::IPV6 { 2 } else { 0 };
        let (mut tc, mut ttl) = (0, 64);
        if is_ip_any(flow) {
            tc = u32::from((flow.nw_tos & IP_DSCP_MASK) >> 2);
            if let Some(wc) = wc {
                wc.nw_tos |= IP_DSCP_MASK;
                wc.nw_ttl = u8::MAX;
            }
            if flow.nw_ttl != 0 {
                ttl = u32::from(flow.nw_ttl);
            }
        }
        flow.mpls_lse[0].set(label << 12 | (tc & 7) << 9 | BOS_MASK | ttl);
        if clear {
            flow.as_mut_bytes()[SEGMENT_ENDS[1] * 8..].zero();
            flow.dp_hash = 0;
        }
    }
    flow.dl_type.set(ethertype);
}

/// Pops an entry of a stack of `n`; what is behind has this Ethernet type. Returns false if that cannot be done:
/// there is none, or the stack is deeper than a key can tell.
pub(super) fn pop(flow: &mut Flow, n: usize, ethertype: u16, mut wc: Option<&mut Flow>) -> bool {
    if n == 0 {
        return false;
    }
    if n == MAX_LABELS {
        if let Some(wc) = wc.as_deref_mut() {
            or_be32(&mut wc.mpls_lse[n - 1], BOS_MASK);
        }
        if flow.mpls_lse[n - 1].get() & BOS_MASK == 0 {
            return false;
        }
    }
    if let Some(wc) = wc {
        wc.mpls_lse[1..n].iter_mut().for_each(|lse| lse.set(u32::MAX));
    }
    flow.mpls_lse.copy_within(1..n, 0);
    flow.mpls_lse[n - 1].set(0);
    flow.dl_type.set(ethertype);
    true
}

/// Overwrites the bits of `mask` in the top entry.
pub(super) fn set_bits(flow: &mut Flow, mask: u32, bits: u32) {
    let lse = flow.mpls_lse[0].get();
    flow.mpls_lse[0].set(lse & !mask | bits & mask);
}
