//! From packets to flows: the lookups of a batch, tier by tier, and its division into groups. Free functions over plain
//! arguments: the compiler then keeps what they work on in registers.

use super::scratch::{Group, Groups, Level};
use crate::cache::{Emc, Found, HotFlow, KeyBatch, NO_GROUP, Pending, SimpleTable, Smc, mark, prefetch_at};
use crate::flow::hash::finish;
use crate::flow::{ExtractConfig, extract, extract_simple};
use crate::offload::Offloads;
use crate::packet::{BATCH, Packet};
use crate::trace::{Event, OffloadWhy, PacketId, Tier, Trace};

/// Finds flows by Ethernet type, VLAN and fragment kind. Returns the packets that have no flow by these.
pub(super) fn match_simple<T: Trace>(
    table: &SimpleTable,
    level: &mut Level,
    config: ExtractConfig,
    trace: &mut T,
) -> Pending {
    let mut misses = Pending::default();
    // Packets of a batch are mostly of one kind.
    let mut last = (u64::MAX, None);
    let packets = level.packets[..level.n].iter_mut();
    for (i, packet) in packets.enumerate() {
        let Some(packet) = packet else {
            continue;
        };
        let before = packet.offloads;
        let key = extract_simple(packet, config);
        note_offloads(trace, packet, before);
        let flow = key.and_then(|key| {
            level.tcp_flags[i] = key.tcp_flags;
            let mark = mark(&key);
            if mark != last.0 {
                last = (mark, table.lookup(mark));
            }
            last.1
        });
        match flow {
            Some(flow) => level.found.flows[i] = flow,
            None => misses.push(i),
        }
    }
    misses
}

/// Extracts the keys of `pending`.
pub(super) fn extract_keys<T: Trace>(
    level: &mut Level,
    pending: &Pending,
    config: ExtractConfig,
    depth: u32,
    trace: &mut T,
) {
    let Level { packets, keys, tcp_flags, .. } = level;
    for i in pending.iter() {
        let Some(packet) = &mut packets[i] else {
            continue;
        };
        let before = packet.offloads;
        extract(packet, &mut keys.keys[i], config);
        note_offloads(trace, packet, before);
        keys.note(i);
        let tcp = packet.offloads.contains(Offloads::L4_TCP);
        tcp_flags[i] = if tcp { keys.tcp_flags(i) } else { 0 };
        let hash = match packet.rss_hash {
            Some(hash) => hash,
            None => *packet.rss_hash.insert(keys.five_tuple(i)),
        };
        // A packet that comes back has the same hash, but another key.
        keys.hashes[i] = if depth == 0 { hash } else { finish(hash, depth) };
    }
}

#[inline(always)]
fn note_offloads<T: Trace>(trace: &mut T, packet: &Packet, before: Offloads) {
    if T::ON && packet.offloads != before {
        let (packet, after) = (PacketId(packet.md.id), packet.offloads);
        trace.event(|| Event::OffloadChange { packet, before, after, why: OffloadWhy::Extracted });
    }
}

/// Looks up `pending` in the EMC and takes out what it finds.
pub(super) fn match_emc(
    emc: &Emc,
    hot: &[HotFlow],
    keys: &KeyBatch,
    pending: &mut Pending,
    found: &mut Found,
) {
    let before = *pending;
    *pending = Pending::default();
    for i in before.iter() {
        let flow = emc.lookup(keys.hashes[i], &keys.keys[i], keys.len(i));
        let alive = |flow: &crate::cache::FlowRef| {
            hot.get(flow.id as usize).is_some_and(|hot| hot.generation == flow.generation)
        };
        match flow.filter(alive) {
            Some(flow) => found.flows[i] = flow.id,
            None => pending.push(i),
        }
    }
}

/// Looks up `pending` in the SMC and takes out what it finds; `verify` compares a flow's masked key with a packet's.
pub(super) fn match_smc(
    smc: &Smc,
    keys: &KeyBatch,
    pending: &mut Pending,
    found: &mut Found,
    verify: impl Fn(u32, usize) -> bool,
) {
    let before = *pending;
    for i in before.iter() {
        smc.prefetch(keys.hashes[i]);
    }
    *pending = Pending::default();
    for i in before.iter() {
        match smc.lookup(keys.hashes[i]).filter(|&flow| verify(flow, i)) {
            Some(flow) => found.flows[i] = flow,
            None => pending.push(i),
        }
    }
}

/// Tells of the lookups of `looked_up` in a tier that found all but `missed`.
pub(super) fn trace_lookups<T: Trace>(
    level: &Level,
    tier: Tier,
    looked_up: &Pending,
    missed: &Pending,
    subtables: usize,
    trace: &mut T,
) {
    if !T::ON {
        return;
    }
    let mut miss = [false; BATCH];
    missed.iter().for_each(|i| miss[i] = true);
    for i in looked_up.iter() {
        let Some(packet) = &level.packets[i] else {
            continue;
        };
        let packet = PacketId(packet.md.id);
        let hit = (!miss[i]).then(|| crate::trace::FlowId(level.found.flows[i]));
        let subtables = match (tier, hit) {
            (Tier::Megaflow, Some(_)) => level.found.probed[i],
            (Tier::Megaflow, None) => subtables as u16,
            (Tier::Simple | Tier::Emc | Tier::Smc, _) => 0,
        };
        trace.event(|| Event::Lookup { packet, tier, hit, subtables });
    }
}

/// Puts the packets that have a flow into groups, by the arrival of each group's first packet. The flows' own notes of
/// which group is theirs are gone when this returns: actions may process other packets of the same flows.
pub(super) fn group(level: &mut Level, hot: &mut [HotFlow]) {
    let Level { packets, n, found, tcp_flags, groups, .. } = level;
    let Groups { n: n_groups, groups, next } = groups;
    for i in 0..*n {
        prefetch_at(hot, found.flows[i] as usize);
    }
    for i in 0..*n {
        let (Some(packet), Some(hot)) = (&packets[i], hot.get_mut(found.flows[i] as usize)) else {
            continue;
        };
        let (bytes, flags) = (packet.len() as u32, tcp_flags[i]);
        match groups.get_mut(usize::from(hot.group)) {
            Some(group) => {
                next[usize::from(group.last) & (BATCH - 1)] = i as u8;
                group.last = i as u8;
                group.count += 1;
                group.bytes += bytes;
                group.tcp_flags |= flags;
            }
            None => {
                let place = i as u8;
                hot.group = *n_groups as u8;
                groups[*n_groups & (BATCH - 1)] = Group {
                    flow: found.flows[i],
                    first: place,
                    last: place,
                    count: 1,
                    tcp_flags: flags,
                    bytes,
                };
                *n_groups += 1;
            }
        }
    }
    for group in &groups[..*n_groups] {
        hot[group.flow as usize].group = NO_GROUP;
    }
}
