//! A packet socket on an interface (`packet(7)`): batches by `recvmmsg` and `sendmmsg`, what packets owe by a `virtio_net_hdr`
//! in front of each, and the VLAN tag that the kernel took away put back from auxiliary data.

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use zerocopy::{FromZeros, IntoBytes};

use super::vnet::{HEADER, Header};
use super::{MAX_PACKET, Port, PortError, PortErrors, system};
use crate::offload::Capabilities;
use crate::packet::{BATCH, Batch, Packet};

/// Options of packet sockets that `libc` does not name.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_VNET_HDR: libc::c_int = 15;
const ETHERNET: usize = 14;
/// Room for one control message with auxiliary data.
const CONTROL: usize = 64;
const DEFAULT_TPID: u16 = 0x8100;

/// A packet socket. Promiscuous mode ends with it.
pub struct PacketSocket {
    fd: OwnedFd,
    capabilities: Capabilities,
    mtu: u16,
    /// What the next packets are received into.
    #[expect(
        clippy::vec_box,
        reason = "boxes are what is handed out; nothing is to be moved but the pointer"
    )]
    slots: Vec<Box<Packet>>,
    errors: PortErrors,
}

impl PacketSocket {
    /// Opens a socket on an interface. `capabilities`: what is left to the interface on transmit.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn open(interface: &str, capabilities: Capabilities) -> Result<Self, PortError> {
        let failed = |what: &'static str| {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    PortError::NoPermission { interface: interface.to_owned(), capability: "CAP_NET_RAW" }
                }
                _ => PortError::System { what, interface: interface.to_owned(), error },
            }
        };
        system::request(interface)?;
        let name = CString::new(interface).map_err(|_| PortError::BadName(interface.to_owned()))?;
        // SAFETY: the name is a string that ends, valid while the call lasts.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(PortError::NoInterface(interface.to_owned()));
        }
        // Without a protocol it receives nothing before it is bound to its interface.
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is handed over.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(failed("open a packet socket on"));
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let on: libc::c_int = 1;
        set(&fd, PACKET_VNET_HDR, &on).map_err(|_| failed("ask for offloads of"))?;
        set(&fd, libc::PACKET_AUXDATA, &on).map_err(|_| failed("ask for VLAN tags of"))?;
        set(&fd, PACKET_IGNORE_OUTGOING, &on).map_err(|_| failed("leave out what is sent on"))?;
        let index = index.cast_signed();
        // SAFETY: `packet_mreq` and `sockaddr_ll` are plain data, for which zeros are a value.
        let (mut all, mut address): (libc::packet_mreq, libc::sockaddr_ll) = unsafe { (zeroed(), zeroed()) };
        all.mr_ifindex = index;
        all.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        set(&fd, libc::PACKET_ADD_MEMBERSHIP, &all).map_err(|_| failed("receive all that comes to"))?;
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid for reads of `len` bytes while the call lasts.
        if unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), len) } < 0 {
            return Err(failed("bind to"));
        }
        let slots = (0..BATCH).map(|_| Box::new(Packet::empty(MAX_PACKET))).collect();
        let mtu = system::mtu(interface)?;
        Ok(Self { fd, capabilities, mtu, slots, errors: PortErrors::default() })
    }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> Result<(), ()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for reads of `len` bytes while the call lasts.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, ptr::from_ref(value).cast(), len)
    };
    if result < 0 { Err(()) } else { Ok(()) }
}

/// What one call receives: for each packet its header, its bytes and its auxiliary data. It is on the stack, less than 6 KiB.
struct Received {
    headers: [Header; BATCH],
    control: [[u64; CONTROL / 8]; BATCH],
    messages: [libc::mmsghdr; BATCH],
    parts: [[libc::iovec; 2]; BATCH],
}

const _: () = assert!(size_of::<Received>() < 6 << 10, "the stack that receiving takes is bounded");

impl Port for PacketSocket {
    fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn mtu(&self) -> u16 {
        self.mtu
    }

