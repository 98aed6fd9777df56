//! Addresses of ports, and by which port, and from which address, a destination of the underlay is reached.
//!
//! Counterpart: OVS `lib/ovs-router.c`, without rules of policy routing and without the routes of a system: there is none.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv6Addr;

use super::config::address_text;

/// The table that local addresses are in (`CLS_LOCAL`).
pub const TABLE_LOCAL: u32 = 255;
/// The table that routes are in unless they say otherwise (`CLS_MAIN`).
pub const TABLE_MAIN: u32 = 254;
/// The table that is searched last (`CLS_DEFAULT`).
pub const TABLE_DEFAULT: u32 = 253;

/// The tables that are searched, in order.
const STANDARD: [u32; 3] = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];

/// An address with the length of its network's prefix. Those of IPv4 are mapped; the length counts 96 more then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// Address.
    pub address: Ipv6Addr,
    /// Bits of it that name the network, 0 to 128.
    pub len: u8,
}

impl Prefix {
    const fn mask(self) -> u128 {
        match self.len {
            0 => 0,
            len => u128::MAX << (128 - len as u32),
        }
    }

    /// Whether `address` is in the network.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        (self.address.to_bits() ^ address.to_bits()) & self.mask() == 0
    }

    /// The network without the host's part.
    #[must_use]
    pub fn network(self) -> Self {
        Self { address: Ipv6Addr::from_bits(self.address.to_bits() & self.mask()), ..self }
    }

    fn is_ipv4(self) -> bool {
        self.address.to_ipv4_mapped().is_some()
    }

    /// As it is written.
    pub fn text(self) -> String {
        let len = if self.is_ipv4() { self.len.saturating_sub(96) } else { self.len };
        format!("{}/{len}", address_text(self.address))
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destinations.
    pub network: Prefix,
    /// Port by which they are reached.
    pub device: String,
    /// Router on the way, if they are not neighbours.
    pub gateway: Option<Ipv6Addr>,
    /// Address that packets come from.
    pub source: Ipv6Addr,
    /// Packets with this mark only.
    pub mark: u32,
    /// Whether a command made it, not an address.
    pub user: bool,
}

impl Route {
    /// Longer prefixes go first; those that commands made count 32 bits more, by which they go before all others of IPv4.
    fn priority(&self) -> u16 {
        u16::from(self.network.len) + if self.user { 32 } else { 0 }
    }
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Port.
    pub device: String,
    /// Router on the way.
    pub gateway: Option<Ipv6Addr>,
    /// Address that packets come from.
    pub source: Ipv6Addr,
}

/// Addresses and routes.
#[derive(Clone, Debug, Default)]
pub struct Router {
    addresses: BTreeMap<String, Vec<Prefix>>,
    /// By table, in the order in which they are tried.
    tables: BTreeMap<u32, Vec<Route>>,
}

impl Router {
    /// Addresses of a port.
    pub fn addresses(&self, device: &str) -> &[Prefix] {
        self.addresses.get(device).map_or(&[], Vec::as_slice)
    }

    /// All ports that have addresses.
    pub fn devices(&self) -> impl Iterator<Item = (&str, &[Prefix])> {
        self.addresses.iter().map(|(device, addresses)| (device.as_str(), addresses.as_slice()))
    }

    /// Gives a port an address, and with it the routes to itself and its network.
    pub fn add_address(&mut self, device: &str, address: Prefix) {
        let of_device = self.addresses.entry(device.to_owned()).or_default();
        if !of_device.contains(&address) {
            of_device.push(address);
        }
        let route = |network: Prefix| Route {
            network: network.network(),
            device: device.to_owned(),
            gateway: None,
            source: address.address,
            mark: 0,
            user: false,
        };
        self.insert(TABLE_LOCAL, route(Prefix { len: 128, ..address }));
        self.insert(TABLE_MAIN, route(address));
    }

    /// Forgets a port's addresses and all routes by it.
    pub fn forget(&mut self, device: &str) {
        self.addresses.remove(device);
        for routes in self.tables.values_mut() {
            routes.retain(|route| route.device != device);
        }
    }

