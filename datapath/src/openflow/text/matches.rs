//! Matches in text.
//!
//! Counterpart: the matching part of OVS `parse_ofp_str__`, `match_format` of `lib/match.c`, and
//! `ofputil_normalize_match`.

use std::fmt::Write;

use super::error::{ErrorKind, Fault};
use super::flags;
use super::names::{Names, format_port};
use super::scan::KeyValue;
use super::value;
use crate::flow::{Flow, VLAN_CFI};
use crate::openflow::field::{Field, FieldValue, Format, Prereq};
use crate::openflow::headers::{
    IP_DSCP_MASK, IP_ECN_MASK, VLAN_PCP_MASK, VLAN_VID_MASK, ethertype, ip_proto, is_ip_any, packet_type,
};
use crate::openflow::protocol::{Protocols, usable};
use crate::openflow::rule_match::Match;
use crate::types::{MacAddr, OfPort};

/// Words that stand for an Ethernet type and, if not 0, an IP protocol.
const SHORTHANDS: [(&str, u16, u8); 17] = [
    ("ip", ethertype::IPV4, 0),
    ("ipv4", ethertype::IPV4, 0),
    ("ip4", ethertype::IPV4, 0),
    ("arp", ethertype::ARP, 0),
    ("icmp", ethertype::IPV4, ip_proto::ICMP),
    ("tcp", ethertype::IPV4, ip_proto::TCP),
    ("udp", ethertype::IPV4, ip_proto::UDP),
    ("sctp", ethertype::IPV4, ip_proto::SCTP),
    ("ipv6", ethertype::IPV6, 0),
    ("ip6", ethertype::IPV6, 0),
    ("icmp6", ethertype::IPV6, ip_proto::ICMPV6),
    ("tcp6", ethertype::IPV6, ip_proto::TCP),
    ("udp6", ethertype::IPV6, ip_proto::UDP),
    ("sctp6", ethertype::IPV6, ip_proto::SCTP),
    ("rarp", ethertype::RARP, 0),
    ("mpls", ethertype::MPLS, 0),
    ("mplsm", ethertype::MPLS_MULTICAST, 0),
];

/// The Ethernet type and, if not 0, the IP protocol that a word stands for.
pub(super) fn shorthand(word: &str) -> Option<(u16, u8)> {
    SHORTHANDS.iter().find(|(name, ..)| *name == word).map(|&(_, dl_type, proto)| (dl_type, proto))
}

/// Most bytes of tunnel options that a match can hold.
const TUN_METADATA_MAX: u32 = 256;

/// Reads one word of a match into `out`. Returns whether it was one.
pub(super) fn parse_word<'a>(
    word: KeyValue<'a>,
    out: &mut Match,
    names: &dyn Names,
    protocols: &mut Protocols,
) -> Result<bool, Fault<'a>> {
    let KeyValue { key, value } = word;
    if let Some((dl_type, proto)) = shorthand(key) {
        out.set_exact(Field::EthType, &FieldValue::new(u128::from(dl_type)));
        if proto != 0 {
            out.set_exact(Field::NwProto, &FieldValue::new(u128::from(proto)));
        }
        need_ethernet(out);
    } else if key == "eth" {
        out.set_exact(Field::PacketType, &FieldValue::ZERO);
    } else if let Some(field) = value::field_by_name(key) {
        parse_field(field, key, value, out, names, protocols)?;
    } else if key.contains('[') {
        parse_range(key, value, out, protocols)?;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// Most fields exist in Ethernet frames only, unless the packet type says otherwise.
fn need_ethernet(out: &mut Match) {
    if out.mask.packet_type.get() == 0 {
        out.set_exact(Field::PacketType, &FieldValue::ZERO);
    }
}

fn parse_field<'a>(
    field: Field,
    key: &'a str,
    text: &'a str,
    out: &mut Match,
    names: &dyn Names,
    protocols: &mut Protocols,
) -> Result<(), Fault<'a>> {
    // Without a value only the presence of the field is meant, which matters for tunnel options.
    let (value, mask) = if text.is_empty() {
        match field.info().format {
            Format::Decimal | Format::Hex => (FieldValue::ZERO, FieldValue::ZERO),
            _ => value::parse(field, "0/0", names).map_err(|fault| Fault::new(key, fault.kind))?,
        }
    } else {
        value::parse(field, text, names)?
    };
    if let Field::TunMetadata(index) = field {
        check_tun_metadata(index, key, out, &value, &mask)?;
    }
    set(out, field, &value, &mask);
    *protocols &= usable(field, &mask);
    if field.info().prereq != Prereq::None {
        need_ethernet(out);
    }
    Ok(())
}

