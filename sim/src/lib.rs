//! The simulated world around the datapath.

pub mod capture;
pub mod describe;
pub mod diagnostic;
pub mod link;
pub mod quantity;
pub mod random;
pub mod scenario;
pub mod wire;
