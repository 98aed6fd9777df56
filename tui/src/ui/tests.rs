//! Every command, and every screen, on the made-up world.

use std::time::Duration;

use crossterm::event::{
    Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use datapath::trace::{Event, FlowId};

use super::app::{App, FlowOrder, Mode, Severity};
use super::command::{Breakpoint, Command, Screen};
use super::fixture::{FakeEngine, STEPS};
use super::keys::{self, BINDINGS};
use super::model::{Cursor, SwitchIndex};
use super::update::{is_available, update};
use super::view::view;
use super::walk::Pace;

fn app() -> App {
    App::new(Box::new(FakeEngine::new(STEPS)), (80, 24))
}

fn screen_of(app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(app.size.0, app.size.1)).unwrap();
    terminal.draw(|frame| view(app, frame)).unwrap();
    terminal.backend().to_string()
}

fn tick(app: &mut App, ms: u64, budget: u64) {
    update(app, Command::Tick { elapsed: Duration::from_millis(ms), budget });
}

/// Ticks until nothing is under way.
fn settle(app: &mut App) {
    for _ in 0..1000 {
        if app.walk.job().is_none() {
            return;
        }
        tick(app, 1000, 10);
    }
    panic!("still under way");
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) {
    let event = Input::Key(KeyEvent::new(code, modifiers));
    if let Some(command) = keys::command(app, &event) {
        update(app, command);
    }
}

fn keys_of(app: &mut App, text: &str) {
    for c in text.chars() {
        match c {
            '\n' => press(app, KeyCode::Enter, KeyModifiers::NONE),
            c => press(app, KeyCode::Char(c), KeyModifiers::NONE),
        }
    }
}

fn to(app: &mut App, step: u64, record: usize) {
    while app.walk.cursor() < (Cursor { step, record }) {
        update(app, Command::Forward);
    }
}

fn at(app: &App) -> (u64, usize) {
    (app.walk.cursor().step, app.walk.cursor().record)
}

fn note(app: &App) -> &str {
    app.message.as_ref().map_or("", |(_, text)| text)
}

#[test]
fn forward_goes_event_by_event_to_the_end() {
    let mut app = app();
    update(&mut app, Command::Forward);
    assert_eq!(at(&app), (1, 0));
    for record in 0..6 {
        update(&mut app, Command::Forward);
        assert_eq!(at(&app), (2, record));
    }
    for _ in 0..200 {
        update(&mut app, Command::Forward);
    }
    assert_eq!(app.walk.cursor().step, STEPS);
    assert!(note(&app).contains("the end"));
}

#[test]
fn back_visits_what_forward_visited() {
    let mut app = app();
    let mut visited = vec![at(&app)];
    for _ in 0..60 {
        update(&mut app, Command::Forward);
        visited.push(at(&app));
    }
    for expected in visited.iter().rev().skip(1) {
        update(&mut app, Command::Back);
        assert_eq!(at(&app), *expected);
        assert_eq!(app.shown.snapshot.now.as_millis(), expected.0, "the world is where the cursor is");
    }
    update(&mut app, Command::Back);
    assert_eq!(at(&app), (0, 0));
    assert!(note(&app).contains("the start"));
}

#[test]
fn the_world_is_the_same_after_going_back_and_forward_again() {
    let mut app = app();
    to(&mut app, 12, 3);
    let (before, screen) = (app.shown.snapshot.clone(), screen_of(&app));
    for _ in 0..17 {
        update(&mut app, Command::Back);
    }
    assert_ne!(app.shown.snapshot, before);
    for _ in 0..17 {
        update(&mut app, Command::Forward);
    }
    assert_eq!(app.shown.snapshot, before);
    assert_eq!(screen_of(&app), screen);
}

