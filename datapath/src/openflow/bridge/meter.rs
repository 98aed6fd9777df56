//! Meters of a bridge: which one of the datapath stands for each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Bridge;
use super::rule::{Rule, each_meter};
use super::table::RuleFilter;
use crate::meter::MeterConfig;
use crate::openflow::rule_match::Match;
use crate::types::{OfPort, Time};

/// A meter as a bridge knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeMeter {
    /// Its number in the datapath.
    pub provider: u32,
    /// What it is to do.
    pub config: MeterConfig,
    /// When it was made.
    pub created: Time,
}

impl Bridge {
    /// Meters by their OpenFlow numbers.
    pub fn meters(&self) -> &BTreeMap<u32, BridgeMeter> {
        &self.meters
    }

    /// Rules that use a meter.
    pub fn rules_with_meter(&self, meter: u32) -> Vec<Arc<Rule>> {
        let all = Match::catch_all();
        let everything = RuleFilter {
            table: None,
            rule_match: &all,
            cookie: (0, 0),
            out_port: OfPort::NONE,
            out_group: None,
        };
        let mut rules = self.find_rules(&everything);
        rules.retain(|rule| {
            let mut found = false;
            each_meter(&rule.actions, &mut |id| found |= id == meter);
            found
        });
        rules
    }
}
