//! A batch's way through the switch: lookups, slow path, actions, and back for what recirculates.
//!
//! Counterpart: `dp_netdev_input__` and `dp_execute_cb` of OVS `lib/dpif-netdev.c`.

use super::classify;
use super::datapath::Datapath;
use super::scratch::{Group, Level};
use super::upcall::{Injection, Install, Upcall, UpcallKind, UpcallReply, UpcallRequest};
use crate::action::exec::{Engine, Packets, execute};
use crate::action::{Action, Ct, OUTPUT, TnlPush, Userspace, check};
use crate::cache::{FlowError, KeyBatch, NO_FLOW, Pending, Run};
use crate::flow::Flow;
use crate::offload::Offloads;
use crate::packet::{BATCH, Batch, Packet};
use crate::stats::DropReason;
use crate::trace::{Event, FlowId, OffloadWhy, PacketId, Tier, Trace};
use crate::types::{PortNo, RecircId, Time};

/// How often a packet may recirculate (`MAX_RECIRC_DEPTH`).
pub const MAX_RECIRC_DEPTH: u8 = 8;
/// How often actions of the slow path may go to the slow path again.
const MAX_UPCALL_DEPTH: u8 = 4;
/// Frames shorter than this are dropped on reception.
const ETHERNET: usize = 14;

/// The processing of one batch: the datapath, and what it was lent for this.
pub(super) struct Processing<'a, U, T> {
    pub dp: &'a mut Datapath,
    pub upcall: &'a mut U,
    pub trace: &'a mut T,
    pub now: Time,
    /// Recirculations so far.
    pub depth: u8,
    upcalls: u8,
    /// The flow whose actions run.
    flow: Option<FlowId>,
}

impl<'a, U: Upcall, T: Trace> Processing<'a, U, T> {
    pub fn new(dp: &'a mut Datapath, upcall: &'a mut U, trace: &'a mut T, now: Time) -> Self {
        Self { dp, upcall, trace, now, depth: 0, upcalls: 0, flow: None }
    }

    /// Takes a batch in from a port.
    pub fn receive(&mut self, in_port: PortNo, batch: &mut Batch) {
        let mut level = self.dp.scratch.take_level();
        let mut bytes = 0;
        let mut id = self.dp.next_packet;
        let count = batch.len();
        for mut packet in batch.drain() {
            packet.md.init(in_port);
            packet.md.id = id;
            id += 1;
            bytes += packet.len() as u64;
            if T::ON {
                let (packet, len, offloads) = (PacketId(packet.md.id), packet.len() as u32, packet.offloads);
                self.trace.event(|| Event::Rx { packet, port: in_port, len, offloads });
            }
            if T::ON {
                self.trace.bytes(PacketId(packet.md.id), packet.data());
            }
            if packet.len() < ETHERNET {
                self.dp.end(packet, DropReason::TooShort, self.trace);
            } else {
                level.push(packet);
            }
        }
        self.dp.next_packet = id;
        self.dp.counters.received += count as u64;
        let mut simple = true;
        if let Some(port) = self.dp.ports.get_mut(in_port.0) {
            port.stats.rx_packets += count as u64;
            port.stats.rx_bytes += bytes;
            simple = port.config.simple_match;
        }
        self.pass(&mut level, in_port, simple);
        self.dp.scratch.give_level(level);
    }

    /// Takes packets in again; leaves the list empty.
    pub(super) fn again(&mut self, packets: &mut Packets) {
        let flow = self.flow;
        let mut rest = packets.drain(..);
        loop {
            let mut level = self.dp.scratch.take_level();
            for packet in rest.by_ref().take(BATCH) {
                level.push(packet);
            }
            if level.n == 0 {
                self.dp.scratch.give_level(level);
                break;
            }
            self.dp.counters.recirculated += level.n as u64;
            // All packets of a flow have one ingress port.
            let in_port = level.packets[0].as_ref().map_or(PortNo::NONE, |packet| packet.md.in_port);
            self.pass(&mut level, in_port, false);
            self.dp.scratch.give_level(level);
        }
        self.flow = flow;
    }

