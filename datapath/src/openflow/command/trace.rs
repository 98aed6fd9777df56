//! The words of `ofproto/trace` and `ofproto/trace-packet-out`.
//!
//! Counterpart: `parse_flow_and_packet()` of OVS `ofproto/ofproto-dpif-trace.c`.

use super::args::{Args, Word};
use super::error::{ParseError, ParseErrorKind};
use crate::openflow::text::parse_conntrack_state;

/// Most bytes of payload that `--l7-len` may ask for.
const MAX_L7_LEN: usize = 64_000;
/// Bytes of payload of a generated packet, unless told.
const L7_LEN: usize = 64;

/// What is to be traced. The flow stays text: its names are those of a bridge or of the datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceCall {
    /// Bridge or datapath, where one is named.
    pub place: Option<Word>,
    /// Flow, in OpenFlow or datapath syntax.
    pub flow: Word,
    /// The packet itself, in hexadecimal.
    pub packet: Option<Word>,
    /// Generate a packet from the flow.
    pub generate: bool,
    /// Payload of the generated packet.
    pub payload: TracePayload,
    /// Ports by name.
    pub names: bool,
    /// Connection states with which packets come back from the tracker.
    pub ct_next: Vec<u8>,
    /// Actions to carry out in place of those of a rule (`ofproto/trace-packet-out`).
    pub actions: Option<Word>,
    /// Refuse actions that need something of the packet that it does not have.
    pub consistent: bool,
}

/// What a generated packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracePayload {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many bytes, counted up from 0.
    Length(usize),
}

/// Reads the words behind `ofproto/trace` or, with actions in the end, `ofproto/trace-packet-out`.
pub(super) fn parse(args: &mut Args<'_>, packet_out: bool) -> Result<TraceCall, ParseError> {
    let mut words = args.rest();
    let actions =
        if packet_out { Some(words.pop().ok_or_else(|| args.missing("a flow and actions"))?) } else { None };
    let (mut generate, mut names, mut consistent) = (false, false, false);
    let (mut ct_next, mut payload) = (Vec::new(), TracePayload::Length(L7_LEN));
    let mut operands = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut argument = || {
            let kind = ParseErrorKind::OptionArgument(word.text.clone());
            words.next().ok_or_else(|| args.refuse(&word, kind))
        };
        match word.text.as_str() {
            "-generate" | "--generate" => generate = true,
            "-names" | "--names" => names = true,
            "-consistent" | "--consistent" if packet_out => consistent = true,
            "--ct-next" => {
                let flags = argument()?;
                let state = parse_conntrack_state(&flags.text)
                    .map_err(|error| args.refuse(&flags, ParseErrorKind::Usage(error)))?;
                ct_next.push(state);
            }
            "--l7" => payload = TracePayload::Bytes(bytes(args, &argument()?)?),
            "--l7-len" => payload = TracePayload::Length(length(args, &argument()?)?),
            text if text.starts_with('-') => {
                return Err(args.refuse(&word, ParseErrorKind::UnknownOption(text.to_owned())));
            }
            _ => operands.push(word),
        }
    }
    if let Some(extra) = operands.get(3) {
        return Err(args.refuse(extra, ParseErrorKind::Usage("too many arguments".to_owned())));
    }
    let packet = packet(args, &mut operands, generate)?;
    let mut operands = operands.into_iter();
    let (place, flow) = match (operands.next(), operands.next(), operands.next()) {
        (Some(flow), None, _) => (None, flow),
        (place @ Some(_), Some(flow), None) => (place, flow),
        (None, ..) => return Err(args.missing("a flow")),
        (_, _, Some(extra)) => {
            return Err(args.refuse(&extra, ParseErrorKind::Usage("Syntax error".to_owned())));
        }
    };
    Ok(TraceCall { place, flow, packet, generate, payload, names, ct_next, actions, consistent })
}

/// Takes the packet off the end of the operands, if it is there: of three, the last must be one.
fn packet(args: &Args<'_>, operands: &mut Vec<Word>, generate: bool) -> Result<Option<Word>, ParseError> {
    if generate || operands.len() < 2 {
        return Ok(None);
    }
    match operands.last().map(|word| (hex(&word.text), word)) {
        Some((Ok(bytes), _)) if bytes.len() >= 14 => Ok(operands.pop()),
        Some((found, word)) if operands.len() > 2 => {
            let problem = found.err().unwrap_or("Packet data too short for Ethernet");
            Err(args.refuse(word, ParseErrorKind::Usage(problem.to_owned())))
        }
        _ => Ok(None),
    }
}

/// Bytes from hexadecimal digits, with or without blanks between bytes.
pub(crate) fn hex(text: &str) -> Result<Vec<u8>, &'static str> {
    const GARBAGE: &str = "Trailing garbage in packet data";
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return Err(GARBAGE);
    }
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    let pairs = digits.chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?));
    pairs.collect::<Option<Vec<u8>>>().ok_or(GARBAGE)
}

fn bytes(args: &Args<'_>, word: &Word) -> Result<Vec<u8>, ParseError> {
    hex(&word.text).map_err(|problem| args.refuse(word, ParseErrorKind::Usage(problem.to_owned())))
}

fn length(args: &Args<'_>, word: &Word) -> Result<usize, ParseError> {
    let invalid = |problem: String| args.refuse(word, ParseErrorKind::Usage(problem));
    let length: usize =
        word.text.parse().map_err(|_| invalid(format!("{}: not a number of bytes", word.text)))?;
    if length > MAX_L7_LEN {
        return Err(invalid(format!("{}: too much L7 data", word.text)));
    }
    Ok(length)
}
