//! OpenFlow actions and instructions, as OVS keeps them: one list for a rule, instructions included, in the order in
//! which they are carried out.
//!
//! Owns the types only; text is in `text`. Counterpart: OVS `include/openvswitch/ofp-actions.h`, ovs-actions(7).

use std::net::{IpAddr, Ipv4Addr};

use super::field::{Field, FieldValue, Subfield};
use crate::types::{ConnZone, MacAddr, OfPort, TableId};

/// A list of actions; an empty one drops.
pub type OfActions = Vec<OfAction>;

/// One OpenFlow action.
#[derive(Clone, Debug, PartialEq)]
pub enum OfAction {
    /// To a port; `max_len` bytes of it if that is [`OfPort::CONTROLLER`].
    Output {
        /// Port, real or reserved.
        port: OfPort,
        /// Bytes for a controller; 0 for other ports.
        max_len: u16,
    },
    /// To the port that a field names.
    OutputReg {
        /// Where the port number is.
        src: Subfield,
        /// Bytes, if it is a controller.
        max_len: u16,
    },
    /// To a port, cut to `max_len` bytes.
    OutputTrunc {
        /// Port.
        port: OfPort,
        /// Bytes, at least 14.
        max_len: u32,
    },
    /// To controllers, with details.
    Controller(Box<Controller>),
    /// To a queue of a port.
    Enqueue {
        /// Port.
        port: OfPort,
        /// Queue.
        queue: u32,
    },
    /// To one member of a list of ports.
    Bundle(Box<Bundle>),
    /// To a group.
    Group(u32),
    /// Overwrite bits of a field.
    SetField(Box<SetField>),
    /// Set the VLAN id.
    SetVlanVid {
        /// Id.
        vid: u16,
        /// `mod_vlan_vid`: push a tag if there is none; else (`set_vlan_vid`) there must be one.
        push_if_needed: bool,
    },
    /// Set the VLAN priority.
    SetVlanPcp {
        /// Priority, 0 to 7.
        pcp: u8,
        /// `mod_vlan_pcp`: push a tag if there is none; else (`set_vlan_pcp`) there must be one.
        push_if_needed: bool,
    },
    /// Pop the outermost VLAN tag, if any: `strip_vlan`, `pop_vlan`.
    StripVlan {
        /// Written `pop_vlan` (OpenFlow 1.1+), not `strip_vlan`.
        pop: bool,
    },
    /// Push a tag with this Ethernet type, 0x8100 or 0x88a8.
    PushVlan(u16),
    /// `mod_dl_src`.
    SetEthSrc(MacAddr),
    /// `mod_dl_dst`.
    SetEthDst(MacAddr),
    /// `mod_nw_src`.
    SetIpv4Src(Ipv4Addr),
    /// `mod_nw_dst`.
    SetIpv4Dst(Ipv4Addr),
    /// `mod_nw_tos`: the ToS byte without its two lowest bits.
    SetIpDscp(u8),
    /// `mod_nw_ecn`.
    SetIpEcn(u8),
    /// `mod_nw_ttl`.
    SetIpTtl(u8),
    /// `mod_tp_src`.
    SetL4Src(u16),
    /// `mod_tp_dst`.
    SetL4Dst(u16),
    /// Copy bits from one field to another; both as wide.
    Move {
        /// From.
        src: Subfield,
        /// To.
        dst: Subfield,
    },
    /// Push bits of a field on the stack.
    Push(Subfield),
    /// Pop the stack into bits of a field.
    Pop(Subfield),
    /// Decrement TTL or hop limit; if that makes 0, send to these controllers and stop.
    DecTtl {
        /// Controllers.
        ids: Vec<u16>,
        /// Written without a list: the controller of id 0.
        plain: bool,
    },
    /// Label of the outermost MPLS entry.
    SetMplsLabel(u32),
    /// Traffic class of the outermost MPLS entry.
    SetMplsTc(u8),
    /// TTL of the outermost MPLS entry.
    SetMplsTtl(u8),
    /// Decrement the TTL of the outermost MPLS entry; if that makes 0, stop.
    DecMplsTtl,
    /// Push an MPLS entry with this Ethernet type, 0x8847 or 0x8848.
    PushMpls(u16),
    /// Pop an MPLS entry; the Ethernet type then is this.
    PopMpls(u16),
    /// Decrement the TTL of the network service header.
    DecNshTtl,
    /// Remove a `tun_metadata` field.
    DeleteField(Field),
    /// Push a header.
    Encap(Box<Encap>),
    /// Pop the outermost header; the packet type then is this, or follows from the header (`None`).
    Decap(Option<u32>),
    /// Set the tunnel key.
    SetTunnel {
        /// Key.
        id: u64,
        /// Written `set_tunnel64`.
        wide: bool,
    },
    /// Use this queue for what is sent from here.
    SetQueue(u32),
    /// Use the queue as at the start again.
    PopQueue,
    /// Shorten the rule's timeouts when TCP ends; seconds.
    FinTimeout {
        /// Idle timeout, or 0 to leave it.
        idle: u16,
        /// Hard timeout, or 0 to leave it.
        hard: u16,
    },
    /// Search a table again, then come back.
    Resubmit(Resubmit),
    /// Make a rule.
    Learn(Box<Learn>),
    /// Part of a conjunctive match.
    Conjunction {
        /// Conjunction.
        id: u32,
        /// Which clause, from 0 (text counts from 1).
        clause: u8,
        /// How many clauses, 2 to 64.
        n_clauses: u8,
    },
    /// Choose a link by hash, into a field.
    Multipath(Box<Multipath>),
    /// Does nothing but carry these bytes.
    Note(Vec<u8>),
    /// Stop.
    Exit,
    /// Report a sample to IPFIX collectors.
    Sample(Box<Sample>),
    /// Connection tracking.
    Ct(Box<OfCt>),
    /// Forget connection state.
    CtClear,
    /// Address translation; only inside `ct`.
    Nat(OfNat),
    /// Carry out on a copy.
    Clone(OfActions),
    /// Is the packet larger than this? Into a one-bit field.
    CheckPktLarger {
        /// Limit in bytes, Ethernet header included.
        len: u16,
        /// One bit.
        dst: Subfield,
    },
    /// Translate with a recirculation id where none is needed; for tests of OVS itself.
    DebugRecirc,
    /// Send every packet to the slow path; for tests of OVS itself.
    DebugSlow,
    /// Apply a meter.
    Meter(u32),
    /// Empty the action set.
    ClearActions,
    /// Add to the action set.
    WriteActions(OfActions),
    /// Set bits of `metadata`.
    WriteMetadata {
        /// Value.
        value: u64,
        /// Bits to set.
        mask: u64,
    },
    /// Continue in a later table.
    GotoTable(TableId),
}

