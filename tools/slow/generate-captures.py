#!/usr/bin/python3
"""Captures of many link layers, tunnels and writers, for compare-captures.mjs: generate-captures.py FOLDER

Frames are made by scapy, randpkt makes more; each set of frames is written as pcap of four kinds and as pcapng of
five, the latter by hand after draft-ietf-opsawg-pcapng: several sections of both byte orders, time resolutions
of powers of two and ten, if_tsoffset, simple and obsolete packet blocks, name resolution, statistics,
custom and unknown blocks, options. editcap writes a few formats more. The same files every time, but for randpkt's.
"""
import os
import random
import struct
import subprocess
import sys

from scapy.all import (
    ARP, GRE, ICMP, IP, IPv6, LLC, PPP, SCTP, SNAP, TCP, UDP, CookedLinux, Dot11, Dot11QoS, Dot1AD, Dot1Q, Dot3,
    Ether, ICMPv6EchoRequest, IPOption_Timestamp, IPOption_Router_Alert, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, Loopback, PPPoE, RadioTap, Raw, conf,
)
from scapy.contrib.mpls import MPLS
from scapy.contrib.gtp import GTP_U_Header
from scapy.contrib.geneve import GENEVE
from scapy.layers.l2 import CookedLinuxV2
from scapy.layers.vxlan import VXLAN
from scapy.layers.ipsec import AH

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
random.seed(20)

A, B = '192.0.2.1', '198.51.100.7'
A6, B6 = '2001:db8::1', '2001:db8:1::7'
PAYLOAD = bytes(range(40))


def transports(ip):
    """A few packets of each transport, both ways."""
    v6 = ip is IPv6
    a, b = (A6, B6) if v6 else (A, B)
    there, back = ip(src=a, dst=b), ip(src=b, dst=a)
    result = [
        there / UDP(sport=40000, dport=9999) / Raw(PAYLOAD),
        back / UDP(sport=9999, dport=40000) / Raw(PAYLOAD[:9]),
        there / TCP(sport=40001, dport=9998, flags='S', options=[('MSS', 1460)]),
        back / TCP(sport=9998, dport=40001, flags='SA'),
        there / TCP(sport=40001, dport=9998, flags='PAEC') / Raw(PAYLOAD),
        there / SCTP(sport=4002, dport=4003) / Raw(b'\x00\x03\x00\x10' + bytes(12)),
    ]
    result.append(there / (ICMPv6EchoRequest(data=PAYLOAD) if v6 else ICMP() / Raw(PAYLOAD)))
    return result


V4, V6 = transports(IP), transports(IPv6)
BOTH = V4 + V6
E = Ether(src='02:00:00:00:00:01', dst='02:00:00:00:00:02')
# tshark guesses by the makers of addresses whether a pseudowire has a control word
REAL = Ether(src='00:1b:21:3a:00:01', dst='00:1b:21:3a:00:02')

EXTENDED = [
    IPv6(src=A6, dst=B6) / IPv6ExtHdrHopByHop() / UDP(sport=1, dport=9999) / Raw(PAYLOAD),
    IPv6(src=A6, dst=B6) / IPv6ExtHdrDestOpt() / IPv6ExtHdrRouting(addresses=[A6], segleft=0) / TCP(sport=2, dport=3),
    IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(offset=0, m=1, id=7) / UDP(sport=4, dport=5, len=88) / Raw(PAYLOAD),
    IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(offset=6, m=0, id=7) / Raw(PAYLOAD),
    IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(offset=0, m=0, id=8) / UDP(sport=6, dport=7) / Raw(PAYLOAD),
    IPv6(src=A6, dst=B6, nh=59),
]
OPTIONS = [
    IP(src=A, dst=B, options=[IPOption_Router_Alert()]) / UDP(sport=1, dport=9999) / Raw(PAYLOAD),
    IP(src=A, dst=B, options=[IPOption_Timestamp(flg=0, length=12, pointer=5)]) / TCP(sport=2, dport=3),
    IP(src=A, dst=B, flags='MF', id=9) / UDP(sport=4, dport=5, len=88) / Raw(PAYLOAD),
    IP(src=A, dst=B, frag=6, id=9) / Raw(PAYLOAD),
    IP(src=A, dst=B, proto=89) / Raw(PAYLOAD),
    IP(src=A, dst=B, proto=253) / Raw(PAYLOAD),
]


