//! What a packet would meet, told as `ofproto/trace` tells it.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif-trace.c`.

use std::borrow::Cow;
use std::fmt::Write;

use super::Ofproto;
use crate::action::text::format_actions;
use crate::flow::text::PortNames;
use crate::flow::{Flow, NW_FRAG_ANY, NW_FRAG_LATER};
use crate::openflow::bridge::{Bridge, BridgeId};
use crate::openflow::headers::{dl_type, ethertype, ip_proto, is_ip_any, packet_type};
use crate::openflow::rule_match::Match;
use crate::openflow::text::{Names, match_to_text};
use crate::openflow::xlate::{PortsOf, XlateIn, XlateOut, XlateTrace, translate};
use crate::types::{OfPort, PortNo, TableId, Time};

/// How a trace is told, and what it may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Ports by name.
    pub names: bool,
    /// As if a packet had come: addresses are learned.
    pub side_effects: bool,
}

/// Reasons for the slow path, by bit (OVS `SLOW_PATH_REASONS`).
const SLOW_REASONS: [&str; 7] = [
    "Consists of CFM packets",
    "Consists of BFD packets",
    "Consists of LACP packets",
    "Consists of STP packets",
    "Consists of LLDP packets",
    "Uses action(s) not supported by datapath",
    "Datapath can't match specifically enough",
];

/// Names of datapath ports are those of the bridges' ports.
impl PortNames for Ofproto {
    fn name(&self, port: PortNo) -> Option<Cow<'_, str>> {
        if let Some(name) = self.tunnels.listener_name(port) {
            return Some(Cow::Borrowed(name));
        }
        let (bridge, of_port) = self.port_of_datapath(port)?;
        Some(Cow::Borrowed(&self.bridge(bridge)?.port(of_port)?.name))
    }

    fn port(&self, name: &str) -> Option<PortNo> {
        let of_device = || self.bridges().find_map(|bridge| bridge.port_named(name)?.odp_port);
        self.tunnels.listener_named(name).or_else(of_device)
    }
}

/// Names of OpenFlow ports and tables.
impl Names for Bridge {
    fn port(&self, name: &str) -> Option<OfPort> {
        self.port_named(name).map(|port| port.of_port)
    }

    fn port_name(&self, port: OfPort) -> Option<&str> {
        Bridge::port(self, port).map(|port| port.name.as_str())
    }

    fn table(&self, name: &str) -> Option<TableId> {
        let named = |config: &Option<String>| config.as_deref() == Some(name);
        self.tables().find(|(_, table)| named(&table.config.name)).map(|(id, _)| id)
    }

    fn table_name(&self, table: TableId) -> Option<&str> {
        Bridge::table(self, table)?.config.name.as_deref()
    }
}

impl Ofproto {
    /// Tells what a packet with this key, a datapath port number in it, would meet. Changes nothing, unless side effects
    /// are asked for.
    ///
    /// # Errors
    /// A message, if the packet is at no port of a bridge.
    pub fn trace(&mut self, key: &Flow, options: TraceOptions, now: Time) -> Result<String, String> {
        match self.locate(key) {
            Some((bridge, port)) => Ok(self.trace_at(bridge, port, key, options, now)),
            None if key.recirc_id != 0 => {
                Err(format!("no recirculation data for recirc_id {:#x}", key.recirc_id))
            }
            None => Err(format!("no OpenFlow port for datapath port {}", key.in_port)),
        }
    }

