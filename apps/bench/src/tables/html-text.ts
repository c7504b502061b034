/** Text into HTML and SVG, in elements and in quoted attributes. What comes here holds no control characters:
 * trials and manifests with any are refused when they are read. */
const REFERENCES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => REFERENCES[c] ?? c)
}
