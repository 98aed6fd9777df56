//! Arguments of single actions, each in its own syntax.
//!
//! Where OVS reads a number with `atoi`, which takes anything for a number, what is not one is refused here.

use super::actions::{data, not_valid, problem, split_arrow, unknown_port};
pub(super) use super::ct::{ct, nat};
pub(super) use super::encap::{decap, encap};
use super::error::{ErrorKind, Fault};
pub(super) use super::learn::learn;
use super::names::{Names, parse_port};
use super::scan::{KeyValue, KeyValues, c_int, number, tokens, u8_of, u16_of, u32_of};
use super::value;
use crate::openflow::action::{
    Bundle, Controller, HashFields, Multipath, MultipathAlgorithm, NumberOrField, OfAction, Sample,
    SampleDirection,
};
use crate::openflow::field::Subfield;
use crate::types::OfPort;

/// Length of an Ethernet header, below which no packet is cut.
const ETH_HEADER_LEN: u32 = 14;
/// Bytes for a controller if none are named: all.
const MAX_LEN_ALL: u16 = 0xffff;
/// Reason of a packet-in that an action asked for.
const REASON_ACTION: u16 = 1;
/// Names of reasons of packet-ins, by number.
pub(super) const REASONS: [&str; 6] =
    ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
/// Most members of a bundle.
const BUNDLE_MAX_MEMBERS: usize = 2048;

/// Names of sets of hashed fields.
pub(super) const HASH_FIELDS: [(HashFields, &str); 7] = [
    (HashFields::EthSrc, "eth_src"),
    (HashFields::SymmetricL4, "symmetric_l4"),
    (HashFields::SymmetricL3L4, "symmetric_l3l4"),
    (HashFields::SymmetricL3L4Udp, "symmetric_l3l4+udp"),
    (HashFields::NwSrc, "nw_src"),
    (HashFields::NwDst, "nw_dst"),
    (HashFields::SymmetricL3, "symmetric_l3"),
];

/// Names of the algorithms of `multipath`.
pub(super) const MULTIPATH_ALGORITHMS: [(MultipathAlgorithm, &str); 4] = [
    (MultipathAlgorithm::ModuloN, "modulo_n"),
    (MultipathAlgorithm::HashThreshold, "hash_threshold"),
    (MultipathAlgorithm::Hrw, "hrw"),
    (MultipathAlgorithm::IterHash, "iter_hash"),
];

/// `output:PORT`, `output:FIELD[bits]`, `output(port=PORT,max_len=BYTES)`.
pub(super) fn output<'a>(text: &'a str, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    if text.contains("port") && text.contains("max_len") {
        return output_trunc(text, names);
    }
    if let Some(port) = parse_port(text, names) {
        return Ok(OfAction::Output {
            port,
            max_len: if port == OfPort::CONTROLLER { MAX_LEN_ALL } else { 0 },
        });
    }
    match value::parse_subfield(text) {
        Ok(src) => Ok(OfAction::OutputReg { src, max_len: MAX_LEN_ALL }),
        Err(_) => Err(unknown_port(text, "output to unknown port")),
    }
}

fn output_trunc<'a>(text: &'a str, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    let (mut port, mut max_len) = (OfPort(0), 0);
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "port" => {
                port = parse_port(value, names)
                    .ok_or_else(|| unknown_port(value, "output to unknown truncate port"))?;
                if port > OfPort::MAX && port != OfPort::LOCAL && port != OfPort::IN_PORT {
                    return Err(unknown_port(value, "output to unsupported truncate port"));
                }
            }
            "max_len" => {
                max_len = u32_of(value)?;
                if max_len < ETH_HEADER_LEN {
                    return Err(problem(value, "max_len is less than the minimum value 14"));
                }
            }
            _ => return Err(invalid_key(key, "output_trunc")),
        }
    }
    Ok(OfAction::OutputTrunc { port, max_len })
}

