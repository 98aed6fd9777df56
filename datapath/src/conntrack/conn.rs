//! A connection: its two directions, what is known about it, and how long it lives.
//!
//! Counterpart: `struct conn` of OVS `lib/conntrack-private.h`, `lib/conntrack-other.c`, `lib/conntrack-icmp.c`.

use super::alg::Skew;
use super::key::ConnKey;
use super::tcp::{self, Peer, Segment};
use crate::flow::proto::{IP_ICMP, IP_ICMPV6, IP_TCP};
use crate::packet::Packet;
use crate::types::Span;

/// What a packet is to the connection that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    /// Not a packet that it can have.
    Invalid,
    /// One of an established connection.
    Valid,
    /// The first of another connection between the same ends.
    New,
    /// One of a connection that is not established yet.
    ValidNew,
}

/// How long a connection lives without a packet, by what it has seen (OVS `CT_TIMEOUTS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timeout {
    /// TCP: a first packet.
    TcpFirstPacket,
    /// TCP: an answer.
    TcpOpening,
    /// TCP: established.
    TcpEstablished,
    /// TCP: one end closed.
    TcpClosing,
    /// TCP: both ends closed.
    TcpFinWait,
    /// TCP: both closed and acknowledged, or reset.
    TcpClosed,
    /// UDP and others: one packet.
    OtherFirst,
    /// UDP and others: several packets in one direction.
    OtherMultiple,
    /// UDP and others: both directions.
    OtherBidirectional,
    /// ICMP: asked.
    IcmpFirst,
    /// ICMP: answered.
    IcmpReply,
}

impl Timeout {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::TcpFirstPacket,
        Self::TcpOpening,
        Self::TcpEstablished,
        Self::TcpClosing,
        Self::TcpFinWait,
        Self::TcpClosed,
        Self::OtherFirst,
        Self::OtherMultiple,
        Self::OtherBidirectional,
        Self::IcmpFirst,
        Self::IcmpReply,
    ];

    /// The name of the attribute of a timeout policy that sets it (`ovs-vsctl add-zone-tp`).
    pub const fn attribute(self) -> &'static str {
        match self {
            Self::TcpFirstPacket => "tcp_syn_sent",
            Self::TcpOpening => "tcp_syn_recv",
            Self::TcpEstablished => "tcp_established",
            Self::TcpClosing => "tcp_fin_wait",
            Self::TcpFinWait => "tcp_time_wait",
            Self::TcpClosed => "tcp_close",
            Self::OtherFirst => "udp_first",
            Self::OtherMultiple => "udp_single",
            Self::OtherBidirectional => "udp_multiple",
            Self::IcmpFirst => "icmp_first",
            Self::IcmpReply => "icmp_reply",
        }
    }

    /// As in OVS (`ct_dpif_netdev_tp_def`).
    pub const fn default_span(self) -> Span {
        Span::from_secs(match self {
            Self::TcpFirstPacket | Self::TcpOpening | Self::TcpClosed => 30,
            Self::TcpEstablished => 24 * 60 * 60,
            Self::TcpClosing => 15 * 60,
            Self::TcpFinWait => 45,
            Self::OtherFirst | Self::OtherMultiple | Self::IcmpFirst => 60,
            Self::OtherBidirectional | Self::IcmpReply => 30,
        })
    }
}

/// What a protocol remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proto {
    /// TCP: both ends, the one that began first.
    Tcp([Peer; 2]),
    /// ICMP: whether an answer came.
    Icmp {
        /// An answer came.
        replied: bool,
    },
    /// UDP and all others.
    Other(OtherState),
}

/// What was seen of a connection without states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherState {
    /// One packet.
    First,
    /// Several in one direction.
    Multiple,
    /// Both directions.
    Bidirectional,
}

