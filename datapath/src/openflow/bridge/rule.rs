//! Rules of flow tables, and which of their actions can be carried out.
//!
//! Counterpart: `struct rule` of OVS `ofproto/ofproto-provider.h`; `ofproto_check_ofpacts()` of `ofproto/ofproto.c`.

use thiserror::Error;

use crate::openflow::action::{Controller, OfAction, OfActions};
use crate::openflow::classifier::{Conjunction, RuleId};
use crate::openflow::flow_mod::FlowModFlags;
use crate::openflow::rule_match::Match;
use crate::types::{TableId, Time};

/// OpenFlow packet-in reasons (`ofp_packet_in_reason`).
pub mod reason {
    /// No rule matched.
    pub const NO_MATCH: u16 = 0;
    /// An action in a rule.
    pub const ACTION: u16 = 1;
    /// TTL became invalid.
    pub const INVALID_TTL: u16 = 2;
    /// An action in the action set.
    pub const ACTION_SET: u16 = 3;
    /// An action in a group's bucket.
    pub const GROUP: u16 = 4;
    /// An action in a packet-out.
    pub const PACKET_OUT: u16 = 5;
    /// OVS's own: an action in a table-miss rule.
    pub const EXPLICIT_MISS: u16 = 6;
    /// OVS's own: no rule matched.
    pub const IMPLICIT_MISS: u16 = 7;
}

/// What kind of rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// One from a flow table.
    User,
    /// None matched, and controllers are told.
    Miss,
    /// None matched.
    NoPacketIn,
    /// The packet is a fragment, and fragments are dropped.
    DropFragments,
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Identity.
    pub id: RuleId,
    /// Kind.
    pub kind: RuleKind,
    /// Table.
    pub table: TableId,
    /// Priority.
    pub priority: u16,
    /// Packets it applies to.
    pub rule_match: Match,
    /// Cookie.
    pub cookie: u64,
    /// Seconds without a packet after which it goes; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 is never.
    pub hard_timeout: u16,
    /// Rules of less importance are evicted first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowModFlags,
    /// When it was made.
    pub created: Time,
    /// When it was last changed.
    pub modified: Time,
    /// Actions.
    pub actions: OfActions,
}

impl Rule {
    /// A rule that no table holds.
    pub(super) fn internal(kind: RuleKind) -> Self {
        let to_controller = Controller {
            max_len: u16::MAX,
            id: 0,
            reason: reason::IMPLICIT_MISS,
            userdata: Vec::new(),
            pause: false,
            meter_id: 0,
        };
        Self {
            id: RuleId::default(),
            kind,
            table: TableId(254),
            priority: 0,
            rule_match: Match::catch_all(),
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowModFlags::default(),
            created: Time::ZERO,
            modified: Time::ZERO,
            actions: match kind {
                RuleKind::Miss => vec![OfAction::Controller(Box::new(to_controller))],
                RuleKind::User | RuleKind::NoPacketIn | RuleKind::DropFragments => Vec::new(),
            },
        }
    }

    /// Whether it catches what no other rule of its table does: priority 0, matching all (OpenFlow 1.3, 5.4).
    pub fn is_table_miss(&self) -> bool {
        self.kind == RuleKind::User && self.priority == 0 && self.rule_match.is_catch_all()
    }

    /// The conjunctions that it is a part of.
    pub fn conjunctions(&self) -> Vec<Conjunction> {
        conjunctions(&self.actions)
    }
}

/// The conjunctions in a list of actions.
pub(super) fn conjunctions(actions: &[OfAction]) -> Vec<Conjunction> {
    let parts = actions.iter().filter_map(|action| match *action {
        OfAction::Conjunction { id, clause, n_clauses } => Some(Conjunction { id, clause, n_clauses }),
        _ => None,
    });
    parts.collect()
}

/// Why a rule was refused; where OpenFlow has a name for it, it comes first.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// Another rule of the same priority overlaps.
    #[error("OFPFMFC_OVERLAP: overlaps another rule of the same priority")]
    Overlap,
    /// The table is full.
    #[error("OFPFMFC_TABLE_FULL: the table has no place for another rule")]
    TableFull,
    /// A group that does not exist.
    #[error("OFPBAC_BAD_OUT_GROUP: there is no group {0}")]
    NoGroup(u32),
    /// A meter that does not exist.
    #[error("OFPMMFC_INVALID_METER: there is no meter {0}")]
    NoMeter(u32),
    /// A table that does not exist.
    #[error("OFPBRC_BAD_TABLE_ID: there is no table {0}")]
    NoTable(u8),
    /// A `tun_metadata` field that stands for no option.
    #[error("NXFMFC_INVALID_TLV_FIELD: a tun_metadata field stands for no option: see add-tlv-map")]
    UnknownOption,
    /// An action that this switch does not carry out.
    #[error("action {0} is not supported")]
    Unsupported(&'static str),
}

