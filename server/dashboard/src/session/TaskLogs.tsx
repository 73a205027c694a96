import { useMemo, useState } from "react";
import { useSearchParams } from "wouter";
import { LogsTogether, type Part } from "../log/LogsTogether";
import { Choice } from "../parts/Choice";
import { Text } from "../parts/Text";
import type { Session } from "./loading";
import { numbersOf, SQUARES_MAX, squaresOf, type TaskState } from "./squares";

type Which = TaskState | "all";

/** The output of the tasks of an array together, those that failed first; the filter is in the address. */
export function TaskLogs({ session }: { readonly session: Session }) {
  const [search, setSearch] = useSearchParams();
  const { tasks } = session;
  const [typed, setTyped] = useState(search.get("tasks") ?? "");
  const squares = useMemo(() => (tasks ? squaresOf(tasks).filter(({ state }) => state !== "waiting") : []), [tasks]);
  if (!tasks || squares.length === 0) return null;
  const states = [...new Set(squares.map(({ state }) => state))];
  const wished = search.get("log") as Which | null;
  const which: Which = wished && [...states, "all"].includes(wished) ? wished : (states[0] ?? "all");
  const numbers = new Set(numbersOf(/^[\d,-]*$/.test(typed) ? typed : "", SQUARES_MAX));
  const parts = squares
    .filter(({ index, state }) => (numbers.size ? numbers.has(index) : which === "all" || state === which))
    .map(({ index }): Part => ({ id: `${session.id}_${index}`, rank: 0, label: String(index) }));
  const set = (name: string, value: string) =>
    setSearch(
      (old) => {
        const next = new URLSearchParams(old);
        if (value) next.set(name, value);
        else next.delete(name);
        return next;
      },
      { replace: true },
    );
  return (
    <section className="panel stack log" aria-label="Log of the tasks">
      <div className="row">
        <h2>Log</h2>
        <Choice
          label="Tasks to show"
          isBare
          isDisabled={numbers.size > 0}
          value={which}
          options={[...states, "all" as const].map((id) => ({
            id,
            text: id === "all" ? "all tasks" : `${id} (${tasks[id].count})`,
          }))}
          onChange={(next) => set("log", next)}
        />
        <div className="task-filter">
          <Text
            label="Tasks"
            value={typed}
            placeholder="or these: 3, 5-9"
            onChange={(text) => {
              const plain = text.replace(/\s+/g, "");
              setTyped(plain);
              set("tasks", plain);
            }}
          />
        </div>
      </div>
      <LogsTogether parts={parts} isGrowing={tasks.active.count > 0} />
    </section>
  );
}
