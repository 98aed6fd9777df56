//! Which GENEVE option each `tun_metadata` field stands for, and where its value lies in a key
//! (`ovs-ofctl add-tlv-map`).
//!
//! In the datapath, options are as on the wire; in translation, each that the table knows has a place of its own, so that
//! rules can match it wherever it stands in the packet. Counterpart: OVS `lib/tun-metadata.c`.

use std::collections::BTreeMap;

use crate::flow::{TNL_F_UDPIF, Tunnel};
use crate::openflow::field::FieldValue;

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
    #[error("tun_metadata{0} is mapped already")]
    Mapped(u8),
    /// A field stands for the option already.
    #[error("the option is mapped already")]
    Duplicate,
    /// No room is left in keys.
    #[error("no room for so many bytes of options")]
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
