//! The datapath flows: identity, keys, actions, counters; and the classifiers that find them.
//!
//! A flow's number is an index that stays while the flow lives and may be used again afterwards, with another generation:
//! caches that name a dead flow notice. What each packet touches is one cache line; keys and actions are shared between
//! clones of the store.
//! Counterpart: `struct dp_netdev_flow` and the flow table of OVS `lib/dpif-netdev.c`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::dpcls::Classifier;
use super::key::MaskedKey;
use super::simple::{SimpleTable, mark_of};
use super::subtable::{Found, Pending};
use super::{KeyBatch, hash};
use crate::action::{Action, Actions, Unsupported, check, reenters};
use crate::flow::{FLOW_WORDS, Flow, Map, Miniflow, VLAN_CFI};
use crate::trace::FlowId;
use crate::types::{Span, Time};

/// "No flow" where a flow number is expected.
pub const NO_FLOW: u32 = u32::MAX;
/// "In no group of the batch being processed".
pub(crate) const NO_GROUP: u8 = u8::MAX;

/// A flow number together with the generation that it was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRef {
    /// Number.
    pub id: u32,
    /// Generation of that number.
    pub generation: u32,
}

/// A flow's unique id: a hash of masked key and mask. Equal ids mean equal flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ufid(pub u128);

impl fmt::Display for Ufid {
    /// As a UUID, in the way of OVS (`odp_format_ufid`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (high, low) = ((self.0 >> 64) as u64, self.0 as u64);
        let group = |word: u64, shift: u32| (word >> shift) as u16;
        write!(f, "{:08x}-{:04x}-{:04x}-", high >> 32, group(high, 16), group(high, 0))?;
        write!(f, "{:04x}-{:012x}", group(low, 48), low & 0xffff_ffff_ffff)
    }
}

/// Why a flow was not added, changed or found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// To be created, and there already (EEXIST).
    #[error("the flow is there already")]
    Exists,
    /// To be changed or deleted, and not there (ENOENT).
    #[error("no such flow")]
    NotFound,
    /// A flow belongs to one ingress port (EINVAL).
    #[error("in_port must be matched exactly")]
    InPort,
    /// There is no such flow, but one that overlaps it (EINVAL).
    #[error("the flow overlaps another one")]
    Overlap,
    /// An action is not known to this datapath.
    #[error(transparent)]
    Action(#[from] Unsupported),
    /// All flow numbers are taken (ENOSPC).
    #[error("no room for another flow")]
    Full,
}

/// Counters of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes, L2 padding included.
    pub bytes: u64,
    /// When the last packet came.
    pub used: Option<Time>,
    /// All TCP flags seen.
    pub tcp_flags: u16,
}

/// How a flow's actions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// There are none.
    Drop,
    /// Sent to one port, unchanged.
    Output,
    /// No packet comes back to the flows.
    Straight,
    /// Packets may come back to the flows: they recirculate, or go to the slow path.
    Reenter,
}

/// What every packet of a flow reads or writes: one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct HotFlow {
    pub packets: u64,
    pub bytes: u64,
    /// Time in nanoseconds, [`NEVER`] before the first packet.
    pub used: u64,
    /// None for a moment only, while they run.
    pub actions: Option<Arc<[Action]>>,
    /// The port, if [`Self::run`] is [`Run::Output`].
    pub output: u32,
    pub generation: u32,
    pub tcp_flags: u16,
    /// The group of the batch being processed.
    pub group: u8,
    pub run: Run,
}

const NEVER: u64 = u64::MAX;
const _: () = assert!(size_of::<HotFlow>() == 64);

/// The rest of a flow.
#[derive(Clone, Debug)]
struct ColdFlow {
    key: Arc<MaskedKey>,
    /// The key that it was made with, wildcarded bits too: what OVS shows and translates anew.
    full: PackedKey,
    ufid: Ufid,
    in_port: u32,
    simple: Option<u64>,
    installed: Time,
    previous: u32,
    next: u32,
}

/// A key without its words that are zero.
#[derive(Clone, Debug)]
struct PackedKey {
    map: Map,
    words: Arc<[u64]>,
}

