//! NORMAL: a learning switch with VLANs.
//!
//! Counterpart: `xlate_normal()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use super::Cached;
use super::ctx::Ctx;
use super::trace::NodeKind;
use crate::flow::{Flow, VLAN_CFI};
use crate::openflow::bridge::vlan::{PriorityTags, Tags, VlanMode, Vlans};
use crate::openflow::bridge::{Bundle, BundleId};
use crate::openflow::headers::{VLAN_PCP_MASK, VLAN_VID_MASK, ethertype, or_be16, packet_type};
use crate::openflow::mac_learning::{Learned, MacSource};
use crate::openflow::tunnel::config::PacketMode;
use crate::types::OfPort;

/// ARP operations (RFC 826).
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;

impl Ctx<'_, '_> {
    pub(super) fn normal(&mut self, last: bool) {
        self.wc.dl_src.0 = [0xff; 6];
        self.wc.dl_dst.0 = [0xff; 6];
        or_be16(&mut self.wc.vlans[0].tci, VLAN_VID_MASK | VLAN_CFI);
        let in_port = self.in_port();
        let in_bundle = self.in_bundle();
        // A controller may send packets that came by no port; they are in no VLAN, and nothing is learned from them.
        let from_nowhere = in_bundle.is_none() && matches!(in_port, OfPort::NONE | OfPort::CONTROLLER);
        if in_bundle.is_none() && !from_nowhere {
            self.report(NodeKind::Error, |_| format!("received packet on unknown port {}", in_port.0));
            self.say(NodeKind::Warn, "no input bundle, dropping");
            return;
        }
        let trunk = Vlans::trunk_all();
        let vlans = in_bundle.map_or(&trunk, |bundle| &bundle.vlans);
        if ethertype::is_vlan(self.flow.dl_type.get()) && self.flow.vlans[0].tci.get() & VLAN_CFI == 0 {
            self.say(NodeKind::Warn, "partial VLAN tag, dropping");
            return;
        }
        if let Some(bundle) = in_bundle.filter(|bundle| self.bridge.is_mirror_output(bundle)) {
            self.report(NodeKind::Error, |_| {
                format!(
                    "dropping packet received on port {}, which is reserved exclusively for mirroring",
                    bundle.name
                )
            });
            self.say(NodeKind::Warn, "input port is mirror output port, dropping");
            return;
        }
        let outer = Tags::of(&self.flow);
        if !vlans.admits(outer.0[0].vid) {
            if let Some(bundle) = in_bundle {
                self.report(NodeKind::Error, |_| why_not_admitted(bundle, outer.0[0].vid));
            }
            self.say(NodeKind::Warn, "disallowed VLAN VID for this input port, dropping");
            return;
        }
        let tags = vlans.on_input(&outer);
        if in_bundle.is_some() && !self.bridge.forward_bpdu && self.flow.dl_dst.is_reserved() {
            self.say(NodeKind::Detail, "packet has reserved destination MAC, dropping");
            return;
        }
        let vlan = tags.0[0].vid;
        let is_gratuitous_arp = is_gratuitous_arp(&self.flow, &mut self.wc);
        if let Some(bundle) = in_bundle {
            self.learn(bundle, vlan, is_gratuitous_arp);
        }
        let in_id = in_bundle.map(|bundle| bundle.id);
        if self.is_snooped() {
            return self.multicast(in_bundle, &tags, last);
        }
        match self.effects.learning.lookup(self.bridge.id, self.flow.dl_dst, vlan) {
            Some(known) => self.forward(known, in_id, &tags, last),
            None => {
                self.say(NodeKind::Detail, "no learned MAC for destination, flooding");
                self.flood_vlan(in_id, &tags, last);
            }
        }
    }

    fn learn(&mut self, bundle: &Bundle, vlan: u16, is_gratuitous_arp: bool) {
        let source = MacSource {
            mac: self.flow.dl_src,
            vlan,
            port: bundle.id,
            is_bond: bundle.ports.len() > 1,
            is_gratuitous_arp,
        };
        let is_frame = self.flow.packet_type.get() == packet_type::ETHERNET && self.has_frames(bundle);
        if self.effects.may_learn && is_frame {
            let learned = self.effects.learning.learn(self.bridge.id, &source, self.now);
            if learned == Learned::Changed {
                self.report(NodeKind::Detail, |_| {
                    format!("learned that {} is on port {} in VLAN {vlan}", source.mac, bundle.name)
                });
            }
        }
        self.cache.push(Cached::Mac { bridge: self.bridge.id, source });
    }

