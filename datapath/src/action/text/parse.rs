//! Text to actions.
//!
//! What OVS prints but does not read is read here too: `hash`, `push_mpls`, `pop_mpls`, `push_eth`, `pop_eth`,
//! `dec_ttl`, `recirc(0x1)`, and `drop` inside other actions.

use super::{ct, header_parse, set, userspace};
use crate::action::{Action, Actions, HashAlg, PushNsh, TnlPush};
use crate::flow::Nsh;
use crate::flow::text::parse::{MAX_DEPTH, Parser};
use crate::flow::text::scan::{Cursor, Int};
use crate::flow::text::{NSH_MD_TYPE1, NSH_MD_TYPE2, TextError};
use crate::types::{MacAddr, PortNo, RecircId};

/// Most actions in a list, nested ones included: more do not go into a Netlink attribute.
const MAX_ACTIONS: usize = 16_383;
/// Most bytes of metadata of a network service header.
const NSH_MD_MAX: usize = 248;
/// Most bytes of a psample cookie.
const PSAMPLE_COOKIE_MAX: usize = 16;

/// A reader of actions.
pub(super) struct ActionParser<'a> {
    /// The reader of the attributes in `set(...)`, whose cursor is that of the actions.
    pub attrs: Parser<'a>,
    count: usize,
}

impl<'a> ActionParser<'a> {
    pub fn new(attrs: Parser<'a>) -> Self {
        Self { attrs, count: 0 }
    }

