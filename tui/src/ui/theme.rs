//! Styles. Every meaning is carried by a word, a sign or a modifier as well, so that it can be read without colour.

use ratatui::style::{Color, Modifier, Style};

use datapath::trace::Event;

/// Styles, with or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Whether colours are used.
    pub colours: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    /// Borders and what is less important.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Titles and column headings.
    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row.
    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Keys in the footer and in help.
    pub fn key(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// What could not be done.
    pub fn error(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What is under way.
    pub fn active(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// What changed.
    pub fn changed(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// What was added.
    pub fn added(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// Bars.
    pub fn bar(self) -> Style {
        self.colour(Color::Blue)
    }

    /// The text of an event.
    pub fn event(self, event: Option<&Event>) -> Style {
        match event {
            None => self.dim(),
            Some(Event::Drop { .. }) => self.colour(Color::Red),
            Some(Event::Recirc { .. }) => self.colour(Color::Magenta),
            Some(Event::OffloadChange { .. }) => self.colour(Color::Yellow),
            Some(
                Event::Upcall { .. } | Event::Install { .. } | Event::Modify { .. } | Event::Remove { .. },
            ) => self.colour(Color::Cyan),
            Some(Event::Rx { .. } | Event::Tx { .. }) => self.colour(Color::Green),
            Some(Event::Conntrack { .. } | Event::Expire { .. }) => self.colour(Color::Blue),
            Some(Event::Lookup { .. } | Event::Action { .. } | Event::Copy { .. }) => Style::new(),
        }
    }
}
