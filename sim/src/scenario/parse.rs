//! From TOML to [`Scenario`]: the top level, hosts and links.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use datapath::types::{MacAddr, Time};
use thiserror::Error;
use toml::de::DeTable;

use super::reader::{Context, Fields, Value};
use super::{Block, Cidr, HostConfig, Line, LinkConfig, Place, Scenario, references, steps, switches};
use crate::diagnostic::{Diagnostic, Diagnostics, SourceFile};
use crate::link::{LinkModel, LinkPatch, QueueLimit};
use crate::quantity;

/// Largest MTU that can be asked for, in bytes.
pub(super) const MAX_MTU: u64 = 65_535;

/// Reads a whole file.
pub(super) fn scenario(path: &str, text: &str) -> Result<Scenario, Diagnostics> {
    let file = Arc::new(SourceFile::new(path, text));
    let cx = Context::new(text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        // What a broken document seems to say would only give misleading errors on top.
        let list = syntax.iter().map(|error| syntax_error(text, error)).collect();
        return Err(Diagnostics::new(file, list));
    }
    let mut fields = Fields::new(&cx, document.get_ref(), 0..0, "a scenario");
    let scenario = read(&mut fields, Arc::clone(&file));
    fields.finish();
    references::check(&cx, &scenario);
    let errors = cx.into_errors();
    if errors.is_empty() { Ok(scenario) } else { Err(Diagnostics::new(file, errors)) }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(text.len()..text.len());
    Diagnostic::new(span, format!("not TOML: {}", error.message().replace('\n', ", ")))
}

fn read(fields: &mut Fields<'_>, file: Arc<SourceFile>) -> Scenario {
    let path = Path::new(&file.name);
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let name =
        fields.take("name").and_then(|value| value.string()).map_or_else(|| stem.clone(), str::to_owned);
    let seed = fields.take("seed").and_then(|value| value.integer(0, u64::MAX)).unwrap_or(1);
    let stop_at = fields.take("stop-at").and_then(|value| time(&value));
    let hosts = named_tables(fields, "host", host);
    let switches = named_tables(fields, "switch", |name, value, _| switches::switch(name, value));
    let links = list(fields, "link", |value| link(value));
    let steps = steps::steps(fields, &folder);
    Scenario { file, folder, stem, name, seed, stop_at, hosts, switches, links, steps }
}

/// Reads `[kind.NAME]` tables in file order.
fn named_tables<T>(
    fields: &mut Fields<'_>,
    kind: &'static str,
    read: impl Fn(&str, &Value<'_>, usize) -> Option<T>,
) -> Vec<T> {
    let Some(mut tables) = fields.take(kind).and_then(|value| value.table(format!("[{kind}]"))) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (index, value) in tables.rest().into_iter().enumerate() {
        if value.key.is_empty()
            || value.key.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control())
        {
            let message = format!("{kind} name {:?} is empty or holds a colon or white space", value.key);
            value.cx.error(Diagnostic::new(value.key_span(), message));
        }
        out.extend(read(value.key, &value, index));
    }
    out
}

/// Reads `[[kind]]` tables in file order.
pub(super) fn list<'a, T>(
    fields: &mut Fields<'a>,
    kind: &'static str,
    read: impl FnMut(&Value<'a>) -> Option<T>,
) -> Vec<T> {
    let Some(value) = fields.take(kind) else { return Vec::new() };
    if value.is_table() {
        let message = format!("`{kind}` is a list: each one begins with [[{kind}]]");
        value.cx.error(Diagnostic::new(value.key_span(), message).help(format!("write [[{kind}]]")));
        return Vec::new();
    }
    value.array().unwrap_or_default().iter().filter_map(read).collect()
}

/// A point in time.
pub(super) fn time(value: &Value<'_>) -> Option<Time> {
    value.quantity(quantity::time, "a time").map(|span| Time::ZERO + span)
}

/// Why a text is not an address with prefix length.
#[derive(Debug, Error)]
#[error("{0:?} is not an address with prefix length")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let bad = || CidrError(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if prefix > most { Err(bad()) } else { Ok(Self { address, prefix }) }
    }
}

