//! A switch: one datapath, the OpenFlow bridges on it, and the devices behind its ports, as one `ovs-vswitchd` with its userspace
//! datapath. Everything outside (the simulation, live mode) drives this.
//!
//! Owns what goes between fast and slow path: crediting statistics, revalidating datapath flows after a change, expiry. It is
//! told the time with each call. A clone behaves the same from there on.
//!
//! Counterpart: OVS `vswitchd/bridge.c` and the revalidators of `ofproto/ofproto-dpif-upcall.c`.

mod command;
mod device;
mod dump;
mod life;
mod meters;
mod ports;
mod revalidate;
#[cfg(test)]
mod tests;
mod tunnel_ports;

pub use command::{CommandError, FileReader};
pub use device::{Device, DeviceKind, RxChecksum};
pub use dump::DumpOptions;
pub use life::{FateCounts, FlowEvent, FlowFate, FlowLife};
pub use meters::MeterModError;
pub use ports::{BridgeSpec, PortSpec, SwitchError, SwitchPort};

use std::collections::BTreeMap;

use crate::flow::Flow;
use crate::openflow::Ofproto;
use crate::openflow::bridge::Mirror;
use crate::packet::{Batch, Packet};
use crate::pipeline::{Config, Datapath};
use crate::trace::{FlowId, Off, RemoveWhy, Trace};
use crate::types::{PortNo, Span, Time};

/// Settings of a switch that are not the datapath's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Datapath flows that no packet used for longer than this are removed (`max-idle`).
    pub max_idle: Span,
    /// After a change, datapath flows are revalidated at the latest after this long (`max-revalidator`).
    pub max_revalidator: Span,
    /// Whether packets with a segment size are taken from devices whose options give one (`userspace-tso-enable`).
    pub userspace_tso: bool,
}

impl SwitchConfig {
    /// How long a datapath flow was unused when it goes: OVS counts milliseconds, and keeps a flow for which it is just
    /// `max-idle` (`revalidate()` of `ofproto/ofproto-dpif-upcall.c`).
    fn idle_too_long(&self) -> Span {
        Span(self.max_idle.0.saturating_add(Span::from_millis(1).0))
    }
}

impl Default for SwitchConfig {
    /// As in OVS: 10 s, 500 ms.
    fn default() -> Self {
        Self { max_idle: Span::from_secs(10), max_revalidator: Span::from_millis(500), userspace_tso: false }
    }
}

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    dp: Datapath,
    of: Ofproto,
    config: SwitchConfig,
    ports: BTreeMap<PortNo, SwitchPort>,
    /// Ports that the datapath does not know as such: those that only lead to another bridge, and those of tunnels.
    virtual_ports: BTreeMap<String, SwitchPort>,
    /// Mirrors that the chain of commands under way makes, until a bridge takes them.
    new_mirrors: Vec<Mirror>,
    revalidator: revalidate::Revalidator,
    /// Limits of connection tracking that the database has, by zone; that of `None` is the default.
    zone_limits: BTreeMap<Option<u16>, u32>,
    life: FlowLife,
}

