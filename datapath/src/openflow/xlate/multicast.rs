//! NORMAL on a bridge that snoops: multicast packets go where someone wants them.
//!
//! Counterpart: the part of `xlate_normal()` of OVS `ofproto/ofproto-dpif-xlate.c` that follows RFC 4541.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::ctx::Ctx;
use super::trace::NodeKind;
use crate::openflow::bridge::vlan::Tags;
use crate::openflow::bridge::{Bundle, BundleId};
use crate::openflow::headers::{ethertype, ip_proto, is_icmpv6, is_ip_any, is_ip_proto};
use crate::openflow::mcast_snooping::message::{
    Heard, IgmpKind, Origin, igmp_kind, is_mld_query_type, is_mld_type,
};

/// All nodes on the link (RFC 4291, 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Why a port gets a packet.
#[derive(Clone, Copy)]
enum Want {
    Group,
    Router,
    Flood,
    Reports,
}

impl Want {
    const fn sends(self) -> &'static str {
        match self {
            Self::Group => "forwarding to mcast group port",
            Self::Router => "forwarding to mcast router port",
            Self::Flood => "forwarding to mcast flood port",
            Self::Reports => "forwarding report to mcast flagged port",
        }
    }

    const fn is_unknown(self) -> &'static str {
        match self {
            Self::Group => "mcast group port is unknown, dropping",
            Self::Router => "mcast router port is unknown, dropping",
            Self::Flood => "mcast flood port is unknown, dropping",
            Self::Reports => "mcast port is unknown, dropping the report",
        }
    }

    const fn is_input(self) -> &'static str {
        match self {
            Self::Group => "mcast group port is input port, dropping",
            Self::Router => "mcast router port is input port, dropping",
            Self::Flood => "mcast flood port is input port, dropping",
            Self::Reports => "mcast port is input port, dropping the Report",
        }
    }
}

/// The ports that get a packet, in order; one may be there for several reasons, and gets it as often.
struct Outputs<'a> {
    in_id: Option<BundleId>,
    bundles: Vec<&'a Bundle>,
}