fn host(name: &str, value: &Value<'_>, index: usize) -> Option<HostConfig> {
    let mut fields = value.table(format!("[host.{name}]"))?;
    let default_mac = {
        let [high, low] = ((index + 1) as u16).to_be_bytes();
        MacAddr([2, 0, 0, 0, high, low])
    };
    let mac_help = "six hexadecimal bytes, such as \"02:00:00:00:00:01\"";
    let mac = match fields.take("mac") {
        Some(value) => {
            let mac = value.parsed::<MacAddr>(mac_help);
            if mac.is_some_and(|mac| mac.is_multicast() || mac == MacAddr::ZERO) {
                value.cx.error(value.error("a host's `mac` must be one host's: not multicast, not all zero"));
            }
            mac.unwrap_or(default_mac)
        }
        None => default_mac,
    };
    let help = "such as \"10.0.0.1/24\" or \"fd00::1/64\"";
    let addresses = fields.take("ip").map_or_else(Vec::new, |value| {
        value.one_or_more().iter().filter_map(|item| item.parsed::<Cidr>(help)).collect()
    });
    let gateways = gateways(&mut fields, &addresses);
    let mtu = fields.take("mtu").and_then(|value| value.integer(68, MAX_MTU)).unwrap_or(1500) as u32;
    let listen = ports(&mut fields, "listen");
    let echo = ports(&mut fields, "echo");
    let span = fields.span();
    fields.finish();
    Some(HostConfig { name: name.to_owned(), mac, addresses, gateways, mtu, listen, echo, span })
}

fn gateways(fields: &mut Fields<'_>, addresses: &[Cidr]) -> Vec<IpAddr> {
    let mut gateways: Vec<IpAddr> = Vec::new();
    let Some(value) = fields.take("gateway") else { return gateways };
    for item in value.one_or_more() {
        let Some(gateway) = item.parsed::<IpAddr>("an address without prefix length, such as \"10.0.0.254\"")
        else {
            continue;
        };
        if !addresses.iter().any(|own| own.contains(gateway)) {
            let message = format!("gateway {gateway} is in none of the host's networks");
            item.cx.error(item.error(message).help("the host can only reach a gateway on its own link"));
        } else if gateways.iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            item.cx.error(item.error("a second gateway of the same family"));
        } else {
            gateways.push(gateway);
        }
    }
    gateways
}

fn ports(fields: &mut Fields<'_>, name: &'static str) -> Vec<u16> {
    let Some(value) = fields.take(name) else { return Vec::new() };
    value.one_or_more().iter().filter_map(|item| item.integer(1, 65_535)).map(|port| port as u16).collect()
}

/// `ends = ["h1", "s1:1"]`.
pub(super) fn ends(value: &Value<'_>) -> Option<[Place; 2]> {
    let items = value.array()?;
    let [first, second] = items.as_slice() else {
        value.cx.error(value.error("a link has two ends").help("such as ends = [\"h1\", \"s1:1\"]"));
        return None;
    };
    let (first, second) = (place(first)?, place(second)?);
    if first == second {
        value.cx.error(value.error(format!("both ends are {first}")));
        return None;
    }
    Some([first, second])
}

/// `h1` or `s1:1`.
pub(super) fn place(value: &Value<'_>) -> Option<Place> {
    let place = Place::new(value.string()?);
    if place.node.is_empty() || place.port.as_deref() == Some("") {
        let help = "a host (\"h1\") or a switch's port (\"s1:1\")";
        value.cx.error(value.error(format!("{:?} is no place", place.to_string())).help(help));
        return None;
    }
    Some(place)
}

fn link(value: &Value<'_>) -> Option<LinkConfig> {
    let mut fields = value.table("[[link]]")?;
    let ends = fields.require("ends", "such as ends = [\"h1\", \"s1:1\"]").and_then(|value| ends(&value));
    let (both, forward, backward) = patches(&mut fields);
    let span = value.span();
    fields.finish();
    let base = LinkModel::default().patched(&both);
    let (forward, backward) = (base.patched(&forward), base.patched(&backward));
    Some(LinkConfig { ends: ends?, forward, backward, span })
}

