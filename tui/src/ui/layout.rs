//! Where things are on the screen. Drawing and the mouse both ask here.

use ratatui::layout::{Constraint, Layout, Rect};

use super::app::App;
use super::command::Screen;

/// The frame around every screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Title, time, what is under way.
    pub header: Rect,
    /// Names of the screens.
    pub tabs: Rect,
    /// What the screen shows.
    pub body: Rect,
    /// Message, or the open line.
    pub status: Rect,
    /// Keys.
    pub footer: Rect,
}

/// The parts of the overview; those that a small terminal has no room for are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// Ports and rates.
    pub ports: Rect,
    /// Cache tiers.
    pub caches: Rect,
    /// Flows.
    pub flows: Rect,
    /// Events.
    pub timeline: Rect,
    /// The packet's layers.
    pub packet: Rect,
}

/// The parts of the packet screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketParts {
    /// Its events.
    pub way: Rect,
    /// Its offload flags.
    pub offloads: Rect,
    /// Its layers.
    pub layers: Rect,
    /// Its bytes.
    pub bytes: Rect,
}

/// The frame, for a terminal of this size.
pub fn regions(size: (u16, u16)) -> Regions {
    let area = Rect::new(0, 0, size.0, size.1);
    let [header, tabs, body, status, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    Regions { header, tabs, body, status, footer }
}

/// The overview's parts. With room, flows and the packet are there too.
pub fn overview(body: Rect, ports: usize) -> Overview {
    // Two borders and a heading around the ports; caches need as many rows as there are tiers, and two for the rest.
    let wanted = u16::try_from(ports).unwrap_or(u16::MAX).saturating_add(3).clamp(10, 14);
    let top = wanted.min(body.height / 2);
    let [above, below] = Layout::vertical([Constraint::Length(top), Constraint::Min(0)]).areas(body);
    let [ports, caches] = Layout::horizontal([Constraint::Percentage(56), Constraint::Min(0)]).areas(above);
    if body.width < 100 || body.height < 30 {
        return Overview { ports, caches, timeline: below, ..Overview::default() };
    }
    let [flows, below] = Layout::vertical([Constraint::Length(8), Constraint::Min(0)]).areas(below);
    let [timeline, packet] =
        Layout::horizontal([Constraint::Percentage(56), Constraint::Min(0)]).areas(below);
    Overview { ports, caches, flows, timeline, packet }
}

/// The flow screen's parts: the table, one flow in full if that is asked for, and what became of others if there are any.
pub fn flows(body: Rect, full: bool, past: bool) -> (Rect, Rect, Rect) {
    let past = if past && body.height >= 18 { body.height / 4 } else { 0 };
    let rows = if full { ((body.height - past) / 2).min(10) } else { 0 };
    let parts = [Constraint::Min(0), Constraint::Length(rows), Constraint::Length(past)];
    let [table, detail, past] = Layout::vertical(parts).areas(body);
    (table, detail, past)
}

/// The cache screen's parts: tiers, subtables, drops.
pub fn caches(body: Rect) -> (Rect, Rect, Rect) {
    let [above, below] = Layout::vertical([Constraint::Length(9), Constraint::Min(0)]).areas(body);
    let [subtables, drops] =
        Layout::horizontal([Constraint::Percentage(62), Constraint::Min(0)]).areas(below);
    (above, subtables, drops)
}

/// The packet screen's parts.
pub fn packet(body: Rect) -> PacketParts {
    let [way, right] = Layout::horizontal([Constraint::Percentage(44), Constraint::Min(0)]).areas(body);
    let bytes = if body.height >= 30 { 12 } else { 6 };
    let [offloads, layers, bytes] =
        Layout::vertical([Constraint::Length(4), Constraint::Min(0), Constraint::Length(bytes)]).areas(right);
    PacketParts { way, offloads, layers, bytes }
}

/// The area inside a pane's border.
pub fn inside(pane: Rect) -> Rect {
    Rect {
        x: pane.x.saturating_add(1).min(pane.right()),
        y: pane.y.saturating_add(1).min(pane.bottom()),
        width: pane.width.saturating_sub(2),
        height: pane.height.saturating_sub(2),
    }
}

/// The list of the present screen that the arrow keys move in: its rows, without border and heading.
pub fn list(app: &App) -> Rect {
    let body = regions(app.size).body;
    let below_heading = |pane: Rect| {
        let inside = inside(pane);
        Rect { y: inside.y.saturating_add(1), height: inside.height.saturating_sub(1), ..inside }
    };
    match app.screen {
        Screen::Overview => {
            let ports = app.shown_switch().map_or(0, |switch| switch.ports.len());
            inside(overview(body, ports).timeline)
        }
        Screen::Flows => below_heading(flows(body, app.flows.full, app.has_past_flows()).0),
        Screen::Timeline | Screen::Caches | Screen::Output => inside(body),
        Screen::Packet => inside(packet(body).way),
    }
}

/// The first of `count` rows to show in `height` so that `selected` is in view and things do not jump: pages at a time
/// would, so the selection is kept in the middle where there is enough on both sides.
pub fn first_row(selected: usize, count: usize, height: u16) -> usize {
    let height = usize::from(height);
    if count <= height { 0 } else { selected.saturating_sub(height / 2).min(count - height) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_is_always_in_view() {
        for height in 1..8_u16 {
            for count in 1..20 {
                for selected in 0..count {
                    let first = first_row(selected, count, height);
                    assert!(first <= selected && selected < first + usize::from(height));
                    assert!(count < usize::from(height) || first + usize::from(height) <= count);
                }
            }
        }
    }

    #[test]
    fn parts_lie_within_the_terminal_whatever_its_size() {
        for width in [0, 1, 2, 5, 20, 79, 80, 120, 300] {
            for height in [0, 1, 2, 3, 5, 10, 24, 40, 100] {
                let all = Rect::new(0, 0, width, height);
                let body = regions((width, height)).body;
                let over = overview(body, 4);
                let packet = packet(body);
                let (a, b, c) = caches(body);
                for part in [
                    body,
                    over.ports,
                    over.caches,
                    over.flows,
                    over.timeline,
                    over.packet,
                    packet.way,
                    packet.layers,
                    packet.bytes,
                    packet.offloads,
                    a,
                    b,
                    c,
                    inside(body),
                ] {
                    assert!(part.is_empty() || all.union(part) == all, "{part} in {all}");
                }
            }
        }
    }
}
