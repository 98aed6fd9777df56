//! The simulated world around the datapath.

pub mod capture;
pub mod describe;
pub mod diagnostic;
pub mod files;
pub mod host;
pub mod link;
pub mod quantity;
pub mod queue;
pub mod random;
pub mod record;
pub mod scenario;
pub mod wire;