/// Sets the bits that text named; a mask that has all bits of a value in a message is exact.
fn set(out: &mut Match, field: Field, value: &FieldValue, mask: &FieldValue) {
    if *mask == value::exact_mask(field) && !matches!(field, Field::TunMetadata(_)) {
        out.set_exact(field, value);
    } else {
        out.set(field, value, mask);
    }
}

/// A tunnel option may be named once, and all must fit together.
fn check_tun_metadata<'a>(
    index: u8,
    key: &'a str,
    out: &Match,
    value: &FieldValue,
    mask: &FieldValue,
) -> Result<(), Fault<'a>> {
    if out.tun_metadata.iter().any(|m| m.index == index) {
        return Err(Fault::new(key, ErrorKind::FieldTwice(key.to_owned())));
    }
    let exact = *mask == value::exact_mask(Field::TunMetadata(index));
    let n_bytes = |value: &FieldValue, mask: &FieldValue, exact: bool| {
        let bits = if exact { value.bit_len() } else { value.bit_len().max(mask.bit_len()) };
        bits.div_ceil(8)
    };
    let before: u32 = out.tun_metadata.iter().map(|m| n_bytes(&m.value, &m.mask, m.exact)).sum();
    let used = before + n_bytes(value, mask, exact);
    if used > TUN_METADATA_MAX {
        return Err(Fault::new(key, ErrorKind::TunMetadataSize { field: key.to_owned(), used }));
    }
    Ok(())
}

/// Reads `field[bits]=value`.
fn parse_range<'a>(
    key: &'a str,
    text: &'a str,
    out: &mut Match,
    protocols: &mut Protocols,
) -> Result<(), Fault<'a>> {
    let sub = value::parse_subfield(key)?;
    let info = sub.field.info();
    let number = value::whole_integer(text, info.n_bytes)
        .ok_or_else(|| Fault::new(text, ErrorKind::Integer(format!("{key}={text}"))))?;
    if number.bit_len() > sub.n_bits {
        return Err(Fault::new(text, value::does_not_fit(key, &sub, &number)));
    }
    let (old_value, old_mask) = out.get(sub.field);
    let value = old_value.deposit(sub.ofs, sub.n_bits, &number);
    let mask = old_mask | sub.bits();
    if !info.maskable && mask != value::exact_mask(sub.field) && mask != FieldValue::ones(info.n_bits) {
        // OVS leaves the match as it was and finds no usable protocol.
        return Err(Fault::new(
            key,
            ErrorKind::InvalidMask { text: key.to_owned(), field: sub.field.to_string() },
        ));
    }
    set(out, sub.field, &value, &mask);
    *protocols &= usable(sub.field, &mask);
    if info.prereq != Prereq::None {
        need_ethernet(out);
    }
    Ok(())
}

/// Writes a match, with its priority in front if that is given and not the default.
pub(super) fn format(out: &mut String, rule: &Match, priority: Option<u16>, names: &dyn Names) {
    let mut text = MatchText { out, names, flow: &rule.flow, mask: &rule.mask };
    let start = text.out.len();
    if let Some(priority) = priority.filter(|&p| p != crate::openflow::flow_mod::DEFAULT_PRIORITY) {
        text.put("priority", priority);
    }
    text.metadata();
    let (kind, skip_type, skip_proto) = text.protocol();
    text.registers_and_tunnel(rule);
    text.l2(kind, skip_type);
    text.l3(kind, skip_proto);
    text.mpls_and_fragment();
    text.l4(kind);
    if text.out.len() > start && text.out.ends_with(',') {
        text.out.pop();
    }
}

/// A match being written.
struct MatchText<'a> {
    out: &'a mut String,
    names: &'a dyn Names,
    flow: &'a Flow,
    mask: &'a Flow,
}

