//! An OVS-style userspace datapath: packets, flow keys, caches, actions, OpenFlow translation and offloads.
//!
//! The crate is handed everything it depends on: time, chance, memory and frames are arguments. It reads no
//! clock, opens no file, prints nothing; [`port`] alone does I/O. Modules depend on each other in one direction only:
//!
//! ```text
//! types <- packet, offload <- flow <- cache <- action <- conntrack, meter, tunnel <- openflow <- pipeline <- switch
//! ```

pub mod action;
pub mod bench;
pub mod cache;
pub mod conntrack;
pub mod flow;
pub mod meter;
pub mod offload;
pub mod openflow;
pub mod packet;
pub mod pipeline;
#[cfg(target_os = "linux")]
pub mod port;
pub mod stats;
pub mod switch;
pub mod trace;
pub mod tunnel;
pub mod types;
