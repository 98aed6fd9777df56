//! What a tunnel's settings make of a packet's tunnel metadata, and what of it matters on the way in.
//!
//! Counterpart: `tnl_port_send()`, `tnl_wc_init()` and `tnl_process_ecn()` of OVS `ofproto/tunnel.c`.

use std::net::Ipv6Addr;

use super::config::{Csum, DEFAULT_TTL, Endpoint, Key, Setting, TunnelConfig};
use crate::flow::{Flow, TNL_F_CSUM, TNL_F_DONT_FRAGMENT, TNL_F_KEY, TNL_F_MASK, TNL_F_OAM};
use crate::openflow::headers::{IP_DSCP_MASK, IP_ECN_MASK, is_ip_any};

const ECN_CE: u8 = 3;
const ECN_ECT_0: u8 = 2;

/// A packet that met congestion in the underlay, but whose sender does not know about that (RFC 6040, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EcnError;

fn set_end(v4: &mut zerocopy::network_endian::U32, v6: &mut [u8; 16], end: Option<Ipv6Addr>) {
    let end = end.unwrap_or(Ipv6Addr::UNSPECIFIED);
    match end.to_ipv4_mapped() {
        Some(address) => {
            v4.set(address.to_bits());
            *v6 = [0; 16];
        }
        None => {
            v4.set(0);
            *v6 = end.octets();
        }
    }
}

/// Makes the tunnel metadata of a packet what they are to be on output to such a port. Marks in `wc` what of the packet that
/// depends on.
pub(crate) fn outer(config: &TunnelConfig, flow: &mut Flow, wc: &mut Flow) {
    let is_ip = is_ip_any(flow);
    let (nw_tos, nw_ttl) = (flow.nw_tos, flow.nw_ttl);
    let tunnel = &mut flow.tunnel;
    if config.local != Endpoint::Flow {
        set_end(&mut tunnel.ip_src, &mut tunnel.ipv6_src, config.local.address());
    }
    if config.remote != Endpoint::Flow {
        set_end(&mut tunnel.ip_dst, &mut tunnel.ipv6_dst, config.remote.address());
    }
    tunnel.tp_src.set(0);
    tunnel.tp_dst.set(config.dst_port);
    if config.out_key != Key::Flow {
        tunnel.tun_id.set(config.out_key.value());
    }
    tunnel.ip_ttl = match config.ttl {
        Setting::Packet if is_ip => {
            wc.nw_ttl = u8::MAX;
            nw_ttl
        }
        // What is no IP has none to inherit.
        Setting::Packet => DEFAULT_TTL,
        Setting::Fixed(ttl) => ttl,
    };
    tunnel.ip_tos = match config.tos {
        Setting::Packet if is_ip => {
            wc.nw_tos |= IP_DSCP_MASK;
            nw_tos & IP_DSCP_MASK
        }
        Setting::Packet => 0,
        Setting::Fixed(tos) => tos,
    };
    if is_ip {
        wc.nw_tos |= IP_ECN_MASK;
        let ecn = nw_tos & IP_ECN_MASK;
        tunnel.ip_tos |= if ecn == ECN_CE { ECN_ECT_0 } else { ecn };
    }
    tunnel.flags &= !(TNL_F_MASK & !TNL_F_OAM);
    if config.dont_fragment {
        tunnel.flags |= TNL_F_DONT_FRAGMENT;
    }
    if config.out_key != Key::Absent {
        tunnel.flags |= TNL_F_KEY;
    }
    let v6 = tunnel.ip_dst.get() == 0;
    if config.csum == Csum::On || config.csum == Csum::Default && v6 {
        tunnel.flags |= TNL_F_CSUM;
    }
    if let Setting::Fixed(version) = config.erspan.version {
        tunnel.erspan_ver = version;
    }
    if let Setting::Fixed(index) = config.erspan.index {
        tunnel.erspan_idx = index;
    }
    if let Setting::Fixed(direction) = config.erspan.direction {
        tunnel.erspan_dir = direction;
    }
    if let Setting::Fixed(hardware) = config.erspan.hardware {
        tunnel.erspan_hwid = hardware;
    }
    if let Some(mark) = config.egress_mark {
        flow.pkt_mark = mark;
        wc.pkt_mark = u32::MAX;
    }
}

/// Adds to `wc` what every flow of packets received through a tunnel matches.
pub(crate) fn received_mask(flow: &Flow, wc: &mut Flow) {
    if !flow.tunnel.is_set() {
        return;
    }
    let mask = &mut wc.tunnel;
    mask.tun_id.set(u64::MAX);
    if flow.tunnel.ip_dst.get() != 0 {
        mask.ip_src.set(u32::MAX);
        mask.ip_dst.set(u32::MAX);
    } else {
        mask.ipv6_src = [0xff; 16];
        mask.ipv6_dst = [0xff; 16];
    }
    mask.flags = TNL_F_KEY;
    mask.ip_tos = u8::MAX;
    if is_ip_any(flow) && flow.tunnel.ip_tos & IP_ECN_MASK == ECN_CE {
        wc.nw_tos |= IP_ECN_MASK;
    }
}

/// Carries congestion marks of the outer header over.
///
/// # Errors
/// [`EcnError`]: the packet is to be dropped.
pub(crate) fn process_ecn(flow: &mut Flow) -> Result<(), EcnError> {
    if !flow.tunnel.is_set() || !is_ip_any(flow) || flow.tunnel.ip_tos & IP_ECN_MASK != ECN_CE {
        return Ok(());
    }
    if flow.nw_tos & IP_ECN_MASK == 0 {
        return Err(EcnError);
    }
    flow.nw_tos |= ECN_CE;
    Ok(())
}
