import fc from 'fast-check'
import { parseHTML } from 'linkedom'
import { describe, expect, it } from 'vitest'
import { escapeText, html, NAME_LIMIT, name, trusted, visibleText } from '../../src/report/format.js'
import { hostileText } from './hostile-text.js'

describe('html', () => {
  it('escapes strings and keeps what it made itself', () => {
    const inner = html`<b title="${'"><i>'}">${'a & b'}</b>`
    expect(html`<p>${inner}${[inner, null, false, undefined]}${7}</p>`.text).toBe(
      '<p><b title="&quot;&gt;&lt;i&gt;">a &amp; b</b><b title="&quot;&gt;&lt;i&gt;">a &amp; b</b>7</p>',
    )
  })

  it('does not take a look-alike object for markup', () => {
    const forged = JSON.parse('{"text":"<script>"}')
    expect(() => html`${forged}`).toThrow(TypeError)
  })

  it('takes trusted markup as it is', () => {
    expect(html`${trusted('<br>')}`.text).toBe('<br>')
  })

  it('yields one element with one attribute and the visible text back, whatever the string', () => {
    fc.assert(
      fc.property(hostileText, (text) => {
        const { document } = parseHTML(
          html`<!doctype html><html><body><p title="${text}">${text}</p></body></html>`.text,
        )
        const p = document.querySelector('p')!
        expect(document.body.children.length).toBe(1)
        expect(p.children.length).toBe(0)
        expect(p.getAttributeNames()).toEqual(['title'])
        expect(p.getAttribute('title')).toBe(visibleText(text))
        expect(p.textContent).toBe(visibleText(text))
      }),
      { numRuns: sampleCount(500) },
    )
  })
})

describe('visibleText', () => {
  it('shows control, bidirectional and invisible characters by a sign', () => {
    expect(visibleText('a\u0000b\u001bc\u007f\n')).toBe('a⟨U+0000⟩b⟨U+001B⟩c⟨U+007F⟩⟨U+000A⟩')
    expect(visibleText('\u202eexe\u2066\u200b\ufeff\u0085')).toBe(
      '⟨U+202E⟩exe⟨U+2066⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+0085⟩',
    )
    expect(visibleText('\ud800x')).toBe('⟨U+D800⟩x')
    expect(visibleText('\u{e0041}')).toBe('⟨U+E0041⟩')
  })

  it('leaves ordinary text of any script alone', () => {
    for (const text of ['Gerät 7', 'датчик', 'מכשיר', '传感器', 'a😀b', '10.0.0.1:443'])
      expect(visibleText(text)).toBe(text)
  })

  // Unicode's own property classes are the outside evidence: Cc, Bidi_Control and lone surrogates must not pass.
  it('lets no control, format or lone-surrogate character through', () => {
    fc.assert(
      fc.property(hostileText, (text) => {
        expect(visibleText(text)).not.toMatch(/[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029\ufeff]/u)
        expect(escapeText(text)).not.toMatch(/[<>"']/)
      }),
      { numRuns: sampleCount(500) },
    )
  })

  it('covers every code point of Unicode that is a control or steers direction', () => {
    for (let code = 0; code <= 0x10ffff; code++) {
      const c = String.fromCodePoint(code)
      if (/[\p{Cc}\p{Cs}\p{Bidi_Control}]/u.test(c) && visibleText(c) === c)
        throw new Error(`U+${code.toString(16)} passes unseen`)
    }
  })
})

describe('name', () => {
  it('isolates a name and cuts a very long one, saying by how much', () => {
    expect(name('x<y').text).toBe('<bdi>x&lt;y</bdi>')
    const cut = name('a'.repeat(5_000_000)).text
    expect(cut).toContain(`+${5_000_000 - NAME_LIMIT} more characters`)
    expect(cut.length).toBeLessThan(NAME_LIMIT + 100)
  })
})
