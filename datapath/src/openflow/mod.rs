//! The slow path: OpenFlow bridges, tables, groups, NORMAL, and translation of a miss into a megaflow and datapath actions.

pub mod action;
pub mod bridge;
pub mod classifier;
pub mod command;
pub mod field;
pub mod flow_mod;
pub mod group;
pub(crate) mod headers;
pub mod mac_learning;
pub mod mcast_snooping;
pub mod ofproto;
pub mod protocol;
pub mod recirc;
pub mod rule_match;
pub mod text;
pub mod tunnel;
pub mod value;
pub mod wire;
pub mod xlate;
pub mod zones;

pub use action::{OfAction, OfActions};
pub use field::{Field, FieldValue, Subfield};
pub use flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
pub use group::{Bucket, GroupMod, GroupModCommand, GroupType};
pub use ofproto::Ofproto;
pub use rule_match::Match;
