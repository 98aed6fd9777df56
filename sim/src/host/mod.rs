//! Hosts: a small IP stack, enough to talk through a switch: ARP and neighbour discovery, echo, UDP, TCP, fragments.
//!
//! A host has one interface, is handed `now` and frames, and gives back frames. Everything in it is `Clone` (history keeps
//! copies of whole worlds, which rules out the socket types of the usual stacks) and deterministic.
//!
//! What it does not do: no DHCP, no duplicate address detection, no router discovery, no path MTU discovery, no VLAN tags
//! (tagged frames are not for it), no forwarding. TCP has a fixed window and no congestion control; see [`tcp`].

mod fragment;
mod neighbor;
mod packet;
pub mod tcp;
mod traffic;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use datapath::types::{MacAddr, Time};

use crate::random::Stream;
use crate::scenario::{Cidr, HostConfig, HostCounter};
use fragment::Reassembly;
use neighbor::Neighbors;
use packet::{EthernetFrame, IpPacket};
use tcp::Connection;
use traffic::{PingRun, UdpRun};

pub use traffic::RttSummary;

/// IP protocol numbers that a host speaks.
mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
}

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    name: String,
    mac: MacAddr,
    addresses: Vec<Cidr>,
    gateways: Vec<IpAddr>,
    mtu: usize,
    listen: Vec<u16>,
    echo: Vec<u16>,
    neighbors: Neighbors,
    reassembly: Reassembly,
    pings: Vec<PingRun>,
    udp_runs: Vec<UdpRun>,
    connections: Vec<Connection>,
    counters: [u64; HostCounter::ALL.len()],
    udp_bytes: u64,
    /// Frames received, sent, not for this host, and with a checksum or length that is wrong.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    ignored: u64,
    bad: u64,
    /// Packets for which no next hop was found.
    unreachable: u64,
    next_ip_id: u32,
    next_port: u16,
    random: Stream,
    out: Vec<Vec<u8>>,
}

