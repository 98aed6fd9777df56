//! What travels with a packet besides its bytes.
//!
//! Counterpart: OVS `struct pkt_metadata`. Only the first cache line is initialised for each packet: the connection
//! fields mean something only once [`Metadata::ct_state`] is not 0, the tunnel only once [`Metadata::has_tunnel`] is set.
//! What lies there before is stale, and the accessors do not show it.

use crate::conntrack::ConnId;
use crate::flow::Tunnel;
use crate::types::PortNo;
use zerocopy::FromZeros;

/// Connection tracking metadata; stale while `ct_state` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CtMetadata {
    /// Zone.
    pub zone: u16,
    /// Mark.
    pub mark: u32,
    /// Label, host byte order.
    pub label: u128,
    /// Original direction's protocol; 0 if there is no tuple.
    pub orig_proto: u8,
    /// Whether the tuple is an IPv6 one.
    pub orig_ipv6: bool,
    /// Original direction's source address; IPv4 in the first four bytes.
    pub orig_src: [u8; 16],
    /// Original direction's destination address.
    pub orig_dst: [u8; 16],
    /// Original direction's source port or ICMP type, host byte order.
    pub orig_tp_src: u16,
    /// Original direction's destination port or ICMP code, host byte order.
    pub orig_tp_dst: u16,
    /// The connection that a `ct` action found, for the next one.
    pub conn: Option<ConnLink>,
}

/// What a `ct` action found, remembered for the next one on the same packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnLink {
    /// The connection.
    pub conn: ConnId,
    /// The packet goes against its first one.
    pub reply: bool,
    /// The packet is an ICMP error about it.
    pub related: bool,
}

/// A packet's metadata.
#[derive(Debug)]
#[repr(C)]
pub struct Metadata {
    /// Recirculation id; 0 on the first pass.
    pub recirc_id: u32,
    /// Hash set by the `hash` action.
    pub dp_hash: u32,
    /// QoS priority.
    pub skb_priority: u32,
    /// Packet mark.
    pub pkt_mark: u32,
    /// Port it came in by.
    pub in_port: PortNo,
    /// Connection state bits; 0 while conntrack has not seen the packet.
    pub ct_state: u8,
    /// Whether [`Self::tunnel`] shows outer headers.
    pub has_tunnel: bool,
    /// Number within a run, counted up where packets are received or copied; for traces. Left alone by [`Self::init`].
    pub id: u64,
    ct: CtMetadata,
    tunnel: Tunnel,
}

const _: () =
    assert!(std::mem::offset_of!(Metadata, ct) <= 32, "what every packet has fits into half a cache line");

impl Clone for Metadata {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Copies what means something; stale fields stay behind.
    fn clone_from(&mut self, source: &Self) {
        self.recirc_id = source.recirc_id;
        self.dp_hash = source.dp_hash;
        self.skb_priority = source.skb_priority;
        self.pkt_mark = source.pkt_mark;
        self.in_port = source.in_port;
        self.ct_state = source.ct_state;
        self.id = source.id;
        if let Some(ct) = source.ct() {
            self.ct = *ct;
        }
        self.set_tunnel(source.tunnel());
    }
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            recirc_id: 0,
            dp_hash: 0,
            skb_priority: 0,
            pkt_mark: 0,
            in_port: PortNo(0),
            ct_state: 0,
            has_tunnel: false,
            id: 0,
            ct: CtMetadata::default(),
            tunnel: Tunnel::new_zeroed(),
        }
    }
}

impl Metadata {
    /// Starts a new packet received on `in_port`. Connection and tunnel fields are not touched.
    pub fn init(&mut self, in_port: PortNo) {
        self.recirc_id = 0;
        self.dp_hash = 0;
        self.skb_priority = 0;
        self.pkt_mark = 0;
        self.in_port = in_port;
        self.ct_state = 0;
        self.has_tunnel = false;
    }

    /// Connection fields, if conntrack saw the packet.
    pub fn ct(&self) -> Option<&CtMetadata> {
        (self.ct_state != 0).then_some(&self.ct)
    }

    /// Sets connection state and fields together.
    pub fn set_ct(&mut self, state: u8, ct: CtMetadata) {
        self.ct_state = state;
        self.ct = ct;
    }

    /// Connection fields, to change, if conntrack saw the packet.
    pub fn ct_mut(&mut self) -> Option<&mut CtMetadata> {
        (self.ct_state != 0).then_some(&mut self.ct)
    }

    /// Outer headers, if the packet has any.
    pub fn tunnel(&self) -> Option<&Tunnel> {
        self.has_tunnel.then_some(&self.tunnel)
    }

    /// Sets or clears the outer headers. A tunnel without destination is none.
    pub fn set_tunnel(&mut self, tunnel: Option<&Tunnel>) {
        let tunnel = tunnel.filter(|tunnel| tunnel.is_set());
        self.has_tunnel = tunnel.is_some();
        if let Some(tunnel) = tunnel {
            self.tunnel = *tunnel;
        }
    }
}
