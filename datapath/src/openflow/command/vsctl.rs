//! The language of ovs-vsctl: chains of commands on the configuration database.
//!
//! Counterpart: OVS `utilities/ovs-vsctl.c` and `lib/db-ctl-base.c`.

use super::args::{Args, Opt, Word};
use super::datum::{self, Atom, Datum};
use super::error::{ParseError, ParseErrorKind};
use super::schema::{Column, Effect, Shape, Table, key_effect};
use super::zone::{self, ZoneCommand};

/// A call of ovs-vsctl: commands that are carried out together or not at all.
#[derive(Clone, Debug)]
pub struct Vsctl {
    /// Say what would be done only.
    pub dry_run: bool,
    /// Write the output of each command in one line.
    pub oneline: bool,
    /// The commands.
    pub commands: Vec<VsctlCommand>,
}

/// One command of a chain.
#[derive(Clone, Debug)]
pub struct VsctlCommand {
    /// Place of its name.
    pub name: Word,
    /// It is fine if what it makes exists (`--may-exist`).
    pub may_exist: bool,
    /// It is fine if what it deletes or reads does not exist (`--if-exists`).
    pub if_exists: bool,
    /// Name for the record that it finds or makes (`--id=@name`).
    pub id: Option<String>,
    /// Columns to print (`--columns`).
    pub columns: Option<Vec<String>>,
    /// What to do.
    pub verb: Verb,
}

/// What a command does.
#[derive(Clone, Debug)]
pub enum Verb {
    /// Nothing here: the database is there, or the word has no effect.
    Nothing,
    /// Print all bridges and ports.
    Show,
    /// Make a bridge.
    AddBr(Word),
    /// Delete a bridge.
    DelBr(Word),
    /// Print names of bridges.
    ListBr,
    /// Fail if there is no such bridge.
    BrExists(Word),
    /// Print the VLAN of a bridge: always 0.
    BrToVlan(Word),
    /// Print the parent of a bridge: itself.
    BrToParent(Word),
    /// Print names of ports.
    ListPorts(Word),
    /// Make a port.
    AddPort {
        /// Bridge.
        bridge: Word,
        /// Name of port and interface.
        port: Word,
        /// Columns of the port.
        settings: Vec<Setting>,
    },
    /// Delete a port.
    DelPort {
        /// Bridge that it must be in.
        bridge: Option<Word>,
        /// Name.
        port: Word,
    },
    /// Make a port of several interfaces.
    AddBond {
        /// Bridge.
        bridge: Word,
        /// Name of the port.
        port: Word,
        /// Names of interfaces.
        interfaces: Vec<Word>,
        /// Columns of the port.
        settings: Vec<Setting>,
    },
    /// Print the bridge of a port.
    PortToBr(Word),
    /// Print names of interfaces.
    ListIfaces(Word),
    /// Print the bridge of an interface.
    IfaceToBr(Word),
    /// Print the fail mode.
    GetFailMode(Word),
    /// Change the fail mode; `None` takes it away.
    SetFailMode(Word, Option<Word>),
    /// Change columns of a record.
    Set(Record, Vec<Setting>),
    /// Print columns of a record.
    Get(Record, Vec<ColumnKey>),
    /// Add values to a column.
    Add(Record, &'static Column, Vec<Word>),
    /// Remove values, or keys, from a column.
    Remove(Record, &'static Column, Vec<Word>),
    /// Give columns their defaults.
    Clear(Record, Vec<&'static Column>),
    /// Print records.
    List(Table, Vec<Word>),
    /// Print records that meet all conditions.
    Find(Table, Vec<Condition>),
    /// Make a record.
    Create(Table, Vec<Setting>),
    /// Delete records, or all of a table.
    Destroy {
        /// Table.
        table: Table,
        /// Records.
        records: Vec<Word>,
        /// `--all`.
        all: bool,
    },
    /// Something about zones of connection tracking.
    Zone(ZoneCommand),
    /// Wait until a record meets conditions: it must at once.
    WaitUntil(Record, Vec<Condition>),
}

/// A record of a table, by name, UUID, or `.` where there is only one.
#[derive(Clone, Debug)]
pub struct Record {
    /// Table.
    pub table: Table,
    /// Name.
    pub name: Word,
}

/// `column=value` or `column:key=value`.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its place.
    pub arg: usize,
    /// Column.
    pub column: &'static Column,
    /// Value: all of the column, or of a map the keys that are named.
    pub value: Datum,
    /// Whether only a key is set.
    pub by_key: bool,
}

/// `column` or `column:key`, to print.
#[derive(Clone, Debug)]
pub struct ColumnKey {
    /// Its place.
    pub arg: usize,
    /// Column; `None` is the UUID.
    pub column: Option<&'static Column>,
    /// Key.
    pub key: Option<String>,
}

/// How a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    LessOrEqual,
    /// `>=`
    GreaterOrEqual,
}

/// `column[:key]OPvalue`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Column.
    pub column: &'static Column,
    /// Key.
    pub key: Option<String>,
    /// Comparison.
    pub comparison: Comparison,
    /// Value.
    pub value: Datum,
}

