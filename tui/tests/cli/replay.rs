//! `recirc replay`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{run, run_in};

fn golden(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "golden-pcaps", name].iter().collect();
    path.display().to_string()
}

fn report(args: &[&str]) -> serde_json::Value {
    let mut all = vec!["replay"];
    all.extend(args);
    all.extend(["--format", "json"]);
    let ran = run(&all).code(0);
    assert_eq!(ran.out.lines().count(), 1);
    serde_json::from_str(&ran.out).unwrap()
}

fn number(value: &serde_json::Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn every_packet_of_every_capture_is_accounted_for() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "golden-pcaps"].iter().collect();
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.extension().is_some_and(|ext| ext == "pcap" || ext == "pcapng") {
            continue;
        }
        let report = report(&[path.to_str().unwrap()]);
        let switch = &report["switches"]["br0"];
        let dropped: u64 = switch["drops"].as_object().unwrap().values().map(number).sum();
        let (received, made) = (number(&switch["received"]), number(&switch["made"]));
        assert!(received > 0, "{path:?}");
        assert_eq!(
            received + made,
            number(&switch["sent"]) + dropped + number(&switch["queued"]),
            "{path:?}"
        );
        assert_eq!(report["file"], path.display().to_string());
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} captures");
}

#[test]
fn rules_say_where_packets_go() {
    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.txt");
    fs::write(&rules, "# from one side to the other\nin_port=p1,icmp,actions=output:p2\n\nactions=drop\n")
        .unwrap();
    let capture = golden("arp-ping.pcap");
    let report = report(&[&capture, "--rules", rules.to_str().unwrap()]);
    let switch = &report["switches"]["br0"];
    assert_eq!(
        number(&switch["received"]),
        number(&switch["sent"]) + number(&switch["drops"]["action-drop"])
    );
    assert!(number(&switch["sent"]) > 0 && number(&switch["drops"]["action-drop"]) > 0);
}

#[test]
fn wrong_rules_point_into_their_file_and_nothing_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    file("rules.txt", "ip,actions=drop\n  tcp,actions=frobnicate\nin_port=nowhere,actions=drop\n");
    let capture = golden("arp-ping.pcap");
    let args = ["replay", &capture, "--rules", "rules.txt", "--out", "o"];
    let ran = run_in(dir.path(), &args).code(2).complains(&[
        "rules.txt:2:",
        "frobnicate",
        "^",
        "rules.txt:3:",
        "nowhere",
    ]);
    assert_eq!(ran.out, "");
    assert!(!dir.path().join("o").exists());
    run_in(dir.path(), &["replay", &capture, "--rules", "gone.txt"]).code(2).complains(&["gone.txt"]);
}

#[test]
fn what_is_not_a_capture_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("text.pcap", &b"hello, this is text"[..]),
        ("empty.pcap", b""),
        ("cut.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 2]),
    ] {
        fs::write(dir.path().join(name), bytes).unwrap();
        let ran =
            run_in(dir.path(), &["replay", name, "--out", "o"]).code(2).complains(&["cannot read", name]);
        assert_eq!(ran.err.matches("error:").count(), 1);
    }
    assert!(!dir.path().join("o").exists());
    run_in(dir.path(), &["replay", "."]).code(2);
}

#[test]
fn interfaces_go_to_the_ports_they_are_mapped_to() {
    let capture = golden("router.pcapng");
    let all = report(&[&capture]);
    let total = number(&all["switches"]["br0"]["ports"]["p1"]["rx_packets"]);
    let report = report(&[&capture, "--map", "0=left", "--map", "1=right"]);
    let ports = &report["switches"]["br0"]["ports"];
    let (left, right) = (number(&ports["left"]["rx_packets"]), number(&ports["right"]["rx_packets"]));
    assert!(left > 0 && right > 0, "{ports}");
    assert_eq!(left + right, total);
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(0), "{}", report["warnings"]);
}

#[test]
fn an_interface_that_the_capture_does_not_have_is_told() {
    let report = report(&[&golden("router.pcapng"), "--map", "0=left", "--map", "eth9=right"]);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("no frame of interface eth9, which is mapped to br0:right"), "{warnings}");
}

#[test]
fn speed_and_loops() {
    let capture = golden("arp-ping.pcap");
    let end = |args: &[&str]| number(&report(args)["end_ns"]);
    let once = end(&[&capture]);
    assert!(end(&[&capture, "--speed", "10x"]) < once / 9);
    assert_eq!(end(&[&capture, "--speed", "topspeed"]), 0);
    assert_eq!(end(&[&capture, "--speed", "1000pps"]), 7_000_000, "eight packets, seven gaps");
    let twice = report(&[&capture, "--loop", "2"]);
    assert_eq!(number(&twice["switches"]["br0"]["received"]), 16);
    assert!(number(&twice["end_ns"]) >= 2 * once);
}

#[test]
fn ports_are_named() {
    let capture = golden("arp-ping.pcap");
    let report = report(&[&capture, "--port", "eth0"]);
    let ports = report["switches"]["br0"]["ports"].as_object().unwrap();
    assert!(ports.contains_key("eth0") && ports.contains_key("p2"), "{ports:?}");
    assert_eq!(number(&ports["eth0"]["rx_packets"]), 8);
    run(&["replay", &capture, "--port", "a", "--port", "a"]).code(2).complains(&["twice"]);
    run(&["replay", &capture, "--port", "a b\u{1b}[31m"]).code(2).complains(&["--port"]);
}

#[test]
fn out_has_what_left_each_port() {
    let dir = tempfile::tempdir().unwrap();
    let capture = golden("arp-ping.pcap");
    run_in(dir.path(), &["replay", &capture, "--out", "o"]).code(0);
    let out = dir.path().join("o/arp-ping");
    let exists = |name: &str| Path::new(&out).join(name).exists();
    assert!(exists("report.json") && exists("br0.flows.txt") && exists("br0.p2.tx.pcap"));
}
