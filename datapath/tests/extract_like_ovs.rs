//! Extraction against Open vSwitch itself: well-formed, odd and damaged frames, with what `ovs-ofctl parse-pcap` of 4.0.90 read
//! from each.

use datapath::flow::Flow;
use datapath::openflow::ofproto::flow_text;
use datapath::openflow::text::NoNames;
use datapath::packet::Packet;

const VECTORS: &str = include_str!("data/parse-pcap.ovs-4.0.90.txt");

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("a hexadecimal digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn reads_what_ovs_reads() {
    let mut count = 0;
    let mut different = Vec::new();
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let (frame, expected) = line.split_once(' ').expect("frame and flow");
        let flow = Flow::of_packet(&mut Packet::from_frame(&hex(frame)));
        let text = flow_text(&flow, &NoNames);
        if text != expected {
            different.push(format!("{frame}\n  OVS  {expected}\n  here {text}"));
        }
        count += 1;
    }
    assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    assert_eq!(count, 127);
}
