//! Usage: exit codes, help, readers that go away.

use std::io::Read;
use std::process::Stdio;

use crate::common::{recirc, run};

#[test]
fn wrong_usage_is_code_2_and_says_what_is_wrong() {
    for (args, word) in [
        (&["nonsense"][..], "nonsense"),
        (&["text", "poem"], "poem"),
        (&["run"], "FILE"),
        (&["run", "--no-such-option"], "--no-such-option"),
        (&["replay", "a.pcap", "--speed", "fast"], "fast"),
        (&["replay", "a.pcap", "--loop", "0"], "0"),
        (&["replay", "a.pcap", "--map", "eth0"], "eth0"),
        (&["bench", "--rounds", "0"], "0"),
        (&["trace", "a.toml"], "--switch"),
        // A command that does not exist is not pretended.
        (&["import", "a.toml"], "import"),
        (&["live"], "FILE"),
        (&["live", "a.toml", "--for", "soon"], "soon"),
        (&["live", "a.toml", "--format", "csv"], "csv"),
    ] {
        let ran = run(args).code(2).complains(&["error:", word]);
        assert_eq!(ran.out, "");
    }
}

#[test]
fn help_and_version_are_code_0() {
    for args in [&["--help"][..], &["help"], &["run", "--help"], &["text", "-h"], &["--version"]] {
        let ran = run(args).code(0);
        assert!(ran.out.contains("recirc"));
        assert_eq!(ran.err, "");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut child = recirc()
        .args(["text", "rule"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        let line = b"ip,nw_dst=10.0.0.1,actions=output:1\n";
        while stdin.write_all(line).is_ok() {}
    });
    let status = child.wait().unwrap();
    writer.join().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
}
