//! Which actions may be together, in what order, and with what match.
//!
//! Counterpart: OVS `ofpacts_verify` and `ofpacts_check` with the `check_*` functions of `lib/ofp-actions.c`.

use super::actions::Outer;
use super::ct::{ALG_FTP, ALG_TFTP};
use super::error::{ErrorKind, OfpError};
use crate::flow::{Flow, NW_FRAG_LATER, VLAN_CFI, VlanHeader};
use crate::openflow::action::{CtZone, Learn, LearnDst, LearnSrc, OfAction, OfCt, OfNat};
use crate::openflow::field::{Field, Subfield};
use crate::openflow::headers::{dl_type, ethertype, ip_proto, is_ip_any, packet_type};
use crate::openflow::protocol::Protocols;
use crate::openflow::rule_match::Match;
use crate::types::{OfPort, TableId};

/// `inv` of `ct_state`.
const CT_INVALID: u8 = 1 << 4;
/// Largest number of a meter (OpenFlow 1.3 `OFPM_MAX`).
const METER_MAX: u32 = 0xffff_0000;
/// A packet type that is not known.
const PACKET_TYPE_UNKNOWN: u32 = 0xffff_ffff;

/// The name of an action, as OVS calls it in messages.
pub(super) fn name(action: &OfAction) -> &'static str {
    match action {
        OfAction::Output { .. } => "output",
        OfAction::OutputReg { .. } => "output_reg",
        OfAction::OutputTrunc { .. } => "output_trunc",
        OfAction::Controller(_) => "controller",
        OfAction::Enqueue { .. } => "enqueue",
        OfAction::Bundle(_) => "bundle",
        OfAction::Group(_) => "group",
        OfAction::SetField(_) => "set_field",
        OfAction::SetVlanVid { .. } => "set_vlan_vid",
        OfAction::SetVlanPcp { .. } => "set_vlan_pcp",
        OfAction::StripVlan { .. } => "strip_vlan",
        OfAction::PushVlan(_) => "push_vlan",
        OfAction::SetEthSrc(_) => "mod_dl_src",
        OfAction::SetEthDst(_) => "mod_dl_dst",
        OfAction::SetIpv4Src(_) => "mod_nw_src",
        OfAction::SetIpv4Dst(_) => "mod_nw_dst",
        OfAction::SetIpDscp(_) => "mod_nw_tos",
        OfAction::SetIpEcn(_) => "mod_nw_ecn",
        OfAction::SetIpTtl(_) => "mod_nw_ttl",
        OfAction::SetL4Src(_) => "mod_tp_src",
        OfAction::SetL4Dst(_) => "mod_tp_dst",
        OfAction::Move { .. } => "move",
        OfAction::Push(_) => "push",
        OfAction::Pop(_) => "pop",
        OfAction::DecTtl { .. } => "dec_ttl",
        OfAction::SetMplsLabel(_) => "set_mpls_label",
        OfAction::SetMplsTc(_) => "set_mpls_tc",
        OfAction::SetMplsTtl(_) => "set_mpls_ttl",
        OfAction::DecMplsTtl => "dec_mpls_ttl",
        OfAction::PushMpls(_) => "push_mpls",
        OfAction::PopMpls(_) => "pop_mpls",
        OfAction::DecNshTtl => "dec_nsh_ttl",
        OfAction::DeleteField(_) => "delete_field",
        OfAction::Encap(_) => "encap",
        OfAction::Decap(_) => "decap",
        OfAction::SetTunnel { .. } => "set_tunnel",
        OfAction::SetQueue(_) => "set_queue",
        OfAction::PopQueue => "pop_queue",
        OfAction::FinTimeout { .. } => "fin_timeout",
        OfAction::Resubmit(_) => "resubmit",
        OfAction::Learn(_) => "learn",
        OfAction::Conjunction { .. } => "conjunction",
        OfAction::Multipath(_) => "multipath",
        OfAction::Note(_) => "note",
        OfAction::Exit => "exit",
        OfAction::Sample(_) => "sample",
        OfAction::Ct(_) => "ct",
        OfAction::CtClear => "ct_clear",
        OfAction::Nat(_) => "nat",
        OfAction::Clone(_) => "clone",
        OfAction::CheckPktLarger { .. } => "check_pkt_larger",
        OfAction::DebugRecirc => "debug_recirc",
        OfAction::DebugSlow => "debug_slow",
        OfAction::Meter(_) => "meter",
        OfAction::ClearActions => "clear_actions",
        OfAction::WriteActions(_) => "write_actions",
        OfAction::WriteMetadata { .. } => "write_metadata",
        OfAction::GotoTable(_) => "goto_table",
    }
}

