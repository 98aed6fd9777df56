//! The state of a connection: what was sent and what came, without any I/O.

use std::collections::BTreeMap;
use std::net::IpAddr;

use datapath::types::{Span, Time};
use sha2::{Digest as _, Sha256};

use super::segment::Segment;
use super::{ACK, DEFAULT_MSS, FIRST_RTO, MAX_EARLY, MAX_RTO, MIN_RTO, RST, SYN, WINDOW};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received and answered.
    SynReceived,
    /// Both sides may send.
    Established,
    /// Own FIN sent, not the other side's received (FIN-WAIT-1 or FIN-WAIT-2).
    FinWait,
    /// Both FINs sent; the own one is not acknowledged yet (LAST-ACK or CLOSING).
    LastAck,
    /// Closed in good order.
    Closed,
    /// The other side refused.
    Refused,
    /// The other side reset it.
    Reset,
    /// No answer.
    TimedOut,
}

impl State {
    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SynSent => "syn-sent",
            Self::SynReceived => "syn-received",
            Self::Established => "established",
            Self::FinWait => "fin-wait",
            Self::LastAck => "last-ack",
            Self::Closed => "closed",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::TimedOut => "timed-out",
        }
    }

    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::Refused | Self::Reset | Self::TimedOut)
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) local: (IpAddr, u16),
    pub(super) remote: (IpAddr, u16),
    pub(super) state: State,
    /// Whether this side asked for it, and closes once everything is sent.
    pub(super) client: bool,
    pub(super) mss: usize,
    /// Initial sequence numbers, own and the other side's.
    pub(super) iss: u32,
    pub(super) irs: u32,
    /// Bytes to send in all.
    pub(super) len: u64,
    /// Offset that is not acknowledged yet, the next to be sent, and the highest ever sent.
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) max_sent: u64,
    pub(super) peer_window: u64,
    /// Next offset expected.
    pub(super) expected: u64,
    /// Data that came early, by offset.
    pub(super) early: BTreeMap<u64, Vec<u8>>,
    /// Offset of the other side's FIN.
    pub(super) fin_at: Option<u64>,
    pub(super) delivered: u64,
    pub(super) hash: Sha256,
    pub(super) duplicate_acks: u32,
    /// While segments are being recovered: the highest offset sent before that.
    pub(super) recover: Option<u64>,
    pub(super) retransmitted: u64,
    pub(super) retries: u32,
    pub(super) rto: Span,
    /// Smoothed round-trip time and its variation, in nanoseconds (RFC 6298).
    pub(super) srtt: Option<(u64, u64)>,
    /// The offset whose acknowledgement is timed, and when it was sent.
    pub(super) timed: Option<(u64, Time)>,
    pub(super) timer: Option<Time>,
}

impl Connection {
    pub(super) fn new(local: (IpAddr, u16), remote: (IpAddr, u16), state: State, iss: u32, len: u64) -> Self {
        Self {
            local,
            remote,
            state,
            client: state == State::SynSent,
            mss: usize::from(DEFAULT_MSS[usize::from(local.0.is_ipv6())]),
            iss,
            irs: 0,
            len,
            una: 0,
            nxt: 0,
            max_sent: 0,
            peer_window: WINDOW,
            expected: 0,
            early: BTreeMap::new(),
            fin_at: None,
            delivered: 0,
            hash: Sha256::new(),
            duplicate_acks: 0,
            recover: None,
            retransmitted: 0,
            retries: 0,
            rto: FIRST_RTO,
            srtt: None,
            timed: None,
            timer: None,
        }
    }

    /// Own address and port.
    pub fn local(&self) -> (IpAddr, u16) {
        self.local
    }

    /// The other side's address and port.
    pub fn remote(&self) -> (IpAddr, u16) {
        self.remote
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Bytes sent and acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.una.saturating_sub(1).min(self.len)
    }

    /// Bytes received in order.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// SHA-256 of the bytes received in order.
    pub fn delivered_sha256(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    /// Segments sent again.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    pub(in crate::host) fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// The offset behind everything that will ever be sent: SYN, data, FIN.
    pub(super) fn end(&self) -> u64 {
        self.len + 2
    }

    pub(super) fn offset_of(&self, seq: u32, initial: u32, near: u64) -> Option<u64> {
        let difference = seq.wrapping_sub(initial.wrapping_add(near as u32)) as i32;
        near.checked_add_signed(i64::from(difference))
    }

    pub(super) fn seq(&self, offset: u64) -> u32 {
        self.iss.wrapping_add(offset as u32)
    }

    pub(super) fn arm(&mut self, now: Time) {
        self.timer = (self.una < self.nxt && !self.state.is_over()).then(|| now + self.rto);
    }

    pub(super) fn finish(&mut self, state: State) {
        self.state = state;
        self.timer = None;
        self.early.clear();
    }

    /// RFC 6298 section 2.
    pub(super) fn measure(&mut self, rtt: Span) {
        let rtt = rtt.0;
        let (srtt, variation) = match self.srtt {
            None => (rtt, rtt / 2),
            Some((srtt, variation)) => {
                let variation = (3 * variation + srtt.abs_diff(rtt)) / 4;
                ((7 * srtt + rtt) / 8, variation)
            }
        };
        self.srtt = Some((srtt, variation));
        self.rto = Span(srtt + 4 * variation).clamp(MIN_RTO, MAX_RTO);
    }

    /// Takes an acknowledgement of everything below `ack`. Gives the number of data bytes that are acknowledged anew.
    pub(super) fn acknowledge(&mut self, now: Time, ack: u64) -> u64 {
        let before = self.acknowledged();
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        self.retries = 0;
        self.duplicate_acks = 0;
        if let Some((offset, sent_at)) = self.timed
            && ack > offset
        {
            self.timed = None;
            self.measure(now.since(sent_at));
        }
        if self.recover.is_some_and(|recover| ack >= recover) {
            self.recover = None;
        }
        self.arm(now);
        self.acknowledged() - before
    }

    /// Takes data at `offset`, in whatever order it comes. Gives the bytes that are in order now.
    pub(super) fn take_data(&mut self, offset: u64, data: &[u8]) -> u64 {
        let end = offset + data.len() as u64;
        let beyond = offset > self.expected + WINDOW || self.early.len() >= MAX_EARLY;
        if end <= self.expected || (offset > self.expected && beyond) {
            return 0;
        }
        let skip = self.expected.saturating_sub(offset) as usize;
        let entry = self.early.entry(offset + skip as u64).or_default();
        if entry.len() < data.len() - skip {
            *entry = data[skip..].to_vec();
        }
        let before = self.delivered;
        while let Some(first) = self.early.first_entry() {
            let start = *first.key();
            if start > self.expected {
                break;
            }
            let bytes = first.remove();
            let skip = (self.expected - start) as usize;
            if let Some(fresh) = bytes.get(skip..) {
                self.hash.update(fresh);
                self.delivered += fresh.len() as u64;
                self.expected += fresh.len() as u64;
            }
        }
        self.delivered - before
    }
}

impl Connection {
    /// Whether `segment` begins a new connection between the same ends after this one ended.
    pub(super) fn is_replaced_by(&self, segment: &Segment<'_>) -> bool {
        self.state.is_over() && segment.flags & (SYN | ACK | RST) == SYN
    }

    /// The offset behind what may be sent now: the server's FIN waits for the client's.
    pub(super) fn sendable_end(&self) -> u64 {
        if self.client || self.state == State::LastAck { self.end() } else { self.len + 1 }
    }
}
