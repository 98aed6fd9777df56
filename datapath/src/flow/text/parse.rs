//! Text to attributes.
//!
//! Counterpart: `odp_flow_from_string`, `parse_odp_key_mask_attr` of OVS `lib/odp-util.c`. What OVS prints but does not
//! read (`nsh(...)`, the ports of `ct_tuple6`) is read here.

use super::attr::{Arp, Attr, CtTuple, Icmp, Ipv4, Ipv6, Kind, MPLS_MAX, Mpls, Nd, Ports};
use super::format::FRAG_NAMES;
use super::put::{CT_STATE_FLAGS, FlagNames, TCP_FLAGS};
use super::scan::{Cursor, Int, Masked, TextError};
use super::{PortNames, parse_tunnel};
use crate::flow::{Nsh, VLAN_CFI};
use crate::types::{MacAddr, PortNo};

/// How deep attributes and actions may stand inside each other (OVS `MAX_ODP_NESTED`, which it does not reach).
pub(crate) const MAX_DEPTH: usize = 31;

/// Where an attribute stands in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// How many `encap(` are around it.
    pub depth: usize,
    pub kind: Kind,
    pub at: usize,
}

/// A reader of attributes.
pub(crate) struct Parser<'a> {
    pub cur: Cursor<'a>,
    pub names: Option<&'a dyn PortNames>,
    /// Whether `value/mask` is allowed.
    pub masks: bool,
    /// How many attributes or actions the cursor is in.
    pub depth: usize,
    /// Where each attribute was.
    pub places: Vec<Place>,
}

/// What an attribute's text says: its key and its mask, of the same kind.
type Pair = Masked<Attr>;

