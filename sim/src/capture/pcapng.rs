//! pcapng: sections, interfaces, packets (draft-ietf-opsawg-pcapng).
//!
//! The pcap-file crate is not used here: its reader of this format takes every timestamp for nanoseconds, needs whole
//! blocks in one fixed buffer, and refuses a file for a comment that is not UTF-8 or for options without an end mark.

use std::io::Read;
use std::sync::Arc;

use super::error::{BlockFault, CaptureError};
use super::note::{Note, NoteSet};
use super::reader::{Common, Direction, Interface, MAX_INTERFACES, RecordMeta};
use super::source::{Order, Source, Stop};
use super::time::{self, TimeResolution};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Registered blocks without packets: name resolution, interface statistics, systemd journal, decryption secrets,
/// custom blocks. They are skipped without a note.
const NOT_PACKETS: [u32; 6] = [4, 5, 9, 10, 0x0000_0bad, 0x4000_0bad];

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Total length of a block without a body: type, length, length again.
const FRAME: u32 = 12;

/// Bytes of text kept of a name, a description, and all comments of a packet.
const MAX_NAME: usize = 256;
const MAX_COMMENT: usize = 64 * 1024;

mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    /// Of a packet: direction and length of the frame check sequence.
    pub const FLAGS: u16 = 2;
    pub const IF_NAME: u16 = 2;
    pub const IF_DESCRIPTION: u16 = 3;
    pub const IF_TSRESOL: u16 = 9;
    pub const IF_FCSLEN: u16 = 13;
    pub const IF_TSOFFSET: u16 = 14;
}

/// The section being read.
#[derive(Debug, Clone)]
pub(super) struct NgState {
    order: Order,
    /// Its number, from 0.
    section: u32,
    /// Index over the whole file of its first interface.
    first_interface: u32,
    /// Holds the value of one option at a time; its capacity is kept.
    value: Vec<u8>,
}

/// The block being read.
#[derive(Debug, Clone, Copy)]
struct Block {
    kind: u32,
    /// Total length in bytes, from its header.
    total: u32,
}

impl Block {
    fn fault(self, common: &Common, what: BlockFault) -> Stop {
        let (offset, records) = (common.start, common.records);
        CaptureError::Block { offset, records, block_type: self.kind, what }.into()
    }

    /// Refuses a block without room for `fixed` bytes of body; returns what follows them before the trailer.
    fn after(self, common: &Common, fixed: u32) -> Result<u32, Stop> {
        let want = FRAME + fixed;
        self.total
            .checked_sub(want)
            .ok_or_else(|| self.fault(common, BlockFault::TooShort { have: self.total, want }))
    }
}

/// Whether a file that begins so is a pcapng.
pub(super) fn is_pcapng(prefix: &[u8]) -> bool {
    prefix.starts_with(&SECTION_HEADER.to_be_bytes())
}

/// Reads the first section header.
pub(super) fn open<R: Read>(source: &mut Source<R>, common: &mut Common) -> Result<NgState, CaptureError> {
    let mut state = NgState { order: Order::Little, section: 0, first_interface: 0, value: Vec::new() };
    match section_header(source, common, &mut state) {
        Ok(()) => Ok(state),
        Err(Stop::Fault(error)) => Err(*error),
        Err(Stop::Io(error)) => {
            Err(CaptureError::Read { offset: source.offset(), records: 0, source: error })
        }
        Err(Stop::Cut) => {
            let (want, have) = (common.want, source.offset());
            Err(CaptureError::HeaderCut { part: "pcapng section header", want, have })
        }
    }
}

/// Reads blocks up to and including the next packet.
pub(super) fn next<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    data: &mut Vec<u8>,
) -> Result<Option<RecordMeta>, Stop> {
    loop {
        (common.start, common.want) = (source.offset(), 8);
        if source.at_end().map_err(Stop::Io)? {
            return Ok(None);
        }
        // The type of a section header reads the same in both byte orders, so the section's own order serves.
        let kind = source.peek(4).map_err(Stop::Io)?.first_chunk().map(|&bytes| state.order.u32(bytes));
        if kind == Some(SECTION_HEADER) {
            state.section = state.section.saturating_add(1);
            state.first_interface = common.interfaces.len() as u32;
            section_header(source, common, state)?;
            continue;
        }
        let block = block_header(source, common, state.order)?;
        let meta = match block.kind {
            INTERFACE_DESCRIPTION => {
                interface_description(source, common, state, block)?;
                None
            }
            ENHANCED_PACKET => Some(enhanced_packet(source, common, state, block, data)?),
            OBSOLETE_PACKET => Some(obsolete_packet(source, common, state, block, data)?),
            SIMPLE_PACKET => Some(simple_packet(source, common, state, block, data)?),
            kind => {
                source.skip(u64::from(block.total - FRAME))?;
                trailer(source, common, state.order, block)?;
                if !NOT_PACKETS.contains(&kind) {
                    common.note_block(Note::UnknownBlock);
                }
                None
            }
        };
        if meta.is_some() {
            return Ok(meta);
        }
    }
}

