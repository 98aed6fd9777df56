#!/bin/bash
# Makes the captures in this folder anew, from the Linux kernel's own network stack between network namespaces.
# Needs root, and: iproute2, ethtool, iputils-ping, tcpdump, python3; a kernel with veth and vxlan.
# Usage: make.sh [NAME...]    (all of them if none is named; "make.sh list" prints the names)
#
# All namespaces are its own (recirc-golden-*) and are removed at the end, also after an error. Times, initial sequence
# numbers and the like differ from run to run, so captures that tests compare with are only made anew on purpose.
# The packet counts in README.md are brought up to date.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
traffic="python3 $here/traffic.py"
made=()

cleanup() {
    local status=$? ns pid
    trap - EXIT INT TERM
    for ns in $(ip netns list | awk '$1 ~ /^recirc-golden-/ {print $1}'); do
        for pid in $(ip netns pids "$ns" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
        ip netns delete "$ns"
    done
    rm -rf "$work"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

die() { echo "make.sh: $*" >&2; exit 1; }

in_ns() { local ns=$1; shift; ip netns exec "recirc-golden-$ns" "$@"; }

# namespace NAME [ipv6]: one without IPv6, unless asked for, and with nothing that speaks unasked.
namespace() {
    ip netns add "recirc-golden-$1"
    local disable=1
    [ "${2-}" = ipv6 ] && disable=0
    for where in all default lo; do
        in_ns "$1" sysctl -qw "net.ipv6.conf.$where.disable_ipv6=$disable"
    done
    in_ns "$1" sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0 \
        net.ipv4.tcp_ecn=0 net.ipv4.ip_unprivileged_port_start=0
    in_ns "$1" ip link set lo up
}

remove_namespaces() {
    local ns
    for ns in $(ip netns list | awk '$1 ~ /^recirc-golden-/ {print $1}'); do ip netns delete "$ns"; done
}

# wire NS1 IF1 NS2 IF2: a cable.
wire() {
    ip link add "$2" netns "recirc-golden-$1" type veth peer name "$4" netns "recirc-golden-$3"
}

# up NS IF MAC [ADDRESS...]
up() {
    local ns=$1 dev=$2 mac=$3 address
    shift 3
    in_ns "$ns" ip link set "$dev" address "$mac" up
    for address in "$@"; do
        case $address in
            *:*) in_ns "$ns" ip -6 addr add "$address" dev "$dev" nodad ;;
            *) in_ns "$ns" ip addr add "$address" dev "$dev" ;;
        esac
    done
}

# offloads NS IF all|checksums|none: what the sending side leaves to a network card that is not there.
offloads() {
    local csum=on seg=on
    case $3 in
        all) ;;
        checksums) seg=off ;;
        none) csum=off seg=off ;;
    esac
    in_ns "$1" ethtool -K "$2" tx "$csum" tso "$seg" gso "$seg" gro "$seg" >/dev/null
}

# capture FILE NS IF COMMAND...: runs the command while tcpdump writes down what the interface sees, in both
# directions, as the kernel has it there. $filter, $link and $more change what is captured.
capture() {
    local file=$1 ns=$2 dev=$3 pid
    shift 3
    # MLD reports (the only packets with a hop-by-hop header here) come whenever they like; see igmp-mld.
    : >"$work/tcpdump.log"
    ip netns exec "recirc-golden-$ns" tcpdump -Z root -i "$dev" --time-stamp-precision=nano --immediate-mode -U ${link:+-y "$link"} \
        -w "$work/$file" "${filter-not ip6[6] = 0}" 2>"$work/tcpdump.log" &
    pid=$!
    for _ in $(seq 100); do
        grep -q listening "$work/tcpdump.log" && break
        sleep 0.05
    done
    grep -q listening "$work/tcpdump.log" || die "tcpdump: $(cat "$work/tcpdump.log")"
    "$@"
    sleep 0.5
    kill -TERM "$pid"
    wait "$pid" || die "tcpdump: $(cat "$work/tcpdump.log")"
    grep -q '^0 packets dropped by kernel' "$work/tcpdump.log" || die "$file: packets were missed"
    mv "$work/$file" "$here/$file"
    made+=("$file")
}