def over(head):
    return [head / p for p in BOTH]


def wlan(head):
    data = dict(type=2, addr1='02:00:00:00:00:02', addr2='02:00:00:00:00:01', addr3='02:00:00:00:00:03')
    plain = [head / Dot11(subtype=0, FCfield='to-DS', **data) / LLC() / SNAP() / p for p in BOTH]
    plain += [head / Dot11(subtype=8, FCfield='from-DS', **data) / Dot11QoS() / LLC() / SNAP() / p for p in BOTH]
    plain += [head / Dot11(subtype=0, FCfield='to-DS+protected', **data) / Raw(PAYLOAD)]
    plain += [head / Dot11(type=0, subtype=8, addr1='ff:ff:ff:ff:ff:ff', addr2='02:00:00:00:00:01') / Raw(PAYLOAD)]
    return plain


def loop(family, order, packets):
    return [Raw(struct.pack(order + 'I', family)) / p for p in packets]


def tunnels():
    o4, o6 = IP(src='203.0.113.1', dst='203.0.113.2'), IPv6(src='2001:db8:f::1', dst='2001:db8:f::2')
    inner_ether = [Ether(src='02:00:00:00:01:01', dst='02:00:00:00:01:02') / p for p in BOTH]
    gre6 = [E / o6 / GRE(proto=0x0800 if IP in p and IPv6 not in p else 0x86dd) / p for p in BOTH]
    return {
        'gre': [E / o4 / GRE() / p for p in BOTH],
        'gre-key-seq': [E / o4 / GRE(key_present=1, key=5, seqnum_present=1, seqence_number=k, chksum_present=1) / p
                        for k, p in enumerate(BOTH)],
        'gre-ether': [E / o4 / GRE(proto=0x6558) / p for p in inner_ether],
        'gre-over-6': gre6,
        '6in4': [E / o4 / p for p in V6],
        'ipip': [E / o4 / p for p in V4],
        '4in6': [E / o6 / p for p in V4],
        '6in6': [E / o6 / p for p in V6],
        'vxlan': [E / o4 / UDP(sport=55555, dport=4789) / VXLAN(vni=7, flags=8) / p for p in inner_ether],
        'vxlan-6': [E / o6 / UDP(sport=55555, dport=4789) / VXLAN(vni=7, flags=8) / p for p in inner_ether],
        'geneve': [E / o4 / UDP(sport=55555, dport=6081) / GENEVE(vni=7, proto=0x6558) / p for p in inner_ether],
        'gtp-u': [E / o4 / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=9, gtp_type=255) / p for p in BOTH],
        'gtp-u-seq': [E / o4 / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=9, gtp_type=255, S=1, seq=k) / p
                      for k, p in enumerate(BOTH)],
        'ah': [E / o4 / AH(spi=1, icv=bytes(12)) / p[1] for p in V4],
        'gre-vlan': [E / Dot1Q(vlan=5) / o4 / GRE() / p for p in BOTH],
        'vxlan-in-gre': [E / o4 / GRE() / o4 / UDP(sport=1234, dport=4789) / VXLAN(vni=1, flags=8) / p
                         for p in inner_ether],
    }


