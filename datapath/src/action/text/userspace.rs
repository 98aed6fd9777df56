//! `userspace(pid=0,slow_path(action),actions,tunnel_out_port=3)`.
//!
//! Counterpart: `format_odp_userspace_action`, `parse_odp_userspace_action` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};

use super::parse::ActionParser;
use crate::action::{Userspace, UserspaceCookie};
use crate::flow::text::format::port;
use crate::flow::text::put::{self, FlagNames, Hex};
use crate::flow::text::scan::Cursor;
use crate::flow::text::{PortNames, TextError};
use crate::types::PortNo;

/// Bits of OVS `enum slow_path_reason`.
pub(super) const SLOW_PATH_REASONS: FlagNames = &["cfm", "bfd", "lacp", "stp", "lldp", "action", "match"];

/// Writes the action.
pub(super) fn format(
    out: &mut dyn Write,
    userspace: &Userspace,
    names: Option<&dyn PortNames>,
) -> fmt::Result {
    write!(out, "userspace(pid={}", userspace.pid)?;
    format_cookie(out, &userspace.cookie, names)?;
    if userspace.actions {
        out.write_str(",actions")?;
    }
    if let Some(tunnel) = userspace.tunnel_out_port {
        out.write_str(",tunnel_out_port=")?;
        port(out, tunnel, names)?;
    }
    out.write_char(')')
}

fn format_cookie(
    out: &mut dyn Write,
    cookie: &UserspaceCookie,
    names: Option<&dyn PortNames>,
) -> fmt::Result {
    match cookie {
        UserspaceCookie::None => Ok(()),
        UserspaceCookie::SlowPath { reason } => {
            out.write_str(",slow_path(")?;
            put::flags(out, SLOW_PATH_REASONS, *reason, ',')?;
            out.write_char(')')
        }
        UserspaceCookie::Controller {
            reason,
            dont_send,
            continuation,
            recirc_id,
            rule_cookie,
            controller_id,
            max_len,
        } => write!(
            out,
            ",controller(reason={reason},dont_send={},continuation={},recirc_id={recirc_id},\
             rule_cookie={},controller_id={controller_id},max_len={max_len})",
            u8::from(*dont_send),
            u8::from(*continuation),
            Hex(*rule_cookie),
        ),
        UserspaceCookie::SFlow { vid, pcp, output } => {
            write!(out, ",sFlow(vid={vid},pcp={pcp},output={output})")
        }
        UserspaceCookie::FlowSample {
            probability,
            collector_set_id,
            obs_domain_id,
            obs_point_id,
            output_port,
            direction,
        } => {
            write!(
                out,
                ",flow_sample(probability={probability},collector_set_id={collector_set_id},\
                 obs_domain_id={obs_domain_id},obs_point_id={obs_point_id},output_port="
            )?;
            port(out, PortNo(*output_port), names)?;
            out.write_str(match direction {
                1 => ",ingress)",
                2 => ",egress)",
                _ => ")",
            })
        }
        UserspaceCookie::Ipfix { output_port } => {
            out.write_str(",ipfix(output_port=")?;
            port(out, PortNo(*output_port), names)?;
            out.write_char(')')
        }
        UserspaceCookie::Raw(bytes) => {
            out.write_str(",userdata(")?;
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            out.write_char(')')
        }
    }
}

/// Fewest bytes of raw user data: shorter ones are filled up with zeros (OVS `odp_put_userspace_action`).
const RAW_MIN: usize = 8;
/// Most bytes that the Netlink attribute of the action can hold.
const NETLINK_MAX: usize = 65_531;

/// Reads what follows `userspace(`, with the closing parenthesis.
pub(super) fn parse(p: &mut ActionParser<'_>) -> Result<Userspace, TextError> {
    let start = *p.cur();
    p.cur().expect("pid=")?;
    let mut userspace = Userspace {
        pid: p.cur().int()?,
        cookie: UserspaceCookie::None,
        actions: false,
        tunnel_out_port: None,
    };
    while !p.cur().eat(")") {
        p.cur().expect(",")?;
        let start = *p.cur();
        let first = userspace.cookie == UserspaceCookie::None
            && !userspace.actions
            && userspace.tunnel_out_port.is_none();
        match p.cur().name() {
            "actions" if !userspace.actions && userspace.tunnel_out_port.is_none() => {
                userspace.actions = true;
            }
            "tunnel_out_port" if userspace.tunnel_out_port.is_none() => {
                p.cur().expect("=")?;
                userspace.tunnel_out_port = Some(p.port()?);
            }
            name if first => userspace.cookie = parse_cookie(p, name, start)?,
            _ => return Err(start.expected("`actions`, `tunnel_out_port=` or `)`")),
        }
    }
    if let UserspaceCookie::Raw(bytes) = &userspace.cookie {
        // Attributes have 4 bytes of header, and sizes are rounded up to 4.
        let others = 12
            + if userspace.actions { 4 } else { 0 }
            + if userspace.tunnel_out_port.is_some() { 8 } else { 0 };
        if others + bytes.len().next_multiple_of(4) > NETLINK_MAX {
            return Err(Cursor::error_at(start.at(), "`userdata` is longer than a Netlink attribute can be"));
        }
    }
    Ok(userspace)
}

