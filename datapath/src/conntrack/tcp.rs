//! The TCP state machine: sequence numbers and windows of both ends.
//!
//! After Guido van Rooij, "Real Stateful TCP Packet Filtering in IP Filter" (2001), by way of OpenBSD's pf; counterpart: OVS
//! `lib/conntrack-tcp.c`.

use super::conn::{Timeout, Update};
use crate::packet::{Packet, tcp_header_len};

/// State of one end (OVS `CT_DPIF_TCP_STATES`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TcpState {
    /// Nothing was sent yet, or all is over.
    #[default]
    Closed,
    /// Listening.
    Listen,
    /// Sent its first packet.
    SynSent,
    /// Answered one.
    SynRecv,
    /// What it sent was acknowledged.
    Established,
    /// Waits to close.
    CloseWait,
    /// Waits for the end.
    FinWait1,
    /// Sent its last byte.
    Closing,
    /// Waits for the last acknowledgement.
    LastAck,
    /// Its last byte was acknowledged.
    FinWait2,
    /// Over, or reset.
    TimeWait,
}

impl TcpState {
    /// The name that OVS prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::CloseWait => "CLOSE_WAIT",
            Self::FinWait1 => "FIN_WAIT_1",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST_ACK",
            Self::FinWait2 => "FIN_WAIT_2",
            Self::TimeWait => "TIME_WAIT",
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Highest sequence number sent.
    pub(super) seq_lo: u32,
    /// Highest that the other end allows: acknowledged, plus its window.
    pub(super) seq_hi: u32,
    /// Largest window, before scaling.
    pub(super) max_win: u16,
    /// Shift of its window, of the option.
    pub(super) scale: u8,
    /// The option was seen.
    pub(super) has_scale: bool,
    /// The beginning of the connection was not seen.
    pub(super) scale_unknown: bool,
    /// State.
    pub(super) state: TcpState,
}

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const PSH: u16 = 0x08;
const ACK: u16 = 0x10;
const URG: u16 = 0x20;

/// Largest shift of a window (RFC 7323, 2.3).
const MAX_SCALE: u8 = 14;
/// How far an acknowledgement may be off: a whole window and a packet.
const MAX_ACK_WINDOW: i32 = 0xffff + 1500;

/// What a packet's TCP header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    flags: u16,
    seq: u32,
    ack: u32,
    window: u16,
    /// Shift of the window option, if there is one.
    scale: Option<u8>,
    payload: u32,
}

impl Segment {
    /// Reads a packet that was found valid.
    pub(super) fn of(packet: &Packet) -> Option<Self> {
        let l4 = packet.l4()?;
        let header: &[u8; 20] = l4.first_chunk()?;
        let len = tcp_header_len(l4)?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Some(Self {
            flags: u16::from_be_bytes([header[12], header[13]]) & 0x0fff,
            seq: word(4),
            ack: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            scale: window_scale(l4.get(20..len)?),
            payload: (l4.len() - len) as u32,
        })
    }

    const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    /// No sender sets such flags.
    const fn flags_invalid(&self) -> bool {
        if self.has(SYN) {
            if self.has(RST | FIN) {
                return true;
            }
        } else if !self.has(ACK | RST) {
            return true;
        }
        !self.has(ACK) && self.has(FIN | PSH | URG)
    }

    /// Whether a connection may begin with this packet. One that is seen late may; an answer to a SYN that was not seen may
    /// not.
    pub(super) const fn may_begin(&self) -> bool {
        !(self.flags_invalid() || self.has(SYN) && self.has(ACK))
    }

    /// Both ends when the connection begins with this packet.
    pub(super) fn begin(&self) -> [Peer; 2] {
        let syn = self.has(SYN);
        let scale = self.scale.filter(|_| syn);
        let mut src = Peer {
            seq_lo: self.seq,
            seq_hi: self.seq.wrapping_add(self.payload + 1 + u32::from(syn) + u32::from(self.has(FIN))),
            max_win: self.window.max(1),
            scale: scale.unwrap_or(0),
            has_scale: scale.is_some(),
            scale_unknown: !syn,
            state: TcpState::SynSent,
        };
        if src.scale > 0 {
            // The window of a SYN is not scaled.
            src.max_win = u32::from(src.max_win).div_ceil(1 << src.scale) as u16;
        }
        [src, Peer { seq_hi: 1, max_win: 1, scale_unknown: !syn, ..Peer::default() }]
    }
}

