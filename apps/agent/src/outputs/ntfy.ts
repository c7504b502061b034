/** ntfy: each incident as a push message to the phones that follow a topic (docs.ntfy.sh). A webhook of its preset. */
import * as v from 'valibot'
import { path } from '../config/schema-parts.js'
import { defineOutput, urlOf } from './output.js'
import { createWebhook } from './webhook.js'

export const ntfy = defineOutput({
  kind: 'ntfy',
  entries: {
    url: urlOf(
      /^https?:\/\/[^/?#]+\/([^?#]*\/)?[A-Za-z0-9_-]{1,64}$/,
      'a URL of http or https that ends with a topic',
      'The topic, such as https://ntfy.sh/a-name-that-is-hard-to-guess: anyone who knows it can read the incidents.',
    ),
    tokenFile: v.optional(path('A file whose first line is an access token.')),
  },
  create: async (settings, { version }) =>
    createWebhook({ ...settings, version, preset: 'ntfy', headers: {} }),
})
