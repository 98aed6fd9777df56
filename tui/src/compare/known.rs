//! Differences that are Open vSwitch's: what it does, why ours is right, and in which versions.

use super::diff::{Difference, Place};
use super::ovs::Version;

/// The port for FTP's commands.
const FTP: u16 = 21;

/// One fault of Open vSwitch.
struct Known {
    /// First version that does not have it, if any has.
    fixed_in: Option<Version>,
    /// Whether a difference is this one.
    is: fn(&Difference) -> bool,
    /// What it is, in a line.
    why: &'static str,
}

const LIST: [Known; 5] = [
    Known {
        fixed_in: Some(Version(3, 5, 0)),
        is: |difference| difference.place == Place::Flows && without_ipv6_prefixes(&difference.detail),
        why: "before 3.5.0 a flow matches more or less of an IPv6 address than its rules need",
    },
    Known {
        fixed_in: None,
        is: |difference| {
            difference.frames.as_ref().is_some_and(|[theirs, ours]| in_later_fragment(theirs, ours))
        },
        why: "a later fragment's payload is changed as if it began with a transport header",
    },
    Known {
        fixed_in: None,
        is: |difference| {
            difference.frames.as_ref().is_some_and(|[theirs, ours]| wrong_outer_checksum(theirs, ours))
        },
        why: "the checksum of the outer UDP header is wrong, recirc's is right",
    },
    Known {
        fixed_in: None,
        is: |difference| {
            difference.frames.as_ref().is_some_and(|[theirs, ours]| checksum_in_ipv6(theirs, ours))
        },
        why: "a checksum of IPv4 is written into an inner IPv6 header",
    },
    Known {
        fixed_in: None,
        is: |difference| {
            difference.frames.as_ref().is_some_and(|[theirs, ours]| is_ftp_control(theirs, ours))
        },
        why: "packets of dummy ports have no room for a longer FTP command, so none is written in its place",
    },
];

/// Whether the flows of a difference are the same but for how much of IPv6 addresses they match, and what is looked at because
/// of that.
fn without_ipv6_prefixes(detail: &str) -> bool {
    let mut flows = detail.lines().map(|line| {
        let (before, rest) = line.split_once("ipv6(")?;
        let (_, after) = rest.split_once(')')?;
        Some((before.split_once("recirc_id(").map_or(before, |(_, key)| key), after))
    });
    matches!((flows.next(), flows.next(), flows.next()), (Some(Some(theirs)), Some(Some(ours)), None) if theirs == ours)
}

/// Why a difference from this version is known, if it is.
pub fn known(difference: &Difference, version: Version) -> Option<&'static str> {
    let of = |one: &&Known| one.fixed_in.is_none_or(|fixed| version < fixed) && (one.is)(difference);
    LIST.iter().find(of).map(|one| one.why)
}

/// Whether two frames are a later fragment of IPv4, and differ where a checksum would be if a transport header came first.
fn in_later_fragment(theirs: &[u8], ours: &[u8]) -> bool {
    let Ok(sliced) = etherparse::SlicedPacket::from_ethernet(ours) else { return false };
    let Some(etherparse::NetSlice::Ipv4(ipv4)) = &sliced.net else { return false };
    let header = ipv4.header();
    let checksum = match header.protocol() {
        etherparse::IpNumber::TCP => 16,
        etherparse::IpNumber::UDP => 6,
        _ => return false,
    };
    // Behind the header is the rest of the frame.
    let Some(start) = ours.windows(header.slice().len()).position(|bytes| bytes == header.slice()) else {
        return false;
    };
    let at = start + header.slice().len() + checksum;
    let same = |range: std::ops::Range<usize>| theirs.get(range.clone()) == ours.get(range);
    header.fragments_offset().value() != 0
        && theirs.len() == ours.len()
        && same(0..at)
        && same(at + 2..ours.len())
}

/// Whether two frames are of the same connection for FTP's commands, and have the same flags.
fn is_ftp_control(theirs: &[u8], ours: &[u8]) -> bool {
    let what = |frame: &[u8]| {
        let sliced = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
        let tcp = match &sliced.transport {
            Some(etherparse::TransportSlice::Tcp(tcp)) => tcp,
            _ => return None,
        };
        let ports = (tcp.source_port(), tcp.destination_port());
        let network = match &sliced.net {
            Some(etherparse::NetSlice::Ipv4(ipv4)) => ipv4.header().slice()[12..20].to_vec(),
            Some(etherparse::NetSlice::Ipv6(ipv6)) => ipv6.header().slice()[8..40].to_vec(),
            _ => return None,
        };
        let flags = tcp.slice().get(13).copied();
        (ports.0 == FTP || ports.1 == FTP).then_some((ports, network, flags))
    };
    what(theirs).is_some_and(|theirs| what(ours) == Some(theirs))
}

/// Where two frames of one length differ.
fn differences(theirs: &[u8], ours: &[u8]) -> Option<Vec<usize>> {
    let differ = theirs.iter().zip(ours).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at);
    (theirs.len() == ours.len()).then(|| differ.collect())
}

