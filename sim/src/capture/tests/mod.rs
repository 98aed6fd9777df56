//! Tests of captures, on files made byte by byte in both byte orders.

mod frame;
mod pcap;
mod pcapng;
mod property;
mod replay;

use super::{CaptureError, CaptureReader, RecordMeta};

/// Numbers in one byte order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum E {
    L,
    B,
}

const BOTH: [E; 2] = [E::L, E::B];

impl E {
    fn u16(self, n: u16) -> Vec<u8> {
        (if self == E::B { n.to_be_bytes() } else { n.to_le_bytes() }).to_vec()
    }

    fn u32(self, n: u32) -> Vec<u8> {
        (if self == E::B { n.to_be_bytes() } else { n.to_le_bytes() }).to_vec()
    }

    fn u64(self, n: u64) -> Vec<u8> {
        (if self == E::B { n.to_be_bytes() } else { n.to_le_bytes() }).to_vec()
    }

    /// A classic pcap header.
    fn pcap(self, magic: u32, minor: u16, snaplen: u32, link: u32) -> Vec<u8> {
        let parts =
            [self.u32(magic), self.u16(2), self.u16(minor), vec![0; 8], self.u32(snaplen), self.u32(link)];
        parts.concat()
    }

    /// A classic pcap record whose lengths need not be those of `data`.
    fn record(self, sec: u32, fraction: u32, lengths: (u32, u32), data: &[u8]) -> Vec<u8> {
        let words = [sec, fraction, lengths.0, lengths.1];
        [words.map(|word| self.u32(word)).concat(), data.to_vec()].concat()
    }

    /// A pcapng block around `body`, padded.
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let pad = vec![0; body.len().next_multiple_of(4) - body.len()];
        let total = self.u32((body.len() + pad.len() + 12) as u32);
        [self.u32(kind), total.clone(), body.to_vec(), pad, total].concat()
    }

    fn section(self) -> Vec<u8> {
        self.block(
            0x0a0d_0d0a,
            &[self.u32(0x1a2b_3c4d), self.u16(1), self.u16(0), self.u64(u64::MAX)].concat(),
        )
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let pad = vec![0; value.len().next_multiple_of(4) - value.len()];
        [self.u16(code), self.u16(value.len() as u16), value.to_vec(), pad].concat()
    }

    fn interface(self, link: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[self.u16(link), self.u16(0), self.u32(snaplen), options.to_vec()].concat())
    }

    fn enhanced(self, interface: u32, ticks: u64, data: &[u8], options: &[u8]) -> Vec<u8> {
        self.enhanced_lengths(interface, ticks, (data.len() as u32, data.len() as u32), data, options)
    }

    fn enhanced_lengths(
        self,
        interface: u32,
        ticks: u64,
        lengths: (u32, u32),
        data: &[u8],
        options: &[u8],
    ) -> Vec<u8> {
        let words = [interface, (ticks >> 32) as u32, ticks as u32, lengths.0, lengths.1];
        let pad = vec![0; data.len().next_multiple_of(4) - data.len()];
        self.block(
            6,
            &[words.map(|word| self.u32(word)).concat(), data.to_vec(), pad, options.to_vec()].concat(),
        )
    }
}

type Records = Vec<(RecordMeta, Vec<u8>)>;

/// All records of a file, or the error that ends it; and the reader, for its notes.
fn read_all(file: &[u8]) -> (Records, Option<CaptureError>, CaptureReader<&[u8]>) {
    let mut reader = CaptureReader::open(file).expect("opens");
    let (mut records, mut data) = (Vec::new(), Vec::new());
    loop {
        match reader.next_record(&mut data) {
            Ok(Some(meta)) => {
                assert_eq!(meta.captured_len as usize, data.len());
                assert!(meta.captured_len <= meta.original_len);
                records.push((meta, data.clone()));
            }
            Ok(None) => return (records, None, reader),
            Err(error) => {
                assert!(matches!(reader.next_record(&mut data), Ok(None)), "an error is the end");
                return (records, Some(error), reader);
            }
        }
    }
}

/// All records of a file that has nothing wrong with it.
fn read_clean(file: &[u8]) -> Records {
    let (records, error, reader) = read_all(file);
    assert!(error.is_none(), "{error:?}");
    assert!(reader.notes().is_empty(), "{:?}", reader.notes());
    records
}

/// The error of a file that does not open.
fn refusal(file: &[u8]) -> String {
    CaptureReader::open(file).map(|_| ()).expect_err("must be refused").to_string()
}