    /// One pass of a batch: finds each packet's flow and runs its actions.
    fn pass(&mut self, level: &mut Level, in_port: PortNo, simple_allowed: bool) {
        let config = self.dp.extract_config();
        let mut pending = level.all();
        let mut caches = true;
        if simple_allowed {
            let flows = self.dp.flows.ports.get(in_port.0).filter(|flows| flows.is_simple());
            let no_flows = self.dp.flows.ports.get(in_port.0).is_none();
            if let Some(flows) = flows {
                let missed = classify::match_simple(&flows.simple, level, config, self.trace);
                self.dp.counters.passes.simple += (pending.len() - missed.len()) as u64;
                classify::trace_lookups(level, Tier::Simple, &pending, &missed, 0, self.trace);
                pending = missed;
            }
            // A simple table is a complete one: what is not in it is in no cache either.
            caches = flows.is_none() && !no_flows;
        }
        if !pending.is_empty() {
            classify::extract_keys(level, &pending, config, u32::from(self.depth), self.trace);
            self.look_up(level, pending, in_port, caches);
        }
        classify::group(level, &mut self.dp.flows.hot);
        for g in 0..level.groups.n {
            let group = level.groups.groups[g];
            self.run_group(level, group);
        }
    }

    /// The lookups by key, from the smallest cache to the slow path.
    fn look_up(&mut self, level: &mut Level, mut pending: Pending, in_port: PortNo, caches: bool) {
        let dp = &mut *self.dp;
        if caches && dp.emc_insert_max.is_some() {
            let before = pending;
            classify::match_emc(&dp.emc, &dp.flows.hot, &level.keys, &mut pending, &mut level.found);
            dp.counters.passes.emc += (before.len() - pending.len()) as u64;
            classify::trace_lookups(level, Tier::Emc, &before, &pending, 0, self.trace);
        }
        let missed_emc = pending;
        if caches && dp.smc.is_enabled() {
            let Level { keys, found, .. } = &mut *level;
            let verify = |flow, i: usize| dp.flows.matches(flow, in_port.0, &keys.keys[i]);
            classify::match_smc(&dp.smc, keys, &mut pending, found, verify);
            dp.counters.passes.smc += (missed_emc.len() - pending.len()) as u64;
            classify::trace_lookups(level, Tier::Smc, &missed_emc, &pending, 0, self.trace);
        }
        if !pending.is_empty() {
            let before = pending;
            let mut subtables = 0;
            if let Some(port) = dp.flows.ports.get_mut(in_port.0) {
                let lookups = port.classifier.lookup(&level.keys, &mut pending, &mut level.found);
                dp.counters.masked_lookups += lookups;
                subtables = port.classifier.subtables().len();
            }
            dp.counters.passes.megaflow += (before.len() - pending.len()) as u64;
            classify::trace_lookups(level, Tier::Megaflow, &before, &pending, subtables, self.trace);
            if !pending.is_empty() {
                self.miss_all(level, &pending, in_port);
            }
        }
        if caches {
            self.dp.remember(&level.keys, &level.found.flows, &missed_emc);
        }
    }

    /// Hands packets to the slow path, one after the other. What one installs, the next may find.
    #[cold]
    fn miss_all(&mut self, level: &mut Level, pending: &Pending, in_port: PortNo) {
        let mut in_order = [false; BATCH];
        pending.iter().for_each(|i| in_order[i] = true);
        let installed = self.dp.flows.installed();
        for i in (0..level.n).filter(|&i| in_order[i]) {
            if self.dp.flows.installed() != installed && self.find_now(level, i, in_port) {
                continue;
            }
            if let Some(packet) = level.packets[i].take() {
                self.miss(packet, &level.keys, i);
            }
        }
    }

