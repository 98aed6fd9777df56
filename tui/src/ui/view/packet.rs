//! One packet's way: its events, its offload flags, its layers and its bytes, with what each event changed.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};

use sim::describe;

use super::super::app::App;
use super::super::decode::{self, Change, Layer};
use super::super::journey::{Journey, State};
use super::super::layout;
use super::super::theme::Theme;
use super::{fit, pane as bordered};

/// Bytes in a line of hexadecimal.
const PER_LINE: usize = 8;

/// Draws the screen.
pub fn screen(app: &App, frame: &mut Frame<'_>, body: Rect) {
    let parts = layout::packet(body);
    let Some(journey) = app.journey() else {
        let inside = bordered(app, frame, body, "Packet");
        let note = "no packet here: go to an event of one";
        frame.render_widget(Line::styled(note, app.theme.dim()), inside);
        return;
    };
    let at = journey.index_of(app.focus());
    let (before, after) = journey.states(at);
    way(app, frame, parts.way, &journey, at);
    offloads(app, frame, parts.offloads, &before, &after);
    layers(app, frame, parts.layers, &before, &after);
    bytes(app, frame, parts.bytes, &before, &after);
}

/// Draws the layers alone, for the overview.
pub fn layers_pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let (before, after) =
        app.journey().map_or_else(Default::default, |journey| journey.states(journey.index_of(app.focus())));
    layers(app, frame, area, &before, &after);
}

fn way(app: &App, frame: &mut Frame<'_>, area: Rect, journey: &Journey<'_>, at: usize) {
    let depth = journey.entries.iter().map(|entry| entry.depth).max().unwrap_or(0);
    let mut title = journey
        .packet
        .map_or_else(|| "A frame under way".to_owned(), |packet| format!("Way of #{}", packet.0));
    if depth > 0 {
        title.push_str(&format!(", recirculated {depth}x"));
    }
    let inside = bordered(app, frame, area, &title);
    let first = layout::first_row(at, journey.entries.len(), inside.height);
    let rows = journey.entries.iter().enumerate().skip(first).take(usize::from(inside.height));
    let lines: Vec<Line<'_>> = rows
        .map(|(index, entry)| {
            let here = if entry.at == app.cursor() { '\u{25b6}' } else { ' ' };
            let indent = "\u{2502} ".repeat(usize::from(entry.depth));
            let copy = match entry.record.packet() {
                Some(packet) if Some(packet) != journey.packet => format!("#{} ", packet.0),
                Some(_) | None => String::new(),
            };
            let what = app.walk.engine().describe(&entry.record);
            let line = fit(&format!("{here}{indent}{copy}{what}"), usize::from(inside.width));
            let ahead = entry.at > app.cursor();
            let style = if ahead { app.theme.dim() } else { app.theme.event(entry.record.event()) };
            Line::styled(line, if index == at { style.patch(app.theme.selected()) } else { style })
        })
        .collect();
    frame.render_widget(Text::from(lines), inside);
}

fn offloads(app: &App, frame: &mut Frame<'_>, area: Rect, before: &State, after: &State) {
    let inside = bordered(app, frame, area, "Offload flags");
    let show = |state: &State| state.offloads.map_or("not known".to_owned(), describe::offloads);
    let (old, new) = (show(before), show(after));
    let width = usize::from(inside.width);
    let mut lines = Vec::new();
    if old != new && before.offloads.is_some() {
        let words: Vec<&str> = old.split(' ').collect();
        lines.push(Line::from(fit(&format!("was {old}"), width)));
        let mut spans = vec![Span::raw("now ")];
        for word in new.split(' ') {
            let style = if words.contains(&word) { Style::new() } else { app.theme.changed() };
            spans.push(Span::styled(word.to_owned(), style));
            spans.push(Span::raw(" "));
        }
        lines.push(Line::from(spans));
    } else {
        lines.push(Line::from(fit(&new, width)));
    }
    frame.render_widget(Text::from(lines), inside);
}

fn layers(app: &App, frame: &mut Frame<'_>, area: Rect, before: &State, after: &State) {
    let length = after.bytes.as_ref().map_or(String::new(), |bytes| format!(", {} bytes", bytes.len()));
    let inside = bordered(app, frame, area, &format!("Layers{length}"));
    let Some(bytes) = &after.bytes else {
        frame.render_widget(Line::styled("bytes not known here", app.theme.dim()), inside);
        return;
    };
    let now = decode::layers(bytes);
    let (changes, gone) = compare(before, &now);
    let mut lines = Vec::new();
    for (layer, (change, fields)) in now.iter().zip(&changes) {
        lines.extend(layer_lines(app.theme, layer, *change, fields, usize::from(inside.width)));
    }
    for name in gone {
        lines.push(Line::styled(format!("- {name} removed"), app.theme.changed()));
    }
    let hidden = lines.len().saturating_sub(usize::from(inside.height));
    // The innermost headers matter more than the frame's own when there is no room for all.
    let lines: Vec<Line<'_>> = if hidden > 0 {
        let note = Line::styled(format!("({} lines above)", hidden + 1), app.theme.dim());
        std::iter::once(note).chain(lines.into_iter().skip(hidden + 1)).collect()
    } else {
        lines
    };
    frame.render_widget(Text::from(lines), inside);
}

