/** What several parts of the page need: a row of buttons, a list, a dialog, the width of a picture. */
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

interface Children {
  readonly children: ComponentChildren
}

/** Buttons of which one may go while it has the focus: the first of the others gets it. */
export function Buttons({ children }: Children) {
  const box = useRef<HTMLDivElement>(null)
  const hadFocus = box.current?.contains(document.activeElement) === true
  useLayoutEffect(() => {
    if (hadFocus && !box.current?.contains(document.activeElement))
      box.current?.querySelector('button')?.focus()
  })
  return (
    <div class="buttons" ref={box}>
      {children}
    </div>
  )
}

/** Of texts, which may be the same twice. */
export function List({ items }: { readonly items: readonly string[] }) {
  return (
    <ul>
      {items.map((item, i) => (
        <li key={`${i} ${item}`}>{item}</li>
      ))}
    </ul>
  )
}

interface DialogProps extends Children {
  readonly title: string
  /** On the button that does what the dialog asks for. */
  readonly action: string
  readonly onSubmit: (form: HTMLFormElement) => void
  readonly onClose: () => void
}

/** Open while it is rendered; the focus goes back to where it was before. */
export function Dialog({ title, action, onSubmit, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => {
    const shown = dialog.current
    shown?.showModal()
    return () => shown?.close()
  }, [])
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          onSubmit(event.currentTarget)
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {children}
        <p class="buttons">
          <button type="submit">{action}</button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  )
}

const LEAST_WIDTH = 240

/** The width of the element that a picture fills, also after the window or the element has changed. */
export function useWidth() {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(LEAST_WIDTH)
  useLayoutEffect(() => {
    const shown = box.current as HTMLDivElement
    const observer = new ResizeObserver(() => setWidth(Math.max(LEAST_WIDTH, shown.clientWidth)))
    observer.observe(shown)
    return () => observer.disconnect()
  }, [])
  return [box, width] as const
}
