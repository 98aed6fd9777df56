//! Where two runs differ, and how to say so.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use datapath::types::Time;

use super::actions::same_effect;
use super::flows::canonical;
use super::record::{Frame, Input, What};
use super::replay::Answer;
use crate::ui::decode::{self, Change, Layer};

/// Bytes of a frame that are printed around the first that differs.
const AROUND: usize = 24;

/// Where a difference was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In what left because of an input.
    Input {
        /// Number of the input, from 0.
        index: usize,
        /// When it came.
        time: Time,
        /// What it was, in a few words.
        what: String,
    },
    /// Among the datapath flows at the end.
    Flows,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub place: Place,
    /// What differs, in a line.
    pub what: String,
    /// Explanation, lines for people.
    pub detail: String,
    /// The frames that differ, Open vSwitch's first, if it is that.
    pub frames: Option<[Vec<u8>; 2]>,
}

fn by_port(frames: &[Frame]) -> BTreeMap<&str, Vec<&[u8]>> {
    let mut ports: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
    for (port, frame) in frames {
        ports.entry(port).or_default().push(frame);
    }
    ports
}

/// Compares what left because of an input: the frames of each port, byte by byte and in order.
pub fn outputs(index: usize, input: &Input, answer: &Answer) -> Option<Difference> {
    let (ours, theirs) = (by_port(&input.out), by_port(&answer.out));
    let place = || Place::Input { index, time: input.time, what: what(&input.what) };
    let none = Vec::new();
    let ports: std::collections::BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    for port in ports {
        let (our, their) = (ours.get(port).unwrap_or(&none), theirs.get(port).unwrap_or(&none));
        if our == their {
            continue;
        }
        let (what, detail, frames) = if our.len() == their.len() {
            let at = our.iter().zip(their).position(|(a, b)| a != b).unwrap_or(0);
            let what = format!("frame {} of {} on port {port} differs", at + 1, our.len());
            (what, explain(their[at], our[at]), Some([their[at].to_vec(), our[at].to_vec()]))
        } else {
            let frames =
                |count: usize| if count == 1 { "1 frame".to_owned() } else { format!("{count} frames") };
            let what = format!(
                "port {port}: {} from Open vSwitch, {} from recirc",
                frames(their.len()),
                frames(our.len())
            );
            let more = if our.len() > their.len() { our } else { their };
            let extra =
                more.iter().find(|frame| !our.contains(frame) || !their.contains(frame)).or(more.last());
            (
                what,
                extra.map_or_else(String::new, |frame| {
                    format!("one of them: {}\n", summary(&decode::layers(frame)))
                }),
                None,
            )
        };
        return Some(Difference { place: place(), what, detail, frames });
    }
    let What::Command { argv, text } = &input.what else { return None };
    if answer.refused {
        let detail = format!("Open vSwitch: {}\nrecirc:       {}\n", answer.text.trim(), text.trim());
        return Some(Difference {
            place: place(),
            what: "Open vSwitch refuses the command".to_owned(),
            detail,
            frames: None,
        });
    }
    // A trace is a text with one right answer; of other commands, ages and order differ from run to run.
    let is_trace = argv.iter().any(|word| word.starts_with("ofproto/trace"));
    if is_trace && text.trim() != answer.text.trim() {
        let lines = text.trim().lines().zip(answer.text.trim().lines());
        let first = lines.clone().find(|(a, b)| a != b);
        let detail = first.map_or_else(
            || "one text goes on where the other ends\n".to_owned(),
            |(ours, theirs)| format!("Open vSwitch: {theirs}\nrecirc:       {ours}\n"),
        );
        return Some(Difference {
            place: place(),
            what: "the trace differs".to_owned(),
            detail,
            frames: None,
        });
    }
    None
}

fn what(what: &What) -> String {
    match what {
        What::Frames(frames) => match frames.as_slice() {
            [(port, frame)] => format!("into {port}: {}", summary(&decode::layers(frame))),
            [(port, _), ..] => format!("{} frames into {port}", frames.len()),
            [] => "no frame".to_owned(),
        },
        What::Command { argv, .. } => argv.join(" "),
    }
}

fn summary(layers: &[Layer]) -> String {
    let names: Vec<&str> = layers.iter().map(|layer| layer.name).collect();
    names.join(" / ")
}

/// The layers of two frames where they differ, then the bytes around the first difference.
fn explain(theirs: &[u8], ours: &[u8]) -> String {
    let mut out = String::new();
    let (their_layers, our_layers) = (decode::layers(theirs), decode::layers(ours));
    let (changes, gone) = decode::compare(&their_layers, &our_layers);
    for name in gone {
        let _ = writeln!(out, "only Open vSwitch has {name}");
    }
    for (layer, (change, fields)) in our_layers.iter().zip(changes) {
        match change {
            Change::Same => {}
            Change::Added => {
                let _ = writeln!(out, "only recirc has {}", layer.name);
            }
            Change::Changed => {
                let old = their_layers.iter().find(|old| old.name == layer.name);
                for (field, change) in layer.fields.iter().zip(fields) {
                    if change == Change::Same {
                        continue;
                    }
                    let before = old.and_then(|old| old.fields.iter().find(|old| old.name == field.name));
                    let before = before.map_or("nothing", |field| field.value.as_str());
                    let _ = writeln!(
                        out,
                        "{}.{}: Open vSwitch {before}, recirc {}",
                        layer.name, field.name, field.value
                    );
                }
            }
        }
    }
    let at = theirs.iter().zip(ours).position(|(a, b)| a != b).unwrap_or(theirs.len().min(ours.len()));
    let _ = writeln!(
        out,
        "first at byte {at}; {} bytes from Open vSwitch, {} from recirc",
        theirs.len(),
        ours.len()
    );
    for (name, frame) in [("Open vSwitch", theirs), ("recirc", ours)] {
        let from = at.saturating_sub(AROUND / 3);
        let bytes = frame.iter().enumerate().skip(from).take(AROUND);
        let hex: String = bytes
            .map(|(i, byte)| if i == at { format!("[{byte:02x}]") } else { format!(" {byte:02x} ") })
            .collect();
        let _ = writeln!(out, "{name:>13} +{from}: {}", hex.trim_end());
    }
    out
}

