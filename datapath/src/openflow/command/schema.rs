//! The tables and columns of the configuration database, as far as this switch has them.
//!
//! Counterpart: OVS `vswitchd/vswitch.ovsschema` and `vswitch.xml`.

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Settings of the whole switch: one record.
    OpenVSwitch,
    /// Bridges.
    Bridge,
    /// Ports.
    Port,
    /// Interfaces: the devices of ports.
    Interface,
    /// Flow tables with settings.
    FlowTable,
    /// Datapaths, by type.
    Datapath,
    /// Copies of packets to a port or a VLAN.
    Mirror,
}

impl Table {
    /// Every table, with its name.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::OpenVSwitch, "Open_vSwitch"),
        (Self::Bridge, "Bridge"),
        (Self::Port, "Port"),
        (Self::Interface, "Interface"),
        (Self::FlowTable, "Flow_Table"),
        (Self::Datapath, "Datapath"),
        (Self::Mirror, "Mirror"),
    ];

    /// Tables of Open vSwitch that this switch does not have.
    pub const UNSUPPORTED: [&'static str; 11] = [
        "QoS",
        "Queue",
        "NetFlow",
        "sFlow",
        "IPFIX",
        "Flow_Sample_Collector_Set",
        "Controller",
        "Manager",
        "SSL",
        "CT_Zone",
        "CT_Timeout_Policy",
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(table, _)| *table == self).map_or("", |(_, name)| name)
    }

    /// Its columns, in the order in which they are listed.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::OpenVSwitch => OPEN_VSWITCH,
            Self::Bridge => BRIDGE,
            Self::Port => PORT,
            Self::Interface => INTERFACE,
            Self::FlowTable => FLOW_TABLE,
            Self::Datapath => DATAPATH,
            Self::Mirror => MIRROR,
        }
    }

    /// A column by its exact name.
    pub fn column(self, name: &str) -> Option<&'static Column> {
        self.columns().iter().find(|column| column.name == name)
    }
}

/// What single values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// A whole number in a range.
    Int(i64, i64),
    /// `true` or `false`.
    Bool,
    /// Any text.
    Str,
    /// One of some words.
    Enum(&'static [&'static str]),
    /// A record of a table.
    Ref(Table),
}

/// How many values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One.
    One,
    /// One or none.
    Optional,
    /// Any number.
    Set,
    /// Any number, each under a name.
    Map,
    /// Any number, each under a whole number.
    IntMap,
}

/// What setting a column does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What Open vSwitch does.
    Live,
    /// Nothing, as in Open vSwitch where packets are concerned.
    Inert,
    /// It cannot be set: the switch tells something there.
    Status,
    /// It can have its default only: the rest is not supported.
    DefaultOnly,
    /// Depends on the key: see [`key_effect`].
    ByKey,
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Kind of values.
    pub atom: AtomType,
    /// Number of values.
    pub shape: Shape,
    /// What setting it does.
    pub effect: Effect,
}

use AtomType::{Bool, Enum, Int, Ref, Str};
use Effect::{ByKey, DefaultOnly, Inert, Live, Status};
use Shape::{IntMap, Map, One, Optional, Set};

const fn column(name: &'static str, atom: AtomType, shape: Shape, effect: Effect) -> Column {
    Column { name, atom, shape, effect }
}

const ANY_INT: AtomType = Int(i64::MIN, i64::MAX);
const VLAN: AtomType = Int(0, 4095);
/// OpenFlow versions, as the `protocols` column names them.
const PROTOCOLS: AtomType =
    Enum(&["OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13", "OpenFlow14", "OpenFlow15"]);

static OPEN_VSWITCH: &[Column] = &[
    column("bridges", Ref(Table::Bridge), Set, Live),
    column("cur_cfg", ANY_INT, One, Status),
    column("datapath_types", Str, Set, Status),
    // The one that there is goes by the name of each type.
    column("datapaths", Str, Map, Inert),
    column("db_version", Str, Optional, Inert),
    column("dpdk_initialized", Bool, One, Status),
    column("dpdk_version", Str, Optional, Status),
    column("external_ids", Str, Map, Inert),
    column("iface_types", Str, Set, Status),
    column("manager_options", Str, Set, DefaultOnly),
    column("next_cfg", ANY_INT, One, Inert),
    column("other_config", Str, Map, ByKey),
    column("ovs_version", Str, Optional, Inert),
    column("ssl", Str, Optional, DefaultOnly),
    column("statistics", Str, Map, Status),
    column("system_type", Str, Optional, Inert),
    column("system_version", Str, Optional, Inert),
];

