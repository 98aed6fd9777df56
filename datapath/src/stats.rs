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
    /// Given to the slow path (a controller, a sampler), and nothing else was to be done with it: not a loss.
    Consumed,
    /// Not sampled, and nothing else was to be done with it.
    NotSampled,
    /// Not an Ethernet frame, on an Ethernet port.
    PacketType,
}

impl DropReason {
    /// All reasons, in order.
    pub const ALL: [Self; 18] = [
        Self::ActionDrop,
        Self::UpcallLost,
        Self::UpcallError,
        Self::RecircDepth,
        Self::ActionDepth,
        Self::NoPort,
        Self::PortDown,
        Self::TooBig,
        Self::TooShort,
        Self::Meter,
        Self::TunnelDecap,
        Self::TunnelEncap,
        Self::Explicit,
        Self::BadAction,
        Self::Conntrack,
        Self::Consumed,
        Self::NotSampled,
        Self::PacketType,
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
            Self::Meter => "meter",
            Self::TunnelDecap => "tunnel-decap",
            Self::TunnelEncap => "tunnel-encap",
            Self::Explicit => "explicit",
            Self::BadAction => "bad-action",
            Self::Conntrack => "conntrack",
            Self::Consumed => "consumed",
            Self::NotSampled => "not-sampled",
            Self::PacketType => "packet-type",
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

/// How many packets ended for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// Packets that ended for `reason`.
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Counts one more.
    pub fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// All that ended.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each reason and its count, in the order of [`DropReason::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().zip(self.0)
    }
}

/// What a datapath has done. At every instant between calls
/// `received + injected + copies = sent + drops.total() + queued + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received from ports.
    pub received: u64,
    /// Packets that the slow path made, or released.
    pub injected: u64,
    /// Copies made of packets, and segments beyond the first.
    pub copies: u64,
    /// Packets handed to ports.
    pub sent: u64,
    /// Packets waiting for [`crate::pipeline::Datapath::drain_tx`].
    pub queued: u64,
    /// Fragments that wait for the rest of their datagram.
    pub held: u64,
    /// Packets that ended otherwise.
    pub drops: DropCounters,
    /// What decided each pass.
    pub passes: PassCounters,
    /// Passes after the first.
    pub recirculated: u64,
    /// Subtables looked at for the passes that the classifier decided (`PMD_STAT_MASKED_LOOKUP`).
    pub masked_lookups: u64,
    /// Flows that were not installed since there were as many as allowed.
    pub flow_limit_hits: u64,
    /// Packets sent with a checksum marked as to be completed, of which none could be found.
    pub incomplete: u64,
}

impl Counters {
    /// Whether every packet is accounted for, once and only once.
    pub fn balanced(&self) -> bool {
        self.received + self.injected + self.copies
            == self.sent + self.drops.total() + self.queued + self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_reasons_are_in_order_and_named_once() {
        for (at, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
        let names: BTreeSet<_> = DropReason::ALL.into_iter().map(DropReason::name).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
    }

    #[test]
    fn drops_count_by_reason() {
        let mut drops = DropCounters::default();
        drops.add(DropReason::PacketType);
        drops.add(DropReason::ActionDrop);
        drops.add(DropReason::ActionDrop);
        assert_eq!(drops.get(DropReason::ActionDrop), 2);
        assert_eq!(drops.total(), 3);
        assert_eq!(drops.iter().filter(|&(_, n)| n > 0).count(), 2);
    }
}
