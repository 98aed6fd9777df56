//! `recirc trace`: what one packet would meet, in the form of `ofproto/trace`.

use super::args::TraceArgs;
use super::load;
use crate::diagnostic::Complaint;
use crate::exit::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;

/// Runs the command: the scenario's steps, then the trace on a copy of the switch, which nobody keeps.
pub fn run(args: &TraceArgs, out: &mut Output) -> Result<Exit, Failure> {
    let files = load::disk();
    let scenario = load::one(&args.file, &files)?;
    let mut world = load::world(&scenario, &files, None)?;
    while world.step_unwatched().map_err(load::world_failure)?.is_some() {
        if interrupt::requested() {
            return Ok(Exit::Interrupted);
        }
    }
    let bridges = world.bridges();
    let Some(index) = bridges.iter().find(|(name, _)| *name == args.switch).map(|(_, index)| *index) else {
        let names: Vec<&str> = bridges.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("no switch {:?} in {}", args.switch, args.file.display());
        return Err(Complaint::new(message).help(format!("there is: {}", names.join(", "))).into());
    };
    if let [only] = args.packet.as_slice()
        && is_hex(only)
    {
        let message = "a frame in hexadecimal needs to be told its port";
        return Err(Complaint::new(message).help(format!("use in_port=PORT {only}")).into());
    }
    let mut argv = vec!["ovs-appctl", "ofproto/trace", args.switch.as_str()];
    argv.extend(args.packet.iter().map(String::as_str));
    argv.extend(args.ct_next.iter().flat_map(|flags| ["--ct-next", flags.as_str()]));
    argv.extend(args.generate.then_some("--generate"));
    argv.extend(args.names.then_some("--names"));
    let Some(mut node) = world.switches().nth(index).cloned() else {
        return Err(Failure::Bug("a bridge without a datapath".to_owned()));
    };
    match node.command(world.now(), &argv) {
        Ok(text) => {
            out.text(&text)?;
            if !text.ends_with('\n') {
                out.line("")?;
            }
            Ok(Exit::Pass)
        }
        Err(failure) => Err(Failure::input(failure.message.trim_end())),
    }
}

fn is_hex(text: &str) -> bool {
    text.len() >= 28 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b' ')
}
