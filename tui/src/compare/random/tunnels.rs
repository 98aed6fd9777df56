//! Tunnels and offloads: packets that owe checksums and segments, through headers that are put on and taken off.

use super::{Chance, Draft, bridge};

/// Where the tunnels end: here and there.
const LOCAL: [&str; 2] = ["1.1.2.88", "2001:cafe::88"];
const REMOTE: [&str; 2] = ["1.1.2.92", "2001:cafe::92"];
const REMOTE_MAC: &str = "f8:bc:12:44:34:b6";
const UNDERLAY_MAC: &str = "aa:55:aa:55:00:00";
/// Ports of the bridge with tunnels: p2 and p3 are plain, 11 and up are tunnels.
const FIRST_TUNNEL: usize = 11;

/// Options that say what a dummy port can do, and what it makes of what it receives; but for its segment size, which Open vSwitch
/// does not forget.
const OPTIONS: [&str; 14] = [
    "ol_ip_rx_csum_set_good",
    "ol_ip_rx_csum_set_bad",
    "ol_ip_rx_csum_set_partial",
    "ol_l4_rx_csum_set_good",
    "ol_l4_rx_csum_set_bad",
    "ol_l4_rx_csum_set_partial",
    "ol_ip_tx_csum",
    "ol_ip_tx_csum_disabled",
    "ol_l4_tx_csum",
    "ol_l4_tx_csum_disabled",
    "ol_out_ip_tx_csum",
    "ol_out_ip_tx_csum_disabled",
    "ol_out_udp_tx_csum",
    "ol_out_udp_tx_csum_disabled",
];

/// A tunnel and what its packets are like from the other side.
struct Tunnel {
    kind: &'static str,
    ipv6: bool,
    key: usize,
}

/// Writes a scenario about tunnels.
pub fn write(chance: &mut Chance, draft: &mut Draft) {
    let mut lines = Vec::new();
    if chance.one_in(2) {
        lines.push("ovs-vsctl set Open_vSwitch . other_config:userspace-tso-enable=true".to_owned());
    }
    lines.extend(bridge("br0", UNDERLAY_MAC, &[1], |_| String::new()));
    lines.extend(bridge("br1", "aa:55:aa:55:00:01", &[2, 3], |_| String::new()));
    let tunnels: Vec<Tunnel> = (0..chance.within(1, 3)).map(|index| tunnel(chance, index)).collect();
    for (index, tunnel) in tunnels.iter().enumerate() {
        lines.push(tunnel_port(chance, index, tunnel));
    }
    lines.push(format!("ovs-appctl netdev-dummy/ip4addr br0 {}/24", LOCAL[0]));
    lines.push(format!("ovs-appctl netdev-dummy/ip6addr br0 {}/64", LOCAL[1]));
    lines.extend(REMOTE.iter().map(|remote| format!("ovs-appctl tnl/neigh/set br0 {remote} {REMOTE_MAC}")));
    lines.push("ovs-appctl tnl/egress_port_range 57363 57363".to_owned());
    lines.push("ovs-ofctl add-flow br0 actions=NORMAL".to_owned());
    for priority in 1..=chance.within(2, 6) {
        lines.push(format!("ovs-ofctl add-flow br1 '{}'", rule(chance, priority, tunnels.len())));
    }
    for port in 1..=3 {
        lines.extend(offloads(chance, port));
    }
    draft.commands(&lines);
    for _ in 0..chance.within(6, 20) {
        if chance.one_in(5) {
            let port = chance.within(1, 3);
            let mut lines = vec![format!("ovs-vsctl remove Interface p{port} options {}", OPTIONS.join(" "))];
            lines.extend(offloads(chance, port));
            draft.commands(&lines);
        }
        let inner = inner(chance);
        if chance.one_in(3) {
            let tunnel = &tunnels[chance.below(tunnels.len())];
            if let Some(outer) = outer(chance, tunnel) {
                send(chance, draft, "br0:p1", &format!("{outer} / {inner}"));
            }
        } else {
            let port = ["br1:p2", "br1:p2", "br1:p3"][chance.below(3)];
            send(chance, draft, port, &inner);
        }
    }
}

/// Sends a frame; now and then with a byte that is wrong.
fn send(chance: &mut Chance, draft: &mut Draft, port: &str, frame: &str) {
    if chance.one_in(5) {
        draft.broken_frame(port, frame, chance.within(14, 120));
    } else {
        draft.frame(port, frame);
    }
}

fn tunnel(chance: &mut Chance, index: usize) -> Tunnel {
    let kind = chance.pick(&["vxlan", "vxlan", "geneve", "geneve", "gre"]);
    Tunnel { kind, ipv6: chance.one_in(3), key: 100 + index }
}

fn tunnel_port(chance: &mut Chance, index: usize, tunnel: &Tunnel) -> String {
    let name = format!("t{index}");
    let Tunnel { kind, ipv6, key } = tunnel;
    let mut line = format!(
        "ovs-vsctl add-port br1 {name} -- set interface {name} type={kind} ofport_request={} options:key={key} options:remote_ip={}",
        FIRST_TUNNEL + index,
        if *ipv6 { format!("\\\"{}\\\"", REMOTE[1]) } else { REMOTE[0].to_owned() },
    );
    for (option, values) in [
        ("csum", &["true", "true", "false"][..]),
        ("tos", &["inherit", "0x20"]),
        ("ttl", &["inherit", "3"]),
        ("df_default", &["false", "true"]),
    ] {
        if chance.one_in(3) {
            line.push_str(&format!(" options:{option}={}", chance.pick(values)));
        }
    }
    line
}

