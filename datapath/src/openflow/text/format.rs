//! Writing actions.
//!
//! Counterpart: OVS `ofpacts_format` and the `format_*` functions of `lib/ofp-actions.c`, `learn_format`,
//! `bundle_format`, `multipath_format`.

use std::fmt::Write;
use std::net::IpAddr;

use super::arguments::{HASH_FIELDS, MULTIPATH_ALGORITHMS, REASONS};
use super::ct::{ALG_FTP, ALG_TFTP};
use super::encap::HEADERS;
use super::names::{Names, format_port, format_table};
use super::value;
use crate::openflow::action::{
    Bundle, Controller, CtZone, Encap, EncapProp, HashFields, Learn, LearnDst, LearnSpec, LearnSrc,
    Multipath, NumberOrField, OfAction, OfCt, OfNat, OfNatKind, Resubmit, Sample, SampleDirection, SetField,
};
use crate::openflow::field::{FieldValue, Subfield};
use crate::openflow::flow_mod::DEFAULT_PRIORITY;
use crate::types::OfPort;

/// Most bits of one `load`.
const LOAD_BITS: u32 = 64;

/// Writes a list of actions; an empty one is `drop`.
pub(super) fn actions(out: &mut String, list: &[OfAction], names: &dyn Names) {
    if list.is_empty() {
        out.push_str("drop");
    }
    for (i, action) in list.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        ActionText { out, names }.action(action);
    }
}

/// Actions being written.
struct ActionText<'a> {
    out: &'a mut String,
    names: &'a dyn Names,
}

/// Appends formatted text; writing to a string cannot fail.
macro_rules! put {
    ($to:expr, $($arg:tt)*) => {{ let _ = write!($to.out, $($arg)*); }};
}

