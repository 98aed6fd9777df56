//! Connection tracking: which connection a packet belongs to, in which state that is, and how its packets are translated.
//!
//! Owns all connections, expectations of helpers, fragments that wait for their rest, and the limits of all of these. Told the
//! time with each call. Never sends: packets come and go in the lists of the caller. A clone is cheap and independent.
//!
//! Where more is asked for than there is room for:
//! - of connections, those that are over make place first; then a packet is new and nothing is committed;
//! - a packet that was to be translated is dropped when there is no port left, or no place for its connection: never is
//!   it sent as it came. (OVS sends it, as the kernel does not.)
//! - of fragments, those that find no place go on, each by itself, as invalid.
//!
//! Counterpart: OVS `lib/conntrack.c`.

mod alg;
mod conn;
mod dump;
mod frag;
mod key;
mod limits;
mod nat;
mod table;
mod tcp;
#[cfg(test)]
mod tests;

pub use conn::{Conn, Helper, OtherState, Proto, Timeout, Translation};
pub use dump::{ConnFilter, TupleFilter, stats_text};
pub(crate) use frag::Gathered;
pub use frag::{FragConfig, FragCounters, Fragments};
pub use key::{ConnKey, Endpoint};
pub use limits::{ZoneLimit, ZoneLimits};
pub use table::ConnId;
pub use tcp::{Peer, TcpState};

use std::collections::BTreeMap;

use self::alg::{Expectations, Expected};
use self::conn::{Update, may_begin};
use self::key::{Found, extract};
use self::table::Table;
use crate::action::{Ct, NatKind};
use crate::cache::SplitMix64;
use crate::packet::{ConnLink, CtMetadata, Packet};
use crate::stats::DropReason;
use crate::trace::ConnSeen;
use crate::types::{Span, Time};

/// A new connection.
pub const CS_NEW: u8 = 1 << 0;
/// Part of an established connection.
pub const CS_ESTABLISHED: u8 = 1 << 1;
/// Related to an established connection.
pub const CS_RELATED: u8 = 1 << 2;
/// Against the direction of the first packet.
pub const CS_REPLY: u8 = 1 << 3;
/// Not a packet of any connection.
pub const CS_INVALID: u8 = 1 << 4;
/// Connection tracking has seen it.
pub const CS_TRACKED: u8 = 1 << 5;
/// The source was translated.
pub const CS_SRC_NAT: u8 = 1 << 6;
/// The destination was translated.
pub const CS_DST_NAT: u8 = 1 << 7;
const CS_NAT: u8 = CS_SRC_NAT | CS_DST_NAT;

/// Connections at most, unless changed (`DEFAULT_N_CONN_LIMIT`).
const MAX_CONNS: u32 = 3_000_000;
/// How often connections that are over are removed, unless changed.
const SWEEP: Span = Span::from_secs(20);
/// Slots that are looked through for connections that are over when there is no place for a new one.
const EARLY_DROP: u32 = 64;

/// Timeouts in place of the default ones.
pub type TimeoutPolicy = BTreeMap<Timeout, Span>;

/// The connection tracker of a datapath.
#[derive(Clone, Debug)]
pub struct Conntrack {
    table: Table,
    random: SplitMix64,
    expectations: Expectations,
    /// Fragments that wait.
    pub fragments: Fragments,
    /// Limits of zones.
    pub limits: ZoneLimits,
    policies: BTreeMap<u32, TimeoutPolicy>,
    max_conns: u32,
    sweep: Span,
    next_sweep: Time,
    /// Where the search for connections that are over goes on.
    early_drop_at: u32,
    /// Whether sequence numbers of TCP are checked (`ct-enable-tcp-seq-chk`).
    pub check_sequence: bool,
}

/// A packet on its way through [`Conntrack::track`].
struct Tracking<'a> {
    ct: &'a Ct,
    helper: Option<Helper>,
    /// The control protocol that the packet is of.
    control: Option<Helper>,
    key: ConnKey,
    conn: Option<ConnId>,
    reply: bool,
    related: bool,
    now: u64,
    /// Whether there was a connection that is over.
    over: bool,
}

