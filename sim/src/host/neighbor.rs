//! From next hop to MAC: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::types::{MacAddr, Span, Time};

use super::packet::{self, IpPacket, be16, be32};
use super::{Host, protocol};

/// Time between two questions (RFC 4861, RETRANS_TIMER; Linux asks for IPv4 as often).
const RETRY: Span = Span::from_secs(1);
/// Questions until a neighbour counts as unreachable (RFC 4861, MAX_UNICAST_SOLICIT).
const MAX_TRIES: u32 = 3;
/// Packets that wait for an answer; the oldest gives way (Linux keeps about as many bytes).
const MAX_WAITING: usize = 101;

#[derive(Clone, Debug)]
enum Neighbor {
    Resolved(MacAddr),
    Asking { tries: u32, retry_at: Time, waiting: Vec<Vec<u8>> },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Neighbors {
    table: BTreeMap<IpAddr, Neighbor>,
}

impl Neighbors {
    pub fn resolved(&self, address: IpAddr) -> Option<MacAddr> {
        match self.table.get(&address)? {
            Neighbor::Resolved(mac) => Some(*mac),
            Neighbor::Asking { .. } => None,
        }
    }

    pub fn next_timer(&self) -> Option<Time> {
        let asking = self.table.values().filter_map(|neighbor| match neighbor {
            Neighbor::Asking { retry_at, .. } => Some(*retry_at),
            Neighbor::Resolved(_) => None,
        });
        asking.min()
    }
}

impl Host {
    pub(super) fn resolve_then_send(&mut self, now: Time, hop: IpAddr, datagram: Vec<u8>) {
        match self.neighbors.table.get_mut(&hop) {
            Some(Neighbor::Asking { waiting, .. }) => {
                if waiting.len() >= MAX_WAITING {
                    waiting.remove(0);
                    self.unreachable += 1;
                }
                waiting.push(datagram);
            }
            Some(Neighbor::Resolved(_)) | None => {
                let asking = Neighbor::Asking { tries: 1, retry_at: now + RETRY, waiting: vec![datagram] };
                self.neighbors.table.insert(hop, asking);
                self.ask(hop);
            }
        }
    }

