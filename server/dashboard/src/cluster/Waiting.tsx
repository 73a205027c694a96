import { Link } from "wouter";
import { useLive } from "../api/live";
import { words } from "../format/words";
import { loadHead } from "../queue/loading";

/** The head of the queue, with reasons. */
export function Waiting() {
  const head = useLive(loadHead, "head", { wants: () => true, everyMs: 10_000 });
  const queue = head.data;
  const more = queue ? queue.total - queue.entries.length : 0;
  return (
    <section className="panel brief" aria-label="Waiting">
      <h2>
        <Link href="/sessions">Waiting</Link> <span className="quiet">{queue?.total ?? ""}</span>
      </h2>
      {queue?.idle ? (
        <p className="small" role="status">
          <span className="badge fill-warn">quota</span> {queue.idle}
        </p>
      ) : null}
      {queue?.total === 0 ? <p className="quiet">None.</p> : null}
      <ol>
        {queue?.entries.map(({ position, session }) => (
          <li key={session.id}>
            <span className="quiet">{position ?? "–"}</span>{" "}
            <Link href={`/sessions/${session.id}`}>{session.name ?? `…${session.id.slice(-6)}`}</Link>{" "}
            <span className="quiet">
              {session.owner}, {session.waits ? words(session.waits.reason) : "not considered yet"}
            </span>
          </li>
        ))}
      </ol>
      {more > 0 ? (
        <p>
          <Link href="/sessions">and {more} more</Link>
        </p>
      ) : null}
    </section>
  );
}