#[test]
fn packets_are_walked_by_reception() {
    let mut app = app();
    for step in [2, 4, 6] {
        update(&mut app, Command::ForwardPacket);
        settle(&mut app);
        assert_eq!(at(&app), (step, 0));
    }
    to(&mut app, 6, 3);
    update(&mut app, Command::BackPacket);
    settle(&mut app);
    assert_eq!(at(&app), (6, 0), "its own reception first");
    update(&mut app, Command::BackPacket);
    settle(&mut app);
    assert_eq!(at(&app), (4, 0));
}

#[test]
fn flows_are_walked_by_their_events() {
    let mut app = app();
    to(&mut app, 6, 3);
    assert!(matches!(
        app.walk.current().unwrap().record.event(),
        Some(Event::Install { flow: FlowId(1), .. })
    ));
    update(&mut app, Command::ForwardFlow);
    settle(&mut app);
    assert_eq!(at(&app), (6, 4), "its action");
    update(&mut app, Command::ForwardFlow);
    settle(&mut app);
    assert_eq!(at(&app), (12, 1), "the next hit");
    update(&mut app, Command::BackFlow);
    settle(&mut app);
    update(&mut app, Command::BackFlow);
    settle(&mut app);
    assert_eq!(at(&app), (6, 3));
    update(&mut app, Command::BackFlow);
    settle(&mut app);
    assert_eq!(at(&app), (6, 3), "there is none before: stays");
    assert!(note(&app).contains("no other event of this flow"));
}

#[test]
fn the_flow_of_an_event_that_names_none_is_its_packets_last_one() {
    let mut app = app();
    to(&mut app, 4, 2);
    assert!(app.walk.current().unwrap().record.flow().is_none());
    update(&mut app, Command::BackFlow);
    settle(&mut app);
    assert_eq!(at(&app), (4, 1));
    update(&mut app, Command::Start);
    update(&mut app, Command::ForwardFlow);
    assert_eq!(app.message.as_ref().unwrap().0, Severity::Error);
}

#[test]
fn start_and_end() {
    let mut app = app();
    to(&mut app, 9, 0);
    update(&mut app, Command::Start);
    assert_eq!(at(&app), (0, 0));
    update(&mut app, Command::End);
    settle(&mut app);
    assert_eq!(at(&app), (9, 0), "the furthest point first");
    update(&mut app, Command::End);
    settle(&mut app);
    assert_eq!(app.walk.cursor().step, STEPS);
    assert!(note(&app).contains("the end"));
    assert!(app.walk.current().is_some(), "there is something to see there");
}

#[test]
fn running_follows_the_pace() {
    let mut app = app();
    assert_eq!(app.walk.pace(), Pace::Events(10));
    update(&mut app, Command::RunPause);
    assert!(app.walk.is_running());
    tick(&mut app, 50, 100);
    assert_eq!(at(&app), (0, 0), "half an event");
    tick(&mut app, 50, 100);
    assert_eq!(at(&app), (1, 0));
    tick(&mut app, 300, 100);
    assert_eq!(at(&app), (2, 2));
    update(&mut app, Command::RunPause);
    assert!(!app.walk.is_running());
    tick(&mut app, 1000, 100);
    assert_eq!(at(&app), (2, 2), "paused");
}

#[test]
fn a_real_time_run_keeps_virtual_time_with_the_wall_clock() {
    let mut app = app();
    for _ in 0..3 {
        update(&mut app, Command::Faster);
    }
    assert_eq!(app.walk.pace(), Pace::RealTime);
    update(&mut app, Command::RunPause);
    tick(&mut app, 7, 1000);
    assert_eq!(app.walk.cursor().step, 7);
    tick(&mut app, 3, 1000);
    assert_eq!(app.walk.cursor().step, 10);
}

#[test]
fn the_fastest_run_takes_what_the_budget_allows() {
    let mut app = App::new(Box::new(FakeEngine::new(10_000)), (80, 24));
    for _ in 0..10 {
        update(&mut app, Command::Faster);
    }
    assert_eq!(app.walk.pace(), Pace::Top);
    update(&mut app, Command::RunPause);
    tick(&mut app, 1, 1000);
    assert_eq!(app.walk.cursor().step, 1000);
    assert!(app.walk.trail().len() > 64, "the last steps are shown");
    tick(&mut app, 1, 9500);
    assert_eq!(app.walk.cursor().step, 10_000);
    assert!(app.walk.job().is_none());
    assert!(app.walk.current().is_some());
}