SETS = {
    'ether': (1, over(E) + [E / ARP()]),
    'ether-padded': (1, [bytes(E / p).ljust(60, b'\x00') + bytes(7) for p in BOTH]),
    'extensions': (1, [E / p for p in EXTENDED]),
    'options': (1, [E / p for p in OPTIONS]),
    'vlan': (1, over(E / Dot1Q(vlan=5))),
    'qinq': (1, over(E / Dot1AD(vlan=6) / Dot1Q(vlan=5))),
    'qinq-8100': (1, over(E / Dot1Q(vlan=6) / Dot1Q(vlan=5) / Dot1Q(vlan=4))),
    'llc-snap': (1, [Dot3(src='02:00:00:00:00:01', dst='02:00:00:00:00:02') / LLC() / SNAP() / p for p in BOTH]),
    'mpls': (1, [E / MPLS(label=20, s=0, ttl=9) / MPLS(label=21, s=1, ttl=9) / p for p in BOTH]),
    'mpls-pw': (1, [E / MPLS(label=20, s=1, ttl=9) / Raw(bytes(4)) / REAL / p for p in BOTH]),
    'mpls-pw-bare': (1, [E / MPLS(label=20, s=1, ttl=9) / REAL / p for p in BOTH]),
    'pppoe': (1, [E / PPPoE(sessionid=3) / PPP(proto=0x21 if IPv6 not in p else 0x57) / p for p in BOTH]),
    'vlan-pppoe': (1, [E / Dot1Q(vlan=9) / PPPoE(sessionid=3) / PPP(proto=0x21 if IPv6 not in p else 0x57) / p
                       for p in BOTH]),
    'raw-101': (101, BOTH), 'ipv4-228': (228, V4), 'ipv6-229': (229, V6),
    'null-le': (0, loop(2, '<', V4) + loop(30, '<', V6)), 'null-be': (0, loop(2, '>', V4) + loop(24, '>', V6)),
    'loop-108': (108, loop(2, '>', V4) + loop(28, '>', V6)),
    'sll': (113, over(CookedLinux(src=b'\x02\x00\x00\x00\x00\x01'))),
    'sll2': (276, over(CookedLinuxV2(src=b'\x02\x00\x00\x00\x00\x01'))),
    'ppp': (9, [PPP(proto=0x21 if IPv6 not in p else 0x57) / p for p in BOTH]),
    'ppp-hdlc': (50, [Raw(b'\xff\x03') / PPP(proto=0x21 if IPv6 not in p else 0x57) / p for p in BOTH]),
    'chdlc': (104, [Raw(b'\x0f\x00' + (b'\x08\x00' if IPv6 not in p else b'\x86\xdd')) / p for p in BOTH]),
    'wlan': (105, wlan(Raw(b''))),
    'radiotap': (127, wlan(RadioTap())),
    'ppi': (192, [Raw(struct.pack('<BBHI', 0, 0, 8, 1)) / p for p in over(E)]),
    '802154': (195, [bytes([0x41, 0x88, k, 0xcd, 0xab, 2, 0, 1, 0]) + PAYLOAD + bytes(2) for k in range(6)]),
    '802154-nofcs': (230, [bytes([0x41, 0x88, k, 0xcd, 0xab, 2, 0, 1, 0]) + PAYLOAD for k in range(6)]),
    **{f'tunnel-{name}': (1, frames) for name, frames in tunnels().items()},
}


def pad(data):
    return data + bytes(-len(data) % 4)


def pcap(frames, link, order, nanos=False, snap=262144):
    out = struct.pack(order + 'IHHiIII', 0xa1b23c4d if nanos else 0xa1b2c3d4, 2, 4, 0, 0, snap, link)
    for micros, frame in frames:
        seconds, fraction = divmod(micros, 1000000)
        kept = frame[:snap]
        out += struct.pack(order + 'IIII', seconds, fraction * 1000 + 77 if nanos else fraction, len(kept), len(frame)) + kept
    return out


def option(order, code, data):
    return struct.pack(order + 'HH', code, len(data)) + pad(data)


def block(order, kind, body):
    body = pad(body)
    return struct.pack(order + 'II', kind, len(body) + 12) + body + struct.pack(order + 'I', len(body) + 12)


def section(order):
    options = option(order, 2, b'a machine') + option(order, 4, b'generate-captures') + option(order, 0, b'')
    return block(order, 0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, 1, 0, -1) + options)


def interface(order, link, resolution=None, offset=None, snap=0, plain=False):
    options = b'' if plain else option(order, 2, b'eth7') + option(order, 3, b'an interface') + option(order, 12, b'an os')
    if resolution is not None:
        options += option(order, 9, bytes([resolution]))
    if offset is not None:
        options += option(order, 14, struct.pack(order + 'q', offset))
    if options:
        options += option(order, 0, b'')
    return block(order, 1, struct.pack(order + 'HHI', link, 0, snap) + options)


def ticks(micros, resolution, offset):
    per_second = 2 ** (resolution & 127) if resolution & 128 else 10 ** resolution
    return (micros - offset * 1000000) * per_second // 1000000


def enhanced(order, micros, frame, number=0, resolution=6, offset=0, snap=None, options=True):
    t = ticks(micros, resolution, offset)
    kept = frame[:snap] if snap else frame
    body = struct.pack(order + 'IIIII', number, t >> 32, t & 0xffffffff, len(kept), len(frame)) + pad(kept)
    if options:
        body += option(order, 1, b'a comment') + option(order, 2, struct.pack(order + 'I', 1))
        body += option(order, 4, struct.pack(order + 'Q', 3)) + option(order, 0x8abc, b'private') + option(order, 0, b'')
    return block(order, 6, body)


