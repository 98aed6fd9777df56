//! Keys: one table for what they do, the footer, the help overlay and the README.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind};
use tui_input::InputRequest;

use super::app::{App, Mode};
use super::command::{Breakpoint, Command, Screen};
use super::mouse;

/// One row of the table.
pub struct Binding {
    /// The keys, as they are shown.
    pub keys: &'static str,
    /// The keys and a word for the footer; rows without are in help only.
    pub footer: Option<(&'static str, &'static str)>,
    /// Whether the footer leaves it out where there is no room for all.
    pub minor: bool,
    /// What it does.
    pub help: &'static str,
    /// The keys, and what each asks for.
    pub commands: &'static [(Key, Command)],
}

/// One key.
pub type Key = (KeyCode, KeyModifiers);

const fn plain(code: KeyCode) -> Key {
    (code, KeyModifiers::NONE)
}

const fn shift(code: KeyCode) -> Key {
    (code, KeyModifiers::SHIFT)
}

const fn char(c: char) -> Key {
    plain(KeyCode::Char(c))
}

/// Every key of the normal mode. The order is that of the help overlay; the footer shows those with a short text.
pub const BINDINGS: &[Binding] = &[
    Binding {
        keys: "Space",
        footer: Some(("Space", "run")),
        minor: false,
        help: "run or pause",
        commands: &[(char(' '), Command::RunPause)],
    },
    Binding {
        keys: "\u{2192} \u{2190}",
        footer: Some(("\u{2192}\u{2190}", "event")),
        minor: false,
        help: "one event forwards, backwards",
        commands: &[(plain(KeyCode::Right), Command::Forward), (plain(KeyCode::Left), Command::Back)],
    },
    Binding {
        keys: "\u{21e7}\u{2192} \u{21e7}\u{2190}",
        footer: Some(("\u{21e7}\u{2192}\u{2190}", "packet")),
        minor: false,
        help: "one packet forwards, backwards (n, N)",
        commands: &[
            (shift(KeyCode::Right), Command::ForwardPacket),
            (shift(KeyCode::Left), Command::BackPacket),
            (char('n'), Command::ForwardPacket),
            (char('N'), Command::BackPacket),
        ],
    },
    Binding {
        keys: "] [",
        footer: Some(("][", "flow")),
        minor: true,
        help: "next, previous event of this flow",
        commands: &[(char(']'), Command::ForwardFlow), (char('['), Command::BackFlow)],
    },
    Binding {
        keys: "Home End",
        footer: None,
        minor: false,
        help: "to the start; to the furthest point seen, then to the end (g, G)",
        commands: &[
            (plain(KeyCode::Home), Command::Start),
            (plain(KeyCode::End), Command::End),
            (char('g'), Command::Start),
            (char('G'), Command::End),
        ],
    },
    Binding {
        keys: "+ -",
        footer: None,
        minor: false,
        help: "run faster, slower: 1 to 1000 events/s, virtual time at 1x, max",
        commands: &[(char('+'), Command::Faster), (char('='), Command::Faster), (char('-'), Command::Slower)],
    },
    Binding {
        keys: "b",
        footer: Some(("b", "break")),
        minor: false,
        help: "breakpoints: drop, recirc, offload change, flow install",
        commands: &[(char('b'), Command::Breakpoints)],
    },
    Binding {
        keys: "/",
        footer: Some(("/", "filter")),
        minor: false,
        help: "filter by OVS match, drop, recirc>0, offload~partial",
        commands: &[(char('/'), Command::Filter)],
    },
    Binding {
        keys: ":",
        footer: Some((":", "ovs")),
        minor: false,
        help: "run a command now: ovs-ofctl, ovs-vsctl, ovs-appctl, ovs-dpctl",
        commands: &[(char(':'), Command::Prompt)],
    },
    Binding {
        keys: "1 to 6",
        footer: None,
        minor: false,
        help: "screens, in the order of the tabs (Tab: the next)",
        commands: &[
            (char('1'), Command::Show(Screen::Overview)),
            (char('2'), Command::Show(Screen::Flows)),
            (char('3'), Command::Show(Screen::Caches)),
            (char('4'), Command::Show(Screen::Timeline)),
            (char('5'), Command::Show(Screen::Packet)),
            (char('6'), Command::Show(Screen::Output)),
            (plain(KeyCode::Tab), Command::NextScreen),
        ],
    },
    Binding {
        keys: "w",
        footer: None,
        minor: false,
        help: "show the next switch",
        commands: &[(char('w'), Command::NextSwitch)],
    },
    Binding {
        keys: "\u{2191} \u{2193} PgUp PgDn",
        footer: None,
        minor: false,
        help: "select a row, scroll (k, j)",
        commands: &[
            (plain(KeyCode::Up), Command::Up),
            (plain(KeyCode::Down), Command::Down),
            (plain(KeyCode::PageUp), Command::PageUp),
            (plain(KeyCode::PageDown), Command::PageDown),
            (char('k'), Command::Up),
            (char('j'), Command::Down),
        ],
    },
    Binding {
        keys: "Enter",
        footer: None,
        minor: false,
        help: "go to the selected event; show or hide a flow in full",
        commands: &[(plain(KeyCode::Enter), Command::Enter)],
    },
    Binding {
        keys: "s S",
        footer: None,
        minor: false,
        help: "sort flows by the next column; reverse",
        commands: &[(char('s'), Command::Sort), (char('S'), Command::SortReverse)],
    },
    Binding {
        keys: "z",
        footer: None,
        minor: false,
        help: "freeze the view while the world runs on; thaw",
        commands: &[(char('z'), Command::Freeze)],
    },
    Binding {
        keys: "Esc",
        footer: None,
        minor: false,
        help: "close what is open, stop a search, remove the filter",
        commands: &[(plain(KeyCode::Esc), Command::Cancel)],
    },
    Binding {
        keys: "?",
        footer: Some(("?", "help")),
        minor: false,
        help: "this help",
        commands: &[(char('?'), Command::Help), (plain(KeyCode::F(1)), Command::Help)],
    },
    Binding {
        keys: "q",
        footer: Some(("q", "quit")),
        minor: false,
        help: "quit (Ctrl-C)",
        commands: &[(char('q'), Command::Quit)],
    },
];

