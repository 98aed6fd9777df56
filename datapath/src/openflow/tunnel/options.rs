//! Which GENEVE option each `tun_metadata` field stands for, and where its value lies in a key
//! (`ovs-ofctl add-tlv-map`).
//!
//! In the datapath, options are as on the wire; in translation, each that the table knows has a place of its own, so that
//! rules can match it wherever it stands in the packet. Counterpart: OVS `lib/tun-metadata.c`.

use std::collections::BTreeMap;

use crate::flow::{Flow, TNL_F_UDPIF, Tunnel};
use crate::openflow::field::{Field, FieldValue, Subfield};
use crate::openflow::rule_match::Match;

/// Bytes of option values that a key has room for (`TUN_METADATA_TOT_OPT_SIZE`).
const SPACE: usize = 256;
/// Bytes of a header of an option.
const HEADER: usize = 4;
/// An option of such a type must be understood (RFC 8926, 3.5).
const CRITICAL: u8 = 0x80;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunOption {
    /// Class of the option.
    pub class: u16,
    /// Type of the option.
    pub kind: u8,
    /// Bytes of its value, a multiple of 4.
    pub len: u8,
    /// Where these are in a key: offsets and lengths.
    parts: Vec<(u8, u8)>,
}

impl TunOption {
    fn read(&self, tunnel: &Tunnel) -> Vec<u8> {
        let part = |&(at, len): &(u8, u8)| &tunnel.opts[usize::from(at)..usize::from(at) + usize::from(len)];
        self.parts.iter().flat_map(part).copied().collect()
    }

    fn write(&self, tunnel: &mut Tunnel, value: &[u8]) {
        let mut value = value.iter().copied();
        for &(at, len) in &self.parts {
            for byte in &mut tunnel.opts[usize::from(at)..usize::from(at) + usize::from(len)] {
                *byte = value.next().unwrap_or(0);
            }
        }
    }
}

/// Why a mapping was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunTableError {
    /// The field stands for an option already.
    #[error("NXTTMFC_ALREADY_MAPPED: tun_metadata{0} is mapped already")]
    Mapped(u8),
    /// A field stands for the option already.
    #[error("NXTTMFC_DUP_ENTRY: the option is mapped already")]
    Duplicate,
    /// Rules rely on it.
    #[error("NXTTMFC_INVALID_TLV_DEL: rules use tun_metadata{0}")]
    Used(u8),
    /// No room is left in keys.
    #[error("NXTTMFC_TABLE_FULL: no room for so many bytes of options")]
    Full,
}

/// The mappings of a bridge, by field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunTable {
    options: BTreeMap<u8, TunOption>,
}

