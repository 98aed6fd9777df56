//! The user interface on a real world: the demo.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sim::files::MemoryFiles;
use sim::scenario::Scenario;

use super::super::app::App;
use super::super::command::{Breakpoint, Command, Screen};
use super::super::model::Cursor;
use super::super::update::update;
use super::super::view::view;
use super::*;

fn app() -> App {
    let text = include_str!("../../../../topologies/demo.toml");
    let scenario = Arc::new(Scenario::parse("demo.toml", text).unwrap());
    let world = World::new(scenario, Arc::new(MemoryFiles::default()), None, false).unwrap();
    App::new(Box::new(WorldEngine::new(world)), (120, 40))
}

fn settle(app: &mut App) {
    for _ in 0..10_000 {
        if app.walk.job().is_none() {
            return;
        }
        update(app, Command::Tick { elapsed: Duration::from_millis(100), budget: 50 });
    }
    panic!("still under way");
}

fn to_breakpoint(app: &mut App, breakpoint: Breakpoint) {
    update(app, Command::ToggleBreakpoint(breakpoint));
    for _ in 0..8 {
        update(app, Command::Faster);
    }
    update(app, Command::RunPause);
    settle(app);
    assert_eq!(app.message.as_ref().unwrap().1, format!("stopped: {}", breakpoint.name()));
    update(app, Command::ToggleBreakpoint(breakpoint));
}

fn type_line(app: &mut App, open: Command, line: &str) {
    update(app, open);
    update(app, Command::Edit(tui_input::InputRequest::DeleteLine));
    for c in line.chars() {
        update(app, Command::Edit(tui_input::InputRequest::InsertChar(c)));
    }
    update(app, Command::Submit);
}

fn screen(app: &App) -> String {
    let mut terminal = Terminal::new(TestBackend::new(app.size.0, app.size.1)).unwrap();
    terminal.draw(|frame| view(app, frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn n_events_back_and_forward_again_is_the_same_screen() {
    let mut app = app();
    update(&mut app, Command::End);
    settle(&mut app);
    app.message = None;
    let end = screen(&app);
    let places: Vec<(Cursor, Snapshot)> = (0..400)
        .map(|_| {
            update(&mut app, Command::Back);
            (app.walk.cursor(), app.shown.snapshot.clone())
        })
        .collect();
    for (cursor, snapshot) in places.iter().rev() {
        assert_eq!((app.walk.cursor(), &app.shown.snapshot), (*cursor, snapshot));
        update(&mut app, Command::Forward);
    }
    // All but the ports' rates, which depend on where one has been.
    let rates_apart = |text: &str| text.lines().skip(12).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rates_apart(&screen(&app)), rates_apart(&end));
}

#[test]
fn a_recirculated_packet_is_shown_with_its_depth_and_what_changed() {
    let mut app = app();
    to_breakpoint(&mut app, Breakpoint::Recirc);
    update(&mut app, Command::Show(Screen::Packet));
    let text = screen(&app);
    // The packet missed: its actions are not yet those of a flow, so they have a word, not their whole text.
    for part in ["recirculated 1x", "recirculated with id 0x1", "UDP", "dst=53", "action: recirc"] {
        assert!(text.contains(part), "{part} is not on:\n{text}");
    }
    // On to where the group's bucket rewrites the destination.
    for _ in 0..40 {
        update(&mut app, Command::Forward);
        let text = screen(&app);
        if text.contains("dst=10.0.0.12*") {
            assert!(text.contains("* IPv4") && text.contains("changed underlined"), "{text}");
            return;
        }
    }
    panic!("no rewrite seen");
}

#[test]
fn the_filter_takes_ovs_matches() {
    let mut app = app();
    update(&mut app, Command::End);
    settle(&mut app);
    let all = app.flows.rows.len();
    type_line(&mut app, Command::Filter, "udp,in_port=1");
    let some = app.flows.rows.len();
    assert!(0 < some && some < all, "{some} of {all}");
    for row in &app.flows.rows {
        let flow = app.shown_switch().unwrap().flows[*row].id;
        let text = app.walk.engine().flow_text(SwitchIndex(0), flow).unwrap();
        assert!(text.key.contains("in_port(1)") && !text.key.contains("proto=6,"), "{}", text.key);
    }
    type_line(&mut app, Command::Filter, "tcp,tp_dst=23,drop");
    assert!(app.flows.rows.iter().all(|row| app.shown_switch().unwrap().flows[*row].drops));
    let drops = super::super::view::timeline_rows(&app);
    let drop = |at: &Cursor| matches!(app.entry(*at).unwrap().record.event(), Some(Event::Drop { .. }));
    assert!(!drops.is_empty() && drops.iter().all(drop));
    type_line(&mut app, Command::Filter, "in_port=77");
    assert!(app.message.as_ref().unwrap().1.contains("no port 77"));
    type_line(&mut app, Command::Filter, "tpc");
    assert!(app.message.as_ref().unwrap().1.contains("tpc"));
}

#[test]
fn a_typed_command_changes_what_happens_next() {
    let mut app = app();
    for _ in 0..3 {
        update(&mut app, Command::ForwardPacket);
        settle(&mut app);
    }
    type_line(&mut app, Command::Prompt, "ovs-ofctl add-flow s1 priority=200,actions=drop");
    assert!(app.output[0].done, "{:?}", app.output);
    let step = app.walk.cursor().step;
    update(&mut app, Command::End);
    settle(&mut app);
    let dropped: u64 = app.shown_switch().unwrap().drops.iter().map(|(_, count)| count).sum();
    assert!(dropped > 3, "{dropped}");
    let end = app.shown.snapshot.clone();
    update(&mut app, Command::Start);
    update(&mut app, Command::End);
    settle(&mut app);
    assert_eq!(app.shown.snapshot, end, "it is there again");
    while app.walk.cursor().step > step {
        update(&mut app, Command::Back);
    }
    let record = &app.walk.current().unwrap().record;
    assert!(app.walk.engine().describe(record).contains("typed: ovs-ofctl add-flow"));
    type_line(&mut app, Command::Prompt, "ovs-frobnicate");
    assert!(!app.output[1].done && app.output[1].text.contains("ovs-frobnicate"));
    assert_eq!(app.walk.cursor().step, step);
}

#[test]
fn flows_of_a_packet_are_found_forwards_and_backwards() {
    let mut app = app();
    to_breakpoint(&mut app, Breakpoint::Install);
    update(&mut app, Command::ForwardPacket);
    settle(&mut app);
    update(&mut app, Command::ForwardPacket);
    settle(&mut app);
    let here = app.walk.cursor();
    update(&mut app, Command::Forward);
    update(&mut app, Command::Forward);
    update(&mut app, Command::Forward);
    update(&mut app, Command::BackFlow);
    settle(&mut app);
    update(&mut app, Command::BackPacket);
    settle(&mut app);
    assert!(app.walk.cursor() <= here);
    assert!(matches!(app.walk.current().unwrap().record.event(), Some(Event::Rx { .. })));
}

#[test]
fn a_frame_between_hosts_is_shown_too() {
    let mut app = app();
    for _ in 0..6 {
        update(&mut app, Command::Forward);
        if app.walk.current().is_some_and(|entry| entry.record.bytes.is_some()) {
            break;
        }
    }
    update(&mut app, Command::Show(Screen::Packet));
    let text = screen(&app);
    assert!(text.contains("A frame under way") && text.contains("ARP"), "{text}");
}