fn invalid_key<'a>(key: &'a str, action: &'static str) -> Fault<'a> {
    Fault::new(key, ErrorKind::InvalidKey { key: key.to_owned(), action })
}

pub(super) fn controller(text: &str) -> Result<OfAction, Fault<'_>> {
    let mut out = Controller {
        max_len: MAX_LEN_ALL,
        id: 0,
        reason: REASON_ACTION,
        userdata: Vec::new(),
        pause: false,
        meter_id: 0,
    };
    let mut has_userdata = false;
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        out.max_len = u16_of(text, "max_len")?;
        return Ok(OfAction::Output { port: OfPort::CONTROLLER, max_len: out.max_len });
    }
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "reason" => {
                let reason = REASONS.iter().position(|name| name.eq_ignore_ascii_case(value));
                out.reason = reason.ok_or_else(|| not_valid(value, "reason"))? as u16;
            }
            "max_len" => out.max_len = u16_of(value, "max_len")?,
            "id" => out.id = u16_of(value, "id")?,
            "userdata" => {
                has_userdata = true;
                out.userdata = data(value, "bad hex digit in `controller' action `userdata'")?;
            }
            "pause" => out.pause = true,
            "meter_id" => out.meter_id = u32_of(value)?,
            _ => return Err(invalid_key(key, "controller")),
        }
    }
    let plain =
        out.reason == REASON_ACTION && out.id == 0 && !has_userdata && !out.pause && out.meter_id == 0;
    Ok(if plain {
        OfAction::Output { port: OfPort::CONTROLLER, max_len: out.max_len }
    } else {
        OfAction::Controller(Box::new(out))
    })
}

pub(super) fn enqueue<'a>(text: &'a str, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    const USAGE: &str = "\"enqueue\" syntax is \"enqueue:PORT:QUEUE\" or \"enqueue(PORT,QUEUE)\"";
    let parts = text.trim_start_matches([':', 'q', ',']).split_once([':', 'q', ',']);
    match parts {
        Some((port, queue)) if !queue.is_empty() => {
            let port_no =
                parse_port(port, names).ok_or_else(|| unknown_port(port, "enqueue to unknown port"))?;
            Ok(OfAction::Enqueue { port: port_no, queue: u32_of(queue)? })
        }
        Some(_) | None => Err(Fault::new(text, ErrorKind::Usage(USAGE))),
    }
}

fn hash_fields(text: &str) -> Result<HashFields, Fault<'_>> {
    let found = HASH_FIELDS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
    found.map(|&(fields, _)| fields).ok_or_else(|| problem(text, "unknown fields"))
}

/// Reads `fields,basis,algorithm,ofport[,dst],members:port,...`.
pub(super) fn bundle<'a>(text: &'a str, load: bool, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    let too_few = || problem(text, "not enough arguments to bundle action");
    let mut rest = text;
    let mut next = |delimiters: &[char]| {
        rest = rest.trim_start_matches(delimiters);
        let (word, tail) = rest.split_at(rest.find(delimiters).unwrap_or(rest.len()));
        rest = tail.get(1..).unwrap_or("");
        if word.is_empty() { Err(too_few()) } else { Ok(word) }
    };
    let fields = next(&[',', ' '])?;
    let basis = next(&[',', ' '])?;
    let algorithm = next(&[',', ' '])?;
    let member_type = next(&[',', ' '])?;
    let dst = if load { Some(next(&[',', ' '])?) } else { None };
    let delimiter = next(&[':', ' '])?;
    if !["members", "slaves"].iter().any(|word| word.eq_ignore_ascii_case(delimiter)) {
        return Err(problem(delimiter, "missing member delimiter, expected `members'"));
    }
    let members: Result<Vec<OfPort>, _> = tokens(rest, &[',', ' ', '[', ']'])
        .take(BUNDLE_MAX_MEMBERS)
        .map(|member| parse_port(member, names).ok_or_else(|| unknown_port(member, "bad port number")))
        .collect();
    let hrw = match algorithm.to_ascii_lowercase().as_str() {
        "active_backup" => false,
        "hrw" => true,
        _ => return Err(problem(algorithm, "unknown algorithm")),
    };
    let fields = hash_fields(fields)?;
    if !member_type.eq_ignore_ascii_case("ofport") {
        return Err(problem(member_type, "unknown member_type"));
    }
    let dst = dst.map(short_header_subfield).transpose()?;
    let basis = u16_of(basis, "basis")?;
    Ok(OfAction::Bundle(Box::new(Bundle { fields, basis, hrw, dst, members: members? })))
}

