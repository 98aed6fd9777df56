//! State of the user interface: where the walk is, what is shown and what is selected. Plain data; [`super::update`]
//! changes it, [`super::view`] draws it.

use std::collections::VecDeque;

use datapath::types::Time;
use tui_input::Input;

use super::command::Screen;
use super::journey::Journey;
use super::marks::Entry;
use super::model::{Cursor, Engine, Snapshot, Switch, SwitchIndex};
use super::rates::Rates;
use super::theme::Theme;
use super::walk::Walk;

/// What takes the keys.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The screen.
    Normal,
    /// The help overlay.
    Help {
        /// Rows scrolled.
        scroll: u16,
    },
    /// The list of breakpoints.
    Breakpoints {
        /// Selected row.
        selected: usize,
    },
    /// The filter line.
    Filter(Input),
    /// The command line.
    Prompt(Input),
}

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For information.
    Note,
    /// Something that was asked for could not be done.
    Error,
}

/// A column that flows can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowOrder {
    /// Order of installation.
    #[default]
    Installed,
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Last use.
    Used,
    /// Recirculation id.
    Recirc,
}

impl FlowOrder {
    /// All, in the order in which they are gone through.
    pub const ALL: [Self; 5] = [Self::Installed, Self::Packets, Self::Bytes, Self::Used, Self::Recirc];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Used => "used",
            Self::Recirc => "recirc_id",
        }
    }
}

/// The flow table as it is shown.
#[derive(Clone, Debug)]
pub struct FlowsView {
    /// Order.
    pub order: FlowOrder,
    /// Whether the order is reversed.
    pub reverse: bool,
    /// Indices of the switch's flows that pass the filter, in order.
    pub rows: Vec<usize>,
    /// Selected row.
    pub selected: usize,
    /// Whether the selected flow is shown in full.
    pub full: bool,
}

/// A command and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The command.
    pub command: String,
    /// What it printed, or what was wrong.
    pub text: String,
    /// Whether it was carried out.
    pub done: bool,
}

/// What is drawn of the world; a copy of it is kept while the view is frozen.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// The switches.
    pub snapshot: Snapshot,
    /// Packets and bytes a second.
    pub rates: Rates,
    /// Where.
    pub cursor: Cursor,
    /// When.
    pub time: Time,
    /// What happened around there; only filled while frozen.
    trail: VecDeque<Entry>,
}

/// State of the user interface.
pub struct App {
    /// The way through history.
    pub walk: Walk,
    /// What is drawn.
    pub shown: Shown,
    /// Whether [`Self::shown`] stays as it is.
    pub frozen: bool,
    /// Size of the terminal: columns, rows.
    pub size: (u16, u16),
    /// Styles.
    pub theme: Theme,
    /// What the body shows.
    pub screen: Screen,
    /// What takes the keys.
    pub mode: Mode,
    /// The switch that is shown.
    pub switch: SwitchIndex,
    /// The flow table.
    pub flows: FlowsView,
    /// The event that is selected in the timeline or in a packet's way, if it is not the one at the cursor.
    pub selected: Option<Cursor>,
    /// Rows scrolled in the packet's layers, or in the output.
    pub scroll: u16,
    /// Commands and their answers.
    pub output: Vec<Answer>,
    /// Lines entered at the prompt.
    pub lines: Vec<String>,
    /// Which of [`Self::lines`] is being looked at; its length if none.
    pub line: usize,
    /// What to tell the user.
    pub message: Option<(Severity, String)>,
    /// Whether to leave.
    pub quit: bool,
}

impl App {
    /// The user interface of a world that is at its start.
    pub fn new(engine: Box<dyn Engine>, size: (u16, u16)) -> Self {
        let mut app = Self {
            walk: Walk::new(engine),
            shown: Shown::default(),
            frozen: false,
            size,
            theme: Theme { colours: true },
            screen: Screen::default(),
            mode: Mode::Normal,
            switch: SwitchIndex(0),
            flows: FlowsView {
                order: FlowOrder::Installed,
                reverse: false,
                rows: Vec::new(),
                selected: 0,
                full: true,
            },
            selected: None,
            scroll: 0,
            output: Vec::new(),
            lines: Vec::new(),
            line: 0,
            message: None,
            quit: false,
        };
        app.refresh();
        app
    }

