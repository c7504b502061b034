/// <reference lib="dom" />
/**
 * WCAG 2.1 contrast of an element's text against what lies behind it, measured in the page (success criterion
 * 1.4.3; relative luminance as defined there). Runs inside the browser: it must stand alone.
 */
export function contrastOf(selector: string): number {
  const element = document.querySelector(selector)
  if (element === null) throw new Error(`nothing matches ${selector}`)
  const channels = (color: string): number[] => (color.match(/[\d.]+/g) ?? []).map(Number)
  const luminance = (color: string): number => {
    const [r = 0, g = 0, b = 0] = channels(color).map((c) => {
      const s = c / 255
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const style = getComputedStyle(element)
  const front = element instanceof SVGElement ? style.fill : style.color
  let back = 'rgb(255, 255, 255)'
  for (let e: Element | null = element; e !== null; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor
    if (channels(color)[3] !== 0) {
      back = color
      break
    }
  }
  const [light, dark] = [luminance(front), luminance(back)].sort((a, b) => b - a) as [number, number]
  return (light + 0.05) / (dark + 0.05)
}
