/**
 * Names of ports that filters know, with the transports that have them: those that people filter by, as they stand in
 * Debian's /etc/services, so that a filter means the same wherever it runs.
 */
import { PROTOCOL_TCP, PROTOCOL_UDP } from '../transport.js'

const TCP =
  'ftp-data:20 ftp:21 ssh:22 telnet:23 smtp:25 whois:43 http:80 pop3:110 netbios-ssn:139 imap2:143 imap:143 microsoft-ds:445 submissions:465 ipp:631 printer:515 submission:587 rsync:873 ftps:990 telnets:992 imaps:993 pop3s:995 mysql:3306 ms-wbt-server:3389 xmpp-client:5222 postgresql:5432 amqps:5671 x11:6000 redis:6379 http-alt:8080 git:9418'
const UDP =
  'bootps:67 bootpc:68 tftp:69 ntp:123 netbios-ns:137 netbios-dgm:138 isakmp:500 ipsec-nat-t:4500 mdns:5353'
const BOTH =
  'domain:53 kerberos:88 sunrpc:111 snmp:161 snmp-trap:162 ldap:389 https:443 syslog:514 rtsp:554 ldaps:636 domain-s:853 openvpn:1194 radius:1812 nfs:2049 sip:5060'

export interface NamedPort {
  readonly port: number
  /** Of the only transport that has the name, 0 where several have. */
  readonly protocol: number
}

const PORTS = new Map<string, NamedPort>(
  (
    [
      [TCP, PROTOCOL_TCP],
      [UDP, PROTOCOL_UDP],
      [BOTH, 0],
    ] as const
  ).flatMap(([names, protocol]) =>
    names.split(' ').map((entry): [string, NamedPort] => {
      const [name, port] = entry.split(':')
      return [name!, { port: Number(port), protocol }]
    }),
  ),
)

export function namedPort(name: string): NamedPort | null {
  return PORTS.get(name) ?? null
}