#[test]
fn paces_end_at_both_ends() {
    let mut app = app();
    for _ in 0..10 {
        update(&mut app, Command::Slower);
    }
    assert_eq!(app.walk.pace(), Pace::Events(1));
    for _ in 0..10 {
        update(&mut app, Command::Faster);
    }
    assert_eq!(app.walk.pace(), Pace::Top);
}

#[test]
fn breakpoints_stop_a_run_at_the_event() {
    for (breakpoint, place) in [
        (Breakpoint::Drop, (8, 2)),
        (Breakpoint::Recirc, (6, 5)),
        (Breakpoint::Offload, (2, 4)),
        (Breakpoint::Install, (2, 3)),
    ] {
        for faster in [0, 2, 3, 4] {
            let mut app = app();
            for _ in 0..faster {
                update(&mut app, Command::Faster);
            }
            update(&mut app, Command::ToggleBreakpoint(breakpoint));
            update(&mut app, Command::RunPause);
            settle(&mut app);
            assert_eq!(at(&app), place, "{breakpoint:?} at {:?}", app.walk.pace());
            assert_eq!(note(&app), format!("stopped: {}", breakpoint.name()));
        }
    }
}

#[test]
fn a_run_goes_on_after_a_breakpoint() {
    let mut app = app();
    update(&mut app, Command::ToggleBreakpoint(Breakpoint::Drop));
    for step in [8, 16, 24] {
        update(&mut app, Command::RunPause);
        settle(&mut app);
        assert_eq!(at(&app), (step, 2));
    }
}

#[test]
fn breakpoints_look_only_at_what_the_filter_lets_through() {
    let mut app = app();
    keys_of(&mut app, "/in_port=8\n");
    update(&mut app, Command::ToggleBreakpoint(Breakpoint::Drop));
    update(&mut app, Command::RunPause);
    settle(&mut app);
    assert_eq!(at(&app), (16, 2), "packet 4 was dropped too");
}

#[test]
fn the_list_of_breakpoints() {
    let mut app = app();
    keys_of(&mut app, "bd");
    assert_eq!(app.walk.breakpoints, [Breakpoint::Drop]);
    update(&mut app, Command::Down);
    update(&mut app, Command::Enter);
    assert_eq!(app.walk.breakpoints, [Breakpoint::Drop, Breakpoint::Recirc]);
    keys_of(&mut app, "d");
    assert_eq!(app.walk.breakpoints, [Breakpoint::Recirc]);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(matches!(app.mode, Mode::Normal));
}

#[test]
fn the_filter_line() {
    let mut app = app();
    to(&mut app, 8, 2);
    keys_of(&mut app, "/drop\n");
    assert_eq!(app.walk.filter().unwrap().text(), "drop");
    assert_eq!(super::view::timeline_rows(&app), [Cursor { step: 8, record: 2 }]);
    keys_of(&mut app, "/");
    press(&mut app, KeyCode::Char('u'), KeyModifiers::CONTROL);
    keys_of(&mut app, "nonsense\n");
    assert!(matches!(app.mode, Mode::Filter(_)), "stays open to be corrected");
    assert_eq!(note(&app), "nonsense: unknown field");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(app.walk.filter().unwrap().text(), "drop", "left as it was");
    update(&mut app, Command::Cancel);
    assert!(app.walk.filter().is_none());
}

