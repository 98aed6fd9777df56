//! The groups of a bridge, and how a select group maps hashes to buckets.
//!
//! Counterpart: the group part of OVS `ofproto/ofproto.c` and `ofproto/ofproto-dpif.c`.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::action::HashAlg;
use crate::openflow::group::{
    BUCKET_MAX, Bucket, BucketPlace, GROUP_ALL, GROUP_MAX, GroupMod, GroupModCommand, GroupProps, GroupType,
};
use crate::types::Time;

/// Most hash values that a select group maps (OVS `MAX_SELECT_GROUP_HASH_VALUES`).
const MAX_HASH_VALUES: u64 = 256;
/// Number of `OVS_HASH_ALG_SYM_L4`.
const HASH_ALG_SYM_L4: u64 = 1;

/// How a select group finds a bucket.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// Over addresses and ports, at translation.
    Default,
    /// Over the fields in the group's properties, at translation.
    Fields,
    /// Over a hash that the datapath computes.
    DpHash {
        /// How it computes that.
        alg: HashAlg,
        /// Bucket (index) for each hash value; the length is a power of two.
        map: Box<[u32]>,
    },
}

/// A group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Number.
    pub id: u32,
    /// Kind.
    pub kind: GroupType,
    /// Buckets, in order.
    pub buckets: Vec<Bucket>,
    /// How a select group chooses, as configured.
    pub props: GroupProps,
    /// How it chooses.
    pub selection: Selection,
    /// When it was made.
    pub created: Time,
    /// When it was last changed.
    pub modified: Time,
}

/// Why a group was not changed; the names are those of OpenFlow's errors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// Exists already.
    #[error("OFPGMFC_GROUP_EXISTS: group {0} exists already")]
    Exists(u32),
    /// Does not exist.
    #[error("OFPGMFC_UNKNOWN_GROUP: there is no group {0}")]
    Unknown(u32),
    /// A number that no group can have.
    #[error("OFPGMFC_INVALID_GROUP: {0} is not a group number")]
    Invalid(u32),
    /// A bucket does not exist.
    #[error("OFPGMFC_UNKNOWN_BUCKET: group {group} has no bucket {bucket}")]
    UnknownBucket {
        /// Group.
        group: u32,
        /// Bucket.
        bucket: u32,
    },
    /// Two buckets with one number.
    #[error("OFPGMFC_BUCKET_EXISTS: group {group} has a bucket {bucket} already")]
    BucketExists {
        /// Group.
        group: u32,
        /// Bucket.
        bucket: u32,
    },
    /// An action in a bucket is refused.
    #[error("in bucket {bucket} of group {group}: {why}")]
    Action {
        /// Group.
        group: u32,
        /// Bucket.
        bucket: u32,
        /// Why.
        why: super::RuleError,
    },
}

/// What a change did, as far as flow tables are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// Groups that are gone: rules that use them go too.
    pub deleted: Vec<u32>,
}

/// The groups of a bridge.
#[derive(Clone, Debug, Default)]
pub struct GroupTable {
    groups: BTreeMap<u32, Arc<Group>>,
}

impl GroupTable {
    /// The group with number `id`.
    pub fn get(&self, id: u32) -> Option<&Arc<Group>> {
        self.groups.get(&id)
    }

    /// All groups, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    /// Adds, changes or deletes groups.
    ///
    /// # Errors
    /// [`GroupError`]; nothing is changed then.
    pub fn apply(&mut self, change: &GroupMod, now: Time) -> Result<GroupChange, GroupError> {
        let id = change.group_id;
        let exists = self.groups.contains_key(&id);
        match change.command {
            GroupModCommand::Add if exists => Err(GroupError::Exists(id)),
            GroupModCommand::Add => self.replace(change, change.buckets.clone(), now),
            GroupModCommand::Modify if !exists => Err(GroupError::Unknown(id)),
            GroupModCommand::Modify | GroupModCommand::AddOrModify => {
                self.replace(change, change.buckets.clone(), now)
            }
            GroupModCommand::Delete => Ok(self.delete(id)),
            GroupModCommand::InsertBucket(place) => {
                let old = self.groups.get(&id).ok_or(GroupError::Unknown(id))?.clone();
                let buckets = insert_buckets(&old, &change.buckets, place)?;
                self.replace(&as_before(&old), buckets, now)
            }
            GroupModCommand::RemoveBucket(place) => {
                let old = self.groups.get(&id).ok_or(GroupError::Unknown(id))?.clone();
                let buckets = remove_buckets(&old, place)?;
                self.replace(&as_before(&old), buckets, now)
            }
        }
    }