fn parse_cookie(
    p: &mut ActionParser<'_>,
    name: &str,
    start: Cursor<'_>,
) -> Result<UserspaceCookie, TextError> {
    if !matches!(name, "slow_path" | "controller" | "sFlow" | "flow_sample" | "ipfix" | "userdata") {
        return Err(start.expected("what `userspace` passes along, such as `slow_path(action)`"));
    }
    p.cur().expect("(")?;
    let cookie = match name {
        "slow_path" => UserspaceCookie::SlowPath { reason: slow_path(p.cur())? },
        "controller" => controller(p.cur())?,
        "sFlow" => {
            p.cur().expect("vid=")?;
            let vid = p.cur().number(12)? as u16;
            p.cur().expect(",pcp=")?;
            let pcp = p.cur().number(3)? as u8;
            p.cur().expect(",output=")?;
            UserspaceCookie::SFlow { vid, pcp, output: p.cur().int()? }
        }
        "flow_sample" => flow_sample(p)?,
        "ipfix" => {
            p.cur().expect("output_port=")?;
            UserspaceCookie::Ipfix { output_port: p.port()?.0 }
        }
        _ => {
            let mut bytes = p.cur().hex_bytes();
            bytes.resize(bytes.len().max(RAW_MIN), 0);
            UserspaceCookie::Raw(bytes.into())
        }
    };
    p.cur().expect(")")?;
    Ok(cookie)
}

/// Reasons, with `|` as OVS reads or `,` as it prints them between; or a number.
fn slow_path(cur: &mut Cursor<'_>) -> Result<u32, TextError> {
    let all = (1 << SLOW_PATH_REASONS.len()) - 1;
    let mut reasons = 0;
    while !cur.sees(")") {
        let start = *cur;
        let word = cur.name();
        let reason = match SLOW_PATH_REASONS.iter().position(|name| *name == word) {
            Some(bit) => 1 << bit,
            None => {
                *cur = start;
                let one_of = format!("one of the reasons {}", SLOW_PATH_REASONS.join(", "));
                cur.int::<u32>()
                    .ok()
                    .filter(|bits| bits & !all == 0)
                    .ok_or_else(|| start.expected(&one_of))?
            }
        };
        reasons |= reason;
        if !cur.eat("|") && !cur.eat(",") && !cur.sees(")") {
            return Err(cur.expected("`|` or `)`"));
        }
    }
    Ok(reasons)
}

fn controller(cur: &mut Cursor<'_>) -> Result<UserspaceCookie, TextError> {
    cur.expect("reason=")?;
    let reason = cur.int()?;
    cur.expect(",dont_send=")?;
    let dont_send = cur.int::<u8>()? != 0;
    cur.expect(",continuation=")?;
    let continuation = cur.int::<u8>()? != 0;
    cur.expect(",recirc_id=")?;
    let recirc_id = cur.int()?;
    cur.expect(",rule_cookie=")?;
    // Hexadecimal even without the prefix.
    let start = *cur;
    let _ = cur.eat("0x");
    let digits = cur.take_while(|c| c.is_ascii_hexdigit());
    let rule_cookie =
        u64::from_str_radix(digits, 16).map_err(|_| start.expected("64 bits in hexadecimal"))?;
    cur.expect(",controller_id=")?;
    let controller_id = cur.int()?;
    cur.expect(",max_len=")?;
    let max_len = cur.int()?;
    Ok(UserspaceCookie::Controller {
        reason,
        dont_send,
        continuation,
        recirc_id,
        rule_cookie,
        controller_id,
        max_len,
    })
}

fn flow_sample(p: &mut ActionParser<'_>) -> Result<UserspaceCookie, TextError> {
    p.cur().expect("probability=")?;
    let probability = p.cur().int()?;
    p.cur().expect(",collector_set_id=")?;
    let collector_set_id = p.cur().int()?;
    p.cur().expect(",obs_domain_id=")?;
    let obs_domain_id = p.cur().int()?;
    p.cur().expect(",obs_point_id=")?;
    let obs_point_id = p.cur().int()?;
    p.cur().expect(",output_port=")?;
    let output_port = p.port()?.0;
    let direction = if p.cur().eat(",ingress") {
        1
    } else if p.cur().eat(",egress") {
        2
    } else {
        0
    };
    Ok(UserspaceCookie::FlowSample {
        probability,
        collector_set_id,
        obs_domain_id,
        obs_point_id,
        output_port,
        direction,
    })
}