/// Options of the program that change nothing here.
const IGNORED: [&str; 8] = [
    "--no-wait",
    "--no-syslog",
    "--retry",
    "--verbose",
    "-v",
    "--no-headings",
    "--leader-only",
    "--no-leader-only",
];
/// Options of the program with an argument.
const WITH_ARGUMENT: [&str; 8] =
    ["--db", "-t", "--timeout", "-f", "--format", "--log-file", "--columns", "--id"];

/// Reads a call of ovs-vsctl.
///
/// # Errors
/// Names the first word that is not understood.
pub fn parse(argv: &[&str]) -> Result<Vsctl, ParseError> {
    let mut args = Args::new(argv);
    let mut out = Vsctl { dry_run: false, oneline: false, commands: Vec::new() };
    let mut options = Vec::new();
    while let Some(option) = args.next_option(&WITH_ARGUMENT)? {
        match option.name.as_str() {
            "--dry-run" => out.dry_run = true,
            "--oneline" => out.oneline = true,
            name if IGNORED.contains(&name) => {}
            "--db" | "-t" | "--timeout" | "--log-file" => {}
            "-f" | "--format" => return Err(args.refuse(&option.word(), unsupported("--format"))),
            _ => options.push(option),
        }
    }
    while !args.is_empty() || !options.is_empty() {
        let mut part = args.until_dashes();
        while let Some(option) = part.next_option(&["--columns", "--id"])? {
            options.push(option);
        }
        match part.peek() {
            Some(_) => out.commands.push(command(&mut part, std::mem::take(&mut options))?),
            None if options.is_empty() => {}
            None => return Err(part.error_at(part.place(), ParseErrorKind::NoCommand)),
        }
    }
    if out.commands.is_empty() {
        return Err(args.error_at(args.place(), ParseErrorKind::NoCommand));
    }
    Ok(out)
}

fn unsupported(what: &str) -> ParseErrorKind {
    ParseErrorKind::Unsupported(what.to_owned())
}

/// Reads one command, its options being read already.
fn command(args: &mut Args<'_>, options: Vec<Opt>) -> Result<VsctlCommand, ParseError> {
    let name = args.need("a command")?;
    let text = args.program().to_owned();
    let mut out = VsctlCommand {
        verb: Verb::Nothing,
        may_exist: false,
        if_exists: false,
        id: None,
        columns: None,
        name: name.clone(),
    };
    let mut all = false;
    for option in options {
        match option.name.as_str() {
            "--may-exist" => out.may_exist = true,
            "--if-exists" => out.if_exists = true,
            "--all" => all = true,
            // Port and interface of a port are deleted together anyway, and bonds have one.
            "--with-iface" => {}
            "--id" => out.id = Some(id_name(args, &option)?),
            "--columns" => {
                let names = option.value.as_deref().unwrap_or("");
                out.columns =
                    Some(names.split([',', ' ']).filter(|n| !n.is_empty()).map(str::to_owned).collect());
            }
            _ => {
                let kind = ParseErrorKind::UnknownOption(option.name.clone());
                return Err(option.word().refuse(&text, kind));
            }
        }
    }
    out.verb = verb(args, &name, all)?;
    args.finish()?;
    Ok(out)
}

fn id_name(args: &Args<'_>, option: &Opt) -> Result<String, ParseError> {
    let value = option.value.as_deref().unwrap_or("");
    value.strip_prefix('@').map(str::to_owned).ok_or_else(|| {
        let kind =
            ParseErrorKind::Invalid { word: value.to_owned(), what: "a record name: it starts with @" };
        args.refuse(&option.word(), kind)
    })
}

