//! Turns the difference between a packet as it is and as it should be into datapath actions.
//!
//! Works on whole header groups, as datapath actions do: a `set` writes the fields of a group that differ, and marks
//! in the mask of the megaflow what its own mask cannot leave alone. Counterpart: `commit_odp_actions()` of OVS
//! `lib/odp-util.c`.

use zerocopy::{FromBytes, IntoBytes};

use crate::action::{Action, PushNsh, SetField, SetGroup};
use crate::flow::{Flow, Nsh, SEGMENT_ENDS};
use crate::openflow::headers::{ethertype, ip_proto, is_icmpv4, is_icmpv6, is_ip_any, packet_type};
use crate::openflow::xlate::encap::{Pending, without_ethernet};
use crate::openflow::xlate::mpls;
use crate::openflow::xlate::vlan;
use crate::types::MacAddr;

/// Reason for the slow path: an action that the datapath does not have.
pub(super) const SLOW_ACTION: u32 = 1 << 5;

/// The fields of a group: where each is in a [`Flow`], and how many bytes it has.
type Fields = &'static [(usize, usize)];

macro_rules! fields {
    ($($field:ident: $size:literal),* $(,)?) => {
        &[$((std::mem::offset_of!(Flow, $field), $size)),*]
    };
}

const ETHERNET: Fields = fields!(dl_src: 6, dl_dst: 6);
const IPV4: Fields = fields!(nw_src: 4, nw_dst: 4, nw_tos: 1, nw_ttl: 1);
const IPV6: Fields = fields!(ipv6_src: 16, ipv6_dst: 16, ipv6_label: 4, nw_tos: 1, nw_ttl: 1);
const ARP: Fields = fields!(nw_src: 4, nw_dst: 4, nw_proto: 1, arp_sha: 6, arp_tha: 6);
const TRANSPORT: Fields = fields!(tp_src: 2, tp_dst: 2);
const ND: Fields = fields!(nd_target: 16, arp_sha: 6, arp_tha: 6);
const ND_EXTENSIONS: Fields = fields!(igmp_group_ip4: 4, tcp_flags: 2);
const PRIORITY: Fields = fields!(skb_priority: 4);
const MARK: Fields = fields!(pkt_mark: 4);

/// A packet's way from what it is to what it should be.
pub(super) struct Commit<'a> {
    /// As it should be.
    pub(super) flow: &'a Flow,
    /// As it is after the actions so far.
    pub(super) base: &'a mut Flow,
    /// Mask of the megaflow.
    pub(super) wc: &'a mut Flow,
    /// Actions so far.
    pub(super) actions: &'a mut Vec<Action>,
    /// A header that was put in front of the packet, or taken off it.
    pub(super) pending: Pending,
}

/// How a group is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// With a mask, unless that is all ones.
    Masked,
    /// With a mask always: the group has fields that cannot be written.
    AlwaysMasked,
    /// As a whole.
    Whole,
}