#[test]
fn the_filter_applies_to_flows_and_packets() {
    let mut app = app();
    to(&mut app, 12, 0);
    assert_eq!(app.flows.rows.len(), 3);
    keys_of(&mut app, "/in_port=1\n");
    assert_eq!(app.flows.rows.len(), 1);
    assert!(super::view::timeline_rows(&app).iter().all(|at| at.step == 2));
    keys_of(&mut app, "/");
    press(&mut app, KeyCode::Char('u'), KeyModifiers::CONTROL);
    keys_of(&mut app, "recirc>0\n");
    assert_eq!(app.flows.rows.len(), 1);
    keys_of(&mut app, "/");
    press(&mut app, KeyCode::Char('u'), KeyModifiers::CONTROL);
    keys_of(&mut app, "\n");
    assert!(app.walk.filter().is_none(), "an empty line removes it");
}

#[test]
fn a_command_becomes_a_step_and_the_future_is_forgotten() {
    let mut app = app();
    to(&mut app, 8, 0);
    for _ in 0..20 {
        update(&mut app, Command::Back);
    }
    let step = app.walk.cursor().step;
    assert!(step < 7);
    keys_of(&mut app, ":ovs-ofctl add-flow br0 actions=drop\n");
    assert_eq!(at(&app), (step + 1, 0));
    assert_eq!(app.walk.engine().frontier(), step + 1);
    assert!(app.walk.trail().iter().all(|entry| entry.at.step <= step + 1));
    update(&mut app, Command::Back);
    update(&mut app, Command::Forward);
    let record = &app.walk.current().unwrap().record;
    assert_eq!(app.walk.engine().describe(record), "ovs: ovs-ofctl add-flow br0 actions=drop");
    assert!(app.output[0].done);
}

#[test]
fn answers_are_shown() {
    let mut app = app();
    keys_of(&mut app, ":ovs-ofctl dump-flows br0\n");
    assert_eq!(app.screen, Screen::Output, "more than a line is shown on its screen");
    keys_of(&mut app, ":frobnicate\n");
    assert_eq!(app.message, Some((Severity::Error, "frobnicate: not a command of Open vSwitch".into())));
    assert!(!app.output[1].done);
    keys_of(&mut app, ":");
    update(&mut app, Command::HistoryBack);
    update(&mut app, Command::HistoryBack);
    update(&mut app, Command::HistoryBack);
    let Mode::Prompt(input) = &app.mode else { panic!() };
    assert_eq!(input.value(), "ovs-ofctl dump-flows br0");
    update(&mut app, Command::HistoryForward);
    let Mode::Prompt(input) = &app.mode else { panic!() };
    assert_eq!(input.value(), "frobnicate");
    update(&mut app, Command::HistoryForward);
    let Mode::Prompt(input) = &app.mode else { panic!() };
    assert_eq!(input.value(), "");
    update(&mut app, Command::Submit);
    assert_eq!(app.output.len(), 2, "an empty line does nothing");
    keys_of(&mut app, ":q\n");
    assert!(app.quit);
}

#[test]
fn freezing_keeps_the_view_while_the_world_goes_on() {
    let mut app = app();
    to(&mut app, 4, 0);
    update(&mut app, Command::RunPause);
    update(&mut app, Command::Freeze);
    let frozen = screen_of(&app);
    tick(&mut app, 1000, 100);
    assert!(app.walk.cursor().step > 4);
    let body = |screen: &str| screen.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&screen_of(&app)), body(&frozen), "all but the header, which tells how far the world is");
    update(&mut app, Command::Freeze);
    assert_eq!(app.cursor(), app.walk.cursor());
    assert_ne!(screen_of(&app), frozen);
}

#[test]
fn screens_and_switches() {
    let mut app = app();
    for screen in Screen::ALL {
        update(&mut app, Command::Show(screen));
        assert_eq!(app.screen, screen);
    }
    update(&mut app, Command::NextScreen);
    assert_eq!(app.screen, Screen::Overview);
    update(&mut app, Command::NextSwitch);
    assert_eq!(app.switch, SwitchIndex(1));
    for screen in Screen::ALL {
        update(&mut app, Command::Show(screen));
        screen_of(&app);
    }
    update(&mut app, Command::NextSwitch);
    assert_eq!(app.switch, SwitchIndex(0));
}

