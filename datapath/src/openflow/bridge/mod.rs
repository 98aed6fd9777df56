//! Bridges: configuration, ports, tables and groups. What forwarding changes while it runs (learned addresses,
//! statistics) is elsewhere, so that a bridge can be shared by all copies of a world until someone reconfigures it.
//!
//! Counterpart: `struct ofproto` and `struct ofproto_dpif` of OVS `ofproto/`.

pub mod group;
mod learned;
mod meter;
pub mod mirror;
mod options;
pub mod port;
pub mod rule;
pub mod table;
pub mod vlan;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use group::{Group, GroupError, GroupTable, Selection};
pub use meter::BridgeMeter;
pub use mirror::{Mirror, MirrorOutput};
pub use port::{Bundle, BundleId, Peer, Port, PortFlags, PortSpec};
pub use rule::{Rule, RuleError, RuleKind};
pub use table::{FlowChange, N_TABLES, RuleFilter, RuleStats, Table, TableConfig, TableMiss};
pub use vlan::{PriorityTags, VlanConfig, VlanMode};

use super::classifier::RuleId;
use super::mcast_snooping::{PortSnooping, SnoopingConfig};
use super::tunnel::TunTable;
use crate::types::{OfPort, PortNo, TableId};

/// Numbers that bridges give out themselves end here (OVS `alloc_ofp_port()`); the rest is for those who ask.
const MAX_AUTOMATIC_PORT: u16 = 32768;

/// Identity of a bridge; never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BridgeId(pub u32);

/// What a bridge does while it has no controller (`fail_mode` of OVS's `Bridge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Forward as a learning switch.
    #[default]
    Standalone,
    /// Forward by its rules only.
    Secure,
}

/// What tables see of fragments (`ovs-ofctl set-frags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragmentHandling {
    /// No fragment has ports.
    #[default]
    Normal,
    /// Fragments are dropped.
    Drop,
    /// First fragments have ports.
    NxMatch,
}

impl FragmentHandling {
    /// The word of ovs-ofctl for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Drop => "drop",
            Self::NxMatch => "nx-match",
        }
    }
}

/// Why a port was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The name is taken.
    #[error("there is a port {0} already")]
    NameTaken(String),
    /// No number is free.
    #[error("no OpenFlow port number is free")]
    NoNumber,
}

/// A bridge.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// Identity.
    pub id: BridgeId,
    /// Name.
    pub name: String,
    /// What it does while it has no controller.
    pub fail_mode: FailMode,
    /// Whether NORMAL forwards packets to reserved addresses (`other_config:forward-bpdu`).
    pub forward_bpdu: bool,
    /// Whether it snoops on multicast groups (`mcast_snooping_enable`).
    pub snoops: bool,
    /// How it does.
    pub snooping: SnoopingConfig,
    /// What tables see of fragments.
    pub fragments: FragmentHandling,
    /// Which GENEVE options `tun_metadata` fields stand for.
    pub tun_table: TunTable,
    tables: BTreeMap<TableId, Table>,
    rules: BTreeMap<RuleId, Arc<Rule>>,
    groups: GroupTable,
    pub(in crate::openflow) meters: BTreeMap<u32, BridgeMeter>,
    ports: BTreeMap<OfPort, Port>,
    bundles: BTreeMap<BundleId, Bundle>,
    mirrors: Vec<Mirror>,
    last_bundle: BundleId,
    last_port: u16,
    internal: [Arc<Rule>; 3],
}

impl Bridge {
    /// A bridge without ports and rules.
    pub fn new(id: BridgeId, name: &str, fail_mode: FailMode) -> Self {
        let kinds = [RuleKind::Miss, RuleKind::NoPacketIn, RuleKind::DropFragments];
        Self {
            id,
            name: name.to_owned(),
            fail_mode,
            forward_bpdu: false,
            snoops: false,
            snooping: SnoopingConfig::default(),
            fragments: FragmentHandling::default(),
            tables: BTreeMap::new(),
            rules: BTreeMap::new(),
            groups: GroupTable::default(),
            tun_table: TunTable::default(),
            meters: BTreeMap::new(),
            ports: BTreeMap::new(),
            bundles: BTreeMap::new(),
            mirrors: Vec::new(),
            last_bundle: BundleId::default(),
            last_port: 0,
            internal: kinds.map(|kind| Arc::new(Rule::internal(kind))),
        }
    }

    /// The rule that a packet gets which no rule of a table matches.
    pub(super) fn internal_rule(&self, kind: RuleKind) -> &Arc<Rule> {
        match kind {
            RuleKind::Miss => &self.internal[0],
            RuleKind::User | RuleKind::NoPacketIn => &self.internal[1],
            RuleKind::DropFragments => &self.internal[2],
        }
    }

    /// Groups.
    pub fn groups(&self) -> &GroupTable {
        &self.groups
    }

