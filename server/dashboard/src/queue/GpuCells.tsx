import { useMemo } from "react";
import { Link } from "wouter";
import { useLive } from "../api/live";
import { loadAgents } from "../cluster/loading";
import { gpus, hoursText } from "../format/amounts";
import { useNow } from "../format/clock";
import { asked } from "../session/standing";
import { figure, type Column } from "../parts/Table";
import { gpuHours, gpuUse, nodesOf } from "./holding";
import type { Row } from "./loading";

const NODES_SHOWN = 2;
const AGENTS_MS = 60_000;

/** The columns of `GpuCells`; an ended session does not use its GPUs. */
export function gpuColumns(isEnded = false): readonly (Column | string)[] {
  const use = figure("GPU use", "Utilization of its devices now; a device with several holders counts as a whole");
  const hours = figure("GPU-hours", "Of the newest attempt; shares count as fractions");
  return [figure("GPUs"), "Node", ...(isEnded ? [] : [use]), hours];
}

/** The node of each agent. */
export function useNodes(): ReadonlyMap<string, string> {
  const agents = useLive(loadAgents, "agents", { everyMs: AGENTS_MS, isShared: true }).data;
  return useMemo(() => new Map(agents?.map(({ id, node_id }) => [id, node_id])), [agents]);
}

interface Props {
  readonly session: Row;
  readonly nodes: ReturnType<typeof useNodes>;
  readonly isEnded?: boolean;
}

/** A session's GPUs, nodes, GPU use and GPU-hours. */
export function GpuCells({ session, nodes: known, isEnded }: Props) {
  const [use, nodes] = [gpuUse(session), nodesOf(session, known)];
  return (
    <>
      <td className="figure" data-label="GPUs" title={asked(session)}>
        {gpus(session.requested_gpus)}
      </td>
      <td title={nodes.join(", ")} data-label="on">
        {nodes.slice(0, NODES_SHOWN).map((node, index) => (
          <span key={node}>
            {index ? ", " : ""}
            <Link className="nowrap" href={`/?node=${encodeURIComponent(node)}`}>
              {node}
            </Link>
          </span>
        ))}
        {nodes.length > NODES_SHOWN ? ` and ${nodes.length - NODES_SHOWN} more` : nodes.length ? "" : "—"}
      </td>
      {isEnded ? null : (
        <td className="figure" data-label="GPU use">
          {use === null ? "—" : `${Math.round(use)} %`}
        </td>
      )}
      <td className="figure" data-label="GPU-hours">
        {isEnded ? hoursOf(session, 0) : <HoursNow session={session} />}
      </td>
    </>
  );
}

function HoursNow({ session }: Pick<Props, "session">) {
  return hoursOf(session, useNow());
}

function hoursOf(session: Row, now: number): string {
  const hours = gpuHours(session, now);
  return hours === null ? "—" : hoursText(hours);
}
