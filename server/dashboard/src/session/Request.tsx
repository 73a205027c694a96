import { Link } from "wouter";
import { duration } from "../format/times";
import { words } from "../format/words";
import type { Session } from "./loading";
import { asked, tailOf } from "./standing";

/** The request of a session. */
export function Request({ session }: { readonly session: Session }) {
  const facts: readonly (readonly [string, string | null])[] = [
    ["resources", asked(session)],
    ["memory per GPU", session.gpu_memory_gb ? `at least ${session.gpu_memory_gb} GB` : null],
    ["models", session.models.join(", ") || null],
    ["labels", pairs(session.labels)],
    ["pool", session.pool],
    ["project", session.project],
    ["time limit", session.time_limit === null ? null : duration(session.time_limit * 1000)],
    ["estimate", session.estimated_duration === null ? null : duration(session.estimated_duration * 1000)],
    ["retries", session.max_retries ? `${session.retry_count} of ${session.max_retries} used` : null],
    ["preemptible", session.preemptible ? "yes" : null],
    ["run id", session.run_id],
    ["tags", pairs(session.tags)],
    ["environment", pairs(session.environment)],
    ["working directory", session.working_directory],
  ];
  return (
    <section className="panel stack" aria-label="Request">
      <h2>Request</h2>
      <pre className="command">{commandOf(session.command)}</pre>
      <dl className="facts">
        {facts.map(([name, value]) =>
          value ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ) : null,
        )}
        {session.depends_on.length ? (
          <div>
            <dt>waits for</dt>
            <dd>
              {session.depends_on.map((one) => (
                <div key={one.session_id}>
                  <Link href={`/sessions/${one.session_id}`}>{tailOf(one.session_id)}</Link> {words(one.condition)},{" "}
                  {one.state ?? "no longer kept"}
                </div>
              ))}
            </dd>
          </div>
        ) : null}
        {session.array_id ? (
          <div>
            <dt>task of</dt>
            <dd>
              <Link href={`/sessions/${session.array_id}`}>{tailOf(session.array_id)}</Link>, index{" "}
              {session.array_index}
            </dd>
          </div>
        ) : null}
      </dl>
    </section>
  );
}

/** A shell script as it was written, or arguments with quotes where they are needed. */
export function commandOf(command: readonly string[]): string {
  const [shell, flag, script] = command;
  if (command.length === 3 && shell === "/bin/sh" && flag === "-c" && script !== undefined) return script;
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}

function pairs(list: readonly { readonly name: string; readonly value: string }[]): string | null {
  return list.map(({ name, value }) => `${name}=${value}`).join(", ") || null;
}
