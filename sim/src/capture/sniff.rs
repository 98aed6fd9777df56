//! What a file that is not a capture looks like, for one helpful sentence.

/// How many bytes of the beginning are worth looking at.
pub(super) const PREFIX: usize = 512;

/// Beginnings that are known, and what to say.
const KNOWN: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "it is compressed with gzip; unpack it first (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it first (unzstd)"),
    (b"\xfd7zXZ\x00", "it is compressed with xz; unpack it first (unxz)"),
    (b"BZh", "it is compressed with bzip2; unpack it first (bunzip2)"),
    (b"\x04\x22\x4d\x18", "it is compressed with lz4; unpack it first (unlz4)"),
    (b"PK\x03\x04", "it is a zip archive; unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive; unpack it first"),
    (
        b"\x34\xcd\xb2\xa1",
        "it is the modified pcap of Linux 2.0 patches; convert it with: editcap -F nsecpcap",
    ),
    (
        b"\xa1\xb2\xcd\x34",
        "it is the modified pcap of Linux 2.0 patches; convert it with: editcap -F nsecpcap",
    ),
    (b"snoop\x00\x00\x00", "it is a snoop capture; convert it with: editcap -F nsecpcap"),
    (b"GMBU", "it is a Microsoft Network Monitor capture; convert it with: editcap -F nsecpcap"),
    (b"RTSS", "it is a Microsoft Network Monitor capture; convert it with: editcap -F nsecpcap"),
    (b"iptrace ", "it is an AIX iptrace; convert it with: editcap -F nsecpcap"),
    (b"\x7fELF", "it is a program or library (ELF)"),
    (b"\x89PNG", "it is a picture (PNG)"),
    (b"%PDF", "it is a document (PDF)"),
    (
        b"version https://git-lfs",
        "it is a Git LFS pointer, not the file it stands for; fetch that with: git lfs pull",
    ),
    (b"<?xml", "it is XML; packets printed as text cannot be replayed"),
    (b"<!DOCTYPE", "it is a web page"),
    (b"<html", "it is a web page"),
];

/// One clause about a file that begins with `prefix`.
pub(super) fn looks_like(prefix: &[u8]) -> String {
    if prefix.is_empty() {
        return "it is empty".to_owned();
    }
    if let Some((_, text)) = KNOWN.iter().find(|(magic, _)| prefix.starts_with(magic)) {
        return (*text).to_owned();
    }
    if prefix.len() >= 262 && &prefix[257..262] == b"ustar" {
        return "it is a tar archive; unpack it first".to_owned();
    }
    if prefix.iter().all(|&byte| byte == 0) {
        return "it begins with zeros only".to_owned();
    }
    if prefix.iter().all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        return "it is text; packets printed as text cannot be replayed".to_owned();
    }
    let shown = &prefix[..prefix.len().min(4)];
    let hex: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("it begins with the bytes {}", hex.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_mistakes_are_named() {
        assert!(looks_like(b"\x1f\x8b\x08\x00").contains("gzip"));
        assert!(looks_like(b"").contains("empty"));
        assert!(looks_like(b"name = \"x\"\n").contains("text"));
        assert!(looks_like(&[0; 100]).contains("zeros"));
        assert_eq!(looks_like(&[1, 2, 3, 0xff, 5]), "it begins with the bytes 01 02 03 ff");
        let mut tar = vec![b'x'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(looks_like(&tar).contains("tar"));
    }
}
