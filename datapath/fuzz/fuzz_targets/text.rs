//! Any text as a datapath flow, a line of a dump, and actions: no parser may panic, what is accepted is printed, and what is
//! printed is accepted and printed the same again.

#![no_main]

use datapath::action::text::{DumpText, canonical_flow, format_actions, parse_actions, parse_dump};
use datapath::flow::text::{AnyNames, FlowSyntax, format_flow};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let names = AnyNames::default();
    for verbose in [false, true] {
        let Ok(canonical) = canonical_flow(text, Some(&names), verbose) else { break };
        // Nothing is left of attributes that are wildcarded.
        if !canonical.is_empty() && !canonical.starts_with(", ") {
            assert_eq!(canonical_flow(&canonical, Some(&names), verbose).as_ref(), Ok(&canonical));
        }
    }
    for vlan_limit in [0, 1, 2] {
        let syntax = FlowSyntax::new(Some(&names)).vlan_limit(vlan_limit);
        if let Ok(key) = syntax.key(text) {
            let _ = format_flow(&key, None, None, true).vlan_limit(vlan_limit).nd_ext().to_string();
        }
        if let Ok(flow) = syntax.flow(text) {
            let _ = DumpText { vlan_limit, ..DumpText::new(&flow.key, &flow.mask, &[]) }.to_string();
        }
    }
    if let Ok(line) = parse_dump(text, Some(&names), 2) {
        let _ = DumpText { verbose: true, ..DumpText::new(&line.flow.key, &line.flow.mask, &line.actions) }
            .to_string();
    }
    if let Ok(actions) = parse_actions(text, Some(&names)) {
        let printed = format_actions(&actions, Some(&names)).to_string();
        let again = parse_actions(&printed, Some(&names));
        let again = again.map(|actions| format_actions(&actions, Some(&names)).to_string());
        assert_eq!(again.as_ref(), Ok(&printed));
    }
});
