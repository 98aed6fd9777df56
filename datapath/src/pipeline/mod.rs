//! The fast path: lookups by batch, upcalls, actions, recirculation, output.
//!
//! It never looks at OpenFlow: what it cannot decide it hands to an [`Upcall`].

mod upcall;

pub use upcall::{Install, NoUpcall, Upcall, UpcallKind, UpcallReply, UpcallRequest};
