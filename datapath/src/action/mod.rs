//! Datapath actions: what is done with the packets of a flow.
//!
//! Counterpart: `enum ovs_action_attr` of OVS `include/linux/openvswitch.h` (`datapath/linux/compat/include`).

mod apply;
mod check;
pub mod exec;
mod set;
#[cfg(test)]
mod set_tests;
pub mod text;
mod tnl;

pub use check::{MAX_NESTING, Unsupported, check, consumes, reenters};
pub use tnl::{Encap, TnlLayout};
pub(crate) use tnl::{GTPU_SEQ, gre_len};

use crate::flow::Flow;
use crate::types::{MacAddr, PortNo, RecircId};

/// A list of datapath actions.
pub type Actions = Box<[Action]>;

/// How the `hash` action computes its hash (OVS `enum ovs_hash_alg`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlg {
    /// Over the L4 5-tuple.
    L4(u32),
    /// Over the 5-tuple, symmetric in source and destination.
    SymL4(u32),
}

/// One datapath action.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send to a port.
    Output(PortNo),
    /// Cut the next output to this many bytes.
    Trunc(u32),
    /// Send to the slow path.
    Userspace(Box<Userspace>),
    /// Overwrite all of a field group with the values in the key.
    Set(Box<SetField>),
    /// Overwrite the bits of a field group that the mask names.
    SetMasked(Box<SetField>),
    /// Push an 802.1Q or 802.1ad tag.
    PushVlan {
        /// 0x8100 or 0x88a8.
        tpid: u16,
        /// Tag control information, CFI bit set, host byte order.
        tci: u16,
    },
    /// Pop the outermost tag.
    PopVlan,
    /// Push an MPLS label stack entry.
    PushMpls {
        /// Ethernet type, 0x8847 or 0x8848.
        ethertype: u16,
        /// Label stack entry, host byte order.
        lse: u32,
    },
    /// Pop an MPLS label stack entry; the argument is the Ethernet type then.
    PopMpls(u16),
    /// Compute `dp_hash`.
    Hash(HashAlg),
    /// Look the packet up again with this id.
    Recirc(RecircId),
    /// Run on a copy.
    Clone(Actions),
    /// Run on a copy with this probability, of 2^32.
    Sample {
        /// Probability in 1/2^32; `u32::MAX` is always.
        probability: u32,
        /// What to run.
        actions: Actions,
    },
    /// Branch on the length of the packet.
    CheckPktLen {
        /// Limit in bytes.
        len: u16,
        /// Run when longer.
        greater: Actions,
        /// Run when not.
        not_greater: Actions,
    },
    /// Apply a meter.
    Meter(u32),
    /// Forget connection state.
    CtClear,
    /// Send through connection tracking.
    Ct(Box<Ct>),
    /// Push an Ethernet header.
    PushEth {
        /// Destination.
        dst: MacAddr,
        /// Source.
        src: MacAddr,
    },
    /// Pop the Ethernet header.
    PopEth,
    /// Push a network service header.
    PushNsh(Box<PushNsh>),
    /// Pop the network service header.
    PopNsh,
    /// Encapsulate with ready-made headers and send to a port.
    TnlPush(Box<TnlPush>),
    /// Decapsulate on a tunnel port and look up again.
    TnlPop(PortNo),
    /// Send to a load-balanced output group.
    LbOutput(u32),
    /// Drop, with a reason code (OVS `enum xlate_error`).
    Drop(u32),
    /// Push an MPLS label stack entry in front of the whole packet, an Ethernet header included.
    AddMpls {
        /// Ethernet type, 0x8847 or 0x8848.
        ethertype: u16,
        /// Label stack entry, host byte order.
        lse: u32,
    },
    /// Decrement the TTL; run these if it ran out. Of the kernel datapath only.
    DecTtl(Actions),
    /// Hand the packet to a sampling group. Of the kernel datapath only.
    Psample {
        /// Group.
        group: u32,
        /// Opaque, 0 to 16 bytes.
        cookie: Box<[u8]>,
    },
}

/// The word for [`Action::Output`], whose text is the port alone.
pub const OUTPUT: &str = "output";

