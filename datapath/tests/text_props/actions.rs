//! Any actions that text can say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use datapath::action::text::parse_actions;
use datapath::action::{
    Action, Ct, HashAlg, Nat, NatKind, PushNsh, SetField, SetGroup, Userspace, UserspaceCookie,
};
use datapath::flow::{Flow, Nsh};
use datapath::types::{MacAddr, PortNo, RecircId};

use super::chance::Chance;

/// Headers of all kinds of tunnels.
const TNL_PUSH: [&str; 8] = [
    "type=3,size=42,4,gre((flags=0x2000,proto=0x6558),key=0x2a)",
    "type=109,size=70,6,gre((flags=0xb000,proto=0x6558),csum=0x1,key=0x2a,seq=0x3)",
    "type=4,size=50,4,udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0x8000000,vni=0x2a)",
    "type=5,size=78,6,udp(src=0,dst=6081,csum=0x0),geneve(oam,vni=0x2a,options({class=0x102,type=0x80,len=4,0xa}))",
    "type=107,size=50,4,erspan(ver=1,sid=0x3ff,idx=0xfffff)",
    "type=108,size=74,6,erspan(ver=2,sid=0x1,dir=1,hwid=0x3f)",
    "type=110,size=50,4,udp(src=0,dst=2152,csum=0x0),gtpu(flags=0x30,msgtype=255,teid=0x2a)",
    "type=112,size=94,6,srv6(segments_left=1,segs(2001:db8::3,2001:db8::4))",
];

/// A list with at least one action, since none at all and `drop` look alike.
pub fn list(c: &mut Chance<'_>, depth: usize) -> Box<[Action]> {
    (0..1 + c.below(3)).map(|_| action(c, depth)).collect()
}

/// A list inside another action, which may be empty.
fn nested(c: &mut Chance<'_>, depth: usize) -> Box<[Action]> {
    if c.maybe() { Box::default() } else { list(c, depth + 1) }
}

fn action(c: &mut Chance<'_>, depth: usize) -> Action {
    match c.below(if depth < 4 { 28 } else { 24 }) {
        0 => Action::Output(port(c)),
        1 => Action::Trunc(c.u32()),
        2 => Action::Userspace(Box::new(userspace(c))),
        3..6 => set(c),
        6 => Action::PushVlan { tpid: c.u16(), tci: c.u16() },
        7 => Action::PopVlan,
        8 => Action::PushMpls { ethertype: c.u16(), lse: c.u32() },
        9 => Action::PopMpls(c.u16()),
        10 => Action::Hash(HashAlg::L4(c.u32())),
        11 => Action::Hash(HashAlg::SymL4(c.u32())),
        12 => Action::Recirc(RecircId(c.u32())),
        13 => Action::Meter(c.u32()),
        14 => Action::CtClear,
        15 => Action::Ct(Box::new(ct(c))),
        16 => Action::PushEth { dst: MacAddr(c.bytes()), src: MacAddr(c.bytes()) },
        17 => Action::PopEth,
        18 => Action::PushNsh(Box::new(push_nsh(c))),
        19 => Action::PopNsh,
        20 => tnl_push(c),
        21 => Action::TnlPop(port(c)),
        22 => Action::LbOutput(c.u32()),
        23 => psample(c),
        24 => Action::Clone(nested(c, depth)),
        25 => Action::Sample { probability: probability(c), actions: nested(c, depth) },
        26 => Action::CheckPktLen { len: c.u16(), greater: nested(c, depth), not_greater: nested(c, depth) },
        _ => Action::DecTtl(nested(c, depth)),
    }
}

fn port(c: &mut Chance<'_>) -> PortNo {
    PortNo(c.u32())
}

/// Text has tenths of a percent.
fn probability(c: &mut Chance<'_>) -> u32 {
    let tenths = c.below(1001) as f64 / 10.0;
    (f64::from(u32::MAX) * (tenths / 100.0) + 0.5).floor() as u32
}

