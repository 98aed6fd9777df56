//! Runs the program as a user does.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What came of a run.
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Asserts the exit code, and shows everything if it is another.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Asserts that standard error has all of these in it.
    #[track_caller]
    pub fn complains(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in:\n{}", self.err);
        }
        self
    }
}

/// The program, ready to be given arguments. Without a terminal on any side.
pub fn recirc() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recirc"));
    command.stdin(Stdio::null()).env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command
}

fn ran(output: &Output) -> Ran {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let ran = Ran {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'), "escape codes without a terminal");
    ran
}

/// Runs with these arguments.
pub fn run(args: &[&str]) -> Ran {
    ran(&recirc().args(args).output().unwrap())
}

/// Runs in a folder.
pub fn run_in(folder: &Path, args: &[&str]) -> Ran {
    ran(&recirc().args(args).current_dir(folder).output().unwrap())
}

/// Runs with this on standard input.
pub fn run_with(args: &[&str], input: &[u8]) -> Ran {
    let mut child = recirc()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The program may end before it has read all.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    ran(&output)
}

/// The path of a topology of the repository.
pub fn topology(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies").join(name).display().to_string()
}
