import { Link } from "wouter";
import { hoursText } from "../format/amounts";
import { useNow } from "../format/clock";
import { duration } from "../format/times";
import { words } from "../format/words";
import { CopyButton } from "../parts/CopyButton";
import { gpuHours } from "../queue/holding";
import type { Session } from "./loading";
import { aroundText, commandOf, writtenOf } from "./command";
import { asked, nameOf, tailOf } from "./standing";

/** The request of a session. */
export function Request({ session }: { readonly session: Session }) {
  const hours = gpuHours(session, useNow());
  const facts: readonly (readonly [string, string | null])[] = [
    ["run by", aroundText(writtenOf(session.command).around)],
    ["resources", asked(session)],
    ["elastic", session.cluster_size_min === null ? null : `at least ${session.cluster_size_min} of its kernels`],
    ["GPU-hours of the newest attempt", hours === null ? null : hoursText(hours)],
    ["memory per GPU", session.gpu_memory_gb ? `at least ${session.gpu_memory_gb} GB` : null],
    ["models", session.models.join(", ") || null],
    ["check before it", checkText(session.preflight)],
    ["labels", pairs(session.labels)],
    ["pool", session.pool],
    ["project", session.project],
    ["booking", session.booking],
    ["time limit", session.time_limit === null ? null : duration(session.time_limit * 1000)],
    ["estimate", session.estimated_duration === null ? null : duration(session.estimated_duration * 1000)],
    ["retries", session.max_retries ? `${session.retry_count} of ${session.max_retries} used` : null],
    ["preemptible", session.preemptible ? "yes" : null],
    ["run id", session.run_id],
    ["tags", tagsOf(session.tags)],
    ["environment", pairs(session.environment)],
    ["working directory", session.working_directory],
    ["uploaded files", session.workspace],
    ["activated environment", session.activates],
    ["image", session.image],
    ["shared with the project", session.shares_access ? "yes" : null],
  ];
  return (
    <section className="panel stack" aria-label="Request">
      <div className="row">
        <h2>Request</h2>
        <span className="end">
          {session.command.length ? <CopyButton text={commandOf(session.command)} what="The command" /> : null}
        </span>
      </div>
      {session.hidden.includes("command") ? (
        <p className="note">Only {session.owner} and admins may see the command.</p>
      ) : (
        <pre className="command" tabIndex={0}>
          {commandOf(session.command)}
        </pre>
      )}
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
              <Link href={`/sessions/${session.array_id}`}>{nameOf({ id: session.array_id, name: session.name })}</Link>
              , index {session.array_index}
            </dd>
          </div>
        ) : null}
      </dl>
    </section>
  );
}

/** The check before the command, and where it failed last. */
function checkText(check: Session["preflight"]): string | null {
  if (check === null) return null;
  const text = commandOf(check.command) || "the agent's own";
  if (check.failures === 0) return `${text}, within ${duration(check.time_limit * 1000)}`;
  const times = check.failures === 1 ? "once" : `${check.failures} times`;
  return `${text}; failed ${times}, no retry used; last on ${check.agent_id}: ${check.message}`;
}

/** Tags; one without a value is its name. */
function tagsOf(list: readonly { readonly name: string; readonly value: string }[]): string | null {
  return list.map(({ name, value }) => (value ? `${name}=${value}` : name)).join(", ") || null;
}

function pairs(list: readonly { readonly name: string; readonly value: string }[]): string | null {
  return list.map(({ name, value }) => `${name}=${value}`).join(", ") || null;
}
