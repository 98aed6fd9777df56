//! Reading and writing fields in keys and masks.

use zerocopy::IntoBytes;

use super::{Field, FieldValue, Place, Prereq, Subfield, VlanPart, table};
use crate::flow::{Flow, NW_FRAG_LATER, VLAN_CFI};
use crate::types::OfPort;

/// What is added to reserved 16-bit port numbers to get their 32-bit form (OVS `OFPP11_OFFSET`).
const PORT11_OFFSET: u32 = 0xffff_0000;
/// Upper six bits of the ToS byte.
const DSCP_MASK: u8 = 0xfc;
/// Priority bits of a VLAN tag.
const PCP_MASK: u16 = 0xe000;
/// Id bits of a VLAN tag.
const VID_MASK: u16 = 0x0fff;
/// `dl_vlan` of 0xffff: no tag (OVS `OFP10_VLAN_NONE`).
const VLAN_NONE: u16 = 0xffff;

const ETH_IP: u16 = 0x0800;
const ETH_ARP: u16 = 0x0806;
const ETH_RARP: u16 = 0x8035;
const ETH_IPV6: u16 = 0x86dd;
const ETH_MPLS: u16 = 0x8847;
const ETH_MPLS_MCAST: u16 = 0x8848;
const ETH_NSH: u16 = 0x894f;
/// The Ethernet type of what has none (OVS `FLOW_DL_TYPE_NONE`).
const DL_TYPE_NONE: u16 = 0x05ff;
const IPPROTO_ICMP: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const IPPROTO_ICMPV6: u8 = 58;
const IPPROTO_SCTP: u8 = 132;
const ND_SOLICIT: u16 = 135;
const ND_ADVERT: u16 = 136;

/// `trk` of `ct_state`.
const CT_TRK: u8 = 1 << 5;
/// `inv` of `ct_state`.
const CT_INV: u8 = 1 << 4;
/// Of these bits of `ct_state` each tracked packet that is valid has one: `new`, `est`, `rpl`.
const CT_VALID: u8 = 1 | 1 << 1 | 1 << 3;
/// Bits of `ct_state` that only a valid packet has: all but `inv` and `trk`.
const CT_IMPLIES_VALID: u8 = !(CT_TRK | CT_INV);

/// The 32-bit form of a 16-bit port number.
pub fn port_to_11(port: OfPort) -> u32 {
    let n = u32::from(port.0);
    if port < OfPort::MAX { n } else { n + PORT11_OFFSET }
}

/// The 16-bit form of a 32-bit port number, if it has one.
pub fn port_from_11(port: u32) -> Option<OfPort> {
    let max = u32::from(OfPort::MAX.0);
    match port {
        n if n < max => Some(OfPort(n as u16)),
        n if n >= max + PORT11_OFFSET => Some(OfPort(n as u16)),
        _ => None,
    }
}

impl Field {
    /// Every field.
    pub fn all() -> impl Iterator<Item = Self> {
        table::all()
    }

    /// The field's value in a key, or its bits in a mask.
    ///
    /// `tun_metadata` reads as zero: where it lives is known to the bridge's option map only.
    pub fn get(self, flow: &Flow) -> FieldValue {
        let info = self.info();
        match info.place {
            Place::Net { at, size, shift } => {
                FieldValue::from_be_bytes(&flow.as_bytes()[at..at + size]).extract(shift, info.n_bits)
            }
            Place::Host { at, size, shift } => host_word(flow, at, size).extract(shift, info.n_bits),
            Place::Regs { count } => {
                let first = usize::from(self.index().unwrap_or(0)) * usize::from(count);
                let regs = flow.regs.iter().skip(first).take(usize::from(count));
                FieldValue::new(regs.fold(0, |v, &reg| v << 32 | u128::from(reg)))
            }
            Place::Port11 { at } => {
                let port = host_word(flow, at, 4).low() as u32;
                FieldValue::new(u128::from(if port > 0xffff {
                    port
                } else {
                    port_to_11(OfPort(port as u16))
                }))
            }
            Place::Vlan(part) => {
                let tci = flow.vlans[0].tci.get();
                FieldValue::new(u128::from(match part {
                    VlanPart::Tci => tci,
                    VlanPart::Id => tci & VID_MASK,
                    VlanPart::IdCfi => tci & (VID_MASK | VLAN_CFI),
                    VlanPart::Pcp => tci >> 13,
                }))
            }
            Place::Dscp => FieldValue::new(u128::from(flow.nw_tos & DSCP_MASK)),
            Place::NshContext => {
                let word = flow.nsh.context[self.context_index()].get();
                FieldValue::new(u128::from(word))
            }
            Place::TunMetadata => FieldValue::ZERO,
        }
    }

