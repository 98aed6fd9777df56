//! What can be told of a `tnl_push` before it meets a packet: where its headers are, and whether they are whole.

use super::{TnlPush, vport};
use crate::flow::proto::{ETH_IPV4, ETH_IPV6, GRE_CSUM, GRE_KEY, GRE_SEQ};

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// VXLAN, GENEVE without options and GTP-U have headers of 8 bytes; so has a segment routing header without segments.
const TUNNEL: usize = 8;
/// GRE with a sequence number, as ERSPAN has it, and the header that all versions of ERSPAN have.
const ERSPAN: usize = 8 + 4;
/// Flag of a GTP-U header: it has a sequence number, and with it four bytes more (3GPP TS 29.281, 5.1).
pub(crate) const GTPU_SEQ: u8 = 0x02;

/// What stands behind the network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encap {
    /// UDP and VXLAN.
    Vxlan,
    /// UDP and GENEVE.
    Geneve,
    /// UDP and GTP-U.
    Gtpu,
    /// GRE.
    Gre,
    /// ERSPAN over GRE.
    Erspan,
    /// A segment routing header.
    Srv6,
}

/// Where the headers of a `tnl_push` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TnlLayout {
    /// Whether the network header is IPv6.
    pub ipv6: bool,
    /// Where the header behind the network header begins.
    pub l4: u16,
    /// What that is.
    pub encap: Encap,
}

/// Bytes of a GRE header with these flags.
pub const fn gre_len(flags: u16) -> usize {
    4 + 4 * (flags & (GRE_CSUM | GRE_KEY | GRE_SEQ)).count_ones() as usize
}

impl TnlPush {
    /// Where the headers are; none if they are not whole, or not those of the tunnel type.
    pub fn layout(&self) -> Option<TnlLayout> {
        let dl_type = u16::from_be_bytes(*self.header.get(12..)?.first_chunk()?);
        let ipv6 = match dl_type {
            ETH_IPV4 => false,
            ETH_IPV6 => true,
            _ => return None,
        };
        let encap = match self.tnl_type {
            vport::VXLAN => Encap::Vxlan,
            vport::GENEVE => Encap::Geneve,
            vport::GTPU => Encap::Gtpu,
            vport::GRE | vport::IP6GRE => Encap::Gre,
            vport::ERSPAN | vport::IP6ERSPAN => Encap::Erspan,
            vport::SRV6 if ipv6 => Encap::Srv6,
            _ => return None,
        };
        let l4 = ETHERNET + if ipv6 { IPV6 } else { IPV4 };
        let rest = self.header.get(l4..)?;
        let len = match encap {
            Encap::Vxlan | Encap::Geneve => UDP + TUNNEL,
            Encap::Gtpu => {
                let sequence = rest.get(UDP).is_some_and(|flags| flags & GTPU_SEQ != 0);
                UDP + TUNNEL + if sequence { 4 } else { 0 }
            }
            Encap::Gre => gre_len(u16::from_be_bytes(*rest.first_chunk()?)),
            Encap::Erspan => ERSPAN,
            Encap::Srv6 => TUNNEL,
        };
        (rest.len() >= len).then_some(TnlLayout { ipv6, l4: l4 as u16, encap })
    }
}
