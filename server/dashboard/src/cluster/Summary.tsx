import { percent, plain } from "../format/amounts";
import type { Totals } from "./nodes";
import { Trend } from "./Trend";

/** The cluster in five figures, and their trend. */
export function Summary({ totals }: { readonly totals: Totals }) {
  const held = totals.capacity ? totals.held / totals.capacity : 0;
  return (
    <section className="figures-strip panel" aria-label="Summary">
      <dl>
        <Figure name="held" value={`${plain(totals.held)} of ${plain(totals.capacity)}`} note={percent(held)} />
        <Figure name="free" value={String(totals.wholeFree)} note="whole devices" />
        <Figure name="in fragments" value={plain(totals.fragments)} note="free on shared devices" />
        <Figure
          name="held, idle"
          value={String(totals.idle)}
          note="utilization < 5 %"
          tone={totals.idle ? "warn" : ""}
        />
        <Figure name="unhealthy" value={String(totals.unwell)} note="devices" tone={totals.unwell ? "bad" : ""} />
      </dl>
      <Trend />
    </section>
  );
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
