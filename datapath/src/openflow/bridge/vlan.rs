//! VLANs of a bridge's ports: configuration, admission of packets, and the tags that packets have inside and on the way out.
//!
//! Counterpart: `struct xvlan` and the `xbundle_*vlan*` functions of OVS `ofproto/ofproto-dpif-xlate.c`, and the
//! VLAN part of `bundle_set()` in `ofproto/ofproto-dpif.c`.

use std::sync::Arc;

use crate::flow::{Flow, VLAN_CFI};
use crate::openflow::headers::{VLAN_PCP_MASK, VLAN_VID_MASK, ethertype};

/// Tags that a key holds.
pub const MAX_VLANS: usize = 2;

/// A set of VLAN ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSet(Arc<[u64; 64]>);

impl VlanSet {
    /// All ids.
    pub fn all() -> Self {
        Self(Arc::new([u64::MAX; 64]))
    }

    /// Whether `vid` is in the set.
    pub fn contains(&self, vid: u16) -> bool {
        let vid = vid & VLAN_VID_MASK;
        self.0[usize::from(vid / 64)] >> (vid % 64) & 1 != 0
    }

    /// Adds or removes `vid`.
    pub fn set(&mut self, vid: u16, on: bool) {
        let vid = vid & VLAN_VID_MASK;
        let word = &mut Arc::make_mut(&mut self.0)[usize::from(vid / 64)];
        let bit = 1 << (vid % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<T: IntoIterator<Item = u16>>(vids: T) -> Self {
        let mut set = Self(Arc::new([0; 64]));
        vids.into_iter().for_each(|vid| set.set(vid, true));
        set
    }
}

/// What a port does with VLANs (`vlan_mode` of OVS's `Port`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// Untagged packets of one VLAN.
    Access,
    /// Tagged packets of many.
    Trunk,
    /// A trunk whose untagged packets belong to one VLAN; that leaves tagged.
    NativeTagged,
    /// A trunk whose untagged packets belong to one VLAN; that leaves untagged.
    NativeUntagged,
    /// Everything is in one VLAN, whatever tags (customer VLANs) it has.
    Dot1qTunnel,
}

impl VlanMode {
    /// Every mode, by the word that the database and scenario files use.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("access", Self::Access),
        ("trunk", Self::Trunk),
        ("native-tagged", Self::NativeTagged),
        ("native-untagged", Self::NativeUntagged),
        ("dot1q-tunnel", Self::Dot1qTunnel),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, mode)| *mode == self).map_or("", |(word, _)| word)
    }

    /// The mode of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|&(_, mode)| mode)
    }
}

/// Whether packets in VLAN 0 keep a tag for their priority (`other_config:priority-tags` of OVS's `Port`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// Never.
    #[default]
    Never,
    /// If the priority is not 0.
    IfNonzero,
    /// Always, if they came with a tag.
    Always,
}

/// VLAN configuration as the columns of OVS's `Port` tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanConfig {
    /// `vlan_mode`.
    pub mode: Option<VlanMode>,
    /// `tag`.
    pub tag: Option<u16>,
    /// `trunks`; empty is all.
    pub trunks: Vec<u16>,
    /// `cvlans`; empty is all.
    pub cvlans: Vec<u16>,
    /// `other_config:priority-tags`.
    pub priority_tags: PriorityTags,
    /// `other_config:qinq-ethtype` is `802.1q`, not `802.1ad`.
    pub qinq_8021q: bool,
}

/// VLAN behaviour of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlans {
    /// Mode.
    pub mode: VlanMode,
    /// The port's own VLAN, but for trunks.
    pub vid: Option<u16>,
    /// VLANs trunked; `None` is all.
    pub trunks: Option<VlanSet>,
    /// Customer VLANs let through; `None` is all.
    pub cvlans: Option<VlanSet>,
    /// Tags in VLAN 0.
    pub priority_tags: PriorityTags,
    /// Ethernet type of the tag that a tunnel port stands for.
    pub qinq_tpid: u16,
}

