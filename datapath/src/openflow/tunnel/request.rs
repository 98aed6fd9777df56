//! Asking the underlay for a neighbour's link-layer address.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::proto::{ETH_ARP, ETH_IPV6, IP_ICMPV6, ND_SOLICIT};
use crate::offload::checksum;
use crate::openflow::bridge::BridgeId;
use crate::types::{MacAddr, OfPort};

/// Length of a neighbour solicitation with one option.
const SOLICITATION: usize = 32;

/// A frame that a bridge's port is to send, as if it came from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighborRequest {
    /// Bridge.
    pub bridge: BridgeId,
    /// Port that asks.
    pub port: OfPort,
    /// ARP request or neighbour solicitation.
    pub frame: Box<[u8]>,
}

/// An ARP request (RFC 826).
pub fn arp_request(mac: MacAddr, source: Ipv4Addr, target: Ipv4Addr) -> Box<[u8]> {
    let mut frame = Vec::with_capacity(42);
    frame.extend(MacAddr::BROADCAST.0);
    frame.extend(mac.0);
    frame.extend(ETH_ARP.to_be_bytes());
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac.0);
    frame.extend(source.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame.into()
}

/// A neighbour solicitation to the target's solicited-node address (RFC 4861, 4.3; RFC 4291, 2.7.1).
pub fn solicitation(mac: MacAddr, source: Ipv6Addr, target: Ipv6Addr) -> Box<[u8]> {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let mut message = [0; SOLICITATION];
    message[0] = ND_SOLICIT;
    message[8..24].copy_from_slice(&target.octets());
    message[24..26].copy_from_slice(&[1, 1]);
    message[26..].copy_from_slice(&mac.0);
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&source.octets());
    addresses[16..].copy_from_slice(&group.octets());
    let sum = checksum::pseudo_ipv6(&addresses, IP_ICMPV6, SOLICITATION as u32).bytes(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let mut frame = Vec::with_capacity(54 + SOLICITATION);
    frame.extend([0x33, 0x33, 0xff, a, b, c]);
    frame.extend(mac.0);
    frame.extend(ETH_IPV6.to_be_bytes());
    frame.extend([0x60, 0, 0, 0, 0, SOLICITATION as u8, IP_ICMPV6, 255]);
    frame.extend(addresses);
    frame.extend(message);
    frame.into()
}
