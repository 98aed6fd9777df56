use super::*;

fn words(line: &str) -> Vec<&str> {
    line.split(' ').filter(|w| !w.is_empty()).collect()
}

#[test]
fn chains_are_read_command_by_command() {
    let line = "ovs-vsctl --no-wait --may-exist add-br br0 -- set Bridge br0 fail-mode=secure \
                other_config:datapath-id=1234 -- --id=@i create Interface name=p1 type=dummy -- \
                --if-exists del-port br0 p9 -- get Port p1 tag other_config:x";
    let argv = words(line);
    let Ok(Command::Vsctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
    assert_eq!(call.commands.len(), 5);
    assert!(
        call.commands[0].may_exist
            && matches!(&call.commands[0].verb, vsctl::Verb::AddBr(w) if w.text == "br0")
    );
    let vsctl::Verb::Set(record, settings) = &call.commands[1].verb else { panic!() };
    assert_eq!((record.table, record.name.text.as_str()), (schema::Table::Bridge, "br0"));
    assert_eq!(settings[0].column.name, "fail_mode");
    assert_eq!(settings[1].value.get("datapath-id"), Some("1234"));
    assert_eq!(call.commands[2].id.as_deref(), Some("i"));
    assert!(call.commands[3].if_exists);
    let vsctl::Verb::Get(_, columns) = &call.commands[4].verb else { panic!() };
    assert_eq!(columns[1].key.as_deref(), Some("x"));
}

#[test]
fn ofctl_options_may_stand_anywhere() {
    let argv = words("ovs-ofctl add-flow -O OpenFlow13 br0 --strict actions=1");
    let Ok(Command::Ofctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
    assert_eq!(call.options.versions, [crate::openflow::protocol::OfVersion::Of13]);
    assert!(
        matches!(&call.verb, ofctl::Verb::FlowMod { text: Some(text), .. } if text.text == "actions=1" && text.arg == 6)
    );
    let argv = words("ovs-ofctl -OOpenFlow15 --strict del-flows br0");
    let Ok(Command::Ofctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
    assert!(matches!(call.verb, ofctl::Verb::FlowMod { text: None, .. }));
}

#[test]
fn appctl_and_dpctl_agree() {
    for line in ["ovs-appctl dpctl/dump-flows -m --names", "ovs-dpctl -m dump-flows --names"] {
        let argv = words(line);
        let Ok(Command::Appctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
        assert!(matches!(call.verb, appctl::Verb::DumpFlows { verbose: true, names: true, .. }), "{line}");
    }
    let argv = words("ovs-appctl netdev-dummy/receive p1 --qid 0 00 11 --len 60 22");
    let Ok(Command::Appctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
    let appctl::Verb::Receive { packets, .. } = call.verb else { panic!() };
    let lengths: Vec<Option<&str>> =
        packets.iter().map(|(_, len)| len.as_ref().map(|l| l.text.as_str())).collect();
    assert_eq!(lengths, [None, Some("60"), None]);
}

#[test]
fn every_unknown_word_is_named() {
    for (line, arg, message) in [
        ("ovs-foo bar", 0, "ovs-foo: unknown program: use ovs-vsctl, ovs-ofctl, ovs-appctl or ovs-dpctl"),
        ("ovs-vsctl", 1, "ovs-vsctl: missing command name"),
        ("ovs-vsctl foo", 1, "ovs-vsctl: unknown command 'foo'"),
        ("ovs-vsctl add-br br0 -- foo", 4, "ovs-vsctl: unknown command 'foo'"),
        ("ovs-vsctl --foo add-br br0", 1, "ovs-vsctl: unrecognized option '--foo'"),
        ("ovs-vsctl add-br", 2, "ovs-vsctl: 'add-br' command requires a bridge"),
        (
            "ovs-vsctl add-br a b",
            3,
            "ovs-vsctl: a fake bridge (add-br with a parent and VLAN) is not supported here",
        ),
        ("ovs-vsctl list-br x", 2, "ovs-vsctl: 'list-br' command takes no argument 'x'"),
        ("ovs-vsctl set foo p1 a=b", 2, "ovs-vsctl: unknown table \"foo\""),
        (
            "ovs-vsctl set Interface p1 foo=1",
            4,
            "ovs-vsctl: Interface does not contain a column whose name matches \"foo\"",
        ),
        (
            "ovs-vsctl set Interface p1 ofport_request=70000",
            4,
            "ovs-vsctl: constraint violation: 70000 is not in the valid range 1 to 65279 (inclusive)",
        ),
        (
            "ovs-vsctl set Port p1 vlan_mode=foo",
            4,
            "ovs-vsctl: \"foo\" is not one of the allowed values (access, \
          dot1q-tunnel, native-tagged, native-untagged, trunk)",
        ),
        (
            "ovs-vsctl set Interface p1 options:foo=1",
            4,
            "ovs-vsctl: Interface column options has no key \"foo\" that is known here",
        ),
        (
            "ovs-vsctl set Interface p1 ofport=1",
            4,
            "ovs-vsctl: cannot modify read-only column ofport in table Interface",
        ),
        (
            "ovs-vsctl set Bridge br0 stp_enable=true",
            4,
            "ovs-vsctl: Bridge column stp_enable other than its default is not supported here",
        ),
        ("ovs-vsctl create QoS type=linux-htb", 2, "ovs-vsctl: table QoS is not supported here"),
        ("ovs-vsctl -- --id=i create Port", 2, "ovs-vsctl: \"i\" is not a record name: it starts with @"),
        ("ovs-ofctl", 1, "ovs-ofctl: missing command name"),
        ("ovs-ofctl foo br0", 1, "ovs-ofctl: unknown command 'foo'"),
        ("ovs-ofctl snoop br0", 1, "ovs-ofctl: snoop is not supported here"),
        ("ovs-ofctl -O OpenFlow99 show br0", 1, "ovs-ofctl: Unknown OpenFlow version: \"OpenFlow99\""),
        ("ovs-ofctl -O", 1, "ovs-ofctl: option '-O' requires an argument"),
        ("ovs-ofctl add-flow br0", 3, "ovs-ofctl: 'add-flow' command requires a bridge and a flow"),
        ("ovs-ofctl add-flow br0 a b", 4, "ovs-ofctl: 'add-flow' command takes no argument 'b'"),
        ("ovs-appctl foo/bar", 1, "ovs-appctl: unknown command 'foo/bar'"),
        ("ovs-appctl bond/show", 1, "ovs-appctl: bond/show is not supported here"),
        ("ovs-appctl dpctl/foo", 1, "ovs-appctl: unknown command 'dpctl/foo'"),
        ("ovs-dpctl foo", 1, "ovs-dpctl: unknown command 'foo'"),
        (
            "ovs-dpctl add-flow in_port(1)",
            3,
            "ovs-dpctl: 'dpctl/add-flow' command requires a flow and actions",
        ),
        ("ovs-appctl dpctl/dump-flows --foo", 2, "ovs-appctl: unrecognized option '--foo'"),
        ("ovs-appctl ofproto/trace br0 in_port=1 --foo", 4, "ovs-appctl: unrecognized option '--foo'"),
    ] {
        let argv = words(line);
        let error = parse(&argv).expect_err(line);
        assert_eq!((error.to_string().as_str(), error.arg), (message, arg), "{line}");
    }
}

#[test]
fn tables_and_columns_may_be_cut_short() {
    let argv = words("ovs-vsctl set int p1 mtu-req=1400");
    let Ok(Command::Vsctl(call)) = parse(&argv) else { panic!("{:?}", parse(&argv)) };
    let vsctl::Verb::Set(record, settings) = &call.commands[0].verb else { panic!() };
    assert_eq!((record.table, settings[0].column.name), (schema::Table::Interface, "mtu_request"));
}

proptest::proptest! {
    #[test]
    fn nothing_panics(
        program in proptest::sample::select(vec!["ovs-vsctl", "ovs-ofctl", "ovs-appctl", "ovs-dpctl"]),
        command in proptest::sample::select(vec!["set", "get", "add", "add-flow", "dump-flows", "ofproto/trace", "create",
            "dpctl/add-flow", "add-port", "--", "-O", "netdev-dummy/receive", "find", "clear"]),
        rest in proptest::collection::vec("[ -~é]{0,12}", 0..6),
        table in proptest::sample::select(vec!["Bridge", "Port", "x", "."]),
    ) {
        let mut argv = vec![program, command, table];
        argv.extend(rest.iter().map(String::as_str));
        let _ = parse(&argv);
    }
}
