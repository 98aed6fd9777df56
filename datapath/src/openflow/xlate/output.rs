//! Output: to a port, to all of them, into another bridge.

use super::Cached;
use super::ctx::Ctx;
use super::hash::sort_by_place;
use super::table::Search;
use super::trace::NodeKind;
use crate::action::Action;
use crate::flow::Tunnel;
use crate::openflow::bridge::rule::reason;
use crate::openflow::bridge::{Bridge, Peer, Port};
use crate::openflow::field::Subfield;
use crate::openflow::headers::{is_stp, packet_type};
use crate::openflow::tunnel::config::PacketMode;
use crate::types::{OfPort, PortNo, TableId};
use zerocopy::FromZeros;

impl<'a> Ctx<'a, '_> {
    /// `output`.
    pub(super) fn output(
        &mut self,
        port: OfPort,
        max_len: u16,
        may_packet_in: bool,
        last: bool,
        in_bucket: bool,
    ) {
        match port {
            OfPort::IN_PORT => self.output_to(self.in_port(), last),
            OfPort::TABLE => self.table_action(Search {
                in_port: self.in_port(),
                table: TableId(0),
                may_packet_in,
                honor_miss: true,
                with_ct_orig: false,
                last: false,
                on_copy: false,
            }),
            OfPort::NORMAL => self.normal(last),
            OfPort::FLOOD => self.flood(false, last),
            OfPort::ALL => self.flood(true, last),
            OfPort::CONTROLLER => {
                let reason = if self.in_packet_out {
                    reason::PACKET_OUT
                } else if in_bucket {
                    reason::GROUP
                } else if self.in_action_set {
                    reason::ACTION_SET
                } else {
                    reason::ACTION
                };
                self.send_to_controller(max_len, reason, 0, &[]);
            }
            OfPort::NONE => {}
            _ if port == self.in_port() => self.say(NodeKind::Warn, "skipping output to input port"),
            _ => self.output_to(port, last),
        }
    }

    /// `output` to the port that a field names.
    pub(super) fn output_reg(&mut self, src: &Subfield, max_len: u16, last: bool, in_bucket: bool) {
        let port = self.bridge.tun_table.read(src, &self.flow).low();
        match u16::try_from(port) {
            Ok(port) => {
                self.report(NodeKind::Detail, |_| format!("output port is {port}"));
                self.bridge.tun_table.mark(src, &mut self.wc);
                self.output(OfPort(port), max_len, false, last, in_bucket);
            }
            Err(_) => self.report(NodeKind::Warn, |_| format!("output port {port} is out of range")),
        }
    }

    /// `output` of the first bytes of the packet.
    pub(super) fn output_trunc(&mut self, port: OfPort, max_len: u32, last: bool, in_bucket: bool) {
        let reserved =
            [OfPort::TABLE, OfPort::NORMAL, OfPort::FLOOD, OfPort::ALL, OfPort::CONTROLLER, OfPort::NONE];
        if reserved.contains(&port) {
            let name = super::text::port(port);
            self.report(NodeKind::Warn, |_| format!("output_trunc does not support port: {name}"));
        } else if port == self.in_port() {
            self.say(NodeKind::Warn, "skipping output to input port");
        } else if self.bridge.port(port).is_none_or(|port| port.odp_port.is_none()) {
            let name = super::text::port(port);
            self.report(NodeKind::Error, |_| format!("output_trunc does not support patch port {name}"));
        } else {
            self.actions.push(Action::Trunc(max_len));
            self.truncating = true;
            self.output(port, 0, false, last, in_bucket);
            self.truncating = false;
        }
    }

    /// `enqueue`.
    pub(super) fn enqueue(&mut self, port: OfPort, queue: u32, last: bool) {
        self.wc.skb_priority = u32::MAX;
        let port = match port {
            OfPort::IN_PORT => self.in_port(),
            port if port == self.in_port() => return,
            port => port,
        };
        let old = std::mem::replace(&mut self.flow.skb_priority, queue);
        self.output_to(port, last);
        self.flow.skb_priority = old;
    }

    /// To all ports but the one it came by; `all`: even those that do not flood.
    fn flood(&mut self, all: bool, last: bool) {
        let in_port = self.in_port();
        let chosen = self
            .bridge
            .ports()
            .filter(|port| port.of_port != in_port && (all || !port.flags.no_flood))
            .map(|port| port.of_port);
        let mut ports: Vec<OfPort> = chosen.collect();
        sort_by_place(&mut ports, self.bridge.ports().count());
        let n = ports.len();
        for (i, port) in ports.into_iter().enumerate() {
            self.output_to(port, last && i + 1 == n);
        }
    }

    /// To a port of this bridge (OVS `compose_output_action()`).
    pub(super) fn output_to(&mut self, port: OfPort, last: bool) {
        let Some(port) = self.bridge.port(port) else {
            self.say(NodeKind::Warn, "Nonexistent output port");
            return;
        };
        if port.flags.no_forward {
            self.say(NodeKind::Detail, "OFPPC_NO_FWD set, skipping output");
        } else if self.snaplen != 0 && port.odp_port.is_none() {
            self.say(NodeKind::Warn, "Mirror truncate to ODPP_NONE, skipping output");
        } else if self.is_between_protected(port) {
            self.say(NodeKind::Warn, "Flow is between protected ports, skipping output.");
        } else if self.flow.packet_type.get() != packet_type::ETHERNET
            && self.packet_mode(port) == PacketMode::LegacyL2
        {
            self.say(
                NodeKind::Warn,
                "Trying to send non-Ethernet packet through legacy L2 port. Dropping packet.",
            );
        } else {
            let own = self.flow.packet_type;
            self.strip_ethernet_for(port);
            self.output_through(port, last);
            self.flow.packet_type = own;
        }
    }

    fn output_through(&mut self, port: &'a Port, last: bool) {
        if let Some(peer) = &port.peer {
            self.output_to_peer(port, peer, last);
        } else if let Some(odp_port) = port.odp_port {
            let sent = match self.tunnels.config(self.bridge.id, port.of_port) {
                Some(config) => self.output_to_tunnel(port, config, odp_port, last),
                None => {
                    self.output_to_device(port, odp_port);
                    true
                }
            };
            if sent {
                self.mirror_departure(port);
            }
        }
    }

    fn output_to_device(&mut self, port: &Port, odp_port: PortNo) {
        self.commit();
        let action = match self.terminate_tunnel(port) {
            Some(tunnel) => Action::TnlPop(tunnel),
            None => {
                if self.snaplen > 0 && self.snaplen < u16::MAX {
                    self.actions.push(Action::Trunc(self.snaplen.into()));
                }
                Action::Output(odp_port)
            }
        };
        self.actions.push(action);
    }

    fn is_between_protected(&self, out: &Port) -> bool {
        let protected =
            |bundle: Option<&crate::openflow::bridge::Bundle>| bundle.is_some_and(|b| b.protected);
        protected(self.in_bundle()) && protected(self.bridge.bundle(out.bundle))
    }

    /// Whether packets that come in by `port` are looked at.
    pub(super) fn may_receive(&self, port: &Port) -> bool {
        if is_stp(&self.flow) { !port.flags.no_receive_stp } else { !port.flags.no_receive }
    }

    /// Through a patch port: the other bridge works on a copy.
    fn output_to_peer(&mut self, from: &Port, peer: &Peer, last: bool) {
        let Some(bridge) = self.bridges.get(&peer.bridge) else { return };
        let Some(to) = bridge.port(peer.port) else { return };
        self.enter_bridge(from, bridge, to, last);
    }

    /// Goes on with a copy of the packet in another bridge, where it comes in by `to`.
    pub(super) fn enter_bridge(&mut self, from: &Port, bridge: &'a Bridge, to: &Port, last: bool) {
        let (old_bridge, old_was_mpls, old_conntracked) = (self.bridge, self.was_mpls, self.conntracked);
        let retained = self.retain();
        let tunnel_mask = self.wc.tunnel;
        self.flow.in_port = u32::from(to.of_port.0);
        self.flow.metadata.set(0);
        self.flow.tunnel = Tunnel::new_zeroed();
        self.wc.tunnel = Tunnel::new_zeroed();
        self.flow.regs = [0; 32];
        self.flow.actset_output = u32::from(OfPort::UNSET.0);
        self.clear_conntrack();
        let place = self.place();
        self.report(NodeKind::Bridge, |_| format!("bridge(\"{}\")", bridge.name));
        self.descend();
        let mirrored = self.mirrored;
        if bridge.id != old_bridge.id {
            self.mirrored = 0;
        }
        self.bridge = bridge;
        if self.may_receive(to) {
            self.table_action(Search {
                in_port: to.of_port,
                table: TableId(0),
                may_packet_in: true,
                honor_miss: true,
                with_ct_orig: false,
                last,
                on_copy: true,
            });
            if !self.freezing.on {
                self.run_action_set();
            }
            if self.freezing.on {
                self.finish_freezing();
            }
        }
        self.go_back(place);
        if bridge.id != old_bridge.id {
            self.mirrored = mirrored;
        }
        self.bridge = old_bridge;
        self.wc.tunnel = tunnel_mask;
        self.restore(retained);
        self.was_mpls = old_was_mpls;
        self.conntracked = old_conntracked;
        // What ends there does not end here.
        self.exit = false;
        self.error = None;
        if self.outside > 0 && from.peer.is_none() {
            return;
        }
        self.cache.push(Cached::Patch { from: (old_bridge.id, from.of_port), to: (bridge.id, to.of_port) });
    }
}
