import { useLive } from "../api/live";
import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { Faults } from "../parts/Faults";
import { figure, TablePanel } from "../parts/Table";
import { percent } from "../format/amounts";
import { loadForecastAccuracy, type ForecastAccuracy } from "./loading";

const EVERY_MS = 60_000;

/** How accurate forecasts of starts were. */
export function Forecasts() {
  const live = useLive(loadForecastAccuracy, "forecasts", { everyMs: EVERY_MS });
  return (
    <>
      <Faults of={live} />
      {live.data ? <Accuracy accuracy={live.data} /> : null}
    </>
  );
}

function Accuracy({ accuracy }: { readonly accuracy: ForecastAccuracy }) {
  const now = useNow();
  return (
    <section className="panel stack" aria-label="Accuracy of forecasts">
      <div className="row">
        <h2>Accuracy of forecasts</h2>
        {accuracy.since ? <span className="quiet small">since {moment(accuracy.since, now)}</span> : null}
      </div>
      {accuracy.missing ? <p>No forecasts are being made now: {accuracy.missing}.</p> : null}
      <p>
        Four of five sessions should start inside the band of the forecast at their submission. Unknown:{" "}
        {accuracy.unknown}
        {accuracy.unknown_part === null ? "" : ` (${percent(accuracy.unknown_part)})`}. Started before any forecast:{" "}
        {accuracy.at_once}. Forecast to start now: {accuracy.started_now}, of which {accuracy.now_true} did.
      </p>
      {accuracy.groups.length ? <Groups groups={accuracy.groups} /> : <p>No forecast has been judged yet.</p>}
    </section>
  );
}

const SIZES: Readonly<Record<string, string>> = {
  single: "at most one GPU",
  gang: "several GPUs",
  wide: "a large part of the cluster",
};

/** The common property of a group's forecasts: `told: <10 min` is "wait of less than 10 min forecast". */
function groupText(group: string): string {
  const [kind = "", value = ""] = group.split(": ");
  if (group === "all") return "all forecasts";
  if (kind === "size") return SIZES[value] ?? value;
  if (kind === "queue") return `${rangeText(value)} sessions in the queue`;
  if (kind === "policy") return `under policy version ${value}`;
  if (kind === "told") return toldText(value);
  const [size = "", told] = group.split(", told ");
  return told === undefined ? group : `${SIZES[size] ?? size}, ${toldText(told)}`;
}

function toldText(value: string): string {
  return value === "now" ? "start now forecast" : `wait of ${rangeText(value)} forecast`;
}

function rangeText(value: string): string {
  return value
    .replace(/^<(?=\d)/, "less than ")
    .replace(/^>=(?=\d)/, "at least ")
    .replace(/^>(?=\d)/, "more than ")
    .replace("-", " to ");
}

function Groups({ groups }: { readonly groups: ForecastAccuracy["groups"] }) {
  return (
    <TablePanel
      label="Accuracy by group"
      columns={[
        "Group",
        figure("Forecasts", "Sessions that have started since, and were told when"),
        figure("Inside", "Started between the two times of the forecast"),
        figure("Likely", "80 % interval of the part inside, by days: forecasts of one day have similar errors"),
        figure("Earlier", "Started before the earlier time"),
        figure("Later", "Started after the later time"),
        figure("Within 10 min", "Started at most 10 minutes before or after the median forecast (P50)"),
        figure(
          "Half to twice",
          "Waited between half and twice as long as forecast (P50), with five minutes added to both",
        ),
        figure("Mean error", "Mean quantile loss: 0 for forecasts that are exact"),
      ]}
    >
      {groups.map((one) => (
        <tr key={one.group}>
          <th scope="row">{groupText(one.group)}</th>
          <td className="figure">{one.count}</td>
          <td className="figure">{percent(one.inside)}</td>
          <td className="figure">
            {percent(one.inside_low)} to {percent(one.inside_high)}
          </td>
          <td className="figure">{percent(one.below)}</td>
          <td className="figure">{percent(one.above)}</td>
          <td className="figure">{percent(one.within_10_min)}</td>
          <td className="figure">{percent(one.within_factor_2)}</td>
          <td className="figure">{duration(one.error * 1000)}</td>
        </tr>
      ))}
    </TablePanel>
  );
}
