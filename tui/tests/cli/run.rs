//! `recirc run`, `golden` and the demo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{run, run_in};

const PING: &str = r#"
name = "two hosts and a switch"
[host.h1]
ip = "10.0.0.1/24"
[host.h2]
ip = "10.0.0.2/24"
[switch.s1]
port.1 = {}
port.2 = {}
[[link]]
ends = ["h1", "s1:1"]
delay = "10us"
[[link]]
ends = ["h2", "s1:2"]
delay = "10us"
loss = "20%"
[[step]]
ping = { from = "h1", to = "10.0.0.2", count = 20, interval = "10ms" }
"#;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// All files below a folder, with their bytes.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    let strip = |path: PathBuf| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
    tree(folder).into_keys().map(strip).collect()
}

#[test]
fn the_demo_runs_from_any_folder() {
    let empty = tempfile::tempdir().unwrap();
    let ran = run_in(empty.path(), &[]).code(0);
    assert!(ran.out.contains("result: pass") && ran.out.contains("recirc(0x1)"), "{}", ran.out);
    assert_eq!(ran.err, "");
    assert!(names(empty.path()).is_empty());
}

#[test]
fn the_same_file_and_seed_give_the_same_bytes() {
    let dir = folder(&[("ping.toml", PING)]);
    for out in ["a", "b"] {
        run_in(dir.path(), &["run", "ping.toml", "--out", out]).code(0);
    }
    run_in(dir.path(), &["run", "ping.toml", "--out", "c", "--seed", "9"]).code(0);
    let (a, b, c) = (tree(&dir.path().join("a")), tree(&dir.path().join("b")), tree(&dir.path().join("c")));
    assert_eq!(
        names(&dir.path().join("a")),
        [
            "ping/report.json",
            "ping/s1.1.tx.pcap",
            "ping/s1.2.tx.pcap",
            "ping/s1.flows.txt",
            "ping/s1.s1.tx.pcap"
        ]
    );
    assert!(a.values().eq(b.values()));
    assert!(!a.values().eq(c.values()), "another seed, other losses");
}

#[test]
fn json_is_one_object_a_line_and_what_is_written_too() {
    let dir = folder(&[("a.toml", PING), ("b.toml", PING)]);
    let ran = run_in(dir.path(), &["run", "a.toml", "b.toml", "--format", "json", "--out", "o"]).code(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2);
    for (line, stem) in lines.iter().zip(["a", "b"]) {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(report["file"], format!("{stem}.toml"));
        assert_eq!(report["result"], "pass");
        let switch = &report["switches"]["s1"];
        let number = |name: &str| switch[name].as_u64().unwrap();
        let dropped: u64 = switch["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(number("received") + number("made"), number("sent") + dropped + number("queued"));
        let written = fs::read_to_string(dir.path().join("o").join(stem).join("report.json")).unwrap();
        assert_eq!(written.trim_end(), *line);
    }
}

#[test]
fn csv_has_one_heading_for_all_files() {
    let dir = folder(&[("a.toml", PING), ("b.toml", PING)]);
    let ran = run_in(dir.path(), &["run", "a.toml", "b.toml", "--format", "csv"]).code(0);
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("file,")).count(), 1);
    assert!(ran.out.lines().any(|line| line.starts_with("b.toml,port,s1:1,")), "{}", ran.out);
}

#[test]
fn events_are_traced() {
    let dir = folder(&[("a.toml", PING)]);
    let ran = run_in(dir.path(), &["run", "a.toml", "--trace"]).code(0);
    for part in
        ["received on 1", "upcall", "flow 0 installed", "sent on 2", "h1 sends a frame", "result: pass"]
    {
        assert!(ran.out.contains(part), "{part} is not in the trace");
    }
    let ran = run_in(dir.path(), &["run", "a.toml", "--trace", "--format", "json"]).code(0);
    assert_eq!(ran.out.lines().count(), 1, "events do not get between programs and the report");
    assert!(ran.err.contains("received on 1"));
}

#[test]
fn all_errors_of_all_files_are_told_and_nothing_is_done() {
    let bad = PING.replace("delay = \"10us\"", "dealy = \"10us\"").replace("count = 20", "count = \"many\"");
    let dir = folder(&[("bad.toml", &bad), ("good.toml", PING), ("worse.toml", "name = ")]);
    let ran = run_in(dir.path(), &["run", "good.toml", "bad.toml", "worse.toml", "gone.toml", "--out", "o"])
        .code(2);
    assert_eq!(ran.out, "");
    let ran =
        ran.complains(&["bad.toml:12:1", "dealy", "help:", "bad.toml:18:", "worse.toml:1:", "gone.toml"]);
    assert!(ran.err.matches("error:").count() >= 5, "{}", ran.err);
    assert!(!dir.path().join("o").exists());
}

