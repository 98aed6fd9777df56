//! What hosts and routers say of multicast groups: IGMP (RFC 1112, 2236, 3376) and MLD (RFC 2710, 3810).
//!
//! Counterpart: `mcast_snooping_add_report()` and `mcast_snooping_add_mld()` of OVS `lib/mcast-snooping.c`,
//! `update_mcast_snooping_table4__()` and `..6__()` of `ofproto/ofproto-dpif-xlate.c`.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{GroupProtocol, SnoopingTable};
use crate::flow::Flow;
use crate::offload::checksum;
use crate::openflow::bridge::BundleId;
use crate::openflow::headers::ip_proto;
use crate::packet::Packet;
use crate::types::Time;

/// IGMP: a router asks who wants groups.
const IGMP_QUERY: u16 = 0x11;
/// IGMP: a host wants a group.
const IGMP_V1_REPORT: u16 = 0x12;
const IGMP_V2_REPORT: u16 = 0x16;
/// IGMP: a host does not want a group any more.
const IGMP_LEAVE: u16 = 0x17;
/// IGMP: what a host wants of several groups.
const IGMP_V3_REPORT: u16 = 0x22;
/// MLD: the same, as types of ICMPv6.
const MLD_QUERY: u16 = 130;
const MLD_REPORT: u16 = 131;
const MLD_DONE: u16 = 132;
const MLD_V2_REPORT: u16 = 143;
/// Bytes in front of the first record of an IGMPv3 or MLDv2 report, or of the group of an MLDv1 message.
const HEADER_LEN: usize = 8;
/// Bytes of a record in front of its group.
const RECORD_HEADER_LEN: usize = 4;

/// Kinds of IGMP messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgmpKind {
    /// A router asks.
    Query,
    /// A host joins or leaves.
    Membership,
    /// Anything else.
    Other,
}

/// The kind of an IGMP message, by the type in a packet's key.
pub fn igmp_kind(flow: &Flow) -> IgmpKind {
    match flow.tp_src.get() {
        IGMP_QUERY => IgmpKind::Query,
        IGMP_V1_REPORT | IGMP_V2_REPORT | IGMP_LEAVE | IGMP_V3_REPORT => IgmpKind::Membership,
        _ => IgmpKind::Other,
    }
}

/// Whether the type of an ICMPv6 message is one of MLD.
pub const fn is_mld_type(icmp_type: u16) -> bool {
    matches!(icmp_type, MLD_QUERY | MLD_REPORT | MLD_DONE | MLD_V2_REPORT)
}

/// Whether the type of an MLD message is that of a question.
pub const fn is_mld_query_type(icmp_type: u16) -> bool {
    icmp_type == MLD_QUERY
}

/// What a message told that was not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// Its checksum is wrong: it was not listened to.
    BadChecksum,
    /// There is a group.
    Joined(Ipv4Addr),
    /// The port does not want a group any more.
    Left(Ipv4Addr),
    /// There is a router, with this address if it is IPv4.
    Router(Option<Ipv4Addr>),
    /// So many groups are new, or were left.
    Groups(u32),
}

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Port.
    pub port: BundleId,
    /// VLAN.
    pub vlan: u16,
}

impl SnoopingTable {
    /// Listens to an IGMP message. The key may have been changed since the packet was received; records are the packet's.
    pub fn hear_igmp(&mut self, packet: &Packet, flow: &Flow, from: Origin, now: Time) -> Heard {
        let Origin { port, vlan } = from;
        let intact = |l4: &[u8]| l4.len() >= HEADER_LEN && checksum::internet(l4) == [0, 0];
        if !packet.l4().is_some_and(intact) {
            return Heard::BadChecksum;
        }
        let group = Ipv4Addr::from_bits(flow.igmp_group_ip4.get());
        let told = |is_new: bool, heard: Heard| if is_new { heard } else { Heard::Nothing };
        match flow.tp_src.get() {
            kind @ (IGMP_V1_REPORT | IGMP_V2_REPORT) => {
                let v1 = kind == IGMP_V1_REPORT;
                let protocol = if v1 { GroupProtocol::IgmpV1 } else { GroupProtocol::IgmpV2 };
                told(self.join(group.to_ipv6_mapped(), vlan, port, protocol, now), Heard::Joined(group))
            }
            IGMP_LEAVE => told(self.leave(group.to_ipv6_mapped(), vlan, port), Heard::Left(group)),
            IGMP_QUERY => {
                // A switch that asks in a router's place has no address (RFC 4541, 2.1.1).
                let router = Ipv4Addr::from_bits(flow.nw_src.get());
                let is_new = !router.is_unspecified() && self.add_router(vlan, port, now);
                told(is_new, Heard::Router(Some(router)))
            }
            IGMP_V3_REPORT => groups(self.hear_records(packet, from, Records::IGMP, now)),
            _ => Heard::Nothing,
        }
    }

