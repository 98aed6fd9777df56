//! The commands: each takes its arguments and says how the program ends.

mod args;
mod bench;
mod compare;
mod demo;
mod golden;
#[cfg(target_os = "linux")]
mod live;
pub mod load;
mod ovs;
mod replay;
mod run;
mod text;
mod trace;
mod tracer;
mod tui;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use crate::diagnostic::{self, Complaint};
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};
use crate::{interrupt, ui};
use args::{Cli, Command};

/// Parses the command line, runs the command and maps its outcome to an exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output with code 0, a complaint to standard error with code 2.
            let code = if error.use_stderr() { Exit::BadInput } else { Exit::Pass };
            let _ = error.print();
            return code.into();
        }
    };
    interrupt::install();
    install_panic_hook();
    let outcome = panic::catch_unwind(|| {
        let mut out = Output::stdout();
        let result = run(cli, &mut out);
        let flushed = out.show();
        result.and_then(|exit| flushed.map(|()| exit))
    });
    match outcome {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            report(&failure);
            failure.exit().into()
        }
        // The hook has said what happened.
        Err(_) => Exit::Bug.into(),
    }
}

fn run(cli: Cli, out: &mut Output) -> Result<Exit, Failure> {
    match cli.command {
        None => demo::run(out),
        Some(Command::Run(args)) => run::run(&args, out),
        Some(Command::Replay(args)) => replay::run(&args, out),
        Some(Command::Trace(args)) => trace::run(&args, out),
        Some(Command::Tui(args)) => tui::run(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Live(args)) => live::run(&args, out),
        #[cfg(not(target_os = "linux"))]
        Some(Command::Live(_)) => Err(Complaint::new("real ports are there on Linux only").into()),
        Some(Command::Golden(args)) => golden::run(&args.action, out),
        Some(Command::Compare(args)) => compare::run(&args, out),
        Some(Command::Text(args)) => text::run(&args, out),
        Some(Command::Bench(args)) => bench::run(&args, out),
    }
}

fn report(failure: &Failure) {
    match failure {
        Failure::Input(complaints) => output::complain(complaints),
        Failure::Write { .. } | Failure::Bug(_) => {
            output::complain(&[Complaint::new(failure.to_string())]);
        }
    }
}

/// A panic is our bug: it says so in one message and where, after the terminal has been given back.
fn install_panic_hook() {
    panic::set_hook(Box::new(|info| {
        ui::terminal::restore();
        let payload = info.payload();
        let what = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let at = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let message = format!("recirc has a bug and cannot go on: {}{at}", diagnostic::clean(what));
        let help = "please report it together with the command and its files";
        output::complain(&[diagnostic::Complaint::new(message).help(help)]);
    }));
}
