//! Fields and the stack.

use super::ctx::Ctx;
use super::trace::NodeKind;
use super::{XlateError, mpls};
use crate::openflow::action::SetField;
use crate::openflow::bridge::rule::reason;
use crate::openflow::field::{Field, Subfield};
use crate::openflow::headers::{ethertype, is_ip_any};
use crate::openflow::recirc::StackItem;

/// Whether a field is one of a tunnel. Those need no bit in the mask when they are written: the datapath's action
/// replaces all of them.
pub(super) fn is_tunnel_field(field: Field) -> bool {
    matches!(
        field,
        Field::TunId
            | Field::TunSrc
            | Field::TunDst
            | Field::TunIpv6Src
            | Field::TunIpv6Dst
            | Field::TunFlags
            | Field::TunTtl
            | Field::TunTos
            | Field::TunGbpId
            | Field::TunGbpFlags
            | Field::TunErspanIdx
            | Field::TunErspanVer
            | Field::TunErspanDir
            | Field::TunErspanHwid
            | Field::TunGtpuFlags
            | Field::TunGtpuMsgtype
            | Field::TunMetadata(_)
    )
}

impl Ctx<'_, '_> {
    /// `set_field`, `load`.
    pub(super) fn set_field(&mut self, set: &SetField) {
        let field = set.field;
        if !field.prereqs_met(&self.flow, Some(&mut self.wc)) {
            self.report(NodeKind::Warn, |_| format!("unmet prerequisites for {field}, set_field ignored"));
            return;
        }
        self.mark_network_header(field);
        if !is_tunnel_field(field) {
            field.add_to_mask(&mut self.wc, &set.mask);
        }
        self.bridge.tun_table.set_field(field, &mut self.flow, &set.value, &set.mask);
    }

    /// Writing into a network header depends on there being one (OVS `mf_set_mask_l3_prereqs()`).
    fn mark_network_header(&mut self, field: Field) {
        let of_ip = matches!(
            field,
            Field::IpSrc
                | Field::IpDst
                | Field::Ipv6Src
                | Field::Ipv6Dst
                | Field::Ipv6Label
                | Field::NwTos
                | Field::NwEcn
                | Field::NwTtl
        );
        let of_arp =
            matches!(field, Field::ArpOp | Field::ArpSha | Field::ArpTha | Field::ArpSpa | Field::ArpTpa);
        let is_ip = is_ip_any(&self.flow);
        let is_arp = self.flow.dl_type.get() == ethertype::ARP;
        if of_ip && is_ip || of_arp && is_arp {
            self.wc.nw_proto = u8::MAX;
        }
    }

    /// `move`.
    pub(super) fn move_bits(&mut self, src: &Subfield, dst: &Subfield) {
        let met = dst.field.prereqs_met(&self.flow, Some(&mut self.wc))
            && src.field.prereqs_met(&self.flow, Some(&mut self.wc));
        if met {
            let options = &self.bridge.tun_table;
            options.mark(src, &mut self.wc);
            if !is_tunnel_field(dst.field) {
                dst.add_to_mask(&mut self.wc);
            }
            let value = options.read(src, &self.flow);
            options.write(dst, &mut self.flow, &value);
        }
        self.report_subfield(dst);
    }

    /// `push`.
    pub(super) fn push(&mut self, field: &Subfield) {
        let options = &self.bridge.tun_table;
        options.mark(field, &mut self.wc);
        let n_bytes = field.n_bits.div_ceil(8) as u8;
        self.stack.push(StackItem { value: options.read(field, &self.flow), n_bytes });
        self.stack_bytes += usize::from(n_bytes) + 1;
    }

    /// `pop`.
    pub(super) fn pop(&mut self, field: &Subfield) {
        let Some(item) = self.stack.pop() else {
            self.say(NodeKind::Error, "stack underflow");
            return;
        };
        self.stack_bytes -= usize::from(item.n_bytes) + 1;
        if !is_tunnel_field(field.field) {
            field.add_to_mask(&mut self.wc);
        }
        self.bridge.tun_table.write(field, &mut self.flow, &item.value);
        self.report_subfield(field);
    }

    pub(super) fn report_subfield(&mut self, field: &Subfield) {
        self.report(NodeKind::Detail, |ctx| {
            super::text::subfield_value(field, &ctx.flow, &ctx.bridge.tun_table)
        });
    }

    /// `delete_field`: takes an option out of the outer header.
    pub(super) fn delete_field(&mut self, field: Field) {
        if let Field::TunMetadata(index) = field {
            self.flow.tunnel.opt_map &= !(1 << index);
        }
    }

    /// `dec_ttl`. Returns whether the list of actions ends here.
    pub(super) fn dec_ttl(&mut self, controllers: &[u16]) -> bool {
        if !is_ip_any(&self.flow) {
            return false;
        }
        if self.flow.nw_ttl > 1 {
            self.flow.nw_ttl -= 1;
            return false;
        }
        for &controller in controllers {
            self.send_to_controller(u16::MAX, reason::INVALID_TTL, controller, &[]);
        }
        let version = if self.flow.dl_type.get() == ethertype::IPV4 { 4 } else { 6 };
        self.report(NodeKind::Warn, |_| format!("IPv{version} decrement TTL exception"));
        true
    }

    /// `dec_mpls_ttl`. Returns whether the list of actions ends here.
    pub(super) fn dec_mpls_ttl(&mut self) -> bool {
        if ethertype::is_mpls(self.flow.dl_type.get()) {
            let mark = self.wc.mpls_lse[0].get() | mpls::TTL_MASK;
            self.wc.mpls_lse[0].set(mark);
            let ttl = self.flow.mpls_lse[0].get() & mpls::TTL_MASK;
            if ttl > 1 {
                mpls::set_bits(&mut self.flow, mpls::TTL_MASK, ttl - 1);
                return false;
            }
            self.send_to_controller(u16::MAX, reason::INVALID_TTL, 0, &[]);
        }
        self.say(NodeKind::Warn, "MPLS decrement TTL exception");
        true
    }

    /// Whether nothing went wrong so far that only the packet at hand is to blame for.
    pub(super) fn forgive_packet_errors(&mut self) {
        match self.error {
            Some(XlateError::TooManyMplsLabels) => self.error = None,
            Some(
                XlateError::BridgeNotFound
                | XlateError::RecursionTooDeep
                | XlateError::TooManyResubmits
                | XlateError::StackTooDeep
                | XlateError::NoRecirculationContext
                | XlateError::RecirculationConflict
                | XlateError::InvalidTunnelMetadata
                | XlateError::UnsupportedPacketType
                | XlateError::Congestion,
            )
            | None => {}
        }
    }
}
