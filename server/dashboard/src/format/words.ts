/** A name of the API as words: `device_unhealthy` becomes device unhealthy. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
