//! Names of the fields that a mask looks at: what makes one subtable of the classifier differ from another.

use datapath::flow::Flow;

/// The fields, each with a prefix length or a mask where not all of it counts: `eth_type,nw_dst/24,tp_dst`.
pub fn fields(mask: &Flow) -> String {
    let mut names = Vec::new();
    let mut put = |name: &str, bytes: &[u8]| {
        if let Some(part) = part(bytes) {
            names.push(format!("{name}{part}"));
        }
    };
    put("recirc_id", &mask.recirc_id.to_be_bytes());
    put("dp_hash", &mask.dp_hash.to_be_bytes());
    put("skb_priority", &mask.skb_priority.to_be_bytes());
    put("pkt_mark", &mask.pkt_mark.to_be_bytes());
    put("ct_state", &[mask.ct_state]);
    put("ct_zone", &mask.ct_zone.to_be_bytes());
    put("ct_mark", &mask.ct_mark.to_be_bytes());
    put("ct_label", &mask.ct_label.to_bytes());
    put("ct_nw_proto", &[mask.ct_nw_proto]);
    put("packet_type", &mask.packet_type.to_bytes());
    put("tun_id", &mask.tunnel.tun_id.to_bytes());
    put("tun_src", &mask.tunnel.ip_src.to_bytes());
    put("tun_dst", &mask.tunnel.ip_dst.to_bytes());
    put("tun_ipv6_src", &mask.tunnel.ipv6_src);
    put("tun_ipv6_dst", &mask.tunnel.ipv6_dst);
    put("dl_dst", &mask.dl_dst.0);
    put("dl_src", &mask.dl_src.0);
    put("eth_type", &mask.dl_type.to_bytes());
    put("vlan", &mask.vlans[0].tci.to_bytes());
    put("vlan_tpid", &mask.vlans[0].tpid.to_bytes());
    put("cvlan", &mask.vlans[1].tci.to_bytes());
    put("mpls", &mask.mpls_lse[0].to_bytes());
    put("nw_src", &mask.nw_src.to_bytes());
    put("nw_dst", &mask.nw_dst.to_bytes());
    put("ipv6_src", &mask.ipv6_src);
    put("ipv6_dst", &mask.ipv6_dst);
    put("ipv6_label", &mask.ipv6_label.to_bytes());
    put("nw_frag", &[mask.nw_frag]);
    put("nw_tos", &[mask.nw_tos]);
    put("nw_ttl", &[mask.nw_ttl]);
    put("nw_proto", &[mask.nw_proto]);
    put("nd_target", &mask.nd_target);
    put("arp_sha", &mask.arp_sha.0);
    put("arp_tha", &mask.arp_tha.0);
    put("tcp_flags", &mask.tcp_flags.to_bytes());
    put("tp_src", &mask.tp_src.to_bytes());
    put("tp_dst", &mask.tp_dst.to_bytes());
    put("nsh_path", &mask.nsh.path_hdr.to_bytes());
    if names.is_empty() { "nothing".to_owned() } else { names.join(",") }
}

/// How much of a field counts: none if nothing does, nothing to say if all does, else a prefix length or the mask.
fn part(bytes: &[u8]) -> Option<String> {
    if bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    if ones as usize == bytes.len() * 8 {
        return Some(String::new());
    }
    let full = bytes.iter().take_while(|byte| **byte == 0xff).count();
    let edge = bytes[full].leading_ones();
    if full as u32 * 8 + edge == ones {
        return Some(format!("/{ones}"));
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("/0x{}", hex.trim_start_matches('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_masks() {
        let mut mask = Flow::default();
        assert_eq!(fields(&mask), "nothing");
        mask.dl_type.set(0xffff);
        mask.nw_dst.set(0xffff_ff00);
        mask.nw_frag = 3;
        mask.tp_dst.set(0xfff0);
        mask.tcp_flags.set(0x12);
        assert_eq!(fields(&mask), "eth_type,nw_dst/24,nw_frag/0x3,tcp_flags/0x12,tp_dst/12");
    }
}
