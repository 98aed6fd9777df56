//! The terminal: taken, drawn on, read from, and given back whatever happens.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::app::App;
use super::command::Command;
use super::keys;
use super::model::Engine;
use super::theme::Theme;
use super::update::update;
use super::view::view;
use crate::interrupt;

/// Wall-clock time between two looks at the screen while something is under way.
const FRAME: Duration = Duration::from_millis(33);
/// The same while nothing is; keys are answered at once either way.
const IDLE: Duration = Duration::from_millis(500);
/// Wall-clock time that the engine may take of a frame.
const SLICE: Duration = Duration::from_millis(20);
/// Steps of the first slice; later ones are adapted to how long it took.
const FIRST_BUDGET: u64 = 200;
/// Steps of a slice at most.
const MOST: u64 = 1_000_000;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether the terminal is taken.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// Gives the terminal back, if it was taken. Safe to call at any time: from the panic hook and the signal handler too.
pub fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        // There is nobody to tell if this fails.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

/// Takes the terminal, and gives it back when dropped.
struct Guard;

impl Guard {
    fn take() -> io::Result<Self> {
        TAKEN.store(true, Ordering::SeqCst);
        let guard = Self;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture)?;
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Runs the user interface on a world that is at its start, until the user leaves.
///
/// # Errors
/// Those of the terminal.
pub fn run(engine: Box<dyn Engine>) -> io::Result<()> {
    let _guard = Guard::take()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let size = terminal.size()?;
    let mut app = App::new(engine, (size.width, size.height));
    app.theme = Theme { colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
    let mut last = Instant::now();
    let mut budget = FIRST_BUDGET;
    while !app.quit && !interrupt::requested() {
        terminal.draw(|frame| view(&app, frame))?;
        let drawn = Instant::now();
        let wait = if app.walk.job().is_some() { FRAME.saturating_sub(drawn - last) } else { IDLE };
        read(&mut app, wait)?;
        let start = Instant::now();
        update(&mut app, Command::Tick { elapsed: start - last, budget });
        last = start;
        if app.walk.job().is_some() {
            budget = adapt(budget, start.elapsed());
        }
    }
    Ok(())
}

/// Waits for input at most so long, and carries out all that has come.
fn read(app: &mut App, wait: Duration) -> io::Result<()> {
    let mut wait = wait;
    while !app.quit && event::poll(wait)? {
        let event = event::read()?;
        if let Some(command) = keys::command(app, &event) {
            update(app, command);
        }
        wait = Duration::ZERO;
    }
    Ok(())
}

/// Steps for the next slice, so that it takes about [`SLICE`]: grows slowly, shrinks at once.
fn adapt(budget: u64, took: Duration) -> u64 {
    if took > SLICE {
        let part = SLICE.as_secs_f64() / took.as_secs_f64();
        ((budget as f64 * part) as u64).max(1)
    } else if took < SLICE / 2 {
        (budget + budget / 2 + 1).min(MOST)
    } else {
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_speed_of_the_world() {
        assert_eq!(adapt(100, SLICE * 2), 50);
        assert_eq!(adapt(1, SLICE * 100), 1);
        assert_eq!(adapt(100, SLICE / 10), 151);
        assert_eq!(adapt(MOST, Duration::ZERO), MOST);
        assert_eq!(adapt(100, SLICE), 100);
    }

    #[test]
    fn giving_back_what_was_not_taken_does_nothing() {
        restore();
        assert!(!TAKEN.load(Ordering::SeqCst));
    }
}
