//! `[[step]]`.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datapath::stats::DropReason;
use datapath::types::{Span, Time};

use super::parse::{address, block, ends, list, patches, place, time};
use super::reader::{Fields, Value};
use super::{
    Expect, ExpectCounters, ExpectFlow, ExpectGolden, HostCounter, HostExpect, Line, LinkStep, LinkWhich,
    Ping, Place, Replay, Send, SendWhat, Step, StepAction, SwitchCounter, Tcp, Udp, frame_range,
};
use crate::capture::{Pacing, Ratio};
use crate::diagnostic::Diagnostic;
use crate::quantity;

/// Longest frame that can be sent, in bytes: the largest IPv4 datagram with two tags around it fits.
pub(super) const MAX_FRAME: usize = 65_557;
/// Most repetitions of anything.
const MAX_COUNT: u64 = u32::MAX as u64;

const KINDS: [&str; 11] = [
    "send",
    "replay",
    "ovs",
    "ping",
    "udp",
    "tcp",
    "link",
    "expect",
    "expect-flow",
    "expect-counters",
    "expect-golden",
];

pub(super) fn steps(fields: &mut Fields<'_>, folder: &Path) -> Vec<Step> {
    let mut at = Time::ZERO;
    list(fields, "step", |value| step(value, folder, &mut at))
}

