//! What can be wrong with a rule, a group, or a part of them.

use thiserror::Error;

/// Why text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct TextError {
    /// Byte at which the refused word starts.
    pub offset: usize,
    /// The refused word; empty if something is missing.
    pub word: String,
    /// What is wrong with it.
    #[source]
    pub kind: ErrorKind,
}

/// What is wrong. Messages are worded as those of ovs-ofctl, where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not a field or an attribute of a rule.
    #[error("unknown keyword {0}")]
    UnknownKeyword(String),
    /// An attribute without its value.
    #[error("field {0} missing value")]
    MissingValue(String),
    /// No `actions=`.
    #[error("must specify an action")]
    NoActions,
    /// `actions=` where there must be none.
    #[error("actions are not needed here")]
    ActionsNotNeeded,
    /// Not an action, nor a port.
    #[error("unknown action {0}")]
    UnknownAction(String),
    /// Not a number, or too large for its use.
    #[error("invalid {what} \"{text}\"")]
    Invalid {
        /// What it was to be.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// A number is missing.
    #[error("missing required numeric argument")]
    MissingNumber,
    /// Not a number.
    #[error("invalid numeric format {0}")]
    NumericFormat(String),
    /// Not a table.
    #[error("unknown table \"{0}\"")]
    UnknownTable(String),
    /// Not a port.
    #[error("{text}: {what}")]
    UnknownPort {
        /// The text.
        text: String,
        /// For what a port was needed.
        what: &'static str,
    },
    /// Not a port, where a field wants one.
    #[error("{text}: invalid or unknown port for {field}")]
    FieldPort {
        /// The text.
        text: String,
        /// The field.
        field: String,
    },
    /// Not a group number.
    #[error("{0} is not a valid OpenFlow group")]
    UnknownGroup(String),
    /// A cookie to match, when adding.
    #[error("flow additions cannot use a cookie mask")]
    CookieMaskOnAdd,
    /// A cookie to set, when deleting.
    #[error("cannot set cookie (to match on a cookie, specify a mask, e.g. cookie={0}/-1)")]
    CookieWithoutMask(String),
    /// A value that is not an integer.
    #[error("{text}: bad syntax for {field} {part}")]
    IntegerSyntax {
        /// The text.
        text: String,
        /// The field.
        field: String,
        /// Value or mask.
        part: &'static str,
    },
    /// A value with too many bits.
    #[error("{text}: {part} too large for {n_bytes}-byte field {field}")]
    IntegerTooLarge {
        /// The text.
        text: String,
        /// The field.
        field: String,
        /// Its width.
        n_bytes: u32,
        /// Value or mask.
        part: &'static str,
    },
    /// A mask on a field that is matched whole.
    #[error("{text}: invalid mask for field {field}")]
    InvalidMask {
        /// The text.
        text: String,
        /// The field.
        field: String,
    },
    /// A mask where only a value is allowed.
    #[error("{0}: wildcards not allowed here")]
    WildcardsNotAllowed(String),
    /// Not an Ethernet address.
    #[error("{0}: invalid Ethernet address")]
    Ethernet(String),
    /// Not an Ethernet address, in an action.
    #[error("invalid mac address {0}")]
    Mac(String),
    /// Not an IPv4 address.
    #[error("{0}: invalid IP address")]
    Ipv4(String),
    /// A prefix longer than the address.
    #[error("{text}: {family} network prefix bits not between 0 and {max}, inclusive")]
    PrefixLength {
        /// The text.
        text: String,
        /// IPv4 or IPv6.
        family: &'static str,
        /// Longest prefix.
        max: u32,
    },
    /// Not an IPv6 address.
    #[error("{0}: invalid IPv6 address")]
    Ipv6(String),
    /// Not an IPv6 mask.
    #[error("{0}: Invalid IPv6 mask")]
    Ipv6Mask(String),
    /// Not an address, in an action; names are not resolved.
    #[error("{0}: could not convert to IP address")]
    NotAnAddress(String),
    /// Not a fragment type.
    #[error(
        "{0}: unknown fragment type (valid types are \"no\", \"yes\", \"first\", \"later\", \"not_later\")"
    )]
    Fragment(String),
    /// Not a packet type.
    #[error("{text}: bad syntax for packet type {part}")]
    PacketType {
        /// The text.
        text: String,
        /// What is missing or wrong.
        part: &'static str,
    },
    /// Not a flag.
    #[error("{text}: unknown {field} flag(s)")]
    UnknownFlag {
        /// The text.
        text: String,
        /// The kind of flags.
        field: &'static str,
    },
    /// A flag without plus or minus.
    #[error("{text}: {field} must be preceded by '+' (for SET) or '-' (NOT SET)")]
    FlagSign {
        /// The text.
        text: String,
        /// The kind of flags.
        field: &'static str,
    },
    /// A flag named twice.
    #[error("{text}: Each {field} flag can be specified only once")]
    FlagTwice {
        /// The text.
        text: String,
        /// The kind of flags.
        field: &'static str,
    },
    /// A tunnel option matched twice.
    #[error("field {0} set multiple times")]
    FieldTwice(String),
    /// Tunnel options too long together.
    #[error("field {field} exceeds maximum size for tunnel metadata (used {used}, max 256)")]
    TunMetadataSize {
        /// The field that did not fit.
        field: String,
        /// Bytes with it.
        used: u32,
    },
    /// Not a field, in a range of bits.
    #[error("{text}: unknown field `{field}'")]
    UnknownField {
        /// The text.
        text: String,
        /// The name.
        field: String,
    },
    /// Not a field, in `set_field`.
    #[error("{0} is not a valid OXM field name")]
    NotOxmField(String),
    /// Cannot be changed.
    #[error("{0} is read-only")]
    ReadOnly(String),
    /// Not a value of that field.
    #[error("{value} is not a valid value for field {field}")]
    NotAValue {
        /// The value.
        value: String,
        /// The field.
        field: String,
    },
    /// Bad brackets.
    #[error("{0}: syntax error expecting [] or [<bit>] or [<start>..<end>]")]
    SubfieldSyntax(String),
    /// Bits that the field has not.
    #[error("{text}: {which} bit {bit} is not valid because field is only {n_bits} bits wide")]
    SubfieldBit {
        /// The text.
        text: String,
        /// Starting or ending.
        which: &'static str,
        /// The bit.
        bit: u32,
        /// Width of the field.
        n_bits: u32,
    },
    /// Bits in the wrong order.
    #[error("{text}: starting bit {start} is after ending bit {end}")]
    SubfieldOrder {
        /// The text.
        text: String,
        /// First bit.
        start: u32,
        /// Last bit.
        end: u32,
    },
    /// Something behind a field.
    #[error("unexpected input following field syntax")]
    AfterSubfield,
    /// No arrow.
    #[error("{0}: missing `->'")]
    NoArrow(String),
    /// Nothing behind the arrow.
    #[error("{0}: missing field name following `->'")]
    NothingAfterArrow(String),
    /// No arrow behind the source of a `move`.
    #[error("{0}: missing `->' following source")]
    NoArrowAfterSource(String),
    /// Widths differ.
    #[error("{text}: source field is {src} bits wide but destination is {dst} bits wide")]
    Widths {
        /// The text.
        text: String,
        /// Bits of the source.
        src: u32,
        /// Bits of the destination.
        dst: u32,
    },
    /// Not an integer.
    #[error("{0}: cannot parse integer value")]
    Integer(String),
    /// Too many bits for a range.
    #[error("{text}: value {value} does not fit into {n_bits} bits")]
    DoesNotFit {
        /// The text.
        text: String,
        /// The value.
        value: String,
        /// Bits of the destination.
        n_bits: u32,
    },
    /// A field that has no standard number, where one is needed.
    #[error("{text}: experimenter OXM field '{field}' not supported")]
    ExperimenterField {
        /// The text.
        text: String,
        /// The field.
        field: String,
    },
    /// Not one of the allowed values.
    #[error("{text}: not a valid {what}")]
    NotValid {
        /// The text.
        text: String,
        /// What it was to be.
        what: &'static str,
    },
    /// A key that the action does not have.
    #[error("invalid key \"{key}\" in \"{action}\" argument")]
    InvalidKey {
        /// The key.
        key: String,
        /// The action.
        action: &'static str,
    },
    /// Wrong use of an action, described.
    #[error("{0}")]
    Usage(&'static str),
    /// Wrong use of an action, described, with what was wrong.
    #[error("{text}: {problem}")]
    Problem {
        /// The text.
        text: String,
        /// The problem.
        problem: &'static str,
    },
    /// A number out of its range.
    #[error("{what} {value} is not in valid range {low} to {high}")]
    Range {
        /// What.
        what: &'static str,
        /// The number.
        value: i64,
        /// Least.
        low: i64,
        /// Largest.
        high: i64,
    },
    /// More links than the destination can hold.
    #[error(
        "{n_bits}-bit destination field has {values} possible values, less than specified n_links {n_links}"
    )]
    TooManyLinks {
        /// Bits of the destination.
        n_bits: u32,
        /// Its values.
        values: u32,
        /// Links.
        n_links: u32,
    },
    /// Neither field nor value.
    #[error(
        "{name} value {value} cannot be parsed as a subfield ({field}) or an immediate value ({immediate})"
    )]
    LearnValue {
        /// Destination.
        name: String,
        /// The text.
        value: String,
        /// Why not a field.
        field: Box<ErrorKind>,
        /// Why not a value.
        immediate: Box<ErrorKind>,
    },
    /// Garbage in a range of addresses.
    #[error("garbage ({rest}) after nat range \"{text}\" (pos: {at})")]
    NatGarbage {
        /// What follows.
        rest: String,
        /// The text.
        text: String,
        /// Where.
        at: usize,
    },
    /// An action that may not be inside that one.
    #[error("{outer} action doesn't support nested action {action}")]
    Nesting {
        /// Outer.
        outer: &'static str,
        /// Inner.
        action: &'static str,
    },
    /// A field that may not be set inside that action.
    #[error("{outer} action doesn't support nested modification of {field}")]
    NestedField {
        /// Outer.
        outer: &'static str,
        /// The field.
        field: String,
    },
    /// Something beside `conjunction`.
    #[error(
        "\"conjunction\" actions may be used along with \"note\" but not any other kind of action (such as the \"{0}\" action used here)"
    )]
    BesideConjunction(&'static str),
    /// Instructions in the wrong order.
    #[error(
        "invalid instruction ordering: {next} must appear before {name}, for OpenFlow 1.1+ compatibility"
    )]
    InstructionOrder {
        /// The one that came first.
        name: &'static str,
        /// The one that came too late.
        next: &'static str,
    },
    /// An instruction twice.
    #[error("duplicate {0} instruction not allowed, for OpenFlow 1.1+ compatibility")]
    InstructionTwice(&'static str),
    /// An instruction in a list of actions.
    #[error("{0} instruction not allowed here")]
    InstructionNotAllowed(&'static str),
    /// `drop` with something else.
    #[error("\"drop\" must not be accompanied by any other action or instruction")]
    DropWithOthers,
    /// Too many parentheses.
    #[error("Action nested too deeply")]
    TooDeep,
    /// More than OpenFlow can carry.
    #[error("input too big")]
    TooBig,
    /// Actions that do not suit the match, or wrong in themselves.
    #[error("actions are invalid with specified match ({0})")]
    BadActions(OfpError),
    /// A field without the fields that say that packets have it.
    #[error(
        "OFPBMC_BAD_PREREQ: {0} means nothing with the rest of the match; match the protocol that has it too"
    )]
    Prerequisite(String),
    /// What no OpenFlow version can express.
    #[error("none of the usable flow formats ({usable}) is among the allowed flow formats ({allowed})")]
    NoProtocol {
        /// What could express it.
        usable: String,
        /// What may be used.
        allowed: String,
    },
    /// A group without what it needs, or with what it must not have.
    #[error("{0}")]
    Group(&'static str),
    /// Something wrong with a meter.
    #[error("{0}")]
    Meter(String),
    /// Not a type of groups.
    #[error("invalid group type {0}")]
    GroupType(String),
    /// A number that is no group.
    #[error("invalid {what} {value}")]
    InvalidId {
        /// What.
        what: &'static str,
        /// The number.
        value: u32,
    },
    /// A key of one packet.
    #[error("Bad openflow flow syntax: {flow}: {problem}")]
    ExactFlow {
        /// The key.
        flow: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Errors that a switch answers with (OVS `enum ofperr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfpError {
    /// Actions need what the match does not establish.
    #[error("OFPBAC_MATCH_INCONSISTENT")]
    MatchInconsistent,
    /// Not a port to output to.
    #[error("OFPBAC_BAD_OUT_PORT")]
    BadOutPort,
    /// A field that cannot be set.
    #[error("OFPBAC_BAD_SET_ARGUMENT")]
    BadSetArgument,
    /// An argument that the action does not take.
    #[error("OFPBAC_BAD_ARGUMENT")]
    BadArgument,
    /// A value with bits that its mask leaves out.
    #[error("OFPBMC_BAD_WILDCARDS")]
    BadWildcards,
    /// More VLAN tags than are supported.
    #[error("OFPBAC_BAD_TAG")]
    BadTag,
    /// A table that is not behind this one.
    #[error("OFPBIC_BAD_TABLE_ID")]
    BadTableId,
    /// Not a meter.
    #[error("OFPMMFC_INVALID_METER")]
    InvalidMeter,
}

/// What is wrong with a word of the text being read.
#[derive(Clone, Debug)]
pub(super) struct Fault<'a> {
    /// The word.
    pub at: &'a str,
    /// What is wrong.
    pub kind: ErrorKind,
}

impl<'a> Fault<'a> {
    pub fn new(at: &'a str, kind: ErrorKind) -> Self {
        Self { at, kind }
    }

    /// The error as seen from `line`, of which the word is a part.
    pub fn within(self, line: &str) -> TextError {
        let offset = (self.at.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
        let offset = if offset <= line.len() { offset } else { 0 };
        TextError { offset, word: self.at.to_owned(), kind: self.kind }
    }
}
