/** Elements made of text nodes and attributes: nothing that the agent tells is ever read as markup. */
type Value = string | number | boolean | (() => void)

/** A function among the properties listens to the event that it is named for. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Readonly<Record<string, Value>> = {},
  ...children: readonly (Node | string | null)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') made.addEventListener(name, value)
    else if (value === true) made.setAttribute(name, '')
    else if (value !== false) made.setAttribute(name, String(value))
  }
  made.append(...children.filter((child) => child !== null))
  return made
}

export function svgElement(
  tag: string,
  attributes: Readonly<Record<string, string | number>>,
  text = '',
): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value))
  made.textContent = text
  return made
}

/** An element of the page's own document. */
export function byId<E extends HTMLElement = HTMLElement>(id: string): E {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found as E
}

/** Sets a text that has changed; what is read aloud is not said again. */
export function setText(target: Element, text: string): void {
  if (target.textContent !== text) target.textContent = text
}

export function timeOf(micros: number): string {
  const time = new Date(micros / 1000)
  const isToday = time.toDateString() === new Date().toDateString()
  return isToday ? time.toLocaleTimeString() : time.toLocaleString()
}

export function numberText(value: number): string {
  return Number.isInteger(value) ? value.toLocaleString() : String(Number(value.toPrecision(4)))
}

/** "1 peer", "2 peers". */
export function countText(count: number, one: string): string {
  return `${numberText(count)} ${one}${count === 1 ? '' : 's'}`
}
