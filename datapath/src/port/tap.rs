//! A tap device (Linux `Documentation/networking/tuntap.rst`): without offloads through `tun-tap`, with them through
//! `IFF_VNET_HDR` and `TUNSETOFFLOAD`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use tun_tap::{Iface, Mode};
use zerocopy::{FromZeros, IntoBytes};

use super::vnet::{HEADER, Header};
use super::{MAX_PACKET, Port, PortError, PortErrors, system};
use crate::offload::Capabilities;
use crate::packet::{Batch, Packet};

/// From `linux/if_tun.h`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUN_F_CSUM: libc::c_uint = 1;
const TUN_F_TSO4: libc::c_uint = 2;
const TUN_F_TSO6: libc::c_uint = 4;
const TUN_F_TSO_ECN: libc::c_uint = 8;
const ETHERNET: usize = 14;

/// Where packets are read and written.
enum Device {
    Plain(Iface),
    Offloading(File),
}

/// A tap. One that it made goes with it; one that was there stays.
pub struct Tap {
    device: Device,
    capabilities: Capabilities,
    mtu: u16,
    /// What the next packet is received into.
    slot: Box<Packet>,
    errors: PortErrors,
}

impl Tap {
    /// Opens a tap, and makes it if it is not there; sets it up. `capabilities`: what the kernel is asked to do, and leave to do;
    /// empty for none.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn open(name: &str, capabilities: Capabilities) -> Result<Self, PortError> {
        let failed = |what: &'static str, error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                PortError::NoPermission { interface: name.to_owned(), capability: "CAP_NET_ADMIN" }
            }
            Some(libc::EBUSY) => PortError::Busy(name.to_owned()),
            _ => PortError::System { what, interface: name.to_owned(), error },
        };
        let mut request = system::request(name)?;
        let device = if capabilities.is_empty() {
            let tap =
                Iface::without_packet_info(name, Mode::Tap).map_err(|error| failed("open tap", error))?;
            // SAFETY: the arguments are numbers.
            if unsafe { libc::fcntl(tap.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
                return Err(failed("open tap", io::Error::last_os_error()));
            }
            Device::Plain(tap)
        } else {
            let open =
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
            let file = open.map_err(|error| failed("open tap", error))?;
            request.ifr_ifru.ifru_flags =
                (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
            system::ioctl(file.as_raw_fd(), TUNSETIFF, &mut request)
                .map_err(|error| failed("open tap", error))?;
            let mut offloads = TUN_F_CSUM;
            if capabilities.contains(Capabilities::TSO) {
                offloads |= TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
            }
            // SAFETY: the argument is a number.
            if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) } < 0
            {
                return Err(failed("ask for offloads of tap", io::Error::last_os_error()));
            }
            Device::Offloading(file)
        };
        system::set_up(name)?;
        let (mtu, slot) = (system::mtu(name)?, Box::new(Packet::empty(MAX_PACKET)));
        Ok(Self { device, capabilities, mtu, slot, errors: PortErrors::default() })
    }

    /// Reads one packet into the slot: how many bytes it has, and what it owes.
    fn read(&mut self) -> io::Result<(usize, Header)> {
        let mut header = Header::new_zeroed();
        let fd = self.fd();
        let bytes = self.slot.room_mut(MAX_PACKET);
        let mut parts = [
            libc::iovec { iov_base: header.as_mut_bytes().as_mut_ptr().cast(), iov_len: HEADER },
            libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() },
        ];
        let parts = if let Device::Plain(_) = self.device { &mut parts[1..] } else { &mut parts[..] };
        // SAFETY: the parts point at the header and the slot, which live and stay where they are while the call lasts.
        let len = unsafe { libc::readv(fd, parts.as_ptr(), parts.len() as libc::c_int) };
        if len < 0 {
            return Err(io::Error::last_os_error());
        }
        let in_front = if let Device::Plain(_) = self.device { 0 } else { HEADER };
        Ok(((len as usize).saturating_sub(in_front), header))
    }

    fn write(&self, packet: &mut Packet) -> io::Result<()> {
        let mut header = match self.device {
            Device::Plain(_) => Header::new_zeroed(),
            Device::Offloading(_) => Header::of(packet),
        };
        let bytes = packet.send_data();
        let parts = [
            libc::iovec { iov_base: header.as_mut_bytes().as_mut_ptr().cast(), iov_len: HEADER },
            // The kernel only reads what it sends.
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
        ];
        let parts = if let Device::Plain(_) = self.device { &parts[1..] } else { &parts[..] };
        // SAFETY: the parts point at the header and the packet, which live and stay where they are while the call lasts.
        let len = unsafe { libc::writev(self.fd(), parts.as_ptr(), parts.len() as libc::c_int) };
        if len < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Port for Tap {
    fn fd(&self) -> RawFd {
        match &self.device {
            Device::Plain(tap) => tap.as_raw_fd(),
            Device::Offloading(file) => file.as_raw_fd(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn FnMut() -> Box<Packet>) -> io::Result<()> {
        while !batch.is_full() {
            let (len, header) = match self.read() {
                Ok(read) => read,
                Err(error) => {
                    return match error.raw_os_error() {
                        Some(libc::EAGAIN) => Ok(()),
                        Some(libc::EINTR) => continue,
                        _ => Err(error),
                    };
                }
            };
            if len < ETHERNET {
                self.errors.rx_too_short += 1;
                continue;
            }
            if len > MAX_PACKET {
                self.errors.rx_truncated += 1;
                continue;
            }
            self.slot.received(len);
            if !header.mark(&mut self.slot) {
                self.errors.rx_unknown_segmentation += 1;
                continue;
            }
            let packet = std::mem::replace(&mut self.slot, pool());
            if let Err(packet) = batch.push(packet) {
                self.slot = packet;
                return Ok(());
            }
        }
        Ok(())
    }

    fn send(&mut self, packets: &mut [Box<Packet>]) -> io::Result<usize> {
        let mut sent = 0;
        for (i, packet) in packets.iter_mut().enumerate() {
            match self.write(packet) {
                Ok(()) => sent += 1,
                Err(error) => {
                    if self.errors.count_send(&error) {
                        self.errors.tx_down += (packets.len() - i - 1) as u64;
                        return Err(error);
                    }
                }
            }
        }
        Ok(sent)
    }

    fn errors(&self) -> PortErrors {
        self.errors
    }
}