fn block_header<R: Read>(source: &mut Source<R>, common: &mut Common, order: Order) -> Result<Block, Stop> {
    let mut header = [0; 8];
    source.exact(&mut header)?;
    let block = Block { kind: order.u32_at(&header, 0), total: order.u32_at(&header, 4) };
    check_length(common, block)?;
    Ok(block)
}

fn check_length(common: &mut Common, block: Block) -> Result<(), Stop> {
    if !block.total.is_multiple_of(4) || block.total < FRAME {
        return Err(block.fault(common, BlockFault::Length(block.total)));
    }
    common.want = u64::from(block.total);
    Ok(())
}

fn trailer<R: Read>(source: &mut Source<R>, common: &Common, order: Order, block: Block) -> Result<(), Stop> {
    let mut bytes = [0; 4];
    source.exact(&mut bytes)?;
    let tail = order.u32(bytes);
    if tail != block.total {
        return Err(block.fault(common, BlockFault::Trailer { head: block.total, tail }));
    }
    Ok(())
}

fn section_header<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
) -> Result<(), Stop> {
    /// Magic, versions, section length.
    const FIXED: u32 = 16;
    common.want = u64::from(FRAME + FIXED);
    let mut head = [0; 12];
    source.exact(&mut head)?;
    let magic = Order::Little.u32_at(&head, 8);
    state.order = if magic == BYTE_ORDER_MAGIC {
        Order::Little
    } else if magic.swap_bytes() == BYTE_ORDER_MAGIC {
        Order::Big
    } else {
        let block = Block { kind: SECTION_HEADER, total: 0 };
        return Err(block.fault(common, BlockFault::Magic(magic)));
    };
    let block = Block { kind: SECTION_HEADER, total: state.order.u32_at(&head, 4) };
    check_length(common, block)?;
    let options_len = block.after(common, FIXED)?;
    // The section length is of no use: writers that do not seek leave it out, and blocks have their own.
    let mut rest = [0; 12];
    source.exact(&mut rest)?;
    let (major, minor) = (state.order.u16_at(&rest, 0), state.order.u16_at(&rest, 2));
    // Minor version 2 was written by some programs and means the same as 0.
    if major != 1 || !(minor == 0 || minor == 2) {
        let (format, offset, supported) = ("pcapng", common.start + 12, "1.0 and 1.2");
        return Err(CaptureError::Version { format, offset, major, minor, supported }.into());
    }
    source.skip(u64::from(options_len))?;
    trailer(source, common, state.order, block)
}

/// Reads `len` bytes of options and calls `each` with those of the `wanted` codes.
/// A malformed one is noted and ends them.
fn options<R: Read>(
    source: &mut Source<R>,
    state: &mut NgState,
    len: u32,
    wanted: &[u16],
    mut each: impl FnMut(u16, &[u8]),
) -> Result<bool, Stop> {
    let mut left = len;
    while left >= 4 {
        let mut head = [0; 4];
        source.exact(&mut head)?;
        left -= 4;
        let (code, value_len) = (state.order.u16_at(&head, 0), u32::from(state.order.u16_at(&head, 2)));
        if code == option::END {
            break;
        }
        let padded = value_len.next_multiple_of(4);
        if padded > left {
            source.skip(u64::from(left))?;
            return Ok(false);
        }
        left -= padded;
        if !wanted.contains(&code) {
            source.skip(u64::from(padded))?;
            continue;
        }
        state.value.clear();
        source.append(&mut state.value, value_len as usize)?;
        source.skip(u64::from(padded - value_len))?;
        each(code, &state.value);
    }
    source.skip(u64::from(left))?;
    Ok(true)
}

