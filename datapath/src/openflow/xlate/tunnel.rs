//! Output to tunnel ports, and packets that end a tunnel at one of a bridge's addresses.
//!
//! Counterpart: `native_tunnel_output()` and `terminate_native_tunnel()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use std::net::Ipv6Addr;

use super::Cached;
use super::ctx::Ctx;
use super::trace::NodeKind;
use crate::action::{Action, TnlPush};
use crate::flow::Flow;
use crate::flow::proto::{ETH_IPV4, ETH_IPV6, IP_ICMPV6, ND_ADVERT, ND_SOLICIT};
use crate::openflow::bridge::{Bridge, Port};
use crate::openflow::headers::{ethertype, is_icmpv6};
use crate::openflow::tunnel::config::{TunnelConfig, address_text};
use crate::openflow::tunnel::header::{HeaderParams, build};
use crate::openflow::tunnel::neighbor::Lookup;
use crate::openflow::tunnel::request::{NeighborRequest, arp_request, solicitation};
use crate::openflow::tunnel::router::Found;
use crate::openflow::tunnel::{destination, outer, source};
use crate::types::{MacAddr, PortNo, RecircId};

/// Why a packet was not sent through a tunnel (OVS `enum xlate_error`).
const ROUTING_FAILED: u32 = 12;
const NEIGHBOR_MISSING: u32 = 14;
const HEADER_FAILED: u32 = 15;
/// ARP operations.
const ARP_REPLY: u8 = 2;

/// Where outer headers lead.
struct Path<'a> {
    bridge: &'a Bridge,
    port: &'a Port,
    /// The next hop.
    hop: Ipv6Addr,
    /// Outer source address.
    source: Ipv6Addr,
}

