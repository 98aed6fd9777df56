//! The datapath: ports, flows, caches, counters, and what can be asked of them between batches.

use super::port::{Port, PortConfig, PortError};
use super::receive::Processing;
use super::scratch::Scratch;
use super::upcall::{Injection, Upcall};
use crate::action::exec::Packets;
use crate::action::{Action, Actions};
use crate::cache::{
    Emc, FlowError, FlowStats, FlowStore, FlowView, KeyBatch, NO_FLOW, Pending, PortMap, Smc, SplitMix64,
    Ufid,
};
use crate::conntrack::Conntrack;
use crate::flow::{ExtractConfig, Flow};
use crate::meter::Meters;
use crate::packet::{BATCH, Batch, Packet};
use crate::stats::{Counters, DropReason};
use crate::trace::{Event, FlowId, PacketId, RemoveWhy, Trace};
use crate::types::{PortNo, Span, Time};

/// How often subtables are ranked anew (`DPCLS_OPTIMIZATION_INTERVAL`).
const RANK_INTERVAL: Span = Span::from_secs(1);

/// Source ports of what is encapsulated in UDP: from the first, up to the one before the second.
const TUNNEL_PORTS: (u16, u16) = (32768, 61000);

/// Settings of a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// One in so many keys that the EMC did not have is put into it; 0 turns it off (`emc-insert-inv-prob`).
    pub emc_insert_inv_prob: u32,
    /// Whether the signature match cache is on (`smc-enable`).
    pub smc: bool,
    /// The slow path installs no flow while there are so many (`flow-limit`).
    pub flow_limit: usize,
    /// VLAN tags that keys see, 1 or 2 (`vlan-limit`).
    pub vlan_limit: u8,
}

impl Default for Config {
    /// As in OVS.
    fn default() -> Self {
        Self { emc_insert_inv_prob: 100, smc: false, flow_limit: 200_000, vlan_limit: 1 }
    }
}

/// A flow to be created or changed.
#[derive(Clone, Debug)]
pub struct FlowPut<'a> {
    /// Key; bits outside the mask do not matter.
    pub key: &'a Flow,
    /// Mask.
    pub mask: &'a Flow,
    /// Actions.
    pub actions: Actions,
    /// Unique id; by default, that of key and mask.
    pub ufid: Option<Ufid>,
    /// Create it if it is not there (`DPIF_FP_CREATE`).
    pub create: bool,
    /// Change it if it is there (`DPIF_FP_MODIFY`).
    pub modify: bool,
    /// Set its counters to zero when changing it (`DPIF_FP_ZERO_STATS`).
    pub zero_stats: bool,
}

/// One datapath. A clone is independent and behaves the same from there on.
#[derive(Clone, Debug)]
pub struct Datapath {
    config: Config,
    pub(super) flows: FlowStore,
    pub(super) emc: Emc,
    /// A key is put into the EMC if chance is not above this; none if the EMC is off.
    pub(super) emc_insert_max: Option<u32>,
    pub(super) smc: Smc,
    emc_random: SplitMix64,
    smc_random: SplitMix64,
    pub(super) sample_random: SplitMix64,
    pub(super) ports: PortMap<Port>,
    /// Ports with something queued, in the order in which they were first sent to.
    pub(super) tx_ports: Vec<u32>,
    pub(super) scratch: Scratch,
    pub(super) counters: Counters,
    pub(super) conntrack: Conntrack,
    pub(super) meters: Meters,
    pub(super) next_packet: u64,
    /// Least and largest source port of what is encapsulated in UDP.
    pub(super) tunnel_ports: (u16, u16),
    next_rank: Time,
    refused: Option<FlowError>,
}

