import { Link } from "wouter";
import { useLive } from "../api/live";
import { words } from "../format/words";
import { loadHead } from "../queue/loading";

/** The first of the queue, and why they wait. */
export function Waiting() {
  const head = useLive(loadHead, "head", { wants: () => true, everyMs: 10_000 });
  const queue = head.data;
  return (
    <section className="panel brief" aria-label="What waits">
      <h2>
        <Link href="/queue">Waits</Link> <span className="quiet">{queue?.total ?? ""}</span>
      </h2>
      {queue?.total === 0 ? <p className="quiet">Nothing.</p> : null}
      <ol>
        {queue?.entries.map(({ position, session }) => (
          <li key={session.id}>
            <span className="quiet">{position}</span>{" "}
            <Link href={`/sessions/${session.id}`}>{session.name ?? `…${session.id.slice(-6)}`}</Link>{" "}
            <span className="quiet">
              {session.owner}, {session.waits ? words(session.waits.reason) : "not judged yet"}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
