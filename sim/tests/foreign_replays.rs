//! Every capture of `../shared/pcaps` is replayed through a learning switch, and every packet of it is accounted for; or it
//! is refused with a reason that points at the step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::files::{DiskFiles, Files};
use sim::report::Verdict;
use sim::runner::{RunOptions, run_to_end};
use sim::scenario::Scenario;

/// The captures, or none where there is no such folder. In CI that is a failure.
fn captures() -> Vec<PathBuf> {
    let shared = std::env::var_os("RECIRC_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let mut files = Vec::new();
    for folder in ["tcpdump", "ndpi"].map(|name| shared.join("pcaps").join(name)) {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            assert!(std::env::var_os("CI").is_none(), "{} does not exist", folder.display());
            let line = format!("SKIPPED: {} does not exist\n", folder.display());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            return Vec::new();
        };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap"));
    files.sort();
    files
}

#[test]
fn every_capture_is_replayed_or_refused() {
    let files: Arc<dyn Files + Send + Sync> = Arc::new(DiskFiles);
    let mut refused = Vec::new();
    for path in captures() {
        let text = format!(
            "[switch.s1]\nport.1 = {{ mtu = 65535 }}\nport.2 = {{ mtu = 65535 }}\nport.3 = {{ mtu = 1500 }}\n\
             [[step]]\nreplay = {{ on = \"s1:1\", pcap = {:?}, speed = \"10x\" }}\n",
            path.to_str().unwrap()
        );
        let scenario = Scenario::parse("replay.toml", &text).unwrap();
        let first = run_to_end(Arc::new(scenario), &files, &RunOptions::default()).unwrap();
        match first.verdict {
            Verdict::Pass => {
                let counters = &first.switches[0].counters;
                assert!(
                    counters.received > 0 || !first.warnings.is_empty(),
                    "{}: {}",
                    path.display(),
                    first.text()
                );
            }
            Verdict::BadScenario => refused.push(first.error.unwrap().to_string()),
            verdict => panic!("{}: {verdict:?}\n{}", path.display(), first.text()),
        }
    }
    assert!(refused.len() < 5, "{}", refused.join("\n"));
    for error in refused {
        assert!(error.contains("cannot replay") && error.contains("replay.toml:"), "{error}");
    }
}