static BRIDGE: &[Column] = &[
    column("auto_attach", Str, Optional, DefaultOnly),
    column("controller", Str, Set, DefaultOnly),
    column("datapath_id", Str, Optional, Status),
    column("datapath_type", Enum(&["", "dummy", "netdev", "system"]), One, Inert),
    column("datapath_version", Str, One, Status),
    column("external_ids", Str, Map, Inert),
    column("fail_mode", Enum(&["secure", "standalone"]), Optional, Live),
    column("flood_vlans", VLAN, Set, Live),
    column("flow_tables", Ref(Table::FlowTable), IntMap, Live),
    column("ipfix", Str, Optional, DefaultOnly),
    column("mcast_snooping_enable", Bool, One, Live),
    column("mirrors", Ref(Table::Mirror), Set, Live),
    column("name", Str, One, Live),
    column("netflow", Str, Optional, DefaultOnly),
    column("other_config", Str, Map, ByKey),
    column("ports", Ref(Table::Port), Set, Live),
    column("protocols", PROTOCOLS, Set, Live),
    column("rstp_enable", Bool, One, DefaultOnly),
    column("rstp_status", Str, Map, Status),
    column("sflow", Str, Optional, DefaultOnly),
    column("status", Str, Map, Status),
    column("stp_enable", Bool, One, DefaultOnly),
];

static PORT: &[Column] = &[
    column("bond_active_slave", Str, Optional, DefaultOnly),
    column("bond_downdelay", ANY_INT, One, DefaultOnly),
    column("bond_fake_iface", Bool, One, DefaultOnly),
    column("bond_mode", Enum(&["active-backup", "balance-slb", "balance-tcp"]), Optional, DefaultOnly),
    column("bond_updelay", ANY_INT, One, DefaultOnly),
    column("cvlans", VLAN, Set, Live),
    column("external_ids", Str, Map, Inert),
    column("fake_bridge", Bool, One, DefaultOnly),
    column("interfaces", Ref(Table::Interface), Set, Live),
    column("lacp", Enum(&["active", "off", "passive"]), Optional, DefaultOnly),
    column("mac", Str, Optional, DefaultOnly),
    column("name", Str, One, Live),
    column("other_config", Str, Map, ByKey),
    column("protected", Bool, One, Live),
    column("qos", Str, Optional, DefaultOnly),
    column("rstp_statistics", Str, Map, Status),
    column("rstp_status", Str, Map, Status),
    column("statistics", Str, Map, Status),
    column("status", Str, Map, Status),
    column("tag", VLAN, Optional, Live),
    column("trunks", VLAN, Set, Live),
    column(
        "vlan_mode",
        Enum(&["access", "dot1q-tunnel", "native-tagged", "native-untagged", "trunk"]),
        Optional,
        Live,
    ),
];

static INTERFACE: &[Column] = &[
    column("admin_state", Enum(&["down", "up"]), Optional, Status),
    column("bfd", Str, Map, DefaultOnly),
    column("bfd_status", Str, Map, Status),
    column("cfm_mpid", ANY_INT, Optional, DefaultOnly),
    column("duplex", Enum(&["full", "half"]), Optional, Status),
    column("error", Str, Optional, Status),
    column("external_ids", Str, Map, Inert),
    column("ifindex", ANY_INT, Optional, Status),
    column("ingress_policing_burst", ANY_INT, One, DefaultOnly),
    column("ingress_policing_kpkts_burst", ANY_INT, One, DefaultOnly),
    column("ingress_policing_kpkts_rate", ANY_INT, One, DefaultOnly),
    column("ingress_policing_rate", ANY_INT, One, DefaultOnly),
    column("lacp_current", Bool, Optional, Status),
    column("link_resets", ANY_INT, Optional, Status),
    column("link_speed", ANY_INT, Optional, Status),
    column("link_state", Enum(&["down", "up"]), Optional, Status),
    column("lldp", Str, Map, DefaultOnly),
    column("mac", Str, Optional, Live),
    column("mac_in_use", Str, Optional, Status),
    column("mtu", ANY_INT, Optional, Status),
    column("mtu_request", Int(68, 65535), Optional, Live),
    column("name", Str, One, Live),
    column("ofport", ANY_INT, Optional, Status),
    column("ofport_request", Int(1, 65279), Optional, Live),
    column("options", Str, Map, ByKey),
    column("other_config", Str, Map, ByKey),
    column("statistics", ANY_INT, Map, Status),
    column("status", Str, Map, Status),
    column("type", Str, One, Live),
];

static FLOW_TABLE: &[Column] = &[
    column("external_ids", Str, Map, Inert),
    column("flow_limit", Int(0, i64::MAX), Optional, Live),
    column("groups", Str, Set, DefaultOnly),
    column("name", Str, Optional, Live),
    column("overflow_policy", Enum(&["evict", "refuse"]), Optional, DefaultOnly),
    column("prefixes", Str, Set, Live),
];

static MIRROR: &[Column] = &[
    column("external_ids", Str, Map, Inert),
    column("filter", Str, Optional, Live),
    column("name", Str, One, Live),
    column("output_port", Ref(Table::Port), Optional, Live),
    column("output_vlan", Int(1, 4095), Optional, Live),
    column("select_all", Bool, One, Live),
    column("select_dst_port", Ref(Table::Port), Set, Live),
    column("select_src_port", Ref(Table::Port), Set, Live),
    column("select_vlan", VLAN, Set, Live),
    column("snaplen", Int(14, 65535), Optional, Live),
    column("statistics", ANY_INT, Map, Status),
];

