import { percent, plain } from "../format/amounts";
import { useNow } from "../format/clock";
import { clockTime } from "../format/times";
import type { Freed, Totals } from "./nodes";
import { Trend } from "./Trend";

/** The cluster in five figures, and their trend. */
export function Summary({ totals, freed }: { readonly totals: Totals; readonly freed: readonly Freed[] }) {
  const now = useNow();
  const held = totals.capacity ? totals.held / totals.capacity : 0;
  return (
    <section className="figures-strip panel" aria-label="Summary">
      <dl>
        <Figure name="Held" value={`${plain(totals.held)} of ${plain(totals.capacity)}`} note={percent(held)} />
        <Figure name="Free" value={String(totals.wholeFree)} note={freeText(totals, freed, now)} />
        <Figure name="Fragmented" value={plain(totals.fragments)} note="free on shared devices" />
        <Figure
          name="Idle"
          value={String(totals.idle)}
          note="held, utilization < 5 %"
          tone={totals.idle ? "warn" : ""}
        />
        <Figure name="Unhealthy" value={String(totals.unwell)} note="devices" tone={totals.unwell ? "bad" : ""} />
      </dl>
      <Trend />
    </section>
  );
}

/** `whole devices, 3 booked; 2 more by 15:03, 5 by 18:20; 4 on nodes that take nothing new`. */
function freeText({ booked, wholeClosed }: Totals, freed: readonly Freed[], now: number): string {
  const soon = freed.map(({ count, by }, place) => `${count}${place ? "" : " more"} by ${clockTime(by, now)}`);
  const closed = wholeClosed ? `${wholeClosed} on nodes that take nothing new` : "";
  return [booked ? `whole devices, ${booked} booked` : "whole devices", soon.join(", "), closed]
    .filter(Boolean)
    .join("; ");
}

interface FigureProps {
  readonly name: string;
  readonly value: string;
  readonly note: string;
  readonly tone?: string;
}

function Figure({ name, value, note, tone = "" }: FigureProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className={tone}>
        {value} <span className="quiet small">{note}</span>
      </dd>
    </div>
  );
}
