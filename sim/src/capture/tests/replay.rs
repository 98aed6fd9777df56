use std::io::{self, Cursor};
use std::num::NonZeroU64;

use super::super::*;
use super::E;

fn pacing(text: &str) -> Pacing {
    text.parse().expect(text)
}

fn pacer(text: &str) -> Pacer {
    Pacer::new(pacing(text), LoopGap::Mean, None, 0)
}

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

#[test]
fn speeds_in_text() {
    for text in ["1x", "2.5x", "0.1x", "1000pps", "0.5pps", "topspeed"] {
        assert_eq!(pacing(text).to_string(), text);
    }
    for text in ["", "x", "1", "0x", "0.0x", "-1x", "1.x", ".5x", "1e3pps", "1 x", "fast", "1.2.3x", "pps"] {
        let error = text.parse::<Pacing>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text:?} is not a replay speed")), "{error}");
    }
    assert!("99999999999999999999x".parse::<Pacing>().is_err());
    assert!("0.00000000000000000000000001x".parse::<Pacing>().is_err());
}

#[test]
fn ten_thousand_records_do_not_drift() {
    // (t_n - t_0) / speed, to the nanosecond, for a speed that does not divide anything.
    for (text, num, den) in
        [("1x", 1u128, 1u128), ("3x", 3, 1), ("0.7x", 7, 10), ("1.000001x", 1_000_001, 1_000_000)]
    {
        let mut pacer = Pacer::new(pacing(text), LoopGap::Mean, None, 77);
        for n in 0..10_000u64 {
            let due = 77 + (u128::from(n * MS) * den / num) as u64;
            assert_eq!(pacer.depart(5 * S + n * MS), due);
        }
    }
}

#[test]
fn a_rate_is_even_over_all_loops() {
    let mut pacer = pacer("3pps");
    for n in 0..3000u64 {
        assert_eq!(pacer.depart(n % 10), n * S / 3);
        if n % 10 == 9 {
            pacer.next_pass();
        }
    }
}

#[test]
fn time_that_goes_back_waits_for_nothing() {
    let mut pacer = pacer("1x");
    let times = [0, 65536 * S + 28_000, 49_000, 92_000, 65536 * S + 28_001];
    let departures = times.map(|time| pacer.depart(time));
    let far = 65536 * S + 28_000;
    assert_eq!(departures, [0, far, far, far, far + 1]);
    assert_eq!(pacer.went_back(), 2);
}

#[test]
fn a_long_pause_can_be_cut() {
    let mut pacer = Pacer::new(pacing("1x"), LoopGap::Mean, Some(2 * S), 0);
    assert_eq!([0, S, 65536 * S, 65537 * S].map(|time| pacer.depart(time)), [0, S, 3 * S, 4 * S]);
}

#[test]
fn loops_go_on_without_a_burst_or_a_pause() {
    let mut evenly = pacer("2x");
    let mut expected = 0;
    for _ in 0..100 {
        for n in 0..10 {
            assert_eq!(evenly.depart(n * MS), expected);
            expected += MS / 2;
        }
        evenly.next_pass();
    }
    let mut fixed = Pacer::new(pacing("1x"), LoopGap::Fixed(0), None, 0);
    let mut departures = Vec::new();
    // The second file starts a year earlier.
    for start in [31_536_000 * S, 0] {
        departures.extend([start, start + S].map(|time| fixed.depart(time)));
        fixed.next_pass();
    }
    assert_eq!(departures, [0, S, S, 2 * S]);
}

#[test]
fn nothing_overflows() {
    for text in ["0.0000000001x", "1x", "18446744073709551615x", "0.0000000001pps"] {
        let mut pacer = Pacer::new(pacing(text), LoopGap::Fixed(u64::MAX), None, u64::MAX - 1);
        let mut last = 0;
        for _ in 0..5 {
            for time in [0, u64::MAX, 1] {
                let next = pacer.depart(time);
                assert!(next >= last);
                last = next;
            }
            pacer.next_pass();
        }
    }
}