impl TunTable {
    /// All mappings.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &TunOption)> {
        self.options.iter().map(|(&index, option)| (index, option))
    }

    /// Makes `tun_metadata<index>` stand for an option.
    ///
    /// # Errors
    /// [`TunTableError`].
    pub fn add(&mut self, index: u8, class: u16, kind: u8, len: u8) -> Result<(), TunTableError> {
        if self.options.contains_key(&index) {
            return Err(TunTableError::Mapped(index));
        }
        if self.find(class, kind).is_some() {
            return Err(TunTableError::Duplicate);
        }
        let parts = self.place(len).ok_or(TunTableError::Full)?;
        self.options.insert(index, TunOption { class, kind, len, parts });
        Ok(())
    }

    /// Removes a mapping; says whether there was one.
    pub fn remove(&mut self, index: u8) -> bool {
        self.options.remove(&index).is_some()
    }

    /// Removes all mappings.
    pub fn clear(&mut self) {
        self.options.clear();
    }

    /// Free places for `len` bytes: one that holds all of them, else the largest one and more.
    fn place(&self, len: u8) -> Option<Vec<(u8, u8)>> {
        let mut used = [false; SPACE / 4];
        for &(at, len) in self.options.values().flat_map(|option| &option.parts) {
            used[usize::from(at) / 4..usize::from(at) / 4 + usize::from(len) / 4].fill(true);
        }
        let mut parts = Vec::new();
        let mut left = usize::from(len) / 4;
        while left > 0 {
            let mut best = (0, 0);
            let mut at = 0;
            while at < used.len() {
                let free = used[at..].iter().take(left).take_while(|used| !**used).count();
                if free > best.1 {
                    best = (at, free);
                }
                if free == left {
                    break;
                }
                at += free + 1;
            }
            let (at, n) = best;
            if n == 0 {
                return None;
            }
            used[at..at + n].fill(true);
            parts.push(((at * 4) as u8, (n * 4) as u8));
            left -= n;
        }
        Some(parts)
    }

    fn find(&self, class: u16, kind: u8) -> Option<(u8, &TunOption)> {
        self.iter().find(|(_, option)| (option.class, option.kind) == (class, kind))
    }

    /// Length of a field's value; none if it stands for nothing.
    pub fn len_of(&self, index: u8) -> Option<u8> {
        self.options.get(&index).map(|option| option.len)
    }

    /// The value of any field in a key, or its bits in a mask; `tun_metadata` that stands for nothing is zero.
    pub fn field(&self, field: Field, flow: &Flow) -> FieldValue {
        match field {
            Field::TunMetadata(index) => self.get(&flow.tunnel, index),
            _ => field.get(flow),
        }
    }

    /// Writes bits of any field into a key.
    pub fn set_field(&self, field: Field, flow: &mut Flow, value: &FieldValue, mask: &FieldValue) {
        match field {
            Field::TunMetadata(index) => {
                let merged = self.get(&flow.tunnel, index).merged(value, mask);
                self.set(&mut flow.tunnel, index, &merged);
            }
            _ => field.set_masked(flow, value, mask),
        }
    }

    /// Marks bits of any field as significant in a mask; of `tun_metadata`, that it is there too.
    pub fn mark_field(&self, field: Field, mask: &mut Flow, bits: &FieldValue) {
        match field {
            Field::TunMetadata(_) => self.set_field(field, mask, bits, bits),
            _ => field.add_to_mask(mask, bits),
        }
    }

    /// The bits of a part of any field, moved down to bit 0.
    pub fn read(&self, part: &Subfield, flow: &Flow) -> FieldValue {
        self.field(part.field, flow).extract(part.ofs, part.n_bits)
    }

    /// Writes them, taken from the low end of `value`.
    pub fn write(&self, part: &Subfield, flow: &mut Flow, value: &FieldValue) {
        self.set_field(part.field, flow, &value.shl(part.ofs), &part.bits());
    }

    /// Marks them as significant in a mask.
    pub fn mark(&self, part: &Subfield, mask: &mut Flow) {
        self.mark_field(part.field, mask, &part.bits());
    }

    /// A match with its options in their places, as keys have them; none if a field stands for nothing.
    pub fn resolve(&self, wanted: &Match) -> Option<(Flow, Flow)> {
        let (mut flow, mut mask) = (wanted.flow, wanted.mask);
        for option in &wanted.tun_metadata {
            let len = self.len_of(option.index)?;
            let bits = if option.exact { FieldValue::ones(u32::from(len) * 8) } else { option.mask };
            self.set(&mut flow.tunnel, option.index, &option.value);
            self.set(&mut mask.tunnel, option.index, &bits);
        }
        Some((flow, mask))
    }

    /// A field's value, or its bits in a mask; zero if it stands for nothing.
    pub fn get(&self, tunnel: &Tunnel, index: u8) -> FieldValue {
        self.options.get(&index).map_or(FieldValue::ZERO, |o| FieldValue::from_be_bytes(&o.read(tunnel)))
    }

    /// Writes a field, by which its option is there. Does nothing if it stands for nothing.
    pub fn set(&self, tunnel: &mut Tunnel, index: u8, value: &FieldValue) {
        if let Some(option) = self.options.get(&index) {
            let mut bytes = vec![0; usize::from(option.len)];
            value.write_be(&mut bytes);
            option.write(tunnel, &bytes);
            tunnel.opt_map |= 1 << index;
        }
    }

    /// The options that are there, as on the wire, and whether one of them must be understood.
    pub fn to_geneve(&self, tunnel: &Tunnel) -> (Vec<u8>, bool) {
        let (mut bytes, mut critical) = (Vec::new(), false);
        for (_, option) in self.iter().filter(|(index, _)| tunnel.opt_map >> index & 1 != 0) {
            bytes.extend(option.class.to_be_bytes());
            bytes.extend([option.kind, option.len / 4]);
            bytes.extend(option.read(tunnel));
            critical |= option.kind & CRITICAL != 0;
        }
        (bytes, critical)
    }

    /// Gives options that are as on the wire their places. None if they are cut off, or one that must be understood is not
    /// known, or one has another length than it should: such a packet is to be dropped.
    pub fn from_geneve(&self, wire: &Tunnel) -> Option<Tunnel> {
        let mut mapped = Tunnel { opts: [0; 256], opts_len: 0, opt_map: 0, ..*wire };
        mapped.flags &= !TNL_F_UDPIF;
        let mut rest = wire.opts.get(..usize::from(wire.opts_len))?;
        while !rest.is_empty() {
            let (&[c0, c1, kind, len], behind) = rest.split_first_chunk::<HEADER>()?;
            let (value, behind) = behind.split_at_checked(usize::from(len & 0x1f) * 4)?;
            match self.find(u16::from_be_bytes([c0, c1]), kind) {
                Some((index, option)) if usize::from(option.len) == value.len() => {
                    option.write(&mut mapped, value);
                    mapped.opt_map |= 1 << index;
                }
                Some(_) => return None,
                None if kind & CRITICAL != 0 => return None,
                None => {}
            }
            rest = behind;
        }
        Some(mapped)
    }

    /// A mask of mapped fields as a mask of options as on the wire, which are those of `wire`.
    pub fn mask_to_geneve(&self, mask: &Tunnel, wire: &Tunnel) -> [u8; 256] {
        let mut out = [0; 256];
        let len = usize::from(wire.opts_len);
        let mut at = 0;
        while let Some(&[c0, c1, kind, n]) = wire.opts.get(at..len).and_then(<[u8]>::first_chunk::<HEADER>) {
            let end = at + HEADER + usize::from(n & 0x1f) * 4;
            let Some(option) = out.get_mut(at..end.min(len)) else { break };
            option[..HEADER].copy_from_slice(&[0xff, 0xff, 0xff, 0x1f]);
            if let Some((_, known)) = self.find(u16::from_be_bytes([c0, c1]), kind) {
                let bits = known.read(mask);
                option[HEADER..].iter_mut().zip(bits).for_each(|(byte, bits)| *byte = bits);
            }
            at = end;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::FromZeros;

    fn wire(options: &[u8]) -> Tunnel {
        let mut tunnel = Tunnel { flags: TNL_F_UDPIF, opts_len: options.len() as u8, ..Tunnel::new_zeroed() };
        tunnel.opts[..options.len()].copy_from_slice(options);
        tunnel
    }

    #[test]
    fn room_in_keys_is_given_and_taken_back() {
        let mut table = TunTable::default();
        table.add(0, 1, 0, 124).unwrap();
        table.add(1, 1, 1, 124).unwrap();
        assert_eq!(table.add(1, 2, 2, 4), Err(TunTableError::Mapped(1)));
        assert_eq!(table.add(2, 1, 1, 4), Err(TunTableError::Duplicate));
        assert_eq!(table.add(2, 1, 2, 12), Err(TunTableError::Full));
        table.add(2, 1, 2, 8).unwrap();
        assert!(table.remove(0));
        table.add(3, 1, 3, 64).unwrap();
        assert!(table.remove(2));
        // What is left lies in two places.
        table.add(4, 1, 4, 68).unwrap();
        let mut tunnel = Tunnel::new_zeroed();
        let value = FieldValue::from_be_bytes(&(0..68).collect::<Vec<u8>>());
        table.set(&mut tunnel, 4, &value);
        assert_eq!(table.get(&tunnel, 4), value);
        assert_eq!(table.get(&tunnel, 3), FieldValue::ZERO);
    }

    #[test]
    fn what_must_be_understood_is_refused_unless_known() {
        let mut table = TunTable::default();
        table.add(5, 0xffff, 0x81, 4).unwrap();
        let known = [0xff, 0xff, 0x81, 1, 0, 0, 0, 0xa];
        let mapped = table.from_geneve(&wire(&known)).unwrap();
        assert_eq!(table.get(&mapped, 5), FieldValue::new(0xa));
        assert_eq!(table.to_geneve(&mapped), (known.to_vec(), true));
        assert_eq!(table.from_geneve(&wire(&[0xff, 0xff, 0x82, 1, 0, 0, 0, 0xa])), None, "critical");
        assert_eq!(
            table.from_geneve(&wire(&[0xff, 0xff, 0x81, 2, 0, 0, 0, 0, 0, 0, 0, 0xa])),
            None,
            "length"
        );
        assert_eq!(table.from_geneve(&wire(&known[..6])), None, "cut off");
        let other = [0xff, 0xff, 0x02, 0, 0xff, 0xff, 0x81, 1, 0, 0, 0, 0xb];
        let mapped = table.from_geneve(&wire(&other)).unwrap();
        assert_eq!(table.to_geneve(&mapped).0, other[4..], "what is not known and need not be is left out");
        let mut mask = Tunnel::new_zeroed();
        table.set(&mut mask, 5, &FieldValue::new(0xff));
        let bits = table.mask_to_geneve(&mask, &wire(&other));
        assert_eq!(bits[..12], [0xff, 0xff, 0xff, 0x1f, 0xff, 0xff, 0xff, 0x1f, 0, 0, 0, 0xff]);
    }

    proptest! {
        #[test]
        fn any_options(bytes in proptest::collection::vec(any::<u8>(), 0..252)) {
            let mut table = TunTable::default();
            table.add(0, 0, 0, 4).unwrap();
            table.add(1, 0x0101, 1, 8).unwrap();
            let tunnel = wire(&bytes);
            if let Some(mapped) = table.from_geneve(&tunnel) {
                let again = table.from_geneve(&wire(&table.to_geneve(&mapped).0)).unwrap();
                prop_assert_eq!(mapped.opts, again.opts);
            }
            table.mask_to_geneve(&tunnel, &tunnel);
        }
    }
}
