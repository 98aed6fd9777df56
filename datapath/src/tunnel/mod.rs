//! Tunnels in the datapath: outer headers are put in front of packets, and taken off and understood.
//!
//! Owns what `tnl_push` and `tnl_pop` do to a single packet, its offload debts among it: those of the headers that were
//! outer ones become inner ones, and come back. Which headers there are to push, and who receives what was popped, is the
//! slow path's ([`crate::openflow::tunnel`]). Counterpart: OVS `lib/netdev-native-tnl.c`.

mod pop;
mod push;
#[cfg(test)]
mod tests;

pub(crate) use pop::pop;
pub(crate) use push::{Push, needs_segments, push};

use crate::flow::proto::{IP_GRE, IP_IPIP, IP_IPV6, IP_UDP};

/// A kind of tunnel (`type` of OVS's `Interface`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TunnelKind {
    /// VXLAN (RFC 7348), with its generic protocol extension.
    Vxlan,
    /// GENEVE (RFC 8926).
    Geneve,
    /// GRE (RFC 2784, RFC 2890).
    Gre,
    /// The same over IPv6 in older databases.
    Ip6Gre,
    /// ERSPAN types II and III (draft-foschiano-erspan-03).
    Erspan,
    /// The same over IPv6.
    Ip6Erspan,
    /// GTP-U (3GPP TS 29.281).
    Gtpu,
    /// Segment routing over IPv6 (RFC 8754).
    Srv6,
}

impl TunnelKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Vxlan,
        Self::Geneve,
        Self::Gre,
        Self::Ip6Gre,
        Self::Erspan,
        Self::Ip6Erspan,
        Self::Gtpu,
        Self::Srv6,
    ];

    /// The kind that OVS's database calls so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What OVS's database calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Ip6Gre => "ip6gre",
            Self::Erspan => "erspan",
            Self::Ip6Erspan => "ip6erspan",
            Self::Gtpu => "gtpu",
            Self::Srv6 => "srv6",
        }
    }

    /// What the datapath calls its port: all tunnels of a kind, and of a UDP port, share one.
    pub fn device_name(self, udp_port: u16) -> String {
        let name = match self {
            Self::Vxlan => "vxlan_sys",
            Self::Geneve => "genev_sys",
            Self::Gre => "gre_sys",
            Self::Ip6Gre => "ip6gre_sys",
            Self::Erspan => "erspan_sys",
            Self::Ip6Erspan => "ip6erspan_sys",
            Self::Gtpu => "gtpu_sys",
            Self::Srv6 => "srv6_sys",
        };
        if self.default_port() == 0 { name.to_owned() } else { format!("{name}_{udp_port}") }
    }

    /// UDP destination port that is registered for it; 0 if it is not carried in UDP.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Vxlan => 4789,
            Self::Geneve => 6081,
            Self::Gtpu => 2152,
            Self::Gre | Self::Ip6Gre | Self::Erspan | Self::Ip6Erspan | Self::Srv6 => 0,
        }
    }

    /// IP protocols by which its packets come.
    pub const fn protocols(self) -> &'static [u8] {
        match self {
            Self::Vxlan | Self::Geneve | Self::Gtpu => &[IP_UDP],
            Self::Gre | Self::Ip6Gre | Self::Erspan | Self::Ip6Erspan => &[IP_GRE],
            Self::Srv6 => &[IP_IPIP, IP_IPV6],
        }
    }
}