impl<'a> Ctx<'a, '_> {
    /// Output to a tunnel port. What it makes of the tunnel metadata is not seen by later actions.
    pub(super) fn output_to_tunnel(
        &mut self,
        port: &'a Port,
        config: &'a TunnelConfig,
        odp_port: PortNo,
        last: bool,
    ) -> bool {
        let own = self.flow.tunnel;
        outer(config, &mut self.flow, &mut self.wc);
        if destination(&self.flow.tunnel) == self.received_by {
            self.say(NodeKind::Warn, "Not tunneling to our own address");
            self.flow.tunnel = own;
            return false;
        }
        self.cache.push(Cached::TunnelPort { port: (self.bridge.id, port.of_port), sent: true });
        self.say(NodeKind::Detail, "output to native tunnel");
        self.commit();
        let (flow, base) = (self.flow, self.base);
        if let Err(error) = self.send_through(port, config, odp_port, last) {
            let drop = Action::Drop(error);
            self.actions.push(if last { drop } else { Action::Clone([drop].into()) });
        }
        (self.flow, self.base) = (flow, base);
        self.flow.tunnel = own;
        true
    }

    /// Emits headers and what becomes of the packet behind them; an error is OVS's number for the reason.
    fn send_through(
        &mut self,
        port: &'a Port,
        config: &'a TunnelConfig,
        odp_port: PortNo,
        last: bool,
    ) -> Result<(), u32> {
        let Some(path) = self.path() else {
            self.say(NodeKind::Warn, "native tunnel routing failed");
            return Err(ROUTING_FAILED);
        };
        let hop = address_text(path.hop);
        self.report(NodeKind::Detail, |_| format!("tunneling to {hop} via {}", path.port.name));
        let eth_dst = self.neighbor(&path).ok_or(NEIGHBOR_MISSING)?;
        let eth_src = path.port.mac;
        self.report(NodeKind::Detail, |_| {
            format!("tunneling from {eth_src} {} to {eth_dst} {hop}", address_text(path.source))
        });
        let options = &self.bridge.tun_table;
        let params = HeaderParams { flow: &self.flow, options, source: path.source, eth_dst, eth_src };
        let Some((tnl_type, header)) = build(config, &params) else {
            self.say(NodeKind::Warn, "native tunnel header build failed");
            return Err(HEADER_FAILED);
        };
        let Some(out_port) = path.port.odp_port else { return Err(ROUTING_FAILED) };
        let bridge = path.bridge.name.clone();
        self.cache.push(Cached::Neighbor { bridge, address: path.hop });
        become_outer(&mut self.flow, &mut self.base, &params_of(&path, eth_dst, config));
        let size = header.len() as u32;
        let push = TnlPush { tnl_port: odp_port, out_port, tnl_type, header };
        self.go_on_outside(port, &path, push, size, last);
        Ok(())
    }

    /// Translates what the underlay's bridge does with the encapsulated packet.
    fn go_on_outside(&mut self, port: &'a Port, path: &Path<'a>, push: TnlPush, size: u32, last: bool) {
        let before = std::mem::replace(&mut self.actions, vec![Action::TnlPush(Box::new(push))]);
        if self.truncating {
            // The datapath decides on the truncated packet, so that its bytes are counted right.
            self.actions.push(Action::Recirc(RecircId(0)));
        } else {
            // The packet that matched is not the one that is looked at there.
            let wc = std::mem::take(&mut self.wc);
            self.cache.push(Cached::TunnelHeader { size, added: true });
            self.outside += 1;
            self.enter_bridge(port, path.bridge, path.port, last);
            self.outside -= 1;
            self.cache.push(Cached::TunnelHeader { size, added: false });
            self.wc = wc;
        }
        let nested = std::mem::replace(&mut self.actions, before);
        match nested.len() {
            // Nothing is done with it there.
            0 | 1 => {}
            _ if last => self.actions.extend(nested),
            _ => self.actions.push(Action::Clone(nested.into())),
        }
    }

    /// By which bridge's port the tunnel's other end is reached.
    fn path(&self) -> Option<Path<'a>> {
        let tunnel = &self.flow.tunnel;
        let own = Some(source(tunnel)).filter(|source| !source.is_unspecified());
        let to = destination(tunnel);
        let Found { device, gateway, source } = self.tunnels.router.lookup(self.flow.pkt_mark, to, own)?;
        let named = self.bridges.values().filter(|bridge| bridge.name == device);
        let all = named.chain(self.bridges.values());
        let found = all.into_iter().find_map(|bridge| Some((&**bridge, bridge.port_named(&device)?)));
        let (bridge, port) = found?;
        Some(Path { bridge, port, hop: gateway.unwrap_or(to), source })
    }

    /// The next hop's link-layer address; if it is not known, it is asked for.
    fn neighbor(&mut self, path: &Path<'a>) -> Option<MacAddr> {
        let Path { bridge, port, hop, source } = *path;
        let neighbors = &mut *self.effects.neighbors;
        let found = match self.effects.only_looks {
            true => neighbors.peek(&bridge.name, hop, self.now),
            false => neighbors.lookup(&bridge.name, hop, self.now),
        };
        let ipv4 = hop.to_ipv4_mapped();
        let protocol = if ipv4.is_some() { "ARP" } else { "ND" };
        let what = match found {
            Lookup::Found(mac) => return Some(mac),
            Lookup::Waiting => format!("waiting on {protocol} request"),
            Lookup::Missing => format!("sending {protocol} request"),
        };
        self.report(NodeKind::Detail, |_| {
            format!("neighbor cache miss for {} on bridge {}, {what}", address_text(hop), bridge.name)
        });
        if found == Lookup::Missing && !self.effects.only_looks {
            let source = self.tunnels.router.source_for(hop, &port.name).unwrap_or(source);
            let frame = match (ipv4, source.to_ipv4_mapped()) {
                (Some(target), source) => {
                    arp_request(port.mac, source.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED), target)
                }
                (None, _) => solicitation(port.mac, source, hop),
            };
            self.requests.push(NeighborRequest { bridge: bridge.id, port: port.of_port, frame });
        }
        None
    }

    /// The datapath port of the tunnels that a packet is for which is output to `port`, if that has an address that it goes
    /// to. Neighbours are learned on the way.
    pub(super) fn terminate_tunnel(&mut self, port: &Port) -> Option<PortNo> {
        if self.tunnels.router.addresses(&port.name).is_empty() {
            return None;
        }
        let found = self.tunnels.terminate(&self.flow, &mut self.wc);
        let may_learn = self.effects.may_learn && self.outside == 0;
        let flow = &self.flow;
        match found {
            None => {
                if self.is_reply_to_us() || is_gratuitous(&self.flow, &mut self.wc) {
                    self.snoop(may_learn);
                }
            }
            Some(_) if may_learn => {
                let source = match flow.dl_type.get() {
                    ethertype::IPV4 => std::net::Ipv4Addr::from_bits(flow.nw_src.get()).to_ipv6_mapped(),
                    _ => Ipv6Addr::from(flow.ipv6_src),
                };
                self.effects.neighbors.set(&self.bridge.name, source, flow.dl_src, self.now);
            }
            Some(_) => {}
        }
        found
    }

    /// Whether a packet of ARP or neighbour discovery is for one of the bridge's addresses.
    fn is_reply_to_us(&self) -> bool {
        let flow = &self.flow;
        let is_arp = flow.dl_type.get() == ethertype::ARP;
        if !is_arp && flow.nw_proto != IP_ICMPV6 {
            return false;
        }
        let is_target = |address: Ipv6Addr| match address.to_ipv4_mapped() {
            Some(v4) => is_arp && v4.to_bits() == flow.nw_dst.get(),
            None => {
                let group = address.octets();
                let to = &flow.ipv6_dst;
                let solicited =
                    to[..2] == [0xff, 0x02] && to[11..13] == [0x01, 0xff] && to[13..] == group[13..];
                solicited || *to == group
            }
        };
        let mut ports = self.bridge.ports();
        ports.any(|port| self.tunnels.router.addresses(&port.name).iter().any(|own| is_target(own.address)))
    }

    /// Learns from an ARP reply, a gratuitous ARP packet or a neighbour advertisement.
    fn snoop(&mut self, may_learn: bool) {
        let learned = self.snooped();
        if let Some((address, mac)) = learned.filter(|_| may_learn) {
            self.effects.neighbors.set(&self.bridge.name, address, mac, self.now);
        }
    }

    fn snooped(&mut self) -> Option<(Ipv6Addr, MacAddr)> {
        let (flow, wc) = (&self.flow, &mut self.wc);
        if flow.dl_type.get() == ethertype::ARP {
            if !is_gratuitous(flow, wc) {
                wc.nw_proto = u8::MAX;
                if flow.nw_proto != ARP_REPLY {
                    return None;
                }
            }
            wc.arp_sha = MacAddr::BROADCAST;
            if flow.arp_sha == MacAddr::ZERO {
                return None;
            }
            wc.nw_src.set(u32::MAX);
            let address = std::net::Ipv4Addr::from_bits(flow.nw_src.get()).to_ipv6_mapped();
            return Some((address, flow.arp_sha));
        }
        if !is_icmpv6(flow, Some(wc)) {
            return None;
        }
        wc.tp_dst.set(u16::MAX);
        if flow.tp_dst.get() != 0 {
            return None;
        }
        wc.tp_src.set(u16::MAX);
        let kinds = [u16::from(ND_SOLICIT), u16::from(ND_ADVERT)];
        if !kinds.contains(&flow.tp_src.get()) || flow.tp_src.get() != u16::from(ND_ADVERT) {
            return None;
        }
        wc.arp_tha = MacAddr::BROADCAST;
        if flow.arp_tha == MacAddr::ZERO {
            return None;
        }
        (wc.ipv6_src, wc.ipv6_dst, wc.nd_target) = ([0xff; 16], [0xff; 16], [0xff; 16]);
        Some((Ipv6Addr::from(flow.nd_target), flow.arp_tha))
    }
}