impl PackedKey {
    fn new(key: &Flow) -> Self {
        let mini = Miniflow::from_flow(key);
        Self { map: mini.map, words: mini.words().into() }
    }

    fn flow(&self) -> Flow {
        let mut mini = Miniflow { map: self.map, ..Miniflow::default() };
        mini.values[..self.words.len()].copy_from_slice(&self.words);
        let mut flow = Flow::default();
        mini.expand(&mut flow);
        flow
    }
}

/// All flows of one ingress port.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortFlows {
    pub classifier: Classifier,
    pub simple: SimpleTable,
}

impl PortFlows {
    /// Whether simple match decides alone: all flows are simple.
    #[inline(always)]
    pub fn is_simple(&self) -> bool {
        self.classifier.len() == self.simple.len()
    }
}

/// All datapath flows.
#[derive(Clone, Debug, Default)]
pub struct FlowStore {
    pub(crate) hot: Vec<HotFlow>,
    cold: Vec<Option<ColdFlow>>,
    free: Vec<u32>,
    len: usize,
    first: Option<u32>,
    last: Option<u32>,
    by_ufid: BTreeMap<Ufid, u32>,
    pub(crate) ports: PortMap<PortFlows>,
    /// No flow was used, or installed, before this.
    oldest: Time,
    /// Flows ever installed.
    installed: u64,
}

/// A flow as others see it.
#[derive(Clone, Copy, Debug)]
pub struct FlowView<'a> {
    /// Number.
    pub id: FlowId,
    /// Unique id.
    pub ufid: Ufid,
    /// Actions.
    pub actions: &'a [Action],
    /// Counters.
    pub stats: FlowStats,
    /// When it was installed.
    pub installed: Time,
    key: &'a Arc<MaskedKey>,
    full: &'a PackedKey,
}

/// A flow as it once was, kept after its end.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// Number.
    pub id: FlowId,
    /// Unique id.
    pub ufid: Ufid,
    /// Actions.
    pub actions: Actions,
    /// Counters.
    pub stats: FlowStats,
    /// When it was installed.
    pub installed: Time,
    key: Arc<MaskedKey>,
    full: PackedKey,
}

impl FlowRecord {
    /// To look at.
    pub fn view(&self) -> FlowView<'_> {
        FlowView {
            id: self.id,
            ufid: self.ufid,
            actions: &self.actions,
            stats: self.stats,
            installed: self.installed,
            key: &self.key,
            full: &self.full,
        }
    }
}

impl FlowView<'_> {
    /// A copy that outlives the flow.
    pub fn record(&self) -> FlowRecord {
        FlowRecord {
            id: self.id,
            ufid: self.ufid,
            actions: self.actions.into(),
            stats: self.stats,
            installed: self.installed,
            key: Arc::clone(self.key),
            full: self.full.clone(),
        }
    }

    /// The key that it was made with, bits that the mask does not have too.
    pub fn key(&self) -> Flow {
        self.full.flow()
    }

    /// The key under the mask.
    pub fn masked_key(&self) -> Flow {
        self.key().masked(&self.mask())
    }

    /// The key under the mask, to show: a tag's type stands in text whenever the tag does.
    pub fn shown_key(&self) -> Flow {
        let full = self.key();
        let mut key = full.masked(&self.mask());
        for (tag, full) in key.vlans.iter_mut().zip(&full.vlans) {
            tag.tpid = full.tpid;
        }
        key
    }

    /// The mask.
    pub fn mask(&self) -> Flow {
        Flow { in_port: u32::MAX, ..self.key.mask() }
    }

    /// Words of the mask in each unit of the map, the ingress port left out (`dp-extra-info:miniflow_bits`).
    pub fn miniflow_bits(&self) -> [u32; 2] {
        self.key.map().map(u64::count_ones)
    }
}

