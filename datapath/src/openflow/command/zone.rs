//! `ovs-vsctl` about zones of connection tracking: timeout policies and limits.
//!
//! Counterpart: the zone commands of OVS `utilities/ovs-vsctl.c`, table `CT_Timeout_Policy` of `vswitchd/vswitch.ovsschema`.

use std::collections::BTreeMap;

use super::args::{Args, Word};
use super::error::{ParseError, ParseErrorKind};

/// Timeouts in seconds, by the names of the database.
pub type Timeouts = BTreeMap<&'static str, u32>;

/// The timeouts that a policy can have. The userspace datapath goes by eleven of them
/// ([`Timeout`](crate::conntrack::Timeout)); the others are the kernel's.
const TIMEOUTS: [&str; 16] = [
    "icmp_first",
    "icmp_reply",
    "tcp_close",
    "tcp_close_wait",
    "tcp_established",
    "tcp_fin_wait",
    "tcp_last_ack",
    "tcp_retransmit",
    "tcp_syn_recv",
    "tcp_syn_sent",
    "tcp_syn_sent2",
    "tcp_time_wait",
    "tcp_unack",
    "udp_first",
    "udp_multiple",
    "udp_single",
];

/// A command about zones.
#[derive(Clone, Debug)]
pub struct ZoneCommand {
    /// Datapath that it is about, by type.
    pub datapath: Word,
    /// What to do.
    pub verb: ZoneVerb,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum ZoneVerb {
    /// Give a zone a timeout policy.
    AddPolicy {
        /// Zone.
        zone: u16,
        /// Policy.
        timeouts: Timeouts,
    },
    /// Take a zone's policy away.
    DelPolicy(u16),
    /// Print all policies.
    ListPolicies,
    /// Set the limit of a zone, or of all others.
    SetLimit {
        /// Zone, or `None` for the default.
        zone: Option<u16>,
        /// Most connections; 0 for no limit.
        limit: u32,
    },
    /// Delete a limit.
    DelLimit(Option<u16>),
    /// Print all limits.
    ListLimits,
}

/// Reads the command with this name; `None` if it is none of these.
pub(super) fn parse(args: &mut Args<'_>, name: &str) -> Result<Option<ZoneCommand>, ParseError> {
    let of = |args: &mut Args<'_>| args.need("a datapath");
    let (datapath, verb) = match name {
        "add-zone-tp" => {
            let datapath = of(args)?;
            let zone = zone_equals(args)?;
            (datapath, ZoneVerb::AddPolicy { zone, timeouts: timeouts(args)? })
        }
        "del-zone-tp" => (of(args)?, ZoneVerb::DelPolicy(zone_equals(args)?)),
        "list-zone-tp" => (of(args)?, ZoneVerb::ListPolicies),
        "set-zone-limit" => {
            let datapath = of(args)?;
            let zone = zone_or_default(args)?;
            let word = args.need("a limit")?;
            let limit = word.text.parse().map_err(|_| invalid(args, &word, "a limit"))?;
            (datapath, ZoneVerb::SetLimit { zone, limit })
        }
        "del-zone-limit" => (of(args)?, ZoneVerb::DelLimit(zone_or_default(args)?)),
        "list-zone-limits" => (of(args)?, ZoneVerb::ListLimits),
        _ => return Ok(None),
    };
    Ok(Some(ZoneCommand { datapath, verb }))
}

fn invalid(args: &Args<'_>, word: &Word, what: &'static str) -> ParseError {
    args.refuse(word, ParseErrorKind::Invalid { word: word.text.clone(), what })
}

fn zone_equals(args: &mut Args<'_>) -> Result<u16, ParseError> {
    let word = args.need("zone=ID")?;
    let zone = word.text.strip_prefix("zone=").and_then(|zone| zone.parse().ok());
    zone.ok_or_else(|| invalid(args, &word, "a zone: zone=0 to zone=65535"))
}

fn zone_or_default(args: &mut Args<'_>) -> Result<Option<u16>, ParseError> {
    let word = args.need("a zone or default")?;
    if word.text == "default" {
        return Ok(None);
    }
    word.text.parse().map(Some).map_err(|_| invalid(args, &word, "a zone: 0 to 65535, or default"))
}

/// `NAME=SECONDS...`, at least one.
fn timeouts(args: &mut Args<'_>) -> Result<Timeouts, ParseError> {
    let mut timeouts = Timeouts::new();
    let mut next = Some(args.need("timeouts, such as udp_single=10")?);
    while let Some(word) = next {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let Some(known) = TIMEOUTS.into_iter().find(|known| *known == name) else {
            let kind = ParseErrorKind::NotOneOf { word: name.to_owned(), allowed: TIMEOUTS.join(", ") };
            return Err(args.refuse(&word, kind));
        };
        let seconds = value.parse().map_err(|_| invalid(args, &word, "a timeout in seconds"))?;
        timeouts.insert(known, seconds);
        next = args.next_word();
    }
    Ok(timeouts)
}
