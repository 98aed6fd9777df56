//! What each command changes. No input, no output, no clock: the same commands always lead to the same screen.

use tui_input::{Input, InputRequest};

use datapath::trace::FlowId;

use super::app::{Answer, App, FlowOrder, Mode};
use super::command::{Breakpoint, Command, Screen};
use super::filter::Filter;
use super::layout;
use super::model::{Cursor, SwitchIndex};
use super::walk::{Goal, Progress};
use super::{text, view};

/// Carries out one command.
pub fn update(app: &mut App, command: Command) {
    if !matches!(command, Command::Tick { .. } | Command::Resize(..) | Command::Edit(_)) {
        app.message = None;
    }
    match command {
        Command::Tick { elapsed, budget } => {
            let progress = app.walk.tick(elapsed, budget);
            tell(app, progress);
        }
        Command::Resize(columns, rows) => app.size = (columns, rows),
        Command::RunPause => {
            app.selected = None;
            app.walk.run_or_pause();
        }
        Command::Forward => moved(app, |app| app.walk.forward(), "the end: nothing is left to happen"),
        Command::Back => moved(app, |app| app.walk.back(), "the start: nothing has happened before"),
        Command::ForwardPacket => search(app, Goal::Packet, true),
        Command::BackPacket => search(app, Goal::Packet, false),
        Command::ForwardFlow => search_flow(app, true),
        Command::BackFlow => search_flow(app, false),
        Command::Start => {
            app.selected = None;
            app.walk.go_to_start();
        }
        Command::End => {
            app.selected = None;
            app.walk.go_to_end();
        }
        Command::Faster | Command::Slower => {
            app.walk.change_pace(command == Command::Faster);
            app.note(format!("pace: {}", app.walk.pace().name()));
        }
        Command::Freeze => app.freeze(!app.frozen),
        Command::Cancel => cancel(app),
        Command::Quit => app.quit = true,
        Command::Show(_)
        | Command::NextScreen
        | Command::NextSwitch
        | Command::Up
        | Command::Down
        | Command::PageUp
        | Command::PageDown
        | Command::ClickRow(_)
        | Command::Enter
        | Command::Sort
        | Command::SortReverse
        | Command::Breakpoints
        | Command::ToggleBreakpoint(_)
        | Command::Filter
        | Command::Prompt
        | Command::Edit(_)
        | Command::HistoryBack
        | Command::HistoryForward
        | Command::Submit
        | Command::Help => look(app, command),
    }
    app.refresh();
}

/// Carries out a command that is about what is shown, selected or typed.
fn look(app: &mut App, command: Command) {
    match command {
        Command::Show(screen) => show(app, screen),
        Command::NextScreen => {
            let now = Screen::ALL.iter().position(|screen| *screen == app.screen).unwrap_or_default();
            show(app, Screen::ALL[(now + 1) % Screen::ALL.len()]);
        }
        Command::NextSwitch => {
            let count = app.shown.snapshot.switches.len().max(1);
            app.switch = SwitchIndex((app.switch.0 + 1) % count);
            app.flows.selected = 0;
            app.arrange_flows();
        }
        Command::Up => select(app, -1),
        Command::Down => select(app, 1),
        Command::PageUp => select(app, -page(app)),
        Command::PageDown => select(app, page(app)),
        Command::ClickRow(row) => click_row(app, row),
        Command::Enter => enter(app),
        Command::Sort => {
            let now = FlowOrder::ALL.iter().position(|order| *order == app.flows.order).unwrap_or_default();
            app.flows.order = FlowOrder::ALL[(now + 1) % FlowOrder::ALL.len()];
            app.arrange_flows();
        }
        Command::SortReverse => {
            app.flows.reverse = !app.flows.reverse;
            app.arrange_flows();
        }
        Command::Breakpoints => app.mode = Mode::Breakpoints { selected: 0 },
        Command::ToggleBreakpoint(breakpoint) => toggle(app, breakpoint),
        Command::Filter => {
            let text = app.walk.filter().map_or("", Filter::text);
            app.mode = Mode::Filter(Input::new(text.to_owned()));
        }
        Command::Prompt => {
            app.line = app.lines.len();
            app.mode = Mode::Prompt(Input::default());
        }
        Command::Edit(request) => edit(app, request),
        Command::HistoryBack => recall(app, false),
        Command::HistoryForward => recall(app, true),
        Command::Submit => submit(app),
        Command::Help => app.mode = Mode::Help { scroll: 0 },
        Command::Tick { .. }
        | Command::Resize(..)
        | Command::RunPause
        | Command::Forward
        | Command::Back
        | Command::ForwardPacket
        | Command::BackPacket
        | Command::ForwardFlow
        | Command::BackFlow
        | Command::Start
        | Command::End
        | Command::Faster
        | Command::Slower
        | Command::Freeze
        | Command::Cancel
        | Command::Quit => {}
    }
}

