import { ask } from "../api/client";
import { useLive } from "../api/live";
import { quantity } from "../format/amounts";
import { clockTime, dayTime } from "../format/times";
import { OpenBookingsDocument, type OpenBookingsQuery } from "../generated/graphql";
import { useIdentity, type Me } from "../identity/me";
import { Choice } from "../parts/Choice";
import { LABELS } from "./labels";

interface Props {
  /** Id of a booking; empty is none. */
  readonly value: string;
  readonly wrong?: string | undefined;
  readonly onChange: (booking: string) => void;
}

type Booking = OpenBookingsQuery["reservations"][number];

const NONE = "none";

/** The booking that a session runs in, on the booked GPUs; not shown to users without bookings. */
export function BookingChoice({ value, wrong, onChange }: Props) {
  const me = useIdentity();
  const all = useLive(async () => (await ask(OpenBookingsDocument, {})).reservations, "bookings", { everyMs: 60_000 });
  const known = (all.data ?? []).filter((one) => one.kind === "use" && (isTheirs(one, me) || one.id === value));
  const options = known.map((one) => ({ id: one.id, text: textOf(one) }));
  if (!known.length && !value) return null;
  return (
    <Choice
      label={LABELS.booking}
      value={value || NONE}
      wrong={wrong}
      options={[
        { id: NONE, text: "none" },
        ...options,
        ...(value && !known.some(({ id }) => id === value) ? [{ id: value, text: value }] : []),
      ]}
      onChange={(next) => onChange(next === NONE ? "" : next)}
    />
  );
}

/** Whether a user may submit sessions into a booking. Operators reach the bookings of others by links. */
function isTheirs(booking: Booking, me: Me | null): boolean {
  return me !== null && (booking.owner === me.name || me.projects.includes(booking.project));
}

/** `paper, Nov 29 14:00 to 17:00, 2 GPUs`. */
function textOf({ name, starts_at, ends_at, gpus }: Booking): string {
  const window = `${dayTime(starts_at)} to ${clockTime(ends_at, Date.parse(starts_at))}`;
  return `${name}, ${window}, ${quantity("cuda.device", String(gpus))}`;
}