static DATAPATH: &[Column] = &[
    column("capabilities", Str, Map, Status),
    column("ct_zone_default_limit", Int(0, u32::MAX as i64), Optional, DefaultOnly),
    column("ct_zones", Str, IntMap, DefaultOnly),
    column("datapath_version", Str, One, Inert),
    column("external_ids", Str, Map, Inert),
];

/// Keys of a map column, each with what setting it does; keys ending in `*` stand for all that begin so.
type Keys = &'static [(&'static str, Effect)];

const SWITCH_KEYS: Keys = &[
    ("vlan-limit", Live),
    ("flow-limit", Live),
    ("max-idle", Live),
    ("max-revalidator", Live),
    ("emc-insert-inv-prob", Live),
    ("smc-enable", Live),
    ("userspace-tso-enable", Live),
    ("n-handler-threads", Inert),
    ("n-revalidator-threads", Inert),
    ("min-revalidate-pps", Inert),
    ("offloaded-stats-delay", Inert),
    ("stats-update-interval", Inert),
    ("hw-offload", DefaultOnly),
    ("pmd-*", Inert),
    ("dpdk-*", Inert),
    ("tx-flush-interval", Inert),
    ("bundle-idle-timeout", Inert),
    ("ovs-*", Inert),
];

const BRIDGE_KEYS: Keys = &[
    ("hwaddr", Live),
    ("datapath-id", Live),
    ("mac-aging-time", Live),
    ("mac-table-size", Live),
    ("forward-bpdu", Live),
    ("dp-desc", Inert),
    ("dp-sn", Inert),
    ("disable-in-band", Inert),
    ("in-band-queue", Inert),
    ("enable-flush", Inert),
    ("mcast-snooping-aging-time", Live),
    ("mcast-snooping-table-size", Live),
    ("mcast-snooping-disable-flood-unregistered", Live),
    ("stp-*", Inert),
    ("rstp-*", Inert),
];

const PORT_KEYS: Keys = &[
    ("qinq-ethtype", Live),
    ("priority-tags", Live),
    ("hwaddr", Inert),
    ("stp-*", Inert),
    ("rstp-*", Inert),
    ("mcast-snooping-flood", Live),
    ("mcast-snooping-flood-reports", Live),
    ("bond-*", Inert),
    ("lacp-*", Inert),
];

const INTERFACE_KEYS: Keys = &[
    ("pmd-rxq-affinity", Inert),
    ("tx-steering", Inert),
    ("enable-response", Inert),
    ("emc-enable", DefaultOnly),
    ("lldp*", Inert),
    ("cfm_*", Inert),
];

const OPTION_KEYS: Keys = &[
    ("peer", Live),
    ("ol_ip_rx_csum_set_good", Live),
    ("ol_ip_rx_csum_set_bad", Live),
    ("ol_ip_rx_csum_set_partial", Live),
    ("ol_ip_tx_csum", Live),
    ("ol_ip_tx_csum_disabled", Live),
    ("ol_l4_rx_csum_set_good", Live),
    ("ol_l4_rx_csum_set_bad", Live),
    ("ol_l4_rx_csum_set_partial", Live),
    ("ol_l4_tx_csum", Live),
    ("ol_l4_tx_csum_disabled", Live),
    ("ol_out_ip_tx_csum", Live),
    ("ol_out_ip_tx_csum_disabled", Live),
    ("ol_out_udp_tx_csum", Live),
    ("ol_out_udp_tx_csum_disabled", Live),
    ("ol_tso_segsz", Live),
    ("remote_ip", Live),
    ("local_ip", Live),
    ("key", Live),
    ("in_key", Live),
    ("out_key", Live),
    ("tos", Live),
    ("ttl", Live),
    ("dst_port", Live),
    ("csum", Live),
    ("seq", Live),
    ("df_default", Live),
    ("packet_type", Live),
    ("exts", Live),
    ("egress_pkt_mark", Live),
    ("erspan_idx", Live),
    ("erspan_ver", Live),
    ("erspan_dir", Live),
    ("erspan_hwid", Live),
    ("srv6_segs", Live),
    ("srv6_flowlabel", Live),
    ("n_rxq", Inert),
    ("n_txq", Inert),
    ("numa_id", Inert),
    ("ifindex", Inert),
];

/// What setting a key of a map column does; `None` for a key that is not known.
pub fn key_effect(table: Table, column: &str, key: &str) -> Option<Effect> {
    let keys = match (table, column) {
        (Table::OpenVSwitch, "other_config") => SWITCH_KEYS,
        (Table::Bridge, "other_config") => BRIDGE_KEYS,
        (Table::Port, "other_config") => PORT_KEYS,
        (Table::Interface, "other_config") => INTERFACE_KEYS,
        (Table::Interface, "options") => OPTION_KEYS,
        _ => return Some(Effect::Inert),
    };
    let is = |name: &str| match name.strip_suffix('*') {
        Some(begin) => key.starts_with(begin),
        None => name == key,
    };
    keys.iter().find(|(name, _)| is(name)).map(|&(_, effect)| effect)
}