/// Whether a command would do anything now; the footer greys out those that would not.
pub fn is_available(app: &App, command: Command) -> bool {
    match command {
        Command::Back | Command::BackPacket | Command::Start => app.walk.cursor().step > 0,
        Command::ForwardFlow | Command::BackFlow => flow_of(app).is_some(),
        Command::Forward | Command::ForwardPacket | Command::RunPause | Command::End => {
            app.walk.job().is_some()
                || !app.walk.engine().at_end()
                || app.walk.trail().back().is_some_and(|last| last.at > app.walk.cursor())
        }
        Command::Enter => app.selected.is_some() || app.screen == Screen::Flows,
        Command::Sort | Command::SortReverse => app.screen == Screen::Flows,
        Command::NextSwitch => app.shown.snapshot.switches.len() > 1,
        Command::Tick { .. }
        | Command::Resize(..)
        | Command::Faster
        | Command::Slower
        | Command::Freeze
        | Command::Show(_)
        | Command::NextScreen
        | Command::Up
        | Command::Down
        | Command::PageUp
        | Command::PageDown
        | Command::ClickRow(_)
        | Command::Breakpoints
        | Command::ToggleBreakpoint(_)
        | Command::Filter
        | Command::Prompt
        | Command::Edit(_)
        | Command::HistoryBack
        | Command::HistoryForward
        | Command::Submit
        | Command::Help
        | Command::Cancel
        | Command::Quit => true,
    }
}

fn tell(app: &mut App, progress: Progress) {
    match progress {
        Progress::Idle | Progress::Going => {}
        Progress::Done => app.message = None,
        Progress::Stopped(breakpoint) => app.note(format!("stopped: {}", breakpoint.name())),
        Progress::End => app.note("the end: nothing is left to happen"),
        Progress::NotFound(goal) => app.note(format!("no other {} that way", goal.name())),
    }
}

fn moved(app: &mut App, go: impl FnOnce(&mut App) -> bool, otherwise: &str) {
    app.selected = None;
    if !go(app) {
        app.note(otherwise);
    }
}

fn search(app: &mut App, goal: Goal, ahead: bool) {
    app.selected = None;
    app.walk.search(goal, ahead);
}

fn search_flow(app: &mut App, ahead: bool) {
    match flow_of(app) {
        Some((switch, flow)) => search(app, Goal::Flow(switch, flow), ahead),
        None => app.error("no flow here: go to an event of a flow, or select one in the flow table"),
    }
}

/// The flow that is meant by "this flow": the selected one of the flow table, or that of the event at the cursor, or else
/// the last one that its packet had to do with.
fn flow_of(app: &App) -> Option<(SwitchIndex, FlowId)> {
    if app.screen == Screen::Flows {
        let row = *app.flows.rows.get(app.flows.selected)?;
        return Some((app.switch, app.shown_switch()?.flows.get(row)?.id));
    }
    let current = app.walk.current()?;
    let switch = current.record.switch()?;
    if let Some(flow) = current.record.flow() {
        return Some((switch, flow));
    }
    let journey = super::journey::Journey::of(app.walk.trail(), current.at)?;
    let here = journey.entries.iter().rev().filter(|entry| entry.at <= current.at);
    here.filter_map(|entry| entry.record.flow()).next().map(|flow| (switch, flow))
}

