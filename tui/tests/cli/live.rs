//! `recirc live` between network namespaces that the tests make and remove: what hosts send arrives whole, with checksums that the
//! receiving kernel takes, whatever the ports on the way leave to each other.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether namespaces can be made here. Where that is not so the tests say so loudly, and in CI they fail.
fn possible(test: &str) -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    let root = String::from_utf8_lossy(&id.stdout).trim() == "0";
    let usable = root && ip("netns list").is_some() && PathBuf::from("/dev/net/tun").exists();
    assert!(usable || std::env::var_os("CI").is_none(), "{test} needs root, iproute2 and /dev/net/tun");
    if !usable {
        eprintln!("LOUD: {test} was NOT run: it needs root, iproute2 and /dev/net/tun");
    }
    usable
}

fn ip(arguments: &str) -> Option<String> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn must(arguments: &str) {
    assert!(ip(arguments).is_some(), "ip {arguments}");
}

/// Two namespaces, `A` and `B`, and the names of the interfaces here that lead to them.
struct Lab {
    names: [String; 2],
    tag: String,
}

impl Lab {
    fn new(tag: &str) -> Self {
        let tag = format!("{tag}{}", std::process::id() % 10_000);
        let names = ["A", "B"].map(|end| format!("rc{tag}{end}"));
        for name in &names {
            ip(&format!("netns del {name}"));
            must(&format!("netns add {name}"));
            must(&format!("-n {name} link set lo up"));
        }
        Self { names, tag }
    }

    fn near(&self, end: usize) -> String {
        format!("n{}{}", self.tag, ["A", "B"][end])
    }

    /// A veth pair into a namespace, with addresses.
    fn veth(&self, end: usize, mtu: u32) {
        let (name, near) = (&self.names[end], self.near(end));
        must(&format!("link add {near} mtu {mtu} type veth peer name far mtu {mtu} netns {name}"));
        must(&format!("link set {near} up"));
        must(&format!("-n {name} link set far up"));
        self.address(end, "far");
    }

    fn address(&self, end: usize, device: &str) {
        let (name, n) = (&self.names[end], end + 1);
        must(&format!("-n {name} addr add 10.9.0.{n}/24 dev {device}"));
        must(&format!("-n {name} -6 addr add fd00:9::{n}/64 dev {device} nodad"));
    }

    fn run(&self, end: usize, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end], program]).args(arguments);
        command.output().expect("ip runs")
    }

    /// Bytes through TCP from one namespace to the other; returns the hashes of what was sent and what came.
    fn transfer(&self, from: usize, address: &str) -> [String; 2] {
        const SERVER: &str = "import socket,hashlib,sys
s=socket.create_server((sys.argv[1],7777),family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
print('ready',flush=True)
c,_=s.accept(); h=hashlib.sha256()
while True:
    d=c.recv(1<<16)
    if not d: break
    h.update(d)
print(h.hexdigest())";
        const CLIENT: &str = "import socket,hashlib,sys,random
r=random.Random(7); h=hashlib.sha256(); c=socket.create_connection((sys.argv[1],7777),timeout=10)
for _ in range(64):
    d=r.randbytes(65537); h.update(d); c.sendall(d)
c.close(); print(h.hexdigest())";
        let to = 1 - from;
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &self.names[to], "timeout", "30", "python3", "-c", SERVER, address]);
        let server = server.stdout(Stdio::piped()).spawn().expect("python3 runs");
        thread::sleep(Duration::from_millis(500));
        let sent = self.run(from, "timeout", &["20", "python3", "-c", CLIENT, address]);
        let came = server.wait_with_output().expect("the server ends");
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_start_matches("ready\n").trim().to_owned();
        [text(&sent.stdout), text(&came.stdout)]
    }

    fn ping(&self, from: usize, arguments: &[&str]) -> bool {
        let arguments = [&["20", "python3", "-c", PING], arguments].concat();
        let output = self.run(from, "timeout", &arguments);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }
}

