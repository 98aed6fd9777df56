//! Ctrl-C and termination signals: the first asks the running command to end with what it has, the second ends the
//! process at once.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler. A failure leaves the system's default behaviour, which ends the process too.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::SeqCst) {
            crate::ui::terminal::restore();
            std::process::exit(i32::from(crate::exit::Exit::Interrupted.code()));
        }
    });
}

/// The flag that is set when the user asks to end.
pub fn flag() -> &'static AtomicBool {
    &REQUESTED
}

/// Whether the user asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
