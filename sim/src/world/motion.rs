//! Frames in motion: from hosts over links to switches and on.

use std::collections::BTreeMap;
use std::sync::Arc;

use datapath::offload::Offloads;
use datapath::packet::{BATCH, Batch, NO_OFFSET, Packet};
use datapath::types::{PortNo, Span, Time};
use sha2::Digest as _;

use super::{Event, Target, World};
use crate::link::{Fate, FrameSize};
use crate::record::{Arrival, Departure, Observer, Watch, WorldEvent};
use crate::scenario::Place;
use crate::wire::l2_header_len;

/// Least time between two rounds of housekeeping: a datapath that always wants more must not stop time.
const MIN_WAKE: Span = Span::from_millis(1);

/// What the world knows about each port of a datapath.
#[derive(Clone, Debug, Default)]
pub(super) struct PortTable {
    ports: BTreeMap<PortNo, PortEntry>,
}

#[derive(Clone, Debug)]
struct PortEntry {
    bridge: Arc<str>,
    name: Arc<str>,
    link: Option<(usize, usize)>,
    to_switch: bool,
}

impl World {
    /// Looks at the ports of a datapath anew, after something may have changed them.
    pub(super) fn refresh_ports(&mut self, switch: usize) {
        let infos = self.switches[switch].node.ports();
        let mut table = PortTable::default();
        for (index, link) in self.links.iter_mut().enumerate() {
            for end in 0..2 {
                let Some(port) = &link.ends[end].port else { continue };
                let found =
                    infos.iter().find(|info| info.bridge == link.ends[end].node && info.name == *port);
                match (found, link.targets[end]) {
                    (Some(info), _) => link.targets[end] = Some(Target::Port { switch, port: info.no }),
                    (None, Some(Target::Port { switch: s, .. })) if s == switch => link.targets[end] = None,
                    (None, _) => continue,
                }
                if let Some(info) = found {
                    let up = !link.directions[end].model.down;
                    self.switches[switch].node.set_link_state(info.no, up);
                    let to_switch = link.ends[1 - end].port.is_some();
                    let entry = entry(&info.bridge, &info.name, Some((index, end)), to_switch);
                    table.ports.insert(info.no, entry);
                }
            }
        }
        for info in infos {
            table.ports.entry(info.no).or_insert_with(|| entry(&info.bridge, &info.name, None, false));
        }
        let ports = table.ports.iter().map(|(no, entry)| (*no, &*entry.bridge, &*entry.name));
        self.checks.connect_ports(switch, ports);
        self.switches[switch].ports = table;
    }

    /// What a place is at this moment.
    pub(super) fn target_of(&self, place: &Place) -> Option<Target> {
        let Some(port) = &place.port else {
            return self.hosts.iter().position(|host| host.name() == place.node).map(Target::Host);
        };
        self.switches.iter().enumerate().find_map(|(switch, state)| {
            let mut ports = state.ports.ports.iter();
            let found = ports.find(|(_, entry)| *entry.bridge == *place.node && *entry.name == **port)?;
            Some(Target::Port { switch, port: *found.0 })
        })
    }

    /// A frame comes to the end of a link.
    pub(super) fn arrive<W: Watch>(
        &mut self,
        link: usize,
        direction: usize,
        packet: Box<Packet>,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) {
        self.links[link].directions[direction].delivered();
        match self.links[link].targets[1 - direction] {
            Some(Target::Host(host)) => {
                watch.world(|| WorldEvent::HostReceived { host }, packet.data());
                self.checks.at_host(host, self.now, packet.data());
                let trusted = packet.offloads.intersects(Offloads::L4_PARTIAL | Offloads::IP_PARTIAL);
                self.hosts[host].receive(self.now, packet.data(), trusted);
                self.flush_host(host, watch);
            }
            Some(Target::Port { switch, port }) => {
                self.deliver(switch, port, std::iter::once(packet), watch, observer);
            }
            // The port was deleted while the frame was on its way.
            None => {}
        }
    }

