//! `encap` and `decap`: headers in front of the packet, and ports that know no Ethernet.
//!
//! The datapath's actions for it are emitted with the next commit. Counterpart: `xlate_generic_encap_action()` and
//! `xlate_generic_decap_action()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use zerocopy::{FromZeros, IntoBytes};

use super::ctx::Ctx;
use super::trace::NodeKind;
use super::{XlateError, mpls};
use crate::flow::{Flow, SEGMENT_ENDS, VLAN_CFI};
use crate::openflow::action::{Encap, EncapProp};
use crate::openflow::bridge::Port;
use crate::openflow::bridge::rule::reason;
use crate::openflow::headers::{ethertype, packet_type};
use crate::openflow::tunnel::config::PacketMode;
use crate::types::MacAddr;

/// Metadata of an NSH header of type 2, in bytes at most (OVS `NSH_CTX_HDRS_MAX_LEN`).
const NSH_METADATA_MAX: usize = 248;
/// What an NSH header starts with (RFC 8300): time to live, path and index.
const NSH_TTL: u8 = 63;
const NSH_PATH: u32 = 255;
/// Packet type of `decap()`: as the header says (OVS `PT_USE_NEXT_PROTO`).
const USE_NEXT_PROTO: u32 = 0xfffe;
/// An Ethernet frame behind a label stack.
const TRANSPARENT_BRIDGING: u16 = 0x6558;

/// A header that was put in front of the packet, or taken off it, since the last commit.
#[derive(Clone, Debug, Default)]
pub(super) enum Pending {
    /// None.
    #[default]
    Nothing,
    /// In front of it, with the metadata of an NSH header of type 2.
    Encap(Box<[u8]>),
    /// Off it.
    Decap,
}

/// What an NSH header says is behind it.
const NEXT_PROTOCOLS: [(u8, u32); 4] =
    [(1, packet_type::IPV4), (2, packet_type::IPV6), (3, packet_type::ETHERNET), (4, packet_type::NSH)];

impl Ctx<'_, '_> {
    /// `encap`.
    pub(super) fn encap(&mut self, encap: &Encap) {
        // What is inside is written first.
        self.commit();
        let metadata = match encap.packet_type {
            packet_type::ETHERNET => self.encap_ethernet(),
            packet_type::NSH => self.encap_nsh(&encap.props),
            mpls => self.encap_mpls(mpls),
        };
        if let Some(metadata) = metadata {
            self.pending = Pending::Encap(metadata);
        }
    }

    fn unsupported_packet_type(&mut self, why: impl FnOnce() -> String) {
        self.report(NodeKind::Action, |_| why());
        self.error = Some(XlateError::UnsupportedPacketType);
    }

    fn encap_ethernet(&mut self) -> Option<Box<[u8]>> {
        self.wc.packet_type.set(u32::MAX);
        let inner = self.flow.packet_type.get();
        if inner >> 16 != packet_type::NS_ETHERTYPE {
            self.unsupported_packet_type(|| {
                "Dropping packet as encap(ethernet) is not supported for packet type ethernet.".to_owned()
            });
            return None;
        }
        self.flow.packet_type.set(packet_type::ETHERNET);
        (self.flow.dl_src, self.flow.dl_dst) = (MacAddr::ZERO, MacAddr::ZERO);
        self.flow.dl_type.set(inner as u16);
        Some(Box::default())
    }

    fn encap_nsh(&mut self, props: &[EncapProp]) -> Option<Box<[u8]>> {
        let inner = self.flow.packet_type.get();
        let Some(&(np, _)) = NEXT_PROTOCOLS.iter().find(|&&(_, kind)| kind == inner) else {
            self.unsupported_packet_type(|| {
                format!(
                    "Dropping packet as encap(nsh) is not supported for packet type ({},{:#x})",
                    inner >> 16,
                    inner as u16
                )
            });
            return None;
        };
        let (mdtype, metadata) = nsh_metadata(props);
        self.wc.packet_type.set(u32::MAX);
        self.flow.as_mut_bytes()[SEGMENT_ENDS[0] * 8..].zero();
        self.flow.packet_type.set(packet_type::NSH);
        self.flow.dl_type.set(ethertype::NSH);
        let nsh = &mut self.flow.nsh;
        (nsh.ttl, nsh.mdtype, nsh.np) = (NSH_TTL, mdtype, np);
        nsh.path_hdr.set(NSH_PATH);
        Some(if mdtype == 2 { metadata.into() } else { Box::default() })
    }

    fn encap_mpls(&mut self, header: u32) -> Option<Box<[u8]>> {
        let n = mpls::count(&self.flow, Some(&mut self.wc));
        if n >= mpls::MAX_LABELS {
            self.report(NodeKind::Error, |_| {
                format!(
                    "dropping packet on which an encap MPLS action can't be performed as it would have more MPLS \
                     LSEs than the {} supported.",
                    mpls::MAX_LABELS
                )
            });
            self.error = Some(XlateError::TooManyMplsLabels);
            return None;
        }
        self.wc.packet_type.set(u32::MAX);
        let flow = &mut self.flow;
        if flow.packet_type.get() == packet_type::ETHERNET && flow.dl_type.get() == ethertype::MPLS {
            // Those labels are behind an Ethernet header: another stack.
            for key in [&mut *flow, &mut self.wc, &mut self.base] {
                key.mpls_lse = Default::default();
            }
        }
        flow.packet_type.set(header);
        mpls::push(flow, n, header as u16, Some(&mut self.wc), true);
        (flow.dl_src, flow.dl_dst) = (MacAddr::ZERO, MacAddr::ZERO);
        Some(Box::default())
    }

