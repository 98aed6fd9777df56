//! Datapath flow and action text against what Open vSwitch 4.0.90 printed (`tests/data/odp_*.txt`), and against itself:
//! what is printed is read back to the same.

use datapath::action::text::{
    DumpText, FlowStats, canonical_flow, format_actions, parse_actions, parse_dump,
};
use datapath::flow::relevant_fields;
use datapath::flow::text::{AnyNames, Fit, FlowSyntax, format_flow, parse_flow};

/// Lines and what is expected of them; `None` is an error.
fn table(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    std::iter::from_fn(move || {
        let input = lines.next()?;
        let output =
            lines.next().and_then(|line| line.strip_prefix("= ")).expect("an output behind each input");
        Some((input, (output != "error").then_some(output)))
    })
}

#[test]
fn flows_are_printed_as_ovs_prints_them() {
    for (input, output) in table(include_str!("data/odp_flows.txt")) {
        let ours = canonical_flow(input, None, false);
        assert_eq!(ours.as_deref().ok(), output, "{input}: {ours:?}");
    }
}

#[test]
fn actions_are_printed_as_ovs_prints_them() {
    for (input, output) in table(include_str!("data/odp_actions.txt")) {
        let ours = parse_actions(input, None);
        let printed = ours.as_ref().ok().map(|actions| format_actions(actions, None).to_string());
        assert_eq!(printed.as_deref(), output, "{input}: {:?}", ours.err());
        let Some(printed) = printed else { continue };
        let again = parse_actions(&printed, None).unwrap();
        assert_eq!(format_actions(&again, None).to_string(), printed);
    }
}

#[test]
fn keys_of_packets_are_those_of_ovs() {
    for (input, output) in table(include_str!("data/odp_keys.txt")) {
        let ours = FlowSyntax::new(None).fitted_key(input);
        let printed = ours.as_ref().ok().map(|(key, fit)| {
            let fit = match fit {
                None => "",
                Some(Fit::TooLittle) => "too little: ",
                Some(Fit::TooMuch | Fit::Error) => "too much: ",
            };
            // OVS's test leaves out what tells connections' original tuples.
            format!("{fit}{}", format_flow(key, None, None, true).nd_ext())
        });
        assert_eq!(printed.as_deref(), output, "{input}: {:?}", ours.err());
    }
}

#[test]
fn added_flows_are_dumped_as_ovs_dumps_them() {
    for (input, output) in table(include_str!("data/odp_dumps.txt")) {
        let ours = parse_flow(input, None);
        let printed = ours.as_ref().ok().map(|flow| {
            // What installing a flow does to its mask.
            let mut mask = flow.mask.masked(&relevant_fields(&flow.key));
            if mask.vlans[0].tci.get() == 0 {
                mask.vlans[0].tci.set(0x1fff);
            }
            let dump = DumpText { ufid: flow.ufid, verbose: true, ..DumpText::new(&flow.key, &mask, &[]) };
            dump.to_string()
        });
        assert_eq!(printed.as_deref(), output, "{input}: {:?}", ours.err());
    }
}

#[test]
fn dumps_of_ovs_are_read_and_printed_again() {
    for (_, line) in table(include_str!("data/odp_dumps.txt")) {
        let Some(line) = line else { continue };
        assert_eq!(canonical_flow(line, None, true).as_deref(), Ok(line));
        let dump = parse_dump(line, None, 2).unwrap();
        assert_eq!(dump.stats, FlowStats::default());
        let short = DumpText::new(&dump.flow.key, &dump.flow.mask, &dump.actions).to_string();
        let again = parse_dump(&short, None, 2).unwrap();
        // The short form has the same mask, and of the key what the mask looks at.
        assert_eq!(again.flow.mask, dump.flow.mask, "{short}");
        assert_eq!(again.flow.key.masked(&again.flow.mask), dump.flow.key.masked(&dump.flow.mask), "{short}");
    }
}

#[test]
fn dumps_with_names_and_statistics_are_read() {
    let line = "recirc_id(0x2),in_port(p1),ct_state(+new-est+trk),packet_type(ns=0,id=0),eth_type(0x0800),\
                ipv4(proto=6,frag=no), packets:3, bytes:180, used:5.012s, flags:SFP., dp:ovs, \
                actions:ct(commit,zone=5,nat(src=192.0.2.1:5000)),p2,br-int, dp-extra-info:miniflow_bits(2,3)";
    let names = AnyNames::default();
    assert_eq!(canonical_flow(line, Some(&names), false).as_deref(), Ok(line));
    let dump = parse_dump(line, Some(&names), 2).unwrap();
    let stats = FlowStats { packets: 3, bytes: 180, used_ms: Some(5012), tcp_flags: 0x1b };
    assert_eq!((dump.stats, dump.actions.len()), (stats, 3));
    // It is an Ethernet flow, although `eth()` is not printed.
    assert_eq!(dump.flow.key.packet_type.get(), 0);
    assert_eq!(dump.flow.mask.packet_type.get(), u32::MAX);
}

#[test]
fn what_a_dump_line_lacks_is_said() {
    for (line, error) in [
        ("in_port(1),eth(), packets:x", "at byte 26: expected a number, found `x`"),
        (
            "in_port(1),eth(), packets:0, used:1",
            "at byte 34: expected `never`, or seconds such as `1.250s`, found `1`",
        ),
        (
            "in_port(1),eth(), packets:0, flags:xyz",
            "at byte 35: expected TCP flags such as `S.`, found `xyz`",
        ),
        ("in_port(1),eth(), packets:0", "at byte 27: expected `actions:`, found the end"),
        ("in_port(1),eth(), actions:2,foo(1)", "at byte 28: expected an action, or a port, found `foo`"),
        ("in_port(1),eth(), actions:2, tail:1", "at byte 29: expected an action, or a port, found `tail:1`"),
    ] {
        let found = parse_dump(line, None, 2).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(found, Err(error.to_owned()), "{line}");
    }
}
