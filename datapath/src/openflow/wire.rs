//! What becomes of actions in OpenFlow messages.
//!
//! Each OpenFlow version has its own words for actions, and a switch keeps what it received. So a rule that was added
//! with one version is shown in other words, and `dump-flows` of another version in yet others. This module owns that
//! change of words; there are no messages. Counterpart: the `encode_*` and `decode_*` functions of OVS
//! `lib/ofp-actions.c`.

use super::action::{OfAction, OfActions, OfCt, Resubmit, SetField};
use super::field::{Field, FieldValue, Subfield};
use super::headers::{VLAN_PCP_MASK, VLAN_VID_MASK, ethertype, ip_proto};
use super::protocol::OfVersion;
use super::rule_match::Match;
use super::text::{OfpError, field_has_short_header};
use crate::flow::VLAN_CFI;
use crate::types::{MacAddr, OfPort};

/// Bytes of a note's message in front of its data.
const NOTE_HEADER: usize = 10;
/// All actions have a multiple of this many bytes.
const ACTION_ALIGN: usize = 8;
/// Most bits of one NXM `load`.
const LOAD_BITS: u32 = 64;

/// What a receiver makes of `actions` of a rule with this match, if they are sent in a message of `version`.
///
/// OpenFlow 1.0 has no instructions: `goto_table` becomes `resubmit`, and `write_actions`, `clear_actions` and `meter`
/// are lost, as with OVS.
///
/// # Errors
/// [`OfpError::BadWildcards`] if a value that is sent with its mask has bits beside it. Older forms have no mask: they carry runs of
/// bits, or all of the value.
pub fn received(version: OfVersion, actions: &[OfAction], rule_match: &Match) -> Result<OfActions, OfpError> {
    let flow = &rule_match.flow;
    let mut sender = Sender {
        version,
        out: OfActions::new(),
        tags: flow.vlans.iter().map(|tag| tag.tci.get() & VLAN_CFI != 0).collect(),
        proto: flow.nw_proto,
        bits_beside_mask: false,
    };
    actions.iter().for_each(|action| sender.send(action));
    if sender.bits_beside_mask { Err(OfpError::BadWildcards) } else { Ok(sender.out) }
}

/// What a receiver makes of a match, if it is sent in a message of `version`: since OpenFlow 1.1, a VLAN priority means
/// something with a tag only, and is matched as a whole.
pub fn received_match(version: OfVersion, rule_match: &Match) -> Match {
    let mut out = rule_match.clone();
    let (tci, mask) = (out.flow.vlans[0].tci.get(), out.mask.vlans[0].tci.get());
    if version > OfVersion::Of10 && mask != 0 {
        let id = VLAN_VID_MASK | VLAN_CFI;
        let priority = tci & id != 0 && mask & VLAN_PCP_MASK != 0;
        let mask = mask & id | if priority { VLAN_PCP_MASK | VLAN_CFI } else { 0 };
        out.mask.vlans[0].tci.set(mask);
        out.flow.vlans[0].tci.set(tci & mask);
    }
    out
}

/// Actions being sent, and what is known of packets at that point.
struct Sender {
    version: OfVersion,
    out: OfActions,
    /// Which of the VLAN tags are there, outermost first.
    tags: Vec<bool>,
    /// IP protocol.
    proto: u8,
    /// Whether a value was sent with a mask that leaves some of its bits out.
    bits_beside_mask: bool,
}

impl Sender {
    fn put(&mut self, action: OfAction) {
        self.out.push(action);
    }

    /// Whether the version has `set_field`, which replaces the actions for single fields.
    fn has_set_field(&self) -> bool {
        self.version >= OfVersion::Of12
    }

    fn tagged(&self) -> bool {
        self.tags.first().is_some_and(|tagged| *tagged)
    }

    /// A list inside an action; what happens there is forgotten behind it.
    fn nested(&mut self, actions: &[OfAction]) -> OfActions {
        let mut inner = Self {
            version: self.version,
            out: OfActions::new(),
            tags: self.tags.clone(),
            proto: self.proto,
            bits_beside_mask: false,
        };
        actions.iter().for_each(|action| inner.send(action));
        self.bits_beside_mask |= inner.bits_beside_mask;
        inner.out
    }

    /// A field with its mask.
    fn put_masked(&mut self, set: &SetField) {
        self.bits_beside_mask |= set.value & set.mask != set.value;
        self.put(OfAction::SetField(Box::new(SetField { load: false, ..set.clone() })));
    }

