//! Text to flows: what `dpctl/add-flow` and `netdev-dummy/receive` accept.
//!
//! Counterpart: `odp_flow_from_string` followed by `odp_flow_key_to_flow` and `odp_flow_key_to_mask`.

use std::fmt;

use super::MAX_VLANS;
use super::attr::{Attr, Kind};
use super::fit::{self, Fit, Misfit, Rules};
use super::format;
use super::names::PortNames;
use super::parse::{Parser, Place};
use super::scan::{Cursor, TextError};
use crate::flow::Flow;
use crate::types::MacAddr;

/// A flow read from text.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedFlow {
    /// `ufid:` in front, if there was one.
    pub ufid: Option<u128>,
    /// Key.
    pub key: Flow,
    /// Mask. What the text does not name is wildcarded, but for the recirculation id, the Ethernet type that `eth_type`
    /// says, and the absence of a VLAN tag.
    pub mask: Flow,
}

/// Reads a flow, as `dpctl/add-flow` takes it. See [`FlowSyntax::flow`].
///
/// # Errors
/// As [`FlowSyntax::flow`].
pub fn parse_flow(text: &str, names: Option<&dyn PortNames>) -> Result<ParsedFlow, TextError> {
    FlowSyntax::new(names).flow(text)
}

/// Reads the key of a packet, as `netdev-dummy/receive` takes it. See [`FlowSyntax::key`].
///
/// # Errors
/// As [`FlowSyntax::key`].
pub fn parse_key(text: &str, names: Option<&dyn PortNames>) -> Result<Flow, TextError> {
    FlowSyntax::new(names).key(text)
}

/// How flow text is read.
#[derive(Clone, Copy)]
pub struct FlowSyntax<'a> {
    names: Option<&'a dyn PortNames>,
    vlan_limit: usize,
}

impl<'a> FlowSyntax<'a> {
    /// With these names of ports besides their numbers, and with as many tags as a key can hold.
    pub fn new(names: Option<&'a dyn PortNames>) -> Self {
        Self { names, vlan_limit: MAX_VLANS }
    }

    /// How many tags extraction looks at (`other_config:vlan-limit`).
    #[must_use]
    pub fn vlan_limit(mut self, limit: usize) -> Self {
        self.vlan_limit = limit;
        self
    }

    /// Reads a flow with its mask.
    ///
    /// # Errors
    /// The first word that is not understood; or an attribute that is missing, that does not belong to such a packet
    /// (`tcp()` needs `ipv4(proto=6)`), or that contradicts another.
    pub fn flow(&self, text: &str) -> Result<ParsedFlow, TextError> {
        let mut parser = Parser::new(text, self.names, true);
        let attrs = Attrs::read(&mut parser, &[])?;
        if attrs.key.is_empty() {
            return Err(parser.cur.expected("a key attribute such as `in_port(1)`"));
        }
        attrs.strict(self.vlan_limit, &parser.places)
    }

    /// Reads a packet's key, which has no mask. As in OVS it may lack attributes, which then are zero, and have others
    /// that do not belong to it, which then do not count.
    ///
    /// # Errors
    /// The first word that is not understood, or an attribute that contradicts another.
    pub fn key(&self, text: &str) -> Result<Flow, TextError> {
        self.fitted_key(text).map(|(key, _)| key)
    }

    /// As [`Self::key`], and how the attributes do not fit.
    ///
    /// # Errors
    /// As [`Self::key`].
    pub fn fitted_key(&self, text: &str) -> Result<(Flow, Option<Fit>), TextError> {
        let mut parser = Parser::new(text, self.names, false);
        let attrs = Attrs::read(&mut parser, &[])?;
        let mut key = Flow::default();
        let rules = Rules { vlan_limit: self.vlan_limit, dumped: false };
        match fit::key(&attrs.key, rules, &mut key) {
            Ok(()) => Ok((key, None)),
            Err(misfit) if misfit.fit == Fit::Error => Err(blame(misfit, &parser.places)),
            Err(misfit) => Ok((key, Some(misfit.fit))),
        }
    }
}

/// The attributes of a flow's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attrs {
    pub ufid: Option<u128>,
    pub key: Vec<Attr>,
    pub mask: Vec<Attr>,
}

impl Attrs {
    /// Reads attributes up to the end of the text, or up to one of the words of `stop`.
    pub fn read(parser: &mut Parser<'_>, stop: &[&str]) -> Result<Self, TextError> {
        let mut attrs = Self::default();
        loop {
            parser.cur.skip_delimiters();
            if parser.cur.is_end() || stop.iter().any(|word| parser.cur.sees(word)) {
                return Ok(attrs);
            }
            if parser.cur.sees("ufid:") {
                let at = parser.cur.at();
                if attrs.ufid.replace(ufid(&mut parser.cur)?).is_some() {
                    return Err(Cursor::error_at(at, "`ufid:` is there twice"));
                }
                continue;
            }
            parser.attr(&mut attrs.key, &mut attrs.mask)?;
        }
    }

