//! Real ports: what comes from and goes to interfaces of this machine, in batches.
//!
//! The only place of the crate that does I/O. A port reads into packets that are used again and again, marks what it knows of
//! their checksums and segments, and writes what it is given; it never looks at flows. What cannot be received or sent is
//! counted with its reason ([`PortErrors`]), its packet given back. Counterpart: OVS `lib/netdev-linux.c`.

mod packet_socket;
mod system;
mod tap;
#[cfg(test)]
mod tests;
mod vnet;

use std::io;
use std::os::fd::RawFd;

use thiserror::Error;

pub use packet_socket::PacketSocket;
pub use system::{Poll, in_namespace};
pub use tap::Tap;

use crate::offload::Capabilities;
use crate::packet::{Batch, Packet};

/// Largest packet that a port receives, in bytes: a segment that is still to be cut.
pub const MAX_PACKET: usize = 65_550;

/// Why a port could not be opened.
#[derive(Debug, Error)]
pub enum PortError {
    /// There is no such interface.
    #[error("there is no interface `{0}`")]
    NoInterface(String),
    /// There is no such network namespace.
    #[error("there is no network namespace `{0}`: make it with `ip netns add {0}`")]
    NoNamespace(String),
    /// The name is longer than the kernel takes, or empty.
    #[error("`{0}` is no name of an interface: it has 1 to 15 bytes")]
    BadName(String),
    /// Somebody else has the device.
    #[error("tap `{0}` is in use by another program")]
    Busy(String),
    /// There is no DPDK in this build.
    #[error("`{0}` is a DPDK device, and this build drives none: use a tap or a packet socket")]
    NoDpdk(String),
    /// Not allowed.
    #[error("no permission for `{interface}`: run as root, or with the capability {capability}")]
    NoPermission {
        /// The interface.
        interface: String,
        /// What would allow it.
        capability: &'static str,
    },
    /// The kernel refused something else.
    #[error("cannot {what} `{interface}`: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// With which interface.
        interface: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
}

/// What went wrong with packets, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortErrors {
    /// Received packets that were longer than [`MAX_PACKET`].
    pub rx_truncated: u64,
    /// Received packets without a whole Ethernet header.
    pub rx_too_short: u64,
    /// Received packets to be segmented in a way that this switch does not know (UDP).
    pub rx_unknown_segmentation: u64,
    /// Packets that the kernel had no room for: its queue was full.
    pub tx_queue_full: u64,
    /// Packets longer than the interface takes.
    pub tx_too_long: u64,
    /// Packets that could not be sent because the interface is down or gone.
    pub tx_down: u64,
    /// Packets that the kernel refused for another reason.
    pub tx_refused: u64,
}

impl PortErrors {
    /// Each count with its name, in a fixed order.
    pub fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("rx_truncated", self.rx_truncated),
            ("rx_too_short", self.rx_too_short),
            ("rx_unknown_segmentation", self.rx_unknown_segmentation),
            ("tx_queue_full", self.tx_queue_full),
            ("tx_too_long", self.tx_too_long),
            ("tx_down", self.tx_down),
            ("tx_refused", self.tx_refused),
        ]
    }

    /// Counts a packet that could not be sent. Returns whether the interface is gone or down.
    fn count_send(&mut self, error: &io::Error) -> bool {
        let (count, gone) = match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => (&mut self.tx_queue_full, false),
            Some(libc::EMSGSIZE) => (&mut self.tx_too_long, false),
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO | libc::EBADFD) => {
                (&mut self.tx_down, true)
            }
            _ => (&mut self.tx_refused, false),
        };
        *count += 1;
        gone
    }
}

/// A port of this machine.
pub trait Port {
    /// What to poll for.
    fn fd(&self) -> RawFd;

    /// What it finishes on transmit.
    fn capabilities(&self) -> Capabilities;

    /// Largest L3 packet in bytes.
    fn mtu(&self) -> u16;

    /// Appends what has come to `batch`, until that is full or nothing is left; never waits. `pool` gives the packets that take
    /// the place of those.
    ///
    /// # Errors
    /// That the interface is down or gone; what came before is in the batch.
    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn FnMut() -> Box<Packet>) -> io::Result<()>;

    /// Sends packets in order; never waits. They are left with the caller. Returns how many were sent: the rest is counted in
    /// [`Self::errors`].
    ///
    /// # Errors
    /// That the interface is down or gone.
    fn send(&mut self, packets: &mut [Box<Packet>]) -> io::Result<usize>;

    /// What went wrong so far.
    fn errors(&self) -> PortErrors;
}
