//! `[switch.X]` and its ports.

use std::net::IpAddr;

use datapath::offload::Capabilities;
use datapath::openflow::bridge::VlanMode;
use datapath::switch::RxChecksum;
use datapath::types::{MacAddr, VlanId};

use super::parse::{MAX_MTU, block};
use super::reader::{Fields, Value};
use super::{PortConfig, PortKind, Setting, SwitchConfig, TunnelProtocol};
use crate::diagnostic::Diagnostic;

/// Largest OpenFlow number of a switch's port (`OFPP_MAX` is the first reserved one).
const MAX_PORT: u64 = 0xfeff;

/// Words of `offload`.
const OFFLOADS: [(&str, Capabilities); 11] = [
    ("ip-csum", Capabilities::IP_CSUM),
    ("l4-csum", Capabilities::TCP_CSUM.union(Capabilities::UDP_CSUM).union(Capabilities::SCTP_CSUM)),
    ("tcp-csum", Capabilities::TCP_CSUM),
    ("udp-csum", Capabilities::UDP_CSUM),
    ("sctp-csum", Capabilities::SCTP_CSUM),
    ("tso", Capabilities::TSO),
    ("outer-ip-csum", Capabilities::OUTER_IP_CSUM),
    ("outer-udp-csum", Capabilities::OUTER_UDP_CSUM),
    ("tunnel-tso", Capabilities::VXLAN_TSO.union(Capabilities::GENEVE_TSO).union(Capabilities::GRE_TSO)),
    ("vxlan-tso", Capabilities::VXLAN_TSO),
    ("geneve-tso", Capabilities::GENEVE_TSO),
];

const CHECKSUMS: [(&str, RxChecksum); 4] = [
    ("unknown", RxChecksum::Unknown),
    ("good", RxChecksum::Good),
    ("bad", RxChecksum::Bad),
    ("partial", RxChecksum::Partial),
];

const TUNNELS: [(&str, TunnelProtocol); 3] =
    [("vxlan", TunnelProtocol::Vxlan), ("geneve", TunnelProtocol::Geneve), ("gre", TunnelProtocol::Gre)];

pub(super) fn switch(name: &str, value: &Value<'_>) -> Option<SwitchConfig> {
    let mut fields = value.table(format!("[switch.{name}]"))?;
    let mac = fields.take("mac").and_then(|value| value.parsed::<MacAddr>("six hexadecimal bytes"));
    let ports = ports(&mut fields);
    let flows = fields.take("flows").and_then(|value| block(&value));
    let groups = fields.take("groups").and_then(|value| block(&value));
    let meters = fields.take("meters").and_then(|value| block(&value));
    let other_config = settings(&mut fields, "other-config");
    let ovs = fields.take("ovs").and_then(|value| block(&value));
    let span = fields.span();
    fields.finish();
    Some(SwitchConfig { name: name.to_owned(), mac, ports, flows, groups, meters, other_config, ovs, span })
}

fn settings(fields: &mut Fields<'_>, name: &'static str) -> Vec<Setting> {
    let Some(mut table) = fields.take(name).and_then(|value| value.table(format!("`{name}`"))) else {
        return Vec::new();
    };
    let one = |value: Value<'_>| {
        Some(Setting { key: value.key.to_owned(), value: value.scalar()?, span: value.key_span() })
    };
    table.rest().into_iter().filter_map(one).collect()
}

fn ports(fields: &mut Fields<'_>) -> Vec<PortConfig> {
    let Some(mut table) = fields.take("port").and_then(|value| value.table("`port`")) else {
        return Vec::new();
    };
    let ports: Vec<PortConfig> = table.rest().iter().filter_map(port).collect();
    for (index, port) in ports.iter().enumerate() {
        let same = |other: &&PortConfig| other.number.is_some() && other.number == port.number;
        if let Some(other) = ports[..index].iter().find(same) {
            let number = port.number.unwrap_or_default();
            let message = format!("ports `{}` and `{}` both have number {number}", other.name, port.name);
            table.cx().error(Diagnostic::new(port.span.clone(), message));
        }
    }
    ports
}

