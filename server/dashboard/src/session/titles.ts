import { keyOf } from "../history/course";

interface Named {
  readonly id: string;
  readonly name: string;
  readonly where: string;
}

/** The title of a device by its key in the history; the end of its id if its agent no longer has it. */
export function titlesOf(devices: readonly Named[]): (key: string) => string {
  const names = new Map(devices.map((device) => [keyOf(device.where, device.id), device.name]));
  return (key) => {
    const at = key.indexOf("/");
    return `${names.get(key) ?? `…${key.slice(-6)}`} on ${key.slice(0, at)}`;
  };
}