impl Conntrack {
    /// A tracker without connections. All chance in it comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::named(seed, "conntrack");
        // Never 0, which OVS takes for "no basis".
        let basis = random.next_u32() | 1;
        Self {
            table: Table::new(basis),
            random,
            expectations: Expectations::default(),
            fragments: Fragments::default(),
            limits: ZoneLimits::default(),
            policies: BTreeMap::new(),
            max_conns: MAX_CONNS,
            sweep: SWEEP,
            next_sweep: Time::ZERO + SWEEP,
            early_drop_at: 0,
            check_sequence: true,
        }
    }

    /// Finds out what `packet` is, does with its connection what `ct` asks for, and writes the answer into the metadata.
    /// Fragments are to be put together before.
    ///
    /// # Errors
    /// The packet is to be dropped: it was to be translated, and there is no place for its connection.
    pub fn track(&mut self, packet: &mut Packet, ct: &Ct, now: Time) -> Result<ConnSeen, DropReason> {
        let link = packet.md.ct().and_then(|ct| ct.conn);
        let known = link.and_then(|link| Some((link, self.table.get(link.conn)?)));
        let asked = ct.helper.as_deref();
        let helper = asked.and_then(Helper::by_name).or_else(|| known.and_then(|(_, conn)| conn.helper));
        if packet.md.ct_state == CS_INVALID {
            write_metadata(packet, ct.zone, CS_INVALID, None, None);
            return Ok(ConnSeen::None);
        }
        if let Some((link, conn)) = known
            && conn.keys[0].zone == ct.zone
            && !ct.force
            && alg::control(packet, helper).is_none()
        {
            self.track_again(packet, ct, link);
            return Ok(ConnSeen::Found);
        }
        let Some(Found { key, related }) = extract(packet, ct.zone) else {
            write_metadata(packet, ct.zone, CS_INVALID, None, None);
            return Ok(ConnSeen::None);
        };
        if packet.md.ct().is_some_and(|md| md.zone != ct.zone) {
            packet.md.ct_state = 0;
        }
        let mut tracking = Tracking {
            ct,
            helper,
            control: None,
            key,
            conn: None,
            reply: false,
            related,
            now: now.0,
            over: false,
        };
        self.find(&mut tracking, packet.md.ct_state & CS_NAT != 0);
        self.track_one(packet, tracking)
    }

    /// The same connection in the same zone once more: nothing is new but what the action changes.
    fn track_again(&mut self, packet: &mut Packet, ct: &Ct, link: ConnLink) {
        let state = packet.md.ct_state;
        let Some(conn) = self.table.get(link.conn) else { return };
        let (mark, label) = (conn.mark, conn.label);
        if ct.nat.is_some() && conn.nat.is_some() && state & CS_NAT == 0 {
            packet.md.ct_state |= nat::apply(packet, conn, link.reply, link.related);
        }
        if let Some(md) = packet.md.ct_mut() {
            (md.zone, md.mark, md.label) = (ct.zone, mark, label);
            if ct.nat.is_some() {
                md.conn = None;
            }
        }
        self.write_marks(packet, ct, link.conn);
    }

    /// Looks the connection up; a packet that was translated already is looked up by its answer's key.
    fn find(&self, tracking: &mut Tracking<'_>, translated: bool) {
        if !translated {
            match self.table.find_or_over(&tracking.key, tracking.now) {
                Ok((id, reply)) => (tracking.conn, tracking.reply) = (Some(id), reply),
                Err(over) => tracking.over = over,
            }
            return;
        }
        let (id, reply) = match self.table.find_or_over(&tracking.key.reversed(), tracking.now) {
            Ok(found) => found,
            Err(over) => {
                tracking.over = over;
                return;
            }
        };
        tracking.conn = Some(id);
        tracking.reply = !reply;
        if let Some(conn) = self.table.get(id) {
            tracking.key = conn.keys[usize::from(tracking.reply)];
        }
    }

    fn track_one(&mut self, packet: &mut Packet, mut t: Tracking<'_>) -> Result<ConnSeen, DropReason> {
        if t.ct.force
            && t.reply
            && let Some(id) = t.conn
        {
            self.expire(id);
            t.conn = None;
            t.over = true;
        }
        if t.helper.is_none() {
            t.helper = t.conn.and_then(|id| self.table.get(id)).and_then(|conn| conn.helper);
        }
        t.control = alg::control(packet, t.helper);
        let mut create = false;
        if let Some(id) = t.conn {
            create = self.update_with_helper(packet, &t, id);
            if t.ct.nat.is_some() && !create {
                self.translate(packet, &t, id);
            }
        } else if let Some(id) = self.find_original(packet, &t) {
            t.conn = Some(id);
            create = self.update(packet, &t, id);
        } else if t.related {
            // No connection begins with an error about it.
            packet.md.ct_state = CS_INVALID;
        } else {
            create = true;
        }
        let before = t.conn;
        let mut expected = None;
        if create {
            expected = self.expectations.find(&t.key).cloned();
            if self.table.find(&t.key, t.now).is_none() {
                t.conn = self.begin(packet, &t, expected.as_ref())?;
            }
        }
        let state = packet.md.ct_state;
        let conn = t.conn.and_then(|id| self.table.get(id));
        let parent = expected.as_ref().map(|e| (&e.parent, e.mark, e.label));
        let original = match (conn, parent) {
            (Some(conn), _) => (conn.parent.as_deref().unwrap_or(&conn.keys[0]), conn.mark, conn.label),
            (None, Some(parent)) => parent,
            (None, None) => (&t.key, 0, 0),
        };
        let link = t.conn.filter(|_| t.ct.nat.is_none());
        let link = link.map(|conn| ConnLink { conn, reply: t.reply, related: t.related });
        write_metadata(packet, t.ct.zone, state, Some(original), link);
        if let Some(id) = t.conn {
            self.write_marks(packet, t.ct, id);
            if self.table.get(id).is_some_and(|conn| conn.helper.is_some()) {
                self.run_helper(packet, &t, id);
            }
        }
        Ok(match (before, t.conn) {
            (Some(before), Some(conn)) if before == conn => ConnSeen::Found,
            (Some(_), Some(_)) => ConnSeen::Renewed,
            (None, Some(_)) if t.over => ConnSeen::Renewed,
            (None, Some(_)) => ConnSeen::Begun,
            (Some(_), None) => ConnSeen::Expired,
            (None, None) if t.over => ConnSeen::Expired,
            (None, None) => ConnSeen::None,
        })
    }

    /// Ends a connection at once.
    fn expire(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.expires = 0;
        }
    }

    /// The connection of a packet that was translated in another zone, and is not to be here: found by what it was.
    fn find_original(&self, packet: &Packet, t: &Tracking<'_>) -> Option<ConnId> {
        let md = packet.md.ct()?;
        if packet.md.ct_state & CS_NAT == 0 || md.orig_proto == 0 || t.ct.nat.is_some() {
            return None;
        }
        let mut key = ConnKey { zone: md.zone, proto: md.orig_proto, ipv6: t.key.ipv6, ..ConnKey::default() };
        (key.src.addr, key.dst.addr) = (md.orig_src, md.orig_dst);
        let answer = if key.ipv6 { key::icmpv6_answer } else { key::icmp_answer };
        match answer(md.orig_tp_src as u8).filter(|_| t.key.src.icmp_type != 0 || t.key.dst.icmp_type != 0) {
            Some(answer) => {
                (key.src.port, key.dst.port) = (t.key.src.port, t.key.dst.port);
                (key.src.icmp_type, key.dst.icmp_type) = (md.orig_tp_src as u8, answer);
            }
            None => (key.src.port, key.dst.port) = (md.orig_tp_src, md.orig_tp_dst),
        }
        self.table.find(&key, t.now).map(|(id, _)| id)
    }

    /// Brings the connection's state forward, and tells the packet; returns whether the packet begins another connection.
    fn update(&mut self, packet: &mut Packet, t: &Tracking<'_>, id: ConnId) -> bool {
        let reply = if t.reply { CS_REPLY } else { 0 };
        if t.related {
            packet.md.ct_state |= CS_RELATED | reply;
            return false;
        }
        let Some(conn) = self.table.get_mut(id) else { return true };
        if conn.parent.is_some() {
            packet.md.ct_state |= CS_RELATED;
        }
        let (update, timeout) = conn.proto.update(packet, t.reply, self.check_sequence);
        if let Some(timeout) = timeout {
            let policy = self.policies.get(&conn.policy);
            conn.expires = t.now + span(policy, timeout).0;
        }
        match update {
            Update::Valid => {
                packet.md.ct_state |= CS_ESTABLISHED | reply;
                packet.md.ct_state &= !CS_NEW;
            }
            Update::Invalid => packet.md.ct_state = CS_INVALID,
            Update::New => {
                conn.expires = 0;
                return true;
            }
            Update::ValidNew => packet.md.ct_state |= CS_NEW,
        }
        false
    }

    /// Translates, unless an earlier action in this zone did.
    fn translate(&mut self, packet: &mut Packet, t: &Tracking<'_>, id: ConnId) {
        let Some(conn) = self.table.get(id) else { return };
        if conn.nat.is_some() && packet.md.ct_state & CS_NAT == 0 {
            packet.md.ct_state |= nat::apply(packet, conn, t.reply, t.related);
        }
    }

    /// A packet of no connection: begins one if that is asked for.
    fn begin(
        &mut self,
        packet: &mut Packet,
        t: &Tracking<'_>,
        expected: Option<&Expected>,
    ) -> Result<Option<ConnId>, DropReason> {
        if !may_begin(packet, &t.key) {
            packet.md.ct_state = CS_INVALID;
            return Ok(None);
        }
        packet.md.ct_state = CS_NEW | if expected.is_some() { CS_RELATED } else { 0 };
        if !(t.ct.commit || t.ct.force) {
            return Ok(None);
        }
        // Never sent as it is, if it was to be translated.
        let to_translate = t.ct.nat.as_ref().is_some_and(|nat| nat.kind != NatKind::Existing);
        let without = if to_translate { Err(DropReason::Conntrack) } else { Ok(None) };
        if !self.has_room(t.now) {
            return without;
        }
        let Some(counted) = self.limits.admit(t.key.zone) else { return without };
        let policy = t.ct.timeout.as_deref().and_then(|id| id.parse().ok()).unwrap_or(0);
        let (proto, timeout) = Proto::begin(packet, &t.key);
        let verified = t.control.is_none() || t.control == t.helper;
        let mut conn = Conn {
            keys: [t.key, t.key.reversed()],
            parent: expected.map(|e| Box::new(e.parent)),
            translated: false,
            nat: None,
            helper: t.helper.filter(|_| verified),
            mark: expected.map_or(0, |e| e.mark),
            label: expected.map_or(0, |e| e.label),
            proto,
            expires: t.now + span(self.policies.get(&policy), timeout).0,
            counted: counted.count(),
            policy,
            skew: None,
        };
        if let Some(nat) = &t.ct.nat {
            conn.nat = match expected {
                Some(expected) => Some(expected.translate(&mut conn.keys[1])),
                None => match nat::choose(&mut conn.keys, nat, &self.table, &mut self.random, t.now) {
                    Some(nat) => nat,
                    None => {
                        self.limits.release(t.key.zone, conn.counted);
                        return Err(DropReason::Conntrack);
                    }
                },
            };
            conn.translated = conn.nat.is_some();
            packet.md.ct_state |= nat::apply(packet, &conn, false, t.related);
        }
        Ok(Some(self.table.insert(conn)))
    }

    fn has_room(&mut self, now: u64) -> bool {
        let full = |this: &Self| this.table.len() >= this.max_conns as usize;
        if full(self) {
            self.early_drop(now);
        }
        !full(self)
    }

    /// Removes some connections that are over, if there are any where it looks.
    fn early_drop(&mut self, now: u64) {
        let slots = self.table.n_slots();
        for _ in 0..EARLY_DROP.min(slots) {
            self.early_drop_at = (self.early_drop_at + 1) % slots;
            let over = self.table.in_slot(self.early_drop_at).filter(|(_, conn)| now >= conn.expires);
            if let Some(id) = over.map(|(id, _)| id) {
                self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: ConnId) {
        if let Some(conn) = self.table.remove(id) {
            self.limits.release(conn.keys[0].zone, conn.counted);
            if conn.helper.is_some() {
                self.expectations.forget(&conn.keys[0]);
            }
        }
    }

    fn write_marks(&mut self, packet: &mut Packet, ct: &Ct, id: ConnId) {
        if ct.mark.is_none() && ct.label.is_none() {
            return;
        }
        let (Some(conn), Some(md)) = (self.table.get_mut(id), packet.md.ct_mut()) else { return };
        if conn.parent.is_none() {
            if let Some((mark, mask)) = ct.mark {
                conn.mark = mark | md.mark & !mask;
            }
            if let Some((label, mask)) = ct.label {
                conn.label = label | md.label & !mask;
            }
        }
        if ct.mark.is_some() {
            md.mark = conn.mark;
        }
        if ct.label.is_some() {
            md.label = conn.label;
        }
    }
}

fn span(policy: Option<&TimeoutPolicy>, timeout: Timeout) -> Span {
    policy.and_then(|policy| policy.get(&timeout)).copied().unwrap_or(timeout.default_span())
}

/// Tells the packet what was found.
fn write_metadata(
    packet: &mut Packet,
    zone: u16,
    state: u8,
    original: Option<(&ConnKey, u32, u128)>,
    conn: Option<ConnLink>,
) {
    let mut md = CtMetadata { zone, conn, ..CtMetadata::default() };
    if let Some((key, mark, label)) = original {
        (md.mark, md.label) = (mark, label);
        md.orig_proto = key.proto;
        md.orig_ipv6 = key.ipv6;
        (md.orig_src, md.orig_dst) = (key.src.addr, key.dst.addr);
        let is_icmp = key.src.icmp_type != 0 || key.dst.icmp_type != 0;
        (md.orig_tp_src, md.orig_tp_dst) = if is_icmp {
            (key.src.icmp_type.into(), key.src.icmp_code.into())
        } else {
            (key.src.port, key.dst.port)
        };
    }
    packet.md.set_ct(state | CS_TRACKED, md);
}

/// Upkeep, settings, and what can be asked between packets.
impl Conntrack {
    /// Removes what is over, when it is time; returns how many.
    pub fn run(&mut self, now: Time) -> u32 {
        if now < self.next_sweep {
            return 0;
        }
        let before = self.table.len();
        self.next_sweep = now + self.sweep;
        for index in 0..self.table.n_slots() {
            let over = self.table.in_slot(index).filter(|(_, conn)| now.0 >= conn.expires);
            if let Some(id) = over.map(|(id, _)| id) {
                self.remove(id);
            }
        }
        (before - self.table.len()) as u32
    }

    /// When [`Self::run`] has something to do, if nothing happens before.
    pub fn next_wakeup(&self) -> Option<Time> {
        (self.table.len() > 0).then_some(self.next_sweep)
    }

    /// Connections, those among them that are over but not yet removed.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Connections at most.
    pub fn max_conns(&self) -> u32 {
        self.max_conns
    }

    /// Changes how many connections there may be; those that there are stay.
    pub fn set_max_conns(&mut self, max: u32) {
        self.max_conns = max;
    }

    /// How often connections that are over are removed.
    pub fn sweep_interval(&self) -> Span {
        self.sweep
    }

    /// Changes that, from the next time on.
    pub fn set_sweep_interval(&mut self, interval: Span) {
        self.sweep = interval;
    }

    /// Sets or, with `None`, deletes a timeout policy. Connections follow with their next packet.
    pub fn set_timeout_policy(&mut self, id: u32, policy: Option<TimeoutPolicy>) {
        match policy {
            Some(policy) => self.policies.insert(id, policy),
            None => self.policies.remove(&id),
        };
    }

    /// The connections that are not over, by zone, and in it as they were made, as far as places were not used again.
    pub fn conns(&self, now: Time) -> Vec<&Conn> {
        let alive = self.table.iter().map(|(_, conn)| conn).filter(|conn| now.0 < conn.expires);
        let mut conns: Vec<&Conn> = alive.collect();
        conns.sort_by_key(|conn| conn.keys[0].zone);
        conns
    }

    /// A connection.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        self.table.get(id)
    }

    /// The connection that `key` is a direction of.
    pub fn find_key(&self, key: &ConnKey, now: Time) -> Option<(ConnId, bool)> {
        self.table.find(key, now.0)
    }

    /// Removes the connections that `which` holds for; returns how many.
    pub fn flush(&mut self, now: Time, which: impl Fn(&Conn) -> bool) -> usize {
        let chosen = self.table.iter().filter(|(_, conn)| now.0 < conn.expires && which(conn));
        let ids: Vec<ConnId> = chosen.map(|(id, _)| id).collect();
        ids.iter().for_each(|&id| self.remove(id));
        ids.len()
    }
}
