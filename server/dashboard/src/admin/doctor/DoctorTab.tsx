import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, Refusal } from "../../api/client";
import { serverNow } from "../../api/time";
import { moment } from "../../format/times";
import { DoctorDocument, type DoctorQuery } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { showNotice } from "../../parts/notices";
import { Differences } from "./Differences";
import { Servers } from "./Servers";

type Examination = DoctorQuery["doctor"];

/** Comparison of store, agents and running processes; started by hand, as it queries every agent. */
export function DoctorTab() {
  const [found, setFound] = useState<Examination | null>(null);
  const [at, setAt] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const examine = async () => {
    setBusy(true);
    try {
      setFound((await ask(DoctorDocument, {})).doctor);
      setAt(serverNow());
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      showNotice({ tone: "bad", text: error.message });
    }
    setBusy(false);
  };
  return (
    <div className="stack">
      <Servers />
      <div className="row">
        <Button className="button main" isDisabled={isBusy} onPress={() => void examine()}>
          Examine all agents
        </Button>
        <span className="quiet" role="status">
          {found
            ? `${found.asked.length} ${found.asked.length === 1 ? "agent" : "agents"} examined at ${moment(at)}`
            : "An examination changes nothing."}
        </span>
      </div>
      {found?.silent.length ? <p className="note warn">Unreachable: {found.silent.join(", ")}</p> : null}
      {found?.differences.length === 0 ? (
        <Empty title="No differences">
          <p>The store, the agents and the processes on the devices agree.</p>
        </Empty>
      ) : null}
      {found?.differences.length ? <Differences of={found.differences} /> : null}
    </div>
  );
}
