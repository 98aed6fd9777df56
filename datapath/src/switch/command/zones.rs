//! `ovs-vsctl add-zone-tp`, `set-zone-limit` and their like: zones of connection tracking as the database has them.
//!
//! Counterpart: `ct_zones_reconfigure()` of OVS `vswitchd/bridge.c`.

use super::super::Switch;
use super::{CommandError, refused};
use crate::conntrack::{Timeout, TimeoutPolicy};
use crate::openflow::command::vsctl::VsctlCommand;
use crate::openflow::command::zone::{Timeouts, ZoneCommand, ZoneVerb};
use crate::types::{Span, Time};

/// Types of datapaths; all are the one that there is.
const DATAPATHS: [&str; 3] = ["dummy", "netdev", "system"];

impl Switch {
    pub(super) fn zone_command(
        &mut self,
        zone: &ZoneCommand,
        command: &VsctlCommand,
        now: Time,
    ) -> Result<String, CommandError> {
        let failed = |text: String| refused(format!("ovs-vsctl: {text}"));
        let datapath = &zone.datapath.text;
        if !DATAPATHS.contains(&datapath.as_str()) {
            return Err(failed(format!("datapath {datapath} does not exist")));
        }
        match &zone.verb {
            ZoneVerb::AddPolicy { zone, timeouts } => {
                if self.of.zones().timeouts(*zone).is_some() && !command.may_exist {
                    return Err(failed(format!("zone id {zone} already has a policy")));
                }
                self.set_zone_policy(*zone, timeouts.clone(), now);
            }
            ZoneVerb::DelPolicy(zone) => {
                if self.of.zones().timeouts(*zone).is_none() && !command.if_exists {
                    return Err(failed(format!("zone id {zone} does not have a policy")));
                }
                self.of.zones_mut().delete(*zone);
                self.clean_policies(now);
            }
            ZoneVerb::ListPolicies => return Ok(self.zone_policies_text()),
            ZoneVerb::SetLimit { zone, limit } => {
                self.zone_limits.insert(*zone, *limit);
                let limits = &mut self.dp.conntrack_mut().limits;
                match zone {
                    Some(zone) => limits.set(*zone, *limit),
                    None => limits.set_default(*limit),
                }
            }
            ZoneVerb::DelLimit(zone) => {
                if self.zone_limits.remove(zone).is_none() && !command.if_exists {
                    return Err(failed(match zone {
                        Some(zone) => format!("zone_id {zone} does not have a limit"),
                        None => format!("datapath {datapath} does not have a limit"),
                    }));
                }
                let limits = &mut self.dp.conntrack_mut().limits;
                match zone {
                    Some(zone) => limits.delete(*zone),
                    None => limits.set_default(0),
                }
            }
            ZoneVerb::ListLimits => {
                let line = |(zone, limit): (&Option<u16>, &u32)| match zone {
                    Some(zone) => format!("Zone: {zone}, Limit: {limit}\n"),
                    None => format!("Default, Limit: {limit}\n"),
                };
                return Ok(self.zone_limits.iter().map(line).collect());
            }
        }
        Ok(String::new())
    }

    fn set_zone_policy(&mut self, zone: u16, timeouts: Timeouts, now: Time) {
        let of =
            |timeout: Timeout| Some((timeout, Span::from_secs((*timeouts.get(timeout.attribute())?).into())));
        let policy: TimeoutPolicy = Timeout::ALL.into_iter().filter_map(of).collect();
        if let Some(id) = self.of.zones_mut().set(zone, timeouts) {
            self.dp.conntrack_mut().set_timeout_policy(id, Some(policy));
        }
        self.clean_policies(now);
    }

    /// Lets the datapath forget policies that no zone has any more.
    pub(in crate::switch) fn clean_policies(&mut self, now: Time) {
        for id in self.of.clean_zone_policies(now) {
            self.dp.conntrack_mut().set_timeout_policy(id, None);
        }
    }