    /// Looks up a packet once more.
    fn find_now(&mut self, level: &mut Level, i: usize, in_port: PortNo) -> bool {
        let mut pending = Pending::default();
        pending.push(i);
        let before = pending;
        let Some(port) = self.dp.flows.ports.get_mut(in_port.0) else {
            return false;
        };
        let lookups = port.classifier.lookup(&level.keys, &mut pending, &mut level.found);
        let subtables = port.classifier.subtables().len();
        let found = pending.is_empty();
        self.dp.counters.masked_lookups += lookups;
        self.dp.counters.passes.megaflow += u64::from(found);
        classify::trace_lookups(level, Tier::Megaflow, &before, &pending, subtables, self.trace);
        found
    }

    /// Asks the slow path about a packet, does what it says, and installs what it says.
    fn miss(&mut self, packet: Box<Packet>, keys: &KeyBatch, i: usize) {
        let mut key = Flow::default();
        keys.keys[i].expand(&mut key);
        let id = PacketId(packet.md.id);
        self.trace.event(|| Event::Upcall { packet: id });
        let request = UpcallRequest { now: self.now, kind: UpcallKind::Miss, packet: &packet, key: &key };
        let reply = match self.upcall.upcall(&request) {
            Ok(reply) => reply,
            Err(reason) => {
                self.dp.counters.passes.lost += 1;
                return self.dp.end(packet, reason, self.trace);
            }
        };
        let UpcallReply { execute, install, inject } = reply;
        self.inject_all(inject);
        if let Err(error) = check(&execute) {
            self.dp.refuse(error.into());
            self.dp.counters.passes.lost += 1;
            if let Some(install) = install {
                self.upcall.settled(install.ticket, None, self.now);
            }
            return self.dp.end(packet, DropReason::UpcallError, self.trace);
        }
        self.dp.counters.passes.upcall += 1;

        let flow = self.flow.take();
        let mut packets = self.dp.scratch.take_list();
        packets.push(packet);
        self.run(&mut packets, &execute);
        self.dp.scratch.give_list(packets);
        self.flow = flow;

        if let Some(install) = install {
            let ticket = install.ticket;
            let flow = self.install(install, keys, i, &key, id);
            self.upcall.settled(ticket, flow, self.now);
        }
    }

    /// Carries out what the slow path wants done with packets that it made.
    pub(super) fn inject_all(&mut self, packets: Vec<Injection>) {
        for Injection { frame, in_port, actions } in packets {
            let mut packet = self.dp.scratch.pool.take();
            packet.set_frame(&frame);
            packet.md.init(in_port);
            if let Err(error) = self.inject(packet, &actions) {
                self.dp.refuse(error);
            }
        }
    }

    /// Runs actions over a packet that no port received.
    pub(super) fn inject(&mut self, mut packet: Box<Packet>, actions: &[Action]) -> Result<(), FlowError> {
        packet.md.id = self.dp.next_packet;
        self.dp.next_packet += 1;
        self.dp.counters.injected += 1;
        if let Err(error) = check(actions) {
            self.dp.end(packet, DropReason::UpcallError, self.trace);
            return Err(error.into());
        }
        // Actions need to know where the headers are.
        Flow::of_packet_with(&mut packet, self.dp.extract_config());
        let flow = self.flow.take();
        let mut packets = self.dp.scratch.take_list();
        packets.push(packet);
        self.run(&mut packets, actions);
        self.dp.scratch.give_list(packets);
        self.flow = flow;
        Ok(())
    }

    /// Installs what the slow path said for packet `i`; returns the flow, if it is new.
    fn install(
        &mut self,
        install: Install,
        keys: &KeyBatch,
        i: usize,
        key: &Flow,
        packet: PacketId,
    ) -> Option<FlowId> {
        let in_port = PortNo(key.in_port);
        if self.dp.flows.len() >= self.dp.config().flow_limit {
            self.dp.counters.flow_limit_hits += 1;
            return None;
        }
        // The actions may have let another packet install it: one that recirculated to the same key.
        if let Some(known) = self.dp.flows.find_in_batch(keys, i, in_port.0) {
            self.dp.remember_one(keys, i, known.0);
            return None;
        }
        match self.dp.flows.insert(key, &install.mask, install.actions, None, self.now) {
            Ok(flow) => {
                self.trace.event(|| Event::Install { packet, flow });
                self.dp.remember_one(keys, i, flow.0);
                Some(flow)
            }
            Err(error) => {
                self.dp.refuse(error);
                None
            }
        }
    }

