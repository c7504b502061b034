# The network: one gateway with a bridge (the home LAN, 192.168.50.0/24 and fd50::/64) and a routed
# link to one machine that plays the cloud (203.0.113.0/24, the documentation range of RFC 5737).
# Every host is a network namespace with one veth, eth0, whose other end is a port of the bridge.
#
#   thermometer plug camera hub lamp meter [intruder]          cloud (.10 .11 .20 .30 .53)
#        |        |     |    |    |    |       |                 |
#        +--------+-----+--- br0 (gw, 192.168.50.1) --- routing --- wan
#
# tcpdump listens on br0, so it sees what one LAN host says to another and what goes to the cloud.
# Segmentation and checksum offloads are off on every interface: frames are as long as on a wire and
# carry true checksums. Addresses are fixed, so that labels and filters hold for every run.

PREFIX=oddlab
DEVICES="hub:10 thermometer:21 plug:22 camera:23 lamp:25 meter:26 intruder:66"
CLOUD_ADDRESSES="203.0.113.10 203.0.113.11 203.0.113.20 203.0.113.30 203.0.113.53"

in_ns() { local name=$1; shift; ip netns exec "$PREFIX-$name" "$@"; }
mac_of() { printf '02:50:00:00:00:%02x' "$1"; }

refuse_if_present() {
  ! ip netns list | grep -q "^$PREFIX-" || {
    echo "make-captures.sh: namespaces named $PREFIX-* exist already (another run?)" >&2
    exit 1
  }
}

offloads_off() { in_ns "$1" ethtool -K "$2" rx off tx off sg off tso off gso off gro off >/dev/null 2>&1 || true; }

# add_namespace NAME: with loopback up, no duplicate-address detection, and the lab's name server.
# `ip netns exec` shows /etc/netns/NAME/resolv.conf to the programs as /etc/resolv.conf.
add_namespace() {
  ip netns add "$PREFIX-$1"
  in_ns "$1" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
  ip -n "$PREFIX-$1" link set lo up
  mkdir -p "/etc/netns/$PREFIX-$1"
  echo "nameserver 192.168.50.1" >"/etc/netns/$PREFIX-$1/resolv.conf"
}

add_lan_host() {
  local name=$1 number=$2 ns=$PREFIX-$1 port=p-$1
  add_namespace "$name"
  ip -n "$PREFIX-gw" link add "$port" type veth peer name eth0 netns "$ns"
  ip -n "$PREFIX-gw" link set "$port" master br0 up
  ip -n "$ns" link set eth0 address "$(mac_of "$number")" up
  ip -n "$ns" addr add "192.168.50.$number/24" dev eth0
  ip -n "$ns" addr add "fd50::$number/64" dev eth0 nodad
  ip -n "$ns" route add default via 192.168.50.1
  offloads_off "$name" eth0
  offloads_off gw "$port"
}

build_network() {
  add_namespace gw
  ip -n $PREFIX-gw link add br0 address "$(mac_of 1)" type bridge forward_delay 0 stp_state 0 mcast_snooping 0
  ip -n $PREFIX-gw addr add 192.168.50.1/24 dev br0
  ip -n $PREFIX-gw addr add fd50::1/64 dev br0 nodad
  ip -n $PREFIX-gw link set br0 up
  offloads_off gw br0
  in_ns gw sysctl -qw net.ipv4.ip_forward=1

  local device address
  for device in $DEVICES; do add_lan_host "${device%:*}" "${device#*:}"; done

  add_namespace cloud
  ip -n $PREFIX-gw link add wan type veth peer name eth0 netns $PREFIX-cloud
  ip -n $PREFIX-gw addr add 203.0.113.1/24 dev wan
  ip -n $PREFIX-gw link set wan up
  ip -n $PREFIX-cloud link set eth0 up
  for address in $CLOUD_ADDRESSES; do ip -n $PREFIX-cloud addr add "$address/24" dev eth0; done
  ip -n $PREFIX-cloud route add default via 203.0.113.1
  offloads_off gw wan
  offloads_off cloud eth0
  # A host that swallows what is sent to it, as a firewall does: a scan of it is one packet a flow.
  ip -n $PREFIX-gw route add blackhole 203.0.113.99
}

hosts_as_json() {
  local device
  for device in gw:1 $DEVICES; do
    printf '%s %s 192.168.50.%s fd50::%s\n' "${device%:*}" "$(mac_of "${device#*:}")" "${device#*:}" "${device#*:}"
  done | python3 -c 'import json,sys; print(json.dumps([dict(zip(("name","mac","ipv4","ipv6"), line.split())) for line in sys.stdin]))'
}

# A loop may start a program between the listing and the kill: list again until none is left.
remove_network() {
  local ns pids try
  for ns in $(ip netns list | awk '{print $1}' | grep "^$PREFIX-"); do
    for try in $(seq 50); do
      pids=$(ip netns pids "$ns" 2>/dev/null) || true
      [ -n "$pids" ] || break
      kill -KILL $pids 2>/dev/null || true
      sleep 0.05
    done
    ip netns delete "$ns"
    rm -rf "/etc/netns/$ns"
  done
  rmdir /etc/netns 2>/dev/null || true
}
