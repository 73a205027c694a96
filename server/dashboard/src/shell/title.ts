/** Names the browser's tab after what it shows, so that several of them can be told apart. */
export function setTitle(what: string): void {
  document.title = `${what} · Aliquot`;
}