# server NS ARGS...: starts a program of traffic.py and waits until it listens.
server() {
    local ns=$1
    shift
    : >"$work/server.log"
    ip netns exec "recirc-golden-$ns" $traffic "$@" >"$work/server.log" &
    server=$!
    for _ in $(seq 100); do
        grep -q ready "$work/server.log" && return
        sleep 0.05
    done
    die "$* does not get ready"
}

# client NS ARGS...: runs the other program, then waits for the server to end.
client() {
    local ns=$1
    shift
    in_ns "$ns" $traffic "$@"
    wait "$server"
}

ping_quietly() {
    local ns=$1
    shift
    in_ns "$ns" ping -q "$@" >"$work/ping.log" || die "$(cat "$work/ping.log")"
}

# Two hosts on one cable: 10.0.0.1 and 10.0.0.2, 2001:db8::1 and 2001:db8::2.
two_hosts() {
    namespace h1 "${1-}"
    namespace h2 "${1-}"
    wire h1 eth0 h2 eth0
    local six1=() six2=()
    [ "${1-}" = ipv6 ] && six1=(2001:db8::1/64) six2=(2001:db8::2/64)
    up h1 eth0 02:00:00:00:00:01 10.0.0.1/24 "${six1[@]}"
    up h2 eth0 02:00:00:00:00:02 10.0.0.2/24 "${six2[@]}"
}

know_each_other() {
    in_ns h1 ip neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0
    in_ns h2 ip neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev eth0
}

both() { offloads h1 eth0 "$1"; offloads h2 eth0 "$1"; }

arp_ping() {
    two_hosts
    capture arp-ping.pcap h1 eth0 ping_quietly h1 -c 3 -i 0.2 10.0.0.2
}

ping_any() {
    two_hosts
    link=LINUX_SLL2 capture ping-sll2.pcap h1 any ping_quietly h1 -c 2 -i 0.2 10.0.0.2
    link=LINUX_SLL capture ping-sll.pcap h1 any ping_quietly h1 -c 2 -i 0.2 10.0.0.2
}

nd_ping6() {
    two_hosts ipv6
    capture nd-ping6.pcap h1 eth0 ping_quietly h1 -c 3 -i 0.2 2001:db8::2
}

# get FILE OFFLOADS SIZE: an HTTP-like exchange, captured where the answer is sent.
get() {
    two_hosts
    know_each_other
    both "$2"
    server h2 tcp-serve 10.0.0.2 80 "$3"
    capture "$1" h2 eth0 client h1 tcp-get 10.0.0.2 80 40001
}

tcp_get() { get tcp-get.pcap none 6000; }
tcp_get_partial() { get tcp-get-partial.pcap checksums 6000; }
tcp_get_tso() { get tcp-get-tso.pcap all 24000; }

tcp6_get_tso() {
    two_hosts ipv6
    both all
    server h2 tcp-serve 2001:db8::2 80 24000
    capture tcp6-get-tso.pcap h2 eth0 client h1 tcp-get 2001:db8::2 80 40001
}

tcp_refused() {
    two_hosts
    know_each_other
    both none
    capture tcp-refused.pcap h1 eth0 in_ns h1 $traffic tcp-refused 10.0.0.2 81 40001
}

echo_udp() {
    two_hosts
    know_each_other
    both "$2"
    server h2 udp-echo 10.0.0.2 7 4
    capture "$1" h1 eth0 client h1 udp-send 10.0.0.2 7 40001 0 1 100 1472
}

tcp_scan() {
    two_hosts
    know_each_other
    both none
    capture tcp-scan.pcap h1 eth0 in_ns h1 $traffic tcp-scan 10.0.0.2 1 100 41000
}

udp() { echo_udp udp.pcap none; }
udp_partial() { echo_udp udp-partial.pcap checksums; }

fragments4() {
    two_hosts
    know_each_other
    both none
    server h2 udp-echo 10.0.0.2 7 2
    fragments4_traffic() {
        ping_quietly h1 -c 2 -i 0.2 -s 4000 10.0.0.2
        client h1 udp-send 10.0.0.2 7 40001 1473 3000
    }
    capture fragments4.pcap h1 eth0 fragments4_traffic
}

