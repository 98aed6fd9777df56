//! The datapath flow table.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Row, Table};

use super::super::app::{App, FlowOrder};
use super::super::layout;
use super::super::model::FlowText;
use super::super::text;
use super::{filter_note, fit, pane as bordered, wrap};

/// Draws the screen: the table, and the selected flow in full if asked for.
pub fn screen(app: &App, frame: &mut Frame<'_>, body: Rect) {
    let (table, detail, past) = layout::flows(body, app.flows.full, app.has_past_flows());
    pane(app, frame, table);
    if !past.is_empty() {
        past_flows(app, frame, past);
    }
    if !detail.is_empty() {
        full(app, frame, detail);
    }
}

/// Draws the table.
pub fn pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let total = app.shown_switch().map_or(0, |switch| switch.flows.len());
    let shown = app.flows.rows.len();
    let of = if shown == total { total.to_string() } else { format!("{shown} of {total}") };
    let reverse = if app.flows.reverse { ", reversed" } else { "" };
    let title = format!("Flows ({of}) by {}{reverse}{}", app.flows.order.name(), filter_note(app));
    let inside = bordered(app, frame, area, &title);
    let Some(switch) = app.shown_switch() else { return };
    let height = inside.height.saturating_sub(1);
    let first = layout::first_row(app.flows.selected, shown, height);
    let numbers: u16 = 8 + 7 + 7 + 4;
    let key_width = usize::from(inside.width.saturating_sub(numbers)) * 3 / 5;
    let actions_width = usize::from(inside.width.saturating_sub(numbers)) - key_width;
    let rows = app.flows.rows.iter().enumerate().skip(first).take(usize::from(height));
    let rows = rows.map(|(index, row)| {
        let flow = &switch.flows[*row];
        let text = text_of(app, flow.id);
        let used = flow.used.map_or("never".to_owned(), |at| text::span(app.shown.time.since(at).0));
        let numbers = [text::count(flow.packets), text::count(flow.bytes), used];
        let mut cells: Vec<Cell<'_>> =
            numbers.into_iter().map(|number| Cell::from(Line::from(number).right_aligned())).collect();
        // Ethernet is what nearly every packet is; the full text below says it.
        let key = text.key.replacen("packet_type(ns=0,id=0),", "", 1);
        cells.push(Cell::from(fit(&key, key_width)));
        cells.push(Cell::from(fit(&text.actions, actions_width)));
        let selected = index == app.flows.selected && app.screen == super::Screen::Flows;
        Row::new(cells).style(if selected { app.theme.selected() } else { ratatui::style::Style::new() })
    });
    let mark = |order: FlowOrder| if app.flows.order == order { "\u{25be}" } else { "" };
    let heading = Row::new([
        Cell::from(Line::from(format!("packets{}", mark(FlowOrder::Packets))).right_aligned()),
        Cell::from(Line::from(format!("bytes{}", mark(FlowOrder::Bytes))).right_aligned()),
        Cell::from(Line::from(format!("used{}", mark(FlowOrder::Used))).right_aligned()),
        Cell::from(format!("key{}", mark(FlowOrder::Recirc))),
        Cell::from("actions"),
    ]);
    let widths = [
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(u16::try_from(key_width).unwrap_or(u16::MAX)),
        Constraint::Fill(1),
    ];
    frame.render_widget(Table::new(rows, widths).header(heading.style(app.theme.title())), inside);
    if shown == 0 && inside.height > 1 {
        let note = if total == 0 {
            "no flow yet: the first packet's miss installs one"
        } else {
            "no flow passes the filter"
        };
        let at = Rect { y: inside.y + 1, height: 1, ..inside };
        frame.render_widget(Line::styled(note, app.theme.dim()), at);
    }
}

/// Draws what became of flows, newest first: what happened and why, what the flow was, and what is in its place.
fn past_flows(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let (removed, changed) = app.shown_switch().map_or((0, 0), |switch| switch.past);
    let inside =
        bordered(app, frame, area, &format!("Flows that were removed ({removed}) or changed ({changed})"));
    let width = usize::from(inside.width);
    let mut lines: Vec<Line<'_>> = Vec::new();
    for past in app.walk.engine().past_flows(app.switch, usize::from(inside.height)) {
        let head = format!("{} {}", text::time(past.at), past.fate);
        lines.push(Line::styled(fit(&head, width), app.theme.title()));
        let key = past.flow.replacen("packet_type(ns=0,id=0),", "", 1);
        lines.push(Line::from(fit(&format!("  {key}"), width)));
        lines.extend(past.after.map(|after| Line::from(fit(&format!("  now: {after}"), width))));
    }
    lines.truncate(usize::from(inside.height));
    frame.render_widget(Text::from(lines), inside);
}

fn text_of(app: &App, flow: datapath::trace::FlowId) -> FlowText {
    app.walk
        .engine()
        .flow_text(app.switch, flow)
        .unwrap_or_else(|| FlowText { key: "(removed)".into(), actions: String::new() })
}

fn full(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let inside = bordered(app, frame, area, "Selected flow");
    let row = app.flows.rows.get(app.flows.selected);
    let Some(flow) = row.and_then(|row| app.shown_switch()?.flows.get(*row)) else { return };
    let text = text_of(app, flow.id);
    let width = usize::from(inside.width);
    let mut lines: Vec<Line<'_>> = wrap(&text.key, width).into_iter().map(Line::from).collect();
    lines.push(Line::from(vec![
        Span::styled("packets ", app.theme.title()),
        Span::raw(flow.packets.to_string()),
        Span::styled("  bytes ", app.theme.title()),
        Span::raw(flow.bytes.to_string()),
        Span::styled("  last used ", app.theme.title()),
        Span::raw(flow.used.map_or("never".to_owned(), |at| format!("at {} s", text::time(at)))),
    ]));
    lines.push(Line::styled("actions", app.theme.title()));
    lines.extend(wrap(&text.actions, width).into_iter().map(Line::from));
    frame.render_widget(Text::from(lines), inside);
}
