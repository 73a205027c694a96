import { Button } from "react-aria-components";
import { wordsOf } from "../../cluster/agents";
import { moment } from "../../format/times";
import { Pick } from "../../parts/Pick";
import type { Wish } from "./AgentsTab";
import { assignPool, resume, setSchedulable } from "./deeds";
import type { AdminAgent } from "./loading";

interface Props {
  readonly agent: AdminAgent;
  readonly pools: readonly string[];
  readonly refresh: () => void;
  readonly onWish: (what: Wish["what"]) => void;
}

export function AgentRow({ agent, pools, refresh, onWish }: Props) {
  const act = (deed: Promise<boolean>) => void deed.then(refresh);
  const occupied = new Map(agent.occupied.map(({ slot, amount }) => [slot, amount]));
  const can = agent.capabilities;
  return (
    <tr>
      <td>
        <div className="nowrap">
          <b>{agent.id}</b> <span className={agent.state === "alive" ? "good" : "bad"}>{wordsOf(agent)}</span>
        </div>
        <div className="quiet small">
          {agent.hostname}, {agent.allocation_mode.replace("_", "-")}, since {moment(agent.state_changed_at)}
        </div>
        {agent.note ? <div className="small">{agent.note}</div> : null}
      </td>
      <td>
        <Pick
          label={`Pool of ${agent.id}`}
          value={agent.pool}
          options={[...new Set([...pools, agent.pool])]}
          onChange={(pool) => act(assignPool(agent.id, pool))}
        />
      </td>
      <td>
        <ul className="small nowrap">
          {agent.capacity.map(({ slot, amount }) => (
            <li key={slot}>
              {occupied.get(slot) ?? "0"} of {amount} {slot}
            </li>
          ))}
        </ul>
      </td>
      <td className="small">
        {agent.labels.map(({ name, value }) => (
          <div key={name}>
            {name}={value}
          </div>
        ))}
        <Button className="button plain" aria-label={`Edit the labels of ${agent.id}`} onPress={() => onWish("labels")}>
          Edit
        </Button>
      </td>
      <td className="small">
        devices {can.device_access === "cgroup" ? "enforced" : "by agreement"}
        <div className="quiet">
          stops by {can.kill}, limits by {can.limits}
          {can.switches_user ? "" : ", runs all as one user"}
        </div>
        <div className="quiet">{agent.software_version}</div>
      </td>
      <td className="nowrap">
        {agent.draining ? (
          <Button className="button" aria-label={`Resume ${agent.id}`} onPress={() => act(resume(agent.id))}>
            Resume
          </Button>
        ) : (
          <Button className="button" aria-label={`Drain ${agent.id}`} onPress={() => onWish("drain")}>
            Drain …
          </Button>
        )}{" "}
        <Button
          className="button plain"
          aria-label={`${agent.schedulable ? "Close" : "Open"} ${agent.id}`}
          onPress={() => act(setSchedulable(agent.id, !agent.schedulable))}
        >
          {agent.schedulable ? "Close" : "Open"}
        </Button>
        {agent.state === "lost" ? (
          <Button className="button danger" aria-label={`Release ${agent.id}`} onPress={() => onWish("release")}>
            Release …
          </Button>
        ) : null}
      </td>
    </tr>
  );
}
