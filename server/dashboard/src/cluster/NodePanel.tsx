import { memo, type KeyboardEvent } from "react";
import { bytes, plain } from "../format/amounts";
import { AgentState } from "./AgentState";
import { useBooked } from "./booked";
import { commonModel, shortModel } from "./choosing";
import { DeviceCell } from "./DeviceCell";
import { DeviceTile } from "./DeviceTile";
import { amountsOf, linksOf, type Node } from "./nodes";

interface Props {
  readonly node: Node;
  /** Whether devices are cells of a heat map. */
  readonly isHeat: boolean;
}

/** A node with its agents and devices. */
export const NodePanel = memo(function NodePanel({ node, isHeat }: Props) {
  const { used, capacity } = amountsOf(node.devices);
  const model = commonModel(node.devices);
  const booked = useBooked();
  const Shown = isHeat ? DeviceCell : DeviceTile;
  const pools = [...new Set(node.agents.map((agent) => agent.pool))].join(", ");
  return (
    <section className="node" aria-label={`Node ${node.hostname}`}>
      <header className="row">
        <h2>{node.hostname}</h2>
        {node.agents.map((agent) => (
          <AgentState key={agent.id} agent={agent} isNamed={agent.id !== node.hostname || node.agents.length > 1} />
        ))}
        {model ? <span className="small">{shortModel(model)}</span> : null}
        <span className="quiet small">pool {pools}</span>
        {linksOf(node).map((names) => (
          <span key={names} className="quiet small">
            NVLink {names}
          </span>
        ))}
        <span className="end quiet small figures">
          {node.devices.length ? <span>{`${plain(used)} of ${plain(capacity)} devices`}</span> : null}
          {node.cpu.capacity ? <span>{`${plain(node.cpu.used)} of ${plain(node.cpu.capacity)} cores`}</span> : null}
          {node.mem.capacity ? <span>{`${bytes(node.mem.used)} of ${bytes(node.mem.capacity)}`}</span> : null}
        </span>
      </header>
      {node.devices.length ? (
        <div
          className={isHeat ? "tiles heat" : "tiles"}
          role="group"
          aria-label={`Devices of ${node.hostname}`}
          onKeyDown={walk}
        >
          {node.devices.map((device, index) => (
            <Shown
              key={device.id}
              device={device}
              booking={booked.get(device.id)}
              hasModel={model === ""}
              where={node.hostname}
              isIdle={node.idle.has(device.id)}
              isStop={index === 0}
            />
          ))}
        </div>
      ) : (
        <p className="quiet">
          No GPU was found here. The agent looks for NVIDIA GPUs through the driver's library{" "}
          <code>libnvidia-ml.so.1</code>: if <code>nvidia-smi</code> lists GPUs on this host, restart the agent.
        </p>
      )}
    </section>
  );
});

/** Moves the focus: arrow keys from tile to tile, Home and End to the first and last. */
function walk(event: KeyboardEvent<HTMLElement>): void {
  const tiles = [...event.currentTarget.querySelectorAll<HTMLElement>(".tile")];
  const at = tiles.findIndex((tile) => tile === document.activeElement);
  const steps: Record<string, number> = {
    ArrowRight: at + 1,
    ArrowLeft: at - 1,
    ArrowDown: at + columns(tiles),
    ArrowUp: at - columns(tiles),
    Home: 0,
    End: tiles.length - 1,
  };
  const next = steps[event.key];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  tiles[next]?.focus();
}

function columns(tiles: readonly HTMLElement[]): number {
  const top = tiles[0]?.offsetTop;
  return tiles.filter((tile) => tile.offsetTop === top).length;
}
