//! Native tunnels in the slow path: which port a packet goes out by, with which headers, to which neighbour, and which port
//! what comes in is for.
//!
//! Owns settings of tunnel ports, the datapath ports that they share, addresses and routes of the underlay, and its
//! neighbours. Never touches packets: putting headers in front of them and taking them off is [`crate::tunnel`].
//! Counterpart: OVS `ofproto/tunnel.c`, `lib/tnl-ports.c`, `lib/ovs-router.c`, `lib/tnl-neigh-cache.c`.

pub mod config;
pub(crate) mod header;
pub mod neighbor;
mod options;
pub mod request;
pub mod router;
mod send;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv6Addr;

pub use config::TunnelConfig;
pub use options::{TunOption, TunTable, TunTableError};
pub(crate) use send::{outer, process_ecn, received_mask};

use self::config::{Csum, Endpoint, Key, PacketMode, Setting, address_text};
use self::router::Router;
use super::bridge::BridgeId;
use super::classifier::{Classifier, RuleId};
use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER, Tunnel};
use crate::openflow::headers::{ethertype, packet_type};
use crate::tunnel::TunnelKind;
use crate::types::{MacAddr, OfPort, PortNo};

/// The destination of outer headers, or the source of those received, IPv4 mapped; unspecified if there is none.
pub fn destination(tunnel: &Tunnel) -> Ipv6Addr {
    address(tunnel.ip_dst.get(), tunnel.ipv6_dst)
}

/// The source of outer headers, likewise.
pub fn source(tunnel: &Tunnel) -> Ipv6Addr {
    address(tunnel.ip_src.get(), tunnel.ipv6_src)
}

fn address(v4: u32, v6: [u8; 16]) -> Ipv6Addr {
    if v4 == 0 { Ipv6Addr::from(v6) } else { std::net::Ipv4Addr::from_bits(v4).to_ipv6_mapped() }
}

/// What a tunnel port is found by when a packet comes in. Those with fewer unknowns come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TunnelMatch {
    key_flow: bool,
    remote_flow: bool,
    /// 0: a certain address, 1: any, 2: rules say.
    local_kind: u8,
    odp_port: PortNo,
    key: u64,
    local: Option<Ipv6Addr>,
    remote: Option<Ipv6Addr>,
    mode: PacketMode,
}

impl TunnelMatch {
    fn of(config: &TunnelConfig, odp_port: PortNo) -> Self {
        let local_kind = match config.local {
            Endpoint::Address(_) => 0,
            Endpoint::Unset => 1,
            Endpoint::Flow => 2,
        };
        Self {
            key_flow: config.in_key == Key::Flow,
            remote_flow: config.remote == Endpoint::Flow,
            local_kind,
            odp_port,
            key: config.in_key.value(),
            local: config.local.address(),
            remote: config.remote.address(),
            mode: config.mode,
        }
    }
}

/// A tunnel port of a bridge.
#[derive(Clone, Debug)]
struct TunnelPort {
    name: String,
    config: TunnelConfig,
    odp_port: PortNo,
}

/// A port of the datapath that stands for all tunnels of a kind and a UDP port.
#[derive(Clone, Debug)]
struct Listener {
    name: String,
    kind: TunnelKind,
    udp_port: u16,
    users: u32,
}

/// All tunnels.
#[derive(Clone, Debug, Default)]
pub struct Tunnels {
    ports: BTreeMap<(BridgeId, OfPort), TunnelPort>,
    matches: BTreeMap<TunnelMatch, (BridgeId, OfPort)>,
    listeners: BTreeMap<PortNo, Listener>,
    /// Addresses and routes.
    pub router: Router,
    /// Link-layer addresses of devices that have addresses.
    macs: BTreeMap<String, MacAddr>,
    /// Finds the listener that a packet to a local address is for; the rule is its port.
    terminations: Classifier,
}

impl Tunnels {
    /// The datapath port of a tunnel with these settings, if another such tunnel has it already.
    pub fn listener_for(&self, config: &TunnelConfig) -> Option<PortNo> {
        let same = |l: &&Listener| l.kind == config.kind && l.udp_port == config.dst_port;
        self.listeners.iter().find(|(_, listener)| same(listener)).map(|(&no, _)| no)
    }

    /// Names and numbers of datapath ports that stand for tunnels.
    pub fn listeners(&self) -> impl Iterator<Item = (PortNo, &str, TunnelKind)> {
        self.listeners.iter().map(|(&no, listener)| (no, listener.name.as_str(), listener.kind))
    }

    /// The name of such a port.
    pub fn listener_name(&self, no: PortNo) -> Option<&str> {
        self.listeners.get(&no).map(|listener| listener.name.as_str())
    }

