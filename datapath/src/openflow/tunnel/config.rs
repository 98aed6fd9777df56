//! What the options of a tunnel port say.
//!
//! Counterpart: `set_tunnel_config()` and `get_tunnel_config()` of OVS `lib/netdev-vport.c`. Other than there, a value that
//! is not understood is refused, not taken for 0.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::openflow::headers::IP_DSCP_MASK;
use crate::tunnel::TunnelKind;

/// TTL of outer headers (`DEFAULT_TTL`).
pub(super) const DEFAULT_TTL: u8 = 64;
/// Segments that an SRv6 header can hold (`SRV6_MAX_SEGS`).
const MAX_SEGMENTS: usize = 6;

/// One end of a tunnel. IPv4 addresses are mapped ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Not given: for the local end, any.
    #[default]
    Unset,
    /// As rules say.
    Flow,
    /// This one.
    Address(Ipv6Addr),
}

impl Endpoint {
    /// The address; none otherwise.
    pub fn address(self) -> Option<Ipv6Addr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Unset | Self::Flow => None,
        }
    }
}

/// A key, or how it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// Headers have no key, where that is possible; else it is 0.
    #[default]
    Absent,
    /// As rules say.
    Flow,
    /// This one.
    Fixed(u64),
}

impl Key {
    /// The key, or 0.
    pub const fn value(self) -> u64 {
        match self {
            Self::Absent | Self::Flow => 0,
            Self::Fixed(key) => key,
        }
    }
}

/// A number, or that it is inherited or given by rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting<T> {
    /// This one.
    Fixed(T),
    /// From the packet: its own header, or what rules said.
    Packet,
}

/// Whether outer headers have checksums (`enum netdev_tnl_csum`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Csum {
    /// Not over IPv4, which allows that; over IPv6.
    #[default]
    Default,
    /// Never, and that needs no saying: GRE, and what has none.
    Without,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Which packets go through (`enum netdev_pt_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketMode {
    /// Ethernet frames.
    LegacyL2,
    /// Network packets; an Ethernet header is taken off and put on.
    LegacyL3,
    /// Any, each with its type.
    Aware,
}

impl PacketMode {
    /// The word of `options:packet_type` for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::LegacyL2 => "legacy_l2",
            Self::LegacyL3 => "legacy_l3",
            Self::Aware => "ptap",
        }
    }
}

/// ERSPAN's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erspan {
    /// Version, 1 or 2.
    pub version: Setting<u8>,
    /// Index of version 1, 20 bits.
    pub index: Setting<u32>,
    /// Direction of version 2.
    pub direction: Setting<u8>,
    /// Hardware id of version 2, 6 bits.
    pub hardware: Setting<u8>,
}

/// How an SRv6 header gets its flow label; the numbers are `enum netdev_srv6_flowlabel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowLabel {
    /// From the inner header.
    #[default]
    Copy = 0,
    /// Zero.
    Zero = 1,
    /// A hash of the packet.
    Compute = 2,
}

/// A tunnel port's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// Kind.
    pub kind: TunnelKind,
    /// The other end.
    pub remote: Endpoint,
    /// This end.
    pub local: Endpoint,
    /// Key of what comes in.
    pub in_key: Key,
    /// Key of what goes out.
    pub out_key: Key,
    /// Outer TTL.
    pub ttl: Setting<u8>,
    /// Outer ToS without ECN bits, which are always inherited.
    pub tos: Setting<u8>,
    /// Whether the outer IPv4 header forbids fragmentation.
    pub dont_fragment: bool,
    /// Outer checksums.
    pub csum: Csum,
    /// UDP destination port, 0 for kinds without.
    pub dst_port: u16,
    /// Whether packets are numbered.
    pub sequence: bool,
    /// VXLAN's generic protocol extension.
    pub gpe: bool,
    /// VXLAN's group policy, which only the kernel's datapath carries out.
    pub gbp: bool,
    /// Which packets go through.
    pub mode: PacketMode,
    /// Mark of packets that are sent through.
    pub egress_mark: Option<u32>,
    /// ERSPAN.
    pub erspan: Erspan,
    /// Segments of SRv6, the first one first.
    pub segments: Vec<Ipv6Addr>,
    /// Flow label of SRv6.
    pub flow_label: FlowLabel,
}

