/** Alerts do not go to the end of a file that is read or kept otherwise, whatever it is called there. */
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/read-config.js'
import { settingsFrom } from '../../src/config/settings-from.js'
import { temporaryFolder } from '../support/folder.js'

const folder = temporaryFolder()
const inFolder = (name: string): string => join(folder, name)
const config = inFolder('agent.yaml')
for (const name of [
  'home.oddflow',
  'one.oddflow',
  'cal',
  'token',
  'password',
  'manuf',
  'today.pcap',
  'own.json',
]) {
  writeFileSync(inFolder(name), name)
}
mkdirSync(inFolder('st/spool'), { recursive: true })
mkdirSync(inFolder('st/models'))
mkdirSync(inFolder('evidence'))
writeFileSync(inFolder('st/devices.json'), '[]')
symlinkSync('home.oddflow', inFolder('link'))
linkSync(inFolder('home.oddflow'), inFolder('hard'))
symlinkSync('st/spool', inFolder('elsewhere'))
symlinkSync('st', inFolder('st-too'))

const HOOK = "{kind: webhook, url: 'http://h/', tokenFile: token}"
const BROKER = "{kind: mqtt, url: 'mqtt://b', passwordFile: password}"
const read = (eve: string, rest: string) => {
  const text = `eve: ${eve}\n${rest}`
  writeFileSync(config, text)
  return settingsFrom({ config, fold: true }, parseConfig(text))
}
const GIVEN = `read: today.pcap\nmodel: home.oddflow\nstate: st\nevidence: {directory: evidence}\noutputs: [${HOOK}, ${BROKER}]\nbudget: {falseAlertsPerDay: 1, calibration: cal}\ndevices: {vendors: manuf}\n`
const FILES = 'interface: eth0\nstate: later\nmodels: {per: all, files: {all: one.oddflow}}\n'

describe('an alert file', () => {
  it.each([
    ['home.oddflow', GIVEN, 'is the model'],
    ['./st/../home.oddflow', GIVEN, 'is the model'],
    ['link', GIVEN, 'is the model'],
    ['hard', GIVEN, 'is the model'],
    ['one.oddflow', FILES, 'is the model of all'],
    ['agent.yaml', GIVEN, 'is the configuration'],
    ['today.pcap', GIVEN, 'is the capture that is read'],
    ['cal', GIVEN, 'is the calibration'],
    ['token', GIVEN, 'is the token of webhook'],
    ['password', GIVEN, 'is the password of mqtt'],
    ['manuf', GIVEN, 'is the registry of vendors'],
    ['st/devices.json', GIVEN, 'is devices.json of the state folder'],
    ['st-too/recent-alerts.json', GIVEN, 'is recent-alerts.json of the state folder'],
    ['st/spool/eve.json', GIVEN, 'is in spool of the state folder'],
    ['st/spool/eve.place', GIVEN, 'is in spool of the state folder'],
    ['elsewhere/deeper/eve.json', GIVEN, 'is in spool of the state folder'],
    ['st-too/models/eve.json', GIVEN, 'is in models of the state folder'],
    ['evidence/eve.json', GIVEN, 'is in the folder of evidence'],
    ['later/spool/eve.json', FILES, 'is in spool of the state folder'],
    ['later/devices.json', FILES, 'is devices.json of the state folder'],
  ])('%s is refused at its place', (eve, rest, says) => {
    expect(() => read(eve, rest)).toThrow(
      `${config}:1:1: eve: ${join(folder, eve)}: ${says}; give a separate file for alerts`,
    )
  })

  it.each([
    ['own.json', GIVEN],
    ['new.json', GIVEN],
    ['st/eve.json', GIVEN],
    ['st/spool.json', GIVEN],
    ['later/eve.json', FILES],
    ['/dev/null', GIVEN.replace('today.pcap', '/dev/null')],
    ['/dev/stdout', GIVEN.replace('today.pcap', "'-'")],
  ])('%s will do', (eve, rest) => {
    expect(read(eve, rest).eve).toMatch(eve)
  })

  it('is refused by the name of the flag', () => {
    const model = relative('.', inFolder('home.oddflow'))
    expect(() => settingsFrom({ read: '-', model, eve: inFolder('hard'), fold: true }, null)).toThrow(
      `--eve ${inFolder('hard')}: is the model; give a separate file for alerts`,
    )
  })
})

it.each([
  ['eve: "a\\0b"\n', 1, 6],
  ['interface: "eth0\\0"\n', 1, 12],
  ['model: a\nread: "\\0"\n', 2, 7],
  ['state: a\0b\n', 1, 8],
  ['outputs: [{kind: webhook, url: "http://h/", tokenFile: "t\\x00"}]\n', 1, 56],
  ['evidence: {directory: "\\0"}\n', 1, 23],
  ['filter: "port 1\\0"\n', 1, 9],
  ['"ev\\0e": a\n', 1, 1],
])('a NUL is refused at its place: %j', (text, line, column) => {
  expect(parseConfig(text).errors).toEqual([
    { line, column, message: 'expected a text without NUL characters' },
  ])
})
