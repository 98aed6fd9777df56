//! Arguments of `learn`.
//!
//! Counterpart: OVS `lib/learn.c`.

use super::actions::{problem, unknown_table};
use super::arguments::{reg_move, short_header_subfield};
use super::error::{ErrorKind, Fault};
use super::names::{Names, parse_table};
use super::scan::{KeyValue, KeyValues, u16_of, u32_of, u64_of};
use super::value;
use crate::openflow::action::{Learn, LearnDst, LearnSpec, LearnSrc, OfAction};
use crate::openflow::field::{FieldValue, Subfield};
use crate::openflow::flow_mod::DEFAULT_PRIORITY;
use crate::types::TableId;

/// Bytes of the widest immediate value.
const IMMEDIATE_BYTES: u32 = FieldValue::BITS / 8;
/// What stands for all tables, or the current one, and cannot hold rules.
const TABLE_ALL: TableId = TableId(255);

pub(super) fn learn<'a>(text: &'a str, names: &dyn Names) -> Result<OfAction, Fault<'a>> {
    let mut out = Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: DEFAULT_PRIORITY,
        table: TableId(1),
        cookie: 0,
        send_flow_rem: false,
        delete_learned: false,
        limit: 0,
        result_dst: None,
        specs: Vec::new(),
    };
    for word in KeyValues::new(text) {
        let KeyValue { key, value } = word;
        match key {
            "table" => {
                out.table = parse_table(value, names).ok_or_else(|| unknown_table(value))?;
                if out.table == TABLE_ALL {
                    return Err(problem(value, "table id 255 not valid for `learn' action"));
                }
            }
            "priority" => out.priority = u16_of(value, "priority")?,
            "idle_timeout" => out.idle_timeout = u16_of(value, "idle_timeout")?,
            "hard_timeout" => out.hard_timeout = u16_of(value, "hard_timeout")?,
            "fin_idle_timeout" => out.fin_idle_timeout = u16_of(value, "fin_idle_timeout")?,
            "fin_hard_timeout" => out.fin_hard_timeout = u16_of(value, "fin_hard_timeout")?,
            "cookie" => out.cookie = u64_of(value)?,
            "send_flow_rem" => out.send_flow_rem = true,
            "delete_learned" => out.delete_learned = true,
            "limit" => out.limit = u32_of(value)?,
            "result_dst" => out.result_dst = Some(result_dst(value)?),
            _ => out.specs.push(spec(word, names)?),
        }
    }
    Ok(OfAction::Learn(Box::new(out)))
}

fn result_dst(text: &str) -> Result<Subfield, Fault<'_>> {
    let sub = value::parse_subfield(text)?;
    if !sub.field.info().writable {
        return Err(Fault::new(text, ErrorKind::ReadOnly(text.to_owned())));
    }
    if sub.n_bits != 1 {
        const USAGE: &str = "result_dst in 'learn' action must be a single bit";
        return Err(Fault::new(text, ErrorKind::Usage(USAGE)));
    }
    Ok(sub)
}

fn spec<'a>(word: KeyValue<'a>, names: &dyn Names) -> Result<LearnSpec, Fault<'a>> {
    let KeyValue { key, value } = word;
    if value::parse_subfield(key).is_ok() {
        let dst = short_header_subfield(key)?;
        let src = match_src(key, dst, value, names)?;
        return Ok(LearnSpec { n_bits: dst.n_bits, src, dst: LearnDst::Match(dst) });
    }
    match key {
        "load" => load(value),
        "output" => {
            let src = value::parse_subfield(value)?;
            Ok(LearnSpec { n_bits: src.n_bits, src: LearnSrc::Field(src), dst: LearnDst::Output })
        }
        _ => Err(Fault::new(key, ErrorKind::UnknownKeyword(key.to_owned()))),
    }
}

/// Where the bits that are to match come from: the same field, another one, or the text itself.
fn match_src<'a>(
    key: &'a str,
    dst: Subfield,
    text: &'a str,
    names: &dyn Names,
) -> Result<LearnSrc, Fault<'a>> {
    if text.is_empty() {
        return Ok(LearnSrc::Field(dst));
    }
    let not_a_field = match value::parse_subfield(text) {
        Ok(src) if src.n_bits == dst.n_bits => return Ok(LearnSrc::Field(src)),
        Ok(src) => {
            let kind = ErrorKind::Widths { text: format!("{key}={text}"), src: src.n_bits, dst: dst.n_bits };
            return Err(Fault::new(text, kind));
        }
        Err(fault) => fault.kind,
    };
    let immediate = if dst.is_whole() {
        value::parse_exact(dst.field, text, names).map_err(|fault| fault.kind)
    } else {
        match value::whole_integer(text, dst.field.info().n_bytes) {
            Some(number) if number.bit_len() <= dst.n_bits => Ok(number),
            Some(number) => Err(value::does_not_fit(text, &dst, &number)),
            None => Err(ErrorKind::Integer(text.to_owned())),
        }
    };
    immediate.map(|v| LearnSrc::Immediate(v & FieldValue::ones(dst.n_bits))).map_err(|immediate| {
        Fault::new(
            text,
            ErrorKind::LearnValue {
                name: key.to_owned(),
                value: text.to_owned(),
                field: Box::new(not_a_field),
                immediate: Box::new(immediate),
            },
        )
    })
}

/// Reads `value->dst[bits]` or `src[bits]->dst[bits]`.
fn load(text: &str) -> Result<LearnSpec, Fault<'_>> {
    let Some((source, dst)) = text.split_once("->") else {
        return Err(Fault::new(text, ErrorKind::NoArrow(text.to_owned())));
    };
    if source.is_empty() {
        return Err(problem(text, "missing source before `->'"));
    }
    match value::leading_integer(source, IMMEDIATE_BYTES) {
        Some((number, "")) => {
            let dst = short_header_subfield(dst)?;
            if number.bit_len() > dst.n_bits {
                return Err(Fault::new(source, value::does_not_fit(text, &dst, &number)));
            }
            Ok(LearnSpec { n_bits: dst.n_bits, src: LearnSrc::Immediate(number), dst: LearnDst::Load(dst) })
        }
        Some(_) => Err(problem(source, "garbage before `->'")),
        None => {
            let (src, dst) = reg_move(text)?;
            Ok(LearnSpec { n_bits: src.n_bits, src: LearnSrc::Field(src), dst: LearnDst::Load(dst) })
        }
    }
}
