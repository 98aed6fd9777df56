//! Reassembly (RFC 791 section 3.2, RFC 8200 section 4.5).

use std::collections::BTreeMap;
use std::net::IpAddr;

use datapath::types::{Span, Time};

use super::packet::{Fragment, IpPacket};

/// Datagrams that can be incomplete at a time; the oldest gives way.
const MAX_DATAGRAMS: usize = 64;
/// Longest datagram, in bytes.
const MAX_LEN: usize = 65_535;
/// How long the first fragment waits for the last (RFC 8200 section 4.5).
const TIMEOUT: Span = Span::from_secs(60);

type Key = (IpAddr, IpAddr, u32, u8);

#[derive(Clone, Debug, Default)]
pub(super) struct Reassembly {
    datagrams: BTreeMap<Key, Datagram>,
}

#[derive(Clone, Debug)]
struct Datagram {
    since: Time,
    parts: BTreeMap<usize, Vec<u8>>,
    len: Option<usize>,
}

impl Reassembly {
    /// Takes a fragment; gives the protocol and the payload of the datagram once it is complete.
    pub fn add(&mut self, now: Time, ip: &IpPacket<'_>, fragment: &Fragment) -> Option<(u8, Vec<u8>)> {
        self.datagrams.retain(|_, datagram| now.since(datagram.since) < TIMEOUT);
        let end = fragment.offset + ip.payload.len();
        if end > MAX_LEN || (fragment.more && !ip.payload.len().is_multiple_of(8)) || ip.payload.is_empty() {
            return None;
        }
        // In IPv4 the protocol is part of the identity; in IPv6 it is that of the first fragment (RFC 8200).
        let key = (ip.src, ip.dst, fragment.id, if ip.src.is_ipv4() { ip.proto } else { 0 });
        if !self.datagrams.contains_key(&key) && self.datagrams.len() >= MAX_DATAGRAMS {
            let oldest =
                self.datagrams.iter().min_by_key(|(_, datagram)| datagram.since).map(|(key, _)| *key);
            oldest.and_then(|key| self.datagrams.remove(&key));
        }
        let empty = || Datagram { since: now, parts: BTreeMap::new(), len: None };
        let datagram = self.datagrams.entry(key).or_insert_with(empty);
        if !fragment.more {
            datagram.len = Some(end);
        }
        datagram.parts.insert(fragment.offset, ip.payload.to_vec());
        let payload = datagram.whole()?;
        self.datagrams.remove(&key);
        Some((ip.proto, payload))
    }
}

impl Datagram {
    fn whole(&self) -> Option<Vec<u8>> {
        let len = self.len?;
        let mut payload = Vec::with_capacity(len);
        for (offset, part) in &self.parts {
            // A gap means that one is missing; an overlap is an attack (RFC 5722) and never becomes whole.
            if *offset != payload.len() {
                return None;
            }
            payload.extend(part);
        }
        (payload.len() == len).then_some(payload)
    }
}
