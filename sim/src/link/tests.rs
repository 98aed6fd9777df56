//! Each rule of the model by itself, the statistics of chance, and all of it together.

use super::*;
use crate::quantity::{probability, rate, time};
use proptest::prelude::*;

fn direction(patch: &LinkPatch) -> Direction {
    Direction::new(LinkModel::default().patched(patch), 1, "a b")
}

fn frame(bytes: u64) -> FrameSize {
    FrameSize { bytes, l3_bytes: bytes - 14 }
}

/// Sends `n` frames, `gap` apart; gives when each arrives, or why not.
fn send(direction: &mut Direction, n: u64, gap: u64, bytes: u64) -> Vec<Result<u64, LinkDrop>> {
    let fate = |i| match direction.send(Time(i * gap), frame(bytes)) {
        Fate::Arrives { at, twice: _ } => Ok(at.0),
        Fate::Dropped(reason) => Err(reason),
    };
    (0..n).map(fate).collect()
}

#[test]
fn a_perfect_line_changes_nothing() {
    let mut line = direction(&LinkPatch::default());
    assert_eq!(send(&mut line, 3, 5, 60), [Ok(0), Ok(5), Ok(10)]);
    assert_eq!(line.counters, LinkCounters { sent: 3, sent_bytes: 180, ..LinkCounters::default() });
}

#[test]
fn frames_leave_one_after_the_other() {
    // 1000 bytes at 8 Gbit take 1 us.
    let patch = LinkPatch {
        rate: Some(Some(rate("8Gbit").unwrap())),
        delay: time("10us").ok(),
        ..LinkPatch::default()
    };
    let mut line = direction(&patch);
    assert_eq!(send(&mut line, 4, 0, 1000), [Ok(11_000), Ok(12_000), Ok(13_000), Ok(14_000)]);
    assert_eq!(line.queued(Time(0)), (3, 3000));
    assert_eq!(line.queued(Time(1_000)), (2, 2000));
    // Behind a pause the line is free at once; a fraction of a nanosecond is rounded up.
    let Fate::Arrives { at, .. } = line.send(Time(50_000), frame(1001)) else { panic!() };
    assert_eq!(at, Time(50_000 + 1001 + 10_000));
}

#[test]
fn a_full_queue_drops_what_comes() {
    let patch =
        |queue| LinkPatch { rate: Some(Some(8_000_000_000)), queue: Some(queue), ..LinkPatch::default() };
    let mut packets = direction(&patch(QueueLimit::Packets(2)));
    let full = Err(LinkDrop::QueueFull);
    // One is being sent, two wait; after 1 us there is room for one more.
    assert_eq!(send(&mut packets, 5, 0, 1000), [Ok(1000), Ok(2000), Ok(3000), full, full]);
    assert!(matches!(packets.send(Time(1000), frame(1000)), Fate::Arrives { at: Time(4000), .. }));
    assert_eq!(packets.counters.dropped[LinkDrop::QueueFull as usize], 2);
    let mut bytes = direction(&patch(QueueLimit::Bytes(1500)));
    assert_eq!(send(&mut bytes, 3, 0, 1000), [Ok(1000), Ok(2000), full]);
    assert!(matches!(bytes.send(Time(0), frame(500)), Fate::Arrives { at: Time(2500), .. }));
    let mut none = direction(&patch(QueueLimit::Packets(0)));
    assert_eq!(send(&mut none, 3, 500, 1000), [Ok(1000), full, Ok(2000)]);
}

#[test]
fn down_and_too_long() {
    let mut line = direction(&LinkPatch { mtu: Some(Some(1500)), ..LinkPatch::default() });
    assert_eq!(line.send(Time(0), frame(1515)), Fate::Dropped(LinkDrop::Mtu));
    assert!(matches!(line.send(Time(0), frame(1514)), Fate::Arrives { .. }));
    line.model.down = true;
    assert_eq!(line.send(Time(0), frame(60)), Fate::Dropped(LinkDrop::Down));
    assert_eq!(line.counters.dropped, [1, 1, 0, 0]);
}

#[test]
fn loss_is_what_was_asked_for() {
    // 200,000 frames: mean and five standard deviations of the binomial distribution.
    for (text, mean, deviation) in [("0.1%", 200.0, 14.1), ("1%", 2000.0, 44.5), ("50%", 100_000.0, 223.6)] {
        let mut line = direction(&LinkPatch { loss: probability(text).ok(), ..LinkPatch::default() });
        send(&mut line, 200_000, 1, 60);
        let lost = line.counters.dropped[LinkDrop::Loss as usize] as f64;
        assert!((lost - mean).abs() < 5.0 * deviation, "{text}: {lost}");
    }
    let mut all = direction(&LinkPatch { loss: Some(Probability::ALWAYS), ..LinkPatch::default() });
    assert_eq!(send(&mut all, 2, 1, 60), [Err(LinkDrop::Loss), Err(LinkDrop::Loss)]);
}

