//! Attributes to a flow, or to the mask of a flow, and whether they make one.
//!
//! Counterpart: `odp_flow_key_to_flow`, `odp_flow_key_to_mask` of OVS `lib/odp-util.c`.

use super::attr::{Attr, Kind, MPLS_MAX};
use super::from_flow::is_nd;
use super::into_flow::put;
use super::tunnel;
use crate::flow::proto::{
    ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_MPLS, ETH_NSH, ETH_RARP, ETH_TYPE_MIN, ETH_TYPE_NONE, IP_ICMP,
    IP_ICMPV6, IP_SCTP, IP_TCP, IP_UDP, is_mpls, is_vlan,
};
use crate::flow::{Flow, NW_FRAG_LATER, VLAN_CFI};
use crate::types::PortNo;

/// How attributes fail to make a flow (OVS `enum odp_key_fitness`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// An attribute is missing; what it says counts as zero.
    TooLittle,
    /// An attribute does not belong to such a packet, and is ignored.
    TooMuch,
    /// They contradict each other.
    Error,
}

/// An attribute that does not fit.
#[derive(Clone, Debug)]
pub(crate) struct Misfit {
    pub fit: Fit,
    /// How many tags are around the attribute to blame.
    pub depth: usize,
    /// The attribute to blame; none if it is the whole.
    pub kind: Option<Kind>,
    /// Whether it is the last of its kind that is to blame, not the first.
    pub last: bool,
    pub message: String,
}

type Fitness = Result<(), Misfit>;

/// A set of attribute kinds.
#[derive(Clone, Copy, Default)]
struct Kinds(u32);

impl Kinds {
    fn add(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u32;
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }
}

/// What attributes are measured by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Most tags that extraction looks at.
    pub vlan_limit: usize,
    /// Whether a tunnel may lack its TTL, because what is wildcarded was not printed.
    pub dumped: bool,
}

/// Writes the flow that `attrs` say into `flow`.
///
/// # Errors
/// If they do not fit; `flow` then has what was understood.
pub(crate) fn key(attrs: &[Attr], rules: Rules, flow: &mut Flow) -> Fitness {
    *flow = Flow::default();
    Fitter { flow, key: None, rules, depth: 0, attrs, expected: Kinds::default() }.fit()
}

/// Writes the mask that `attrs` say, for a flow with this `key`, into `mask`.
///
/// # Errors
/// As [`key`].
pub(crate) fn mask(attrs: &[Attr], rules: Rules, key: &Flow, mask: &mut Flow) -> Fitness {
    *mask = Flow::default();
    Fitter { flow: mask, key: Some(key), rules, depth: 0, attrs, expected: Kinds::default() }.fit()
}

struct Fitter<'a> {
    /// What is being filled.
    flow: &'a mut Flow,
    /// If a mask is being filled, the key that it goes with.
    key: Option<&'a Flow>,
    rules: Rules,
    depth: usize,
    /// The attributes at this depth.
    attrs: &'a [Attr],
    /// Those that such a packet has.
    expected: Kinds,
}

impl<'a> Fitter<'a> {
    /// The key: the one that the mask goes with, or the one being filled.
    fn src(&self) -> &Flow {
        self.key.unwrap_or(self.flow)
    }

    fn is_mask(&self) -> bool {
        self.key.is_some()
    }

