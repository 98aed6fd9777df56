//! What packets a rule applies to.
//!
//! Owns [`Match`] and the setting of fields in it. Never looks at packets: that is the classifier's.
//! Counterpart: OVS `struct match`, `lib/match.c`, and `mf_set` of `lib/meta-flow.c`.

use std::fmt;

use super::field::{Field, FieldValue, Place, VlanPart};
use super::text::{NoNames, match_to_text};
use crate::flow::{Flow, VLAN_CFI};

/// Id bits of a VLAN tag.
const VID: u16 = 0x0fff;
/// Priority bits of a VLAN tag.
const PCP: u16 = 0xe000;
/// `dl_vlan` of untagged packets (OVS `OFP10_VLAN_NONE`).
const NO_VLAN: u16 = 0xffff;

/// A match on a `tun_metadata` field. Where the option lies in a key is known to the bridge only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunMetadataMatch {
    /// Number of the field, 0 to 63.
    pub index: u8,
    /// Value, already masked.
    pub value: FieldValue,
    /// Significant bits; none of them: the option must be there, with any value.
    pub mask: FieldValue,
    /// Whether the whole option is matched, however long it is.
    pub exact: bool,
}

/// Values and which of their bits are significant.
///
/// Invariant: `flow` has no bit that `mask` has not. Port numbers in `in_port` and `actset_output` are OpenFlow's, and are
/// matched with all 32 bits.
#[derive(Clone, Default, PartialEq)]
pub struct Match {
    /// Values.
    pub flow: Flow,
    /// Significant bits.
    pub mask: Flow,
    /// Matches on `tun_metadata`, by ascending number.
    pub tun_metadata: Vec<TunMetadataMatch>,
}

/// As it is written in rules.
impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Match({})", match_to_text(self, None, &NoNames))
    }
}

impl Match {
    /// Matches every packet.
    pub fn catch_all() -> Self {
        Self::default()
    }

    /// Whether it matches every packet.
    pub fn is_catch_all(&self) -> bool {
        self.mask == Flow::default() && self.tun_metadata.is_empty()
    }

    /// Requires the bits of `mask` in `field` to equal those of `value`, in place of what was required of the field
    /// before (OVS `mf_set`). A zero mask requires nothing, but of `tun_metadata` that the option is there.
    pub fn set(&mut self, field: Field, value: &FieldValue, mask: &FieldValue) {
        match field.info().place {
            Place::TunMetadata => self.set_tun_metadata(field.index().unwrap_or(0), value, mask),
            Place::Vlan(part) => self.set_vlan(part, value.low() as u16, mask.low() as u16),
            Place::Port11 { .. } => self.set_port(field, value, mask),
            Place::Host { .. } if field == Field::InPort => self.set_port(field, value, mask),
            Place::Net { .. } | Place::Host { .. } | Place::Regs { .. } | Place::Dscp | Place::NshContext => {
                field.set(&mut self.mask, mask);
                field.set(&mut self.flow, &(*value & *mask));
            }
        }
    }

    /// Requires all of `field` to equal `value`, and bits beside it that belong to no other field to be 0.
    pub fn set_exact(&mut self, field: Field, value: &FieldValue) {
        let bits = if field == Field::VlanVid { 13 } else { field.n_bits() };
        self.set(field, value, &FieldValue::ones(bits));
        match field {
            Field::IcmpType | Field::Icmpv6Type => self.mask.tp_src.set(u16::MAX),
            Field::IcmpCode | Field::Icmpv6Code => self.mask.tp_dst.set(u16::MAX),
            Field::NdOptionsType | Field::TcpFlags => self.mask.tcp_flags.set(u16::MAX),
            Field::Ipv6Label => self.mask.ipv6_label.set(u32::MAX),
            _ => {}
        }
    }

    /// The value required of `field`, and which of its bits.
    pub fn get(&self, field: Field) -> (FieldValue, FieldValue) {
        if let Field::TunMetadata(index) = field {
            let found = self.tun_metadata.iter().find(|m| m.index == index);
            return found.map_or((FieldValue::ZERO, FieldValue::ZERO), |m| (m.value, m.mask));
        }
        (field.get(&self.flow), field.get(&self.mask))
    }

    /// Sets the match on `tun_metadata<index>`.
    fn set_tun_metadata(&mut self, index: u8, value: &FieldValue, mask: &FieldValue) {
        let exact = *mask == FieldValue::ones(Field::TunMetadata(0).n_bits());
        self.tun_metadata.retain(|m| m.index != index);
        let at = self.tun_metadata.partition_point(|m| m.index < index);
        self.tun_metadata.insert(at, TunMetadataMatch { index, value: *value & *mask, mask: *mask, exact });
    }

    fn set_port(&mut self, field: Field, value: &FieldValue, mask: &FieldValue) {
        let all = if mask.is_zero() { 0 } else { u32::MAX };
        if field == Field::ActsetOutput {
            self.mask.actset_output = all;
        } else {
            self.mask.in_port = all;
        }
        field.set(&mut self.flow, &(*value & FieldValue::ones(all.count_ones())));
    }

    /// Sets a part of the outermost tag. As in OVS an id requires a tag, `dl_vlan` 0xffff requires none, and a priority
    /// requires a tag; taking away the last of id and priority takes away that requirement too.
    fn set_vlan(&mut self, part: VlanPart, value: u16, mask: u16) {
        let (old_value, old_mask) = (self.flow.vlans[0].tci.get(), self.mask.vlans[0].tci.get());
        // What the tag was required to have beside this part, and what of that stays if the part goes.
        let other = match part {
            VlanPart::Tci => 0,
            VlanPart::Id | VlanPart::IdCfi => PCP,
            VlanPart::Pcp => VID,
        };
        let other_with_tag = if old_mask & other != 0 { other | VLAN_CFI } else { 0 };
        let (keep, value, mask) = match part {
            VlanPart::Id | VlanPart::IdCfi | VlanPart::Pcp if mask == 0 => (other_with_tag, 0, 0),
            VlanPart::Tci => (0, value, mask),
            VlanPart::Id if value == NO_VLAN => (0, 0, u16::MAX),
            VlanPart::Id => (PCP, value & VID | VLAN_CFI, VID | VLAN_CFI),
            VlanPart::IdCfi => (PCP, value & (VID | VLAN_CFI), mask & (VID | VLAN_CFI)),
            VlanPart::Pcp => (VID, value << 13 | VLAN_CFI, PCP | VLAN_CFI),
        };
        self.mask.vlans[0].tci.set(old_mask & keep | mask);
        self.flow.vlans[0].tci.set(old_value & keep | value & mask);
    }
}
