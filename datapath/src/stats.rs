//! Counters that partition exactly, and the reasons for which packets are dropped.

/// Why a packet ended without being sent. Each is a counter and an event; none is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// The flow's actions are empty: a rule said drop, or none matched.
    ActionDrop,
    /// The flow limit was reached, or the upcall queue was full.
    UpcallLost,
    /// Translation failed; nothing to do with the packet.
    UpcallError,
    /// Recirculated more often than the depth limit allows.
    RecircDepth,
    /// Nested actions deeper than the limit.
    ActionDepth,
    /// Output to a port that does not exist.
    NoPort,
    /// Output to a port that is down.
    PortDown,
    /// Longer than the port's MTU.
    TooBig,
    /// Shorter than an Ethernet header on an Ethernet port.
    TooShort,
    /// Needs an offload that neither port nor software can do.
    Offload,
    /// Meter band.
    Meter,
    /// Bad tunnel header on decapsulation.
    TunnelDecap,
    /// Encapsulation impossible.
    TunnelEncap,
    /// `drop` action with a reason from translation.
    Explicit,
    /// A set, push or pop that the packet has no header for.
    BadAction,
    /// Connection tracking refused it.
    Conntrack,
}

impl DropReason {
    /// All reasons, in order.
    pub const ALL: [Self; 16] = [
        Self::ActionDrop,
        Self::UpcallLost,
        Self::UpcallError,
        Self::RecircDepth,
        Self::ActionDepth,
        Self::NoPort,
        Self::PortDown,
        Self::TooBig,
        Self::TooShort,
        Self::Offload,
        Self::Meter,
        Self::TunnelDecap,
        Self::TunnelEncap,
        Self::Explicit,
        Self::BadAction,
        Self::Conntrack,
    ];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ActionDrop => "action-drop",
            Self::UpcallLost => "upcall-lost",
            Self::UpcallError => "upcall-error",
            Self::RecircDepth => "recirc-depth",
            Self::ActionDepth => "action-depth",
            Self::NoPort => "no-port",
            Self::PortDown => "port-down",
            Self::TooBig => "too-big",
            Self::TooShort => "too-short",
            Self::Offload => "offload",
            Self::Meter => "meter",
            Self::TunnelDecap => "tunnel-decap",
            Self::TunnelEncap => "tunnel-encap",
            Self::Explicit => "explicit",
            Self::BadAction => "bad-action",
            Self::Conntrack => "conntrack",
        }
    }
}

/// What every pass (first lookup or recirculation) was decided by; the sum is the number of passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassCounters {
    /// Simple match.
    pub simple: u64,
    /// Exact match cache.
    pub emc: u64,
    /// Signature match cache.
    pub smc: u64,
    /// Datapath classifier.
    pub megaflow: u64,
    /// Upcall that found or made a flow, or actions for the packet.
    pub upcall: u64,
    /// Upcall that failed or could not be made.
    pub lost: u64,
}

impl PassCounters {
    /// All passes.
    pub fn passes(&self) -> u64 {
        self.simple + self.emc + self.smc + self.megaflow + self.upcall + self.lost
    }
}
