//! Meters as text, both ways.
//!
//! Counterpart: OVS `lib/ofp-meter.c`.

use std::fmt::Write as _;

use super::error::{ErrorKind, Fault, TextError};
use super::scan::u32_of;
use crate::meter::{Band, BandKind, MeterConfig};

/// Largest number of a meter (OpenFlow 1.3 `OFPM_MAX`).
pub const MAX_METER: u32 = 0xffff_0000;
/// What separates words; `=` only in front of a value.
const SEPARATORS: [char; 5] = [',', ' ', '\t', '\r', '\n'];

fn fault<'a>(at: &'a str, what: impl Into<String>) -> Fault<'a> {
    Fault::new(at, ErrorKind::Meter(what.into()))
}

/// Words of a text; each ends at a separator, a name at `=` too.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn cut(&mut self, ends_at: impl Fn(char) -> bool) -> Option<&'a str> {
        let text = self.0.trim_start_matches(&ends_at);
        let end = text.find(&ends_at).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }

    fn name(&mut self) -> Option<&'a str> {
        self.cut(|c| c == '=' || SEPARATORS.contains(&c))
    }

    fn value(&mut self, name: &'a str) -> Result<&'a str, Fault<'a>> {
        self.0 = self.0.strip_prefix('=').unwrap_or(self.0);
        self.cut(|c| SEPARATORS.contains(&c))
            .ok_or_else(|| fault(name, format!("field {name} missing value")))
    }
}

/// Reads which meter is meant: `meter=1`; none: all of them.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_meter_id(line: &str) -> Result<Option<u32>, TextError> {
    read_head(line, None).map_err(|fault| fault.within(line))
}

/// Reads a meter as `ovs-ofctl add-meter` takes it: its number and what it is to do.
///
/// # Errors
/// What is wrong with the first word that is.
pub fn parse_meter(line: &str) -> Result<(u32, MeterConfig), TextError> {
    read(line).map_err(|fault| fault.within(line))
}

fn read(line: &str) -> Result<(u32, MeterConfig), Fault<'_>> {
    let missing = || fault(line, "must specify bands");
    let (head, bands) = line.split_at(line.find("band").ok_or_else(missing)?);
    let bands = bands.split_once('=').ok_or_else(missing)?.1;
    let mut flags = Flags::default();
    let id = read_head(head, Some(&mut flags))?.ok_or_else(|| fault(head, "all meters cannot be one"))?;
    if !flags.kbps && !flags.pktps {
        return Err(fault(head, "meter must specify either 'kbps' or 'pktps'"));
    }
    if flags.kbps && flags.pktps {
        return Err(fault(head, "OFPMMFC_BAD_FLAGS: a meter counts either 'kbps' or 'pktps'"));
    }
    let bands = read_bands(bands, flags.burst)?;
    Ok((id, MeterConfig { packets: flags.pktps, burst: flags.burst, stats: flags.stats, bands }))
}

#[derive(Default)]
struct Flags {
    kbps: bool,
    pktps: bool,
    burst: bool,
    stats: bool,
}

/// The words in front of the bands; flags only where they are wanted.
fn read_head<'a>(head: &'a str, mut flags: Option<&mut Flags>) -> Result<Option<u32>, Fault<'a>> {
    let mut id = None;
    let mut words = Words(head);
    while let Some(name) = words.name() {
        match (name, flags.as_deref_mut()) {
            ("kbps", Some(flags)) => flags.kbps = true,
            ("pktps", Some(flags)) => flags.pktps = true,
            ("burst", Some(flags)) => flags.burst = true,
            ("stats", Some(flags)) => flags.stats = true,
            _ => match (name, words.value(name)?) {
                ("meter", "all") => id = Some(None),
                ("meter", word @ ("controller" | "slowpath")) => {
                    return Err(fault(word, format!("meter={word} is not supported here")));
                }
                ("meter", value) => match u32_of(value)? {
                    number @ 1..=MAX_METER => id = Some(Some(number)),
                    _ => return Err(fault(value, "invalid value for meter")),
                },
                _ => return Err(fault(name, format!("unknown keyword {name}"))),
            },
        }
    }
    id.ok_or_else(|| fault(head, "must specify 'meter'"))
}

/// A band as it is read: what it must have is checked at its end.
struct Draft<'a> {
    at: &'a str,
    remark: bool,
    rate: u32,
    burst_size: u32,
    prec_level: u32,
}

fn read_bands(text: &str, burst: bool) -> Result<Vec<Band>, Fault<'_>> {
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    let mut words = Words(text);
    while let Some(name) = words.name() {
        let value = words.value(name)?;
        if name == "type" {
            let remark = match value {
                "drop" => false,
                "dscp_remark" => true,
                _ => return Err(fault(value, format!("field type unknown value {value}"))),
            };
            drafts.push(Draft { at: name, remark, rate: 0, burst_size: 0, prec_level: 0 });
            continue;
        }
        let Some(draft) = drafts.last_mut() else {
            return Err(fault(name, "band must start with the 'type' keyword"));
        };
        match name {
            "rate" => draft.rate = u32_of(value)?,
            "burst_size" => draft.burst_size = u32_of(value)?,
            "prec_level" => draft.prec_level = u32_of(value)?,
            _ => return Err(fault(name, format!("unknown keyword {name}"))),
        }
    }
    if drafts.is_empty() {
        return Err(fault(text, "meter must have bands"));
    }
    drafts.into_iter().map(|draft| finish(&draft, burst)).collect()
}

