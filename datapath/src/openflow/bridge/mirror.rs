//! Mirrors: copies of selected packets to a port, or into a VLAN.
//!
//! Counterpart: OVS `ofproto/ofproto-dpif-mirror.c` and `bridge_configure_mirrors()` of `vswitchd/bridge.c`.

use super::{Bridge, Bundle};
use crate::openflow::rule_match::Match;

/// Most mirrors of a bridge (OVS `MAX_MIRRORS`).
pub const MAX_MIRRORS: usize = 32;

/// Where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// To a port, which then serves nothing else.
    Port(String),
    /// Into a VLAN: to every port that carries it (RSPAN).
    Vlan(u16),
}

/// A mirror. Ports go by name: one that is made later is selected then.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Name.
    pub name: String,
    /// Every packet is selected, whichever ports it comes and leaves by.
    pub select_all: bool,
    /// Ports whose arriving packets are selected.
    pub sources: Vec<String>,
    /// Ports whose leaving packets are selected.
    pub destinations: Vec<String>,
    /// VLANs whose packets are selected among those; empty for all.
    pub vlans: Vec<u16>,
    /// Where copies go; a mirror without output does nothing.
    pub output: Option<MirrorOutput>,
    /// Bytes of each packet that are copied; 0 for all.
    pub snaplen: u16,
    /// Only packets that match are selected.
    pub filter: Option<Box<Match>>,
}

impl Mirror {
    /// A mirror that selects nothing and sends nowhere.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            select_all: false,
            sources: Vec::new(),
            destinations: Vec::new(),
            vlans: Vec::new(),
            output: None,
            snaplen: 0,
            filter: None,
        }
    }

    fn is_sent_to(&self, bundle: &Bundle) -> bool {
        matches!(&self.output, Some(MirrorOutput::Port(port)) if *port == bundle.name)
    }
}

/// A set of a bridge's mirrors, by place: bit 0 is the first.
pub(in crate::openflow) type MirrorSet = u32;

impl Bridge {
    /// The mirrors, in the order in which they act.
    pub fn mirrors(&self) -> &[Mirror] {
        &self.mirrors
    }

    /// Replaces the mirrors.
    pub fn set_mirrors(&mut self, mirrors: Vec<Mirror>) {
        self.mirrors = mirrors;
        self.mirrors.truncate(MAX_MIRRORS);
    }

    fn mirrors_that(&self, wanted: impl Fn(&Mirror) -> bool) -> MirrorSet {
        // A mirror whose output port is not on the bridge does nothing.
        let works = |mirror: &Mirror| match &mirror.output {
            Some(MirrorOutput::Port(port)) => self.bundles.values().any(|bundle| bundle.name == *port),
            Some(MirrorOutput::Vlan(_)) => true,
            None => false,
        };
        let chosen = self.mirrors.iter().enumerate().filter(|(_, mirror)| wanted(mirror) && works(mirror));
        chosen.fold(0, |set, (place, _)| set | 1 << place)
    }

    /// Mirrors of what comes in by a bundle.
    pub(in crate::openflow) fn mirrors_from(&self, bundle: &Bundle) -> MirrorSet {
        self.mirrors_that(|mirror| mirror.select_all || mirror.sources.contains(&bundle.name))
    }

    /// Mirrors of what leaves by a bundle.
    pub(in crate::openflow) fn mirrors_to(&self, bundle: &Bundle) -> MirrorSet {
        self.mirrors_that(|mirror| mirror.select_all || mirror.destinations.contains(&bundle.name))
    }

    /// Whether a bundle is the output of a mirror: it serves nothing else.
    pub(in crate::openflow) fn is_mirror_output(&self, bundle: &Bundle) -> bool {
        self.mirrors.iter().any(|mirror| mirror.is_sent_to(bundle))
    }

    /// Mirrors with the same output as one of them, which is among them: a packet is copied there once.
    pub(in crate::openflow) fn mirrors_like(&self, mirror: &Mirror) -> MirrorSet {
        self.mirrors_that(|other| other.output == mirror.output)
    }
}