    /// Adds a route, or replaces one to the same network with the same mark. Without a source, the port's address that is
    /// nearest to the network, or to the gateway, is taken; returns false if there is none, or the source is not one of the
    /// port's.
    #[must_use = "a route without a source is none"]
    pub fn add_route(&mut self, table: u32, mut route: Route, source: Option<Ipv6Addr>) -> bool {
        let to = [Some(route.network.address), route.gateway];
        let found = to.into_iter().flatten().find_map(|to| match source {
            Some(source) => {
                let same = |own: &&Prefix| own.address == source && own.contains(to);
                self.addresses(&route.device).iter().find(same).map(|own| own.address)
            }
            None => self.source_for(to, &route.device),
        });
        let Some(source) = found else { return false };
        route.source = source;
        route.network = route.network.network();
        self.insert(table, route);
        true
    }

    fn insert(&mut self, table: u32, route: Route) {
        let routes = self.tables.entry(table).or_default();
        routes.retain(|old| (old.network, old.mark, old.user) != (route.network, route.mark, route.user));
        routes.push(route);
        routes.sort_by_key(|route| std::cmp::Reverse(route.priority()));
    }

    /// Removes a route that a command made; says whether there was one. None if there is no such table.
    pub fn remove_route(&mut self, table: u32, network: Prefix, mark: u32) -> Option<bool> {
        let routes = self.tables.get_mut(&table)?;
        let before = routes.len();
        let network = network.network();
        routes.retain(|route| (route.network, route.mark, route.user) != (network, mark, true));
        Some(routes.len() != before)
    }

    /// The port's address in the narrowest network that `to` is in too.
    pub fn source_for(&self, to: Ipv6Addr, device: &str) -> Option<Ipv6Addr> {
        let ipv4 = to.to_ipv4_mapped().is_some();
        let near = self.addresses(device).iter().filter(|own| own.is_ipv4() == ipv4 && own.contains(to));
        // The first of equals, as OVS finds it.
        near.rev().max_by_key(|own| own.len).map(|own| own.address)
    }

    /// By which port `to` is reached. A `source` must be a local address.
    pub fn lookup(&self, mark: u32, to: Ipv6Addr, source: Option<Ipv6Addr>) -> Option<Found> {
        let in_table = |table: u32, to: Ipv6Addr| {
            self.tables
                .get(&table)?
                .iter()
                .find(|route| route.mark == mark && route.network.contains(to) && same_family(route, to))
        };
        if let Some(source) = source {
            in_table(TABLE_LOCAL, source)?;
        }
        let route = STANDARD.into_iter().find_map(|table| in_table(table, to))?;
        Some(Found {
            device: route.device.clone(),
            gateway: route.gateway,
            source: source.unwrap_or(route.source),
        })
    }

    /// Whether anything was ever put into a table.
    pub fn has_table(&self, table: u32) -> bool {
        self.tables.contains_key(&table)
    }

    /// The text of `ovs/route/show`: of one table, or of the standard ones.
    pub fn show(&self, table: Option<u32>) -> String {
        let mut text = match table {
            Some(table) if !STANDARD.contains(&table) => format!("Route Table #{table}:\n"),
            Some(_) | None => "Route Table:\n".to_owned(),
        };
        let tables = table.map_or(STANDARD.to_vec(), |table| vec![table]);
        for table in tables {
            for route in self.tables.get(&table).into_iter().flatten() {
                text.push_str(&route_text(table, route));
                text.push('\n');
            }
        }
        text
    }

    /// All tables, without titles (`ovs/route/show table=all`).
    pub fn show_all(&self) -> String {
        let mut text = String::new();
        for (&table, routes) in &self.tables {
            for route in routes {
                text.push_str(&route_text(table, route));
                if !STANDARD.contains(&table) {
                    let _ = write!(text, " table {table}");
                }
                text.push('\n');
            }
        }
        text
    }
}

/// A default route of IPv6 is none for IPv4, though all addresses are in one space.
fn same_family(route: &Route, to: Ipv6Addr) -> bool {
    to.to_ipv4_mapped().is_none() || route.network.is_ipv4()
}

fn route_text(table: u32, route: &Route) -> String {
    let mut text = format!("{}: {}", if route.user { "User" } else { "Cached" }, route.network.text());
    // Writing to a string cannot fail.
    if route.mark != 0 {
        let _ = write!(text, " MARK {}", route.mark);
    }
    let _ = write!(text, " dev {}", route.device);
    if let Some(gateway) = route.gateway {
        let _ = write!(text, " GW {}", address_text(gateway));
    }
    let _ = write!(text, " SRC {}", address_text(route.source));
    if table == TABLE_LOCAL && !route.user {
        text.push_str(" local");
    }
    text
}
