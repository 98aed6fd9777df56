//! What a packet would meet, told as `ofproto/trace` tells it.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif-trace.c`.

use std::borrow::Cow;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Ofproto, flow_text};
use crate::action::text::format_actions;
use crate::action::{Action, Actions};
use crate::flow::Flow;
use crate::flow::text::PortNames;
use crate::openflow::action::{OfAction, OfNat, OfNatKind};
use crate::openflow::bridge::{Bridge, BridgeId};
use crate::openflow::rule_match::Match;
use crate::openflow::text::{Names, conntrack_state_text, match_to_text};
use crate::openflow::xlate::{Fork, PortsOf, XlateIn, XlateOut, XlateTrace, translate};
use crate::packet::Packet;
use crate::types::{OfPort, PortNo, RecircId, TableId, Time};

/// Packets that come back from the connection tracker and are followed, at most.
const MAX_RECIRCULATIONS: usize = 4096;
/// Connection state of a packet that comes back from the tracker, unless told: tracked and new.
const DEFAULT_CT_STATE: u8 = 1 << 5 | 1;

/// What to trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceInput<'a> {
    /// The packet's key, with a datapath port in it.
    pub key: &'a Flow,
    /// Where the packet is; `None`: where its key says.
    pub at: Option<(BridgeId, OfPort)>,
    /// Ports by name.
    pub names: bool,
    /// The packet, if there is not a key only: addresses are learned, rules made, as if it had come.
    pub packet: Option<&'a Packet>,
    /// Carried out in place of those of a rule.
    pub actions: Option<&'a [OfAction]>,
    /// Connection states with which packets come back from the tracker, in order.
    pub ct_next: &'a [u8],
}

impl<'a> TraceInput<'a> {
    /// A trace of a key, without side effects, that tells ports by number.
    pub const fn of(key: &'a Flow) -> Self {
        Self { key, at: None, names: false, packet: None, actions: None, ct_next: &[] }
    }
}

/// What a trace tells.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The text, as OVS prints it.
    pub text: String,
    /// With side effects: what is to be carried out on the packet, once for each pass.
    pub execute: Vec<Actions>,
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
    /// Tells what a packet would meet. Changes nothing but the next recirculation id, unless side effects are asked for.
    ///
    /// # Errors
    /// A message, if the packet is at no port of a bridge.
    pub fn trace(&mut self, input: &TraceInput<'_>, now: Time) -> Result<Traced, String> {
        let key = input.key;
        let at = match input.at.or_else(|| self.locate(key)) {
            Some(at) => at,
            None if key.recirc_id != 0 => {
                return Err(format!("no recirculation data for recirc_id {:#x}", key.recirc_id));
            }
            None => return Err(format!("no OpenFlow port for datapath port {}", key.in_port)),
        };
        let mut trace = Tracing {
            of: self,
            input,
            now,
            forks: std::collections::VecDeque::new(),
            ids: Vec::new(),
            done: Traced { text: String::new(), execute: Vec::new() },
        };
        trace.run(at);
        let Tracing { ids, done, .. } = trace;
        ids.into_iter().for_each(|id| self.recircs.release(id, now));
        Ok(done)
    }
}

/// A trace under way.
struct Tracing<'a> {
    of: &'a mut Ofproto,
    input: &'a TraceInput<'a>,
    now: Time,
    /// Copies that wait.
    forks: std::collections::VecDeque<Fork>,
    /// Recirculation ids in use by it.
    ids: Vec<RecircId>,
    done: Traced,
}

