import type { ReactNode } from "react";
import { Link, useSearch } from "wouter";
import type { Session } from "./loading";
import { STATES, squaresOf, stateOf, type ArrayTasks } from "./squares";

interface TasksProps {
  readonly session: Session;
  /** Why tasks of the array wait. */
  readonly why: ReactNode;
}

/** The filter of the Sessions page for the tasks in each state. */
const FILTERS = { failed: "failed", canceled: "canceled", active: "running", completed: "completed" } as const;

/** The tasks of a job array: their numbers by state, and a square for each. */
export function Tasks({ session, why }: TasksProps) {
  const { tasks } = session;
  if (!tasks) return null;
  return (
    <section className="panel stack" aria-label="Tasks">
      <h2>Tasks</h2>
      <p className="task-counts">
        {STATES.map((state) => (
          <span key={state}>
            <i className={`task task-${state}`} aria-hidden="true" />{" "}
            {tasks[state].count && state !== "waiting" ? (
              <Link href={`/sessions?state=${FILTERS[state]}&array=${session.id}`}>
                {tasks[state].count} {state}
              </Link>
            ) : (
              `${tasks[state].count} ${state}`
            )}
          </span>
        ))}
        {tasks.max_parallel ? <span className="quiet">{tasks.max_parallel} at a time</span> : null}
      </p>
      <Squares array={session.id} tasks={tasks} />
      <ChosenTask array={session.id} tasks={tasks} why={why} />
    </section>
  );
}

/** The task that the address names (`?task=8`): that it waits and why, or its page once it has one. */
export function ChosenTask({ array, tasks, why }: Pick<TasksProps, "why"> & Parameters<typeof Squares>[0]) {
  const index = new URLSearchParams(useSearch()).get("task");
  const state = index === null ? null : stateOf(tasks, Number(index));
  if (state === null) return null;
  if (state !== "waiting") {
    return (
      <p className="chosen-task">
        <Link href={`/sessions/${array}_${index}`}>
          Task {index}: {state}
        </Link>
      </p>
    );
  }
  return (
    <div className="chosen-task" role="status">
      <p>Task {index} waits. It has a page of its own once it starts.</p>
      {why}
    </div>
  );
}

/** A square for each task. It leads to the task's page; a task that waits has none yet, so its square leads to the
 * reason on the array's page. */
export function Squares({ array, tasks }: { readonly array: string; readonly tasks: ArrayTasks }) {
  const squares = squaresOf(tasks);
  const all = STATES.reduce((sum, state) => sum + tasks[state].count, 0);
  return (
    <>
      <ul className="tasks" aria-label="Tasks by state">
        {squares.map(({ index, state }) => (
          <li key={index}>
            <Link
              className={`task task-${state}`}
              href={state === "waiting" ? `/sessions/${array}?task=${index}` : `/sessions/${array}_${index}`}
              title={`task ${index}: ${state}`}
              aria-label={`task ${index}: ${state}`}
            />
          </li>
        ))}
      </ul>
      {all > squares.length ? <p className="quiet small">and {all - squares.length} more</p> : null}
    </>
  );
}