fragments6() {
    two_hosts ipv6
    both none
    ping_quietly h1 -c 1 2001:db8::2
    server h2 udp-echo 2001:db8::2 7 2
    fragments6_traffic() {
        ping_quietly h1 -c 2 -i 0.2 -s 4000 2001:db8::2
        client h1 udp-send 2001:db8::2 7 40001 1453 3000
    }
    capture fragments6.pcap h1 eth0 fragments6_traffic
}

# h1 -- r -- h2, with an MTU of 1400 from the router to h2 that h2 does not know of.
router() {
    namespace h1 "${1-}"
    namespace r "${1-}"
    namespace h2 "${1-}"
    wire h1 eth0 r eth1
    wire h2 eth0 r eth2
    if [ "${1-}" = ipv6 ]; then
        up h1 eth0 02:00:00:00:00:01 2001:db8:1::1/64
        up h2 eth0 02:00:00:00:00:02 2001:db8:2::1/64
        up r eth1 02:00:00:00:00:fe 2001:db8:1::fe/64
        up r eth2 02:00:00:00:00:ff 2001:db8:2::fe/64
        in_ns h1 ip -6 route add default via 2001:db8:1::fe
        in_ns h2 ip -6 route add default via 2001:db8:2::fe
        in_ns r sysctl -qw net.ipv6.conf.all.forwarding=1
    else
        up h1 eth0 02:00:00:00:00:01 10.0.1.1/24
        up h2 eth0 02:00:00:00:00:02 10.0.2.1/24
        up r eth1 02:00:00:00:00:fe 10.0.1.254/24
        up r eth2 02:00:00:00:00:ff 10.0.2.254/24
        in_ns h1 ip route add default via 10.0.1.254
        in_ns h2 ip route add default via 10.0.2.254
        in_ns r sysctl -qw net.ipv4.ip_forward=1
    fi
    both none
    offloads r eth1 none
    offloads r eth2 none
}

mtu4() {
    router
    ping_quietly h1 -c 1 10.0.2.1
    in_ns r ip link set eth2 mtu 1400
    server h2 tcp-sink 10.0.2.1 9
    capture mtu4.pcap h1 eth0 client h1 tcp-send 10.0.2.1 9 40001 4000
}

mtu6() {
    router ipv6
    ping_quietly h1 -c 1 2001:db8:2::1
    in_ns r ip link set eth2 mtu 1400
    server h2 tcp-sink 2001:db8:2::1 9
    capture mtu6.pcap h1 eth0 client h1 tcp-send 2001:db8:2::1 9 40001 4000
}

# The same packets before and after a router, in one file with two interfaces.
router_two_interfaces() {
    router
    router_eth2() {
        capture router-eth2.pcap r eth2 ping_quietly h1 -c 3 -i 0.2 10.0.2.1
    }
    capture router-eth1.pcap r eth1 router_eth2
    $traffic merge "$here/router.pcapng" "eth1=$here/router-eth1.pcap" "eth2=$here/router-eth2.pcap"
    rm "$here/router-eth1.pcap" "$here/router-eth2.pcap"
    made=(router.pcapng)
}

# trunk HOSTS: switches s1 and s2 with a trunk between them, and one host of each of HOSTS (NAME=TAGS, as the relay of
# traffic.py takes them) on either side.
trunk() {
    local side host name number
    namespace s1
    namespace s2
    wire s1 trunk s2 trunk
    for side in 1 2; do
        in_ns "s$side" ip link set trunk up
        number=0
        for host in "$@"; do
            name=${host%%=*}
            number=$((number + 1))
            namespace "h$side-$name"
            wire "h$side-$name" eth0 "s$side" "$name"
            up "h$side-$name" eth0 "02:00:00:00:0$number:0$side" "10.0.$number.$side/24"
            offloads "h$side-$name" eth0 none
            in_ns "s$side" ip link set "$name" up
        done
        server "s$side" relay trunk "$@"
        relays+=("$server")
    done
}

