//! `ovs-ofctl add-flows`, `add-groups`, and changes read from standard input.
//!
//! All lines are read before the first is carried out, and all are carried out or none. (Without `--bundle` Open vSwitch
//! keeps what came before a line that the switch refuses; a file half carried out is of use to nobody.)

use super::super::Switch;
use super::ofctl::version_for;
use super::{CommandError, FileReader, refused};
use crate::openflow::command::Word;
use crate::openflow::command::ofctl::OfctlOptions;
use crate::openflow::flow_mod::FlowModCommand;
use crate::openflow::text::{
    TextError, parse_flow_mod, parse_flow_mod_line, parse_group_mod_line, without_comment,
};
use crate::types::Time;

/// The lines of a file that hold more than a comment, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(without_comment).enumerate();
    lines.filter(|(_, line)| !line.is_empty()).map(|(index, line)| (index + 1, line))
}

pub(super) fn read_file(file: &Word, files: &mut FileReader<'_>) -> Result<String, CommandError> {
    files(&file.text).map_err(|reason| refused(format!("ovs-ofctl: {}: {reason}", file.text)))
}

/// The refusal of a line of a file.
pub(super) fn bad_line(file: &Word, line: usize, error: &TextError) -> CommandError {
    let (arg, file) = (file.arg, file.text.clone());
    CommandError::File { arg, file, line, offset: error.offset, message: error.to_string() }
}

/// The refusal of a line that was understood and cannot be carried out.
pub(super) fn refused_line(file: &Word, line: usize, error: &CommandError) -> CommandError {
    let (arg, file) = (file.arg, file.text.clone());
    CommandError::File { arg, file, line, offset: 0, message: error.to_string() }
}

impl Switch {
    pub(super) fn flow_file(
        &mut self,
        bridge: &str,
        file: &Word,
        command: Option<FlowModCommand>,
        options: &OfctlOptions,
        files: &mut FileReader<'_>,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let text = read_file(file, files)?;
        let mut changes = Vec::new();
        for (number, line) in lines(&text) {
            let parsed = match command {
                Some(command) => parse_flow_mod(line, command, names),
                None => parse_flow_mod_line(line, names),
            };
            let parsed = parsed.map_err(|error| bad_line(file, number, &error))?;
            let version =
                version_for(options, parsed.protocols).map_err(|error| refused_line(file, number, &error))?;
            changes.push((number, version, parsed.flow_mod));
        }
        self.credit(now);
        let mut next = self.clone();
        for (number, version, change) in changes {
            next.send_flow_mod(id, change, version, now)
                .map_err(|error| refused_line(file, number, &error))?;
        }
        *self = next;
        Ok(())
    }

    pub(super) fn group_file(
        &mut self,
        bridge: &str,
        file: &Word,
        options: &OfctlOptions,
        files: &mut FileReader<'_>,
        now: Time,
    ) -> Result<(), CommandError> {
        let (id, names) = self.named_bridge(bridge)?;
        let text = read_file(file, files)?;
        let mut changes = Vec::new();
        for (number, line) in lines(&text) {
            let parsed = parse_group_mod_line(line, names).map_err(|error| bad_line(file, number, &error))?;
            changes.push((number, parsed));
        }
        self.credit(now);
        let mut next = self.clone();
        for (number, change) in changes {
            next.send_group_mod(id, change, options, now)
                .map_err(|error| refused_line(file, number, &error))?;
        }
        *self = next;
        Ok(())
    }
}