    fn zone_policies_text(&self) -> String {
        let zones = self.of.zones();
        let mut text = String::new();
        let limited = self.zone_limits.keys().filter_map(|zone| *zone);
        let all: std::collections::BTreeSet<u16> =
            zones.iter().map(|(zone, _)| zone).chain(limited).collect();
        for zone in all {
            let policy = match zones.timeouts(zone) {
                Some(timeouts) => {
                    let words: Vec<String> =
                        timeouts.iter().map(|(name, seconds)| format!("{name}={seconds}")).collect();
                    words.join(" ")
                }
                None => "system default".to_owned(),
            };
            text.push_str(&format!("Zone:{zone}, Timeout Policies: {policy}\n"));
        }
        text
    }

    /// Whether limits are the database's to change (OVS `ct_dpif_is_zone_limit_protected()`).
    pub(super) fn zone_limits_are_protected(&self) -> bool {
        !self.zone_limits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(switch: &mut Switch, now: Time, line: &str) -> Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        switch.command(now, &words).map_err(|error| error.to_string())
    }

    fn lines(switch: &mut Switch, now: Time, lines: &[&str]) -> String {
        lines.iter().map(|line| run(switch, now, line).unwrap()).collect()
    }

    fn switch() -> Switch {
        let mut switch = Switch::new(1);
        lines(
            &mut switch,
            Time::ZERO,
            &[
                "ovs-vsctl add-br br0 -- set Bridge br0 datapath_type=dummy",
                "ovs-vsctl add-port br0 p1 -- set Interface p1 type=dummy",
                "ovs-vsctl add-port br0 p2 -- set Interface p2 type=dummy",
                "ovs-ofctl del-flows br0",
                "ovs-ofctl add-flow br0 in_port=p1,ip,actions=ct(commit,zone=5),p2",
                "ovs-vsctl -- --id=@m create Datapath datapath_version=0 -- set Open_vSwitch . datapaths:netdev=@m",
            ],
        );
        switch
    }

    const UDP: &str = "ovs-appctl netdev-dummy/receive p1 \
                       in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x800),\
                       ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)";

    #[test]
    fn a_policy_stands_in_the_actions_and_ends_connections() {
        let mut switch = switch();
        let at = Time::from_millis;
        lines(&mut switch, at(0), &["ovs-vsctl add-zone-tp netdev zone=5 udp_first=2 icmp_first=9", UDP]);
        let flows = run(&mut switch, at(0), "ovs-appctl dpctl/dump-flows").unwrap();
        assert!(flows.contains("actions:ct(commit,zone=5,timeout=1),"), "{flows}");
        let conns =
            |switch: &mut Switch, ms| run(switch, at(ms), "ovs-appctl dpctl/dump-conntrack -s").unwrap();
        assert!(conns(&mut switch, 0).contains(",timeout=2"));
        assert_eq!(conns(&mut switch, 2000), "", "2 s and not 60");
        // Without it the flow changes, and so does the next connection.
        lines(&mut switch, at(3000), &["ovs-vsctl del-zone-tp netdev zone=5", UDP]);
        let flows = run(&mut switch, at(3000), "ovs-appctl dpctl/dump-flows").unwrap();
        assert!(flows.contains("actions:ct(commit,zone=5),"), "{flows}");
        assert!(conns(&mut switch, 3000).contains(",timeout=60"));
    }

