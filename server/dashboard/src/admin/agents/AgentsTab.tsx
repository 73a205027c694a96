import { Button } from "react-aria-components";
import { useLive } from "../../api/live";
import { NoAgents } from "../../cluster/NoAgents";
import { useIdentity } from "../../identity/me";
import { mayOperate } from "../../identity/rights";
import { Faults } from "../../parts/Faults";
import { useFormState } from "../../parts/formState";
import { ACTIONS, Table } from "../../parts/Table";
import { AgentRow } from "./AgentRow";
import { releaseLost, type Wish } from "./deeds";
import { Dialogue } from "../../parts/Dialogue";
import { DrainDialogue } from "./DrainDialogue";
import { LabelsDialogue } from "./LabelsDialogue";
import { loadAgents } from "./loading";
import { useIsShown } from "../../parts/shown";

/** Agents with their capabilities, and the actions of operators on them. */
export function AgentsTab() {
  const live = useLive(loadAgents, "admin-agents", { everyMs: 5_000 });
  const [wish, setWish] = useFormState<Wish | null>("agent", null);
  const isOperator = mayOperate(useIdentity());
  const close = () => setWish(null);
  const done = () => {
    close();
    live.refresh();
  };
  if (!live.data) return <Faults of={live} />;
  const { agents, pools } = live.data;
  if (agents.length === 0) return <NoAgents />;
  const wished = agents.find(({ id }) => id === wish?.id);
  return (
    <div className="panel scroll" tabIndex={0} role="region" aria-label="Agents">
      <Faults of={live} />
      <Table columns={["Agent", "Pool", "Held", "Labels", "Capabilities", ...(isOperator ? [ACTIONS] : [])]}>
        {agents.map((agent) => (
          <AgentRow
            key={agent.id}
            agent={agent}
            pools={pools}
            isOperator={isOperator}
            refresh={live.refresh}
            onWish={(what) => setWish({ what, id: agent.id })}
          />
        ))}
      </Table>
      {wished && wish?.what === "drain" ? <DrainDialogue id={wished.id} onClose={close} onDone={done} /> : null}
      {wished && wish?.what === "labels" ? <LabelsDialogue agent={wished} onClose={close} onDone={done} /> : null}
      {wished?.state === "lost" && wish?.what === "release" ? (
        <ReleaseDialogue id={wished.id} onClose={close} onDone={done} />
      ) : null}
    </div>
  );
}

function ReleaseDialogue({
  id,
  onClose,
  onDone,
}: {
  readonly id: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const isShown = useIsShown();
  const act = async () => {
    if ((await releaseLost(id)) && isShown()) onDone();
  };
  return (
    <Dialogue
      title={`Have the processes of ${id} ended?`}
      isOpen
      onClose={onClose}
      actions={
        <Button className="button danger" onPress={() => void act()}>
          They have ended: free its devices
        </Button>
      }
    >
      <p>
        The agent is lost; its jobs may still be running. If they are, its devices would be used by two jobs. Check the
        host first, or turn it off.
      </p>
    </Dialogue>
  );
}
