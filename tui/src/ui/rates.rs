//! Packets and bits a second of virtual time, from snapshots taken along the way.

use std::collections::VecDeque;

use datapath::types::{Span, Time};

use super::model::{Port, Snapshot, SwitchIndex};

/// How far back a rate looks.
const WINDOW: Span = Span(1_000_000_000);
/// Samples kept at most; the oldest go first.
const SAMPLES: usize = 256;

/// Rates of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Packets received a second.
    pub rx_pps: f64,
    /// Bits received a second.
    pub rx_bps: f64,
    /// Packets sent a second.
    pub tx_pps: f64,
    /// Bits sent a second.
    pub tx_bps: f64,
}

/// Counters of all ports at some moments, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    samples: VecDeque<(Time, Vec<Vec<Port>>)>,
}

impl Rates {
    /// Remembers the counters of this moment. What is later is forgotten: the walk went back.
    pub fn sample(&mut self, snapshot: &Snapshot) {
        while self.samples.back().is_some_and(|(time, _)| *time >= snapshot.now) {
            self.samples.pop_back();
        }
        let ports = snapshot.switches.iter().map(|switch| switch.ports.clone()).collect();
        self.samples.push_back((snapshot.now, ports));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Rates of the port at `index` of a switch: over the last second as far as samples reach, or else since the start.
    pub fn of(&self, switch: SwitchIndex, index: usize) -> Rate {
        let Some((now, ports)) = self.samples.back() else { return Rate::default() };
        let Some(port) = ports.get(switch.0).and_then(|ports| ports.get(index)) else {
            return Rate::default();
        };
        let start = Time(now.0.saturating_sub(WINDOW.0));
        let base = self.samples.iter().find(|(time, _)| *time >= start && time < now);
        let old = base.and_then(|(time, ports)| {
            let old = ports.get(switch.0)?.get(index)?;
            (old.name == port.name).then_some((*time, old))
        });
        let none = Port::default();
        let (since, old) = old.unwrap_or((Time::ZERO, &none));
        let seconds = now.since(since).0 as f64 / 1e9;
        if seconds <= 0.0 {
            return Rate::default();
        }
        let rate = |new: u64, old: u64| new.saturating_sub(old) as f64 / seconds;
        Rate {
            rx_pps: rate(port.rx_packets, old.rx_packets),
            rx_bps: rate(port.rx_bytes, old.rx_bytes) * 8.0,
            tx_pps: rate(port.tx_packets, old.tx_packets),
            tx_bps: rate(port.tx_bytes, old.tx_bytes) * 8.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Switch;
    use super::*;

    fn snapshot(ms: u64, rx: u64) -> Snapshot {
        let port = Port { name: "p1".into(), rx_packets: rx, rx_bytes: rx * 100, ..Port::default() };
        Snapshot {
            now: Time::from_millis(ms),
            switches: vec![Switch { ports: vec![port], ..Switch::default() }],
        }
    }

    #[test]
    fn over_the_last_second() {
        let mut rates = Rates::default();
        for (ms, rx) in [(0, 0), (500, 50), (1000, 100), (2000, 600)] {
            rates.sample(&snapshot(ms, rx));
        }
        let rate = rates.of(SwitchIndex(0), 0);
        assert_eq!((rate.rx_pps, rate.rx_bps), (500.0, 400_000.0));
        assert_eq!(rates.of(SwitchIndex(0), 1), Rate::default());
        assert_eq!(rates.of(SwitchIndex(1), 0), Rate::default());
    }

    #[test]
    fn since_the_start_when_nothing_nearer_is_known() {
        let mut rates = Rates::default();
        rates.sample(&snapshot(4000, 400));
        assert_eq!(rates.of(SwitchIndex(0), 0).rx_pps, 100.0);
    }

    #[test]
    fn going_back_forgets_what_was_later() {
        let mut rates = Rates::default();
        for (ms, rx) in [(0, 0), (1000, 1000), (500, 10)] {
            rates.sample(&snapshot(ms, rx));
        }
        assert_eq!(rates.of(SwitchIndex(0), 0).rx_pps, 20.0);
    }
}
