//! Runs action lists over packets.
//!
//! Owns: the order of things, who gets the original and who a copy, truncation, chance. What only a datapath can do
//! (ports, flow tables, slow path) is asked of an [`Engine`]. Nothing is copied for the last action that needs the
//! packet. Counterpart: OVS `lib/odp-execute.c`.

use super::check::{MAX_NESTING, consumes};
use super::{Action, Ct, HashAlg, TnlPush, Userspace, apply};
use crate::flow::Flow;
use crate::flow::hash;
use crate::offload::Offloads;
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::types::{PortNo, RecircId};

/// Packets that a list of actions runs on together, in order.
pub type Packets = Vec<Box<Packet>>;

/// What a datapath does for the executor. Whoever is given packets to send leaves the list empty.
pub trait Engine {
    /// Sends packets to a port.
    fn output(&mut self, packets: &mut Packets, port: PortNo);
    /// Looks packets up again.
    fn recirculate(&mut self, packets: &mut Packets, id: RecircId);
    /// Hands packets to the slow path and does with them what that says.
    fn userspace(&mut self, packets: &mut Packets, action: &Userspace);
    /// Tracks the connections of packets, which stay in the list, but for fragments that wait and those dropped.
    fn conntrack(&mut self, packets: &mut Packets, ct: &Ct);
    /// Lets those packets pass that a meter has room for; the others are dropped.
    fn meter(&mut self, packets: &mut Packets, meter: u32);
    /// Encapsulates packets, which stay in the list; those to be segmented may become more.
    fn tnl_push(&mut self, packets: &mut Packets, push: &TnlPush);
    /// Takes outer headers off packets, and looks them up again as the tunnel's port received them.
    fn tnl_pop(&mut self, packets: &mut Packets, port: PortNo);
    /// A copy of a packet.
    fn copy(&mut self, packet: &Packet) -> Box<Packet>;
    /// The end of a packet.
    fn discard(&mut self, packet: Box<Packet>, reason: DropReason);
    /// Chance, for `sample`.
    fn random(&mut self) -> u32;
    /// An empty list; give it back with [`Self::give_list`].
    fn take_list(&mut self) -> Packets;
    /// Takes back an empty list.
    fn give_list(&mut self, list: Packets);
    /// Told before each action.
    fn before(&mut self, packets: &[Box<Packet>], action: &Action, index: usize, depth: u8);
    /// Told after an action changed a packet's headers. `before` are its offload flags as they were.
    fn changed(&mut self, packet: &Packet, before: Offloads);
}

/// Runs `actions`, nested `depth` deep, over `packets`, and leaves that list empty: each packet ends somewhere.
pub fn execute<E: Engine>(engine: &mut E, packets: &mut Packets, actions: &[Action], depth: u8) {
    if depth > MAX_NESTING {
        return discard_all(engine, packets, DropReason::ActionDepth);
    }
    let end = actions.iter().rposition(consumes).map_or(0, |last| last + 1);
    for (index, action) in actions[..end].iter().enumerate() {
        engine.before(packets, action, index, depth);
        let last = index + 1 == end;
        match action {
            Action::Output(port) => lend(engine, packets, last, |engine, packets| {
                cut(engine, packets);
                engine.output(packets, *port);
            }),
            Action::Userspace(userspace) => lend(engine, packets, last, |engine, packets| {
                cut(engine, packets);
                engine.userspace(packets, userspace);
            }),
            Action::Recirc(id) => lend(engine, packets, last, |engine, packets| {
                packets.iter_mut().for_each(|packet| packet.cutlen = 0);
                engine.recirculate(packets, *id);
            }),
            Action::Clone(actions) => lend(engine, packets, last, |engine, packets| {
                execute(engine, packets, actions, depth + 1);
            }),
            Action::Sample { probability, actions } => {
                each(engine, packets, last, |engine, packets, owned| {
                    sample(engine, packets, owned, *probability, actions, depth);
                });
            }
            Action::CheckPktLen { len, greater, not_greater } => {
                each(engine, packets, last, |engine, packets, owned| {
                    let longer = packets.iter().any(|packet| packet.check_len() > usize::from(*len));
                    let actions = if longer { greater } else { not_greater };
                    lend(engine, packets, owned, |engine, packets| {
                        execute(engine, packets, actions, depth + 1);
                    });
                });
            }
            Action::Drop(reason) => {
                let reason = if *reason == 0 { DropReason::ActionDrop } else { DropReason::Explicit };
                return discard_all(engine, packets, reason);
            }
            Action::Trunc(max_len) => {
                packets.iter_mut().for_each(|packet| packet.set_cutlen(*max_len));
            }
            Action::Hash(algorithm) => {
                packets.iter_mut().for_each(|packet| packet.md.dp_hash = dp_hash(packet, *algorithm));
            }
            Action::CtClear => packets.iter_mut().for_each(|packet| packet.md.ct_state = 0),
            Action::Ct(ct) => engine.conntrack(packets, ct),
            Action::Meter(meter) => engine.meter(packets, *meter),
            Action::Set(_)
            | Action::SetMasked(_)
            | Action::PushVlan { .. }
            | Action::PopVlan
            | Action::PushMpls { .. }
            | Action::PopMpls(_)
            | Action::AddMpls { .. }
            | Action::PushEth { .. }
            | Action::PopEth
            | Action::PushNsh(_)
            | Action::PopNsh => modify(engine, packets, action),
            Action::TnlPush(push) => {
                cut(engine, packets);
                engine.tnl_push(packets, push);
            }
            Action::TnlPop(port) => lend(engine, packets, last, |engine, packets| {
                cut(engine, packets);
                engine.tnl_pop(packets, *port);
            }),
            // Refused by `check`; a list that was not checked loses its packets rather than an action.
            Action::LbOutput(_) | Action::DecTtl(_) | Action::Psample { .. } => {
                return discard_all(engine, packets, DropReason::BadAction);
            }
        }
        if packets.is_empty() {
            return;
        }
    }
    discard_all(engine, packets, DropReason::ActionDrop);
}