fn file(times_ns: &[u32]) -> Vec<u8> {
    let mut file = E::L.pcap(0xa1b2_3c4d, 4, 0, 113);
    for (n, &time) in times_ns.iter().enumerate() {
        // Every third record is of a device that has no Ethernet frames.
        let hardware = if n % 3 == 2 { 824u16 } else { 1 };
        let mut data = vec![0; 20];
        data[2..4].copy_from_slice(&hardware.to_be_bytes());
        data[14] = 8;
        file.extend(E::L.record(9, time, (20, 20), &data));
    }
    file
}

fn options(text: &str, loops: u64) -> ReplayOptions {
    ReplayOptions { pacing: pacing(text), loops: NonZeroU64::new(loops).unwrap(), ..Default::default() }
}

#[test]
fn a_replay_loops_and_accounts_for_every_record() {
    let bytes = file(&[100, 300, 200, 500, 400]);
    let mut replay = Replay::new(|| Ok(&bytes[..]), options("1x", 3)).unwrap();
    let (mut data, mut seen) = (Vec::new(), Vec::new());
    while let Some(packet) = replay.next_frame(&mut data).unwrap() {
        assert_eq!(data.len(), 18);
        seen.push((packet.pass, packet.record.number, packet.depart_ns));
    }
    // 0, 200, 400, 400 and then on after the mean distance of 133.
    let mut expected = Vec::new();
    for pass in 0..3 {
        for (number, at) in [(1, 0), (2, 200), (4, 400), (5, 400)] {
            expected.push((pass, number, pass * 533 + at));
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(replay.records(), 15);
    assert_eq!((replay.frame_counts().frames, replay.frame_counts().total_skipped()), (12, 3));
    assert_eq!(replay.notes().get(Note::TimeWentBack).count, 2, "once for the file, not for each loop");
    assert!(replay.next_frame(&mut data).unwrap().is_none());
}

#[test]
fn a_file_without_frames_is_not_looped_for_ever() {
    let bytes = E::L.pcap(0xa1b2_3c4d, 4, 0, 1);
    let mut opened = 0;
    let open = || {
        opened += 1;
        Ok(&bytes[..])
    };
    let mut replay = Replay::new(open, options("topspeed", u64::MAX)).unwrap();
    assert!(replay.next_frame(&mut Vec::new()).unwrap().is_none());
    assert_eq!(opened, 1);
}

#[test]
fn a_file_that_cannot_be_opened_again_ends_the_replay() {
    let bytes = file(&[1]);
    let mut first = true;
    let open = || match std::mem::take(&mut first) {
        true => Ok(&bytes[..]),
        false => Err(io::Error::other("gone")),
    };
    let mut replay = Replay::new(open, options("1x", 2)).unwrap();
    let mut data = Vec::new();
    assert!(replay.next_frame(&mut data).unwrap().is_some());
    assert_eq!(replay.next_frame(&mut data).unwrap_err().to_string(), "cannot open the capture: gone");
    assert!(replay.next_frame(&mut data).unwrap().is_none());
}

#[test]
fn a_replay_goes_on_from_a_checkpoint() {
    let bytes = file(&[100, 300, 200, 500, 400, 900, 800]);
    let open = || Ok(Cursor::new(&bytes));
    let mut replay = Replay::new(open, options("0.3x", 4)).unwrap();
    let mut data = Vec::new();
    let mut checkpoints = vec![replay.checkpoint()];
    let mut all = Vec::new();
    while let Some(packet) = replay.next_frame(&mut data).unwrap() {
        all.push((packet, data.clone()));
        checkpoints.push(replay.checkpoint());
    }
    for (index, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = Replay::resume(open, checkpoint).unwrap();
        for expected in &all[index..] {
            let packet = resumed.next_frame(&mut data).unwrap().unwrap();
            assert_eq!((packet, data.clone()), *expected);
        }
        assert!(resumed.next_frame(&mut data).unwrap().is_none());
        assert_eq!(resumed.frame_counts(), replay.frame_counts());
        assert_eq!(resumed.notes(), replay.notes());
    }
}
