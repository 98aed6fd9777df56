//! Reading lists of actions and instructions.
//!
//! Counterpart: OVS `ofpacts_parse__` and the `parse_*` functions of `lib/ofp-actions.c`. Actions with arguments of their own
//! kind are in `arguments`; what may be together is checked in `check`.

use super::arguments;
use super::check::verify;
use super::error::{ErrorKind, Fault};
use super::names::{Names, parse_port, parse_table};
use super::scan::{KeyValue, KeyValues, hex_bytes, tokens, u8_of, u16_of, u32_of, u64_of};
use super::value;
use crate::openflow::action::{OfAction, OfActions, Resubmit, SetField};
use crate::openflow::headers::ethertype;
use crate::openflow::protocol::{Protocols, usable};
use crate::types::{MacAddr, OfPort, TableId};

/// Deepest nesting of actions.
const MAX_DEPTH: u32 = 100;

/// Most bytes of raw data in one action.
pub(super) const MAX_DATA: usize = 0xffff - 64;

/// In which action a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outer {
    /// In none: the actions and instructions of a rule.
    Rule,
    /// In none, but without instructions: a bucket, or a list by itself.
    List,
    /// In `write_actions`.
    WriteActions,
    /// In `clone`.
    Clone,
    /// In the `exec` of a `ct`.
    Ct,
}

/// What is needed to read actions.
pub(super) struct ActionReader<'n> {
    /// Names of ports and tables.
    pub names: &'n dyn Names,
    /// Protocols that can express what was read so far.
    pub protocols: Protocols,
    depth: u32,
}

impl<'n> ActionReader<'n> {
    pub fn new(names: &'n dyn Names) -> Self {
        Self { names, protocols: Protocols::ANY, depth: 0 }
    }

