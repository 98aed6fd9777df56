//! `recirc compare`: a scenario's packets and commands through real Open vSwitch, and where it differs from ours.
//!
//! The scenario runs here first; what came to each datapath, in which order, and what left it is recorded
//! ([`mod@record`]). Then an Open vSwitch of its own, in a private folder with dummy ports, meets the same packets and commands
//! ([`mod@replay`]), and both are compared ([`mod@diff`]). Links and hosts are thus never simulated twice. Differences that are
//! Open vSwitch's fault are listed in [`mod@known`].
//!
//! Never decides anything about a packet, and leaves nothing running.

mod actions;
mod diff;
mod flows;
mod known;
mod ovs;
pub mod random;
mod record;
mod replay;

pub use diff::{Difference, Place};
pub use known::known;
pub use ovs::{Ovs, OvsError, Prefix, Version};
pub use record::{Recording, incomparable, record};

/// The first version whose dummy ports can be told which offloads they have.
pub const OFFLOADS_SINCE: Version = Version(3, 6, 0);

/// Sends a recording through a fresh Open vSwitch, and tells where that differs from ours: packets first, in order, then
/// datapath flows. `tell` hears of each input that is done.
///
/// # Errors
/// That Open vSwitch could not be started, or refused what sets the switch up.
pub fn compare(
    recording: &Recording,
    prefix: &Prefix,
    tell: &mut dyn FnMut(),
) -> Result<Vec<Difference>, OvsError> {
    let mut ovs = Ovs::start(prefix, &replay::before_start(recording))?;
    let answers = replay::replay(recording, &mut ovs, tell)?;
    // What is not used any more is gone by then, here and there.
    ovs.advance_to(recording.end)?;
    ovs.settle()?;
    let theirs = ovs.flows()?;
    let mut found = Vec::new();
    for (index, (input, answer)) in recording.inputs.iter().zip(&answers).enumerate() {
        found.extend(diff::outputs(index, input, answer));
    }
    found.extend(diff::flow_tables(&recording.flows, &theirs));
    Ok(found)
}
