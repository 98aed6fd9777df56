//! Cache tiers with their hits as bars, the classifier's subtables, and drops by reason.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use datapath::stats::PassCounters;

use super::super::app::App;
use super::super::layout;
use super::super::model::Switch;
use super::super::text;
use super::{fit, pane as bordered};

/// Tiers in the order in which they are asked, with their counters.
fn tiers(passes: &PassCounters) -> [(&'static str, u64); 6] {
    [
        ("simple", passes.simple),
        ("EMC", passes.emc),
        ("SMC", passes.smc),
        ("dpcls", passes.megaflow),
        ("upcall", passes.upcall),
        ("lost", passes.lost),
    ]
}

/// Draws the pane: one bar for each tier, then flows and drops in one line each.
pub fn pane(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let inside = bordered(app, frame, area, "Cache tiers");
    let Some(switch) = app.shown_switch() else { return };
    let mut lines = bars(app, switch, inside.width);
    let dropped: u64 = switch.drops.iter().map(|(_, count)| count).sum();
    lines.push(Line::from(format!("flows {}  subtables {}", switch.flows.len(), switch.subtables.len())));
    let names: Vec<String> =
        switch.drops.iter().map(|(reason, count)| format!("{} {count}", reason.name())).collect();
    let drops = if dropped == 0 { "drops 0".to_owned() } else { format!("drops: {}", names.join(", ")) };
    lines.push(Line::from(fit(&drops, usize::from(inside.width))));
    lines.truncate(usize::from(inside.height));
    frame.render_widget(ratatui::text::Text::from(lines), inside);
}

fn bars(app: &App, switch: &Switch, width: u16) -> Vec<Line<'static>> {
    let passes = switch.lookups.passes();
    // Name, bar, count, share.
    let room = usize::from(width).saturating_sub(7 + 8 + 5);
    tiers(&switch.lookups)
        .into_iter()
        .map(|(name, count)| {
            let share = if passes == 0 { 0.0 } else { count as f64 / passes as f64 };
            let bar = bar(share, room);
            Line::from(vec![
                Span::styled(format!("{name:<7}"), app.theme.title()),
                Span::styled(format!("{bar:<room$}"), app.theme.bar()),
                Span::raw(format!("{:>8}{:>4.0}%", text::count(count), share * 100.0)),
            ])
        })
        .collect()
}

/// A bar for `share` of `width` columns, to an eighth of a column; anything above nothing shows.
fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 8] =
        [' ', '\u{258f}', '\u{258e}', '\u{258d}', '\u{258c}', '\u{258b}', '\u{258a}', '\u{2589}'];
    let eighths = (share * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    let mut bar = "\u{2588}".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(PARTS[eighths % 8]);
    }
    bar
}

/// Draws the screen.
pub fn screen(app: &App, frame: &mut Frame<'_>, body: Rect) {
    let (above, left, right) = layout::caches(body);
    let inside = bordered(app, frame, above, "Cache tiers, in the order in which they are asked");
    let Some(switch) = app.shown_switch() else { return };
    let mut lines = bars(app, switch, inside.width);
    lines.push(Line::from(format!(
        "{} passes: first lookups and recirculations, each decided by one tier",
        text::count(switch.lookups.passes())
    )));
    frame.render_widget(ratatui::text::Text::from(lines), inside);

    let title = format!("Classifier: flows {}, subtables {}", switch.flows.len(), switch.subtables.len());
    let inside = bordered(app, frame, left, &title);
    let lines = switch.subtables.iter().map(|subtable| {
        Line::from(fit(
            &format!("{:>6} {:>8} {}", subtable.flows, text::count(subtable.hits), subtable.mask),
            usize::from(inside.width),
        ))
    });
    let heading = Line::styled(format!("{:>6} {:>8} mask", "flows", "hits"), app.theme.title());
    let room = usize::from(inside.height.saturating_sub(1));
    let lines = lines.skip(usize::from(app.scroll)).take(room);
    let lines: Vec<Line<'_>> = std::iter::once(heading).chain(lines).collect();
    frame.render_widget(ratatui::text::Text::from(lines), inside);

    let inside = bordered(app, frame, right, "Drops by reason");
    let mut lines: Vec<Line<'_>> = switch
        .drops
        .iter()
        .map(|(reason, count)| Line::from(format!("{:<14}{:>10}", reason.name(), text::count(*count))))
        .collect();
    if lines.is_empty() {
        lines.push(Line::styled("none", app.theme.dim()));
    }
    frame.render_widget(ratatui::text::Text::from(lines), inside);
}

/// Rows that the screen could scroll through.
pub fn rows(app: &App) -> usize {
    app.shown_switch().map_or(0, |switch| switch.subtables.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_eighths_and_never_nothing_for_something() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1e-9, 10), "\u{258f}");
        assert_eq!(bar(0.5, 10), "\u{2588}".repeat(5));
        assert_eq!(bar(1.0, 10), "\u{2588}".repeat(10));
    }
}
