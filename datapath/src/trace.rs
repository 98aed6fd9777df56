//! Typed events of a packet's way. Free when off: the pipeline is generic over [`Trace`], and [`Off`] compiles to nothing.

use crate::offload::Offloads;
use crate::stats::DropReason;
use crate::types::{PortNo, RecircId};

/// Identity of a packet within a run: counted up at reception; copies get their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(pub u64);

/// Index of a datapath flow in its table; stable while the flow lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A cache tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Simple match.
    Simple,
    /// Exact match cache.
    Emc,
    /// Signature match cache.
    Smc,
    /// Datapath classifier.
    Megaflow,
}

/// Why a datapath flow was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoveWhy {
    /// No packet used it for too long (OVS `FDR_FLOW_IDLE`).
    Idle,
    /// There were far too many (`FDR_FLOW_LIMIT`).
    Limit,
    /// Rules look at more of a packet than it does (`FDR_FLOW_WILDCARDED`).
    Wide,
    /// Each of its packets must be seen by the slow path (`FDR_AVOID_CACHING`).
    Uncacheable,
    /// Its port, or what its recirculation id stands for, is gone (`FDR_NO_OFPROTO`).
    NoPort,
    /// It asks for what its packets do not have (`FDR_BAD_ODP_FIT`).
    BadFit,
    /// The datapath refused its new actions (`FDR_UPDATE_FAIL`).
    Refused,
    /// All were removed (`FDR_PURGE`).
    Purged,
    /// A command removed it.
    Command,
}

impl RemoveWhy {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Limit,
        Self::Wide,
        Self::Uncacheable,
        Self::NoPort,
        Self::BadFit,
        Self::Refused,
        Self::Purged,
        Self::Command,
    ];

    /// A word for it, as in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Limit => "flow-limit",
            Self::Wide => "too-wide",
            Self::Uncacheable => "uncacheable",
            Self::NoPort => "no-port",
            Self::BadFit => "bad-fit",
            Self::Refused => "refused",
            Self::Purged => "purged",
            Self::Command => "command",
        }
    }

    /// What that means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Idle => "no packet used it",
            Self::Limit => "there were too many flows",
            Self::Wide => "the rules look at more than it matches",
            Self::Uncacheable => "each packet must be seen by the slow path",
            Self::NoPort => "its port or recirculation is gone",
            Self::BadFit => "it asks for what its packets do not have",
            Self::Refused => "the datapath cannot do its new actions",
            Self::Purged => "all flows were removed",
            Self::Command => "a command removed it",
        }
    }
}

/// What connection tracking found for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnSeen {
    /// No connection, and none was begun.
    None,
    /// None; there was one, and its time is over.
    Expired,
    /// Its connection.
    Found,
    /// None, and one was begun.
    Begun,
    /// Its connection was over or taken back, and another one was begun in its place.
    Renewed,
}

/// Why an offload flag changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadWhy {
    /// The receiving port said so.
    Received,
    /// Extraction learned the L4 protocol.
    Extracted,
    /// A header was rewritten.
    Rewritten,
    /// Outer headers were pushed.
    Encapsulated,
    /// Outer headers were popped.
    Decapsulated,
    /// A checksum was verified.
    Verified,
    /// Prepared for a transmit port, in software.
    Prepared,
    /// Split into segments.
    Segmented,
}