impl Switch {
    /// A switch without bridges. All chance in it comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            dp: Datapath::new(seed, Config::default()),
            of: Ofproto::new(),
            config: SwitchConfig::default(),
            ports: BTreeMap::new(),
            virtual_ports: BTreeMap::new(),
            new_mirrors: Vec::new(),
            revalidator: revalidate::Revalidator::default(),
            zone_limits: BTreeMap::new(),
            life: FlowLife::default(),
        }
    }

    /// The datapath: counters, flows, ports.
    pub fn datapath(&self) -> &Datapath {
        &self.dp
    }

    /// The datapath, to give it flows by hand or to configure it.
    pub fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.dp
    }

    /// The slow path: bridges, rules, learned addresses.
    pub fn ofproto(&self) -> &Ofproto {
        &self.of
    }

    /// The slow path, to reconfigure. Ports are added and removed by [`Self::add_port`] and [`Self::remove_port`].
    pub fn ofproto_mut(&mut self) -> &mut Ofproto {
        &mut self.of
    }

    /// The datapath's meters, to change.
    pub(super) fn meters_mut(&mut self) -> &mut crate::meter::Meters {
        self.dp.meters_mut()
    }

    /// Settings.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Changes settings.
    pub fn configure(&mut self, config: SwitchConfig) {
        self.config = config;
    }

    /// Changes the datapath's settings. Another VLAN limit makes all datapath flows wrong: they are removed.
    pub fn configure_datapath(&mut self, config: Config, now: Time) {
        if config.vlan_limit != self.dp.config().vlan_limit {
            self.flush_flows(now);
            self.of.set_vlan_limit(config.vlan_limit);
        }
        self.dp.configure(config);
    }

    /// Processes a batch received on a port and leaves it empty. What is to be sent waits for [`Self::drain_tx`]. Packets for a
    /// port that does not exist, or whose device is down, are not received: they are given back to the pool.
    pub fn receive<T: Trace>(&mut self, port: PortNo, batch: &mut Batch, now: Time, trace: &mut T) {
        self.credit_if_affordable(now);
        self.revalidate_if_needed(now, trace);
        self.revalidator.received(batch.len());
        let device = self.ports.get(&port).map(|port| &port.device).filter(|device| device.admin_up);
        let Some(device) = device else {
            for packet in batch.drain() {
                self.dp.recycle(packet);
            }
            return;
        };
        for packet in batch.packets_mut() {
            device.mark_received(packet);
        }
        self.dp.process(port, batch, now, &mut self.of, trace);
        self.note_changes(now);
    }

    /// Runs datapath actions over a packet that no port received (`dpif_execute`).
    ///
    /// # Errors
    /// What the datapath cannot do; the packet is dropped then.
    pub fn execute<T: Trace>(
        &mut self,
        packet: Box<Packet>,
        actions: &[crate::action::Action],
        now: Time,
        trace: &mut T,
    ) -> Result<(), crate::cache::FlowError> {
        self.inject(now, trace);
        self.dp.execute(packet, actions, now, &mut self.of, trace)
    }

    /// Sends what translation made, outside of an upcall: requests for neighbours.
    pub(super) fn inject<T: Trace>(&mut self, now: Time, trace: &mut T) {
        let packets = self.of.take_injections();
        if !packets.is_empty() {
            self.dp.inject(packets, now, &mut self.of, trace);
        }
    }

    /// Sends what is queued; see [`Datapath::drain_tx`].
    pub fn drain_tx<T: Trace>(&mut self, trace: &mut T, mut send: impl FnMut(PortNo, Box<Packet>)) {
        self.dp.drain_tx(trace, |port, packets| packets.drain(..).for_each(|packet| send(port, packet)));
    }

    /// A packet without bytes, to be filled and received.
    pub fn allocate(&mut self) -> Box<Packet> {
        self.dp.allocate()
    }

    /// Takes back a packet that nobody needs any more.
    pub fn recycle(&mut self, packet: Box<Packet>) {
        self.dp.recycle(packet);
    }

    /// Does what time brings: idle datapath flows, timed-out rules and learned addresses go, and datapath flows are made to
    /// follow.
    pub fn run<T: Trace>(&mut self, now: Time, trace: &mut T) {
        self.credit(now);
        self.expire_flows(now, trace);
        self.dp.run(now, trace);
        self.clean_policies(now);
        self.of.run(now);
        self.revalidate_if_needed(now, trace);
    }

    /// When [`Self::run`] is to be called next, if nothing happens before.
    pub fn next_wakeup(&self) -> Option<Time> {
        let flows = self.dp.flows().next_idle(self.idle_too_long());
        [flows, self.of.next_wakeup(), self.dp.next_wakeup(), self.revalidator.due(&self.config)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Brings everything up to date, as after `ovs-appctl revalidator/wait`: statistics credited, datapath flows right.
    pub fn settle<T: Trace>(&mut self, now: Time, trace: &mut T) {
        self.run(now, trace);
        self.note_changes(now);
        if self.revalidator.is_pending() {
            self.revalidate(now, trace);
        }
    }

    /// Removes all datapath flows (`revalidator/purge`, `dpctl/del-flows`).
    pub fn flush_flows(&mut self, now: Time) {
        self.credit(now);
        self.remove_all(RemoveWhy::Purged, now, &mut Off);
    }

    /// Removes one datapath flow; says whether there was one.
    pub fn remove_flow<T: Trace>(&mut self, id: FlowId, now: Time, trace: &mut T) -> bool {
        self.credit(now);
        let Some(flow) = self.dp.flows().get(id).map(|flow| flow.record()) else { return false };
        let there = self.dp.flow_del(id, RemoveWhy::Command, trace).is_ok();
        self.forget_flow(id, now);
        self.life.note(FlowEvent::removed(flow, RemoveWhy::Command, now));
        there
    }

    /// The datapath flow that a packet with this key would hit, found without touching any counter.
    pub fn find_flow(&self, key: &Flow) -> Option<FlowId> {
        self.dp.flows().find_key(key)
    }
}