fn verb(args: &mut Args<'_>, name: &Word, all: bool) -> Result<Verb, ParseError> {
    args.set_command(&name.text);
    let verb = match name.text.as_str() {
        "init" | "comment" => {
            args.rest();
            Verb::Nothing
        }
        "show" => Verb::Show,
        "list-br" => Verb::ListBr,
        "add-br" => add_br(args)?,
        "del-br" => Verb::DelBr(args.need("a bridge")?),
        "br-exists" => Verb::BrExists(args.need("a bridge")?),
        "br-to-vlan" => Verb::BrToVlan(args.need("a bridge")?),
        "br-to-parent" => Verb::BrToParent(args.need("a bridge")?),
        "list-ports" => Verb::ListPorts(args.need("a bridge")?),
        "list-ifaces" => Verb::ListIfaces(args.need("a bridge")?),
        "port-to-br" => Verb::PortToBr(args.need("a port")?),
        "iface-to-br" => Verb::IfaceToBr(args.need("an interface")?),
        "get-fail-mode" => Verb::GetFailMode(args.need("a bridge")?),
        "del-fail-mode" => Verb::SetFailMode(args.need("a bridge")?, None),
        "set-fail-mode" => {
            let bridge = args.need("a bridge")?;
            Verb::SetFailMode(bridge, Some(args.need("secure or standalone")?))
        }
        "add-port" => {
            let bridge = args.need("a bridge")?;
            let port = args.need("a port")?;
            Verb::AddPort { bridge, port, settings: settings(args, Table::Port)? }
        }
        "add-bond" => add_bond(args)?,
        "del-port" => {
            let first = args.need("a port")?;
            match args.next_word() {
                Some(port) => Verb::DelPort { bridge: Some(first), port },
                None => Verb::DelPort { bridge: None, port: first },
            }
        }
        other => match zone::parse(args, other)? {
            Some(zone) => Verb::Zone(zone),
            None => return database_verb(args, name, all),
        },
    };
    Ok(verb)
}

fn add_br(args: &mut Args<'_>) -> Result<Verb, ParseError> {
    let bridge = args.need("a bridge")?;
    match args.next_word() {
        None => Ok(Verb::AddBr(bridge)),
        Some(parent) => {
            Err(args.refuse(&parent, unsupported("a fake bridge (add-br with a parent and VLAN)")))
        }
    }
}

fn add_bond(args: &mut Args<'_>) -> Result<Verb, ParseError> {
    let bridge = args.need("a bridge")?;
    let port = args.need("a port")?;
    let mut interfaces = vec![args.need("two interfaces")?, args.need("two interfaces")?];
    while args.peek().is_some_and(|word| !word.contains('=')) {
        interfaces.extend(args.next_word());
    }
    Ok(Verb::AddBond { bridge, port, interfaces, settings: settings(args, Table::Port)? })
}

/// Commands that name a table.
fn database_verb(args: &mut Args<'_>, name: &Word, all: bool) -> Result<Verb, ParseError> {
    let verb = match name.text.as_str() {
        "set" => {
            let record = record(args)?;
            let settings = settings(args, record.table)?;
            if settings.is_empty() {
                args.need("a table, a record and columns")?;
            }
            Verb::Set(record, settings)
        }
        "get" => {
            let record = record(args)?;
            let columns: Result<_, _> =
                args.rest().iter().map(|word| column_key(args, record.table, word)).collect();
            Verb::Get(record, columns?)
        }
        "add" | "remove" => {
            let record = record(args)?;
            let word = args.need("a table, a record, a column and values")?;
            let column = column(args, record.table, &word, &word.text)?;
            writable(args, record.table, column, &word)?;
            let mut values = vec![args.need("a table, a record, a column and values")?];
            values.extend(args.rest());
            match name.text.as_str() {
                "add" => Verb::Add(record, column, values),
                _ => Verb::Remove(record, column, values),
            }
        }
        "clear" => {
            let record = record(args)?;
            let mut columns = Vec::new();
            for word in args.rest() {
                let column = column(args, record.table, &word, &word.text)?;
                writable(args, record.table, column, &word)?;
                columns.push(column);
            }
            Verb::Clear(record, columns)
        }
        "list" => Verb::List(table(args)?, args.rest()),
        "find" => {
            let table = table(args)?;
            Verb::Find(table, conditions(args, table)?)
        }
        "create" => {
            let table = table(args)?;
            Verb::Create(table, settings(args, table)?)
        }
        "destroy" => Verb::Destroy { table: table(args)?, records: args.rest(), all },
        "wait-until" => {
            let record = record(args)?;
            let conditions = conditions(args, record.table)?;
            Verb::WaitUntil(record, conditions)
        }
        word if UNSUPPORTED.contains(&word) => return Err(args.refuse(name, unsupported(word))),
        word => return Err(args.refuse(name, ParseErrorKind::UnknownCommand(word.to_owned()))),
    };
    Ok(verb)
}