// Writing to a string cannot fail, so results of `write!` are dropped.
impl MatchText<'_> {
    /// `name=value,`
    fn put(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.out, "{name}={value},");
    }

    /// Decimal if exact, else hexadecimal with its mask.
    fn decimal(&mut self, name: &str, value: u32, mask: u32, all: u32) {
        if mask == all {
            self.put(name, value);
        } else if mask != 0 {
            let width = if all == 0xff { 4 } else { 0 };
            let _ = write!(self.out, "{name}={value:#0width$x}/{mask:#0width$x},");
        }
    }

    /// Hexadecimal, zero as `0`.
    fn hex(&mut self, name: &str, value: u64, mask: u64, all: u64) {
        if mask == 0 {
            return;
        }
        let _ = write!(self.out, "{name}=");
        value::put_hex(self.out, &FieldValue::new(value.into()));
        if mask != all {
            self.out.push('/');
            value::put_hex(self.out, &FieldValue::new(mask.into()));
        }
        self.out.push(',');
    }

    /// Hexadecimal, zero as `0x0`.
    fn plain_hex(&mut self, name: &str, value: u32, mask: u32, width: usize) {
        if mask == u32::MAX {
            let _ = write!(self.out, "{name}={value:#0width$x},");
        } else if mask != 0 {
            let _ = write!(self.out, "{name}={value:#0width$x}/{mask:#0width$x},");
        }
    }

    fn port(&mut self, name: &str, port: u32) {
        let _ = write!(self.out, "{name}=");
        // Ports of matches have 16 bits; a megaflow's have been translated before.
        format_port(self.out, OfPort(port as u16), self.names);
        self.out.push(',');
    }

    fn ipv4(&mut self, name: &str, value: u32, mask: u32) {
        if mask != 0 {
            let _ = write!(self.out, "{name}=");
            value::put_ipv4(self.out, value, mask);
            self.out.push(',');
        }
    }

    fn ipv6(&mut self, name: &str, value: &[u8; 16], mask: &[u8; 16]) {
        if *mask != [0; 16] {
            let _ = write!(self.out, "{name}=");
            value::put_ipv6(self.out, u128::from_be_bytes(*value), u128::from_be_bytes(*mask));
            self.out.push(',');
        }
    }

    fn mac(&mut self, name: &str, value: MacAddr, mask: MacAddr) {
        if mask != MacAddr::ZERO {
            let _ = write!(self.out, "{name}=");
            value::put_mac(self.out, value, mask);
            self.out.push(',');
        }
    }

    fn flags(&mut self, name: &str, names: &flags::FlagNames, value: u32, mask: u32, all: u32) {
        if mask != 0 {
            let _ = write!(self.out, "{name}=");
            flags::format_masked(self.out, names, value, mask, all);
            self.out.push(',');
        }
    }

    fn metadata(&mut self) {
        let (f, m) = (self.flow, self.mask);
        let word = u64::from(u32::MAX);
        self.hex("pkt_mark", f.pkt_mark.into(), m.pkt_mark.into(), word);
        self.hex("recirc_id", f.recirc_id.into(), m.recirc_id.into(), word);
        self.hex("dp_hash", f.dp_hash.into(), m.dp_hash.into(), word);
        if m.conj_id != 0 {
            self.put("conj_id", f.conj_id);
        }
        if m.skb_priority != 0 {
            self.hex("skb_priority", f.skb_priority.into(), word, word);
        }
        if m.actset_output != 0 {
            self.port("actset_output", f.actset_output);
        }
        self.flags("ct_state", flags::CT_STATE, f.ct_state.into(), m.ct_state.into(), 0xff);
        self.decimal("ct_zone", f.ct_zone.into(), m.ct_zone.into(), 0xffff);
        self.hex("ct_mark", f.ct_mark.into(), m.ct_mark.into(), word);
        let (label, label_mask) = (f.ct_label.get(), m.ct_label.get());
        if label_mask != 0 {
            self.out.push_str("ct_label=");
            value::put_hex(self.out, &FieldValue::new(label));
            if label_mask != u128::MAX {
                self.out.push('/');
                value::put_hex(self.out, &FieldValue::new(label_mask));
            }
            self.out.push(',');
        }
        self.ipv4("ct_nw_src", f.ct_nw_src.get(), m.ct_nw_src.get());
        self.ipv6("ct_ipv6_src", &f.ct_ipv6_src, &m.ct_ipv6_src);
        self.ipv4("ct_nw_dst", f.ct_nw_dst.get(), m.ct_nw_dst.get());
        self.ipv6("ct_ipv6_dst", &f.ct_ipv6_dst, &m.ct_ipv6_dst);
        if m.ct_nw_proto != 0 {
            self.put("ct_nw_proto", f.ct_nw_proto);
        }
        // OVS prints these behind ct_nw_proto only, and forgets them without it.
        self.decimal("ct_tp_src", f.ct_tp_src.get().into(), m.ct_tp_src.get().into(), 0xffff);
        self.decimal("ct_tp_dst", f.ct_tp_dst.get().into(), m.ct_tp_dst.get().into(), 0xffff);
    }

    /// Writes packet type and protocol. Returns the Ethernet type, and whether that and the IP protocol have been
    /// written.
    fn protocol(&mut self) -> (u16, bool, bool) {
        let (f, m) = (self.flow, self.mask);
        let mut kind = f.dl_type.get();
        let default_type = f.packet_type.get() == packet_type::ETHERNET && m.packet_type.get() == u32::MAX;
        if m.packet_type.get() != 0 && (!default_type || m.recirc_id != 0) {
            value::format_packet_type(self.out, f.packet_type.get(), m.packet_type.get());
            self.out.push(',');
            if f.packet_type.get() >> 16 == packet_type::NS_ETHERTYPE {
                kind = f.packet_type.get() as u16;
            }
        }
        if m.dl_type.get() == 0 {
            return (kind, false, false);
        }
        let proto = (m.nw_proto != 0).then_some(f.nw_proto);
        let known = SHORTHANDS.iter().find(|&&(_, k, p)| k == kind && p != 0 && Some(p) == proto);
        if let Some((name, ..)) = known {
            let _ = write!(self.out, "{name},");
            return (kind, true, true);
        }
        let word = match kind {
            ethertype::IPV4 => "ip",
            ethertype::IPV6 => "ipv6",
            ethertype::ARP => "arp",
            ethertype::RARP => "rarp",
            ethertype::MPLS => "mpls",
            ethertype::MPLS_MULTICAST => "mplsm",
            _ => return (kind, false, false),
        };
        let _ = write!(self.out, "{word},");
        (kind, true, false)
    }

    fn registers_and_tunnel(&mut self, rule: &Match) {
        let (f, m) = (self.flow, self.mask);
        let word = u64::from(u32::MAX);
        for (i, (&reg, &mask)) in f.regs.iter().zip(&m.regs).enumerate() {
            if mask != 0 {
                self.hex(&format!("reg{i}"), reg.into(), mask.into(), word);
            }
        }
        let (t, tm) = (&f.tunnel, &m.tunnel);
        self.hex("tun_id", t.tun_id.get(), tm.tun_id.get(), u64::MAX);
        self.ipv4("tun_src", t.ip_src.get(), tm.ip_src.get());
        self.ipv4("tun_dst", t.ip_dst.get(), tm.ip_dst.get());
        self.ipv6("tun_ipv6_src", &t.ipv6_src, &tm.ipv6_src);
        self.ipv6("tun_ipv6_dst", &t.ipv6_dst, &tm.ipv6_dst);
        self.decimal("tun_gbp_id", t.gbp_id.get().into(), tm.gbp_id.get().into(), 0xffff);
        // Here OVS does not print masks, nor ERSPAN fields without their version, and prints the ToS byte in hexadecimal
        // without saying so. What is printed here can be read again.
        self.hex("tun_gbp_flags", t.gbp_flags.into(), tm.gbp_flags.into(), 0xff);
        if tm.ip_tos != 0 {
            self.put("tun_tos", t.ip_tos);
        }
        if tm.ip_ttl != 0 {
            self.put("tun_ttl", t.ip_ttl);
        }
        self.decimal("tun_erspan_ver", t.erspan_ver.into(), tm.erspan_ver.into(), 0xf);
        self.hex("tun_erspan_idx", t.erspan_idx.into(), tm.erspan_idx.into(), 0xfffff);
        self.decimal("tun_erspan_dir", t.erspan_dir.into(), tm.erspan_dir.into(), 1);
        self.hex("tun_erspan_hwid", t.erspan_hwid.into(), tm.erspan_hwid.into(), 0x3f);
        self.hex("gtpu_flags", t.gtpu_flags.into(), tm.gtpu_flags.into(), 0xff);
        self.decimal("gtpu_msgtype", t.gtpu_msgtype.into(), tm.gtpu_msgtype.into(), 0xff);
        self.flags("tun_flags", flags::TUN_FLAGS, (t.flags & 0xf).into(), (tm.flags & 0xf).into(), 0xf);
        for option in &rule.tun_metadata {
            let _ = write!(self.out, "tun_metadata{}", option.index);
            if option.exact || !option.mask.is_zero() {
                self.out.push('=');
                value::put_hex(self.out, &option.value);
            }
            if !option.exact && !option.mask.is_zero() {
                self.out.push('/');
                value::put_hex(self.out, &option.mask);
            }
            self.out.push(',');
        }
        self.hex("metadata", f.metadata.get(), m.metadata.get(), u64::MAX);
        if m.in_port != 0 {
            self.port("in_port", f.in_port);
        }
    }

    fn l2(&mut self, kind: u16, skip_type: bool) {
        let (f, m) = (self.flow, self.mask);
        for (i, (tag, mask)) in f.vlans.iter().zip(&m.vlans).enumerate() {
            let (tci, mask) = (tag.tci.get(), mask.tci.get());
            if mask == 0 {
                break;
            }
            let n = if i == 0 { String::new() } else { i.to_string() };
            let whole = |part: u16| mask & part == 0 || mask & part == part;
            let tagged = mask & tci & VLAN_CFI != 0;
            if tagged && whole(VLAN_VID_MASK) && whole(VLAN_PCP_MASK) && mask != VLAN_CFI {
                if mask & VLAN_VID_MASK != 0 {
                    self.put(&format!("dl_vlan{n}"), tci & VLAN_VID_MASK);
                }
                if mask & VLAN_PCP_MASK != 0 {
                    self.put(&format!("dl_vlan_pcp{n}"), tci >> 13);
                }
            } else if mask == u16::MAX {
                let _ = write!(self.out, "vlan_tci{n}={tci:#06x},");
            } else {
                let _ = write!(self.out, "vlan_tci{n}={tci:#06x}/{mask:#06x},");
            }
        }
        self.mac("dl_src", f.dl_src, m.dl_src);
        self.mac("dl_dst", f.dl_dst, m.dl_dst);
        if !skip_type && m.dl_type.get() != 0 {
            let _ = write!(self.out, "dl_type={kind:#06x},");
        }
    }

    fn l3(&mut self, kind: u16, skip_proto: bool) {
        let (f, m) = (self.flow, self.mask);
        let arp = matches!(kind, ethertype::ARP | ethertype::RARP);
        match kind {
            ethertype::IPV6 => {
                self.ipv6("ipv6_src", &f.ipv6_src, &m.ipv6_src);
                self.ipv6("ipv6_dst", &f.ipv6_dst, &m.ipv6_dst);
                // OVS writes at least five digits; and the mask, if it has the label's 20 bits only.
                self.plain_hex("ipv6_label", f.ipv6_label.get(), m.ipv6_label.get(), 7);
            }
            ethertype::NSH => self.nsh(),
            _ => {
                let (src, dst) = if arp { ("arp_spa", "arp_tpa") } else { ("nw_src", "nw_dst") };
                self.ipv4(src, f.nw_src.get(), m.nw_src.get());
                self.ipv4(dst, f.nw_dst.get(), m.nw_dst.get());
            }
        }
        if !skip_proto && m.nw_proto != 0 {
            self.put(if arp { "arp_op" } else { "nw_proto" }, f.nw_proto);
        }
        if arp {
            self.mac("arp_sha", f.arp_sha, m.arp_sha);
            self.mac("arp_tha", f.arp_tha, m.arp_tha);
        }
        if m.nw_tos & IP_DSCP_MASK != 0 {
            self.put("nw_tos", f.nw_tos & IP_DSCP_MASK);
        }
        if m.nw_tos & IP_ECN_MASK != 0 {
            self.put("nw_ecn", f.nw_tos & IP_ECN_MASK);
        }
        if m.nw_ttl != 0 {
            self.put("nw_ttl", f.nw_ttl);
        }
    }

    fn nsh(&mut self) {
        let (f, m) = (&self.flow.nsh, &self.mask.nsh);
        self.decimal("nsh_flags", f.flags.into(), m.flags.into(), 0xff);
        self.decimal("nsh_ttl", f.ttl.into(), m.ttl.into(), 0xff);
        self.decimal("nsh_mdtype", f.mdtype.into(), m.mdtype.into(), 0xff);
        self.decimal("nsh_np", f.np.into(), m.np.into(), 0xff);
        let (path, path_mask) = (f.path_hdr.get(), m.path_hdr.get());
        let spi_mask = if path_mask >> 8 == 0xff_ffff { u32::MAX } else { path_mask >> 8 };
        self.plain_hex("nsh_spi", path >> 8, spi_mask, 0);
        self.decimal("nsh_si", path & 0xff, path_mask & 0xff, 0xff);
        for (i, (word, mask)) in f.context.iter().zip(&m.context).enumerate() {
            self.plain_hex(&format!("nsh_c{}", i + 1), word.get(), mask.get(), 0);
        }
    }

    fn mpls_and_fragment(&mut self) {
        let (f, m) = (self.flow, self.mask);
        let (lse, mask) = (f.mpls_lse[0].get(), m.mpls_lse[0].get());
        for (name, shift, bits) in
            [("mpls_label", 12, 0xfffff), ("mpls_tc", 9, 7), ("mpls_ttl", 0, 0xff), ("mpls_bos", 8, 1)]
        {
            if mask >> shift & bits != 0 {
                self.put(name, lse >> shift & bits);
            }
        }
        for (name, i) in [("mpls_lse1", 1), ("mpls_lse2", 2)] {
            let (lse, mask) = (f.mpls_lse[i].get(), m.mpls_lse[i].get());
            if mask == u32::MAX {
                self.put(name, lse);
            } else {
                self.plain_hex(name, lse, mask, 10);
            }
        }
        if m.nw_frag & 3 != 0 {
            self.put("nw_frag", value::frag_name(f.nw_frag, m.nw_frag));
        }
    }

    fn l4(&mut self, kind: u16) {
        let (f, m) = (self.flow, self.mask);
        let icmp = kind == ethertype::IPV4 && f.nw_proto == ip_proto::ICMP;
        let icmpv6 = kind == ethertype::IPV6 && f.nw_proto == ip_proto::ICMPV6;
        let (src, dst) = if icmp || icmpv6 { ("icmp_type", "icmp_code") } else { ("tp_src", "tp_dst") };
        self.decimal(src, f.tp_src.get().into(), m.tp_src.get().into(), 0xffff);
        self.decimal(dst, f.tp_dst.get().into(), m.tp_dst.get().into(), 0xffff);
        if icmpv6 {
            self.ipv6("nd_target", &f.nd_target, &m.nd_target);
            self.mac("nd_sll", f.arp_sha, m.arp_sha);
            self.mac("nd_tll", f.arp_tha, m.arp_tha);
            let (reserved, mask) = (f.igmp_group_ip4.get(), m.igmp_group_ip4.get());
            if mask == u32::MAX {
                self.put("nd_reserved", reserved);
            } else {
                self.plain_hex("nd_reserved", reserved, mask, 10);
            }
            self.decimal("nd_options_type", f.tcp_flags.get().into(), m.tcp_flags.get().into(), 0xffff);
        }
        if is_ip_any(f) && f.nw_proto == ip_proto::TCP {
            let (value, mask) = (f.tcp_flags.get() & 0xfff, m.tcp_flags.get() & 0xfff);
            self.flags("tcp_flags", flags::TCP_FLAGS, value.into(), mask.into(), 0xfff);
        }
    }
}
