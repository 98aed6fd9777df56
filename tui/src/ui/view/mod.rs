//! Draws the screen. Never changes anything: [`view`] takes the state by shared reference.

mod caches;
mod flows;
mod help;
mod output;
mod packet;
mod ports;
mod timeline;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::app::{App, Mode, Severity};
use super::command::{Breakpoint, Screen};
use super::filter::Filter;
use super::keys::{BINDINGS, Binding};
use super::layout;
use super::text;
use super::update::is_available;
use super::walk::Job;

pub use caches::rows as cache_rows;
pub use help::{breakpoints_area, rows as help_rows};
pub use output::rows as output_rows;
pub use timeline::rows as timeline_rows;

/// Fewest columns and rows that anything useful can be shown on.
const SMALLEST: (u16, u16) = (40, 10);

/// Draws everything.
pub fn view(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("recirc needs {} columns and {} rows", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let regions = layout::regions((area.width, area.height));
    header(app, frame, regions.header);
    tabs(app, frame, regions.tabs);
    match app.screen {
        Screen::Overview => overview(app, frame, regions.body),
        Screen::Flows => flows::screen(app, frame, regions.body),
        Screen::Caches => caches::screen(app, frame, regions.body),
        Screen::Timeline => timeline::pane(app, frame, regions.body),
        Screen::Packet => packet::screen(app, frame, regions.body),
        Screen::Output => output::pane(app, frame, regions.body),
    }
    status(app, frame, regions.status);
    footer(app, frame, regions.footer);
    match &app.mode {
        Mode::Help { scroll } => help::overlay(app, frame, area, *scroll),
        Mode::Breakpoints { selected } => help::breakpoints(app, frame, area, *selected),
        Mode::Normal | Mode::Filter(_) | Mode::Prompt(_) => {}
    }
}

fn overview(app: &App, frame: &mut Frame<'_>, body: Rect) {
    let ports = app.shown_switch().map_or(0, |switch| switch.ports.len());
    let parts = layout::overview(body, ports);
    ports::pane(app, frame, parts.ports);
    caches::pane(app, frame, parts.caches);
    if !parts.flows.is_empty() {
        flows::pane(app, frame, parts.flows);
    }
    timeline::pane(app, frame, parts.timeline);
    if !parts.packet.is_empty() {
        packet::layers_pane(app, frame, parts.packet);
    }
}

/// What the world is doing, in one word.
fn state(app: &App) -> &'static str {
    match app.walk.job() {
        Some(Job::Run { .. }) => "RUNNING",
        Some(Job::ToEnd) => "TO THE END",
        Some(Job::Ahead { .. }) => "SEARCHING",
        Some(Job::Behind { .. }) => "SEARCHING BACK",
        None => {
            let last = app.walk.trail().back().is_none_or(|last| last.at == app.walk.cursor());
            if app.walk.engine().at_end() && last { "END" } else { "PAUSED" }
        }
    }
}

fn header(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.theme;
    let cursor = app.cursor();
    let state = state(app);
    let style = if app.walk.job().is_some() { theme.active() } else { theme.title() };
    let mut right = vec![
        Span::raw(format!("t={} s  ", text::time(app.shown.time))),
        Span::raw(format!("step {}", cursor.step)),
    ];
    if app.walk.engine().frontier() > cursor.step {
        right.push(Span::raw(format!("/{}", app.walk.engine().frontier())));
    }
    right.push(Span::raw(format!(".{}  ", cursor.record)));
    right.push(Span::styled(state, style));
    right.push(Span::raw(format!(" {}", app.walk.pace().name())));
    if app.frozen {
        right.push(Span::styled(" FROZEN", theme.active()));
    }
    right.push(Span::raw(" "));
    let used: usize = right.iter().map(Span::width).sum();
    let room = usize::from(area.width).saturating_sub(used + 10);
    let title = fit(app.walk.engine().title(), room);
    let gap = usize::from(area.width).saturating_sub(used + 9 + title.width());
    let mut spans =
        vec![Span::styled(" recirc  ", theme.title()), Span::raw(title), Span::raw(" ".repeat(gap))];
    spans.append(&mut right);
    frame.render_widget(Line::from(spans).style(theme.selected()), area);
}