    fn delete(&mut self, id: u32) -> GroupChange {
        let deleted = if id == GROUP_ALL {
            std::mem::take(&mut self.groups).into_keys().collect()
        } else {
            self.groups.remove(&id).map(|group| group.id).into_iter().collect()
        };
        GroupChange { deleted }
    }

    fn replace(
        &mut self,
        change: &GroupMod,
        buckets: Vec<Bucket>,
        now: Time,
    ) -> Result<GroupChange, GroupError> {
        let id = change.group_id;
        if id > GROUP_MAX {
            return Err(GroupError::Invalid(id));
        }
        check_bucket_ids(id, &buckets)?;
        let selection = match change.kind {
            GroupType::Select => select_by(&change.props, &buckets),
            GroupType::All | GroupType::Indirect | GroupType::FastFailover => Selection::Default,
        };
        let created = self.groups.get(&id).map_or(now, |old| old.created);
        let props = change.props.clone();
        let group = Group { id, kind: change.kind, buckets, props, selection, created, modified: now };
        self.groups.insert(id, Arc::new(group));
        Ok(GroupChange::default())
    }
}

fn as_before(old: &Group) -> GroupMod {
    GroupMod {
        command: GroupModCommand::Modify,
        group_id: old.id,
        kind: old.kind,
        buckets: Vec::new(),
        props: old.props.clone(),
    }
}

fn check_bucket_ids(group: u32, buckets: &[Bucket]) -> Result<(), GroupError> {
    let mut ids: Vec<u32> = buckets.iter().map(|bucket| bucket.id).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GroupError::BucketExists { group, bucket: pair[0] }),
        None => Ok(()),
    }
}

fn place_of(group: &Group, bucket: u32) -> Result<usize, GroupError> {
    let at = group.buckets.iter().position(|b| b.id == bucket);
    at.filter(|_| bucket <= BUCKET_MAX).ok_or(GroupError::UnknownBucket { group: group.id, bucket })
}

fn insert_buckets(old: &Group, new: &[Bucket], place: BucketPlace) -> Result<Vec<Bucket>, GroupError> {
    let at = match place {
        BucketPlace::First => 0,
        BucketPlace::Last | BucketPlace::All => old.buckets.len(),
        BucketPlace::Id(bucket) => place_of(old, bucket)? + 1,
    };
    let mut buckets = old.buckets.clone();
    buckets.splice(at..at, new.iter().cloned());
    Ok(buckets)
}

fn remove_buckets(old: &Group, place: BucketPlace) -> Result<Vec<Bucket>, GroupError> {
    let mut buckets = old.buckets.clone();
    match place {
        BucketPlace::All => buckets.clear(),
        BucketPlace::First if buckets.is_empty() => {}
        BucketPlace::First => drop(buckets.remove(0)),
        BucketPlace::Last => drop(buckets.pop()),
        BucketPlace::Id(bucket) => drop(buckets.remove(place_of(old, bucket)?)),
    }
    Ok(buckets)
}

/// How a group with these properties chooses (OVS `group_set_selection_method`).
fn select_by(props: &GroupProps, buckets: &[Bucket]) -> Selection {
    match props.selection_method.as_str() {
        "hash" if props.fields.is_empty() => Selection::Default,
        "hash" => Selection::Fields,
        "dp_hash" => {
            let basis = props.selection_method_param as u32;
            let alg = match props.selection_method_param >> 32 {
                HASH_ALG_SYM_L4 => HashAlg::SymL4(basis),
                _ => HashAlg::L4(basis),
            };
            hash_map(buckets).map_or(Selection::Default, |map| Selection::DpHash { alg, map })
        }
        _ => {
            let alg = HashAlg::SymL4(0);
            hash_map(buckets).map_or(Selection::Default, |map| Selection::DpHash { alg, map })
        }
    }
}

