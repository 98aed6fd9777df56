//! `ovs-ofctl`: meters of a bridge.

use std::fmt::{Display, Write as _};

use super::super::Switch;
use super::ofctl::{ofctl_error, read, reply_header, version_for};
use super::{CommandError, bad_text};
use crate::meter::{MAX_BANDS, MAX_METERS};
use crate::openflow::bridge::{Bridge, BridgeMeter};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::{MeterVerb, OfctlOptions};
use crate::openflow::protocol::Protocols;
use crate::openflow::text::{meter_to_text, parse_meter, parse_meter_id, seconds};
use crate::switch::MeterModError;
use crate::types::Time;

impl Switch {
    /// Carries out a command about meters; returns what it prints.
    pub(super) fn meter_command(
        &mut self,
        bridge: &str,
        verb: &MeterVerb,
        options: &OfctlOptions,
        now: Time,
    ) -> Result<String, CommandError> {
        let version = version_for(options, Protocols::OF13_UP)?;
        let (id, _) = self.named_bridge(bridge)?;
        // Rules that go with a meter have their last packets counted.
        self.credit(now);
        match verb {
            MeterVerb::Add(text) => {
                let (meter, config) = parse_meter(&text.text).map_err(|error| bad_text(text, error))?;
                self.add_meter(id, meter, config, now).map_err(ofctl_error)?;
            }
            MeterVerb::Modify(text) => {
                let (meter, config) = parse_meter(&text.text).map_err(|error| bad_text(text, error))?;
                self.modify_meter(id, meter, config, now).map_err(ofctl_error)?;
            }
            MeterVerb::Delete(text) => {
                self.remove_meters(id, meant(text.as_ref())?).map_err(ofctl_error)?;
            }
            MeterVerb::Dump(text) => {
                let found = self.meters_meant(bridge, text.as_ref())?;
                let entries = found.iter().map(|(number, meter)| meter_to_text(*number, &meter.config));
                return Ok(entries_text(reply_header("METER_CONFIG", version, 2), entries));
            }
            MeterVerb::Stats(text) => {
                let found = self.meters_meant(bridge, text.as_ref())?;
                let Some(bridge) = self.ofproto().bridge(id) else { return Ok(String::new()) };
                let entries =
                    found.iter().map(|(number, meter)| self.stats_text(bridge, *number, meter, now));
                return Ok(entries_text(reply_header("METER", version, 2), entries));
            }
            MeterVerb::Features => {
                let header = reply_header("METER_FEATURES", version, 2);
                return Ok(format!(
                    "{header}max_meter:{MAX_METERS} max_bands:{MAX_BANDS} max_color:0\nband_types: drop\ncapabilities: kbps pktps \
                     burst stats\n"
                ));
            }
        }
        Ok(String::new())
    }

    fn meters_meant(
        &self,
        bridge: &str,
        text: Option<&Word>,
    ) -> Result<Vec<(u32, &BridgeMeter)>, CommandError> {
        let wanted = meant(text)?;
        let found = self
            .ofproto()
            .bridge_named(bridge)
            .into_iter()
            .flat_map(|bridge| bridge.meters())
            .filter(|(id, _)| wanted.is_none_or(|wanted| wanted == **id));
        let found: Vec<_> = found.map(|(id, meter)| (*id, meter)).collect();
        match wanted {
            Some(id) if found.is_empty() => Err(ofctl_error(MeterModError::Unknown(id))),
            _ => Ok(found),
        }
    }

    fn stats_text(&self, bridge: &Bridge, id: u32, meter: &BridgeMeter, now: Time) -> String {
        let flows = bridge.rules_with_meter(id).len();
        let Some(running) = self.datapath().meters().get(meter.provider) else { return String::new() };
        let (count, duration) = (running.count(), seconds(now.since(meter.created).0));
        let mut text = format!(
            "meter:{id} flow_count:{flows} packet_in_count:{} byte_in_count:{} duration:{duration}s bands:\n",
            count.packets, count.bytes
        );
        for (band, dropped) in running.dropped().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{band}: packet_count:{} byte_count:{}", dropped.packets, dropped.bytes);
        }
        text
    }
}

/// Which meter is meant; without a word, all.
fn meant(text: Option<&Word>) -> Result<Option<u32>, CommandError> {
    text.map_or(Ok(None), |word| read(Some(word), parse_meter_id))
}

/// A reply's header and its entries, with a blank line between two.
fn entries_text(header: String, entries: impl Iterator<Item = impl Display>) -> String {
    let mut text = header;
    for (index, entry) in entries.enumerate() {
        let gap = if index == 0 { "" } else { "\n" };
        let _ = write!(text, "{gap}{entry}");
    }
    text
}
