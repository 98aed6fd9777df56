//! VLAN tags in keys.
//!
//! Counterpart: the `flow_*vlan*` functions of OVS `lib/flow.c`.

use zerocopy::FromZeros;

use crate::flow::{Flow, VLAN_CFI, VlanHeader};

/// How many tags there are.
pub(super) fn count(flow: &Flow) -> usize {
    flow.vlans.iter().take_while(|vlan| vlan.tci.get() & VLAN_CFI != 0).count()
}

fn mark(vlans: &mut [VlanHeader]) {
    for vlan in vlans {
        vlan.tpid.set(u16::MAX);
        vlan.tci.set(u16::MAX);
    }
}

/// Pops the outermost tag, if there is one.
pub(super) fn pop(flow: &mut Flow, wc: &mut Flow) {
    let n = count(flow);
    if n == 0 {
        return;
    }
    mark(&mut wc.vlans[1..n.max(1)]);
    flow.vlans.copy_within(1..n, 0);
    flow.vlans[n - 1].zero();
}

/// Makes room for a tag outside of the others; the innermost is lost if there is none.
pub(super) fn push(flow: &mut Flow, wc: &mut Flow) {
    mark(&mut wc.vlans[..count(flow)]);
    let last = flow.vlans.len() - 1;
    flow.vlans.copy_within(0..last, 1);
    flow.vlans[0].zero();
}