/// A range of bits of a field that old actions can name.
pub(super) fn short_header_subfield(text: &str) -> Result<Subfield, Fault<'_>> {
    let sub = value::parse_subfield(text)?;
    if value::has_short_header(sub.field) {
        return Ok(sub);
    }
    let kind = ErrorKind::ExperimenterField { text: text.to_owned(), field: sub.field.to_string() };
    Err(Fault::new(text, kind))
}

/// Reads `fields, basis, algorithm, n_links, arg, dst[bits]`.
pub(super) fn multipath(text: &str) -> Result<OfAction, Fault<'_>> {
    let words: Vec<&str> = tokens(text, &[',', ' ']).collect();
    let [fields, basis, algorithm, n_links, arg, dst, ..] = words[..] else {
        return Err(problem(text, "not enough arguments to multipath action"));
    };
    let fields = hash_fields(fields)?;
    let found = MULTIPATH_ALGORITHMS.iter().find(|(_, name)| name.eq_ignore_ascii_case(algorithm));
    let algorithm = found.map(|&(a, _)| a).ok_or_else(|| problem(algorithm, "unknown algorithm"))?;
    let links = number(n_links, "n_links", u64::from(u32::MAX))?;
    if !(1..=65536).contains(&links) {
        let kind = ErrorKind::Range { what: "n_links", value: links as i64, low: 1, high: 65536 };
        return Err(Fault::new(n_links, kind));
    }
    let dst = short_header_subfield(dst)?;
    if dst.n_bits < 16 && links > 1 << dst.n_bits {
        let values = 1 << dst.n_bits;
        let kind = ErrorKind::TooManyLinks { n_bits: dst.n_bits, values, n_links: links as u32 };
        return Err(Fault::new(n_links, kind));
    }
    Ok(OfAction::Multipath(Box::new(Multipath {
        fields,
        basis: u16_of(basis, "basis")?,
        algorithm,
        max_link: (links - 1) as u16,
        arg: u32_of(arg)?,
        dst,
    })))
}

pub(super) fn sample<'a>(text: &'a str, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    let mut out = Sample {
        probability: 0,
        collector_set_id: 0,
        obs_domain: NumberOrField::Number(0),
        obs_point: NumberOrField::Number(0),
        sampling_port: OfPort::NONE,
        direction: SampleDirection::Default,
    };
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "probability" => {
                out.probability = u16_of(value, "probability")?;
                if out.probability == 0 {
                    return Err(not_valid(value, "probability"));
                }
            }
            "collector_set_id" => out.collector_set_id = u32_of(value)?,
            "obs_domain_id" => out.obs_domain = number_or_field(value)?,
            "obs_point_id" => out.obs_point = number_or_field(value)?,
            "sampling_port" => {
                out.sampling_port =
                    parse_port(value, names).ok_or_else(|| unknown_port(value, "unknown port"))?;
            }
            "ingress" => out.direction = SampleDirection::Ingress,
            "egress" => out.direction = SampleDirection::Egress,
            _ => return Err(invalid_key(key, "sample")),
        }
    }
    if out.probability == 0 {
        const USAGE: &str = "non-zero \"probability\" must be specified on sample";
        return Err(Fault::new(text, ErrorKind::Usage(USAGE)));
    }
    Ok(OfAction::Sample(Box::new(out)))
}