/// Compares the datapath flows at the end, as sets.
pub fn flow_tables(ours: &[(String, String)], theirs: &[(String, String)]) -> Vec<Difference> {
    let (mut ours, mut theirs) = (canonical(ours), canonical(theirs));
    ours.retain(|flow| {
        let same = theirs
            .iter()
            .position(|other| other.key == flow.key && same_effect(&other.actions, &flow.actions));
        same.map(|index| theirs.remove(index)).is_none()
    });
    let difference = |what: &str, detail: String| Difference {
        place: Place::Flows,
        what: what.to_owned(),
        detail,
        frames: None,
    };
    let mut found = Vec::new();
    ours.retain(|flow| {
        let Some(index) = theirs.iter().position(|other| other.key == flow.key) else { return true };
        let other = theirs.remove(index);
        let detail = format!("Open vSwitch: {}\nrecirc:       {}\n", other.line, flow.line);
        found.push(difference("a flow has other actions", detail));
        false
    });
    let alike = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    ours.retain(|flow| {
        let same = theirs.iter().enumerate().filter(|(_, other)| other.actions == flow.actions);
        let nearest = same.max_by_key(|(_, other)| alike(&other.key, &flow.key));
        let Some(index) = nearest.map(|(index, _)| index) else { return true };
        let other = theirs.remove(index);
        let detail = format!("Open vSwitch: {}\nrecirc:       {}\n", other.line, flow.line);
        found.push(difference("a flow matches on something else", detail));
        false
    });
    found.extend(
        theirs.iter().map(|flow| difference("a flow that only Open vSwitch has", format!("{}\n", flow.line))),
    );
    found.extend(
        ours.iter().map(|flow| difference("a flow that only recirc has", format!("{}\n", flow.line))),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(out: &[(&str, &[u8])]) -> Input {
        let frames = |frames: &[(&str, &[u8])]| {
            frames.iter().map(|(port, frame)| ((*port).to_owned(), frame.to_vec())).collect()
        };
        Input { time: Time::ZERO, what: What::Frames(vec![("p1".into(), vec![0; 14])]), out: frames(out) }
    }

    fn answer(out: &[(&str, &[u8])]) -> Answer {
        Answer { out: input(out).out, ..Answer::default() }
    }

    const FRAME: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x81\0\0\x0a\x88\xb5hello";
    const OTHER: &[u8] = b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x81\0\0\x14\x88\xb5hello";

    #[test]
    fn the_same_frames_in_another_order_of_ports_are_the_same() {
        let ours = input(&[("p2", FRAME), ("p3", OTHER)]);
        assert_eq!(outputs(0, &ours, &answer(&[("p3", OTHER), ("p2", FRAME)])), None);
    }

    #[test]
    fn another_byte_is_told_with_its_field() {
        let found = outputs(4, &input(&[("p2", FRAME)]), &answer(&[("p2", OTHER)])).unwrap();
        assert_eq!(found.what, "frame 1 of 1 on port p2 differs");
        assert!(found.detail.contains("802.1Q.id: Open vSwitch 20, recirc 10"), "{}", found.detail);
        assert!(
            found.detail.contains("first at byte 15") && found.detail.contains("[14]"),
            "{}",
            found.detail
        );
        assert!(matches!(found.place, Place::Input { index: 4, .. }));
    }

    #[test]
    fn a_frame_too_many_is_told() {
        let found = outputs(0, &input(&[("p2", FRAME)]), &answer(&[])).unwrap();
        assert_eq!(found.what, "port p2: 0 frames from Open vSwitch, 1 frame from recirc");
    }

    #[test]
    fn flows_are_compared_as_sets() {
        let key = "recirc_id(0),in_port(p1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)";
        let wide = "recirc_id(0),in_port(p1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6,frag=no)";
        let flow = |key: &str, actions: &str| (key.to_owned(), actions.to_owned());
        assert_eq!(flow_tables(&[flow(key, "p1,p2")], &[flow(key, "p2,p1")]), []);
        let found = flow_tables(&[flow(key, "p1")], &[flow(key, "p2")]);
        assert_eq!(found[0].what, "a flow has other actions");
        let found = flow_tables(&[flow(key, "p1")], &[flow(wide, "p1")]);
        assert_eq!(found[0].what, "a flow matches on something else");
        assert_eq!(flow_tables(&[], &[flow(key, "p1")])[0].what, "a flow that only Open vSwitch has");
        assert_eq!(flow_tables(&[flow(key, "p1")], &[])[0].what, "a flow that only recirc has");
    }
}
