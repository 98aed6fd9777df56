//! The few fields that simple match looks at, without making a key.

use super::headers::{Cursor, ethernet, ipv4, ipv6, ipv6_extensions, mpls};
use super::{ExtractConfig, Layers, Offsets};
use crate::flow::key::NW_FRAG_LATER;
use crate::flow::proto::{ETH_IPV4, ETH_IPV6, IP_SCTP, IP_TCP, IP_UDP, is_mpls};
use crate::offload::Offloads;
use crate::packet::Packet;

/// What simple match decides on, in the byte order of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimpleKey {
    /// Ethernet type behind VLAN tags, as in a key.
    pub dl_type: u16,
    /// TCI of the outermost tag with `VLAN_CFI` set; 0 without a tag.
    pub vlan_tci: u16,
    /// `NW_FRAG_*`.
    pub nw_frag: u8,
    /// TCP flags, for statistics; 0 if there are none.
    pub tcp_flags: u16,
}

/// Reads the fields of simple match, and sets the packet's offsets and L4 protocol flags as [`super::extract`] does, since
/// the actions need them just the same. No RSS hash: nothing is looked up by it. `None` if the packet is not Ethernet,
/// or too short for it: it has no simple key.
pub fn extract_simple(packet: &mut Packet, config: ExtractConfig) -> Option<SimpleKey> {
    if packet.packet_type != 0 {
        return None;
    }
    let mut cursor = Cursor::new(packet.data());
    let eth = ethernet(&mut cursor, config.vlans())?;
    let [_, _, tci_0, tci_1, ..] = eth.vlans;
    let mut key = SimpleKey {
        dl_type: eth.dl_type,
        vlan_tci: u16::from_be_bytes([tci_0, tci_1]),
        ..SimpleKey::default()
    };
    let mut layers = Layers::default();
    if is_mpls(eth.dl_type) {
        layers.offsets.set(Offsets::L2_5, cursor.offset());
        // OVS leaves l3_ofs at the stack here; behind it is where extraction, and so every action, looks for it.
        mpls(&mut cursor);
    }
    layers.offsets.set(Offsets::L3, cursor.offset());
    let _stopped_early = network(&mut cursor, &mut key, &mut layers).is_none();
    layers.store(packet);
    Some(key)
}

fn network(cursor: &mut Cursor<'_>, key: &mut SimpleKey, layers: &mut Layers) -> Option<()> {
    let proto = match key.dl_type {
        ETH_IPV4 => {
            let ip = ipv4(cursor)?;
            layers.ipv4 = true;
            layers.offsets.set(Offsets::PADDING, ip.padding);
            key.nw_frag = ip.frag;
            ip.header[9]
        }
        ETH_IPV6 => {
            let (header, padding) = ipv6(cursor)?;
            layers.offsets.set(Offsets::PADDING, padding);
            let (proto, frag) = ipv6_extensions(cursor, header[6])?;
            key.nw_frag = frag;
            proto
        }
        _ => return None,
    };
    layers.offsets.set(Offsets::L4, cursor.offset());
    if key.nw_frag & NW_FRAG_LATER == 0 {
        match proto {
            IP_TCP => {
                key.tcp_flags = cursor.tcp_flags()?;
                layers.proto = Offloads::L4_TCP;
            }
            IP_UDP if cursor.len() >= 8 => layers.proto = Offloads::L4_UDP,
            IP_SCTP if cursor.len() >= 12 => layers.proto = Offloads::L4_SCTP,
            _ => {}
        }
    }
    Some(())
}
