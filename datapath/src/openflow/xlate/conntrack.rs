//! `ct`, `ct_clear` and `meter`: what the datapath remembers.
//!
//! Counterpart: `compose_conntrack_action()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use super::ctx::{ActionList, Ctx};
use super::set::is_tunnel_field;
use super::trace::{Fork, NodeKind};
use crate::action::{Action, Ct, Nat, NatKind};
use crate::flow::Flow;
use crate::openflow::action::{CtZone, OfCt, OfNat, OfNatKind};
use crate::openflow::field::Field;
use crate::openflow::text::{ALG_FTP, ALG_TFTP};
use crate::types::TableId;

impl Ctx<'_, '_> {
    /// `ct`.
    pub(super) fn conntrack(&mut self, ct: &OfCt, last: bool) {
        let zone = match &ct.zone {
            CtZone::Number(zone) => zone.0,
            CtZone::Field(field) => {
                // A frozen state has other values of these fields, and another id.
                if !(self.resumed && is_frozen(field.field)) {
                    self.bridge.tun_table.mark(field, &mut self.wc);
                }
                self.bridge.tun_table.read(field, &self.flow).low() as u16
            }
        };
        let (old_label, old_mark) = (self.wc.ct_label, self.wc.ct_mark);
        self.commit();
        self.nat = None;
        self.wc.ct_mark = 0;
        self.wc.ct_label.set(0);
        // These tell what to write by the mask that they leave.
        self.do_actions(ActionList::Plain(&ct.exec), last, false);
        let (mark, label) = (self.wc.ct_mark, self.wc.ct_label.get());
        // As in OVS this wildcards the protocol: packets of one without timeouts may name a policy, and it changes nothing.
        let policy = ct.commit.then(|| self.effects.zones.of(zone, self.flow.nw_proto)).flatten();
        self.actions.push(Action::Ct(Box::new(Ct {
            commit: ct.commit && !ct.force,
            force: ct.commit && ct.force,
            zone,
            mark: (mark != 0).then_some((self.flow.ct_mark & mark, mark)),
            label: (label != 0).then_some((self.flow.ct_label.get() & label, label)),
            helper: match ct.alg {
                ALG_FTP => Some("ftp".to_owned()),
                ALG_TFTP => Some("tftp".to_owned()),
                _ => None,
            },
            timeout: policy.map(|id| id.to_string()),
            nat: self.nat.as_ref().map(nat),
        })));
        (self.wc.ct_label, self.wc.ct_mark) = (old_label, old_mark);
        if let Some(table) = ct.recirc_table {
            self.conntracked = true;
            self.fork(table, zone);
        }
        self.nat = None;
        self.clear_conntrack();
        self.say(
            NodeKind::Detail,
            "Sets the packet to an untracked state, and clears all the conntrack fields.",
        );
    }

    /// A copy of the packet goes on in `table` when its connection is known.
    fn fork(&mut self, table: TableId, zone: u16) {
        self.freezing.on = true;
        let Some(id) = self.freeze_at(table) else { return };
        if let Some(trace) = self.trace.as_deref_mut() {
            let flow = Flow { recirc_id: id.0, ct_zone: zone, ..self.flow };
            trace.forks.push_back(Fork { flow, nat: self.nat.clone() });
        }
        self.report(NodeKind::Detail, |_| {
            format!(
                "A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table {}.",
                table.0
            )
        });
    }

    /// `meter`.
    pub(super) fn meter(&mut self, meter: u32) {
        if let Some(meter) = self.bridge.meters().get(&meter) {
            self.actions.push(Action::Meter(meter.provider));
        }
    }

    /// `ct_clear`.
    pub(super) fn ct_clear(&mut self) {
        if self.conntracked {
            self.clear_conntrack();
            self.actions.push(Action::CtClear);
        }
    }
}

/// Whether a frozen state holds the field (OVS `mf_is_frozen_metadata()`).
fn is_frozen(field: Field) -> bool {
    is_tunnel_field(field)
        || (Field::Metadata..=Field::InPortOxm).contains(&field)
        || (Field::Reg(0)..Field::EthSrc).contains(&field)
}

fn nat(nat: &OfNat) -> Nat {
    let kind = match nat.kind {
        OfNatKind::Existing => NatKind::Existing,
        OfNatKind::Src => NatKind::Src,
        OfNatKind::Dst => NatKind::Dst,
    };
    if kind == NatKind::Existing {
        return Nat::default();
    }
    Nat {
        kind,
        addr: nat.addr.map(|(first, last)| (first, last.unwrap_or(first))),
        port: nat.port.map(|(first, last)| (first, last.unwrap_or(first))),
        persistent: nat.persistent,
        hash: nat.hash,
        random: nat.random && !nat.hash,
    }
}