#[test]
fn losses_are_independent_of_each_other() {
    let mut line = direction(&LinkPatch { loss: probability("10%").ok(), ..LinkPatch::default() });
    let lost: Vec<bool> = send(&mut line, 100_000, 1, 60).iter().map(Result::is_err).collect();
    let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
    // One in a hundred pairs, give or take five standard deviations.
    assert!((840..1160).contains(&pairs), "{pairs}");
}

#[test]
fn jitter_is_even_and_keeps_the_order() {
    let patch = LinkPatch { delay: time("100us").ok(), jitter: time("10us").ok(), ..LinkPatch::default() };
    let mut line = direction(&patch);
    let far: Vec<u64> = send(&mut line, 20_000, 1_000_000, 60)
        .into_iter()
        .enumerate()
        .map(|(i, at)| at.unwrap() - i as u64 * 1_000_000)
        .collect();
    assert!(far.iter().all(|delay| (90_000..=110_000).contains(delay)));
    let below = far.iter().filter(|delay| **delay < 95_000).count();
    // A quarter is below a quarter of the range; standard deviation 61.
    assert!((4700..5300).contains(&below), "{below}");
    let near = send(&mut direction(&patch), 20_000, 10, 60);
    assert!(near.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn jitter_beyond_the_delay_never_goes_back_in_time() {
    let patch = LinkPatch { delay: time("1us").ok(), jitter: time("1s").ok(), ..LinkPatch::default() };
    let arrivals = send(&mut direction(&patch), 100, 1_000, 60);
    assert!(arrivals.iter().enumerate().all(|(i, at)| at.unwrap() >= i as u64 * 1_000));
}

#[test]
fn reordered_frames_are_overtaken() {
    let patch = LinkPatch {
        reorder: probability("10%").ok(),
        reorder_gap: time("25ns").ok(),
        delay: time("100ns").ok(),
        ..LinkPatch::default()
    };
    let mut line = direction(&patch);
    let arrivals: Vec<u64> = send(&mut line, 10_000, 10, 60).into_iter().map(Result::unwrap).collect();
    let late = arrivals.iter().enumerate().filter(|(i, at)| **at == *i as u64 * 10 + 125).count() as u64;
    assert_eq!(late, line.counters.reordered);
    assert!((850..1150).contains(&late), "{late}");
    let on_time = arrivals.iter().enumerate().filter(|(i, at)| **at == *i as u64 * 10 + 100).count() as u64;
    assert_eq!(late + on_time, 10_000);
}

#[test]
fn one_chance_does_not_move_another() {
    let lost = |duplicate: &str| {
        let patch = LinkPatch {
            loss: probability("5%").ok(),
            duplicate: probability(duplicate).ok(),
            ..LinkPatch::default()
        };
        send(&mut direction(&patch), 1000, 1, 60)
    };
    assert_eq!(lost("0%"), lost("30%"));
}

proptest! {
    /// Whatever the model: counters account for every frame, and none arrives before it was sent.
    #[test]
    fn every_frame_is_accounted_for(
        (delay, jitter, gap) in (0u64..1000, 0u64..1000, 0u64..1000),
        (loss, duplicate, reorder) in (0u32..=1_000_000_000, 0u32..=1_000_000_000, 0u32..=1_000_000_000),
        rate in prop::option::of(1u64..20_000_000_000),
        queue in 0u64..20,
        sizes in prop::collection::vec((60u64..2000, 0u64..500), 1..80),
    ) {
        let model = LinkModel {
            delay: Span(delay),
            jitter: Span(jitter),
            loss: Probability::from_parts(loss),
            duplicate: Probability::from_parts(duplicate),
            reorder: Probability::from_parts(reorder),
            reorder_gap: Span(gap),
            rate,
            queue: QueueLimit::Packets(queue),
            mtu: Some(1500),
            down: false,
        };
        let mut line = Direction::new(model, 3, "a b");
        let (mut now, mut arrived, mut dropped) = (Time::ZERO, 0u64, 0u64);
        for (bytes, wait) in sizes {
            now += Span(wait);
            match line.send(now, frame(bytes)) {
                Fate::Arrives { at, twice } => {
                    prop_assert!(at >= now);
                    arrived += 1 + u64::from(twice);
                }
                Fate::Dropped(_) => dropped += 1,
            }
            prop_assert!(line.queued(now).0 <= queue);
        }
        prop_assert_eq!(line.counters.under_way(), arrived);
        prop_assert_eq!(line.counters.dropped_in_all(), dropped);
        prop_assert_eq!(line.counters.sent + line.counters.duplicated, arrived + dropped);
    }
}
