//! The `recirc` program.
fn main() {}
