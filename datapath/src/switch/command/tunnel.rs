//! `netdev-dummy/ip4addr`, `ovs/route/*`, `tnl/*`: addresses, routes and neighbours of the underlay, and who listens for
//! tunnels.
//!
//! Counterpart: OVS `lib/ovs-router.c`, `lib/tnl-neigh-cache.c`, `lib/tnl-ports.c`, `lib/netdev-dummy.c`,
//! `lib/netdev-native-tnl.c`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::{DeviceKind, Switch};
use super::{CommandError, refused};
use crate::openflow::command::Word;
use crate::openflow::tunnel::config::{address_text, mapped};
use crate::openflow::tunnel::router::{Prefix, Route, TABLE_MAIN};
use crate::types::{MacAddr, Span, Time};

const OK: &str = "OK";

impl Switch {
    /// Carries out a command, given its whole name.
    pub(super) fn tunnel_command(
        &mut self,
        name: &str,
        words: &[Word],
        now: Time,
    ) -> Result<String, CommandError> {
        let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let done = match name {
            "netdev-dummy/ip4addr" | "netdev-dummy/ip6addr" => self.add_address(name, &words),
            "ovs/route/add" => self.route_add(&words),
            "ovs/route/del" => self.route_del(&words),
            "ovs/route/show" => self.route_show(&words),
            "ovs/route/lookup" => self.route_lookup(&words),
            "tnl/ports/show" => self.ports_show(&words),
            "ofproto/list-tunnels" => none_left(&words, 0).map(|()| self.ofproto().tunnels().list()),
            "tnl/egress_port_range" => self.egress_port_range(&words),
            _ => self.neighbor_command(name.rsplit('/').next().unwrap_or(""), &words, now),
        };
        done.map_err(|error| refused(format!("ovs-appctl: {name}: {error}")))
    }

    fn add_address(&mut self, name: &str, words: &[&str]) -> Result<String, CommandError> {
        let (device, text) = two(words, "a port and an address")?;
        let is_device = self.port_named(device).is_some_and(|port| match port.device.kind {
            DeviceKind::Dummy | DeviceKind::DummyPmd | DeviceKind::Internal => true,
            DeviceKind::Patch | DeviceKind::Tunnel(_) => false,
        });
        if !is_device {
            return Err(refused("Unknown Dummy Interface"));
        }
        let prefix = prefix(text).ok_or_else(|| refused(format!("{text}: invalid IP address")))?;
        if prefix.address.to_ipv4_mapped().is_some() != name.ends_with("ip4addr") {
            return Err(refused(format!("{text}: invalid IP address")));
        }
        let tunnels = self.ofproto_mut().tunnels_mut();
        tunnels.router.add_address(device, prefix);
        tunnels.rebuild();
        Ok(OK.to_owned())
    }

    fn route_add(&mut self, words: &[&str]) -> Result<String, CommandError> {
        let (to, device) = two(words, "a network and a port")?;
        let network = prefix(to).ok_or_else(|| refused("Invalid 'ip/plen' parameter"))?;
        let ipv4 = network.address.to_ipv4_mapped().is_some();
        let address = |text: &str| {
            let address: IpAddr = text.parse().ok()?;
            (address.is_ipv4() == ipv4).then(|| mapped(address))
        };
        let (mut gateway, mut source, mut mark, mut table) = (None, None, 0, TABLE_MAIN);
        for word in &words[2..] {
            let refuse = || refused("Invalid pkt_mark, IP gateway or src_ip");
            if let Some(text) = word.strip_prefix("pkt_mark=") {
                mark = text.parse().map_err(|_| refuse())?;
            } else if let Some(text) = word.strip_prefix("src=") {
                source = Some(address(text).ok_or_else(refuse)?);
            } else if let Some(text) = word.strip_prefix("table=") {
                table = text.parse().map_err(|_| refused("Invalid table format"))?;
            } else {
                gateway = Some(address(word).ok_or_else(refuse)?);
            }
        }
        // A gateway of zero is none.
        let gateway = gateway
            .filter(|gw: &Ipv6Addr| *gw != mapped(Ipv4Addr::UNSPECIFIED.into()) && !gw.is_unspecified());
        let route = Route {
            network,
            device: device.to_owned(),
            gateway,
            source: Ipv6Addr::UNSPECIFIED,
            mark,
            user: true,
        };
        match self.ofproto_mut().tunnels_mut().router.add_route(table, route, source) {
            true => Ok(OK.to_owned()),
            false => Err(refused("Error while inserting route.")),
        }
    }

    fn route_del(&mut self, words: &[&str]) -> Result<String, CommandError> {
        let network =
            words.first().and_then(|text| prefix(text)).ok_or_else(|| refused("Invalid parameters"))?;
        let (mut mark, mut table) = (0, TABLE_MAIN);
        for word in &words[1..] {
            if let Some(text) = word.strip_prefix("pkt_mark=") {
                mark = text.parse().map_err(|_| refused("Invalid pkt_mark or table"))?;
            } else if let Some(text) = word.strip_prefix("table=") {
                table = text.parse().map_err(|_| refused("Invalid table format"))?;
            } else {
                return Err(refused("Invalid pkt_mark or table"));
            }
        }
        match self.ofproto_mut().tunnels_mut().router.remove_route(table, network, mark) {
            None => Err(refused("Table not found")),
            Some(false) => Err(refused("Not found")),
            Some(true) => Ok(OK.to_owned()),
        }
    }