    /// Writes them as they are, with masks.
    pub fn format(
        &self,
        out: &mut dyn fmt::Write,
        names: Option<&dyn PortNames>,
        verbose: bool,
    ) -> fmt::Result {
        if let Some(ufid) = self.ufid {
            write!(out, "{}", Ufid(ufid))?;
            if self.key.is_empty() {
                return Ok(());
            }
            out.write_str(", ")?;
        }
        format::list(out, &self.key, Some(&self.mask), names, verbose)
    }

    /// The flow that they are, if they fit.
    fn strict(mut self, vlan_limit: usize, places: &[Place]) -> Result<ParsedFlow, TextError> {
        drop_no_ethertype(&mut self.key, &self.mask);
        let (mut key, mut mask) = (Flow::default(), Flow::default());
        let rules = Rules { vlan_limit, dumped: false };
        fit::key(&self.key, rules, &mut key).map_err(|misfit| blame(misfit, places))?;
        fit::mask(&self.mask, rules, &key, &mut mask).map_err(|misfit| blame(misfit, places))?;
        Ok(ParsedFlow { ufid: self.ufid, key, mask })
    }

    /// The flow that a line of a dump is. Attributes that are not printed because they are wildcarded are missing in
    /// it, `eth()` among them, if `packet_type(ns=0,id=0)` says that there is one.
    pub fn dumped(mut self, vlan_limit: usize, places: &[Place]) -> Result<ParsedFlow, TextError> {
        let has = |kind| self.key.iter().any(|attr| attr.kind() == kind);
        if !has(Kind::Ethernet) && self.key.contains(&Attr::PacketType(0)) {
            let eth = Attr::Ethernet { src: MacAddr::ZERO, dst: MacAddr::ZERO };
            self.key.push(eth.clone());
            self.mask.push(eth);
        }
        drop_no_ethertype(&mut self.key, &self.mask);
        let complete = |fitness: Result<(), Misfit>| match fitness {
            Err(misfit) if misfit.fit != Fit::TooLittle => Err(blame(misfit, places)),
            Ok(()) | Err(_) => Ok(()),
        };
        let (mut key, mut mask) = (Flow::default(), Flow::default());
        let rules = Rules { vlan_limit, dumped: true };
        complete(fit::key(&self.key, rules, &mut key))?;
        complete(fit::mask(&self.mask, rules, &key, &mut mask))?;
        Ok(ParsedFlow { ufid: self.ufid, key, mask })
    }
}

/// Takes `eth_type(0/0xffff)` out of a key: it is how a flow is printed that matches frames without Ethernet type, and
/// stands for none in the key.
fn drop_no_ethertype(key: &mut Vec<Attr>, mask: &[Attr]) {
    if mask.contains(&Attr::EthType(u16::MAX)) {
        key.retain(|attr| *attr != Attr::EthType(0));
    }
    let inner = key.iter_mut().find_map(|attr| match attr {
        Attr::Encap(inner) => Some(inner),
        _ => None,
    });
    let inner_mask = mask.iter().find_map(|attr| match attr {
        Attr::Encap(inner) => Some(inner),
        _ => None,
    });
    if let (Some(inner), Some(inner_mask)) = (inner, inner_mask) {
        drop_no_ethertype(inner, inner_mask);
    }
}

/// Finds the place of what does not fit.
fn blame(misfit: Misfit, places: &[Place]) -> TextError {
    let is_it = |place: &&Place| place.depth == misfit.depth && Some(place.kind) == misfit.kind;
    let place = if misfit.last { places.iter().rev().find(is_it) } else { places.iter().find(is_it) };
    Cursor::error_at(place.map_or(0, |place| place.at), misfit.message)
}

/// A flow's id as text: `ufid:` and a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ufid(pub u128);

impl fmt::Display for Ufid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "ufid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (id >> 96) as u32,
            (id >> 80) as u16,
            (id >> 64) as u16,
            (id >> 48) as u16,
            id & 0xffff_ffff_ffff
        )
    }
}

/// Reads `ufid:` and a UUID.
fn ufid(cur: &mut Cursor<'_>) -> Result<u128, TextError> {
    cur.expect("ufid:")?;
    let start = *cur;
    let mut id = 0;
    for (i, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 && !cur.eat("-") {
            return Err(start.expected("a UUID"));
        }
        let part = cur.take_while(|c| c.is_ascii_hexdigit());
        match u128::from_str_radix(part, 16) {
            Ok(value) if part.len() == digits => id = id << (4 * digits) | value,
            _ => return Err(start.expected("a UUID")),
        }
    }
    Ok(id)
}
