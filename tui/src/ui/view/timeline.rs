//! The timeline: what happened, in order.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};

use super::super::app::App;
use super::super::layout;
use super::super::marks::Entry;
use super::super::model::{Cursor, What};
use super::super::text;
use super::{filter_note, fit, pane as bordered};

/// Places of the events that the filter lets through, in order.
pub fn rows(app: &App) -> Vec<Cursor> {
    app.trail().iter().filter(|entry| app.walk.passes(entry)).map(|entry| entry.at).collect()
}

/// Draws the pane.
pub fn pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let inside = bordered(app, frame, area, &format!("Timeline{}", filter_note(app)));
    let rows = rows(app);
    if rows.is_empty() {
        let note = if app.trail().is_empty() {
            "nothing has happened yet: Space runs, \u{2192} takes one event"
        } else {
            "no event here passes the filter"
        };
        frame.render_widget(Line::styled(note, app.theme.dim()), inside);
        return;
    }
    let focus = app.focus();
    let at = rows.partition_point(|at| *at < focus);
    let first = layout::first_row(at.min(rows.len() - 1), rows.len(), inside.height);
    let shown = &rows[first..rows.len().min(first + usize::from(inside.height))];
    let lines: Vec<Line<'_>> = shown
        .iter()
        .filter_map(|at| app.entry(*at))
        .map(|entry| row(app, entry, usize::from(inside.width)))
        .collect();
    frame.render_widget(Text::from(lines), inside);
}

/// One event: mark, time, where, packet, depth, what.
fn row(app: &App, entry: &Entry, width: usize) -> Line<'static> {
    let theme = app.theme;
    let cursor = app.cursor();
    let here = entry.at == cursor;
    let mark = if here { "\u{25b6}" } else { " " };
    let place = match &entry.record.what {
        What::World { .. } | What::Note { .. } => "-".to_owned(),
        What::Switch { switch, .. } => app
            .shown
            .snapshot
            .switches
            .get(switch.0)
            .map_or_else(|| "?".to_owned(), |switch| switch.name.clone()),
    };
    let mut head = format!("{mark}{} {place:<4}", text::time(entry.record.time));
    if let Some(packet) = entry.record.packet() {
        head.push_str(&format!(" #{}", packet.0));
    }
    if entry.depth > 0 {
        head.push_str(&format!(" \u{21bb}{}", entry.depth));
    }
    head.push(' ');
    let head = fit(&head, width);
    let room = width.saturating_sub(unicode_width::UnicodeWidthStr::width(head.as_str()));
    let what = fit(&app.walk.engine().describe(&entry.record), room);
    // What lies ahead of the cursor has not happened as far as the rest of the screen is concerned.
    let ahead = entry.at > cursor;
    let style = theme.event(entry.record.event());
    let style = if ahead { theme.dim() } else { style };
    let line = Line::from(vec![
        Span::styled(head, if ahead { theme.dim() } else { Default::default() }),
        Span::styled(what, style),
    ]);
    if app.selected == Some(entry.at) {
        line.style(theme.selected())
    } else if here {
        line.style(theme.title())
    } else {
        line
    }
}
