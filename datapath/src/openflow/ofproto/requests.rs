//! Packets that translation makes: requests for addresses of neighbours.
//!
//! Counterpart: `compose_table_xlate()` of OVS `ofproto/ofproto-dpif-xlate.c`.

use super::Ofproto;
use super::flows::Credit;
use crate::flow::Flow;
use crate::openflow::OfAction;
use crate::openflow::tunnel::request::NeighborRequest;
use crate::openflow::xlate::{XlateIn, translate};
use crate::packet::Packet;
use crate::pipeline::Injection;
use crate::types::{OfPort, PortNo, Time};

/// How often the request for a neighbour may need another neighbour first.
const MAX_NESTING: u8 = 8;

impl Ofproto {
    /// Sends requests into the tables of the bridges whose ports ask, and keeps what comes of that for the datapath.
    pub(super) fn send_requests(&mut self, requests: Vec<NeighborRequest>, now: Time) {
        let mut level = requests;
        for _ in 0..MAX_NESTING {
            let mut next = Vec::new();
            for request in level {
                next.extend(self.send_request(request, now));
            }
            if next.is_empty() {
                return;
            }
            level = next;
        }
    }

    fn send_request(&mut self, request: NeighborRequest, now: Time) -> Vec<NeighborRequest> {
        let NeighborRequest { bridge, port, frame } = request;
        let odp_port = self.bridge(bridge).and_then(|bridge| bridge.port(port)?.odp_port);
        let in_port = odp_port.unwrap_or(PortNo::NONE);
        let mut packet = Packet::from_frame(&frame);
        packet.md.init(in_port);
        let key = Flow::of_packet(&mut packet);
        let (bridges, tunnels, effects) = self.effects(true, false);
        let actions = [OfAction::Output { port: OfPort::TABLE, max_len: 0 }];
        let input = XlateIn {
            bridges,
            tunnels,
            bridge,
            key: &key,
            packet: Some(&packet),
            in_port: port,
            now,
            actions: Some(&actions),
            packet_out: true,
            dont_send: false,
        };
        let out = translate(&input, effects, None);
        self.learn_all(&out.cache, now);
        let credit = Credit { packets: 1, bytes: frame.len() as u64, used: now, tcp_flags: 0 };
        self.credit_all(&out.cache, &credit, true, now);
        out.recircs.iter().for_each(|&id| self.recircs.release(id, now));
        self.outbox.push(Injection { frame, in_port, actions: out.actions.into() });
        out.requests
    }

    /// Takes what translation made since the last call; the datapath is to carry it out.
    pub fn take_injections(&mut self) -> Vec<Injection> {
        std::mem::take(&mut self.outbox)
    }
}
