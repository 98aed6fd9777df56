//! The door to the slow path.

use crate::action::{Actions, Userspace};
use crate::flow::Flow;
use crate::packet::Packet;
use crate::stats::DropReason;
use crate::trace::FlowId;
use crate::types::{PortNo, Time};

/// Why a packet goes to the slow path.
#[derive(Clone, Copy, Debug)]
pub enum UpcallKind<'a> {
    /// No flow matched.
    Miss,
    /// A `userspace` action asked for it.
    Action(&'a Userspace),
}

/// A packet handed to the slow path.
#[derive(Debug)]
pub struct UpcallRequest<'a> {
    /// Now.
    pub now: Time,
    /// Why.
    pub kind: UpcallKind<'a>,
    /// The packet.
    pub packet: &'a Packet,
    /// Its full key, with a datapath port number in `in_port`.
    pub key: &'a Flow,
}

/// A datapath flow to install for a miss.
#[derive(Clone, Debug, PartialEq)]
pub struct Install {
    /// Which bits matter.
    pub mask: Flow,
    /// What later packets get; differs from what this one gets when the slow path must see each packet.
    pub actions: Actions,
    /// By what the slow path knows the flow until it has an identity: given back in [`Upcall::settled`].
    pub ticket: u64,
}

/// A packet that the slow path made, and what is to be done with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Injection {
    /// The frame.
    pub frame: Box<[u8]>,
    /// Port that it counts as received by.
    pub in_port: PortNo,
    /// Actions.
    pub actions: Actions,
}

/// What the slow path decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpcallReply {
    /// Actions for this packet, now.
    pub execute: Actions,
    /// The flow to install, if any.
    pub install: Option<Install>,
    /// Packets to send before that.
    pub inject: Vec<Injection>,
}

/// Decides about packets that no datapath flow matched.
pub trait Upcall {
    /// Handles one packet.
    ///
    /// # Errors
    /// The reason for which the packet is dropped.
    fn upcall(&mut self, request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason>;

    /// Tells what became of a flow that a reply asked to install: its identity, or `None` if it was not installed. Called
    /// once for each such reply, after its actions were carried out.
    fn settled(&mut self, _ticket: u64, _flow: Option<FlowId>, _now: Time) {}
}

/// No slow path: hand-written datapath flows only; misses are lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUpcall;

impl Upcall for NoUpcall {
    fn upcall(&mut self, _request: &UpcallRequest<'_>) -> Result<UpcallReply, DropReason> {
        Err(DropReason::UpcallLost)
    }
}