impl Datapath {
    /// A datapath without ports and flows. All chance in it comes from `seed`.
    pub fn new(seed: u64, config: Config) -> Self {
        let mut datapath = Self {
            config,
            flows: FlowStore::default(),
            emc: Emc::default(),
            emc_insert_max: None,
            smc: Smc::default(),
            emc_random: SplitMix64::named(seed, "emc"),
            smc_random: SplitMix64::named(seed, "smc"),
            sample_random: SplitMix64::named(seed, "sample"),
            ports: PortMap::default(),
            tx_ports: Vec::new(),
            scratch: Scratch::default(),
            counters: Counters::default(),
            conntrack: Conntrack::new(seed),
            meters: Meters::default(),
            next_packet: 0,
            tunnel_ports: TUNNEL_PORTS,
            next_rank: Time::ZERO + RANK_INTERVAL,
            refused: None,
        };
        datapath.configure(config);
        datapath
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings.
    pub fn configure(&mut self, config: Config) {
        self.emc_insert_max = u32::MAX.checked_div(config.emc_insert_inv_prob);
        if self.emc_insert_max.is_none() {
            self.emc.clear();
        }
        if config.smc != self.smc.is_enabled() {
            self.smc = if config.smc { Smc::enabled() } else { Smc::default() };
        }
        self.config = config;
    }

    pub(super) fn extract_config(&self) -> ExtractConfig {
        ExtractConfig { vlan_limit: self.config.vlan_limit }
    }

    /// Processes a batch that `in_port` received, and leaves it empty. Packets end in the ports' queues, in the slow path,
    /// or dropped.
    pub fn process<U: Upcall, T: Trace>(
        &mut self,
        in_port: PortNo,
        batch: &mut Batch,
        now: Time,
        upcall: &mut U,
        trace: &mut T,
    ) {
        if now >= self.next_rank {
            self.rank(now);
        }
        Processing::new(self, upcall, trace, now).receive(in_port, batch);
    }

    /// Runs actions over a packet that the slow path made or kept (`dpif_execute`). Its metadata, the ingress port among
    /// it, stay as they are.
    ///
    /// # Errors
    /// [`FlowError::Action`]; the packet is dropped then.
    pub fn execute<U: Upcall, T: Trace>(
        &mut self,
        packet: Box<Packet>,
        actions: &[Action],
        now: Time,
        upcall: &mut U,
        trace: &mut T,
    ) -> Result<(), FlowError> {
        Processing::new(self, upcall, trace, now).inject(packet, actions)
    }

    /// Carries out what the slow path wants done with packets that it made.
    pub fn inject<U: Upcall, T: Trace>(
        &mut self,
        packets: Vec<Injection>,
        now: Time,
        upcall: &mut U,
        trace: &mut T,
    ) {
        Processing::new(self, upcall, trace, now).inject_all(packets);
    }

    #[cold]
    fn rank(&mut self, now: Time) {
        for port in self.flows.ports.values_mut() {
            port.classifier.rank();
        }
        self.next_rank = now + RANK_INTERVAL;
    }

    /// The end of a packet that is not sent.
    pub(super) fn end<T: Trace>(&mut self, packet: Box<Packet>, reason: DropReason, trace: &mut T) {
        let id = PacketId(packet.md.id);
        trace.event(|| Event::Drop { packet: id, reason });
        self.counters.drops.add(reason);
        self.scratch.pool.put(packet);
    }

    /// A packet without bytes, to be filled and processed.
    pub fn allocate(&mut self) -> Box<Packet> {
        self.scratch.pool.take()
    }

    /// Takes back a packet that nobody needs any more.
    pub fn recycle(&mut self, packet: Box<Packet>) {
        self.scratch.pool.put(packet);
    }

    /// Everything counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Source ports of what is encapsulated in UDP: least, and one more than the largest.
    pub fn tunnel_ports(&self) -> (u16, u16) {
        self.tunnel_ports
    }

    /// Changes the source ports of what is encapsulated in UDP.
    pub fn set_tunnel_ports(&mut self, ports: (u16, u16)) {
        self.tunnel_ports = ports;
    }

    /// The connections.
    pub fn conntrack(&self) -> &Conntrack {
        &self.conntrack
    }

    /// The connections, to configure or to remove.
    pub fn conntrack_mut(&mut self) -> &mut Conntrack {
        &mut self.conntrack
    }

    /// The meters.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The meters, to configure.
    pub fn meters_mut(&mut self) -> &mut Meters {
        &mut self.meters
    }

    /// Does what time brings: connections that are over, and fragments that wait in vain, go.
    pub fn run<T: Trace>(&mut self, now: Time, trace: &mut T) {
        let connections = self.conntrack.run(now);
        if connections > 0 {
            trace.event(|| Event::Expire { connections });
        }
        let late = self.conntrack.fragments.run(now);
        self.end_held(late, trace);
    }

    /// When [`Self::run`] has something to do, if nothing happens before.
    pub fn next_wakeup(&self) -> Option<Time> {
        [self.conntrack.next_wakeup(), self.conntrack.fragments.next_wakeup()].into_iter().flatten().min()
    }

    /// The end of fragments.
    pub(super) fn end_held<T: Trace>(&mut self, packets: Packets, trace: &mut T) {
        for packet in packets {
            self.counters.held -= 1;
            self.end(packet, DropReason::Conntrack, trace);
        }
    }

    pub(super) fn refuse(&mut self, error: FlowError) {
        self.refused.get_or_insert(error);
    }

    /// The first thing that the slow path asked for and the datapath refused, since this was last asked.
    pub fn take_refused(&mut self) -> Option<FlowError> {
        self.refused.take()
    }
}

/// Caches.
impl Datapath {
    /// Puts keys that the EMC did not have into EMC and SMC, with the flows that were found for them elsewhere.
    #[inline]
    pub(super) fn remember(&mut self, keys: &KeyBatch, flows: &[u32; BATCH], missed: &Pending) {
        for i in missed.iter() {
            if flows[i] != NO_FLOW {
                self.remember_one(keys, i, flows[i]);
            }
        }
    }

