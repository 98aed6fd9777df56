//! Which actions the datapath can execute. What it cannot is refused when a flow is put, so that nothing is ever skipped.

use thiserror::Error;

use super::{Action, SetField, SetGroup};

/// How deep action lists may be nested (OVS `MAX_ODP_NESTED`).
pub const MAX_NESTING: u8 = 32;

/// Why a list of actions is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// An action that the datapath does not know how to execute.
    #[error("the datapath cannot execute the action {0}")]
    Action(&'static str),
    /// A group of fields that no action writes.
    #[error("the datapath cannot set {0:?}")]
    Set(SetGroup),
    /// The headers that `tnl_push` carries are cut off, or not those of its tunnel type.
    #[error("the headers of tnl_push are not whole, or not those of its type")]
    Headers,
    /// Too deep.
    #[error("actions are nested deeper than {MAX_NESTING} levels")]
    Nesting,
}

/// Checks that all of `actions`, nested ones included, can be executed.
///
/// # Errors
/// The first that cannot.
pub fn check(actions: &[Action]) -> Result<(), Unsupported> {
    check_at(actions, 0)
}

fn check_at(actions: &[Action], depth: u8) -> Result<(), Unsupported> {
    if depth > MAX_NESTING {
        return Err(Unsupported::Nesting);
    }
    for action in actions {
        match action {
            Action::Output(_)
            | Action::Trunc(_)
            | Action::Userspace(_)
            | Action::PushVlan { .. }
            | Action::PopVlan
            | Action::PushMpls { .. }
            | Action::PopMpls(_)
            | Action::AddMpls { .. }
            | Action::Hash(_)
            | Action::Recirc(_)
            | Action::CtClear
            | Action::Ct(_)
            | Action::Meter(_)
            | Action::PushEth { .. }
            | Action::PopEth
            | Action::PushNsh(_)
            | Action::PopNsh
            | Action::TnlPop(_)
            | Action::Drop(_) => {}
            Action::Clone(actions) | Action::Sample { actions, .. } => check_at(actions, depth + 1)?,
            Action::CheckPktLen { greater, not_greater, .. } => {
                check_at(greater, depth + 1)?;
                check_at(not_greater, depth + 1)?;
            }
            Action::Set(field) | Action::SetMasked(field) => check_set(field)?,
            Action::TnlPush(push) => {
                push.layout().ok_or(Unsupported::Headers)?;
            }
            Action::LbOutput(_) => return Err(Unsupported::Action("lb_output")),
            Action::DecTtl(_) => return Err(Unsupported::Action("dec_ttl")),
            Action::Psample { .. } => return Err(Unsupported::Action("psample")),
        }
    }
    Ok(())
}

fn check_set(field: &SetField) -> Result<(), Unsupported> {
    if field.group.is_executable() { Ok(()) } else { Err(Unsupported::Set(field.group)) }
}

/// Whether a packet may leave the list by this action, or leave a trace in the datapath. Behind the last such action nothing that is done to a packet
/// can be seen, so that it is not done.
pub fn consumes(action: &Action) -> bool {
    match action {
        Action::Output(_)
        | Action::Userspace(_)
        | Action::Recirc(_)
        | Action::Clone(_)
        | Action::Sample { .. }
        | Action::CheckPktLen { .. }
        | Action::TnlPop(_)
        | Action::LbOutput(_)
        | Action::Meter(_)
        | Action::Ct(_)
        | Action::Drop(_)
        | Action::DecTtl(_)
        | Action::Psample { .. } => true,
        Action::Trunc(_)
        | Action::Set(_)
        | Action::SetMasked(_)
        | Action::PushVlan { .. }
        | Action::PopVlan
        | Action::PushMpls { .. }
        | Action::PopMpls(_)
        | Action::Hash(_)
        | Action::CtClear
        | Action::PushEth { .. }
        | Action::PopEth
        | Action::PushNsh(_)
        | Action::PopNsh
        | Action::TnlPush(_)
        | Action::AddMpls { .. } => false,
    }
}

/// Whether packets may come back to the flow tables, or to the slow path, from this action.
pub fn reenters(action: &Action) -> bool {
    match action {
        Action::Recirc(_) | Action::Userspace(_) | Action::TnlPop(_) => true,
        Action::Clone(actions) | Action::Sample { actions, .. } => actions.iter().any(reenters),
        Action::CheckPktLen { greater, not_greater, .. } => greater.iter().chain(not_greater).any(reenters),
        Action::Output(_)
        | Action::Trunc(_)
        | Action::Set(_)
        | Action::SetMasked(_)
        | Action::PushVlan { .. }
        | Action::PopVlan
        | Action::PushMpls { .. }
        | Action::PopMpls(_)
        | Action::Hash(_)
        | Action::Meter(_)
        | Action::CtClear
        | Action::Ct(_)
        | Action::PushEth { .. }
        | Action::PopEth
        | Action::PushNsh(_)
        | Action::PopNsh
        | Action::TnlPush(_)
        | Action::LbOutput(_)
        | Action::Drop(_)
        | Action::AddMpls { .. }
        | Action::DecTtl(_)
        | Action::Psample { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PortNo;

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        let refused = |action: Action| check(&[Action::Output(PortNo(1)), action]).map_err(|e| e.to_string());
        let message = |name| Err(format!("the datapath cannot execute the action {name}"));
        assert_eq!(refused(Action::LbOutput(1)), message("lb_output"));
        let nested = Action::Clone([Action::Clone([Action::LbOutput(1)].into())].into());
        assert_eq!(refused(nested), message("lb_output"), "nested ones too");
    }

    #[test]
    fn nesting_is_bounded() {
        let nest =
            |levels| (0..levels).fold(Action::Output(PortNo(1)), |inner, _| Action::Clone([inner].into()));
        assert_eq!(check(&[nest(u32::from(MAX_NESTING))]), Ok(()));
        assert_eq!(check(&[nest(u32::from(MAX_NESTING) + 1)]), Err(Unsupported::Nesting));
    }
}