    /// The switch that is shown; none in a world without.
    pub fn shown_switch(&self) -> Option<&Switch> {
        self.shown.snapshot.switches.get(self.switch.0)
    }

    /// Whether flows of the shown switch were changed or removed.
    pub fn has_past_flows(&self) -> bool {
        self.shown_switch().is_some_and(|switch| switch.past != (0, 0))
    }

    /// What happened around where the view is.
    pub fn trail(&self) -> &VecDeque<Entry> {
        if self.frozen { &self.shown.trail } else { self.walk.trail() }
    }

    /// Where the view is.
    pub const fn cursor(&self) -> Cursor {
        self.shown.cursor
    }

    /// The event that is looked at: the selected one, or the one at the cursor.
    pub fn focus(&self) -> Cursor {
        self.selected.unwrap_or(self.shown.cursor)
    }

    /// An entry of the trail.
    pub fn entry(&self, at: Cursor) -> Option<&Entry> {
        let trail = self.trail();
        trail.binary_search_by_key(&at, |entry| entry.at).ok().map(|index| &trail[index])
    }

    /// The way of the packet that the cursor's event is about.
    pub fn journey(&self) -> Option<Journey<'_>> {
        Journey::of(self.trail(), self.shown.cursor)
    }

    /// Takes a new look at the world, unless frozen or in the middle of a search.
    pub fn refresh(&mut self) {
        use super::walk::Job;
        let searching = matches!(self.walk.job(), Some(Job::Ahead { .. } | Job::Behind { .. }));
        if self.frozen || searching {
            return;
        }
        self.shown.snapshot = self.walk.engine().snapshot();
        self.shown.cursor = self.walk.cursor();
        self.shown.time = self.walk.engine().now();
        self.shown.rates.sample(&self.shown.snapshot);
        if self.switch.0 >= self.shown.snapshot.switches.len() {
            self.switch = SwitchIndex(0);
        }
        self.arrange_flows();
    }

    /// Freezes or thaws the view.
    pub fn freeze(&mut self, frozen: bool) {
        self.shown.trail = if frozen { self.walk.trail().clone() } else { VecDeque::new() };
        self.frozen = frozen;
        self.refresh();
    }

    /// Filters and sorts the flow table.
    pub fn arrange_flows(&mut self) {
        let Some(switch) = self.shown.snapshot.switches.get(self.switch.0) else {
            self.flows.rows.clear();
            return;
        };
        let filter = self.walk.filter();
        let engine = self.walk.engine();
        let mut rows: Vec<usize> = (0..switch.flows.len())
            .filter(|row| {
                let flow = &switch.flows[*row];
                filter.is_none_or(|filter| {
                    filter.passes_flow(flow)
                        && filter.key().is_none_or(|key| engine.flow_passes(self.switch, flow.id, key))
                })
            })
            .collect();
        // Counters are looked at for the biggest, so that they go down; stable sorting leaves equals in order of installation.
        let flow = |row: &usize| &switch.flows[*row];
        match self.flows.order {
            FlowOrder::Installed => {}
            FlowOrder::Packets => rows.sort_by_key(|row| std::cmp::Reverse(flow(row).packets)),
            FlowOrder::Bytes => rows.sort_by_key(|row| std::cmp::Reverse(flow(row).bytes)),
            FlowOrder::Used => rows.sort_by_key(|row| std::cmp::Reverse(flow(row).used)),
            FlowOrder::Recirc => rows.sort_by_key(|row| flow(row).recirc_id),
        }
        if self.flows.reverse {
            rows.reverse();
        }
        self.flows.selected = self.flows.selected.min(rows.len().saturating_sub(1));
        self.flows.rows = rows;
    }

    /// Tells the user something.
    pub fn note(&mut self, text: impl Into<String>) {
        self.message = Some((Severity::Note, text.into()));
    }

    /// Tells the user that something could not be done.
    pub fn error(&mut self, text: impl Into<String>) {
        self.message = Some((Severity::Error, text.into()));
    }
}