fn show(app: &mut App, screen: Screen) {
    if app.screen != screen {
        app.screen = screen;
        app.scroll = 0;
        app.selected = None;
    }
}

fn page(app: &App) -> isize {
    isize::try_from(layout::list(app).height.max(2) - 1).unwrap_or(1)
}

fn add(value: usize, by: isize, count: usize) -> usize {
    value.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// Moves the selection, or scrolls where there is none.
fn select(app: &mut App, by: isize) {
    match &mut app.mode {
        Mode::Help { scroll } => {
            let rows = view::help_rows();
            *scroll = u16::try_from(add(usize::from(*scroll), by, rows)).unwrap_or(0);
            return;
        }
        Mode::Breakpoints { selected } => {
            *selected = add(*selected, by, Breakpoint::ALL.len());
            return;
        }
        Mode::Filter(_) | Mode::Prompt(_) => return,
        Mode::Normal => {}
    }
    match app.screen {
        Screen::Flows => app.flows.selected = add(app.flows.selected, by, app.flows.rows.len()),
        Screen::Overview | Screen::Timeline => select_event(app, by),
        Screen::Packet => select_in_journey(app, by),
        Screen::Caches | Screen::Output => {
            let rows =
                if app.screen == Screen::Output { view::output_rows(app) } else { view::cache_rows(app) };
            let rows = rows.saturating_sub(usize::from(layout::list(app).height)) + 1;
            app.scroll = u16::try_from(add(usize::from(app.scroll), by, rows)).unwrap_or(0);
        }
    }
}

fn select_event(app: &mut App, by: isize) {
    let rows = view::timeline_rows(app);
    let focus = app.focus();
    let now = rows.partition_point(|at| *at < focus);
    if by < 0 && now < by.unsigned_abs() && !app.frozen && app.walk.see_before() {
        // There was more before the trail; try again with it.
        return select_event(app, by);
    }
    if !rows.is_empty() {
        choose(app, rows[add(now, by, rows.len())]);
    }
}

fn select_in_journey(app: &mut App, by: isize) {
    let Some(journey) = app.journey() else { return };
    let now = journey.index_of(app.focus());
    let at = journey.entries.get(add(now, by, journey.entries.len())).map(|entry| entry.at);
    if let Some(at) = at {
        choose(app, at);
    }
}

fn choose(app: &mut App, at: Cursor) {
    app.selected = Some(at).filter(|at| *at != app.shown.cursor);
}

fn click_row(app: &mut App, row: usize) {
    if let Mode::Breakpoints { selected } = &mut app.mode {
        *selected = row.min(Breakpoint::ALL.len() - 1);
        return;
    }
    let height = layout::list(app).height;
    match app.screen {
        Screen::Flows => {
            let first = layout::first_row(app.flows.selected, app.flows.rows.len(), height);
            app.flows.selected = add(first + row, 0, app.flows.rows.len());
        }
        Screen::Overview | Screen::Timeline => {
            let rows = view::timeline_rows(app);
            let now = rows.partition_point(|at| *at < app.focus());
            let first = layout::first_row(now, rows.len(), height);
            if let Some(at) = rows.get(first + row) {
                choose(app, *at);
            }
        }
        Screen::Packet => {
            let Some(journey) = app.journey() else { return };
            let first = layout::first_row(journey.index_of(app.focus()), journey.entries.len(), height);
            let at = journey.entries.get(first + row).map(|entry| entry.at);
            if let Some(at) = at {
                choose(app, at);
            }
        }
        Screen::Caches | Screen::Output => {}
    }
}

fn enter(app: &mut App) {
    if let Mode::Breakpoints { selected } = app.mode {
        if let Some(breakpoint) = Breakpoint::ALL.get(selected) {
            toggle(app, *breakpoint);
        }
        return;
    }
    match app.screen {
        Screen::Flows => app.flows.full = !app.flows.full,
        Screen::Overview | Screen::Timeline | Screen::Packet => {
            if let Some(at) = app.selected.take() {
                if app.frozen {
                    app.freeze(false);
                }
                app.walk.go(at);
            }
        }
        Screen::Caches | Screen::Output => {}
    }
}

fn toggle(app: &mut App, breakpoint: Breakpoint) {
    let set = &mut app.walk.breakpoints;
    match set.iter().position(|one| *one == breakpoint) {
        Some(index) => {
            set.remove(index);
        }
        None => set.push(breakpoint),
    }
    set.sort_unstable();
}

fn edit(app: &mut App, request: InputRequest) {
    match &mut app.mode {
        Mode::Filter(input) | Mode::Prompt(input) => {
            input.handle(request);
        }
        Mode::Normal | Mode::Help { .. } | Mode::Breakpoints { .. } => {}
    }
}

/// Puts an earlier or later line into the prompt.
fn recall(app: &mut App, forward: bool) {
    let Mode::Prompt(input) = &mut app.mode else { return };
    app.line = if forward { (app.line + 1).min(app.lines.len()) } else { app.line.saturating_sub(1) };
    *input = Input::new(app.lines.get(app.line).cloned().unwrap_or_default());
}

fn submit(app: &mut App) {
    match std::mem::replace(&mut app.mode, Mode::Normal) {
        Mode::Filter(input) => set_filter(app, input),
        Mode::Prompt(input) => run_line(app, input.value().trim()),
        Mode::Normal | Mode::Help { .. } | Mode::Breakpoints { .. } => {}
    }
}

fn set_filter(app: &mut App, input: Input) {
    if input.value().trim().is_empty() {
        app.walk.set_filter(None);
        return;
    }
    let switch = app.switch;
    let parsed = Filter::parse(input.value(), |text| app.walk.engine().parse_match(switch, text));
    match parsed {
        Ok(filter) => app.walk.set_filter(Some(filter)),
        Err(error) => {
            app.error(error);
            // The line stays open, so that it can be corrected.
            app.mode = Mode::Filter(input);
        }
    }
}

fn run_line(app: &mut App, line: &str) {
    if line.is_empty() {
        return;
    }
    if app.lines.last().is_none_or(|last| last != line) {
        app.lines.push(line.to_owned());
    }
    if matches!(line, "q" | "quit" | "exit") {
        app.quit = true;
        return;
    }
    app.selected = None;
    let answer = app.walk.command(line);
    let done = answer.is_ok();
    let text = match answer {
        Ok(text) | Err(text) => text,
    };
    let first = text.lines().next().unwrap_or_default();
    match (done, text.lines().count()) {
        (false, _) => app.error(first),
        (true, 0) => app.note(format!("done at {}", text::time(app.walk.engine().now()))),
        (true, 1) => app.note(first),
        (true, _) => show(app, Screen::Output),
    }
    app.output.push(Answer { command: line.to_owned(), text, done });
    let rows = view::output_rows(app);
    app.scroll = if app.screen == Screen::Output {
        u16::try_from(rows.saturating_sub(usize::from(layout::list(app).height))).unwrap_or(u16::MAX)
    } else {
        app.scroll
    };
}

/// Closes what is open; else stops a search; else drops the selection; else removes the filter.
fn cancel(app: &mut App) {
    if !matches!(app.mode, Mode::Normal) {
        app.mode = Mode::Normal;
    } else if app.walk.job().is_some_and(|_| !app.walk.is_running()) {
        app.walk.cancel();
        app.note("stopped");
    } else if app.selected.take().is_none() {
        app.walk.set_filter(None);
    }
}
