//! What is drawn over the screen: help, and the list of breakpoints.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Clear;

use super::super::app::App;
use super::super::command::Breakpoint;
use super::super::keys::BINDINGS;
use super::{pane, wrap};

/// Columns of the keys.
const KEYS: usize = 14;
/// Columns of the help overlay.
const WIDTH: u16 = 80;

fn lines() -> Vec<(String, String)> {
    let width = usize::from(WIDTH) - 2 - KEYS;
    let mut lines = Vec::new();
    for binding in BINDINGS {
        for (index, line) in wrap(binding.help, width).into_iter().enumerate() {
            lines.push((if index == 0 { binding.keys.to_owned() } else { String::new() }, line));
        }
    }
    lines
}

/// How many rows help has.
pub fn rows() -> usize {
    lines().len()
}

/// Draws help.
pub fn overlay(app: &App, frame: &mut Frame<'_>, area: Rect, scroll: u16) {
    let lines = lines();
    let rows = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let inside = popup(app, frame, area, (WIDTH, rows), "Help");
    let last = lines.len().saturating_sub(usize::from(inside.height));
    let lines: Vec<Line<'_>> = lines
        .into_iter()
        .skip(usize::from(scroll).min(last))
        .map(|(keys, help)| {
            Line::from(vec![Span::styled(format!("{keys:<KEYS$}"), app.theme.key()), Span::raw(help)])
        })
        .collect();
    frame.render_widget(Text::from(lines), inside);
}

/// Draws the list of breakpoints.
pub fn breakpoints(app: &App, frame: &mut Frame<'_>, area: Rect, selected: usize) {
    let inside = popup(app, frame, area, (34, Breakpoint::ALL.len() as u16 + 2), "Stop a run at");
    let lines: Vec<Line<'_>> = Breakpoint::ALL
        .iter()
        .enumerate()
        .map(|(index, breakpoint)| {
            let set = if app.walk.breakpoints.contains(breakpoint) { "[x]" } else { "[ ]" };
            let line = Line::from(format!(" {set} {}  {}", breakpoint.key(), breakpoint.name()));
            if index == selected { line.style(app.theme.selected()) } else { line }
        })
        .collect();
    frame.render_widget(Text::from(lines), inside);
}

/// Where the list of breakpoints lies on a terminal of this size.
pub fn breakpoints_area(size: (u16, u16)) -> Rect {
    centred(Rect::new(0, 0, size.0, size.1), (34, Breakpoint::ALL.len() as u16 + 2))
}

fn centred(area: Rect, size: (u16, u16)) -> Rect {
    let (width, height) = (size.0.min(area.width), size.1.min(area.height));
    Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height }
}

fn popup(app: &App, frame: &mut Frame<'_>, area: Rect, size: (u16, u16), title: &str) -> Rect {
    let area = centred(area, size);
    frame.render_widget(Clear, area);
    pane(app, frame, area, title)
}
