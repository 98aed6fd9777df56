//! `ovs-ofctl`: what a bridge tells of its ports and of itself.
//!
//! Counterpart: OVS `lib/ofp-port.c`, `lib/ofp-switch.c`.

use std::fmt::Write as _;

use super::super::Switch;
use super::ofctl::{dump_version, reply_header};
use super::{CommandError, refused};
use crate::openflow::bridge::{Bridge, Port};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::OfctlOptions;
use crate::openflow::protocol::OfVersion;
use crate::openflow::text::{Names, NoNames, format_port, parse_port};
use crate::types::OfPort;

/// The first line of a reply whose kind OpenFlow itself has, in 1.0 too. What a named port is looked up with goes first.
pub(super) fn header(kind: &str, version: OfVersion, xid: u32) -> String {
    let line = reply_header(kind, version, xid);
    // Only questions that Nicira's extension asks instead have its prefix.
    line.trim_end().replacen("NXST_", "OFPST_", 1)
}

/// The transaction id of a question about ports: one by name asks for the ports first.
fn port_xid(port: Option<&Word>) -> u32 {
    if port.is_some_and(|word| word.text.parse::<u16>().is_err()) { 4 } else { 2 }
}

impl Switch {
    fn ofctl_bridge(&self, name: &str) -> Result<&Bridge, CommandError> {
        let (id, _) = self.named_bridge(name)?;
        self.ofproto().bridge(id).ok_or_else(|| refused(format!("ovs-ofctl: {name} is not a bridge")))
    }

    /// `dump-ports`: counters. How long a port is there, which OpenFlow 1.3 can tell, is not known here.
    pub(super) fn ports_text(
        &self,
        bridge: &str,
        port: Option<&Word>,
        options: &OfctlOptions,
    ) -> Result<String, CommandError> {
        let found = self.ofctl_bridge(bridge)?;
        let wanted = wanted_port(found, port)?;
        let shown: &dyn Names = if options.names == Some(true) { found } else { &NoNames };
        let mut ports: Vec<&Port> =
            found.ports().filter(|port| wanted.is_none_or(|wanted| wanted == port.of_port)).collect();
        // Open vSwitch lists them as they lie in a hash table, where the bridge's own often comes first.
        ports.sort_by_key(|port| port.of_port != OfPort::LOCAL);
        let xid = if options.names == Some(true) { 4 } else { port_xid(port) };
        let mut out = header("PORT", dump_version(options), xid);
        let _ = writeln!(out, " {} ports", ports.len());
        for port in ports {
            let stats = self.port_named(&port.name).map(|port| self.port_stats(port)).unwrap_or_default();
            let mut name = String::new();
            format_port(&mut name, port.of_port, shown);
            let _ = writeln!(
                out,
                "  port {name:>2}: rx pkts={}, bytes={}, drop=?, errs=?, frame=?, over=?, crc=?\n           \
                 tx pkts={}, bytes={}, drop=?, errs=?, coll=?",
                stats.rx_packets, stats.rx_bytes, stats.tx_packets, stats.tx_bytes
            );
        }
        Ok(out)
    }

    /// `dump-ports-desc`: addresses, configuration and state.
    pub(super) fn ports_desc_text(
        &self,
        bridge: &str,
        port: Option<&Word>,
        options: &OfctlOptions,
    ) -> Result<String, CommandError> {
        let found = self.ofctl_bridge(bridge)?;
        let version = dump_version(options);
        // Before OpenFlow 1.5 a bridge tells of all ports, whatever it is asked.
        let wanted = wanted_port(found, port)?.filter(|_| version >= OfVersion::Of15);
        let mut out = header("PORT_DESC", version, port_xid(port));
        out.push('\n');
        for port in found.ports().filter(|port| wanted.is_none_or(|wanted| wanted == port.of_port)) {
            self.put_port(&mut out, port, version);
        }
        Ok(out)
    }