    /// `decap`. Behind most headers nothing is known yet, so that the translation stops there.
    pub(super) fn decap(&mut self, wanted: Option<u32>) {
        self.commit();
        match self.flow.packet_type.get() {
            packet_type::ETHERNET => self.decap_ethernet(),
            packet_type::NSH => self.decap_nsh(),
            packet_type::MPLS | packet_type::MPLS_MULTICAST => {
                self.decap_mpls(wanted.unwrap_or(USE_NEXT_PROTO));
            }
            other => self.unsupported_packet_type(|| {
                format!(
                    "Dropping packet as the decap() does not support packet type ({},{:#x})",
                    other >> 16,
                    other as u16
                )
            }),
        }
    }

    fn decap_ethernet(&mut self) {
        if self.flow.vlans[0].tci.get() & VLAN_CFI != 0 {
            self.unsupported_packet_type(|| {
                "Dropping packet, cannot decap Ethernet if VLAN is present.".to_owned()
            });
            return;
        }
        self.flow.packet_type.set(without_ethernet(&self.flow));
        (self.flow.dl_src, self.flow.dl_dst) = (MacAddr::ZERO, MacAddr::ZERO);
        self.wc.dl_type.set(u16::MAX);
    }

    fn decap_nsh(&mut self) {
        let np = self.flow.nsh.np;
        let Some(&(_, behind)) = NEXT_PROTOCOLS.iter().find(|&&(number, _)| number == np) else {
            self.unsupported_packet_type(|| {
                format!("Dropping packet as NSH next protocol {np} is not supported")
            });
            return;
        };
        self.flow.packet_type.set(behind);
        self.wc.nsh.np = u8::MAX;
        self.pending = Pending::Decap;
        self.go_on_behind();
    }

    fn decap_mpls(&mut self, behind: u32) {
        self.flow.packet_type.set(behind);
        let n = mpls::count(&self.flow, Some(&mut self.wc));
        let ethertype = if behind as u16 == 0 { TRANSPARENT_BRIDGING } else { behind as u16 };
        if mpls::pop(&mut self.flow, n, ethertype, Some(&mut self.wc)) {
            self.pending = Pending::Decap;
            if n == 1 {
                self.go_on_behind();
            }
        } else if n >= mpls::MAX_LABELS {
            self.report(NodeKind::Error, |_| {
                format!(
                    "dropping packet on which an MPLS decap can't be performed as it has more MPLS LSEs than the {} \
                     supported.",
                    mpls::MAX_LABELS
                )
            });
            self.error = Some(XlateError::TooManyMplsLabels);
            self.actions.clear();
        }
    }

    /// The next action needs to know what is behind the header.
    fn go_on_behind(&mut self) {
        self.trigger_freeze();
        self.freeze_after = true;
    }

    /// `dec_nsh_ttl`. Returns whether the list of actions ends here.
    pub(super) fn dec_nsh_ttl(&mut self) -> bool {
        let is_nsh =
            self.flow.packet_type.get() == packet_type::NSH || self.flow.dl_type.get() == ethertype::NSH;
        if is_nsh {
            self.wc.nsh.ttl = u8::MAX;
            if self.flow.nsh.ttl > 1 {
                self.flow.nsh.ttl -= 1;
                return false;
            }
            self.send_to_controller(u16::MAX, reason::INVALID_TTL, 0, &[]);
        }
        self.say(NodeKind::Warn, "NSH decrement TTL exception");
        true
    }

    /// Which packets go through a port.
    pub(super) fn packet_mode(&self, port: &Port) -> PacketMode {
        let tunnel = self.tunnels.config(self.bridge.id, port.of_port);
        tunnel.map_or(PacketMode::LegacyL2, |config| config.mode)
    }

    /// Takes the Ethernet header off a packet for a port that knows none; one that was not emitted yet never is.
    pub(super) fn strip_ethernet_for(&mut self, port: &Port) {
        let is_ethernet = self.flow.packet_type.get() == packet_type::ETHERNET;
        if is_ethernet && self.packet_mode(port) == PacketMode::LegacyL3 {
            self.flow.packet_type.set(without_ethernet(&self.flow));
            if matches!(self.pending, Pending::Encap(_)) {
                self.pending = Pending::Nothing;
            }
        }
    }

    /// Gives a packet from a port that knows no Ethernet a header: rules see frames only.
    pub(super) fn add_ethernet_from(&mut self, port: &Port) {
        let is_ethernet = self.flow.packet_type.get() == packet_type::ETHERNET;
        if !is_ethernet && self.packet_mode(port) == PacketMode::LegacyL3 && self.table.0 == 0 {
            self.flow.packet_type.set(packet_type::ETHERNET);
            (self.flow.dl_src, self.flow.dl_dst) = (MacAddr::ZERO, MacAddr::ZERO);
            self.pending = Pending::Encap(Box::default());
        }
    }
}

/// The packet type of what an Ethernet header carries.
pub(super) fn without_ethernet(flow: &Flow) -> u32 {
    packet_type::NS_ETHERTYPE << 16 | u32::from(flow.dl_type.get())
}

/// Metadata type, and the metadata of type 2 as it is in the header; too much of it is none, as in OVS.
fn nsh_metadata(props: &[EncapProp]) -> (u8, Vec<u8>) {
    let (mut mdtype, mut metadata) = (1, Vec::new());
    for prop in props {
        match prop {
            EncapProp::NshMdType(kind) => mdtype = *kind,
            EncapProp::NshTlv { class, kind, data } => {
                metadata.extend(class.to_be_bytes());
                metadata.extend([*kind, data.len() as u8]);
                metadata.extend(data);
                metadata.resize(metadata.len().next_multiple_of(4), 0);
            }
        }
    }
    if metadata.len() > NSH_METADATA_MAX {
        metadata.clear();
    }
    (mdtype, metadata)
}
