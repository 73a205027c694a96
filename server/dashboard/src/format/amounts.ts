const SUFFIXES = ["", "k", "m", "g", "t", "p"] as const;

/** The value of an amount: a decimal number, or a size with a binary suffix, like `0.50`, `512g`, `32 GiB`; else NaN. */
export function amountOf(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgtp])?(?:i?b)?$/i.exec(text.trim());
  if (!match) return text === "unlimited" ? Infinity : NaN;
  const power = SUFFIXES.indexOf((match[2]?.toLowerCase() ?? "") as (typeof SUFFIXES)[number]);
  return Number(match[1]) * 1024 ** power;
}

/** An amount as typed, like `32 GiB`, as the API takes it: without spaces. */
export function amountInput(text: string): string {
  return text.replace(/\s+/g, "");
}

/** Shares and counts with at most two decimal places: 0.5, 12, 0.33. */
export function plain(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** GPU-hours with two decimal places; smaller amounts above zero are `< 0.01`. */
export function hoursText(value: number): string {
  return value > 0 && value < 0.01 ? "< 0.01" : plain(value);
}

/** Shares of a device with two decimal places, for columns. */
export function shares(value: number): string {
  return value.toFixed(2);
}

const UNITS: Readonly<Record<string, string>> = { "cuda.device": "GPU", "cuda.shares": "GPU", cpu: "CPU" };

/** An amount of a slot in people's units: `2 GPUs`, `0.5 GPU`, `4 CPUs`, `9.4 GiB`; other slots as `2 tpu.device`. */
export function quantity(slot: string, amount: string): string {
  const value = amountOf(amount);
  if (slot === "mem" && Number.isFinite(value)) return bytes(value);
  const unit = UNITS[slot];
  if (!unit || !Number.isFinite(value)) return `${amount} ${slot}`;
  return `${value} ${unit}${value > 0 && value <= 1 ? "" : "s"}`;
}

/** Amounts in people's units: `2 GPUs, 64 GiB`. */
export function quantities(slots: readonly { readonly slot: string; readonly amount: string }[]): string {
  return slots.map(({ slot, amount }) => quantity(slot, amount)).join(", ");
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

/** A part in whole percent; smaller parts above zero are `< 1 %`. */
export function percent(part: number): string {
  return part > 0 && part < 0.005 ? "< 1 %" : `${Math.round(part * 100)} %`;
}

/** A number of GPUs without its unit, for a column: 2, 0.25, and a dash for none. */
export function gpus(value: number): string {
  return value > 0 ? plain(value) : "—";
}

/** A part of an amount of bytes in the unit of the whole: 9.4/80 GiB. */
export function ofBytes(part: number, whole: number): string {
  const [size = "0", unit = "B"] = bytes(whole).split(" ");
  const scale = 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].indexOf(unit);
  const value = part / scale;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)}/${Math.round(Number(size))} ${unit}`;
}
