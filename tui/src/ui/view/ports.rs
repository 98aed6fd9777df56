//! Ports of the shown switch, their counters and rates.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use super::super::app::App;
use super::super::text;
use super::{fit, pane as bordered};

/// Columns from which on bits a second are shown too.
const WIDE: u16 = 60;

/// Draws the pane.
pub fn pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let title = app.shown_switch().map_or("Ports".to_owned(), |switch| format!("Ports of {}", switch.name));
    let inside = bordered(app, frame, area, &title);
    let Some(switch) = app.shown_switch() else {
        frame.render_widget(Line::from("no switch in this world"), inside);
        return;
    };
    let wide = inside.width >= WIDE;
    let mut heading = vec!["port", "of", "rx", "tx", "rx/s", "tx/s"];
    let mut widths = vec![
        Constraint::Fill(1),
        Constraint::Length(5),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    if wide {
        heading.extend(["rx bit/s", "tx bit/s"]);
        widths.extend([Constraint::Length(8), Constraint::Length(8)]);
    }
    let several_bridges = switch.ports.windows(2).any(|pair| pair[0].bridge != pair[1].bridge);
    let rows = switch.ports.iter().enumerate().map(|(index, port)| {
        let rate = app.shown.rates.of(app.switch, index);
        let mut name =
            if several_bridges { format!("{}:{}", port.bridge, port.name) } else { port.name.clone() };
        if !port.up {
            name.push_str(" DOWN");
        }
        let of_port = if port.of_port == 0xfffe { "LOCAL".to_owned() } else { port.of_port.to_string() };
        let mut cells = vec![
            Cell::from(fit(&name, usize::from(inside.width))),
            right(of_port),
            right(text::count(port.rx_packets)),
            right(text::count(port.tx_packets)),
            right(text::short(rate.rx_pps)),
            right(text::short(rate.tx_pps)),
        ];
        if wide {
            cells.push(right(text::short(rate.rx_bps)));
            cells.push(right(text::short(rate.tx_bps)));
        }
        Row::new(cells).style(if port.up { ratatui::style::Style::new() } else { app.theme.dim() })
    });
    let heading = heading.into_iter().enumerate().map(|(index, word)| {
        let span = Span::styled(word, app.theme.title());
        if index == 0 { Cell::from(span) } else { Cell::from(Line::from(span).right_aligned()) }
    });
    frame.render_widget(Table::new(rows, widths).header(Row::new(heading)), inside);
    let hidden = (switch.ports.len() + 1).saturating_sub(usize::from(inside.height));
    if hidden > 0 && area.height > 0 {
        let note = Rect { y: area.bottom() - 1, height: 1, ..area };
        frame.render_widget(Line::from(format!(" {hidden} more ")).right_aligned(), note);
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}