impl<'a> Parser<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a str, names: Option<&'a dyn PortNames>, masks: bool) -> Self {
        Self { cur: Cursor::new(text), names, masks, depth: 0, places: Vec::new() }
    }

    /// Reads one `name(...)` and appends it to both lists.
    pub fn attr(&mut self, key: &mut Vec<Attr>, mask: &mut Vec<Attr>) -> Result<(), TextError> {
        let start = self.cur;
        let name = self.cur.name();
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
            return Err(start.expected("a key attribute such as `in_port(1)`"));
        };
        self.cur.expect("(")?;
        if self.depth == MAX_DEPTH {
            return Err(Cursor::error_at(start.at(), format!("nested more than {MAX_DEPTH} deep")));
        }
        self.places.push(Place { depth: self.depth, kind, at: start.at() });
        self.depth += 1;
        let (attr, attr_mask) = self.inside(kind)?;
        self.depth -= 1;
        key.push(attr);
        mask.push(attr_mask);
        Ok(())
    }

    /// Reads what follows the opening parenthesis, with the closing one.
    fn inside(&mut self, kind: Kind) -> Result<Pair, TextError> {
        Ok(match kind {
            Kind::Priority => both(self.single()?, Attr::Priority),
            Kind::Mark => both(self.single()?, Attr::Mark),
            Kind::DpHash => both(self.single()?, Attr::DpHash),
            Kind::CtZone => both(self.single()?, Attr::CtZone),
            Kind::CtMark => both(self.single()?, Attr::CtMark),
            Kind::EthType => both(self.single()?, Attr::EthType),
            Kind::RecircId => {
                // Flows of different recirculation ids never share a mask.
                let id = self.cur.int()?;
                self.cur.expect(")")?;
                (Attr::RecircId(id), Attr::RecircId(u32::MAX))
            }
            Kind::CtLabel => {
                let label = label(&mut self.cur, self.masks)?;
                self.cur.expect(")")?;
                both(label, Attr::CtLabel)
            }
            Kind::CtState => {
                let (flags, mask) = self.flags(CT_STATE_FLAGS, 0xff)?;
                (Attr::CtState(flags), Attr::CtState(mask))
            }
            Kind::TcpFlags => {
                let (flags, mask) = self.flags(TCP_FLAGS, 0xfff)?;
                (Attr::TcpFlags(flags as u16), Attr::TcpFlags(mask as u16))
            }
            Kind::InPort => both(self.in_port()?, Attr::InPort),
            Kind::CtTuple4 | Kind::CtTuple6 => self.ct_tuple(kind == Kind::CtTuple6)?,
            Kind::Tunnel => both(parse_tunnel::inside(self)?, Attr::Tunnel),
            Kind::PacketType => self.packet_type()?,
            Kind::Encap => self.encap()?,
            Kind::Mpls => self.mpls()?,
            Kind::Vlan => self.vlan()?,
            Kind::Nsh => both(self.nsh()?, Attr::Nsh),
            Kind::Ethernet => {
                let (mut key, mut mask) = (Ports::<MacAddr>::default(), Ports::default());
                self.members(kind.name(), |p, name| {
                    match name {
                        "src" => (key.src, mask.src) = p.mac()?,
                        "dst" => (key.dst, mask.dst) = p.mac()?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                let ethernet = |ports: Ports<MacAddr>| Attr::Ethernet { src: ports.src, dst: ports.dst };
                both((key, mask), ethernet)
            }
            Kind::Ipv4 => self.ipv4_header()?,
            Kind::Ipv6 => self.ipv6_header()?,
            Kind::Tcp => both(self.ports(kind)?, Attr::Tcp),
            Kind::Udp => both(self.ports(kind)?, Attr::Udp),
            Kind::Sctp => both(self.ports(kind)?, Attr::Sctp),
            Kind::Icmp => both(self.icmp(kind)?, Attr::Icmp),
            Kind::Icmpv6 => both(self.icmp(kind)?, Attr::Icmpv6),
            Kind::Arp => self.arp()?,
            Kind::Nd => self.nd()?,
            Kind::NdExt => self.nd_ext()?,
        })
    }

    /// Reads `name=value` members up to and with the closing parenthesis; a comma may stand behind the last. `member`
    /// says whether it knows the name.
    pub fn members(
        &mut self,
        group: &str,
        mut member: impl FnMut(&mut Self, &str) -> Result<bool, TextError>,
    ) -> Result<(), TextError> {
        let mut seen: Vec<&str> = Vec::new();
        while !self.cur.eat(")") {
            let start = self.cur;
            let name = self.cur.name();
            if name.is_empty() || !self.cur.eat("=") {
                return Err(start.expected(&format!("a member of `{group}`, or `)`")));
            }
            if seen.contains(&name) {
                return Err(Cursor::error_at(start.at(), format!("`{name}` is there twice")));
            }
            seen.push(name);
            if !member(self, name)? {
                return Err(start.expected(&format!("a member of `{group}`")));
            }
            if !self.cur.eat(",") && !self.cur.sees(")") {
                return Err(self.cur.expected("`,` or `)`"));
            }
        }
        Ok(())
    }

    /// Reads `value` or `value/mask`.
    pub fn int<T: Int>(&mut self) -> Result<Masked<T>, TextError> {
        self.cur.masked(self.masks, Cursor::int)
    }

    pub fn mac(&mut self) -> Result<Masked<MacAddr>, TextError> {
        self.cur.masked(self.masks, Cursor::mac)
    }

    pub fn ipv4(&mut self) -> Result<Masked<u32>, TextError> {
        self.cur.masked(self.masks, Cursor::ipv4)
    }

    pub fn ipv6(&mut self) -> Result<Masked<[u8; 16]>, TextError> {
        self.cur.masked(self.masks, Cursor::ipv6)
    }

    /// A number that fills the parentheses.
    fn single<T: Int>(&mut self) -> Result<Masked<T>, TextError> {
        let value = self.int()?;
        self.cur.expect(")")?;
        Ok(value)
    }

    /// Flags that fill the parentheses: at least one word.
    fn flags(&mut self, names: FlagNames, allowed: u32) -> Result<Masked<u32>, TextError> {
        if self.cur.sees(")") {
            return Err(self.cur.expected("flags"));
        }
        let flags = self.cur.flags(names, allowed, self.masks)?;
        self.cur.expect(")")?;
        Ok(flags)
    }

    fn in_port(&mut self) -> Result<Masked<u32>, TextError> {
        let start = self.cur;
        let name = self.cur.take_while(|c| c != ')');
        if let Some(PortNo(port)) = self.names.and_then(|names| names.port(name))
            && !name.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.cur.expect(")")?;
            return Ok((port, u32::MAX));
        }
        self.cur = start;
        if start.rest().starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | ' ')) {
            return self.single();
        }
        Err(start.expected("a port's number or name"))
    }

    fn ct_tuple(&mut self, v6: bool) -> Result<Pair, TextError> {
        let mut addrs4 = Masked::<Ports<u32>>::default();
        let mut addrs6 = Masked::<Ports<[u8; 16]>>::default();
        let mut proto = (0, 0);
        let mut ports = Masked::<Ports<u16>>::default();
        let group = if v6 { Kind::CtTuple6 } else { Kind::CtTuple4 };
        self.members(group.name(), |p, name| {
            match (name, v6) {
                ("src", false) => (addrs4.0.src, addrs4.1.src) = p.ipv4()?,
                ("dst", false) => (addrs4.0.dst, addrs4.1.dst) = p.ipv4()?,
                ("src", true) => (addrs6.0.src, addrs6.1.src) = p.ipv6()?,
                ("dst", true) => (addrs6.0.dst, addrs6.1.dst) = p.ipv6()?,
                ("proto", _) => proto = p.int()?,
                ("tp_src", _) | ("src_port", true) => (ports.0.src, ports.1.src) = p.int()?,
                ("tp_dst", _) | ("dst_port", true) => (ports.0.dst, ports.1.dst) = p.int()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        fn tuple<T>(addrs: Ports<T>, proto: u8, ports: Ports<u16>) -> CtTuple<T> {
            CtTuple { src: addrs.src, dst: addrs.dst, proto, tp_src: ports.src, tp_dst: ports.dst }
        }
        Ok(if v6 {
            (
                Attr::CtTuple6(tuple(addrs6.0, proto.0, ports.0)),
                Attr::CtTuple6(tuple(addrs6.1, proto.1, ports.1)),
            )
        } else {
            (
                Attr::CtTuple4(tuple(addrs4.0, proto.0, ports.0)),
                Attr::CtTuple4(tuple(addrs4.1, proto.1, ports.1)),
            )
        })
    }

    fn packet_type(&mut self) -> Result<Pair, TextError> {
        let (mut ns, mut id) = (Masked::<u16>::default(), Masked::<u16>::default());
        self.members(Kind::PacketType.name(), |p, name| {
            match name {
                "ns" => ns = p.int()?,
                "id" => id = p.int()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let join = |ns: u16, id: u16| Attr::PacketType(u32::from(ns) << 16 | u32::from(id));
        Ok((join(ns.0, id.0), join(ns.1, id.1)))
    }

    fn encap(&mut self) -> Result<Pair, TextError> {
        let (mut key, mut mask) = (Vec::new(), Vec::new());
        loop {
            self.cur.skip_delimiters();
            if self.cur.eat(")") {
                return Ok((Attr::Encap(key), Attr::Encap(mask)));
            }
            self.attr(&mut key, &mut mask)?;
        }
    }

    /// Bits of a word: `value` or `value/mask`, of `width` bits at `shift`.
    fn bits(&mut self, width: u32, shift: u32, to: (&mut u32, &mut u32)) -> Result<(), TextError> {
        let ones = (1 << width) - 1;
        let read = |cur: &mut Cursor<'a>| cur.number(width).map(|value| value as u32);
        let (value, mask) = self.cur.masked(self.masks, read)?;
        *to.0 = *to.0 & !(ones << shift) | value << shift;
        *to.1 = *to.1 & !(ones << shift) | (mask & ones) << shift;
        Ok(())
    }

    fn vlan(&mut self) -> Result<Pair, TextError> {
        // A tag is there unless the text says otherwise.
        let (mut key, mut mask) = (u32::from(VLAN_CFI), u32::from(VLAN_CFI));
        self.members(Kind::Vlan.name(), |p, name| {
            match name {
                "vid" => p.bits(12, 0, (&mut key, &mut mask))?,
                "pcp" => p.bits(3, 13, (&mut key, &mut mask))?,
                "cfi" => p.bits(1, 12, (&mut key, &mut mask))?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((Attr::Vlan(key as u16), Attr::Vlan(mask as u16)))
    }

    fn mpls(&mut self) -> Result<Pair, TextError> {
        const FIELDS: [(&str, u32, u32); 4] = [("label", 20, 12), ("tc", 3, 9), ("ttl", 8, 0), ("bos", 1, 8)];
        let (mut key, mut mask) = ([0; MPLS_MAX], [0; MPLS_MAX]);
        let (mut entry, mut seen) = (0, 0);
        while !self.cur.eat(")") {
            let start = self.cur;
            let name = self.cur.name();
            let field = FIELDS.iter().position(|field| field.0 == name);
            let (Some(field), true) = (field, self.cur.eat("=")) else {
                return Err(start.expected("a member of `mpls`, or `)`"));
            };
            // A name that comes again starts the next entry.
            if seen & 1 << field != 0 {
                (entry, seen) = (entry + 1, 0);
            }
            if entry == MPLS_MAX {
                return Err(Cursor::error_at(
                    start.at(),
                    format!("more than {MPLS_MAX} label stack entries"),
                ));
            }
            seen |= 1 << field;
            let (_, width, shift) = FIELDS[field];
            self.bits(width, shift, (&mut key[entry], &mut mask[entry]))?;
            if !self.cur.eat(",") && !self.cur.sees(")") {
                return Err(self.cur.expected("`,` or `)`"));
            }
        }
        let mpls = |lse| Attr::Mpls(Mpls { lse, len: entry + 1 });
        Ok((mpls(key), mpls(mask)))
    }

    fn frag(&mut self) -> Result<Masked<u8>, TextError> {
        let start = self.cur;
        let name = self.cur.name();
        match FRAG_NAMES.iter().position(|frag| *frag == name) {
            Some(frag) => Ok((frag as u8, u8::MAX)),
            None => Err(start.expected("`no`, `first` or `later`")),
        }
    }

    fn ipv4_header(&mut self) -> Result<Pair, TextError> {
        let (mut key, mut mask) = (Ipv4::default(), Ipv4::default());
        self.members(Kind::Ipv4.name(), |p, name| {
            match name {
                "src" => (key.src, mask.src) = p.ipv4()?,
                "dst" => (key.dst, mask.dst) = p.ipv4()?,
                "proto" => (key.proto, mask.proto) = p.int()?,
                "tos" => (key.tos, mask.tos) = p.int()?,
                "ttl" => (key.ttl, mask.ttl) = p.int()?,
                "frag" => (key.frag, mask.frag) = p.frag()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(both((key, mask), Attr::Ipv4))
    }

    fn ipv6_header(&mut self) -> Result<Pair, TextError> {
        let (mut key, mut mask) = (Ipv6::default(), Ipv6::default());
        self.members(Kind::Ipv6.name(), |p, name| {
            match name {
                "src" => (key.src, mask.src) = p.ipv6()?,
                "dst" => (key.dst, mask.dst) = p.ipv6()?,
                "label" => p.bits(20, 0, (&mut key.label, &mut mask.label))?,
                "proto" => (key.proto, mask.proto) = p.int()?,
                "tclass" => (key.tclass, mask.tclass) = p.int()?,
                "hlimit" => (key.hlimit, mask.hlimit) = p.int()?,
                "frag" => (key.frag, mask.frag) = p.frag()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(both((key, mask), Attr::Ipv6))
    }

    fn ports(&mut self, kind: Kind) -> Result<Masked<Ports<u16>>, TextError> {
        let (mut key, mut mask) = (Ports::default(), Ports::default());
        self.members(kind.name(), |p, name| {
            match name {
                "src" => (key.src, mask.src) = p.int()?,
                "dst" => (key.dst, mask.dst) = p.int()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((key, mask))
    }

    fn icmp(&mut self, kind: Kind) -> Result<Masked<Icmp>, TextError> {
        let (mut key, mut mask) = (Icmp::default(), Icmp::default());
        self.members(kind.name(), |p, name| {
            match name {
                "type" => (key.kind, mask.kind) = p.int()?,
                "code" => (key.code, mask.code) = p.int()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((key, mask))
    }

    fn arp(&mut self) -> Result<Pair, TextError> {
        let (mut key, mut mask) = (Arp::default(), Arp::default());
        self.members(Kind::Arp.name(), |p, name| {
            match name {
                "sip" => (key.sip, mask.sip) = p.ipv4()?,
                "tip" => (key.tip, mask.tip) = p.ipv4()?,
                "op" => (key.op, mask.op) = p.int()?,
                "sha" => (key.sha, mask.sha) = p.mac()?,
                "tha" => (key.tha, mask.tha) = p.mac()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(both((key, mask), Attr::Arp))
    }

    fn nd(&mut self) -> Result<Pair, TextError> {
        let (mut key, mut mask) = (Nd::default(), Nd::default());
        self.members(Kind::Nd.name(), |p, name| {
            match name {
                "target" => (key.target, mask.target) = p.ipv6()?,
                "sll" => (key.sll, mask.sll) = p.mac()?,
                "tll" => (key.tll, mask.tll) = p.mac()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(both((key, mask), Attr::Nd))
    }

    fn nd_ext(&mut self) -> Result<Pair, TextError> {
        let (mut reserved, mut options) = (Masked::<u32>::default(), Masked::<u8>::default());
        self.members(Kind::NdExt.name(), |p, name| {
            match name {
                "nd_reserved" => reserved = p.int()?,
                "nd_options_type" => options = p.int()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let nd_ext = |reserved, options_type| Attr::NdExt { reserved, options_type };
        Ok((nd_ext(reserved.0, options.0), nd_ext(reserved.1, options.1)))
    }

    fn nsh(&mut self) -> Result<Masked<Nsh>, TextError> {
        let (mut key, mut mask) = (Nsh::default(), Nsh::default());
        let mut path = Masked::<u32>::default();
        self.members(Kind::Nsh.name(), |p, name| {
            match name {
                "flags" => (key.flags, mask.flags) = p.int()?,
                "ttl" => (key.ttl, mask.ttl) = p.int()?,
                "mdtype" => (key.mdtype, mask.mdtype) = p.int()?,
                "np" => (key.np, mask.np) = p.int()?,
                "spi" => p.bits(24, 8, (&mut path.0, &mut path.1))?,
                "si" => p.bits(8, 0, (&mut path.0, &mut path.1))?,
                "c1" | "c2" | "c3" | "c4" => {
                    let i = usize::from(name.as_bytes()[1] - b'1');
                    let (value, bits) = p.int::<u32>()?;
                    key.context[i].set(value);
                    mask.context[i].set(bits);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        key.path_hdr.set(path.0);
        mask.path_hdr.set(path.1);
        Ok((key, mask))
    }
}

/// The attributes of a key and of its mask.
fn both<T>((key, mask): Masked<T>, make: impl Fn(T) -> Attr) -> Pair {
    (make(key), make(mask))
}

/// Reads a connection label, of 128 bits, with a mask if `masks` allows one.
pub(crate) fn label(cur: &mut Cursor<'_>, masks: bool) -> Result<Masked<u128>, TextError> {
    cur.masked(masks, |cur| {
        let mut bytes = [0; 16];
        cur.big(&mut bytes)?;
        Ok(u128::from_be_bytes(bytes))
    })
}
