//! Short texts that several views share.

use datapath::offload::Offloads;
use datapath::types::Time;

/// State of one checksum.
const fn state(good: bool, bad: bool) -> &'static str {
    match (good, bad) {
        (false, false) => "unknown",
        (true, false) => "good",
        (false, true) => "bad",
        (true, true) => "partial",
    }
}

/// Offload flags as words, each with its state, outer first: `ip=good l4=partial tcp`. What is unknown is left out; all
/// unknown is `none`.
pub fn offloads(flags: Offloads) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut checksum = |name: &str, good, bad| {
        if flags.intersects(good | bad) {
            words.push(format!("{name}={}", state(flags.contains(good), flags.contains(bad))));
        }
    };
    checksum("ip", Offloads::IP_GOOD, Offloads::IP_BAD);
    checksum("l4", Offloads::L4_GOOD, Offloads::L4_BAD);
    checksum("inner-ip", Offloads::INNER_IP_GOOD, Offloads::INNER_IP_BAD);
    checksum("inner-l4", Offloads::INNER_L4_GOOD, Offloads::INNER_L4_BAD);
    for (flag, name) in [
        (Offloads::L4_TCP, "tcp"),
        (Offloads::L4_UDP, "udp"),
        (Offloads::L4_SCTP, "sctp"),
        (Offloads::TUNNEL_VXLAN, "vxlan"),
        (Offloads::TUNNEL_GENEVE, "geneve"),
        (Offloads::TUNNEL_GRE, "gre"),
        (Offloads::INNER_L4_TCP, "inner-tcp"),
        (Offloads::INNER_L4_UDP, "inner-udp"),
        (Offloads::INNER_L4_SCTP, "inner-sctp"),
    ] {
        if flags.contains(flag) {
            words.push(name.to_owned());
        }
    }
    if words.is_empty() { "none".to_owned() } else { words.join(" ") }
}

/// Virtual time in seconds, to the nanosecond.
pub fn time(time: Time) -> String {
    format!("{}.{:09}", time.0 / 1_000_000_000, time.0 % 1_000_000_000)
}

/// A number with a unit prefix where it would be long: `1.2M`.
pub fn short(value: f64) -> String {
    let (value, prefix) = match value {
        v if v >= 999.5e9 => (v / 1e12, "T"),
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 9_999.5 => (v / 1e3, "k"),
        v => return format!("{}", v.round()),
    };
    match value {
        v if v < 9.995 => format!("{v:.2}{prefix}"),
        v if v < 99.95 => format!("{v:.1}{prefix}"),
        v => format!("{v:.0}{prefix}"),
    }
}

/// A count, exactly while it is short.
pub fn count(value: u64) -> String {
    if value < 1_000_000 { value.to_string() } else { short(value as f64) }
}

/// A span of nanoseconds in the unit that suits it.
pub fn span(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        _ => format!("{:.1}s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offload_words() {
        assert_eq!(offloads(Offloads::empty()), "none");
        assert_eq!(
            offloads(Offloads::IP_GOOD | Offloads::L4_PARTIAL | Offloads::L4_TCP),
            "ip=good l4=partial tcp"
        );
        assert_eq!(
            offloads(
                Offloads::IP_PARTIAL
                    | Offloads::INNER_L4_BAD
                    | Offloads::TUNNEL_VXLAN
                    | Offloads::INNER_L4_UDP
            ),
            "ip=partial inner-l4=bad vxlan inner-udp"
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(short(0.0), "0");
        assert_eq!(short(9999.0), "9999");
        assert_eq!(short(10_000.0), "10.0k");
        assert_eq!(short(999_499.0), "999k");
        assert_eq!(short(999_500.0), "1.00M");
        assert_eq!(short(1_234_567.0), "1.23M");
        assert_eq!(short(12e9), "12.0G");
        assert_eq!(count(999_999), "999999");
        assert_eq!(count(1_000_000), "1.00M");
        assert_eq!(span(999), "999ns");
        assert_eq!(span(1_500), "1.5us");
        assert_eq!(span(2_000_000_000), "2.0s");
        assert_eq!(time(Time(1_000_000_007)), "1.000000007");
    }
}