    /// Reads a list, and checks which actions are together and in what order.
    pub fn list<'a>(&mut self, text: &'a str, outer: Outer) -> Result<OfActions, Fault<'a>> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::new(text, ErrorKind::TooDeep));
        }
        self.depth += 1;
        let result = self.list_inside(KeyValues::new(text), text, outer);
        self.depth -= 1;
        result
    }

    /// The same for words that have been split already.
    pub fn list_inside<'a>(
        &mut self,
        words: impl Iterator<Item = KeyValue<'a>>,
        text: &'a str,
        outer: Outer,
    ) -> Result<OfActions, Fault<'a>> {
        let mut out = OfActions::new();
        let mut drop = None;
        for word in words {
            if word.key.eq_ignore_ascii_case("drop") {
                drop = Some(word.key);
            } else {
                out.push(self.action(word, outer)?);
            }
        }
        match drop {
            Some(word) if !out.is_empty() => Err(Fault::new(word, ErrorKind::DropWithOthers)),
            Some(_) | None => {
                verify(&out, outer).map_err(|kind| Fault::new(text, kind))?;
                Ok(out)
            }
        }
    }

    fn action<'a>(&mut self, word: KeyValue<'a>, outer: Outer) -> Result<OfAction, Fault<'a>> {
        let KeyValue { key, value } = word;
        let lower = key.to_ascii_lowercase();
        if let Some(action) = self.send_somewhere(&lower, value)? {
            return Ok(action);
        }
        if let Some(action) = set_header(&lower, value)? {
            return Ok(action);
        }
        if let Some(action) = self.set_any(&lower, value)? {
            return Ok(action);
        }
        if let Some(action) = self.control(&lower, value, outer)? {
            return Ok(action);
        }
        match lower.as_str() {
            "apply_actions" => {
                Err(Fault::new(key, ErrorKind::Usage("apply_actions is the default instruction")))
            }
            "unroll_xlate" => Err(Fault::new(
                key,
                ErrorKind::Usage("UNROLL is an internal action that shouldn't be used via OpenFlow"),
            )),
            _ => match parse_port(key, self.names) {
                Some(port) => Ok(OfAction::Output { port, max_len: 0 }),
                None => Err(Fault::new(key, ErrorKind::UnknownAction(key.to_owned()))),
            },
        }
    }

    /// Actions that send the packet.
    fn send_somewhere<'a>(&mut self, key: &str, value: &'a str) -> Result<Option<OfAction>, Fault<'a>> {
        Ok(Some(match key {
            "output" | "output_reg" => arguments::output(value, self.names)?,
            "group" => OfAction::Group(u32_of(value)?),
            "controller" => arguments::controller(value)?,
            "enqueue" => arguments::enqueue(value, self.names)?,
            "bundle" => arguments::bundle(value, false, self.names)?,
            "bundle_load" => arguments::bundle(value, true, self.names)?,
            "sample" => arguments::sample(value, self.names)?,
            _ => return Ok(None),
        }))
    }

    /// Actions that set, copy or remove any field.
    fn set_any<'a>(&mut self, key: &str, value: &'a str) -> Result<Option<OfAction>, Fault<'a>> {
        Ok(Some(match key {
            "set_field" => self.set_field(value)?,
            "load" => load(value)?,
            "move" => {
                let (src, dst) = arguments::reg_move(value)?;
                OfAction::Move { src, dst }
            }
            "push" => OfAction::Push(value::parse_subfield(value)?),
            "pop" => OfAction::Pop(value::parse_subfield(value)?),
            "push_vlan" => {
                self.protocols &= Protocols::OF11_UP;
                let kind = u16_of(value, "ethertype")?;
                if !ethertype::is_vlan(kind) {
                    return Err(not_valid(value, "VLAN ethertype"));
                }
                OfAction::PushVlan(kind)
            }
            "push_mpls" => OfAction::PushMpls(u16_of(value, "push_mpls")?),
            "pop_mpls" => OfAction::PopMpls(u16_of(value, "pop_mpls")?),
            "encap" => {
                self.protocols &= Protocols::OF13_UP;
                arguments::encap(value)?
            }
            "decap" => arguments::decap(value)?,
            "delete_field" => OfAction::DeleteField(value::parse_field(value).ok_or_else(|| {
                let (text, field) = (value.to_owned(), value.to_owned());
                Fault::new(value, ErrorKind::UnknownField { text, field })
            })?),
            "multipath" => arguments::multipath(value)?,
            "check_pkt_larger" => arguments::check_pkt_larger(value)?,
            "set_tunnel" => OfAction::SetTunnel { id: u64_of(value)?, wide: false },
            "set_tunnel64" => OfAction::SetTunnel { id: u64_of(value)?, wide: true },
            "set_queue" => OfAction::SetQueue(u32_of(value)?),
            "pop_queue" => OfAction::PopQueue,
            _ => return Ok(None),
        }))
    }

    /// Actions about tables, connections and other actions, and instructions.
    fn control<'a>(
        &mut self,
        key: &str,
        value: &'a str,
        outer: Outer,
    ) -> Result<Option<OfAction>, Fault<'a>> {
        Ok(Some(match key {
            "resubmit" => self.resubmit(value)?,
            "learn" => arguments::learn(value, self.names)?,
            "conjunction" => arguments::conjunction(value)?,
            "fin_timeout" => arguments::fin_timeout(value)?,
            "note" => OfAction::Note(data(value, "bad hex digit in `note' argument")?),
            "exit" => OfAction::Exit,
            "clone" => OfAction::Clone(self.list(value, Outer::Clone)?),
            "ct" => arguments::ct(self, value)?,
            "ct_clear" => OfAction::CtClear,
            "nat" => OfAction::Nat(arguments::nat(value)?),
            "debug_recirc" => OfAction::DebugRecirc,
            "debug_slow" => OfAction::DebugSlow,
            "meter" => {
                self.protocols &= if outer == Outer::Rule { Protocols::OF13_UP } else { Protocols::OF15_UP };
                OfAction::Meter(u32_of(value)?)
            }
            "clear_actions" => OfAction::ClearActions,
            "write_actions" => OfAction::WriteActions(self.list(value, Outer::WriteActions)?),
            "write_metadata" => {
                self.protocols &= Protocols::NXM_OF11_UP;
                let (number, mask) = match value.split_once('/') {
                    Some((number, mask)) => (number, u64_of(mask)?),
                    None => (value, u64::MAX),
                };
                OfAction::WriteMetadata { value: u64_of(number)?, mask }
            }
            "goto_table" => {
                OfAction::GotoTable(parse_table(value, self.names).ok_or_else(|| unknown_table(value))?)
            }
            _ => return Ok(None),
        }))
    }

    fn set_field<'a>(&mut self, text: &'a str) -> Result<OfAction, Fault<'a>> {
        let (number, name) = split_arrow(text)?;
        let field = value::field_by_name(name)
            .ok_or_else(|| Fault::new(name, ErrorKind::NotOxmField(name.to_owned())))?;
        if !field.info().writable {
            return Err(Fault::new(name, ErrorKind::ReadOnly(name.to_owned())));
        }
        let (value, mask) = value::parse(field, number, self.names)?;
        if !value::is_valid(field, &value) {
            let (value, field) = (number.to_owned(), name.to_owned());
            return Err(Fault::new(number, ErrorKind::NotAValue { value, field }));
        }
        self.protocols &= usable(field, &value::exact_mask(field));
        Ok(OfAction::SetField(Box::new(SetField { field, value, mask, load: false })))
    }

    fn resubmit<'a>(&mut self, text: &'a str) -> Result<OfAction, Fault<'a>> {
        let mut parts = text.splitn(3, ',');
        let in_port = match parts.next() {
            None | Some("") => OfPort::IN_PORT,
            Some(port) => {
                parse_port(port, self.names).ok_or_else(|| unknown_port(port, "resubmit to unknown port"))?
            }
        };
        let table = match parts.next() {
            None | Some("") => None,
            // Table 255 means the current one too.
            Some(table) => Some(parse_table(table, self.names).ok_or_else(|| unknown_table(table))?)
                .filter(|&t| t != TableId(255)),
        };
        let with_ct_orig = match parts.next() {
            None | Some("") => false,
            Some("ct") => true,
            Some(other) => return Err(problem(other, "unknown parameter")),
        };
        if in_port == OfPort::IN_PORT && table.is_none() {
            const USAGE: &str = "at least one \"in_port\" or \"table\" must be specified on resubmit";
            return Err(Fault::new(text, ErrorKind::Usage(USAGE)));
        }
        Ok(OfAction::Resubmit(Resubmit { in_port, table, with_ct_orig }))
    }
}

