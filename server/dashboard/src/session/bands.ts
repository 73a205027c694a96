import type { Band } from "../parts/bands";

interface Moments {
  readonly scheduled_at: string | null;
  readonly started_at: string | null;
}

/** The part of a plot in which a session starts; the rest, without a tint, is when it runs. */
export function bandsOf({ scheduled_at: granted, started_at: started }: Moments): readonly Band[] {
  if (!granted) return [];
  return [
    {
      from: Date.parse(granted) / 1000,
      to: started ? Date.parse(started) / 1000 : Infinity,
      token: "--holder-6",
    },
  ];
}
