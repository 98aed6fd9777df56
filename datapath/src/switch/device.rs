//! The device behind a datapath port, as far as a simulated one has a behaviour: names, addresses, limits, and what it says
//! of the checksums of what it receives.
//!
//! Counterpart: OVS `lib/netdev-dummy.c`. Owns no frames: those are the datapath's.

use crate::offload::{Capabilities, Offloads};
use crate::packet::Packet;
use crate::tunnel::TunnelKind;
use crate::types::MacAddr;

/// What a device says of a checksum of the packets it receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing.
    #[default]
    Unknown,
    /// It verified the checksum.
    Good,
    /// It found the checksum wrong.
    Bad,
    /// The field is to be filled in by whoever sends the packet on.
    Partial,
}

/// What kind of device a port has (`type` of OVS's `Interface`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// `dummy`: frames come from and go to the simulation.
    #[default]
    Dummy,
    /// `dummy-pmd`: the same, served by a poll-mode thread; simple match is on.
    DummyPmd,
    /// `internal`: the bridge's own port.
    Internal,
    /// `patch`: leads to another bridge; not in the datapath.
    Patch,
    /// `vxlan`, `gre` and such.
    Tunnel(TunnelKind),
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name, unique in the switch.
    pub name: String,
    /// Kind.
    pub kind: DeviceKind,
    /// Address.
    pub mac: MacAddr,
    /// Largest L3 packet in bytes, without Ethernet header and VLAN tag.
    pub mtu: u16,
    /// Whether it is administratively up (`netdev-dummy/set-admin-state`).
    pub admin_up: bool,
    /// Whether there is carrier: what a link in the simulation is connected to, and that link is up.
    pub carrier: bool,
    /// What it announces to finish on transmit.
    pub capabilities: Capabilities,
    /// For one that completes packets itself when it sends: what it leaves as it is all the same.
    pub leaves: Option<Capabilities>,
    /// What it says of IPv4 header checksums.
    pub rx_ip: RxChecksum,
    /// What it says of TCP, UDP and SCTP checksums.
    pub rx_l4: RxChecksum,
    /// Segment size that it marks received packets with, in bytes of TCP payload; 0 for none.
    pub rx_tso_segsz: u16,
}

impl Device {
    /// A dummy device: up, 1500 bytes, without offloads.
    pub fn new(name: &str, kind: DeviceKind, mac: MacAddr) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            mac,
            mtu: 1500,
            admin_up: true,
            carrier: true,
            capabilities: Capabilities::empty(),
            leaves: None,
            rx_ip: RxChecksum::Unknown,
            rx_l4: RxChecksum::Unknown,
            rx_tso_segsz: 0,
        }
    }

    /// Marks a packet as this device received it.
    pub fn mark_received(&self, packet: &mut Packet) {
        let ip = match self.rx_ip {
            RxChecksum::Unknown => Offloads::empty(),
            RxChecksum::Good => Offloads::IP_GOOD,
            RxChecksum::Bad => Offloads::IP_BAD,
            RxChecksum::Partial => Offloads::IP_PARTIAL,
        };
        let l4 = match self.rx_l4 {
            RxChecksum::Unknown => Offloads::empty(),
            RxChecksum::Good => Offloads::L4_GOOD,
            RxChecksum::Bad => Offloads::L4_BAD,
            RxChecksum::Partial => Offloads::L4_PARTIAL,
        };
        packet.offloads |= ip | l4;
        if self.rx_tso_segsz != 0 {
            packet.tso_segsz = self.rx_tso_segsz;
        }
    }
}

/// The datapath number that a dummy datapath would choose for a port of this name: the first number in it, plus 100 if it starts
/// with `br`; else the smallest that is free (`choose_port()` of OVS `lib/dpif-netdev.c`). A bridge's own port gets a number above
/// 100 whatever its name, other than in OVS, so that bridge `s1` leaves 1 to the port called `1`.
pub fn choose_port_number(name: &str, local: bool, is_free: impl Fn(u32) -> bool) -> Option<u32> {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let base = if local || name.starts_with("br") { 100 } else { 0 };
    if let Ok(number) = digits.parse::<u16>() {
        let wanted = base + u32::from(number);
        if wanted != 0 && is_free(wanted) {
            return Some(wanted);
        }
    }
    (if local { 100 } else { 1 }..=u32::from(u16::MAX)).find(|&number| is_free(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_names() {
        let free = |_| true;
        assert_eq!(choose_port_number("p1", false, free), Some(1));
        assert_eq!(choose_port_number("br0", true, free), Some(100));
        assert_eq!(choose_port_number("s1", true, free), Some(101));
        assert_eq!(choose_port_number("left", true, free), Some(100));
        assert_eq!(choose_port_number("eth0", false, free), Some(1));
        assert_eq!(choose_port_number("p7", false, |number| number != 7), Some(1));
        assert_eq!(choose_port_number("vx", false, |number| number > 2), Some(3));
    }
}
