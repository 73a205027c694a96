import { useMemo } from "react";
import { Link } from "wouter";
import type { Agent } from "../cluster/nodes";
import { quantities } from "../format/amounts";
import { useNow } from "../format/clock";
import { duration, moment } from "../format/times";
import { WithLinks } from "../queue/WithLinks";
import { tailOf } from "../session/standing";
import { inForm } from "./objections";
import { placesOf } from "./places";
import type { Answer, Planned } from "./previewing";
import { RightSize } from "./RightSize";

interface Props {
  readonly answer: Answer;
  readonly agents: readonly Agent[];
  /** The number of kernels that is requested; an elastic gang may start with fewer. */
  readonly size: number;
}

/** The scheduler's preview: whether and where the session would start now. */
export function Preview({ answer, agents, size }: Props) {
  const names = useMemo(
    () => new Map(agents.flatMap((agent) => agent.devices.map((device) => [device.id, device.name] as const))),
    [agents],
  );
  if ("message" in answer)
    return (
      <p className="note bad">
        It would be refused: <WithLinks text={inForm(answer.message)} />
      </p>
    );
  if (answer.failure)
    return (
      <p className="note bad">
        It would fail immediately: <WithLinks text={answer.failure.message} />
      </p>
    );
  const places = placesOf(answer.kernels, names);
  return (
    <div className={`note ${answer.starts_now ? "good" : "warn"}`}>
      {answer.starts_now ? (
        <p>
          It would start immediately, {fewerText(answer.kernels.length, size)}on {places.join("; ")}.
        </p>
      ) : (
        <Wait answer={answer} places={places} />
      )}
      <p className="quiet small">Each kernel requests {quantities(answer.slots)}.</p>
      {answer.tasks_starting > 1 ? <p>{answer.tasks_starting} of its tasks would start now.</p> : null}
      {answer.displaces.length ? <Displaced displaced={answer.displaces} /> : null}
      {answer.order_estimate ? (
        <p className="quiet small">
          Expected run time {duration(answer.order_estimate.seconds * 1000)}: {answer.order_estimate.explanation}.
        </p>
      ) : null}
      {answer.cost ? <p className="quiet small">{answer.cost.text}</p> : null}
      <RightSize of={answer.right_size} />
    </div>
  );
}

/** `with 13 of its 40 kernels, `; empty with all of them. */
function fewerText(count: number, size: number): string {
  return count < size ? `with ${count} of its ${size} kernels, ` : "";
}

function Wait({ answer, places }: { readonly answer: Planned; readonly places: readonly string[] }) {
  const now = useNow();
  return (
    <p>
      It would wait{answer.queue_position ? `, at position ${answer.queue_position}` : ""}
      {answer.waits ? (
        <>
          : <WithLinks text={answer.waits.message.replace(/\.$/, "")} />
        </>
      ) : null}
      .{" "}
      {answer.expected_start
        ? `It would start by ${moment(answer.expected_start, now)} at the latest${places.length ? `, on ${places.join("; ")}` : ""}.`
        : ""}
      {answer.estimated_start
        ? `It would wait until about ${moment(answer.estimated_start, now)}, if all sessions keep to their limits.`
        : ""}
    </p>
  );
}

function Displaced({ displaced }: { readonly displaced: Planned["displaces"] }) {
  return (
    <p>
      It would preempt {displaced.length === 1 ? "a session" : `${displaced.length} sessions`}:{" "}
      {displaced.map((one) => (
        <span key={one.session_id}>
          <Link href={`/sessions/${one.session_id}`}>{tailOf(one.session_id)}</Link> of {one.owner}
          {one.has_run === null ? "" : `, which has run ${duration(one.has_run * 1000)}`}{" "}
        </span>
      ))}
    </p>
  );
}
