import type { Session } from "./loading";

/** The tasks of a job array, by state. */
export function Tasks({ session }: { readonly session: Session }) {
  const { tasks } = session;
  if (!tasks) return null;
  const rows = [
    ["waiting", tasks.waiting.count, ""],
    ["active", tasks.active.count, tasks.max_parallel ? `${tasks.max_parallel} at a time` : ""],
    ["completed", tasks.completed.count, tasks.completed.indices],
    ["failed", tasks.failed.count, tasks.failed.indices],
    ["canceled", tasks.canceled.count, tasks.canceled.indices],
  ] as const;
  return (
    <section className="panel" aria-label="Tasks">
      <h2>Tasks</h2>
      <table>
        <tbody>
          {rows.map(([name, count, note]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="figure">{count}</td>
              <td className="quiet">{note}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