impl Commit<'_> {
    /// Emits the actions, in OVS's order, and brings [`Self::base`] up to date. Returns reasons for the slow path.
    pub(super) fn run(mut self) -> u32 {
        let mut mpls_done = false;
        self.outermost();
        self.ether();
        // Headers behind a label stack can be written only once that is gone.
        let was_mpls = ethertype::is_mpls(self.base.dl_type.get());
        if was_mpls && !ethertype::is_mpls(self.flow.dl_type.get()) {
            self.mpls();
            mpls_done = true;
        }
        self.nsh();
        let slow_network = self.network();
        self.ports();
        let slow_icmp = self.icmp();
        if !mpls_done {
            self.mpls();
        }
        self.vlans();
        self.set(SetGroup::Priority, PRIORITY, Style::Masked);
        self.set(SetGroup::Mark, MARK, Style::Masked);
        if slow_network != 0 { slow_network } else { slow_icmp }
    }

    /// Writes a group if any of its fields differ; returns whether one did.
    fn set(&mut self, group: SetGroup, fields: Fields, style: Style) -> bool {
        let mask = *self.wc;
        self.set_with_mask(group, fields, style, &mask)
    }

    /// The same, with a mask to start from that is not quite that of the megaflow.
    fn set_with_mask(&mut self, group: SetGroup, fields: Fields, style: Style, from: &Flow) -> bool {
        let (mut key, mut mask) = (Flow::default(), Flow::default());
        let mut differ = false;
        for &(at, size) in fields {
            let range = at..at + size;
            let wanted = &self.flow.as_bytes()[range.clone()];
            key.as_mut_bytes()[range.clone()].copy_from_slice(wanted);
            // A field that stays needs no bit, even if translation looked at it.
            if *wanted != self.base.as_bytes()[range.clone()] {
                mask.as_mut_bytes()[range.clone()].copy_from_slice(&from.as_bytes()[range]);
                differ = true;
            }
        }
        if !differ {
            return false;
        }
        let ones = |flow: &Flow| {
            fields.iter().all(|&(at, size)| flow.as_bytes()[at..at + size].iter().all(|&byte| byte == 0xff))
        };
        let whole = match style {
            Style::Masked => ones(&mask),
            Style::AlwaysMasked => false,
            Style::Whole => true,
        };
        if whole {
            for &(at, size) in fields {
                mask.as_mut_bytes()[at..at + size].fill(0xff);
            }
            self.actions.push(Action::Set(Box::new(SetField { group, key, mask })));
        } else {
            self.actions.push(Action::SetMasked(Box::new(SetField { group, key: key.masked(&mask), mask })));
        }
        for &(at, size) in fields {
            let range = at..at + size;
            self.base.as_mut_bytes()[range.clone()].copy_from_slice(&key.as_bytes()[range.clone()]);
            let bits = &mask.as_bytes()[range.clone()];
            self.wc.as_mut_bytes()[range].iter_mut().zip(bits).for_each(|(byte, bits)| *byte |= bits);
        }
        true
    }

    /// The header in front of all others.
    fn outermost(&mut self) {
        self.wc.packet_type.set(u32::MAX);
        let (wanted, has) = (self.flow.packet_type.get(), self.base.packet_type.get());
        match std::mem::take(&mut self.pending) {
            Pending::Encap(metadata) => match wanted {
                packet_type::ETHERNET => {
                    let (dst, src) = (self.flow.dl_dst, self.flow.dl_src);
                    self.actions.push(Action::PushEth { dst, src });
                    self.base.packet_type.set(wanted);
                    (self.base.dl_dst, self.base.dl_src) = (dst, src);
                }
                packet_type::NSH => {
                    let header = PushNsh { header: self.flow.nsh, md2: metadata };
                    self.actions.push(Action::PushNsh(Box::new(header)));
                    self.base.packet_type.set(wanted);
                    let headers = SEGMENT_ENDS[0] * 8..;
                    self.base.as_mut_bytes()[headers.clone()].copy_from_slice(&self.flow.as_bytes()[headers]);
                }
                _ => self.mpls_with(true),
            },
            Pending::Decap => self.take_off(wanted, has),
            Pending::Nothing if wanted == packet_type::ETHERNET && has == without_ethernet(self.flow) => {
                self.put_ethernet_back();
            }
            Pending::Nothing if wanted != has => self.take_off(wanted, has),
            Pending::Nothing => {}
        }
    }

    /// Behind all headers but Ethernet's the packet is looked up again, so that the base needs no care.
    fn take_off(&mut self, wanted: u32, has: u32) {
        match has {
            packet_type::ETHERNET if wanted >> 16 == packet_type::NS_ETHERTYPE => {
                self.actions.push(Action::PopEth);
                self.base.packet_type.set(wanted);
                (self.base.dl_dst, self.base.dl_src) = (MacAddr::ZERO, MacAddr::ZERO);
                // Tags go with it.
                self.base.vlans = Default::default();
            }
            packet_type::NSH => self.actions.push(Action::PopNsh),
            packet_type::MPLS | packet_type::MPLS_MULTICAST => self.mpls(),
            _ => {}
        }
    }

    /// The packet went out by a port that knows no Ethernet. Open vSwitch 4.0.90 aborts here.
    fn put_ethernet_back(&mut self) {
        let (dst, src) = (self.flow.dl_dst, self.flow.dl_src);
        self.actions.push(Action::PushEth { dst, src });
        self.base.packet_type.set(packet_type::ETHERNET);
        (self.base.dl_dst, self.base.dl_src) = (dst, src);
        // What is put there is from the packet.
        (self.wc.dl_dst, self.wc.dl_src) = (MacAddr::BROADCAST, MacAddr::BROADCAST);
        for (mask, tag) in self.wc.vlans.iter_mut().zip(&self.flow.vlans) {
            if tag.tci.get() != 0 {
                mask.tci.set(u16::MAX);
                mask.tpid.set(u16::MAX);
            }
        }
    }

    fn ether(&mut self) {
        let is_ethernet = |flow: &Flow| flow.packet_type.get() == packet_type::ETHERNET;
        if is_ethernet(self.flow) && is_ethernet(self.base) {
            self.set(SetGroup::Ethernet, ETHERNET, Style::Masked);
        }
    }

    fn network(&mut self) -> u32 {
        // No protocol: no header to write, as behind a label stack.
        if self.flow.nw_proto == 0 {
            return 0;
        }
        match self.base.dl_type.get() {
            ethertype::IPV4 => {
                let mask = self.network_mask();
                self.set_with_mask(SetGroup::Ipv4, IPV4, Style::AlwaysMasked, &mask);
                0
            }
            ethertype::IPV6 => {
                let mut mask = self.network_mask();
                mask.ipv6_label.set(mask.ipv6_label.get() & 0xf_ffff);
                self.set_with_mask(SetGroup::Ipv6, IPV6, Style::AlwaysMasked, &mask);
                if self.base.nw_proto == ip_proto::ICMPV6 { self.neighbour_discovery() } else { 0 }
            }
            // There is no datapath action that writes ARP fields.
            ethertype::ARP if self.set(SetGroup::Arp, ARP, Style::Masked) => SLOW_ACTION,
            _ => 0,
        }
    }

    /// ECN bits may have changed on the way through a tunnel; they are not written unless they are to change.
    fn network_mask(&self) -> Flow {
        let mut mask = *self.wc;
        if self.base.tunnel.is_set() && (self.base.nw_tos ^ self.flow.nw_tos) & 0x03 == 0 {
            mask.nw_tos &= !0x03;
        }
        mask
    }

    fn neighbour_discovery(&mut self) -> u32 {
        let extensions = self.set(SetGroup::NdExt, ND_EXTENSIONS, Style::Masked);
        let fields = self.set(SetGroup::Nd, ND, Style::Masked);
        if extensions || fields { SLOW_ACTION } else { 0 }
    }

    fn nsh(&mut self) {
        if self.flow.dl_type.get() != ethertype::NSH || self.flow.nsh == self.base.nsh {
            return;
        }
        let mut mask = Flow { nsh: self.wc.nsh, ..Flow::default() };
        let mut key = Flow { nsh: self.flow.nsh, ..Flow::default() };
        if mask.nsh.as_bytes().iter().all(|&byte| byte == 0xff) {
            self.actions.push(Action::Set(Box::new(SetField { group: SetGroup::Nsh, key, mask })));
        } else {
            // Metadata type and next protocol cannot be written.
            (mask.nsh.mdtype, mask.nsh.np) = (0, 0);
            key = key.masked(&mask);
            self.actions.push(Action::SetMasked(Box::new(SetField { group: SetGroup::Nsh, key, mask })));
        }
        self.base.nsh = self.flow.nsh;
    }

    fn ports(&mut self) {
        if self.flow.nw_proto == 0 || !is_ip_any(self.base) {
            return;
        }
        let group = match self.flow.nw_proto {
            ip_proto::TCP => SetGroup::Tcp,
            ip_proto::UDP => SetGroup::Udp,
            ip_proto::SCTP => SetGroup::Sctp,
            _ => return,
        };
        self.set(group, TRANSPORT, Style::Masked);
    }

    fn icmp(&mut self) -> u32 {
        let group = if is_icmpv4(self.flow, None) {
            SetGroup::Icmp
        } else if is_icmpv6(self.flow, None) {
            SetGroup::Icmpv6
        } else {
            return 0;
        };
        if !self.set(group, TRANSPORT, Style::Whole) {
            return 0;
        }
        // Type and code are bytes.
        self.wc.tp_src.set(self.wc.tp_src.get() & 0xff);
        self.wc.tp_dst.set(self.wc.tp_dst.get() & 0xff);
        SLOW_ACTION
    }

    fn mpls(&mut self) {
        self.mpls_with(false);
    }

    /// Makes the label stack what it should be; `in_front`: labels that are added go in front of the packet, whatever is there.
    fn mpls_with(&mut self, in_front: bool) {
        let (mut base_n, flow_n) = (mpls::count(self.base, None), mpls::count(self.flow, None));
        let mut common = mpls::count_common(self.flow, flow_n, self.base, base_n);
        while base_n > common {
            if base_n - 1 == common && flow_n > common {
                // One entry more than they share, and one is wanted in its place.
                self.set_lse(self.flow.mpls_lse[flow_n - base_n].get());
                common += 1;
                continue;
            }
            let wanted = self.flow.dl_type.get();
            let behind = if !ethertype::is_mpls(wanted) && base_n > 1 { ethertype::MPLS } else { wanted };
            self.actions.push(Action::PopMpls(behind));
            if !mpls::pop(self.base, base_n, wanted, None) {
                return;
            }
            base_n -= 1;
        }
        while base_n < flow_n {
            let ethertype = self.flow.dl_type.get();
            let lse = self.flow.mpls_lse[flow_n - base_n - 1];
            let lse_bits = lse.get();
            self.actions.push(match in_front {
                true => Action::AddMpls { ethertype, lse: lse_bits },
                false => Action::PushMpls { ethertype, lse: lse_bits },
            });
            mpls::push(self.base, base_n, ethertype, None, false);
            self.base.mpls_lse[0] = lse;
            base_n += 1;
        }
    }

    fn set_lse(&mut self, lse: u32) {
        let (mut key, mut mask) = (Flow::default(), Flow::default());
        key.mpls_lse[0].set(lse);
        mask.mpls_lse[0].set(u32::MAX);
        self.actions.push(Action::Set(Box::new(SetField { group: SetGroup::Mpls, key, mask })));
        self.base.mpls_lse[0].set(lse);
    }

    fn vlans(&mut self) {
        if self.flow.packet_type.get() != packet_type::ETHERNET {
            // Tags are part of an Ethernet header. Open vSwitch writes one that was pushed into the network header.
            return;
        }
        let (base_n, flow_n) = (vlan::count(self.base), vlan::count(self.flow));
        let innermost = |flow: &Flow, n: usize, i: usize| flow.vlans[n - 1 - i];
        let common = (0..base_n.min(flow_n))
            .take_while(|&i| innermost(self.base, base_n, i) == innermost(self.flow, flow_n, i))
            .count();
        for i in (0..base_n - common).rev() {
            self.actions.push(Action::PopVlan);
            // Tags that are popped are looked at.
            let header = &mut self.wc.vlans[i];
            header.tpid.set(u16::MAX);
            header.tci.set(u16::MAX);
        }
        for i in (0..flow_n - common).rev() {
            let header = self.flow.vlans[i];
            self.actions.push(Action::PushVlan { tpid: header.tpid.get(), tci: header.tci.get() });
        }
        self.base.vlans = self.flow.vlans;
    }
}

const _: () = assert!(size_of::<Nsh>() == 24);

/// Makes sure that a key's bytes may be written freely.
const fn _bytes_are_a_flow<T: FromBytes + IntoBytes>() {}
const _: () = _bytes_are_a_flow::<Flow>();