impl FlowStore {
    /// Flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a flow. The mask is completed as the datapath needs it, see [`complete_mask`].
    ///
    /// # Errors
    /// [`FlowError::InPort`], [`FlowError::Action`], [`FlowError::Exists`], [`FlowError::Full`].
    pub fn insert(
        &mut self,
        key: &Flow,
        mask: &Flow,
        actions: Actions,
        ufid: Option<Ufid>,
        now: Time,
    ) -> Result<FlowId, FlowError> {
        check(&actions)?;
        let mask = complete_mask(mask)?;
        let ufid = ufid.unwrap_or_else(|| ufid_of(key, &mask));
        if self.by_ufid.contains_key(&ufid) {
            return Err(FlowError::Exists);
        }
        let id = match self.free.last() {
            Some(&id) => id,
            None => u32::try_from(self.hot.len()).ok().filter(|&id| id != NO_FLOW).ok_or(FlowError::Full)?,
        };
        // The classifier is the port's own; the port in the key would cost a word in each hash.
        let masked = Arc::new(MaskedKey::new(key, &Flow { in_port: 0, ..mask }));
        let port = self.ports.entry(key.in_port);
        if !port.classifier.insert(&masked, id) {
            return Err(FlowError::Exists);
        }
        let simple = mark_of(key, &mask).filter(|&mark| port.simple.insert(mark, id));
        let cold = ColdFlow {
            key: masked,
            full: PackedKey::new(key),
            ufid,
            in_port: key.in_port,
            simple,
            installed: now,
            previous: self.last.unwrap_or(NO_FLOW),
            next: NO_FLOW,
        };
        self.place(id, cold, actions);
        self.oldest = if self.len == 1 { now } else { self.oldest.min(now) };
        Ok(FlowId(id))
    }

    fn place(&mut self, id: u32, cold: ColdFlow, actions: Actions) {
        let mut hot = HotFlow {
            packets: 0,
            bytes: 0,
            used: NEVER,
            actions: None,
            output: 0,
            generation: 0,
            tcp_flags: 0,
            group: NO_GROUP,
            run: Run::Drop,
        };
        hot.set_actions(actions);
        self.by_ufid.insert(cold.ufid, id);
        if let Some(last) = self.last.and_then(|last| self.cold[last as usize].as_mut()) {
            last.next = id;
        }
        self.first = self.first.or(Some(id));
        self.last = Some(id);
        if self.free.pop().is_some() {
            hot.generation = self.hot[id as usize].generation;
            self.hot[id as usize] = hot;
            self.cold[id as usize] = Some(cold);
        } else {
            self.hot.push(hot);
            self.cold.push(Some(cold));
        }
        self.len += 1;
        self.installed += 1;
    }

    /// Flows ever installed; changes whenever a lookup may have another result than before.
    pub fn installed(&self) -> u64 {
        self.installed
    }

    /// Removes a flow and returns its last counters.
    pub fn remove(&mut self, id: FlowId) -> Option<FlowStats> {
        let cold = self.cold.get_mut(id.0 as usize)?.take()?;
        let hot = &mut self.hot[id.0 as usize];
        let stats = hot.stats();
        hot.generation = hot.generation.wrapping_add(1);
        hot.actions = None;
        hot.run = Run::Drop;
        self.by_ufid.remove(&cold.ufid);
        if let Some(port) = self.ports.get_mut(cold.in_port) {
            port.classifier.remove(&cold.key);
            if let Some(mark) = cold.simple {
                port.simple.remove(mark, id.0);
            }
        }
        let link = |id: u32| (id != NO_FLOW).then_some(id);
        match link(cold.previous).and_then(|previous| self.cold[previous as usize].as_mut()) {
            Some(previous) => previous.next = cold.next,
            None => self.first = link(cold.next),
        }
        match link(cold.next).and_then(|next| self.cold[next as usize].as_mut()) {
            Some(next) => next.previous = cold.previous,
            None => self.last = link(cold.previous),
        }
        self.free.push(id.0);
        self.len -= 1;
        Some(stats)
    }

    /// Replaces a flow's actions; counters stay.
    ///
    /// # Errors
    /// [`FlowError::Action`], [`FlowError::NotFound`].
    pub fn set_actions(&mut self, id: FlowId, actions: Actions) -> Result<(), FlowError> {
        check(&actions)?;
        if self.cold.get(id.0 as usize).is_none_or(Option::is_none) {
            return Err(FlowError::NotFound);
        }
        self.hot[id.0 as usize].set_actions(actions);
        Ok(())
    }

