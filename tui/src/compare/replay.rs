//! The same packets and commands, in the same order, to Open vSwitch.

use datapath::types::OfPort;
use sim::scenario::SwitchConfig;

use super::ovs::{Ovs, OvsError};
use super::record::{Frame, Input, Recording, What};

/// What Open vSwitch did about one input.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Frames that left, in order for each port.
    pub out: Vec<Frame>,
    /// What a command printed.
    pub text: String,
    /// Whether it was refused.
    pub refused: bool,
}

/// Settings that Open vSwitch reads once, when it starts.
const READ_AT_START: [&str; 1] = ["userspace-tso-enable"];

/// The settings of a recording that have to be made before Open vSwitch starts, as `KEY=VALUE`.
pub fn before_start(recording: &Recording) -> Vec<String> {
    let config = recording.config.iter().flat_map(|config| &config.other_config);
    let section = config.map(|setting| format!("{}={}", setting.key, setting.value));
    let commands = recording.inputs.iter().filter_map(|input| match &input.what {
        What::Command { argv, .. } => Some(argv),
        What::Frames(_) => None,
    });
    let words = commands
        .flatten()
        .filter_map(|word| word.split_once("other_config:"))
        .map(|(_, word)| word.to_owned());
    section.chain(words).filter(|word| READ_AT_START.iter().any(|key| word.starts_with(key))).collect()
}

/// Sets the datapath up and goes through all inputs.
///
/// # Errors
/// See [`OvsError`].
pub fn replay(recording: &Recording, ovs: &mut Ovs, tell: &mut dyn FnMut()) -> Result<Vec<Answer>, OvsError> {
    if let Some(config) = &recording.config {
        set_up(config, recording, ovs)?;
    }
    ovs.stop_time()?;
    let mut answers = Vec::with_capacity(recording.inputs.len());
    for input in &recording.inputs {
        answers.push(one(input, ovs)?);
        tell();
    }
    Ok(answers)
}

fn one(input: &Input, ovs: &mut Ovs) -> Result<Answer, OvsError> {
    ovs.advance_to(input.time)?;
    let (mut text, mut refused) = (String::new(), false);
    match &input.what {
        What::Frames(frames) => {
            for (port, frame) in frames {
                ovs.receive(port, frame)?;
            }
        }
        What::Command { argv, .. } => {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            (text, refused) = match ovs.command(&argv) {
                Ok(text) => (text, false),
                // As ours: what a command complains about is its text.
                Err(OvsError::Refused { complaint, .. }) => (complaint, true),
                Err(error) => return Err(error),
            };
            ovs.settle()?;
        }
    }
    Ok(Answer { out: ovs.sent()?, text, refused })
}

/// A bridge as its section describes it.
fn set_up(config: &SwitchConfig, recording: &Recording, ovs: &mut Ovs) -> Result<(), OvsError> {
    let name = config.name.as_str();
    for setting in &config.other_config {
        let value = format!("other_config:{}={}", setting.key, setting.value);
        ovs.command(&["ovs-vsctl", "set", "Open_vSwitch", ".", &value])?;
    }
    let fail_mode = if config.flows.is_some() { "fail_mode=secure" } else { "fail_mode=standalone" };
    let mac = format!("other_config:hwaddr=\"{}\"", recording.mac);
    let bridge = ["--", "set", "Bridge", name, "datapath_type=dummy", fail_mode, &mac];
    let mut argv = vec!["ovs-vsctl", "add-br", name];
    argv.extend(bridge);
    ovs.command(&argv)?;
    for port in &config.ports {
        let mut words: Vec<String> = ["ovs-vsctl", "add-port", name, &port.name].map(str::to_owned).into();
        let mut columns: Vec<String> = Vec::new();
        columns.extend(port.tag.map(|tag| format!("tag={}", tag.get())));
        let list = |column: &str, vlans: &[datapath::types::VlanId]| {
            let vlans: Vec<String> = vlans.iter().map(|vlan| vlan.get().to_string()).collect();
            (!vlans.is_empty()).then(|| format!("{column}={}", vlans.join(",")))
        };
        columns.extend(list("trunks", &port.trunks));
        columns.extend(list("cvlans", &port.cvlans));
        columns.extend(port.vlan_mode.map(|mode| format!("vlan_mode={}", mode.name())));
        words.extend(columns);
        words.extend(["--", "set", "Interface", &port.name, "type=dummy"].map(str::to_owned));
        words.extend(port.number.map(|number| format!("ofport_request={}", OfPort(number).0)));
        words.extend(port.mtu.map(|mtu| format!("mtu_request={mtu}")));
        let argv: Vec<&str> = words.iter().map(String::as_str).collect();
        ovs.command(&argv)?;
    }
    for line in config.meters.iter().flat_map(|block| &block.lines) {
        ovs.command(&["ovs-ofctl", "-O", "OpenFlow13", "add-meter", name, &line.text])?;
    }
    for line in config.groups.iter().flat_map(|block| &block.lines) {
        ovs.command(&["ovs-ofctl", "-O", "OpenFlow15", "add-group", name, &line.text])?;
    }
    for line in config.flows.iter().flat_map(|block| &block.lines) {
        ovs.add_flow(name, &line.text)?;
    }
    for line in config.ovs.iter().flat_map(|block| &block.lines) {
        // The scenario ran: its lines can be split.
        let words = line.words().unwrap_or_default();
        let argv: Vec<&str> = words.iter().map(String::as_str).collect();
        if !argv.is_empty() {
            ovs.command(&argv)?;
        }
    }
    ovs.settle()
}
