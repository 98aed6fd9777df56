//! The full flow key, laid out as 64-bit words so that it can be compressed, masked, hashed and compared a word at a time.
//!
//! Counterpart: OVS `include/openvswitch/flow.h`. The segments (metadata, L2, L3, L4) hold the same fields as there,
//! because staged lookup, and with it the mask of a megaflow, depends on them; the order inside the metadata
//! segment is ours, such that an untunnelled packet needs only the second map word.

use zerocopy::network_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::types::MacAddr;

/// Any fragment (OVS `FLOW_NW_FRAG_ANY`).
pub const NW_FRAG_ANY: u8 = 1;
/// A fragment with non-zero offset (OVS `FLOW_NW_FRAG_LATER`); always together with [`NW_FRAG_ANY`].
pub const NW_FRAG_LATER: u8 = 2;
/// "Tag present" in a key's VLAN TCI: the bit is CFI/DEI on the wire and is forced to 1 in keys (OVS `VLAN_CFI`).
pub const VLAN_CFI: u16 = 0x1000;

/// Tunnel flag: OAM frame (GENEVE).
pub const TNL_F_OAM: u16 = 1 << 0;
/// Tunnel flag: outer IPv4 "don't fragment".
pub const TNL_F_DONT_FRAGMENT: u16 = 1 << 1;
/// Tunnel flag: outer checksum present.
pub const TNL_F_CSUM: u16 = 1 << 2;
/// Tunnel flag: key present.
pub const TNL_F_KEY: u16 = 1 << 3;
/// All tunnel flags that can be matched.
pub const TNL_F_MASK: u16 = (1 << 4) - 1;
/// Tunnel flag, internal: [`Tunnel::opts`] holds raw GENEVE options, of which there may be none
/// (OVS `FLOW_TNL_F_UDPIF`). Set by GENEVE decapsulation.
pub const TNL_F_UDPIF: u16 = 1 << 4;

/// Tunnel metadata: the outer headers of a packet that a tunnel port received, or is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub struct Tunnel {
    /// Outer IPv4 source.
    pub ip_src: U32,
    /// Outer IPv4 destination. A packet has tunnel metadata if this or [`Self::ipv6_dst`] is not zero.
    pub ip_dst: U32,
    /// Outer IPv6 source.
    pub ipv6_src: [u8; 16],
    /// Outer IPv6 destination.
    pub ipv6_dst: [u8; 16],
    /// Tunnel key: VNI, GRE key, TEID.
    pub tun_id: U64,
    /// `TNL_F_*`, host byte order.
    pub flags: u16,
    /// Outer ToS or traffic class.
    pub ip_tos: u8,
    /// Outer TTL or hop limit.
    pub ip_ttl: u8,
    /// Outer UDP source port.
    pub tp_src: U16,
    /// Outer UDP destination port.
    pub tp_dst: U16,
    /// VXLAN group policy id.
    pub gbp_id: U16,
    /// VXLAN group policy flags.
    pub gbp_flags: u8,
    /// ERSPAN version.
    pub erspan_ver: u8,
    /// ERSPAN (v1) index, host byte order.
    pub erspan_idx: u32,
    /// ERSPAN (v2) direction.
    pub erspan_dir: u8,
    /// ERSPAN (v2) hardware id.
    pub erspan_hwid: u8,
    /// GTP-U flags.
    pub gtpu_flags: u8,
    /// GTP-U message type.
    pub gtpu_msgtype: u8,
    /// Bytes of raw GENEVE options in [`Self::opts`]; 0 once they were mapped to fields.
    pub opts_len: u8,
    /// Zero.
    pub pad: [u8; 3],
    /// Which of the 64 `tun_metadata` fields are present, when mapped.
    pub opt_map: u64,
    /// GENEVE options: raw as on the wire in the datapath, else the values of mapped fields.
    pub opts: [u8; 256],
}

impl Tunnel {
    /// Whether there is tunnel metadata at all.
    pub fn is_set(&self) -> bool {
        self.ip_dst.get() != 0 || self.ipv6_dst != [0; 16]
    }
}

/// One VLAN tag in a key.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct VlanHeader {
    /// 0x8100 or 0x88a8; 0 without a tag.
    pub tpid: U16,
    /// Priority, [`VLAN_CFI`], id; 0 without a tag.
    pub tci: U16,
}

/// Network service header (RFC 8300).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Nsh {
    /// O and C bits as OVS keeps them: bit 0 OAM, bit 1 context.
    pub flags: u8,
    /// Time to live, 6 bits.
    pub ttl: u8,
    /// Metadata type.
    pub mdtype: u8,
    /// Next protocol.
    pub np: u8,
    /// Service path id (24 bits) and service index (8 bits).
    pub path_hdr: U32,
    /// The four context headers of MD type 1.
    pub context: [U32; 4],
}

