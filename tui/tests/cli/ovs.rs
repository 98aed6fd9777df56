//! `recirc run --ovs`: commands as they are pasted.

use crate::common::{run, run_with};

const SETUP: &str = "#!/bin/sh
# reported against 3.3
$ sudo ovs-vsctl add-br br0 \\
    -- set Bridge br0 datapath_type=dummy fail_mode=secure
ovs-vsctl add-port br0 p1 -- set Interface p1 type=dummy ofport_request=1; ovs-vsctl add-port br0 p2 \
-- set Interface p2 type=dummy ofport_request=2
";

fn script(text: &str) -> crate::common::Ran {
    run_with(&["run", "--ovs", "-"], format!("{SETUP}{text}").as_bytes())
}

#[test]
fn each_command_with_what_it_prints_and_what_leaves() {
    let ran = script(
        "ovs-ofctl -O OpenFlow15 add-flows br0 - <<'EOF'\n# rules\nin_port=1,actions=2 # there\nEOF\n\
         ovs-ofctl dump-flows br0 --no-stats && ovs-vsctl list-ports br0\n\
         ovs-appctl netdev-dummy/receive p1 50540000000a5054000000091234\nsleep 1\n",
    )
    .code(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    let after = |command: &str, n: usize| {
        let at = lines.iter().position(|line| *line == command).unwrap_or_else(|| panic!("{}", ran.out));
        lines[at + 1..=at + n].to_vec()
    };
    assert!(lines[0].starts_with("$ sudo ovs-vsctl add-br br0"));
    assert!(lines[1].starts_with(">     -- set Bridge br0"), "{}", ran.out);
    assert_eq!(after("$ ovs-ofctl dump-flows br0 --no-stats", 1), [" in_port=1 actions=output:2"]);
    assert_eq!(after("$ ovs-vsctl list-ports br0", 2), ["p1", "p2"]);
    assert!(lines.contains(&"# leaves p2: 50540000000a5054000000091234"), "{}", ran.out);
    assert_eq!(ran.err, "");
}

#[test]
fn what_is_wrong_is_shown_where_it_stands_and_nothing_of_it_is_done() {
    let rules = "ovs-ofctl add-flows br0 - <<EOF\nin_port=1,actions=2\n\n in_port=1,actions=frob\nEOF\n";
    script(rules).code(2).complains(&["standard input:9:20", "frob", "in_port=1,actions=frob", "^^^^"]);
    script("ovs-ofctl add-flow br0 \\\n  in_port=1,actions=frob\n")
        .code(2)
        .complains(&["standard input:7:21", "frob"]);
    script("ovs-vsctl list-br | grep br\n").code(2).complains(&["standard input:6:19", "`|`"]);
    script("frobnicate br0\n").code(2).complains(&["standard input:6:1", "unknown program"]);
    script("ovs-ofctl add-flows br0 -\n").code(2).complains(&["no standard input"]);
    script("sleep long\n").code(2).complains(&["seconds"]);
    run(&["run", "--ovs", "/no/such/file"]).code(2).complains(&["/no/such/file"]);
    run(&["run", "--ovs", "x", "y.toml"]).code(2).complains(&["cannot be used with"]);
}