    #[test]
    fn policies_are_listed_and_wrong_ones_named() {
        let mut switch = switch();
        let mut run = |line: &str| run(&mut switch, Time::ZERO, line);
        run("ovs-vsctl add-zone-tp netdev zone=7 udp_single=3 icmp_first=1").unwrap();
        run("ovs-vsctl set-zone-limit netdev 2 10 -- set-zone-limit netdev default 100").unwrap();
        assert_eq!(
            run("ovs-vsctl list-zone-tp netdev").unwrap(),
            "Zone:2, Timeout Policies: system default\nZone:7, Timeout Policies: icmp_first=1 udp_single=3\n"
        );
        assert_eq!(
            run("ovs-vsctl list-zone-limits netdev").unwrap(),
            "Default, Limit: 100\nZone: 2, Limit: 10\n"
        );
        assert_eq!(
            run("ovs-appctl dpctl/ct-get-limits").unwrap(),
            "default limit=100\nzone=2,limit=10,count=0\n"
        );
        for (line, complaint) in [
            ("ovs-vsctl add-zone-tp netdev zone=7 udp_single=4", "zone id 7 already has a policy"),
            ("ovs-vsctl add-zone-tp moon zone=8 udp_single=4", "datapath moon does not exist"),
            ("ovs-vsctl add-zone-tp netdev zone=8", "requires timeouts, such as udp_single=10"),
            ("ovs-vsctl add-zone-tp netdev zone=8 udp_sole=4", "\"udp_sole\" is not one of"),
            ("ovs-vsctl add-zone-tp netdev zone=8 udp_single=-1", "\"udp_single=-1\" is not a timeout"),
            ("ovs-vsctl add-zone-tp netdev zone=65536 udp_single=4", "\"zone=65536\" is not a zone"),
            ("ovs-vsctl del-zone-tp netdev zone=8", "zone id 8 does not have a policy"),
            ("ovs-vsctl del-zone-tp netdev zone=7 8", "takes no argument '8'"),
            ("ovs-vsctl del-zone-limit netdev 3", "zone_id 3 does not have a limit"),
            ("ovs-vsctl set-zone-limit netdev 3 many", "\"many\" is not a limit"),
            ("ovs-appctl dpctl/ct-set-limits default=1", "use 'ovs-vsctl set-zone-limit <...>' instead"),
            ("ovs-appctl dpctl/ct-del-limits zone=2", "use 'ovs-vsctl del-zone-limit <...>' instead"),
            ("ovs-appctl dpctl/ct-bkts gt=x", "takes no argument 'gt=x'"),
        ] {
            let told = run(line).unwrap_err();
            assert!(told.contains(complaint), "{line}: {told}");
        }
        run("ovs-vsctl --if-exists del-zone-tp netdev zone=8 -- --if-exists del-zone-limit netdev 3")
            .unwrap();
        run("ovs-vsctl --may-exist add-zone-tp netdev zone=7 udp_single=4 -- del-zone-limit netdev 2")
            .unwrap();
        assert_eq!(run("ovs-vsctl list-zone-tp netdev").unwrap(), "Zone:7, Timeout Policies: udp_single=4\n");
        run("ovs-vsctl del-zone-limit netdev default").unwrap();
        run("ovs-appctl dpctl/ct-set-limits default=1 zone=3,limit=4").unwrap();
    }

    #[test]
    fn buckets_and_waiting_fragments_are_told() {
        let mut switch = switch();
        let now = Time::ZERO;
        assert_eq!(
            run(&mut switch, now, "ovs-appctl dpctl/ct-bkts").unwrap(),
            "Total Buckets: 1\nCurrent Connections: 0\n\n"
        );
        let fragment = UDP.replace("frag=no", "frag=first") + " --len 600";
        lines(&mut switch, now, &[UDP, "ovs-appctl dpctl/ipf-set-min-frag v4 400", &fragment]);
        assert_eq!(
            run(&mut switch, now, "ovs-appctl dpctl/ct-bkts gt=1").unwrap(),
            "Total Buckets: 1\nCurrent Connections: 1\n\n\
             +-----------+-----------------------------------------+\n\
             |  Buckets  |         Connections per Buckets         |\n\
             +-----------+-----------------------------------------+\n   0..  7   |     .\n\n"
        );
        let status = run(&mut switch, now, "ovs-appctl dpctl/ipf-get-status -m").unwrap();
        assert!(status.contains("v4 frags accepted: 1\n"), "{status}");
        let lists = "\n        Fragment Lists:\n\n(src=10.0.0.1,dst=10.0.0.2,recirc_id=0,ip_id=0,dl_type=0x800,\
                     zone=5,nw_proto=17,num_fragments=1,state=first frag)\n";
        assert!(status.ends_with(lists), "{status}");
    }
}