fn interface_description<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    block: Block,
) -> Result<(), Stop> {
    let options_len = block.after(common, 8)?;
    let index = common.interfaces.len() as u32;
    if index >= MAX_INTERFACES {
        return Err(CaptureError::TooManyInterfaces { offset: common.start, limit: MAX_INTERFACES }.into());
    }
    let mut fixed = [0; 8];
    source.exact(&mut fixed)?;
    let order = state.order;
    let mut interface = Interface {
        index,
        section: state.section,
        id: index - state.first_interface,
        name: None,
        description: None,
        link_number: u32::from(order.u16_at(&fixed, 0)),
        snaplen: order.u32_at(&fixed, 4),
        resolution: TimeResolution::DEFAULT,
        offset_s: 0,
        fcs_len: 0,
    };
    let wanted =
        [option::IF_NAME, option::IF_DESCRIPTION, option::IF_TSRESOL, option::IF_FCSLEN, option::IF_TSOFFSET];
    let mut lengths_ok = true;
    let whole = options(source, state, options_len, &wanted, |code, value| match (code, value) {
        (option::IF_NAME, _) => interface.name = Some(text(value)),
        (option::IF_DESCRIPTION, _) => interface.description = Some(text(value)),
        (option::IF_TSRESOL, &[byte]) => interface.resolution = TimeResolution::from_byte(byte),
        (option::IF_FCSLEN, &[byte]) => interface.fcs_len = fcs_octets(byte),
        (option::IF_TSOFFSET, _) => match value.try_into() {
            Ok(bytes) => interface.offset_s = order.u64(bytes) as i64,
            Err(_) => lengths_ok = false,
        },
        _ => lengths_ok = false,
    })?;
    trailer(source, common, state.order, block)?;
    if !(whole && lengths_ok) {
        common.note_block(Note::BadOptions);
    }
    // A checkpoint that still holds the old list keeps it.
    Arc::make_mut(&mut common.interfaces).push(interface);
    Ok(())
}

/// The specification says bits, most programs write octets: nothing has a check sequence of 16 octets, or of 4 bits.
fn fcs_octets(value: u8) -> u8 {
    if value >= 16 { value / 8 } else { value }
}

/// Text of an option, cut to what is worth keeping.
fn text(value: &[u8]) -> String {
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    let mut text = String::from_utf8_lossy(&value[..value.len().min(MAX_NAME)]).into_owned();
    text.shrink_to_fit();
    text
}

/// The fixed fields of a packet block, of either kind that has a time.
struct PacketFields {
    id: u32,
    ticks: u64,
    captured: u32,
    original: u32,
}

fn enhanced_packet<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    block: Block,
    data: &mut Vec<u8>,
) -> Result<RecordMeta, Stop> {
    let (fixed, after) = packet_fixed(source, common, block)?;
    let word = |at| state.order.u32_at(&fixed, at);
    let fields = PacketFields {
        id: word(0),
        ticks: u64::from(word(4)) << 32 | u64::from(word(8)),
        captured: word(12),
        original: word(16),
    };
    packet(source, common, state, block, &fields, after, data)
}

fn obsolete_packet<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    block: Block,
    data: &mut Vec<u8>,
) -> Result<RecordMeta, Stop> {
    let (fixed, after) = packet_fixed(source, common, block)?;
    let word = |at| state.order.u32_at(&fixed, at);
    let fields = PacketFields {
        // 16 bits, followed by 16 bits of a drop counter.
        id: u32::from(state.order.u16_at(&fixed, 0)),
        ticks: u64::from(word(4)) << 32 | u64::from(word(8)),
        captured: word(12),
        original: word(16),
    };
    packet(source, common, state, block, &fields, after, data)
}

fn packet_fixed<R: Read>(
    source: &mut Source<R>,
    common: &Common,
    block: Block,
) -> Result<([u8; 20], u32), Stop> {
    let after = block.after(common, 20)?;
    let mut fixed = [0; 20];
    source.exact(&mut fixed)?;
    Ok((fixed, after))
}