/// The outer UDP header of a frame: where it is, and whether its checksum is right.
fn outer_udp(frame: &[u8]) -> Option<(usize, bool)> {
    let sliced = etherparse::SlicedPacket::from_ethernet(frame).ok()?;
    let Some(etherparse::TransportSlice::Udp(udp)) = &sliced.transport else { return None };
    let payload = udp.payload();
    let sum = match &sliced.net {
        Some(etherparse::NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            udp.to_header().calc_checksum_ipv4_raw(header.source(), header.destination(), payload).ok()?
        }
        Some(etherparse::NetSlice::Ipv6(ip)) => {
            let header = ip.header();
            udp.to_header().calc_checksum_ipv6_raw(header.source(), header.destination(), payload).ok()?
        }
        Some(etherparse::NetSlice::Arp(_)) | None => return None,
    };
    let start = frame.len() - payload.len() - 8;
    Some((start, sum == udp.checksum()))
}

/// Whether two frames differ in the checksum of the outer UDP header alone, and ours is the right one.
fn wrong_outer_checksum(theirs: &[u8], ours: &[u8]) -> bool {
    let (Some(places), Some((udp, right))) = (differences(theirs, ours), outer_udp(ours)) else {
        return false;
    };
    right && places.iter().all(|at| (udp + 6..udp + 8).contains(at))
}

/// Whether two frames differ where an inner IPv6 header would have a checksum if it were one of IPv4, and in the checksum over
/// it.
fn checksum_in_ipv6(theirs: &[u8], ours: &[u8]) -> bool {
    let Some(mut places) = differences(theirs, ours) else { return false };
    if let Some((udp, _)) = outer_udp(ours) {
        places.retain(|at| !(udp + 6..udp + 8).contains(at));
    }
    let is_inner = |at: usize| at >= 26 && ours[at - 12..at - 10] == [0x86, 0xdd] && ours[at - 10] >> 4 == 6;
    !places.is_empty() && places.len() <= 2 && (is_inner(places[0]) || is_inner(places[0] - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Place;

    #[test]
    fn ipv6_prefixes_of_old_versions_are_known() {
        let line = |id: &str, ipv6: &str, end: &str| {
            format!("{id}in_port(p2),eth_type(0x86dd),ipv6({ipv6},frag=no){end} actions:drop")
        };
        let theirs = line("Open vSwitch: recirc_id(0),", "src=fe80::1/ffff:ffff:ffff::,proto=132", "");
        let difference = |ours: &str, place: Place| Difference {
            place,
            what: "a flow matches on something else".to_owned(),
            detail: format!("{theirs}\n{ours}\n"),
            frames: None,
        };
        let ours = line("recirc:       recirc_id(0),", "src=fe80::1/8000::", "");
        let found = difference(&ours, Place::Flows);
        assert!(known(&found, Version(3, 1, 0)).is_some() && known(&found, Version(3, 5, 0)).is_none());
        let other = line("recirc:       recirc_id(0),", "src=fe80::1/8000::", ",udp(dst=1)");
        assert!(known(&difference(&other, Place::Flows), Version(3, 1, 0)).is_none());
    }

    #[test]
    fn checksums_in_later_fragments_are_known() {
        let mut ours = vec![0; 14 + 20 + 24];
        ours[12..14].copy_from_slice(&[8, 0]);
        ours[14..34].copy_from_slice(&[0x45, 0, 0, 44, 0, 0, 0, 8, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let mut theirs = ours.clone();
        theirs[34 + 6] = 1;
        assert!(in_later_fragment(&theirs, &ours));
        theirs[34] = 1;
        assert!(!in_later_fragment(&theirs, &ours), "more than that");
        theirs[34] = 0;
        ours[21] = 0;
        theirs[21] = 0;
        assert!(!in_later_fragment(&theirs, &ours), "no fragment");
    }

    #[test]
    fn rewritten_ftp_commands_are_known() {
        let mut theirs = vec![0; 14 + 20 + 20];
        theirs[12..14].copy_from_slice(&[8, 0]);
        theirs[14..34].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        theirs[36..38].copy_from_slice(&[0, 21]);
        theirs[46] = 5 << 4;
        let mut ours = theirs.clone();
        ours[41] = 1;
        assert!(is_ftp_control(&theirs, &ours));
        ours[33] = 3;
        assert!(!is_ftp_control(&theirs, &ours), "another address");
        ours[33] = 2;
        ours[47] = 2;
        assert!(!is_ftp_control(&theirs, &ours), "other flags");
        ours[47] = 0;
        [theirs[37], ours[37]] = [80; 2];
        assert!(!is_ftp_control(&theirs, &ours), "no FTP");
    }

    #[test]
    fn a_right_outer_checksum_is_known_to_be_right() {
        let builder =
            etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut ours = Vec::new();
        builder.udp(1, 4789).write(&mut ours, &[7; 40]).unwrap();
        let mut theirs = ours.clone();
        theirs[14 + 20 + 6] ^= 1;
        assert!(wrong_outer_checksum(&theirs, &ours));
        assert!(!wrong_outer_checksum(&ours, &theirs), "the other one is wrong");
        theirs[60] ^= 1;
        assert!(!wrong_outer_checksum(&theirs, &ours), "more than that");
    }

    #[test]
    fn a_checksum_that_ipv6_has_not_is_known() {
        let mut ours = vec![0; 120];
        ours[12..14].copy_from_slice(&[8, 0]);
        ours[64..66].copy_from_slice(&[0x86, 0xdd]);
        ours[66] = 0x60;
        let mut theirs = ours.clone();
        theirs[76] = 0x39;
        theirs[77] = 0xde;
        assert!(checksum_in_ipv6(&theirs, &ours));
        theirs[80] = 1;
        assert!(!checksum_in_ipv6(&theirs, &ours));
    }
}