    fn route_show(&self, words: &[&str]) -> Result<String, CommandError> {
        let router = &self.ofproto().tunnels().router;
        none_left(words, 1)?;
        match words.first() {
            None => Ok(router.show(None)),
            Some(&"table=all") => Ok(router.show_all()),
            Some(word) => {
                let table = word.strip_prefix("table=").and_then(|text| text.parse().ok());
                let table = table.ok_or_else(|| refused("Invalid table format"))?;
                if !router.has_table(table) {
                    return Err(refused(format!("Table '{word}' not found")));
                }
                Ok(router.show(Some(table)))
            }
        }
    }

    fn route_lookup(&self, words: &[&str]) -> Result<String, CommandError> {
        let to: IpAddr = words
            .first()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| refused("Invalid 'ip' parameter"))?;
        let (mut mark, mut source) = (0, None);
        for word in &words[1..] {
            let refuse = || refused("Invalid pkt_mark or src_ip");
            if let Some(text) = word.strip_prefix("pkt_mark=") {
                mark = text.parse().map_err(|_| refuse())?;
            } else if let Some(text) = word.strip_prefix("src=") {
                source = Some(mapped(text.parse().map_err(|_| refuse())?));
            } else {
                return Err(refuse());
            }
        }
        let found = self.ofproto().tunnels().router.lookup(mark, mapped(to), source);
        let found = found.ok_or_else(|| refused("Not found"))?;
        let gateway = address_text(found.gateway.unwrap_or(Ipv6Addr::UNSPECIFIED));
        let source = address_text(found.source);
        Ok(format!("src {source}\ngateway {gateway}\ndev {}\n", found.device))
    }

    fn ports_show(&self, words: &[&str]) -> Result<String, CommandError> {
        none_left(words, 1)?;
        match words.first() {
            None => Ok(self.ofproto().tunnels().show_listeners()),
            Some(&"-v") => Ok(self.ofproto().tunnels().show_terminations()),
            Some(word) => Err(refused(format!("takes no argument '{word}'"))),
        }
    }

    fn egress_port_range(&mut self, words: &[&str]) -> Result<String, CommandError> {
        let &[low, high] = words else {
            none_left(words, 0)?;
            let (low, high) = self.datapath().tunnel_ports();
            return Ok(format!("Tunnel UDP source port range: {low}-{high}\n"));
        };
        let port = |text: &str, which: &str| {
            text.parse()
                .ok()
                .filter(|&port: &u16| port != 0)
                .ok_or_else(|| refused(format!("Invalid {which}.")))
        };
        let (low, high) = (port(low, "min")?, port(high, "max")?);
        self.datapath_mut().set_tunnel_ports((low.min(high), low.max(high)));
        Ok(OK.to_owned())
    }

    fn neighbor_command(&mut self, name: &str, words: &[&str], now: Time) -> Result<String, CommandError> {
        match name {
            "show" => none_left(words, 0).map(|()| self.ofproto().neighbors().show(now)),
            "flush" => {
                none_left(words, 0)?;
                self.ofproto_mut().neighbors_mut().flush(None);
                Ok(OK.to_owned())
            }
            "aging" | "retrans_time" => self.neighbor_time(name, words, now),
            _ => {
                let &[bridge, address, mac] = words else {
                    return Err(refused("takes a bridge, an address and a MAC address"));
                };
                let address: IpAddr = address.parse().map_err(|_| refused("bad IP address"))?;
                let mac: MacAddr = mac.parse().map_err(|_| refused("bad MAC address"))?;
                self.ofproto_mut().neighbors_mut().set(bridge, mapped(address), mac, now);
                Ok(OK.to_owned())
            }
        }
    }

    fn neighbor_time(&mut self, name: &str, words: &[&str], now: Time) -> Result<String, CommandError> {
        none_left(words, 1)?;
        let neighbors = self.ofproto_mut().neighbors_mut();
        let aging = name == "aging";
        let Some(text) = words.first() else {
            return Ok(match aging {
                true => (neighbors.aging().0 / 1_000_000_000).to_string(),
                false => (neighbors.retransmit().0 / 1_000_000).to_string(),
            });
        };
        let number: u32 = text.parse().map_err(|_| refused(format!("bad {name} value")))?;
        let done = match aging {
            true => neighbors.set_aging(Span::from_secs(number.into()), now),
            false => neighbors.set_retransmit(Span::from_millis(number.into()), now),
        };
        match (done, aging) {
            (true, _) => Ok(OK.to_owned()),
            (false, true) => Err(refused("bad aging value")),
            (false, false) => Err(refused("retrans_time value cannot be greater than aging")),
        }
    }
}

fn two<'a>(words: &[&'a str], what: &str) -> Result<(&'a str, &'a str), CommandError> {
    match words {
        [first, second, ..] => Ok((first, second)),
        _ => Err(refused(format!("takes {what}"))),
    }
}

fn none_left(words: &[&str], most: usize) -> Result<(), CommandError> {
    match words.get(most) {
        None => Ok(()),
        Some(word) => Err(refused(format!("takes no argument '{word}'"))),
    }
}

/// An address with the length of a prefix; without one, all of it.
fn prefix(text: &str) -> Option<Prefix> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().ok()?;
    let (most, more) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    let len: u8 = len.map_or(Some(most), |len| len.parse().ok().filter(|&len| len <= most))?;
    Some(Prefix { address: mapped(address), len: len + more })
}
