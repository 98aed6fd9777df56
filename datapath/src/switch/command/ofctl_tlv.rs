//! `ovs-ofctl add-tlv-map`, `del-tlv-map` and `dump-tlv-map`: GENEVE options that `tun_metadata` fields stand for.
//!
//! Counterpart: `parse_ofp_tlv_table_mod_str()` and `ofputil_format_tlv_table_reply()` of OVS `lib/ofp-tlv.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::ofctl::{dump_version, ofctl_error};
use super::{CommandError, refused};
use crate::openflow::command::ofctl::{OfctlOptions, TlvVerb};
use crate::openflow::command::{ParseErrorKind, Word};
use crate::openflow::protocol::OfVersion;
use crate::openflow::tunnel::TunTable;

/// Fields that there are.
const FIELDS: u8 = 64;
/// Most bytes of an option's value (RFC 8926, 3.5).
const MAX_LEN: u8 = 124;

/// `{class=C,type=T,len=L}->tun_metadataN`.
struct Mapping {
    class: u16,
    kind: u8,
    len: u8,
    index: u8,
}

impl Switch {
    pub(super) fn tlv_command(
        &mut self,
        bridge: &str,
        verb: &TlvVerb,
        options: &OfctlOptions,
    ) -> Result<String, CommandError> {
        let (id, _) = self.named_bridge(bridge)?;
        let Some(found) = self.ofproto().bridge(id) else { return Ok(String::new()) };
        let mut table = found.tun_table.clone();
        match verb {
            TlvVerb::Add(text) => {
                for mapping in parse(text)? {
                    let Mapping { class, kind, len, index } = mapping;
                    let usable = index < FIELDS && len <= MAX_LEN && len.is_multiple_of(4);
                    if !usable {
                        return Err(refused(
                            "ovs-ofctl: OFPT_ERROR: NXTTMFC_BAD_FIELD_IDX or NXTTMFC_BAD_OPT_LEN",
                        ));
                    }
                    table.add(index, class, kind, len).map_err(ofctl_error)?;
                }
            }
            TlvVerb::Delete(Some(text)) => {
                for mapping in parse(text)? {
                    table.remove(mapping.index);
                }
            }
            TlvVerb::Delete(None) => table.clear(),
            TlvVerb::Dump => {
                return Ok(show(&table, dump_version(options)));
            }
        }
        self.ofproto_mut().set_tun_table(id, table).map_err(refused)?;
        Ok(String::new())
    }
}

/// Reads mappings, one behind the other, with or without commas.
fn parse(word: &Word) -> Result<Vec<Mapping>, CommandError> {
    let mut rest = word.text.as_str();
    let mut mappings = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let Some((mapping, behind)) = parse_one(rest) else {
            let what = "a mapping such as {class=0xffff,type=0,len=4}->tun_metadata0";
            let kind = ParseErrorKind::Invalid { word: rest.to_owned(), what };
            return Err(word.refuse("ovs-ofctl", kind).into());
        };
        mappings.push(mapping);
        rest = behind;
    }
    Ok(mappings)
}

fn parse_one(text: &str) -> Option<(Mapping, &str)> {
    let (class, rest) = text.strip_prefix("{class=")?.split_once(",type=")?;
    let (kind, rest) = rest.split_once(",len=")?;
    let (len, rest) = rest.split_once("}->tun_metadata")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (index, rest) = rest.split_at(end);
    let class = u16::try_from(number(class)?).ok()?;
    let kind = u8::try_from(number(kind)?).ok()?;
    let len = u8::try_from(number(len)?).ok()?;
    Some((Mapping { class, kind, len, index: index.parse().ok()? }, rest))
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn show(table: &TunTable, version: OfVersion) -> String {
    let used: u32 = table.iter().map(|(_, option)| u32::from(option.len)).sum();
    let name = OfVersion::NAMES.iter().find(|(v, _)| *v == version).map_or("", |(_, name)| name);
    let mut text = match name.strip_prefix("OpenFlow1") {
        Some(minor) if version != OfVersion::Of10 => {
            format!("NXT_TLV_TABLE_REPLY (OF1.{minor}) (xid=0x2):\n")
        }
        _ => "NXT_TLV_TABLE_REPLY (xid=0x2):\n".to_owned(),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        " max option space=256 max fields={FIELDS}\n allocated option space={used}\n\n mapping table:\n  \
         class  type  length  match field\n ------  ----  ------  --------------"
    );
    for (index, option) in table.iter() {
        let (class, kind) = (printf_hex(option.class.into()), printf_hex(option.kind.into()));
        let _ = write!(text, "\n {class:>6}  {kind:>4}  {:>6}  tun_metadata{index}", option.len);
    }
    text.push('\n');
    text
}

/// As `printf("%#x")` writes it: zero has no prefix.
fn printf_hex(value: u32) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}
