//! `userspace(pid=0,slow_path(action),actions,tunnel_out_port=3)`.
//!
//! Counterpart: `format_odp_userspace_action`, `parse_odp_userspace_action` of OVS `lib/odp-util.c`.

use std::fmt::{self, Write};

use crate::action::{Userspace, UserspaceCookie};
use crate::flow::text::PortNames;
use crate::flow::text::format::port;
use crate::flow::text::put::{self, FlagNames, Hex};
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
