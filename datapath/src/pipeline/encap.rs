//! The actions that enter and leave tunnels.
//!
//! Counterpart: `push_tnl_action()` and `OVS_ACTION_ATTR_TUNNEL_POP` of OVS `lib/dpif-netdev.c`, `netdev_push_header()` and
//! `netdev_pop_header()` of `lib/netdev.c`.

use super::receive::{MAX_RECIRC_DEPTH, Processing};
use super::upcall::Upcall;
use crate::action::TnlPush;
use crate::action::exec::Packets;
use crate::offload::{Offloads, Plan};
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::trace::{Event, OffloadWhy, PacketId, Trace};
use crate::tunnel::{Push, needs_segments, pop, push};
use crate::types::PortNo;

impl<U: Upcall, T: Trace> Processing<'_, U, T> {
    /// Puts headers in front of packets, which stay in the list.
    pub(super) fn encapsulate(&mut self, packets: &mut Packets, action: &TnlPush) {
        let Some(layout) = action.layout() else { return self.end_all(packets, DropReason::TunnelEncap) };
        if packets.iter().any(|packet| needs_segments(packet, action, layout)) {
            self.segment_first(packets, action);
        }
        let (ports, now) = (self.dp.tunnel_ports, self.now);
        let mut list = self.dp.scratch.take_list();
        std::mem::swap(packets, &mut list);
        for mut packet in list.drain(..) {
            let port = self.dp.ports.get_mut(action.tnl_port.0).filter(|port| port.config.tunnel.is_some());
            let Some(port) = port else {
                self.dp.end(packet, DropReason::TunnelEncap, self.trace);
                continue;
            };
            let (before, len) = (packet.offloads, packet.len());
            let mut with = Push { layout, ports, sequence: &mut port.sequence, now };
            if let Err(reason) = push(&mut packet, action, &mut with) {
                self.dp.end(packet, reason, self.trace);
                continue;
            }
            port.stats.tx_packets += 1;
            port.stats.tx_bytes += len as u64;
            self.tell(&packet, before, OffloadWhy::Encapsulated);
            packets.push(packet);
        }
        self.dp.scratch.give_list(list);
    }

    /// Cuts what is to be segmented, in its place in the list.
    #[cold]
    fn segment_first(&mut self, packets: &mut Packets, action: &TnlPush) {
        let Some(layout) = action.layout() else { return };
        let mut list = self.dp.scratch.take_list();
        std::mem::swap(packets, &mut list);
        for mut packet in list.drain(..) {
            if !needs_segments(&packet, action, layout) {
                packets.push(packet);
                continue;
            }
            match Plan::of(&packet) {
                Some(plan) => self.dp.cut(packet, plan, packets, self.trace),
                None => {
                    packet.tso_segsz = 0;
                    packets.push(packet);
                }
            }
        }
        self.dp.scratch.give_list(list);
    }

    /// Takes headers off packets, and takes the packets in again.
    pub(super) fn decapsulate(&mut self, packets: &mut Packets, no: PortNo) {
        if self.depth >= MAX_RECIRC_DEPTH {
            return self.end_all(packets, DropReason::RecircDepth);
        }
        let Some(kind) = self.dp.ports.get(no.0).and_then(|port| port.config.tunnel) else {
            return self.end_all(packets, DropReason::NoPort);
        };
        let mut list = self.dp.scratch.take_list();
        std::mem::swap(packets, &mut list);
        for mut packet in list.drain(..) {
            let before = packet.offloads;
            if let Err(reason) = pop(&mut packet, kind) {
                self.dp.end(packet, reason, self.trace);
                continue;
            }
            packet.md.in_port = no;
            if let Some(port) = self.dp.ports.get_mut(no.0) {
                port.stats.rx_packets += 1;
                port.stats.rx_bytes += packet.len() as u64;
            }
            self.tell(&packet, before, OffloadWhy::Decapsulated);
            packets.push(packet);
        }
        self.dp.scratch.give_list(list);
        self.depth += 1;
        self.again(packets);
        self.depth -= 1;
    }

    fn end_all(&mut self, packets: &mut Packets, reason: DropReason) {
        for packet in packets.drain(..) {
            self.dp.end(packet, reason, self.trace);
        }
    }

    fn tell(&mut self, packet: &Packet, before: Offloads, why: OffloadWhy) {
        if T::ON {
            let (id, after) = (PacketId(packet.md.id), packet.offloads);
            self.trace.event(|| Event::OffloadChange { packet: id, before, after, why });
            self.trace.bytes(id, packet.data());
        }
    }
}
