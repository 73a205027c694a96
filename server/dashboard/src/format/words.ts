/** A name of the API as words: `device_unhealthy` becomes device unhealthy. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}

/**
 * A refusal with the labels of a form instead of the API's names: `starts_at: it is in the past` becomes
 * `From: it is in the past`.
 *
 * @param labels by the API's names; the name of another field that a message begins with becomes words.
 */
export function inLabels(message: string, labels: Readonly<Record<string, string>> = {}): string {
  const own = (name: string) => (Object.hasOwn(labels, name) ? labels[name] : undefined);
  return message
    .replace(/^([a-z]+(?:_[a-z]+)*): /, (all, name: string) => {
      const label = own(name) ?? (name.includes("_") ? capital(words(name)) : undefined);
      return label === undefined ? all : `${label}: `;
    })
    .replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) => {
      const label = own(name);
      return label === undefined ? name : `"${label}"`;
    });
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
