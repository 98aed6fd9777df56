//! An Open vSwitch of our own: `ovsdb-server` and `ovs-vswitchd` with dummy ports, in a private folder, stopped when dropped.
//!
//! What makes it answer the same way each time: its clock stands still and is moved by hand (`time/stop`, `time/warp`), all
//! datapath flows are revalidated before each packet, and a packet has been processed to its end once the counter of
//! received packets has moved and the main thread answers again (dummy ports are polled by the main thread).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use datapath::types::Time;
use serde_json::{Value, json};
use tempfile::TempDir;
use thiserror::Error;

use super::record::Frame;

/// How long a daemon may take to start, or an answer to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a packet may take. One that the port itself refuses (too long) never counts as received.
const PACKET_PATIENCE: Duration = Duration::from_secs(2);
/// Packets of the dummy device: an answer to each revalidation request (see [`Ovs::revalidate`]).
const ROUNDS: usize = 2;

/// Why Open vSwitch gave no answer.
#[derive(Debug, Error)]
pub enum OvsError {
    /// It is not there.
    #[error("Open vSwitch is not installed: there is no {}", .0.display())]
    NotInstalled(PathBuf),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        error: io::Error,
    },
    /// A daemon did not start, or is gone.
    #[error("{daemon} {what}")]
    Daemon {
        /// Which.
        daemon: &'static str,
        /// What became of it.
        what: String,
    },
    /// A command failed.
    #[error("Open vSwitch refuses `{command}`: {complaint}")]
    Refused {
        /// The command.
        command: String,
        /// What it complains about.
        complaint: String,
    },
    /// It said something that is not understood.
    #[error("Open vSwitch answered {0:?}, which is not understood")]
    Answer(String),
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> OvsError {
    let what = what.into();
    move |error| OvsError::System { what, error }
}

/// A version: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16, pub u16);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for Version {
    type Err = OvsError;

    fn from_str(text: &str) -> Result<Self, OvsError> {
        let bad = || OvsError::Answer(text.to_owned());
        let word = text.split_whitespace().next_back().ok_or_else(bad)?;
        let mut numbers = word.split('.').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten().ok_or_else(bad);
        Ok(Self(next()?, next()?, next()?))
    }
}

/// Where Open vSwitch is installed: the folder that has `bin`, `sbin` and `share/openvswitch`.
#[derive(Clone, Debug)]
pub struct Prefix(pub PathBuf);

impl Prefix {
    fn program(&self, name: &str) -> PathBuf {
        let folder = if name.ends_with("vswitchd") || name.ends_with("server") { "sbin" } else { "bin" };
        self.0.join(folder).join(name)
    }

    fn share(&self) -> PathBuf {
        self.0.join("share/openvswitch")
    }