/// Actions that set one header field in the way of OpenFlow 1.0.
fn set_header<'a>(key: &str, value: &'a str) -> Result<Option<OfAction>, Fault<'a>> {
    Ok(Some(match key {
        "mod_vlan_vid" => OfAction::SetVlanVid { vid: vlan_vid(value)?, push_if_needed: true },
        "set_vlan_vid" => OfAction::SetVlanVid { vid: vlan_vid(value)?, push_if_needed: false },
        "mod_vlan_pcp" => OfAction::SetVlanPcp { pcp: vlan_pcp(value)?, push_if_needed: true },
        "set_vlan_pcp" => OfAction::SetVlanPcp { pcp: vlan_pcp(value)?, push_if_needed: false },
        "strip_vlan" => OfAction::StripVlan { pop: false },
        "pop_vlan" => OfAction::StripVlan { pop: true },
        "mod_dl_src" => OfAction::SetEthSrc(mac(value)?),
        "mod_dl_dst" => OfAction::SetEthDst(mac(value)?),
        "mod_nw_src" => OfAction::SetIpv4Src(ipv4(value)?),
        "mod_nw_dst" => OfAction::SetIpv4Dst(ipv4(value)?),
        "mod_nw_tos" => OfAction::SetIpDscp(bits(value, u8_of(value, "TOS")?, 0xfc, "TOS")?),
        "mod_nw_ecn" => OfAction::SetIpEcn(bits(value, u8_of(value, "ECN")?, 3, "ECN")?),
        "mod_nw_ttl" | "set_nw_ttl" => OfAction::SetIpTtl(u8_of(value, "TTL")?),
        "mod_tp_src" => OfAction::SetL4Src(u16_of(value, "source port")?),
        "mod_tp_dst" => OfAction::SetL4Dst(u16_of(value, "destination port")?),
        "dec_ttl" => dec_ttl(value)?,
        "set_mpls_label" => {
            let label = u32_of(expected(value, "set_mpls_label: expected label.")?)?;
            if label > 0xfffff {
                return Err(not_valid(value, "MPLS label"));
            }
            OfAction::SetMplsLabel(label)
        }
        "set_mpls_tc" => {
            let tc = u8_of(expected(value, "set_mpls_tc: expected tc.")?, "MPLS TC")?;
            OfAction::SetMplsTc(bits(value, tc, 7, "MPLS TC")?)
        }
        "set_mpls_ttl" => {
            OfAction::SetMplsTtl(u8_of(expected(value, "set_mpls_ttl: expected ttl.")?, "MPLS TTL")?)
        }
        "dec_mpls_ttl" => OfAction::DecMplsTtl,
        "dec_nsh_ttl" => OfAction::DecNshTtl,
        _ => return Ok(None),
    }))
}