/// Runs `action` on the packets themselves if it is the last one, else on copies. A pending cut goes with them.
#[inline(always)]
fn lend<E: Engine>(
    engine: &mut E,
    packets: &mut Packets,
    last: bool,
    action: impl FnOnce(&mut E, &mut Packets),
) {
    if last {
        return action(engine, packets);
    }
    let mut copies = engine.take_list();
    for packet in packets.iter_mut() {
        copies.push(engine.copy(packet));
        packet.cutlen = 0;
    }
    action(engine, &mut copies);
    discard_all(engine, &mut copies, DropReason::BadAction);
    engine.give_list(copies);
}

/// Runs `action` on one packet after the other; it may keep the packet if this is the last action.
fn each<E: Engine>(
    engine: &mut E,
    packets: &mut Packets,
    last: bool,
    mut action: impl FnMut(&mut E, &mut Packets, bool),
) {
    let mut one = engine.take_list();
    let mut rest = engine.take_list();
    std::mem::swap(packets, &mut rest);
    for packet in rest.drain(..) {
        one.push(packet);
        action(engine, &mut one, last);
        packets.append(&mut one);
    }
    engine.give_list(one);
    engine.give_list(rest);
}

/// `sample` of a single packet, which is kept if `owned`.
fn sample<E: Engine>(
    engine: &mut E,
    packets: &mut Packets,
    owned: bool,
    probability: u32,
    actions: &[Action],
    depth: u8,
) {
    // OVS draws below the probability only, by which "always" fails once in 2^32 times.
    let sampled = probability == u32::MAX || engine.random() < probability;
    if sampled {
        lend(engine, packets, owned, |engine, packets| execute(engine, packets, actions, depth + 1));
    } else if owned {
        discard_all(engine, packets, DropReason::NotSampled);
    }
}

/// Rewrites headers. A packet that a header cannot be taken from is dropped, as in OVS.
fn modify<E: Engine>(engine: &mut E, packets: &mut Packets, action: &Action) {
    let mut failed = false;
    for packet in packets.iter_mut() {
        let before = packet.offloads;
        match apply::apply(packet, action) {
            Ok(()) => engine.changed(packet, before),
            Err(apply::Failed) => {
                packet.cutlen = u32::MAX;
                failed = true;
            }
        }
    }
    if failed {
        let mut rest = engine.take_list();
        std::mem::swap(packets, &mut rest);
        for packet in rest.drain(..) {
            if packet.cutlen == u32::MAX {
                engine.discard(packet, DropReason::BadAction);
            } else {
                packets.push(packet);
            }
        }
        engine.give_list(rest);
    }
}

/// Carries out a pending truncation. What the frame owes is completed first: afterwards nobody could.
#[inline(always)]
fn cut<E: Engine>(engine: &mut E, packets: &mut Packets) {
    for packet in packets.iter_mut() {
        if packet.cutlen != 0 {
            let before = packet.offloads;
            apply::truncate(packet);
            engine.changed(packet, before);
        }
    }
}

fn discard_all<E: Engine>(engine: &mut E, packets: &mut Packets, reason: DropReason) {
    for packet in packets.drain(..) {
        engine.discard(packet, reason);
    }
}

/// The `hash` action. A device's RSS hash serves for the L4 hash, as in OVS.
fn dp_hash(packet: &mut Packet, algorithm: HashAlg) -> u32 {
    match (algorithm, packet.rss_hash) {
        (HashAlg::L4(basis), Some(rss)) => hash::int(rss, basis),
        (HashAlg::L4(basis), None) => hash::five_tuple(&Flow::of_packet(packet), basis),
        (HashAlg::SymL4(basis), _) => hash::symmetric_l3l4(&Flow::of_packet(packet), basis, false),
    }
}
