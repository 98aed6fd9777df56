//! Flow keys: what a packet looks like to the switch, and which bits of that matter.
//!
//! [`Flow`] is the full, named form (OVS `struct flow`); [`Miniflow`] the compressed form that extraction fills
//! and the caches compare (OVS `struct miniflow`). A mask is a [`Flow`] whose set bits are significant.

mod compose;
mod extract;
pub mod hash;
mod key;
mod miniflow;
pub mod proto;
mod relevant;
pub mod text;

pub use compose::{ComposeError, Payload, compose, compose_len};
pub use extract::{ExtractConfig, SimpleKey, extract, extract_simple};
pub use key::{
    FLOW_WORDS, Flow, FlowWords, NW_FRAG_ANY, NW_FRAG_LATER, Nsh, SEGMENT_ENDS, TNL_F_CSUM,
    TNL_F_DONT_FRAGMENT, TNL_F_KEY, TNL_F_MASK, TNL_F_OAM, TNL_F_UDPIF, Tunnel, VLAN_CFI, VlanHeader,
};
pub use miniflow::{Map, Miniflow};
pub use relevant::relevant_fields;