fn vlan_vid(text: &str) -> Result<u16, Fault<'_>> {
    let vid = u16_of(text, "VLAN VID")?;
    if vid > 0xfff { Err(not_valid(text, "VLAN VID")) } else { Ok(vid) }
}

fn vlan_pcp(text: &str) -> Result<u8, Fault<'_>> {
    bits(text, u8_of(text, "VLAN PCP")?, 7, "VLAN PCP")
}

/// `number`, if it has no bit outside of `allowed`.
fn bits<'a>(text: &'a str, number: u8, allowed: u8, what: &'static str) -> Result<u8, Fault<'a>> {
    if number & !allowed == 0 { Ok(number) } else { Err(not_valid(text, what)) }
}

fn mac(text: &str) -> Result<MacAddr, Fault<'_>> {
    value::parse_mac(text).ok_or_else(|| Fault::new(text, ErrorKind::Mac(text.to_owned())))
}

fn ipv4(text: &str) -> Result<std::net::Ipv4Addr, Fault<'_>> {
    value::parse_ipv4(text).ok_or_else(|| Fault::new(text, ErrorKind::NotAnAddress(text.to_owned())))
}

fn expected<'a>(text: &'a str, usage: &'static str) -> Result<&'a str, Fault<'a>> {
    if text.is_empty() { Err(Fault::new(text, ErrorKind::Usage(usage))) } else { Ok(text) }
}

fn dec_ttl(text: &str) -> Result<OfAction, Fault<'_>> {
    if text.is_empty() {
        return Ok(OfAction::DecTtl { ids: vec![0], plain: true });
    }
    // OVS reads with atoi here, which takes anything for a number; a wrong one is refused instead.
    let ids: Result<Vec<u16>, _> = tokens(text, &[',', ' ']).map(|id| u16_of(id, "controller id")).collect();
    let ids = ids?;
    if ids.is_empty() {
        const USAGE: &str = "dec_ttl_cnt_ids: expected at least one controller id.";
        return Err(Fault::new(text, ErrorKind::Usage(USAGE)));
    }
    Ok(OfAction::DecTtl { ids, plain: false })
}

/// Splits `value->field`.
pub(super) fn split_arrow(text: &str) -> Result<(&str, &str), Fault<'_>> {
    match text.split_once("->") {
        None => Err(Fault::new(text, ErrorKind::NoArrow(text.to_owned()))),
        Some((_, "")) => Err(Fault::new(text, ErrorKind::NothingAfterArrow(text.to_owned()))),
        Some(parts) => Ok(parts),
    }
}

/// Reads `load:value->field[bits]`.
fn load(text: &str) -> Result<OfAction, Fault<'_>> {
    let (number, dst) = split_arrow(text)?;
    let dst = value::parse_subfield(dst)?;
    let parsed = value::whole_integer(number, dst.field.info().n_bytes);
    let parsed = parsed.ok_or_else(|| Fault::new(number, ErrorKind::Integer(text.to_owned())))?;
    if parsed.bit_len() > dst.n_bits {
        return Err(Fault::new(number, value::does_not_fit(text, &dst, &parsed)));
    }
    let set = SetField { field: dst.field, value: parsed.shl(dst.ofs), mask: dst.bits(), load: true };
    Ok(OfAction::SetField(Box::new(set)))
}

/// Reads raw bytes.
pub(super) fn data<'a>(text: &'a str, usage: &'static str) -> Result<Vec<u8>, Fault<'a>> {
    match hex_bytes(text) {
        (bytes, "") if bytes.len() <= MAX_DATA => Ok(bytes),
        (_, "") => Err(Fault::new(text, ErrorKind::TooBig)),
        (_, rest) => Err(Fault::new(rest, ErrorKind::Usage(usage))),
    }
}

pub(super) fn not_valid<'a>(text: &'a str, what: &'static str) -> Fault<'a> {
    Fault::new(text, ErrorKind::NotValid { text: text.to_owned(), what })
}

pub(super) fn problem<'a>(text: &'a str, problem: &'static str) -> Fault<'a> {
    Fault::new(text, ErrorKind::Problem { text: text.to_owned(), problem })
}

pub(super) fn unknown_port<'a>(text: &'a str, what: &'static str) -> Fault<'a> {
    Fault::new(text, ErrorKind::UnknownPort { text: text.to_owned(), what })
}

pub(super) fn unknown_table(text: &str) -> Fault<'_> {
    Fault::new(text, ErrorKind::UnknownTable(text.to_owned()))
}
