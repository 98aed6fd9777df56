//! Flow caches: simple match, EMC, SMC, the datapath classifier (dpcls), the flows behind them, and the linear matcher that
//! is their oracle.
//!
//! Owns flows, their counters and everything that finds them by a packet's key. Never looks at a frame, never decides
//! what a miss means. Counterpart: `lib/dpif-netdev-dfc.h`, `lib/dpif-netdev-dpcls.h` and the flow table of
//! `lib/dpif-netdev.c` of OVS.

mod dpcls;
mod emc;
mod hash;
mod key;
mod linear;
mod prefetch;
mod random;
mod simple;
mod smc;
mod store;
mod subtable;
mod table;
#[cfg(test)]
mod tests;

pub use dpcls::Classifier;
pub use emc::{EMC_ENTRIES, EMC_MAX_WORDS, Emc};
pub use key::{KeyBatch, MaskedKey, Shape};
pub use linear::Linear;
pub use prefetch::{prefetch, prefetch_at};
pub use random::SplitMix64;
pub use simple::{SimpleTable, mark, mark_of};
pub use smc::{SMC_ENTRIES, Smc};
pub use store::{
    FlowError, FlowRecord, FlowRef, FlowStats, FlowStore, FlowView, NO_FLOW, Ufid, complete_mask, ufid_of,
};
pub(crate) use store::{HotFlow, NO_GROUP, PortMap, Run};
pub use subtable::{Found, Pending, Subtable};
