import { LogPanel } from "../log/LogPanel";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { Because } from "../queue/Because";
import { useDevices } from "./devices";
import { Heading } from "./Heading";
import { Kernels } from "./Kernels";
import { Readings } from "./Readings";
import { Receipts } from "./Receipts";
import { Request } from "./Request";
import { isWaiting, nameOf } from "./standing";
import { useSteps } from "./stepping";
import { Tasks } from "./Tasks";
import { Timeline } from "./Timeline";
import { useSession } from "./watching";

/** One session, from its submission to its end. */
export function SessionPage({ params }: { readonly params: { readonly id: string } }) {
  const live = useSession(params.id);
  const devices = useDevices(live.data?.session ?? null);
  const course = useSteps(params.id, live.data?.session);
  if (!live.data) return <Faults of={live} />;
  const { session } = live.data;
  if (!session) {
    return (
      <Empty title="Session not found">
        <p>Ended sessions are deleted after a while, and you may not have access to others.</p>
      </Empty>
    );
  }
  // An array has no output itself: each of its tasks has its own page.
  const hasRun = session.attempt > 0 && !session.tasks;
  return (
    <div className="stack">
      <Faults of={live} />
      <Heading session={session} refresh={live.refresh} />
      <Receipts session={session} course={course} />
      {isWaiting(session.state) ? (
        <section className="panel" aria-label="Reason for waiting">
          <Because session={session} />
        </section>
      ) : null}
      <div className="session-parts">
        <Timeline session={session} course={course} />
        <Request session={session} />
        <Kernels session={session} devices={devices.data ?? []} />
        {session.tasks ? <Tasks session={session} /> : null}
      </div>
      {hasRun ? (
        <>
          <LogPanel
            sessionId={session.id}
            name={nameOf(session)}
            ranks={session.cluster_size}
            attempt={session.attempt}
          />
          <Readings session={session} devices={devices} />
        </>
      ) : null}
    </div>
  );
}