/// Sends datagrams to the echo port of the other end, and wants the same back: `ADDRESS BYTES`.
const PING: &str = "import socket,sys,os
a,n=sys.argv[1],int(sys.argv[2]); f=socket.AF_INET6 if ':' in a else socket.AF_INET
c=socket.socket(f,socket.SOCK_DGRAM); c.settimeout(1); d=os.urandom(n)
for _ in range(5):
    try:
        c.sendto(d,(a,7778))
        if c.recv(1<<16)==d: sys.exit(0)
    except socket.timeout: pass
sys.exit(1)";

/// Sends every datagram back.
const ECHO: &str = "import socket
s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.setsockopt(socket.IPPROTO_IPV6,socket.IPV6_V6ONLY,0); s.bind(('::',7778))
while True:
    d,a=s.recvfrom(1<<16); s.sendto(d,a)";

impl Drop for Lab {
    fn drop(&mut self) {
        for (end, name) in self.names.iter().enumerate() {
            ip(&format!("netns del {name}"));
            ip(&format!("link del {}", self.near(end)));
        }
    }
}

/// A running `recirc live`.
struct Live {
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl Live {
    fn start(switch: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("live.toml");
        fs::write(&file, format!("name = \"live\"\n[switch.s1]\n{switch}\n")).expect("a file");
        let errors = fs::File::create(folder.path().join("errors")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_recirc"));
        command.arg("live").arg(&file).args(["--for", "60s", "--format", "json"]);
        let child = command.stdout(Stdio::piped()).stderr(errors).spawn().expect("recirc runs");
        let live = Self { child: Some(child), folder };
        let start = Instant::now();
        while live.errors().matches("open, MTU").count() < 2 {
            assert!(start.elapsed() < Duration::from_secs(20), "it does not start: {}", live.errors());
            thread::sleep(Duration::from_millis(20));
        }
        live
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    /// Ends it as Ctrl-C does, and returns its report.
    fn stop(mut self) -> serde_json::Value {
        let child = self.child.take().expect("it runs");
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", self.errors());
        serde_json::from_slice(&output.stdout).expect("a report")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn echo(lab: &Lab, end: usize) -> Echo {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &lab.names[end], "python3", "-c", ECHO]).stdout(Stdio::null());
    let child = command.spawn().expect("python3 runs");
    thread::sleep(Duration::from_millis(400));
    Echo(child)
}

/// The echo server; it ends with the test, however that ends.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that hosts want of a wire.
fn check(lab: &Lab, largest: &str) {
    let _server = echo(lab, 1);
    for address in ["10.9.0.2", "fd00:9::2"] {
        for bytes in ["1", "1000", "4000", largest] {
            assert!(lab.ping(0, &[address, bytes]), "{bytes} bytes of UDP to {address}");
        }
        let [sent, came] = lab.transfer(0, address);
        assert_eq!(sent, came, "TCP to {address}");
        assert_eq!(sent.len(), 64);
    }
    for address in ["10.9.0.1", "fd00:9::1"] {
        let [sent, came] = lab.transfer(1, address);
        assert_eq!((sent.len(), &sent), (64, &came), "TCP to {address}");
    }
}

#[test]
fn hosts_talk_through_packet_sockets() {
    if !possible("hosts_talk_through_packet_sockets") {
        return;
    }
    let lab = Lab::new("v");
    lab.veth(0, 9000);
    lab.veth(1, 9000);
    for offload in ["", ", offload = [\"tcp-csum\", \"udp-csum\", \"tso\"]"] {
        let live = Live::start(&format!(
            "port.1 = {{ packet = \"{}\"{offload} }}\nport.2 = {{ packet = \"{}\"{offload} }}",
            lab.near(0),
            lab.near(1)
        ));
        check(&lab, "30000");
        let report = live.stop();
        let port =
            |name: &str, counter: &str| report["switches"]["s1"]["ports"][name][counter].as_u64().unwrap();
        assert!(port("1", "rx_packets") > 100 && port("2", "tx_packets") > 100, "{report}");
        assert_eq!(report["devices"]["s1:2"]["tx_too_long"], 0);
    }
}

/// Waits for a frame with the payload `recirc`; prints its tags: what the kernel took off, then what is in the frame.
const TAGGED: &str = "import socket,struct
s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,socket.htons(3)); s.setsockopt(263,8,1); s.bind(('far',0)); s.settimeout(10)
print('ready',flush=True)
while True:
    d,a,_,_=s.recvmsg(2000,200)
    if b'recirc' not in d: continue
    for level,kind,c in a:
        if (level,kind)==(263,8):
            status,_,_,_,_,tci,tpid=struct.unpack('=IIIHHHH',c[:20])
            print('%04x:%d'%(tpid,tci) if status&16 else 'none',d[12:-6].hex(),flush=True)
    break";

/// Sends a frame with the tags that the argument names.
const SEND_TAGGED: &str = "import socket,sys
s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('far',0))
s.send(b'\\xff'*6+b'\\x02'*6+bytes.fromhex(sys.argv[1])+bytes.fromhex('88b5')+b'\\0'*40+b'recirc')";

#[test]
fn tagged_frames_keep_their_tags() {
    if !possible("tagged_frames_keep_their_tags") {
        return;
    }
    let lab = Lab::new("t");
    lab.veth(0, 1500);
    lab.veth(1, 1500);
    let live = Live::start(&format!(
        "port.1 = {{ packet = \"{}\" }}\nport.2 = {{ packet = \"{}\" }}\nother-config = {{ vlan-limit = \"2\" }}",
        lab.near(0),
        lab.near(1)
    ));
    let rest = format!("88b5{}", "00".repeat(40));
    for (tags, seen) in
        [("8100000a", "8100:10 "), ("88a80014", "88a8:20 "), ("88a880148100001e", "88a8:32788 8100001e")]
    {
        let mut receiver = Command::new("ip");
        receiver.args(["netns", "exec", &lab.names[1], "python3", "-c", TAGGED]).stdout(Stdio::piped());
        let receiver = receiver.spawn().expect("python3 runs");
        thread::sleep(Duration::from_millis(500));
        let sent = lab.run(0, "python3", &["-c", SEND_TAGGED, tags]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        let came = receiver.wait_with_output().expect("it ends");
        let came = String::from_utf8_lossy(&came.stdout);
        assert_eq!(came.trim_start_matches("ready\n").trim(), format!("{seen}{rest}"), "{tags}");
    }
    let report = live.stop();
    let flows = report["switches"]["s1"]["flows"].to_string();
    assert!(flows.contains("vlan(vid=10") && flows.contains("eth_type(0x88a8),vlan(vid=20"), "{flows}");
}

/// What a tap leaves to be done reaches an interface that does not do it: where that is forgotten, ping works and TCP hangs.
#[test]
fn a_tap_with_offloads_and_an_interface_without() {
    if !possible("a_tap_with_offloads_and_an_interface_without") {
        return;
    }
    for offload in ["", ", offload = [\"tcp-csum\", \"udp-csum\", \"tso\"]"] {
        let lab = Lab::new("o");
        lab.veth(1, 1500);
        let live = Live::start(&format!(
            "port.1 = {{ tap = \"tap0\", netns = \"{}\"{offload} }}\nport.2 = {{ packet = \"{}\" }}",
            lab.names[0],
            lab.near(1)
        ));
        lab.address(0, "tap0");
        check(&lab, "1400");
        live.stop();
        let left = ip(&format!("-n {} link show tap0", lab.names[0]));
        assert!(left.is_none(), "the tap is gone: {left:?}");
    }
}

#[test]
fn an_interface_that_goes_away_takes_nothing_else_along() {
    if !possible("an_interface_that_goes_away_takes_nothing_else_along") {
        return;
    }
    let lab = Lab::new("g");
    lab.veth(0, 1500);
    lab.veth(1, 1500);
    let third = format!("g{}C", lab.tag);
    ip(&format!("link del {third}"));
    must(&format!("link add {third} type veth peer name x{third}"));
    must(&format!("link set {third} up"));
    must(&format!("link set x{third} up"));
    let live = Live::start(&format!(
        "port.1 = {{ packet = \"{}\" }}\nport.2 = {{ packet = \"{}\" }}\nport.3 = {{ packet = \"{third}\" }}",
        lab.near(0),
        lab.near(1)
    ));
    must(&format!("link del {third}"));
    check(&lab, "1400");
    let errors = live.errors();
    assert_eq!(errors.matches("s1:3: the interface is down or gone").count(), 1, "{errors}");
    live.stop();
}
