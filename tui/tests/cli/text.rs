//! `recirc text`: canonical text of all four languages, and what is wrong with the rest.

use crate::common::{run, run_with};

/// Each line as it is given, and as newest Open vSwitch prints it.
#[test]
fn rules() {
    for (given, printed) in [
        (
            "priority=1,ip,nw_dst=10.0.0.0/8,actions=output:2",
            "priority=1,ip,nw_dst=10.0.0.0/8 actions=output:2",
        ),
        ("table=3 , in_port=LOCAL , actions=normal", "table=3, in_port=LOCAL actions=NORMAL"),
        ("tcp,tp_dst=80,actions=drop", "tcp,tp_dst=80 actions=drop"),
        ("actions=resubmit(,7)", "actions=resubmit(,7)"),
        ("delete table=1,ip", "delete table=1,ip"),
        ("delete_strict priority=7,ip", "delete_strict priority=7,ip"),
        ("modify cookie=1/-1,ip,actions=drop", "modify cookie=0x1/0xffffffffffffffff, ip actions=drop"),
    ] {
        let ran = run(&["text", "rule", given]).code(0);
        assert_eq!(ran.out, format!("{printed}\n"), "{given}");
        // What was printed is read again, and printed the same.
        assert_eq!(run(&["text", "rule", printed]).code(0).out, ran.out);
    }
}

#[test]
fn matches_flows_and_actions() {
    for (language, given, printed) in [
        ("match", "tcp,tp_dst=0x50/0xff", "tcp,tp_dst=0x50/0xff"),
        ("match", "ip,nw_src=10.1.2.3/255.255.0.0", "ip,nw_src=10.1.0.0/16"),
        (
            "flow",
            "recirc_id(0),in_port(p1),eth_type(0x0800),ipv4(frag=no), packets:1, bytes:64, used:0.1s, actions:p2",
            "recirc_id(0),in_port(p1),eth_type(0x0800),ipv4(frag=no), packets:1, bytes:64, used:0.100s, actions:p2",
        ),
        ("actions", "push_vlan(vid=10,pcp=5),p2", "push_vlan(vid=10,pcp=5),p2"),
        ("actions", "drop", "drop"),
    ] {
        let ran = run(&["text", language, given]).code(0);
        assert_eq!(ran.out, format!("{printed}\n"));
        assert_eq!(ran.err, "");
    }
}

#[test]
fn ports_have_names_where_they_are_given() {
    let ran =
        run(&["text", "rule", "in_port=p1,actions=output:p2,3", "--port", "p1=1", "--port", "p2=2"]).code(0);
    assert_eq!(ran.out, "in_port=p1 actions=output:p2,output:3\n");
    run(&["text", "rule", "in_port=p1,actions=drop"]).code(2).complains(&["p1", "argument:1:9", "^^"]);
    let ran = run(&["text", "actions", "2,p3", "--port", "p2=2", "--port", "p3=3"]).code(0);
    assert_eq!(ran.out, "p2,p3\n");
}

#[test]
fn bad_lines_are_all_told_and_good_ones_printed() {
    let input = "ip,actions=drop\n\n# a comment\nfoo=1,actions=drop\n  tcp,actions=bar\nudp,actions=drop\n";
    let ran = run_with(&["text", "rule"], input.as_bytes()).code(2);
    assert_eq!(ran.out, "ip actions=drop\nudp actions=drop\n");
    let ran = ran.complains(&["standard input:4:1", "standard input:5:", "foo", "bar"]);
    assert_eq!(ran.err.matches("error:").count(), 2);
    assert!(ran.err.contains("4 | foo=1,actions=drop\n  | ^^^\n"), "{}", ran.err);
}

#[test]
fn what_is_left_out_is_told() {
    let ran = run(&["text", "match", "tp_dst=80"]).code(0);
    assert_eq!(ran.out, "\n");
    assert!(ran.err.contains("tp_dst=80") && ran.err.contains("left out"), "{}", ran.err);
}

#[test]
fn odd_input_is_refused_and_not_a_crash() {
    run_with(&["text", "flow"], b"in_port(1)\n\xff\xfe\n")
        .code(2)
        .complains(&["standard input:2:1", "UTF-8"]);
    run_with(&["text", "rule"], "ip,actions=\u{1b}[31m\u{7}\n".as_bytes()).code(2);
    let long = format!("ip,actions={}", "x".repeat(100_000));
    let ran = run_with(&["text", "rule"], long.as_bytes()).code(2);
    assert!(ran.err.lines().skip(1).all(|line| line.chars().count() < 130), "only the message may be long");
    run_with(&["text", "actions"], "(".repeat(50_000).as_bytes()).code(2);
    run_with(&["text", "flow"], b"").code(0);
}

#[test]
fn more_shows_what_is_wildcarded() {
    let ran = run(&["text", "flow", "-m", "in_port(1),eth_type(0x0800),ipv4(frag=no)"]).code(0);
    assert!(ran.out.contains("src=0.0.0.0/0.0.0.0"), "{}", ran.out);
}
