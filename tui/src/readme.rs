//! Parts of the README that are made from the program itself. `UPDATE_README=1 cargo test -p recirc-tui` rewrites them.

use std::sync::{Mutex, PoisonError};

/// Tests run side by side; each part is read and written whole.
static FILE: Mutex<()> = Mutex::new(());

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");

/// Asserts that the README has `text` between its marks `<!-- name -->` and `<!-- /name -->`.
pub fn check(name: &str, text: &str) {
    let _file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let readme = std::fs::read_to_string(PATH).unwrap();
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let start = readme.find(&open).unwrap_or_else(|| panic!("README.md has no {open}")) + open.len();
    let end = start + readme[start..].find(&close).unwrap_or_else(|| panic!("README.md has no {close}"));
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(PATH, format!("{}{text}{}", &readme[..start], &readme[end..])).unwrap();
    } else {
        assert_eq!(&readme[start..end], text, "run UPDATE_README=1 cargo test -p recirc-tui");
    }
}