    fn send(&mut self, action: &OfAction) {
        let of10 = self.version == OfVersion::Of10;
        match action {
            OfAction::Enqueue { port, queue } if !of10 => {
                self.put(OfAction::SetQueue(*queue));
                let max_len = if *port == OfPort::CONTROLLER { u16::MAX } else { 0 };
                self.put(OfAction::Output { port: *port, max_len });
                self.put(OfAction::PopQueue);
            }
            OfAction::SetField(set) if set.load && self.version < OfVersion::Of15 => self.load(set),
            OfAction::SetField(set) => self.set_field(set),
            OfAction::SetVlanVid { vid, push_if_needed } => self.vlan_vid(*vid, *push_if_needed),
            OfAction::SetVlanPcp { pcp, push_if_needed } => self.vlan_pcp(*pcp, *push_if_needed),
            OfAction::StripVlan { .. } => {
                self.put(OfAction::StripVlan { pop: !of10 });
                self.tags.rotate_left(1);
                if let Some(last) = self.tags.last_mut() {
                    *last = false;
                }
            }
            OfAction::PushVlan(kind) => {
                self.tags.rotate_right(1);
                if let Some(first) = self.tags.first_mut() {
                    *first = true;
                }
                // In OpenFlow 1.0 setting id or priority pushes, and is expected to follow.
                if !of10 {
                    self.put(OfAction::PushVlan(*kind));
                }
            }
            OfAction::PushMpls(_) => {
                self.proto = 0;
                self.put(action.clone());
            }
            OfAction::Note(data) => {
                let mut data = data.clone();
                data.resize(
                    (NOTE_HEADER + data.len().max(6)).next_multiple_of(ACTION_ALIGN) - NOTE_HEADER,
                    0,
                );
                self.put(OfAction::Note(data));
            }
            OfAction::Ct(ct) => {
                let exec = self.nested(&ct.exec);
                self.put(OfAction::Ct(Box::new(OfCt { exec, ..(**ct).clone() })));
            }
            OfAction::Clone(list) => {
                let list = self.nested(list);
                self.put(OfAction::Clone(list));
            }
            OfAction::GotoTable(table) if of10 => {
                let resubmit =
                    Resubmit { in_port: OfPort::IN_PORT, table: Some(*table), with_ct_orig: false };
                self.put(OfAction::Resubmit(resubmit));
            }
            OfAction::WriteActions(_) | OfAction::ClearActions if of10 => {}
            OfAction::WriteActions(list) if list.is_empty() => {}
            OfAction::Meter(_) if self.version < OfVersion::Of13 => {}
            OfAction::WriteActions(list) => {
                let list = self.nested(list);
                self.put(OfAction::WriteActions(list));
            }
            _ => self.header(action),
        }
    }

    /// Actions that set one header field in the way of OpenFlow 1.0, and those that are the same in every version.
    fn header(&mut self, action: &OfAction) {
        let of10 = self.version == OfVersion::Of10;
        let mac = |mac: &MacAddr| FieldValue::from_be_bytes(&mac.0);
        let number = |n: u32| FieldValue::new(n.into());
        let (tcp, udp, sctp) = (ip_proto::TCP, ip_proto::UDP, ip_proto::SCTP);
        let l4_field = |fields: [Field; 3]| match self.proto {
            p if p == tcp => Some(fields[0]),
            p if p == udp => Some(fields[1]),
            p if p == sctp => Some(fields[2]),
            _ => None,
        };
        let field = match action {
            OfAction::SetEthSrc(addr) => Some((Field::EthSrc, mac(addr))),
            OfAction::SetEthDst(addr) => Some((Field::EthDst, mac(addr))),
            OfAction::SetIpv4Src(ip) => Some((Field::IpSrc, number((*ip).into()))),
            OfAction::SetIpv4Dst(ip) => Some((Field::IpDst, number((*ip).into()))),
            OfAction::SetIpDscp(tos) => Some((Field::IpDscp, number(u32::from(tos >> 2)))),
            OfAction::SetIpEcn(ecn) if of10 => return self.put(load(Field::NwEcn, (*ecn).into())),
            OfAction::SetIpTtl(ttl) if of10 => return self.put(load(Field::NwTtl, (*ttl).into())),
            OfAction::SetIpEcn(ecn) => Some((Field::NwEcn, number((*ecn).into()))),
            OfAction::SetL4Src(port) => {
                let field = l4_field([Field::TcpSrc, Field::UdpSrc, Field::SctpSrc]);
                field.map(|f| (f, number((*port).into())))
            }
            OfAction::SetL4Dst(port) => {
                let field = l4_field([Field::TcpDst, Field::UdpDst, Field::SctpDst]);
                field.map(|f| (f, number((*port).into())))
            }
            OfAction::SetMplsLabel(label) => Some((Field::MplsLabel, number(*label))),
            OfAction::SetMplsTc(tc) => Some((Field::MplsTc, number((*tc).into()))),
            OfAction::SetTunnel { id, .. } => Some((Field::TunId, FieldValue::new((*id).into()))),
            _ => None,
        };
        match field {
            Some((field, value)) if self.has_set_field() => self.put(whole(field, value)),
            _ => self.put(action.clone()),
        }
    }

    /// Pushes a tag where the action for an id or a priority implies that, but the version's does not.
    fn push_for(&mut self, push_if_needed: bool) {
        if self.version > OfVersion::Of10 && push_if_needed && !self.tagged() {
            self.put(OfAction::PushVlan(ethertype::VLAN));
        }
        if let Some(first) = self.tags.first_mut() {
            *first = true;
        }
    }