#[test]
fn flows_are_sorted() {
    let mut app = app();
    update(&mut app, Command::End);
    settle(&mut app);
    let ids = |app: &App| -> Vec<u32> {
        app.flows.rows.iter().map(|row| app.shown_switch().unwrap().flows[*row].id.0).collect()
    };
    assert_eq!(ids(&app), [0, 1, 2]);
    let mut seen = Vec::new();
    for _ in 0..FlowOrder::ALL.len() {
        update(&mut app, Command::Sort);
        seen.push((app.flows.order, ids(&app)));
    }
    assert_eq!(seen[0], (FlowOrder::Packets, vec![0, 1, 2]));
    assert_eq!(seen[3], (FlowOrder::Recirc, vec![0, 1, 2]));
    assert_eq!(app.flows.order, FlowOrder::Installed);
    update(&mut app, Command::SortReverse);
    assert_eq!(ids(&app), [2, 1, 0]);
}

#[test]
fn selecting_an_event_and_going_there() {
    let mut app = app();
    update(&mut app, Command::Show(Screen::Timeline));
    to(&mut app, 6, 2);
    update(&mut app, Command::Up);
    update(&mut app, Command::Up);
    update(&mut app, Command::Up);
    assert_eq!(app.selected, Some(Cursor { step: 5, record: 0 }));
    assert_eq!(at(&app), (6, 2), "the world stays");
    update(&mut app, Command::Enter);
    assert_eq!((at(&app), app.selected), ((5, 0), None));
    update(&mut app, Command::PageUp);
    assert!(app.selected.is_some());
    update(&mut app, Command::Cancel);
    assert!(app.selected.is_none());
    update(&mut app, Command::PageDown);
    update(&mut app, Command::Enter);
    assert_eq!(at(&app), (6, 8), "to the end of what is known");
}

#[test]
fn selecting_shows_what_was_before_the_trail() {
    let mut app = App::new(Box::new(FakeEngine::new(10_000)), (80, 24));
    for _ in 0..10 {
        update(&mut app, Command::Faster);
    }
    update(&mut app, Command::RunPause);
    tick(&mut app, 1, 5000);
    update(&mut app, Command::RunPause);
    update(&mut app, Command::Show(Screen::Timeline));
    let first = app.walk.trail()[0].at;
    for _ in 0..40 {
        update(&mut app, Command::PageUp);
    }
    assert!(app.selected.unwrap() < first);
    assert_eq!(app.walk.engine().step(), 5000, "the world stays where it is");
}

#[test]
fn a_long_search_back_is_done_in_slices_and_can_be_stopped() {
    let engine = FakeEngine::new(10_000);
    let taken = std::rc::Rc::clone(&engine.taken);
    let mut app = App::new(Box::new(engine), (80, 24));
    to(&mut app, 6, 4);
    let pace = 10;
    for _ in 0..pace {
        update(&mut app, Command::Faster);
    }
    update(&mut app, Command::RunPause);
    tick(&mut app, 1, 8000);
    update(&mut app, Command::RunPause);
    let here = at(&app);
    update(&mut app, Command::Show(Screen::Flows));
    // Flow 2 is hit in each sixth step only by name; its row is the last one.
    update(&mut app, Command::PageDown);
    keys_of(&mut app, "/recirc=9\n");
    update(&mut app, Command::Show(Screen::Timeline));
    let before = taken.get();
    update(&mut app, Command::BackFlow);
    tick(&mut app, 1, 10);
    assert!(taken.get() - before < 1000, "a slice at a time");
    update(&mut app, Command::Cancel);
    assert!(app.walk.job().is_none());
    assert!(app.walk.cursor().step <= here.0);
}

