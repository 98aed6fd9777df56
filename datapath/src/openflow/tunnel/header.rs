//! Outer headers, as far as they are the same for all packets of a flow.
//!
//! Counterpart: the `_build_header` functions of OVS `lib/netdev-native-tnl.c`.

use std::net::Ipv6Addr;

use super::config::{Setting, TunnelConfig};
use super::options::TunTable;
use crate::action::{GTPU_SEQ, vport};
use crate::flow::proto::{
    ETH_ERSPAN1, ETH_ERSPAN2, ETH_IPV4, ETH_IPV6, ETH_NSH, ETH_TEB, GRE_CSUM, GRE_KEY, GRE_SEQ, IP_GRE,
    IP_IPIP, IP_IPV6, IP_ROUTING, IP_UDP,
};
use crate::flow::{Flow, TNL_F_CSUM, TNL_F_DONT_FRAGMENT, TNL_F_OAM, Tunnel};
use crate::openflow::headers::packet_type;
use crate::tunnel::TunnelKind;
use crate::types::MacAddr;

/// Version 1, protocol type GTP (3GPP TS 29.281, 5.1).
const GTPU_FLAGS: u8 = 0x30;
/// A user packet.
const GTPU_PACKET: u8 = 255;
/// ERSPAN has sessions of 10 bits.
const ERSPAN_SESSIONS: u64 = 0x3ff;

/// What a header is made from, besides the tunnel's settings.
pub struct HeaderParams<'a> {
    /// The packet, with its tunnel metadata as they are to be sent.
    pub flow: &'a Flow,
    /// Where option fields are in these.
    pub options: &'a TunTable,
    /// Outer source address.
    pub source: Ipv6Addr,
    /// Outer Ethernet destination.
    pub eth_dst: MacAddr,
    /// Outer Ethernet source.
    pub eth_src: MacAddr,
}

impl HeaderParams<'_> {
    fn tunnel(&self) -> &Tunnel {
        &self.flow.tunnel
    }

    fn is_ipv6(&self) -> bool {
        self.tunnel().ip_dst.get() == 0
    }

    fn csum(&self) -> bool {
        self.tunnel().flags & TNL_F_CSUM != 0
    }

    /// The Ethernet type of the payload; that of Ethernet itself for frames. None if it has no such type.
    fn payload_type(&self) -> Option<u16> {
        match self.flow.packet_type.get() {
            packet_type::ETHERNET => Some(ETH_TEB),
            other if other >> 16 == packet_type::NS_ETHERTYPE => Some(other as u16),
            _ => None,
        }
    }
}

/// The headers, and the tunnel type that `tnl_push` calls them by. None if such a packet cannot go through such a tunnel.
pub fn build(config: &TunnelConfig, params: &HeaderParams<'_>) -> Option<(u32, Box<[u8]>)> {
    let mut out = Vec::with_capacity(128);
    let v6 = params.is_ipv6();
    let tnl_type = match config.kind {
        TunnelKind::Vxlan => {
            udp(&mut out, config, params);
            vxlan(&mut out, config, params)?;
            vport::VXLAN
        }
        TunnelKind::Geneve => {
            udp(&mut out, config, params);
            geneve(&mut out, params);
            vport::GENEVE
        }
        TunnelKind::Gtpu => {
            udp(&mut out, config, params);
            gtpu(&mut out, config, params);
            vport::GTPU
        }
        TunnelKind::Gre | TunnelKind::Ip6Gre => {
            network(&mut out, params, IP_GRE, 0);
            gre(&mut out, config, params)?;
            if v6 { vport::IP6GRE } else { vport::GRE }
        }
        TunnelKind::Erspan | TunnelKind::Ip6Erspan => {
            network(&mut out, params, IP_GRE, 0);
            erspan(&mut out, config, params)?;
            if v6 { vport::IP6ERSPAN } else { vport::ERSPAN }
        }
        TunnelKind::Srv6 => {
            srv6(&mut out, config, params)?;
            vport::SRV6
        }
    };
    Some((tnl_type, out.into()))
}

/// Ethernet and IP. Lengths and the IPv4 checksum are each packet's.
fn network(out: &mut Vec<u8>, params: &HeaderParams<'_>, proto: u8, label: u32) {
    let tunnel = params.tunnel();
    out.extend(params.eth_dst.0);
    out.extend(params.eth_src.0);
    let (tos, ttl) = (tunnel.ip_tos, tunnel.ip_ttl);
    if params.is_ipv6() {
        out.extend(ETH_IPV6.to_be_bytes());
        out.extend((6 << 28 | u32::from(tos) << 20 | label).to_be_bytes());
        out.extend([0, 0, proto, ttl]);
        out.extend(params.source.octets());
        out.extend(tunnel.ipv6_dst);
    } else {
        let fragment = if tunnel.flags & TNL_F_DONT_FRAGMENT != 0 { 0x40 } else { 0 };
        let source = params.source.to_ipv4_mapped().map_or([0; 4], |v4| v4.octets());
        out.extend(ETH_IPV4.to_be_bytes());
        out.extend([0x45, tos, 0, 0, 0, 0, fragment, 0, ttl, proto, 0, 0]);
        out.extend(source);
        out.extend(tunnel.ip_dst.to_bytes());
    }
}

