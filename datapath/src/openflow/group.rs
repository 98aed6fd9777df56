//! Groups and changes to them.
//!
//! Counterpart: OVS `struct ofputil_group_mod`, `include/openvswitch/ofp-group.h`.

use super::action::OfActions;
use super::field::{Field, FieldValue};
use crate::types::OfPort;

/// Number above those of real groups (OpenFlow `OFPG_MAX`).
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// All groups, when deleting (OpenFlow `OFPG_ALL`).
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// Largest number of a bucket (OpenFlow 1.5 `OFPG_BUCKET_MAX`).
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// What a group does with its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    /// All of them.
    All,
    /// One, by weight and hash.
    Select,
    /// Its only one.
    Indirect,
    /// The first live one.
    FastFailover,
}

/// One bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Number, unique in the group.
    pub id: u32,
    /// Weight, for [`GroupType::Select`].
    pub weight: u16,
    /// Alive while this port is; [`OfPort::NONE`] if not watched.
    pub watch_port: OfPort,
    /// Alive while this group is, if watched.
    pub watch_group: Option<u32>,
    /// Actions.
    pub actions: OfActions,
}

/// How a select group chooses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupProps {
    /// `hash`, `dp_hash`, or the switch's default (empty).
    pub selection_method: String,
    /// Argument of the method.
    pub selection_method_param: u64,
    /// Fields to hash, with masks, in order of OVS's field numbers.
    pub fields: Vec<(Field, FieldValue)>,
}

/// What to do with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupModCommand {
    /// Add.
    Add,
    /// Change.
    Modify,
    /// Add, or change if it exists.
    AddOrModify,
    /// Delete.
    Delete,
    /// Insert buckets at a place.
    InsertBucket(BucketPlace),
    /// Remove buckets.
    RemoveBucket(BucketPlace),
}

/// Which bucket, in insertion and removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// First; before the first.
    First,
    /// Last; after the last.
    Last,
    /// All (removal only).
    All,
    /// This one; after this one.
    Id(u32),
}

/// A change to the groups of a bridge.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupModCommand,
    /// Which group; [`GROUP_ALL`] when deleting all.
    pub group_id: u32,
    /// Kind.
    pub kind: GroupType,
    /// Buckets.
    pub buckets: Vec<Bucket>,
    /// How it chooses.
    pub props: GroupProps,
}