    /// Sets a flow's counters to zero.
    pub fn clear_stats(&mut self, id: FlowId) {
        if let Some(hot) = self.hot.get_mut(id.0 as usize) {
            hot.packets = 0;
            hot.bytes = 0;
            hot.used = NEVER;
            hot.tcp_flags = 0;
        }
    }

    /// The flow with this unique id.
    pub fn find_ufid(&self, ufid: Ufid) -> Option<FlowId> {
        self.by_ufid.get(&ufid).map(|&id| FlowId(id))
    }

    /// The flow that a packet with this key meets. Counts as no lookup.
    pub fn find_key(&self, key: &Flow) -> Option<FlowId> {
        let mut batch = Box::<KeyBatch>::default();
        batch.keys[0] = Miniflow::from_flow(key);
        batch.note(0);
        self.find_in_batch(&batch, 0, key.in_port)
    }

    /// The flow that the packet with key `i` of a batch meets. Counts as no lookup.
    pub(crate) fn find_in_batch(&self, batch: &KeyBatch, i: usize, in_port: u32) -> Option<FlowId> {
        let mut found = Found::default();
        let mut pending = Pending::default();
        pending.push(i);
        self.ports.get(in_port)?.classifier.peek(batch, &mut pending, &mut found);
        pending.is_empty().then(|| FlowId(found.flows[i]))
    }

    /// A flow.
    pub fn get(&self, id: FlowId) -> Option<FlowView<'_>> {
        let cold = self.cold.get(id.0 as usize)?.as_ref()?;
        let hot = self.hot.get(id.0 as usize)?;
        Some(FlowView {
            id,
            ufid: cold.ufid,
            actions: hot.actions.as_deref().unwrap_or_default(),
            stats: hot.stats(),
            installed: cold.installed,
            key: &cold.key,
            full: &cold.full,
        })
    }

    /// All flows, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = FlowView<'_>> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            let id = next?;
            let cold = self.cold.get(id as usize)?.as_ref()?;
            next = (cold.next != NO_FLOW).then_some(cold.next);
            self.get(FlowId(id))
        })
    }

    /// The masks of one ingress port, with their hits, in the order in which they are looked at.
    pub fn classifier(&self, in_port: u32) -> Option<&Classifier> {
        self.ports.get(in_port).map(|port| &port.classifier)
    }

    /// Whether a cached flow still lives.
    #[inline(always)]
    pub fn is_alive(&self, flow: FlowRef) -> bool {
        self.hot.get(flow.id as usize).is_some_and(|hot| hot.generation == flow.generation)
    }

    /// Names a living flow for a cache.
    #[inline(always)]
    pub fn reference(&self, id: u32) -> FlowRef {
        FlowRef { id, generation: self.hot.get(id as usize).map_or(0, |hot| hot.generation) }
    }

    /// Whether the packet belongs to the flow, by comparing the masked key.
    pub(crate) fn matches(&self, id: u32, in_port: u32, packet: &Miniflow) -> bool {
        let cold = self.cold.get(id as usize).and_then(Option::as_ref);
        cold.is_some_and(|cold| cold.in_port == in_port && cold.key.matches(packet))
    }

    /// Removes the flows that no packet used for `idle` (since they were installed, if never), oldest first; `removed` sees
    /// each before it goes.
    pub fn expire(&mut self, now: Time, idle: Span, mut removed: impl FnMut(&FlowView<'_>)) {
        if self.is_empty() || now < self.oldest + idle {
            return;
        }
        let mut oldest = Time::MAX;
        let mut expired = Vec::new();
        for flow in self.iter() {
            let last = flow.stats.used.unwrap_or(flow.installed);
            if last + idle <= now {
                removed(&flow);
                expired.push(flow.id);
            } else {
                oldest = oldest.min(last);
            }
        }
        for id in expired {
            self.remove(id);
        }
        self.oldest = oldest;
    }

    /// Before this time, no flow becomes idle for `idle`.
    pub fn next_idle(&self, idle: Span) -> Option<Time> {
        (!self.is_empty()).then(|| self.oldest + idle)
    }
}