    /// Whether Ethernet frames pass through a bundle: there are no addresses on others, and nothing is flooded to them.
    fn has_frames(&self, bundle: &Bundle) -> bool {
        let mut ports = bundle.ports.iter().filter_map(|&port| self.bridge.port(port));
        ports.all(|port| self.packet_mode(port) != PacketMode::LegacyL3)
    }

    fn forward(&mut self, known: BundleId, in_id: Option<BundleId>, tags: &Tags, last: bool) {
        match self.bridge.bundle(known) {
            Some(bundle) if self.bridge.is_mirror_output(bundle) => {
                self.say(NodeKind::Warn, "learned port is a mirror port, dropping");
            }
            Some(bundle) if Some(known) != in_id => {
                self.say(NodeKind::Detail, "forwarding to learned port");
                self.output_normal(bundle, tags, last);
            }
            Some(_) => self.say(NodeKind::Detail, "learned port is input port, dropping"),
            None => self.say(NodeKind::Warn, "learned port is unknown, dropping"),
        }
    }

    pub(super) fn flood_vlan(&mut self, in_id: Option<BundleId>, tags: &Tags, last: bool) {
        let bridge = self.bridge;
        let wanted = |bundle: &&Bundle| {
            Some(bundle.id) != in_id
                && bundle.vlans.includes(tags)
                && bridge.floods_to(bundle)
                && self.has_frames(bundle)
                && !bridge.is_mirror_output(bundle)
        };
        let bundles: Vec<&Bundle> = bridge.bundles().filter(wanted).collect();
        let n = bundles.len();
        for (i, bundle) in bundles.into_iter().enumerate() {
            self.output_normal(bundle, tags, last && i + 1 == n);
        }
    }

    /// Sends the packet, with the tags that it has on that port, to a bundle.
    pub(super) fn output_normal(&mut self, bundle: &Bundle, tags: &Tags, last: bool) {
        if bundle.vlans.mode == VlanMode::Dot1qTunnel && bundle.vlans.cvlans.is_some() {
            self.wc.vlans[1].tci.set(u16::MAX);
        }
        let Some(&port) = bundle.ports.first() else { return };
        let mut out = bundle.vlans.on_output(tags);
        if bundle.vlans.priority_tags != PriorityTags::Never {
            out.0[0].pcp = self.flow.vlans[0].tci.get() & VLAN_PCP_MASK;
        }
        let old = self.flow.vlans;
        out.put(&mut self.flow, bundle.vlans.priority_tags);
        self.output_to(port, last);
        self.flow.vlans = old;
    }
}

fn why_not_admitted(bundle: &Bundle, vid: u16) -> String {
    let name = &bundle.name;
    match bundle.vlans.mode {
        VlanMode::Access => format!(
            "dropping VLAN {vid} tagged packet received on port {name} configured as VLAN {} access port",
            bundle.vlans.vid.unwrap_or(0)
        ),
        VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => format!(
            "dropping VLAN {vid} packet received on port {name} not configured for trunking VLAN {vid}"
        ),
        VlanMode::Dot1qTunnel => {
            format!("dropping VLAN {vid} packet received on dot1q-tunnel port {name} that excludes this VLAN")
        }
    }
}

/// Whether the packet is ARP that tells the world where its sender is (RFC 5227, 3; OVS `is_gratuitous_arp()`).
fn is_gratuitous_arp(flow: &Flow, wc: &mut Flow) -> bool {
    if flow.dl_type.get() != ethertype::ARP {
        return false;
    }
    wc.dl_dst.0 = [0xff; 6];
    if !flow.dl_dst.is_broadcast() {
        return false;
    }
    wc.nw_proto = u8::MAX;
    match flow.nw_proto {
        ARP_REPLY => true,
        ARP_REQUEST => {
            wc.nw_src.set(u32::MAX);
            wc.nw_dst.set(u32::MAX);
            flow.nw_src == flow.nw_dst
        }
        _ => false,
    }
}
