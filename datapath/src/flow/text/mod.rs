//! Datapath flow text, both ways: `recirc_id(0),in_port(p1),eth(src=..,dst=..),eth_type(0x0800),ipv4(frag=no)`.
//!
//! Owns the syntax of keys and masks as `ovs-appctl dpctl/dump-flows` prints and `dpctl/add-flow` reads them. It never
//! looks at packets and knows no actions (see [`crate::action::text`]). Counterpart: OVS `lib/odp-util.c`.
//!
//! Text is the same byte for byte, but for a few cases in which OVS loses what it prints or reads:
//! - numbers that do not fit, members named twice: refused, where OVS keeps low bits, or the last;
//! - `nsh(...)` and the ports of `ct_tuple6(...)` are read as they are printed;
//! - `eth_type(0/0xffff)`, for frames without Ethernet type, and tags that a frame ends in, are read back;
//! - GENEVE options without data, type or length, as wildcards are printed, are read as wildcards;
//! - a tunnel's `flags(key)` is kept, and `vxlan(gbp())`, where wildcards are left out: `tun_id` in the one, in the other all;
//! - masks of ERSPAN metadata are printed; its hardware id has all 6 bits;
//! - the ARP opcode 255 of a key is not printed as 65535.
//!
//! Text and [`Flow`] meet in a list of attributes, one for each `name(...)`: `parse` and `format` are between text and
//! attributes, `fit` and `from_flow` between attributes and flows.

pub(crate) mod attr;
mod fit;
pub(crate) mod format;
pub(crate) mod from_flow;
pub(crate) mod geneve;
pub(crate) mod into_flow;
mod names;
pub(crate) mod parse;
pub(crate) mod parse_tunnel;
pub(crate) mod put;
mod read;
pub(crate) mod scan;
pub(crate) mod tunnel;

use std::fmt;

pub use fit::Fit;
pub use names::{AnyNames, PortNames};
pub(crate) use read::{Attrs, Ufid};
pub use read::{FlowSyntax, ParsedFlow, parse_flow, parse_key};
pub use scan::TextError;

use super::Flow;

/// Tags that a key can hold (OVS `FLOW_MAX_VLAN_HEADERS`).
pub const MAX_VLANS: usize = 2;
/// NSH metadata type with four context headers (RFC 8300 section 2.4).
pub(crate) const NSH_MD_TYPE1: u8 = 1;
/// NSH metadata type with variable metadata (RFC 8300 section 2.5).
pub(crate) const NSH_MD_TYPE2: u8 = 2;

/// A flow to print: [`format_flow`].
#[derive(Clone, Copy)]
pub struct FlowText<'a> {
    key: &'a Flow,
    mask: Option<&'a Flow>,
    names: Option<&'a dyn PortNames>,
    verbose: bool,
    parms: from_flow::Parms,
}

/// The text of a key, with its mask if it has one.
///
/// With a mask, members that are wildcarded entirely are left out, unless `verbose` (`dump-flows -m`). Without one the
/// key is a packet's; OVS prints those verbosely. `names` turns port numbers into names.
pub fn format_flow<'a>(
    key: &'a Flow,
    mask: Option<&'a Flow>,
    names: Option<&'a dyn PortNames>,
    verbose: bool,
) -> FlowText<'a> {
    let parms = from_flow::Parms { vlan_limit: MAX_VLANS, nd_ext: false };
    FlowText { key, mask, names, verbose, parms }
}

impl FlowText<'_> {
    /// How many tags extraction looks at (`other_config:vlan-limit`); what lies behind is an Ethernet type.
    #[must_use]
    pub fn vlan_limit(mut self, limit: usize) -> Self {
        self.parms.vlan_limit = limit;
        self
    }

    /// Prints `nd_ext(...)` where there is one; the userspace datapath of OVS leaves it out.
    #[must_use]
    pub fn nd_ext(mut self) -> Self {
        self.parms.nd_ext = true;
        self
    }
}

impl fmt::Display for FlowText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = from_flow::key(self.parms, self.key, self.mask);
        let mask = self.mask.map(|mask| from_flow::mask(self.parms, self.key, mask));
        format::list(f, &key, mask.as_deref(), self.names, self.verbose)
    }
}

#[cfg(test)]
mod tests;