    /// Writes the field into a key, as an action does (OVS `mf_set_flow_value`): setting a VLAN id or priority also
    /// makes the tag present. Bits beyond the field's width are ignored, as is `tun_metadata` (see [`Self::get`]).
    pub fn set(self, flow: &mut Flow, value: &FieldValue) {
        let info = self.info();
        match info.place {
            Place::Net { at, size, shift } => {
                let bytes = &mut flow.as_mut_bytes()[at..at + size];
                FieldValue::from_be_bytes(bytes).deposit(shift, info.n_bits, value).write_be(bytes);
            }
            Place::Host { at, size, shift } => {
                let word = host_word(flow, at, size).deposit(shift, info.n_bits, value);
                set_host_word(flow, at, size, &word);
            }
            Place::Regs { count } => {
                let first = usize::from(self.index().unwrap_or(0)) * usize::from(count);
                let regs = flow.regs.iter_mut().skip(first).take(usize::from(count));
                regs.rev().enumerate().for_each(|(i, reg)| *reg = (value.low() >> (i * 32)) as u32);
            }
            Place::Port11 { at } => {
                let port = port_from_11(value.low() as u32).unwrap_or(OfPort::NONE);
                set_host_word(flow, at, 4, &FieldValue::new(u128::from(port.0)));
            }
            Place::Vlan(part) => set_vlan(flow, part, value.low() as u16),
            Place::Dscp => flow.nw_tos = flow.nw_tos & !DSCP_MASK | value.low() as u8 & DSCP_MASK,
            Place::NshContext => flow.nsh.context[self.context_index()].set(value.low() as u32),
            Place::TunMetadata => {}
        }
    }

    /// Writes the bits of `mask` only.
    pub fn set_masked(self, flow: &mut Flow, value: &FieldValue, mask: &FieldValue) {
        let merged = self.get(flow).merged(value, mask);
        self.set(flow, &merged);
    }

    /// Marks bits of the field as significant in `mask`, plainly: no bit beyond those is touched, but that a port number
    /// is always significant as a whole.
    pub fn add_to_mask(self, mask: &mut Flow, bits: &FieldValue) {
        let info = self.info();
        match info.place {
            Place::Port11 { at } => set_host_word(mask, at, 4, &FieldValue::ones(32)),
            Place::Host { at, .. } if self == Self::InPort => {
                set_host_word(mask, at, 4, &FieldValue::ones(32));
            }
            Place::Vlan(part) => {
                let bits = bits.low() as u16;
                let tci = mask.vlans[0].tci.get();
                mask.vlans[0].tci.set(
                    tci | match part {
                        VlanPart::Tci => bits,
                        VlanPart::Id => bits & VID_MASK | VLAN_CFI,
                        VlanPart::IdCfi => bits & (VID_MASK | VLAN_CFI),
                        VlanPart::Pcp => bits << 13 | VLAN_CFI,
                    },
                );
            }
            Place::Net { .. }
            | Place::Host { .. }
            | Place::Regs { .. }
            | Place::Dscp
            | Place::NshContext
            | Place::TunMetadata => {
                let all = self.get(mask) | *bits;
                self.set(mask, &all);
            }
        }
    }

    /// Whether a packet meets the field's prerequisites. What that looks at is marked as significant in `wc`
    /// (OVS `mf_are_prereqs_ok`; the Ethernet type is not marked, since every megaflow matches it).
    pub fn prereqs_met(self, flow: &Flow, wc: Option<&mut Flow>) -> bool {
        let prereq = self.info().prereq;
        if let Some(wc) = wc {
            prereq.mark(flow, wc);
        }
        prereq.met(flow) && (prereq != Prereq::CtValid || flow.ct_state & CT_VALID != 0)
    }

    /// Whether a match on `flow` under `mask` establishes the field's prerequisites (OVS `mf_are_match_prereqs_ok`).
    pub fn match_prereqs_met(self, flow: &Flow, mask: &Flow) -> bool {
        let prereq = self.info().prereq;
        if prereq == Prereq::CtValid {
            let not_invalid =
                flow.ct_state & CT_TRK != 0 && mask.ct_state & CT_INV != 0 && flow.ct_state & CT_INV == 0;
            return flow.ct_state & CT_IMPLIES_VALID != 0 || not_invalid;
        }
        prereq.met(flow)
    }

    fn context_index(self) -> usize {
        usize::from(self.index().unwrap_or(1).clamp(1, 4) - 1)
    }
}