impl Vlans {
    /// What `config` comes to.
    pub fn new(config: &VlanConfig) -> Self {
        let mode =
            config.mode.unwrap_or(if config.tag.is_some() { VlanMode::Access } else { VlanMode::Trunk });
        let vid = match mode {
            VlanMode::Trunk => None,
            VlanMode::Access | VlanMode::NativeTagged | VlanMode::NativeUntagged | VlanMode::Dot1qTunnel => {
                Some(config.tag.unwrap_or(0) & VLAN_VID_MASK)
            }
        };
        let set = |vids: &[u16]| {
            let set = || vids.iter().copied().collect::<VlanSet>();
            (!vids.is_empty()).then(set)
        };
        let trunks = match mode {
            VlanMode::Access | VlanMode::Dot1qTunnel => None,
            VlanMode::Trunk => set(&config.trunks),
            VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                native_trunks(set(&config.trunks), vid.unwrap_or(0))
            }
        };
        Self {
            mode,
            vid,
            trunks,
            cvlans: if mode == VlanMode::Dot1qTunnel { set(&config.cvlans) } else { None },
            priority_tags: config.priority_tags,
            qinq_tpid: if config.qinq_8021q { ethertype::VLAN } else { ethertype::QINQ },
        }
    }

    /// A trunk of everything, as packets from no port meet.
    pub fn trunk_all() -> Self {
        Self::new(&VlanConfig::default())
    }

    fn own_vid(&self) -> u16 {
        self.vid.unwrap_or(0)
    }

    fn trunks_vlan(&self, vid: u16) -> bool {
        self.mode != VlanMode::Access && self.trunks.as_ref().is_none_or(|set| set.contains(vid))
    }

    /// Whether customer VLAN `vid` may pass.
    pub fn allows_cvlan(&self, vid: u16) -> bool {
        self.cvlans.as_ref().is_none_or(|set| set.contains(vid))
    }

    /// Whether a packet with these tags inside the bridge may leave here.
    pub fn includes(&self, tags: &Tags) -> bool {
        match self.mode {
            VlanMode::Access => tags.0[0].vid == self.own_vid() && tags.0[1].vid == 0,
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                self.trunks_vlan(tags.0[0].vid)
            }
            VlanMode::Dot1qTunnel => tags.0[0].vid == self.own_vid() && self.allows_cvlan(tags.0[1].vid),
        }
    }

    /// Whether a packet whose outermost tag has id `vid` (0 without a tag) may come in here.
    pub fn admits(&self, vid: u16) -> bool {
        match self.mode {
            VlanMode::Access => vid == 0,
            VlanMode::NativeTagged | VlanMode::NativeUntagged => vid == 0 || self.trunks_vlan(vid),
            VlanMode::Trunk => self.trunks_vlan(vid),
            VlanMode::Dot1qTunnel => self.allows_cvlan(vid),
        }
    }

    /// The tags inside the bridge of a packet that came in here with tags `tags`.
    pub fn on_input(&self, tags: &Tags) -> Tags {
        let outer = tags.0[0];
        let own = Tag {
            tpid: if outer.tpid == 0 { ethertype::VLAN } else { outer.tpid },
            vid: self.own_vid(),
            pcp: outer.pcp,
        };
        match self.mode {
            VlanMode::Access => Tags([own, Tag::default()]),
            VlanMode::Trunk => *tags,
            VlanMode::NativeTagged | VlanMode::NativeUntagged if outer.vid == 0 => Tags([own, tags.0[1]]),
            VlanMode::NativeTagged | VlanMode::NativeUntagged => *tags,
            VlanMode::Dot1qTunnel => Tags([Tag { tpid: self.qinq_tpid, vid: self.own_vid(), pcp: 0 }, outer]),
        }
    }

    /// The tags on the wire of a packet with these tags inside the bridge.
    pub fn on_output(&self, tags: &Tags) -> Tags {
        match self.mode {
            VlanMode::Access => Tags::default(),
            VlanMode::Trunk | VlanMode::NativeTagged => *tags,
            VlanMode::NativeUntagged if tags.0[0].vid == self.own_vid() => tags.popped(),
            VlanMode::NativeUntagged => *tags,
            VlanMode::Dot1qTunnel => tags.popped(),
        }
    }
}

/// The native VLAN is always trunked, and VLAN 0 is not if another is native.
fn native_trunks(trunks: Option<VlanSet>, native: u16) -> Option<VlanSet> {
    let fits = native == 0 || trunks.as_ref().is_some_and(|set| set.contains(native) && !set.contains(0));
    if fits {
        return trunks;
    }
    let mut set = trunks.unwrap_or_else(VlanSet::all);
    set.set(native, true);
    set.set(0, false);
    Some(set)
}

/// One tag, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Ethernet type; 0 for no tag.
    pub tpid: u16,
    /// Id.
    pub vid: u16,
    /// Priority, in place: bits 13 to 15.
    pub pcp: u16,
}

