/** Strings that try to leave their place: markup, quotes, comment and section ends, invisible characters. */
import fc from 'fast-check'

export const hostilePieces = [
  '<script>window.__pwned = 1</script>',
  '<img src=x onerror="window.__pwned = 1">',
  '"><svg onload=window.__pwned=1>',
  "' onmouseover='window.__pwned=1",
  '</style><script>window.__pwned=1</script>',
  '</title><script>window.__pwned=1</script>',
  '</td></tr></table>',
  ']]>',
  '-->',
  '<!--',
  '<![CDATA[',
  '&lt;script&gt;',
  '&#60;b&#62;',
  '`$' + '{window.__pwned=1}`',
  'javascript:window.__pwned=1',
  'https://example.com/beacon.png',
  '\u202egnp.exe',
  '\u2066\u2067\u2068\u2069',
  '\u0000',
  '\u0008\u001b[2J',
  '\r\n',
  '\u2028\u2029',
  '\ufeff\u200b',
  '\ud800',
  '\udc00',
  '\uffff',
  '\\u003cscript\\u003e',
  'a'.repeat(3000),
  'é'.normalize('NFD').repeat(40),
] as const

export const hostileText = fc
  .array(
    fc.oneof(
      fc.constantFrom(...hostilePieces),
      fc.string({ unit: 'binary', maxLength: 8 }),
      fc.string({ maxLength: 8 }),
    ),
    {
      maxLength: 6,
    },
  )
  .map((pieces) => pieces.join(''))
