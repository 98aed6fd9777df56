//! The terminal user interface.
//!
//! One pure `update(&mut App, Command)` and one `view(&App, &mut Frame)`: keys, mouse, the `:` prompt and tests all make
//! commands. Only [`terminal`] touches the terminal and the clock.

mod app;
mod command;
pub mod decode;
mod engine;
mod filter;
mod journey;
mod keys;
mod layout;
mod marks;
mod mask;
mod model;
mod mouse;
mod rates;
pub mod terminal;
mod text;
mod theme;
mod update;
mod view;
mod walk;

pub use engine::WorldEngine;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
