//! The program as users run it: what it prints, and how it ends.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod compare;
#[cfg(target_os = "linux")]
mod live;
mod ovs;
mod replay;
mod run;
#[cfg(unix)]
mod signals;
mod text;
mod usage;
