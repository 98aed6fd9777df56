//! What OpenFlow requires of a match as a whole: fields that mean nothing beside the others, and fields that need others.
//!
//! Counterpart: OVS `ofputil_normalize_match` (`lib/ofp-match.c`), what `nx_put_raw` leaves out and what `nx_pull_raw` refuses
//! (`lib/nx-match.c`).

use super::error::ErrorKind;
use crate::openflow::field::Field;
use crate::openflow::headers::{dl_type, ethertype, ip_proto, packet_type};
use crate::openflow::rule_match::Match;
use crate::types::MacAddr;

/// What OpenFlow requires of a match as a whole: fields that mean nothing for the type of packet that it requires are taken
/// away. Returns whether there were such.
pub fn normalize(out: &mut Match) -> bool {
    let before = out.mask;
    let mask = &mut out.mask;
    let flow = &out.flow;
    let ethernet = mask.packet_type.get() == 0 || flow.packet_type.get() == packet_type::ETHERNET;
    let l3 = mask.packet_type.get() == u32::MAX && flow.packet_type.get() >> 16 == packet_type::NS_ETHERTYPE;
    let kind = match (ethernet, l3) {
        (true, _) => flow.dl_type.get(),
        (false, true) => flow.packet_type.get() as u16,
        (false, false) => 0,
    };
    let arp = matches!(kind, ethertype::ARP | ethertype::RARP);
    let (v4, v6) = (kind == ethertype::IPV4, kind == ethertype::IPV6);
    let l4 = matches!(flow.nw_proto, ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP);
    let icmpv6 = v6 && flow.nw_proto == ip_proto::ICMPV6;
    let ports = v4 && (l4 || flow.nw_proto == ip_proto::ICMP) || v6 && l4 || icmpv6;
    let (solicit, advert) = (icmpv6 && flow.tp_src.get() == 135, icmpv6 && flow.tp_src.get() == 136);
    if !ethernet {
        mask.dl_src = MacAddr::ZERO;
        mask.dl_dst = MacAddr::ZERO;
    }
    if !(v4 || arp) {
        mask.nw_src.set(0);
        mask.nw_dst.set(0);
    }
    if !ports {
        mask.tp_src.set(0);
        mask.tp_dst.set(0);
    }
    if !(v4 || v6 || arp) {
        mask.nw_proto = 0;
    }
    if !(v4 || v6) {
        mask.nw_tos = 0;
        mask.nw_ttl = 0;
    }
    if !(arp || solicit) {
        mask.arp_sha = MacAddr::ZERO;
    }
    if !(arp || advert) {
        mask.arp_tha = MacAddr::ZERO;
    }
    if !v6 {
        mask.ipv6_src = [0; 16];
        mask.ipv6_dst = [0; 16];
        mask.ipv6_label.set(0);
    }
    if !(solicit || advert) {
        mask.nd_target = [0; 16];
    }
    if !ethertype::is_mpls(kind) {
        mask.mpls_lse = Default::default();
    }
    out.flow = out.flow.masked(&out.mask);
    before != out.mask
}

/// Takes away what no message carries: fields of a protocol that the match does not require. Open vSwitch's commands drop
/// them without a word.
pub(super) fn leave_out_inexpressible(out: &mut Match) {
    let (flow, mask) = (&out.flow, &mut out.mask);
    let kind = dl_type(flow);
    let ip = matches!(kind, ethertype::IPV4 | ethertype::IPV6);
    let proto = if ip && mask.nw_proto != 0 { flow.nw_proto } else { 0 };
    let icmpv6 = kind == ethertype::IPV6 && proto == ip_proto::ICMPV6;
    let nd = icmpv6 && matches!(flow.tp_src.get(), 135 | 136) && flow.tp_dst.get() == 0;
    if !ip {
        mask.nw_frag = 0;
    }
    if !(proto == ip_proto::TCP || nd) {
        mask.tcp_flags.set(0);
    }
    if !nd {
        mask.igmp_group_ip4.set(0);
        mask.nd_target = [0; 16];
        if ip {
            mask.arp_sha = MacAddr::ZERO;
            mask.arp_tha = MacAddr::ZERO;
        }
    }
    if flow.ct_nw_proto == 0 {
        mask.ct_nw_proto = 0;
        mask.ct_tp_src.set(0);
        mask.ct_tp_dst.set(0);
    }
    out.flow = out.flow.masked(&out.mask);
}

/// Fields that are carried whether or not the match requires what they need.
const CARRIED: [Field; 21] = [
    Field::EthSrc,
    Field::EthDst,
    Field::EthType,
    Field::VlanTci,
    Field::NshFlags,
    Field::NshTtl,
    Field::NshMdtype,
    Field::NshNp,
    Field::NshSpi,
    Field::NshSi,
    Field::NshC(1),
    Field::NshC(2),
    Field::NshC(3),
    Field::NshC(4),
    Field::CtNwProto,
    Field::CtNwSrc,
    Field::CtNwDst,
    Field::CtIpv6Src,
    Field::CtIpv6Dst,
    Field::CtTpSrc,
    Field::CtTpDst,
];

/// Refuses a match with a field whose prerequisites the match does not require, as a switch does
/// (`OFPBMC_BAD_PREREQ`).
///
/// # Errors
/// [`ErrorKind::Prerequisite`] with the first such field.
pub(super) fn check_prerequisites(rule: &Match) -> Result<(), ErrorKind> {
    let l4: &[Field] = match rule.flow.nw_proto {
        ip_proto::TCP => &[Field::TcpSrc, Field::TcpDst, Field::TcpFlags],
        ip_proto::UDP => &[Field::UdpSrc, Field::UdpDst],
        ip_proto::SCTP => &[Field::SctpSrc, Field::SctpDst],
        _ => &[],
    };
    let unmet =
        |field: &&Field| !field.get(&rule.mask).is_zero() && !field.match_prereqs_met(&rule.flow, &rule.mask);
    match CARRIED.iter().chain(l4).find(unmet) {
        Some(field) => Err(ErrorKind::Prerequisite(field.to_string())),
        None => Ok(()),
    }
}