impl Tracing<'_> {
    fn run(&mut self, at: (BridgeId, OfPort)) {
        self.pass(at, self.input.key);
        let mut ct_next = self.input.ct_next.iter().copied();
        for n in 0.. {
            let Some(mut fork) = self.forks.pop_front() else { return };
            let text = &mut self.done.text;
            if n > MAX_RECIRCULATIONS {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "\n\n{:=<79}\nTrace reached the recirculation limit.  Sopping the trace here.\nQueued but not \
                     processed: {} recirculations.",
                    "",
                    self.forks.len() + 1
                );
                return;
            }
            resume(&mut fork, ct_next.next(), text);
            self.pass((at.0, OfPort(fork.flow.in_port as u16)), &fork.flow);
        }
    }

    /// One way through the tables.
    fn pass(&mut self, (bridge, port): (BridgeId, OfPort), key: &Flow) {
        let TraceInput { names, packet, actions, .. } = *self.input;
        let side_effects = packet.is_some();
        let mut story = XlateTrace::new(names);
        let (bridges, tunnels, effects) = self.of.effects(side_effects, !side_effects);
        let input = XlateIn {
            bridges,
            tunnels,
            bridge,
            key,
            packet,
            in_port: port,
            now: self.now,
            actions,
            packet_out: false,
            dont_send: !side_effects,
        };
        let mut out = translate(&input, effects, Some(&mut story));
        if side_effects {
            self.of.learn_all(&out.cache, self.now);
            self.of.send_requests(std::mem::take(&mut out.requests), self.now);
        }
        self.ids.append(&mut out.recircs);
        self.forks.append(&mut story.forks);
        self.tell(bridge, port, key, &out, &story);
        if side_effects && out.error.is_none() {
            self.done.execute.push(pruned(&out.actions).into());
        }
    }

    fn tell(&mut self, bridge: BridgeId, port: OfPort, key: &Flow, out: &XlateOut, story: &XlateTrace) {
        let names = PortsOf(self.of.bridge(bridge).filter(|_| self.input.names));
        let start = Flow { in_port: u32::from(port.0), actset_output: u32::from(OfPort::UNSET.0), ..*key };
        let text = &mut self.done.text;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Flow: {}", flow_text(&start, &names));
        story.render(text);
        text.push_str("\nFinal flow: ");
        if out.flow == start {
            text.push_str("unchanged");
        } else {
            text.push_str(&flow_text(&out.flow, &names));
        }
        let megaflow = Match { flow: start.masked(&out.mask), mask: out.mask, tun_metadata: Vec::new() };
        let datapath_names: Option<&dyn PortNames> = if self.input.names { Some(&*self.of) } else { None };
        let _ = write!(
            text,
            "\nMegaflow: {}\nDatapath actions: {}",
            match_to_text(&megaflow, None, &names),
            format_actions(&out.actions, datapath_names)
        );
        explain(out, text);
    }
}

/// Tells how a copy comes back from the connection tracker, and makes its key what that assumes.
fn resume(fork: &mut Fork, ct_state: Option<u8>, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\n\n{:=<79}\nrecirc({:#x})", "", fork.flow.recirc_id);
    let _ = match ct_state {
        None => {
            writeln!(text, " - resume conntrack with default ct_state=trk|new (use --ct-next to customize)")
        }
        Some(state) => {
            writeln!(text, " - resume conntrack with ct_state={}", conntrack_state_text(state))
        }
    };
    fork.flow.ct_state = ct_state.unwrap_or(DEFAULT_CT_STATE);
    if let Some(nat) = fork.nat.take() {
        let (flow, family) = (&mut fork.flow, nat.addr.map(|(first, _)| first));
        let _ = writeln!(text, "Replacing src/dst IP/ports to simulate NAT:");
        let _ = writeln!(text, " Initial flow: {}", addresses(flow, family));
        translate_addresses(flow, &nat);
        let _ = writeln!(text, " Modified flow: {}", addresses(flow, family));
    }
    let _ = write!(text, "{:=<79}\n\n", "");
}

/// The first address and port of a range are taken.
fn translate_addresses(flow: &mut Flow, nat: &OfNat) {
    let Some((address, _)) = nat.addr else { return };
    let source = match nat.kind {
        OfNatKind::Existing => return,
        OfNatKind::Src => true,
        OfNatKind::Dst => false,
    };
    match (address, source) {
        (IpAddr::V4(ip), true) => flow.nw_src.set(ip.to_bits()),
        (IpAddr::V4(ip), false) => flow.nw_dst.set(ip.to_bits()),
        (IpAddr::V6(ip), true) => flow.ipv6_src = ip.octets(),
        (IpAddr::V6(ip), false) => flow.ipv6_dst = ip.octets(),
    }
    if let Some((port, _)) = nat.port.filter(|&(port, _)| port != 0) {
        if source { flow.tp_src.set(port) } else { flow.tp_dst.set(port) }
    }
}

/// Addresses and ports, in the family of addresses that are translated; nothing if none are.
fn addresses(flow: &Flow, family: Option<IpAddr>) -> String {
    let (src, dst) = (flow.tp_src.get(), flow.tp_dst.get());
    match family {
        None => String::new(),
        Some(IpAddr::V4(_)) => {
            let ip = |bits: u32| Ipv4Addr::from_bits(bits);
            let (from, to) = (ip(flow.nw_src.get()), ip(flow.nw_dst.get()));
            format!("nw_src={from},tp_src={src},nw_dst={to},tp_dst={dst}")
        }
        Some(IpAddr::V6(_)) => {
            let (from, to) = (Ipv6Addr::from(flow.ipv6_src), Ipv6Addr::from(flow.ipv6_dst));
            format!("ipv6_src=[{from}],tp_src={src},ipv6_dst=[{to}],tp_dst={dst}")
        }
    }
}

/// Actions without what sends the packet or looks it up again: what remains has effects on controllers and connections only.
fn pruned(actions: &[Action]) -> Vec<Action> {
    let kept = actions.iter().filter(|action| !matches!(action, Action::Output(_) | Action::Recirc(_)));
    kept.map(|action| match action {
        Action::Clone(nested) => Action::Clone(pruned(nested).into()),
        other => other.clone(),
    })
    .collect()
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
