//! Commands of Open vSwitch that were entered, and what they answered.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};

use super::super::app::App;
use super::{pane as bordered, wrap};

/// Draws the pane.
pub fn pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let inside = bordered(app, frame, area, "Output");
    if app.output.is_empty() {
        let note = "no command entered yet: : opens the command line";
        frame.render_widget(Line::styled(note, app.theme.dim()), inside);
        return;
    }
    let lines = lines(app, usize::from(inside.width));
    let lines: Vec<Line<'_>> =
        lines.into_iter().skip(usize::from(app.scroll)).take(usize::from(inside.height)).collect();
    frame.render_widget(Text::from(lines), inside);
}

fn lines(app: &App, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for answer in &app.output {
        for line in wrap(&format!("$ {}", answer.command), width) {
            lines.push(Line::styled(line, app.theme.title()));
        }
        let style = if answer.done { ratatui::style::Style::new() } else { app.theme.error() };
        if !answer.text.is_empty() {
            lines.extend(
                wrap(answer.text.trim_end(), width).into_iter().map(|line| Line::styled(line, style)),
            );
        }
    }
    lines
}

/// How many lines there are to scroll through.
pub fn rows(app: &App) -> usize {
    lines(app, usize::from(app.size.0.saturating_sub(2))).len()
}
