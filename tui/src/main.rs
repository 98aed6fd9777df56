//! The `recirc` program: command line and terminal user interface.
//!
//! The only place that prints, reads a wall clock, or knows of a terminal. It decides nothing about a packet: all that it
//! shows comes from `sim` and `datapath`.

mod cli;
mod compare;
mod diagnostic;
mod exit;
mod interrupt;
mod output;
mod progress;
#[cfg(test)]
mod readme;
mod ui;

fn main() -> std::process::ExitCode {
    cli::main()
}