impl<'a> Ctx<'a, '_> {
    /// Whether the packet is one whose way is decided by what was heard of groups.
    pub(super) fn is_snooped(&self) -> bool {
        let dst = self.flow.dl_dst;
        self.effects.learning.snooping(self.bridge.id).is_some()
            && !dst.is_broadcast()
            && dst.is_multicast()
            && is_ip_any(&self.flow)
    }

    /// Forwards a packet to a group, or a message about groups.
    pub(super) fn multicast(&mut self, in_bundle: Option<&'a Bundle>, tags: &Tags, last: bool) {
        let mut out = Outputs { in_id: in_bundle.map(|bundle| bundle.id), bundles: Vec::new() };
        let vlan = tags.0[0].vid;
        if self.is_igmp() {
            // Each message counts: members that go on asking keep their group.
            self.needs_slow_path();
            let kind = igmp_kind(&self.flow);
            if kind != IgmpKind::Other {
                self.hear(in_bundle, vlan);
            }
            if kind != IgmpKind::Membership {
                self.say(NodeKind::Detail, "multicast traffic, flooding");
                return self.flood_vlan(out.in_id, tags, last);
            }
            self.add_routers(vlan, &mut out);
            self.add_report_ports(&mut out);
        } else if self.is_mld() {
            self.needs_slow_path();
            self.hear(in_bundle, vlan);
            if is_mld_query_type(self.flow.tp_src.get()) {
                self.say(NodeKind::Detail, "MLD query, flooding");
                return self.flood_vlan(out.in_id, tags, last);
            }
            // Members that heard another's report would keep silent, and be forgotten (RFC 4541, 2.1.1).
            self.add_routers(vlan, &mut out);
            self.add_report_ports(&mut out);
        } else if self.is_local() {
            self.say(NodeKind::Detail, "RFC4541: section 2.1.2, item 2, flooding");
            return self.flood_vlan(out.in_id, tags, last);
        } else if !self.add_group(vlan, &mut out) {
            self.say(NodeKind::Detail, "unregistered multicast, flooding");
            return self.flood_vlan(out.in_id, tags, last);
        }
        let n = out.bundles.len();
        for (i, bundle) in out.bundles.into_iter().enumerate() {
            self.output_normal(bundle, tags, last && i + 1 == n);
        }
    }

    fn is_igmp(&mut self) -> bool {
        self.flow.dl_type.get() == ethertype::IPV4
            && is_ip_proto(&self.flow, ip_proto::IGMP, Some(&mut self.wc))
    }

    fn is_mld(&mut self) -> bool {
        let is_icmpv6 = is_icmpv6(&self.flow, Some(&mut self.wc));
        if is_icmpv6 {
            self.wc.tp_src.set(u16::MAX);
        }
        is_icmpv6 && is_mld_type(self.flow.tp_src.get())
    }

    /// Whether the packet is for a group that is everywhere (RFC 4541, 2.1.2 and 3).
    fn is_local(&mut self) -> bool {
        match self.flow.dl_type.get() {
            ethertype::IPV4 => {
                self.wc.nw_dst.set(u32::MAX);
                let [a, b, c, _] = self.flow.nw_dst.to_bytes();
                [a, b, c] == [224, 0, 0]
            }
            ethertype::IPV6 => {
                self.wc.ipv6_dst = [0xff; 16];
                Ipv6Addr::from(self.flow.ipv6_dst) == ALL_NODES
            }
            _ => false,
        }
    }

    /// Ports for a packet to a group; false if it is to be flooded.
    fn add_group(&mut self, vlan: u16, out: &mut Outputs<'a>) -> bool {
        let group = match self.flow.dl_type.get() {
            ethertype::IPV4 => Ipv4Addr::from_bits(self.flow.nw_dst.get()).to_ipv6_mapped(),
            _ => Ipv6Addr::from(self.flow.ipv6_dst),
        };
        let Some(table) = self.effects.learning.snooping(self.bridge.id) else { return false };
        let members: Option<Vec<BundleId>> = table.members(group, vlan).map(Iterator::collect);
        if let Some(members) = members {
            members.into_iter().for_each(|id| self.add(Want::Group, id, out));
            self.add_flood_ports(out);
            self.add_routers(vlan, out);
        } else if table.config().flood_unregistered {
            return false;
        } else {
            self.add_routers(vlan, out);
            self.add_flood_ports(out);
        }
        true
    }

    fn add_routers(&mut self, vlan: u16, out: &mut Outputs<'a>) {
        let table = self.effects.learning.snooping(self.bridge.id);
        let routers: Vec<_> = table.into_iter().flat_map(|table| table.routers()).collect();
        for (id, of_vlan) in routers {
            if of_vlan != vlan && self.bridge.bundle(id).is_some() {
                self.say(NodeKind::Detail, "mcast router is on another vlan, dropping");
            } else {
                self.add(Want::Router, id, out);
            }
        }
    }

    fn add_flood_ports(&mut self, out: &mut Outputs<'a>) {
        let table = self.effects.learning.snooping(self.bridge.id);
        let ports = table.map_or_else(Vec::new, |table| table.flood_ports().to_vec());
        ports.into_iter().for_each(|id| self.add(Want::Flood, id, out));
    }

    fn add_report_ports(&mut self, out: &mut Outputs<'a>) {
        let table = self.effects.learning.snooping(self.bridge.id);
        let ports = table.map_or_else(Vec::new, |table| table.report_ports().to_vec());
        ports.into_iter().for_each(|id| self.add(Want::Reports, id, out));
    }

    fn add(&mut self, want: Want, id: BundleId, out: &mut Outputs<'a>) {
        match self.bridge.bundle(id) {
            Some(_) if Some(id) == out.in_id => self.say(NodeKind::Detail, want.is_input()),
            Some(bundle) => {
                self.say(NodeKind::Detail, want.sends());
                out.bundles.push(bundle);
            }
            None => self.say(NodeKind::Warn, want.is_unknown()),
        }
    }

    /// Learns from a message, unless it came by no port, or by one that gets everything anyway.
    fn hear(&mut self, in_bundle: Option<&Bundle>, vlan: u16) {
        let packet = self.packet.filter(|_| self.effects.may_learn && self.outside == 0);
        let (Some(bundle), Some(packet)) = (in_bundle, packet) else { return };
        let table = self.effects.learning.snooping_mut(self.bridge.id);
        let Some(table) = table.filter(|table| !table.flood_ports().contains(&bundle.id)) else { return };
        let from = Origin { port: bundle.id, vlan };
        let is_igmp = self.flow.dl_type.get() == ethertype::IPV4;
        let heard = match is_igmp {
            true => table.hear_igmp(packet, &self.flow, from, self.now),
            false => table.hear_mld(packet, &self.flow, from, self.now),
        };
        if heard != Heard::Nothing {
            self.report(NodeKind::Detail, |_| {
                let what = what_was_heard(heard, is_igmp);
                format!("multicast snooping {what} on port {} in VLAN {vlan}", bundle.name)
            });
        }
    }
}

fn what_was_heard(heard: Heard, is_igmp: bool) -> String {
    match heard {
        Heard::Nothing => String::new(),
        Heard::BadChecksum => format!("received bad {} checksum", if is_igmp { "IGMP" } else { "MLD" }),
        Heard::Joined(group) => format!("learned that {group} is"),
        Heard::Left(group) => format!("leaving {group} is"),
        Heard::Router(Some(router)) => format!("query from {router} is"),
        Heard::Router(None) => "query".to_owned(),
        Heard::Groups(count) => format!("processed {count} addresses"),
    }
}