/// How the layers compare with what was before; all the same if nothing was.
fn compare(before: &State, now: &[Layer]) -> (Vec<(Change, Vec<Change>)>, Vec<&'static str>) {
    match &before.bytes {
        Some(old) => decode::compare(&decode::layers(old), now),
        None => {
            let same = now.iter().map(|layer| (Change::Same, vec![Change::Same; layer.fields.len()]));
            (same.collect(), Vec::new())
        }
    }
}

/// A layer's name and, wrapped behind it, its fields. `+` marks a new header, `*` a changed one or a changed field.
fn layer_lines(
    theme: Theme,
    layer: &Layer,
    change: Change,
    fields: &[Change],
    width: usize,
) -> Vec<Line<'static>> {
    let (sign, style) = match change {
        Change::Same => (' ', Style::new()),
        Change::Changed => ('*', Style::new()),
        Change::Added => ('+', theme.added()),
    };
    let mut spans = vec![Span::styled(format!("{sign} {}", layer.name), theme.title().patch(style))];
    let mut used = 2 + layer.name.len();
    let mut lines = Vec::new();
    for (field, change) in layer.fields.iter().zip(fields) {
        let (mark, style) = match change {
            Change::Same => ("", Style::new()),
            Change::Changed => ("*", theme.changed()),
            Change::Added => ("", theme.added()),
        };
        let word = format!("{}={}{mark}", field.name, field.value);
        if used + 1 + word.len() > width {
            lines.push(Line::from(std::mem::take(&mut spans)));
            spans.push(Span::raw("   "));
            used = 3;
        }
        used += 1 + word.len();
        spans.push(Span::raw(" "));
        spans.push(Span::styled(word, style));
    }
    lines.push(Line::from(spans));
    lines
}

fn bytes(app: &App, frame: &mut Frame<'_>, area: Rect, before: &State, after: &State) {
    let Some(bytes) = &after.bytes else {
        bordered(app, frame, area, "Bytes");
        return;
    };
    let marks = changed_bytes(before, bytes);
    let first = marks.iter().position(|changed| *changed);
    let title = if first.is_some() { "Bytes, changed underlined" } else { "Bytes" };
    let inside = bordered(app, frame, area, title);
    let per_line = (usize::from(inside.width).saturating_sub(5) / 3).max(1) / PER_LINE * PER_LINE;
    let per_line = per_line.max(PER_LINE);
    // Start with the line before the first change, so that it is in view.
    let height = usize::from(inside.height);
    let total = bytes.len().div_ceil(per_line);
    let top = first.map_or(0, |at| (at / per_line).saturating_sub(1)).min(total.saturating_sub(height));
    let lines: Vec<Line<'_>> = (top..total.min(top + height))
        .map(|line| {
            let range = line * per_line..((line + 1) * per_line).min(bytes.len());
            let mut spans = vec![Span::styled(format!("{:04x}", range.start), app.theme.dim())];
            for at in range {
                let style = if marks[at] { app.theme.changed() } else { Style::new() };
                spans.push(Span::raw(" "));
                spans.push(Span::styled(format!("{:02x}", bytes[at]), style));
            }
            Line::from(spans)
        })
        .collect();
    frame.render_widget(Text::from(lines), inside);
}

/// Which bytes differ from before. Where the length changed, those of headers and fields that are new or changed.
fn changed_bytes(before: &State, now: &[u8]) -> Vec<bool> {
    let mut marks = vec![false; now.len()];
    let Some(old) = &before.bytes else { return marks };
    if old.len() == now.len() {
        for (mark, (old, new)) in marks.iter_mut().zip(old.iter().zip(now)) {
            *mark = old != new;
        }
        return marks;
    }
    let layers = decode::layers(now);
    let (changes, _) = decode::compare(&decode::layers(old), &layers);
    for (layer, (change, fields)) in layers.iter().zip(changes) {
        if change == Change::Added {
            marks[layer.range.clone()].fill(true);
        }
        for (field, change) in layer.fields.iter().zip(fields) {
            if change != Change::Same {
                marks[field.range.clone()].fill(true);
            }
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn bytes_of_a_pushed_tag_are_marked() {
        let mut frame = vec![2; 12];
        frame.extend([0x12, 0x34, 1, 2, 3]);
        let before = State { bytes: Some(Rc::from(frame.as_slice())), offloads: None };
        frame.splice(12..12, [0x81, 0, 0, 10]);
        let marks = changed_bytes(&before, &frame);
        // The Ethernet type says VLAN now, and four bytes hold the tag.
        assert_eq!(marks.iter().positions_of_true(), (12..18).collect::<Vec<_>>());
        frame[0] = 9;
        let same_length = State { bytes: Some(Rc::from(vec![2; frame.len()])), offloads: None };
        assert!(changed_bytes(&same_length, &frame)[0]);
    }

    trait Positions {
        fn positions_of_true(self) -> Vec<usize>;
    }

    impl<'a, I: Iterator<Item = &'a bool>> Positions for I {
        fn positions_of_true(self) -> Vec<usize> {
            self.enumerate().filter(|(_, set)| **set).map(|(at, _)| at).collect()
        }
    }
}
