//! OpenFlow versions, and which of them can say what.
//!
//! Counterpart: OVS `enum ofputil_protocol` (`include/openvswitch/ofp-protocol.h`) and the `usable_protocols_*` of
//! `struct mf_field`. A rule that no protocol can express is refused.

use super::field::{Field, FieldValue};

bitflags::bitflags! {
    /// A set of ways to write flows on the wire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Protocols: u16 {
        /// OpenFlow 1.0, standard match.
        const OF10_STD = 1 << 0;
        /// The same, with the table id extension.
        const OF10_STD_TID = 1 << 1;
        /// OpenFlow 1.0 with the Nicira extended match.
        const OF10_NXM = 1 << 2;
        /// The same, with the table id extension.
        const OF10_NXM_TID = 1 << 3;
        /// OpenFlow 1.1.
        const OF11 = 1 << 4;
        /// OpenFlow 1.2.
        const OF12 = 1 << 5;
        /// OpenFlow 1.3.
        const OF13 = 1 << 6;
        /// OpenFlow 1.4.
        const OF14 = 1 << 7;
        /// OpenFlow 1.5.
        const OF15 = 1 << 8;

        /// OpenFlow 1.0 in any form.
        const OF10_ANY = 0xf;
        /// OpenFlow 1.0 with the extended match.
        const OF10_NXM_ANY = Self::OF10_NXM.bits() | Self::OF10_NXM_TID.bits();
        /// OpenFlow 1.5 and later.
        const OF15_UP = Self::OF15.bits();
        /// OpenFlow 1.3 and later.
        const OF13_UP = Self::OF13.bits() | Self::OF14.bits() | Self::OF15.bits();
        /// OpenFlow 1.2 and later.
        const OF12_UP = Self::OF12.bits() | Self::OF13_UP.bits();
        /// OpenFlow 1.1 and later.
        const OF11_UP = Self::OF11.bits() | Self::OF12_UP.bits();
        /// Extensible matches.
        const NXM_OXM_ANY = Self::OF10_NXM_ANY.bits() | Self::OF12_UP.bits();
        /// All but the standard match of OpenFlow 1.0.
        const NXM_OF11_UP = Self::OF10_NXM_ANY.bits() | Self::OF11_UP.bits();
        /// Those that name a table.
        const TID = Self::OF10_STD_TID.bits() | Self::OF10_NXM_TID.bits() | Self::OF11_UP.bits();
        /// All.
        const ANY = 0x1ff;
    }
}

/// An OpenFlow version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfVersion {
    /// OpenFlow 1.0, with the Nicira extensions.
    Of10,
    /// OpenFlow 1.1.
    Of11,
    /// OpenFlow 1.2.
    Of12,
    /// OpenFlow 1.3.
    Of13,
    /// OpenFlow 1.4.
    Of14,
    /// OpenFlow 1.5.
    Of15,
}

impl OfVersion {
    /// Every version, with its name in `-O` and in the `protocols` column.
    pub const NAMES: [(Self, &'static str); 6] = [
        (Self::Of10, "OpenFlow10"),
        (Self::Of11, "OpenFlow11"),
        (Self::Of12, "OpenFlow12"),
        (Self::Of13, "OpenFlow13"),
        (Self::Of14, "OpenFlow14"),
        (Self::Of15, "OpenFlow15"),
    ];

    /// Its protocols.
    pub const fn protocols(self) -> Protocols {
        match self {
            Self::Of10 => Protocols::OF10_ANY,
            Self::Of11 => Protocols::OF11,
            Self::Of12 => Protocols::OF12,
            Self::Of13 => Protocols::OF13,
            Self::Of14 => Protocols::OF14,
            Self::Of15 => Protocols::OF15,
        }
    }

    /// What a printed message has behind its name.
    pub const fn note(self) -> &'static str {
        match self {
            Self::Of10 => "",
            Self::Of11 => " (OF1.1)",
            Self::Of12 => " (OF1.2)",
            Self::Of13 => " (OF1.3)",
            Self::Of14 => " (OF1.4)",
            Self::Of15 => " (OF1.5)",
        }
    }

    /// The version of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| n.eq_ignore_ascii_case(name)).map(|&(v, _)| v)
    }
}

/// How far OpenFlow 1.0 and 1.1 can match a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Legacy {
    No,
    Exact,
    Prefix,
    Bits,
}

/// What the fixed matches of OpenFlow 1.0 and 1.1 can do with a field.
fn legacy(field: Field) -> (Legacy, Legacy) {
    match field {
        Field::InPort
        | Field::EthType
        | Field::VlanTci
        | Field::DlVlan
        | Field::VlanVid
        | Field::DlVlanPcp
        | Field::VlanPcp
        | Field::NwProto
        | Field::NwTos
        | Field::IpDscp
        | Field::ArpOp
        | Field::TcpSrc
        | Field::TcpDst
        | Field::UdpSrc
        | Field::UdpDst
        | Field::IcmpType
        | Field::IcmpCode => (Legacy::Exact, Legacy::Exact),
        Field::EthSrc | Field::EthDst => (Legacy::Exact, Legacy::Bits),
        Field::IpSrc | Field::IpDst | Field::ArpSpa | Field::ArpTpa => (Legacy::Prefix, Legacy::Bits),
        Field::Metadata => (Legacy::No, Legacy::Bits),
        Field::InPortOxm
        | Field::MplsLabel
        | Field::MplsTc
        | Field::NwEcn
        | Field::SctpSrc
        | Field::SctpDst => (Legacy::No, Legacy::Exact),
        _ => (Legacy::No, Legacy::No),
    }
}

/// The protocols that can match `field` with these bits.
pub(crate) fn usable(field: Field, mask: &FieldValue) -> Protocols {
    let info = field.info();
    if mask.is_zero() {
        return Protocols::ANY;
    }
    let exact = *mask & FieldValue::ones(info.n_bytes * 8) == FieldValue::ones(info.n_bytes * 8);
    let prefix = exact || info.n_bytes == 4 && (mask.low() as u32).leading_ones() == mask.count_ones();
    if !exact && !info.maskable {
        return Protocols::empty();
    }
    let can = |legacy: Legacy| match legacy {
        Legacy::No => false,
        Legacy::Exact => exact,
        Legacy::Prefix => prefix,
        Legacy::Bits => true,
    };
    if field == Field::VlanTci && !exact {
        // Behind OpenFlow 1.0 a priority is matched as a whole, and with a tag only. OVS sends other masks all the same,
        // and so loses them.
        let (priority, tag) = (mask.low() & 0xe000, mask.low() & 0x1000 != 0);
        let fits = priority == 0 || priority == 0xe000 && tag;
        return if fits { Protocols::NXM_OXM_ANY } else { Protocols::OF10_NXM_ANY };
    }
    let (of10, of11) = legacy(field);
    if can(of10) {
        Protocols::ANY
    } else if can(of11) {
        Protocols::NXM_OF11_UP
    } else if info.nxm.is_empty() {
        Protocols::empty()
    } else {
        Protocols::NXM_OXM_ANY
    }
}
