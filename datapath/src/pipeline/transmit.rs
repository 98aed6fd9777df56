//! Sending what was queued: the one place where packets are made fit for the port they leave by.

use super::datapath::Datapath;
use super::port::PortConfig;
use crate::action::exec::Packets;
use crate::offload::{Prepared, prepare_for};
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
            let all_ready = queue.iter_mut().fold(true, |ready, packet| {
                let prepared = prepare(packet, &config, trace);
                ready & (prepared == Ok(Prepared::Ready))
            });
            if !all_ready {
                self.drop_unsendable(&mut queue, &config, trace);
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
                port.stats.tx_dropped += count - sent;
            }
        }
        self.tx_ports = ports;
    }

    /// Drops what the port does not take. Preparing a packet again changes nothing more.
    #[cold]
    fn drop_unsendable<T: Trace>(&mut self, queue: &mut Packets, config: &PortConfig, trace: &mut T) {
        let mut rest = self.scratch.take_list();
        std::mem::swap(queue, &mut rest);
        for mut packet in rest.drain(..) {
            match prepare(&mut packet, config, trace) {
                Ok(prepared) => {
                    self.counters.incomplete += u64::from(prepared == Prepared::NothingToComplete);
                    queue.push(packet);
                }
                Err(reason) => self.end(packet, reason, trace),
            }
        }
        self.scratch.give_list(rest);
    }
}

/// Checks that a port takes a packet, and does for it what the port cannot (`netdev_dummy_send`).
#[inline(always)]
fn prepare<T: Trace>(packet: &mut Packet, port: &PortConfig, trace: &mut T) -> Result<Prepared, DropReason> {
    if !port.up {
        return Err(DropReason::PortDown);
    }
    if packet.packet_type != 0 {
        return Err(DropReason::PacketType);
    }
    if packet.len() < ETHERNET {
        return Err(DropReason::TooShort);
    }
    let most = usize::from(port.mtu) + ETHERNET;
    // What is to be segmented is as long as its segments; a port that cannot do that refuses it below.
    if packet.len() > most && packet.tso_segsz == 0 && !fits_tagged(packet, most) {
        return Err(DropReason::TooBig);
    }
    let before = packet.offloads;
    let prepared = prepare_for(packet, port.capabilities)?;
    if T::ON && packet.offloads != before {
        let (packet, after) = (PacketId(packet.md.id), packet.offloads);
        trace.event(|| Event::OffloadChange { packet, before, after, why: OffloadWhy::Prepared });
    }
    Ok(prepared)
}

/// Whether a frame that is too long without a tag is not too long with its 802.1Q tag.
#[cold]
fn fits_tagged(packet: &Packet, most: usize) -> bool {
    packet.data().get(12..14) == Some(&[0x81, 0x00]) && packet.len() <= most + VLAN
}
