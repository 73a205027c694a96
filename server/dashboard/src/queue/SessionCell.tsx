import { Link } from "wouter";
import { colourClass } from "../format/colours";
import { arrayOf, nameOf, tailOf } from "../session/standing";
import type { Row } from "./loading";

/** The name, owner and project of a session; of a task also its array. */
export function SessionCell({ session }: { readonly session: Row }) {
  const left = session.tasks ? session.tasks.waiting.count + session.tasks.active.count : 0;
  const array = arrayOf(session.id);
  return (
    <div className="session-cell">
      <i className={colourClass(session.id)} aria-hidden="true" />
      <div>
        <Link href={`/sessions/${session.id}`}>
          <b>{nameOf(session)}</b>
        </Link>{" "}
        {session.name ? <code className="quiet">{tailOf(session.id)}</code> : null}
        {session.tasks ? (
          <span className="badge fill-quiet">
            {left === 0 ? "array" : left === 1 ? "array, 1 task left" : `array, ${left} tasks left`}
          </span>
        ) : null}
        <div className="quiet small">
          {session.owner} · {session.project}
          {array ? (
            <>
              {" "}
              · <Link href={`/sessions/${array}`}>array {nameOf({ id: array, name: session.name })}</Link>
            </>
          ) : null}
        </div>
      </div>
    </div>
  );
}
