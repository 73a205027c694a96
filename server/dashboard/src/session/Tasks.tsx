import { Link } from "wouter";
import type { Session } from "./loading";
import { STATES, squaresOf, type ArrayTasks } from "./squares";

/** The tasks of a job array: their numbers by state, and a square for each. */
export function Tasks({ session }: { readonly session: Session }) {
  const { tasks } = session;
  if (!tasks) return null;
  return (
    <section className="panel stack" aria-label="Tasks">
      <h2>Tasks</h2>
      <p className="task-counts">
        {STATES.map((state) => (
          <span key={state}>
            <i className={`task task-${state}`} aria-hidden="true" /> {tasks[state].count} {state}
          </span>
        ))}
        {tasks.max_parallel ? <span className="quiet">{tasks.max_parallel} at a time</span> : null}
      </p>
      <Squares array={session.id} tasks={tasks} />
    </section>
  );
}

/** A square for each task, a link to its page once it has one: a task that waits has no session yet. */
export function Squares({ array, tasks }: { readonly array: string; readonly tasks: ArrayTasks }) {
  const squares = squaresOf(tasks);
  const all = STATES.reduce((sum, state) => sum + tasks[state].count, 0);
  return (
    <>
      <ul className="tasks" aria-label="Tasks by state">
        {squares.map(({ index, state }) => (
          <li key={index}>
            {state === "waiting" ? (
              <span className="task task-waiting" title={`task ${index}: waiting`} />
            ) : (
              <Link
                className={`task task-${state}`}
                href={`/sessions/${array}_${index}`}
                title={`task ${index}: ${state}`}
                aria-label={`task ${index}: ${state}`}
              />
            )}
          </li>
        ))}
      </ul>
      {all > squares.length ? <p className="quiet small">and {all - squares.length} more</p> : null}
    </>
  );
}
