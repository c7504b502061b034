#!/usr/bin/env python3
"""The agent on a gateway of its own: learns two devices, is told to watch them, and is shown what is new.

    sudo tools/traffic-lab/agent-lab.py [--watch SECONDS] [--keep FOLDER]      # one line of JSON

Four network namespaces: a gateway (bridge and router, the agent on the bridge), two devices, and one machine that plays
the cloud and the attacker. The programs are real: python3 -m http.server, curl, sshd, ssh. The namespaces and
all processes go with this one, and nothing leaves them.

     plug .21   camera .22                                cloud 203.0.113.10
         |          |                                           |
         +--- br0 (gateway, 192.168.50.1, the agent) --- wan ----+

What is new: a scan of the plug from outside, passwords guessed at the camera's SSH server, a download of 2 MB by the plug,
a single packet to a service that nobody uses. For each alert the time is taken from the moment at which no packet
could change the verdict any more (the p-th packet, or the end of the cut) to the line in the EVE file.
"""
import argparse, atexit, json, os, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
AGENT = ["node", os.path.join(HERE, "../../apps/agent/dist/main.js")]
PACKETS, CUT, IDLE = 8, 0.5, 3
children = []


def start(command, ns=None, **options):
    if ns is not None:
        command = ["nsenter", "-t", str(ns.pid), "-n", "--", *command]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **options}
    child = subprocess.Popen(command, start_new_session=True, **options)
    children.append(child)
    return child


def end_all():
    for child in reversed(children):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def run(command, ns=None, check=True, **options):
    if ns is not None:
        command = ["nsenter", "-t", str(ns.pid), "-n", "--", *command]
    return subprocess.run(command, check=check, capture_output=True, text=True, **options)


def namespace():
    holder = start(["unshare", "--net", "sleep", "3600"])
    own = os.readlink("/proc/self/ns/net")
    for _ in range(500):
        try:
            if os.readlink(f"/proc/{holder.pid}/ns/net") != own:
                break
        except OSError:
            pass
        time.sleep(0.01)
    run(["ip", "link", "set", "lo", "up"], holder)
    return holder