    /// Which version it is.
    ///
    /// # Errors
    /// That it is not there, or does not say.
    pub fn version(&self) -> Result<Version, OvsError> {
        let program = self.program("ovs-vswitchd");
        if !program.exists() {
            return Err(OvsError::NotInstalled(program));
        }
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(system(program.display().to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().next().unwrap_or_default().parse()
    }
}

/// A running one.
pub struct Ovs {
    prefix: Prefix,
    folder: TempDir,
    daemons: Vec<Child>,
    control: Control,
    /// What each port sent: where its capture has been read to.
    sent: BTreeMap<String, u64>,
    /// Where its clock is, since it was stopped.
    now_ms: u64,
}

impl Ovs {
    /// Starts one with these settings (`KEY=VALUE`).
    ///
    /// # Errors
    /// That it is not there or does not start.
    pub fn start(prefix: &Prefix, settings: &[String]) -> Result<Self, OvsError> {
        for name in ["ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl"] {
            let program = prefix.program(name);
            if !program.exists() {
                return Err(OvsError::NotInstalled(program));
            }
        }
        let folder = tempfile::Builder::new().prefix("recirc-ovs-").tempdir();
        let folder = folder.map_err(system("cannot make a private folder"))?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (database, schema) = (at("conf.db"), prefix.share().join("vswitch.ovsschema"));
        let tool =
            run(prefix, folder.path(), "ovsdb-tool", &["create", &database, &schema.display().to_string()])?;
        debug_assert!(tool.is_empty());
        let mut daemons = Daemons(Vec::new());
        let (socket, log) =
            (format!("--remote=punix:{}", at("db.sock")), format!("--log-file={}", at("db.log")));
        let control = format!("--unixctl={}", at("db.ctl"));
        let argv = ["-vconsole:off", &socket, &control, &log, &database];
        daemons.spawn(prefix, folder.path(), "ovsdb-server", &argv, "db.sock")?;
        vsctl(prefix, folder.path(), &["--no-wait", "init"])?;
        for setting in settings {
            let column = format!("other_config:{setting}");
            vsctl(prefix, folder.path(), &["--no-wait", "set", "Open_vSwitch", ".", &column])?;
        }
        let (control, log) = (format!("--unixctl={}", at("vs.ctl")), format!("--log-file={}", at("vs.log")));
        let socket = format!("unix:{}", at("db.sock"));
        let argv = [
            "-vconsole:off",
            "--enable-dummy",
            "--disable-system",
            "--disable-system-route",
            &control,
            &log,
            &socket,
        ];
        daemons.spawn(prefix, folder.path(), "ovs-vswitchd", &argv, "vs.ctl")?;
        let control = Control::connect(&folder.path().join("vs.ctl"))?;
        let daemons = std::mem::take(&mut daemons.0);
        Ok(Self { prefix: prefix.clone(), folder, daemons, control, sent: BTreeMap::new(), now_ms: 0 })
    }

    /// Stops its clock.
    ///
    /// # Errors
    /// That it is gone.
    pub fn stop_time(&mut self) -> Result<(), OvsError> {
        self.control.call("time/stop", &[]).map(drop)
    }

    /// Moves its clock, which has milliseconds, to a time.
    ///
    /// # Errors
    /// That it is gone.
    pub fn advance_to(&mut self, time: Time) -> Result<(), OvsError> {
        let ms = time.0 / 1_000_000;
        if ms > self.now_ms {
            self.control.call("time/warp", &[&(ms - self.now_ms).to_string()])?;
            self.now_ms = ms;
        }
        Ok(())
    }

    /// Lets a frame arrive at a port, and waits until it was processed.
    ///
    /// # Errors
    /// That it is gone, or has no such port.
    pub fn receive(&mut self, port: &str, frame: &[u8]) -> Result<(), OvsError> {
        self.revalidate()?;
        let before = self.received()?;
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        self.control.call("netdev-dummy/receive", &[port, &hex])?;
        let start = Instant::now();
        while self.received()? == before && start.elapsed() < PACKET_PATIENCE {}
        self.control.call("version", &[]).map(drop)
    }

    fn received(&mut self) -> Result<u64, OvsError> {
        let text = self.control.call("coverage/read-counter", &["netdev_received"])?;
        text.trim().parse().map_err(|_| OvsError::Answer(text))
    }

    /// Lets what it does on its own be done: revalidation, and what follows from a change.
    ///
    /// # Errors
    /// That it is gone.
    pub fn settle(&mut self) -> Result<(), OvsError> {
        self.revalidate()
    }

    /// Revalidates all flows. Setting the range of tunnel ports, to what it was, is what makes every flow be looked at; the
    /// wait is asked for in the same breath, so that it is for this round. A hit that moves an address is learned during a
    /// round, and the flows that this round has seen before are changed by the next: hence two.
    fn revalidate(&mut self) -> Result<(), OvsError> {
        // Without a bridge there is no datapath, and nobody to wait for.
        if self.sent.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let text = self.control.call("tnl/egress_port_range", &[])?;
            let numbers: Vec<&str> =
                text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
            let [low, high] = numbers[..] else { return Err(OvsError::Answer(text)) };
            self.control.send("tnl/egress_port_range", &[low, high])?;
            self.control.send("revalidator/wait", &[])?;
            self.control.answer("tnl/egress_port_range")?;
            self.control.answer("revalidator/wait")?;
        }
        Ok(())
    }

    /// The frames that left since the last call, port by port in order of names.
    ///
    /// # Errors
    /// That a capture cannot be read.
    pub fn sent(&mut self) -> Result<Vec<Frame>, OvsError> {
        let mut frames = Vec::new();
        for (port, offset) in &mut self.sent {
            let path = self.folder.path().join(capture_name(port));
            let read = read_on(&path, offset).map_err(system(path.display().to_string()))?;
            frames.extend(read.into_iter().map(|frame| (port.clone(), frame)));
        }
        Ok(frames)
    }

    /// Its datapath flows: key and actions, with names of ports.
    ///
    /// # Errors
    /// That it is gone.
    pub fn flows(&mut self) -> Result<Vec<(String, String)>, OvsError> {
        let text = self.control.call("dpctl/dump-flows", &["--names"])?;
        let flows = text.lines().filter(|line| !line.starts_with("flow-dump from"));
        flows
            .map(|line| {
                let (key, rest) =
                    line.split_once(", packets:").ok_or_else(|| OvsError::Answer(line.to_owned()))?;
                let (_, actions) =
                    rest.split_once("actions:").ok_or_else(|| OvsError::Answer(line.to_owned()))?;
                Ok((key.trim().to_owned(), actions.to_owned()))
            })
            .collect()
    }

    /// Adds a rule: with OpenFlow 1.0 and Nicira's extensions if these can say it, else with OpenFlow 1.5.
    ///
    /// # Errors
    /// That it refuses.
    pub fn add_flow(&mut self, bridge: &str, rule: &str) -> Result<(), OvsError> {
        if self.command(&["ovs-ofctl", "add-flow", bridge, rule]).is_ok() {
            return Ok(());
        }
        self.command(&["ovs-ofctl", "-O", "OpenFlow15", "add-flow", bridge, rule]).map(drop)
    }

    /// Runs a command of a scenario.
    ///
    /// # Errors
    /// That it refuses.
    pub fn command(&mut self, argv: &[&str]) -> Result<String, OvsError> {
        match argv {
            // The clock is ours.
            ["ovs-appctl", "time/stop" | "time/warp", ..] => Ok(String::new()),
            ["ovs-appctl", rest @ ..] => {
                let rest = without_target(rest);
                let (name, arguments) = rest.split_first().unwrap_or((&"", &[]));
                self.control.call(name, arguments)
            }
            ["ovs-dpctl", name, arguments @ ..] => self.control.call(&format!("dpctl/{name}"), arguments),
            ["ovs-vsctl", rest @ ..] => {
                let text = vsctl(&self.prefix, self.folder.path(), rest)?;
                self.capture_new_ports()?;
                Ok(text)
            }
            [program, rest @ ..] => run(&self.prefix, self.folder.path(), program, rest),
            [] => Ok(String::new()),
        }
    }

    /// Lets every port that can send write what it sends to a capture.
    fn capture_new_ports(&mut self) -> Result<(), OvsError> {
        let argv = ["--format=json", "--columns=name,type", "list", "Interface"];
        let text = vsctl(&self.prefix, self.folder.path(), &argv)?;
        let rows: Value = serde_json::from_str(&text).map_err(|_| OvsError::Answer(text.clone()))?;
        let rows = rows["data"].as_array().cloned().unwrap_or_default();
        let mut argv: Vec<String> = Vec::new();
        let mut now = BTreeMap::new();
        for row in &rows {
            let (Some(name), Some(kind)) = (row[0].as_str(), row[1].as_str()) else { continue };
            if !matches!(kind, "" | "internal" | "dummy" | "dummy-pmd" | "dummy-internal" | "system") {
                continue;
            }
            let known = self.sent.get(name).copied();
            if known.is_none() {
                let file = self.folder.path().join(capture_name(name));
                let option = format!("options:tx_pcap=\"{}\"", file.display());
                argv.extend(["--", "set", "Interface", name, &option].map(str::to_owned));
            }
            now.insert(name.to_owned(), known.unwrap_or(0));
        }
        self.sent = now;
        if argv.is_empty() {
            return Ok(());
        }
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        vsctl(&self.prefix, self.folder.path(), &argv).map(drop)
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        stop(&mut self.daemons);
    }
}

/// Daemons that are stopped unless somebody takes them over.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

/// Ends daemons, the last started first. They keep nothing outside their folder, and need not be asked.
fn stop(daemons: &mut [Child]) {
    for daemon in daemons.iter_mut().rev() {
        // One that cannot be killed is gone already.
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}

impl Daemons {
    /// Starts a daemon, and waits until its socket answers.
    fn spawn(
        &mut self,
        prefix: &Prefix,
        folder: &Path,
        name: &'static str,
        argv: &[&str],
        socket: &str,
    ) -> Result<(), OvsError> {
        let output = folder.join(format!("{name}.out"));
        let file = File::create(&output).map_err(system(output.display().to_string()))?;
        let error_file = file.try_clone().map_err(system(output.display().to_string()))?;
        let mut command = environment(Command::new(prefix.program(name)), prefix, folder);
        command.args(argv).stdin(Stdio::null()).stdout(file).stderr(error_file);
        self.0.push(command.spawn().map_err(system(format!("cannot start {name}")))?);
        let start = Instant::now();
        while UnixStream::connect(folder.join(socket)).is_err() {
            let gone = self.0.last_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if gone || start.elapsed() > PATIENCE {
                let said = fs::read_to_string(&output).unwrap_or_default();
                return Err(OvsError::Daemon {
                    daemon: name,
                    what: format!("did not start: {}", said.trim()),
                });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// All that Open vSwitch's programs keep is kept in the folder.
fn environment(mut command: Command, prefix: &Prefix, folder: &Path) -> Command {
    for name in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(name, folder);
    }
    command.env("OVS_PKGDATADIR", prefix.share()).env("LC_ALL", "C").env("TZ", "UTC0").current_dir(folder);
    command
}

fn vsctl(prefix: &Prefix, folder: &Path, argv: &[&str]) -> Result<String, OvsError> {
    let database = format!("--db=unix:{}", folder.join("db.sock").display());
    let argv: Vec<&str> = [database.as_str(), "--timeout=20"].iter().chain(argv).copied().collect();
    run(prefix, folder, "ovs-vsctl", &argv)
}

/// Runs a program to its end.
fn run(prefix: &Prefix, folder: &Path, program: &str, argv: &[&str]) -> Result<String, OvsError> {
    let path = prefix.program(program);
    let mut command = environment(Command::new(&path), prefix, folder);
    let output =
        command.args(argv).stdin(Stdio::null()).output().map_err(system(path.display().to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let command = [&[program], argv].concat().join(" ");
    Err(OvsError::Refused { command, complaint: text(&output.stderr).trim().to_owned() })
}

/// Leaves out which daemon is meant: there is one.
fn without_target<'a>(argv: &'a [&'a str]) -> &'a [&'a str] {
    match argv {
        ["-t" | "--target", _, rest @ ..] => rest,
        [word, rest @ ..] if word.starts_with("--target=") => rest,
        rest => rest,
    }
}

/// The name of a port's capture; ports may be called anything that a file may not.
fn capture_name(port: &str) -> String {
    let name: String = port.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("tx-{name}.pcap")
}

/// Frames that were appended to a capture of Open vSwitch (classic, native byte order, which here is little) since `offset`.
fn read_on(path: &Path, offset: &mut u64) -> io::Result<Vec<Vec<u8>>> {
    const MAGIC: [u8; 4] = 0xa1b2_c3d4_u32.to_le_bytes();
    let mut data = Vec::new();
    match File::open(path) {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(*offset))?;
            file.read_to_end(&mut data)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut frames = Vec::new();
    let mut rest = data.as_slice();
    loop {
        if rest.starts_with(&MAGIC) && rest.len() >= 24 {
            rest = &rest[24..];
        }
        let Some((header, behind)) = rest.split_at_checked(16) else { break };
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let Some((frame, behind)) = behind.split_at_checked(length) else { break };
        frames.push(frame.to_vec());
        rest = behind;
    }
    *offset += (data.len() - rest.len()) as u64;
    Ok(frames)
}

/// The control socket of a daemon: JSON-RPC, as `ovs-appctl` speaks it.
struct Control {
    stream: UnixStream,
    answers: serde_json::StreamDeserializer<'static, serde_json::de::IoRead<UnixStream>, Value>,
    calls: u64,
}

impl Control {
    fn connect(path: &Path) -> Result<Self, OvsError> {
        let connect = || {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let reader = stream.try_clone()?;
            Ok((stream, reader))
        };
        let (stream, reader) = connect().map_err(system(path.display().to_string()))?;
        let answers = serde_json::Deserializer::from_reader(reader).into_iter();
        Ok(Self { stream, answers, calls: 0 })
    }

    fn send(&mut self, name: &str, arguments: &[&str]) -> Result<(), OvsError> {
        self.calls += 1;
        let request = json!({"method": name, "params": arguments, "id": self.calls});
        self.stream.write_all(request.to_string().as_bytes()).map_err(system(format!("cannot ask {name}")))
    }

    fn answer(&mut self, name: &str) -> Result<String, OvsError> {
        match self.answers.next() {
            Some(Ok(answer)) => match answer.get("error").and_then(Value::as_str) {
                Some(complaint) => Err(OvsError::Refused {
                    command: name.to_owned(),
                    complaint: complaint.trim_end().to_owned(),
                }),
                None => Ok(answer["result"].as_str().unwrap_or_default().to_owned()),
            },
            Some(Err(_)) | None => {
                Err(OvsError::Daemon { daemon: "ovs-vswitchd", what: format!("went away on {name}") })
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[&str]) -> Result<String, OvsError> {
        self.send(name, arguments)?;
        self.answer(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!("ovs-vswitchd (Open vSwitch) 3.1.0".parse::<Version>().unwrap(), Version(3, 1, 0));
        assert!(Version(3, 1, 0) < Version(4, 0, 90) && "nothing".parse::<Version>().is_err());
        assert_eq!(Version(3, 1, 0).to_string(), "3.1.0");
    }

    #[test]
    fn captures_are_read_as_they_grow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pcap");
        let mut offset = 0;
        assert!(read_on(&path, &mut offset).unwrap().is_empty(), "not there yet");
        let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1];
        header.resize(24, 0);
        let record = |bytes: &[u8]| {
            let length = (bytes.len() as u32).to_le_bytes();
            [&[0; 8][..], &length, &length, bytes].concat()
        };
        let whole = [header, record(b"one"), record(b"three")].concat();
        fs::write(&path, &whole[..whole.len() - 2]).unwrap();
        assert_eq!(read_on(&path, &mut offset).unwrap(), [b"one"]);
        fs::write(&path, &whole).unwrap();
        assert_eq!(read_on(&path, &mut offset).unwrap(), [b"three"]);
        assert!(read_on(&path, &mut offset).unwrap().is_empty());
    }

    #[test]
    fn which_daemon_is_left_out() {
        assert_eq!(without_target(&["-t", "ovs-vswitchd", "fdb/show", "br0"]), ["fdb/show", "br0"]);
        assert_eq!(without_target(&["--target=x", "fdb/show"]), ["fdb/show"]);
    }

    #[test]
    fn what_is_not_installed_is_told() {
        let nowhere = Prefix(PathBuf::from("/nonexistent"));
        assert!(matches!(nowhere.version(), Err(OvsError::NotInstalled(_))));
        assert!(matches!(Ovs::start(&nowhere, &[]), Err(OvsError::NotInstalled(_))));
    }
}