    fn ask(&mut self, hop: IpAddr) {
        let Some(own) = self.source_for(hop) else { return };
        match (own, hop) {
            (IpAddr::V4(own), IpAddr::V4(hop)) => {
                let request = arp(1, self.mac, own, MacAddr::ZERO, hop);
                self.transmit(MacAddr::BROADCAST, packet::ETHERTYPE_ARP, &request);
            }
            (IpAddr::V6(own), IpAddr::V6(hop)) => {
                let group = solicited_node(hop);
                self.send_discovery(135, [0; 4], own, group, hop, 1);
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
        }
    }

    /// Sends a neighbour solicitation (135, with source option 1) or advertisement (136, with target option 2).
    fn send_discovery(
        &mut self,
        kind: u8,
        flags: [u8; 4],
        src: Ipv6Addr,
        dst: Ipv6Addr,
        target: Ipv6Addr,
        option: u8,
    ) {
        let mut message = vec![kind, 0, 0, 0];
        message.extend(flags);
        message.extend(target.octets());
        message.extend([option, 1]);
        message.extend(self.mac.0);
        let (src, dst) = (IpAddr::V6(src), IpAddr::V6(dst));
        packet::fill_checksum(src, dst, protocol::ICMPV6, &mut message, 2);
        let id = self.next_ip_id;
        let mac = packet::multicast_mac(dst).or_else(|| self.neighbors.resolved(dst));
        for datagram in packet::ip_packets(src, dst, protocol::ICMPV6, id, &message, self.mtu) {
            if let Some(mac) = mac {
                self.transmit(mac, packet::ETHERTYPE_IPV6, &datagram);
            }
        }
    }

    fn learn(&mut self, address: IpAddr, mac: MacAddr) {
        if mac.is_multicast() || mac == MacAddr::ZERO || self.is_own(address) {
            return;
        }
        let before = self.neighbors.table.insert(address, Neighbor::Resolved(mac));
        if let Some(Neighbor::Asking { waiting, .. }) = before {
            for datagram in waiting {
                self.transmit(mac, packet::ethertype_of(address), &datagram);
            }
        }
    }

    /// Learns only about a neighbour that is known or being asked for, as RFC 826 has it.
    fn update(&mut self, address: IpAddr, mac: MacAddr) {
        if self.neighbors.table.contains_key(&address) {
            self.learn(address, mac);
        }
    }

    pub(super) fn receive_arp(&mut self, _now: Time, bytes: &[u8]) {
        if bytes.len() < 28 || bytes[..6] != [0, 1, 8, 0, 6, 4] {
            self.bad += 1;
            return;
        }
        let mut sender_mac = MacAddr::ZERO;
        sender_mac.0.copy_from_slice(&bytes[8..14]);
        let (sender, target) = (Ipv4Addr::from(be32(bytes, 14)), Ipv4Addr::from(be32(bytes, 24)));
        if !self.is_own(IpAddr::V4(target)) {
            self.update(IpAddr::V4(sender), sender_mac);
            return;
        }
        if !sender.is_unspecified() {
            self.learn(IpAddr::V4(sender), sender_mac);
        }
        if be16(bytes, 6) == 1 {
            let reply = arp(2, self.mac, target, sender_mac, sender);
            self.transmit(sender_mac, packet::ETHERTYPE_ARP, &reply);
        }
    }

    /// Handles neighbour solicitations and advertisements; `message` has a right checksum.
    pub(super) fn receive_discovery(&mut self, from: MacAddr, ip: &IpPacket<'_>, message: &[u8]) {
        let (IpAddr::V6(src), true) = (ip.src, message.len() >= 24 && ip.hop_limit == 255) else {
            self.bad += 1;
            return;
        };
        let mut octets = [0; 16];
        octets.copy_from_slice(&message[8..24]);
        let target = Ipv6Addr::from(octets);
        if message[0] == 136 {
            let mac = option(&message[24..], 2).unwrap_or(from);
            self.update(IpAddr::V6(target), mac);
            return;
        }
        if !self.is_own(IpAddr::V6(target)) {
            return;
        }
        // Solicited and override (RFC 4861 section 4.4); a duplicate address probe is answered to all nodes.
        if src.is_unspecified() {
            let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            self.send_discovery(136, [0x20, 0, 0, 0], target, all_nodes, target, 2);
            return;
        }
        self.learn(IpAddr::V6(src), option(&message[24..], 1).unwrap_or(from));
        self.send_discovery(136, [0x60, 0, 0, 0], target, src, target, 2);
    }

    pub(super) fn run_neighbors(&mut self, now: Time) {
        let mut again = Vec::new();
        let mut lost = 0;
        self.neighbors.table.retain(|address, neighbor| match neighbor {
            Neighbor::Asking { tries, retry_at, waiting } if *retry_at <= now => {
                if *tries >= MAX_TRIES {
                    lost += waiting.len() as u64;
                    return false;
                }
                *tries += 1;
                *retry_at = now + RETRY;
                again.push(*address);
                true
            }
            Neighbor::Asking { .. } | Neighbor::Resolved(_) => true,
        });
        self.unreachable += lost;
        for address in again {
            self.ask(address);
        }
    }
}

fn arp(op: u16, sha: MacAddr, spa: Ipv4Addr, tha: MacAddr, tpa: Ipv4Addr) -> Vec<u8> {
    let mut out = vec![0, 1, 8, 0, 6, 4];
    out.extend(op.to_be_bytes());
    out.extend(sha.0);
    out.extend(spa.octets());
    out.extend(tha.0);
    out.extend(tpa.octets());
    out
}

/// RFC 4291 section 2.7.1.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// The link-layer address in an option of this kind (RFC 4861 section 4.6.1).
fn option(mut options: &[u8], kind: u8) -> Option<MacAddr> {
    while options.len() >= 8 {
        let len = usize::from(options[1]) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if options[0] == kind {
            let mut mac = MacAddr::ZERO;
            mac.0.copy_from_slice(&options[2..8]);
            return Some(mac);
        }
        options = &options[len..];
    }
    None
}