/// Distributes hash values over buckets by weight: Webster's method, as OVS does, so that the same packets meet the
/// same buckets. `None` if no bucket has weight, or weights are too far apart for the number of values.
fn hash_map(buckets: &[Bucket]) -> Option<Box<[u32]>> {
    struct Seat {
        weight: f64,
        divisor: f64,
        value: f64,
    }
    let min_weight = u64::from(buckets.iter().map(|b| b.weight).filter(|&w| w > 0).min()?);
    let total: u64 = buckets.iter().map(|b| u64::from(b.weight)).sum();
    let by_weight = total.div_ceil(min_weight);
    let by_count = (buckets.len() as u64 * 4).min(MAX_HASH_VALUES);
    let n_hash = by_weight.max(by_count).next_power_of_two().max(16);
    if n_hash > MAX_HASH_VALUES {
        return None;
    }
    let mut seats: Vec<Seat> = buckets
        .iter()
        .map(|b| Seat { weight: f64::from(b.weight), divisor: 1.0, value: f64::from(b.weight) })
        .collect();
    let map = (0..n_hash).map(|_| {
        let mut winner = 0;
        for (i, seat) in seats.iter().enumerate() {
            if seat.value > seats[winner].value {
                winner = i;
            }
        }
        let seat = &mut seats[winner];
        seat.divisor += 2.0;
        seat.value = seat.weight / seat.divisor;
        winner as u32
    });
    Some(map.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::OfPort;

    fn bucket(id: u32, weight: u16) -> Bucket {
        Bucket { id, weight, watch_port: OfPort::NONE, watch_group: None, actions: Vec::new() }
    }

    fn group_mod(command: GroupModCommand, buckets: Vec<Bucket>) -> GroupMod {
        GroupMod { command, group_id: 1, kind: GroupType::Select, buckets, props: GroupProps::default() }
    }

    #[test]
    fn weights_share_the_hash_values() {
        let map = hash_map(&[bucket(0, 1), bucket(1, 3)]).unwrap();
        assert_eq!(map.len(), 16);
        assert_eq!(map.iter().filter(|&&b| b == 1).count(), 12);
        assert_eq!(hash_map(&[bucket(0, 0)]), None);
        assert_eq!(hash_map(&[bucket(0, 1), bucket(1, 300)]), None);
        assert_eq!(hash_map(&[]), None);
    }

    #[test]
    fn buckets_come_and_go() {
        let mut table = GroupTable::default();
        let now = Time::ZERO;
        table.apply(&group_mod(GroupModCommand::Add, vec![bucket(1, 1), bucket(2, 1)]), now).unwrap();
        let again = table.apply(&group_mod(GroupModCommand::Add, Vec::new()), now);
        assert_eq!(again, Err(GroupError::Exists(1)));
        let ids = |table: &GroupTable| table.get(1).unwrap().buckets.iter().map(|b| b.id).collect::<Vec<_>>();
        let insert = |place, id| group_mod(GroupModCommand::InsertBucket(place), vec![bucket(id, 0)]);
        table.apply(&insert(BucketPlace::First, 3), now).unwrap();
        table.apply(&insert(BucketPlace::Last, 4), now).unwrap();
        table.apply(&insert(BucketPlace::Id(1), 5), now).unwrap();
        assert_eq!(ids(&table), [3, 1, 5, 2, 4]);
        assert!(matches!(
            table.apply(&insert(BucketPlace::First, 5), now),
            Err(GroupError::BucketExists { bucket: 5, .. })
        ));
        assert!(matches!(
            table.apply(&insert(BucketPlace::Id(9), 6), now),
            Err(GroupError::UnknownBucket { bucket: 9, .. })
        ));
        let remove = |place| group_mod(GroupModCommand::RemoveBucket(place), Vec::new());
        table.apply(&remove(BucketPlace::First), now).unwrap();
        table.apply(&remove(BucketPlace::Id(5)), now).unwrap();
        assert_eq!(ids(&table), [1, 2, 4]);
        let gone =
            table.apply(&GroupMod { group_id: GROUP_ALL, ..group_mod(GroupModCommand::Delete, vec![]) }, now);
        assert_eq!(gone.unwrap().deleted, [1]);
        assert!(table.get(1).is_none());
    }
}