/// The `controller` action.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// Bytes of the packet to send.
    pub max_len: u16,
    /// Which controllers.
    pub id: u16,
    /// Reason told (OpenFlow `ofp_packet_in_reason`).
    pub reason: u16,
    /// Passed along.
    pub userdata: Vec<u8>,
    /// Freeze here until the controller resumes.
    pub pause: bool,
    /// Meter; 0 is none.
    pub meter_id: u32,
}

/// Which fields are hashed (OVS `enum nx_hash_fields`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFields {
    /// Ethernet source.
    EthSrc,
    /// L2 to L4, symmetric.
    SymmetricL4,
    /// L3 and TCP or SCTP ports, symmetric.
    SymmetricL3L4,
    /// L3 and TCP, SCTP or UDP ports, symmetric.
    SymmetricL3L4Udp,
    /// L3 source.
    NwSrc,
    /// L3 destination.
    NwDst,
    /// L3, symmetric.
    SymmetricL3,
}

/// The `bundle` and `bundle_load` actions.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// What is hashed.
    pub fields: HashFields,
    /// Basis of the hash.
    pub basis: u16,
    /// Highest random weight; else the first live member.
    pub hrw: bool,
    /// Where the choice is stored (`bundle_load`); output if none.
    pub dst: Option<Subfield>,
    /// Members, in order of preference.
    pub members: Vec<OfPort>,
}

/// `set_field` and `load`.
#[derive(Clone, Debug, PartialEq)]
pub struct SetField {
    /// Field.
    pub field: Field,
    /// Value, already masked.
    pub value: FieldValue,
    /// Bits to write.
    pub mask: FieldValue,
    /// Written `load`: a value loaded into a range of bits.
    pub load: bool,
}

/// Packet type and properties of `encap`.
#[derive(Clone, Debug, PartialEq)]
pub struct Encap {
    /// Packet type of the header to add: namespace, then type.
    pub packet_type: u32,
    /// Properties, in order.
    pub props: Vec<EncapProp>,
}

/// A property of `encap`.
#[derive(Clone, Debug, PartialEq)]
pub enum EncapProp {
    /// NSH metadata type.
    NshMdType(u8),
    /// NSH metadata of type 2.
    NshTlv {
        /// Class.
        class: u16,
        /// Type, critical bit included.
        kind: u8,
        /// Value.
        data: Vec<u8>,
    },
}

/// The `resubmit` action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resubmit {
    /// Ingress port to search with; [`OfPort::IN_PORT`] leaves it.
    pub in_port: OfPort,
    /// Table to search; `None` is the current one.
    pub table: Option<TableId>,
    /// Search with the connection's original addresses and ports.
    pub with_ct_orig: bool,
}