/// The quantities of a link: for both directions, and for each alone.
pub(super) fn patches(fields: &mut Fields<'_>) -> (LinkPatch, LinkPatch, LinkPatch) {
    let both = patch(fields);
    let mut one = |name: &'static str| {
        let Some(mut fields) = fields.take(name).and_then(|value| value.table(format!("`{name}`"))) else {
            return LinkPatch::default();
        };
        let patch = patch(&mut fields);
        fields.finish();
        patch
    };
    (both, one("forward"), one("backward"))
}

fn patch(fields: &mut Fields<'_>) -> LinkPatch {
    let mut span = |name: &'static str| fields.take(name)?.quantity(quantity::time, "a time");
    let (delay, jitter, reorder_gap) = (span("delay"), span("jitter"), span("reorder-gap"));
    let mut chance = |name: &'static str| fields.take(name)?.quantity(quantity::probability, "a percentage");
    let (loss, duplicate, reorder) = (chance("loss"), chance("duplicate"), chance("reorder"));
    let unlimited = |value: &Value<'_>| value.scalar_is("unlimited");
    let rate = fields.take("rate").and_then(|value| {
        if unlimited(&value) { Some(None) } else { value.quantity(quantity::rate, "a rate").map(Some) }
    });
    let mtu = fields.take("mtu").and_then(|value| {
        if unlimited(&value) {
            return Some(None);
        }
        value.integer(68, MAX_MTU).map(|mtu| Some(mtu as u32))
    });
    let queue = fields.take("queue").and_then(|value| queue(&value));
    let down = fields.take("down").and_then(|value| value.boolean());
    LinkPatch { delay, jitter, loss, duplicate, reorder, reorder_gap, rate, queue, mtu, down }
}

fn queue(value: &Value<'_>) -> Option<QueueLimit> {
    let packets = value.text().and_then(|text| {
        let number = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"))?;
        number.trim_end().parse::<u64>().ok()
    });
    if let Some(packets) = packets {
        return Some(QueueLimit::Packets(packets));
    }
    value
        .quantity(quantity::size, "a size (\"64KiB\") or a number of packets (\"100 packets\")")
        .map(QueueLimit::Bytes)
}

/// OVS text, line by line.
pub(super) fn block(value: &Value<'_>) -> Option<Block> {
    let text = value.string()?;
    let span = value.span();
    let raw = &value.cx.text[span.clone()];
    let mut raw_lines = Vec::new();
    let mut offset = span.start;
    for line in raw.split_inclusive('\n') {
        raw_lines.push((offset, line));
        offset += line.len();
    }
    let mut lines: Vec<Line> = Vec::new();
    let (mut joined, mut next_raw) = (String::new(), 0);
    let mut joined_span = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let place =
            raw_lines[next_raw..].iter().position(|(_, raw)| !trimmed.is_empty() && raw.contains(trimmed));
        let line_span = place.map_or(span.clone(), |skipped| {
            let (offset, raw) = raw_lines[next_raw + skipped];
            next_raw += skipped + usize::from(raw_lines.len() > next_raw + skipped + 1);
            let start = offset + raw.find(trimmed).unwrap_or(0);
            start..start + trimmed.len()
        });
        if joined.is_empty() && (trimmed.is_empty() || trimmed.starts_with('#')) {
            continue;
        }
        let first = joined_span.get_or_insert(line_span).clone();
        match trimmed.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                joined.push(' ');
            }
            None => {
                joined.push_str(trimmed);
                lines.push(Line { text: std::mem::take(&mut joined), span: first });
                joined_span = None;
            }
        }
    }
    if let Some(span) = joined_span {
        lines.push(Line { text: joined.trim_end().to_owned(), span });
    }
    Some(Block { lines, span })
}

/// An IP address of either family.
pub(super) fn address(value: &Value<'_>) -> Option<IpAddr> {
    let address = value.parsed::<IpAddr>("an IPv4 or IPv6 address, such as \"10.0.0.2\"")?;
    if address == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        value.cx.error(value.error("`0.0.0.0` is no destination"));
        return None;
    }
    Some(address)
}