/// The shift in the window scale option, if it is among `options`.
fn window_scale(mut options: &[u8]) -> Option<u8> {
    let mut scale = None;
    while let [kind, len, shift, ..] = *options {
        let step = match kind {
            0 => return scale,
            1 => 1,
            kind => {
                if kind == 3 {
                    scale = Some(shift.min(MAX_SCALE));
                }
                usize::from(len.max(2))
            }
        };
        options = options.get(step..).unwrap_or_default();
    }
    scale
}

/// `a` comes at or after `b`, modulo 2^32.
const fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// What a segment brings to the windows, after the first look at it.
struct Windows {
    seq: u32,
    end: u32,
    ack: u32,
    win: u16,
    src_shift: u8,
    dst_shift: u8,
    check_ack: bool,
}

impl Windows {
    /// Notes what the sender has sent and what the receiver may send.
    fn note(&self, src: &mut Peer, dst: &mut Peer) {
        src.max_win = src.max_win.max(self.win);
        if at_or_after(self.end, src.seq_lo) {
            src.seq_lo = self.end;
        }
        let window = u32::from(self.win) << self.src_shift;
        if at_or_after(self.ack.wrapping_add(window), dst.seq_hi) {
            dst.seq_hi = self.ack.wrapping_add(window.max(1));
        }
    }

    fn in_window(&self, segment: &Segment, src: &Peer, dst: &Peer) -> bool {
        let skew = if self.check_ack { dst.seq_lo.wrapping_sub(self.ack) as i32 } else { 0 };
        let seq = segment.seq;
        // A reset must be exact, or one off.
        let exact =
            seq == src.seq_lo || seq == src.seq_lo.wrapping_add(1) || seq.wrapping_add(1) == src.seq_lo;
        at_or_after(src.seq_hi, self.end)
            && at_or_after(self.seq, src.seq_lo.wrapping_sub(u32::from(dst.max_win) << self.dst_shift))
            && skew >= -MAX_ACK_WINDOW
            && i64::from(skew) <= i64::from(MAX_ACK_WINDOW) << self.src_shift
            && (!segment.has(RST) || exact)
    }

    /// Not far outside of what the sender may send.
    fn nearly_in_window(&self, src: &Peer) -> bool {
        at_or_after(src.seq_hi.wrapping_add(MAX_ACK_WINDOW as u32), self.end)
            && at_or_after(self.seq, src.seq_lo.wrapping_sub(MAX_ACK_WINDOW as u32))
    }
}

/// Takes a segment into account. Without `check_sequence` windows do not matter. Returns what it is to the connection, and the
/// time that this leaves it, if that changed.
pub(super) fn update(
    peers: &mut [Peer; 2],
    segment: &Segment,
    reply: bool,
    check_sequence: bool,
) -> (Update, Option<Timeout>) {
    if segment.flags_invalid() {
        return (Update::Invalid, None);
    }
    let [first, second] = peers;
    let (src, dst) = if reply { (second, first) } else { (first, second) };
    if segment.flags & (SYN | ACK) == SYN {
        if dst.state >= TcpState::FinWait2 && src.state >= TcpState::FinWait2 {
            (src.state, dst.state) = (TcpState::Closed, TcpState::Closed);
            return (Update::New, None);
        }
        if src.state <= TcpState::SynSent {
            src.state = TcpState::SynSent;
            return (Update::ValidNew, Some(Timeout::TcpFirstPacket));
        }
    }
    let windows = look(segment, src, dst);
    if windows.in_window(segment, src, dst) || !check_sequence {
        windows.note(src, dst);
        advance(segment, src, dst);
        return (Update::Valid, Some(timeout(src.state, dst.state)));
    }
    // Connections that are seen late, or that just ended, and SYNs sent in both directions: packets may be somewhat outside. This
    // does not prolong the connection; a right answer does.
    let lenient =
        dst.state < TcpState::SynSent || dst.state >= TcpState::FinWait2 || src.state >= TcpState::FinWait2;
    if !(lenient && windows.nearly_in_window(src)) {
        return (Update::Invalid, None);
    }
    windows.note(src, dst);
    if segment.has(FIN) && src.state < TcpState::Closing {
        src.state = TcpState::Closing;
    }
    if segment.has(RST) {
        (src.state, dst.state) = (TcpState::TimeWait, TcpState::TimeWait);
    }
    (Update::Valid, None)
}