/// A packet's tags, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub [Tag; MAX_VLANS]);

impl Tags {
    /// The tags of a key.
    pub fn of(flow: &Flow) -> Self {
        let mut tags = Self::default();
        for (tag, header) in tags.0.iter_mut().zip(&flow.vlans) {
            let (tpid, tci) = (header.tpid.get(), header.tci.get());
            if !ethertype::is_vlan(tpid) || tci & VLAN_CFI == 0 {
                break;
            }
            *tag = Tag { tpid, vid: tci & VLAN_VID_MASK, pcp: tci & VLAN_PCP_MASK };
        }
        tags
    }

    /// Writes the tags into a key. A tag that says nothing (VLAN 0, priority 0) is left out unless the port wants it.
    pub fn put(&self, flow: &mut Flow, priority_tags: PriorityTags) {
        for (tag, header) in self.0.iter().zip(&mut flow.vlans) {
            let mut tci = tag.vid | tag.pcp & VLAN_PCP_MASK;
            if tci != 0 || priority_tags == PriorityTags::Always && tag.tpid != 0 {
                tci |= VLAN_CFI;
                header.tpid.set(if tag.tpid == 0 { ethertype::VLAN } else { tag.tpid });
            }
            header.tci.set(tci);
        }
    }

    fn popped(&self) -> Self {
        Self([self.0[1], Tag::default()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(vids: [u16; 2]) -> Tags {
        Tags(vids.map(|vid| Tag { tpid: if vid == 0 { 0 } else { ethertype::VLAN }, vid, pcp: 0 }))
    }

    fn vlans(mode: VlanMode, tag: u16, trunks: &[u16]) -> Vlans {
        Vlans::new(&VlanConfig {
            mode: Some(mode),
            tag: Some(tag),
            trunks: trunks.to_vec(),
            cvlans: if mode == VlanMode::Dot1qTunnel { trunks.to_vec() } else { Vec::new() },
            ..VlanConfig::default()
        })
    }

    #[test]
    fn access_ports_take_and_give_untagged_packets() {
        let port = Vlans::new(&VlanConfig { tag: Some(10), ..VlanConfig::default() });
        assert_eq!(port.mode, VlanMode::Access);
        assert!(port.admits(0) && !port.admits(10));
        let inside = port.on_input(&tags([0, 0]));
        assert_eq!(inside.0[0], Tag { tpid: 0x8100, vid: 10, pcp: 0 });
        assert!(port.includes(&inside) && !port.includes(&tags([20, 0])) && !port.includes(&tags([10, 5])));
        assert_eq!(port.on_output(&inside), Tags::default());
    }

    #[test]
    fn native_vlan_is_trunked_and_vlan_0_is_not() {
        let port = vlans(VlanMode::NativeUntagged, 10, &[20]);
        assert!(port.admits(0) && port.admits(10) && port.admits(20) && !port.admits(30));
        assert!(!port.includes(&tags([0, 0])));
        assert_eq!(port.on_output(&port.on_input(&tags([0, 0]))), Tags::default());
        let port = vlans(VlanMode::NativeTagged, 10, &[]);
        assert_eq!(port.on_output(&port.on_input(&tags([0, 0]))).0[0].vid, 10);
        assert!(port.includes(&tags([4095, 0])) && !port.includes(&tags([0, 0])));
    }

    #[test]
    fn tunnel_ports_push_and_pop() {
        let port = vlans(VlanMode::Dot1qTunnel, 30, &[100, 200]);
        assert!(port.admits(100) && !port.admits(101) && !port.admits(0));
        let inside = port.on_input(&tags([100, 0]));
        assert_eq!(inside.0[0], Tag { tpid: 0x88a8, vid: 30, pcp: 0 });
        assert_eq!(inside.0[1].vid, 100);
        assert_eq!(port.on_output(&inside), tags([100, 0]));
    }

    #[test]
    fn priority_tags_in_vlan_0() {
        let mut flow = Flow::default();
        let tag = Tags([Tag { tpid: 0x8100, vid: 0, pcp: 0 }, Tag::default()]);
        tag.put(&mut flow, PriorityTags::IfNonzero);
        assert_eq!(flow.vlans[0].tci.get(), 0);
        tag.put(&mut flow, PriorityTags::Always);
        assert_eq!(flow.vlans[0].tci.get(), VLAN_CFI);
        assert_eq!(Tags::of(&flow), tag);
    }
}
