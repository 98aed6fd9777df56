//! A progress bar on standard error, for work that takes longer than a moment.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// A bar that shows itself only on a terminal, and removes itself when dropped.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `total` units, or a spinner where that is not known.
    pub fn new(what: &str, total: Option<u64>) -> Self {
        if !output::stderr_is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), "{msg} {wide_bar} {percent:>3}% {eta}"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg} {human_pos} ({per_sec})"),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(crate::diagnostic::clean(what));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Moves to `position` units.
    pub fn set(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