/// The `learn` action.
#[derive(Clone, Debug, PartialEq)]
pub struct Learn {
    /// Seconds; 0 is never.
    pub idle_timeout: u16,
    /// Seconds; 0 is never.
    pub hard_timeout: u16,
    /// Seconds after a FIN or RST; 0 leaves it.
    pub fin_idle_timeout: u16,
    /// Seconds after a FIN or RST; 0 leaves it.
    pub fin_hard_timeout: u16,
    /// Priority of the new rule.
    pub priority: u16,
    /// Its table.
    pub table: TableId,
    /// Its cookie.
    pub cookie: u64,
    /// Tell controllers when it goes.
    pub send_flow_rem: bool,
    /// Delete what was learned with this action.
    pub delete_learned: bool,
    /// Most rules with this table and cookie; 0 is no limit.
    pub limit: u32,
    /// One bit: whether the rule could be made.
    pub result_dst: Option<Subfield>,
    /// What the rule is made of.
    pub specs: Vec<LearnSpec>,
}

/// One part of a learned rule: where bits come from and where they go.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnSpec {
    /// How many bits.
    pub n_bits: u32,
    /// From.
    pub src: LearnSrc,
    /// To.
    pub dst: LearnDst,
}

/// Where bits of a learned rule come from.
#[derive(Clone, Debug, PartialEq)]
pub enum LearnSrc {
    /// The packet.
    Field(Subfield),
    /// The action itself.
    Immediate(FieldValue),
}

/// Where bits of a learned rule go.
#[derive(Clone, Debug, PartialEq)]
pub enum LearnDst {
    /// Its match.
    Match(Subfield),
    /// A `load` action.
    Load(Subfield),
    /// An `output` action.
    Output,
}

/// How `multipath` maps a hash to a link (OVS `enum nx_mp_algorithm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultipathAlgorithm {
    /// Remainder.
    ModuloN,
    /// Equal ranges.
    HashThreshold,
    /// Highest random weight.
    Hrw,
    /// Hash again until in range.
    IterHash,
}

/// The `multipath` action.
#[derive(Clone, Debug, PartialEq)]
pub struct Multipath {
    /// What is hashed.
    pub fields: HashFields,
    /// Basis of the hash.
    pub basis: u16,
    /// How a link is chosen.
    pub algorithm: MultipathAlgorithm,
    /// Number of links less 1.
    pub max_link: u16,
    /// Argument of the algorithm.
    pub arg: u32,
    /// Where the number of the link goes.
    pub dst: Subfield,
}

/// Which way sampled packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleDirection {
    /// As can be told from the port.
    Default,
    /// In.
    Ingress,
    /// Out.
    Egress,
}

/// A number given in the action, or taken from a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberOrField {
    /// Number.
    Number(u32),
    /// Field.
    Field(Subfield),
}

/// The `sample` action.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Probability in 1/65535, at least 1.
    pub probability: u16,
    /// Collector set.
    pub collector_set_id: u32,
    /// Observation domain.
    pub obs_domain: NumberOrField,
    /// Observation point.
    pub obs_point: NumberOrField,
    /// Port sampled; [`OfPort::NONE`] if not told.
    pub sampling_port: OfPort,
    /// Direction.
    pub direction: SampleDirection,
}

/// The `ct` action.
#[derive(Clone, Debug, PartialEq)]
pub struct OfCt {
    /// Commit the connection.
    pub commit: bool,
    /// With `commit`: replace a connection of the opposite direction.
    pub force: bool,
    /// Zone.
    pub zone: CtZone,
    /// Table in which a copy of the packet continues, with connection state.
    pub recirc_table: Option<TableId>,
    /// Helper by TCP or UDP port: 21 is FTP, 69 TFTP, 0 none.
    pub alg: u16,
    /// Actions at commit (`nat`, then `exec(...)`): [`OfAction::Nat`], [`OfAction::SetField`] and [`OfAction::Move`] only.
    pub exec: OfActions,
}

/// The zone of a `ct` action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtZone {
    /// Number.
    Number(ConnZone),
    /// Field, 16 bits.
    Field(Subfield),
}

/// Which address `nat` translates, and to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfNatKind {
    /// Existing translations only.
    #[default]
    Existing,
    /// Source.
    Src,
    /// Destination.
    Dst,
}

/// The `nat` argument of `ct`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfNat {
    /// Which address.
    pub kind: OfNatKind,
    /// First and, if there is more than one, last address.
    pub addr: Option<(IpAddr, Option<IpAddr>)>,
    /// First and, if there is more than one, last port.
    pub port: Option<(u16, Option<u16>)>,
    /// `persistent`.
    pub persistent: bool,
    /// `hash`.
    pub hash: bool,
    /// `random`.
    pub random: bool,
}
