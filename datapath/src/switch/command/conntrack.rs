//! `dpctl/*-conntrack`, `dpctl/ct-*`, `dpctl/ipf-*`: connections, their limits, and fragments.
//!
//! Counterpart: the conntrack part of OVS `lib/dpctl.c`, `ofp_ct_match_parse()` of `lib/ofp-ct.c`.

use std::net::{IpAddr, Ipv4Addr};

use super::super::Switch;
use super::{CommandError, refused};
use crate::conntrack::{ConnFilter, FragCounters, TupleFilter, stats_text};
use crate::openflow::command::Word;
use crate::types::{Span, Time};

/// Least size of fragments that can be asked for (`IPF_V4_FRAG_SIZE_LBOUND`).
const MIN_FRAGMENT: u32 = 400;
/// Most fragments that may wait (`IPF_NFRAG_UBOUND`).
const MAX_FRAGMENTS: u32 = 5000;

fn words_of(words: &[Word]) -> Vec<&str> {
    words.iter().map(|word| word.text.as_str()).collect()
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, CommandError> {
    text.parse().map_err(|_| refused(format!("{what} missing or malformed")))
}

fn none_left(words: &[&str]) -> Result<(), CommandError> {
    match words.first() {
        None => Ok(()),
        Some(word) => Err(refused(format!("takes no argument '{word}'"))),
    }
}

impl Switch {
    /// Carries out a command, given its name behind `dpctl/`.
    pub(super) fn conntrack_command(
        &mut self,
        name: &str,
        words: &[Word],
        now: Time,
    ) -> Result<String, CommandError> {
        let words = words_of(words);
        let failed = |error: CommandError| refused(format!("ovs-appctl: dpctl/{name}: {error}"));
        let done = match name {
            "dump-conntrack" => self.dump_conntrack(&words, now),
            "dump-conntrack-exp" => zone_only(&words).map(|zone| self.dp.conntrack().expectations_text(zone)),
            "flush-conntrack" => self.flush_conntrack(&words, now),
            "ct-bkts" => self.conntrack_buckets(&words, now),
            "ct-stats-show" => self.conntrack_stats(&words, now),
            "ct-set-limits" | "ct-del-limits" | "ct-get-limits" => self.zone_limits(name, &words),
            "ipf-set-enabled" | "ipf-set-disabled" | "ipf-set-min-frag" | "ipf-set-max-nfrags"
            | "ipf-get-status" => self.fragments(name, &words),
            _ => self.conntrack_setting(name, &words),
        };
        done.map_err(failed)
    }

    fn dump_conntrack(&self, words: &[&str], now: Time) -> Result<String, CommandError> {
        let is_option = |word: &&&str| word.starts_with('-');
        let (mut verbose, mut statistics) = (false, false);
        for option in words.iter().filter(is_option) {
            match *option {
                "-m" | "--more" => verbose = true,
                "-s" | "--statistics" => statistics = true,
                other => return Err(refused(format!("unrecognized option '{other}'"))),
            }
        }
        let rest: Vec<&str> = words.iter().filter(|word| !word.starts_with('-')).copied().collect();
        let filter = parse_filter(&rest)?;
        let conns = self.dp.conntrack().conns(now).into_iter().filter(|conn| filter.matches(conn));
        Ok(conns.map(|conn| conn.text(verbose, statistics, now) + "\n").collect())
    }

    fn flush_conntrack(&mut self, words: &[&str], now: Time) -> Result<String, CommandError> {
        let filter = parse_filter(words)?;
        self.dp.conntrack_mut().flush(now, |conn| filter.matches(conn));
        Ok(String::new())
    }

    fn conntrack_stats(&self, words: &[&str], now: Time) -> Result<String, CommandError> {
        let verbose = words.iter().any(|word| matches!(*word, "verbose" | "-m" | "--more"));
        let rest: Vec<&str> =
            words.iter().filter(|word| !matches!(**word, "verbose" | "-m" | "--more")).copied().collect();
        let zone = zone_only(&rest)?;
        let mut conns = self.dp.conntrack().conns(now);
        conns.retain(|conn| zone.is_none_or(|zone| zone == conn.keys[0].zone));
        Ok(stats_text(&conns, verbose))
    }

    fn zone_limits(&mut self, name: &str, words: &[&str]) -> Result<String, CommandError> {
        let mut words = words;
        if name == "ct-get-limits" {
            return self.zone_limits_text(words);
        }
        if words.is_empty() {
            return Err(refused("too few arguments"));
        }
        let protected = self.zone_limits_are_protected();
        let limits = &mut self.dp.conntrack_mut().limits;
        // All of a command, or nothing.
        let mut next = limits.clone();
        if name == "ct-set-limits" {
            if let Some(text) = words[0].strip_prefix("default=") {
                next.set_default(text.parse().map_err(|_| refused("invalid default limit"))?);
                words = &words[1..];
            }
            for word in words {
                let (zone, limit) = zone_and_limit(word)?;
                next.set(zone, limit);
            }
        } else {
            if words[0] == "default" {
                next.set_default(0);
                words = &words[1..];
            }
            if let Some((zones, rest)) = words.split_first() {
                none_left(rest)?;
                parse_zones(zones)?.into_iter().for_each(|zone| next.delete(zone));
            }
        }
        if protected {
            let verb = if name == "ct-set-limits" { "set-zone-limit" } else { "del-zone-limit" };
            return Err(refused(format!(
                "the zone limits are set via database, use 'ovs-vsctl {verb} <...>' instead."
            )));
        }
        *limits = next;
        Ok(String::new())
    }

    fn zone_limits_text(&self, words: &[&str]) -> Result<String, CommandError> {
        let limits = &self.dp.conntrack().limits;
        let zones: Vec<u16> = match words.split_first() {
            Some((zones, rest)) => {
                none_left(rest)?;
                parse_zones(zones)?
            }
            None => limits.zones().map(|(zone, _)| zone).collect(),
        };
        let mut text = format!("default limit={}", limits.default_limit());
        for zone in zones {
            let (limit, count) = limits.get(zone);
            text.push_str(&format!("\nzone={zone},limit={limit},count={count}"));
        }
        text.push('\n');
        Ok(text)
    }

    fn conntrack_setting(&mut self, name: &str, words: &[&str]) -> Result<String, CommandError> {
        let ct = self.dp.conntrack_mut();
        let value = words.first().copied().unwrap_or("");
        let takes = matches!(name, "ct-set-maxconns" | "ct-set-sweep-interval");
        none_left(words.get(usize::from(takes)..).unwrap_or_default())?;
        Ok(match name {
            "ct-set-maxconns" => {
                ct.set_max_conns(number(value, "maxconns")?);
                "setting maxconns successful".to_owned()
            }
            "ct-get-maxconns" => format!("{}\n", ct.max_conns()),
            "ct-get-nconns" => format!("{}\n", ct.len()),
            "ct-enable-tcp-seq-chk" => {
                ct.check_sequence = true;
                "enabling TCP sequence checking successful".to_owned()
            }
            "ct-disable-tcp-seq-chk" => {
                ct.check_sequence = false;
                "disabling TCP sequence checking successful".to_owned()
            }
            "ct-get-tcp-seq-chk" => {
                let state = if ct.check_sequence { "enabled" } else { "disabled" };
                format!("TCP sequence checking: {state}\n")
            }
            "ct-set-sweep-interval" => {
                let ms: u32 =
                    value.parse().ok().filter(|ms| *ms > 0).ok_or_else(|| refused("invalid sweep value"))?;
                ct.set_sweep_interval(Span::from_millis(ms.into()));
                "setting sweep interval successful\n".to_owned()
            }
            "ct-get-sweep-interval" => format!("{}", ct.sweep_interval().0 / 1_000_000),
            _ => return Err(refused("is not supported here")),
        })
    }

    fn fragments(&mut self, name: &str, words: &[&str]) -> Result<String, CommandError> {
        let fragments = &mut self.dp.conntrack_mut().fragments;
        let version = |word: Option<&&str>| match word.copied() {
            Some("v4") => Ok(0),
            Some("v6") => Ok(1),
            Some(other) => Err(refused(format!("{other}: parameter missing: v4 for IPv4 or v6 for IPv6"))),
            None => Err(refused("parameter missing: v4 for IPv4 or v6 for IPv6")),
        };
        match name {
            "ipf-set-enabled" | "ipf-set-disabled" => {
                let (at, on) = (version(words.first())?, name == "ipf-set-enabled");
                fragments.config[at].enabled = on;
                Ok(format!(
                    "{} fragmentation reassembly successful",
                    if on { "enabling" } else { "disabling" }
                ))
            }
            "ipf-set-min-frag" => {
                let at = version(words.first())?;
                let size: u32 = number(words.get(1).copied().unwrap_or(""), "minimum fragment size")?;
                if size < MIN_FRAGMENT {
                    return Err(refused(format!(
                        "{size}: requested minimum fragment size too small; see documentation"
                    )));
                }
                fragments.config[at].min_size = size;
                Ok("setting minimum fragment size successful".to_owned())
            }
            "ipf-set-max-nfrags" => {
                let max: u32 = number(words.first().copied().unwrap_or(""), "max-nfrags")?;
                if max > MAX_FRAGMENTS {
                    return Err(refused(format!("{max}: setting maximum fragments failed")));
                }
                fragments.max = max;
                Ok("setting maximum fragments successful".to_owned())
            }
            _ => {
                let verbose = matches!(words.first(), Some(&("-m" | "--more")));
                none_left(words.get(usize::from(verbose)..).unwrap_or_default())?;
                let lists = if verbose { self.dp.conntrack().fragments.text() } else { String::new() };
                Ok(self.fragments_text() + &lists)
            }
        }
    }

    fn fragments_text(&self) -> String {
        let fragments = &self.dp.conntrack().fragments;
        let mut text = String::new();
        let mut line = |name: &str, value: u64| text.push_str(&format!("        {name}: {value}\n"));
        line("v4 enabled", fragments.config[0].enabled.into());
        line("v6 enabled", fragments.config[1].enabled.into());
        line("max num frags (v4/v6)", fragments.max.into());
        line("num frag", fragments.held().into());
        for (at, name) in ["v4", "v6"].into_iter().enumerate() {
            let FragCounters { accepted, sent, expired, too_small, overlap, purged } =
                fragments.counters()[at];
            line(&format!("min {name} frag size"), fragments.config[at].min_size.into());
            line(&format!("{name} frags accepted"), accepted);
            line(&format!("{name} frags completed"), sent);
            line(&format!("{name} frags expired"), expired);
            line(&format!("{name} frags too small"), too_small);
            line(&format!("{name} frags overlapped"), overlap);
            line(&format!("{name} frags purged"), purged);
        }
        format!("        Fragmentation Module Status\n        ---------------------------\n{text}")
    }
}

impl Switch {
    /// As in newest Open vSwitch, there is one bucket.
    fn conntrack_buckets(&self, words: &[&str], now: Time) -> Result<String, CommandError> {
        let above: u16 = match words {
            [] => 0,
            [word, rest @ ..] => {
                none_left(rest)?;
                let above = word.strip_prefix("gt=").and_then(|number| number.parse().ok());
                above.ok_or_else(|| refused(format!("takes no argument '{word}'")))?
            }
        };
        let n = self.dp.conntrack().conns(now).len();
        let mut text = format!("Total Buckets: 1\nCurrent Connections: {n}\n\n");
        if n > 0 {
            let rule = format!("+{:->11}+{:->41}+", "", "");
            let count = if n > usize::from(above) { n.to_string() } else { ".".to_owned() };
            let title = "         Connections per Buckets         ";
            text += &format!("{rule}\n|  Buckets  |{title}|\n{rule}\n   0..  7   | {count:>5}\n\n");
        }
        Ok(text)
    }
}

fn zone_only(words: &[&str]) -> Result<Option<u16>, CommandError> {
    match words {
        [] => Ok(None),
        [word] => match word.strip_prefix("zone=").and_then(|zone| zone.parse().ok()) {
            Some(zone) => Ok(Some(zone)),
            None => Err(refused(format!("failed to parse zone: {word}"))),
        },
        [_, rest @ ..] => none_left(rest).map(|()| None),
    }
}

/// `zone=N,limit=M`.
fn zone_and_limit(word: &str) -> Result<(u16, u32), CommandError> {
    let bad = || refused(format!("invalid zone limit tuple: {word}"));
    let (mut zone, mut limit) = (None, None);
    for part in word.split(',') {
        match part.split_once('=').ok_or_else(bad)? {
            ("zone", value) => zone = Some(value.parse().map_err(|_| bad())?),
            ("limit", value) => limit = Some(value.parse().map_err(|_| bad())?),
            _ => return Err(bad()),
        }
    }
    zone.zip(limit).ok_or_else(bad)
}

/// `zone=N[,N]...`.
fn parse_zones(word: &str) -> Result<Vec<u16>, CommandError> {
    let list = word.strip_prefix("zone=").ok_or_else(|| refused(format!("invalid argument {word}")))?;
    list.split(',').map(|zone| zone.parse().map_err(|_| refused(format!("invalid zone {zone}")))).collect()
}

/// `[zone=N] [mark=M[/MASK]] [labels=L[/MASK]] [ORIGINAL [REPLY]]`.
fn parse_filter(words: &[&str]) -> Result<ConnFilter, CommandError> {
    let mut filter = ConnFilter::default();
    let mut tuples = 0;
    for word in words {
        if let Some(zone) = word.strip_prefix("zone=") {
            filter.zone = Some(zone.parse().map_err(|_| refused("failed to parse zone"))?);
        } else if let Some(mark) = word.strip_prefix("mark=") {
            let (mark, mask) =
                masked(mark, u128::from(u32::MAX)).ok_or_else(|| refused("failed to parse mark"))?;
            filter.mark = Some((mark as u32, mask as u32));
        } else if let Some(label) = word.strip_prefix("labels=") {
            filter.label = Some(masked(label, u128::MAX).ok_or_else(|| refused("failed to parse labels"))?);
        } else {
            match tuples {
                0 => filter.original = parse_tuple(word)?,
                1 => filter.reply = parse_tuple(word)?,
                _ => return Err(refused("invalid arguments")),
            }
            tuples += 1;
        }
    }
    Ok(filter)
}

fn masked(text: &str, max: u128) -> Option<(u128, u128)> {
    let value = |text: &str| {
        let value = match text.strip_prefix("0x") {
            Some(hex) => u128::from_str_radix(hex, 16).ok()?,
            None => text.parse().ok()?,
        };
        (value <= max).then_some(value)
    };
    match text.split_once('/') {
        Some((text, mask)) => Some((value(text)?, value(mask)?)),
        None => Some((value(text)?, max)),
    }
}

/// `ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2`.
fn parse_tuple(text: &str) -> Result<TupleFilter, CommandError> {
    let mut filter = TupleFilter::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let bad = || refused(format!("failed to parse {part}"));
        let (key, value) = part.split_once('=').ok_or_else(bad)?;
        match key {
            "ct_nw_src" | "ct_nw_dst" => {
                let addr = Some(IpAddr::V4(value.parse::<Ipv4Addr>().map_err(|_| bad())?));
                if key == "ct_nw_src" { filter.src = addr } else { filter.dst = addr }
            }
            "ct_ipv6_src" => filter.src = Some(IpAddr::V6(value.parse().map_err(|_| bad())?)),
            "ct_ipv6_dst" => filter.dst = Some(IpAddr::V6(value.parse().map_err(|_| bad())?)),
            "ct_nw_proto" => filter.proto = Some(value.parse().map_err(|_| bad())?),
            "ct_tp_src" => filter.src_port = Some(value.parse().map_err(|_| bad())?),
            "ct_tp_dst" => filter.dst_port = Some(value.parse().map_err(|_| bad())?),
            "icmp_id" => filter.icmp_id = Some(value.parse().map_err(|_| bad())?),
            "icmp_type" => filter.icmp_type = Some(value.parse().map_err(|_| bad())?),
            "icmp_code" => filter.icmp_code = Some(value.parse().map_err(|_| bad())?),
            _ => return Err(refused(format!("invalid conntrack tuple field: {key}"))),
        }
    }
    Ok(filter)
}