fn finish<'a>(draft: &Draft<'a>, burst: bool) -> Result<Band, Fault<'a>> {
    let wrong = |what| Err(fault(draft.at, what));
    let Ok(prec_level) = u8::try_from(draft.prec_level) else { return wrong("invalid prec_level") };
    match (draft.remark, prec_level) {
        (true, 0) => return wrong("'dscp_remark' band must have 'prec_level'"),
        (false, 1..) => return wrong("Only 'dscp_remark' band may have 'prec_level'"),
        (true, 1..) | (false, 0) => {}
    }
    match (burst, draft.burst_size) {
        _ if draft.rate == 0 => return wrong("band must have 'rate'"),
        (true, 0) => return wrong("band must have 'burst_size' when 'burst' flag is set"),
        (false, 1..) => return wrong("band may have 'burst_size' only when 'burst' flag is set"),
        (true, 1..) | (false, 0) => {}
    }
    let kind = if draft.remark { BandKind::DscpRemark { prec_level } } else { BandKind::Drop };
    Ok(Band { kind, rate: draft.rate, burst_size: draft.burst_size })
}

/// A meter as `ovs-ofctl dump-meters` prints it, with its line end.
pub fn meter_to_text(id: u32, config: &MeterConfig) -> String {
    let mut text = format!("meter={id} {} ", if config.packets { "pktps" } else { "kbps" });
    for (set, word) in [(config.burst, "burst "), (config.stats, "stats ")] {
        if set {
            text.push_str(word);
        }
    }
    text.push_str("bands=");
    for band in &config.bands {
        let kind = if band.kind == BandKind::Drop { "drop" } else { "dscp_remark" };
        // Writing to a string cannot fail.
        let _ = write!(text, "\ntype={kind} rate={}", band.rate);
        if config.burst {
            let _ = write!(text, " burst_size={}", band.burst_size);
        }
        if let BandKind::DscpRemark { prec_level } = band.kind {
            let _ = write!(text, " prec_level={prec_level}");
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_are_written_as_open_vswitch_does() {
        for (text, written) in [
            (
                "meter=1,pktps,burst,stats,bands=type=drop,rate=1,burst_size=1",
                "meter=1 pktps burst stats bands=\ntype=drop rate=1 burst_size=1\n",
            ),
            ("meter=5 kbps bands=type=drop rate=100", "meter=5 kbps bands=\ntype=drop rate=100\n"),
            (
                "kbps meter=0x7,band=type=drop rate=1,type=dscp_remark,rate=2 prec_level=3",
                "meter=7 kbps bands=\ntype=drop rate=1\ntype=dscp_remark rate=2 prec_level=3\n",
            ),
        ] {
            let (id, config) = parse_meter(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(meter_to_text(id, &config), written);
        }
        assert_eq!(parse_meter_id("meter=5").unwrap(), Some(5));
        assert_eq!(parse_meter_id("meter=all").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_told_at_its_word() {
        for (text, message, offset) in [
            ("meter=7,kbps", "must specify bands", 0),
            ("meter=7,frob,bands=type=drop,rate=1", "field frob missing value", 8),
            ("meter=7,frob=1,bands=type=drop,rate=1", "unknown keyword frob", 8),
            ("meter=0,kbps,bands=type=drop,rate=1", "invalid value for meter", 6),
            ("kbps,bands=type=drop,rate=1", "must specify 'meter'", 0),
            ("meter=7,bands=type=drop,rate=1", "meter must specify either 'kbps' or 'pktps'", 0),
            ("meter=7,kbps,bands=rate=1", "band must start with the 'type' keyword", 19),
            ("meter=7,kbps,bands=type=frob", "field type unknown value frob", 24),
            ("meter=7,kbps,bands=", "meter must have bands", 19),
            ("meter=7,kbps,bands=type=drop", "band must have 'rate'", 19),
            (
                "meter=7,kbps,burst,bands=type=drop,rate=1",
                "band must have 'burst_size' when 'burst' flag is set",
                25,
            ),
            (
                "meter=7,kbps,bands=type=drop,rate=1,burst_size=1",
                "band may have 'burst_size' only when 'burst' flag is set",
                19,
            ),
            ("meter=7,kbps,bands=type=dscp_remark,rate=1", "'dscp_remark' band must have 'prec_level'", 19),
        ] {
            let error = parse_meter(text).expect_err(text);
            assert_eq!((error.to_string().as_str(), error.offset), (message, offset), "{text}");
        }
    }
}
