import { useState } from "react";
import { Button } from "react-aria-components";
import { ask, Refusal } from "../../api/client";
import { moment } from "../../format/times";
import { DoctorDocument, type DoctorQuery } from "../../generated/graphql";
import { Empty } from "../../parts/Empty";
import { tellAll } from "../../parts/notices";
import { Differences } from "./Differences";
import { Servers } from "./Servers";

type Examination = DoctorQuery["doctor"];

/** Whether the store, the agents and what runs on the devices agree; asked by hand, for it asks every agent. */
export function DoctorTab() {
  const [found, setFound] = useState<Examination | null>(null);
  const [at, setAt] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    try {
      setFound((await ask(DoctorDocument, {})).doctor);
      setAt(Date.now());
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      tellAll({ tone: "bad", text: error.message });
    }
    setBusy(false);
  };
  return (
    <div className="stack">
      <Servers />
      <div className="row">
        <Button className="button main" isDisabled={isBusy} onPress={() => void look()}>
          Ask every agent now
        </Button>
        <span className="quiet" role="status">
          {found ? `${found.asked.length} answered at ${moment(at)}` : "Nothing is changed by it."}
        </span>
      </div>
      {found?.silent.length ? <p className="note warn">Not answered: {found.silent.join(", ")}</p> : null}
      {found?.differences.length === 0 ? (
        <Empty title="All agree">
          <p>What the store holds, what the agents have and what runs on the devices is the same.</p>
        </Empty>
      ) : null}
      {found?.differences.length ? <Differences of={found.differences} /> : null}
    </div>
  );
}
