//! Decoding of good, cut and senseless frames.

use etherparse::PacketBuilder;

use super::*;

fn udp_frame(ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], ttl)
        .udp(1000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn names(layers: &[Layer]) -> Vec<&'static str> {
    layers.iter().map(|layer| layer.name).collect()
}

fn value<'a>(layers: &'a [Layer], layer: &str, field: &str) -> &'a str {
    let layer = layers.iter().find(|one| one.name == layer).unwrap();
    &layer.fields.iter().find(|one| one.name == field).unwrap().value
}

#[test]
fn a_udp_packet() {
    let layers = layers(&udp_frame(64, &[1, 2, 3]));
    assert_eq!(names(&layers), ["Ethernet", "IPv4", "UDP", "Data"]);
    assert_eq!(value(&layers, "Ethernet", "src"), "02:00:00:00:00:01");
    assert_eq!(value(&layers, "IPv4", "dst"), "10.0.0.2");
    assert_eq!(value(&layers, "UDP", "dst"), "2000");
    assert_eq!(layers[3].range, 42..45);
}

#[test]
fn tunnels_are_looked_into() {
    let inner = udp_frame(64, &[9]);
    let mut vxlan = vec![8, 0, 0, 0, 0, 0, 42, 0];
    vxlan.extend(&inner);
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([1; 4], [2; 4], 64).udp(5555, 4789);
    let mut frame = Vec::new();
    builder.write(&mut frame, &vxlan).unwrap();
    let layers = layers(&frame);
    assert_eq!(names(&layers), ["Ethernet", "IPv4", "UDP", "VXLAN", "Ethernet", "IPv4", "UDP", "Data"]);
    assert_eq!(value(&layers, "VXLAN", "vni"), "42");
}

#[test]
fn padding_is_told_from_data() {
    let mut frame = udp_frame(64, &[]);
    frame.resize(60, 0);
    assert_eq!(names(&layers(&frame)), ["Ethernet", "IPv4", "UDP", "Padding"]);
}

#[test]
fn ranges_cover_the_frame_without_gaps() {
    let mut frame = udp_frame(64, &[7; 20]);
    frame.extend([0; 9]);
    for cut in 0..=frame.len() {
        let layers = layers(&frame[..cut]);
        let mut at = 0;
        for layer in &layers {
            assert_eq!(layer.range.start, at, "cut at {cut}");
            assert!(layer.fields.iter().all(|field| field.range.end <= cut));
            at = layer.range.end;
        }
        assert_eq!(at, cut);
    }
}

#[test]
fn nothing_panics_on_noise() {
    // Every Ethernet type and protocol that is looked into, with all bytes alike behind it.
    let types = [0x8100, 0x88a8, 0x0800, 0x86dd, 0x0806, 0x8035, 0x8847, 0x6558, 0x894f, 100];
    for kind in types {
        for byte in 0..=255_u8 {
            for len in [0, 1, 3, 7, 19, 27, 39, 63, 200] {
                let mut frame = vec![2; 12];
                frame.extend(u16::to_be_bytes(kind));
                frame.extend(std::iter::repeat_n(byte, len));
                let layers = layers(&frame);
                assert_eq!(layers.last().unwrap().range.end, frame.len());
            }
        }
    }
    for protocol in 0..=255_u8 {
        for byte in [0, 1, 0x45, 0x60, 0xff] {
            let mut frame = udp_frame(64, &[byte; 40]);
            frame[23] = protocol;
            frame[34..].fill(byte);
            assert!(!layers(&frame).is_empty());
        }
    }
}

#[test]
fn changes_are_found() {
    let (before, after) = (layers(&udp_frame(64, &[])), layers(&udp_frame(63, &[])));
    let (changes, gone) = compare(&before, &after);
    assert!(gone.is_empty());
    assert_eq!((changes[0].0, changes[1].0, changes[2].0), (Change::Same, Change::Changed, Change::Same));
    let changed: Vec<&str> = after[1]
        .fields
        .iter()
        .zip(&changes[1].1)
        .filter(|(_, change)| **change == Change::Changed)
        .map(|(field, _)| field.name)
        .collect();
    assert_eq!(changed, ["ttl", "csum"]);
}

#[test]
fn pushed_and_popped_headers_are_told() {
    let frame = udp_frame(64, &[]);
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0, 10]);
    let (plain, tagged) = (layers(&frame), layers(&tagged));
    let (changes, gone) = compare(&plain, &tagged);
    assert_eq!(changes[1].0, Change::Added);
    assert_eq!(changes[2].0, Change::Same);
    assert!(gone.is_empty());
    let (changes, gone) = compare(&tagged, &plain);
    assert_eq!(changes[1].0, Change::Same);
    assert_eq!(gone, ["802.1Q"]);
}