    /// Lets packets arrive at a switch's port, up to a batch at a time.
    pub(super) fn deliver<W: Watch>(
        &mut self,
        switch: usize,
        port: PortNo,
        packets: impl IntoIterator<Item = Box<Packet>>,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) {
        let mut batch = Batch::new();
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            let entry = self.switches[switch].ports.ports.get(&port);
            for (index, mut packet) in packets.by_ref().take(BATCH).enumerate() {
                if let Some(PortEntry { bridge, name, .. }) = entry {
                    let (time, frame) = (self.now, packet.data());
                    observer.arrived(&Arrival { time, switch, bridge, port: name, index, frame });
                }
                packet.md.init(port);
                packet.reset_offsets();
                self.frames_received += 1;
                // An empty batch takes BATCH packets, and no more are taken here.
                let _ = batch.push(packet);
            }
            watch.enter(switch);
            let node = &mut self.switches[switch].node;
            let before = node.counters();
            node.receive(port, &mut batch, self.now, watch);
            self.drain(switch, watch, observer);
            // Only now: what was queued for a port is sent, or dropped, when it is drained.
            let state = &mut self.switches[switch];
            let after = state.node.counters();
            if let Some(entry) = state.ports.ports.get(&port) {
                let bridge = Arc::clone(&entry.bridge);
                let sum = state.by_bridge.entry(bridge).or_default();
                *sum = sum.plus(&after.since(&before));
            }
        }
        self.ask_for_wakeup(switch, false);
    }

    /// Moves on what left a datapath.
    pub(super) fn drain<W: Watch>(&mut self, switch: usize, watch: &mut W, observer: &mut dyn Observer) {
        let mut tx = std::mem::take(&mut self.tx);
        self.switches[switch].node.drain_tx(watch, &mut tx);
        for (port, packet) in tx.drain(..) {
            let Some(entry) = self.switches[switch].ports.ports.get(&port) else {
                self.switches[switch].node.recycle(packet);
                continue;
            };
            let (bridge, name) = (Arc::clone(&entry.bridge), Arc::clone(&entry.name));
            let (link, to_switch) = (entry.link, entry.to_switch);
            let frame = packet.data();
            let departure = Departure {
                time: self.now,
                step: self.current_step,
                switch,
                bridge: &bridge,
                port: &name,
                to_switch,
                frame,
            };
            observer.departed(&departure);
            self.hash_departure(&departure);
            self.checks.at_port(switch, port, self.now, frame);
            match link {
                Some((link, direction)) => self.send_over(link, direction, packet, watch),
                None => self.switches[switch].node.recycle(packet),
            }
        }
        self.tx = tx;
    }

    fn hash_departure(&mut self, departure: &Departure<'_>) {
        self.departures.update(departure.time.0.to_be_bytes());
        self.departures.update(departure.bridge.as_bytes());
        self.departures.update(b":");
        self.departures.update(departure.port.as_bytes());
        self.departures.update((departure.frame.len() as u64).to_be_bytes());
        self.departures.update(departure.frame);
    }

    /// Sends a packet into a direction of a link.
    pub(super) fn send_over<W: Watch>(
        &mut self,
        link: usize,
        direction: usize,
        packet: Box<Packet>,
        watch: &mut W,
    ) {
        let fate = self.links[link].directions[direction].send(self.now, size_of(&packet));
        watch.world(|| WorldEvent::Link { link, direction, fate }, packet.data());
        if let Fate::Arrives { at, twice } = fate {
            let copy = twice.then(|| packet.clone());
            self.schedule(at, Event::Arrive { link, direction, packet });
            if let Some(packet) = copy {
                self.schedule(at, Event::Arrive { link, direction, packet });
            }
        }
    }

    /// Sends a frame from a host as it is.
    pub(super) fn send_raw<W: Watch>(&mut self, host: usize, frame: &[u8], watch: &mut W) {
        watch.world(|| WorldEvent::HostSent { host }, frame);
        if let Some((link, direction)) = self.host_links[host] {
            self.send_over(link, direction, Box::new(Packet::from_frame(frame)), watch);
        }
    }

    /// Sends what a host has to send, and schedules its timer.
    pub(super) fn flush_host<W: Watch>(&mut self, host: usize, watch: &mut W) {
        if self.hosts[host].has_output() {
            for frame in self.hosts[host].take_output() {
                self.send_raw(host, &frame, watch);
            }
        }
        if let Some(at) = self.hosts[host].next_timer()
            && self.host_timers[host].is_none_or(|scheduled| at < scheduled)
        {
            self.host_timers[host] = Some(at);
            self.schedule(at, Event::HostTimer(host));
        }
    }

    pub(super) fn wake_switch<W: Watch>(
        &mut self,
        switch: usize,
        watch: &mut W,
        observer: &mut dyn Observer,
    ) {
        let state = &mut self.switches[switch];
        // An earlier wake-up was asked for after this one was.
        if state.wake_at.is_some_and(|at| at > self.now) {
            return;
        }
        state.wake_at = None;
        watch.enter(switch);
        state.node.run(self.now, watch);
        self.drain(switch, watch, observer);
        self.ask_for_wakeup(switch, true);
    }

    /// Schedules a datapath's housekeeping. Unless `anew`, only if something was installed or learned since the last time.
    pub(super) fn ask_for_wakeup(&mut self, switch: usize, anew: bool) {
        let state = &mut self.switches[switch];
        let upcalls = state.node.counters().passes.upcall;
        if !anew && upcalls == state.upcalls {
            return;
        }
        state.upcalls = upcalls;
        let Some(at) = state.node.next_wakeup() else { return };
        let at = at.max(self.now + MIN_WAKE);
        if state.wake_at.is_none_or(|scheduled| at < scheduled) {
            state.wake_at = Some(at);
            self.schedule(at, Event::SwitchWake(switch));
        }
    }

    /// Tells both ends of a link whether it is up.
    pub(super) fn announce_link_state(&mut self, link: usize) {
        for end in 0..2 {
            let up = !self.links[link].directions[end].model.down;
            if let Some(Target::Port { switch, port }) = self.links[link].targets[end] {
                self.switches[switch].node.set_link_state(port, up);
            }
        }
    }

    /// When nothing can happen before; for progress.
    pub fn end_hint(&self) -> Time {
        self.stop_at.unwrap_or(self.last_step_at)
    }
}

fn entry(bridge: &str, name: &str, link: Option<(usize, usize)>, to_switch: bool) -> PortEntry {
    PortEntry { bridge: bridge.into(), name: name.into(), link, to_switch }
}

/// What a packet weighs on a link. One that is still to be segmented counts as its largest segment against the MTU.
fn size_of(packet: &Packet) -> FrameSize {
    let bytes = packet.len() as u64;
    let l2 = l2_header_len(packet.data()) as u64;
    let mut l3_bytes = bytes - l2;
    if packet.tso_segsz != 0 && packet.l4_ofs != NO_OFFSET {
        let l4 = usize::from(packet.l4_ofs);
        let tcp_header = packet.data().get(l4 + 12).map_or(20, |byte| u64::from(byte >> 4) * 4);
        let segment = (l4 as u64).saturating_sub(l2) + tcp_header + u64::from(packet.tso_segsz);
        l3_bytes = l3_bytes.min(segment);
    }
    FrameSize { bytes, l3_bytes }
}
