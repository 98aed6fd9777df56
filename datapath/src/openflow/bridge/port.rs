//! Ports of a bridge, and bundles: what NORMAL forwards between and learns addresses on.
//!
//! Counterpart: `struct ofport_dpif` and `struct ofbundle` of OVS `ofproto/ofproto-dpif.c`.

use super::BridgeId;
use super::vlan::{VlanConfig, Vlans};
use crate::openflow::mcast_snooping::PortSnooping;
use crate::openflow::tunnel::TunnelConfig;
use crate::types::{MacAddr, OfPort, PortNo};

/// Identity of a bundle; never used twice in a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u32);

/// OpenFlow port configuration (`ovs-ofctl mod-port`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortFlags {
    /// `down`.
    pub down: bool,
    /// `no-receive`.
    pub no_receive: bool,
    /// `no-receive-stp`.
    pub no_receive_stp: bool,
    /// `no-flood`.
    pub no_flood: bool,
    /// `no-forward`.
    pub no_forward: bool,
    /// `no-packet-in`.
    pub no_packet_in: bool,
}

/// Where a patch port leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Bridge.
    pub bridge: BridgeId,
    /// Port of that bridge.
    pub port: OfPort,
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// OpenFlow number.
    pub of_port: OfPort,
    /// Name.
    pub name: String,
    /// Number in the datapath; patch ports have none.
    pub odp_port: Option<PortNo>,
    /// Address, as features tell it.
    pub mac: MacAddr,
    /// OpenFlow configuration.
    pub flags: PortFlags,
    /// Whether the link is up.
    pub link_up: bool,
    /// Bundle it is in.
    pub bundle: BundleId,
    /// Where a patch port leads.
    pub peer: Option<Peer>,
}

impl Port {
    /// Whether what watches the port sees it alive.
    pub fn is_alive(&self) -> bool {
        self.link_up && !self.flags.down
    }
}

/// One port, or several that act as one, with VLANs. NORMAL knows nothing finer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// Identity.
    pub id: BundleId,
    /// Name.
    pub name: String,
    /// Members.
    pub ports: Vec<OfPort>,
    /// VLAN behaviour.
    pub vlans: Vlans,
    /// `protected`: two such ports do not reach each other.
    pub protected: bool,
    /// What it gets where the bridge snoops.
    pub snooping: PortSnooping,
}

/// A port to add.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSpec {
    /// Name.
    pub name: String,
    /// Number wanted; given if free.
    pub of_port: Option<OfPort>,
    /// Number in the datapath; tunnels of a kind share one.
    pub odp_port: Option<PortNo>,
    /// Settings of a tunnel port.
    pub tunnel: Option<TunnelConfig>,
    /// Address.
    pub mac: MacAddr,
    /// VLANs.
    pub vlan: VlanConfig,
    /// `protected`.
    pub protected: bool,
    /// What it gets where the bridge snoops.
    pub snooping: PortSnooping,
}
