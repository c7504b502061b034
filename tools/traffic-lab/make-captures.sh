#!/usr/bin/env bash
# Makes the captures of test/fixtures/lab from real programs, as root.
#
# What it does, in order: installs Debian packages, builds a small home network out of network
# namespaces (topology.sh), starts its servers (services.sh) and its devices (devices.sh), and
# records the gateway's bridge with tcpdump while nothing but the devices runs (normal-*) and while
# something new happens beside them (novel-*, novelties.sh). captures.json is the plan; label.py
# counts what came out and writes labels.json.
#
# No packet leaves the namespaces: they are joined to each other and to nothing else. Whatever
# happens, the trap ends the processes inside them (found by namespace, never by name), removes the
# namespaces and the scratch folder. A watchdog bounds the whole run.
#
# Left out: artificial delay and loss (netem is missing from many kernels). Round trips are those of
# a veth pair and of the programs themselves, tens of microseconds to milliseconds, as on a wired LAN.
#
# Usage: sudo tools/traffic-lab/make-captures.sh [OUTPUT_FOLDER]     (about seven minutes)
set -euo pipefail

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=${1:-$LAB/../../test/fixtures/lab}
MAX_SECONDS=540
PACKAGES="tcpdump tshark iproute2 ethtool python3-minimal openssl curl nginx-light mosquitto
  mosquitto-clients dnsmasq-base bind9-dnsutils chrony ntpsec-ntpdig libcoap3-bin openssh-server
  nmap hydra"

[ "$(id -u)" = 0 ] || { echo "make-captures.sh: network namespaces need root" >&2; exit 1; }

# Debian starts a daemon when its package is installed, unless policy-rc.d says no.
install_packages() {
  local missing=() package policy=/usr/sbin/policy-rc.d made=""
  for package in $PACKAGES; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    made=1
  fi
  local failed=0
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; } || failed=1
  [ -z "$made" ] || rm -f "$policy"
  return $failed
}

# record NAME SECONDS: the bridge, whole frames, to SCRATCH/NAME.pcap. tcpdump prints its own count
# of what the kernel dropped; a capture with drops is not kept.
record() {
  local name=$1 seconds=$2 log=$SCRATCH/$1.log
  ip netns exec $PREFIX-gw tcpdump -i br0 -n -s 0 -B 8192 -Z root -w "$SCRATCH/$name.pcap" 2>"$log" &
  local tcpdump=$!
  sleep 1
  if [[ $name == novel-* ]]; then
    sleep 3
    "novelty_${name#novel-}"
  fi
  sleep "$seconds"
  kill -TERM "$tcpdump"
  wait "$tcpdump" || true
  grep -q '^0 packets dropped by kernel' "$log" || { cat "$log" >&2; return 1; }
  echo "$name: $(grep -o '[0-9]* packets captured' "$log")" >&2
}

install_packages
SCRATCH=$(mktemp -d)
export SCRATCH LAB
source "$LAB/topology.sh"
source "$LAB/services.sh"
source "$LAB/devices.sh"
source "$LAB/novelties.sh"

refuse_if_present
( trap - EXIT; sleep $MAX_SECONDS; echo "make-captures.sh: over $MAX_SECONDS s, ending" >&2; kill -TERM $$ ) &
WATCHDOG=$!
disown "$WATCHDOG"
cleanup() {
  trap - EXIT INT TERM
  pkill -P "$WATCHDOG" 2>/dev/null || true
  kill "$WATCHDOG" 2>/dev/null || true
  remove_network
  rm -rf "$SCRATCH"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

build_network
start_services
start_devices
sleep 4

while read -r name seconds; do
  record "$name" "$seconds"
done < <(python3 "$LAB/label.py" plan "$LAB/captures.json")

mkdir -p "$OUT"
python3 "$LAB/label.py" write "$LAB/captures.json" "$SCRATCH" "$OUT" "$(hosts_as_json)"
