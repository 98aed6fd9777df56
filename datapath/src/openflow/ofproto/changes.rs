//! What changed since datapath flows were looked at.

use bitflags::bitflags;

bitflags! {
    /// Kinds of changes after which datapath flows may be wrong (OVS `enum revalidate_reason`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Changes: u16 {
        /// Rules.
        const RULES = 1 << 0;
        /// Groups.
        const GROUPS = 1 << 1;
        /// Meters.
        const METERS = 1 << 2;
        /// Bridges, ports and their settings.
        const PORTS = 1 << 3;
        /// Learned addresses.
        const ADDRESSES = 1 << 4;
        /// Tunnels, and routes and neighbours of the underlay.
        const UNDERLAY = 1 << 5;
        /// Timeout policies of connection tracking.
        const POLICIES = 1 << 6;
        /// Multicast groups and their routers.
        const MULTICAST = 1 << 8;
        /// Nothing: a flow is to be looked at again all the same.
        const AGAIN = 1 << 7;
    }
}

impl Changes {
    /// The names of those that are there.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::RULES, "rules"),
            (Self::GROUPS, "groups"),
            (Self::METERS, "meters"),
            (Self::PORTS, "ports"),
            (Self::ADDRESSES, "addresses"),
            (Self::UNDERLAY, "underlay"),
            (Self::POLICIES, "policies"),
            (Self::MULTICAST, "multicast groups"),
        ]
        .into_iter()
        .filter(move |(kind, _)| self.contains(*kind))
        .map(|(_, name)| name)
    }
}