/// A rule for one of the plain ports, or for a tunnel.
fn rule(chance: &mut Chance, priority: usize, tunnels: usize) -> String {
    let tunnel = |chance: &mut Chance| FIRST_TUNNEL + chance.below(tunnels);
    let (matching, out) = if chance.one_in(3) {
        (
            format!("in_port={}", tunnel(chance)),
            if chance.one_in(4) { tunnel(chance) } else { chance.within(2, 3) },
        )
    } else {
        (
            format!("in_port={}", chance.within(2, 3)),
            if chance.one_in(3) { chance.within(2, 3) } else { tunnel(chance) },
        )
    };
    let (kind, change) = [
        ("", ""),
        (",ip", "dec_ttl,"),
        (",ip", "mod_nw_src:9.9.9.9,"),
        (",tcp", "mod_tp_dst:99,"),
        (",udp", "mod_tp_src:98,"),
        (",ipv6", "set_field:2001:db8::77->ipv6_src,"),
        (",tcp6", "set_field:97->tcp_dst,"),
        (",ip", "mod_nw_tos:64,"),
        ("", "mod_vlan_vid:7,"),
        (",ip", "check_pkt_larger(600)->NXM_NX_REG0[0],"),
        (",ip", "output:3,mod_nw_dst:8.8.8.8,"),
        (",tcp", "mod_tp_src:96,output:2,mod_tp_dst:95,"),
    ][chance.below(12)];
    format!("priority={priority},{matching}{kind},actions={change}output:{out}")
}

/// Offloads of a port, as an option each.
fn offloads(chance: &mut Chance, port: usize) -> Option<String> {
    let mut line = format!("ovs-vsctl set Interface p{port}");
    let bare = line.len();
    let mut set = |option: &str| line.push_str(&format!(" options:{option}=true"));
    for (option, one_in) in [("ol_ip_rx_csum_set", 3), ("ol_l4_rx_csum_set", 2)] {
        if chance.one_in(one_in) {
            set(&format!("{option}_{}", chance.pick(&["good", "good", "bad", "partial", "partial"])));
        }
    }
    for option in ["ol_ip_tx_csum", "ol_l4_tx_csum", "ol_out_ip_tx_csum", "ol_out_udp_tx_csum"] {
        if chance.one_in(2) {
            set(option);
        }
        if chance.one_in(5) {
            set(&format!("{option}_disabled"));
        }
    }
    if chance.one_in(3) {
        line.push_str(&format!(" options:ol_tso_segsz={}", chance.pick(&["100", "500", "536"])));
    }
    (line.len() > bare).then_some(line)
}

/// The headers that the other side puts on, if this can be written.
fn outer(chance: &mut Chance, tunnel: &Tunnel) -> Option<String> {
    let version = usize::from(tunnel.ipv6);
    let ip = format!(
        "{} {} > {} tos {}",
        ["ipv4", "ipv6"][version],
        REMOTE[version],
        LOCAL[version],
        chance.pick(&["0", "0", "1", "2", "3"])
    );
    let eth = format!("eth {REMOTE_MAC} > {UNDERLAY_MAC} / {ip}");
    // Over IPv6 a datagram without checksum is not to be taken.
    let checksum = if chance.one_in(2) && !tunnel.ipv6 { " no-csum" } else { "" };
    let key = tunnel.key;
    match tunnel.kind {
        "vxlan" => Some(format!("{eth} / udp 49152 > 4789{checksum} / vxlan {key}")),
        "gre" => Some(format!("{eth} / gre key {key}")),
        _ => None,
    }
}

fn inner(chance: &mut Chance) -> String {
    let eth = "eth 50:54:00:00:00:01 > 50:54:00:00:00:02";
    let tag = if chance.one_in(6) { " / vlan 5" } else { "" };
    if chance.one_in(8) {
        return format!("{eth}{tag} / arp request 10.0.0.1 > 10.0.0.2");
    }
    let ipv6 = chance.one_in(3);
    let ip = if ipv6 { "ipv6 2001:db8::1 > 2001:db8::2" } else { "ipv4 10.0.0.1 > 10.0.0.2" };
    let tos = chance.pick(&["", "", " tos 1", " tos 0xb8"]);
    let ttl = chance.pick(&["", "", " ttl 2"]);
    let l4 = match chance.below(8) {
        0..=3 => format!(
            "tcp 1000 > 80 flags {} seq {}",
            chance.pick(&["ack", "psh,ack", "ack,fin", "syn"]),
            chance.pick(&["1", "4294967000"])
        ),
        4 | 5 => format!("udp 1000 > 53{}", if !ipv6 && chance.one_in(3) { " no-csum" } else { "" }),
        6 => "sctp 1000 > 80".to_owned(),
        _ => format!("{} echo-request id 1 seq 1", if ipv6 { "icmpv6" } else { "icmp" }),
    };
    format!(
        "{eth}{tag} / {ip}{tos}{ttl} / {l4} / {} bytes",
        chance.pick(&["0", "1", "18", "100", "600", "1001", "1400"])
    )
}
