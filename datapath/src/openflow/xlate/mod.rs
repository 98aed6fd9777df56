//! Translation of a miss: what the rules of a bridge make of a packet, as datapath actions, and which bits of the
//! packet that depends on, as the mask of a megaflow.
//!
//! Reads bridges; changes only what [`ctx::Effects`] lets it. Never touches packets. Counterpart: OVS
//! `ofproto/ofproto-dpif-xlate.c`, which it follows step by step: masks and the order of actions depend on it.

mod actions;
mod commit;
mod conntrack;
mod controller;
mod ctx;
mod encap;
mod freeze;
mod group;
mod hash;
mod learn;
mod mirror;
mod mpls;
mod multicast;
mod multipath;
mod normal;
mod output;
mod set;
mod table;
mod text;
mod trace;
mod tunnel;
mod vlan;
mod wildcards;

use std::net::Ipv6Addr;
use std::sync::Arc;

use thiserror::Error;

pub(crate) use ctx::{Bridges, Effects};
pub(crate) use text::PortsOf;
pub(crate) use trace::Fork;
pub use trace::{NodeKind, XlateTrace};
pub(crate) use wildcards::{clear_non_packet_fields, require_no_vlan};

use self::ctx::{ActionList, Ctx, Freezing, encoded_len};
use super::action::OfAction;
use super::bridge::BridgeId;
use super::classifier::RuleId;
use super::flow_mod::FlowMod;
use super::mac_learning::MacSource;
use super::tunnel::request::NeighborRequest;
use super::tunnel::{Tunnels, destination, process_ecn};
use crate::action::Action;
use crate::flow::{Flow, TNL_F_UDPIF};
use crate::packet::Packet;
use crate::types::{OfPort, RecircId, TableId, Time};

/// The slow path's reason "an action that the datapath does not have" (OVS `SLOW_ACTION`).
pub const SLOW_ACTION: u32 = commit::SLOW_ACTION;
/// More outputs than this go through the slow path (default of Linux's `net.core.netdev_max_backlog`, by which OVS goes).
const MAX_OUTPUTS: usize = 1000;

/// Why a translation failed. The packet is dropped, as are those that the megaflow matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum XlateError {
    /// The bridge is gone.
    #[error("Bridge not found")]
    BridgeNotFound,
    /// Too many nested resubmits.
    #[error("Recursion too deep")]
    RecursionTooDeep,
    /// Too many resubmits.
    #[error("Too many resubmits")]
    TooManyResubmits,
    /// The stack is too big.
    #[error("Stack too deep")]
    StackTooDeep,
    /// Nothing is known about a recirculation id.
    #[error("No recirculation context")]
    NoRecirculationContext,
    /// Actions were given, and the frozen translation has its own.
    #[error("Recirculation conflict")]
    RecirculationConflict,
    /// More label stack entries than a key holds.
    #[error("Too many MPLS labels")]
    TooManyMplsLabels,
    /// GENEVE options that are malformed, or must be understood and are not known.
    #[error("Invalid tunnel metadata")]
    InvalidTunnelMetadata,
    /// A header cannot be put in front of such a packet, or is not there to be taken off.
    #[error("Unsupported packet type")]
    UnsupportedPacketType,
    /// The underlay was congested, and the sender cannot be told.
    #[error("Congestion drop")]
    Congestion,
}

impl XlateError {
    /// OVS's number for it (`enum xlate_error`), which the `drop` action carries.
    pub const fn code(self) -> u32 {
        match self {
            Self::BridgeNotFound => 1,
            Self::RecursionTooDeep => 2,
            Self::TooManyResubmits => 3,
            Self::StackTooDeep => 4,
            Self::NoRecirculationContext => 5,
            Self::RecirculationConflict => 6,
            Self::TooManyMplsLabels => 7,
            Self::InvalidTunnelMetadata => 8,
            Self::UnsupportedPacketType => 9,
            Self::Congestion => 10,
        }
    }
}

