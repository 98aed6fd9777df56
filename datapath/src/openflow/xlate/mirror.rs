//! Copies for mirrors.
//!
//! Counterpart: `mirror_packet()` and `reset_mirror_ctx()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use super::Cached;
use super::ctx::Ctx;
use crate::flow::{Flow, NW_FRAG_LATER, VLAN_CFI};
use crate::openflow::action::OfAction;
use crate::openflow::bridge::mirror::{Mirror, MirrorOutput, MirrorSet};
use crate::openflow::bridge::vlan::Tags;
use crate::openflow::bridge::{Bundle, Port};
use crate::openflow::field::{Field, Prereq};
use crate::openflow::headers::{VLAN_VID_MASK, ethertype, is_ip_any, or_be16};

impl<'a> Ctx<'a, '_> {
    /// Copies a packet as it comes in.
    pub(super) fn mirror_arrival(&mut self) {
        if self.bridge.mirrors().is_empty() {
            return;
        }
        if let Some(bundle) = self.in_bundle() {
            self.mirror(bundle, self.bridge.mirrors_from(bundle));
        }
    }

    /// Copies a packet as it leaves.
    pub(super) fn mirror_departure(&mut self, port: &Port) {
        if self.bridge.mirrors().is_empty() {
            return;
        }
        if let Some(bundle) = self.bridge.bundle(port.bundle) {
            self.mirror(bundle, self.bridge.mirrors_to(bundle));
        }
    }

    /// Gives the packet to those of `candidates` that want it and have no copy yet. It is at `bundle`.
    fn mirror(&mut self, bundle: &'a Bundle, candidates: MirrorSet) {
        let seen = Tags::of(&self.flow);
        if !bundle.vlans.admits(seen.0[0].vid) {
            return;
        }
        let tags = bundle.vlans.on_input(&seen);
        let bridge = self.bridge;
        for (place, mirror) in bridge.mirrors().iter().enumerate() {
            // What is sent there may have been mirrored, too: what is left is looked at each time.
            if candidates & !self.mirrored & 1 << place == 0 || !self.is_selected(mirror, tags.0[0].vid) {
                continue;
            }
            self.mirrored |= bridge.mirrors_like(mirror);
            self.snaplen = mirror.snaplen;
            self.send_copy(mirror, tags);
            self.snaplen = 0;
            self.cache.push(Cached::Mirror { bridge: bridge.id, name: mirror.name.clone() });
        }
    }

    /// Whether a mirror wants packets of this VLAN, and this one.
    fn is_selected(&mut self, mirror: &Mirror, vid: u16) -> bool {
        if !mirror.vlans.is_empty() {
            or_be16(&mut self.wc.vlans[0].tci, VLAN_CFI | VLAN_VID_MASK);
            if !mirror.vlans.contains(&vid) {
                return false;
            }
        }
        let Some(filter) = &mirror.filter else { return true };
        let mut met = true;
        let words = self.flow.words().iter().zip(filter.flow.words()).zip(filter.mask.words());
        for (((value, wanted), mask), wc) in words.zip(self.wc.words_mut()) {
            *wc |= mask;
            met &= (value ^ wanted) & mask == 0;
        }
        met
    }

    fn send_copy(&mut self, mirror: &Mirror, mut tags: Tags) {
        let bridge = self.bridge;
        match &mirror.output {
            Some(MirrorOutput::Port(port)) => {
                if let Some(bundle) = bridge.bundles().find(|bundle| bundle.name == *port) {
                    self.output_normal(bundle, &tags, false);
                }
            }
            Some(MirrorOutput::Vlan(vid)) if tags.0[0].vid != *vid && !self.flow.dl_dst.is_reserved() => {
                tags.0[0].vid = *vid;
                for bundle in bridge.bundles() {
                    if bundle.vlans.includes(&tags) && !bridge.is_mirror_output(bundle) {
                        self.output_normal(bundle, &tags, false);
                    }
                }
            }
            Some(MirrorOutput::Vlan(_)) | None => {}
        }
    }

    /// A packet that an action changes is another one: it may be copied again.
    pub(super) fn forget_copies_before(&mut self, action: &OfAction) {
        if self.mirrored != 0 && changes_packet(action, &self.flow) {
            self.mirrored = 0;
        }
    }
}

/// Whether an action changes headers of a packet with this key, rather than what is known about it.
fn changes_packet(action: &OfAction, flow: &Flow) -> bool {
    match action {
        OfAction::StripVlan { .. }
        | OfAction::PushVlan(_)
        | OfAction::SetVlanVid { .. }
        | OfAction::SetVlanPcp { .. }
        | OfAction::SetEthSrc(_)
        | OfAction::SetEthDst(_)
        | OfAction::PushMpls(_)
        | OfAction::PopMpls(_)
        | OfAction::SetMplsLabel(_)
        | OfAction::SetMplsTc(_)
        | OfAction::SetMplsTtl(_)
        | OfAction::DecMplsTtl
        | OfAction::DecTtl { .. }
        | OfAction::DecNshTtl
        | OfAction::Encap(_)
        | OfAction::Decap(_)
        | OfAction::Nat(_) => true,
        OfAction::SetField(set) => {
            let field = set.field;
            field.prereqs_met(flow, None) && !is_metadata(field)
        }
        OfAction::SetIpv4Src(_) | OfAction::SetIpv4Dst(_) => flow.dl_type.get() == ethertype::IPV4,
        OfAction::SetIpDscp(_) | OfAction::SetIpEcn(_) | OfAction::SetIpTtl(_) => is_ip_any(flow),
        OfAction::SetL4Src(_) | OfAction::SetL4Dst(_) => is_ip_any(flow) && flow.nw_frag & NW_FRAG_LATER == 0,
        _ => false,
    }
}

/// Whether a field is not in the packet (OVS `mf_is_any_metadata()`).
fn is_metadata(field: Field) -> bool {
    // Fields of packets need a kind of packet; those of connection tracking are about it.
    matches!(field.info().prereq, Prereq::None | Prereq::CtValid)
}