    fn vlan_vid(&mut self, vid: u16, push_if_needed: bool) {
        self.push_for(push_if_needed);
        self.put(if self.has_set_field() {
            whole(Field::VlanVid, FieldValue::new((vid | VLAN_CFI).into()))
        } else {
            OfAction::SetVlanVid { vid, push_if_needed: self.version == OfVersion::Of10 }
        });
    }

    fn vlan_pcp(&mut self, pcp: u8, push_if_needed: bool) {
        self.push_for(push_if_needed);
        self.put(if self.has_set_field() {
            whole(Field::VlanPcp, FieldValue::new(pcp.into()))
        } else {
            OfAction::SetVlanPcp { pcp, push_if_needed: self.version == OfVersion::Of10 }
        });
    }

    /// `set_field`: as it is where there is such, else as the action for that field, else as `load`.
    fn set_field(&mut self, set: &SetField) {
        let exact = set.mask == FieldValue::ones(set.field.info().n_bytes * 8);
        if self.version >= OfVersion::Of15 || exact && self.has_set_field() {
            self.put_masked(set);
        } else if self.has_set_field() {
            self.load(set);
        } else if let Some(actions) = self.legacy(set) {
            // Those have no mask: as in OVS, one that is not all ones is forgotten.
            self.out.extend(actions);
        } else {
            self.load(set);
        }
        if set.field == Field::VlanTci
            && let Some(first) = self.tags.first_mut()
        {
            *first = set.value.low() as u16 & VLAN_CFI != 0;
        }
    }

    /// The actions of OpenFlow 1.0 or 1.1 for a field; they set all of it.
    fn legacy(&mut self, set: &SetField) -> Option<OfActions> {
        let n = set.value.low();
        let of10 = self.version == OfVersion::Of10;
        let mac = || {
            let mut mac = MacAddr::ZERO;
            set.value.write_be(&mut mac.0);
            mac
        };
        let ip = || std::net::Ipv4Addr::from(n as u32);
        let vid = |vid: u16| OfAction::SetVlanVid { vid: vid & 0xfff, push_if_needed: of10 };
        let pcp = |pcp: u8| OfAction::SetVlanPcp { pcp: pcp & 7, push_if_needed: of10 };
        Some(vec![match set.field {
            Field::VlanTci if n as u16 & VLAN_CFI == 0 => OfAction::StripVlan { pop: !of10 },
            Field::VlanTci => {
                let push = (!of10 && !self.tagged()).then_some(OfAction::PushVlan(ethertype::VLAN));
                return Some(push.into_iter().chain([vid(n as u16), pcp((n >> 13) as u8)]).collect());
            }
            Field::VlanVid => vid(n as u16),
            Field::VlanPcp => pcp(n as u8),
            Field::EthSrc => OfAction::SetEthSrc(mac()),
            Field::EthDst => OfAction::SetEthDst(mac()),
            Field::IpSrc => OfAction::SetIpv4Src(ip()),
            Field::IpDst => OfAction::SetIpv4Dst(ip()),
            Field::NwTos => OfAction::SetIpDscp(n as u8),
            Field::IpDscp => OfAction::SetIpDscp((n as u8) << 2),
            Field::NwEcn if !of10 => OfAction::SetIpEcn(n as u8),
            Field::TcpSrc | Field::UdpSrc => OfAction::SetL4Src(n as u16),
            Field::TcpDst | Field::UdpDst => OfAction::SetL4Dst(n as u16),
            _ => return None,
        }])
    }

    /// `load`: one for each run of bits; for fields that it cannot name, in the form that is shown as `set_field`.
    fn load(&mut self, set: &SetField) {
        if !field_has_short_header(set.field) || matches!(set.field, Field::TunMetadata(_)) {
            self.put_masked(set);
            return;
        }
        let n_bits = set.field.n_bits();
        let is_set = |bit: &u32| set.mask.extract(*bit, 1).low() == 1;
        let mut next = (0..n_bits).find(is_set);
        while let Some(first) = next {
            let limit = n_bits.min(first + LOAD_BITS);
            let end = (first + 1..limit).find(|bit| !is_set(bit)).unwrap_or(limit);
            let sub = Subfield { field: set.field, ofs: first, n_bits: end - first };
            let (value, mask) = (set.value & sub.bits(), sub.bits());
            self.put(OfAction::SetField(Box::new(SetField { field: set.field, value, mask, load: true })));
            next = (end..n_bits).find(is_set);
        }
    }
}

fn whole(field: Field, value: FieldValue) -> OfAction {
    let mask = FieldValue::ones(field.info().n_bytes * 8);
    OfAction::SetField(Box::new(SetField { field, value, mask, load: false }))
}

fn load(field: Field, value: u128) -> OfAction {
    let mask = FieldValue::ones(field.n_bits());
    OfAction::SetField(Box::new(SetField { field, value: FieldValue::new(value), mask, load: true }))
}
