//! Differences that are Open vSwitch's: what it does, why ours is right, and in which versions.

use super::diff::Difference;
use super::ovs::Version;

/// One fault of Open vSwitch.
struct Known {
    /// First version that does not have it, if any has.
    fixed_in: Option<Version>,
    /// Whether a difference is this one.
    is: fn(&Difference) -> bool,
    /// What it is, in a line.
    why: &'static str,
}

const LIST: [Known; 0] = [];

/// Why a difference from this version is known, if it is.
pub fn known(difference: &Difference, version: Version) -> Option<&'static str> {
    let of = |one: &&Known| one.fixed_in.is_none_or(|fixed| version < fixed) && (one.is)(difference);
    LIST.iter().find(of).map(|one| one.why)
}
