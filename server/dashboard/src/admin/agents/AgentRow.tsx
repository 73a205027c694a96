import { Button } from "react-aria-components";
import { wordsOf } from "../../cluster/agents";
import { amountOf, plain, quantity } from "../../format/amounts";
import { moment } from "../../format/times";
import { Pick } from "../../parts/Pick";
import { assignPool, resume, setSchedulable, type Wish } from "./deeds";
import type { AdminAgent } from "./loading";

interface Props {
  readonly agent: AdminAgent;
  readonly pools: readonly string[];
  /** Whether the user may change agents. */
  readonly isOperator: boolean;
  readonly refresh: () => void;
  readonly onWish: (what: Wish["what"]) => void;
}

const CGROUP_STOP = "Every process of a job is stopped, also detached ones (cgroup)";
const CGROUP_LIMIT = "Memory is limited for a job as a whole (cgroup)";
const STOPS: Readonly<Record<string, string>> = {
  cgroup_v2: CGROUP_STOP,
  cgroup_v1: CGROUP_STOP,
  subreaper: "Processes of a job are followed and stopped, without cgroups",
};
const LIMITS: Readonly<Record<string, string>> = {
  cgroup_v2: CGROUP_LIMIT,
  cgroup_v1: CGROUP_LIMIT,
  rlimits: "Memory is limited per process (rlimits)",
};

export function AgentRow({ agent, pools, isOperator, refresh, onWish }: Props) {
  const act = (deed: Promise<boolean>) => void deed.then(refresh);
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
        {isOperator ? (
          <Pick
            label={`Pool of ${agent.id}`}
            value={agent.pool}
            options={[...new Set([...pools, agent.pool])]}
            onChange={(pool) => act(assignPool(agent.id, pool))}
          />
        ) : (
          agent.pool
        )}
      </td>
      <td>
        <ul className="small nowrap">
          {heldTexts(agent).map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </td>
      <td className="small">
        {agent.labels.map(({ name, value }) => (
          <div key={name}>
            {name}={value}
          </div>
        ))}
        {isOperator ? (
          <Button
            className="button plain"
            aria-label={`Edit the labels of ${agent.id}`}
            onPress={() => onWish("labels")}
          >
            Edit
          </Button>
        ) : null}
      </td>
      <td className="small sentence">
        Devices {can.device_access === "cgroup" ? "isolated by the kernel" : "isolated by variables only"}
        <div className="quiet">
          {STOPS[can.kill] ?? `Jobs are stopped by ${can.kill}`}.{" "}
          {LIMITS[can.limits] ?? `Memory is limited by ${can.limits}`}.{" "}
          {can.switches_user ? "Can run jobs as their owners' Unix accounts." : "All jobs run as one Unix account."}
        </div>
        {can.images.length ? <div className="quiet">Holds the images {can.images.join(", ")}.</div> : null}
        <div className="quiet">{agent.software_version}</div>
      </td>
      {isOperator ? (
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
            aria-label={`${agent.schedulable ? "Make unschedulable" : "Make schedulable"}: ${agent.id}`}
            onPress={() => act(setSchedulable(agent.id, !agent.schedulable))}
          >
            {agent.schedulable ? "Make unschedulable" : "Make schedulable"}
          </Button>
          {agent.state === "lost" ? (
            <Button className="button danger" aria-label={`Release ${agent.id}`} onPress={() => onWish("release")}>
              Release …
            </Button>
          ) : null}
        </td>
      ) : null}
    </tr>
  );
}

/** `2.5 of 8 GPUs`, `2 GiB of 64 GiB`; whole devices and shares are amounts of the same devices. */
function heldTexts({ capacity, occupied }: AdminAgent): string[] {
  const held = new Map(occupied.map(({ slot, amount }) => [slot, amount]));
  const slots = new Set(capacity.map(({ slot }) => slot));
  return capacity
    .filter(({ slot }) => !slots.has(slot.replace(/\.shares$/, ".device")) || !slot.endsWith(".shares"))
    .map(({ slot, amount }) => {
      const shares = slot.endsWith(".device") ? (held.get(slot.replace(/device$/, "shares")) ?? "0") : "0";
      const used = held.get(slot) ?? "0";
      const text = slot === "mem" ? quantity(slot, used) : plain(amountOf(used) + amountOf(shares));
      return `${text} of ${quantity(slot, amount)}`;
    });
}