/// Reads what follows the fixed fields: the packet, its padding, the options, the trailer.
fn packet<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    block: Block,
    fields: &PacketFields,
    after: u32,
    data: &mut Vec<u8>,
) -> Result<RecordMeta, Stop> {
    let interface = interface_of(common, state, fields.id)?;
    let link = common.link_of(interface.index)?;
    let mut notes = NoteSet::EMPTY;
    let used = common.judge_lengths(&mut notes, fields.captured, fields.original, interface.snaplen)?;
    // At most MAX_PACKET, so the padded length cannot overflow.
    let padded = fields.captured.next_multiple_of(4);
    let Some(options_len) = after.checked_sub(padded) else {
        let what = BlockFault::Packet { captured: fields.captured, block: block.total };
        return Err(block.fault(common, what));
    };
    source.append(data, used as usize)?;
    source.skip(u64::from(padded - used))?;
    let (order, comment) = (state.order, &mut common.comment);
    let mut flags = 0;
    let mut lengths_ok = true;
    let whole = options(source, state, options_len, &[option::COMMENT, option::FLAGS], |code, value| {
        if code == option::COMMENT {
            append_comment(comment, value);
        } else if let Ok(bytes) = value.try_into() {
            flags = order.u32(bytes);
        } else {
            lengths_ok = false;
        }
    })?;
    trailer(source, common, state.order, block)?;
    if !(whole && lengths_ok) {
        notes.insert(Note::BadOptions);
    }
    let (time_ns, clamped) = time::shift(interface.resolution.to_ns(fields.ticks), interface.offset_s);
    if clamped {
        notes.insert(Note::TimeClamped);
    }
    let fcs_of_packet = (flags >> 5 & 0xf) as u8;
    Ok(RecordMeta {
        number: common.records + 1,
        offset: common.start,
        time_ns,
        interface: interface.index,
        link,
        captured_len: used,
        original_len: fields.original,
        fcs_len: if fcs_of_packet != 0 { fcs_of_packet } else { interface.fcs_len },
        direction: direction(flags),
        notes,
    })
}

fn direction(flags: u32) -> Direction {
    match flags & 3 {
        1 => Direction::Inbound,
        2 => Direction::Outbound,
        _ => Direction::Unknown,
    }
}

fn append_comment(comment: &mut String, value: &[u8]) {
    let room = MAX_COMMENT.saturating_sub(comment.len() + 1);
    if !comment.is_empty() {
        comment.push('\n');
    }
    comment.push_str(&String::from_utf8_lossy(&value[..value.len().min(room)]));
}

fn simple_packet<R: Read>(
    source: &mut Source<R>,
    common: &mut Common,
    state: &mut NgState,
    block: Block,
    data: &mut Vec<u8>,
) -> Result<RecordMeta, Stop> {
    let room = block.after(common, 4)?;
    let mut fixed = [0; 4];
    source.exact(&mut fixed)?;
    let original = state.order.u32(fixed);
    if state.first_interface as usize >= common.interfaces.len() {
        return Err(block.fault(common, BlockFault::NoInterface));
    }
    let interface = interface_of(common, state, 0)?;
    let link = common.link_of(interface.index)?;
    let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
    // What was captured is not written down: all of it up to the snapshot length, but no more than is there.
    let captured = original.min(limit).min(room);
    let mut notes = NoteSet::EMPTY;
    let used = common.judge_lengths(&mut notes, captured, original, interface.snaplen)?;
    notes.insert(Note::NoTime);
    source.append(data, used as usize)?;
    source.skip(u64::from(room - used))?;
    trailer(source, common, state.order, block)?;
    Ok(RecordMeta {
        number: common.records + 1,
        offset: common.start,
        time_ns: common.last_ns,
        interface: interface.index,
        link,
        captured_len: used,
        original_len: original,
        fcs_len: interface.fcs_len,
        direction: Direction::Unknown,
        notes,
    })
}

/// What a packet needs to know of its interface.
#[derive(Clone, Copy)]
struct InterfaceFacts {
    index: u32,
    snaplen: u32,
    resolution: TimeResolution,
    offset_s: i64,
    fcs_len: u8,
}

/// The interface that the section knows as `id`.
fn interface_of(common: &Common, state: &NgState, id: u32) -> Result<InterfaceFacts, Stop> {
    let index = state.first_interface.checked_add(id);
    let found = index.and_then(|index| common.interfaces.get(index as usize));
    let Some(found) = found else {
        let described = common.interfaces.len() as u32 - state.first_interface;
        let (offset, record) = (common.start, common.records + 1);
        return Err(CaptureError::NoSuchInterface { offset, record, id, described }.into());
    };
    let &Interface { index, snaplen, resolution, offset_s, fcs_len, .. } = found;
    Ok(InterfaceFacts { index, snaplen, resolution, offset_s, fcs_len })
}
