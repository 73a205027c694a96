/** A name of the API as people read it: `device_unhealthy` is device unhealthy. */
export function words(name: string): string {
  return name.replaceAll("_", " ");
}