/// Commands of Open vSwitch that this switch does not have.
const UNSUPPORTED: [&str; 19] = [
    "emer-reset",
    "add-bond-iface",
    "del-bond-iface",
    "br-set-external-id",
    "br-get-external-id",
    "get-controller",
    "del-controller",
    "set-controller",
    "get-manager",
    "del-manager",
    "set-manager",
    "get-ssl",
    "del-ssl",
    "set-ssl",
    "get-aa-mapping",
    "add-aa-mapping",
    "del-aa-mapping",
    "add-dp-cap",
    "list-dp-cap",
];

fn table(args: &mut Args<'_>) -> Result<Table, ParseError> {
    let word = args.need("a table")?;
    let wanted = simplified(&word.text);
    let names = || Table::ALL.iter().map(|&(table, name)| (Some(table), name));
    let others = Table::UNSUPPORTED.iter().map(|&name| (None, name));
    let candidates: Vec<(Option<Table>, &str)> =
        names().chain(others).filter(|(_, name)| simplified(name).starts_with(&wanted)).collect();
    let exact = candidates.iter().find(|(_, name)| simplified(name) == wanted);
    match exact.or(if candidates.len() == 1 { candidates.first() } else { None }) {
        Some((Some(table), _)) => Ok(*table),
        Some((None, name)) => Err(args.refuse(&word, unsupported(&format!("table {name}")))),
        None => Err(args.refuse(&word, ParseErrorKind::UnknownTable(word.text.clone()))),
    }
}

fn record(args: &mut Args<'_>) -> Result<Record, ParseError> {
    let table = table(args)?;
    Ok(Record { table, name: args.need("a table and a record")? })
}