    /// Such a port by its name.
    pub fn listener_named(&self, name: &str) -> Option<PortNo> {
        self.listeners.iter().find(|(_, listener)| listener.name == name).map(|(&no, _)| no)
    }

    /// The settings of a tunnel port.
    pub fn config(&self, bridge: BridgeId, port: OfPort) -> Option<&TunnelConfig> {
        self.ports.get(&(bridge, port)).map(|port| &port.config)
    }

    /// The datapath port of a tunnel port.
    pub fn odp_port(&self, bridge: BridgeId, port: OfPort) -> Option<PortNo> {
        self.ports.get(&(bridge, port)).map(|port| port.odp_port)
    }

    /// The tunnel port that receives the same packets as one with these settings would.
    pub fn conflict(&self, config: &TunnelConfig, odp_port: PortNo) -> Option<&str> {
        let at = self.matches.get(&TunnelMatch::of(config, odp_port))?;
        self.ports.get(at).map(|port| port.name.as_str())
    }

    /// Adds a tunnel port. Call [`Self::conflict`] before: of two that receive the same packets, the latter gets none.
    pub fn add_port(&mut self, at: (BridgeId, OfPort), name: &str, config: TunnelConfig, odp_port: PortNo) {
        self.matches.insert(TunnelMatch::of(&config, odp_port), at);
        let listener = self.listeners.entry(odp_port).or_insert_with(|| Listener {
            name: config.kind.device_name(config.dst_port),
            kind: config.kind,
            udp_port: config.dst_port,
            users: 0,
        });
        listener.users += 1;
        self.ports.insert(at, TunnelPort { name: name.to_owned(), config, odp_port });
        self.rebuild();
    }

    /// Removes a tunnel port. Returns the datapath port that nobody uses any more.
    pub fn remove_port(&mut self, at: (BridgeId, OfPort)) -> Option<PortNo> {
        let port = self.ports.remove(&at)?;
        self.matches.remove(&TunnelMatch::of(&port.config, port.odp_port));
        let listener = self.listeners.get_mut(&port.odp_port)?;
        listener.users -= 1;
        if listener.users > 0 {
            return None;
        }
        self.listeners.remove(&port.odp_port);
        self.rebuild();
        Some(port.odp_port)
    }

    /// Tells the link-layer address of a port that has, or may get, addresses.
    pub fn set_mac(&mut self, device: &str, mac: MacAddr) {
        if self.macs.insert(device.to_owned(), mac) != Some(mac) {
            self.rebuild();
        }
    }

    /// The link-layer address of a port, as it was told.
    pub fn mac(&self, device: &str) -> Option<MacAddr> {
        self.macs.get(device).copied()
    }

    /// Forgets a port that is gone.
    pub fn forget_device(&mut self, device: &str) {
        self.macs.remove(device);
        self.router.forget(device);
        self.rebuild();
    }

    /// The port that a packet received by a tunnel's datapath port is for.
    pub fn receive(&self, key: &Flow) -> Option<(BridgeId, OfPort)> {
        let l3 = key.packet_type.get() >> 16 == packet_type::NS_ETHERTYPE;
        let legacy = if l3 { PacketMode::LegacyL3 } else { PacketMode::LegacyL2 };
        for key_flow in [false, true] {
            for remote_flow in [false, true] {
                for local_kind in 0..3 {
                    let mut wanted = TunnelMatch {
                        key_flow,
                        remote_flow,
                        local_kind,
                        odp_port: PortNo(key.in_port),
                        key: if key_flow { 0 } else { key.tunnel.tun_id.get() },
                        local: (local_kind == 0).then(|| destination(&key.tunnel)),
                        remote: (!remote_flow).then(|| source(&key.tunnel)),
                        mode: legacy,
                    };
                    for mode in [legacy, PacketMode::Aware] {
                        wanted.mode = mode;
                        if let Some(&at) = self.matches.get(&wanted) {
                            return Some(at);
                        }
                    }
                }
            }
        }
        None
    }

    /// The datapath port of the tunnels that a packet to one of our addresses is for. Marks in `wc` what that depends on.
    pub(crate) fn terminate(&self, flow: &Flow, wc: &mut Flow) -> Option<PortNo> {
        self.terminations.lookup(flow, Some(wc), None).map(|rule| PortNo(rule.0 as u32))
    }

