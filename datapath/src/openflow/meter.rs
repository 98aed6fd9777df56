//! Meters as OpenFlow knows them: their text, and which of the datapath each is.
//!
//! Counterpart: OVS `lib/ofp-meter.c`.

use std::fmt::Write;

use thiserror::Error;

use crate::meter::{Band, MAX_BANDS, Meter, MeterConfig};
use crate::types::Time;

/// Largest number of a meter that can be made (OpenFlow 1.3 `OFPM_MAX`).
const MAX_ID: u32 = 0xffff_0000;

/// A meter of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfMeter {
    /// Its number in the datapath.
    pub datapath_id: u32,
    /// What it is to do.
    pub spec: MeterSpec,
}

/// What a meter is to do, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterSpec {
    /// `kbps`.
    pub kbps: bool,
    /// `pktps`.
    pub pktps: bool,
    /// `burst`: bands have a burst size.
    pub burst: bool,
    /// `stats`: count.
    pub stats: bool,
    /// Bands.
    pub bands: Vec<Band>,
}

/// Why a meter is not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeterError {
    /// The text is not understood.
    #[error("{0}")]
    Text(String),
    /// There is one already.
    #[error("OFPMMFC_METER_EXISTS: meter {0} exists already")]
    Exists(u32),
    /// There is none.
    #[error("OFPMMFC_UNKNOWN_METER: there is no meter {0}")]
    Unknown(u32),
    /// A band that the datapath does not have.
    #[error("OFPMMFC_BAD_BAND: the datapath has no bands of type {0}")]
    Band(&'static str),
    /// Too many bands, or no place for a meter.
    #[error("OFPMMFC_OUT_OF_BANDS: a meter may have {MAX_BANDS} bands")]
    TooMany,
    /// A rate of nothing.
    #[error("OFPMMFC_BAD_RATE: the rate of a band cannot be 0")]
    Rate,
}

fn text_error<T>(message: impl Into<String>) -> Result<T, MeterError> {
    Err(MeterError::Text(message.into()))
}

/// Reads the number in `meter=N`; `all` is none.
///
/// # Errors
/// [`MeterError::Text`].
pub fn parse_meter_id(text: &str) -> Result<Option<u32>, MeterError> {
    let value = text.trim().strip_prefix("meter=").unwrap_or(text.trim());
    if value == "all" {
        return Ok(None);
    }
    match number(value) {
        Some(id) if (1..=MAX_ID).contains(&id) => Ok(Some(id)),
        Some(_) => text_error(format!("invalid 'meter' value: {value}")),
        None => text_error(format!("invalid number {value:?} for meter")),
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads `meter=1 pktps burst stats bands=type=drop rate=1 burst_size=1`.
///
/// # Errors
/// [`MeterError`] names what is not understood.
pub fn parse_meter(text: &str) -> Result<(u32, MeterSpec), MeterError> {
    let (head, bands) = match text.find("band") {
        Some(at) => text.split_at(at),
        None => return text_error("must specify bands"),
    };
    let Some((_, bands)) = bands.split_once('=') else { return text_error("must specify bands") };
    let mut spec = MeterSpec::default();
    let mut id = None;
    for word in head.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()) {
        match word {
            "kbps" => spec.kbps = true,
            "pktps" => spec.pktps = true,
            "burst" => spec.burst = true,
            "stats" => spec.stats = true,
            word if word.starts_with("meter=") => id = parse_meter_id(word)?,
            word => return text_error(format!("unknown keyword {word}")),
        }
    }
    let Some(id) = id else { return text_error("must specify 'meter'") };
    if spec.kbps && spec.pktps {
        return text_error("either \"kbps\" or \"pktps\" may be specified, not both");
    }
    if !spec.pktps {
        spec.kbps = true;
    }
    let mut band: Option<(Option<u32>, u32)> = None;
    let mut done = Vec::new();
    let close = |band: Option<(Option<u32>, u32)>, done: &mut Vec<Band>| match band {
        None => Ok(()),
        Some((Some(0), _)) => Err(MeterError::Rate),
        Some((Some(rate), burst)) => {
            done.push(Band { rate, burst });
            Ok(())
        }
        Some((None, _)) => text_error("band must have 'rate'"),
    };
    for word in bands.split([' ', ',', '\t', '\n']).filter(|word| !word.is_empty()) {
        let Some((key, value)) = word.split_once('=') else {
            return text_error(format!("unknown keyword {word}"));
        };
        let number =
            || number(value).map_or_else(|| text_error(format!("invalid number {value:?} for {key}")), Ok);
        match (key, &mut band) {
            ("type", _) => {
                close(band.take(), &mut done)?;
                match value {
                    "drop" => {}
                    // Known to OpenFlow, and to no datapath of Open vSwitch.
                    "dscp_remark" => return Err(MeterError::Band("dscp_remark")),
                    _ => return text_error(format!("unknown type {value}")),
                }
                band = Some((None, 0));
            }
            ("rate", Some((rate, _))) => *rate = Some(number()?),
            ("burst_size", Some((_, burst))) => {
                *burst = number()?;
                spec.burst = true;
            }
            ("rate" | "burst_size", None) => return text_error("band must start with 'type'"),
            _ => return text_error(format!("unknown keyword {key}")),
        }
    }
    close(band, &mut done)?;
    if done.len() > MAX_BANDS {
        return Err(MeterError::TooMany);
    }
    spec.bands = done;
    Ok((id, spec))
}

impl MeterSpec {
    /// What the datapath is told.
    pub fn config(&self) -> MeterConfig {
        MeterConfig { packets: self.pktps, bands: self.bands.clone() }
    }

    /// As `ovs-ofctl dump-meters` prints it.
    pub fn text(&self, id: u32) -> String {
        let mut out = format!("meter={id} ");
        for (on, word) in
            [(self.kbps, "kbps"), (self.pktps, "pktps"), (self.burst, "burst"), (self.stats, "stats")]
        {
            if on {
                out.push_str(word);
                out.push(' ');
            }
        }
        out.push_str("bands=");
        for band in &self.bands {
            // Writing to a string cannot fail. Without a burst size it is the rate.
            let burst = if band.burst == 0 { band.rate } else { band.burst };
            let _ = write!(out, "\ntype=drop rate={}", band.rate);
            if self.burst {
                let _ = write!(out, " burst_size={burst}");
            }
        }
        out.push('\n');
        out
    }
}

/// Counts, as `ovs-ofctl meter-stats` prints them. `flows` is how many rules use the meter.
pub fn meter_stats_text(id: u32, meter: &Meter, flows: usize, now: Time) -> String {
    let input = meter.input();
    let age = now.since(meter.created()).0;
    let mut out = format!(
        "meter:{id} flow_count:{flows} packet_in_count:{} byte_in_count:{} duration:{} bands:\n",
        input.packets,
        input.bytes,
        seconds(age)
    );
    for (i, band) in meter.bands().enumerate() {
        let _ = writeln!(out, "{i}: packet_count:{} byte_count:{}", band.packets, band.bytes);
    }
    out
}

/// `1.5s`, without more digits than needed, three at a time (OVS `ofp_print_duration()`).
fn seconds(ns: u64) -> String {
    let (secs, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest == 0 {
        return format!("{secs}s");
    }
    let digits = format!("{rest:09}");
    format!("{secs}.{}s", digits.trim_end_matches('0'))
}
