/**
 * The environment that tools run in: the caller's, less what would change their results.
 *
 * `npm run` hands its own settings down as npm_config_* variables, among them ones that belong to the
 * outer call alone (--silent, --prefix, --workspace). Kept are those that say how to reach a registry;
 * the rest is dropped, and the few that a user's own configuration must not decide are set. A registry,
 * a proxy or a certificate configured by the user is respected.
 *
 * A HOME that is empty, missing or not writable (a service account, a container) is replaced for the
 * tools by a folder inside the checkout, so that their caches have a place.
 */
import { accessSync, constants, mkdirSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { root } from './layout.mjs'

const KEPT =
  /^npm_config_(?:.*registry|.*proxy|noproxy|ca|cafile|cert|key|strict_ssl|cache|userconfig|globalconfig|offline|prefer_offline|\/\/.*)$/i

const SETTINGS = {
  // Nothing is reported to anyone.
  TURBO_TELEMETRY_DISABLED: '1',
  TURBO_NO_UPDATE_NOTIFIER: '1',
  DO_NOT_TRACK: '1',
  npm_config_update_notifier: 'false',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  // A machine without a network learns it in seconds, not minutes.
  npm_config_fetch_retries: '2',
  npm_config_fetch_retry_mintimeout: '1000',
  npm_config_fetch_retry_maxtimeout: '5000',
  // What a user's own configuration must not decide.
  npm_config_yes: 'true',
  npm_config_global: 'false',
  npm_config_dry_run: 'false',
  npm_config_script_shell: '/bin/sh',
}

function isWritableDirectory(path) {
  try {
    if (!isAbsolute(path) || !statSync(path).isDirectory()) return false
    accessSync(path, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * The environment for a tool; `binDirectories` are put first on its PATH.
 *
 * @param {string[]} binDirectories
 * @param {Record<string, string | undefined>} base
 * @returns {Record<string, string>}
 */
export function toolEnvironment(binDirectories = [], base = process.env) {
  const environment = {}
  for (const [name, value] of Object.entries(base)) {
    if (/^npm_/i.test(name) && !KEPT.test(name)) continue
    // NODE_ENV=production would leave out the development dependencies that build and tests are made of.
    if (name === 'INIT_CWD' || name === 'NODE_ENV') continue
    environment[name] = value
  }
  Object.assign(environment, SETTINGS)
  if (!isWritableDirectory(environment.HOME ?? '')) {
    environment.HOME = join(root, '.turbo', 'home')
    mkdirSync(environment.HOME, { recursive: true })
  }
  const bins = [...binDirectories, join(root, 'node_modules', '.bin')]
  environment.PATH = [...bins, environment.PATH ?? ''].join(delimiter)
  return environment
}