def asides(order):
    """Blocks that hold no packet."""
    names = struct.pack(order + 'HH', 1, 10) + bytes([192, 0, 2, 1]) + b'a.org\x00' + bytes(2) + bytes(4)
    statistics = struct.pack(order + 'III', 0, 0x60000, 5) + option(order, 4, struct.pack(order + 'Q', 9)) + option(order, 0, b'')
    return block(order, 4, names) + block(order, 5, statistics)


def ng_simple(frames, link, order):
    """Simple packets have no time."""
    out = section(order) + interface(order, link, snap=65, plain=True)
    return out + b''.join(block(order, 3, struct.pack(order + 'I', len(f)) + pad(f[:65])) for _, f in frames)


def ng_obsolete(frames, link, order):
    out = section(order) + interface(order, link)
    for micros, frame in frames:
        body = struct.pack(order + 'HHIIII', 0, 0xffff, micros >> 32, micros & 0xffffffff, len(frame), len(frame)) + pad(frame)
        out += block(order, 2, body + option(order, 1, b'old') + option(order, 0, b''))
    return out


def ng_sections(frames, link, order):
    """A section of each byte order, two interfaces of which only the second is used, asides in between."""
    out = b''
    for k in range(0, len(frames), 5):
        order = '<' if k % 2 == 0 else '>'
        out += section(order) + interface(order, 1, 9) + interface(order, link, 3, 1000)
        for micros, frame in frames[k:k + 5]:
            out += asides(order) + enhanced(order, micros, frame, 1, 3, 1000)
    return out


def ng(resolution, offset=None, options=True, snap=None):
    def write(frames, link, order):
        out = section(order) + interface(order, link, resolution, offset) + asides(order)
        shift = offset or 0
        return out + b''.join(enhanced(order, m, f, 0, resolution, shift, snap, options) for m, f in frames)
    return write


WRITERS = {
    'le.pcap': lambda f, link: pcap(f, link, '<'),
    'be-nanos.pcap': lambda f, link: pcap(f, link, '>', True),
    'snapped.pcap': lambda f, link: pcap(f, link, '<', snap=68),
    'be.pcapng': lambda f, link: ng(6)(f, link, '>'),
    'nanos.pcapng': lambda f, link: ng(9, options=False)(f, link, '<'),
    'pow2-offset.pcapng': lambda f, link: ng(0x80 | 20, 1600000000)(f, link, '<'),
    'negative-offset-snapped.pcapng': lambda f, link: ng(6, -3600, snap=70)(f, link, '>'),
    'sections.pcapng': lambda f, link: ng_sections(f, link, '<'),
    'simple.pcapng': lambda f, link: ng_simple(f, link, '>'),
    'obsolete.pcapng': lambda f, link: ng_obsolete(f, link, '<'),
}


def main():
    written = 0
    for name, (link, packets) in SETS.items():
        frames = [(1700000000000000 + 1001 * k, p if isinstance(p, bytes) else bytes(p)) for k, p in enumerate(packets)]
        for suffix, write in WRITERS.items():
            with open(os.path.join(folder, f'{name}-{suffix}'), 'wb') as out:
                out.write(write(frames, link))
            written += 1
    for kind in ('arp bgp dns eth fddi icmp ieee802.15.4 ip ipv6 llc nbns ncp2222 sctp syslog tcp tds tr udp usb-linux').split():
        path = os.path.join(folder, f'randpkt-{kind}.pcapng')
        subprocess.run(['randpkt', '-b', '400', '-c', '60', '-t', kind, path], check=True, capture_output=True)
        written += 1
    for kind in ('modpcap', 'nsecpcap', 'rh6_1pcap', 'suse6_3pcap', 'nokiapcap'):
        path = os.path.join(folder, f'editcap-{kind}.pcap')
        source = os.path.join(folder, 'vlan-nanos.pcapng')
        done = subprocess.run(['editcap', '-F', kind, source, path], capture_output=True)
        if done.returncode == 0:
            written += 1
    print(f'{written} captures in {folder}')


conf.verb = 0
main()