/// A checksum that is not 0 says that there is to be one.
fn udp(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) {
    network(out, params, IP_UDP, 0);
    out.extend([0, 0]);
    out.extend(config.dst_port.to_be_bytes());
    out.extend([0, 0]);
    out.extend(if params.csum() { [0xff, 0xff] } else { [0, 0] });
}

fn vni(params: &HeaderParams<'_>) -> [u8; 4] {
    ((params.tunnel().tun_id.get() as u32) << 8).to_be_bytes()
}

fn vxlan(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) -> Option<()> {
    if config.gpe {
        let next = match params.payload_type()? {
            ETH_IPV4 => 1,
            ETH_IPV6 => 2,
            ETH_TEB => 3,
            ETH_NSH => 4,
            _ => return None,
        };
        out.extend([0x0c, 0, 0, next]);
    } else {
        out.extend([0x08, 0, 0, 0]);
    }
    out.extend(vni(params));
    Some(())
}

fn geneve(out: &mut Vec<u8>, params: &HeaderParams<'_>) {
    let (options, critical) = params.options.to_geneve(params.tunnel());
    let oam = if params.tunnel().flags & TNL_F_OAM != 0 { 0x80 } else { 0 };
    let flags = oam | if critical { 0x40 } else { 0 };
    out.extend([(options.len() / 4) as u8, flags]);
    out.extend(ETH_TEB.to_be_bytes());
    out.extend(vni(params));
    out.extend(options);
}

fn gtpu(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) {
    let tunnel = params.tunnel();
    let or_default = |value: u8, default: u8| if value == 0 { default } else { value };
    let flags = or_default(tunnel.gtpu_flags, GTPU_FLAGS) | if config.sequence { GTPU_SEQ } else { 0 };
    out.extend([flags, or_default(tunnel.gtpu_msgtype, GTPU_PACKET), 0, 0]);
    out.extend((tunnel.tun_id.get() as u32).to_be_bytes());
    // Rules may ask for numbers too (OVS makes no room for them then, and writes over the packet).
    if flags & GTPU_SEQ != 0 {
        out.extend([0; 4]);
    }
}

fn gre(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) -> Option<()> {
    let payload = params.payload_type()?;
    let has_key = config.out_key != super::config::Key::Absent;
    let flag = |on: bool, bit: u16| if on { bit } else { 0 };
    let flags = flag(params.csum(), GRE_CSUM) | flag(has_key, GRE_KEY) | flag(config.sequence, GRE_SEQ);
    out.extend(flags.to_be_bytes());
    out.extend(payload.to_be_bytes());
    if params.csum() {
        out.extend([0; 4]);
    }
    if has_key {
        out.extend((params.tunnel().tun_id.get() as u32).to_be_bytes());
    }
    if config.sequence {
        out.extend([0; 4]);
    }
    Some(())
}

fn erspan(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) -> Option<()> {
    fn pick<T>(setting: Setting<T>, packet: T) -> T {
        match setting {
            Setting::Fixed(value) => value,
            Setting::Packet => packet,
        }
    }
    let tunnel = params.tunnel();
    let session = tunnel.tun_id.get();
    if session > ERSPAN_SESSIONS {
        return None;
    }
    let version = pick(config.erspan.version, tunnel.erspan_ver);
    let ethertype = match version {
        1 => ETH_ERSPAN1,
        2 => ETH_ERSPAN2,
        _ => return None,
    };
    out.extend(GRE_SEQ.to_be_bytes());
    out.extend(ethertype.to_be_bytes());
    out.extend([0; 4]);
    out.extend([version << 4, 0]);
    out.extend((session as u16).to_be_bytes());
    if version == 1 {
        out.extend(pick(config.erspan.index, tunnel.erspan_idx).to_be_bytes());
    } else {
        let hardware = pick(config.erspan.hardware, tunnel.erspan_hwid) & 0x3f;
        let direction = pick(config.erspan.direction, tunnel.erspan_dir) & 1;
        out.extend([0; 6]);
        out.extend([hardware >> 4, hardware << 4 | direction << 3]);
    }
    Some(())
}

/// The segments stand last first; without any, the tunnel's destination is the only one.
fn srv6(out: &mut Vec<u8>, config: &TunnelConfig, params: &HeaderParams<'_>) -> Option<()> {
    let destination = Ipv6Addr::from(params.tunnel().ipv6_dst);
    let only = [destination];
    let segments = if config.segments.is_empty() { only.as_slice() } else { &config.segments };
    if segments.first() != Some(&destination) || !params.is_ipv6() {
        return None;
    }
    let next = match params.flow.dl_type.get() {
        ETH_IPV4 => IP_IPIP,
        ETH_IPV6 => IP_IPV6,
        _ => return None,
    };
    network(out, params, IP_ROUTING, config.flow_label as u32);
    let n = segments.len() as u8;
    out.extend([next, 2 * n, 4, n - 1, n - 1, 0, 0, 0]);
    segments.iter().rev().for_each(|segment| out.extend(segment.octets()));
    Some(())
}