fn port(value: &Value<'_>) -> Option<PortConfig> {
    let name = value.key;
    let mut fields = value.table(format!("port `{name}`"))?;
    if name.is_empty() || name.contains(|c: char| c == ':' || c == ',' || c.is_whitespace() || c.is_control())
    {
        let message = format!("port name {name:?} is empty or holds a colon, a comma or white space");
        value.cx.error(Diagnostic::new(value.key_span(), message));
    }
    let number = number(value, &mut fields);
    let tag = fields.take("tag").and_then(|value| vlan(&value));
    let vlans = |value: Option<Value<'_>>| {
        value.map_or_else(Vec::new, |value| value.one_or_more().iter().filter_map(vlan).collect::<Vec<_>>())
    };
    let trunks = vlans(fields.take("trunks"));
    let vlan_mode_value = fields.take("vlan-mode");
    let vlan_mode = vlan_mode_value.and_then(|value| value.word(&VlanMode::WORDS));
    let cvlans = vlans(fields.take("cvlans"));
    if let (Some(value), Some(mode), None) = (vlan_mode_value, vlan_mode, tag)
        && matches!(
            mode,
            VlanMode::Access | VlanMode::NativeTagged | VlanMode::NativeUntagged | VlanMode::Dot1qTunnel
        )
    {
        value.cx.error(value.error(format!("vlan-mode {:?} needs `tag`", mode.name())));
    }
    let mtu = fields.take("mtu").and_then(|value| value.integer(68, MAX_MTU)).map(|mtu| mtu as u32);
    let offload = fields.take("offload").map_or(Capabilities::empty(), |value| {
        value.one_or_more().iter().filter_map(|item| item.word(&OFFLOADS)).collect()
    });
    let mut checksum = |name| fields.take(name).and_then(|value| value.word(&CHECKSUMS)).unwrap_or_default();
    let (rx_ip_csum, rx_l4_csum) = (checksum("rx-ip-csum"), checksum("rx-l4-csum"));
    let rx_tso = fields.take("rx-tso").and_then(|value| value.integer(1, 65_535)).unwrap_or(0) as u16;
    let kind = kind(&mut fields);
    let span = value.key_span();
    fields.finish();
    Some(PortConfig {
        name: name.to_owned(),
        number,
        tag,
        trunks,
        vlan_mode,
        cvlans,
        mtu,
        offload,
        rx_ip_csum,
        rx_l4_csum,
        rx_tso,
        kind,
        span,
    })
}

/// A numeric name asks for that number; `number` does for others.
fn number(port: &Value<'_>, fields: &mut Fields<'_>) -> Option<u16> {
    let asked = fields.take("number");
    if port.key.bytes().all(|b| b.is_ascii_digit()) && !port.key.is_empty() {
        if let Some(asked) = asked {
            asked.cx.error(asked.error("a port with a numeric name has that number already"));
        }
        return match port.key.parse::<u16>() {
            Ok(number) if (1..=MAX_PORT).contains(&u64::from(number)) => Some(number),
            _ => {
                let message = format!("port number {} is out of range", port.key);
                port.cx
                    .error(Diagnostic::new(port.key_span(), message).label(format!("use 1 to {MAX_PORT}")));
                None
            }
        };
    }
    asked.and_then(|value| value.integer(1, MAX_PORT)).map(|number| number as u16)
}

fn vlan(value: &Value<'_>) -> Option<VlanId> {
    VlanId::new(value.integer(0, 4095)? as u16).ok()
}

fn kind(fields: &mut Fields<'_>) -> PortKind {
    let tunnel = fields.take("tunnel");
    let mut address =
        |name| fields.take(name).map(|value| (value, value.parsed::<IpAddr>("an IPv4 or IPv6 address")));
    let (local, remote) = (address("local"), address("remote"));
    let vni = fields.take("vni").map(|value| (value, value.integer(0, (1 << 24) - 1)));
    let mut kinds: Vec<(Value<'_>, PortKind)> = Vec::new();
    if let Some(value) = tunnel {
        if let Some(protocol) = value.word(&TUNNELS) {
            let (local, remote) = (local.and_then(|l| l.1), remote.and_then(|r| r.1));
            let vni = vni.and_then(|v| v.1).map(|vni| vni as u32);
            kinds.push((value, PortKind::Tunnel { protocol, local, remote, vni }));
        }
    } else {
        let stray = [local.map(|l| l.0), remote.map(|r| r.0), vni.map(|v| v.0)];
        for value in stray.into_iter().flatten() {
            let message = format!("`{}` belongs to a tunnel port", value.key);
            value.cx.error(Diagnostic::new(value.key_span(), message).help("add tunnel = \"vxlan\""));
        }
    }
    let namespace = fields.take("netns");
    let netns = namespace.as_ref().and_then(|value| value.string().map(str::to_owned));
    let mut device = |key: &'static str, make: &dyn Fn(String) -> PortKind| {
        if let Some(value) = fields.take(key)
            && let Some(text) = value.string()
        {
            kinds.push((value, make(text.to_owned())));
        }
    };
    device("tap", &|name| PortKind::Tap { name, netns: netns.clone() });
    device("packet", &|name| PortKind::Packet { name, netns: netns.clone() });
    device("dpdk", &PortKind::Dpdk);
    if let Some(value) = namespace.filter(|_| !kinds.iter().any(|(_, kind)| kind.has_namespace())) {
        let message = "`netns` belongs to a tap or a packet socket".to_owned();
        value.cx.error(
            Diagnostic::new(value.key_span(), message).help("add tap = \"NAME\" or packet = \"INTERFACE\""),
        );
    }
    if let [first, second, ..] = kinds.as_slice() {
        let message = format!("a port is either `{}` or `{}`", first.0.key, second.0.key);
        second.0.cx.error(Diagnostic::new(second.0.key_span(), message));
    }
    kinds.into_iter().next().map_or(PortKind::Simulated, |(_, kind)| kind)
}
