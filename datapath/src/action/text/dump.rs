//! The line of a flow as `ovs-appctl dpctl/dump-flows` prints it.
//!
//! Counterpart: `format_dpif_flow` of OVS `lib/dpctl.c`, `dpif_flow_stats_format` of `lib/dpif.c`.

use std::fmt::{self, Write};

use super::format_actions;
use crate::action::Action;
use crate::flow::text::{FlowText, MAX_VLANS, PortNames, Ufid, format_flow};
use crate::flow::{Flow, SEGMENT_ENDS, relevant_fields};

/// What a flow has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStats {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Milliseconds since the last packet; none if there was none.
    pub used_ms: Option<u64>,
    /// All TCP flags seen, 12 bits.
    pub tcp_flags: u16,
}

impl fmt::Display for FlowStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packets:{}, bytes:{}, used:", self.packets, self.bytes)?;
        match self.used_ms {
            Some(ms) => write!(f, "{}.{:03}s", ms / 1000, ms % 1000)?,
            None => f.write_str("never")?,
        }
        if self.tcp_flags != 0 {
            f.write_str(", flags:")?;
            format_tcp_flags(f, self.tcp_flags)?;
        }
        Ok(())
    }
}

/// TCP flags in the order and with the letters of `tcpdump` (OVS `packet_format_tcp_flags`).
pub(super) const TCP_LETTERS: [(u16, &str); 12] = [
    (1 << 1, "S"),
    (1 << 0, "F"),
    (1 << 3, "P"),
    (1 << 2, "R"),
    (1 << 5, "U"),
    (1 << 4, "."),
    (1 << 6, "E"),
    (1 << 7, "C"),
    (1 << 8, "N"),
    (0x200, "[200]"),
    (0x400, "[400]"),
    (0x800, "[800]"),
];

fn format_tcp_flags(out: &mut dyn Write, flags: u16) -> fmt::Result {
    TCP_LETTERS.iter().filter(|(bit, _)| flags & bit != 0).try_for_each(|(_, letter)| out.write_str(letter))
}

/// A flow of the datapath, to print as one line of a dump.
#[derive(Clone, Copy)]
pub struct DumpText<'a> {
    /// The id of the flow; shown if verbose.
    pub ufid: Option<u128>,
    /// Key; bits that the mask does not have are shown if verbose.
    pub key: &'a Flow,
    /// Mask.
    pub mask: &'a Flow,
    /// What the flow has counted.
    pub stats: FlowStats,
    /// Actions.
    pub actions: &'a [Action],
    /// Names of ports.
    pub names: Option<&'a dyn PortNames>,
    /// Shows all (`-m`).
    pub verbose: bool,
    /// Tags that extraction looks at.
    pub vlan_limit: usize,
}

impl<'a> DumpText<'a> {
    /// A line with the key, the mask and the actions of a flow that no packet has used yet.
    pub fn new(key: &'a Flow, mask: &'a Flow, actions: &'a [Action]) -> Self {
        Self {
            ufid: None,
            key,
            mask,
            stats: FlowStats::default(),
            actions,
            names: None,
            verbose: false,
            vlan_limit: MAX_VLANS,
        }
    }

    fn flow(&self) -> FlowText<'a> {
        format_flow(self.key, Some(self.mask), self.names, self.verbose).vlan_limit(self.vlan_limit)
    }
}

impl fmt::Display for DumpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Some(ufid)) = (self.verbose, self.ufid) {
            write!(f, "{}, ", Ufid(ufid))?;
        }
        write!(f, "{}, {}", self.flow(), self.stats)?;
        if self.verbose {
            f.write_str(", dp:ovs")?;
        }
        write!(f, ", actions:{}", format_actions(self.actions, self.names))?;
        if self.verbose {
            let [metadata, rest] = miniflow_bits(&self.mask.masked(&relevant_fields(self.key)));
            write!(f, ", dp-extra-info:miniflow_bits({metadata},{rest})")?;
        }
        Ok(())
    }
}

/// Words of 64 bits that the mask has bits in, for each of the two units of OVS's map of its `struct flow`.
///
/// OVS prints this as extra information of a flow, and it depends on how its structure is laid out, which is the same as
/// ours from L2 on; `in_port` does not count, because the flow's table is already the port's.
pub(super) fn miniflow_bits(mask: &Flow) -> [usize; 2] {
    let tunnel = &mask.tunnel;
    let [a, b, c, d] = quarters(tunnel.ipv6_dst);
    let [e, f, g, h] = quarters(tunnel.ipv6_src);
    let outer = [
        tunnel.ip_dst.get() | a,
        b | c,
        d | tunnel.ip_src.get(),
        e | f,
        g | h,
        u32::from(tunnel.tun_id.get() != 0),
        u32::from(tunnel.flags | u16::from(tunnel.ip_tos | tunnel.ip_ttl))
            | u32::from(tunnel.tp_src.get() | tunnel.tp_dst.get()),
        u32::from(tunnel.gbp_id.get()) | u32::from(tunnel.gbp_flags | tunnel.erspan_ver) | tunnel.erspan_idx,
        u32::from(tunnel.erspan_dir | tunnel.erspan_hwid | tunnel.gtpu_flags | tunnel.gtpu_msgtype),
        u32::from(tunnel.opts_len != 0 || tunnel.opt_map != 0),
    ];
    let options = tunnel.opts.chunks_exact(8).filter(|word| word.iter().any(|&byte| byte != 0)).count();
    let registers = mask.regs.chunks_exact(2).filter(|pair| pair.iter().any(|&reg| reg != 0)).count();
    let ct = u32::from(mask.ct_state | mask.ct_nw_proto) | u32::from(mask.ct_zone);
    let rest = [
        u32::from(mask.metadata.get() != 0),
        mask.skb_priority | mask.pkt_mark,
        mask.dp_hash,
        mask.recirc_id | ct,
        mask.ct_mark | mask.packet_type.get(),
    ];
    let first = outer.into_iter().chain(rest).filter(|&word| word != 0).count() + options + registers;

    let label = mask.ct_label.get();
    let metadata = [label >> 64, label & u128::from(u64::MAX), (mask.conj_id | mask.actset_output).into()];
    let headers = mask.words()[SEGMENT_ENDS[0]..].iter().filter(|&&word| word != 0).count();
    [first, metadata.into_iter().filter(|&word| word != 0).count() + headers]
}

fn quarters(addr: [u8; 16]) -> [u32; 4] {
    let addr = u128::from_be_bytes(addr);
    [(addr >> 96) as u32, (addr >> 64) as u32, (addr >> 32) as u32, addr as u32]
}
