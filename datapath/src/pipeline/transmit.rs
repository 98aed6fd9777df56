//! Sending what was queued: the one place where packets are made fit for the port they leave by.

use super::datapath::Datapath;
use super::port::PortConfig;
use crate::action::exec::Packets;
use crate::offload::{Plan, Prepared, finish, prepare_for};
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::trace::{Event, OffloadWhy, PacketId, Trace};
use crate::types::PortNo;

const ETHERNET: usize = 14;
const VLAN: usize = 4;

impl Datapath {
    /// Sends everything that is queued: `send` gets the packets of one port after the other, the ports in the order in
    /// which they were first sent to, each port's packets in theirs. It takes from the list what it keeps; the rest is
    /// recycled. What is kept can be given back later with [`Self::recycle`].
    pub fn drain_tx<T: Trace>(&mut self, trace: &mut T, mut send: impl FnMut(PortNo, &mut Packets)) {
        let mut ports = std::mem::take(&mut self.tx_ports);
        for no in ports.drain(..) {
            let Some(port) = self.ports.get_mut(no) else {
                continue;
            };
            let config = port.config;
            let mut queue = std::mem::take(&mut port.queue);
            let count = queue.len() as u64;
            self.counters.queued -= count;
            let dropped_before = self.counters.drops.total();
            let all_ready = queue.iter_mut().fold(true, |ready, packet| {
                let prepared = prepare(packet, &config, trace);
                ready & (prepared == Ok(Prepared::Ready))
            });
            if !all_ready {
                self.make_sendable(&mut queue, &config, trace);
            }
            let sent = queue.len() as u64;
            let mut bytes = 0;
            for packet in &queue {
                bytes += packet.len() as u64;
                let (id, len, offloads) = (PacketId(packet.md.id), packet.len() as u32, packet.offloads);
                trace.event(|| Event::Tx { packet: id, port: PortNo(no), len, offloads });
                if T::ON {
                    trace.bytes(id, packet.data());
                }
            }
            self.counters.sent += sent;
            send(PortNo(no), &mut queue);
            for packet in queue.drain(..) {
                self.scratch.pool.put(packet);
            }
            if let Some(port) = self.ports.get_mut(no) {
                port.queue = queue;
                port.stats.tx_packets += sent;
                port.stats.tx_bytes += bytes;
                port.stats.tx_dropped += self.counters.drops.total() - dropped_before;
            }
        }
        self.tx_ports = ports;
    }

    /// Segments what is to be segmented here, and drops what the port does not take. Preparing a packet again changes nothing
    /// more.
    #[cold]
    fn make_sendable<T: Trace>(&mut self, queue: &mut Packets, config: &PortConfig, trace: &mut T) {
        let mut rest = self.scratch.take_list();
        std::mem::swap(queue, &mut rest);
        for mut packet in rest.drain(..) {
            match prepare(&mut packet, config, trace) {
                Ok(Prepared::ToSegment) => match Plan::of(&packet) {
                    Some(plan) => self.segment(packet, plan, queue, config, trace),
                    None => queue.push(self.send_whole(packet, config, trace)),
                },
                Ok(prepared) => {
                    self.counters.incomplete += u64::from(prepared == Prepared::NothingToComplete);
                    queue.push(packet);
                }
                Err(reason) => self.end(packet, reason, trace),
            }
        }
        self.scratch.give_list(rest);
    }

    /// Prepares a packet that is marked as to be segmented, though there is nothing to cut. As in OVS the mark counts until then: such a
    /// packet in a tunnel is not a plain one to its port, whatever its inner headers owe.
    fn send_whole<T: Trace>(
        &mut self,
        mut packet: Box<Packet>,
        config: &PortConfig,
        trace: &mut T,
    ) -> Box<Packet> {
        let before = packet.offloads;
        let complete = finish(&mut packet, config.capabilities);
        if let Some(left) = config.leaves {
            finish(&mut packet, left);
        }
        packet.tso_segsz = 0;
        self.counters.incomplete += u64::from(!complete);
        let (id, after) = (PacketId(packet.md.id), packet.offloads);
        if T::ON && before != after {
            trace.event(|| Event::OffloadChange { packet: id, before, after, why: OffloadWhy::Prepared });
        }
        packet
    }