/// The table as Markdown, as the README shows it.
#[cfg(test)]
pub fn markdown() -> String {
    let rows = BINDINGS.iter().map(|binding| {
        let keys: Vec<String> = match binding.keys {
            "1 to 6" => vec!["`1` to `6`".to_owned()],
            keys => keys.split(' ').map(|key| format!("`{key}`")).collect(),
        };
        format!("| {} | {} |\n", keys.join(" "), binding.help)
    });
    std::iter::once("| key | does |\n|---|---|\n".to_owned()).chain(rows).collect()
}

/// What an input event asks for, given what is open.
pub fn command(app: &App, event: &Event) -> Option<Command> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_command(&app.mode, key),
        Event::Mouse(event) => match event.kind {
            MouseEventKind::Down(MouseButton::Left) => mouse::click(app, event.column, event.row),
            MouseEventKind::ScrollUp => Some(Command::Up),
            MouseEventKind::ScrollDown => Some(Command::Down),
            _ => None,
        },
        Event::Resize(columns, rows) => Some(Command::Resize(*columns, *rows)),
        _ => None,
    }
}

fn key_command(mode: &Mode, key: &KeyEvent) -> Option<Command> {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Some(Command::Quit);
    }
    match mode {
        Mode::Normal => normal(key),
        Mode::Help { .. } => match key.code {
            KeyCode::Up | KeyCode::Char('k') => Some(Command::Up),
            KeyCode::Down | KeyCode::Char('j') => Some(Command::Down),
            KeyCode::PageUp => Some(Command::PageUp),
            KeyCode::PageDown | KeyCode::Char(' ') => Some(Command::PageDown),
            KeyCode::Char('q' | '?') | KeyCode::Esc | KeyCode::Enter | KeyCode::F(1) => Some(Command::Cancel),
            _ => None,
        },
        Mode::Breakpoints { .. } => match key.code {
            KeyCode::Up | KeyCode::Char('k') => Some(Command::Up),
            KeyCode::Down | KeyCode::Char('j') => Some(Command::Down),
            KeyCode::Enter | KeyCode::Char(' ') => Some(Command::Enter),
            KeyCode::Esc | KeyCode::Char('b' | 'q') => Some(Command::Cancel),
            KeyCode::Char(c) => {
                Breakpoint::ALL.into_iter().find(|one| one.key() == c).map(Command::ToggleBreakpoint)
            }
            _ => None,
        },
        Mode::Filter(_) | Mode::Prompt(_) => line(key),
    }
}

fn normal(key: &KeyEvent) -> Option<Command> {
    // Terminals tell of Shift with a character or do not; the character says it all.
    let modifiers = match key.code {
        KeyCode::Char(_) => key.modifiers - KeyModifiers::SHIFT,
        _ => key.modifiers,
    };
    BINDINGS
        .iter()
        .flat_map(|binding| binding.commands)
        .find(|((code, wanted), _)| *code == key.code && *wanted == modifiers)
        .map(|(_, command)| *command)
}

/// Editing of an open line, with the usual keys of a shell.
fn line(key: &KeyEvent) -> Option<Command> {
    let edit = |request| Some(Command::Edit(request));
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('a') => edit(InputRequest::GoToStart),
            KeyCode::Char('e') => edit(InputRequest::GoToEnd),
            KeyCode::Char('u') => edit(InputRequest::DeleteLine),
            KeyCode::Char('k') => edit(InputRequest::DeleteTillEnd),
            KeyCode::Char('w') => edit(InputRequest::DeletePrevWord),
            KeyCode::Left => edit(InputRequest::GoToPrevWord),
            KeyCode::Right => edit(InputRequest::GoToNextWord),
            _ => None,
        };
    }
    match key.code {
        KeyCode::Enter => Some(Command::Submit),
        KeyCode::Esc => Some(Command::Cancel),
        KeyCode::Up => Some(Command::HistoryBack),
        KeyCode::Down => Some(Command::HistoryForward),
        KeyCode::Left => edit(InputRequest::GoToPrevChar),
        KeyCode::Right => edit(InputRequest::GoToNextChar),
        KeyCode::Home => edit(InputRequest::GoToStart),
        KeyCode::End => edit(InputRequest::GoToEnd),
        KeyCode::Backspace => edit(InputRequest::DeletePrevChar),
        KeyCode::Delete => edit(InputRequest::DeleteNextChar),
        KeyCode::Char(c) => edit(InputRequest::InsertChar(c)),
        _ => None,
    }
}