#[test]
fn a_rule_or_a_command_that_is_wrong_points_into_the_file() {
    let rule =
        PING.replace("port.2 = {}", "port.2 = {}\nflows = \"\"\"\nin_port=1,actions=frobnicate\n\"\"\"");
    let command = format!("{PING}\n[[step]]\nat = \"1ms\"\novs = \"\"\"\novs-frobnicate now\n\"\"\"\n");
    let dir = folder(&[("rule.toml", &rule), ("command.toml", &command)]);
    run_in(dir.path(), &["run", "rule.toml", "--out", "o"]).code(2).complains(&[
        "rule.toml:11:",
        "frobnicate",
        "^",
    ]);
    run_in(dir.path(), &["run", "command.toml", "--out", "o"])
        .code(2)
        .complains(&["command.toml:23:1", "frobnicate"]);
    assert!(!dir.path().join("o").exists() || names(&dir.path().join("o")).is_empty(), "nothing half done");
}

#[test]
fn failed_expectations_and_golden_captures_have_codes_of_their_own() {
    let ping = PING.replace("loss = \"20%\"\n", "");
    let fails = format!("{ping}\n[[step]]\nat = \"1s\"\nexpect = {{ at = \"h1\", ping.received = 99 }}\n");
    let golden =
        format!("{ping}\n[[step]]\nat = \"1s\"\nexpect-golden = {{ at = \"h2\", pcap = \"h2.pcap\" }}\n");
    let dir = folder(&[("fails.toml", &fails), ("golden.toml", &golden)]);
    let ran = run_in(dir.path(), &["run", "fails.toml"]).code(3);
    assert!(ran.out.contains("99"), "{}", ran.out);

    run_in(dir.path(), &["golden", "check", "golden.toml"]).code(2).complains(&["h2.pcap"]);
    run_in(dir.path(), &["golden", "bless", "golden.toml"]).code(0);
    let ran = run_in(dir.path(), &["golden", "check", "golden.toml"]).code(0);
    assert!(ran.out.contains("h2 is as in h2.pcap"), "{}", ran.out);
    run_in(dir.path(), &["run", "golden.toml"]).code(0);

    let changed = golden.replace("count = 20", "count = 21");
    fs::write(dir.path().join("golden.toml"), changed).unwrap();
    let ran = run_in(dir.path(), &["golden", "check", "golden.toml"]).code(4);
    assert!(ran.out.contains("differs"), "{}", ran.out);
    run_in(dir.path(), &["run", "golden.toml"]).code(4);
    run_in(dir.path(), &["run", "golden.toml", "fails.toml"]).code(3);
}

#[test]
fn files_of_the_same_name_do_not_write_over_each_other() {
    let dir = folder(&[("a.toml", PING)]);
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/a.toml"), PING).unwrap();
    run_in(dir.path(), &["run", "a.toml", "sub/a.toml", "--out", "o"])
        .code(2)
        .complains(&["sub/a.toml", "o/a"]);
    run_in(dir.path(), &["run", "a.toml", "sub/a.toml"]).code(0);
}

#[test]
fn what_a_former_run_left_is_replaced() {
    let dir = folder(&[("a.toml", PING)]);
    let out = dir.path().join("o/a");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("s9.1.tx.pcap"), "old").unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    run_in(dir.path(), &["run", "a.toml", "--out", "o"]).code(0);
    assert!(!out.join("s9.1.tx.pcap").exists());
    assert!(out.join("notes.txt").exists(), "what is not ours is left alone");
}

#[test]
fn output_that_cannot_be_written_is_told() {
    let dir = folder(&[("a.toml", PING), ("file", "")]);
    run_in(dir.path(), &["run", "a.toml", "--out", "file"]).code(2).complains(&["cannot write", "file"]);
}

#[test]
fn trace_tells_what_one_packet_would_meet() {
    let dir = folder(&[("a.toml", PING)]);
    run_in(dir.path(), &["trace", "a.toml", "--switch", "s2", "in_port=1"]).code(2).complains(&["s2", "s1"]);
    run_in(dir.path(), &["trace", "a.toml", "--switch", "s1", &"00".repeat(20)])
        .code(2)
        .complains(&["in_port="]);
    let ran = run_in(dir.path(), &["trace", "a.toml", "--switch", "s1", "in_port=1,udp", "--names"]).code(0);
    assert!(ran.out.starts_with("Flow: udp,") && ran.out.contains("\nDatapath actions: "), "{}", ran.out);
    run_in(dir.path(), &["trace", "a.toml", "--switch", "s1", "in_port=1,udp", "--ct-next", "new"])
        .code(2)
        .complains(&["new: invalid connection state"]);
}

#[test]
fn the_user_interface_wants_a_terminal() {
    let dir = folder(&[("a.toml", PING)]);
    run_in(dir.path(), &["tui", "a.toml"]).code(2).complains(&["terminal", "recirc run a.toml"]);
    run(&["tui", "gone.toml"]).code(2).complains(&["gone.toml"]);
}

#[test]
fn every_lesson_shows_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().display().to_string());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".toml")).collect();
    files.sort();
    assert!(files.len() > 15, "{files:?}");
    let args: Vec<&str> = ["run"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let ran = run(&args).code(0);
    assert_eq!(ran.out.matches("result: pass").count(), files.len());
}