impl ActionText<'_> {
    fn action(&mut self, action: &OfAction) {
        match action {
            OfAction::Output { port, max_len } => {
                if *port < OfPort::MAX {
                    self.out.push_str("output:");
                }
                self.port(*port);
                if *port == OfPort::CONTROLLER {
                    put!(self, ":{max_len}");
                }
            }
            OfAction::OutputReg { src, .. } => self.sub("output:", src),
            OfAction::OutputTrunc { port, max_len } => {
                self.out.push_str("output(port=");
                self.port(*port);
                put!(self, ",max_len={max_len})");
            }
            OfAction::Controller(controller) => self.controller(controller),
            OfAction::Enqueue { port, queue } => {
                self.out.push_str("enqueue:");
                self.port(*port);
                put!(self, ":{queue}");
            }
            OfAction::Bundle(bundle) => self.bundle(bundle),
            OfAction::Group(id) => put!(self, "group:{id}"),
            OfAction::SetField(set) if set.load => self.load(set),
            OfAction::SetField(set) => {
                self.out.push_str("set_field:");
                value::format(self.out, set.field, &set.value, &set.mask, self.names);
                put!(self, "->{}", set.field);
            }
            OfAction::Move { src, dst } => {
                self.sub("move:", src);
                self.sub("->", dst);
            }
            OfAction::Push(src) => self.sub("push:", src),
            OfAction::Pop(dst) => self.sub("pop:", dst),
            OfAction::DeleteField(field) => put!(self, "delete_field:{field}"),
            OfAction::Encap(encap) => self.encap(encap),
            OfAction::Decap(None) => self.out.push_str("decap()"),
            OfAction::Decap(Some(kind)) => {
                put!(self, "decap(packet_type(ns={},type=", kind >> 16);
                // A plain 0 has no prefix, as C prints it.
                match kind & 0xffff {
                    0 => self.out.push_str("0))"),
                    kind => put!(self, "{kind:#x}))"),
                }
            }
            OfAction::Resubmit(resubmit) => self.resubmit(resubmit),
            OfAction::Learn(learn) => self.learn(learn),
            OfAction::Multipath(multipath) => self.multipath(multipath),
            OfAction::Note(data) => {
                self.out.push_str("note:");
                self.data(data);
            }
            OfAction::Sample(sample) => self.sample(sample),
            OfAction::Ct(ct) => self.ct(ct),
            OfAction::Nat(nat) => self.nat(nat),
            OfAction::Clone(list) => self.nested("clone", list),
            OfAction::WriteActions(list) => self.nested("write_actions", list),
            OfAction::CheckPktLarger { len, dst } => {
                put!(self, "check_pkt_larger({len})->");
                self.sub("", dst);
            }
            OfAction::GotoTable(table) => {
                self.out.push_str("goto_table:");
                format_table(self.out, *table, self.names);
            }
            _ => self.simple(action),
        }
    }

    /// Actions with numbers and addresses only.
    fn simple(&mut self, action: &OfAction) {
        match action {
            OfAction::SetVlanVid { vid, push_if_needed } => {
                put!(self, "{}_vlan_vid:{vid}", if *push_if_needed { "mod" } else { "set" });
            }
            OfAction::SetVlanPcp { pcp, push_if_needed } => {
                put!(self, "{}_vlan_pcp:{pcp}", if *push_if_needed { "mod" } else { "set" });
            }
            OfAction::StripVlan { pop: false } => self.out.push_str("strip_vlan"),
            OfAction::StripVlan { pop: true } => self.out.push_str("pop_vlan"),
            OfAction::PushVlan(kind) => put!(self, "push_vlan:{kind:#x}"),
            OfAction::SetEthSrc(mac) => put!(self, "mod_dl_src:{mac}"),
            OfAction::SetEthDst(mac) => put!(self, "mod_dl_dst:{mac}"),
            OfAction::SetIpv4Src(ip) => put!(self, "mod_nw_src:{ip}"),
            OfAction::SetIpv4Dst(ip) => put!(self, "mod_nw_dst:{ip}"),
            OfAction::SetIpDscp(tos) => put!(self, "mod_nw_tos:{tos}"),
            OfAction::SetIpEcn(ecn) => put!(self, "mod_nw_ecn:{ecn}"),
            OfAction::SetIpTtl(ttl) => put!(self, "mod_nw_ttl:{ttl}"),
            OfAction::SetL4Src(port) => put!(self, "mod_tp_src:{port}"),
            OfAction::SetL4Dst(port) => put!(self, "mod_tp_dst:{port}"),
            OfAction::DecTtl { plain: true, .. } => self.out.push_str("dec_ttl"),
            OfAction::DecTtl { ids, plain: false } => {
                let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
                put!(self, "dec_ttl({})", ids.join(","));
            }
            OfAction::SetMplsLabel(label) => put!(self, "set_mpls_label({label})"),
            OfAction::SetMplsTc(tc) => put!(self, "set_mpls_tc({tc})"),
            OfAction::SetMplsTtl(ttl) => put!(self, "set_mpls_ttl({ttl})"),
            OfAction::DecMplsTtl => self.out.push_str("dec_mpls_ttl"),
            OfAction::PushMpls(kind) => put!(self, "push_mpls:{kind:#06x}"),
            OfAction::PopMpls(kind) => put!(self, "pop_mpls:{kind:#06x}"),
            OfAction::DecNshTtl => self.out.push_str("dec_nsh_ttl"),
            OfAction::SetTunnel { id, wide } => {
                let suffix = if *wide || *id > u64::from(u32::MAX) { "64" } else { "" };
                put!(self, "set_tunnel{suffix}:");
                value::put_hex(self.out, &FieldValue::new((*id).into()));
            }
            OfAction::SetQueue(queue) => put!(self, "set_queue:{queue}"),
            OfAction::PopQueue => self.out.push_str("pop_queue"),
            OfAction::FinTimeout { idle, hard } => {
                let part = |name, n: u16| (n > 0).then(|| format!("{name}={n}"));
                let parts: Vec<String> = [part("idle_timeout", *idle), part("hard_timeout", *hard)]
                    .into_iter()
                    .flatten()
                    .collect();
                put!(self, "fin_timeout({})", parts.join(","));
            }
            OfAction::Conjunction { id, clause, n_clauses } => {
                put!(self, "conjunction({id},{}/{n_clauses})", clause + 1);
            }
            OfAction::Exit => self.out.push_str("exit"),
            OfAction::CtClear => self.out.push_str("ct_clear"),
            OfAction::DebugRecirc => self.out.push_str("debug_recirc"),
            OfAction::DebugSlow => self.out.push_str("debug_slow"),
            OfAction::Meter(id) => put!(self, "meter:{id}"),
            OfAction::ClearActions => self.out.push_str("clear_actions"),
            OfAction::WriteMetadata { value, mask } => {
                self.out.push_str("write_metadata:");
                value::put_hex(self.out, &FieldValue::new((*value).into()));
                if *mask != u64::MAX {
                    self.out.push('/');
                    value::put_hex(self.out, &FieldValue::new((*mask).into()));
                }
            }
            // Written by `action`.
            _ => {}
        }
    }

    fn port(&mut self, port: OfPort) {
        format_port(self.out, port, self.names);
    }

    fn sub(&mut self, before: &str, sub: &Subfield) {
        self.out.push_str(before);
        value::put_subfield(self.out, sub);
    }

    fn data(&mut self, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            put!(self, "{}{byte:02x}", if i > 0 { "." } else { "" });
        }
    }

    fn nested(&mut self, name: &str, list: &[OfAction]) {
        put!(self, "{name}(");
        actions(self.out, list, self.names);
        self.out.push(')');
    }

    /// Removes a comma at the end and closes the parenthesis.
    fn close(&mut self) {
        if self.out.ends_with(',') {
            self.out.pop();
        }
        self.out.push(')');
    }

    fn controller(&mut self, c: &Controller) {
        self.out.push_str("controller(");
        if c.reason != 1 {
            put!(self, "reason={},", REASONS.get(usize::from(c.reason)).unwrap_or(&""));
        }
        if c.max_len != u16::MAX {
            put!(self, "max_len={},", c.max_len);
        }
        if c.id != 0 {
            put!(self, "id={},", c.id);
        }
        if !c.userdata.is_empty() {
            self.out.push_str("userdata=");
            self.data(&c.userdata);
            self.out.push(',');
        }
        if c.pause {
            self.out.push_str("pause,");
        }
        if c.meter_id != 0 {
            put!(self, "meter_id={},", c.meter_id);
        }
        self.close();
    }

    fn hash_fields(&mut self, fields: HashFields) {
        let name = HASH_FIELDS.iter().find(|(f, _)| *f == fields).map_or("", |(_, name)| name);
        self.out.push_str(name);
    }

    fn bundle(&mut self, bundle: &Bundle) {
        self.out.push_str(if bundle.dst.is_some() { "bundle_load(" } else { "bundle(" });
        self.hash_fields(bundle.fields);
        put!(self, ",{},{},ofport,", bundle.basis, if bundle.hrw { "hrw" } else { "active_backup" });
        if let Some(dst) = &bundle.dst {
            self.sub("", dst);
            self.out.push(',');
        }
        self.out.push_str("members:");
        for (i, member) in bundle.members.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.port(*member);
        }
        self.out.push(')');
    }

    fn multipath(&mut self, m: &Multipath) {
        self.out.push_str("multipath(");
        self.hash_fields(m.fields);
        let algorithm =
            MULTIPATH_ALGORITHMS.iter().find(|(a, _)| *a == m.algorithm).map_or("", |(_, name)| name);
        put!(self, ",{},{algorithm},{},{},", m.basis, u32::from(m.max_link) + 1, m.arg);
        self.sub("", &m.dst);
        self.out.push(')');
    }

    /// Writes each run of bits that is set as a `load` of its own.
    fn load(&mut self, set: &SetField) {
        let n_bits = set.field.n_bits();
        let is_set = |bit: u32| set.mask.extract(bit, 1).low() == 1;
        let mut ofs = 0;
        let start = self.out.len();
        while let Some(first) = (ofs..n_bits).find(|&bit| is_set(bit)) {
            let limit = n_bits.min(first + LOAD_BITS);
            let end = (first + 1..limit).find(|&bit| !is_set(bit)).unwrap_or(limit);
            let sub = Subfield { field: set.field, ofs: first, n_bits: end - first };
            self.out.push_str(if self.out.len() > start { ",load:" } else { "load:" });
            value::put_hex(self.out, &set.value.extract(sub.ofs, sub.n_bits));
            self.sub("->", &sub);
            ofs = end;
        }
    }

    fn encap(&mut self, encap: &Encap) {
        let name = HEADERS.iter().find(|(_, kind)| *kind == encap.packet_type).map_or("UNKNOWN", |(n, _)| n);
        put!(self, "encap({name}");
        if !encap.props.is_empty() {
            self.out.push('(');
            for prop in &encap.props {
                match prop {
                    EncapProp::NshMdType(kind) => put!(self, "md_type={kind}"),
                    EncapProp::NshTlv { class, kind, data } => {
                        // Unlike OVS, with leading zeros: they are part of the value.
                        put!(self, "tlv({class:#06x},{kind},0x");
                        data.iter().for_each(|byte| put!(self, "{byte:02x}"));
                        self.out.push(')');
                    }
                }
                self.out.push(',');
            }
            self.close();
        }
        self.out.push(')');
    }

    fn resubmit(&mut self, resubmit: &Resubmit) {
        let named = resubmit.in_port != OfPort::IN_PORT;
        if named && resubmit.table.is_none() && !resubmit.with_ct_orig {
            self.out.push_str("resubmit:");
            return self.port(resubmit.in_port);
        }
        self.out.push_str("resubmit(");
        if named {
            self.port(resubmit.in_port);
        }
        self.out.push(',');
        if let Some(table) = resubmit.table {
            format_table(self.out, table, self.names);
        }
        if resubmit.with_ct_orig {
            self.out.push_str(",ct");
        }
        self.out.push(')');
    }

    fn learn(&mut self, learn: &Learn) {
        self.out.push_str("learn(table=");
        format_table(self.out, learn.table, self.names);
        for (name, seconds) in [
            ("idle_timeout", learn.idle_timeout),
            ("hard_timeout", learn.hard_timeout),
            ("fin_idle_timeout", learn.fin_idle_timeout),
            ("fin_hard_timeout", learn.fin_hard_timeout),
        ] {
            if seconds != 0 {
                put!(self, ",{name}={seconds}");
            }
        }
        if learn.priority != DEFAULT_PRIORITY {
            put!(self, ",priority={}", learn.priority);
        }
        if learn.send_flow_rem {
            self.out.push_str(",send_flow_rem");
        }
        if learn.delete_learned {
            self.out.push_str(",delete_learned");
        }
        if learn.cookie != 0 {
            put!(self, ",cookie={:#x}", learn.cookie);
        }
        if learn.limit != 0 {
            put!(self, ",limit={}", learn.limit);
        }
        if let Some(dst) = &learn.result_dst {
            self.sub(",result_dst=", dst);
        }
        for spec in &learn.specs {
            self.out.push(',');
            self.learn_spec(spec);
        }
        self.out.push(')');
    }

    fn learn_spec(&mut self, spec: &LearnSpec) {
        match (&spec.src, &spec.dst) {
            (LearnSrc::Immediate(value), LearnDst::Match(dst)) if dst.is_whole() => {
                put!(self, "{}=", dst.field);
                value::format(self.out, dst.field, value, &value::exact_mask(dst.field), self.names);
            }
            (LearnSrc::Immediate(value), LearnDst::Match(dst)) => {
                self.sub("", dst);
                self.out.push('=');
                value::put_hex(self.out, value);
            }
            (LearnSrc::Field(src), LearnDst::Match(dst)) => {
                self.sub("", dst);
                if src.field != dst.field || src.ofs != dst.ofs {
                    self.sub("=", src);
                }
            }
            (LearnSrc::Immediate(value), LearnDst::Load(dst)) => {
                self.out.push_str("load:");
                value::put_hex(self.out, value);
                self.sub("->", dst);
            }
            (LearnSrc::Field(src), LearnDst::Load(dst)) => {
                self.sub("load:", src);
                self.sub("->", dst);
            }
            (LearnSrc::Field(src), LearnDst::Output) => self.sub("output:", src),
            // Not to be had from text.
            (LearnSrc::Immediate(value), LearnDst::Output) => put!(self, "output:{value:#x}"),
        }
    }

    fn sample(&mut self, sample: &Sample) {
        put!(self, "sample(probability={}", sample.probability);
        put!(self, ",collector_set_id={}", sample.collector_set_id);
        for (name, value) in [("obs_domain_id", &sample.obs_domain), ("obs_point_id", &sample.obs_point)] {
            put!(self, ",{name}=");
            match value {
                NumberOrField::Number(n) => put!(self, "{n}"),
                NumberOrField::Field(src) => self.sub("", src),
            }
        }
        if sample.sampling_port != OfPort::NONE {
            self.out.push_str(",sampling_port=");
            self.port(sample.sampling_port);
        }
        self.out.push_str(match sample.direction {
            SampleDirection::Default => "",
            SampleDirection::Ingress => ",ingress",
            SampleDirection::Egress => ",egress",
        });
        self.out.push(')');
    }

    fn ct(&mut self, ct: &OfCt) {
        self.out.push_str("ct(");
        if ct.commit {
            self.out.push_str("commit,");
        }
        if ct.force {
            self.out.push_str("force,");
        }
        if let Some(table) = ct.recirc_table {
            self.out.push_str("table=");
            format_table(self.out, table, self.names);
            self.out.push(',');
        }
        match &ct.zone {
            CtZone::Field(src) => {
                self.sub("zone=", src);
                self.out.push(',');
            }
            CtZone::Number(zone) if zone.0 != 0 => put!(self, "zone={},", zone.0),
            CtZone::Number(_) => {}
        }
        let exec = match ct.exec.split_first() {
            Some((OfAction::Nat(nat), rest)) => {
                self.nat(nat);
                self.out.push(',');
                rest
            }
            Some(_) | None => &ct.exec[..],
        };
        if !exec.is_empty() {
            self.nested("exec", exec);
            self.out.push(',');
        }
        match ct.alg {
            0 => {}
            ALG_FTP => self.out.push_str("alg=ftp,"),
            ALG_TFTP => self.out.push_str("alg=tftp,"),
            port => put!(self, "alg={port},"),
        }
        self.close();
    }

    fn nat(&mut self, nat: &OfNat) {
        self.out.push_str("nat");
        match nat.kind {
            OfNatKind::Existing => return,
            OfNatKind::Src => self.out.push_str("(src"),
            OfNatKind::Dst => self.out.push_str("(dst"),
        }
        if let Some((first, last)) = &nat.addr {
            self.out.push('=');
            self.nat_addr(*first, nat.port.is_some());
            if let Some(last) = last {
                self.out.push('-');
                self.nat_addr(*last, nat.port.is_some());
            }
            if let Some((low, high)) = nat.port {
                put!(self, ":{low}");
                if let Some(high) = high {
                    put!(self, "-{high}");
                }
            }
        }
        self.out.push(',');
        // OVS forgets to print these where there is no address.
        for (set, name) in [(nat.persistent, "persistent,"), (nat.hash, "hash,"), (nat.random, "random,")] {
            if set {
                self.out.push_str(name);
            }
        }
        self.close();
    }

    fn nat_addr(&mut self, addr: IpAddr, bracket: bool) {
        match addr {
            IpAddr::V4(ip) => put!(self, "{ip}"),
            IpAddr::V6(ip) if bracket => {
                self.out.push('[');
                value::put_ipv6_addr(self.out, ip.into());
                self.out.push(']');
            }
            IpAddr::V6(ip) => value::put_ipv6_addr(self.out, ip.into()),
        }
    }
}
