const SUFFIXES = ["", "k", "m", "g", "t", "p"] as const;

/** A decimal number, or a size with a binary suffix, as the API writes it: `0.50`, `512g`. NaN when it is neither. */
export function amountOf(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([kmgtp])?(?:i?b)?$/i.exec(text.trim());
  if (!match) return text === "unlimited" ? Infinity : NaN;
  const power = SUFFIXES.indexOf((match[2]?.toLowerCase() ?? "") as (typeof SUFFIXES)[number]);
  return Number(match[1]) * 1024 ** power;
}

/** Shares and counts with at most two places: 0.5, 12, 0.33. */
export function plain(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** Shares of a device with two places always: they stand below each other. */
export function shares(value: number): string {
  return value.toFixed(2);
}

/** Bytes in binary units: 79.6 GiB. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  let rest = value;
  while (rest >= 1024 && power < units.length - 1) {
    rest /= 1024;
    power += 1;
  }
  return `${rest >= 100 || power === 0 || Number.isInteger(rest) ? Math.round(rest) : rest.toFixed(1)} ${units[power]}`;
}

export function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}
