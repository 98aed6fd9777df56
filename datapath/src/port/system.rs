//! Names of interfaces, their properties, and network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::PortError;

/// A request about an interface, with its name filled in.
pub(super) fn request(name: &str) -> Result<libc::ifreq, PortError> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0']) {
        return Err(PortError::BadName(name.to_owned()));
    }
    // SAFETY: `ifreq` is plain data, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

/// A socket to ask about interfaces with.
fn query() -> io::Result<OwnedFd> {
    // SAFETY: no memory is handed over.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An `ioctl` that reads and writes a request.
pub(super) fn ioctl(fd: RawFd, code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the request is valid for reads and writes while the call lasts, and of the size that these codes expect.
    let result = unsafe { libc::ioctl(fd, code as _, std::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The largest L3 packet that an interface takes.
pub(super) fn mtu(name: &str) -> Result<u16, PortError> {
    let failed = |error| PortError::System { what: "read the MTU of", interface: name.to_owned(), error };
    let mut request = request(name)?;
    let socket = query().map_err(failed)?;
    ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request).map_err(failed)?;
    // SAFETY: the kernel filled in this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// Sets an interface up.
pub(super) fn set_up(name: &str) -> Result<(), PortError> {
    let failed = |error| PortError::System { what: "set up", interface: name.to_owned(), error };
    let mut request = request(name)?;
    let socket = query().map_err(failed)?;
    ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &mut request).map_err(failed)?;
    // SAFETY: the kernel filled in this member.
    unsafe {
        request.ifr_ifru.ifru_flags |= (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    }
    ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &mut request).map_err(failed)
}

/// Does something inside a network namespace, as `ip netns` names them; what it opens stays there.
///
/// # Errors
/// That there is no such namespace, or what `act` fails with.
pub fn in_namespace<T: Send>(
    name: Option<&str>,
    act: impl FnOnce() -> Result<T, PortError> + Send,
) -> Result<T, PortError> {
    let Some(name) = name else { return act() };
    let path = Path::new("/run/netns").join(name);
    let Ok(namespace) = File::open(path) else { return Err(PortError::NoNamespace(name.to_owned())) };
    // A thread that enters a namespace stays there: it is one of its own, and ends.
    thread::scope(|scope| {
        let entered = scope.spawn(|| {
            // SAFETY: no memory is handed over.
            if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
                let error = io::Error::last_os_error();
                return Err(match error.raw_os_error() {
                    Some(libc::EPERM) => {
                        PortError::NoPermission { interface: name.to_owned(), capability: "CAP_SYS_ADMIN" }
                    }
                    _ => PortError::System { what: "enter namespace", interface: name.to_owned(), error },
                });
            }
            act()
        });
        entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Ports that are waited for, by their places in a list.
pub struct Poll {
    polled: Vec<libc::pollfd>,
}

impl Poll {
    /// For ports with these descriptors.
    pub fn new(fds: impl Iterator<Item = RawFd>) -> Self {
        Self { polled: fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect() }
    }

    /// Waits until something can be read from one of them, or an error is to be told, or `patience` is over.
    ///
    /// # Errors
    /// What the kernel refuses; to be interrupted by a signal is none.
    pub fn wait(&mut self, patience: Duration) -> io::Result<()> {
        let patience = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: patience.subsec_nanos() as libc::c_long,
        };
        let (polled, count) = (self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t);
        // SAFETY: the descriptors to poll are valid for reads and writes while the call lasts, as is the time.
        if unsafe { libc::ppoll(polled, count, &raw const patience, std::ptr::null()) } >= 0 {
            return Ok(());
        }
        self.polled.iter_mut().for_each(|polled| polled.revents = 0);
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EINTR) { Ok(()) } else { Err(error) }
    }

    /// Whether the last wait was for this port.
    pub fn is_ready(&self, place: usize) -> bool {
        self.polled[place].revents != 0
    }

    /// Waits for this port no more.
    pub fn forget(&mut self, place: usize) {
        // The kernel leaves out what is negative.
        self.polled[place] = libc::pollfd { fd: -1, events: 0, revents: 0 };
    }
}
