//! Ports as the datapath sees them: a queue to send from, limits, counters. The devices behind them are somebody else's.

use thiserror::Error;

use crate::action::exec::Packets;
use crate::offload::Capabilities;
use crate::tunnel::TunnelKind;
use crate::types::PortNo;

/// How a port behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Whether it is up; what is sent to a port that is down is dropped.
    pub up: bool,
    /// Largest L3 packet in bytes; the Ethernet header and one 802.1Q tag come on top.
    pub mtu: u16,
    /// What it announces to finish on transmit.
    pub capabilities: Capabilities,
    /// For a dummy device, which completes packets itself: what it leaves as it is all the same.
    pub leaves: Option<Capabilities>,
    /// Whether simple match may serve it.
    pub simple_match: bool,
    /// Which tunnels it stands for, if any: `tnl_push` and `tnl_pop` name it, nothing can be sent to it.
    pub tunnel: Option<TunnelKind>,
}

impl Default for PortConfig {
    /// Up, 1500 bytes, no offloads, as OVS's dummy ports.
    fn default() -> Self {
        Self {
            up: true,
            mtu: 1500,
            capabilities: Capabilities::empty(),
            leaves: None,
            simple_match: true,
            tunnel: None,
        }
    }
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that were to be sent and could not be.
    pub tx_dropped: u64,
}

/// Why a port was not added, changed or found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PortError {
    /// The number is taken.
    #[error("there is a port {0} already")]
    Exists(PortNo),
    /// No port has this number.
    #[error("there is no port {0}")]
    NotFound(PortNo),
    /// "None" is not a number for a port.
    #[error("{0} is not a port number")]
    BadNumber(PortNo),
}

/// A port.
#[derive(Clone, Debug, Default)]
pub struct Port {
    pub(super) config: PortConfig,
    pub(super) stats: PortStats,
    pub(super) queue: Packets,
    /// Number of the next packet, in tunnels that number them.
    pub(super) sequence: u32,
}

impl Port {
    /// How it behaves.
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// What it did.
    pub fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// Packets waiting to be drained.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }
}
