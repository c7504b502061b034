"""Turns recorded captures into fixtures and writes down what is in them.

`label.py plan PLAN` prints "name seconds" per capture for make-captures.sh.
`label.py write PLAN RECORDED OUT HOSTS` converts each recording to the form its file name asks for
(.pcap as recorded, .pcapng by editcap, .gz by gzip without name or time), and writes OUT/labels.json.
`label.py table OUT` prints the table of the README, `label.py check OUT` counts everything again.

Every number comes from a program that is not this project: packets and bytes from capinfos, the
packets that a filter selects from tcpdump, flows from the addresses and ports that tshark prints. A flow
here is a distinct unordered TCP or UDP 5-tuple of one file, no timeouts. Left out: any judgement
inside a flow; a packet is novel when the capture's `novelWhen` filter selects it, else normal.
"""

import collections
import gzip
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys


def run(*command, stdin=None):
    return subprocess.run(command, check=True, capture_output=True, input=stdin).stdout


def plain_bytes(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def capinfos(path):
    fields = run("capinfos", "-TMrcdu", str(path)).decode().split("\n")[0].split("\t")
    return {"packets": int(fields[1]), "wireBytes": int(fields[2]), "seconds": round(float(fields[3]), 1)}


def packets_selected(path, expression):
    """The frames that tcpdump's filter selects, as a count (through standard input, so .gz works)."""
    counted = run("tcpdump", "--count", "-r", "-", expression, stdin=plain_bytes(path)).decode()
    return int(counted.split()[0])


def flows(path, expression=None):
    data = plain_bytes(path)
    if expression:
        data = run("tcpdump", "-r", "-", "-w", "-", expression, stdin=data)
    names = ["ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport"]
    fields = [argument for name in names for argument in ("-e", name)]
    lines = run(
        "tshark", "-n", "-r", "-", "-Y", "(tcp or udp) and not icmp and not icmpv6", "-T", "fields", *fields, stdin=data
    )
    counts = collections.Counter()
    for line in lines.decode().splitlines():
        source4, source6, target4, target6, tcp_from, udp_from, tcp_to, udp_to = line.split("\t")
        ends = sorted([(source4 or source6, tcp_from or udp_from), (target4 or target6, tcp_to or udp_to)])
        counts[("tcp" if tcp_from else "udp", *ends)] += 1
    return counts


def describe(plan, path):
    record = {key: value for key, value in plan.items() if key != "seconds"}
    record["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    record["sizeBytes"] = path.stat().st_size
    record |= capinfos(path)
    seen = flows(path)
    record["flows"] = len(seen)
    record["flowsOfTwoOrMorePackets"] = sum(count >= 2 for count in seen.values())
    if "novelWhen" in plan:
        novel = flows(path, plan["novelWhen"])
        if any(seen[flow] != count for flow, count in novel.items()):
            raise SystemExit(f"{path.name}: novelWhen cuts through a flow")
        record["novelPackets"] = packets_selected(path, plan["novelWhen"])
        record["novelFlows"] = len(novel)
        record["novelFlowsOfTwoOrMorePackets"] = sum(count >= 2 for count in novel.values())
    return record


def tool_versions():
    packages = "tcpdump tshark nginx-light curl mosquitto mosquitto-clients dnsmasq-base bind9-dnsutils chrony "
    packages += "ntpsec-ntpdig libcoap3-bin openssh-server nmap hydra openssl"
    lines = run("dpkg-query", "-W", "-f", "${Package} ${Version}\n", *packages.split()).decode().splitlines()
    return dict(sorted(line.split() for line in lines))


def place(recorded, target):
    if target.suffix == ".pcapng":
        run("editcap", "-F", "pcapng", str(recorded), str(target))
    elif target.suffix == ".gz":
        target.write_bytes(run("gzip", "-9n", stdin=recorded.read_bytes()))
    else:
        shutil.copyfile(recorded, target)


def write(plan_file, recorded, out, hosts):
    plans = json.loads(plan_file.read_text())
    captures = []
    for plan in plans["captures"]:
        target = out / plan["file"]
        place(recorded / (plan["file"].split(".")[0] + ".pcap"), target)
        captures.append(describe(plan, target))
    labels = {
        "description": "Captures of a small home network made from real programs by tools/traffic-lab, recorded with "
        "tcpdump at the gateway's bridge. In a novel capture exactly the packets that novelWhen (a tcpdump filter) "
        "selects are novel; the rest is the devices' normal traffic.",
        "devices": [host | {"character": plans["devices"][host["name"]]} for host in hosts],
        "tools": tool_versions(),
        "captures": captures,
    }
    (out / "labels.json").write_text(json.dumps(labels, indent=2) + "\n")


def check(out):
    for capture in json.loads((out / "labels.json").read_text())["captures"]:
        plan = {key: capture[key] for key in ("file", "label", "whatHappens", "novelWhen") if key in capture}
        if describe(plan, out / capture["file"]) != capture:
            raise SystemExit(f"{capture['file']}: labels.json says otherwise")
        print("ok", capture["file"])


def table(out):
    print("| capture | size | packets | wire bytes | seconds | flows | of ≥ 2 packets | novel packets | novel flows | of ≥ 2 packets |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for c in json.loads((out / "labels.json").read_text())["captures"]:
        keys = ("sizeBytes", "packets", "wireBytes", "seconds", "flows", "flowsOfTwoOrMorePackets")
        keys += ("novelPackets", "novelFlows", "novelFlowsOfTwoOrMorePackets")
        print("| " + " | ".join([c["file"], *(f"{c.get(key, 0):,}" for key in keys)]) + " |")


if __name__ == "__main__":
    action, *arguments = sys.argv[1:]
    if action == "plan":
        for entry in json.loads(pathlib.Path(arguments[0]).read_text())["captures"]:
            print(entry["file"].split(".")[0], entry["seconds"])
    elif action == "write":
        write(*(pathlib.Path(argument) for argument in arguments[:3]), json.loads(arguments[3]))
    else:
        {"check": check, "table": table}[action](pathlib.Path(arguments[0]))