impl Prereq {
    /// Whether `flow` meets this, connection state apart.
    fn met(self, flow: &Flow) -> bool {
        let ethernet = flow.packet_type.get() == 0;
        let dl_type = dl_type(flow);
        let ip = matches!(dl_type, ETH_IP | ETH_IPV6);
        let l4 = |proto| ip && flow.nw_proto == proto && flow.nw_frag & NW_FRAG_LATER == 0;
        let icmpv6 = dl_type == ETH_IPV6 && flow.nw_proto == IPPROTO_ICMPV6;
        let nd = |kinds: &[u16]| icmpv6 && kinds.contains(&flow.tp_src.get()) && flow.tp_dst.get() == 0;
        match self {
            Self::None | Self::CtValid => true,
            Self::Ethernet => ethernet,
            Self::Arp => matches!(dl_type, ETH_ARP | ETH_RARP),
            Self::VlanVid => ethernet && flow.vlans[0].tci.get() & VLAN_CFI != 0,
            Self::Ipv4 => dl_type == ETH_IP,
            Self::Ipv6 => dl_type == ETH_IPV6,
            Self::IpAny => ip,
            Self::Mpls => matches!(dl_type, ETH_MPLS | ETH_MPLS_MCAST),
            Self::Nsh => dl_type == ETH_NSH,
            Self::Tcp => l4(IPPROTO_TCP),
            Self::Udp => l4(IPPROTO_UDP),
            Self::Sctp => l4(IPPROTO_SCTP),
            Self::Icmpv4 => dl_type == ETH_IP && flow.nw_proto == IPPROTO_ICMP,
            Self::Icmpv6 => icmpv6,
            Self::Nd => nd(&[ND_SOLICIT, ND_ADVERT]),
            Self::NdSolicit => nd(&[ND_SOLICIT]),
            Self::NdAdvert => nd(&[ND_ADVERT]),
        }
    }

    /// Marks in `wc` what deciding on `flow` looks at.
    fn mark(self, flow: &Flow, wc: &mut Flow) {
        let dl_type = dl_type(flow);
        let v6 = dl_type == ETH_IPV6;
        match self {
            Self::None | Self::Arp | Self::Ipv4 | Self::Ipv6 | Self::IpAny | Self::Mpls | Self::Nsh => {}
            Self::Ethernet => wc.packet_type.set(u32::MAX),
            Self::VlanVid => {
                wc.packet_type.set(u32::MAX);
                if flow.packet_type.get() == 0 {
                    wc.vlans[0].tci.set(wc.vlans[0].tci.get() | VLAN_CFI);
                }
            }
            Self::CtValid => wc.ct_state |= CT_VALID,
            Self::Tcp | Self::Udp | Self::Sctp if v6 || dl_type == ETH_IP => wc.nw_proto = u8::MAX,
            Self::Icmpv4 if dl_type == ETH_IP => wc.nw_proto = u8::MAX,
            Self::Icmpv6 if v6 => wc.nw_proto = u8::MAX,
            Self::Nd | Self::NdSolicit | Self::NdAdvert if v6 => {
                wc.nw_proto = u8::MAX;
                if flow.nw_proto == IPPROTO_ICMPV6 {
                    wc.tp_dst.set(u16::MAX);
                    if flow.tp_dst.get() == 0 {
                        wc.tp_src.set(u16::MAX);
                    }
                }
            }
            Self::Tcp
            | Self::Udp
            | Self::Sctp
            | Self::Icmpv4
            | Self::Icmpv6
            | Self::Nd
            | Self::NdSolicit
            | Self::NdAdvert => {}
        }
    }
}

/// The Ethernet type of a frame, or of a packet without an Ethernet header; "none" for other packet types.
fn dl_type(flow: &Flow) -> u16 {
    match flow.packet_type.get() {
        0 => flow.dl_type.get(),
        packet_type if packet_type >> 16 == 1 => packet_type as u16,
        _ => DL_TYPE_NONE,
    }
}

impl Subfield {
    /// Its bits in a key or a mask, moved down to bit 0.
    pub fn get(&self, flow: &Flow) -> FieldValue {
        self.field.get(flow).extract(self.ofs, self.n_bits)
    }

    /// Writes its bits, taken from the low end of `value` (OVS `mf_write_subfield_flow`).
    pub fn set(&self, flow: &mut Flow, value: &FieldValue) {
        self.field.set_masked(flow, &value.shl(self.ofs), &self.bits());
    }

    /// Marks its bits as significant in `mask`.
    pub fn add_to_mask(&self, mask: &mut Flow) {
        self.field.add_to_mask(mask, &self.bits());
    }