    pub fn cur(&mut self) -> &mut Cursor<'a> {
        &mut self.attrs.cur
    }

    /// Reads actions to the end of the text, or to one of the words of `stop`.
    pub fn all(&mut self, stop: &[&str]) -> Result<Actions, TextError> {
        let mut actions = Vec::new();
        loop {
            self.cur().skip_delimiters();
            let cur = self.attrs.cur;
            if cur.is_end() || stop.iter().any(|word| cur.sees(word)) {
                return Ok(actions.into());
            }
            if self.drop(!actions.is_empty(), "the end")? {
                return Ok([Action::Drop(0)].into());
            }
            actions.push(self.one()?);
            self.delimiter()?;
        }
    }

    /// Reads the actions inside parentheses up to and with the closing one. An empty list may be written `drop`.
    fn nested(&mut self) -> Result<Actions, TextError> {
        let mut actions = Vec::new();
        loop {
            self.cur().skip_delimiters();
            if self.cur().eat(")") {
                return Ok(actions.into());
            }
            if self.drop(!actions.is_empty(), "`)`")? {
                self.cur().expect(")")?;
                return Ok(actions.into());
            }
            actions.push(self.one()?);
            self.delimiter()?;
        }
    }

    /// Reads `drop`, which stands alone.
    fn drop(&mut self, others: bool, end: &str) -> Result<bool, TextError> {
        let start = self.attrs.cur;
        let word = self.cur().port_name();
        if !word.eq_ignore_ascii_case("drop") {
            self.attrs.cur = start;
            return Ok(false);
        }
        self.cur().skip_delimiters();
        let cur = self.attrs.cur;
        let alone = cur.is_end() || cur.sees(")") || (end == "the end" && cur.sees("dp-extra-info:"));
        if others || !alone {
            return Err(Cursor::error_at(start.at(), "`drop` stands alone"));
        }
        Ok(true)
    }

    fn delimiter(&mut self) -> Result<(), TextError> {
        let cur = self.attrs.cur;
        let next = cur.rest().chars().next();
        if next.is_none_or(|c| c == ')' || c == ',' || c.is_ascii_whitespace()) {
            Ok(())
        } else {
            Err(cur.expected("`,`"))
        }
    }

    /// Reads a port's number or name.
    pub fn port(&mut self) -> Result<PortNo, TextError> {
        let start = self.attrs.cur;
        let word = self.cur().port_name();
        if let Some(port) = self.attrs.names.and_then(|names| names.port(word))
            && !word.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Ok(port);
        }
        self.attrs.cur = start;
        if start.rest().starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+')) {
            return self.cur().int().map(PortNo);
        }
        Err(start.expected("a port's number or name"))
    }

    fn one(&mut self) -> Result<Action, TextError> {
        let start = self.attrs.cur;
        if self.attrs.depth >= MAX_DEPTH {
            return Err(Cursor::error_at(start.at(), format!("nested more than {MAX_DEPTH} deep")));
        }
        if self.count == MAX_ACTIONS {
            return Err(Cursor::error_at(start.at(), format!("more than {MAX_ACTIONS} actions")));
        }
        self.count += 1;
        self.attrs.depth += 1;
        let action = self.by_name(start);
        self.attrs.depth -= 1;
        action
    }

    fn by_name(&mut self, start: Cursor<'a>) -> Result<Action, TextError> {
        let word = self.cur().name();
        let open = self.cur().eat("(");
        Ok(match (word, open) {
            ("trunc", true) => Action::Trunc(self.single()?),
            ("lb_output", true) => Action::LbOutput(self.single()?),
            ("meter", true) => Action::Meter(self.single()?),
            ("recirc", true) => Action::Recirc(RecircId(self.single()?)),
            ("tnl_pop", true) => {
                let port = self.port()?;
                self.cur().expect(")")?;
                Action::TnlPop(port)
            }
            ("userspace", true) => Action::Userspace(Box::new(userspace::parse(self)?)),
            ("set", true) => set::parse(&mut self.attrs)?,
            ("push_vlan", true) => self.push_vlan()?,
            ("pop_vlan", false) => Action::PopVlan,
            ("push_mpls", true) => {
                let (ethertype, lse) = self.mpls("push_mpls")?;
                Action::PushMpls { ethertype, lse }
            }
            ("add_mpls", true) => {
                let (ethertype, lse) = self.mpls("add_mpls")?;
                Action::AddMpls { ethertype, lse }
            }
            ("pop_mpls", true) => {
                self.cur().expect("eth_type=")?;
                Action::PopMpls(self.single()?)
            }
            ("push_eth", true) => self.push_eth()?,
            ("pop_eth", false) => Action::PopEth,
            ("push_nsh", true) => self.push_nsh()?,
            ("pop_nsh", true) => {
                self.cur().expect(")")?;
                Action::PopNsh
            }
            ("hash", true) => self.hash()?,
            ("clone", true) => Action::Clone(self.nested()?),
            ("sample", true) => self.sample()?,
            ("check_pkt_len", true) => self.check_pkt_len()?,
            ("dec_ttl", true) => {
                self.cur().expect("le_1(")?;
                let actions = self.nested()?;
                self.cur().expect(")")?;
                Action::DecTtl(actions)
            }
            ("ct", _) => Action::Ct(Box::new(ct::parse(self.cur(), open)?)),
            ("ct_clear", false) => Action::CtClear,
            ("psample", true) => self.psample()?,
            ("tnl_push", true) => self.tnl_push()?,
            _ => {
                self.attrs.cur = start;
                self.port().map(Action::Output).map_err(|_| start.expected("an action, or a port"))?
            }
        })
    }

    /// A number and the closing parenthesis.
    fn single<T: Int>(&mut self) -> Result<T, TextError> {
        let value = self.cur().int()?;
        self.cur().expect(")")?;
        Ok(value)
    }

    fn push_vlan(&mut self) -> Result<Action, TextError> {
        let start = self.attrs.cur;
        let (mut tpid, mut cfi) = (0x8100, 1);
        let (mut vid, mut pcp) = (None, None);
        self.attrs.members("push_vlan", |p, name| {
            match name {
                "tpid" => tpid = p.cur.int()?,
                "vid" => vid = Some(p.cur.number(12)? as u16),
                "pcp" => pcp = Some(p.cur.number(3)? as u16),
                "cfi" => cfi = p.cur.number(1)? as u16,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let (Some(vid), Some(pcp)) = (vid, pcp) else {
            return Err(Cursor::error_at(start.at(), "`push_vlan` needs `vid=` and `pcp=`"));
        };
        Ok(Action::PushVlan { tpid, tci: pcp << 13 | cfi << 12 | vid })
    }

    fn mpls(&mut self, group: &str) -> Result<(u16, u32), TextError> {
        let start = self.attrs.cur;
        let (mut fields, mut ethertype) = ([None; 4], None);
        self.attrs.members(group, |p, name| {
            match name {
                "label" => fields[0] = Some((p.cur.number(20)? as u32) << 12),
                "tc" => fields[1] = Some((p.cur.number(3)? as u32) << 9),
                "ttl" => fields[2] = Some(p.cur.number(8)? as u32),
                "bos" => fields[3] = Some((p.cur.number(1)? as u32) << 8),
                "eth_type" => ethertype = Some(p.cur.int()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let lse = fields.into_iter().try_fold(0, |lse, field| field.map(|field| lse | field));
        ethertype.zip(lse).ok_or_else(|| {
            let message = format!("`{group}` needs `label=`, `tc=`, `ttl=`, `bos=` and `eth_type=`");
            Cursor::error_at(start.at(), message)
        })
    }

    fn push_eth(&mut self) -> Result<Action, TextError> {
        let (mut src, mut dst) = (MacAddr::ZERO, MacAddr::ZERO);
        self.attrs.members("push_eth", |p, name| {
            match name {
                "src" => src = p.cur.mac()?,
                "dst" => dst = p.cur.mac()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Action::PushEth { dst, src })
    }

    fn push_nsh(&mut self) -> Result<Action, TextError> {
        let mut header = Nsh { ttl: 63, mdtype: NSH_MD_TYPE1, np: 3, ..Nsh::default() };
        let (mut spi, mut si) = (0, 255);
        let mut md2 = Vec::new();
        self.attrs.members("push_nsh", |p, name| {
            let start = p.cur;
            match (name, header.mdtype) {
                ("flags", _) => header.flags = p.cur.int()?,
                ("ttl", _) => header.ttl = p.cur.int()?,
                ("np", _) => header.np = p.cur.int()?,
                ("spi", _) => spi = p.cur.number(24)? as u32,
                ("si", _) => si = p.cur.number(8)? as u32,
                ("mdtype", _) => {
                    header.mdtype = p.cur.int()?;
                    if !matches!(header.mdtype, NSH_MD_TYPE1 | NSH_MD_TYPE2) {
                        return Err(start.expected("metadata type 1 or 2"));
                    }
                }
                ("c1" | "c2" | "c3" | "c4", NSH_MD_TYPE1) => {
                    let context = p.cur.int()?;
                    header.context[usize::from(name.as_bytes()[1] - b'1')].set(context);
                }
                ("md2", NSH_MD_TYPE2) => md2 = hex_string(&mut p.cur, NSH_MD_MAX)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if header.mdtype == NSH_MD_TYPE2 {
            header.context = Nsh::default().context;
            md2.resize(md2.len().next_multiple_of(4), 0);
        } else {
            md2.clear();
        }
        header.path_hdr.set(spi << 8 | si);
        Ok(Action::PushNsh(Box::new(PushNsh { header, md2: md2.into() })))
    }

    fn hash(&mut self) -> Result<Action, TextError> {
        let start = self.attrs.cur;
        let alg = match self.cur().name() {
            "l4" => HashAlg::L4,
            "sym_l4" => HashAlg::SymL4,
            _ => return Err(start.expected("`l4(..)` or `sym_l4(..)`")),
        };
        self.cur().expect("(")?;
        let basis = self.single()?;
        self.cur().expect(")")?;
        Ok(Action::Hash(alg(basis)))
    }

    fn sample(&mut self) -> Result<Action, TextError> {
        self.cur().expect("sample=")?;
        let start = self.attrs.cur;
        let number =
            self.cur().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+'));
        let percent = number.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let (Some(percent), true) = (percent, self.cur().eat("%")) else {
            return Err(start.expected("a percentage such as `12.5%`"));
        };
        // Saturates, as a conversion from a float does.
        let probability = (f64::from(u32::MAX) * (percent / 100.0) + 0.5).floor() as u32;
        self.cur().expect(",actions(")?;
        let actions = self.nested()?;
        self.cur().expect(")")?;
        Ok(Action::Sample { probability, actions })
    }

    fn check_pkt_len(&mut self) -> Result<Action, TextError> {
        self.cur().expect("size=")?;
        let len = self.cur().int()?;
        self.cur().expect(",gt(")?;
        let greater = self.nested()?;
        self.cur().expect(",le(")?;
        let not_greater = self.nested()?;
        self.cur().expect(")")?;
        Ok(Action::CheckPktLen { len, greater, not_greater })
    }

    fn psample(&mut self) -> Result<Action, TextError> {
        let start = self.attrs.cur;
        let (mut group, mut cookie) = (None, Vec::new());
        self.attrs.members("psample", |p, name| {
            match name {
                "group" => group = Some(p.cur.int()?),
                "cookie" => cookie = hex_string(&mut p.cur, PSAMPLE_COOKIE_MAX)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let Some(group) = group else {
            return Err(Cursor::error_at(start.at(), "`psample` needs `group=`"));
        };
        Ok(Action::Psample { group, cookie: cookie.into() })
    }

    fn tnl_push(&mut self) -> Result<Action, TextError> {
        self.cur().expect("tnl_port(")?;
        let tnl_port = self.port()?;
        self.cur().expect("),")?;
        let (tnl_type, header) = header_parse::parse(&mut self.attrs)?;
        self.cur().expect(",out_port(")?;
        let out_port = self.port()?;
        self.cur().expect("))")?;
        Ok(Action::TnlPush(Box::new(TnlPush { tnl_port, out_port, tnl_type, header })))
    }
}

/// Reads `0x` and bytes of two digits each; an odd digit stands in front.
fn hex_string(cur: &mut Cursor<'_>, max: usize) -> Result<Vec<u8>, TextError> {
    let start = *cur;
    if !cur.eat("0x") && !cur.eat("0X") {
        return Err(start.expected("a hexadecimal number with `0x`"));
    }
    let digits = cur.take_while(|c| c.is_ascii_hexdigit());
    if digits.is_empty() || digits.len() > 2 * max {
        return Err(start.expected(&format!("1 to {max} bytes in hexadecimal")));
    }
    let mut bytes = vec![0; digits.len().div_ceil(2)];
    let mut number = Cursor::new(&start.rest()[..2 + digits.len()]);
    number.big(&mut bytes)?;
    Ok(bytes)
}