fn step(value: &Value<'_>, folder: &Path, at: &mut Time) -> Option<Step> {
    let mut fields = value.table("[[step]]")?;
    if let Some(value) = fields.take("at")
        && let Some(time) = time(&value)
    {
        *at = time;
    }
    let mut chosen: Option<(Value<'_>, Option<StepAction>)> = None;
    for kind in KINDS {
        let Some(value) = fields.take(kind) else { continue };
        if let Some((first, _)) = &chosen {
            let message = format!("a step does one thing: this one has `{}` and `{kind}`", first.key);
            value.cx.error(Diagnostic::new(value.key_span(), message).help("make a second [[step]] of it"));
            continue;
        }
        let action = action(kind, &value, folder);
        chosen = Some((value, action));
    }
    fields.finish();
    let Some((_, action)) = chosen else {
        let error = Diagnostic::new(value.span(), "this step does nothing");
        value.cx.error(error.help(format!("give it one of {}", KINDS.join(", "))));
        return None;
    };
    Some(Step { at: *at, action: action?, span: value.span() })
}

fn action(kind: &str, value: &Value<'_>, folder: &Path) -> Option<StepAction> {
    Some(match kind {
        "send" => StepAction::Send(send(value, folder)?),
        "replay" => StepAction::Replay(replay(value, folder)?),
        "ovs" => StepAction::Ovs(block(value)?),
        "ping" => StepAction::Ping(ping(value)?),
        "udp" => StepAction::Udp(udp(value)?),
        "tcp" => StepAction::Tcp(tcp(value)?),
        "link" => StepAction::Link(Box::new(link(value)?)),
        "expect" => StepAction::Expect(expect(value)?),
        "expect-flow" => StepAction::ExpectFlow(expect_flow(value)?),
        "expect-counters" => StepAction::ExpectCounters(expect_counters(value)?),
        "expect-golden" => StepAction::ExpectGolden(expect_golden(value, folder)?),
        _ => return None,
    })
}

fn path(value: &Value<'_>, folder: &Path) -> Option<PathBuf> {
    let text = value.string()?;
    if text.is_empty() || text.contains('\0') {
        value.cx.error(value.error(format!("`{}` is no path", value.key)));
        return None;
    }
    Some(folder.join(text))
}

fn count(fields: &mut Fields<'_>, name: &'static str, default: u32) -> u32 {
    fields.take(name).and_then(|value| value.integer(1, MAX_COUNT)).map_or(default, |count| count as u32)
}

fn span(fields: &mut Fields<'_>, name: &'static str, default: Span) -> Span {
    fields.take(name).and_then(|value| value.quantity(quantity::time, "a time")).unwrap_or(default)
}

fn send(value: &Value<'_>, folder: &Path) -> Option<Send> {
    let mut fields = value.table("`send`")?;
    let on = fields.take("on");
    let from = fields.take("from");
    let place = match (on, from) {
        (Some(on), None) => place(&on).filter(|place| is_port(&on, place)),
        (None, Some(from)) => place(&from).filter(|place| is_host(&from, place)),
        (Some(_), Some(from)) => {
            from.cx.error(Diagnostic::new(from.key_span(), "`send` has both `on` and `from`"));
            None
        }
        (None, None) => {
            let help = "send.on = \"s1:1\" (as if it arrived at that port) or send.from = \"h1\"";
            fields.cx().error(Diagnostic::new(fields.span(), "`send` lacks `on` or `from`").help(help));
            None
        }
    };
    let (hex, frame) = (fields.take("hex"), fields.take("frame"));
    let (flow, pcap, len) = (fields.take("flow"), fields.take("pcap"), fields.take("len"));
    let given: Vec<Value<'_>> = [hex, frame, flow, pcap].into_iter().flatten().collect();
    let help = "one of send.hex, send.frame, send.flow, send.pcap";
    match given.as_slice() {
        [_] => {}
        [] => fields.cx().error(Diagnostic::new(fields.span(), "`send` does not say what").help(help)),
        [_, second, ..] => {
            let message = "`send` says twice what to send";
            second.cx.error(Diagnostic::new(second.key_span(), message).help(help));
        }
    }
    let what = if let Some(hex) = hex {
        frames(&hex, |value| parse_hex(value).map(|frame| vec![frame]))
    } else if let Some(frame) = frame {
        frames(&frame, parse_frames)
    } else if let Some(flow) = flow {
        let flows = flow.one_or_more().iter().filter_map(Value::string).map(str::to_owned).collect();
        let len = len.and_then(|value| value.integer(14, MAX_FRAME as u64)).map(|len| len as u32);
        if place.as_ref().is_some_and(|place| place.port.is_none()) {
            let message = "`send.flow` needs `send.on`: it is a packet with metadata, which no host can send";
            flow.cx.error(Diagnostic::new(flow.key_span(), message));
        }
        Some(SendWhat::Flows { flows, len })
    } else {
        pcap.and_then(|pcap| path(&pcap, folder)).map(SendWhat::Pcap)
    };
    if let (Some(len), None) = (len, flow) {
        len.cx.error(Diagnostic::new(len.key_span(), "`send.len` goes with `send.flow` only"));
    }
    let (count, gap) = (count(&mut fields, "count", 1), span(&mut fields, "gap", Span::ZERO));
    let span = value.key_span();
    fields.finish();
    Some(Send { place: place?, what: what?, count, gap, span })
}

fn is_port(value: &Value<'_>, place: &Place) -> bool {
    if place.port.is_none() {
        let message = format!("`on` needs a switch's port, and {place} is none");
        value.cx.error(value.error(message).help(format!("such as \"{place}:1\", or send.from for a host")));
    }
    place.port.is_some()
}

fn is_host(value: &Value<'_>, place: &Place) -> bool {
    if place.port.is_some() {
        let message = format!("`from` needs a host, and {place} is a switch's port");
        value.cx.error(value.error(message).help("send.on sends as if a frame had arrived at a port"));
    }
    place.port.is_none()
}

fn frames(value: &Value<'_>, parse: impl Fn(&Value<'_>) -> Option<Vec<Arc<[u8]>>>) -> Option<SendWhat> {
    let items: Vec<_> = value.one_or_more().iter().map(parse).collect();
    let frames: Option<Vec<_>> = items.into_iter().collect();
    Some(SendWhat::Frames(frames?.concat()))
}