    /// `show`: what the bridge can do, its ports and its configuration.
    pub(super) fn show_text(&self, bridge: &str, options: &OfctlOptions) -> Result<String, CommandError> {
        let found = self.ofctl_bridge(bridge)?;
        let version = dump_version(options);
        let local = found.port(OfPort::LOCAL);
        let mac = local.map_or_else(Default::default, |port| {
            self.port_named(&port.name).map_or(port.mac, |own| own.device.mac)
        });
        let dpid: String = mac.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let note = version.note();
        let capabilities = match version {
            OfVersion::Of10 => "QUEUE_STATS ARP_MATCH_IP",
            OfVersion::Of11 => "GROUP_STATS QUEUE_STATS ARP_MATCH_IP",
            OfVersion::Of12 | OfVersion::Of13 => "GROUP_STATS QUEUE_STATS",
            OfVersion::Of14 | OfVersion::Of15 => "GROUP_STATS QUEUE_STATS BUNDLES",
        };
        let mut out = format!(
            "OFPT_FEATURES_REPLY{note} (xid=0x2): dpid:0000{dpid}\nn_tables:254, n_buffers:0\n\
             capabilities: FLOW_STATS TABLE_STATS PORT_STATS {capabilities}\n"
        );
        if version == OfVersion::Of10 {
            out.push_str(
                "actions: output enqueue set_vlan_vid set_vlan_pcp strip_vlan mod_dl_src mod_dl_dst mod_nw_src \
                 mod_nw_dst mod_nw_tos mod_tp_src mod_tp_dst\n",
            );
        }
        // Since OpenFlow 1.3 the ports are asked for separately.
        let mut xid = 4;
        if version >= OfVersion::Of13 {
            let _ = writeln!(out, "OFPST_PORT_DESC reply{note} (xid=0x3):");
            xid = 5;
        }
        for port in found.ports() {
            self.put_port(&mut out, port, version);
        }
        let frags = found.fragments.word();
        let _ = writeln!(out, "OFPT_GET_CONFIG_REPLY{note} (xid={xid:#x}): frags={frags} miss_send_len=0");
        Ok(out)
    }

    fn put_port(&self, out: &mut String, port: &Port, version: OfVersion) {
        let device = self.port_named(&port.name).map(|port| &port.device);
        let mut number = String::new();
        format_port(&mut number, port.of_port, &NoNames);
        let (down, no_link) =
            device.map_or((false, false), |device| (!device.admin_up, !(device.admin_up && device.carrier)));
        let old = version == OfVersion::Of10;
        let flags = port.flags;
        let config = words(&[
            (down || flags.down, "PORT_DOWN"),
            (flags.no_receive, "NO_RECV"),
            (old && flags.no_receive_stp, "NO_RECV_STP"),
            (old && flags.no_flood, "NO_FLOOD"),
            (flags.no_forward, "NO_FWD"),
            (flags.no_packet_in, "NO_PACKET_IN"),
        ]);
        let live = !old && port.is_alive() && !no_link;
        let state = words(&[(no_link, "LINK_DOWN"), (live, "LIVE")]);
        let mac = device.map_or(port.mac, |device| device.mac);
        let _ = writeln!(
            out,
            " {number}({}): addr:{mac}\n     config:     {config}\n     state:      {state}\n     \
             speed: 0 Mbps now, 0 Mbps max",
            port.name
        );
    }

    /// `dump-desc`: who made the switch.
    pub(super) fn desc_text(&self, bridge: &str, options: &OfctlOptions) -> Result<String, CommandError> {
        self.ofctl_bridge(bridge)?;
        Ok(format!(
            "{}\nManufacturer: recirc\nHardware: recirc\nSoftware: {}\nSerial Num: None\nDP Description: {bridge}\n",
            header("DESC", dump_version(options), 2),
            env!("CARGO_PKG_VERSION")
        ))
    }
}

/// Which port a dump is to show; none: all.
pub(super) fn wanted_port(bridge: &Bridge, word: Option<&Word>) -> Result<Option<OfPort>, CommandError> {
    let Some(word) = word else { return Ok(None) };
    match parse_port(&word.text, bridge) {
        Some(OfPort::NONE) => Ok(None),
        Some(port) => Ok(Some(port)),
        None => Err(refused(format!("ovs-ofctl: {}: unknown port `{}'", bridge.name, word.text))),
    }
}

/// The words that apply, or 0.
fn words(words: &[(bool, &'static str)]) -> String {
    let set: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    if set.is_empty() { "0".to_owned() } else { set.join(" ") }
}