    /// Its bits, in place within the field.
    pub fn bits(&self) -> FieldValue {
        FieldValue::ones(self.n_bits).shl(self.ofs)
    }
}

fn host_word(flow: &Flow, at: usize, size: usize) -> FieldValue {
    let bytes = &flow.as_bytes()[at..at + size];
    let mut word = [0; 16];
    word[..size].copy_from_slice(bytes);
    if cfg!(target_endian = "big") {
        word[..size].reverse();
    }
    FieldValue::new(u128::from_le_bytes(word))
}

fn set_host_word(flow: &mut Flow, at: usize, size: usize, value: &FieldValue) {
    let bytes = &mut flow.as_mut_bytes()[at..at + size];
    value.write_be(bytes);
    if cfg!(target_endian = "little") {
        bytes.reverse();
    }
}

fn set_vlan(flow: &mut Flow, part: VlanPart, value: u16) {
    let tag = &mut flow.vlans[0];
    let tci = tag.tci.get();
    tag.tci.set(match part {
        VlanPart::Tci => value,
        VlanPart::Id if value == VLAN_NONE => 0,
        VlanPart::Id => tci & !VID_MASK | VLAN_CFI | value & VID_MASK,
        VlanPart::IdCfi => tci & PCP_MASK | value & (VID_MASK | VLAN_CFI),
        VlanPart::Pcp => tci & !PCP_MASK | value << 13 | VLAN_CFI,
    });
    if tag.tpid.get() == 0 && tag.tci.get() != 0 {
        tag.tpid.set(0x8100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_reads_back_what_was_written() {
        for field in Field::all()
            .filter(|f| !matches!(f, Field::TunMetadata(_) | Field::InPortOxm | Field::ActsetOutput))
        {
            let mut flow = Flow::default();
            assert!(field.get(&flow).is_zero(), "{field}");
            // An odd pattern, with the bits that each field can hold.
            let mut value =
                FieldValue::new(0x0123_4567_89ab_cdef_1032_5476_98ba_dcfd) & FieldValue::ones(field.n_bits());
            match field {
                Field::NwTos => value = FieldValue::new(0xfc),
                Field::CtState | Field::ArpOp => value = FieldValue::new(0xfd),
                _ => {}
            }
            field.set(&mut flow, &value);
            assert_eq!(field.get(&flow), value & field.get(&Flow::all_ones()), "{field}");
        }
    }

    #[test]
    fn registers_overlap_as_in_ovs() {
        let mut flow = Flow::default();
        Field::XxReg(1).set(&mut flow, &FieldValue::new(0x0000_0004_0000_0005_0000_0006_0000_0007));
        assert_eq!(flow.regs[4..8], [4, 5, 6, 7]);
        assert_eq!(Field::XReg(2).get(&flow).low(), 0x0000_0004_0000_0005);
    }

    #[test]
    fn port_numbers_have_two_widths() {
        let mut flow = Flow { in_port: u32::from(OfPort::LOCAL.0), ..Flow::default() };
        assert_eq!(Field::InPort.get(&flow).low(), 0xfffe);
        assert_eq!(Field::InPortOxm.get(&flow).low(), 0xffff_fffe);
        Field::InPortOxm.set(&mut flow, &FieldValue::new(7));
        assert_eq!(flow.in_port, 7);
        assert_eq!(port_from_11(0xff00), None);
    }

    #[test]
    fn setting_a_vlan_part_makes_the_tag() {
        let mut flow = Flow::default();
        Field::DlVlan.set(&mut flow, &FieldValue::new(5));
        Field::VlanPcp.set(&mut flow, &FieldValue::new(3));
        assert_eq!((flow.vlans[0].tpid.get(), flow.vlans[0].tci.get()), (0x8100, 0x7005));
        Field::DlVlan.set(&mut flow, &FieldValue::new(0xffff));
        assert_eq!(flow.vlans[0].tci.get(), 0);
    }

    #[test]
    fn subfields_write_only_their_bits() {
        let mut flow = Flow::default();
        flow.nw_dst.set(0xffff_ffff);
        let sub = Subfield { field: Field::IpDst, ofs: 8, n_bits: 16 };
        sub.set(&mut flow, &FieldValue::new(0x1_1234));
        assert_eq!(flow.nw_dst.get(), 0xff12_34ff);
        assert_eq!(sub.get(&flow).low(), 0x1234);
        let mut mask = Flow::default();
        sub.add_to_mask(&mut mask);
        assert_eq!(mask.nw_dst.get(), 0x00ff_ff00);
    }
}