/// Bytes in hexadecimal; white space between them does not count.
pub(super) fn parse_hex(value: &Value<'_>) -> Option<Arc<[u8]>> {
    let text = value.string()?;
    let mut digits = Vec::with_capacity(text.len());
    for (offset, c) in text.char_indices() {
        match c.to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None if c.is_whitespace() => {}
            None => {
                let error = Diagnostic::new(
                    value.part_span(offset..offset + c.len_utf8()),
                    format!("{c:?} is no hexadecimal digit"),
                );
                value.cx.error(error);
                return None;
            }
        }
    }
    if digits.len() % 2 != 0 {
        value.cx.error(value.error(format!("an odd number of hexadecimal digits: {}", digits.len())));
        return None;
    }
    if digits.len() / 2 > MAX_FRAME {
        value.cx.error(value.error(format!("{} bytes are too many: at most {MAX_FRAME}", digits.len() / 2)));
        return None;
    }
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn parse_frames(value: &Value<'_>) -> Option<Vec<Arc<[u8]>>> {
    let text = value.string()?;
    match frame_range::parse_all(text) {
        Ok(frames) => Some(frames.into_iter().map(Arc::from).collect()),
        Err(error) => {
            let diagnostic = Diagnostic::new(value.part_span(error.span.clone()), error.to_string());
            value.cx.error(match error.help() {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
            None
        }
    }
}

fn replay(value: &Value<'_>, folder: &Path) -> Option<Replay> {
    let mut fields = value.table("`replay`")?;
    let on = fields.take("on").and_then(|value| place(&value));
    let pcap = fields.require("pcap", "the capture to replay").and_then(|value| path(&value, folder));
    let filter = fields.take("filter").and_then(|value| line(&value));
    let help = "as captured: \"1x\"; or \"10x\", \"1000pps\", \"topspeed\"";
    let speed = fields.take("speed").map_or(Some(Pacing::Speed(Ratio::ONE)), |value| value.parsed(help));
    let times = count(&mut fields, "loop", 1);
    let mut map = Vec::new();
    let mapped = fields.take("map");
    if let Some(mut table) = mapped.and_then(|value| value.table("`replay.map`")) {
        for entry in table.rest() {
            map.extend(place(&entry).map(|place| (entry.key.to_owned(), place)));
        }
    }
    if on.is_none() && mapped.is_none() {
        let help = "replay.on = \"h1\" or \"s1:1\", or replay.map = { eth0 = \"s1:1\", eth1 = \"s1:2\" }";
        fields.cx().error(Diagnostic::new(fields.span(), "`replay` does not say where").help(help));
    }
    let span = value.key_span();
    fields.finish();
    Some(Replay { on, pcap: pcap?, filter, speed: speed?, times, map, span })
}

fn host_name(fields: &mut Fields<'_>) -> Option<String> {
    let value = fields.require("from", "the host that sends, such as \"h1\"")?;
    Some(value.string()?.to_owned())
}

fn ping(value: &Value<'_>) -> Option<Ping> {
    let mut fields = value.table("`ping`")?;
    let from = host_name(&mut fields);
    let to = fields.require("to", "an address").and_then(|value| address(&value));
    let (count, interval) =
        (count(&mut fields, "count", 1), span(&mut fields, "interval", Span::from_secs(1)));
    let size = fields.take("size").and_then(|value| value.integer(0, 65_000)).unwrap_or(56) as u32;
    fields.finish();
    Some(Ping { from: from?, to: to?, count, interval, size })
}

fn udp(value: &Value<'_>) -> Option<Udp> {
    let mut fields = value.table("`udp`")?;
    let from = host_name(&mut fields);
    let to = fields.require("to", "an address").and_then(|value| address(&value));
    let port = fields.require("port", "the destination port").and_then(|value| value.integer(1, 65_535));
    let from_port = fields.take("from-port").and_then(|value| value.integer(1, 65_535)).unwrap_or(40_000);
    let (count, interval) =
        (count(&mut fields, "count", 1), span(&mut fields, "interval", Span::from_millis(1)));
    let size = fields.take("size").and_then(|value| value.integer(0, 65_000)).unwrap_or(16) as u32;
    fields.finish();
    Some(Udp { from: from?, to: to?, port: port? as u16, from_port: from_port as u16, count, interval, size })
}

fn tcp(value: &Value<'_>) -> Option<Tcp> {
    let mut fields = value.table("`tcp`")?;
    let from = host_name(&mut fields);
    let to = fields.require("to", "an address").and_then(|value| address(&value));
    let port = fields.require("port", "the destination port").and_then(|value| value.integer(1, 65_535));
    let from_port = fields.take("from-port").and_then(|value| value.integer(1, 65_535));
    let bytes = fields.take("bytes").map_or(Some(0), |value| match value.text() {
        Some(_) => value.quantity(quantity::size, "a size"),
        None => value.integer(0, 1 << 31),
    });
    fields.finish();
    let from_port = from_port.map(|port| port as u16);
    Some(Tcp { from: from?, to: to?, port: port? as u16, from_port, bytes: bytes? })
}

fn link(value: &Value<'_>) -> Option<LinkStep> {
    let mut fields = value.table("`link`")?;
    let (ends_value, at) = (fields.take("ends"), fields.take("at"));
    let which = match (ends_value, at) {
        (Some(value), None) => ends(&value).map(LinkWhich::Ends),
        (None, Some(value)) => value.string().map(|node| LinkWhich::Node(node.to_owned())),
        (Some(_), Some(at)) => {
            at.cx.error(Diagnostic::new(at.key_span(), "`link` has both `ends` and `at`"));
            None
        }
        (None, None) => {
            let help = "link.ends = [\"h1\", \"s1:1\"], or link.at = \"s1\" for all links of a node";
            fields.cx().error(Diagnostic::new(fields.span(), "`link` does not say which").help(help));
            None
        }
    };
    let (both, forward, backward) = patches(&mut fields);
    if both.is_empty() && forward.is_empty() && backward.is_empty() {
        let help = "such as link.down = true or link.loss = \"1%\"";
        fields.cx().error(Diagnostic::new(fields.span(), "`link` changes nothing").help(help));
    }
    if let Some(LinkWhich::Node(node)) = &which
        && !(forward.is_empty() && backward.is_empty())
    {
        let message = format!("`forward` and `backward` have no meaning for all links of {node}");
        fields.cx().error(Diagnostic::new(fields.span(), message).help("use link.ends"));
    }
    let span = value.key_span();
    fields.finish();
    Some(LinkStep { which: which?, both, forward, backward, span })
}

fn expect(value: &Value<'_>) -> Option<Expect> {
    let mut fields = value.table("`expect`")?;
    let at =
        fields.require("at", "where: a host (\"h2\") or a switch's port (\"s1:2\")").and_then(|v| place(&v));
    let mut number = |name| fields.take(name).and_then(|value| value.integer(0, u64::MAX));
    let (frames, min, max) = (number("frames"), number("frames-min"), number("frames-max"));
    let bytes = |value: Value<'_>| value.one_or_more().iter().filter_map(parse_hex).collect::<Vec<_>>();
    let hex = fields.take("hex").map(bytes);
    let contains = fields.take("contains").map_or_else(Vec::new, bytes);
    let filter = fields.take("filter").and_then(|value| line(&value));
    let host = host_expectations(&mut fields);
    let (frames_min, frames_max) = (frames.or(min), frames.or(max));
    if frames_min.is_none() && frames_max.is_none() && hex.is_none() && host.is_empty() {
        let help = "one of frames, frames-min, frames-max, hex, ping.received, udp.received, tcp.delivered";
        fields.cx().error(Diagnostic::new(fields.span(), "`expect` expects nothing").help(help));
    }
    if let (false, Some(Place { port: Some(_), .. })) = (host.is_empty(), &at) {
        let message = "`ping`, `udp` and `tcp` are numbers of a host, not of a port";
        fields.cx().error(Diagnostic::new(fields.span(), message));
    }
    let span = value.key_span();
    fields.finish();
    Some(Expect { at: at?, frames_min, frames_max, hex, contains, filter, host, span })
}

fn line(value: &Value<'_>) -> Option<Line> {
    let text = value.string()?;
    let trimmed = text.trim();
    let start = text.len() - text.trim_start().len();
    Some(Line { text: trimmed.to_owned(), span: value.part_span(start..start + trimmed.len()) })
}

fn host_expectations(fields: &mut Fields<'_>) -> Vec<HostExpect> {
    let mut out = Vec::new();
    for group in ["ping", "udp", "tcp"] {
        let Some(mut table) = fields.take(group).and_then(|value| value.table(format!("`expect.{group}`")))
        else {
            continue;
        };
        for (counter, _, name) in HostCounter::ALL.into_iter().filter(|(_, of, _)| *of == group) {
            let Some(value) = table.take(name) else { continue };
            let want = match value.text() {
                Some(_) => value.quantity(quantity::size, "a size"),
                None => value.integer(0, u64::MAX),
            };
            out.extend(want.map(|want| HostExpect { counter, want }));
        }
        table.finish();
    }
    out
}

fn expect_flow(value: &Value<'_>) -> Option<ExpectFlow> {
    let mut fields = value.table("`expect-flow`")?;
    let switch = fields.require("switch", "the bridge, such as \"s1\"").and_then(|value| value.string());
    let mut text =
        |name| fields.take(name).and_then(|value| value.string()).map(|text| text.trim().to_owned());
    let (flow, actions) = (text("flow"), text("actions"));
    let mut number = |name| fields.take(name).and_then(|value| value.integer(0, u64::MAX));
    let (packets, packets_min, count) = (number("packets"), number("packets-min"), number("count"));
    let span: Range<usize> = value.key_span();
    fields.finish();
    Some(ExpectFlow { switch: switch?.to_owned(), flow, actions, packets, packets_min, count, span })
}

fn expect_counters(value: &Value<'_>) -> Option<ExpectCounters> {
    let mut fields = value.table("`expect-counters`")?;
    let switch = fields.require("switch", "the bridge, such as \"s1\"").and_then(|value| value.string());
    let mut wants = Vec::new();
    let mut take = |fields: &mut Fields<'_>, name, counter| {
        let number = fields.take(name).and_then(|value| value.integer(0, u64::MAX));
        wants.extend(number.map(|number| (counter, number)));
    };
    for (name, counter) in SwitchCounter::PACKETS {
        take(&mut fields, name, counter);
    }
    let passes = fields.take("passes");
    if let Some(mut table) = passes.and_then(|value| value.table("`expect-counters.passes`")) {
        for (name, counter) in SwitchCounter::PASSES {
            take(&mut table, name, counter);
        }
        table.finish();
    }
    let drops = fields.take("drops");
    if let Some(mut table) = drops.and_then(|value| value.table("`expect-counters.drops`")) {
        for reason in DropReason::ALL {
            take(&mut table, reason.name(), SwitchCounter::Drop(reason));
        }
        table.finish();
    }
    if wants.is_empty() && passes.is_none() && drops.is_none() {
        let help = "such as expect-counters.passes.upcall = 1 or expect-counters.drops.too-big = 2";
        fields.cx().error(Diagnostic::new(fields.span(), "`expect-counters` expects nothing").help(help));
    }
    let span = value.key_span();
    fields.finish();
    Some(ExpectCounters { switch: switch?.to_owned(), wants, span })
}

fn expect_golden(value: &Value<'_>, folder: &Path) -> Option<ExpectGolden> {
    let mut fields = value.table("`expect-golden`")?;
    let at =
        fields.require("at", "where: a host (\"h2\") or a switch's port (\"s1:2\")").and_then(|v| place(&v));
    let pcap = fields.require("pcap", "the capture it has to equal").and_then(|value| path(&value, folder));
    let times = fields.take("times").and_then(|value| value.boolean()).unwrap_or(false);
    let span = value.key_span();
    fields.finish();
    Some(ExpectGolden { at: at?, pcap: pcap?, times, span })
}