    /// Counts a group for its flow and runs the flow's actions over it.
    fn run_group(&mut self, level: &mut Level, group: Group) {
        let Some(hot) = self.dp.flows.hot.get_mut(group.flow as usize) else {
            return;
        };
        hot.packets += u64::from(group.count);
        hot.bytes += u64::from(group.bytes);
        hot.used = self.now.0;
        hot.tcp_flags |= group.tcp_flags;
        let (run, output) = (hot.run, hot.output);
        self.flow = Some(FlowId(group.flow));
        match run {
            Run::Output => self.output_group(level, group, output),
            Run::Drop => {
                let mut packets = self.collect(level, group);
                self.run(&mut packets, &[]);
                self.dp.scratch.give_list(packets);
            }
            Run::Straight => {
                // Nothing comes back to this flow while its actions are out.
                let Some(actions) = hot.actions.take() else {
                    return;
                };
                let mut packets = self.collect(level, group);
                self.run(&mut packets, &actions);
                self.dp.scratch.give_list(packets);
                if let Some(hot) = self.dp.flows.hot.get_mut(group.flow as usize) {
                    hot.actions = Some(actions);
                }
            }
            Run::Reenter => {
                let Some(actions) = hot.actions.clone() else {
                    return;
                };
                let mut packets = self.collect(level, group);
                self.run(&mut packets, &actions);
                self.dp.scratch.give_list(packets);
            }
        }
    }

    fn run(&mut self, packets: &mut Packets, actions: &[Action]) {
        execute(self, packets, actions, 0);
    }

    /// Moves the packets of a group into a list.
    fn collect(&mut self, level: &mut Level, group: Group) -> Packets {
        let mut list = self.dp.scratch.take_list();
        let mut i = usize::from(group.first);
        for _ in 0..group.count {
            if let Some(packet) = level.packets[i & (BATCH - 1)].take() {
                list.push(packet);
            }
            i = usize::from(level.groups.next[i & (BATCH - 1)]);
        }
        list
    }

    /// The commonest actions of all: one output. The packets go straight into the port's queue.
    fn output_group(&mut self, level: &mut Level, group: Group, output: u32) {
        let dp = &mut *self.dp;
        let flow = Some(FlowId(group.flow));
        let Some(port) = dp.ports.get_mut(output) else {
            let mut packets = self.collect(level, group);
            self.run(&mut packets, &[Action::Output(PortNo(output))]);
            return self.dp.scratch.give_list(packets);
        };
        if port.queue.is_empty() {
            dp.tx_ports.push(output);
        }
        let mut i = usize::from(group.first);
        for _ in 0..group.count {
            if let Some(packet) = level.packets[i & (BATCH - 1)].take() {
                let id = PacketId(packet.md.id);
                self.trace.event(|| Event::Action { packet: id, flow, word: OUTPUT, index: 0, depth: 0 });
                port.queue.push(packet);
            }
            i = usize::from(level.groups.next[i & (BATCH - 1)]);
        }
        dp.counters.queued += u64::from(group.count);
    }
}