/// Columns of the tabs, with the screen that each belongs to.
pub fn tab_columns(app: &App) -> Vec<(Screen, std::ops::Range<u16>)> {
    let mut at = 1;
    let narrow = app.size.0 < 72;
    Screen::ALL
        .iter()
        .map(|screen| {
            let width = if narrow { 3 } else { screen.title().len() as u16 + 4 };
            let range = at..at + width;
            at += width;
            (*screen, range)
        })
        .collect()
}

fn tabs(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.theme;
    for (index, (screen, columns)) in tab_columns(app).into_iter().enumerate() {
        let digit = index + 1;
        let narrow = columns.len() == 3;
        let text = if narrow { format!(" {digit} ") } else { format!(" {digit} {} ", screen.title()) };
        let style = if screen == app.screen { theme.selected().patch(theme.title()) } else { Style::new() };
        let width = columns.len() as u16;
        let at = Rect { x: area.x + columns.start, width, ..area }.intersection(area);
        frame.render_widget(Line::styled(text, style), at);
    }
    let Some(switch) = app.shown_switch() else { return };
    let of = app.shown.snapshot.switches.len();
    let text = if of > 1 {
        format!("{} [{}/{of}] ", switch.name, app.switch.0 + 1)
    } else {
        format!("{} ", switch.name)
    };
    frame.render_widget(Line::styled(text, theme.title()).right_aligned(), area);
}

fn status(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.theme;
    match &app.mode {
        Mode::Filter(input) => line(app, frame, area, "/", input),
        Mode::Prompt(input) => line(app, frame, area, ":", input),
        Mode::Normal | Mode::Help { .. } | Mode::Breakpoints { .. } => {}
    }
    if matches!(app.mode, Mode::Filter(_) | Mode::Prompt(_)) && app.message.is_none() {
        return;
    }
    let mut spans = vec![Span::raw(" ")];
    if let Some((severity, message)) = &app.message {
        let style = match severity {
            Severity::Note => Style::new(),
            Severity::Error => theme.error(),
        };
        if *severity == Severity::Error {
            spans.push(Span::styled("error: ", style));
        }
        let message = crate::diagnostic::clean(message);
        spans.push(Span::styled(message, style));
    } else {
        if let Some(filter) = app.walk.filter() {
            spans.push(Span::styled(format!("filter: {}  ", filter.text()), theme.active()));
        }
        if !app.walk.breakpoints.is_empty() {
            let names: Vec<&str> = app.walk.breakpoints.iter().map(|one| Breakpoint::name(*one)).collect();
            spans.push(Span::raw(format!("break at: {}", names.join(", "))));
        }
    }
    if matches!(app.mode, Mode::Filter(_) | Mode::Prompt(_)) {
        // An error beside an open line goes one row up, over the body's last row.
        let above = Rect { y: area.y.saturating_sub(1), ..area };
        frame.render_widget(ratatui::widgets::Clear, above);
        frame.render_widget(Line::from(spans), above);
    } else {
        frame.render_widget(Line::from(spans), area);
    }
}

fn line(app: &App, frame: &mut Frame<'_>, area: Rect, sign: &str, input: &tui_input::Input) {
    let width = usize::from(area.width).saturating_sub(3).max(1);
    let scroll = input.visual_scroll(width);
    let shown = Paragraph::new(input.value()).scroll((0, u16::try_from(scroll).unwrap_or(0)));
    frame.render_widget(Span::styled(format!(" {sign}"), app.theme.key()), area);
    let field = Rect { x: area.x + 2, width: area.width.saturating_sub(2), ..area };
    frame.render_widget(shown, field);
    let column = u16::try_from(input.visual_cursor().saturating_sub(scroll)).unwrap_or(0);
    frame.set_cursor_position((field.x + column.min(field.width.saturating_sub(1)), area.y));
}

