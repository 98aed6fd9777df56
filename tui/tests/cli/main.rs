//! The program as users run it: what it prints, and how it ends.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
mod text;
mod usage;