    fn find(&self, kind: Kind) -> Option<&'a Attr> {
        self.attrs.iter().find(|attr| attr.kind() == kind)
    }

    fn misfit(&self, fit: Fit, kind: Kind, message: impl Into<String>) -> Misfit {
        Misfit { fit, depth: self.depth, kind: Some(kind), last: false, message: message.into() }
    }

    fn error(&self, kind: Kind, message: impl Into<String>) -> Fitness {
        Err(self.misfit(Fit::Error, kind, message))
    }

    fn unique(&self) -> Fitness {
        let mut seen = Kinds::default();
        for attr in self.attrs {
            if seen.has(attr.kind()) {
                let message = format!("`{}` is there twice", attr.kind().name());
                return Err(Misfit { last: true, ..self.misfit(Fit::Error, attr.kind(), message) });
            }
            seen.add(attr.kind());
        }
        Ok(())
    }

    /// Puts an attribute into the flow and expects it, if it is there.
    fn take(&mut self, kind: Kind) -> Option<&'a Attr> {
        let attr = self.find(kind)?;
        put(attr, self.is_mask(), self.flow);
        self.expected.add(kind);
        Some(attr)
    }

    fn fit(mut self) -> Fitness {
        self.unique()?;
        self.metadata()?;
        self.link()?;
        self.ethertype()?;
        let tagged = match self.key {
            Some(key) => key.vlans[0].tci.get() & VLAN_CFI != 0,
            None => is_vlan(self.flow.dl_type.get()),
        };
        if tagged {
            return self.tags();
        }
        if self.is_mask() {
            // No mask for a tag means that there is none.
            self.flow.vlans[0].tpid.set(u16::MAX);
            self.flow.vlans[0].tci.set(u16::MAX);
            self.take(Kind::Vlan);
            self.cut_off_tag();
        }
        self.behind_tags()?;
        self.check()
    }

    fn metadata(&mut self) -> Fitness {
        if self.take(Kind::RecircId).is_none() && self.is_mask() {
            self.flow.recirc_id = u32::MAX;
        }
        for kind in [
            Kind::DpHash,
            Kind::Priority,
            Kind::Mark,
            Kind::CtState,
            Kind::CtZone,
            Kind::CtMark,
            Kind::CtLabel,
            Kind::CtTuple4,
            Kind::CtTuple6,
        ] {
            self.take(kind);
        }
        if let Some(Attr::Tunnel(parts)) = self.find(Kind::Tunnel) {
            let is_mask = self.is_mask();
            let dumped = self.rules.dumped;
            if !tunnel::to_flow(parts, is_mask, dumped, &mut self.flow.tunnel) && !dumped {
                return self.error(Kind::Tunnel, "a tunnel needs `ttl=`");
            }
            self.expected.add(Kind::Tunnel);
        }
        if self.take(Kind::InPort).is_none() && !self.is_mask() {
            self.flow.in_port = PortNo::NONE.0;
        }
        Ok(())
    }

    fn link(&mut self) -> Fitness {
        if self.take(Kind::PacketType).is_some() {
            // Namespace 1: the type is an Ethernet type.
            if self.src().packet_type.get() >> 16 == 1 {
                let dl_type = self.flow.packet_type.get() as u16;
                self.flow.dl_type.set(dl_type);
            }
        }
        if self.take(Kind::Ethernet).is_some() {
            if !self.is_mask() {
                self.flow.packet_type.set(0);
            }
        } else if let Some(Attr::EthType(dl_type)) = self.find(Kind::EthType) {
            // Without `eth()` a packet starts with its network header.
            if !self.is_mask() {
                self.flow.packet_type.set(1 << 16 | u32::from(*dl_type));
            }
            self.expected.add(Kind::EthType);
        }
        Ok(())
    }

    fn ethertype(&mut self) -> Fitness {
        let Some(Attr::EthType(dl_type)) = self.find(Kind::EthType) else { return self.no_ethertype() };
        self.flow.dl_type.set(*dl_type);
        if self.src().dl_type.get() < ETH_TYPE_MIN {
            if !self.is_mask() {
                let message = format!("0x{dl_type:04x} is a length, not an Ethernet type");
                return self.error(Kind::EthType, message);
            }
            if *dl_type != u16::MAX {
                return self.error(
                    Kind::EthType,
                    "that a frame has no Ethernet type can be matched only as a whole, with mask 0xffff",
                );
            }
        }
        self.expected.add(Kind::EthType);
        Ok(())
    }

    fn no_ethertype(&mut self) -> Fitness {
        let Some(key) = self.key else {
            let dl_type = if self.find(Kind::Ipv4).is_some() {
                ETH_IPV4
            } else if self.find(Kind::Ipv6).is_some() {
                ETH_IPV6
            } else if self.find(Kind::Mpls).is_some() {
                ETH_MPLS
            } else {
                ETH_TYPE_NONE
            };
            self.flow.dl_type.set(dl_type);
            return Ok(());
        };
        if key.packet_type.get() != 0 {
            self.flow.dl_type.set(u16::MAX);
        } else if key.dl_type.get() < ETH_TYPE_MIN && self.rules.dumped {
            // Inside `encap()` this is not printed.
            self.flow.dl_type.set(u16::MAX);
        } else if key.dl_type.get() < ETH_TYPE_MIN {
            let message = "a frame without Ethernet type needs `eth_type(0/0xffff)` to say so";
            return Err(Misfit { kind: None, ..self.misfit(Fit::Error, Kind::EthType, message) });
        }
        Ok(())
    }

    /// The tag at this depth, and what it encapsulates.
    fn tags(mut self) -> Fitness {
        loop {
            let more = self.depth < self.rules.vlan_limit.min(self.flow.vlans.len())
                && match self.key {
                    Some(key) => key.vlans[self.depth].tci.get() & VLAN_CFI != 0,
                    None => is_vlan(self.flow.dl_type.get()),
                };
            if !more {
                self.cut_off_tag();
                return self.check();
            }
            for kind in [Kind::Vlan, Kind::Encap] {
                if !self.is_mask() || self.find(kind).is_some() {
                    self.expected.add(kind);
                }
            }
            let fitness = self.check();
            // The type so far was the tag's.
            let tag = &mut self.flow.vlans[self.depth];
            tag.tpid = self.flow.dl_type;
            self.flow.dl_type.set(0);
            let tci = match self.attrs.iter().find(|attr| attr.kind() == Kind::Vlan) {
                Some(Attr::Vlan(tci)) => *tci,
                _ => 0,
            };
            tag.tci.set(tci);
            let encap = match self.find(Kind::Encap) {
                Some(Attr::Encap(encap)) => Some(encap),
                _ => None,
            };
            if !self.is_mask() {
                // `fitness` says which of the two is missing.
                let (Some(_), Some(encap)) = (self.find(Kind::Vlan), encap) else { return fitness };
                if tci == 0 {
                    // As extraction leaves a tag that the frame ends in. OVS leaves no type, and so cannot read back
                    // the flow that it prints.
                    self.flow.dl_type = std::mem::take(&mut self.flow.vlans[self.depth]).tpid;
                    return match encap.first() {
                        Some(first) if fitness.is_ok() => Err(Misfit {
                            depth: self.depth + 1,
                            ..self.misfit(
                                Fit::TooMuch,
                                first.kind(),
                                "a frame that ends in its tag has nothing behind",
                            )
                        }),
                        _ => fitness,
                    };
                } else if tci & VLAN_CFI == 0 {
                    return self
                        .error(Kind::Vlan, "a tag with `cfi=0` must be all zero: it is one that is cut off");
                }
            }
            let Some(encap) = encap else { return fitness };
            self.attrs = encap;
            self.depth += 1;
            self.expected = Kinds::default();
            self.unique()?;
            self.ethertype()?;
            self.behind_tags()?;
        }
    }

    /// If a mask is for a frame that ends in its tag: the attributes of that tag, of which there is only the mask.
    fn cut_off_tag(&mut self) {
        let ends_here = self.depth < self.rules.vlan_limit.min(self.flow.vlans.len());
        if !ends_here || !self.key.is_some_and(|key| is_vlan(key.dl_type.get())) {
            return;
        }
        if let Some(Attr::Vlan(tci)) = self.find(Kind::Vlan) {
            self.flow.vlans[self.depth].tci.set(*tci);
        }
        self.expected.add(Kind::Vlan);
        self.expected.add(Kind::Encap);
    }

    /// MPLS, or the network and transport headers.
    fn behind_tags(&mut self) -> Fitness {
        let kind = match self.src().dl_type.get() {
            ETH_IPV4 => Kind::Ipv4,
            ETH_IPV6 => Kind::Ipv6,
            ETH_ARP | ETH_RARP => Kind::Arp,
            ETH_NSH => Kind::Nsh,
            dl_type if is_mpls(dl_type) => return self.mpls(),
            _ => return Ok(()),
        };
        if !self.is_mask() {
            self.expected.add(kind);
        }
        if let Some(attr) = self.find(kind) {
            if let (Attr::Arp(arp), false) = (attr, self.is_mask())
                && arp.op > 0xff
            {
                return self.error(kind, format!("ARP opcode {} is not supported: it is above 255", arp.op));
            }
            if self.is_mask() && matches_some(attr) && self.flow.dl_type.get() != u16::MAX {
                return self.error(
                    kind,
                    format!("`{}` cannot be matched where the Ethernet type is masked", kind.name()),
                );
            }
            self.take(kind);
        }
        self.transport()
    }

    fn mpls(&mut self) -> Fitness {
        let Some(Attr::Mpls(mpls)) = self.find(Kind::Mpls) else {
            if !self.is_mask() {
                self.expected.add(Kind::Mpls);
            }
            return Ok(());
        };
        self.take(Kind::Mpls);
        if self.is_mask() {
            return Ok(());
        }
        const BOS: u32 = 0x100;
        let Some((bottom, above)) = mpls.entries().split_last() else { return Ok(()) };
        if above.iter().any(|lse| lse & BOS != 0) {
            return self.error(Kind::Mpls, "`bos=1` may be set in the last label stack entry only");
        }
        if mpls.entries().len() < MPLS_MAX && bottom & BOS == 0 {
            let message = "the last label stack entry needs `bos=1`, or more entries must follow";
            return Err(self.misfit(Fit::TooLittle, Kind::Mpls, message));
        }
        Ok(())
    }

    fn transport(&mut self) -> Fitness {
        let src = self.src();
        let v6 = src.dl_type.get() == ETH_IPV6;
        if (src.dl_type.get() != ETH_IPV4 && !v6) || src.nw_frag & NW_FRAG_LATER != 0 {
            return Ok(());
        }
        let kind = match src.nw_proto {
            IP_TCP => Kind::Tcp,
            IP_UDP => Kind::Udp,
            IP_SCTP => Kind::Sctp,
            IP_ICMP if !v6 => Kind::Icmp,
            IP_ICMPV6 if v6 => Kind::Icmpv6,
            _ => return Ok(()),
        };
        if !self.is_mask() {
            self.expected.add(kind);
        }
        let found = self.take(kind).is_some();
        if kind == Kind::Tcp {
            self.take(Kind::TcpFlags);
        }
        if found && kind == Kind::Icmpv6 && is_nd(self.src()) {
            self.neighbour_discovery()?;
        }
        let ports = self.flow.tp_src.get() | self.flow.tp_dst.get();
        if found && self.is_mask() && ports != 0 && self.flow.nw_proto != u8::MAX {
            return self.error(
                kind,
                format!("`{}` cannot be matched where the protocol is not matched exactly", kind.name()),
            );
        }
        Ok(())
    }

    fn neighbour_discovery(&mut self) -> Fitness {
        if !self.is_mask() {
            self.expected.add(Kind::Nd);
        }
        // The ICMP type has 8 bits in a field of 16: 0xff is exact.
        let exact = |field: u16| field == 0xff;
        let attr = self.take(Kind::Nd);
        if self.is_mask() && attr.is_some_and(matches_some) && !exact(self.flow.tp_src.get()) {
            return self.error(Kind::Nd, "`nd` needs an exact match of the ICMPv6 type");
        }
        let attr = self.take(Kind::NdExt);
        let exact = exact(self.flow.tp_src.get()) && exact(self.flow.tp_dst.get());
        if self.is_mask() && attr.is_some_and(matches_some) && !exact {
            return self.error(Kind::NdExt, "`nd_ext` needs an exact match of the ICMPv6 type and code");
        }
        Ok(())
    }

    /// Whether just the expected attributes are there.
    fn check(&self) -> Fitness {
        let mut present = Kinds::default();
        self.attrs.iter().for_each(|attr| present.add(attr.kind()));
        let missing = |kind: &Kind| self.expected.has(*kind) && !present.has(*kind);
        if let Some(missing) = Kind::ALL.into_iter().find(missing) {
            let (blame, why) = match missing {
                Kind::Vlan | Kind::Encap => (Kind::EthType, "a VLAN tag"),
                Kind::Ipv4 | Kind::Ipv6 | Kind::Arp | Kind::Nsh | Kind::Mpls => {
                    (Kind::EthType, "this Ethernet type")
                }
                Kind::Nd => (Kind::Icmpv6, "this ICMPv6 type"),
                _ if present.has(Kind::Ipv6) => (Kind::Ipv6, "this protocol"),
                _ => (Kind::Ipv4, "this protocol"),
            };
            let message = format!("{why} needs `{}(...)`", missing.name());
            return Err(self.misfit(Fit::TooLittle, blame, message));
        }
        match self.attrs.iter().find(|attr| !self.expected.has(attr.kind())) {
            Some(attr) => {
                let message = format!("such a packet has no `{}`", attr.kind().name());
                Err(self.misfit(Fit::TooMuch, attr.kind(), message))
            }
            None => Ok(()),
        }
    }
}

/// Whether a mask looks at anything.
fn matches_some(attr: &Attr) -> bool {
    match attr {
        Attr::Nsh(nsh) => *nsh != Default::default(),
        attr => !attr.is_wildcard(),
    }
}
