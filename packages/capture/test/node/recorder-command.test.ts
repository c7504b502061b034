import { describe, expect, it } from 'vitest'
import { recorderCommand } from '../../src/node/recorder.js'

describe('recorderCommand', () => {
  it('passes interface, filter, snap length, direction and buffer on to tcpdump', () => {
    expect(
      recorderCommand({
        interface: 'eth0',
        filter: ' host 192.0.2.1 and tcp ',
        snapLengthBytes: 128,
        direction: 'in',
        kernelBufferKibibytes: 4096,
      }),
    ).toEqual({
      recorder: 'tcpdump',
      program: 'tcpdump',
      args: '-i eth0 -Q in -U --immediate-mode -n -s 128 -B 4096 -w - --'
        .split(' ')
        .concat('host 192.0.2.1 and tcp'),
    })
  })

  it('keeps a filter that looks like an option behind the options', () => {
    const { args } = recorderCommand({ interface: 'lo', filter: '-w /etc/passwd' })
    expect(args.slice(-2)).toEqual(['--', '-w /etc/passwd'])
    const dumpcap = recorderCommand({ interface: 'lo', filter: '-w /etc/passwd', recorder: 'dumpcap' })
    expect(dumpcap.args.slice(-2)).toEqual(['-f', '-w /etc/passwd'])
  })

  it('speaks dumpcap, whose buffer is in MiB', () => {
    expect(recorderCommand({ interface: 'eth0', recorder: 'dumpcap', program: '/opt/dumpcap' })).toEqual({
      recorder: 'dumpcap',
      program: '/opt/dumpcap',
      args: '-q -P -i eth0 -s 2048 -B 32 -w -'.split(' '),
    })
  })

  it.each([
    [{ interface: '' }, 'interface'],
    [{ interface: '-' }, 'interface'],
    [{ interface: 'eth\0' }, 'interface'],
    [{ interface: 'eth0', filter: 'tcp\0' }, 'filter'],
    [{ interface: 'eth0', snapLengthBytes: 63 }, 'snapLengthBytes'],
    [{ interface: 'eth0', snapLengthBytes: 1.5e6 }, 'snapLengthBytes'],
    [{ interface: 'eth0', kernelBufferKibibytes: Number.NaN }, 'kernelBufferKibibytes'],
    [{ interface: 'eth0', direction: 'sideways' as never }, 'direction'],
    [{ interface: 'eth0', recorder: 'wireshark' as never }, 'recorder'],
    [{ interface: 'eth0', recorder: 'dumpcap', direction: 'in' } as const, 'direction'],
    [{ interface: 'eth0', program: '' }, 'program'],
  ])('refuses %j by name', (options, field) => {
    expect(() => recorderCommand(options)).toThrow(expect.objectContaining({ name: 'ArgumentError', field }))
  })
})
