import { percent } from "../format/amounts";
import { useNow } from "../format/clock";
import { clockTime } from "../format/times";
import { startSentence, trustSentence } from "../queue/forecast";
import type { Session } from "./loading";

/** When a waiting session is forecast to start and to end. */
export function When({ session }: { readonly session: Session }) {
  const now = useNow();
  const forecast = session.forecast;
  const told = forecast?.now;
  const trust = trustSentence(forecast);
  return (
    <section className="panel stack" aria-label="Forecast">
      <p>
        {startSentence(forecast, now)}
        {told?.end ? ` Ends about ${clockTime(told.end.p50, now)}.` : ""}
        {told?.start && !told.starts_now && told.within_hour !== null
          ? ` ${percent(told.within_hour)} chance of a start within an hour.`
          : ""}
      </p>
      {trust ? <p className="quiet small">{trust}</p> : null}
    </section>
  );
}
