import type { PolicyPartsFragment, PriceInput } from "../../generated/graphql";

type Rate = PolicyPartsFragment["prices"]["rates"][number];

export const PRICES_FORM = "Write prices like: 0.5 hours=20-7; 2.5 model=*H100*; 1";
const ONE = /^(\d+(?:\.\d+)?)((?:\s+(?:model|pool|hours)=[^=]+?)*)$/;
const PART = /(model|pool|hours)=([^=]+?)(?=\s+(?:model|pool|hours)=|$)/g;
const HOURS = /^(\d{1,2})-(\d{1,2})$/;

/** Prices as one line: `0.5 hours=20-7; 2.5 model=*H100*; 1`. */
export function ratesText(rates: readonly Rate[]): string {
  return rates
    .map(({ price, model, pool, from_hour, until_hour }) =>
      [
        String(price),
        ...(model === null ? [] : [`model=${model}`]),
        ...(pool === null ? [] : [`pool=${pool}`]),
        ...(from_hour === 0 && until_hour === 24 ? [] : [`hours=${from_hour}-${until_hour}`]),
      ].join(" "),
    )
    .join("; ");
}

/** The prices of such a line; null where it cannot be read. */
export function ratesOf(text: string): PriceInput[] | null {
  const lines = text.split(";").map((one) => one.trim());
  const rates = lines.filter((one) => one !== "").map(rateOf);
  return rates.every((one) => one !== null) ? rates : null;
}

function rateOf(text: string): PriceInput | null {
  const [whole, price, parts = ""] = ONE.exec(text) ?? [];
  if (whole === undefined) return null;
  const found = [...parts.matchAll(PART)].map(([, name = "", value = ""]) => [name, value.trim()] as const);
  const named = new Map(found);
  const hours = named.get("hours");
  const [isHours, from, until] = HOURS.exec(hours ?? "0-24") ?? [];
  if (isHours === undefined || Number(from) > 23 || Number(until) < 1 || Number(until) > 24) return null;
  if (named.size < found.length) return null;
  return {
    price: Number(price),
    model: named.get("model") ?? null,
    pool: named.get("pool") ?? null,
    from_hour: Number(from),
    until_hour: Number(until),
  };
}