/// A packet's flow key, or, with the same layout, a mask of significant bits. All padding is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(8))]
pub struct Flow {
    // ---- metadata segment; map word 0
    /// Outer headers.
    pub tunnel: Tunnel,
    /// OpenFlow metadata.
    pub metadata: U64,
    /// OVS registers, host byte order.
    pub regs: [u32; 32],
    /// QoS priority.
    pub skb_priority: u32,
    /// Packet mark.
    pub pkt_mark: u32,
    /// Conjunction id found by the classifier.
    pub conj_id: u32,
    /// Output port in the action set.
    pub actset_output: u32,
    /// Connection label.
    pub ct_label: U128,
    /// Connection mark.
    pub ct_mark: u32,
    /// Zero.
    pub pad0: u32,
    // ---- metadata segment; map word 1
    /// Datapath hash.
    pub dp_hash: u32,
    /// Port: a datapath port number in the datapath, an OpenFlow port number in translation.
    pub in_port: u32,
    /// Recirculation id.
    pub recirc_id: u32,
    /// Connection state bits (OVS `CS_*`); 0 if conntrack did not see the packet.
    pub ct_state: u8,
    /// Protocol of the connection's original direction.
    pub ct_nw_proto: u8,
    /// Zone.
    pub ct_zone: u16,
    /// OpenFlow packet type: namespace, then type; 0 is Ethernet.
    pub packet_type: U32,
    /// Zero.
    pub pad1: u32,
    // ---- L2 segment
    /// Ethernet destination.
    pub dl_dst: MacAddr,
    /// Ethernet source.
    pub dl_src: MacAddr,
    /// Ethernet type behind VLAN tags; 0x05ff for frames without one.
    pub dl_type: U16,
    /// Zero.
    pub pad2: U16,
    /// VLAN tags, outermost first.
    pub vlans: [VlanHeader; 2],
    /// MPLS label stack entries, top first; the fourth is padding.
    pub mpls_lse: [U32; 4],
    // ---- L3 segment
    /// IPv4 source or ARP sender.
    pub nw_src: U32,
    /// IPv4 destination or ARP target.
    pub nw_dst: U32,
    /// Original direction's IPv4 source.
    pub ct_nw_src: U32,
    /// Original direction's IPv4 destination.
    pub ct_nw_dst: U32,
    /// IPv6 source.
    pub ipv6_src: [u8; 16],
    /// IPv6 destination.
    pub ipv6_dst: [u8; 16],
    /// Original direction's IPv6 source.
    pub ct_ipv6_src: [u8; 16],
    /// Original direction's IPv6 destination.
    pub ct_ipv6_dst: [u8; 16],
    /// IPv6 flow label, 20 bits.
    pub ipv6_label: U32,
    /// `NW_FRAG_*`.
    pub nw_frag: u8,
    /// ToS or traffic class: DSCP and ECN.
    pub nw_tos: u8,
    /// TTL or hop limit.
    pub nw_ttl: u8,
    /// IP protocol, or the low 8 bits of an ARP opcode.
    pub nw_proto: u8,
    // ---- L4 segment
    /// Neighbour discovery target.
    pub nd_target: [u8; 16],
    /// ARP sender, or ND source link-layer, hardware address.
    pub arp_sha: MacAddr,
    /// ARP target, or ND target link-layer, hardware address.
    pub arp_tha: MacAddr,
    /// TCP flags, 12 bits; or ND options type.
    pub tcp_flags: U16,
    /// Zero.
    pub pad3: U16,
    /// Network service header.
    pub nsh: Nsh,
    /// TCP, UDP, SCTP source port; ICMP type.
    pub tp_src: U16,
    /// TCP, UDP, SCTP destination port; ICMP code.
    pub tp_dst: U16,
    /// Original direction's source port or ICMP type.
    pub ct_tp_src: U16,
    /// Original direction's destination port or ICMP code.
    pub ct_tp_dst: U16,
    /// IGMP group, or the reserved word of ND.
    pub igmp_group_ip4: U32,
    /// Zero.
    pub pad4: u32,
}

/// 64-bit words in a [`Flow`].
pub const FLOW_WORDS: usize = size_of::<Flow>() / 8;

/// A [`Flow`] as words.
pub type FlowWords = [u64; FLOW_WORDS];

/// For each segment (metadata, L2, L3, L4) the index of the first word behind it.
pub const SEGMENT_ENDS: [usize; 4] = [
    std::mem::offset_of!(Flow, dl_dst) / 8,
    std::mem::offset_of!(Flow, nw_src) / 8,
    std::mem::offset_of!(Flow, nd_target) / 8,
    FLOW_WORDS,
];

const _: () = {
    assert!(FLOW_WORDS <= 128);
    assert!(std::mem::offset_of!(Flow, dp_hash) == 64 * 8, "what every packet has starts at map word 1");
    assert!(std::mem::offset_of!(Flow, dl_dst) % 8 == 0);
    assert!(std::mem::offset_of!(Flow, nw_src) % 8 == 0);
    assert!(std::mem::offset_of!(Flow, nd_target) % 8 == 0);
};

impl Default for Flow {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl Flow {
    /// The mask that looks at every bit.
    pub fn all_ones() -> Self {
        zerocopy::transmute!([u64::MAX; FLOW_WORDS])
    }

    /// The words, in native byte order.
    pub fn words(&self) -> &FlowWords {
        zerocopy::transmute_ref!(self)
    }

    /// The words, to change.
    pub fn words_mut(&mut self) -> &mut FlowWords {
        zerocopy::transmute_mut!(self)
    }

    /// `self & mask`, field by field.
    #[must_use]
    pub fn masked(&self, mask: &Self) -> Self {
        let mut out = *self;
        for (word, mask) in out.words_mut().iter_mut().zip(mask.words()) {
            *word &= mask;
        }
        out
    }

    /// Adds the bits of `other` to this mask.
    pub fn or_mask(&mut self, other: &Self) {
        for (word, other) in self.words_mut().iter_mut().zip(other.words()) {
            *word |= other;
        }
    }

    /// Whether `packet` equals this key in all bits of `mask`.
    pub fn matches(&self, mask: &Self, packet: &Self) -> bool {
        self.words()
            .iter()
            .zip(mask.words())
            .zip(packet.words())
            .all(|((key, mask), packet)| (key ^ packet) & mask == 0)
    }
}