    #[inline(always)]
    pub(super) fn remember_one(&mut self, keys: &KeyBatch, i: usize, flow: u32) {
        if self.smc.is_enabled() {
            self.smc.insert(keys.hashes[i], flow, &mut self.smc_random);
        }
        if let Some(max) = self.emc_insert_max
            && self.emc_random.next_u32() <= max
        {
            let flows = &self.flows;
            let flow = flows.reference(flow);
            self.emc.insert(keys.hashes[i], &keys.keys[i], keys.len(i), flow, |flow| flows.is_alive(flow));
        }
    }

    /// Keys in the EMC whose flows are alive.
    pub fn emc_len(&self) -> usize {
        self.emc.len(|flow| self.flows.is_alive(flow))
    }
}

/// Ports.
impl Datapath {
    /// Adds a port.
    ///
    /// # Errors
    /// [`PortError::Exists`], [`PortError::BadNumber`].
    pub fn add_port(&mut self, no: PortNo, config: PortConfig) -> Result<(), PortError> {
        if no == PortNo::NONE {
            return Err(PortError::BadNumber(no));
        }
        if self.ports.get(no.0).is_some() {
            return Err(PortError::Exists(no));
        }
        self.ports.insert(no.0, Port { config, ..Port::default() });
        Ok(())
    }

    /// Removes a port. What it has queued is dropped; flows that mention it stay.
    ///
    /// # Errors
    /// [`PortError::NotFound`].
    pub fn remove_port<T: Trace>(&mut self, no: PortNo, trace: &mut T) -> Result<(), PortError> {
        let port = self.ports.remove(no.0).ok_or(PortError::NotFound(no))?;
        self.tx_ports.retain(|&queued| queued != no.0);
        self.counters.queued -= port.queue.len() as u64;
        for packet in port.queue {
            self.end(packet, DropReason::NoPort, trace);
        }
        Ok(())
    }

