//! One form for datapath flows of different datapaths: values under their masks, recirculation ids counted from the start.

use std::collections::BTreeMap;

use datapath::flow::Flow;
use datapath::flow::text::{AnyNames, format_flow, parse_flow};

use super::actions;

/// A datapath flow in that form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CanonicalFlow {
    /// What it matches.
    pub key: String,
    /// What it does.
    pub actions: String,
    /// The line that it was read from.
    pub line: String,
}

/// A flow as it was read.
struct Read {
    recirc_id: u32,
    /// Key without the recirculation id.
    key: String,
    actions: String,
}

/// Brings flows into that form, sorted. A line that cannot be read stays as it is.
pub fn canonical(flows: &[(String, String)]) -> Vec<CanonicalFlow> {
    let names = AnyNames::default();
    let read: Vec<Read> = flows.iter().map(|(key, actions)| read(key, actions, &names)).collect();
    let ids = number(&read);
    let mut out: Vec<CanonicalFlow> = read
        .iter()
        .zip(flows)
        .map(|(flow, (key, actions))| {
            let id = ids.get(&flow.recirc_id).map_or("?".to_owned(), ToString::to_string);
            CanonicalFlow {
                key: format!("recirc_id({id}),{}", flow.key),
                actions: actions::renumbered(&flow.actions, &ids),
                line: format!("{key} actions:{actions}"),
            }
        })
        .collect();
    out.sort();
    out
}

fn read(key: &str, actions: &str, names: &AnyNames) -> Read {
    let Ok(parsed) = parse_flow(key, Some(names)) else { return read_loosely(key, actions) };
    let recirc_id = parsed.key.recirc_id;
    let mut masked: Flow = parsed.key;
    masked.words_mut().iter_mut().zip(parsed.mask.words()).for_each(|(word, mask)| *word &= mask);
    // The Ethernet type says which attributes there are; the rest follows from the mask.
    masked.recirc_id = 0;
    let text = format_flow(&masked, Some(&parsed.mask), Some(names), false).to_string();
    let text = text.strip_prefix("recirc_id(0),").map_or(text.as_str(), |rest| rest).to_owned();
    Read { recirc_id, key: text, actions: actions.to_owned() }
}

/// A flow whose key cannot be added as it is printed (a protocol without what it has): its attributes in one order.
fn read_loosely(key: &str, actions: &str) -> Read {
    let mut attributes = actions::split(key);
    let mut recirc_id = 0;
    attributes.retain(|attribute| {
        let Some(id) = attribute.strip_prefix("recirc_id(").and_then(|rest| rest.strip_suffix(')')) else {
            return true;
        };
        let hex = id.strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16));
        recirc_id = hex.unwrap_or_else(|| id.parse()).unwrap_or(0);
        false
    });
    attributes.sort_unstable();
    Read { recirc_id, key: attributes.join(","), actions: actions.to_owned() }
}

/// New numbers for recirculation ids: in the order in which they are met from id 0 on, flow by flow in order of keys.
fn number(flows: &[Read]) -> BTreeMap<u32, u32> {
    let mut ids = BTreeMap::from([(0, 0)]);
    let mut frontier = vec![0];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for id in frontier {
            let mut from: Vec<&Read> = flows.iter().filter(|flow| flow.recirc_id == id).collect();
            from.sort_by_key(|flow| (&flow.key, actions::without_ids(&flow.actions)));
            for target in from.iter().flat_map(|flow| actions::recirculates_to(&flow.actions)) {
                let fresh = ids.len() as u32;
                if let std::collections::btree_map::Entry::Vacant(entry) = ids.entry(target) {
                    entry.insert(fresh);
                    next.push(target);
                }
            }
        }
        frontier = next;
    }
    ids
}

#[cfg(test)]
mod tests {
    fn canonical(flows: &[(String, String)]) -> Vec<(String, String)> {
        super::canonical(flows).into_iter().map(|flow| (flow.key, flow.actions)).collect()
    }

    fn flow(key: &str, actions: &str) -> (String, String) {
        (key.to_owned(), actions.to_owned())
    }

    #[test]
    fn first_packets_and_ids_do_not_matter() {
        let key = |id, last| {
            format!(
                "recirc_id({id}),in_port(p1),packet_type(ns=0,id=0),eth(src=00:00:00:00:00:0{last}/ff:ff:ff:ff:ff:00),eth_type(0x0800),ipv4(frag=no)"
            )
        };
        let ours = canonical(&[flow(&key("0", 1), "recirc(0x5)"), flow(&key("0x5", 1), "p2")]);
        let theirs = canonical(&[flow(&key("0x1f", 7), "p2"), flow(&key("0", 9), "recirc(0x1f)")]);
        assert_eq!(ours, theirs);
        assert!(ours.iter().any(|flow| flow.1 == "recirc(0x1)"), "{ours:?}");
        let other = canonical(&[flow(&key("0", 1), "recirc(0x5)"), flow(&key("0x5", 1), "p3")]);
        assert_ne!(ours, other);
    }

    #[test]
    fn keys_that_cannot_be_added_again_are_compared_too() {
        let key = |ct: &str, id: &str| {
            format!("{ct}recirc_id({id}),in_port(p1),eth_type(0x0800),ipv4(proto=17,frag=no)")
        };
        let first = "recirc_id(0),in_port(p1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)";
        let ours = canonical(&[flow(&key("", "0x1"), "p2"), flow(first, "recirc(0x1)")]);
        let theirs = canonical(&[flow(first, "recirc(0x9)"), flow(&key("", "0x9"), "p2")]);
        assert_eq!(ours, theirs);
        assert_ne!(
            ours,
            canonical(&[flow(&key("ct_state(+trk),", "0x1"), "p2"), flow(first, "recirc(0x1)")])
        );
    }

    #[test]
    fn the_order_in_which_versions_print_attributes_does_not_matter() {
        let a = canonical(&[flow(
            "ct_state(+trk),recirc_id(0),in_port(p1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)",
            "p2",
        )]);
        let b = canonical(&[flow(
            "recirc_id(0),in_port(p1),ct_state(+trk),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)",
            "p2",
        )]);
        assert_eq!(a, b);
    }
}
