//! Changes to flow tables.
//!
//! Counterpart: OVS `struct ofputil_flow_mod`.

use super::action::OfActions;
use super::rule_match::Match;
use crate::types::{OfPort, TableId};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowModCommand {
    /// Add a rule, in place of one with the same match and priority.
    Add,
    /// Change the actions of all rules that the match covers; add if there are none.
    Modify,
    /// Change the actions of the rule with the same match and priority; add if there is none.
    ModifyStrict,
    /// Delete all rules that the match covers.
    Delete,
    /// Delete the rule with the same match and priority.
    DeleteStrict,
}

/// Flags of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowModFlags {
    /// Tell controllers when it goes.
    pub send_flow_rem: bool,
    /// Refuse if another rule of the same priority overlaps.
    pub check_overlap: bool,
    /// Start counters again.
    pub reset_counts: bool,
    /// Do not count packets.
    pub no_packet_counts: bool,
    /// Do not count bytes.
    pub no_byte_counts: bool,
}

/// A change to the flow tables of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowModCommand,
    /// Table; `None` is the first when adding, all when deleting.
    pub table: Option<TableId>,
    /// Priority, 0 to 65535.
    pub priority: u16,
    /// Packets, or rules, concerned.
    pub rule_match: Match,
    /// Only rules with this cookie in the bits of [`Self::cookie_mask`]; never when adding.
    pub cookie: u64,
    /// See [`Self::cookie`].
    pub cookie_mask: u64,
    /// Cookie of the rule, new or changed; `None` leaves that of a changed one, and is 0 for a new one.
    pub new_cookie: Option<u64>,
    /// Seconds without a packet after which the rule goes; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which the rule goes; 0 is never.
    pub hard_timeout: u16,
    /// Rules of less importance are evicted first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowModFlags,
    /// Only rules that output to this port, when deleting or dumping; [`OfPort::NONE`] is any.
    pub out_port: OfPort,
    /// Only rules that use this group, when deleting; `None` is any.
    pub out_group: Option<u32>,
    /// Actions.
    pub actions: OfActions,
}

impl FlowMod {
    /// A change of all rules with the default priority, without timeouts, flags and actions.
    pub fn new(command: FlowModCommand) -> Self {
        Self {
            command,
            table: None,
            priority: DEFAULT_PRIORITY,
            rule_match: Match::catch_all(),
            cookie: 0,
            cookie_mask: 0,
            new_cookie: None,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowModFlags::default(),
            out_port: OfPort::NONE,
            out_group: None,
            actions: OfActions::new(),
        }
    }
}

/// Priority of a rule that names none.
pub const DEFAULT_PRIORITY: u16 = 0x8000;
