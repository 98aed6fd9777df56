//! The slow path: OpenFlow bridges, tables, groups, NORMAL, and translation of a miss into a megaflow and datapath actions.

pub mod action;
pub mod classifier;
pub mod field;
pub mod flow_mod;
pub mod group;
#[allow(dead_code)] // what translation does not use yet
pub(crate) mod headers;
pub mod protocol;
pub mod rule_match;
pub mod text;
pub mod value;

pub use action::{OfAction, OfActions};
pub use field::{Field, FieldValue, Subfield};
pub use flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
pub use group::{Bucket, GroupMod, GroupModCommand, GroupType};
pub use rule_match::Match;