def build():
    gateway, plug, camera, cloud = (namespace() for _ in range(4))
    run(["ip", "link", "add", "br0", "address", "02:50:00:00:00:01", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"], gateway)
    run(["ip", "addr", "add", "192.168.50.1/24", "dev", "br0"], gateway)
    run(["ip", "link", "set", "br0", "up"], gateway)
    run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=1"], gateway)
    for n, (name, host) in enumerate((("plug", plug), ("camera", camera))):
        run(["ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid)], gateway)
        run(["ip", "link", "set", name, "master", "br0", "up"], gateway)
        run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], host)
        run(["ip", "link", "set", "eth0", "address", f"02:50:00:00:00:{0x15 + n:02x}", "up"], host)
        run(["ip", "addr", "add", f"192.168.50.{21 + n}/24", "dev", "eth0"], host)
        run(["ip", "route", "add", "default", "via", "192.168.50.1"], host)
    run(["ip", "link", "add", "wan", "type", "veth", "peer", "name", "eth0", "netns", str(cloud.pid)], gateway)
    run(["ip", "addr", "add", "203.0.113.1/24", "dev", "wan"], gateway)
    run(["ip", "link", "set", "wan", "up"], gateway)
    run(["sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], cloud)
    run(["ip", "link", "set", "eth0", "up"], cloud)
    for address in ("203.0.113.10", "203.0.113.99"):
        run(["ip", "addr", "add", f"{address}/24", "dev", "eth0"], cloud)
    run(["ip", "route", "add", "default", "via", "203.0.113.1"], cloud)
    for host, links in ((gateway, ("br0", "plug", "camera", "wan")), (plug, ("eth0",)), (camera, ("eth0",)), (cloud, ("eth0",))):
        for link in links:
            run(["ethtool", "-K", link, "rx", "off", "tx", "off", "sg", "off", "tso", "off", "gso", "off", "gro", "off"], host, check=False)
    return gateway, plug, camera, cloud


NAME_SERVER = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("192.168.50.1", 53))
while True:
    q, a = s.recvfrom(512)
    s.sendto(q[:2] + bytes([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]) + q[12:] + bytes([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 10]), a)
"""
ASK = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(bytes([1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b"\\x03api\\x04plug\\x07example\\x00" + bytes([0, 1, 0, 1]), ("192.168.50.1", 53))
s.recv(512)
"""
SCAN = """
import socket, sys
for port in range(1000, 1200):
    s = socket.socket()
    s.settimeout(0.2)
    s.connect_ex(("192.168.50.21", port))
    s.close()
"""


def services(folder, gateway, camera, cloud):
    web = os.path.join(folder, "web")
    os.mkdir(web)
    open(os.path.join(web, "status"), "w").write('{"on":true,"watts":12}')
    open(os.path.join(web, "clip"), "wb").write(os.urandom(6000))
    open(os.path.join(web, "firmware"), "wb").write(os.urandom(2_000_000))
    start(["python3", "-c", NAME_SERVER], gateway)
    start(["python3", "-m", "http.server", "--bind", "203.0.113.10", "--directory", web, "8000"], cloud)
    key = os.path.join(folder, "key")
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])
    conf = os.path.join(folder, "sshd.conf")
    open(conf, "w").write(f"HostKey {key}\nPidFile none\nAllowUsers nobody-of-this-name\nUsePAM no\nMaxStartups 100\n")
    os.makedirs("/run/sshd", exist_ok=True)
    start([shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-f", conf], camera)


def devices(plug, camera):
    start(["bash", "-c", f"while :; do python3 -c '{ASK}'; curl -s -o /dev/null -A plug/1.4 http://203.0.113.10:8000/status; sleep 0.2; done"], plug)
    start(["bash", "-c", "while :; do curl -s -o /dev/null -A camera/2 http://203.0.113.10:8000/clip; sleep 0.25; done"], camera)


class Alerts(threading.Thread):
    """Lines of the EVE file with the time at which they were there."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.seen, self.rest = path, [], b""

    def run(self):
        while not os.path.exists(self.path):
            time.sleep(0.01)
        with open(self.path, "rb") as file:
            while True:
                lines = (self.rest + file.read()).split(b"\n")
                self.rest = lines.pop()
                self.seen += [(time.time(), json.loads(line)) for line in lines]
                time.sleep(0.01)


def verdict_point(alert):
    of = alert["oddflow"]
    flow = of["flow"]
    last = (flow["startMicros"] + flow["durationMicros"]) / 1e6
    if of["rule"] == "one-packet":
        return last + IDLE
    return last if flow["packets"] >= PACKETS else max(last, flow["startMicros"] / 1e6 + CUT)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--watch", type=float, default=6)
    options.add_argument("--learn-flows", type=int, default=100)
    options.add_argument("--learn-seconds", type=float, default=8)
    options.add_argument("--false-alerts-per-day", type=float, help="what is bearable of each device; else 1 %% of flows")
    options.add_argument("--keep")
    given = options.parse_args()
    folder = given.keep or tempfile.mkdtemp(prefix="agent-lab-")
    os.makedirs(folder, exist_ok=True)
    atexit.register(lambda: None if given.keep else shutil.rmtree(folder, ignore_errors=True))
    atexit.register(end_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    gateway, plug, camera, cloud = build()
    services(folder, gateway, camera, cloud)
    state, eve = os.path.join(folder, "state"), os.path.join(folder, "eve.json")
    config = os.path.join(folder, "agent.json")
    json.dump({
        "interface": "br0", "eve": eve, "state": state, "fold": False, "localNetworks": ["192.168.50.0/24"],
        "models": {"per": "device", "features": {"set": "iat-size", "packetsPerFlow": PACKETS, "cutSeconds": CUT, "idleSeconds": IDLE}},
        "devices": {"learnHours": given.learn_seconds / 3600, "learnFlows": given.learn_flows, "stableShare": 0.1},
        **({} if given.false_alerts_per_day is None else {"budget": {"falseAlertsPerDay": given.false_alerts_per_day}}),
    }, open(config, "w"))
    log = open(os.path.join(folder, "agent.log"), "w+")
    agent = start([*AGENT, "run", "--allow-root", "-c", config], gateway, stderr=log)
    alerts = Alerts(eve)
    alerts.start()
    time.sleep(1.5)
    devices(plug, camera)
    begun = time.time()

    def list_devices():
        told = run([*AGENT, "devices", "list", "--state", state, "--format", "json"], check=False)
        return [json.loads(line) for line in told.stdout.splitlines()]

    def is_ready():
        return {d["address"] for d in list_devices() if d["state"] == "ready"} >= {"192.168.50.21", "192.168.50.22"}

    while not is_ready():
        if agent.poll() is not None or time.time() - begun > 90 + given.learn_seconds + given.learn_flows:
            log.seek(0)
            sys.exit(f"the devices were not ready:\n{json.dumps(list_devices())}\n{log.read()}")
        time.sleep(1)
    learnt = time.time() - begun
    run([*AGENT, "devices", "approve", "--ready", "--state", state])
    before = {d["address"]: d["flows"] for d in list_devices()}
    first = len(alerts.seen)
    since = time.time()
    time.sleep(given.watch)

    def flows_since():
        return sum(d["flows"] - before.get(d["address"], 0) for d in list_devices())

    # on a loaded machine the devices are slow
    while flows_since() <= 5 and time.time() - since < given.watch + 20:
        time.sleep(1)
    watching = time.time() - since
    normal = [a for _, a in alerts.seen[first:]]
    watched = flows_since()

    events = {}

    def happening(name, work, matches):
        first = len(alerts.seen)
        work()
        deadline = time.time() + 12
        while time.time() < deadline:
            found = [(at, a) for at, a in alerts.seen[first:] if matches(a["oddflow"])]
            if found:
                break
            time.sleep(0.05)
        time.sleep(CUT + 1.5)
        found = [(at, a) for at, a in alerts.seen[first:] if matches(a["oddflow"])]
        late = sorted(at - verdict_point(a) for at, a in found)
        events[name] = {
            "alerts": len(found),
            "medianSeconds": round(late[len(late) // 2], 3) if late else None,
            "latestSeconds": round(late[-1], 3) if late else None,
        }

    def one_packet():
        run(["python3", "-c", 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x" * 20, ("203.0.113.77", 9999))'], plug)

    def guess():
        for n in range(8):
            run(["ssh", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", f"user{n}@192.168.50.22", "true"], cloud, check=False)

    happening("scan", lambda: run(["python3", "-c", SCAN], cloud), lambda o: o["flow"]["source"] == "203.0.113.10" and 1000 <= o["flow"]["destinationPort"] < 1200)
    happening("passwords", guess, lambda o: o["flow"]["destinationPort"] == 22)
    happening("download", lambda: run(["curl", "-s", "-o", "/dev/null", "http://203.0.113.10:8000/firmware"], plug), lambda o: o["device"]["address"] == "192.168.50.21" and o["flow"]["destinationPort"] == 8000)
    happening("onePacket", one_packet, lambda o: o["rule"] == "one-packet" and o["flow"]["destinationPort"] == 9999)
    resident = int(next(l for l in open(f"/proc/{agent.pid}/status") if l.startswith("VmHWM")).split()[1]) * 1024
    os.kill(agent.pid, signal.SIGTERM)
    agent.wait(10)
    log.seek(0)
    text = log.read()
    counters = json.loads(next(line.split(": ", 1)[1] for line in text.splitlines() if '"captured"' in line))
    print(json.dumps({
        "learnSeconds": round(learnt, 1),
        "normal": {"seconds": round(watching, 1), "flows": watched, "falseAlerts": len(normal)},
        "events": events,
        "packets": counters["captured"], "dropped": counters["dropped"],
        "models": counters["models"], "peakResidentBytes": resident,
        "exit": agent.returncode,
    }))


main()
