//! Datapath actions as text, cut at their commas.

use std::collections::{BTreeMap, BTreeSet};

/// The actions of a list, cut at the commas that are not within parentheses.
pub fn split(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(&text[start..]);
    out
}

/// Calls `id` for each `recirc(ID)`, also nested ones, and puts what it returns in its place.
fn replace_ids(text: &str, mut id: impl FnMut(u32) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("recirc(") {
        let (before, from) = rest.split_at(at + "recirc(".len());
        out.push_str(before);
        let end = from.find(')').unwrap_or(from.len());
        let number = from[..end]
            .strip_prefix("0x")
            .map_or_else(|| from[..end].parse().ok(), |hex| u32::from_str_radix(hex, 16).ok());
        match number {
            Some(number) => out.push_str(&id(number)),
            None => out.push_str(&from[..end]),
        }
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// The recirculation ids that a list mentions, in order.
pub fn recirculates_to(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    replace_ids(text, |id| {
        ids.push(id);
        String::new()
    });
    ids
}

/// A list without its recirculation ids.
pub fn without_ids(text: &str) -> String {
    replace_ids(text, |_| String::new())
}

/// A list with other recirculation ids.
pub fn renumbered(text: &str, ids: &BTreeMap<u32, u32>) -> String {
    replace_ids(text, |id| ids.get(&id).map_or_else(|| format!("{id:#x}"), |id| format!("{id:#x}")))
}

/// Whether two lists do the same but for the order of a flood: what leaves by each port, and with which changes made before.
pub fn same_effect(a: &str, b: &str) -> bool {
    a == b || effects(a) == effects(b)
}

/// Each output with what was done to the packet before it. A tag that is pushed and popped again is no change.
fn effects(text: &str) -> (BTreeSet<(Vec<&str>, &str)>, usize) {
    let mut changes: Vec<&str> = Vec::new();
    let mut outputs = BTreeSet::new();
    let mut count = 0;
    for action in split(text) {
        let is_change =
            action.contains('(') || action.starts_with("pop_") || action == "ct_clear" || action == "drop";
        if !is_change {
            outputs.insert((changes.clone(), action));
            count += 1;
        } else if action == "pop_vlan" && changes.last().is_some_and(|last| last.starts_with("push_vlan(")) {
            changes.pop();
        } else {
            changes.push(action);
        }
    }
    (outputs, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_at_their_own_commas() {
        assert_eq!(split("p1,set(ipv4(src=1.1.1.1,ttl=3)),p2"), ["p1", "set(ipv4(src=1.1.1.1,ttl=3))", "p2"]);
    }

    #[test]
    fn floods_have_no_order() {
        assert!(same_effect("p1,p2,push_vlan(vid=3,pcp=0),p3", "p2,p1,push_vlan(vid=3,pcp=0),p3"));
        assert!(same_effect("push_vlan(vid=3,pcp=0),p3,pop_vlan,p1", "p1,push_vlan(vid=3,pcp=0),p3"));
        assert!(!same_effect("p1,push_vlan(vid=3,pcp=0),p2", "push_vlan(vid=3,pcp=0),p2,p1"));
        assert!(!same_effect("p1,p1", "p1"), "twice is not once");
        assert!(!same_effect("pop_vlan,p1", "p1"));
    }

    #[test]
    fn ids_are_found_and_replaced() {
        let text = "clone(recirc(0x2)),recirc(3)";
        assert_eq!(recirculates_to(text), [2, 3]);
        assert_eq!(renumbered(text, &BTreeMap::from([(2, 7), (3, 8)])), "clone(recirc(0x7)),recirc(0x8)");
    }
}
