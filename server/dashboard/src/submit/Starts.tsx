import { Button } from "react-aria-components";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { useNow } from "../format/clock";
import { StartsDocument, type CreateSessionInput } from "../generated/graphql";
import { useSettled } from "../parts/settled";
import { startSentence, trustSentence } from "../queue/forecast";
import { bandText, COUNTS, forecastOf, shortStart, variantsOf, type Start } from "./starts";

const PAUSE_MS = 800;
const EVERY_MS = 60_000;

interface Props {
  readonly request: CreateSessionInput;
  /** The number of GPUs in the form. */
  readonly amount: string;
  readonly onChoose: (amount: string) => void;
}

/** When the session would start with 1, 2, 4 or 8 GPUs, side by side. */
export function Starts({ request, amount, onChoose }: Props) {
  const now = useNow();
  const variants = variantsOf(request);
  const live = useStarts(variants);
  if (!variants.length) return null;
  return (
    <section className="panel stack" aria-labelledby="when-starts">
      <h2 id="when-starts">When it would start</h2>
      <div className="starts">
        {COUNTS.map((count, at) => {
          const start = live.data?.[at];
          return (
            <div key={count} className={count === amount ? "start chosen" : "start"}>
              <Button className="button plain" aria-label={`Choose ${gpusText(count)}`} onPress={() => onChoose(count)}>
                {gpusText(count)}
              </Button>
              <b>{start ? shortStart(start, now) : "…"}</b>
              <span className="quiet small">{start ? bandText(start, now) : ""}</span>
            </div>
          );
        })}
      </div>
      <p className="quiet small">
        {live.fault
          ? live.fault.message
          : "Each alone, per kernel. Below the likely time is the band that four of five sessions start in."}
      </p>
    </section>
  );
}

/** When one session would start, as a sentence. */
export function StartLine({ request }: { readonly request: CreateSessionInput }) {
  const now = useNow();
  const live = useStarts([request]);
  const start = live.data?.[0];
  const forecast = start ? forecastOf(start) : null;
  if (!forecast) return <p className="quiet">{start ? "" : "The forecast is being made …"}</p>;
  const trust = trustSentence(forecast);
  return (
    <>
      <p>{startSentence(forecast, now)}</p>
      {trust ? <p className="quiet small">{trust}</p> : null}
    </>
  );
}

const gpusText = (count: string) => `${count} GPU${count === "1" ? "" : "s"}`;

/** When each of these would start if it were submitted alone. Asked again when they have not changed for a moment. */
function useStarts(requests: readonly CreateSessionInput[]) {
  const key = useSettled(requests.length ? JSON.stringify(requests) : "", "", PAUSE_MS);
  const load = async (): Promise<readonly Start[]> =>
    key ? (await ask(StartsDocument, { inputs: JSON.parse(key) as CreateSessionInput[] })).preview_forecasts : [];
  return useLive(load, key, { everyMs: EVERY_MS });
}