impl Action {
    /// The word that names the action in OVS text (`format_odp_action` of `lib/odp-util.c`), without its arguments.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Output(_) => OUTPUT,
            Self::Trunc(_) => "trunc",
            Self::Userspace(_) => "userspace",
            Self::Set(_) | Self::SetMasked(_) => "set",
            Self::PushVlan { .. } => "push_vlan",
            Self::PopVlan => "pop_vlan",
            Self::PushMpls { .. } => "push_mpls",
            Self::PopMpls(_) => "pop_mpls",
            Self::Hash(_) => "hash",
            Self::Recirc(_) => "recirc",
            Self::Clone(_) => "clone",
            Self::Sample { .. } => "sample",
            Self::CheckPktLen { .. } => "check_pkt_len",
            Self::Meter(_) => "meter",
            Self::CtClear => "ct_clear",
            Self::Ct(_) => "ct",
            Self::PushEth { .. } => "push_eth",
            Self::PopEth => "pop_eth",
            Self::PushNsh(_) => "push_nsh",
            Self::PopNsh => "pop_nsh",
            Self::TnlPush(_) => "tnl_push",
            Self::TnlPop(_) => "tnl_pop",
            Self::LbOutput(_) => "lb_output",
            Self::Drop(_) => "drop",
            Self::AddMpls { .. } => "add_mpls",
            Self::DecTtl(_) => "dec_ttl",
            Self::Psample { .. } => "psample",
        }
    }
}

/// The header that `push_nsh` pushes.
#[derive(Clone, Debug, PartialEq)]
pub struct PushNsh {
    /// Base header, and the context headers of MD type 1.
    pub header: crate::flow::Nsh,
    /// Metadata of MD type 2, a multiple of 4 bytes; else empty.
    pub md2: Box<[u8]>,
}

/// What the `userspace` action passes along (OVS `union user_action_cookie`).
#[derive(Clone, Debug, PartialEq)]
pub struct Userspace {
    /// Netlink port id as printed; 0 in the userspace datapath.
    pub pid: u32,
    /// What the slow path is asked to do.
    pub cookie: UserspaceCookie,
    /// Whether actions are passed along (`actions` flag).
    pub actions: bool,
    /// Output tunnel port, if any.
    pub tunnel_out_port: Option<PortNo>,
}

/// The cookie of a `userspace` action.
#[derive(Clone, Debug, PartialEq)]
pub enum UserspaceCookie {
    /// None.
    None,
    /// `slow_path(reasons)`.
    SlowPath {
        /// Bits of OVS `enum slow_path_reason`.
        reason: u32,
    },
    /// `controller(...)`.
    Controller {
        /// OpenFlow packet-in reason.
        reason: u16,
        /// Do not send the packet itself.
        dont_send: bool,
        /// Packet-in with continuation.
        continuation: bool,
        /// Recirculation id of the frozen state.
        recirc_id: u32,
        /// Cookie of the rule.
        rule_cookie: u64,
        /// Controller id.
        controller_id: u16,
        /// Bytes of the packet to send.
        max_len: u16,
    },
    /// `sFlow(...)`: VLAN TCI and output.
    SFlow {
        /// VLAN TCI.
        vid: u16,
        /// Priority.
        pcp: u8,
        /// Output interface code.
        output: u32,
    },
    /// `flow_sample(...)`.
    FlowSample {
        /// Probability.
        probability: u16,
        /// Collector set.
        collector_set_id: u32,
        /// Observation domain.
        obs_domain_id: u32,
        /// Observation point.
        obs_point_id: u32,
        /// Output port.
        output_port: u32,
        /// 0 none, 1 ingress, 2 egress.
        direction: u8,
    },
    /// `ipfix(output_port=N)`.
    Ipfix {
        /// Output port.
        output_port: u32,
    },
    /// Bytes that are none of the above.
    Raw(Box<[u8]>),
}

/// A field group that `set` writes (OVS `enum ovs_key_attr` nested in `OVS_ACTION_ATTR_SET`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetGroup {
    /// `skb_priority`.
    Priority,
    /// `skb_mark`.
    Mark,
    /// `tunnel`.
    Tunnel,
    /// `eth`.
    Ethernet,
    /// `ipv4`.
    Ipv4,
    /// `ipv6`.
    Ipv6,
    /// `tcp`.
    Tcp,
    /// `udp`.
    Udp,
    /// `sctp`.
    Sctp,
    /// `icmp`.
    Icmp,
    /// `icmpv6`.
    Icmpv6,
    /// `arp`.
    Arp,
    /// `nd`.
    Nd,
    /// `nd_ext`.
    NdExt,
    /// `mpls`.
    Mpls,
    /// `nsh`.
    Nsh,
    /// `recirc_id`; not executable.
    RecircId,
    /// `dp_hash`.
    DpHash,
    /// `in_port`; not executable, as all that follow.
    InPort,
    /// `packet_type`.
    PacketType,
    /// `eth_type`.
    EthType,
    /// `vlan`.
    Vlan,
    /// `tcp_flags`.
    TcpFlags,
    /// `ct_state`.
    CtState,
    /// `ct_zone`.
    CtZone,
    /// `ct_mark`.
    CtMark,
    /// `ct_label`.
    CtLabel,
    /// `ct_tuple4`.
    CtTuple4,
    /// `ct_tuple6`.
    CtTuple6,
}