    /// The same for a packet that is at a port of a bridge, whatever `in_port` its key has.
    pub fn trace_at(
        &mut self,
        bridge: BridgeId,
        port: OfPort,
        key: &Flow,
        options: TraceOptions,
        now: Time,
    ) -> String {
        let mut story = XlateTrace::new(options.names);
        let mark = self.recircs.mark();
        let (bridges, tunnels, effects) = self.effects(options.side_effects, true);
        let input = XlateIn {
            bridges,
            tunnels,
            bridge,
            key,
            in_port: port,
            now,
            packet_out: None,
            dont_send: !options.side_effects,
        };
        let out = translate(&input, effects, Some(&mut story));
        self.recircs.undo(mark);
        if options.side_effects {
            self.learn_all(&out.cache, now);
        }
        let names = PortsOf(self.bridge(bridge).filter(|_| options.names));
        let start = Flow { in_port: u32::from(port.0), actset_output: u32::from(OfPort::UNSET.0), ..*key };
        let mut text = format!("Flow: {}\n", flow_text(&start, &names));
        story.render(&mut text);
        text.push_str("\nFinal flow: ");
        if out.flow == start {
            text.push_str("unchanged");
        } else {
            text.push_str(&flow_text(&out.flow, &names));
        }
        let megaflow = Match { flow: start.masked(&out.mask), mask: out.mask, tun_metadata: Vec::new() };
        let datapath_names: Option<&dyn PortNames> = if options.names { Some(self) } else { None };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\nMegaflow: {}\nDatapath actions: {}",
            match_to_text(&megaflow, None, &names),
            format_actions(&out.actions, datapath_names)
        );
        explain(&out, &mut text);
        text
    }
}

fn explain(out: &XlateOut, text: &mut String) {
    if let Some(error) = out.error {
        let _ = write!(text, "\nTranslation failed ({error}), packet is dropped.\n");
    } else if out.slow != 0 {
        text.push_str("\nThis flow is handled by the userspace slow path because it:");
        for (_, why) in SLOW_REASONS.iter().enumerate().filter(|(bit, _)| out.slow >> bit & 1 != 0) {
            let _ = write!(text, "\n  - {why}.");
        }
    }
}

/// A packet's key as OpenFlow sees it (OVS `flow_format()`): all fields that the packet has, and metadata that is not 0.
pub fn flow_text(flow: &Flow, names: &dyn Names) -> String {
    let mut mask = fields_of_packet(flow);
    let all_if = |value: u32| if value == 0 { 0 } else { u32::MAX };
    mask.in_port = all_if(flow.in_port);
    mask.skb_priority = all_if(flow.skb_priority);
    mask.pkt_mark = all_if(flow.pkt_mark);
    mask.recirc_id = all_if(flow.recirc_id);
    mask.dp_hash = all_if(flow.dp_hash);
    mask.ct_mark = all_if(flow.ct_mark);
    mask.ct_state = all_if(flow.ct_state.into()) as u8;
    mask.ct_zone = all_if(flow.ct_zone.into()) as u16;
    mask.ct_label.set(if flow.ct_label.get() == 0 { 0 } else { u128::MAX });
    mask.metadata.set(if flow.metadata.get() == 0 { 0 } else { u64::MAX });
    for (mask, &reg) in mask.regs.iter_mut().zip(&flow.regs) {
        *mask = all_if(reg);
    }
    if flow.ct_nw_proto == 0 {
        mask.ct_nw_proto = 0;
        mask.ct_tp_src.set(0);
        mask.ct_tp_dst.set(0);
        mask.ct_nw_src.set(0);
        mask.ct_nw_dst.set(0);
        mask.ct_ipv6_src = [0; 16];
        mask.ct_ipv6_dst = [0; 16];
    }
    // Only metadata type 1 has context headers.
    if flow.nsh.mdtype != 1 {
        mask.nsh.context = Default::default();
    }
    let fields = Match { flow: flow.masked(&mask), mask, tun_metadata: Vec::new() };
    match_to_text(&fields, None, names)
}

