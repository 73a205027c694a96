/**
 * xterm.js adds style elements and style attributes through the page's `document`, which the page's security policy
 * forbids. While a terminal is shown, style elements get the page's nonce, and style attributes of spans are set as
 * properties, which the policy allows. Returns the function that ends this.
 */
export function allowStyles(): () => void {
  const nonce = document.querySelector<HTMLScriptElement>("script[nonce]")?.nonce ?? "";
  const create = Document.prototype.createElement.bind(document);
  const allowed = (name: string, options?: ElementCreationOptions): HTMLElement => {
    const element = create(name, options);
    if (name === "style") element.nonce = nonce;
    if (name === "span") {
      const set = element.setAttribute.bind(element);
      element.setAttribute = (key, value) => {
        if (key === "style") element.style.cssText = value;
        else set(key, value);
      };
    }
    return element;
  };
  document.createElement = allowed as typeof document.createElement;
  return () => Reflect.deleteProperty(document, "createElement");
}
