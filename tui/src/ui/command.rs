//! Everything that a user can ask for. Keys, mouse, prompt and tests all make these.

use std::time::Duration;

use tui_input::InputRequest;

/// What the body of the screen shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Screen {
    /// Ports, cache tiers and timeline together; on a big terminal, flows and packet too.
    #[default]
    Overview,
    /// Datapath flows.
    Flows,
    /// Cache tiers, subtables, drops.
    Caches,
    /// Events.
    Timeline,
    /// One packet's way.
    Packet,
    /// Commands and what they answered.
    Output,
}

impl Screen {
    /// All, in the order of their digits.
    pub const ALL: [Self; 6] =
        [Self::Overview, Self::Flows, Self::Caches, Self::Timeline, Self::Packet, Self::Output];

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Flows => "Flows",
            Self::Caches => "Caches",
            Self::Timeline => "Timeline",
            Self::Packet => "Packet",
            Self::Output => "Output",
        }
    }
}

/// What stops a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breakpoint {
    /// A packet is dropped.
    Drop,
    /// A packet is recirculated.
    Recirc,
    /// Offload flags change after reception.
    Offload,
    /// A flow is installed.
    Install,
}

impl Breakpoint {
    /// All, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Drop, Self::Recirc, Self::Offload, Self::Install];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Recirc => "recirc",
            Self::Offload => "offload change",
            Self::Install => "flow install",
        }
    }

    /// The key that switches it in the list of breakpoints.
    pub const fn key(self) -> char {
        match self {
            Self::Drop => 'd',
            Self::Recirc => 'r',
            Self::Offload => 'o',
            Self::Install => 'i',
        }
    }
}

/// One thing that a user (or the passing of time) asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Time passes: work that is under way goes on.
    Tick {
        /// Wall-clock time since the last tick.
        elapsed: Duration,
        /// Steps of the world to take at most.
        budget: u64,
    },
    /// The terminal has this many columns and rows now.
    Resize(u16, u16),
    /// Run, or pause.
    RunPause,
    /// One event forwards.
    Forward,
    /// One event backwards.
    Back,
    /// To the next packet's reception.
    ForwardPacket,
    /// To this packet's reception, or to the former one's.
    BackPacket,
    /// To the next event of the same flow.
    ForwardFlow,
    /// To the former event of the same flow.
    BackFlow,
    /// To the start.
    Start,
    /// To the furthest point reached, or from there to the end.
    End,
    /// Run faster.
    Faster,
    /// Run slower.
    Slower,
    /// Stop or resume refreshing the view; the engine goes on.
    Freeze,
    /// Show a screen.
    Show(Screen),
    /// Show the next screen.
    NextScreen,
    /// Show the next switch.
    NextSwitch,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Select the row that is so many rows below the first one shown.
    ClickRow(usize),
    /// Act on the selected row: go to the event, or show a flow in full.
    Enter,
    /// Sort flows by the next column.
    Sort,
    /// Sort the other way round.
    SortReverse,
    /// Open or close the list of breakpoints.
    Breakpoints,
    /// Set or remove a breakpoint.
    ToggleBreakpoint(Breakpoint),
    /// Open the filter line.
    Filter,
    /// Open the command line.
    Prompt,
    /// Edit the open line.
    Edit(InputRequest),
    /// The former line entered.
    HistoryBack,
    /// The next line entered.
    HistoryForward,
    /// Take the open line.
    Submit,
    /// Open or close help.
    Help,
    /// Close what is open; stop a search; remove the filter.
    Cancel,
    /// Leave.
    Quit,
}
