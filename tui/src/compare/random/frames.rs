//! Frames for rules to meet.

use super::Chance;

const MACS: [&str; 4] = ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "06:00:00:00:00:04"];
const GROUPS: [&str; 4] =
    ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05", "33:33:00:00:00:16", "01:80:c2:00:00:00"];
const IPV4: [&str; 5] = ["10.0.0.1", "10.0.0.2", "10.0.1.1", "192.168.7.9", "224.0.0.5"];
const IPV6: [&str; 4] = ["2001:db8::1", "2001:db8::2", "2001:db8:1::1", "fe80::1"];
const PORTS: [&str; 5] = ["53", "80", "1000", "1001", "40000"];
const FLAGS: [&str; 6] = ["syn", "syn,ack", "ack", "fin,ack", "rst", "psh,ack"];

/// A frame as `send.frame` takes it.
pub fn frame(chance: &mut Chance) -> String {
    let to = if chance.one_in(3) { chance.pick(&GROUPS) } else { chance.pick(&MACS) };
    let mut layers = vec![format!("eth {} > {to}", chance.pick(&MACS))];
    for _ in 0..[0, 0, 0, 1, 1, 2][chance.below(6)] {
        layers.push(vlan(chance));
    }
    match chance.below(12) {
        0 | 1 => layers.push(arp(chance)),
        2 => {
            layers[0].push_str(" type 0x88b5");
            layers.push(format!("{} bytes", chance.within(0, 60)));
        }
        3 => {
            layers.push(mpls(chance));
            if chance.one_in(2) {
                layers.push(mpls(chance));
            }
            ipv4(chance, &mut layers);
        }
        4..=8 => ipv4(chance, &mut layers),
        _ => ipv6(chance, &mut layers),
    }
    layers.join(" / ")
}

fn vlan(chance: &mut Chance) -> String {
    let id = chance.pick(&["0", "10", "20", "30"]);
    let pcp = if chance.one_in(3) { format!(" pcp {}", chance.below(8)) } else { String::new() };
    let tpid = if chance.one_in(4) { " tpid 0x88a8" } else { "" };
    format!("vlan {id}{pcp}{tpid}")
}

fn mpls(chance: &mut Chance) -> String {
    format!(
        "mpls {} tc {} ttl {}",
        chance.pick(&["16", "17", "1000"]),
        chance.below(4),
        chance.pick(&["0", "1", "2", "64"])
    )
}

fn arp(chance: &mut Chance) -> String {
    let kind = chance.pick(&["request", "reply"]);
    let (from, to) = (chance.pick(&IPV4), chance.pick(&IPV4));
    format!("arp {kind} {from} > {to}")
}

fn ipv4(chance: &mut Chance, layers: &mut Vec<String>) {
    let mut ip = format!("ipv4 {} > {}", chance.pick(&IPV4), chance.pick(&IPV4));
    ip.push_str(&format!(" ttl {}", chance.pick(&["0", "1", "2", "64", "64", "64", "255"])));
    if chance.one_in(3) {
        ip.push_str(&format!(" tos {}", chance.pick(&["0x20", "0x21", "0xb8", "3"])));
    }
    match chance.below(10) {
        0 => {
            layers.push(ip + " offset 64 proto 17");
            layers.push("24 bytes".to_owned());
            return;
        }
        1 => ip.push_str(" more"),
        2 => ip.push_str(" df"),
        _ => {}
    }
    if chance.one_in(10) {
        layers.push(format!("{ip} proto {}", chance.pick(&["2", "47", "50", "253"])));
        layers.push(format!("{} bytes", chance.within(0, 40)));
        return;
    }
    layers.push(ip);
    transport(chance, layers, "icmp");
}

fn ipv6(chance: &mut Chance, layers: &mut Vec<String>) {
    let mut ip = format!("ipv6 {} > {}", chance.pick(&IPV6), chance.pick(&IPV6));
    ip.push_str(&format!(" ttl {}", chance.pick(&["0", "1", "2", "64", "64", "255"])));
    if chance.one_in(3) {
        ip.push_str(&format!(
            " tos {} label {}",
            chance.pick(&["0x20", "0xb8", "1"]),
            chance.pick(&["0", "5", "0xfffff"])
        ));
    }
    layers.push(ip);
    transport(chance, layers, "icmpv6");
}

fn transport(chance: &mut Chance, layers: &mut Vec<String>, icmp: &str) {
    let ports = format!("{} > {}", chance.pick(&PORTS), chance.pick(&PORTS));
    layers.push(match chance.below(8) {
        0..=2 => format!("tcp {ports} flags {} seq {}", chance.pick(&FLAGS), chance.below(5)),
        3..=5 => format!("udp {ports}{}", if icmp == "icmp" && chance.one_in(4) { " no-csum" } else { "" }),
        6 => format!("sctp {ports}"),
        _ => format!("{icmp} {} id 1 seq 1", chance.pick(&["echo-request", "echo-reply"])),
    });
    layers.push(format!("{} bytes", chance.pick(&["0", "1", "18", "100"])));
}