#[test]
fn searches_that_find_nothing_come_back() {
    let mut app = App::new(Box::new(FakeEngine::new(3000)), (80, 24));
    for _ in 0..10 {
        update(&mut app, Command::Faster);
    }
    update(&mut app, Command::RunPause);
    tick(&mut app, 1, 2999);
    update(&mut app, Command::RunPause);
    let here = app.walk.cursor();
    let snapshot = app.shown.snapshot.clone();
    app.walk.search(super::walk::Goal::Flow(SwitchIndex(0), FlowId(77)), false);
    settle(&mut app);
    assert_eq!(app.walk.cursor(), here);
    app.walk.search(super::walk::Goal::Flow(SwitchIndex(0), FlowId(77)), true);
    settle(&mut app);
    assert_eq!(app.walk.cursor(), here);
    assert_eq!(app.shown.snapshot, snapshot);
}

#[test]
fn help_opens_scrolls_and_closes() {
    let mut app = app();
    keys_of(&mut app, "?");
    assert!(matches!(app.mode, Mode::Help { scroll: 0 }));
    update(&mut app, Command::Down);
    assert!(matches!(app.mode, Mode::Help { scroll: 1 }));
    update(&mut app, Command::PageDown);
    update(&mut app, Command::Up);
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(matches!(app.mode, Mode::Normal));
}

#[test]
fn quitting() {
    for (code, modifiers) in
        [(KeyCode::Char('q'), KeyModifiers::NONE), (KeyCode::Char('c'), KeyModifiers::CONTROL)]
    {
        let mut app = app();
        press(&mut app, code, modifiers);
        assert!(app.quit);
    }
    let mut app = app();
    keys_of(&mut app, "/q");
    assert!(!app.quit, "a letter of the filter");
    press(&mut app, KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(app.quit);
}

#[test]
fn the_mouse_makes_commands() {
    let click = |app: &App, column, row| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        keys::command(app, &Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
    };
    let mut app = app();
    to(&mut app, 6, 2);
    assert_eq!(click(&app, 5, 0), Some(Command::RunPause));
    assert_eq!(click(&app, 3, 1), Some(Command::Show(Screen::Overview)));
    assert_eq!(click(&app, 16, 1), Some(Command::Show(Screen::Flows)));
    assert_eq!(click(&app, 79, 1), None);
    update(&mut app, Command::Show(Screen::Timeline));
    assert_eq!(click(&app, 5, 3), Some(Command::ClickRow(0)));
    assert_eq!(click(&app, 5, 23), None);
    update(&mut app, Command::ClickRow(0));
    assert_eq!(app.selected, Some(Cursor { step: 2, record: 3 }), "the first of eighteen rows");
    update(&mut app, Command::Show(Screen::Flows));
    update(&mut app, Command::ClickRow(1));
    assert_eq!(app.flows.selected, 1.min(app.flows.rows.len() - 1));
    update(&mut app, Command::Show(Screen::Packet));
    update(&mut app, Command::ClickRow(0));
    assert_eq!(app.selected, Some(Cursor { step: 6, record: 0 }));
    update(&mut app, Command::Breakpoints);
    update(&mut app, Command::ClickRow(2));
    assert!(matches!(app.mode, Mode::Breakpoints { selected: 2 }));
    assert_eq!(click(&app, 0, 0), Some(Command::Cancel));
    let wheel =
        MouseEvent { kind: MouseEventKind::ScrollUp, column: 1, row: 1, modifiers: KeyModifiers::NONE };
    assert_eq!(keys::command(&app, &Input::Mouse(wheel)), Some(Command::Up));
    assert_eq!(keys::command(&app, &Input::Resize(10, 20)), Some(Command::Resize(10, 20)));
}

#[test]
fn every_screen_at_every_size() {
    let mut app = app();
    to(&mut app, 12, 4);
    update(&mut app, Command::Show(Screen::Flows));
    update(&mut app, Command::Enter);
    for width in [1, 20, 39, 40, 60, 80, 100, 120, 200] {
        for height in [1, 5, 9, 10, 15, 24, 30, 40, 60] {
            update(&mut app, Command::Resize(width, height));
            for screen in Screen::ALL {
                update(&mut app, Command::Show(screen));
                screen_of(&app);
            }
            for mode in ["?", "b", "/", ":"] {
                keys_of(&mut app, mode);
                screen_of(&app);
                update(&mut app, Command::Cancel);
            }
        }
    }
}

#[test]
fn every_key_is_bound_once_and_says_what_it_does() {
    let mut keys = Vec::new();
    for binding in BINDINGS {
        assert!(!binding.help.is_empty() && !binding.commands.is_empty());
        for (key, _) in binding.commands {
            assert!(!keys.contains(key), "{key:?} twice");
            keys.push(*key);
        }
    }
}

#[test]
fn what_cannot_be_done_is_not_available() {
    let mut app = app();
    assert!(!is_available(&app, Command::Back));
    assert!(!is_available(&app, Command::ForwardFlow));
    assert!(is_available(&app, Command::Forward));
    to(&mut app, 2, 3);
    assert!(is_available(&app, Command::Back));
    assert!(is_available(&app, Command::ForwardFlow));
    update(&mut app, Command::End);
    settle(&mut app);
    assert!(!is_available(&app, Command::Forward));
    assert!(!is_available(&app, Command::RunPause));
}

#[test]
fn without_colours_no_colour_is_drawn() {
    let mut app = app();
    to(&mut app, 12, 5);
    app.theme.colours = false;
    for screen in Screen::ALL {
        update(&mut app, Command::Show(screen));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view(&app, frame)).unwrap();
        let plain =
            terminal.backend().buffer().content().iter().all(|cell| {
                cell.fg == ratatui::style::Color::Reset && cell.bg == ratatui::style::Color::Reset
            });
        assert!(plain, "{screen:?}");
    }
}

