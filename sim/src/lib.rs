//! The simulated world.

pub mod capture;