    /// Groups, to change.
    pub fn groups_mut(&mut self) -> &mut GroupTable {
        &mut self.groups
    }

    /// Ports, by OpenFlow number.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values()
    }

    /// The port with an OpenFlow number.
    pub fn port(&self, port: OfPort) -> Option<&Port> {
        self.ports.get(&port)
    }

    /// The port with a name.
    pub fn port_named(&self, name: &str) -> Option<&Port> {
        self.ports.values().find(|port| port.name == name)
    }

    /// A port, to change its flags, link or peer.
    pub fn port_mut(&mut self, port: OfPort) -> Option<&mut Port> {
        self.ports.get_mut(&port)
    }

    /// The port that is number `odp_port` in the datapath.
    pub fn port_of_datapath(&self, odp_port: PortNo) -> Option<&Port> {
        self.ports.values().find(|port| port.odp_port == Some(odp_port))
    }

    /// Bundles, in the order in which they were made.
    pub fn bundles(&self) -> impl Iterator<Item = &Bundle> {
        self.bundles.values()
    }

    /// A bundle.
    pub fn bundle(&self, id: BundleId) -> Option<&Bundle> {
        self.bundles.get(&id)
    }

    /// The bundle that a port is in.
    pub fn bundle_of(&self, port: OfPort) -> Option<&Bundle> {
        self.bundles.get(&self.ports.get(&port)?.bundle)
    }

    /// Whether NORMAL floods to a bundle.
    pub(super) fn floods_to(&self, bundle: &Bundle) -> bool {
        bundle.ports.iter().all(|port| self.ports.get(port).is_some_and(|port| !port.flags.no_flood))
    }

    /// Adds a port, in a bundle of its own, and returns its number.
    ///
    /// # Errors
    /// [`PortError`] if the name is taken or no number is free.
    pub fn add_port(&mut self, spec: &PortSpec) -> Result<OfPort, PortError> {
        if self.port_named(&spec.name).is_some() {
            return Err(PortError::NameTaken(spec.name.clone()));
        }
        let wanted = spec.of_port.filter(|port| !self.ports.contains_key(port) && is_port_number(*port));
        let of_port = wanted.or_else(|| self.free_port()).ok_or(PortError::NoNumber)?;
        self.last_bundle.0 += 1;
        let bundle = self.last_bundle;
        let vlans = vlan::Vlans::new(&spec.vlan);
        self.bundles.insert(
            bundle,
            Bundle {
                id: bundle,
                name: spec.name.clone(),
                ports: vec![of_port],
                vlans,
                protected: spec.protected,
                snooping: spec.snooping,
            },
        );
        let port = Port {
            of_port,
            name: spec.name.clone(),
            odp_port: spec.odp_port,
            mac: spec.mac,
            flags: PortFlags::default(),
            link_up: true,
            bundle,
            peer: None,
        };
        self.ports.insert(of_port, port);
        Ok(of_port)
    }

    /// Removes a port, and its bundle if that is empty then; returns the bundle.
    pub fn remove_port(&mut self, port: OfPort) -> Option<BundleId> {
        let gone = self.ports.remove(&port)?;
        if let Some(bundle) = self.bundles.get_mut(&gone.bundle) {
            bundle.ports.retain(|member| *member != port);
            if bundle.ports.is_empty() {
                self.bundles.remove(&gone.bundle);
            }
        }
        Some(gone.bundle)
    }

    /// Changes the VLANs of the bundle that a port is in. Returns the bundle if that changed anything: what was
    /// learned on it is to be forgotten then.
    pub fn set_vlans(&mut self, port: OfPort, config: &VlanConfig, protected: bool) -> Option<BundleId> {
        let bundle = self.bundles.get_mut(&self.ports.get(&port)?.bundle)?;
        let vlans = vlan::Vlans::new(config);
        if bundle.vlans == vlans && bundle.protected == protected {
            return None;
        }
        bundle.vlans = vlans;
        bundle.protected = protected;
        Some(bundle.id)
    }

    /// Changes what the bundle that a port is in gets where the bridge snoops; returns the bundle.
    pub(in crate::openflow) fn set_snooping(
        &mut self,
        port: OfPort,
        config: PortSnooping,
    ) -> Option<BundleId> {
        let bundle = self.bundles.get_mut(&self.ports.get(&port)?.bundle)?;
        bundle.snooping = config;
        Some(bundle.id)
    }

    fn free_port(&mut self) -> Option<OfPort> {
        for _ in 0..MAX_AUTOMATIC_PORT {
            self.last_port = if self.last_port + 1 >= MAX_AUTOMATIC_PORT { 1 } else { self.last_port + 1 };
            if !self.ports.contains_key(&OfPort(self.last_port)) {
                return Some(OfPort(self.last_port));
            }
        }
        None
    }
}

fn is_port_number(port: OfPort) -> bool {
    port == OfPort::LOCAL || (port.0 != 0 && port < OfPort::MAX)
}