#[test]
fn the_readme_shows_the_keys() {
    crate::readme::check("keys", &keys::markdown());
}

/// One snapshot for each screen.
macro_rules! screens {
    ($($name:ident: $screen:expr, $size:expr, $prepare:expr;)*) => {$(
        #[test]
        fn $name() {
            let mut app = app();
            update(&mut app, Command::Resize($size.0, $size.1));
            to(&mut app, 6, 5);
            update(&mut app, Command::Show($screen));
            let prepare: fn(&mut App) = $prepare;
            prepare(&mut app);
            insta::assert_snapshot!(screen_of(&app));
        }
    )*};
}

screens! {
    screen_overview: Screen::Overview, (80, 24), |_| {};
    screen_overview_big: Screen::Overview, (120, 40), |_| {};
    screen_flows: Screen::Flows, (80, 24), |_| {};
    screen_flows_table: Screen::Flows, (80, 24), |app| update(app, Command::Enter);
    screen_past_flows: Screen::Flows, (80, 24), |app| to(app, super::fixture::PAST_FROM, 0);
    screen_caches: Screen::Caches, (80, 24), |_| {};
    screen_timeline: Screen::Timeline, (80, 24), |app| { update(app, Command::Up); update(app, Command::Up); };
    screen_timeline_filtered: Screen::Timeline, (80, 24), |app| keys_of(app, "/offload~good\n");
    screen_packet: Screen::Packet, (80, 24), |_| {};
    screen_packet_offload: Screen::Packet, (80, 24), |app| { update(app, Command::Forward); update(app, Command::Forward); };
    screen_packet_none: Screen::Packet, (80, 24), |app| update(app, Command::Start);
    screen_output: Screen::Output, (80, 24), |app| keys_of(app, ":ovs-ofctl dump-flows br0\n:oops\n");
    screen_help: Screen::Overview, (80, 24), |app| update(app, Command::Help);
    screen_breakpoints: Screen::Overview, (80, 24), |app| keys_of(app, "bd");
    screen_filter: Screen::Timeline, (80, 24), |app| keys_of(app, "/nonsense\n");
    screen_prompt: Screen::Overview, (80, 24), |app| keys_of(app, ":ovs-ofctl del-flows br0");
    screen_start: Screen::Overview, (80, 24), |app| update(app, Command::Start);
}
