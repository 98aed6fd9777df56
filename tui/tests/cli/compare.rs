//! `recirc compare`.

use std::path::Path;

use crate::common::{run, topology};

/// Whether Open vSwitch is installed. Where checks run it has to be.
fn has_ovs() -> bool {
    let there = Path::new("/usr/sbin/ovs-vswitchd").exists();
    assert!(
        there || std::env::var_os("CI").is_none(),
        "Open vSwitch is not installed: install openvswitch-switch"
    );
    if !there {
        eprintln!("SKIPPED: Open vSwitch is not installed, nothing was compared with it");
    }
    there
}

#[test]
fn a_lesson_runs_the_same_in_open_vswitch() {
    if has_ovs() {
        let ran = run(&["compare", &topology("vlan-trunk.toml"), &topology("learning-switch.toml")]).code(0);
        assert!(ran.out.starts_with("Open vSwitch "), "{}", ran.out);
        assert!(ran.out.contains("vlan-trunk.toml: s1: the same (18 inputs, 12 flows)"), "{}", ran.out);
        assert!(ran.out.contains("learning-switch.toml: s1: the same"), "{}", ran.out);
    }
}

#[test]
fn what_dummy_ports_cannot_do_is_not_compared() {
    if has_ovs() {
        let ran = run(&["compare", &topology("partial-checksum.toml")]).code(0);
        assert!(ran.out.contains("not compared: port s1:1 has offloads"), "{}", ran.out);
    }
}

#[test]
fn without_open_vswitch_it_says_so() {
    let args = ["compare", "--ovs", "/nonexistent", &topology("vlan-trunk.toml")];
    run(&args).code(2).complains(&["/nonexistent", "openvswitch-switch", "--ovs"]);
}
