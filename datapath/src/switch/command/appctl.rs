//! `ovs-appctl` and `ovs-dpctl`: packets, learned addresses; traces are in `trace`, flows and counters are in `appctl_dp`.

use super::super::Switch;
use super::{CommandError, refused};
use crate::flow::text::parse_key;
use crate::flow::{Payload, compose, compose_len};
use crate::openflow::command::appctl::{Appctl, Verb};
use crate::openflow::command::{Word, hex};
use crate::packet::{Batch, Packet};
use crate::trace::Off;
use crate::types::Time;

impl Switch {
    pub(super) fn appctl(&mut self, call: &Appctl, now: Time) -> Result<String, CommandError> {
        match &call.verb {
            Verb::Nothing(text) => Ok((*text).to_owned()),
            Verb::Receive { port, packets } => self.dummy_receive(port, packets, now),
            Verb::SetAdminState { port, state } => self.set_admin_state(port.as_ref(), &state.text),
            Verb::Trace(call) => self.trace_text(call, now),
            Verb::FdbShow(bridge) => self.fdb_show(bridge, now),
            Verb::FdbFlush(bridge) => self.fdb_flush(bridge.as_ref(), now),
            Verb::FdbStatsShow(bridge) => self.fdb_stats_show(bridge.as_ref(), now),
            Verb::FdbStatsClear(bridge) => self.fdb_stats_clear(bridge.as_ref()),
            Verb::FdbAdd { bridge, port, vlan, mac } => self.fdb_add((bridge, port), (vlan, mac), now),
            Verb::FdbDel { bridge, vlan, mac } => self.fdb_del(bridge, vlan, mac),
            Verb::MdbShow(bridge) => self.mdb_show(bridge, now),
            Verb::MdbFlush(bridge) => self.mdb_flush(bridge.as_ref()),
            Verb::RevalidatorWait => {
                self.settle(now, &mut Off);
                Ok(String::new())
            }
            Verb::RevalidatorPurge => {
                self.flush_flows(now);
                Ok(String::new())
            }
            Verb::WhyDeleted { last } => self.why_deleted(last.as_ref()),
            Verb::OfprotoList => {
                Ok(self.ofproto().bridges().map(|bridge| format!("{}\n", bridge.name)).collect())
            }
            Verb::Conntrack { command, words } => self.conntrack_command(command, words, now),
            Verb::Tunnel { command, words } => self.tunnel_command(command, words, now),
            Verb::DumpFlows { .. }
            | Verb::PutFlow { .. }
            | Verb::DelFlow { .. }
            | Verb::GetFlow(_)
            | Verb::DelFlows
            | Verb::PmdStatsShow
            | Verb::DumpDps => self.appctl_datapath(call, now),
            Verb::DpifShow => Ok(self.dpif_show()),
            Verb::BridgeDumpFlows(bridge) => self.bridge_rules(bridge, now),
            Verb::DpShow { statistics } => Ok(self.datapath_show(*statistics)),
            Verb::SetFlowLimit(limit) => self.set_flow_limit(limit, now),
            Verb::CoverageRead(counter) => self.coverage(&counter.text, now),
            Verb::PmdStatsClear | Verb::UpcallShow | Verb::Version => {
                Err(refused(format!("ovs-appctl: {} is not supported here", call.name.text)))
            }
        }
    }

    /// The last changes and ends of datapath flows, newest first.
    fn why_deleted(&self, last: Option<&Word>) -> Result<String, CommandError> {
        let count = match last {
            Some(word) => word.text.parse().map_err(|_| refused(format!("{} is not a number", word.text)))?,
            None => usize::MAX,
        };
        let mut text = String::new();
        for event in self.flow_life().events().rev().take(count) {
            let at = event.at.0;
            text += &format!("{}.{:03}s ", at / 1_000_000_000, at / 1_000_000 % 1000);
            text += &format!("{}\n  {}\n", self.fate_text(event), self.past_flow_text(event));
            if let Some(after) = self.after_text(event) {
                text += &format!("  now: {after}\n");
            }
        }
        Ok(text)
    }

    /// `coverage/read-counter`, of the counters that are kept here.
    fn coverage(&mut self, counter: &str, now: Time) -> Result<String, CommandError> {
        self.credit(now);
        let count = self.ofproto().coverage(counter);
        let count = count.ok_or_else(|| refused(format!("coverage counter {counter} is not kept here")))?;
        Ok(format!("{count}\n"))
    }

    fn dummy_receive(
        &mut self,
        port: &Word,
        packets: &[(Word, Option<Word>)],
        now: Time,
    ) -> Result<String, CommandError> {
        let unknown = || refused(format!("{}: no such dummy device", port.text));
        let no = self.port_named(&port.text).and_then(|port| port.no).ok_or_else(unknown)?;
        let frames: Result<Vec<Packet>, CommandError> =
            packets.iter().map(|(text, len)| self.packet_of(&text.text, len.as_ref())).collect();
        for frame in frames? {
            let mut packet = self.allocate();
            packet.set_frame(frame.data());
            packet.packet_type = frame.packet_type;
            let mut batch = Batch::new();
            if batch.push(packet).is_ok() {
                self.receive(no, &mut batch, now, &mut Off);
            }
        }
        Ok(String::new())
    }

    /// A packet from hexadecimal digits, or from a datapath flow and perhaps a length.
    fn packet_of(&self, text: &str, len: Option<&Word>) -> Result<Packet, CommandError> {
        if let Some(bytes) = hex(text).ok().filter(|bytes| !bytes.is_empty()) {
            return Ok(Packet::from_frame(&bytes));
        }
        let key = parse_key(text, Some(self))
            .map_err(|error| refused(format!("bad packet or flow syntax: {error}")))?;
        match len {
            None => Ok(compose(&key, Payload::DEFAULT, false)),
            Some(word) => {
                let bytes =
                    word.text.parse().map_err(|_| refused(format!("{} is not a length", word.text)))?;
                compose_len(&key, bytes).map_err(refused)
            }
        }
    }

    fn set_admin_state(&mut self, port: Option<&Word>, state: &str) -> Result<String, CommandError> {
        let up = match state {
            "up" => true,
            "down" => false,
            _ => return Err(refused("Invalid Admin State")),
        };
        let names: Vec<String> = match port {
            Some(name) => vec![name.text.clone()],
            None => self.ports().map(|port| port.device.name.clone()).collect(),
        };
        for name in names {
            self.configure_device(&name, |device| device.admin_up = up)
                .map_err(|_| refused("Unknown Dummy Interface"))?;
        }
        Ok("OK".to_owned())
    }
}