    /// Changes how a port behaves.
    ///
    /// # Errors
    /// [`PortError::NotFound`].
    pub fn configure_port(&mut self, no: PortNo, config: PortConfig) -> Result<(), PortError> {
        self.ports.get_mut(no.0).ok_or(PortError::NotFound(no))?.config = config;
        Ok(())
    }

    /// A port.
    pub fn port(&self, no: PortNo) -> Option<&Port> {
        self.ports.get(no.0)
    }

    /// All ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = (PortNo, &Port)> {
        self.ports.iter().map(|(no, port)| (PortNo(no), port))
    }
}

/// Flows.
impl Datapath {
    /// All flows: to look at and iterate over.
    pub fn flows(&self) -> &FlowStore {
        &self.flows
    }

    /// Creates or changes a flow; returns its number, and the counters that it had before.
    ///
    /// # Errors
    /// [`FlowError::Exists`] if it is there and not to be changed, [`FlowError::NotFound`] if it is not and not to be
    /// created; [`FlowError::InPort`], [`FlowError::Action`], [`FlowError::Full`].
    pub fn flow_put(&mut self, put: FlowPut<'_>, now: Time) -> Result<(FlowId, FlowStats), FlowError> {
        let FlowPut { key, mask, actions, ufid, create, modify, zero_stats } = put;
        let mask = crate::cache::complete_mask(mask)?;
        let ufid = ufid.unwrap_or_else(|| crate::cache::ufid_of(key, &mask));
        match self.flows.find_ufid(ufid) {
            Some(id) if modify => {
                self.flows.set_actions(id, actions)?;
                let stats = self.flows.get(id).map(|flow| flow.stats).unwrap_or_default();
                if zero_stats {
                    self.flows.clear_stats(id);
                }
                Ok((id, stats))
            }
            Some(_) => Err(FlowError::Exists),
            None if create => {
                let id = self.flows.insert(key, &mask, actions, Some(ufid), now)?;
                Ok((id, FlowStats::default()))
            }
            None => Err(FlowError::NotFound),
        }
    }

    /// Removes a flow and returns its last counters.
    ///
    /// # Errors
    /// [`FlowError::NotFound`].
    pub fn flow_del<T: Trace>(
        &mut self,
        id: FlowId,
        why: RemoveWhy,
        trace: &mut T,
    ) -> Result<FlowStats, FlowError> {
        let stats = self.flows.remove(id).ok_or(FlowError::NotFound)?;
        trace.event(|| Event::Remove { flow: id, why });
        Ok(stats)
    }

    /// Replaces a flow's actions; counters stay, and so do the caches' entries for it.
    ///
    /// # Errors
    /// [`FlowError::NotFound`], [`FlowError::Action`].
    pub fn flow_set_actions<T: Trace>(
        &mut self,
        id: FlowId,
        actions: Actions,
        trace: &mut T,
    ) -> Result<(), FlowError> {
        self.flows.set_actions(id, actions)?;
        trace.event(|| Event::Modify { flow: id });
        Ok(())
    }

    /// Removes all flows.
    pub fn flow_flush<T: Trace>(&mut self, trace: &mut T) {
        let ids: Vec<FlowId> = self.flows.iter().map(|flow| flow.id).collect();
        for flow in ids {
            self.flows.remove(flow);
            trace.event(|| Event::Remove { flow, why: RemoveWhy::Purged });
        }
    }

    /// Removes the flows that no packet used for `idle`; `removed` sees each before it goes.
    pub fn flow_expire<T: Trace>(
        &mut self,
        now: Time,
        idle: Span,
        trace: &mut T,
        mut removed: impl FnMut(&FlowView<'_>),
    ) {
        self.flows.expire(now, idle, |flow| {
            removed(flow);
            let flow = flow.id;
            trace.event(|| Event::Remove { flow, why: RemoveWhy::Idle });
        });
    }
}