    /// Listens to an MLD message.
    pub fn hear_mld(&mut self, packet: &Packet, flow: &Flow, from: Origin, now: Time) -> Heard {
        let Origin { port, vlan } = from;
        if !mld_is_intact(packet) {
            return Heard::BadChecksum;
        }
        match flow.tp_src.get() {
            MLD_QUERY => match flow.ipv6_src != [0; 16] && self.add_router(vlan, port, now) {
                true => Heard::Router(None),
                false => Heard::Nothing,
            },
            kind @ (MLD_REPORT | MLD_DONE) => {
                let Some(group) = message(packet).and_then(|m| m.get(HEADER_LEN..HEADER_LEN + 16)) else {
                    return Heard::Nothing;
                };
                let group = address(group);
                groups(u32::from(match kind {
                    MLD_REPORT => self.join(group, vlan, port, GroupProtocol::MldV1, now),
                    _ => self.leave(group, vlan, port),
                }))
            }
            // A message that ends within its first group is none (OVS: it has to hold what any kind of message needs).
            MLD_V2_REPORT if message(packet).is_some_and(|m| m.len() >= HEADER_LEN + 16) => {
                groups(self.hear_records(packet, from, Records::MLD, now))
            }
            _ => Heard::Nothing,
        }
    }

    /// Listens to the records of a report; returns how many groups are new or were left.
    fn hear_records(&mut self, packet: &Packet, from: Origin, records: Records, now: Time) -> u32 {
        let Origin { port, vlan } = from;
        let Some(message) = message(packet) else { return 0 };
        let &[_, _, _, _, _, _, n0, n1, ..] = message else { return 0 };
        let mut at = HEADER_LEN;
        let mut count = 0;
        for _ in 0..u16::from_be_bytes([n0, n1]) {
            let Some(record) = message.get(at..at + RECORD_HEADER_LEN + records.address_len) else { break };
            let (header, group) = record.split_at(RECORD_HEADER_LEN);
            let &[kind, aux_len, s0, s1] = header else { break };
            let n_sources = usize::from(u16::from_be_bytes([s0, s1]));
            match RecordKind::of(kind, n_sources) {
                Some(RecordKind::Leave) => count += u32::from(self.leave(address(group), vlan, port)),
                Some(RecordKind::Join) => {
                    count += u32::from(self.join(address(group), vlan, port, records.protocol, now));
                }
                // OVS does not go on behind an IGMPv3 record of another kind (RFC 3376, 4.2.12, would ignore that one).
                None if records.protocol == GroupProtocol::IgmpV3 => break,
                None => {}
            }
            // The length of auxiliary data counts words (RFC 3376, 4.2.6), OVS takes it for bytes. There is none in practice.
            at += record.len() + n_sources * records.address_len + usize::from(aux_len);
        }
        count
    }
}

fn groups(count: u32) -> Heard {
    if count == 0 { Heard::Nothing } else { Heard::Groups(count) }
}

/// How records are laid out.
#[derive(Clone, Copy)]
struct Records {
    protocol: GroupProtocol,
    address_len: usize,
}

impl Records {
    const IGMP: Self = Self { protocol: GroupProtocol::IgmpV3, address_len: 4 };
    const MLD: Self = Self { protocol: GroupProtocol::MldV2, address_len: 16 };
}

enum RecordKind {
    Join,
    Leave,
}

impl RecordKind {
    /// What a record of a known type says: to include no source is to leave.
    fn of(kind: u8, n_sources: usize) -> Option<Self> {
        const MODE_IS_INCLUDE: u8 = 1;
        const CHANGE_TO_INCLUDE: u8 = 3;
        const BLOCK_OLD_SOURCES: u8 = 6;
        match kind {
            MODE_IS_INCLUDE | CHANGE_TO_INCLUDE if n_sources == 0 => Some(Self::Leave),
            MODE_IS_INCLUDE..=BLOCK_OLD_SOURCES => Some(Self::Join),
            _ => None,
        }
    }
}

/// The message and what is behind it: OVS reads records that a message announces out of the frame's padding, too.
fn message(packet: &Packet) -> Option<&[u8]> {
    packet.l4()?;
    packet.data().get(usize::from(packet.l4_ofs)..)
}

/// The address in a slice of 4 or 16 bytes.
fn address(bytes: &[u8]) -> Ipv6Addr {
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(v4), _) => Ipv4Addr::from(v4).to_ipv6_mapped(),
        (_, Ok(v6)) => Ipv6Addr::from(v6),
        _ => Ipv6Addr::UNSPECIFIED,
    }
}

/// Whether the checksum over an MLD message and its pseudo-header is right (RFC 8200, 8.1).
fn mld_is_intact(packet: &Packet) -> bool {
    const ADDRESSES: std::ops::Range<usize> = 8..40;
    let (Some(l3), Some(l4)) = (packet.l3(), packet.l4()) else { return false };
    let Some(addresses) = l3.get(ADDRESSES).and_then(|part| <&[u8; 32]>::try_from(part).ok()) else {
        return false;
    };
    let sum = checksum::pseudo_ipv6(addresses, ip_proto::ICMPV6, l4.len() as u32);
    l4.len() >= HEADER_LEN && sum.bytes(l4).finish() == [0, 0]
}
