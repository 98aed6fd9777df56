//! Ctrl-C.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::common::recirc;

/// A world that goes on for a long time.
const LONG: &str = r#"
name = "a long ping"
stop-at = "100000s"
[host.h1]
ip = "10.0.0.1/24"
[host.h2]
ip = "10.0.0.2/24"
[[link]]
ends = ["h1", "h2"]
delay = "10us"
[[step]]
ping = { from = "h1", to = "10.0.0.2", count = 1000000000, interval = "1us" }
"#;

fn interrupt(pid: u32) {
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_ends_a_run_with_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("long.toml"), LONG).unwrap();
    let child = recirc()
        .args(["run", "long.toml", "--format", "json", "--out", "o"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The run is under way once it has a place for what it writes.
    let start = Instant::now();
    while !dir.path().join("o").exists() && start.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["result"], "interrupted");
    let written = fs::read(dir.path().join("o/long/report.json")).unwrap();
    assert_eq!(written, output.stdout);
}