/// Finds the segment's place; the first one of an end sets that end up.
fn look(segment: &Segment, src: &mut Peer, dst: &mut Peer) -> Windows {
    let syn = segment.has(SYN);
    let (src_shift, dst_shift) = if syn {
        (0, 0)
    } else if src.has_scale && dst.has_scale {
        (src.scale, dst.scale)
    } else if src.scale_unknown && dst.scale_unknown {
        (MAX_SCALE, MAX_SCALE)
    } else {
        (0, 0)
    };
    let end = segment.seq.wrapping_add(segment.payload + u32::from(syn) + u32::from(segment.has(FIN)));
    let mut windows = Windows {
        seq: segment.seq,
        end,
        ack: segment.ack,
        win: segment.window,
        src_shift,
        dst_shift,
        check_ack: true,
    };
    if src.state < TcpState::SynSent {
        if syn && dst.has_scale {
            match segment.scale {
                Some(scale) => {
                    (src.scale, src.has_scale, src.scale_unknown) = (scale, true, false);
                    windows.src_shift = scale;
                    windows.win = u32::from(windows.win).div_ceil(1 << scale) as u16;
                    windows.dst_shift = dst.scale;
                }
                None => {
                    (src.scale, src.has_scale, src.scale_unknown) = (0, false, false);
                    // Neither end scales then. OVS cuts the other's window to 16 bits here, as the field has no more.
                    dst.max_win = (u32::from(dst.max_win) << dst.scale) as u16;
                    (dst.scale, dst.has_scale, dst.scale_unknown) = (0, false, false);
                }
            }
        }
        src.seq_lo = segment.seq;
        src.state = TcpState::SynSent;
        let allowed = end.wrapping_add((u32::from(dst.max_win) << windows.dst_shift).max(1));
        if src.seq_hi == 1 || at_or_after(allowed, src.seq_hi) {
            src.seq_hi = allowed;
            windows.check_ack = false;
        }
        src.max_win = src.max_win.max(windows.win);
    }
    // Some stacks reset with an acknowledgement of 0.
    let no_ack = !segment.has(ACK) || windows.ack == 0 && segment.has(RST);
    if no_ack {
        windows.ack = dst.seq_lo;
    }
    if windows.seq == windows.end {
        // Without data the sequence number does not matter.
        (windows.seq, windows.end) = (src.seq_lo, src.seq_lo);
    }
    windows
}

/// Advances the states of both ends.
fn advance(segment: &Segment, src: &mut Peer, dst: &mut Peer) {
    if segment.has(SYN) && src.state < TcpState::SynSent {
        src.state = TcpState::SynSent;
    }
    if segment.has(FIN) && src.state < TcpState::Closing {
        src.state = TcpState::Closing;
    }
    if segment.has(ACK) {
        if dst.state == TcpState::SynSent {
            dst.state = TcpState::Established;
        } else if dst.state == TcpState::Closing {
            dst.state = TcpState::FinWait2;
        }
    }
    if segment.has(RST) {
        (src.state, dst.state) = (TcpState::TimeWait, TcpState::TimeWait);
    }
}

fn timeout(a: TcpState, b: TcpState) -> Timeout {
    if a >= TcpState::FinWait2 && b >= TcpState::FinWait2 {
        Timeout::TcpClosed
    } else if a >= TcpState::Closing && b >= TcpState::Closing {
        Timeout::TcpFinWait
    } else if a < TcpState::Established || b < TcpState::Established {
        Timeout::TcpOpening
    } else if a >= TcpState::Closing || b >= TcpState::Closing {
        Timeout::TcpClosing
    } else {
        Timeout::TcpEstablished
    }
}