/// Whether a connection may begin with this packet.
pub(super) fn may_begin(packet: &Packet, key: &ConnKey) -> bool {
    match (key.proto, key.ipv6) {
        (IP_TCP, _) => Segment::of(packet).is_some_and(|segment| segment.may_begin()),
        (IP_ICMP, false) => matches!(key.src.icmp_type, 8 | 13 | 15),
        (IP_ICMPV6, true) => key.src.icmp_type == 128,
        // The types of the other IP version's ICMP are none: nothing is known about the packet.
        (IP_ICMP | IP_ICMPV6, _) => false,
        _ => true,
    }
}

impl Proto {
    /// What is known after a first packet, and how long the connection lives.
    pub(super) fn begin(packet: &Packet, key: &ConnKey) -> (Self, Timeout) {
        match key.proto {
            IP_TCP => {
                let peers = Segment::of(packet).map(|segment| segment.begin()).unwrap_or_default();
                (Self::Tcp(peers), Timeout::TcpFirstPacket)
            }
            IP_ICMP | IP_ICMPV6 => (Self::Icmp { replied: false }, Timeout::IcmpFirst),
            _ => (Self::Other(OtherState::First), Timeout::OtherFirst),
        }
    }

    /// Takes a packet into account; the time that this leaves the connection, if that changed.
    pub(super) fn update(
        &mut self,
        packet: &Packet,
        reply: bool,
        check_sequence: bool,
    ) -> (Update, Option<Timeout>) {
        match self {
            Self::Tcp(peers) => match Segment::of(packet) {
                Some(segment) => tcp::update(peers, &segment, reply, check_sequence),
                None => (Update::Invalid, None),
            },
            Self::Icmp { replied } => {
                *replied |= reply;
                if *replied {
                    (Update::Valid, Some(Timeout::IcmpReply))
                } else {
                    (Update::ValidNew, Some(Timeout::IcmpFirst))
                }
            }
            Self::Other(state) => {
                match (reply, *state) {
                    (true, _) => *state = OtherState::Bidirectional,
                    (false, OtherState::First) => *state = OtherState::Multiple,
                    (false, OtherState::Multiple | OtherState::Bidirectional) => {}
                }
                match state {
                    OtherState::Bidirectional => (Update::Valid, Some(Timeout::OtherBidirectional)),
                    OtherState::First | OtherState::Multiple => {
                        (Update::ValidNew, Some(Timeout::OtherMultiple))
                    }
                }
            }
        }
    }
}

/// Which address of the first packet is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// The source.
    Src,
    /// The destination.
    Dst,
}

impl Translation {
    /// That of packets in the other direction.
    pub(super) const fn reversed(self) -> Self {
        match self {
            Self::Src => Self::Dst,
            Self::Dst => Self::Src,
        }
    }
}

/// A program that reads payloads to expect other connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Helper {
    /// File transfer (RFC 959, RFC 2428).
    Ftp,
    /// Trivial file transfer (RFC 1350).
    Tftp,
}

impl Helper {
    /// The name in actions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Tftp => "tftp",
        }
    }

    /// By name; as in OVS, anything that begins with it.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Ftp, Self::Tftp].into_iter().find(|helper| name.starts_with(helper.name()))
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Conn {
    /// Its directions: of the first packet, and of answers as they arrive, that is, before translation.
    pub keys: [ConnKey; 2],
    /// For one that a helper expected: the connection that it belongs to.
    pub parent: Option<Box<ConnKey>>,
    /// `nat` was asked for when it was committed: answers are looked for by their own key.
    pub(super) translated: bool,
    /// What is translated, if anything.
    pub nat: Option<Translation>,
    /// Helper.
    pub helper: Option<Helper>,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// State.
    pub proto: Proto,
    /// When it ends without a packet, nanoseconds; of a [`crate::types::Time`].
    pub(super) expires: u64,
    /// The zone's count that it is part of.
    pub(super) counted: Option<u32>,
    /// Timeout policy.
    pub(super) policy: u32,
    /// What its helper did to the length of the payload.
    pub(super) skew: Option<Box<Skew>>,
}