/// Checks that every action, nested ones included, can be carried out.
///
/// # Errors
/// [`RuleError::Unsupported`] names the first that cannot.
pub fn check_actions(actions: &[OfAction]) -> Result<(), RuleError> {
    for action in actions {
        if let Some(name) = unsupported(action) {
            return Err(RuleError::Unsupported(name));
        }
        match action {
            OfAction::Clone(nested) | OfAction::WriteActions(nested) => check_actions(nested)?,
            _ => {}
        }
    }
    Ok(())
}

/// The name of an action that is not carried out yet.
fn unsupported(action: &OfAction) -> Option<&'static str> {
    match action {
        OfAction::Sample(_) => Some("sample"),
        OfAction::Controller(c) if c.pause => Some("controller(pause)"),
        OfAction::Controller(c) if c.meter_id != 0 => Some("controller(meter_id)"),
        OfAction::Output { .. }
        | OfAction::OutputReg { .. }
        | OfAction::OutputTrunc { .. }
        | OfAction::Controller(_)
        | OfAction::Enqueue { .. }
        | OfAction::Group(_)
        | OfAction::SetField(_)
        | OfAction::DeleteField(_)
        | OfAction::SetTunnel { .. }
        | OfAction::Encap(_)
        | OfAction::Decap(_)
        | OfAction::DecNshTtl
        | OfAction::SetVlanVid { .. }
        | OfAction::SetVlanPcp { .. }
        | OfAction::StripVlan { .. }
        | OfAction::PushVlan(_)
        | OfAction::SetEthSrc(_)
        | OfAction::SetEthDst(_)
        | OfAction::SetIpv4Src(_)
        | OfAction::SetIpv4Dst(_)
        | OfAction::SetIpDscp(_)
        | OfAction::SetIpEcn(_)
        | OfAction::SetIpTtl(_)
        | OfAction::SetL4Src(_)
        | OfAction::SetL4Dst(_)
        | OfAction::Move { .. }
        | OfAction::Push(_)
        | OfAction::Pop(_)
        | OfAction::DecTtl { .. }
        | OfAction::SetMplsLabel(_)
        | OfAction::SetMplsTc(_)
        | OfAction::SetMplsTtl(_)
        | OfAction::DecMplsTtl
        | OfAction::PushMpls(_)
        | OfAction::PopMpls(_)
        | OfAction::SetQueue(_)
        | OfAction::PopQueue
        | OfAction::FinTimeout { .. }
        | OfAction::Resubmit(_)
        | OfAction::Conjunction { .. }
        | OfAction::Learn(_)
        | OfAction::Multipath(_)
        | OfAction::Bundle(_)
        | OfAction::Note(_)
        | OfAction::Exit
        | OfAction::Clone(_)
        | OfAction::CheckPktLarger { .. }
        | OfAction::DebugRecirc
        | OfAction::DebugSlow
        | OfAction::ClearActions
        | OfAction::WriteActions(_)
        | OfAction::WriteMetadata { .. }
        | OfAction::GotoTable(_)
        | OfAction::Ct(_)
        | OfAction::CtClear
        | OfAction::Nat(_)
        | OfAction::Meter(_) => None,
    }
}

/// Calls `found` for each group that the actions, nested ones included, send to.
pub(super) fn each_group(actions: &[OfAction], found: &mut impl FnMut(u32)) {
    for action in actions {
        match action {
            OfAction::Group(id) => found(*id),
            OfAction::Clone(nested) | OfAction::WriteActions(nested) => each_group(nested, found),
            _ => {}
        }
    }
}

/// Calls `found` for each meter that the actions, nested ones included, apply.
pub(super) fn each_meter(actions: &[OfAction], found: &mut impl FnMut(u32)) {
    for action in actions {
        match action {
            OfAction::Meter(id) => found(*id),
            OfAction::Clone(nested) | OfAction::WriteActions(nested) => each_meter(nested, found),
            _ => {}
        }
    }
}
