//! Changing bridges, ports, rules and groups.

use std::sync::Arc;

use super::Changes;
use super::Ofproto;
use crate::openflow::bridge::group::GroupTable;
use crate::openflow::bridge::port::PortSpec;
use crate::openflow::bridge::rule::{RuleError, check_actions};
use crate::openflow::bridge::table::{FlowContext, RuleFilter, TableConfig};
use crate::openflow::bridge::{
    Bridge, BridgeId, BridgeMeter, BundleId, FailMode, FlowChange, FragmentHandling, GroupError, Mirror,
    Peer, PortError, PortFlags, VlanConfig,
};
use crate::openflow::flow_mod::{FlowMod, FlowModCommand};
use crate::openflow::group::GroupMod;
use crate::openflow::mac_learning::MacTable;
use crate::openflow::mcast_snooping::{PortSnooping, SnoopingConfig};
use crate::openflow::rule_match::Match;
use crate::openflow::tunnel::{TunTable, TunTableError};
use crate::openflow::{OfAction, classifier::PrefixField};
use crate::types::{MacAddr, OfPort, PortNo, TableId, Time};

/// Why a bridge or port was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such bridge.
    #[error("no bridge")]
    NoBridge,
    /// No such port.
    #[error("no port {0} in the bridge")]
    NoPort(u16),
    /// The name is taken.
    #[error("there is a bridge {0} already")]
    NameTaken(String),
    /// A port was refused.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A rule was refused.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A mapping of options was refused.
    #[error(transparent)]
    Options(#[from] TunTableError),
    /// A group was refused.
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl Ofproto {
    fn bridge_mut(&mut self, id: BridgeId) -> Result<&mut Bridge, ConfigError> {
        self.changes |= Changes::PORTS;
        self.bridges.get_mut(&id).map(Arc::make_mut).ok_or(ConfigError::NoBridge)
    }

    /// Adds a bridge without ports.
    ///
    /// # Errors
    /// [`ConfigError::NameTaken`].
    pub fn add_bridge(
        &mut self,
        name: &str,
        fail_mode: FailMode,
        now: Time,
    ) -> Result<BridgeId, ConfigError> {
        if self.bridge_named(name).is_some() {
            return Err(ConfigError::NameTaken(name.to_owned()));
        }
        if self.bridges.is_empty() {
            self.keeps_two_tags = self.two_tags;
        }
        self.last_bridge.0 += 1;
        let id = self.last_bridge;
        self.bridges.insert(id, Arc::new(Bridge::new(id, name, fail_mode)));
        self.learning.tables.insert(id, MacTable::default());
        self.flush_rules(id, now)?;
        Ok(id)
    }

    /// Removes a bridge and all that is in it.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn remove_bridge(&mut self, id: BridgeId) -> Result<(), ConfigError> {
        let bridge = self.bridges.remove(&id).ok_or(ConfigError::NoBridge)?;
        for rule in bridge.find_rules(&all_rules(&Match::catch_all())) {
            self.rule_stats.remove(&rule.id);
        }
        self.learning.remove(id);
        self.table_stats.retain(|(of, _), _| *of != id);
        self.group_stats.retain(|(of, _), _| *of != id);
        self.patch_stats.retain(|(of, _), _| *of != id);
        self.mirror_stats.retain(|(of, _), _| *of != id);
        self.by_port.retain(|_, (of, _)| *of != id);
        self.changes |= Changes::PORTS;
        Ok(())
    }

    /// Deletes all rules and groups; a bridge that stands alone becomes a learning switch then.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn flush_rules(&mut self, id: BridgeId, now: Time) -> Result<FlowChange, ConfigError> {
        let found = self.bridge(id).ok_or(ConfigError::NoBridge)?.find_rules(&all_rules(&Match::catch_all()));
        let bridge = Arc::make_mut(self.bridges.get_mut(&id).ok_or(ConfigError::NoBridge)?);
        let gone = bridge.remove_rules(&found, &mut self.rule_stats);
        *bridge.groups_mut() = GroupTable::default();
        self.group_stats.retain(|(of, _), _| *of != id);
        self.changes |= Changes::RULES;
        if bridge.fail_mode == FailMode::Standalone {
            self.flow_mod(id, &normal_rule(), now)?;
        }
        Ok(gone)
    }

    /// Changes what a bridge does without a controller; deletes its rules if that is new.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_fail_mode(&mut self, id: BridgeId, fail_mode: FailMode, now: Time) -> Result<(), ConfigError> {
        let bridge = self.bridge_mut(id)?;
        if std::mem::replace(&mut bridge.fail_mode, fail_mode) != fail_mode {
            self.flush_rules(id, now)?;
        }
        Ok(())
    }

    /// Changes whether NORMAL forwards packets to reserved addresses.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_forward_bpdu(&mut self, id: BridgeId, on: bool) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.forward_bpdu = on;
        Ok(())
    }

    /// Replaces the mirrors of a bridge.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_mirrors(&mut self, id: BridgeId, mirrors: Vec<Mirror>) -> Result<(), ConfigError> {
        self.mirror_stats
            .retain(|(of, name), _| *of != id || mirrors.iter().any(|mirror| mirror.name == *name));
        self.bridge_mut(id)?.set_mirrors(mirrors);
        Ok(())
    }

    /// Changes whether a bridge snoops on multicast groups, and how. What it knew is forgotten when it stops.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_snooping(
        &mut self,
        id: BridgeId,
        snoops: bool,
        config: &SnoopingConfig,
    ) -> Result<(), ConfigError> {
        let bridge = self.bridge_mut(id)?;
        (bridge.snoops, bridge.snooping) = (snoops, *config);
        let ports: Vec<_> = bridge.bundles().map(|bundle| (bundle.id, bundle.snooping)).collect();
        if snoops {
            let table = self.learning.snooping.entry(id).or_default();
            table.configure(config);
            ports.into_iter().for_each(|(port, config)| table.configure_port(port, config));
        } else {
            self.learning.remove_snooping(id);
        }
        Ok(())
    }

    /// Changes what a port gets where its bridge snoops.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_port_snooping(
        &mut self,
        id: BridgeId,
        port: OfPort,
        config: PortSnooping,
    ) -> Result<(), ConfigError> {
        let bundle = self.bridge_mut(id)?.set_snooping(port, config).ok_or(ConfigError::NoPort(port.0))?;
        if let Some(table) = self.learning.snooping.get_mut(&id) {
            table.configure_port(bundle, config);
        }
        Ok(())
    }

    /// Forgets what was learned on a bundle that goes, or whose VLANs change.
    fn forget_bundle(&mut self, id: BridgeId, bundle: BundleId) {
        if let Some(table) = self.learning.tables.get_mut(&id) {
            table.flush_port(bundle);
        }
        if let Some(table) = self.learning.snooping.get_mut(&id) {
            table.flush_port(bundle);
        }
    }

    /// Adds a meter, or changes it.
    pub fn set_meter(&mut self, id: BridgeId, number: u32, meter: BridgeMeter) {
        if let Some(bridge) = self.bridges.get_mut(&id).map(Arc::make_mut) {
            self.changes |= Changes::METERS;
            bridge.meters.insert(number, meter);
        }
    }

    /// Removes a meter, and the rules that use it (OpenFlow 1.3, 6.5).
    pub fn remove_meter(&mut self, id: BridgeId, number: u32) -> FlowChange {
        let Some(bridge) = self.bridges.get_mut(&id).map(Arc::make_mut) else { return FlowChange::default() };
        self.changes |= Changes::METERS;
        bridge.meters.remove(&number);
        let rules = bridge.rules_with_meter(number);
        let mut done = bridge.remove_rules(&rules, &mut self.rule_stats);
        self.forget_learned(id, &mut done);
        done
    }

    /// Changes what tables see of fragments.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_fragments(&mut self, id: BridgeId, handling: FragmentHandling) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.fragments = handling;
        Ok(())
    }

    /// Configures a table.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_table_config(
        &mut self,
        id: BridgeId,
        table: TableId,
        config: TableConfig,
    ) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.set_table_config(table, config);
        Ok(())
    }

    /// Changes which fields a table indexes by prefix.
    ///
    /// # Errors
    /// [`ConfigError::NoBridge`].
    pub fn set_prefixes(
        &mut self,
        id: BridgeId,
        table: TableId,
        prefixes: &[PrefixField],
    ) -> Result<(), ConfigError> {
        let bridge = self.bridge_mut(id)?;
        let config = bridge.table(table).map(|table| table.config.clone()).unwrap_or_default();
        bridge.set_table_config(table, TableConfig { prefixes: prefixes.to_vec(), ..config });
        Ok(())
    }

    /// Adds a port and returns its OpenFlow number.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge, or the port is refused.
    pub fn add_port(&mut self, id: BridgeId, spec: &PortSpec) -> Result<OfPort, ConfigError> {
        let port = self.bridge_mut(id)?.add_port(spec)?;
        match (spec.odp_port, &spec.tunnel) {
            (Some(odp_port), Some(config)) => {
                self.tunnels_mut().add_port((id, port), &spec.name, config.clone(), odp_port);
            }
            (Some(odp_port), None) => {
                self.by_port.insert(odp_port, (id, port));
            }
            (None, _) => {}
        }
        self.set_port_snooping(id, port, spec.snooping)?;
        Ok(port)
    }

    /// Removes a port, and what was learned on it.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn remove_port(&mut self, id: BridgeId, port: OfPort) -> Result<(), ConfigError> {
        let bridge = self.bridge_mut(id)?;
        let odp_port = bridge.port(port).and_then(|port| port.odp_port);
        let bundle = bridge.remove_port(port).ok_or(ConfigError::NoPort(port.0))?;
        if let Some(odp_port) = odp_port {
            self.by_port.remove(&odp_port);
        }
        self.forget_bundle(id, bundle);
        self.patch_stats.remove(&(id, port));
        Ok(())
    }

    /// Tells the address of a port's device.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_port_mac(&mut self, id: BridgeId, port: OfPort, mac: MacAddr) -> Result<(), ConfigError> {
        let port = self.bridge_mut(id)?.port_mut(port).ok_or(ConfigError::NoPort(port.0))?;
        port.mac = mac;
        let name = port.name.clone();
        self.tunnels_mut().set_mac(&name, mac);
        Ok(())
    }

    /// Changes which GENEVE options `tun_metadata` fields stand for.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge, or its rules rely on a field that would stand for nothing.
    pub fn set_tun_table(&mut self, id: BridgeId, table: TunTable) -> Result<(), ConfigError> {
        Ok(self.bridge_mut(id)?.set_tun_table(table)?)
    }

    /// Changes the datapath port of a tunnel port.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_odp_port(&mut self, id: BridgeId, port: OfPort, no: PortNo) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.port_mut(port).ok_or(ConfigError::NoPort(port.0))?.odp_port = Some(no);
        Ok(())
    }

    /// Changes the VLANs of a port, and whether it is protected; forgets what was learned on it if that is new.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_port_vlans(
        &mut self,
        id: BridgeId,
        port: OfPort,
        config: &VlanConfig,
        protected: bool,
    ) -> Result<(), ConfigError> {
        let bridge = self.bridge_mut(id)?;
        bridge.port(port).ok_or(ConfigError::NoPort(port.0))?;
        let changed = bridge.set_vlans(port, config, protected);
        let snooping = bridge.bundle_of(port).map(|bundle| bundle.snooping).unwrap_or_default();
        if let Some(bundle) = changed {
            self.forget_bundle(id, bundle);
            self.set_port_snooping(id, port, snooping)?;
        }
        Ok(())
    }

    /// Changes the OpenFlow configuration of a port.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_port_flags(
        &mut self,
        id: BridgeId,
        port: OfPort,
        flags: PortFlags,
    ) -> Result<(), ConfigError> {
        let port = self.bridge_mut(id)?.port_mut(port).ok_or(ConfigError::NoPort(port.0))?;
        port.flags = flags;
        Ok(())
    }

    /// Tells that the link of a port went up or down.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_link(&mut self, id: BridgeId, port: OfPort, up: bool) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.port_mut(port).ok_or(ConfigError::NoPort(port.0))?.link_up = up;
        Ok(())
    }

    /// Makes a port lead into another bridge, or nowhere.
    ///
    /// # Errors
    /// [`ConfigError`] if there is no such bridge or port.
    pub fn set_peer(&mut self, id: BridgeId, port: OfPort, peer: Option<Peer>) -> Result<(), ConfigError> {
        self.bridge_mut(id)?.port_mut(port).ok_or(ConfigError::NoPort(port.0))?.peer = peer;
        Ok(())
    }

    /// Adds, changes or deletes rules.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing is changed then.
    pub fn flow_mod(&mut self, id: BridgeId, change: &FlowMod, now: Time) -> Result<FlowChange, ConfigError> {
        let bridge = self.bridges.get_mut(&id).map(Arc::make_mut).ok_or(ConfigError::NoBridge)?;
        let mut context = FlowContext { last_rule: &mut self.last_rule, stats: &mut self.rule_stats, now };
        let mut done = bridge.apply_flow_mod(change, &mut context)?;
        self.forget_learned(id, &mut done);
        if done != FlowChange::default() {
            self.changes |= Changes::RULES;
        }
        Ok(done)
    }

    /// Adds, changes or deletes groups. Rules that use a group that goes, go too.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing is changed then.
    pub fn group_mod(
        &mut self,
        id: BridgeId,
        change: &GroupMod,
        now: Time,
    ) -> Result<FlowChange, ConfigError> {
        for bucket in &change.buckets {
            check_actions(&bucket.actions).map_err(|why| GroupError::Action {
                group: change.group_id,
                bucket: bucket.id,
                why,
            })?;
        }
        let bridge = self.bridges.get_mut(&id).map(Arc::make_mut).ok_or(ConfigError::NoBridge)?;
        let done = bridge.groups_mut().apply(change, now)?;
        self.changes |= Changes::GROUPS;
        let everything = Match::catch_all();
        let mut gone = FlowChange::default();
        for group in done.deleted {
            self.group_stats.remove(&(id, group));
            let filter = RuleFilter { out_group: Some(group), ..all_rules(&everything) };
            let found = bridge.find_rules(&filter);
            gone.removed.extend(bridge.remove_rules(&found, &mut self.rule_stats).removed);
        }
        self.forget_learned(id, &mut gone);
        Ok(gone)
    }
}

/// A filter that lets every rule through.
pub(super) fn all_rules(everything: &Match) -> RuleFilter<'_> {
    RuleFilter {
        table: None,
        rule_match: everything,
        cookie: (0, 0),
        out_port: OfPort::NONE,
        out_group: None,
    }
}

/// What a bridge that stands alone does with every packet.
fn normal_rule() -> FlowMod {
    FlowMod {
        table: Some(TableId(0)),
        priority: 0,
        new_cookie: Some(0),
        actions: vec![OfAction::Output { port: OfPort::NORMAL, max_len: 0 }],
        ..FlowMod::new(FlowModCommand::Add)
    }
}