/// An IPv4 address as a mapped one, or an IPv6 address.
pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The address as it is written: mapped ones as IPv4.
pub fn address_text(address: Ipv6Addr) -> String {
    match address.to_ipv4_mapped() {
        Some(v4) => v4.to_string(),
        None => address.to_string(),
    }
}

impl TunnelConfig {
    /// Reads the options of the port `name`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(name: &str, kind: TunnelKind, options: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut config = Self::defaults(kind);
        for (key, value) in options {
            config.set(key, value).map_err(|why| format!("{name}: {why}"))?;
        }
        let key_of = |own: &str| match options.get(own).or_else(|| options.get("key")) {
            Some(text) => parse_key(text).map_err(|why| format!("{name}: {why}")),
            None => Ok(Key::Absent),
        };
        (config.in_key, config.out_key) = (key_of("in_key")?, key_of("out_key")?);
        if config.csum == Csum::Default && !config.has_default_checksum() {
            config.csum = Csum::Without;
        }
        config.mode = config.mode_of(options.get("packet_type")).map_err(|why| format!("{name}: {why}"))?;
        config.check().map_err(|why| format!("{name}: {why}"))?;
        Ok(config)
    }

    fn defaults(kind: TunnelKind) -> Self {
        Self {
            kind,
            remote: Endpoint::Unset,
            local: Endpoint::Unset,
            in_key: Key::Absent,
            out_key: Key::Absent,
            ttl: Setting::Fixed(DEFAULT_TTL),
            tos: Setting::Fixed(0),
            dont_fragment: true,
            csum: Csum::Default,
            dst_port: kind.default_port(),
            sequence: false,
            gpe: false,
            gbp: false,
            mode: PacketMode::LegacyL2,
            egress_mark: None,
            erspan: Erspan {
                version: Setting::Fixed(0),
                index: Setting::Fixed(0),
                direction: Setting::Fixed(0),
                hardware: Setting::Fixed(0),
            },
            segments: Vec::new(),
            flow_label: FlowLabel::Copy,
        }
    }

    /// Whether outer checksums follow the outer IP version where nothing is said.
    fn has_default_checksum(&self) -> bool {
        matches!(self.kind, TunnelKind::Vxlan | TunnelKind::Geneve)
    }

    fn is_gre(&self) -> bool {
        matches!(self.kind, TunnelKind::Gre | TunnelKind::Ip6Gre)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let bad = || format!("{key}={value} is not valid for {}", self.kind.name());
        let number = |max: u64| parse_number(value).filter(|&n| n <= max).ok_or_else(bad);
        let has_checksum = self.has_default_checksum() || self.is_gre();
        match key {
            "remote_ip" => self.remote = endpoint(value, false).ok_or_else(bad)?,
            "local_ip" => self.local = endpoint(value, true).ok_or_else(bad)?,
            "tos" if value == "inherit" => self.tos = Setting::Packet,
            "tos" => {
                let tos = number(255)? as u8;
                if tos & !IP_DSCP_MASK != 0 {
                    return Err(bad());
                }
                self.tos = Setting::Fixed(tos);
            }
            "ttl" if value == "inherit" => self.ttl = Setting::Packet,
            "ttl" => match number(255)? as u8 {
                0 => {}
                ttl => self.ttl = Setting::Fixed(ttl),
            },
            "dst_port" if self.kind.default_port() != 0 => self.dst_port = number(65535)? as u16,
            "csum" if has_checksum => {
                self.csum = match value {
                    "true" => Csum::On,
                    "false" => Csum::Off,
                    _ => return Err(bad()),
                }
            }
            "seq" if self.is_gre() || self.kind == TunnelKind::Gtpu => self.sequence = value == "true",
            "df_default" => self.dont_fragment = value != "false",
            // Read with each other, and with what else was said.
            "key" | "in_key" | "out_key" | "packet_type" => {}
            "exts" if self.kind == TunnelKind::Vxlan => {
                for extension in value.split(',') {
                    match extension {
                        "gbp" => self.gbp = true,
                        "gpe" => self.gpe = true,
                        _ => return Err(format!("unknown extension '{extension}'")),
                    }
                }
            }
            "egress_pkt_mark" => self.egress_mark = Some(number(u64::from(u32::MAX))? as u32),
            "erspan_ver" if value == "flow" => {
                self.erspan = Erspan {
                    version: Setting::Packet,
                    index: Setting::Packet,
                    direction: Setting::Packet,
                    hardware: Setting::Packet,
                };
            }
            "erspan_ver" => match number(2)? as u8 {
                0 => return Err(bad()),
                version => self.erspan.version = Setting::Fixed(version),
            },
            "erspan_idx" => self.erspan.index = hex_or_flow(value, 0xf_ffff).ok_or_else(bad)?,
            "erspan_hwid" => {
                self.erspan.hardware = match hex_or_flow(value, 0x3f).ok_or_else(bad)? {
                    Setting::Packet => Setting::Packet,
                    Setting::Fixed(id) => Setting::Fixed(id as u8),
                }
            }
            "erspan_dir" if value == "flow" => self.erspan.direction = Setting::Packet,
            "erspan_dir" => self.erspan.direction = Setting::Fixed(number(1)? as u8),
            "srv6_segs" => {
                let segments: Result<Vec<Ipv6Addr>, _> = value.split(',').map(str::parse).collect();
                self.segments = segments.map_err(|_| bad())?;
                if self.segments.len() > MAX_SEGMENTS {
                    return Err(bad());
                }
            }
            "srv6_flowlabel" => {
                self.flow_label = match value {
                    "zero" => FlowLabel::Zero,
                    "compute" => FlowLabel::Compute,
                    "copy" => FlowLabel::Copy,
                    _ => return Err(bad()),
                }
            }
            _ => return Err(format!("unknown {} argument '{key}'", self.kind.name())),
        }
        Ok(())
    }

    fn carries_l2(&self) -> bool {
        !matches!(self.kind, TunnelKind::Gtpu | TunnelKind::Srv6)
    }

    fn carries_l3(&self) -> bool {
        !self.carries_l2() || self.kind == TunnelKind::Gre || self.gpe
    }

    fn default_mode(&self) -> PacketMode {
        if self.carries_l2() { PacketMode::LegacyL2 } else { PacketMode::LegacyL3 }
    }

    fn mode_of(&self, word: Option<&String>) -> Result<PacketMode, String> {
        let kind = self.kind.name();
        match word.map(String::as_str) {
            None => Ok(self.default_mode()),
            Some("legacy_l2") if self.carries_l2() => Ok(PacketMode::LegacyL2),
            Some("legacy_l3") if self.carries_l3() => Ok(PacketMode::LegacyL3),
            Some("ptap") => Ok(PacketMode::Aware),
            Some("legacy_l2") => {
                Err(format!("legacy_l2 configured on {kind} tunnel that cannot carry L2 traffic"))
            }
            Some("legacy_l3") => {
                Err(format!("legacy_l3 configured on {kind} tunnel that cannot carry L3 traffic"))
            }
            Some(other) => Err(format!("unknown packet_type '{other}'")),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.remote == Endpoint::Unset {
            return Err(format!("{} type requires valid 'remote_ip' argument", self.kind.name()));
        }
        if self.local == Endpoint::Flow && self.remote != Endpoint::Flow {
            return Err(format!("{} type requires 'remote_ip=flow' with 'local_ip=flow'", self.kind.name()));
        }
        if let (Some(local), Some(remote)) = (self.local.address(), self.remote.address())
            && local.to_ipv4_mapped().is_some() != remote.to_ipv4_mapped().is_some()
        {
            return Err("'remote_ip' and 'local_ip' has to be of the same address family".to_owned());
        }
        Ok(())
    }

    /// The options that matter, by name, as the datapath shows them.
    pub fn options(&self) -> BTreeMap<&'static str, String> {
        let mut all = BTreeMap::new();
        let mut end = |name, endpoint: Endpoint| match endpoint {
            Endpoint::Unset => {}
            Endpoint::Flow => drop(all.insert(name, "flow".to_owned())),
            Endpoint::Address(address) => drop(all.insert(name, address_text(address))),
        };
        end("remote_ip", self.remote);
        end("local_ip", self.local);
        let mut key = |name, key: Key| match key {
            Key::Absent => {}
            Key::Flow => drop(all.insert(name, "flow".to_owned())),
            Key::Fixed(key) => drop(all.insert(name, key.to_string())),
        };
        if self.in_key == self.out_key {
            key("key", self.in_key);
        } else {
            key("in_key", self.in_key);
            key("out_key", self.out_key);
        }
        match self.ttl {
            Setting::Packet => drop(all.insert("ttl", "inherit".to_owned())),
            Setting::Fixed(DEFAULT_TTL) => {}
            Setting::Fixed(ttl) => drop(all.insert("ttl", ttl.to_string())),
        }
        match self.tos {
            Setting::Packet => drop(all.insert("tos", "inherit".to_owned())),
            Setting::Fixed(0) => {}
            Setting::Fixed(tos) => drop(all.insert("tos", format!("{tos:#x}"))),
        }
        if self.dst_port != self.kind.default_port() {
            all.insert("dst_port", self.dst_port.to_string());
        }
        match self.csum {
            Csum::On => drop(all.insert("csum", "true".to_owned())),
            Csum::Off => drop(all.insert("csum", "false".to_owned())),
            Csum::Default | Csum::Without => {}
        }
        if self.sequence {
            all.insert("seq", "true".to_owned());
        }
        if self.mode != self.default_mode() {
            all.insert("packet_type", self.mode.word().to_owned());
        }
        if !self.dont_fragment {
            all.insert("df_default", "false".to_owned());
        }
        if let Some(mark) = self.egress_mark {
            all.insert("egress_pkt_mark", mark.to_string());
        }
        if matches!(self.kind, TunnelKind::Erspan | TunnelKind::Ip6Erspan) {
            self.erspan_options(&mut all);
        }
        all
    }

    fn erspan_options(&self, all: &mut BTreeMap<&'static str, String>) {
        fn text<T: Copy>(setting: Setting<T>, write: impl Fn(T) -> String) -> String {
            match setting {
                Setting::Packet => "flow".to_owned(),
                Setting::Fixed(value) => write(value),
            }
        }
        let Erspan { version, index, direction, hardware } = self.erspan;
        all.insert("erspan_ver", text(version, |version| version.to_string()));
        if version != Setting::Fixed(2) {
            all.insert("erspan_idx", text(index, |index| format!("{index:#x}")));
        }
        if version != Setting::Fixed(1) {
            all.insert("erspan_dir", text(direction, |direction| direction.to_string()));
            all.insert("erspan_hwid", text(hardware, |hardware| format!("{hardware:#x}")));
        }
    }
}

fn endpoint(text: &str, multicast: bool) -> Option<Endpoint> {
    if text == "flow" {
        return Some(Endpoint::Flow);
    }
    let address: IpAddr = text.parse().ok()?;
    (multicast || !address.is_multicast()).then(|| Endpoint::Address(mapped(address)))
}

fn parse_key(text: &str) -> Result<Key, String> {
    if text == "flow" {
        return Ok(Key::Flow);
    }
    parse_number(text).map(Key::Fixed).ok_or_else(|| format!("key={text} is neither a number nor flow"))
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn hex_or_flow(text: &str, max: u32) -> Option<Setting<u32>> {
    if text == "flow" {
        return Some(Setting::Packet);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16).ok().filter(|&value| value <= max).map(Setting::Fixed)
}
