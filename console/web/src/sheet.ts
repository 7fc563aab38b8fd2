// Style sheets that scripts make. The policy of the page forbids style elements, and permits sheets
// that are adopted.

/** An element whose text is a style sheet of the document while it is part of it. */
class SheetElement extends HTMLElement {
  #sheet = new CSSStyleSheet()
  override set textContent(css: string | null) { this.#sheet.replaceSync(css ?? '') }
  override get textContent(): string { return '' }
  connectedCallback() { document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.#sheet] }
  disconnectedCallback() { document.adoptedStyleSheets = document.adoptedStyleSheets.filter(s => s !== this.#sheet) }
}
customElements.define('kapok-sheet', SheetElement)

/** Takes the place of document.createElement('style') in xterm: see vite.config.ts. */
export const sheet = (): HTMLElement => new SheetElement()
