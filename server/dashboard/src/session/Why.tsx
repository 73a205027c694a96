import { Button } from "react-aria-components";
import { Link } from "wouter";
import { ask } from "../api/client";
import { useLive } from "../api/live";
import { useNow } from "../format/clock";
import { moment } from "../format/times";
import { SessionWhyDocument, type SessionWhyQuery } from "../generated/graphql";
import { Because } from "../queue/Because";
import { idsIn, WithLinks } from "../queue/WithLinks";
import { applyRemedy } from "./actions";
import type { Session } from "./loading";
import { learnNames } from "./names";
import { isClickable, standingOf, whenOf, type OtherSession, type Remedy } from "./remedies";
import { nameOf, shortOf } from "./standing";

const EVERY_MS = 15_000;
const SHOWN = 5;

interface Props {
  readonly session: Session;
  readonly refresh: () => void;
}

/** Why a session waits: the sessions that block it or are ahead of it, and changes that would start it. */
export function Why({ session, refresh }: Props) {
  const now = useNow();
  const key = `${session.id} ${session.version} ${session.queue_position ?? ""}`;
  const found = useLive(() => load(session.id), key, { everyMs: EVERY_MS });
  const why = found.data?.session_why;
  const act = (remedy: Remedy) => void applyRemedy(session.id, remedy).then(refresh);
  return (
    <section className="panel stack" aria-label="Reason for waiting">
      <Because session={session} />
      {why?.expected_start ? (
        <p>
          Latest start: {moment(why.expected_start, now)}, if running sessions end by their limits, or, without one, as
          similar ones did.
        </p>
      ) : null}
      <div className="why-parts">
        <Others
          title={session.waits?.reason === "dependency" ? "Must end first" : "In the way"}
          others={why?.in_the_way ?? []}
          now={now}
        />
        <Others title="Ahead in the queue" others={why?.ahead ?? []} now={now} total={(why?.position ?? 1) - 1} />
        {why?.remedies.length ? (
          <div>
            <h2>It would start</h2>
            <ul className="remedies">
              {why.remedies.map((remedy) => (
                <li key={remedy.kind}>
                  <div className="row">
                    <b>{whenOf(remedy, now)}</b>
                    <span>
                      <WithLinks text={remedy.summary} />
                    </span>
                    {isClickable(remedy) ? (
                      <Button
                        className="button end"
                        aria-label={`Apply: ${remedy.summary}`}
                        onPress={() => act(remedy)}
                      >
                        Apply
                      </Button>
                    ) : null}
                  </div>
                  {remedy.command ? (
                    <code className="quiet small">{remedy.command.replaceAll(session.id, shortOf(session.id))}</code>
                  ) : null}
                  {remedy.delays.length ? (
                    <div className="quiet small">
                      {remedy.delays.slice(0, SHOWN).map(({ session: other, after }) => (
                        <div key={other.session_id}>
                          {nameOf({ id: other.session_id, name: other.name })} of {other.owner} would start
                          {after ? ` by ${moment(after, now)}` : " later"}
                        </div>
                      ))}
                    </div>
                  ) : null}
                </li>
              ))}
            </ul>
            <p className="quiet small">
              Each change was tried in the scheduler on the present state
              {why.remedies.some(({ p50_earlier }) => p50_earlier !== null)
                ? ", except those with P50, which were forecast."
                : "."}
            </p>
          </div>
        ) : null}
        {why?.is_forecasting ? <p className="quiet small">Other changes are being forecast.</p> : null}
      </div>
    </section>
  );
}

/** The explanation, after the names of the sessions that its texts mention are known. */
async function load(id: string): Promise<SessionWhyQuery> {
  const found = await ask(SessionWhyDocument, { id });
  await learnNames(found.session_why?.remedies.flatMap(({ summary }) => idsIn(summary)) ?? []);
  return found;
}

interface OthersProps {
  readonly title: string;
  readonly others: readonly OtherSession[];
  readonly now: number;
  /** Also of those that are not listed. */
  readonly total?: number;
}

function Others({ title, others, now, total = others.length }: OthersProps) {
  if (!others.length) return null;
  return (
    <div>
      <h2>{title}</h2>
      <ul className="others">
        {others.slice(0, SHOWN).map((other) => (
          <li key={other.session_id}>
            <Link href={`/sessions/${other.session_id}`}>{nameOf({ id: other.session_id, name: other.name })}</Link> of{" "}
            {other.owner}
            <span className="quiet small"> {standingOf(other, now)}</span>
          </li>
        ))}
      </ul>
      {total > SHOWN ? <p className="quiet small">and {total - Math.min(SHOWN, others.length)} more</p> : null}
    </div>
  );
}