/// Something that packets of a datapath flow are to be credited to, or refresh.
#[derive(Clone, Debug, PartialEq)]
pub enum Cached {
    /// A rule.
    Rule {
        /// Bridge.
        bridge: BridgeId,
        /// Rule.
        rule: RuleId,
    },
    /// A search of a table.
    Table {
        /// Bridge.
        bridge: BridgeId,
        /// Table.
        table: TableId,
        /// Whether a rule matched.
        matched: bool,
    },
    /// A group.
    Group {
        /// Bridge.
        bridge: BridgeId,
        /// Group.
        group: u32,
        /// Bucket that was chosen, if only one is.
        bucket: Option<u32>,
    },
    /// A learned address.
    Mac {
        /// Bridge.
        bridge: BridgeId,
        /// The packets' source.
        source: MacSource,
    },
    /// A rule whose timeouts shrink at the end of a TCP connection.
    FinTimeout {
        /// Bridge.
        bridge: BridgeId,
        /// Rule.
        rule: RuleId,
        /// Idle timeout, seconds; 0 leaves it.
        idle: u16,
        /// Hard timeout, seconds; 0 leaves it.
        hard: u16,
    },
    /// A rule that packets make and keep alive.
    Learn {
        /// Bridge.
        bridge: BridgeId,
        /// What adds it.
        change: Arc<FlowMod>,
        /// Most rules with its table and cookie; 0 is no limit.
        limit: u32,
    },
    /// A neighbour in the underlay, to which packets are sent.
    Neighbor {
        /// Name of the bridge.
        bridge: String,
        /// Address, IPv4 mapped.
        address: Ipv6Addr,
    },
    /// A tunnel port.
    TunnelPort {
        /// Which.
        port: (BridgeId, OfPort),
        /// Whether it sends the packets, or received them.
        sent: bool,
    },
    /// From here on, or up to here, packets have outer headers.
    TunnelHeader {
        /// Bytes of these.
        size: u32,
        /// Whether from here on.
        added: bool,
    },
    /// A mirror that got a copy.
    Mirror {
        /// Bridge.
        bridge: BridgeId,
        /// Name.
        name: String,
    },
    /// A pair of patch ports.
    Patch {
        /// Where it leaves.
        from: (BridgeId, OfPort),
        /// Where it comes in.
        to: (BridgeId, OfPort),
    },
}

/// What is to be translated.
pub(crate) struct XlateIn<'a> {
    pub(crate) bridges: &'a Bridges,
    pub(crate) tunnels: &'a Tunnels,
    pub(crate) bridge: BridgeId,
    /// Key, with a datapath port number or whatever else in `in_port`.
    pub(crate) key: &'a Flow,
    /// The packet, if there is one.
    pub(crate) packet: Option<&'a Packet>,
    pub(crate) in_port: OfPort,
    pub(crate) now: Time,
    /// Carried out in place of those of a rule.
    pub(crate) actions: Option<&'a [OfAction]>,
    /// Whether a controller sends the packet.
    pub(crate) packet_out: bool,
    /// Whether messages to controllers are only shown.
    pub(crate) dont_send: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct XlateOut {
    /// Datapath actions.
    pub actions: Vec<Action>,
    /// Mask of the megaflow, with an OpenFlow port in it.
    pub mask: Flow,
    /// The packet as it was at the end.
    pub flow: Flow,
    /// Reasons for the slow path (OVS `enum slow_path_reason`); 0 for none.
    pub slow: u32,
    /// Recirculation ids in the actions.
    pub recircs: Vec<RecircId>,
    /// What packets of the flow are to be credited to.
    pub cache: Vec<Cached>,
    /// Whether this must not become a datapath flow, or stay one.
    pub avoid_caching: bool,
    /// Neighbours to ask for.
    pub requests: Vec<NeighborRequest>,
    /// Why it failed.
    pub error: Option<XlateError>,
}

/// Translates.
pub(crate) fn translate(
    input: &XlateIn<'_>,
    effects: Effects<'_>,
    trace: Option<&mut XlateTrace>,
) -> XlateOut {
    let mut flow = *input.key;
    flow.in_port = u32::from(input.in_port.0);
    flow.actset_output = u32::from(OfPort::UNSET.0);
    let wc = wildcards::initial(&flow);
    let Some(bridge) = input.bridges.get(&input.bridge) else {
        let error = XlateError::BridgeNotFound;
        return XlateOut {
            actions: vec![Action::Drop(error.code())],
            mask: wc,
            flow,
            slow: 0,
            recircs: Vec::new(),
            cache: Vec::new(),
            avoid_caching: false,
            requests: Vec::new(),
            error: Some(error),
        };
    };
    // The datapath forgets the tunnel that a packet came by.
    let base = Flow { tunnel: Flow::default().tunnel, ..flow };
    let mut ctx = Ctx {
        bridges: input.bridges,
        tunnels: input.tunnels,
        received_by: destination(&flow.tunnel),
        requests: Vec::new(),
        truncating: false,
        mirrored: 0,
        snaplen: 0,
        outside: 0,
        effects,
        packet: input.packet,
        trace,
        now: input.now,
        bridge,
        flow,
        base,
        wc,
        actions: Vec::new(),
        stack: Vec::new(),
        stack_bytes: 0,
        rule: None,
        rule_cookie: u64::MAX,
        table: TableId(0),
        conjunctive: Vec::new(),
        depth: 0,
        resubmits: 0,
        in_action_set: false,
        in_packet_out: input.packet_out,
        dont_send: input.dont_send,
        orig_skb_priority: flow.skb_priority,
        exit: false,
        freezing: Freezing::default(),
        freeze_after: false,
        was_mpls: false,
        pending: encap::Pending::Nothing,
        conntracked: false,
        resumed: false,
        nat: None,
        received_on: None,
        action_set: Vec::new(),
        action_set_has_group: false,
        slow: 0,
        recircs: Vec::new(),
        cache: Vec::new(),
        avoid_caching: false,
        error: None,
    };
    ctx.run(input);
    ctx.finish(input.key)
}