impl<U: Upcall, T: Trace> Engine for Processing<'_, U, T> {
    fn output(&mut self, packets: &mut Packets, port: PortNo) {
        let dp = &mut *self.dp;
        match dp.ports.get_mut(port.0) {
            Some(out) => {
                if out.queue.is_empty() && !packets.is_empty() {
                    dp.tx_ports.push(port.0);
                }
                dp.counters.queued += packets.len() as u64;
                out.queue.append(packets);
            }
            None => {
                for packet in packets.drain(..) {
                    self.dp.end(packet, DropReason::NoPort, self.trace);
                }
            }
        }
    }

    fn recirculate(&mut self, packets: &mut Packets, id: RecircId) {
        if self.depth >= MAX_RECIRC_DEPTH {
            for packet in packets.drain(..) {
                self.dp.end(packet, DropReason::RecircDepth, self.trace);
            }
            return;
        }
        self.depth += 1;
        for packet in packets.iter_mut() {
            packet.md.recirc_id = id.0;
            let (packet, depth) = (PacketId(packet.md.id), self.depth);
            self.trace.event(|| Event::Recirc { packet, id, depth });
        }
        self.again(packets);
        self.depth -= 1;
    }

    fn userspace(&mut self, packets: &mut Packets, action: &Userspace) {
        let flow = self.flow.take();
        self.upcalls += 1;
        let mut list = self.dp.scratch.take_list();
        for mut packet in packets.drain(..) {
            if self.upcalls > MAX_UPCALL_DEPTH {
                self.dp.end(packet, DropReason::ActionDepth, self.trace);
                continue;
            }
            let key = Flow::of_packet_with(&mut packet, self.dp.extract_config());
            let id = PacketId(packet.md.id);
            self.trace.event(|| Event::Upcall { packet: id });
            let kind = UpcallKind::Action(action);
            let request = UpcallRequest { now: self.now, kind, packet: &packet, key: &key };
            let mut reply = self.upcall.upcall(&request);
            if let Ok(reply) = &mut reply {
                self.inject_all(std::mem::take(&mut reply.inject));
            }
            match reply.map(|reply| (check(&reply.execute), reply.execute)) {
                Err(reason) => self.dp.end(packet, reason, self.trace),
                Ok((Err(error), _)) => {
                    self.dp.refuse(error.into());
                    self.dp.end(packet, DropReason::UpcallError, self.trace);
                }
                Ok((Ok(()), actions)) if actions.is_empty() => {
                    self.dp.end(packet, DropReason::Consumed, self.trace);
                }
                Ok((Ok(()), actions)) => {
                    list.push(packet);
                    self.run(&mut list, &actions);
                }
            }
        }
        self.dp.scratch.give_list(list);
        self.upcalls -= 1;
        self.flow = flow;
    }

    fn conntrack(&mut self, packets: &mut Packets, ct: &Ct) {
        self.track(packets, ct);
    }

    fn meter(&mut self, packets: &mut Packets, meter: u32) {
        self.pass_meter(packets, meter);
    }

    fn tnl_push(&mut self, packets: &mut Packets, push: &TnlPush) {
        self.encapsulate(packets, push);
    }

    fn tnl_pop(&mut self, packets: &mut Packets, port: PortNo) {
        self.decapsulate(packets, port);
    }

    fn copy(&mut self, packet: &Packet) -> Box<Packet> {
        let mut copy = self.dp.scratch.pool.copy(packet);
        copy.md.id = self.dp.next_packet;
        self.dp.next_packet += 1;
        self.dp.counters.copies += 1;
        let (packet, id) = (PacketId(packet.md.id), PacketId(copy.md.id));
        self.trace.event(|| Event::Copy { packet, copy: id });
        copy
    }

    fn discard(&mut self, packet: Box<Packet>, reason: DropReason) {
        self.dp.end(packet, reason, self.trace);
    }

    fn random(&mut self) -> u32 {
        self.dp.sample_random.next_u32()
    }

    fn take_list(&mut self) -> Packets {
        self.dp.scratch.take_list()
    }

    fn give_list(&mut self, list: Packets) {
        self.dp.scratch.give_list(list);
    }

    fn before(&mut self, packets: &[Box<Packet>], action: &Action, index: usize, depth: u8) {
        if T::ON {
            for packet in packets {
                let (packet, flow, index) = (PacketId(packet.md.id), self.flow, index as u16);
                let word = action.word();
                self.trace.event(|| Event::Action { packet, flow, word, index, depth });
            }
        }
    }

    fn changed(&mut self, packet: &Packet, before: Offloads) {
        if T::ON {
            let (id, after) = (PacketId(packet.md.id), packet.offloads);
            if before != after {
                let why = OffloadWhy::Rewritten;
                self.trace.event(|| Event::OffloadChange { packet: id, before, after, why });
            }
            self.trace.bytes(id, packet.data());
        }
    }
}

/// "No flow" marks packets that the slow path took; what it left must not be mistaken for a flow.
const _: () = assert!(NO_FLOW == u32::MAX);
