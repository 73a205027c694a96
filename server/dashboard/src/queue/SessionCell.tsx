import { Link } from "wouter";
import { colourClass } from "../format/colours";
import { nameOf, tailOf } from "../session/standing";
import type { Row } from "./loading";

/** The name, owner and project of a session. */
export function SessionCell({ session }: { readonly session: Row }) {
  const waiting = session.tasks?.waiting.count ?? 0;
  return (
    <div className="session-cell">
      <i className={colourClass(session.id)} aria-hidden="true" />
      <div>
        <Link href={`/sessions/${session.id}`}>
          <b>{nameOf(session)}</b>
        </Link>{" "}
        {session.name ? <code className="quiet">{tailOf(session.id)}</code> : null}
        {session.tasks ? (
          <span className="badge fill-quiet">array, {waiting + session.tasks.active.count} tasks left</span>
        ) : null}
        <div className="quiet small">
          {session.owner} · {session.project}
        </div>
      </div>
    </div>
  );
}
