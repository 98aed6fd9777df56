//! The fast path: lookups by batch, upcalls, actions, recirculation, output.
//!
//! Owns ports as queues and counters, and the order in which things happen. It never looks at OpenFlow: what it cannot
//! decide it hands to an [`Upcall`]. Counterpart: OVS `lib/dpif-netdev.c`.

mod classify;
mod datapath;
mod encap;
mod port;
mod receive;
mod scratch;
#[cfg(test)]
mod tests;
mod track;
mod transmit;
mod upcall;

pub use datapath::{Config, Datapath, FlowPut};
pub use port::{Port, PortConfig, PortError, PortStats};
pub use receive::MAX_RECIRC_DEPTH;
pub use upcall::{Injection, Install, NoUpcall, Upcall, UpcallKind, UpcallReply, UpcallRequest};