# A trunk with an untagged (native) VLAN, VLAN 10, and VLAN 20.
vlan_trunk() {
    local relays=()
    trunk native= ten=8100:10 twenty=8100:20
    vlan_traffic() {
        ping_quietly h1-native -c 2 -i 0.2 10.0.1.2
        ping_quietly h1-ten -c 2 -i 0.2 10.0.2.2
        ping_quietly h1-twenty -c 2 -i 0.2 10.0.3.2
    }
    capture vlan.pcap s1 trunk vlan_traffic
    kill "${relays[@]}"
}

# A provider's trunk: customer VLANs 10 and 20 within service VLAN 100.
qinq() {
    local relays=()
    trunk ten=88a8:100,8100:10 twenty=88a8:100,8100:20
    qinq_traffic() {
        ping_quietly h1-ten -c 2 -i 0.2 10.0.1.2
        ping_quietly h1-twenty -c 2 -i 0.2 10.0.2.2
    }
    capture qinq.pcap s1 trunk qinq_traffic
    kill "${relays[@]}"
}

# Two VXLAN end points, VNI 42, with a host's address on the VXLAN device itself.
vxlan_hosts() {
    local side other
    namespace h1
    namespace h2
    wire h1 eth0 h2 eth0
    for side in 1 2; do
        other=$((3 - side))
        up "h$side" eth0 "02:00:00:00:00:0$side" "192.0.2.$side/24"
        in_ns "h$side" ip neigh replace "192.0.2.$other" lladdr "02:00:00:00:00:0$other" dev eth0
        in_ns "h$side" ip link add vx type vxlan id 42 dstport 4789 local "192.0.2.$side" \
            remote "192.0.2.$other" srcport 50000 50001 dev eth0
        up "h$side" vx "02:00:00:00:01:0$side" "10.0.0.$side/24"
    done
}

vxlan() {
    vxlan_hosts
    both none
    offloads h1 vx none
    offloads h2 vx none
    server h2 tcp-serve 10.0.0.2 80 3000
    vxlan_traffic() {
        ping_quietly h1 -c 2 -i 0.2 10.0.0.2
        client h1 tcp-get 10.0.0.2 80 40001
    }
    capture vxlan.pcap h2 eth0 vxlan_traffic
}

vxlan_tso() {
    vxlan_hosts
    both all
    ping_quietly h1 -c 1 10.0.0.2
    server h2 tcp-serve 10.0.0.2 80 24000
    capture vxlan-tso.pcap h2 eth0 client h1 tcp-get 10.0.0.2 80 40001
}

igmp_mld() {
    two_hosts ipv6
    sleep 4
    join_both() {
        in_ns h1 $traffic join 239.1.2.3 eth0
        in_ns h1 $traffic join ff05::1:2:3 eth0
    }
    filter='igmp or ip6[6] = 0' capture igmp-mld.pcap h1 eth0 join_both
}

all=(arp_ping ping_any nd_ping6 tcp_get tcp_get_partial tcp_get_tso tcp6_get_tso tcp_refused tcp_scan udp
    udp_partial fragments4 fragments6 mtu4 mtu6 router_two_interfaces vlan_trunk qinq vxlan vxlan_tso igmp_mld)

count() { tcpdump --count -r "$1" 2>/dev/null | awk '{print $1}'; }

main() {
    local name file packets
    if [ "${1-}" = list ]; then
        printf '%s\n' "${all[@]}"
        return
    fi
    [ "$(id -u)" = 0 ] || die "needs root: it makes network namespaces"
    for name in ip ethtool ping tcpdump python3; do
        command -v "$name" >/dev/null || die "needs $name"
    done
    [ $# -gt 0 ] || set -- "${all[@]}"
    for name in "$@"; do
        printf '%s\n' "${all[@]}" | grep -qx -- "$name" || die "there is no $name; see: make.sh list"
    done
    remove_namespaces
    for name in "$@"; do
        made=()
        "$name"
        remove_namespaces
        for file in "${made[@]}"; do
            packets=$(count "$here/$file")
            echo "$file: $packets packets, $(stat -c %s "$here/$file") bytes"
            sed -i -E "s/^(\| \`$file\` \| )[0-9]+ /\1$packets /" "$here/README.md"
        done
    done
}

main "$@"