    /// Prepares a packet that is no longer to be segmented.
    fn send_or_drop<T: Trace>(
        &mut self,
        mut packet: Box<Packet>,
        queue: &mut Packets,
        config: &PortConfig,
        trace: &mut T,
    ) {
        match prepare(&mut packet, config, trace) {
            Ok(prepared) => {
                self.counters.incomplete += u64::from(prepared == Prepared::NothingToComplete);
                queue.push(packet);
            }
            Err(reason) => self.end(packet, reason, trace),
        }
    }

    /// Cuts a packet into segments, and queues those that the port takes, in order.
    fn segment<T: Trace>(
        &mut self,
        packet: Box<Packet>,
        plan: Plan,
        queue: &mut Packets,
        config: &PortConfig,
        trace: &mut T,
    ) {
        let mut segments = self.scratch.take_list();
        self.cut(packet, plan, &mut segments, trace);
        for segment in segments.drain(..) {
            self.send_or_drop(segment, queue, config, trace);
        }
        self.scratch.give_list(segments);
    }

    /// Cuts a packet into segments, which are added to `segments` in order.
    pub(super) fn cut<T: Trace>(
        &mut self,
        mut packet: Box<Packet>,
        plan: Plan,
        segments: &mut Packets,
        trace: &mut T,
    ) {
        let (whole, before) = (PacketId(packet.md.id), packet.offloads);
        let mut rest = self.scratch.take_list();
        for index in 1..plan.segments() {
            let mut segment = self.scratch.pool.take();
            plan.write(&packet, index, &mut segment);
            segment.md.id = self.next_packet;
            self.next_packet += 1;
            self.counters.copies += 1;
            rest.push(segment);
        }
        plan.cut_first(&mut packet);
        let after = packet.offloads;
        trace.event(|| Event::OffloadChange { packet: whole, before, after, why: OffloadWhy::Segmented });
        if T::ON {
            trace.bytes(whole, packet.data());
        }
        segments.push(packet);
        for segment in rest.drain(..) {
            let copy = PacketId(segment.md.id);
            trace.event(|| Event::Copy { packet: whole, copy });
            if T::ON {
                trace.bytes(copy, segment.data());
            }
            segments.push(segment);
        }
        self.scratch.give_list(rest);
    }
}

/// Checks that a port takes a packet, and does for it what the port cannot (`netdev_dummy_send`).
#[inline(always)]
fn prepare<T: Trace>(packet: &mut Packet, port: &PortConfig, trace: &mut T) -> Result<Prepared, DropReason> {
    if !port.up {
        return Err(if port.tunnel.is_some() { DropReason::NoPort } else { DropReason::PortDown });
    }
    if packet.packet_type != 0 {
        return Err(DropReason::PacketType);
    }
    if packet.len() < ETHERNET {
        return Err(DropReason::TooShort);
    }
    let most = usize::from(port.mtu) + ETHERNET;
    // What is to be segmented is as long as its longest segment.
    if packet.len() > most && longest(packet) > most && !fits_tagged(packet, most) {
        return Err(DropReason::TooBig);
    }
    let before = packet.offloads;
    let prepared = prepare_for(packet, port.capabilities);
    if let Some(left) = port.leaves
        && prepared != Prepared::ToSegment
    {
        finish(packet, left);
    }
    if T::ON && packet.offloads != before {
        let (packet, after) = (PacketId(packet.md.id), packet.offloads);
        trace.event(|| Event::OffloadChange { packet, before, after, why: OffloadWhy::Prepared });
    }
    Ok(prepared)
}

/// Length of a packet, or of its longest segment if it is to be segmented.
#[cold]
fn longest(packet: &Packet) -> usize {
    if packet.tso_segsz == 0 { packet.len() } else { packet.check_len() }
}

/// Whether a frame that is too long without a tag is not too long with its 802.1Q tag.
#[cold]
fn fits_tagged(packet: &Packet, most: usize) -> bool {
    packet.data().get(12..14) == Some(&[0x81, 0x00]) && longest(packet) <= most + VLAN
}