/// The fields that a packet with this key has (OVS `flow_wildcards_init_for_packet()`).
fn fields_of_packet(flow: &Flow) -> Flow {
    let ones = Flow::all_ones();
    let mut mask = Flow { packet_type: ones.packet_type, ..Flow::default() };
    if flow.tunnel.is_set() {
        mask.tunnel = ones.tunnel;
        mask.tunnel.pad = [0; 3];
        mask.tunnel.opts = [0; 256];
        mask.tunnel.opts_len = 0;
        mask.tunnel.opt_map = 0;
    } else if flow.tunnel.tun_id.get() != 0 {
        mask.tunnel.tun_id = ones.tunnel.tun_id;
    }
    if flow.packet_type.get() == packet_type::ETHERNET {
        mask.dl_dst = ones.dl_dst;
        mask.dl_src = ones.dl_src;
        mask.dl_type = ones.dl_type;
        // The first tag that is not there is told too.
        for (mask, vlan) in mask.vlans.iter_mut().zip(&flow.vlans) {
            *mask = ones.vlans[0];
            if vlan.tci.get() == 0 {
                break;
            }
        }
    }
    match dl_type(flow) {
        ethertype::ARP | ethertype::RARP => {
            (mask.nw_src, mask.nw_dst, mask.nw_proto) = (ones.nw_src, ones.nw_dst, u8::MAX);
            (mask.arp_sha, mask.arp_tha) = (ones.arp_sha, ones.arp_tha);
        }
        ethertype::IPV4 => {
            (mask.nw_src, mask.nw_dst) = (ones.nw_src, ones.nw_dst);
            (mask.ct_nw_src, mask.ct_nw_dst) = (ones.ct_nw_src, ones.ct_nw_dst);
        }
        ethertype::IPV6 => ipv6_fields(flow, &mut mask),
        ethertype::NSH => mask.nsh = ones.nsh,
        kind if ethertype::is_mpls(kind) => {
            const BOTTOM: u32 = 0x100;
            for (mask, lse) in mask.mpls_lse.iter_mut().zip(&flow.mpls_lse).take(3) {
                mask.set(u32::MAX);
                if lse.get() & BOTTOM != 0 {
                    break;
                }
            }
        }
        _ => {}
    }
    if is_ip_any(flow) || dl_type(flow) == ethertype::NSH {
        transport_fields(flow, &mut mask);
    }
    mask
}

fn ipv6_fields(flow: &Flow, mask: &mut Flow) {
    (mask.ipv6_src, mask.ipv6_dst) = ([0xff; 16], [0xff; 16]);
    mask.ipv6_label.set(u32::MAX);
    let is_nd =
        flow.nw_proto == ip_proto::ICMPV6 && flow.tp_dst.get() == 0 && matches!(flow.tp_src.get(), 135 | 136);
    if is_nd {
        (mask.arp_sha.0, mask.arp_tha.0, mask.nd_target) = ([0xff; 6], [0xff; 6], [0xff; 16]);
    } else {
        (mask.ct_ipv6_src, mask.ct_ipv6_dst) = ([0xff; 16], [0xff; 16]);
    }
}

fn transport_fields(flow: &Flow, mask: &mut Flow) {
    mask.nw_frag = NW_FRAG_ANY | NW_FRAG_LATER;
    (mask.nw_tos, mask.nw_ttl, mask.nw_proto, mask.ct_nw_proto) = (u8::MAX, u8::MAX, u8::MAX, u8::MAX);
    mask.ct_tp_src.set(u16::MAX);
    mask.ct_tp_dst.set(u16::MAX);
    if flow.nw_frag & NW_FRAG_LATER != 0 {
        return;
    }
    let has_ports =
        [ip_proto::ICMP, ip_proto::ICMPV6, ip_proto::TCP, ip_proto::UDP, ip_proto::SCTP, ip_proto::IGMP];
    if has_ports.contains(&flow.nw_proto) {
        mask.tp_src.set(u16::MAX);
        mask.tp_dst.set(u16::MAX);
    }
    match flow.nw_proto {
        ip_proto::TCP => mask.tcp_flags.set(u16::MAX),
        ip_proto::IGMP => mask.igmp_group_ip4.set(u32::MAX),
        _ => {}
    }
}