/// One thing that happened to a packet. Ids, not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Received on a port.
    Rx {
        /// Packet.
        packet: PacketId,
        /// Port.
        port: PortNo,
        /// Bytes.
        len: u32,
        /// Flags it came with.
        offloads: Offloads,
    },
    /// Looked up in a tier.
    Lookup {
        /// Packet.
        packet: PacketId,
        /// Tier.
        tier: Tier,
        /// The flow that was hit.
        hit: Option<FlowId>,
        /// Subtables probed, in the classifier.
        subtables: u16,
    },
    /// Went to the slow path.
    Upcall {
        /// Packet.
        packet: PacketId,
    },
    /// A flow was installed.
    Install {
        /// Packet that caused it.
        packet: PacketId,
        /// Flow.
        flow: FlowId,
    },
    /// A flow was given other actions.
    Modify {
        /// Flow.
        flow: FlowId,
    },
    /// A flow was removed.
    Remove {
        /// Flow.
        flow: FlowId,
        /// Why.
        why: RemoveWhy,
    },
    /// Tracked: looked up among the connections, and perhaps translated.
    Conntrack {
        /// Packet.
        packet: PacketId,
        /// Zone.
        zone: u16,
        /// What it was found to be: `ct_state`, with the translations that were done.
        state: u8,
        /// The connection.
        seen: ConnSeen,
    },
    /// Connections were removed: their time was over.
    Expire {
        /// How many.
        connections: u32,
    },
    /// Action number `index` of a flow is about to run.
    Action {
        /// Packet.
        packet: PacketId,
        /// Flow, if it runs for one. A packet that missed runs its actions before a flow has them.
        flow: Option<FlowId>,
        /// The action's word in OVS text ([`crate::action::Action::word`]).
        word: &'static str,
        /// Position in the (outermost) list.
        index: u16,
        /// Nesting depth.
        depth: u8,
    },
    /// Offload flags changed.
    OffloadChange {
        /// Packet.
        packet: PacketId,
        /// Before.
        before: Offloads,
        /// After.
        after: Offloads,
        /// Why.
        why: OffloadWhy,
    },
    /// A copy was made.
    Copy {
        /// Original.
        packet: PacketId,
        /// Copy.
        copy: PacketId,
    },
    /// Recirculated.
    Recirc {
        /// Packet.
        packet: PacketId,
        /// Id.
        id: RecircId,
        /// How often so far, this one included.
        depth: u8,
    },
    /// Dropped.
    Drop {
        /// Packet.
        packet: PacketId,
        /// Reason.
        reason: DropReason,
    },
    /// Sent.
    Tx {
        /// Packet.
        packet: PacketId,
        /// Port.
        port: PortNo,
        /// Bytes.
        len: u32,
        /// Flags it left with.
        offloads: Offloads,
    },
}

impl Event {
    /// The packet that it is about, if about one.
    pub const fn packet(&self) -> Option<PacketId> {
        match self {
            Self::Rx { packet, .. }
            | Self::Lookup { packet, .. }
            | Self::Upcall { packet }
            | Self::Install { packet, .. }
            | Self::Action { packet, .. }
            | Self::OffloadChange { packet, .. }
            | Self::Conntrack { packet, .. }
            | Self::Copy { packet, .. }
            | Self::Recirc { packet, .. }
            | Self::Drop { packet, .. }
            | Self::Tx { packet, .. } => Some(*packet),
            Self::Modify { .. } | Self::Remove { .. } | Self::Expire { .. } => None,
        }
    }

    /// The flow that it is about, if about one.
    pub const fn flow(&self) -> Option<FlowId> {
        match self {
            Self::Lookup { hit: flow, .. } | Self::Action { flow, .. } => *flow,
            Self::Install { flow, .. } | Self::Modify { flow } | Self::Remove { flow, .. } => Some(*flow),
            Self::Rx { .. }
            | Self::Upcall { .. }
            | Self::OffloadChange { .. }
            | Self::Conntrack { .. }
            | Self::Expire { .. }
            | Self::Copy { .. }
            | Self::Recirc { .. }
            | Self::Drop { .. }
            | Self::Tx { .. } => None,
        }
    }

    /// The offload flags after it, if it tells them.
    pub const fn offloads(&self) -> Option<Offloads> {
        match self {
            Self::Rx { offloads, .. } | Self::Tx { offloads, .. } => Some(*offloads),
            Self::OffloadChange { after, .. } => Some(*after),
            Self::Lookup { .. }
            | Self::Upcall { .. }
            | Self::Install { .. }
            | Self::Modify { .. }
            | Self::Remove { .. }
            | Self::Conntrack { .. }
            | Self::Expire { .. }
            | Self::Action { .. }
            | Self::Copy { .. }
            | Self::Recirc { .. }
            | Self::Drop { .. } => None,
        }
    }
}

/// Something that wants to know.
pub trait Trace {
    /// Whether events are looked at; if not, none is made.
    const ON: bool;

    /// Tells of an event; `make` runs only when [`Self::ON`].
    fn event(&mut self, make: impl FnOnce() -> Event);

    /// Shows the frame's bytes right after the last event, where they may have changed.
    fn bytes(&mut self, packet: PacketId, data: &[u8]);
}

/// Tracing off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;

impl Trace for Off {
    const ON: bool = false;

    #[inline(always)]
    fn event(&mut self, _make: impl FnOnce() -> Event) {}

    #[inline(always)]
    fn bytes(&mut self, _packet: PacketId, _data: &[u8]) {}
}

/// Keeps everything: events in order, and the bytes shown after them.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Frames, each with the number of events that came before it.
    pub frames: Vec<(usize, PacketId, Box<[u8]>)>,
}

impl Trace for Recorder {
    const ON: bool = true;

    fn event(&mut self, make: impl FnOnce() -> Event) {
        self.events.push(make());
    }

    fn bytes(&mut self, packet: PacketId, data: &[u8]) {
        self.frames.push((self.events.len(), packet, data.into()));
    }
}