fn psample(c: &mut Chance<'_>) -> Action {
    let cookie = (0..c.below(17)).map(|_| c.u8()).collect();
    Action::Psample { group: c.u32(), cookie }
}

fn tnl_push(c: &mut Chance<'_>) -> Action {
    let text = TNL_PUSH[c.below(TNL_PUSH.len() as u64) as usize];
    let mut parts = text.splitn(4, ',');
    let mut part = || parts.next().expect("four parts");
    let (tnl_type, size, version, tunnel) = (part(), part(), part(), part());
    let network = if version == "4" {
        "dl_type=0x0800),ipv4(src=192.0.2.1,dst=192.0.2.2,proto=47,tos=0x3,ttl=64,frag=0x4000)"
    } else {
        "dl_type=0x86dd),ipv6(src=2001:db8::1,dst=2001:db8::2,label=5,proto=47,tclass=0x3,hlimit=64)"
    };
    let text = format!(
        "tnl_push(tnl_port({}),header({size},{tnl_type},eth(dst=02:00:00:00:00:02,src=02:00:00:00:00:01,{network},\
         {tunnel}),out_port({}))",
        c.u16(),
        c.u16()
    );
    parse_actions(&text, None).unwrap_or_else(|error| panic!("{text}: {error}"))[0].clone()
}

fn push_nsh(c: &mut Chance<'_>) -> PushNsh {
    let mut header = Nsh { flags: c.u8(), ttl: c.u8(), mdtype: 1, np: c.u8(), ..Nsh::default() };
    header.path_hdr.set(c.u32());
    let mut md2 = Vec::new();
    if c.maybe() {
        header.mdtype = 2;
        let words = 1 + c.below(62);
        md2 = (0..words * 4).map(|_| c.u8()).collect();
    } else {
        header.context.iter_mut().for_each(|context| context.set(c.u32()));
    }
    PushNsh { header, md2: md2.into() }
}

fn userspace(c: &mut Chance<'_>) -> Userspace {
    let cookie = match c.below(7) {
        0 => UserspaceCookie::None,
        1 => UserspaceCookie::SlowPath { reason: c.bits(7) as u32 },
        2 => UserspaceCookie::Controller {
            reason: c.u16(),
            dont_send: c.maybe(),
            continuation: c.maybe(),
            recirc_id: c.u32(),
            rule_cookie: c.word(),
            controller_id: c.u16(),
            max_len: c.u16(),
        },
        3 => UserspaceCookie::SFlow { vid: c.bits(12) as u16, pcp: c.bits(3) as u8, output: c.u32() },
        4 => UserspaceCookie::FlowSample {
            probability: c.u16(),
            collector_set_id: c.u32(),
            obs_domain_id: c.u32(),
            obs_point_id: c.u32(),
            output_port: c.u32(),
            direction: c.below(3) as u8,
        },
        5 => UserspaceCookie::Ipfix { output_port: c.u32() },
        _ => UserspaceCookie::Raw((0..8 + c.below(40)).map(|_| c.u8()).collect()),
    };
    let tunnel_out_port = c.maybe().then(|| port(c));
    Userspace { pid: c.u32(), cookie, actions: c.maybe(), tunnel_out_port }
}

fn ct(c: &mut Chance<'_>) -> Ct {
    let force = c.maybe();
    Ct {
        commit: force || c.maybe(),
        force,
        zone: c.u16(),
        mark: c.maybe().then(|| (c.u32(), c.u32() | 1)),
        label: c.maybe().then(|| (c.u128(), c.u128() | 1)),
        helper: c.maybe().then(|| "tftp".to_owned()),
        timeout: c.maybe().then(|| "policy_1-tcp".to_owned()),
        nat: c.maybe().then(|| nat(c)),
    }
}

