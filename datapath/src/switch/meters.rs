//! Meters of bridges, and their counterparts in the datapath.

use thiserror::Error;

use super::Switch;
use crate::meter::{Meter, MeterConfig, MeterError};
use crate::openflow::bridge::{BridgeId, BridgeMeter};
use crate::types::Time;

/// Why a meter was not made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MeterModError {
    /// There is one of that number.
    #[error("OFPMMFC_METER_EXISTS: there is a meter {0} already")]
    Exists(u32),
    /// There is none.
    #[error("OFPMMFC_UNKNOWN_METER: there is no meter {0}")]
    Unknown(u32),
    /// There is no such bridge.
    #[error("there is no such bridge")]
    NoBridge,
    /// The datapath refuses it.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

impl Switch {
    fn bridge_meter(&self, bridge: BridgeId, id: u32) -> Result<Option<&BridgeMeter>, MeterModError> {
        let bridge = self.ofproto().bridge(bridge).ok_or(MeterModError::NoBridge)?;
        Ok(bridge.meters().get(&id))
    }

    /// Makes a meter.
    ///
    /// # Errors
    /// [`MeterModError`]; nothing is changed then.
    pub fn add_meter(
        &mut self,
        bridge: BridgeId,
        id: u32,
        config: MeterConfig,
        now: Time,
    ) -> Result<(), MeterModError> {
        if self.bridge_meter(bridge, id)?.is_some() {
            return Err(MeterModError::Exists(id));
        }
        let meter = Meter::new(&config, now)?;
        let provider = self.datapath().meters().free_id()?;
        self.meters_mut().set(provider, meter);
        self.ofproto_mut().set_meter(bridge, id, BridgeMeter { provider, config, created: now });
        Ok(())
    }

    /// Changes a meter; its buckets are full again, and its counters begin anew.
    ///
    /// # Errors
    /// [`MeterModError`]; nothing is changed then.
    pub fn modify_meter(
        &mut self,
        bridge: BridgeId,
        id: u32,
        config: MeterConfig,
        now: Time,
    ) -> Result<(), MeterModError> {
        let old = self.bridge_meter(bridge, id)?.ok_or(MeterModError::Unknown(id))?;
        let (provider, created) = (old.provider, old.created);
        self.meters_mut().set(provider, Meter::new(&config, now)?);
        self.ofproto_mut().set_meter(bridge, id, BridgeMeter { provider, config, created });
        Ok(())
    }

    /// Removes a meter, or all of a bridge, with the rules that use it. It is fine if there is none.
    ///
    /// # Errors
    /// [`MeterModError::NoBridge`].
    pub fn remove_meters(&mut self, bridge: BridgeId, id: Option<u32>) -> Result<(), MeterModError> {
        let found = self.ofproto().bridge(bridge).ok_or(MeterModError::NoBridge)?;
        let meters = found.meters().iter().filter(|(number, _)| id.is_none_or(|id| id == **number));
        let gone: Vec<(u32, u32)> = meters.map(|(number, meter)| (*number, meter.provider)).collect();
        for (number, provider) in gone {
            self.ofproto_mut().remove_meter(bridge, number);
            self.meters_mut().remove(provider);
        }
        Ok(())
    }
}