    /// Makes [`Self::terminations`] anew, after listeners or addresses changed.
    pub fn rebuild(&mut self) {
        let mut classifier = Classifier::new();
        classifier.set_prefix_fields(&[]);
        for (device, addresses) in self.router.devices() {
            let Some(&mac) = self.macs.get(device) else { continue };
            for (no, listener) in &self.listeners {
                for &proto in listener.kind.protocols() {
                    for address in addresses {
                        let (flow, mask) = termination(mac, address.address, proto, listener.udp_port);
                        if classifier.find_exactly(&flow, &mask, 0).is_none() {
                            classifier.insert(RuleId(u64::from(no.0)), &flow, &mask, 0, &[]);
                        }
                    }
                }
            }
        }
        self.terminations = classifier;
    }

    /// The text of `tnl/ports/show`.
    pub fn show_listeners(&self) -> String {
        let mut text = String::from("Listening ports:\n");
        for (no, listener) in &self.listeners {
            for _ in listener.kind.protocols() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{} ({}) ref_cnt={}", listener.name, no.0, listener.users);
            }
        }
        text
    }

    /// The text of `tnl/ports/show -v`: what the underlay's packets are compared with.
    pub fn show_terminations(&self) -> String {
        let mut text = String::from("Listening ports:\n");
        for (device, addresses) in self.router.devices() {
            let Some(&mac) = self.macs.get(device) else { continue };
            for (no, listener) in &self.listeners {
                for &proto in listener.kind.protocols() {
                    for address in addresses {
                        let (flow, mask) = termination(mac, address.address, proto, listener.udp_port);
                        let key = crate::flow::text::format_flow(&flow, Some(&mask), None, false);
                        let _ = writeln!(text, "{} ({}) : {key}", listener.name, no.0);
                    }
                }
            }
        }
        text
    }

    /// The text of `ofproto/list-tunnels`.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for (key, at) in &self.matches {
            if let Some(port) = self.ports.get(at) {
                describe(&mut text, key, port);
            }
        }
        text
    }
}

/// What a packet looks like that ends a tunnel here (`tnl_port_init_flow()`).
fn termination(mac: MacAddr, address: Ipv6Addr, proto: u8, udp_port: u16) -> (Flow, Flow) {
    let (mut flow, mut mask) = (Flow::default(), Flow::default());
    (flow.dl_dst, mask.dl_dst) = (mac, MacAddr::BROADCAST);
    mask.dl_type.set(u16::MAX);
    match address.to_ipv4_mapped() {
        Some(v4) => {
            flow.dl_type.set(ethertype::IPV4);
            flow.nw_dst.set(v4.to_bits());
            mask.nw_dst.set(u32::MAX);
        }
        None => {
            flow.dl_type.set(ethertype::IPV6);
            flow.ipv6_dst = address.octets();
            mask.ipv6_dst = [0xff; 16];
        }
    }
    (flow.nw_proto, mask.nw_proto) = (proto, u8::MAX);
    mask.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    mask.vlans[0].tci.set(u16::MAX);
    if udp_port != 0 {
        flow.tp_dst.set(udp_port);
        mask.tp_dst.set(u16::MAX);
    }
    (flow, mask)
}

fn describe(text: &mut String, key: &TunnelMatch, port: &TunnelPort) {
    let config = &port.config;
    let end = |endpoint: Endpoint| match endpoint {
        Endpoint::Unset => "::".to_owned(),
        Endpoint::Flow => "flow".to_owned(),
        Endpoint::Address(address) => address_text(address),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "port {}: {} ({}: {}->{}, key=",
        port.odp_port.0,
        port.name,
        config.kind.name(),
        end(config.local),
        end(config.remote)
    );
    let _ = match key.key_flow {
        true => write!(text, "flow"),
        false => write!(text, "{}", hex(key.key)),
    };
    let _ = write!(text, ", {}, dp port={}", key.mode.word(), port.odp_port.0);
    if config.in_key != config.out_key {
        let _ = match config.out_key {
            Key::Absent => write!(text, ", out_key=none"),
            Key::Flow => write!(text, ", out_key=flow"),
            Key::Fixed(key) => write!(text, ", out_key={}", hex(key)),
        };
    }
    let _ = match config.ttl {
        Setting::Packet => write!(text, ", ttl=inherit"),
        Setting::Fixed(ttl) => write!(text, ", ttl={ttl}"),
    };
    let _ = match config.tos {
        Setting::Packet => write!(text, ", tos=inherit"),
        Setting::Fixed(0) => Ok(()),
        Setting::Fixed(tos) => write!(text, ", tos={tos:#x}"),
    };
    if !config.dont_fragment {
        text.push_str(", df=false");
    }
    match config.csum {
        Csum::On => text.push_str(", csum=true"),
        Csum::Off => text.push_str(", csum=false"),
        Csum::Default | Csum::Without => {}
    }
    text.push_str(")\n");
}

/// As `printf("%#x")` writes it: zero has no prefix.
fn hex(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}
