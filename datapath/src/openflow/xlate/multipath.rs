//! Choosing one of several links or ports by a hash: `multipath`, `bundle` and `bundle_load`.
//!
//! Counterpart: OVS `lib/multipath.c` and `lib/bundle.c`.

use super::ctx::Ctx;
use super::hash;
use crate::openflow::action::{Bundle, Multipath, MultipathAlgorithm};
use crate::openflow::field::{FieldValue, Subfield};
use crate::types::OfPort;

/// With more links than this, computing a weight for each is not worth it.
const MAX_HRW_LINKS: u32 = 64;

impl Ctx<'_, '_> {
    /// `multipath`.
    pub(super) fn multipath(&mut self, mp: &Multipath) {
        hash::mark_fields(&self.flow, &mut self.wc, mp.fields);
        let hash = hash::fields(&self.flow, mp.fields, mp.basis);
        let link = choose_link(hash, mp.algorithm, u32::from(mp.max_link) + 1, mp.arg);
        self.load_number(&mp.dst, link);
    }

    /// `bundle` and `bundle_load`.
    pub(super) fn bundle(&mut self, bundle: &Bundle, last: bool, in_bucket: bool) {
        let port = if bundle.hrw { self.heaviest_member(bundle) } else { self.first_member(bundle) };
        let port = port.unwrap_or(OfPort::NONE);
        match &bundle.dst {
            Some(dst) => self.load_number(dst, u32::from(port.0)),
            None => self.output(port, 0, false, last, in_bucket),
        }
    }

    fn first_member(&self, bundle: &Bundle) -> Option<OfPort> {
        bundle.members.iter().copied().find(|port| self.is_usable(*port))
    }

    /// The live member with the highest random weight (RFC 2992, 3).
    fn heaviest_member(&mut self, bundle: &Bundle) -> Option<OfPort> {
        if bundle.members.len() > 1 {
            hash::mark_fields(&self.flow, &mut self.wc, bundle.fields);
        }
        let basis = hash::fields(&self.flow, bundle.fields, bundle.basis);
        let mut best: Option<(u32, OfPort)> = None;
        for (i, port) in (0..).zip(&bundle.members) {
            let weight = hash::int(i, basis);
            if self.is_usable(*port) && best.is_none_or(|(highest, _)| weight > highest) {
                best = Some((weight, *port));
            }
        }
        best.map(|(_, port)| port)
    }

    /// Whether a member may be chosen: a port if its link is up, a reserved one always.
    fn is_usable(&self, port: OfPort) -> bool {
        match port {
            OfPort::IN_PORT | OfPort::TABLE | OfPort::NORMAL | OfPort::FLOOD | OfPort::ALL | OfPort::NONE => {
                true
            }
            OfPort::CONTROLLER => false,
            _ => self.bridge.port(port).is_some_and(|port| port.is_alive()),
        }
    }

    /// Writes a number into a field.
    pub(super) fn load_number(&mut self, dst: &Subfield, number: u32) {
        let options = &self.bridge.tun_table;
        options.mark(dst, &mut self.wc);
        options.write(dst, &mut self.flow, &FieldValue::new(number.into()));
        self.report_subfield(dst);
    }
}

/// The link, below `n_links`, for a hash.
fn choose_link(hash: u32, algorithm: MultipathAlgorithm, n_links: u32, arg: u32) -> u32 {
    match algorithm {
        MultipathAlgorithm::ModuloN => hash % n_links,
        MultipathAlgorithm::HashThreshold if n_links == 1 => 0,
        MultipathAlgorithm::HashThreshold => hash / (u32::MAX / n_links + 1),
        MultipathAlgorithm::Hrw if n_links <= MAX_HRW_LINKS => {
            // The first of those with the highest weight.
            (0..n_links).rev().max_by_key(|&link| hash::int(hash, link)).unwrap_or(0)
        }
        MultipathAlgorithm::Hrw => iterate(hash, n_links, 0),
        MultipathAlgorithm::IterHash => iterate(hash, n_links, arg),
    }
}

/// Hashes again until the result, modulo a number not much larger than `n_links`, is a link.
fn iterate(hash: u32, n_links: u32, modulo: u32) -> u32 {
    let fits = modulo >= n_links && modulo / 2 <= n_links;
    let modulo = if fits { modulo } else { n_links.next_power_of_two() };
    (0..u32::MAX).map(|i| hash::int(hash, i) % modulo).find(|link| *link < n_links).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_stays_in_range_and_reaches_all_links() {
        use MultipathAlgorithm::{HashThreshold, Hrw, IterHash, ModuloN};
        for algorithm in [ModuloN, HashThreshold, Hrw, IterHash] {
            for n_links in [1, 2, 5, 64, 65, 1000, 65536] {
                for arg in [0, n_links, u32::MAX] {
                    let links = (0..64u32).map(|i| i.wrapping_mul(0x9e37_79b1)).chain([0, u32::MAX]);
                    let links: Vec<_> =
                        links.map(|hash| choose_link(hash, algorithm, n_links, arg)).collect();
                    assert!(links.iter().all(|link| *link < n_links), "{algorithm:?} {n_links} {arg}");
                    let all = (0..n_links.min(5)).all(|link| n_links > 5 || links.contains(&link));
                    assert!(all, "{algorithm:?} {n_links} {arg}");
                }
            }
        }
    }
}
