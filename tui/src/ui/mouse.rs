//! The mouse: what a click asks for.

use ratatui::layout::{Position, Rect};

use super::app::{App, Mode};
use super::command::Command;
use super::{layout, view};

/// What a click of the left button at this column and row asks for.
pub fn click(app: &App, column: u16, row: u16) -> Option<Command> {
    let at = Position::new(column, row);
    match app.mode {
        Mode::Help { .. } => return Some(Command::Cancel),
        Mode::Breakpoints { .. } => {
            let list = layout::inside(view::breakpoints_area(app.size));
            return if list.contains(at) {
                Some(Command::ClickRow(usize::from(row - list.y)))
            } else {
                Some(Command::Cancel)
            };
        }
        Mode::Filter(_) | Mode::Prompt(_) => return None,
        Mode::Normal => {}
    }
    let regions = layout::regions(app.size);
    if regions.header.contains(at) {
        return Some(Command::RunPause);
    }
    if regions.tabs.contains(at) {
        let tabs = view::tab_columns(app);
        return tabs
            .into_iter()
            .find(|(_, columns)| columns.contains(&column))
            .map(|(screen, _)| Command::Show(screen));
    }
    let list: Rect = layout::list(app);
    list.contains(at).then(|| Command::ClickRow(usize::from(row - list.y)))
}