impl HotFlow {
    fn set_actions(&mut self, actions: Actions) {
        self.output = 0;
        self.run = match &*actions {
            [] => Run::Drop,
            [Action::Output(port)] => {
                self.output = port.0;
                Run::Output
            }
            actions if actions.iter().any(reenters) => Run::Reenter,
            _ => Run::Straight,
        };
        self.actions = Some(actions.into());
    }

    fn stats(&self) -> FlowStats {
        FlowStats {
            packets: self.packets,
            bytes: self.bytes,
            used: (self.used != NEVER).then_some(Time(self.used)),
            tcp_flags: self.tcp_flags,
        }
    }
}

/// The mask that the datapath stores for what a put or the slow path asked for: in_port and recirc_id exact; without a
/// match on a VLAN tag, "no tag", since datapath flow keys cannot say "any tag" (see `dpif_netdev_flow_put`); and nothing
/// that packets do not have (registers, metadata).
///
/// # Errors
/// [`FlowError::InPort`] if only some bits of in_port are matched, or none.
pub fn complete_mask(mask: &Flow) -> Result<Flow, FlowError> {
    if mask.in_port != u32::MAX {
        return Err(FlowError::InPort);
    }
    let mut mask = Flow { recirc_id: u32::MAX, regs: [0; 32], conj_id: 0, actset_output: 0, ..*mask };
    mask.metadata.set(0);
    if mask.vlans[0].tci.get() == 0 {
        mask.vlans[0].tci.set(VLAN_CFI | 0x0fff);
    }
    Ok(mask)
}

/// The unique id of a flow with this mask: both count, since two masks over the same bits are two flows.
pub fn ufid_of(key: &Flow, mask: &Flow) -> Ufid {
    let masked = key.masked(mask);
    let both = [masked.words(), mask.words()];
    let half = |salt: u64| -> u128 {
        let hashes = both.map(|words| {
            let mut salted = [0; FLOW_WORDS + 1];
            salted[0] = salt;
            salted[1..].copy_from_slice(words);
            u64::from(hash::words(&salted))
        });
        u128::from(hashes[0] << 32 | hashes[1])
    };
    Ufid(half(1) << 64 | half(2))
}

/// Values by port number: an array for ordinary numbers, a tree for the others, such as "none".
#[derive(Clone, Debug)]
pub(crate) struct PortMap<T> {
    low: Vec<Option<T>>,
    high: BTreeMap<u32, T>,
}

impl<T> Default for PortMap<T> {
    fn default() -> Self {
        Self { low: Vec::new(), high: BTreeMap::new() }
    }
}

impl<T: Default> PortMap<T> {
    /// Numbers in the array: below this.
    const LOW: u32 = 1 << 12;

    #[inline(always)]
    pub fn get(&self, port: u32) -> Option<&T> {
        match self.low.get(port as usize) {
            Some(value) => value.as_ref(),
            None => self.high(port),
        }
    }

    #[cold]
    fn high(&self, port: u32) -> Option<&T> {
        self.high.get(&port)
    }

    #[inline(always)]
    pub fn get_mut(&mut self, port: u32) -> Option<&mut T> {
        match self.low.get_mut(port as usize) {
            Some(value) => value.as_mut(),
            None => self.high.get_mut(&port),
        }
    }

    pub fn entry(&mut self, port: u32) -> &mut T {
        if port >= Self::LOW {
            return self.high.entry(port).or_default();
        }
        let at = port as usize;
        if at >= self.low.len() {
            self.low.resize_with(at + 1, || None);
        }
        self.low[at].get_or_insert_default()
    }

    pub fn insert(&mut self, port: u32, value: T) -> Option<T> {
        if port >= Self::LOW {
            return self.high.insert(port, value);
        }
        let at = port as usize;
        if at >= self.low.len() {
            self.low.resize_with(at + 1, || None);
        }
        self.low[at].replace(value)
    }

    pub fn remove(&mut self, port: u32) -> Option<T> {
        match self.low.get_mut(port as usize) {
            Some(value) => value.take(),
            None => self.high.remove(&port),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let low = self.low.iter().enumerate();
        let low = low.filter_map(|(port, value)| value.as_ref().map(|value| (port as u32, value)));
        low.chain(self.high.iter().map(|(&port, value)| (port, value)))
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.low.iter_mut().flatten().chain(self.high.values_mut())
    }
}