fn nat(c: &mut Chance<'_>) -> Nat {
    let kind = [NatKind::Existing, NatKind::Src, NatKind::Dst][c.below(3) as usize];
    if kind == NatKind::Existing {
        return Nat::default();
    }
    let mut addr = |v6: bool| match v6 {
        true => IpAddr::V6(Ipv6Addr::from(c.u128() | 1)),
        false => IpAddr::V4(Ipv4Addr::from(c.u32() | 1)),
    };
    let v6 = addr(false) < addr(false);
    let (a, b) = (addr(v6), addr(v6));
    let range = c.maybe().then(|| (a.min(b), a.max(b)));
    let (low, high) = (c.u16() | 1, c.u16() | 1);
    let port = (range.is_some() && c.maybe()).then(|| (low.min(high), low.max(high)));
    let hash = c.maybe();
    Nat { kind, addr: range, port, persistent: c.maybe(), hash, random: !hash && c.maybe() }
}

/// A set of one group. Values stay inside the mask, for what is wildcarded is not printed.
fn set(c: &mut Chance<'_>) -> Action {
    let (mut key, mut mask) = (Flow::default(), Flow::default());
    let all = c.maybe();
    let mut bits = |bits: u32| if all { u64::MAX >> (64 - bits) } else { c.bits(bits) };
    let group = match bits(64) % 9 {
        0 => {
            mask.skb_priority = bits(32) as u32;
            SetGroup::Priority
        }
        1 => {
            mask.pkt_mark = bits(32) as u32;
            SetGroup::Mark
        }
        2 => {
            mask.dl_src = MacAddr([bits(8) as u8; 6]);
            mask.dl_dst = MacAddr([bits(8) as u8; 6]);
            SetGroup::Ethernet
        }
        3 => {
            mask.nw_src.set(bits(32) as u32);
            mask.nw_dst.set(bits(32) as u32);
            (mask.nw_tos, mask.nw_ttl) = (bits(8) as u8, bits(8) as u8);
            if all {
                (mask.nw_proto, mask.nw_frag) = (u8::MAX, 3);
            }
            SetGroup::Ipv4
        }
        4 => {
            mask.ipv6_src = [bits(8) as u8; 16];
            mask.ipv6_label.set(bits(20) as u32);
            SetGroup::Ipv6
        }
        5 => {
            mask.tp_src.set(bits(16) as u16);
            mask.tp_dst.set(bits(16) as u16);
            [SetGroup::Tcp, SetGroup::Udp, SetGroup::Sctp][bits(8) as usize % 3]
        }
        6 => {
            mask.tp_src.set(bits(8) as u16);
            mask.tp_dst.set(bits(8) as u16);
            [SetGroup::Icmp, SetGroup::Icmpv6][bits(8) as usize % 2]
        }
        7 => {
            mask.mpls_lse[0].set(bits(32) as u32);
            SetGroup::Mpls
        }
        _ => {
            mask.nsh.ttl = bits(8) as u8;
            mask.nsh.path_hdr.set(bits(32) as u32);
            SetGroup::Nsh
        }
    };
    for (word, mask) in key.words_mut().iter_mut().zip(mask.words()) {
        *word = mask & 0x0123_4567_89ab_cdef;
    }
    key.nw_frag = 0;
    let text_says_exact = all && group != SetGroup::Ipv6 && group != SetGroup::Nsh;
    let field = Box::new(SetField { group, key, mask });
    if text_says_exact { Action::Set(field) } else { masked(field) }
}

/// A masked set, unless chance made the mask exact: then text does not show it.
fn masked(field: Box<SetField>) -> Action {
    let text = datapath::action::text::format_actions(&[Action::SetMasked(field.clone())], None).to_string();
    if text.contains('/')
        || text.contains("()")
        || matches!(field.group, SetGroup::Ipv6 | SetGroup::Nsh | SetGroup::Ipv4)
    {
        return Action::SetMasked(field);
    }
    parse_actions(&text, None).unwrap_or_else(|error| panic!("{text}: {error}"))[0].clone()
}