impl Ctx<'_, '_> {
    fn run(&mut self, input: &XlateIn<'_>) {
        let arrival = self.bridge;
        self.report(NodeKind::Bridge, |ctx| format!("bridge(\"{}\")", ctx.bridge.name));
        self.descend();
        let frozen = if input.key.recirc_id != 0 {
            match self.thaw(input.key.recirc_id, input.actions.is_some()) {
                Some(state) => {
                    self.resumed = true;
                    Some(state)
                }
                None => return,
            }
        } else {
            const TRACKED: u8 = 1 << 5;
            self.conntracked = self.flow.ct_state & TRACKED != 0;
            None
        };
        if self.flow.tunnel.flags & TNL_F_UDPIF != 0 {
            match self.bridge.tun_table.from_geneve(&self.flow.tunnel) {
                Some(mapped) => self.flow.tunnel = mapped,
                None => {
                    self.say(NodeKind::Error, "Invalid Geneve tunnel metadata");
                    self.error = Some(XlateError::InvalidTunnelMetadata);
                    return;
                }
            }
        }
        // Not the port in the key, which a frozen state may have changed: the one that the packet is at.
        let proximate = arrival.port(OfPort(self.base.in_port as u16));
        if let Some(port) = proximate.filter(|port| port.peer.is_none()) {
            self.received_on = Some((arrival.id, port.of_port));
        }
        if let Some(port) = proximate {
            self.add_ethernet_from(port);
        }
        let list = match (&frozen, input.actions) {
            (Some(state), _) if !state.actions.is_empty() => ActionList::Frozen(&state.actions),
            (_, Some(actions)) => ActionList::Plain(actions),
            _ => {
                let in_port = self.in_port();
                let rule = self.find_rule(self.table, in_port, true, true);
                self.note_rule(rule);
                self.report_table(rule, self.table);
                self.rule = Some(rule);
                self.rule_cookie = rule.cookie;
                ActionList::Plain(&rule.actions)
            }
        };
        if let Some(port) = proximate.filter(|_| !self.resumed)
            && self.tunnels.config(arrival.id, port.of_port).is_some()
        {
            self.cache.push(Cached::TunnelPort { port: (arrival.id, port.of_port), sent: false });
        }
        let reserved = proximate.and_then(|port| arrival.bundle(port.bundle));
        if reserved.is_some_and(|bundle| arrival.is_mirror_output(bundle)) {
            self.report(NodeKind::Error, |_| {
                let name = reserved.map_or("", |bundle| bundle.name.as_str());
                format!(
                    "dropping packet received on port {name}, which is reserved exclusively for mirroring"
                )
            });
            return;
        }
        if process_ecn(&mut self.flow).is_err() {
            self.error = Some(XlateError::Congestion);
            return;
        }
        if proximate.is_some_and(|port| !self.may_receive(port)) {
            return;
        }
        self.mirror_arrival();
        self.do_actions(list, true, false);
        if self.error.is_some() {
            return;
        }
        self.finish_pipeline();
    }

    /// Carries out the action set, unless the translation is to go on later; then prepares that.
    fn finish_pipeline(&mut self) {
        if !self.freezing.on {
            self.run_action_set();
        }
        if self.freezing.on {
            self.finish_freezing();
        }
    }

    fn finish(mut self, key: &Flow) -> XlateOut {
        if let Some(error) = self.error {
            // As in OVS the mask stays as it is; a trace shows it.
            self.slow = 0;
            self.actions = vec![Action::Drop(error.code())];
        } else {
            let outputs = self.actions.iter().filter(|action| matches!(action, Action::Output(_)));
            if encoded_len(&self.actions) > usize::from(u16::MAX) || outputs.count() > MAX_OUTPUTS {
                self.needs_slow_path();
            }
            self.finish_tunnel_mask(key);
            wildcards::finish(&mut self.wc, &self.flow, key);
            self.tweak_actions();
        }
        XlateOut {
            actions: self.actions,
            mask: self.wc,
            flow: self.flow,
            slow: self.slow,
            recircs: self.recircs,
            cache: self.cache,
            avoid_caching: self.avoid_caching,
            requests: self.requests,
            error: self.error,
        }
    }

    /// Makes the mask of option fields one of options as the datapath has them. A packet without options has none to match,
    /// whatever actions looked at.
    fn finish_tunnel_mask(&mut self, key: &Flow) {
        let mapped = self.wc.tunnel;
        let mask = &mut self.wc.tunnel;
        (mask.opts, mask.opt_map) = ([0; 256], 0);
        if key.tunnel.flags & TNL_F_UDPIF != 0 {
            if mapped.opt_map != 0 {
                mask.opts = self.bridge.tun_table.mask_to_geneve(&mapped, &key.tunnel);
            }
            mask.opts_len = u8::MAX;
            mask.flags |= TNL_F_UDPIF;
        }
    }

    /// Says explicitly that nothing is done, and spares a copy that nothing follows.
    fn tweak_actions(&mut self) {
        match self.actions.pop() {
            None => self.actions.push(Action::Drop(0)),
            Some(Action::Clone(nested)) => self.actions.extend(nested),
            Some(last) => self.actions.push(last),
        }
    }
}
