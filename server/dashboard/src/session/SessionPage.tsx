import { useEffect, useState } from "react";
import { Link } from "wouter";
import type { Live } from "../api/live";
import { Together, useLoading } from "../api/Together";
import { useIdentity } from "../identity/me";
import { mayOpen } from "../identity/rights";
import { LogPanel } from "../log/LogPanel";
import { Empty } from "../parts/Empty";
import { Faults } from "../parts/Faults";
import { useDevices } from "./devices";
import type { Found } from "./found";
import { Heading } from "./Heading";
import { IdleNotice } from "./IdleNotice";
import { Kernels } from "./Kernels";
import type { Session } from "./loading";
import { Metrics } from "./Metrics";
import { Readings } from "./Readings";
import { Receipts } from "./Receipts";
import { Request } from "./Request";
import { Results } from "./Results";
import { isWaiting, nameOf } from "./standing";
import { Services } from "./Services";
import { Stats } from "./Stats";
import { useSteps } from "./stepping";
import { TaskLogs } from "./TaskLogs";
import { TaskMetrics } from "./TaskMetrics";
import { Tasks } from "./Tasks";
import { Timeline } from "./Timeline";
import { TerminalPanel } from "../terminal/TerminalPanel";
import { setTitle } from "../shell/title";
import { useSession } from "./watching";
import { Because } from "../queue/Because";
import { When } from "./When";
import { Why } from "./Why";

/** One session, from its submission to its end. */
export function SessionPage({ params }: { readonly params: { readonly id: string } }) {
  const live = useSession(params.id);
  if (!live.data) return <Faults of={live} />;
  const { session } = live.data;
  if (!session) {
    return (
      <Empty title="Session not found">
        <p>
          Ended sessions are deleted after a while, and you may not have access to others.{" "}
          <Link href="/sessions">Back to the sessions</Link>
        </p>
      </Empty>
    );
  }
  return (
    <Together key={session.id} className="stack">
      <Parts session={session} live={live} />
    </Together>
  );
}

function Parts({ session, live }: { readonly session: Session; readonly live: Live<Found> }) {
  const me = useIdentity();
  const devices = useDevices(session);
  const course = useSteps(session.id, session);
  const name = nameOf(session);
  useEffect(() => setTitle(name), [name]);
  // Its buttons depend on the role.
  useLoading(me === null);
  // An array has no output itself: each of its tasks has its own page.
  const hasRun = session.attempt > 0 && !session.tasks;
  // A terminal that was opened meanwhile stays readable when the attempt has ended.
  const [runningAttempt, setRunningAttempt] = useState(0);
  if (session.state === "running" && runningAttempt !== session.attempt) setRunningAttempt(session.attempt);
  return (
    <>
      <Faults of={live} />
      <Heading session={session} refresh={live.refresh} />
      <IdleNotice session={session} refresh={live.refresh} />
      <Receipts session={session} course={course} />
      {isWaiting(session.state) ? <Why session={session} refresh={live.refresh} /> : null}
      {isWaiting(session.state) ? <When session={session} /> : null}
      <div className="session-parts">
        <Timeline session={session} course={course} />
        <Request session={session} />
        <Kernels session={session} devices={devices.data ?? []} />
        {session.tasks ? <Tasks session={session} why={<Because session={session} />} /> : null}
      </div>
      {session.attempt > 0 ? <Stats session={session} devices={devices.data ?? []} /> : null}
      {session.tasks ? <TaskMetrics session={session} /> : null}
      {session.tasks ? <TaskLogs session={session} /> : null}
      <Services session={session} />
      {runningAttempt === session.attempt && hasRun && mayOpen(me, session) ? (
        <TerminalPanel
          key={session.attempt}
          sessionId={session.id}
          ranks={session.cluster_size}
          isRunning={session.state === "running"}
        />
      ) : null}
      {hasRun ? (
        <>
          <LogPanel sessionId={session.id} name={name} ranks={session.cluster_size} attempt={session.attempt} />
          <Metrics session={session} />
          <Results session={session} />
          <Readings session={session} devices={devices} />
        </>
      ) : null}
    </>
  );
}
