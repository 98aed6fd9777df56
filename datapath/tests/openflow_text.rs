//! Rules and groups against what Open vSwitch 4.0.90 made of them.
//!
//! `data/openflow.txt` has, for each rule, the line that `ovs-ofctl --no-stats dump-flows` printed when it had been added to
//! a bridge with that OpenFlow version, or the message with which ovs-ofctl refused it; for each group the same of
//! `dump-groups`.

use datapath::openflow::flow_mod::FlowModFlags;
use datapath::openflow::group::GroupProps;
use datapath::openflow::protocol::OfVersion;
use datapath::openflow::text::{
    NoNames, RuleText, TextError, group_to_text, parse_flow_mod, parse_group_mod,
};
use datapath::openflow::wire::{received, received_match};
use datapath::openflow::{Bucket, FlowModCommand, GroupModCommand, Match};

/// The line of a rule, as a switch that got it in a message of `version` shows it in such messages.
fn rule_as_seen(line: &str, version: OfVersion) -> Result<String, TextError> {
    let mut parsed = parse_flow_mod(line, FlowModCommand::Add, &NoNames)?;
    assert!(parsed.protocols.intersects(version.protocols()), "{line}: not with {version:?}");
    let rule = &mut parsed.flow_mod;
    rule.actions = received(version, &rule.actions, &rule.rule_match).expect("the switch takes it");
    rule.rule_match = received_match(version, &rule.rule_match);
    // Statistics have flags since OpenFlow 1.3, and importance since 1.4; the first versions always reset counters.
    if version < OfVersion::Of13 {
        rule.flags = FlowModFlags::default();
    }
    if version < OfVersion::Of14 {
        rule.importance = 0;
    }
    Ok(RuleText::of(rule).to_text(None, &NoNames))
}

fn group_as_seen(line: &str, version: OfVersion) -> Result<String, TextError> {
    let group = parse_group_mod(line, GroupModCommand::Add, &NoNames)?;
    let seen = |b: &Bucket| {
        let actions = received(version, &b.actions, &Match::catch_all()).expect("the switch takes it");
        Bucket { actions, ..b.clone() }
    };
    let buckets: Vec<Bucket> = group.buckets.iter().map(seen).collect();
    // OpenFlow 1.5 has numbers of buckets and properties of groups, and OVS gives them to 1.0 too.
    let full = matches!(version, OfVersion::Of10 | OfVersion::Of15);
    let props = if full { group.props.clone() } else { GroupProps::default() };
    Ok(group_to_text(group.group_id, group.kind, &buckets, &props, full, &NoNames))
}

#[test]
fn rules_and_groups_are_written_as_open_vswitch_does() {
    let data = include_str!("data/openflow.txt");
    let (mut what, mut line, mut compared) = ("", "", 0);
    let mut wrong = Vec::new();
    for entry in data.lines() {
        let (key, text) = entry.split_once(' ').unwrap_or((entry, ""));
        if key.is_empty() {
            continue;
        }
        if matches!(key, "rule" | "group") {
            (what, line) = (key, text);
            continue;
        }
        let version = OfVersion::from_name(key).unwrap_or(OfVersion::Of15);
        let seen = match what {
            "group" => group_as_seen(line, version),
            _ => rule_as_seen(line, version),
        };
        let seen = match seen {
            Ok(seen) if key != "error" => seen,
            Ok(seen) => format!("no error, but {seen}"),
            Err(error) => {
                let rest = line.get(error.offset..).unwrap_or_default();
                assert!(rest.starts_with(&error.word), "{line}: {error:?}");
                error.to_string()
            }
        };
        if seen != text {
            wrong.push(format!("{line}\n  {key:<10} {text}\n  here       {seen}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 800, "only {compared} comparisons");
}