impl Host {
    /// The host of `config` in the run with this `seed`.
    pub fn new(config: &HostConfig, seed: u64) -> Self {
        Self {
            name: config.name.clone(),
            mac: config.mac,
            addresses: config.addresses.clone(),
            gateways: config.gateways.clone(),
            mtu: config.mtu as usize,
            listen: config.listen.clone(),
            echo: config.echo.clone(),
            neighbors: Neighbors::default(),
            reassembly: Reassembly::default(),
            pings: Vec::new(),
            udp_runs: Vec::new(),
            connections: Vec::new(),
            counters: [0; HostCounter::ALL.len()],
            udp_bytes: 0,
            received: 0,
            sent: 0,
            ignored: 0,
            bad: 0,
            unreachable: 0,
            next_ip_id: 0,
            next_port: 49_152,
            random: Stream::new(seed, &format!("host {}", config.name)),
            out: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hardware address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Its addresses.
    pub fn addresses(&self) -> &[Cidr] {
        &self.addresses
    }

    /// Takes a frame from the link. `trusted` says that checksums need not be right: they were verified, or are still to be
    /// filled in by hardware that is not there.
    pub fn receive(&mut self, now: Time, frame: &[u8], trusted: bool) {
        self.received += 1;
        let Some(frame) = EthernetFrame::parse(frame) else {
            self.ignored += 1;
            return;
        };
        if frame.dst != self.mac && !frame.dst.is_multicast() {
            self.ignored += 1;
            return;
        }
        match frame.ether_type {
            packet::ETHERTYPE_ARP => self.receive_arp(now, frame.payload),
            packet::ETHERTYPE_IPV4 | packet::ETHERTYPE_IPV6 => {
                match IpPacket::parse(frame.payload, trusted) {
                    Some(ip) => self.receive_ip(now, frame.src, &ip, trusted),
                    None => self.bad += 1,
                }
            }
            _ => self.ignored += 1,
        }
    }

    fn receive_ip(&mut self, now: Time, from: MacAddr, ip: &IpPacket<'_>, trusted: bool) {
        if !self.is_own(ip.dst) && !packet::is_multicast(ip.dst) {
            self.ignored += 1;
            return;
        }
        let whole;
        let (proto, payload) = match &ip.fragment {
            None => (ip.proto, ip.payload),
            Some(fragment) => match self.reassembly.add(now, ip, fragment) {
                Some((proto, bytes)) => {
                    whole = bytes;
                    (proto, &whole[..])
                }
                None => return,
            },
        };
        if !trusted && !packet::transport_checksum_is_right(ip.src, ip.dst, proto, payload) {
            self.bad += 1;
            return;
        }
        match (proto, ip.dst.is_ipv4()) {
            (protocol::ICMP, true) => self.receive_icmp(now, ip, payload),
            (protocol::ICMPV6, false) => self.receive_icmpv6(now, from, ip, payload),
            (protocol::UDP, _) => self.receive_udp(now, ip, payload),
            (protocol::TCP, _) => self.receive_tcp(now, ip, payload),
            _ => self.ignored += 1,
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    /// The own address to talk to `to` from: one of the same network, else the first of the family.
    fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        let same_family = || self.addresses.iter().filter(|own| own.address.is_ipv4() == to.is_ipv4());
        same_family().find(|own| own.contains(to)).or_else(|| same_family().next()).map(|own| own.address)
    }

    /// Where a packet to `to` goes on this link.
    fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        if self.addresses.iter().any(|own| own.contains(to)) {
            return Some(to);
        }
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == to.is_ipv4())
    }

    /// Sends an IP packet, in fragments if it is longer than the MTU.
    fn send_ip(&mut self, now: Time, src: IpAddr, dst: IpAddr, proto: u8, payload: &[u8]) {
        let id = self.next_ip_id;
        self.next_ip_id = self.next_ip_id.wrapping_add(1);
        for datagram in packet::ip_packets(src, dst, proto, id, payload, self.mtu) {
            self.send_to(now, dst, datagram);
        }
    }

    fn send_to(&mut self, now: Time, dst: IpAddr, datagram: Vec<u8>) {
        if let Some(mac) = packet::multicast_mac(dst) {
            self.transmit(mac, packet::ethertype_of(dst), &datagram);
            return;
        }
        let Some(hop) = self.next_hop(dst) else {
            self.unreachable += 1;
            return;
        };
        match self.neighbors.resolved(hop) {
            Some(mac) => self.transmit(mac, packet::ethertype_of(dst), &datagram),
            None => self.resolve_then_send(now, hop, datagram),
        }
    }

    fn transmit(&mut self, dst: MacAddr, ether_type: u16, payload: &[u8]) {
        let mut frame = Vec::with_capacity(14 + payload.len());
        frame.extend(dst.0);
        frame.extend(self.mac.0);
        frame.extend(ether_type.to_be_bytes());
        frame.extend(payload);
        self.out.push(frame);
    }

    /// Does what is due at `now`.
    pub fn run(&mut self, now: Time) {
        self.run_neighbors(now);
        self.run_traffic(now);
        self.run_tcp(now);
    }

    /// When [`Self::run`] next has something to do.
    pub fn next_timer(&self) -> Option<Time> {
        let traffic = self
            .pings
            .iter()
            .filter_map(PingRun::next_at)
            .chain(self.udp_runs.iter().filter_map(UdpRun::next_at));
        let tcp = self.connections.iter().filter_map(Connection::timer);
        traffic.chain(tcp).chain(self.neighbors.next_timer()).min()
    }

    /// Whether it still has something of its own to do: requests or datagrams to send, a connection to bring to its end.
    pub fn is_busy(&self) -> bool {
        self.pings.iter().any(|run| run.next_at().is_some())
            || self.udp_runs.iter().any(|run| run.next_at().is_some())
            || self.connections.iter().any(|connection| connection.timer().is_some())
    }

    /// Whether there are frames to take.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Takes the frames that it sends now, in order.
    pub fn take_output(&mut self) -> Vec<Vec<u8>> {
        self.sent += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }

    fn count(&mut self, counter: HostCounter) {
        self.add(counter, 1);
    }

    fn add(&mut self, counter: HostCounter, n: u64) {
        self.counters[counter as usize] += n;
    }

    /// What a counter came to.
    pub fn counter(&self, counter: HostCounter) -> u64 {
        self.counters[counter as usize]
    }

    /// Frames received, and sent.
    pub fn frames(&self) -> (u64, u64) {
        (self.received, self.sent)
    }

    /// Frames that were for another host or of a kind that a host does not speak.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Packets with a wrong checksum or length.
    pub fn bad(&self) -> u64 {
        self.bad
    }

    /// Packets for which there was no next hop, or none that answered.
    pub fn unreachable(&self) -> u64 {
        self.unreachable
    }

    /// Payload bytes of all datagrams received.
    pub fn udp_bytes(&self) -> u64 {
        self.udp_bytes
    }

    /// Round-trip times of all pings.
    pub fn rtt(&self) -> RttSummary {
        self.pings.iter().fold(RttSummary::default(), |sum, run| sum.with(run.rtt()))
    }

    /// Its TCP connections, in the order in which they began.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }
}