fn number_or_field(text: &str) -> Result<NumberOrField, Fault<'_>> {
    if let Ok(n) = u32_of(text) {
        return Ok(NumberOrField::Number(n));
    }
    let sub = value::parse_subfield(text)?;
    if sub.n_bits > 32 {
        return Err(problem(text, "size of field exceeds maximum (32)"));
    }
    Ok(NumberOrField::Field(sub))
}

/// Reads `src[bits]->dst[bits]`.
pub(super) fn reg_move(text: &str) -> Result<(Subfield, Subfield), Fault<'_>> {
    let (src, rest) = value::parse_subfield_prefix(text)?;
    let dst = rest
        .strip_prefix("->")
        .ok_or_else(|| Fault::new(text, ErrorKind::NoArrowAfterSource(text.to_owned())))?;
    let dst = value::parse_subfield(dst)?;
    if src.n_bits != dst.n_bits {
        let kind = ErrorKind::Widths { text: text.to_owned(), src: src.n_bits, dst: dst.n_bits };
        return Err(Fault::new(text, kind));
    }
    Ok((src, dst))
}

/// Reads `length)->dst[bit]`.
pub(super) fn check_pkt_larger(text: &str) -> Result<OfAction, Fault<'_>> {
    let (len, dst) = split_arrow(text)?;
    let len = len.strip_suffix(')').unwrap_or(len);
    let sub = value::parse_subfield(dst)?;
    if sub.n_bits != 1 {
        return Err(Fault::new(dst, ErrorKind::Usage("Only 1-bit destination field is allowed")));
    }
    Ok(OfAction::CheckPktLarger { len: u16_of(len, "packet length")?, dst: sub })
}

/// Reads `id,i/n`.
pub(super) fn conjunction(text: &str) -> Result<OfAction, Fault<'_>> {
    const USAGE: &str = "\"conjunction\" syntax is \"conjunction(id,i/n)\"";
    let usage = || Fault::new(text, ErrorKind::Usage(USAGE));
    let (id, clauses) = text.split_once(',').ok_or_else(usage)?;
    let (clause, n_clauses) = clauses.split_once('/').ok_or_else(usage)?;
    let id =
        c_int(id, 0).filter(|n| n.rest.trim().is_empty() && !n.overflow && !n.negative).ok_or_else(usage)?;
    let id = u32::try_from(id.value).map_err(|_| usage())?;
    let small = |t: &str| {
        let n = c_int(t, 10).filter(|n| n.rest.trim().is_empty() && !n.overflow && !n.negative);
        n.and_then(|n| u8::try_from(n.value).ok()).ok_or_else(usage)
    };
    let problem = match (small(clause)?, small(n_clauses)?) {
        (_, 0 | 1) => "conjunction must have at least 2 clauses",
        (_, 65..) => "conjunction must have at most 64 clauses",
        (0, _) => "clause index must be positive",
        (i, n) if i > n => "clause index must be less than or equal to number of clauses",
        (i, n) => return Ok(OfAction::Conjunction { id, clause: i - 1, n_clauses: n }),
    };
    Err(Fault::new(clauses, ErrorKind::Usage(problem)))
}

pub(super) fn fin_timeout(text: &str) -> Result<OfAction, Fault<'_>> {
    let (mut idle, mut hard) = (0, 0);
    for KeyValue { key, value } in KeyValues::new(text) {
        match key {
            "idle_timeout" => idle = u16_of(value, "idle_timeout")?,
            "hard_timeout" => hard = u16_of(value, "hard_timeout")?,
            _ => return Err(invalid_key(key, "fin_timeout")),
        }
    }
    Ok(OfAction::FinTimeout { idle, hard })
}

/// The metadata type of a network service header.
pub(super) fn md_type(text: &str) -> Result<u8, Fault<'_>> {
    let n = u8_of(text, "md_type")?;
    if matches!(n, 1 | 2) { Ok(n) } else { Err(problem(text, "invalid md_type")) }
}