/// A name as it is compared: without regard to case, and with `-` and `_` for one.
fn simplified(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// The column that `text`, in `word`, names: all of its name, or the beginning of only one.
fn column(args: &Args<'_>, table: Table, word: &Word, text: &str) -> Result<&'static Column, ParseError> {
    let wanted = simplified(text);
    let columns = || table.columns().iter();
    let exact = columns().find(|column| simplified(column.name) == wanted);
    let mut partial =
        columns().filter(|column| !wanted.is_empty() && simplified(column.name).starts_with(&wanted));
    let only = match (partial.next(), partial.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    };
    exact.or(only).ok_or_else(|| {
        let kind = ParseErrorKind::UnknownColumn { table: table.name(), column: text.to_owned() };
        args.refuse(word, kind)
    })
}

/// Splits `column[:key]OPvalue` into column, key and the rest.
fn split_column(text: &str) -> (&str, Option<&str>, &str) {
    let end = text.find([':', '=', '!', '<', '>']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(rest) = rest.strip_prefix(':') else {
        return (name, None, rest);
    };
    let end = match rest.strip_prefix('"').and_then(|inner| inner.find('"')) {
        Some(quote) => quote + 2,
        None => rest.find(['=', '!', '<', '>']).unwrap_or(rest.len()),
    };
    let (key, rest) = rest.split_at(end);
    (name, Some(key.trim_matches('"')), rest)
}

fn column_key(args: &Args<'_>, table: Table, word: &Word) -> Result<ColumnKey, ParseError> {
    let (name, key, rest) = split_column(&word.text);
    if !rest.is_empty() {
        let kind = ParseErrorKind::Invalid { word: word.text.clone(), what: "a column, or a column:key" };
        return Err(args.refuse(word, kind));
    }
    let column = if name == "_uuid" { None } else { Some(column(args, table, word, name)?) };
    Ok(ColumnKey { arg: word.arg, column, key: key.map(str::to_owned) })
}

fn settings(args: &mut Args<'_>, table: Table) -> Result<Vec<Setting>, ParseError> {
    let words = args.rest();
    words.iter().map(|word| setting(args, table, word)).collect()
}

fn setting(args: &Args<'_>, table: Table, word: &Word) -> Result<Setting, ParseError> {
    let (name, key, rest) = split_column(&word.text);
    let column = column(args, table, word, name)?;
    let refuse = |kind| args.refuse(word, kind);
    let Some(text) = rest.strip_prefix('=') else {
        return Err(refuse(ParseErrorKind::Usage(format!(
            "{}: argument does not end in \"=\" followed by a value.",
            word.text
        ))));
    };
    writable(args, table, column, word)?;
    let map = matches!(column.shape, Shape::Map | Shape::IntMap);
    let value = match key {
        Some(_) if !map => {
            let text = format!("cannot specify key to set for non-map column {}", column.name);
            return Err(refuse(ParseErrorKind::Usage(text)));
        }
        Some(key) => {
            let key = datum::map_key(column, key).map_err(refuse)?;
            let value = datum::atom(column, text).map_err(refuse)?;
            Datum::Map([(key, value)].into())
        }
        None => datum::parse(column, text).map_err(refuse)?,
    };
    check_effect(args, table, column, &value, word)?;
    Ok(Setting { arg: word.arg, column, value, by_key: key.is_some() })
}

/// Refuses columns that only the switch fills in.
fn writable(args: &Args<'_>, table: Table, column: &'static Column, word: &Word) -> Result<(), ParseError> {
    if column.effect == Effect::Status {
        let kind = ParseErrorKind::ReadOnly { table: table.name(), column: column.name };
        return Err(args.refuse(word, kind));
    }
    Ok(())
}

/// Refuses values whose effect this switch does not have.
pub(super) fn check_effect(
    args: &Args<'_>,
    table: Table,
    column: &'static Column,
    value: &Datum,
    word: &Word,
) -> Result<(), ParseError> {
    let kind = effect_error(table, column, value);
    kind.map_or(Ok(()), |kind| Err(args.refuse(word, kind)))
}

/// Why these values cannot be in a column, if they cannot.
pub fn effect_error(table: Table, column: &'static Column, value: &Datum) -> Option<ParseErrorKind> {
    match (column.effect, value) {
        (Effect::DefaultOnly, value) if *value != Datum::default_of(column) => {
            Some(unsupported(&format!("{} column {} other than its default", table.name(), column.name)))
        }
        (Effect::ByKey, Datum::Map(map)) => map.iter().find_map(|(key, value)| {
            let Atom::Str(key) = key else { return None };
            let off = matches!(value, Atom::Str(text) if matches!(text.as_str(), "false" | "0" | ""));
            match key_effect(table, column.name, key) {
                None => {
                    let (table, column) = (table.name(), column.name);
                    Some(ParseErrorKind::UnknownKey { table, column, key: key.clone() })
                }
                Some(Effect::DefaultOnly) if !off => Some(unsupported(&format!("{}:{key}", column.name))),
                Some(_) => None,
            }
        }),
        _ => None,
    }
}

fn conditions(args: &mut Args<'_>, table: Table) -> Result<Vec<Condition>, ParseError> {
    let words = args.rest();
    words.iter().map(|word| condition(args, table, word)).collect()
}

fn condition(args: &Args<'_>, table: Table, word: &Word) -> Result<Condition, ParseError> {
    let (name, key, rest) = split_column(&word.text);
    let column = column(args, table, word, name)?;
    let operators = [
        ("!=", Comparison::Unequal),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let found = operators.iter().find_map(|&(text, op)| rest.strip_prefix(text).map(|value| (op, value)));
    let (comparison, text) = found.ok_or_else(|| {
        let kind = ParseErrorKind::Invalid { word: word.text.clone(), what: "a condition: column=value" };
        args.refuse(word, kind)
    })?;
    let refuse = |kind| args.refuse(word, kind);
    let value = match key {
        Some(_) => Datum::one(datum::atom(column, text).map_err(refuse)?),
        None => datum::parse(column, text).map_err(refuse)?,
    };
    Ok(Condition { column, key: key.map(str::to_owned), comparison, value })
}

/// Reads values to add to a column.
///
/// # Errors
/// What is wrong with them.
pub fn values_to_add(column: &'static Column, text: &str) -> Result<Datum, ParseErrorKind> {
    datum::parse(column, text)
}

/// Reads values to remove from a column: of a map, keys or pairs.
///
/// # Errors
/// What is wrong with them.
pub fn values_to_remove(column: &'static Column, text: &str) -> Result<Datum, ParseErrorKind> {
    let map = matches!(column.shape, Shape::Map | Shape::IntMap);
    if map && !text.contains('=') {
        let keys: Result<_, _> =
            text.split([',', ' ']).filter(|k| !k.is_empty()).map(|k| datum::map_key(column, k)).collect();
        return Ok(Datum::Set(keys?));
    }
    datum::parse(column, text)
}