/// An ARP packet that tells of its sender.
fn is_gratuitous(flow: &Flow, wc: &mut Flow) -> bool {
    if flow.dl_type.get() != ethertype::ARP {
        return false;
    }
    wc.nw_src.set(u32::MAX);
    wc.nw_dst.set(u32::MAX);
    flow.nw_src == flow.nw_dst
}

/// What the underlay sees of an encapsulated packet, besides its tunnel metadata.
struct Outer {
    eth_dst: MacAddr,
    eth_src: MacAddr,
    source: Ipv6Addr,
    proto: u8,
}

fn params_of(path: &Path<'_>, eth_dst: MacAddr, config: &TunnelConfig) -> Outer {
    // Of those that a kind comes by, the last is that of an inner IPv6 packet; the caller corrects that.
    let proto = config.kind.protocols().first().copied().unwrap_or(0);
    Outer { eth_dst, eth_src: path.port.mac, source: path.source, proto }
}

/// Makes keys those of the encapsulated packet.
fn become_outer(flow: &mut Flow, base: &mut Flow, outer: &Outer) {
    let tunnel = flow.tunnel;
    let inner_v6 = flow.dl_type.get() == ethertype::IPV6;
    for key in [base, flow] {
        (key.dl_dst, key.dl_src) = (outer.eth_dst, outer.eth_src);
        key.vlans = Default::default();
        key.packet_type.set(0);
        (key.nw_src, key.nw_dst) = (tunnel.ip_src, tunnel.ip_dst);
        (key.ipv6_src, key.ipv6_dst) = (tunnel.ipv6_src, tunnel.ipv6_dst);
        key.nw_frag = 0;
        (key.nw_tos, key.nw_ttl) = (tunnel.ip_tos, tunnel.ip_ttl);
        (key.tp_src, key.tp_dst) = (tunnel.tp_src, tunnel.tp_dst);
        match outer.source.to_ipv4_mapped() {
            Some(source) if tunnel.ip_dst.get() != 0 => {
                key.dl_type.set(ETH_IPV4);
                if key.nw_src.get() == 0 {
                    key.nw_src.set(source.to_bits());
                }
            }
            Some(_) | None => {
                key.dl_type.set(ETH_IPV6);
                if key.ipv6_src == [0; 16] {
                    key.ipv6_src = outer.source.octets();
                }
            }
        }
        key.nw_proto = match outer.proto {
            crate::flow::proto::IP_IPIP if inner_v6 => crate::flow::proto::IP_IPV6,
            proto => proto,
        };
    }
}
