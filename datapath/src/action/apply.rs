//! What a single action does to a single packet's headers and metadata.

use super::Action;
use crate::offload;
use crate::packet::Packet;

/// The action is impossible for the packet, which is dropped for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// Applies a set, push or pop action. Setting a field of a header that the packet does not have does nothing, as in OVS.
///
/// # Errors
/// [`Failed`] if a header cannot be pushed or popped.
pub fn apply(packet: &mut Packet, action: &Action) -> Result<(), Failed> {
    match action {
        Action::Set(field) | Action::SetMasked(field) => {
            // Without that header there is nothing to write, and the actions go on.
            let _written = field.apply(packet);
            Ok(())
        }
        Action::PushVlan { tpid, tci } => packet.push_vlan(*tpid, *tci),
        Action::PopVlan => {
            packet.pop_vlan();
            Ok(())
        }
        Action::PushMpls { ethertype, lse } => packet.push_mpls(*ethertype, *lse),
        Action::PopMpls(ethertype) => {
            packet.pop_mpls(*ethertype);
            Ok(())
        }
        Action::AddMpls { ethertype, lse } => {
            packet.add_mpls(*ethertype, *lse);
            Ok(())
        }
        Action::PushEth { dst, src } => packet.push_eth(*dst, *src),
        Action::PopEth => packet.pop_eth(),
        Action::PushNsh(nsh) => packet.push_nsh(&nsh.header, &nsh.md2),
        Action::PopNsh => packet.pop_nsh(),
        Action::Output(_)
        | Action::Trunc(_)
        | Action::Userspace(_)
        | Action::Hash(_)
        | Action::Recirc(_)
        | Action::Clone(_)
        | Action::Sample { .. }
        | Action::CheckPktLen { .. }
        | Action::Meter(_)
        | Action::CtClear
        | Action::Ct(_)
        | Action::TnlPush(_)
        | Action::TnlPop(_)
        | Action::LbOutput(_)
        | Action::Drop(_)
        | Action::DecTtl(_)
        | Action::Psample { .. } => return Err(Failed),
    }
    .map_err(|_| Failed)
}

/// Carries out a pending truncation. What the frame owes is completed first: afterwards nobody could.
pub fn truncate(packet: &mut Packet) {
    offload::settle(packet);
    let len = packet.send_data().len();
    let cut = packet.len() - len;
    packet.cutlen = 0;
    packet.set_len(len);
    // The cut takes the padding first.
    packet.l2_pad_size = packet.l2_pad_size.saturating_sub(u16::try_from(cut).unwrap_or(u16::MAX));
}
