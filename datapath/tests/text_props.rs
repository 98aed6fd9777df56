//! What is printed of any flow and any actions is read back to the same; and no text makes a parser panic.

mod text_props {
    pub mod actions;
    pub mod chance;
    pub mod flows;
}

use datapath::action::text::{DumpText, canonical_flow, format_actions, parse_actions, parse_dump};
use datapath::flow::text::{AnyNames, FlowSyntax, parse_flow, parse_key};
use proptest::prelude::*;
use text_props::{actions, chance, flows};

/// Words that both languages are made of, to get deeper into the parsers than chance alone does.
const WORDS: [&str; 64] = [
    "in_port(",
    "recirc_id(",
    "tunnel(",
    "eth(",
    "eth_type(",
    "vlan(",
    "encap(",
    "ipv4(",
    "ipv6(",
    "tcp(",
    "tcp_flags(",
    "udp(",
    "icmpv6(",
    "nd(",
    "nd_ext(",
    "mpls(",
    "nsh(",
    "ct_state(",
    "ct_label(",
    "packet_type(",
    "geneve({",
    "vxlan(gbp(",
    "erspan(",
    "gtpu(",
    "flags(",
    "class=",
    "len=",
    "src=",
    "dst=",
    "proto=",
    "frag=",
    "ttl=",
    "label=",
    "bos=",
    "id=",
    "ver=",
    "0x",
    "1",
    "255",
    "::1",
    "10.0.0.1",
    "02:00:00:00:00:01",
    "+trk",
    "-new",
    "|",
    "/",
    ")",
    "))",
    ",",
    " ",
    "set(",
    "clone(",
    "sample(sample=",
    "%,actions(",
    "check_pkt_len(size=",
    "gt(",
    "le(",
    "ct(",
    "nat(",
    "userspace(pid=",
    "userdata(",
    "tnl_push(tnl_port(",
    "drop",
    "ufid:",
];

fn soup() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        8 => proptest::sample::select(WORDS.as_slice()).prop_map(str::to_owned),
        1 => "\\PC{0,3}",
    ];
    proptest::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

/// Parses in every way, with and without names, and prints what was accepted.
fn parse_all(text: &str) {
    let names = AnyNames::default();
    let _ = parse_flow(text, None);
    let _ = parse_flow(text, Some(&names));
    let _ = parse_key(text, None);
    let _ = FlowSyntax::new(None).vlan_limit(1).flow(text);
    for verbose in [false, true] {
        // Of attributes that are wildcarded, as `ipv4()`, nothing may be left.
        if let Ok(canonical) = canonical_flow(text, Some(&names), verbose)
            && !canonical.is_empty()
            && !canonical.starts_with(", ")
        {
            assert_eq!(canonical_flow(&canonical, Some(&names), verbose), Ok(canonical));
        }
    }
    if let Ok(line) = parse_dump(text, None, 2) {
        let _ = DumpText::new(&line.flow.key, &line.flow.mask, &line.actions).to_string();
    }
    if let Ok(actions) = parse_actions(text, None) {
        let printed = format_actions(&actions, None).to_string();
        let again = parse_actions(&printed, None).map(|actions| format_actions(&actions, None).to_string());
        assert_eq!(again.as_deref(), Ok(printed.as_str()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn flows_are_read_back(words in chance::words()) {
        let (key, mask) = flows::flow(&mut chance::Chance::new(&words));
        for verbose in [true, false] {
            let line = DumpText { verbose, ..DumpText::new(&key, &mask, &[]) }.to_string();
            let again = parse_dump(&line, None, 2);
            let again = again.map_err(|error| TestCaseError::fail(format!("{line}: {error}")))?.flow;
            prop_assert!(again.mask == mask, "{}\n{}", line, flows::difference(&again.mask, &mask));
            let (ours, theirs) = (again.key.masked(&mask), key.masked(&mask));
            prop_assert!(ours == theirs, "{}\n{}", line, flows::difference(&ours, &theirs));
        }
    }

    #[test]
    fn actions_are_read_back(words in chance::words()) {
        let actions = actions::list(&mut chance::Chance::new(&words), 0);
        let text = format_actions(&actions, None).to_string();
        let again = parse_actions(&text, None);
        let again = again.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert!(again[..] == actions[..], "{} became {}", text, format_actions(&again, None));
    }

    #[test]
    fn no_text_panics(text in soup()) {
        parse_all(&text);
    }

    #[test]
    fn no_characters_panic(text in "\\PC{0,40}") {
        parse_all(&text);
    }
}

#[test]
fn long_and_deep_text_is_refused_not_followed() {
    for text in [
        "clone(",
        "encap(",
        "sample(sample=1%,actions(",
        "tunnel(",
        "ct(nat(",
        "1,",
        "pop_vlan,",
        "((((",
        "\u{e9}",
    ] {
        parse_all(&text.repeat(20_000));
    }
}