/// Instructions, in the order in which OpenFlow carries them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Instruction {
    Meter,
    ApplyActions,
    ClearActions,
    WriteActions,
    WriteMetadata,
    GotoTable,
}

impl Instruction {
    fn of(action: &OfAction) -> Self {
        match action {
            OfAction::Meter(_) => Self::Meter,
            OfAction::ClearActions => Self::ClearActions,
            OfAction::WriteActions(_) => Self::WriteActions,
            OfAction::WriteMetadata { .. } => Self::WriteMetadata,
            OfAction::GotoTable(_) => Self::GotoTable,
            _ => Self::ApplyActions,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Meter => "meter",
            Self::ApplyActions => "apply_actions",
            Self::ClearActions => "clear_actions",
            Self::WriteActions => "write_actions",
            Self::WriteMetadata => "write_metadata",
            Self::GotoTable => "goto_table",
        }
    }
}

/// Checks a list by itself: order of instructions, what may be nested in what, `conjunction` alone.
pub(super) fn verify(actions: &[OfAction], outer: Outer) -> Result<(), ErrorKind> {
    let mut last: Option<Instruction> = None;
    for action in actions {
        if matches!(action, OfAction::Conjunction { .. }) {
            let other =
                actions.iter().find(|a| !matches!(a, OfAction::Conjunction { .. } | OfAction::Note(_)));
            return other.map_or(Ok(()), |a| Err(ErrorKind::BesideConjunction(name(a))));
        }
        verify_nested(action, outer)?;
        let next = Instruction::of(action);
        if let Some(last) = last {
            let name = last.name();
            if next == last && next != Instruction::ApplyActions {
                return Err(ErrorKind::InstructionTwice(name));
            }
            if next < last {
                return Err(ErrorKind::InstructionOrder { name, next: next.name() });
            }
        }
        if outer != Outer::Rule && !matches!(next, Instruction::Meter | Instruction::ApplyActions) {
            return Err(ErrorKind::InstructionNotAllowed(next.name()));
        }
        last = Some(next);
    }
    Ok(())
}

/// The field that an action writes, if any.
fn written_field(action: &OfAction) -> Option<Field> {
    match action {
        OfAction::SetField(set) => Some(set.field),
        OfAction::Move { dst, .. } => Some(dst.field),
        _ => None,
    }
}

fn verify_nested(action: &OfAction, outer: Outer) -> Result<(), ErrorKind> {
    let field = written_field(action);
    let of_connection = field.is_some_and(|f| matches!(f, Field::CtMark | Field::CtLabel));
    if of_connection && outer != Outer::Ct {
        return Err(ErrorKind::Usage("cannot set CT fields outside of ct action"));
    }
    if matches!(action, OfAction::Nat(_)) {
        return match outer {
            Outer::Ct => Ok(()),
            _ => Err(ErrorKind::Usage("Cannot have NAT action outside of \"ct\" action")),
        };
    }
    let outer_name = match outer {
        Outer::Rule | Outer::List => return Ok(()),
        Outer::WriteActions => "write_actions",
        Outer::Clone => "clone",
        Outer::Ct => "ct",
    };
    match field {
        None if outer == Outer::Ct => Err(ErrorKind::Nesting { outer: outer_name, action: name(action) }),
        Some(field) if outer == Outer::Ct && !of_connection => {
            Err(ErrorKind::NestedField { outer: outer_name, field: field.to_string() })
        }
        _ if matches!(action, OfAction::Meter(_)) => {
            Err(ErrorKind::Nesting { outer: outer_name, action: "meter" })
        }
        _ => Ok(()),
    }
}

/// Checks actions against what is known of the packets that a match lets through. Returns the protocols that allow the
/// combination: all but OpenFlow 1.0 require of a match what its actions need.
pub(crate) fn check(
    actions: &[OfAction],
    rule_match: &Match,
    table: Option<TableId>,
) -> Result<Protocols, OfpError> {
    let mut checker =
        Checker { flow: rule_match.flow, mask: &rule_match.mask, table, protocols: Protocols::ANY };
    checker.list(actions)?;
    Ok(checker.protocols)
}

/// What is known of a packet while actions run.
struct Checker<'a> {
    flow: Flow,
    mask: &'a Flow,
    table: Option<TableId>,
    protocols: Protocols,
}