fn footer(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.theme;
    let mut spans = vec![Span::raw(" ")];
    match app.mode {
        Mode::Normal => {
            for binding in bindings(area.width) {
                let Some((keys, word)) = binding.footer else { continue };
                let usable = binding.commands.iter().any(|(_, command)| is_available(app, *command));
                let (key, style) =
                    if usable { (theme.key(), Style::new()) } else { (theme.dim(), theme.dim()) };
                spans.push(Span::styled(keys, key));
                spans.push(Span::styled(format!(" {word}  "), style));
            }
        }
        Mode::Help { .. } => spans.extend(keys(app, &[("Esc", "close"), ("\u{2191} \u{2193}", "scroll")])),
        Mode::Breakpoints { .. } => {
            spans.extend(keys(
                app,
                &[("Space", "set or remove"), ("\u{2191} \u{2193}", "select"), ("Esc", "close")],
            ));
        }
        Mode::Filter(_) => {
            spans.extend(keys(app, &[("Enter", "filter"), ("Esc", "leave as it was")]));
            spans.push(Span::styled("tcp,tp_dst=80 drop recirc>0 offload~partial", theme.dim()));
        }
        Mode::Prompt(_) => {
            spans.extend(keys(
                app,
                &[("Enter", "run"), ("Esc", "close"), ("\u{2191} \u{2193}", "earlier lines")],
            ));
            spans.push(Span::styled("e.g. ovs-ofctl add-flow br0 ...", theme.dim()));
        }
    }
    frame.render_widget(Line::from(spans), area);
}

/// The bindings that the footer has room for.
fn bindings(width: u16) -> Vec<&'static Binding> {
    let all: Vec<&Binding> = BINDINGS.iter().filter(|binding| binding.footer.is_some()).collect();
    let columns = |list: &[&Binding]| -> usize {
        list.iter()
            .filter_map(|binding| binding.footer)
            .map(|(keys, word)| keys.width() + word.width() + 3)
            .sum()
    };
    // The last entry needs no gap behind it.
    if columns(&all) <= usize::from(width) + 1 {
        return all;
    }
    all.into_iter().filter(|binding| !binding.minor).collect()
}

fn keys(app: &App, list: &[(&'static str, &'static str)]) -> Vec<Span<'static>> {
    list.iter()
        .flat_map(|(key, word)| [Span::styled(*key, app.theme.key()), Span::raw(format!(" {word}  "))])
        .collect()
}

/// A pane's border with its title; returns the area inside.
fn pane(app: &App, frame: &mut Frame<'_>, area: Rect, title: &str) -> Rect {
    let block = Block::bordered()
        .border_style(app.theme.dim())
        .title(Span::styled(format!(" {title} "), Style::reset().patch(app.theme.title())));
    let inside = layout::inside(area);
    frame.render_widget(block, area);
    inside
}

/// The filter, as a pane's title mentions it.
fn filter_note(app: &App) -> String {
    app.walk.filter().map_or(String::new(), |filter| format!(" \u{2502} filter: {}", Filter::text(filter)))
}

/// `text` in at most `width` columns; what is cut off is shown as an ellipsis. Control characters do not get through.
fn fit(text: &str, width: usize) -> String {
    let text = crate::diagnostic::clean(text);
    if text.width() <= width {
        return text;
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let columns = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used + columns + 1 > width {
            break;
        }
        used += columns;
        out.push(c);
    }
    if width > 0 {
        out.push('\u{2026}');
    }
    out
}

/// `text` in lines of at most `width` columns, broken behind commas and blanks where possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in crate::diagnostic::clean_lines(text) {
        let mut line = String::new();
        let mut used = 0;
        for word in paragraph.split_inclusive([',', ' ']) {
            if used + word.width() > width && used > 0 {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            for c in word.chars() {
                let columns = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
                if used + columns > width {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                line.push(c);
                used += columns;
            }
        }
        lines.push(line);
    }
    lines
}
