//! Ctrl-C, termination signals and hang-ups: the first asks the running command to end with what it has, the second ends
//! the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::exit::Exit;
use crate::ui::terminal;

/// How long the terminal user interface has to leave by itself. It does so at once, unless its terminal is gone and reading
/// from that never comes back.
const GRACE: Duration = Duration::from_secs(1);

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. A failure leaves the system's default behaviour, which ends the process too.
pub fn install() {
    // The handler runs in a thread of its own, and may wait.
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            terminal::restore();
            leave();
        }
        if terminal::is_taken() {
            thread::sleep(GRACE);
            if terminal::is_taken() {
                leave();
            }
        }
    });
}

fn leave() -> ! {
    std::process::exit(i32::from(Exit::Interrupted.code()))
}

/// The flag that is set when the user asks to end.
pub fn flag() -> &'static AtomicBool {
    &REQUESTED
}

/// Whether the user asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
