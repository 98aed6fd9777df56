//! `ovs-ofctl *-meter*`: meters of a bridge, and those of the datapath behind them.
//!
//! Counterpart: the meter part of OVS `utilities/ovs-ofctl.c` and `ofproto/ofproto.c`.

use super::super::Switch;
use super::{CommandError, refused};
use crate::openflow::bridge::BridgeId;
use crate::openflow::meter::{MeterError, OfMeter, meter_stats_text, parse_meter, parse_meter_id};
use crate::types::Time;

impl Switch {
    /// Carries out a command.
    pub(super) fn meter_command(
        &mut self,
        name: &str,
        bridge: &str,
        text: Option<&str>,
        now: Time,
    ) -> Result<String, CommandError> {
        let id = self.bridge_id(bridge).map_err(refused)?;
        let failed = |error: MeterError| refused(format!("ovs-ofctl: {error}"));
        match name {
            "add-meter" | "mod-meter" => {
                self.set_meter(id, text.unwrap_or(""), name == "add-meter", now).map_err(failed)?;
                Ok(String::new())
            }
            "meter-features" => Ok("OFPST_METER_FEATURES reply (OF1.3) (xid=0x2):\nmax_meter:262144 max_bands:8 max_color:0\nband_types: drop\ncapabilities: kbps pktps burst stats\n".to_owned()),
            _ => {
                let chosen = text.map(parse_meter_id).transpose().map_err(failed)?.flatten();
                self.existing_meters(name, id, chosen, now).map_err(failed)
            }
        }
    }

    fn existing_meters(
        &mut self,
        name: &str,
        bridge: BridgeId,
        chosen: Option<u32>,
        now: Time,
    ) -> Result<String, MeterError> {
        let meters = self.of.bridge(bridge).map(|bridge| bridge.meters.clone()).unwrap_or_default();
        let picked = meters.iter().filter(|(id, _)| chosen.is_none_or(|chosen| chosen == **id));
        let picked: Vec<(u32, OfMeter)> = picked.map(|(&id, meter)| (id, meter.clone())).collect();
        match name {
            "del-meter" | "del-meters" => {
                for (id, meter) in picked {
                    self.of.remove_meter(bridge, id);
                    self.dp.meters_mut().remove(meter.datapath_id);
                }
                Ok(String::new())
            }
            "meter-stats" => {
                let mut text = "OFPST_METER reply (OF1.3) (xid=0x2):\n".to_owned();
                self.require(chosen, &picked)?;
                for (id, meter) in picked {
                    let flows = self.of.bridge(bridge).map_or(0, |bridge| bridge.rules_with_meter(id).len());
                    if let Some(state) = self.dp.meters().get(meter.datapath_id) {
                        text.push_str(&meter_stats_text(id, state, flows, now));
                    }
                }
                Ok(text)
            }
            _ => {
                self.require(chosen, &picked)?;
                let texts: Vec<String> = picked.iter().map(|(id, meter)| meter.spec.text(*id)).collect();
                Ok(format!("OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\n{}", texts.join("\n")))
            }
        }
    }

    fn require(&self, chosen: Option<u32>, picked: &[(u32, OfMeter)]) -> Result<(), MeterError> {
        match chosen {
            Some(id) if picked.is_empty() => Err(MeterError::Unknown(id)),
            _ => Ok(()),
        }
    }

    fn set_meter(&mut self, bridge: BridgeId, text: &str, add: bool, now: Time) -> Result<(), MeterError> {
        let (id, spec) = parse_meter(text)?;
        let known = self.of.bridge(bridge).and_then(|bridge| bridge.meters.get(&id)).map(|m| m.datapath_id);
        let datapath_id = match (known, add) {
            (Some(_), true) => return Err(MeterError::Exists(id)),
            (None, false) => return Err(MeterError::Unknown(id)),
            (Some(datapath_id), false) => datapath_id,
            (None, true) => (0..).find(|id| self.dp.meters().get(*id).is_none()).unwrap_or(u32::MAX),
        };
        if !self.dp.meters_mut().set(datapath_id, &spec.config(), now) {
            return Err(MeterError::TooMany);
        }
        self.of.set_meter(bridge, id, OfMeter { datapath_id, spec });
        Ok(())
    }
}