impl SetGroup {
    /// Whether the datapath can set this group. Text may name others, which no flow can have (OVS
    /// `requires_datapath_assistance` and `odp_execute_set_action` do not expect them either).
    pub const fn is_executable(self) -> bool {
        match self {
            Self::Priority
            | Self::Mark
            | Self::Tunnel
            | Self::Ethernet
            | Self::Ipv4
            | Self::Ipv6
            | Self::Tcp
            | Self::Udp
            | Self::Sctp
            | Self::Icmp
            | Self::Icmpv6
            | Self::Arp
            | Self::Nd
            | Self::NdExt
            | Self::Mpls
            | Self::Nsh
            | Self::DpHash => true,
            Self::RecircId
            | Self::InPort
            | Self::PacketType
            | Self::EthType
            | Self::Vlan
            | Self::TcpFlags
            | Self::CtState
            | Self::CtZone
            | Self::CtMark
            | Self::CtLabel
            | Self::CtTuple4
            | Self::CtTuple6 => false,
        }
    }
}

/// A `set` action: a group, the values in a key, and the bits of it to write.
#[derive(Clone, Debug, PartialEq)]
pub struct SetField {
    /// Which header.
    pub group: SetGroup,
    /// Values; only the group's fields count.
    pub key: Flow,
    /// Bits; all ones in the group for an unmasked set.
    pub mask: Flow,
}

/// The `ct` action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ct {
    /// Commit the connection.
    pub commit: bool,
    /// Force direction.
    pub force: bool,
    /// Zone.
    pub zone: u16,
    /// Mark value and mask.
    pub mark: Option<(u32, u32)>,
    /// Label value and mask.
    pub label: Option<(u128, u128)>,
    /// Helper: `ftp` or `tftp`.
    pub helper: Option<String>,
    /// Timeout policy.
    pub timeout: Option<String>,
    /// Address translation.
    pub nat: Option<Nat>,
}

/// The `nat` part of a `ct` action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nat {
    /// `src`, `dst`, or neither: existing translations only.
    pub kind: NatKind,
    /// First and last address.
    pub addr: Option<(std::net::IpAddr, std::net::IpAddr)>,
    /// First and last port.
    pub port: Option<(u16, u16)>,
    /// `persistent`.
    pub persistent: bool,
    /// `hash`.
    pub hash: bool,
    /// `random`.
    pub random: bool,
}

/// Which address `nat` translates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NatKind {
    /// Apply existing translations.
    #[default]
    Existing,
    /// Source.
    Src,
    /// Destination.
    Dst,
}

/// Tunnel types as `tnl_push` names them (OVS `enum ovs_vport_type`).
pub mod vport {
    /// GRE over IPv4.
    pub const GRE: u32 = 3;
    /// VXLAN.
    pub const VXLAN: u32 = 4;
    /// GENEVE.
    pub const GENEVE: u32 = 5;
    /// ERSPAN over IPv4.
    pub const ERSPAN: u32 = 107;
    /// ERSPAN over IPv6.
    pub const IP6ERSPAN: u32 = 108;
    /// GRE over IPv6.
    pub const IP6GRE: u32 = 109;
    /// GTP-U.
    pub const GTPU: u32 = 110;
    /// Segment routing over IPv6.
    pub const SRV6: u32 = 112;
}

/// The `tnl_push` action.
#[derive(Clone, Debug, PartialEq)]
pub struct TnlPush {
    /// Tunnel port.
    pub tnl_port: PortNo,
    /// Port the encapsulated packet leaves by.
    pub out_port: PortNo,
    /// Tunnel type (OVS `enum ovs_vport_type`).
    pub tnl_type: u32,
    /// Ready-made Ethernet, IP, UDP or GRE and tunnel headers.
    pub header: Box<[u8]>,
}
