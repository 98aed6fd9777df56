//! GENEVE options that a bridge's `tun_metadata` fields stand for, and the rules that rely on that.
//!
//! Counterpart: `vl_mff_map` of OVS `lib/vl-mff-map.h`, `handle_tlv_table_mod()` of `ofproto/ofproto.c`.

use super::Bridge;
use super::rule::RuleError;
use crate::openflow::action::{LearnDst, LearnSrc, OfAction};
use crate::openflow::field::Field;
use crate::openflow::flow_mod::FlowMod;
use crate::openflow::tunnel::{TunTable, TunTableError};

/// Calls `found` for each field that the actions, nested ones included, read or write.
fn each_field(actions: &[OfAction], found: &mut impl FnMut(Field)) {
    for action in actions {
        match action {
            OfAction::SetField(set) => found(set.field),
            OfAction::Move { src, dst } => {
                found(src.field);
                found(dst.field);
            }
            OfAction::Push(part) | OfAction::Pop(part) => found(part.field),
            OfAction::OutputReg { src, .. } => found(src.field),
            OfAction::DeleteField(field) => found(*field),
            OfAction::CheckPktLarger { dst, .. } => found(dst.field),
            OfAction::Multipath(multipath) => found(multipath.dst.field),
            OfAction::Bundle(bundle) => bundle.dst.iter().for_each(|dst| found(dst.field)),
            OfAction::Learn(learn) => {
                for spec in &learn.specs {
                    if let LearnSrc::Field(src) = &spec.src {
                        found(src.field);
                    }
                    if let LearnDst::Match(dst) | LearnDst::Load(dst) = &spec.dst {
                        found(dst.field);
                    }
                }
            }
            OfAction::Clone(nested) | OfAction::WriteActions(nested) => each_field(nested, found),
            _ => {}
        }
    }
}

impl Bridge {
    /// Checks that all options which a rule looks at or writes are known.
    pub(super) fn check_options(&self, change: &FlowMod) -> Result<(), RuleError> {
        let mut known =
            change.rule_match.tun_metadata.iter().all(|m| self.tun_table.len_of(m.index).is_some());
        each_field(&change.actions, &mut |field| {
            if let Field::TunMetadata(index) = field {
                known &= self.tun_table.len_of(index).is_some();
            }
        });
        if known { Ok(()) } else { Err(RuleError::UnknownOption) }
    }

    /// Whether a rule relies on what a field stands for.
    fn uses_option(&self, index: u8) -> bool {
        self.rules.values().any(|rule| {
            let mut used = rule.rule_match.tun_metadata.iter().any(|m| m.index == index);
            each_field(&rule.actions, &mut |field| used |= field == Field::TunMetadata(index));
            used
        })
    }

    /// Replaces the mappings.
    ///
    /// # Errors
    /// [`TunTableError::Used`] if one goes that rules rely on.
    pub(in crate::openflow) fn set_tun_table(&mut self, table: TunTable) -> Result<(), TunTableError> {
        let gone =
            self.tun_table.iter().map(|(index, _)| index).filter(|&index| table.len_of(index).is_none());
        for index in gone {
            if self.uses_option(index) {
                return Err(TunTableError::Used(index));
            }
        }
        self.tun_table = table;
        Ok(())
    }
}
