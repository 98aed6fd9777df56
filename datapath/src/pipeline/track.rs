//! The actions that remember: connections and meters.
//!
//! Counterpart: `OVS_ACTION_ATTR_CT` and `OVS_ACTION_ATTR_METER` in OVS `lib/dpif-netdev.c`, `ipf_preprocess_conntrack()` and
//! `ipf_postprocess_conntrack()` of `lib/ipf.c`.

use super::receive::Processing;
use super::upcall::Upcall;
use crate::action::Ct;
use crate::action::exec::Packets;
use crate::conntrack::Gathered;
use crate::offload::Offloads;
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::trace::{Event, OffloadWhy, PacketId, Trace};

impl<U: Upcall, T: Trace> Processing<'_, U, T> {
    /// Tracks packets. Fragments wait until their datagram is whole; then they follow the other packets.
    pub(super) fn track(&mut self, packets: &mut Packets, ct: &Ct) {
        let mut list = self.dp.scratch.take_list();
        std::mem::swap(packets, &mut list);
        let mut whole = Vec::new();
        for packet in list.drain(..) {
            match self.dp.conntrack.fragments.gather(packet, ct.zone, self.now) {
                Gathered::Alone(packet) => packets.push(packet),
                Gathered::Held => self.dp.counters.held += 1,
                Gathered::Complete(datagram) => {
                    // The last one was not counted as waiting.
                    self.dp.counters.held += 1;
                    whole.push(datagram);
                }
            }
        }
        std::mem::swap(packets, &mut list);
        for mut packet in list.drain(..) {
            match self.track_packet(&mut packet, ct) {
                Ok(()) => packets.push(packet),
                Err(reason) => self.dp.end(packet, reason, self.trace),
            }
        }
        self.dp.scratch.give_list(list);
        for mut datagram in whole {
            let tracked = self.track_packet(&mut datagram.packet, ct);
            let (datagram, fragments) = datagram.take_apart();
            self.dp.scratch.pool.put(datagram);
            for fragment in fragments {
                self.dp.counters.held -= 1;
                match tracked {
                    Ok(()) => packets.push(fragment),
                    Err(reason) => self.dp.end(fragment, reason, self.trace),
                }
            }
        }
        let late = self.dp.conntrack.fragments.expire(self.now);
        self.dp.end_held(late, self.trace);
    }

    fn track_packet(&mut self, packet: &mut Packet, ct: &Ct) -> Result<(), DropReason> {
        let before = packet.offloads;
        let seen = self.dp.conntrack.track(packet, ct, self.now)?;
        if T::ON {
            let (id, zone, state) = (PacketId(packet.md.id), ct.zone, packet.md.ct_state);
            self.trace.event(|| Event::Conntrack { packet: id, zone, state, seen });
            self.trace_changed(packet, before);
        }
        Ok(())
    }

    fn trace_changed(&mut self, packet: &Packet, before: Offloads) {
        let (id, after) = (PacketId(packet.md.id), packet.offloads);
        if before != after {
            let why = OffloadWhy::Rewritten;
            self.trace.event(|| Event::OffloadChange { packet: id, before, after, why });
        }
        self.trace.bytes(id, packet.data());
    }

    /// Drops what a meter has no room for.
    pub(super) fn pass_meter(&mut self, packets: &mut Packets, meter: u32) {
        let mut dropped = self.dp.scratch.take_list();
        self.dp.meters.run(meter, packets, self.now, |packet| dropped.push(packet));
        for packet in dropped.drain(..) {
            self.dp.end(packet, DropReason::Meter, self.trace);
        }
        self.dp.scratch.give_list(dropped);
    }
}