    fn receive(&mut self, batch: &mut Batch, pool: &mut dyn FnMut() -> Box<Packet>) -> io::Result<()> {
        let room = BATCH - batch.len();
        // SAFETY: all of it is plain data, for which zeros are a value.
        let mut into: Received = unsafe { MaybeUninit::zeroed().assume_init() };
        for (i, slot) in self.slots.iter_mut().enumerate().take(room) {
            let bytes = slot.room_mut(MAX_PACKET);
            into.parts[i] = [
                libc::iovec { iov_base: ptr::from_mut(&mut into.headers[i]).cast(), iov_len: HEADER },
                libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() },
            ];
            let message = &mut into.messages[i].msg_hdr;
            message.msg_iov = into.parts[i].as_mut_ptr();
            message.msg_iovlen = 2;
            message.msg_control = into.control[i].as_mut_ptr().cast();
            message.msg_controllen = CONTROL as _;
        }
        // SAFETY: the messages point at buffers of `self` and `into`, which live and stay where they are while the call lasts.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                into.messages.as_mut_ptr(),
                room as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(()),
                _ => Err(error),
            };
        }
        for i in 0..count as usize {
            let message = &into.messages[i];
            let len = (message.msg_len as usize).saturating_sub(HEADER);
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
                self.errors.rx_truncated += 1;
                continue;
            }
            if len < ETHERNET {
                self.errors.rx_too_short += 1;
                continue;
            }
            let mut packet = std::mem::replace(&mut self.slots[i], pool());
            packet.received(len);
            let known = into.headers[i].mark(&mut packet);
            // SAFETY: the kernel filled the control data of this message in.
            let tag = unsafe { vlan_tag(&message.msg_hdr) };
            let tagged = tag.is_none_or(|(tpid, tci)| packet.push_vlan(tpid, tci).is_ok());
            if !known || !tagged {
                self.errors.rx_unknown_segmentation += 1;
                // It is received into again.
                self.slots[i] = packet;
            } else if let Err(packet) = batch.push(packet) {
                self.slots[i] = packet;
            }
        }
        Ok(())
    }

    fn send(&mut self, packets: &mut [Box<Packet>]) -> io::Result<usize> {
        let (mut sent, mut left) = (0, packets.len());
        for chunk in packets.chunks_mut(BATCH) {
            left -= chunk.len();
            // Those behind a batch that failed are not tried.
            sent += self.send_batch(chunk).inspect_err(|_| self.errors.tx_down += left as u64)?;
        }
        Ok(sent)
    }

    fn errors(&self) -> PortErrors {
        self.errors
    }
}

impl PacketSocket {
    fn send_batch(&mut self, packets: &mut [Box<Packet>]) -> io::Result<usize> {
        let mut headers = [Header::new_zeroed(); BATCH];
        // SAFETY: `iovec` and `mmsghdr` are plain data, for which zeros are a value.
        let (mut parts, mut messages): ([[libc::iovec; 2]; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (zeroed(), zeroed()) };
        for (i, packet) in packets.iter_mut().enumerate() {
            headers[i] = Header::of(packet);
            let bytes = packet.send_data();
            // The kernel only reads what it sends.
            parts[i] = [
                libc::iovec { iov_base: headers[i].as_mut_bytes().as_mut_ptr().cast(), iov_len: HEADER },
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            ];
            messages[i].msg_hdr.msg_iov = parts[i].as_mut_ptr();
            messages[i].msg_hdr.msg_iovlen = 2;
        }
        let (mut done, mut sent) = (0, 0);
        while done < packets.len() {
            let rest = &mut messages[done..packets.len()];
            // SAFETY: the messages point at buffers of `packets`, `headers` and `parts`, which live and stay where they are while
            // the call lasts.
            let count = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            if count > 0 {
                done += count as usize;
                sent += count as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINTR) {
                continue;
            }
            // The first of the rest is the one that was refused.
            done += 1;
            if self.errors.count_send(&error) {
                self.errors.tx_down += (packets.len() - done) as u64;
                return Err(error);
            }
        }
        Ok(sent)
    }
}

/// The VLAN tag that the kernel took from a packet: TPID and TCI, host byte order.
///
/// # Safety
/// The message must be one that `recvmmsg` filled in, its control buffer still there.
unsafe fn vlan_tag(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the caller's promise.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !control.is_null() {
        // SAFETY: it is not null, and within the control buffer, as `CMSG_FIRSTHDR` and `CMSG_NXTHDR` say.
        let header = unsafe { &*control };
        let whole =
            header.cmsg_len as usize >= size_of::<libc::tpacket_auxdata>() + size_of::<libc::cmsghdr>();
        if header.cmsg_level == libc::SOL_PACKET && header.cmsg_type == libc::PACKET_AUXDATA && whole {
            // SAFETY: the message is of that type and as long as that; its data need not be aligned.
            let data =
                unsafe { ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>()) };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            return Some((if known { data.tp_vlan_tpid } else { DEFAULT_TPID }, data.tp_vlan_tci));
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(message, control) };
    }
    None
}