impl Checker<'_> {
    /// Checks a list; what it does to the packet is forgotten behind it.
    fn list(&mut self, actions: &[OfAction]) -> Result<(), OfpError> {
        let before = self.flow;
        let result = actions.iter().try_for_each(|action| self.action(action));
        self.flow = before;
        result
    }

    fn action(&mut self, action: &OfAction) -> Result<(), OfpError> {
        match action {
            OfAction::Output { port, .. } | OfAction::OutputTrunc { port, .. } => output_port(*port)?,
            OfAction::OutputReg { src, .. } | OfAction::Push(src) => self.source(src)?,
            OfAction::Enqueue { port, .. } => match *port {
                p if p < OfPort::MAX || p == OfPort::IN_PORT || p == OfPort::LOCAL => {}
                _ => return Err(OfpError::BadOutPort),
            },
            OfAction::Bundle(bundle) => {
                bundle.dst.iter().try_for_each(|dst| self.destination(dst))?;
                for &member in bundle.members.iter().filter(|m| **m != OfPort::NONE) {
                    output_port(member)?;
                    if member == OfPort::CONTROLLER {
                        return Err(OfpError::BadOutPort);
                    }
                }
            }
            OfAction::Move { src, dst } => {
                self.source(src)?;
                self.destination(dst)?;
            }
            OfAction::Pop(dst) => self.destination(dst)?,
            OfAction::Multipath(multipath) => self.destination(&multipath.dst)?,
            OfAction::Learn(learn) => self.learn(learn)?,
            OfAction::Ct(ct) => self.ct(ct)?,
            OfAction::Nat(nat) => self.nat(nat)?,
            OfAction::Clone(actions) => self.list(actions)?,
            OfAction::WriteActions(actions) => {
                // Whether an action set fits cannot be known before it is carried out.
                let protocols = self.protocols;
                self.list(actions)?;
                self.protocols = protocols;
            }
            OfAction::Resubmit(resubmit) => {
                let valid = Field::CtNwProto.match_prereqs_met(&self.flow, self.mask);
                if resubmit.with_ct_orig && !valid {
                    return Err(OfpError::MatchInconsistent);
                }
            }
            OfAction::DeleteField(field) => match field {
                Field::TunMetadata(_) => {}
                _ => return Err(OfpError::BadArgument),
            },
            OfAction::Meter(id) => match id {
                1..=METER_MAX => {}
                _ => return Err(OfpError::InvalidMeter),
            },
            OfAction::GotoTable(next) => match self.table {
                Some(table) if *next <= table => return Err(OfpError::BadTableId),
                Some(_) | None => {}
            },
            _ => self.header(action)?,
        }
        Ok(())
    }

    /// Actions on headers, and those that need nothing.
    fn header(&mut self, action: &OfAction) -> Result<(), OfpError> {
        let flow = &mut self.flow;
        let kind = dl_type(flow);
        let ethernet = flow.packet_type.get() == packet_type::ETHERNET;
        let tci = flow.vlans[0].tci.get();
        let tagged = tci & VLAN_CFI != 0;
        let consistent = match action {
            OfAction::SetField(set) => {
                if !set.field.prereqs_met(flow, None) || set.field == Field::VlanVid && !tagged {
                    return Err(OfpError::MatchInconsistent);
                }
                if set.field == Field::VlanTci {
                    flow.vlans[0].tci.set(set.value.low() as u16);
                }
                true
            }
            OfAction::SetVlanVid { push_if_needed, .. } | OfAction::SetVlanPcp { push_if_needed, .. } => {
                flow.vlans[0].tci.set(tci | VLAN_CFI);
                tagged || *push_if_needed
            }
            OfAction::StripVlan { .. } => {
                flow.vlans = [flow.vlans[1], VlanHeader::default()];
                tagged
            }
            OfAction::PushVlan(_) => {
                if flow.vlans[1].tci.get() & VLAN_CFI != 0 {
                    return Err(OfpError::BadTag);
                }
                flow.vlans = [VlanHeader::default(), flow.vlans[0]];
                flow.vlans[0].tci.set(VLAN_CFI);
                true
            }
            OfAction::SetIpv4Src(_) | OfAction::SetIpv4Dst(_) => kind == ethertype::IPV4,
            OfAction::SetIpDscp(_)
            | OfAction::SetIpEcn(_)
            | OfAction::SetIpTtl(_)
            | OfAction::DecTtl { .. } => is_ip_any(flow),
            OfAction::SetL4Src(_) | OfAction::SetL4Dst(_) => {
                let l4 = matches!(flow.nw_proto, ip_proto::TCP | ip_proto::UDP | ip_proto::SCTP);
                is_ip_any(flow) && flow.nw_frag & NW_FRAG_LATER == 0 && l4
            }
            OfAction::SetMplsLabel(_)
            | OfAction::SetMplsTc(_)
            | OfAction::SetMplsTtl(_)
            | OfAction::DecMplsTtl => ethertype::is_mpls(kind),
            OfAction::PushMpls(ethertype) => {
                flow.dl_type.set(*ethertype);
                flow.nw_proto = 0;
                ethernet
            }
            OfAction::PopMpls(ethertype) => {
                flow.dl_type.set(*ethertype);
                ethernet && ethertype::is_mpls(kind)
            }
            OfAction::DecNshTtl => {
                flow.packet_type.get() == packet_type::NSH || flow.dl_type.get() == ethertype::NSH
            }
            OfAction::FinTimeout { .. } => flow.nw_proto == ip_proto::TCP,
            OfAction::Encap(encap) => {
                flow.packet_type.set(encap.packet_type);
                if encap.packet_type >> 16 == packet_type::NS_ETHERTYPE {
                    flow.dl_type.set(encap.packet_type as u16);
                }
                if !is_ip_any(flow) {
                    flow.nw_proto = 0;
                }
                true
            }
            OfAction::Decap(_) => {
                // Behind another header than Ethernet's the type is known after decapsulation only.
                if ethernet {
                    let kind = u32::from(flow.dl_type.get());
                    flow.packet_type.set(packet_type::NS_ETHERTYPE << 16 | kind);
                } else {
                    flow.packet_type.set(PACKET_TYPE_UNKNOWN);
                    flow.dl_type.set(u16::MAX);
                }
                true
            }
            _ => true,
        };
        if !consistent {
            self.protocols &= Protocols::OF10_ANY;
        }
        Ok(())
    }

    /// A range of bits that is read must mean something in the packets that match.
    fn source(&self, sub: &Subfield) -> Result<(), OfpError> {
        match sub.field.match_prereqs_met(&self.flow, self.mask) {
            true => Ok(()),
            false => Err(OfpError::MatchInconsistent),
        }
    }

    /// A range of bits that is written must be writable too.
    fn destination(&self, sub: &Subfield) -> Result<(), OfpError> {
        self.source(sub)?;
        if sub.field.info().writable { Ok(()) } else { Err(OfpError::BadSetArgument) }
    }

    /// The new rule must be consistent in itself.
    fn learn(&self, learn: &Learn) -> Result<(), OfpError> {
        let mut learned = Match::catch_all();
        for spec in &learn.specs {
            if let LearnSrc::Field(src) = &spec.src {
                self.source(src)?;
            }
            let known =
                Checker { flow: learned.flow, mask: &learned.mask, table: None, protocols: Protocols::ANY };
            match &spec.dst {
                LearnDst::Match(dst) => {
                    known.source(dst)?;
                    if let LearnSrc::Immediate(value) = &spec.src {
                        let (old, mask) = learned.get(dst.field);
                        let value = old.deposit(dst.ofs, dst.n_bits, value);
                        learned.set(dst.field, &value, &(mask | dst.bits()));
                    }
                }
                LearnDst::Load(dst) => known.destination(dst)?,
                LearnDst::Output => {}
            }
        }
        Ok(())
    }

    fn ct(&mut self, ct: &OfCt) -> Result<(), OfpError> {
        let flow = &self.flow;
        let bad = !is_ip_any(flow)
            || flow.ct_state & CT_INVALID != 0 && ct.commit
            || ct.alg == ALG_FTP && flow.nw_proto != ip_proto::TCP
            || ct.alg == ALG_TFTP && flow.nw_proto != ip_proto::UDP;
        if bad {
            return Err(OfpError::MatchInconsistent);
        }
        if let CtZone::Field(zone) = &ct.zone {
            self.source(zone)?;
        }
        self.list(&ct.exec)
    }

    fn nat(&self, nat: &OfNat) -> Result<(), OfpError> {
        let kind = dl_type(&self.flow);
        let fits = match &nat.addr {
            None => is_ip_any(&self.flow),
            Some((addr, _)) if addr.is_ipv4() => kind == ethertype::IPV4,
            Some(_) => kind == ethertype::IPV6,
        };
        if fits { Ok(()) } else { Err(OfpError::MatchInconsistent) }
    }
}

fn output_port(port: OfPort) -> Result<(), OfpError> {
    match port {
        OfPort::IN_PORT
        | OfPort::TABLE
        | OfPort::NORMAL
        | OfPort::FLOOD
        | OfPort::ALL
        | OfPort::CONTROLLER
        | OfPort::LOCAL => Ok(()),
        p if p < OfPort::MAX => Ok(()),
        _ => Err(OfpError::BadOutPort),
    }
}
