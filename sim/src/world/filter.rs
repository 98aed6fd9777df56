//! Which frames an expectation counts: an OpenFlow match over the key of the frame.

use datapath::flow::Flow;
use datapath::openflow::Match;
use datapath::openflow::text::{NoNames, parse_match};
use datapath::packet::Packet;
use zerocopy::IntoBytes as _;

use crate::diagnostic::Diagnostic;
use crate::scenario::Line;

/// A match, in OVS's text.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    rule_match: Box<Match>,
}

impl Filter {
    /// Parses a match such as `udp,nw_dst=10.0.0.2`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match parse_match(text, &NoNames) {
            Ok(rule_match) => Ok(Self { rule_match: Box::new(rule_match) }),
            Err(error) => Err(format!("{error} (at {:?})", error.word)),
        }
    }

    /// Parses a line of a scenario.
    pub fn of_line(line: &Line) -> Result<Self, Diagnostic> {
        Self::parse(&line.text).map_err(|message| Diagnostic::new(line.span.clone(), message))
    }

    /// Whether a frame matches.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let key = Flow::of_packet(&mut Packet::from_frame(frame));
        let (key, want, mask) =
            (key.as_bytes(), self.rule_match.flow.as_bytes(), self.rule_match.mask.as_bytes());
        key.iter().zip(want).zip(mask).all(|((key, want), mask)| (key ^ want) & mask == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::frame;

    #[test]
    fn matches_what_ovs_matches() {
        let eth = "eth 02:00:00:00:00:01 > 02:00:00:00:00:02";
        let udp = frame::parse(&format!("{eth} / vlan 5 / ipv4 10.0.0.1 > 10.0.0.2 / udp 1 > 53")).unwrap();
        let arp = frame::parse(&format!("{eth} / arp request 10.0.0.1 > 10.0.0.2")).unwrap();
        let count = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            (filter.matches(&udp), filter.matches(&arp))
        };
        assert_eq!(count("udp,tp_dst=53"), (true, false));
        assert_eq!(count("dl_vlan=5,ip,nw_dst=10.0.0.0/24"), (true, false));
        assert_eq!(count("arp,arp_op=1"), (false, true));
        assert_eq!(count("vlan_tci=0x0000/0x1fff"), (false, true));
        assert_eq!(count(""), (true, true));
        assert!(Filter::parse("upd").unwrap_err().contains("upd"));
    }
}
